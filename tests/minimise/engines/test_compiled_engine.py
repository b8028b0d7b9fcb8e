"""The numba engine against the methods' own sources, and against closed forms."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from engine_tasks import (
    METHODS,
    all_weights,
    arrived,
    assert_same,
    make_task,
    one_way_task,
)
from strategies import connected_topologies, few, seeds
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import stack_remainders
from veilsum.minimise.engines import numba as compiled, numpy as plain
from veilsum.minimise.engines.engine import Engine, EngineTask
from veilsum.minimise.engines.numba import (
    CompiledProduct,
    FusedEngine,
    compiled_engine_run,
    engine_chunk,
    engine_order_of_near_parties,
    engine_slots_of_weights,
)
from veilsum.minimise.engines.numpy import PlainEngine
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.gradient_tracking import GradientTracking

pytest.importorskip("numba")

slow = pytest.mark.slow  # kernels of their own are compiled for these
COMPILED = {name for name in METHODS if "tracking" in name} | {
    "dgd",
    "dgd in sides that differ",
    "dgd at own point",
    "extra",
}


@pytest.fixture
def threaded(monkeypatch):
    """Two threads, however little there is to do."""
    monkeypatch.setattr(compiled, "engine_threads", lambda: 2)
    monkeypatch.setattr(compiled, "SMALL_WORK", 0)


@pytest.fixture
def far_apart(monkeypatch):
    """Small problems, carried out like those that leave every cache."""
    monkeypatch.setattr(compiled, "NEAR_PARTIES", 0)
    monkeypatch.setattr(compiled, "WORTH", 99.0)
    monkeypatch.setattr(compiled, "REORDER_PARTIES", 1)
    monkeypatch.setattr(compiled, "NEAR_BYTES", 0)
    monkeypatch.setattr(compiled, "DENSE_PARTIES", 0)
    monkeypatch.setattr(plain, "DENSE_PARTIES", 0)


def test_it_is_an_engine():
    engine = FusedEngine(make_task("dgd"))
    assert isinstance(engine, Engine)
    assert engine.name == "numba"


@each("method", METHODS)
def test_every_method_takes_the_steps_of_its_source(method):
    task = make_task(method)
    assert (compiled_engine_run(task) is not None) == (method in COMPILED)
    assert_same(FusedEngine(task), PlainEngine(task))


@pytest.mark.parametrize(
    "method",
    [
        "dgd",
        "extra",
        "nids",
        "tracking in a box, five rounds",
        pytest.param("dgd at own point", marks=slow),
        pytest.param("tracking", marks=slow),
    ],
)
@pytest.mark.parametrize("dim", [pytest.param(1, marks=slow), 9])
def test_threads_and_another_order_change_nothing(method, dim, threaded, far_apart):
    task = make_task(method, dim=dim)
    assert engine_order_of_near_parties(task.weights["symmetric"]).order is not None
    assert_same(FusedEngine(task), PlainEngine(task))


@pytest.mark.parametrize(
    "method",
    [
        "dgd",
        "tracking in a box",
        "tracking, two rounds",
        pytest.param("dgd at own point", marks=slow),
    ],
)
@pytest.mark.parametrize("family", ["karate", "complete:9"])  # sparse and dense weights
def test_agents_may_have_a_matrix_each(method, family):
    task = make_task(method, family, dim=6, cost="quadratics")
    assert compiled_engine_run(task) is not None
    assert_same(FusedEngine(task), PlainEngine(task))


def test_with_a_matrix_each_extra_is_carried_out_by_its_source():
    task = make_task("extra", dim=6, cost="quadratics")
    assert compiled_engine_run(task) is None
    assert_same(FusedEngine(task), PlainEngine(task))


@each("method", ["dgd", "extra", "tracking"])
def test_costs_may_be_slopes_alone(method):
    task = make_task(method, cost="slopes alone")
    assert_same(FusedEngine(task), PlainEngine(task))


@pytest.mark.parametrize(
    ("family", "mixing"),
    [
        ("ring:7", "metropolis"),
        ("star:9", "best-constant"),
        ("complete:2", "metropolis"),
        ("grid:4x5", "lazy-metropolis"),
        ("regular:120:6:seed=3", "metropolis"),
    ],
)
@pytest.mark.parametrize(
    "method", ["dgd", pytest.param("tracking in a box, five rounds", marks=slow)]
)
def test_graphs_of_every_shape(method, family, mixing):
    task = make_task(method, family, mixing=mixing)
    assert_same(FusedEngine(task), PlainEngine(task))


def test_links_may_be_one_way():
    task = one_way_task()
    assert_same(FusedEngine(task), PlainEngine(task), count=200)


@pytest.mark.parametrize(
    "method", ["dgd", "nids", pytest.param("tracking", marks=slow)]
)
@pytest.mark.parametrize("cost", ["distances", pytest.param("quadratics", marks=slow)])
def test_single_precision(method, cost):
    task = make_task(method, cost=cost, precision="float32")
    engine = FusedEngine(task)
    assert engine.advance(engine.begin(), 3).x.dtype == np.float32
    assert_same(engine, PlainEngine(make_task(method, cost=cost)), within=1e-5)
    assert_same(engine, PlainEngine(task), within=1e-5)


@few
@given(seeds, st.integers(0, 7), st.integers(0, 7))
def test_two_calls_go_as_far_as_one(seed, first, second):
    stream = np.random.default_rng(seed)
    task = make_task("dgd")
    start = stream.standard_normal(task.start.shape)
    engine = FusedEngine(EngineTask(**{**vars(task), "start": start}))
    halfway = engine.advance(engine.begin(), first)
    kept = halfway.x.copy()
    there = engine.advance(halfway, second)
    at_once = arrived(engine, first + second)
    np.testing.assert_array_equal(engine.points(there), at_once[0])
    np.testing.assert_array_equal(halfway.x, kept)


@each("method", ["dgd", "extra", "tracking in a box"])
def test_it_goes_on_from_any_state_as_from_the_one_it_was_left_in(method):
    task = make_task(method)
    engine = FusedEngine(task)
    early = engine.advance(engine.begin(), 3)
    late = engine.advance(early, 4)
    engine.advance(late, 2)
    for other in (engine, FusedEngine(task)):
        again = other.advance(early, 4)
        np.testing.assert_array_equal(other.points(again), engine.points(late))
        np.testing.assert_array_equal(other.aims(again), engine.aims(late))


def test_a_long_way_may_be_taken_in_pieces():
    engine = FusedEngine(make_task("tracking in a box, five rounds", dim=5))
    state = engine.begin()
    for count in (1, 2, 3, 44):
        state = engine.advance(state, count)
    assert state.iteration == 50
    np.testing.assert_array_equal(engine.points(state), arrived(engine, 50)[0])


def test_tracking_ends_at_the_closed_form(threaded, far_apart):
    """Of s_i'x + c |x|^2 the sum is least at -mean(s) / 2c, clipped to a box."""
    task = make_task("tracking", dim=9)
    method = Chebyshev(GradientTracking(Box(-0.05, 0.03, dim=9), 0.3), 0.9, 5)
    engine = FusedEngine(EngineTask(**{**vars(task), "method": method}))
    expected = np.clip(-task.cost.coefficients.mean(axis=0) / 1.4, -0.05, 0.03)
    assert {-0.05, 0.03} & set(expected.tolist())
    found = arrived(engine, 300)[0]
    np.testing.assert_allclose(found, np.tile(expected, (34, 1)), atol=1e-12)


def test_least_squares_end_at_the_normal_equations():
    """Remainders that are P_i x are run with their matrices."""
    task = make_task("tracking", "grid:3x4", dim=3, cost="quadratics")
    squares = np.array([_matrix(theta) for theta in task.cost.coefficients])
    engine = FusedEngine(task)
    linear = task.cost.coefficients[:, -4:-1]
    expected = np.linalg.solve(squares.sum(axis=0), -linear.sum(axis=0))
    found = arrived(engine, 900)[0]
    np.testing.assert_allclose(found, np.tile(expected, (12, 1)), atol=1e-10)


def _matrix(theta):
    """P of x'Px/2, entry by entry from the upper triangle."""
    a, b, c, d, e, f = theta[:6]
    return np.array([[a, b, c], [b, d, e], [c, e, f]])


def test_a_user_s_gradient_runs_by_its_source():
    costs = [
        Cost.from_gradient(lambda x, k=k: np.tanh(x) + 0.1 * k, dim=2) for k in range(5)
    ]
    task = EngineTask(
        method=Dgd(Box(-1.0, 1.0, dim=2)),
        weights=all_weights(Topology.family("ring:5")),
        cost=EffectiveCost(
            Affine(2),
            np.stack([cost.coefficients for cost in costs]),
            stack_remainders([cost.remainder for cost in costs]),
        ),
        start=np.zeros((5, 2)),
    )
    assert compiled_engine_run(task) is None
    assert_same(FusedEngine(task), PlainEngine(task), count=10)


def test_nan_is_not_clipped_away():
    """Whoever drives the engine sees that numbers got out of hand."""
    task = make_task("dgd", dim=2)
    task.cost.coefficients[4, 1] = np.nan
    found = arrived(FusedEngine(task), 3)[0]
    assert np.isnan(found[4, 1])
    assert np.isfinite(found[:, 0]).all()


def test_diverging_steps_give_infinite_numbers_and_no_error():
    task = make_task("tracking", dim=2)
    wild = EngineTask(
        **{**vars(task), "method": GradientTracking(WholeSpace(2), 1e200)}
    )
    engine = FusedEngine(wild)
    assert not np.isfinite(engine.points(engine.advance(engine.begin(), 50))).any()


@few
@given(connected_topologies(max_agents=12), seeds, st.integers(1, 20))
def test_the_product_is_scipy_s(topology, seed, columns):
    weights = all_weights(topology)["row"]
    rows = np.random.default_rng(seed).standard_normal((topology.n_parties, columns))
    np.testing.assert_allclose(
        CompiledProduct(weights) @ rows, weights @ rows, atol=1e-14
    )
    strided = np.repeat(rows, 2, axis=1)[:, ::2]
    np.testing.assert_allclose(
        CompiledProduct(weights) @ strided, weights @ rows, atol=1e-14
    )


@few
@given(
    connected_topologies(max_agents=12), st.sampled_from(["metropolis", "max-degree"])
)
def test_slots_hold_the_weights(topology, mixing):
    """Slot by slot they add up to the matrix again."""
    weights, n = all_weights(topology, mixing)["symmetric"], topology.n_parties
    found = engine_slots_of_weights(weights, "float64")
    chunk = len(found.slots)
    start = np.arange(n + 1) if found.start is None else found.start
    matrix = np.zeros((n, n + 1))
    for party in range(n):
        for slot in range(int(start[party]) * chunk, int(start[party + 1]) * chunk):
            factor = found.common if found.weight is None else found.weight[slot]
            matrix[party, found.heard[slot]] += factor
    matrix[np.arange(n), np.arange(n)] += found.own
    np.testing.assert_array_equal(matrix[:, :n], weights.toarray())


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_chunks_leave_few_slots_empty(degrees):
    counts = np.array(degrees)
    chunk = engine_chunk(counts)
    slots = (-(-counts // chunk)).sum() * chunk
    assert slots - counts.sum() <= counts.sum() + 2 * len(counts)


def test_a_near_order_brings_neighbours_near(monkeypatch):
    """A path whose parties were shuffled is a path again."""
    monkeypatch.setattr(compiled, "REORDER_PARTIES", 1)
    shuffled = np.random.default_rng(0).permutation(50)
    path = all_weights(Topology.family("path:50"))["symmetric"][shuffled][:, shuffled]
    assert (
        engine_order_of_near_parties(path).order is None
    )  # all of them are near enough
    monkeypatch.setattr(compiled, "NEAR_PARTIES", 0)
    found = engine_order_of_near_parties(path)
    order = found.order
    assert found.own > 10 * found.found == 10
    said = "reverse Cuthill and McKee's order: neighbours are 1 apart, in their own {}"
    assert found.words == said.format(f"{found.own:,.0f}")
    kept = found._replace(order=None, own=3.0, found=4.0).words
    assert kept.endswith("neighbours are 3 apart, in Cuthill and McKee's 4")
    again = compiled.reorder_engine_weights(path, order).tocoo()
    assert sorted(order) == list(range(50))
    assert np.abs(again.row - again.col).max() == 1


@pytest.mark.parametrize(
    "method", ["dgd", "dgd at own point", "extra", "tracking", "tracking in a box"]
)
def test_threads_that_share_parties_change_no_bit(method, threaded, monkeypatch):
    task = make_task(method, "cycles:60:6", dim=4)
    engine = FusedEngine(task)
    wanted = engine.advance(engine.begin(), 7)
    monkeypatch.setattr(compiled, "FAR_BYTES", 0)
    shared = FusedEngine(task)
    found = shared.advance(shared.advance(shared.begin(), 3), 4)
    assert shared._run._by_parties
    np.testing.assert_array_equal(shared.points(found), engine.points(wanted))


def test_panels_cover_all_columns_once():
    for columns in range(1, 40):
        cut = compiled.cut_columns_in_panels(columns)
        covered = [c for part, _ in cut for c in range(part.start, part.stop)]
        assert covered == list(range(columns))
        assert all(part.stop - part.start <= width for part, width in cut)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_room_begins_where_a_line_of_memory_does(precision):
    found = compiled.line_of_zeros(13, precision)
    assert found.dtype == precision
    assert found.ctypes.data % compiled.LINE_BYTES == 0
    np.testing.assert_array_equal(found, np.zeros(13))


def test_an_error_in_a_thread_is_raised(threaded):
    def fail(item):
        raise ZeroDivisionError(item)

    with pytest.raises(ZeroDivisionError):
        compiled.each_by_engine_threads(fail, [1, 2], small=False)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 5))
def test_pieces_of_a_row_are_done_once_and_in_order(weights, pieces):
    done = []
    shift = compiled.EngineShift(lambda row, k: done.append((row, k)), weights, pieces)
    compiled.each_by_engine_threads(shift.work, range(2), small=False)
    for row in range(len(weights)):
        assert [k for r, k in done if r == row] == list(range(pieces))
    assert len(done) == pieces * len(weights)


def test_the_row_with_most_to_do_comes_first():
    done = []
    shift = compiled.EngineShift(lambda row, k: done.append(row), [4, 2, 4], 2)
    shift.work(0)
    assert done == [0, 2, 0, 1, 2, 1]


def test_threads_are_not_started_for_little_work(monkeypatch):
    monkeypatch.setattr(compiled, "ThreadPoolExecutor", None)
    done = []
    compiled.each_by_engine_threads(done.append, [1, 2], small=True)
    assert done == [1, 2]


def test_importing_engines_imports_no_package_that_few_have():
    """Kernels and traces are imported when they are first run."""
    said = (
        "import sys, veilsum.minimise.engines.registry;"
        "print({'numba', 'llvmlite', 'jax'} & set(sys.modules))"
    )
    run = [sys.executable, "-c", said]
    found = subprocess.run(run, check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "set()"


@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize("small", [True, False])
def test_every_row_of_a_product_is_filled_on_any_number_of_cores(
    cores, small, monkeypatch
):
    weights = all_weights(Topology.family("ring:9"))["row"]
    rows = np.random.default_rng(cores).standard_normal((9, 4))
    unfilled = np.full_like(rows, np.nan)
    monkeypatch.setattr(compiled, "engine_threads", lambda: cores)
    monkeypatch.setattr(compiled, "SMALL_WORK", 10**9 if small else 0)
    monkeypatch.setattr(compiled.np, "empty_like", lambda _: unfilled.copy())
    np.testing.assert_allclose(
        CompiledProduct(weights) @ rows, weights @ rows, atol=1e-14
    )
