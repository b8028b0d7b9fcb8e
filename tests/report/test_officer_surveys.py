"""The officer's annex of a survey: its sentences, and numbers that code computes."""

import json
import re
from contextlib import closing
from dataclasses import replace
from itertools import combinations

import pytest
import tomli_w
from click.testing import CliRunner

from browser import SCHEMES, WIDTHS, opened
from cases import each
from report.officer_plans import NOW, written
from report.test_officer import fields, names_in, read_annex
from surveys import MEMBERS, World, guest_row, survey_table
from veilsum.cli.app import app
from veilsum.consortium.consortium import consortium_from
from veilsum.errors import InvalidInputError
from veilsum.report import annex as papers, forms, officer
from veilsum.report.plan_facts import RunEnd, facts_of
from veilsum.report.printing import as_pdf, browser
from veilsum.report.sentences import CATALOGUE, EVERY_SENTENCE, LANGUAGES, values
from veilsum.report.survey_sentences import (
    COMMON,
    EVERY_SURVEY_SENTENCE,
    SURVEY_RISKS,
    explained_words,
    risks,
    said,
)
from veilsum.surveys.collection import GuestCollection
from veilsum.surveys.terms import closing_of, survey_terms, tally_of


def closed_table():
    """A closed survey in which one of the guests did not come, and one cell is rare."""
    terms = survey_terms(consortium_from(survey_table()))
    bits = dict.fromkeys([*terms.roster][:-1], b"\xe0") | {"Firm 1": b"\xf0"}
    closing = closing_of(terms, "5e" * 32, tally_of(terms, bits))
    return survey_table(**closing)


def uneven(*counts):
    """A roster in which members have invited so many each."""
    whose = [name for name, n in zip(MEMBERS, counts, strict=True) for _ in range(n)]
    return [guest_row(f"Firm {k}", name) for k, name in enumerate(whose)]


def policy(**changed):
    return {**survey_table(), "policy": {"tolerate": 1, **changed}}


TABLES = {
    "open": survey_table(),
    "closed": closed_table(),
    "weak": survey_table(minimum_honest=2, minimum_guests=3),
    "nobody": policy(tolerate=0),
    "all but one": {
        **policy(tolerate=2),
        "survey": survey_table(guest=uneven(9, 8, 7))["survey"],
    },
    "uneven": {
        **survey_table(
            guest=uneven(3, 9, 6),
            minimum_honest=2,
            tolerate_guests=2,
            minimum_guests=6,
        ),
        "organiser": "ann",
    },
    "relayed": {
        **survey_table(),
        "deployment": {"relay": "wss://relay.test", "relay_token": "ab" * 32},
    },
}


def paths(folder):
    for name, table in TABLES.items():
        path = folder / f"{name.replace(' ', '-')}.toml"
        path.write_text(tomli_w.dumps(table))
        yield name, path


@pytest.fixture(scope="module", name="files")
def files_fixture(tmp_path_factory):
    return dict(paths(tmp_path_factory.mktemp("surveys")))


@pytest.fixture(scope="module", name="known")
def known_fixture(files):
    found = {name: facts_of(path) for name, path in files.items()}
    ended = RunEnd(
        party="ann",
        parties=MEMBERS,
        lost=(),
        started="2030-01-31T12:00:00Z",
        finished="2030-01-31T12:00:05Z",
        version="0",
        failed=(),
    )
    found["ended"] = replace(found["closed"], ended=ended)
    forged = replace(ended, failed=("signatures are good",))
    found["forged"] = replace(found["closed"], ended=forged)
    return found


# The catalogue


@each("sentence", EVERY_SURVEY_SENTENCE, ids=lambda one: one.key)
def test_every_sentence_names_tests_that_are_there(sentence):
    assert sentence.shown
    for one in sentence.shown:
        file, _, test = one.partition("::")
        assert names_in(file)
        assert test == "*" or test in names_in(file), one


def test_both_languages_say_the_same_with_the_same_numbers():
    keys = [one.key for one in (*EVERY_SENTENCE, *EVERY_SURVEY_SENTENCE)]
    assert len(set(keys)) == len(keys)
    for one in EVERY_SURVEY_SENTENCE:
        assert fields(one.en) == fields(one.de), one.key
        assert one.en != one.de
        assert one.en.endswith(".") == one.de.endswith("."), one.key
    for one in SURVEY_RISKS:
        assert set(one.title) == set(LANGUAGES)


def test_every_condition_holds_for_some_survey_and_for_no_other_plan(known, tmp_path):
    other = facts_of(written("model", tmp_path))
    for one in EVERY_SURVEY_SENTENCE:
        assert any(one.when(facts) for facts in known.values()), one.key
        assert not one.when(other), one.key
    assert not {one.key for one in said(other, "purpose")} & {
        one.key for one in EVERY_SURVEY_SENTENCE
    }


def test_of_the_other_catalogue_a_survey_has_what_is_listed_and_no_more(known):
    listed = {one.key for one in EVERY_SENTENCE}
    assert listed >= COMMON
    parts = {one.part for one in (*CATALOGUE, *EVERY_SURVEY_SENTENCE)}
    told = {
        one.key
        for facts in known.values()
        for found in (
            *(said(facts, part) for part in parts),
            explained_words(facts),
        )
        for one in found
    }
    assert told & listed == COMMON


def test_every_sentence_can_be_said_in_full(known):
    for facts in known.values():
        for language in LANGUAGES:
            filled = values(facts, language)
            for one in EVERY_SURVEY_SENTENCE:
                if one.when(facts):
                    assert "{" not in one.text(facts, language)
                    assert not [n for n in fields(one.en) if not filled[n]], one.key


def test_nothing_is_called_private_or_anonymous(known):
    for facts in known.values():
        for language in LANGUAGES:
            paper = f"{papers.annex(facts, language)} {forms.edpb(facts, language)}"
            for words in ("private key", "private Schlüssel"):
                paper = paper.replace(words, "")
            told = [
                one
                for one in paper.split(". ")
                if re.search(r"\bprivate\b|\bprivat\b|anonym", one)
            ]
            assert all("does not call" in one or "nennt die" in one for one in told)


# The facts


def test_facts_are_the_survey_s(known, files):
    for name, path in files.items():
        facts, terms = known[name], survey_terms(consortium_from(TABLES[name]))
        assert facts.survey.terms == terms
        assert facts.parties == MEMBERS == terms.names
        assert facts.tolerate == terms.tolerate
        assert facts.digest == consortium_from(TABLES[name]).digest.hex()
        assert facts.file == path.name
        assert not facts.on_tables
        assert facts.epsilon == 0.0
        told = " ".join(papers.texts(facts, "purpose", "en"))
        assert f"{len(terms.guests)} are invited" in told
        assert ("The survey is closed" in told) == (name == "closed")
    assert known["uneven"].survey.invited == {"ann": 3, "bob": 9, "cem": 6}
    assert known["open"].survey.most_totals == 4
    assert known["closed"].survey.most_totals == 3  # one filled the fourth cell


def test_who_is_left_is_what_every_coalition_leaves(known):
    """By trying all coalitions, and all further guests, one by one."""
    for facts in known.values():
        terms = facts.survey.terms
        for size in range(1, len(MEMBERS)):
            here = terms.guests if terms.tally is None else terms.guests[:-1]
            least = min(
                sum(guest.invited_by not in bad for guest in here)
                for bad in combinations(MEMBERS, size)
            )
            assert facts.survey.at_worst(size) == max(0, least - terms.tolerate_guests)


def test_a_reader_of_the_annex_finds_what_code_computes(known, files):
    for name, path in files.items():
        facts, terms = known[name], known[name].survey.terms
        page = officer.write(path, format="html", language="en", now=NOW)
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


def test_the_picture_promises_nothing_beyond_the_proof(known):
    def bars(name):
        return [
            one for block in papers.chances(known[name], "en") for one in block.bars
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


def test_weaker_rules_come_first(known):
    told = papers.texts(known["weak"], "alarm", "en")
    assert "minimum_honest = 2 (usual: 3)" in told[0]
    assert "minimum_guests = 3 (usual: 5)" in told[1]
    assert "does not say who that is" in told[2]
    assert papers.texts(known["open"], "alarm", "en") == ()
    assert (
        "none of them may be curious" in papers.texts(known["nobody"], "alarm", "en")[0]
    )


def test_levels_follow_from_the_plan(known):
    def levels(name):
        facts = known[name]
        return {
            one.told.key: (one.likelihood(facts), one.severity(facts))
            for one in risks(facts)
        }

    assert levels("open")["risk.all_pool"] == (1, 3)
    assert levels("open")["risk.few_guests"] == (2, 3)
    assert levels("nobody")["risk.few_guests"] == (4, 3)
    assert "risk.few_guests" not in levels("all but one")
    assert "risk.delegate" not in levels("ended")
    assert levels("open")["risk.delegate"] == (2, 1)


def test_a_survey_is_closed_without_a_guest(tmp_path):
    world = World(tmp_path)
    path = tmp_path / "collection.sqlite"
    with closing(GuestCollection.open(path, world.terms)) as kept:
        for name in world.codes:
            kept.take(world.visit(name, 1).to_json())
        found, used = kept.close_survey(["Firm 3"])
    assert "Firm 3" not in found.guests
    assert len(used) == len(world.codes) - 1
    world.close()


def test_a_survey_that_has_no_guests_yet_has_no_paper(tmp_path):
    path = tmp_path / "plan.toml"
    table = {key: TABLES["open"][key] for key in ("survey", "masks", "policy")}
    path.write_text(tomli_w.dumps(table))
    with pytest.raises(InvalidInputError, match="collect new makes the open file"):
        facts_of(path)


def test_every_form_is_written_and_opens_no_submission(files, tmp_path):
    mark = "marked-of-firm-1"
    path = tmp_path / "closed.toml"
    path.write_text(tomli_w.dumps(TABLES["closed"]))
    for name in ("submissions.jsonl", "surveys.store", "ann.key", "ann.codes.csv"):
        (tmp_path / name).write_text(mark)
    for form in officer.FORMATS:
        for language in LANGUAGES:
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
@pytest.mark.skipif(browser() is None, reason="there is no Chromium to print with")
@pytest.mark.parametrize("name", ["open", "closed", "uneven", "weak"])
def test_the_annex_has_three_pages_at_most(name, files):
    for language in LANGUAGES:
        page = officer.write(files[name], format="html", language=language)
        assert len(re.findall(rb"/Type ?/Page\b", as_pdf(page))) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_annex_opens_in_a_browser(language, tmp_path, files):
    path = tmp_path / "annex.html"
    path.write_bytes(officer.write(files["uneven"], format="html", language=language))
    for width in WIDTHS:
        for scheme in SCHEMES:
            with opened(path, width=width, scheme=scheme) as seen:
                assert not seen.errors
                assert not seen.outside
                assert seen.too_wide == 0
