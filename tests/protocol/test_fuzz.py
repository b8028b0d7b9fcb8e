"""Any bytes, in any phase, in any order: progress or a ProtocolError, nothing else.

Machines are stopped in the middle of real runs, in every phase. They are then fed real
frames of other runs and other moments, damaged frames, and well-formed messages with
made-up fields, signed and not. After an error the machine is what it was before.
"""

from functools import cache
from random import Random

import numpy as np
import pytest

from machines import picture, sealed, stopped_at
from veilsum.drivers.faults import Crash, Faults
from veilsum.errors import ProtocolError
from veilsum.protocol.codec import Codec
from veilsum.protocol.effects import Effect
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import (
    Agreed,
    Confirm,
    Deposit,
    Down,
    Join,
    Lost,
    Masked,
    Quit,
    Ready,
    Record,
    Result,
    Round,
    Share,
    Status,
    Up,
)
from veilsum.protocol.phases import ABORTED, CLOSED, FINISHED, GREETING, SHARING
from worlds import Setting

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SETTINGS = [
    Setting("complete:4"),
    Setting("complete:4", spread="tree"),
    Setting("complete:4", "gaussian", work="nids"),
    Setting("complete:4", work="nids", spread="tree"),
    Setting("complete:4", "uniform", work="sums"),
    Setting("ring:4", "gaussian", work="sums", spread="tree"),
]
OPEN = list(Machine.table)
MOMENTS = [
    (setting, phase)
    for setting in SETTINGS
    for phase in (*OPEN, *CLOSED, "returned")
    if phase != ("summing" if setting.work == "nids" else "iterating")
]
ME = "1"
SENDERS = ("0", "2", "3", "1", "mallory")

# How many messages one machine is fed before a new one takes its place.
MEAL = 25


def frozen(setting, phase):
    """A world with party 1 in a phase, or back from a crash and still asking."""
    if phase == ABORTED:
        world = stopped_at(setting, ME, SHARING)
        world.nodes[ME].machine.stop("stopped")
        return world
    if phase == FINISHED:
        return setting.world().run()
    if phase == "returned":
        faults = Faults(crashes=(Crash("1", 30, back=0.5),))
        world = setting.world(faults)
        world.nodes[ME].start = 0
        return run_until_back(world)
    return stopped_at(setting, ME, phase)


def run_until_back(world):
    """Run until party 1 has started for the second time."""
    boot = world._boot

    def stop_there(name):
        boot(name)
        if world.nodes[ME].start == 2:
            world._queue.clear()

    world._boot = stop_there
    return world.run()


@cache
def pool():
    """Frames of whole runs, some of them disturbed, by who sent them to whom."""
    found = []
    for setting in SETTINGS:
        for seed in range(2):
            faults = Faults.drawn(seed, setting.parties) if seed else Faults()
            world = setting.world(faults).run()
            found += [e.detail for e in world.history if e.what == "send"]
    return sorted(set(found))


class Cook:
    """Makes messages for one world from one seed."""

    def __init__(self, world, chance):
        self.world, self.chance = world, chance
        self.codec = Codec(20)
        self.known = pool()

    def frame(self):
        """A frame that may be anything."""
        kind = self.chance.randrange(6)
        if kind == 0:
            return self.chance.choice(self.known)
        if kind == 1:
            return self.damaged(self.chance.choice(self.known))
        if kind == 2:
            return self.damaged(self.codec.encode(self.message()))
        if kind == 3:
            return self.chance.randbytes(self.chance.randrange(80))
        return self.codec.encode(self.message())

    def damaged(self, frame):
        chance, bytes_ = self.chance, bytearray(frame)
        way = chance.randrange(4)
        if way == 0:
            return bytes(bytes_[: chance.randrange(len(bytes_))])
        if way == 1:
            bytes_[chance.randrange(len(bytes_))] ^= 1 << chance.randrange(8)
        elif way == 2:
            place = chance.randrange(len(bytes_))
            bytes_[place:place] = chance.randbytes(chance.randrange(1, 9))
        else:
            place = chance.randrange(len(bytes_))
            del bytes_[place : place + chance.randrange(1, 9)]
        return bytes(bytes_)

    def message(self):
        make = self.chance.choice(
            [self.status, self.share, self.confirm, self.deposit, self.round_]
            + [self.tree] * 2
            + [self.record] * 7
        )
        return make()

    def epoch(self):
        now = self.world.nodes[ME].machine.epoch
        return self.chance.choice([now, now, now, 0, 1, now + 1, now + 5, 2**52])

    def name(self):
        return self.chance.choice(["0", "1", "2", "3", "mallory"])

    def names(self):
        return tuple(sorted({self.name() for _ in range(self.chance.randrange(3))}))

    def numbers(self):
        chance = self.chance
        dtype = chance.choice([self.world.plan.law.dtype] * 3 + [np.dtype(np.float64)])
        size = chance.choice([self.world.plan.size] * 5 + [0, 1, 20])
        top = chance.choice([0, 1, 10**6, 2**62])
        if dtype == np.float64:
            scale = chance.choice([0.0, 1.0, 1e300, 1.7e308])
            values = [chance.uniform(-1, 1) * scale for _ in range(size)]
        else:
            low = 0 if dtype.kind == "u" else -top
            values = [chance.randint(low, top) for _ in range(size)]
        return np.array(values, dtype=dtype)

    def incarnation(self):
        machine = self.world.nodes[ME].machine
        joins = [join.incarnation for join in machine._book.joins.values()]
        return self.chance.choice([bytes(16), machine._peers.incarnation, *joins])

    def status(self):
        ids = ("Ready", "Masked", "Join", "Agreed", "Nonsense")
        records = tuple(
            (self.chance.choice(ids), self.epoch(), self.name(), self.incarnation())
            for _ in range(self.chance.randrange(3))
        )
        low, high = self.chance.randrange(-1, 3), self.chance.choice([-1, 0, 2**52])
        return Status(
            self.incarnation(),
            self.incarnation(),
            self.epoch(),
            records,
            low,
            high,
            self.chance.choice([-1, 0, 3, 10**6]),
            self.chance.random() < 0.5,
        )

    def share(self):
        return Share(
            self.epoch(), self.names(), self.chance.randbytes(32), self.numbers()
        )

    def confirm(self):
        return Confirm(self.epoch(), self.chance.randbytes(32))

    def deposit(self):
        return Deposit(self.signed(self.masked(self.name())))

    def round_(self):
        index = self.world.nodes[ME].machine.round
        chosen = self.chance.choice([index, index, index + 1, index + 2, 0, 2**50])
        return Round(self.epoch(), chosen, self.numbers())

    def tree(self):
        return self.chance.choice([Up, Down])(self.epoch(), self.numbers())

    def masked(self, party):
        return Masked(
            party=party, epoch=self.epoch(), nonce=bytes(64), numbers=self.numbers()
        )

    def record(self):
        party, epoch = self.name(), self.epoch()
        plan = self.chance.choice([self.world.plan.digest, bytes(32)])
        mine = self.incarnation()
        reason = self.chance.choice([*Quit.reasons, "bored"])
        digest = self.chance.randbytes(32)
        made = self.chance.choice(
            [
                Join(party=party, epoch=epoch, incarnation=mine, plan=plan),
                Lost(party=party, epoch=epoch, incarnation=mine, lost=self.names()),
                Ready(
                    party=party,
                    epoch=epoch,
                    lost=self.names(),
                    request=digest,
                    commitment=digest,
                ),
                self.masked(party),
                Result(party=party, epoch=epoch, numbers=self.numbers()),
                Agreed(party=party, epoch=epoch, digest=digest),
                Quit(party=party, epoch=epoch, reason=reason),
            ]
        )
        return self.signed(made)

    def signed(self, record: Record):
        """Sign as the author would, or not at all, or as somebody else would."""
        author = record.party if record.party in self.world.nodes else ME
        signer = self.chance.choice([author, author, author, ME, None])
        if signer is None or self.world.nodes[signer].machine is None:
            return record
        return sealed(self.world, record, by=signer)


def feed(setting, phase, seed, cases):
    """Give machines stopped in a phase so many messages."""
    chance = Random(f"fuzz {setting} {phase} {seed}")
    for _ in range(0, cases, MEAL):
        world = frozen(setting, phase)
        cook = Cook(world, chance)
        for _ in range(MEAL):
            bite(world, cook.frame(), chance.choice(SENDERS), f"{phase} {seed}")


def bite(world, frame, sender, where):
    machine = world.nodes[ME].machine
    before = picture(machine)
    try:
        effects = machine.receive(sender, frame)
    except ProtocolError:
        assert picture(machine) == before, (where, sender, frame)
    else:
        assert all(isinstance(effect, Effect) for effect in effects)
        for effect in effects:
            if getattr(effect, "name", "").startswith("deadline/"):
                machine.expire(effect.name)


IDS = [f"{s.work} {s.spread} {phase}" for s, phase in MOMENTS]
everywhere = pytest.mark.parametrize(("setting", "phase"), MOMENTS, ids=IDS)

QUICK = 40  # for each of the moments, some 2,000 in all
LONG = 2_100  # some 100,000


@everywhere
def test_no_message_in_any_phase_does_harm(setting, phase):
    feed(setting, phase, 0, QUICK)


@pytest.mark.slow
@everywhere
def test_no_message_of_very_many_does_harm(setting, phase):
    feed(setting, phase, 1, LONG)


def test_every_phase_is_fed():
    fed = {phase for _, phase in MOMENTS}
    assert fed >= {*Machine.table, *CLOSED}
    assert len(MOMENTS) * LONG >= 100_000


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_whole_run_in_any_order_does_no_harm(setting):
    """All that a party was sent in a run, shuffled, to a machine that starts."""
    done = setting.world().run()
    told = [(e.peer, e.detail) for e in done.history if e.what == "receive"]
    chance = Random(0)
    for _ in range(3):
        chance.shuffle(told)
        world = stopped_at(setting, ME, GREETING)
        for sender, frame in told:
            bite(world, frame, sender, "shuffled")
