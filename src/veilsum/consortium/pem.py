"""Certificates as text: exactly one, in one spelling, and never a private key."""

from __future__ import annotations

import base64
import binascii
import re

from veilsum.errors import InvalidScenarioError

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_BLOCK = re.compile(f"{_BEGIN}([A-Za-z0-9+/=\\s]+){_END}")


def der_of_pem(text: str) -> bytes:
    """Return the bytes of the one certificate that a text holds.

    Whatever reads certificates must see the same one: a second in the text would be
    trusted by some readers and overlooked by others.
    """
    if "PRIVATE KEY" in text:
        raise InvalidScenarioError(
            "found a private key where a certificate should be: keys stay on their "
            "party's machine; give the .crt file instead, and make a new identity if "
            "the key has been sent to anybody",
            code="private-key-given",
        )
    found = _BLOCK.fullmatch(text.strip())
    if found is None:
        raise InvalidScenarioError(
            f"expected one certificate, from {_BEGIN} to {_END} and nothing beside "
            f"it, found {_describe_pem_count(text)}",
            code="not-one-certificate",
        )
    try:
        return base64.b64decode("".join(found[1].split()), validate=True)
    except binascii.Error:
        raise InvalidScenarioError(
            "found a certificate that was damaged on its way: send the .crt file again",
            code="damaged-certificate",
        ) from None


def pem_of_der(der: bytes) -> str:
    """Return a certificate as text, in the one spelling that is compared."""
    text = base64.b64encode(der).decode()
    lines = [text[k : k + 64] for k in range(0, len(text), 64)]
    return "\n".join([_BEGIN, *lines, _END, ""])


def _describe_pem_count(text: str) -> str:
    count = text.count(_BEGIN)
    return f"{count} of them" if count != 1 else "other text around it"
