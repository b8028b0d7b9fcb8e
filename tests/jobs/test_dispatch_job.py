"""Dispatch on real networks' data, and quadratic programs, against other solvers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import few
from veilsum.costs.domains import Box, HalfSpaces
from veilsum.errors import InvalidInputError
from veilsum.files.datasets import power_case, site_of
from veilsum.jobs.dispatch import dispatch
from veilsum.jobs.quadratic import quadratic_program
from veilsum.models.price import Site
from veilsum.privacy.guarantee import guarantee

PRICES = {"case30": 3.7892, "case39": 13.5169, "case118": 39.3814}


def sites_of(case, parties=6):
    return {name: site_of(t) for name, t in power_case(case, parties).items()}


@pytest.mark.parametrize("case", PRICES)
@pytest.mark.parametrize("driver", ["loopback", "vectorised"])
def test_prices_of_known_networks(case, driver):
    sites = sites_of(case)
    found = dispatch(sites, prices=(0, 1000), driver=driver, compare=True, seed=1)
    assert found.price == pytest.approx(PRICES[case], abs=1e-4)
    assert abs(found.balance) < 1e-9
    assert found.max_error < 1e-9
    output = sum(out.sum() for out in found.outputs.values())
    assert output == pytest.approx(sum(s.demand for s in sites.values()), abs=1e-8)


def test_both_drivers_try_the_same_prices():
    one, other = (
        dispatch(sites_of("case30"), prices=(0, 1000), driver=driver, seed=1)
        for driver in ("loopback", "vectorised")
    )
    assert [r.point for r in one.releases] == [r.point for r in other.releases]
    assert [s.tolist() for s in one.released.sums] == [
        s.tolist() for s in other.released.sums
    ]


def test_every_price_is_listed_and_the_limit_said():
    found = dispatch(sites_of("case30"), prices=(0, 1000), driver="vectorised")
    assert len(found.guarantee.released) == len(found.released.sums)
    assert "at the price 500" in found.guarantee.released[0]
    assert any("costs and limits" in line for line in found.guarantee.limits)
    assert found.to_dict()["price"] == found.price


def test_a_demand_that_nobody_can_meet_is_explained():
    sites = {str(k): Site.of(100.0, a=1.0, b=1.0, low=0.0, high=1.0) for k in range(4)}
    with pytest.raises(InvalidInputError, match="demand"):
        dispatch(sites, prices=(0, 10))


@pytest.mark.parametrize("driver", ["loopback", "vectorised"])
@pytest.mark.parametrize("law", ["uniform", "lattice"])
def test_no_sum_tells_which_site_has_which_generator(driver, law):
    """Generators and demands of three sites change hands: every round is the same."""
    sites, options = sites_of("case30"), {"law": law, "driver": driver, "seed": 1}
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
    with pytest.raises(InvalidInputError, match="one dimension"):
        quadratic_program(wrong)


@pytest.mark.parametrize(
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
