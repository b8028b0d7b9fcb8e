"""Refusals are no oracle.

A party that stays away has said something: that its table is not as a file wants it.
An organiser who sends file after file, each with another bound, finds out how many rows
a party has, and its largest salary to the cent.
"""

from __future__ import annotations

import tempfile
from functools import wraps

from attacks.offices import HASTY, NAMES, Office
from attacks.organiser import Found, patients
from cases import each
from veilsum.files.ledger import open_ledger, read_ledger
from veilsum.files.tables import read_table
from veilsum.privacy.accountant import Budget
from veilsum.questions.statistics import statistics
from veilsum.tables.schema import Schema

TABLE = patients()["ash"][["age", "salary", "ward"]]
N_ROWS = 47


def sent_to(attack):
    """Hand an attack a party's office, with a table of its own."""

    @wraps(attack)
    def run():
        with tempfile.TemporaryDirectory() as folder:
            return attack(Office(folder, TABLE[:N_ROWS]))

    return run


def plan(**changes):
    """What the organiser asks for, but for the bounds."""
    columns = {
        "age": {"kind": "integer", "minimum": 0, "maximum": 100},
        "salary": {"kind": "number", "minimum": 0, "maximum": 200_000},
        "ward": {"kind": "category", "categories": ["north", "south", "west"]},
    }
    for name, change in changes.pop("columns", {}).items():
        columns[name] |= change
    schema = {"minimum_rows": 10, "columns": columns, **changes}
    return {"schema": schema, "model": {"formula": "salary ~ age"}}


def least(takes_part, low, high):
    """Return the least number from `low` to `high` with which a party takes part."""
    while low < high:
        middle = (low + high) // 2
        if takes_part(middle):
            high = middle
        else:
            low = middle + 1
    return low


@sent_to
def by_maximum_rows(office):
    """How many rows the party has, by twelve files."""
    found = least(lambda n: office.takes_part(plan(maximum_rows=n)), 10, 4_000)
    return Found(found, N_ROWS, f"{office.n_files} files")


@sent_to
def by_minimum_rows(office):
    """The same from below: it stays away where it has too few."""
    found = least(lambda n: not office.takes_part(plan(minimum_rows=n)), 10, 4_000)
    return Found(found - 1, N_ROWS, f"{office.n_files} files")


@sent_to
def by_maximum(office):
    """Its largest salary, to the cent."""

    def takes_part(cents):
        bound = {"salary": {"maximum": cents / 100}}
        return office.takes_part(plan(columns=bound))

    found = least(takes_part, 1, 20_000_000) / 100
    truth = float(TABLE["salary"][:N_ROWS].max())
    return Found(found, truth, f"{office.n_files} files")


@sent_to
def by_minimum(office):
    """The age of its youngest patient."""

    def stays_away(years):
        return not office.takes_part(plan(columns={"age": {"minimum": years}}))

    found = least(stays_away, 0, 100) - 1
    truth = int(TABLE["age"][:N_ROWS].min())
    return Found(found, truth, f"{office.n_files} files")


@sent_to
def by_many_questions(office):
    """How many rows, with a formula of its own in every file."""
    words = iter(f"salary ~ {' + '.join(['age'] * k)}" for k in range(1, 100))

    def takes_part(n):
        return office.takes_part(
            {**plan(maximum_rows=n), "model": {"formula": next(words)}}
        )

    return Found(least(takes_part, 10, 4_000), N_ROWS, f"{office.n_files} files")


ATTACKS = {
    "other formulas": by_many_questions,
    "the most rows": by_maximum_rows,
    "the fewest rows": by_minimum_rows,
    "the largest value": by_maximum,
    "the smallest value": by_minimum,
}


@each("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_bound_is_found_by_staying_away(attack):
    assert not attack().succeeded


def test_a_refusal_is_kept_and_the_policy_taken_over(tmp_path):
    """`join` writes down what it refuses, without the number; a good file leaves none.

    The ledger that it makes has the `tolerate` of the first file.
    """
    office = Office(tmp_path, TABLE[:N_ROWS])
    curious = {**HASTY, "tolerate": 1}
    office.join(office.file({**plan(), "policy": curious}), "--yes")
    history = read_ledger(tmp_path / "ann.ledger")
    assert history.budget.tolerate == 1
    assert not history.refusals
    few = {**plan(maximum_rows=N_ROWS - 1), "policy": curious}
    found = office.join(office.file(few), "--yes")
    assert found.exit_code == 2
    assert str(N_ROWS) in found.output
    (refusal,) = read_ledger(tmp_path / "ann.ledger").refusals
    assert str(N_ROWS) not in refusal.reason


def test_join_looks_at_earlier_questions_too(tmp_path):
    """Bins about a salary were shown; with the next edge one patient is in between.

    The twin: an ordinary fit after the same bins goes on to the meeting.
    """
    office = Office(tmp_path, TABLE[:N_ROWS])
    own = read_table(office.data)
    below, one, above = sorted(own["salary"])[20:23]
    first, second = (
        {"salary": [0, round(at, 2), 200_000]}
        for at in ((below + one) / 2, (one + above) / 2)
    )
    tables = dict(zip(NAMES, patients().values(), strict=False)) | {"ann": own}
    roomy = {**plan()["schema"], "minimum_rows": 40}
    asked = Schema.from_table(roomy)
    with open_ledger(tmp_path / "ann.ledger", create=Budget(tolerate=1)) as ledger:
        options = {"ledgers": {"ann": ledger}, "driver": "vectorised"}
        statistics(tables, columns=[], histograms=first, schema=asked, **options)
    again = {**plan(), "schema": roomy, "policy": HASTY}
    del again["model"]
    again["statistics"] = {"columns": [], "histograms": second}
    found = office.join(office.file(again), "--yes")
    assert found.exit_code == 2
    assert "together with what was asked of this data set before" in found.output
    (refusal,) = read_ledger(tmp_path / "ann.ledger").refusals
    assert refusal.reason == "refused by maximum_influence"
    assert office.takes_part(plan())
