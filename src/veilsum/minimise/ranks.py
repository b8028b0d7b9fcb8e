"""`large_on_ranks`: one graph of very many parties, shared by ranks of MPI.

Every party i has the private cost ||x - p_i||^2. A rank makes the links, targets, masks
and weights of its own parties and nobody else's, so that what it takes shrinks with the
number of ranks: masks are drawn from counters, other ranks are asked for their parties'
degrees, and totals are added up and compared over all ranks. Parties stay in the order
of their numbers, in which families such as `geometric` and `grid` have neighbours near
each other. It is a simulation: ranks draw every share, and a seed repeats them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.files.output import prepare_output_folder
from veilsum.graphs.cutting import CutParts, even_ends_of_graph_parts
from veilsum.graphs.families import build_part_of_graph
from veilsum.graphs.links import links_touching_parties
from veilsum.graphs.topology import Topology
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.masks.laws import LatticeMasks, MaskLaw, Masks
from veilsum.masks.masking import (
    CounterStreams,
    exact_totals_of_masked_rows,
    masks_in_pieces,
)
from veilsum.memory import check_memory_room
from veilsum.minimise.checkpoints import (
    check_reached,
    checkpoint_fingerprint,
    read_checkpoint,
    write_checkpoint,
)
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.engines.engine import (
    EngineTask,
    Precision,
    check_bounded_iterates,
)
from veilsum.minimise.engines.mpi import (
    EngineRanks,
    RankEngine,
    RankHalo,
    all_mpi_ranks,
    arrays_of_rank_state,
    settle_mpi_requests,
)
from veilsum.minimise.large_graphs import (
    MIXING,
    TARGETS_PURPOSE,
    LargeMethod,
    check_large_graph_masks_cancel,
    check_large_graph_run,
    exact_answer_of_large_graph,
    given_large_graph_targets,
    integer_law_of_large_graph,
    method_of,
)
from veilsum.minimise.methods.base import Method, MethodState
from veilsum.numbers.arrays import (
    Array,
    PartyPoints,
    Sparse,
    Vector,
    as_whole_number,
)
from veilsum.numbers.shapes import Bool, Float, Int
from veilsum.progress import Progress, silent_progress, watch_progress
from veilsum.showing import Renderable, Rendering, counted_words, numbers_in_line

# Mixing weights that follow from the degrees of two ends, or of all.
BY_DEGREE = ("metropolis", "lazy-metropolis", "max-degree")
# A number is told to other ranks in pieces of so many bits, enough for any sum.
LIMB, LIMBS = 32, 6
# Iterations between two looks at the numbers.
AT_ONCE = 10


@dataclass(frozen=True, eq=False)
class RankOwnGraph:
    """One rank's part of a graph: its parties' links, and nobody else's.

    Attributes:
        ranks: who has which parties.
        links: (e, 2) that have an end here, by the numbers of all parties.
    """

    ranks: EngineRanks
    links: Int[Array[np.int32], "e 2"]

    @classmethod
    def of_family(cls, spec: str, comm: Any = None) -> RankOwnGraph:
        """Return this rank's part of the graph that a string names.

        Other parties' links are never made where the family allows it: `geometric` and
        `grid`. What does not fit is refused before, with the bytes it takes.
        """
        comm, found = comm or all_mpi_ranks(), []

        def own(n_parties: int) -> slice:
            found.append(
                EngineRanks(even_ends_of_graph_parts(n_parties, comm.size), comm)
            )
            return found[-1].own

        links = build_part_of_graph(spec, own).ends
        return cls(found[-1], links)

    @classmethod
    def of_links(cls, n_parties: int, ends: Any, comm: Any = None) -> RankOwnGraph:
        """Return this rank's part of links that may be a file mapped into memory."""
        comm = comm or all_mpi_ranks()
        ranks = EngineRanks(even_ends_of_graph_parts(n_parties, comm.size), comm)
        return cls(ranks, links_touching_parties(ends, ranks.own))

    @property
    def n_parties(self) -> int:
        return int(self.ranks.ends[-1])

    @cached_property
    def topology(self) -> Topology:
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
        return np.diff(self._heard.indptr).astype(np.int64)

    @cached_property
    def _far(self) -> Bool[Array[np.bool_], " heard"]:
        own, heard = self.ranks.own, self._heard.indices
        return np.asarray((heard < own.start) | (heard >= own.stop))

    @cached_property
    def _outside(self) -> Int[Array[np.int64], " outside"]:
        return np.unique(self._heard.indices[self._far]).astype(np.int64)

    @cached_property
    def parts(self) -> CutParts:
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
                f"degrees: choose from {', '.join(BY_DEGREE)}, not {mixing!r}",
                code="weights-need-degrees",
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
        own, outside = self.ranks.own, self._outside
        table = np.empty((len(self.degrees) + len(outside), 1))
        table[: len(self.degrees), 0] = self.degrees
        for one in RankHalo.around(self.ranks, outside).post(table, 0):
            one.Wait()
        places = self._heard.indices - np.int32(own.start)
        far = self._heard.indices[self._far]
        places[self._far] = len(self.degrees) + np.searchsorted(outside, far)
        return table[places, 0]

    def law(self, masks: Masks) -> MaskLaw:
        """Return the law of masks that all ranks have: the coarsest grid of any."""
        own = masks.on(self.topology)
        if not isinstance(own, LatticeMasks):
            return own
        bits = -int(self.ranks.largest(-own.grid.bits))
        found = replace(own, grid=FixedPointGrid(bits, masks.unit))
        wide = self.ranks.largest(float(found.wide)) > 0
        return replace(found, wide=wide)

    def masks(self, law: MaskLaw, streams: CounterStreams, size: int) -> Array[Any]:
        """Return this rank's rows of the masks, the same as on one machine."""
        own = self.ranks.own
        return masks_in_pieces(self.topology, law, streams, size=size, rows=own)

    def exact_sums(self, numbers: Array[np.int64]) -> list[int]:
        """Return the exact sum of all ranks' rows, column by column; of masks 0."""
        # In limbs, each of which is added up by itself and fits a word.
        modulus, limb = 1 << (LIMB * LIMBS), (1 << LIMB) - 1
        totals = [total % modulus for total in exact_totals_of_masked_rows(numbers)]
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


def engine_of_own_rank(
    graph: RankOwnGraph,
    *,
    method: Method[Any],
    weights: Sparse,
    cost: EffectiveCost,
    start: PartyPoints,
    precision: Precision = "float64",
) -> RankEngine:
    """Return what carries iterations of this rank's parties out, with all ranks.

    The method is the same on every rank, and its weights are symmetric; weights, cost
    and start are this rank's rows.
    """
    own = graph.ranks.own
    if len(start) != own.stop - own.start or len(cost.coefficients) != len(start):
        raise InvalidInputError(
            f"this rank has the parties from {own.start:,} to {own.stop:,}; found "
            f"{len(cost.coefficients):,} rows of costs and {len(start):,} of starts",
            code="rows-of-other-rank",
        )
    few = slice(0, 1)
    kept = len([*arrays_of_rank_state(method.begin(start[few], cost.rows(few)))])
    arrays = 2 * kept + method.traits.vectors + 2
    check_memory_room(
        arrays * start.size * np.dtype(precision).itemsize + 100 * len(graph.links),
        f"a rank with {len(start):,} of {graph.n_parties:,} parties",
    )
    task = EngineTask(
        method=method,
        weights={"symmetric": weights},
        cost=cost,
        start=start,
        precision=precision,
    )
    return RankEngine(task, ranks=graph.ranks)


@dataclass(frozen=True, eq=False, kw_only=True)
class RanksFound:
    """Joint result of the ranks; all but `own` is the same on every rank.

    Attributes:
        apart: largest distance of an estimate from the mean.
    """

    own: Float[Array[np.float64], "own m"]
    mean: Vector
    apart: float
    iterations: int


def iterate_on_all_ranks(
    engine: RankEngine,
    iterations: int,
    *,
    state: MethodState | None = None,
    told: Callable[[MethodState], object] | None = None,
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
        check_bounded_iterates(engine.ranks.largest(float(farthest)), now.iteration)
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


# Targets that are drawn at once; other ranks' are drawn, too, and not kept.
DRAWN = 1 << 16


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RanksRun(Renderable):
    """Result of a run on ranks; only `own` differs between ranks. See `LargeRun`.

    Attributes:
        halo: share of the graph that crossed between ranks in a round.
        own: this rank's estimates, by row.
        first: index of this rank's first party.
        minimiser: all parties' estimates, averaged.
    """

    graph: str
    parties: int
    ranks: int
    halo: float
    method: str
    iterations: int
    resumed: int
    own: Float[Array[np.float64], "own m"]
    first: int
    minimiser: Vector
    answer: Vector
    max_error: float
    sum_of_masks: tuple[int, ...]
    sigma: float
    grid: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; of parties only how many there are."""
        kept = ("graph", "parties", "ranks", "halo", "method", "iterations", "resumed")
        more = ("max_error", "sigma", "grid")
        return {
            **{name: getattr(self, name) for name in (*kept, *more)},
            "minimiser": self.minimiser.tolist(),
            "answer": self.answer.tolist(),
            "sum_of_masks": list(self.sum_of_masks),
        }

    def showing(self) -> Rendering:
        return Rendering(
            f"Minimiser over {self.parties:,} parties: "
            f"{numbers_in_line(self.minimiser.tolist())}",
            [tuple(self._told())],
            {
                "Limits": (
                    "a simulation: ranks drew every share, from streams that a seed "
                    "repeats; between real parties each draws its own",
                    "no epsilon is worked out here: it follows from the graph and "
                    "sigma, and `veilsum privacy` finds it on one machine",
                )
            },
        )

    def _told(self) -> Iterator[str]:
        yield (
            f"{counted_words(self.iterations, 'iteration')} of {self.method} by "
            f"{counted_words(self.ranks, 'rank')} on {self.graph}; worst party's error "
            f"{self.max_error:.3g}"
        )
        yield "masks add up to zero, exactly"
        if self.resumed:
            yield f"resumed after {counted_words(self.resumed, 'iteration')}"
        yield f"{self.halo:.2%} of the parties crossed between ranks in a round"


def large_on_ranks(
    graph: str | Topology,
    targets: ArrayLike | None = None,
    *,
    dim: int = 4,
    method: LargeMethod = "dgd",
    iterations: int = 100,
    sigma: float = 1.0,
    grid: int | None = None,
    seed: int = 0,
    step: float | None = None,
    checkpoint: str | Path | None = None,
    every: float = 10.0,
    comm: Any = None,
    progress: Progress = None,
) -> RanksRun:
    """Simulate very many parties that find the mean of their private targets.

    Every rank calls it with the same arguments, which are those of `large`; alone it is
    one rank. Of a graph's links a rank keeps its own, of a family such as
    "geometric:10000000:6" it makes no others, and of a file of targets it reads its
    rows. Every rank writes its checkpoint to a name with its own number; if all are
    there, the run goes on from them, to the same bits. `comm` is how ranks reach each
    other, by default all that were started together.

    Raises:
        InvalidInputError: the halo is most of the graph, or memory does not suffice;
            the message has the numbers.

    >>> found = large_on_ranks("geometric:3000:6", iterations=40, sigma=0.1)
    >>> found.parties, found.sum_of_masks
    (3000, (0, 0, 0, 0))
    """
    iterations = as_whole_number(iterations, what="iterations", least=1)
    check_large_graph_run(method, every)
    if checkpoint is not None:
        prepare_output_folder(Path(checkpoint).parent)
    if isinstance(graph, str):
        here = RankOwnGraph.of_family(graph, comm)
    else:
        here = RankOwnGraph.of_links(graph.n_parties, graph.edges, comm)
    here.parts.check()
    ranks, rows = here.ranks, _targets_of_own_rank(here, targets, dim, seed)
    reach = ranks.largest(float(np.abs(rows).max()))
    if not reach < np.inf:
        raise InvalidInputError(
            "targets must be finite numbers, found nan or inf",
            code="targets-not-finite",
        )
    reach = max(1.0, reach)
    law = integer_law_of_large_graph(
        here.law(Masks("lattice", sigma, grid, 2.0 * reach))
    )
    numbers = here.masks(law, CounterStreams(seed), rows.shape[1])
    sums = here.exact_sums(numbers)
    # ||x - p||^2 is ||x||^2 - 2 p'x and a number: -2 p is masked.
    own = law.encode(-2.0 * rows)
    total = here.exact_sums(own)
    numbers += own
    check_large_graph_masks_cancel(sums, total, here.exact_sums(numbers))
    cost = EffectiveCost(Affine(rows.shape[1]), law.decode(numbers), SquaredNorm(1.0))
    start = np.zeros_like(rows)
    del rows, own, numbers
    weights = here.weights(MIXING[method])

    def least() -> float:
        # As `least_eigenvalue` bounds it for many parties, with everybody's weights.
        kept = float(weights.diagonal(ranks.own.start).min())
        return -2.0 * ranks.largest(-kept) - 1.0

    engine = engine_of_own_rank(
        here,
        method=method_of(method, start.shape[1], step=step, reach=reach, least=least),
        weights=weights,
        cost=cost,
        start=start,
    )
    kept = None
    if checkpoint is not None:
        size = (ranks.comm.size, here.n_parties)
        settings = (method, step, reach, float(sigma), law.grid.bits, *size)
        digest = checkpoint_fingerprint(settings, here.links, cost.coefficients)
        kept = _RankCheckpoints(here.ranks, Path(checkpoint), digest, 60.0 * every)
    state = None if kept is None else kept.latest(engine.begin())
    if kept is not None and state is not None:
        check_reached(kept.path, state.iteration, iterations)
    with watch_progress(False if ranks.comm.rank else progress) as opening:
        advance = (opening or silent_progress)("iterations", iterations)

        def told(now: MethodState) -> None:
            advance(now.iteration)
            if kept is not None:
                kept.look(now, at_end=now.iteration >= iterations)

        found = iterate_on_all_ranks(engine, iterations, state=state, told=told)
    answer = exact_answer_of_large_graph(law, total, here.n_parties)
    away = np.linalg.norm(found.own - answer, axis=1).max()
    return RanksRun(
        graph=graph if isinstance(graph, str) else "a graph",
        parties=here.n_parties,
        ranks=ranks.comm.size,
        halo=here.parts.share,
        method=method,
        iterations=found.iterations,
        resumed=0 if state is None else state.iteration,
        own=found.own,
        first=ranks.own.start,
        minimiser=found.mean,
        answer=answer,
        max_error=ranks.largest(float(away)),
        sum_of_masks=tuple(sums),
        sigma=float(sigma),
        grid=law.grid.bits,
    )


def _targets_of_own_rank(
    here: RankOwnGraph, targets: ArrayLike | None, dim: int, seed: int
) -> Float[Array[np.float64], "own m"]:
    own, parties = here.ranks.own, here.n_parties
    if targets is not None:
        return np.array(
            given_large_graph_targets(targets, parties)[own], dtype=np.float64
        )
    dim = as_whole_number(dim, what="dim", least=1)
    seed = as_whole_number(seed, what="a seed", least=0)
    stream = np.random.default_rng((TARGETS_PURPOSE, seed))
    rows = np.empty((own.stop - own.start, dim))
    # One stream for all, so that numbers do not depend on who has which parties.
    for low in range(0, own.stop, DRAWN):
        drawn = stream.standard_normal((min(DRAWN, parties - low), dim))
        first, last = max(low, own.start), min(low + len(drawn), own.stop)
        if first < last:
            rows[first - own.start : last - own.start] = drawn[first - low : last - low]
    return rows


@dataclass(eq=False)
class _RankCheckpoints:
    """Checkpoints of all ranks: a file each, of the same iteration.

    A new one has another name than the last, which is removed only when all ranks have
    written theirs: whenever they are stopped, one iteration is whole.
    """

    ranks: EngineRanks
    path: Path
    digest: str
    seconds: float
    last: float = field(default_factory=lambda: monotonic())
    slot: int = 1

    def _file(self, slot: int) -> Path:
        which = f"{self.ranks.comm.rank}-of-{self.ranks.comm.size}-{'ab'[slot]}"
        return self.path.with_name(f"{self.path.stem}.{which}{self.path.suffix}")

    def look(self, state: MethodState, *, at_end: bool) -> None:
        """Write if the first rank says that it is time, and at the end."""
        due = np.array([monotonic() - self.last >= self.seconds], dtype=np.int64)
        settle_mpi_requests([self.ranks.comm.Ibcast(due)])
        if at_end or due[0]:
            self.write(state)

    def write(self, state: Any) -> None:
        """Write this rank's rows, and wait until all ranks have."""
        write_checkpoint(self._file(1 - self.slot), self.digest, state)
        settle_mpi_requests([self.ranks.comm.Ibarrier()])
        self._file(self.slot).unlink(missing_ok=True)
        self.slot, self.last = 1 - self.slot, monotonic()

    def latest(self, begun: Any) -> Any:
        """Return the last state that all ranks have; None if there is none."""
        files = (self._file(0), self._file(1))
        own = [read_checkpoint(one, self.digest, begun) for one in files]
        when = [-1 if one is None else one.iteration for one in own]
        everybody = np.empty((self.ranks.comm.size, 2), np.int64)
        self.ranks.comm.Allgather(np.array(when), everybody)
        common = set.intersection(*(set(row) for row in everybody.tolist())) - {-1}
        if not common:
            return None
        self.slot = when.index(max(common))
        return own[self.slot]
