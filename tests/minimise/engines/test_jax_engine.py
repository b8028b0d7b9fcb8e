"""The jax engine against the methods' own sources. JAX traces: shapes are unchecked."""

from functools import partial

import numpy as np
import pytest

from cases import each
from engine_tasks import METHODS, arrived, assert_same, make_task, one_way_task
from later import optional
from refusals import refused
from veilsum.minimise.engines.engine import Engine
from veilsum.minimise.engines.jax import JaxEngine, jax_mixing_table
from veilsum.minimise.engines.numpy import PlainEngine

jax = optional("jax")
pytestmark = pytest.mark.usefixtures("unchecked_shapes")

UNKNOWN = {"running sums": "RunningSums", "dgd in a simplex": "Simplex"}


def test_it_is_an_engine():
    engine = JaxEngine(make_task("dgd"))
    assert isinstance(engine, Engine)
    assert engine.name == "jax"


@each("method", [name for name in METHODS if name not in UNKNOWN])
def test_every_method_takes_the_steps_of_its_source(method):
    task = make_task(method)
    assert_same(JaxEngine(task), PlainEngine(task))


@pytest.mark.parametrize("method", ["dgd at own point", "tracking"])
def test_agents_may_have_a_matrix_each(method):
    task = make_task(method, dim=4, cost="quadratics")
    assert_same(JaxEngine(task), PlainEngine(task))


@each(
    ("family", "road"),
    [("ring:5", "dense"), ("regular:120:6:seed=3", "heard"), ("star:150", "row")],
)
def test_products_by_every_road(family, road):
    task = make_task("tracking", family)
    assert road in jax_mixing_table(task.weights["symmetric"])
    assert_same(JaxEngine(task), PlainEngine(task))


@pytest.mark.parametrize(
    ("method", "precision", "wide"),
    [
        ("dgd in sides that differ", "float64", 12),
        ("dgd in a ball", "float64", 12),
        ("tracking in a box, five rounds", "float64", 12),
        ("dgd", "float32", 16),
    ],
)
def test_rows_on_a_gpu_fill_whole_pieces_and_nothing_else_changes(
    method, precision, wide, monkeypatch
):
    make = partial(make_task, method, "regular:120:6:seed=3", dim=10)
    plain, task = make(precision=precision), make(precision=precision)
    narrow = JaxEngine(plain)
    expected = arrived(narrow, 5)
    monkeypatch.setattr("veilsum.minimise.engines.jax.jax_is_on_gpu", lambda: True)
    engine = JaxEngine(task)
    assert engine._widths == (10, wide)
    assert narrow._widths == (10, 10)
    for found, wanted in zip(arrived(engine, 5), expected, strict=True):
        few_roundings = 32 * np.finfo(precision).eps
        np.testing.assert_allclose(found, wanted, rtol=0, atol=few_roundings)


def test_a_matrix_each_fills_whole_pieces(monkeypatch):
    monkeypatch.setattr("veilsum.minimise.engines.jax.jax_is_on_gpu", lambda: True)
    task = make_task("tracking", "regular:120:6:seed=3", dim=5, cost="quadratics")
    engine = JaxEngine(task)
    assert engine._widths == (5, 8)
    assert_same(engine, PlainEngine(task))


def test_links_may_be_one_way():
    task = one_way_task()
    assert_same(JaxEngine(task), PlainEngine(task), count=200)


@pytest.mark.parametrize("method", ["dgd", "tracking in a box, five rounds"])
def test_single_precision(method):
    task = make_task(method, "regular:120:6:seed=3", precision="float32")
    engine = JaxEngine(task)
    assert engine.advance(engine.begin(), 3).x.dtype == np.float32
    double = make_task(method, "regular:120:6:seed=3")
    assert_same(engine, PlainEngine(double), within=1e-5)


def test_two_calls_go_as_far_as_one():
    engine = JaxEngine(make_task("tracking, two rounds"))
    state = engine.advance(engine.advance(engine.begin(), 7), 13)
    assert state.iteration == 20
    np.testing.assert_array_equal(engine.points(state), arrived(engine, 20)[0])


def test_the_global_switch_for_64_bits_is_left_alone():
    assert not jax.config.jax_enable_x64
    arrived(JaxEngine(make_task("dgd")), 2)
    assert not jax.config.jax_enable_x64
    assert jax.numpy.ones(1).dtype == np.float32


@pytest.mark.parametrize(("method", "named"), UNKNOWN.items())
def test_what_it_cannot_follow_is_refused_by_name(method, named):
    with refused("jax-unsupported", mentions=(named,)):
        JaxEngine(make_task(method))


def test_other_costs_are_refused():
    task = make_task("dgd")
    strange = type("Strange", (), {"kind": "local", "gradient": None})()
    cost = type(task.cost)(task.cost.basis, task.cost.coefficients, strange)
    with refused("jax-unsupported"):
        JaxEngine(type(task)(**{**vars(task), "cost": cost}))
