"""A party that objects to a round: what others see, and what is counted."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import veilsum as vs
from attacks.steering import SCHEMA, VICTIM, people, released, steered
from refusals import refused
from veilsum.errors import BudgetError, NumericalError
from veilsum.files.ledger import FRUITLESS_FILES, open_ledger
from veilsum.numbers.units import UnitCounts
from veilsum.privacy.accountant import Budget
from veilsum.sums.recipes import (
    GuardedRecipe,
    ObjectedError,
    SumContribution,
    SumPartyWork,
)
from veilsum.sums.releases import OBJECTIONS
from veilsum.tables.rules import DisclosureError


def fit(tables, **options):
    """A logistic fit whose next round one party aims at a person."""
    with steered():
        return vs.fit(
            "ill ~ age + hiv",
            tables,
            family="logistic",
            schema=SCHEMA,
            seed=1,
            driver="vectorised",
            **options,
        )


class Twice:
    """A recipe of two sums."""

    def __init__(self, bits):
        self.counts = UnitCounts((Fraction(1),) * 7, bits)
        self.size = 7

    def request(self, sums):
        return None if len(sums) > 1 else str(len(sums))

    def residues(self, sums):
        return ()

    def check_sum(self, sums):
        """Every total is possible."""


def refuse(request):
    raise DisclosureError("minimum_count", "a: one row has everything")


def objection(secret, bits=60):
    """The vector of a party that objects to the second sum."""
    recipe = GuardedRecipe(Twice(bits))
    work = SumPartyWork(recipe, SumContribution(refuse, ()), secret=secret)
    return work.vector([np.zeros(8, dtype=object)])


def test_a_party_that_cannot_answer_a_later_request_objects_too():
    """Leaving would tell all others whose rows a false sum was aimed at."""

    def fail(request):
        raise NumericalError("a row has no mean here")

    work = SumPartyWork(
        GuardedRecipe(Twice(60)), SumContribution(fail, ()), secret=b"own"
    )
    with pytest.raises(NumericalError):  # before anything is shown: a plain refusal
        work.vector([])
    first = [np.zeros(8, dtype=object)]
    assert (work.vector(first) == objection(b"own")).all()
    reason = work.objection([*first, work.vector(first)])
    assert "a row has no mean here" in reason


@pytest.mark.parametrize("bits", [60, 64, 100, 190])
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_of_an_accepting_party_are_as_wide_as_agreed(bits, sign):
    """With a bit for the sign, the largest magnitude is 2 ** (bits - 1) - 1."""

    def vector(number):
        given = np.array([0] * 6 + [sign * number], dtype=object)
        work = SumPartyWork(
            GuardedRecipe(Twice(bits)), SumContribution(lambda request: given, ())
        )
        return work.vector([])

    most = (1 << (bits - 1)) - 1
    assert vector(most).tolist() == [*[0] * 6, sign * most, 0]
    with refused("internal", NumericalError, mentions=(str(bits),)):
        vector(most + 1)


@pytest.mark.statistical
@pytest.mark.parametrize("bits", [60, 64, 100, 190])
def test_the_numbers_of_an_objection_are_uniform_residues(bits):
    """False alarms: a bit of 1,600 numbers is off by 5 deviations in 6e-7 of all."""
    whole = [int(one) for k in range(200) for one in objection(b"%d" % k, bits)]
    words = 64 * max(1, -(-bits // 64))
    assert all(-(1 << (words - 1)) <= one < 1 << (words - 1) for one in whole)
    ones = Counter(place for one in whole for place in range(words) if one >> place & 1)
    away = [abs(ones[place] - 800.0) / 20.0 for place in range(words)]
    assert max(away) < 5.0


@pytest.mark.statistical
@pytest.mark.parametrize("who", [0, 1, 2])
def test_the_total_is_uniform_whoever_objects(who):
    """False alarms: a bit of 1,600 numbers is off by 5 deviations in 6e-7 of all.

    One party objects, the others give fixed numbers: for each of them the total has
    the same law, and so tells nobody which one it was.
    """
    others = np.random.default_rng(who).integers(-(1 << 58), 1 << 58, (2, 8)).sum(0)
    totals = [
        int(one) % (1 << 64)
        for k in range(200)
        for one in objection(b"%d of %d" % (k, who)) + others.astype(object)
    ]
    ones = Counter(place for one in totals for place in range(64) if one >> place & 1)
    assert max(abs(ones[place] - 800.0) / 20.0 for place in range(64)) < 5.0
    # Neighbouring bits are independent, too.
    pairs = Counter(p for one in totals for p in range(63) if one >> p & 3 == 3)
    assert max(abs(pairs[p] - 400.0) / 300.0**0.5 for p in range(63)) < 5.0


def test_a_party_that_was_started_again_objects_with_the_same_numbers():
    assert (objection(b"own") == objection(b"own")).all()
    assert (objection(b"own") != objection(b"other")).all()


def test_a_first_request_is_refused_plainly():
    work = SumPartyWork(GuardedRecipe(Twice(60)), SumContribution(refuse, ()))
    with pytest.raises(DisclosureError, match="one row has everything"):
        work.vector([])


def test_a_party_that_accepts_adds_0_to_objections_and_keeps_its_bits():
    def answered(number):
        own = SumContribution(lambda _: np.full(7, number, dtype=object), ())
        return SumPartyWork(GuardedRecipe(Twice(60)), own).vector([])

    assert answered(5).tolist() == [5] * 7 + [0]
    with refused("internal", vs.VeilsumError, mentions=("60",)):
        answered(1 << 60)


def test_only_the_owner_hears_why_and_everybody_the_same_words():
    with pytest.raises(ObjectedError) as caught:
        fit(people(1))
    assert f"{VICTIM}: the information would rest on" in str(caught.value)
    assert caught.value.plain.startswith("A party objected to round 3")
    assert all(f"{name}:" not in caught.value.plain for name in "abcde")


def test_the_total_of_an_objected_round_says_nothing_of_the_others():
    sums = []
    for rows in (60, 70):  # other tables, and the same random numbers do not appear
        with pytest.raises(ObjectedError) as caught:
            fit(people(1, rows))
        sums.append(released(caught.value)[-1])
    assert all(abs(int(one)) > 1 << 80 for total in sums for one in total)


def test_objections_are_listed_and_are_no_numbers_about_rows():
    tables = people(1)
    result = vs.fit(
        "ill ~ age", tables, family="logistic", schema=SCHEMA, driver="vectorised"
    )
    last = result.releases[-1]
    assert last.statistics[OBJECTIONS] == 1
    assert last.numbers == sum(last.statistics.values()) - 1
    assert result.recipe.size == result.inner[0].size + 1


def test_objections_are_charged_and_limited_as_refusals_are(tmp_path):
    tables = people(1)
    with open_ledger(tmp_path / "own", create=Budget()) as ledger:
        with pytest.raises(ObjectedError):
            fit(tables, ledgers={VICTIM: ledger}, run="first")
        history = ledger.history()
        assert len(history.refusals) == 1
        assert "A party objected to round 3" in history.refusals[0].reason
        assert len(history.releases) == 3  # the objected round too
        source = tables[VICTIM].to_numpy()
        data = ledger.data((source,)).data
        for number in range(FRUITLESS_FILES):
            ledger.objected(f"run {number}", data, reason="objected")
        asked = {"file": "f", "run": "next", "question": "q", "bounds": "{}"}
        with (
            refused("too-many-refusals", BudgetError),
            ledger.inquiry((source,), **asked),
        ):
            pass
