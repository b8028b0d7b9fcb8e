"""Columns that every row must have: all questions are then about the same people."""

import pandas as pd
import pytest
from hypothesis import given, strategies as st

import veilsum as vs
from refusals import refused
from veilsum.tables.dictionaries import dictionary_toml, merge_dictionaries
from veilsum.tables.schema import Schema

COLUMNS = (
    vs.Column("age", "integer", 0, 120, missing=("-9",)),
    vs.Column("bmi", "number", 10, 60, unit=0.1),
    vs.Column("sex", "category", categories=("f", "m")),
)
NAMES = [one.name for one in COLUMNS]
VALUES = {"age": [40, -9, None], "bmi": [21.5, None], "sex": ["f", "m", None]}


def schema(*names, **more):
    options = {"missing": "drop", "minimum_rows": 1}
    return Schema(COLUMNS, complete=names, **options | more)


def tables():
    row = st.fixed_dictionaries({k: st.sampled_from(v) for k, v in VALUES.items()})
    return st.lists(row, min_size=1, max_size=12)


@given(tables(), st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)))
def test_rows_lack_no_column_that_is_used_or_needed(rows, used, needed):
    used = used or {"age"}
    rows = [{"age": 40, "bmi": 20.0, "sex": "f"}, *rows]
    frame = pd.DataFrame(rows).astype({"age": object})
    found = schema(*needed).only(used).check("a", frame)
    values = [
        {k: None if v != v or v == -9 else v for k, v in row.items()}
        for row in frame.to_dict("records")
    ]

    def has(row, names):
        return all(row[name] is not None for name in names)

    kept = [row for row in values if has(row, used | needed)]
    gapped = [row for row in values if has(row, needed) and not has(row, used)]
    assert (found.n_rows, found.n_dropped) == (len(kept), len(rows) - len(kept))
    assert found.n_gapped == len(gapped)
    for name in used:
        having = sum(row[name] is not None for row in [*kept, *gapped])
        assert int(found.present((name,)).sum()) == having
        assert len(found.whole(name)) == len(kept) + len(gapped)
        assert int(found.missing(name).sum()) == len(kept) + len(gapped) - having


@pytest.mark.parametrize("used", [{"sex"}, {"sex", "age"}, {"age", "bmi"}])
def test_a_schema_of_some_columns_says_the_same_in_text(used):
    for one in (schema("age", "bmi"), schema("age", "bmi").only(used)):
        assert Schema.from_table(one.to_table()) == one


def test_the_digest_of_a_dictionary_is_the_same_in_every_study():
    assert schema("age").digest == schema().digest
    assert schema("age") != schema()


def test_dictionaries_say_it_and_merge():
    text = dictionary_toml(schema("sex", "age"))
    assert 'complete = ["age", "sex"]' in text
    merged = merge_dictionaries({"a": schema("age"), "b": schema("sex")}).schema
    assert [one.name for one in merged.complete] == ["age", "sex"]


def test_a_column_that_is_needed_must_be_there():
    frame = pd.DataFrame({"age": [40, 50]})
    with refused("missing-column", mentions=("bmi",)):
        schema("bmi").only({"age"}).check("a", frame)


def test_a_table_with_gaps_is_refused_where_gaps_are():
    frame = pd.DataFrame({"age": [40, 50], "bmi": [20.0, None]})
    with refused("missing-values", mentions=("bmi",)):
        schema("bmi", missing="refuse").only({"age"}).check("a", frame)


@pytest.mark.parametrize("given", ["age", 3, [3], {"age": 3}])
def test_names_are_a_list(given):
    with refused("names-not-list"):
        Schema(COLUMNS, complete=given)


def test_a_name_that_is_no_column_is_refused():
    with refused("unknown-column", mentions=("agee", "age")):
        schema("agee")


def groups(**more):
    """Four parties; every fifth row lacks a bmi."""
    frames = {}
    for k, name in enumerate("abcd"):
        age = [30 + (7 * i + k) % 40 for i in range(60)]
        bmi = [None if i % 5 == 0 else 20.0 + i % 9 for i in range(60)]
        sex = ["f" if i % 2 else "m" for i in range(60)]
        frames[name] = pd.DataFrame({"age": age, "bmi": bmi, "sex": sex})
    agreed = schema(*NAMES, minimum_rows=20)
    return vs.statistics(
        frames, columns=["age"], by="sex", schema=agreed, **more
    ), frames


def test_statistics_by_group_are_about_the_same_rows():
    found, frames = groups()
    whole = pd.concat(frames.values()).dropna()
    assert found.count == len(whole)
    means = whole.groupby("sex")["age"].mean()
    by_group = [float(one.means[0]) for one in found.groups.parts[-2:]]
    assert by_group == pytest.approx([*means])
    assert found.missing == {}


def test_missing_values_are_counted_among_all_rows():
    found, frames = groups(missing="columns")
    assert found.count == sum(map(len, frames.values()))
    assert found.missing == {"age": 0, "sex": 0}
