"""One member that lies: what it can make the others do.

Worlds of honest machines and one that sends whatever it likes, signed where that is
needed, at a moment of its choice. It must not decide who takes part, fill anybody's
memory, or have an honest party blamed; what it says twice is held against it.
"""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pytest

from attacks.organiser import Found
from cases import each
from worlds import Faults, Machine, ProtocolPolicy, Setting

try:
    from veilsum.protocol.effects import Send
    from veilsum.protocol.messages import Lost, Masked, Status

    DIGEST = (bytes(16),)
except ImportError:  # an older commit
    from veilsum.agent.effects import Send
    from veilsum.agent.messages import Lost, Masked, Status

    DIGEST = ()

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

# Not the first by name, who proposes the answer.
LIAR, VICTIM = "5", "1"
STRICT = ProtocolPolicy(drop=False, tolerate=1, minimum_honest=3)
SEVEN = Setting("complete:7", "uniform", policy=STRICT)


def lying(lie, phase="sharing"):
    """Machines of which one tells a lie, once, as soon as it has reached a phase.

    A lie is called with the machine and a neighbour; it returns messages.
    """

    class Liar(Machine):
        told = False

        def receive(self, sender, frame):
            effects = super().receive(sender, frame)
            if self.me == LIAR and self.phase == phase and not self.told:
                self.told = True
                for to in self.plan.topology.neighbours(self.me):
                    frames = map(codec_of(self).encode, lie(self, to))
                    effects += [Send(to, frame) for frame in frames]
                effects += self._effects()
            return effects

    return Liar


def codec_of(machine):
    return getattr(machine.plan, "codec", None) or machine._codec


def sealed(machine, record):
    return machine._book.sealed(record)


def told(lie, setting=SEVEN, phase="sharing"):
    """A world in which somebody lies, when all of it is over."""
    return setting.world(make=lying(lie, phase)).run()


# Who takes part


def ejects(*names, phase="sharing"):
    """Who is in the sum in the end, where the policy drops nobody."""

    def lie(machine, to):
        if to == VICTIM:  # once: everybody is told
            machine._give_up_on(list(names))
        return []

    world = told(lie, phase=phase)
    found = sorted({tuple(one.parties) for one in world.finished.values()})
    rest = tuple(name for name in SEVEN.parties if name not in names)
    return Found([list(one) for one in found], [list(rest)])


# Memory


def floods(make, n=300):
    """How many records of one member an honest one keeps."""

    def lie(machine, to):
        del to
        return [sealed(machine, make(machine, k)) for k in range(1, n + 1)]

    world = told(lie)
    kept = world.nodes[VICTIM].machine._book._records
    return Found(sum(one[2] == LIAR for one in kept) >= n, True)


def start_of(machine):
    return getattr(machine._book, "start", None) or machine._joined_as


def lost_at(machine, epoch):
    start = start_of(machine)
    return Lost(party=machine.me, epoch=10 + epoch, incarnation=start, lost=())


def lost_far(machine, epoch):
    return Lost(
        party=machine.me,
        epoch=2**52 + epoch,
        incarnation=start_of(machine),
        lost=("3",),
    )


def lost_back(machine, epoch):
    """Each of them about the epoch that comes after the one before."""
    lost = lost_at(machine, epoch)
    return msgspec.structs.replace(lost, epoch=epoch * 8)


# Blame


def says_of(to, **words):
    """An unsigned word about what the sender holds of its neighbour."""

    def lie(machine, neighbour):
        if neighbour != to:
            return []
        zeros = bytes(16)
        known = {
            "incarnation": getattr(machine, "_incarnation", zeros),
            "echo": zeros,
            "epoch": machine.epoch,
            "records": (),
            "share": -1,
            "confirm": -1,
            "round": -1,
            "reply": False,
        }
        return [Status(**{**known, **words})]

    return lie


def blames(phase="sharing", **words):
    """How an honest party ends about which another one has told a lie."""
    world = told(says_of(VICTIM, **words), phase=phase)
    found = world.aborted.get(VICTIM)
    return Found(None if found is None else found.reason, "stale")


def replays(setting=SEVEN):
    """The same, where the words were true in an earlier run of the same members."""
    # Where frames are lost, parties ask again, and say what they have.
    before = setting.world(Faults(loss=0.3)).run()
    codec = codec_of(before.nodes[VICTIM].machine)
    frames = [
        one.detail
        for one in before.history
        if (one.what, one.party, one.peer) == ("send", LIAR, VICTIM)
    ]
    status = [one for one in map(codec.decode, frames) if isinstance(one, Status)]
    last = max(status, key=lambda one: len(one.records))
    world = told(lambda _, to: [last] if to == VICTIM else [], setting, "greeting")
    found = world.aborted.get(VICTIM)
    return Found(None if found is None else found.reason, "stale")


# Two stories


# Of the grid's steps: what the answers differ by is seen.
MORE = np.uint64(2**40)


class TwoFaced(Machine):
    """Shows some of its neighbours one masked vector, and the others another."""

    def _effects(self):
        effects = super()._effects()
        return [self._other(one) for one in effects] if self.me == LIAR else effects

    def _other(self, effect):
        if not isinstance(effect, Send) or effect.to in {"1", "2"}:
            return effect
        codec = codec_of(self)
        message = codec.decode(effect.frame)
        if not isinstance(message, Masked):
            return effect
        changed = msgspec.structs.replace(message, numbers=message.numbers + MORE)
        return Send(effect.to, codec.encode(sealed(self, changed)))


def tells_two_stories(setting=SEVEN):
    """Whether a member that shows two masked vectors gets away without being named."""
    world = setting.world(make=TwoFaced).run()
    said = [
        one.detail for name, one in world.aborted.items() if name != LIAR and one.detail
    ]
    named = [text for text in said if f"{LIAR!r}" in text]
    return Found(bool(said) and not named, True)


# Later commits say what was signed as well.
FAR = ("Ready", 99, VICTIM, *DIGEST)
ATTACKS = {
    "ejects three": partial(ejects, "3", "4", "6"),
    "ejects one": partial(ejects, "3"),
    "ejects at the first greeting": partial(ejects, "4", "6", phase="greeting"),
    "floods with losses": partial(floods, lost_at),
    "floods with losses of far epochs": partial(floods, lost_far),
    "floods with losses sum by sum": partial(floods, lost_back),
    "I hold your Ready 99": partial(blames, records=(FAR,)),
    "I hold your share 99": partial(blames, "greeting", share=99),
    "I am ahead of your rounds": partial(blames, round=99),
    "words of an earlier run": replays,
    "two masked vectors": tells_two_stories,
}


@each("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_liar_has_no_such_power(attack):
    assert not attack().succeeded


def test_where_losses_were_agreed_on_a_member_is_followed():
    """The twin: the same word, under a policy that lets parties go on with fewer."""

    def lie(machine, to):
        if to == VICTIM:
            machine._give_up_on(["3"])
        return []

    free = ProtocolPolicy(drop=True, tolerate=1, minimum_honest=3)
    world = told(lie, Setting("complete:7", "uniform", policy=free))
    assert {one.parties for one in world.finished.values()} == {tuple("012456")}


def test_the_truth_ends_nothing():
    """The twin: what a party holds, said once more, changes nothing."""
    world = told(says_of(VICTIM))
    assert set(world.finished) == set(SEVEN.parties)
