"""Runs with integer masks: exact sums, accuracy free of sigma, refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from refusals import refused
from strategies import connected_topologies, finite_arrays, seeds
from veilsum.consortium.scenario import Settings
from veilsum.errors import InvalidGraphError, RangeError
from veilsum.files.scenarios import read_scenario
from veilsum.graphs.mixing import mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.cost import Cost, cost_coefficient_rows
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.methods.recentring import recentring_rounds
from veilsum.minimise.solve import run_scenario, solve

EXAMPLES = Path(__file__).parents[2] / "examples"
SIGMAS = (1.0, 1e3, 1e6, 1e9, 1e12)
ONE_SHOT = Settings(method="one-shot")
COMPLETE = Topology.family("complete:5")
HOMES = [Cost.squared_distance([p, -p]) for p in (0.1, 1.7, 3.3, 5.2, 6.9)]
BOX = Box(-10.0, 10.0, dim=2)


def run(**options):
    chosen = {"domain": BOX, "seed": 0, "settings": ONE_SHOT, **options}
    return solve(HOMES, topology=COMPLETE, corrupted=(), **chosen)


# --- Accuracy does not depend on sigma ---------------------------------------------


def meeting_point():
    """The mean of the homes in examples/rendezvous.toml, which lies on the map."""
    costs = read_scenario(EXAMPLES / "rendezvous.toml").costs
    return -0.5 * cost_coefficient_rows(costs).mean(axis=0)


def quadratic_minimum():
    """(sum P) x = -sum q from the file itself, inside the ball of radius 10."""
    import tomllib

    cost = tomllib.loads((EXAMPLES / "quadratic.toml").read_text("utf-8"))["cost"]
    matrix, vector = np.sum(cost["matrices"], axis=0), np.sum(cost["vectors"], axis=0)
    found = np.linalg.solve(matrix, -vector)
    assert np.linalg.norm(found) < 10
    return found


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("name", "closed_form"),
    [("rendezvous", meeting_point), ("quadratic", quadratic_minimum)],
)
def test_one_shot_is_exact_at_every_sigma(name, closed_form):
    """50 bits, sigma from 1 to 1e12: within 1e-10, and the same to the last bit."""
    described, expected = read_scenario(EXAMPLES / f"{name}.toml"), closed_form()
    found = [
        run_scenario(
            described.altered(law="lattice", sigma=sigma, grid=50, method="one-shot")
        )
        for sigma in SIGMAS
    ]
    for one in found:
        assert np.abs(one.estimates - expected).max() <= 1e-10
        assert one.max_error <= 1e-10
        assert one.sum_of_masks == 0.0
        grid = one.quantisation
        assert (grid.bits, grid.step) == (50, 2.0**-50)
        # What float64 arithmetic adds to a bound near 1e-15 is of its own size.
        assert grid.bias <= grid.bias_bound + 1e-14
        assert grid.solver_error <= 1e-10
    assert all((one.estimates == found[0].estimates).all() for one in found)


def test_the_bias_of_a_coarse_grid_is_reported_apart_from_the_solver_s_error():
    """On halves, -2p rounds to whole steps: the mean of rounded values, by hand."""
    found = run(law="lattice", sigma=100.0, grid=1)
    homes = np.array([0.1, 1.7, 3.3, 5.2, 6.9])
    rounded = np.rint(-2 * homes * 2) / 2 / -2
    expected = abs(rounded.mean() - homes.mean()) * np.sqrt(2)
    assert found.quantisation.bias == pytest.approx(expected, abs=1e-9)
    assert found.quantisation.bias > 1e-3
    assert found.quantisation.bias <= found.quantisation.bias_bound
    assert found.quantisation.solver_error < 1e-12


@settings(max_examples=10)
@given(connected_topologies(weighted=True, max_agents=6), st.data(), seeds)
def test_both_integer_laws_find_the_mean_on_every_graph(topology, data, seed):
    targets = data.draw(finite_arrays((topology.n_parties, 1)))
    costs = [Cost.squared_distance(t) for t in targets]
    for law, sigma in (("lattice", 1e5), ("uniform", None)):
        found = solve(
            costs,
            topology=topology,
            corrupted=(),
            domain=Box(-20.0, 20.0, dim=1),
            law=law,
            sigma=sigma,
            largest=20.0,
            seed=seed,
            settings=ONE_SHOT,
        )
        step = found.quantisation.step
        assert abs(found.minimiser - targets.mean(axis=0)).max() <= step + 1e-12
        assert found.sum_of_masks == 0.0


def test_without_a_seed_integer_masks_are_fresh_and_the_answer_is_the_same():
    one, two = (run(law="uniform", seed=None) for _ in range(2))
    assert (one.minimiser == two.minimiser).all()
    views = [found.view(["0"]).effective for found in (one, two)]
    assert not (views[0] == views[1]).any()


@pytest.mark.parametrize("law", ["none", "gaussian"])
def test_one_shot_runs_on_floats_too_and_has_no_grid(law):
    found = run(law=law, sigma=1.0 if law == "gaussian" else None)
    np.testing.assert_allclose(found.minimiser, [3.44, -3.44], atol=1e-12)
    assert found.quantisation is None


# --- What a sum costs --------------------------------------------------------------


def test_flooding_and_the_tree_give_one_answer_at_their_own_price():
    """K5: 20 shares of 2 numbers; flooding 5 (20 - 4) vectors, the tree 8."""
    by = {
        way: run(
            law="lattice", sigma=1e6, settings=Settings(method="one-shot", spread=way)
        )
        for way in ("flooding", "tree")
    }
    assert (by["flooding"].minimiser == by["tree"].minimiser).all()
    assert {way: found.spread for way, found in by.items()} == {w: w for w in by}
    assert by["flooding"].bytes == 8 * 2 * (20 + 5 * 16)
    assert by["tree"].bytes == 8 * 2 * (20 + 8)
    assert [by[way].rounds for way in ("flooding", "tree")] == [2, 3]
    assert all(found.iterations == 0 for found in by.values())


def test_long_vectors_go_along_the_tree_by_themselves():
    """Twenty parties, 6000 numbers of 8 bytes each: 960 kB; 6500 of them: 1.04 MB."""
    ring = Topology.family("ring:20")
    for size, way in ((6000, "flooding"), (6500, "tree")):
        costs = [Cost.squared_distance(np.full(size, float(k))) for k in range(2)] * 10
        found = solve(
            costs,
            topology=ring,
            corrupted=(),
            domain=Box(-20.0, 20.0, dim=size),
            law="none",
            settings=Settings(method="one-shot"),
        )
        assert found.spread == way


def test_a_result_with_a_grid_is_strict_json():
    found = json.loads(
        json.dumps(run(law="lattice", sigma=1.0).to_dict(), allow_nan=False)
    )
    assert found["spread"] == "flooding"
    assert set(found["quantisation"]) == {
        *("bits", "step", "bias_bound", "bias", "solver_error")
    }
    assert found["guarantee"]["law"] == "lattice"


def test_progress_of_one_exchange_is_one_step():
    seen = []
    run(law="uniform", progress=lambda *one: seen.append(one))
    assert seen == [(1, 1)]


# --- DGD on integers ---------------------------------------------------------------


@pytest.mark.usefixtures("unchecked_shapes")
def test_dgd_after_recentring_does_not_feel_sigma():
    """Masks of 1 and of 1e9: the same error after 3000 iterations, within a tenth."""
    described = read_scenario(EXAMPLES / "rendezvous.toml")
    errors = {}
    for sigma in (1.0, 1e9):
        found = solve(
            described.costs,
            topology=described.topology,
            corrupted=(),
            domain=described.domain,
            law="lattice",
            sigma=sigma,
            seed=0,
            settings=Settings(iterations=3000, step=0.5),
        )
        assert found.sum_of_masks == 0.0
        errors[sigma] = found.max_error
    assert errors[1.0] < 2e-3
    assert errors[1e9] <= 1.1 * errors[1.0] + 1e-4


def test_recentring_is_what_does_it_and_can_be_switched_off():
    """Without it ten thousand times the noise is felt, as it is with float masks."""
    options = {"law": "lattice", "sigma": 1e4}
    plain = Settings(iterations=500, step=0.5, recentre=False)
    with_it = run(**options, settings=Settings(iterations=500, step=0.5))
    without = run(**options, settings=plain)
    assert without.rounds == 501
    weights = mixing_weights(COMPLETE, "metropolis")
    extra = recentring_rounds(COMPLETE, weights, sigma=1e4, size=2, residual=1.0)
    assert with_it.rounds == 501 + extra
    assert with_it.max_error < 0.05 < without.max_error
    assert with_it.bytes - without.bytes == extra * 20 * 2 * 8


def test_an_iterative_run_on_the_lattice_has_effective_costs_with_the_same_sum():
    found = run(law="lattice", sigma=1e3, settings=Settings(iterations=5))
    rows = found.effective.coefficients
    assert not rows.flags.writeable
    exact = cost_coefficient_rows(HOMES).sum(axis=0)
    step = found.quantisation.step
    np.testing.assert_allclose(rows.sum(axis=0), exact, atol=5 * step + 1e-12)


def test_masked_costs_are_private_ones_plus_masks():
    """What phase II receives: theta + u, and the remainder untouched."""
    found = run(law="gaussian", sigma=2.0, settings=Settings(iterations=1))
    masks = found.effective.coefficients - cost_coefficient_rows(HOMES)
    np.testing.assert_allclose(masks, found.seen.shares.masks(), atol=1e-12)
    assert found.effective.remainder == HOMES[0].remainder


# --- Views -------------------------------------------------------------------------


@pytest.mark.parametrize(("law", "sigma"), [("lattice", 1e6), ("uniform", None)])
def test_a_view_reveals_the_quantised_sum_of_the_honest_exactly(law, sigma):
    found = run(law=law, sigma=sigma, grid=20)
    (total,) = found.view(["0", "2"]).component_sums().values()
    honest = cost_coefficient_rows(HOMES)[[1, 3, 4]]
    expected = np.rint(honest * 2.0**20).astype(np.int64).sum(axis=0)
    assert total.astype(np.int64).tolist() == expected.tolist()


# --- Refusals ----------------------------------------------------------------------


def test_dgd_refuses_residues_with_a_sentence():
    with refused("magnitudes-unavailable"):
        run(law="uniform", settings=Settings())


def test_one_shot_refuses_what_stays_with_its_owner():
    local = [Cost.from_gradient(lambda x: 2 * x, dim=2)] * 5
    with refused("costs-have-remainder"):
        solve(
            local,
            topology=COMPLETE,
            corrupted=(),
            domain=BOX,
            law="none",
            settings=ONE_SHOT,
        )


def test_a_value_out_of_range_names_the_party_and_the_coefficient():
    """Basil's second coefficient is -2 * -30."""
    costs = {name: Cost.squared_distance([1.0, 1.0]) for name in ("amber", "coral")}
    costs["basil"] = Cost.squared_distance([1.0, -30.0])
    edges = [("amber", "basil"), ("basil", "coral")]
    words = "party 'basil': coefficient 2 of 2 has the magnitude 60"
    for law, sigma in (("lattice", 1.0), ("uniform", None)):
        with pytest.raises(RangeError, match=words):
            solve(
                costs,
                topology=Topology.from_edges(edges),
                corrupted=(),
                domain=BOX,
                law=law,
                sigma=sigma,
                largest=50.0,
                settings=ONE_SHOT,
            )


def test_a_sum_beyond_64_bits_is_refused_or_taken_wide_and_never_wraps():
    """Eight coefficients of -2000 on a grid of 50 bits add up to more than 2^63."""
    costs = [Cost.squared_distance([1000.0])] * 8
    options = {
        "domain": Box(-5e3, 5e3, dim=1),
        "law": "lattice",
        "sigma": 1.0,
        "grid": 50,
        "settings": ONE_SHOT,
    }
    eight = Topology.family("complete:8")
    with refused("value-out-of-range", RangeError, mentions=("256",)):
        solve(costs, topology=eight, corrupted=(), **options)
    found = solve(costs, topology=eight, corrupted=(), largest=2000.0, **options)
    assert found.minimiser.tolist() == [1000.0]


def test_recentring_floats_is_refused():
    with refused("recentre-needs-lattice"):
        run(law="gaussian", sigma=1.0, settings=Settings(recentre=True))


def test_one_way_links_are_refused():
    arcs = Topology.from_edges([(0, 1), (1, 2), (2, 0)], directed=True)
    with refused("directed-graph", InvalidGraphError):
        solve(
            HOMES[:3],
            topology=arcs,
            corrupted=(),
            domain=BOX,
            law="uniform",
            settings=ONE_SHOT,
        )


def test_an_unknown_method_is_refused():
    with refused("unknown-choice"):
        Settings(method="magic")
