"""Counts that nobody can check: open, and listed so in the threat page.

A lying member chooses a point at which one person's row has a mean or not, depending on
a sensitive bit: the count of rows outside tells which. And it claims to hold a level
that one party alone holds, or that a column varies within many parties: a sum over that
level, or of that column's products, is then that party's own. Or it claims that rows of
two variables differ at many parties: their counts then show the group of one person.
"""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

import veilsum as vs
from attacks import organiser
from attacks.organiser import AIM, Found
from attacks.steering import (
    OLDEST,
    SCHEMA,
    VICTIM,
    Aim,
    people,
    released,
    steered,
    unwrapped,
)
from attacks.test_own_rows import by_a_copy_that_lacks_one, by_the_rows_of_a_column
from attacks.test_party_terms import left_to_one, products_within
from attacks.test_the_ledger import moments_of
from refusals import refused
from veilsum.models import newton
from veilsum.questions.statistics.populations import CountDifferences
from veilsum.sums import table_job
from veilsum.sums.presence import PRESENCE, PresenceVaryingColumns
from veilsum.sums.running import run_sum_job

# Rows outside


def limits_of_a_mean():
    """What a row's predictor may be, which follows from the public file alone."""
    with steered() as seen, pytest.raises(vs.VeilsumError):
        asked("visits ~ age + hiv", people(0), 0)
    return unwrapped(seen["recipe"]).newton.scales.limits


def asked(formula, tables, seed):
    options = {"family": "poisson", "schema": SCHEMA, "driver": "vectorised"}
    return vs.fit(formula, tables, seed=seed, **options).released.sums


def at_the_limit(limits):
    """A point at which the oldest person is outside if the bit is 1, and nobody else.

    Nobody else is within seven years of that person's age.
    """
    most, bit, slope, variances = (
        limits.high - limits.margin,
        4.0,
        2.0,
        (0.0, 1.0, 0.25),
    )
    # The first step takes half of the variance off that the predictor has in invented
    # rows, and is so much longer as it is halved. They are where it is 0 before that.
    variance = slope**2 * variances[1] + bit**2 * variances[2]
    most += 2.0**newton.STEP_HALVINGS * variance / 2
    middle = OLDEST - most / slope
    coefficients = (most - bit / 2 - slope * OLDEST, slope, bit)
    return Aim((1.0, middle, 0.5), variances, coefficients)


def counted_outside(seed, limits):
    """The oldest person's bit, from the count of rows outside at such a point."""
    tables = people(seed)
    truth = int(tables[VICTIM].loc[0, "hiv"])
    with steered(at_the_limit(limits)) as seen:
        try:
            sums = asked("visits ~ age + hiv", tables, seed)
        except vs.VeilsumError as error:
            sums = released(error)
    scales = unwrapped(seen["recipe"]).newton.scales
    # Before it come a count of parties and the first sums.
    return Found(scales.outside(sums[2][: scales.size]).model, truth)


@pytest.mark.parametrize(
    "times", [5, pytest.param(20, marks=pytest.mark.slow, id="many")]
)
def test_open_rows_outside_tell_a_bit_of_one_person(times):
    limits = limits_of_a_mean()
    found = [counted_outside(seed, limits) for seed in range(times)]
    assert {one.truth for one in found} == {0, 1}
    assert all(one.succeeded for one in found)


# Holders that are not there

FRIEND, RARE = "ash", "isolation"


def claims_to_hold(extra):
    """Every party answers as it should, but one adds holders to a rare level."""

    def lying(recipe, contributions, terms, **more):
        own = contributions[FRIEND]

        def answer(request):
            found = own.answer(request)
            if request == PRESENCE:
                (group,) = (one for one in recipe.groups if RARE in one.places)
                assert recipe.groups[0] is group
                found[group.places.index(RARE)] += extra
            return found

        contributions = {**contributions, FRIEND: replace(own, answer=answer)}
        return run_sum_job(recipe, contributions, terms, **more)

    return patch.object(table_job, "run_sum_job", lying)


def one_party_s_level(seed, extra):
    """How many rows, and which sum of salaries, one hospital's own ward has."""
    tables = organiser.patients(seed)
    ward = tables[AIM]["ward"].to_numpy(copy=True)
    ward[:9] = RARE
    tables[AIM] = tables[AIM].assign(ward=ward)
    with claims_to_hold(extra):
        square, product = moments_of(organiser.fitted("salary ~ ward", tables))
    place = organiser.WARDS.index(RARE)
    truth = [9, tables[AIM]["salary"][:9].sum()]
    return Found([square[place, place], product[place]], truth)


def test_open_holders_that_are_not_there_are_believed():
    found = [one_party_s_level(seed, extra=2) for seed in range(10)]
    assert all(one.succeeded for one in found)


def test_without_the_lie_the_level_is_refused():
    """The twin: the count of holders is good for something."""
    with refused("tells-parties-apart", vs.VeilsumError, mentions=("1",)):
        one_party_s_level(1, extra=0)


# Parties within which a column does not vary


def claims_that_columns_vary(extra):
    """One party adds to the counts of parties within which columns vary."""

    def lying(recipe, contributions, terms, **more):
        own = contributions["p0"]

        def answer(request):
            found = own.answer(request)
            if request == PRESENCE:
                (group,) = recipe.groups
                assert isinstance(group, PresenceVaryingColumns)
                found[: len(group.places)] += extra
            return found

        contributions = {**contributions, "p0": replace(own, answer=answer)}
        return run_sum_job(recipe, contributions, terms, **more)

    return patch.object(table_job, "run_sum_job", lying)


def test_open_a_false_count_of_varying_parties_is_believed():
    """Without the lie: test_a_number_that_varies_at_one_party_is_not_summed."""
    for pair in (False, True):
        with claims_that_columns_vary(11):
            total, own = products_within(left_to_one(pair), pair)
        assert total == pytest.approx(own, rel=1e-6)


# Parties whose rows of two variables do not differ


def test_open_a_false_count_of_differing_rows_is_believed():
    """The twin without the lie: test_nothing_of_one_person_is_found.

    Values stay hidden: the owner of the row refuses columns that are so alike.
    """

    def lying(recipe, contributions, terms, **more):
        own = contributions[organiser.SITES[0]]

        def answer(request):
            found = own.answer(request)
            if isinstance(request, CountDifferences):
                (counted,) = [
                    one.statistics
                    for one in recipe.foreseen
                    if "differing_enough" in one.statistics
                ]
                found[: 2 * counted["differing_enough"]] += 3
            return found

        mine = {organiser.SITES[0]: replace(own, answer=answer)}
        return run_sum_job(recipe, {**contributions, **mine}, terms, **more)

    with patch.object(table_job, "run_sum_job", lying):
        assert by_the_rows_of_a_column().succeeded
        assert not by_a_copy_that_lacks_one().succeeded
