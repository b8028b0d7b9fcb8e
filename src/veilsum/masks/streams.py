"""Where random words come from: a seeded generator, or a cipher keyed by the system.

A simulation is repeatable, so its words come from a numpy generator. A deployment must
not be: its words are the ChaCha20 keystream of a key that the operating system gave.
Samplers take a `Stream` and do not know which of the two it is.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from veilsum.errors import InvalidInputError, MissingExtraError, install_advice
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import UInt64

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

Words: TypeAlias = UInt64[Array[np.uint64], " count"]

KEY_BYTES = 32

# The cipher overwrites zeros with its keystream, a piece at a time: a piece and its
# zeros stay in cache, and memory does not grow with the number of words.
_PIECE = 2**16
_ZEROS = memoryview(bytes(_PIECE))

# The cipher counts its blocks of 64 bytes in 32 bits and stops at the end of them: one
# nonce serves half of that range.
_SEGMENT = 2**37


def check_random_word_count(count: int) -> None:
    """Refuse to draw fewer than no numbers."""
    if count < 0:
        raise InvalidInputError(
            f"a count must not be negative, found {count}", code="count-negative"
        )


@runtime_checkable
class Stream(Protocol):
    """A source of random words; what it has handed out, it never hands out again."""

    def words(self, count: int) -> Words: ...

    def normals(self, count: int) -> Vector: ...


@dataclass(frozen=True, eq=False, repr=False)
class SeededStream(Secret):
    """Words of a numpy generator of 64 bits: repeatable, so for simulation only."""

    generator: np.random.Generator

    def __post_init__(self) -> None:
        if isinstance(self.generator.bit_generator, np.random.MT19937):
            raise InvalidInputError(
                "a stream needs a generator of 64-bit words, found MT19937, whose have "
                "32; np.random.default_rng(seed) makes one",
                code="generator-too-narrow",
            )

    def words(self, count: int) -> Words:
        check_random_word_count(count)
        # As `integers` of the whole range, without what that costs on a short share.
        return self.generator.bit_generator.random_raw(count)

    def normals(self, count: int) -> Vector:
        check_random_word_count(count)
        return self.generator.standard_normal(count)


class Keystream(Secret):
    """The ChaCha20 keystream (RFC 8439) of one key that is used for nothing else.

    `from_os` is the way to make one; a key of one's own is for keys that two parties
    agreed on, and for tests against published values.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise InvalidInputError(
                f"a ChaCha20 key has {KEY_BYTES} bytes, found {len(key)}; "
                "Keystream.from_os() makes one",
                code="key-length",
            )
        self._key = key
        self._segment = 0
        self._cipher = _keystream_encryptor(key, 0)
        self._left = _SEGMENT

    @classmethod
    def from_os(cls) -> Keystream:
        """Return the keystream of a fresh key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    def words(self, count: int) -> Words:
        """Return the next `count` words of the keystream, little-endian."""
        check_random_word_count(count)
        words = np.empty(count, dtype="<u8")
        room = words.view(np.uint8)
        for low in range(0, room.size, _PIECE):
            self._fill(room[low : low + _PIECE])
        return words.astype(np.uint64, copy=False)

    def normals(self, count: int) -> Vector:
        """Refuse: the low bits of a float64 normal betray what it is added to."""
        raise InvalidInputError(
            f"{count} float64 normals were asked of a keystream, but they are for "
            "simulation only; in a deployment use the law lattice or uniform",
            code="normals-for-simulation",
        )

    def _fill(self, room: Array[np.uint8]) -> None:
        """Overwrite at most a piece with what comes next in the keystream."""
        if room.size > self._left:
            self._segment += 1
            self._cipher = _keystream_encryptor(self._key, self._segment)
            self._left = _SEGMENT
        self._left -= room.size
        self._cipher.update_into(_ZEROS[: room.size], room.data)


def _keystream_encryptor(key: bytes, segment: int) -> CipherContext:
    """Return the cipher at block 0 of a nonce that only this segment has."""
    ciphers, chacha20 = _load_chacha20()
    # Four bytes of block counter, four that a long count may carry into, the nonce.
    nonce = bytes(8) + segment.to_bytes(8, "little")
    encryptor: CipherContext = ciphers(chacha20(key, nonce), mode=None).encryptor()
    return encryptor


@cache
def _load_chacha20() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    except ImportError:
        raise MissingExtraError(
            f"a keystream needs cryptography: {install_advice('secure')}",
            code="missing-extra",
        ) from None
    return Cipher, ChaCha20
