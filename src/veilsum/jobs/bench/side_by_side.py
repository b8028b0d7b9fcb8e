"""Our engine, a whole `solve`, and other packages: one run, the same least squares."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import veilsum
from veilsum.costs.domains import Box
from veilsum.engines.choosing import engine_for
from veilsum.jobs.bench.cases import POWER, SMOOTH, of_least_squares, step_sizes
from veilsum.jobs.bench.clocks import Lap, Laps, Watch, clocked, in_turn
from veilsum.jobs.bench.engines import AGREEMENT
from veilsum.jobs.bench.floors import looped
from veilsum.jobs.bench.least_squares import LeastSquares
from veilsum.jobs.bench.loops import LOOPS, REACH
from veilsum.jobs.bench.peers import DIM, Answer, LeftOut, Peer, PeerError, ask
from veilsum.jobs.solve import solve
from veilsum.methods.settings import Settings

AGENTS, ITERATIONS = 100, 1_000
# The forms that most packages have.
FORMS = {"dgd": "own", "gradient-tracking": "atc"}
OURS, WHOLE, LOOP = "veilsum engine", "veilsum.solve", "numpy loop"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One package with one method; times are microseconds per agent and iteration.

    Attributes:
        name: of the package.
        version: of it.
        method: dgd or gradient-tracking.
        agents: how many it had.
        iterations: how many it took.
        wall: by the clock.
        processor: of all threads and processes together.
        slower: how many times our engine's wall time.
        slower_processor: the same of processor time.
        wanted: how many times slower it should be at least; None for ourselves.
        met: whether it is, by both clocks.
        difference: between its answer and the plain loop's, the greatest coordinate.
        distance: between its answer and the pooled one's.
    """

    name: str
    version: str
    method: str
    agents: int
    iterations: int
    wall: float
    processor: float
    slower: float
    slower_processor: float
    wanted: float | None
    met: bool | None
    difference: float | None
    distance: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Comparison:
    """All packages that could be run, and those that could not."""

    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "left_out": [asdict(one) for one in self.left_out],
        }


@dataclass(frozen=True)
class Contestant:
    """Whoever runs a method on the workload.

    Attributes:
        name: of it.
        agents: how many it has.
        iterations: how many it takes.
        run: runs it once.
        wanted: how many times slower than ours it should be.
    """

    name: str
    agents: int
    iterations: int
    run: Callable[[], Answer]
    wanted: float | None = None


def compare(
    peers: Sequence[Peer | LeftOut], *, repeats: int, shorter: int, watch: Watch
) -> Comparison:
    """Return times of everybody with every method, taken in turn.

    Args:
        peers: of a folder.
        repeats: how many rounds.
        shorter: our own iterations over this, as the peers' are.
        watch: told each method.
    """
    rows: list[Row] = []
    left_out = [peer for peer in peers if isinstance(peer, LeftOut)]
    able = [peer for peer in peers if isinstance(peer, Peer)]
    with tempfile.TemporaryDirectory() as name:
        for method in FORMS:
            all_of_them = [
                *ourselves(method, ITERATIONS // shorter),
                *(_contestant(peer, method, Path(name)) for peer in able),
            ]
            answers, failed = _first_answers(all_of_them, method)
            left_out += failed
            rows += _measured(all_of_them, answers, method, repeats, watch)
    return Comparison(tuple(rows), tuple(left_out))


def ourselves(method: str, iterations: int) -> list[Contestant]:
    """Return our engine, a whole `solve`, and a plain loop."""
    given = LeastSquares.of(agents=AGENTS, dim=DIM)
    work = of_least_squares(given, form=FORMS[method], iterations=iterations)
    engine, dense = engine_for(work.task), work.weights.toarray()
    settings = _settings(method, iterations)
    runs: dict[str, Callable[[], Any]] = {
        OURS: lambda: engine.points(engine.advance(engine.begin(), iterations)),
        WHOLE: lambda: _solved(given, settings),
        LOOP: lambda: looped(work, dense, iterations),
    }
    # Masks change the way there: `solve` is in the form of no plain loop.
    forms = {OURS: work.form, WHOLE: "", LOOP: work.form}
    versions = {OURS: f"{veilsum.__version__}, {engine.name}", LOOP: np.__version__}
    return [
        Contestant(
            name,
            AGENTS,
            iterations,
            partial(_own, run, forms[name], versions.get(name, veilsum.__version__)),
        )
        for name, run in runs.items()
    ]


def _own(run: Callable[[], Any], form: str, version: str) -> Answer:
    found: list[Any] = []
    lap = clocked(lambda: found.append(run()))
    return Answer(found[0], form, version, lap)


def _settings(method: str, iterations: int) -> Settings:
    if method == "dgd":
        return Settings(
            method=method,
            iterations=iterations,
            step=float(step_sizes("own", 1)[0]),
            power=POWER,
            mixing="metropolis",
            gradient_at="own",
        )
    return Settings(
        method=method,
        iterations=iterations,
        step=float(step_sizes("atc", 1)[0]),
        mixing="metropolis",
        rounds=1,
        smooth=SMOOTH,
        mean_convex=SMOOTH / 100.0,
    )


def _solved(given: LeastSquares, settings: Settings) -> Any:
    run = solve(
        given.costs,
        given.topology,
        domain=Box(-REACH, REACH, dim=DIM),
        sigma=1.0,
        law="lattice",
        seed=0,
        settings=settings,
    )
    return run.estimates


def _contestant(peer: Peer, method: str, folder: Path) -> Contestant:
    run = partial(ask, peer, method, folder)
    return Contestant(peer.name, peer.agents, peer.iterations, run, peer.faster)


def _first_answers(
    everybody: Sequence[Contestant], method: str
) -> tuple[dict[str, Answer], list[LeftOut]]:
    """Run everybody once: whoever fails now is left out."""
    answers, failed = {}, []
    for one in everybody:
        try:
            answers[one.name] = _checked(one)
        except PeerError as error:
            failed.append(LeftOut(one.name, f"{method}: {error}"))
    return answers, failed


def _checked(one: Contestant) -> Answer:
    """Run it once; whoever computes something else is not compared with."""
    found = one.run()
    away = _difference(found, one)
    if away is not None and not away <= AGREEMENT:
        raise PeerError(f"its answer is {away:.3g} away from the plain loop's")
    return found


def _measured(
    everybody: Sequence[Contestant],
    answers: dict[str, Answer],
    method: str,
    repeats: int,
    watch: Watch,
) -> list[Row]:
    able = [one for one in everybody if one.name in answers]
    runs = {one.name: partial(_lap, one) for one in able}
    laps = in_turn(runs, repeats=repeats, tick=watch(method, repeats))
    return [_row(one, answers[one.name], method, laps) for one in able]


def _lap(one: Contestant) -> Lap:
    return one.run().lap.per(one.agents * one.iterations)


def _row(one: Contestant, answer: Answer, method: str, laps: dict[str, Laps]) -> Row:
    slower = laps[one.name].over(laps[OURS])
    given = LeastSquares.of(agents=one.agents, dim=DIM)
    met = None
    if one.wanted is not None:
        met = min(slower.wall, slower.processor) >= one.wanted
    return Row(
        name=one.name,
        version=answer.version,
        method=method,
        agents=one.agents,
        iterations=one.iterations,
        wall=laps[one.name].wall,
        processor=laps[one.name].processor,
        slower=slower.wall,
        slower_processor=slower.processor,
        wanted=one.wanted,
        met=met,
        difference=_difference(answer, one),
        distance=float(np.abs(answer.points - given.answer()).max()),
    )


def _difference(answer: Answer, one: Contestant) -> float | None:
    """Return how far an answer is from the plain loop's in the same form."""
    if not answer.form:
        return None
    given = LeastSquares.of(agents=one.agents, dim=DIM)
    steps = step_sizes(answer.form, one.iterations)
    start = np.zeros(given.linear.shape)
    found = LOOPS[answer.form](given.weights, given.slope, start, steps)
    return float(np.abs(answer.points - found).max())
