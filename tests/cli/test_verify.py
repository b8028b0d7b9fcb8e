"""`veilsum verify`: a line for each finding, and an exit code to rely on."""

import json
from functools import cached_property

import pytest
from click.testing import CliRunner

from contradictions import MASKED, OTHER_START, Accuser, moved
from receipts import OTHER, PARTIES, Study
from veilsum import __version__
from veilsum.cli.app import app
from veilsum.files.consortiums import write_consortium
from veilsum.files.output import as_strict_json
from veilsum.net.identity import certificate_fingerprint, new_identity
from veilsum.party.replay import plan_to_replay
from veilsum.sums.kinds import resolve_agreed_question


class Agreed(Study):
    """Whose receipts say what follows from the consortium file."""

    @cached_property
    def true(self):
        asked = resolve_agreed_question(self.consortium)
        promise = asked.recipe.stated(asked.terms.guarantee, [])
        return {
            "plan": plan_to_replay(self.consortium, asked).digest.hex(),
            "guarantee": json.loads(as_strict_json(promise.to_dict())),
            "released": asked.recipe.shown(PARTIES, []),
        }

    def fields(self, party, **changes):
        return super().fields(party, **{**self.true, "epochs": [0], **changes})


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Agreed(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def consortium(study, tmp_path):
    path = tmp_path / "study.veil"
    write_consortium(path, study.consortium)
    return path


def write(folder, receipts):
    paths = [folder / f"receipt-{k}.json" for k in range(len(receipts))]
    for path, receipt in zip(paths, receipts, strict=True):
        path.write_text(receipt.to_json())
    return paths


def call(*words):
    return CliRunner().invoke(app, ["verify", *map(str, words)])


def lines(found, mark):
    return [line for line in found.stdout.splitlines() if line.startswith(mark)]


def test_receipts_of_a_good_run_hold(study, consortium, tmp_path):
    found = call(*write(tmp_path, study.receipts()), "--consortium", consortium)
    assert found.exit_code == 0, found.output
    assert "ok      signatures are good: 5 of 5" in found.stdout
    assert "ok      edges are confirmed by both ends: 6 of 6" in found.stdout
    assert lines(found, "NOT ok") == []
    assert found.stdout.endswith("5 receipts: everything holds\n")
    assert "telephone" not in found.stdout


def test_without_a_consortium_people_compare_fingerprints(study, tmp_path):
    found = call(*write(tmp_path, study.receipts()))
    assert found.exit_code == 0, found.output
    assert "compare by telephone" in found.stdout
    for name, identity in study.identities.items():
        assert (
            f"  {name}  {certificate_fingerprint(identity.certificate)}\n"
            in found.stdout
        )


def test_one_changed_digit_is_found(study, consortium, tmp_path):
    paths = write(tmp_path, study.receipts())
    changed = paths[2].read_text().replace('"epsilon": 0.0', '"epsilon": -1.0')
    paths[2].write_text(changed)
    signed = [
        "NOT ok  signatures are good: not of c",
        "NOT ok  the same guarantee: a, b, d, e against c",
    ]
    agreed = "NOT ok  the guarantee is the file's: not of c"
    for words in ([], ["--consortium", consortium]):
        found = call(*paths, *words)
        assert found.exit_code == 1
        assert lines(found, "NOT ok") == [*signed, *([agreed] if words else [])]
        assert found.stdout.endswith("NOT everything holds\n")


def test_what_everybody_signs_together_is_held_against_the_file(
    study, consortium, tmp_path
):
    """All signatures are good, and all say the same: only the file knows better."""
    lies = {
        "the guarantee is the file's": {
            "guarantee": {**study.true["guarantee"], "epsilon": -1.0}
        },
        "what was released is what the file asks for": {"released": []},
        "the plan is the file's": {"plan": OTHER},
        "the page that was agreed to is the file's": {
            "consent": OTHER,
            "version": __version__,
        },
    }
    for check, lie in lies.items():
        paths = write(tmp_path, study.receipts(**lie))
        assert call(*paths).exit_code == 0, "the twin: without the file it passes"
        found = call(*paths, "--consortium", consortium)
        assert found.exit_code == 1
        (line,) = lines(found, "NOT ok")
        assert line.startswith(f"NOT ok  {check}: not of a")


WRONG = {
    "two results": (lambda s: [*s.receipts("e"), s.receipt("e", result=OTHER)], 1),
    "one missing": (lambda s: s.receipts("e"), 2),
    "one twice": (lambda s: [*s.receipts(), s.receipt("b")], 1),
    "one edge": (lambda s: [*s.receipts("b"), s.receipt("b", confirmed=["a"])], 1),
}


@pytest.mark.parametrize(("make", "count"), WRONG.values(), ids=WRONG)
def test_what_does_not_hold_is_said_on_a_line_and_by_the_exit_code(
    study, tmp_path, make, count
):
    found = call(*write(tmp_path, make(study)))
    assert found.exit_code == 1
    assert len(lines(found, "NOT ok")) == count


def test_certificates_of_others_are_found_with_the_consortium(
    study, consortium, tmp_path
):
    outsider = new_identity("a", tmp_path)
    receipts = [study.receipt("a", signer=outsider), *study.receipts("a")]
    paths = write(tmp_path, receipts)
    assert call(*paths).exit_code == 0, "the twin: only people can tell"
    found = call(*paths, "--consortium", consortium)
    assert found.exit_code == 1
    assert lines(found, "NOT ok") == ["NOT ok  certificates are the members': not of a"]


def test_json_has_the_findings(study, consortium, tmp_path):
    paths = write(tmp_path, study.receipts("e"))
    found = call(*paths, "--consortium", consortium, "--json")
    assert found.exit_code == 1
    document = json.loads(found.stdout)
    assert document["good"] is False
    assert [one["party"] for one in document["fingerprints"]] == list(PARTIES[:-1])
    bad = [one["check"] for one in document["findings"] if not one["good"]]
    assert bad == ["receipts of all parties", "edges are confirmed by both ends"]


def test_files_that_cannot_be_used_end_with_2_and_a_sentence(study, tmp_path):
    paths = write(tmp_path, study.receipts())
    broken = tmp_path / "broken.json"
    broken.write_text(paths[0].read_text()[:-20])
    other = tmp_path / "other.veil"
    other.write_text("[graph]")
    cases = [
        ([*paths, broken], "is not a receipt"),
        ([*paths, tmp_path / "nowhere.json"], "cannot read"),
        ([*paths, tmp_path], "cannot read"),
        ([*paths, "--consortium", other], "other.veil"),
        ([*paths, "--consortium", tmp_path / "nowhere.veil"], "cannot read"),
        ([], "RECEIPTS"),
    ]
    for words, sentence in cases:
        found = call(*words)
        assert found.exit_code == 2, found.output
        assert found.stdout == ""
        assert sentence in found.stderr
        assert found.stderr.count("\n") == 1


# Evidence


def shown(folder, *evidence):
    paths = [folder / f"evidence-{k}.json" for k in range(len(evidence))]
    for path, one in zip(paths, evidence, strict=True):
        path.write_text(one.to_json())
    return paths


def test_evidence_alone_says_in_a_sentence_who_contradicted_itself(
    study, consortium, tmp_path
):
    found = call(*shown(tmp_path, Accuser(study).lie()), "--consortium", consortium)
    assert found.exit_code == 0, found.output
    assert found.stdout == (
        "proved  'd' contradicted itself, and both signatures prove it: in one start, "
        f"under the plan {'70' * 8}, it signed two different Masked records of epoch "
        "0, which no honest party does\n"
    )


def test_without_a_consortium_nobody_is_named_by_evidence(study, tmp_path):
    found = call(*shown(tmp_path, Accuser(study).lie()))
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("proved  whoever has the key that is in it for 'd'")
    told = certificate_fingerprint(study.identities["d"].certificate)
    assert f"compare by telephone\n  d  {told}\n" in found.stdout


def test_what_proves_nothing_says_why_and_ends_with_1(study, consortium, tmp_path):
    accuser = Accuser(study)
    same = [accuser.frame(MASKED)] * 2
    two = [accuser.frame(MASKED), accuser.frame(moved(MASKED), start=OTHER_START)]
    paths = shown(tmp_path, accuser.lie(), accuser.shown(*same), accuser.shown(*two))
    found = call(*paths, "--consortium", consortium)
    assert found.exit_code == 1
    assert len(lines(found, "proved")) == 1
    one, other = lines(found, "NOT ok")
    assert one.endswith("against 'd': the two records are one and the same")
    assert "of two starts, and whoever has lost its disk starts anew" in other


def test_receipts_and_the_evidence_they_speak_of(study, tmp_path):
    """Under a plan of their own: no consortium file has it."""
    proof = Accuser(study).lie()
    spoken = {"plan": proof.plan, "evidence": [proof.digest]}
    receipts = [study.receipt("b", **spoken), *study.receipts("b", plan=proof.plan)]
    paths = write(tmp_path, receipts)
    found = call(*paths)
    assert found.exit_code == 0, found.output
    assert lines(found, "note") == [
        f"note    b has evidence that is not here: {proof.digest}"
    ]
    paths += shown(tmp_path, proof)
    found = call(*paths)
    assert found.exit_code == 0, found.output
    assert lines(found, "note") == []
    assert len(lines(found, "proved")) == 1
    assert found.stdout.endswith("5 receipts: everything holds\n")
    document = json.loads(call(*paths, "--json").stdout)
    assert document["absent"] == []
    (told,) = document["evidence"]
    assert (told["party"], told["digest"], told["proved"]) == ("d", proof.digest, True)


def test_hostile_evidence_ends_with_2_and_a_sentence(study, tmp_path):
    text = Accuser(study).lie().to_json()
    bad = {
        "cut": text[:-20],
        "twice": text.replace('"party": "d"', '"party": "d", "party": "c"'),
        "deep": text.replace('"party": "d"', f'"party": {"[" * 9000}{"]" * 9000}'),
        "infinite": text.replace('"party": "d"', '"party": Infinity'),
        "another": text.replace("evidence 3", "evidence 9"),
        "older": text.replace("evidence 3", "evidence 2"),
        "more": text.replace('"party": "d"', '"party": "d", "x": 0'),
    }
    assert text not in bad.values()
    for name, content in bad.items():
        path = tmp_path / f"{name}.json"
        path.write_text(content)
        found = call(path)
        assert found.exit_code == 2, name
        assert found.stdout == ""
        assert "is not a receipt or evidence" in found.stderr
        assert found.stderr.count("\n") == 1
        if name == "older":
            assert (
                'found "veilsum evidence 2": read it with the version' in found.stderr
            )
    large = tmp_path / "large.json"
    with large.open("wb") as stream:
        stream.truncate((64 << 20) + 1)
    assert "are the most for a file of this kind" in call(large).stderr


def test_the_help_ends_with_an_example():
    found = call("--help")
    assert found.exit_code == 0
    assert "Example:\n    veilsum verify" in found.output
