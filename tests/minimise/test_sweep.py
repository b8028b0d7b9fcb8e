"""A sweep is what a loop over `solve` and `worst_case` finds, kept in a file."""

import csv
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from itertools import product

import networkx as nx
import numpy as np
import pytest

import refusals
import veilsum as vs
from cases import each
from veilsum.minimise.solve import SolveTrace
from veilsum.minimise.sweeps import COLUMNS, iterations_until_tolerance

FAMILY = vs.Topology.family
COSTS = [vs.minimise.Cost.squared_distance([p, -p]) for p in (1.0, 2.0, 6.0, 3.0, 4.5)]
BOX = vs.minimise.Box(-9, 9, dim=2)
STEPS = vs.minimise.Settings(iterations=60, step=0.5)
GRID = {
    "graphs": ["ring:5", "complete:5"],
    "domain": BOX,
    "sigmas": [1.0, 4.0],
    "methods": ["dgd", "extra"],
    "seeds": 2,
    "tolerate": [0, 1],
    "settings": STEPS,
    "tolerance": 0.3,
    "distance": 2.0,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a sweep that nobody stopped, and the bytes of its file."""
    path = tmp_path_factory.mktemp("sweep") / "whole.csv"
    return vs.minimise.sweep(COSTS, **GRID, out=path), path.read_bytes()


def by_hand():
    """Yield every line as somebody would compute it who has no sweep."""
    for graph, sigma, method in product(
        *map(GRID.get, ("graphs", "sigmas", "methods"))
    ):
        for seed in range(2):
            step = 0.5 if method == "dgd" else None
            settings = vs.minimise.Settings(iterations=60, step=step, method=method)
            try:
                run = vs.solve(
                    COSTS,
                    topology=FAMILY(graph),
                    corrupted=(),
                    domain=BOX,
                    sigma=sigma,
                    settings=settings,
                    seed=seed,
                )
            except vs.InvalidInputError as error:
                run = error
            for t in (0, 1):
                promise = vs.worst_case(
                    FAMILY(graph), sigma=sigma, tolerate=t, distance=2.0
                )
                yield (graph, sigma, method, seed, t), run, promise


def test_every_line_is_that_of_a_loop(whole):
    found, _ = whole
    lines = list(by_hand())
    assert len(found) == len(lines) == found.asked == 32
    refused = 0
    for row, (chosen, run, promise) in zip(found.rows, lines, strict=True):
        keys = ("graph", "sigma", "method", "seed", "tolerate")
        assert tuple(row[key] for key in keys) == chosen
        if isinstance(run, Exception):
            assert row["refused"] == str(run)
            assert row["error"] is row["epsilon"] is None
            refused += 1
            continue
        assert row["refused"] is None
        assert row["error"] == run.max_error
        assert (row["bytes"], row["rounds"]) == (run.bytes, run.rounds)
        assert row["iterations"] == run.iterations
        within = run.trace.errors.max(axis=1) <= 0.3
        if row["iterations_to_tolerance"] is None:
            assert not within[-1]
        else:
            after = run.trace.iterations >= row["iterations_to_tolerance"]
            assert within[after].all()
        assert (row["status"], row["epsilon"]) == (promise.status, promise.epsilon)
        assert row["attacker_success"] == promise.attacker_success
    assert refused < len(lines)


def test_the_file_the_lines_and_the_frame_say_the_same(whole, tmp_path):
    found, written = whole
    found.to_csv(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == written
    head, *lines = csv.reader(written.decode().splitlines())
    assert head == list(COLUMNS)
    assert [line[4] for line in lines] == [str(row["sigma"]) for row in found.rows]
    frame = found.to_frame()
    assert frame.shape == (32, len(COLUMNS))
    assert frame.error.tolist()[:4] == [row["error"] for row in found.rows[:4]]


class Stop:
    """Stop a sweep from outside after so many lines."""

    def __init__(self, after):
        self.after = after

    def __call__(self, done, total):
        assert total == 32
        if done >= self.after:
            raise KeyboardInterrupt


def test_a_sweep_that_was_stopped_goes_on_to_the_same_bytes(whole, tmp_path):
    found, written = whole
    path = tmp_path / "stopped.csv"
    for after in (2, 10, 30):
        partial = vs.minimise.sweep(COSTS, **GRID, out=path, progress=Stop(after))
        assert partial.interrupted
        assert len(partial) == after
        assert written.startswith(path.read_bytes())
    done = []
    again = vs.minimise.sweep(
        COSTS, **GRID, out=path, progress=lambda one, total: done.append((one, total))
    )
    assert done == [(30, 32), (32, 32)]
    assert path.read_bytes() == written
    assert again.rows == found.rows
    assert not again.interrupted


@pytest.mark.parametrize("kept", [0.02, 0.31, 0.5, 0.777, 0.999])
def test_a_line_that_was_cut_off_is_written_again(whole, tmp_path, kept):
    """Wherever the plug was pulled, the middle of a line or of a run included."""
    found, written = whole
    path = tmp_path / "cut.csv"
    head = written.index(b"\n") + 1
    path.write_bytes(written[: head + int(kept * (len(written) - head))])
    assert vs.minimise.sweep(COSTS, **GRID, out=path).rows == found.rows
    assert path.read_bytes() == written


OTHERS = {
    "sigma": {"sigmas": [1.0, 5.0]},
    "graph": {"graphs": ["ring:5", "star:5"]},
    "seeds": {"seeds": [0, 2]},
    "steps": {"settings": vs.minimise.Settings(iterations=61, step=0.5)},
    "distance": {"distance": 3.0},
    "tolerance": {"tolerance": 0.2},
    "domain": {"domain": vs.minimise.Box(-9, 8, dim=2)},
    "fewer": {"sigmas": [1.0]},
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_file_of_another_sweep_is_refused_and_stays(whole, tmp_path, other):
    _, written = whole
    path = tmp_path / "other.csv"
    path.write_bytes(written)
    with refusals.refused("other-sweep", vs.InvalidInputError):
        vs.minimise.sweep(COSTS, **{**GRID, **OTHERS[other]}, out=path)
    assert path.read_bytes() == written


def test_other_costs_are_another_sweep(whole, tmp_path):
    path = tmp_path / "other.csv"
    path.write_bytes(whole[1])
    with refusals.refused("other-sweep", vs.InvalidInputError):
        vs.minimise.sweep(
            [*COSTS[:4], vs.minimise.Cost.squared_distance([4.5, 4.5])],
            **GRID,
            out=path,
        )


def test_the_name_of_a_sweep_does_not_say_who_has_which_cost():
    """It has the sum and the answer, which every run shows: no guess is told by it."""
    small = {**GRID, "graphs": "complete:5", "methods": "dgd", "seeds": 1}
    small |= {"settings": vs.minimise.Settings(iterations=1)}

    def name(costs):
        return vs.minimise.sweep(costs, **small).rows[0]["sweep"]

    assert name(COSTS) == name(COSTS[::-1])
    assert name(COSTS) != name(
        [*COSTS[:4], vs.minimise.Cost.squared_distance([9.0, 9.0])]
    )


@pytest.mark.parametrize("text", [b"", b"a,b\n1,2\n", b"\xff\xfe\n\n"])
def test_what_is_no_sweep_is_refused_and_stays(tmp_path, text):
    path = tmp_path / "notes.csv"
    path.write_bytes(text)
    with refusals.refused("not-a-sweep-table", vs.InvalidInputError):
        vs.minimise.sweep(COSTS, **GRID, out=path)
    assert path.read_bytes() == text


def test_two_sweeps_do_not_write_to_one_file(tmp_path):
    path = tmp_path / "shared.csv"

    def other(done, total):
        del total
        if done:
            with path.open("ab") as stream:
                stream.write(b"somebody else\n")

    with refusals.refused("file-in-use", vs.errors.OutputError):
        vs.minimise.sweep(COSTS, **GRID, out=path, progress=other)


def test_laws_without_sigma_run_once_and_what_is_impossible_says_why():
    found = vs.minimise.sweep(
        COSTS,
        graphs="complete:5",
        domain=BOX,
        sigmas=[100.0, 1000.0],
        laws=["none", "lattice", "uniform"],
        methods=["one-shot", "dgd"],
        largest=100.0,
        settings=STEPS,
    )
    lines = [(row["law"], row["sigma"], row["method"]) for row in found.rows]
    assert [one for one in lines if one[0] != "lattice"] == [
        ("none", None, "one-shot"),
        ("none", None, "dgd"),
        ("uniform", None, "one-shot"),
        ("uniform", None, "dgd"),
    ]
    assert len(lines) == 8
    by_line = dict(zip(lines, found.rows, strict=True))
    assert by_line["none", None, "dgd"]["status"] == "no_privacy"
    assert by_line["none", None, "dgd"]["epsilon"] is None
    assert by_line["none", None, "dgd"]["attacker_success"] == 1.0
    assert by_line["uniform", None, "one-shot"]["epsilon"] == 0.0
    assert by_line["uniform", None, "one-shot"]["iterations_to_tolerance"] == 0
    assert "leave residues" in by_line["uniform", None, "dgd"]["refused"]
    assert "leave residues" in str(found)


def test_a_scenario_s_own_choices_hold_where_none_are_given(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(
        """
        title = "three"
        [graph]
        family = "ring:3"
        [parties]
        names = ["a", "b", "c"]
        [cost]
        kind = "squared-distance"
        targets = [[1.0], [2.0], [6.0]]
        [domain]
        kind = "box"
        lower = [-9.0]
        upper = [9.0]
        [masks]
        law = "gaussian"
        sigma = 2.0
        [stopping]
        iterations = 20
        """
    )
    (row,) = vs.minimise.sweep(path).rows
    run = vs.minimise.run_scenario(vs.files.read_scenario(path))
    assert (row["law"], row["sigma"], row["method"]) == ("gaussian", 2.0, "dgd")
    assert (row["iterations"], row["parties"]) == (run.iterations, 3)
    (other,) = vs.minimise.sweep(
        vs.files.read_scenario(path), graphs=["complete:3"], sigmas=4
    ).rows
    assert (other["graph"], other["sigma"]) == ("complete:3", 4.0)
    assert other["epsilon"] == pytest.approx(row["epsilon"] / 4)


def test_parties_of_a_named_graph_keep_their_costs():
    graph = vs.Topology.from_edges([("b", "a"), ("a", "c"), ("c", "b"), ("c", "d")])
    costs = {
        name: vs.minimise.Cost.squared_distance([p]) for p, name in enumerate("abcd")
    }
    here = {
        "domain": vs.minimise.Box(-9, 9, dim=1),
        "settings": vs.minimise.Settings(iterations=9),
    }
    (row,) = vs.minimise.sweep(costs, graphs={"mine": graph}, sigmas=2.0, **here).rows
    assert (
        row["error"]
        == vs.solve(
            costs, topology=graph, corrupted=(), sigma=2.0, seed=0, **here
        ).max_error
    )


@each(
    ("options", "said"),
    [
        ({"graphs": None}, "say on which graphs"),
        ({"graphs": ["ring:6"]}, "5 costs, and the graph ring:6 has 6"),
        ({"sigmas": None}, "needs sigma"),
        ({"sigmas": [1.0, 1.0]}, "one value twice"),
        ({"sigmas": [-1.0]}, "positive and finite"),
        ({"sigmas": [0, 1.0]}, "law none"),
        ({"graphs": [5]}, "cannot be a int"),
        ({"graphs": [FAMILY("ring:5"), "graph 1"]}, "graph 1"),
        ({"laws": ["laplace"]}, "no mask law is called 'laplace'"),
        ({"methods": ["newton"]}, "no method is called 'newton'"),
        ({"methods": []}, "must not be empty"),
        ({"seeds": 0}, "seeds"),
        ({"tolerate": 4}, "4"),
        ({"domain": None}, "give one, such as"),
        ({"seeds": 10**6}, "at most 1,000,000 runs"),
        ({"on": "processes:0"}, "processes:0"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_runs(options, said):
    ran = []
    with pytest.raises(vs.InvalidInputError, match=said):
        vs.minimise.sweep(
            COSTS, **{**GRID, **options}, progress=lambda *one: ran.append(one)
        )
    assert not ran


def test_costs_with_functions_of_their_own_stay_in_their_process():
    own = [
        vs.minimise.Cost.from_gradient(lambda x, p=p: x - p, dim=2) for p in range(5)
    ]
    small = {"graphs": "complete:5", "domain": BOX, "sigmas": 1.0, "settings": STEPS}
    (row,) = vs.minimise.sweep(own, **small).rows
    assert row["error"] < 3.0
    with refusals.refused("not-portable", vs.InvalidInputError):
        vs.minimise.sweep(own, **small, seeds=2, on="processes:2")


def test_processes_that_end_too_soon_say_what_to_do(monkeypatch):
    class Gone(ThreadPoolExecutor):
        def submit(self, *_):
            raise BrokenExecutor("nobody is there")

    monkeypatch.setattr("veilsum.scale.processes.WorkerProcesses", Gone)
    with refusals.refused("workers-lost", vs.InvalidInputError):
        vs.minimise.sweep(COSTS, **GRID, on="processes:2")


@pytest.mark.slow
def test_many_processes_find_the_same_bytes_stopped_or_not(whole, tmp_path):
    path = tmp_path / "two.csv"
    partial = vs.minimise.sweep(
        COSTS, **GRID, out=path, on="processes:2", progress=Stop(6)
    )
    assert (len(partial), partial.interrupted) == (6, True)
    found = vs.minimise.sweep(COSTS, **GRID, out=path, on="processes:2")
    assert path.read_bytes() == whole[1]
    assert found.rows == whole[0].rows


def test_the_first_iteration_from_which_on_everybody_is_near():
    times = np.array([0, 1, 2, 5, 9])

    def trace(*worst):
        errors = np.array([[one / 2, one] for one in worst])
        return SolveTrace(times, np.zeros((5, 2, 1)), errors, None, ("a", "b"))

    assert iterations_until_tolerance(trace(9, 1, 9, 1, 1), 1.0) == 5
    assert iterations_until_tolerance(trace(1, 1, 1, 1, 1), 1.0) == 0
    assert iterations_until_tolerance(trace(9, 9, 9, 9, 1), 1.0) == 9
    assert iterations_until_tolerance(trace(1, 1, 1, 1, 2), 1.0) is None
    assert iterations_until_tolerance(trace(1, 1, 1, 1, np.nan), 1.0) is None


def test_medians_count_what_never_came_there_as_late(whole):
    found, _ = whole
    for line in found.medians():
        rows = [
            row
            for row in found.rows
            if all(row[k] == line[k] for k in ("graph", "sigma", "method", "tolerate"))
        ]
        assert (line["runs"], line["refused"]) == (
            2,
            sum(bool(r["refused"]) for r in rows),
        )
        if not line["refused"]:
            assert line["error"] == np.median([row["error"] for row in rows])
            never = any(row["iterations_to_tolerance"] is None for row in rows)
            assert (line["iterations_to_tolerance"] is None) == never


def test_graphs_of_networkx_and_ours_have_their_names_or_places():
    drawn = nx.cycle_graph(5)
    drawn.name = "round"
    graphs = ["complete:5", FAMILY("ring:5"), drawn]
    small = {**GRID, "methods": "dgd", "seeds": 1, "sigmas": 1.0, "tolerate": 1}
    rows = vs.minimise.sweep(COSTS, **{**small, "graphs": graphs}).rows
    assert [row["graph"] for row in rows] == ["complete:5", "graph 2", "round"]
    assert rows[1]["epsilon"] == pytest.approx(rows[2]["epsilon"], rel=1e-12)
    (alone,) = vs.minimise.sweep(COSTS, **{**small, "graphs": drawn}).rows
    assert alone["error"] == rows[2]["error"]
    with refusals.refused("duplicate-graph", vs.InvalidInputError):
        vs.minimise.sweep(COSTS, **{**small, "graphs": [drawn, drawn.copy()]})


def test_what_is_recentred_and_what_is_not_promised_is_said():
    found = vs.minimise.sweep(
        COSTS,
        graphs=["ring:5", "complete:5"],
        domain=BOX,
        sigmas=4.0,
        laws=["lattice", "gaussian", "none"],
        tolerate=[1, 2],
        settings=STEPS,
        distance=2.0,
        tolerance=1e-5,
    )
    rounds = {(row["graph"], row["law"]): row["recentred"] for row in found.rows}
    for graph in ("ring:5", "complete:5"):
        run = vs.solve(
            COSTS,
            topology=FAMILY(graph),
            corrupted=(),
            domain=BOX,
            law="lattice",
            sigma=4.0,
            settings=STEPS,
            seed=0,
        )
        dgd = run.iterations  # one message round each
        assert rounds[graph, "lattice"] == run.rounds - dgd - 1 > 0
        assert rounds[graph, "gaussian"] == rounds[graph, "none"] == 0
    assert {(row["tolerance"], row["distance"]) for row in found.rows} == {(1e-5, 2.0)}
    told = " ".join(str(found).split())
    assert "different algorithms" in told
    assert "2 colluders can cut ring:5" in told
    assert "2 colluders can cut complete:5" not in told
    assert "1 colluder can cut" not in told
    assert "the law none hides nothing" in told
    assert all(len(line) <= 78 for line in str(found).splitlines())
    plain = vs.minimise.sweep(
        COSTS,
        graphs="ring:5",
        domain=BOX,
        sigmas=4.0,
        laws=["lattice", "gaussian"],
        settings=vs.minimise.Settings(iterations=60, step=0.5, recentre=False),
    )
    assert {row["recentred"] for row in plain.rows} == {0}
    assert "different algorithms" not in str(plain)
    assert "recentred" not in str(plain)
