"""Measure what a party's ledger costs: its span test, and fingerprints of rows.

    python benchmarks/ledger.py                      # 1,000,000 rows, 50 columns
    python benchmarks/ledger.py --rows 100000

The conditions: the span test of 10,000 releases over sets of 50 parties, with tolerate
= 2, takes less than a second; and fingerprints of a table take at most half of the time
that reading it from a CSV file takes, in turn in one process. The load says how many
others wanted the cores; where it is high, look at the processor time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from clocks import clocked, in_turn, sized
from veilsum.files.tables import read_table
from veilsum.privacy.accountant import Budget
from veilsum.privacy.spans import parties_given_away_by_sums
from veilsum.tables.fingerprints import TableFingerprints


def span_test(parties: int, releases: int, tolerate: int) -> dict[str, float]:
    """Return the seconds of one test that refuses nothing: groups come together."""
    names = [f"party-{k}" for k in range(parties)]
    draw = np.random.default_rng(0)
    few = Budget(tolerate=tolerate).few
    blocks = np.array_split(np.array(names), parties // (few + 1))
    sets = []
    for _ in range(releases):
        chosen = np.flatnonzero(draw.random(len(blocks)) < 0.7)
        sets.append(tuple(one for k in chosen for one in blocks[k].tolist()))
    found = [one for one in sets if one]
    parties_given_away_by_sums(dict.fromkeys(found), few)  # a warm start
    lap = clocked(lambda: parties_given_away_by_sums(dict.fromkeys(found), few))
    return {
        "different sets": len(set(found)),
        "wall_s": lap.wall,
        "processor_s": lap.processor,
    }


def fingerprints(rows: int, columns: int, repeats: int) -> dict[str, float]:
    """Return the seconds of fingerprints, of reading, and their ratio."""
    draw = np.random.default_rng(0)
    table = pd.DataFrame(
        {f"x{k}": draw.normal(size=rows).round(4) for k in range(columns)}
    )

    def keyed(part: bytes) -> bytes:
        return hashlib.sha256(b"key" + part).digest()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.csv"
        table.to_csv(path, index=False)
        laps = in_turn(
            {
                "fingerprints": lambda: clocked(
                    lambda: TableFingerprints(table, keyed).data
                ),
                "reading": lambda: clocked(lambda: read_table(path)),
            },
            repeats=repeats,
        )
    over = laps["fingerprints"].over(laps["reading"])
    return {
        "fingerprints_s": laps["fingerprints"].wall,
        "reading_s": laps["reading"].wall,
        "ratio": over.wall,
        "ratio of processor time": over.processor,
    }


def main() -> None:
    """Print seconds and their ratios, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=sized(1_000_000, 200))
    parser.add_argument("--columns", type=int, default=sized(50, 4))
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    span = span_test(50, 10_000, 2)
    prints = fingerprints(chosen.rows, chosen.columns, chosen.repeats)
    found = {
        "span test": {**span, "condition": "below 1 s"},
        "fingerprints of rows": {**prints, "condition": "at most 0.5"},
        "load": os.getloadavg()[0],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
