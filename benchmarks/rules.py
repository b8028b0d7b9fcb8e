"""Measure what a party's own rules cost beside the X'X of its table.

    python benchmarks/rules.py                       # 1,000,000 rows, 50 columns
    python benchmarks/rules.py --rows 100000

The condition is a ratio: at most 4 times numpy's X'X, taken in turn in one process. The
load says how many others wanted the cores; where it is high, set OPENBLAS_NUM_THREADS=1
and look at the processor time.
"""

from __future__ import annotations

import argparse
import json
import os

import numpy as np

from clocks import clocked, in_turn, sized
from veilsum.models.rows import Rows
from veilsum.tables.rules import Rules, TableRulesAtHome


def main() -> None:
    """Print seconds and their ratios, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=sized(1_000_000, 200))
    parser.add_argument("--columns", type=int, default=sized(50, 4))
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    draw = np.random.default_rng(0)
    design = draw.normal(size=(chosen.rows, chosen.columns))
    design[:, 0] = 1.0
    design[:, 1] = draw.random(chosen.rows) < 0.1
    rows = Rows.of(design, draw.normal(size=chosen.rows))
    names = tuple(f"x{k}" for k in range(chosen.columns))
    home = TableRulesAtHome("a", Rules())

    def keep() -> None:
        home.column("y", rows.response)
        home.design(rows, names, intercept=0)

    keep()  # a warm start
    laps = in_turn(
        {
            "rules": lambda: clocked(keep),
            "X'X": lambda: clocked(lambda: design.T @ design),
        },
        repeats=chosen.repeats,
    )
    over = laps["rules"].over(laps["X'X"])
    found = {
        "rules_s": laps["rules"].wall,
        "gram_s": laps["X'X"].wall,
        "ratio": over.wall,
        "ratio of processor time": over.processor,
        "condition": "at most 4",
        "load": os.getloadavg()[0],
    }
    print(json.dumps({"rules of a party's table": found}))


if __name__ == "__main__":
    main()
