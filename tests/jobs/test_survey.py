"""A survey's totals: exact, only of cells that enough filled, and nothing beside."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilsum.agreement.survey import Guest, SurveyTerms
from veilsum.audit.noninterference import same_frames
from veilsum.errors import InvalidInputError, RangeError
from veilsum.jobs.survey import (
    COUNTED_ONCE,
    GIVEN,
    SurveyGuarantee,
    SurveyRecipe,
    SurveyResult,
    promise_to_guests,
    residue,
    survey,
    worst_members,
)

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
        guests=tuple(Guest(f"Firm {k}", b"", DELEGATES[k % 3]) for k in range(n)),
        delegates=tuple((name, b"") for name in DELEGATES),
        set="ab" * 32,
    )
    return replace(made, **changes)


def vectors(seed=0, n=N):
    """What guests give: whether, then how many cents; the last cell by four alone."""
    stream = np.random.default_rng(seed)
    given_ = np.ones((n, 4), dtype=np.int64)
    given_[4:, 3] = 0
    given_[::3, 1] = 0
    return np.hstack([given_, given_ * stream.integers(-9999, 99_999, (n, 4))])


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
            guests=recipe.survey.roster,
        )
        for place, name in enumerate(DELEGATES)
    }
    return lambda driver: recipe.run(
        works, recipe.terms({"run": "r", "driver": driver})
    )


@pytest.mark.parametrize("driver", ["vectorised", "loopback"])
def test_totals_are_those_of_all_guests_to_the_last_unit(driver):
    recipe, x = SurveyRecipe(terms_of()), vectors()
    deal = dealt(x, np.random.default_rng(1))
    found = running(recipe, deal)(driver)
    assert isinstance(found, SurveyResult)
    assert found.guests == N
    assert found.given.ravel().tolist() == [12, 8, 12, 4]
    cents = x[:, 4:].sum(axis=0).tolist()
    assert found.counts == (*cents[:3], None)
    assert found.totals.ravel()[:3].tolist() == [one / 100 for one in cents[:3]]
    assert np.isnan(found.totals[1, 1])
    assert found.means[0, 0] == pytest.approx(cents[0] / 100 / 12)
    assert not found.beyond
    assert found.released.sums[1][3] == 0  # nobody gave it
    assert found.released.sums[1][4:].tolist() == [0, 0, 0]
    assert found.invited == dict.fromkeys(DELEGATES, 4)
    assert found.enough == 4 + 3 + 1


def test_a_sum_of_shares_alone_is_uniform_and_the_last_word_is_not_lost():
    """Numbers on both sides of 2^63 add up: nothing is cut off, nothing carried."""
    recipe, x = SurveyRecipe(terms_of()), vectors()
    x[:, 4:] = np.where(x[:, :4] == 1, -9999, 0)  # wraps around in every share sum
    masked, shares = dealt(x, np.random.default_rng(2))
    shares[:] = 2**63  # the worst that chance can draw
    masked = x.view(np.uint64) - shares.sum(axis=0)
    found = running(recipe, (masked, shares))("vectorised")
    assert found.counts[:3] == (-9999 * 12, -9999 * 8, -9999 * 12)


@given(st.lists(st.integers(-(2**80), 2**80), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_a_residue_is_the_nearest_to_zero(numbers):
    for one in numbers:
        found = residue(one)
        assert (found - one) % 2**64 == 0
        assert -(2**63) <= found < 2**63


def test_nothing_is_asked_where_too_few_filled_every_cell():
    x = vectors()
    x[4:] = 0
    recipe = SurveyRecipe(terms_of())
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    assert len(found.released.sums) == 1
    assert found.counts == (None,) * 4
    assert "Empty: 4 of 4 cells" in str(found)
    assert found.to_dict()["totals"] == [[None, None], [None, None]]


@pytest.mark.parametrize(
    ("cell", "number", "told"),
    [
        (4, 5, "5 guests in the set would have been invited by ann"),
        (6, -1, "-1 guests in the set would have been invited by cem"),
        ((4, 5, 6), 1, "of 3 guests in the set 2 are surely honest, and 4 are needed"),
    ],
)
def test_a_set_that_cannot_be_ends_the_run(cell, number, told):
    recipe = SurveyRecipe(terms_of())
    first = np.array([12, 8, 12, 4, 4, 4, 4], dtype=object)
    assert recipe.request([first]).cells == (0, 1, 2)
    first[[*np.atleast_1d(cell)]] = number
    with pytest.raises(InvalidInputError, match=told):
        recipe.request([first])


@pytest.mark.parametrize("number", [13, -1, 2**62, -(2**63)])
def test_an_impossible_count_is_not_released_and_the_others_are(number):
    x = vectors()
    x[0, 0] = residue(number - 11)  # the others are 11
    recipe = SurveyRecipe(terms_of())
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    cents = x[:, 4:].sum(axis=0).tolist()
    assert found.counts == (None, *cents[1:3], None)
    assert found.given[0, 0] == residue(number)
    assert found.impossible == ("managers x women",)
    assert found.to_dict()["impossible"] == ["managers x women"]
    assert np.isnan(found.means[0, 0])
    told = " ".join(found.summary().split())
    assert "The count of managers x women cannot be: somebody counted there" in told
    assert "Empty: 1 of 4 cells" in told  # which few filled


def test_a_guest_that_counts_itself_five_times_is_seen_if_all_filled_the_cell():
    """And is not seen otherwise: that is among the limits."""
    x = vectors()
    x[0, :1] = 5
    recipe = SurveyRecipe(terms_of())
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    assert found.impossible == ("managers x women",)
    x = vectors()
    x[0, 3] = 5
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    assert found.counts[3] is not None
    told = "count itself several times in a cell"
    assert any(told in line for line in found.guarantee.limits)


def test_a_total_beyond_the_range_is_pointed_out():
    x = vectors()
    x[0, 4] = 10**9
    recipe = SurveyRecipe(terms_of())
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    assert found.beyond == ("managers x women",)
    assert "lies beyond what the range allows" in found.summary()


@pytest.mark.parametrize(
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
    x[:, 4] = 0
    x[0, 4] = 2**55 + 1
    recipe = SurveyRecipe(terms_of(unit=unit))
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["totals"][0][0] == told
    assert Fraction(told) == (2**55 + 1) * unit
    assert Fraction(float(2**55 + 1)) != 2**55 + 1


def test_released_cells_that_nearly_as_many_filled_are_pointed_out():
    """12 and 11 in a column: one guest may be all that they differ by."""
    x = vectors()
    x[5, [2, 6]] = 0
    recipe = SurveyRecipe(terms_of())
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    assert found.given.ravel().tolist() == [12, 8, 11, 4]
    assert found.near == (("clerks x women", "managers x women"),)
    assert found.to_dict()["near"] == [["clerks x women", "managers x women"]]
    told = " ".join(found.summary().split())
    assert "Look out: clerks x women and managers x women were filled by" in told
    # 12 and 8 differ by more than minimum_honest; what is not released is not compared.
    x = vectors()
    found = running(recipe, dealt(x, np.random.default_rng(1)))("vectorised")
    assert (found.near, "Look out" in found.summary()) == ((), False)
    found = running(
        SurveyRecipe(terms_of(minimum_honest=4, minimum_guests=6, tolerate=0)),
        dealt(x, np.random.default_rng(1)),
    )("vectorised")
    assert found.near == (("managers x men", "managers x women"),)


# Who learns what


@pytest.mark.parametrize("tolerate", [1, 2])
def test_the_promise_is_one_sentence_and_counts_guests(tolerate):
    terms = terms_of(tolerate=tolerate, tolerate_guests=1, minimum_honest=2)
    recipe = SurveyRecipe(terms)
    deal = dealt(vectors(), np.random.default_rng(1))
    promise = running(recipe, deal)("vectorised").guarantee
    assert isinstance(promise, SurveyGuarantee)
    assert promise.sentence == promise_to_guests(terms)
    assert promise.sentence.startswith(f"Up to {tolerate} of the 3 members who collude")
    assert "up to 1 guest besides" in promise.sentence
    assert "at least 3 filled every cell whose total is released" in promise.sentence
    assert promise.sentence.endswith(COUNTED_ONCE)
    assert promise.status == "private"
    assert sorted((*promise.corrupted, *promise.honest)) == [*DELEGATES]
    assert len(promise.corrupted) == tolerate
    assert "told" not in promise.to_dict()
    assert promise.to_dict()["tolerate"] == tolerate


def test_the_worst_members_are_those_that_invited_most():
    guests = [Guest(str(k), b"", "cem" if k < 7 else "bob") for k in range(12)]
    assert worst_members(terms_of(guests=tuple(guests), tolerate=2)) == ("cem", "bob")


@pytest.mark.parametrize(
    "coalition", [("ann", "bob"), ("bob", "cem"), ("ann", "cem"), ("bob",)]
)
def test_other_numbers_with_the_same_totals_look_the_same(coalition):
    """All but one delegate, the host among them: masked vectors, shares and frames.

    The second deal has the very masked vectors and shares that the coalition holds; of
    honest delegates the shares are drawn anew among those that fit. One to one, as
    shares are uniform: so equal frames for all draws are equal views.
    """
    first, second = vectors(), vectors()
    second[:, 4:7] = np.roll(first, 1, axis=0)[:, 4:7]  # other guests have them
    second[:, :3] = np.roll(first, 1, axis=0)[:, :3]
    # Of a cell that is not released the total may be another one, too.
    second[:4, 7] += [700, -3, 12, 55]
    assert (first != second).any(axis=1).all()
    recipe = SurveyRecipe(terms_of(tolerate=2))
    honest = [name for name in DELEGATES if name not in coalition]
    stream = np.random.default_rng(5)
    one = dealt(first, stream)
    other = dealt(second, stream, like=one, honest=honest)
    for place, name in enumerate(DELEGATES):
        assert (one[1][place] == other[1][place]).all() == (name in coalition)
    found = same_frames(running(recipe, one), running(recipe, other), coalition)
    assert found.equal, found.first
    assert found.frames > 10
    # Twins that must be told apart: a total that differs by one unit, and a recipe that
    # asks for cells whoever filled them.
    nearly = second.copy()
    nearly[5, 4] += 1
    deal = dealt(nearly, stream, like=one, honest=honest)
    assert not same_frames(running(recipe, one), running(recipe, deal), coalition).equal
    loose = Loose(terms_of(tolerate=2))
    found = same_frames(running(loose, one), running(loose, other), coalition)
    assert not found.equal


class Loose(SurveyRecipe):
    """A planted defect: totals of all cells."""

    def released(self, sums):
        del sums
        return (0, 1, 2, 3)


# What cannot be asked


@pytest.mark.parametrize(
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
        SurveyRecipe(terms_of()).terms(options)


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


@pytest.mark.parametrize("delegates", [2, 4, ("x", "y")])
def test_one_honest_delegate_is_enough(delegates):
    number = delegates if isinstance(delegates, int) else len(delegates)
    found = survey(
        firms(20), range=(-30, 30), unit=0.25, delegates=delegates,
        tolerate=number - 1, minimum_honest=2, seed=1,
    )  # fmt: skip
    assert found.totals[0].tolist() == [190 + 5, -190]
    assert len(found.guarantee.honest) == 1


@pytest.mark.parametrize(
    ("guests", "changes", "told"),
    [
        (firms(5), {}, "3 are surely honest"),
        (firms(9), {"range": (-1, 1)}, "Firm 0: 1 values are outside"),
        (firms(9), {"unit": 1}, "Firm 0: .* no whole numbers of 1"),
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


def test_what_is_asked_first_is_who_filled_what():
    recipe = SurveyRecipe(terms_of())
    assert recipe.request(()) == GIVEN
    assert recipe.most_numbers == sum(
        sum(one.statistics.values()) for one in recipe.foreseen
    )


class Counting(SurveyRecipe):
    """A planted defect: whoever filled a cell counts, a coalition's guests too."""

    def enough(self, invited):
        del invited
        return self.survey.minimum_guests


@pytest.mark.parametrize("kind", [SurveyRecipe, Counting])
def test_guests_of_a_coalition_do_not_uncover_the_one_other_in_a_cell(kind):
    """All that ann invited say that they filled a cell, and one honest guest has."""
    x = vectors()
    theirs = [k for k in range(N) if k % 3 == 0]
    x[:, 3], x[:, 7] = 0, 0
    x[[*theirs, 7], 3] = 1
    x[theirs, 7] = [5, 6, 7, 8]
    x[7, 7] = 4711
    found = running(kind(terms_of()), dealt(x, np.random.default_rng(1)))("vectorised")
    assert found.given[1, 1] == 5  # as many as minimum_guests
    if kind is SurveyRecipe:
        assert found.counts[3] is None
    else:
        assert found.counts[3] - (5 + 6 + 7 + 8) == 4711  # the attack
