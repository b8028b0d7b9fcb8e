"""Phase II on masked rows: a method on effective costs, or one sum and a local solve.

Both see masked numbers and public data only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from veilsum.costs.bases import Basis
from veilsum.costs.domains import Domain
from veilsum.costs.effective import EffectiveCost
from veilsum.costs.remainders import Remainder, SquaredNorm
from veilsum.drivers.iterating import Journey, Progress, Times, kept_times
from veilsum.engines.choosing import engine_for
from veilsum.engines.engine import Engine, Task
from veilsum.engines.faulty import FaultyEngine
from veilsum.errors import InvalidGraphError, InvalidInputError
from veilsum.graphs.spreading import (
    Spread,
    choose_spread,
    spanning_tree,
    spreading_cost,
    tree_sum,
)
from veilsum.graphs.topology import Topology
from veilsum.methods.link_faults import LinkFaults
from veilsum.methods.one_shot import OneShot
from veilsum.methods.recentring import recentre
from veilsum.methods.schedule import FLOAT_BYTES, Facts, Schedule, schedule
from veilsum.methods.settings import Settings
from veilsum.numbers.arrays import (
    AgentPoints,
    Array,
    FloatArray,
    as_floats,
    as_vector,
    frozen,
)
from veilsum.numbers.laws import Law
from veilsum.numbers.shapes import Float, Int, Shaped

MaskedRows = Shaped[Array[Any], "n p"]
MaskedSum = Shaped[Array[Any], " p"]

# Up to here "auto" prefers one sum of all coefficients to iterations.
MOST_COEFFICIENTS = 5000


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
        method: its name.
        stopped: why an iterative method ended.
        engine: what carried its iterations out.
        tolerance_unused: why a tolerance that was asked for could not end it.
    """

    times: Int[Array[np.int64], " times"]
    estimates: Float[FloatArray, "times n m"]
    iterations: int
    rounds: int
    bytes: int
    spread: str | None = None
    effective: EffectiveCost | None = None
    method: str = OneShot.name
    stopped: str | None = None
    engine: str | None = None
    tolerance_unused: str | None = None


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
    faults: LinkFaults | None = None,
) -> PhaseTwo:
    """Return the method that the settings name, or refuse with the reason."""
    wrong = faults is not None and bool(faults.kinds)
    simple = not wrong and _is_simple(settings, basis, remainder)
    if settings.method == OneShot.name or simple:
        _check_both_ways(topology)
        _check_no_faults(wrong=wrong)
        method = OneShot(basis, remainder, topology.n_parties, domain)
        way = choose_spread(
            settings.spread,
            n_parties=topology.n_parties,
            vector_bytes=basis.size * law.number_bytes,
        )
        return OneShotPhase(method, topology, law, way)
    _check_magnitudes(settings, law, wrong=wrong)
    facts = public_facts(topology, domain, law, basis, remainder, faults)
    return IterativePhase(
        settings=settings,
        facts=facts,
        topology=topology,
        law=law,
        schedule=schedule(settings, facts, topology),
        start=_start(settings.start, topology, domain),
        remainder=remainder,
        faults=faults,
    )


def _is_simple(settings: Settings, basis: Basis, remainder: Remainder) -> bool:
    """Say whether "auto" needs no iterations: one sum, and everybody can solve."""
    known = remainder.kind != "local" and basis.size <= MOST_COEFFICIENTS
    return settings.method == "auto" and known


def public_facts(
    topology: Topology,
    domain: Domain,
    law: Law,
    basis: Basis,
    remainder: Remainder,
    faults: LinkFaults | None = None,
) -> Facts:
    """Return what everybody knows of a problem."""
    drawn = np.asarray(law.masks.sigma or 0.0)
    shared = remainder.scale if isinstance(remainder, SquaredNorm) else 0.0
    return Facts(
        domain=domain,
        basis=basis,
        curvature=2.0 * shared if shared > 0 else None,
        sigma=float(drawn.max() * np.sqrt(topology.weights.max())),
        integers=law.exact,
        number_bytes=law.number_bytes,
        faults=frozenset() if faults is None else faults.kinds,
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
            estimates=np.tile(x, (1, self.topology.n_parties, 1)),
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
class IterativePhase:
    """Recentring where the law has integers, then an iterative method."""

    settings: Settings
    facts: Facts
    topology: Topology
    law: Law
    schedule: Schedule
    start: AgentPoints
    remainder: Remainder
    faults: LinkFaults | None = None

    def run(self, masked: MaskedRows, progress: Progress | None) -> Outcome:
        """Return the parties' estimates along the way."""
        cost = self._effective(masked)
        task = Task(
            method=self.schedule.method,
            weights=self.schedule.weights,
            cost=cost,
            start=self.start,
            precision=self.settings.precision,
        )
        engine = self._engine(task)
        found = Journey(
            engine,
            self.schedule,
            cost,
            self.topology.parties,
            self._times(),
            progress,
        ).run()
        return Outcome(
            times=found.times,
            estimates=found.estimates,
            iterations=found.iterations,
            rounds=self.rounds(found.iterations),
            bytes=self._traffic(found.iterations),
            effective=cost,
            method=self.schedule.name,
            stopped=found.stopped,
            engine=engine.name,
            tolerance_unused=self._tolerance_unused,
        )

    @property
    def _tolerance_unused(self) -> str | None:
        if self.faults is None or self.settings.tolerance is None:
            return None
        return self.faults.no_stopping

    def _engine(self, task: Task) -> Engine:
        if self.faults is None:
            most = self.schedule.iterations
            return engine_for(task, self.settings.engine, most)
        return FaultyEngine(task, self.faults)

    def _effective(self, masked: MaskedRows) -> EffectiveCost:
        drawn, rounds = masked, self.schedule.recentring
        if rounds:
            weights = self.schedule.recentring_weights
            drawn = recentre(self.topology, weights, masked, rounds=rounds)
        # Frozen: an affine gradient is this very array.
        rows = frozen(np.array(self.law.decode(drawn)))
        return EffectiveCost(self.facts.basis, rows, self.remainder)

    def _times(self) -> Times:
        size = FLOAT_BYTES * self.start.size
        return kept_times(self.schedule.iterations, size, self.settings.history)

    def rounds(self, iterations: int) -> int:
        """Return the message rounds of so many iterations, recentring included."""
        each = self.schedule.method.rounds_per_iteration
        return self.schedule.recentring + iterations * each

    def _traffic(self, iterations: int) -> int:
        """Return the bytes of bare numbers on all links together."""
        plan, dim = self.schedule, self.start.shape[1]
        arcs = self.topology.n_edges * (1 if self.topology.directed else 2)
        recentring = plan.recentring * self.facts.basis.size * self.law.number_bytes
        each = plan.message_vectors * dim + (plan.stopping is not None)
        rounds = iterations * plan.method.rounds_per_iteration
        return arcs * (recentring + rounds * each * FLOAT_BYTES)


def _check_both_ways(topology: Topology) -> None:
    if topology.directed:
        raise InvalidGraphError(
            "masked vectors and sums travel both ways over every link, and this graph "
            "has one-way links: use an undirected one"
        )


def _check_no_faults(*, wrong: bool) -> None:
    if wrong:
        raise InvalidInputError(
            "faults are simulated between iterations, and one-shot takes none: use "
            "method auto, which takes one that bears them, or leave faults out"
        )


def _check_magnitudes(settings: Settings, law: Law, *, wrong: bool) -> None:
    if law.sums_only:
        use = "law lattice" if wrong else "method one-shot, or law lattice"
        raise InvalidInputError(
            f"{settings.method} needs masked costs that have a size, and {law.name} "
            "masks leave residues modulo 2^64 that mean nothing until they are summed: "
            f"use {use}"
        )
    if settings.recentre and law.hides and not law.exact:
        raise InvalidInputError(
            "recentring keeps the sum exactly, which needs integers: use law lattice"
        )


def _start(start: ArrayLike, topology: Topology, domain: Domain) -> AgentPoints:
    shape = (topology.n_parties, domain.dim)
    array = as_floats(start, what="the start")
    if array.shape == shape:
        return np.array(array)
    point = as_vector(array, dim=domain.dim, what="the start")
    return np.array(np.broadcast_to(point, shape))
