"""Defects in masking, codec, jobs and machines, one at a time: an audit finds each."""

import numpy as np
import pytest
from msgspec.structs import replace

from audit.questions import named
from veilsum.audit.auditing import audit_question, scene_of
from veilsum.jobs.recipes import PartyWork
from veilsum.numbers.laws import UniformCounts
from veilsum.numbers.masking import Shares, ShareStreams
from veilsum.protocol.codec import Codec
from veilsum.protocol.epoch import Epoch
from veilsum.protocol.messages import Share

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def audited(name="statistics", **options):
    question = named(name)
    scene = scene_of(question)
    given = {"executions": 500, "seed": 4, **options}
    return audit_question(question, scene, [question.parties[:1]], **given)


def found_by(found):
    return {one.attack for one in found.findings}


def narrow_words(patch):
    """Masking: residues have half of their bits."""
    draw = UniformCounts.draw

    def narrow(self, stream, size, weight=1.0):
        return draw(self, stream, size, weight) % 2**32

    patch.setattr(UniformCounts, "draw", narrow)


def a_link_that_masks_nothing(patch):
    """Masking: the noise of the first link does not reach its ends."""
    noise = Shares.edge_noise

    def without(self):
        found = noise(self).copy()
        found[0] *= 0
        return found

    patch.setattr(Shares, "edge_noise", without)


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
    vector = PartyWork.vector

    def telling(self, answers):
        found = vector(self, answers)
        if found is None or found.dtype != object:
            return found
        return np.append(found[:-1], int(found[0]) ** 2 % 97 + found[-1])

    patch.setattr(PartyWork, "vector", telling)


DEFECTS = {
    narrow_words: "weak randomness",
    a_link_that_masks_nothing: "what machines really send",
    one_epoch_for_all: "masks of another epoch",
    low_bytes_lost: "what machines really send",
    shares_of_zeros: "what machines really send",
    a_size_in_a_sum: "reassignment",
}


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is_wrong():
    found = audited()
    assert found.findings == ()
    assert found.broken == ()


@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: one.__name__)
def test_each_defect_is_found(defect, monkeypatch):
    defect(monkeypatch)
    found = audited()
    assert found.exit_code in {1, 3}
    assert DEFECTS[defect] in found_by(found), found_by(found)
