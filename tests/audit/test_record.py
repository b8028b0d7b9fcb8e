"""What an auditor keeps: signed, repeated byte for byte, and without anybody's data."""

import json

import pytest
from click.testing import CliRunner

import veilsum as vs
from veilsum.audit.record import AuditRecord, read_record
from veilsum.cli.app import app
from veilsum.net.identity import new_identity

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


@pytest.fixture(name="file")
def file_fixture(tmp_path):
    path = tmp_path / "offices.toml"
    path.write_text(SCENARIO)
    return path


QUICK = ("--depth", "quick", "--executions", "600", "--coalitions", "a;b,c")


def test_an_audit_is_written_signed_and_repeated(file, tmp_path):
    new_identity("a", tmp_path)
    key = next(tmp_path.glob("*.key"))
    out = tmp_path / "out"
    first = run(file, *QUICK, "--out", out, "--identity", key)
    assert first.exit_code == 0, first.output
    record = read_record(out / "audit.json")
    assert record.is_signed
    assert record.content["audit"]["executions"] >= 600
    again = run(file, "--replay", out / "audit.json", "--out", tmp_path / "again")
    assert again.exit_code == 0, again.output
    both = [(one / "audit.json").read_bytes() for one in (out, tmp_path / "again")]
    assert both[0] == both[1]
    # Changed by one success, it is neither signed nor repeated.
    content = json.loads(both[0])
    content["audit"]["outcomes"][0]["successes"] += 1
    assert not AuditRecord(content).is_signed
    (out / "audit.json").write_text(AuditRecord(content).to_json())
    changed = run(file, "--replay", out / "audit.json")
    assert changed.exit_code == 1
    assert "outcomes/0/successes" in changed.output


def test_nothing_private_is_in_what_an_audit_writes(file, tmp_path):
    found = run(file, *QUICK, "--json", "--out", tmp_path / "out")
    assert found.exit_code == 0, found.output
    texts = [found.output, (tmp_path / "out" / "audit.json").read_text()]
    for text in texts:
        assert not any(f"{one}," in text or f"{one}]" in text for one in PRIVATE)


def test_a_screen_says_what_was_found_and_what_would_have_been(file):
    found = run(file, *QUICK)
    assert found.exit_code == 0, found.output
    words = " ".join(found.output.split())
    assert "None of 6 attacks succeeded more often than promised." in words
    assert "with 90% probability" in words
    assert "planted: a star only" in words
    assert "private" not in words.lower()


@pytest.mark.parametrize("text", ["", "[]", '{"format": "veilsum audit 1"}', "{" * 999])
def test_what_is_no_record_is_refused(text, file, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(text)
    with pytest.raises(vs.InvalidInputError, match="no record of an audit"):
        read_record(other)
    found = run(file, "--replay", other)
    assert found.exit_code == 2


def test_a_figure_is_drawn(file, tmp_path):
    assert run(file, *QUICK, "--out", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "audit.png").read_bytes()[1:4] == b"PNG"
