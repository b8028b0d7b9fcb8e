"""Multinomial and ordinal searches sum by sum."""

from fractions import Fraction

import numpy as np
import pytest

from refusals import refused
from veilsum.errors import NumericalError
from veilsum.models.choices import ChoiceSearch, Multinomial, Ordinal, statistics
from veilsum.models.rows import ONES, RowMeasures, Rows
from veilsum.numbers.units import UnitMeasure

MEASURES = RowMeasures.of(
    [ONES, UnitMeasure.of(0, 100, Fraction(1))],
    UnitMeasure.of(0, 2, Fraction(1)),
    intercept=0,
)


def searched(family, max_rounds=50):
    rng = np.random.default_rng(0)
    age = rng.integers(20, 90, 200)
    level = np.clip((age - 20) // 25 + rng.integers(-1, 2, 200), 0, 2) * 1.0
    rows = Rows.of(np.column_stack([np.ones(200), age]), level)
    levels, names = ("a", "b", "c"), ("one", "age")
    search = ChoiceSearch(family, MEASURES, names, levels, 0, max_rounds)
    state = search.start()
    while not state.converged:
        request = search.propose(state)
        state = search.advance(state, statistics(search.scales, rows, request))
    return search.fit(state)


@pytest.mark.parametrize("family", [Multinomial(), Ordinal()], ids=lambda one: one.name)
def test_a_search_that_converges_in_its_last_round_has_a_fit(family):
    found = searched(family)
    again = searched(family, found.rounds)
    assert again.coefficients.tolist() == found.coefficients.tolist()
    with refused("not-converged", NumericalError):
        searched(family, found.rounds - 1)
