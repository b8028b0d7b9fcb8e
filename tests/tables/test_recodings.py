"""Values that parties agreed to recode, cut points and laws of columns."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from row_laws import row_entropy
from veilsum.disclosure.laws import DisclosedRowLaw
from veilsum.errors import InvalidInputError
from veilsum.tables.asked import TableQuestion
from veilsum.tables.columns import Column
from veilsum.tables.schema import Schema, SchemaError, changed_values_lines

SEX = Column(
    "sex",
    "category",
    categories=("f", "m"),
    recode={"F": "f", "female": "f", " m": "m", 1: "f"},
    missing=("", "?", -9),
)
AGE = Column("age", "integer", 0, 120, missing=(-9, "unknown"), recode={"none": 0})
SEEN = Column(
    "seen",
    "date",
    "2000-01-01",
    "2030-12-31",
    since="2000-01-01",
    missing=("9999-12-31",),
    recode={"new year": "2010-01-01"},
)
SCHEMA = Schema((SEX, AGE, SEEN), missing="drop", minimum_rows=1)
TABLE = {
    "sex": ["F", "female", " m", "m", "?", "f"],
    "age": [61, -9.0, "unknown", "none", 40, 70],
    "seen": ["2010-01-01", "2010-01-02", "9999-12-31", "new year", "2011-01-01", None],
}


def test_a_table_is_read_with_the_agreed_recodings():
    found = SCHEMA.check("north", TABLE)
    assert list(found.frame["sex"]) == ["f", "m"]
    assert found.frame["age"].tolist() == [61.0, 0.0]
    assert found.frame["seen"].tolist() == [3653.0, 3653.0]
    assert found.n_dropped == 4
    assert found.n_recoded == {
        "age": {"-9": 1, "none": 1, "unknown": 1},
        "seen": {"9999-12-31": 1, "new year": 1},
        "sex": {"F": 1, "female": 1, " m": 1, "?": 1},
    }


def test_without_the_recodings_the_same_values_are_refused():
    plain = Schema(
        (
            Column("sex", "category", categories=("f", "m")),
            Column("age", "integer", 0, 120),
            Column("seen", "date", "2000-01-01", "2030-12-31", since="2000-01-01"),
        ),
        missing="drop",
        minimum_rows=1,
    )
    problems = plain.problems(TABLE)
    assert {one.column for one in problems} == {"sex", "age", "seen"}
    by_code = {one.code: dict(one.values) for one in problems if one.column != "seen"}
    assert by_code["unknown-category"] == {"F": 1, "female": 1, " m": 1, "?": 1}
    assert by_code["not-numbers"] == {"unknown": 1, "none": 1}
    assert by_code["value-out-of-range"] == {"-9": 1}
    dates = [dict(one.values) for one in problems if one.column == "seen"]
    assert dates == [{"new year": 1}, {"9999-12-31": 1}]


def test_all_problems_are_in_one_error_and_its_plain_text_has_no_value():
    with pytest.raises(SchemaError) as caught:
        Schema((AGE, SEX)).check("north", {"age": [-3, 500, 0.5], "sexe": ["f"] * 3})
    error = caught.value
    codes = [one.code for one in error.problems]
    assert codes == [
        "not-whole",
        "value-out-of-range",
        "missing-column",
        "too-few-rows",
    ]
    for text in ("-3", "500", "0.5", "'sex'", "3 rows"):
        assert text in str(error)
        assert text not in error.plain
    assert "(4) the table has 3 rows to use" in str(error)
    assert str(error).isprintable()


def test_recodings_are_counted_for_the_owner():
    rounded, recoded = SCHEMA.changes(TABLE)
    (line,) = changed_values_lines(rounded, recoded)
    assert 'age "-9" (1 row), "none" (1 row), "unknown" (1 row);' in line
    assert changed_values_lines(*SCHEMA.changes({"age": [1, 2]})) == ()
    assert SCHEMA.complete_rows(TABLE).tolist() == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]


@each(
    ("values", "kept"),
    [
        ([61, -9, 40], [61.0, np.nan, 40.0]),
        ([61.0, -9.0, np.nan], [61.0, np.nan, np.nan]),
        (pd.array([61, -9, None], dtype="Int64"), [61.0, np.nan, np.nan]),
        (["unknown", 61, None], [np.nan, 61.0, np.nan]),
    ],
)
def test_a_word_is_found_in_every_kind_of_column(values, kept):
    schema = Schema((AGE,), missing="drop", minimum_rows=1)
    found = schema.check("a", {"age": values})
    whole = np.concatenate([found.numbers("age"), found.left_out["age"]])
    assert sorted(whole[~np.isnan(whole)]) == sorted(k for k in kept if k == k)
    assert found.n_dropped == sum(k != k for k in kept)


def test_texts_stay_texts_where_numbers_belong():
    """Agreed words allow these words, and no other text."""
    schema = Schema((AGE,), missing="drop", minimum_rows=1)
    (problem,) = schema.problems({"age": ["unknown", "61", 40]})
    assert problem.code == "not-numbers"
    assert problem.values == (("61", 1),)


@given(st.lists(st.sampled_from(["F", "f", "m", "?", "female", None]), min_size=1))
def test_recoding_twice_is_recoding_once(values):
    schema = Schema((SEX,), missing="drop", minimum_rows=1)
    frame = pd.DataFrame({"sex": pd.Series([*values, "f"], dtype=object)})
    found = schema.check("a", frame)
    again = schema.check("a", {"sex": list(found.frame["sex"])})
    assert list(again.frame["sex"]) == list(found.frame["sex"])
    assert not again.n_recoded


@each(
    ("line", "code"),
    [
        ({"kind": "integer", "minimum": 0, "missing": [99]}, "missing-word-admitted"),
        ({"kind": "integer", "missing": [-9]}, "missing-word-admitted"),
        ({"kind": "category", "categories": ["f"], "missing": ["f"]}, None),
        ({"kind": "category", "categories": ["f", "m"], "recode": {"m": "f"}}, None),
        ({"kind": "category", "categories": ["f"], "recode": {"F": "x"}}, None),
        ({"kind": "category", "categories": ["f"], "cuts": [1]}, "cuts-of-category"),
        ({"kind": "category", "categories": ["f"], "law": [1, 1]}, None),
        ({"kind": "number", "minimum": 0, "maximum": 9, "cuts": [5, 5]}, None),
        ({"kind": "number", "minimum": 0, "maximum": 9, "cuts": [10]}, None),
        ({"kind": "number", "minimum": 0, "maximum": 9, "law": [1, 1]}, None),
        ({"kind": "number", "unit": 1, "law": [1]}, "law-without-range"),
        ({"kind": "number", "minimum": 0, "maximum": 9, "law": [-1]}, "share-negative"),
        (
            {"kind": "integer", "minimum": 0, "maximum": 9, "cuts": [0.5, 0.7]}
            | {"law": [1, 1, 1]},
            "bin-without-value",
        ),
        ({"kind": "integer", "minimum": 0, "missing": ["a\x1b"]}, "malformed-word"),
        ({"kind": "integer", "minimum": 0, "missing": ["a" * 201]}, "malformed-word"),
        ({"kind": "integer", "minimum": 0, "missing": [True]}, "malformed-word"),
        ({"kind": "integer", "minimum": 0, "missing": [-1] * 1001}, "too-many-entries"),
        ({"kind": "integer", "minimum": 0, "recode": {"a": "b"}}, None),
        ({"kind": "integer", "minimum": 0, "recode": {"a": -1}}, "recoded-to-nothing"),
        (
            {"kind": "integer", "minimum": 0, "recode": {"a": 1}, "missing": ["a"]},
            "recoded-twice",
        ),
        (
            {"kind": "date", "since": "2000-01-01", "missing": ["2001-01-01"]},
            "missing-word-admitted",
        ),
    ],
)
def test_words_cut_points_and_laws_that_contradict_the_column_are_refused(line, code):
    with pytest.raises(InvalidInputError) as caught:
        Schema.from_table({"columns": {"a": line}})
    assert getattr(caught.value, "code", "")
    assert code is None or caught.value.code == code
    assert str(caught.value).isprintable()


def test_a_schema_with_all_keys_is_read_from_what_it_writes():
    law = Column("bmi", "number", 10, 50, unit=0.1, cuts=(25, 30), law=(5, 3, 2))
    schema = Schema((SEX, AGE, SEEN, law))
    again = Schema.from_table(schema.to_table())
    assert again == schema
    assert again.digest == schema.digest
    assert Schema((SEX, AGE)).digest != schema.digest


def test_a_law_over_cut_points_counts_the_values_of_each_interval():
    """A value on a cut point belongs to the interval above it."""
    age = Column("age", "integer", 0, 9, cuts=(2, 9), law=(1, 1, 2))
    assert age.law_bins == ((1.0, 2), (1.0, 7), (2.0, 1))
    agreed, plain = (
        DisclosedRowLaw.from_column(age),
        DisclosedRowLaw.from_column(Column("b", "integer", 0, 9)),
    )
    assert agreed.size == plain.size == 10
    assert row_entropy(agreed) < row_entropy(plain)


def test_recodings_of_numbers_need_consent():
    """The twins: other spellings of levels, and words for missing values, are not."""
    cost = Column(
        "cost", "category", categories=("high", "low"), recode={"41237": "high"}
    )
    for column, aimed in ((cost, True), (SEX, True), (SEEN, False), (AGE, False)):
        question = TableQuestion(schema=Schema((column,)).to_table())
        assert bool(question.recodings) is aimed, column


def test_two_meanings_of_a_word_are_refused():
    with refused("recoded-twice", mentions=("1",)):
        Column("a", "category", categories=("x", "y"), recode=(("1", "x"), (1.0, "y")))
