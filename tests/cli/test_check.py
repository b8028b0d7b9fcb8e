"""`veilsum check`: a plan and one's own table, without identity, keys or network."""

import json
from datetime import date

import pandas as pd
import pytest
import tomli_w
from click.testing import CliRunner

from party.test_agreed import DISPATCH, MODEL, NAMES, STATISTICS, agreed
from veilsum.cli.app import app
from veilsum.files.consortiums import write_consortium
from veilsum.files.ledger import open_ledger
from veilsum.party.consent import consent_to
from veilsum.privacy.accountant import Budget

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
WHO = {"parties": {"names": list(NAMES)}}


@pytest.fixture
def check(tmp_path):
    """What `veilsum check` says to a plan, or to a consortium file."""

    def call(plan, table, *words):
        path = tmp_path / "plan.toml"
        if isinstance(plan, dict):
            path.write_text(tomli_w.dumps({**WHO, **plan}))
        else:
            path.unlink(missing_ok=True)
            write_consortium(path, plan)
        data = tmp_path / "x.csv"
        pd.DataFrame(table).to_csv(data, index=False)
        given = ["check", path, "--data", data, "--long", *words]
        return CliRunner().invoke(app, [*map(str, given)], catch_exceptions=False)

    return call


def rows(number, **columns):
    known = {
        "x": [k % 7 + 0.5 for k in range(number)],
        "y": [k % 5 + 0.25 for k in range(number)],
        "sex": [("f", "m")[k % 2] for k in range(number)],
    }
    return {**known, **columns}


def flat(text):
    return " ".join(text.split())


GROUPS = {**STATISTICS, "statistics": {"by": "sex", "columns": ["x"]}}


@pytest.mark.parametrize(
    "sections",
    [MODEL, STATISTICS, GROUPS],
    ids=["model", "statistics", "groups"],
)
def test_a_table_that_passes_passes_every_rule(check, sections):
    plan = check(sections, rows(60))
    drawn = check(agreed(sections), rows(60))
    for found in (plan, drawn):
        assert found.exit_code == 0, found.output
        assert "you may take part" in found.stdout
        assert "minimum_count: passed" in found.stdout
        assert "x.csv: 60 rows" in flat(found.stdout)
        assert "PRICE Price: " in flat(found.stdout)
        assert "Largest influence of one person on everything released: " in flat(
            found.stdout
        )
    assert "run: none yet; this is a plan" in plan.stdout
    same = "the same for every member of the consortium"
    assert same not in flat(plan.stdout)
    assert same in flat(drawn.stdout)
    assert f"\n\n{consent_to(agreed(sections)).page}" in drawn.stdout


def test_survival_is_checked_as_other_questions_are(check):
    columns = {
        "x": {"kind": "number", "minimum": 0, "maximum": 9, "unit": 0.5},
        "ill": {"kind": "integer", "minimum": 0, "maximum": 1},
        "sex": STATISTICS["schema"]["columns"]["sex"],
    }
    plan = {key: one for key, one in STATISTICS.items() if key != "statistics"}
    plan["schema"] = {**plan["schema"], "columns": columns}
    plan["survival"] = {"formula": "Surv(x, ill) ~ C(sex)", "times": [2, 4]}
    ill = [k // 2 % 2 for k in range(60)]
    found = check(plan, rows(60, ill=ill))
    assert found.exit_code == 0, found.output
    page = flat(found.stdout)
    assert 'a row ends at its "x"; the event was seen where "ill" is 1' in page
    assert "intervals: 2, each with its last time: from 0 to 2, above 2 up to 4" in page
    assert "- events in each group and interval (4): for each group" in page
    rules = page.split("OWN TABLE FIRST")[1].split("NOT PROTECTED")[0]
    assert "maximum_columns" not in rules
    # The twin: one who is ill is one too few where no first sum counts parties.
    alone = {**plan, "policy": {"site_terms": True}}
    found = check(alone, rows(60, ill=[1] + [0] * 59))
    assert found.exit_code == 1
    assert "- minimum_count: REFUSED" in found.stdout


def test_every_rule_says_for_itself_whether_it_refuses(check):
    few = rows(60, sex=["m"] + ["f"] * 59)
    plan = {**STATISTICS, "policy": {"release_fraction": 0.01}}
    found = check(plan, few, "--json")
    assert found.exit_code == 1
    told = json.loads(found.stdout)
    assert told["good"] is False
    (checks,) = (one for one in told["own"] if one["key"] == "your_checks")
    refused = [line for line in checks["lines"] if "REFUSED" in line]
    assert [line.split(":")[0] for line in refused] == [
        "- minimum_count",
        "- release_fraction",
    ]
    assert "- table: passed" in checks["lines"]
    # What is told of the table stays in the half that is its owner's.
    assert "REFUSED" not in json.dumps(told["shared"])


def test_the_table_is_read_as_its_owner_says(check):
    """The twin: without the word, -9 is a number like any other, and out of range."""
    table = rows(60, y=[*rows(58)["y"], "-9", "."])
    found = check(MODEL, table, "--missing", "-9", "--missing", ".")
    assert "60 rows" in flat(found.stdout)
    assert "2 rows with missing values" in flat(found.stdout)
    plain = check(MODEL, table)
    assert "- table: REFUSED" in plain.stdout
    assert 'is text (for example ".")' in flat(plain.stdout)


def test_dates_are_agreed_on_and_read_in_the_owners_way(check):
    """The twin: in another way they are no dates, and the owner is told of it."""
    seen = [f"{k % 28 + 1:02}.{k % 12 + 1:02}.20{k % 9 + 10}" for k in range(60)]
    columns = {
        **MODEL["schema"]["columns"],
        "seen": {"kind": "date", "since": date(2000, 1, 1), "minimum": "2000-01-01"},
    }
    columns["seen"]["maximum"] = "2030-12-31"
    plan = {
        **MODEL,
        "schema": {**MODEL["schema"], "columns": columns},
        "model": {"formula": "y ~ seen"},
    }
    found = check(plan, rows(60, seen=seen), "--dates", "%d.%m.%Y")
    assert found.exit_code == 0, found.output
    said = "date, 2000-01-01 or more, 2030-12-31 or less, counted in days since"
    assert said in flat(found.stdout)
    plain = check(agreed(plan), rows(60, seen=seen))
    assert '"01.01.2010"' in flat(plain.stdout)
    assert "--dates" in flat(plain.stdout)


def test_all_problems_of_a_table_are_listed_at_once(check):
    """The twin: recodings that were agreed leave none, and are counted."""
    table = rows(40, sex=["F", "?"] + ["f", "m"] * 19, y=["none", *rows(39)["y"]])
    found = check(MODEL, table)
    assert found.exit_code == 1
    page = flat(found.stdout)
    assert "the table has 3 problems:" in page
    for words in ('"?" (1 row), "F" (1 row)', 'example "none"', "40 rows to use"):
        assert words in page
    columns = {
        "x": MODEL["schema"]["columns"]["x"],
        "y": {"kind": "number", "unit": 0.001, "missing": ["none"]},
        "sex": {
            "kind": "category",
            "categories": ["f", "m"],
            "recode": {"F": "f", "?": "m"},
        },
    }
    schema = {"columns": columns, "missing": "drop", "minimum_rows": 39}
    found = check({**MODEL, "schema": schema}, table)
    page = flat(found.stdout)
    assert "- table: passed" in page
    assert 'sex "?" (1 row), "F" (1 row); y "none" (1 row)' in page
    assert "1 rows with missing values" in page


@pytest.mark.parametrize(
    ("table", "rule"),
    [(rows(49), "minimum_rows"), (rows(60, sex=["f"] * 59 + ["x"]), "table")],
    ids=["too short", "another level"],
)
def test_a_table_that_does_not_fit_is_refused_before_other_rules(check, table, rule):
    found = check(MODEL, table)
    assert found.exit_code == 1
    assert f"- {rule}: REFUSED" in found.stdout
    assert "- minimum_count: not looked at" in found.stdout
    assert "REFUSED: you may not take part" in found.stdout


def test_a_ledger_is_asked_and_nothing_is_charged(check, tmp_path):
    path = tmp_path / "mine.ledger"
    for allowed, code in ((0.5, 0), (0.0, 1)):
        path.unlink(missing_ok=True)
        open_ledger(path, create=Budget(release_fraction=allowed)).close()
        found = check(MODEL, rows(60), "--ledger", path)
        assert found.exit_code == code, found.output
        assert ("- ledger: REFUSED" in found.stdout) == bool(code)
        assert ("before: 0 numbers about these data" in found.stdout) != bool(code)
        with open_ledger(path) as ledger:
            history = ledger.history()
        assert not history.charges
        assert len(history.refusals) == code


def within(most):
    x = {"kind": "number", "unit": 0.001, "maximum": most}
    columns = {**MODEL["schema"]["columns"], "x": x}
    return {**MODEL, "schema": {**MODEL["schema"], "columns": columns}}


def test_files_that_differ_in_bounds_only_are_pointed_out_and_refusals_counted(
    check, tmp_path
):
    """Bisecting a range leaves its trace, and its author's next file says so."""
    path = tmp_path / "mine.ledger"
    open_ledger(path, create=Budget()).close()
    first = check(within(10), rows(60), "--ledger", path)
    again = check(within(10), rows(60), "--ledger", path)
    other = check(STATISTICS, rows(60), "--ledger", path)
    for found in (first, again, other):
        assert found.exit_code == 0, found.output
        assert "ASKED BEFORE" not in found.stdout
    lower = check(within(5), rows(60), "--ledger", path)
    assert lower.exit_code == 1
    told = flat(lower.stdout)
    assert "WARNING: files before this one, 1 of them, asked the same" in told
    assert "you did not refuse it: schema.columns.x.maximum was 10, is 5" in told
    told = flat(check(within(8), rows(60), "--ledger", path).stdout)
    assert "1 of them" not in told
    assert "you refused it: schema.columns.x.maximum was 5, is 8" in told
    with open_ledger(path) as ledger:
        assert len(ledger.history().refusals) == 1


def test_own_rules_are_found_beside_the_plan(check, tmp_path):
    own = tmp_path / "veilsum.toml"
    own.write_text('columns = ["x", "y"]\n')
    found = check(MODEL, rows(60))
    assert found.exit_code == 1
    assert "REFUSED: columns = x, y, and this file has sex" in found.stdout
    own.write_text('columns = ["x", "y", "sex"]\n')
    assert check(MODEL, rows(60)).exit_code == 0
    weaker = {**MODEL, "policy": {"site_terms": True}}
    found = check(weaker, rows(60))
    assert found.exit_code == 0
    told = flat(found.stdout)
    assert "not with --yes: site_terms is usually false; this file has true" in told


def test_without_a_table_it_shows_what_all_members_see(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(tomli_w.dumps({**WHO, **DISPATCH}))
    found = CliRunner().invoke(app, ["check", str(path)])
    assert found.exit_code == 0, found.output
    assert "at most 200 sums, 600 numbers" in found.stdout
    assert "you may take part" not in found.stdout
    assert "You:      not checked" in found.stdout
    assert "add --data FILE" in found.stdout
    plain = CliRunner().invoke(app, ["check", str(path), "--json"])
    assert json.loads(plain.stdout)["good"] is None
    path.write_text(tomli_w.dumps(DISPATCH))
    found = CliRunner().invoke(app, ["check", str(path)])
    assert found.exit_code == 2
    assert "does not say who takes part" in found.stderr
