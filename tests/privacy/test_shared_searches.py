"""Searches that others share find what one process finds, to the last bit."""

from concurrent.futures import BrokenExecutor, ThreadPoolExecutor

import numpy as np
import pytest

from refusals import refused
from veilsum.graphs.topology import Topology
from veilsum.privacy import coalitions
from veilsum.privacy.coalitions import CoalitionSearch
from veilsum.privacy.planner import plan
from veilsum.privacy.worst_case import worst_case
from veilsum.scale.workers import workers_shared_by

# Irregular ones: nothing is skipped because all parties are alike.
NETWORKS = {
    "weighted": (18, 3, 1e6),
    "sparse, by edges": (60, 1, 1e6),
    "out of work": (26, 3, 900.0),
}


def network(n, seed=3):
    """A ring with chords of all weights."""
    chance = np.random.default_rng(seed)
    parties = [str(k) for k in range(n)]
    pairs = {(k, (k + 1) % n) for k in range(n)} | {(k, (k + 3) % n) for k in range(n)}
    pairs |= {tuple(sorted(chance.choice(n, 2, replace=False))) for _ in range(n)}
    edges = sorted({(min(a, b), max(a, b)) for a, b in pairs if a != b})
    weights = chance.uniform(0.5, 2.0, len(edges))
    return Topology(tuple(parties), np.array(edges), weights)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(coalitions, "BATCH_ENTRIES", 10_000)
    monkeypatch.setattr("veilsum.privacy.remaining.BATCH_ENTRIES", 10_000)


def searched(name, on=None):
    n, size, work = NETWORKS[name]
    told = []
    search = CoalitionSearch(network(n), size, work, lambda *one: told.append(one), on)
    found = search.run()
    return found, search.work, search.done, told


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("bad_start", [False, True])
def test_the_worst_coalition_is_the_same_whoever_shares_the_search(
    name, bad_start, monkeypatch
):
    """From a bad start better coalitions are found on the way, and levels change."""
    if bad_start:
        first = lambda _, size: tuple(range(size))  # noqa: E731
        monkeypatch.setattr(coalitions, "attack_mu2_by_coalition", first)
    alone = searched(name)
    assert alone[0].exact == (name != "out of work")
    with ThreadPoolExecutor(3) as pool:
        assert searched(name, pool) == alone


@pytest.mark.parametrize(("n", "degree"), [(10, 4), (30, 5)])
def test_a_network_is_the_same_whoever_shares_the_planning(n, degree):
    """With circulant and random graphs, and exchanges from one start or several."""
    asked = {"tolerate": 2, "degree": degree, "attacker_success": 0.51, "distance": 1.0}
    alone = plan(n, **asked, seed=2, progress=False)
    shared = plan(n, **asked, seed=2, on="threads:3", progress=False)
    assert shared.to_dict() == alone.to_dict()
    assert {"circulant", "random regular"} <= {one.kind for one in alone.plans}


@pytest.mark.slow
def test_processes_find_the_same():
    """What travels to them can travel; searches that nobody remembers from before."""
    asked = {"tolerate": 2, "sigma": 1.0}
    graph = network(20, seed=9)
    with workers_shared_by("processes:2") as on:
        shared = CoalitionSearch(graph, 2, 1e6, None, on).run()
    assert shared == CoalitionSearch(graph, 2, 1e6).run()
    assert worst_case(graph, **asked, on="threads:2").epsilon == (
        worst_case(graph, **asked).epsilon
    )
    small = {"tolerate": 1, "degree": 3, "epsilon": 0.1, "progress": False}
    found = plan(8, **small, on="processes:2")
    assert found.to_dict() == plan(8, **small).to_dict()


def test_those_who_end_before_the_work_are_named():
    said = refused("workers-lost")
    with said, workers_shared_by("threads:1"):
        raise BrokenExecutor("gone")
