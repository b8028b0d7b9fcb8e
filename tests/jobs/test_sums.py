"""Sums and averages of parties' vectors: exact integers, reals to the grid."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilsum.errors import InvalidInputError
from veilsum.jobs.sums import mean
from veilsum.jobs.sums import sum as masked_sum

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
    assert "private" in repr(found)
    again = pickle.loads(pickle.dumps(found))
    assert again.value == found.value
    assert again.guarantee == found.guarantee


def test_integers_of_any_length():
    data = {name: [10**40, 1] for name in PARTIES}
    assert masked_sum(data, wide=True).value.tolist() == [5 * 10**40, 5]
    with pytest.raises(InvalidInputError, match=r"a: .*nothing is clipped"):
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


@pytest.mark.parametrize(
    "options",
    [
        {"law": "lattice", "sigma": 1e6, "largest": 1e4},
        {"grid": 30, "largest": 1e4},
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
    with pytest.raises(InvalidInputError, match=r"one shape, found 'a' \(2,\)"):
        masked_sum({"a": [1, 2], "b": [1], "c": [1, 2], "d": [1, 2]})
    with pytest.raises(InvalidInputError, match="needs parties"):
        masked_sum({})


@pytest.mark.parametrize("bad", [np.nan, np.inf, "much"])
def test_what_is_no_number_is_refused(bad):
    data = {**dict.fromkeys(PARTIES, 1.0), "c": bad}
    with pytest.raises(InvalidInputError, match="c"):
        masked_sum(data, driver="vectorised")


@pytest.mark.parametrize("largest", [10.0, 2.0**60, 2.0**70, 1e40])
def test_a_declared_range_never_costs_digits(largest):
    whole = {name: [3, -1] for name in PARTIES}
    found = masked_sum(whole, largest=largest, driver="vectorised").value
    assert found.tolist() == [15, -5]
    reals = {name: [0.1, 1e-9] for name in PARTIES}
    if largest < 1e27:
        found = masked_sum(reals, largest=largest, driver="vectorised").value
        np.testing.assert_allclose(found, [0.5, 5e-9], rtol=1e-14)


def test_a_grid_that_would_round_everything_away_is_refused():
    with pytest.raises(InvalidInputError, match="round statistics away"):
        masked_sum(dict.fromkeys(PARTIES, 3.0), grid=-3)
    with pytest.raises(InvalidInputError, match="leave grid out"):
        masked_sum(dict.fromkeys(PARTIES, 3), grid=40)


def test_data_must_be_a_mapping():
    with pytest.raises(InvalidInputError, match="mapping of parties"):
        masked_sum([1, 2, 3])


def test_an_integer_beyond_all_words_is_refused():
    with pytest.raises(InvalidInputError, match="1e308"):
        masked_sum({n: [10**400] for n in PARTIES}, wide=True, driver="vectorised")
