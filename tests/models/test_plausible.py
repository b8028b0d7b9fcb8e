"""Totals that no admissible tables have end a search, and the error names them."""

from fractions import Fraction

import numpy as np
import pytest

from cases import each
from refusals import refused
from veilsum.errors import NumericalError
from veilsum.models import least_squares
from veilsum.models.choices import (
    ChoiceSearch,
    Multinomial,
    statistics as choice_statistics,
)
from veilsum.models.families import Binomial, Gamma, Poisson, Probit
from veilsum.models.mixed import MixedModel, MixedModelCounting, MixedModelRequest
from veilsum.models.newton import Newton
from veilsum.models.plausible import check_plausible_matrix
from veilsum.models.rows import ONES, RowMeasures, Rows
from veilsum.numbers.units import UnitMeasure

AGED = RowMeasures.of(
    [ONES, UnitMeasure.of(0, 100, Fraction(1))],
    UnitMeasure.of(0, 1, Fraction(1)),
    intercept=0,
)
NAMES = ("one", "age")


def rows_of(seed=0, n=200):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, n)
    response = (rng.random(n) < 1.0 / (1.0 + np.exp(-(age - 55.0) / 15.0))) * 1.0
    return Rows.of(np.column_stack([np.ones(n), age]), response)


@each("family", [Binomial(), Poisson(), Probit(), Gamma()])
@each("stage", ["first", "round"])
@each("digits", [4, 12])
@each(
    ("place", "factor", "name"),
    [
        (0, -1, "information for one"),
        (2, 10**6, "information for age"),
        (1, 10**4, "gives a negative variance"),
    ],
)
def test_a_matrix_that_no_rows_have_ends_the_search(
    family, stage, digits, place, factor, name
):
    positive = UnitMeasure.of(Fraction(1, 2), 2, Fraction(1, 2))
    measures = RowMeasures.of(AGED.design, positive, intercept=0)
    newton = Newton(
        family,
        measures if family.positive else AGED,
        names=NAMES,
        intercept=0,
        digits=digits,
    )
    if stage == "round" and newton.scales.has_fineness:
        return  # residues: every total is one that rows may have (test_fineness)
    rows = rows_of()
    if family.positive:
        rows = Rows.of(rows.design, rows.response + 0.5)
    state = newton.start()
    while (request := newton.propose(state)).stage != stage:
        state = newton.advance(state, newton.statistics(rows, request))
    total = newton.statistics(rows, request)
    newton.advance(state, total)  # the twin: what rows add up to is taken
    if place == 1:
        total[1] = factor * (abs(int(total[1])) + int(total[0]) + int(total[2]))
    else:
        total[place] *= factor
    with refused("impossible-total", NumericalError, mentions=(name,)):
        newton.advance(state, total)


@pytest.mark.parametrize(
    ("place", "by"), [(5, 10**6), (4, 10**6), (4, -(10**6)), (3, 1)]
)
def test_numbers_of_a_first_sum_beyond_agreed_ranges_end_the_search(place, by):
    newton, rows = Newton(Binomial(), AGED, names=NAMES, intercept=0), rows_of()
    total = newton.statistics(rows, newton.propose(newton.start()))
    total[place] += by << 70
    with refused("impossible-total", NumericalError):
        newton.advance(newton.start(), total)


def test_sums_of_a_level_beyond_its_rows_end_a_choice():
    rng = np.random.default_rng(0)
    measures = RowMeasures.of(
        AGED.design, UnitMeasure.of(0, 2, Fraction(1)), intercept=0
    )
    search = ChoiceSearch(Multinomial(), measures, NAMES, ("a", "b", "c"), 0)
    rows = Rows.of(rows_of().design, rng.integers(0, 3, 200).astype(float))
    total = choice_statistics(search.scales, rows, search.propose(search.start()))
    state = search.advance(search.start(), total)
    total[11] += 1 << 70  # of age among the rows of b
    with refused("impossible-total", NumericalError):
        search.advance(search.start(), total)
    total = choice_statistics(search.scales, rows, search.propose(state))
    total[0] = -1
    with refused("impossible-total", NumericalError):
        search.advance(state, total)


@pytest.mark.parametrize(("place", "value"), [(0, -5), (2, 10**9), (1, 10**6)])
def test_moments_that_no_rows_have_give_no_least_squares_fit(place, value):
    total = least_squares.statistics(rows_of(), AGED)
    least_squares.fit(total, AGED, names=NAMES, intercept=0)
    total[place] = value
    with refused("impossible-total", NumericalError):
        least_squares.fit(total, AGED, names=NAMES, intercept=0)


def test_every_gram_matrix_is_plausible():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        shape = rng.integers(1, 8), rng.integers(1, 6)
        table = rng.integers(-9, 10, shape).astype(object)
        names = [f"x{k}" for k in range(shape[1])]
        check_plausible_matrix(
            "m", table.T @ table, names, [9] * shape[1], int(shape[0])
        )


@pytest.mark.parametrize(("corner", "fine"), [(1, True), (0, False)])
def test_the_smallest_negative_variance_is_refused(corner, fine):
    """Columns (1) and (1) have the products 1, 1, 1; with 1, 1, 0 a minor is -1."""
    matrix = np.array([[1, 1], [1, corner]], dtype=object)
    if fine:
        check_plausible_matrix("m", matrix, ("a", "b"), [1, 1], 1)
        return
    with refused("impossible-total", NumericalError):
        check_plausible_matrix("m", matrix, ("a", "b"), [1, 1], 1)


@pytest.mark.parametrize("more", [0, 1])
def test_a_mixed_model_has_at_most_the_agreed_number_of_rows(more):
    mixing = MixedModelCounting(AGED, 0, (0,))
    model = MixedModel(mixing, NAMES, "reml")
    parts = mixing.layout.unpack(np.zeros(mixing.layout.size, dtype=object))
    parts["rows"] = (1 << AGED.row_bits) + more
    if not more:
        model._check_possible(MixedModelRequest((0,), 40, (1,)), parts)
        return
    with refused("impossible-total", NumericalError):
        model._check_possible(MixedModelRequest((0,), 40, (1,)), parts)
