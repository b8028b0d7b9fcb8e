"""A ledger cannot be walked around.

Every honest party has a ledger, made as `veilsum join` makes one. The organiser asks
again and again: of other parties, of the same rows in another order, of one row more,
by columns that are wide enough each for itself. What is left is solved for.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from attacks.organiser import Found, refused_by
from cases import each
from computed import computed

COLUMNS = (
    vs.Column("age", "integer", 0, 100),
    vs.Column("bmi", "number", 10, 60),
    vs.Column("hiv", "integer", 0, 1),
    vs.Column("salary", "number", 0, 200_000),
)
N_ROWS = 40
SCHEMA = vs.Schema(COLUMNS, minimum_rows=30)


def patients(party, n=N_ROWS, seed=3):
    chance = np.random.default_rng((seed, *party.encode()))
    return pd.DataFrame(
        {
            "age": chance.integers(20, 90, n),
            "bmi": np.round(np.clip(chance.normal(26, 4, n), 15, 45), 1),
            "hiv": np.arange(n) % 4 // 3,
            "salary": np.round(chance.normal(50_000, 8_000, n), 2),
        }
    )


class Asking:
    """An organiser who goes on asking, and the ledgers of all whom it asks."""

    def __init__(self, stack, schema=SCHEMA):
        self.stack, self.schema = stack, schema
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.ledgers, self.asked = {}, 0

    def ledgers_of(self, parties):
        for one in parties:
            if one not in self.ledgers:
                book = vs.open_ledger(self.folder / one, create=vs.privacy.Budget())
                self.ledgers[one] = self.stack.enter_context(book)
        return {one: self.ledgers[one] for one in parties}

    def _options(self, tables, options):
        self.asked += 1
        ledgers = self.ledgers_of(tables)
        how = {"run": f"run-{self.asked}", "seed": self.asked, "driver": "vectorised"}
        return {"schema": self.schema, "ledgers": ledgers, **how, **options}

    def sums(self, tables, column="salary", **options):
        """The number of rows, and the sum of a column."""
        found = vs.statistics(
            tables, columns=[column], **self._options(tables, options)
        )
        return np.array([found.count, found.moments.sum[0]])

    def bins(self, tables, **histograms):
        return vs.statistics(
            tables, columns=[], histograms=histograms, **self._options(tables, {})
        ).histograms

    def fit(self, formula, tables, **options):
        """Fit; a text in braces is a column that all tables have."""
        options = self._options(tables, options)
        formula, tables, schema = computed(formula, tables, options.pop("schema"))
        return vs.fit(formula, tables, schema=schema, **options)


def asking(attack):
    """Hand an attack an organiser; take the ledgers away when it is over."""

    def run():
        with ExitStack() as stack:
            return attack(Asking(stack))

    return run


def known_of(table, column="salary"):
    return np.array([len(table), table[column].sum()])


def held(names):
    return {name: patients(name) for name in names}


# Sums over other parties


@asking
def by_two_sets(organiser):
    """The organiser and a friend leave together with a third; their own is known.

    The policy says that two may collude, and the ledger is as a new one is.
    """
    tables = held("abcdefgh")
    policy = {"tolerate": 2}
    of_eight = organiser.sums(tables, **policy)
    of_five = organiser.sums(held("abcde"), **policy)
    rest = of_eight - of_five - known_of(tables["f"]) - known_of(tables["g"])
    return Found(rest.tolist(), known_of(tables["h"]).tolist())


@asking
def by_three_sets(organiser):
    """Any two sets differ by four parties at least; the three leave one of them."""
    left, right = "bcde", "fghi"
    sets = [held("a" + left), held("a" + right), held("a" + left + right)]
    first, second, both = (organiser.sums(one, tolerate=1) for one in sets)
    return Found((first + second - both).tolist(), known_of(patients("a")).tolist())


@asking
def by_three_sets_and_another_column(organiser):
    """The same about counts, each asked under the name of another column."""
    left, right = "bcde", "fghi"
    sets = [held("a" + left), held("a" + right), held("a" + left + right)]
    columns = ("age", "bmi", "salary")
    first, second, both = (
        organiser.sums(one, column, tolerate=1)[0]
        for one, column in zip(sets, columns, strict=True)
    )
    return Found(first + second - both, N_ROWS)


def by_another_version(change):
    """One party leaves, and the others' tables are new ones, as far as it seems."""

    @asking
    def attack(organiser):
        tables = held("abcdef")
        of_all = organiser.sums(tables)
        rest = {name: change(one) for name, one in tables.items() if name != "f"}
        found = of_all - organiser.sums(rest)
        return Found(found.tolist(), known_of(tables["f"]).tolist())

    return attack


def reversed_rows(table):
    return table.iloc[::-1].reset_index(drop=True)


def with_a_column_more(table):
    return table.assign(note=1.0)


def with_other_columns_changed(table):
    return table.assign(bmi=table["bmi"] + 0.1)


def as_floats(table):
    return table.astype(float)


@asking
def by_one_row_more(organiser):
    """Last month's sums and this month's differ by the patient who came."""
    tables = held("abcdef")
    before = organiser.sums(tables)
    one = {"age": 44, "bmi": 23.5, "hiv": 1, "salary": 61_234.56}
    tables["c"] = pd.concat([tables["c"], pd.DataFrame([one])], ignore_index=True)
    after = organiser.sums(tables)
    return Found((after - before).tolist(), [1, one["salary"]])


@asking
def by_one_cell(organiser):
    """The same, where one patient's salary was put right."""
    tables = held("abcdef")
    before = organiser.sums(tables)
    tables["c"].loc[3, "salary"] += 12_345.67
    after = organiser.sums(tables)
    return Found((after - before)[1], 12_345.67)


# More questions than rows


def moments_of(result):
    """X'X and X'y, which a result's errors and coefficients give."""
    fit = result.fit
    matrix = fit.residual_variance * np.linalg.inv(fit.covariance)
    return matrix, matrix @ fit.coefficients


@asking
def by_many_fits(organiser):
    """Seventy fits on one wide column each: the salary of everybody whose age is rare.

    A column is near one for ages near a year and fades slowly; together they tell all
    years apart.
    """
    years = np.arange(20, 90)
    tables = held("abcd")
    counts, sums = [], []
    for year in years:
        result = organiser.fit(f"salary ~ {{1/(1 + ((age - {year})/3)**2)}}", tables)
        matrix, products = moments_of(result)
        counts.append(matrix[0, 1])
        sums.append(products[1])
    kernel = 1 / (1 + ((years[:, None] - years) / 3) ** 2)
    n = np.linalg.solve(kernel, counts)
    salaries = np.linalg.solve(kernel, sums)
    rare = np.rint(n) == 1
    rows = pd.concat(tables.values())
    alone = rows.groupby("age")["salary"].filter(lambda one: len(one) == 1)
    truth = rows.loc[rows["salary"].isin(alone)].sort_values("age")
    return Found(
        np.round(salaries[rare], 2).tolist(), truth["salary"].to_numpy().tolist()
    )


@asking
def by_shifted_bins(organiser):
    """Thirty histograms of two wide bins each: how many patients are of each age."""
    tables = held("abcd")
    years = range(40, 71)
    below = [
        organiser.bins(tables, age=[0, year, 101])["age"].counts[0] for year in years
    ]
    ages = pd.concat(tables.values())["age"]
    truth = [int((ages == year).sum()) for year in years[:-1]]
    return Found(np.diff(below).tolist(), truth)


# Few questions, each of them wide


SALARY = 50_123.45


def around(salary=SALARY):
    """Tables in which one patient alone has about this salary, and is ill."""
    tables = held("abcdef")
    for one in tables.values():
        one.loc[(one["salary"] - salary).abs() < 60, "salary"] = 48_000.0
    tables["c"].loc[3, ["salary", "hiv"]] = [salary, 1]
    return tables


def by_two_steps(step):
    """The patients above one salary, and above another: one is in between."""

    @asking
    def attack(organiser):
        tables, ends = around(), (SALARY - 20, SALARY + 20)
        computed(" ".join(f"{{{step.format(at)}}}" for at in ends), tables)
        low, high = (
            moments_of(organiser.fit(f"hiv ~ {{{step.format(at)}}}", tables))
            for at in ends
        )
        found = low[0][0, 1] - high[0][0, 1], low[1][1] - high[1][1]
        return Found(np.round(found, 3).tolist(), [1, 1])

    return attack


# From 0 to 1 within some cents.
STEP = "1/(1 + exp(-(salary - {0})/0.5))"
ROOT = "(1 + (salary - {0})/sqrt((salary - {0})**2 + 0.0001))/2"


@asking
def by_two_responses(organiser):
    """Two intervals as responses: their products with age differ by one age."""
    tables, cuts = around(), (SALARY - 20, SALARY + 20)
    salary = replace(SCHEMA.column("salary"), cuts=cuts)
    columns = (salary, *(one for one in COLUMNS if one.name != "salary"))
    derived = {
        name: {"of": "salary", "as": "intervals", "cuts": [cut]}
        for name, cut in zip(("low", "high"), cuts, strict=True)
    }
    schema = vs.Schema(columns, minimum_rows=30, derived=derived)
    low, high = (
        moments_of(organiser.fit(f"{name} ~ age", tables, schema=schema))[1]
        for name in derived
    )
    return Found(low[1] - high[1], tables["c"]["age"][3])


@asking
def by_kernels(organiser):
    """Six columns that are largest for one patient: together they are a needle."""
    tables = held("abcdef")
    for one in tables.values():
        one.loc[(one["age"] - 37).abs() < 2, "bmi"] = 22.0
    tables["c"].loc[3, ["age", "bmi", "hiv"]] = [37, 37.7, 1]
    widths = (2.0, 3.0, 4.5, 7.0, 11.0, 17.0)
    far = "sqrt((age - 37)**2 + (bmi - 37.7)**2)"
    sums = []
    for width in widths:
        result = organiser.fit(f"hiv ~ {{1/({width} + {far})}}", tables)
        products = moments_of(result)[1]
        sums.append(products[1])
    others = np.linspace(2, 60, 200)
    known = np.stack([np.ones(200), *(1 / (width + others) for width in widths)], 1)
    here = 1e4 * np.array([1.0, *(1 / width for width in widths)])
    aim = np.append(np.zeros(200), 1e4)
    needle = np.linalg.lstsq(np.vstack([known, here]), aim)[0]
    return Found(round(float(needle @ [products[0], *sums])), 1)


@asking
def by_two_edges(organiser):
    """Two bins whose edges are a cent apart: how many patients are in between."""
    tables = around()
    low, high = (
        organiser.bins(tables, salary=[0, at, 200_000])["salary"].counts[0]
        for at in (SALARY - 0.005, SALARY + 0.005)
    )
    return Found(high - low, 1)


@asking
def by_an_edge_and_a_step(organiser):
    """Patients above a salary by a histogram, and those above another by a fit."""
    tables = around()
    above = organiser.bins(tables, salary=[0, SALARY - 20, 200_000])["salary"].counts[1]
    step = f"{{1/(1 + exp(-(salary - {SALARY + 20})/0.5))}}"
    rest = moments_of(organiser.fit(f"hiv ~ {step}", tables))[0][0, 1]
    return Found(above - rest, 1)


def by_whoever_is_left_out(few):
    """A column that few patients have not filled in says who is in a fit."""

    @asking
    def attack(organiser):
        tables = around()
        rows = [3, 9][:few]
        tables["c"].loc[rows, "bmi"] = np.nan
        schema = vs.Schema(COLUMNS, minimum_rows=30, missing="drop")
        all_in, without = (
            moments_of(organiser.fit(formula, tables, schema=schema))
            for formula in ("hiv ~ age", "hiv ~ age + bmi")
        )
        found = all_in[0][:2, 0] - without[0][:2, 0], all_in[1][0] - without[1][0]
        own = tables["c"].loc[rows]
        return Found([*found[0], found[1]], [few, own["age"].sum(), own["hiv"].sum()])

    return attack


@asking
def by_failing(organiser):
    """A fit that may not go on for a second round has shown its first one."""
    tables = held("abcd")
    seen = []
    # Of 24 honest rows of three numbers 36 may be released, in rounds of 34.
    columns = "age + bmi + {(age - 50)**2} + {(bmi - 30)**2} + {age*bmi}"
    schema = vs.Schema(COLUMNS, minimum_rows=8)
    try:
        organiser.fit(
            f"hiv ~ {columns}",
            tables,
            family="logistic",
            schema=schema,
            progress=lambda *one: seen.append(one),
        )
    except vs.InvalidInputError:
        if not seen:
            raise
    return Found(len(seen), 1)


LEDGER = {"BudgetError"}
ADDED_UP = {"maximum_influence"}
# What is refused at home, with or without a ledger.
ALONE = {"maximum_influence", "site_terms"}
ATTACKS = {
    "two party sets": (by_two_sets, LEDGER),
    "three party sets": (by_three_sets, LEDGER),
    "three party sets, other columns": (by_three_sets_and_another_column, LEDGER),
    "rows in another order": (by_another_version(reversed_rows), LEDGER),
    "a column more": (by_another_version(with_a_column_more), LEDGER),
    "a column changed": (by_another_version(with_other_columns_changed), LEDGER),
    "whole numbers as floats": (by_another_version(as_floats), LEDGER),
    "one row more": (by_one_row_more, LEDGER),
    "one cell": (by_one_cell, LEDGER),
    "many fits": (by_many_fits, ALONE),
    "shifted bins": (by_shifted_bins, ADDED_UP),
    "two steps": (by_two_steps(STEP), ADDED_UP),
    "two steps by roots": (by_two_steps(ROOT), ALONE),
    "two steps as responses": (by_two_responses, ADDED_UP),
    "kernels": (by_kernels, ALONE),
    "two edges": (by_two_edges, ADDED_UP),
    "an edge and a step": (by_an_edge_and_a_step, ADDED_UP),
    "one row left out": (by_whoever_is_left_out(1), ADDED_UP),
    "two rows left out": (by_whoever_is_left_out(2), ADDED_UP),
    "a fit that fails": (by_failing, {"BudgetError", "release_fraction"}),
}


@each(("attack", "kinds"), ATTACKS.values(), ids=ATTACKS)
def test_nothing_is_left_by_subtraction(attack, kinds):
    assert refused_by(attack) in kinds


@pytest.mark.parametrize(
    "attack", [attack for attack, kinds in ATTACKS.values() if kinds is ADDED_UP]
)
def test_who_keeps_no_ledger_gives_the_person_away(attack, monkeypatch):
    """The twin: each question alone is one that the rules answer."""
    monkeypatch.setattr(Asking, "ledgers_of", lambda *_: {})
    assert attack().succeeded


@asking
def the_same_again(organiser):
    """The twin: a question over the same parties may be asked again."""
    tables = held("abcdefgh")
    first = organiser.sums(tables, tolerate=2)
    again = {name: reversed_rows(one) for name, one in tables.items()}
    return (organiser.sums(again, tolerate=2) == first).all()


@asking
def sets_that_differ_by_many(organiser):
    """The twin: no few of them are left."""
    organiser.sums(held("abcdefgh"), tolerate=1)
    organiser.sums(held("abcd"), tolerate=1)
    return True


@asking
def a_few_fits(organiser):
    """The twin: as many questions as people have."""
    for column in ("age", "bmi", "age + bmi", "{(age - 50)**2}"):
        organiser.fit(f"salary ~ {column}", held("abcd"))
    return True


@asking
def a_table_and_fits(organiser):
    """The twin: a histogram, moments, and fits that share some columns."""
    tables = around()
    organiser.bins(tables, age=[0, 40, 60, 101])
    organiser.sums(tables, "bmi")
    organiser.fit("salary ~ age + bmi", tables)
    organiser.fit("salary ~ bmi + hiv", tables)
    organiser.bins(tables, age=[0, 50, 101])
    return True


@asking
def many_left_out(organiser):
    """The twin: whoever has no bmi is one of ten."""
    tables = around()
    for one in tables.values():
        one.loc[5:14, "bmi"] = np.nan
    schema = vs.Schema(COLUMNS, minimum_rows=30, missing="drop")
    for formula in ("salary ~ age", "salary ~ age + bmi"):
        organiser.fit(formula, tables, schema=schema)
    return True


@asking
def a_whole_fit(organiser):
    """The twin: a fit that has room for all the rounds it may need."""
    seen = []
    tables = {name: patients(name, 150) for name in "abcdef"}
    schema = vs.Schema(COLUMNS, minimum_rows=140)
    organiser.fit(
        "hiv ~ age",
        tables,
        family="logistic",
        schema=schema,
        progress=lambda *one: seen.append(one),
    )
    return len(seen) > 1


@asking
def another_year(organiser):
    """The twin: other patients are another data set, by their owners' word."""
    organiser.sums(held("abcdef"))
    later = {name: patients(name, seed=4) for name in "abcde"}
    organiser.sums(later, new_data=True)
    return True


@each(
    "question",
    [
        the_same_again,
        sets_that_differ_by_many,
        a_few_fits,
        a_table_and_fits,
        many_left_out,
        a_whole_fit,
        another_year,
    ],
)
def test_what_leaves_nobody_alone_is_answered(question):
    assert question()
