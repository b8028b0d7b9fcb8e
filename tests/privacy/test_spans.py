"""Sums over several sets of parties: who is given away by adding and subtracting."""

from itertools import combinations

from flint import fmpz_mat
from hypothesis import given, settings, strategies as st

from refusals import refused
from veilsum.errors import BudgetError
from veilsum.privacy.spans import parties_given_away_by_sums

NAMES = "abcdefgh"
sums = st.lists(st.sets(st.sampled_from(NAMES), min_size=1), min_size=1, max_size=6)


def rank(rows):
    return fmpz_mat(rows).rank() if rows and rows[0] else 0


def row(one, names):
    return [int(name in one) for name in names]


def says_something_of(known, few):
    """Whether the span has a non-zero vector on these parties only.

    It has one exactly if the rows lose rank when the places of the few are taken out.
    """
    rest = [name for name in NAMES if name not in few]
    return rank([row(one, rest) for one in known]) < rank(
        [row(one, NAMES) for one in known]
    )


@given(sums, st.integers(1, 5))
@settings(max_examples=60)
def test_it_finds_somebody_exactly_if_some_few_parties_have_a_vector(known, few):
    found = parties_given_away_by_sums(known, few)
    sizes = range(1, few + 1)
    every = (few_ for size in sizes for few_ in combinations(NAMES, size))
    assert (found is not None) == any(says_something_of(known, one) for one in every)
    if found is not None:
        assert len(found) <= few
        assert says_something_of(known, found)


@given(sums, sums, st.integers(1, 5))
@settings(max_examples=60)
def test_it_finds_all_that_is_new_and_nothing_that_was_known(known, more, few):
    """On some few places, the larger span has more than the smaller one."""

    def size(sets, places):
        rest = [name for name in NAMES if name not in places]
        every = rank([row(one, NAMES) for one in sets])
        return every - rank([row(one, rest) for one in sets])

    def is_new(places):
        return size([*known, *more], places) > size(known, places)

    found = parties_given_away_by_sums(more, few, known=known)
    sizes = range(1, few + 1)
    every = (few_ for size_ in sizes for few_ in combinations(NAMES, size_))
    assert (found is not None) == any(map(is_new, every))
    if found is not None:
        assert len(found) <= few
        assert is_new(found)


@given(sums, st.integers(0, 3), st.integers(2, 4))
@settings(max_examples=40)
def test_it_is_the_condition_over_all_coalitions(known, tolerate, honest):
    """Take out a coalition's places: is a vector left on fewer than so many others?"""
    leaks = False
    for coalition in combinations(NAMES, tolerate):
        others = [name for name in NAMES if name not in coalition]
        left = [row(one, others) for one in known]
        for size in range(1, honest):
            for few in combinations(others, size):
                rest = [name for name in others if name not in few]
                leaks |= rank([row(one, rest) for one in known]) < rank(left)
    assert (
        parties_given_away_by_sums(known, tolerate + honest - 1) is not None
    ) == leaks


def test_factors_are_rational_and_not_only_plus_and_minus_one():
    """(abcd + abef + cdef) / 2 is abcdef: with abcdefg known, g is what is left."""
    assert parties_given_away_by_sums([set("ab"), set("ac"), set("bc")], 1) is not None
    assert parties_given_away_by_sums([set("ab"), set("ac")], 1) is None
    triangles = [set("abcd"), set("abef"), set("cdef"), set("abcdefg")]
    assert parties_given_away_by_sums(triangles, 1) == ("g",)
    assert parties_given_away_by_sums(triangles[:3], 1) is None


def test_parties_that_are_always_together_are_never_told_apart():
    many = [f"party {k}" for k in range(1000)]
    halves = [many, many[:500], many[:250] + many[500:750]]
    assert parties_given_away_by_sums(halves, 499) is None
    assert len(parties_given_away_by_sums(halves, 500)) == 500


def test_too_many_sets_to_look_through_are_refused():
    places = range(64)
    bits = [{f"p{k}" for k in places if k * k * j % 61 % 2} for j in range(1, 30)]
    assert parties_given_away_by_sums(bits, 3) is None
    with refused("history-too-large", BudgetError):
        parties_given_away_by_sums(bits, 6)
