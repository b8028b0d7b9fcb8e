import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from strategies import any_topologies, coalitions, eighths, few, seeds, sigmas
from veilsum.errors import MemoryShortError
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import GaussianMasks, check_mask_sigma
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.minimise import executions as executions_module, executions as module
from veilsum.minimise.executions import simulate
from veilsum.privacy.transcript import TranscriptDrawnEpoch, simulate_transcript

K3 = Topology.family("complete:3")


def stream(seed=0):
    return np.random.default_rng(seed)


@few
@given(st.data(), any_topologies(), seeds, sigmas)
def test_every_execution_keeps_the_sum_and_each_component_s_sum(
    data, topology, seed, sigma
):
    corrupted = data.draw(coalitions(topology))
    rows = data.draw(eighths((topology.n_parties, 2)))
    found = simulate(
        topology,
        rows,
        sigma=sigma,
        executions=7,
        stream=stream(seed),
        corrupted=corrupted,
    )
    assert len(found) == 7
    room = 1e-12 * sigma * topology.n_edges * 50
    total = np.broadcast_to(rows.sum(axis=0), (7, 2))
    np.testing.assert_allclose(found.effective.sum(axis=1), total, atol=room)
    honest = topology.without(topology.indices(corrupted))
    assert found.honest == honest.parties
    for part in graph_components(honest):
        where = sorted(topology.indices(honest.names(part)))
        sums = found.stripped[:, list(part)].sum(axis=1)
        expected = np.broadcast_to(rows[where].sum(axis=0), (7, 2))
        np.testing.assert_allclose(sums, expected, atol=room)


@few
@given(any_topologies(), seeds)
def test_without_a_coalition_nothing_is_stripped(topology, seed):
    rows = np.arange(float(topology.n_parties))
    found = simulate(topology, rows, sigma=1.0, executions=3, stream=stream(seed))
    np.testing.assert_array_equal(found.stripped, found.effective)
    assert found.parties == found.honest == topology.parties


def test_a_party_whose_every_neighbour_is_corrupted_is_laid_bare():
    star = Topology.family("star:4")
    found = simulate(
        star,
        [1.0, 2.0, 3.0, 4.0],
        sigma=5.0,
        executions=20,
        stream=stream(),
        corrupted=["0"],
    )
    expected = np.broadcast_to([[2.0], [3.0], [4.0]], (20, 3, 1))
    np.testing.assert_array_equal(found.stripped, expected)
    assert found.effective.std() > 1


def test_everyone_corrupted_leaves_no_rows_to_strip():
    found = simulate(
        K3, [1, 2, 3], sigma=1.0, executions=4, stream=stream(), corrupted=K3.parties
    )
    assert found.stripped.shape == (4, 0, 1)
    assert found.honest == ()


@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_results_do_not_depend_on_where_chunks_end(monkeypatch, chunks, extra):
    """Three edges with two shares each: 60 normals are chunks of ten executions."""
    monkeypatch.setattr(module, "CHUNK_NORMALS", 60)
    count = 10 * chunks + extra
    options = {"sigma": 2.0, "corrupted": ["1"]}
    long = simulate(K3, [1, 2, 3], executions=41, stream=stream(5), **options)
    short = simulate(K3, [1, 2, 3], executions=count, stream=stream(5), **options)
    assert len(short) == count
    np.testing.assert_array_equal(short.effective, long.effective[:count])
    np.testing.assert_array_equal(short.stripped, long.stripped[:count])
    distinct = np.unique(long.effective[:, 0, 0])
    assert len(distinct) == 41


def test_a_chunk_smaller_than_one_execution_still_holds_one(monkeypatch):
    monkeypatch.setattr(module, "CHUNK_NORMALS", 1)
    found = simulate(K3, [1, 2, 3], sigma=1.0, executions=5, stream=stream())
    assert len(np.unique(found.effective[:, 0, 0])) == 5


def test_a_seed_repeats_the_executions_bit_for_bit():
    one, two = (
        simulate(K3, [1, 2, 3], sigma=1.0, executions=50, stream=stream(9))
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.effective, two.effective)


def test_coefficients_come_one_row_per_party():
    """The paper writes A as m x n; its transpose here must not pass unnoticed."""
    rows = [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]
    found = simulate(K3, rows, sigma=1e-9, executions=2, stream=stream())
    np.testing.assert_allclose(found.effective[0], rows, atol=1e-6)
    transposed = np.array(rows).T
    with refused("wrong-shape", mentions=("3",)):
        simulate(K3, transposed, sigma=1.0, executions=2, stream=stream())


@pytest.mark.parametrize("bad", [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
def test_a_wrong_number_of_coefficients_is_refused(bad):
    with refused("wrong-shape", mentions=("3",)):
        simulate(K3, bad, sigma=1.0, executions=2, stream=stream())


@pytest.mark.parametrize("executions", [0, -5])
def test_at_least_one_execution_is_needed(executions):
    with refused("executions-not-positive", mentions=("1,", executions)):
        simulate(K3, [1, 2, 3], sigma=1.0, executions=executions, stream=stream())


def test_more_executions_than_fit_are_refused_before_they_are_begun():
    with refused("memory-short", MemoryShortError, mentions=("4,000",)):
        simulate(
            K3,
            [1, 2, 3],
            sigma=1.0,
            executions=10**11,
            corrupted=["0"],
            stream=stream(),
        )


@each("sigma", [0.0, -1.0, np.nan, np.inf])
def test_a_sigma_that_masks_nothing_is_refused(sigma):
    with refused("sigma-not-positive"):
        simulate(K3, [1, 2, 3], sigma=sigma, executions=2, stream=stream())


def check_normal(samples, mean, covariance, *, errors=4.0):
    """Mean and covariance within so many standard errors of a Gaussian's."""
    size = len(samples)
    variance = np.diag(covariance)
    assert (
        abs(samples.mean(axis=0) - mean) <= errors * np.sqrt(variance / size) + 1e-12
    ).all()
    spread = np.sqrt((np.outer(variance, variance) + covariance**2) / size)
    assert (abs(np.cov(samples.T) - covariance) <= errors * spread + 1e-12).all()


@pytest.mark.statistical
def test_effective_coefficients_have_the_law_of_lemma_one():
    """Petersen, 100,000 executions, seed 0: N(A, 2 sigma^2 L) within 4 s.e.

    65 numbers, about 40 of them different from rounding error: false-alarm rate 0.4 %.
    """
    graph = Topology.family("petersen")
    rows = np.arange(1.0, 11.0)
    found = simulate(graph, rows, sigma=1.5, executions=100_000, stream=stream(0))
    covariance = 2 * 1.5**2 * graph.laplacian.toarray()
    check_normal(found.effective[:, :, 0], rows, covariance)


@pytest.mark.statistical
def test_stripped_coefficients_have_the_law_of_the_honest_graph():
    """Petersen without {0, 1}, 100,000 executions, seed 1, within 4 s.e.

    44 numbers: false-alarm rate 0.3 %.
    """
    graph = Topology.family("petersen")
    rows = np.arange(1.0, 11.0)
    found = simulate(
        graph,
        rows,
        sigma=1.0,
        executions=100_000,
        stream=stream(1),
        corrupted=["0", "1"],
    )
    honest = graph.without({0, 1})
    check_normal(found.stripped[:, :, 0], rows[2:], 2 * honest.laplacian.toarray())


@pytest.mark.statistical
def test_weights_scale_the_noise_of_their_edges():
    """C4 with variances 1, 4, 1, 4: Cov = 2 L_w within 4 s.e.; seed 2.

    14 numbers: false-alarm rate 0.1 %.
    """
    ring = Topology.from_edges(
        [(0, 1), (1, 2), (2, 3), (3, 0)], weights=[1.0, 4.0, 1.0, 4.0]
    )
    found = simulate(ring, np.zeros(4), sigma=1.0, executions=100_000, stream=stream(2))
    check_normal(found.effective[:, :, 0], np.zeros(4), 2 * ring.laplacian.toarray())


@pytest.mark.statistical
def test_arcs_carry_one_share():
    """A directed 3-cycle: Cov = sigma^2 L within 4 s.e.; seed 3, 9 numbers: 0.06 %."""
    cycle = Topology.from_edges([(0, 1), (1, 2), (2, 0)], directed=True)
    found = simulate(
        cycle, np.zeros(3), sigma=2.0, executions=100_000, stream=stream(3)
    )
    check_normal(found.effective[:, :, 0], np.zeros(3), 4 * cycle.laplacian.toarray())


@pytest.mark.statistical
def test_coefficients_of_one_party_are_masked_independently():
    """K3 with two coefficients: Cov = I x 2 L within 4 s.e.; seed 4.

    27 numbers: false-alarm rate 0.2 %.
    """
    rows = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    found = simulate(K3, rows, sigma=1.0, executions=100_000, stream=stream(4))
    flat = found.effective.transpose(0, 2, 1).reshape(-1, 6)
    covariance = np.kron(np.eye(2), 2 * K3.laplacian.toarray())
    check_normal(flat, rows.T.ravel(), covariance)


@pytest.mark.statistical
def test_the_keyed_protocol_has_the_same_law():
    """800 runs of keyed streams against the same covariance, roots 0..799, 4 s.e.

    Both phases of a view, K3 with C = {2}: 14 numbers, false-alarm rate 0.1 %.
    """
    law = GaussianMasks(check_mask_sigma(1.0))
    rows = np.array([[1.0], [2.0], [3.0]])
    effective, stripped = [], []
    for root in range(800):
        shares = draw_mask_shares(K3, law, ShareStreams(root), size=1)
        effective.append((rows + shares.masks()).ravel())
        view = simulate_transcript(
            law, [TranscriptDrawnEpoch(0, rows, shares)], corrupted=["2"]
        ).view()
        stripped.append(view.stripped.ravel())
    check_normal(np.array(effective), rows.ravel(), 2 * K3.laplacian.toarray())
    honest = K3.without({2})
    check_normal(np.array(stripped), rows[:2].ravel(), 2 * honest.laplacian.toarray())


@pytest.mark.statistical
def test_large_work_is_cut_in_two_that_have_the_law_and_repeat(monkeypatch):
    """Both halves and their independence, at four standard errors.

    Ten numbers are checked: false alarms below 10 x 6.4e-5 over seeds; this one is
    fixed.
    """
    count = 40_001
    monkeypatch.setattr(executions_module, "PARALLEL_NORMALS", 6 * count)
    one, two = (
        simulate(K3, [1, 2, 3], sigma=1.0, executions=count, stream=stream(5))
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.effective, two.effective)
    values = one.effective[:, :, 0]
    half = count // 2
    error = 4 * np.sqrt(4.0 / half)  # each mask has variance 2 sigma^2 d = 4
    for part in (values[:half], values[half:]):
        np.testing.assert_allclose(part.mean(axis=0), [1, 2, 3], atol=error)
    cross = np.corrcoef(values[:half, 0], values[half : 2 * half, 0])[0, 1]
    assert abs(cross) < 4 / np.sqrt(half)
    assert not np.array_equal(values[:half], values[half : 2 * half])


@pytest.mark.parametrize("where", ["threads:3", "processes:2"])
def test_executions_are_the_same_whoever_shares_them(where, monkeypatch):
    """600 shares in twelve parts; a later simulation goes on from the same stream."""
    monkeypatch.setattr(module, "PARALLEL_NORMALS", 100)

    def both(on):
        one = stream(4)
        keys = {"sigma": 2.0, "stream": one, "corrupted": ["1"], "progress": False}
        large = simulate(K3, [1, 2, 3], executions=100, on=on, **keys)
        small = simulate(K3, [1, 2, 3], executions=10, on=on, **keys)
        return large, small, one.random()

    alone, shared = both(None), both(where)
    assert alone[2] == shared[2]
    for first, second in zip(alone[:2], shared[:2], strict=True):
        np.testing.assert_array_equal(first.effective, second.effective)
        np.testing.assert_array_equal(first.stripped, second.stripped)
    assert len(np.unique(alone[0].effective[:, 0, 0])) == 100
