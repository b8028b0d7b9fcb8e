"""Phase II on masked rows: DGD on effective costs, or one sum and a local solve.

Both see masked numbers and public data only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike, NDArray

from veilsum.core.arrays import (
    AgentPoints,
    FloatArray,
    Sparse,
    as_floats,
    as_vector,
    frozen,
)
from veilsum.core.bases import Basis
from veilsum.core.domains import Domain
from veilsum.core.effective import EffectiveCost
from veilsum.core.laws import GaussianMasks, LatticeMasks, Law
from veilsum.core.methods.dgd import Dgd
from veilsum.core.methods.one_shot import OneShot
from veilsum.core.mixing import mixing_weights
from veilsum.core.recentring import recentre, recentring_rounds
from veilsum.core.remainders import Remainder
from veilsum.core.settings import Settings
from veilsum.core.spreading import (
    Spread,
    choose_spread,
    spanning_tree,
    spreading_cost,
    tree_sum,
)
from veilsum.core.topology import Topology
from veilsum.errors import InvalidGraphError, InvalidInputError
from veilsum.sim.engine import FLOAT_BYTES, Progress, iterate, record_times

MaskedRows = Shaped[NDArray[Any], "n p"]
MaskedSum = Shaped[NDArray[Any], " p"]

# Masks are drawn down to about this size before DGD starts.
RESIDUAL_MASK = 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What phase II left behind.

    Attributes:
        times: the iterations at which estimates were kept.
        estimates: x_i at those times.
        iterations: how many the method took.
        rounds: message rounds.
        bytes: what crossed all links together.
        spread: how vectors travelled, if they were summed.
        effective: the costs an iterative method ran on; None if it only took sums.
    """

    times: Int[NDArray[np.int64], " times"]
    estimates: Float[FloatArray, "times n m"]
    iterations: int
    rounds: int
    bytes: int
    spread: str | None = None
    effective: EffectiveCost | None = None


@runtime_checkable
class PhaseTwo(Protocol):
    """A method, checked against the problem before any share is drawn."""

    def run(self, masked: MaskedRows, progress: Progress | None) -> Outcome:
        """Return what the parties arrive at."""
        ...


def phase_two(
    settings: Settings,
    topology: Topology,
    domain: Domain,
    law: Law,
    basis: Basis,
    remainder: Remainder,
) -> PhaseTwo:
    """Return the method that the settings name, or refuse with the reason."""
    if settings.method == "one-shot":
        _check_both_ways(topology)
        method = OneShot(basis, remainder, topology.n_agents, domain)
        way = choose_spread(
            settings.spread,
            n_agents=topology.n_agents,
            vector_bytes=basis.size * law.number_bytes,
        )
        return OneShotPhase(method, topology, law, way)
    _check_magnitudes(law)
    return DgdPhase(
        method=Dgd(domain, scale=settings.step, power=settings.power),
        settings=settings,
        topology=topology,
        law=law,
        weights=_dgd_weights(topology, settings.mixing),
        start=_start(settings.start, topology, domain),
        rounds=_recentring(settings, topology, law, basis.size),
        basis=basis,
        remainder=remainder,
    )


@dataclass(frozen=True, eq=False)
class OneShotPhase:
    """The masked rows are summed over the graph; every party solves by itself."""

    method: OneShot
    topology: Topology
    law: Law
    spread: Spread

    def run(self, masked: MaskedRows, progress: Progress | None) -> Outcome:
        """Return the same minimiser for every party."""
        total = self.law.decode(self._sum(masked))
        x = self.method.solve(total)
        if progress is not None:
            progress(1)
        rounds, vectors = spreading_cost(self.topology, self.spread)
        return Outcome(
            times=np.zeros(1, dtype=np.int64),
            estimates=np.tile(x, (1, self.topology.n_agents, 1)),
            iterations=0,
            rounds=rounds,
            bytes=vectors * masked.shape[1] * self.law.number_bytes,
            spread=self.spread,
        )

    def _sum(self, masked: MaskedRows) -> MaskedSum:
        if self.spread == "tree":
            return tree_sum(masked, spanning_tree(self.topology))
        return np.asarray(masked.sum(axis=0))


@dataclass(frozen=True, eq=False, kw_only=True)
class DgdPhase:
    """Recentring where the law has integers, then projected DGD."""

    method: Dgd
    settings: Settings
    topology: Topology
    law: Law
    weights: Sparse
    start: AgentPoints
    rounds: int
    basis: Basis
    remainder: Remainder

    def run(self, masked: MaskedRows, progress: Progress | None) -> Outcome:
        """Return the parties' estimates along the way."""
        drawn = masked
        if self.rounds:
            drawn = recentre(self.topology, self.weights, masked, rounds=self.rounds)
        # Frozen: an affine gradient is this very array.
        rows = frozen(np.array(self.law.decode(drawn)))
        effective = EffectiveCost(self.basis, rows, self.remainder)
        iterations = self.settings.iterations
        times = record_times(iterations, FLOAT_BYTES * self.start.size)
        kept = iterate(
            self.method,
            self.weights,
            effective,
            self.start,
            times=times,
            progress=progress,
        )
        return Outcome(
            times=times,
            estimates=kept,
            iterations=iterations,
            rounds=self.rounds + iterations,
            bytes=self._traffic(masked.shape[1]),
            effective=effective,
        )

    def _traffic(self, size: int) -> int:
        messages = 2 * self.topology.n_edges
        recentring = self.rounds * size * self.law.number_bytes
        estimates = self.settings.iterations * self.start.shape[1] * FLOAT_BYTES
        return messages * (recentring + estimates)


def _check_both_ways(topology: Topology) -> None:
    if topology.directed:
        raise InvalidGraphError(
            "masked vectors and sums travel both ways over every link, and this graph "
            "has one-way links: use an undirected one"
        )


def _check_magnitudes(law: Law) -> None:
    if law.name == "uniform":
        raise InvalidInputError(
            "dgd needs masked costs that have a size, and uniform masks leave residues "
            "modulo 2^64 that mean nothing until they are summed: use method one-shot, "
            "or law lattice"
        )


def _recentring(settings: Settings, topology: Topology, law: Law, size: int) -> int:
    """Return the rounds of recentring: by default where masks are integers."""
    if isinstance(law, LatticeMasks):
        if settings.recentre is False:
            return 0
        weights = _dgd_weights(topology, settings.mixing)
        sigma = float(law.sigma.max() * np.sqrt(topology.weights.max()))
        return recentring_rounds(
            topology, weights, sigma=sigma, size=size, residual=RESIDUAL_MASK
        )
    if settings.recentre and isinstance(law, GaussianMasks):
        raise InvalidInputError(
            "recentring keeps the sum exactly, which needs integers: use law lattice"
        )
    return 0


def _dgd_weights(topology: Topology, name: str) -> Sparse:
    """Return weights that DGD's convergence is proved for: a positive diagonal."""
    weights = mixing_weights(topology, name)
    lowest = int(np.argmin(weights.diagonal()))
    if not weights.diagonal()[lowest] > 0:
        raise InvalidInputError(
            f"dgd needs mixing weights with a positive diagonal, and {name!r} gives "
            f"party {topology.parties[lowest]!r} {weights.diagonal()[lowest]:.3g}; "
            "use metropolis"
        )
    return weights


def _start(start: ArrayLike, topology: Topology, domain: Domain) -> AgentPoints:
    shape = (topology.n_agents, domain.dim)
    array = as_floats(start, what="the start")
    if array.shape == shape:
        return np.array(array)
    point = as_vector(array, dim=domain.dim, what="the start")
    return np.array(np.broadcast_to(point, shape))
