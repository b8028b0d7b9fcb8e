"""Survival cannot be aimed: at one person by a time or a flag, at one site by a group.

Whoever asks chooses the times, the group and which column is the event. The organiser
takes a patient's age for a time, and whether somebody is ill for an event.
"""

import numpy as np
import pytest

import veilsum as vs
from attacks.organiser import (
    AGE,
    AIM,
    HIV,
    ROW,
    SCHEMA,
    SITES,
    Found,
    asked,
    check_cells_merge,
    check_rules_refuse,
    patients,
    refused_by as refused,
)
from attacks.test_the_ledger import Asking, asking, held
from cases import each

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def survived(tables, times, formula="Surv(age, hiv) ~ 1", **options):
    given = {"schema": SCHEMA, "times": times, **options}
    return asked(vs.survival, formula, tables, **given)


def alone(tables):
    """Nobody else is of that age."""
    for site, table in tables.items():
        same = table["age"] == AGE
        same[ROW] &= site != AIM
        table.loc[same, "age"] = AGE + 1
    return tables


def by_a_time():
    """Whether the one patient of that age is ill."""
    found = survived(alone(patients()), [AGE - 1, AGE, 80])
    ends, place = found.ends, int(np.searchsorted(found.times, AGE))
    both = ends.events[0, place], ends.censored[0, place]
    return Found(both, [HIV, 1 - HIV])


def by_a_flag(known):
    """How old a patient is whom a column points out: a column that others have too.

    Args:
        known: hospitals whose tables the organiser has seen.
    """
    tables = patients()
    for table in tables.values():
        table["code"] = 0
        table.loc[20:29, "code"] = 1
    tables[AIM]["code"] = (np.arange(len(tables[AIM])) == ROW).astype(int)
    schema = vs.Schema(
        (
            *(one for one in SCHEMA.columns if one.name != "code"),
            vs.Column("code", "integer", 0, 1),
        ),
        minimum_rows=50,
    )
    times = [30, 40, 60, 89]
    found = survived(tables, times, "Surv(age, code) ~ 1", schema=schema)
    theirs = sum(
        np.bincount(np.searchsorted(found.times, table["age"][20:30]), minlength=9)
        for site, table in tables.items()
        if site in known
    )
    left = found.ends.events[0] - theirs[: len(found.times)]
    place = int(np.searchsorted(found.times, AGE))
    return Found(np.flatnonzero(left).tolist(), [place])


def own_ends(table, times):
    places = np.searchsorted(times, table["age"])
    counts = [table["hiv"][places == k] for k in range(len(times))]
    return [[int(one.sum()), int((1 - one).sum())] for one in counts]


def by_site():
    """One hospital's own curve, where every cell has rows enough."""
    tables = patients()
    found = survived(tables, [50, 90], "Surv(age, hiv) ~ C(site)")
    place = found.labels.index(AIM)
    ends = np.stack([found.ends.events[place], found.ends.censored[place]], axis=1)
    return Found(ends.tolist(), own_ends(tables[AIM], [50, 90]))


def by_a_ward():
    """The same of a ward that nobody else has."""
    tables = patients()
    tables[AIM].loc[:19, "ward"] = "isolation"
    tables[AIM].loc[:9, "age"], tables[AIM].loc[10:19, "age"] = 40, 70
    found = survived(tables, [50, 90], "Surv(age, hiv) ~ C(ward)")
    ends = np.stack([found.ends.events[-1], found.ends.censored[-1]], axis=1)
    return Found(ends.tolist(), own_ends(tables[AIM][:20], [50, 90]))


def by_an_event():
    """One hospital's own events, for nobody else has any."""
    tables = patients()
    for site, table in tables.items():
        table["hiv"] = (site == AIM) * (np.arange(len(table)) % 2)
    found = survived(tables, [50, 90])
    own = [one for one, _ in own_ends(tables[AIM], [50, 90])]
    return Found(found.ends.events[0].tolist(), own)


def by_an_event_in_a_group():
    """The same, where others have events in other groups only."""
    tables = patients()
    for site, table in tables.items():
        ill = np.arange(len(table)) % 2
        table["hiv"] = ill * ((site == AIM) | (table["sex"] == "f"))
    found = survived(tables, [50, 90], "Surv(age, hiv) ~ C(sex)")
    men = tables[AIM][tables[AIM]["sex"] == "m"]
    own = [one for one, _ in own_ends(men, [50, 90])]
    return Found(found.ends.events[1].tolist(), own)


def by_times_of_one_site():
    """How many are ill at each hospital, whose records have numbers of their own."""
    tables = patients()
    times = [1060 + 100 * k for k in range(len(SITES))]
    found = survived(tables, times, "Surv(record, hiv) ~ 1")
    truth = [int(one["hiv"].sum()) for one in tables.values()]
    return Found(found.ends.events[0].tolist(), truth)


ATTACKS = {
    "a group for each site": (by_site, "site_terms"),
    "events at one site": (by_an_event, "minimum_count"),
    "events of a group at one site": (by_an_event_in_a_group, "minimum_count"),
    "times of one site": (by_times_of_one_site, "minimum_count"),
}
MERGED = {"a time of one": by_a_time, "a group at one site": by_a_ward}


@each(("attack", "rule"), ATTACKS.values(), ids=ATTACKS)
def test_an_aimed_question_is_refused(attack, rule):
    check_rules_refuse(attack, {rule})


@each("attack", MERGED.values(), ids=MERGED)
def test_a_cell_of_one_person_or_site_is_merged_with_others(attack):
    check_cells_merge(attack)


def test_events_of_one_person_at_a_hospital_are_among_those_of_others():
    """Three hospitals have ten events each: so may another have one."""
    assert not by_a_flag(known=SITES[:1]).succeeded


def test_open_who_knows_all_other_rows_finds_an_event_of_one_person():
    assert by_a_flag(known=[one for one in SITES if one != AIM]).succeeded


TWINS = {
    "times with many": lambda: survived(alone(patients()), [40, 60, 90]),
    "a group that all have": lambda: survived(
        patients(), [50, 90], "Surv(age, hiv) ~ C(sex)"
    ),
    "a flag that several have": lambda: survived(
        patients(), [50, 90], "Surv(age, death) ~ 1"
    ),
}


@each("question", TWINS.values(), ids=TWINS)
def test_what_is_aimed_at_nobody_is_answered(question):
    assert question().released.sums


@asking
def by_two_times(organiser):
    """Two curves, each on one time: the one patient in between, and whether ill."""
    tables = held("abcdef")
    for table in tables.values():
        table["hiv"] = np.arange(len(table)) % 2
        table.loc[table["age"] == AGE, "age"] = AGE + 1
    tables["c"].loc[3, ["age", "hiv"]] = [AGE, HIV]
    before, after = (
        vs.survival(
            "Surv(age, hiv) ~ 1",
            tables,
            times=[at],
            **organiser._options(tables, {}),
        ).ends
        for at in (AGE - 1, AGE)
    )
    found = after.events - before.events, after.censored - before.censored
    return Found([one.item() for one in found], [HIV, 1 - HIV])


def test_two_grids_are_looked_at_together():
    assert refused(by_two_times) in {"maximum_influence", "minimum_count"}


def test_who_keeps_no_ledger_gives_the_person_away(monkeypatch):
    """The twin: each of the two alone is one that the rules answer."""
    monkeypatch.setattr(Asking, "ledgers_of", lambda *_: {})
    assert by_two_times().succeeded


@asking
def curves_and_more(organiser):
    """The twin: a curve, one by group, a histogram and a fit of the same table."""
    tables = held("abcdef")
    given = {"times": [45, 65]}
    for formula in ("Surv(age, hiv) ~ 1", "Surv(age, hiv) ~ 1"):
        vs.survival(formula, tables, **given, **organiser._options(tables, {}))
    organiser.bins(tables, age=[0, 45.5, 101])
    organiser.fit("salary ~ age + hiv", tables)
    return True


def test_other_questions_may_be_asked_beside_it():
    assert curves_and_more()
