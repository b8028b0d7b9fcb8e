"""Huber's loss and a smoothed hinge, against values from elsewhere."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import integrate, optimize, special

from refusals import refused
from strategies import eighths, few, seeds
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.remainders import exposed_by_remainder, stack_remainders
from veilsum.minimise.costs.rows import (
    RESPONSES_INSIDE,
    HuberCurve,
    SmoothedHingeCurve,
    huber_cost,
    smoothed_hinge_cost,
)
from veilsum.models.rows import Rows

DELTA, SMOOTHING, RIDGE = 0.7, 0.6, [0.0, 0.5, 2.0]


def rows_of(seed=0, n=25, *, labels=False, extras=True):
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    response = design @ [0.3, 1.0, -0.5] + 1.5 * rng.standard_normal(n)
    if labels:
        response = np.where(response > 0, 1.0, -1.0)
    if not extras:
        return Rows.of(design, response)
    weights, offset = rng.uniform(0.5, 3.0, n), 0.5 * rng.standard_normal(n)
    return Rows.of(design, response, weights=weights, offset=offset)


def huber(rows, b):
    """By scipy's own Huber function, not ours."""
    away = rows.design @ b + rows.offset - rows.response
    loss = rows.weights * special.huber(DELTA, away)
    return loss.sum() + 0.5 * np.sum(RIDGE * b**2)


def hinge(rows, b):
    """From the hinge itself: its average over a window has a rounded corner."""

    def smoothed(t):
        window = (t, t + SMOOTHING)
        corner = [1.0] if window[0] < 1.0 < window[1] else None
        area, _ = integrate.quad(lambda u: max(0.0, 1.0 - u), *window, points=corner)
        return area / SMOOTHING

    margins = rows.response * (rows.design @ b + rows.offset)
    loss = rows.weights * [smoothed(t) for t in margins]
    return loss.sum() + 0.5 * np.sum(RIDGE * b**2)


COSTS = {
    "huber": lambda rows, ridge=RIDGE: huber_cost(rows, delta=DELTA, ridge=ridge),
    "hinge": lambda rows, ridge=RIDGE: smoothed_hinge_cost(
        rows, smoothing=SMOOTHING, ridge=ridge
    ),
}
VALUES = {"huber": huber, "hinge": hinge}
every_loss = pytest.mark.parametrize("name", COSTS)


@every_loss
@few
@given(seed=seeds)
def test_the_gradient_is_the_slope_of_the_value(name, seed):
    rows = rows_of(seed, n=8, labels=name == "hinge")
    b = np.random.default_rng(seed).standard_normal(3)
    found = COSTS[name](rows).gradient(b)
    expected = optimize.approx_fprime(b, lambda at: VALUES[name](rows, at), 1e-6)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=3e-4)


@given(st.floats(-5, 5), st.floats(0.1, 3))
def test_huber_s_slope_is_exact(residual, delta):
    """d/de of e^2/2 or delta (|e| - delta/2)."""
    expected = residual if abs(residual) <= delta else np.sign(residual) * delta
    assert HuberCurve(delta).mean(np.array([residual])).tolist() == [expected]


@given(st.floats(-3, 4), st.floats(0.1, 3))
def test_the_smoothed_hinge_s_slope_is_that_of_its_three_pieces(t, s):
    pieces = [
        (t >= 1, mpmath.mpf(0)),
        (t <= 1 - s, mpmath.mpf(-1)),
        (True, (mpmath.mpf(t) - 1) / s),
    ]
    expected = float(next(slope for holds, slope in pieces if holds))
    found = SmoothedHingeCurve(s).mean(np.array([t]))
    np.testing.assert_allclose(found, [expected], rtol=1e-12, atol=1e-15)


@every_loss
@few
@given(seed=seeds, n=st.integers(0, 30), extras=st.booleans())
def test_the_split_is_canonical(name, seed, n, extras):
    rows = rows_of(seed, n, labels=name == "hinge", extras=extras)
    cost = COSTS[name](rows)
    assert cost.basis == Affine(3)
    assert cost.remainder.kind == "local"
    assert cost.remainder.gradient(np.zeros(3)).tolist() == [0.0] * 3


@given(design=eighths((6, 2)), response=eighths((6,)))
def test_what_is_masked_is_the_gradient_at_the_origin(design, response):
    cost = huber_cost(Rows.of(design, response), delta=2.0)
    expected = design.T @ np.clip(-response, -2.0, 2.0)
    np.testing.assert_array_equal(cost.coefficients, expected)


@every_loss
def test_responses_are_in_the_remainder_and_that_is_said(name):
    """Unlike a regression's with a canonical link: DGD's steps show them."""
    rows = rows_of(labels=name == "hinge")
    other = replace(rows, response=-rows.response)
    b = np.array([0.4, -0.7, 0.2])
    found = [COSTS[name](one).remainder.gradient(b) for one in (rows, other)]
    assert not np.allclose(*found)
    remainders = [COSTS[name](one).remainder for one in (rows, other)]
    assert (
        exposed_by_remainder(remainders[0])
        == exposed_by_remainder(stack_remainders(remainders))
        == (RESPONSES_INSIDE,)
    )
    assert RESPONSES_INSIDE.startswith("responses, features, weights and offsets are")


def test_labels_may_be_0_and_1_too():
    rows = rows_of(labels=True)
    zeros = replace(rows, response=(rows.response + 1.0) / 2.0)
    ours, theirs = COSTS["hinge"](rows), COSTS["hinge"](zeros)
    b = np.array([0.4, -0.7, 0.2])
    assert ours.gradient(b).tolist() == theirs.gradient(b).tolist()


@pytest.mark.parametrize("labels", [[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [0.5, 1.0, 1.0]])
def test_other_labels_are_refused(labels):
    with refused("labels-not-signs", mentions=("1,", "0", "1")):
        smoothed_hinge_cost(Rows.of(np.ones((3, 1)), labels), smoothing=0.5)


def test_a_wide_huber_loss_is_least_squares():
    rows = rows_of(extras=False)
    cost = huber_cost(rows, delta=1e9)
    b = np.array([0.4, -0.7, 0.2])
    expected = rows.design.T @ (rows.design @ b - rows.response)
    np.testing.assert_allclose(cost.gradient(b), expected, rtol=1e-12)


def test_outliers_pull_no_more_than_delta():
    rows = Rows.of([[1.0], [1.0]], [0.0, 1e6])
    assert huber_cost(rows, delta=0.5).gradient(np.zeros(1)).tolist() == [-0.5]


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan])
def test_widths_that_are_none_are_refused(bad):
    with refused("delta-not-positive"):
        huber_cost(rows_of(), delta=bad)
    with refused("smoothing-not-positive"):
        smoothed_hinge_cost(rows_of(labels=True), smoothing=bad)


@every_loss
def test_rows_that_are_not_finite_and_negative_ridges_are_refused(name):
    rows = rows_of(labels=name == "hinge")
    with refused("ridge-negative"):
        COSTS[name](rows, -1.0)
    rows.response[3] = np.nan
    with refused("rows-not-finite"):
        COSTS[name](rows)
