import numpy as np
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from strategies import any_topologies, coalitions, eighths, few, seeds
from veilsum.graphs.connectivity import graph_components, minimum_vertex_cut
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import GaussianMasks, check_mask_sigma
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.privacy.transcript import TranscriptDrawnEpoch, simulate_transcript

UNIT = GaussianMasks(check_mask_sigma(1.0))


def run_of(topology, rows, *, seed=0, dim=1, times=2):
    """(shares, coefficients, estimates) of a made-up run with tell-tale estimates."""
    shares = draw_mask_shares(topology, UNIT, ShareStreams(seed), size=rows.shape[1])
    shape = (times, topology.n_parties, dim)
    estimates = 1000.0 + np.arange(np.prod(shape), dtype=float).reshape(shape)
    return shares, rows, estimates


def observe(shares, rows, estimates, *, corrupted):
    names = shares.topology.parties
    told = {
        (k, name): row
        for k, told in enumerate(estimates)
        for name, row in zip(names, told, strict=True)
    }
    drawn = TranscriptDrawnEpoch(0, rows, shares, told=told)
    return simulate_transcript(UNIT, [drawn], corrupted=corrupted).view()


@given(st.data(), any_topologies(), seeds)
def test_a_view_yields_every_component_s_sum_exactly(data, topology, seed):
    """Necessity: whatever the masks, honest edges cancel within a component."""
    corrupted = data.draw(coalitions(topology))
    rows = data.draw(eighths((topology.n_parties, 2)))
    view = observe(*run_of(topology, rows, seed=seed), corrupted=corrupted)
    sums = view.component_sums()
    honest = topology.without(topology.indices(corrupted))
    assert set(sums) == {honest.names(part) for part in graph_components(honest)}
    for names, found in sums.items():
        expected = rows[sorted(topology.indices(names))].sum(axis=0)
        np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("spec", ["path:5", "ring:6", "star:5", "petersen", "grid:3x3"])
def test_a_vertex_cut_learns_the_sum_of_every_piece(spec):
    topology = Topology.family(spec)
    cut = topology.names(minimum_vertex_cut(topology))
    rows = np.arange(float(topology.n_parties))[:, None] ** 2
    sums = observe(*run_of(topology, rows), corrupted=cut).component_sums()
    assert len(sums) >= 2
    for names, found in sums.items():
        expected = rows[sorted(topology.indices(names))].sum()
        assert found == pytest.approx(expected, abs=1e-11)


@few
@given(st.data(), any_topologies(), seeds)
def test_the_last_honest_party_is_known_exactly(data, topology, seed):
    alone = data.draw(st.sampled_from(topology.parties))
    corrupted = [party for party in topology.parties if party != alone]
    rows = data.draw(eighths((topology.n_parties, 2)))
    view = observe(*run_of(topology, rows, seed=seed), corrupted=corrupted)
    expected = rows[topology.index(alone)]
    np.testing.assert_allclose(view.stripped[0], expected, atol=1e-11)
    np.testing.assert_allclose(view.component_sums()[(alone,)], expected, atol=1e-11)


@few
@given(st.data(), any_topologies(), seeds)
def test_stripping_removes_the_known_shares_and_nothing_more(data, topology, seed):
    """alpha_bar_i = alpha_i + sum over honest neighbours of (r_ij - r_ji)."""
    corrupted = data.draw(coalitions(topology))
    colluders = topology.indices(corrupted)
    rows = data.draw(eighths((topology.n_parties, 1)))
    shares, _, estimates = run_of(topology, rows, seed=seed)
    view = observe(shares, rows, estimates, corrupted=corrupted)
    expected = rows.copy()
    for (i, j), values in zip(topology.edges.tolist(), shares.values, strict=True):
        if i in colluders or j in colluders:
            continue
        noise = values[0] if topology.directed else values[0] - values[1]
        expected[i] += noise
        expected[j] -= noise
    honest = sorted(topology.indices(view.honest))
    np.testing.assert_allclose(view.stripped, expected[honest], atol=1e-11)
    effective = (rows + shares.masks())[honest]
    np.testing.assert_allclose(view.effective, effective, atol=1e-12)


@few
@given(st.data(), any_topologies(), seeds)
def test_known_shares_are_those_on_edges_that_touch_the_coalition(data, topology, seed):
    corrupted = set(data.draw(coalitions(topology)))
    rows = data.draw(eighths((topology.n_parties, 1)))
    shares, _, estimates = run_of(topology, rows, seed=seed)
    view = observe(shares, rows, estimates, corrupted=corrupted)
    assert all(set(edge) & corrupted for edge in view.known_edges)
    ends = [topology.names(edge) for edge in topology.edges.tolist()]
    assert len(view.known_edges) == sum(bool(set(pair) & corrupted) for pair in ends)
    by_edge = {
        tuple(topology.parties[k] for k in edge): values
        for edge, values in zip(topology.edges.tolist(), shares.values, strict=True)
    }
    for edge, values in zip(view.known_edges, view.known_shares, strict=True):
        np.testing.assert_array_equal(values, by_edge[edge])


def test_a_coalition_hears_itself_and_its_neighbours():
    path = Topology.family("path:5")
    rows = np.zeros((5, 1))
    _, _, estimates = run = run_of(path, rows)
    view = observe(*run, corrupted=["0"])
    assert view.heard == ("0", "1")
    np.testing.assert_array_equal(view.estimates, estimates[:, :2])
    nobody = observe(*run, corrupted=[])
    assert nobody.heard == ()
    assert nobody.estimates.shape == (0, 0, 0)
    assert nobody.known_edges == ()


def arrays_in(view):
    return [value for value in vars(view).values() if isinstance(value, np.ndarray)]


@few
@given(st.data(), any_topologies(), seeds)
def test_a_view_holds_no_honest_coefficient_and_no_share_between_honest_parties(
    data, topology, seed
):
    corrupted = data.draw(coalitions(topology))
    colluders = topology.indices(corrupted)
    # Coefficients no draw and no sum of draws will hit by accident.
    rows = np.random.default_rng(seed).standard_normal((topology.n_parties, 2))
    shares, _, estimates = run_of(topology, rows, seed=seed)
    view = observe(shares, rows, estimates, corrupted=corrupted)
    honest_graph = topology.without(colluders)
    linked = {
        name
        for part in graph_components(honest_graph)
        if len(part) > 1
        for name in honest_graph.names(part)
    }
    secret = [rows[topology.index(name)] for name in linked]
    secret += [
        values.ravel()
        for edge, values in zip(topology.edges.tolist(), shares.values, strict=True)
        if not colluders & set(edge)
    ]
    hidden = np.concatenate([np.empty(0), *secret])
    for array in arrays_in(view):
        assert not np.isin(array, hidden).any()
        assert not np.shares_memory(array, rows)
        assert not np.shares_memory(array, shares.values)


def test_a_view_has_only_the_attributes_of_definition_one():
    ring = Topology.family("ring:4")
    view = observe(*run_of(ring, np.zeros((4, 1))), corrupted=["0"])
    assert set(vars(view)) == {
        "corrupted",
        "honest",
        "coefficients",
        "known_edges",
        "known_shares",
        "effective",
        "stripped",
        "heard",
        "estimates",
        "pieces",
    }


def test_a_coalition_stores_its_own_coefficients():
    ring = Topology.family("ring:4")
    rows = np.arange(8.0).reshape(4, 2)
    view = observe(*run_of(ring, rows), corrupted=["3", "1"])
    assert view.corrupted == ("1", "3")
    assert view.coefficients.tolist() == [[2.0, 3.0], [6.0, 7.0]]


def test_a_view_prints_whose_it_is_and_nothing_it_holds():
    ring = Topology.family("ring:4")
    run = run_of(ring, np.full((4, 1), 31415.5))
    assert repr(observe(*run, corrupted=["2", "0"])).startswith("View of 0, 2: private")
    assert repr(observe(*run, corrupted=[])).startswith("View of nobody: private")


def test_a_coalition_that_does_not_exist_is_refused():
    ring = Topology.family("ring:4")
    with refused("unknown-party", mentions=("x",)):
        observe(*run_of(ring, np.zeros((4, 1))), corrupted=["x"])
