"""Merged dictionaries fit the tables of their parts, in whatever order they come."""

import tomllib
from fractions import Fraction
from itertools import permutations

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.tables.columns import Column
from veilsum.tables.dictionaries import (
    MOST_MERGED,
    dictionary_column_line,
    dictionary_toml,
    merge_dictionaries,
)
from veilsum.tables.drafts import draft_dictionary
from veilsum.tables.schema import Schema

ALWAYS = Column("always", "integer", 0, 1)


def merged(*parts):
    return merge_dictionaries({str(place): one for place, one in enumerate(parts)})


def of(*columns, **rest):
    return Schema((ALWAYS, *columns), **rest)


def one_of(*columns):
    """The column that several agree on."""
    return merged(*map(of, columns)).schema.column(columns[0].name)


def test_ranges_widen_and_units_become_fine_enough_for_all():
    found = one_of(
        Column("x", "number", 0, 50, unit=0.1), Column("x", "number", -5, 20, unit=0.25)
    )
    assert found == Column("x", "number", -5, 50, unit="1/20")
    mixed = one_of(Column("x", "integer", 0, 9), Column("x", "number", 0, 5, unit=0.5))
    assert mixed == Column("x", "number", 0, 9, unit=0.5)
    open_end = one_of(Column("x", "integer", 0), Column("x", "integer", 5, 9))
    assert open_end == Column("x", "integer", 0)
    bits = one_of(Column("x", "number", 0, 9), Column("x", "number", 0, 5, unit=0.5))
    assert bits == Column("x", "number", 0, 9)


def test_levels_words_and_cut_points_unite():
    found = one_of(
        Column("s", "category", categories=("m", "f"), recode={"F": "f"}),
        Column("s", "category", categories=("m", "x"), missing=("?",)),
    )
    assert found.categories == ("f", "m", "x")
    assert (dict(found.recode), found.missing) == ({"F": "f"}, ("?",))
    same = Column("s", "category", categories=("m", "f"))
    assert one_of(same, same).categories == ("m", "f")  # the reference stays
    cuts = one_of(
        Column("x", "number", 0, 9, cuts=(1, 5)), Column("x", "number", 0, 9, cuts=(3,))
    )
    assert cuts.cuts == (1, 3, 5)


def test_dates_with_different_day_zeros_keep_their_dates():
    found = one_of(
        Column("d", "date", "2001-01-01", "2009-12-31", since="2000-01-01", unit=7),
        Column("d", "date", "1999-01-01", "2005-12-31", since="1999-12-18", unit=7),
    )
    table = found.to_table()
    assert (table["minimum"], table["maximum"]) == ("1999-01-01", "2009-12-31")
    assert found.unit == 7  # the two day zeros are 14 days apart
    odd = one_of(
        Column("d", "date", since="2000-01-01", unit=7),
        Column("d", "date", since="2000-01-03", unit=7),
    )
    assert odd.unit is None


def test_a_law_is_kept_only_if_all_have_it():
    with_law = Column("x", "number", 0, 9, cuts=(5,), law=(2, 1))
    assert one_of(with_law, with_law).law == (2, 1)
    found = merged(of(with_law), of(Column("x", "number", 0, 9, cuts=(5,))))
    assert found.schema.column("x").law == ()
    assert "no law" in found.notes["x"]


def test_schema_keys_admit_what_each_admits():
    found = merged(
        of(minimum_rows=20, maximum_rows=50), of(missing="drop", maximum_rows=90)
    ).schema
    assert (found.missing, found.minimum_rows, found.maximum_rows) == ("drop", 5, 90)
    assert merged(of(maximum_rows=50), of()).schema.maximum_rows is None


CONFLICTS = [
    (Column("x", "integer", 0, 9), Column("x", "category", categories=("1", "2"))),
    (
        Column("x", "category", categories=("f",), recode={"F": "f"}),
        Column("x", "category", categories=("F", "f")),
    ),
    (
        Column("x", "category", categories=("a", "b"), recode={"c": "a"}),
        Column("x", "category", categories=("a", "b"), recode={"c": "b"}),
    ),
    (Column("x", "integer", 0, 9, missing=(-9,)), Column("x", "integer", -20, 9)),
    (Column("x", "number", 0, 9), Column("x", "number", unit=0.1)),
    (
        Column("x", "number", 0, 9, unit="12 decimals"),
        Column("x", "number", 0, 1e119, unit=1e107),
    ),
    (
        Column("x", "category", categories=("1.10",)),
        Column("x", "category", categories=("1.1",)),
    ),
]


@pytest.mark.parametrize("parts", CONFLICTS, ids=range(len(CONFLICTS)))
def test_a_contradiction_is_named_with_a_line_that_settles_it(parts):
    found = merged(*map(of, parts))
    conflict = found.conflicts["x"]
    assert "x" not in found.schema
    assert conflict.reason
    line = tomllib.loads(conflict.line)["x"]
    settled = Schema.from_table({"columns": {"x": line}})
    # With this line in both files nothing is left to settle.
    both = merged(of(*settled.columns), of(*settled.columns))
    assert not both.conflicts
    assert conflict.line in found.toml


def test_a_column_that_one_part_lacks_is_left_out_and_named():
    found = merged(of(Column("Age", "integer", 0, 9)), of(Column("age", "integer", 0)))
    assert found.schema.names == ("always",)
    assert "did you mean" in found.conflicts["age"].reason
    assert found.conflicts["Age"].line == dictionary_column_line(
        Column("Age", "integer", 0, 9)
    )


def test_dictionaries_without_a_common_column_are_refused():
    parts = [Schema((Column(name, "integer"),)) for name in "ab"]
    with refused("nothing-in-common"):
        merged(*parts)


def test_the_number_of_parts_is_bounded_before_work_is_done():
    class Many(dict):
        def __len__(self):
            return MOST_MERGED + 1

        def items(self):
            raise AssertionError("work was done")

        values = items

    with refused("too-many-dictionaries", mentions=("1,000",)):
        merge_dictionaries(Many())


@st.composite
def columns(draw, name="x"):
    kind = draw(st.sampled_from(["number", "integer", "date", "category"]))
    try:
        if kind == "category":
            levels = draw(st.permutations(["a", "b", "c", "1", "1.0"]))
            kept = draw(st.integers(1, 5))
            words = draw(st.sets(st.sampled_from(["a", "?", "A"]), max_size=2))
            recode = draw(
                st.dictionaries(
                    st.sampled_from(["A", "c", "z"]), st.sampled_from("abc"), max_size=2
                )
            )
            more = {"categories": tuple(levels[:kept]), "missing": tuple(words)}
            return Column(name, kind, recode=recode, **more)
        low = draw(st.none() | st.integers(-30, 10))
        high = draw(st.none() | st.integers(10, 50))
        law = draw(st.sampled_from([(), (1, 2)]))
        if kind == "date":
            unit = draw(st.sampled_from([None, 1, 7, 14]))
            since = draw(st.sampled_from(["2000-01-01", "2000-01-08", "2001-03-01"]))
            return Column(name, kind, low, high, unit=unit, since=since)
        units = [None, 1, 2, 5] if kind == "integer" else [None, 1, 0.5, "1/3", 0.01]
        return Column(
            name,
            kind,
            low,
            high,
            unit=draw(st.sampled_from(units)),
            cuts=draw(st.sampled_from([(), (10,), (5, 10)])),
            law=law,
            missing=tuple(draw(st.sets(st.sampled_from([-9, -40, "?"]), max_size=2))),
            recode=draw(st.sampled_from([{}, {"?": 10}, {"none": 10}])),
        )
    except InvalidInputError:
        return Column(name, "integer", 0, 10)


schemas = st.builds(
    lambda found, missing, least: Schema(
        (ALWAYS, *found), missing=missing, minimum_rows=least
    ),
    st.one_of(
        st.tuples(columns()),
        st.tuples(columns(), columns("y")),
        st.tuples(columns("y")),
        st.just(()),
    ),
    st.sampled_from(["drop", "refuse"]),
    st.integers(1, 9),
)


@given(st.lists(schemas, min_size=1, max_size=3))
@settings(max_examples=60)
def test_the_order_of_parts_does_not_matter(parts):
    found = merged(*parts).schema
    for order in permutations(parts):
        assert merged(*order).schema == found


@given(schemas, schemas, schemas)
@settings(max_examples=60)
def test_parts_may_be_merged_step_by_step(one, two, three):
    whole = merged(one, two, three).schema
    assert merged(merged(one, two).schema, three).schema == whole
    assert merged(one, merged(two, three).schema).schema == whole


@given(schemas)
def test_merging_with_itself_changes_nothing_that_can_be_agreed(one):
    found = merged(one, one)
    kept = tuple(c for c in one.columns if c.name not in found.conflicts)
    assert found.schema.columns == kept
    # Two spellings of one number, and numbers without a unit, are contradictions.
    for name in found.conflicts:
        column = one.column(name)
        assert not column.is_measured or column.is_category


@given(schemas)
def test_a_dictionary_is_read_from_its_text(one):
    text = dictionary_toml(one, ["a line\x1b[31m of\n a comment"], {"x": "note\nx = 1"})
    assert Schema.from_table(tomllib.loads(text)) == one
    assert "\x1b" not in text


cells = st.one_of(
    st.lists(st.integers(-50, 500), min_size=6, max_size=6),
    st.lists(st.floats(-50, 500).map(lambda x: round(x, 2)), min_size=6, max_size=6),
    st.sampled_from("abcd").map(lambda level: [level] * 6),
    st.dates().map(lambda day: [day.isoformat()] * 6),
)


@given(
    st.lists(st.fixed_dictionaries({"x": cells, "y": cells}), min_size=1, max_size=4)
)
@settings(max_examples=40)
def test_a_table_that_passes_its_own_draft_passes_the_merge(tables):
    drafts = [draft_dictionary({**t, "always": [0] * 6}).schema for t in tables]
    found = merged(*drafts).schema
    for table, own in zip(tables, drafts, strict=True):
        frame = pd.DataFrame({**table, "always": [0] * 6})
        assert not own.problems(frame)
        assert not found.problems(frame)


def test_units_are_written_as_people_write_them():
    for unit, text in ((Fraction(1, 10), "0.1"), (Fraction(1, 8), "0.125")):
        assert f"unit = {text}" in dictionary_column_line(
            Column("x", "number", unit=unit)
        )
    for unit in (Fraction(1, 10**9), Fraction(1, 3), Fraction(1, 2**20), Fraction(5)):
        line = dictionary_column_line(Column("x", "number", unit=unit))
        assert (
            Schema.from_table({"columns": tomllib.loads(line)}).column("x").unit == unit
        )
