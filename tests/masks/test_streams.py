import copy
import inspect
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from refusals import refused
from strategies import few, seeds
from veilsum.errors import SecretError
from veilsum.masks import streams
from veilsum.masks.streams import Keystream, SeededStream, Stream

KEY = bytes(range(32))
BLOCK = 8  # words

MAKERS = {
    "seeded": lambda: SeededStream(np.random.default_rng(1)),
    "keystream": lambda: Keystream(KEY),
    "keystream of the system": Keystream.from_os,
}
every_stream = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.Philox])
def test_seeded_words_are_the_integers_of_the_generator(bits):
    """Seeds that were written down give what they gave."""
    whole = np.random.Generator(bits(3)).integers(0, 2**64, size=20, dtype=np.uint64)
    stream = SeededStream(np.random.Generator(bits(3)))
    found = np.concatenate([stream.words(count) for count in (0, 1, 12, 7)])
    assert found.tolist() == whole.tolist()


def test_a_generator_of_shorter_words_is_refused():
    """Its raw words would leave half of the bits empty."""
    short = np.random.MT19937(3)
    assert short.random_raw(1000).max() < 2**32
    with refused("generator-too-narrow", mentions=("default_rng",)):
        SeededStream(np.random.Generator(short))


def rotate(x, n):
    return (x << n | x >> (32 - n)) & 0xFFFFFFFF


def quarter(state, a, b, c, d):
    steps = [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)]
    for one, two, three, turn in steps:
        state[one] = (state[one] + state[two]) & 0xFFFFFFFF
        state[three] = rotate(state[three] ^ state[one], turn)


def chacha20_block(key, counter, nonce):
    """One block by Section 2.3 of RFC 8439, as eight little-endian words."""
    start = list(struct.unpack("<16I", b"expand 32-byte k" + key + counter + nonce))
    state = start.copy()
    for _ in range(10):
        for i in range(4):
            quarter(state, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(state, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    total = [(x + y) & 0xFFFFFFFF for x, y in zip(start, state, strict=True)]
    return list(struct.unpack("<8Q", struct.pack("<16I", *total)))


def keystream_by_hand(key, blocks, nonce=bytes(12)):
    return [
        word
        for block in range(blocks)
        for word in chacha20_block(key, block.to_bytes(4, "little"), nonce)
    ]


@pytest.mark.parametrize(
    ("key", "block", "expected"),
    [
        (bytes(32), 0, "76b8e0ada0f13d90405d6ae55386bd28"),
        (bytes(32), 1, "9f07e7be5551387a98ba977c732d080d"),
        (bytes(31) + b"\x01", 1, "3aeb5224ecf849929b9d828db1ced4dd"),
        (b"\x00\xff" + bytes(30), 2, "72d54dfbf12ec44b362692df94137f32"),
    ],
)
def test_words_are_the_keystream_of_rfc_8439(key, block, expected):
    """Appendix A.1, test vectors 1 to 4: the first bytes of their blocks."""
    words = Keystream(key).words(3 * BLOCK)[BLOCK * block :]
    assert words.astype("<u8").tobytes()[:16].hex() == expected


def test_the_cipher_by_hand_is_that_of_rfc_8439():
    """Section 2.3.2: the block function's own example."""
    nonce = bytes.fromhex("000000090000004a00000000")
    block = chacha20_block(KEY, b"\x01\x00\x00\x00", nonce)
    found = struct.pack("<8Q", *block).hex()
    assert found.startswith("10f1e7e4d13b5915500fdd1fa32071c4")


@few
@given(st.binary(min_size=32, max_size=32), st.lists(st.integers(0, 20), max_size=5))
def test_requests_of_any_size_read_one_keystream(key, counts):
    stream = Keystream(key)
    found = [word for count in counts for word in stream.words(count).tolist()]
    expected = keystream_by_hand(key, -(-sum(counts) // BLOCK))
    assert found == expected[: sum(counts)]


def test_a_long_request_is_the_short_ones_joined():
    """Longer than the piece that the cipher fills at a time, and not a multiple."""
    long = Keystream(KEY).words(3 * 2**13 + 5)
    stream = Keystream(KEY)
    short = [stream.words(n) for n in (1, 2**13, 7, 2**14 - 3)]
    np.testing.assert_array_equal(long, np.concatenate(short))


def test_a_nonce_that_is_used_up_is_followed_by_the_next(monkeypatch):
    monkeypatch.setattr(streams, "_SEGMENT", 128)
    stream = Keystream(KEY)
    found = [word for _ in range(4) for word in stream.words(BLOCK).tolist()]
    second = bytes(4) + (1).to_bytes(8, "little")
    expected = keystream_by_hand(KEY, 2) + keystream_by_hand(KEY, 2, second)
    assert found == expected


def test_a_nonce_is_used_up_before_the_cipher_s_counter_is():
    assert streams._SEGMENT < 2**32 * 64


@every_stream
def test_streams_give_words(make):
    stream = make()
    assert isinstance(stream, Stream)
    for count in (0, 1, 1000):
        words = stream.words(count)
        assert words.dtype == np.uint64
        assert words.shape == (count,)


@every_stream
def test_no_word_is_given_twice(make):
    """Two equal words among 20,000 uniform ones: probability 1e-11."""
    stream = make()
    words = np.concatenate([stream.words(n) for n in (1, 9_999, 10_000)])
    assert np.unique(words).size == words.size


@every_stream
def test_a_negative_count_is_refused(make):
    with refused("count-negative"):
        make().words(-1)


@given(seeds, st.integers(0, 50))
def test_a_seed_repeats_words_and_normals(seed, count):
    one, two = (SeededStream(np.random.default_rng(seed)) for _ in range(2))
    np.testing.assert_array_equal(one.words(count), two.words(count))
    np.testing.assert_array_equal(one.normals(count), two.normals(count))


def test_a_seeded_stream_is_its_generator():
    stream, generator = (
        SeededStream(np.random.default_rng(3)),
        np.random.default_rng(3),
    )
    expected = generator.integers(0, 2**64, size=5, dtype=np.uint64)
    np.testing.assert_array_equal(stream.words(5), expected)
    np.testing.assert_array_equal(stream.normals(5), generator.standard_normal(5))


def test_a_seeded_stream_refuses_a_negative_number_of_normals():
    with refused("count-negative"):
        SeededStream(np.random.default_rng(0)).normals(-1)


def test_two_keystreams_of_the_system_differ():
    one, two = (Keystream.from_os().words(1000) for _ in range(2))
    assert not np.isin(one, two).any()


def test_a_deployment_cannot_be_seeded():
    assert list(inspect.signature(Keystream.from_os).parameters) == []
    assert list(inspect.signature(Keystream).parameters) == ["key"]


def test_a_keystream_refuses_float64_normals():
    with refused("normals-for-simulation"):
        Keystream(KEY).normals(3)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_of_another_length_is_refused(size):
    with refused("key-length", mentions=("32", size)):
        Keystream(bytes(size))


@every_stream
def test_a_stream_is_neither_shown_nor_pickled_nor_copied(make):
    stream = make()
    assert repr(stream) == str(stream) == f"<{type(stream).__name__}: private>"
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with refused("not-copyable", SecretError):
            leak(stream)


def test_without_cryptography_a_sentence_names_the_extra():
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from veilsum.masks.streams import Keystream\n"
        "from veilsum.errors import MissingExtraError\n"
        "try:\n    Keystream.from_os()\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    words = [sys.executable, "-c", code]
    found = subprocess.run(words, check=True, capture_output=True, text=True)
    assert ".[secure]" in found.stdout


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["seeded", "keystream"])
def test_every_byte_of_a_word_is_uniform(name):
    """Chi-square of 256 values at each of 8 places, 200,000 words of a fixed seed.

    False-alarm rate 8e-6 for each stream.
    """
    words = MAKERS[name]().words(200_000)
    for byte in words.astype("<u8").view(np.uint8).reshape(-1, 8).T:
        assert stats.chisquare(np.bincount(byte, minlength=256)).pvalue > 1e-6


@pytest.mark.statistical
def test_neighbouring_words_of_a_keystream_are_not_correlated():
    """Differing bits of 100,000 pairs, fixed key, 5 standard errors of 32 bits.

    False-alarm rate 6e-7 for each of three distances.
    """
    words = Keystream(KEY).words(100_008)
    for distance in (1, 2, 8):
        pairs = words[:100_000] ^ words[distance : 100_000 + distance]
        bits = np.unpackbits(pairs.view(np.uint8)).mean()
        assert abs(bits - 0.5) < 5 * 0.5 / np.sqrt(6_400_000)
