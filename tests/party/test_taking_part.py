"""Taking part from Python: nobody agrees by default, and events hold no number."""

import asyncio
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from net.runs import ONE_SHOT, TARGETS, Company, changed, data_files
from refusals import refused
from veilsum.party import checks
from veilsum.party.inputs import party_contribution
from veilsum.party.run_status import EventFeed
from veilsum.protocol.phases import CLOSED
from veilsum.sums import table_job

# Nobody here waits for a deadline, however busy the computer is.
FOUR = changed(ONE_SHOT, policy={"meeting": 600.0, "deadline": 300.0})
MEAN = np.mean(TARGETS, axis=0)
pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


@pytest.fixture
def company(tmp_path):
    return Company(tmp_path, FOUR)


def given(company, name, **more):
    """What a party gives to `join`, with a consent of its own kind each."""
    folder = company.folder(name)
    option, file = company.seats[name].option
    return {
        "consortium": company.consortium,
        "identity": folder / f"{name}.key",
        option.removeprefix("--"): str(folder / file),
        "consent": lambda page: "CONSENT TO ONE RUN" in page.text(),
        **more,
    }


def together(calls):
    """Everybody's result, each from a thread of its own."""
    with ThreadPoolExecutor(len(calls)) as pool:
        found = {name: pool.submit(vs.join, **one) for name, one in calls.items()}
        return {name: one.result() for name, one in found.items()}


def taken_address(company, name):
    """Somebody else listens at a party's own address: to go on would be an error."""
    address = company.consortium.member(name).address
    return closing(socket.create_server((address.host, address.port)))


# A whole run


def test_four_parties_of_one_process_come_to_one_answer(company, tmp_path):
    """By a function, by a digest that was read before, and with a cost in memory."""
    seen = {name: [] for name in company.names}
    calls = {
        name: given(company, name, on_event=seen[name].append) for name in company.names
    }
    agreed = vs.read_consortium(company.folder("a") / "consortium.toml")
    assert agreed.digest == company.consortium.digest
    calls["a"]["consent"] = vs.consent_to(agreed).digest
    calls["b"]["cost"] = {"targets": TARGETS[1]}
    calls["c"]["out"] = tmp_path / "out"
    found = together(calls)
    for one in found.values():
        np.testing.assert_allclose(one.result.answer, MEAN, atol=1e-6)
        assert one.signed_by == ("a", "b", "c", "d")
        assert one.evidence == ()
        assert not one.was_over
    receipts = [one.receipt for one in found.values()]
    assert vs.verify_receipts(receipts, agreed).good
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == json.loads(
        json.dumps(found["c"].to_dict())
    )
    kept = vs.read_receipt(tmp_path / "out" / "receipt.json")
    assert kept == found["c"].receipt
    assert not [*company.folder("a").rglob("result.json")]
    for name, events in seen.items():
        check_events(company, name, events)
        assert events[-1].sent == found[name].to_dict()["bytes"] > 0
    what_comes_after(company, found["b"])


def check_events(company, name, events):
    """In order, of this party, and of nothing but names, phases and counts."""
    assert events[0].what == "agreed"
    assert events[-1].what == "done"
    phases = [one.phase for one in events if one.what == "phase"]
    assert phases[0] == "greeting"
    assert phases[-1] == "finished"
    assert "summing" in phases
    others = {one for one in company.names if one != name}
    assert {one.names[0] for one in events if one.what == "met"} == others
    waited = [one for one in events if one.what == "waiting"]
    assert set(waited[0].names) <= others
    assert set(events[-1].links) == others
    for one in events:
        assert (one.run, one.party) == (company.consortium.run, name)
        assert set(one.names) <= {*company.names}
        told = asdict(one)
        told.pop("run")
        links = told.pop("links")
        assert set(links) <= others
        assert all(type(words) is str for words in links.values())
        assert {type(value) for value in told.values()} <= {str, int, tuple}
        for number in np.ravel([*TARGETS, MEAN]):
            assert f"{number}" not in str(told)


def what_comes_after(company, first):
    """The same call again: nobody is asked, nobody else need be there."""
    seen = []
    again = vs.join(**given(company, "b", consent=None, on_event=seen.append))
    assert again.was_over
    assert again.to_dict() == first.to_dict()
    assert [(one.what, one.reason) for one in seen] == [("done", "was over")]


def test_a_table_in_memory_does_what_its_file_does(tmp_path):
    stream = np.random.default_rng(5)
    frames = {
        name: pd.DataFrame(
            {"x": stream.integers(0, 9, 30), "site": stream.choice(["n", "s"], 30)}
        )
        for name in "abcd"
    }
    table = {
        "schema": {
            "minimum_rows": 20,
            "columns": {
                "x": {"kind": "number", "minimum": 0, "maximum": 10, "unit": 1},
                "site": {"kind": "category", "categories": ["n", "s"]},
            },
        },
        "statistics": {"columns": ["x"], "tables": [["site"]]},
    }
    company = Company(tmp_path, data_files(table, frames, tmp_path))
    calls = {name: given(company, name) for name in company.names}
    calls["a"]["data"] = frames["a"]
    calls["b"]["data"] = {name: frames["b"][name].tolist() for name in ("x", "site")}
    found = together(calls)
    assert len({one.result.answer.tobytes() for one in found.values()}) == 1
    pooled = pd.concat(frames.values())
    cells = found["a"].result.tables[("site",)]
    assert cells.tolist() == pooled["site"].value_counts().sort_index().tolist()
    np.testing.assert_allclose(
        found["a"].result.marginals.mean, [pooled["x"].mean()], rtol=1e-12
    )
    with refused("format-option-unused", vs.InvalidInputError):
        vs.join(**given(company, "a", data=frames["a"], decimal=","))


def test_influence_is_never_sent_and_in_no_public_result(tmp_path, monkeypatch):
    """A run of real parties does not even compute it; `veilsum check` shows it.

    The twin: as soon as results of real parties look at it, it is in the result.
    """
    stream, looked = np.random.default_rng(7), []
    frames = {
        name: pd.DataFrame(
            {"x": stream.integers(0, 9, 30), "y": stream.integers(0, 99, 30)}
        )
        for name in "abcd"
    }
    columns = {
        "x": {"kind": "integer", "minimum": 0, "maximum": 10},
        "y": {"kind": "integer", "minimum": 0, "maximum": 100},
    }
    table = {
        "schema": {"minimum_rows": 20, "columns": columns},
        "model": {"formula": "y ~ x"},
    }
    compute = table_job.own_influence_on_sums

    def spy(asked, rows):
        looked.append((asked[0].table.party, len(asked[0].requests)))
        return compute(asked, rows)

    monkeypatch.setattr(table_job, "own_influence_on_sums", spy)
    monkeypatch.setattr(checks, "own_influence_on_sums", spy)
    company = Company(tmp_path, data_files(table, frames, tmp_path))
    calls = {name: given(company, name, out=tmp_path / "out" / name) for name in "abcd"}
    found = together(calls)
    for one in found.values():
        assert one.result.influence == {}
        assert "influence" not in one.to_dict()
        assert one.to_dict()["release_price"]["bits"] > 0.0
    # The rule about the first sum, once for each party and at home.
    assert sorted(looked) == [(name, 1) for name in "abcd"]
    looked.clear()
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {"result.json", "receipt.json"} <= {path.name for path in written}
    for path in written:
        text = path.read_bytes()
        assert b"nfluence of one person" not in text
        assert b'"influence"' not in text
        assert b"by_column" not in text
    # At home, the same party's part has it; the page that is agreed to has not.
    mine = company.folder("a") / company.seats["a"].option[1]
    part = party_contribution(company.consortium, data=mine, cost=None)
    shown = checks.consent_price_part(part, "a")
    assert looked == [("a", 1)]
    assert "Largest influence of one person" in shown.text
    page = vs.consent_to(company.consortium)
    assert "nfluence of one" not in page.text()
    # The twin.
    simulated = vs.fit("y ~ x", frames, schema=vs.Schema.from_table(table["schema"]))
    assert simulated.to_dict()["influence"]["a"]["largest"] > 0.0


def test_parties_as_tasks_of_one_loop_and_one_that_changes_its_mind(company):
    """The one that is cancelled leaves nothing behind, and comes back."""
    here = set()

    async def run():
        begun = asyncio.Event()

        def note(event):
            here.add(threading.current_thread())
            if event.what == "waiting":
                begun.set()

        first = asyncio.ensure_future(
            vs.join_async(**given(company, "a", on_event=note))
        )
        await begun.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        with taken_address(company, "a"):
            pass  # its door is closed
        calls = [vs.join_async(**given(company, name)) for name in company.names]
        return await asyncio.gather(*calls)

    found = asyncio.run(run())
    assert here == {threading.main_thread()}
    for one in found:
        np.testing.assert_allclose(one.result.answer, MEAN, atol=1e-6)
    assert vs.verify_receipts([one.receipt for one in found], company.consortium).good


# Nobody agrees by default


async def _never_awaited(page):
    return True


AGREES_NOT = {
    "nobody": (None, "nobody has agreed to this page"),
    "no": (lambda page: False, "found False"),
    "nothing": (lambda page: None, "found a NoneType"),
    "what is merely true": (lambda page: page, "expected True, found a Consent"),
    "another page": ("0" * 64, "was agreed to has the digest 000"),
}


@pytest.mark.parametrize(("consent", "why"), AGREES_NOT.values(), ids=AGREES_NOT)
def test_without_consent_nothing_is_sent(consent, why, company):
    """The address is taken, so that even to listen would be another error."""
    seen = []
    call = given(company, "a", consent=consent, on_event=seen.append)
    with taken_address(company, "a"), pytest.raises(vs.ConsentError) as caught:
        vs.join(**call)
    assert why in str(caught.value)
    assert "CONSENT TO ONE RUN" in str(caught.value)
    assert caught.value.page.digest == vs.consent_to(company.consortium).digest
    # What may be logged says nothing of this party's own half.
    assert "YOUR SIDE" in str(caught.value)
    assert "YOUR SIDE" not in caught.value.plain
    assert seen == []
    with vs.open_ledger(company.folder("a") / "a.ledger") as books:
        assert books.history().charges == ()


@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_coroutine_that_nobody_awaits_is_no_consent(company):
    call = given(company, "a", consent=_never_awaited)
    with taken_address(company, "a"), refused("consent-declined", vs.ConsentError):
        vs.join(**call)


def test_with_it_the_door_would_have_been_opened(company):
    """The twin."""
    digest = vs.consent_to(company.consortium).digest
    grouped = " ".join(digest[k : k + 4] for k in range(0, 64, 4)).upper()
    with (
        taken_address(company, "a"),
        refused("cannot-listen", vs.InvalidInputError),
    ):
        vs.join(**given(company, "a", consent=grouped))


def test_own_rules_refuse_whoever_agrees(company):
    own = company.folder("a") / "mine.toml"
    own.write_text('jobs = ["model"]\n')
    call = given(company, "a")
    for rules in (str(own), vs.party.OwnRules(jobs=("model",))):
        with refused("own-rules-refuse", vs.InvalidInputError):
            vs.join(**call, rules=rules)


def test_inside_a_running_loop_the_other_one_is_named(company):
    async def run():
        vs.join(**given(company, "a"))

    with refused("event-loop-running", vs.errors.LocalProtocolError):
        asyncio.run(run())


def test_a_misspelt_argument_is_refused_with_the_right_one(company):
    with refused("unknown-key", vs.InvalidInputError, mentions=("ledger",)):
        vs.join(**given(company, "a", leger="mine.ledger"))


# What is known of a file without data


def test_what_is_promised_follows_from_the_file(company):
    promise = vs.party.promise_of(company.consortium)
    assert promise.status == "private"
    assert promise.worst.tolerate == 1


# Events


class _StandIn:
    """A machine as far as events look at it."""

    phase, epoch, round, lost, waiting_for = "greeting", 0, 0, (), ("b",)
    withheld = ()


def test_a_listener_that_fails_does_no_harm_and_its_words_are_not_logged(caplog):
    def listener(event):
        raise ValueError("private")

    telling = EventFeed("run", "a", listener)
    telling.watch(_StandIn())
    assert caplog.text.count("a listener to events failed") == 1  # of two events
    assert {one.error for one in caplog.records} == {"ValueError"}
    assert "private" not in caplog.text


def test_events_say_what_has_changed_and_nothing_twice():
    seen = []
    telling, machine = EventFeed("run", "a", seen.append), _StandIn()
    telling.watch(machine)
    telling.watch(machine)
    telling.note("ring", "deadline/1", None)
    telling.note("ring", "resend", None)
    machine.epoch, machine.lost, machine.waiting_for = 4, ("c",), ()
    telling.watch(machine)
    told = [(one.what, one.names) for one in seen]
    assert told == [
        ("phase", ()),
        ("waiting", ("b",)),
        ("resent", ("b",)),
        ("lost", ("c",)),
        ("round", ()),
        ("waiting", ()),
    ]
    assert {one.phase for one in seen}.isdisjoint(CLOSED)
    assert seen[-1].epoch == 4


# Where files go


def test_a_folder_with_another_run_s_page_is_left_as_it_is(company, tmp_path):
    """Two runs that nobody has finished do not share a folder."""
    out = tmp_path / "out"
    out.mkdir()
    page = vs.consent_to(company.consortium).write(out)[1]
    table = json.loads(page.read_text())
    with taken_address(company, "a"):  # its own page is in nobody's way
        with refused("cannot-listen", vs.InvalidInputError):
            vs.join(**given(company, "a", out=out))
        for run, why in (("ages-1", "for the run ages-1"), (None, "no page of ours")):
            changed = {**table, "shared": {"run": run} if run else {}}
            page.write_text(json.dumps(changed))
            before = page.read_text(), (out / "consent.txt").read_text()
            with pytest.raises(vs.errors.OutputError, match=why):
                vs.join(**given(company, "a", out=out))
            assert (page.read_text(), (out / "consent.txt").read_text()) == before
