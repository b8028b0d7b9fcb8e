"""Real Ed25519 keys for simulated parties, made from a seed so that runs repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from veilsum.errors import MissingExtraError
from veilsum.numbers.secrets import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedKeys(Secret):
    """One party's key, everybody's public keys, and a repeatable source of secrets."""

    own: Ed25519PrivateKey
    public: dict[str, Ed25519PublicKey]
    chance: Random
    invalid: type[Exception]

    def sign(self, content: bytes) -> bytes:
        """Return this party's signature."""
        return self.own.sign(content)

    def verify(self, party: str, content: bytes, signature: bytes) -> bool:
        """Say whether a party signed this."""
        try:
            self.public[party].verify(signature, content)
        except self.invalid:
            return False
        return True

    def random(self, count: int) -> bytes:
        """Return bytes that only a simulation may call secret."""
        return self.chance.randbytes(count)


def identities(
    parties: Sequence[str], seed: int
) -> Callable[[str, int], SimulatedKeys]:
    """Return what makes a party's keys for its n-th start."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtraError(
            "the loopback driver signs its records and needs the package "
            "cryptography: pip install 'veilsum[secure]'"
        ) from None
    make = ed25519.Ed25519PrivateKey.from_private_bytes
    private = {
        name: make(Random(f"identity {seed} {name}").randbytes(32)) for name in parties
    }
    public = {name: key.public_key() for name, key in private.items()}

    def keys(name: str, start: int) -> SimulatedKeys:
        return SimulatedKeys(
            private[name],
            public,
            Random(f"start {seed} {name} {start}"),
            InvalidSignature,
        )

    return keys
