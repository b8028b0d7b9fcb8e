"""One description of a sum: what it packs, it unpacks, and nothing else fits."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.numbers.layout import (
    NumberLayout,
    layout_array,
    layout_number,
    layout_padding,
    layout_symmetric,
    layout_vector,
)

UNITS = (Fraction(1), Fraction(1, 10))
LAYOUT = NumberLayout(
    (
        layout_number("rows"),
        layout_padding(2),
        layout_symmetric("gram", UNITS, 90),
        layout_vector("sums", UNITS, 60),
    )
)
WIDE = st.integers(-(2**80), 2**80)


@given(st.lists(WIDE, min_size=6, max_size=6))
def test_a_sum_unpacks_to_the_parts_it_was_packed_of(numbers):
    rows, a, b, c, *sums = numbers
    gram = np.array([[a, b], [b, c]], dtype=object)
    total = LAYOUT.pack(rows=rows, gram=gram, sums=sums)
    assert total.tolist() == [rows, 0, 0, a, b, c, *sums]
    parts = LAYOUT.unpack(total)
    assert (parts["rows"], parts["sums"].tolist()) == (rows, sums)
    assert parts["gram"].tolist() == gram.tolist()


def test_units_bits_and_the_released_list_follow():
    assert LAYOUT.released == {"rows": 1, "gram": 3, "sums": 2}
    tenth, hundredth = Fraction(1, 10), Fraction(1, 100)
    assert LAYOUT.counts.units == (1, 1, 1, 1, tenth, hundredth, 1, tenth)
    assert (LAYOUT.counts.bits, LAYOUT.counts.fields) == (90, ())
    assert LAYOUT.padded(10).size == 10
    assert LAYOUT.padded(3) is LAYOUT


def test_a_statistic_may_be_released_modulo_a_power_of_two():
    few = NumberLayout((layout_number("rows"), layout_array("cells", 3)))
    rows, cells = few.statistics
    modular = NumberLayout((rows, type(cells)(**{**vars(cells), "modulus": 20})))
    assert modular.counts.fields == ((1, 64), (3, 20))


@pytest.mark.parametrize(
    "values",
    [
        {"rows": 1, "gram": np.zeros((2, 2), int)},
        {"rows": 1, "gram": np.zeros((3, 3), int), "sums": [1, 2]},
        {"rows": 1, "gram": np.zeros((2, 2), int), "sums": [0.5, 1.0]},
        {"rows": 1, "gram": np.zeros((2, 2), int), "sums": [1, 2], "more": 1},
    ],
    ids=["missing", "shape", "fractions", "unknown"],
)
def test_parts_that_are_not_those_of_the_sum_are_refused(values):
    with pytest.raises(InvalidInputError):
        LAYOUT.pack(**values)


def test_a_total_of_another_length_and_a_key_twice_are_refused():
    with refused("layout-size-differs", mentions=("8",)):
        LAYOUT.unpack(np.zeros(7, dtype=object))
    with refused("duplicate-key"):
        NumberLayout((layout_number("rows"), layout_number("rows")))
