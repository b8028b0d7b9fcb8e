"""People can work with the default rules, and a refusal says which line to change."""

from collections import Counter
from pathlib import Path

import pytest

from plans.ordinary import CAREFUL, CARELESS, PLANS, Plan
from veilsum.errors import VeilsumError
from veilsum.files.ledger import open_ledger
from veilsum.jobs.regression import fit
from veilsum.jobs.statistics import statistics
from veilsum.privacy.accountant import Budget

ENOUGH_ROWS, ENOUGH_A_PARTY = 200, 20
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "plans.md"


def run(plan: Plan, folder):
    """Return the result, and the ledgers of the first two parties."""
    tables = plan.tables
    ledgers = {
        party: open_ledger(folder / f"{k}.ledger", create=Budget())
        for k, party in enumerate(list(tables)[:2])
    }
    options = {"schema": plan.schema(tables), "ledgers": ledgers}
    options |= {"driver": "vectorised", "seed": 1}
    job = dict(plan.job)
    if "formula" in job:
        return fit(job.pop("formula"), tables, **job, **options), ledgers
    return statistics(tables, **{"columns": [], **job}, **options), ledgers


@pytest.mark.parametrize("plan", CAREFUL, ids=[plan.name for plan in CAREFUL])
def test_a_careful_plan_runs(plan, tmp_path):
    found, ledgers = run(plan, tmp_path)
    assert found.guarantee.status == "private"
    for book in ledgers.values():
        assert len(book.history().releases) == len(found.released.sums)


@pytest.mark.parametrize("plan", CARELESS, ids=[plan.name for plan in CARELESS])
def test_a_careless_plan_is_told_its_rule_and_the_line(plan, tmp_path):
    with pytest.raises(VeilsumError) as told:
        run(plan, tmp_path)
    assert told.value.rule == plan.refused
    section = "schema" if plan.refused == "minimum_rows" else "policy"
    assert f"[{section}] {plan.refused}" in " ".join(str(told.value).split())


def outcome(plan):
    """A line of the page."""
    sizes = [len(table) for table in plan.tables.values()]
    job = {name: value for name, value in plan.job.items() if name != "formula"}
    asked = plan.job.get("formula")
    if asked is None:
        asked = "; ".join(f"{name} {value}" for name, value in job.items())
    elif job["family"] != "gaussian":
        asked = f"{asked} ({job['family']})"
    said = f"`{plan.refused}`" if plan.refused else "runs"
    cells = (plan.data, f"`{asked}`", sum(sizes), len(sizes), min(sizes), said)
    return f"| {' | '.join(map(str, cells))} |"


def test_the_page_has_every_plan_and_what_becomes_of_it():
    page = PAGE.read_text()
    listed = [line for line in page.splitlines() if line.count(" | ") == 5]
    assert [line for line in listed if "| Data |" not in line] == [*map(outcome, PLANS)]
    refused = Counter(plan.refused for plan in CARELESS)
    assert f"{len(CAREFUL)} run, {len(CARELESS)} are refused" in page
    for rule, number in refused.items():
        assert f"| `{rule}` | {number} |" in page


def test_whoever_has_rows_enough_is_served():
    """The list holds what it promises: a site term, or the twin that shows a way."""
    large = []
    for plan in CAREFUL:
        sizes = [len(table) for table in plan.tables.values()]
        if sum(sizes) >= ENOUGH_ROWS and min(sizes) >= ENOUGH_A_PARTY:
            large.append(plan)
    assert len(large) >= 25
    assert {plan.refused for plan in CAREFUL} == {None}
    assert all(4 <= len(plan.tables) <= 20 for plan in PLANS)
    # Of what rows enough do not save, there is a careful plan for the same data.
    by_data = {plan.data.partition(",")[0] for plan in CAREFUL}
    for plan in CARELESS:
        sizes = [len(table) for table in plan.tables.values()]
        if sum(sizes) >= ENOUGH_ROWS and min(sizes) >= ENOUGH_A_PARTY:
            assert plan.data.partition(",")[0] in by_data
