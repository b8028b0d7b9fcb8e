r"""Make small databases in the shape of OMOP's, one for each of five clinics.

    python examples/omop/make.py out/omop
    veilsum check examples/omop/plan.toml --data out/omop/north.duckdb \
        --query examples/omop/cohort.sql

Everybody in them is made up. Each clinic runs the same query, or one of its own that
selects the same columns; what it selects is the clinic's table.
"""

import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

CLINICS = ("east", "hill", "lake", "north", "south")
# Concepts of the vocabulary: women and men, type 2 diabetes, HbA1c.
FEMALE, MALE, DIABETES, HBA1C = 8532, 8507, 201826, 3004410


def tables(chance: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Return 120 people with two to five visits each, and what was found there."""
    people = np.arange(120)
    ill = chance.random(120) < 0.4
    visitor = np.repeat(people, chance.integers(2, 6, 120))
    first = chance.integers(0, 2500, 120)[visitor]
    days = first + chance.integers(0, 1000, len(visitor))
    day = pd.Timestamp("2012-01-01") + pd.to_timedelta(days, unit="D")
    level = chance.normal(np.where(ill[visitor], 7.4, 5.6), 0.6).round(1)
    return {
        "person": pd.DataFrame(
            {
                "person_id": people,
                "gender_concept_id": chance.choice([FEMALE, MALE], 120),
                "year_of_birth": chance.integers(1930, 1990, 120),
            }
        ),
        "visit_occurrence": pd.DataFrame(
            {"person_id": visitor, "visit_start_date": day}
        ),
        "measurement": pd.DataFrame(
            {
                "person_id": visitor,
                "measurement_concept_id": HBA1C,
                "measurement_date": day,
                "value_as_number": level,
            }
        ),
        "condition_occurrence": pd.DataFrame(
            {"person_id": people[ill], "condition_concept_id": DIABETES}
        ),
    }


def main(folder: Path) -> None:
    """Write one database for each clinic; those that are there are made anew."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, clinic in enumerate(CLINICS):
        path = folder / f"{clinic}.duckdb"
        path.unlink(missing_ok=True)
        with duckdb.connect(str(path)) as database:
            for name, frame in tables(np.random.default_rng((1, place))).items():
                database.register("made", frame)
                database.execute(f"CREATE TABLE {name} AS FROM made")
                database.unregister("made")
        print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/omop"))
