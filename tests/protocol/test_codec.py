import math
import pickle
import random
import struct
import tracemalloc
from hashlib import sha256

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

import refusals
from cases import each
from veilsum.errors import (
    LocalProtocolError,
    ProtocolError,
    SecretError,
)
from veilsum.numbers.limbs import LimbModuli, limbs_from_integers
from veilsum.protocol.codec import Codec, MalformedMessageError
from veilsum.protocol.messages import (
    MESSAGES,
    Agreed,
    Confirm,
    Deposit,
    Down,
    Join,
    Lost,
    Masked,
    Message,
    Quit,
    Ready,
    Result,
    Round,
    Share,
    Status,
    Up,
)

CODEC = Codec(max_numbers=1000)
PREFIX = 7
ONES, KEY, START, NONCE = np.ones(3), b"k" * 32, b"s" * 16, b"n" * 64

names = st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=128
) | st.sampled_from(["0", "a", "n" * 128, "ü" * 128])
epochs = st.integers(0, 2**53 - 1)
counts = st.integers(-1, 2**53 - 1)
digests = st.binary(min_size=32, max_size=32)
starts = st.binary(min_size=16, max_size=16)
nonces = st.binary(min_size=64, max_size=64)
signatures = st.binary(max_size=64)
lost = st.lists(names, max_size=4).map(tuple)


def limbs(values, words):
    return limbs_from_integers(np.array(values, dtype=object), words)


def whole(low, high, dtype):
    return st.lists(st.integers(low, high), max_size=20).map(
        lambda values: np.array(values, dtype=dtype)
    )


finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.one_of(
    st.lists(finite, max_size=40).map(lambda values: np.array(values, dtype=float)),
    whole(-(2**63), 2**63 - 1, np.int64),
    whole(0, 2**64 - 1, np.uint64),
    whole(-(2**63), 2**63 - 1, object).map(
        lambda values: limbs_from_integers(values, 1)
    ),
)
authored = {"party": names, "epoch": epochs, "signature": signatures}
maskeds = st.builds(Masked, **authored, nonce=nonces, numbers=numbers)
kinds = st.sampled_from(["Join", "Masked"])
records = st.lists(st.tuples(kinds, epochs, names, starts))
EVERY = {
    Agreed: st.builds(Agreed, **authored, digest=digests),
    Confirm: st.builds(Confirm, epoch=epochs, digest=digests),
    Deposit: st.builds(Deposit, masked=maskeds),
    Down: st.builds(Down, epoch=epochs, numbers=numbers),
    Join: st.builds(Join, **authored, incarnation=starts, plan=digests),
    Lost: st.builds(Lost, **authored, incarnation=starts, lost=lost),
    Masked: maskeds,
    Quit: st.builds(Quit, **authored, reason=st.sampled_from(Quit.reasons)),
    Ready: st.builds(Ready, **authored, lost=lost, request=digests, commitment=digests),
    Result: st.builds(Result, **authored, numbers=numbers),
    Round: st.builds(Round, epoch=epochs, index=epochs, numbers=numbers),
    Share: st.builds(Share, epoch=epochs, lost=lost, key=digests, numbers=numbers),
    Status: st.builds(
        Status,
        incarnation=starts,
        echo=starts,
        epoch=epochs,
        records=records.map(tuple),
        share=counts,
        confirm=counts,
        round=counts,
        reply=st.booleans(),
    ),
    Up: st.builds(Up, epoch=epochs, numbers=numbers),
}
some_message = st.one_of(*EVERY.values())

SAMPLES = [
    Agreed(party="a", epoch=1, signature=b"s" * 64, digest=KEY),
    Deposit(
        masked=Masked(party="a", epoch=300, nonce=NONCE, numbers=np.array([-1, 2**62]))
    ),
    Lost(party="ü", epoch=0, incarnation=START, lost=("b", "c")),
    Round(epoch=2, index=70_000, numbers=np.array([0.5, -3.0])),
    Share(epoch=0, lost=(), key=KEY, numbers=limbs([1, -(2**60)], 1)),
    Status(b"i" * 16, b"e" * 16, 3, (("Join", 0, "a", b"d" * 16),), 1, -1, 9, True),
    Up(epoch=1, numbers=np.array([2**64 - 1], dtype=np.uint64)),
]


def by_name(messages):
    return pytest.mark.parametrize(
        "message", messages, ids=[type(message).__name__ for message in messages]
    )


def same(one, two):
    """Messages have no `==`, because arrays have none."""
    if isinstance(one, Message):
        assert type(one) is type(two)
        for field in one.__struct_fields__:
            same(getattr(one, field), getattr(two, field))
    elif isinstance(one, np.ndarray):
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        assert one.tobytes() == two.tobytes()
    else:
        assert one == two
        assert type(one) is type(two)


def frame(header, payload=b"", *, magic=b"VS", version=3, length=None):
    size = len(header) if length is None else length
    return struct.pack("<2sBI", magic, version, size) + header + payload


def packed(*fields):
    return msgspec.msgpack.encode(fields)


def split(encoded):
    """The header and the payload, by the documented layout."""
    magic, version, size = struct.unpack_from("<2sBI", encoded)
    assert (magic, version) == (b"VS", 3)
    return encoded[PREFIX : PREFIX + size], encoded[PREFIX + size :]


def refused(data, match=None, codec=CODEC):
    with pytest.raises(MalformedMessageError, match=match) as caught:
        codec.decode(data)
    return str(caught.value)


def decodes_or_refuses(data, codec=CODEC):
    """Whatever decodes is the only encoding of what it says."""
    try:
        message = codec.decode(data)
    except MalformedMessageError:
        return False
    assert codec.encode(message) == data
    return True


def test_every_kind_of_message_is_tried_here():
    assert set(EVERY) == set(MESSAGES)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_message_survives_the_trip(kind, data):
    message = data.draw(EVERY[kind])
    encoded = CODEC.encode(message)
    decoded = CODEC.decode(encoded)
    same(message, decoded)
    assert CODEC.encode(decoded) == encoded
    assert len(encoded) <= CODEC.max_frame


def test_the_layout_is_as_documented():
    header, payload = split(CODEC.encode(Up(epoch=5, numbers=np.array([1.0, -2.0]))))
    assert msgspec.msgpack.decode(header) == ["Up", 5, ["f", 2, 8]]
    assert payload == struct.pack("<dd", 1.0, -2.0)


def test_a_message_without_numbers_has_no_payload():
    header, payload = split(CODEC.encode(Confirm(epoch=5, digest=KEY)))
    assert msgspec.msgpack.decode(header) == ["Confirm", 5, KEY]
    assert payload == b""


@each(
    ("fields", "values"),
    [
        (((2, 128),), [1, -(2**127)]),
        (((3, 256),), [0, -1, 2**255 - 1]),
        (((2, 64), (1, 192)), [-1, 2**63, -(2**190)]),
        (((1, 20), (2, 65), (1, 64)), [-1, 2**64, -(2**64), 7]),
    ],
)
def test_wide_numbers_travel_in_the_limbs_of_their_fields(fields, values):
    layout = LimbModuli(fields)
    codec = Codec(100, layout=layout)
    message = Up(epoch=0, numbers=layout.encode(np.array(values, dtype=object)))
    header, payload = split(codec.encode(message))
    bits = [one for count, one in fields for _ in range(count)]
    wanted = b"".join(
        (value % 2**one).to_bytes(8 * -(-one // 64), "little")
        for value, one in zip(values, bits, strict=True)
    )
    assert msgspec.msgpack.decode(header)[-1] == ["l", len(wanted) // 8, 8]
    assert payload == wanted
    same(message, codec.decode(codec.encode(message)))


def test_a_residue_beyond_its_modulus_is_refused():
    layout = LimbModuli(((1, 64), (2, 20)))
    codec = Codec(100, layout=layout)
    header = packed("Up", 0, ["u", 3, 8])
    codec.decode(frame(header, struct.pack("<3Q", 2**64 - 1, 2**20 - 1, 0)))
    beyond = frame(header, struct.pack("<3Q", 0, 2**20, 0))
    CODEC.decode(beyond)  # without the layout it is a word as any other
    refused(beyond, "below their modulus", codec)
    wide = Codec(100, layout=LimbModuli(((1, 64), (2, 65))))
    header = packed("Up", 0, ["l", 5, 8])
    wide.decode(frame(header, struct.pack("<5Q", 5, 5, 1, 5, 0)))
    refused(frame(header, struct.pack("<5Q", 5, 5, 2, 5, 0)), "modulus", wide)


@pytest.mark.parametrize("count", [0, 1, 3, 5, 100])
def test_other_limbs_than_a_vector_has_are_refused(count):
    codec = Codec(100, layout=LimbModuli(((2, 128),)))
    header = packed("Up", 0, ["l", count, 8])
    refused(frame(header, bytes(8 * count)), f"4 limbs, found {count}", codec)


def test_limbs_without_a_layout_keep_their_bytes():
    """Evidence is read without the plan, and so are transcripts."""
    codec = Codec(100, layout=LimbModuli(((2, 128),)))
    encoded = codec.encode(Up(epoch=0, numbers=limbs([-5, 2**100], 2)))
    found = CODEC.decode(encoded)
    assert CODEC.encode(found) == encoded
    same(codec.decode(encoded).numbers, found.numbers.view(codec.layout.dtype))


@pytest.mark.parametrize("dtype", [">f8", ">i8", ">u8"])
def test_byte_order_and_strides_do_not_matter(dtype):
    values = np.arange(10)[::3]
    native = values.astype(np.dtype(dtype).newbyteorder("="))
    encoded = CODEC.encode(Up(epoch=0, numbers=values.astype(dtype)))
    assert encoded == CODEC.encode(Up(epoch=0, numbers=native.copy()))
    numbers = CODEC.decode(encoded).numbers
    assert numbers.dtype.isnative
    assert numbers.tolist() == values.tolist()


@each("bits", [None, 64, 60, 128, 100])
@each("size", [3, 100])
def test_decoded_numbers_cannot_be_written(bits, size):
    codec = Codec(1000, layout=bits and LimbModuli(((size, bits),)))
    values = np.arange(size)
    numbers = values if bits is None else codec.layout.encode(values)
    masked = Masked(party="a", epoch=0, nonce=NONCE, numbers=numbers)
    for message in (Up(epoch=0, numbers=numbers), Deposit(masked=masked)):
        found = codec.decode(codec.encode(message))
        holder = found if isinstance(found, Up) else found.masked
        assert not holder.numbers.flags.writeable


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint64])
def test_large_arrays_are_not_copied(dtype):
    encoded = CODEC.encode(Up(epoch=0, numbers=np.arange(1000).astype(dtype)))
    numbers = CODEC.decode(encoded).numbers
    assert np.shares_memory(numbers, np.frombuffer(encoded, np.uint8))


def test_the_digest_of_a_record_does_not_depend_on_its_signature():
    signed, bare = (
        Masked(party="a", epoch=1, signature=signature, nonce=NONCE, numbers=ONES)
        for signature in (b"s" * 64, b"")
    )
    wanted = sha256(CODEC.encode(bare)).digest()
    assert CODEC.content_digest(signed) == CODEC.content_digest(bare) == wanted
    assert signed.signature == b"s" * 64


def test_a_digest_tells_kinds_counts_and_values_apart():
    arrays = [
        *(np.zeros(2), np.zeros(3), np.array([0.0, -0.0]), np.zeros(2, np.int64)),
        *(np.zeros(2, np.uint64), np.zeros(2, object), np.zeros(0), np.ones(2)),
        *(np.array([1, 0], object), np.array([256, 0], object), limbs([0, 0], 1)),
        *(limbs([0], 1), limbs([0, 0, 0], 1), np.array([2**100, 0], object)),
    ]
    digests = {Codec.digest(array) for array in arrays}
    assert len(digests) == len(arrays)
    assert {len(digest) for digest in digests} == {32}


@pytest.mark.parametrize(
    ("values", "width"),
    [
        *[([], 1), ([0], 1), ([-1], 1), ([127, -128], 1), ([128], 2), ([-129], 2)],
        *[([2**15 - 1], 2), ([2**15], 3), ([1, 2**100], 13), ([-(2**255)], 32)],
    ],
)
def test_python_integers_have_a_digest_as_wide_as_the_widest_needs(values, width):
    raw = b"".join(v.to_bytes(width, "little", signed=True) for v in values)
    wanted = sha256(msgspec.msgpack.encode(["b", len(values), width]) + raw).digest()
    assert Codec.digest(np.array(values, dtype=object)) == wanted


def test_a_digest_survives_the_trip():
    for message in SAMPLES:
        if hasattr(message, "numbers"):
            decoded = CODEC.decode(CODEC.encode(message))
            assert Codec.digest(message.numbers) == Codec.digest(decoded.numbers)


# One message, one encoding.


def test_a_wider_integer_is_not_canonical():
    header = packed("Confirm", 5, KEY)
    wider = header.replace(b"\x05", b"\xcc\x05", 1)
    assert msgspec.msgpack.decode(wider) == msgspec.msgpack.decode(header)
    CODEC.decode(frame(header))
    refused(frame(wider), "shortest header")


@each(
    ("short", "long"),
    [
        (b"\xa7Confirm", b"\xd9\x07Confirm"),
        (b"\xa7Confirm", b"\xda\x00\x07Confirm"),
        (b"\x93\xa7", b"\xdc\x00\x03\xa7"),
        (b"\x93\xa7", b"\xdd\x00\x00\x00\x03\xa7"),
        (b"\xc4\x20", b"\xc5\x00\x20"),
        (b"\xc4\x20", b"\xc6\x00\x00\x00\x20"),
        (b"\x05", b"\xd0\x05"),
        (b"\x05", b"\xcd\x00\x05"),
        (b"\x05", b"\xcf\x00\x00\x00\x00\x00\x00\x00\x05"),
        (b"\x05", b"\xd3\x00\x00\x00\x00\x00\x00\x00\x05"),
        (b"\x05", b"\xcb" + struct.pack(">d", 5.0)),
    ],
)
def test_longer_forms_are_refused(short, long):
    header = packed("Confirm", 5, KEY)
    assert header.count(short) == 1
    refused(frame(header.replace(short, long)))


@pytest.mark.parametrize("long", [b"\x93\xd9\x01f\x01\x08", b"\x93\xa1f\xcc\x01\x08"])
def test_a_descriptor_has_one_form_too(long):
    header = packed("Up", 0, ["f", 1, 8])
    payload = bytes(8)
    CODEC.decode(frame(header, payload))
    changed = header.replace(b"\x93\xa1f\x01\x08", long)
    assert changed != header
    refused(frame(changed, payload), "shortest header")


def test_text_that_could_be_bytes_is_refused():
    header = packed("Confirm", 5, KEY.decode())
    refused(frame(header))


def test_fields_beyond_the_last_are_refused():
    refused(frame(packed("Confirm", 5, KEY, 1)), "shortest header")
    refused(frame(packed("Up", 5, ["f", 0, 8, 0])), "length 3, got 4")


# Frames that are not.


@by_name(SAMPLES)
def test_every_truncation_is_refused(message):
    encoded = CODEC.encode(message)
    for size in range(len(encoded)):
        refused(encoded[:size])


@by_name(SAMPLES)
def test_trailing_bytes_are_refused(message):
    encoded = CODEC.encode(message)
    for more in (b"\0", bytes(8), encoded):
        refused(encoded + more)


@by_name(SAMPLES)
def test_every_flipped_bit_gives_a_message_or_a_refusal(message):
    encoded = CODEC.encode(message)
    for bit in range(8 * len(encoded)):
        flipped = bytearray(encoded)
        flipped[bit // 8] ^= 1 << bit % 8
        decodes_or_refuses(bytes(flipped))


@given(st.binary(max_size=60))
def test_any_bytes_give_a_message_or_a_refusal(data):
    decodes_or_refuses(data)
    decodes_or_refuses(frame(data))


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.sampled_from(["f", "i", "u", "l", "Masked", ["f", 1, 8]]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner),
    max_leaves=8,
)
tags = st.sampled_from([kind.__name__ for kind in MESSAGES])


@given(tags, st.lists(json_like, max_size=8), st.binary(max_size=16))
def test_any_fields_give_a_message_or_a_refusal(tag, fields, payload):
    decodes_or_refuses(frame(packed(tag, *fields), payload))


@given(some_message, st.randoms(use_true_random=False))
def test_damage_gives_a_message_or_a_refusal(message, chance):
    for _ in range(20):
        decodes_or_refuses(damaged(CODEC.encode(message), chance))


def damaged(encoded, chance):
    """Change, drop, repeat or insert a few bytes; repair the header's length."""
    data = bytearray(encoded)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(data))
        end = at + chance.choice([0, 1, 1, 1, 2, 5])
        new = bytes(
            chance.randrange(256) for _ in range(chance.choice([0, 1, 1, 1, 4]))
        )
        data[at:end] = chance.choice([new, bytes(data[at:end]) * 2])
        data = data or bytearray(1)
    if len(data) > PREFIX and chance.random() < 0.7:
        _, payload = split(encoded)
        size = max(len(data) - PREFIX - len(payload), 0)
        data[:PREFIX] = struct.pack("<2sBI", b"VS", 1, size)
    return bytes(data)


@pytest.mark.slow
def test_a_hundred_thousand_damaged_frames():
    chance = random.Random(0)
    frames = [CODEC.encode(message) for message in SAMPLES]
    found = [
        decodes_or_refuses(damaged(chance.choice(frames), chance))
        for _ in range(100_000)
    ]
    assert 0 < sum(found) < len(found)


@pytest.mark.parametrize("magic", [b"vs", b"SV", b"\0\0"])
def test_another_protocol_is_refused(magic):
    header, _ = split(CODEC.encode(Confirm(epoch=0, digest=KEY)))
    refused(frame(header, magic=magic), "starts with 'VS'")


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_version_is_refused(version):
    header, _ = split(CODEC.encode(Confirm(epoch=0, digest=KEY)))
    refused(frame(header, version=version), f"version 3, found version {version}: ")


@pytest.mark.parametrize("off", [-1, 1, 2**31])
def test_a_wrong_length_of_the_header_is_refused(off):
    header, payload = split(CODEC.encode(Up(epoch=0, numbers=ONES)))
    refused(frame(header, payload, length=len(header) + off))


@each(
    ("descriptor", "match"),
    [
        (["f", 4, 8], "32 bytes of payload, found 24"),
        (["f", 2, 8], "16 bytes of payload, found 24"),
        (["f", 6, 4], "known kind"),
        (["i", 24, 1], "known kind"),
        (["f", 2**63, 8], "at most 1000 numbers"),
        (["f", 1001, 8], "at most 1000 numbers"),
        (["l", 2, 16], "known kind"),
        (["b", 3, 8], "known kind"),
        (["f", -3, 8], "Expected `int` >= 0"),
        (["g", 3, 8], "known kind"),
        (["f", 3.0, 8], "shortest header|Expected `int`"),
        (["f", True, 8], "Expected `int`"),
        (["f", 3], "of length 3"),
        ([], "of length 3"),
        ({}, "Expected `array`"),
        (None, "Expected `array`"),
        (24, "Expected `array`"),
    ],
)
def test_a_wrong_descriptor_is_refused(descriptor, match):
    refused(frame(packed("Up", 0, descriptor), bytes(24)), match)


@pytest.mark.parametrize("tag", ["Message", "Record", "up", "", 3, None, b"Up"])
def test_an_unknown_kind_is_refused(tag):
    refused(frame(packed(tag, 0, ["f", 0, 8])))


@each(
    "fields",
    [
        ("Confirm", "5", KEY),
        ("Confirm", -1, KEY),
        ("Confirm", 2**53, KEY),
        ("Confirm", 5, KEY[1:]),
        ("Confirm", 5, KEY + b"k"),
        ("Confirm", 5),
        ("Confirm",),
        (),
        ("Join", "", 0, b"", START, KEY),
        ("Join", "n" * 129, 0, b"", START, KEY),
        ("Join", "a", 0, b"s" * 65, START, KEY),
        ("Lost", "a", 0, b"", START, ["n" * 129]),
        ("Lost", "a", 0, b"", START, "abc"),
        ("Lost", "a", 0, b"", START, ["a"] * 100_001),
        ("Quit", "a", 0, b"", "r" * 33),
        ("Deposit", ["Join", "a", 0, b"", KEY]),
        ("Deposit", ["Masked", "a", 0, b"", None]),
        ("Status", KEY[:16], KEY[:16], 0, [["Join", 0]], 0, 0, 0, True),
        ("Status", KEY[:16], KEY[:16], 0, [], -2, 0, 0, True),
        ("Status", KEY[:16], KEY[:16], 0, [], 0, 0, 0, 1),
    ],
)
def test_a_field_of_the_wrong_type_or_length_is_refused(fields):
    refused(frame(packed(*fields)), "Expected|known kind")


def test_too_large_a_frame_is_refused_unread():
    codec = Codec(max_numbers=2, max_header=50)
    assert codec.max_frame == 7 + 50 + 2 * 8
    refused(b"?" * (codec.max_frame + 1), "7 to 73 bytes, found 74", codec)
    refused(b"?" * codec.max_frame, "starts with 'VS'", codec)


def test_too_many_numbers_are_refused_in_both_directions():
    small, message = Codec(max_numbers=2), Up(epoch=0, numbers=ONES)
    refused(CODEC.encode(message), "at most 2 numbers, found 3", small)
    with pytest.raises(LocalProtocolError, match=r"and 2 numbers, found .* and 3"):
        small.encode(message)


def test_too_long_a_header_is_refused_in_both_directions():
    small, message = Codec(max_numbers=9, max_header=40), Confirm(epoch=0, digest=KEY)
    refused(CODEC.encode(message), "a header within the frame and the limit", small)
    with pytest.raises(LocalProtocolError, match="at most 40 bytes of header"):
        small.encode(message)


@pytest.mark.parametrize("limits", [(-1, 9), (0, 0), (0, 2**32)])
def test_a_codec_has_sensible_limits(limits):
    with refusals.refused("codec-limits"):
        Codec(*limits)


CLAIMS = {
    "names": b"\x95\xa4Lost\xa1a\x00\xc4\x00\xdd\xff\xff\xff\xff",
    "records": b"\x99\xa6Status\xc4\x10%b\xc4\x10%b\x00\xdd\xff\xff\xff\xff"
    % (KEY[:16], KEY[:16]),
    "text": b"\x95\xa4Join\xdb\xff\xff\xff\xff",
    "bytes": b"\x93\xa7Confirm\x00\xc6\xff\xff\xff\xff",
    "lists in lists": b"\x93\xa2Up\x00" + b"\xdd\x00\x0f\xff\xff" * 200_000,
    "keys in keys": b"\x93\xa2Up\x00" + b"\x81" * 400 + b"\xdd\x00\x0f\xff\xff" * 9,
    "short lists": b"\x93\xa2Up\x00" + b"\x91" * 1_000_000,
    "map": b"\x93\xa2Up\x00\xdf\xff\xff\xff\xff",
    "extension": b"\x93\xa2Up\x00\xc9\xff\xff\xff\xff\x01",
    "time": b"\x93\xa2Up\x00\xd7\xff" + b"\xff" * 8,
    "many numbers": packed("Up", 0, ["l", 2**64 - 1, 8]),
}


@each("claim", CLAIMS)
def test_what_a_header_claims_costs_no_memory(claim):
    data = frame(CLAIMS[claim][: CODEC.max_header])
    tracemalloc.start()
    try:
        refused(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(data) + 200_000


# Numbers that are not, and whose mistake they are.


@each("size", [1, 20, 500])
@each("bad", [np.nan, np.inf, -np.inf])
def test_numbers_must_be_finite_in_both_directions(bad, size):
    values = np.ones(size)
    header, _ = split(CODEC.encode(Up(epoch=0, numbers=values)))
    values[-1] = bad
    refused(frame(header, values.tobytes()), "finite numbers, found nan or inf")
    with refusals.refused("not-finite", LocalProtocolError):
        CODEC.encode(Up(epoch=0, numbers=values))
    with pytest.raises(LocalProtocolError, match="found nan or inf"):
        Codec.digest(values)


@each("size", [1, 20, 500, 2000])
@each("huge", [2.0**1009, 1e305, np.finfo(float).max])
def test_huge_numbers_are_finite(huge, size):
    codec = Codec(max_numbers=size)
    values = np.full(size, huge) * (-1) ** np.arange(size)
    message = Up(epoch=0, numbers=values)
    same(message, codec.decode(codec.encode(message)))


@given(st.lists(st.floats() | st.floats(min_value=1e303) | finite, max_size=30))
def test_finite_numbers_are_told_from_others(values):
    header = packed("Up", 0, ["f", len(values), 8])
    encoded = frame(header, np.array(values, dtype="<f8").tobytes())
    assert decodes_or_refuses(encoded) == all(map(math.isfinite, values))


@each("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_numbers_are_a_message_s_last_field(kind):
    assert "numbers" not in kind.__struct_fields__[:-1]


@pytest.mark.parametrize("code", ["l", "q", "L", "Q", "d"])
def test_types_of_the_same_numbers_have_one_encoding(code):
    dtype = np.dtype(np.dtype(code), metadata={"unit": "kg"})
    for given_dtype in (np.dtype(code), dtype):
        encoded = CODEC.encode(Up(epoch=0, numbers=np.arange(3).astype(given_dtype)))
        named = {"i": np.int64, "u": np.uint64, "f": float}[dtype.kind]
        assert encoded == CODEC.encode(Up(epoch=0, numbers=np.arange(3).astype(named)))


@each(
    "numbers",
    [
        *(np.ones((2, 2)), np.float64(1.0), np.array(1.0), [1.0, 2.0], None, "ab"),
        *(np.ones(2, np.float32), np.ones(2, np.int32), np.ones(2, bool)),
        *(np.ones(2, complex), np.array(["a"]), np.zeros(2, "M8[s]")),
        *(np.array([0.5], object), np.array([1], object), np.array([None])),
        *(np.zeros(2, [("limbs", "u8")]), np.zeros((2, 2), limbs([0], 2).dtype)),
        *(np.ma.masked_array([1.0, 2.0]), ["f", 3, 8], ("b", 0, 1)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_other_numbers_are_the_sender_s_own_mistake(numbers):
    with pytest.raises(LocalProtocolError):
        CODEC.encode(Up(epoch=0, numbers=numbers))


@each(
    "message",
    [
        *(Confirm(epoch=-1, digest=KEY), Confirm(epoch=2**80, digest=KEY)),
        *(Confirm(epoch=0, digest=b""), Confirm(epoch=True, digest=KEY)),
        *(Confirm(epoch=np.int64(3), digest=KEY), Confirm(epoch=object(), digest=KEY)),
        *(Confirm(epoch=0, digest=ONES), Deposit(masked=None), Message(), "Confirm"),
        *(
            Ready(party=name, epoch=0, lost=(), request=KEY, commitment=KEY)
            for name in ("", "\ud800", "n" * 129)
        ),
        Ready(party="a", epoch=0, lost=(), request=KEY[1:], commitment=KEY),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_no_one_would_accept_is_not_sent(message):
    with pytest.raises(LocalProtocolError):
        CODEC.encode(message)


# Secrets.


def test_errors_show_neither_numbers_nor_keys():
    """Known text stands for keys and numbers; no refusal may repeat any of it."""
    key, number = b"SECRETKEYSECRETKEYSECRETKEYSECRE", 0x5345435245544B45
    share = Share(epoch=0, lost=(), key=key, numbers=np.array([number, number]))
    encoded, chance = CODEC.encode(share), random.Random(1)
    texts = {refusal(damaged(encoded, chance)) for _ in range(3000)}
    assert len(texts) > 10
    for secret in ("SECR", "ETKEY", "534543", str(number)):
        assert not any(secret in text for text in texts)
    assert max(map(len, texts)) < 200


def refusal(data):
    """What a receiver would be told, or nothing."""
    try:
        CODEC.decode(data)
    except MalformedMessageError as error:
        return str(error)
    return ""


def test_a_key_in_the_place_of_a_kind_is_not_shown():
    header = packed("SECRET" * 5, 0, KEY)
    assert "SECRET" not in refused(frame(header), "known kind of message")


def test_a_refused_message_is_not_shown_to_the_sender_either():
    share = Share(epoch=0, lost=("",), key=b"SECRET", numbers=ONES)
    with pytest.raises(LocalProtocolError) as caught:
        CODEC.encode(share)
    assert "SECRET" not in str(caught.value)


def test_a_share_neither_prints_nor_pickles():
    share = Share(epoch=0, lost=(), key=KEY, numbers=np.array([12345.0]))
    for one in (share, CODEC.decode(CODEC.encode(share))):
        assert repr(one) == str(one) == "<Share: private>"
        with pytest.raises(SecretError):
            pickle.dumps(one)


def test_a_malformed_message_breaks_the_protocol():
    assert issubclass(MalformedMessageError, ProtocolError)
    assert not issubclass(MalformedMessageError, LocalProtocolError)


def test_a_codec_can_be_pickled_with_its_layout():
    layout = LimbModuli(((2, 20), (1, 128)))
    codec = Codec(10, 1000, layout)
    again = pickle.loads(pickle.dumps(codec))
    assert again == codec
    numbers = layout.encode(np.array([1, -2, 2**100], dtype=object))
    assert again.encode(Up(0, numbers)) == codec.encode(Up(0, numbers))
