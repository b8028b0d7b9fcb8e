"""Time regressions with default settings beside lme4, coxph and statsmodels.

    python benchmarks/what_people_call_fits.py              # everything
    python benchmarks/what_people_call_fits.py cox ols      # some of it

Both sides fit the same rows in turn, after one call that is not counted. Seconds are
processor time of all threads (with `OPENBLAS_NUM_THREADS=1` threads of a product do not
wait for each other). R measures its own calls with `proc.time`: starting R and reading
the file are not counted. Memory is measured in a process of its own.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import veilsum as vs
from clocks import Action, machine, sized

# The call, our figure, the figure of the other side, and their ratio.
Measured = tuple[str, float, float | None, float | None]
Frames = dict[str, pd.DataFrame]

ROUNDS = sized(3, 1)
PARTIES = ("a", "b", "c", "d", "e")


def right_side(columns: int) -> str:
    return " + ".join(f"x{k}" for k in range(columns))


def seconds(action: Action) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def in_turn(name: str, ours: Action, theirs: Callable[[], float]) -> Measured:
    """Return medians of our seconds and of those that the other side reports."""
    ours(), theirs()
    pairs = [(seconds(ours), theirs()) for _ in range(ROUNDS)]
    mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    return name, mine, other, mine / other


def beside_r(
    name: str, ours: Action, frames: Frames, package: str, call: str
) -> Measured:
    """Return our seconds and those of a call in R, where R and the package are there.

    Args:
        name: the line's name.
        ours: our call.
        frames: the rows, which R gets as `d` with the party in the column `party`.
        package: the package of R.
        call: the expression in R.
    """
    program = which("Rscript")
    loads = [program or "", "-e", f"library({package})"]
    if not program or subprocess.run(loads, capture_output=True).returncode:
        ours()
        mine = statistics.median(seconds(ours) for _ in range(ROUNDS))
        return f"{name} (R with {package} is not installed here)", mine, None, None
    with TemporaryDirectory() as folder:
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

        return in_turn(name, ours, theirs)


def grouped_rows(groups: int, rows: int, columns: int = 3) -> Frames:
    stream, frames = np.random.default_rng(1), {}
    for group in range(groups):
        design = stream.normal(size=(rows, columns)).round(3)
        response = 1.0 + design @ np.arange(1, columns + 1) / columns
        response += 0.5 * stream.normal() + stream.normal(size=rows)
        frame = pd.DataFrame(design, columns=[f"x{k}" for k in range(columns)])
        frames[f"g{group:03d}"] = frame.assign(y=response.round(3))
    return frames


def mixed(groups: int) -> Measured:
    """A mixed model with a random intercept, beside lme4's lmer."""
    rows = sized(500, 60)
    frames = grouped_rows(groups, rows)
    return beside_r(
        f"mixed, {groups} groups x {rows}, beside lme4",
        lambda: vs.mixed(f"y ~ {right_side(3)}", frames),
        frames,
        "lme4",
        f"lmer(y ~ {right_side(3)} + (1 | party), d)",
    )


def mixed_20() -> Measured:
    """20 groups."""
    return mixed(20)


def mixed_160() -> Measured:
    """160 groups."""
    return mixed(sized(160, 17))


def cox() -> Measured:
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
    return beside_r(
        f"cox, 5 x {rows:,} x {columns}, beside coxph",
        lambda: vs.cox(f"Surv(time, event) ~ {right}", frames),
        frames,
        "survival",
        f"coxph(Surv(time, event) ~ {right} + strata(party), d)",
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


def beside_statsmodels(*, binary: bool) -> Measured:
    import statsmodels.formula.api as smf

    rows, columns = sized(20_000, 300), sized(10, 2)
    frames = regression_rows(rows, columns, binary=binary)
    whole, formula = pd.concat(frames.values()), f"y ~ {right_side(columns)}"
    family = "logistic" if binary else "gaussian"

    def fitted() -> object:
        model = smf.logit(formula, whole) if binary else smf.ols(formula, whole)
        found = model.fit(disp=0) if binary else model.fit()
        return found.bse, found.pvalues

    return in_turn(
        f"{family}, 5 x {rows:,} x {columns}, beside statsmodels",
        lambda: vs.fit(formula, frames, family=family),
        lambda: seconds(fitted),
    )


def ols() -> Measured:
    """Least squares, beside statsmodels' ols."""
    return beside_statsmodels(binary=False)


def logistic() -> Measured:
    """A logistic regression, beside statsmodels' logit."""
    return beside_statsmodels(binary=True)


def ols_memory() -> Measured:
    """Memory of least squares beside that of the rows, in MB.

    Ours is the peak of resident memory less that of the process before the call, which
    then holds the frames and has imported all that it needs.
    """
    done = subprocess.run(
        [sys.executable, __file__, "--memory", str(sized(200_000, 300))],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    found = json.loads(done.stdout)
    grown, data = found["peak"] - found["before"], found["data"]
    name = (
        f"memory, gaussian, 5 x {found['rows']:,} x {found['columns']} "
        f"(resident: {found['before']:.0f} MB before, {found['peak']:.0f} at its peak)"
    )
    return name, grown, data, grown / data


def resident() -> tuple[float, float]:
    """Return the resident memory and its peak so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    status = Path("/proc/self/status")
    if not status.exists():
        return peak, peak
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    now, top = (int(lines[key].split()[0]) * 1024 / 1e6 for key in ("VmRSS", "VmHWM"))
    return now, top


def print_memory(rows: int) -> None:
    """Print what one fit adds to the memory of this process."""
    columns = 20
    formula = f"y ~ {right_side(columns)}"
    # All that is imported or compiled on the way is there then: numba as well.
    from veilsum.numbers import compiled

    compiled.WORTH_LOADING = 0
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
    print(json.dumps(found | {"before": before, "peak": peak}))


CALLS = {
    call.__name__: call
    for call in (mixed_20, mixed_160, cox, ols, logistic, ols_memory)
}


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["--memory"]:
        print_memory(int(words[1]))
        return
    print(json.dumps(machine()))
    for word in words or CALLS:
        name, ours, theirs, ratio = CALLS[word]()
        told = "" if ratio is None else f" {theirs:.4g} {ratio:.3g}"
        print(f"{name}: {ours:.4g}{told}", flush=True)


if __name__ == "__main__":
    main()
