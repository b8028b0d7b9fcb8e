"""`large`: one graph of millions of parties, simulated on one machine.

Every party i has the private cost ||x - p_i||^2, all of them rows of one array. The
graph is made as arrays, masks are drawn in pieces and are checked to add up to zero
exactly, an engine carries the method out, and Theorem 1's epsilon comes with bounds
on mu2 that are proved but for a stated probability. It is a simulation: one process
knows every share, and the streams they come from are repeatable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import log
from pathlib import Path
from time import monotonic, perf_counter, process_time
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from veilsum import memory
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.files.arrays import mapped_array
from veilsum.files.graphs import topology_from
from veilsum.files.output import prepare_output_folder
from veilsum.graphs.mixing import mixing_weights
from veilsum.graphs.spectrum import FAILURE_PROBABILITY, Mu2Bounds, certified_mu2
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.masks.laws import LatticeMasks, MaskLaw, Masks
from veilsum.masks.masking import (
    PIECE,
    CounterStreams,
    exact_totals_of_masked_rows,
    masks_in_pieces,
)
from veilsum.minimise.checkpoints import (
    check_reached,
    checkpoint_fingerprint,
    read_checkpoint,
    write_checkpoint,
)
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.engines.engine import Engine, EngineTask, check_bounded_iterates
from veilsum.minimise.engines.registry import check_engine_is_there, engine_for
from veilsum.minimise.methods.base import Method
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.extra import Extra, extra_step, least_eigenvalue_of_mixing
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.numbers.arrays import FloatArray, PartyPoints, Vector, as_whole_number
from veilsum.privacy.guarantee import (
    Guarantee,
    epsilon_bound_of_guarantee,
    guarantee_against_coalition,
)
from veilsum.privacy.lattice import MOST_CYCLE_LINKS
from veilsum.progress import Opening, Progress, silent_progress, watch_progress
from veilsum.showing import (
    Renderable,
    Rendering,
    ShownTable,
    counted_words,
    numbers_in_line,
)

LargeMethod = Literal["dgd", "gradient-tracking", "extra"]
# The weights of each.
MIXING: dict[LargeMethod, str] = {
    "dgd": "metropolis",
    "gradient-tracking": "metropolis",
    "extra": "lazy-metropolis",
}
LARGE_METHODS = tuple(MIXING)

# Gradients of ||x - p||^2 are 2-Lipschitz.
SMOOTH = 2.0
DGD_STEP, DGD_POWER = 0.5, 0.75
# Times 1 / L: usual, and proved for no graph in particular.
TRACKING_STEP = 0.4
# Iterations between two looks at the clock: a run that is resumed has the same ones.
AT_ONCE = 10
# Seconds between two looks at whether estimates ran away; the last ones always are.
LOOK = 10.0
# Of a certificate's filter: minutes for ten million parties, and bounds on epsilon that
# are a tenth apart.
CERTIFICATE_STEPS = 80
# Made-up targets have a stream of their own.
TARGETS_PURPOSE = 3

SIMULATION = (
    "a simulation: one process drew every share, from streams that a seed repeats; "
    "between real parties each draws its own"
)


@dataclass(frozen=True, slots=True)
class LargeGraphPhase:
    """Time and memory that one part of the work took.

    Attributes:
        name: name of the part.
        seconds: elapsed time.
        processor_seconds: processor time of all cores together.
        peak_bytes: peak memory of the process up to its end.
    """

    name: str
    seconds: float
    processor_seconds: float
    peak_bytes: int | None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LargeRun(Renderable):
    """Result of a run on a large graph, with its measurements.

    Attributes:
        graph: source of the graph.
        topology: pairs of parties that exchanged messages.
        method: name of the method.
        iterations: number of iterations.
        resumed: number of iterations in the checkpoint it resumed from; 0 without one.
        engine: name of the engine.
        order: order of the parties in memory, with the reason.
        estimates: each party's own estimate, by row.
        answer: the exact minimiser, the mean of all targets.
        sum_of_masks: exact sum for each coefficient; a result has only zeros.
        guarantee: guarantee of the masks; None if no certificate was requested.
        mu2: bounds on mu2 of the honest graph, with the certificate of the lower one;
            None without a guarantee, or where the honest graph is in pieces.
        sigma: sigma of the masks.
        grid: bits q of their grid 2^-q.
        wanted_bytes: memory estimated beforehand.
        phases: time and memory of each part.
    """

    graph: str
    topology: Topology
    method: str
    iterations: int
    resumed: int
    engine: str
    order: str
    estimates: PartyPoints
    answer: Vector
    sum_of_masks: tuple[int, ...]
    guarantee: Guarantee | None
    mu2: Mu2Bounds | None
    sigma: float
    grid: int
    wanted_bytes: int
    phases: tuple[LargeGraphPhase, ...]

    @cached_property
    def minimiser(self) -> Vector:
        """The parties' estimates, averaged."""
        return np.asarray(self.estimates.mean(axis=0))

    @cached_property
    def max_error(self) -> float:
        """The worst party's distance from the answer."""
        far = 0.0
        for low in range(0, len(self.estimates), PIECE):
            with np.errstate(over="ignore", invalid="ignore"):
                away = self.estimates[low : low + PIECE] - self.answer
                # What is nan stays nan: of 0 and nan Python's larger one is 0.
                far = float(np.maximum(far, (away * away).sum(axis=1).max()))
        return float(np.sqrt(far))

    @property
    def epsilon(self) -> tuple[float, float | None] | None:
        """Between what epsilon lies: nobody can promise less, and less is proved."""
        if self.guarantee is None or self.mu2 is None:
            return None
        return (
            epsilon_bound_of_guarantee(sigma=self.sigma, mu2=self.mu2.upper),
            self.guarantee.epsilon,
        )

    @property
    def failure_probability(self) -> float | None:
        """Probability that the certificate is wrong; 0 if it involves no chance."""
        if self.mu2 is None or self.mu2.lower is None:
            return None
        by_chance = self.mu2.certificate == "probabilistic"
        return FAILURE_PROBABILITY if by_chance else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; of parties only how many there are."""
        return {
            "graph": self.graph,
            "parties": self.topology.n_parties,
            "links": self.topology.n_edges,
            "dim": self.estimates.shape[1],
            "method": self.method,
            "iterations": self.iterations,
            "resumed": self.resumed,
            "engine": self.engine,
            "order": self.order,
            "minimiser": self.minimiser.tolist(),
            "answer": self.answer.tolist(),
            "max_error": self.max_error,
            "sum_of_masks": list(self.sum_of_masks),
            "sigma": self.sigma,
            "grid": self.grid,
            "status": None if self.guarantee is None else self.guarantee.status,
            "epsilon": self.epsilon,
            "mu2": None if self.mu2 is None else [self.mu2.lower, self.mu2.upper],
            "certificate": None if self.mu2 is None else self.mu2.certificate,
            "failure_probability": self.failure_probability,
            "wanted_bytes": self.wanted_bytes,
            "phases": [asdict(one) for one in self.phases],
        }

    def showing(self) -> Rendering:
        """Return the minimiser, what is promised, and what each part took."""
        rows = [
            [
                one.name,
                f"{one.seconds:,.1f}",
                f"{one.processor_seconds:,.1f}",
                one.peak_bytes and f"{one.peak_bytes / 1e9:,.2f}",
            ]
            for one in self.phases
        ]
        heads = ("part", "seconds", "processor seconds", "peak GB so far")
        return Rendering(
            f"Minimiser over {self.topology.n_parties:,} parties: "
            f"{numbers_in_line(self.minimiser.tolist())}",
            [tuple(self._told()), ShownTable(heads, rows, align="<>>>")],
            {"Limits": (SIMULATION,)},
        )

    def _told(self) -> Iterator[str]:
        yield (
            f"{counted_words(self.iterations, 'iteration')} of {self.method} by "
            f"{self.engine}"
            f" on {self.graph}; worst party's error {self.max_error:.3g}"
        )
        yield "masks add up to zero, exactly"
        yield f"kept in {self.order}"
        if self.resumed:
            yield f"resumed after {counted_words(self.resumed, 'iteration')}"
        if self.guarantee is None:
            yield "no guarantee was asked for"
        elif (epsilon := self.epsilon) is None:
            yield f"{self.guarantee.status}: {self.guarantee.sentence}"
        else:
            yield from self._promised(*epsilon)

    def _promised(self, least: float, most: float | None) -> Iterator[str]:
        if most is None or self.mu2 is None or self.mu2.lower is None:
            yield f"epsilon is at least {least:.6g}; no upper bound was proved"
            return
        chance = self.failure_probability
        but = f", but for a probability of {chance:g}" if chance else ""
        yield (
            f"epsilon lies between {least:.6g} and {most:.6g}: mu2 between "
            f"{self.mu2.lower:.6g} and {self.mu2.upper:.6g}, by a certificate of kind "
            f"{self.mu2.certificate}{but}"
        )


def large(
    graph: str | GraphLike,
    targets: ArrayLike | None = None,
    *,
    dim: int = 4,
    method: LargeMethod = "dgd",
    iterations: int = 100,
    sigma: float = 1.0,
    grid: int | None = None,
    corrupted: Iterable[Hashable] = (),
    seed: int = 0,
    step: float | None = None,
    engine: str = "numba",
    certify: bool = True,
    checkpoint: str | Path | None = None,
    every: float = 10.0,
    progress: Progress = None,
) -> LargeRun:
    """Simulate millions of parties that find the mean of their private targets.

    Args:
        graph: a family such as "regular:10000000:6", a file of links (.npy), or a
            graph.
        targets: p_i by row; drawn from the seed if there are none. A file that numpy
            maps into memory is read in pieces.
        dim: of drawn targets.
        method: dgd, gradient-tracking or extra.
        iterations: how many.
        sigma: standard deviation of one coordinate of one share.
        grid: bits q of the masks' grid 2^-q; the finest that fits without.
        corrupted: the coalition that the guarantee is against.
        seed: of shares and drawn targets.
        step: dgd's first, or that of the other methods; a usual one without.
        engine: numba, jax, or numpy.
        certify: whether mu2 is bounded and epsilon with it: minutes for ten million.
        checkpoint: a file that is written on the way and on Ctrl-C, which only its
            owner may read: it can tell targets. If it is there, the run goes on from
            it, to the same bits.
        every: minutes between two of them.
        progress: see `veilsum.progress`.

    Raises:
        MemoryShortError: it would not fit; the message has both numbers.
        NumericalError: estimates ran away; the step is too long.

    >>> found = large("cycles:2000:6", method="gradient-tracking", progress=False)
    >>> found.sum_of_masks, found.mu2.certificate, found.max_error < 0.001
    ((0, 0, 0, 0), 'probabilistic', True)
    """
    iterations = as_whole_number(iterations, what="iterations", least=1)
    check_large_graph_run(method, every)
    if engine == "mpi":
        raise InvalidInputError(
            "every rank would hold the whole graph: veilsum large --on mpi:N has each "
            "make its own parties only",
            code="graph-on-every-rank",
        )
    check_engine_is_there(engine)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None:
        prepare_output_folder(path.parent)
    measured = _LargeGraphPhases()
    with watch_progress(progress) as opening:
        open_stage = opening or silent_progress
        with measured.phase("graph"):
            if isinstance(graph, str):
                topology = topology_from(graph)
            else:
                topology = Topology.of(graph)
        given = (
            None
            if targets is None
            else given_large_graph_targets(targets, topology.n_parties)
        )
        dim = (
            as_whole_number(dim, what="dim", least=1)
            if given is None
            else given.shape[1]
        )
        size = (topology.n_parties, topology.n_edges, dim)
        wanted = bytes_wanted_by_large_graph(*size, method=method, certify=certify)
        memory.check_memory_room(
            wanted - size[1] * 8,
            f"a run of {size[0]:,} parties, {size[1]:,} links, {size[2]} coordinates",
        )
        rows = (
            _draw_large_graph_targets(topology.n_parties, dim, seed)
            if given is None
            else given
        )
        reach = _reach_of_large_graph_targets(rows)
        law = integer_law_of_large_graph(
            Masks("lattice", sigma, grid, 2.0 * reach).on(topology)
        )
        promise, mu2 = None, None
        if certify:
            with measured.phase("certificate"):
                promise, mu2 = _guarantee_of_large_graph(
                    topology, law.masks, corrupted, open_stage
                )
        with measured.phase("masks"):
            told = open_stage("links masked", topology.n_edges)
            cost, answer, sums = _mask_large_graph_costs(
                topology, law, rows, seed, told
            )
        del rows, given
        with measured.phase("weights"):
            # Nobody can tell how far these are; that they are under way is said.
            told = open_stage("weights, and an order", 2)
            told(0)
            task = engine_task(topology, cost, method=method, step=step, reach=reach)
            told(1)
            runner = engine_for(task, engine)
            state = runner.begin()
            told(2)
        resumed = 0
        saving = None
        if path is not None:
            settings = (method, step, reach, runner.name, float(sigma), law.grid.bits)
            digest = _large_graph_run_digest(topology, cost, runner, settings)
            saving = _LargeGraphSaving(path, digest, 60.0 * every)
            state = read_checkpoint(path, digest, state) or state
            resumed = state.iteration
            check_reached(path, resumed, iterations)
        with measured.phase("iterations"):
            state = _advance_large_graph_run(
                runner, state, iterations, open_stage, saving
            )
        with measured.phase("estimates"):
            estimates = runner.points(state)
    return LargeRun(
        graph=graph if isinstance(graph, str) else "a graph",
        topology=topology,
        method=method,
        iterations=state.iteration,
        resumed=resumed,
        engine=runner.name,
        order=_order_of_large_graph_engine(runner),
        estimates=estimates,
        answer=answer,
        sum_of_masks=sums,
        guarantee=promise,
        mu2=mu2,
        sigma=float(sigma),
        grid=law.grid.bits,
        wanted_bytes=wanted,
        phases=tuple(measured.phases),
    )


def check_large_graph_run(method: str, every: float) -> None:
    """Refuse methods that there are not, and times that are none."""
    if method not in LARGE_METHODS:
        raise InvalidInputError(
            f"no method of large runs is called {method!r}; choose from "
            f"{', '.join(LARGE_METHODS)}",
            code="unknown-method",
        )
    if not every > 0:
        raise InvalidInputError(
            f"checkpoints are so many minutes apart, more than 0; found {every}",
            code="interval-not-positive",
        )


def read_large_graph_targets(path: Path) -> FloatArray:
    """Return the rows of a .npy file, which stay on disk until they are needed."""
    return mapped_array(path, InvalidInputError)


def bytes_wanted_by_large_graph(
    parties: int, links: int, dim: int, *, method: LargeMethod, certify: bool = True
) -> int:
    """Return about how much memory a run takes at its worst moment.

    >>> bytes_wanted_by_large_graph(10_000_000, 30_000_000, 4, method="dgd") < 8e9
    True
    """
    entries = 2 * links + parties
    matrix, rows = 12 * entries + 4 * parties, 8 * parties * dim
    proving = (
        matrix + 3 * 8 * 8 * parties + _bytes_of_large_graph_cycles(parties, links)
    )
    proving = proving if certify else 0
    # Targets, masked coefficients, the start, all three in the engine's order, states
    # before and after; rooms of panels, or what a method's own source makes.
    arrays = {"dgd": 10 + 3, "gradient-tracking": 11 + 5, "extra": 11 + 3}[method]
    running = 2 * matrix + 8 * links + arrays * rows
    # The last is Python with numba, before there is anything.
    return 8 * links + max(proving, running) + 300_000_000


def _bytes_of_large_graph_cycles(parties: int, links: int) -> int:
    """Return what the lattice law's bound takes, which looks at cycles of few parties.

    One for each link beyond a tree's, down two branches as deep as a random graph's.
    """
    more = links - parties
    if not 0 < 3 * more <= MOST_CYCLE_LINKS:
        return 0
    long = 2.0 * log(parties) / log(max(2.0, 2.0 * links / parties - 1.0)) + 4.0
    return int(60 * min(more * long, MOST_CYCLE_LINKS))


def engine_task(
    topology: Topology,
    cost: EffectiveCost,
    *,
    method: LargeMethod,
    step: float | None,
    reach: float,
) -> EngineTask:
    """Return what an engine is to carry out, whichever it is; see `method_of`."""
    parties, dim = cost.coefficients.shape
    weights = mixing_weights(topology, MIXING[method])
    return EngineTask(
        method=method_of(
            method,
            dim,
            step=step,
            reach=reach,
            least=lambda: least_eigenvalue_of_mixing(weights),
        ),
        weights={"symmetric": weights},
        cost=cost,
        start=np.zeros((parties, dim)),
    )


def method_of(
    name: LargeMethod,
    dim: int,
    *,
    step: float | None,
    reach: float,
    least: Callable[[], float],
) -> Method[Any]:
    """Return the method with the step that was asked for, or a usual one.

    Args:
        name: its name.
        dim: of estimates.
        step: its step, or None for the usual one.
        reach: half the width of dgd's box.
        least: finds the least eigenvalue of the mixing weights, or less.
    """
    if name == "dgd":
        first = DGD_STEP if step is None else step
        return Dgd(Box(-reach, reach, dim=dim), first, DGD_POWER)
    if name == "gradient-tracking":
        usual = TRACKING_STEP / SMOOTH
        return GradientTracking(WholeSpace(dim), usual if step is None else step)
    if step is None:
        step = extra_step(SMOOTH, least())
    return Extra(WholeSpace(dim), step)


def _draw_large_graph_targets(parties: int, dim: int, seed: int) -> FloatArray:
    seed = as_whole_number(seed, what="a seed", least=0)
    stream = np.random.default_rng((TARGETS_PURPOSE, seed))
    return stream.standard_normal((parties, dim))


def given_large_graph_targets(targets: ArrayLike, parties: int) -> FloatArray:
    rows = np.asanyarray(targets)
    if rows.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"targets must be numbers, found {rows.dtype}", code="targets-not-numbers"
        )
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or len(rows) != parties or rows.shape[1] < 1:
        raise InvalidInputError(
            f"targets must have one row for each of {parties:,} parties, found shape "
            f"{rows.shape}",
            code="wrong-shape",
        )
    return rows


def _reach_of_large_graph_targets(rows: FloatArray) -> float:
    """Return what no target exceeds, read off them as only a simulation can."""
    found = float(max(abs(rows.min()), abs(rows.max())))
    if not found < np.inf:
        raise InvalidInputError(
            "targets must be finite numbers, found nan or inf",
            code="targets-not-finite",
        )
    return max(1.0, found)


def _mask_large_graph_costs(
    topology: Topology, law: LatticeMasks, rows: FloatArray, seed: int, told: Any
) -> tuple[EffectiveCost, Vector, tuple[int, ...]]:
    """Return masked costs, the exact answer, and what masks add up to.

    ||x - p||^2 is ||x||^2 - 2 p'x and a number: -2 p is masked, ||x||^2 is known to
    all. Masks become masked numbers, and these float64 coefficients, where they stand.
    """
    parties, dim = rows.shape
    streams = CounterStreams(seed)
    masks: Any = masks_in_pieces(topology, law, streams, size=dim, told=told)
    sums = exact_totals_of_masked_rows(masks)
    own = [0] * dim
    for low in range(0, parties, PIECE):
        here = slice(low, low + PIECE)
        part = law.encode(-2.0 * np.asarray(rows[here], dtype=np.float64))
        masks[here] += part
        own = [
            a + b for a, b in zip(own, exact_totals_of_masked_rows(part), strict=True)
        ]
    check_large_graph_masks_cancel(sums, own, exact_totals_of_masked_rows(masks))
    coefficients = masks.view(np.float64)
    for low in range(0, parties, PIECE):
        here = slice(low, low + PIECE)
        coefficients[here] = law.decode(masks[here])
    cost = EffectiveCost(Affine(dim), coefficients, SquaredNorm(1.0))
    return cost, exact_answer_of_large_graph(law, own, parties), tuple(sums)


def integer_law_of_large_graph(law: MaskLaw) -> LatticeMasks:
    """Return the law if its masks are 64-bit integers; else refuse."""
    assert isinstance(law, LatticeMasks)
    if law.wide:
        raise InvalidInputError(
            f"masks on a grid of {law.grid.bits} bits do not fit 64-bit integers: use "
            "a coarser grid, or a smaller sigma",
            code="grid-too-fine",
        )
    return law


def check_large_graph_masks_cancel(
    sums: Iterable[int], own: list[int], masked: list[int]
) -> None:
    """Refuse masks that do not add up to zero, or change the sum that they mask."""
    if any(sums) or masked != own:
        raise NumericalError(
            f"masks of all parties add up to {sums} steps of the grid instead of 0: "
            "this is an error in the package, please report it",
            code="internal",
        )


def exact_answer_of_large_graph(
    law: LatticeMasks, total: Iterable[int], parties: int
) -> Vector:
    """Return the mean of all targets p from the sum of -2 p, in steps of the grid."""
    # In Python's integers: a total may be larger than what float64 holds exactly.
    step = law.grid.exact_step / (-2 * parties)
    return np.array([float(step * one) for one in total])


def _guarantee_of_large_graph(
    topology: Topology,
    masks: Masks,
    corrupted: Iterable[Hashable],
    opening: Opening,
) -> tuple[Guarantee, Mu2Bounds | None]:
    found: list[Mu2Bounds] = []

    def certify(honest: Topology) -> Mu2Bounds:
        entries = 2 * honest.n_edges + honest.n_parties
        most = CERTIFICATE_STEPS * entries
        found.append(certified_mu2(honest, work=most, opening=opening))
        return found[-1]

    promise = guarantee_against_coalition(
        topology, masks, corrupted=corrupted, certify=certify
    )
    return promise, found[0] if promise.status == "private" else None


# Iterations, and how far they are


@dataclass(eq=False)
class _LargeGraphPhases:
    phases: list[LargeGraphPhase] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began, worked = perf_counter(), process_time()
        yield
        seconds, spent = perf_counter() - began, process_time() - worked
        self.phases.append(
            LargeGraphPhase(
                name, round(seconds, 3), round(spent, 3), memory.peak_memory()
            )
        )


@dataclass(eq=False)
class _LargeGraphSaving:
    """Writes the state down once so many seconds are over."""

    path: Path
    digest: str
    seconds: float
    last: float = field(default_factory=lambda: monotonic())

    def look(self, state: Any, *, at_end: bool) -> None:
        """Write if it is time, and at the end."""
        if at_end or monotonic() - self.last >= self.seconds:
            self.write(state)

    def write(self, state: Any) -> None:
        write_checkpoint(self.path, self.digest, state)
        self.last = monotonic()


def _advance_large_graph_run(
    engine: Engine,
    state: Any,
    iterations: int,
    opening: Opening,
    saving: _LargeGraphSaving | None,
) -> Any:
    told, looked = opening("iterations", iterations), monotonic()
    while state.iteration < iterations:
        # Always up to the same ones: a run that is resumed computes the same bits.
        count = AT_ONCE - state.iteration % AT_ONCE
        try:
            state = engine.advance(state, min(count, iterations - state.iteration))
            # Now and then: they may have to come from a device.
            if state.iteration >= iterations or monotonic() - looked > LOOK:
                check_bounded_iterates(
                    _farthest_large_graph_point(np.asarray(state.x)), state.iteration
                )
                looked = monotonic()
        except KeyboardInterrupt:
            if saving is None:
                raise
            # An engine leaves the state that it goes on from as it was.
            saving.write(state)
            raise KeyboardInterrupt(
                f"{saving.path} has {state.iteration:,} of {iterations:,} iterations, "
                "and the same command goes on from there"
            ) from None
        told(state.iteration)
        if saving is not None:
            saving.look(state, at_end=state.iteration >= iterations)
    return state


def _farthest_large_graph_point(points: PartyPoints) -> float:
    """Return the largest coordinate, without another array of that size."""
    return max(float(points.max()), -float(points.min()))


def _large_graph_run_digest(
    topology: Topology, cost: EffectiveCost, engine: Engine, settings: tuple[Any, ...]
) -> str:
    """Return a fingerprint of all that decides the run's numbers.

    Of seed, masks and targets what came of them: they may have been another file's, or
    another version's. Of the engine in which order it keeps parties.
    """
    nearness = getattr(engine, "nearness", None)
    order = None if nearness is None else nearness.order
    arrays = (topology.edges, topology.weights[:1], cost.coefficients)
    return checkpoint_fingerprint(
        settings, *arrays, *(() if order is None else (order,))
    )


def _order_of_large_graph_engine(engine: Engine) -> str:
    nearness = getattr(engine, "nearness", None)
    return "the parties' own order" if nearness is None else nearness.words
