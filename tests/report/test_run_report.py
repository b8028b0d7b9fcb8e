"""The report of a run says what the run came to, and is one file that needs nothing."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from browser import opened
from finished import finished, wards
from net.runs import ITERATED, Company
from refusals import refused
from veilsum.cli.app import app
from veilsum.errors import MissingExtraError
from veilsum.net.receipt import make_receipt
from veilsum.party.audit_record import FORMAT, audit_environment
from veilsum.party.consent import consent_to
from veilsum.party.run import conclude_party_run
from veilsum.party.run_status import EventFeed
from veilsum.party.studying import STATUS
from veilsum.report import printing, run_report
from veilsum.report.drawing import draw
from veilsum.report.run_report import ReportedRun, report_of_run

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

EXAMPLES = Path(__file__).parents[2] / "examples"
QUESTIONS = [
    {"name": "who", "statistics": {}},
    {"name": "dose", "model": {"formula": "dose ~ age"}},
]


@pytest.fixture(scope="module", name="ran")
def ran_fixture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ran")
    return finished(wards(folder, model={"formula": "dose ~ age"}), folder)


@pytest.fixture(scope="module", name="study")
def study_fixture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return finished(wards(folder, question=QUESTIONS), folder)


@pytest.fixture(name="out")
def out_fixture(ran, tmp_path):
    """A member's folder, to be changed."""
    home = shutil.copytree(ran.folder / "ann", tmp_path / "ann")
    return home / "out"


def words(found):
    """What is to be read, without tags."""
    text = re.sub("<style>.*?</style>", "", found.content.decode(), flags=re.DOTALL)
    return " ".join(re.sub("<[^>]*>", " ", text).split())


def command(*given):
    return CliRunner().invoke(app, ["report", *map(str, given)])


def test_a_report_has_the_answer_and_all_that_belongs_to_it(ran):
    found = report_of_run(ran.out(), receipts=ran.receipts())
    assert found.good
    said = words(found)
    rows = json.loads((ran.out() / "result.json").read_text())["table"]
    assert len(rows) == 2
    for row in rows:
        assert row["name"] in said
        assert f"{row['coefficient']:.5g}"[:6] in said
    for heading in (
        *("The question", "The answer", "The network", "What is promised"),
        *("Who could compute what", "Audit", "Receipts", "Limits", "Who may read this"),
    ):
        assert f">{heading}</h2>" in found.content.decode()
    assert "Doses of four wards" in said
    assert "dose ~ age" in said
    assert "sees no difference between inputs with the same sums" in said
    assert "checks of what was signed hold." in said
    assert ran.agreed.digest.hex() in said
    assert len(found.content) < 500_000


def verifying(found):
    """The command that a report gives, as words without the program's name."""
    (line,) = re.findall("veilsum (verify [^<\n]*)", found.content.decode())[:1]
    return line.split()


def test_the_command_that_it_gives_verifies_it_in_the_folder_of_all(ran, monkeypatch):
    monkeypatch.chdir(ran.folder)
    given = verifying(report_of_run(ran.folder))
    at = given.index("*/out/receipt.json")
    given[at : at + 1] = map(str, sorted(Path().glob(given[at])))
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output


def test_the_command_that_it_gives_verifies_it_beside_one_member_s_result(
    ran, out, monkeypatch
):
    given = verifying(report_of_run(out))
    monkeypatch.chdir(out)
    Path("others").mkdir()
    for name in ("bob", "cem", "dee"):
        shutil.copy(ran.folder / name / "out" / "receipt.json", f"others/{name}.json")
    at = given.index("others/*.json")
    given[at : at + 1] = map(str, sorted(Path().glob(given[at])))
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output


def test_without_the_receipts_of_others_their_absence_is_said(ran):
    found = report_of_run(ran.out())
    assert found.good
    assert "Not here are the receipts of bob, cem, dee." in words(found)


def test_where_all_parties_are_on_one_computer_all_receipts_are_there(ran, study):
    for one, questions in ((ran, 1), (study, len(QUESTIONS))):
        found = report_of_run(one.folder)
        assert found.good
        assert "Not here are" not in words(found)
        checked = "edges are confirmed by both ends 6 of 6"
        assert words(found).count(checked) == questions
    one = report_of_run(ran.out(), receipts=ran.receipts())
    assert report_of_run(ran.folder).content == one.content


def test_two_receipts_of_one_party_are_seen(ran, tmp_path):
    fields = json.loads(ran.receipts()[1].read_text())
    for name in ("format", "party", "certificate", "signature"):
        del fields[name]
    fields["finished"] = "2031-01-31T12:00:00+00:00"
    other = tmp_path / "other.json"
    other.write_text(make_receipt(ran.identities["bob"], **fields).to_json())
    found = report_of_run(ran.out(), receipts=[*ran.receipts(), other])
    assert not found.good
    assert "one receipt for each party (bob has 2)" in words(found)


def test_a_report_of_a_study_has_every_question(study):
    paths = [path for one in QUESTIONS for path in study.receipts(one["name"])]
    found = report_of_run(study.out(), receipts=paths)
    assert found.good
    said = words(found)
    assert "Question: who" in said
    assert "Question: dose" in said
    assert "at most 2 sums" in said or "What the questions come to together" in said


def test_why_a_question_has_no_result_is_its_owners_alone(study, tmp_path):
    out = shutil.copytree(study.folder / "bob", tmp_path / "bob") / "out"
    status = json.loads((out / STATUS).read_text())
    status["questions"][0] |= {"stage": "refused", "reason": "REASON-7741 of bob"}
    (out / STATUS).write_text(json.dumps(status))
    found = report_of_run(out)
    assert "no result here" in words(found)
    for word in ("REASON-7741", "refused</td>"):
        assert word not in found.content.decode()


def test_a_result_that_does_not_follow_is_not_to_be_used(out):
    result = json.loads((out / "result.json").read_text())
    result["table"][1]["standard_error"] /= 2
    (out / "result.json").write_text(json.dumps(result))
    found = report_of_run(out)
    assert not found.good
    assert "Do not use this result." in words(found)
    assert "everything in the result file follows from the sums" in words(found)
    answer = command(out, "-o", out / "report.html")
    assert answer.exit_code == 1
    assert "not everything that was signed holds" in answer.stderr
    assert (out / "report.html").exists()


def test_a_receipt_that_somebody_changed_is_not_to_be_used(out):
    receipt = json.loads((out / "receipt.json").read_text())
    receipt["released"] = []
    (out / "receipt.json").write_text(json.dumps(receipt))
    found = report_of_run(out)
    assert not found.good
    assert "signatures are good (not of ann)" in words(found)


def test_without_sums_the_numbers_of_the_file_are_shown_as_such(out):
    (out / "sums.json").unlink()
    said = words(report_of_run(out))
    assert "these are numbers of result.json as they stand" in said
    assert "status private" in said


def test_who_was_lost_is_said(tmp_path):
    rules = {"drop": True, "minimum_honest": 2}
    made = wards(tmp_path, model={"formula": "dose ~ age"}, policy=rules)
    ran = finished(made, tmp_path, lost=("dee",))
    found = report_of_run(ran.out(), receipts=ran.receipts())
    assert found.good, words(found)
    said = words(found)
    assert "lost on the way dee" in said
    assert "Rings: dee, lost on the way." in said
    assert "dee did not stay to the end: all sums are over ann, bob, cem" in said
    assert "knows them over the 2 others" in said
    assert "dee lost not here" in said
    assert "WEAKER THAN USUAL: minimum_honest = 2" in said


def test_without_figures_there_is_a_report_all_the_same(ran, monkeypatch):
    def refuse(_):
        raise MissingExtraError("figures need matplotlib")

    monkeypatch.setattr(run_report, "draw", refuse)
    found = report_of_run(ran.out())
    assert found.good
    assert "No figure was drawn: figures need matplotlib" in words(found)


def test_figures_that_would_be_too_large_are_left_out(ran, monkeypatch):
    whole = report_of_run(ran.out()).content
    monkeypatch.setattr(run_report, "figure_svg", lambda _: b" " * 200_000)
    found = report_of_run(ran.out())
    assert "Its figure would make this file too large." in words(found)
    assert len(found.content) < len(whole)


def test_prices_of_a_day_are_drawn_without_anybodys_output(tmp_path):
    ran = finished(EXAMPLES / "day.toml", tmp_path)
    result = ReportedRun(ran.out(), ()).result
    assert not result.outputs, "nobody's own is in what all know"
    (axis,) = draw(result).axes
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("period", "price")


@pytest.mark.slow
def test_an_answer_that_comes_in_rounds_is_worked_out_from_the_file(tmp_path):
    company = Company(tmp_path, ITERATED)
    found = company.run()
    home, driver = company.folder("a"), company.drivers["a"]
    (home / "out").mkdir()
    page, feed = consent_to(company.consortium), EventFeed(company.consortium.run, "a")
    conclude_party_run(driver, found["a"], page, feed, home / "out")
    made = report_of_run(home / "out")
    assert made.good, words(made)
    assert not (home / "out" / "sums.json").exists()
    for number in found["a"].answer:
        assert f"{number:.5g}" in words(made)


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("receipt.json", "there is no receipt.json in"),
        ("../consortium.toml", "is neither in"),
        ("result.json", "result.json"),
    ],
)
def test_what_has_to_be_there_is_named(out, missing, told):
    (out / missing).unlink()
    answer = command(out, "-o", out / "report.html")
    assert answer.exit_code == 2
    assert told in answer.stderr
    assert not (out / "report.html").exists()


def test_a_plan_or_a_file_is_no_run(tmp_path):
    with refused("not-a-folder"):
        report_of_run(tmp_path / "plan.toml")


def test_an_audit_of_another_file_or_none_at_all_is_left_out(out):
    record = {
        "format": FORMAT,
        "made_with": audit_environment(),
        "asked": {
            "coalitions": "worst",
            "executions": 10,
            "depth": "quick",
            "distance": None,
            "seed": 0,
        },
        "agreed": {"file": "0" * 64},
        "audit": {},
        "clock": [],
    }
    path = out / "audit.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    assert "is about another file" in words(report_of_run(out))
    agreed = (out.parent / "consortium.toml").read_bytes()
    record["agreed"]["file"] = hashlib.sha256(agreed).hexdigest()
    for odd in ({}, {"findings": 0, "crossed": [], "broken": [], "verdict": "x"}):
        record["audit"] = odd
        path.write_text(json.dumps(record, indent=2) + "\n")
        assert "is not as veilsum audit writes it" in words(report_of_run(out))


@pytest.mark.slow
def test_real_audits_of_a_study_are_shown_with_their_questions(study, tmp_path):
    home = shutil.copytree(study.folder / "bob", tmp_path / "bob")
    asked = ["audit", home / "consortium.toml", "--depth", "quick"]
    asked += ["--executions", 300, "--out", home / "out"]
    assert CliRunner().invoke(app, [*map(str, asked)]).exit_code == 0
    said = words(report_of_run(home / "out"))
    assert said.count("How often attacks may succeed, and did") == len(QUESTIONS)
    shutil.copy(home / "out" / "who" / "audit.json", home / "out" / "dose")
    said = words(report_of_run(home / "out"))
    assert said.count("How often attacks may succeed, and did") == 1
    assert said.count("is about another file") == 1


@pytest.mark.slow
def test_a_real_audit_is_shown(out):
    asked = ["audit", out.parent / "consortium.toml", "--depth", "quick"]
    asked += ["--executions", 500, "--out", out]
    made = CliRunner().invoke(app, [*map(str, asked)])
    assert made.exit_code == 0, made.output
    said = words(report_of_run(out))
    assert json.loads((out / "audit.json").read_text())["audit"]["verdict"] in said
    assert "The record is not signed." in said


def test_the_command_writes_one_file_for_its_owner(ran, tmp_path):
    target = tmp_path / "made" / "report.html"
    given = [word for one in ran.receipts()[1:] for word in ("--receipt", one)]
    answer = command(ran.out(), "-o", target, "--json", *given)
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert told == {"file": str(target), "bytes": target.stat().st_size, "good": True}
    assert target.stat().st_mode & 0o077 == 0
    assert [*target.parent.iterdir()] == [target]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--format", "docx"], "is for an officer: add --for dpo"),
        (["--language", "de"], "other languages are for an officer: add --for dpo"),
    ],
)
def test_what_is_for_officers_is_said_to_be(ran, tmp_path, given, told):
    answer = command(ran.out(), "-o", tmp_path / "r", *given)
    assert answer.exit_code == 2
    assert told in answer.stderr


def test_without_a_browser_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr(printing.shutil, "which", lambda _: None)
    with refused("missing-browser", MissingExtraError):
        printing.report_pdf(b"")


@pytest.mark.slow
@pytest.mark.skipif(
    printing.chromium_for_reports() is None, reason="no Chromium to print with"
)
def test_a_report_is_printed(ran, tmp_path):
    target = tmp_path / "report.pdf"
    answer = command(ran.out(), "-o", target, "--format", "pdf")
    assert answer.exit_code == 0, answer.output
    assert target.read_bytes().startswith(b"%PDF-")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_opens_in_a_browser(study, tmp_path, width, scheme):
    path = tmp_path / "report.html"
    path.write_bytes(report_of_run(study.out()).content)
    with opened(path, width=width, scheme=scheme) as seen:
        script = "document.querySelectorAll('details').forEach(one => one.open = true)"
        for _ in ("folded", "unfolded"):
            assert (seen.errors, seen.outside, seen.too_wide) == ([], [], 0)
            seen.page.evaluate(script)
