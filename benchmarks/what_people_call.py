"""Time the calls that people make, with default settings, beside their own code.

    python benchmarks/what_people_call.py                # everything (minutes)
    python benchmarks/what_people_call.py sums cox       # some of it
    python benchmarks/what_people_call.py --json         # one line of JSON each

Both sides run in turn after one call that is not counted. The table gives medians of
processor time, summed over threads and started programs: a busy machine changes it
little. The load is printed beside it. R measures its own calls: starting R and reading
the file are not counted. Where R or a package of it is missing, the line says so.
Commands run with bytecode that an earlier run wrote, as an installation has it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import which

import numpy as np
import pandas as pd
import tomli_w

import veilsum as vs
from clocks import Action, machine, sized
from network import adopt_orphans, children

EXAMPLES = Path(__file__).parents[1] / "examples"
PARTIES = ("a", "b", "c", "d", "e")
LONG = sized(100_000, 100)
MIDDLE = sized(20_000, 300)
REPEATS = sized(3, 1)
COSTS, DIM, ITERATIONS = sized((100, 50, 10_000), (5, 3, 20))
MANY, DEGREE = sized((50, 6), (4, 3))

Frames = dict[str, pd.DataFrame]


@dataclass(frozen=True)
class Line:
    """One measurement beside its goal.

    Attributes:
        call: the call, with its size.
        ours: our figure in `unit`, or None where it could not be measured.
        theirs: the figure of the other side, if there is one.
        unit: "s" (processor time), "s wall" or "MB".
        goal: largest `ours`, or largest ratio where there is another side.
        note: the other side in words, or the reason why nothing was measured.
    """

    call: str
    ours: float | None
    theirs: float | None
    unit: str
    goal: float
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """`ours / theirs`, if there is another side."""
        if self.ours is None or self.theirs is None:
            return None
        return self.ours / self.theirs

    @property
    def holds(self) -> bool | None:
        """Whether the goal was reached, or None if nothing was measured."""
        figure = self.ours if self.theirs is None else self.ratio
        return None if figure is None else figure <= self.goal

    def to_row(self) -> str:
        """Return the row of the table."""
        ours, theirs, ratio = (
            "" if figure is None else f"{figure:.3g}"
            for figure in (self.ours, self.theirs, self.ratio)
        )
        verdict = {None: "not measured", True: "yes", False: "no"}[self.holds]
        goal = (
            f"{self.goal:g} x"
            if self.theirs is not None
            else f"{self.goal:g} {self.unit}"
        )
        return (
            f"| {self.call} | {ours} {self.unit} | {theirs} | {ratio} | {goal} "
            f"| {verdict} | {self.note} |"
        )


HEADING = """| Call | Ours | Other | Ratio | Goal | Reached | Other side |
|---|---|---|---|---|---|---|"""


def processor_seconds(action: Action) -> float:
    """Return the processor time of an action, with that of programs it started."""

    def so_far() -> float:
        both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(
            usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, both)
        )

    before = so_far()
    action()
    return so_far() - before


def seconds(action: Action) -> float:
    """Return the processor time of an action in this process."""
    start = time.process_time()
    action()
    return time.process_time() - start


def warm_up(action: Action) -> None:
    """Call once without counting, unless sizes mean nothing."""
    if not sized(usual=False, smoke=True):
        action()


def in_turn(
    call: str, ours: Action, theirs: Callable[[], float], goal: float, note: str
) -> Line:
    """Return medians of our seconds and of those that the other side reports."""
    warm_up(ours)
    warm_up(theirs)
    pairs = [(seconds(ours), theirs()) for _ in range(REPEATS)]
    mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    return Line(call, mine, other, "s", goal, note)


def alone(call: str, action: Action, goal: float, note: str = "") -> Line:
    """Return the median of our seconds, where nobody else does the same."""
    warm_up(action)
    taken = statistics.median(seconds(action) for _ in range(REPEATS))
    return Line(call, taken, None, "s", goal, note)


# Sums, tables, curves


def whole_numbers(parties: int, size: int) -> dict[str, np.ndarray]:
    stream = np.random.default_rng(37)
    return {f"p{k}": stream.integers(0, 1_000, size) for k in range(parties)}


def sums() -> Iterator[Line]:
    """Sums of whole numbers: long ones, one over machines, ones of many parties."""
    long, few = whole_numbers(10, LONG), whole_numbers(5, LONG)
    yield alone(f"vs.sum of 10 x {LONG:,} integers", lambda: vs.sum(long), 1.0)
    yield alone(
        f"the same over machines, 5 x {LONG:,}",
        lambda: vs.sum(few, driver="loopback"),
        0.22,
        "0.22 s is Flower's SecAgg+: seeded masks, rounded values",
    )
    twenty = {f"p{k}": 10 + k for k in range(20)}
    yield alone("one vs.sum of 20 parties", lambda: vs.sum(twenty), 0.25)
    many = whole_numbers(MANY, 10)
    graph = f"regular:{MANY}:{DEGREE}:seed=0"
    yield alone(
        f"one vs.sum over {MANY} machines",
        lambda: vs.sum(many, driver="loopback", topology=graph),
        2.0,
    )


def patients(rows: int) -> Frames:
    """Return tables with numbers, categories, an end and an event."""
    stream, frames = np.random.default_rng(4), {}
    for party in PARTIES:
        ends = stream.exponential(900, rows), stream.uniform(100, 2_000, rows)
        frames[party] = pd.DataFrame(
            {
                "arm": stream.choice(["old", "new"], rows),
                "sex": stream.choice(["f", "m"], rows),
                "stage": stream.choice(["i", "ii", "iii"], rows),
                **{f"x{k}": stream.normal(50, 9, rows).round(1) for k in range(6)},
                "time": np.ceil(np.minimum(*ends)).astype(int),
                "event": (ends[0] <= ends[1]).astype(int),
            }
        )
    return frames


def table_one() -> Iterator[Line]:
    """Means, counts and tests by group, beside the same with pandas and scipy."""
    from scipy import stats

    frames = patients(MIDDLE)
    numbers, levels = [f"x{k}" for k in range(6)], ["sex", "stage"]
    used = {party: one[["arm", *levels, *numbers]] for party, one in frames.items()}

    def pooled() -> object:
        whole = pd.concat(used.values())
        groups = whole.groupby("arm")
        told = [groups[numbers].agg(["count", "mean", "std"])]
        parts = [part for _, part in groups]
        for name in numbers:
            told.append(stats.ttest_ind(*(part[name] for part in parts)))
        for name in levels:
            counts = pd.crosstab(whole[name], whole["arm"])
            told.append(stats.chi2_contingency(counts))
        return told

    yield in_turn(
        f"Table 1, 5 x {MIDDLE:,}",
        lambda: vs.statistics(used, by="arm").summary(),
        lambda: seconds(pooled),
        3.0,
        "pandas groups and crosstabs, scipy tests",
    )


def kaplan_meier() -> Iterator[Line]:
    """Curves of two groups, beside numpy's counts of pooled rows."""
    frames = patients(MIDDLE)
    used = {party: one[["arm", "time", "event"]] for party, one in frames.items()}
    times = list(range(90, sized(1_900, 300), 90))

    def pooled() -> object:
        whole = pd.concat(used.values())
        curves = []
        for _, part in whole.groupby("arm"):
            end, event = part["time"].to_numpy(), part["event"].to_numpy()
            ends, place = np.unique(end, return_inverse=True)
            left, died = np.bincount(place), np.bincount(place, weights=event)
            risk = left[::-1].cumsum()[::-1]
            survival = np.cumprod(1 - died / risk)
            variance = survival**2 * np.cumsum(
                died / (risk * np.maximum(risk - died, 1))
            )
            found = np.searchsorted(ends, times, side="right") - 1
            curves.append((survival[found], variance[found]))
        return curves

    yield in_turn(
        f"Kaplan-Meier, 5 x {MIDDLE:,}",
        lambda: vs.survival("Surv(time, event) ~ C(arm)", used, times=times),
        lambda: seconds(pooled),
        2.0,
        "numpy counts of pooled rows",
    )


# Regressions


def right_side(columns: int) -> str:
    return " + ".join(f"x{k}" for k in range(columns))


def beside_r(
    name: str, ours: Action, frames: Frames, package: str, call: str, goal: float
) -> Line:
    """Return our seconds and those of a call in R, where R and the package are there.

    Args:
        name: the line's name.
        ours: our call.
        frames: the rows, which R gets as `d` with the party in the column `party`.
        package: the package of R.
        call: the expression in R.
        goal: the largest ratio.
    """
    program = sized(which("Rscript"), None)
    loads = [program or "", "-e", f"library({package})"]
    if not program or subprocess.run(loads, capture_output=True).returncode:
        ours()
        note = f"not compared: no R with {package}, or --smoke"
        return Line(name, None, None, "s", goal, note)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        parts = (part.assign(party=party) for party, part in frames.items())
        pd.concat(parts).to_csv(path, index=False)
        script = (
            f"suppressMessages(library({package})); d <- read.csv('{path}'); "
            f"invisible({call}); gc(); s <- proc.time(); invisible({call}); "
            "s <- proc.time() - s; cat('\\n', s[['user.self']] + s[['sys.self']])"
        )

        def theirs() -> float:
            done = subprocess.run(
                [program, "-e", script], capture_output=True, text=True, check=True
            )
            return float(done.stdout.split()[-1])

        return in_turn(name, ours, theirs, goal, f"R's {call.partition('(')[0]}")


def grouped_rows(groups: int, rows: int, columns: int = 3) -> Frames:
    stream, frames = np.random.default_rng(1), {}
    for group in range(groups):
        design = stream.normal(size=(rows, columns)).round(3)
        response = 1.0 + design @ np.arange(1, columns + 1) / columns
        response += 0.5 * stream.normal() + stream.normal(size=rows)
        frame = pd.DataFrame(design, columns=[f"x{k}" for k in range(columns)])
        frames[f"g{group:03d}"] = frame.assign(y=response.round(3))
    return frames


def mixed() -> Iterator[Line]:
    """Mixed models with a random intercept, of 20 groups and of 160."""
    rows = sized(500, 60)
    for groups, goal in ((20, 4.0), (sized(160, 17), 10.0)):
        frames = grouped_rows(groups, rows)
        yield beside_r(
            f"mixed, {groups} groups x {rows}",
            lambda frames=frames: vs.mixed(f"y ~ {right_side(3)}", frames),
            frames,
            "lme4",
            f"lmer(y ~ {right_side(3)} + (1 | party), d)",
            goal,
        )


def cox() -> Iterator[Line]:
    """A Cox regression with a baseline for each party, beside R's coxph."""
    rows, columns = sized(50_000, 300), sized(10, 2)
    stream, frames = np.random.default_rng(2), {}
    for party in PARTIES:
        design = stream.normal(size=(rows, columns)).round(2)
        scale = 1_000 * np.exp(-design @ np.linspace(-0.3, 0.3, columns))
        event, end = stream.exponential(scale), stream.uniform(0, 2_000, rows)
        frame = pd.DataFrame(design, columns=[f"x{k}" for k in range(columns)])
        frame["time"] = np.ceil(np.minimum(event, end)).astype(int)
        frames[party] = frame.assign(event=(event <= end).astype(int))
    right = right_side(columns)
    yield beside_r(
        f"cox, 5 x {rows:,} x {columns}",
        lambda: vs.cox(f"Surv(time, event) ~ {right}", frames),
        frames,
        "survival",
        f"coxph(Surv(time, event) ~ {right} + strata(party), d)",
        1.0,
    )


def regression_rows(rows: int, columns: int, *, binary: bool) -> Frames:
    stream, frames = np.random.default_rng(3), {}
    for party in PARTIES:
        design = stream.normal(size=(rows, columns))
        predictor = 0.2 + design @ np.linspace(-0.5, 0.5, columns)
        response = predictor + stream.normal(size=rows)
        if binary:
            chance = 1.0 / (1.0 + np.exp(-predictor))
            response = (stream.random(rows) < chance).astype(int)
        frame = pd.DataFrame(design, columns=[f"x{k}" for k in range(columns)])
        frames[party] = frame.assign(y=response)
    return frames


def least_squares() -> Iterator[Line]:
    """Least squares and logistic regressions beside statsmodels; memory."""
    import statsmodels.formula.api as smf

    columns = sized(10, 2)
    formula = f"y ~ {right_side(columns)}"
    for family, make in (("gaussian", smf.ols), ("logistic", smf.logit)):
        frames = regression_rows(MIDDLE, columns, binary=family == "logistic")
        whole = pd.concat(frames.values())

        def fitted(make=make, whole=whole) -> object:
            found = make(formula, whole).fit(disp=0)
            return found.bse, found.pvalues

        yield in_turn(
            f"{family}, 5 x {MIDDLE:,} x {columns}",
            lambda frames=frames, family=family: vs.fit(formula, frames, family=family),
            lambda fitted=fitted: seconds(fitted),
            3.0,
            "statsmodels, with errors and p-values",
        )
    found = child("memory")
    yield Line(
        f"memory, gaussian, 5 x {found['rows']:,.0f} x {found['columns']:.0f}",
        found["peak"] - found["before"],
        found["data"],
        "MB",
        2.0,
        f"the rows; resident {found['before']:.0f} MB before, {found['peak']:.0f} "
        "at the peak",
    )


def resident() -> tuple[float, float]:
    """Return the resident memory and its peak so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    status = Path("/proc/self/status")
    if not status.exists():
        return peak, peak
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    now, top = (int(lines[key].split()[0]) * 1024 / 1e6 for key in ("VmRSS", "VmHWM"))
    return now, top


def fit_in_memory() -> dict[str, float]:
    """Return the memory of this process before a fit and at its peak, in MB."""
    rows, columns = sized(200_000, 300), 20
    formula = f"y ~ {right_side(columns)}"
    # All that is imported or compiled on the way is there then: numba as well.
    from veilsum.numbers import compiled

    compiled.WORTH_LOADING = sized(0, compiled.WORTH_LOADING)
    vs.fit(formula, regression_rows(300, columns, binary=False))
    frames = regression_rows(rows, columns, binary=False)
    forget = Path("/proc/self/clear_refs")
    if forget.exists():
        forget.write_text("5")  # the peak so far
    before, _ = resident()
    vs.fit(formula, frames)
    _, peak = resident()
    data = sum(frame.to_numpy().nbytes for frame in frames.values()) / 1e6
    found = {"rows": rows, "columns": columns, "data": data}
    return found | {"before": before, "peak": peak}


# Costs


def solve() -> Iterator[Line]:
    """Quadratic costs: from one sum, and by iterations beside a loop without masks."""
    found = child("program")
    name = f"quadratic_program, {COSTS} parties x dim {DIM}"
    note = "the first call of a process, with its imports"
    yield Line(name, found["seconds"], None, "s", 5.0, note)
    yield Line(name, found["megabytes"], None, "MB", 500.0, "peak of that process")
    found = child("iterations")
    name = f"solve of {COSTS} quadratics, dim {DIM}"
    note = f"a numpy loop of {ITERATIONS:,} iterations"
    yield Line(name, found["later calls"], found["loop"], "s", 1.5, note)


def quadratics() -> tuple[np.ndarray, np.ndarray]:
    stream, n, m = np.random.default_rng(0), COSTS, DIM
    factors = stream.standard_normal((n, m, m)) / np.sqrt(m)
    squares = factors @ factors.swapaxes(1, 2) + np.eye(m)
    return squares, stream.standard_normal((n, m))


def minimise_program() -> dict[str, float]:
    """Return time and peak memory of a quadratic program, imports included."""
    pairs = zip(*quadratics(), strict=True)
    costs = {f"party-{k}": pair for k, pair in enumerate(pairs)}
    taken = seconds(lambda: vs.quadratic_program(costs))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": taken, "megabytes": peak / 1024}


def iterate() -> dict[str, float]:
    """Return medians of `solve`, and of the loop that somebody would write herself."""
    squares, vectors = quadratics()
    graph = vs.Topology.family(f"complete:{COSTS}")
    box, settings = (
        vs.minimise.Box(-10, 10, dim=DIM),
        vs.minimise.Settings(iterations=ITERATIONS),
    )
    costs = [
        vs.minimise.Cost.quadratic(*one) for one in zip(squares, vectors, strict=True)
    ]
    weights = np.full((COSTS, COSTS), 1 / COSTS)

    def private() -> object:
        return vs.solve(
            costs,
            topology=graph,
            corrupted=(),
            domain=box,
            sigma=1.0,
            settings=settings,
        )

    def loop() -> object:
        x = np.zeros((COSTS, DIM))
        for k in range(ITERATIONS):
            mixed = weights @ x
            slope = (squares @ mixed[:, :, None])[:, :, 0] + vectors
            x = np.clip(mixed - slope / (k + 1), -10, 10)
        return x

    actions = {"later calls": private, "loop": loop}
    private()
    laps = [{k: seconds(one) for k, one in actions.items()} for _ in range(REPEATS)]
    return {k: statistics.median(lap[k] for lap in laps) for k in actions}


# Programs


def child(what: str) -> dict[str, float]:
    """Return the answer of one of `CHILDREN`, computed in a process of its own.

    With `--smoke` in this one: its memory means nothing then.
    """
    if sized(usual=False, smoke=True):
        return CHILDREN[what]()
    words = [sys.executable, __file__, "--child", what]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def command_seconds(words: Sequence[str]) -> float:
    """Return the median of a command's processor time, its bytecode being there."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        program = [sys.executable, *words]

        def run() -> None:
            subprocess.run(
                program, check=True, capture_output=True, env=sized(env, None)
            )

        warm_up(run)
        return statistics.median(processor_seconds(run) for _ in range(REPEATS))


def commands() -> Iterator[Line]:
    """Commands and a script, from the start of the process."""
    small = f"import veilsum as vs; vs.sum({ {name: [1, 2] for name in 'abcd'}!r})"
    fit = ["-m", "veilsum", "fit", str(EXAMPLES / "diabetes.toml")]
    for call, words, goal in (
        ("veilsum fit examples/diabetes.toml", fit, 1.5),
        ("veilsum --help", ["-m", "veilsum", "--help"], 0.15),
        ("import veilsum", ["-c", "import veilsum"], 0.1),
        ("import veilsum; vs.sum of 4 x 2", ["-c", small], 1.0),
    ):
        yield Line(call, command_seconds(words), None, "s", goal)
    call = "veilsum stats examples/wages.toml, 130 parties"
    taken, shown = on_a_terminal(["stats", str(EXAMPLES / "wages.toml")])
    yield Line(call, taken, None, "s", 5.0)
    yield Line(call, shown, None, "s wall", 2.0, "until its first word on a terminal")


def on_a_terminal(words: Sequence[str]) -> tuple[float, float]:
    """Return a command's processor time, and the wall time until its first word."""
    import pty

    program = [sys.executable, "-m", "veilsum", *words]
    began = time.perf_counter()
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        program, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    os.read(screen, 1)
    shown = time.perf_counter() - began
    with suppress(OSError):  # Linux reports the end of the other side so
        while os.read(screen, 4096):
            pass
    os.close(screen)
    _, process.returncode, used = os.wait4(process.pid, 0)
    assert process.returncode == 0, "the command failed"
    return used.ru_utime + used.ru_stime, shown


def regression(place: Path) -> Path:
    """Return a scenario: a regression of many parties, each with a few rows."""
    stream, lines = np.random.default_rng(0), ["party,y,x,z"]
    for party in range(MANY):
        for x, z, noise in stream.normal(size=(40, 3)):
            lines.append(f"p{party:02d},{x + z / 2 + noise:.2f},{x:.2f},{z:.2f}")
    (place / "rows.csv").write_text("\n".join(lines) + "\n")
    number = {"kind": "number", "minimum": -20, "maximum": 20, "unit": 0.01}
    table = {
        "title": f"{MANY} parties",
        "graph": {"family": f"regular:{MANY}:{DEGREE}:seed=0"},
        "data": {"file": "rows.csv", "party": "party"},
        "model": {"formula": "y ~ x + z"},
        "schema": {"columns": dict.fromkeys("yxz", number)},
        "policy": {"tolerate": 1},
    }
    scenario = place / "scenario.toml"
    scenario.write_text(tomli_w.dumps(table))
    return scenario


def network() -> Iterator[Line]:
    """Fifty parties on a network, one regression: wall time, on two idle cores."""
    adopt_orphans()
    earlier = children()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "veilsum", "up", str(regression(Path(place)))]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        wall = time.perf_counter() - start
    for child in children() - earlier:  # what started the parties ends after it
        os.waitpid(child, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    name = f"{MANY} parties on a network, one regression"
    yield Line(name, wall, None, "s wall", 8.0, f"{used:.1f} s of processor time")


CHILDREN: dict[str, Callable[[], dict[str, float]]] = {
    "memory": fit_in_memory,
    "program": minimise_program,
    "iterations": iterate,
}
CALLS: dict[str, Callable[[], Iterator[Line]]] = {
    call.__name__: call
    for call in (
        *(sums, table_one, kaplan_meier, mixed, cox, least_squares, solve),
        *(commands, network),
    )
}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*CALLS, []], metavar="NAME")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="one line of JSON each")
    given = parser.parse_args(words)
    if given.child:
        print(json.dumps(CHILDREN[given.child]()))
        return
    facts = machine()
    if not given.json:
        print(
            f"{facts['date']}, {facts['cores']} cores ({facts['architecture']}), "
            f"Python {facts['python']}, load {facts['load']}\n\n{HEADING}"
        )
    for name in given.names or CALLS:
        for line in CALLS[name]():
            if given.json:
                document = asdict(line) | {
                    "ratio": line.ratio,
                    "load": os.getloadavg()[0],
                }
                print(json.dumps(document), flush=True)
            else:
                print(line.to_row(), flush=True)


if __name__ == "__main__":
    main()
