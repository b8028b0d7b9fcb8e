"""A simulation of very many parties, of which every rank has its own rows only.

Nobody ever holds all of it: a rank makes or reads the links of its own parties, draws
their masks from counters, asks other ranks for their parties' degrees, and goes on with
its rows of weights, costs and estimates. What the whole comes to is added up and
compared over all ranks. Parties stay in the order of their numbers, in which families
such as `geometric` and `grid` have neighbours near each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from veilsum.costs.effective import EffectiveCost
from veilsum.engines.engine import Precision, Task, check_bounded
from veilsum.engines.mpi import Halo, RankEngine, Ranks, all_ranks, leaves
from veilsum.errors import InvalidInputError
from veilsum.graphs.cutting import CutParts, even_ends
from veilsum.graphs.families import build_part
from veilsum.graphs.links import touching
from veilsum.graphs.topology import Topology
from veilsum.memory import check_room
from veilsum.methods.base import Method, State
from veilsum.numbers.arrays import Array, PartyPoints, Sparse, Vector
from veilsum.numbers.fixed_point import Grid
from veilsum.numbers.laws import LatticeMasks, Law, Masks
from veilsum.numbers.masking import CounterStreams, exact_totals, masks_in_pieces
from veilsum.numbers.shapes import Bool, Float, Int

# Mixing weights that follow from the degrees of two ends, or of all.
BY_DEGREE = ("metropolis", "lazy-metropolis", "max-degree")
# A number is told to other ranks in pieces of so many bits, enough for any sum.
LIMB, LIMBS = 32, 6
# Iterations between two looks at the numbers.
AT_ONCE = 10


@dataclass(frozen=True, eq=False)
class OwnGraph:
    """One rank's part of a graph: its parties' links, and nobody else's.

    Attributes:
        ranks: who has which parties.
        links: (e, 2) that have an end here, by the numbers of all parties.
    """

    ranks: Ranks
    links: Int[Array[np.int32], "e 2"]

    @classmethod
    def of_family(cls, spec: str, comm: Any = None) -> OwnGraph:
        """Return this rank's part of the graph that a string names.

        Other parties' links are never made where the family allows it: `geometric` and
        `grid`. What does not fit is refused before, with the bytes it takes.
        """
        comm, found = comm or all_ranks(), []

        def own(n_parties: int) -> slice:
            found.append(Ranks(even_ends(n_parties, comm.size), comm))
            return found[-1].own

        links = build_part(spec, own).ends
        return cls(found[-1], links)

    @classmethod
    def of_links(cls, n_parties: int, ends: Any, comm: Any = None) -> OwnGraph:
        """Return this rank's part of links that may be a file mapped into memory."""
        comm = comm or all_ranks()
        ranks = Ranks(even_ends(n_parties, comm.size), comm)
        return cls(ranks, touching(ends, ranks.own))

    @property
    def n_parties(self) -> int:
        """How many there are, on all ranks together."""
        return int(self.ranks.ends[-1])

    @cached_property
    def topology(self) -> Topology:
        """All parties, with the links that are here."""
        return Topology.numbered(self.n_parties, self.links, sorted_already=True)

    @cached_property
    def _heard(self) -> Sparse:
        """Whom each of this rank's parties hears, in rising order (CSR, own x n)."""
        own, (i, j) = self.ranks.own, self.links.T
        listening, heard = np.concatenate([i, j]), np.concatenate([j, i])
        here = (listening >= own.start) & (listening < own.stop)
        listening = listening[here] - np.int32(own.start)
        ones = np.ones(len(listening), np.int8)
        shape = (own.stop - own.start, self.n_parties)
        return scipy.sparse.csr_array((ones, (listening, heard[here])), shape)

    @cached_property
    def degrees(self) -> Int[Array[np.int64], " own"]:
        """How many neighbours each of this rank's parties has."""
        return np.diff(self._heard.indptr).astype(np.int64)

    @cached_property
    def _far(self) -> Bool[Array[np.bool_], " heard"]:
        """Which of those that are heard are on other ranks."""
        own, heard = self.ranks.own, self._heard.indices
        return np.asarray((heard < own.start) | (heard >= own.stop))

    @cached_property
    def _outside(self) -> Int[Array[np.int64], " outside"]:
        """The halo."""
        return np.unique(self._heard.indices[self._far]).astype(np.int64)

    @cached_property
    def parts(self) -> CutParts:
        """How the graph is cut, with the halo of every rank."""
        halo = np.empty(self.ranks.comm.size, np.int64)
        self.ranks.comm.Allgather(np.array([len(self._outside)]), halo)
        return CutParts(order=None, ends=self.ranks.ends, halo=halo, by="own order")

    def weights(self, mixing: str) -> Sparse:
        """Return this rank's rows of mixing weights; neighbours' degrees are asked for.

        Raises:
            InvalidInputError: the halo is most of the graph, or no weights that follow
                from degrees are called so.
        """
        self.parts.check()
        if mixing not in BY_DEGREE:
            raise InvalidInputError(
                f"ranks know their own rows only, and take weights that follow from "
                f"degrees: choose from {', '.join(BY_DEGREE)}, not {mixing!r}"
            )
        own, heard, degrees = self.ranks.own, self._heard, self.degrees
        if mixing == "max-degree":
            most = self.ranks.largest(float(degrees.max()))
            link = np.full(heard.nnz, 1.0 / (1.0 + most))
        else:
            link = np.repeat(degrees, degrees).astype(np.float64)
            np.maximum(link, self._degrees_of_heard(), out=link)
            link = 1.0 / (1.0 + link)
        if mixing == "lazy-metropolis":
            link *= 0.5
        apart = scipy.sparse.csr_array((link, heard.indices, heard.indptr), heard.shape)
        start = np.arange(len(degrees) + 1, dtype=np.int32)
        itself = np.arange(own.start, own.stop, dtype=np.int32)
        kept = scipy.sparse.csr_array(
            (1.0 - apart.sum(axis=1), itself, start), heard.shape
        )
        return scipy.sparse.csr_array(apart + kept)

    def _degrees_of_heard(self) -> Float[Array[np.float64], " heard"]:
        """Return how many neighbours everybody has that is heard, link by link."""
        own, outside = self.ranks.own, self._outside
        table = np.empty((len(self.degrees) + len(outside), 1))
        table[: len(self.degrees), 0] = self.degrees
        for one in Halo.around(self.ranks, outside).post(table, 0):
            one.Wait()
        places = self._heard.indices - np.int32(own.start)
        far = self._heard.indices[self._far]
        places[self._far] = len(self.degrees) + np.searchsorted(outside, far)
        return table[places, 0]

    def law(self, masks: Masks) -> Law:
        """Return the law of masks that all ranks have: the coarsest grid of any."""
        own = masks.on(self.topology)
        if not isinstance(own, LatticeMasks):
            return own
        bits = -int(self.ranks.largest(-own.grid.bits))
        found = replace(own, grid=Grid(bits, masks.unit))
        wide = self.ranks.largest(float(found.wide)) > 0
        return replace(found, wide=wide)

    def masks(self, law: Law, streams: CounterStreams, size: int) -> Array[Any]:
        """Return this rank's rows of the masks, the same as on one machine."""
        own = self.ranks.own
        return masks_in_pieces(self.topology, law, streams, size=size, rows=own)

    def exact_sums(self, numbers: Array[np.int64]) -> list[int]:
        """Return the exact sum of all ranks' rows, column by column; of masks 0."""
        # In limbs, each of which is added up by itself and fits a word.
        modulus, limb = 1 << (LIMB * LIMBS), (1 << LIMB) - 1
        totals = [total % modulus for total in exact_totals(numbers)]
        limbs = np.array(
            [[total >> (LIMB * k) & limb for k in range(LIMBS)] for total in totals]
        )
        sums = np.empty_like(limbs)
        self.ranks.comm.Allreduce(limbs, sums)
        found = [
            sum(part << (LIMB * k) for k, part in enumerate(row)) % modulus
            for row in sums.tolist()
        ]
        return [one - modulus if one >= modulus // 2 else one for one in found]


def own_engine(
    graph: OwnGraph,
    *,
    method: Method[Any],
    weights: Sparse,
    cost: EffectiveCost,
    start: PartyPoints,
    precision: Precision = "float64",
) -> RankEngine:
    """Return what carries iterations of this rank's parties out, with all ranks.

    Args:
        graph: this rank's part.
        method: the same on every rank; its weights are symmetric.
        weights: this rank's rows.
        cost: this rank's rows, masks added.
        start: this rank's rows.
        precision: of all numbers.
    """
    own = graph.ranks.own
    if len(start) != own.stop - own.start or len(cost.coefficients) != len(start):
        raise InvalidInputError(
            f"this rank has the parties from {own.start:,} to {own.stop:,}; found "
            f"{len(cost.coefficients):,} rows of costs and {len(start):,} of starts"
        )
    few = slice(0, 1)
    kept = len([*leaves(method.begin(start[few], cost.rows(few)))])
    arrays = 2 * kept + method.traits.vectors + 2
    check_room(
        arrays * start.size * np.dtype(precision).itemsize + 100 * len(graph.links),
        f"a rank with {len(start):,} of {graph.n_parties:,} parties",
    )
    task = Task(
        method=method,
        weights={"symmetric": weights},
        cost=cost,
        start=start,
        precision=precision,
    )
    return RankEngine(task, ranks=graph.ranks)


@dataclass(frozen=True, eq=False, kw_only=True)
class RanksFound:
    """What ranks came to together; all but `own` is the same on every rank.

    Attributes:
        own: this rank's estimates.
        mean: of everybody's estimates.
        apart: the largest distance of an estimate from the mean.
        iterations: how many were carried out.
    """

    own: Float[Array[np.float64], "own m"]
    mean: Vector
    apart: float
    iterations: int


def go_through(
    engine: RankEngine,
    iterations: int,
    *,
    state: State | None = None,
    told: Callable[[State], object] | None = None,
) -> RanksFound:
    """Carry iterations out on all ranks, looking at the numbers now and then.

    Args:
        engine: this rank's.
        iterations: the last one.
        state: to go on from; the start without one.
        told: is given this rank's state after every so many iterations, as whoever
            keeps it on disk needs it.

    Raises:
        NumericalError: numbers ran away, on any rank; all ranks raise it.
    """
    now = engine.begin() if state is None else state
    while now.iteration < iterations:
        # Always up to the same ones: whoever goes on from one looks as often.
        count = AT_ONCE - now.iteration % AT_ONCE
        now = engine.advance(now, min(count, iterations - now.iteration))
        farthest = np.abs(engine.points(now)).max(initial=0.0)
        check_bounded(engine.ranks.largest(float(farthest)), now.iteration)
        if told is not None:
            told(now)
    own = engine.points(now)
    mean = engine.ranks.total(own) / engine.ranks.ends[-1]
    away = np.linalg.norm(own - mean, axis=1).max(initial=0.0)
    return RanksFound(
        own=own,
        mean=mean,
        apart=engine.ranks.largest(float(away)),
        iterations=now.iteration,
    )
