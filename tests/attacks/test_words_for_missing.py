"""Words for missing values choose rows: the author of a dictionary says what they are.

Where 97 means that an age is missing, the oldest person has none, and every count of
missing values is about her. Counts of rows that lack each column are shown as they are.
"""

import numpy as np
import pandas as pd

import veilsum as vs

PARTIES, ROWS = "abcde", 160
SCHEMA = vs.Schema.from_table(
    {
        "missing": "drop",
        "minimum_rows": 60,
        "maximum_rows": 170,
        "columns": {
            "age": {"kind": "integer", "minimum": 18, "maximum": 96, "missing": [97]},
            "sbp": {"kind": "integer", "minimum": 60, "maximum": 260},
            "stage": {
                "kind": "category",
                "categories": ["I", "II", "III"],
                "missing": ["IV"],
            },
        },
    }
)


def tables(seed, oldest):
    """Five tables, and whether the first person of 97 has stage IV."""
    chance, found = np.random.default_rng(seed), {}
    for party in PARTIES:
        found[party] = pd.DataFrame(
            {
                "age": chance.integers(20, 90, ROWS),
                "sbp": chance.integers(90, 200, ROWS),
                "stage": chance.choice(["I", "II", "III", "IV"], ROWS),
            }
        )
        if oldest > 1:
            found[party].loc[: oldest - 1, "age"] = 97
    party, row = chance.choice([*PARTIES]), int(chance.integers(ROWS))
    found[party].loc[row, "age"] = 97
    return found, found[party].loc[row, "stage"] == "IV"


def counted(seed, oldest):
    """Rows without an age, and rows that lack an age only."""
    data, truth = tables(seed, oldest)
    result = vs.statistics(
        data,
        schema=SCHEMA,
        columns=["age", "sbp"],
        tables=[["stage"]],
        missing="columns",
    )
    gaps = result.missing
    return gaps["age"], result.dropped - gaps["stage"], truth


def test_open_rows_left_out_tell_the_stage_of_the_oldest_person():
    """In all of 12 studies; she lacks a stage, or is left out for her age alone."""
    for seed in range(12):
        n_lacking, n_alone, has_stage_four = counted(seed, oldest=1)
        assert n_lacking == 1
        assert n_alone == (0 if has_stage_four else 1)


def test_of_many_such_people_the_counts_tell_none():
    """The twin: with 51 people of 97, both answers leave between 1 and 51 rows."""
    for seed in range(3):
        n_lacking, n_alone, _ = counted(seed, oldest=10)
        assert 1 < n_alone < n_lacking
