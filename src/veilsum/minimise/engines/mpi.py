"""The MPI engine: a method's one source on each rank's rows, halos in between.

Only the product with weights crosses rows. In every round a rank posts those of its
rows that others hear, goes through the blocks of rows that need nobody else's, waits
for what it hears itself, and does the rest. A row's neighbours are added up in the
order in which its weights have them, so that numbers do not depend on how many ranks
there are. Only arrays travel, as bare bytes.

Rows go through a method in blocks that stay in cache: its formulas treat every row by
itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from time import monotonic, sleep
from typing import Any, TypeAlias

import numpy as np
import scipy

from veilsum.errors import (
    BadGradientError,
    InvalidInputError,
    MissingExtraError,
    VeilsumError,
    install_advice,
)
from veilsum.graphs.cutting import PIECE, CutParts, Ends, Places, cut_graph_into_parts
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.engines.engine import EngineTask
from veilsum.minimise.engines.numpy import PlainEngine, state_in_numpy_precision
from veilsum.minimise.methods.base import MethodState, Weighting
from veilsum.numbers.arrays import Array, PartyPoints, Sparse, Vector
from veilsum.numbers.shapes import Float, Int

Rows: TypeAlias = Float[Array[Any], "rows e"]
AllRows: TypeAlias = Float[Array[Any], "n e"]
BlockRows: TypeAlias = Float[Array[Any], "block e"]
OwnPoints: TypeAlias = Float[Array[np.float64], "own m"]
Some: TypeAlias = Int[Array[np.int64], " some"]

# Bytes of one array's block: a handful of these stay in a core's own cache.
BLOCK_BYTES, FEWEST_ROWS = 1 << 19, 256
# Seconds in which ranks that iterate, or write their files, hear of each other.
SILENCE = 600.0
give_way = os.sched_yield if hasattr(os, "sched_yield") else partial(sleep, 0)


def all_mpi_ranks() -> Any:
    """Return how all processes reach each other that were started together.

    Raises:
        MissingExtraError: mpi4py is not installed, or finds no MPI.
    """
    try:
        from mpi4py import MPI
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"ranks need the package mpi4py: {install_advice('mpi')}",
            code="missing-extra",
        ) from None
    except (ImportError, RuntimeError) as error:
        raise MissingExtraError(
            f"mpi4py finds no MPI library ({error}): load your cluster's MPI, or "
            "pip install mpich",
            code="missing-mpi",
        ) from None
    return MPI.COMM_WORLD


@dataclass(frozen=True, eq=False)
class EngineRanks:
    """The processes that share a task, and this one's rows of it.

    Attributes:
        ends: rank r has rows from ends[r] to ends[r + 1].
    """

    ends: Ends
    comm: Any

    @property
    def own(self) -> slice:
        first, last = self.ends[self.comm.rank : self.comm.rank + 2].tolist()
        return slice(first, last)

    def gathered(self, rows: Rows) -> AllRows:
        """Return all ranks' rows, on every rank."""
        found = np.empty((self.ends[-1], *rows.shape[1:]), rows.dtype)
        counts = np.diff(self.ends) * rows[:1].size
        own = np.ascontiguousarray(rows)
        settle_mpi_requests([self.comm.Iallgatherv(own, (found, counts))])
        return found

    def largest(self, number: float) -> float:
        """Return the largest of all ranks' numbers; nan if one of them is nan."""
        found = np.empty(self.comm.size)
        own = np.array([number], np.float64)
        settle_mpi_requests([self.comm.Iallgather(own, found)])
        return float(found.max())

    def total(self, rows: Rows) -> Vector:
        """Return the sum of all ranks' rows.

        It is the sum of pieces' sums, the same for any number of ranks where all but
        the last have whole pieces, as in large graphs that are not cut by METIS.
        """
        firsts = np.arange(0, len(rows), PIECE)
        sums = np.add.reduceat(np.asarray(rows, np.float64), firsts, axis=0)
        sums = np.ascontiguousarray(sums)
        counts = -(-np.diff(self.ends) // PIECE) * rows.shape[1]
        found = np.empty((counts.sum() // rows.shape[1], rows.shape[1]))
        settle_mpi_requests([self.comm.Iallgatherv(sums, (found, counts))])
        return np.asarray(found.sum(axis=0))


@dataclass(frozen=True, eq=False)
class RankHalo:
    """Rows of others that this rank hears, and rows of its own that others hear.

    Attributes:
        heard: by rank, where its rows stand among those that are told: after one's own.
        told: by rank, which of one's own rows it hears.
    """

    comm: Any
    heard: tuple[tuple[int, slice], ...]
    told: tuple[tuple[int, Some], ...]

    @classmethod
    def around(cls, ranks: EngineRanks, outside: Some) -> RankHalo:
        """Ask every rank for the rows that are heard here, named in rising order."""
        comm, own = ranks.comm, ranks.own
        places = np.searchsorted(outside, ranks.ends)
        wanted, asked = np.diff(places), np.empty(comm.size, np.int64)
        comm.Alltoall(wanted, asked)
        rows = np.empty(asked.sum(), np.int64)
        comm.Alltoallv((outside, wanted), (rows, asked))
        count = own.stop - own.start
        heard = [
            (rank, slice(count + places[rank], count + places[rank + 1]))
            for rank in np.flatnonzero(wanted).tolist()
        ]
        parts = np.split(rows - own.start, np.cumsum(asked)[:-1])
        told = [(rank, part) for rank, part in enumerate(parts) if part.size]
        return cls(comm, tuple(heard), tuple(told))

    def post(self, rows: Rows, tag: int) -> list[Any]:
        """Send what others hear and ask for what is heard; both are under way then."""
        here = [self.comm.Irecv(rows[part], rank, tag) for rank, part in self.heard]
        return here + [
            self.comm.Isend(rows[part], rank, tag) for rank, part in self.told
        ]


@dataclass(frozen=True, eq=False)
class RankRowBlock:
    """Some of a rank's rows, all of which go through a round together.

    Attributes:
        rows: which.
        weights: with which they hear a rank's own rows, and its halo after them.
        inner: whether they hear the rank's own rows only.
    """

    rows: slice
    cost: EffectiveCost
    weights: Mapping[Weighting, Sparse]
    inner: bool


@dataclass(frozen=True, eq=False)
class RankEngine(PlainEngine):
    """Iterations of one rank's rows, carried out by all ranks together.

    States, points and aims have this rank's rows only.

    Attributes:
        task: this rank's rows of it: weights have a row for each of them, and a column
            for every party there is.
        ranks: who has which.
    """

    ranks: EngineRanks = field(kw_only=True)
    name: str = field(default="mpi", init=False)
    # Arrays of states that nobody holds any more, to be written again: memory that is
    # new to a process costs more than what is put into it.
    _free: list[Rows] = field(default_factory=list, init=False)

    @cached_property
    def _heard(self) -> dict[Weighting, tuple[Sparse, RankHalo]]:
        own, found = self.ranks.own, {}
        count = own.stop - own.start
        for name, weights in self.task.weights.items():
            columns = weights.indices
            far = (columns < own.start) | (columns >= own.stop)
            outside = np.unique(columns[far]).astype(np.int64)
            most = max(weights.nnz, count + len(outside))
            index = np.int32 if most <= np.iinfo(np.int32).max else np.int64
            places = (columns - columns.dtype.type(own.start)).astype(index)
            places[far] = count + np.searchsorted(outside, columns[far])
            table = (
                weights.data.astype(self.task.precision, copy=False),
                places,
                weights.indptr.astype(index),
            )
            local = scipy.sparse.csr_array(table, (count, count + len(outside)))
            found[name] = (local, RankHalo.around(self.ranks, outside))
        return found

    @cached_property
    def _blocks(self) -> list[RankRowBlock]:
        """All rows, those first that need nobody else's."""
        count, dim = self.task.start.shape
        size = np.dtype(self.task.precision).itemsize * dim
        step, found = max(FEWEST_ROWS, BLOCK_BYTES // size), []
        for first in range(0, count, step):
            rows = slice(first, min(first + step, count))
            weights = {n: rows_of_csr(one, rows) for n, (one, _) in self._heard.items()}
            inner = all(w.indices.max(initial=0) < count for w in weights.values())
            found.append(RankRowBlock(rows, self._cost.rows(rows), weights, inner))
        return sorted(found, key=lambda block: not block.inner)

    def advance(self, state: MethodState, count: int) -> MethodState:
        """Return this rank's parties after so many more iterations.

        Raises:
            BadGradientError: a gradient failed on any rank; all ranks raise it.
        """
        given, failed = {id(one) for one in arrays_of_rank_state(state)}, None
        for _ in range(count * self.task.method.rounds_per_iteration):
            told, waiting = self._tell(state)
            if failed is None:
                try:
                    after = self._mixed(state, told, waiting)
                except BadGradientError as error:
                    failed = (state.iteration + 1, error)
                else:
                    kept = given | {id(one) for one in arrays_of_rank_state(after)}
                    self._free.extend(
                        one
                        for one in arrays_of_rank_state(state)
                        if id(one) not in kept
                    )
                    state = after
            # Others wait for what is told here, whatever went wrong.
            settle_mpi_requests(waiting)
        if self.task.cost.remainder.kind == "local":
            self._agree(failed)
        return state

    def _tell(self, state: MethodState) -> tuple[list[Rows], list[Any]]:
        """Return what is told, part by part, and what is under way.

        Each part has room after one's own rows, which what is heard will fill.
        """
        method, dim = self.task.method, self.task.start.shape[1]
        parts = method.parts(state)
        told = [self._rooms[k, part] for k, part in enumerate(parts)]
        for block in self._blocks:
            said = method.outgoing(rows_of_rank_state(state, block.rows))
            for k, rows in enumerate(told):
                rows[block.rows] = said[:, k * dim : (k + 1) * dim]
        waiting = []
        for k, part in enumerate(parts):
            waiting += self._heard[part][1].post(told[k], k)
        return told, waiting

    @cached_property
    def _rooms(self) -> dict[tuple[int, Weighting], Rows]:
        dim, precision = self.task.start.shape[1], self.task.precision
        return {
            (k, name): np.empty((weights.shape[1], dim), precision)
            for k in range(self.task.method.traits.vectors)
            for name, (weights, _) in self._heard.items()
        }

    def _mixed(self, state: Any, told: list[Rows], waiting: list[Any]) -> Any:
        method, parts = self.task.method, self.task.method.parts(state)
        before = [*arrays_of_rank_state(state)]
        after, found = list(before), state
        for turn, block in enumerate(self._blocks):
            if not block.inner:
                settle_mpi_requests(waiting)
            both = zip(parts, told, strict=True)
            sums = [block.weights[part] @ rows for part, rows in both]
            mixed = sums[0] if len(sums) == 1 else np.concatenate(sums, axis=-1)
            here = rows_of_rank_state(state, block.rows)
            try:
                found = method.advance(here, mixed, block.cost)
            except BadGradientError as error:
                raise self._placed(error, block) from error
            found = state_in_numpy_precision(found, self.task.precision)
            pairs = zip(
                arrays_of_rank_state(here), arrays_of_rank_state(found), strict=True
            )
            for k, (old, new) in enumerate(pairs):
                if after[k] is before[k]:
                    if new is old:
                        continue  # the method leaves this one as it is
                    after[k] = self._room(before[k], new, copy=turn > 0)
                after[k][block.rows] = new
        return rank_state_with_arrays(found, iter(after))

    def _room(self, before: Rows, new: BlockRows, *, copy: bool) -> Rows:
        """Return an array for a part of a state, with what the part was if asked to."""
        shape = (len(before), *new.shape[1:])
        for k, one in enumerate(self._free):
            if one.shape == shape and one.dtype == new.dtype:
                room = self._free.pop(k)
                break
        else:
            room = np.empty(shape, new.dtype)
        if copy:
            room[:] = before
        return room

    def _placed(self, error: BadGradientError, block: RankRowBlock) -> BadGradientError:
        """Return an error that names a row of all, not of a block."""
        if not isinstance(error.party, int):
            return error
        first = self.ranks.own.start + block.rows.start
        return BadGradientError(error.reason, first + error.party, code=error.code)

    def _agree(self, failed: tuple[int, BadGradientError] | None) -> None:
        """Raise on every rank what failed first on any of them."""
        comm, never = self.ranks.comm, np.iinfo(np.int64).max
        when = np.empty(comm.size, np.int64)
        own = np.array([failed[0] if failed else never])
        settle_mpi_requests([comm.Iallgather(own, when)])
        if when.min() == never:
            return
        whose = int(np.argmin(when))
        said, party = b"", -1
        if failed and comm.rank == whose:
            said = f"{failed[1].code}\n{failed[1].reason}".encode()
            party = failed[1].party if isinstance(failed[1].party, int) else -1
        sizes = np.array([len(said), party])
        comm.Bcast(sizes, whose)
        text = np.frombuffer(said.ljust(sizes[0]), np.uint8).copy()
        comm.Bcast(text, whose)
        party = int(sizes[1])
        code, _, reason = text.tobytes().decode().partition("\n")
        raise BadGradientError(reason, party if party >= 0 else None, code=code)


def settle_mpi_requests(waiting: list[Any]) -> None:
    """Wait until everything that was posted has gone and come, but not for ever.

    MPI itself hears nothing of a network that is cut, and would wait.

    Raises:
        VeilsumError: nothing has come for so long that nothing will.
    """
    until = monotonic() + SILENCE
    while waiting and not waiting[0].Testall(waiting):
        if monotonic() > until:
            raise VeilsumError(
                f"for {SILENCE:.0f} seconds nothing has come from a rank that is "
                "waited for: its host, or the network to it, is gone. Start the "
                "command again; with --checkpoint a large run goes on from its files",
                code="rank-silent",
            )
        # Whoever is waited for may be waiting for this processor.
        give_way()
    waiting.clear()


def rows_of_csr(whole: Sparse, which: slice) -> Sparse:
    """Return some rows of weights, which stay where they are in memory."""
    start = whole.indptr[which.start : which.stop + 1]
    inside = slice(start[0], start[-1])
    table = (whole.data[inside], whole.indices[inside], start - start[0])
    return scipy.sparse.csr_array(table, (len(start) - 1, whole.shape[1]))


# Parts of states: arrays with a row for each party, and values without rows


def arrays_of_rank_state(state: Any) -> Iterator[Rows]:
    """Yield a state's arrays, those of a state within it included."""
    for one in fields(state):
        part = getattr(state, one.name)
        if isinstance(part, np.ndarray):
            yield part
        elif is_dataclass(part):
            yield from arrays_of_rank_state(part)


def rank_state_with_arrays(state: Any, arrays: Iterator[Rows]) -> Any:
    """Return a state with other arrays, in the order of `arrays_of_rank_state`."""
    changes: dict[str, Any] = {}
    for one in fields(state):
        part = getattr(state, one.name)
        if isinstance(part, np.ndarray):
            changes[one.name] = next(arrays)
        elif is_dataclass(part):
            changes[one.name] = rank_state_with_arrays(part, arrays)
    return replace(state, **changes)


def rows_of_rank_state(state: Any, which: slice) -> Any:
    return rank_state_with_arrays(
        state, (one[which] for one in arrays_of_rank_state(state))
    )


# A whole task


@dataclass(frozen=True, eq=False)
class MpiEngine:
    """A task that all ranks have the whole of, and do together.

    States have this rank's rows. Points and aims are gathered from all ranks, which
    all have to ask for them.
    """

    task: EngineTask
    name: str = field(default="mpi", init=False)

    def __post_init__(self) -> None:
        self._check_alike()
        self.parts.check()

    @cached_property
    def _comm(self) -> Any:
        return all_mpi_ranks()

    @cached_property
    def parts(self) -> CutParts:
        # Gradients of parties' own cannot be put in another order.
        local = self.task.cost.remainder.kind == "local"
        weights = next(iter(self.task.weights.values()))
        return cut_graph_into_parts(weights, self._comm.size, in_order=local)

    @cached_property
    def _engine(self) -> RankEngine:
        ranks = EngineRanks(self.parts.ends, self._comm)
        return RankEngine(
            rows_of_task(self.task, self.parts.order, ranks.own), ranks=ranks
        )

    def begin(self) -> MethodState:
        return self._engine.begin()

    def advance(self, state: MethodState, count: int) -> MethodState:
        """Return this rank's parties after so many more iterations."""
        return self._engine.advance(state, count)

    def points(self, state: MethodState) -> PartyPoints:
        """Return everybody's estimates in float64, by row."""
        return self._by_row(self._engine.points(state))

    def aims(self, state: MethodState) -> PartyPoints:
        """Return where parties alone would go next, in float64, by row."""
        return self._by_row(self._engine.aims(state))

    def _by_row(self, own: OwnPoints) -> PartyPoints:
        gathered = self._engine.ranks.gathered(own)
        if self.parts.order is None:
            return gathered
        found = np.empty_like(gathered)
        found[self.parts.order] = gathered
        return found

    def _check_alike(self) -> None:
        """Refuse tasks that differ between ranks, as with masks without a seed."""
        hashed = blake2b(digest_size=32)
        for w in self.task.weights.values():
            for one in (w.indptr, w.indices, w.data):
                hashed.update(np.ascontiguousarray(one).data)
        for one in (self.task.cost.coefficients, self.task.start):
            hashed.update(np.ascontiguousarray(one).data)
        own = np.frombuffer(hashed.digest(), np.uint8)
        found = np.empty((self._comm.size, len(own)), np.uint8)
        self._comm.Allgather(own, found)
        if not (found == own).all():
            raise InvalidInputError(
                "ranks have different tasks: all must be given the same graph, costs "
                "and settings, and a seed, from which all draw the same masks",
                code="ranks-differ",
            )


def rows_of_task(task: EngineTask, order: Places | None, own: slice) -> EngineTask:
    """Return one rank's rows of a task, with columns for all in that order."""
    which = own if order is None else order[own]
    weights: dict[Weighting, Sparse] = {}
    for name, whole in task.weights.items():
        part = scipy.sparse.csr_array(whole)[which]
        if order is not None:
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            # Entries stay where they are: they are added up in this order.
            table = (part.data, place[part.indices], part.indptr)
            part = scipy.sparse.csr_array(table, part.shape)
        weights[name] = part
    cost = task.cost
    if order is None:
        cost = cost.rows(own)
    else:
        cost = replace(cost, coefficients=cost.coefficients[which])
    return replace(task, weights=weights, cost=cost, start=task.start[which])
