"""Fits with few digits: residues determine totals, and answers are as good as promised.

Everybody gets residues only. So the search is fed with totals that are wrong by random
multiples of 2^b, where b bits are said to be released.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import special

from strategies import few, seeds
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models.families import (
    Binomial,
    Cloglog,
    Gamma,
    GammaInverseLink,
    NegativeBinomial,
    Poisson,
    Probit,
)
from veilsum.models.fineness import FEWEST_DIGITS, FRUGAL_DIGITS, MOST_DIGITS
from veilsum.models.glm import glm_statistics
from veilsum.models.newton import Newton
from veilsum.models.rows import RowMeasures, Rows
from veilsum.numbers.units import UnitMeasure

FAMILIES = {
    "logistic": Binomial(),
    "poisson": Poisson(),
    "inverse": GammaInverseLink(),
    "probit": Probit(),
    "cloglog": Cloglog(),
    "gamma": Gamma(),
    "negative binomial": NegativeBinomial(0.4),
}
digits_of_fits = st.integers(FEWEST_DIGITS, MOST_DIGITS)


def table(name, rng, n, p):
    """Return columns of several kinds, with their units, and a response."""
    columns, measures = [np.ones(n)], [UnitMeasure(Fraction(1), 1, 1)]
    for _ in range(p):
        match rng.integers(5):
            case 0:  # two levels, one of them rare at times
                one = (rng.random(n) < rng.uniform(0.08, 0.5)) * 1.0
                measure = UnitMeasure.of(0, 1)
            case 1:  # years, in a range wider than the data's
                one = rng.integers(30, 70, n) * 1.0
                measure = UnitMeasure.of(0, int(rng.integers(80, 200)))
            case 2:  # two decimals, around 0
                one = rng.normal(size=n).round(2)
                measure = UnitMeasure.of(-8, 8, Fraction(1, 100))
            case 3:  # nearly the one before
                one = columns[-1] + (rng.random(n) < 0.2) * 0.5
                measure = UnitMeasure.of(-250, 450, Fraction(1, 100))
            case _:  # correlated with the one before
                one = (columns[-1] + rng.normal(size=n)).round(1)
                measure = UnitMeasure.of(-20, 220, Fraction(1, 10))
        columns.append(one)
        measures.append(measure)
    design = np.column_stack(columns)
    spread = np.where(design.std(axis=0) > 0, design.std(axis=0), 1.0)
    slopes = rng.normal(size=p + 1) * 0.5 / spread
    eta = (design - design.mean(axis=0)) @ slopes
    eta = np.clip(eta, -2.0, 2.0)
    match name:
        case "logistic" | "probit" | "cloglog":
            response = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
            of = UnitMeasure.of(0, 1)
        case "poisson":
            response = rng.poisson(np.exp(0.5 + 0.5 * eta)) * 1.0
            of = UnitMeasure.of(0, 60)
        case "negative binomial":
            mean = np.exp(0.5 + 0.5 * eta) * rng.gamma(2.5, 0.4, n)
            response = np.minimum(rng.poisson(mean), 100) * 1.0
            of = UnitMeasure.of(0, 100)
        case "gamma":
            scale = np.exp(0.5 + 0.5 * eta) / 3.0
            response = np.minimum(rng.gamma(3.0, scale), 90.0).round(3) + 0.01
            of = UnitMeasure.of(Fraction(1, 100), 100, Fraction(1, 1000))
        case _:
            response = rng.gamma(8.0, 1.0 / (8.0 * (2.0 + 0.3 * eta))).round(3) + 0.01
            of = UnitMeasure.of(Fraction(1, 100), 20, Fraction(1, 1000))
    return design, response, RowMeasures.of(measures, of, intercept=0)


def fitted(newton, rows, rng):
    """Return the fit from residues, and the bits of each later total."""
    state, bits = newton.start(), []
    while not state.converged:
        request = newton.propose(state)
        total = glm_statistics(newton.scales, rows, request)
        told, fineness = total, request.fineness
        if fineness is not None and fineness.residues:
            shift = [
                int(rng.integers(-3, 4)) << one if one else 0
                for one in fineness.residues
            ]
            told = total + np.array(shift, dtype=object)
            # What everybody makes of the residue is the total, whatever the data.
            assert fineness.decoded(told).tolist() == total.tolist()
            bits.append(sum(fineness.residues))
        state = newton.advance(state, told)
    return newton.fit(state), bits


def reference(name, design, response):
    """Return a fit as far as float64 goes, with its information and covariance."""
    shift, spread = design.mean(axis=0), design.std(axis=0)
    shift[0], spread[0] = 0.0, 1.0
    x, b = (design - shift) / spread, np.zeros(design.shape[1])
    b[0] = {
        "inverse": 1.0 / response.mean(),
        "gamma": np.log(response.mean()),
        "negative binomial": np.log(response.mean()),
    }.get(name, 0.0)
    for _ in range(400):
        eta = x @ b
        match name:
            case "logistic":
                mean = 1.0 / (1.0 + np.exp(-eta))
                slope = variance = mean * (1.0 - mean)
            case "probit":
                mean, slope = special.ndtr(eta), np.exp(-eta * eta / 2.0)
                slope, variance = slope / np.sqrt(2.0 * np.pi), mean * (1.0 - mean)
            case "cloglog":
                mean, slope = -np.expm1(-np.exp(eta)), np.exp(eta - np.exp(eta))
                variance = mean * (1.0 - mean)
            case "poisson":
                mean = slope = variance = np.exp(eta)
            case "negative binomial":
                mean = slope = np.exp(eta)
                variance = mean + 0.4 * mean * mean
            case "gamma":
                mean = slope = np.exp(eta)
                variance = mean * mean
            case _:
                mean, slope, variance = 1.0 / eta, -(eta**-2.0), eta**-2.0
        weight = slope * slope / variance
        information = (x * weight[:, None]).T @ x
        pull = (response - mean) * slope / variance
        step = np.linalg.solve(information, x.T @ pull)
        b += step
        if np.abs(step).max() < 1e-14 * np.abs(b).max():
            break
    dispersion = 1.0
    if FAMILIES[name].estimates_dispersion:
        dispersion = ((response - mean) ** 2 / variance).sum() / (len(x) - len(b))
    covariance = dispersion * np.linalg.inv(information)
    real = np.diag(1.0 / spread)
    real[0] -= shift / spread
    match name:
        case "logistic":
            parts = np.logaddexp(0.0, (1.0 - 2.0 * response) * eta)
        case "probit" | "cloglog":
            parts = -np.log(np.where(response > 0.5, mean, 1.0 - mean))
        case "poisson":
            logs = np.log(np.where(response > 0.0, response / mean, 1.0))
            parts = response * logs - (response - mean)
        case "negative binomial":
            logs = np.log(np.where(response > 0.0, response / mean, 1.0))
            more = np.log((1.0 + 0.4 * response) / (1.0 + 0.4 * mean))
            parts = response * logs - (response + 2.5) * more
        case _:
            parts = (response - mean) / mean - np.log(response / mean)
    errors = np.sqrt(np.diag(real @ covariance @ real.T))
    weighed = (design * weight[:, None]).T @ design
    return real @ b, errors, 2.0 * parts.sum(), (weighed, real @ covariance @ real.T)


def inflation(found, measures):
    """The most by which errors of products grow in a variance."""
    information, covariance = found
    centred = np.eye(len(information))
    centred[0] = [-float(of.centre * of.unit) for of in measures.design]
    centred[0, 0] = 1.0
    sizes = np.diag(centred.T @ information @ centred)
    scale = np.trace(covariance @ information) / len(information)  # a dispersion
    return (sizes[1:] * np.diag(covariance)[1:]).max() / scale


def case(name, seed, n=None, p=None):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 800)) if n is None else n
    design, response, measures = table(
        name, rng, n, int(rng.integers(1, 5)) if p is None else p
    )
    sound = np.linalg.matrix_rank(design) == design.shape[1] and len(set(response)) > 1
    return (design, response, measures) if sound else None


@pytest.mark.parametrize("name", FAMILIES)
@few
@given(seed=seeds, digits=digits_of_fits)
def test_residues_determine_totals_and_answers_keep_their_digits(name, seed, digits):
    drawn = case(name, seed)
    if drawn is None:
        return
    design, response, measures = drawn
    rng = np.random.default_rng(seed)

    def answer(digits):
        newton = Newton(FAMILIES[name], measures, intercept=0, digits=digits)
        try:
            return (*fitted(newton, Rows.of(design, response), rng), None)
        except (InvalidInputError, NumericalError) as error:
            return None, None, error

    found, bits, error = answer(digits)
    again = isinstance(error, NumericalError) or (
        error is not None and error.code == "columns-too-alike"
    )
    if again:
        found, bits, error = answer(int(str(error).partition("digits=")[2].rstrip(")")))
    if error is not None:
        assert isinstance(error, InvalidInputError)
        assert error.code != "columns-too-alike"
        return  # dependent columns, or a level at which all responses are alike
    used = MOST_DIGITS if again else digits
    assert bool(bits) == (used <= FRUGAL_DIGITS or FAMILIES[name].slope != 0.0)
    wanted, errors, deviance, information = reference(name, design, response)
    # Float64 leaves the reference nine digits, and a sum what its rows' products have:
    # less where columns are far from the middle of their range. Standard errors lose
    # as many digits as the condition has: where columns are nearly alike.
    close = max(10.0**-digits, 1e-9, 2.0**-48 * inflation(information, measures))
    assert np.abs((found.coefficients - wanted) / errors).max() < close
    close = max(close, 2.0**-44 * found.condition)
    assert np.abs(found.standard_errors / errors - 1.0).max() < close
    # And its deviance twelve.
    away = abs(found.deviance - deviance)
    assert away <= found.deviance_error + 1e-12 * abs(deviance)


def test_four_digits_release_less_than_half_of_what_twelve_do():
    """A fit of three columns to 1,136 rows; every later total counts by its residue."""
    released = {}
    for digits in (4, 12):
        rng = np.random.default_rng(5)
        age = rng.integers(18, 95, 1_136) * 1.0
        sex, smoker = (rng.random(1_136) < 0.5) * 1.0, (rng.random(1_136) < 0.3) * 1.0
        design = np.column_stack([np.ones(1_136), age, sex, smoker])
        eta = -2.0 + 0.02 * (age - 50.0) + 0.3 * sex + 0.5 * smoker
        response = (rng.random(1_136) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
        measures = RowMeasures.of(
            [
                UnitMeasure(Fraction(1), 1, 1),
                UnitMeasure.of(18, 95),
                *[UnitMeasure.of(0, 1)] * 2,
            ],
            UnitMeasure.of(0, 1),
            intercept=0,
        )
        newton = Newton(Binomial(), measures, intercept=0, digits=digits)
        released[digits] = sum(fitted(newton, Rows.of(design, response), rng)[1])
    print(released)
    assert 2 * released[4] < released[12]
