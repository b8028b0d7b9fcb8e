"""The numba engine: whole runs as machine code where it knows how, on all cores.

Distributed gradient descent and gradient tracking of quadratic costs, on boxes or on
the whole space, are compiled, whole runs at once; so is EXTRA where costs curve alike.
Every other method is carried out by its one source, with a compiled product for the
mixing.

Where costs curve alike everywhere, an iteration treats every coordinate by itself: rows
are cut into panels of a few columns, each of which stays in cache through all of its
iterations, and panels need not wait for each other. Where every party has a matrix of
its own, almost all that an iteration reads are the matrices, and plain loops do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import (
    Any,
    ClassVar,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

import numpy as np
import scipy

from veilsum.minimise.costs.domains import Box, Domain, WholeSpace
from veilsum.minimise.costs.effective import ClosedForm
from veilsum.minimise.engines.engine import (
    EngineTask,
    Precision,
    closed_form_of_gradients,
)
from veilsum.minimise.engines.numpy import DENSE_PARTIES, DENSE_SHARE, PlainEngine
from veilsum.minimise.methods.base import Message, Messages, MethodState, S
from veilsum.minimise.methods.chebyshev import Chebyshev, ChebyshevState
from veilsum.minimise.methods.dgd import Dgd, DgdState
from veilsum.minimise.methods.extra import Extra, ExtraState
from veilsum.minimise.methods.gradient_tracking import GradientTracking, TrackingState
from veilsum.numbers.arrays import Array, PartyPoints, Sparse
from veilsum.numbers.shapes import Float, Int, UInt

T = TypeVar("T")

Rows: TypeAlias = Float[Array[Any], "n m"]
Numbers: TypeAlias = Float[Array[Any], " k"]
Order: TypeAlias = Int[Array[Any], " n"]

# Parties in one cache are near each other in any order.
REORDER_PARTIES = 4096
# Where neighbours are no farther apart than this on average no order is looked for; one
# that is found must bring them nearer by so much.
NEAR_PARTIES, WORTH = 256, 0.9
# Numbers mixed in one call below which a second thread comes too late.
SMALL_WORK = 2_000_000


@dataclass(frozen=True, eq=False)
class FusedEngine:
    """Compiled iterations, or a method's own with a compiled product.

    States have parties in an order in which neighbours are near each other.
    """

    task: EngineTask
    name: str = field(default="numba", init=False)

    @cached_property
    def nearness(self) -> EngineNearness:
        form = closed_form_of_gradients(self.task.cost)
        # Only coefficients can be put in order, no other parts of costs.
        if form is None or form.squares is not None:
            return EngineNearness(None, 0.0, None)
        kind, weights = next(iter(self.task.weights.items()))
        return engine_order_of_near_parties(weights, symmetric=kind == "symmetric")

    @property
    def _order(self) -> Order | None:
        """Parties in the states' order; None for their own."""
        return self.nearness.order

    @cached_property
    def _source(self) -> PlainEngine:
        """The method's own source, parties in the states' order."""
        task = (
            self.task
            if self._order is None
            else reorder_engine_task(self.task, self._order)
        )
        return WithProducts(task)

    @cached_property
    def _run(self) -> CompiledRun:
        return compiled_engine_run(self._source.task) or self._source

    def begin(self) -> MethodState:
        return self._source.begin()

    def advance(self, state: MethodState, count: int) -> MethodState:
        return self._run.advance(state, count) if count else state

    def points(self, state: MethodState) -> PartyPoints:
        """Return estimates in float64, by row."""
        return self._by_row(self._source.points(state))

    def aims(self, state: MethodState) -> PartyPoints:
        """Return where parties alone would go next, in float64, by row."""
        return self._by_row(self._source.aims(state))

    def _by_row(self, points: PartyPoints) -> PartyPoints:
        if self._order is None:
            return points
        found = np.empty_like(points)
        found[self._order] = points
        return found


class EngineNearness(NamedTuple):
    """In which order parties are, and how far apart neighbours then are.

    Attributes:
        order: parties such that neighbours come soon after each other; None for their
            own order.
        own: how far apart neighbours are in their own order, on average.
        found: the same by Cuthill and McKee's; None where it was not looked for.
    """

    order: Order | None
    own: float
    found: float | None

    @property
    def words(self) -> str:
        if not self.own:
            return "the parties' own order"
        if self.found is None:
            return f"the parties' own order: neighbours are {self.own:,.0f} apart"
        if self.order is None:
            return (
                f"the parties' own order: neighbours are {self.own:,.0f} apart, in "
                f"Cuthill and McKee's {self.found:,.0f}"
            )
        return (
            f"reverse Cuthill and McKee's order: neighbours are {self.found:,.0f} "
            f"apart, in their own {self.own:,.0f}"
        )


def engine_order_of_near_parties(
    weights: Sparse, *, symmetric: bool = True
) -> EngineNearness:
    """Return whether another order brings neighbours nearer to each other.

    Rows of neighbours are then more often in cache when they are read. Rows of few
    parties all are; and families may be numbered well already.
    """
    from veilsum.minimise.engines.kernels import link_lengths

    n, csr = weights.shape[0], scipy.sparse.csr_array(weights)
    if n < REORDER_PARTIES:
        return EngineNearness(None, 0.0, None)
    arrays = (csr.indptr, csr.indices, csr.data)
    own = link_lengths(arrays, np.arange(n, dtype=np.int32))
    if own < NEAR_PARTIES:
        return EngineNearness(None, own, None)
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(csr, symmetric_mode=symmetric)
    found = link_lengths(arrays, _places_of_engine_order(order))
    return EngineNearness(order if found < WORTH * own else None, own, found)


def _places_of_engine_order(order: Order) -> Order:
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place


def reorder_engine_weights(weights: Sparse, order: Order) -> Sparse:
    from veilsum.minimise.engines.kernels import moved_rows

    csr = scipy.sparse.csr_array(weights)
    start = np.zeros_like(csr.indptr)
    np.cumsum(np.diff(csr.indptr)[order], out=start[1:])
    into = (start, np.empty_like(csr.indices), np.empty_like(csr.data))
    moved_rows(
        (csr.indptr, csr.indices, csr.data), order, _places_of_engine_order(order), into
    )
    found = scipy.sparse.csr_array((into[2], into[1], start), csr.shape)
    found.sort_indices()  # rows are then read from near to far
    return found


def reorder_engine_task(task: EngineTask, order: Order) -> EngineTask:
    weights = {
        name: reorder_engine_weights(w, order) for name, w in task.weights.items()
    }
    cost = replace(task.cost, coefficients=task.cost.coefficients[order])
    return replace(task, weights=weights, cost=cost, start=task.start[order])


# A method's own source


@dataclass(frozen=True, eq=False)
class WithProducts(PlainEngine):
    """A method's own source, with a compiled product where there are many parties."""

    @cached_property
    def _weights(self) -> dict[Any, Any]:
        weights = super()._weights
        if len(self.task.start) <= DENSE_PARTIES:
            return weights
        return {name: CompiledProduct(w) for name, w in weights.items()}


@dataclass(frozen=True, eq=False)
class CompiledProduct:
    """Weights whose product with rows is compiled, and carried out by all threads."""

    weights: Sparse

    def __matmul__(self, told: Messages) -> Message:
        """Return sum_j w_ij told_j by row."""
        from veilsum.minimise.engines.kernels import mix_rows

        rows, w = np.ascontiguousarray(told), self.weights
        out = np.empty_like(rows)
        ends = np.linspace(0, len(rows), engine_threads() + 1).astype(int).tolist()

        def part(ends: tuple[int, int]) -> None:
            mix_rows(*ends, (w.indptr, w.indices, w.data), rows, out)

        each_by_engine_threads(
            part, pairwise(ends), small=w.nnz * rows.shape[1] < SMALL_WORK
        )
        return out


# Threads


def engine_threads() -> int:
    return os.cpu_count() or 1


def each_by_engine_threads(
    action: Callable[[T], object], items: Iterable[T], *, small: bool
) -> None:
    """Do something with every item, by several threads unless it is soon done."""
    if small or engine_threads() == 1:
        for item in items:
            action(item)
        return
    with ThreadPoolExecutor(engine_threads()) as pool:
        # Through a list: an error in a thread is raised here.
        list(pool.map(action, items))


@dataclass(eq=False)
class EngineShift:
    """Pieces of work, in rows of which each must be done in order, by any thread.

    Attributes:
        action: does one piece of a row, by their numbers.
    """

    action: Callable[[int, int], object]
    weights: Sequence[int]
    pieces: int
    _done: list[int] = field(init=False)
    _busy: set[int] = field(default_factory=set, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        self._done = [0] * len(self.weights)

    def work(self, _: int) -> None:
        """Do pieces until none is left that could be begun."""
        while (row := self._take()) is not None:
            self.action(row, self._done[row])
            with self._lock:
                self._done[row] += 1
                self._busy.remove(row)

    def _take(self) -> int | None:
        """Return the row with most to do of those that nobody works on."""
        with self._lock:
            free = [row for row in range(len(self.weights)) if self._left(row)]
            row = max(free, key=self._left, default=None)
            if row is not None:
                self._busy.add(row)
            return row

    def _left(self, row: int) -> int:
        pieces = 0 if row in self._busy else self.pieces - self._done[row]
        return pieces * self.weights[row]


# Which methods and costs have compiled runs


@runtime_checkable
class CompiledRun(Protocol):
    """Compiled iterations, from a state to a state of the same kind."""

    def advance(self, state: Any, count: int) -> Any:
        """Return all parties after so many more iterations."""
        ...


def compiled_engine_run(task: EngineTask) -> CompiledRun | None:
    """Return a compiled run of a task; None where its method's source must do."""
    method: Any = task.method
    if not isinstance(method, Chebyshev):
        return _bare_engine_run(task, method, (1.0,))
    if type(method.method) is not GradientTracking:
        return None
    inner = _bare_engine_run(task, method.method, method.factors)
    return None if inner is None else SeveralRounds(method.method, inner)


def _bare_engine_run(
    task: EngineTask, method: Any, factors: tuple[float, ...]
) -> CompiledRun | None:
    form = closed_form_of_gradients(task.cost)
    if form is None or not isinstance(method.domain, WholeSpace | Box):
        return None
    run = RUNS.get((type(method), form.squares is not None))
    return None if run is None else run(task, form, method, factors)


@dataclass(frozen=True, eq=False)
class SeveralRounds:
    """Tracking with several rounds of mixing, from and to states of `Chebyshev`.

    Attributes:
        inner: the run, which mixes several times.
    """

    method: GradientTracking
    inner: CompiledRun

    def advance(
        self, state: ChebyshevState[TrackingState], count: int
    ) -> ChebyshevState[TrackingState]:
        found = self.inner.advance(state.inner, count)
        told = self.method.outgoing(found)
        return ChebyshevState(found, told, told)


# What compiled runs read off a task: plain numbers in its precision


def number_in_engine_precision(value: float, precision: Precision) -> Any:
    return np.dtype(precision).type(value)


def sides_of_engine_box(
    domain: Domain, precision: Precision
) -> tuple[Numbers, Numbers]:
    """Return the least and the greatest coordinates of points of a box, or of all."""
    if isinstance(domain, Box):
        return domain.lower.astype(precision), domain.upper.astype(precision)
    infinite = np.full(domain.dim, np.inf, precision)
    return -infinite, infinite


def engine_step_sizes(
    method: Dgd, done: int, count: int, precision: Precision
) -> Numbers:
    k = np.arange(done + 1, done + count + 1)
    return (method.scale / k**method.power).astype(precision)


# The graph in slots, for panels

# Longer chunks leave too many slots empty, or take too many registers.
LONGEST_CHUNK = 8
# What a party's next chunk costs beside its slots, in slots: a loop's end.
CHUNK_COST = 2
# How many parties ahead loops look, to have what these hear fetched; there are slots
# for them after the last party's.
PARTIES_AHEAD = 10
SLOTS_AFTER = (PARTIES_AHEAD + 1) * LONGEST_CHUNK


class EngineSlots(NamedTuple):
    """Senders in slots, with their weights, as the kernel `heard_by` reads them.

    A party's neighbours fill chunks of a few slots each, so that loops over a chunk
    have a length known beforehand; unused slots refer to a row of zeros after the last
    party.

    Attributes:
        start: party i's chunks are those from start[i] to start[i + 1]; None if every
            party has one.
        heard: sender of each slot.
        weight: weight of each slot; None if all links have the same.
        own: w_ii.
        common: weight of every link, where all are equal.
        slots: a tuple as long as a chunk.
    """

    start: UInt[Array[Any], " n1"] | None
    heard: UInt[Array[Any], " slots"]
    weight: Float[Array[Any], " slots"] | None
    own: Float[Array[Any], " n"]
    common: Any
    slots: tuple[int, ...]


def engine_slots_of_weights(weights: Sparse, precision: str) -> EngineSlots:
    from veilsum.minimise.engines.kernels import fill_slots, link_counts

    n, csr = weights.shape[0], scipy.sparse.csr_array(weights)
    arrays = (csr.indptr, csr.indices, csr.data)
    degrees = np.zeros(n, dtype=np.int32)
    alike, common = link_counts(arrays, degrees)
    chunk = engine_chunk(degrees)
    start = np.zeros(n + 1, dtype=np.uint32)
    np.cumsum(-(-degrees // chunk), out=start[1:])
    size = int(start[-1]) * chunk + SLOTS_AFTER
    # Links of a party fill its slots one after the other.
    heard = np.full(size, n, dtype=np.uint16 if n < 2**16 else np.uint32)
    weight = None if alike else np.zeros(size, precision)
    fill_slots(arrays, start, chunk, heard, weight)
    one_each = bool((degrees > 0).all() and (degrees <= chunk).all())
    return EngineSlots(
        None if one_each else start,
        heard,
        weight,
        csr.diagonal().astype(precision),
        np.dtype(precision).type(common if alike else 0.0),
        (0,) * chunk,
    )


def engine_chunk(degrees: Int[Array[Any], " n"]) -> int:
    """Return the length of chunks that costs least.

    >>> engine_chunk(np.array([6, 6, 6])), engine_chunk(np.array([2, 2, 2, 2]))
    (6, 2)
    """
    lengths = range(1, LONGEST_CHUNK + 1)
    cost = {size: (-(-degrees // size)).sum() * (size + CHUNK_COST) for size in lengths}
    return min(lengths, key=lambda size: (cost[size], -size))


# Panels: whole runs, a few coordinates at a time

# Four numbers fill two vectors of most processors, and a panel of ten thousand parties
# stays in a core's own cache.
WIDE, NARROW = 4, 2
# What is read at once from memory; no row of a panel lies in two of these.
LINE_BYTES = 64
# Panels beyond this leave the nearest cache; reading ahead pays from there on.
NEAR_BYTES = 100_000
# Panels beyond this leave all caches: threads share their parties, each so many parts.
FAR_BYTES, PARTS = 1 << 24, 4
# With fewer panels than this for each thread, some threads would be idle at the end:
# panels are then done in so many pieces, which threads share.
MANY_PANELS, PIECES = 8, 8


@dataclass(frozen=True, eq=False)
class EnginePanel:
    """Some columns of all rows, with room for what a run keeps of them.

    Attributes:
        columns: which.
        rooms: flat arrays, party by party, with a row of zeros after the last one.
        where: the panel's part of the domain, and the graph, as kernels take them.
    """

    columns: slice
    width: int
    rooms: list[Numbers]
    where: tuple[Any, Any]

    def fill(self, room: Numbers, rows: Rows) -> None:
        self._table(room)[:-1] = rows[:, self.columns]

    def put_back(self, room: Numbers, rows: Rows) -> None:
        rows[:, self.columns] = self._table(room)[:-1]

    def _table(self, room: Numbers) -> Rows:
        count = self.columns.stop - self.columns.start
        return room.reshape(-1, self.width)[:, :count]


def cut_columns_in_panels(
    columns: int, *, far: bool = False
) -> list[tuple[slice, int]]:
    """Return the columns and the width of panels, wide unless threads would be idle.

    Of `far` panels threads share the parties, and none is idle.

    >>> [width for _, width in cut_columns_in_panels(90)][-2:]
    [4, 2]
    """
    width = WIDE if columns >= WIDE * engine_threads() or far else NARROW
    found = [
        (slice(low, min(low + width, columns)), width)
        for low in range(0, columns, width)
    ]
    last, _ = found[-1]
    return [*found[:-1], (last, min(width, -(-(last.stop - last.start) // 2) * 2))]


def line_of_zeros(size: int, precision: str) -> Numbers:
    """Return zeros that begin where a line of memory does."""
    dtype = np.dtype(precision)
    raw = np.zeros(size * dtype.itemsize + LINE_BYTES, np.uint8)
    first = -raw.ctypes.data % LINE_BYTES
    return raw[first : first + size * dtype.itemsize].view(dtype)


@dataclass(frozen=True, eq=False)
class PanelledEngineRun:
    """Common part of runs by panels.

    Attributes:
        task: task that the parties belong to.
        method: method with one round of mixing.
        factors: om_1, ..., om_K of K rounds.
        parts: names in states of the arrays that the first rooms hold.
    """

    task: EngineTask
    form: ClosedForm
    method: Any
    factors: tuple[float, ...]
    rooms: ClassVar[int]
    parts: ClassVar[tuple[str, ...]]

    @cached_property
    def _panels(self) -> list[EnginePanel]:
        """All panels; their rooms are used again in every call."""
        parties, columns = self.task.start.shape
        precision = self.task.precision
        slots = engine_slots_of_weights(self.task.weights["symmetric"], precision)
        both = np.array(sides_of_engine_box(self.method.domain, precision))
        found = []
        for part, width in cut_columns_in_panels(columns, far=self._by_parties):
            row = (number_in_engine_precision(0.0, precision),) * width
            far = parties * width * row[0].itemsize > NEAR_BYTES
            ahead = np.uint64(PARTIES_AHEAD * len(slots.slots)) if far else None
            box = np.zeros((2, width), precision)
            box[:, : part.stop - part.start] = both[:, part]
            size = (parties + 1) * width
            rooms = [line_of_zeros(size, precision) for _ in range(self.rooms)]
            where = ((box[0], box[1]), (slots, ahead, row))
            found.append(EnginePanel(part, width, rooms, where))
        return found

    @cached_property
    def _by_parties(self) -> bool:
        """Whether threads share a panel's parties: in every round, one waits for all.

        Of panels beyond all caches nothing is kept there anyway, and what is fetched
        for one coordinate brings the others along.
        """
        parties, _ = self.task.start.shape
        itemsize = np.dtype(self.task.precision).itemsize
        return len(self.factors) == 1 and parties * WIDE * itemsize > FAR_BYTES

    def _each_part(self, kernel: Callable[..., object], *given: Any) -> None:
        ends = np.linspace(
            0, len(self.task.start), PARTS * engine_threads() + 1
        ).astype(int)
        each_by_engine_threads(
            lambda pair: kernel(*pair, *given), pairwise(ends.tolist()), small=False
        )

    @cached_property
    def _curve(self) -> Any:
        return number_in_engine_precision(self.form.curve, self.task.precision)

    @cached_property
    def _held(self) -> list[MethodState]:
        """The state that rooms were left in, if any: a run mostly goes on from it."""
        return []

    def _run(self, piece: Callable[[EnginePanel, range], None], now: S, after: S) -> S:
        """Carry one state on to another, all panels' iterations in pieces.

        Threads share the pieces. The other state's arrays are filled here.
        """
        links, columns = self.task.weights["symmetric"].nnz, self.task.start.shape[1]
        count = after.iteration - now.iteration
        small = count * len(self.factors) * links * columns < SMALL_WORK
        few = len(self._panels) < MANY_PANELS * engine_threads()
        alone = small or self._by_parties
        pieces = min(count, PIECES) if few and not alone else 1
        ends = [count * k // pieces for k in range(pieces + 1)]
        held = now in self._held
        self._held.clear()

        def action(row: int, k: int) -> None:
            panel = self._panels[row]
            if k == 0 and not held:
                for room, name in zip(panel.rooms, self.parts, strict=False):
                    panel.fill(room, getattr(now, name))
            piece(panel, range(ends[k], ends[k + 1]))
            if k == pieces - 1:
                for room, name in zip(panel.rooms, self.parts, strict=False):
                    panel.put_back(room, getattr(after, name))

        rows = iter(range(len(self._panels)))  # one for all threads

        def work(_: int) -> None:
            for row in rows:
                action(row, 0)

        if pieces > 1:
            work = EngineShift(
                action, [panel.width for panel in self._panels], pieces
            ).work
        each_by_engine_threads(work, range(engine_threads()), small=alone)
        self._held.append(after)
        return after


@dataclass(frozen=True, eq=False)
class PanelledDgd(PanelledEngineRun):
    """Distributed gradient descent; room for x, for what x becomes, and for slopes."""

    rooms: ClassVar[int] = 3
    parts: ClassVar[tuple[str, ...]] = ("x",)

    @cached_property
    def _panels(self) -> list[EnginePanel]:
        found = super()._panels
        for panel in found:
            panel.fill(panel.rooms[2], self.form.slopes)
        return found

    def advance(self, state: DgdState, count: int) -> DgdState:
        from veilsum.minimise.engines.kernels import dgd, dgd_part

        own_point = True if self.method.gradient_at == "own" else None
        sizes = engine_step_sizes(
            self.method, state.iteration, count, self.task.precision
        )

        def piece(panel: EnginePanel, k: range) -> None:
            rooms, here = panel.rooms, sizes[k.start : k.stop]
            if self._by_parties:
                x, other, slopes = rooms
                for size in here:
                    how = (own_point, self._curve, size, *panel.where)
                    self._each_part(dgd_part, x, other, slopes, *how)
                    x, other = other, x
            else:
                dgd(*rooms, own_point, self._curve, here, *panel.where)
            # Estimates change places with every iteration.
            rooms[:2] = rooms[:2][:: -1 if len(k) % 2 else 1]

        after = DgdState(np.empty_like(state.x), state.iteration + count)
        return self._run(piece, state, after)


@dataclass(frozen=True, eq=False)
class PanelledTracking(PanelledEngineRun):
    """Gradient tracking; room for x and y, for what is told of them and was told."""

    rooms: ClassVar[int] = 5
    parts: ClassVar[tuple[str, ...]] = ("x", "tracker")

    def advance(self, state: TrackingState, count: int) -> TrackingState:
        from veilsum.minimise.engines.kernels import (
            tracking,
            tracking_begun,
            tracking_moved,
            tracking_turned,
        )

        several = np.array(self.factors, dtype=self.task.precision)
        factors = several if len(several) > 1 else None
        step = number_in_engine_precision(self.method.step, self.task.precision)

        def piece(panel: EnginePanel, k: range) -> None:
            x, y, *spare = panel.rooms
            if not self._by_parties:
                how = (len(k), step, self._curve, factors)
                tracking(x, y, tuple(spare), *how, *panel.where)
                return
            all_four, (_, graph) = (x, y, *spare[:2]), panel.where
            self._each_part(tracking_begun, x, y, spare[0], step, graph)
            for _ in k:
                self._each_part(tracking_moved, *all_four, self._curve, *panel.where)
                self._each_part(tracking_turned, *all_four, step, graph)

        found = np.empty_like(state.x), np.empty_like(state.tracker)
        after = TrackingState(*found, iteration=state.iteration + count)
        return self._run(piece, state, after)


@dataclass(frozen=True, eq=False)
class PanelledExtra(PanelledEngineRun):
    """EXTRA; room for x, for its correction, and for what x becomes."""

    rooms: ClassVar[int] = 3
    parts: ClassVar[tuple[str, ...]] = ("x", "correction")

    def advance(self, state: ExtraState, count: int) -> ExtraState:
        from veilsum.minimise.engines.kernels import extra, extra_part

        step = number_in_engine_precision(self.method.step, self.task.precision)

        def piece(panel: EnginePanel, k: range) -> None:
            x, correction, other = panel.rooms
            how = (step, self._curve, *panel.where)
            if self._by_parties:
                for _ in k:
                    self._each_part(extra_part, x, correction, other, *how)
                    x, other = other, x
            else:
                extra(x, correction, other, len(k), *how)
                x, other = (other, x) if len(k) % 2 else (x, other)
            # Estimates change places with every iteration.
            panel.rooms[:] = x, correction, other

        found = np.empty_like(state.x), np.empty_like(state.correction)
        after = ExtraState(*found, iteration=state.iteration + count)
        return self._run(piece, state, after)


# Parties with a matrix each: least squares, and masked quadratics


@dataclass(frozen=True, eq=False)
class CurvedEngineRun:
    """Common part of these runs; attributes as in `PanelledEngineRun`."""

    task: EngineTask
    form: ClosedForm
    method: Any
    factors: tuple[float, ...]

    @cached_property
    def _costs(self) -> tuple[Rows, Float[Array[Any], "n m m"]]:
        both = (self.form.slopes, self.form.squares)
        slopes, squares = (
            np.require(part, self.task.precision, ["C", "W"]) for part in both
        )
        return slopes, squares

    @cached_property
    def _where(self) -> tuple[Any, Any]:
        precision = self.task.precision
        csr = scipy.sparse.csr_array(self.task.weights["symmetric"].astype(precision))
        box = sides_of_engine_box(self.method.domain, precision)
        is_dense = csr.nnz * DENSE_SHARE >= csr.shape[0] * csr.shape[1]
        dense = csr.toarray() if is_dense else np.empty((0, 0), precision)
        return box, (csr.indptr, csr.indices, csr.data, dense)

    @cached_property
    def _spare(self) -> tuple[Rows, Rows, Rows]:
        first, second, third = np.empty(
            (3, *self.task.start.shape), self.task.precision
        )
        return first, second, third


@dataclass(frozen=True, eq=False)
class CurvedDgd(CurvedEngineRun):
    """Distributed gradient descent."""

    def advance(self, state: DgdState, count: int) -> DgdState:
        from veilsum.minimise.engines.kernels import curved_dgd

        x, done = state.x.copy(), state.iteration
        own_point = True if self.method.gradient_at == "own" else None
        sizes = engine_step_sizes(self.method, done, count, self.task.precision)
        curved_dgd(x, self._spare[0], *self._costs, own_point, sizes, *self._where)
        return DgdState(x, done + count)


@dataclass(frozen=True, eq=False)
class CurvedTracking(CurvedEngineRun):
    """Gradient tracking."""

    def advance(self, state: TrackingState, count: int) -> TrackingState:
        from veilsum.minimise.engines.kernels import curved_tracking

        x, y, precision = state.x.copy(), state.tracker.copy(), self.task.precision
        how = (count, number_in_engine_precision(self.method.step, precision))
        factors = np.array(self.factors, dtype=precision)
        squares = self._costs[1]
        curved_tracking(x, y, self._spare, squares, how, factors, *self._where)
        return TrackingState(x, y, iteration=state.iteration + count)


# By type and not by kind: what is built on a method may do something else. And by
# whether parties have a matrix each.
RUNS: dict[tuple[type, bool], Callable[..., CompiledRun]] = {
    (Dgd, False): PanelledDgd,
    (Dgd, True): CurvedDgd,
    (GradientTracking, False): PanelledTracking,
    (GradientTracking, True): CurvedTracking,
    (Extra, False): PanelledExtra,
}
