import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veils import veil
from veilsum.core.costs import Cost
from veilsum.core.domains import Box
from veilsum.core.methods.dgd import Dgd
from veilsum.core.mixing import mixing_weights
from veilsum.core.topology import Topology
from veilsum.sim import engine
from veilsum.sim.engine import iterate, record_times


@given(st.integers(1, 10**7), st.integers(1, 10**9))
def test_the_trace_begins_at_zero_ends_at_the_last_and_rises(iterations, size):
    times = record_times(iterations, size)
    assert times[0] == 0
    assert times[-1] == iterations
    assert (np.diff(times) > 0).all()
    assert len(times) * size <= engine.TRACE_BYTES + 3 * size


def test_a_short_run_is_recorded_whole():
    assert record_times(1, 8).tolist() == [0, 1]
    assert record_times(12, 8).tolist() == list(range(13))


def problem(n, dim=3, *, local=False):
    stream = np.random.default_rng(8)
    topology = Topology.family(f"regular:{n}:4:seed=1")
    targets = stream.standard_normal((n, dim))
    costs = [
        Cost.from_gradient(lambda x, t=t: 2 * (x - t), dim=dim)
        if local
        else Cost.squared_distance(t)
        for t in targets
    ]
    effective = veil(costs, stream.standard_normal((n, dim)))
    weights = mixing_weights(topology, "metropolis")
    return weights, effective, stream.standard_normal((n, dim))


@pytest.mark.parametrize("local", [False, True])
def test_blocks_give_what_one_dense_product_gives(monkeypatch, local):
    weights, effective, start = problem(120, local=local)
    method = Dgd(Box(-1.5, 1.5, dim=3))
    times = np.array([0, 1, 7, 25])
    monkeypatch.setattr(engine, "DENSE_AGENTS", 1000)
    dense = iterate(method, weights, effective, start, times=times)
    monkeypatch.setattr(engine, "DENSE_AGENTS", 10)
    monkeypatch.setattr(engine, "BLOCK_BYTES", 7 * 3 * 8)  # 18 blocks, the last short
    blocks = iterate(method, weights, effective, start, times=times)
    np.testing.assert_allclose(blocks, dense, rtol=0, atol=1e-13)
    monkeypatch.setattr(engine, "BLOCK_BYTES", 10**9)
    one = iterate(method, weights, effective, start, times=times)
    np.testing.assert_array_equal(one, blocks)


def test_the_run_is_recorded_at_the_times_asked_for():
    weights, effective, start = problem(12)
    method = Dgd(Box(-9.0, 9.0, dim=3))
    every = iterate(method, weights, effective, start, times=np.arange(11))
    some = iterate(method, weights, effective, start, times=np.array([0, 3, 10]))
    np.testing.assert_array_equal(every[[0, 3, 10]], some)
    np.testing.assert_array_equal(every[0], start)


def test_progress_is_told_in_rising_order_to_the_end():
    weights, effective, start = problem(12)
    told = []
    times = np.array([0, 1000])
    method = Dgd(Box(-9.0, 9.0, dim=3))
    iterate(method, weights, effective, start, times=times, progress=told.append)
    assert told == sorted(set(told))
    assert told[-1] == 1000
    assert len(told) <= 250
