"""A party that stays up: it joins what its rules allow, and nothing else alone."""

import gc
import logging
import shutil
import ssl
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import msgspec
import numpy as np
import pytest
import tomli_w

import veilsum as vs
from net.runs import ONE_SHOT, TARGETS, Company, changed
from party.test_taking_part import given, taken_address
from refusals import refused
from veilsum.party.run_status import read_run_status, run_statuses_in, write_run_status
from veilsum.party.serving import PartyHousehold, PartyServer

FOUR = changed(ONE_SHOT, policy={"meeting": 600.0, "deadline": 300.0})
ALLOWED = 'jobs = ["cost"]\n'
pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


class House:
    """Party a of a company at home, with an inbox."""

    def __init__(self, folder):
        self.company = Company(folder, FOUR)
        self.place = self.company.folder("a")
        self.inbox = folder / "inbox"
        self.inbox.mkdir()
        (self.place / "veilsum.toml").unlink(missing_ok=True)
        self.home = PartyHousehold(
            identity=vs.read_identity(self.place / "a.key"),
            cost=self.place / "cost.toml",
        )
        self.serving = PartyServer(self.inbox, self.home)

    @property
    def run(self):
        return self.company.consortium.run

    @property
    def file(self):
        return self.inbox / "consortium.toml"

    def deliver(self, *, run=None, **policy):
        """Put the file into the inbox, perhaps with a policy of somebody's own."""
        shutil.copy(self.place / "consortium.toml", self.file)
        if policy or run:
            table = tomllib.loads(self.file.read_text())
            table["policy"] = {**table.get("policy", {}), **policy}
            table["run"] = run or table["run"]
            self.file.write_text(tomli_w.dumps(table))

    def allow(self, rules=ALLOWED):
        (self.place / "veilsum.toml").write_text(rules)

    def look(self):
        """Look once, wait until whatever began is over; the run's status."""
        self.serving.look()
        for one in self.serving._running.values():
            one.thread.join()
        (status,) = self.serving.statuses()
        return status

    def agree(self):
        self.home.agree(vs.read_consortium(self.file))


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


def tried_to_join(status):
    """Whether it got as far as to its own address, which is taken in these tests."""
    return status.state == "failed" and "listens there" in status.reason


# Who may join


def test_without_rules_a_person_is_waited_for(house):
    house.deliver()
    with taken_address(house.company, "a"):
        status = house.look()
        assert (status.state, status.file) == ("pending", str(house.file))
        assert "no veilsum.toml" in status.reason
        assert status.page == vs.consent_to(house.company.consortium).digest
        assert house.look() == status
        house.agree()
        assert tried_to_join(house.look())


@pytest.mark.parametrize("rules", [None, ALLOWED])
def test_a_person_s_no_outweighs_the_rules_until_a_person_agrees(house, rules):
    house.deliver()
    if rules:
        house.allow(rules)
    house.agree()
    house.home.decline(vs.read_consortium(house.file), house.file, now=0.0)
    with taken_address(house.company, "a"):
        status = house.look()
        assert status.state == "refused"
        assert "a person said no" in status.reason
        house.allow()  # other rules are no other answer
        assert house.look() == status
        house.agree()
        assert tried_to_join(house.look())


def test_a_no_is_to_one_page_only(house):
    """The same run asked with another policy is another page."""
    house.deliver()
    house.home.decline(vs.read_consortium(house.file), house.file, now=0.0)
    house.deliver(minimum_honest=2)
    assert house.look().state == "pending"


def test_a_run_that_has_begun_is_not_refused(house):
    house.deliver()
    house.look()
    path = house.home.status(house.run)
    known = read_run_status(path)
    write_run_status(path, msgspec.structs.replace(known, state="running"))
    with refused("run-already-begun", vs.InvalidInputError):
        house.home.decline(vs.read_consortium(house.file), house.file, now=0.0)
    assert read_run_status(path).state == "running"


def test_what_the_rules_allow_is_joined_alone(house):
    house.deliver()
    house.allow()
    with taken_address(house.company, "a"):
        assert tried_to_join(house.look())


def test_what_the_rules_refuse_nobody_can_agree_to(house):
    house.deliver()
    house.allow('jobs = ["model"]\n')
    house.agree()
    with taken_address(house.company, "a"):
        status = house.look()
    assert status.state == "refused"
    assert "jobs = model" in status.reason


def test_what_is_weaker_than_usual_waits_for_a_person(house):
    house.deliver(minimum_honest=2)
    house.allow()
    with taken_address(house.company, "a"):
        status = house.look()
        assert status.state == "pending"
        assert "minimum_honest is usually at least 3" in status.reason
        house.agree()
        assert tried_to_join(house.look())


def test_rules_that_cannot_be_read_allow_nothing(house, caplog):
    house.deliver()
    house.allow("jobs = cost\n")
    house.serving.look()
    house.serving.look()
    assert not house.serving.busy
    assert caplog.text.count("own rules cannot be read") == 1
    house.allow()
    with taken_address(house.company, "a"):
        assert tried_to_join(house.look())


def test_what_can_be_mended_is_not_refused_for_good(house):
    """A table that is not there, or a token that lies open: restarted, it goes on."""
    house.deliver()
    house.allow()
    cost = house.place / "cost.toml"
    cost.rename(house.place / "away.toml")
    with taken_address(house.company, "a"):
        status = house.look()
        assert status.state == "failed"
        assert "cannot read" in status.reason
        (house.place / "away.toml").rename(cost)
        house.serving = PartyServer(house.inbox, house.home)
        assert tried_to_join(house.look())


def test_what_the_own_numbers_forbid_is_refused_for_good(house):
    house.deliver()
    house.allow()
    cost = house.place / "cost.toml"
    good = cost.read_text()
    cost.write_text("targets = [1e30, 2.0]\n")
    with taken_address(house.company, "a"):
        status = house.look()
        assert (status.state, "1e" in status.reason) == ("refused", False)
        cost.write_text(good)
        house.serving = PartyServer(house.inbox, house.home)
        assert house.look() == status


def test_an_amended_file_waits_for_everybodys_word(house, monkeypatch):
    house.deliver()
    house.allow()
    missing = vs.InvalidInputError("b did not agree to it yet")

    def refuse(*_):
        raise missing

    with taken_address(house.company, "a"):
        with monkeypatch.context() as patch:
            patch.setattr("veilsum.party.serving.check_amendment", refuse)
            for _ in range(2):
                status = house.look()
                assert status.state == "pending"
                assert "did not agree" in status.reason
        assert tried_to_join(house.look())


# Files


def test_files_of_others_and_of_no_use_are_left_alone(house, caplog):
    caplog.set_level(logging.WARNING)
    (house.inbox / "notes.txt").write_text("hello")
    (house.inbox / "veilsum.toml").write_text(ALLOWED)
    (house.inbox / "broken.toml").write_text("[")
    (house.inbox / "folder.toml").mkdir()
    other = House(house.inbox.parent / "other")
    shutil.copy(other.place / "consortium.toml", house.inbox / "other.toml")
    for _ in range(2):
        house.serving.look()
    assert house.serving.statuses() == []
    told = [(one.message, one.file) for one in caplog.records]
    assert told == [
        ("no consortium file", "broken.toml"),
        ("no consortium file", "folder.toml"),
        ("does not name this party", "other.toml"),
    ]


# Runs


def test_a_served_party_and_three_others_come_to_one_answer(house):
    """Stopped once on the way; then the same command goes on."""
    house.deliver()
    house.allow()
    house.serving.look()
    first = house.serving._running[house.run].thread
    wait_until(house, "greeting")
    house.serving.stop()
    assert not first.is_alive()
    status = read_run_status(house.home.status(house.run))
    assert (status.state, status.phase, status.waiting) == ("stopped", "greeting", ())
    again = PartyServer(house.inbox, house.home)
    again.look()
    with ThreadPoolExecutor(3) as pool:
        calls = [given(house.company, name) for name in "bcd"]
        found = list(pool.map(lambda call: vs.join(**call), calls))
    again._running[house.run].thread.join()
    (status,) = again.statuses()
    assert (status.state, status.phase) == ("done", "finished")
    for one in found:
        np.testing.assert_allclose(
            one.result.answer, np.mean(TARGETS, axis=0), atol=1e-6
        )
    receipt = vs.read_receipt(house.home.folder(house.run) / "receipt.json")
    receipts = [receipt, *(one.receipt for one in found)]
    assert vs.verify_receipts(receipts, house.company.consortium).good
    # It is over: nothing begins again, and everybody's status says so.
    again.look()
    assert not again.busy
    here = [*run_statuses_in(house.place.parent)]
    assert [(one.party, one.state) for one in here] == [(n, "done") for n in "abcd"]


@contextmanager
def without_collector():
    """Nothing that refers to itself is freed, unless the program sees to it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def n_contexts():
    return sum(type(one) is ssl.SSLContext for one in gc.get_objects())


def test_a_run_that_has_ended_leaves_no_tls_context(house):
    """Of 100 runs these alone were tens of megabytes, which Python does not count."""
    house.deliver()
    house.allow()
    with without_collector():
        before = n_contexts()
        house.serving.look()
        with ThreadPoolExecutor(3) as pool:
            calls = [given(house.company, name) for name in "bcd"]
            list(pool.map(lambda call: vs.join(**call), calls))
        house.serving._running[house.run].thread.join()
        assert house.serving.statuses()[0].state == "done"
        assert n_contexts() > before
        house.serving.look()
        assert n_contexts() == before


def wait_until(house, phase, file=""):
    """Wait for a phase of the run; of a file that took another's place, if named."""
    path = house.home.status(house.run)
    run = house.serving._running[house.run]

    def there():
        status = read_run_status(path) if path.exists() else None
        return status and status.phase == phase and status.file.endswith(file)

    while not there():
        run.thread.join(0.01)
        assert run.thread.is_alive()


def test_a_run_waits_while_another_one_has_its_address(house):
    """Both files have the same members and addresses; the second run is queued."""
    house.deliver()
    house.allow()
    second = house.inbox / "second.toml"
    text = house.file.read_text()
    second.write_text(text.replace(house.run, "next-" + "0" * 32))
    house.serving.look()
    try:
        found = {one.run: one.state for one in house.serving.statuses()}
        assert found["next-" + "0" * 32] == "queued"
        assert len(house.serving._running) == 1
    finally:
        house.serving.stop()


def test_a_run_that_was_given_up_is_over(tmp_path):
    house = House(tmp_path)
    house.deliver(meeting=0.2, deadline=0.2, patience=1, resend=0.1)
    house.allow()
    status = house.look()
    assert (status.state, status.phase) == ("given up", "aborted")
    assert "waited for b, c, d while greeting" in status.reason
    house.serving.look()
    assert not house.serving.busy


# Numbers


def test_numbers_name_no_party_no_title_and_no_reason(house):
    house.deliver()
    house.look()
    path = house.home.status(house.run)
    text = path.read_text().replace('"pending"', '"running"')
    path.write_text(text.replace('"waiting": []', '"waiting": ["b", "c"]'))
    found = {
        (one.name, *one.labels.values()): one.value for one in house.serving.metrics()
    }
    label = house.run[-8:]
    assert found["veilsum_up",] == 1
    assert found["veilsum_runs", "running"] == 1
    assert found["veilsum_runs", "pending"] == 0
    assert found["veilsum_run_waiting_for", label] == 2
    labels = {one for key in found for one in key[1:]}
    states = {key[1] for key in found if key[0] == "veilsum_runs"}
    assert labels == {label, *states}
    assert "four" not in label


def test_a_folder_that_is_gone_is_not_well(house):
    now = [1000.0]
    serving = PartyServer(house.inbox, house.home, clock=lambda: now[0])
    serving.look()
    shutil.rmtree(house.inbox)
    now[0] += 59
    serving.look()
    assert serving.healthy()
    now[0] += 2
    assert not serving.healthy()
