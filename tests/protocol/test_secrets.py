"""What is private in a run appears in no text, and in no pickle or copy.

Private vectors are made of distinctive numbers, keys and shares are what they are; all
texts that a run can produce are searched for them.
"""

import copy
import gc
import logging
import pickle
import traceback
from contextlib import suppress

import numpy as np
import pytest

from cases import each
from machines import stopped_at
from refusals import refused
from veilsum.drivers.loopback import (
    LoopbackEvent,
    LoopbackNode,
    LoopbackWorld,
    SimulatedKeys,
)
from veilsum.errors import ProtocolError, SecretError
from veilsum.minimise.rounds import MethodRounds
from veilsum.protocol.book import RecordBook
from veilsum.protocol.effects import Emission, Persist, Send
from veilsum.protocol.epoch import Epoch
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import Masked, Round, Share
from veilsum.protocol.work import SumWork
from worlds import Setting

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SETTING = Setting("complete:4", work="nids")
PHASES = ["sharing", "committing", "iterating", "agreeing"]
HOLDERS = (
    *(Machine, LoopbackWorld, LoopbackNode, LoopbackEvent, Epoch, Share, RecordBook),
    *(Persist, Send, Emission, SumWork, MethodRounds, SimulatedKeys),
)


def secrets_of(world):
    """Every private number and key of a run, as texts that it could appear as."""
    found = set()
    for name, work in world.works.items():
        found |= texts(work.private)
        found |= texts(world.plan.law.encode(work.private))
        machine = world.nodes[name].machine
        keys = [machine._secret_key, machine._keys.own.private_bytes_raw()]
        epoch = machine._epoch
        for share in (*epoch.sent.values(), *epoch.got.values()):
            found |= texts(share.numbers)
            keys.append(share.key)
        if epoch.sent.keys() >= set(epoch.place.neighbours):
            with suppress(KeyError):
                found |= texts(epoch.mask())
        for key in keys:
            found |= {key.hex(), repr(key)[2:-1], str(list(key))[1:-1]}
    return {text for text in found if len(text) > 6}


def texts(numbers):
    """Numbers as repr, str and numpy print them; short ones prove nothing."""
    found = {repr(value) for value in numbers.tolist()}
    found |= {str(value) for value in numbers}
    found |= {np.array2string(numbers[i : i + 1])[1:-1] for i in range(len(numbers))}
    return found | {numbers.tobytes().hex(), repr(numbers.tobytes())[2:-1]}


def shown(value):
    """All the ways in which a value turns into text."""
    return "\n".join([repr(value), str(value), f"{value}", f"{[value]}", f"{value!r}"])


def check(text, secrets):
    for secret in secrets:
        assert secret not in text, "a secret appears in a text"


@pytest.fixture(scope="module", params=PHASES)
def world(request):
    return stopped_at(SETTING, "1", request.param)


def test_the_search_finds_what_it_looks_for(world):
    secrets = secrets_of(world)
    assert len(secrets) > 30
    private = world.works["1"].private
    with pytest.raises(AssertionError):
        check(f"theta = {private.tolist()}", secrets)
    with pytest.raises(AssertionError):
        check(str(world.nodes["1"].machine._secret_key), secrets)


@pytest.fixture
def alive():
    """Return all objects there are, those too that were frozen after collection."""
    gc.unfreeze()
    yield gc.get_objects
    gc.freeze()


def test_no_object_of_a_run_shows_a_secret(alive):
    """Everything of this package that is alive: machines, disks, history."""
    worlds = [stopped_at(SETTING, "1", phase) for phase in PHASES]
    secrets = set().union(*map(secrets_of, worlds))
    seen = 0
    for one in alive():
        if str(type(one).__module__).startswith("veilsum."):
            check(shown(one), secrets)
            seen += 1
    assert seen > 100


def test_no_message_or_effect_of_a_run_shows_a_secret(world):
    secrets = secrets_of(world)
    codec = world.plan.codec
    for event in world.history:
        check(shown(event), secrets)
        if event.what in {"send", "receive"}:
            message = codec.decode(event.detail)
            if not isinstance(message, Masked | Round):
                check(shown(message), secrets)
        elif event.what not in {"refuse", "crash"}:
            check(shown(event.detail), secrets)


def test_no_exception_of_a_run_shows_a_secret(world):
    """Every frame of the run, whole and damaged, to every machine."""
    secrets, told = secrets_of(world), set()
    frames = {e.detail for e in world.history if e.what == "send"}
    for node in world.nodes.values():
        for frame in sorted(frames):
            for spoiled in (frame, frame[:-1], frame + b"x"):
                try:
                    node.machine.receive("0" if node.name != "0" else "1", spoiled)
                except ProtocolError as error:
                    told.add("".join(traceback.format_exception(error)))
                    told.add(repr(error))
    assert len(told) > 10
    check("\n".join(told), secrets)


def test_no_log_record_shows_a_secret(caplog):
    caplog.set_level(logging.DEBUG)
    world = stopped_at(SETTING, "1", "committing")
    text = "\n".join(f"{one.getMessage()} {vars(one)}" for one in caplog.records)
    check(text, secrets_of(world))


def test_an_abort_tells_the_others_one_word_and_nothing_private():
    world = stopped_at(SETTING, "1", "iterating")
    secrets = secrets_of(world)
    effects = world.nodes["1"].machine.stop("stopped")
    for effect in effects:
        check(shown(effect), secrets)


@each("kind", [k for k in HOLDERS if k is not RecordBook])
def test_what_holds_secrets_is_neither_pickled_nor_copied(kind):
    world = stopped_at(SETTING, "1", "committing")
    machine = world.nodes["1"].machine
    made = {
        Machine: machine,
        LoopbackWorld: world,
        LoopbackNode: world.nodes["1"],
        LoopbackEvent: world.history[0],
        Epoch: machine._epoch,
        Share: next(iter(machine._epoch.sent.values())),
        Persist: Persist("key", b"value"),
        Send: Send("0", b"frame"),
        Emission: Emission(0, (), np.zeros(1)),
        SumWork: world.works["1"],
        MethodRounds: world.works["1"].rounds,
        SimulatedKeys: machine._keys,
    }[kind]
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with refused("not-copyable", SecretError):
            leave(made)


def test_the_book_of_records_cannot_be_pickled_either():
    """It holds the party's keys."""
    world = stopped_at(SETTING, "1", "committing")
    for leave in (pickle.dumps, copy.deepcopy):
        with pytest.raises((SecretError, TypeError)):
            leave(world.nodes["1"].machine._book)
