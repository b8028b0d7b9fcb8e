"""A question in one file outside the package goes the whole way."""

from importlib.metadata import EntryPoint

import numpy as np
import pandas as pd
import pytest
import tomli_w
from click.testing import CliRunner

from contracts import totals
from finished import finished
from net.runs import Company, data_files
from refusals import refused
from veilsum.audit.question import AuditRehearsal
from veilsum.cli.app import app, command_names
from veilsum.cli.question import question_commands
from veilsum.consortium import kinds
from veilsum.errors import InvalidScenarioError
from veilsum.files.scenarios import read_scenario_file
from veilsum.party.consent import consent_to
from veilsum.party.own_rules import OwnRules
from veilsum.report.run_report import report_of_run
from veilsum.sums.job_file import read_job

HOME = EntryPoint("totals", "contracts.totals:KIND", kinds.GROUP)


@pytest.fixture
def installed(monkeypatch):
    """The question as an installed distribution offers it."""
    monkeypatch.setattr(kinds, "_question_kinds_from_others", lambda: {"totals": HOME})
    found = {
        **question_commands(),
        "totals": {**totals.KIND.command, "heading": "totals"},
    }
    monkeypatch.setattr("veilsum.cli.question.question_commands", lambda: found)
    monkeypatch.setattr("veilsum.cli.app.question_commands", lambda: found)
    kinds._extend_with_question_sections.cache_clear()
    yield
    kinds._extend_with_question_sections.cache_clear()


def frames(rows=60):
    stream = np.random.default_rng(4)
    return {
        name: pd.DataFrame(
            {
                "age": stream.integers(20, 90, rows),
                "cost": stream.uniform(0, 100, rows).round(2),
            }
        )
        for name in ("a", "b", "c", "d")
    }


TABLE = {
    "title": "totals",
    "schema": {
        "minimum_rows": 20,
        "columns": {
            "age": {"kind": "integer", "minimum": 0, "maximum": 120},
            "cost": {"kind": "number", "minimum": 0, "maximum": 100, "unit": 0.01},
        },
    },
    "graph": {"family": "complete:4"},
    "policy": {"tolerate": 1, "resend": 0.2, "deadline": 10.0},
    "totals": {"columns": ["age", "cost"]},
}


def expected():
    return {
        name: sum(round(float(one[name].sum()), 2) for one in frames().values())
        for name in ("age", "cost")
    }


@pytest.fixture
def company(installed, tmp_path):
    return Company(tmp_path, data_files(TABLE, frames(), tmp_path))


@pytest.mark.usefixtures("installed")
def test_file_command_and_simulations(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(tomli_w.dumps(data_files(TABLE, frames(), tmp_path)))
    assert read_scenario_file(path).asked == totals.TotalsSpec(columns=("age", "cost"))
    for driver in ("vectorised", "loopback"):
        found = read_job(path, "totals").run(driver=driver, seed=1)
        assert found.totals == pytest.approx(expected(), abs=1e-9)
        assert found.max_error == 0.0
    assert found.plot(title="All rows").axes
    called = CliRunner().invoke(app, ["totals", str(path)])
    assert called.exit_code == 0, called.output
    assert "Totals" in called.output
    assert "totals" in command_names()


def test_consent_own_rules_and_audit(company):
    page = consent_to(company.consortium)
    assert 'question: the totals of "age", "cost" over all members\' rows' in page.page
    assert "maximum_columns" not in page.page
    assert OwnRules(jobs=("model",)).refusals(company.consortium, alone=False)
    assert not OwnRules(jobs=("totals",)).refusals(company.consortium, alone=False)

    audited = AuditRehearsal(company.consortium)
    _, played = audited.sound(0)
    assert len(played.sums) >= 1


@pytest.mark.usefixtures("installed")
def test_report_on_a_finished_run(tmp_path):
    made = finished(data_files(TABLE, frames(), tmp_path), tmp_path)
    written = report_of_run(made.out(), receipts=made.receipts())
    assert written.good
    page = written.content.decode()
    assert "the totals of" in page
    assert "totals.sums" in page  # a statistic without words is shown by its key


def test_a_file_with_it_is_refused_where_it_is_not_installed(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(tomli_w.dumps(data_files(TABLE, frames(), tmp_path)))
    with refused("unknown-key", InvalidScenarioError, mentions=("totals",)):
        read_scenario_file(path)


def test_a_program_can_add_it_for_a_while(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(tomli_w.dumps(data_files(TABLE, frames(), tmp_path)))
    with kinds.registered(totals.KIND):
        assert read_scenario_file(path).asked is not None
        with (
            refused("duplicate-question-kind"),
            kinds.registered(totals.KIND),
        ):
            pass
    assert "totals" not in kinds.question_section_headings()


def test_no_distribution_replaces_a_built_in_question(monkeypatch):
    other = EntryPoint("model", "contracts.totals:KIND", kinds.GROUP)
    monkeypatch.setattr(kinds, "entry_points", lambda _: [other])
    kinds._question_kinds_from_others.cache_clear()
    try:
        assert kinds.question_section_headings() == tuple(kinds.BUILT_IN)
        assert kinds.kind_of_question_heading("model").spec.heading == "model"
    finally:
        kinds._question_kinds_from_others.cache_clear()


def test_two_distributions_with_one_heading_are_refused(monkeypatch):
    other = EntryPoint("totals", "elsewhere:KIND", kinds.GROUP)
    monkeypatch.setattr(kinds, "entry_points", lambda _: [HOME, other])
    kinds._question_kinds_from_others.cache_clear()
    with refused("duplicate-question-kind"):
        kinds.question_section_headings()
    kinds._question_kinds_from_others.cache_clear()
