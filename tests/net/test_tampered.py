"""What happens to a party's files while it takes part, and between two starts of it.

Each of these once ended in wrong answers that everybody signed, or in a traceback.
"""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from net.runs import (
    ONE_SHOT,
    TARGETS,
    Company,
    DiedError,
    answers,
    changed,
    data_files,
    reasons,
)
from veilsum.errors import InvalidInputError, StoreError
from veilsum.files.ledger import open_ledger
from veilsum.net.runner import STATE_GONE
from veilsum.party.networked import AGAIN, NOTHING_SHOWN, OVER, SHOWN_BEFORE

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

MEAN = np.mean(TARGETS, axis=0)


def dying(what, key="", count=1):
    """What ends a party at the first event of a kind, of a key that begins so."""
    left = [count]

    def record(kind, detail, peer):
        del peer
        hit = kind == what and (not key or detail.key.startswith(key))
        left[0] -= hit
        if hit and left[0] == 0:
            raise DiedError

    return record


def agrees(found):
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, MEAN, atol=1e-6)


def flip(path, key):
    """Change one bit of what a store keeps under a key; return what puts it back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        ask = "SELECT key, value FROM entry WHERE key GLOB ?"
        name, before = connection.execute(ask, (key,)).fetchone()
        after = before[:-1] + bytes([before[-1] ^ 1])
        put = "UPDATE entry SET value = ? WHERE key = ?"
        connection.execute(put, (after, name))

    def back():
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(put, (before, name))

    return back


@pytest.mark.parametrize("key", ["got/0/a", "masked/0"])
def test_one_bit_of_the_state_stops_a_party_that_comes_back(key, tmp_path):
    company, told = Company(tmp_path, ONE_SHOT), []
    state = company.folder("b") / "state.run"

    async def come_and_go(company):
        company.records["b"] = dying("charge")
        died = await company.start("b")
        assert isinstance(died["b"], DiedError), died
        company.records["b"] = None
        back = flip(state, key)
        told.append((await company.start("b"))["b"])
        back()
        return await company.start("b")

    agrees(company.run("a", "c", "d", meanwhile=come_and_go))
    (error,) = told
    assert isinstance(error, StoreError), error
    assert f"{state} is damaged (its seal is broken" in str(error)
    assert "put a sound copy of it back" in str(error)


def gone(company, name):
    for path in company.folder(name).glob("state.run*"):
        path.unlink()


@pytest.mark.parametrize("key", ["sent/", "finished"])
def test_who_loses_its_state_meanwhile_is_told_and_has_a_result(key, tmp_path, caplog):
    company = Company(tmp_path, ONE_SHOT)

    def unlink(kind, detail, peer):
        del peer
        if kind == "persist" and detail.key.startswith(key):
            gone(company, "b")

    company.records["b"] = unlink
    found = company.run()
    agrees(found)
    assert company.verdict(found).good
    assert not list(company.folder("b").glob("state.run*"))
    told = [one.file for one in caplog.records if one.getMessage() == STATE_GONE]
    assert told in ([str(company.folder("b") / "state.run")], [])
    assert told or key == "finished"


def test_an_old_copy_of_a_finished_run_does_not_say_that_nothing_was_shown(tmp_path):
    """Its ledger knows better."""
    company = Company(tmp_path, changed(ONE_SHOT, policy={"deadline": 1.0}))
    kept = {}

    def keep(kind, detail, peer):
        del peer
        if kind == "persist" and detail.key.startswith("record/Ready") and not kept:
            kept.update({one.name: one.read_bytes() for one in files()})

    def files():
        return list(company.folder("b").glob("state.run*"))

    company.records["b"] = keep
    agrees(company.run())
    company.records["b"] = None
    for one in files():
        one.unlink()
    for name, content in kept.items():
        (company.folder("b") / name).write_bytes(content)
        (company.folder("b") / name).chmod(0o600)
    with open_ledger(company.folder("b") / "b.ledger") as books:
        company.options["b"] = {"ledger": books}
        told = reasons(company.run("b"))["b"]
    assert SHOWN_BEFORE in told
    assert NOTHING_SHOWN not in told


# Those who come too late

LATE = changed(ONE_SHOT, policy={"meeting": 1.0, "deadline": 0.3, "patience": 1})


def test_a_meeting_that_failed_can_be_tried_again_with_the_same_file(tmp_path):
    company = Company(tmp_path, LATE)
    for _ in range(2):
        for told in reasons(company.run("a", "b", "c")).values():
            assert "waited for d" in told
            assert f"{NOTHING_SHOWN}; {AGAIN}" in told
    told = reasons(company.run("d"))  # when nobody is there any more
    assert AGAIN in told["d"]
    found = company.run()
    agrees(found)
    assert company.verdict(found).good
    for name in company.names:
        with company.ledger(name) as books:
            history = books.history()
            assert (len(history.charges), len(history.pending)) == (1, 0)


def test_who_goes_home_while_others_share_comes_back_too(tmp_path):
    """Whoever is not there when the last one comes, in whatever phase that leaves."""
    company = Company(tmp_path, changed(LATE, graph={"family": "ring:4"}))

    assert AGAIN in reasons(company.run("a", "b", "d"))["a"]
    for told in reasons(company.run("b", "c", "d")).values():
        assert AGAIN in told
    agrees(company.run())


def test_a_run_that_has_shown_something_is_over_when_somebody_stays_away(tmp_path):
    """The twin: after the commit nobody tries again."""
    company = Company(tmp_path, LATE)

    async def die(company):
        company.records["d"] = dying("charge")
        died = await company.start("d")
        assert isinstance(died["d"], DiedError), died
        company.records["d"] = None
        return {}

    for told in reasons(company.run("a", "b", "c", meanwhile=die)).values():
        assert OVER in told
    assert OVER in reasons(company.run("a"))["a"]
    assert company.drivers["a"].runner is None


# Between two sums

LOGIT = {
    "title": "three",
    "graph": {"family": "complete:3"},
    "parties": {"names": ["a", "b", "c"]},
    "model": {"formula": "y ~ x", "family": "binomial"},
    "schema": {
        "minimum_rows": 40,
        "columns": {
            "x": {"kind": "number", "minimum": -9, "maximum": 9, "unit": 0.001},
            "y": {"kind": "number", "minimum": 0, "maximum": 1, "unit": 1},
        },
    },
    "masks": {"law": "uniform"},
    "policy": {
        "resend": 0.2,
        "deadline": 5.0,
        "patience": 2,
        "tolerate": 0,
    },
}


def tables():
    chance = np.random.default_rng(4)
    made = {}
    for name in "abc":
        x = chance.normal(size=80).round(3)
        y = (chance.uniform(size=80) < 1 / (1 + np.exp(0.3 - x))).astype(int)
        made[name] = pd.DataFrame({"x": x, "y": y})
    return made


def test_data_edited_between_two_sums_are_refused(tmp_path):
    """Killed when a sum is known, and before the next one's shares are drawn."""
    company, told = Company(tmp_path, data_files(LOGIT, tables(), tmp_path)), []
    path = next(company.folder("b").glob("*.csv"))
    right = path.read_text()

    async def come_and_go(company):
        company.records["b"] = dying("persist", "answer/0")
        died = await company.start("b")
        assert isinstance(died["b"], DiedError), died
        company.records["b"] = None
        path.write_text(right.replace(",1\n", ",0\n", 1))
        told.append((await company.start("b"))["b"])
        path.write_text(right)
        return await company.start("b")

    answers(company.run("a", "c", meanwhile=come_and_go))
    (error,) = told
    assert isinstance(error, InvalidInputError), error
    assert "the data have changed since this run began" in str(error)
