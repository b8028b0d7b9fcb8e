"""What happens to a party's files while it takes part, and between two starts of it.

Each of these once ended in wrong answers that everybody signed, or in a traceback.
"""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from net.runs import ONE_SHOT, TARGETS, Company, DiedError, answers, data_files
from veilsum.errors import InvalidInputError, StoreError

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
    assert f"{state} is damaged (its entry {key} was changed since" in str(error)
    assert "put a sound copy of it back" in str(error)


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
