"""What is copied, what a copy that was put back allows, and what is no backup."""

import io
import json
import sqlite3
import tarfile

import pytest
from click.testing import CliRunner

from ledgers import aggregate, reservation, run
from receipts import Study
from refusals import refused
from veilsum.cli.app import app
from veilsum.errors import (
    BudgetError,
    LedgerError,
    OutputError,
    StoreError,
)
from veilsum.files.ledger import open_ledger, read_ledger
from veilsum.net.identity import new_identity, read_identity
from veilsum.party.backup import make_backup, restore_backup, resume_party_ledger
from veilsum.privacy.accountant import Budget
from veilsum.surveys.delegate import SurveyDelegateStore


@pytest.fixture
def folder(tmp_path):
    """A party with a key, rules, and a ledger that has one charge."""
    place = tmp_path / "keys"
    new_identity("a", place)
    (place / "veilsum.toml").write_text("jobs = ['statistics']\n")
    with open_ledger(place / "a.ledger", create=Budget(epsilon=1.0)) as ledger:
        ledger.charge(run("first"))
    return place


@pytest.fixture
def back(folder, tmp_path):
    """What was put back after one more charge on the original."""
    make_backup(folder, "a", tmp_path / "a.backup")
    with open_ledger(folder / "a.ledger") as ledger:
        ledger.charge(run("second"))
    restore_backup(tmp_path / "a.backup", tmp_path / "back")
    return tmp_path / "back"


def test_all_that_must_not_be_lost_comes_back_and_is_its_owners(folder, back):
    assert {path.name for path in back.iterdir()} == {
        *("a.key", "a.crt", "veilsum.toml", "a.ledger")
    }
    assert all(path.stat().st_mode & 0o077 == 0 for path in back.iterdir())
    for name in ("a.key", "a.crt", "veilsum.toml"):
        assert (back / name).read_bytes() == (folder / name).read_bytes()
    assert read_identity(back / "a.key").sign(b"x")
    assert (back.parent / "a.backup").stat().st_mode & 0o077 == 0


def test_the_token_of_a_relay_comes_back_too(folder, tmp_path):
    (folder / "relay.token").write_text("open sesame")
    assert "relay.token" in make_backup(folder, "a", tmp_path / "b.backup")
    restore_backup(tmp_path / "b.backup", tmp_path / "new")
    path = tmp_path / "new" / "relay.token"
    assert path.read_text() == "open sesame"
    assert path.stat().st_mode & 0o077 == 0


def test_a_ledger_that_was_put_back_allows_nothing(back):
    with open_ledger(back / "a.ledger") as ledger:
        assert [one.epoch for one in ledger.history().charges] == ["first"]
        for ask in (
            lambda: ledger.charge(run("third")),
            lambda: ledger.charge(run("first")),
            lambda: ledger.check(run("third")),
            lambda: ledger.release(aggregate()),
            lambda: ledger.reserve(reservation()),
        ):
            with refused("ledger-is-copy", BudgetError):
                ask()


def test_the_original_goes_on(folder, back):
    """The twin: only the copy knows that it is one."""
    with open_ledger(folder / "a.ledger") as ledger:
        ledger.charge(run("third"))
        assert ledger.history().copies == ()


def test_a_plain_copy_does_not_know(folder, tmp_path):
    """The twin of the claim: what the page says of copies made by other means."""
    (tmp_path / "plain.ledger").write_bytes((folder / "a.ledger").read_bytes())
    (tmp_path / "plain.ledger").chmod(0o600)
    with open_ledger(tmp_path / "plain.ledger") as ledger:
        ledger.charge(run("third"))


def test_with_its_owners_word_it_goes_on_and_the_word_stays(back):
    with refused("reason-missing"):
        resume_party_ledger(back / "a.ledger", "  ")
    resume_party_ledger(back / "a.ledger", "nothing was run since")
    with open_ledger(back / "a.ledger") as ledger:
        ledger.charge(run("third"))
    found = read_ledger(back / "a.ledger")
    assert found.copied is None
    assert [getattr(one, "statement", None) for one in found.copies] == [
        *(None, "nothing was run since")
    ]
    with refused("ledger-not-copy", LedgerError):
        resume_party_ledger(back / "a.ledger", "again")


def test_a_copy_of_a_resumed_copy_is_a_copy_again(back, tmp_path):
    resume_party_ledger(back / "a.ledger", "nothing")
    make_backup(back, "a", tmp_path / "again.backup")
    restore_backup(tmp_path / "again.backup", tmp_path / "again")
    assert read_ledger(tmp_path / "again" / "a.ledger").copied is not None


def test_the_mark_of_a_copy_is_sealed_as_all_records_are(back):
    with sqlite3.connect(back / "a.ledger") as connection:
        connection.execute("UPDATE journal SET body = '{}' WHERE kind = 'copy'")
    with refused("seal-broken", LedgerError):
        open_ledger(back / "a.ledger")


def test_receipts_tell_of_runs_that_are_not_counted(back):
    study = Study(back.parent / "study")
    (back / "out").mkdir()
    (back / "out" / "receipt.json").write_text(study.receipt("a").to_json())
    (back / "out" / "of-b.json").write_text(study.receipt("b").to_json())
    (back / "out" / "other.json").write_text("{}")
    with refused("run-not-known"):
        resume_party_ledger(back / "a.ledger", "one run")
    resume_party_ledger(back / "a.ledger", "one run", ["study-" + "0" * 32])
    (_, said) = read_ledger(back / "a.ledger").copies
    assert said.uncounted == ("study-" + "0" * 32,)


def test_nothing_is_overwritten_on_either_way(folder, back, tmp_path):
    with refused("file-exists", OutputError):
        make_backup(folder, "a", tmp_path / "a.backup")
    (back / "a.crt").unlink()
    with refused("file-exists", OutputError):
        restore_backup(tmp_path / "a.backup", back)
    assert not (back / "a.crt").exists()


def packed(path, **files):
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


@pytest.mark.parametrize(
    "names",
    [
        ("../a.key",),
        ("/etc/a.key",),
        ("a.key", "bob.key"),
        ("a.key", ".bashrc"),
        ("a.key", *(f"{k}" for k in range(30))),
        (),
    ],
)
def test_what_is_no_backup_puts_nothing_anywhere(tmp_path, names):
    packed(tmp_path / "evil", **dict.fromkeys(names, b"x"))
    if not names:
        (tmp_path / "evil").write_bytes(b"no archive at all")
    with refused("not-a-backup"):
        restore_backup(tmp_path / "evil", tmp_path / "in" / "here")
    assert {path.name for path in tmp_path.iterdir()} == {"evil"}


def test_links_are_not_followed(tmp_path):
    with tarfile.open(tmp_path / "evil", "w") as archive:
        entry = tarfile.TarInfo("a.key")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(entry)
    with refused("not-a-backup"):
        restore_backup(tmp_path / "evil", tmp_path / "here")


def test_from_the_command_line(folder, tmp_path):
    def call(*words):
        found = CliRunner().invoke(app, [*map(str, words), "--json"])
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    made = call("backup", "make", folder / "a.key", "-o", tmp_path / "b")
    assert "a.ledger" in made["files"]
    call("backup", "restore", tmp_path / "b", "--folder", tmp_path / "new")
    ledger = tmp_path / "new" / "a.ledger"
    assert call("ledger", ledger)["copied"] is not None
    call("backup", "resume", ledger, "--statement", "nothing \x1b[2J")
    assert call("ledger", ledger)["copied"] is None
    shown = CliRunner().invoke(app, ["ledger", str(ledger)])
    assert "Its owner said" in shown.output
    assert "\x1b[2J" not in shown.output


def test_of_a_store_of_surveys_the_history_is_kept_and_that_is_said(tmp_path):
    new_identity("alice", tmp_path)
    words = ["backup", "make", tmp_path / "alice.key", "-o"]
    plain = CliRunner().invoke(app, [*map(str, (*words, tmp_path / "one"))])
    assert "surveys.store" not in plain.output
    SurveyDelegateStore.open(tmp_path / "surveys.store").close()
    said = CliRunner().invoke(app, [*map(str, (*words, tmp_path / "two"))])
    assert "which guests were added up, and no keys" in said.output
    told = CliRunner().invoke(app, [*map(str, (*words, tmp_path / "three")), "--json"])
    assert "surveys.store" in json.loads(told.output)["files"]
    words = ["backup", "restore", tmp_path / "two", "--folder", tmp_path / "new"]
    put = CliRunner().invoke(app, [*map(str, words)])
    assert "surveys.store --closed FOLDER" in put.output
    store = tmp_path / "new" / "surveys.store"
    with refused("store-from-backup", StoreError):
        SurveyDelegateStore.open(store)
    words = ["backup", "resume", store]
    assert CliRunner().invoke(app, [*map(str, words)]).exit_code == 0
    SurveyDelegateStore.open(store).close()
    again = CliRunner().invoke(app, [*map(str, words)])
    assert "is in use already" in again.output
