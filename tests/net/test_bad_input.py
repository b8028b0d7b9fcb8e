"""What people get wrong around a run: each is told what, and nothing is sent before."""

import asyncio
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
from contextlib import closing, contextmanager

import numpy as np
import pandas as pd
import pytest

from net.runs import (
    HOST,
    ONE_SHOT,
    TARGETS,
    Company,
    DiedError,
    answers,
    changed,
    data_files,
    reasons,
)
from net.village import free_port, until
from veilsum.cli.join import INTERRUPTED
from veilsum.consortium.consortium import Address, consortium_from
from veilsum.errors import InvalidInputError, StoreError
from veilsum.files.ledger import open_ledger
from veilsum.party.networked import LEDGER_GONE, LEFT
from veilsum.privacy.accountant import Budget
from veilsum.protocol.messages import Quit, Share

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

MEAN = np.mean(TARGETS, axis=0)
HASTY = changed(ONE_SHOT, policy={"deadline": 1.0, "patience": 1})


def agrees(found):
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, MEAN, atol=1e-6)


def nothing_begun(company, name):
    return company.drivers[name].runner is None


# Addresses


def test_an_address_in_use_is_named_with_what_to_do(tmp_path):
    company = Company(tmp_path, ONE_SHOT)
    address = company.consortium.member("b").address
    with closing(socket.create_server((address.host, address.port))):
        (error,) = company.run("b").values()
    assert isinstance(error, InvalidInputError)
    assert str(address) in str(error)
    assert "another program listens there" in str(error)
    agrees(company.run())


# Clocks


def test_clocks_hours_apart_are_refused_and_shown(tmp_path):
    company = Company(tmp_path, HASTY)
    company.ahead["b"] = 3 * 3600.0
    told = reasons(company.run())
    for name in "acd":
        assert "waited for b while greeting" in told[name]
        assert "refused: its clock is 10,800 s ahead of this party's" in told[name]
    assert "behind this party's" in told["b"]


def test_clocks_minutes_apart_are_warned_of(tmp_path, caplog):
    """The twin: they make do, and it is said."""
    caplog.set_level(logging.WARNING, "veilsum.net")
    company = Company(tmp_path, ONE_SHOT)
    company.ahead["b"] = 600.0
    agrees(company.run())
    said = [one for one in caplog.records if one.getMessage() == "clocks differ"]
    assert {one.party for one in said} >= {"a", "b", "c", "d"}
    assert any("600 s ahead" in one.reason for one in said if one.party == "b")


# Versions


def test_frames_of_another_version_are_named_by_both_ends(tmp_path):
    """The hello should have told; should one ever forget to, the frame does."""
    company = Company(tmp_path, HASTY)

    def newer(what, frame, peer):
        del peer
        if what == "boot":
            net = company.drivers["b"].runner._net
            send = net.send
            net.send = lambda to, frame: send(to, b"VS\x04" + frame[3:])

    company.records["b"] = newer
    told = reasons(company.run())
    for name in "acd":
        assert (
            "found version 4: the two run different versions of veilsum" in (told[name])
        )


# Two under one name


def test_a_second_process_of_the_same_run_is_refused(tmp_path):
    company, told = Company(tmp_path, ONE_SHOT), []

    async def once_more(company):
        # The file is there a moment before it is locked; a runner is made after that.
        await until(lambda: getattr(company.drivers.get("d"), "runner", None))
        first = company.drivers["d"]
        second = await company.start("d")
        company.drivers["d"] = first
        told.append(second["d"])
        await company.start("c")

    found = company.run("a", "b", "d", meanwhile=once_more)
    assert isinstance(told[0], StoreError)
    assert "already running" in str(told[0])
    agrees(found)


@pytest.mark.parametrize("late", [0.0, 0.3])
def test_a_copy_under_the_same_name_elsewhere_changes_no_answer(late, tmp_path):
    """A key that is used on two machines: one is replaced, and both know why."""
    company, copy = Company(tmp_path, HASTY), {}

    async def imitate(company):
        await asyncio.sleep(late)
        first = company.drivers.get("b")
        company.options["b"] = {
            "state": tmp_path / "copy.run",
            "listen": Address(HOST, free_port()),
        }
        copy.update(await company.start("b"))
        company.drivers["b"] = first or company.drivers["b"]

    found = company.run("a", "c", "d", "b", meanwhile=imitate)
    everyone = [*found.values(), *copy.values()]
    answered = [one for one in everyone if not isinstance(one, Exception)]
    for one in answered:
        np.testing.assert_allclose(one.answer, MEAN, atol=1e-6)
    failed = [str(one) for one in everyone if isinstance(one, Exception)]
    assert failed, "two of one name cannot both take part"


# Files that differ


def edited(company, name, **sections):
    """The file of one party, edited after everybody had agreed."""
    table = company.consortium.to_table()
    for section, keys in sections.items():
        table[section] = {**table[section], **keys}
    company.options[name] = {"consortium": consortium_from(table)}


@pytest.mark.parametrize(
    ("section", "keys"),
    [("policy", {"deadline": 1.5}), ("masks", {"sigma": 1.0})],
    ids=["policy", "masks"],
)
def test_an_edited_file_is_found_and_the_section_named(section, keys, tmp_path):
    """Everybody is told, also whoever gives up after the others have left."""
    company = Company(tmp_path, changed(HASTY, policy={"deadline": 3.0}))
    edited(company, "b", **{section: keys})
    told = reasons(company.run())
    for name in "acd":
        assert "waited for b while greeting" in told[name]
        assert f"refused: its consortium file differs in {section}" in told[name]
    assert "waited for a, c, d while greeting" in told["b"]
    assert told["b"].count(f"its consortium file differs in {section}") == 3


def test_an_edited_address_book_is_named_members(tmp_path):
    company = Company(tmp_path, HASTY)
    table = company.consortium.to_table()
    table["members"][2]["address"] = f"{HOST}:{free_port()}"
    company.options["b"] = {"consortium": consortium_from(table)}
    told = reasons(company.run())
    assert "refused: its consortium file differs in members" in told["a"]


# Data that do not fit


def tables(folder, **columns):
    stream = np.random.default_rng(8)
    found = {
        name: pd.DataFrame(
            {"x": stream.uniform(0, 9, size=30), "y": stream.uniform(0, 9, size=30)}
        )
        for name in "abcd"
    }
    for name, values in columns.items():
        found["b"][name] = values
    number = {"kind": "number", "minimum": 0, "maximum": 10}
    table = {
        "title": "four wards",
        "schema": {"minimum_rows": 20, "columns": {"x": number, "y": number}},
        "model": {"formula": "y ~ x"},
        "policy": {"tolerate": 1, "deadline": 1.0, "patience": 1},
    }
    return data_files(table, found, folder)


BAD_TABLES = {
    "out of range": (lambda t: t.assign(x=t["x"] + 100), "x"),
    "a column is missing": (lambda t: t.rename(columns={"x": "z"}), "x"),
    "text for numbers": (lambda t: t.assign(x="many"), "x"),
    "too few rows": (lambda t: t.head(5), "5"),
    "missing values": (lambda t: t.assign(x=[None, *t["x"][1:]]), "x"),
}


@pytest.mark.parametrize(("spoil", "word"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_a_table_that_does_not_fit_is_refused_before_anything(spoil, word, tmp_path):
    company = Company(tmp_path, tables(tmp_path))
    path = company.folder("b") / "data.csv"
    spoil(pd.read_csv(path)).to_csv(path, index=False)
    (error,) = company.run("b").values()
    assert isinstance(error, InvalidInputError)
    assert word in str(error)
    assert nothing_begun(company, "b")
    assert not (company.folder("b") / "state.run").exists()


def test_a_table_that_fits_is_not_refused(tmp_path):
    """The twin."""
    company = Company(tmp_path, tables(tmp_path))
    assert len(answers(company.run())) == 4


BAD_COSTS = {
    "another size": ("targets = [1.0, 2.0, 3.0]", "agreed on 2 variables"),
    "another key": ("target = [1.0, 2.0]", "targets"),
    "no number": ('targets = ["one", "two"]', "targets"),
}


@pytest.mark.parametrize(("text", "words"), BAD_COSTS.values(), ids=BAD_COSTS)
def test_a_cost_that_does_not_fit_is_refused_before_anything(text, words, tmp_path):
    company = Company(tmp_path, ONE_SHOT)
    (company.folder("b") / "cost.toml").write_text(text)
    (error,) = company.run("b").values()
    assert isinstance(error, InvalidInputError)
    assert words in str(error)
    assert nothing_begun(company, "b")


def test_numbers_beyond_the_range_are_refused_and_the_right_ones_taken(tmp_path):
    """Only its owner hears of it, and can put it right."""
    company = Company(tmp_path, changed(ONE_SHOT, masks={"largest": 100.0}))
    path = company.folder("b") / "cost.toml"
    right = path.read_text()
    path.write_text("targets = [1e5, 0.0]")
    (error,) = company.run("b").values()
    assert isinstance(error, InvalidInputError), error
    path.write_text(right)
    agrees(company.run())


# State


def test_a_state_file_of_another_run_is_refused(tmp_path):
    old, new = Company(tmp_path / "old", ONE_SHOT), Company(tmp_path / "new", ONE_SHOT)
    agrees(old.run())
    for path in old.folder("b").glob("state.run*"):
        shutil.copy(path, new.folder("b") / path.name)
    before = (new.folder("b") / "state.run").read_bytes()
    (error,) = new.run("b").values()
    assert isinstance(error, StoreError)
    assert "another consortium file, which differs from this one in members, run" in (
        str(error)
    )
    assert (new.folder("b") / "state.run").read_bytes() == before


def dying(what):
    def record(kind, detail, peer):
        del detail, peer
        if kind == what:
            raise DiedError

    return record


def at_key(start, record):
    """Tell only of what was written under a key that begins so."""

    def look(what, detail, peer):
        if what == "persist" and detail.key.startswith(start):
            record(what, detail, peer)

    return look


def test_data_changed_between_two_starts_are_refused_and_the_old_ones_go_on(tmp_path):
    company, told = Company(tmp_path, ONE_SHOT), []
    path = company.folder("b") / "cost.toml"
    right = path.read_text()

    async def come_and_go(company):
        company.records["b"] = dying("charge")
        died = await company.start("b")
        assert isinstance(died["b"], DiedError), died
        company.records["b"] = None
        path.write_text("targets = [3.0, -4.25]")
        told.append((await company.start("b"))["b"])
        path.write_text(right)
        return await company.start("b")

    agrees(company.run("a", "c", "d", meanwhile=come_and_go))
    (error,) = told
    assert isinstance(error, InvalidInputError)
    assert "the data have changed since this run began" in str(error)


@contextmanager
def own_ledger(company, budget=None):
    """What the command does: the driver knows the ledger of "b"."""
    path = company.folder("b") / "b.ledger"
    with open_ledger(path, create=budget or Budget()) as books:
        company.options["b"] = {"ledger": books}
        yield books


def test_who_was_killed_between_commit_and_charge_misses_no_ledger(tmp_path, caplog):
    company = Company(tmp_path, ONE_SHOT)

    async def come_and_go(company):
        company.records["b"] = at_key("commit/", dying("persist"))
        died = await company.start("b")
        assert isinstance(died["b"], DiedError), died
        assert not books.history().charges
        company.records["b"] = None
        return await company.start("b")

    with own_ledger(company) as books:
        agrees(company.run("a", "c", "d", meanwhile=come_and_go))
    assert LEDGER_GONE not in caplog.messages


def test_what_was_shown_stays_so_when_another_ledger_refuses(tmp_path, caplog):
    """The twin: the ledger was charged, and is gone with what it knew."""
    company = Company(tmp_path, changed(ONE_SHOT, policy={"deadline": 1.0}))

    async def come_and_go(company):
        company.records["b"] = dying("charge")
        died = await company.start("b")
        assert isinstance(died["b"], DiedError), died
        company.records["b"] = None
        for path in company.folder("b").glob("b.ledger*"):
            path.unlink()
        with own_ledger(company, Budget(epsilon=1e-30)):
            return await company.start("b")

    told = reasons(company.run("a", "c", "d", meanwhile=come_and_go))
    assert "this party's masked numbers were shown" in told["b"]
    assert LEDGER_GONE in caplog.messages


def test_a_ledger_that_refused_is_not_a_ledger_that_is_gone(tmp_path, caplog):
    """Nor was anything shown; all others are told in words why they have no answer."""
    company = Company(tmp_path, ONE_SHOT)

    def spend(*_):
        books.change_budget(Budget(epsilon=1e-30))

    with own_ledger(company) as books:
        company.records["b"] = at_key("commit/", spend)
        told = reasons(company.run())
        told["b again"] = reasons(company.run("b"))["b"]
        assert not books.history().charges
    for name in "acd":
        assert "'b' left: refused (it refused what was asked; " in told[name]
    for name in ("b", "b again"):
        assert "needs epsilon" in told[name]
        assert "nothing masked of this party was shown" in told[name]
    assert LEDGER_GONE not in caplog.messages


def test_a_lost_state_is_explained_to_everybody(tmp_path):
    company = Company(tmp_path, ONE_SHOT)

    async def forget(company):
        company.records["b"] = at_key("sent/", dying("persist"))
        died = await company.start("b")
        assert isinstance(died["b"], DiedError), died
        company.records["b"] = None
        for path in company.folder("b").glob("state.run*"):
            path.unlink()
        return await company.start("b")

    told = reasons(company.run("a", "c", "d", meanwhile=forget))
    assert f"of this party that it does not know: {LEFT['stale']}" in told["b"]
    for name in "acd":
        assert f"'b' left: stale ({LEFT['stale']})" in told[name]


def test_every_reason_to_leave_has_words():
    assert LEFT.keys() == set(Quit.reasons)


# A full disk


# Room for the ledger and an empty store, and for no three shares.
FULL = 288 << 10
LIMITED = """
import resource, runpy, sys
if int(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.argv = sys.argv[2:]
runpy.run_module("veilsum", run_name="__main__")
"""


def join(company, name, room=0):
    """A party as a process of its own, whose files may grow so far."""
    return subprocess.Popen(
        [sys.executable, "-c", LIMITED, str(room), *company.seats[name].command],
        cwd=company.folder(name),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.skipif(os.name != "posix", reason="a signal of POSIX")
def test_who_is_ended_by_a_signal_says_that_the_same_command_goes_on(tmp_path):
    company = Company(tmp_path, ONE_SHOT)
    with join(company, "b") as process:
        for line in process.stderr:
            if b'"listening"' in line:
                break
        process.terminate()
        last = json.loads(process.stderr.read().splitlines()[-1])
    assert (last["event"], last["reason"]) == ("ended", INTERRUPTED)
    assert process.returncode == 1


@pytest.mark.skipif(sys.platform != "linux", reason="a limit on files of its own")
def test_a_full_disk_stops_a_party_before_it_sends_and_it_goes_on_later(tmp_path):
    long = np.random.default_rng(8).uniform(-9, 9, size=(4, 6000))
    cost = {"kind": "squared-distance", "targets": long.tolist()}
    # By an idle clock, while another process starts by that on the wall.
    patient = {"meeting": 600.0, "deadline": 300.0}
    company = Company(tmp_path, changed({**ONE_SHOT, "cost": cost}, policy=patient))
    heard, said = [], []
    company.records = dict.fromkeys(
        "acd",
        lambda what, frame, peer: (
            heard.append(frame) if what == "receive" and peer == "b" else None
        ),
    )

    async def fill_and_free(company):
        process = join(company, "b", FULL)
        _, error = await asyncio.to_thread(process.communicate)
        codec = company.drivers["a"].plan.codec
        shares = [f for f in heard if isinstance(codec.decode(f), Share)]
        said.append((process.returncode, error.decode(), len(heard), len(shares)))
        process = join(company, "b")
        _, error = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, error.decode()

    found = company.run("a", "c", "d", meanwhile=fill_and_free)
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, long.mean(axis=0), atol=1e-6)
    ((code, error, frames, shares),) = said
    assert code == 1
    assert "Traceback" not in error
    assert "state" in error or ".run" in error, error
    assert frames > 0, "it had met the others"
    assert shares == 0, "what could not be written was not sent"
