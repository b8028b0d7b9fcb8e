"""Rules that no fault may bend: each was once a hole, and stays a test."""

from functools import partial
from random import Random

import numpy as np
import pytest

from cases import each
from rules import broken_rules
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import LoopbackWorld
from veilsum.protocol.codec import Codec
from veilsum.protocol.effects import Emission
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import (
    Deposit,
    Down,
    Masked,
    Ready,
    Round,
    Share,
    Status,
    Up,
)
from veilsum.protocol.plan import ProtocolPolicy
from worlds import Setting

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

EMISSIONS = (Masked, Deposit, Round, Up, Down)


class RefusingLedger(LoopbackWorld):
    """Party 2's ledger has nothing left: its driver stops at the charge."""

    def _carry_out(self, node, effects):
        for k, effect in enumerate(effects):
            if node.name == "2" and isinstance(effect, Emission):
                super()._carry_out(node, effects[:k])
                super()._carry_out(node, node.machine.stop("ledger", "nothing left"))
                return
        super()._carry_out(node, effects)


def sent_by(world, party):
    codec = world.plan.codec
    for event in world.history:
        if event.what == "send" and event.party == party:
            yield codec.decode(event.detail)


@each("work", ["one-shot", "nids"])
@each("spread", ["flooding", "tree"])
def test_what_the_ledger_refused_never_leaves(work, spread):
    """Not at once, and not later when a neighbour asks for what it lacks."""
    setting = Setting(work=work, spread=spread)
    plan = setting.plan()
    world = RefusingLedger(plan, setting.works(plan), setting.streams()).run()
    own = [
        message
        for message in sent_by(world, "2")
        if isinstance(message, EMISSIONS) and getattr(message, "party", "2") == "2"
    ]
    assert own == []
    assert world.nodes["2"].charged == []
    assert world.aborted["2"].reason == "ledger"
    assert broken_rules(world) == []


def test_a_loss_that_breaks_the_promise_ends_the_run():
    """A ring of five bears one curious party; the path it leaves does not."""
    gone = Faults(crashes=(Crash("0", 3, back=None),))
    bold = Setting(graph="ring:5", policy=ProtocolPolicy(tolerate=0))
    assert len(bold.world(gone).run().finished) == 4
    careful = Setting(graph="ring:5", policy=ProtocolPolicy(tolerate=1))
    world = careful.world(gone).run()
    assert not world.finished
    assert {abort.reason for abort in world.aborted.values()} <= {"timeout", "policy"}
    assert broken_rules(world) == []


def test_too_few_honest_parties_do_not_go_on():
    plan = Setting(graph="complete:5", policy=ProtocolPolicy(tolerate=2)).plan()
    assert plan.refusal(plan.parties) is None
    assert "too few" in plan.refusal(("0", "1", "2", "3"))
    assert "wants 3 of 5" in plan.refusal(("0", "1"))


class SlowLinks(LoopbackWorld):
    """Parties 5 and 6 cannot hear each other in time; both give up on the other."""

    ready = False

    def _transmit(self, sender, send):
        message, wait = Codec(10).decode(send.frame), 0.01
        if {sender, send.to} == {"5", "6"} and isinstance(message, Share | Status):
            wait = 31.0
        if sender == "6" and self.time > 29.9:
            wait = 2.0
        if sender == "5" and isinstance(message, Ready):
            self.ready = True
        if sender == "5" and self.ready:
            wait = 5.0
        self._at(self.time + wait, partial(self._arrive, sender, send))


def test_a_lost_party_cannot_drop_those_who_went_on():
    setting = Setting(graph="complete:7")
    plan = setting.plan()
    world = SlowLinks(plan, setting.works(plan), setting.streams()).run()
    assert broken_rules(world) == []
    sets = {finish.parties for finish in world.finished.values()}
    assert len(sets) == 1


def test_rounds_that_take_long_are_not_silence():
    """Deadlines pass while rounds go on; nobody falls back to a plain sum."""
    setting = Setting(work="nids")
    world = setting.world(Faults(delay=(4.0, 4.0))).run()
    assert world.time > setting.policy.deadline
    assert len(world.finished) == 5
    shown = [m for m in sent_by(world, "0") if isinstance(m, Masked)]
    assert shown == []
    assert broken_rules(world) == []


OBJECTED = "'3' left: result; this party was agreeing"


class Stubborn(Machine):
    """Party 3 computes another answer than the others."""

    def _propose(self):
        if self.me == "3":
            self._answer = self._answer + 1.0
        return super()._propose()


def test_nobody_finishes_against_a_party_that_disagrees():
    world = Setting().world(make=Stubborn).run()
    assert not world.finished
    assert world.aborted["3"].reason == "result"
    assert "'0' found another answer, 1 away" in world.aborted["3"].detail
    told = {world.aborted[name] for name in "0124"}
    assert {abort.reason for abort in told} == {"peer"}
    assert {abort.detail for abort in told} == {OBJECTED}
    # Its word is enough: nobody waits for a signature that will not come.
    assert world.time < Setting().policy.deadline


class Hasty(Machine):
    """Party 3 has shown its masked vector, and leaves before anybody has an answer."""

    def _enter(self, phase):
        super()._enter(phase)
        if self.me == "3" and phase == "summing":
            self._abort("result", "no answer will do")


def test_an_objection_counts_however_early_it_comes():
    world = Setting().world(make=Hasty).run()
    assert not world.finished
    told = {world.aborted[name] for name in "0124"}
    assert {abort.reason for abort in told} == {"peer"}
    assert {abort.detail for abort in told} == {OBJECTED}
    assert world.time < Setting().policy.deadline
    assert broken_rules(world) == []


@each("seed", range(10))
def test_only_who_objects_is_named_however_the_word_travels(seed):
    setting = Setting(graph="ring:5", seed=seed)
    world = setting.world(Faults(delay=(0.0, 2.0)), make=Stubborn).run()
    told = {name: world.aborted[name].detail for name in "0124"}
    assert set(told.values()) == {OBJECTED}, told


class Turncoat(Machine):
    """Party 3 signs the answer, and then leaves because of it."""

    def _compare(self):
        super()._compare()
        if self.me == "3" and ("Agreed", 0, "3") in self._book:
            self._abort("result", "on a whim")


class InOrder(LoopbackWorld):
    """Links take their time, and no frame overtakes another on the same one."""

    def _transmit(self, sender, send):
        key = (sender, send.to)
        last, chance = self.__dict__.setdefault("_links", ({}, Random(self.seed)))
        last[key] = max(self.time + chance.uniform(0, 0.2), last.get(key, 0) + 1e-9)
        self._at(last[key], partial(self._arrive, sender, send))


@pytest.mark.parametrize("graph", ["complete:5", "ring:5"])
def test_who_has_signed_cannot_take_it_back(graph):
    for seed in range(25):
        setting = Setting(graph=graph, seed=seed)
        plan = setting.plan()
        world = InOrder(
            plan, setting.works(plan), setting.streams(), seed=seed, make=Turncoat
        ).run()
        assert sorted(world.finished) == ["0", "1", "2", "4"], seed


class Rounding(Machine):
    """Answers are large, and party 3's is off by a part of them."""

    off = 0.0

    def _propose(self):
        self._answer = 1e12 * (1.0 + self._answer / np.abs(self._answer).max())
        if self.me == "3":
            self._answer = self._answer * (1.0 + self.off)
        return super()._propose()


@pytest.mark.parametrize(("off", "ended"), [(1e-7, 5), (1e-5, 0)])
def test_large_answers_may_differ_by_rounding(off, ended):
    make = type("Off", (Rounding,), {"off": off})
    world = Setting().world(make=make).run()
    assert len(world.finished) == ended


class Liar(Machine):
    """One number of everybody's answer is large; party 0 changes the small ones."""

    off = 0.0

    def _propose(self):
        self._answer = np.array([1e12, 0.25, 0.5])
        if self.me == "0":
            self._answer = self._answer + np.array([0.0, self.off, 0.0])
        return super()._propose()


@each(("off", "ended"), [(1e-7, 5), (1e-5, 0), (900.0, 0)])
def test_a_small_number_is_not_hidden_behind_a_large_one(off, ended):
    make = type("Off", (Liar,), {"off": off})
    assert len(Setting().world(make=make).run().finished) == ended


def test_every_term_of_a_plan_is_in_its_digest():
    terms = b"the same"
    plans = [
        Setting().plan(),
        Setting(spread="tree").plan(),
        Setting(law="uniform").plan(),
        Setting(graph="ring:5").plan(),
        Setting(policy=ProtocolPolicy(patience=9)).plan(),
        Setting(size=4).plan(),
    ]
    digests = set()
    for plan in plans:
        object.__setattr__(plan, "terms", terms)
        digests.add(plan.digest)
    assert len(digests) == len(plans)


def test_the_book_does_not_grow_with_the_number_of_sums():
    setting = Setting(work="sums")
    world = setting.world().run()
    kept = [
        kind
        for kind, epoch, _ in world.nodes["0"].machine._book.ids()
        if kind in {"Ready", "Masked"}
    ]
    assert 0 < len(kept) <= 2 * 2 * len(setting.parties)


def test_numbers_that_cannot_be_masked_are_refused_before_anything_is_shared():
    """The Join goes first, so that others know which start it is that leaves."""
    setting = Setting(law="gaussian")
    plan = setting.plan()
    works = setting.works(plan)
    object.__setattr__(works["2"], "private", np.array([1.0, np.nan, 2.0]))
    world = LoopbackWorld(plan, works, setting.streams()).run()
    assert world.aborted["2"].reason == "input"
    assert "finite" in world.aborted["2"].detail
    own = [m for m in sent_by(world, "2") if getattr(m, "party", "2") == "2"]
    assert {type(message).__name__ for message in own} <= {"Join", "Quit", "Status"}
