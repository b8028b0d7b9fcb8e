"""Which engine is taken, with and without the packages that engines need."""

import importlib.util

import pytest

import refusals
from engine_tasks import arrived, make_task
from veilsum.errors import InvalidInputError, MissingExtraError
from veilsum.minimise.engines import registry
from veilsum.minimise.engines.registry import (
    LOADING,
    available_engines,
    engine_for,
    seconds_by_numpy_engine,
)


@pytest.fixture
def nothing_installed(monkeypatch):
    """Neither numba nor JAX nor MPI can be found."""
    absent = {"numba", "jax", "mpi4py"}
    find = importlib.util.find_spec
    monkeypatch.setattr(
        registry, "find_spec", lambda name: None if name in absent else find(name)
    )


@pytest.mark.parametrize("name", ["numpy", "numba", "jax", "mpi"])
def test_the_engine_asked_for_is_taken(name):
    pytest.importorskip({"mpi": "mpi4py.MPI"}.get(name, name))
    assert name in available_engines()
    assert engine_for(make_task("dgd"), name).name == name


def test_auto_is_numba_where_it_pays():
    """Loading it takes as long as thousands of small iterations."""
    pytest.importorskip("numba")
    task = make_task("dgd")
    assert engine_for(task).name == "numba"
    assert engine_for(task, iterations=100).name == "numpy"
    enough = next(
        k for k in range(1, 10**6, 1000) if seconds_by_numpy_engine(task, k) > LOADING
    )
    assert engine_for(task, iterations=enough).name == "numba"
    assert engine_for(task, iterations=enough - 1001).name == "numpy"


def test_larger_tasks_pay_sooner():
    small, large = make_task("dgd"), make_task("dgd", "regular:2000:6:seed=0")
    assert seconds_by_numpy_engine(large, 100) > seconds_by_numpy_engine(small, 100)


def test_gradients_count_too():
    """A matrix for each party is most of what an iteration reads."""
    distances = make_task("dgd", "regular:100:6:seed=0", dim=50)
    matrices = make_task("dgd", "regular:100:6:seed=0", dim=50, cost="quadratics")
    assert seconds_by_numpy_engine(matrices, 1000) > 3 * seconds_by_numpy_engine(
        distances, 1000
    )


def test_numba_is_not_loaded_for_what_it_cannot_do_quicker():
    """Few parties and a method without a compiled run: both engines are one source."""
    assert engine_for(make_task("nids"), iterations=10**9).name == "numpy"
    assert engine_for(make_task("dgd in a ball")).name == "numpy"


@pytest.mark.parametrize(
    ("gpu", "followed", "name"),
    [(True, True, "jax"), (True, False, "numba"), (False, True, "numba")],
)
def test_a_gpu_is_taken_for_large_states_that_jax_can_follow(
    gpu, followed, name, monkeypatch
):
    """There is no GPU here: whether there is one is what is pretended."""
    pytest.importorskip("jax")
    pytest.importorskip("numba")
    monkeypatch.setattr(registry, "_engine_has_gpu", lambda: gpu)
    monkeypatch.setattr(registry, "GPU_NUMBERS", 10)

    def refused(task):
        raise InvalidInputError("the jax engine does not know this")

    if not followed:
        monkeypatch.setitem(registry.ENGINES, "jax", refused)
    assert engine_for(make_task("dgd")).name == name


def test_auto_is_numpy_elsewhere(nothing_installed):
    engine = engine_for(make_task("dgd"))
    assert engine.name == "numpy"
    assert available_engines() == ["numpy"]
    assert arrived(engine, 3).shape == (2, 34, 3)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("numba", "numba", "fast"), ("jax", "jax", "jax"), ("mpi", "mpi4py", "mpi")],
)
def test_a_missing_package_is_named_with_its_extra(
    name, package, extra, nothing_installed
):
    with refusals.refused(
        "missing-extra", MissingExtraError, mentions=(package,)
    ) as caught:
        engine_for(make_task("dgd"), name)
    assert f"'.[{extra}]'" in str(caught.value)


def test_an_unknown_name_is_refused_with_the_nearest():
    with refusals.refused("unknown-engine", mentions=("numba",)) as caught:
        engine_for(make_task("dgd"), "nunba")
    assert "auto, numpy, numba, jax, mpi" in str(caught.value)
