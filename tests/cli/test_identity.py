"""`veilsum identity`: keys are made where they stay; fingerprints are for people."""

import json

from click.testing import CliRunner

from cases import each
from veilsum.cli.app import app
from veilsum.net.identity import certificate_fingerprint, read_identity


def call(*words):
    return CliRunner().invoke(app, ["identity", *map(str, words)])


def document(*words):
    found = call(*words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def refusal(*words):
    found = call(*words)
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1, "one sentence, on one line"
    return found.stderr


def test_a_new_identity_is_shown_and_can_be_used(tmp_path):
    made = document("new", "ann", "--folder", tmp_path, "--days", 30)
    identity = read_identity(tmp_path / "ann.key")
    assert made["name"] == identity.name == "ann"
    assert made["fingerprint"] == certificate_fingerprint(identity.certificate)
    assert made["key_file"] == str(tmp_path / "ann.key")
    assert made["certificate_file"] == str(tmp_path / "ann.crt")
    assert made["problem"] is None
    shown = document("show", tmp_path / "ann.crt")
    assert shown == document("show", tmp_path / "ann.key")
    assert shown == {key: made[key] for key in shown}


def test_people_are_told_what_to_send_and_what_to_keep(tmp_path):
    found = call("new", "ann", "--folder", tmp_path)
    assert found.exit_code == 0
    groups = certificate_fingerprint(
        read_identity(tmp_path / "ann.key").certificate
    ).split()
    assert " ".join(groups[:8]) in found.stdout
    assert " ".join(groups[8:]) in found.stdout
    assert "telephone" in found.stdout
    assert f"{tmp_path}/ann.key is the key: keep it here" in found.stdout


def test_nothing_private_is_printed(tmp_path):
    made = call("new", "ann", "--folder", tmp_path)
    shown = call("show", tmp_path / "ann.key")
    key = (tmp_path / "ann.key").read_text().splitlines()[1]
    assert key not in made.output + shown.output


def test_by_default_it_is_made_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("new", "ann").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ann.crt", "ann.key"]


def test_odd_wishes_are_answered_in_a_sentence(tmp_path):
    assert "letters, digits" in refusal("new", "a/b", "--folder", tmp_path)
    assert "--days" in refusal("new", "ann", "--folder", tmp_path, "--days", 0)
    call("new", "ann", "--folder", tmp_path)
    assert "never replaced" in refusal("new", "ann", "--folder", tmp_path)
    assert "cannot read" in refusal("show", tmp_path / "bob.crt")
    (tmp_path / "mine.txt").write_bytes((tmp_path / "ann.key").read_bytes())
    assert "private key" in refusal("show", tmp_path / "mine.txt")


@each("words", [(), ("new",), ("show",)], ids=str)
def test_help_has_an_example(words):
    found = call(*words, "--help")
    assert found.exit_code == 0
    assert "veilsum identity" in found.stdout.partition("Example:")[2]
