"""All parties as rows of one array, with the rounds of a method after their masks.

An engine carries iterations out on masked numbers and public data only, so many at a
time. A `MinimiseJourney` decides which estimates are kept and when it stops, and finds
out what went wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NoReturn, cast

import numpy as np

from veilsum.drivers.arrays import (
    ArrayDriver,
    arcs_of_driver_epoch,
    array_driver_transcript,
)
from veilsum.drivers.driver import DriverAssignment, DriverOutput, DriverView
from veilsum.drivers.tap import MOST_BYTES
from veilsum.errors import (
    BadGradientError,
    DivergedError,
    InvalidInputError,
    NumericalError,
)
from veilsum.masks.masking import MaskShares, MaskStreams, ShareStreams
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import stack_remainders
from veilsum.minimise.device_masks import device_shares
from veilsum.minimise.engines.engine import Engine, EngineTask
from veilsum.minimise.engines.faulty import FaultyEngine
from veilsum.minimise.engines.registry import engine_for
from veilsum.minimise.methods.base import MethodState
from veilsum.minimise.methods.certificate import Bounds
from veilsum.minimise.methods.link_faults import LinkFaults
from veilsum.minimise.methods.recentring import recentre
from veilsum.minimise.methods.schedule import FLOAT_BYTES, MethodSchedule
from veilsum.minimise.rounds import MethodRounds
from veilsum.numbers.arrays import Array, FloatArray, PartyPoints, Vector, frozen_array
from veilsum.numbers.shapes import Float, Int
from veilsum.privacy.transcript import Transcript, TranscriptDrawnEpoch
from veilsum.progress import Advance
from veilsum.protocol.plan import ProtocolPlan
from veilsum.protocol.work import ProtocolRounds


@dataclass(frozen=True, kw_only=True)
class MethodArrays(ArrayDriver):
    """Simulates all parties at once, iterative methods included.

    Attributes:
        faults: what goes wrong on links between two iterations.
        on_device: whether all shares are drawn at once on JAX's device, by counters:
            quicker for very many parties, and the same for the same seed.
    """

    faults: LinkFaults | None = None
    on_device: bool = False

    def draw(
        self, plan: ProtocolPlan, streams: MaskStreams, epoch: int, *, keep: bool
    ) -> tuple[Array[Any], MaskShares | None]:
        """Return the masks of an epoch; on the device their shares are always kept."""
        if not self.on_device:
            return super().draw(plan, streams, epoch, keep=keep)
        root = ShareStreams.from_seed(self.seed).root
        shares = device_shares(
            plan.topology, plan.law, root, size=plan.size, epoch=epoch
        )
        return shares.masks(), shares

    def iterate(
        self,
        assignment: DriverAssignment,
        masked: Array[Any],
        first: TranscriptDrawnEpoch,
        unbalanced: float,
    ) -> DriverOutput:
        """Run the method that all parties have in their hands, on masked rows."""
        plan = assignment.plan
        held = (assignment.works[name].rounds for name in plan.parties)
        rounds = [cast("MethodRounds", one) for one in held]
        settings = rounds[0].schedules.settings
        schedule = rounds[0].schedules.on(plan.topology)
        shown = masked
        if schedule.recentring:
            weights, times = schedule.recentring_weights, schedule.recentring
            masked = recentre(plan.topology, weights, masked, rounds=times)
        cost = EffectiveCost(
            rounds[0].basis,
            # Frozen: an affine gradient is this very array.
            frozen_array(np.array(plan.law.decode(masked))),
            stack_remainders([one.remainder for one in rounds]),
        )
        task = EngineTask(
            method=schedule.method,
            weights=schedule.weights,
            cost=cost,
            start=np.stack([one.start for one in rounds]),
            precision=settings.precision,
        )
        if self.faults is None:
            engine = engine_for(task, settings.engine, schedule.iterations)
        else:
            engine = FaultyEngine(task, self.faults)
        size = FLOAT_BYTES * task.start.size
        found = MinimiseJourney(
            engine,
            schedule,
            cost,
            plan.parties,
            iterations_with_kept_estimates(schedule.iterations, size, settings.history),
            assignment.progress,
        ).run()
        done = found.iterations * schedule.method.rounds_per_iteration
        seen = DriverView(
            shares=first.shares,
            transcript=partial(self._replayed, assignment, first, shown),
            times=found.times,
            estimates=found.estimates,
            stopped=found.stopped,
            engine=engine.name,
            effective=cost,
        )
        return DriverOutput(
            sums=(),
            answer=found.estimates[-1].mean(axis=0),
            members=plan.parties,
            rounds=schedule.recentring + done,
            bytes=_traffic_of_minimise_rounds(plan, schedule, done),
            sum_of_masks=unbalanced,
            seen=seen if self.watched or assignment.watched else None,
        )

    def _replayed(
        self,
        assignment: DriverAssignment,
        first: TranscriptDrawnEpoch,
        masked: Array[Any],
        corrupted: Iterable[Hashable],
    ) -> Transcript:
        """Return a transcript with all that was told, as parties would tell it.

        An engine does not tell anybody anything: its iterations are done again, party
        by party, only when somebody asks.
        """
        plan = assignment.plan
        if self.faults is not None or plan.topology.directed:
            raise InvalidInputError(
                "a transcript has what machines tell each other over links that carry "
                "both ways: leave faults of links out",
                code="transcript-with-faults",
            )
        held = {name: assignment.works[name].rounds for name in plan.parties}
        told = _messages_of_minimise_rounds(
            plan, {k: one for k, one in held.items() if one}, masked
        )
        return array_driver_transcript(plan, [replace(first, told=told)], corrupted)


def _messages_of_minimise_rounds(
    plan: ProtocolPlan, rounds: Mapping[str, ProtocolRounds], masked: Array[Any]
) -> dict[tuple[int, str], Array[Any]]:
    graph, names = plan.topology, plan.parties
    pairs = zip(names, masked, strict=True)
    states = {name: rounds[name].begin(row, graph, name) for name, row in pairs}
    told: dict[tuple[int, str], Array[Any]] = {}
    index = size = 0
    while not any(rounds[name].finished(states[name]) for name in names):
        said = {name: rounds[name].outgoing(states[name]) for name in names}
        size += sum(one.nbytes for one in said.values())
        if size > MOST_BYTES:
            raise InvalidInputError(
                f"a transcript has at most {MOST_BYTES:,} bytes, and these parties "
                f"have told each other more after {index} rounds: take fewer "
                "iterations",
                code="transcript-too-large",
            )
        for name in names:
            told[index, name] = said[name]
            heard = {other: said[other] for other in graph.neighbours(name)}
            states[name] = rounds[name].advance(states[name], heard)
        index += 1
    return told


def _traffic_of_minimise_rounds(
    plan: ProtocolPlan, schedule: MethodSchedule, rounds: int
) -> int:
    """Return the bytes of bare numbers on all links together, shares included."""
    integers = (1 + schedule.recentring) * plan.size * plan.law.number_bytes
    return arcs_of_driver_epoch(plan) * (
        integers + rounds * plan.round_size * FLOAT_BYTES
    )


# A bound counts as broken when it is exceeded by more than rounding could do.
LEEWAY = 1e-6


def bound_broken_by_costs(
    cost: EffectiveCost,
    bounds: Bounds,
    x: PartyPoints,
    before: PartyPoints,
    names: tuple[str, ...],
) -> str | None:
    """Return in words what the costs did that the bounds exclude, if anything.

    `before` are estimates a step earlier than `x`.
    """
    moved = np.linalg.norm(x - before, axis=1)
    turned = cost.gradient_change(x, before)
    bends = np.linalg.norm(turned, axis=1) / np.where(moved > 0, moved, np.inf)
    worst = int(np.argmax(bends))
    if bends[worst] > bounds.smooth * (1.0 + LEEWAY):
        return (
            f"the gradient of {names[worst]!r} turns by {bends[worst]:.4g} times the "
            f"move, more than smooth = {bounds.smooth:.4g} allows: give a larger smooth"
        )
    return _bound_broken_by_mean_cost(cost, bounds, x.mean(axis=0), before.mean(axis=0))


def _bound_broken_by_mean_cost(
    cost: EffectiveCost, bounds: Bounds, here: Vector, there: Vector
) -> str | None:
    """Look at the average cost, at two points that are the same for all parties."""
    everywhere = (cost.coefficients.shape[0], here.size)
    both = (np.broadcast_to(point, everywhere) for point in (here, there))
    turned, move = cost.gradient_change(*both).mean(axis=0), here - there
    length = float(np.linalg.norm(move))
    if not 0 < length < np.inf:
        return None
    bend = float(np.linalg.norm(turned)) / length
    slope = float(turned @ (move / length)) / length
    if bend > bounds.mean_smooth * (1.0 + LEEWAY):
        return (
            f"the average gradient turns by {bend:.4g} times the move, more than "
            f"mean_smooth = {bounds.mean_smooth:.4g} allows: give a larger one"
        )
    if slope < bounds.mean_convex * (1.0 - LEEWAY):
        return (
            f"the average cost curves by {slope:.4g} along the move, less than "
            f"mean_convex = {bounds.mean_convex:.4g}: give a smaller one"
        )
    return None


Times = Int[Array[np.int64], " times"]

# The trace holds at most this many bytes of estimates.
TRACE_BYTES = 16 * 1024 * 1024
TIMES_PER_DECADE = 40
# How often, in a whole run, progress is told, if anybody listens, and how often numbers
# are looked at: an engine is quickest when it is left alone for many iterations.
REPORTS, LOOKS, FEWEST = 200, 20, 10
# Nobody's estimate is this far away unless steps are too long.
LOST = 1e30


@dataclass(frozen=True, eq=False)
class MinimisedArrays:
    """Estimates kept from a run.

    Attributes:
        times: iterations at which estimates were kept, including the last.
        stopped: reason for the end: "tolerance", "iterations" or "bytes".
    """

    times: Times
    estimates: Float[FloatArray, "times n m"]
    stopped: str

    @property
    def iterations(self) -> int:
        return int(self.times[-1])


def iterations_with_kept_estimates(
    iterations: int, bytes_per_time: int, stride: int | None = None
) -> Times:
    """Return 0, the iterations at which estimates are kept, and the last one.

    They are a stride apart, or spaced evenly on a logarithmic scale within 16 MB.
    """
    if stride is not None:
        spaced = np.arange(0, iterations, stride, dtype=np.float64)
    else:
        decades = np.log10(iterations) + 1
        count = int(min(TIMES_PER_DECADE * decades, TRACE_BYTES // bytes_per_time))
        spaced = np.geomspace(1, iterations, max(count, 1)).round()
    return np.unique(np.concatenate([[0], spaced, [iterations]])).astype(np.int64)


@dataclass(eq=False)
class MinimiseJourney:
    """A run under way.

    Attributes:
        schedule: how many, and when to stop.
        cost: what the engine runs on, to find out what went wrong.
        names: of the parties, to say where.
        times: when estimates are kept, in rising order.
        progress: told now and then how many iterations are done.
    """

    engine: Engine
    schedule: MethodSchedule
    cost: EffectiveCost
    names: tuple[str, ...]
    times: Times
    progress: Advance | None = None
    _kept: list[int] = field(default_factory=list)
    _estimates: Float[FloatArray, "times n m"] | None = None
    _before: tuple[PartyPoints, PartyPoints] | None = None
    _end: int | None = None
    _sound: MethodState | None = None
    _earlier: MethodState | None = None
    _first_move: float = 0.0

    def run(self) -> MinimisedArrays:
        """Go on to the end, or until everybody is near enough.

        Raises:
            DivergedError: numbers got out of hand; it has the last good estimates.
        """
        state = self._sound = self.engine.begin()
        self._note(state)
        while not self._is_over(state.iteration):
            state = self._reach(state, self._next(state.iteration))
            self._note(state)
        if state.iteration not in self._marks:
            self._keep(state)
        arrived = state.iteration == self._end
        if not arrived:
            self._check_settling(state)
        return MinimisedArrays(
            np.array(self._kept, dtype=np.int64),
            np.asarray(self._estimates)[: len(self._kept)],
            "tolerance" if arrived else self.schedule.limit,
        )

    def _is_over(self, iteration: int) -> bool:
        return iteration in {self.schedule.iterations, self._end}

    def _next(self, now: int) -> int:
        found = [self._stops[bisect_right(self._stops, now)]]
        if (rule := self.schedule.stopping) is not None:
            look = now + rule.every - now % rule.every
            found += [look - 1, look]
        if self._end is not None:
            found.append(self._end)
        return min(one for one in found if one > now)

    @cached_property
    def _stops(self) -> list[int]:
        """All iterations at which there is something to do, whatever the numbers."""
        return sorted(self._marks | self._looks)

    @cached_property
    def _looks(self) -> frozenset[int]:
        last = self.schedule.iterations
        listens = self.progress is not None
        stride = max(1, last // REPORTS) if listens else max(FEWEST, last // LOOKS)
        even = np.arange(stride, last, stride)
        # An engine stops for estimates that are kept as well: once for both.
        marks = np.append(self.times, last)
        kept = marks[np.searchsorted(marks, even)]
        looks = np.where(kept < even + stride, kept, even)
        # The first by itself: later ones are held against how far it went.
        return frozenset([1, *looks.tolist(), last])

    @cached_property
    def _marks(self) -> frozenset[int]:
        return frozenset(self.times.tolist())

    def _keep(self, state: MethodState) -> None:
        points = self.engine.points(state)
        if self._estimates is None:
            # Room for all times, and for an end before the last of them.
            self._estimates = np.empty((len(self.times) + 1, *points.shape))
        self._estimates[len(self._kept)] = points
        self._kept.append(state.iteration)

    def _note(self, state: MethodState) -> None:
        iteration = state.iteration
        if iteration in self._marks:
            self._keep(state)
        if self.progress is not None and iteration:
            self.progress(iteration)
        rule = self.schedule.stopping
        if rule is None or not (
            rule.looks_at(iteration) or rule.looks_at(iteration + 1)
        ):
            return
        now = (self.engine.points(state), self.engine.aims(state))
        if rule.looks_at(iteration) and self._before is not None and self._end is None:
            moves = zip(now, self._before, strict=True)
            largest = max(float(rule.residual(a, b).max()) for a, b in moves)
            if rule.is_enough(largest):
                self._end = iteration + rule.lag
        self._before = now if rule.looks_at(iteration + 1) else None

    def _reach(self, state: MethodState, iteration: int) -> MethodState:
        """Return the state at an iteration, unless something went wrong before."""
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                after = self.engine.advance(state, iteration - state.iteration)
            except BadGradientError as error:
                if not self._strayed(state).any():
                    self._earlier, self._sound = self._sound, state
                self._complain(iteration, error)
            if iteration not in self._looks and iteration != self._end:
                return after
            if self._strayed(after).any():
                self._complain(iteration)
        if iteration == 1:
            step = self.engine.points(after) - self.engine.points(state)
            self._first_move = float(np.linalg.norm(step, axis=-1).max())
        self._earlier, self._sound = self._sound, after
        return after

    def _check_settling(self, last: MethodState) -> None:
        """Refuse an end in the middle of ever longer moves, where a bound is broken.

        Numbers need not run away for that: some costs throw them to and fro.
        """
        bounds = self.schedule.bounds
        if bounds is None or last.iteration < 2:
            return
        x = self.engine.points(last)
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                after = self.engine.points(self.engine.advance(last, 1))
                why = bound_broken_by_costs(self.cost, bounds, after, x, self.names)
            except BadGradientError:
                return  # nobody asked for this iteration
        moves = np.linalg.norm(after - x, axis=-1)
        if why is not None and float(moves.max()) >= self._first_move:
            furthest = self.names[int(np.argmax(moves))]
            raise DivergedError(furthest, last.iteration, x, why, code="diverged")

    def _strayed(self, state: MethodState) -> Array[np.bool_]:
        points, aims = self.engine.points(state), self.engine.aims(state)
        within = np.asarray((np.abs(points) < LOST).all(axis=-1))  # nan is not
        if aims is not points:
            within &= (np.abs(aims) < LOST).all(axis=-1)
        return ~within

    def _complain(self, until: int, error: BadGradientError | None = None) -> NoReturn:
        """Go on from the last sound state step by step, to see where it went wrong.

        A gradient may also fail because numbers ran away before: what came first is
        what is said.
        """
        good = self._sound or self.engine.begin()
        before = self._earlier or good
        while good.iteration < until:
            try:
                after = self.engine.advance(good, 1)
            except BadGradientError as found:
                error = found
                break
            if (strayed := self._strayed(after)).any():
                party = self.names[int(np.argmax(strayed))]
                x, old = self.engine.points(good), self.engine.points(before)
                raise DivergedError(
                    party, after.iteration, x, self._why(x, old), code="diverged"
                )
            before, good = good, after
        if error is None:
            raise NumericalError(
                f"numbers ran away before iteration {until}, and did not when its "
                "iterations were carried out one by one; use engine numpy",
                code="diverged-in-block",
            )
        whose = error.party
        raise BadGradientError(
            error.reason,
            self.names[whose] if isinstance(whose, int) else whose,
            good.iteration + 1,
            self.engine.points(good),
            code=error.code,
        ) from error

    def _why(self, x: PartyPoints, before: PartyPoints) -> str:
        """Say what made numbers run away, as far as two estimates show it."""
        bounds = self.schedule.bounds
        if bounds is None:
            return "steps are too long: give a smaller step"
        return bound_broken_by_costs(self.cost, bounds, x, before, self.names) or (
            "no bound was seen broken: leave step and rounds out if they were given, "
            "they are other than what is proved to converge; over links that change, "
            "give a smaller step"
        )
