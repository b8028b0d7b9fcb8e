import json
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import veilsum as vs
from cases import each
from refusals import refused
from strategies import connected_topologies, finite_arrays, seeds
from veilsum.consortium.scenario import Settings
from veilsum.errors import InvalidGraphError, InvalidInputError, SecretError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import GaussianMasks, check_mask_sigma
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Ball, Box, HalfSpaces, Simplex, WholeSpace
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.solve import central_minimiser, solve
from veilsum.sums.running import SumJobResult

K3 = Topology.family("complete:3")
RING = Topology.family("ring:5")
BOX = Box(-100.0, 100.0, dim=1)
PAPER = [Cost.affine([a], remainder=SquaredNorm(1.0)) for a in (1.0, 2.0, 3.0)]


def short(**options):
    return Settings(**{"iterations": 50, **options})


def rendezvous(n, dim=2, seed=0):
    homes = np.random.default_rng(seed).uniform(-5, 5, (n, dim))
    return [Cost.squared_distance(home) for home in homes]


@settings(max_examples=6)
@given(connected_topologies(max_agents=6), seeds)
def test_masked_runs_approach_the_pooled_minimiser_like_one_over_k(topology, seed):
    """Ten times the iterations, a tenth of the error: DGD with a_k = 1 / (k + 1).

    The mean obeys its own recursion exactly and is at the minimiser from k = 2 on.
    """
    costs = rendezvous(topology.n_parties, seed=seed)
    options = {"domain": Box(-1e4, 1e4, dim=2), "sigma": 1.0, "seed": seed}
    early = solve(
        costs,
        topology=topology,
        corrupted=(),
        settings=Settings(iterations=100),
        **options,
    )
    late = solve(
        costs,
        topology=topology,
        corrupted=(),
        settings=Settings(iterations=1000),
        **options,
    )
    assert late.max_error < 0.15 * early.max_error + 1e-9
    np.testing.assert_allclose(late.minimiser, late.reference, atol=1e-9)


@each(
    "domain",
    [
        Box([-1.0, -1.0], [0.5, 0.25], dim=2),
        Ball([1.0, 1.0], 0.5, dim=2),
        Simplex(2, total=0.5),
        HalfSpaces([[1.0, 2.0], [-1.0, 0.0], [0.0, -1.0]], [0.5, 0.0, 0.0]),
    ],
    ids=["box", "ball", "simplex", "half-spaces"],
)
def test_active_constraints_are_reached_with_and_without_masks(domain):
    costs = [Cost.squared_distance([3.0 + k, 2.0 - k]) for k in range(5)]
    for law, sigma in (("none", None), ("gaussian", 0.5)):
        run = solve(
            costs,
            topology=RING,
            corrupted=(),
            domain=domain,
            law=law,
            sigma=sigma,
            seed=1,
            settings=Settings(iterations=1000),
        )
        np.testing.assert_array_equal(run.reference, central_minimiser(costs, domain))
        assert run.max_error < 0.02
        inside = domain.project(run.estimates)
        np.testing.assert_allclose(inside, run.estimates, atol=1e-12)


def test_without_masks_the_effective_costs_are_the_private_ones():
    run = solve(
        PAPER, topology=K3, corrupted=(), domain=BOX, law="none", settings=short()
    )
    assert run.effective.coefficients.ravel().tolist() == [1.0, 2.0, 3.0]
    assert run.sum_of_masks == 0.0
    assert run.guarantee.status == "no_privacy"


def test_masks_are_the_keyed_ones_and_change_every_coefficient():
    run = solve(
        PAPER,
        topology=K3,
        corrupted=(),
        domain=BOX,
        sigma=2.0,
        seed=5,
        settings=short(),
    )
    law = GaussianMasks(check_mask_sigma(2.0))
    masks = draw_mask_shares(K3, law, ShareStreams(5), size=1).masks()
    expected = np.array([[1.0], [2.0], [3.0]]) + masks
    np.testing.assert_array_equal(run.effective.coefficients, expected)
    assert (abs(masks) > 1e-3).all()
    assert run.sum_of_masks == pytest.approx(abs(masks.sum()), abs=1e-15)
    assert run.sum_of_masks < 1e-14


def test_a_run_s_guarantee_speaks_about_the_coalition_named():
    run = solve(
        PAPER, topology=K3, domain=BOX, sigma=1.0, corrupted=["2"], settings=short()
    )
    assert run.guarantee.epsilon == pytest.approx(1 / 8, rel=1e-12)
    assert run.guarantee.corrupted == ("2",)


def test_a_seed_repeats_a_run_bit_for_bit():
    one, two, other = (
        solve(
            PAPER,
            topology=K3,
            corrupted=(),
            domain=BOX,
            sigma=1.0,
            seed=seed,
            settings=short(),
        )
        for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(one.estimates, two.estimates)
    np.testing.assert_array_equal(one.trace.estimates, two.trace.estimates)
    assert not np.isin(one.effective.coefficients, other.effective.coefficients).any()


def test_without_a_seed_masks_are_fresh():
    one, two = (
        solve(PAPER, topology=K3, corrupted=(), domain=BOX, sigma=1.0, settings=short())
        for _ in range(2)
    )
    assert not np.isin(one.effective.coefficients, two.effective.coefficients).any()


def test_costs_by_name_in_any_order_are_the_costs_in_order():
    named = {"2": PAPER[2], "0": PAPER[0], "1": PAPER[1]}
    options = {"domain": BOX, "sigma": 1.0, "seed": 0, "settings": short()}
    np.testing.assert_array_equal(
        solve(named, topology=K3, corrupted=(), **options).estimates,
        solve(PAPER, topology=K3, corrupted=(), **options).estimates,
    )


def test_the_trace_starts_at_the_start_and_ends_at_the_estimates():
    start = [[50.0], [-50.0], [500.0]]
    run = solve(
        PAPER,
        topology=K3,
        corrupted=(),
        domain=BOX,
        sigma=1.0,
        seed=0,
        settings=short(start=start),
    )
    assert run.trace.iterations[0] == 0
    assert run.trace.iterations[-1] == run.iterations == 50
    assert run.trace.estimates[0].ravel().tolist() == [50.0, -50.0, 100.0]
    np.testing.assert_array_equal(run.trace.estimates[-1], run.estimates)
    expected = np.linalg.norm(run.trace.estimates - run.reference, axis=2)
    np.testing.assert_array_equal(run.trace.errors, expected)
    assert run.max_error == run.trace.errors[-1].max()
    np.testing.assert_array_equal(run.minimiser, run.estimates.mean(axis=0))


def test_rounds_count_phase_one_and_bytes_count_what_crossed_the_links():
    """K3: 6 shares of p numbers, then 6 estimates of m numbers in each iteration."""
    run = solve(
        PAPER,
        topology=K3,
        corrupted=(),
        domain=BOX,
        sigma=1.0,
        settings=Settings(iterations=100),
    )
    assert run.rounds == 101
    assert run.bytes == 8 * (6 * 1 + 6 * 1 * 100)
    matrix = np.diag([1.0, 2.0])
    costs = [Cost.quadratic(matrix, [float(k), 1.0]) for k in range(3)]
    run = solve(
        costs,
        topology=K3,
        corrupted=(),
        domain=Box(-9.0, 9.0, dim=2),
        sigma=0.1,
        settings=Settings(iterations=20, step=0.1),
    )
    assert run.bytes == 8 * (6 * 6 + 6 * 2 * 20)


WANTED_KEYS = {
    "minimiser",
    "reference",
    "max_error",
    "sum_of_masks",
    "iterations",
    "rounds",
    "bytes",
    "quantisation",
    "spread",
    "guarantee",
}


def test_a_result_is_strict_json_with_the_agreed_keys():
    run = solve(
        PAPER, topology=K3, corrupted=(), domain=BOX, sigma=1.0, settings=short()
    )
    again = json.loads(json.dumps(run.to_dict(), allow_nan=False))
    assert set(again) >= WANTED_KEYS
    assert again["guarantee"]["status"] == "private"
    assert again["iterations"] == 50


def test_a_run_shows_no_secret_and_is_not_pickled():
    costs = [Cost.affine([31415.5 + k], remainder=SquaredNorm(1.0)) for k in range(3)]
    run = solve(
        costs, topology=K3, corrupted=(), domain=BOX, sigma=1.0, settings=short()
    )
    assert "31415" not in repr(run)
    assert "3 parties" in repr(run)
    with pytest.raises(SecretError):
        pickle.dumps(run)


def test_a_view_of_a_run_yields_the_sum_of_the_honest():
    run = solve(
        PAPER,
        topology=K3,
        corrupted=(),
        domain=BOX,
        sigma=1.0,
        seed=3,
        settings=short(),
    )
    view = run.view(["2"])
    assert view.component_sums()[("0", "1")] == pytest.approx(3.0, abs=1e-12)
    np.testing.assert_array_equal(view.estimates, run.trace.estimates)
    lone = run.view(["0", "2"])
    assert lone.stripped[0, 0] == pytest.approx(2.0, abs=1e-12)


@settings(max_examples=5)
@given(st.data(), seeds)
def test_quadratic_costs_are_masked_whole(data, seed):
    vectors = data.draw(finite_arrays((3, 2), most=3.0))
    costs = [Cost.quadratic(2.0 * np.eye(2), v) for v in vectors]
    run = solve(
        costs,
        topology=K3,
        corrupted=(),
        domain=Box(-9.0, 9.0, dim=2),
        sigma=0.1,
        seed=seed,
        settings=Settings(iterations=500, step=0.5),
    )
    expected = np.clip(-vectors.mean(axis=0) / 2, -9, 9)
    np.testing.assert_allclose(run.reference, expected, atol=1e-9)
    assert run.max_error < 0.05


def test_local_gradients_run_too():
    costs = [Cost.from_gradient(lambda x, k=k: 2 * (x - k), dim=1) for k in range(3)]
    run = solve(
        costs,
        topology=K3,
        corrupted=(),
        domain=BOX,
        sigma=1.0,
        seed=0,
        settings=Settings(iterations=500),
    )
    assert run.reference[0] == pytest.approx(1.0, abs=1e-9)
    assert run.max_error < 0.05


@each("mixing", ["metropolis", "lazy-metropolis", "max-degree"])
def test_every_doubly_stochastic_mixing_converges(mixing):
    run = solve(
        rendezvous(5),
        topology=RING,
        corrupted=(),
        domain=Box(-50.0, 50.0, dim=2),
        sigma=1.0,
        seed=0,
        settings=Settings(iterations=1000, mixing=mixing),
    )
    assert run.max_error < 0.05


def test_weights_with_a_negative_diagonal_are_refused_for_dgd():
    """Best-constant weights of a star: the hub's 1 - 2 * 9 / (1 + 10) is negative."""
    star = Topology.family("star:10")
    with refused("weights-without-diagonal", mentions=("0",)):
        solve(
            rendezvous(10),
            topology=star,
            corrupted=(),
            domain=Box(-9.0, 9.0, dim=2),
            sigma=1.0,
            settings=short(mixing="best-constant"),
        )


def test_progress_reaches_the_last_iteration():
    told = []
    options = {"sigma": 1.0, "settings": short()}
    solve(
        PAPER,
        topology=K3,
        corrupted=(),
        domain=BOX,
        **options,
        progress=lambda *one: told.append(one),
    )
    assert told[-1] == (50, 50)


def test_a_disconnected_graph_is_refused_with_its_pieces():
    pieces = Topology.from_edges([("ann", "bob"), ("cem", "dee")])
    with refused("graph-disconnected", InvalidGraphError, mentions=("2",)) as caught:
        solve(
            rendezvous(4),
            topology=pieces,
            corrupted=(),
            domain=Box(-9.0, 9.0, dim=2),
            sigma=1.0,
        )
    assert "ann, bob" in str(caught.value)
    assert "cem, dee" in str(caught.value)


def test_costs_of_different_dimension_are_refused_by_party():
    costs = {"0": PAPER[0], "1": Cost.affine([1.0, 2.0]), "2": PAPER[2]}
    with refused("costs-differ", mentions=("1", "2")):
        solve(costs, topology=K3, corrupted=(), domain=BOX, sigma=1.0)


def test_a_domain_of_another_dimension_is_refused():
    with refused("dimension-differs", mentions=("1", "2")):
        solve(PAPER, topology=K3, corrupted=(), domain=Box(-1.0, 1.0, dim=2), sigma=1.0)


@pytest.mark.parametrize(
    "domain", [WholeSpace(1), HalfSpaces([[1.0]], [1.0])], ids=["line", "half-line"]
)
def test_an_unbounded_domain_is_refused(domain):
    with refused("method-unfit"):
        solve(PAPER, topology=K3, corrupted=(), domain=domain, sigma=1.0)


def test_a_directed_graph_is_refused():
    cycle = Topology.from_edges([(0, 1), (1, 2), (2, 0)], directed=True)
    with refused("method-unfit"):
        solve(PAPER, topology=cycle, corrupted=(), domain=BOX, sigma=1.0)


@each(
    ("costs", "what"),
    [
        (PAPER[:2], "each of 3 parties, found 2"),
        ({"0": PAPER[0], "1": PAPER[1]}, "same parties; only one of them has 2"),
        (
            {"0": PAPER[0], "1": PAPER[1], "2": PAPER[2], "eve": PAPER[0]},
            "same parties; only one of them has eve",
        ),
    ],
)
def test_costs_that_do_not_match_the_parties_are_refused(costs, what):
    with pytest.raises(InvalidInputError, match=what):
        solve(costs, topology=K3, corrupted=(), domain=BOX, sigma=1.0)


@each(
    ("options", "what"),
    [
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"sigma": np.nan}, "sigma must be positive"),
        ({"law": "gaussian"}, "needs sigma"),
        ({"law": "none", "sigma": 1.0}, "leave sigma out"),
        ({"sigma": [1.0, 2.0]}, "one for each of 1 coefficients, found 2"),
        ({"sigma": 1.0, "seed": -1}, "seed must not be negative"),
        ({"sigma": 1.0, "corrupted": ["7"]}, "unknown party '7'"),
        ({"sigma": 1.0, "settings": Settings(power=0.5)}, "power"),
        ({"sigma": 1.0, "settings": Settings(mixing="best")}, "no mixing weights"),
        ({"sigma": 1.0, "settings": Settings(start=np.nan)}, "start must be finite"),
        ({"sigma": 1.0, "settings": Settings(start=[1.0, 2.0])}, "the start must be"),
    ],
)
def test_bad_options_are_refused_with_what_was_found(options, what):
    with pytest.raises(InvalidInputError, match=what):
        solve(PAPER, topology=K3, domain=BOX, **{"corrupted": (), **options})


@pytest.mark.parametrize("iterations", [0, -3])
def test_at_least_one_iteration_is_needed(iterations):
    with refused("whole-out-of-range", mentions=("1,", iterations)):
        Settings(iterations=iterations)


# One family of results


@each("driver", ["vectorised", "loopback"])
@each("method", ["one-shot", "dgd"])
def test_a_record_may_go_to_another_process_and_says_the_same(method, driver):
    run = solve(
        rendezvous(3),
        topology=K3,
        corrupted=(),
        domain=Box(-9.0, 9.0, dim=2),
        sigma=2.0,
        seed=1,
        settings=short(method=method, tolerance=100.0),
        driver=driver,
    )
    stored = pickle.dumps(run.record())
    for shares in (run.seen.shares.values, run.private):
        assert shares.tobytes() not in stored
        assert not any(row.tobytes() in stored for row in shares.reshape(-1, 2))
    again = pickle.loads(stored)
    assert again.to_dict() == run.to_dict()
    assert again.max_error == run.max_error
    np.testing.assert_array_equal(again.trace.errors, run.trace.errors)
    assert repr(again).replace("RunRecord", "Run") == repr(run)


def test_a_run_is_a_result_like_that_of_any_job():
    run = solve(
        PAPER,
        topology=K3,
        corrupted=(),
        domain=BOX,
        sigma=1.0,
        seed=0,
        settings=short(),
    )
    assert isinstance(run, SumJobResult)
    (release,) = run.releases
    assert release.statistics == {"cost_coefficients": 1}
    assert run.shown == ("the sum of the coefficients of 0, 1, 2",)


# The same arguments as every other question


FOUR = {
    name: Cost.squared_distance([p]) for name, p in zip("abcd", range(4), strict=True)
}


def test_a_graph_may_be_text_a_topology_or_of_networkx():
    ring = Topology.family("ring:4").renamed(FOUR)
    graphs = (
        "ring:4",
        ring,
        nx.relabel_nodes(nx.cycle_graph(4), dict(enumerate("abcd"))),
    )
    runs = [solve(FOUR, topology=one, domain=BOX, seed=1) for one in graphs]
    assert {run.topology for run in runs} == {ring}
    assert {run.minimiser.item() for run in runs} == {1.5}
    everybody = solve(FOUR, domain=BOX, seed=1)
    assert everybody.topology == Topology.family("complete:4").renamed(FOUR)


def test_the_guarantee_is_about_every_coalition_of_the_tolerated_size():
    weighted = {"topology": "ring:5", "domain": BOX, "sigma": 2.0, "settings": short()}
    costs = [Cost.squared_distance([p]) for p in range(5)]
    found = solve(costs, tolerate=1, **weighted).guarantee
    assert found == solve(costs, **weighted).guarantee
    alone = [solve(costs, corrupted=[k], **weighted).guarantee for k in "01234"]
    assert found.epsilon == pytest.approx(max(one.epsilon for one in alone))
    assert found.epsilon > solve(costs, corrupted=(), **weighted).guarantee.epsilon


def test_terms_that_do_not_hold_are_refused_unless_the_coalition_is_named():
    star = {"topology": "star:4", "domain": BOX, "seed": 1}
    with refused("terms-not-met", mentions=("1",)):
        solve(FOUR, **star)
    hub = solve(FOUR, corrupted=["a"], **star)
    assert hub.guarantee.status == "exposed"
    with refused("conflicting-coalition-options"):
        solve(FOUR, corrupted=["a"], tolerate=1, **star)
    with refused("terms-not-met", mentions=("4",)):
        solve(FOUR, domain=BOX, minimum_honest=4)


def test_a_misspelt_option_and_one_that_no_question_has_are_refused():
    with refused("unknown-option", mentions=("colluders",)):
        solve(FOUR, domain=BOX, colluders=1)
    with refused("unknown-option", mentions=("grid",)):
        vs.sum(dict.fromkeys("abcd", 1), grid=4)


def test_a_spread_given_to_solve_stands_before_that_of_the_settings():
    settings = Settings(method="one-shot", spread="flooding")
    run = solve(FOUR, domain=BOX, settings=settings, spread="tree")
    assert run.spread == "tree"
