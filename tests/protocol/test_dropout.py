"""The danger in dropping a party late, shown on a protocol that does it; and ours.

Suppose a party vanishes after its masked vector was seen. To repair the sum, a careless
protocol has its neighbours subtract the shares they had with it. Each of them thereby
shows its vector under two masks that differ by those shares, and an observer adds the
differences up to the mask of the lost party: its private vector is then known exactly.
"""

import numpy as np
import pytest

from machines import join_frame, picture, sealed, stopped_at
from refusals import refused
from rules import broken_rules
from veilsum.drivers.faults import Crash, Faults
from veilsum.errors import PeerProtocolError
from veilsum.protocol.effects import Send
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import MESSAGES, Lost, Masked, Quit, Ready, Share
from veilsum.protocol.phases import SUMMING
from veilsum.protocol.plan import ProtocolPolicy
from worlds import Setting, effects_until, replayed

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

VICTIM = "2"


class Unmasks(Machine):
    """Drops a silent party after the commit, and shows its own sum without it."""

    def _overdue(self):
        if self.phase == SUMMING:
            self._repair_the_sum()
        else:
            super()._overdue()

    def _repair_the_sum(self):
        """Take back the shares with the lost party; show the rest under a new name."""
        corrected = self._epoch.masked.numbers
        if VICTIM in self._epoch.sent:
            ours, theirs = self._epoch.sent[VICTIM], self._epoch.got[VICTIM]
            corrected = corrected - (ours.numbers - theirs.numbers)
        shown = Masked(
            party=self.me, epoch=self.epoch + 1, nonce=bytes(64), numbers=corrected
        )
        frame = self.plan.codec.encode(self._book.sealed(shown))
        self._out += self._peers.tell(shown, frame)
        self._abort("stopped", "the sum is repaired")


def vanishes(setting):
    """The victim is gone right after it showed its masked vector to one neighbour."""
    after = effects_until(setting, VICTIM, "Deposit")
    return Faults(crashes=(Crash(VICTIM, after, None),))


def observed(world):
    """All masked vectors on the wire, by author and epoch: what anybody may see."""
    codec, found = world.plan.codec, {}
    for event in world.history:
        if event.what == "send":
            message = codec.decode(event.detail)
            message = getattr(message, "masked", message)
            if isinstance(message, Masked):
                found[message.party, message.epoch] = message.numbers
    return found


def unmasked(world):
    """The victim's vector, from what was seen: u_k = -sum_j (before_j - after_j)."""
    seen = observed(world)
    before = {party: v for (party, epoch), v in seen.items() if epoch == 0}
    after = {party: v for (party, epoch), v in seen.items() if epoch == 1}
    parts = [before[party] - after[party] for party in after if party != VICTIM]
    mask = -sum(parts)
    return world.plan.law.decode(before[VICTIM] - mask)


@pytest.mark.parametrize("law", ["lattice", "uniform", "gaussian"])
@pytest.mark.parametrize("graph", ["complete:5", "ring:5"])
def test_an_unsafe_policy_shows_the_lost_partys_vector_exactly(graph, law):
    setting = Setting(graph, law, spread="tree")
    world = setting.world(vanishes(setting), make=Unmasks).run()
    found = unmasked(world)
    private = setting.private(VICTIM)
    step = 1e-9 if law == "gaussian" else 2.0**-24
    assert np.abs(found - private).max() <= step


def test_the_history_checker_sees_the_unsafe_policy():
    setting = Setting("complete:5", spread="tree")
    world = setting.world(vanishes(setting), make=Unmasks).run()
    assert any("epoch 1 uncommitted" in one for one in broken_rules(world))


@pytest.mark.parametrize("graph", ["complete:5", "ring:5"])
def test_under_our_policy_nobody_shows_two_vectors(graph):
    """The run is given up, or ends with everybody's vector; nothing is taken back."""
    setting = Setting(graph, spread="tree")
    world = setting.world(vanishes(setting)).run()
    assert broken_rules(world) == []
    assert {epoch for _, epoch in observed(world)} == {0}
    for party, finish in world.finished.items():
        assert VICTIM in finish.parties, party
    assert all(one.reason == "timeout" for one in world.aborted.values())


@pytest.mark.parametrize("phase", ["summing", "agreeing"])
def test_a_party_cannot_be_talked_into_dropping_another_after_the_commit(phase):
    world = stopped_at(Setting("complete:5"), "1", phase)
    machine, other = world.nodes["1"].machine, world.nodes["0"].machine
    lost = Lost(party="0", epoch=0, incarnation=other._book.start, lost=(VICTIM,))
    machine._book.forget(Ready, "0")  # with it there would be proof
    frame = other.plan.codec.encode(other._book.sealed(lost))
    before = picture(machine)
    with refused("drop-after-commit", PeerProtocolError):
        machine.receive("0", frame)
    assert picture(machine) == before


@pytest.mark.parametrize("phase", ["greeting", "sharing"])
def test_a_party_drops_another_once_its_neighbours_know_of_this_start(phase):
    """Before, it may be one that lost its memory: an earlier start may be ready."""
    world = stopped_at(Setting("complete:5"), "1", phase)
    machine = world.nodes["1"].machine
    machine.receive(VICTIM, join_frame(world, VICTIM))
    quit_ = sealed(world, Quit(party=VICTIM, epoch=0, reason="stopped"))
    effects = machine.receive(VICTIM, world.plan.codec.encode(quit_))
    sent = (world.plan.codec.decode(e.frame) for e in effects if isinstance(e, Send))
    losses = {one.lost for one in sent if isinstance(one, Lost)}
    known = phase != "greeting"
    assert machine._peers.have_echoed(machine._peers.names) == known
    assert losses == ({(VICTIM,)} if known else set())
    assert machine.lost == ((VICTIM,) if known else ())


@pytest.mark.parametrize("graph", ["complete:5", "wheel:6"])
def test_nobody_is_dropped_once_a_sum_is_known(graph):
    """The next sum, over fewer parties, would show by subtraction who is missing."""
    setting = Setting(graph, work="sums")
    after = effects_until(setting, VICTIM, "Deliver")
    world = replayed(setting, Faults(crashes=(Crash(VICTIM, after, None),)))
    assert world.finished == {}
    assert {one.reason for one in world.aborted.values()} == {"timeout"}
    assert len(world.aborted) == len(setting.parties) - 1
    assert {epoch for _, epoch in observed(world)} == {0}


@pytest.mark.parametrize("n", [3, 4, 5, 6, 40, 41])
def test_a_quorum_is_the_smallest_majority_or_the_agreed_minimum(n):
    """Two groups that lost each other would publish two sums."""
    quorum = ProtocolPolicy(minimum_parties=2).quorum(n)
    assert 2 * quorum > n >= 2 * (quorum - 1)
    assert ProtocolPolicy(minimum_parties=n).quorum(n) == n


def test_shares_leave_a_party_in_one_message_and_towards_one_neighbour_only():
    """No message gives a share back, or a sum of some: there is nothing to ask for."""
    with_numbers = {
        kind.__name__ for kind in MESSAGES if "numbers" in kind.__struct_fields__
    }
    assert with_numbers == {"Share", "Round", "Up", "Down", "Masked", "Result"}
    setting = Setting("complete:5", spread="tree")
    world = setting.world(vanishes(setting)).run()
    codec = world.plan.codec
    for event in world.history:
        if event.what == "send":
            message = codec.decode(event.detail)
            drawn = isinstance(message, Share)
            assert not drawn or event.peer in setting.topology.neighbours(event.party)
