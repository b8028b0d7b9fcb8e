"""Every example, and every whole scenario of the docs, can be audited."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from cases import each
from veilsum.audit.auditing import (
    audit_question,
    coalitions_of,
    play_attacks,
    scene_of_audit,
)
from veilsum.audit.likelihood import aim, distance_for_attack_success
from veilsum.audit.question import BRIEF, AuditRehearsal
from veilsum.cli.app import app

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.toml"))
BLOCK = re.compile(r"```toml[^\n]*\n(.*?)```", re.DOTALL)
# What a block has that is a whole scenario, and no part of one.
WHOLE = re.compile(r"^\[(graph|data|deployment\.certificates)\]", re.MULTILINE)
PAGES = [
    pytest.param(text, id=f"{page.stem}-{k}")
    for page in sorted((ROOT / "docs" / "guides").rglob("*.md"))
    for k, text in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    if WHOLE.search(text)
]


def test_there_are_such_files():
    assert len(EXAMPLES) >= 20
    assert len(PAGES) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_audited(path):
    found = CliRunner().invoke(app, ["audit", str(path), "--depth", "quick", "--json"])
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    several = document.get("questions", {"": document})
    assert len(several) == (3 if path.stem == "study" else 1)
    for told in (one["audit"] for one in several.values()):
        assert told["broken"] == []
        assert told["executions"] >= 10_000 or told["executions"] >= told["asked"]
        assert {one["attack"] for one in told["outcomes"]} >= {"likelihood ratio"}
        assert told["curves"]


def test_one_question_of_a_study_is_audited_and_its_record_replayed(tmp_path):
    def run(*words):
        return CliRunner().invoke(
            app, ["audit", str(ROOT / "examples" / "study.toml"), *words]
        )

    brief = ["--depth", "quick", "--executions", "200"]
    refused = run(*brief, "--question", "none-such")
    assert refused.exit_code == 2
    assert "radius" in refused.output
    found = run(*brief, "--question", "radius", "--out", str(tmp_path))
    assert found.exit_code in (0, 1), found.output
    record = tmp_path / "audit.json"
    assert json.loads(record.read_text())["asked"]["question"] == "radius"
    again = run("--replay", str(record))
    assert "the same bytes" in again.output


@pytest.mark.slow
@pytest.mark.parametrize("text", PAGES)
def test_a_scenario_of_the_docs_has_masks_to_audit(text, tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(text, encoding="utf-8")
    scene = scene_of_audit(AuditRehearsal.read(path))
    assert scene.law.hides
    assert scene.width >= 1


@each(
    ("name", "width", "coalition"),
    [("paper", 1, ("2",)), ("quadratic", 20, ()), ("rendezvous", 2, ())],
)
def test_masks_of_a_simulation_are_audited_as_they_are(name, width, coalition):
    question = AuditRehearsal.read(ROOT / "examples" / f"{name}.toml")
    scene = scene_of_audit(question)
    assert scene.law.name == "gaussian"
    assert question.consortium.masks.law == "lattice"
    assert scene.width == width
    assert question.named[: len(coalition)] == coalition
    group = question.named
    far = distance_for_attack_success(scene, group, 0.6)
    player = aim(scene, group, far)
    assert player.promised == pytest.approx(0.6, abs=1e-9)
    tally, done = play_attacks(scene, [player], 4_000, seed=1, what="play")
    # Four standard errors of 4,000 coins.
    assert tally.counts[0, 1] / done == pytest.approx(0.6, abs=0.031)


@pytest.mark.slow
def test_parties_that_would_refuse_a_real_run_have_their_masks_audited():
    """The paper's triangle: real parties want three honest ones."""
    question = AuditRehearsal.read(ROOT / "examples" / "paper.toml")
    scene = scene_of_audit(question)
    groups = coalitions_of(scene.topology, "worst", 1, named=question.named)
    assert ("2",) in groups
    found = audit_question(question, scene, groups[:1], executions=500)
    (skipped,) = [one for one in found.skipped if one.startswith("sums and frames")]
    assert "minimum_honest" in skipped
    assert {one.looked_at for one in found.outcomes} == {"masks"}


def test_machines_play_few_iterations_of_a_long_method():
    question = AuditRehearsal.read(ROOT / "examples" / "rendezvous.toml")
    assert question.asked.settings.iterations == 20_000
    brief = question.brief
    assert brief.asked.settings.iterations == BRIEF
    assert brief.brief is brief
