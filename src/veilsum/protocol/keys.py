"""Signatures and fresh secrets come from outside, through this interface."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Keys(Protocol):
    """What a party can do with its own key, and with the others' public ones."""

    def sign(self, content: bytes) -> bytes:
        """Return this party's signature, 64 bytes."""
        ...

    def verify(self, party: str, content: bytes, signature: bytes) -> bool:
        """Say whether a party of the plan signed this."""
        ...

    def random(self, count: int) -> bytes:
        """Return fresh secret bytes."""
        ...
