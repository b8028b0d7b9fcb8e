"""Every engine beside the floors, on one case after the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from veilsum.engines.choosing import available_engines, engine_for
from veilsum.engines.engine import Engine
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.jobs.bench.cases import Case, Workload, workload
from veilsum.jobs.bench.clocks import (
    FEWEST,
    Lap,
    Laps,
    Runs,
    Watch,
    clocked,
    in_turn,
    suitable_count,
)
from veilsum.jobs.bench.floors import floors, looped

# Whoever is farther from the plain loop computes something else.
AGREEMENT = 1e-9


@dataclass(frozen=True, kw_only=True)
class Line:
    """One engine on one case; times are in microseconds for each iteration.

    Attributes:
        method: its name.
        costs: which.
        agents: n.
        dim: m.
        engine: its name.
        iterations: how many it was run for at once.
        chosen: whether it is the one that "auto" takes for this.
        microseconds: the engine's.
        pass_microseconds: a pass over memory for each round.
        scipy_microseconds: the loop over scipy's sparse product.
        numpy_microseconds: the loop over numpy's dense one; None for many agents.
        passes: how many times a pass the engine takes.
        faster_than_scipy: how many times.
        faster_than_numpy: how many times.
        wanted: conditions on these ratios, in words.
        met: whether they hold; None without any, and for engines not chosen.
    """

    method: str
    costs: str
    agents: int
    dim: int
    engine: str
    iterations: int
    chosen: bool
    microseconds: float
    pass_microseconds: float
    scipy_microseconds: float
    numpy_microseconds: float | None
    passes: float
    faster_than_scipy: float
    faster_than_numpy: float | None
    wanted: str
    met: bool | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def measure(
    cases: Sequence[Case],
    *,
    engine: str | None,
    repeats: int,
    seconds: float,
    watch: Watch,
) -> list[Line]:
    """Return a line for each case and engine.

    Args:
        cases: one after the other.
        engine: only this one, or `auto`; without it all that are installed.
        repeats: how many rounds of all contestants; ratios are medians over them.
        seconds: that each should take in each of them, roughly.
        watch: told each case.
    """
    return [
        line
        for case in cases
        for line in _measured(case, engine, repeats, seconds, watch)
    ]


def _measured(
    case: Case, engine: str | None, repeats: int, seconds: float, watch: Watch
) -> list[Line]:
    tick = watch(case.words, repeats)
    work = workload(case)
    engines = _engines(work, engine)
    all_of_them = {**floors(work), **{_name(one): _runs(one) for one in engines}}
    for one in engines:
        _check(one, work)
    counts = {
        name: suitable_count(runs, seconds=seconds, most=len(work.steps))
        for name, runs in all_of_them.items()
    }
    laps = in_turn(
        {name: partial(_lap, all_of_them[name], counts[name]) for name in counts},
        repeats=repeats,
        tick=tick,
    )
    chosen = engine_for(work.task).name
    return [_line(case, one, laps, counts, chosen=chosen) for one in engines]


def _lap(runs: Runs, count: int) -> Lap:
    """Return the time of one iteration."""
    return clocked(partial(runs, count)).per(count)


def _name(engine: Engine) -> str:
    return f"engine {engine.name}"


def _engines(work: Workload, wanted: str | None) -> list[Engine]:
    """Return the one asked for, or all that can carry the task out."""
    if wanted is not None:
        return [engine_for(work.task, wanted)]
    found = []
    for name in available_engines():
        # An engine may be made for other costs or methods.
        with suppress(InvalidInputError):
            found.append(engine_for(work.task, name))
    return found


def _runs(engine: Engine) -> Runs:
    begun = engine.begin()
    return lambda count: engine.points(engine.advance(begun, count))


def _check(engine: Engine, work: Workload) -> None:
    """Refuse an engine that does not arrive where the plain loop does."""
    found = engine.points(engine.advance(engine.begin(), FEWEST))
    away = float(np.abs(found - looped(work, work.weights, FEWEST)).max())
    if not away <= AGREEMENT:
        raise NumericalError(
            f"engine {engine.name} ends {away:.3g} away from the plain loop: its times "
            "would mean nothing"
        )


def _line(
    case: Case,
    engine: Engine,
    laps: dict[str, Laps],
    counts: dict[str, int],
    *,
    chosen: str,
) -> Line:
    ours = laps[_name(engine)]
    passes, scipy = ours.over(laps["pass"]).wall, laps["scipy"].over(ours).wall
    numpy = laps["numpy"].over(ours).wall if "numpy" in laps else None
    met = case.wanted.met(passes=passes, scipy=scipy, numpy=numpy)
    return Line(
        method=case.method,
        costs=case.costs,
        agents=case.agents,
        dim=case.dim,
        engine=engine.name,
        iterations=counts[_name(engine)],
        chosen=engine.name == chosen,
        microseconds=ours.wall,
        pass_microseconds=laps["pass"].wall,
        scipy_microseconds=laps["scipy"].wall,
        numpy_microseconds=laps["numpy"].wall if "numpy" in laps else None,
        passes=passes,
        faster_than_scipy=scipy,
        faster_than_numpy=numpy,
        wanted=str(case.wanted),
        met=met if engine.name == chosen else None,
    )
