"""Gradients of functions written with JAX, in 64 bits and without its global switch.

Every trace and every call happens inside JAX's own scope for 64 bits, so that the rest
of a program keeps the precision it has chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError, load_extra_package
from veilsum.minimise.costs.bases import check_cost_dimension
from veilsum.numbers.arrays import Vector


def gradient_by_jax(
    function: Callable[[Any], Any], dim: int
) -> Callable[[Vector], Vector]:
    """Return the compiled gradient of a scalar function of points (dim,)."""
    check_cost_dimension(dim)
    jax = load_jax()
    _check_scalar_cost_function(jax, function, dim)
    compiled = jax.jit(jax.grad(function))

    def gradient(x: Vector) -> Vector:
        with in_64_bits(jax):
            return np.asarray(compiled(np.asarray(x, dtype=np.float64)))

    return gradient


def _check_scalar_cost_function(
    jax: Any, function: Callable[[Any], Any], dim: int
) -> None:
    """Refuse a function that JAX cannot follow, or that loses digits on its way."""
    with in_64_bits(jax):
        try:
            traced = jax.make_jaxpr(function)(np.zeros(dim))
        except TypeError as error:
            raise InvalidInputError(
                "the function must be written with jax.numpy, so that JAX can follow "
                f"it; with Cost.from_gradient plain NumPy will do. JAX says: {error}",
                code="not-traceable",
            ) from None
    found = [(value.shape, str(value.dtype)) for value in traced.out_avals]
    if found != [((), "float64")]:
        raise InvalidInputError(
            "the function must return one real number, found "
            + (
                " and ".join(f"{kind} of shape {shape}" for shape, kind in found)
                or "nothing"
            ),
            code="value-not-scalar",
        )
    if any(str(getattr(held, "dtype", "")) == "float32" for held in traced.consts):
        raise InvalidInputError(
            "the function uses arrays of 32 bits, and all their digits beyond the "
            "seventh are lost: keep its data in NumPy arrays of float64, which JAX "
            "takes as they are",
            code="float32-function",
        )


def load_jax() -> Any:
    """Return the package; refuse in words where it is not installed."""
    what = "costs that are differentiated automatically"
    return load_extra_package("jax", extra="jax", what=what)


def in_64_bits(jax: Any) -> AbstractContextManager[Any]:
    """Return JAX's scope for 64 bits, which has moved between its versions."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)  # noqa: FBT003 - as JAX would have it
    return import_module("jax.experimental").enable_x64()
