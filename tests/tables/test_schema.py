"""The schema: what a table must look like, and what is said when it does not."""

import copy
import pickle
import re
import sys
import tomllib
import unicodedata
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import refusals
from cases import each
from veilsum.errors import InvalidInputError, SecretError
from veilsum.tables import columns
from veilsum.tables.columns import category_level_of_cell
from veilsum.tables.schema import CheckedTable, Column, Schema, SchemaError

TOML = """
[schema]
missing = "drop"
minimum_rows = 5
maximum_rows = 200
[schema.columns]
age = { kind = "number", minimum = 0, maximum = 120 }
sex = { kind = "category", categories = ["1", "2"] }
"""
AGE = Column("age", "number", 0, 120)
SEX = Column("sex", "category", categories=("1", "2"))
VISITS = Column("visits", "integer", 0)
SCHEMA = Schema((AGE, SEX, VISITS), missing="drop")


def table(**columns):
    base = {
        "age": [61.0, 58.0, 70.5, 44.0, 39.0, 80.0],
        "sex": ["1", "2", "2", "1", "1", "2"],
        "visits": [1, 2, 0, 4, 1, 9],
    }
    return pd.DataFrame({**base, **columns})


def refused(frame, schema=SCHEMA):
    with pytest.raises(SchemaError) as caught:
        schema.check("hospital-3", frame)
    error = caught.value
    assert error.party == "hospital-3"
    assert str(error).startswith("hospital-3: ")
    if error.column is not None:
        assert repr(error.column) in str(error)
    # Where others, or logs, may have it: no value and no number of rows.
    assert error.plain == f"refused by the schema: {error.rule}"
    return error


# Written down and read


def test_a_schema_is_read_from_toml():
    expected = Schema((AGE, SEX), missing="drop", minimum_rows=5, maximum_rows=200)
    whole = tomllib.loads(TOML)
    assert Schema.from_table(whole) == expected
    assert Schema.from_table(whole["schema"]) == expected


def test_the_same_agreement_has_the_same_table():
    whole = Column("sex", "category", categories=(1, 2.0))
    fresh = Schema((whole, Column("age", "number", -0.0, 120.0)), missing="drop")
    written = Schema((AGE, SEX), missing="drop").to_table()
    assert repr(fresh.to_table()) == repr(written)
    assert written == {
        "missing": "drop",
        "minimum_rows": 5,
        "columns": {
            "age": {"kind": "number", "minimum": 0.0, "maximum": 120.0},
            "sex": {"kind": "category", "categories": ["1", "2"]},
        },
    }


NOT_NAMES = (
    "'\"`\\[]\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f"
    "\u2039\u203a\u00ab\u00bb\u00b4"
)


# Texts that are names: what is refused has a test of its own.
def shape(name):
    """What a name looks like: no two of a schema look the same."""
    return unicodedata.normalize("NFKC", name).translate(columns._LATIN)


def is_name(text):
    try:
        Column(text, "number")
    except InvalidInputError:
        return False
    return True


names = (
    st.text(
        st.characters(exclude_categories=["C", "Z"], exclude_characters=NOT_NAMES)
        | st.just(" "),
        min_size=1,
        max_size=6,
    )
    .filter(lambda name: name == name.strip())
    .filter(is_name)
)


@each(
    "name",
    [
        *("age", "body mass", "body.fat", "größe", "BMI (kg/m²)", "50 %", "a/b", "1st"),
        *("年齢", "x:y", "a,b", "a=b", "#", "x" * 200),
    ],
)
def test_ordinary_names_are_names_and_levels(name):
    assert Column(name, "category", categories=(name, "b")).name == name


@each(
    "name",
    [
        "(60, 70]",
        "[60, 70)",
        "don't know",
        "Côte d\u2019Ivoire",
        "O'Brien",
        "",
        "> 3",
        "-1",
    ],
)
def test_what_tables_have_is_a_level(name):
    assert Column("a", "category", categories=(name,)).categories == (name,)


@each(
    ("name", "why"),
    [
        *((f"a{quote}", "has the character") for quote in "'\"`\u201c\u2019\\"),
        *((f"{quote}a", "has the character") for quote in "'\u2018\u00ab"),
        *(
            (f"a{odd}b", "cannot be seen")
            for odd in "\n\r\t\0\x1b\u202e\u200b\u2028\xa0"
        ),
        *((odd, "a space") for odd in (" a", "a ")),
        ("x" * 201, "longer than 200"),
    ],
)
def test_names_that_may_be_taken_for_something_else_are_refused(name, why):
    for made in (
        lambda: Column(name, "number"),
        lambda: Column("a", "category", categories=("b", name)),
        lambda: Schema.from_table({"columns": {name: {"kind": "number"}}}),
    ):
        with refusals.refused("not-plain-text", mentions=(why,)) as error:
            made()
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 300


@pytest.mark.parametrize("name", ["a[b", "a]", "don't"])
def test_a_column_has_neither_brackets_nor_an_apostrophe(name):
    with refusals.refused("not-plain-text"):
        Column(name, "number")


def test_a_name_is_a_text():
    with refusals.refused("not-text", mentions=("3",)):
        Column(3, "number")


def test_a_schema_is_bounded():
    many = tuple(map(str, range(10_001)))
    with refusals.refused("too-many-categories", mentions=("10,001", "10,000")):
        Column("a", "category", categories=many)
    with refusals.refused("too-many-columns", mentions=("10,000", "10,001")):
        Schema(tuple(Column(name, "number") for name in many))


# A range of 1e-200 has no unit that float64 can count in.
bounds = (
    st.none()
    | st.integers(-99, 99)
    | st.floats(-1e6, 1e6).filter(lambda bound: bound == 0 or abs(bound) > 1e-90)
)
units = st.none() | st.sampled_from(
    [1, 5, 0.01, 0.5, 0.1, "1/8", "3/7", "2 decimals", "0 decimals"]
)


@st.composite
def any_column(draw, name):
    if draw(st.booleans()):
        levels = draw(st.lists(names, min_size=1, max_size=4, unique_by=shape))
        return Column(name, "category", categories=tuple(levels))
    low, high = draw(bounds), draw(bounds)
    if low is not None and high is not None:
        low, high = min(low, high), max(low, high)
    kind = draw(st.sampled_from(["number", "integer"]))
    unit = draw(units if kind == "number" else st.sampled_from([None, 1, 5]))
    return Column(name, kind, low, high, unit=unit)


@st.composite
def schemas(draw):
    chosen = draw(st.lists(names, min_size=1, max_size=5, unique_by=shape))
    least = draw(st.integers(1, 9))
    return Schema(
        tuple(draw(any_column(name)) for name in chosen),
        missing=draw(st.sampled_from(["refuse", "drop"])),
        minimum_rows=least,
        maximum_rows=draw(st.none() | st.integers(least, 99)),
    )


@given(schemas(), st.randoms(use_true_random=False))
def test_a_schema_survives_its_table_in_any_order(schema, random):
    written = schema.to_table()
    shuffled = list(written["columns"].items())
    random.shuffle(shuffled)
    again = Schema.from_table({**written, "columns": dict(shuffled)})
    assert again == schema
    assert repr(again.to_table()) == repr(written)


@each(
    ("change", "why"),
    [
        ({"minimum_row": 3}, "did you mean 'minimum_rows'"),
        ({"missing": "ignore"}, "refuse and drop"),
        ({"minimum_rows": 0}, "1 or more, found 0"),
        ({"minimum_rows": 2.5}, "whole number"),
        ({"minimum_rows": True}, "whole number"),
        ({"maximum_rows": 3}, "5 or more, found 3"),
        ({"columns": {}}, "one column or more"),
        ({"columns": ["age"]}, r"\[schema.columns\]"),
        ({"columns": {"age": "number"}}, "must be a table"),
        ({"columns": {"age": {}}}, "age needs 'kind': number"),
        ({"columns": {"age": {"kind": "float"}}}, "number, integer, date, category"),
        ({"columns": {"age": {"kind": "number", "min": 0}}}, "mean 'minimum'"),
        ({"columns": {"age": {"kind": "number", "minimum": "0"}}}, "finite number"),
        ({"columns": {"age": {"kind": "number", "maximum": np.inf}}}, "finite number"),
        ({"columns": {"a": {"kind": "number", "minimum": True}}}, "finite number"),
        (
            {"columns": {"age": {"kind": "number", "minimum": 2, "maximum": 1}}},
            "minimum 2 is above the maximum 1",
        ),
        ({"columns": {"a": {"kind": "number", "categories": ["x"]}}}, "kind = "),
        ({"columns": {"a": {"kind": "category"}}}, "needs its categories"),
        ({"columns": {"a": {"kind": "category", "categories": "xy"}}}, "a list"),
        ({"columns": {"a": {"kind": "category", "minimum": 0}}}, "no minimum"),
        ({"columns": {"a": {"kind": "category", "categories": [1, "1"]}}}, "twice"),
        ({"columns": {"": {"kind": "number"}}}, "needs a name"),
        ({"columns": {"a": {"kind": "number", "unit": 0}}}, 'a number above 0, "1/8"'),
        ({"columns": {"a": {"kind": "number", "unit": "cents"}}}, "'a': unit must be"),
        (
            {"columns": {"a": {"kind": "number", "unit": "40 bits"}}},
            "share of its range",
        ),
        (
            {"columns": {"a": {"kind": "integer", "unit": 0.5}}},
            "must be one, found 0.5",
        ),
        (
            {"columns": {"a": {"kind": "category", "categories": ["x"], "unit": 1}}},
            "has no unit",
        ),
        (
            {"columns": {"a": {"kind": "number", "minimum": 0, "maximum": 1e300}}},
            "'a': unit must be between",
        ),
        (
            {
                "columns": {
                    "a": {
                        "kind": "number",
                        "minimum": 0,
                        "maximum": 1e119,
                        "unit": "1e-20",
                    }
                }
            },
            "agree on a coarser unit",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_schema_that_means_nothing_is_refused(change, why):
    good = tomllib.loads(TOML)["schema"]
    with pytest.raises(InvalidInputError, match=why):
        Schema.from_table({**good, **change})


def test_a_missing_section_is_named():
    with refusals.refused("section-expected", mentions=("[schema]",)):
        Schema.from_table({"schema": 3})
    with pytest.raises(InvalidInputError, match=r"a section \[schema.columns\]"):
        Schema.from_table({"missing": "drop"})


def test_two_columns_of_one_name_are_refused():
    with refusals.refused("duplicate-column", mentions=("age",)):
        Schema((AGE, SEX, AGE))


def test_a_column_is_found_by_name_or_its_nearest_is_named():
    assert SCHEMA.column("sex") is SEX
    assert "sex" in SCHEMA
    assert SCHEMA.categorical == ("sex",)
    with refusals.refused("unknown-column", mentions=("visits",)):
        SCHEMA.column("visit")


# Units


@each(
    ("column", "unit", "ends"),
    [
        (Column("a", "integer"), 1, (-(2**39), 2**39)),
        (Column("a", "integer", 0), 1, (0, 2**39)),
        (Column("a", "integer", 5, unit=2), 2, (2, 2 + 2**39)),
        (Column("a", "integer", None, -7), 1, (-7 - 2**39, -7)),
        (Column("a", "number", unit=0.01), Fraction(1, 100), (-(2**39), 2**39)),
        (Column("a", "number", 0, 2, unit="1/8"), Fraction(1, 8), (0, 16)),
        (Column("a", "number", 0, 2, unit="2 decimals"), Fraction(1, 100), (0, 200)),
        (Column("a", "number", 0, 100), Fraction(1, 2**33), (0, 100 * 2**33)),
        (
            Column("a", "number", 0, 100, unit="20 bits"),
            Fraction(1, 2**13),
            (0, 819200),
        ),
        (Column("a", "number", 0.25, 1.75, unit=1), 1, (0, 2)),
    ],
)
def test_what_is_counted_follows_from_the_agreement(column, unit, ends):
    found = column.measure
    assert (found.unit, (found.least, found.most)) == (unit, ends)


def test_numbers_that_nobody_said_how_to_count_are_refused():
    for column in (Column("a", "number"), Column("a", "number", 0)):
        assert not column.is_measured
        with refusals.refused("unit-missing", mentions=("a", "0.01")):
            Schema((column,)).check("a", {"a": [1.0] * 6})
    with refusals.refused("not-a-number-column"):
        _ = SEX.measure


def test_one_unit_has_one_spelling():
    spellings = [0.01, "0.01", "1/100", "2 decimals", "2/200"]
    tables = {str(Column("a", "number", unit=one).to_table()) for one in spellings}
    assert tables == {"{'kind': 'number', 'unit': '1/100'}"}


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (Column("a", "integer"), "integer, counted in 1"),
        (Column("a", "number", 0, unit=0.01), "number, 0 or more, counted in 0.01"),
        (
            Column("a", "number", 0, 100),
            "number, 0 to 100, counted in 2^-33 (40 bits of its range)",
        ),
        (Column("a", "number"), "number"),
        (SEX, "one of 1, 2"),
    ],
)
def test_a_column_is_described(column, words):
    assert column.words == words


counts = st.integers(-(10**6), 10**6)
any_unit = st.fractions(min_value=Fraction(1, 10**6), max_value=1000)


@given(any_unit, st.lists(counts, min_size=1, max_size=20), st.floats(-0.49, 0.49))
def test_values_become_whole_numbers_of_the_unit_once(unit, places, off):
    """Nearest, as exact rationals have it; what is whole already stays as it is."""
    schema = Schema((Column("x", "number", unit=unit),), minimum_rows=1)
    values = [float(place * unit) for place in places]
    checked = schema.check("a", {"x": values})
    np.testing.assert_allclose(checked.frame["x"], values, rtol=1e-15)
    again = schema.check("a", checked.frame)
    assert again.frame["x"].tolist() == checked.frame["x"].tolist()
    assert not again.n_rounded
    moved = [float((place + Fraction(off)) * unit) for place in places]
    found = schema.check("a", {"x": moved})
    assert found.frame["x"].tolist() == checked.frame["x"].tolist()
    measure = schema.column("x").measure
    assert measure.counts(found.numbers("x")).tolist() == places


def test_what_was_not_whole_is_counted_for_the_owner():
    columns = (Column("age", "number", 0, 120, unit=1), Column("bp", "number", 0, 9))
    frame = {"age": [61.5, 58, 70.25, None, 39, 80], "bp": [0.1, 1, 2, 3, 4, 0.5]}
    checked = Schema(columns, missing="drop").check("a", frame)
    assert checked.frame["age"].tolist() == [62, 58, 70, 39, 80]
    assert checked.n_rounded == {"age": 2, "bp": 1}
    assert checked.frame["bp"].tolist()[0] == pytest.approx(0.1, abs=2.0**-37)
    assert not Schema(columns[:1]).check("a", {"age": range(6)}).n_rounded


def test_values_are_refused_by_the_range_before_they_are_rounded():
    schema = Schema((Column("x", "number", 0.25, 1.75, unit=1),), minimum_rows=1)
    assert schema.check("a", {"x": [0.25, 1.75]}).frame["x"].tolist() == [0, 2]
    assert refused(pd.DataFrame({"x": [0.2]}), schema).rule == "range"


# A good table


def test_a_good_table_is_cleaned():
    checked = SCHEMA.check("a", table(extra="x", sex=[1, 2, 2, 1, 1, 2]))
    assert (checked.party, checked.n_rows, checked.n_dropped) == ("a", 6, 0)
    assert list(checked.frame.columns) == ["age", "sex", "visits"]
    assert checked.frame["age"].dtype == checked.frame["visits"].dtype == np.float64
    assert checked.frame["sex"].cat.categories.tolist() == ["1", "2"]
    assert checked.frame["sex"].tolist() == ["1", "2", "2", "1", "1", "2"]
    np.testing.assert_array_equal(checked.numbers("visits"), [1, 2, 0, 4, 1, 9])


def test_categories_are_those_of_the_schema_even_where_some_are_absent():
    schema = Schema((Column("site", "category", categories=("c", "b", "a")),))
    checked = schema.check("a", pd.DataFrame({"site": ["a"] * 5}))
    assert checked.frame["site"].cat.categories.tolist() == ["c", "b", "a"]
    assert checked.frame["site"].cat.codes.tolist() == [2] * 5


ONES_AND_TWOS = {
    "text": ["1", "2", None, "1"],
    "whole": [1, 2, None, 1],
    "floats": np.array([1.0, 2.0, np.nan, 1.0]),
    "objects": np.array([1, "2", None, 1.0], dtype=object),
    "categorical": pd.Categorical([1, 2, None, 1]),
    "categorical text": pd.Categorical(["1", "2", None, "1"], categories=["2", "1"]),
    "nullable": pd.array([1, 2, None, 1], dtype="Int64"),
    "strings": pd.array(["1", "2", None, "1"], dtype="string"),
    "decimals": [Decimal("1"), Decimal("2"), None, Decimal("1")],
}


@each("values", ONES_AND_TWOS.values(), ids=ONES_AND_TWOS)
def test_one_category_has_many_spellings(values):
    schema = Schema((SEX,), missing="drop", minimum_rows=1)
    checked = schema.check("a", pd.DataFrame({"sex": values}))
    assert checked.frame["sex"].tolist() == ["1", "2", "1"]
    assert checked.n_dropped == 1


@pytest.mark.parametrize(
    "values",
    [
        [True, False, True],
        np.array([True, False, True], dtype=object),
        pd.array([True, False, True], dtype="boolean"),
        pd.Categorical([True, False, True]),
        ["True", "False", "True"],
    ],
    ids=["bool", "object", "nullable", "categorical", "text"],
)
def test_booleans_are_the_categories_false_and_true(values):
    schema = Schema(
        (Column("ill", "category", categories=(False, True)),), minimum_rows=1
    )
    checked = schema.check("a", pd.DataFrame({"ill": values}))
    assert checked.frame["ill"].cat.codes.tolist() == [1, 0, 1]


def test_true_is_not_the_category_1_even_among_numbers():
    schema = Schema((Column("x", "category", categories=("1", "True")),))
    mixed = np.array([1, True, 1.0, "1", "True"], dtype=object)
    checked = schema.check("a", pd.DataFrame({"x": mixed}))
    assert checked.frame["x"].tolist() == ["1", "True", "1", "1", "True"]


NUMBERS = {
    "floats": np.array([1.5, np.nan, 3.0]),
    "single": np.array([1.5, np.nan, 3.0], dtype=np.float32),
    "objects": np.array([1.5, None, 3], dtype=object),
    "decimals": [Decimal("1.5"), None, Decimal("3")],
    "nullable": pd.array([1.5, None, 3.0], dtype="Float64"),
}


@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS)
def test_one_number_has_many_types(values):
    column = Column("x", "number", unit=0.5)
    schema = Schema((column,), missing="drop", minimum_rows=1)
    checked = schema.check("a", pd.DataFrame({"x": values}))
    assert checked.frame["x"].tolist() == [1.5, 3.0]
    assert checked.frame["x"].dtype == np.float64


def test_an_empty_column_is_missing_everywhere():
    frame = pd.DataFrame({"age": [None] * 6, "sex": [None] * 6, "visits": [None] * 6})
    assert refused(frame).rule == "minimum_rows"


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_rows_are_dropped_as_pandas_drops_them(gaps):
    schema = Schema((AGE, SEX), missing="drop", minimum_rows=1)
    frame = pd.DataFrame(
        {
            "age": [None if gap else float(i) for i, (gap, _) in enumerate(gaps)],
            "sex": [None if gap else str(1 + i % 2) for i, (_, gap) in enumerate(gaps)],
        },
        index=range(100, 100 + len(gaps)),
    )
    expected = frame.dropna()
    if expected.empty:
        assert refused(frame, schema).rule == "minimum_rows"
        return
    checked = schema.check("a", frame)
    assert checked.frame["age"].tolist() == expected["age"].tolist()
    assert checked.frame["sex"].tolist() == expected["sex"].tolist()
    assert checked.n_dropped == len(frame) - len(expected)
    assert checked.frame.index.tolist() == list(range(len(expected)))


def test_a_checked_table_does_not_follow_later_changes():
    frame = table()
    checked = SCHEMA.check("a", frame)
    frame.loc[0, "age"] = 99.0
    assert checked.frame["age"].iloc[0] == 61.0


def test_a_checked_table_keeps_its_rows_to_itself():
    checked = SCHEMA.check("a", table())
    assert isinstance(checked, CheckedTable)
    assert repr(checked) == "<CheckedTable: private>"
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(SecretError):
            escape(checked)


def test_a_category_is_not_taken_for_numbers():
    with refusals.refused("not-a-number-column", mentions=("sex",)):
        SCHEMA.check("a", table()).numbers("sex")


def test_other_tables_are_checked_as_well():
    columns = {name: values.tolist() for name, values in table().items()}
    pd.testing.assert_frame_equal(
        SCHEMA.check("a", columns).frame, SCHEMA.check("a", table()).frame
    )


# A bad table: the message is the whole help there is


def test_a_decimal_comma_is_recognised():
    error = refused(table(age=["61,5", "58", "70", "44", "39", "80"]))
    assert str(error) == (
        "hospital-3: column 'age' is text (for example \"61,5\"), the schema wants "
        'numbers; a decimal comma? read the file again with decimal = "," (veilsum '
        "join: --decimal ,)"
    )
    assert (error.column, error.rule) == ("age", "type")


@each(
    ("values", "found", "advice"),
    [
        (["61", "58", "unknown", "44", "39", "80"], '"unknown"', "cells .* empty"),
        (["61.5", "58", "70", "44", "39", "80"], '"61.5"', "numbers stored as text"),
        ([61, 58, "none", 44, 39, 80], '"none"', "cells .* empty"),
        ([True, False] * 3, "true or false", "0 and 1"),
        (pd.date_range("2020", periods=6), "dates", 'kind = "date" with since'),
        (["2020-01-31"] * 6, '"2020-01-31"', 'a date: agree on kind = "date"'),
        (["31.1.2020"] * 6, '"31.1.2020"', "looks like a date"),
        (["1/31/2020 10:30"] * 6, '"1/31/2020 10:30"', "looks like a date"),
        (pd.Categorical([1, 2, 3] * 2), '"1"', "convert"),
        ([1j] * 6, "1j", "empty"),
    ],
    ids=[
        *("word", "text", "mixed", "bool", "dates", "ISO", "with dots", "a time"),
        *("categorical", "complex"),
    ],
)
def test_a_wrong_type_is_described(values, found, advice):
    error = refused(table(age=values))
    assert (error.column, error.rule) == ("age", "type")
    assert found in str(error)
    assert re.search(advice, str(error))


def test_a_missing_column_is_named_with_the_nearest():
    error = refused(table().rename(columns={"visits": "Visits"}))
    assert (error.column, error.rule) == ("visits", "column")
    assert "did you mean 'Visits'" in str(error)


def test_fractions_among_whole_numbers_are_counted():
    error = refused(table(visits=[1, 2, 0.5, 4, 1.25, 9]))
    assert (error.column, error.rule) == ("visits", "whole")
    assert "2 numbers with a fraction" in str(error)
    assert error.problems[0].values == (("0.5", 1), ("1.25", 1))


def test_whole_numbers_beyond_the_exact_ones_are_refused():
    error = refused(table(visits=[1, 2, 0, 4, 1, 2**53 + 2]))
    assert error.rule == "whole"
    far = Schema((Column("visits", "integer", 0, 2**53),))
    far.check("a", table(visits=[1, 2, 0, 4, 1, 2**53]))


def test_without_an_agreed_range_counts_end_at_2_39():
    error = refused(table(visits=[1, 2, 0, 4, 1, 2**39 + 1]))
    assert (error.column, error.rule) == ("visits", "range")
    assert "1 value outside 0 to 5.49756e+11" in str(error)
    assert "agree on a minimum and maximum" in str(error)
    SCHEMA.check("a", table(visits=[1, 2, 0, 4, 1, 2**39]))


@pytest.mark.parametrize("wrong", [np.inf, -np.inf])
def test_infinite_numbers_are_refused(wrong):
    error = refused(table(age=[61, wrong, 70, np.nan, 39, 80]))
    assert (error.column, error.rule) == ("age", "finite")
    assert "1 infinite value" in str(error)


def test_values_out_of_range_are_counted_and_shown_to_the_owner():
    error = refused(table(age=[387.5, -7.25, 70, np.nan, 387.5, 80]))
    assert (error.column, error.rule) == ("age", "range")
    assert "3 values outside the agreed range of 0 to 120" in str(error)
    assert error.problems[0].values == (("387.5", 2), ("-7.25", 1))
    assert '"387.5" (2 rows), "-7.25" (1 row)' in str(error)
    assert "387" not in error.plain


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (Column("age", "number", 60, unit=0.5), "60 or more"),
        (Column("age", "number", None, 60, unit=0.5), "60 or less"),
    ],
)
def test_a_range_with_one_end_reads_well(column, words):
    assert words in str(refused(table(), Schema((column,))))


def test_the_ends_of_a_range_belong_to_it():
    SCHEMA.check("a", table(age=[0, 120, 0, 120, 0, 120]))


def test_unknown_categories_are_shown_with_their_rows():
    error = refused(table(sex=["1", "2", "male", "female", "female", "2"]))
    assert (error.column, error.rule) == ("sex", "category")
    assert '"female" (2 rows), "male" (1 row), 3 rows in all' in str(error)
    assert error.problems[0].values == (("female", 2), ("male", 1))
    assert '"1", "2"' in str(error)


def test_lost_zeros_are_recognised():
    schema = Schema((Column("zip", "category", categories=("01", "02")),))
    error = refused(pd.DataFrame({"zip": [1, 2, 1, 2, 1]}), schema)
    assert "text = ['zip']" in str(error)


def test_missing_values_are_counted_where_they_are_refused():
    frame = table(age=[61, None, 70, 44, None, 80], sex=["1", None, "2", "1", "1", "2"])
    error = refused(frame, Schema(SCHEMA.columns, missing="refuse"))
    assert (error.column, error.rule) == ("age", "missing")
    assert "2 rows with missing values (2 in column 'age')" in str(error)
    assert 'missing = "drop"' in str(error)


def test_too_few_rows_are_not_sent():
    error = refused(table(age=[61, None, 70, 44, None, 80]))
    assert (error.column, error.rule) == (None, "minimum_rows")
    assert "4 rows to use (2 dropped for missing values)" in str(error)
    assert "at least 5" in str(error)
    assert str(error).endswith("Not sent.")


def test_too_many_rows_are_refused():
    error = refused(table(), Schema(SCHEMA.columns, maximum_rows=5))
    assert error.rule == "maximum_rows"
    assert "at most 5" in str(error)
    Schema(SCHEMA.columns, maximum_rows=6).check("a", table())


def test_parties_below_the_minimum_are_listed():
    rows = {"a": 4, "b": 5, "c": 0}
    assert SCHEMA.refused(rows) == ("a", "c")
    assert SCHEMA.refused({}) == ()


@given(st.integers(-(2**70), 2**70))
def test_whole_numbers_are_spelt_as_integers(number):
    assert category_level_of_cell(number) == str(number)
    if abs(number) < 2**53:
        assert (
            category_level_of_cell(float(number))
            == category_level_of_cell(np.float64(number))
            == str(number)
        )


# From tables, for simulations


def test_a_schema_is_inferred_from_all_tables():
    frames = {
        "a": pd.DataFrame({"x": [1, 2], "s": ["u", "w"], "b": [True, False]}),
        "b": pd.DataFrame({"x": [1.5] * 7, "s": ["v"] * 7, "b": [True] * 7}),
    }
    schema = Schema.inferred(frames)
    assert schema == Schema(
        (
            Column("x", "number", 1, 2, unit=0.1),
            Column("s", "category", categories=("u", "v", "w")),
            Column("b", "category", categories=("False", "True")),
        ),
        missing="drop",
        maximum_rows=7,
    )
    chosen = Schema.inferred({"a": frames["a"]}, ["x"], minimum_rows=1)
    assert chosen == Schema(
        (Column("x", "integer", 1, 2),), missing="drop", minimum_rows=1, maximum_rows=2
    )


def test_ranges_and_decimals_are_those_of_all_rows_whoever_has_them():
    pooled = pd.DataFrame(
        {
            "cents": [0.07, 1.25, 3.0, 12.5, 2.0, 7.0],
            "real": [np.pi, 2.0, 1 / 3, 5.0, 1.0, 0.5],
            "n": [3, 1, 4, 1, 5, 9],
            "gap": [1.5, np.nan, 2.5, np.nan, np.inf, -3.0],
        }
    )
    one = Schema.inferred({"a": pooled[:2], "b": pooled[2:]}).columns
    other = Schema.inferred({"a": pooled[::-1][:1], "b": pooled[::-1][1:]}).columns
    assert one == other
    found = {column.name: column for column in one}
    assert found["cents"] == Column("cents", "number", 0.07, 12.5, unit=0.01)
    assert found["real"].unit == Fraction(1, 2**37)
    assert found["n"] == Column("n", "integer", 1, 9)
    assert found["gap"] == Column("gap", "number", -3.0, 2.5, unit=0.1)


def test_a_simulation_fills_in_what_was_not_agreed_on():
    agreed = Schema((Column("x", "number"), Column("y", "number", 0), AGE, SEX, VISITS))
    frames = {
        "a": {"x": [0.5, 2], "y": [1.25, 3]},
        "b": {"x": ["no number"], "y": [7.0]},
        "c": {},
    }
    tables = {party: pd.DataFrame(one) for party, one in frames.items()}
    found = agreed.measured(tables)
    assert found.column("x") == Column("x", "number", 0.5, 2, unit=0.1)
    assert found.column("y") == Column("y", "number", 0, 7, unit=0.01)
    assert found.column("age") is AGE
    assert agreed.measured({}).column("x").measure.reach == 0


def test_an_inferred_schema_fits_its_tables():
    frames = {
        "a": table(sex=pd.Categorical(["f", "m"] * 3, categories=["f", "m", "x"])),
        "b": table(sex=[None, "f", "f", "f", "f", "f"]),
    }
    schema = Schema.inferred(frames)
    assert schema.column("sex").categories == ("f", "m")
    assert [schema.check(p, f).n_rows for p, f in frames.items()] == [6, 5]


def test_an_empty_column_fits_what_the_others_have():
    frames = {"a": pd.DataFrame({"x": [None]}), "b": pd.DataFrame({"x": ["u"]})}
    assert Schema.inferred(frames).column("x").categories == ("u",)


@each(
    ("frames", "columns", "why"),
    [
        ({}, None, "one table or more"),
        ({"a": {"x": [1]}, "b": {"y": [1]}}, None, "b has no column 'x'"),
        ({"a": {"x": [1]}, "b": {"x": ["u"]}}, None, "whole numbers at a and text at"),
        ({"a": {"x": [None]}}, None, "empty in every table"),
        (
            {"a": {"x": pd.date_range("2020", periods=2)}, "b": {"x": [1, 2]}},
            *(None, "dates at a and whole numbers at b"),
        ),
        ({"a": {"x": [1]}}, ["z"], "no column 'z'"),
        ({"a": {"x": [1]}}, "x", "list of names"),
        ({"a": {"x": [1]}}, [], "one column or more"),
    ],
    ids=["none", "other", "kinds", "empty", "dates", "unknown", "word", "no columns"],
)
def test_what_fits_no_schema_is_refused(frames, columns, why):
    with pytest.raises(InvalidInputError, match=why):
        Schema.inferred(frames, columns)


def calls(work):
    """Return how many calls Python sees, those of built-in functions too."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("gap", [1.0, np.nan], ids=["whole", "with gaps"])
def test_a_check_does_not_go_row_by_row(gap):
    schema = Schema((AGE, SEX, VISITS), missing="drop")

    def checked(n_rows):
        age, visits = np.arange(n_rows) % 100.0, np.arange(n_rows) % 7
        age[3::10] *= gap
        sex = np.where(visits > 3, "1", "2")
        frame = pd.DataFrame({"age": age, "sex": sex, "visits": visits})
        schema.check("a", frame)  # the first time something may be imported
        return calls(lambda: schema.check("a", frame))

    assert checked(20_000) <= checked(100) + 50


@pytest.mark.parametrize(
    ("levels", "held"),
    [
        (("1.1", "1.10", "x"), [1.1, 1.1]),
        (("1", "01"), [1, 1]),
        (("9007199254740992", "9007199254740993"), [9007199254740993.0, np.nan]),
    ],
)
def test_categories_that_are_one_number_are_text(levels, held):
    """A row's category never depends on what else is in the table."""
    column = Column("code", "category", categories=levels)
    schema = Schema((column,), minimum_rows=1, missing="drop")
    with refusals.refused("categories-same-number", SchemaError):
        schema.check("north", pd.DataFrame({"code": held}))
    found = schema.check("north", pd.DataFrame({"code": list(levels)}))
    assert found.frame["code"].tolist() == list(levels)


@each(
    ("names", "why"),
    [
        (["a\u3164"], "cannot be seen"),
        (["a\ufe0f"], "cannot be seen"),
        (["e\u0301"], "letters or accents"),
        (["a" + "\u0316" * 9], "letters or accents"),
        (["\u0430ge"], "two alphabets"),  # a Cyrillic a
        (["s\u03bfx"], "two alphabets"),  # a Greek o
        (["s", "\u0455"], "look the same"),
        (["sex", "\uff53\uff45\uff58"], "look the same"),
    ],
)
def test_names_and_levels_are_what_they_look_like(names, why):
    number = {"kind": "number", "unit": 1}
    with pytest.raises(InvalidInputError, match=why) as refusal:
        Schema.from_table({"columns": dict.fromkeys(names, number)})
    assert str(refusal.value).isprintable()
    line = {"kind": "category", "categories": names}
    with pytest.raises(InvalidInputError, match=why):
        Schema.from_table({"columns": {"a": line}})


def test_names_of_any_one_alphabet_are_taken():
    number = {"kind": "number", "unit": 1}
    names = ["\u00e2ge", "\u0432\u043e\u0437\u0440\u0430\u0441\u0442", "\u03b1"]
    names += ["m\u00b2", "\u00b5g", "\u5e74\u9f84", "caf\u00e9", "\u03b1_1", "a", "sex"]
    found = Schema.from_table({"columns": dict.fromkeys(names, number)})
    assert set(found.names) == set(names)


# Dates

SEEN = Column("seen", "date", "1999-12-30", "2020-12-31", since="2000-01-01")
DAYS = ["2000-01-01", "2000-03-01", None, "1999-12-31", "2020-12-31", "2000-02-29"]


@pytest.mark.parametrize(
    "values",
    [
        DAYS,
        pd.to_datetime(DAYS),
        [None if one is None else date.fromisoformat(one) for one in DAYS],
        pd.Categorical(DAYS),
        pd.Series(DAYS, dtype="string"),
    ],
    ids=["text", "pandas", "python", "categories", "strings"],
)
def test_dates_are_counted_as_days_since_the_agreed_one(values):
    schema = Schema((SEEN,), missing="drop")
    found = schema.check("a", pd.DataFrame({"seen": values}))
    assert found.frame["seen"].tolist() == [0, 60, -1, 7670, 59]
    assert (found.n_dropped, found.n_rounded) == (1, {})


def test_dates_are_agreed_on_by_dates():
    line = {"kind": "date", "since": date(2000, 1, 1), "minimum": "1999-12-30"}
    line |= {"maximum": date(2020, 12, 31), "unit": "days"}
    column = Schema.from_table({"columns": {"seen": line}}).column("seen")
    assert (column.minimum, column.maximum, column.measure.unit) == (-2, 7670, 1)
    assert column.words == (
        "date, 1999-12-30 to 2020-12-31, counted in days since 2000-01-01"
    )
    table = Schema((column,)).to_table()
    assert table["columns"]["seen"] == {
        "kind": "date",
        "since": "2000-01-01",
        "minimum": "1999-12-30",
        "maximum": "2020-12-31",
        "unit": "1",
    }
    assert Schema.from_table(table).column("seen") == column
    weekly = Column("seen", "date", since="2000-01-01", unit="7 days")
    assert weekly.words == "date, counted in 7 days since 2000-01-01"
    days = ["2000-01-03", "2000-01-08", "2000-01-11", "2000-01-12", "2000-01-15"]
    found = Schema((weekly,)).check("a", {"seen": days})
    assert found.frame["seen"].tolist() == [0, 7, 7, 14, 14]
    assert found.n_rounded == {"seen": 3}


@each(
    ("line", "why"),
    [
        ({"kind": "date"}, "such as since = .*found none"),
        ({"kind": "date", "since": "1.1.2000"}, "found '1.1.2000'"),
        ({"kind": "date", "since": 2000}, "found 2000"),
        ({"kind": "integer", "since": "2000-01-01"}, "its kind is 'integer'"),
        ({"kind": "date", "since": "2000-01-01", "minimum": "soon"}, "'soon'"),
        ({"kind": "date", "since": "2000-01-01", "unit": 0.5}, "whole days"),
        ({"kind": "date", "since": "2000-01-01", "minimum": 10**9}, "must be one"),
        (
            {**SEEN.to_table(), "minimum": "2021-01-01"},
            "2021-01-01 is above the maximum 2020-12-31",
        ),
    ],
)
def test_dates_that_mean_nothing_are_refused(line, why):
    with pytest.raises(InvalidInputError, match=why):
        Schema.from_table({"columns": {"seen": line}})


@pytest.mark.parametrize(
    ("value", "rule", "why"),
    [
        ("31.12.2000", "type", r'"31.12.2000" \(1 row\).* --dates'),
        ("2001-02-29", "type", '"2001-02-29"'),
        ("20000131", "type", '"20000131"'),
        (730, "type", 'agree on kind = "integer"'),
        (pd.Timestamp("2000-01-31 10:00"), "type", "leave the time of day out"),
        ("2021-01-01", "range", "outside the agreed range of 1999-12-30 to 2020-12-31"),
    ],
)
def test_what_is_no_date_is_refused_with_the_reason(value, rule, why):
    schema = Schema((SEEN,), minimum_rows=1)
    error = refused(pd.DataFrame({"seen": [value]}), schema)
    assert error.rule == rule
    assert re.search(why, str(error))


def test_a_simulation_knows_dates_where_it_sees_them():
    """The twin: with texts that are none at another party they are no column."""
    frames = {
        "a": {"x": ["2000-01-05", None]},
        "b": {"x": ["1969-12-31", "1970-01-02"]},
    }
    column = Schema.inferred(frames).column("x")
    assert column == Column("x", "date", -1, 10961, since="1970-01-01")
    stamps = {party: {"x": pd.to_datetime(t["x"])} for party, t in frames.items()}
    assert Schema.inferred(stamps).column("x") == column
    with refusals.refused("kind-not-inferred"):
        Schema.inferred({**frames, "c": {"x": ["in spring"]}})
    with refusals.refused("not-iso-dates"):
        Schema.inferred({**frames, "c": {"x": ["31.12.2001", None]}})
    versions = Schema.inferred({"a": {"x": ["1.2.3", "1.10.3"]}}).column("x")
    assert versions.kind == "category"
    # Categories are what their owner calls them.
    levels = pd.Categorical(["31.12.2001", "1.1.2002"])
    column = Schema.inferred({"a": {"x": levels}}).column("x")
    assert column.categories == ("1.1.2002", "31.12.2001")
