"""People can work with the default rules, and a refusal says which line to change."""

import pytest

from plans.ordinary import PLANS, Plan
from veilsum.errors import VeilsumError
from veilsum.files.ledger import open_ledger
from veilsum.jobs.regression import fit
from veilsum.jobs.statistics import statistics
from veilsum.privacy.accountant import Budget

ENOUGH_ROWS, ENOUGH_A_PARTY = 200, 20


def run(plan: Plan, folder):
    tables = plan.tables
    used = {name: table.copy() for name, table in tables.items()}
    ledgers = {
        party: open_ledger(folder / f"{k}.ledger", create=Budget())
        for k, party in enumerate(list(tables)[:2])
    }
    options = {"schema": plan.schema(used), "ledgers": ledgers}
    options |= {"driver": "vectorised", "seed": 1}
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
