"""Words of an officer's papers: the same in all languages, all used, all proved."""

import ast
import shutil
import string
import tomllib
from collections import UserDict
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
import tomli_w

from party.test_agreed import MODEL, certificate
from party.test_consent import QUESTIONS, many
from report.officer_plans import (
    LOSING,
    NOW,
    TABLES,
    closed_table,
    study_table,
    table,
    uneven,
    written,
)
from report.test_officer import everything, pieces
from surveys import survey_table
from veilsum import locale
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.study import study_from
from veilsum.files.consortiums import read_consortium
from veilsum.locale import catalogue, catalogue_languages
from veilsum.party.consent import _shared_consent_half
from veilsum.party.short_page import times_in_words
from veilsum.party.study_page import _study_page_sum_lines, consent_to_study
from veilsum.privacy.composition import CompositionTotal
from veilsum.report import annex as papers, forms, officer, sentences as module
from veilsum.report.plan_facts import CountedGroup
from veilsum.report.sentences import (
    CONDITIONS,
    LEVELS,
    report_sentences,
    report_values,
    report_words,
)
from veilsum.sums.releases import PossibleRound
from veilsum.surveys import words as survey_words

ROOT = Path(__file__).parents[2]
PROOFS = tomllib.loads((ROOT / "tests/report/proofs.toml").read_text("utf-8"))
# Fields that a language may lack: only English has pages with labels, and words of an
# officer that differ from those of the page of consent.
ENGLISH_ONLY = {"label", "first_meaning", "officer"}


def all_sentences():
    return {
        one.key: one for one in (*report_sentences(), *report_sentences(survey=True))
    }


def texts(table, *path):
    """Yield every text of a catalogue with its keys."""
    for key, entry in table.items():
        if isinstance(entry, dict):
            yield from texts(entry, *path, key)
        else:
            yield (*path, key), entry


def fields(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@cache
def names_in(file):
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return {
        one.name
        for one in tree.body
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
    }


def test_every_sentence_has_a_proof_that_is_there():
    proved = {
        f"{part}.{key}": p for part, some in PROOFS.items() for key, p in some.items()
    }
    assert proved.keys() == all_sentences().keys()
    for key, proofs in proved.items():
        assert proofs, key
        for one in proofs:
            file, _, test = one.partition("::")
            assert Path(file).name.startswith("test_")
            assert names_in(file)
            assert test == "*" or test in names_in(file), (key, one)


def test_no_test_is_named_in_what_is_shipped():
    for path in (ROOT / "src").rglob("*"):
        if path.suffix in {".py", ".toml"}:
            assert "::test_" not in path.read_text("utf-8"), path


@pytest.mark.parametrize("part", ["officer", "page", "survey"])
def test_all_languages_say_the_same_with_the_same_numbers(part):
    english = dict(texts(catalogue("en", part)))
    assert catalogue_languages(part)[:2] == ("en", "de")
    for language in catalogue_languages(part)[1:]:
        found = dict(texts(catalogue(language, part)))
        assert found.keys() == english.keys()
        for key, text in english.items():
            assert fields(found[key]) == fields(text), key


def test_lines_of_consent_in_a_further_language_are_lines_of_the_english_page():
    """A line that a language lacks is shown in English."""
    english = dict(texts(catalogue("en", "consent")))
    for language in catalogue_languages("consent")[1:]:
        for key, text in texts(catalogue(language, "consent")):
            assert fields(text) == fields(english[key]), key


def test_no_sentence_is_left_in_english():
    for language in catalogue_languages()[1:]:
        for key, one in all_sentences().items():
            text, ours = one.written(language), one.written("en")
            assert text != ours, key
            assert text.endswith(".") == ours.endswith("."), key


def test_all_languages_have_words_for_the_same_sums():
    english = dict(texts(catalogue("en")))
    for language in catalogue_languages()[1:]:
        found = dict(texts(catalogue(language)))
        assert found.keys() <= english.keys()
        missing = {key[-1] for key in english.keys() - found if key[0] == "statistics"}
        assert missing <= ENGLISH_ONLY
        for key, text in found.items():
            assert fields(text) == fields(english[key]), key


class Noted(UserDict):
    """A table that notes which of its texts were read."""

    def __init__(self, table, read, *path):
        self.data, self.read, self.path = table, read, path

    def __getitem__(self, key):
        entry = self.data[key]
        if isinstance(entry, dict):
            return Noted(entry, self.read, *self.path, key)
        self.read.add((*self.path, key))
        return entry


def test_every_word_of_the_catalogue_is_used(known, asked, known_surveys, monkeypatch):
    read = set()
    found = Noted(catalogue("en", "officer"), read)
    monkeypatch.setattr(
        module, "catalogue", lambda *given: found if given[1:] else catalogue(*given)
    )
    report_values.cache_clear()
    run = known["run"]
    forged = [
        replace(run, ended=replace(run.ended, failed=(one,)))
        for one in report_words("en", "failed").data
    ]
    off = replace(known["losing"], off=tuple(report_words("en", "off").data))
    many = replace(run, ended=replace(run.ended, lost=("x",) * 40))
    (question,) = known["losing"].questions
    groups = (
        ("bins", "x", ("below 1", "1 to 5", "5 to 9", "above 9")),
        ("values", "x", ("1 to 5",)),
        ("other", "groups of ward in which age is missing in fold 2", ()),
    )
    counted = tuple(
        CountedGroup(kind=kind, columns=(name,), places=places)
        for kind, name, places in groups
    )
    grouped = replace(off, questions=(replace(question, counted=counted),))
    plans = (*known.values(), *asked.values(), *known_surveys.values())
    for facts in (*plans, *forged, off, many, grouped):
        papers.annex_of_plan(facts, "en", NOW)
    forms.edpb_paper(run, "en")
    forms.pia_form(run, "en", NOW)
    papers.annex_paper_html(papers.annex_of_plan(run, "en", NOW))
    report_values.cache_clear()
    assert {key for key, _ in texts(catalogue("en", "officer"))} == read


# What pages of consent say from the file alone; all else is for one party.
SHARED = {
    *("head", "first", "asked", "column", "amount", "known", "who", "meanings"),
    *("flags", "rules", "holders", "open", "study", "survey"),
}


def texts_in(*trees):
    """Every text that a program has in these parts of it."""
    nodes = (node for tree in trees for node in ast.walk(tree))
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str)}


@cache
def consent_programs():
    """The modules that take sentences from the page of consent."""
    found = (path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    return [ast.parse(text) for text in found if "consent" in text]


def odd_plans():
    """Consortium files of which the page says what it says of few others."""
    asked = {"statistics": {"columns": ["x", "y"]}, "masks": {"law": "uniform"}}
    ends = {
        "x": {"kind": "integer", "minimum": 0},
        "y": {"kind": "integer", "maximum": 9, "missing": ["99"]},
    }
    words = {**MODEL["schema"]["columns"]["sex"], "recode": {"woman": "f"}}
    recoded = {**MODEL["schema"]["columns"], "sex": words}
    number = {"kind": "integer", "minimum": 0, "maximum": 9, "recode": {"5005": 5}}
    stepped = {**MODEL["schema"]["columns"], "x": number}
    line = {"of": "x", "as": "power", "exponent": 2}
    columns = {**MODEL["schema"]["columns"], "x_2": line}
    squared = {**MODEL["schema"], "columns": columns}
    dropping = {**MODEL["schema"], "missing": "drop", "complete": ["x"]}
    names = [f"party {k}" for k in range(6)]
    six = [{"name": name, "certificate": certificate(name)} for name in names]
    edges = [list(pair) for pair in combinations(names, 2)]
    return (
        table(
            {**MODEL, "policy": {"tolerate": 3}}, members=six, graph={"edges": edges}
        ),
        table(MODEL, former="a" * 64, study="b" * 64, organiser="ann"),
        table({**LOSING, "organiser": "ann"}),
        table({**MODEL, "schema": {**MODEL["schema"], "columns": stepped}}),
        table({**MODEL, "model": {"formula": "y ~ x_2"}, "schema": squared}),
        table({**asked, "schema": {"minimum_rows": 50, "columns": ends}}),
        table({**asked, "schema": dropping}),
        table({**MODEL, "schema": {**MODEL["schema"], "columns": recoded}}),
    )


def odd_studies():
    """A study, its second edition, and one that amends another and is weaker."""
    first = study_from(study_table())
    more = {"name": "sexes", "statistics": {"columns": [], "tables": [["sex"]]}}
    yield first
    yield study_from(first.grown([more]))
    weak = {"former": "a" * 64, "organiser": "ann", "policy": {"effective_count": 1.0}}
    yield study_from({**study_table(), **weak})


def test_every_word_of_the_page_of_consent_is_used(survey_files, monkeypatch):
    read = set()
    plain, found = catalogue, Noted(catalogue("en", "consent"), read)

    def noting(language, part="sums"):
        return found if part == "consent" else plain(language, part)

    monkeypatch.setattr(survey_words, "catalogue", noting)
    monkeypatch.setattr(locale, "catalogue", noting)
    surveys = [read_consortium(path) for path in survey_files.values()]
    # Cells that nearly the same filled; members whose guests are all there are.
    for other in (
        closed_table(**{"Firm 2": b"\xc0"}),
        survey_table(guest=uneven(9, 9, 0), closes=""),
    ):
        surveys.append(consortium_from(other))
    plans = [
        *TABLES.values(),
        *map(table, QUESTIONS.values()),
        *odd_plans(),
    ]
    consent_pages = [*surveys, *map(consortium_from, plans), many(3000)]
    for one in consent_pages:
        for drawn in (True, False):
            _shared_consent_half.__wrapped__(one, drawn=drawn)
    # What no built-in question comes to, and no law of masks for real parties.
    assert times_in_words(PossibleRound("price", {}, 3, 3)) == " (3 times)"
    assert "masks: no bound" in " ".join(
        _study_page_sum_lines({}, CompositionTotal(None, "no masks"))
    )
    for study in odd_studies():
        for drawn in (True, False):
            consent_to_study(study, drawn=drawn)
    every = {key for key, _ in texts(plain("en", "consent"))}
    assert not " ".join(sorted(".".join(k) for k in every - read if k[0] in SHARED))
    named = texts_in(*consent_programs())
    for key in every:
        if key[0] == "headings":
            assert key[1] in named, key
        elif key[0] not in SHARED:
            assert ".".join(key) in named, key


def test_every_sentence_that_the_page_of_consent_takes_is_there():
    parts = (catalogue("en", one) for one in ("consent", "page", "sums"))
    every = {".".join(key) for part in parts for key, _ in texts(part)}
    calls = [
        argument
        for tree in consent_programs()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in {"_say", "say", "phrase"}
        for argument in node.args
        if not isinstance(argument, ast.JoinedStr)
    ]
    taken = {text for text in texts_in(*calls) if "." in text}
    assert taken <= every
    assert len(taken) > 100


# Conditions


def test_every_condition_holds_for_some_plan_and_for_some_it_does_not(known):
    for one in report_sentences():
        found = {name: one.holds(facts) for name, facts in known.items()}
        assert any(found.values()), one.key
        assert not one.when or not all(found.values()), one.key


def test_every_condition_and_level_is_used():
    every = all_sentences().values()
    named = {name.removeprefix("not ").split()[0] for s in every for name in s.when}
    assert named >= CONDITIONS.keys()
    levels = {one for s in every for one in getattr(s, "levels", ())}
    assert {one for one in levels if isinstance(one, str)} == LEVELS.keys()


def test_sentences_about_surveys_hold_for_some_and_for_no_other_plan(
    known, known_surveys
):
    plain = {one.key: one for one in report_sentences()}
    told = {one.key: one for one in report_sentences(survey=True)}
    for key, one in told.items():
        assert any(one.holds(facts) for facts in known_surveys.values()), key
        # What is said of other plans, too, is said there on the same conditions.
        if key in plain:
            assert {*one.when} - {"survey"} == {*plain[key].when}, key
        else:
            assert not any(one.holds(facts) for facts in known.values()), key


def test_every_sentence_can_be_said_in_full(known, known_surveys):
    for facts in (*known.values(), *known_surveys.values()):
        for language in catalogue_languages():
            filled = report_values(facts, language)
            for one in report_sentences(survey=facts.survey is not None):
                if one.holds(facts):
                    text = one.text(facts, language)
                    brace = "{" if "{" in facts.title else "\0"
                    assert "{" not in text.replace(brace, "")
                    blank = [n for n in fields(one.written("en")) if not filled[n]]
                    assert not blank, (one.key, blank)


# A third language


@pytest.fixture(name="loud")
def loud_fixture(tmp_path, monkeypatch):
    """A language with capital letters only, added as a folder."""

    def shouted(entry):
        if isinstance(entry, dict):
            return {key: shouted(one) for key, one in entry.items()}
        parts = string.Formatter().parse(entry)
        return "".join(
            text.upper() + (f"{{{name}}}" if name is not None else "")
            for text, name, _, _ in parts
        )

    folder = tmp_path / "locale"
    shutil.copytree(locale.FOLDER, folder, ignore=shutil.ignore_patterns("*.py*"))
    (folder / "xx").mkdir()
    for part in ("sums", "officer", "survey"):
        loud = tomli_w.dumps(shouted(catalogue("en", part)))
        (folder / "xx" / f"{part}.toml").write_text(loud)
    monkeypatch.setattr(locale, "FOLDER", folder)
    catalogue.cache_clear()
    yield "xx"
    catalogue.cache_clear()
    report_values.cache_clear()


def test_a_third_language_is_a_folder_and_no_code(loud, known, known_surveys, folder):
    assert catalogue_languages() == ("en", "de", loud)
    english = [p for one in all_sentences().values() for p in pieces(one.written("en"))]
    for facts in (known["site"], known["losing"], known_surveys["closed"]):
        for paper in (
            papers.annex_of_plan(facts, loud, NOW),
            forms.edpb_paper(facts, loud),
        ):
            shown = "\n".join(everything(paper))
            assert not [one for one in english if one in shown]
            assert any(one.upper() in shown for one in english)
    page = officer.officer_document(
        written("site", folder), format="html", language=loud
    )
    assert b'lang="xx"' in page
    assert b"ANNEX FOR THE DATA-PROTECTION OFFICER" in page
