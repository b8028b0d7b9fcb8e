"""Whom a party talks to; each refusal beside what is accepted without its check."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from refusals import refused
from veilsum.consortium.pem import der_of_pem, pem_of_der
from veilsum.errors import InvalidScenarioError
from veilsum.net.identity import (
    Identity,
    certificate_name,
    make_certificate,
    new_identity,
    read_identity,
)
from veilsum.net.trust import (
    certificate_owner,
    check_certificates,
    check_certified_member,
    tls_client_context,
    tls_server_context,
)

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("identities")


@pytest.fixture(scope="module")
def ann(folder):
    return new_identity("ann", folder)


@pytest.fixture(scope="module")
def bob(folder):
    return new_identity("bob", folder)


@pytest.fixture(scope="module")
def eve(folder):
    """Somebody whose certificate is in no file."""
    return new_identity("eve", folder)


def certificates(*identities):
    return {one.name: one.certificate for one in identities}


def with_certificate(identity, certificate, folder):
    """The same key under another certificate."""
    path = folder / "other.crt"
    path.write_text(certificate)
    name = certificate_name(certificate)
    return Identity(name, certificate, identity.key_file, path)


def dated(identity, start, end, folder):
    now = datetime.now(UTC)
    key = identity.key()
    made = make_certificate(key, identity.name, start=now + start, end=now + end)
    return with_certificate(identity, made, folder)


def talk(server, client):
    """Shake hands in memory and say a word each way; return both ends.

    A server's refusal reaches a TLS 1.3 client with its first reading.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    while waiting:
        waiting = [end for end in waiting if not _done(end.do_handshake)]
    for here, there in (ends, ends[::-1]):
        here.write(b"hello")
        assert there.read() == b"hello"
    return ends[::-1]


def _done(step):
    try:
        step()
    except ssl.SSLWantReadError:
        return False
    return True


def callers(server_identity, *members):
    """What answers, with these members in the file."""
    return tls_server_context(server_identity, certificates(*members))


def test_members_talk_and_know_each_other(ann, bob):
    both = certificates(ann, bob)
    answering, calling = talk(
        tls_server_context(ann, both), tls_client_context(bob, both)
    )
    assert answering.version() == calling.version() == "TLSv1.3"
    assert certificate_owner(answering.getpeercert(binary_form=True), both) == "bob"
    assert certificate_owner(calling.getpeercert(binary_form=True), both) == "ann"


def test_a_caller_without_a_certificate_is_refused(ann, bob):
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    nobody.verify_mode = ssl.CERT_NONE
    server = callers(ann, ann, bob)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        talk(server, nobody)
    server.verify_mode = ssl.CERT_OPTIONAL
    talk(server, nobody)


def test_a_caller_who_is_not_in_the_file_is_refused(ann, bob, eve):
    caller = tls_client_context(eve, certificates(ann, eve))
    server = callers(ann, ann, bob)
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        talk(server, caller)
    server.verify_mode = ssl.CERT_NONE
    talk(server, caller)
    talk(callers(ann, ann, bob, eve), caller)


def test_whoever_answers_must_be_in_the_file(ann, bob, eve):
    server = callers(eve, bob, eve)
    caller = tls_client_context(bob, certificates(ann, bob))
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        talk(server, caller)
    caller.verify_mode = ssl.CERT_NONE
    talk(server, caller)


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [(-3 * DAY, -2 * DAY, "expired"), (2 * DAY, 3 * DAY, "not yet valid")],
    ids=["expired", "early"],
)
def test_a_certificate_out_of_its_time_is_refused(
    ann, bob, tmp_path, start, end, words
):
    late = dated(bob, start, end, tmp_path)
    both = certificates(ann, late)
    server, caller = tls_server_context(ann, both), tls_client_context(late, both)
    with pytest.raises(ssl.SSLCertVerificationError, match=words):
        talk(server, caller)
    answering, calling = tls_server_context(late, both), tls_client_context(ann, both)
    with pytest.raises(ssl.SSLCertVerificationError, match=words):
        talk(answering, calling)
    for unchecked in (server, calling):
        unchecked.verify_mode = ssl.CERT_NONE
    talk(server, caller)
    talk(answering, calling)
    good = dated(bob, -DAY, DAY, tmp_path)
    both = certificates(ann, good)
    talk(tls_server_context(ann, both), tls_client_context(good, both))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
def test_older_protocols_are_refused(ann, bob):
    both = certificates(ann, bob)
    for strict, old in (
        (tls_server_context(ann, both), tls_client_context(bob, both)),
        (tls_client_context(bob, both), tls_server_context(ann, both)),
    ):
        old.minimum_version = ssl.TLSVersion.TLSv1_2
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        ends = sorted((strict, old), key=lambda one: one.protocol, reverse=True)
        with pytest.raises(ssl.SSLError, match=r"PROTOCOL|VERSION"):
            talk(*ends)
        strict.minimum_version = ssl.TLSVersion.TLSv1_2
        answering, _ = talk(*ends)
        assert answering.version() == "TLSv1.2"


def issued(issuer, folder):
    """A certificate for "bob" that a member signs, in the manner of an authority."""
    key = issuer.key()
    made = new_identity("somebody", folder)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bob")])
    parent = x509.load_pem_x509_certificate(issuer.certificate.encode())
    child = (
        x509.CertificateBuilder(parent.subject, subject)
        .public_key(made.key().public_key())
        .serial_number(1)
        .not_valid_before(datetime.now(UTC) - DAY)
        .not_valid_after(datetime.now(UTC) + DAY)
        .sign(key, None)
    )
    text = pem_of_der(child.public_bytes(serialization.Encoding.DER))
    path = folder / "child.crt"
    path.write_text(text)
    return Identity("bob", text, made.key_file, path)


def as_authority(identity, folder):
    """The same key under a certificate that may vouch for others."""
    key = identity.key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity.name)])
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), 1)
        .not_valid_before(datetime.now(UTC) - DAY)
        .not_valid_after(datetime.now(UTC) + DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, None)
    )
    text = pem_of_der(made.public_bytes(serialization.Encoding.DER))
    return Identity(identity.name, text, identity.key_file, folder / "unused.crt")


def test_a_member_cannot_vouch_for_another(ann, bob, eve, tmp_path):
    """With an authority's certificate it could; `certificate_owner` still tells."""
    child = issued(eve, tmp_path)
    three = certificates(ann, bob, eve)
    caller = tls_client_context(child, certificates(ann))
    with pytest.raises(ssl.SSLCertVerificationError, match="invalid CA"):
        talk(tls_server_context(ann, three), caller)
    root = as_authority(eve, tmp_path)
    three = certificates(ann, bob, root)
    answering, _ = talk(tls_server_context(ann, three), caller)
    assert certificate_owner(answering.getpeercert(binary_form=True), three) is None


def test_the_owner_is_told_by_every_byte(ann, bob, tmp_path):
    both = certificates(ann, bob)
    assert certificate_owner(der_of_pem(ann.certificate), both) == "ann"
    assert certificate_owner(der_of_pem(bob.certificate), both) == "bob"
    again = dated(bob, -DAY, DAY, tmp_path)  # the same name, the same key
    assert certificate_owner(der_of_pem(again.certificate), both) is None
    assert certificate_owner(b"", both) is None


def test_a_party_does_not_talk_to_itself(ann, bob):
    both = certificates(ann, bob)
    with pytest.raises(ssl.SSLCertVerificationError):
        talk(tls_server_context(ann, both), tls_client_context(ann, both))


def test_nothing_but_the_file_is_trusted(ann, bob, eve, monkeypatch):
    """Twin: a context that loads the system's authorities takes the stranger."""
    monkeypatch.setenv("SSL_CERT_FILE", str(eve.certificate_file))
    both = certificates(ann, bob)
    # A party answers itself, and never takes itself for who it has called.
    assert tls_server_context(ann, both).cert_store_stats()["x509"] == 2
    assert tls_client_context(ann, both).cert_store_stats()["x509"] == 1
    caller = tls_client_context(eve, certificates(ann))
    with pytest.raises(ssl.SSLCertVerificationError):
        talk(tls_server_context(ann, both), caller)
    open_to_all = tls_server_context(ann, both)
    open_to_all.set_default_verify_paths()
    talk(open_to_all, caller)


def test_session_keys_are_written_nowhere(ann, bob, tmp_path, monkeypatch):
    """Twin: the library's own default does write them."""
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys.log"))
    both = certificates(ann, bob)
    talk(tls_server_context(ann, both), tls_client_context(bob, both))
    assert not (tmp_path / "keys.log").exists()
    assert ssl.create_default_context().keylog_filename is not None


def test_a_connection_cannot_be_resumed(ann, bob):
    """Twin: with tickets the next connection shows no certificate anew."""
    both = certificates(ann, bob)
    server, caller = tls_server_context(ann, both), tls_client_context(bob, both)
    _, calling = talk(server, caller)
    assert calling.session is None or not calling.session.has_ticket
    server.num_tickets = 2
    _, calling = talk(server, caller)
    assert calling.session.has_ticket


def test_two_certificates_in_one_text_are_not_trusted(ann, bob, eve):
    """Twin: OpenSSL by itself would trust both."""
    text = bob.certificate + eve.certificate
    with refused("not-one-certificate"):
        certificate_owner(
            der_of_pem(eve.certificate), {"ann": ann.certificate, "bob": text}
        )
    loose = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    loose.load_verify_locations(cadata=text)
    assert loose.cert_store_stats()["x509"] == 2


# Files that do not fit


def test_a_missing_key_does_not_turn_tls_off(bob, tmp_path):
    gone = new_identity("ann", tmp_path)
    both = certificates(gone, bob)
    gone.key_file.unlink()
    for made in (tls_server_context, tls_client_context):
        with refused("unusable-certificate"):
            made(gone, both)


def test_a_party_alone_has_nobody_to_trust(ann):
    with refused("no-certificate"):
        tls_server_context(ann, certificates(ann))


def test_an_identity_must_be_the_members(ann, bob, eve, tmp_path):
    both = certificates(ann, bob)
    check_certified_member(ann, both)
    with refused("not-a-member", mentions=("eve",)):
        check_certified_member(eve, both)
    other = new_identity("ann", tmp_path)
    with refused("other-certificate", mentions=("ann",)):
        check_certified_member(other, both)
    late = dated(ann, -3 * DAY, -2 * DAY, tmp_path)
    with refused("certificate-expired"):
        check_certified_member(late, certificates(late, bob))


def test_a_certificate_stands_under_the_name_it_has(ann, bob):
    check_certificates(certificates(ann, bob))
    swapped = {"ann": bob.certificate, "bob": ann.certificate}
    with refused("certificate-name-differs", InvalidScenarioError, mentions=("ann",)):
        check_certificates(swapped)
    with refused("unreadable-certificate", InvalidScenarioError, mentions=("bob",)):
        check_certificates({"ann": ann.certificate, "bob": pem_of_der(b"nonsense")})


def test_an_identity_read_again_makes_the_same_contexts(ann, bob):
    again = read_identity(Path(ann.key_file))
    both = certificates(again, bob)
    talk(tls_server_context(again, both), tls_client_context(bob, both))
