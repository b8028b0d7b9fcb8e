"""Facts of plans of every kind, made once for all tests of an officer's papers."""

from dataclasses import replace

import pytest

from contracts import totals
from party.test_agreed import ON_DATA
from party.test_consent import QUESTIONS
from report.officer_plans import (
    SURVEYS,
    TABLES,
    run_folder,
    table,
    written,
    written_plan,
    written_study,
    written_survey,
)
from surveys import MEMBERS
from veilsum.consortium import kinds
from veilsum.consortium.consortium import consortium_from
from veilsum.report.plan_facts import RunEnd, _plan_facts, plan_facts_of

TOTALS = {**ON_DATA, "totals": {"columns": ["x"]}}
FORGED = ("signatures are good",)


@pytest.fixture(scope="session", name="folder")
def folder_fixture(tmp_path_factory):
    return tmp_path_factory.mktemp("plans")


@pytest.fixture(scope="session", name="known")
def known_fixture(folder):
    """Facts of plans of every kind, by name."""
    found = {name: plan_facts_of(written(name, folder)) for name in TABLES}
    found["study"] = plan_facts_of(written_study(folder))
    (folder / "planned").mkdir()
    found["plan"] = plan_facts_of(written_plan(folder / "planned"))
    found["run"] = plan_facts_of(run_folder(folder / "run"))
    found["lost"] = plan_facts_of(run_folder(folder / "lost", "b"))
    ended = found["run"].ended
    found["forged"] = replace(found["run"], ended=replace(ended, failed=FORGED))
    with kinds.registered(totals.KIND):
        found["totals"] = _plan_facts(consortium_from(table(TOTALS)), "consortium")
    found["unproved"] = replace(found["lattice"], epsilon=None)
    return found


@pytest.fixture(scope="session", name="asked")
def asked_fixture():
    """Facts of every kind of question, by name."""
    return {
        kind: _plan_facts(consortium_from(table(sections)), "consortium")
        for kind, sections in QUESTIONS.items()
    }


@pytest.fixture(scope="session", name="survey_files")
def survey_files_fixture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("surveys")
    return {name: written_survey(name, folder) for name in SURVEYS}


@pytest.fixture(scope="session", name="known_surveys")
def known_surveys_fixture(survey_files):
    """Facts of surveys, by name."""
    found = {name: plan_facts_of(path) for name, path in survey_files.items()}
    ended = RunEnd(
        party="ann",
        parties=MEMBERS,
        lost=(),
        started="2030-01-31T12:00:00Z",
        finished="2030-01-31T12:00:05Z",
        version="0",
        failed=(),
    )
    found["ended"] = replace(found["closed"], ended=ended)
    found["forged"] = replace(found["closed"], ended=replace(ended, failed=FORGED))
    return found
