"""`veilsum bench`: the right things are timed, and nobody who computes others."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csgraph

from veilsum.cli.app import app
from veilsum.engines.numpy import PlainEngine
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.jobs.bench import engines, report, side_by_side
from veilsum.jobs.bench.cases import (
    FULL,
    QUICK,
    Case,
    Wanted,
    six_neighbours,
    step_sizes,
    workload,
)
from veilsum.jobs.bench.clocks import Lap, Laps, in_turn, suitable_count
from veilsum.jobs.bench.floors import floors, looped
from veilsum.jobs.bench.least_squares import LeastSquares
from veilsum.jobs.bench.loops import LOOPS
from veilsum.jobs.bench.peers import (
    LeftOut,
    Peer,
    PeerError,
    ask,
    read_peers,
    write_workload,
)

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SMALL = (
    Case(method="dgd", agents=9, dim=3, wanted=Wanted(numpy=1e-9)),
    Case(method="gradient-tracking", agents=9, dim=3, costs="least squares"),
)


def silent(label, rounds):
    del label, rounds
    return lambda done: None


@pytest.fixture
def small(monkeypatch):
    """Sizes that mean nothing, for tests that look at words only."""
    monkeypatch.setattr(report, "QUICK", SMALL)
    monkeypatch.setattr(report, "QUICK_SECONDS", 1e-3)
    monkeypatch.setattr(side_by_side, "AGENTS", 9)
    monkeypatch.setattr(side_by_side, "ITERATIONS", 40)


def call(*words):
    return CliRunner().invoke(app, ["bench", *map(str, words)])


def document(*words):
    found = call(*words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def keys_described(keys):
    page = (ROOT / "docs" / "reference" / "json.md").read_text("utf-8")
    section = page.partition("\n## Bench\n")[2].partition("\n## ")[0]
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


@pytest.mark.parametrize("form", LOOPS)
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


@pytest.mark.parametrize("form", LOOPS)
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


@pytest.mark.parametrize("agents", [8, 9, 10, 1_000])
def test_six_neighbours_are_six(agents):
    weights = six_neighbours(agents)
    assert (weights != weights.T).nnz == 0
    assert (np.diff(weights.indptr) == 7).all()
    np.testing.assert_allclose(weights.data, 1 / 7, rtol=1e-15)
    np.testing.assert_allclose(weights.diagonal(), 1 / 7, rtol=1e-15)
    assert csgraph.connected_components(weights)[0] == 1


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.words)
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


@pytest.mark.parametrize(
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
    order, rounds = [], []

    def run(name):
        order.append(name)
        return Lap(len(order), 1.0)

    runs = {name: lambda name=name: run(name) for name in "ab"}
    found = in_turn(runs, repeats=3, tick=rounds.append)
    assert order == list("ababab")
    assert rounds == [1, 2, 3]
    assert [lap.wall for lap in found["b"].laps] == [2, 4, 6]
    assert found["a"].wall == 3


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


@pytest.mark.usefixtures("small")
def test_json_has_the_keys_that_are_described():
    found = document("--quick")
    assert list(found) == ["machine", "command", "engines", "peers"]
    assert found["command"] == "veilsum bench --quick"
    assert found["peers"] is None
    assert {line["agents"] for line in found["engines"]} == {9}
    assert not keys_described({*found, *found["machine"], *found["engines"][0]})


@pytest.mark.usefixtures("small")
def test_every_engine_has_a_line_and_one_is_chosen():
    lines = document("--quick")["engines"]
    for case in SMALL:
        own = [line for line in lines if line["method"] == case.method]
        assert "numpy" in [line["engine"] for line in own]
        assert sum(line["chosen"] for line in own) == 1
        assert all(line["met"] is None for line in own if not line["chosen"])
    chosen = [line["met"] for line in lines if line["chosen"]]
    assert chosen == [True, None]


@pytest.mark.usefixtures("small")
def test_one_engine_can_be_asked_for():
    found = document("--quick", "--engine", "numpy")
    assert [line["engine"] for line in found["engines"]] == ["numpy"] * len(SMALL)
    assert found["command"] == "veilsum bench --quick --engine numpy"


@pytest.mark.usefixtures("small")
def test_people_get_a_table_and_progress_elsewhere():
    found = call("--quick", "--engine", "numpy")
    assert found.exit_code == 0, found.output
    assert "veilsum bench --quick" in found.stdout
    assert "9 x 3" in found.stdout
    assert "measuring" not in found.stdout
    assert "measuring dgd, distances, 9 x 3" in found.stderr


def test_an_engine_that_computes_something_else_is_not_timed(monkeypatch):
    class Wrong(PlainEngine):
        def points(self, state):
            return super().points(state) + 1e-6

    monkeypatch.setattr(engines, "engine_for", lambda task, wanted="auto": Wrong(task))
    with pytest.raises(NumericalError, match="away from the plain loop"):
        engines.measure(SMALL, engine="numpy", repeats=1, seconds=1e-3, watch=silent)


# --- other packages --------------------------------------------------------------

# A package in a few lines: what a script has to do, and no more.
SCRIPT = """
import json, sys
import numpy as np
work = np.load(sys.argv[1])
designs, responses, weights = (work[k] for k in ("designs", "responses", "weights"))
x = np.zeros((len(designs), designs.shape[2]))
for k in range(int(work["iterations"])):
    rest = np.einsum("nrm,nm->nr", designs, x) - responses
    step = work["scale"] / (k + 1) ** work["power"]
    x = weights @ x - step * np.einsum("nrm,nr->nm", designs, rest) {more}
np.savez(sys.argv[2], points=x)
print(json.dumps(
    dict(form="own", wall_s=3e3, processor_s=4e3, version="7", method=sys.argv[3])
))
"""


def make_peer(folder, name, script=None, **described):
    (folder / name).mkdir(parents=True)
    path = folder / name / "script.py"
    path.write_text(SCRIPT.format(more="") if script is None else script)
    words = {"command": [sys.executable, str(path)], "faster": 15}
    given = {**words, "agents": 8, "iterations": 40, **described}
    (folder / name / "peer.json").write_text(json.dumps(given))


@pytest.mark.usefixtures("small")
def test_a_package_is_measured_beside_us(tmp_path, monkeypatch):
    monkeypatch.setattr(side_by_side, "FORMS", {"dgd": "own"})
    make_peer(tmp_path, "slow")
    found = document("--quick", "--engine", "numpy", "--peers", tmp_path)["peers"]
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows) == ["veilsum engine", "veilsum.solve", "numpy loop", "slow"]
    slow, ours = rows["slow"], rows["veilsum engine"]
    # 3,000 s for 8 agents and a tenth of 40 iterations.
    assert slow["wall"] == pytest.approx(3e9 / 32)
    assert slow["processor"] == pytest.approx(4e9 / 32)
    assert slow["slower"] == pytest.approx(
        slow["wall"] / rows["veilsum engine"]["wall"]
    )
    assert (slow["met"], slow["wanted"], slow["version"]) == (True, 15, "7")
    assert slow["difference"] < 1e-13
    assert ours["difference"] < 1e-12
    assert ours["met"] is None
    assert rows["veilsum.solve"]["difference"] is None
    assert not found["left_out"]
    assert not keys_described({*found, *slow})


@pytest.mark.usefixtures("small")
def test_who_fails_or_is_wrong_is_left_out_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(side_by_side, "FORMS", {"dgd": "own"})
    make_peer(tmp_path, "broken", "raise RuntimeError('no such luck')")
    make_peer(tmp_path, "silent", "")
    make_peer(tmp_path, "wrong", SCRIPT.format(more="+ 1e-6"))
    make_peer(tmp_path, "absent", left_out="it needs Python 9")
    found = document("--quick", "--engine", "numpy", "--peers", tmp_path)["peers"]
    assert len(found["rows"]) == 3
    reasons = {one["name"]: one["reason"] for one in found["left_out"]}
    assert reasons["absent"] == "it needs Python 9"
    assert reasons["broken"] == "dgd: RuntimeError: no such luck"
    assert reasons["silent"].startswith("dgd: ")
    assert "away from the plain loop" in reasons["wrong"]
    assert not keys_described(found["left_out"][0])


@pytest.mark.usefixtures("small")
def test_people_are_told_who_was_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(side_by_side, "FORMS", {"dgd": "own"})
    make_peer(tmp_path, "absent", left_out="it needs Python 9")
    found = call("--quick", "--engine", "numpy", "--peers", tmp_path)
    assert "left out: absent, it needs Python 9" in found.stdout


def test_without_packages_the_way_to_get_them_is_said(tmp_path):
    found = call("--peers", tmp_path)
    assert found.exit_code == 2
    assert "benchmarks/peers.py FOLDER" in found.stderr
    assert found.stderr.count("\n") == 1
    assert (ROOT / "benchmarks" / "peers.py").is_file()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"command": 1, "agents": 2}'])
def test_a_damaged_description_is_refused(tmp_path, text):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "peer.json").write_text(text)
    with pytest.raises(InvalidInputError, match="does not describe a package"):
        read_peers(tmp_path)


def test_shorter_runs_have_at_least_one_iteration(tmp_path):
    make_peer(tmp_path, "one", iterations=5)
    (found,) = read_peers(tmp_path, shorter=10)
    assert isinstance(found, Peer)
    assert found.iterations == 1


def test_an_unknown_form_is_no_answer(tmp_path):
    make_peer(tmp_path, "odd", SCRIPT.format(more="").replace('"own"', '"sideways"'))
    (peer,) = read_peers(tmp_path)
    with pytest.raises(PeerError, match="sideways"):
        ask(peer, "dgd", tmp_path)


# --- benchmarks/peers.py, and what its scripts share -------------------------------


def module_at(path):
    spec = importlib.util.spec_from_file_location(f"bench_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_scripts_read_what_is_written_for_them(tmp_path):
    common = module_at(ROOT / "benchmarks" / "peers" / "common.py")
    write_workload(tmp_path / "work.npz", agents=10, iterations=3)
    found = common.Workload(str(tmp_path / "work.npz"))
    given = LeastSquares.of(agents=10, dim=50)
    np.testing.assert_allclose(found.grams, given.grams, atol=1e-12)
    np.testing.assert_allclose(found.linear, given.linear, atol=1e-12)
    np.testing.assert_array_equal(found.adjacency, given.topology.adjacency.toarray())
    steps = [found.step_at(k) for k in range(found.iterations)]
    np.testing.assert_allclose(steps, step_sizes("own", 3), rtol=1e-15)
    assert found.step == step_sizes("atc", 1)[0]


def test_what_cannot_be_installed_is_described(tmp_path, monkeypatch):
    installer = module_at(ROOT / "benchmarks" / "peers.py")
    package = installer.Package((), "none.py", faster=2, python=(9, 0))
    monkeypatch.setattr(installer, "PACKAGES", {"later": package})
    installer.install("later", tmp_path, None)
    assert read_peers(tmp_path) == [
        LeftOut(
            "later",
            "it needs Python 9.0 or later, and none was found; name one by --python",
        )
    ]


def test_scripts_of_all_packages_are_there():
    installer = module_at(ROOT / "benchmarks" / "peers.py")
    assert list(installer.PACKAGES) == ["tvopt", "decent-bench", "disropt"]
    for package in installer.PACKAGES.values():
        assert (installer.SCRIPTS / package.script).is_file()
        assert package.processes in {0, package.agents}


def test_environments_are_kept_out_of_the_repository():
    words = [sys.executable, ROOT / "benchmarks" / "peers.py", ROOT / "environments"]
    found = subprocess.run(words, check=False, capture_output=True, text=True)
    assert found.returncode == 2
    assert "outside" in found.stderr
