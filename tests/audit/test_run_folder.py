"""The folder of a run is audited: what is there is looked at, what is not is said."""

import json
import shutil

import pytest
from click.testing import CliRunner

from net.runs import ONE_SHOT, Company
from refusals import refused
from veilsum.audit import own_run
from veilsum.audit.auditing import scene_of_run
from veilsum.cli.app import app
from veilsum.net.identity import new_identity, read_identity
from veilsum.party import run_folder
from veilsum.party.consent import consent_to
from veilsum.party.run import conclude_party_run
from veilsum.party.run_folder import RunFolder
from veilsum.party.run_status import EventFeed
from veilsum.party.transcript_file import is_transcript, write_transcript

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

OTHERS = "receipts of others"


@pytest.fixture(scope="module", name="ran")
def ran_fixture(tmp_path_factory):
    """Where a party took part in a real run, and kept everything."""
    company = Company(tmp_path_factory.mktemp("ran"), ONE_SHOT)
    home = company.folder("a")
    identity, run = read_identity(home / "a.key"), company.consortium.run
    path = home / "a.transcript"
    keep = lambda one: write_transcript(path, one, identity, run=run)  # noqa: E731
    company.options = {"a": {"keep": keep}}
    found = company.run()
    (home / "out").mkdir()
    page, feed = consent_to(company.consortium), EventFeed(run, "a")
    conclude_party_run(company.drivers["a"], found["a"], page, feed, home / "out")
    return home


@pytest.fixture(name="home")
def home_fixture(ran, tmp_path):
    return shutil.copytree(ran, tmp_path / "home")


def start_of(lines):
    return [line.partition(":")[0] for line in lines]


def run(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def test_everything_is_found_by_itself(home):
    folder = RunFolder(home / "out")
    assert folder.receipt.party == "a"
    assert folder.file.name == "consortium.toml"
    assert folder.run == folder.receipt.run
    (kept,) = folder.transcripts
    assert kept.corrupted == ("a",)
    assert all(one.good for one in folder.checks)
    checked = {one.check for one in folder.checks}
    assert "the file's minimiser is the signed one" in checked
    assert "the transcript is of the signed plan" in checked
    (found,) = own_run.audit_receipt(folder)
    assert (found.successes, found.promised) == (0, 0.0)
    assert not found.exceeds()
    assert start_of(folder.missing) == [OTHERS]


def test_an_answer_that_is_not_the_signed_one_is_a_finding(home):
    path = home / "out" / "result.json"
    table = json.loads(path.read_text())
    table["minimiser"][0] += 1.0
    path.write_text(json.dumps(table))
    (found,) = own_run.audit_receipt(RunFolder(home / "out"))
    assert found.successes == 1
    assert found.exceeds(1e-6)
    assert "minimiser" in found.about


def test_a_receipt_that_was_changed_is_a_finding(home):
    path = home / "out" / "receipt.json"
    table = json.loads(path.read_text())
    table["started"] = "2001-01-01T00:00:00+00:00"
    path.write_text(json.dumps(table))
    (found,) = own_run.audit_receipt(RunFolder(home / "out"))
    assert "signatures are good" in found.about
    assert found.exceeds(1e-6)


def test_what_is_not_there_is_said(home, tmp_path):
    alone = shutil.copytree(home / "out", tmp_path / "far" / "out")
    assert start_of(RunFolder(alone).missing) == [
        *(OTHERS, "sums and frames", "shares that were received")
    ]
    (alone / "receipt.json").unlink()
    assert start_of(RunFolder(alone).missing)[0] == "receipt"
    assert own_run.audit_receipt(RunFolder(alone)) == ()
    found = run(alone)
    assert found.exit_code == 2
    assert "has nothing to audit" in found.stderr


def test_the_masks_of_a_run_are_known_from_its_transcript(home):
    (home / "consortium.toml").unlink()
    folder = RunFolder(home / "out")
    assert folder.file is None
    (kept,) = folder.transcripts
    scene = scene_of_run(kept)
    assert scene.topology == kept.topology
    assert scene.law.name == kept.law.name
    assert scene.width == kept.rounds[0].own["a"].size


def test_without_a_receipt_several_files_are_not_guessed_between(home):
    (home / "out" / "receipt.json").unlink()
    assert RunFolder(home / "out").file.name == "consortium.toml"
    shutil.copy(home / "consortium.toml", home / "other.toml")
    with refused("ambiguous-consortium-file"):
        _ = RunFolder(home / "out").file


def test_the_transcript_of_another_run_or_party_is_left_alone(home):
    folder = RunFolder(home / "out")
    (own,) = folder.identities
    path = home / "a.transcript"
    assert is_transcript(path, own, run=folder.run)
    assert is_transcript(path, own)
    assert not is_transcript(path, own, run="another")
    assert not is_transcript(home / "consortium.toml", own)
    assert not is_transcript(home / "nothing", own)
    stranger = new_identity("s", home / "s")
    assert not is_transcript(path, stranger, run=folder.run)
    (home / "a.key").unlink()
    without = RunFolder(home / "out")
    assert without.transcripts == ()
    assert "shares that were received" in start_of(without.missing)


def test_files_are_bounded(home, monkeypatch):
    monkeypatch.setattr(run_folder, "MOST_FILES", 1)
    assert len(RunFolder(home / "out").files) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_the_command_takes_the_folder(home, kept, tmp_path):
    if not kept:
        (home / "consortium.toml").unlink()
    quick = ("--depth", "quick", "--executions", 400, "--out", tmp_path / "audit")
    found = run(home / "out", *quick)
    assert found.exit_code == 0, found.output
    words = " ".join(found.stdout.split())
    assert "can compute the sum of b, c, d exactly" in words
    assert f"Not played: {OTHERS}" in words
    assert ("sums and frames: the run's consortium file is neither" in words) != kept
    record = json.loads((tmp_path / "audit" / "audit.json").read_text())
    names = {one["attack"] for one in record["audit"]["outcomes"]}
    assert {own_run.RECEIPT, "likelihood ratio"} <= names
    # What others gave is in the transcript's sums, and never in an audit.
    (transcript,) = RunFolder(home / "out").transcripts
    rest = transcript.law.decode(*transcript.view().component_sums().values())
    for number in rest.tolist():
        assert f"{number:g}" not in {*words.replace(",", " ").split()}
    assert own_run.ATTACK in names


def test_something_is_named_to_audit():
    found = run()
    assert found.exit_code == 2
    assert "say what to audit" in found.stderr
    found = run("--literature", "examples/average.toml")
    assert found.exit_code == 2
    assert "takes no file" in found.stderr


@pytest.mark.slow
def test_the_literature_is_a_word_away(tmp_path):
    words = ("--literature", "--depth", "quick", "--seed", 3)
    found = run(*words, "--out", tmp_path)
    assert found.exit_code == 0, found.output
    assert found.stdout == (tmp_path / "literature.txt").read_text()
    assert "pairwise (DECOR)" in found.stdout
    told = json.loads((tmp_path / "literature.json").read_text())
    assert [one["target"] for one in told["tables"]] == [0.05, 0.25, 1.0]
    assert {one["runs"] for one in told["tables"]} == {200}
    assert (tmp_path / "literature.png").read_bytes()[1:4] == b"PNG"
    again = json.loads(run(*words, "--json").stdout)
    assert again == told
