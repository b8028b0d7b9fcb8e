"""The corollary: (t+1)-connectivity protects against every coalition of at most t."""

from functools import cache
from itertools import combinations
from math import sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from cases import each
from golden import rgg12
from strategies import connected_topologies, few
from veilsum.graphs.connectivity import (
    algebraic_connectivity,
    is_connected,
    minimum_vertex_cut,
    vertex_connectivity,
)
from veilsum.graphs.topology import Topology
from veilsum.privacy.guarantee import guarantee


def every_coalition(topology, size, sigma):
    """The guarantee against each coalition of one size, by brute force."""
    return {
        corrupted: guarantee(topology, sigma=sigma, corrupted=corrupted)
        for corrupted in combinations(topology.parties, size)
    }


@cache
def worst_coalitions(topology, size, sigma):
    """(mu2, epsilon, all coalitions that attain them)."""
    promises = every_coalition(topology, size, sigma)
    assert all(promise.status == "private" for promise in promises.values())
    epsilon = max(promise.epsilon for promise in promises.values())
    attained = {
        corrupted
        for corrupted, promise in promises.items()
        if promise.epsilon == pytest.approx(epsilon, rel=1e-9)
    }
    return promises[min(attained)].mu2, epsilon, attained


def least_root(coefficients):
    """The least root of a polynomial, leading coefficient first, to 30 digits."""
    with mpmath.workdps(30):
        roots = mpmath.polyroots(coefficients, maxsteps=200, extraprec=200)
        return float(min(root.real for root in roots))


# Worst mu2 and epsilon over all coalitions of each size 0, 1, 2, ...: brute force with
# 40-digit arithmetic, independently of this package.
WORST = {
    "petersen": (
        1.0,
        [
            (2.0, 0.125),
            (1.2679491924311227, 0.19716878364870322),
            (0.65707691722282979, 0.38047296054263810),
        ],
    ),
    "ring:6": (1 / 4, [(1.0, 1.0), (0.38196601125010515, 2.6180339887498948)]),
    "hypercube:4": (
        2.0,
        [
            (2.0, 0.0625),
            (1.6570769172228298, 0.0754340361034617),
            (1.0967880740884467, 0.1139691458661136),
            (0.6307824806531958, 0.1981665690374889),
        ],
    ),
    "RGG12": (
        4.0,
        [
            (0.5675546111843119, 0.1101215614645113),
            (0.1932934238190825, 0.3233426092058794),
        ],
    ),
    # K_n less s parties is K_{n-s}: mu2 = n - s.
    "complete:10": (1.0, [(10.0 - s, 1 / (4 * (10 - s))) for s in range(6)]),
    "complete:3": (1.0, [(3.0, 1 / 12), (2.0, 1 / 8)]),
}


def graph(name):
    return rgg12() if name == "RGG12" else Topology.family(name)


@each("name", WORST)
def test_the_worst_coalition_of_each_size_is_the_known_one(name):
    variance, expected = WORST[name]
    for size, (mu2, epsilon) in enumerate(expected):
        found = worst_coalitions(graph(name), size, sqrt(variance))
        assert found[0] == pytest.approx(mu2, rel=1e-12, abs=0)
        assert found[1] == pytest.approx(epsilon, rel=1e-12, abs=0)


@each(
    ("name", "size", "polynomial"),
    [
        ("petersen", 2, [1, -8, 17, -8]),
        ("hypercube:4", 1, [1, -11, 36, -34]),
        ("hypercube:4", 2, [1, -10, 28, -20]),
        ("hypercube:4", 3, [1, -22, 187, -772, 1588, -1480, 468]),
        ("RGG12", 1, [1, -16, 90, -204, 150, -22]),
    ],
)
def test_the_worst_mu2_is_the_least_root_of_its_polynomial(name, size, polynomial):
    mu2, _, _ = worst_coalitions(graph(name), size, sqrt(WORST[name][0]))
    assert mu2 == pytest.approx(least_root(polynomial), rel=1e-12, abs=0)


def test_the_worst_pairs_of_the_petersen_graph_are_the_non_adjacent_ones():
    petersen = Topology.family("petersen")
    _, _, single = worst_coalitions(petersen, 1, 1.0)
    assert len(single) == 10
    _, _, pairs = worst_coalitions(petersen, 2, 1.0)
    linked = {petersen.names(edge) for edge in petersen.edges.tolist()}
    assert pairs == set(combinations(petersen.parties, 2)) - linked
    assert len(pairs) == 30
    assert ("0", "2") in pairs


def test_the_worst_triples_of_the_hypercube_are_sixty_four():
    _, _, triples = worst_coalitions(Topology.family("hypercube:4"), 3, sqrt(2.0))
    assert len(triples) == 64
    assert ("0", "3", "5") in {tuple(sorted(triple, key=int)) for triple in triples}


def test_the_worst_single_party_of_the_geometric_graph_is_the_eighth():
    _, _, single = worst_coalitions(rgg12(), 1, 2.0)
    assert single == {("8",)}


@few
@given(connected_topologies(max_agents=7), st.data())
def test_fewer_than_kappa_corrupted_parties_never_break_privacy(topology, data):
    kappa = vertex_connectivity(topology)
    size = data.draw(st.integers(0, kappa - 1))
    for promise in every_coalition(topology, size, 1.0).values():
        assert promise.status == "private"
        assert len(promise.honest) >= 2


@few
@given(connected_topologies())
def test_kappa_corrupted_parties_can_break_it(topology):
    """The condition is tight: a minimum cut leaves no epsilon at all."""
    cut = minimum_vertex_cut(topology)
    assume(cut is not None)
    found = guarantee(topology, sigma=1.0, corrupted=topology.names(cut))
    assert found.status in {"partial", "exposed"}
    assert found.epsilon is None


@each("n", [2, 3, 5])
def test_a_complete_graph_holds_until_one_honest_party_is_left(n):
    """It has no cut; kappa = n - 1 by convention, and t = n - 1 exposes the last."""
    complete = Topology.family(f"complete:{n}")
    for size in range(n - 1):
        for promise in every_coalition(complete, size, 1.0).values():
            assert promise.status == "private"
    for promise in every_coalition(complete, n - 1, 1.0).values():
        assert promise.status == "exposed"


@few
@given(connected_topologies(min_agents=3, weighted=True))
def test_some_loss_lowers_mu2_by_the_share_of_one_party(topology):
    """min_v mu2(G - v) <= (h - 1) / h mu2(G), so coalitions of exactly t are worst.

    The unit Fiedler vector, restricted to V less v, has Rayleigh quotients whose
    numerators and denominators add up to (h - 2) mu2 and h (h - 2) / (h - 1).
    """
    h = topology.n_parties
    after = [algebraic_connectivity(topology.without({v})) for v in range(h)]
    assert min(after) <= (h - 1) / h * algebraic_connectivity(topology) + 1e-9


@few
@given(connected_topologies(min_agents=4, max_agents=7))
def test_the_worst_epsilon_grows_with_the_size_of_the_coalition(topology):
    kappa = vertex_connectivity(topology)
    worst = [worst_coalitions(topology, size, 1.0)[1] for size in range(kappa)]
    assert worst == sorted(worst)


@few
@given(connected_topologies(min_agents=3), st.data())
def test_the_worst_mu2_lies_between_the_bounds_of_fiedler(topology, data):
    """mu2(G) - t <= min mu2(G[H]) <= min((n-t)/n mu2, (d_min - t)(n-t)/(n-t-1))."""
    n, kappa = topology.n_parties, vertex_connectivity(topology)
    t = data.draw(st.integers(0, min(kappa - 1, 2)))
    left = [topology.without(coalition) for coalition in combinations(range(n), t)]
    assert all(is_connected(honest) for honest in left)
    worst = min(algebraic_connectivity(honest) for honest in left)
    mu2 = algebraic_connectivity(topology)
    below = max(mu2 - t, 2 * (kappa - t) * (1 - np.cos(np.pi / (n - t))))
    least_degree = topology.degrees.min()
    above = min((n - t) / n * mu2, (least_degree - t) * (n - t) / (n - t - 1))
    assert below - 1e-9 <= worst <= above + 1e-9
