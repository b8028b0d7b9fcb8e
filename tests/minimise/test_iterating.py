"""Runs to the end: what is kept, when all stop, and what is said when it goes wrong."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from veils import veil
from veilsum.errors import BadGradientError, DivergedError
from veilsum.graphs.topology import Topology
from veilsum.minimise import arrays
from veilsum.minimise.arrays import MinimiseJourney, iterations_with_kept_estimates
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.costs.rows import glm_cost
from veilsum.minimise.engines.engine import EngineTask
from veilsum.minimise.engines.numpy import PlainEngine
from veilsum.minimise.methods.schedule import ScheduleFacts, schedule_of_method
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.methods.stopping import (
    LOOK_EVERY,
    StoppingRule,
    rounds_to_reach_everybody,
)
from veilsum.minimise.solve import solve
from veilsum.models.families import Poisson
from veilsum.models.rows import Rows


@given(st.integers(1, 10**7), st.integers(1, 10**9))
def test_the_trace_begins_at_zero_ends_at_the_last_and_rises(iterations, size):
    times = iterations_with_kept_estimates(iterations, size)
    assert times[0] == 0
    assert times[-1] == iterations
    assert (np.diff(times) > 0).all()
    assert len(times) * size <= arrays.TRACE_BYTES + 3 * size


def test_a_short_run_is_recorded_whole():
    assert iterations_with_kept_estimates(1, 8).tolist() == [0, 1]
    assert iterations_with_kept_estimates(12, 8).tolist() == list(range(13))


def test_a_stride_is_kept_to():
    assert iterations_with_kept_estimates(25, 8, 10).tolist() == [0, 10, 20, 25]
    assert iterations_with_kept_estimates(5, 8, 10).tolist() == [0, 5]


GRAPH = Topology.family("regular:12:4:seed=1")
TARGETS = np.random.default_rng(8).standard_normal((12, 3))


def journey(settings, *, domain=None, times=None, costs=None, progress=None):
    """A run of squared distances under masks that add up to zero."""
    where = domain or WholeSpace(3)
    masks = np.random.default_rng(9).standard_normal((12, 3))
    costs = costs or [Cost.squared_distance(t) for t in TARGETS]
    cost = veil(costs, masks - masks.mean(axis=0))
    facts = ScheduleFacts(domain=where, basis=Affine(3), curvature=2.0, sigma=1.0)
    plan = schedule_of_method(settings, facts, GRAPH)
    task = EngineTask(
        method=plan.method, weights=plan.weights, cost=cost, start=np.zeros((12, 3))
    )
    if times is None:
        times = iterations_with_kept_estimates(plan.iterations, 8 * 36)
    return MinimiseJourney(
        PlainEngine(task), plan, cost, GRAPH.parties, times, progress
    )


def dgd(iterations=1000):
    return Settings(method="dgd", iterations=iterations)


BOX = Box(-9.0, 9.0, dim=3)


def test_the_run_is_recorded_at_the_times_asked_for():
    every = journey(dgd(10), domain=BOX, times=np.arange(11)).run()
    some = journey(dgd(10), domain=BOX, times=np.array([0, 3, 10])).run()
    np.testing.assert_array_equal(every.estimates[[0, 3, 10]], some.estimates)
    assert some.times.tolist() == [0, 3, 10]
    assert some.stopped == "iterations"
    assert not every.estimates[0].any()


def test_numbers_are_looked_at_where_estimates_are_kept(monkeypatch):
    """Twenty looks and twenty times ten iterations later: one stop for both."""
    ends, advance = [], PlainEngine.advance

    def noted(engine, state, count):
        ends.append(state.iteration + count)
        return advance(engine, state, count)

    monkeypatch.setattr(PlainEngine, "advance", noted)
    times = [0, *range(60, 1000, 50), 1000]
    journey(dgd(), domain=BOX, times=np.array(times)).run()
    assert ends == [1, *times[1:]]
    ends.clear()
    journey(dgd(), domain=BOX, times=np.array([0, 1000])).run()
    assert ends == [1, *range(50, 1001, 50)]


def test_progress_is_told_in_rising_order_to_the_end():
    told = []
    journey(dgd(), domain=BOX, times=np.array([0, 1000]), progress=told.append).run()
    assert told == sorted(set(told))
    assert told[-1] == 1000
    assert len(told) <= 250


# Stopping


@each("method", ["extra", "nids", "gradient-tracking", "push-pull"])
@each("tolerance", [1e-3, 1e-9])
def test_it_stops_once_everybody_is_within_the_tolerance(method, tolerance):
    found = journey(Settings(method=method, tolerance=tolerance)).run()
    assert found.stopped == "tolerance"
    assert found.iterations < 1000
    errors = np.linalg.norm(found.estimates[-1] - TARGETS.mean(axis=0), axis=1)
    assert errors.max() <= tolerance


def test_it_stops_where_a_look_has_reached_everybody_and_not_before():
    """By hand: iterate one by one, look every tenth, wait as long as word travels."""
    run = journey(Settings(method="nids", tolerance=1e-6))
    rule = run.schedule.stopping
    assert (rule.every, rule.lag) == (LOOK_EVERY, rounds_to_reach_everybody(GRAPH))
    engine, states = run.engine, [run.engine.begin()]
    for _ in range(300):
        states.append(engine.advance(states[-1], 1))
    moves = [
        max(
            np.linalg.norm(engine.points(b) - engine.points(a), axis=1).max(),
            np.linalg.norm(engine.aims(b) - engine.aims(a), axis=1).max(),
        )
        for a, b in pairwise(states)
    ]
    small = [k for k in range(10, 300, 10) if rule.patience * moves[k - 1] <= 1e-6]
    assert run.run().iterations == small[0] + rule.lag


def test_the_last_iteration_comes_first_if_nobody_is_near():
    found = journey(Settings(method="nids", tolerance=1e-12, iterations=7)).run()
    assert (found.iterations, found.stopped) == (7, "iterations")


def test_a_budget_of_bytes_ends_it_too():
    each = 2 * GRAPH.n_edges * 3 * 8
    shares = each
    settings = Settings(method="nids", byte_budget=shares + 25 * each + 1)
    found = journey(settings).run()
    assert (found.iterations, found.stopped) == (25, "bytes")


def test_dgd_is_never_stopped_by_its_shrinking_steps():
    settings = replace(dgd(500), tolerance=1.0)
    assert journey(settings, domain=BOX).schedule.stopping is None


@each(("family", "expected"), [("complete:5", 1), ("ring:9", 4), ("path:6", 5)])
def test_the_width_of_a_graph(family, expected):
    assert rounds_to_reach_everybody(Topology.family(family)) == expected


def test_the_width_is_bounded_where_it_is_not_computed():
    assert 250 <= rounds_to_reach_everybody(Topology.family("ring:500")) <= 500


def test_a_rule_decides_a_lag_after_each_look():
    rule = StoppingRule(tolerance=1.0, patience=1.0, every=10, lag=4)
    looks = [k for k in range(35) if rule.looks_at(k)]
    decisions = [k for k in range(35) if rule.decides_at(k)]
    assert (looks, decisions) == ([10, 20, 30], [14, 24, 34])


# What goes wrong


def bent(curvature):
    """A cost that bends by so much."""
    return Cost.affine(np.ones(3), remainder=SquaredNorm(curvature / 2.0))


def test_a_step_too_long_is_found_out_and_the_broken_bound_named():
    costs = [bent(2.0)] * 11 + [bent(80.0)]
    settings = Settings(method="nids", smooth=2.0, mean_convex=1.0, iterations=5000)
    with refused("diverged", DivergedError, mentions=("11", "80")) as caught:
        journey(settings, costs=costs).run()
    error = caught.value
    assert "larger smooth" in str(error)
    assert 0 < error.iteration < 5000
    assert np.isfinite(error.estimates).all()
    assert error.estimates.shape == (12, 3)


def test_a_broken_bound_on_the_average_is_named_too():
    costs = [bent(8.0)] * 12
    settings = Settings(
        method="gradient-tracking", smooth=8.0, mean_smooth=2.0, mean_convex=2.0
    )
    with refused("diverged", DivergedError, mentions=("mean_smooth", "2")):
        journey(settings, costs=costs).run()


def test_where_no_bound_is_known_a_smaller_step_is_advised():
    run = journey(Settings(method="nids", step=5.0, smooth=2.0, iterations=9999))
    assert run.schedule.bounds is None
    with refused("diverged", DivergedError):
        run.run()


def test_a_gradient_that_is_no_number_is_named_with_its_owner_and_iteration():
    """The seventh one's gradient has no value beyond x[0] = 0.1."""

    def fails(x):
        return 2.0 * x - 1.0 if x[0] < 0.1 else np.full(3, np.nan)

    costs = [Cost.from_gradient(lambda x: 2.0 * x - 1.0, dim=3) for _ in range(12)]
    costs[7] = Cost.from_gradient(fails, dim=3)
    settings = Settings(method="nids", smooth=2.0, mean_convex=2.0, step=0.01)
    with refused("gradient-not-finite", BadGradientError, mentions=("7",)) as caught:
        journey(settings, costs=costs).run()
    error = caught.value
    good = journey(settings, costs=costs).engine
    state = good.advance(good.begin(), error.iteration - 1)
    np.testing.assert_array_equal(error.estimates, good.points(state))
    with pytest.raises(BadGradientError):
        good.advance(state, 1)


def test_the_agent_and_the_iteration_are_those_at_which_it_began():
    """One step after the other until somebody is beyond all bounds."""
    settings = Settings(method="nids", step=5.0, smooth=2.0, iterations=9999)
    with pytest.raises(DivergedError) as caught:
        journey(settings).run()
    engine = journey(settings).engine
    state = engine.begin()
    while np.abs(engine.aims(state)).max() < arrays.LOST:
        good, state = state, engine.advance(state, 1)
    assert caught.value.iteration == state.iteration
    np.testing.assert_array_equal(caught.value.estimates, engine.points(good))
    strayed = (np.abs(engine.aims(state)) >= arrays.LOST).any(axis=1)
    assert caught.value.party == GRAPH.parties[int(np.argmax(strayed))]


# What went wrong, on six parties' least squares


def uneven(n):
    """Least squares of n parties, and their exact bounds."""
    stream = np.random.default_rng(3)
    rows, right = stream.standard_normal((n, 6, 3)), stream.standard_normal((n, 6))
    costs = [
        Cost.from_gradient(lambda x, a=a, y=y: a.T @ (a @ x - y) / 6, dim=3)
        for a, y in zip(rows, right, strict=True)
    ]
    curved = np.einsum("nri,nrj->nij", rows, rows) / 6
    mean = np.linalg.eigvalsh(curved.mean(axis=0))
    bounds = Settings(
        smooth=float(np.linalg.eigvalsh(curved).max()),
        mean_smooth=float(mean[-1]),
        mean_convex=float(mean[0]),
    )
    return costs, bounds


def solved(costs, settings, **more):
    ring = Topology.family(f"ring:{len(costs)}")
    how = {"domain": WholeSpace(costs[0].dim), "sigma": 1e3, "law": "lattice"}
    return solve(
        costs, topology=ring, corrupted=(), settings=settings, seed=1, **{**how, **more}
    )


FIXED_STEPS = ["extra", "nids", "gradient-tracking", "accelerated", "push-pull"]


@each("method", [*FIXED_STEPS, "running-sums"])
def test_a_bound_is_named_though_it_goes_wrong_within_a_few_iterations(method):
    settings = Settings(method=method, smooth=0.05, mean_smooth=0.04, mean_convex=0.01)
    with refused("diverged", DivergedError, mentions=("0.05",)) as caught:
        solved(uneven(6)[0], settings)
    assert caught.value.iteration < 30


def test_exact_bounds_are_not_blamed_for_a_step_that_is_too_long():
    costs, bounds = uneven(12)
    settings = replace(bounds, method="gradient-tracking", step=1.1, rounds=1)
    with refused("diverged", DivergedError):
        solved(costs, settings)


def counts(seed):
    stream = np.random.default_rng(seed)
    rows = Rows(stream.standard_normal((20, 3)), stream.poisson(3.0, 20).astype(float))
    return glm_cost(Poisson(), rows)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("method", ["nids", "gradient-tracking"])
def test_numbers_that_are_thrown_to_and_fro_are_no_result(method):
    """A Poisson gradient bends without bound: too small a one is seen in the end."""
    costs = [counts(seed) for seed in range(6)]
    settings = Settings(method=method, mean_convex=0.05, smooth=1.0, iterations=400)
    with refused("diverged", DivergedError, mentions=("1",)):
        solved(costs, settings)
    enough = replace(settings, smooth=100.0, tolerance=1e-6, iterations=4000)
    assert solved(costs, enough).max_error < 1e-6


def test_an_end_before_everybody_has_arrived_is_a_result():
    costs, bounds = uneven(6)
    run = solved(costs, replace(bounds, method="nids", iterations=5))
    assert (run.iterations, run.stopped) == (5, "iterations")


# Budgets


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("method", [*FIXED_STEPS, "running-sums"])
@pytest.mark.parametrize("tolerance", [None, 1e-12])
def test_a_budget_of_bytes_is_kept_to(method, tolerance):
    costs, bounds = uneven(6)
    budget = 10_001
    asked = replace(bounds, method=method, byte_budget=budget, tolerance=tolerance)
    run = solved(costs, asked, sigma=1e6)
    assert run.bytes <= budget
    if run.stopped == "bytes":
        longer = replace(asked, byte_budget=None, iterations=run.iterations + 1)
        assert solved(costs, longer, sigma=1e6).bytes > budget


# Precision


@each("method", FIXED_STEPS)
def test_a_tolerance_beyond_the_precision_is_refused(method):
    costs, bounds = uneven(6)
    single = replace(bounds, method=method, precision="float32")
    with refused("tolerance-too-small"):
        solved(costs, replace(single, tolerance=1e-9))
    assert solved(costs, replace(single, tolerance=1e-3)).max_error < 1e-3


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
def test_running_sums_do_not_stop_too_soon_where_mixing_is_slow():
    costs, bounds = uneven(50)
    asked = replace(bounds, method="running-sums", tolerance=1e-6, iterations=60_000)
    run = solved(costs, asked, sigma=1.0)
    assert run.stopped == "tolerance"
    assert run.max_error < 1e-6
