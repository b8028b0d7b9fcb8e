"""Machines of one process: work on the same bytes is done once, on others again."""

from __future__ import annotations

import numpy as np
import pytest

import veilsum as vs
from veilsum.drivers.loopback import SimulatedKeys, loopback_identities
from veilsum.masks.laws import UniformCountMasks
from veilsum.numbers.units import UnitCounts
from veilsum.protocol.book import RecordBook
from veilsum.protocol.codec import Codec
from veilsum.protocol.plan import SumDecoder
from veilsum.sums.recipes import same_sums


class Counting:
    """A public key that counts how often it is used."""

    def __init__(self, key):
        self.key, self.calls = key, 0

    def verify(self, signature, content):
        self.calls += 1
        self.key.verify(signature, content)


def test_a_signature_is_checked_once_a_process_and_all_other_bytes_again():
    make = loopback_identities(("a", "b", "c"), 1)
    a, b, c = (make(name, 0) for name in "abc")
    counted = a.public["a"] = Counting(a.public["a"])
    signature = a.sign(b"content")
    assert b.verify("a", b"content", signature)
    assert c.verify("a", b"content", signature)
    assert counted.calls == 1
    forged = bytes([signature[0] ^ 1, *signature[1:]])
    others = [("a", b"context", signature), ("a", b"content", forged)]
    for _ in range(2):  # a signature that failed is not remembered either
        for other in [*others, ("a", b"content", signature[:-1])]:
            assert not c.verify(*other)
        assert not c.verify("b", b"content", signature), "another author's key"
    assert counted.calls == 7
    assert not make("c", 1).verify(*others[0]), "a later start shares what is known"


def test_another_run_checks_again():
    """The twin: nothing is shared between two runs, whose keys may be the same."""
    first, second = (loopback_identities(("a", "b"), 1) for _ in range(2))
    signature = first("a", 0).sign(b"content")
    assert first("b", 0).verify("a", b"content", signature)
    later = second("b", 0)
    assert not later.verified
    assert later.verify("a", b"content", signature)


def counted_calls(monkeypatch, holder, name):
    calls, plain = [], getattr(holder, name)

    def counting(self, *rest):
        calls.append(rest)
        return plain(self, *rest)

    monkeypatch.setattr(holder, name, counting)
    return calls


def test_a_record_is_hashed_once_for_all_checks_of_it(monkeypatch):
    """Each of 8 parties makes 4 records, and one of them a Result as well.

    A record that came is hashed once, one of its own to be signed, a Masked also to be
    kept after the commit, and a Ready wherever the commitment is made or opened.
    """
    hashed = counted_calls(monkeypatch, Codec, "content_digest")
    checked = counted_calls(monkeypatch, SimulatedKeys, "verify")
    data = {f"p{k}": np.arange(3) + k for k in range(8)}
    vs.sum(data, driver="loopback", seed=1, topology="ring:8")
    own = 8 * 4 + 1
    assert len(checked) == 7 * own
    assert len(hashed) == len(checked) + own + 8 + (8 + 8 * 7)


def test_an_answer_is_hashed_once_however_many_sign_it(monkeypatch):
    digests, plain = [], Codec.digest
    wanted = counted_calls(monkeypatch, RecordBook, "signed_of")

    def digest(numbers, *width):
        digests.append(numbers)
        return plain(numbers, *width)

    monkeypatch.setattr(Codec, "digest", staticmethod(digest))
    data = {f"p{k}": np.arange(3) + k for k in range(8)}
    vs.sum(data, driver="loopback", seed=1, topology="ring:8")
    assert len(wanted) >= 8 * 8
    floats = [one for one in digests if one.dtype == np.float64]
    assert len(floats) == 8


def test_a_total_is_decoded_and_digested_once_and_another_one_again(monkeypatch):
    """Of 8 parties; the answer follows from the total once as well."""
    decoded = counted_calls(monkeypatch, UniformCountMasks, "decode")
    answered = counted_calls(monkeypatch, UnitCounts, "values")
    data = {f"p{k}": np.arange(3) + k for k in range(8)}
    found = vs.sum(data, driver="loopback", seed=1, topology="ring:8")
    assert (len(decoded), len(answered)) == (1, 1)
    law = found.terms.law
    decoder, numbers = SumDecoder(law), np.array([1, 2**64 - 1, 3], dtype=np.uint64)
    first, again = (decoder.decode(0, one) for one in (numbers, numbers.copy()))
    other = decoder.decode(0, numbers + np.uint64(1))
    assert first is again
    assert first.value.tolist() == [1, -1, 3]
    assert other.value.tolist() == [2, 0, 4]
    assert first.digest == Codec.digest(first.value) != other.digest
    with pytest.raises(ValueError, match="read-only"):
        first.value[0] = 7


def test_equal_sums_are_asked_about_once_and_others_again():
    """Real numbers are compared by their bits, whole numbers by their values."""
    wide = np.array([2**70, 1], dtype=object)
    assert same_sums([wide], [wide.copy()])
    assert not same_sums([wide], [wide + 1])
    assert not same_sums([wide], [wide, wide])
    assert not same_sums([np.array([0.0])], [np.array([-0.0])])
    assert not same_sums([np.array([1])], [np.array([1.0])])
    assert same_sums([np.array([np.nan])], [np.array([np.nan])])
