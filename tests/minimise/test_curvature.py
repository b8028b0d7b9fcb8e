"""Bounds on curvature against Hessians computed at many points of the domain."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from refusals import refused
from strategies import eighths, few, seeds
from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Ball, Box, HalfSpaces, Simplex, WholeSpace
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.costs.rows import glm_cost, huber_cost, smoothed_hinge_cost
from veilsum.minimise.curvature import curvature_bounds
from veilsum.minimise.methods.certificate import Bounds
from veilsum.models.families import Binomial, GaussianFamily, Poisson
from veilsum.models.rows import Rows

DIM, PARTIES = 3, 4
ROOM = 1 + 1e-9  # for rounding
CUBE = HalfSpaces(
    np.vstack([np.eye(DIM), -np.eye(DIM), np.ones((1, DIM))]), [0.6] * 6 + [1.0]
)
DOMAINS = {
    "box": Box([-0.5, 0.0, -1.0], [0.5, 1.0, 0.3], dim=DIM),
    "ball": Ball([0.2, 0.0, -0.1], 0.8, dim=DIM),
    "simplex": Simplex(DIM, total=1.5),
    "half-spaces": CUBE,
}
# mu' by the textbook, row by row.
SLOPES = {
    "gaussian": np.ones_like,
    "logistic": lambda eta: np.exp(-eta) / (1.0 + np.exp(-eta)) ** 2,
    "poisson": np.exp,
}
FAMILIES = {"gaussian": GaussianFamily(), "logistic": Binomial(), "poisson": Poisson()}


def rows_of(seed, *, labels=(0.0, 1.0)):
    rng = np.random.default_rng(seed)
    return Rows.of(
        rng.standard_normal((6, DIM)),
        rng.choice(labels, 6),
        weights=rng.uniform(0.5, 2.0, 6),
        offset=0.4 * rng.standard_normal(6),
    )


def tables(seed):
    return [rows_of(seed + 7 * k) for k in range(PARTIES)]


def hessian(name, rows, b, ridge):
    eta = rows.design @ b + rows.offset
    bent = rows.weights * SLOPES[name](eta)
    return rows.design.T @ (bent[:, None] * rows.design) + ridge * np.eye(DIM)


def points_of(domain, seed):
    """Points inside and on the edge: projections of points far and near."""
    rng = np.random.default_rng(seed)
    spread = np.repeat([0.3, 1.0, 5.0], 4)
    return domain.project(spread[:, None] * rng.standard_normal((12, DIM)))


def check(bounds, hessians):
    """Every Hessian, of a cost and of the average, is within the bounds."""
    assert np.abs(np.linalg.eigvalsh(hessians)).max() <= bounds.smooth * ROOM
    average = np.linalg.eigvalsh(hessians.mean(axis=1))
    assert bounds.mean_convex <= average.min() * ROOM
    assert average.max() <= bounds.mean_smooth * ROOM


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), ridge=st.sampled_from([0.0, 0.5]))
def test_bounds_hold_at_every_point(name, domain, seed, ridge):
    costs = [glm_cost(FAMILIES[name], rows, ridge=ridge) for rows in tables(seed)]
    bounds = curvature_bounds(costs, domain)
    points, parts = points_of(domain, seed), tables(seed)
    found = [[hessian(name, rows, b, ridge) for rows in parts] for b in points]
    check(bounds, np.array(found))


@few
@given(seed=st.integers(0, 10_000))
def test_bounds_of_least_squares_are_exact(seed):
    costs = [glm_cost(GaussianFamily(), rows, ridge=0.1) for rows in tables(seed)]
    found = curvature_bounds(costs, WholeSpace(DIM))
    own = [hessian("gaussian", rows, np.zeros(DIM), 0.1) for rows in tables(seed)]
    ends = [np.linalg.eigvalsh(one)[-1] for one in own]
    average = np.linalg.eigvalsh(np.mean(own, axis=0))
    assert found.smooth == pytest.approx(max(ends))
    assert found.mean_smooth == pytest.approx(average[-1])
    assert found.mean_convex == pytest.approx(average[0])


@few
@given(seed=seeds)
def test_bounds_of_quadratics_are_exact_even_where_one_is_not_convex(seed):
    rng = np.random.default_rng(seed)
    halves = rng.standard_normal((PARTIES, DIM, DIM))
    matrices = halves + np.swapaxes(halves, 1, 2)
    matrices[0] += 30.0 * np.eye(DIM) * PARTIES
    matrices[1] -= 35.0 * np.eye(DIM)
    found = curvature_bounds(
        [Cost.quadratic(matrix, np.ones(DIM)) for matrix in matrices], WholeSpace(DIM)
    )
    average = np.linalg.eigvalsh(matrices.mean(axis=0))
    assert found.smooth == pytest.approx(np.abs(np.linalg.eigvalsh(matrices)).max())
    assert found.mean_smooth == pytest.approx(average[-1])
    assert found.mean_convex == pytest.approx(average[0])


def test_the_largest_bend_may_be_downwards():
    costs = [Cost.quadratic([[10.0]], [0.0]), Cost.quadratic([[-7.0]], [0.0])]
    costs += [Cost.quadratic([[6.0]], [0.0])]
    found = curvature_bounds(costs, WholeSpace(1))
    assert found == Bounds(smooth=10.0, mean_smooth=3.0, mean_convex=3.0)
    steep = [Cost.quadratic([[-11.0]], [0.0]), *costs[:1], *costs[:1]]
    assert curvature_bounds(steep, WholeSpace(1)).smooth == 11.0


def test_squares_known_to_all_bend_by_twice_their_scale():
    costs = [Cost.affine([1.0], remainder=SquaredNorm(s)) for s in (0.5, 1.5)]
    found = curvature_bounds({"ann": costs[0], "bob": costs[1]}, WholeSpace(1))
    assert found == Bounds(smooth=3.0, mean_smooth=2.0, mean_convex=2.0)


@given(design=eighths((4, DIM)))
def test_logistic_bounds_everywhere_are_a_quarter_of_least_squares_and_the_ridge(
    design,
):
    rows = Rows.of(design, np.zeros(4))
    found = curvature_bounds([glm_cost(Binomial(), rows, ridge=2.0)], WholeSpace(DIM))
    expected = 2.0 + np.linalg.eigvalsh(design.T @ design / 4.0)[-1]
    assert found.smooth == found.mean_smooth == pytest.approx(expected)
    assert found.mean_convex == 2.0


def test_where_means_are_held_at_their_edge_there_is_no_curvature_to_count_on():
    """Predictors to 31: means are kept off 0 and 1 from 30 on, and do not move."""
    rows = Rows.of([[31.0]], [1.0])
    with refused("not-strongly-convex"):
        curvature_bounds([glm_cost(Binomial(), rows)], Box(-1.0, 1.0, dim=1))
    found = curvature_bounds([glm_cost(Binomial(), rows)], Box(-0.9, 0.9, dim=1))
    expected = 31.0**2 * SLOPES["logistic"](np.array(27.9))
    assert found.mean_convex == pytest.approx(float(expected))


@pytest.mark.parametrize("name", ["huber", "hinge"])
@few
@given(seed=st.integers(0, 10_000))
def test_robust_losses_bend_no_more_than_their_bounds(name, seed):
    if name == "huber":
        costs = [huber_cost(rows, delta=0.5, ridge=0.2) for rows in tables(seed)]
    else:
        costs = [
            smoothed_hinge_cost(rows, smoothing=0.5, ridge=0.2) for rows in tables(seed)
        ]
    bounds = curvature_bounds(costs, WholeSpace(DIM))
    assert bounds.mean_convex == pytest.approx(0.2)
    rng = np.random.default_rng(seed)
    for a, b in rng.standard_normal((6, 2, DIM)):
        step, way = np.linalg.norm(a - b), a - b
        changes = np.array([cost.gradient(a) - cost.gradient(b) for cost in costs])
        assert np.linalg.norm(changes, axis=1).max() <= bounds.smooth * step * ROOM
        mean = changes.mean(axis=0)
        assert np.linalg.norm(mean) <= bounds.mean_smooth * step * ROOM
        assert mean @ way * ROOM >= bounds.mean_convex * step**2


def test_robust_losses_are_exact_where_no_row_leaves_the_middle():
    rows = Rows.of([[1.0], [2.0]], [0.0, 0.0])
    inside = curvature_bounds([huber_cost(rows, delta=3.0)], Box(-1.0, 1.0, dim=1))
    assert inside == Bounds(smooth=5.0, mean_smooth=5.0, mean_convex=5.0)
    flat = Rows.of([[0.1], [0.2]], [1.0, 1.0], offset=[0.8, 0.8])
    cost = smoothed_hinge_cost(flat, smoothing=0.5)
    found = curvature_bounds([cost], Box(-0.5, 0.5, dim=1))
    assert found.mean_convex == pytest.approx(0.05 / 0.5)


def local(k):
    return Cost.from_gradient(lambda x: k * x, dim=1)


@each(
    ("costs", "domain", "words"),
    [
        ([local(1.0)], WholeSpace(1), "party '0': .*as a function.*that you know"),
        ([Cost.polynomial([1.0, 2.0])], WholeSpace(1), "a polynomial bends"),
        ([Cost.affine([1.0])], WholeSpace(1), "no strong convexity"),
        ([Cost.affine([1.0])], WholeSpace(2), "1 variables.*dimension 2"),
        ([], WholeSpace(1), "no costs"),
        (
            [glm_cost(Poisson(), Rows.of([[1.0]], [1.0]))],
            WholeSpace(1),
            "without end.*give a bounded domain",
        ),
        (
            [glm_cost(Binomial(), Rows.of([[1.0]], [1.0]))],
            HalfSpaces([[1.0]], [1.0]),
            "no strong convexity.*add a ridge",
        ),
        (
            [glm_cost(GaussianFamily(), Rows.of([[0.1, 0.3]], [1.0]))],
            WholeSpace(2),
            "no strong convexity",
        ),
    ],
    ids=[
        *("function", "polynomial", "affine", "dimension", "none"),
        *("poisson", "logistic", "dependent"),
    ],
)
def test_what_has_no_bounds_is_refused_in_words(costs, domain, words):
    with pytest.raises(InvalidInputError, match=words):
        curvature_bounds(costs, domain)


def test_a_refusal_names_the_party():
    with refused("curvature-unknown", mentions=("bob",)):
        curvature_bounds({"ann": Cost.affine([1.0]), "bob": local(2.0)}, WholeSpace(1))
