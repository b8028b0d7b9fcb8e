"""Cox regressions sum by sum, against the definition."""

from fractions import Fraction

import numpy as np
import pytest

from veilsum.models.cox import AtRisk, CoxSearch, statistics
from veilsum.models.rows import RowMeasures, Rows
from veilsum.numbers.units import UnitMeasure

MEASURES = RowMeasures.of(
    [UnitMeasure.of(0, 100, Fraction(1)), UnitMeasure.of(-2, 2, Fraction(1, 4))],
    UnitMeasure.of(0, 1, Fraction(1)),
    intercept=None,
)
N_ROWS = 60


@pytest.fixture
def people():
    rng = np.random.default_rng(3)
    age, dose = rng.integers(20, 90, N_ROWS), rng.integers(-8, 9, N_ROWS) / 4.0
    time = rng.permutation(N_ROWS) + 1.0
    event = (rng.random(N_ROWS) < 0.7) * 1.0
    return np.column_stack([age, dose]) * 1.0, time, event


def test_units_of_a_sum_are_those_of_the_score_and_the_information(people):
    columns, time, event = people
    search = CoxSearch(MEASURES, ("age", "dose"))
    rows = AtRisk.of(search.scales.measures, time, Rows.of(columns, event))
    vector = statistics(search.scales, rows, np.zeros(2), first=True)
    score, information, likelihood = np.zeros(2), np.zeros((2, 2)), 0.0
    for row in np.flatnonzero(event):
        at_risk = columns[time >= time[row]]
        score += columns[row] - at_risk.mean(axis=0)
        information += np.cov(at_risk.T, bias=True)
        likelihood -= np.log(len(at_risk))
    expected = [*information[np.tril_indices(2)], *score, likelihood]
    found = search.scales.layout.counts.values(vector)
    np.testing.assert_allclose(found, [*expected, N_ROWS, event.sum()], rtol=1e-9)


def test_a_fit_has_as_many_rounds_as_it_took_sums(people):
    columns, time, event = people
    search = CoxSearch(MEASURES, ("age", "dose"))
    rows = AtRisk.of(search.scales.measures, time, Rows.of(columns, event))
    state, n_sums = search.start(), 0
    while not state.converged:
        point = search.propose(state)
        total = statistics(search.scales, rows, point, first=not n_sums)
        state, n_sums = search.advance(state, total), n_sums + 1
    assert search.fit(state).rounds == n_sums > 2
