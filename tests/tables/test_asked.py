"""Questions that are kept, and what they amount to together; see tests/attacks too."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from refusals import refused
from veilsum.errors import BudgetError, InvalidInputError
from veilsum.tables.asked import LONGEST_QUESTION, TableAsking, TableQuestion
from veilsum.tables.rules import DisclosureError, Rules, TableRulesAtHome
from veilsum.tables.schema import Column, Schema

N = 60
CHANCE = np.random.default_rng(8)
TABLE = pd.DataFrame(
    {
        "age": np.arange(20, 20 + N, dtype=float),
        "bmi": CHANCE.normal(26, 4, N).round(1),
        "sex": np.array(["f", "m"])[np.arange(N) % 2],
        "w": CHANCE.integers(1, 4, N).astype(float),
    }
)
COLUMNS = {
    "age": Column("age", "number", 0, 120, unit=1),
    "bmi": Column("bmi", "number", 0, 80, unit="0.1"),
    "sex": Column("sex", "category", categories=("f", "m")),
    "w": Column("w", "number", 1, 5, unit=1),
}


def question(*columns, **asked):
    schema = Schema(tuple(COLUMNS[one] for one in columns), missing="drop")
    return TableQuestion(schema=schema.to_table(), **asked)


def edges(*values):
    return question("age", histograms={"age": values})


def check(new, *earlier, table=TABLE, rules=None):
    texts = {f"run {k}": one.text for k, one in enumerate(earlier)}
    TableAsking(new, TableRulesAtHome("ann", rules or Rules()), table).check(texts)


FIT = question("age", "bmi", "sex", "w", formula="bmi ~ age + C(sex)", weights="w")
COUNTS = question("age", "bmi", "sex", columns=("age",), tables=(("sex",),))


@pytest.mark.parametrize("one", [FIT, COUNTS, edges(0.0, 40.0, 100.0)])
def test_what_is_kept_is_read_as_it_was(one):
    again = TableQuestion.of_text(one.text)
    assert again == one
    pairs = zip(one.made("a", TABLE), again.made("a", TABLE), strict=True)
    for (variables, values), (same, others) in pairs:
        assert variables == same
        assert np.array_equal(values, others)


def test_columns_are_those_that_sums_are_about():
    """Of a weighted fit: rows, the design times weights, and the weights."""
    found = {names: values for names, values in FIT.made("a", TABLE) if names}
    assert np.array_equal(found[frozenset({"age"})], TABLE["age"] * TABLE["w"])
    male = TABLE["w"] * (TABLE["sex"] == "m")
    assert np.array_equal(found[frozenset({"sex"})], male)
    assert np.array_equal(found[frozenset({"w"})], TABLE["w"])


def test_a_row_that_is_left_out_is_zero_everywhere():
    table = TABLE.copy()
    table.loc[4, "bmi"] = np.nan
    assert all(values[4] == 0.0 for _, values in COUNTS.made("a", table))
    (_, rows), *_ = COUNTS.made("a", table)
    assert rows.sum() == N - 1


@pytest.mark.parametrize("few", [1, 2])
def test_edges_may_be_far_apart_and_not_near(few):
    with refused("group-too-small", DisclosureError) as told:
        check(edges(0.0, 40.0 + few, 100.0), edges(0.0, 40.0, 100.0), FIT)
    assert told.value.rule == "maximum_influence"
    assert "together with what was asked" in str(told.value)
    assert "bmi ~" not in str(told.value)  # that one has no part in it
    assert "ann" not in told.value.plain
    check(edges(0.0, 43.0, 100.0), edges(0.0, 40.0, 100.0), FIT)


def test_groups_differ_in_enough_rows_where_leverage_says_nothing():
    """Two rows of a short table; leverage is off."""
    rules, short = Rules.none(minimum_count=3), TABLE[:12]
    with refused("group-too-small", DisclosureError, mentions=("2",)) as told:
        check(
            edges(0.0, 26.0, 100.0), edges(0.0, 24.0, 100.0), table=short, rules=rules
        )
    assert told.value.rule == "minimum_count"
    check(edges(0.0, 27.0, 100.0), edges(0.0, 24.0, 100.0), table=short, rules=rules)


def test_steps_are_found_at_a_party_with_few_rows():
    """Ten other columns make the design a wide one."""
    cuts, lines = (25, 26), {}
    for at in cuts:
        lines[f"from_{at}"] = {"of": "age", "as": "intervals", "cuts": [at]}
    lines["log_age"] = {"of": "age", "as": "log1p"}
    lines["root"] = {"of": "age", "as": "sqrt"}
    lines["age_2"] = {"of": "age", "as": "power", "exponent": 2}
    columns = (replace(COLUMNS["age"], cuts=cuts), COLUMNS["bmi"])
    table = Schema(columns, missing="drop", derived=lines).to_table()
    powers = question("bmi", columns=("bmi",))
    steps = [TableQuestion(schema=table, formula=f"bmi ~ from_{at}") for at in cuts]
    more = [
        TableQuestion(schema=table, formula=f"bmi ~ {term}")
        for term in ("age + log_age", "root", "age_2")
    ]
    with pytest.raises(DisclosureError):
        check(steps[0], steps[1], powers, *more, table=TABLE[:16])


def test_a_question_of_an_earlier_version_is_not_passed_over():
    """What its formula computed is not known any more."""
    old = question("age", "bmi", formula="bmi ~ {1/(1 + exp(-(age - 25.5)/0.1))}")
    with refused("earlier-formula", BudgetError, mentions=["run 0", "age - 25.5"]):
        check(FIT, old)
    check(FIT, question("age", "bmi", formula="bmi ~ age"))


BY_SEX = question(
    *("age", "bmi", "sex", "w"),
    columns=("age",),
    histograms={"bmi": (20.0, 26.0, 40.0)},
    tables=(("w",), ("bmi", "w")),
    by="sex",
    missing="groups",
)


def test_columns_by_group_are_zero_outside_of_it():
    """Rows of a group, their numbers, what is beyond an edge, cells, and what lacks."""
    table = TABLE.copy()
    table.loc[[3, 5], "bmi"] = np.nan
    made = [*BY_SEX.made("a", table)]
    men = (table["sex"] == "m").to_numpy() & table["bmi"].notna().to_numpy()
    expected = [
        ({"sex"}, men),
        ({"sex", "age"}, men * table["age"]),
        ({"sex", "bmi"}, men & (table["bmi"] >= 26.0)),
        ({"sex", "w"}, men & (table["w"] == 2)),
        ({"sex", "bmi", "w"}, men & (table["w"] == 2) & table["bmi"].between(20, 25.9)),
        ({"sex", "bmi"}, np.isin(np.arange(N), [3, 5])),
    ]
    for names, values in expected:
        same = [one for own, one in made if own == names]
        assert any(np.array_equal(one, values) for one in same), names
    assert TableQuestion.of_text(BY_SEX.text) == BY_SEX
    assert BY_SEX.words.endswith("by sex")


@pytest.mark.parametrize("few", [1, 2, 8])
def test_two_groupings_differ_in_enough_rows(few):
    """The group of men, and another that some women are counted in as well."""
    other = TABLE["sex"].where(TABLE.index >= 2 * few, "m")
    table = TABLE.assign(other=other)
    columns = (*COLUMNS.values(), Column("other", "category", categories=("f", "m")))
    schema = Schema(columns).to_table()
    ways = [
        TableQuestion(schema=schema, columns=("age",), by=by) for by in ("sex", "other")
    ]
    if few > 2:
        check(*ways, table=table)
        return
    with refused("group-too-small", DisclosureError):
        check(*ways, table=table)
    check(ways[0], question("age", "bmi", columns=("age",)), table=table)


def test_the_same_again_and_other_tables_are_no_matter():
    near = edges(0.0, 40.0, 100.0), edges(0.0, 41.0, 100.0)
    check(near[0], *near)  # nothing new, though it was not well before
    check(near[0], near[1], table=TABLE.assign(age=TABLE["age"] * 0 + 1))
    gone = question("w", columns=("w",))
    check(FIT, gone, table=TABLE)
    check(near[0], gone, table=TABLE.drop(columns="w"))


def test_a_question_is_bounded_and_never_anything_else():
    with refused("question-too-long", BudgetError, mentions=(LONGEST_QUESTION,)):
        _ = edges(*map(float, range(LONGEST_QUESTION // 4))).text
    for text in ('{"formula": "y ~ x"}', '{"schema": {}, "more": 1}', "[]"):
        with pytest.raises(InvalidInputError):
            TableQuestion.of_text(text)
