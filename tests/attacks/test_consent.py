"""Nobody agrees to a question that was not shown.

What stands in a consortium's file decides what becomes known. A party that reads its
screen, or the file that is kept, must be able to list it: the formula and the response,
every column with its range, tables and bins, and how often its table may be asked.
"""

from __future__ import annotations

import tempfile
from functools import wraps

from attacks.offices import HASTY, Office, called
from attacks.organiser import Found, patients
from cases import each

FORMULA = "hiv ~ age + bmi_2 + C(sex)"
COLUMNS = {
    "age": {"kind": "integer", "minimum": 3, "maximum": 117},
    "bmi": {"kind": "number", "minimum": 11.5, "maximum": 61.5},
    "hiv": {"kind": "integer", "minimum": 0, "maximum": 1},
    "sex": {"kind": "category", "categories": ["f", "m"]},
    "ward": {"kind": "category", "categories": ["north", "south", "west"]},
    "death": {"kind": "category", "categories": ["no", "yes"]},
}
BMI_2 = {"bmi_2": {"of": "bmi", "as": "power", "exponent": 2}}
SCHEMA = {"minimum_rows": 50, "columns": COLUMNS | BMI_2}


def fit_plan(**more):
    return {"schema": SCHEMA, "model": {"formula": FORMULA, **more}}


def table_plan():
    asked = {"columns": ["age"], "tables": [["ward", "death"]]}
    asked["histograms"] = {"bmi": [10.0, 18.5, 30.25, 60.0]}
    return {"schema": SCHEMA, "statistics": asked}


# What a careful reader would have to find.
OF_A_FIT = ("hiv", "age + bmi_2 + C(sex)", "exponent = 2", "117", "61.5")
OF_TABLES = ("ward", "death", "18.5", "30.25")


def hidden(text, words):
    """Return what of a question is not in a text, however that is folded."""
    flat = "".join(text.split())
    return [word for word in words if "".join(word.split()) not in flat]


def in_an_office(attack):
    @wraps(attack)
    def run(*words):
        with tempfile.TemporaryDirectory() as folder:
            office = Office(folder, patients()["ash"][list(COLUMNS)])
            (office.folder / "veilsum.toml").write_text("recodings = true\n")
            return attack(office, *words)

    return run


@in_an_office
def on_the_screen(office, plan, words):
    """What `join` does not show to whoever is asked to agree."""
    found = office.join(office.file(plan), answer="n\n")
    assert "proceed?" in found.output, found.output
    return Found(hidden(found.output, words), list(words))


@in_an_office
def in_the_file(office, plan, words):
    """What `consortium show` does not show to whoever looks at a file."""
    found = called("consortium", "show", office.file(plan))
    assert found.exit_code == 0, found.output
    return Found(hidden(found.output, words), list(words))


@in_an_office
def kept(office, plan, words):
    """What is not written down where nobody is asked."""
    file = office.file({**plan, "policy": HASTY})
    found = office.join(file, "--yes")
    assert found.exit_code == 1, found.output
    out = office.folder / f"out-{file.stem}"
    text = "".join(one.read_text("utf-8") for one in sorted(out.glob("consent.*")))
    return Found(hidden(text, words), list(words))


@in_an_office
def rounds(office):
    """How often a table is asked at most, where one round only was listed."""
    found = office.join(office.file(fit_plan(family="logistic")), answer="n\n")
    words = ("at most 16 sums", "3 to 16 rounds", "14 further rounds")
    return Found(hidden(found.output, words), list(words))


def attack(way, plan, words):
    return lambda: way(plan, words)


ATTACKS = {
    "a fit on the screen": attack(on_the_screen, fit_plan(), OF_A_FIT),
    "tables on the screen": attack(on_the_screen, table_plan(), OF_TABLES),
    "a fit in the file": attack(in_the_file, fit_plan(), OF_A_FIT),
    "tables in the file": attack(in_the_file, table_plan(), OF_TABLES),
    "a fit, kept": attack(kept, fit_plan(), OF_A_FIT),
    "tables, kept": attack(kept, table_plan(), OF_TABLES),
    "rounds": rounds,
}


@each("attack", ATTACKS.values(), ids=ATTACKS)
def test_nothing_of_the_question_is_hidden(attack):
    assert attack().recovered == []
