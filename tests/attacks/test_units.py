"""A unit is a step: values are rounded to it before they are summed.

An organiser who counts ages in units of 99 years asks for who is older than 49.5. With
a unit of 101 years in the next question somebody of 50 is on the other side. No rule
about columns sees that where the one is a covariate and the other a response.
"""

from __future__ import annotations

from dataclasses import replace

import veilsum as vs
from attacks.organiser import Found
from attacks.test_constants import AIM, ROW, SCHEMA, patients
from attacks.test_the_ledger import asking, moments_of
from cases import each
from refusals import refused
from veilsum.tables.asked import TableAsking
from veilsum.tables.rules import DisclosureError


def counted_in(unit, kind="number"):
    """The schema, with ages in a unit."""
    age = vs.Column("age", kind, 0, 110, unit=unit)
    return replace(SCHEMA, columns=(age, *SCHEMA.columns[1:]))


def by_two_units(organiser, seed):
    """The cost of the one patient whom two units round to different counts."""
    tables, age = patients(seed)
    one = organiser.fit("cost ~ age", tables, schema=counted_in(2 * age - 1))
    two = organiser.fit("age ~ cost", tables, schema=counted_in(2 * age + 1))
    older, oldest = moments_of(one)[1][1], moments_of(two)[1][1]
    found = older / (2 * age - 1) - oldest / (2 * age + 1)
    return Found(round(found, 2), tables[AIM]["cost"][ROW])


def attacked(seed):
    return asking(lambda organiser: by_two_units(organiser, seed))()


def test_two_units_leave_a_person_between_them(monkeypatch):
    """The twin: ledgers that do not look at units give the cost away, to the cent."""
    for rule in ("_check_units", "_check_responses"):
        monkeypatch.setattr(TableAsking, rule, lambda *_: None)
    assert all(attacked(seed).succeeded for seed in range(4))


@each("seed", range(4))
def test_a_column_in_another_unit_than_before_is_refused(seed):
    with refused("group-too-small", DisclosureError, mentions=("age",)):
        attacked(seed)


def test_units_that_round_many_rows_differently_may_change():
    """Ordinary use: years, five years and two years, of everybody alike."""

    def ask(organiser):
        tables, _ = patients(1)
        organiser.fit("cost ~ age", tables, schema=counted_in(1))
        organiser.fit("age ~ cost", tables, schema=counted_in(5))
        organiser.fit("age ~ bmi", tables, schema=counted_in(2))
        return organiser.asked

    assert asking(ask)() == 3


def test_units_that_round_nothing_may_change():
    """Cents are whole numbers of a tenth of a cent, too."""

    def ask(organiser):
        tables, _ = patients(1)
        for unit in (0.01, 0.001, "1/200"):
            cost = vs.Column("cost", "number", 0, 100_000, unit=unit)
            columns = (*SCHEMA.columns[:2], cost, SCHEMA.columns[3])
            schema = replace(SCHEMA, columns=columns)
            organiser.fit("cost ~ age", tables, schema=schema)
        return organiser.asked

    assert asking(ask)() == 3
