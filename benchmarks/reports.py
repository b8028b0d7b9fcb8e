"""Measure how long the report of a study takes: fifty parties, three questions.

    python benchmarks/reports.py [PARTIES]

Everybody's receipts are verified, every answer is worked out again from its sums, and
figures are drawn. The condition is 5 seconds, and 500 kB, for fifty parties. The study
is made in this process beforehand, and is not counted; the first report loads what
draws figures.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from clocks import machine, sized

# What a run leaves, made without a network, is a helper of the tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from finished import finished

ROWS, REPEATS = 60, sized(3, 2)
COLUMNS = {
    "age": {"kind": "number", "minimum": 18, "maximum": 100, "unit": 1},
    "dose": {"kind": "number", "minimum": 0, "maximum": 50, "unit": 0.1},
    "score": {"kind": "number", "minimum": 0, "maximum": 100, "unit": 1},
    "ill": {"kind": "integer", "minimum": 0, "maximum": 1},
}
QUESTIONS = [
    {"name": "who", "statistics": {"by": "ill"}},
    {"name": "score", "model": {"formula": "score ~ age + dose"}},
    {"name": "ill", "model": {"formula": "ill ~ age + dose", "family": "logistic"}},
][: sized(3, 2)]


def study(folder: Path, parties: int) -> dict[str, object]:
    """Write everybody's table, and return the plan."""
    rng = np.random.default_rng(0)
    files = {f"ward-{k + 1}": f"ward-{k + 1}.csv" for k in range(parties)}
    for name in files.values():
        age = rng.integers(20, 90, ROWS)
        dose = rng.integers(0, 400, ROWS) / 10
        score = np.clip(20 + age // 3 + dose / 2 + rng.normal(0, 9, ROWS), 0, 100)
        ill = rng.random(ROWS) < 1 / (1 + np.exp(2 - age / 40))
        columns = {"age": age, "dose": dose, "score": score.round(), "ill": ill * 1}
        pd.DataFrame(columns).to_csv(folder / name, index=False)
    return {
        "title": f"{parties} wards and three questions",
        "data": {"files": files},
        "schema": {"minimum_rows": 20, "maximum_rows": 100, "columns": COLUMNS},
        "question": QUESTIONS,
        "graph": {"family": f"regular:{parties}:{sized(8, 4)}"},
        "policy": {"tolerate": sized(3, 1)},
    }


def main(parties: int) -> None:
    from veilsum.report.run_report import report_of_run

    print(machine())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = finished(study(folder, parties), folder)
        receipts = [
            path for one in QUESTIONS for path in made.receipts(str(one["name"]))
        ]
        spent = []
        for _ in range(REPEATS):
            start = time.perf_counter(), time.process_time()
            found = report_of_run(made.out(), receipts=receipts)
            end = time.perf_counter(), time.process_time()
            spent.append(
                [after - before for before, after in zip(start, end, strict=True)]
            )
    assert found.good
    print(
        f"{parties} parties, {len(QUESTIONS)} questions, {len(receipts)} receipts: "
        f"first {spent[0][0]:.2f} s ({spent[0][1]:.2f} s of the processor), then "
        f"{min(spent[1:])[0]:.2f} s ({min(spent[1:])[1]:.2f} s), "
        f"{len(found.content) / 1000:.0f} kB"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else sized(50, 5))
