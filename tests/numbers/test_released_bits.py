"""Released bits bound how many totals small tables can have, and say of which columns.

Every bound is held against all tables with a few rows, enumerated one by one.
"""

from fractions import Fraction
from itertools import combinations_with_replacement
from math import log2

import numpy as np
import pytest
from hypothesis import given, strategies as st

from veilsum.models.families import Binomial
from veilsum.models.glm import GlmScales
from veilsum.models.least_squares import LeastSquaresCounting
from veilsum.models.moments import Moments
from veilsum.models.rows import ONES, RowMeasures
from veilsum.numbers.layout import (
    NumberLayout,
    RowRange,
    layout_array,
    layout_number,
    layout_padding,
    layout_symmetric,
    layout_vector,
)
from veilsum.numbers.units import UnitMeasure

ONE = Fraction(1)


def measure(low, high, *columns, centre=0):
    return UnitMeasure(ONE, low, high, centre, columns=columns)


def totals(rows, n_rows):
    """All totals of tables with so many rows, each row one of these vectors."""
    tables = combinations_with_replacement(range(len(rows)), n_rows)
    return {tuple(np.sum([rows[k] for k in few], axis=0)) for few in tables}


ends = st.tuples(st.integers(-4, 4), st.integers(-4, 4)).map(sorted)


@given(ends, st.integers(1, 5))
def test_a_sum_has_as_many_totals_as_are_paid_for(ends, n_rows):
    low, high = ends
    layout = NumberLayout(
        (layout_number("sum", bits=60, row_range=RowRange(low, high)),)
    )
    found = totals([(k,) for k in range(low, high + 1)], n_rows)
    assert sum(layout.charges(n_rows).values()) == pytest.approx(log2(len(found)))


@given(st.integers(1, 6))
def test_a_count_has_as_many_totals_as_are_paid_for(n_rows):
    found = totals([(0,), (1,)], n_rows)
    assert len(found) == n_rows + 1
    (bits,) = NumberLayout((layout_number("rows"),)).charges(n_rows).values()
    assert bits == pytest.approx(log2(len(found)))


@given(ends, ends, st.integers(1, 4))
def test_sums_and_products_of_two_columns_are_never_underpaid(one, other, n_rows):
    measures = (measure(*one, "a"), measure(*other, "b"))
    layout = Moments.layout(measures)
    rows = [
        (1, a, b, a * a, a * b, b * b)
        for a in range(one[0], one[1] + 1)
        for b in range(other[0], other[1] + 1)
    ]
    # The number of rows is paid for, though all tables here have the same.
    own = sum(layout.charges(n_rows).values()) - log2(n_rows + 1)
    assert own >= log2(len(totals(rows, n_rows))) - 1e-9


@given(ends, st.booleans(), st.integers(1, 4))
def test_least_squares_is_never_underpaid(ends, centred, n_rows):
    low, high = ends
    of_x = measure(low, high, "x", centre=(low + high) // 2 if centred else 0)
    rows = RowMeasures((ONES, of_x), measure(0, 1, "y"))
    layout = LeastSquaresCounting(rows.named([(), ("x",)], ("y",))).layout
    x0 = of_x.centre
    found = [
        (x - x0, (x - x0) ** 2, y, (x - x0) * y, y * y)
        for x in range(low, high + 1)
        for y in (0, 1)
    ]
    assert (
        sum(layout.charges(n_rows).values()) >= log2(len(totals(found, n_rows))) - 1e-9
    )
    # Every number says what it depends on; those of the ones and of weights are known.
    charged = layout.charges(n_rows)
    assert {*charged} == {(), ("x",), ("x", "y"), ("y",)}
    per_y = log2(n_rows + 1)
    assert charged["y",] == pytest.approx(3 * per_y)  # 1'y, y'y and y'1


def test_a_modulus_is_all_that_is_released():
    sums = layout_vector("sums", (ONE,) * 3, 90, [RowRange(-(2**40), 2**40)] * 3)
    wide, narrow = (
        NumberLayout((sums,)),
        NumberLayout((type(sums)(**vars(sums) | {"modulus": 20}),)),
    )
    assert sum(narrow.charges(1000).values()) == 60.0
    assert sum(wide.charges(1000).values()) == pytest.approx(3 * log2(1000 * 2**41 + 1))


def test_numbers_without_a_public_range_cost_their_width():
    layout = NumberLayout(
        (
            layout_vector("sums", (ONE, ONE), 90),
            layout_padding(7),
            layout_array("cells", 2),
        )
    )
    assert layout.charges(3) == {None: pytest.approx(2 * 90 + 2 * log2(4))}


def test_a_square_is_not_negative_and_two_equal_ranges_are_not_a_square():
    one = RowRange(-3, 3, ("a",))
    matrix = layout_symmetric("gram", (ONE, ONE), 60, [one, one])
    assert matrix.row_ranges() == [
        RowRange(0, 9, ("a",)),
        RowRange(-9, 9, ("a",)),
        RowRange(0, 9, ("a",)),
    ]


def test_later_rounds_of_a_fit_depend_on_all_columns():
    rows = RowMeasures.of(
        (ONES, measure(18, 95, "age")), measure(0, 1, "hiv"), intercept=0
    )
    scales = GlmScales.of(Binomial(), rows.named([(), ("age",)], ("hiv",)), 0)
    first, later = (scales.layout(stage).charges(300) for stage in ("first", "round"))
    # X'y is released once, exactly; afterwards nothing depends on the response.
    assert {*first} == {(), ("age",), ("hiv",), ("age", "hiv")}
    assert {*later} == {("age",)}
    assert first["hiv",] >= log2(301)


def test_ranges_are_one_for_each_number():
    with pytest.raises(ValueError, match="2 ranges, found 1"):
        layout_vector("sums", (ONE, ONE), 60, [RowRange()])
