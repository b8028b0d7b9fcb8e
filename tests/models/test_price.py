"""Dispatch by rounds on the price, against exact rationals and scipy."""

import pickle
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ulp

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize

from refusals import refused
from strategies import few
from veilsum.errors import (
    InvalidInputError,
    LocalProtocolError,
    NumericalError,
    SecretError,
)
from veilsum.models.price import (
    PriceSample,
    PriceSearch,
    PriceSearchEnd,
    PriceSettled,
    PriceWidening,
    Site,
    TriedPrice,
)

SEARCH = PriceSearch(-1000.0, 1000.0)


def settle(search, sites):
    state = search.start()
    while not state.done:
        price = search.propose(state)
        total = sum(search.response(site, price) for site in sites)
        state = search.advance(state, total)
    return state


def generators(sites):
    """(a, b, low, high) of every generator, exactly."""
    lines = [zip(s.a, s.b, s.low, s.high, strict=True) for s in sites]
    return [tuple(Fraction(x) for x in line) for site in lines for line in site]


def exact_range(sites, price):
    """The least and the most of output less demand at a price."""
    demand = sum(Fraction(s.demand) for s in sites)
    least = most = -demand
    for a, b, low, high in generators(sites):
        if a:
            wanted = [min(max((price - b) / (2 * a), low), high)] * 2
        else:
            wanted = [low if price <= b else high, low if price < b else high]
        least, most = least + wanted[0], most + wanted[1]
    return least, most


def balanced_prices(sites):
    """The least and the greatest price that balance, by sorting the breakpoints."""
    ends = [(2 * a * p + b) for a, b, *limits in generators(sites) for p in limits]
    ends = sorted({Fraction(-1000), *ends, Fraction(1000)})
    found = {price: exact_range(sites, price) for price in ends}
    zeros = [price for price, (least, most) in found.items() if least <= 0 <= most]
    for low, high in pairwise(ends):
        under, over = found[low][1], found[high][0]
        if under < 0 < over:
            zeros.append(low - under * (high - low) / (over - under))
    return min(zeros), max(zeros)


def exact_balance(sites, price):
    outputs = [Fraction(p) for site in sites for p in site.outputs(price)]
    return sum(outputs) - sum(Fraction(site.demand) for site in sites)


@st.composite
def markets(draw):
    """Sites whose generators can meet all demand, some of them exactly at a limit."""
    sites = draw(st.lists(some_generators(), min_size=1, max_size=5))
    low = sum(sum(p["low"]) for p in sites)
    high = sum(sum(p["high"]) for p in sites)
    # Eighths add up exactly, so demand may equal all capacity or all least output.
    demand = low + (high - low) * draw(st.integers(0, 8)) / 8.0
    shares = draw(st.sampled_from([n for n in (1, 2, 4) if n <= len(sites)]))
    return [
        Site.of(demand / shares if k < shares else 0.0, **site)
        for k, site in enumerate(sites)
    ]


@st.composite
def some_generators(draw):
    n = draw(st.integers(0, 4))
    eighths = st.integers(0, 400).map(lambda k: k / 8.0)
    low = [draw(eighths) for _ in range(n)]
    return {
        "a": [
            draw(st.sampled_from([0.0, 0.0, 1e-9, 1e-4, 0.125, 1.0])) for _ in range(n)
        ],
        "b": [draw(st.integers(-160, 640)) / 8.0 for _ in range(n)],
        "low": low,
        "high": [p + draw(eighths) for p in low],
    }


@few  # some forty rounds each
@given(markets())
def test_the_price_is_the_one_that_balances(sites):
    """Within the tolerance over the least slope there is, or anywhere on a flat."""
    state = settle(SEARCH, sites)
    low, high = balanced_prices(sites)
    slack = 2e-9 * max((2.0 * s.a.max(initial=0.0) for s in sites), default=0.0)
    slack += 1e-13 * max(1.0, abs(state.price.value))
    assert float(low) - slack <= state.price.value <= float(high) + slack
    assert state.lowest == pytest.approx(float(low), abs=slack + state.within)
    assert state.highest == pytest.approx(float(high), abs=slack + state.within)
    assert abs(exact_balance(sites, state.price)) <= 1.01e-9


@few  # some forty rounds each
@given(markets())
def test_a_unit_of_prices_takes_fewer_rounds_to_the_same_price(sites):
    """Prices of flat offers are eighths: 2^14 of them, and bends between two."""
    search = replace(SEARCH, price_unit=Fraction(1, 8))
    for site in sites:
        search.check(site)
    state, free = settle(search, sites), settle(SEARCH, sites)
    low, high = balanced_prices(sites)
    slack = state.within + 2e-9 + 1e-13 * max(1.0, abs(state.price.value))
    assert state.lowest == pytest.approx(float(low), abs=slack)
    assert state.highest == pytest.approx(float(high), abs=slack)
    assert abs(exact_balance(sites, state.price)) <= 1.01e-9
    bent = any((site.a != 0.0).any() for site in sites)
    assert state.rounds <= (free.rounds + 60 if bent else 3 * 14 + 3)


@given(markets())
def test_few_rounds_are_enough(sites):
    assert settle(SEARCH, sites).rounds <= 110


@few  # some forty rounds each
@given(markets(), st.sampled_from([1e-6, 1e-3, 0.1]))
def test_outputs_in_coarse_steps_balance_in_their_steps(sites, tolerance):
    """Rounding makes steps of the surplus; their sum is still met."""
    search = PriceSearch(-1000.0, 1000.0, tolerance=tolerance)
    assert search.layout.counts.units[0] >= Fraction(tolerance) / 2**21
    state = settle(search, sites)
    assert abs(exact_balance(sites, state.price)) <= 1.01 * tolerance


# Whose a generator is


def line(site, k):
    return {name: getattr(site, name)[[k]] for name in ("a", "b", "low", "high")}


@pytest.mark.usefixtures("unchecked_shapes")
@few  # some forty rounds each
@given(markets(), st.data())
def test_no_bit_tells_which_site_has_which_generator_and_demand(sites, data):
    """Every total of every round, however rows are dealt to sites."""
    rows = [Site.of(one) for s in sites for one in s.demands]
    rows += [Site.of(0.0, **line(s, k)) for s in sites for k in range(s.a.size)]
    n = data.draw(st.integers(1, 4))
    owners = [data.draw(st.integers(0, n - 1)) for _ in rows]
    search, state = SEARCH, SEARCH.start()
    while not state.done:
        price = search.propose(state)
        alone = [search.response(row, price) for row in rows]
        dealt = [
            sum((one for one, who in zip(alone, owners, strict=True) if who == k), 0)
            for k in range(n)
        ]
        total = sum(search.response(site, price) for site in sites)
        assert sum(dealt).tolist() == total.tolist()
        state = search.advance(state, total)


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=6), st.data())
def test_a_site_with_many_demands_is_like_many_sites(demands, data):
    """Each demand is rounded by itself, not their sum in float64."""
    order = data.draw(st.permutations(demands))
    together = SEARCH.response(Site.of(order), TriedPrice(1.0))
    alone = sum(SEARCH.response(Site.of(one), TriedPrice(1.0)) for one in demands)
    assert together.tolist() == alone.tolist()


@given(
    st.lists(st.integers(0, 10**7), min_size=2, max_size=5),
    st.integers(0, 1000),
    st.sampled_from([1.0, 10.0, 41.3]),
)
def test_equal_sums_of_declared_units_have_equal_bits(cents, moved, price):
    search = PriceSearch(0.0, 100.0, unit=Fraction(1, 100))
    others = [cents[0] + moved, max(cents[1] - moved, 0), *cents[2:]]
    others[0] -= sum(others) - sum(cents)
    found = [
        sum(search.response(Site.of(one / 100), TriedPrice(price)) for one in demands)
        for demands in (cents, others)
    ]
    assert found[0].tolist() == found[1].tolist()
    assert search.layout.counts.values(found[0])[0] == pytest.approx(-sum(cents) / 100)


def test_a_site_tells_its_owner_how_many_demands_are_not_whole():
    assert Site.of([0.07, 1.0, 0.075]).n_broken(Fraction(1, 100)) == 1


def test_a_site_beyond_what_is_summed_is_refused_by_place_before_it_takes_part():
    with refused("value-out-of-range", mentions=("1",)):
        SEARCH.check(Site.of(0.0, a=[1, 1], b=[0, 0], low=[0, 0], high=[1, 1e40]))
    with refused("demand-too-large"):
        SEARCH.check(Site.of(1e40))
    SEARCH.check(Site.of(1e16, a=1e-16, b=0.0, low=0.0, high=1e17))


def wide_market(seed=3, n=12):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.01, 0.2, n), rng.uniform(5.0, 30.0, n)
    low = rng.uniform(0.0, 20.0, n)
    high = low + rng.uniform(20.0, 100.0, n)
    demand = 0.6 * high.sum()
    cut = np.array_split(np.arange(n), 4)
    return [
        Site.of(demand * w, a=a[k], b=b[k], low=low[k], high=high[k])
        for k, w in zip(cut, [0.1, 0.2, 0.3, 0.4], strict=True)
    ]


def test_outputs_are_those_of_the_least_cost():
    sites = wide_market()
    state = settle(PriceSearch(0.0, 100.0), sites)
    a, b, low, high = np.array(generators(sites), dtype=np.float64).T
    demand = sum(site.demand for site in sites)
    found = minimize(
        lambda p: a @ p**2 + b @ p,
        (low + high) / 2.0,
        jac=lambda p: 2.0 * a * p + b,
        bounds=list(zip(low, high, strict=True)),
        constraints={"type": "eq", "fun": lambda p: p.sum() - demand},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    outputs = np.concatenate([site.outputs(state.price) for site in sites])
    np.testing.assert_allclose(outputs, found.x, atol=1e-4)
    cost = sum(site.cost(state.price) for site in sites)
    assert cost == pytest.approx(found.fun, rel=1e-10)
    assert cost <= found.fun * (1.0 + 1e-12)


def test_a_textbook_case():
    """Two generators meet 150: 0.05 p^2 + 20 p and 0.1 p^2 + 10 p, unlimited enough.

    By hand 10 (x - 20) + 5 (x - 10) = 150 gives the price x = 80 / 3.
    """
    sites = [
        Site.of(150.0),
        Site.of(
            0.0, a=[0.05, 0.1], b=[20.0, 10.0], low=[0.0, 0.0], high=[200.0, 200.0]
        ),
    ]
    state = settle(PriceSearch(0.0, 100.0), sites)
    assert state.price.value == pytest.approx(80.0 / 3.0, rel=1e-12)
    assert state.slope == pytest.approx(15.0)
    np.testing.assert_allclose(sites[1].outputs(state.price), [200 / 3, 250 / 3])
    assert state.rounds <= 4


def test_nearly_linear_costs_balance_between_two_prices():
    """One last digit of the price is worth 3.6e-6 of output, far over the tolerance."""
    sites = [
        Site.of(1.0 / 3.0, a=1e-9, b=39.99, low=0.0, high=100.0),
        Site.of(55.1, a=1e-9, b=39.99, low=0.0, high=100.0),
    ]
    state = settle(PriceSearch(0.0, 100.0), sites)
    assert 0.0 < state.price.share < 1.0
    assert abs(exact_balance(sites, state.price)) <= 1e-9
    around = [TriedPrice(state.price.value), TriedPrice(state.price.next_value)]
    surpluses = [float(exact_balance(sites, price)) for price in around]
    assert surpluses[0] < -1e-9
    assert surpluses[1] > 1e-9


def test_outputs_stay_within_limits_between_two_prices():
    site = Site.of(0.0, a=1e-17, b=40.0, low=-0.1, high=0.3)
    shares = [TriedPrice(40.0, share) for share in np.linspace(0.0, 1.0, 101)]
    outputs = np.array([site.outputs(price).item() for price in shares])
    assert outputs.min() >= -0.1
    assert outputs.max() <= 0.3
    assert (np.diff(outputs) >= 0.0).all()


def test_a_flat_stretch_has_many_prices_and_says_so():
    """The cheap one is full at 4 and the dear one starts at 50."""
    sites = [Site.of(10.0, a=[0.1, 0.1], b=[2.0, 50.0], low=[0, 0], high=[10, 10])]
    state = settle(PriceSearch(0.0, 100.0), sites)
    assert (state.slope, state.surplus, state.is_unique) == (0.0, 0.0, False)
    assert state.lowest == pytest.approx(4.0, abs=state.within + 1e-8)
    assert state.highest == pytest.approx(50.0, abs=state.within + 1e-8)
    assert state.within <= 100.0 * 2.0**-20
    assert state.price == TriedPrice(state.lowest + (state.highest - state.lowest) / 2)


@pytest.mark.parametrize("price", [-3.0, 8.0])
def test_a_price_at_an_end_of_the_interval_is_found(price):
    site = Site.of((price + 5.0) * 2.0, a=0.25, b=-5.0, low=0.0, high=100.0)
    state = settle(PriceSearch(-3.0, 8.0), [site])
    assert state.price.value == pytest.approx(price, abs=1e-12)


@pytest.mark.parametrize("demand", [9.0, 9.5, 10.0])
def test_an_interval_without_a_float_inside_is_searched_all_the_same(demand):
    """The output is 9 at the price 1 and 10 at the next float64."""
    digit = ulp(1.0)
    site = Site.of(demand, a=digit / 2.0, b=1.0 - 9.0 * digit, low=0.0, high=20.0)
    state = settle(PriceSearch(1.0, 1.0 + digit), [site])
    assert site.outputs(state.price).item() == demand


def test_a_round_asks_for_surplus_and_slope():
    site = Site.of(7.0, a=[0.5, 1.0, 2.0], b=[1, 1, 1], low=[0, 0, 2.5], high=[9, 2, 9])
    vector = SEARCH.layout.counts.values(SEARCH.response(site, TriedPrice(9.0)))
    assert vector.tolist() == [8.0 + 2.0 + 2.5 - 7.0, 0.0, 1.0]  # two at their limits


@pytest.mark.parametrize(
    ("slow", "proposed"),
    [(False, 4.0 + 2.0 / 1.6), (True, 6.0)],
)
def test_a_slow_search_for_an_end_goes_on_by_halves(slow, proposed):
    """Else where a straight line balances: from 2 short at 4, with slope 1.6."""
    outer = PriceSample(TriedPrice(4.0), -2.0, 1.6)
    known = PriceSettled(3, TriedPrice(8.0), 0.0, 1.0, 8.0, 8.0, 0.0)
    state = PriceWidening(
        3, known, PriceSearchEnd(8.0, outer, slow=slow), PriceSearchEnd(8.0)
    )
    assert PriceSearch(0.0, 100.0).propose(state) == TriedPrice(proposed)


def test_parties_with_the_same_totals_go_the_same_way():
    sites, search = wide_market(), PriceSearch(0.0, 100.0)
    assert settle(search, sites) == settle(search, sites[::-1])


# Where there is no answer.


def test_demand_beyond_capacity_says_so():
    sites = [Site.of(30.0, a=1.0, b=0.0, low=0.0, high=10.0)]
    with refused("no-balancing-price", mentions=("20",)):
        settle(SEARCH, sites)


def test_demand_below_the_least_output_says_so():
    sites = [Site.of(1.0, a=1.0, b=0.0, low=4.0, high=10.0)]
    with refused("no-balancing-price", mentions=("3",)):
        settle(SEARCH, sites)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (0.0, 5.0, r"highest price 5.*allow higher prices"),
        (15.0, 20.0, r"lowest price 15.*allow lower prices"),
    ],
)
def test_an_interval_beside_the_price_says_which_way(low, high, message):
    sites = [Site.of(10.0, a=0.5, b=0.0, low=0.0, high=100.0)]
    with pytest.raises(InvalidInputError, match=message):
        settle(PriceSearch(low, high), sites)


def test_outputs_without_digits_for_the_tolerance_are_no_half_result():
    """Outputs about 1e16 are even numbers, and demand is odd."""
    sites = [
        Site.of(0.0, a=0.5, b=0.0, low=0.0, high=1e17),
        Site.of(1e16),
        Site.of(1.0),
    ]
    with refused("price-jump", NumericalError, mentions=("2",)):
        settle(PriceSearch(0.0, 1e17), sites)


def test_too_few_rounds_are_no_half_result():
    with refused("not-converged", NumericalError, mentions=("2",)):
        settle(PriceSearch(0.0, 1e6, max_rounds=2), wide_market())


def test_a_settled_price_takes_no_more_rounds():
    search = PriceSearch(0.0, 100.0)
    state = settle(search, wide_market())
    assert isinstance(state, PriceSettled)
    with refused("price-already-settled", LocalProtocolError):
        search.propose(state)
    with refused("price-already-settled", LocalProtocolError):
        search.advance(state, np.zeros(2))


@pytest.mark.parametrize("total", [[np.nan, 0, 0], [1.0, 0, 0], [1, 2], [1, -1, 0]])
def test_a_total_that_went_wrong_is_refused(total):
    with refused("impossible-total", NumericalError):
        SEARCH.advance(SEARCH.start(), np.array(total, dtype=object))


def test_a_site_keeps_its_secrets():
    site = Site.of(123.0, a=1.0, b=2.0, low=3.0, high=4.0)
    assert "123" not in repr(site)
    with pytest.raises(SecretError):
        pickle.dumps(site)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": -1.0}, "generator 0 must have an a of zero"),
        ({"a": 1e-301}, "generator 0 must have an a of zero"),
        ({"low": 5.0}, "generator 0 has its lower limit"),
        ({"high": np.inf}, "high must be finite"),
        ({"b": [1.0, 2.0]}, r"found \[1, 2, 1, 1\]"),
        ({"demand": -1.0}, "at least 0, found one below 0"),
        ({"demand": np.nan}, "at least 0, found nan or inf"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_sites_that_mean_nothing_are_refused(change, message):
    numbers = {"demand": 1.0, "a": 1.0, "b": 2.0, "low": 3.0, "high": 4.0, **change}
    with pytest.raises(InvalidInputError, match=message):
        Site.of(**numbers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 5.0}, "the lowest first, found 5 to 5"),
        ({"high": np.inf}, "finite prices"),
        ({"low": np.nan}, "finite prices"),
        ({"tolerance": 0.0}, "tolerance must be above zero"),
        ({"max_rounds": 0}, "max_rounds must be at least 1"),
        ({"max_rounds": float("nan")}, "max_rounds must be a whole number"),
    ],
)
def test_searches_that_mean_nothing_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        PriceSearch(**{"low": 0.0, "high": 5.0, **options})
