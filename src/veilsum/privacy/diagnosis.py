"""Diagnosis of a graph: why a network fails, what mends it, what would help further.

A network withstands t colluders if no t parties can cut it: kappa > t. If they can, the
diagnosis names the cuts, proposes links that raise kappa to t + 1, and says by how
many, at most, it may have missed the fewest. On the mended network it then looks for
the one further link that lowers epsilon = 1 / (4 sigma^2 mu2) most, whatever sigma is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb, inf
from typing import Any

import numpy as np
import scipy

from veilsum.graphs.augmentation import (
    Augmentation,
    Link,
    augment_graph,
    graph_with_links,
)
from veilsum.graphs.connectivity import (
    cut_parties,
    graph_components,
    smallest_cuts,
    vertex_connectivity,
)
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.numbers.arrays import listed_names
from veilsum.privacy.remaining import mu2_values_without_coalitions
from veilsum.privacy.worst_case import check_tolerated_colluders, worst_mu2
from veilsum.progress import (
    Opening,
    Progress,
    silent_progress,
    staged_progress,
    watch_progress,
)
from veilsum.showing import Block, Renderable, Rendering, ShownItems

NamedLink = tuple[str, str]

# Cuts of two or more parties that are shown; single cut parties are all shown.
MOST_CUTS = 10
# Links that are evaluated exactly, and how many of those that help are returned.
MOST_TRIED, MOST_HELPFUL = 8, 3
# Above this many parties each evaluation takes seconds: fewer links are tried, ...
MANY_PARTIES, FEWER_TRIED = 80, 3
# ... and above this many none.
MOST_PARTIES = 250
# Coalitions tested for one link before settling for a bound.
MOST_WORK = 20_000
# So few coalitions are all looked at, once for all links that are tried.
FEW_COALITIONS = 1000
# Coalitions that are looked at together, the weakest first.
AT_ONCE = 8
# A ratio this close to 1 is no help.
NO_HELP = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class DiagnosisCut:
    """Parties whose loss takes the network apart, and the pieces that are left."""

    parties: tuple[str, ...]
    pieces: tuple[tuple[str, ...], ...]

    @property
    def sentence(self) -> str:
        pieces = " from ".join(
            f"{{{listed_names(one, most=5)}}}" for one in self.pieces
        )
        if not self.parties:
            return f"no link joins {pieces.replace(' from ', ' and ')}"
        verb = "separates" if len(self.parties) == 1 else "separate"
        return f"{listed_names(self.parties, most=5)} {verb} {pieces}"


@dataclass(frozen=True, slots=True)
class HelpfulLink:
    """A further link, and epsilon with it divided by epsilon without it."""

    link: NamedLink
    epsilon_ratio: float
    mu2_before: float
    mu2_after: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Diagnosis(Renderable):
    """Result of the doctor's examination of a network.

    Attributes:
        safe: whether any t parties may collude: kappa > t. At least two honest parties
            are then left, and connected.
        tolerate: t.
        vertex_connectivity: kappa, n - 1 for a complete graph.
        cuts: the smallest cuts, if t parties can make them: all cut parties where one
            suffices, up to ten cuts otherwise.
        links_to_add: links that raise the connectivity to t + 1.
        gap: how many of these could be saved at most; 0 where they are proved fewest.
        helpful_links: further links for the mended network, the most helpful first;
            empty where no tried link lowers epsilon by itself, and on networks of more
            than 250 parties, where none is tried.
        repaired: the network with `links_to_add`.
    """

    safe: bool
    tolerate: int
    vertex_connectivity: int
    cuts: tuple[DiagnosisCut, ...]
    links_to_add: tuple[NamedLink, ...]
    gap: int
    helpful_links: tuple[HelpfulLink, ...]
    repaired: Topology = field(repr=False)

    @property
    def verdict(self) -> str:
        """Whether the network holds, in a sentence."""
        kappa, t = self.vertex_connectivity, self.tolerate
        if self.safe:
            return (
                f"safe: no {t} colluding parties can cut this network; that takes "
                f"{kappa} (vertex connectivity)"
            )
        if kappa == 0:
            return "not safe: the network is in pieces; nobody need collude"
        who = "one party alone" if kappa == 1 else f"{kappa} parties"
        return (
            f"not safe: {who} can cut this network (vertex connectivity {kappa}), and "
            f"{t} may collude"
        )

    def showing(self) -> Rendering:
        """Return the verdict, the cuts, and what mends and helps."""
        blocks: list[Block] = []
        if self.cuts:
            lines = [cut.sentence for cut in self.cuts]
            blocks.append(ShownItems("Cuts:", lines, "--json, or .cuts"))
        if self.links_to_add:
            count = len(self.links_to_add)
            few = f"at least {count - self.gap} are needed"
            many = f"{count}; {few}" if self.gap else f"{count}, the fewest"
            lines = [" - ".join(one) for one in self.links_to_add]
            title = f"Links to add ({many}):"
            blocks.append(ShownItems(title, lines, "--json, or .links_to_add"))
        then = " then" if self.links_to_add else ""
        helpful = [
            f"{' - '.join(one.link)}: epsilon times {one.epsilon_ratio:.3f}"
            for one in self.helpful_links
        ]
        if helpful:
            title = f"One further link that would{then} lower epsilon:"
            blocks.append(ShownItems(title, helpful))
        else:
            blocks.append(f"No single link that was tried would{then} lower epsilon.")
        return Rendering(self.verdict, blocks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "safe": self.safe,
            "tolerate": self.tolerate,
            "vertex_connectivity": self.vertex_connectivity,
            "cuts": [
                (
                    {
                        "parties": list(cut.parties),
                        "separates": [list(piece) for piece in cut.pieces],
                    }
                )
                for cut in self.cuts
            ],
            "links_to_add": [list(link) for link in self.links_to_add],
            "gap": self.gap,
            "helpful_links": [
                (
                    {
                        "link": list(link.link),
                        "epsilon_ratio": link.epsilon_ratio,
                        "mu2_before": link.mu2_before,
                        "mu2_after": link.mu2_after,
                    }
                )
                for link in self.helpful_links
            ],
        }


def examine(
    topology: GraphLike, *, tolerate: int, progress: Progress = None
) -> Diagnosis:
    """Return whether t colluders can cut the network, and what to do about it.

    Args:
        topology: the network.
        tolerate: t, how many parties may collude.
        progress: None for a bar, False for none, or a function of done and total, which
            begins again with every stage.

    >>> found = examine(Topology.family("star:4"), tolerate=1)
    >>> found.safe, found.cuts[0].parties, found.links_to_add
    (False, ('0',), (('1', '2'), ('1', '3')))
    """
    topology = Topology.of(topology)
    check_tolerated_colluders(topology, tolerate)
    with watch_progress(progress) as opening:
        return _diagnose_topology(topology, tolerate, opening or silent_progress)


def _diagnose_topology(
    topology: Topology, tolerate: int, opening: Opening
) -> Diagnosis:
    kappa = vertex_connectivity(topology)
    safe = kappa > tolerate
    mended = _mend_diagnosed_topology(topology, kappa, tolerate, opening)
    repaired = graph_with_links(topology, mended.links)
    return Diagnosis(
        safe=safe,
        tolerate=tolerate,
        vertex_connectivity=kappa,
        cuts=() if safe else _diagnosed_cuts(topology, tolerate),
        links_to_add=tuple(
            _named_diagnosis_link(topology, link) for link in mended.links
        ),
        gap=mended.gap,
        helpful_links=_links_that_lower_epsilon(repaired, tolerate, opening),
        repaired=repaired,
    )


def _mend_diagnosed_topology(
    topology: Topology, kappa: int, tolerate: int, opening: Opening
) -> Augmentation:
    if kappa > tolerate:
        return Augmentation((), 0)
    return augment_graph(topology, connectivity=tolerate + 1, progress=opening)


def _named_diagnosis_link(topology: Topology, link: Link) -> NamedLink:
    return topology.parties[link[0]], topology.parties[link[1]]


def _diagnosed_cuts(topology: Topology, tolerate: int) -> tuple[DiagnosisCut, ...]:
    """Return the smallest cuts; of a network in pieces, its cut parties too."""
    cuts = list(smallest_cuts(topology, most=MOST_CUTS))
    if cuts == [()] and tolerate > 0:
        cuts += [(v,) for v in cut_parties(topology)]
    return tuple(_diagnosed_cut(topology, cut) for cut in cuts)


def _diagnosed_cut(topology: Topology, cut: Sequence[int]) -> DiagnosisCut:
    left = topology.without(cut)
    pieces = tuple(left.names(part) for part in graph_components(left))
    return DiagnosisCut(topology.names(cut), tuple(sorted(pieces, key=len)))


def _links_that_lower_epsilon(
    topology: Topology, tolerate: int, opening: Opening
) -> tuple[HelpfulLink, ...]:
    """Try the links that promise most; return those that lower epsilon, best first."""
    if topology.n_parties > MOST_PARTIES:
        return ()
    before = worst_mu2(
        topology,
        tolerate=tolerate,
        most_work=MOST_WORK,
        progress=staged_progress(opening, "coalitions"),
    )
    if before.lower is None:
        return ()
    links = _links_promising_lower_epsilon(topology, before.coalition)
    advance = opening("further links", len(links))
    if comb(topology.n_parties, tolerate) <= FEW_COALITIONS:
        after = _worst_with_each(topology, tolerate, links)
    else:
        after = (_worst_coalition_with_link(topology, tolerate, link) for link in links)
    tried: list[HelpfulLink] = []
    advance(0)
    for link, mu2 in zip(links, after, strict=True):
        # More links never lower any mu2: `before` is proved if nothing better is.
        best = max(before.lower, mu2)
        ratio = before.lower / best
        tried.append(
            HelpfulLink(
                _named_diagnosis_link(topology, link), ratio, before.lower, best
            )
        )
        advance(len(tried))
    helpful = [link for link in tried if link.epsilon_ratio < NO_HELP]
    # Rounding differs between machines and must not decide the order.
    helpful.sort(key=lambda link: (round(link.epsilon_ratio, 9), link.link))
    return tuple(helpful[:MOST_HELPFUL])


def _worst_coalition_with_link(topology: Topology, tolerate: int, link: Link) -> float:
    """Return what is proved of the weakest honest graph with a further link."""
    longer = graph_with_links(topology, [link])
    found = worst_mu2(longer, tolerate=tolerate, most_work=MOST_WORK)
    return found.lower or 0.0


def _worst_with_each(
    topology: Topology, tolerate: int, links: Sequence[Link]
) -> Iterator[float]:
    """Yield the same for several links, from all coalitions.

    A link raises some mu2 and lowers none: coalitions that leave more than the weakest
    with the link did without it already need not be looked at again.
    """
    sets = list(combinations(range(topology.n_parties), tolerate))
    adjacency = topology.adjacency.toarray()
    values = mu2_values_without_coalitions(adjacency, sets)
    order = np.argsort(values, kind="stable")
    for i, j in links:
        longer = adjacency.copy()
        longer[i, j] = longer[j, i] = longer[i, j] + 1.0
        worst = inf
        for low in range(0, len(order), AT_ONCE):
            some = order[low : low + AT_ONCE].tolist()
            if values[some[0]] >= worst:
                break
            worst = min(
                worst, *mu2_values_without_coalitions(longer, [sets[k] for k in some])
            )
        yield float(worst)


def _links_promising_lower_epsilon(
    topology: Topology, coalition: Sequence[int]
) -> list[Link]:
    """Return absent links between honest parties, by their gap in the Fiedler vector.

    A link i - j adds (x_i - x_j)^2 to the energy of the weakest direction x.
    """
    honest = [v for v in range(topology.n_parties) if v not in coalition]
    left = topology.induced(honest)
    _, vectors = scipy.linalg.eigh(left.laplacian.toarray(), subset_by_index=[0, 1])
    x = vectors[:, 1]
    gaps = np.triu(np.abs(x[:, None] - x[None, :]), k=1)
    gaps[left.adjacency.toarray() > 0] = 0.0
    most = MOST_TRIED if topology.n_parties <= MANY_PARTIES else FEWER_TRIED
    best = np.argsort(-gaps.round(9), axis=None, kind="stable")[:most]
    i, j = np.unravel_index(best, gaps.shape)
    pairs = zip(i.tolist(), j.tolist(), strict=True)
    return [(honest[a], honest[b]) for a, b in pairs if gaps[a, b] > 0]
