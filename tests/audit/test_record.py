"""What an auditor keeps: signed, repeated byte for byte, and without anybody's data."""

import json

import pytest
from click.testing import CliRunner

import veilsum as vs
from cases import each
from refusals import refused
from veilsum.cli.app import app
from veilsum.net.identity import new_identity
from veilsum.party.audit_record import AuditRecord, read_audit_record

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SCENARIO = """
title = "five offices"
[graph]
family = "complete:5"
[parties]
names = ["a", "b", "c", "d", "e"]
[cost]
kind = "squared-distance"
targets = [[71.5], [3.25], [-8.0], [17.75], [40.125]]
unit = 0.01
[domain]
kind = "all"
[method]
name = "one-shot"
[masks]
law = "uniform"
largest = 1000.0
[policy]
tolerate = 1
"""
PRIVATE = ("71.5", "3.25", "17.75", "40.125")


def run(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


QUICK = ("--depth", "quick", "--executions", "600", "--coalitions", "a;b,c")


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """The scenario's file, the folder of a signed audit of it, and its screen."""
    folder = tmp_path_factory.mktemp("audited")
    file, out = folder / "offices.toml", folder / "out"
    file.write_text(SCENARIO)
    new_identity("a", folder)
    key = next(folder.glob("*.key"))
    found = run(file, *QUICK, "--out", out, "--identity", key)
    assert found.exit_code == 0, found.output
    return file, out, found.output


def test_an_audit_is_written_signed_repeated_and_without_private_numbers(
    audited, tmp_path
):
    file, out, _ = audited
    record = read_audit_record(out / "audit.json")
    assert record.is_signed
    assert record.content["audit"]["executions"] >= 600
    repeated = ("--replay", out / "audit.json", "--out", tmp_path, "--json")
    again = run(file, *repeated)
    assert again.exit_code == 0, again.output
    both = [(one / "audit.json").read_bytes() for one in (out, tmp_path)]
    assert both[0] == both[1]
    for text in (again.output, both[0].decode()):
        assert not any(f"{one}," in text or f"{one}]" in text for one in PRIVATE)
    # Changed by one success, it is neither signed nor repeated.
    content = json.loads(both[0])
    content["audit"]["outcomes"][0]["successes"] += 1
    assert not AuditRecord(content).is_signed
    (tmp_path / "audit.json").write_text(AuditRecord(content).to_json())
    changed = run(file, "--replay", tmp_path / "audit.json")
    assert changed.exit_code == 1
    assert "outcomes/0/successes" in changed.output


def test_a_screen_says_what_was_found_and_what_would_have_been(audited):
    _, out, screen = audited
    words = " ".join(screen.split())
    assert "None of 6 attacks succeeded more often than promised." in words
    assert "with 90% probability" in words
    assert "planted: a star only" in words
    assert "private" not in words.lower()
    assert (out / "audit.png").read_bytes()[1:4] == b"PNG"


@each("text", ["", "[]", '{"format": "veilsum audit 1"}', "{" * 999])
def test_what_is_no_record_is_refused(text, audited, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(text)
    with refused("not-an-audit-record", vs.InvalidInputError):
        read_audit_record(other)
    assert run(audited[0], "--replay", other).exit_code == 2
