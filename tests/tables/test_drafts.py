"""A drafted schema: it fits the table, and has no value of it."""

import re
import tomllib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from veilsum.tables.drafts import LEAST_ROWS, draft_dictionary
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
    found = draft_dictionary(TABLE)
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
        "body mass": {
            "kind": "number",
            "minimum": 0,
            "maximum": 100,
            "unit": "9 decimals",
        },
    }
    assert "# nothing = { }  # there is no value of it" in found.toml
    assert "# ward = { }  # no level has 5 rows" in found.toml


def test_levels_are_listed_that_enough_rows_have():
    few, many = ["rare"] * (LEAST_ROWS - 1), ["often"] * LEAST_ROWS
    found = draft_dictionary({"ward": [*few, *many, None]})
    assert lines(found)["ward"]["categories"] == ["often"]
    assert "rare" not in found.toml
    # The twin: one row more, and it is listed.
    more = draft_dictionary({"ward": [*few, "rare", *many]})
    assert lines(more)["ward"]["categories"] == ["often", "rare"]
    # Whether there are rare levels is not told.
    without = draft_dictionary({"ward": [*many, None]})
    assert without.toml == found.toml


def test_a_draft_is_a_schema_that_its_table_passes():
    table = pd.concat([pd.DataFrame(TABLE)] * 5)
    drafted = draft_dictionary(table)
    schema = Schema.from_table(tomllib.loads(drafted.toml))
    assert schema == drafted.schema
    assert schema.check("a", table).n_rows == 10


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
    (line,) = lines(draft_dictionary({"x": values})).values()
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
    few = [draft_dictionary({"x": [one, small]}) for one in (largest, other)]
    assert few[0] == few[1]
    assert draft_dictionary({"x": [largest + 50, small]}) != few[0]


@pytest.mark.parametrize("day", ["2010-01-01", "2019-12-31", "2000-02-29"])
def test_no_end_of_a_range_is_a_date(day):
    (line,) = lines(draft_dictionary({"x": [day]})).values()
    assert line["minimum"] < day < line["maximum"]


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("note", [f"text {k}" for k in range(50)], "a name or a remark"),
        ("it's", [1, 2], "plain text without quotes"),
        ("x", np.array([np.inf, np.inf]), "agree on a unit"),
        ("x", ["2001-02-30"], "a day that is none"),
        ("x", pd.to_datetime(["2001-02-03 10:00"]), "a time of day"),
    ],
)
def test_what_no_schema_can_have_is_left_to_its_owner(name, values, why):
    found = draft_dictionary({name: values})
    assert why in found.toml
    assert "text 1" not in found.toml
