"""Work in pieces comes to the same however it is split."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from cases import each
from refusals import refused
from veilsum.scale.pieces import map_pieces, seed_of_piece
from veilsum.scale.processes import WorkerProcesses
from veilsum.scale.workers import workers_on


def draw(key, seed):
    return key, float(np.random.default_rng(seed).normal())


def test_results_do_not_depend_on_who_does_the_work():
    keys = [f"piece {k}" for k in range(20)]
    alone = list(map_pieces(draw, keys, seed=5))
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as pool:
            assert list(map_pieces(draw, keys, seed=5, on=pool, ahead=2)) == alone
    # Other pieces beside a piece change nothing in it.
    assert list(map_pieces(draw, keys[7:9], seed=5)) == alone[7:9]
    assert list(map_pieces(draw, keys, seed=6)) != alone


def draw_or_die(key, seed, place):
    """The first worker that comes to a marked piece ends without a word."""
    name, died = key.split("/")
    if died == "dies" and not (place / name).exists():
        (place / name).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return draw(key, seed)


def fail(key, seed):
    raise ValueError(f"piece {key} of {seed > 0}")


def all_from(where, place):
    """Pieces of which one kills its worker, on whoever is named; and one that fails."""
    keys = [f"{k}/{'dies' if k == 3 else 'lives'}" for k in range(8)]
    alone = [draw(key, seed_of_piece(5, key)) for key in keys]
    work = partial(draw_or_die, place=place)
    with workers_on(where) as on:
        assert list(map_pieces(work, keys, seed=5, on=on)) == alone
        assert (place / "3").exists(), "nobody died"
        with pytest.raises(ValueError, match="piece 7 of True"):
            list(map_pieces(fail, [7], seed=5, on=on))


def test_a_process_that_is_killed_changes_nothing(tmp_path):
    all_from("processes:2", tmp_path)


def test_a_process_that_always_dies_is_given_up(tmp_path):
    with WorkerProcesses(1) as on, pytest.raises(BrokenExecutor, match="fewer of them"):
        list(map_pieces(always_die, [0], seed=0, on=on))


def always_die(key, seed):
    os.kill(os.getpid(), signal.SIGKILL)


def test_without_ray_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr("veilsum.scale.cluster.find_spec", lambda _: None)
    with refused("missing-ray", mentions=(".[ray]",)):
        workers_on("ray:2")
    without = {"grpc"}
    monkeypatch.setattr(
        "veilsum.scale.cluster.find_spec", lambda name: name not in without or None
    )
    with refused("missing-ray", mentions=(".[ray]",)):
        workers_on("ray://127.0.0.1:1")
    without.clear()
    with refused("cluster-unreachable"):
        workers_on("ray://127.0.0.1:1")


def test_ray_is_not_imported_before_somebody_asks_for_it():
    code = "import sys, veilsum.scale.workers; print({'ray', 'numpy'} & {*sys.modules})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "set()\n", ran.stderr


def test_a_cluster_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr("veilsum.scale.cluster.find_spec", lambda _: "there")
    with refused("cluster-unreachable"):
        workers_on("ray:127.0.0.1:1")


@each(
    "where",
    ["", "processes", "processes:0", "processes:-1", "threads:x", "ray:", "gpu"],
)
def test_who_cannot_work_is_refused(where):
    with refused("malformed-workers"):
        workers_on(where)


def test_seeds_are_of_the_whole_and_of_the_key():
    seeds = {seed_of_piece(seed, key) for seed in range(30) for key in range(30)}
    assert len(seeds) == 900
    assert all(0 <= one < 2**128 for one in seeds)


def test_no_more_is_begun_than_is_asked_for():
    begun = []
    with ThreadPoolExecutor(1) as pool:
        results = map_pieces(
            lambda key, _: begun.append(key), range(1000), seed=0, on=pool, ahead=3
        )
        next(results)
        results.close()
    assert len(begun) <= 5


def test_who_stops_leaves_nothing_running():
    go = threading.Event()

    def wait(key, _):
        if key:
            go.wait()
        return key

    with ThreadPoolExecutor(1) as pool:
        results = map_pieces(wait, range(50), seed=0, on=pool, ahead=10)
        assert next(results) == 0
        results.close()
        go.set()
    assert list(map_pieces(lambda key, _: key, [], seed=0)) == []
