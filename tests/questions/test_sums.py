"""Sums and averages of parties' vectors: whole numbers of a unit, added exactly."""

import pickle
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.numbers.units import UnitCounts
from veilsum.questions.sums import mean, sum as masked_sum
from veilsum.sums.terms import SumTerms

PARTIES = ("a", "b", "c", "d", "e")
words = st.integers(-(2**59), 2**59)


@settings(max_examples=25)
@given(st.lists(st.tuples(*[words] * 5), min_size=1, max_size=8))
def test_integers_are_exact_to_the_last_unit(columns):
    data = dict(zip(PARTIES, np.array(columns).T.tolist(), strict=True))
    found = masked_sum(data, driver="vectorised", seed=1).value
    assert found.tolist() == [sum(column) for column in columns]


def test_machines_add_integers_exactly_too():
    data = {name: [2**59 - k, -(2**59) + 3 * k] for k, name in enumerate(PARTIES)}
    exact = [sum(v[j] for v in data.values()) for j in (0, 1)]
    one = masked_sum(data, seed=4)
    assert one.value.tolist() == exact
    other = masked_sum(data, seed=4, driver="vectorised")
    assert other.value.tolist() == exact
    assert other.to_dict()["sum_of_masks"] == 0.0
    assert one.to_dict()["value"] == exact


@pytest.mark.parametrize("law", ["uniform", "lattice"])
def test_a_result_can_be_sent_to_another_process(law):
    sigma = {"sigma": 1e6} if law == "lattice" else {}
    data = dict(zip(PARTIES, np.arange(5.0), strict=True))
    found = mean(data, law=law, **sigma)
    assert "Average over 5 parties: 2" in repr(found)
    again = pickle.loads(pickle.dumps(found))
    assert again.value == found.value
    assert again.guarantee == found.guarantee


def test_integers_of_any_length():
    data = {name: [10**40, 1] for name in PARTIES}
    assert masked_sum(data, wide=True).value.tolist() == [5 * 10**40, 5]
    with refused("value-out-of-range"):
        masked_sum(data, driver="vectorised")


def test_reals_are_as_good_as_rounding_once():
    stream = np.random.default_rng(0)
    rows = stream.normal(size=(5, 40)) * 10.0 ** stream.integers(-12, 12, size=40)
    data = dict(zip(PARTIES, rows, strict=True))
    from math import fsum

    exact = [fsum(column) for column in rows.T]
    found = masked_sum(data, driver="vectorised").value
    np.testing.assert_allclose(found, exact, rtol=1e-15, atol=1e-27)


def test_shapes_are_kept_and_booleans_counted():
    cube = {name: np.full((2, 3), k) for k, name in enumerate(PARTIES)}
    assert masked_sum(cube, driver="vectorised").value.tolist() == [[10] * 3] * 2
    votes = {name: k > 1 for k, name in enumerate(PARTIES)}
    assert masked_sum(votes, driver="vectorised").value.tolist() == 3


@each(
    "options",
    [
        {"law": "lattice", "sigma": 1e6, "largest": 1e4},
        {"unit": 0.5, "largest": 1e4},
        {"law": "none"},
        {"topology": "ring:5", "spread": "tree"},
    ],
)
def test_other_laws_and_roads(options):
    data = {name: [1.5 * k, -k] for k, name in enumerate(PARTIES)}
    found = masked_sum(data, seed=2, **options)
    np.testing.assert_allclose(found.value, [15.0, -10.0], atol=1e-8)


def test_an_average_counts_each_party_once():
    wages = {name: [100.0 + k, k] for k, name in enumerate(PARTIES)}
    assert mean(wages).value.tolist() == [102.0, 2.0]


def test_a_guarantee_comes_with_it():
    found = masked_sum(dict.fromkeys(PARTIES, 1), what="votes")
    assert found.guarantee.status == "private"
    assert found.guarantee.epsilon == 0.0
    assert found.guarantee.released == ("round 1, summed over b, c, d, e: votes (1)",)


def test_shapes_must_agree():
    with refused("shapes-differ", mentions=("a", "2,")):
        masked_sum({"a": [1, 2], "b": [1], "c": [1, 2], "d": [1, 2]})
    with refused("no-data"):
        masked_sum({})


@each("bad", [np.nan, np.inf, "much"])
def test_what_is_no_number_is_refused(bad):
    data = {**dict.fromkeys(PARTIES, 1.0), "c": bad}
    with pytest.raises(InvalidInputError, match="c"):
        masked_sum(data, driver="vectorised")


@each("largest", [10.0, 2.0**60, 2.0**70, 1e40])
def test_a_declared_range_never_costs_digits(largest):
    whole = {name: [3, -1] for name in PARTIES}
    found = masked_sum(whole, largest=largest, driver="vectorised").value
    assert found.tolist() == [15, -5]
    reals = {name: [0.1, 1e-9] for name in PARTIES}
    if largest < 1e27:
        found = masked_sum(reals, largest=largest, driver="vectorised").value
        np.testing.assert_allclose(found, [0.5, 5e-9], rtol=1e-14)


def test_data_must_be_a_mapping():
    with refused("data-not-mapping"):
        masked_sum([1, 2, 3])


def test_an_integer_beyond_all_words_is_refused():
    with refused("value-out-of-range"):
        masked_sum({n: [10**400] for n in PARTIES}, wide=True, driver="vectorised")


# --- Units -------------------------------------------------------------------------


@each("driver", ["loopback", "vectorised"])
@each("job", [masked_sum, mean])
@each("unit", [None, 0.1, "1/10", "2 decimals"])
def test_equal_decimal_sums_give_equal_bits(driver, job, unit):
    """In float64 0.1 + 0.2 is not 0.3, and would tell the two dealings apart."""
    first = {"a": 0.1, "b": 0.2, "c": 0.5, "d": 1.1}
    other = {"a": 0.3, "b": 0.0, "c": 1.6, "d": 0.0}
    one, two = (job(data, unit=unit, driver=driver) for data in (first, other))
    assert one.released.sums[0].tolist() == two.released.sums[0].tolist()
    assert one.value.tobytes() == two.value.tobytes()
    assert one.released.answer.tobytes() == two.released.answer.tobytes()
    assert one.value.item() == (1.9 if job is masked_sum else 0.475)


@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=5, max_size=5),
    st.lists(st.integers(-(10**9), 10**9), min_size=4, max_size=4),
    st.sampled_from([1, 2, 5]),
)
@settings(max_examples=25)
def test_a_total_of_cents_knows_no_more_than_how_many_there_are(cents, moved, decimals):
    last = sum(cents) - sum(moved)
    dealings = (cents, [*moved, last])
    found = [
        masked_sum(
            {n: c / 10**decimals for n, c in zip(PARTIES, dealt, strict=True)},
            unit=f"{decimals} decimals",
            driver="vectorised",
        )
        for dealt in dealings
    ]
    assert [one.released.sums[0].tolist() for one in found] == [[sum(cents)]] * 2
    exact = float(Fraction(sum(cents), 10**decimals))
    assert {one.value.item() for one in found} == {exact}
    assert [*found[0].rounded.values()] == [0] * 5


def test_an_owner_is_told_how_many_values_were_rounded():
    data = {name: [0.25, 1.0, 3.0] for name in PARTIES} | {"c": [0.251, 1.0, 2.999]}
    found = masked_sum(data, unit="2 decimals", driver="vectorised")
    assert dict(found.rounded) == {**dict.fromkeys(PARTIES, 0), "c": 2}
    assert found.value.tolist() == [1.25, 5.0, 15.0]


def test_without_a_unit_a_simulation_finds_one_for_each_number():
    rows = {n: [0.5 * k, 2.0**-70 + k, 100 * k] for k, n in enumerate(PARTIES)}
    found = masked_sum(rows, driver="vectorised")
    assert found.value.tolist() == [5.0, 10.0, 1000.0]
    assert dict(found.rounded) == dict.fromkeys(PARTIES, 0)


@pytest.mark.parametrize("value", [1e-280, 1e300])
def test_extreme_numbers_have_their_own_unit(value):
    found = masked_sum(dict.fromkeys(PARTIES, value), driver="vectorised")
    assert found.value.item() == 5 * value


def test_integers_can_be_counted_in_another_unit():
    data = dict(zip(PARTIES, [100, 250, -50, 0, 1000], strict=True))
    found = masked_sum(data, unit=50, driver="vectorised")
    assert found.released.sums[0].tolist() == [26]
    assert found.value.item() == 1300.0


@each("unit", [0, -1, "two", "1/0", float("nan"), True])
def test_what_is_no_unit_is_refused(unit):
    with refused("malformed-unit"):
        masked_sum(dict.fromkeys(PARTIES, 1.0), unit=unit)


def test_a_value_beyond_the_range_is_refused_by_name():
    data = {**dict.fromkeys(PARTIES, 1.0), "d": 12.0}
    with refused("value-out-of-range", mentions=("1", "10")):
        masked_sum(data, largest=10.0, driver="vectorised")
    with refused("value-out-of-range", mentions=("1",)):
        masked_sum({**data, "d": 1e30}, unit=0.01, driver="vectorised")


@dataclass(frozen=True)
class Alone:
    """Takes one party's part; nobody is there to meet."""

    party: str = "a"

    def carry_out(self, assignment):
        raise Asked(assignment)


class Asked(Exception):
    """Carries what a driver was asked to do."""


def agreed(value, **options):
    """Return the plan that a real party with this value would compare."""
    graph = Topology.family("complete:5").renamed(PARTIES)
    with pytest.raises(Asked) as asked:
        masked_sum({"a": value}, driver=Alone(), topology=graph, run="r", **options)
    return asked.value.args[0].plan


def test_real_parties_agree_on_a_unit_beforehand():
    """What is agreed follows from no value: the plans of two parties are one."""
    with refused("unit-missing"):
        agreed(0.25)
    for options in ({"unit": 0.01}, {"largest": 100.0}, {"unit": 0.01, "largest": 9}):
        assert agreed(0.25, **options).digest == agreed(-7.0, **options).digest
    assert agreed(1).digest == agreed(-(2**59)).digest
    plans = [agreed(1.0, unit=0.01), agreed(1.0, unit=0.1), agreed(1.0, largest=9.0)]
    assert len({plan.digest for plan in plans}) == 3
    (unit,) = agreed(0.5, largest=100.0).law.counted.units
    assert unit == Fraction(2) ** (8 - 40), "40 bits of -100 to 100"


def test_what_is_said_of_sums_is_not_about_rows():
    """A party's numbers are rounded for the party: records dealt anew may show."""
    dealt = (
        {"a": 0.0, "b": 0.04 + 0.04, "c": 0.07, "d": 0.0},
        {"a": 0.0, "b": 0.04 + 0.07, "c": 0.04, "d": 0.0},
    )
    one, other = (masked_sum(values, unit=0.1) for values in dealt)
    assert one.value != other.value
    for law in ({}, {"law": "lattice", "sigma": 1000.0}):
        limits = masked_sum(dealt[0], unit=0.1, **law).guarantee.limits
        assert not any("which row" in line for line in limits)
        assert any("whole inputs exchanged" in line for line in limits)


@pytest.mark.parametrize("size", [1, 10**8])
def test_vectors_are_flooded_however_long_unless_a_tree_is_asked_for(size):
    """Along a tree who speaks last could choose the total."""
    counts = UnitCounts((Fraction(1),), 20)
    for options, way in (({}, "flooding"), ({"spread": "tree"}, "tree")):
        terms = SumTerms.of("abcd", counts=counts, options={"seed": 1, **options})
        assert terms.spread_of(size) == way
