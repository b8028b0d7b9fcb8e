"""A party that stays up takes part in studies: every question must be allowed."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from socket import create_server

import pytest

import veilsum as vs
from party.test_joining_studies import PATIENT, given
from party.test_studying import FIT, MEANS, SMOKERS, Group, call
from veilsum.consortium.study import study_from
from veilsum.files.consortiums import write_consortium
from veilsum.files.ledger import read_ledger
from veilsum.party import serving
from veilsum.party.serving import PartyHousehold, PartyServer
from veilsum.party.studying import read_study_status

ALLOWED = 'jobs = ["statistics", "model"]\n'
pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


class House:
    """Party a of a group at home, with an inbox."""

    def __init__(self, folder, *questions, **policy):
        self.group = Group(folder, *questions, **{**PATIENT, **policy})
        self.place, self.inbox = self.group.folder("a"), folder / "inbox"
        self.inbox.mkdir()
        self.home = PartyHousehold(
            identity=vs.read_identity(self.place / "a.key"),
            data=self.place / "data.csv",
        )
        self.serving = PartyServer(self.inbox, self.home)
        self.study = self.group.study

    def deliver(self, study=None, name="study.toml"):
        write_consortium(self.inbox / name, study or self.study)
        return self.inbox / name

    def allow(self, rules=ALLOWED):
        (self.place / "veilsum.toml").write_text(rules)

    def look(self):
        """Look once, wait until whatever began is over; the study's status."""
        self.serving.look()
        for one in self.serving._running.values():
            one.thread.join()
        (status,) = self.serving.statuses()
        return status

    def taken_address(self):
        """Somebody else listens where the party would: it goes no further."""
        address = self.study.first.member("a").address
        return closing(create_server((address.host, address.port)))


@pytest.fixture
def house(tmp_path):
    return House(tmp_path, MEANS, FIT)


def tried_to_join(status):
    return status.state == "failed" and "listens there" in status.reason


def test_what_the_rules_allow_in_every_question_is_joined_alone(house):
    house.deliver()
    house.allow()
    with house.taken_address():
        assert tried_to_join(house.look())
    stages = read_study_status(house.home.folder(house.study.run)).stages.values()
    assert {one.stage for one in stages} == {"open"}, "nothing is over for good"


def test_one_question_beyond_the_rules_waits_for_a_person(house):
    file = house.deliver()
    house.allow('jobs = ["model"]\n')
    with house.taken_address():
        status = house.look()
        assert (status.state, status.file) == ("pending", str(file))
        assert status.reason.startswith("means: jobs = model")
        assert "fit" not in status.reason
        assert status.page == vs.party.consent_to_study(house.study).digest
        assert not (house.place / "a.ledger").exists()
        house.home.agree(house.study)
        assert tried_to_join(house.look())
    # The rules still refuse that question, whoever agrees.
    page = (house.home.folder(house.study.run) / "consent.txt").read_text()
    assert "means: REFUSED: jobs = model" in page
    pending = read_ledger(house.place / "a.ledger").pending
    assert [*pending] == [house.study.questions["fit"].run]


def test_what_the_rules_refuse_in_all_questions_nobody_can_agree_to(house):
    house.deliver()
    house.allow('jobs = ["cost"]\n')
    house.home.agree(house.study)
    with house.taken_address():
        status = house.look()
    assert status.state == "refused"
    assert "jobs = cost" in status.reason


def test_a_person_is_asked_with_the_page_of_the_study(house):
    file = house.deliver()
    words = ("serve", house.inbox, "--identity", house.place / "a.key")
    words = (*words, "--data", house.place / "data.csv", "--agree", file)
    told = call(*words)
    assert told.exit_code == 2
    assert "CONSENT TO A STUDY: " in told.stderr
    assert "only a person can agree here" in told.stderr
    assert not house.home.agreed(house.study.run).exists()


def test_the_last_edition_is_joined_and_the_first_gone_on_with(house):
    """Both have the study's name; a file that is no edition of it is another matter."""
    house.allow()
    house.deliver(name="a.toml")
    grown = study_from(house.study.grown([SMOKERS]))
    file = house.deliver(grown, name="b.toml")
    files = [(house.inbox / "a.toml", house.study), (file, grown)]
    assert house.serving._latest_edition(files) == files[1]
    with house.taken_address():
        status = house.look()
        assert tried_to_join(status)
        assert status.consortium == grown.digest.hex()
    other = study_from({**house.study.to_table(), "title": "another"})
    assert house.serving._latest_edition([*files, (file, other)]) is None
    house.serving = PartyServer(house.inbox, house.home)
    house.serving._write(house.study, file, "stopped")
    assert house.serving._latest_edition(files) == files[0]


def test_a_served_party_and_three_others_go_through_a_study(house, tmp_path):
    """Stopped once on the way; then the same command goes on, and later adds."""
    house.deliver()
    house.allow()
    house.serving.look()
    running = house.serving._running[house.study.run].thread
    path = house.home.status(house.study.run)
    while not (path.exists() and '"greeting"' in path.read_text()):
        running.join(0.01)
        assert running.is_alive()
    house.serving.stop()
    (status,) = house.serving.statuses()
    assert (status.state, status.phase) == ("stopped", "greeting")
    again = house.serving = PartyServer(house.inbox, house.home)
    again.look()
    with ThreadPoolExecutor(3) as pool:
        calls = [given(house.group, name) for name in "bcd"]
        found = list(pool.map(lambda one: vs.join(**one), calls))
    status = house.look()
    assert (status.state, status.reason) == ("done", "")
    out = house.home.folder(house.study.run)
    assert read_study_status(out).good
    for question, agreed in house.study.questions.items():
        receipts = [one.answers[question].receipt for one in found]
        receipts.append(vs.read_receipt(out / question / "receipt.json"))
        assert vs.verify_receipts(receipts, agreed).good
    assert house.look() == status, "it is over"
    assert call("study", "status", out).exit_code == 0
    shutil.rmtree(tmp_path / "inbox")


def test_a_study_that_makes_the_program_fail_is_set_aside(house, monkeypatch):
    def fails(_):
        raise RecursionError

    path = house.deliver()
    monkeypatch.setattr(serving, "study_consent_page", fails)
    house.serving.look()
    assert not path.exists()
    assert len([*house.home.folder(serving.SET_ASIDE).iterdir()]) == 2
