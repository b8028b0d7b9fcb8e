"""A drafted schema: it fits the table, and has no value of it."""

import re
import tomllib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from refusals import refused
from veilsum.tables.drafts import TELLS_LEVELS, draft_schema
from veilsum.tables.schema import Schema

TABLE = {
    "age": [37, 61, 45, 83],
    "bmi": [37.7, 22.5, 31.0, 27.3],
    "change": [-3.25, 1.5, 0.75, -0.25],
    "hiv": [0, 1, 0, 0],
    "seen": ["2011-03-07", "2019-11-23", None, "2014-02-28"],
    "ward": ["north", "south", "north", None],
    "body mass": [61.234567891, 72.1, 80.0, 90.0],
    "nothing": [None] * 4,
}


def lines(found):
    return tomllib.loads(found.toml)["schema"]["columns"]


def test_a_draft_has_names_kinds_units_and_wide_ranges():
    found = draft_schema(TABLE)
    assert lines(found) == {
        "age": {"kind": "integer", "minimum": 0, "maximum": 100},
        "bmi": {"kind": "number", "minimum": 0, "maximum": 50, "unit": 0.1},
        "change": {"kind": "number", "minimum": -5, "maximum": 2, "unit": 0.01},
        "hiv": {"kind": "integer", "minimum": 0, "maximum": 10},
        "seen": {
            "kind": "date",
            "since": "2000-01-01",
            "minimum": "2010-01-01",
            "maximum": "2019-12-31",
        },
        "ward": {"kind": "category", "categories": []},
        "body mass": {
            "kind": "number",
            "minimum": 0,
            "maximum": 100,
            "unit": "9 decimals",
        },
    }
    assert "# nothing = { }  # there is no value of it" in found.toml
    assert TELLS_LEVELS not in found.toml


def test_levels_are_listed_only_if_asked_and_it_is_said_what_that_tells():
    plain, listed = draft_schema(TABLE), draft_schema(TABLE, levels=True)
    for word in ("north", "south"):
        assert word not in plain.toml
        assert word in listed.toml
    assert f"# - {TELLS_LEVELS}" in listed.toml
    # The twin: with its levels the draft is a schema, and the table passes it.
    schema = Schema.from_table(tomllib.loads(listed.toml))
    assert schema.check("a", pd.concat([pd.DataFrame(TABLE)] * 5)).n_rows == 10
    with refused("categories-missing", Exception):
        Schema.from_table(tomllib.loads(plain.toml))


numbers = st.lists(
    st.one_of(
        st.integers(-(10**9), 10**9),
        st.integers(0, 30),
        st.decimals(-(10**5), 10**5, places=2).map(float),
    ),
    min_size=1,
    max_size=8,
)


@given(numbers)
@settings(max_examples=60)
def test_no_end_of_a_range_is_a_value_and_every_value_is_within(values):
    (line,) = lines(draft_schema({"x": values})).values()
    low, high = line["minimum"], line["maximum"]
    assert low <= min(values)
    assert max(values) < high
    for end in (low, high):
        assert end == 0 or end not in values
        digits = re.sub(r"[-.0]|e.*", "", repr(end))
        assert digits in {"", "1", "2", "5"}
    assert low == 0 or low < min(values)
    Schema.from_table({"minimum_rows": 1, "columns": {"x": line}}).check(
        "a", {"x": values}
    )


@given(st.integers(50, 99), st.integers(50, 99), st.integers(0, 9))
@settings(max_examples=30)
def test_tables_of_the_same_size_have_the_same_draft(largest, other, small):
    """The twin: one that goes further has another."""
    few = [draft_schema({"x": [one, small]}) for one in (largest, other)]
    assert few[0] == few[1]
    assert draft_schema({"x": [largest + 50, small]}) != few[0]


@pytest.mark.parametrize("day", ["2010-01-01", "2019-12-31", "2000-02-29"])
def test_no_end_of_a_range_is_a_date(day):
    (line,) = lines(draft_schema({"x": [day]})).values()
    assert line["minimum"] < day < line["maximum"]


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("note", [f"text {k}" for k in range(50)], "a name or a remark"),
        ("it's", [1, 2], "plain text without quotes"),
        ("x", np.array([np.inf, np.inf]), "agree on a unit"),
    ],
)
def test_what_no_schema_can_have_is_left_to_its_owner(name, values, why):
    found = draft_schema({name: values})
    assert why in found.toml
    assert "text 1" not in found.toml
