"""The numpy engine against the iterator of methods, and in single precision."""

from itertools import islice

import numpy as np
import pytest

from cases import each
from engine_tasks import METHODS, arrived, make_task
from method_states import iterations_of_method
from veilsum.minimise.engines import numpy as plain
from veilsum.minimise.engines.engine import Engine
from veilsum.minimise.engines.numpy import PlainEngine


def test_it_is_an_engine():
    engine = PlainEngine(make_task("dgd"))
    assert isinstance(engine, Engine)
    assert engine.name == "numpy"


@pytest.mark.parametrize("dense", [0, 100])
@pytest.mark.parametrize("method", METHODS)
def test_it_is_the_iterator_of_methods(method, dense, monkeypatch):
    monkeypatch.setattr(plain, "DENSE_PARTIES", dense)
    task = make_task(method)
    states = iterations_of_method(task.method, task.weights, task.cost, task.start)
    expected = next(islice(states, 12, None))
    found = arrived(PlainEngine(task), 12)
    np.testing.assert_allclose(found[0], expected.x, atol=1e-12)
    np.testing.assert_allclose(found[1], task.method.aim(expected), atol=1e-12)


@each("method", METHODS)
def test_states_keep_the_precision_asked_for(method):
    """Bounds of domains are in float64, and must not lift parties' numbers to it."""
    engine = PlainEngine(make_task(method, precision="float32"))
    state = engine.advance(engine.begin(), 5)
    inner = getattr(state, "inner", state)
    parts = [getattr(s, name) for s in (state, inner) for name in s.__slots__]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    assert {array.dtype.name for array in arrays} == {"float32"}
    assert engine.points(state).dtype == np.float64
    double = arrived(PlainEngine(make_task(method)), 5)[0]
    np.testing.assert_allclose(engine.points(state), double, atol=1e-5)


@each(
    ("family", "dim", "dense"),
    [
        ("ring:10", 3, True),
        ("complete:60", 50, True),
        ("regular:100:6:seed=1", 50, False),
        ("complete:101", 1, False),
    ],
)
def test_weights_are_dense_where_few_of_them_are_zero_or_there_are_few(
    family, dim, dense
):
    (symmetric, *_) = PlainEngine(make_task("dgd", family, dim=dim))._weights.values()
    assert isinstance(symmetric, np.ndarray) == dense
