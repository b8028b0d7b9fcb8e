"""A dictionary beside a scenario is the same agreement as a [schema] in it."""

import pytest
import tomli_w

import veilsum as vs
from party.test_agreed import MODEL, NAMES, agreed
from refusals import refused
from veilsum.errors import InvalidScenarioError
from veilsum.files import scenarios
from veilsum.files.consortiums import read_consortium, read_plan_file, write_consortium
from veilsum.files.tables import agreed_table
from veilsum.party.consent import consent_to
from veilsum.party.own_rules import OwnRules, recodings_own_rules_meet
from veilsum.sums.job_file import read_job
from veilsum.tables.columns import SchemaError

COLUMNS = {
    **MODEL["schema"]["columns"],
    "y": {
        "kind": "number",
        "unit": 0.001,
        "minimum": 0,
        "maximum": 50,
        "missing": [-9, "unknown"],
        "cuts": [10, 20],
        "law": [0.5, 0.3, 0.2],
    },
    "sex": {
        "kind": "category",
        "categories": ["f", "m"],
        "recode": {"F": "f"},
        "missing": ["?"],
    },
}
SCHEMA = {"minimum_rows": 5, "missing": "drop", "columns": COLUMNS}
NUMBERED = {**COLUMNS, "sex": {**COLUMNS["sex"], "recode": {"1": "f"}}}


def plan(folder, schema):
    sections = {**MODEL, "schema": schema, "parties": {"names": list(NAMES)}}
    path = folder / "plan.toml"
    path.write_text(tomli_w.dumps(sections))
    return path


def dictionary(folder, schema=SCHEMA, name="dictionary.toml"):
    (folder / name).write_text(tomli_w.dumps({"schema": schema}))
    return {"dictionary": name}


def test_a_named_dictionary_and_a_written_one_are_the_same_agreement(tmp_path):
    inline = read_plan_file(plan(tmp_path, SCHEMA))
    named = read_plan_file(plan(tmp_path, dictionary(tmp_path)))
    assert named.written == inline.written
    assert named.digest == inline.digest
    assert named.schema == vs.read_dictionary(tmp_path / "dictionary.toml")
    # The twin: another word for missing values is another agreement.
    other = {**SCHEMA, "columns": {**COLUMNS, "y": {**COLUMNS["y"], "missing": [-8]}}}
    changed = read_plan_file(plan(tmp_path, dictionary(tmp_path, other)))
    assert changed.digest != inline.digest
    assert changed.schema.digest != inline.schema.digest


def test_the_digest_of_a_dictionary_is_recognised_in_a_consortium_file(tmp_path):
    path = tmp_path / "study.veil"
    write_consortium(path, agreed(MODEL | {"schema": SCHEMA}))
    dictionary(tmp_path)
    expected = vs.read_dictionary(tmp_path / "dictionary.toml").digest
    assert read_consortium(path).schema.digest == expected
    # The twin: without one word it is another agreement.
    columns = {**COLUMNS, "sex": {"kind": "category", "categories": ["f", "m"]}}
    other = agreed(MODEL | {"schema": {**SCHEMA, "columns": columns}})
    assert other.schema.digest != expected


def test_a_consortium_file_has_the_content_and_not_the_name():
    with refused("dictionary-not-resolved", mentions=("dictionary.toml",)):
        agreed(MODEL | {"schema": {"dictionary": "dictionary.toml"}})


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (
            {"dictionary": "dictionary.toml", "minimum_rows": 9},
            "schema-beside-dictionary",
        ),
        ({"dictionary": 3}, "wrong-value"),
        ({"dictionary": ""}, "wrong-value"),
        ({"dictionary": "plan.toml"}, "not-a-dictionary"),
        ({"dictionary": "nested.toml"}, "nested-dictionary"),
    ],
)
def test_a_dictionary_is_one_file_with_one_section(tmp_path, schema, code):
    dictionary(tmp_path)
    dictionary(tmp_path, {"dictionary": "dictionary.toml"}, "nested.toml")
    with refused(code, InvalidScenarioError):
        read_plan_file(plan(tmp_path, schema))


def test_a_dictionary_that_is_not_there_or_too_large_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InvalidScenarioError, match=r"none\.toml"):
        read_plan_file(plan(tmp_path, {"dictionary": "none.toml"}))
    path = plan(tmp_path, dictionary(tmp_path))
    monkeypatch.setattr(scenarios, "MOST_DICTIONARY_BYTES", 100)
    with pytest.raises(InvalidScenarioError, match="100"):
        read_plan_file(path)


def test_the_consent_page_shows_what_is_recoded(tmp_path):
    page = " ".join(consent_to(agreed(MODEL | {"schema": SCHEMA})).page.split())
    assert 'category, one of 2: "f", "m"; read "F" as "f"; missing: "?"' in page
    assert 'counted in 0.001; missing: "-9", "unknown"' in page


def test_recodings_of_numbers_need_consent():
    """The twin: another spelling of a level does not."""
    plain = agreed(MODEL | {"schema": SCHEMA})
    numbered = agreed(MODEL | {"schema": {**SCHEMA, "columns": NUMBERED}})
    assert not recodings_own_rules_meet(plain)
    assert not OwnRules().refusals(plain, alone=False)
    (why,) = OwnRules().refusals(numbered, alone=False)
    assert "recode of sex" in why


TABLE = """\
x;y;sex
1,5;2,5;F
2,5;unknown;m
3,5;-9;f
4,5;4,25;?
"""


def test_a_file_is_read_with_its_decimal_mark_beside_agreed_words(tmp_path):
    path = tmp_path / "north.csv"
    path.write_text(TABLE)
    schema = vs.Schema.from_table({**SCHEMA, "minimum_rows": 1})
    how = {"separator": ";", "decimal": ","}
    checked = schema.check("north", agreed_table(path, schema, **how))
    assert checked.frame["y"].tolist() == [2.5]
    assert checked.n_recoded == {"y": {"-9": 1, "unknown": 1}, "sex": {"F": 1, "?": 1}}
    # A point is not the decimal mark of this file, so that 1.500 is not read as 1.5.
    path.write_text(TABLE.replace("2,5;F", "1.500;F"))
    (problem,) = schema.problems(agreed_table(path, schema, **how))
    assert problem.values == (("1.500", 1),)


def test_agreed_words_need_not_be_dates(tmp_path):
    path = tmp_path / "north.csv"
    path.write_text(
        "seen,x\n31.12.2011,1\nsoon,2\n31.12.9999,3\nlater,400\n2011-01-01,5\n"
    )
    seen = {"kind": "date", "since": "2000-01-01", "missing": ["soon", "31.12.9999"]}
    x = {"kind": "integer", "minimum": 0, "maximum": 9}
    schema = vs.Schema.from_table(
        {"missing": "drop", "minimum_rows": 1, "columns": {"seen": seen, "x": x}}
    )
    with pytest.raises(SchemaError) as caught:
        agreed_table(path, schema, dates="%d.%m.%Y")
    assert [(one.code, one.values) for one in caught.value.problems] == [
        ("malformed-date", (("2011-01-01", 1), ("later", 1))),
        ("value-out-of-range", (("400", 1),)),
    ]
    path.write_text("seen,x\n31.12.2011,1\nsoon,2\n31.12.9999,3\n")
    found = schema.check("a", agreed_table(path, schema, dates="%d.%m.%Y"))
    assert found.frame["seen"].tolist() == [4382.0]
    assert found.n_recoded == {"seen": {"31.12.9999": 1, "soon": 1}}


def test_a_job_reads_tables_by_the_dictionary_beside_it(tmp_path):
    for name in NAMES:
        rows = "".join(f"{k},{k % 5},{'fF'[k % 2]}\n" for k in range(30))
        (tmp_path / f"{name}.csv").write_text(f"x,y,sex\n{rows}9,unknown,m\n")
    sections = {
        "model": {"formula": "y ~ x"},
        "schema": dictionary(tmp_path),
        "data": {"files": {name: f"{name}.csv" for name in NAMES}},
    }
    path = tmp_path / "plan.toml"
    path.write_text(tomli_w.dumps(sections))
    job = read_job(path, "model")
    (line,) = job.changes
    assert 'y "unknown" (4 rows)' in line
    assert 'sex "F" (60 rows)' in line
    assert int(job.run(seed=1).count) == 120
