"""People can work with the default rules, and a refusal says which line to change."""

import pytest

from plans.ordinary import PLANS, Plan
from veilsum.errors import VeilsumError
from veilsum.files.ledger import open_ledger
from veilsum.jobs.regression import fit
from veilsum.jobs.statistics import statistics
from veilsum.privacy.accountant import Budget

ENOUGH_ROWS, ENOUGH_A_PARTY = 200, 20


def run(plan: Plan, folder, *, before: Plan | None = None):
    """Ask what a plan asks; the first two parties keep ledgers in a folder.

    `before` has been asked there already: then the tables are those it was asked of.
    """
    used = {name: table.copy() for name, table in (before or plan).tables.items()}
    places = [folder / f"{k}.ledger" for k in range(2)]
    ledgers = {
        party: open_ledger(place, create=Budget())
        for party, place in zip(used, places, strict=False)
    }
    options = {"schema": (before or plan).schema(used), "ledgers": ledgers}
    options |= {"driver": "vectorised", "seed": 1 if before is None else 2}
    job = dict(plan.job)
    if "formula" in job:
        return fit(job.pop("formula"), used, **job, **options)
    return statistics(used, **{"columns": [], **job}, **options)


@pytest.mark.parametrize("plan", PLANS, ids=[plan.name for plan in PLANS])
def test_a_plan_runs_or_names_its_rule(plan, tmp_path):
    if plan.refused is None:
        assert run(plan, tmp_path).guarantee.status == "private"
        return
    with pytest.raises(VeilsumError) as told:
        run(plan, tmp_path)
    assert told.value.rule == plan.refused
    assert plan.refused in str(told.value)


def pairs():
    """Two plans about each table, as people ask one question after another."""
    by_data = {}
    for plan in PLANS:
        if plan.refused is None:
            by_data.setdefault((plan.data, plan.parties), []).append(plan)
    return [plans[:2] for plans in by_data.values() if len(plans) > 1]


@pytest.mark.parametrize(
    ("first", "second"), pairs(), ids=[one.data for one, _ in pairs()]
)
def test_another_question_about_the_same_table_runs(first, second, tmp_path):
    run(first, tmp_path)
    assert run(second, tmp_path, before=first).guarantee.status == "private"


def test_whoever_has_rows_enough_is_served():
    """The list holds what it promises: twenty-five plans, and each refusal its kind."""
    large = []
    for plan in PLANS:
        sizes = [len(table) for table in plan.tables.values()]
        if sum(sizes) >= ENOUGH_ROWS and min(sizes) >= ENOUGH_A_PARTY:
            large.append(plan)
    assert len(large) >= 25
    assert {plan.refused for plan in large} == {None, "site_terms"}
    assert all(4 <= len(plan.tables) <= 20 for plan in PLANS)
