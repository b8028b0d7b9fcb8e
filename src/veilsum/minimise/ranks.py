"""`large_on_ranks`: one graph of very many parties, shared by ranks of MPI.

Every party i has the private cost ||x - p_i||^2. A rank makes the links, targets, masks
and weights of its own parties and nobody else's, so that what it takes shrinks with the
number of ranks. It is a simulation: ranks draw every share, from streams that a seed
repeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from veilsum.costs.bases import Affine
from veilsum.costs.effective import EffectiveCost
from veilsum.costs.remainders import SquaredNorm
from veilsum.drivers.ranks import OwnGraph, go_through, own_engine
from veilsum.engines.mpi import Ranks, settle
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.files.checkpoints import (
    check_reached,
    fingerprint,
    read_checkpoint,
    write_checkpoint,
)
from veilsum.files.output import prepare_folder
from veilsum.graphs.topology import Topology
from veilsum.methods.base import State
from veilsum.minimise.large import (
    MIXING,
    TARGETS_PURPOSE,
    LargeMethod,
    check_asked,
    given_targets,
    method_of,
)
from veilsum.numbers.arrays import Array, FloatArray, Vector, as_whole
from veilsum.numbers.laws import LatticeMasks, Masks
from veilsum.numbers.masking import CounterStreams
from veilsum.numbers.shapes import Float
from veilsum.progress import Progress, silent, watched
from veilsum.showing import Showing, Shown, counted, in_line

# Targets that are drawn at once; other ranks' are drawn, too, and not kept.
DRAWN = 1 << 16


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RanksRun(Shown):
    """What ranks came to; all but `own` is the same on every rank.

    Attributes:
        graph: what it was made from.
        parties: how many there are.
        ranks: how many shared them.
        halo: how much of the graph crossed between ranks in a round.
        method: its name.
        iterations: how many there were.
        resumed: after how many of them checkpoints took over; 0 without.
        own: this rank's estimates, by row.
        first: the number of this rank's first party.
        minimiser: all parties' estimates, averaged.
        answer: the exact minimiser, the mean of all targets.
        max_error: the worst party's distance from it.
        sum_of_masks: of each coefficient, exactly; all zero, else there is no result.
        sigma: of the masks.
        grid: bits q of their grid 2^-q.
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

    def showing(self) -> Showing:
        """Return the minimiser, and what it rests on."""
        return Showing(
            f"Minimiser over {self.parties:,} parties: "
            f"{in_line(self.minimiser.tolist())}",
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
            f"{counted(self.iterations, 'iteration')} of {self.method} by "
            f"{counted(self.ranks, 'rank')} on {self.graph}; worst party's error "
            f"{self.max_error:.3g}"
        )
        yield "masks add up to zero, exactly"
        if self.resumed:
            yield f"resumed after {counted(self.resumed, 'iteration')}"
        yield f"{self.halo:.2%} of the parties crossed between ranks in a round"


def large_on_ranks(
    graph: str | Topology,
    targets: FloatArray | None = None,
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

    Every rank calls it with the same arguments; alone it is one rank.

    Args:
        graph: a family such as "geometric:10000000:6", of which a rank makes its own
            part, or a graph, of whose links it keeps its own.
        targets: p_i by row, of all parties; a file that numpy maps into memory is read
            where a rank's rows are. Without any they are drawn from the seed.
        dim: of drawn targets.
        method: dgd, gradient-tracking or extra.
        iterations: how many.
        sigma: standard deviation of one coordinate of one share.
        grid: bits q of the masks' grid 2^-q; the finest that fits without.
        seed: of shares and drawn targets.
        step: dgd's first, or that of the other methods; a usual one without.
        checkpoint: every rank writes its rows to this name and its own number. If all
            are there, the run goes on from them, to the same bits.
        every: minutes between two of them.
        comm: how ranks reach each other; all that were started together without.
        progress: of the first rank; see `veilsum.progress`.

    Raises:
        InvalidInputError: the halo is most of the graph, or memory does not suffice;
            the message has the numbers.

    >>> found = large_on_ranks("geometric:3000:6", iterations=40, sigma=0.1)
    >>> found.parties, found.sum_of_masks
    (3000, (0, 0, 0, 0))
    """
    iterations = as_whole(iterations, what="iterations", least=1)
    check_asked(method, every)
    if checkpoint is not None:
        prepare_folder(Path(checkpoint).parent)
    if isinstance(graph, str):
        here = OwnGraph.of_family(graph, comm)
    else:
        here = OwnGraph.of_links(graph.n_parties, graph.edges, comm)
    here.parts.check()
    ranks, rows = here.ranks, _own_targets(here, targets, dim, seed)
    reach = ranks.largest(float(np.abs(rows).max()))
    if not reach < np.inf:
        raise InvalidInputError("targets must be finite numbers, found nan or inf")
    reach = max(1.0, reach)
    law = here.law(Masks("lattice", sigma, grid, 2.0 * reach))
    assert isinstance(law, LatticeMasks)
    if law.wide:
        raise InvalidInputError(
            f"masks on a grid of {law.grid.bits} bits do not fit 64-bit integers: use "
            "a coarser grid, or a smaller sigma"
        )
    numbers = here.masks(law, CounterStreams(seed), rows.shape[1])
    sums = here.exact_sums(numbers)
    # ||x - p||^2 is ||x||^2 - 2 p'x and a number: -2 p is masked.
    own = law.encode(-2.0 * rows)
    total = here.exact_sums(own)
    numbers += own
    if any(sums) or here.exact_sums(numbers) != total:
        raise NumericalError(
            f"masks of all parties add up to {sums} steps of the grid instead of 0: "
            "this is an error in the package, please report it"
        )
    cost = EffectiveCost(Affine(rows.shape[1]), law.decode(numbers), SquaredNorm(1.0))
    start = np.zeros_like(rows)
    del rows, own, numbers
    weights = here.weights(MIXING[method])

    def least() -> float:
        # As `least_eigenvalue` bounds it for many parties, with everybody's weights.
        kept = float(weights.diagonal(ranks.own.start).min())
        return -2.0 * ranks.largest(-kept) - 1.0

    engine = own_engine(
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
        digest = fingerprint(settings, here.links, cost.coefficients)
        kept = _Kept(here.ranks, Path(checkpoint), digest, 60.0 * every)
    state = None if kept is None else kept.latest(engine.begin())
    if kept is not None and state is not None:
        check_reached(kept.path, state.iteration, iterations)
    with watched(False if ranks.comm.rank else progress) as opening:
        advance = (opening or silent)("iterations", iterations)

        def told(now: State) -> None:
            advance(now.iteration)
            if kept is not None:
                kept.look(now, at_end=now.iteration >= iterations)

        found = go_through(engine, iterations, state=state, told=told)
    # In Python's integers: a total may be larger than what float64 holds exactly.
    unit = law.grid.exact_step / (-2 * here.n_parties)
    answer = np.array([float(unit * one) for one in total])
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


def _own_targets(
    here: OwnGraph, targets: FloatArray | None, dim: int, seed: int
) -> Float[Array[np.float64], "own m"]:
    """Return this rank's rows of all targets."""
    own, parties = here.ranks.own, here.n_parties
    if targets is not None:
        return np.array(given_targets(targets, parties)[own], dtype=np.float64)
    dim = as_whole(dim, what="dim", least=1)
    seed = as_whole(seed, what="a seed", least=0)
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
class _Kept:
    """Checkpoints of all ranks: a file each, of the same iteration.

    A new one has another name than the last, which is removed only when all ranks have
    written theirs: whenever they are stopped, one iteration is whole.
    """

    ranks: Ranks
    path: Path
    digest: str
    seconds: float
    last: float = field(default_factory=lambda: monotonic())
    slot: int = 1

    def _file(self, slot: int) -> Path:
        which = f"{self.ranks.comm.rank}-of-{self.ranks.comm.size}-{'ab'[slot]}"
        return self.path.with_name(f"{self.path.stem}.{which}{self.path.suffix}")

    def look(self, state: State, *, at_end: bool) -> None:
        """Write if the first rank says that it is time, and at the end."""
        due = np.array([monotonic() - self.last >= self.seconds], dtype=np.int64)
        settle([self.ranks.comm.Ibcast(due)])
        if at_end or due[0]:
            self.write(state)

    def write(self, state: Any) -> None:
        """Write this rank's rows, and wait until all ranks have."""
        write_checkpoint(self._file(1 - self.slot), self.digest, state)
        settle([self.ranks.comm.Ibarrier()])
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
