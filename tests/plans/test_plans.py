"""People can work with the default rules, and a refusal says which line to change."""

import ast
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from plans.ordinary import CAREFUL, CARELESS, PLANS, Plan
from veilsum.errors import VeilsumError
from veilsum.files.ledger import open_ledger
from veilsum.privacy.accountant import Budget
from veilsum.questions.regression import fit
from veilsum.questions.statistics import statistics
from veilsum.tables.rules import Rules

# Whole jobs, whose parts have tests of their own that check shapes.
pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ENOUGH_ROWS, ENOUGH_A_PARTY = 200, 20
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "plans.md"


def run(plan: Plan, folder, *, before: Plan | None = None, rows=None, **rules):
    """Return the result, and the ledgers of the first two parties, kept in a folder.

    `before` has been asked there already: then the tables are those it was asked of.
    `rows` and `rules` are what a refusal proposed.
    """
    tables = {name: table.copy() for name, table in (before or plan).tables.items()}
    folder.mkdir(exist_ok=True)
    budget = Budget()
    if "release_fraction" in rules:
        budget = Budget(release_fraction=rules["release_fraction"])
    places = [folder / f"{k}.ledger" for k in range(2)]
    ledgers = {
        party: open_ledger(place, create=budget)
        for party, place in zip(tables, places, strict=False)
    }
    options = {"schema": (before or plan).schema(tables), "ledgers": ledgers}
    options |= {"driver": "vectorised", "seed": 1 if before is None else 2}
    options["rules"] = Rules(**rules)
    if rows is not None:
        options["schema"] = replace(options["schema"], minimum_rows=rows)
    job = dict(plan.job)
    if "formula" in job:
        return fit(job.pop("formula"), tables, **job, **options), ledgers
    return statistics(tables, **{"columns": [], **job}, **options), ledgers


# 51 coefficients for 51 rows.
HOPELESS = "urban ~ C(state)"


def proposed(said: str) -> dict[str, float]:
    """Return the changes that a refusal proposes in Python, as keywords of `run`."""
    found = {}
    rows = re.findall(r"vs\.Schema\(\.\.\., minimum_rows=(\d+)\)", said)
    if rows:
        found["rows"] = int(rows[-1])
    for arguments in re.findall(r"vs\.Rules\(([^)]*)\)", said):
        for name, value in re.findall(r"(\w+)=([\w.]+)", arguments):
            found[name] = ast.literal_eval(value)
    return found


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
    said = " ".join(str(told.value).split())
    assert f"[{section}] {plan.refused}" in said
    changes = proposed(said)
    if plan.refused == "release_fraction":
        part = changes[plan.refused]
        assert f"A ledger's budget needs release_fraction = {part:g} as well" in said
    assert {**changes, "minimum_rows": changes.get("rows")}[plan.refused] is not None
    if plan.job.get("formula") == HOPELESS:
        assert "No change of rules is enough" in said
        return
    found, _ = run(plan, tmp_path / "again", **changes)
    assert found.guarantee.epsilon == 0.0
    assert "No change of rules is enough" not in said
    # A rule that need not change is not part of the proposal.
    for name in set(changes) - {"rows"}:
        with pytest.raises(VeilsumError):
            run(plan, tmp_path / name, **{k: changes[k] for k in changes if k != name})


def test_nearly_all_proposals_work_when_they_are_applied():
    """22 of 23: no rules let 51 rows have 51 coefficients."""
    hopeless = [plan for plan in CARELESS if plan.job.get("formula") == HOPELESS]
    assert (len(CARELESS), len(hopeless)) == (23, 1)


@pytest.mark.parametrize(
    ("formula", "without", "works"),
    [
        ("invest ~ value + size", "invest ~ value", True),
        ("invest ~ value + C(firm)", "invest ~ value", False),
        ("invest ~ value + large", "invest ~ value", False),
    ],
)
def test_parties_are_absorbed_where_the_line_says_so(formula, without, works, tmp_path):
    """Columns with few values, such as `large`, need more parties."""
    (plan,) = (one for one in CARELESS if one.job.get("formula") == formula)
    with pytest.raises(VeilsumError) as told:
        run(plan, tmp_path)
    assert ("[model] absorb = true" in str(told.value)) is works
    if works:
        job = {**plan.job, "formula": without, "absorb": True}
        found, _ = run(replace(plan, job=job), tmp_path / "again")
        assert found.guarantee.status == "private"


def test_rows_that_a_party_lacks_are_not_proposed(tmp_path):
    (heart,) = (one for one in CARELESS if one.data == "heart")
    with pytest.raises(VeilsumError, match="release_fraction") as told:
        run(heart, tmp_path)
    assert "minimum_rows = " not in str(told.value).partition("is the limit")[2]


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
    found, _ = run(second, tmp_path, before=first)
    assert found.guarantee.status == "private"


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
