"""The history checker speaks up: machines with a planted defect do not get past it."""

import msgspec
import pytest

from cases import each
from machines import changed
from rules import broken_rules
from veilsum.drivers.faults import Crash, Faults
from veilsum.protocol.effects import Abort, Emission
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import Masked
from veilsum.protocol.phases import COMMITTING, GREETING, SHARING, SUMMING
from worlds import Setting, effects_until, replayed

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


class EmitsBeforeCommit(Machine):
    """Shows its masked numbers as soon as it is ready itself."""

    def _declare_ready(self):
        phase = super()._declare_ready()
        numbers = self._epoch.private + self._epoch.mask()
        masked = Masked(
            party=self.me, epoch=self.epoch, nonce=bytes(64), numbers=numbers
        )
        frame = self.plan.codec.encode(self._book.sealed(masked))
        self._out += self._peers.tell(masked, frame)
        return phase

    table = changed(SHARING, action=_declare_ready)


class RedrawsOnRestart(Machine):
    """Draws its shares anew when it comes back, though it has them on disk."""

    def _restore_epoch(self, stored):
        super()._restore_epoch(stored)
        epoch = self._epoch
        for name in epoch.sent:
            epoch.sent[name] = epoch.new_share(
                name, epoch.number, self._streams, self._keys
            )


class DropsAfterCommit(Machine):
    """Goes on without whoever is silent, even when masked numbers have been shown."""

    def _droppable(self):
        return True

    def _overdue(self):
        if self.phase == SUMMING:
            self._give_up_on(self.waiting_for)
        else:
            super()._overdue()


class ReusesAnEpoch(Machine):
    """Counts sums but not losses."""

    def _begin_epoch(self, lost, private=None):
        super()._begin_epoch(lost, private)
        self._epoch.number -= len(lost)


class ReusesTheFirstEpoch(Machine):
    """Counts losses but not sums."""

    def _begin_epoch(self, lost, private=None):
        super()._begin_epoch(lost, private)
        self._epoch.number = len(lost)


class SkipsOneConfirmation(Machine):
    """Is content when all edges but one are confirmed."""

    def _nearly_confirmed(self):
        epoch, ready = self._epoch, self._book.all_ready
        nearly = len(epoch.confirmations) >= len(epoch.place.neighbours) - 1
        return nearly and ready(self.epoch, self.members, self.lost)

    table = changed(COMMITTING, guard=_nearly_confirmed)


class ChargesAfterEmission(Machine):
    """Shows its masked numbers and tells the ledger afterwards."""

    def _commit(self):
        phase = super()._commit()
        self._out.sort(key=lambda effect: isinstance(effect, Emission))
        return phase

    table = changed(COMMITTING, action=_commit)


class CommitsAlone(Machine):
    """Does not wait until everybody is ready."""

    def _commit(self):
        self._keep(f"commit/{self.epoch}", b"")
        return SUMMING

    table = changed(COMMITTING, guard=lambda self: True, action=_commit)


class AddsOne(Machine):
    """Masks another vector than its own."""

    def _declare_ready(self):
        self._epoch.private = self._epoch.private + 1
        return super()._declare_ready()

    table = changed(SHARING, action=_declare_ready)


class OpensAnother(Machine):
    """Draws its nonce anew before it shows its masked numbers."""

    def _emit(self):
        masked = msgspec.structs.replace(self._epoch.masked, nonce=bytes(64))
        self._epoch.masked = self._book.sealed(masked)
        return super()._emit()


class AnswersWrong(Machine):
    """Computes another answer and believes whatever is proposed."""

    def _propose(self):
        self._answer = self._answer + 1
        return super()._propose()


class GivesNoReason(Machine):
    """Leaves without a word to its owner."""

    def _draw_shares(self):
        self._out.append(Abort("bored", ""))
        return "aborted"

    table = changed(GREETING, action=_draw_shares)


QUIET = Faults()
# A confirmation travels with its author's Ready: only a loss parts them.
LOSSY = Faults(loss=0.25)
FLOODING = Setting("complete:5")
SUMS = Setting("complete:5", work="sums")


def gone(setting, party, kind):
    """A script in which a party vanishes for good right after an effect."""
    return Faults(crashes=(Crash(party, effects_until(setting, party, kind), None),))


def back(setting, party, kind):
    """A script in which a party is away for a second."""
    return Faults(crashes=(Crash(party, effects_until(setting, party, kind), 1.0),))


PLANTED = [
    (EmitsBeforeCommit, FLOODING, QUIET, "showed masked numbers of epoch 0 uncommit"),
    (RedrawsOnRestart, FLOODING, back(FLOODING, "2", "Confirm"), "sent two shares to "),
    (
        DropsAfterCommit,
        FLOODING,
        gone(FLOODING, "2", "Emission"),
        "dropped a party aft",
    ),
    (ReusesAnEpoch, FLOODING, gone(FLOODING, "2", "Share"), "used epoch 0 for two set"),
    (SkipsOneConfirmation, FLOODING, LOSSY, "committed without '"),
    (ChargesAfterEmission, FLOODING, QUIET, "showed masked numbers of epoch 0 unchar"),
    # More than was asked for: one for every rule that the six leave out.
    (ReusesTheFirstEpoch, SUMS, QUIET, "used epoch 0 with two inputs"),
    (CommitsAlone, FLOODING, QUIET, "committed epoch 0 without "),
    (AddsOne, FLOODING, QUIET, "the masks of epoch 0 do not add up to zero"),
    (OpensAnother, FLOODING, QUIET, "showed another vector in epoch 0"),
    (AnswersWrong, FLOODING, QUIET, "away from the answer"),
    (GivesNoReason, FLOODING, QUIET, "gave up without a reason"),
]


@each(
    ("defect", "setting", "faults", "rule"),
    PLANTED,
    ids=[case[0].__name__ for case in PLANTED],
)
def test_a_planted_defect_is_caught_and_its_rule_named(defect, setting, faults, rule):
    honest = setting.world(faults).run()
    assert broken_rules(honest) == []
    defective = setting.world(faults, make=defect).run()
    found = broken_rules(defective)
    assert any(rule in one for one in found), found


def test_a_failing_schedule_says_how_to_replay_it():
    setting, faults = Setting(seed=7), Faults(loss=0.25)
    with pytest.raises(AssertionError) as caught:
        replayed(setting, faults, make=AddsOne)
    assert repr(setting) in str(caught.value)
    assert repr(faults) in str(caught.value)
