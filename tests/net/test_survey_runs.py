"""Surveys over the real network: exact, one set for ever, and no key left behind."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from click.testing import CliRunner

import veilsum as vs
from net.runs import DiedError, answers, reasons
from refusals import refused
from surveyors import MEMBERS, N_GUESTS, ROWS, Surveyors, cells, in_cents
from veilsum.cli.app import app
from veilsum.consortium.consortium import consortium_from
from veilsum.errors import BudgetError, InvalidInputError
from veilsum.files.consortiums import write_consortium
from veilsum.net.identity import read_identity
from veilsum.net.receipt import read_receipt
from veilsum.party.checks import check_question_at_home
from veilsum.party.consent import consent_to
from veilsum.party.inputs import party_contribution
from veilsum.party.networked import SHOWN_OF_GUESTS
from veilsum.party.own_rules import OwnRules, relaxed_rules
from veilsum.party.own_survey import STORE, SUBMISSIONS
from veilsum.party.run import PartyInputs, prepare_party_run
from veilsum.party.surveying import published_survey_run
from veilsum.surveys.delegate import SurveyDelegateStore
from veilsum.surveys.question import SurveyRecipe
from veilsum.surveys.survey_set import survey_set_of


def check(company, found):
    """Everybody has the exact totals, and receipts prove them."""
    answers(found)
    given, totals = in_cents(company.guests)
    for one in found.values():
        assert one.guests == len(company.guests)
        assert one.given.tolist() == given
        flat = [cell for row in totals for cell in row]
        # 4 filled the last one; the others leave 4 honest ones under every member.
        enough = [number >= 13 for row in given for number in row]
        assert one.tally == survey_set_of(company.open_terms, company.submissions).tally
        known = zip(flat, enough, strict=True)
        assert list(one.counts) == [cell if shown else None for cell, shown in known]
    company.verdict(found)


def kept(company, name):
    """The private halves of a member's keys, as its store has them."""
    with closing(sqlite3.connect(company.folder(name) / STORE)) as file:
        return [row[0] for row in file.execute("SELECT private FROM key")]


def test_totals_are_exact_proved_and_leave_no_key(tmp_path):
    company = Surveyors(tmp_path)
    assert all(kept(company, name) != [None] for name in MEMBERS)
    found = company.run()
    check(company, found)
    first = found["ann"]
    assert first.given[2].tolist() == [0, 4]
    assert np.isnan(first.totals[2]).all()
    assert first.totals[1, 0] < 0
    assert all(kept(company, name) == [None] for name in MEMBERS)
    # A simulation of the same tables finds the same, by another road.
    tables = {
        name: {"women": [row[0] for row in one], "men": [row[1] for row in one]}
        for name, one in company.guests.items()
    }
    alone = vs.survey(tables, range=(-1000, 10_000_000), unit=0.01, seed=1)
    assert alone.answer.tolist() == first.answer.tolist()
    # Masked numbers were shown, and it is not said that a ledger was charged.
    driver = company.drivers["ann"]
    assert driver._shown(driver.ending) == SHOWN_OF_GUESTS
    # Who joins again is told what was found then, without any key.
    again = company.run()
    check(company, again)
    assert all(again[name].released.end.was_over for name in MEMBERS)


@pytest.mark.parametrize(
    "key",
    [
        "charge",
        pytest.param("input/", marks=pytest.mark.slow),
        pytest.param("masked/", marks=pytest.mark.slow),
    ],
)
def test_a_delegate_that_was_killed_comes_back(tmp_path, key):
    company = Surveyors(tmp_path)

    def dying(what, detail, peer):
        if what == key or (what == "persist" and detail.key.startswith(key)):
            raise DiedError

    async def come_and_go(company):
        company.records["bob"] = dying
        died = await company.start("bob")
        assert isinstance(died["bob"], DiedError), died
        assert kept(company, "bob") != [None]
        with closing(SurveyDelegateStore.open(company.folder("bob") / STORE)) as store:
            noted = [one.set for one in store.answered()]
        # Nobody is bound before masked numbers are about to leave.
        assert noted == ([company.consortium.question.set] if key == "charge" else [])
        company.records["bob"] = None
        return await company.start("bob")

    check(company, company.run("ann", "cem", meanwhile=come_and_go))
    assert kept(company, "bob") == [None]


def test_the_set_is_written_down_before_any_masked_number_leaves(tmp_path):
    company, seen = Surveyors(tmp_path), []

    def record(what, detail, peer):
        if what != "send":
            return
        with closing(SurveyDelegateStore.open(company.folder("ann") / STORE)) as store:
            bound = [one.set for one in store.answered()]
        message = company.drivers["ann"].plan.codec.decode(detail)
        seen.append((type(message).__name__, bound))

    company.records["ann"] = record
    check(company, company.run())
    (one,) = {company.consortium.question.set}
    assert any(not bound for _, bound in seen)
    assert {name for name, _ in seen} >= {"Share", "Masked"}
    assert all(bound == [one] for name, bound in seen if name == "Masked")


def test_a_delegate_with_another_set_ends_it_in_words(tmp_path):
    quick = {"resend": 0.1, "meeting": 0.3, "deadline": 0.5, "patience": 1}
    company = Surveyors(tmp_path, policy={"tolerate": 1, **quick})
    company.close(company.submissions[1:], "cem")
    found = reasons(company.run())
    for told in found.values():
        assert "consortium file" in told
    assert "survey" in found["cem"]
    # Nobody was bound to a set by that.
    for name in MEMBERS:
        assert kept(company, name) != [None]
        with closing(SurveyDelegateStore.open(company.folder(name) / STORE)) as store:
            assert store.answered() == ()


def test_a_second_set_is_refused_at_home_for_ever(tmp_path):
    company = Surveyors(tmp_path)
    check(company, company.run())
    company.close(company.submissions[1:])
    for path in company.folder("ann").glob("state.run*"):
        path.unlink()
    found = company.run("ann")["ann"]
    assert isinstance(found, BudgetError)
    assert "one set of a survey, ever" in str(found)


def test_a_set_too_small_is_refused_at_home(tmp_path):
    company = Surveyors(tmp_path, survey={"minimum_guests": 4})
    company.close(company.submissions[:5])
    found = check_question_at_home(company.part("ann"), "ann", None)
    assert not found.good
    (told,) = found.refusals.values()
    assert "are surely honest if any 1 of the members collude" in told
    assert "are surely honest" in str(company.run("ann")["ann"])
    assert not (company.folder("ann") / "state.run").exists()


def test_folders_without_what_is_needed_are_refused_in_words(tmp_path):
    company = Surveyors(tmp_path)
    folder = company.folder("ann")
    (folder / SUBMISSIONS).write_bytes((folder / SUBMISSIONS).read_bytes()[:-9])
    told = check_question_at_home(company.part("ann"), "ann", None).refusals[
        "submissions"
    ]
    assert "no submission" in told
    company.close(company.submissions[1:], "bob")  # the file names all of them
    company.options.clear()
    told = check_question_at_home(company.part("bob"), "bob", None).refusals[
        "submissions"
    ]
    assert "not those that the closed file names" in told
    (company.folder("cem") / STORE).unlink()
    told = check_question_at_home(company.part("cem"), "cem", None).refusals[
        "submissions"
    ]
    assert f"has no {STORE}" in told
    opened = Surveyors(tmp_path / "open")
    opened.consortium = opened.opened
    told = check_question_at_home(opened.part("ann"), "ann", None).refusals[
        "submissions"
    ]
    assert "this survey is open" in told
    with refused("not-a-folder"):
        party_contribution(company.consortium, data=folder / SUBMISSIONS)
    with refused("wrong-input-option", mentions=("--data",)):
        party_contribution(company.consortium)


def test_a_file_that_counts_more_than_guests_signed_is_refused_at_home(tmp_path):
    """The host says of a cell that few filled that enough did."""
    company = Surveyors(tmp_path)
    table = company.consortium.to_table()
    filled = table["survey"]["filled"]
    table["survey"]["filled"] = {
        name: [*one[:-1], one[0]] for name, one in filled.items()
    }
    company.consortium = consortium_from(table)
    for name in MEMBERS:
        told = check_question_at_home(company.part(name), name, None).refusals[
            "submissions"
        ]
        assert "counts other guests in a cell than have filled it" in told
    assert isinstance(company.run("ann")["ann"], InvalidInputError)
    assert not (company.folder("ann") / "state.run").exists()


def test_no_key_is_left_where_a_member_gave_numbers_of_another_set(
    tmp_path, monkeypatch
):
    """The run is over for good, and no error that says why keeps the key."""
    company = Surveyors(tmp_path)

    def impossible(recipe, sums):
        raise InvalidInputError("a member has given numbers of another set")

    monkeypatch.setattr(SurveyRecipe, "answer", impossible)
    found = company.run()
    for one in found.values():
        assert "numbers of another set" in str(one)
    assert all(kept(company, name) == [None] for name in MEMBERS)


def test_the_page_says_who_is_in_the_set_and_that_guests_have_no_ledger(tmp_path):
    company, pages = Surveyors(tmp_path), {}

    def join(name):
        identity = read_identity(company.folder(name) / f"{name}.key")

        def consent(page):
            pages[name] = " ".join(page.text(long=True).split())
            return True

        inputs = PartyInputs(data=company.folder(name), out=tmp_path / f"out-{name}")
        return prepare_party_run(company.consortium, identity, inputs).run(consent)

    with ThreadPoolExecutor(3) as pool:
        found = dict(zip(MEMBERS, pool.map(join, MEMBERS), strict=True))
    given, _ = in_cents(company.guests)
    assert found["bob"].result.given.tolist() == given
    page = pages["ann"]
    assert f'in it are {N_GUESTS} guests: "Firm 1", "Firm 2"' in page
    assert "none of your own data is in this" in page
    assert "Guests have no ledger at all" in page
    assert "ann 7, bob 7, cem 6" in page
    assert "13 guests of the set are honest at least, and 4 are needed" in page
    assert "asked for are the totals of 4 of 6 cells, which 13 guests" in page
    assert "which cells a guest left empty is open" in page
    assert "every member: who is in the set, and which cells each of them" in page
    assert "- if 2 collude, it may be 6, and nobody checks that" in page
    assert "- submissions: passed" in page
    assert "- store: passed" in page
    assert "who filled a cell is what each guest signed, and counts once" in page
    assert "Which cells a guest left empty is not hidden: all members see it" in page
    assert "the totals over 13 guests if all come, over fewer if not all do" in page
    assert "a set that leaves fewer than 4 is refused" in page
    assert "all 3 members together open every share" in page
    assert "is not checked, for nobody sees its number" in page
    result = json.loads((tmp_path / "out-cem" / "result.json").read_text())
    assert result["rows"] == ROWS
    assert result["given"] == given
    # What goes onto the host's page, and is described.
    taken = survey_set_of(company.open_terms, company.submissions)
    others = [read_receipt(tmp_path / f"out-{one}" / "receipt.json") for one in MEMBERS]
    shown = published_survey_run(
        company.consortium, taken, tmp_path / "out-ann", others
    )
    for key in ("totals", "given", "near", "invited", "unit", "beyond", "promise"):
        assert shown[key] == result[key]
    text = (Path(__file__).parents[2] / "docs/reference/json.md").read_text()
    page = text.partition("## Collect")[2].partition("\n## ")[0]
    assert [key for key in shown if f"`{key}`" not in page] == []
    # The command that anybody verifies with.
    write_consortium(tmp_path / "closed.toml", company.consortium)
    receipts = [tmp_path / f"out-{one}" / "receipt.json" for one in MEMBERS]
    words = ["verify", *map(str, receipts)]
    words += ["--consortium", str(tmp_path / "closed.toml")]
    words += ["--result", str(tmp_path / "out-ann" / "result.json")]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    for words, why in (
        (["audit", str(tmp_path / "plan.toml")], "the plan of a survey"),
        (["up", str(tmp_path / "plan.toml")], "veilsum collect asks them"),
    ):
        plan = {key: company.table[key] for key in ("survey", "masks", "policy")}
        (tmp_path / "plan.toml").write_text(tomli_w.dumps(plan))
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 2
        assert why in " ".join(told.output.split())


def test_many_guests_are_counted_and_not_named(tmp_path):
    guests = {f"Firm {k + 1}": cells(k) for k in range(21)}
    company = Surveyors(tmp_path, guests=guests)
    write_consortium(tmp_path / "closed.toml", company.consortium)
    words = ["check", str(tmp_path / "closed.toml"), "--party", "ann", "--long"]
    told = CliRunner().invoke(app, [*words, "--data", str(company.folder("ann"))])
    assert told.exit_code == 0, told.output
    page = " ".join(told.output.split())
    assert "in it are 21 guests, of 21 invited" in page
    assert "Firm 3" not in page
    assert "You: you may take part" in page
    told = CliRunner().invoke(app, words)
    assert "add --data FOLDER" in told.output
    told = CliRunner().invoke(app, [*words, "--json", "--data", str(tmp_path)])
    assert told.exit_code == 1
    assert json.loads(told.output)["good"] is False


def test_a_survey_weaker_than_usual_needs_a_person_or_a_floor(tmp_path):
    company = Surveyors(tmp_path, survey={"minimum_honest": 2, "minimum_guests": 3})
    weaker = relaxed_rules(company.consortium)
    assert weaker == {"minimum_honest": (2, 3), "minimum_guests": (3, 5)}
    told = " ".join(OwnRules().refusals(company.consortium, alone=True))
    assert "minimum_guests is usually at least 5; this file has 3" in told
    floors = OwnRules(source="x", floors={"minimum_guests": 3, "minimum_honest": 2})
    assert not floors.refusals(company.consortium, alone=True)
    page = " ".join(consent_to(company.consortium).text(long=True).split())
    assert "WEAKER THAN USUAL: minimum_guests = 3, and usual is 5" in page
    assert "whichever 1 of the members collude, 3 of those who filled it" in page
