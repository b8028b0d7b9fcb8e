"""Corollary 1: the worst coalition, exact on small graphs, bracketed on large."""

import time
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from strategies import connected_topologies, few
from veilsum.errors import InvalidInputError
from veilsum.graphs.connectivity import algebraic_connectivity, vertex_connectivity
from veilsum.graphs.topology import Topology
from veilsum.privacy import coalitions, worst_case as module
from veilsum.privacy.coalitions import CoalitionSearch
from veilsum.privacy.guarantee import guarantee
from veilsum.privacy.remaining import (
    EdgeTest,
    clear_coalitions_directly,
    mu2_bound_of_coalitions,
    mu2_without_coalitions,
)
from veilsum.privacy.worst_case import (
    sparse_mu2_bound_of_coalitions,
    worst_case,
    worst_mu2,
)

RGG12 = [
    *((0, 2), (0, 5), (0, 8), (0, 10), (0, 11), (1, 3), (1, 6), (1, 8), (1, 9)),
    *((2, 4), (2, 10), (2, 11), (3, 6), (3, 8), (3, 9), (4, 10), (4, 11), (5, 7)),
    *((5, 8), (5, 9), (7, 9), (8, 9), (8, 11), (10, 11)),
]


def brute_force(graph, size):
    """min over |C| = t of mu2(G - C), from the definition, by numpy alone."""
    adjacency = nx.to_numpy_array(graph, weight=None)
    worst = np.inf
    for gone in combinations(range(len(adjacency)), size):
        left = np.delete(np.delete(adjacency, gone, axis=0), gone, axis=1)
        spectrum = np.linalg.eigvalsh(np.diag(left.sum(axis=1)) - left)
        worst = min(worst, spectrum[1])
    return worst


# Exact values: roots of the polynomials named, or closed forms; sigma^2, t, mu2, eps.
EXACT = [
    ("petersen", 1.0, 0, 2.0, 0.125),
    ("petersen", 1.0, 1, 1.2679491924311227, 0.19716878364870322),
    # smallest root of x^3 - 8x^2 + 17x - 8
    ("petersen", 1.0, 2, 0.65707691722282979, 0.38047296054263810),
    ("ring:6", 0.25, 0, 1.0, 1.0),
    ("ring:6", 0.25, 1, 0.38196601125010515, 2.6180339887498948),
    ("hypercube:4", 2.0, 0, 2.0, 0.0625),
    # smallest root of x^3 - 11x^2 + 36x - 34
    ("hypercube:4", 2.0, 1, 1.6570769172228298, 0.0754340361034617),
    # smallest root of x^3 - 10x^2 + 28x - 20
    ("hypercube:4", 2.0, 2, 1.0967880740884467, 0.1139691458661136),
    ("hypercube:4", 2.0, 3, 0.6307824806531958, 0.1981665690374889),
    *[("complete:10", 1.0, t, 10.0 - t, 1 / (4 * (10.0 - t))) for t in range(6)],
    ("complete:3", 1.0, 0, 3.0, 1 / 12),
    ("complete:3", 1.0, 1, 2.0, 1 / 8),
]


@each(("spec", "variance", "tolerate", "mu2", "epsilon"), EXACT)
def test_the_corollary_s_values_on_named_graphs(spec, variance, tolerate, mu2, epsilon):
    topology = Topology.family(spec)
    found = worst_case(topology, sigma=variance**0.5, tolerate=tolerate)
    assert found.worst.exact
    assert found.mu2 == pytest.approx(mu2, rel=1e-12)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert found.epsilon == found.worst.epsilon_upper == found.worst.epsilon_lower
    assert len(found.worst.worst_coalition) == tolerate


def test_the_corollary_s_values_on_a_random_geometric_graph():
    """t = 0: .1101215614645113; t = 1: .3233426092058794 at party 8 (sigma^2 = 4)."""
    topology = Topology.from_edges(RGG12, parties=range(12))
    assert worst_case(topology, sigma=2.0, tolerate=0).epsilon == pytest.approx(
        0.1101215614645113, rel=1e-12
    )
    found = worst_case(topology, sigma=2.0, tolerate=1)
    assert found.epsilon == pytest.approx(0.3233426092058794, rel=1e-12)
    assert found.worst.worst_coalition == ("8",)


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        # Worst mu2 for t = 1, 2, 3; None: t parties cut the graph.
        ("complete:5", (4.0, 3.0, 2.0)),
        ("wheel:5", (2.0, 1.0, None)),
        ("ring:5", (2 - 2**0.5, None, None)),
        ("star:5", (None, None, None)),
        # Two decimals, from a table made elsewhere whose seed was not recorded: of the
        # seeds 0 to 59 only this one fits all three rows.
        ("regular:10:4:seed=1", (1.54, 0.99)),
        ("regular:18:4:seed=1", (0.91, 0.65)),
        ("regular:34:4:seed=1", (0.58, 0.40)),
    ],
)
def test_a_planner_s_table_of_worst_mu2(spec, values):
    topology = Topology.family(spec)
    for tolerate, mu2 in enumerate(values, start=1):
        found = worst_case(topology, sigma=1.0, tolerate=tolerate)
        if mu2 is None:
            assert found.worst.cut is not None
            assert found.epsilon is None
        elif spec.startswith("regular"):
            assert found.mu2 == pytest.approx(mu2, abs=0.006)
        else:
            assert found.mu2 == pytest.approx(mu2, rel=1e-12)


@cache
def random_cases():
    stream, count, found = np.random.default_rng(20), 200, []
    while count:
        n = int(stream.integers(4, 15))
        graph = nx.gnp_random_graph(n, stream.uniform(0.4, 0.95), seed=int(count))
        kappa = nx.node_connectivity(graph)
        size = int(stream.integers(0, 4))
        if kappa > size:
            count -= 1
            found.append((graph, size))
    return found


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("part", range(4))
def test_the_search_equals_brute_force_on_200_random_graphs(part):
    for graph, size in random_cases()[part::4]:
        found = worst_mu2(Topology.from_networkx(graph), tolerate=size)
        assert found.exact
        assert found.upper == pytest.approx(brute_force(graph, size), abs=1e-10)
        assert found.lower == found.upper


@given(connected_topologies())
def test_a_larger_coalition_does_no_better_for_the_honest(topology):
    """Lemma A: the worst mu2 falls with t, so only |C| = t needs to be searched."""
    kappa = vertex_connectivity(topology)
    most = min(kappa - 1, topology.n_parties - 2)
    worst = [worst_mu2(topology, tolerate=t).upper for t in range(most + 1)]
    n = topology.n_parties
    for t, (before, after) in enumerate(pairwise(worst)):
        shrink = (n - t - 1) / (n - t)
        assert after <= shrink * before * (1 + 1e-9)


@pytest.mark.parametrize("spec", ["hypercube:4", "circulant:12:1,5", "grid:3x4"])
def test_both_tests_agree_with_the_eigenvalues_around_every_level(spec):
    topology = Topology.family(spec)
    adjacency = topology.adjacency.toarray()
    sets = np.array(list(combinations(range(topology.n_parties), 2)))
    values = mu2_without_coalitions(adjacency, sets)
    top = algebraic_connectivity(topology)
    for level in np.quantile(values[values < 0.99 * top], [0.01, 0.3, 0.6, 0.95]):
        shifted = level + 1e-7
        if np.abs(values - shifted).min() < 1e-9 or shifted >= top:
            continue
        np.testing.assert_array_equal(
            clear_coalitions_directly(adjacency, sets, shifted), values > shifted
        )
        edge = EdgeTest(topology, shifted).clear(sets)
        np.testing.assert_array_equal(edge, values > shifted)


@given(connected_topologies(), st.integers(1, 3))
def test_the_family_bound_never_exceeds_what_a_member_achieves(topology, size):
    n = topology.n_parties
    if n - size < 2:
        return
    adjacency = topology.adjacency.toarray()
    sets = np.array(list(combinations(range(n), size)))
    bound = mu2_bound_of_coalitions(adjacency, [], np.arange(n), size)
    assert bound <= mu2_without_coalitions(adjacency, sets).min() + 1e-9


@each("spec", ["petersen", "hypercube:5", "regular:40:6:seed=1", "circulant:30:1,7,11"])
@each("size", [1, 2])
def test_the_sparse_bound_never_exceeds_the_exact_answer(spec, size):
    topology = Topology.family(spec)
    whole = algebraic_connectivity(topology)
    exact = worst_mu2(topology, tolerate=size)
    bound = sparse_mu2_bound_of_coalitions(topology, mu2=whole, size=size)
    assert exact.exact
    assert whole - size <= bound <= exact.upper


@few
@given(connected_topologies(), st.integers(1, 2))
def test_the_sparse_bound_holds_on_any_graph(topology, size):
    n = topology.n_parties
    if n - size < 2:
        return
    sets = np.array(list(combinations(range(n), size)))
    worst = mu2_without_coalitions(topology.adjacency.toarray(), sets).min()
    whole = algebraic_connectivity(topology)
    assert (
        sparse_mu2_bound_of_coalitions(topology, mu2=whole, size=size) <= worst + 1e-9
    )


def test_a_cut_is_named_and_there_is_no_number():
    found = worst_case(Topology.family("karate"), sigma=1.0, tolerate=1, distance=1.0)
    assert (found.status, found.epsilon) == ("partial", None)
    assert found.worst.cut == ("0",)
    assert found.worst.vertex_connectivity == 1
    assert found.attacker_success == 1.0


def test_the_json_has_the_tolerance_keys_and_no_infinity():
    plain = worst_case(Topology.family("ring:6"), sigma=1.0, tolerate=1).to_dict()
    assert plain["epsilon"] == plain["epsilon_upper"]
    for key in ("worst_coalition", "epsilon_lower", "exact", "cut"):
        assert key in plain
    assert plain["vertex_connectivity"] == 2
    assert "worst" not in plain


def test_the_guarantee_is_the_one_against_the_coalition_it_names():
    topology = Topology.family("regular:12:4:seed=2")
    found = worst_case(topology, sigma=2.0, tolerate=2)
    named = guarantee(topology, sigma=2.0, corrupted=found.worst.worst_coalition)
    assert found.epsilon == pytest.approx(named.epsilon, rel=1e-9)
    assert found.honest == named.honest


@pytest.mark.parametrize(
    ("spec", "tolerate"),
    [
        *[("complete:6", 1), ("complete:7", 2), ("ring:9", 1), ("petersen", 2)],
        *[("hypercube:4", 3), ("circulant:12:1,2", 3), ("grid:3x4", 1)],
    ],
)
def test_of_equally_bad_coalitions_all_machines_name_the_same(spec, tolerate):
    """Another machine rounds otherwise, here in the last digits of the weights."""
    graph = Topology.family(spec)
    stream = np.random.default_rng(4)
    found = {worst_mu2(graph, tolerate=tolerate).coalition}
    for _ in range(8):
        noise = 1.0 + 1e-14 * stream.uniform(-1, 1, graph.n_edges)
        other = replace(graph, weights=graph.weights * noise)
        found.add(worst_mu2(other, tolerate=tolerate).coalition)
    assert len(found) == 1


def test_out_of_work_gives_a_bracket_around_the_exact_answer():
    topology = Topology.family("regular:16:6:seed=1")
    exact = worst_mu2(topology, tolerate=3)
    for most in (0.0, 1.0, 10.0):
        found = worst_mu2(topology, tolerate=3, most_work=most)
        assert not found.exact
        assert (found.lower or 0.0) <= exact.upper <= found.upper


def test_an_interrupt_keeps_the_bracket_found_so_far():
    topology = Topology.family("regular:60:8:seed=1")
    seen = []

    def stop(done, total):
        seen.append((done, total))
        raise KeyboardInterrupt

    found = CoalitionSearch(topology, 2, 10**7, stop).run()
    assert seen
    assert not found.exact
    assert found.lower <= found.upper


def test_progress_ends_at_the_total():
    seen = []
    topology = Topology.family("regular:20:6:seed=1")
    CoalitionSearch(topology, 2, 10**7, lambda *pair: seen.append(pair)).run()
    assert seen[-1][0] == seen[-1][1]


def test_symmetry_saves_work_and_changes_nothing(monkeypatch):
    topology = Topology.family("hypercube:4")
    short = CoalitionSearch(topology, 3, 10**7)
    with_symmetry = short.run()
    monkeypatch.setattr(coalitions, "is_vertex_transitive", lambda _: False)
    long = CoalitionSearch(topology, 3, 10**7)
    assert long.run().upper == pytest.approx(with_symmetry.upper, rel=1e-12)
    assert short.work < long.work / 2


def test_edge_weights_count(monkeypatch):
    """A ring of four with one weak link: without its far party that link is alone."""
    links = [(0, 1), (1, 2), (2, 3), (3, 0)]
    topology = Topology.from_edges(links, weights=[1.0, 4.0, 1.0, 4.0])
    found = worst_mu2(topology, tolerate=1)
    # Any three in a row: a path with weights 1 and 4, mu2 = 5 - sqrt(13).
    assert found.upper == pytest.approx(5 - 13**0.5, rel=1e-12)


@pytest.mark.parametrize(
    ("tolerate", "words"), [(-1, "negative"), (4, "only one honest"), (9, "only one")]
)
def test_a_tolerance_that_makes_no_sense_is_refused(tolerate, words):
    with pytest.raises(InvalidInputError, match=words):
        worst_case(Topology.family("complete:5"), sigma=1.0, tolerate=tolerate)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
def test_one_party_of_a_thousand_is_found_exactly():
    """Every loss checked again by shift-invert eigenvalues of the parties near it."""
    topology = Topology.family("regular:1000:6:seed=1")
    found = worst_mu2(topology, tolerate=1)
    assert found.exact
    for party in range(0, 1000, 97):
        left = algebraic_connectivity(topology.without([party]))
        assert left >= found.upper * (1 - 1e-9)


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        (Topology.from_edges([(0, 1), (2, 3)]), "in pieces before anybody colludes"),
        (Topology.family("path:5"), "does not withstand 1: without 1 the others fall"),
        (Topology.family("complete:4"), "Worst coalition of 1: 0; epsilon 0.0833333, "),
    ],
)
def test_a_worst_case_is_one_sentence(topology, words):
    """Against one of four all linked: three are left, mu2 = 3, epsilon = 1 / 12."""
    assert words in worst_case(topology, sigma=1.0, tolerate=1).worst.sentence


def test_only_the_last_searches_are_remembered(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 2)
    module._FOUND.clear()
    rings = [Topology.family(f"ring:{n}") for n in (5, 6, 7)]
    first = [worst_mu2(ring, tolerate=1) for ring in rings]
    assert [key[0] for key in module._FOUND] == rings[1:]
    assert worst_mu2(rings[2], tolerate=1) is first[2]
    assert worst_mu2(rings[0], tolerate=1).upper == pytest.approx(first[0].upper)


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_large_graph_gets_an_interval(monkeypatch):
    """The large road, taken by a graph small enough to know the answer."""
    topology = Topology.family("regular:400:8:seed=1")
    exact = worst_mu2(topology, tolerate=1)
    monkeypatch.setattr(module, "DENSE_PARTIES", 100)
    module._FOUND.clear()
    found = worst_case(topology, sigma=1.0, tolerate=1)
    assert not found.worst.exact
    assert found.worst.vertex_connectivity is None
    assert found.worst.epsilon_lower <= 1 / (4 * exact.upper) * (1 + 1e-9)
    assert found.worst.epsilon_upper >= 1 / (4 * exact.upper) * (1 - 1e-9)
    assert found.worst.epsilon_upper <= 3 * found.worst.epsilon_lower


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_cut_of_a_large_graph_is_found(monkeypatch):
    monkeypatch.setattr(module, "DENSE_PARTIES", 10)
    found = worst_case(Topology.family("barbell:20:20"), sigma=1.0, tolerate=1)
    assert found.worst.cut in {("19",), ("20",)}
    assert found.epsilon is None


def test_a_small_graph_is_searched_by_one_thread_of_blas(monkeypatch):
    """Several mostly wait for each other: twelve times the processor time."""
    control = pytest.importorskip("threadpoolctl")

    def threads():
        info = control.threadpool_info()
        return {one["num_threads"] for one in info if one["user_api"] == "blas"}

    seen, values = [], coalitions.mu2_values_without_coalitions

    def noted(*given):
        seen.append(threads())
        return values(*given)

    monkeypatch.setattr(coalitions, "mu2_values_without_coalitions", noted)
    with control.threadpool_limits(2, user_api="blas"):
        before = threads()
        module._FOUND.clear()
        worst_mu2(Topology.family("circulant:80:1,5"), tolerate=2, most_work=1.0)
        assert threads() == before
    assert seen
    assert all(one == {1} for one in seen)


def test_a_search_that_starts_no_threads_does_not_look_for_libraries(monkeypatch):
    """To find them takes longer than the search; without them none must start.

    Threads would take several times the processor time of the search itself.
    """
    control = pytest.importorskip("threadpoolctl")
    n = module.UNTHREADED_PARTIES

    def others():
        return time.process_time() - time.thread_time()

    with control.threadpool_limits(2, user_api="blas"):
        monkeypatch.setattr(module, "_one_blas_thread", None)
        module._FOUND.clear()
        before, start = others(), time.thread_time()
        worst_mu2(Topology.family(f"circulant:{n}:1,5"), tolerate=2, most_work=1e3)
        assert others() - before < (time.thread_time() - start) / 2
        with pytest.raises(TypeError):  # larger graphs do look
            worst_mu2(
                Topology.family(f"circulant:{n + 1}:1,5"), tolerate=1, most_work=1.0
            )
