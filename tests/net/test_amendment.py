"""Certificates that change: who may change whose, and what else must stay."""

import itertools
import json
import os
import tomllib
from functools import partial
from pathlib import Path

import pytest
import tomli_w
from click.testing import CliRunner

import refusals
import veilsum as vs
from veilsum.cli.app import app
from veilsum.errors import InvalidInputError
from veilsum.files.consortiums import read_consortium
from veilsum.net.amendment import (
    Amendment,
    check_amendment,
    read_amendment,
    read_certificate_renewal,
    renew_signing_identity,
)
from veilsum.net.identity import new_identity, read_identity

NAMES = ("alder", "birch", "cedar", "elm", "fir")


def call(*words, **more):
    return CliRunner().invoke(app, [*map(str, words)], **more)


def done(*words, **more):
    found = call(*words, **more)
    assert found.exit_code == 0, found.output
    return found


@pytest.fixture
def members(tmp_path):
    """Five parties with a folder each, and the file they agreed on."""
    words = []
    for at, name in enumerate(NAMES, start=1):
        folder = tmp_path / name
        new_identity(name, folder)
        words += ["--certificate", folder / f"{name}.crt"]
        words += ["--address", f"{name}=127.0.0.1:{at}"]
    plan = Path(__file__).parents[2] / "examples" / "average.toml"
    done("consortium", "new", plan, "-o", tmp_path / "one.veil", *words)
    return tmp_path


def key(folder, name):
    return folder / name / f"{name}.key"


def amend(folder, *words):
    old, new = folder / "one.veil", folder / "two.veil"
    return call("consortium", "amend", old, "-o", new, *words)


def agree(folder, name, *words, yes=True):
    old, new = folder / "one.veil", folder / "two.veil"
    given = ["--former", old, "--identity", key(folder, name), *words]
    given += ["--yes"] if yes else []
    return call("consortium", "agree", new, *given, input="y\n")


def joinable(folder):
    check_amendment(folder / "two.veil", read_consortium(folder / "two.veil"))


def test_a_renewed_certificate_takes_the_place_of_the_former(members):
    before = read_identity(key(members, "alder"))
    done("identity", "renew", key(members, "alder"))
    after = read_identity(key(members, "alder"))
    assert after.sign(b"x")
    with refusals.refused("key-renewed"):
        before.sign(b"x")
    former = read_identity(members / "alder" / "alder.former.key")
    assert former.certificate == before.certificate
    found = amend(members, "--renewal", members / "alder" / "alder.renewal.json")
    assert found.exit_code == 0, found.output
    assert "its former key signed the new one" in found.stdout
    new = read_consortium(members / "two.veil")
    assert new.certificates["alder"] == after.certificate
    assert new.former == read_consortium(members / "one.veil").digest.hex()
    assert new.run != read_consortium(members / "one.veil").run
    for name in NAMES:
        with refusals.refused("amendment-not-agreed"):
            joinable(members)
        assert agree(members, name).exit_code == 0
    joinable(members)


def test_signatures_come_together_from_copies(members):
    renew_signing_identity(
        read_identity(key(members, "alder")), days=30, passphrase=None
    )
    amend(members, "--renewal", members / "alder" / "alder.renewal.json")
    beside = members / "two.amendment.json"
    empty, copies = beside.read_bytes(), []
    for name in NAMES[1:]:
        beside.write_bytes(empty)
        assert agree(members, name).exit_code == 0
        copies.append(members / f"{name}.json")
        copies[-1].write_bytes(beside.read_bytes())
    beside.write_bytes(empty)
    found = agree(
        members, "alder", *(word for one in copies for word in ("--with", one))
    )
    assert "everybody has signed" in found.stdout
    joinable(members)


def test_a_bad_signature_takes_no_good_ones_place(members):
    renew_signing_identity(
        read_identity(key(members, "alder")), days=30, passphrase=None
    )
    amend(members, "--renewal", members / "alder" / "alder.renewal.json")
    file, copy = members / "two.amendment.json", members / "copy.json"
    agree(members, "birch")
    copy.write_text(file.read_text())
    edited(copy, lambda table: table["agreed"].update(birch="00" * 64))
    found = agree(members, "cedar", "--with", copy)
    assert "still missing: alder, elm, fir" in found.stdout
    # The twin: where there is a bad one only, the party is missing.
    edited(file, lambda table: table["agreed"].update(birch="00" * 64))
    found = agree(members, "cedar", "--with", copy)
    assert "still missing: alder, birch, elm, fir" in found.stdout


def test_a_stolen_key_is_replaced_and_the_screen_says_that_it_did_not_agree(members):
    stolen = read_identity(key(members, "birch"))
    new_identity("birch", members / "again")
    found = amend(members, "--certificate", members / "again" / "birch.crt")
    assert "did NOT sign" in found.stdout
    # Nobody has heard a fingerprint who answers beforehand.
    refused = agree(members, "alder")
    assert refused.exit_code == 2
    assert "--yes signs renewals only" in refused.stderr
    for name in ("alder", "cedar", "elm", "fir"):
        assert agree(members, name, yes=False).exit_code == 0
    # The thief signs as well as it can.
    refused = agree(members, "birch", yes=False)
    assert refused.exit_code == 2
    assert "another certificate of 'birch'" in refused.stderr
    new = read_consortium(members / "two.veil")
    forged = read_amendment(members / "two.amendment.json")
    forged = Amendment(
        former=forged.former,
        consortium=forged.consortium,
        agreed={**forged.agreed, "birch": stolen.sign(b"x").hex()},
    )
    assert forged.missing(new) == ("birch",)


def edited(path, change):
    table = json.loads(path.read_text())
    change(table)
    path.write_text(json.dumps(table))


def test_a_renewal_that_the_former_key_did_not_sign_is_refused(members):
    file = members / "alder" / "alder.renewal.json"
    made = renew_signing_identity(
        read_identity(key(members, "alder")), days=30, passphrase=None
    )
    good = file.read_text()
    assert read_certificate_renewal(file) == made
    thief = new_identity("alder", members / "thief")
    for change in (
        lambda table: table.update(certificate=thief.certificate),
        lambda table: table.update(former=thief.certificate),
        lambda table: table.update(name="birch"),
        lambda table: table["signatures"].reverse(),
        lambda table: table.update(signatures=["00" * 64] * 2),
        lambda table: table.update(signatures=[]),
        lambda table: table.update(more=1),
    ):
        file.write_text(good)
        edited(file, change)
        with refusals.refused("wrong-file-kind"):
            read_certificate_renewal(file)


def test_whoever_changes_more_than_certificates_gets_no_signature(members):
    renew_signing_identity(
        read_identity(key(members, "alder")), days=30, passphrase=None
    )
    amend(members, "--renewal", members / "alder" / "alder.renewal.json")
    new = members / "two.veil"
    table = tomllib.loads(new.read_text())
    table["policy"] = {**table.get("policy", {}), "tolerate": 0}
    new.write_text(tomli_w.dumps(table))
    refused = agree(members, "birch")
    assert refused.exit_code == 2
    assert "the amendment is of other files" in refused.stderr
    # The organiser writes an amendment to fit.
    edited(
        members / "two.amendment.json",
        lambda table: table.update(consortium=read_consortium(new).digest.hex()),
    )
    refused = agree(members, "birch")
    assert refused.exit_code == 2
    assert "differ in more than certificates, namely in policy" in refused.stderr


def test_an_amendment_of_another_file_does_not_serve(members):
    renew_signing_identity(
        read_identity(key(members, "alder")), days=30, passphrase=None
    )
    words = ("--renewal", members / "alder" / "alder.renewal.json")
    amend(members, *words)
    for name in NAMES:
        agree(members, name)
    joinable(members)
    other = members / "three.veil"
    done("consortium", "amend", members / "one.veil", "-o", other, *words)
    (members / "three.amendment.json").write_bytes(
        (members / "two.amendment.json").read_bytes()
    )
    with refusals.refused("amendment-of-other-files"):
        check_amendment(other, read_consortium(other))
    (members / "three.amendment.json").unlink()
    with refusals.refused("missing-amendment"):
        check_amendment(other, read_consortium(other))


def test_a_consortium_in_memory_has_nobodys_word_beside_it(members):
    renew_signing_identity(
        read_identity(key(members, "alder")), days=30, passphrase=None
    )
    amend(members, "--renewal", members / "alder" / "alder.renewal.json")
    own = {"identity": key(members, "birch"), "consent": lambda _: True}
    found = read_consortium(members / "two.veil")
    for given, words in ((found, "give the file's path"), (found.run, "cannot read")):
        with pytest.raises(InvalidInputError, match=words):
            vs.join(given, **own)
    with refusals.refused("amendment-not-agreed"):
        vs.join(members / "two.veil", **own)


def test_join_asks_for_everybodys_word(members):
    renew_signing_identity(
        read_identity(key(members, "alder")), days=30, passphrase=None
    )
    amend(members, "--renewal", members / "alder" / "alder.renewal.json")
    refused = call("join", members / "two.veil", "--identity", key(members, "alder"))
    assert refused.exit_code == 2
    assert "did not agree to" in refused.stderr


def test_a_second_renewal_waits_until_the_former_key_is_put_away(members):
    renew_signing_identity(
        read_identity(key(members, "alder")), days=30, passphrase=None
    )
    held = {path.name: path.read_bytes() for path in (members / "alder").iterdir()}
    with refusals.refused("former-key-exists"):
        renew_signing_identity(
            read_identity(key(members, "alder")), days=30, passphrase=None
        )
    assert held == {
        path.name: path.read_bytes() for path in (members / "alder").iterdir()
    }


class Killed(BaseException):
    """The process is no more: nothing that it would still do happens."""


def killed_at(moment, patch):
    """End the process at so many calls that change a folder, and at all after that."""
    calls = itertools.count()

    def dying(call):
        def dies(*given, **how):
            if next(calls) >= moment:
                raise Killed
            return call(*given, **how)

        return dies

    for name in ("open", "replace", "unlink"):
        patch.setattr(os, name, dying(getattr(os, name)))


def cut_short(work, moment):
    with pytest.MonkeyPatch.context() as patch:
        killed_at(moment, patch)
        try:
            work()
        except Killed:
            return True
    return False


def test_a_renewal_that_is_killed_anywhere_recovers_by_itself(tmp_path):
    """The key is always there, and fits; and to renew again needs no hand."""
    ends = set()
    for moment in itertools.count():
        folder = tmp_path / str(moment)
        before = new_identity("alder", folder)
        again = partial(renew_signing_identity, before, days=30, passphrase=None)
        if not cut_short(again, moment):
            break
        now = read_identity(folder / "alder.key")
        ends.add(now.certificate == before.certificate)
        assert now.sign(b"x")
        assert read_identity(folder / "alder.key").certificate == now.certificate
        if now.certificate == before.certificate:
            renewal = renew_signing_identity(now, days=30, passphrase=None)
            now = read_identity(folder / "alder.key")
        else:
            renewal = read_certificate_renewal(folder / "alder.renewal.json")
        assert (renewal.former, renewal.certificate) == (
            before.certificate,
            now.certificate,
        )
        # Runs that began with the former key can go on.
        former = read_identity(folder / "alder.former.key")
        assert former.certificate == before.certificate
        assert former.sign(b"x")
        with refusals.refused("former-key-exists"):
            renew_signing_identity(now, days=30, passphrase=None)
    assert moment > 8
    assert ends == {True, False}


def test_a_renewal_by_renaming_leaves_a_party_without_a_key(tmp_path):
    """The twin: files moved away and then others moved there."""
    before, made = new_identity("alder", tmp_path), new_identity("a", tmp_path / "a")

    def rename():
        for old in (before.key_file, before.certificate_file):
            old.replace(old.with_suffix(f".former{old.suffix}"))
        made.key_file.replace(before.key_file)
        made.certificate_file.replace(before.certificate_file)

    assert cut_short(rename, 2)
    with refusals.refused("no-such-file"):
        read_identity(before.key_file)


def test_a_renewal_of_somebody_else_or_nothing_is_refused(members):
    assert "whose certificate changes once" in amend(members).stderr
    new_identity("dan", members / "dan")
    found = amend(members, "--certificate", members / "dan" / "dan.crt")
    assert found.exit_code == 2
    renew_signing_identity(
        read_identity(members / "dan" / "dan.key"), days=30, passphrase=None
    )
    found = amend(members, "--renewal", members / "dan" / "dan.renewal.json")
    assert "another certificate of 'dan'" in found.stderr
    assert not (members / "two.veil").exists()
