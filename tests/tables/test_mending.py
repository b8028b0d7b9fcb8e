"""All problems of a table at once, and lines with which the table passes."""

import tomllib

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from veilsum.tables.columns import Column
from veilsum.tables.dictionaries import dictionary_toml
from veilsum.tables.mending import table_report, table_report_lines
from veilsum.tables.schema import Schema

DICTIONARY = """
[schema]
missing = "refuse"
minimum_rows = 3
maximum_rows = 4

[schema.columns]
age = { kind = "integer", minimum = 0, maximum = 120 }
bmi = { kind = "number", minimum = 10, maximum = 80, unit = 0.1 }
seen = { kind = "date", since = "2000-01-01", maximum = "2019-12-31" }
sex = { kind = "category", categories = ["f", "m"] }
ward = { kind = "category", categories = ["01", "02"] }
gone = { kind = "integer" }
good = { kind = "integer", minimum = 0, maximum = 9 }
"""
TABLE = {
    "age": [61, -9, 45.5, 300, 40, 50],
    "bmi": [22.5, "n/a", 85.5, 27.25, 31, 27],
    "seen": ["2011-03-07", "soon", "2031-01-02", "2011-03-07", None, "2012-01-01"],
    "sex": ["F", "f", "x", "m ", "f", "f"],
    "ward": [1, 2, 1, 1, 1, 1],
    "good": [1, 2, 3, 4, 5, 6],
}


def applied(text, report):
    """A dictionary's text after every proposed line was written into it."""
    lines = text.splitlines()
    for one in report.columns:
        for line in one.line.splitlines():
            key = line.removeprefix("# ").partition(" = ")[0]
            place = [
                place
                for place, old in enumerate(lines)
                if old.removeprefix("# ").partition(" = ")[0] == key
            ]
            assert len(place) == 1, (line, lines)
            lines[place[0]] = line
    return "\n".join(lines)


def checked(text, table):
    return table_report(Schema.from_table(tomllib.loads(text)), table)


def test_every_problem_is_listed_once_with_values_and_rows():
    report = checked(DICTIONARY, TABLE)
    found = {
        one.name: [(problem.code, problem.values) for problem in one.problems]
        for one in report.columns
    }
    assert found["age"] == [
        ("not-whole", (("45.5", 1),)),
        ("value-out-of-range", (("-9", 1), ("300", 1))),
    ]
    assert [code for code, _ in found["bmi"]] == ["not-numbers", "value-out-of-range"]
    assert found["bmi"][0][1] == (("n/a", 1),)
    assert [values for _, values in found["seen"]] == [
        (("soon", 1),),
        (("2031-01-02", 1),),
    ]
    assert found["sex"] == [("unknown-category", (("F", 1), ("m ", 1), ("x", 1)))]
    assert found["ward"] == [("unknown-category", (("1", 5), ("2", 1)))]
    assert [code for code, _ in found["gone"]] == ["missing-column"]
    assert "good" not in found
    assert [code for code, _ in found[""]] == ["missing-values", "too-many-rows"]


def test_every_proposed_line_together_leaves_no_problem():
    report = checked(DICTIONARY, TABLE)
    lines = {one.name: one.line for one in report.columns}
    assert 'recode = { "F" = "f", "m " = "m" }' in lines["sex"]
    assert 'categories = ["f", "m", "x"]' in lines["sex"]
    assert 'recode = { "1" = "01", "2" = "02" }' in lines["ward"]
    assert 'missing = ["n/a"]' in lines["bmi"]
    assert 'missing = ["-9"]' in lines["age"]
    assert lines["gone"].startswith("# gone = ")
    again = checked(applied(DICTIONARY, report), TABLE)
    assert again.good, list(table_report_lines(again))


def test_the_lines_are_needed():
    """The twin: with any one line left out, its column's problems are back."""
    report = checked(DICTIONARY, TABLE)
    for left in (one for one in report.columns if one.name):
        rest = type(report)(
            tuple(one for one in report.columns if one is not left), None
        )
        again = checked(applied(DICTIONARY, rest), TABLE)
        assert left.name in {one.name for one in again.columns}


def test_a_spelling_that_could_mean_two_levels_becomes_a_level():
    column = Column("x", "category", categories=("f", "F", "01", "1", "m"))
    schema = Schema((column,), missing="drop", minimum_rows=1)
    table = {"x": ["001", "M", "m", "5`"]}
    report = table_report(schema, table)
    (one,) = report.columns
    assert 'categories = ["f", "F", "01", "1", "m", "001"]' in one.line
    assert 'recode = { "M" = "m" }' in one.line
    # A text that cannot be a level is proposed as a word for a missing value.
    assert 'missing = ["5`"]' in one.line
    assert checked(applied(dictionary_toml(schema), report), table).good


def test_a_table_that_fits_has_no_problem():
    report = checked(DICTIONARY, {"age": [1], "good": [1]})
    assert not report.good
    fitting = Schema((Column("good", "integer", 0, 9),), minimum_rows=1)
    assert table_report(fitting, TABLE).good


cells = st.one_of(
    st.none(),
    st.integers(-(2**60), 2**60),
    st.integers(-20, 200),
    st.floats(allow_nan=False),
    st.booleans(),
    st.sampled_from([10**300, -(10**300), 5e-324]),
    st.sampled_from(["", " ", "f", "F", "01", "1", "1.0", "1,5", "-9", "NA", "inf"]),
    st.sampled_from(["2011-01-01", "31.12.2011", "2011-02-31", "0001-01-01"]),
    st.text(max_size=6),
)
hostile = st.lists(cells, min_size=1, max_size=8)
agreed = st.sampled_from(
    [
        Column("x", "integer", 0, 9),
        Column("x", "integer"),
        Column("x", "number", 0, 9, unit=0.5, missing=("?",)),
        Column("x", "number", 0, unit=1, cuts=(5,)),
        Column("x", "number", 0, 9, cuts=(5,), law=(1, 2)),
        Column("x", "date", "2010-01-01", "2011-01-01", since="2000-01-01"),
        Column("x", "date", since="2000-01-01"),
        Column("x", "category", categories=("f", "m"), recode={"F": "f"}, law=(1, 1)),
        Column("x", "category", categories=("1", "01")),
    ]
)


@given(agreed, hostile, st.sampled_from(["drop", "refuse"]), st.integers(1, 9))
@settings(max_examples=60)
def test_hostile_cells_are_listed_and_mended(column, values, missing, least):
    good = Column("good", "integer", 0, 9)
    schema = Schema((column, good), missing=missing, minimum_rows=least)
    table = {"x": pd.Series(values, dtype=object), "good": [1] * len(values)}
    report = table_report(schema, table)
    for line in table_report_lines(report):
        assert all(part.isprintable() for part in line.split("\n"))
    again = checked(applied(dictionary_toml(schema), report), table)
    if report.mended is None:
        # Nothing is left of the table: its rows lack a value, whatever is agreed.
        assert {one.name for one in again.columns} <= {""}
        assert not report.mended
    else:
        assert again.good, list(table_report_lines(again))


@pytest.mark.parametrize("kind", ["number", "category"])
def test_a_column_of_many_different_texts_is_listed_in_few_lines(kind):
    levels = {"categories": ("a",)} if kind == "category" else {"unit": 1}
    schema = Schema((Column("x", kind, **levels), Column("y", "integer", 0, 9)))
    table = {"x": [f"text {k}" for k in range(20_000)], "y": [1] * 20_000}
    report = table_report(schema, table)
    (one,) = report.columns
    (problem,) = one.problems
    assert (problem.n_values, len(problem.values)) == (20_000, 100)
    assert len(problem.message) < 1000
    assert one.line.startswith("# x = ")
    assert not checked(applied(dictionary_toml(schema), report), table).columns
