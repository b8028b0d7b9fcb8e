"""A key that opens with a passphrase: how it is written, and who is asked for it.

The key is a PKCS #8 file as any program reads it, encrypted under a password that
scrypt (RFC 7914) makes of the passphrase: what such files do with a password by
themselves, 2,048 rounds of a hash, is too little for what people can remember. The
salt stands in a line before the key, where readers of such files expect words.

A person is asked at the terminal. A service has none: there `VEILSUM_PASSPHRASE_FILE`
names a file that only its owner may read, or systemd hands it a credential called
`veilsum-passphrase`.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from getpass import getpass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from veilsum.errors import InvalidInputError
from veilsum.files.permissions import why_file_is_open_to_others

LEAST = 12
# 128 MiB and a third of a second for each guess.
_COST = {"length": 32, "n": 2**17, "r": 8, "p": 1}
_SALT_BYTES = 16
_LINE = re.compile(rb"\Aveilsum passphrase 1: scrypt 17 8 1 ([0-9a-f]{32})\n")
ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
FILE_NAME = "VEILSUM_PASSPHRASE_FILE"
_CREDENTIAL = "veilsum-passphrase"


def encrypt_identity_key(key: Ed25519PrivateKey, passphrase: str | None) -> bytes:
    line = b""
    how: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        check_passphrase_strength(passphrase)
        salt = secrets.token_bytes(_SALT_BYTES)
        line = f"veilsum passphrase 1: scrypt 17 8 1 {salt.hex()}\n".encode()
        how = serialization.BestAvailableEncryption(
            _stretch_passphrase(passphrase, salt)
        )
    return line + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how
    )


def key_file_password(
    path: Path, content: bytes, passphrase: str | None
) -> bytes | None:
    """Return what opens a key file; None for one that is open."""
    if ENCRYPTED not in content:
        return None
    found = _LINE.match(content)
    if found is None:
        raise InvalidInputError(
            f"{path} is encrypted, but not by veilsum: write it without a password, or "
            "make a new identity with veilsum identity new --passphrase",
            code="foreign-encryption",
        )
    if passphrase is None:
        passphrase = _ask_for_passphrase(path)
    return _stretch_passphrase(passphrase, bytes.fromhex(found[1].decode()))


def check_passphrase_strength(passphrase: str) -> str:
    """Refuse a passphrase that would be guessed first."""
    if len(passphrase) < LEAST or len(set(passphrase)) < LEAST // 2:
        raise InvalidInputError(
            f"a passphrase has at least {LEAST} characters, {LEAST // 2} of them "
            "different: four words that nobody says in a row are easy to remember",
            code="weak-passphrase",
        )
    return passphrase


def _stretch_passphrase(passphrase: str, salt: bytes) -> bytes:
    # Hexadecimal, as a password of such a file is text.
    return Scrypt(salt=salt, **_COST).derive(passphrase.encode()).hex().encode()


def _ask_for_passphrase(path: Path) -> str:
    """Return the passphrase of a key: from a file that is named, or from a person."""
    named = os.environ.get(FILE_NAME)
    handed = os.environ.get("CREDENTIALS_DIRECTORY")
    if named:
        return _first_line_of_passphrase_file(Path(named), private=True)
    if handed and (Path(handed) / _CREDENTIAL).exists():
        # Who may read it systemd says in an access list, not in mode and owner.
        return _first_line_of_passphrase_file(Path(handed) / _CREDENTIAL, private=False)
    if sys.stdin.isatty():
        return getpass(f"Passphrase of {path}: ")
    raise InvalidInputError(
        f"{path} opens with a passphrase, and nobody is there to be asked: start this "
        f"at a terminal, or name a file that holds it in {FILE_NAME}",
        code="passphrase-missing",
    )


def _first_line_of_passphrase_file(path: Path, *, private: bool) -> str:
    try:
        with path.open("rb") as stream:
            found, content = os.fstat(stream.fileno()), stream.read(4096)
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {path}: {error.strerror}", code="cannot-read"
        ) from None
    if private and (why := why_file_is_open_to_others(path, found)) is not None:
        raise InvalidInputError(
            f"{why}; it holds a passphrase: choose another",
            code="passphrase-file-exposed",
        )
    lines = content.decode(errors="replace").splitlines()
    if not lines or not lines[0]:
        raise InvalidInputError(
            f"{path} is to hold a passphrase: found nothing", code="passphrase-missing"
        )
    return lines[0]
