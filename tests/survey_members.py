"""Members of a survey to play with who can sign: everybody's keys, made of names."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from surveys import survey_table
from veilsum.consortium.consortium import Consortium, consortium_from
from veilsum.net.identity import Identity, make_certificate, read_identity
from veilsum.net.passphrase import encrypt_identity_key

YEARS = {
    "start": datetime(2026, 1, 1, tzinfo=UTC),
    "end": datetime(2126, 1, 1, tzinfo=UTC),
}


def member_key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(
        sha256(f"member {name}".encode()).digest()
    )


@cache
def certificate_of(name: str) -> str:
    return make_certificate(member_key(name), name, **YEARS)


def signing_survey(table: dict[str, Any] | None = None) -> Consortium:
    """A survey whose members have certificates; by default the usual one."""
    table = table or survey_table()
    members = [
        {**one, "certificate": certificate_of(one["name"])} for one in table["members"]
    ]
    return consortium_from({**table, "members": members})


def identity_of(name: str, folder: Path) -> Identity:
    """A member's identity, in files as it has them at home."""
    key, home = folder / f"{name}.key", folder
    home.mkdir(exist_ok=True)
    key.touch(mode=0o600)
    key.write_bytes(encrypt_identity_key(member_key(name), None))
    key.with_suffix(".crt").write_text(certificate_of(name))
    return read_identity(key)
