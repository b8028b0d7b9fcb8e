"""Claims that no test made until a mutant had shown it (`tests/mutation`)."""

from fractions import Fraction
from math import isnan
from types import SimpleNamespace

import numpy as np
import pytest

from veilsum.models.comparisons import difference_of_means
from veilsum.models.evaluation import Discrimination
from veilsum.models.moments import MarginalMoments
from veilsum.models.price import PriceSettled, TriedPrice
from veilsum.numbers.units import UnitMeasure


@pytest.mark.parametrize("counts", [(1, 2), (2, 1)])
def test_one_row_has_no_variance_to_compare_means_by(counts):
    groups = [
        MarginalMoments(
            (UnitMeasure(Fraction(1), 0, 9),),
            (n,),
            np.array([n], dtype=object),
            np.array([n], dtype=object),
        )
        for n in counts
    ]
    assert isnan(difference_of_means(*groups, 0))


def test_an_empty_bin_is_no_degree_of_freedom():
    bins = SimpleNamespace(
        rows=np.array([10, 0, 10]),
        events=np.array([4, 0, 6]),
        predicted=np.array([5.0, 0.0, 5.0]),
    )
    found = Discrimination.hosmer_lemeshow(bins)
    assert found.degrees == 2
    assert found.statistic == pytest.approx(2 * 1.0 / (5.0 * 0.5))


@pytest.mark.parametrize(
    ("highest", "within", "unique"),
    [(1.0, 0.0, True), (1.0, 0.5, False), (2.0, 0.0, False)],
)
def test_a_price_is_unique_where_both_ends_are_known_and_one(highest, within, unique):
    assert (
        PriceSettled(3, TriedPrice(1.0), 0.0, 1.0, 1.0, highest, within).is_unique
        is unique
    )
