"""The officer's annex of a survey: its sentences, and numbers that code computes."""

import json
import re
from contextlib import closing
from itertools import combinations

import pytest
import tomli_w
from click.testing import CliRunner

from browser import SCHEMES, WIDTHS, opened
from refusals import refused
from report.officer_plans import NOW, SURVEYS
from report.test_officer import read_annex
from surveys import MEMBERS, World
from veilsum.cli.app import app
from veilsum.consortium.consortium import consortium_from
from veilsum.locale import catalogue_languages
from veilsum.report import annex as papers, forms, officer
from veilsum.report.plan_facts import plan_facts_of
from veilsum.report.printing import chromium_for_reports, report_pdf
from veilsum.report.sentences import report_risks
from veilsum.surveys.collection import SurveyGuestCollection
from veilsum.surveys.terms import survey_terms


def test_nothing_is_called_private_or_anonymous(known_surveys):
    for facts in known_surveys.values():
        for language in catalogue_languages():
            paper = (
                f"{papers.annex_of_plan(facts, language)} "
                f"{forms.edpb_paper(facts, language)}"
            )
            for words in ("private key", "private Schlüssel"):
                paper = paper.replace(words, "")
            told = [
                one
                for one in paper.split(". ")
                if re.search(r"\bprivate\b|\bprivat\b|anonym", one)
            ]
            assert all("does not call" in one or "nennt die" in one for one in told)


# The facts


def test_facts_are_the_survey_s(known_surveys, survey_files):
    for name, path in survey_files.items():
        facts, terms = known_surveys[name], survey_terms(consortium_from(SURVEYS[name]))
        assert facts.survey.terms == terms
        assert facts.parties == MEMBERS == terms.names
        assert facts.tolerate == terms.tolerate
        assert facts.digest == consortium_from(SURVEYS[name]).digest.hex()
        assert facts.file == path.name
        assert not facts.on_tables
        assert facts.epsilon == 0.0
        told = " ".join(papers.annex_paper_texts(facts, "purpose", "en"))
        assert f"{len(terms.guests)} are invited" in told
        assert ("The survey is closed" in told) == (name == "closed")
    assert known_surveys["uneven"].survey.invited == {"ann": 3, "bob": 9, "cem": 6}
    assert known_surveys["open"].survey.most_totals == 4
    assert known_surveys["closed"].survey.most_totals == 3  # one filled the fourth cell


def test_who_is_left_is_what_every_coalition_leaves(known_surveys):
    """By trying all coalitions, and all further guests, one by one."""
    for facts in known_surveys.values():
        terms = facts.survey.terms
        for size in range(1, len(MEMBERS)):
            here = terms.guests if terms.tally is None else terms.guests[:-1]
            least = min(
                sum(guest.invited_by not in bad for guest in here)
                for bad in combinations(MEMBERS, size)
            )
            assert facts.survey.at_worst(size) == max(0, least - terms.tolerate_guests)


def test_a_reader_of_the_annex_finds_what_code_computes(known_surveys, survey_files):
    for name, path in survey_files.items():
        facts, terms = known_surveys[name], known_surveys[name].survey.terms
        page = officer.officer_document(path, format="html", language="en", now=NOW)
        rows = papers.who_learns_what(facts, "en")
        assert {"guest", "host", "member", "everybody", "reader"} <= rows.keys()
        assert read_annex(page).keys() >= {"each guest", "each member"}
        assert ("coalition" in rows) == (terms.tolerate > 0)
        assert ("beyond" in rows) == (terms.tolerate < len(MEMBERS) - 1)
        if terms.tolerate:
            text = " ".join(rows["coalition"][1])
            (left,) = re.findall(r"\((\d+) at worst", text)
            came = [*terms.roster][: -1 if name == "closed" else None]
            assert int(left) == terms.honest(came)
            assert ("of the 11 in the set" in text) == (name == "closed")
            (needed,) = re.findall(r"filled by (\d+) of these", text)
            assert int(needed) == terms.minimum_honest + 1
        if "beyond" in rows:
            text = " ".join(rows["beyond"][1])
            found = re.findall(r"(\d+) of (\d+) leave (\d+) at worst", text)
            left = facts.survey.at_worst(2)
            assert found == [("2", "3", str(left))]
        _, everything, _ = rows["everybody"]
        assert everything == ("3 of 3 together: every number of every guest",)


def test_the_picture_promises_nothing_beyond_the_proof(known_surveys):
    def bars(name):
        return [
            one
            for block in papers.paper_chance_bars(known_surveys[name], "en")
            for one in block.bars
        ]

    assert bars("open") == [
        ("by tossing a coin", 0.5),
        ("one member", 0.5),
        ("2 of 3 members together", None),
        ("all 3 members together", 1.0),
    ]
    assert bars("all but one")[1:] == [
        ("up to 2 members together", 0.5),
        ("all 3 members together", 1.0),
    ]
    assert bars("nobody") == []


def test_weaker_rules_come_first(known_surveys):
    told = papers.annex_paper_texts(known_surveys["weak"], "alarm", "en")
    assert "minimum_honest = 2 (usual: 3)" in told[0]
    assert "minimum_guests = 3 (usual: 5)" in told[1]
    assert "does not say who that is" in told[2]
    assert papers.annex_paper_texts(known_surveys["open"], "alarm", "en") == ()
    assert (
        "none of them may be curious"
        in papers.annex_paper_texts(known_surveys["nobody"], "alarm", "en")[0]
    )


def test_levels_follow_from_the_plan(known_surveys):
    def levels(name):
        facts = known_surveys[name]
        return {
            one.key: (one.likelihood(facts), one.severity(facts))
            for one in report_risks(facts)
        }

    assert levels("open")["risk.all_pool"] == (1, 3)
    assert levels("open")["risk.few_guests"] == (2, 3)
    assert levels("nobody")["risk.few_guests"] == (4, 3)
    assert "risk.few_guests" not in levels("all but one")
    assert "risk.delegate" not in levels("ended")
    assert levels("open")["risk.delegate"] == (2, 1)


def test_cnil_s_form_has_no_risk_that_a_finished_survey_has_not(known_surveys):
    """When a survey is over no answer can be lost: that question is left open."""
    for name, kinds in (("closed", {"access", "change", "loss"}), ("ended", None)):
        made = json.loads(forms.pia_form(known_surveys[name], "en", NOW))
        numbers = {one["reference_to"] for one in made["answers"]}
        asked = {kind for kind, n in forms.PIA_RISKS.items() if n + 1 in numbers}
        assert asked == (kinds or {"access", "change"})


def test_a_survey_is_closed_without_a_guest(tmp_path):
    world = World(tmp_path)
    path = tmp_path / "collection.sqlite"
    with closing(SurveyGuestCollection.open(path, world.terms)) as kept:
        for name in world.codes:
            kept.take(world.visit(name, 1).to_json())
        found, used = kept.close_survey(["Firm 3"])
    assert "Firm 3" not in found.guests
    assert len(used) == len(world.codes) - 1
    world.close()


def test_a_survey_that_has_no_guests_yet_has_no_paper(tmp_path):
    path = tmp_path / "plan.toml"
    table = {key: SURVEYS["open"][key] for key in ("survey", "masks", "policy")}
    path.write_text(tomli_w.dumps(table))
    with refused("survey-plan-without-guests"):
        plan_facts_of(path)


def test_every_form_is_written_and_opens_no_submission(tmp_path):
    mark = "marked-of-firm-1"
    path = tmp_path / "closed.toml"
    path.write_text(tomli_w.dumps(SURVEYS["closed"]))
    for name in ("submissions.jsonl", "surveys.store", "ann.key", "ann.codes.csv"):
        (tmp_path / name).write_text(mark)
    for form in officer.FORMATS:
        for language in catalogue_languages():
            out = tmp_path / f"{language}.{form}"
            words = ["report", str(path), "--for", "dpo", "--language", language]
            told = CliRunner().invoke(app, [*words, "--format", form, "-o", str(out)])
            if form == "crate":
                assert "a run that is over is wanted" in told.output
                continue
            assert told.exit_code == 0, told.output
            assert mark.encode() not in out.read_bytes()
    imported = json.loads((tmp_path / "en.pia").read_text())
    answers = {one["reference_to"]: one["data"] for one in imported["answers"]}
    assert "12 are invited" in answers[121]["text"]
    assert "every number of every guest" in answers[122]["text"]


@pytest.mark.slow
@pytest.mark.skipif(
    chromium_for_reports() is None, reason="there is no Chromium to print with"
)
@pytest.mark.parametrize("name", ["open", "closed", "uneven", "weak"])
def test_the_annex_has_three_pages_at_most(name, survey_files):
    for language in catalogue_languages():
        page = officer.officer_document(
            survey_files[name], format="html", language=language
        )
        assert len(re.findall(rb"/Type ?/Page\b", report_pdf(page))) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("language", catalogue_languages())
def test_the_annex_opens_in_a_browser(language, tmp_path, survey_files):
    path = tmp_path / "annex.html"
    path.write_bytes(
        officer.officer_document(
            survey_files["uneven"], format="html", language=language
        )
    )
    for width in WIDTHS:
        for scheme in SCHEMES:
            with opened(path, width=width, scheme=scheme) as seen:
                assert not seen.errors
                assert not seen.outside
                assert seen.too_wide == 0
