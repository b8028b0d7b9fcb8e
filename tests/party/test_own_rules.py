"""A party's own rules: what they refuse, and that no consortium file lowers them."""

import numpy as np
import pytest

import refusals
from ledgers import reservation
from party.test_agreed import COST, DISPATCH, MODEL, STATISTICS, agreed
from veilsum.errors import InvalidScenarioError
from veilsum.files.ledger import open_ledger
from veilsum.locale import phrase
from veilsum.party.checks import ledger_people_lines
from veilsum.party.consent import consent_to
from veilsum.party.own_rules import (
    STRICTER,
    FloorsSection,
    OwnRules,
    OwnRulesError,
    columns_own_rules_meet,
    read_own_rules,
    rules_in_force,
    usual_own_rules,
)
from veilsum.privacy.accountant import Budget


def rules(tmp_path, text):
    path = tmp_path / "veilsum.toml"
    path.write_text(text)
    return read_own_rules(path)


DERIVED = {
    "log_y": {"of": "y", "as": "log1p"},
    "x_2": {"of": "x", "as": "power", "exponent": 2},
}
WITH_DERIVED = {
    **MODEL["schema"],
    "columns": {**MODEL["schema"]["columns"], **DERIVED},
}
LOGGED = {**MODEL, "schema": WITH_DERIVED, "model": {"formula": "log_y ~ x"}}
COMPUTED = {**MODEL, "schema": WITH_DERIVED, "model": {"formula": "y ~ x_2"}}
WEIGHED = {**MODEL, "model": {"formula": "y ~ C(sex)", "weights": "x"}}

# Rows without a value of x are left out: means of y are then of those who have one.
WHOLE = {
    "statistics": {"columns": ["y"]},
    "masks": {"law": "uniform"},
    "schema": {**MODEL["schema"], "missing": "drop", "complete": ["x"]},
}

# The party's file, what it allows, what it does not, and what it says then.
CASES = {
    "columns": ('columns = ["x", "y", "sex"]', MODEL, None, ""),
    "a column": ('columns = ["y", "sex"]', COST, MODEL, "has x"),
    "a column of weights": ('columns = ["y", "sex"]', COST, WEIGHED, "has x"),
    "a column of all rows": ('columns = ["y", "sex"]', COST, WHOLE, "has x"),
    "a column of a table": ('columns = ["x", "y"]', COST, STATISTICS, "has sex"),
    "jobs": ('jobs = ["statistics"]', STATISTICS, DISPATCH, "has dispatch"),
    "functions": ('functions = ["log1p"]', LOGGED, COMPUTED, "has power"),
    "no functions": ("functions = []", MODEL, LOGGED, "has log1p"),
}


@pytest.mark.parametrize(("text", "good", "bad", "words"), CASES.values(), ids=CASES)
def test_nothing_beyond_the_lists_is_answered(tmp_path, text, good, bad, words):
    own = rules(tmp_path, text)
    own.check(agreed(good), alone=True)
    if bad is not None:
        with pytest.raises(OwnRulesError, match=words):
            own.check(agreed(bad), alone=False)


# A recoded number can be a step.
RECODED = {"kind": "integer", "minimum": 0, "maximum": 9, "recode": {"5005": 5}}
STEP = {
    **MODEL,
    "schema": {
        **MODEL["schema"],
        "columns": {**MODEL["schema"]["columns"], "x": RECODED},
    },
}


def test_recodings_are_allowed_to_nobody_to_some_members_or_to_everybody(tmp_path):
    asked = agreed(STEP)
    for text in ("", "recodings = false", 'recodings = ["0123456789abcdef"]'):
        own = rules(tmp_path, text)
        with refusals.refused(
            "own-rules-refuse", OwnRulesError, mentions=("5",)
        ) as refused:
            own.check(asked, alone=False)
        own.check(agreed(MODEL), alone=True)
    line = f'recodings = ["{asked.members_digest}"]'
    assert line in str(refused.value)
    for text in (line, "recodings = true"):
        rules(tmp_path, text).check(asked, alone=True)
        assert any("recodings" in one for one in rules(tmp_path, text).lines)


def test_recodings_are_allowed_to_members_whatever_they_ask():
    other = agreed({**STEP, "title": "another question", "run": "b" * 32})
    assert other.digest != agreed(STEP).digest
    assert other.members_digest == agreed(STEP).members_digest


def test_the_page_names_recodings_and_the_line_that_allows_them():
    asked = agreed(STEP)
    page = consent_to(asked)
    first = next(one for one in page.shared if one.key == "first")
    told = " ".join(first.lines)
    assert 'THE DICTIONARY RECODES NUMBERS: "recode of x, which has 5005"' in told
    assert f'recodings = ["{asked.members_digest}"]' in told
    assert page.facts["recodings"] == ["recode of x, which has 5005"]
    assert "CONSTANTS" not in consent_to(agreed(MODEL)).page


def test_the_page_says_what_data_count_as(tmp_path):
    with open_ledger(tmp_path / "a.ledger", create=Budget()) as ledger:
        for number, new, told in (
            (1.0, False, ()),
            (2.0, False, (phrase("consent", "ledger.same_people"),)),
            (3.0, True, (phrase("consent", "ledger.new_people"),)),
        ):
            known = ledger.data([np.full(2, number)], new_data=new)
            ledger.reserve(reservation(f"run {number}", data=known.data), known)
            assert ledger_people_lines(ledger, known.data) == told


def test_only_files_of_known_organisers_are_considered(tmp_path):
    own = rules(tmp_path, 'organisers = ["ann"]')
    with refusals.refused("own-rules-refuse", OwnRulesError):
        own.check(agreed(MODEL), alone=False)
    with refusals.refused("own-rules-refuse", OwnRulesError):
        own.check(agreed({**MODEL, "organiser": "bob"}), alone=False)
    own.check(agreed({**MODEL, "organiser": "ann"}), alone=True)
    with refusals.refused(
        "organiser-not-member", InvalidScenarioError, mentions=("ann",)
    ):
        agreed({**MODEL, "organiser": "anne"})


WEAKER = {
    "tolerate": 0,
    "minimum_honest": 2,
    "drop": True,
    "minimum_count": 2,
    "effective_count": 2,
    "maximum_influence": 0.99,
    "maximum_columns": 0.5,
    "site_terms": True,
    "release_fraction": 0.9,
    "most_rounds": 16,
}


def test_every_rule_has_a_floor_and_a_usual_value():
    assert sorted(FloorsSection.__struct_fields__) == sorted(STRICTER)
    assert tuple(STRICTER) == tuple(usual_own_rules())
    # A schema says the one, a survey the other.
    assert {*WEAKER, "minimum_rows", "minimum_guests"} == set(STRICTER)


@pytest.mark.parametrize("name", WEAKER)
def test_what_is_weaker_than_usual_needs_a_person_or_a_floor(tmp_path, name):
    value = WEAKER[name]
    asked = agreed(MODEL, policy={name: value})
    assert rules_in_force(asked)[name] == value
    with refusals.refused("own-rules-refuse", OwnRulesError, mentions=(name,)):
        OwnRules().check(asked, alone=True)
    OwnRules().check(asked, alone=False)
    word = str(value).lower()
    own = rules(tmp_path, f"[floors]\n{name} = {word}")
    own.check(asked, alone=True)
    # And a floor holds against a person's yes as well.
    usual_word = str(usual_own_rules()[name]).lower()
    with pytest.raises(OwnRulesError, match=name):
        rules(tmp_path, f"[floors]\n{name} = {usual_word}").check(asked, alone=False)


def test_a_floor_may_be_above_the_usual_rules(tmp_path):
    own = rules(tmp_path, "[floors]\nminimum_count = 10\nminimum_rows = 60")
    with pytest.raises(OwnRulesError) as refused:
        own.check(agreed(MODEL), alone=False)
    assert "minimum_count is at least 10 by [floors]; this file has 3" in str(
        refused.value
    )
    assert "minimum_rows is at least 60" in str(refused.value)
    high = {"policy": {"minimum_count": 10}, "schema": {"minimum_rows": 60}}
    own.check(agreed(MODEL, **high), alone=True)


BAD = {
    "a misspelt key": ("colums = []", "did you mean 'columns'"),
    "a misspelt floor": (
        "[floors]\nminimum_counts = 3",
        "did you mean 'minimum_count'",
    ),
    "a misspelt job": ('jobs = ["modle"]', "did you mean 'model'"),
    "a misspelt function": ('functions = ["lg"]', "choose from"),
    "a text": ('columns = "age"', "must be a list of names"),
    "no number": ('[floors]\nminimum_count = "ten"', "a whole number"),
    "no TOML": ("columns = [", "not valid TOML"),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
def test_a_rule_that_nobody_understands_is_refused(tmp_path, text, words):
    with pytest.raises(InvalidScenarioError, match=words):
        rules(tmp_path, text)


def test_columns_are_found_wherever_they_are_named():
    asked = {"statistics": {"columns": ["x"], "tables": [["sex"]]}}
    found = agreed({**STATISTICS, **asked})
    assert columns_own_rules_meet(found) == ("sex", "x")
    assert columns_own_rules_meet(agreed(STATISTICS)) == ("sex", "x", "y")
    assert columns_own_rules_meet(agreed(WEIGHED)) == ("sex", "x", "y")
    assert columns_own_rules_meet(agreed(COST)) == ()
