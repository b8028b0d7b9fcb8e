"""A formula that computes is refused with lines of the dictionary that do the same."""

import tomllib

import numpy as np
import pandas as pd
import pytest

import refusals
import veilsum as vs
from cases import each
from veilsum.errors import InvalidInputError
from veilsum.tables.derived import DOMAINS
from veilsum.tables.formula import ModelFormula
from veilsum.tables.formula.reader import read_formula, read_surv_formula
from veilsum.tables.schema import Column, Schema

SCHEMA = Schema(
    (
        Column("y", "number", -100, 100, unit=0.01),
        Column("age", "integer", 18, 95, cuts=(40, 50, 60)),
        Column("cost", "number", 1, 1000, unit=0.01, cuts=(2.5,)),
        Column("body mass", "number", 1, 200, unit=0.01),
        Column("sex", "category", categories=("f", "m")),
    ),
    minimum_rows=1,
)
THEN, LINES = ". The formula is then: ", ". Add to [schema.columns]: "


def table(n=40):
    draw = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "y": draw.normal(size=n).round(2),
            "age": draw.integers(18, 96, n),
            "cost": draw.uniform(1, 1000, n).round(2),
            "body mass": draw.uniform(40, 120, n).round(2),
            "sex": draw.choice(["f", "m"], n),
        }
    )


def proposed(error):
    """Return the formula and the lines of a dictionary that an error proposes."""
    before, _, then = str(error).partition(THEN)
    _, _, lines = before.partition(LINES)
    return then, tomllib.loads(lines.replace("; ", "\n"))


def applied(text, schema=SCHEMA):
    """Return the formula and the schema that a refusal proposes."""
    with refusals.refused("formula-not-plain") as caught:
        ModelFormula.of(text, schema)
    then, lines = proposed(caught.value)
    return then, schema.with_derived(lines)


def made(text, schema):
    formula = ModelFormula.of(text, schema)
    return formula.design(schema.check("a", table()))


WORTH = {
    "log(cost)": lambda t: np.log(t["cost"]),
    "np.log(cost)": lambda t: np.log(t["cost"]),
    "log1p(age)": lambda t: np.log1p(t["age"]),
    "sqrt(`body mass`)": lambda t: np.sqrt(t["body mass"]),
    "log10(cost)": lambda t: np.log10(t["cost"]),
    "I(age**2)": lambda t: t["age"] ** 2.0,
    "{ age ^ 3 }": lambda t: t["age"] ** 3.0,
    "{age*age}": lambda t: t["age"] ** 2.0,
    "{age / 10}": lambda t: t["age"] / 10,
    "I(2.5 * age)": lambda t: t["age"] * 2.5,
    "(age >= 50)": lambda t: t["age"] >= 50,
    "{40 <= age}": lambda t: t["age"] >= 40,
    "(cost >= 2.5)": lambda t: t["cost"] >= 2.5,
    "(sex == 'm')": lambda t: t["sex"] == "m",
    '{"f" == sex}': lambda t: t["sex"] == "f",
    "{(age)}": lambda t: t["age"],
}


@each(("term", "worth"), WORTH.items(), ids=WORTH)
def test_what_is_proposed_is_worth_what_was_written(term, worth):
    then, schema = applied(f"y ~ {term} + sex")
    design, _ = made(then, schema)
    expected = np.asarray(worth(table()), dtype=float)
    np.testing.assert_allclose(design[:, 1], expected, rtol=1e-14)


def test_the_response_and_all_terms_are_rewritten_at_once():
    text = "log(cost) ~ C(sex) * I(age**2) + {age / 10} + (age >= 50):sqrt(`body mass`)"
    then, schema = applied(text)
    assert then == (
        "log_cost ~ C(sex) * age_2 + age_per_10 + age_from_50:`sqrt_body mass`"
    )
    design, response = made(then, schema)
    np.testing.assert_allclose(response, np.log(table()["cost"]), rtol=1e-15)
    assert design.shape == (40, 6)


def test_splines_and_polynomials_become_derived_columns():
    then, schema = applied("y ~ ns(age, df = 3) + poly(cost, 3)")
    assert then == "y ~ age_spline + (cost + cost_2 + cost_3)"
    design, _ = made(then, schema)
    assert design.shape == (40, 6)
    then, schema = applied("y ~ bs(age, knots = c(40, 60), degree = 3)")
    assert made(then, schema)[0].shape == (40, 7)


def test_a_shift_is_left_out():
    then, schema = applied("y ~ {(age - 60) / 10} + scale(cost)")
    assert then == "y ~ age_per_10 + cost"
    made(then, schema)


@each(
    "term",
    [
        "{exp(-1000 * (age - 50)**2)}",
        "{cost * (age < 50)}",
        "where(age > 50, cost, 0)",
        "abs(age)",
        "{age / cost}",
        "{age ** 11}",
        "{age ** 0.5}",
        "(age > cost)",
        "(20 < age) & (age < 60)",
        "{1e-300 * age}",
        "I(3)",
        "log(log(cost))",
        "foo(age)",
    ],
)
def test_what_no_derived_column_does_is_said(term):
    with refusals.refused("formula-not-plain", mentions=["no derived"]) as caught:
        ModelFormula.of(f"y ~ age + {term}", SCHEMA)
    assert THEN not in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_a_cut_point_that_was_not_agreed_is_named():
    with refusals.refused("formula-not-plain", mentions=["45 is to be among the cuts"]):
        ModelFormula.of("y ~ (age >= 45)", SCHEMA)
    with refusals.refused("knot-no-cut-point", mentions=["45"]):
        applied("y ~ (age >= 45)")


def test_a_refusal_is_bounded():
    many = " + ".join(f"log(x{k})" for k in range(800))
    with refusals.refused("formula-not-plain") as caught:
        read_formula(f"y ~ {many}")
    assert len(str(caught.value)) < 4000
    deep = "(" * 4000 + "x" + ")" * 4000
    with pytest.raises(InvalidInputError):
        read_formula(f"y ~ {{{deep}}}")


def test_a_fit_is_asked_again_as_it_was_proposed():
    tables = {f"h{k}": table().sample(frac=1, random_state=k) for k in range(5)}
    schema = Schema(SCHEMA.columns, minimum_rows=30)
    options = {"schema": schema, "driver": "vectorised", "seed": 1}
    with refusals.refused("formula-not-plain") as caught:
        vs.fit("y ~ log(cost) + age", tables, **options)
    then, derived = proposed(caught.value)
    assert derived == {"log_cost": {"of": "cost", "as": "log"}}
    found = vs.fit(then, tables, derived=derived, **options)
    whole = pd.concat(tables.values())
    x = np.column_stack([np.ones(len(whole)), np.log(whole["cost"]), whole["age"]])
    expected = np.linalg.lstsq(x, whole["y"], rcond=None)[0]
    np.testing.assert_allclose(found.fit.coefficients, expected, rtol=1e-6)


def test_every_function_is_tried_here():
    assert all(any(f"{name}(" in term for term in WORTH) for name in DOMAINS)


def test_the_right_side_of_a_survival_formula_is_rewritten_too():
    with refusals.refused("formula-not-plain") as caught:
        read_surv_formula("Surv(days, died) ~ log(cost) + C(arm)")
    then, lines = proposed(caught.value)
    assert then == "Surv(days, died) ~ log_cost + C(arm)"
    assert lines == {"log_cost": {"of": "cost", "as": "log"}}
