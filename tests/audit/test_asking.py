"""Whoever asks: aimed questions, two that differ by one, and what refusals tell."""

import pytest

from audit.questions import COST, named, question
from veilsum.audit import aimed, differencing, refusals
from veilsum.audit.question import RehearsalAttempt, SkippedAttack
from veilsum.consortium.consortium import consortium_from
from veilsum.tables.rules import Rules

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

HOW = {"coalition": ("ann",), "seed": 1, "trials": 1}
AGES = {"age": {"kind": "integer", "minimum": 18, "maximum": 95}}
LEVELS = {
    **AGES,
    "bmi": {"kind": "number", "minimum": 10, "maximum": 80, "unit": 0.1},
    "ward": {"kind": "category", "categories": ["north", "south", "west"]},
}


@pytest.fixture(scope="module")
def of_ages():
    return question(columns=AGES, statistics={"columns": ["age"]})


@pytest.fixture(scope="module")
def of_wards():
    return question(columns=LEVELS, model={"formula": "bmi ~ age + C(ward)"})


def test_what_is_aimed_at_one_is_refused(of_wards):
    outcomes = aimed.play(of_wards, **HOW)
    known = {aimed.ROW, aimed.SITE}
    assert {one.about.split(" at ")[1] for one in outcomes} == known
    for one in outcomes:
        assert (one.successes, one.promised) == (0, 0.0), one
        assert one.trials >= 2


def test_without_rules_everything_aimed_is_answered(of_wards):
    for one in aimed.play(of_wards, **HOW, rules=Rules.none()):
        assert one.successes == one.trials, one


def test_it_is_said_which_rule_of_the_file_let_an_aim_pass():
    lax = {"minimum_count": 0, "effective_count": 0, "maximum_influence": 1.0}
    open_ = question(
        columns=LEVELS, model={"formula": "bmi ~ age + C(ward)"}, policy=lax
    )
    found = aimed.formulas_that_aim(open_, coalition=("ann",), seed=1)
    (row,) = [one for one in found if f"aimed at {aimed.ROW} " in one]
    assert "the file itself allows it ([policy] minimum_count = 0" in row
    assert "minimum_count = 3, as usual, refuses" in row
    assert "site_terms" not in row  # which is as usual
    assert row.endswith("all usual rules together refuse 4")
    # What the rules refuse is nobody's finding, and has no such line.
    assert not any(f"aimed at {aimed.SITE} " in one for one in found)


def test_rules_as_usual_let_no_aim_pass(of_wards):
    assert aimed.formulas_that_aim(of_wards, coalition=("ann",), seed=1) == ()


def test_amounts_of_few_sizes_are_no_levels():
    """One row with the largest of 0 to 4 tells nothing of itself, beside 0 to 3."""
    few = {**AGES, "stage": {"kind": "number", "minimum": 0, "maximum": 4, "unit": 1}}
    straight = question(columns=few, model={"formula": "age ~ stage"})
    by_level = question(columns=few, model={"formula": "age ~ C(stage)"})
    stage = straight.schema.columns[1]
    assert not aimed._aim_by_column_level(straight, stage)
    assert aimed._aim_by_column_level(by_level, stage)
    for one in aimed.play(straight, **HOW):
        assert one.successes == 0, one
    for one in aimed.play(straight, **HOW, rules=Rules.none()):
        assert one.successes == one.trials, one


def test_a_cost_has_no_rows_to_aim_at():
    (found,) = aimed.play(named("a cost"), **HOW)
    assert isinstance(found, SkippedAttack)


def test_ledgers_refuse_what_differs_by_one(of_ages):
    party, row = differencing.play(of_ages, **HOW)
    assert (party.successes, party.promised) == (0, 0.0)
    assert (row.successes, row.promised) == (0, 0.0)
    assert "one party" in party.about
    assert "one row" in row.about
    (cost,) = differencing.play(question(**COST), **HOW)
    assert cost.successes == 0


def test_without_ledgers_differences_are_exact(of_ages):
    found = [
        *differencing.play(of_ages, **HOW, ledgers=False),
        *differencing.play(question(**COST), **HOW, ledgers=False),
    ]
    assert [one.successes for one in found] == [1, 1, 1]


def test_a_table_of_one_length_has_no_row_to_leave_out():
    fixed = question(columns=AGES, statistics={"columns": ["age"]})
    schema = {"maximum_rows": fixed.size[0]}
    table = fixed.consortium.to_table()
    made = consortium_from({**table, "schema": {**table["schema"], **schema}})
    (found,) = differencing.play(type(fixed)(made), **HOW, ledgers=False)
    assert "one party" in found.about


def test_words_of_a_refusal_name_a_rule_and_no_number(of_ages, monkeypatch):
    said, bisected = refusals.play(of_ages, **{**HOW, "trials": 6})
    assert said.looked_at == "words"
    assert (said.successes, said.promised) == (0, 0.0)
    assert bisected.promised == 1 / 8
    assert bisected.successes <= 3
    # The twin: a refusal in full, as its owner reads it.
    monkeypatch.setattr(RehearsalAttempt, "words", property(lambda one: str(one.error)))
    full = refusals._guess_by_refusal_words(of_ages, ("ann",), (1, 0))
    assert full
    assert all(full)


def test_without_a_ledger_absences_tell_how_many_rows(of_ages):
    _, found = refusals.play(of_ages, **HOW, ledger=False)
    assert found.successes == found.trials
