"""Messages as bytes and back. One message has exactly one encoding.

    frame = b"VS" | version, 1 byte | length of header, 4 bytes | header | payload

All is little endian. The header is the message in MessagePack, an array that starts
with the message's name. Where the message holds numbers, the header holds
`[code, count, 8]` and the payload `count` times 8 bytes:

    "f"  float64, finite          "i"  int64          "u"  uint64
    "l"  limbs of wider numbers, the lowest first; how many a number has, and which
         residues it may be, is in the codec's layout

Nothing that arrives can run code, or claim memory that it did not pay for in bytes.
Nothing pads a payload, so the numbers of a decoded message may be unaligned in memory.
A codec keeps nothing between calls: threads may share it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from struct import Struct
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, Union

import msgspec
import numpy as np
from msgspec.structs import asdict, astuple
from numpy import frombuffer, ndarray

from veilsum.errors import InvalidInputError, LocalProtocolError, ProtocolError
from veilsum.numbers.limbs import (
    MOST_LIMBS,
    LimbModuli,
    ends_of_whole_numbers,
    is_wide_integer_type,
    limb_type,
    limbs_from_integers,
    limbs_of,
    narrow_wide_integers,
)
from veilsum.numbers.secrets import Secret
from veilsum.protocol.messages import MESSAGES, Deposit, Message, Numbers, Record

MAGIC = b"VS"
VERSION = 3
WORD_BYTES = 8

# What the header says about the payload: code, count, bytes of each.
Descriptor: TypeAlias = tuple[
    Literal["f", "i", "u", "l"], Annotated[int, msgspec.Meta(ge=0)], Literal[8]
]
_PREFIX = Struct("<2sBI")
_START = _PREFIX.size
_SWAP = sys.byteorder != "little"
_DTYPES = {code: np.dtype(f"<{code}8") for code in "fiu"}
_DTYPES["l"] = _DTYPES["u"]
_CODES = {np.dtype(f"{order}{code}8"): code for code in "fiu" for order in "<>"}
_FEW = 1000  # up to here numpy takes longer to set out than Python to be done
# Everything that msgspec is known to raise on bytes of somebody else's choice.
_UNREADABLE = (
    *(msgspec.MsgspecError, MemoryError, OverflowError),
    *(RecursionError, TypeError, ValueError),
)


class MalformedMessageError(ProtocolError):
    """Bytes that are not the one encoding of a message within the limits."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Encodes and decodes messages of a limited size.

    Attributes:
        max_numbers: the most numbers, or limbs, that a message may carry.
        max_header: the most bytes of everything else in it.
        layout: of the vectors that are summed. Without one, residues may be any words,
            and every limb is a number.
        max_frame: the most bytes a frame may have, whatever is in it.
    """

    max_numbers: int
    max_header: int = 1 << 20
    layout: LimbModuli | None = None
    max_frame: int = field(init=False)
    _write: Callable[[object], bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.max_numbers < 0 or not 0 < self.max_header < 1 << 32:
            raise InvalidInputError(
                "a codec's limits must be max_numbers >= 0 and 0 < max_header < 2^32, "
                f"found {self.max_numbers} and {self.max_header}",
                code="codec-limits",
            )
        most = _START + self.max_header + self.max_numbers * WORD_BYTES
        object.__setattr__(self, "max_frame", most)
        object.__setattr__(self, "_write", _message_header_writer(self.layout))

    def __reduce__(self) -> tuple[Any, ...]:
        return Codec, (self.max_numbers, self.max_header, self.layout)

    def encode(self, message: Message) -> bytes:
        """Return the message's frame."""
        return b"".join(self._parts(message))

    def _parts(self, message: Message) -> tuple[bytes, bytes, bytes | memoryview]:
        """Return prefix, header and payload of the message's frame."""
        try:
            header = self._write(message)
            _parse_message_header(header)  # as a receiver will
        except MalformedMessageError as error:
            raise LocalProtocolError(
                f"a message nobody would accept: {error}", code=error.code
            ) from None
        except _UNREADABLE:
            raise LocalProtocolError(
                "a message with a field of the wrong type", code="field-of-wrong-type"
            ) from None
        holder = message.masked if type(message) is Deposit else message
        numbers = getattr(holder, "numbers", None)
        raw = b"" if numbers is None else _message_array_payload(numbers, self.layout)
        count = len(raw) // WORD_BYTES
        if len(header) > self.max_header or count > self.max_numbers:
            raise LocalProtocolError(
                f"a message has at most {self.max_header} bytes of header and "
                f"{self.max_numbers} numbers, found {len(header)} and {count}",
                code="message-too-large",
            )
        return _PREFIX.pack(MAGIC, VERSION, len(header)), header, raw

    def decode(self, frame: bytes) -> Message:
        """Return the frame's message; its numbers are the frame's bytes, read-only.

        Raises:
            MalformedMessageError: the bytes are anything but a message's encoding.
        """
        header = self._split(frame)
        wire = _parse_message_header(header)
        if _write(wire) != header:
            _refuse_malformed_frame("the shortest header of the message", "another one")
        return self._message(wire, frame, _START + len(header))

    def content_digest(self, record: Record) -> bytes:
        """Return the SHA-256 of the record's frame without its signature."""
        bare = msgspec.structs.replace(record, signature=b"")
        found = hashlib.sha256()
        for part in self._parts(bare):
            found.update(part)
        return found.digest()

    @staticmethod
    def digest(numbers: Numbers, layout: LimbModuli | None = None) -> bytes:
        """Return the SHA-256 of the numbers, of their kind and of how many they are.

        Python integers, which no message carries, are taken in two's complement, all
        with as few bytes as the widest of them needs.
        """
        if type(numbers) is ndarray and numbers.dtype == object:
            parts = _message_integers_for_digest(numbers)
        else:
            parts = (
                _describe_message_array(layout, numbers),
                _message_array_payload(numbers, layout),
            )
        found = hashlib.sha256(_write(parts[0]))
        found.update(parts[1])
        return found.digest()

    def _split(self, frame: bytes) -> bytes:
        """Return the header, after a look at every length."""
        if not _START <= len(frame) <= self.max_frame:
            _refuse_malformed_frame(f"{_START} to {self.max_frame} bytes", len(frame))
        magic, version, length = _PREFIX.unpack_from(frame)
        if magic != MAGIC:
            _refuse_malformed_frame("a frame that starts with 'VS'", "something else")
        if version != VERSION:
            _refuse_malformed_frame(
                f"frames of version {VERSION}",
                f"version {version}: the two run different versions of veilsum",
            )
        if length > self.max_header or length > len(frame) - _START:
            _refuse_malformed_frame(
                "a header within the frame and the limit", f"{length} bytes"
            )
        return frame[_START : _START + length]

    def _message(self, wire: Any, frame: bytes, start: int) -> Any:
        """Return the message whose header was parsed and whose payload starts there."""
        if (kind := _KINDS.get(type(wire))) is None:
            if len(frame) != start:
                _refuse_malformed_frame("0 bytes of payload", len(frame) - start)
            return wire
        if kind is Deposit:
            return kind(self._message(wire.masked, frame, start))
        if kind in _BY_NAME:  # slower than by place
            fields = asdict(wire)
            fields["numbers"] = self._numbers(wire.numbers, frame, start)
            return kind(**fields)
        values = [*astuple(wire)]
        values[-1] = self._numbers(values[-1], frame, start)
        return kind(*values)

    def _numbers(self, found: Descriptor, frame: bytes, start: int) -> Numbers:
        code, count, width = found
        if count > self.max_numbers:
            _refuse_malformed_frame(f"at most {self.max_numbers} numbers", count)
        if count * width != len(frame) - start:
            _refuse_malformed_frame(
                f"{count * width} bytes of payload", len(frame) - start
            )
        array = frombuffer(frame, _DTYPES[code], count, start)
        if code == "f" and not _message_array_is_finite(array, frame, start):
            _refuse_malformed_frame("finite numbers", "nan or inf")
        if _SWAP:
            array = array.astype(array.dtype.newbyteorder("="))
        return self._residues(array, code) if code in "ul" else array

    def _residues(self, limbs: Numbers, code: str) -> Numbers:
        layout = self.layout
        if layout is None or (code == "l") != is_wide_integer_type(layout.dtype):
            return limbs if code == "u" else limbs.view(limb_type(1))
        try:
            found = layout.unpack(limbs)
        except InvalidInputError as error:
            raise MalformedMessageError(str(error), code=error.code) from None
        found.setflags(write=False)
        return found


def _refuse_malformed_frame(expected: str, found: object) -> NoReturn:
    raise MalformedMessageError(
        f"expected {expected}, found {found}", code="unexpected-bytes"
    )


def _describe_message_array(
    layout: LimbModuli | None, value: object
) -> tuple[str, int, int]:
    """Say what a header says in place of an array (msgspec's encoding hook)."""
    if type(value) is not ndarray or value.ndim != 1:
        raise LocalProtocolError(
            "a message carries plain one-dimensional arrays only",
            code="array-not-plain",
        )
    if (code := _CODES.get(value.dtype)) is not None:
        return code, value.size, WORD_BYTES
    if not is_wide_integer_type(value):
        raise LocalProtocolError(
            f"a message carries no numbers of type {value.dtype}",
            code="unsupported-number-type",
        )
    return "l", len(_message_limbs(value, layout)), WORD_BYTES


def _message_limbs(numbers: Numbers, layout: LimbModuli | None) -> Numbers:
    if layout is None or numbers.dtype != layout.dtype or len(numbers) != layout.size:
        return limbs_of(numbers).reshape(-1)
    return layout.pack(numbers)


def _message_array_payload(
    numbers: Numbers, layout: LimbModuli | None
) -> bytes | memoryview:
    """Return the payload of an array that `_describe_message_array` accepts."""
    if type(numbers) is not ndarray:  # but a list that looks like a descriptor
        _describe_message_array(layout, numbers)
    kind = numbers.dtype
    if (code := _CODES.get(kind)) is None:
        numbers = _message_limbs(numbers, layout)
        code, kind = "u", numbers.dtype
    if kind is not (wanted := _DTYPES[code]):
        numbers = numbers.astype(wanted)
    few = numbers.size <= _FEW
    raw = numbers.tobytes() if few else np.ascontiguousarray(numbers).data.cast("B")
    if code == "f" and not _message_array_is_finite(numbers, raw, 0):
        raise LocalProtocolError(
            "a message carries finite numbers, found nan or inf", code="not-finite"
        )
    return raw


def _message_integers_for_digest(
    numbers: Numbers,
) -> tuple[tuple[str, int, int], bytes | memoryview]:
    """Return a descriptor and bytes of Python integers, for digests alone."""
    values = numbers.tolist()
    if not set(map(type, values)) <= {int}:
        raise LocalProtocolError(
            "an array of objects must hold Python integers only", code="not-integers"
        )
    whole = narrow_wide_integers(numbers)
    least, largest = ends_of_whole_numbers(whole)
    width = max(largest, ~least).bit_length() // 8 + 1
    words = -(-width // WORD_BYTES)
    if words > MOST_LIMBS:
        raise LocalProtocolError(
            f"whole numbers of {width} bytes have no digest",
            code="no-digest-of-objects",
        )
    limbs = limbs_of(limbs_from_integers(whole, words)).astype(_DTYPES["u"], copy=False)
    raw = limbs.view(np.uint8).reshape(-1, WORD_BYTES * words)[:, :width].tobytes()
    return ("b", len(values), width), raw


def _message_array_is_finite(
    array: Numbers, raw: bytes | memoryview, start: int
) -> bool:
    """Say whether an array, whose bytes start there, has neither nan nor inf."""
    if array.size <= _FEW:
        # A last byte is the sign and the top of the exponent: 7f or ff for nan and inf,
        # but also for numbers beyond 1e303. Then numpy has to look at each of them.
        last = raw[start + 7 :: 8]
        if 0x7F not in last and 0xFF not in last:
            return True
    return bool(np.count_nonzero(np.isfinite(array)) == len(array))


def _parse_message_header(header: bytes) -> Any:
    """Return the message, or its twin where it has a descriptor for its numbers."""
    try:
        return _read(header)
    except _UNREADABLE as error:
        reason = str(error)
    # Of msgspec's texts these name types and lengths; the others quote what they found.
    if reason.startswith("Expected"):
        raise MalformedMessageError(
            f"a field of the header: {reason}", code="malformed-header"
        )
    _refuse_malformed_frame("the header of a known kind of message", "none")


@cache
def _message_twin_type(kind: Any) -> Any:
    """Return the type that the header has for a type of message or field.

    It has descriptors for arrays, so that msgspec can parse it without calling back.
    """
    if kind not in MESSAGES:
        return Descriptor if kind is ndarray else kind
    types = {found.name: found.type for found in msgspec.structs.fields(kind)}
    twins = {name: _message_twin_type(found) for name, found in types.items()}
    if twins == types:
        return kind
    options = {"tag": kind.__name__, "frozen": True, "array_like": True}
    bases = (Secret, msgspec.Struct)  # a share's twin has its key
    return msgspec.defstruct(kind.__name__, twins.items(), bases=bases, **options)


_KINDS = {
    _message_twin_type(kind): kind
    for kind in MESSAGES
    if _message_twin_type(kind) is not kind
}
_BY_NAME = frozenset(kind for kind in MESSAGES if issubclass(kind, Record))


def _message_header_writer(layout: LimbModuli | None) -> Callable[[object], bytes]:
    """Return what writes headers of messages whose vectors have this layout."""
    return msgspec.msgpack.Encoder(
        enc_hook=partial(_describe_message_array, layout)
    ).encode


_write = _message_header_writer(None)
_read = msgspec.msgpack.Decoder(Union[tuple(map(_message_twin_type, MESSAGES))]).decode  # noqa: UP007
