"""Digits of least squares, against NIST's certified values and exact rationals."""

import warnings
from fractions import Fraction
from functools import cache
from math import log10
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from cases import each
from later import Later
from nist import CERTIFIED, lines, root
from veilsum.numbers.units import inferred_unit_measure
from veilsum.questions.regression import fit
from veilsum.questions.regression.summary import summary_text
from veilsum.questions.statistics import statistics
from veilsum.tables.columns import Column
from veilsum.tables.rules import Rules

sm = Later("statsmodels.api")

LINES = {line.name: line for line in lines()}
R_LM = Path(__file__).parents[1] / "references" / "nist_lm.txt"
# All that float64 can show.
ALL = 15.0


def digits(found, exact):
    """Decimal digits that are right, by the worst number."""
    worst = ALL
    for mine, true in zip(found, exact, strict=True):
        gap = abs(Fraction(float(mine)) - true)
        if gap:
            worst = min(worst, -log10(gap / (abs(true) or 1)))
    return max(worst, 0.0)


def gaps(found, exact):
    pairs = zip(found.coefficients.tolist(), exact, strict=True)
    return np.array([float(abs(Fraction(one) - true)) for one, true in pairs])


def answer(line):
    coefficients, variances = line.answer()
    return coefficients, [root(one) for one in variances]


def fitted(line, **options):
    """The fit of three parties who take rows in turn."""
    table = {name: np.array(list(map(float, v))) for name, v in line.table.items()}
    parties = {p: {n: v[p::3] for n, v in table.items()} for p in range(3)}
    return fit(
        line.formula,
        parties,
        minimum_rows=1,
        rules=Rules.none(),
        driver="vectorised",
        tolerate=0,
        derived={
            f"x_{k}": {"of": "x", "as": "power", "exponent": k} for k in range(2, 11)
        },
        **options,
    ).fit


def by_others(line):
    """The least digits of numpy's lstsq and of statsmodels, coefficients and errors."""
    design = np.array([[float(one) for one in column] for column in line.columns]).T
    response = np.array([float(one) for one in line.table["y"]])
    by_numpy = np.linalg.lstsq(design, response, rcond=None)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statsmodels takes Filip for singular
        other = sm.OLS(response, design).fit()
        return by_numpy, other.params, other.bse


def by_r(name):
    """Coefficients and standard errors of R's lm, which was run beforehand."""
    kept = dict(line.split(maxsplit=1) for line in R_LM.read_text().splitlines())
    numbers = np.array([float(one) for one in kept[name].split()])
    return np.split(numbers, 2)


@each("name", LINES)
def test_the_answers_are_those_that_are_certified(name):
    coefficients, errors = answer(LINES[name])
    for place, (estimate, error) in zip((0, -1), CERTIFIED[name], strict=True):
        for exact, certified in (
            (coefficients[place], estimate),
            (errors[place], error),
        ):
            assert abs(exact - Fraction(certified)) <= abs(exact) / 10**14


@each("name", LINES)
def test_all_digits_are_right(name):
    """Terms of Filip are wide: its tenth powers have as many digits."""
    line = LINES[name]
    coefficients, errors = answer(line)
    found = fitted(line, bits=80 if name == "Filip" else 40)
    mine = digits(found.coefficients, coefficients)
    mine_errors = digits(found.standard_errors, errors)
    assert mine >= 12
    assert mine_errors >= 12
    by_numpy, params, bse = by_others(line)
    assert mine >= digits(by_numpy, coefficients)
    assert mine >= digits(params, coefficients)
    assert mine_errors >= digits(bse, errors)
    r_coefficients, r_errors = by_r(name)
    assert mine >= digits(r_coefficients, coefficients) > 5
    assert mine_errors >= digits(r_errors, errors) > 5
    assert (gaps(found, coefficients) <= found.rounding_bound).all()


ANOVA = Path(scipy.stats.__file__).parent / "tests" / "data" / "nist_anova"
FAR_FROM_0 = ("SmLs07", "SmLs08", "SmLs09")  # 13 constant leading digits


@cache
def simon_and_lesage(name):
    """Parties that take rows in turn, and the certified F of a one-way ANOVA."""
    text = (ANOVA / f"{name}.dat").read_text("ascii").splitlines()
    (line,) = [one for one in text if one.startswith("Between Treatment")]
    rows = [one.split() for one in text[60:] if one.strip()]
    treatments, responses = zip(*rows, strict=True)
    table = {"treatment": treatments, "y": tuple(map(float, responses))}
    return {p: {n: v[p::3] for n, v in table.items()} for p in range(3)}, float(
        line.split()[-1]
    )


@pytest.mark.parametrize("name", FAR_FROM_0[:1])
def test_numbers_far_from_0_keep_their_decimals(name):
    tables, certified = simon_and_lesage(name)
    options = {"rules": Rules.none(), "driver": "vectorised", "tolerate": 0}
    asked = {"by": "treatment", "columns": ["y"], "tables": [], "minimum_rows": 1}
    found = statistics(tables, **asked, **options).groups.comparisons["y"]
    (anova,) = [one for one in found.tests if one.name == "one-way ANOVA"]
    assert anova.statistic == pytest.approx(certified, rel=1e-14)
    fitted = fit("y ~ C(treatment)", tables, minimum_rows=1, **options).fit
    explained = fitted.r_squared / (fitted.model_degrees - 1)
    rest = (1 - fitted.r_squared) / fitted.residual_degrees
    assert explained / rest == pytest.approx(certified, rel=1e-12)


@pytest.mark.parametrize("name", FAR_FROM_0)
def test_a_range_far_from_0_without_a_unit_keeps_the_bits_of_float64(name):
    """Real parties have the range only; its unit is float64's, and is shown."""
    tables, _ = simon_and_lesage(name)
    agreed = Column("y", "number", 1e12, 1e12 + 2)
    assert agreed.measure.unit == Fraction(1, 2**13)
    assert inferred_unit_measure(np.array(tables[0]["y"])).unit == Fraction(1, 10)


def test_filip_without_wide_terms_says_how_far_it_is():
    line = LINES["Filip"]
    found = fitted(line)
    coefficients, _ = answer(line)
    assert (gaps(found, coefficients) <= found.rounding_bound).all()
    assert "Numbers were rounded to their units" in summary_text(
        found, title="", response="y", n_parties=3, law="uniform"
    )
    assert 1e-6 < found.rounding < np.inf
