"""Variables on rows of their own do not give one person away.

A column and its copy that lacks one person more have sums that differ by that person's
value, and the numbers of rows show the group of whoever lacks a value. Populations that
differ by many people can still be combined to one.
"""

from itertools import combinations
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import veilsum as vs
from attacks import organiser
from attacks.organiser import AIM, COLUMNS, ROW, SALARY, SITES, Found, asked, patients
from cases import each
from veilsum.questions.statistics.populations import (
    CountDifferences,
    StatisticsPopulations,
)
from veilsum.sums.releases import SumReleaseLimit
from veilsum.tables.axes import TableAxis
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

COPIES = tuple(f"salary{k}" for k in range(4))
SCHEMA = vs.Schema(
    (*COLUMNS, *(vs.Column(name, "number", 0, 200_000) for name in COPIES)),
    missing="drop",
    minimum_rows=40,
)


def described(tables, *columns, by="ward", **options):
    wish = {"schema": SCHEMA, "by": by, "columns": list(columns), "tables": []}
    return asked(vs.statistics, tables, **{**wish, **options})


def copied(tables, lacking):
    """Give every table copies of the salary that lack some rows, by site and copy."""
    for site, table in tables.items():
        for name in COPIES:
            table[name] = table["salary"]
            table.loc[lacking(site, name), name] = np.nan
    return tables


def total(result):
    return result.marginals.sum


def by_a_copy_that_lacks_one():
    """The salary of one person: two sums over the same ward."""

    def lacking(site, name):
        return [ROW] if (site, name) == (AIM, COPIES[1]) else []

    result = described(copied(patients(), lacking), *COPIES[:2])
    whole, less = total(result)
    return Found(whole - less, SALARY, result.guarantee.status)


def by_the_rows_of_a_column():
    """Somebody knows who has no weight on record, and learns that person's group."""
    tables = patients()
    tables[AIM].loc[ROW, "bmi"] = np.nan
    truth = int(tables[AIM].loc[ROW, "hiv"])
    result = described(tables, "age", "bmi", by="hiv")
    short = [int(np.diff(one.rows)[0]) for one in result.groups.parts]
    return Found(short, [-1 if k == truth else 0 for k in range(2)])


def by_rows_of_a_colluding_party():
    """The pooled copies differ by many rows, of which all but one are its own."""

    def lacking(site, name):
        own = list(range(20, 35)) if site == SITES[0] else []
        return (own + [ROW] * (site == AIM)) if name == COPIES[1] else []

    tables = copied(patients(), lacking)
    result = described(tables, *COPIES[:2])
    whole, less = total(result)
    own = tables[SITES[0]]["salary"][20:35].sum()
    return Found(whole - less - own, SALARY)


def by_four_copies():
    """Each two copies differ by many rows of every party, and all four by one row."""

    def lacking(site, name):
        first = {ROW, *range(10, 19)} if site == AIM else {*range(10, 19)}
        second = {ROW, *range(20, 29)} if site == AIM else {*range(20, 29)}
        return sorted(
            {
                COPIES[0]: set(),
                COPIES[1]: first,
                COPIES[2]: second,
                COPIES[3]: first | second,
            }[name]
        )

    result = described(copied(patients(), lacking), *COPIES)
    return Found(total(result) @ [1, -1, -1, 1], SALARY)


ATTACKS = {
    "a copy": by_a_copy_that_lacks_one,
    "the rows of a column": by_the_rows_of_a_column,
    "a colluding party": by_rows_of_a_colluding_party,
    "four copies": by_four_copies,
}


@each("attack", ATTACKS.values(), ids=ATTACKS)
def test_nothing_of_one_person_is_found(attack):
    """The twin: without rules every variable is on its own rows, and all is found."""
    assert not attack().succeeded
    with patch.dict(organiser.RULES, rules=Rules.none()):
        assert attack().succeeded


@pytest.mark.parametrize("rate", [0.03, 0.1])
def test_ordinary_gaps_leave_every_variable_its_rows(rate):
    """Five sites of 150 to 420 rows, with a fixed seed."""
    chance = np.random.default_rng((7, int(100 * rate)))
    tables = {
        site: _ordinary(chance, n, rate)
        for site, n in zip(SITES, (150, 210, 280, 350, 420), strict=True)
    }
    result = vs.statistics(tables, by="arm")
    whole = pd.concat(tables.values())
    assert result.choice.reasons == {}
    expected = [whole[name].count() for name in result.columns]
    assert list(result.marginals.rows) == expected
    np.testing.assert_allclose(
        result.marginals.mean, [whole[name].mean() for name in result.columns]
    )
    for (name,), cells in result.tables.items():
        assert cells.sum() == whole[name].count()


def _ordinary(chance, n, rate):
    made = {"arm": chance.choice(["a", "b"], n)}
    made |= {f"x{k}": chance.normal(50, 10, n).round() for k in range(4)}
    made["sex"] = chance.choice(np.array(["f", "m"], dtype=object), n)
    table = pd.DataFrame(made)
    for name in table.columns[1:]:
        table.loc[chance.random(n) < rate, name] = np.nan
    return table


def test_one_column_with_gaps_takes_no_rows_of_others():
    """Where another one lacks two people, both are described on complete rows."""
    tables = patients()
    for table in tables.values():
        table.loc[20:29, "bmi"] = np.nan
    tables[AIM].loc[[3, 4], "record"] = np.nan
    result = described(tables, "age", "bmi", "record")
    n = sum(map(len, tables.values()))
    machines = described(tables, "age", "bmi", "record", driver="loopback")
    for one, other in zip(result.released.sums, machines.released.sums, strict=True):
        assert one.tolist() == other.tolist()
    assert result.marginals.rows == (n, n - 52, n - 52)
    assert [*result.choice.reasons] == [("bmi",), ("record",)]
    text = " ".join(result.summary().split())
    assert "complete in all columns: bmi, record. Reason: the rows in which" in text
    assert "Others are described on all rows that have them and a group." in text


def test_without_room_for_counts_rows_are_complete_and_the_reason_is_given():
    tables = patients()
    for table in tables.values():
        table.loc[20:29, "bmi"] = np.nan
    few = vs.Schema(SCHEMA.columns, missing="drop", minimum_rows=9)
    result = described(tables, "age", "bmi", schema=few)
    assert {*result.marginals.rows} == {250}
    (why,) = {*result.choice.reasons.values()}
    assert "agree on [schema] minimum_rows = " in why
    more = int(why.partition("minimum_rows = ")[2].split()[0])
    enough = vs.Schema(SCHEMA.columns, missing="drop", minimum_rows=more)
    assert described(tables, "age", "bmi", schema=enough).choice.own


LEVELS = ("a", "b")
PAIR = StatisticsPopulations((("u",), ("v",)), TableAxis("g", LEVELS), ())


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=6),
    st.integers(0, 2),
    st.integers(2, 5),
)
@settings(max_examples=60, deadline=None)
def test_without_any_coalition_enough_rows_differ(lacking, tolerate, least):
    """Against every coalition: k rows of two honest parties are left, or nobody's.

    Each party has rows of group a that have u and lack v, and the reverse.
    """
    schema = Schema.from_table(
        {
            "missing": "drop",
            "minimum_rows": 1,
            "columns": {
                "g": {"kind": "category", "categories": list(LEVELS)},
                **{
                    name: {"kind": "integer", "minimum": 0, "maximum": 9}
                    for name in "uv"
                },
            },
        }
    )
    rules, n = Rules(minimum_count=least), len(lacking)
    request = CountDifferences("", rules)
    sums = np.zeros(len(PAIR.pairs) * 4 + 2, dtype=object)
    for without_v, without_u in lacking:
        u = [1.0] * 9 + [1.0] * without_v + [np.nan] * without_u
        v = [1.0] * 9 + [np.nan] * without_v + [1.0] * without_u
        table = schema.check("p", {"g": ["a"] * len(u), "u": u, "v": v})
        sums += PAIR.counts(request, table, [False, False])
    limit = SumReleaseLimit(
        honest=n - 1, columns=3, minimum_rows=9, tolerate=tolerate, rules=rules
    )
    chosen = PAIR.choose(sums, limit)
    size = min(max(tolerate, 1), n)
    if len(chosen.own) == 2:
        for coalition in combinations(range(n), size):
            honest = [one for k, one in enumerate(lacking) if k not in coalition]
            for side in range(2):
                rows = [one[side] for one in honest]
                if any(one[side] for one in lacking):
                    assert sum(rows) >= least
                    assert sum(one > 0 for one in rows) >= 2
    assert chosen.own or chosen.reasons


def group_counts(result):
    """For each pair of variables: parties with rows that differ, by group."""
    sums = zip(result.released.sums, result.releases, strict=True)
    (counts,) = [one for one, release in sums if "lack another" in release.words]
    words = result.releases[1].words.split("lack another (")[1]
    size = int(words.split(")")[0])
    return np.array([int(one) for one in counts[:size]]).reshape(-1, 2)


def test_open_first_counts_show_the_group_of_one_person_without_a_weight():
    """The counts that choose rows are by group. With many people they show nobody's."""
    tables = patients()
    tables[AIM].loc[ROW, "bmi"] = np.nan
    truth = int(tables[AIM].loc[ROW, "hiv"])
    counts = group_counts(described(tables, "age", "bmi", by="hiv"))
    assert np.flatnonzero(counts.any(axis=0)).tolist() == [truth]
    for table in tables.values():
        table.loc[:14, "bmi"] = np.nan
    counts = group_counts(described(tables, "age", "bmi", by="hiv"))
    assert counts.any(axis=0).all()
