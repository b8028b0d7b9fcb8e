"""A member that lies over a real network: the others finish, or end and name it."""

import asyncio
import json
from functools import partial

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from net.runs import ONE_SHOT, TARGETS, Company, answers, changed, reasons
from veilsum.cli.app import app
from veilsum.protocol.messages import Agreed, Lost, Ready, Status

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

LIAR, HONEST = "d", ("a", "b", "c")


def signed_loss(machine, name):
    """A liar's Lost, whose own machine does not mind what it never knew it signed."""
    machine._on_own = lambda record: False
    lost = Lost(party=LIAR, epoch=0, incarnation=machine._book.start, lost=(name,))
    return machine.plan.codec.encode(machine._book.sealed(lost))


def with_a_liar(folder, **policy):
    """A run in which one member tells everybody that it goes on without another.

    All else that it sends is what an honest one sends.
    """
    company = Company(folder, changed(ONE_SHOT, policy=policy))
    told = set()

    def lies(what, detail, peer):
        runner = company.drivers[LIAR].runner
        machine = runner.machine
        if what != "send" or peer in told:
            return
        message = machine.plan.codec.decode(detail)
        # Once they have met, and before it is ready itself: that would be a proof.
        if not isinstance(message, Status) or message.echo == bytes(16):
            return
        told.add(peer)
        runner._net.send(peer, signed_loss(machine, "a"))

    company.records[LIAR] = lies
    found = company.run()
    assert told == set(HONEST)
    accused = {n: company.drivers[n].runner.machine.accused for n in HONEST}
    return found, accused


def test_a_notice_of_loss_changes_nothing_where_nobody_may_be_lost(tmp_path):
    found, accused = with_a_liar(tmp_path, drop=False)
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, np.mean(TARGETS, axis=0), atol=1e-6)
    for told in accused.values():
        assert told.keys() == {LIAR}
        assert "goes on without a, against the plan" in told[LIAR]


def test_where_one_may_be_lost_the_same_frame_counts_and_names_its_author(tmp_path):
    """The twin: the others follow, and the one given up is told by whom."""
    found, accused = with_a_liar(tmp_path, drop=True, tolerate=0)
    assert "'d' gave it up" in reasons({"a": found.pop("a")})["a"]
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, np.mean(TARGETS[1:], axis=0), atol=1e-6)
    assert all(told == {} for told in accused.values())


# A loss that only the lost party hears of


def drops_alone(machine, send, to, frame):
    """Send a frame; in the place of the liar's Ready, to one party, a loss of it."""
    message = machine.plan.codec.decode(frame)
    if to == "a" and isinstance(message, Ready) and message.party == LIAR:
        frame = signed_loss(machine, to)
    send(to, frame)


FIVE = changed(
    ONE_SHOT,
    parties={"names": ["a", "b", "c", "d", "e"]},
    cost={"targets": [*TARGETS, [0.5, 0.25]]},
    policy={"drop": True},
)


@pytest.mark.parametrize("graph", ["complete:5", "wheel:5", "circulant:5:1,2"])
def test_who_drops_a_party_behind_the_others_backs_is_named_by_all(graph, tmp_path):
    company = Company(tmp_path, changed(FIVE, graph={"family": graph}))

    def lies(what, _, __):
        runner = company.drivers[LIAR].runner
        if what == "boot":
            net, machine = runner._net, runner.machine
            net.send = partial(drops_alone, machine, net.send)

    company.records[LIAR] = lies
    found = company.run()
    del found[LIAR]
    for name, told in reasons(found).items():
        assert "'d' signed " in told
        (proof,) = company.drivers[name].ending.evidence
        assert (proof.party, {*proof.kinds}) == (LIAR, {"Ready", "Lost"})


# Two stories: what is left of them on the disks of the others


def with_two_stories(folder, kind, other, *, lie_first=False):
    """A run in which one member tells everybody the truth and something else."""
    company = Company(folder, ONE_SHOT)
    told = set()

    def lies(what, detail, peer):
        runner = company.drivers[LIAR].runner
        codec, book = runner.machine.plan.codec, runner.machine._book
        found = codec.decode(detail) if what == "send" else None
        own = isinstance(found, kind) and found.party == LIAR
        if own and peer not in told:
            told.add(peer)
            frame = codec.encode(book.sealed(other(found)))
            if lie_first:
                runner._net.send(peer, frame)
            else:
                asyncio.get_running_loop().call_soon(runner._net.send, peer, frame)

    company.records[LIAR] = lies
    return company, company.run()


def call(*words):
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


def join_again(company, name):
    """What `veilsum join` says and writes about a run that is over."""
    folder = company.folder(name)
    option, file = company.seats[name].option
    words = (option, folder / file, "--out", folder / "out", "--log", "json")
    state = ("--state", folder / "state.run")
    found = call("join", folder / "consortium.toml", *words, *state, "--yes")
    said = [json.loads(line) for line in found.stderr.splitlines()]
    return found, said, folder / "out" / f"evidence-{LIAR}.json"


@pytest.mark.usefixtures("_quiet")
def test_a_run_that_ends_because_of_a_liar_leaves_a_proof_behind(tmp_path):
    other = partial(msgspec.structs.replace, request=bytes(32))
    company, found = with_two_stories(tmp_path, Ready, other, lie_first=True)
    found.pop(LIAR)
    for name, told in reasons(found).items():
        assert "'d' signed two different Ready records" in told
        again, said, path = join_again(company, name)
        assert again.exit_code == 1
        (kept,) = (one for one in said if one["event"] == "evidence is kept")
        assert (kept["party"], kept["file"]) == (LIAR, str(path))
        assert path.stat().st_mode & 0o777 == 0o600
        consortium = company.folder("a") / "consortium.toml"
        judged = call("verify", path, "--consortium", consortium)
        assert judged.exit_code == 0, judged.output
        assert judged.stdout.startswith("proved  'd' contradicted itself")


@pytest.mark.usefixtures("_quiet")
def test_a_run_that_ends_well_keeps_the_proof_and_receipts_speak_of_it(tmp_path):
    other = partial(msgspec.structs.replace, digest=bytes(32))
    company, found = with_two_stories(tmp_path, Agreed, other)
    assert answers(found).keys() == set(company.names)
    assert company.verdict(found).good
    spoken = 0
    for name in HONEST:
        again, _, path = join_again(company, name)
        assert again.exit_code == 0, again.output
        receipt = path.parent / "receipt.json"
        listed = json.loads(receipt.read_text()).get("evidence", [])
        assert path.exists() == (len(listed) == 1)
        spoken += len(listed)
        judged = call("verify", path) if listed else None
        assert judged is None or "two different Agreed records" in judged.stdout
    assert spoken >= 1


@pytest.mark.usefixtures("_quiet")
def test_a_run_without_lies_leaves_no_evidence(tmp_path):
    """The twin: the same record once more is no story."""
    company, found = with_two_stories(tmp_path, Agreed, lambda agreed: agreed)
    assert answers(found).keys() == set(company.names)
    _, said, path = join_again(company, "a")
    assert not path.exists()
    assert not any(one["event"] == "evidence is kept" for one in said)
    assert "evidence" not in json.loads((path.parent / "receipt.json").read_text())
