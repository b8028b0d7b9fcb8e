"""A study makes it easy to ask the same members many things: what that must not give.

Whoever writes the file chooses all questions at once. It subtracts answers of one
question from those of another, asks the same within other bounds, sends others another
file, adds a question when the first answers are known, or ends every run before
anything is shown and looks at who stays away from what.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import refusals
import veilsum as vs
from attacks.organiser import Found, refused_by
from attacks.test_the_ledger import COLUMNS, N_ROWS, SALARY, around, held
from consortium.test_consortium import RUN, certificate
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.study import study_from
from veilsum.drivers.driver import GivenUpError
from veilsum.files.ledger import FRUITLESS_FILES, open_ledger
from veilsum.net.identity import new_identity
from veilsum.party.inputs import PartyTableInput
from veilsum.party.networked import NetworkedParty
from veilsum.party.own_rules import OwnRules
from veilsum.party.run import PartyInputs
from veilsum.party.studying import prepare_study, study_at_home
from veilsum.sums.job_file import question_job_of
from veilsum.tables.rules import DisclosureError

NAMES = "abcdef"
# Whose patient the questions are aimed at.
AIM = "c"


def table(*asked, certificates=None, missing="refuse", complete=(), **more):
    """The file of a study; questions are called q0, q1, ..."""
    options = {"minimum_rows": 30, "missing": missing, "complete": complete}
    schema = vs.Schema(COLUMNS, **options).to_table()
    certificates = certificates or {name: certificate(name) for name in NAMES}
    members = [
        {"name": name, "certificate": certificates[name], "address": f"{name}:{k}"}
        for k, name in enumerate(NAMES, start=1)
    ]
    return {
        "format": 1,
        "run": RUN,
        "members": members,
        "graph": {"edges": [[a, b] for a in NAMES for b in NAMES if a < b]},
        "masks": {"law": "uniform"},
        "schema": schema,
        "question": [{"name": f"q{k}", **question} for k, question in enumerate(asked)],
        **more,
    }


def bins(at):
    edges = {"salary": [0, at, 200_000]}
    return {"statistics": {"columns": [], "histograms": edges}}


def fit(formula):
    return {"model": {"formula": formula}}


def answers(study, tables):
    """What everybody learns of each question: the very jobs, simulated."""
    return [
        question_job_of(one, tables, driver="vectorised", seed=3).run()
        for one in study.questions.values()
    ]


def one_by_one(study, tables, folder):
    """How a party checks that knows of no other question: a ledger for each."""
    for name in study.questions:
        with open_ledger(folder / name, create=vs.privacy.Budget()) as ledger:
            part = PartyTableInput(consortium=study.first, name="t", table=tables[AIM])
            home = study_at_home(study, part, AIM, ledger, asked=[name])
            if home.refused:
                raise DisclosureError("", str(home.refused))


def together(study, tables, folder):
    """How a party checks all questions of a study."""
    part = PartyTableInput(consortium=study.first, name="t", table=tables[AIM])
    with open_ledger(folder / "ledger", create=vs.privacy.Budget()) as ledger:
        home = study_at_home(study, part, AIM, ledger, asked=[*study.questions])
    if home.refused:
        raise DisclosureError("", str(home.refused))


# Answers that are subtracted


def by_two_edges(check, folder):
    tables = around()
    study = study_from(table(bins(SALARY - 0.005), bins(SALARY + 0.005)))
    check(study, tables, folder)
    low, high = (one.histograms["salary"].counts[0] for one in answers(study, tables))
    return Found(high - low, 1)


def by_whoever_is_left_out(check, folder, **agreed):
    """A patient without a weight is in one fit and not in the other."""
    tables = around()
    tables[AIM].loc[3, "bmi"] = np.nan
    asked = fit("hiv ~ age"), fit("hiv ~ age + bmi")
    study = study_from(table(*asked, missing="drop", **agreed))
    check(study, tables, folder)
    found = []
    for one in answers(study, tables):
        matrix = one.fit.residual_variance * np.linalg.inv(one.fit.covariance)
        found.append([matrix[0, 0], matrix[0, 1], (matrix @ one.fit.coefficients)[0]])
    own = tables[AIM].loc[3]
    truth = [1, float(own["age"]), float(own["hiv"])]
    return Found(np.subtract(*found).tolist(), truth)


SUBTRACTED = (by_two_edges, by_whoever_is_left_out)


@pytest.mark.parametrize("attack", SUBTRACTED)
def test_what_two_questions_tell_together_is_looked_at_before_the_first(
    attack, tmp_path
):
    assert refused_by(lambda: attack(together, tmp_path)) == "maximum_influence"


@pytest.mark.parametrize("attack", SUBTRACTED)
def test_question_by_question_the_person_is_given_away(attack, tmp_path):
    """The twin: each question alone is one that the rules answer."""
    assert attack(one_by_one, tmp_path).succeeded


def test_where_all_rows_have_all_columns_nobody_is_in_one_answer_alone(tmp_path):
    """Nothing is refused, and the two answers are about the same people."""
    found = by_whoever_is_left_out(together, tmp_path, complete=["age", "bmi", "hiv"])
    assert np.allclose(found.recovered, 0.0, atol=1e-6)
    assert not found.succeeded


def test_order_does_not_matter_and_which_one_goes_is_for_the_owner(tmp_path):
    low, high = bins(SALARY - 0.005), bins(SALARY + 0.005)
    for k, asked in enumerate(
        [(low, high), (high, low), (low, fit("hiv ~ age"), high)]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        study = study_from(table(*asked))
        with refusals.refused(
            "group-too-small", DisclosureError, mentions=("--without",)
        ):
            together(study, around(), folder)


# A question that is added when answers are known


def asked_before(ledger, study, tables):
    """Have a first edition reserved, as its runs do before they begin."""
    part = PartyTableInput(consortium=study.first, name="t", table=tables[AIM])
    ledger.reserve_all(
        study_at_home(study, part, AIM, ledger, asked=[*study.questions]).wanted
    )


@pytest.mark.parametrize("remembers", [True, False])
def test_a_later_edition_is_held_against_the_earlier_ones(tmp_path, remembers):
    tables = around()
    first = study_from(table(bins(SALARY - 0.005), fit("hiv ~ age")))
    more = {"name": "more", **bins(SALARY + 0.005)}
    second = study_from(first.grown([more]))
    part = PartyTableInput(consortium=second.first, name="t", table=tables[AIM])
    with open_ledger(tmp_path / "ledger", create=vs.privacy.Budget()) as ledger:
        if remembers:
            asked_before(ledger, first, tables)

        def attack():
            return study_at_home(second, part, AIM, ledger, asked=["more"]).refused

        # The twin, a ledger that has been lost, answers.
        told = refused_by(attack) if remembers else attack()
    assert told == ("maximum_influence" if remembers else {})


# Bounds


def least_rows(n):
    return {**table()["schema"], "minimum_rows": n}


def test_one_study_cannot_ask_within_several_bounds():
    """Which of many questions a party refuses would tell how many rows it has."""
    for key, value in (("schema", least_rows(35)), ("policy", {"minimum_count": 9})):
        with refusals.refused("not-one-task", vs.InvalidInputError):
            study_from(table({**fit("hiv ~ age"), key: value}))


def test_files_within_several_bounds_tell_how_many_rows_there_are():
    """The twin: without a ledger that counts them, files do tell."""
    own, refused = held(NAMES)[AIM], []
    for n in range(30, 51):
        made = table(certificates=None)
        made = {key: one for key, one in made.items() if key != "question"}
        agreed = consortium_from({**made, **fit("hiv ~ age"), "schema": least_rows(n)})
        part = PartyTableInput(consortium=agreed, name="t", table=own)
        driver = Stopped(AIM)
        try:
            part.run(driver, None)
        except vs.InvalidInputError:
            refused.append(n)
        except GivenUpError:
            pass
    assert min(refused) - 1 == N_ROWS


# Runs that come to nothing


class Stopped:
    """A driver whose run others end before anything is shown."""

    def __init__(self, party):
        self.party = party

    def carry_out(self, assignment):
        raise GivenUpError({self.party: ("peer", "others have left")}, ())


def gone_through(study, tables, folder, monkeypatch, keys):
    """What becomes of a study whose every run the others end."""

    def end(driver, assignment):
        del assignment
        driver.watch(
            SimpleNamespace(
                phase="greeting",
                epoch=0,
                round=0,
                lost=(),
                waiting_for=(),
                withheld=(),
            )
        )
        raise GivenUpError({driver.party: ("peer", "others have left")}, ())

    monkeypatch.setattr(NetworkedParty, "carry_out", end)
    with open_ledger(folder / "ledger", create=vs.privacy.Budget()) as ledger:
        own = {"rules": OwnRules(), "ledger": ledger, "out": folder / "out"}
        part = prepare_study(study, keys[AIM], PartyInputs(data=tables[AIM], **own))
        found = part.run(lambda page: page is not None).status
        return [one.stage for one in found.stages.values()]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {name: new_identity(name, folder / name) for name in NAMES}


@pytest.mark.parametrize("counts", [True, False])
def test_who_ends_every_run_is_not_told_more_by_a_study_than_by_files(
    tmp_path, monkeypatch, keys, counts
):
    if not counts:  # the twin: every question is answered for
        monkeypatch.setattr("veilsum.files.ledger.FRUITLESS_FILES", 99)
    columns = ("age", "bmi", "hiv", "salary")
    pairs = [(a, b) for a in columns for b in columns if a < b]
    asked = [{"statistics": {"columns": [*pair]}} for pair in pairs]
    asked.append({"statistics": {"columns": [*columns]}})
    certificates = {name: one.certificate for name, one in keys.items()}
    study = study_from(table(*asked, certificates=certificates))
    stages = gone_through(study, held(NAMES), tmp_path, monkeypatch, keys)
    tried = FRUITLESS_FILES if counts else len(asked)
    assert stages == ["failed"] * tried + ["refused"] * (len(asked) - tried)


# Other files for others


def test_members_who_hold_other_studies_do_not_meet():
    """Also about a question that is the same in both: consent was to all of them."""
    asked = fit("hiv ~ age")
    mine, theirs = (study_from(table(asked, bins(at))) for at in (40_000, 60_000))
    assert mine.first.digest != theirs.first.digest
    assert mine.first.run != theirs.first.run
    # The twin: without the study's digest in it there would be no telling.
    plain = [
        {k: v for k, v in one.first.to_table().items() if k not in ("study", "run")}
        for one in (mine, theirs)
    ]
    assert plain[0] == plain[1]


def test_a_questions_own_file_is_no_way_around_its_study(tmp_path):
    """Asked by itself under its own name, it is the run that the ledger knows."""
    tables = around()
    study = study_from(table(bins(SALARY - 0.005), fit("hiv ~ age")))
    with open_ledger(tmp_path / "ledger", create=vs.privacy.Budget()) as ledger:
        asked_before(ledger, study, tables)
        alone = consortium_from(
            {**study.first.to_table(), **bins(SALARY + 0.005), "run": RUN}
        )
        part = PartyTableInput(consortium=alone, name="t", table=tables[AIM])
        onlooker = Looking(AIM)
        with pytest.raises(DisclosureError):
            part.run(onlooker, ledger)
        again = replace(part, consortium=study.first)
        with pytest.raises(GivenUpError):
            again.run(onlooker, ledger)


class Looking(Stopped):
    """Asks the ledger as a run does, and goes no further."""

    def carry_out(self, assignment):
        assignment.check(self.party)
        return super().carry_out(assignment)
