"""Measure jobs against what they would cost in the clear, and against another tool.

    python benchmarks/jobs.py                        # everything (about ten minutes)
    python benchmarks/jobs.py ols logistic           # some of it
    python benchmarks/jobs.py --rows 100000 ols      # smaller
    python benchmarks/jobs.py --table sums           # and a table in Markdown
    python benchmarks/jobs.py --profile sums         # where our own time goes

The conditions are ratios: exact sums of least squares at most 5 times numpy's X'X, and
2 times where columns fit 20 bits, a logistic regression at most 5 times a plain IRLS
to the same tolerance, Kaplan-Meier curves at most 3 times a histogram of all times, a
Cox regression stratified by party (5 x 200,000 rows) at most 6 times plain numpy with
reversed cumulative sums, a sum at least 3 times as fast as MPyC's. All our parties run
in one process, with machines, codec and signatures. The load says how many others
wanted the cores. Where it is high, threads of a product wait for each other for long,
on both sides but by chance: then set OPENBLAS_NUM_THREADS=1 and look at the processor
time.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import math
import os
import pstats
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from clocks import Action, clock, machine, sized
from veilsum.drivers.driver import DriverAssignment
from veilsum.drivers.loopback import Loopback
from veilsum.models.least_squares import statistics as exact_sums
from veilsum.models.newton import SMALL
from veilsum.models.rows import RowMeasures, Rows
from veilsum.numbers.layout import NumberLayout, layout_array
from veilsum.numbers.units import UnitMeasure
from veilsum.questions.cox import cox as stratified
from veilsum.questions.regression import fit_arrays
from veilsum.questions.regression.result import FitResult
from veilsum.questions.sums import OneSum, sum as private_sum
from veilsum.questions.survival import survival
from veilsum.sums.recipes import SumContribution, SumPartyWork, Sums
from veilsum.sums.terms import SumTerms
from veilsum.tables.formula import ModelFormula
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Column, Schema

PARTIES = ("a", "b", "c", "d", "e")
COLUMNS = sized(50, 4)
SIZES = sized((1_000, 100_000), (10,))
CONSORTIA = sized((3, 5, 8, 12), (3,))

Tables = dict[str, tuple[np.ndarray, np.ndarray]]


Seconds = dict[str, float]  # "wall", and "processor" of all threads and processes
Pair = tuple[Seconds, Seconds]  # ours, theirs


@dataclass(frozen=True)
class Line:
    """One measurement: seconds of both sides, their ratio, and what it must be.

    Attributes:
        what: was measured.
        ours_s: our seconds, a median.
        other_s: those of the other side.
        ratio: ours over theirs, or theirs over ours where the condition is a speed-up.
        condition: on the ratio; empty for what is only reported.
        more: what else came out.
    """

    what: str
    ours_s: float
    other_s: float
    ratio: float
    condition: str
    more: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        what: str,
        pairs: list[Pair],
        condition: str = "",
        *,
        faster: bool = False,
        more: dict[str, object] | None = None,
    ) -> Line:
        """Return the medians; the ratios are medians of the pairs' ratios."""

        def ratio(kind: str) -> float:
            found = statistics.median(a[kind] / b[kind] for a, b in pairs)
            return 1.0 / found if faster else found

        return cls(
            what,
            statistics.median(a["wall"] for a, _ in pairs),
            statistics.median(b["wall"] for _, b in pairs),
            ratio("wall"),
            condition,
            {"ratio of processor time": ratio("processor"), **(more or {})},
        )

    def to_json(self) -> str:
        """Return the line that is printed."""
        plain = asdict(self) | {"load": os.getloadavg()[0]}
        flat = {**plain.pop("more"), **plain}
        name = flat.pop("what")
        return json.dumps({name: {key: rounded(flat[key]) for key in flat}})

    def to_row(self) -> str:
        """Return the row of a table."""
        more = ", ".join(f"{key} {rounded(value)}" for key, value in self.more.items())
        numbers = f"{self.ours_s:.4g} | {self.other_s:.4g} | {self.ratio:.3g}"
        return f"| {self.what} | {numbers} | {self.condition} | {more} |"


def timed(action: Action) -> Seconds:
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return {
        "wall": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
    }


def side_by_side(ours: Action, floor: Action, repeats: int) -> list[Pair]:
    """Return what both took in turn."""
    return [(timed(ours), timed(floor)) for _ in range(sized(repeats, 1))]


HEADING = """| measurement | ours, s | other, s | ratio | condition | more |
|---|---|---|---|---|---|"""


def rounded(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value


@lru_cache(1)
def designs(n_rows: int) -> dict[str, np.ndarray]:
    """Return each party's columns, of which the first is all ones."""
    stream = np.random.default_rng(0)
    made = {party: stream.standard_normal((n_rows, COLUMNS)) for party in PARTIES}
    for design in made.values():
        design[:, 0] = 1.0
    return made


def coefficients() -> np.ndarray:
    return np.random.default_rng(1).standard_normal(COLUMNS) / 10.0


def ours(data: Tables, family: str, measures: RowMeasures | None = None) -> FitResult:
    n_rows = len(data["a"][1])
    # The parties agreed that each has that many, so that so many sums may be shown.
    # What rules at home cost is measured by itself, in rules.py.
    return fit_arrays(
        data,
        family=family,
        intercept=0,
        measures=measures,
        rules=Rules.none(minimum_rows=n_rows, release_fraction=0.5),
    )


def ols(n_rows: int) -> Iterator[Line]:
    """Exact sums of least squares against X'X in float64, and the whole fit.

    Of columns with 40 bits (at most 5), and of whole numbers below 2^20 (at most 2).
    """
    stream, slopes = np.random.default_rng(2), coefficients()
    size = f"{len(PARTIES)} x {n_rows:,} rows, {COLUMNS} columns"
    reals = UnitMeasure.of(-8, 8)
    for bits, unit, condition in (
        (40, reals, "at most 5"),
        (20, UnitMeasure(Fraction(1), -(2**20), 2**20), "at most 2"),
    ):
        data = {}
        for party, design in designs(n_rows).items():
            if bits == 20:
                np.rint(design * 2.0**17, out=design)
                design[:, 0] = 1.0
            response = design @ slopes / (1.0 if bits == 40 else 2.0**17)
            data[party] = design, response + stream.standard_normal(n_rows)
        measures = RowMeasures.of([unit] * COLUMNS, reals, intercept=0)
        rows = [Rows(*part) for part in data.values()]

        def sums(rows: list[Rows] = rows, of: RowMeasures = measures) -> None:
            for part in rows:
                exact_sums(part, of)

        def plain(rows: list[Rows] = rows) -> None:
            for part in rows:
                part.design.T @ part.design

        sums()  # numba compiles once
        yield Line.of(
            f"ols, exact sums of {bits} bits, {size}",
            side_by_side(sums, plain, repeats=5),
            condition,
        )
        found = ours(data, "gaussian", measures).fit
        yield Line.of(
            f"ols, the fit of {bits} bits, {size}",
            side_by_side(
                lambda d=data, m=measures: ours(d, "gaussian", m).fit,  # type: ignore[misc]
                plain,
                repeats=3,
            ),
            more={"rounding": found.rounding},
        )
    designs.cache_clear()


def schema(n_rows: int) -> Iterator[Line]:
    """The check of one party's table, beside one pass over it in numpy."""
    import pandas as pd

    names = [f"x{k}" for k in range(COLUMNS)]
    design = designs(n_rows)["a"]
    frame = pd.DataFrame({name: design[:, k] for k, name in enumerate(names)})
    agreed = Schema(
        tuple(Column(name, "number", minimum=-100.0, maximum=100.0) for name in names)
    )
    yield Line.of(
        f"schema check of one party, {n_rows:,} rows, {COLUMNS} columns with a range",
        side_by_side(
            lambda: agreed.check("a", frame),
            lambda: np.isfinite(design).all(),
            repeats=5,
        ),
    )


def formula(_: int) -> Iterator[Line]:
    """The check of a formula of 200 terms, beside formulaic's parser of its text."""
    import formulaic

    numbers = [Column(f"x{k}", "number", 1, 100, unit=1) for k in range(200)]
    coded = [Column(f"c{k}", "category", categories=tuple("abc")) for k in range(20)]
    agreed = Schema((Column("y", "number", 0, 9, unit=1), *numbers, *coded))
    each = range(200)
    written = {
        "columns": [f"x{k}" for k in each],
        "columns, a quarter times a category": [
            f"x{k}" if k % 4 else f"C(c{k // 4 % 20}):x{k}" for k in each
        ],
    }
    for what, terms in written.items():
        text = f"y ~ {' + '.join(terms)}"
        yield Line.of(
            f"check of a formula of 200 terms: {what}",
            side_by_side(
                partial(ModelFormula.of, text, agreed),
                partial(formulaic.Formula, text),
                repeats=9,
            ),
            condition="at most 0.05 s",
        )


def logistic(n_rows: int) -> Iterator[Line]:
    """A logistic regression under masks against a plain IRLS (at most 5)."""
    stream, slopes = np.random.default_rng(3), coefficients()
    data = {}
    for party, design in designs(n_rows).items():
        chance = 1.0 / (1.0 + np.exp(-(design @ slopes)))
        data[party] = (design, (stream.random(n_rows) < chance).astype(np.float64))
    fitted, (plain, iterations) = ours(data, "logistic"), irls(data)
    yield Line.of(
        f"logistic, {len(PARTIES)} x {n_rows:,} rows, {COLUMNS} columns",
        side_by_side(lambda: ours(data, "logistic").fit, lambda: irls(data), repeats=3),
        "at most 5",
        more={
            "our sums, the opening one included": len(fitted.released.sums),
            "IRLS iterations": iterations,
            "coefficients apart": float(np.abs(fitted.fit.coefficients - plain).max()),
        },
    )


def kaplan_meier(n_rows: int) -> Iterator[Line]:
    """Curves of two groups, usual rules, against np.histogram of all times (at most 3).

    Beside it four histograms, by group and event, which is what the curves need.
    """
    import pandas as pd

    apart = sized(30.0, 1825.0)
    stream, times = np.random.default_rng(4), np.arange(apart, 3651.0, apart)
    data = {
        party: pd.DataFrame(
            {
                "days": np.minimum(np.ceil(stream.exponential(900.0, n_rows)), 3650.0),
                "died": (stream.random(n_rows) < 0.7).astype(np.int64),
                "arm": pd.Categorical.from_codes(
                    stream.integers(0, 2, n_rows), ["a", "b"]
                ),
            }
        )
        for party in PARTIES
    }
    agreed = Schema(
        (
            Column("days", "integer", minimum=0, maximum=3650),
            Column("died", "integer", minimum=0, maximum=1),
            Column("arm", "category", categories=("a", "b")),
        ),
        minimum_rows=n_rows,
    )
    pooled = pd.concat(data.values())
    days, died = pooled["days"].to_numpy(), pooled["died"].to_numpy()
    cells = 2 * pooled["arm"].cat.codes.to_numpy() + died
    edges = np.append(0.0, times)

    def curves() -> object:
        formula = "Surv(days, died) ~ C(arm)"
        return survival(formula, data, times=times, schema=agreed).curves

    def four() -> None:
        for cell in range(4):
            np.histogram(days[cells == cell], edges)

    curves()
    size = f"{len(PARTIES)} x {n_rows:,} rows, {len(times)} times, 2 groups"
    for what, other, condition in (
        ("one histogram", partial(np.histogram, days, edges), "at most 3"),
        ("one for each group and event", four, ""),
    ):
        yield Line.of(
            f"Kaplan-Meier against {what}, {size}",
            side_by_side(curves, other, repeats=7),
            condition,
        )


def irls(data: Tables) -> tuple[np.ndarray, int]:
    """Return coefficients and iterations, no statistics beside them.

    It stops, as we do, after a step below 1e-9 standard errors.
    """
    tables = list(data.values())
    means = [(response + 0.5) / 2.0 for _, response in tables]
    places = [np.log(mean / (1.0 - mean)) for mean in means]
    here = np.full(COLUMNS, np.inf)
    scaled = np.empty_like(tables[0][0])  # new memory each time costs a quarter more
    for iteration in range(1, 50):
        gram, cross = np.zeros((COLUMNS, COLUMNS)), np.zeros(COLUMNS)
        for (design, response), mean, eta in zip(tables, means, places, strict=True):
            weights = mean * (1.0 - mean)
            np.multiply(design, np.sqrt(weights)[:, None], out=scaled)
            gram += scaled.T @ scaled
            cross += design.T @ (weights * eta + response - mean)
        before, here = here, np.linalg.solve(gram, cross)
        step = here - before
        if iteration > 1 and np.sqrt(step @ gram @ step) <= SMALL:
            return here, iteration
        places = [design @ here for design, _ in tables]
        means = [1.0 / (1.0 + np.exp(-eta)) for eta in places]
    raise RuntimeError("the plain IRLS did not converge")


COX_ROWS, COX_COLUMNS = sized((200_000, 20), (400, 3))


def cox(n_rows: int) -> Iterator[Line]:
    """A Cox regression stratified by party against plain numpy (at most 6).

    Rows are pooled there and sorted by party and time beforehand; as many rounds.
    """
    import pandas as pd

    n_rows, stream = min(n_rows, COX_ROWS), np.random.default_rng(4)
    names = [f"x{k}" for k in range(COX_COLUMNS)]
    slopes = stream.standard_normal(COX_COLUMNS) / 10.0
    frames = {}
    for party in PARTIES:
        design = stream.standard_normal((n_rows, COX_COLUMNS)).clip(-7.9, 7.9)
        time = stream.exponential(100.0, n_rows) / np.exp(design @ slopes)
        until = stream.uniform(0.0, 300.0, n_rows)
        frame = pd.DataFrame(dict(zip(names, design.T, strict=True)))
        # Ranks: rounding to a unit makes no ties of them, which numpy's side has not.
        frame["time"] = np.minimum(time, until).argsort().argsort()
        frame["event"] = (time <= until).astype(np.int64)
        frames[party] = frame
    columns = [Column(name, "number", -8, 8) for name in names]
    columns += [Column("time", "integer", 0, n_rows), Column("event", "integer", 0, 1)]
    agreed = Schema(tuple(columns), minimum_rows=n_rows)
    formula = f"Surv(time, event) ~ {' + '.join(names)}"

    def ours() -> object:
        rules = Rules.none(release_fraction=0.5)
        return stratified(formula, frames, schema=agreed, rules=rules)

    pooled = pd.concat([one.assign(party=name) for name, one in frames.items()])
    pooled = pooled.sort_values(["party", "time"], ascending=[True, False])
    design, event = pooled[names].to_numpy(), pooled["event"].to_numpy() == 1
    found = ours()
    rounds = found.fit.rounds
    plain = cumulative(design, event, n_rows, rounds)
    yield Line.of(
        f"cox, {len(PARTIES)} x {n_rows:,} rows, {COX_COLUMNS} columns",
        side_by_side(ours, lambda: cumulative(design, event, n_rows, rounds), 3),
        "at most 6",
        more={
            "rounds": rounds,
            "coefficients apart": float(np.abs(found.fit.coefficients - plain).max()),
        },
    )


def cumulative(
    design: np.ndarray, event: np.ndarray, n_rows: int, rounds: int
) -> np.ndarray:
    """Return coefficients of rows that are sorted, the last time of a party first.

    Without ties. Of information, what is squared is weighted by the hazard met so far:
    so there are no cumulative sums of products of columns, which would take ten times
    as long.
    """
    n_parties, p = len(design) // n_rows, design.shape[1]
    here = np.zeros(p)
    for _ in range(rounds):
        weights = np.exp(design @ here)
        at_risk = np.cumsum(weights.reshape(n_parties, n_rows), axis=1).ravel()
        scaled = design * weights[:, None]
        sums = np.cumsum(scaled.reshape(n_parties, n_rows, p), axis=1).reshape(-1, p)
        means = sums[event] / at_risk[event][:, None]
        steps = (event / at_risk).reshape(n_parties, n_rows)
        hazard = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1].ravel()
        score = design[event].sum(axis=0) - means.sum(axis=0)
        scaled *= hazard[:, None]
        information = design.T @ scaled - means.T @ means
        here = here + np.linalg.solve(information, score)
    return here


def sums(_: int) -> Iterator[Line]:
    """Sums of int64 under masks against MPyC's secure integers (3 times faster).

    As many parties may collude as MPyC's default threshold tolerates: (n - 1) // 2.
    """
    for size in SIZES:
        for n_parties in CONSORTIA:
            yield against_mpyc(n_parties, size)


def against_mpyc(n_parties: int, size: int) -> Line:
    """Compare sums of parties that have met, as MPyC's are timed.

    Beside it stands a whole job: terms, guarantee, meeting, one sum, signed results.
    """
    turns, repeats = (5, 7) if size <= 1_000 else (2, 1)
    turns, repeats = sized((turns, repeats), (1, 1))
    what = f"sum of {size:,} int64, {n_parties} parties"
    more: dict[str, object] = {"our whole job, s": our_job(n_parties, size, repeats)}
    if find_spec("mpyc") is None:
        ours = our_sums(n_parties, size, repeats)
        left_out = {"left out": "MPyC is not installed", **more}
        return Line(what, ours["wall"], math.nan, math.nan, "", left_out)
    pairs = [
        (our_sums(n_parties, size, repeats), their_sums(n_parties, size, repeats))
        for _ in range(turns)
    ]
    return Line.of(f"{what}, against MPyC", pairs, "at least 3", faster=True, more=more)


def vectors(n_parties: int, size: int) -> dict[str, np.ndarray]:
    return {
        str(party): np.random.default_rng(party).integers(-(2**57), 2**57, size)
        for party in range(n_parties)
    }


def options(n_parties: int) -> dict[str, int]:
    return {"tolerate": (n_parties - 1) // 2, "minimum_honest": 2}


@dataclass(frozen=True)
class ManySums(OneSum):
    """The same vector again and again, each time under fresh masks."""

    count: int = 1

    def request(self, sums: Sums) -> str | None:
        """Ask as often as was said."""
        return None if len(sums) == self.count else self.what


@dataclass(frozen=True, eq=False, repr=False)
class TimedWork(SumPartyWork):
    """A party that notes when it was asked for each vector, and for none."""

    times: dict[int, tuple[float, float]] = field(default_factory=dict)

    def vector(self, answers: Sums) -> np.ndarray | None:
        """Note the time, then answer."""
        now = (time.perf_counter(), time.process_time())
        self.times.setdefault(len(answers), now)
        return super().vector(answers)


def our_sums(n_parties: int, size: int, repeats: int) -> Seconds:
    """Return the medians of seconds and of processor seconds of one sum.

    Parties meet, then sum again and again; the first sum warms up. One has begun when
    the last party was asked for it, so that everybody holds the total of the former.
    """
    data = vectors(n_parties, size)
    layout = NumberLayout((layout_array("sum", size, bits=64),))
    terms = SumTerms.of(list(data), counts=layout.counts, options=options(n_parties))
    recipe = ManySums(layout, "a sum", count=repeats + 1)
    works = {
        party: TimedWork(recipe, SumContribution(lambda _, own=own: own, (own,)))
        for party, own in data.items()
    }
    plan = terms.plan(size=size, answer_size=size, terms={})
    task = DriverAssignment(plan=plan, works=works, foresee=lambda: terms.guarantee)
    found = Loopback().carry_out(task)
    expected = np.sum(list(data.values()), axis=0)
    assert all(np.array_equal(one, expected) for one in found.sums)
    asked = np.array([list(work.times.values()) for work in works.values()])
    wall, processor = np.diff(asked.max(axis=0), axis=0)[1:].T
    return {"wall": np.median(wall).item(), "processor": np.median(processor).item()}


def our_job(n_parties: int, size: int, repeats: int) -> float:
    """Return the seconds of `veilsum.sum`, a median; the first one warms up."""
    data, chosen = vectors(n_parties, size), options(n_parties)

    def job() -> object:
        return private_sum(data, driver="loopback", **chosen).guarantee

    return statistics.median([clock(job) for _ in range(repeats + 1)][1:])


def their_sums(n_parties: int, size: int, repeats: int) -> Seconds:
    """Return the same of MPyC: the slowest party, and all parties' processor time."""
    script = Path(__file__).with_name("mpyc_sum.py")
    words = [f"-M{n_parties}", "--no-log", "--size", size, "--repeats", repeats]
    run = subprocess.run(
        [sys.executable, str(script), *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(run.stdout.strip().splitlines()[-1])
    assert found["threshold"] == options(n_parties)["tolerate"]
    return {key: statistics.median(found[key]) for key in ("wall", "processor")}


BENCHMARKS: dict[str, Callable[[int], Iterator[Line]]] = {
    "ols": ols,
    "schema": schema,
    "formula": formula,
    "logistic": logistic,
    "kaplan-meier": kaplan_meier,
    "cox": cox,
    "sums": sums,
}


def profiled(names: list[str], n_rows: int) -> None:
    for name in names:
        with cProfile.Profile() as profile:
            list(BENCHMARKS[name](n_rows))
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def measured(names: list[str], n_rows: int) -> Iterator[Line]:
    print(json.dumps({"machine": machine()}))
    for name in names:
        for line in BENCHMARKS[name](n_rows):
            print(line.to_json(), flush=True)
            yield line


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}")
    words.add_argument(
        "--rows", type=int, default=sized(1_000_000, 400), help="of each party"
    )
    words.add_argument("--table", action="store_true")
    words.add_argument("--profile", action="store_true")
    given = words.parse_args()
    names = given.names or list(BENCHMARKS)
    if given.profile:
        profiled(names, given.rows)
        return
    lines = list(measured(names, given.rows))
    if given.table:
        print("\n".join([HEADING, *(line.to_row() for line in lines)]))


if __name__ == "__main__":
    main()
