"""Attacks by whoever writes a survey's file: keys and guests in others' places.

The organiser gets every member's part and hands out the file. She may put keys of her
own where other delegates' should be, and would open what guests seal to them, long
before anybody is asked to add something. Every member looks before it invites.
"""

import csv
import json
import shutil
import sqlite3
from contextlib import closing

import pytest
from click.testing import CliRunner

from veilsum.cli.app import app
from veilsum.files.consortiums import read_consortium
from veilsum.net.identity import new_identity
from veilsum.surveys.submission import (
    X25519PrivateKey,
    guest_submission,
    open_sealed_share,
)
from veilsum.surveys.terms import survey_terms

ANN, BOB, CEM, DAN = MEMBERS = ("ann", "bob", "cem", "dan")  # dan invites nobody
PAGE = "https://survey.example.org"
PLAN = """
title = "Wages"
[parties]
names = ["ann", "bob", "cem", "dan"]
[masks]
law = "uniform"
[policy]
tolerate = 1
[survey]
title = "Wages"
unit = 1
rows = ["managers", "clerks"]
columns = ["women"]
range = [0, 1000]
"""


def call(*words):
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Members with keys, guests and parts, and the file that these make."""
    folder = tmp_path_factory.mktemp("survey")
    words = ["collect", "new", folder / "plan.toml", "-o", folder / "wages.veil"]
    (folder / "plan.toml").write_text(PLAN)
    for member in MEMBERS:
        home = folder / member
        new_identity(member, home)
        asked = ["collect", "delegate", home / f"{member}.key"]
        if member != DAN:
            names = "".join(f"Firm {member} {k}\n" for k in range(4))
            (home / "firms.txt").write_text(names)
            asked += ["--guests", home / "firms.txt"]
        assert call(*asked).exit_code == 0
        words += ["--part", home / f"{member}.part.json"]
        words += ["--certificate", home / f"{member}.crt"]
        words += ["--address", f"{member}=127.0.0.1:{9100 + len(words)}"]
    assert call(*words).exit_code == 0
    return folder


def part(made, member):
    return json.loads((made / member / f"{member}.part.json").read_text())


def changed(made, tmp_path, swaps):
    """The file with texts put in each other's place."""
    text = (made / "wages.veil").read_text()
    for k, old in enumerate(swaps):
        assert old in text
        text = text.replace(old, f"<{k}>")
    for k, new in enumerate(swaps.values()):
        text = text.replace(f"<{k}>", new)
    (tmp_path / "wages.veil").write_text(text)
    return tmp_path / "wages.veil"


def looked(made, survey, member):
    """What a member's two commands say to the file."""
    home = made / member
    found = [call("check", survey, "--party", member, "--data", home)]
    if member != DAN:
        codes = home / f"{member}.codes.csv"
        out = survey.parent / f"{member}.letters.csv"
        found.append(
            call("collect", "invite", survey, codes, "--page", PAGE, "-o", out)
        )
        assert out.exists() is (found[-1].exit_code == 0)
    return found


@pytest.mark.parametrize("member", MEMBERS)
def test_a_true_file_passes(made, tmp_path, member):
    found = looked(made, changed(made, tmp_path, {}), member)
    assert [one.exit_code for one in found] == [0] * len(found), found[-1].output
    assert "your key and guests are as you made them" in found[0].output


def test_keys_of_the_organisers_in_delegates_places_are_seen(made, tmp_path):
    own = {name: X25519PrivateKey.generate() for name in MEMBERS}
    public = {one: own[one].public_key().public_bytes_raw().hex() for one in MEMBERS}
    swaps = {part(made, name)["key"]: public[name] for name in MEMBERS}
    survey = changed(made, tmp_path, swaps)
    # A guest that is invited with this file is read.
    terms = survey_terms(read_consortium(survey))
    with (made / BOB / "bob.codes.csv").open(newline="") as stream:
        code = next(csv.DictReader(stream))["code"]
    sent = guest_submission(terms, code, [[123], [456]])
    read = sum(
        (open_sealed_share(terms, sent, one, own[one]) for one in MEMBERS), sent.words
    )
    assert read.tolist() == [123, 456]
    # So no member invites anybody with it, and who has no guests says so, too.
    for member in MEMBERS:
        for one in looked(made, survey, member):
            assert one.exit_code != 0
            said = " ".join(one.output.split())
            assert "is not one that this store has made" in said


def test_one_key_that_was_changed_is_seen_by_its_member_alone(made, tmp_path):
    own = X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    survey = changed(made, tmp_path, {part(made, DAN)["key"]: own})
    assert [one.exit_code for one in looked(made, survey, BOB)] == [0, 0]
    assert [one.exit_code == 0 for one in looked(made, survey, DAN)] == [False]


def test_guests_of_two_members_that_were_exchanged_are_seen(made, tmp_path):
    one, other = 'invited_by = "ann"', 'invited_by = "bob"'
    survey = changed(made, tmp_path, {one: other, other: one})
    for found in looked(made, survey, BOB):
        assert found.exit_code != 0
        assert "may have invented that guest" in " ".join(found.output.split())


def test_a_guest_that_was_left_out_is_missed(made, tmp_path):
    """Its member would count on it."""
    survey = changed(made, tmp_path, {})
    blocks = survey.read_text().split("[[survey.guest]]")
    left = [one for one in blocks if 'name = "Firm bob 2"' not in one]
    assert len(left) == len(blocks) - 1
    survey.write_text("[[survey.guest]]".join(left))
    for found in looked(made, survey, BOB):
        assert found.exit_code != 0
        assert "Firm bob 2" in found.output


def test_a_member_under_anothers_name_is_seen(made, tmp_path):
    """Keys and guests of bob as ann's: only the certificate says who is who."""
    swaps = {'"ann"': '"bob"', '"bob"': '"ann"', "ann = ": "bob = ", "bob = ": "ann = "}
    survey = changed(made, tmp_path, swaps)
    found = looked(made, survey, BOB)
    assert all(one.exit_code != 0 for one in found)


def test_without_its_store_nobody_is_told_that_all_is_well(made, tmp_path):
    survey = changed(made, tmp_path, {})
    found = call("check", survey, "--party", BOB, "--data", tmp_path)
    assert found.exit_code == 1
    assert "surveys.store" in found.output
    assert not (tmp_path / "surveys.store").exists()


def test_the_key_of_a_survey_that_is_given_up_is_erased(made, tmp_path):
    survey = changed(made, tmp_path, {})
    shutil.copytree(made / CEM, tmp_path / CEM)
    store = tmp_path / CEM / "surveys.store"
    with closing(sqlite3.connect(store)) as reader:
        ((secret,),) = reader.execute("SELECT private FROM key").fetchall()
    assert call("collect", "erase", survey, tmp_path / CEM).exit_code != 0  # asks
    assert secret in store.read_bytes()
    done = call("collect", "erase", survey, tmp_path / CEM, "--yes")
    assert done.exit_code == 0, done.output
    assert not any(secret in one.read_bytes() for one in store.parent.glob("surveys*"))
    words = ["check", survey, "--party", CEM, "--data", tmp_path / CEM]
    assert "its key was erased" in " ".join(call(*words).output.split())
    own = X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    other = changed(made, tmp_path, {part(made, CEM)["key"]: own})
    found = call("collect", "erase", other, tmp_path / CEM, "--yes")
    assert found.exit_code != 0
    assert "has no key of this survey" in " ".join(found.output.split())
