"""Studies: several questions in one file, and files that grow."""

import copy
import tomllib

import pytest
import tomli_w

from cases import each
from consortium.test_consortium import RUN, certificate, job, table
from refusals import refused
from veilsum.consortium.consortium import Address, consortium_from
from veilsum.consortium.drafting import study_of_scenario_file
from veilsum.consortium.sections import ScenarioFile
from veilsum.consortium.study import (
    MOST_QUESTIONS,
    SHARED,
    is_study,
    run_of_study_question,
    study_from,
)
from veilsum.errors import InvalidScenarioError
from veilsum.files.consortiums import read_agreement, write_consortium
from veilsum.reading import read_section

FIT = {"name": "a-fit", "model": {"formula": "y ~ x"}}
MEANS = {"name": "means", "statistics": {"columns": ["x", "y"]}}
MORE = {"name": "more", "model": {"formula": "x ~ y"}}


def study(*questions, **changes):
    return job(model=None, question=[*(questions or (FIT, MEANS))], **changes)


def test_files_with_one_question_are_what_they_were():
    """Digests that were made before there were studies."""
    assert consortium_from(table()).digest.hex() == (
        "1ab3f8c57de7b560b8f1e09a41a600c45563786048bbd7af7fbca2d302c419e2"
    )
    assert consortium_from(job()).digest.hex() == (
        "8f42adfb96b7a45aefe4282454fdc9fa6ccf96fd20916854adfdbf287be77714"
    )


def test_every_question_is_a_consortium_of_its_own():
    found = study_from(study())
    assert [*found.questions] == ["a-fit", "means"]
    assert found.run == RUN
    assert found.new == ("a-fit", "means")
    one, two = found.questions.values()
    assert one.question.formula == "y ~ x"
    assert two.question.columns == ("x", "y")
    assert one.run == run_of_study_question(found.digest.hex(), "a-fit")
    assert one.run.startswith("a-fit-")
    assert len({found.run, one.run, two.run}) == 3
    assert one.study == two.study == found.digest.hex()
    assert found.after("a-fit") == {two.run}
    assert found.after("means") == frozenset()
    # Its file can be written down, and says the same.
    assert consortium_from(one.to_table()).digest == one.digest


@each("key", [*SHARED, "run", "question"])
def test_whatever_differs_is_another_study_with_other_runs(key):
    made = study(organiser="ann")
    changes = {
        "run": RUN.replace("a-test", "b-test"),
        "title": "another",
        "organiser": "bob",
        "masks": {"law": "uniform", "largest": 2e6},
        "policy": {"tolerate": 0},
        "members": [
            {**made["members"][0], "certificate": certificate("eve")},
            *made["members"][1:],
        ],
        "graph": {"edges": [["ann", "bob"], ["bob", "cem"]]},
        "schema": {**made["schema"], "minimum_rows": 40},
        "question": [FIT, MORE],
        "deployment": {
            "relay": ["wss://relay.example.org:8443"],
            "relay_token": "0" * 64,
        },
    }
    found, other = study_from(made), study_from({**made, key: changes[key]})
    assert found.digest != other.digest
    assert found.first.run != other.first.run
    assert found.first.digest != other.first.digest


def test_a_file_that_is_written_is_read_as_the_same(tmp_path):
    found = study_from(study())
    write_consortium(tmp_path / "study.toml", found)
    again = read_agreement(tmp_path / "study.toml")
    assert again.digest == found.digest
    assert [one.digest for one in again.questions.values()] == [
        one.digest for one in found.questions.values()
    ]
    assert study_from(found.to_table()).digest == found.digest
    write_consortium(tmp_path / "one.toml", found.first)
    assert read_agreement(tmp_path / "one.toml").digest == found.first.digest
    with refused("study-not-question", InvalidScenarioError):
        consortium_from(found.to_table())


ODD = {
    "no question": ({"question": []}, "at least one"),
    "no name": ({"question": [{"model": FIT["model"]}]}, "has a name"),
    "a capital": ({"question": [{**FIT, "name": "Fit"}]}, "has a name"),
    "a path": ({"question": [{**FIT, "name": "../fit"}]}, "has a name"),
    "a dash": ({"question": [{**FIT, "name": "fit-"}]}, "has a name"),
    "a long name": ({"question": [{**FIT, "name": "f" * 41}]}, "has a name"),
    "a number": ({"question": [{**FIT, "name": 3}]}, "has a name"),
    "twice a name": ({"question": [FIT, {**MEANS, "name": "a-fit"}]}, "two questions"),
    "twice the same": ({"question": [FIT, {**FIT, "name": "b"}]}, "ask the same"),
    "none": ({"question": [{"name": "a"}]}, "exactly one of"),
    "two": ({"question": [{**FIT, **MEANS}]}, "exactly one of"),
    "a cost": ({"question": [{"name": "a", "cost": {}}]}, "exactly one of"),
    "a dispatch": ({"question": [{"name": "a", "dispatch": {}}]}, "exactly one of"),
    "a policy": ({"question": [{**FIT, "policy": {}}]}, "one .policy. for all"),
    "a schema": ({"question": [{**FIT, "schema": {}}]}, "under one .schema."),
    "a section beside": ({"statistics": {}}, r"write it as \[question.statistics\]"),
    "a domain": ({"domain": {}}, "unknown key 'domain'"),
    "a misspelt key": ({"polcy": {}}, "policy"),
    "a misspelt word": (
        {"question": [{"name": "a", "model": {"formla": "y ~ x"}}]},
        "question 'a': .*formula",
    ),
    "an old format": ({"format": 0}, "format = 1"),
    "a poor run": ({"run": "study"}, "run must be"),
    "many": (
        {"question": [{**FIT, "name": f"q{k}"} for k in range(MOST_QUESTIONS + 1)]},
        f"{MOST_QUESTIONS} questions at most",
    ),
    "no table": ({"question": FIT}, "one .*question"),
}


@each(("changes", "words"), ODD.values(), ids=ODD)
def test_what_is_odd_is_refused(changes, words):
    with pytest.raises(InvalidScenarioError, match=words):
        study_from({**study(), **changes})


def test_a_digest_is_all_that_a_file_says_of_its_study():
    with refused("malformed-study-digest", InvalidScenarioError, mentions=("64",)):
        consortium_from(job(study="mine"))
    assert consortium_from(job(study="0" * 64)).study == "0" * 64


# Editions


def test_a_study_grows_and_what_there_was_stays():
    first = study_from(study())
    second = study_from(first.grown([MORE]))
    assert second.editions[0] == first.editions[0]
    assert second.new == ("more",)
    assert second.digest != first.digest
    for name in first.questions:
        assert second.questions[name].digest == first.questions[name].digest
    assert second.questions["more"].study == second.digest.hex()
    last = {"name": "last", "statistics": {"columns": ["x"]}}
    third = study_from(second.grown([last]))
    assert [one.questions for one in third.editions] == [2, 3, 4]
    assert third.questions["more"].digest == second.questions["more"].digest
    assert third.after("more") == {third.questions["last"].run}
    # The same question in a first edition is another run.
    other = study_from(study(FIT, MEANS, MORE)).questions["more"]
    assert other.run != second.questions["more"].run


CHANGED = {
    "a question": lambda made: made["question"][0]["model"].update(formula="y ~ 1"),
    "a name": lambda made: made["question"][0].update(name="other"),
    "the order": lambda made: made["question"].reverse(),
    "a rule": lambda made: made["policy"].update(tolerate=0),
    "a range": lambda made: made["schema"].update(minimum_rows=5),
    "a member": lambda made: made["members"][2].update(address="x.example.org:1"),
    "the run": lambda made: made.update(run=RUN.replace("a-test", "b-test")),
    "the digest": lambda made: made["earlier"][0].update(digest="0" * 64),
    "a number": lambda made: made["earlier"][0].update(questions=1),
    "none new": lambda made: made["earlier"][0].update(questions=3),
    "a negative": lambda made: made["earlier"][0].update(questions=-1),
}


@each("change", CHANGED.values(), ids=CHANGED)
def test_a_later_edition_changes_nothing_that_was_agreed(change):
    made = copy.deepcopy(study_from(study()).grown([MORE]))
    study_from(made)
    change(made)
    with pytest.raises(InvalidScenarioError, match=r"was changed|more questions than"):
        study_from(made)


# Out of a scenario

SCENARIO = """
title = "two questions"
[parties]
names = ["ann", "bob", "cem"]
[data]
files = {}
[schema.columns]
x = { kind = "number", unit = 0.001 }
y = { kind = "number", unit = 0.001 }
[[question]]
name = "a-fit"
[question.model]
formula = "y ~ x"
[[question]]
name = "means"
[question.statistics]
columns = ["x", "y"]
[policy]
tolerate = 1
"""


def drafted(text=SCENARIO):
    return study_of_scenario_file(
        read_section(tomllib.loads(text), ScenarioFile, "the scenario"),
        certificates={name: certificate(name) for name in ("ann", "bob", "cem")},
        addresses={"ann": Address("ann", 1), "bob": Address("bob", 2)},
        run=RUN,
        organiser="",
    )


def test_a_scenario_with_questions_becomes_a_study():
    found, left_out = drafted()
    assert [*found.questions] == ["a-fit", "means"]
    assert found.title == "two questions"
    assert found.first.topology.n_parties == 3
    assert left_out == ("[data]: private, each party gives its own table",)
    assert is_study(found.to_table())
    assert study_from(tomllib.loads(tomli_w.dumps(found.to_table()))).digest == (
        found.digest
    )


GAPS = """
[[question]]
name = "gaps"
[question.statistics]
columns = ["z"]
by = "g"
missing = "groups"
"""
DROPPING = (
    SCENARIO.replace("[schema.columns]", '[schema]\nmissing = "drop"\n[schema.columns]')
    + GAPS
).replace(
    "[[question]]",
    """z = { kind = "number", unit = 1 }
g = { kind = "category", categories = ["a", "b"] }
[[question]]""",
    1,
)


def test_all_questions_of_a_study_are_about_the_same_rows():
    """Rows have all columns of questions that do not count missing values."""
    found, _ = drafted(DROPPING)
    assert found.to_table()["schema"]["complete"] == ["x", "y"]
    for one in found.questions.values():
        assert [column.name for column in one.schema.complete] == ["x", "y"]
    assert study_from(found.to_table()).digest == found.digest


@pytest.mark.parametrize("names", [[], ["z"]])
def test_a_plan_may_say_which_columns_every_row_has(names):
    line = f"complete = {names}".replace("'", '"')
    text = DROPPING.replace('missing = "drop"', f'missing = "drop"\n{line}')
    assert drafted(text)[0].to_table()["schema"]["complete"] == names


def test_where_tables_have_no_gaps_nothing_is_said_of_them():
    assert "complete" not in drafted()[0].to_table()["schema"]


def test_a_scenario_asks_in_one_way():
    beside = '[model]\nformula = "y ~ x"\n' + SCENARIO.replace(
        'title = "two questions"', ""
    )
    with refused(
        "section-beside-questions", InvalidScenarioError, mentions=("[question.model]",)
    ):
        drafted(beside)
