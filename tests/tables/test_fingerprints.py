"""What a ledger knows a table by: its content, and nothing that a reader chose."""

import hashlib
import hmac

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from veilsum.files.tables import read_table
from veilsum.tables.fingerprints import (
    BLOCK,
    ColumnSketch,
    KeptFingerprints,
    TableFingerprints,
    n_common_rows,
    read_row_fingerprints,
    row_fingerprints_text,
)


def keyed(part, key=b"key"):
    return hmac.new(key, part, hashlib.sha256).digest()


def prints(table, key=b"key"):
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    return TableFingerprints(frame, lambda part: keyed(part, key))


def kept(table):
    found = prints(table)
    sketches = tuple(found.sketches[name] for name in found.columns)
    return KeptFingerprints(found.columns, found.rows(), sketches)


TABLE = {
    "age": [30, 41, 52, 41],
    "bmi": [22.5, np.nan, 0.0, 31.25],
    "sex": ["F", "M", None, "M"],
}
SAME = {
    "rows in another order": lambda t: t[::-1],
    "columns in another order": lambda t: t[["sex", "bmi", "age"]],
    "whole numbers as floats": lambda t: t.astype({"age": float}),
    "whole numbers as text": lambda t: t.astype({"age": str}),
    "whole numbers with gaps": lambda t: t.astype({"age": "Int64"}),
    "another sign of zero": lambda t: t.assign(bmi=t["bmi"].replace(0.0, -0.0)),
    "a decimal comma": lambda t: t.assign(bmi=["22,50", None, "0", "31,25"]),
    "categories": lambda t: t.astype({"sex": "category", "age": "category"}),
    "another index": lambda t: t.set_axis([7, 7, 8, 9]),
}
OTHER = {
    "a value": lambda t: t.assign(age=[30, 41, 52, 42]),
    "a bit": lambda t: t.assign(bmi=[np.nextafter(22.5, 23), np.nan, 0.0, 31.25]),
    "a gap": lambda t: t.assign(sex=["F", "M", "M", "M"]),
    "what stands beside it": lambda t: t.assign(age=[41, 30, 52, 41]),
    "a name": lambda t: t.rename(columns={"age": "years"}),
    "two columns exchanged": lambda t: t.rename(columns={"age": "bmi", "bmi": "age"}),
    "a row once more": lambda t: pd.concat([t, t[-1:]]),
    "a row less": lambda t: t[1:],
    "a column more": lambda t: t.assign(new=0),
    "the text nan": lambda t: t.assign(sex=["F", "M", "nan", "M"]),
}


@each("change", SAME.values(), ids=SAME)
def test_the_same_content_has_the_same_fingerprint(change):
    table = pd.DataFrame(TABLE)
    assert prints(change(table)).data == prints(table).data


@each("change", OTHER.values(), ids=OTHER)
def test_other_content_has_another_one(change):
    table = pd.DataFrame(TABLE)
    assert prints(change(table)).data != prints(table).data


def test_another_key_has_other_fingerprints():
    one, two = prints(TABLE), prints(TABLE, b"another")
    assert one.data != two.data
    assert n_common_rows(one.rows(), two.rows()) == 0


def test_whoever_writes_the_schema_does_not_choose_the_fingerprint(tmp_path):
    """A column is read as text, or as numbers, as the consortium file says."""
    path = tmp_path / "own.csv"
    path.write_text("code,pay,new\n01,0.1,True\n02,1e3,False\n01,-0.0,True\n")
    read = [read_table(path, text=text) for text in ((), ("code",), ("pay", "new"))]
    assert len({prints(one).data for one in read}) == 1


rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12)


@given(rows, rows)
@settings(max_examples=60)
def test_common_rows_are_those_of_two_multisets(one, two):
    tables = [
        prints(pd.DataFrame(t, columns=["x", "y"], dtype=float)) for t in (one, two)
    ]
    expected = sum(min(one.count(row), two.count(row)) for row in {*one, *two})
    assert n_common_rows(*(table.rows() for table in tables)) == expected
    assert (tables[0].data == tables[1].data) == (sorted(one) == sorted(two))


def test_rows_beyond_a_block_are_the_same_rows():
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"x": draw.normal(size=3 * BLOCK + 5), "y": 1})
    mixed = table.sample(frac=1, random_state=1)
    assert prints(mixed).data == prints(table).data
    assert prints(mixed).sketches == prints(table).sketches
    assert (
        n_common_rows(prints(mixed[:-7]).rows(), prints(table).rows()) == len(table) - 7
    )


def cohort(rows, seed):
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": draw.integers(18, 90, rows),
            "bmi": draw.normal(27, 4, rows).round(1),
            "pay": draw.lognormal(10, 1, rows),
            "sex": draw.choice(["F", "M"], rows),
        }
    )


@pytest.mark.parametrize("rows", [60, 1000])
def test_columns_show_that_two_tables_are_about_the_same_people(rows):
    table = cohort(rows, 1)
    for columns in (["age", "bmi"], ["pay"], ["bmi", "sex"]):
        assert kept(table).shares_rows(prints(table[columns][:-1]))
    assert kept(table).shares_rows(prints(table[["pay"]][rows // 2 :]))
    strangers = cohort(rows, 2)
    for columns in (["age", "bmi"], ["pay"], ["sex"], ["age", "bmi", "pay", "sex"]):
        assert not kept(table).shares_rows(prints(strangers[columns]))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
@settings(max_examples=40)
def test_changed_rows_are_never_counted_too_high(gone, new, edited):
    """What is refused below a count is refused whenever so few are changed."""
    table = cohort(200, 1)
    later = pd.concat([table[gone:], cohort(new, 2)], ignore_index=True)
    later.loc[len(later) - edited :, "bmi"] += 0.05
    asked = ("age", "bmi", "sex")
    found = kept(table).n_changed(prints(later), asked)
    assert found <= max(gone, new) + edited
    assert (found > 0) == (gone + new + edited > 0)


def test_a_column_that_is_always_new_hides_no_change_of_another():
    table = cohort(200, 1).assign(noise=np.arange(200.0))
    later = table[3:].assign(noise=np.arange(197.0) + 1000)
    asked = ("bmi", "noise", "pay")
    assert kept(table[[*asked]]).n_changed(prints(later), asked) == 3
    strangers = cohort(197, 2).assign(noise=1.0)
    assert kept(table[[*asked]]).n_changed(prints(strangers), asked) > 50


def test_rows_that_come_and_go_are_not_taken_for_few_by_a_column_of_two_values():
    table = cohort(400, 1)
    one, two = (table[k : k + 300][["sex", "age", "pay"]] for k in (0, 60))
    assert kept(one).n_changed(prints(two), ("sex", "age", "pay")) == 60


def test_values_dealt_out_to_other_rows_are_changes():
    table = cohort(100, 1)
    swapped = table.assign(age=[*table["age"][1::-1], *table["age"][2:]])
    assert kept(table).n_changed(prints(swapped), ("age", "bmi")) == 2


def test_what_is_kept_comes_back_as_it_was():
    found = prints(cohort(1000, 1))
    assert (
        read_row_fingerprints(row_fingerprints_text(found.rows())) == found.rows()
    ).all()
    for sketch in found.sketches.values():
        assert ColumnSketch.of_text(sketch.to_text()) == sketch


def test_an_empty_table_and_an_empty_column_have_fingerprints():
    nothing = pd.DataFrame({"x": [], "y": []})
    assert prints(nothing).data != prints({"x": [None], "y": [None]}).data
    assert not kept(nothing).shares_rows(prints(cohort(10, 1)))


@pytest.mark.parametrize(("n_rows", "least"), [(2**16, 100), (2**17, 30)])
def test_up_to_65536_rows_a_sketch_has_every_value_of_a_column(n_rows, least):
    """Of 100; of more rows it has those whose hashes are below a bound, about half."""
    found = prints({"x": np.arange(n_rows) % 100}).sketches["x"]
    assert least <= len(found.values) <= 100
    assert (len(found.values) == 100) == (n_rows == 2**16)


# People by their ids


def of_people(table):
    return TableFingerprints(table, keyed, "patient")


def kept_people(table):
    found = of_people(table)
    sketches = tuple(found.sketches[name] for name in found.columns)
    return KeptFingerprints(
        *(found.columns, found.rows(), sketches),
        people=found.people,
        contents=found.contents(),
    )


cohorts = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 3), st.integers(0, 3)),
    unique_by=lambda one: one[0],
    min_size=1,
    max_size=30,
)


def cohort_of(people):
    return pd.DataFrame(people, columns=["patient", "age", "score"])


@given(cohorts, st.data())
def test_two_tables_differ_exactly_by_who_was_planted(people, data):
    """Whatever the order of rows and columns, and the types of cells."""
    table = cohort_of(people)
    gone = data.draw(st.sets(st.sampled_from(range(len(people))), max_size=5))
    still = [k for k in range(len(people)) if k not in gone]
    changed = data.draw(
        st.sets(st.sampled_from(still), max_size=5) if still else st.just(set())
    )
    new = data.draw(st.integers(0, 5))
    later = table.copy()
    later.loc[sorted(changed), "score"] += 10
    # Values that nobody else has: nobody is taken for another one.
    more = cohort_of([(1000 + k, 100 + k, 50) for k in range(new)])
    later = pd.concat([later.loc[still], more], ignore_index=True)
    later = later.sample(frac=1, random_state=data.draw(st.integers(0, 99)))
    later = later[data.draw(st.permutations([*later.columns]))]
    later = later.astype({"age": float, "score": str})
    found = kept_people(table).difference(of_people(later), ("age", "score"))
    if still:
        assert (found.new, found.gone, found.changed) == (new, len(gone), len(changed))


@given(cohorts)
def test_the_same_values_under_another_id_are_the_same_person(people):
    table = cohort_of(people)
    later = table.assign(patient=table["patient"] + 1000)
    later.loc[0, "patient"] = table["patient"][0]
    found = kept_people(table).difference(of_people(later), ("age", "score"))
    assert (found.new, found.gone, found.changed) == (0, 0, 0)


@each(
    "look",
    [
        lambda t: t.rename(columns={"age": "years", "score": "points"}),
        lambda t: t.assign(age=t["age"] * 12),
        lambda t: t.assign(score=np.log1p(t["score"])),
        lambda t: t[["patient"]].assign(other=range(len(t))),
    ],
)
def test_people_are_counted_in_any_look(look):
    table = cohort_of([(k, k % 5, k % 3) for k in range(40)])
    found = kept_people(table).difference(of_people(look(table[1:])), ())
    assert (found.new, found.gone) == (0, 1)


def test_several_rows_of_one_person_are_one_person():
    table = cohort_of([(k // 2, k, 0) for k in range(40)])
    mixed = table.sample(frac=1, random_state=1)
    other = table.assign(age=table["age"].replace({6: 99}))
    kept_table = kept_people(table)
    same, one = (kept_table.difference(of_people(t), ()) for t in (mixed, other))
    assert (same.new, same.gone, same.changed) == (0, 0, 0)
    assert (one.new, one.gone, one.changed) == (0, 0, 1)
