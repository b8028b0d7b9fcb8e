"""Bits held: never more than the exact quantile, and close to it."""

from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import factorial, log2, prod

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import gammaln

from row_laws import row_entropy
from veilsum.disclosure import laws
from veilsum.disclosure.laws import (
    QUANTILE,
    DisclosedRowLaw,
    bits_held_by_rows,
    bits_held_given,
    joint_row_law,
)
from veilsum.errors import InvalidInputError
from veilsum.tables.columns import Column

BIT = DisclosedRowLaw.uniform(2)
AGES = DisclosedRowLaw.uniform(78)


def quantile(chances):
    """The exact quantile of -log2 P, of tables with these probabilities."""
    ordered = sorted(chances, reverse=True)
    below = np.cumsum(ordered)
    assert below[-1] == pytest.approx(1.0)
    return -log2(ordered[min(int((below <= QUANTILE).sum()), len(ordered) - 1)])


def multisets(chances, rows):
    """The probability of every multiset of rows."""
    for few in combinations_with_replacement(range(len(chances)), rows):
        counts = np.bincount(few, minlength=len(chances)).tolist()
        ways = factorial(rows) // prod(map(factorial, counts))
        yield counts, ways * prod(p**n for p, n in zip(chances, counts, strict=True))


shares = st.lists(st.sampled_from([0.05, 0.2, 0.3, 1.0]), min_size=1, max_size=4)


@settings(deadline=None)
@given(shares, st.integers(0, 6))
def test_no_table_law_holds_less_than_it_is_said_to(shares, rows):
    law = DisclosedRowLaw.from_histogram(shares, [1] * len(shares))
    chances = [one / sum(shares) for one in shares]
    exact = quantile([p for _, p in multisets(chances, rows)])
    assert bits_held_by_rows(rows, law) <= exact + 1e-6


@settings(deadline=None)
@given(shares, shares, st.integers(1, 5))
def test_no_column_holds_less_given_the_others(of_keys, of_values, rows):
    keys = DisclosedRowLaw.from_histogram(of_keys, [1] * len(of_keys))
    law = DisclosedRowLaw.from_histogram(of_values, [1] * len(of_values))
    values = [one / sum(of_values) for one in of_values]
    found = []
    for counts, chance in multisets([one / sum(of_keys) for one in of_keys], rows):
        cells = [[p for _, p in multisets(values, n)] for n in counts]
        found += [(chance * prod(few), prod(few)) for few in product(*cells)]
    # Tables in the order of their conditional probability, the likeliest first.
    found.sort(key=lambda pair: -pair[1])
    below = np.cumsum([one for one, _ in found])
    place = min(int((below <= QUANTILE).sum()), len(found) - 1)
    assert bits_held_given(rows, law, keys) <= -log2(found[place][1]) + 1e-6


def test_the_bound_is_near_the_quantile_of_drawn_tables():
    """Fixed seed: 300 rows, 78 ages and one bit, uniform; 20,000 tables."""
    rng = np.random.default_rng(1)
    ages = rng.multinomial(300, [1 / 78] * 78, size=20_000)
    ones = rng.binomial(ages, 0.5)
    cells = gammaln(ones + 1) + gammaln(ages - ones + 1)
    both = (300 * np.log(156) - gammaln(301) + cells.sum(axis=1)) / np.log(2)
    given = ((ages * np.log(2) - gammaln(ages + 1)) + cells).sum(axis=1) / np.log(2)
    for drawn, bound in (
        (both, bits_held_by_rows(300, AGES * BIT)),
        (given, bits_held_given(300, BIT, AGES)),
    ):
        exact = np.quantile(drawn, QUANTILE)
        assert 0.97 * exact < bound < exact


def test_the_figures_of_the_design_are_those_of_an_infection_of_one_in_nine():
    """300 rows, ages 18 to 95 around 50, and one bit: about 250; 57 given ages."""
    years = np.arange(18, 96)
    ages = DisclosedRowLaw.from_histogram(
        np.exp(-(((years - 50) / 16) ** 2) / 2).tolist(), [1] * 78
    )
    rare = DisclosedRowLaw.from_histogram([0.885, 0.115], [1, 1])
    assert bits_held_by_rows(300, ages * rare) == pytest.approx(250, rel=0.03)
    assert bits_held_given(300, rare, ages) == pytest.approx(57, rel=0.05)


def test_rows_that_their_keys_identify_hold_independent_bits():
    keys = joint_row_law([DisclosedRowLaw.uniform(10**6)] * 5)
    assert bits_held_given(300, BIT, keys) == pytest.approx(300.0, rel=0.001)
    # Distinct cells: no count has a factorial.
    exact = 300 * log2(10**30) - gammaln(301) / np.log(2)
    assert bits_held_by_rows(300, keys) == pytest.approx(exact, rel=1e-4)


def test_more_rows_than_are_counted_hold_no_less():
    few, many = bits_held_by_rows(4_000, BIT), bits_held_by_rows(400_000, BIT)
    assert 0.0 < few <= many


def test_many_classes_are_merged_to_less():
    rng = np.random.default_rng(2)
    laws = [
        DisclosedRowLaw.from_histogram(rng.random(40).tolist(), [3] * 40)
        for _ in range(3)
    ]
    law = joint_row_law(laws)
    assert len(law.cells) <= 2_049
    assert law.size == 120**3
    # Rounded up, probabilities add up to a little more than 1: less is held.
    assert bits_held_by_rows(50, law) < 50 * sum(row_entropy(one) for one in laws)


def test_a_law_follows_from_the_schema():
    sex = Column("sex", "category", categories=("f", "m"))
    assert DisclosedRowLaw.from_column(sex) == BIT
    age = Column("age", "integer", minimum=18, maximum=95)
    assert DisclosedRowLaw.from_column(age) == AGES
    agreed = DisclosedRowLaw.from_column(replace(age, cuts=(41,), law=(0.5, 0.5)))
    assert agreed.cells == (23, 55)
    rare = DisclosedRowLaw.from_column(replace(sex, law=(3, 1)))
    assert row_entropy(rare) == pytest.approx(0.8112781)
    assert (
        DisclosedRowLaw.from_column(Column("n", "integer")) == BIT
    )  # nothing is agreed


@pytest.mark.parametrize(
    "make",
    [
        lambda: DisclosedRowLaw.uniform(0),
        lambda: DisclosedRowLaw.from_histogram([0.5, -0.5], [1, 1]),
        lambda: DisclosedRowLaw.from_histogram([1.0], [0]),
        lambda: DisclosedRowLaw.from_histogram([0.0], [1]),
    ],
)
def test_what_is_no_law_is_refused(make):
    with pytest.raises(InvalidInputError):
        make()


def best_of_all_exponents(moment):
    """The largest bound of all exponents, each computed."""

    def bound(t):
        return (log2(QUANTILE) - moment(t) / np.log(2.0)) / t

    best, at = max((bound(t), t) for t in laws.EXPONENTS)
    return max(0.0, best, *(bound(at * 2.0**k) for k in (-0.5, -0.25, 0.25, 0.5)))


@settings(deadline=None, max_examples=20)
@given(shares, st.sampled_from([1, 2, 5, 40, 300, 5_000]), st.integers(1, 500))
def test_the_search_ends_at_the_best_of_all_exponents(parts, rows, values):
    law = DisclosedRowLaw.from_histogram(parts, [values] * len(parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laws, "_best_row_law_bound", best_of_all_exponents)
        expected = bits_held_by_rows.__wrapped__(rows, law)
    assert bits_held_by_rows.__wrapped__(rows, law) == pytest.approx(
        expected, rel=1e-12
    )
