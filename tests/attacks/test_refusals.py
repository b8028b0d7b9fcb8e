"""Refusals are no oracle.

A party that stays away has said something: that its table is not as a file wants it.
An organiser who sends file after file, each with another bound, finds out how many rows
a party has, and its largest salary to the cent.
"""

from __future__ import annotations

import tempfile
from functools import wraps

import pytest

from attacks.offices import Office
from attacks.organiser import Found, patients

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
def by_other_questions(office):
    """The number of rows, where every file asks for something else."""
    formulas = iter(f"salary ~ {{age + {k}}}" for k in range(99))

    def takes_part(n):
        asked = {**plan(maximum_rows=n), "model": {"formula": next(formulas)}}
        return office.takes_part(asked)

    return Found(least(takes_part, 10, 4_000), N_ROWS, f"{office.n_files} files")


ATTACKS = {
    "the most rows": by_maximum_rows,
    "the fewest rows": by_minimum_rows,
    "the largest value": by_maximum,
    "the smallest value": by_minimum,
    "the most rows, by other questions": by_other_questions,
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_bound_is_found_by_staying_away(attack):
    assert not attack().succeeded


@sent_to
def put_right(office):
    """The twin: who was refused for a bound may be sent another one, and once more."""
    return [office.takes_part(plan(maximum_rows=n)) for n in (20, 40, 60, 60, 50)]


def test_a_bound_may_be_put_right():
    """The fifth file has a fourth value, and is not looked at."""
    assert put_right() == [False, False, True, True, False]
