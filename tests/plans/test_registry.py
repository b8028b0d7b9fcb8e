"""The page of prices has every analysis, with the numbers that come out today."""

from pathlib import Path

import pytest

from plans.registry import ANALYSES, attacks, tables
from prices import LIMITS, both, line, priced

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "prices.md"
ROWS = {
    name: cells
    for row in PAGE.read_text("utf-8").splitlines()
    if row.startswith("| ") and len(row.split(" | ")) > 6
    for name, *cells in [row.strip("| ").split(" | ")]
    if name not in {f"{one:g}" for one in LIMITS}
}
CHECKED = ("Table 1", "Kaplan-Meier, quarters, by arm", "linear, ten columns")
ATTACKS = {name: (questions, frames) for name, questions, frames in attacks()}


def test_the_page_has_every_analysis_and_every_attack():
    assert len(ANALYSES) == 45
    names = {one.name for one in ANALYSES} | {*ATTACKS}
    assert names == {*ROWS} - {"Analysis", "Attack", "Limit of the first sum", "---"}


@pytest.mark.parametrize("name", CHECKED)
def test_a_row_of_the_page_is_that_of_today(name):
    (one,) = (one for one in ANALYSES if one.name == name)
    found = priced([one], tables())
    covered = f"{found.influence.covered} of {found.influence.sums}"
    assert [*found.cells, covered, both(found)] == ROWS[name][:6]


@pytest.mark.parametrize("name", [*ATTACKS][:3])
def test_attacks_by_linear_algebra_stand_out_whatever_the_limit(name):
    """Of those by a single question the first sum is enough."""
    questions, frames = ATTACKS[name]
    found = priced(questions, frames)
    several = len(questions) > 1
    assert (found.largest if several else found.largest_first) > max(LIMITS)
    assert [*found.cells] == ROWS[name][:4]


def test_the_twin_without_a_product_does_not_stand_out():
    questions, frames = ATTACKS["b ~ a * cost"]
    (attack,) = questions
    keys = {**attack.keys, "formula": "hiv ~ died + cost"}
    twin = type(attack)("twin", attack.heading, keys)
    assert priced([twin], frames).influence.by_column["cost"] < 0.5


def test_a_line_is_markdown(capsys):
    line(["a", 1])
    assert capsys.readouterr().out == "| a | 1 |\n"
