"""A transcript's file without the key of its owner: its length, and nothing else.

Whoever finds it knows the run, all certificates, and looks for any number in it.
"""

import hashlib
import zlib

import msgspec
import pytest

from party.test_transcript_file import MASKS, made
from refusals import refused
from veilsum.consortium.pem import der_of_pem
from veilsum.errors import InvalidInputError
from veilsum.net.identity import new_identity
from veilsum.party import transcript_file
from veilsum.party.transcript_file import FORMAT, read_transcript, write_transcript
from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Down

RUN = "four hospitals 0123456789abcdef"


@pytest.fixture
def people(tmp_path):
    return {name: new_identity(name, tmp_path / name) for name in ("ann", "bob")}


def secrets_of(transcript):
    """Every vector in it as it may stand in a file, every name, and the run's."""
    (exchange,) = transcript.rounds
    parts = (exchange.own, exchange.shares, exchange.masked, exchange.told)
    vectors = [one for held in parts for one in held.values()]
    for one in vectors:
        frame = Codec(9).encode(Down(0, one))
        yield frame
        yield frame[-one.size * 8 :]
        yield from (str(number).encode() for number in one.tolist() if abs(number) > 99)
    yield from (name.encode() for name in transcript.topology.parties)
    yield from (RUN.encode(), b"own", b"shares", transcript.law.name.encode())


def plain(transcript):
    """The unguarded twin: the same content as it is before it is sealed."""
    return msgspec.msgpack.encode(transcript_file._transcript_file_content(transcript))


@pytest.mark.parametrize("law", ["uniform", "lattice"])
def test_nothing_of_it_is_in_the_file(law, people, tmp_path):
    path, kept = tmp_path / "found", made(MASKS[law])
    write_transcript(path, kept, people["ann"], run=RUN)
    found = path.read_bytes()
    secrets = [*secrets_of(kept)]
    assert [one for one in secrets if one in found] == []
    assert sum(one in plain(kept) for one in secrets) > len(secrets) // 2
    # What is in the clear, and what is left, which no program makes shorter.
    digests = [b"veilsum run\0" + RUN.encode(), der_of_pem(people["ann"].certificate)]
    start = FORMAT + b"".join(hashlib.sha256(one).digest() for one in digests)
    assert found.startswith(start)
    rest = found[len(start) :]
    assert len(rest) == len(plain(kept)) + 48
    assert len(zlib.compress(rest, 9)) >= len(rest)
    assert len(zlib.compress(plain(kept), 9)) < len(plain(kept))


def test_two_files_of_one_transcript_have_nothing_in_common(people, tmp_path):
    """Two that share a key and a nonce would show the difference of what they hold."""
    kept, rests = made(MASKS["uniform"]), []
    for name in ("one", "two"):
        write_transcript(tmp_path / name, kept, people["ann"], run=RUN)
        rests.append((tmp_path / name).read_bytes()[len(FORMAT) + 64 :])
    alike = sum(a == b for a, b in zip(*rests, strict=True))
    assert alike < len(rests[0]) / 8  # by chance one byte in 256


def test_nobody_else_opens_it_not_even_under_a_changed_start(people, tmp_path):
    path = tmp_path / "found"
    write_transcript(path, made(MASKS["uniform"]), people["ann"], run=RUN)
    with refused("transcript-of-other-party"):
        read_transcript(path, people["bob"])
    whose = [
        hashlib.sha256(der_of_pem(one.certificate)).digest() for one in people.values()
    ]
    path.write_bytes(path.read_bytes().replace(*whose))
    with refused("transcript-damaged"):
        read_transcript(path, people["bob"])
    with refused("transcript-of-other-party"):
        read_transcript(path, people["ann"])


def test_a_flipped_bit_is_refused_wherever_it_is(people, tmp_path):
    path = tmp_path / "found"
    write_transcript(path, made(MASKS["uniform"]), people["ann"], run=RUN)
    whole = path.read_bytes()
    assert read_transcript(path, people["ann"]) == made(MASKS["uniform"])
    for place in [*range(0, 140, 3), *range(140, len(whole), 97), len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(InvalidInputError):
            read_transcript(path, people["ann"])
    for cut in (whole[:-1], whole[:100], whole[: len(FORMAT)], whole + b"\0", b""):
        path.write_bytes(cut)
        with pytest.raises(InvalidInputError):
            read_transcript(path, people["ann"])
