"""An audit that was stopped, or lost those who shared it, goes on to the same bytes."""

import json
from concurrent.futures import BrokenExecutor
from functools import cache

import pytest
from click.testing import CliRunner

import refusals
import veilsum as vs
from audit.questions import COST, NAMES, question
from audit.test_record import SCENARIO
from veilsum.audit import auditing, real_parties, share_law
from veilsum.audit.attack import Outcome, Scene
from veilsum.audit.question import SkippedAttack
from veilsum.audit.unfinished import NAME, AttackSoFar, UnfinishedAudit
from veilsum.cli.app import app
from veilsum.masks.laws import Masks
from veilsum.scale.pieces import map_pieces

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

FOUR = vs.Topology.family("complete:4")
SCENE = Scene(topology=FOUR, law=Masks("lattice", 1.0, 20).on(FOUR), width=2)
GROUPS = [("0",), ("1", "2")]
AGREED = {"asked": 1}


def make_small(patch):
    """Batches of 25 executions, few shares, and no controls, which take the longest."""
    patch.setattr(auditing, "BATCH_NUMBERS", 600)
    patch.setattr(auditing, "PLANTED", {})
    patch.setattr(auditing, "LEARNED", 50)
    patch.setattr(auditing, "CONTROLLED", 50)
    patch.setattr(share_law, "SHARES", 64)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    make_small(monkeypatch)


def quick(kept=None, **options):
    how = {"executions": 200, "depth": "quick", "seed": 4, "progress": False}
    return auditing.audit(SCENE, GROUPS, kept=kept, **{**how, **options})


@cache
def whole_one():
    """The audit that nothing stops: the same for every test."""
    return quick().to_dict()


def ending_after(pieces, error):
    """Have the next mapping end after so many pieces, once."""
    left = [pieces]

    def ended(work, keys, **options):
        for k, found in enumerate(map_pieces(work, keys, **options)):
            if left and k == left[0]:
                left.clear()
                raise error
            yield found

    return ended


@pytest.mark.parametrize("pieces", [1, 3, 7])
def test_stopped_by_hand_it_goes_on_to_the_same_bytes(pieces, monkeypatch, tmp_path):
    ended = ending_after(pieces, KeyboardInterrupt())
    monkeypatch.setattr(auditing, "map_pieces", ended)
    first = quick(UnfinishedAudit.begun(tmp_path, AGREED))
    assert first.executions == 25 * pieces
    assert not first.is_whole
    assert first.to_dict() != whole_one()
    monkeypatch.setattr(auditing, "map_pieces", map_pieces)
    told = []
    again = quick(UnfinishedAudit.begun(tmp_path, AGREED))
    assert again.to_dict() == whole_one()
    # What was played before is not played again.
    auditing.play_attacks(
        SCENE,
        auditing._likelihood_guessers(SCENE, GROUPS, again.distance, 4),
        200,
        seed=4,
        what="play",
        kept=UnfinishedAudit.begun(tmp_path, AGREED),
        progress=told.append,
    )
    assert told == []


def test_a_bar_does_not_go_beyond_what_was_asked_for():
    """The last batch is a whole one."""
    told = []
    found = quick(executions=60, progress=lambda *one: told.append(one))
    assert found.executions == 75
    assert told == [(25, 60), (50, 60), (60, 60)]


def test_who_loses_those_who_share_it_hears_what_is_kept(monkeypatch, tmp_path):
    gone = BrokenExecutor("the Ray cluster at here:1 is gone: it was unplugged")
    monkeypatch.setattr(auditing, "map_pieces", ending_after(2, gone))
    with pytest.raises(vs.InvalidInputError) as refused:
        quick(UnfinishedAudit.begun(tmp_path, AGREED))
    said = str(refused.value)
    assert "it was unplugged" in said
    assert f"50 of 200 executions are in {tmp_path / NAME}" in said
    assert "the same command goes on" in said
    assert quick(UnfinishedAudit.begun(tmp_path, AGREED)).to_dict() == whole_one()
    monkeypatch.setattr(auditing, "map_pieces", ending_after(2, gone))
    with refusals.refused("workers-lost", vs.InvalidInputError, mentions=("--out",)):
        quick()


def test_further_attacks_go_on_where_they_were(monkeypatch, tmp_path):
    monkeypatch.setattr(auditing, "TRIALS", {"standard": 1})
    monkeypatch.setattr(auditing, "RUNS", {"standard": 1})
    monkeypatch.setattr(auditing, "_play_share_attacks", lambda *_args, **_options: [])
    # Three parties: real ones take the longest, and three are played as five are.
    asked = question(names=NAMES[:3], policy={"minimum_honest": 2}, **COST)
    scene = auditing.scene_of_audit(asked)

    def all_of(kept):
        return auditing.audit_question(
            asked, scene, [("ann",)], executions=40, seed=1, kept=kept, progress=False
        ).to_dict()

    whole = all_of(None)
    assert real_parties.REAL_PARTIES in {one["attack"] for one in whole["outcomes"]}
    played = []
    for again in range(3):
        once = [again]
        steps = auditing.OnSums.__call__

        def stopping(self, key, seed, once=once, steps=steps):
            played.append(key)
            if once and key == 2 * again + 1:  # noqa: B023 - called in this turn only
                once.clear()
                raise KeyboardInterrupt
            return steps(self, key, seed)

        with monkeypatch.context() as patch:
            patch.setattr(auditing.OnSums, "__call__", stopping)
            found = all_of(UnfinishedAudit.begun(tmp_path, AGREED))
        assert any("stopped by hand" in one for one in found["skipped"])
    assert played == [0, 1, 1, 2, 3, 3, 4, 5]
    assert all_of(UnfinishedAudit.begun(tmp_path, AGREED)) == whole


def test_every_kind_of_gain_comes_back_as_it_was():
    outcome = Outcome(
        attack="a",
        coalition=("x", "y"),
        about="b",
        trials=3,
        successes=1,
        promised=0.1,
        looked_at="frames",
    )
    for one in (outcome, SkippedAttack("a", "there is nothing"), "a sentence"):
        assert AttackSoFar.of(one).gain == one


def put(value, *path):
    """Return what changes one place of a file's content."""

    def change(content):
        *way, last = path
        for key in way:
            content = content[key]
        content[last] = value

    return change


PLAYED = ("counted", "play")


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory):
    """The file of an audit that was stopped after two batches."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        ended = ending_after(2, KeyboardInterrupt())
        patch.setattr(auditing, "map_pieces", ended)
        quick(UnfinishedAudit.begun(folder, AGREED))
    return (folder / NAME).read_text()


@pytest.mark.parametrize(
    "change",
    [
        put(26, *PLAYED, "executions"),
        put(2500, *PLAYED, "executions"),
        put(-25, *PLAYED, "executions"),
        put(2**70, *PLAYED, "executions"),
        put([50, 51], *PLAYED, "counts", 0),
        put([49, 1], *PLAYED, "counts", 0),
        put([], *PLAYED, "counts"),
        put({}, *PLAYED, "scores"),
        put([[50], [0]], *PLAYED, "scores", "0"),
        put([[1] * 160, [0] * 160], *PLAYED, "scores", "0"),
        put("many", *PLAYED, "executions"),
        put({"0": [{"__class__": "x"}]}, "attacks"),
        put("0" * 32, "audit"),
        put("veilsum unfinished audit 2", "format"),
        put(1, "more"),
    ],
)
def test_what_no_audit_left_is_refused(change, left_behind, tmp_path):
    content = json.loads(left_behind)
    change(content)
    (tmp_path / NAME).write_text(json.dumps(content))
    with pytest.raises(vs.InvalidInputError, match=r"not of this audit|no audit has"):
        quick(UnfinishedAudit.begun(tmp_path, AGREED))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "\x80"])
def test_what_is_no_file_of_ours_is_refused(text, tmp_path):
    (tmp_path / NAME).write_text(text)
    with refusals.refused("unfinished-audit-differs", vs.InvalidInputError):
        UnfinishedAudit.begun(tmp_path, AGREED)


def test_another_audit_is_not_gone_on_with(tmp_path):
    UnfinishedAudit.begun(tmp_path, AGREED).write()
    assert UnfinishedAudit.begun(tmp_path, AGREED).counted == {}
    with refusals.refused("unfinished-audit-differs", vs.InvalidInputError):
        UnfinishedAudit.begun(tmp_path, {"asked": 2})


def test_the_command_goes_on_and_takes_its_file_away(monkeypatch, tmp_path):
    file, out = tmp_path / "offices.toml", tmp_path / "out"
    file.write_text(SCENARIO)
    words = ["audit", str(file), "--depth", "quick", "--executions", "600"]
    monkeypatch.setattr("veilsum.cli.audit._draw_audit_figure", lambda *_: {})
    run = CliRunner().invoke
    assert run(app, [*words, "--out", str(tmp_path / "whole")]).exit_code == 0
    ended = ending_after(3, KeyboardInterrupt())
    monkeypatch.setattr(auditing, "map_pieces", ended)
    stopped = run(app, [*words, "--out", str(out)])
    assert "the same command goes on from there" in stopped.output
    assert (out / NAME).exists()
    # Another audit would mix its numbers with these.
    other = run(app, [*words, "--seed", "1", "--out", str(out)])
    assert other.exit_code == 2
    assert "not of this audit" in other.output
    assert run(app, [*words, "--out", str(out)]).exit_code == 0
    assert not (out / NAME).exists()
    found, wanted = (
        (one / "audit.json").read_bytes() for one in (out, tmp_path / "whole")
    )
    assert found == wanted


@pytest.mark.parametrize("kept", [True, False])
def test_stopped_between_two_attacks_it_says_what_is_kept(kept, monkeypatch, tmp_path):
    def stopped(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(auditing, "_sham_controls", stopped)
    file, out = tmp_path / "offices.toml", tmp_path / "out"
    file.write_text(SCENARIO)
    words = ["audit", str(file), "--depth", "quick", "--executions", "60"]
    ended = CliRunner().invoke(app, [*words, *(["--out", str(out)] if kept else [])])
    assert ended.exit_code == 1
    assert (f"stopped: {out / NAME} has what was counted" in ended.stderr) == kept


def test_who_is_gone_when_roots_are_looked_up_is_said_too(monkeypatch, tmp_path):
    def gone(*_args, **_options):
        raise BrokenExecutor("the cluster is gone")

    monkeypatch.setattr("veilsum.audit.weak_randomness.map_pieces", gone)
    with refusals.refused("workers-lost", vs.InvalidInputError):
        quick(UnfinishedAudit.begun(tmp_path, AGREED), depth="standard")
