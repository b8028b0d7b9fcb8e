"""Constants in a formula would point at one person, so a formula has none.

Two steps of one column, a little apart, leave a person between them. No rule about
columns sees that where one step is a column and the other is inside a product, or
inside a response: both are known as sums, and nobody looks at their difference.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import refusals
import veilsum as vs
from attacks.organiser import Found
from attacks.test_the_ledger import asking, moments_of
from cases import each
from party.test_agreed import agreed
from veilsum.party.own_rules import OwnRules
from veilsum.sums.kinds import check_agreed_file

SITES = ("ash", "birch", "cedar", "elm", "fir")
AIM, ROW = "cedar", 7
SCHEMA = vs.Schema(
    (
        vs.Column("age", "integer", 0, 110),
        vs.Column("bmi", "number", 10, 60),
        vs.Column("cost", "number", 0, 100_000, unit=0.01),
        vs.Column("ill", "integer", 0, 1),
    ),
    minimum_rows=50,
    derived={
        "age_2": {"of": "age", "as": "power", "exponent": 2},
        "log_cost": {"of": "cost", "as": "log1p"},
    },
)


def patients(seed):
    """Five hospitals; one patient of the third has an age that nobody else has."""
    chance = np.random.default_rng(seed)
    age = int(chance.integers(45, 65))
    tables = {}
    for site in SITES:
        ages = chance.integers(20, 90, 60)
        tables[site] = {
            "age": np.where(ages == age, age + 1, ages),
            "bmi": np.round(chance.normal(26, 4, 60), 1),
            "cost": np.round(chance.gamma(2.0, 900.0, 60), 2),
            "ill": chance.integers(0, 2, 60),
        }
    tables[AIM]["age"][ROW] = age
    return tables, age


def the_product(age):
    """One question: the step of a column, and a later one inside a product."""
    return f"bmi ~ cost + {{1 * (age < {age})}} + {{cost * (age < {age + 1})}}"


def by_a_product(organiser, seed):
    """The cost of the patient between both steps, from one least-squares fit."""
    tables, age = patients(seed)
    found = moments_of(organiser.fit(the_product(age), tables, schema=SCHEMA))[0]
    return Found(round(found[0, 3] - found[1, 2], 2), tables[AIM]["cost"][ROW])


def the_two_fits(age):
    """Two questions: the step as a covariate, and a later one inside the response."""
    return f"cost ~ {{1 * (age < {age})}}", f"{{cost * (age < {age + 1})}} ~ bmi"


def by_two_fits(organiser, seed):
    """The same cost from two fits, each of which every ledger knows of."""
    tables, age = patients(seed)
    one, two = (
        moments_of(organiser.fit(formula, tables, schema=SCHEMA))[1]
        for formula in the_two_fits(age)
    )
    return Found(round(two[0] - one[1], 2), tables[AIM]["cost"][ROW])


def file_with(formula):
    """A consortium's file with this formula, as its members get it."""
    asked = agreed(
        {
            "model": {"formula": formula},
            "schema": SCHEMA.to_table(),
            "masks": {"law": "uniform"},
        }
    )
    check_agreed_file(asked)
    return asked


@pytest.mark.parametrize("attack", [by_a_product, by_two_fits])
def test_constants_give_a_person_away_although_every_ledger_looks_on(attack):
    """The twin: where tables have the same values as columns, no rule sees it."""
    for seed in range(3):
        assert asking(lambda organiser, at=seed: attack(organiser, at))().succeeded


def test_a_product_beside_its_column_is_refused():
    for seed in range(20):
        _, age = patients(seed)
        mentions = [f"cost * (age < {age + 1})", "no derived column"]
        with refusals.refused("formula-not-plain", mentions=mentions):
            file_with(the_product(age))


def test_both_of_two_fits_with_a_step_are_refused():
    for seed in range(10):
        _, age = patients(seed)
        for formula in the_two_fits(age):
            with refusals.refused("formula-not-plain"):
                file_with(formula)


# Cut points are constants of the dictionary, and its author can move them


def schema_with_cuts(form, *cuts):
    """Return the schema with a column `{form}[k]` for each list of cut points."""
    age = vs.Column("age", "integer", 0, 110, cuts=tuple(sorted({*sum(cuts, ())})))
    key = "cuts" if form == "intervals" else "knots"
    derived = {
        f"late{k}": {"of": "age", "as": form, key: list(points)}
        for k, points in enumerate(cuts)
    }
    return vs.Schema((age, *SCHEMA.columns[1:]), minimum_rows=50, derived=derived)


def by_two_cut_points(organiser, seed):
    """One fit with two intervals that begin a year apart, one inside a product."""
    tables, age = patients(seed)
    schema = schema_with_cuts("intervals", (age,), (age + 1,))
    result = organiser.fit("bmi ~ cost + late0 + cost:late1", tables, schema=schema)
    sums = moments_of(result)[0]
    return Found(round(sums[1, 2] - sums[0, 3], 2), tables[AIM]["cost"][ROW])


def by_a_moved_cut_point(organiser, seed):
    """Two fits, the second by a dictionary whose interval begins a year later."""
    tables, age = patients(seed)
    one, two = (
        moments_of(
            organiser.fit(
                "cost ~ late0", tables, schema=schema_with_cuts("intervals", (cut,))
            )
        )[1][1]
        for cut in (age, age + 1)
    )
    return Found(round(one - two, 2), tables[AIM]["cost"][ROW])


def by_a_moved_knot(organiser, seed):
    """Five fits with a spline of which one knot moves by half a year each time.

    Their fourth difference is a bump that is 0 at every age but one.
    """
    tables, age = patients(seed)
    bump = 0.0
    for factor, step in zip((1, -4, 6, -4, 1), range(-2, 3), strict=True):
        knots = (30.0, age + step / 2, 100.0, 105.0)
        schema = schema_with_cuts("natural spline", knots)
        products = moments_of(organiser.fit("cost ~ late0", tables, schema=schema))[1]
        bump += factor * products[3]
    # The bend of this person at the first two knots: cubes, by the spline's scale.
    height = (1.0**3 - 4 * 0.5**3) / (105.0 - 30.0) ** 2
    return Found(round(bump / height, 2), tables[AIM]["cost"][ROW])


BY_CUT_POINTS = [by_two_cut_points, by_a_moved_cut_point, by_a_moved_knot]


@pytest.mark.parametrize("attack", BY_CUT_POINTS)
def test_cut_points_beside_a_person_are_refused(attack):
    for seed in range(5):
        with refusals.refused("group-too-small", mentions=(AIM,)):
            asking(lambda organiser, at=seed: attack(organiser, at))()


@pytest.mark.parametrize("attack", BY_CUT_POINTS)
def test_without_rules_and_ledgers_cut_points_give_the_person_away(attack):
    """The twin; a spline is rounded to bits of its range, so to the nearest euro."""

    class Unchecked:
        fit = staticmethod(partial(vs.fit, rules=vs.Rules.none()))

    for seed in range(3):
        found = attack(Unchecked, seed)
        assert found.recovered == pytest.approx(found.truth, abs=0.5)


# Every way to a number, and to a step.
DOORS = (
    "(age >= 50) ~ bmi",
    "bmi ~ {cost * 2}",
    "bmi ~ I(age > 50)",
    "bmi ~ (age == 50)",
    "bmi ~ {exp(-1000 * (age - 50)**2)}",
    "bmi ~ where(age > 50, cost, 0)",
    "bmi ~ log(cost + 1)",
    "bmi ~ cost:(age < 50)",
    "bmi ~ {abs(age - 50)}",
    # A number made of columns alone.
    "bmi ~ {age > (cost + cost) / cost}",
    "bmi ~ {exp(age - age) * cost}",
    "bmi ~ {(age**3)**3}",
    # A column that is the same in every row is a constant too.
    "bmi ~ (age > cost)",
    "bmi ~ I(age**2)",
    "log(cost) ~ age",
    "bmi ~ {cost / age**2}",
    "bmi ~ 2 * age",
    "bmi ~ age > 50",
)
OPEN = (
    "bmi ~ age + cost",
    "bmi ~ age * cost",
    "bmi ~ age_2 + log_cost",
    "log_cost ~ age",
    "bmi ~ (age + cost)**2 - 1",
)


@each("formula", DOORS)
def test_no_way_to_a_constant_is_open(formula):
    with refusals.refused("formula-not-plain"):
        file_with(formula)
    with refusals.refused("formula-not-plain"):
        vs.fit(formula, patients(0)[0], schema=SCHEMA, driver="vectorised")


@each("formula", OPEN)
def test_what_the_dictionary_has_is_allowed(formula):
    OwnRules().check(file_with(formula), alone=False)


def test_an_earlier_fit_may_not_have_constants_either():
    weights = {
        "formula": "ill ~ (age < 50)",
        "coefficients": {"Intercept": 0.0, "age < 50": 0.01},
    }
    with refusals.refused("formula-not-plain", mentions=("50",)):
        OwnRules().check(
            agreed(
                {
                    "model": {"formula": "cost ~ age", "propensity": weights},
                    "schema": SCHEMA.to_table(),
                    "masks": {"law": "uniform"},
                }
            ),
            alone=False,
        )
