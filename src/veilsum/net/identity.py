"""Identity of a party: a private key that stays on its machine, and a certificate.

Both are made on the machine that uses them. The key is a file that only its owner may
read, optionally encrypted with a passphrase. It is opened for each signature, and no
attribute holds it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from veilsum.consortium.consortium import check_member_name
from veilsum.consortium.pem import der_of_pem, pem_of_der
from veilsum.errors import (
    InvalidInputError,
    MissingExtraError,
    OutputError,
    SecretError,
    install_advice,
)
from veilsum.files.consortiums import read_certificate_file
from veilsum.files.output import write_files, write_new
from veilsum.files.permissions import why_file_is_open_to_others
from veilsum.numbers.secrets import Secret

try:
    from cryptography import x509
    from cryptography.exceptions import (
        InvalidSignature,
        InvalidTag,
        UnsupportedAlgorithm,
    )
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    from veilsum.net.passphrase import encrypt_identity_key, key_file_password
except ImportError:
    raise MissingExtraError(
        f"identities need the package cryptography: {install_advice('net')}",
        code="missing-extra",
    ) from None

# Raised about certificates and keys that are damaged.
UNREADABLE = (
    *(ValueError, UnsupportedAlgorithm),
    *(x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType),
)
# Clocks differ: a certificate made just now must be good everywhere.
CLOCK_ALLOWANCE = timedelta(minutes=5)
LONGEST_DAYS = 3660
MOST_BYTES = 1 << 16
# What is sealed has a salt of its own: its key serves once, and so does the nonce.
SALT_BYTES, _NONCE = 32, bytes(12)
# By these a file is known for what it is.
CERTIFICATE, KEY = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
# What stands in the names of files that a renewal has ready, before its ending.
NEXT = ".next"
# A new key alone serves nobody: the others know a party by its certificate.
NEW_IDENTITY = (
    "make a new identity, and have the organiser make a new consortium file with its "
    "certificate"
)
LOST_KEY = (
    "veilsum identity new makes one, and for a key that was lost the organiser then "
    "makes a new consortium file with the new certificate"
)
# What its key is not for.
_NOT_FOR = (
    *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


class _KeyHolder(Secret):
    """Base of objects that can sign in a party's name."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise SecretError(
            f"a {type(self).__name__} can sign for its party and is never pickled or "
            "copied; read the key file again instead",
            code="not-copyable",
        )


@dataclass(frozen=True, eq=False, repr=False)
class Identity(_KeyHolder):
    """One party's own name, certificate and key.

    Attributes:
        name: as the certificate has it.
        certificate: PEM.
        key_file: where the key is; it is read when it is used.
        certificate_file: where the certificate is.
        password: what opens the key file, if it is encrypted.
    """

    name: str
    certificate: str
    key_file: Path
    certificate_file: Path
    password: bytes | None = None

    def sign(self, content: bytes) -> bytes:
        """Return the Ed25519 signature of some content, 64 bytes."""
        key = self.key()
        if key.public_key() != certificate_public_key(self.certificate):
            raise InvalidInputError(
                f"{self.key_file} has become another key since this began: go on with "
                f"the former one, --identity {self.name}.former.key if it was renewed",
                code="key-renewed",
            )
        return key.sign(content)

    def show_in(self, context: ssl.SSLContext) -> None:
        """Have TLS show this certificate, and prove that the key is here."""
        # Without a password OpenSSL would ask at the terminal; there is none by then.
        password = self.password or b""
        context.load_cert_chain(self.certificate_file, self.key_file, password)

    def key(self) -> Ed25519PrivateKey:
        """Return the key, read anew."""
        return _open_identity_key(
            self.key_file, _read_private_key_file(self.key_file), self.password
        )

    def seal(self, content: bytes, about: bytes) -> bytes:
        """Return content that only who has this key can read, 48 bytes longer.

        ChaCha20-Poly1305 (RFC 8439), under a key that HKDF-SHA256 (RFC 5869) derives
        from this one and a fresh salt, which comes first. `about` is said in the clear
        elsewhere: with another one it does not open.
        """
        salt = secrets.token_bytes(SALT_BYTES)
        return salt + self._cipher(salt).encrypt(_NONCE, content, about)

    def unseal(self, sealed: bytes, about: bytes) -> bytes | None:
        """Return what was sealed; None if this is not what was, to the last bit."""
        salt, rest = sealed[:SALT_BYTES], sealed[SALT_BYTES:]
        try:
            return self._cipher(salt).decrypt(_NONCE, rest, about)
        except InvalidTag:
            return None

    def derived(self, use: bytes, salt: bytes = b"") -> bytes:
        """Return 32 secret bytes for one use, which only who has this key can derive.

        HKDF-SHA256 (RFC 5869): they say nothing of the key, nor of another use's.
        """
        derive = HKDF(hashes.SHA256(), 32, salt, b"veilsum " + use).derive
        return derive(self.key().private_bytes_raw())

    def _cipher(self, salt: bytes) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(self.derived(b"seal", salt))


@dataclass(frozen=True, eq=False, repr=False)
class PartyKeys(_KeyHolder):
    """A party's `Keys`: its identity, everybody's certificates, the system's chance."""

    identity: Identity
    certificates: Mapping[str, str]

    def sign(self, content: bytes) -> bytes:
        return self.identity.sign(content)

    def verify(self, party: str, content: bytes, signature: bytes) -> bool:
        """Say whether a member signed this; nobody else ever did."""
        known = self._public.get(party)
        return known is not None and is_signature_by_identity(known, content, signature)

    def random(self, count: int) -> bytes:
        """Return fresh secret bytes from the operating system."""
        return secrets.token_bytes(count)

    @cached_property
    def _public(self) -> dict[str, Ed25519PublicKey]:
        return {
            name: certificate_public_key(text)
            for name, text in self.certificates.items()
        }


def new_identity(
    name: str,
    folder: str | Path,
    *,
    days: int = 365,
    passphrase: str | None = None,
    stem: str = "",
) -> Identity:
    """Make a key and its certificate, NAME.key and NAME.crt; overwrite nothing.

    Args:
        name: the party's.
        folder: where both files go.
        days: how long the certificate is good.
        passphrase: what the key is encrypted with; None writes it as it is, readable
            by its owner alone.
        stem: what is added to the name of both files, not to the party's.
    """
    folder = Path(folder)
    check_member_name(name)
    if not 1 <= days <= LONGEST_DAYS:
        raise InvalidInputError(
            f"a certificate is good for 1 to {LONGEST_DAYS:,} days, found {days}",
            code="days-out-of-range",
        )
    key_file, certificate_file = (
        folder / f"{name}{stem}{suffix}" for suffix in (".key", ".crt")
    )
    key, now = Ed25519PrivateKey.generate(), datetime.now(UTC)
    made = make_certificate(
        key, name, start=now - CLOCK_ALLOWANCE, end=now + timedelta(days=days)
    )
    content = encrypt_identity_key(key, passphrase)
    _write_key_and_certificate(key_file, content, certificate_file, made)
    password = key_file_password(key_file, content, passphrase)
    return Identity(name, made, key_file, certificate_file, password)


def make_certificate(
    key: Ed25519PrivateKey, name: str, *, start: datetime, end: datetime
) -> str:
    """Return a certificate that a key signs for itself, PEM.

    It is no authority's: it vouches for itself and for nobody else.
    """
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    public = key.public_key()
    builder = x509.CertificateBuilder(
        subject, subject, public, x509.random_serial_number(), start, end
    )
    for extension in _certificate_extensions(name, public):
        critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
        builder = builder.add_extension(extension, critical=critical)
    return pem_of_der(builder.sign(key, None).public_bytes(serialization.Encoding.DER))


def _certificate_extensions(
    name: str, public: Ed25519PublicKey
) -> list[x509.ExtensionType]:
    """Return what a certificate says of its name, its key and their use."""
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return [
        x509.BasicConstraints(ca=False, path_length=None),
        x509.KeyUsage(digital_signature=True, **dict.fromkeys(_NOT_FOR, False)),
        x509.ExtendedKeyUsage(purposes),
        x509.SubjectAlternativeName([_certificate_uri(name)]),
        x509.SubjectKeyIdentifier.from_public_key(public),
    ]


def _certificate_uri(name: str) -> x509.UniformResourceIdentifier:
    return x509.UniformResourceIdentifier(f"veilsum:{quote(name, safe='')}")


def _write_key_and_certificate(
    key_file: Path, content: bytes, certificate_file: Path, certificate: str
) -> None:
    """Write both files or neither."""
    try:
        key_file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot make the folder {key_file.parent}: {error.strerror}",
            code="cannot-write",
        ) from None
    advice = "an identity is never replaced; choose another folder, or move it away"
    write_new(key_file, content, advice=advice, mode=0o600)
    try:
        write_new(certificate_file, certificate.encode(), advice=advice, mode=0o644)
    except OutputError:
        key_file.unlink()
        raise


def read_identity(key_file: str | Path, passphrase: str | None = None) -> Identity:
    """Return the identity of a key file and the certificate beside it.

    Who owns an encrypted one is asked for its passphrase unless it is given.
    """
    key_file = Path(key_file)
    certificate_file = key_file.with_suffix(".crt")
    content = _read_private_key_file(key_file)
    password = key_file_password(key_file, content, passphrase)
    own = _open_identity_key(key_file, content, password).public_key()
    certificate = read_certificate_file(certificate_file)
    following = key_file.with_name(f"{certificate_name(certificate)}{NEXT}.crt")
    if certificate_public_key(certificate) != own and following.exists():
        # A renewal was cut short between the two files that it puts in place.
        renewed = read_certificate_file(following)
        if certificate_public_key(renewed) == own:
            following.replace(certificate_file)
            certificate = renewed
    if certificate_public_key(certificate) != own:
        raise InvalidInputError(
            f"{key_file} does not fit {certificate_file}, or one of them is damaged: "
            "put the certificate back that was made with this key",
            code="key-certificate-mismatch",
        )
    name = certificate_name(certificate)
    return Identity(name, certificate, key_file, certificate_file, password)


def change_identity_passphrase(identity: Identity, new: str | None) -> None:
    """Write a key anew under another passphrase, or under none; it stays the same."""
    file, content = identity.key_file, encrypt_identity_key(identity.key(), new)
    write_files(file.parent, {file.name: content}, private=True)


def _open_identity_key(
    path: Path, content: bytes, password: bytes | None
) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(content, password)
    except (*UNREADABLE, TypeError):
        if password is not None:
            raise InvalidInputError(
                f"{path} does not open with this passphrase, or is damaged: try again, "
                "or put the file back from a copy",
                code="wrong-passphrase",
            ) from None
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInputError(
            f"{path} is not an Ed25519 key, or is damaged: give the .key file that "
            "veilsum identity new made, or put the file back from a copy",
            code="not-a-key",
        )
    return key


def _read_private_key_file(path: Path) -> bytes:
    """Return what is in a key file; refuse one that others may read."""
    try:
        with path.open("rb") as stream:
            found, content = os.fstat(stream.fileno()), stream.read(MOST_BYTES)
    except FileNotFoundError:
        raise InvalidInputError(
            f"cannot read {path}: there is no such file; {LOST_KEY}",
            code="no-such-file",
        ) from None
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {path}: {error.strerror}", code="cannot-read"
        ) from None
    if CERTIFICATE in content and KEY not in content and path.suffix != ".key":
        raise InvalidInputError(
            f"{path} is a certificate, which everybody may see: give the key file that "
            f"was made with it, {path.with_suffix('.key')}",
            code="certificate-not-key",
        )
    if (why := why_file_is_open_to_others(path, found)) is not None:
        raise InvalidInputError(
            f"a key is for its owner alone, and {why}; if anybody may have read or "
            f"exchanged it, {NEW_IDENTITY}",
            code="key-file-exposed",
        )
    return content


def certificate_public_key(certificate: str) -> Ed25519PublicKey:
    with _refuse_damaged_certificate():
        found = _parse_certificate(certificate).public_key()
    if not isinstance(found, Ed25519PublicKey):
        raise InvalidInputError(
            "found a certificate whose key is not Ed25519: make it with veilsum "
            "identity new",
            code="not-ed25519",
        )
    return found


def is_signature_by_identity(
    key: Ed25519PublicKey, content: bytes, signature: bytes
) -> bool:
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def certificate_name(certificate: str) -> str:
    with _refuse_damaged_certificate():
        found = _parse_certificate(certificate)
        names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        name = str(names[0].value) if len(names) == 1 else ""
    others: list[x509.GeneralName] = []
    with suppress(x509.ExtensionNotFound, *UNREADABLE):
        kind = x509.SubjectAlternativeName
        others = list(found.extensions.get_extension_for_class(kind).value)
    if not name or others != [_certificate_uri(name)]:
        raise InvalidInputError(
            "found a certificate that names no party: make it with veilsum "
            "identity new",
            code="certificate-without-name",
        )
    return check_member_name(name)


def certificate_validity(certificate: str) -> tuple[datetime, datetime]:
    """Return from when and until when a certificate is good, UTC."""
    with _refuse_damaged_certificate():
        found = _parse_certificate(certificate)
        return found.not_valid_before_utc, found.not_valid_after_utc


def certificate_out_of_date(
    certificate: str, now: datetime | None = None
) -> str | None:
    """Say why a certificate is not good now, if it is not."""
    start, end = certificate_validity(certificate)
    now = now or datetime.now(UTC)
    if now < start:
        return f"it is good from {start:%Y-%m-%d %H:%M} UTC only: is the clock right?"
    if now > end:
        return f"it has expired on {end:%Y-%m-%d %H:%M} UTC: {NEW_IDENTITY}"
    return None


def certificate_fingerprint(certificate: str | bytes) -> str:
    """Return the SHA-256 of a certificate, PEM or DER, for people to compare.

    >>> certificate_fingerprint(b"")[:24]
    'e3b0 c442 98fc 1c14 9afb'
    """
    der = der_of_pem(certificate) if isinstance(certificate, str) else certificate
    return fingerprint_in_groups(hashlib.sha256(der).digest())


def fingerprint_in_groups(digest: bytes) -> str:
    """Return a digest as people read it aloud: all digits, in groups of four.

    >>> fingerprint_in_groups(bytes.fromhex("e3b0c44298fc"))
    'e3b0 c442 98fc'
    """
    return digest.hex(" ", 2)


def _parse_certificate(certificate: str) -> x509.Certificate:
    return x509.load_der_x509_certificate(der_of_pem(certificate))


@contextmanager
def _refuse_damaged_certificate() -> Iterator[None]:
    """Refuse a certificate that is damaged, wherever that is noticed."""
    try:
        yield
    except InvalidInputError:
        raise
    except UNREADABLE:
        raise InvalidInputError(
            "found a certificate that cannot be read: send the .crt file again",
            code="unreadable-certificate",
        ) from None
