"""benchmarks/engines.py: the right things are timed, and nobody who computes others."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csgraph

import engines
from cases import each
from clocks import Lap, Laps, in_turn, side_by_side, suitable_count
from engines import floors, looped
from veilsum.errors import NumericalError
from veilsum.minimise.engines.numpy import PlainEngine
from workloads import (
    FULL,
    LOOPS,
    QUICK,
    Case,
    LeastSquares,
    Wanted,
    six_neighbours,
    step_sizes,
    workload,
)

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SMALL = (
    Case(method="dgd", agents=9, dim=3, wanted=Wanted(numpy=1e-9)),
    Case(method="gradient-tracking", agents=9, dim=3, costs="least squares"),
)


@pytest.fixture
def small(monkeypatch):
    """Sizes that mean nothing, for tests that look at words only."""
    monkeypatch.setattr(engines, "QUICK", SMALL)
    monkeypatch.setattr(engines, "QUICK_SECONDS", 1e-3)


@pytest.fixture
def document(small, capsys):
    def measured(*words):
        engines.main([*words, "--json"])
        return json.loads(capsys.readouterr().out)

    return measured


def keys_described(keys):
    page = (ROOT / "docs" / "develop" / "peers.md").read_text("utf-8")
    section = page.partition("\n## JSON\n")[2]
    return [key for key in keys if f"`{key}`" not in section]


# --- what is run -----------------------------------------------------------------


def agent_by_agent(form, weights, slope_of, start, steps):
    """The formulas once more, one agent and one neighbour at a time."""
    n = len(start)

    def mixed(rows):
        return [sum(weights[i, j] * rows[j] for j in range(n)) for i in range(n)]

    def slopes(rows):
        return [slope_of(i, rows[i]) for i in range(n)]

    x, y = list(start), slopes(start)
    for step in steps:
        old, around = x, mixed(x)
        if form == "mixed":
            x = [v - step * g for v, g in zip(around, slopes(around), strict=True)]
        elif form == "own":
            x = [v - step * g for v, g in zip(around, slopes(x), strict=True)]
        else:
            moved = [a - step * b for a, b in zip(x, y, strict=True)]
            apart = [v - step * b for v, b in zip(around, y, strict=True)]
            x = mixed(moved) if form == "atc" else apart
            pairs = zip(slopes(x), slopes(old), strict=True)
            change = [new - before for new, before in pairs]
            if form == "atc":
                y = mixed([b + c for b, c in zip(y, change, strict=True)])
            else:
                y = [b + c for b, c in zip(mixed(y), change, strict=True)]
    return np.array(x)


@each("form", LOOPS)
def test_loops_are_the_formulas(form):
    given = LeastSquares.of(agents=8, dim=3)
    steps, start = step_sizes(form, 6), np.zeros((8, 3))
    found = LOOPS[form](given.weights, given.slope, start, steps)
    expected = agent_by_agent(
        form,
        given.weights.toarray(),
        lambda i, x: given.designs[i].T @ (given.designs[i] @ x - given.responses[i]),
        start,
        steps,
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


@each("form", LOOPS)
def test_forms_differ(form):
    """Otherwise a check against the plain loop would not tell them apart."""
    given = LeastSquares.of(agents=8, dim=3)
    ends = {
        name: loop(given.weights, given.slope, np.zeros((8, 3)), step_sizes(form, 6))
        for name, loop in LOOPS.items()
    }
    others = [end for name, end in ends.items() if name != form]
    assert min(np.abs(ends[form] - end).max() for end in others) > 1e-3


def test_least_squares_has_the_answer_of_its_gradients():
    given = LeastSquares.of(agents=20, dim=5)
    answer = np.tile(given.answer(), (20, 1))
    assert np.abs(given.slope(answer).sum(axis=0)).max() < 1e-12
    x = np.random.default_rng(1).standard_normal((20, 5))
    np.testing.assert_allclose(given.cost.gradient(x), given.slope(x), atol=1e-12)


def test_steps_are_short_enough_for_the_rows():
    curvatures = np.linalg.eigvalsh(LeastSquares.of(agents=100, dim=50).grams)
    assert 6.0 < curvatures.max() <= 8.0


@each("agents", [8, 9, 10, 1_000])
def test_six_neighbours_are_six(agents):
    weights = six_neighbours(agents)
    assert (weights != weights.T).nnz == 0
    assert (np.diff(weights.indptr) == 7).all()
    np.testing.assert_allclose(weights.data, 1 / 7, rtol=1e-15)
    np.testing.assert_allclose(weights.diagonal(), 1 / 7, rtol=1e-15)
    assert csgraph.connected_components(weights)[0] == 1


@each("case", QUICK, ids=lambda case: case.words)
def test_engine_and_loops_do_the_same(case):
    work = workload(case)
    engine = PlainEngine(work.task)
    found = engine.points(engine.advance(engine.begin(), 7))
    for weights in (work.weights, work.weights.toarray()):
        np.testing.assert_allclose(looped(work, weights, 7), found, atol=1e-12)


def test_the_dense_loop_is_for_few_agents():
    assert "numpy" in floors(workload(Case(method="dgd", agents=100, dim=2)))
    assert "numpy" not in floors(workload(Case(method="dgd", agents=101, dim=2)))


def test_conditions_are_where_they_were_promised():
    wanted = {
        (case.method, case.agents, case.dim): str(case.wanted)
        for case in FULL
        if case.costs == "distances"
    }
    assert wanted["dgd", 8, 10] == "5x numpy"
    assert wanted["dgd", 10_000, 100] == "1.5 passes, 2.5x scipy"
    assert wanted["dgd", 100_000, 10] == "4 passes"
    assert wanted["gradient-tracking", 10_000, 100] == "2.5 passes"
    assert wanted["gradient-tracking", 100_000, 10] == "5 passes"


@each(
    ("wanted", "met"),
    [
        (Wanted(), None),
        (Wanted(passes=2.0), True),
        (Wanted(passes=1.9), False),
        (Wanted(passes=2.0, scipy=3.0), True),
        (Wanted(passes=2.0, scipy=3.1), False),
        (Wanted(numpy=4.1), False),
        (Wanted(numpy=4.0), True),
    ],
    ids=str,
)
def test_conditions_are_checked(wanted, met):
    assert wanted.met(passes=2.0, scipy=3.0, numpy=4.0) is met


def test_a_loop_that_was_not_run_meets_nothing():
    assert Wanted(numpy=1.0).met(passes=1.0, scipy=1.0, numpy=None) is False


# --- clocks ----------------------------------------------------------------------


def test_contestants_take_turns():
    order = []

    def run(name):
        order.append(name)
        return Lap(len(order), 1.0)

    runs = {name: lambda name=name: run(name) for name in "ab"}
    found = in_turn(runs, repeats=3)
    assert order == list("ababab")
    assert [lap.wall for lap in found["b"].laps] == [2, 4, 6]
    assert found["a"].wall == 3


def test_two_sides_are_warm_before_they_take_turns():
    order = []
    sides = [lambda name=name: order.append(name) for name in "ab"]
    found = side_by_side(*sides, repeats=2)
    assert order == list("ababab")
    assert list(found) == ["ours_s", "floor_s", "ratio"]


def test_a_ratio_is_the_median_of_rounds_and_not_that_of_medians():
    ours = Laps(tuple(Lap(t, 2 * t) for t in (1.0, 10.0, 2.0)))
    theirs = Laps(tuple(Lap(t, t) for t in (3.0, 40.0, 2.0)))
    assert theirs.over(ours) == Lap(3.0, 1.5)


def test_short_runs_are_longer_and_long_ones_are_few():
    runs = []
    assert suitable_count(runs.append, seconds=60.0, most=50) == 50
    assert suitable_count(runs.append, seconds=0.0, most=50) == 3
    assert runs == [3] * 4


def test_parts_of_a_lap_are_microseconds():
    assert Lap(2.0, 3.0).per(1_000) == Lap(2_000.0, 3_000.0)


# --- the command -----------------------------------------------------------------


def test_every_engine_has_a_line_and_one_is_chosen(document):
    found = document("--quick")
    assert list(found) == ["machine", "command", "memory", "engines"]
    assert found["command"] == "python benchmarks/engines.py --quick --json"
    assert found["memory"] is None
    lines = found["engines"]
    assert {line["agents"] for line in lines} == {9}
    assert not keys_described({*found, *found["machine"], *lines[0]})
    for case in SMALL:
        own = [line for line in lines if line["method"] == case.method]
        assert "numpy" in [line["engine"] for line in own]
        assert sum(line["chosen"] for line in own) == 1
        assert all(line["met"] is None for line in own if not line["chosen"])
        rounds = [line["touched_by_rounds"] is not None for line in own]
        assert rounds == [case.method == "gradient-tracking"] * len(own)
    chosen = [line["met"] for line in lines if line["chosen"]]
    assert chosen == [True, None]


def test_one_engine_and_one_case_can_be_asked_for(document):
    found = document("--quick", "--engine", "numpy")
    assert [line["engine"] for line in found["engines"]] == ["numpy"] * len(SMALL)
    (line,) = document("--quick", "--engine", "numpy", "--case", "tracking")["engines"]
    assert line["method"] == "gradient-tracking"


@pytest.mark.usefixtures("small")
def test_people_get_a_table_and_progress_elsewhere(capsys):
    engines.main(["--quick", "--engine", "numpy"])
    found = capsys.readouterr()
    assert "python benchmarks/engines.py --quick" in found.out
    assert "9 x 3" in found.out
    assert "measuring" not in found.out
    assert "measuring dgd, distances, 9 x 3" in found.err


def test_an_engine_that_computes_something_else_is_not_timed(monkeypatch):
    class Wrong(PlainEngine):
        def points(self, state):
            return super().points(state) + 1e-6

    monkeypatch.setattr(engines, "engine_for", lambda task, wanted="auto": Wrong(task))
    with pytest.raises(NumericalError, match="away from the plain loop"):
        engines.measure(SMALL, engine="numpy", repeats=1, seconds=1e-3)
