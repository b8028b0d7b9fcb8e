"""A key under a passphrase: it serves as any other, and opens for nobody without."""

import json
import ssl

import pytest
from click.testing import CliRunner

from refusals import refused
from veilsum.cli.app import app
from veilsum.net import passphrase as passphrases
from veilsum.net.identity import new_identity, read_identity
from veilsum.net.trust import tls_client_context

WORDS = "correct horse battery staple"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Guesses cost a thousandth of what they do for a user."""
    monkeypatch.setitem(passphrases._COST, "n", 2**7)
    monkeypatch.delenv(passphrases.FILE_NAME, raising=False)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)


@pytest.fixture
def guarded(tmp_path):
    return new_identity("ann", tmp_path, passphrase=WORDS)


def test_it_signs_seals_and_shows_itself_as_any_other(guarded, tmp_path):
    again = read_identity(guarded.key_file, WORDS)
    assert again.sign(b"content") == guarded.sign(b"content")
    assert again.unseal(guarded.seal(b"content", b"about"), b"about") == b"content"
    other = new_identity("bob", tmp_path)
    certificates = {"ann": guarded.certificate, "bob": other.certificate}
    assert isinstance(tls_client_context(again, certificates), ssl.SSLContext)


def test_the_file_is_encrypted_and_nothing_of_it_opens_without(guarded):
    content = guarded.key_file.read_bytes()
    assert passphrases.ENCRYPTED in content
    assert guarded.key().private_bytes_raw() not in content
    assert guarded.key_file.stat().st_mode & 0o077 == 0
    with refused("wrong-passphrase"):
        read_identity(guarded.key_file, WORDS + "r")
    with refused("passphrase-missing"):
        read_identity(guarded.key_file)


def test_no_word_of_it_is_printed(guarded):
    assert guarded.password is not None
    for text in (repr(guarded), str(guarded)):
        assert WORDS not in text
        assert guarded.password.decode() not in text


def test_another_salt_is_another_password(guarded):
    content = guarded.key_file.read_text()
    salt = content.split()[7]
    changed = content.replace(salt, ("0" if salt[0] != "0" else "1") + salt[1:], 1)
    guarded.key_file.write_text(changed)
    with refused("wrong-passphrase"):
        read_identity(guarded.key_file, WORDS)


@pytest.mark.parametrize("line", ["scrypt 30 8 1", "scrypt 17 9999 1", "pbkdf2 1 1 1"])
def test_a_file_does_not_choose_how_much_work_is_done(guarded, line):
    content = guarded.key_file.read_text().replace("scrypt 17 8 1", line)
    guarded.key_file.write_text(content)
    with refused("foreign-encryption"):
        read_identity(guarded.key_file, WORDS)


@pytest.mark.parametrize("weak", ["", "short", "a" * 40, "ababababababab"])
def test_what_would_be_guessed_first_is_refused(tmp_path, weak):
    with refused("weak-passphrase", mentions=("12",)):
        new_identity("ann", tmp_path, passphrase=weak)
    assert not list(tmp_path.iterdir())


def test_a_service_reads_it_from_a_file_of_its_own(guarded, tmp_path, monkeypatch):
    held = tmp_path / "words"
    held.write_text(WORDS + "\n")
    held.chmod(0o600)
    monkeypatch.setenv(passphrases.FILE_NAME, str(held))
    assert read_identity(guarded.key_file).name == "ann"
    held.chmod(0o640)
    with refused("passphrase-file-exposed"):
        read_identity(guarded.key_file)
    held.chmod(0o600)
    held.write_text("\n")
    with refused("passphrase-missing"):
        read_identity(guarded.key_file)
    monkeypatch.setenv(passphrases.FILE_NAME, str(tmp_path / "nowhere"))
    with refused("cannot-read"):
        read_identity(guarded.key_file)


def test_systemd_hands_it_over(guarded, tmp_path, monkeypatch):
    folder = tmp_path / "credentials"
    folder.mkdir()
    held = folder / "veilsum-passphrase"
    held.write_text(WORDS)
    held.chmod(0o400)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    assert read_identity(guarded.key_file).name == "ann"


def test_from_the_command_line(tmp_path):
    call = CliRunner().invoke
    made = call(
        app,
        ["identity", "new", "ann", "--folder", str(tmp_path), "--passphrase"],
        input=f"{WORDS}\n{WORDS}\n",
    )
    assert made.exit_code == 0, made.output
    assert WORDS not in made.output
    key = tmp_path / "ann.key"
    before = read_identity(key, WORDS).sign(b"x")
    held = tmp_path / "words"
    held.write_text(WORDS)
    held.chmod(0o600)
    env = {passphrases.FILE_NAME: str(held)}
    shown = call(app, ["identity", "show", str(key), "--json"], env=env)
    assert json.loads(shown.stdout)["name"] == "ann"
    new = "another four words entirely"
    changed = call(
        app, ["identity", "passphrase", str(key)], env=env, input=f"{new}\n{new}\n"
    )
    assert changed.exit_code == 0, changed.output
    assert read_identity(key, new).sign(b"x") == before
    held.write_text(new)
    removed = call(app, ["identity", "passphrase", str(key), "--remove"], env=env)
    assert removed.exit_code == 0, removed.output
    assert read_identity(key).sign(b"x") == before
    assert key.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"ann.crt", "ann.key", "words"}
