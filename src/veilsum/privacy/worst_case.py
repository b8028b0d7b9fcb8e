"""Corollary 1: what any t colluding parties can learn, and which t learn most.

First the graph is cut, if t parties can do that. Otherwise the worst coalition of
exactly t (Lemma A) is found and proved; on graphs too large for a proof the answer is
an interval: what the best attack found achieves, and what no attack exceeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.graphs.connectivity import minimum_vertex_cut, vertex_connectivity
from veilsum.graphs.spectrum import Certificate, certified_mu2, fiedler_vector, rayleigh
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.numbers.laws import LawName
from veilsum.privacy.coalitions import Progress, Search
from veilsum.privacy.guarantee import (
    Guarantee,
    Noise,
    Worst,
    guarantee,
    success_at,
)
from veilsum.privacy.sparse_bounds import sparse_bound

# Up to this many parties the search holds dense matrices of the whole graph.
DENSE_PARTIES = 2500
# Work before the search settles for an interval, in tests of thirty-party graphs: about
# half a minute.
MOST_WORK = 1e6


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
    progress: Progress | None = None,
) -> Guarantee:
    """Return what holds against every coalition of up to `tolerate` parties.

    The guarantee is the one against the worst coalition found; its `epsilon` is what no
    coalition exceeds, and `worst` says how well that is known. An interrupt (Ctrl-C)
    stops the search and keeps the bracket found so far.

    >>> found = worst_case(Topology.family("petersen"), sigma=1.0, tolerate=2)
    >>> found.worst.exact, round(found.epsilon, 12)
    (True, 0.380472960543)
    """
    topology = Topology.of(topology)
    check_tolerate(topology, tolerate)
    noise = Noise.of(law, sigma, grid)
    kappa, cut = _cut(topology, tolerate)
    against = partial(guarantee, topology, sigma=sigma, law=law, grid=grid)
    if cut is not None:
        base = against(corrupted=cut, distance=distance)
        return _cut_guarantee(base, tolerate, kappa, cut)
    found = worst_mu2(
        topology, tolerate=tolerate, most_work=most_work, progress=progress
    )
    base = against(corrupted=topology.names(found.coalition))
    return _bracketed(base, topology, noise, found, kappa, tolerate, distance)


def _bracketed(
    base: Guarantee,
    topology: Topology,
    noise: Noise,
    found: WorstMu2,
    kappa: int | None,
    tolerate: int,
    distance: float | None,
) -> Guarantee:
    """Return the guarantee against one coalition, widened to all of its size."""
    proved = noise.continuous(topology, found.lower)
    excess = noise.worst_excess(topology, tolerate, found.lower)
    upper = None if proved is None else proved + excess
    # Along long multiples of the worst direction a lattice comes as near to the
    # continuous formula as one likes: that much any bound must concede.
    lower = proved if found.exact else noise.continuous(topology, found.upper)
    worst = Worst(
        tolerate=tolerate,
        worst_coalition=topology.names(found.coalition),
        epsilon_lower=lower,
        epsilon_upper=upper,
        # Uniform masks hide everything but sums on every connected graph.
        exact=(found.exact or noise.law == "uniform") and lower == upper,
        cut=None,
        vertex_connectivity=kappa,
    )
    return replace(
        base,
        epsilon=upper,
        mu2=found.lower,
        mu2_certificate=found.certificate,
        attacker_success=success_at(base.status, upper, distance, noise),
        excess=excess if noise.law == "lattice" else None,
        worst=worst,
    )


def worst_mu2(
    topology: Topology,
    *,
    tolerate: int,
    most_work: float = MOST_WORK,
    progress: Progress | None = None,
) -> WorstMu2:
    """Return bounds on the weakest honest graph; `tolerate` must be below kappa."""
    if topology.n_parties > DENSE_PARTIES:
        return _large(topology, tolerate)
    found = Search(topology, tolerate, most_work, progress).run()
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


def check_tolerate(topology: Topology, tolerate: int) -> None:
    """Refuse a number of colluders that makes no sense on this graph."""
    n = topology.n_parties
    if tolerate < 0:
        raise InvalidInputError(f"tolerate must not be negative, found {tolerate}")
    if tolerate >= n - 1:
        raise InvalidInputError(
            f"tolerate must be below n - 1 = {n - 1}, found {tolerate}: only one "
            f"honest party is left, and nothing can be hidden from {n - 1} colluders"
        )


def _cut(
    topology: Topology, tolerate: int
) -> tuple[int | None, tuple[str, ...] | None]:
    """Return kappa and, if t parties can disconnect the rest, who they are."""
    if topology.n_parties > DENSE_PARTIES:
        return _cut_of_a_large_graph(topology, tolerate)
    kappa = vertex_connectivity(topology)
    return kappa, _cut_names(topology) if tolerate >= kappa else None


def _cut_of_a_large_graph(
    topology: Topology, tolerate: int
) -> tuple[int | None, tuple[str, ...] | None]:
    # Fiedler: mu2 <= kappa on an incomplete graph, so mu2 > t already settles it.
    plain = Topology(topology.parties, topology.edges, np.ones(topology.n_edges))
    mu2 = certified_mu2(plain).lower
    if mu2 is not None and mu2 > tolerate:
        return None, None
    kappa = vertex_connectivity(topology, at_most=tolerate + 1)
    return (kappa, _cut_names(topology)) if kappa <= tolerate else (None, None)


def _cut_names(topology: Topology) -> tuple[str, ...]:
    return topology.names(minimum_vertex_cut(topology) or ())


def _cut_guarantee(
    base: Guarantee, tolerate: int, kappa: int | None, cut: tuple[str, ...]
) -> Guarantee:
    note = (
        f"{len(cut)} parties suffice to cut the graph; the pieces shown are what they "
        f"leave, and {tolerate} colluders can expose more"
    )
    worst = Worst(
        tolerate=tolerate,
        worst_coalition=cut,
        epsilon_lower=None,
        epsilon_upper=None,
        exact=True,
        cut=cut,
        vertex_connectivity=kappa,
    )
    return replace(base, worst=worst, limits=(*base.limits, note))


def _large(topology: Topology, tolerate: int) -> WorstMu2:
    """Return an interval: Fiedler-vector greed from above, local bounds from below."""
    whole = certified_mu2(topology)
    coalition = _greedy(topology, tolerate)
    left = topology.without(coalition)
    upper = rayleigh(left.laplacian, fiedler_vector(left))
    if tolerate == 0:
        exact = whole.certificate == "exact"
        return WorstMu2(whole.lower, whole.upper, (), exact, whole.certificate)
    if whole.lower is None:
        return WorstMu2(None, upper, coalition, exact=False, certificate="none")
    bound = sparse_bound(topology, mu2=whole.lower, size=tolerate)
    if bound <= 0:
        return WorstMu2(None, upper, coalition, exact=False, certificate="none")
    lower = min(bound, upper)
    return WorstMu2(lower, upper, coalition, exact=False, certificate=whole.certificate)


def _greedy(topology: Topology, size: int) -> tuple[int, ...]:
    """Take, one by one, the party whose loss the Fiedler vector minds least."""
    chosen: tuple[int, ...] = ()
    for _ in range(size):
        kept = [v for v in range(topology.n_parties) if v not in chosen]
        chosen = (*chosen, kept[_easiest_loss(topology.induced(kept))])
    return tuple(sorted(chosen))


def _easiest_loss(topology: Topology) -> int:
    """Return the party v with the least Rayleigh bound on mu2(G - v)."""
    x = fiedler_vector(topology)
    x = (x - x.mean()) / np.linalg.norm(x - x.mean())
    i, j = topology.edges.T
    energy = topology.weights * (x[i] - x[j]) ** 2
    n = topology.n_parties
    lost = np.bincount(i, energy, n) + np.bincount(j, energy, n)
    score = (energy.sum() - lost) / (1.0 - x**2 * n / (n - 1))
    return int(np.argmin(score))
