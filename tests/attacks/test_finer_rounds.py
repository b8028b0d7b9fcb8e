"""A lying party that makes rounds finer than the agreed digits need.

Units follow from earlier totals. An information in which rounding may have made half of
a variance is asked for once more, sixteen times finer. So a party first invents very
many rows, and then takes their information back, but for less than its rounding: every
round is too coarse again, and the next one finer. All points are ordinary ones, at
which nobody has a reason to object. A fit therefore ends when the information was too
coarse three times; honest fits have that once at most. In the twin it goes on, and
honest parties' rows, which are few beside the invented ones, are released with as many
bits as twelve digits have.

A second way is open. Units are finer where columns nearly depend on each other, and
there are as many rounds as there is room for while steps do not shrink. So a party
invents rows of nearly one age, and puts in little information and as little score in
each round. Nothing is too coarse then, and eleven rounds have more bits than the ages.
"""

from dataclasses import replace

import numpy as np
import pytest

import veilsum as vs
from attacks import steering
from attacks.test_lattice import (
    ALL,
    CURIOUS,
    SOME,
    Study,
    covariates,
    effects_of,
    patients,
    rebuilt_cells,
)
from veilsum.models import newton as search
from veilsum.numbers.units import triangle_of_matrix
from veilsum.sums.recipes import ObjectedError

AGES, N_ROWS = range(18, 96), 300
CELLS = [(age,) for age in AGES]
# Ages of the invented rows, and what each round's step adds to the coefficients.
MIDDLE, SLOPE = 57.0, 0.012
ORDINARY = steering.Aim((1.0, MIDDLE), (0.0, 500.0), (-SLOPE * MIDDLE, SLOPE))


def too_coarse(recipe, request, answer, aim):
    """The answer of a party whose information is always too coarse.

    All scores are alike, and so are all steps.
    """
    scales = steering.unwrapped(recipe).newton.scales
    rows, p = steering.invented_rows(scales), scales.n_columns
    middle, moments, step = steering.in_units(scales, aim)
    stage, fineness = getattr(request, "stage", ""), getattr(request, "fineness", None)
    if stage == "first":
        responses = moments @ step / 4.0 + middle / 2.0
        return steering.first_vector(scales, rows, moments, responses)
    if fineness is None:
        return answer(request)
    vector, start = np.zeros(scales.size + 1, dtype=object), p * (p + 1) // 2
    vector[start : start + p] = steering.scaled(rows, middle / 2.0, fineness.along)
    for k in range(p if fineness.matrix else 0):
        vector[k * (k + 1) // 2 + k] = -(3 * rows // 8)
    return vector


# Rows of nearly one age, and their later information as a part of the usual one.
NEARLY_ONE = replace(ORDINARY, variances=(0.0, 0.01))
FAINT = 0.03


def nearly_dependent(recipe, request, answer, aim):
    """The answer of a party whose invented rows are nearly of one age.

    Information and score are so small in each round that no step is shorter than the
    one before, and that the means are inside of their window.
    """
    scales = steering.unwrapped(recipe).newton.scales
    rows, p = steering.invented_rows(scales), scales.n_columns
    middle, moments, step = steering.in_units(scales, aim)
    stage, fineness = getattr(request, "stage", ""), getattr(request, "fineness", None)
    responses = moments @ step / 4.0 + middle / 2.0
    if stage == "first":
        return steering.first_vector(scales, rows, moments, responses)
    if fineness is None:
        return answer(request)
    vector, start = np.zeros(scales.size + 1, dtype=object), p * (p + 1) // 2
    information = FAINT * moments / 4.0
    means = responses - information @ step
    if fineness.matrix:
        products = triangle_of_matrix(information)
        vector[:start] = steering.scaled(rows, products, fineness.matrix)
    vector[start : start + p] = steering.scaled(rows, means, fineness.along)
    return vector


def attempt(seed, digits, code=None, lie=too_coarse, aim=ORDINARY):
    """Rows of each age, what the liar rebuilds of them, and units of the information.

    A unit is a power of two by which weights of rows are scaled.
    """
    rows, own = patients(seed, N_ROWS, AGES)
    with (
        steering.steered(aim, lie, CURIOUS) as seen,
        pytest.raises(vs.VeilsumError) as caught,
    ):
        Study.of(rows, own, AGES, digits=digits)
    assert code in (None, caught.value.code)
    recipe, sums = seen["recipe"], steering.released(caught.value)
    newton, effects, totals, units = steering.unwrapped(recipe).newton, [], [], []
    # The first sum counts parties; that of an objection is random.
    for k in range(1, len(sums) - isinstance(caught.value, ObjectedError)):
        request, given = recipe.request(sums[:k]), seen["given"][k]
        if request.stage == "outside":
            continue
        without, ill = (effects_of(newton, request, CELLS, hiv) for hiv in (0, 1))
        if (fineness := request.fineness) is None:
            honest = sums[k][: len(given)] - given
        else:
            honest = steering.others(recipe, sums[k], given, fineness)
            units += fineness.matrix[:1]
        known = np.flatnonzero((without == ill).all(axis=0))
        effects.append(without[:, known])
        totals.append(honest[known])
    found = rebuilt_cells(N_ROWS, np.hstack(effects), np.concatenate(totals))
    truth = np.array([int((rows.age == age).sum()) for age in AGES], dtype=object)
    return truth, found, units


@pytest.mark.parametrize("times", [SOME, ALL])
@pytest.mark.parametrize("digits", [2, 4])
def test_too_coarse_an_information_makes_no_more_than_two_rounds_finer(digits, times):
    for seed in range(times):
        truth, found, units = attempt(seed, digits, "information-too-coarse")
        assert (np.diff(units) > 0).sum() == search.MOST_COARSE
        assert found is None or (found != truth).any()


@pytest.mark.parametrize("times", [SOME, ALL])
@pytest.mark.parametrize("digits", [2, 4])
def test_without_that_end_all_ages_follow(digits, times, monkeypatch):
    """The twin: each round is sixteen times as fine as the one before."""
    monkeypatch.setattr(search, "MOST_COARSE", 100)
    for seed in range(times):
        truth, found, units = attempt(seed, digits)
        assert (np.diff(units) == 4).sum() >= 6
        assert max(units) >= 30
        assert (found == truth).all()


@pytest.mark.parametrize("times", [SOME, ALL])
def test_rows_of_nearly_one_age_make_many_fine_rounds(times):
    """Open: all ages follow, with four digits."""
    for seed in range(times):
        truth, found, units = attempt(seed, 4, None, nearly_dependent, NEARLY_ONE)
        assert len(units) >= 8
        assert (found == truth).all()


@pytest.mark.parametrize("times", [SOME, ALL])
@pytest.mark.parametrize("digits", [2, 4])
def test_a_party_that_only_looks_does_not_rebuild_these_ages(digits, times):
    """The twin: the same tables, and a party that keeps to the protocol."""
    for seed in range(times):
        study = Study.drawn(seed, N_ROWS, AGES, digits=digits)
        assert (covariates(study) != study.counts(0, 1)).any()
