"""The page of consent of every registered question: one page, five answers first."""

import re
from copy import deepcopy
from dataclasses import replace

import pytest
import tomli_w
from click.testing import CliRunner

from cases import each
from contracts import asked, totals
from party.test_agreed import COST, agreed
from party.test_consent import QUESTIONS, many as many_columns
from report.officer_plans import SURVEYS
from veilsum.cli.app import app
from veilsum.consortium import kinds
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.study import study_from
from veilsum.locale import catalogue, catalogue_languages
from veilsum.party.consent import consent_to
from veilsum.party.short_page import (
    MOST_LINES,
    MOST_STUDY_LINES,
    WIDTH,
    Standing,
    answers,
)
from veilsum.party.study_page import consent_to_study

HERE = (*asked.QUESTIONS, "cost", *(f"survey {name}" for name in SURVEYS))
FIVE = ("table one", "levels", "logistic", "survival", "cox")


@pytest.fixture(scope="module", autouse=True)
def installed():
    with kinds.registered(totals.KIND):
        yield


def page_of(name):
    if name in QUESTIONS:  # many kinds of fits and of statistics
        return consent_to(agreed(QUESTIONS[name]))
    if name == "cost":
        return consent_to(agreed(COST))
    if name.startswith("survey "):
        table = SURVEYS[name.removeprefix("survey ")]
        return consent_to(consortium_from(deepcopy(table)))
    more = {"policy": asked.POLICY, "masks": {"law": "uniform"}}
    if name in asked.DISPATCHES:
        found = asked.DISPATCHES[name]
    else:
        found, more["schema"] = asked.TABLES[name], asked.SCHEMA
        if name in {"cox", "mixed", "meta"}:
            more["policy"] = {**asked.POLICY, **asked.BY_PARTY}
    more["policy"].pop("resend", None)
    return consent_to(agreed({asked.heading(name): found, **more}))


def has_one_page(text, most):
    lines = text.removesuffix("\n").split("\n")
    assert len(lines) <= most
    assert max(map(len, lines)) <= WIDTH
    return lines


def check_answers(page, lines, language):
    """The five answers, each with what the facts of the page say."""
    labels = [*catalogue(language, "page")["answers"].values()]
    for label, line in zip(labels, lines, strict=False):
        assert line.startswith(label), line
        assert len(line) > len(label) + 10
    _, people, price, learns, you = lines[:5]
    parties = page.facts["members"]
    assert re.search(rf"\b{len(parties)}\b", people)
    assert people.endswith("...") or all(name in people for name in parties)
    found = [int(n.replace(",", "").replace(".", "")) for n in digits(price)]
    rounds = page.facts.get("rounds")
    if rounds is not None:
        assert found[:2] == [rounds[1], page.facts["numbers"][1]]
    else:
        assert found[1] == page.facts["numbers"][1]
    assert not learns.endswith("...")
    assert not you.endswith("...")


def digits(text):
    return re.findall(r"\d[\d.,]*(?<![.,])", text.partition(":")[2])


def test_every_question_is_here():
    named = {asked.heading(name) for name in (*asked.QUESTIONS, "cost")}
    assert named | {"survey"} == {*kinds.question_section_headings()}
    assert catalogue_languages("page") == ("en", "de")


@each("name", [*HERE, *QUESTIONS])
def test_a_page_is_one_page_and_begins_with_five_answers(name):
    page = page_of(name)
    digest = page.digest
    for language in catalogue_languages("page"):
        lines = has_one_page(page.text(language=language), MOST_LINES)
        check_answers(page, lines, language)
        assert f" {digest}" in "\n".join(lines)
        assert page.digest == digest
    # The twin: the page in full is longer, and begins alike.
    whole = page.text(long=True).split("\n")
    assert len(whole) > MOST_LINES
    assert whole[:5] == page.text().split("\n")[:5]


def study():
    own = ("statistics", "model", "survival", "cox")
    table = {
        name: part
        for name, part in agreed(QUESTIONS["groups"]).to_table().items()
        if name not in own
    }
    wanted = ["groups", "gaussian", "logistic", "survival", "cox"]
    named = [dict(QUESTIONS[one]) for one in wanted]
    table["question"] = [
        {"name": f"q{k}", h: one[h]}
        for k, one in enumerate(named)
        for h in own
        if h in one
    ]
    return study_from(table)


def test_a_study_of_five_is_a_page_of_a_hundred_lines():
    page = consent_to_study(study())
    assert len(page.questions) == 5
    for language in catalogue_languages("page"):
        lines = has_one_page(page.text(language=language), MOST_STUDY_LINES)
        check_answers(page, lines, language)
        for name in page.questions:
            assert any(f" 5: {name}" in line for line in lines)


def test_a_page_that_is_cut_says_so_before_anything_else():
    """Whoever hides a column behind a thousand others has to say so on top."""
    notice = catalogue("en", "page")["lines"]["is_cut"]
    cut, whole = (
        consent_to(many_columns(3000)).text(),
        consent_to(many_columns(9)).text(),
    )
    assert len(cut.split("\n")) <= MOST_LINES + 1
    lines = cut.split("\n")
    assert lines.index(notice) < 10
    assert any("more lines: add --long" in line for line in lines)
    assert "TOO LONG TO BE SHOWN" in cut
    assert notice not in whole


def standing(**changes):
    page = replace(page_of("model logistic"), standing=Standing(**changes))
    return " ".join(" ".join(answers(page)[4:]).split())


def test_the_fifth_line_says_what_refuses_and_what_helps():
    assert "not checked" in standing()
    assert "you may take part" in standing(looked=True)
    why = "a level has 2 rows: merge levels, or lower minimum_count to 2"
    told = standing(looked=True, refusals={"minimum_count": why})
    assert "REFUSED: you may not take part. minimum_count: a level has 2" in told
    assert "lower minimum_count to 2" in told
    told = standing(looked=True, refusals={"": "no jobs", "table": "no column"})
    assert "your own rules: no jobs" in told
    assert "table: no column" in told
    told = standing(looked=True, refusals={"q1": why}, of=5)
    assert "4 of 5 questions; refused: q1" in told
    assert "not with --yes: drop" in standing(looked=True, unattended="drop")
    many = {f"rule_{k}": f"{why} " * 9 for k in range(9)}
    assert standing(looked=True, refusals=many).endswith("more lines: add --long")


@pytest.mark.parametrize("name", ["model logistic", "statistics", "dispatch"])
def test_with_a_table_of_ones_own_it_is_one_page_too(name, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(tomli_w.dumps(asked.scenario(name, tmp_path)))
    words = ["check", str(path), "--data", str(tmp_path / "a.csv")]
    for language, passed in (("en", "you may take part"), ("de", "Sie können")):
        found = CliRunner().invoke(app, [*words, "--language", language])
        assert found.exit_code == 0, found.output
        lines = has_one_page(found.stdout, MOST_LINES)
        assert passed in lines[4]
        assert "a.csv" in found.stdout
    assert len(CliRunner().invoke(app, [*words, "--long"]).stdout.split("\n")) > 60
