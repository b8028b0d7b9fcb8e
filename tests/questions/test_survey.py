"""A survey's totals: exact, only of cells that enough filled, and nothing beside."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from refusals import refused
from veilsum.audit.noninterference import interference_same_frames
from veilsum.errors import InvalidInputError, RangeError
from veilsum.surveys.question import (
    LEFT_EMPTY,
    SurveyGuarantee,
    SurveyRecipe,
    SurveyResult,
    WantedTotals,
    promise_to_guests,
    survey,
    survey_residue,
    worst_survey_members,
)
from veilsum.surveys.terms import SurveyGuest, SurveyTerms, survey_tally_of

DELEGATES = ("ann", "bob", "cem")
N = 12


def terms_of(n=N, **changes):
    made = SurveyTerms(
        digest="0" * 64,
        title="Wages",
        unit=Fraction(1, 100),
        rows=("managers", "clerks"),
        columns=("women", "men"),
        low=-100,
        high=1000,
        minimum_honest=3,
        minimum_guests=5,
        tolerate=1,
        tolerate_guests=0,
        closes="",
        guests=tuple(SurveyGuest(f"Firm {k}", b"", DELEGATES[k % 3]) for k in range(n)),
        delegates=tuple((name, b"") for name in DELEGATES),
        set="ab" * 32,
    )
    return replace(made, **changes)


def filled_by(n=N):
    """Which cells guests fill: all but some, and the last but four alone."""
    filled = np.ones((n, 4), dtype=bool)
    filled[4:, 3] = False
    filled[::3, 1] = False
    return filled


def vectors(seed=0, filled=None):
    """What guests give, in cents."""
    filled = filled_by() if filled is None else filled
    stream = np.random.default_rng(seed)
    return filled * stream.integers(-9999, 99_999, filled.shape)


def recipe_of(filled=None, kind=SurveyRecipe, **changes):
    """A closed survey's, in which guests have filled these cells."""
    filled, terms = filled_by() if filled is None else filled, terms_of(**changes)
    bits = zip(terms.roster, np.packbits(filled, axis=1), strict=True)
    tally = survey_tally_of(terms, {name: one.tobytes() for name, one in bits})
    return kind(replace(terms, tally=tally))


def dealt(x, stream, like=None, honest=()):
    """Masked vectors and shares; those of others than `honest` as in another deal."""
    words = x.view(np.uint64)
    shares = stream.integers(0, 2**64, (3, *words.shape), dtype=np.uint64)
    if like is None:
        return words - shares.sum(axis=0), shares
    masked, before = like
    for place, name in enumerate(DELEGATES):
        if name not in honest:
            shares[place] = before[place]
    last = DELEGATES.index(honest[-1])
    shares[last] += words - masked - shares.sum(axis=0)
    return masked, shares


def running(recipe, deal):
    """What runs the survey with a driver."""
    masked, shares = deal
    works = {
        name: recipe.contribution(
            name,
            shares=lambda place=place: shares[place].sum(axis=0),
            masked=masked.sum(axis=0),
        )
        for place, name in enumerate(DELEGATES)
    }
    return lambda driver: recipe.run(
        works, recipe.terms({"run": "r", "driver": driver})
    )


@pytest.mark.parametrize("driver", ["vectorised", "loopback"])
def test_totals_are_those_of_all_guests_to_the_last_unit(driver):
    recipe, x = recipe_of(), vectors()
    deal = dealt(x, np.random.default_rng(1))
    found = running(recipe, deal)(driver)
    assert isinstance(found, SurveyResult)
    assert found.guests == N
    assert found.given.ravel().tolist() == [12, 8, 12, 4]
    cents = x.sum(axis=0).tolist()
    assert found.counts == (*cents[:3], None)
    assert found.totals.ravel()[:3].tolist() == [one / 100 for one in cents[:3]]
    assert np.isnan(found.totals[1, 1])
    assert found.means[0, 0] == pytest.approx(cents[0] / 100 / 12)
    assert not found.beyond
    # One sum, and in it nothing of the cell that few filled.
    assert [len(one) for one in found.released.sums] == [3]
    assert found.invited == dict.fromkeys(DELEGATES, 4)


def test_a_sum_of_shares_alone_is_uniform_and_the_last_word_is_not_lost():
    """Numbers on both sides of 2^63 add up: nothing is cut off, nothing carried."""
    x = np.where(filled_by(), -9999, 0)  # wraps around in every share sum
    masked, shares = dealt(x, np.random.default_rng(2))
    shares[:] = 2**63  # the worst that chance can draw
    masked = x.view(np.uint64) - shares.sum(axis=0)
    found = running(recipe_of(), (masked, shares))("vectorised")
    assert found.counts[:3] == (-9999 * 12, -9999 * 8, -9999 * 12)


@given(st.lists(st.integers(-(2**80), 2**80), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_a_residue_is_the_nearest_to_zero(numbers):
    for one in numbers:
        found = survey_residue(one)
        assert (found - one) % 2**64 == 0
        assert -(2**63) <= found < 2**63


def test_nothing_is_asked_where_too_few_filled_every_cell():
    filled = filled_by()
    filled[4:] = False
    recipe = recipe_of(filled)
    with refused("guarantee-not-met", mentions=("5",)):
        recipe.terms({})


def test_a_set_too_small_ends_the_run():
    recipe = recipe_of()
    tally = recipe.survey.tally
    few = replace(tally, invited=(1, 1, 1))
    with refused("guarantee-not-met", mentions=("3", "2")):
        SurveyRecipe(replace(recipe.survey, tally=few)).terms({})


def test_an_open_survey_says_what_is_asked_at_most_and_adds_nothing():
    recipe = SurveyRecipe(terms_of(set=None))
    assert recipe.size == 4
    assert recipe.request(()) == WantedTotals((0, 1, 2, 3))
    nothing = np.zeros(4, dtype=np.uint64)
    with refused("survey-still-open"):
        recipe.contribution("ann", shares=lambda: nothing, masked=nothing)


def test_a_number_in_a_cell_that_was_left_empty_counts_nobody_and_releases_nothing():
    """A guest with a page of its own: its numbers are wrong, as any may be."""
    x = vectors()
    x[5, 3] = 4711  # not released, not in any sum
    x[0, 1] = 17  # released, and guest 0 is not among the eight
    recipe = recipe_of()
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    assert found.counts[3] is None
    assert found.given[0, 1] == 8
    assert found.counts[1] == vectors().sum(axis=0)[1] + 17
    assert any("that it says are empty" in one for one in found.guarantee.limits)


def test_a_total_beyond_the_range_is_pointed_out():
    x = vectors()
    x[0, 0] = 10**9
    recipe = recipe_of()
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    assert found.beyond == ("managers x women",)
    assert "lies beyond what the range allows" in found.summary()


@each(
    ("unit", "told"),
    [
        (Fraction(1), str(2**55 + 1)),
        (Fraction(1, 100), "360287970189639.69"),
        (Fraction(1, 2**20), "34359738368.00000095367431640625"),
        (Fraction(1, 7), "36028797018963969/7"),
    ],
)
def test_a_total_above_2_to_the_53_is_exact_in_the_file(unit, told):
    """As a binary number of 53 bits it would be another one."""
    x = vectors()
    x[:, 0] = 0
    x[0, 0] = 2**55 + 1
    recipe = recipe_of(unit=unit)
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["totals"][0][0] == told
    assert Fraction(told) == (2**55 + 1) * unit
    assert Fraction(float(2**55 + 1)) != 2**55 + 1
    # And in what everybody signs.
    high, low = plain["minimiser"][:2]
    assert int(high) * 2**32 + int(low) == 2**55 + 1


def test_released_cells_that_nearly_the_same_filled_are_pointed_out():
    """All but one of a column's guests: the difference is that one's."""
    filled = filled_by()
    filled[5, 2] = False
    deal = dealt(vectors(filled=filled), np.random.default_rng(1))
    found = running(recipe_of(filled), deal)("vectorised")
    assert found.given.ravel().tolist() == [12, 8, 11, 4]
    assert found.near == (("clerks x women", "managers x women"),)
    assert found.to_dict()["near"] == [["clerks x women", "managers x women"]]
    told = " ".join(found.summary().split())
    assert "Look out: clerks x women and managers x women were filled by" in told
    # Before the run everybody knows.
    assert recipe_of(filled).survey.tally.near == ((2, 0),)
    # 12 and 8 differ by the four of ann, whom nobody needs to ask or all of them are.
    deal = dealt(vectors(), np.random.default_rng(1))
    found = running(recipe_of(), deal)("vectorised")
    assert (found.near, "Look out" in found.summary()) == ((), False)
    strict = {"minimum_honest": 4, "minimum_guests": 6, "tolerate": 0}
    assert recipe_of(**strict).survey.tally.near == ((1, 0),)


def test_equal_counts_of_other_guests_are_near_too():
    filled = filled_by()
    filled[5, 2], filled[7, 0] = False, False
    # The first pair differs by ann's four and one more: whoever asks ann knows of one.
    assert recipe_of(filled).survey.tally.near == ((1, 0), (0, 2))


# Who learns what


@pytest.mark.parametrize("tolerate", [1, 2])
def test_the_promise_is_one_sentence_and_counts_guests(tolerate):
    recipe = recipe_of(
        np.ones((N, 4), bool), tolerate=tolerate, tolerate_guests=1, minimum_honest=2
    )
    terms = recipe.survey
    deal = dealt(vectors(), np.random.default_rng(1))
    promise = running(recipe, deal)("vectorised").guarantee
    assert isinstance(promise, SurveyGuarantee)
    assert promise.sentence == promise_to_guests(terms)
    assert promise.sentence.startswith(f"Up to {tolerate} of the 3 members who collude")
    assert "up to 1 guest besides" in promise.sentence
    assert "at least 3 filled every cell whose total is released" in promise.sentence
    assert promise.sentence.endswith(LEFT_EMPTY)
    assert promise.status == "private"
    assert sorted((*promise.corrupted, *promise.honest)) == [*DELEGATES]
    assert len(promise.corrupted) == tolerate
    assert "told" not in promise.to_dict()
    assert promise.to_dict()["tolerate"] == tolerate


def test_the_worst_members_are_those_that_invited_most():
    guests = [SurveyGuest(str(k), b"", "cem" if k < 7 else "bob") for k in range(12)]
    assert worst_survey_members(terms_of(guests=tuple(guests), tolerate=2)) == (
        "cem",
        "bob",
    )


@each("coalition", [("ann", "bob"), ("bob", "cem"), ("ann", "cem"), ("bob",)])
def test_other_numbers_with_the_same_totals_look_the_same(coalition):
    """All but one delegate, the host among them: masked vectors, shares and frames.

    The second deal has the very masked vectors and shares that the coalition holds; of
    honest delegates the shares are drawn anew among those that fit. One to one, as
    shares are uniform: so equal frames for all draws are equal views.
    """
    filled = filled_by()
    first, second = vectors(), vectors()
    for cell in range(3):  # other guests have them, and who filled a cell is the same
        who = filled[:, cell]
        second[who, cell] = np.roll(first[who, cell], 1)
    # Of a cell that is not released the total may be another one, too.
    second[:4, 3] += [700, -3, 12, 55]
    assert (first != second).any(axis=1).all()
    terms = {"tolerate": 2, "minimum_honest": 2, "minimum_guests": 3}
    recipe = recipe_of(**terms)
    honest = [name for name in DELEGATES if name not in coalition]
    stream = np.random.default_rng(5)
    one = dealt(first, stream)
    other = dealt(second, stream, like=one, honest=honest)
    for place, name in enumerate(DELEGATES):
        assert (one[1][place] == other[1][place]).all() == (name in coalition)
    found = interference_same_frames(
        running(recipe, one), running(recipe, other), coalition
    )
    assert found.equal, found.first
    assert found.frames > 10
    # Twins that must be told apart: a total that differs by one unit, and a recipe that
    # asks for cells whoever filled them.
    nearly = second.copy()
    nearly[5, 0] += 1
    deal = dealt(nearly, stream, like=one, honest=honest)
    assert not interference_same_frames(
        running(recipe, one), running(recipe, deal), coalition
    ).equal
    loose = recipe_of(kind=Loose, **terms)
    found = interference_same_frames(
        running(loose, one), running(loose, other), coalition
    )
    assert not found.equal


class Loose(SurveyRecipe):
    """A planted defect: totals of all cells."""

    cells = (0, 1, 2, 3)


# What cannot be asked


@each(
    ("options", "told"),
    [
        ({"drop": True}, "every delegate holds a share"),
        ({"minimum_honest": 3}, "guests are counted by .survey. minimum_honest"),
        ({"law": "lattice", "sigma": 1e25}, 'a survey is summed under law = "uniform"'),
        ({"law": "none"}, "no other law hides"),
    ],
)
def test_a_survey_has_no_such_terms(options, told):
    with pytest.raises(InvalidInputError, match=told):
        recipe_of().terms(options)


# All in one process


def firms(n=9):
    return {f"Firm {k}": {"a": [k + 0.25, None], "b": [-k, 2]} for k in range(n)}


def test_a_simulation_adds_up_tables():
    found = survey(firms(), range=(-10, 10), unit=0.25, title="Wages", seed=1)
    assert found.totals[0].tolist() == [36 + 9 * 0.25, -36]
    assert np.isnan(found.totals[1, 0])
    assert found.given.tolist() == [[9, 9], [0, 9]]
    assert "Wages: totals of 9 guests" in repr(found)
    assert "<table" in found._repr_html_()
    plain = found.to_dict()
    assert plain["totals"] == [["38.25", "-36"], [None, "18"]]
    assert plain["near"] == []
    assert plain["guests"] == 9
    assert plain["promise"] == found.guarantee.sentence
    again = survey(
        firms(),
        rows=["x", "y"],
        range=(-10, 10),
        unit=0.25,
        seed=1,
        driver="vectorised",
    )
    assert again.survey.rows == ("x", "y")
    assert again.answer.tolist() == found.answer.tolist()


@each("delegates", [2, 4, ("x", "y")])
def test_one_honest_delegate_is_enough(delegates):
    number = delegates if isinstance(delegates, int) else len(delegates)
    found = survey(
        firms(20), range=(-30, 30), unit=0.25, delegates=delegates,
        tolerate=number - 1, minimum_honest=2, seed=1,
    )  # fmt: skip
    assert found.totals[0].tolist() == [190 + 5, -190]
    assert len(found.guarantee.honest) == 1


@each(
    ("guests", "changes", "told"),
    [
        (firms(5), {}, "3 are surely honest"),
        (firms(9), {"range": (-1, 1)}, "Firm 0: 1, b: must be from -1 to 1"),
        (firms(9), {"range": (1, -1)}, "the least and the largest"),
        (firms(9), {"unit": 1}, "Firm 0: 0, a: 0.25 is no whole number of 1"),
        (firms(9), {"delegates": 1}, "two delegates at least"),
        (firms(9), {"tolerate": 3}, "one at least is honest"),
        (firms(9), {"minimum_guests": 3}, "must be above"),
        (firms(9), {"unit": 2.0**-60}, "narrow the range"),
        ({**firms(9), "x": {"a": [1], "b": [2]}}, {}, "the table of 'x' must have"),
        (firms(9), {"rows": ["one"]}, "must have 1 rows"),
        ({}, {}, "found none"),
    ],
)
def test_a_simulation_refuses_what_delegates_would(guests, changes, told):
    usual = {"range": (-10, 10), "unit": 0.25}
    with pytest.raises(InvalidInputError, match=told):
        survey(guests, **{**usual, **changes})


def test_a_value_out_of_range_is_the_owners_alone():
    with pytest.raises(RangeError) as found:
        survey(firms(9), range=(-1, 10), unit=0.25)
    assert "-2" not in found.value.plain


def test_what_is_asked_is_what_was_foreseen():
    recipe = recipe_of()
    assert recipe.request(()) == WantedTotals((0, 1, 2))
    assert recipe.most_numbers == sum(
        sum(one.statistics.values()) for one in recipe.foreseen
    )


class Counting(SurveyTerms):
    """A planted defect: whoever filled a cell counts, a coalition's guests too."""

    def is_released(self, filled):
        return sum(filled) >= self.minimum_guests


@pytest.mark.parametrize("kind", [SurveyTerms, Counting])
def test_guests_of_a_coalition_do_not_uncover_the_one_other_in_a_cell(kind):
    """All that ann invited fill a cell, and one honest guest has."""
    filled = filled_by()
    theirs = [k for k in range(N) if k % 3 == 0]
    filled[:, 3] = False
    filled[[*theirs, 7], 3] = True
    x = vectors(filled=filled)
    x[theirs, 3] = [5, 6, 7, 8]
    x[7, 3] = 4711
    recipe = recipe_of(filled)
    recipe = SurveyRecipe(kind(**vars_of(recipe.survey)))
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    assert found.given[1, 1] == 5  # as many as minimum_guests
    if kind is SurveyTerms:
        assert found.counts[3] is None
    else:
        assert found.counts[3] - (5 + 6 + 7 + 8) == 4711  # the attack


def vars_of(terms):
    return {field.name: getattr(terms, field.name) for field in fields(terms)}
