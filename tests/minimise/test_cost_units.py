"""Costs count in units: equal sums of cents have equal bits, and name nobody."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from refusals import refused
from strategies import seeds
from veilsum.graphs.topology import Topology
from veilsum.locale import limit_phrase
from veilsum.masks.laws import Masks
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.gradient_fit import fit_by_gradients
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.solve import solve
from veilsum.models.rows import Rows
from veilsum.numbers.limbs import limbs_to_integers, total_of_wide_integers as add_up

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

GRAPH = Topology.family("complete:4")
BOX = Box(-1e6, 1e6, dim=1)
LAWS = {"lattice": {"sigma": 1e4}, "uniform": {}}
every_law = pytest.mark.parametrize("law", LAWS)
every_driver = pytest.mark.parametrize("driver", ["loopback", "vectorised"])
amounts = st.lists(st.integers(1, 10**6), min_size=4, max_size=4)


def run_of(numbers, law, driver="vectorised", **options):
    costs = [Cost.squared_distance([one]) for one in numbers]
    return solve(
        costs,
        topology=GRAPH,
        corrupted=(),
        domain=BOX,
        law=law,
        driver=driver,
        seed=1,
        settings=Settings(method="one-shot"),
        **{**LAWS[law], **options},
    )


def splits_left(total, known, cents, masks):
    """Return which splits of two parties' cents a coalition cannot rule out.

    It knows the released total of whole steps, the others' numbers, and how many cents
    the two have together; it tries what each split would have come to.
    """
    law, left = masks.on(GRAPH), []
    for first in range(cents + 1):
        pair = (first / 100, (cents - first) / 100)
        rows = [law.encode(-2.0 * np.array([one])) for one in (*pair, *known)]
        if limbs_to_integers(add_up(np.stack(rows))).tolist() == total:
            left.append(first)
    return left


@every_law
@settings(max_examples=8)
@given(amounts=amounts)
def test_moving_cents_leaves_every_split_possible(law, amounts):
    """All candidates are left; on a plain grid of 2^-44 many were not."""
    cents = 307
    first = amounts[0] % (cents + 1)
    numbers = [first / 100, (cents - first) / 100, amounts[2] / 100, amounts[3] / 100]
    run = run_of(numbers, law, unit=0.01)
    total = limbs_to_integers(add_up(run.private)).tolist()
    masks = Masks(law, unit=0.01, **LAWS[law])
    found = splits_left(total, numbers[2:], cents, masks)
    assert found == list(range(cents + 1))


def test_the_attack_works_where_there_is_no_unit():
    numbers = [0.07, 3.0, 1.23, 4.56]
    run = run_of(numbers, "lattice", grid=44)
    total = limbs_to_integers(add_up(run.private)).tolist()
    masks = Masks("lattice", grid=44, **LAWS["lattice"])
    assert 0 < len(splits_left(total, numbers[2:], 307, masks)) < 250


@every_law
@every_driver
def test_equal_decimal_sums_lead_to_the_same_bits_and_frames(law, driver):
    """Without a word about units a simulation takes the decimals that are there."""
    one = run_of([0.07, 2.93, 1.23, 4.56], law, driver)
    other = run_of([1.01, 1.99, 1.23, 4.56], law, driver)
    assert one.terms.law.masks.unit == Fraction(1, 100)
    assert limit_phrase("unit_read", unit="1/100") in one.guarantee.limits
    assert one.minimiser.tobytes() == other.minimiser.tobytes()
    assert one.bytes == other.bytes
    np.testing.assert_allclose(one.minimiser, one.reference, rtol=1e-12)


@every_law
def test_a_coalition_sees_the_same_given_the_same_masks(law):
    """Masked vectors of honest parties differ by what masks can be, and sums do not."""
    runs = [run_of(held, law) for held in ([0.1, 0.2, 3.0, 4.0], [0.2, 0.1, 3.0, 4.0])]
    shares = [run.seen.shares for run in runs]
    np.testing.assert_array_equal(shares[0].masks(), shares[1].masks())
    totals = [run.private.sum(axis=0).tolist() for run in runs]
    assert totals[0] == totals[1]
    assert [runs[0].private[k].tolist() for k in (2, 3)] == [
        runs[1].private[k].tolist() for k in (2, 3)
    ]


def test_a_cost_is_rounded_once_and_says_how_often():
    cost = Cost.affine([0.07, 0.071, 1.0], unit=0.01)
    assert cost.coefficients.tolist() == [0.07, 0.07, 1.0]
    assert cost.counts.tolist() == [7, 7, 100]
    assert (cost.unit, cost.n_broken) == (Fraction(1, 100), 1)
    again = cost.counted("2 decimals")
    assert again is cost


@each(
    "made",
    [
        lambda unit: Cost.affine([1.26], unit=unit),
        lambda unit: Cost.squared_distance([-0.63], unit=unit),
        lambda unit: Cost.polynomial([1.26], unit=unit),
        lambda unit: Cost.quadratic([[1.26]], [1.26], unit=unit),
        lambda unit: Cost.from_gradient(lambda x: x + 1.26, dim=1, unit=unit),
    ],
)
def test_every_kind_of_cost_takes_a_unit(made):
    assert made("1/4").counts[0] == 5
    assert made("1/4").coefficients[0] == 1.25
    assert made(None).counts is None


def test_costs_in_different_units_are_refused():
    costs = [Cost.affine([0.5], unit=u) for u in (0.01, 0.01, 0.01, 0.1)]
    with refused("costs-differ", mentions=("1", "100", "3", "10")):
        solve(costs, topology=GRAPH, corrupted=(), domain=BOX, law="lattice", sigma=1e4)


@every_driver
def test_a_unit_holds_for_iterations_too(driver):
    costs = [Cost.squared_distance([one], unit=0.01) for one in (0.07, 2.93, 5.0, 1.0)]
    run = solve(
        costs,
        topology=GRAPH,
        corrupted=(),
        domain=Box(-10, 10, dim=1),
        law="lattice",
        sigma=10.0,
        driver=driver,
        settings=Settings(method="nids", iterations=60),
        seed=2,
    )
    assert run.terms.law.masks.unit == Fraction(1, 100)
    assert run.sum_of_masks == 0.0
    np.testing.assert_allclose(run.minimiser, [2.25], atol=1e-6)


# Rows


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
@settings(max_examples=3)  # of two fits each
@given(seed=seeds, data=st.data())
def test_no_total_of_a_gradient_fit_tells_who_has_which_row(family, seed, data):
    rng = np.random.default_rng(seed)
    n = 16
    design = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    response = {
        "gaussian": rng.standard_normal(n),
        "logistic": rng.integers(0, 2, n).astype(float),
        "poisson": rng.integers(0, 5, n).astype(float),
    }[family]
    weights, offset = rng.uniform(0.5, 2.0, n), rng.standard_normal(n)
    totals = []
    for _ in range(2):
        order = data.draw(st.permutations(range(n)))
        cut = sorted(data.draw(st.lists(st.integers(0, n), min_size=3, max_size=3)))
        parts = np.split(np.array(order), cut)
        rows = {
            str(k): Rows(*(a[own] for a in (design, response, weights, offset)))
            for k, own in enumerate(parts)
        }
        run = fit_by_gradients(
            rows, family=family, topology=GRAPH, sigma=100.0, step=1e-3,
            ridge=1.0, iterations=1, domain=Box(-50, 50, dim=3), seed=1,
        ).run  # fmt: skip
        totals.append(run.private.sum(axis=0).tolist())
    assert totals[0] == totals[1]
