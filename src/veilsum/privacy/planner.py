"""From a target back to sigma and a network: Theorem 1 read from right to left.

An attacker who may tell two inputs at distance D apart with chance p at most needs

    epsilon = 2 Phi^-1(p)^2 / D^2,    sigma = D / (2 sqrt 2 Phi^-1(p) sqrt(mu2)),

mu2 that of the weakest honest graph after any t parties collude, for normal shares.
Shares on a lattice need a few millionths more (`lattice`, **Success**): what is proved
of a lattice on which sigma spans 2^10 steps, the coarsest that real parties may use, is
solved for sigma. A finer one tells no more. sigma is rounded up, so that evaluating a
plan gives the target or less. Uniform masks have no sigma and meet every target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field, fields
from decimal import ROUND_CEILING, Context
from itertools import chain
from math import inf, sqrt
from typing import Any, ClassVar

import numpy as np

from veilsum.errors import InvalidGraphError, InvalidInputError
from veilsum.graphs.connectivity import (
    graph_components,
    minimum_vertex_cut,
    vertex_connectivity,
)
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.masks.fixed_point import (
    DEPLOYED_DEVIATION_BITS,
    fitting_mask_bits,
    grid_bits_of_deviation,
)
from veilsum.masks.laws import LawName, check_mask_sigma
from veilsum.numbers.arrays import listed_names
from veilsum.privacy.conversions import (
    attacker_success as success_of,
    divergence_for_success,
)
from veilsum.privacy.graph_search import (
    GraphSearchCandidate,
    best_circulant_candidate,
    best_random_regular,
    harary_graph_candidate,
    improved_by_swaps,
    well_known_graph_candidates,
)
from veilsum.privacy.guarantee import epsilon_bound_of_guarantee
from veilsum.privacy.lattice import (
    lattice_epsilon_excess,
    lattice_success,
    most_moved_coefficients,
    smoothness_of_masks,
    worst_lattice_excess,
)
from veilsum.privacy.worst_case import (
    MOST_WORK,
    WorstMu2,
    check_tolerated_colluders,
    worst_mu2,
)
from veilsum.progress import Opening, Progress, silent_progress, watch_progress
from veilsum.scale.workers import workers_shared_by
from veilsum.showing import Block, Renderable, Rendering, ShownTable

COLUMNS = ("graph", "kappa", "worst mu2", "links/party", "sigma", "verdict")
# Above this many parties a network has to be named, not searched for.
MOST_PARTIES = 500
# Exchanging links starts from several networks where that takes no time.
SWAP_STARTS, SMALL_NETWORK = 3, 24

# Eigenvalues found by two routines agree to about 1e-14; sigma makes up for more.
ROUND_UP = 1.0 + 1e-12
HALVINGS = 80
UNIT_ROUNDOFF = 2.0**-53

NOTES = (
    "the target holds for two inputs of equal honest sum; the sum itself is released "
    "exactly",
    "exchanging records between honest parties keeps that sum; replacing a record "
    "changes it, and is covered only by noise tau > 0 of each party's own, which makes "
    "the answer inexact",
    "one run: fresh masks on the same data add their divergences, so sigma for T runs "
    "is sqrt(T) times as large",
    "errors are of the minimiser, in its own units, where the average cost has "
    "curvature 1: divide by the curvature for others. float64_error is a rule of "
    "thumb, 3 * 2^-53 * sigma; lattice_error bounds each coordinate's quantisation",
)


def plan(
    parties: int | None = None,
    *,
    tolerate: int,
    attacker_success: float | None = None,
    epsilon: float | None = None,
    distance: float | None = None,
    law: LawName = "lattice",
    degree: int | None = None,
    graph: GraphLike | str | None = None,
    seed: int = 0,
    most_work: float = MOST_WORK,
    on: str | None = None,
    progress: Progress = None,
) -> Plans:
    """Return networks and their sigma for a target, the least sigma first.

    Args:
        parties: how many there are; not needed with a graph.
        tolerate: t, how many may collude.
        attacker_success: p, the most the best attacker may reach at the distance.
        epsilon: the target as a number instead: KL per squared distance.
        distance: D = ||A - B|| of the inputs not to be told apart.
        law: by which shares are drawn: `lattice`, as between real parties, on any grid
            that is fine enough for them; `gaussian`; or `uniform`, which has no sigma.
        degree: the most links a party may have. Without it the complete graph is best,
            and sparse graphs of degree about t + 2 are shown beside it.
        graph: plan for this network and no other; a topology or a family's spec.
        seed: repeats the searches.
        most_work: of a search for colluders before it settles for a bound.
        on: who shares the searches, such as `processes:8`; see `sweep`.
        progress: None for a bar, False for none, or a function of done and total, which
            begin again with every search.

    >>> found = plan(5, tolerate=2, attacker_success=0.51, distance=1.0)
    >>> found.best.graph, round(found.best.sigma, 2), found.best.worst_mu2
    ('complete:5', 8.14, 3.0)
    """
    wanted = privacy_target_of_plan(
        attacker_success=attacker_success, epsilon=epsilon, distance=distance
    )
    given = _given_network_candidate(graph)
    count = _check_planned_parties(parties, given)
    # The check looks at the number of parties only, so any graph of that size will do.
    check_tolerated_colluders(Topology.family(f"path:{count}"), tolerate)
    _check_degree_budget(count, tolerate, degree)
    if law not in RATINGS:
        raise InvalidInputError(
            f"a plan is for masks that hide something, found law = {law!r}; choose "
            f"from {', '.join(RATINGS)}",
            code="law-not-planned",
        )
    rating = RATINGS[law](wanted, tolerate)
    with watch_progress(progress) as opening, workers_shared_by(on) as workers:
        planning = _PrivacyPlanning(
            count,
            tolerate,
            rating,
            degree,
            seed,
            most_work,
            workers,
            opening or silent_progress,
        )
        return planning.for_any() if given is None else planning.for_one(given)


def _given_network_candidate(
    graph: GraphLike | str | None,
) -> GraphSearchCandidate | None:
    if isinstance(graph, str):
        return GraphSearchCandidate("given", graph, Topology.family(graph))
    return (
        None
        if graph is None
        else GraphSearchCandidate("given", "edges", Topology.of(graph))
    )


def privacy_target_of_plan(
    *, attacker_success: float | None, epsilon: float | None, distance: float | None
) -> PrivacyTarget:
    if (attacker_success is None) == (epsilon is None):
        raise InvalidInputError(
            "give one target: an attacker's success at a distance, or an epsilon",
            code="target-missing",
        )
    if distance is not None and not 0 < distance < inf:
        raise InvalidInputError(
            f"a distance to plan for must be positive and finite, found {distance}",
            code="distance-not-positive",
        )
    if epsilon is not None:
        return PrivacyTarget(
            epsilon=_positive_target_epsilon(epsilon),
            distance=distance,
            attacker_success=None,
        )
    assert attacker_success is not None
    divergence = divergence_for_success(attacker_success)
    if distance is None:
        raise InvalidInputError(
            "an attacker's success needs a distance, ||A - B|| of the inputs not to be "
            "told apart: give it, or the columns' ranges to compute it from",
            code="distance-missing",
        )
    return PrivacyTarget(
        epsilon=_positive_target_epsilon(divergence / distance / distance),
        distance=distance,
        attacker_success=attacker_success,
    )


def _positive_target_epsilon(epsilon: float) -> float:
    if not 0 < epsilon < inf:
        raise InvalidInputError(
            f"a target epsilon must be positive and finite, found {epsilon}",
            code="epsilon-not-positive",
        )
    return float(epsilon)


def _check_planned_parties(
    parties: int | None, given: GraphSearchCandidate | None
) -> int:
    if given is not None:
        n = given.topology.n_parties
        if parties not in {None, n}:
            raise InvalidInputError(
                f"the graph has {n} parties, not {parties}; leave the number out",
                code="party-count-differs",
            )
        return n
    if parties is None:
        raise InvalidInputError(
            "say how many parties there are, or give a graph",
            code="party-count-missing",
        )
    if not 2 <= parties <= MOST_PARTIES:
        raise InvalidInputError(
            f"networks are searched for 2 to {MOST_PARTIES} parties, found {parties}; "
            "for more, name a graph",
            code="parties-out-of-range",
        )
    return parties


def _check_degree_budget(count: int, tolerate: int, degree: int | None) -> None:
    """Refuse a degree budget that no graph on so many parties meets."""
    if degree is None:
        return
    if not 1 <= degree < count:
        raise InvalidInputError(
            f"a degree budget for {count} parties is between 1 and {count - 1}, found "
            f"{degree}",
            code="degree-out-of-range",
        )
    most = _most_colluders_tolerated(count, degree)
    if tolerate > most:
        raise InvalidInputError(
            f"no graph of {count} parties with at most {degree} links each tolerates "
            f"{tolerate}: the most is {_planned_degree_or_none(most)}; allow "
            f"{_least_degree_for_colluders(count, tolerate)} links, or tolerate less",
            code="degree-too-small",
        )


def _planned_degree_or_none(most: int) -> str:
    return str(most) if most >= 0 else "not even 0, since it is in pieces"


def _most_colluders_tolerated(count: int, degree: int) -> int:
    """Return the most t with kappa > t possible: Harary's graphs attain kappa = degree.

    A regular graph of odd degree needs an even number of parties; one link each makes
    pairs, not a network.
    """
    if degree == 1:
        return 0 if count == 2 else -1
    return degree - 1 - count * degree % 2


def _least_degree_for_colluders(count: int, tolerate: int) -> int:
    fits = (
        k for k in range(1, count) if _most_colluders_tolerated(count, k) >= tolerate
    )
    return next(fits)


@dataclass(eq=False)
class _PrivacyPlanning:
    """Collects plans and refusals; an interrupt ends the search, not the answer."""

    count: int
    tolerate: int
    rating: PlannerSigmaRating
    degree: int | None
    seed: int
    most_work: float
    on: Executor | None
    progress: Opening
    plans: list[NetworkPlan] = field(default_factory=list)
    refused: list[PlannerRefusal] = field(default_factory=list)
    interrupted: bool = False

    def for_one(self, given: GraphSearchCandidate) -> Plans:
        """Plan for a given network; refuse it if it cannot meet the target."""
        self._consider(given)
        if not self.plans:
            raise InvalidGraphError(
                f"no sigma meets the target on this graph: {self.refused[0].reason}; "
                "change its links, or tolerate fewer",
                code="target-unreachable",
            )
        return self._result()

    def for_any(self) -> Plans:
        """Plan over the families and what the searches find."""
        try:
            for candidate in self._candidates():
                self._consider(candidate)
                if self.interrupted:
                    break
        except KeyboardInterrupt:
            self.interrupted = True
        self._refuse_the_star()
        if not self.plans:
            raise InvalidInputError(
                "stopped before any network was rated; give the search more time",
                code="search-stopped",
            )
        return self._result()

    def _stop(self) -> None:
        self.interrupted = True

    def _result(self) -> Plans:
        ranked = sorted(self.plans, key=lambda one: (one.sigma or 0.0, len(one.edges)))
        return Plans(
            tolerate=self.tolerate,
            target=self.rating.target,
            plans=tuple(ranked),
            refused=tuple(self.refused),
            interrupted=self.interrupted,
        )

    def _candidates(self) -> Iterator[GraphSearchCandidate]:
        """Yield networks, the quick ones first, each once."""
        seen: set[Topology] = set()
        # Lazily: a later search starts from what was rated before it.
        for candidate in chain(
            well_known_graph_candidates(self.count), self._searched()
        ):
            if candidate.topology not in seen:
                seen.add(candidate.topology)
                yield candidate

    def _searched(self) -> Iterable[GraphSearchCandidate]:
        """Yield what the searches find within the degree, best of all last."""
        degree = self._search_degree()
        if not 3 <= degree < self.count - 1:
            return
        keys: dict[str, Any] = {
            "degree": degree,
            "tolerate": self.tolerate,
            "seed": self.seed,
            "on": self.on,
            "progress": self.progress,
        }
        yield harary_graph_candidate(self.count, degree, tolerate=self.tolerate)
        if not self.rating.needs_mu2:
            return
        found = [best_circulant_candidate(self.count, **keys)]
        yield from filter(None, found)
        found.append(best_random_regular(self.count, **keys))
        yield from filter(None, found[1:])
        if self.plans:
            fitting = [one for one in self.plans if one.links_per_party[1] <= degree]
            ranked = sorted(fitting, key=lambda one: one.sigma or 0.0)
            few = SWAP_STARTS if self.count <= SMALL_NETWORK else 1
            starts = [one.topology for one in ranked[:few]]
            swapped = improved_by_swaps(starts, **keys, stopped=self._stop)
            yield from filter(None, [swapped])

    def _search_degree(self) -> int:
        """Return the budget, or a small even degree that leaves some slack."""
        if self.degree is not None:
            return self.degree
        return self.tolerate + 2 + self.tolerate % 2

    def _consider(self, candidate: GraphSearchCandidate) -> None:
        links = _degree_span_of_plan(candidate.topology)
        kappa = vertex_connectivity(candidate.topology)
        reason = self._too_many_links(links) or self._cut_reason(
            candidate.topology, kappa
        )
        if reason is None:
            found = self._rated(candidate)
            if found.lower is not None or not self.rating.needs_mu2:
                self.plans.append(self._plan(candidate, found, kappa, links))
                return
            reason = "no bound could be proved in the time a plan may take"
        self.refused.append(PlannerRefusal(candidate.graph, reason, kappa, links))

    def _too_many_links(self, links: tuple[int, int]) -> str | None:
        if self.degree is None or links[1] <= self.degree:
            return None
        return f"needs {links[1]} links, the budget is {self.degree}"

    def _cut_reason(self, topology: Topology, kappa: int) -> str | None:
        if kappa > self.tolerate:
            return None
        cut = minimum_vertex_cut(topology) or ()
        if not cut:
            return "it is in pieces, each of whose sums is exposed"
        left = topology.without(cut)
        pieces = sorted(graph_components(left), key=len)
        names = [f"{{{listed_names(left.names(piece), most=4)}}}" for piece in pieces]
        return (
            f"{{{listed_names(topology.names(cut))}}} separates "
            f"{' from '.join(names[:2])}"
        )

    def _rated(self, candidate: GraphSearchCandidate) -> WorstMu2:
        """Return the worst mu2; a search that tried all coalitions need not repeat."""
        t, n = self.tolerate, candidate.topology.n_parties
        if candidate.kind == "complete":
            return _exact_worst_mu2(float(n - t), tuple(range(t)))
        if candidate.worst is not None:
            return _exact_worst_mu2(candidate.worst.value, candidate.worst.coalition)
        found = worst_mu2(
            candidate.topology,
            tolerate=t,
            most_work=self.most_work if self.rating.needs_mu2 else 1.0,
            on=self.on,
            progress=self._report(candidate),
        )
        self.interrupted |= found.interrupted
        return found

    def _report(self, candidate: GraphSearchCandidate) -> Any:
        advance = self.progress(f"coalitions of {candidate.kind}", 100)
        return lambda done, total: advance(round(100 * done / total))

    def _plan(
        self,
        candidate: GraphSearchCandidate,
        found: WorstMu2,
        kappa: int,
        links: tuple[int, int],
    ) -> NetworkPlan:
        topology, mu2 = candidate.topology, found.lower
        names = topology.parties
        rated = self.rating.on(topology, mu2)
        return NetworkPlan(
            graph=candidate.graph,
            kind=candidate.kind,
            edges=tuple((names[i], names[j]) for i, j in topology.edges.tolist()),
            law=self.rating.law,
            sigma=rated.sigma,
            epsilon=rated.epsilon,
            worst_mu2=mu2,
            worst_coalition=topology.names(found.coalition),
            exact=found.exact,
            vertex_connectivity=kappa,
            links_per_party=links,
            attacker_success=rated.success,
            float64_error=rated.sigma and float64_error_of_sigma(rated.sigma),
            lattice_bits=rated.bits,
            lattice_error=None if rated.bits is None else 2.0 ** -(rated.bits + 1),
            topology=topology,
        )

    def _refuse_the_star(self) -> None:
        if self.count < 3:
            return
        reason = "the hub alone sees everything"
        links = (1, self.count - 1)
        self.refused.append(PlannerRefusal(f"star:{self.count}", reason, 1, links))


def _degree_span_of_plan(topology: Topology) -> tuple[int, int]:
    return int(topology.degrees.min()), int(topology.degrees.max())


def _exact_worst_mu2(value: float, coalition: tuple[int, ...]) -> WorstMu2:
    return WorstMu2(value, value, coalition, exact=True, certificate="exact")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyTarget:
    """Requested bound: KL of at most `epsilon` per squared distance.

    `attacker_success` is None when epsilon was requested directly; otherwise `epsilon`
    is the value that normal shares need for it.
    """

    epsilon: float
    distance: float | None
    attacker_success: float | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NetworkPlan(Renderable):
    """One network with the sigma that meets the target on it.

    Attributes:
        graph: the family's spec, or "edges" where only the list tells.
        kind: where the graph comes from, in words.
        edges: every link once, by the parties' names.
        law: by which shares are drawn.
        sigma: standard deviation of one coordinate of one share, if the law has one.
        epsilon: what no coalition exceeds with that sigma.
        worst_mu2: of the weakest honest graph; a lower bound unless `exact`.
        worst_coalition: the coalition that leaves it, or the worst one found.
        links_per_party: the least and the greatest number of neighbours.
        attacker_success: at the distance, if there is one.
        float64_error: about what float64 arithmetic loses at this sigma.
        lattice_bits: q, the grid being 2^-q, such that masks fit 62 bits.
        lattice_error: half a grid step; it does not grow with iterations.
    """

    graph: str
    kind: str
    edges: tuple[tuple[str, str], ...]
    law: LawName
    sigma: float | None
    epsilon: float
    worst_mu2: float | None
    worst_coalition: tuple[str, ...]
    exact: bool
    vertex_connectivity: int
    links_per_party: tuple[int, int]
    attacker_success: float | None
    float64_error: float | None
    lattice_bits: int | None
    lattice_error: float | None
    topology: Topology = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        names = [one.name for one in fields(self) if one.name != "topology"]
        plain = {name: getattr(self, name) for name in names}
        least, greatest = self.links_per_party
        return plain | {"links_per_party": {"min": least, "max": greatest}}

    @property
    def title(self) -> str:
        """The graph's name; one without a name is told by where it comes from."""
        return self.kind if self.graph == "edges" else self.graph

    @property
    def noise(self) -> str:
        """Mask requirement in words; sigma is rounded up to six digits."""
        if self.sigma is None:
            return f"{self.law} masks"
        return f"sigma {_sigma_not_below(self.sigma)}"

    def showing(self) -> Rendering:
        """Return the network, its noise, and what that promises."""
        worst = listed_names(self.worst_coalition) or "nobody"
        mu2 = "" if self.worst_mu2 is None else f"; worst mu2 {self._mu2}"
        blocks: list[Block] = [
            f"{len(self.edges)} links, {_planned_degree_words(self.links_per_party)} "
            "of each party; "
            f"vertex connectivity {self.vertex_connectivity}; worst coalition "
            f"{worst}{mu2}"
        ]
        blocks += [one for one in (self.guesses, self.accuracy) if one]
        title = f"{self.title}, {self.noise}: epsilon {self.epsilon:.4g}"
        return Rendering(title, blocks)

    @property
    def guesses(self) -> str:
        """Success of the best attacker in words; empty without a distance."""
        if self.attacker_success is None:
            return ""
        return (
            f"the best attacker guesses right {100 * self.attacker_success:.2f}% of "
            "the time (a coin: 50%)"
        )

    @property
    def accuracy(self) -> str:
        """Arithmetic errors at this sigma in words; empty without a lattice."""
        if self.lattice_bits is None:
            return ""
        return (
            f"At this sigma float64 arithmetic errs by about {self.float64_error:.1g}, "
            f"lattice arithmetic on a grid of 2^{-self.lattice_bits} by at most "
            f"{self.lattice_error:.1g}, where the average cost has curvature 1."
        )

    @property
    def _mu2(self) -> str:
        mu2 = self.worst_mu2 or 0.0
        return f"{mu2:.3f}" if self.exact else f">= {mu2:.3g}"

    def row(self, best: NetworkPlan) -> tuple[str, ...]:
        """Return a line of a table, beside the best."""
        ratio = 1.0 if best.sigma is None else (self.sigma or 0.0) / best.sigma
        return (
            self.title,
            str(self.vertex_connectivity),
            self._mu2,
            _planned_degree_words(self.links_per_party),
            "none" if self.sigma is None else _sigma_not_below(self.sigma),
            "OK" if ratio < 1.005 else f"OK, sigma x{ratio:.2f}",
        )


@dataclass(frozen=True, slots=True)
class PlannerRefusal:
    """A network that cannot meet the target, and why."""

    graph: str
    reason: str
    vertex_connectivity: int | None = None
    links_per_party: tuple[int, int] | None = None

    @property
    def row(self) -> tuple[str, ...]:
        """A line of the table of plans."""
        kappa, links = self.vertex_connectivity, self.links_per_party
        return (
            self.graph,
            "" if kappa is None else str(kappa),
            "none",
            "" if links is None else _planned_degree_words(links),
            "none",
            f"NO: {self.reason}",
        )


def _planned_degree_words(links: tuple[int, int]) -> str:
    return str(links[0]) if links[0] == links[1] else f"{links[0]}-{links[1]}"


def _sigma_not_below(sigma: float) -> str:
    """Return six digits that are not below sigma: less noise would miss the target."""
    above = Context(prec=6, rounding=ROUND_CEILING).create_decimal(sigma)
    return f"{float(above):.6g}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plans(Renderable):
    """Networks that meet the target, the least sigma first, and those that do not.

    `interrupted` says that a search was stopped: better networks may exist.
    """

    tolerate: int
    target: PrivacyTarget
    plans: tuple[NetworkPlan, ...]
    refused: tuple[PlannerRefusal, ...]
    notes: tuple[str, ...] = NOTES
    interrupted: bool = False

    @property
    def best(self) -> NetworkPlan:
        """The plan with the least sigma; of equals, the one with fewer links."""
        return self.plans[0]

    def showing(self) -> Rendering:
        """Return the best network in words, and the others beside it."""
        best, distance = self.best, self.target.distance
        title = (
            f"{best.title}, {best.noise}: epsilon {best.epsilon:.4g} against any "
            f"{self.tolerate} colluding"
        )
        if distance is not None and best.guesses:
            kl = best.epsilon * distance**2
            title += f"; KL {kl:.3g} at distance {distance:.6g}: {best.guesses}"
        rows = [*(one.row(best) for one in self.plans), *(r.row for r in self.refused)]
        blocks: list[Block] = [ShownTable(COLUMNS, rows, align="<>>>><")]
        if best.accuracy:
            blocks.append(best.accuracy)
        if best.graph == "edges":
            blocks.append(
                "Its links have no short name: .best.edges has them, and --json."
            )
        if self.interrupted:
            blocks.append("The search was stopped: better networks may exist.")
        return Rendering(f"{title}.", blocks, {"Notes": self.notes})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "tolerate": self.tolerate,
            "target": asdict(self.target),
            "best": self.best.to_dict(),
            "plans": [one.to_dict() for one in self.plans],
            "refused": [
                {"graph": one.graph, "reason": one.reason} for one in self.refused
            ],
            "notes": list(self.notes),
            "interrupted": self.interrupted,
        }


@dataclass(frozen=True, slots=True)
class PlannerRatedNetwork:
    """Noise that a network needs for the target, and the resulting guarantee."""

    sigma: float | None
    epsilon: float
    success: float | None
    bits: int | None


@dataclass(frozen=True)
class PlannerSigmaRating:
    """Solves what is proved of a law for sigma; here for normal shares."""

    target: PrivacyTarget
    tolerate: int

    law: ClassVar[LawName] = "gaussian"
    needs_mu2: ClassVar[bool] = True

    def on(self, topology: Topology, mu2: float | None) -> PlannerRatedNetwork:
        """Return what a network needs, mu2 being that of its weakest honest graph."""
        assert mu2 is not None
        arcs, distance = topology.shares_per_edge, self.target.distance
        sigma = sigma_for_epsilon(
            epsilon=self.target.epsilon, mu2=mu2, shares_per_edge=arcs
        )
        epsilon = epsilon_bound_of_guarantee(sigma=sigma, mu2=mu2, shares_per_edge=arcs)
        success = None if distance is None else success_of(epsilon * distance**2)
        return PlannerRatedNetwork(
            sigma, epsilon, success, grid_bits_for_sigma(topology, sigma)
        )


class _LatticeRating(PlannerSigmaRating):
    """For shares on a lattice whose least sigma spans 2^10 steps, or more."""

    law: ClassVar[LawName] = "lattice"

    def on(self, topology: Topology, mu2: float | None) -> PlannerRatedNetwork:
        assert mu2 is not None
        # With sigma = 1; everything depends on steps to sigma, and on D / sigma.
        least = float(topology.weights.min())
        steps = 2.0**DEPLOYED_DEVIATION_BITS
        deviations, step = (
            steps * np.sqrt(topology.weights / least),
            sqrt(least) / steps,
        )
        excess = worst_lattice_excess(topology, deviations, self.tolerate, mu2=mu2)
        arcs, distance = topology.shares_per_edge, self.target.distance
        unit = epsilon_bound_of_guarantee(sigma=1.0, mu2=mu2, shares_per_edge=arcs)
        unit += lattice_epsilon_excess(excess, step)
        smooth = smoothness_of_masks(topology, deviations, mu2=mu2)

        def success(reach: float) -> float:
            """Return it at so many sigmas of distance."""
            moved = most_moved_coefficients(reach, step)
            return lattice_success(unit * reach**2, smooth=smooth, moved=moved)

        wanted = self.target.attacker_success
        if wanted is None:
            sigma = ROUND_UP * sqrt(unit / self.target.epsilon)
        else:
            assert distance is not None
            sigma = ROUND_UP * distance / _largest_distance_in_target(success, wanted)
        found = None if distance is None else success(distance / sigma)
        bits = grid_bits_for_sigma(topology, sigma)
        return PlannerRatedNetwork(
            float(check_mask_sigma(sigma)), unit / sigma**2, found, bits
        )


class _UniformRating(PlannerSigmaRating):
    """There is nothing to see but sums, on every network that stays connected."""

    law: ClassVar[LawName] = "uniform"
    needs_mu2: ClassVar[bool] = False

    def on(self, topology: Topology, mu2: float | None) -> PlannerRatedNetwork:
        del topology, mu2
        return PlannerRatedNetwork(
            None, 0.0, None if self.target.distance is None else 0.5, None
        )


RATINGS: Mapping[str, type[PlannerSigmaRating]] = {
    one.law: one for one in (_LatticeRating, PlannerSigmaRating, _UniformRating)
}


def _largest_distance_in_target(
    growing: Callable[[float], float], limit: float
) -> float:
    """Return nearly the largest x > 0 at which a growing function is within a limit."""
    low = high = 1.0
    while growing(high) <= limit:
        high *= 2.0
    while growing(low) > limit:
        low /= 2.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if growing(middle) <= limit else (low, middle)
    return low


def grid_bits_for_sigma(topology: Topology, sigma: float) -> int:
    """Return q of a grid on which masks fit 62 bits, unless they need a finer one."""
    least, most = sigma * np.sqrt([topology.weights.min(), topology.weights.max()])
    bits = fitting_mask_bits(sigma=float(most), links=_degree_span_of_plan(topology)[1])
    return max(bits, grid_bits_of_deviation(float(least), 2**DEPLOYED_DEVIATION_BITS))


def sigma_for_epsilon(*, epsilon: float, mu2: float, shares_per_edge: int = 2) -> float:
    """Return Theorem 1 solved for sigma, rounded up: 1 / sqrt(2 s epsilon mu2).

    >>> round(sigma_for_epsilon(epsilon=0.125, mu2=2.0), 6)
    1.0
    """
    sigma = ROUND_UP / sqrt(2.0 * shares_per_edge * epsilon * mu2)
    return float(check_mask_sigma(sigma))


def float64_error_of_sigma(sigma: float) -> float:
    """Return about what float64 runs lose, 3 u sigma, where the curvature is 1."""
    return 3.0 * UNIT_ROUNDOFF * sigma
