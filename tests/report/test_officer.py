"""The officer's annex: every sentence is true of its plan, and shown by a test."""

import re
import string
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import refusals
from browser import SCHEMES, WIDTHS, opened
from cases import each
from ledgers import reservation
from party.test_agreed import NAMES
from party.test_consent import QUESTIONS, tables
from report.officer_plans import (
    EXAMPLES,
    TABLES,
    run_folder,
    table,
    written,
)
from veilsum.cli.app import app
from veilsum.consortium.consortium import ConsortiumFile, consortium_from
from veilsum.consortium.kinds import BUILT_IN
from veilsum.consortium.sections import PolicySection
from veilsum.errors import BudgetError, InvalidInputError
from veilsum.files.ledger import open_ledger
from veilsum.graphs.topology import Topology
from veilsum.locale import catalogue, catalogue_languages, limit_phrase
from veilsum.net.receipt import ALIKE, verify_receipts
from veilsum.page import html as html_text
from veilsum.party.api import promise_of
from veilsum.party.consent import consent_to
from veilsum.party.own_rules import STRICTER
from veilsum.party.run_folder import OF_ALL, RunFolder
from veilsum.privacy.accountant import Budget
from veilsum.privacy.guarantee import PARTY_UNITS_LIMIT, guarantee_against_coalition
from veilsum.privacy.lattice import lattice_success
from veilsum.questions.dispatch import GENERATORS
from veilsum.questions.mixed import PARTIES_EACH
from veilsum.report import annex as papers, forms, officer
from veilsum.report.annex import paper_limit_of_party, paper_sum_lines
from veilsum.report.plan_facts import CHANCES, _plan_facts, plan_facts_of
from veilsum.report.printing import chromium_for_reports, report_pdf
from veilsum.report.sentences import (
    report_group_name,
    report_risks,
    report_sentences,
    report_values,
    report_words,
)
from veilsum.sums.job_file import question_job_of
from veilsum.sums.kinds import resolve_agreed_question
from veilsum.tables.fingerprints import FingerprintSource, read_row_fingerprints
from veilsum.tables.frames import as_frame

ROOT = Path(__file__).parents[2]
FORMATS = ("html", "docx", "edpb", "edpb-docx", "pia", "acro")
OFFICERS_PLANS = ("site", "cell", "losing")


def test_every_kind_of_question_is_described():
    told = {one.key for one in (*report_sentences(), *report_sentences(survey=True))}
    assert {f"purpose.{name}" for name in BUILT_IN} <= told
    assert set(report_words("en", "questions")) == {*BUILT_IN} - {"survey"}


def test_exactly_one_thing_is_said_of_what_a_member_does_not_learn(known):
    for name, facts in known.items():
        told = papers.annex_paper_texts(facts, "member-", "en")
        assert len(told) - told[-1].startswith("(except") == 1, name
        assert len(papers.annex_paper_texts(facts, "organiser+", "en")) == 1, name
        assert len(papers.annex_paper_texts(facts, "number", "en")) >= 2, name


def test_nothing_is_called_private_or_anonymous(known):
    for facts in known.values():
        for language in catalogue_languages():
            paper = str(papers.annex_of_plan(facts, language)) + str(
                forms.edpb_paper(facts, language)
            )
            for key in ("private key", "private Schlüssel"):
                paper = paper.replace(key, "")
            # The one place says that they are not called so.
            told = [
                one
                for one in paper.split(". ")
                if re.search(r"\bprivate\b|\bprivat\b|anonym", one)
            ]
            assert all("does not call" in one or "nennt die" in one for one in told)
            judged = {
                "en": "are personal data is for you",
                "de": "personenbezogen sind",
            }
            assert judged[language] in paper


def test_that_nobody_outside_has_examined_it_is_said_here_too(known):
    """As long as the project says so of itself."""
    told = " ".join((ROOT / "SECURITY.md").read_text("utf-8").split())
    assert "It is young, and nobody outside the project has examined it" in told
    for facts in known.values():
        assert "nobody outside its project" in " ".join(
            papers.annex_paper_texts(facts, "judge", "en")
        )


# The facts


def test_facts_are_the_file_s(known):
    for name, given in TABLES.items():
        facts, consortium = known[name], consortium_from(given)
        found, page = resolve_agreed_question(consortium), consent_to(consortium)
        assert facts.parties == NAMES
        assert facts.organiser == given.get("organiser", "")
        assert facts.title == given.get("title", "")
        assert facts.file == f"{name.replace(' ', '-')}.toml"
        assert set(facts.formulas) == {
            one["formula"]
            for one in given.values()
            if isinstance(one, dict) and "formula" in one
        }
        assert facts.digest == consortium.digest.hex()
        assert facts.tolerate == found.terms.tolerate
        (question,) = facts.questions
        assert question.consent == page.digest
        assert (question.most_sums, question.most_numbers) == (
            page.facts["rounds"][1],
            page.facts["numbers"][1],
        )
        assert question.columns == tuple(page.facts["columns"])
        assert [dict(one.statistics) for one in question.sums] == [
            dict(one.statistics) for one in found.recipe.foreseen
        ]
    assert [one.name for one in known["study"].questions] == ["ages", "costs"]
    assert known["relayed"].relays == 1
    assert known["letters"].by_files
    assert known["site"].levels == {"ward": ("north", "south", "east", "west")}
    bins, levels = known["losing"].counted
    assert (bins.kind, bins.columns, len(bins.places)) == ("bins", ("x",), 3)
    assert (levels.kind, levels.places) == ("levels", ("f", "m"))
    assert not known["model"].by_files


def test_a_plan_says_that_it_is_none_of_the_files_members_compare(known, folder):
    assert not known["plan"].drawn
    assert known["plan"].digest == known["plan"].run == ""
    page = officer.officer_document(
        folder / "planned" / "plan.toml", format="html", language="en"
    )
    assert b"This is a plan" in page
    assert b"digest is the same" not in page
    page = officer.officer_document(
        written("model", folder), format="html", language="en"
    )
    assert b"This is a plan" not in page


def test_a_finished_run_is_told_by_its_receipt(folder, known):
    lost = known["lost"]
    assert lost.ended.lost == ("b",)
    assert lost.summed == ("a", "c", "d", "e")
    told = " ".join(papers.annex_paper_texts(lost, "purpose", "en"))
    assert "4 of 5 members took part to the end, at 2030-01-31 12:00:05 UTC" in told
    assert "Left out, before any sum was known: b." in told
    assert known["run"].ended.lost == ()


def test_a_receipt_that_was_changed_is_said_first_and_gives_no_crate(tmp_path):
    out = run_folder(tmp_path)
    path = out / "receipt.json"
    path.write_text(path.read_text().replace("12:00:05", "12:00:06"))
    facts = plan_facts_of(out)
    assert facts.ended.failed
    assert (
        papers.annex_of_plan(facts, "en")
        .lead[0]
        .texts[0]
        .startswith("The receipt does not")
    )
    assert not [
        one
        for one in papers.annex_paper_texts(facts, "purpose", "en")
        if "is over" in one
    ]
    with refusals.refused("no-crate"):
        officer.officer_document(out, format="crate", language="en")


def test_what_is_no_plan_is_refused_in_a_sentence(tmp_path, folder):
    with refusals.refused("unfinished-run"):
        plan_facts_of(tmp_path)
    out = run_folder(tmp_path / "run")
    (tmp_path / "run" / "consortium.toml").unlink()
    with refusals.refused("missing-consortium-file"):
        plan_facts_of(out)
    plan = written("model", folder)
    with refusals.refused("unknown-paper", mentions=("odt",)):
        officer.officer_document(plan, format="odt", language="en")
    with refusals.refused("unknown-paper", mentions=("fr",)):
        officer.officer_document(plan, format="html", language="fr")
    with refusals.refused("no-crate"):
        officer.officer_document(plan, format="crate", language="en")


def test_a_folder_with_one_agreed_file_is_that_file_s_plan(tmp_path):
    path = written("model", tmp_path)
    assert plan_facts_of(tmp_path) == plan_facts_of(path)


# The officer's test: what a reader takes from the annex is what code computes


class Rows(HTMLParser):
    """The cells of the first table of a page, as a person reads them."""

    def __init__(self):
        super().__init__()
        self.rows, self.tables, self.inside = [], 0, False

    def handle_starttag(self, tag, attrs):
        self.tables += tag == "table"
        if self.tables == 1 and tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.inside = True
            if self.tables == 1:
                self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag == "td":
            self.inside = False
        if tag == "li" and self.inside and self.tables == 1:
            self.rows[-1][-1] += "; "

    def handle_data(self, data):
        if self.inside and self.tables == 1:
            self.rows[-1][-1] += data


def read_annex(page):
    """Return who learns what, from the page alone: numbers in words become numbers."""
    reader = Rows()
    reader.feed(page.decode())
    found = {}
    for who, learns, missing in filter(None, reader.rows):
        found[who.partition(",")[0]] = {
            "over": [int(n) for n in re.findall(r"over the (\d+) others", learns)],
            "left": [int(n) for n in re.findall(r"who are (\d+) or more", learns)],
            "one member": "one other member alone" in learns,
            "people": [int(n) for n in re.findall(r"as few as (\d+) people", learns)],
            "together": re.findall(r"(\d+) together: over the other (\d+)", learns),
            "enough": re.findall(r"(\d+) of the (\d+) are enough", learns),
            "counted": [int(n) for n in re.findall(r"fewer than (\d+)", learns)],
            "promised": "does not protect" not in missing,
        }
    return found


def computed(consortium):
    """Return the same from what parties themselves compute, without any sentence."""
    found = resolve_agreed_question(consortium)
    graph, masks = found.terms.topology, found.terms.law.masks
    names = graph.parties

    def over(size):
        sizes = {
            tuple(
                len(one.parties)
                for one in guarantee_against_coalition(
                    graph, masks, corrupted=c
                ).components
            )
            for c in combinations(names, size)
        }
        ((rest,),) = sizes  # one sum, over all others, whoever they are
        return rest

    left = min(
        len(some)
        for size in range(1, len(names) + 1)
        for some in combinations(names, size)
        if consortium.refusal(some) is None
    )
    rules = found.rules
    return {
        "over": [over(1)],
        "left": [left] if left < len(names) else [],
        "one member": rules.site_terms,
        # One person of each member that must have something.
        "people": [found.recipe.least] if rules.minimum_count < 2 else [],
        "together": [],
        "enough": [],
        "counted": [found.recipe.least] if hasattr(found.recipe, "least") else [],
        "promised": found.terms.tolerate > 0,
    }


@pytest.mark.parametrize(
    "name", [*OFFICERS_PLANS, "model", "strict", "loose", "nobody"]
)
def test_a_reader_of_the_annex_lists_who_learns_what_and_is_right(name, folder):
    page = officer.officer_document(written(name, folder), format="html", language="en")
    consortium = consortium_from(TABLES[name])
    seen, right = read_annex(page), computed(consortium)
    assert seen["each member"] == right
    pooling = seen["members who pool what they saw"]
    assert pooling["promised"] is False
    beyond = max(resolve_agreed_question(consortium).terms.tolerate + 1, 2)
    assert pooling["together"] == [(str(beyond), str(len(NAMES) - beyond))]
    left = right["left"]
    assert pooling["enough"] == [(str(n - 1), str(n)) for n in left]
    if name == "strict":
        assert "up to 2" in page.decode()
        assert "2 together: over the 2 others" in page.decode()
    # The three plans differ in what an officer has to find, and each is found.
    odd = {"site": "one member", "cell": "people", "losing": "left"}
    if name in odd:
        plain = computed(consortium_from(TABLES["model"]))
        assert bool(right[odd[name]]) != bool(plain[odd[name]])


def test_the_reader_would_notice_another_number(folder):
    """The twin: the test above compares, and does not only parse."""
    page = officer.officer_document(
        written("losing", folder), format="html", language="en"
    )
    forged = page.replace(b"who are 3 or more", b"who are 4 or more")
    right = computed(consortium_from(TABLES["losing"]))
    assert read_annex(forged)["each member"] != right


def test_both_languages_have_the_same_rows_and_numbers(known):
    for facts in known.values():
        english, german = (papers.who_learns_what(facts, one) for one in ("en", "de"))
        assert list(english) == list(german)
        for key, (_, learns, missing) in english.items():
            for ours, theirs in zip(
                (*learns, *missing), (*german[key][1], *german[key][2]), strict=True
            ):
                assert re.findall(r"\d+", ours) == re.findall(r"\d+", theirs)


# What sentences say, tried


def test_a_cost_is_checked_at_home(folder, tmp_path):
    own, plan = tmp_path / "own.toml", str(written("cost", folder))
    for target, said in (
        (2.0, "you may take part"),
        (2000.0, "beyond the range of 10"),
    ):
        own.write_text(f"targets = [1.0, {target}]\n")
        found = CliRunner().invoke(app, ["check", plan, "--cost", str(own)])
        assert said in found.output


# What opens a connection to somebody else.
CALLERS = re.compile(
    r"\b(urlopen|build_opener|HTTPS?Connection|create_connection|open_connection|"
    r"getaddrinfo|sock_connect|smtplib|ftplib|httpx|aiohttp|import requests)\b|"
    r"websockets\.(asyncio|sync)\.client import"
)
HOST = re.compile(r"(?:https?|wss?)://([\w.-]+\.\w+)")


def calling(folder):
    """By file that can call somebody, the hosts that it has of its own."""
    return {
        str(path.relative_to(folder)): {
            host
            for host in HOST.findall(text)
            if not host.endswith((".example", ".example.org"))
        }
        for path in sorted(folder.rglob("*.py"))
        if CALLERS.search(text := path.read_text("utf-8"))
    }


def test_every_paper_says_of_which_plan_it_is(known):
    for facts in known.values():
        name = facts.title or facts.run or facts.file
        for made in (papers.annex_of_plan, forms.edpb_paper):
            for language in catalogue_languages():
                paper = made(facts, language)
                assert name in paper.title
                page = papers.annex_paper_html(paper).decode()
                shown = html_text(paper.title)
                assert f"<title>{shown}</title>" in page
                assert f"<h1>{shown}</h1>" in page
                foot = page_foot(page).removesuffix("...")
                assert paper.title.startswith(foot)
                assert name[:20] in foot


def test_commands_are_set_apart_from_what_is_said_of_them(folder):
    for language in catalogue_languages():
        page = officer.officer_document(
            written("site", folder), format="html", language=language
        )
        found = re.findall("<code>(.*?)</code>", page.decode())
        typed = [re.sub("</?span>", "", one).split() for one in found]
        names = ["consortium", "check", "audit", "verify", "report"]
        assert [one[1] for one in typed] == names
        assert typed[-1][-2:] == ["--for", "dpo"]
        for one in typed:  # such commands there are
            asked = CliRunner().invoke(app, [one[1], "--help"])
            assert asked.exit_code == 0
            options = [word for word in one if word.startswith("--")]
            assert all(word in asked.output for word in options)


def page_foot(page):
    """Return what is printed below every page, as a browser reads the style."""
    (text,) = re.findall(r'@bottom-left \{ content: "([^"]*)"', page)
    return re.sub(r"\\([0-9a-f]{6})", lambda one: chr(int(one[1], 16)), text)


def test_the_program_calls_nobody_of_its_own(tmp_path):
    """Whoever can call has no address of its own to call; a new caller is noticed."""
    found = calling(ROOT / "src" / "veilsum")
    assert set(found) == {
        *("net/doctor.py", "net/sockets.py", "web/fetching.py"),
        "scale/cluster.py",  # a cluster whose address was typed
    }
    assert not any(found.values())
    # The twin: a line that reports home is found.
    home = "urlopen('https://home.veilsum.org/hello')"
    (tmp_path / "planted.py").write_text(home)
    assert calling(tmp_path) == {"planted.py": {"home.veilsum.org"}}


@each("kind", [one for one in QUESTIONS if "dispatch" not in one])
def test_whose_numbers_are_masked_is_what_the_guarantee_says(kind):
    """Of rows, or of what a member makes of all of them: less is hidden then."""
    consortium = consortium_from(table(QUESTIONS[kind]))
    (question,) = _plan_facts(consortium, "consortium").questions
    assert question.by_party == (PARTY_UNITS_LIMIT in promise_of(consortium).limits)


def test_every_rule_that_is_weaker_is_explained_first(known):
    told_elsewhere = {"tolerate", "site_terms"}  # in sentences of their own
    seen = set()
    for name, facts in known.items():
        for language in catalogue_languages():
            alarms = papers.annex_paper_texts(facts, "alarm", language)
            for rule in (facts.relaxed.keys() & facts.rules.keys()) - told_elsewhere:
                (one,) = [text for text in alarms if f": {rule} = " in text]
                assert len(one.partition("): ")[2]) > 20, name
                assert one.startswith(("Weaker than usual", "Schwächer als üblich"))
                seen.add(rule)
            assert ("site_terms = true" in " ".join(alarms)) == facts.site_terms
    assert seen == set(STRICTER) - told_elsewhere - {"minimum_guests"}  # of surveys


def test_sums_are_in_words_in_both_languages(asked):
    for kind, facts in asked.items():
        (question,) = facts.questions
        for one in question.sums:
            english, german = (
                paper_sum_lines(one, language) for language in ("en", "de")
            )
            counts = [int(text.partition(":")[0]) for text in english]
            assert counts == [int(text.partition(":")[0]) for text in german], kind
            assert sum(counts) == sum(one.statistics.values())
            assert not {*english} & {*german}


def test_words_are_explained_where_they_occur(known):
    def explained(name, language="en"):
        (table,) = papers.annex_of_plan(known[name], language).parts[-1].blocks
        return {row[0][0] for row in table.rows}

    assert "site term" in explained("site")
    assert "site term" not in explained("model")
    assert {"level", "mask", "ledger", "digest"} <= explained("model")
    assert "bin" not in explained("cost")
    assert "digest" not in explained("plan")
    for name in known:
        german = {one.partition(":")[0] for one in report_words("de", "word").values()}
        assert explained(name, "de") <= german


def test_what_a_kind_of_question_leaves_open_is_on_the_annex(known):
    for name, facts in known.items():
        if name in TABLES:
            page = " ".join(consent_to(consortium_from(TABLES[name])).page.split())
            (question,) = facts.questions
            for one in question.own_limits:
                assert " ".join(one.split()) in page, name
    assert GENERATORS in known["dispatch"].questions[0].own_limits
    assert known["mixed"].questions[0].own_limits


def everything(part):
    """Yield every text of a paper, a block or a row."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, tuple):
        yield from (text for one in part for text in everything(one))
    elif isinstance(part, papers.AnnexPaper | papers.PaperPart):
        head = part.title if isinstance(part, papers.AnnexPaper) else part.heading
        yield head
        yield from everything(getattr(part, "lead", ()))
        yield from everything(part.parts if hasattr(part, "parts") else part.blocks)
    elif isinstance(part, papers.AnnexLines):
        yield from part.texts
    elif isinstance(part, papers.AnnexBars):
        yield from (part.caption, part.nothing, *(name for name, _ in part.bars))
    else:
        assert isinstance(part, papers.SentenceTable)
        yield from (*part.columns, *everything(part.rows))


# Words that no German sentence has, but for names, commands and what a file says.
ENGLISH = re.compile(
    r"\b(the|of|and|or|which|who|with|from|each|every|that|is|are|not|by|to|sums?|"
    r"rows?|levels?|values?|cells|bins|members?|part(y|ies)|below|above|folds?)\b",
    re.IGNORECASE,
)


def without_quotes(text):
    """Return a text without quotes, commands, names of rules, keys and digests."""
    for pattern in (r'"[^"]*"', r"\bveilsum [a-z ]+(?=[A-Z])", r"\w+[_.]\w+", r"--\w+"):
        text = re.sub(pattern, "", text)
    return text


@pytest.fixture(scope="module", name="told")
def told_fixture(known, asked):
    """Every text of every paper, by language."""
    plans = [*known.values(), *asked.values()]
    return {
        language: dict.fromkeys(
            text
            for facts in plans
            for made in (papers.annex_of_plan, forms.edpb_paper)
            for text in everything(made(facts, language))
        )
        for language in catalogue_languages()
    }


def test_nothing_in_the_german_papers_is_english(known, told):
    for text in told["de"]:
        found = ENGLISH.search(without_quotes(text))
        assert found is None, (found, text)
    # The twin: the same sentences in English are found, nearly all of them.
    english = [*everything(papers.annex_of_plan(known["losing"], "en"))]
    missed = [one for one in english if not ENGLISH.search(without_quotes(one))]
    assert len(missed) < len(english) / 3, missed


def pieces(text):
    """Return what a sentence says between numbers and names, if it is long enough."""
    parts = string.Formatter().parse(text)
    return [one.strip() for one, *_ in parts if len(one.strip()) > 12]


def limit_text(key):
    """Return the English limit with a key, as questions have it."""
    return limit_phrase(key, least=2 * PARTIES_EACH, each=PARTIES_EACH)


def test_no_english_sentence_of_the_catalogue_is_on_a_german_page(told):
    english = [
        *(piece for one in report_sentences() for piece in pieces(one.written("en"))),
        *report_words("en", "risk_titles").values(),
        *(
            piece
            for table in ("words", "who", "questions", "edpb")
            for text in report_words("en", table).values()
            for piece in pieces(text)
        ),
        *map(limit_text, catalogue("de")["limits"]),
    ]
    shown, german = ("\n".join(told[language]) for language in ("en", "de"))
    assert not [piece for piece in english if piece in german]
    # The twin: all but the words of a list of headings are on an English page.
    assert sum(piece in shown for piece in english) > 0.9 * len(english)


def test_limits_of_every_kind_of_question_are_in_german(known, asked):
    plans = [*known.values(), *asked.values()]
    found = {one for f in plans for q in f.questions for one in q.own_limits}
    assert {one.facts["key"] for one in found} == {*catalogue("de")["limits"]}
    for english in found:
        german = paper_limit_of_party(english, "de")
        # The same numbers, and names of rules.
        assert re.findall(r"\d+|\w+_\w+", english) == re.findall(r"\d+|\w+_\w+", german)


def test_whatever_members_are_counted_by_has_words_in_both_languages(asked):
    groups = [group for facts in asked.values() for group in facts.counted]
    names = [one.columns[0] for one in groups if one.kind == "other"]
    assert len(names) > 5
    for name in names:
        for language in catalogue_languages():
            assert report_group_name(name, language) != f'"{name}"'
    assert report_group_name("groups of ward in which age is missing", "de") == (
        'Gruppen von "ward", in denen "age" fehlt'
    )
    assert report_group_name("something new", "de") == '"something new"'


def test_whatever_may_be_wrong_with_a_receipt_has_words(tmp_path):
    ran = RunFolder(run_folder(tmp_path))
    verdict = verify_receipts([ran.receipt], ran.agreed[1])
    # One receipt agrees with itself.
    alone = {*OF_ALL, *ALIKE.values(), "one receipt for each party"}
    alone.add("the same page was agreed to, by programs of one version")
    assert {one.check for one in verdict.findings} - alone == set(
        report_words("en", "failed")
    )


def run(name, data):
    return question_job_of(
        consortium_from(TABLES[name]), data, driver="vectorised", seed=0
    ).run()


def test_a_member_knows_the_sums_over_the_others(known):
    data = tables("statistics")
    shown = run("losing", data).released.sums[-1]
    # What each gives: all hold its table, and four times its numbers are shown.
    given = {
        name: run("losing", dict.fromkeys(NAMES, one)).released.sums[-1] / 4
        for name, one in data.items()
    }
    rest = sum(given[name] for name in NAMES[1:])
    assert (shown - given["ann"] == rest).all()
    assert not (shown - given["bob"] == rest).all()
    assert known["losing"].others() == len(NAMES[1:])


def test_every_coalition_knows_the_sums_over_all_others_and_no_others(known):
    facts, found = (
        known["strict"],
        resolve_agreed_question(consortium_from(TABLES["strict"])),
    )
    for size in range(1, facts.tolerate + 1):
        for some in combinations(NAMES, size):
            told = guarantee_against_coalition(
                found.terms.topology, found.terms.law.masks, corrupted=some
            )
            ((piece),) = told.components
            assert len(piece.parties) == facts.others(size)
            assert set(piece.parties) == set(NAMES) - set(some)


def test_all_but_one_know_what_the_last_one_gave():
    found = resolve_agreed_question(consortium_from(TABLES["model"]))
    told = guarantee_against_coalition(
        found.terms.topology, found.terms.law.masks, corrupted=NAMES[1:]
    )
    assert told.status == "exposed"
    assert told.released == ("every coefficient of ann, exactly",)


def test_two_together_know_the_sums_over_the_others(known):
    """More than is tolerated: at least these, whoever they are."""
    found = resolve_agreed_question(consortium_from(TABLES["model"]))
    for some in combinations(NAMES, known["model"].tolerate + 1):
        told = guarantee_against_coalition(
            found.terms.topology, found.terms.law.masks, corrupted=some
        )
        rest = [name for piece in told.components for name in piece.parties]
        assert sorted(rest) == sorted(set(NAMES) - set(some))


def test_where_all_are_linked_no_more_than_sums_is_known(known):
    """And in a ring two who stand between the others know what each of them gave."""
    found = resolve_agreed_question(consortium_from(TABLES["model"]))
    graph, masks = found.terms.topology, found.terms.law.masks
    assert known["model"].all_linked
    for size in range(2, len(NAMES)):
        for some in combinations(NAMES, size):
            (piece,) = guarantee_against_coalition(
                graph, masks, corrupted=some
            ).components
            assert set(piece.parties) == set(NAMES) - set(some)
    ann, bob, cem, dee = NAMES
    ring = Topology.from_edges([(ann, bob), (bob, cem), (cem, dee), (dee, ann)])
    told = guarantee_against_coalition(ring, masks, corrupted=(ann, cem))
    assert sorted(len(one.parties) for one in told.components) == [1, 1]
    edges = [[a, b] for a, b in combinations(NAMES, 2) if (a, b) != (bob, dee)]
    given = {**TABLES["model"], "graph": {"edges": edges}}
    assert not _plan_facts(consortium_from(given), "consortium").all_linked


def test_the_same_rows_may_be_used_again_and_all_after_some_may_not(tmp_path, known):
    data = tables("statistics")

    def ask(number, names):
        given = {**TABLES["losing"], "run": f"number-{number}-{'0' * 32}"}
        consortium = consortium_from(
            {
                **given,
                "members": [m for m in given["members"] if m["name"] in names],
                "graph": {"edges": [list(two) for two in combinations(names, 2)]},
            }
        )
        budget = Budget(minimum_honest=2)  # as a ledger has it after such a plan
        with open_ledger(tmp_path / "ann.ledger", create=budget) as ledger:
            question_job_of(
                consortium,
                {name: data[name] for name in names},
                driver="vectorised",
                seed=0,
                ledgers={"ann": ledger},
            ).run()

    ask(1, NAMES[:3])
    ask(2, NAMES[:3])  # the very same rows and members
    with refusals.refused("budget-exceeded", BudgetError):
        ask(3, NAMES)
    facts = known["losing"]
    assert report_values(facts, "en")["apart"] == str(
        facts.minimum_honest + facts.tolerate
    )


def test_after_a_loss_two_of_three_know_what_the_third_gave(known):
    found = resolve_agreed_question(consortium_from(TABLES["losing"]))
    graph, masks = found.terms.topology, found.terms.law.masks
    left = NAMES[:3]
    assert len(left) == known["losing"].fewest
    pair = graph.induced(graph.indices(left))
    told = guarantee_against_coalition(pair, masks, corrupted=left[1:])
    assert told.released == ("every coefficient of ann, exactly",)
    # The twin: while all four are there, two do not.
    assert (
        guarantee_against_coalition(graph, masks, corrupted=left[1:]).status
        != "exposed"
    )


def test_as_few_may_be_left_as_is_said(known):
    for name in ("losing", "model"):
        consortium, facts = consortium_from(TABLES[name]), known[name]
        fewest = min(
            size
            for size in range(1, 5)
            for some in combinations(NAMES, size)
            if consortium.refusal(some) is None
        )
        assert facts.fewest == fewest if facts.drop else fewest == len(NAMES)


def wards():
    data = tables("gaussian")
    for place, (name, one) in enumerate(data.items()):
        ward = [["north", "south", "east", "west"][place]] * len(one["x"])
        columns = {key: np.asarray(one[key]) for key in ("x", "y", "sex")}
        data[name] = as_frame({**columns, "ward": np.array(ward)})
    return data


def test_a_site_term_gives_one_member_s_sums_to_all():
    """The wards are the members: entries of X'X are one member's own."""
    data = wards()
    sums = run("site", data).released.sums[0]
    rows = data["bob"]
    shown = [float(one) for one in sums]
    assert len(rows) in shown
    assert 1000 * float(np.sum(rows["x"])) in shown  # thousandths were agreed on
    assert 1000 * float(np.sum(rows["y"])) in shown
    # The twin: without it the question is refused.
    given = {**TABLES["site"], "policy": {}}
    with refusals.refused("group-too-small", mentions=("site_terms",)):
        question_job_of(consortium_from(given), data, driver="vectorised", seed=0).run()


def with_a_ward(people):
    """A ward that so many rows of one member have, and nobody else."""
    data = tables("gaussian")
    for name, one in data.items():
        columns = {key: np.asarray(one[key]) for key in ("x", "y", "sex")}
        ward = np.array(["north", "south", "east"])[np.arange(len(one)) % 3]
        if name == "dee":
            ward[:people] = "west"
        data[name] = as_frame({**columns, "ward": ward})
    return data, float(np.sum(np.asarray(data["dee"]["y"])[:people]))


def test_three_people_of_one_site_pass_every_check():
    data, of_three = with_a_ward(3)
    shown = [float(one) for one in run("site", data).released.sums[0]]
    assert 3.0 in shown
    assert 1000 * of_three in shown
    # The twin: two are refused.
    with refusals.refused("group-too-small", mentions=("minimum_count",)):
        run("site", with_a_ward(2)[0])
    # And so in a table of counts: three men, all of one member.
    given = consortium_from({**TABLES["losing"], "policy": {"site_terms": True}})
    men = with_men(ann=0, bob=0, cem=0, dee=3)
    (shown,) = (
        question_job_of(given, men, driver="vectorised", seed=0).run().released.sums
    )
    assert 3 in shown.tolist()


def test_without_both_rules_one_person_of_one_site_is_shown():
    data, of_one = with_a_ward(1)
    shown = [float(one) for one in run("bare", data).released.sums[0]]
    assert 1.0 in shown
    assert 1000 * of_one in shown
    # The twin: any of the rules refuses it.
    for rule in ("minimum_count", "effective_count", "maximum_influence"):
        policy = {k: v for k, v in TABLES["bare"]["policy"].items() if k != rule}
        given = consortium_from({**TABLES["bare"], "policy": policy})
        with pytest.raises(InvalidInputError, match=rule):
            question_job_of(given, data, driver="vectorised", seed=0).run()


def with_men(**men):
    """Tables of 400 rows in which so many are men, by member."""
    data = tables("statistics")
    for name, one in data.items():
        columns = {key: np.asarray(one[key]) for key in ("x", "y", "grade")}
        sexes = np.array(["m"] * men[name] + ["f"] * (400 - men[name]))
        data[name] = as_frame({**columns, "sex": sexes})
    return data


def test_without_the_rule_three_people_are_shown():
    """One man of each of three members: never fewer, and no member sees one alone."""
    first, shown = run("cell", with_men(ann=1, bob=1, cem=1, dee=0)).released.sums
    assert first[:5].tolist() == [0, 4, 4, 4, 3]
    assert 3 in shown.tolist()
    # The twin: of two members it is refused, though no rule at home minds.
    with refusals.refused("merging-leaves-nothing", mentions=("m",)):
        run("cell", with_men(ann=1, bob=1, cem=0, dee=0))


def test_a_member_with_women_only_may_take_part():
    """How many members have men is known, and not which."""
    some, others = (
        run("losing", with_men(**dict.fromkeys(NAMES, 40) | {name: 0})).released.sums
        for name in ("dee", "ann")
    )
    assert some[0][:5].tolist() == [0, 4, 4, 4, 3]
    assert some[0].tolist() == others[0].tolist()


def test_the_only_one_without_knows_that_all_others_have_it():
    """And one that has it does not know which of the others has it not."""
    worlds = {
        name: run("losing", with_men(**dict.fromkeys(NAMES, 40) | {name: 0}))
        for name in ("dee", "bob", "cem")
    }
    holders = {name: int(one.released.sums[0][4]) for name, one in worlds.items()}
    assert set(holders.values()) == {len(NAMES) - 1}
    assert holders["dee"] - 0 == len(set(NAMES) - {"dee"})  # all others: it knows
    # To ann, who has it, all three worlds are one.
    assert holders["dee"] - 1 == len(set(NAMES) - {"ann"}) - 1
    first, *others = (one.released.sums[0].tolist() for one in worlds.values())
    assert all(one == first for one in others)


def test_no_sum_of_a_column_is_over_three_people():
    """Who the men are changes no sum; by group, where it would, they are refused."""
    data = with_men(ann=1, bob=1, cem=1, dee=0)
    moved = {}
    for name, one in data.items():
        columns = {key: np.asarray(one[key]) for key in ("x", "y", "grade")}
        sexes = np.roll(np.asarray(one["sex"]), 7)
        moved[name] = as_frame({**columns, "sex": sexes})
    ours, theirs = (run("cell", one).released.sums for one in (data, moved))
    for one, other in zip(ours, theirs, strict=True):
        assert one.tolist() == other.tolist()
    for kind, refused in (("groups", True), ("statistics", False)):
        consortium = consortium_from(
            table({**QUESTIONS[kind], "policy": {"minimum_count": 0}})
        )
        job = question_job_of(consortium, data, driver="vectorised", seed=0)
        if refused:
            with refusals.refused("group-too-small"):
                job.run()
        else:
            job.run()


def lonely():
    """Of one member's rows one alone is of a sex."""
    data = tables("statistics")
    columns = {key: np.asarray(data["cem"][key]) for key in ("x", "y", "grade")}
    sexes = np.array(["f"] * 399 + ["m"])
    data["cem"] = as_frame({**columns, "sex": sexes})
    return data


def test_without_the_rule_a_cell_of_one_person_is_shown():
    data = lonely()
    shown = run("cell", data).released.sums[-1].tolist()
    others = [one for name, one in data.items() if name != "cem"]
    men = sum(sex == "m" for one in others for sex in one["sex"])
    assert men + 1 in shown  # who knows all others' men knows of the one
    given = {**TABLES["cell"], "policy": {}}
    # With the rule three members need three men each; others may have one.
    few = with_men(ann=200, bob=200, cem=2, dee=2)
    with refusals.refused("merging-leaves-nothing", mentions=("minimum_count",)):
        question_job_of(consortium_from(given), few, driver="vectorised", seed=0).run()


def test_a_total_shows_what_holds_for_every_row():
    data = tables("statistics")
    for name, one in data.items():
        columns = {key: np.asarray(one[key]) for key in ("x", "y", "grade")}
        data[name] = as_frame({**columns, "sex": np.array(["f"] * 400)})
    with refusals.refused("merging-leaves-nothing", mentions=("m",)):
        run("losing", data)  # nobody may know that there is no man, or one
    found = run("cell", data)
    assert found.released.sums[-1][0] == 1600
    assert 1600 in found.released.sums[-1][1:].tolist()  # of 1600 rows, all are f


def test_what_no_first_sum_counts_may_be_one_member_s(known):
    """All have both sexes and all grades; men of a high one are at one member only."""
    data, grades = {}, np.array(["low", "mid", "high"])
    for place, name in enumerate(NAMES):
        stream = np.random.default_rng(place)
        sex = np.where(stream.random(400) < 0.5, "m", "f")
        grade = grades[stream.integers(0, 3, 400)]
        if name != "cem":
            grade = np.where((sex == "m") & (grade == "high"), "mid", grade)
        y = stream.integers(1, 9, 400).astype(float)
        data[name] = as_frame({"x": y, "y": y, "sex": sex, "grade": grade})
    own = sum(
        one == "m" and other == "high"
        for one, other in zip(data["cem"]["sex"], data["cem"]["grade"], strict=True)
    )
    found = run("crossed", data)
    groups = [(one.kind, one.columns) for one in known["crossed"].counted]
    assert groups == [("levels", ("grade",)), ("levels", ("sex",))]
    assert own > 20
    assert own in found.released.sums[-1].tolist()


def test_what_no_first_sum_counts_may_be_one_person_s():
    """The twin: without that person nobody is counted there."""
    found = []
    for men in (1, 0):
        data, grades = {}, np.array(["low", "mid", "high"])
        for place, name in enumerate(NAMES):
            stream = np.random.default_rng(place)
            sex = np.where(np.arange(400) % 2, "m", "f")
            grade = grades[np.arange(400) % 3]
            grade = np.where((sex == "m") & (grade == "high"), "mid", grade)
            if name == "cem" and men:
                grade[1] = "high"
            y = stream.integers(1, 9, 400).astype(float)
            data[name] = as_frame({"x": y, "y": y, "sex": sex, "grade": grade})
        found.append(run("crossed", data).released.sums[-1].tolist())
    assert [one.count(1) for one in found] == [1, 0]


def longer(one):
    """A table with one row more."""
    columns = {key: np.asarray(one[key]) for key in one.columns}
    return as_frame({key: np.append(c, c[:1]) for key, c in columns.items()})


def test_a_ledger_that_is_deleted_is_missed_by_nobody(tmp_path):
    data, path = tables("statistics"), tmp_path / "ann.ledger"

    def ask(run, table):
        with open_ledger(path, create=Budget()) as ledger:
            question_job_of(
                consortium_from({**TABLES["losing"], "run": f"{run}-{'0' * 32}"}),
                {**data, "ann": table},
                driver="vectorised",
                seed=0,
                ledgers={"ann": ledger},
            ).run()

    ask("monday", longer(data["ann"]))
    with refusals.refused("cut-too-near", BudgetError, mentions=("1",)):
        ask("tuesday", data["ann"])
    path.unlink()
    ask("tuesday", data["ann"])


def test_a_ledger_still_knows_a_row_that_was_deleted(tmp_path):
    """Whoever has the ledger tries a row; another row is not there."""
    table = pd.DataFrame({"age": np.arange(60.0), "pay": np.arange(60.0) ** 2})
    with open_ledger(tmp_path / "ann.ledger", create=Budget()) as ledger:
        known = ledger.data(FingerprintSource(table, ("age", "pay")))
        ledger.reserve(
            reservation(data=known.data, columns=known.asked, rows=400), known
        )
        kept = set(read_row_fingerprints(ledger.history().versions[0].rows).tolist())

        def prints(row):
            return set(
                ledger.data(FingerprintSource(row, ("age", "pay")))
                .prints.rows()
                .tolist()
            )

        assert prints(table[:1]) <= kept
        assert not prints(table[:1] + 1000.0) & kept


def test_no_file_sets_a_period():
    keys = {*ConsortiumFile.__struct_fields__, *PolicySection.__struct_fields__}
    assert not {one for one in keys if re.search("retention|period|delete|keep", one)}


def test_deleting_a_row_changes_no_sum_that_is_known():
    data = tables("statistics")
    one = {key: np.asarray(data["ann"][key]) for key in data["ann"].columns}
    more = {key: np.append(column, column[:1]) for key, column in one.items()}
    known = run("losing", {**data, "ann": as_frame(more)}).released.sums[-1]
    kept = known.copy()
    after = run("losing", data).released.sums[-1]  # with that row deleted
    assert (known == kept).all()
    assert known[0] - after[0] == 1  # and the difference is that person


def test_distances_are_those_of_the_proved_bound(known):
    facts = known["lattice"]
    assert [one for one, _ in facts.distances] == list(CHANCES)
    for chance, far in facts.distances:
        just = lattice_success(facts.epsilon * (far * 0.999) ** 2)
        assert just < chance <= lattice_success(facts.epsilon * (far * 1.001) ** 2)
    text = " ".join(papers.annex_paper_texts(facts, "number", "en"))
    said = re.findall(
        r"fewer than (\d+) % of cases while the distance is below (\S+)", text
    )
    assert len(said) == len(CHANCES)
    for (percent, number), (chance, far) in zip(said, facts.distances, strict=True):
        assert int(percent) == round(100 * chance)
        assert 0.9 * far <= float(number.rstrip(";.,").replace(",", "")) <= far
    assert known["model"].distances == ()


def test_levels_follow_from_the_plan(known):
    def levels(name):
        return {
            one.key: (one.likelihood(known[name]), one.severity(known[name]))
            for one in report_risks(known[name])
        }

    assert levels("model")["risk.collusion"] == (2, 2)
    assert levels("strict")["risk.collusion"][0] == 1
    assert levels("nobody")["risk.collusion"][0] == 4
    assert levels("site")["risk.site"][0] == 4
    assert "risk.site" not in levels("model")
    assert levels("site")["risk.person"] == (3, 3)
    assert levels("cell")["risk.counted"] == (3, 3)
    assert levels("loose")["risk.one"] == (3, 3)
    assert "risk.one" not in levels("cell")
    assert levels("model")["risk.person"] == (1, 3)
    # What comes out when members pool is graver where it may be about one person,
    # and likelier where fewer are enough after a loss.
    assert levels("cell")["risk.collusion"] == (2, 3)
    assert levels("losing")["risk.collusion_lost"] == (3, 2)
    assert "risk.collusion" not in levels("losing")
    assert levels("losing")["risk.fewer"] == (3, 2)
    assert levels("losing")["risk.later"] == (2, 1)
    assert levels("model")["risk.absent"] == (3, 1)
    assert "risk.absent" in levels("model")
    for facts in known.values():
        for one in report_risks(facts):
            assert 1 <= one.likelihood(facts) <= 4
            assert 1 <= one.severity(facts) <= 4


# What it looks like


def test_the_command_writes_every_form_for_its_owner_alone(folder, tmp_path):
    for form in officer.FORMATS:
        out = tmp_path / f"made.{form}"
        words = ["report", str(written("site", folder)), "--for", "dpo", "-o", str(out)]
        found = CliRunner().invoke(app, [*words, "--format", form, "--language", "de"])
        if form == "crate":
            assert found.exit_code == 2
            assert "a run that is over is wanted" in found.output
            continue
        assert found.exit_code == 0, found.output
        assert out.stat().st_mode & 0o077 == 0
        assert out.stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.skipif(
    chromium_for_reports() is None, reason="there is no Chromium to print with"
)
@pytest.mark.parametrize("name", OFFICERS_PLANS)
def test_the_annex_has_two_or_three_pages(name, folder):
    for language in catalogue_languages():
        page = officer.officer_document(
            written(name, folder), format="html", language=language
        )
        assert len(re.findall(rb"/Type ?/Page\b", report_pdf(page))) in {2, 3}


@pytest.mark.slow
@pytest.mark.parametrize("language", catalogue_languages())
def test_the_annex_opens_in_a_browser(language, tmp_path, folder):
    for form in ("html", "edpb"):
        path = tmp_path / f"{form}.html"
        path.write_bytes(
            officer.officer_document(
                written("site", folder), format=form, language=language
            )
        )
        assert path.stat().st_size < 100_000
        for width in WIDTHS:
            for scheme in SCHEMES:
                with opened(path, width=width, scheme=scheme) as seen:
                    assert not seen.errors
                    assert not seen.outside
                    assert seen.too_wide == 0
                    if width == 390:  # cells below each other, as wide as the page
                        cells = seen.page.locator("td").evaluate_all(
                            "all => all.map(one => one.offsetWidth)"
                        )
                        assert min(cells) > 300


def test_examples_that_real_parties_could_run_have_an_annex():
    for name in ("diabetes", "study", "dispatch30", "lung"):
        page = officer.officer_document(
            EXAMPLES / f"{name}.toml", format="html", language="de"
        )
        assert page.startswith(b"<!doctype html>")
        assert b'lang="de"' in page


def test_what_no_plan_says_is_left_open(known):
    """Sections that only people can fill are marked, in every plan."""
    for facts in known.values():
        for language in catalogue_languages():
            paper = forms.edpb_paper(facts, language)
            parts = {one.heading[0]: [] for one in paper.parts}
            for one in paper.parts:
                if one.heading[0].isdigit():
                    section = one.heading[0]
                parts[section] += [
                    t for b in one.blocks for t in getattr(b, "texts", ())
                ]
            assert list(parts)[:1] == ["0"]
            for section in "0123456":
                if section != "1":
                    assert report_words(language, "edpb")["open"] in parts[section], (
                        section
                    )
            assert parts["3"] == parts["5"] == parts["6"]
