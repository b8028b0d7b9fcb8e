"""Corollary 1: what any t colluding parties can learn, and which t learn most.

First the graph is cut, if t parties can do that. Otherwise the worst coalition of
exactly t (Lemma A) is found and proved; on graphs too large for a proof the answer is
an interval: what the best attack found achieves, and what no attack exceeds.

The latter without trying them all: losing S costs each neighbour i of S the weight
w_S(i); for x on the honest parties

    x' L_H x  >=  tau (mu2(G) |x|^2 - sum_i w_S(i) x_i^2) + (1 - tau) x' L_H x.

A party that lost links still has others, and a vector that is large there and small
around it has energy on them. Give every outside party o a share eta / c_o of its mass
for each of its c_o links to neighbours of S; a link then holds back
k(c) = a (eta/c) / (a + eta/c), a = 1 - tau, of x_i^2. If at every neighbour i

    eta + sum over its outside links of k(c_o)  >=  tau w_S(i),

then mu2(G - S) >= tau mu2(G) - eta. Unweighted graphs only.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.graphs.connectivity import (
    LongSearchError,
    minimum_vertex_cut,
    vertex_connectivity,
)
from veilsum.graphs.spectrum import (
    Certificate,
    certified_mu2,
    fiedler_vector,
    rayleigh_bound_on_mu2,
)
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.locale import limit_phrase
from veilsum.masks.laws import LawName, Masks
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.privacy.coalitions import CoalitionSearch
from veilsum.privacy.guarantee import (
    Guarantee,
    GuaranteeProof,
    WorstCoalition,
    attacker_success_at,
    guarantee_against_coalition,
    proof_of_masks,
)
from veilsum.privacy.remaining import BATCH_PARTIES
from veilsum.progress import Progress, Report, staged_progress, watch_progress
from veilsum.scale.workers import workers_shared_by

# Up to this many parties the search holds dense matrices of the whole graph.
DENSE_PARTIES = 2500
# Work before the search settles for an interval, in tests of thirty-party graphs: about
# half a minute.
MOST_WORK = 1e6

# How much of mu2(G) is carried over; the best of these is taken.
CARRIED = np.linspace(0.05, 1.0, 96)
HALVINGS = 50

# Up to this many parties BLAS starts no threads of its own for the search.
UNTHREADED_PARTIES = 60

# Graphs whose weakest honest graph is kept: who plans for one asks more of it.
REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class WorstMu2:
    """lower <= min over |C| = t of mu2(G - C) <= upper, for t below kappa.

    `lower` is None where nothing positive could be proved; `interrupted` says that a
    person stopped the search.
    """

    lower: float | None
    upper: float
    coalition: tuple[int, ...]
    exact: bool
    certificate: Certificate
    interrupted: bool = False


def worst_case(
    topology: GraphLike,
    *,
    tolerate: int,
    sigma: ArrayLike | None = None,
    law: LawName = "gaussian",
    grid: int | None = None,
    distance: float | None = None,
    most_work: float = MOST_WORK,
    on: str | None = None,
    progress: Progress = None,
) -> Guarantee:
    """Return what holds against every coalition of up to `tolerate` parties.

    The guarantee is the one against the worst coalition found; its `epsilon` is what no
    coalition exceeds, and `worst` says how well that is known. An interrupt (Ctrl-C)
    stops the search and keeps the bracket found so far.

    Args:
        topology: the communication graph G.
        tolerate: t, how many parties may collude.
        sigma: as for `guarantee`; so are law, grid and distance.
        law: how shares are drawn.
        grid: q of the grid 2^-q for integer laws.
        distance: ||A - B|| of the alternatives to tell apart.
        most_work: coalitions of thirty parties, or as much work with others, after
            which a bracket is good enough.
        on: who shares the search, such as `processes:8`; see `sweep`.
        progress: None for a bar, False for none, or a function of done and total.

    >>> found = worst_case(Topology.family("petersen"), sigma=1.0, tolerate=2)
    >>> found.worst.exact, round(found.epsilon, 12)
    (True, 0.380472960543)
    """
    with watch_progress(progress) as opening, workers_shared_by(on) as workers:
        return guarantee_against_any_coalition(
            Topology.of(topology),
            Masks(law, sigma, grid),
            tolerate=tolerate,
            distance=distance,
            most_work=most_work,
            on=workers,
            progress=staged_progress(opening, "coalitions"),
        )


def guarantee_against_any_coalition(
    topology: Topology,
    masks: Masks,
    *,
    tolerate: int,
    distance: float | None = None,
    most_work: float = MOST_WORK,
    on: Executor | None = None,
    progress: Report | None = None,
) -> Guarantee:
    """Return what these masks promise against so many colluders; see `worst_case`."""
    check_tolerated_colluders(topology, tolerate)
    proof = proof_of_masks(masks)
    kappa, cut = _disconnecting_coalition(topology, tolerate)
    if cut is not None:
        base = guarantee_against_coalition(
            topology, masks, corrupted=cut, distance=distance
        )
        return _guarantee_of_disconnected_parties(base, tolerate, kappa, cut)
    found = worst_mu2(
        topology, tolerate=tolerate, most_work=most_work, on=on, progress=progress
    )
    base = guarantee_against_coalition(
        topology, masks, corrupted=topology.names(found.coalition)
    )
    return _widen_guarantee_to_coalitions(
        base, topology, proof, found, kappa, tolerate, distance
    )


def _widen_guarantee_to_coalitions(
    base: Guarantee,
    topology: Topology,
    proof: GuaranteeProof,
    found: WorstMu2,
    kappa: int | None,
    tolerate: int,
    distance: float | None,
) -> Guarantee:
    """Return the guarantee against one coalition, widened to all of its size."""
    proved = proof.continuous(topology, found.lower)
    excess = proof.worst_excess(topology, tolerate, found.lower)
    upper = None if proved is None else proved + (excess or 0.0)
    # Along long multiples of the worst direction a lattice comes as near to the
    # continuous formula as one likes: that much any bound must concede.
    lower = proved if found.exact else proof.continuous(topology, found.upper)
    worst = WorstCoalition(
        tolerate=tolerate,
        worst_coalition=topology.names(found.coalition),
        epsilon_lower=lower,
        epsilon_upper=upper,
        # What shows nothing but sums hides them on every connected graph.
        exact=(found.exact or base.kind.sums_only) and lower == upper,
        cut=None,
        vertex_connectivity=kappa,
    )
    return replace(
        base,
        epsilon=upper,
        mu2=found.lower,
        mu2_certificate=found.certificate,
        attacker_success=attacker_success_at(
            proof,
            topology,
            status=base.status,
            mu2=found.lower,
            epsilon=upper,
            distance=distance,
        ),
        excess=excess,
        worst=worst,
    )


def worst_mu2(
    topology: Topology,
    *,
    tolerate: int,
    most_work: float = MOST_WORK,
    on: Executor | None = None,
    progress: Report | None = None,
) -> WorstMu2:
    """Return bounds on the weakest honest graph; `tolerate` must be below kappa."""
    key = topology, tolerate, most_work
    if key not in _FOUND:
        found = _worst_mu2(topology, tolerate, most_work, on, progress)
        if found.interrupted or topology.n_parties > DENSE_PARTIES:
            return found
        _FOUND[key] = found
        if len(_FOUND) > REMEMBERED:
            _FOUND.popitem(last=False)
    elif progress is not None:
        progress(1, 1)
    return _FOUND[key]


_FOUND: OrderedDict[tuple[Topology, int, float], WorstMu2] = OrderedDict()


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, if threadpoolctl (of scikit-learn) is installed.

    On small matrices several threads mostly wait for each other: the search for a worst
    coalition of 130 parties takes them twelve times as long. To find the libraries
    takes longer than the whole search for 50 parties.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(1, user_api="blas"):
        yield


def _worst_mu2(
    topology: Topology,
    tolerate: int,
    most_work: float,
    on: Executor | None,
    progress: Report | None,
) -> WorstMu2:
    if topology.n_parties > DENSE_PARTIES:
        return _worst_mu2_of_large_graph(topology, tolerate)
    threads_wait = UNTHREADED_PARTIES < topology.n_parties <= BATCH_PARTIES
    with _one_blas_thread() if threads_wait else nullcontext():
        found = CoalitionSearch(topology, tolerate, most_work, progress, on).run()
    lower = found.lower if found.lower > 0 else None
    certificate: Certificate = "none" if lower is None else "exact"
    return WorstMu2(
        lower,
        found.upper,
        found.coalition,
        found.exact,
        certificate,
        interrupted=found.interrupted,
    )


def check_tolerated_colluders(topology: Topology, tolerate: int) -> None:
    """Refuse a number of colluders that makes no sense on this graph."""
    n = topology.n_parties
    if tolerate < 0:
        raise InvalidInputError(
            f"tolerate must not be negative, found {tolerate}", code="tolerate-negative"
        )
    if tolerate >= n - 1:
        raise InvalidInputError(
            f"tolerate must be below n - 1 = {n - 1}, found {tolerate}: only one "
            f"honest party is left, and nothing can be hidden from {n - 1} colluders",
            code="tolerate-out-of-range",
        )


def _disconnecting_coalition(
    topology: Topology, tolerate: int
) -> tuple[int | None, tuple[str, ...] | None]:
    """Return kappa and, if t parties can disconnect the rest, who they are."""
    if topology.n_parties > DENSE_PARTIES:
        return _cut_of_a_large_graph(topology, tolerate)
    try:
        kappa = vertex_connectivity(topology)
    except LongSearchError:  # whether it is above t takes less
        return _cut_of_a_large_graph(topology, tolerate)
    return kappa, _names_of_disconnecting_coalition(
        topology
    ) if tolerate >= kappa else None


def _cut_of_a_large_graph(
    topology: Topology, tolerate: int
) -> tuple[int | None, tuple[str, ...] | None]:
    # Fiedler: mu2 <= kappa on an incomplete graph, so mu2 > t already settles it.
    plain = Topology(topology.parties, topology.edges, np.ones(topology.n_edges))
    mu2 = certified_mu2(plain).lower
    if mu2 is not None and mu2 > tolerate:
        return None, None
    kappa = vertex_connectivity(topology, at_most=tolerate + 1)
    return (
        (kappa, _names_of_disconnecting_coalition(topology))
        if kappa <= tolerate
        else (None, None)
    )


def _names_of_disconnecting_coalition(topology: Topology) -> tuple[str, ...]:
    return topology.names(minimum_vertex_cut(topology) or ())


def _guarantee_of_disconnected_parties(
    base: Guarantee, tolerate: int, kappa: int | None, cut: tuple[str, ...]
) -> Guarantee:
    note = limit_phrase("cut", parties=len(cut), colluders=tolerate)
    worst = WorstCoalition(
        tolerate=tolerate,
        worst_coalition=cut,
        epsilon_lower=None,
        epsilon_upper=None,
        exact=True,
        cut=cut,
        vertex_connectivity=kappa,
    )
    return replace(base, worst=worst, limits=(*base.limits, note))


def _worst_mu2_of_large_graph(topology: Topology, tolerate: int) -> WorstMu2:
    """Return an interval: Fiedler-vector greed from above, local bounds from below."""
    whole = certified_mu2(topology)
    coalition = _greedy_fiedler_coalition(topology, tolerate)
    left = topology.without(coalition)
    upper = rayleigh_bound_on_mu2(left.laplacian, fiedler_vector(left))
    if tolerate == 0:
        exact = whole.certificate == "exact"
        return WorstMu2(whole.lower, whole.upper, (), exact, whole.certificate)
    if whole.lower is None:
        return WorstMu2(None, upper, coalition, exact=False, certificate="none")
    bound = sparse_mu2_bound_of_coalitions(topology, mu2=whole.lower, size=tolerate)
    if bound <= 0:
        return WorstMu2(None, upper, coalition, exact=False, certificate="none")
    lower = min(bound, upper)
    return WorstMu2(lower, upper, coalition, exact=False, certificate=whole.certificate)


def _greedy_fiedler_coalition(topology: Topology, size: int) -> tuple[int, ...]:
    """Take, one by one, the party whose loss the Fiedler vector minds least."""
    chosen: tuple[int, ...] = ()
    for _ in range(size):
        kept = [v for v in range(topology.n_parties) if v not in chosen]
        chosen = (*chosen, kept[_party_of_easiest_loss(topology.induced(kept))])
    return tuple(sorted(chosen))


def _party_of_easiest_loss(topology: Topology) -> int:
    """Return the party v with the least Rayleigh bound on mu2(G - v)."""
    x = fiedler_vector(topology)
    x = (x - x.mean()) / np.linalg.norm(x - x.mean())
    i, j = topology.edges.T
    energy = topology.weights * (x[i] - x[j]) ** 2
    n = topology.n_parties
    lost = np.bincount(i, energy, n) + np.bincount(j, energy, n)
    score = (energy.sum() - lost) / (1.0 - x**2 * n / (n - 1))
    return int(np.argmin(score))


@dataclass(frozen=True, slots=True)
class CoalitionHurt:
    """A neighbour of S: how many links it lost, and the c_o of its outside links."""

    lost: int
    outside: tuple[int, ...]


def sparse_mu2_bound_of_coalitions(
    topology: Topology, *, mu2: float, size: int
) -> float:
    """Return a lower bound on mu2 after losing any `size` parties.

    For one or two parties of an unweighted graph; Fiedler's mu2 - size otherwise. Two
    parties without a common neighbour take at most one link from anybody; the others
    are looked at pair by pair.
    """
    plain = mu2 - size * float(topology.weights.max())
    if (topology.weights != 1).any() or size not in {1, 2}:
        return plain
    adjacency = topology.adjacency
    pairs = zip(adjacency.indptr[:-1], adjacency.indptr[1:], strict=True)
    neighbours = [adjacency.indices[low:high].tolist() for low, high in pairs]
    if size == 1:
        sets: Iterable[tuple[int, ...]] = ((v,) for v in range(len(neighbours)))
        return max(
            plain,
            _best_bound_of_coalition_hurts(
                _kinds_of_coalition_hurts(neighbours, sets), mu2
            ),
        )
    near = _best_bound_of_coalition_hurts(
        _kinds_of_coalition_hurts(neighbours, _pairs_meeting_in_coalitions(neighbours)),
        mu2,
    )
    return max(plain, min(mu2 - 1.0, near))


def _pairs_meeting_in_coalitions(neighbours: list[list[int]]) -> set[tuple[int, ...]]:
    return {
        (min(u, v), max(u, v))
        for around in neighbours
        for u, v in combinations(around, 2)
    }


def _kinds_of_coalition_hurts(
    neighbours: list[list[int]], sets: Iterable[tuple[int, ...]]
) -> set[CoalitionHurt]:
    """Return the different things that losing one of the sets does to a neighbour."""
    return {
        hurt for members in sets for hurt in _hurts_by_coalition(neighbours, members)
    }


def _hurts_by_coalition(
    neighbours: list[list[int]], members: tuple[int, ...]
) -> Iterator[CoalitionHurt]:
    lost = Counter(i for s in members for i in neighbours[s] if i not in members)
    reached = Counter(
        o for i in lost for o in neighbours[i] if o not in lost and o not in members
    )
    for i, count in lost.items():
        outside = sorted(reached[o] for o in neighbours[i] if o in reached)
        yield CoalitionHurt(count, tuple(outside))


def _best_bound_of_coalition_hurts(kinds: set[CoalitionHurt], mu2: float) -> float:
    """Return the best of tau mu2 - eta, eta just enough for every kind of neighbour."""
    lost = np.array([hurt.lost for hurt in kinds])
    links = _links_by_crowding(kinds)
    best = max(
        tau * mu2 - _needed_coalition_eta(lost, links, tau) for tau in CARRIED.tolist()
    )
    return float(best)


def _links_by_crowding(kinds: set[CoalitionHurt]) -> FloatArray:
    """Return, for each kind, how many of its outside links have c_o = 1, 2, ..."""
    most = max((max(hurt.outside, default=1) for hurt in kinds), default=1)
    counts = [np.bincount(hurt.outside, minlength=most + 1)[1:] for hurt in kinds]
    return np.array(counts, dtype=np.float64)


def _needed_coalition_eta(
    lost: Array[np.int64], links: FloatArray, tau: float
) -> float:
    """Return the least eta that satisfies the condition everywhere, by halving.

    The condition only gets easier with eta, and eta = tau w_S(i) always satisfies it;
    the upper end of the last interval is returned, so the bound stays on the safe side.
    """
    a, crowding = 1.0 - tau, np.arange(1, links.shape[1] + 1)
    low, high = 0.0, tau * float(lost.max())
    for _ in range(HALVINGS):
        eta = 0.5 * (low + high)
        share = eta / crowding
        held = (links * (a * share / (a + share))).sum(axis=1)
        enough = bool((eta + held >= tau * lost).all())
        low, high = (low, eta) if enough else (eta, high)
    return high
