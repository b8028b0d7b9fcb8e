"""Regressions as costs: what is masked, what is not, and that both make the score."""

import pickle
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from later import Later
from refusals import refused
from strategies import eighths, few, finite_arrays, seeds
from veilsum.errors import InvalidInputError, SecretError
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.remainders import exposed_by_remainder
from veilsum.minimise.costs.rows import (
    FEATURES,
    RowRemainder,
    curvature_of_rows_cost,
    glm_cost,
)
from veilsum.models.families import (
    Binomial,
    Gamma,
    GammaInverseLink,
    GaussianFamily,
    NegativeBinomial,
    Poisson,
)
from veilsum.models.rows import Rows

sm = Later("statsmodels.api")

FAMILIES = {"gaussian": GaussianFamily(), "logistic": Binomial(), "poisson": Poisson()}
THEIRS = {
    "gaussian": lambda: sm.families.Gaussian(),
    "logistic": lambda: sm.families.Binomial(),
    "poisson": lambda: sm.families.Poisson(),
}
# B, whose slope is the mean.
CUMULANTS = {
    "gaussian": lambda eta: eta**2 / 2,
    "logistic": lambda eta: mpmath.log(1 + mpmath.exp(eta)),
    "poisson": mpmath.exp,
}
POINT = np.array([0.4, -0.7, 0.2])
every_family = pytest.mark.parametrize("name", FAMILIES)


def rows_of(name, seed=0, n=30, p=3, *, extras=True):
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    eta = design @ rng.uniform(-0.7, 0.7, p)
    response = {
        "gaussian": lambda: eta + rng.standard_normal(n),
        "logistic": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
    }[name]()
    if not extras:
        return Rows.of(design, response)
    weights, offset = rng.uniform(0.5, 3.0, n), 0.5 * rng.standard_normal(n)
    return Rows.of(design, response, weights=weights, offset=offset)


def exact_cost(name, rows, ridge):
    """h(b) in 40 digits, straight from its definition."""
    design, response, weights, offset = (
        [[mpmath.mpf(v) for v in np.atleast_1d(row)] for row in part]
        for part in (rows.design, rows.response, rows.weights, rows.offset)
    )

    def value(*b):
        total = sum(r * c**2 / 2 for r, c in zip(ridge, b, strict=True))
        for x, (y,), (w,), (o,) in zip(design, response, weights, offset, strict=True):
            linear = mpmath.fdot(x, b)
            total += w * (CUMULANTS[name](linear + o) - y * linear)
        return total

    return value


@every_family
def test_the_gradient_is_the_derivative_of_the_cost(name):
    rows, ridge = rows_of(name, n=12), [0.0, 0.5, 2.0]
    found = glm_cost(FAMILIES[name], rows, ridge=ridge).gradient(POINT)
    with mpmath.workdps(40):
        value = exact_cost(name, rows, ridge)
        axes = np.eye(3, dtype=int).tolist()
        expected = [float(mpmath.diff(value, tuple(POINT), axis)) for axis in axes]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@every_family
@few
@given(seed=seeds, n=st.integers(0, 40), extras=st.booleans(), ridge=st.floats(0, 9))
def test_the_split_is_canonical(name, seed, n, extras, ridge):
    """rho has no slope at the public point 0: all that masks can hide is masked."""
    rows = rows_of(name, seed, n, extras=extras)
    cost = glm_cost(FAMILIES[name], rows, ridge=ridge)
    assert cost.basis == Affine(3)
    assert cost.remainder.kind == "local"
    assert cost.remainder.gradient(np.zeros(3)).tolist() == [0.0] * 3
    mean = THEIRS[name]().link.inverse(np.zeros(n) if not extras else rows.offset)
    weights = np.ones(n) if not extras else rows.weights
    expected = rows.design.T @ (weights * (mean - rows.response))
    np.testing.assert_allclose(cost.coefficients, expected, rtol=1e-12, atol=1e-12)


@every_family
def test_no_response_is_in_the_remainder(name):
    """Not to the last bit, and not anywhere in the object."""
    rows = rows_of(name)
    other = replace(rows, response=rows.response[::-1].copy())
    ours, theirs = (glm_cost(FAMILIES[name], r).remainder for r in (rows, other))
    assert ours.gradient(POINT).tobytes() == theirs.gradient(POINT).tobytes()
    for mine, yours in zip(ours.blocks, theirs.blocks, strict=True):
        assert mine.response.tobytes() == yours.response.tobytes()
    changed = [glm_cost(FAMILIES[name], r).coefficients for r in (rows, other)]
    assert (changed[0] != changed[1]).any()


@every_family
@few
@given(seed=seeds, point=finite_arrays((3,), most=2.0))
def test_costs_add_up_to_the_pooled_score(name, seed, point):
    rows = rows_of(name, seed, n=60)
    owners = np.random.default_rng(seed).integers(0, 4, 60)
    parts = [
        Rows.of(
            rows.design[owners == party],
            rows.response[owners == party],
            weights=rows.weights[owners == party],
            offset=rows.offset[owners == party],
        )
        for party in range(4)
    ]
    costs = [glm_cost(FAMILIES[name], part) for part in parts]
    total = sum(cost.coefficients for cost in costs) + sum(
        cost.remainder.gradient(point) for cost in costs
    )
    pooled = sm.GLM(
        rows.response,
        rows.design,
        family=THEIRS[name](),
        var_weights=rows.weights,
        offset=rows.offset,
    )
    score = pooled.score(point, scale=1.0)
    size = np.abs(rows.design).max() * (np.abs(total).max() + 60.0)
    np.testing.assert_allclose(total, -score, atol=1e-13 * 60 * size)


@every_family
@few
@given(seed=seeds, data=st.data(), unit=st.sampled_from(["1/8", 1e-9, "1/1048576"]))
def test_the_exact_total_does_not_know_who_has_which_row(name, seed, data, unit):
    """However rows are dealt, in whatever order, in blocks of whatever length."""
    rows = rows_of(name, seed, n=30)
    pooled = glm_cost(FAMILIES[name], rows, unit=unit).counts
    order = data.draw(st.permutations(range(30)))
    cut = sorted(data.draw(st.lists(st.integers(0, 30), max_size=3)))
    parts = [
        Rows(
            *(
                one[own]
                for one in (rows.design, rows.response, rows.weights, rows.offset)
            )
        )
        for own in np.split(np.array(order), cut)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "veilsum.models.rows.BLOCK_NUMBERS", data.draw(st.integers(1, 90))
        )
        dealt = [glm_cost(FAMILIES[name], part, unit=unit).counts for part in parts]
    assert np.sum(dealt, axis=0).tolist() == pooled.tolist()


@given(design=eighths((5, 2)), response=eighths((5,)), point=eighths((2,)))
def test_gaussian_costs_are_exact_on_eighths(design, response, point):
    """X'(Xb - y) in rationals."""
    cost = glm_cost(GaussianFamily(), Rows.of(design, response))
    table = [[Fraction(v) for v in row] for row in design.tolist()]
    b = [Fraction(v) for v in point.tolist()]
    residual = [
        sum(x * c for x, c in zip(row, b, strict=True)) - Fraction(y)
        for row, y in zip(table, response.tolist(), strict=True)
    ]
    expected = [
        sum(row[k] * r for row, r in zip(table, residual, strict=True))
        for k in range(2)
    ]
    assert [Fraction(v) for v in cost.gradient(point).tolist()] == expected


@every_family
@given(seed=seeds, a=finite_arrays((3,), most=40.0), b=finite_arrays((3,), most=40.0))
def test_costs_are_convex_everywhere(name, seed, a, b):
    """Far out too, where means are kept off the edges of float64."""
    cost = glm_cost(FAMILIES[name], rows_of(name, seed, n=8))
    slopes = cost.gradient(a) - cost.gradient(b)
    size = np.abs(cost.gradient(a)).max() + np.abs(cost.gradient(b)).max()
    assert slopes @ (a - b) >= -1e-13 * size * np.abs(a - b).sum()


@every_family
def test_curvature_is_the_slope_of_the_gradient(name):
    rows, width = rows_of(name), 1e-5
    remainder = glm_cost(FAMILIES[name], rows).remainder
    for at in (np.zeros(3), POINT):
        ends = [remainder.gradient(at + h * np.eye(3)) for h in (width, -width)]
        slope = (ends[0] - ends[1]) / (2 * width)
        found = curvature_of_rows_cost(FAMILIES[name], rows, at)
        np.testing.assert_allclose(found, slope, rtol=1e-7, atol=1e-6)


@every_family
def test_many_points_are_evaluated_like_single_ones(name):
    remainder = glm_cost(FAMILIES[name], rows_of(name), ridge=0.5).remainder
    x = np.random.default_rng(1).standard_normal((2, 4, 3))
    found = remainder.gradient(x)
    assert found.shape == x.shape
    assert found[1, 2].tolist() == remainder.gradient(x[1, 2]).tolist()
    assert remainder.gradient(x[:0]).shape == (0, 4, 3)
    part = remainder.rows(slice(1, 2)).gradient(x[0, 1:2])
    assert part.tolist() == found[0, 1:2].tolist()


@every_family
def test_rows_in_several_blocks_give_the_same_cost(name, monkeypatch):
    whole = glm_cost(FAMILIES[name], rows_of(name))
    bend = curvature_of_rows_cost(FAMILIES[name], rows_of(name), POINT)
    monkeypatch.setattr("veilsum.models.rows.BLOCK_NUMBERS", 12)
    pieces = glm_cost(FAMILIES[name], rows_of(name))
    assert len(whole.remainder.blocks) == 1
    assert len(pieces.remainder.blocks) == 8
    np.testing.assert_allclose(pieces.coefficients, whole.coefficients, rtol=1e-12)
    np.testing.assert_allclose(
        pieces.gradient(POINT), whole.gradient(POINT), rtol=1e-12
    )
    assert pieces.remainder.gradient(np.zeros(3)).tolist() == [0.0] * 3
    again = curvature_of_rows_cost(FAMILIES[name], rows_of(name), POINT)
    np.testing.assert_allclose(again, bend, rtol=1e-12)


def test_a_ridge_is_in_the_remainder_and_each_column_may_have_its_own():
    rows = rows_of("logistic")
    plain = glm_cost(Binomial(), rows)
    ridged = glm_cost(Binomial(), rows, ridge=[0.0, 3.0, 5.0])
    assert ridged.coefficients.tolist() == plain.coefficients.tolist()
    more = ridged.remainder.gradient(POINT) - plain.remainder.gradient(POINT)
    np.testing.assert_allclose(more, [0.0, 3.0, 5.0] * POINT, atol=1e-13)


def test_a_remainder_neither_prints_nor_leaves_the_process():
    remainder = glm_cost(GaussianFamily(), rows_of("gaussian")).remainder
    assert isinstance(remainder, RowRemainder)
    assert repr(remainder) == "<RowRemainder: private>"
    with refused("not-copyable", SecretError):
        pickle.dumps(remainder)


def test_a_remainder_says_that_features_are_in_the_open():
    cost = glm_cost(Binomial(), rows_of("logistic"))
    assert FEATURES in exposed_by_remainder(cost.remainder)


@pytest.mark.parametrize("family", [Gamma(), NegativeBinomial(0.5)], ids=["g", "nb"])
def test_links_that_are_not_canonical_are_refused(family):
    rows = Rows.of(np.ones((3, 1)), [1.0, 2.0, 3.0])
    with refused("link-not-canonical"):
        glm_cost(family, rows)


def test_a_law_derived_from_a_canonical_one_is_not_taken_for_it():
    class Shifted(Poisson):
        name = "shifted"

        def inverse_link(self, eta):
            return np.exp(eta) + 1.0

    with refused("link-not-canonical"):
        glm_cost(Shifted(), rows_of("poisson"))


def test_the_inverse_link_has_no_mean_at_the_public_point():
    rows = Rows.of(np.ones((3, 1)), [1.0, 2.0, 3.0])
    with refused("link-not-canonical", mentions=("0",)):
        glm_cost(GammaInverseLink(), rows)


@each("bad", [np.nan, np.inf])
@each("what", ["design", "response", "weights", "offset"])
def test_numbers_that_are_not_finite_are_refused(what, bad):
    rows = rows_of("gaussian")
    values = getattr(rows, what).copy()
    values.flat[4] = bad
    if what == "weights" and np.isnan(bad):
        with refused("weights-not-positive"):
            replace(rows, weights=values)
        return
    with refused("rows-not-finite", mentions=(what,)):
        glm_cost(GaussianFamily(), replace(rows, **{what: values}))


def test_sums_beyond_float64_are_refused():
    with refused("products-too-large"):
        glm_cost(GaussianFamily(), Rows.of([[1e200], [1e200]], [1e200, 1.0]))


@pytest.mark.parametrize(
    ("family", "response", "words"),
    [(Binomial(), 0.5, "must be 0 or 1"), (Poisson(), -1.0, "must be a count")],
    ids=["logistic", "poisson"],
)
def test_responses_that_the_law_never_yields_are_refused(family, response, words):
    with pytest.raises(InvalidInputError, match=words):
        glm_cost(family, Rows.of([[1.0], [2.0]], [1.0, response]))


@pytest.mark.parametrize("ridge", [-1.0, np.nan, [1.0, 2.0]])
def test_a_ridge_that_is_none_is_refused(ridge):
    with pytest.raises(InvalidInputError, match="ridge"):
        glm_cost(GaussianFamily(), rows_of("gaussian"), ridge=ridge)
