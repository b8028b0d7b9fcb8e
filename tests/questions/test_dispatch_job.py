"""Dispatch on real networks' data, and quadratic programs, against other solvers."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linprog

from cases import each
from refusals import refused
from strategies import few
from veilsum.errors import InvalidInputError
from veilsum.files.datasets import power_case, site_of_power_case
from veilsum.minimise.costs.domains import Box, HalfSpaces
from veilsum.minimise.quadratic import quadratic_program
from veilsum.models.price import Site
from veilsum.privacy.guarantee import guarantee
from veilsum.questions.dispatch import dispatch

PRICES = {"case30": 3.7892, "case39": 13.5169, "case118": 39.3814}


def sites_of(case, parties=6):
    return {
        name: site_of_power_case(t) for name, t in power_case(case, parties).items()
    }


@each("case", PRICES)
def test_prices_of_known_networks(case):
    sites = sites_of(case)
    found = dispatch(sites, prices=(0, 1000), driver="vectorised", compare=True, seed=1)
    assert found.price == pytest.approx(PRICES[case], abs=1e-4)
    assert abs(found.balance) < 1e-9
    assert found.max_error < 1e-9
    output = sum(out.sum() for out in found.outputs.values())
    assert output == pytest.approx(sum(s.demand for s in sites.values()), abs=1e-8)


def test_every_price_is_listed_and_the_limit_said():
    found = dispatch(sites_of("case30"), prices=(0, 1000), driver="vectorised")
    assert len(found.guarantee.released) == len(found.released.sums)
    assert "at the price 500" in found.guarantee.released[0]
    assert any("costs and limits" in line for line in found.guarantee.limits)
    assert found.to_dict()["price"] == found.price


def test_a_demand_that_nobody_can_meet_is_explained():
    sites = {str(k): Site.of(100.0, a=1.0, b=1.0, low=0.0, high=1.0) for k in range(4)}
    with refused("no-balancing-price"):
        dispatch(sites, prices=(0, 10))


@each("law", ["uniform", "lattice"])
def test_no_sum_tells_which_site_has_which_generator(law):
    """Generators and demands of three sites change hands: every round is the same."""
    sites, options = sites_of("case30"), {"law": law, "driver": "vectorised", "seed": 1}
    if law == "lattice":
        options["sigma"] = 1e3
    first, second, third, *rest = sites
    held = {
        name: [getattr(sites[name], x) for x in ("a", "b", "low", "high")]
        for name in (first, second, third)
    }
    pooled = [np.concatenate(parts) for parts in zip(*held.values(), strict=True)]
    dealt = {
        first: Site.of(sites[third].demands[1:]),
        second: Site.of(
            [*sites[first].demands, *sites[third].demands[:1]],
            **{
                k: v[::-1]
                for k, v in zip(("a", "b", "low", "high"), pooled, strict=True)
            },
        ),
        third: Site.of(sites[second].demands[::-1]),
        **{name: sites[name] for name in rest},
    }
    one, other = (dispatch(s, prices=(0, 1000), **options) for s in (sites, dealt))
    assert [s.tolist() for s in one.released.sums] == [
        s.tolist() for s in other.released.sums
    ]
    assert one.price == other.price
    assert one.released.bytes == other.released.bytes


# Steps, and bids to buy, against the pooled linear program

# Five generators and three loads of the PJM five-bus system: F. Li and R. Bo, Small
# Test Systems for Power System Economic Studies, IEEE PES General Meeting 2010; as
# MATPOWER's case5 has it. Prices in dollars per MWh, and MW.
PJM = {
    "bus-1": [(14, 40), (15, 170)],
    "bus-2": [],
    "bus-3": [(30, 520)],
    "bus-4": [(40, 200)],
    "bus-5": [(10, 600)],
}
# Ten units: S. A. Kazarlis, A. G. Bakirtzis and V. Petridis, A genetic algorithm
# solution to the unit commitment problem, IEEE Transactions on Power Systems 11, 1996.
# In $/MW^2h, $/MWh and MW: a, b, low, high.
TEN = np.array(
    [
        (0.00048, 16.19, 150, 455),
        (0.00031, 17.26, 150, 455),
        (0.002, 16.60, 20, 130),
        (0.00211, 16.50, 20, 130),
        (0.00398, 19.70, 25, 162),
        (0.00712, 22.26, 20, 80),
        (0.00079, 27.74, 25, 85),
        (0.00413, 25.92, 10, 55),
        (0.00222, 27.27, 10, 55),
        (0.00173, 27.79, 10, 55),
    ]
)
EMPTY = {"demand": np.nan, "price": np.nan, "quantity": np.nan}


def step_tables(offers, demands):
    """Tables as files have them: a row for the demand, and one for each step."""
    return {
        party: pd.DataFrame(
            [{**EMPTY, "demand": demands.get(party, 0.0)}]
            + [{**EMPTY, "price": p, "quantity": q} for p, q in steps]
        )
        for party, steps in offers.items()
    }


def by_highs(sites):
    """The least cost of the pooled problem, and the price that HiGHS finds for it."""
    b, low, high = (
        np.concatenate([getattr(s, key) for s in sites.values()])
        for key in ("b", "low", "high")
    )
    demand = sum(s.demand for s in sites.values())
    bounds = np.column_stack([low, high])
    found = linprog(b, A_eq=np.ones((1, b.size)), b_eq=[demand], bounds=bounds)
    assert found.status == 0
    return found.fun, float(found.eqlin.marginals[0])


# What is needed, the lowest and the highest price: 810 MW are just what is below 30.
NEEDED = {1000: (30, 30), 810: (15, 30), 600: (10, 14), 1.5: (10, 10), 1330: (30, 40)}
BIDS = {"bus-2": [(35, -100), (25, -150), (12, -80)], "bus-4": [(40, 200), (30, -60)]}


@each("price_unit", [None, 0.01])
@each("bids", [{}, BIDS], ids=["fixed", "elastic"])
@each("needed", NEEDED)
def test_steps_and_bids_clear_as_the_pooled_linear_program(needed, bids, price_unit):
    tables = step_tables({**PJM, **bids}, {"bus-2": 0.5, "bus-3": needed - 0.5})
    sites = {name: site_of_power_case(table, name) for name, table in tables.items()}
    found = dispatch(
        sites,
        prices=(0, 100),
        price_unit=price_unit,
        total_cost=True,
        driver="vectorised",
        seed=1,
        compare=True,
    )
    cost, price = by_highs(sites)
    slack = 1e-9 + found.settled.within
    assert found.lowest - slack <= price <= found.highest + slack
    assert found.max_error <= slack
    assert found.total_cost == pytest.approx(cost, abs=1e-6)
    assert sum(map(np.sum, found.costs.values())) == pytest.approx(cost, abs=1e-6)
    total = sum(out.sum() for out in found.outputs.values())
    assert total == pytest.approx(needed, abs=1e-8)
    if not bids:
        ends = (found.lowest, found.highest)
        assert ends == pytest.approx(NEEDED[needed], abs=slack)
        assert found.settled.is_unique == (ends[0] == ends[1])
        assert ("no other price" in found.words) == (ends[0] == ends[1])
    if price_unit is not None:
        assert found.settled.within == 0.0
        assert len(found.released.sums) <= 3 * 15 + 1


@pytest.mark.parametrize("falls", [0.0, 0.05])
def test_mixed_offers_clear_as_the_pooled_program_of_clarabel(falls):
    """Ten quadratic units, a step at 20, and a bid that falls with what is bought."""
    units = dict(zip(("a", "b", "low", "high"), TEN.T, strict=True))
    sites = {
        "units-1": Site.of(0, **{key: one[::2] for key, one in units.items()}),
        "units-2": Site.of(300, **{key: one[1::2] for key, one in units.items()}),
        "step": Site.of(0, a=0, b=20, low=0, high=80),
        "bid": Site.of(700, a=falls, b=23, low=-90, high=0),
    }
    found = dispatch(sites, prices=(0, 100), driver="vectorised", seed=1, compare=True)
    a, b, low, high = (
        np.concatenate([getattr(s, key) for s in sites.values()])
        for key in ("a", "b", "low", "high")
    )
    limits = np.vstack(
        [np.eye(a.size), -np.eye(a.size), np.ones(a.size), -np.ones(a.size)]
    )
    ends = np.concatenate([high, -low, [1000, -1000]])
    expected = by_clarabel({"all": (np.diag(2 * a), b)}, limits, ends)
    outputs = np.concatenate(list(found.outputs.values()))
    np.testing.assert_allclose(outputs, expected, atol=2e-4)
    cost = float(a @ expected**2 + b @ expected)
    assert sum(map(np.sum, found.costs.values())) == pytest.approx(cost, abs=1e-6)
    assert found.settled.is_unique


def test_what_is_offered_at_the_price_is_taken_in_proportion():
    """250 of 400: every party works out its part from totals and its own offers."""
    sites = {
        "a": Site.of(500, a=[0, 0], b=[20, 30], low=[0, 0], high=[300, 100]),
        "b": Site.of(0, a=[0], b=[30], low=[-50], high=[250]),
        "c": Site.of(0.0),
        "d": Site.of(0.0),
    }
    found = dispatch(sites, prices=(0, 64), price_unit=1, driver="vectorised", seed=1)
    price, least, most, _ = found.tried[-1]
    assert (price, least, most) == (30.0, -250.0, 150.0)
    part = -least / (most - least)
    assert found.outputs["a"].tolist() == [300.0, 100 * part]
    assert found.outputs["b"].tolist() == [-50 + 300 * part]
    assert found.costs["a"].tolist() == [6000.0, 30 * 100 * part]


def test_the_total_cost_is_released_only_if_it_is_asked_for_openly():
    sites, options = sites_of("case30"), {"prices": (0, 1000), "seed": 1}
    silent, asked = (
        dispatch(sites, driver="vectorised", total_cost=asks, **options)
        for asks in (False, True)
    )
    assert silent.total_cost is None
    assert not any("cost (1)" in line for line in silent.guarantee.released)
    assert "at the price found" in asked.guarantee.released[-1]
    assert asked.guarantee.released[-1].endswith("total cost (1)")
    assert asked.released.sums[-1][1:].tolist() == [0, 0]
    costs = sum(site.cost(asked.settled.price) for site in sites.values())
    assert asked.total_cost == pytest.approx(costs, rel=1e-12)
    assert f"together cost {costs:.8g}" in asked.summary()
    assert "together" not in silent.summary()
    assert asked.price == silent.price
    assert asked.recipe.most_numbers == silent.recipe.most_numbers + 1


def test_a_flat_offer_beside_the_unit_of_prices_is_refused_by_party_and_row():
    tables = step_tables({**PJM, "bus-3": [(30, 1), (30.005, 500)]}, {"bus-2": 900})
    sites = {name: site_of_power_case(table, name) for name, table in tables.items()}
    with refused("price-off-grid", mentions=("3",)) as caught:
        dispatch(sites, prices=(0, 100), price_unit=0.01)
    assert "30.005" not in str(caught.value)


def test_a_row_is_a_generator_or_a_step_and_never_both():
    row = dict.fromkeys(("demand", "a", "b", "low", "high", "price", "quantity"), 1.0)
    with refused("row-of-both-kinds", mentions=("1",)):
        site_of_power_case(pd.DataFrame([row]), "x")
    half = pd.DataFrame([{**EMPTY, "price": 3.0}])
    with refused("partly-filled-row", mentions=("1",)):
        site_of_power_case(half, "x")


# Quadratic programs


@given(
    st.lists(st.tuples(*[st.integers(-5000, 5000)] * 5), min_size=4, max_size=4),
    st.lists(st.integers(-300, 300), min_size=5, max_size=5),
    st.sampled_from(["uniform", "lattice"]),
)
@few
def test_equal_decimal_sums_of_quadratics_have_equal_bits(cents, moved, law):
    """Hundredths move from one party to another: the total is the same to the bit."""

    def cost(numbers):
        steep = np.array([20_000, 0, 20_000, 0, 0])
        p, r, s, a, b = ((numbers + steep) / 100).tolist()
        return [[p, r], [r, s]], [a, b]

    away = [
        tuple(np.add(cents[0], moved).tolist()),
        tuple(np.subtract(cents[1], moved).tolist()),
        *cents[2:],
    ]
    options = {"driver": "vectorised", "seed": 1, "law": law, "unit": 0.01}
    if law == "lattice":
        options["sigma"] = 1e3
    one, other = (
        quadratic_program({str(k): cost(c) for k, c in enumerate(some)}, **options)
        for some in (cents, away)
    )
    assert one.released.sums[0].tolist() == other.released.sums[0].tolist()
    assert one.minimiser.tolist() == other.minimiser.tolist()
    assert set(one.rounded.values()) == {0}


@pytest.mark.parametrize("sigma", [0.5, 1e3])
def test_one_sigma_is_the_same_in_all_directions_of_a_matrix(sigma):
    costs = {str(k): (np.eye(2), np.ones(2)) for k in range(4)}
    found = quadratic_program(costs, law="lattice", sigma=sigma, driver="vectorised")
    law, graph = found.terms.law, found.terms.topology
    spans = np.array(law.deviations()) * float(law.counts.units[0])
    widths = np.array([2.0, 2**0.5, 2.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(spans, sigma * widths, rtol=2e-6)
    plain = guarantee(graph, sigma=sigma, law="lattice", grid=30, corrupted=["0"])
    assert found.guarantee.epsilon == pytest.approx(plain.epsilon, rel=1e-9)
    np.testing.assert_allclose(found.minimiser, [-1.0, -1.0])


@pytest.fixture(scope="module")
def costs():
    stream = np.random.default_rng(2)
    found = {}
    for k in range(5):
        square = stream.normal(size=(6, 4))
        found[f"p{k}"] = (square.T @ square, 4 * stream.normal(size=4))
    return found


def by_clarabel(costs, rows, offsets):
    """Minimise the pooled cost subject to rows x <= offsets, by a conic solver."""
    import clarabel
    from scipy import sparse

    matrix = sum(p for p, _ in costs.values())
    vector = sum(q for _, q in costs.values())
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(matrix)),
        vector,
        sparse.csc_matrix(rows),
        offsets,
        [clarabel.NonnegativeConeT(len(offsets))],
        settings,
    )
    return np.array(solver.solve().x)


def test_without_constraints_it_is_a_linear_system(costs):
    matrix = sum(p for p, _ in costs.values())
    vector = sum(q for _, q in costs.values())
    found = quadratic_program(costs)
    np.testing.assert_allclose(found.minimiser, -np.linalg.solve(matrix, vector))


@pytest.mark.parametrize("driver", ["loopback", "vectorised"])
def test_a_box(costs, driver):
    found = quadratic_program(costs, domain=Box(-0.1, 0.1, dim=4), driver=driver)
    rows = np.vstack([np.eye(4), -np.eye(4)])
    expected = by_clarabel(costs, rows, np.full(8, 0.1))
    assert (np.abs(expected) > 0.0999).any()
    np.testing.assert_allclose(found.minimiser, expected, atol=1e-6)


def test_linear_constraints(costs):
    rows = np.array([[1.0, 1.0, 1.0, 1.0], [-1.0, 0.5, 0.0, 2.0]])
    offsets = np.array([-0.2, 0.1])
    found = quadratic_program(costs, domain=HalfSpaces(rows, offsets))
    expected = by_clarabel(costs, rows, offsets)
    np.testing.assert_allclose(found.minimiser, expected, atol=1e-6)


def test_costs_of_different_dimensions_are_refused(costs):
    wrong = {**costs, "p0": (np.eye(2), np.ones(2))}
    with refused("dimension-differs"):
        quadratic_program(wrong)


@each(
    ("matrix", "domain", "why"),
    [
        (-np.eye(2), None, "not convex"),
        (np.diag([1.0, -0.5]), Box(-1, 1, dim=2), "not convex"),
        (np.diag([1.0, 0.0]), None, "falls without end"),
    ],
)
def test_a_sum_without_a_lowest_point_is_refused(matrix, domain, why):
    costs = {str(k): (matrix, np.array([0.3, 0.2])) for k in range(4)}
    with pytest.raises(InvalidInputError, match=why):
        quadratic_program(costs, domain=domain)


def test_single_costs_may_bend_down():
    bends = {str(k): (np.eye(2), np.ones(2)) for k in range(4)}
    bends["3"] = (-2 * np.eye(2), np.ones(2))
    found = quadratic_program(bends).minimiser
    np.testing.assert_allclose(found, [-4.0, -4.0])


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_program_of_many_parties_keeps_no_share():
    """Sixty parties exchange 112 MB of shares; none is needed once it is masked."""
    cost = (np.eye(50), np.ones(50))
    costs = {f"party-{k}": cost for k in range(60)}
    quadratic_program(dict(list(costs.items())[:4]))  # what is imported, is so now
    tracemalloc.start()
    found = quadratic_program(costs, unit=2.0**-96)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.minimiser == pytest.approx(-np.ones(50), abs=1e-9)
    shares = 60 * 59 * found.recipe.size * found.terms.law.number_bytes
    assert shares > 110e6
    assert peak < 0.75 * shares
