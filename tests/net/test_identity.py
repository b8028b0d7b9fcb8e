"""Identities: keys for their owners' eyes, certificates that say who, signatures."""

import copy
import os
import pickle
import shlex
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from veilsum.consortium.pem import der_of_pem, pem_of_der
from veilsum.errors import InvalidInputError, OutputError, SecretError
from veilsum.files import permissions
from veilsum.files.consortiums import read_certificate_file
from veilsum.net.identity import (
    PartyKeys,
    certificate_fingerprint,
    certificate_name,
    certificate_out_of_date,
    certificate_public_key,
    certificate_validity,
    make_certificate,
    new_identity,
    read_identity,
)
from veilsum.protocol.book import ProtocolKeys

posix = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
NOW = datetime(2030, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return [new_identity(name, folder) for name in ("ann", "bob", "cem")]


@pytest.fixture(scope="module")
def keys(three):
    certificates = {one.name: one.certificate for one in three}
    return {one.name: PartyKeys(one, certificates) for one in three}


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], ids=oct)
def test_only_its_owner_may_read_a_key(tmp_path, umask):
    before = os.umask(umask)
    try:
        made = new_identity("ann", tmp_path / "keys")
    finally:
        os.umask(before)
    assert mode(made.key_file) == 0o600
    assert mode(made.certificate_file) == 0o644 & ~umask
    assert read_identity(made.key_file).certificate == made.certificate


@posix
@pytest.mark.parametrize("open_to", [0o604, 0o640, 0o660, 0o601, 0o777], ids=oct)
def test_a_key_that_others_may_read_is_refused(tmp_path, open_to):
    made = new_identity("ann", tmp_path)
    made.key_file.chmod(open_to)
    with refused("key-file-exposed", mentions=("600",)):
        read_identity(made.key_file)
    with refused("key-file-exposed", mentions=("600",)):
        made.sign(b"a run")
    made.key_file.chmod(0o400)
    assert read_identity(made.key_file).name == "ann"


@posix
@pytest.mark.parametrize("open_to", [0o777, 0o703, 0o730], ids=oct)
def test_a_key_in_a_folder_that_others_write_to_is_refused(
    tmp_path, open_to, monkeypatch
):
    """They could put a key of their own in its place."""
    made = new_identity("ann", tmp_path / "here")
    made.key_file.parent.chmod(open_to)
    monkeypatch.setattr(permissions, "_is_own_group", lambda _: False)
    with refused("key-file-exposed"):
        read_identity(made.key_file)
    # A group that one user has alone is that user, on many systems.
    monkeypatch.setattr(permissions, "_is_own_group", lambda _: True)
    if not open_to & stat.S_IWOTH:
        assert read_identity(made.key_file).name == "ann"
    made.key_file.parent.chmod(open_to | stat.S_ISVTX)  # as /tmp is
    assert read_identity(made.key_file).name == "ann"
    made.key_file.parent.chmod(0o755)
    assert read_identity(made.key_file).name == "ann"


@posix
def test_a_key_of_another_user_is_refused(tmp_path, monkeypatch):
    made = new_identity("ann", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 4711)
    with refused("key-file-exposed"):
        read_identity(made.key_file)
    monkeypatch.undo()
    assert read_identity(made.key_file).name == "ann"


@posix
def test_the_command_that_mends_it_can_be_pasted(tmp_path):
    made = new_identity("ann", tmp_path / "it's here; really")
    made.key_file.chmod(0o644)
    with pytest.raises(InvalidInputError) as caught:
        read_identity(made.key_file)
    _, _, words = str(caught.value).partition("run chmod ")
    assert shlex.split(words)[:2] == ["600", f"{made.key_file};"]


def test_an_identity_is_never_replaced(tmp_path):
    made = new_identity("ann", tmp_path)
    before = made.key_file.read_bytes(), made.certificate_file.read_bytes()
    with refused("file-exists", OutputError):
        new_identity("ann", tmp_path)
    assert (made.key_file.read_bytes(), made.certificate_file.read_bytes()) == before


def test_a_key_without_its_certificate_is_not_left_behind(tmp_path):
    (tmp_path / "ann.crt").write_text("somebody's")
    with refused("file-exists", OutputError):
        new_identity("ann", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["ann.crt"]
    assert (tmp_path / "ann.crt").read_text() == "somebody's"


def test_a_link_in_the_keys_place_is_not_followed(tmp_path):
    (tmp_path / "ann.key").symlink_to(tmp_path / "elsewhere")
    with refused("file-exists", OutputError):
        new_identity("ann", tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with refused("cannot-write", OutputError):
        new_identity("ann", tmp_path / "file")


@pytest.mark.parametrize("name", ["a", "hospital-3", "Zürich Süd", "x.y_z", "あ", "0"])
def test_a_name_comes_back_from_files_and_certificates(tmp_path, name):
    made = new_identity(name, tmp_path)
    assert read_identity(made.key_file).name == name
    assert certificate_name(made.certificate) == name


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ".",
            "..",
            "../ann",
            "a/b",
            "a\\b",
            "a:b",
            "-ann",
            "ann ",
            " ann",
            "a\nb",
        ),
        *("a\x1bb", "a" * 65, "あ" * 22, "u\u0308ber", "\uff41"),
    ],
    ids=ascii,
)
def test_a_name_that_files_cannot_carry_is_refused(tmp_path, name):
    with refused("malformed-member-name"):
        new_identity(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("days", [0, -1, 10**6])
def test_a_certificate_is_good_for_some_days(tmp_path, days):
    with refused("days-out-of-range"):
        new_identity("ann", tmp_path, days=days)


# What is in a certificate


def test_a_certificate_says_who_it_is_for_and_vouches_for_nobody(tmp_path):
    made = new_identity("ann", tmp_path, days=30)
    found = x509.load_pem_x509_certificate(made.certificate.encode())

    def extension(kind):
        return found.extensions.get_extension_for_class(kind)

    assert found.subject == found.issuer
    assert found.subject.rfc4514_string() == "CN=ann"
    names = extension(x509.SubjectAlternativeName).value
    assert [name.value for name in names] == ["veilsum:ann"]
    basic = extension(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca) == (True, False)
    usage = extension(x509.KeyUsage)
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    assert set(extension(x509.ExtendedKeyUsage).value) == {
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    }
    found.verify_directly_issued_by(found)


def test_a_certificate_is_good_from_five_minutes_ago(tmp_path):
    before = datetime.now(UTC)
    start, end = certificate_validity(
        new_identity("ann", tmp_path, days=30).certificate
    )
    after = datetime.now(UTC)
    second, early = timedelta(seconds=1), timedelta(minutes=5)
    assert before - early - second <= start <= after - early
    assert before + 30 * DAY - second <= end <= after + 30 * DAY


def test_what_is_out_of_date_is_said():
    key = Ed25519PrivateKey.generate()
    made = make_certificate(key, "ann", start=NOW, end=NOW + DAY)
    assert certificate_out_of_date(made, NOW + DAY / 2) is None
    assert "expired on 2030-05-02" in certificate_out_of_date(made, NOW + 2 * DAY)
    assert "clock" in certificate_out_of_date(made, NOW - DAY)
    assert "clock" in certificate_out_of_date(made)


def test_the_fingerprint_is_that_of_the_bytes(three):
    made = three[0].certificate
    groups = certificate_fingerprint(made).split(" ")
    assert [len(group) for group in groups] == [4] * 16
    assert "".join(groups) == sha256(der_of_pem(made)).hexdigest()
    assert certificate_fingerprint(der_of_pem(made)) == certificate_fingerprint(made)
    assert certificate_fingerprint(
        made.replace("\n", "\r\n")
    ) == certificate_fingerprint(made)
    assert len({certificate_fingerprint(one.certificate) for one in three}) == 3


def foreign(key, *names, common="ann"):
    """A certificate that another program might make."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), 7, NOW, NOW + DAY
    )
    if names:
        others = x509.SubjectAlternativeName(names)
        builder = builder.add_extension(others, critical=False)
    algorithm = None if isinstance(key, Ed25519PrivateKey) else SHA256()
    made = builder.sign(key, algorithm)
    return pem_of_der(made.public_bytes(serialization.Encoding.DER))


URI = x509.UniformResourceIdentifier


@each(
    "names",
    [(), (x509.DNSName("ann"),), (URI("veilsum:bob"),), (URI("veilsum:ann"),) * 2],
    ids=["none", "dns", "other", "twice"],
)
def test_a_certificate_must_name_one_party(names):
    key = Ed25519PrivateKey.generate()
    with refused("certificate-without-name"):
        certificate_name(foreign(key, *names))
    assert certificate_name(foreign(key, URI("veilsum:ann"))) == "ann"


def test_a_certificate_with_another_kind_of_key_is_refused():
    made = foreign(ec.generate_private_key(ec.SECP256R1()), URI("veilsum:ann"))
    with refused("not-ed25519"):
        certificate_public_key(made)


def test_a_damaged_certificate_is_refused(three):
    der = der_of_pem(three[0].certificate)
    for damaged in (der[:-1], der + b"\0", b""):
        with refused("unreadable-certificate"):
            certificate_public_key(pem_of_der(damaged))


# Reading


def test_a_key_must_fit_its_certificate(tmp_path):
    made, other = (
        new_identity("ann", tmp_path / "a"),
        new_identity("ann", tmp_path / "b"),
    )
    made.certificate_file.write_bytes(other.certificate_file.read_bytes())
    with refused("key-certificate-mismatch"):
        read_identity(made.key_file)


def test_a_missing_file_is_named(tmp_path):
    told = r"cannot read .*ann\.key: .*organiser then makes a new consortium file"
    with pytest.raises(InvalidInputError, match=told):
        read_identity(tmp_path / "ann.key")
    made = new_identity("bob", tmp_path)
    made.certificate_file.unlink()
    with refused("cannot-read"):
        read_identity(made.key_file)


def test_a_certificate_in_the_place_of_its_key_is_called_one(tmp_path):
    """It lies open to everybody, as it may: chmod is not what is wanted."""
    made = new_identity("ann", tmp_path)
    with refused("certificate-not-key") as caught:
        read_identity(made.certificate_file)
    assert str(caught.value).endswith(str(made.key_file))
    assert "chmod" not in str(caught.value)


def test_a_file_without_a_usable_key_is_refused(tmp_path):
    made = new_identity("ann", tmp_path)
    key = ec.generate_private_key(ec.SECP256R1())
    pkcs8, pem = serialization.PrivateFormat.PKCS8, serialization.Encoding.PEM
    locked = serialization.BestAvailableEncryption(b"word")
    for content in (
        b"nonsense",
        made.certificate.encode(),
        key.private_bytes(pem, pkcs8, serialization.NoEncryption()),
        Ed25519PrivateKey.generate().private_bytes(pem, pkcs8, locked),
    ):
        made.key_file.write_bytes(content)
        with pytest.raises(InvalidInputError, match=r"not an Ed25519 |not by veilsum"):
            read_identity(made.key_file)


def test_a_key_is_not_taken_for_a_certificate(three, tmp_path):
    with refused("private-key-given"):
        read_certificate_file(three[0].key_file)
    both = tmp_path / "both.crt"
    key = three[0].key_file.read_text()
    both.write_text(three[0].certificate + key)
    with refused("private-key-given"):
        read_certificate_file(both)


def test_a_file_holds_one_certificate(three, tmp_path):
    path = tmp_path / "ann.crt"
    ann, bob = (one.certificate for one in three[:2])
    for content in (ann + bob, "", "Subject: ann\n" + ann, ann[:-40]):
        path.write_text(content)
        with refused("not-one-certificate"):
            read_certificate_file(path)
    path.write_bytes(der_of_pem(ann))
    with refused("not-pem"):
        read_certificate_file(path)
    path.write_text("\n\n" + ann.replace("\n", "\r\n"))
    assert read_certificate_file(path) == ann


# Signatures


def test_the_keys_are_what_the_machine_asks_for(keys):
    assert isinstance(keys["ann"], ProtocolKeys)
    assert len(keys["ann"].random(32)) == 32
    assert keys["ann"].random(32) != keys["ann"].random(32)


@given(content=st.binary(max_size=200), bit=st.integers(0, 511))
def test_signatures_are_one_partys_and_of_one_content(keys, content, bit):
    made = keys["ann"].sign(content)
    assert len(made) == 64
    assert all(one.verify("ann", content, made) for one in keys.values())
    assert not keys["cem"].verify("bob", content, made)
    assert not keys["cem"].verify("ann", content + b"\0", made)
    changed = bytearray(made)
    changed[bit // 8] ^= 1 << bit % 8
    assert not keys["cem"].verify("ann", content, bytes(changed))


def test_strangers_and_odd_lengths_never_signed(keys):
    made = keys["ann"].sign(b"a run")
    assert not keys["bob"].verify("dan", b"a run", made)
    for wrong in (b"", made[:-1], made + b"\0"):
        assert not keys["bob"].verify("ann", b"a run", wrong)


def test_no_object_holds_the_key(keys):
    party = keys["ann"]
    identity = party.identity
    text = identity.key_file.read_text()
    held = [*vars(identity).values(), *vars(party).values()]
    assert not any(text in str(value) for value in held)
    for one in (identity, party):
        assert repr(one) == f"<{type(one).__name__}: private>"
        for leave in (pickle.dumps, copy.copy, copy.deepcopy):
            with refused("not-copyable", SecretError):
                leave(one)


def test_without_the_package_the_extra_is_named():
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from veilsum.errors import MissingExtraError\n"
        "try:\n    import veilsum.net.identity\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    words = [sys.executable, "-c", code]
    found = subprocess.run(words, check=False, capture_output=True, text=True)
    assert ".[net]" in found.stdout, found.stderr
