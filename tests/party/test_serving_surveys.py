"""A delegate that stays up joins a survey when it is closed, and not before."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import tomli_w
from click.testing import CliRunner

import veilsum as vs
from party.test_taking_part import given
from surveyors import MEMBERS, Surveyors, in_cents
from veilsum.cli.app import app
from veilsum.files.consortiums import write_consortium
from veilsum.party import serving
from veilsum.party.own_survey import STORE, SUBMISSIONS
from veilsum.party.run_status import read_run_status
from veilsum.party.serving import (
    PartyHousehold,
    PartyServer,
    files_without_open_surveys,
)
from veilsum.report.run_report import report_of_run
from veilsum.surveys.survey_set import survey_set_of, write_submissions
from veilsum.surveys.terms import survey_closing_entries
from veilsum.web.live import RunWatch

pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


class House:
    """Ann at home: her key, her store, and what the host has sent."""

    def __init__(self, folder):
        self.company = Surveyors(folder)
        self.place = self.company.folder("ann")
        identity = vs.read_identity(self.place / "ann.key")
        self.home = PartyHousehold(identity=identity)
        self.serving = PartyServer(self.place, self.home)
        write_consortium(self.place / "wages.veil", self.company.opened)

    def close(self):
        write_consortium(self.place / "closed.toml", self.company.consortium)

    def allow(self):
        (self.place / "veilsum.toml").write_text('jobs = ["survey"]\n')

    def look(self):
        self.serving.look()
        for one in self.serving._running.values():
            one.thread.join()
        return read_run_status(self.home.status(self.company.consortium.run))


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


def test_an_open_survey_waits_for_its_host(house):
    house.allow()
    status = house.look()
    assert status.state == "pending"
    assert "this survey is open" in status.reason
    assert "collect fetch" in status.reason


def test_a_closed_survey_takes_the_open_files_place_and_waits_for_a_person(house):
    house.close()
    status = house.look()
    assert (status.state, status.consortium) == (
        "pending",
        house.company.consortium.digest.hex(),
    )
    assert "no veilsum.toml" in status.reason
    assert "another file" not in status.reason
    told = CliRunner().invoke(app, ["status", str(house.place)])
    assert "pending" in told.output


def test_two_closed_files_of_one_survey_are_a_persons_to_choose_from(house):
    house.allow()
    house.close()
    company = house.company
    fewer = survey_set_of(company.open_terms, company.submissions[:-1])
    closing = survey_closing_entries(company.open_terms, fewer.digest, fewer.tally)
    survey = {**company.table["survey"], **closing}
    other = house.place / "other.toml"
    other.write_text(tomli_w.dumps({**company.table, "survey": survey}))
    status = house.look()
    assert status.state == "pending"
    assert "a person says which is meant" in status.reason


@pytest.mark.parametrize("name", [STORE, SUBMISSIONS])
def test_what_is_not_there_yet_is_waited_for(house, name):
    house.allow()
    house.close()
    (house.place / name).rename(house.place / "aside")
    status = house.look()
    assert status.state == "pending"
    assert f"has no {name}" in status.reason


def test_submissions_of_another_set_are_said(house):
    house.allow()
    house.close()
    lines = write_submissions(house.company.submissions[:-1])
    (house.place / SUBMISSIONS).write_bytes(lines)
    status = house.look()
    assert status.state == "failed"
    assert "not those that the closed file names" in status.reason


def test_a_served_delegate_adds_up_with_the_others_and_the_page_shows_it(house):
    """Its own rules allow surveys: nobody is asked."""
    house.allow()
    house.close()
    house.serving.look()
    company, run = house.company, house.company.consortium.run
    with ThreadPoolExecutor(2) as pool:
        calls = [given(company, name) for name in ("bob", "cem")]
        found = list(pool.map(lambda call: vs.join(**call), calls))
    house.serving._running[run].thread.join()
    status = read_run_status(house.home.status(run))
    assert (status.state, status.phase) == ("done", "finished")
    counted, _ = in_cents(company.guests)
    for one in found:
        assert one.result.given.tolist() == counted
    receipt = vs.read_receipt(house.home.folder(run) / "receipt.json")
    signed = [receipt, *(one.receipt for one in found)]
    assert vs.verify_receipts(signed, company.consortium).good
    house.serving.look()  # it is over
    assert not house.serving.busy
    watch = RunWatch(house.place)
    watch.look()
    (seen,) = watch.found.runs.values()
    assert (seen.shown["state"], seen.shown["report"]) == ("done", True)
    assert watch.network(company.consortium.digest.hex())["parties"] == [*MEMBERS]
    page = report_of_run(house.home.folder(run)).content.decode()
    assert "Wages" in page


def test_a_person_agrees_to_a_survey_at_home(house, monkeypatch):
    house.close()
    monkeypatch.setattr(
        "veilsum.cli.join.ask_on_terminal", lambda page, **_: shown.append(page)
    )
    shown = []
    words = ["serve", house.place, "--identity", house.place / "ann.key"]
    told = CliRunner().invoke(
        app, [*map(str, words), "--agree", str(house.place / "closed.toml")]
    )
    assert told.exit_code == 0, told.output
    text = " ".join(shown[0].text(long=True).split())
    assert "in it are 20 guests" in text
    assert "- store: passed" in text
    assert house.home.has_agreed(house.company.consortium.run, shown[0].digest)


def test_only_the_open_file_of_the_same_survey_gives_way(house):
    house.close()
    opened = vs.read_consortium(house.place / "wages.veil")
    closed = vs.read_consortium(house.place / "closed.toml")
    both = [(house.place / "a", opened), (house.place / "b", closed)]
    assert files_without_open_surveys(both) == both[1:]
    assert files_without_open_surveys(both[:1]) == both[:1]


def test_a_survey_that_makes_the_program_fail_is_set_aside(house, monkeypatch):
    def fails(_):
        raise TypeError

    monkeypatch.setattr(serving, "study_consent_page", fails)
    house.serving.look()
    assert not (house.place / "wages.veil").exists()
    assert len([*house.home.folder(serving.SET_ASIDE).iterdir()]) == 2
