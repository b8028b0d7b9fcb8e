"""Benchmarks in sizes that mean nothing: little is worth compiling well."""

import importlib.util

import pytest


@pytest.fixture(scope="module", autouse=True)
def _compiled_as_it_stands():
    """Most of the time here is XLA's, and its numbers do not depend on it."""
    if importlib.util.find_spec("jax") is None:
        yield
        return
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
