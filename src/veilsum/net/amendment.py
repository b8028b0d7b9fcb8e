"""Certificates that change while the agreement stays: renewed, or taken from a thief.

A party that *renews* its key has the former one sign the new certificate: whoever
trusted the one can go on to the other. A key that was stolen signs for the thief as
well, so there the new certificate comes as the first one did, with its fingerprint on
the telephone, and everybody says yes to it.

Either way a new consortium file results that names the digest of the former one, and
nobody joins it before every member has signed that it takes the new for the old. Who
signs has looked at both files: certificates differ, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from veilsum.consortium.consortium import (
    Consortium,
    canonical_agreement_json,
    consortium_from,
)
from veilsum.consortium.pem import der_of_pem
from veilsum.consortium.study import (
    AgreedStudy,
    is_study,
    runs_of_agreement,
    study_from,
)
from veilsum.errors import InvalidInputError
from veilsum.files.consortiums import new_run_name_for_file, read_certificate_file
from veilsum.files.output import as_strict_json, write_files
from veilsum.files.safe_read import read_file_contents
from veilsum.net.identity import (
    MOST_BYTES,
    NEXT,
    Identity,
    certificate_fingerprint,
    certificate_name,
    certificate_public_key,
    is_signature_by_identity,
    new_identity,
)
from veilsum.net.receipt import (
    DIGEST,
    NAME,
    TEXT,
    Fields,
    check_receipt_fields,
    read_signed_file_as,
)
from veilsum.net.trust import check_certified_identity
from veilsum.numbers.arrays import listed_names

# What members hold a copy of.
Agreement: TypeAlias = Consortium | AgreedStudy

RENEWAL, AMENDMENT = "veilsum renewal 1", "veilsum amendment 1"
# What is signed begins with what it is, so that it is never taken for something else.
_RENEWED, _AGREED = b"veilsum renewal\0", b"veilsum amendment\0"


@dataclass(frozen=True, kw_only=True)
class CertificateRenewal:
    """One party's new certificate, signed by its former key and by the new one.

    Attributes:
        former: the certificate so far, PEM.
        certificate: the one from now on, PEM.
        signatures: of both keys in this order, hexadecimal.
    """

    name: str
    former: str
    certificate: str
    signatures: tuple[str, str]

    def to_table(self) -> dict[str, Any]:
        return {
            "format": RENEWAL,
            "name": self.name,
            "former": self.former,
            "certificate": self.certificate,
            "signatures": list(self.signatures),
        }


def renew_signing_identity(
    identity: Identity, *, days: int, passphrase: str | None
) -> CertificateRenewal:
    """Make a party's next key and certificate, in place of the ones it has.

    Those stay beside them as NAME.former.key and NAME.former.crt, for runs that began
    with them. What both sign is written to NAME.renewal.json.

    It may be cut short anywhere: until the new key is in its place the former pair is
    what it was, and renewing begins anew; from then on whoever reads the key puts the
    certificate in its place, too.
    """
    folder, name = identity.key_file.parent, identity.name
    _check_no_former(identity)
    for suffix in (".key", ".crt"):
        (folder / f"{name}{NEXT}{suffix}").unlink(missing_ok=True)
    made = new_identity(name, folder, days=days, passphrase=passphrase, stem=NEXT)
    content = _certificate_renewal_bytes(name, identity.certificate, made.certificate)
    renewal = CertificateRenewal(
        name=name,
        former=identity.certificate,
        certificate=made.certificate,
        signatures=(identity.sign(content).hex(), made.sign(content).hex()),
    )
    text = as_strict_json(renewal.to_table()) + "\n"
    write_files(folder, {f"{name}.renewal.json": text.encode()})
    # The certificate first: by it a later renewal knows that this one did not end.
    write_files(folder, {f"{name}.former.crt": identity.certificate.encode()})
    kept = read_file_contents(identity.key_file, MOST_BYTES, InvalidInputError)
    write_files(folder, {f"{name}.former.key": kept}, private=True)
    made.key_file.replace(identity.key_file)
    made.certificate_file.replace(identity.certificate_file)
    return renewal


def _check_no_former(identity: Identity) -> None:
    """Refuse to write over what a renewal before has kept."""
    kept = [
        identity.key_file.with_name(f"{identity.name}.former{suffix}")
        for suffix in (".crt", ".key")
    ]
    there = [path for path in kept if path.exists()]
    if not there:
        return
    # A copy of what is still in force is of a renewal that was cut short.
    if there[0] is kept[0] and read_certificate_file(kept[0]) == identity.certificate:
        return
    raise InvalidInputError(
        f"{there[-1]} is there, of the renewal before: move it away once no run needs "
        "it any more, then renew again",
        code="former-key-exists",
    )


def _certificate_renewal_bytes(name: str, former: str, certificate: str) -> bytes:
    return _RENEWED + canonical_agreement_json([name, former, certificate])


def read_certificate_renewal(path: Path) -> CertificateRenewal:
    """Return the renewal in a file, its signatures checked."""
    return read_signed_file_as(path, "a renewal", _certificate_renewal_from)


def _certificate_renewal_from(table: Any) -> CertificateRenewal:
    content = check_receipt_fields(table, RENEWAL, _RENEWAL_FIELDS)
    first, second = content.pop("signatures")
    found = CertificateRenewal(**content, signatures=(first, second))
    signed = _certificate_renewal_bytes(found.name, found.former, found.certificate)
    for text, signature in zip(
        (found.former, found.certificate), found.signatures, strict=True
    ):
        if certificate_name(text) != found.name:
            raise InvalidInputError(
                f"a certificate in it is not {found.name}'s",
                code="certificate-of-other-member",
            )
        if not _is_signed_amendment(text, signed, signature):
            raise InvalidInputError(
                "a signature in it is not good", code="bad-signature"
            )
    return found


def _is_signed_amendment(certificate: str, content: bytes, signature: str) -> bool:
    return is_signature_by_identity(
        certificate_public_key(certificate), content, bytes.fromhex(signature)
    )


def _is_renewal_signature(value: Any) -> bool:
    if not isinstance(value, str) or len(value) != 128:
        return False
    return all(letter in "0123456789abcdef" for letter in value)


_RENEWAL_FIELDS: Fields = {
    "name": NAME,
    "former": TEXT,
    "certificate": TEXT,
    "signatures": (
        lambda value: (
            isinstance(value, list)
            and len(value) == 2
            and all(map(_is_renewal_signature, value))
        ),
        "two signatures of 128 hexadecimal digits",
    ),
}


def amend_agreement(former: Agreement, certificates: Mapping[str, str]) -> Agreement:
    """Return what was agreed with other certificates, and its former self named.

    A study keeps its name and has all questions as one edition, each of which is a new
    run: what members have behind them there they have behind them here.
    """
    table = former.to_table()
    for name in certificates:
        runs_of_agreement(former)[0].member(name)
    table["members"] = [
        {**row, "certificate": certificates.get(row["name"], row["certificate"])}
        for row in table["members"]
    ]
    if isinstance(former, Consortium):
        table["run"] = new_run_name_for_file(former.title)
    table["former"] = former.digest.hex()
    table.pop("earlier", None)
    return study_from(table) if is_study(table) else consortium_from(table)


@dataclass(frozen=True, kw_only=True)
class CertificateChange:
    """One member's certificate, before and after.

    Attributes:
        former: fingerprint of the one before.
        certificate: fingerprint of the one after.
        renewed: whether the former key signed the new certificate.
    """

    name: str
    former: str
    certificate: str
    renewed: bool

    def __str__(self) -> str:
        how = (
            "its former key signed the new one"
            if self.renewed
            else "its former key did NOT sign the new one: hear the fingerprint from "
            "that party itself"
        )
        return f"{self.name}: from {self.former}\n  to {self.certificate}\n  {how}"


@dataclass(frozen=True, kw_only=True)
class Amendment:
    """Signed agreement of members to replace a consortium file by a new one.

    Attributes:
        former: digest of the replaced file, hexadecimal.
        consortium: digest of the new file.
        renewals: changed certificates whose renewal the former key has signed.
        agreed: signatures by member, hexadecimal.
    """

    former: str
    consortium: str
    renewals: tuple[CertificateRenewal, ...] = ()
    agreed: Mapping[str, str] = field(default_factory=dict)

    def changes(
        self, former: Agreement, new: Agreement
    ) -> tuple[CertificateChange, ...]:
        """Return what differs; refuse files that differ in more than certificates."""
        if (former.digest.hex(), new.digest.hex()) != (self.former, self.consortium):
            raise InvalidInputError(
                "the amendment is of other files: its digests are "
                f"{self.former[:16]}... before and {self.consortium[:16]}... after",
                code="amendment-of-other-files",
            )
        one, other = former.to_table(), new.to_table()
        if other.pop("former", None) != self.former:
            raise InvalidInputError(
                "the new file does not name the former one", code="former-not-named"
            )
        for table in (one, other):
            if not is_study(table):
                del table["run"]
            table["members"] = [{**row, "certificate": ""} for row in table["members"]]
        for key in ("former", "earlier"):
            one.pop(key, None)
        if differ := sorted(
            key for key in one.keys() | other.keys() if one.get(key) != other.get(key)
        ):
            raise InvalidInputError(
                f"the files differ in more than certificates, namely in "
                f"{listed_names(differ)}: that is a new agreement; join it as one",
                code="more-than-certificates-changed",
            )
        willing = {(one.former, one.certificate) for one in self.renewals}
        return tuple(
            CertificateChange(
                name=name,
                former=certificate_fingerprint(text),
                certificate=certificate_fingerprint(new.certificates[name]),
                renewed=(text, new.certificates[name]) in willing,
            )
            for name, text in former.certificates.items()
            if der_of_pem(text) != der_of_pem(new.certificates[name])
        )

    def missing(self, new: Agreement) -> tuple[str, ...]:
        """Return the members that have not signed, or not with their certificate."""
        signed = _AGREED + canonical_agreement_json([self.former, self.consortium])
        return tuple(
            name
            for name, text in new.certificates.items()
            if name not in self.agreed
            or not _is_signed_amendment(text, signed, self.agreed[name])
        )

    def signed_by(self, identity: Identity, new: Agreement) -> Amendment:
        """Return it with one member's signature more."""
        check_certified_identity(identity, new.certificates)
        content = _AGREED + canonical_agreement_json([self.former, self.consortium])
        added = {identity.name: identity.sign(content).hex()}
        return replace(self, agreed={**self.agreed, **added})

    def with_those_of(self, others: Iterable[Amendment], new: Agreement) -> Amendment:
        """Return it with the good signatures of copies that others signed."""
        agreed = dict(self.agreed)
        for other in others:
            if (other.former, other.consortium) != (self.former, self.consortium):
                raise InvalidInputError(
                    "two amendments are of different files", code="amendments-differ"
                )
            # A bad one takes no good one's place.
            bad = other.missing(new)
            agreed |= {k: v for k, v in other.agreed.items() if k not in bad}
        return replace(self, agreed=agreed)

    def write(self, file: Path) -> Path:
        """Write it beside the new consortium file; return where."""
        content = {
            "format": AMENDMENT,
            "former": self.former,
            "consortium": self.consortium,
            "renewals": [one.to_table() for one in self.renewals],
            "agreed": dict(sorted(self.agreed.items())),
        }
        path = amendment_file(file)
        write_files(path.parent, {path.name: (as_strict_json(content) + "\n").encode()})
        return path


def amendment_file(file: Path) -> Path:
    return file.with_name(f"{file.stem}.amendment.json")


def read_amendment(path: Path) -> Amendment:
    """Return the amendment in a file; whose signatures are good is asked later."""
    return read_signed_file_as(path, "an amendment", _amendment_from)


def _amendment_from(table: Any) -> Amendment:
    content = check_receipt_fields(table, AMENDMENT, _AMENDMENT_FIELDS)
    renewals = tuple(map(_certificate_renewal_from, content.pop("renewals")))
    return Amendment(**content, renewals=renewals)


_AMENDMENT_FIELDS: Fields = {
    "former": DIGEST,
    "consortium": DIGEST,
    "renewals": (lambda value: isinstance(value, list), "a list of renewals"),
    "agreed": (
        lambda value: (
            isinstance(value, dict) and all(map(_is_renewal_signature, value.values()))
        ),
        "signatures by member",
    ),
}


def check_amendment(file: Path, agreed: Agreement) -> None:
    """Refuse an amended file that not every member has agreed to.

    Of a study they have agreed to its first edition, which is in all later ones.
    """
    if not agreed.former:
        return
    path = amendment_file(file)
    if not path.exists():
        raise InvalidInputError(
            f"{file} amends an earlier consortium file, and {path} is missing, in "
            "which its members say yes to it: ask the organiser for it",
            code="missing-amendment",
        )
    found = read_amendment(path)
    digest = agreed.digest.hex()
    if isinstance(agreed, AgreedStudy):
        digest = agreed.editions[0].digest
    if (found.former, found.consortium) != (
        agreed.former,
        digest,
    ):
        raise InvalidInputError(
            f"{path} is of another file than {file}", code="amendment-of-other-files"
        )
    if missing := found.missing(agreed):
        raise InvalidInputError(
            f"{listed_names(missing)} did not agree to {file} yet: each runs veilsum "
            f"consortium agree, and everybody gets the {path.name} that all signed",
            code="amendment-not-agreed",
        )
