"""The MPI engine: several real ranks beside one process, and what ranks agree on."""

import json
import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from cases import each
from engine_tasks import METHODS, arrived, make_task, one_way_task
from refusals import refused
from veilsum.errors import InvalidInputError, VeilsumError
from veilsum.graphs.topology import Topology
from veilsum.minimise.engines import mpi
from veilsum.minimise.engines.numpy import PlainEngine
from veilsum.minimise.large_graphs import large
from veilsum.minimise.ranks import large_on_ranks

pytest.importorskip("mpi4py.MPI", exc_type=ImportError)

TESTS = Path(__file__).parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")
several = pytest.mark.skipif(
    not MPIEXEC.exists(), reason="no mpiexec beside this Python"
)
QUICK = (
    *("main methods", "gradient", "different", "sums"),
    *("own rows", "refusals", "large", "checkpoints", "seeds"),
)


@cache
def played(ranks, *scenes):
    """What the first of so many ranks reports of these scenes."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    command = [MPIEXEC, "-n", str(ranks), sys.executable, "-m", "mpi4py"]
    with TemporaryDirectory() as folder:
        ours = {
            "PYTHONPATH": os.pathsep.join([str(TESTS), *paths]),
            "SCENE_FOLDER": folder,
        }
        ended = subprocess.run(
            [*map(str, command), str(TESTS / "rank_scenes.py"), *scenes],
            env=os.environ | ours,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@several
def test_two_ranks_find_what_one_process_finds():
    found = played(2, *QUICK)["main methods"]
    assert len(found) == 9
    assert max(away for away, _ in found.values()) <= 1e-12


@several
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_find_it_by_every_method(ranks):
    found = played(ranks, "all methods")["all methods"]
    assert len(found) == len(METHODS) * 3
    assert max(away for away, _ in found.values()) <= 1e-12


@several
@pytest.mark.slow
def test_the_number_of_ranks_changes_no_bit():
    two, four = played(2, *QUICK), played(4, *QUICK)
    assert two["main methods"] == four["main methods"]
    assert two["sums"]["total"] == four["sums"]["total"]
    assert four["gradient"] == two["gradient"]


@several
def test_a_gradient_that_fails_on_one_rank_is_everybodys_error():
    """Otherwise the others would wait for that rank for ever."""
    found = played(2, *QUICK)["gradient"]
    assert found["ranks"] == found["alone"]
    assert found["ranks"][1] == 119
    assert "nan" in found["ranks"][0]


@several
def test_ranks_with_different_tasks_are_told_to_take_a_seed():
    assert "a seed" in played(2, *QUICK)["different"]


@several
def test_what_is_added_up_over_ranks_is_exact_to_rounding():
    found = played(2, *QUICK)["sums"]
    assert found["away"] < 1e-9
    assert found["largest"]
    assert found["nan"]
    assert found["gathered"]


def check_own_rows(found):
    for spec, one in found.items():
        for same in ("links", "mapped", "degrees", "masks", "halo"):
            assert one[same], (spec, same)
        assert one["sum"] == [0, 0, 0]
        assert one["not a sum of masks"]
        assert one["weights"] <= 1e-15
        assert one["away"] <= 1e-12
        assert one["mean"] <= 1e-12
        assert one["apart"] <= 1e-12
        assert one["looks"] == [4, 40, 40]


@several
def test_ranks_that_have_their_own_rows_only_find_the_same():
    """Links, masks and weights are made rank by rank; masks to the last bit."""
    found = played(2, *QUICK)["own rows"]
    assert len(found) == 3
    check_own_rows(found)


@several
@pytest.mark.slow
def test_so_do_four_ranks():
    check_own_rows(played(4, *QUICK)["own rows"])


def check_large(found):
    assert found["extra"]["given"]
    for method, one in found.items():
        assert one["away"] <= 1e-12, method
        assert one["mean"] <= 1e-12
        assert abs(one["worst"]) <= 1e-12
        # Targets are rounded to the grid.
        assert one["answer"] <= 1e-9
        text, plain = one["said"]
        assert "Minimiser over 300 parties" in text
        assert "masks add up to zero" in text
        assert plain["sum_of_masks"] == [0, 0]


@several
def test_the_whole_job_is_what_one_process_does_by_hand():
    found = played(2, *QUICK)["large"]
    assert len(found) == 3
    check_large(found)
    assert found["dgd"]["said"][1]["ranks"] == 2
    assert 0 < found["dgd"]["said"][1]["halo"] < 0.3


def check_checkpoints(found, *, ranks):
    # One rank alone is never stopped apart from others.
    begun = [0, 20, 20, 0] if ranks > 1 else [0, 20, 20, 20]
    assert found["resumed"] == begun
    assert found["same"] == [True, True]
    assert "another run" in found["another"]
    assert found["files"] == 1
    assert "more than 0" in found["every"]


@several
def test_ranks_go_on_from_what_all_of_them_have_written():
    check_checkpoints(played(2, *QUICK)["checkpoints"], ranks=2)


def test_one_rank_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    from rank_scenes import checkpoints

    monkeypatch.setenv("SCENE_FOLDER", str(tmp_path))
    check_checkpoints(checkpoints(), ranks=1)


@several
def test_ranks_refuse_together():
    mixes, weights, away, rows, alike = played(2, *QUICK)["refusals"]
    assert "large mu2 means a large halo" in mixes
    assert "choose from metropolis" in weights
    assert "numbers ran away before iteration 10" in away
    assert "100 rows of costs and 99 of starts" in rows
    assert alike


@several
def test_ranks_without_a_seed_draw_one_for_all():
    assert played(2, *QUICK)["seeds"] == [1, True, 5]


# One rank, in this process


@pytest.fixture(params=[16, 1 << 18])
def blocks(request, monkeypatch):
    """Many small blocks of rows, or one."""
    monkeypatch.setattr(mpi, "BLOCK_BYTES", request.param)
    monkeypatch.setattr(mpi, "FEWEST_ROWS", 25)


@pytest.mark.parametrize("method", METHODS)
def test_one_rank_changes_no_bit(method, blocks):
    task = make_task(method, "ring:120")
    ours, theirs = arrived(mpi.MpiEngine(task), 40), arrived(PlainEngine(task), 40)
    assert np.array_equal(ours, theirs)


def test_one_rank_goes_on_from_any_state(blocks):
    """Rooms that are used again belong to no state that somebody still has."""
    engine = mpi.MpiEngine(make_task("tracking in a box, five rounds", "ring:120"))
    states = [engine.begin()]
    for _ in range(6):
        states.append(engine.advance(states[-1], 2))
    kept = [engine.points(state).copy() for state in states]
    for k in (3, 0, 5):
        again = engine.points(engine.advance(states[k], 2))
        assert np.array_equal(again, kept[k + 1])
    assert all(
        np.array_equal(engine.points(one), old)
        for one, old in zip(states, kept, strict=True)
    )


def test_one_rank_takes_one_way_links_and_other_costs(blocks):
    for task in (one_way_task(), make_task("extra", "ring:120", cost="quadratics")):
        ours, theirs = arrived(mpi.MpiEngine(task), 30), arrived(PlainEngine(task), 30)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_one_rank_makes_its_own_rows():
    from rank_scenes import OWN, large, own_rows, refusals, sums

    check_own_rows({spec: own_rows(spec) for spec in OWN})
    check_large(large())
    assert sums()["gathered"]
    # With one rank nothing crosses, and so no halo is too large.
    assert refusals()[0] is None


@each("method", ["dgd", "gradient-tracking", "extra"])
def test_large_runs_are_the_same_on_ranks(method):
    """Two roads: one machine that has all rows, and ranks that have their own."""
    spec = "geometric:1600:6"
    how = {"dim": 3, "method": method, "iterations": 30, "sigma": 0.5, "seed": 2}
    ours = large_on_ranks(spec, **how)
    theirs = large(spec, **how, engine="numpy", certify=False, progress=False)
    np.testing.assert_allclose(ours.own, theirs.estimates, rtol=0, atol=1e-12)
    assert ours.grid == theirs.grid
    assert np.array_equal(ours.answer, theirs.answer)
    assert ours.max_error == pytest.approx(theirs.max_error, rel=1e-12)
    graph = Topology.family(spec)
    assert np.array_equal(large_on_ranks(graph, **how).own, ours.own)


@each(
    ("targets", "said"),
    [
        (np.full((1600, 1), "a"), "must be numbers"),
        (np.full((1600, 1), np.nan), "finite"),
        (np.zeros((1599, 1)), "one row for each of 1,600 parties"),
    ],
)
def test_targets_are_refused_alike_on_ranks(targets, said):
    for run in (large_on_ranks, partial(large, certify=False, progress=False)):
        with pytest.raises(InvalidInputError, match=said):
            run("geometric:1600:6", targets, iterations=1)


def test_one_number_each_is_taken_alike_on_ranks():
    targets = np.linspace(-1.0, 2.0, 1600)
    ours = large_on_ranks("geometric:1600:6", targets, iterations=5)
    theirs = large("geometric:1600:6", targets, iterations=5, certify=False)
    np.testing.assert_allclose(ours.own, theirs.estimates, rtol=0, atol=1e-12)
    with refused("scale-not-positive", mentions=("0",)):
        large_on_ranks("geometric:1600:6", targets, step=0.0)


def test_a_rank_says_how_far_it_is_and_keeps_its_end(tmp_path):
    told = []
    how = {"checkpoint": tmp_path / "kept.npz", "dim": 1}
    large_on_ranks(
        "geometric:300:6", iterations=25, **how, progress=lambda *far: told.append(far)
    )
    assert told == [(10, 25), (20, 25), (25, 25)]
    further = large_on_ranks("geometric:300:6", iterations=40, **how)
    assert further.resumed == 25
    whole = large_on_ranks("geometric:300:6", iterations=40, dim=1)
    assert np.array_equal(further.own, whole.own)


def test_float32_stays_float32(blocks):
    task = make_task("dgd", "ring:120", precision="float32")
    engine = mpi.MpiEngine(task)
    assert engine.advance(engine.begin(), 3).x.dtype == np.float32
    ours, theirs = arrived(engine, 20), arrived(PlainEngine(task), 20)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_a_halo_that_is_most_of_the_graph_is_refused(monkeypatch):
    """As if there were two ranks: on a complete graph everybody hears everybody."""
    engine = mpi.MpiEngine(make_task("dgd", "complete:40"))
    halves = mpi.cut_graph_into_parts(engine.task.weights["symmetric"], 2)
    monkeypatch.setitem(vars(engine), "parts", halves)
    with refused("halo-too-large", mentions=("40", "100")):
        engine.__post_init__()


def test_one_rank_takes_and_refuses_what_one_process_does(tmp_path):
    asked = {"iterations": 10, "checkpoint": tmp_path / "deep" / "state.npz"}
    targets = np.random.default_rng(0).normal(size=200)
    found = large_on_ranks("grid:20x10", targets, **asked)
    plain = large("grid:20x10", targets, iterations=10, certify=False, progress=False)
    np.testing.assert_allclose(found.own, plain.estimates, rtol=0, atol=1e-12)
    for wrong in (np.full(200, "a"), targets[:-1]):
        with pytest.raises(InvalidInputError, match="targets must"):
            large_on_ranks("grid:20x10", wrong, iterations=10)
    assert large_on_ranks("grid:20x10", targets, **asked).resumed == 10
    with refused("already-further", mentions=("10", "9")):
        large_on_ranks("grid:20x10", targets, **{**asked, "iterations": 9})


def test_rows_that_never_come_are_not_waited_for_for_ever(monkeypatch):
    """Twice the same two messages: once nobody sends the second."""
    comm = mpi.all_mpi_ranks().Dup()
    monkeypatch.setattr(mpi, "SILENCE", 0.3)
    rows = np.arange(4.0)
    for tags in ((1, 2), (1,)):
        heard = np.empty((2, 4))
        posted = [comm.Irecv(heard[k], 0, k + 1) for k in range(2)]
        posted += [comm.Isend(rows, 0, tag) for tag in tags]
        if len(tags) == 2:
            mpi.settle_mpi_requests(posted)
            assert np.array_equal(heard, [rows, rows])
            assert posted == []
            continue
        with refused("rank-silent", VeilsumError):
            mpi.settle_mpi_requests(posted)
        posted[1].Cancel()
        posted[1].Wait()
    comm.Free()
