"""Claims that every registered question keeps, on one small run of each kind.

A question in `consortium.kinds` that has no example in `contracts/asked.py` fails here.
"""

import json
import pickle
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
import tomli_w

from contracts import asked, totals
from contracts.asked import NAMES, QUESTIONS, Watched, heading, ledgers
from net.runs import ITERATED, Company, answers
from report.officer_plans import NOW
from report.test_officer import everything
from reworded import REWORDED, agreed_digests, run_python, sentences_of_terms
from surveys import survey_table
from veilsum.consortium import kinds
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.sections import ScenarioFile
from veilsum.errors import InvalidInputError, SecretError, VeilsumError
from veilsum.files.consortiums import write_consortium
from veilsum.files.output import as_strict_json
from veilsum.files.scenarios import read_scenario
from veilsum.locale import catalogue_languages, statistic_label
from veilsum.minimise.solve import run_scenario
from veilsum.party.consent import consent_to
from veilsum.party.replay import (
    OWN,
    agreed_findings,
    replay_released_sums,
    result_findings,
)
from veilsum.reading import read_section
from veilsum.report import annex as papers, forms, sentences
from veilsum.report.plan_facts import plan_facts_of
from veilsum.sums.job_file import read_job
from veilsum.sums.kinds import resolve_agreed_question
from veilsum.sums.presence import PresenceScreenedRecipe
from veilsum.sums.recipes import ObjectedError
from veilsum.sums.releases import OBJECTIONS

EVERY = ("cost", *QUESTIONS)
# Prints what follows from some files.
DIGESTS = """
import json
from contracts import totals
from reworded import agreed_digests
from veilsum.consortium import kinds
from veilsum.files.consortiums import read_consortium
from veilsum.party.consent import consent_to

with kinds.registered(totals.KIND):
    files = [*map(read_consortium, sys.argv[1:])]
    pages = [consent_to(one).page for one in files]
    print(json.dumps([[*map(agreed_digests, files)], pages]))
"""
every_question = pytest.mark.parametrize("name", EVERY)
every_table = pytest.mark.parametrize("name", QUESTIONS)


@dataclass(frozen=True)
class Run:
    """A question that three drivers have answered, each once for all claims."""

    name: str
    folder: object

    @cached_property
    def company(self):
        folder = self.folder / "network"
        if self.name == "cost":
            return Company(folder, ITERATED)
        return Company(folder, asked.scenario(self.name, folder))

    @cached_property
    def network(self):
        found = self.company.run()
        answers(found)
        return found

    @cached_property
    def receipts(self):
        return self.company.receipts(self.network)

    @property
    def job(self):
        return read_job(self.company.scenario, heading(self.name))

    def simulated(self, driver, **options):
        if self.name == "cost":
            return run_scenario(read_scenario(self.company.scenario), driver=driver)
        return replace(self.job, compare=False).run(driver=driver, **options)

    @cached_property
    def arrays(self):
        more = {} if self.name == "cost" else {"seed": 2}
        return self.simulated("vectorised", **more)

    @cached_property
    def books(self):
        return ledgers(self.folder)

    @cached_property
    def driver(self):
        return Watched(seed=1)

    @cached_property
    def loopback(self):
        more = {} if self.name == "cost" else {"ledgers": self.books}
        return self.simulated(self.driver, **more)


@pytest.fixture(scope="module", autouse=True)
def installed():
    with kinds.registered(totals.KIND):
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    made = {name: Run(name, tmp_path_factory.mktemp("run")) for name in EVERY}
    return made.__getitem__


def test_every_question_is_here():
    assert {heading(name) for name in EVERY} | {"survey"} == {
        *kinds.question_section_headings()
    }


def officers_facts(run):
    path = run.folder / "officer.toml"
    if not path.exists():
        write_consortium(path, run.company.consortium)
    return plan_facts_of(path)


@every_question
def test_three_drivers_find_the_same(name, runs):
    run = runs(name)
    loopback, arrays = run.loopback, run.arrays
    if name == "cost":  # real numbers under masks that are drawn anew
        for found in (arrays.minimiser, *answers(run.network).values()):
            np.testing.assert_allclose(found, loopback.minimiser, rtol=0, atol=1e-9)
        return
    sums = [one.tolist() for one in loopback.released.sums]
    for found in (arrays, *run.network.values()):
        assert [one.tolist() for one in found.released.sums] == sums
        assert found.answer.tolist() == loopback.answer.tolist()
        assert found.guarantee.to_dict() == loopback.guarantee.to_dict()


def agreed_by(name, runs):
    if name == "survey":
        return consortium_from(survey_table())
    return runs(name).company.consortium


@pytest.mark.parametrize("name", [*EVERY, "survey"])
def test_the_terms_of_a_plan_are_keys_names_and_numbers(name, runs):
    assert not sentences_of_terms(agreed_by(name, runs))


def test_rewording_every_label_changes_no_digest(runs, tmp_path):
    """Whether members run one program or one with other words, they agree."""
    paths = {name: tmp_path / f"{name}.toml" for name in (*EVERY, "survey")}
    expected, pages = {}, {}
    for name, path in paths.items():
        agreed = agreed_by(name, runs)
        write_consortium(path, agreed)
        expected[name], pages[name] = agreed_digests(agreed), consent_to(agreed).page
    status, out, errors = run_python("-c", REWORDED + DIGESTS, *paths.values())
    assert status == 0, errors
    found, reworded = json.loads(out)
    assert dict(zip(paths, found, strict=True)) == json.loads(json.dumps(expected))
    for page, other in zip(pages.values(), reworded, strict=True):
        assert page != other


# There may be no such rows, objections or devices.
MAY_BE_ZERO = {OBJECTIONS, "left_out", "further_output"}


def places_of_numbers(release, recipe):
    """Where the numbers of a round are, by key."""
    if release.layout is None:
        places, start = {}, 0
        for key, count in release.statistics.items():
            places[key] = [*range(start, start + count)]
            start += count
        return places
    places = {
        key: [*range(one.start, one.stop)]
        for key, one in release.layout.places.items()
        if one.stop > one.start
    }
    if OBJECTIONS in release.statistics:
        guarded = recipe.inner if isinstance(recipe, PresenceScreenedRecipe) else recipe
        place = guarded.objecting.places[OBJECTIONS]
        places[OBJECTIONS] = [*range(place.start, place.stop)]
    return places


@every_table
def test_the_released_list_is_what_was_summed(name, runs):
    result = runs(name).loopback
    sums, listed = result.released.sums, result.releases
    assert len(sums) == len(listed) == len(result.guarantee.released)
    carried = set()
    for numbers, one in zip(sums, listed, strict=True):
        assert len(numbers) == result.recipe.size
        places = places_of_numbers(one, result.recipe)
        assert {key: len(some) for key, some in places.items()} == dict(one.statistics)
        carried |= {key for key, some in places.items() if any(numbers[some])}
        # What fills a sum up to its length is 0, and nobody's.
        taken = {place for some in places.values() for place in some}
        assert len(taken) == sum(one.statistics.values())
        assert not any(n for k, n in enumerate(numbers) if k not in taken)
    assert {key for one in listed for key in one.statistics} - carried <= MAY_BE_ZERO
    assert sum(one.numbers for one in listed) <= result.recipe.most_numbers


@every_question
def test_consent_lists_every_released_key(name, runs):
    page = consent_to(runs(name).company.consortium)
    shown = " ".join(page.page.split())
    foreseen = resolve_agreed_question(runs(name).company.consortium).recipe.foreseen
    for one in foreseen:
        for key, count in one.statistics.items():
            assert (f"- {statistic_label(key)} ({count}): " in shown) == bool(count)
    if name == "cost":
        return
    known = [dict(one.statistics) for one in foreseen]
    seen = [dict(one.statistics) for one in runs(name).loopback.releases]
    assert all(one in known for one in seen)
    least, most = page.facts["rounds"]
    assert least <= len(seen) <= most


@every_table
def test_ledgers_are_charged_before_anything_leaves(name, runs):
    run = runs(name)
    rounds = len(run.loopback.releases)
    for book in run.books.values():
        known = book.history()
        assert len(known.charges) == len(known.releases) == rounds
        (account,) = book.totals()
        assert run.name != "totals" or account.columns == ("dose", "ill")
        assert account.numbers == sum(one.numbers for one in run.loopback.releases)
        assert account.reserved == 0
    charged = {(party, epoch): at for party, epoch, at in run.driver.charged}
    emitted = run.driver.emitted
    assert len(emitted) == rounds * len(NAMES)
    assert all(charged[key] <= at for key, at in emitted.items())


@every_table
def test_a_party_that_objects_ends_the_run(name, runs, tmp_path):
    """At the first request by a refusal, later by numbers that name nobody."""
    rounds = len(runs(name).loopback.releases)
    for number in {0, rounds - 1}:
        books = ledgers(tmp_path / str(number))
        driver = Watched(seed=1, objector=("c", number))
        with pytest.raises(VeilsumError) as raised:
            runs(name).simulated(driver, ledgers=books)
        (world,) = driver.worlds
        heard = [one.detail for p, one in world.aborted.items() if p != "c"]
        assert len(heard) == len(NAMES) - 1
        assert not world.finished
        assert not any(asked.REASON in words for words in heard)
        objected = number and world.works["c"].recipe.objects
        assert isinstance(raised.value, ObjectedError) == bool(objected)
        if objected:
            assert str(raised.value).endswith(asked.REASON)  # a simulation knows
            assert not any("'c'" in words for words in heard)
        # The total of a round with an objection is random, and has been delivered.
        assert len(world.sums) == number + bool(objected)
        charges = {len(one.history().charges) for one in books.values()}
        assert charges <= {number, number + 1}


@every_question
@pytest.mark.parametrize("language", catalogue_languages())
def test_every_question_has_papers_for_an_officer(name, language, runs):
    """A question of another distribution is described in its own words."""
    facts = officers_facts(runs(name))
    heard = {
        one.key: one.text(facts, language)
        for one in sentences.report_sentences_in(facts, "purpose")
    }
    own = heading(name)
    asked_for = heard[f"purpose.{own if own in kinds.BUILT_IN else 'other'}"]
    for paper in (
        papers.annex_of_plan(facts, language),
        forms.edpb_paper(facts, language),
    ):
        assert asked_for in everything(paper)
        assert papers.annex_paper_html(paper)
    assert forms.pia_form(facts, language, NOW)
    assert forms.acro_form(facts, language, NOW)
    assert len(papers.paper_of_sums(facts, language).rows) == len(
        facts.questions[0].sums
    )
    assert ("purpose.other" in heard) == (own == "totals")
    if own == "totals":
        assert asked_for.endswith(f'"totals", "{totals.KIND.command["summary"]}".')
        assert "totals.sums" in str(papers.paper_of_sums(facts, language))


def test_a_question_says_which_sentences_of_an_officer_are_true_of_it(
    runs, monkeypatch
):
    """Two columns of few values: a sum of their products counts combinations."""
    run = runs("totals")
    assert not officers_facts(run).counts
    assert not officers_facts(run).combines
    monkeypatch.setattr(totals.TotalsKind, "counts_rows", True)
    monkeypatch.setattr(totals.TotalsKind, "multiplied", None)
    (question,) = officers_facts(run).questions
    assert officers_facts(run).counts
    assert question.combines == (len(question.counted) > 1)


@every_question
def test_receipts_agree_and_the_run_is_replayed(name, runs):
    run = runs(name)
    agreed, receipts = run.company.consortium, run.receipts
    assert run.company.verdict(run.network).good
    assert len({one.consent for one in receipts}) == 1
    if name == "cost":
        return
    party, found = next(iter(run.network.items()))
    sums, plain = found.released.sums, run.company.result(party, found)
    with run.company.ledger(party) as book:
        assert len(book.history().charges) == len(sums)
    again = replay_released_sums(agreed, sums=sums, members=found.released.members)
    mine = {key: one for key, one in plain.items() if key not in OWN}
    kept = json.loads(as_strict_json(again.to_dict()))
    assert {key: one for key, one in kept.items() if key not in OWN} == mine
    # The twins: a page, a result and a sum that are not the run's.
    other = [replace(one, consent="0" * 64) for one in receipts]
    assert not all(one.good for one in agreed_findings(other, agreed))
    for changed in (
        {"result": {**plain, "minimiser": [one + 1 for one in plain["minimiser"]]}},
        {"sums": (*sums[:-1], sums[-1] + 1)},
    ):
        given = {"result": plain, "sums": sums, **changed}
        assert not all(one.good for one in result_findings(receipts, agreed, **given))


@every_question
def test_a_result_is_plain_json_and_text(name, runs):
    result = runs(name).loopback
    plain = result.to_dict()
    assert json.loads(as_strict_json(plain)) == json.loads(
        json.dumps(plain, allow_nan=False)
    )
    assert plain["minimiser"] == result.to_dict()["minimiser"]
    assert repr(result)
    assert "<" in result._repr_html_()


@every_table
def test_a_pickled_result_is_the_same_and_holds_no_row(name, runs):
    result = runs(name).arrays
    # What was computed is kept, and pickled; tables and influence of rows are not.
    before, plain = result.summary(), result.to_dict()
    plain.pop("influence", None)
    stored = pickle.dumps(result)
    again = pickle.loads(stored)
    assert (again.summary(), again.to_dict()) == (before, plain)
    for table in runs(name).job.tables.values():
        for _, column in table.select_dtypes("number").items():
            assert np.asarray(column)[:8].tobytes() not in stored


@every_question
def test_a_mistake_in_a_file_is_a_sentence(name, runs):
    table = runs(name).company.table
    section = heading(name)
    misspelt = {**table, section: {**table[section], "colums": 1}}
    with pytest.raises(InvalidInputError, match=r"unknown key '?colums"):
        read_section(misspelt, ScenarioFile, "the scenario")


@pytest.mark.parametrize("name", asked.TABLES)
def test_a_mistake_about_columns_or_rules_is_a_sentence(name, runs):
    """A column that nobody agreed on, a range that rows leave, too few rows."""
    table = runs(name).company.table
    schema = table["schema"]
    columns = schema["columns"]
    used = "dose" if "dose" in str(table[heading(name)]) else "x"
    narrow = {**columns, used: {"kind": "number", "minimum": 0, "maximum": 0.5}}
    for changed, said in (
        ({"columns": {k: c for k, c in columns.items() if k != used}}, used),
        ({"columns": narrow}, used),
        ({"minimum_rows": 201}, "the schema wants at least 201"),
    ):
        path = runs(name).folder / "network" / "mistaken.toml"
        path.write_text(tomli_w.dumps({**table, "schema": {**schema, **changed}}))
        with pytest.raises(VeilsumError, match=said):
            read_job(path, heading(name)).run(driver="vectorised", seed=1)


def test_a_survey_keeps_to_its_page_and_file():
    """Guests bring numbers, and no table: the rest is in `questions/test_survey.py`."""
    page = " ".join(consent_to(consortium_from(survey_table())).page.split())
    for one in resolve_agreed_question(consortium_from(survey_table())).recipe.foreseen:
        for key, count in one.statistics.items():
            assert (f"- {statistic_label(key)} ({count}): " in page) == bool(count)
    table = survey_table()
    misspelt = {**table, "survey": {**table["survey"], "colums": 1}}
    with pytest.raises(InvalidInputError, match=r"unknown key '?colums"):
        consortium_from(misspelt)


def test_a_party_knows_its_own_outputs_of_a_dispatch(runs):
    run = runs("dispatch periods")
    for name, found in run.network.items():
        assert list(found.outputs) == [name]
        assert found.outputs[name].tolist() == run.loopback.outputs[name].tolist()


@every_question
def test_private_data_neither_prints_nor_pickles(name, runs):
    run = runs(name)
    _ = run.loopback
    (world,) = run.driver.worlds
    held = [run.company.part("a"), *world.works.values()]
    if name != "cost":
        held.append(run.job)
    for one in held:
        assert repr(one) == f"<{type(one).__name__}: private>"
        with pytest.raises(SecretError):
            pickle.dumps(one)
