"""Figures of `.plot()`, for results and for networks and guarantees before a run.

A result draws itself, in its own package: its `draw_with` gets the module of figures.
Networks and privacy guarantees are drawn here, since their packages contain only code
that protects privacy.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial, singledispatch
from inspect import signature
from math import isfinite
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.graphs.connectivity import minimum_vertex_cut
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.numbers.arrays import listed_names, nearest_name
from veilsum.privacy.allocation import Allocation
from veilsum.privacy.conversions import Leakage, attacker_success
from veilsum.privacy.diagnosis import Diagnosis
from veilsum.privacy.divergence import coalition_dangers
from veilsum.privacy.guarantee import Guarantee
from veilsum.privacy.lattice import lattice_success
from veilsum.privacy.planner import NetworkPlan, Plans
from veilsum.privacy.worst_case import worst_mu2
from veilsum.report import figures
from veilsum.showing import counted_words

# What a cut is looked for in, and how much work each number of colluders is worth.
MOST_CUT, MOST_WORK = 250, 20_000


def draw(shown: object, **options: Any) -> Any:
    """Return a matplotlib figure of a result.

    Args:
        shown: a result, a guarantee, a plan, a diagnosis, a network, an audit, ...
        options: `title` for nearly all; what else there is depends on the kind, and
            stands at `plot` of results.

    >>> from veilsum.privacy.conversions import Leakage
    >>> [axis.get_ylabel() for axis in draw(Leakage(0.25)).axes]
    ['hits']
    """
    own = getattr(shown, "draw_with", None)
    if own is None:
        way = partial(draw_before_a_run.dispatch(type(shown)), shown)
    else:
        way = partial(own, figures)
    known = [*signature(way).parameters]
    for name in options:
        if name not in known:
            raise InvalidInputError(
                f"a figure of a {type(shown).__name__} has no option {name!r}; "
                f"{nearest_name(name, known)}it takes "
                f"{listed_names(known) or 'none'}",
                code="unknown-figure-option",
            )
    return way(**options)


@singledispatch
def draw_before_a_run(shown: object) -> Any:
    """Return the figure of a network, a guarantee or a plan."""
    raise InvalidInputError(
        f"there is no figure of a {type(shown).__name__}: figures are drawn of "
        "results, networks, guarantees, plans and audits",
        code="no-figure",
    )


# Networks, and what they promise

DANGER = (
    "Darker: an exchange of this party's value with another's shows more; its "
    "divergence is gap^2 R / ({} sigma^2), R at most {:.3g} here."
)


@draw_before_a_run.register
def _(
    topology: Topology,
    *,
    corrupted: Iterable[Hashable] = (),
    title: str | None = None,
) -> Any:
    bad = topology.names(topology.indices(corrupted))
    found = coalition_dangers(topology, corrupted=bad)
    cut: tuple[str, ...] = ()
    said = ""
    if topology.n_parties <= MOST_CUT:
        smallest = minimum_vertex_cut(topology)
        if smallest is not None:
            cut = topology.names(smallest)
            number = counted_words(len(cut), "party")
            said = f"The loss of {number} can take it apart. "
    links = counted_words(topology.n_edges, "link")
    usual = f"{counted_words(topology.n_parties, 'party')}, {links}"
    if bad:
        usual += f"; {listed_names(bad)} {'colludes' if len(bad) == 1 else 'collude'}"
    return figures.network_figure(
        topology,
        figures.chosen_title(title, usual),
        said + _drawn_danger_words(topology, found),
        corrupted=bad,
        cut=cut,
        dangers=found,
    )


def _drawn_danger_words(topology: Topology, found: Mapping[str, float]) -> str:
    finite = [one for one in found.values() if isfinite(one)]
    alone = len(found) - len(finite)
    are = "is" if alone == 1 else "are"
    said = f"{counted_words(alone, 'party')} {are} known exactly. " * (alone > 0)
    if not finite:
        return said
    return said + DANGER.format(2 * topology.shares_per_edge, max(finite))


@draw_before_a_run.register
def _(found: Diagnosis, *, title: str | None = None) -> Any:
    added = [tuple(sorted(one)) for one in found.links_to_add]
    graph = found.repaired
    keep = [
        (graph.parties[i], graph.parties[j])
        for i, j in graph.edges.tolist()
        if tuple(sorted((graph.parties[i], graph.parties[j]))) not in added
    ]
    # As it is today; parties that no link reaches are there too.
    today = Topology.from_edges(keep, parties=graph.parties, directed=graph.directed)
    weak = [name for one in found.cuts for name in one.parties]
    safe = "withstands" if found.safe else "does not withstand"
    usual = f"The network {safe} {counted_words(found.tolerate, 'colluder')}"
    caption = (
        f"The loss of {counted_words(found.vertex_connectivity, 'party')} can take "
        "it apart or leave one alone, and of no fewer."
    )
    if added:
        mend = "mends" if len(added) == 1 else "mend"
        caption += f" {counted_words(len(added), 'link')} {mend} it."
    return figures.network_figure(
        today,
        figures.chosen_title(title, usual),
        f"{caption} {_drawn_danger_words(today, coalition_dangers(today))}",
        cut=weak,
        dangers=coalition_dangers(today),
        added=found.links_to_add,
        helpful=[one.link for one in found.helpful_links[:1]],
    )


@draw_before_a_run.register
def _(found: Allocation, *, title: str | None = None) -> Any:
    usual = f"Noise by link: epsilon falls by a factor of {found.gain:.3g}"
    names = [" - ".join(link) for link in found.links]
    ranked = sorted(zip(found.weights, names, strict=True), key=lambda one: -one[0])
    values = {name: weight for weight, name in ranked[: figures.MOST_SHOWN]}
    caption = (
        "variance of a link's shares in units of sigma^2; "
        f"{figures.colluder_words(found.tolerate)}.{figures.not_drawn_words(len(ranked))}"
    )
    return figures.values_figure(
        values, "weight", figures.chosen_title(title, usual), caption
    )


@draw_before_a_run.register
def _(
    promise: Guarantee, *, topology: GraphLike | None = None, title: str | None = None
) -> Any:
    """`topology`: the network it is about, which is drawn then."""
    if topology is not None:
        return _draw_network_of(promise, Topology.of(topology), title)
    worst = promise.worst
    against = (
        figures.colluder_words(worst.tolerate)
        if worst is not None
        else f"{listed_names(promise.corrupted) or 'nobody'} colluding"
    )
    if promise.epsilon is None:
        pieces = {
            ", ".join(one.parties): float(len(one.parties))
            for one in promise.components
        }
        usual = f"No number holds: {promise.status.replace('_', ' ')}, {against}"
        caption = "; ".join(promise.released[:3])
        return figures.values_figure(
            pieces or {"nobody": 0.0},
            "honest parties in one piece",
            figures.chosen_title(title, usual),
            caption,
        )
    epsilon = promise.epsilon
    exact = promise.law == "gaussian"
    success = attacker_success if exact else lattice_success
    # As far as somebody is right in 99 of 100 guesses, or anywhere if nothing shows.
    furthest = 4.7 / np.sqrt(2.0 * epsilon) if epsilon > 0.0 else 1.0
    usual = f"What an attacker can tell: epsilon {epsilon:.3g}, {against}"
    caption = (
        "two inputs of equal honest sum, told apart at even odds; "
        f"{'exact for the worst two' if exact else 'proved'} under {promise.law} masks"
    )
    return figures.success_figure(
        lambda far: success(epsilon * far**2),
        furthest,
        figures.chosen_title(title, usual),
        caption,
    )


def _draw_network_of(promise: Guarantee, topology: Topology, title: str | None) -> Any:
    unknown = {*promise.corrupted, *promise.honest} ^ set(topology.parties)
    if unknown:
        raise InvalidInputError(
            f"the guarantee is about another network: {listed_names(sorted(unknown))} "
            "is in "
            "one of them only",
            code="network-differs",
        )
    worst = promise.worst
    found = coalition_dangers(topology, corrupted=promise.corrupted)
    words = promise.status.replace("_", " ")
    if promise.epsilon is not None:
        words += f", epsilon {promise.epsilon:.3g}"
    who = "the worst coalition" if worst is not None else "the coalition"
    return figures.network_figure(
        topology,
        figures.chosen_title(title, f"{who.capitalize()}, and what is left: {words}"),
        _drawn_danger_words(topology, found),
        corrupted=promise.corrupted,
        cut=() if worst is None else worst.cut or (),
        dangers=found,
    )


@draw_before_a_run.register
def _(found: NetworkPlan, *, title: str | None = None) -> Any:
    return _draw_epsilons(found, len(found.worst_coalition), None, title)


@draw_before_a_run.register
def _(found: Plans, *, network: bool = False, title: str | None = None) -> Any:
    """`network`: draw the best network instead of what it promises."""
    best = found.best
    if network:
        caption = f"sigma {best.sigma:.4g}" if best.sigma is not None else "no sigma"
        known = coalition_dangers(best.topology, corrupted=best.worst_coalition)
        return figures.network_figure(
            best.topology,
            figures.chosen_title(
                title, f"{best.graph} against {found.tolerate} colluders"
            ),
            f"{caption}, epsilon {best.epsilon:.3g}. "
            f"{_drawn_danger_words(best.topology, known)}",
            corrupted=best.worst_coalition,
            dangers=known,
        )
    return _draw_epsilons(best, found.tolerate, found.target.epsilon, title)


def _draw_epsilons(
    found: NetworkPlan, tolerate: int, target: float | None, title: str | None
) -> Any:
    if found.sigma is None:
        raise InvalidInputError(
            "uniform masks have no sigma and epsilon 0: there is nothing to draw but "
            "the network, with draw(plans, network=True)",
            code="nothing-to-draw",
        )
    graph = found.topology
    most = min(found.vertex_connectivity - 1, tolerate + 2, graph.n_parties - 2)
    known = {}
    for t in range(max(most, tolerate) + 1):
        least = worst_mu2(graph, tolerate=t, most_work=MOST_WORK).lower
        if least is not None:
            known[t] = least
    usual = (
        f"{found.graph}: with sigma {found.sigma:.4g} epsilon is {found.epsilon:.3g} "
        f"if {tolerate} collude"
    )
    return figures.epsilon_figure(
        known,
        figures.chosen_title(title, usual),
        "epsilon of normal shares, the worst coalition of each size; a lattice adds "
        "millionths",
        shares_per_edge=graph.shares_per_edge,
        chosen=(found.sigma, found.epsilon),
        target=target,
    )


# Attackers


@draw_before_a_run.register
def _(told: Leakage, *, title: str | None = None) -> Any:
    usual = f"The best attacker is right in {told.attacker_success:.1%} of guesses"
    caption = (
        f"KL divergence {told.divergence:.4g}, area under the curve {told.auc:.3f}"
    )
    return figures.roc_figure(
        told.divergence, figures.chosen_title(title, usual), caption
    )
