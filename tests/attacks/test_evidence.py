"""A file that says somebody lied: what its writer can make others believe.

The writer holds whatever a member ever signed, in other runs and starts too, and has a
key of its own. It must not make a proof out of that against a party that told no two
stories in one start; and what is a proof must stay one, whoever carries it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from cases import each
from contradictions import (
    AGREED,
    JOIN,
    LIAR,
    LIES,
    LOST,
    MASKED,
    OTHER_PLAN,
    OTHER_START,
    QUIT,
    READY,
    RESULT,
    START,
    Accuser,
    base64_of,
    moved,
    replaced,
)
from receipts import Study
from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.net import evidence, receipt
from veilsum.net.evidence import (
    evidence_from,
    judge_signed_evidence,
    read_signed_receipt_or_evidence,
)
from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Confirm, Join

SECOND = moved(MASKED)


@pytest.fixture(scope="module")
def accuser(tmp_path_factory):
    return Accuser(Study(tmp_path_factory.mktemp("keys")))


@each("pair", LIES.values(), ids=LIES)
def test_two_stories_of_one_start_are_proof(accuser, pair):
    """The twin of all below; in whatever order, and after it was a file."""
    for two in (pair, pair[::-1]):
        shown = accuser.lie(two)
        assert evidence_from(json.loads(shown.to_json())) == shown
        proof = judge_signed_evidence(shown, accuser.study.consortium)
        assert proof.proved, proof.words
        assert proof.words.startswith(f"{LIAR!r} contradicted itself")


# Pairs that an innocent party may have signed: each with what is wrong with it.
# Frames are those of (record, how it is signed).
INNOCENT = {
    "the same record twice": [(MASKED, {}), (MASKED, {})],
    "two starts": [(MASKED, {}), (SECOND, {"start": OTHER_START})],
    "two starts, ready and lost": [(READY, {"start": OTHER_START}), (LOST, {})],
    "two starts that joined": [
        (JOIN, {}),
        (replaced(JOIN, epoch=Join.number(OTHER_START)), {"start": OTHER_START}),
    ],
    "two runs": [(MASKED, {}), (SECOND, {"plan": OTHER_PLAN})],
    "two other runs": [(MASKED, {"plan": OTHER_PLAN}), (SECOND, {"plan": OTHER_PLAN})],
    "signed by the accuser": [(MASKED, {}), (SECOND, {"by": "a"})],
    "both signed by the accuser": [(MASKED, {"by": "a"}), (SECOND, {"by": "a"})],
    "two epochs": [(MASKED, {}), (replaced(SECOND, epoch=6), {})],
    "two kinds": [(RESULT, {}), (AGREED, {})],
    "lost, then more": [(LOST, {}), (replaced(LOST, epoch=1, lost=("a", "b")), {})],
    "left twice": [(QUIT, {}), (replaced(QUIT, reason="stale"), {})],
}
WHY = {
    "the same record twice": "one and the same",
    "two starts": "of two starts",
    "two starts, ready and lost": "of two starts",
    "two starts that joined": "of two starts",
    "two epochs": "an honest party signs both",
    "two kinds": "an honest party signs both",
    "lost, then more": "an honest party signs both",
    "left twice": "leaves twice",
}


@each("case", INNOCENT)
def test_what_an_innocent_party_signed_proves_nothing(accuser, case):
    frames = [accuser.frame(record, **how) for record, how in INNOCENT[case]]
    proof = judge_signed_evidence(accuser.shown(*frames), accuser.study.consortium)
    assert not proof.proved
    assert proof.words.startswith(f"it proves nothing against {LIAR!r}: ")
    assert WHY.get(case, "not of this party, plan and start") in proof.words


def test_no_byte_of_a_proof_can_be_changed(accuser):
    """A start or a number that was written over is not signed any more."""
    one, other = (accuser.frame(record) for record in LIES["two Masked"])
    found = 0
    for at in range(0, len(other), 3):
        changed = other[:at] + bytes([other[at] ^ 1]) + other[at + 1 :]
        table = accuser.forged(records=base64_of(one, changed))
        assert not judge_signed_evidence(
            evidence_from(table), accuser.study.consortium
        ).proved
        found += 1
    assert found > 40


def test_a_start_that_was_written_over_is_not_signed(accuser):
    """Two starts made to look like one."""
    one = accuser.frame(MASKED)
    other = accuser.frame(SECOND, start=OTHER_START)
    same = other.replace(OTHER_START, b"s" * 16)
    assert same != other
    proof = judge_signed_evidence(accuser.shown(one, same), accuser.study.consortium)
    assert "not of this party, plan and start" in proof.words


def test_a_stranger_with_the_name_of_a_member_is_found(accuser, tmp_path):
    stranger = Accuser(Study(tmp_path))
    shown = stranger.lie()
    assert judge_signed_evidence(shown).proved, (
        "without the file only people can tell whose key it is"
    )
    assert "whoever has the key" in judge_signed_evidence(shown).words
    proof = judge_signed_evidence(shown, accuser.study.consortium)
    assert not proof.proved
    assert "not that of a member" in proof.words


@each(
    ("changes", "why"),
    [
        ({"run": "other-" + "0" * 32}, "another run or consortium file"),
        ({"consortium": "00" * 32}, "another run or consortium file"),
        ({"plan": "00" * 32}, "not of this party, plan and start"),
        ({"party": "a"}, "names somebody else"),
    ],
    ids=str,
)
def test_a_proof_is_about_what_was_signed_and_nothing_else(accuser, changes, why):
    shown = evidence_from(accuser.forged(**changes))
    proof = judge_signed_evidence(shown, accuser.study.consortium)
    assert not proof.proved
    assert why in proof.words


def test_a_proof_of_another_plan_than_the_receipts_is_pointed_out(accuser):
    study, shown = accuser.study, accuser.lie()
    same = study.receipts(plan=shown.plan)
    assert judge_signed_evidence(shown, study.consortium, receipts=same).proved
    proof = judge_signed_evidence(shown, study.consortium, receipts=study.receipts())
    assert "another plan than the receipts" in proof.words


def test_records_of_another_party_than_the_named_one_prove_nothing(accuser):
    pair = [accuser.frame(replaced(one, party="a"), by="a") for one in (MASKED, SECOND)]
    table = accuser.forged(records=base64_of(*pair))
    proof = judge_signed_evidence(evidence_from(table), accuser.study.consortium)
    assert "a record is of 'a'" in proof.words


HOSTILE = {
    "not an object": lambda _: ["veilsum evidence 3"],
    "another format": lambda a: a.forged(format="veilsum evidence 2"),
    "a field more": lambda a: a.forged(mood="good"),
    "a field less": lambda a: {k: v for k, v in a.forged().items() if k != "plan"},
    "one record": lambda a: a.forged(records=a.forged()["records"][:1]),
    "three records": lambda a: a.forged(records=a.forged()["records"][:1] * 3),
    "no Base64": lambda a: a.forged(records=["%%%", "===="]),
    "Base64 with spaces": lambda a: a.forged(records=["AAAA AAAA", "AAAA"]),
    "numbers": lambda a: a.forged(records=[1, 2]),
    "no certificate": lambda a: a.forged(certificate="-----BEGIN"),
    "a name that is none": lambda a: a.forged(party="d\x1b[2J"),
    "a plan too short": lambda a: a.forged(plan="00"),
}


@each("made", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_evidence_is_refused_in_a_sentence(accuser, made):
    with pytest.raises(InvalidInputError) as caught:
        evidence_from(made(accuser))
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


FRAMES = {
    "nothing": b"",
    "noise": b"\x00" * 50,
    "a huge claim": b"VS\x03\xff\xff\xff\xff",
    "nesting": b"VS\x03" + (9000).to_bytes(4, "little") + b"\x91" * 9000,
    "a message that nobody signs": Codec(9).encode(Confirm(0, bytes(32))),
}


@each("frame", FRAMES.values(), ids=FRAMES)
def test_records_that_are_none_prove_nothing(accuser, frame):
    good = accuser.frame(MASKED)
    for pair in ((frame, good), (good, frame)):
        shown = evidence_from(accuser.forged(records=base64_of(*pair)))
        proof = judge_signed_evidence(shown, accuser.study.consortium)
        assert not proof.proved
        assert "\n" not in proof.words


def test_a_digest_is_of_all_that_is_in_it(accuser):
    shown = accuser.lie()
    assert shown.digest == evidence_from(json.loads(shown.to_json())).digest
    for changes in ({"run": "x"}, {"plan": "x"}, {"records": shown.records[::-1]}):
        assert replace(shown, **changes).digest != shown.digest


# Files that can be written, and not read


def test_records_too_long_for_a_file_are_left_out_and_it_is_said(
    accuser, monkeypatch, tmp_path
):
    long = tmp_path / "long.json"
    long.write_text(accuser.lie().to_json())
    short = len(long.read_bytes()) - 1
    for module in (evidence, receipt):
        monkeypatch.setattr(module, "MOST_BYTES", short)
    # The twin: with its records the file is written, and nobody can read it.
    with refused("file-too-large"):
        read_signed_receipt_or_evidence(long)
    shown = accuser.lie()
    bounded = tmp_path / "bounded.json"
    bounded.write_text(shown.to_json())
    assert read_signed_receipt_or_evidence(bounded) == shown
    one, other = (accuser.frame(record) for record in LIES["two Masked"])
    digests = [hashlib.sha256(frame).hexdigest() for frame in (one, other)]
    said = json.loads(bounded.read_text())
    assert (said["records"], said["left_out"]) == ([], digests)
    proof = judge_signed_evidence(shown, accuser.study.consortium)
    assert not proof.proved
    assert "too long for a file" in proof.words
    # One byte more, and it is all there.
    for module in (evidence, receipt):
        monkeypatch.setattr(module, "MOST_BYTES", short + 1)
    assert not accuser.lie().left_out
    assert judge_signed_evidence(
        read_signed_receipt_or_evidence(long), accuser.study.consortium
    ).proved


@each(
    "changes",
    [
        {"records": []},
        {"left_out": ["00" * 32] * 2},
        {"records": [], "left_out": []},
        {"records": [], "left_out": ["00" * 32]},
        {"records": [], "left_out": ["no digest"] * 2},
    ],
    ids=str,
)
def test_records_are_there_or_left_out(accuser, changes):
    with pytest.raises(InvalidInputError, match=r"records|left_out"):
        evidence_from(accuser.forged(**changes))


# Answers of few bits: an outsider tries both


YES, NO = np.array([1.0]), np.array([0.0])


def test_a_yes_or_no_is_not_read_off_a_receipt(accuser):
    """Whatever a receipt has is no key; the seal, which it does not have, is one."""
    study = accuser.study
    signed = accuser.frame(replaced(RESULT, numbers=YES))
    seal = Codec(9).decode(signed).signature
    shown = study.receipt("a", result=receipt.keyed_receipt_digest(YES, seal))
    public = [b"", *(str(one).encode() for one in asdict(shown).values())]
    public += [
        bytes.fromhex(one) for one in (shown.plan, shown.signature, shown.run[6:])
    ]
    tried = [
        receipt.keyed_receipt_digest(one, key) for one in (YES, NO) for key in public
    ]
    tried += [Codec.digest(one).hex() for one in (YES, NO)]
    assert shown.result not in tried
    # Twins: without a key the digest tells, and so does it to who has the seal.
    plain = study.receipt("a", result=Codec.digest(YES).hex())
    told = [Codec.digest(one).hex() == plain.result for one in (YES, NO)]
    assert told == [True, False]
    told = [
        receipt.keyed_receipt_digest(one, seal) == shown.result for one in (YES, NO)
    ]
    assert told == [True, False]


def pair_of(answer):
    """Two stories of who agreed: to this answer, and to none."""
    return replaced(AGREED, digest=Codec.digest(answer)), AGREED


def test_a_yes_or_no_is_not_read_off_a_digest_of_evidence(accuser, tmp_path):
    """All but the signatures is guessed: the start too, which no receipt has."""
    shown = accuser.lie(pair_of(YES)).digest
    stranger = Accuser(Study(tmp_path))
    tried = []
    for answer in (YES, NO):
        unsigned = [
            Codec(9).encode(replaced(one, incarnation=START)) for one in pair_of(answer)
        ]
        tried += [accuser.shown(*unsigned).digest]
        tried += [
            accuser.shown(*(stranger.frame(one) for one in pair_of(answer))).digest
        ]
    assert shown not in tried
    # The twin: with the records' signatures, as members have them, it tells.
    told = [accuser.lie(pair_of(answer)).digest == shown for answer in (YES, NO)]
    assert told == [True, False]


def test_evidence_of_answers_tells_a_yes_or_no(accuser):
    """A limit that is said: the file is for its owner, and holds what was signed."""
    shown = accuser.lie(pair_of(YES))
    signed = [Codec(9).decode(base64.b64decode(one)).digest for one in shown.records]
    assert [Codec.digest(one) in signed for one in (YES, NO)] == [True, False]
