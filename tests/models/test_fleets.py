"""Dispatch over several periods, against Clarabel on the pooled problem."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from cases import each
from refusals import refused
from veilsum.errors import (
    InvalidInputError,
    LocalProtocolError,
    NumericalError,
    SecretError,
)
from veilsum.models.fleets import (
    Fleet,
    FleetPeriodSearch,
    fleet_generator_outputs,
    fleet_store_outputs,
)
from veilsum.questions.dispatch import dispatch_periods

# Ten units and a day: S. A. Kazarlis, A. G. Bakirtzis and V. Petridis, A genetic
# algorithm solution to the unit commitment problem, IEEE Transactions on Power Systems
# 11, 1996: a, b, low, high. All of them run here; that a unit changes by a fifth of its
# capacity in an hour is made up, and so is the store.
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
UNITS = np.column_stack([TEN, TEN[:, 3] / 5])
STORE = np.array([[0.002, 200.0, 60.0, 0.9, 100.0]])
HOURS = (700, 750, 850, 950, 1000, 1100, 1150, 1200, 1300, 1400, 1450, 1500)
HOURS += (1400, 1300, 1200, 1050, 1000, 1100, 1200, 1400, 1300, 1100, 900, 800)
NONE = np.empty((0, 5))
RAMPS = np.array([0, 0, 0, 0, 1e3])


def by_clarabel(units, stores, demand=None, prices=None):
    """Outputs of least cost, by row and period, and the prices of demand.

    With prices in place of demand, what earns each row most.
    """
    import clarabel

    n, m = len(units), len(stores)
    t = len(demand if prices is None else prices)
    size = (n + 2 * m) * t
    square, line = np.zeros((size, size)), np.zeros(size)
    rows, ends, same, given = [], [], [], np.zeros((t, size))
    eye, steps = np.eye(t), np.diff(np.eye(t), axis=0)

    def limit(matrix, most):
        rows.append(matrix)
        ends.append(np.full(len(matrix), most))

    for k, (a, b, low, high, ramp) in enumerate(units):
        at = np.zeros((t, size))
        at[:, k * t : (k + 1) * t] = eye
        square += 2 * a * at.T @ at
        line += b * at.sum(axis=0)
        given += at
        for matrix, most in ((at, high), (-at, -low), (steps @ at, ramp)):
            limit(matrix, most)
        limit(-steps @ at, ramp)
    for k, (wear, energy, power, part, start) in enumerate(stores):
        into, out = np.zeros((2, t, size))
        first = (n + 2 * k) * t
        into[:, first : first + t] = eye
        out[:, first + t : first + 2 * t] = eye
        moved = into - out
        square += 2 * wear * moved.T @ moved
        given += part * out - into / part
        held = np.tril(np.ones((t, t))) @ moved
        for matrix, most in ((held, energy - start), (-held, start)):
            limit(matrix, most)
        for one in (into, out):
            limit(one, power)
            limit(-one, 0.0)
        same.append(held[-1])
    if prices is None:
        equal, right = np.vstack([*same, given]), [*[0.0] * m, *demand]
    else:
        line = line - np.asarray(prices) @ given
        equal, right = np.reshape(same, (m, size)), [0.0] * m
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.ZeroConeT(len(right))] if len(right) else []
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(square)),
        line,
        sparse.csc_matrix(np.vstack([equal, *rows])),
        np.concatenate([right, *ends]),
        [*cones, clarabel.NonnegativeConeT(sum(map(len, ends)))],
        settings,
    ).solve()
    x = np.array(found.x).reshape(-1, t)
    kept = [x[:n]]
    for k, (_, _, _, part, _) in enumerate(stores):
        into, out = x[n + 2 * k : n + 2 * k + 2]
        kept.append([part * out - into / part])
    return np.vstack(kept), -np.array(found.z)[m : m + t]


def fleets(periods, units=UNITS, stores=STORE):
    """Four parties; who has what does not matter."""
    demand = np.array(HOURS[:periods], dtype=float)
    none = np.zeros(periods)
    return {
        "a": Fleet(demand[None] / 4, units[::3], NONE),
        "b": Fleet(demand[None] / 2, units[1::3], NONE),
        "c": Fleet(demand[None] / 4, units[2::3], NONE),
        "d": Fleet(none[None], NONE, stores),
    }


def settle(search, held):
    state = search.start()
    while not state.done:
        prices = search.propose(state)
        state = search.advance(state, sum(search.response(f, prices) for f in held))
    return state


@each("seed", range(25))
def test_a_generator_and_a_store_earn_what_a_solver_finds(seed):
    chance = np.random.default_rng(seed)
    low, energy = chance.uniform(0, 5), chance.uniform(2, 20)
    unit = [chance.uniform(0.01, 1), chance.uniform(0, 20), low]
    unit += [low + chance.uniform(1, 30), chance.uniform(0.5, 8)]
    store = [chance.uniform(0.01, 1), energy, chance.uniform(1, 8)]
    store += [chance.uniform(0.7, 1.0), chance.uniform(0, energy)]
    prices = chance.uniform(0, 50, 6)
    expected, _ = by_clarabel([unit], [store], prices=prices)
    found = [
        fleet_generator_outputs(prices.tolist(), *unit),
        fleet_store_outputs(prices.tolist(), *store),
    ]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(np.diff(found[0])).max() <= unit[4] * (1 + 1e-12)


@pytest.mark.parametrize(("periods", "most"), [(6, 60), (24, 160)])
def test_a_day_clears_as_the_pooled_program(periods, most):
    held = fleets(periods)
    state = settle(FleetPeriodSearch(periods, 0.0, 100.0), held.values())
    units = np.vstack([f.generators for f in held.values()])
    expected, prices = by_clarabel(units, STORE, demand=HOURS[:periods])
    outputs = np.vstack([f.outputs(state.prices) for f in held.values()])
    cost = sum(f.costs(f.outputs(state.prices)).sum() for f in held.values())
    a, b = units[:, :2].T[:, :, None]
    store = expected[-1] * np.where(expected[-1] < 0, 0.9, 1 / 0.9)
    least = ((a * expected[:-1] + b) * expected[:-1]).sum() + 0.002 * (store**2).sum()
    assert max(map(abs, state.surplus)) <= 1e-6
    np.testing.assert_allclose(outputs, expected, atol=2e-3)
    assert cost == pytest.approx(least, rel=1e-9)
    np.testing.assert_allclose(state.prices, prices, atol=1e-4)
    assert state.rounds <= most
    # The periods are tied: without ramps and store these are other prices.
    free = replace(held["a"], generators=held["a"].generators + RAMPS)
    assert not np.allclose(free.outputs(state.prices), held["a"].outputs(state.prices))


def test_no_bit_tells_who_has_which_generator_store_or_demand():
    search = FleetPeriodSearch(4, 0.0, 50.0)
    demands = np.array([HOURS[:4], HOURS[4:8]]) / 7
    whole = Fleet(demands, UNITS, STORE)
    parts = [
        Fleet(demands[1:], UNITS[7:][::-1], NONE),
        Fleet(demands[:1], UNITS[:3], STORE),
        Fleet(np.zeros((1, 4)), UNITS[3:7], NONE),
    ]
    for prices in ((20.0, 21.5, 1 / 3, 40.0), (16.6, 17.3, 17.2, 19.9)):
        total = sum(search.response(one, prices) for one in parts)
        assert total.tolist() == search.response(whole, prices).tolist()


def test_drivers_agree_and_every_number_is_listed():
    options = {"prices": (0, 40), "periods": 3, "seed": 1}
    found, other = (
        dispatch_periods(fleets(3), driver=driver, **options)
        for driver in ("vectorised", "loopback")
    )
    assert found.prices.tolist() == other.prices.tolist()
    assert len(found.guarantee.released) == len(found.released.sums)
    line = "summed over b, c, d: output less demand in each period (3)"
    assert found.guarantee.released[0].endswith(line)
    assert found.releases[0].point == (20.0, 20.0, 20.0)
    assert found.releases[-1].point == tuple(found.prices)
    assert np.abs(found.balance).max() <= 1e-6
    held = fleets(3).values()
    units = np.vstack([f.generators for f in held])
    expected, _ = by_clarabel(units, STORE, demand=HOURS[:3])
    whole = Fleet(np.zeros((1, 3)), units, STORE)
    cost = sum(one.sum() for one in found.costs.values())
    assert -0.01 < cost - whole.costs(expected).sum() <= found.excess
    assert found.to_dict()["prices"] == found.prices.tolist()
    assert found.outputs["d"].shape == found.costs["d"].shape == (1, 3)


def test_what_cannot_be_met_is_said_with_its_period():
    held = fleets(3)
    more = np.array([[0, 3000, 0]])
    held["a"] = replace(held["a"], demands=held["a"].demands + more)
    with refused("no-balancing-price", mentions=("2,",)):
        settle(FleetPeriodSearch(3, 0.0, 100.0), held.values())


def test_a_search_that_comes_to_no_end_is_no_half_result():
    search = FleetPeriodSearch(6, 0.0, 100.0, max_rounds=5)
    with refused("not-converged", NumericalError, mentions=("5",)):
        settle(search, fleets(6).values())
    state = settle(FleetPeriodSearch(2, 0.0, 100.0), fleets(2).values())
    with refused("fit-already-done", LocalProtocolError):
        search.propose(state)


UNIT = {"a": 1.0, "b": 2.0, "low": 3.0, "high": 44.25, "ramp": 5.0}
BATTERY = {"wear": 1.0, "energy": 44.25, "power": 3.0, "efficiency": 0.9, "start": 4.0}


@each(
    ("change", "message"),
    [
        ({"a": -1.0}, "generator 0: a must be at least zero"),
        ({"low": 50.0}, "generator 0: low must be at most high"),
        ({"ramp": -1.0}, "generator 0: ramp must be"),
        ({"wear": -1.0}, "store 0: wear must be at least zero"),
        ({"power": -1.0}, "store 0: power must be"),
        ({"efficiency": 1.5}, "store 0: efficiency must be 0 to 1"),
        ({"start": 45.0}, "store 0: start must be from 0 to energy"),
        ({"ramp": [1.0, 2.0]}, "every generator has one number of each kind"),
    ],
)
def test_fleets_that_mean_nothing_are_refused_by_place(change, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        Fleet.of([1.0, 2.0], **{**UNIT, **BATTERY, **change})
    assert "44.25" not in str(caught.value)


# Linear costs


def by_highs(units, stores, demand):
    """The least cost of all rows together, as a linear program."""
    t = len(demand)
    eye, steps, none = np.eye(t), np.diff(np.eye(t), axis=0), np.zeros((t, t))
    blocks = len(units) + 2 * len(stores)

    def at(**where):
        return np.hstack([where.get(f"x{k}", none) for k in range(blocks)])

    cost, bounds, given, rows, ends, same = [], [], {}, [], [], []
    for k, (_, b, low, high, ramp) in enumerate(units):
        cost += [b] * t
        bounds += [(low, high)] * t
        given[f"x{k}"] = eye
        for sign in (1, -1):
            rows.append(
                np.hstack(
                    [sign * steps if k == j else 0 * steps for j in range(blocks)]
                )
            )
            ends.append(np.full(t - 1, ramp))
    for k, (_, energy, power, part, start) in enumerate(stores):
        into, out = len(units) + 2 * k, len(units) + 2 * k + 1
        cost += [0.0] * (2 * t)
        bounds += [(0.0, power)] * (2 * t)
        given |= {f"x{into}": -eye / part, f"x{out}": part * eye}
        sums = np.tril(np.ones((t, t)))
        held = at(**{f"x{into}": sums, f"x{out}": -sums})
        rows += [held, -held]
        ends += [np.full(t, energy - start), np.full(t, start)]
        same.append(held[-1])
    found = linprog(
        cost,
        A_ub=np.vstack(rows),
        b_ub=np.concatenate(ends),
        A_eq=np.vstack([at(**given), *same]),
        b_eq=[*demand, *[0.0] * len(same)],
        bounds=bounds,
    )
    assert found.status == 0
    n = len(units)
    moved = found.x[n * t :].sum()
    run = (found.x[: n * t].reshape(n, t) - units[:, 2:3]).sum()
    return found.fun, run + moved


@pytest.mark.parametrize("rise", [1.0, 0.1])
@pytest.mark.parametrize("stores", [NONE, STORE * [0, 1, 1, 1, 1]], ids=["", "store"])
def test_linear_costs_are_least_but_for_what_the_rise_allows(stores, rise):
    held = fleets(6, UNITS * [0, 1, 1, 1, 1], stores)
    options = {"prices": (0, 100), "periods": 6, "driver": "vectorised", "seed": 1}
    with refused("wrong-unit-value"):
        dispatch_periods(held, **options)
    found = dispatch_periods(held, rise=rise, tolerance=1e-4, **options)
    units = np.vstack([f.generators for f in held.values()])
    least, moved = by_highs(units, stores, HOURS[:6])
    cost = sum(one.sum() for one in found.costs.values())
    assert -found.excess < cost - least <= found.excess + rise / 2 * moved
    assert f"made to rise by {rise:g}" in found.summary()
    # As the bent offers have it, to the tolerance.
    bent = [f.bent(rise) for f in held.values()]
    wide = np.vstack([f.generators for f in bent])
    expected, _ = by_clarabel(wide, held["d"].bent(rise).stores, demand=HOURS[:6])
    outputs = np.vstack(list(found.outputs.values()))
    np.testing.assert_allclose(outputs, expected, atol=0.05)


def test_a_bent_offer_goes_from_its_price_to_that_and_the_rise():
    flat = {**UNIT, "a": 0.0, "b": 20.0, "low": 5.0, "high": 25.0, "ramp": 99.0}
    idle = {**BATTERY, "wear": 0.0, "energy": 50.0, "start": 0.0, "power": 10.0}
    fleet = Fleet.of([0.0], **flat, **{**idle, "efficiency": 1.0}).bent(4.0)
    for price, output in ((19.0, 5.0), (20.0, 5.0), (22.0, 15.0), (24.0, 25.0)):
        assert fleet.outputs((price,))[0, 0] == pytest.approx(output)
    full = fleet.outputs((10.0, 18.0))[1]
    assert full.tolist() == pytest.approx([-10.0, 10.0])
    half = fleet.outputs((10.0, 14.0))[1]
    assert half.tolist() == pytest.approx([-5.0, 5.0])
    # Nothing to bend: what stands still, and a store of no power.
    still = Fleet.of([0.0], **{**flat, "high": 5.0}, **{**idle, "power": 0.0})
    assert still.bent(4.0).outputs((30.0,)).ravel().tolist() == [5.0, 0.0]


def test_a_fleet_of_other_periods_is_refused_by_party():
    held = {**fleets(3), "b": fleets(4)["b"]}
    with refused("wrong-period-count", mentions=("4", "3")):
        dispatch_periods(held, prices=(0, 40), periods=3)


@pytest.mark.parametrize(
    "change",
    [
        *({"periods": 0}, {"periods": 367}, {"low": -1.0}, {"high": np.inf}),
        *({"tolerance": 0.0}, {"rise": -1.0}, {"rise": np.nan}),
    ],
    ids=str,
)
def test_searches_that_mean_nothing_are_refused(change):
    with pytest.raises(InvalidInputError):
        FleetPeriodSearch(**{"periods": 2, "low": 0.0, "high": 5.0, **change})


def test_a_fleet_keeps_its_secrets():
    fleet = Fleet.of([1.0, 2.0], **UNIT)
    assert "44.25" not in repr(fleet)
    with pytest.raises(SecretError):
        pickle.dumps(fleet)
