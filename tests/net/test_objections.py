"""A party objects to an aimed round over real sockets, with files and ledgers."""

from unittest import mock

import pytest

from attacks.steering import (
    LIAR,
    PARTIES,
    SCHEMA,
    VICTIM,
    people,
    read,
    released,
    steered,
    unchecked,
)
from net.runs import WAITS, Company, DiedError, data_files
from net.test_lying_member import call
from veilsum.files.ledger import read_ledger
from veilsum.sums.recipes import ObjectedError, SumPartyWork

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

HONEST = tuple(name for name in PARTIES if name != LIAR)
JOB = {
    "title": "five wards",
    "schema": SCHEMA.to_table(),
    "model": {"formula": "ill ~ age + hiv", "family": "logistic"},
    "graph": {"family": "complete:5"},
    "parties": {"names": list(PARTIES)},
    "policy": {"tolerate": 1, **WAITS},
}


def wards(folder, seed=1):
    tables = people(seed)
    company = Company(folder, data_files(JOB, tables, folder))
    return company, int(tables[VICTIM].loc[0, "hiv"])


def test_a_steered_round_ends_in_an_objection_that_only_its_owner_can_explain(
    tmp_path,
):
    company, truth = wards(tmp_path)
    with steered() as seen:
        found = company.run()
    for name in HONEST:
        error = found[name]
        assert isinstance(error, ObjectedError), error
        assert error.plain.startswith("A party objected to round 3")
        others = [one for one in PARTIES if one != name]
        assert not any(f"{one}: the information" in str(error) for one in others)
        history = read_ledger(company.folder(name) / f"{name}.ledger")
        assert len({one.file for one in history.refusals}) == 1
    assert f"{VICTIM}: the information" in str(found[VICTIM])
    sums = {name: released(found[name]) for name in HONEST}
    assert read(seen["recipe"], sums[VICTIM][:3]) != truth
    # Everybody has the same sums, with the random ones.
    assert all((one[2] == sums[VICTIM][2]).all() for one in sums.values())


def test_the_twin_without_the_check_the_round_tells_the_person(tmp_path):
    company, truth = wards(tmp_path)
    with steered() as seen, unchecked():
        found = company.run()
    sums = released(found[LIAR])
    assert read(seen["recipe"], sums[:3]) == truth


@pytest.mark.usefixtures("_quiet")
def test_a_run_that_ended_in_an_objection_has_no_receipt_and_says_so_again(tmp_path):
    company, _ = wards(tmp_path)
    with steered():
        company.run()
    folder = company.folder(VICTIM)
    option, file = company.seats[VICTIM].option
    words = (option, folder / file, "--out", folder / "out", "--yes")
    state = ("--state", folder / "state.run")
    again = call("join", folder / "consortium.toml", *words, *state)
    assert again.exit_code == 2
    assert "A party objected to round 3" in again.stderr
    assert f"{VICTIM}: the information would rest on 1 effective rows" in again.stderr
    assert not list((folder / "out").iterdir())
    # Started again, it is the same file: no second one is counted as refused.
    refusals = read_ledger(folder / f"{VICTIM}.ledger").refusals
    assert len({one.file for one in refusals}) == 1


def test_a_party_killed_after_its_objection_objects_with_the_same_numbers(tmp_path):
    company, _ = wards(tmp_path)
    drawn, died = [], []
    original = SumPartyWork._random

    def watched(work, answers):
        found = original(work, answers)
        if f"{VICTIM}: the information" in str(work.objection([*answers, found])):
            drawn.append(found)
        return found

    def dies(what, detail, peer):
        del detail, peer
        if what == "send" and drawn and not died:
            died.append(what)
            raise DiedError("killed after it objected")

    company.records[VICTIM] = dies

    async def again(company):
        await company.until(lambda: died, "the victim died")
        return await company.start(VICTIM)

    with steered(), mock.patch.object(SumPartyWork, "_random", watched):
        found = company.run(meanwhile=again)
    assert died
    assert len(drawn) >= 2
    assert all((one == drawn[0]).all() for one in drawn)
    for name in HONEST:
        assert isinstance(found[name], ObjectedError), found[name]
    assert all(not company.drivers[n].runner.machine.accused for n in HONEST)
