"""All parties' rows evaluated at once: the same numbers as one after the other."""

import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from strategies import few, seeds
from veilsum.errors import SecretError
from veilsum.minimise.costs import rows as row_costs
from veilsum.minimise.costs.remainders import SquaredNorm, stack_remainders
from veilsum.minimise.costs.rows import (
    HuberCurve,
    MeanCurve,
    RowRemainder,
    RowRemainderStack,
    SmoothedHingeCurve,
    SquareStack,
)
from veilsum.models.families import Binomial, GaussianFamily, Poisson
from veilsum.models.rows import Rows

CURVES = {
    "gaussian": MeanCurve(GaussianFamily()),
    "logistic": MeanCurve(Binomial()),
    "poisson": MeanCurve(Poisson()),
    "huber": HuberCurve(0.8),
    "smoothed hinge": SmoothedHingeCurve(0.5),
}
every_curve = pytest.mark.parametrize("name", CURVES)


def member(curve, rng, n_rows, dim, *, weights=False, offset=False):
    rows = Rows.of(
        rng.standard_normal((n_rows, dim)),
        np.zeros(n_rows),
        weights=rng.uniform(0.5, 2.0, n_rows) if weights else None,
        offset=0.3 * rng.standard_normal(n_rows) if offset else None,
    )
    return RowRemainder.of(curve, rows, rng.uniform(0.0, 1.0, dim))


def members_of(name, seed=0, *, lengths=(5, 7, 6, 4), dim=3, **extras):
    rng = np.random.default_rng(seed)
    return [member(CURVES[name], rng, length, dim, **extras) for length in lengths]


def one_by_one(members, x):
    return np.array([one.gradient(row) for one, row in zip(members, x, strict=True)])


def sizes(members, x):
    """What the terms of each gradient add up to in size: rounding is in these."""
    parts = [np.abs(one.blocks[0].design) for one in members if one.blocks]
    most = max(float((part.T @ part).max()) for part in parts)
    return 1.0 + most * (1.0 + np.abs(x).max())


@every_curve
@few
@given(
    seed=seeds,
    lengths=st.lists(st.integers(4, 8), min_size=1, max_size=6),
    dim=st.integers(1, 12),
    weights=st.booleans(),
    offset=st.booleans(),
)
def test_together_is_as_one_by_one(name, seed, lengths, dim, weights, offset):
    members = members_of(
        name, seed, lengths=lengths, dim=dim, weights=weights, offset=offset
    )
    x = np.random.default_rng(seed).standard_normal((len(members), dim))
    whole = stack_remainders(members)
    assert isinstance(whole.together, RowRemainderStack | SquareStack)
    expected = one_by_one(members, x)
    found = whole.gradient(x)
    np.testing.assert_allclose(found, expected, atol=1e-13 * sizes(members, x))


@every_curve
def test_together_is_as_one_by_one_where_some_have_extras_and_some_have_no_rows(name):
    rng, curve = np.random.default_rng(2), CURVES[name]
    members = [
        member(curve, rng, 6, 3),
        member(curve, rng, 5, 3, weights=True),
        member(curve, rng, 6, 3, offset=True),
        member(curve, rng, 0, 3),
    ]
    x = rng.standard_normal((4, 3))
    whole = stack_remainders(members)
    assert whole.together is not None
    np.testing.assert_allclose(whole.gradient(x), one_by_one(members, x), rtol=1e-12)
    np.testing.assert_allclose(whole.gradient(x)[3], members[3].penalty * x[3])


@every_curve
def test_together_there_is_no_slope_at_the_origin_either(name):
    members = members_of(name, weights=True, offset=True)
    assert not stack_remainders(members).gradient(np.zeros((4, 3))).any()


@every_curve
def test_parts_of_a_stack_are_those_agents_(name):
    together = stack_remainders(members_of(name, weights=True, offset=True)).together
    x = np.random.default_rng(1).standard_normal((4, 3))
    part = together.rows(slice(1, 3))
    np.testing.assert_array_equal(part.gradient(x[1:3]), together.gradient(x)[1:3])
    assert part.kind == together.kind == "local"


@pytest.mark.parametrize("n_rows", [2, 9], ids=["wide", "tall"])
def test_least_squares_have_matrices_by_which_gradients_are_products(n_rows):
    members = members_of("gaussian", lengths=(n_rows,) * 3, dim=4, weights=True)
    matrices = stack_remainders(members).matrices
    for one, found in zip(members, matrices, strict=True):
        block = one.blocks[0]
        weighted = block.design.T @ (block.weights[:, None] * block.design)
        expected = weighted + np.diag(one.penalty)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(found, found.T)


def test_a_few_rows_of_many_columns_are_not_squared():
    members = members_of("gaussian", lengths=(2, 2), dim=40)
    assert stack_remainders(members).matrices is None
    assert isinstance(stack_remainders(members).together, RowRemainderStack)


@pytest.mark.parametrize("name", [name for name in CURVES if name != "gaussian"])
def test_other_losses_have_no_matrices(name):
    assert stack_remainders(members_of(name)).matrices is None


@pytest.mark.parametrize(
    "members",
    [
        [*members_of("logistic"), *members_of("poisson")],
        [*members_of("logistic"), SquaredNorm(1.0)],
        [SquaredNorm(1.0), *members_of("logistic")],
        [*members_of("logistic", lengths=(3, 3, 3, 40))],
        [*members_of("logistic", lengths=(0, 0))],
    ],
    ids=["two laws", "a square", "a square first", "uneven", "no rows"],
)
def test_what_is_not_alike_is_evaluated_one_by_one(members):
    x = np.random.default_rng(3).standard_normal((len(members), 3))
    whole = stack_remainders(members)
    assert whole.together is None
    np.testing.assert_array_equal(whole.gradient(x), one_by_one(members, x))


def test_large_tables_are_not_copied(monkeypatch):
    monkeypatch.setattr(row_costs, "LARGE", 20)
    assert stack_remainders(members_of("logistic", lengths=(6, 6))).together is not None
    assert stack_remainders(members_of("logistic", lengths=(7, 7))).together is None
    assert stack_remainders(members_of("gaussian", lengths=(7, 7))).matrices is not None


def test_rows_in_several_blocks_have_the_same_matrix(monkeypatch):
    whole = stack_remainders(members_of("gaussian", lengths=(30, 30))).matrices
    monkeypatch.setattr("veilsum.models.rows.BLOCK_NUMBERS", 12)
    pieces = members_of("gaussian", lengths=(30, 30))
    assert len(pieces[0].blocks) > 1
    np.testing.assert_allclose(
        stack_remainders(pieces).matrices, whole, rtol=1e-12, atol=1e-13
    )
    assert stack_remainders(members_of("logistic", lengths=(30, 30))).together is None


@pytest.mark.parametrize("name", ["gaussian", "logistic"])
def test_a_stack_neither_prints_nor_leaves_the_process(name):
    together = stack_remainders(members_of(name)).together
    assert repr(together) == f"<{type(together).__name__}: private>"
    with refused("not-copyable", SecretError):
        pickle.dumps(together)
