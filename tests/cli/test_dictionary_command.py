"""`veilsum dictionary`: draft, merge and check, on files."""

import json
import tomllib

import pytest
from click.testing import CliRunner

import veilsum as vs
from tables.test_mending import applied
from veilsum.cli.app import app

NORTH = (
    "age;bmi;seen;zip;ward\n37;37,7;03.12.2011;01067;isolation\n-9;22,5;;10115;n\n"
    + "45;31,0;04.12.2011;10115;n\n" * 5
)
WORDS = (
    *("--separator", ";", "--decimal", ",", "--missing", "-9"),
    *("--dates", "%d.%m.%Y"),
)
SOUTH = """\
age,bmi,seen,zip,ward
437,n/a,2012-01-05,10115,N
-99,22.25,2012-01-06,10115,n
45.5,31.0,soon,01067,theatre
44,31.0,2031-01-01,01067,n
43,unknown,2012-01-07,01067,n
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "north.csv").write_text(NORTH)
    (tmp_path / "south.csv").write_text(SOUTH)

    def call(*words, code=0):
        given = ["dictionary", *words]
        found = CliRunner().invoke(app, given, catch_exceptions=False)
        assert found.exit_code == code, found.output
        return found

    return call


def test_a_draft_is_a_dictionary_without_a_value(run, tmp_path):
    found = run("draft", "north.csv", *WORDS)
    columns = tomllib.loads(found.stdout)["schema"]["columns"]
    assert {name: line["kind"] for name, line in columns.items()} == {
        "age": "number",
        "bmi": "number",
        "seen": "date",
        "zip": "category",
        "ward": "category",
    }
    assert columns["ward"]["categories"] == ["n"]  # 6 rows have it
    assert columns["zip"]["categories"] == ["10115"]
    for value in ("37", "22", "2011-", "01067", "isolation"):
        assert value not in found.stdout
    assert "# - columns that no question needs" in found.stdout
    assert "# - levels of categories that 5 rows or more" in found.stdout
    run("draft", "north.csv", *WORDS, "-o", "north.toml")
    assert (tmp_path / "north.toml").read_text() == found.stdout
    assert vs.read_dictionary(tmp_path / "north.toml").names == tuple(sorted(columns))


def test_a_file_is_never_replaced(run, tmp_path):
    run("draft", "north.csv", *WORDS, "-o", "north.toml")
    before = (tmp_path / "north.toml").read_bytes()
    found = run("draft", "south.csv", "-o", "north.toml", code=2)
    assert "exists already" in found.stderr
    assert (tmp_path / "north.toml").read_bytes() == before


def test_drafts_of_several_sites_merge_in_any_order(run):
    run("draft", "north.csv", *WORDS, "-o", "north.toml")
    run("draft", "south.csv", "-o", "south.toml")
    found = run("merge", "north.toml", "south.toml", "--json")
    other = run("merge", "south.toml", "north.toml", "-o", "both.toml")
    merged = json.loads(found.stdout)
    assert merged["columns"]["age"]["maximum"] == 500
    assert set(merged["conflicts"]) == {"bmi", "seen", "ward", "zip"}
    assert merged["conflicts"]["bmi"]["line"].startswith("bmi = { kind")
    assert "left out: ward: it is not in south.toml" in other.stderr
    assert vs.read_dictionary("both.toml").digest == merged["digest"]
    # One party's several tables are merged as well.
    several = run("draft", "south.csv", "south.csv")
    assert "# - levels of categories" in several.stdout


def test_a_check_lists_all_problems_and_lines_that_mend_them(run, tmp_path):
    run("draft", "north.csv", *WORDS, "-o", "north.toml")
    found = run("check", "north.toml", "south.csv", "--json", code=1)
    report = json.loads(found.stdout)
    assert not report["good"]
    problems = {
        one["name"]: [[*problem["values"]] for problem in one["problems"]]
        for one in report["columns"]
    }
    assert problems["age"] == [[["-99", 1], ["437", 1]]]
    assert problems["bmi"] == [[["n/a", 1], ["unknown", 1]]]
    assert problems["seen"] == [[["soon", 1]], [["2031-01-01", 1]]]
    assert problems["ward"] == [[["N", 1], ["theatre", 1]]]
    assert problems["zip"] == [[["01067", 3]]]
    text = (tmp_path / "north.toml").read_text()

    class Lines:
        columns = tuple(
            type("Line", (), {"line": one["line"] or ""}) for one in report["columns"]
        )

    (tmp_path / "mended.toml").write_text(applied(text, Lines))
    again = run("check", "mended.toml", "south.csv")
    assert "the table passes" in again.stderr
    assert again.stdout == ""
    assert 'read as agreed: age "-99" (1 row)' in again.stderr
    # The twin: the table that was drafted fails for its rare level only.
    twin = run("check", "mended.toml", "north.csv", *WORDS, "--json", code=1)
    assert [one["name"] for one in json.loads(twin.stdout)["columns"]] == ["ward"]


def test_dates_in_another_form_are_listed_with_all_other_problems(run, tmp_path):
    run("draft", "north.csv", *WORDS, "-o", "north.toml")
    text = NORTH.replace("04.12.2011", "4 Dec", 2).replace("37;", "3700;", 1)
    (tmp_path / "odd.csv").write_text(text.replace("isolation", "x"))
    found = run("check", "north.toml", "odd.csv", *WORDS, code=1)
    for value in ('"4 Dec" (2 rows)', '"3700" (1 row)', '"x" (1 row)'):
        assert value in found.stdout
    assert found.stdout.count("4 Dec") == 3  # in the problem twice, and in the line


def test_what_a_file_holds_gives_a_screen_no_orders(run, tmp_path):
    run("draft", "south.csv", "-o", "south.toml")
    (tmp_path / "odd.csv").write_text(
        'age,bmi,seen,zip,"wa\x1b[31mrd"\n"\x1b]0;x\x07",1,2012-01-01,\u202e1,2\n'
    )
    for found in (
        run("check", "south.toml", "odd.csv", code=1),
        run("draft", "odd.csv"),
    ):
        for line in found.output.split("\n"):
            assert line.isprintable()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "found none"),
        ("[schema]\n", "needs 'columns'"),
        ('[schema]\ndictionary = "a.toml"', "another dictionary"),
        ('[schema]\ncolumns = {}\n[model]\nformula = "x"', "found schema, model"),
        ("[schema.columns]\na = 3", "must be a table"),
        ('[schema.columns]\na = { kind = "integer", missing = [-9] }', "every number"),
        ("schema = 3", "not a dictionary"),
    ],
)
def test_what_is_no_dictionary_is_refused(run, tmp_path, text, why):
    (tmp_path / "odd.toml").write_text(text)
    for words in (("merge", "odd.toml"), ("check", "odd.toml", "north.csv")):
        found = run(*words, code=2)
        assert why in found.stderr
        assert "odd.toml" in found.stderr


def test_derived_columns_are_checked_with_the_dictionary(run, tmp_path):
    run("draft", "south.csv", "-o", "south.toml")
    text = (tmp_path / "south.toml").read_text()
    good = 'age_2 = { of = "age", as = "power", exponent = 2 }\n'
    (tmp_path / "more.toml").write_text(text + good)
    run("check", "more.toml", "south.csv")
    (tmp_path / "less.toml").write_text(text + 'low = { of = "age", as = "log" }\n')
    found = run("check", "less.toml", "south.csv", code=2)
    assert found.exit_code != 0
    assert "takes log of 'age', which may be as low as" in found.stderr
    merged = json.loads(run("merge", "more.toml", "south.toml", "--json").stdout)
    assert merged["columns"]["age_2"] == {"of": "age", "as": "power", "exponent": 2}
