"""Costs written with JAX: exact gradients, 64 bits, and no trace left behind."""

import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given

from cases import each
from later import Later, optional
from refusals import refused
from strategies import few, finite_arrays
from veilsum.errors import InvalidInputError, MissingExtraError
from veilsum.minimise.costs import differentiated
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.remainders import FUNCTION_LIMIT, exposed_by_remainder

jax = optional("jax")
jnp = Later("jax.numpy")

RNG = np.random.default_rng(0)
DESIGN, RESPONSE = RNG.standard_normal((12, 3)), RNG.standard_normal(12)


def soft_absolute(b):
    return jnp.sum(jnp.sqrt(1.0 + (DESIGN @ b - RESPONSE) ** 2))


def its_gradient(b):
    away = DESIGN @ b - RESPONSE
    return DESIGN.T @ (away / np.sqrt(1.0 + away**2))


@cache
def soft_cost():
    return Cost.from_jax(soft_absolute, dim=3)


@few
@given(finite_arrays((3,)))
def test_gradients_have_all_their_digits(b):
    np.testing.assert_allclose(soft_cost().gradient(b), its_gradient(b), atol=1e-13)


@pytest.mark.parametrize("anchor", [0.0, [0.3, -1.0, 2.0]], ids=["0", "x0"])
def test_the_split_is_canonical(anchor):
    cost = Cost.from_jax(soft_absolute, dim=3, anchor=anchor)
    at = np.broadcast_to(anchor, 3).astype(float)
    np.testing.assert_allclose(cost.coefficients, its_gradient(at), atol=1e-14)
    assert cost.remainder.gradient(at).tolist() == [0.0, 0.0, 0.0]
    assert cost.remainder.kind == "local"
    assert exposed_by_remainder(cost.remainder) == (FUNCTION_LIMIT,)


def test_many_points_are_evaluated_like_single_ones():
    x = RNG.standard_normal((4, 3))
    found = soft_cost().remainder.gradient(x)
    assert found[2].tolist() == soft_cost().remainder.gradient(x[2]).tolist()


def test_the_rest_of_the_program_keeps_its_precision():
    before = jax.config.jax_enable_x64
    Cost.from_jax(soft_absolute, dim=3).gradient(np.ones(3))
    assert jax.config.jax_enable_x64 == before
    assert jnp.zeros(2).dtype == ("float64" if before else "float32")


def test_the_precision_of_the_caller_does_not_matter():
    b = np.array([0.1, 0.2, 0.3])
    found = [soft_cost().gradient(b)]
    for wide in (True, False):
        with jax.enable_x64(wide):
            found += [soft_cost().gradient(b)]
            found += [Cost.from_jax(soft_absolute, dim=3).gradient(b)]
    assert len({one.tobytes() for one in found}) == 1


def test_data_of_32_bits_are_refused():
    narrow = jnp.asarray(DESIGN, dtype="float32")
    with refused("float32-function"):
        Cost.from_jax(lambda b: jnp.sum((narrow @ b) ** 2), dim=3)


@each(
    ("function", "found"),
    [
        (lambda b: b, r"float64 of shape \(2,\)"),
        (lambda b: (b[0], b[1]), r"float64 of shape \(\) and float64 of shape \(\)"),
        (lambda b: jnp.argmax(b), r"int64 of shape \(\)"),
        (lambda b: b[0].astype("float32"), r"float32 of shape \(\)"),
        (lambda b: None, "nothing"),
    ],
    ids=["vector", "two", "whole number", "narrow", "nothing"],
)
def test_what_is_not_one_real_number_is_refused(function, found):
    with pytest.raises(InvalidInputError, match=f"one real number, found {found}"):
        Cost.from_jax(function, dim=2)


@pytest.mark.parametrize(
    "function",
    [lambda b: np.sin(b[0]), lambda b: b[0] if b[0] > 0 else -b[0]],
    ids=["numpy", "branch"],
)
def test_a_function_that_jax_cannot_follow_is_refused(function):
    with refused("not-traceable"):
        Cost.from_jax(function, dim=2)


def test_a_gradient_that_is_not_finite_is_refused():
    with refused("gradient-not-finite"):
        Cost.from_jax(lambda b: jnp.sqrt(jnp.sum(b**2)), dim=2)


def test_a_dimension_below_one_is_refused():
    with refused("whole-out-of-range", mentions=("1,", "0")):
        Cost.from_jax(soft_absolute, dim=0)


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)  # as if it could not be imported
    with refused("missing-extra", MissingExtraError, mentions=("[jax]",)):
        Cost.from_jax(soft_absolute, dim=3)


def test_versions_of_jax_with_the_scope_in_another_place_do_as_well(monkeypatch):
    scope = jax.enable_x64

    class Older:
        def __getattr__(self, name):
            if name == "enable_x64":
                raise AttributeError(name)
            return getattr(jax, name)

    class Experimental:
        enable_x64 = staticmethod(lambda: scope(True))

    parts = {"jax": Older(), "jax.experimental": Experimental()}
    monkeypatch.setattr(differentiated, "import_module", parts.__getitem__)
    found = Cost.from_jax(soft_absolute, dim=3).gradient(np.ones(3))
    assert found.tolist() == soft_cost().gradient(np.ones(3)).tolist()
