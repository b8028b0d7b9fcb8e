"""Defects in masking, codec, jobs and machines, one at a time: an audit finds each."""

import secrets

import numpy as np
import pytest
from msgspec.structs import replace

from audit.questions import COLUMNS, question
from veilsum.audit import auditing, share_law
from veilsum.audit.auditing import audit_question, scene_of_audit
from veilsum.audit.question import SkippedAttack
from veilsum.errors import InvalidInputError
from veilsum.masks.laws import LatticeCountMasks, UniformCountMasks
from veilsum.masks.masking import MaskShares, ShareStreams
from veilsum.masks.streams import KEY_BYTES, Keystream
from veilsum.numbers.limbs import subtract_wide_integers
from veilsum.protocol.codec import Codec
from veilsum.protocol.effects import Send
from veilsum.protocol.epoch import Epoch
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import Masked, Share
from veilsum.sums.recipes import SumPartyWork

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


AGES = {"age": {"kind": "integer", "minimum": 18, "maximum": 95}}
# Small ones: of one sum, of several, and under masks of the other law.
ASKED = {
    "a mean": {"columns": AGES, "statistics": {"columns": ["age"]}},
    "several sums": {
        "columns": {**AGES, "smoker": COLUMNS["smoker"]},
        "model": {"formula": "smoker ~ age", "family": "logistic"},
    },
    "a lattice": {
        "columns": AGES,
        "statistics": {"columns": ["age"]},
        "masks": {"law": "lattice", "sigma": 1e6},
    },
}


def audited(name="a mean", **options):
    """An audit of depth standard, with fewer trials and without its controls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "PLANTED", {})
        patch.setattr(auditing, "TRIALS", {"standard": 3})
        patch.setattr(auditing.timing, "attack_timings", lambda *given: ())
        asked = question(**ASKED[name])
        scene = scene_of_audit(asked)
        given = {"executions": 500, "seed": 4, **options}
        return audit_question(asked, scene, [asked.parties[:1]], **given)


def found_by(found):
    return {one.attack for one in found.findings}


def narrow_words(patch):
    """Masking: residues have half of their bits."""
    draw = UniformCountMasks.draw

    def narrow(self, stream, size, weight=1.0):
        return draw(self, stream, size, weight) % 2**32

    patch.setattr(UniformCountMasks, "draw", narrow)


def a_link_that_masks_nothing(patch):
    """Masking: the noise of the first link does not reach its ends."""
    noise = MaskShares.edge_noise

    def without(self):
        found = noise(self).copy()
        found[0] *= 0
        return found

    patch.setattr(MaskShares, "edge_noise", without)


def one_epoch_for_all(patch):
    """Masking: the stream of a share does not depend on the epoch."""
    stream = ShareStreams.stream

    def same(self, *, epoch, sender, receiver):
        return stream(self, epoch=0, sender=sender, receiver=receiver)

    patch.setattr(ShareStreams, "stream", same)


def low_bytes_lost(patch):
    """Codec: shares travel without their lowest byte."""
    encode = Codec.encode

    def cut(self, message):
        if isinstance(message, Share):
            message = replace(message, numbers=message.numbers // 256 * 256)
        return encode(self, message)

    patch.setattr(Codec, "encode", cut)


def shares_of_zeros(patch):
    """Agent: a machine sends zeros to everybody."""
    new = Epoch.new_share

    def zeros(self, *given):
        share = new(self, *given)
        return replace(share, numbers=share.numbers * 0)

    patch.setattr(Epoch, "new_share", zeros)


def a_size_in_a_sum(patch):
    """Jobs: a party's own number of rows is in a total in which it is squared."""
    vector = SumPartyWork.vector

    def telling(self, answers):
        found = vector(self, answers)
        if found is None or found.dtype != object:
            return found
        return np.append(found[:-1], int(found[0]) ** 2 % 97 + found[-1])

    patch.setattr(SumPartyWork, "vector", telling)


def a_truncated_range(patch):
    """Masking: residues are below three quarters of what they may be."""
    draw = UniformCountMasks.draw

    def truncated(self, stream, size, weight=1.0):
        numbers, most = draw(self, stream, size, weight), 3 * 2 ** (8 * 8 - 2)
        return np.where(numbers < most, numbers, numbers - most)

    patch.setattr(UniformCountMasks, "draw", truncated)


def no_tails(patch):
    """Masking: discrete Gaussians end at two and a half deviations."""
    draw = LatticeCountMasks.draw

    def cut(self, stream, size, weight=1.0):
        numbers = draw(self, stream, size, weight)
        units = [float(unit) for unit in self.counts.units]
        times = size // len(units) if size % len(units) == 0 else 1
        most = 2.5 * np.asarray(self.sigma).max() / np.repeat(units, times)
        return np.array(
            [
                int(max(-far, min(far, float(one))))
                for one, far in zip(numbers, most, strict=True)
            ],
            dtype=object,
        )

    patch.setattr(LatticeCountMasks, "draw", cut)


def one_stream_and_a_step(patch):
    """Masking: what a party sends to all its neighbours differs by a constant."""

    def related(self, law, size, weight=1.0, *, epoch, sender, receiver):
        stream = self.stream(epoch=epoch, sender=sender, receiver=sender)
        return law.wrap(law.draw(stream, size, weight) + law.dtype.type(receiver))

    patch.setattr(ShareStreams, "share", related)


def few_keys_of_the_system(patch):
    """Masking: keys of real parties have 16 bits."""
    patch.setattr(
        Keystream,
        "from_os",
        classmethod(lambda cls: cls(secrets.token_bytes(2) + bytes(KEY_BYTES - 2))),
    )


def half_of_the_keystream(patch):
    """Masking: real parties' words have zeros in their upper half."""
    words = Keystream.words
    patch.setattr(Keystream, "words", lambda self, n: words(self, n) >> np.uint64(32))


def a_flipped_sign(patch):
    """Agent: a machine adds what it got from its first neighbour."""
    mask = Epoch.mask

    def flipped(self):
        first = next(iter(self.place.weights))
        return mask(self) + 2 * self.got[first].numbers

    patch.setattr(Epoch, "mask", flipped)


def high_bytes_lost(patch):
    """Codec: masked vectors travel without their highest byte."""
    encode = Codec.encode

    def cut(self, message):
        if isinstance(message, Masked):
            message = replace(message, numbers=message.numbers & np.uint64(2**56 - 1))
        return encode(self, message)

    patch.setattr(Codec, "encode", cut)


def a_share_kept_for_later(patch):
    """Agent: a machine sends the shares of its first sum in all later ones."""
    new, kept = Epoch.new_share, {}

    def again(self, name, *given):
        share = new(self, name, *given)
        first = kept.setdefault((id(self._plan), self.place.me, name), share)
        return replace(share, numbers=first.numbers)

    patch.setattr(Epoch, "new_share", again)


def a_second_masked_vector(patch):
    """Agent: a neighbour gets the masked numbers again, without that link's noise."""
    emit = Machine._emit

    def twice(self):
        phase, epoch = emit(self), self._epoch
        name = epoch.place.neighbours[0]
        less = subtract_wide_integers(epoch.sent[name].numbers, epoch.got[name].numbers)
        numbers = self.plan.law.wrap(subtract_wide_integers(epoch.masked.numbers, less))
        more = Masked(
            party=self.me, epoch=epoch.number, nonce=bytes(64), numbers=numbers
        )
        self._out.append(Send(name, self.plan.codec.encode(self._book.sealed(more))))
        return phase

    patch.setattr(Machine, "_emit", twice)


def rounded_by_party(patch):
    """Jobs: a party rounds its own sum, not its rows."""
    vector = SumPartyWork.vector

    def rounded(self, answers):
        found = vector(self, answers)
        if found is None or found.dtype != object:
            return found
        return np.append([found[0], round(int(found[1]) / 16) * 16], found[2:])

    patch.setattr(SumPartyWork, "vector", rounded)


def a_party_s_own_term(patch):
    """Jobs: a total counts the parties that have more than 50 rows."""
    vector = SumPartyWork.vector

    def telling(self, answers):
        found = vector(self, answers)
        if found is None or found.dtype != object:
            return found
        return np.append(found[:-1], found[-1] + (int(found[0]) > 50))

    patch.setattr(SumPartyWork, "vector", telling)


def a_refusal_in_full(patch):
    """Jobs: others hear a refusal with its numbers."""
    patch.setattr(InvalidInputError, "plain", property(str))


def a_word_in_a_key(patch):
    """Agent: the key beside a share is made of what the party holds."""
    new = Epoch.new_share

    def telling(self, *given):
        share = new(self, *given)
        return replace(share, key=Codec.digest(self.private))

    patch.setattr(Epoch, "new_share", telling)


SENT, FRAMES = "what machines really send", "frames of two runs"
LAW, SYSTEM = share_law.ATTACK, share_law.SYSTEM
# What finds it, on which question.
DEFECTS = {
    narrow_words: ("weak randomness", "a mean"),
    a_link_that_masks_nothing: (SENT, "a mean"),
    one_epoch_for_all: ("masks of another epoch", "a mean"),
    low_bytes_lost: (SENT, "a mean"),
    shares_of_zeros: (SENT, "a mean"),
    a_size_in_a_sum: ("reassignment", "a mean"),
    a_truncated_range: (LAW, "a mean"),
    no_tails: (LAW, "a lattice"),
    one_stream_and_a_step: (LAW, "a mean"),
    few_keys_of_the_system: (SYSTEM, "a mean"),
    half_of_the_keystream: (SYSTEM, "a mean"),
    a_flipped_sign: (SENT, "a mean"),
    high_bytes_lost: (SENT, "a mean"),
    a_share_kept_for_later: (SENT, "several sums"),
    a_second_masked_vector: (SENT, "a mean"),
    a_word_in_a_key: (FRAMES, "a mean"),
    rounded_by_party: ("reassignment", "a mean"),
    a_party_s_own_term: ("reassignment", "a mean"),
    a_refusal_in_full: ("refusals", "a mean"),
}
QUICK = (a_second_masked_vector, a_word_in_a_key)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_nothing_is_found_where_nothing_is_wrong(name):
    found = audited(name)
    assert found.findings == ()
    assert FRAMES in {one.attack for one in found.outcomes}


@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: one.__name__)
def test_each_defect_is_found(defect, monkeypatch):
    attack, name = DEFECTS[defect]
    defect(monkeypatch)
    found = audited(name)
    assert found.exit_code == 1
    assert attack in found_by(found), found_by(found)


RUNS = {"seed": 4, "trials": auditing.RUNS["standard"]}


@pytest.mark.parametrize("defect", [None, *QUICK])
def test_frames_alone_show_what_a_machine_says_too_much(defect, monkeypatch):
    asked = question(**ASKED["a mean"])
    if defect is not None:
        defect(monkeypatch)
    found = [
        *auditing._compare_tapped_machines(asked, coalition=asked.parties, **RUNS),
        *auditing._audit_same_frames(asked, coalition=asked.parties[:1], **RUNS),
    ]
    by = {one.attack for one in found if one.exceeds(1e-3)}
    assert by == ({DEFECTS[defect][0]} if defect else set())


def test_machines_are_compared_or_it_is_said_why_not():
    """Where rules admit no other dealing, nothing is compared, and that is a line."""
    asked = question(**ASKED["a mean"])
    alone = auditing._audit_same_frames(asked, coalition=asked.parties[:-1], **RUNS)
    assert [type(one) for one in alone] == [SkippedAttack]
