"""What prices that are tried tell of one unit, and who aims them.

A price is public and follows from totals, but the first is the middle of the interval
that the organiser wrote. So it can be aimed. This is not prevented: it is said on the
page that every member agrees to, and the ledger counts it. Here is how far it goes.
"""

import numpy as np

import veilsum as vs
from cases import each
from party.test_agreed import DISPATCH, agreed
from veilsum.party.consent import consent_to
from veilsum.questions.dispatch import FLEETS, GENERATORS

# Four sellers' steps, by price and quantity; the organiser only buys.
OFFERS = {
    "ann": [(10, 600), (31, 75)],
    "bob": [(14, 40), (15, 170)],
    "cat": [(30, 520)],
    "dan": [(30, 80), (40, 200)],
}
AIM = 15.0


def sites(offers, demand):
    held = {
        name: vs.Site.of(
            0,
            a=np.zeros(len(steps)),
            b=[price for price, _ in steps],
            low=np.zeros(len(steps)),
            high=[quantity for _, quantity in steps],
        )
        for name, steps in offers.items()
    }
    return {**held, "eve": vs.Site.of(demand)}


def first_shown(offers, aim, demand=1000.0):
    """What the first sum says is offered at just the middle of the prices."""
    found = vs.dispatch(
        sites(offers, demand),
        prices=(aim - 100, aim + 100),
        seed=1,
        driver="vectorised",
    )
    price, least, most, _ = found.tried[0]
    assert price == aim
    return most - least


def test_a_price_that_is_aimed_shows_the_quantity_of_one_step():
    assert first_shown(OFFERS, AIM) == 170.0
    assert first_shown(OFFERS, AIM + 0.25) == 0.0


def test_of_steps_at_one_price_it_shows_the_sum_only():
    """The twin: agreed prices that many share keep single quantities apart from it."""
    assert first_shown(OFFERS, 30.0) == 600.0


def test_no_number_says_whose_the_step_is():
    dealt = {**OFFERS, "bob": [(14, 40), (30, 80)], "dan": [(40, 200), (15, 170)]}
    sums = [
        vs.dispatch(
            sites(offers, 1000.0),
            prices=(AIM - 100, AIM + 100),
            seed=1,
            driver="loopback",
        ).released.sums
        for offers in (OFFERS, dealt)
    ]
    one, other = ([total.tolist() for total in found] for found in sums)
    assert one == other


@each(("demand", "marginal"), [(5.0, 600.0), (700.0, 170.0), (1000.0, 600.0)])
def test_totals_of_one_run_bound_the_largest_unit(demand, marginal):
    """No step is larger than the largest rise between two prices, or at one.

    And the marginal step is always shown: of one unit at 10 and at 15, of two at 30.
    """
    found = vs.dispatch(
        sites(OFFERS, demand),
        prices=(0, 100),
        price_unit=1,
        seed=1,
        driver="vectorised",
    )
    tried = found.tried[np.argsort(found.tried[:, 0])]
    assert tried[0, 0] < 10
    assert tried[-1, 0] > 40
    at, between = tried[:, 2] - tried[:, 1], tried[1:, 1] - tried[:-1, 2]
    assert max(*at, *between) >= max(q for steps in OFFERS.values() for _, q in steps)
    assert marginal in at


def test_every_member_is_told_before_it_agrees():
    assert "aimed the first that is tried, their middle, at the price" in GENERATORS
    page = " ".join(consent_to(agreed(DISPATCH)).page.split())
    assert page.count(GENERATORS) == 2
    assert "further output at that price (1): how much more all those together" in page


# Several periods


def day(owners):
    """One generator for each of these, and demand that only moves with the price."""
    ramp = {"low": [0], "high": [1000], "ramp": [1000]}
    held = {
        name: vs.Fleet.of([0, 0], a=[a], b=[b], **ramp)
        for name, (a, b) in owners.items()
    }
    idle = {name: vs.Fleet.of([30, 60]) for name in "wxyz"[: 5 - len(owners)]}
    return vs.dispatch_periods(
        {**held, **idle}, prices=(20, 100), periods=2, seed=1, driver="vectorised"
    )


def slope_and_start(found):
    """Of one generator: a and b, from output less demand at two prices."""
    unit = found.recipe.counts.units[0]
    prices = [one.point[0] for one in found.releases[:2]]
    sums = [float(int(one[0]) * unit) for one in found.released.sums[:2]]
    a = (prices[1] - prices[0]) / (sums[1] - sums[0]) / 2.0
    demand = 30.0 * (
        len(found.outputs) - sum(map(bool, map(len, found.outputs.values())))
    )
    return a, prices[0] - 2.0 * a * (sums[0] + demand)


def test_over_periods_the_only_generator_shows_and_the_page_says_so():
    found = day({"ann": (0.05, 12.0)})
    np.testing.assert_allclose(slope_and_start(found), (0.05, 12.0), rtol=1e-4)
    assert FLEETS in found.guarantee.limits
    asked = {**DISPATCH, "dispatch": {"prices": [0, 100], "periods": 2}}
    page = " ".join(consent_to(agreed(asked)).page.split())
    assert page.count(FLEETS) == 2


def test_over_periods_two_generators_show_their_sum_only():
    """The twin: others with the same sums within limits give the same totals."""
    both = day({"ann": (0.05, 12.0), "bob": (0.05, 20.0)})
    other = day({"ann": (0.05, 20.0), "bob": (0.05, 12.0)})
    same = day({"ann": (0.05, 16.0), "bob": (0.05, 16.0)})
    assert not np.allclose(slope_and_start(both), (0.05, 12.0), rtol=0.1)
    for one in (other, same):
        assert [s.tolist() for s in one.released.sums] == [
            s.tolist() for s in both.released.sums
        ]
