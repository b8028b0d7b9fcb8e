"""Whom to talk to: TLS 1.3, and the consortium's certificates as the only anchors.

There is no authority and no host name to check: a peer is who it is because the file
that all members hold has its very certificate. Nothing turns a check off.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from veilsum.consortium.pem import der_of_pem
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.net.identity import (
    Identity,
    certificate_fingerprint,
    certificate_name,
    certificate_out_of_date,
    certificate_public_key,
)
from veilsum.numbers.arrays import listed_names


def tls_server_context(
    identity: Identity, certificates: Mapping[str, str]
) -> ssl.SSLContext:
    """Return how a party answers: only callers with a member's certificate."""
    # Its own as well, by which its doctor asks whether it listens; nothing follows, as
    # nobody is its own neighbour.
    context = _peer_tls_context(
        ssl.PROTOCOL_TLS_SERVER, identity, certificates, itself=True
    )
    # No resumed sessions: every connection shows its certificate.
    context.num_tickets = 0
    return context


def tls_client_context(
    identity: Identity, certificates: Mapping[str, str]
) -> ssl.SSLContext:
    """Return how a party dials: only members with their own certificate answer."""
    return _peer_tls_context(
        ssl.PROTOCOL_TLS_CLIENT, identity, certificates, itself=False
    )


def certificate_owner(der: bytes, certificates: Mapping[str, str]) -> str | None:
    """Return whose certificate this is, byte for byte."""
    for name, text in certificates.items():
        if der_of_pem(text) == der:
            return name
    return None


def check_certified_member(identity: Identity, certificates: Mapping[str, str]) -> None:
    """Refuse an identity that is not a member's, or that nobody would accept today."""
    check_certified_identity(identity, certificates)
    check_certificate_dates({identity.name: identity.certificate})


def check_certified_identity(
    identity: Identity, certificates: Mapping[str, str]
) -> None:
    """Refuse an identity that is not the consortium's party of that name."""
    name, agreed = identity.name, certificates.get(identity.name)
    if agreed is None:
        raise InvalidInputError(
            f"{name!r} is no member of this consortium; its members are "
            f"{listed_names(list(certificates))}: give the key of one of them with "
            "--identity",
            code="not-a-member",
        )
    if der_of_pem(agreed) != der_of_pem(identity.certificate):
        raise InvalidInputError(
            f"the consortium file has another certificate of {name!r}: there "
            f"{certificate_fingerprint(agreed)}, here "
            f"{certificate_fingerprint(identity.certificate)}; use "
            "that key, or send the organiser the certificate that is here for a new "
            "consortium file",
            code="other-certificate",
        )


def check_certificate_dates(certificates: Mapping[str, str]) -> None:
    """Refuse a certificate that nobody would accept today."""
    for name, text in certificates.items():
        problem = certificate_out_of_date(text)
        if problem is not None:
            raise InvalidInputError(
                f"the certificate of {name!r} is not good: {problem}",
                code="certificate-expired",
            )


def check_certificates(certificates: Mapping[str, str]) -> None:
    """Refuse a certificate that is not its member's, or of another kind of key."""
    for name, text in certificates.items():
        try:
            found = certificate_name(text)
            certificate_public_key(text)
        except InvalidInputError as error:
            raise InvalidScenarioError(
                f"member {name!r}: {error}", code=error.code
            ) from None
        if found != name:
            raise InvalidScenarioError(
                f"member {name!r} has a certificate that says {found!r}: give each "
                "member its own, under the name it has",
                code="certificate-name-differs",
            )


def _peer_tls_context(
    side: int, identity: Identity, certificates: Mapping[str, str], *, itself: bool
) -> ssl.SSLContext:
    others = [text for name, text in certificates.items() if name != identity.name]
    if not others:
        raise InvalidInputError(
            "a party needs others to talk to: found no certificate",
            code="no-certificate",
        )
    # Not `create_default_context`: that one trusts the system's authorities too, and
    # writes down session keys where the environment asks for it.
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        identity.show_in(context)
        trusted = certificates.values() if itself else others
        context.load_verify_locations(cadata="".join(trusted))
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(
            f"cannot use {identity.key_file} or a member's certificate: "
            f"{error.strerror or error}",
            code="unusable-certificate",
        ) from None
    return context
