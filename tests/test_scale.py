"""Work in pieces comes to the same however it is split."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from veilsum.scale import map_pieces, processes, seed_of


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


@pytest.mark.slow
def test_other_processes_come_to_the_same():
    with processes(2) as pool:
        found = list(map_pieces(draw, range(6), seed=5, on=pool))
    assert found == list(map_pieces(draw, range(6), seed=5))


def test_seeds_are_of_the_whole_and_of_the_key():
    seeds = {seed_of(seed, key) for seed in range(30) for key in range(30)}
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
