"""Grids: rounding, deviations and widths, against exact fractions."""

from fractions import Fraction
from math import ceil, log2

import jaxtyping
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from refusals import refused
from veilsum.errors import InvalidInputError, RangeError
from veilsum.masks.fixed_point import (
    FixedPointGrid,
    check_masked_range,
    check_sum_fits,
    fitting_mask_bits,
    grid_bits_of_deviation,
    masks_fit_words,
    summing_mask_bits,
)
from veilsum.numbers.limbs import as_python_integers

values = st.floats(-1e15, 1e15, allow_nan=False)
positive = st.floats(1e-12, 1e12, allow_subnormal=False)


# --- Rounding to the grid ----------------------------------------------------------


@given(st.lists(values, min_size=1, max_size=5), st.integers(-20, 120))
def test_a_value_goes_to_the_nearest_point_and_ties_to_even(numbers, bits):
    """Python rounds fractions exactly, half to even."""
    expected = [round(Fraction(number) * Fraction(2) ** bits) for number in numbers]
    assert FixedPointGrid(bits).quantise(np.array(numbers)).tolist() == expected


def test_ties_go_to_the_even_neighbour():
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5])
    assert FixedPointGrid(0).quantise(halves).tolist() == [0, 2, 2, 0, -2]


@given(st.lists(st.integers(-(2**52), 2**52), min_size=1), st.integers(-30, 100))
def test_what_is_on_the_grid_stays_where_it_is(steps, bits):
    grid = FixedPointGrid(bits)
    numbers = grid.to_floats(np.array(steps))
    assert grid.quantise(numbers).tolist() == steps


@given(st.lists(st.integers(-(2**150), 2**150), min_size=1), st.integers(-50, 100))
def test_integers_of_any_length_become_the_nearest_float(steps, bits):
    """A fraction converts to float64 with one correct rounding."""
    wide = as_python_integers(np.array(steps, dtype=object))
    expected = [float(Fraction(step) / Fraction(2) ** bits) for step in steps]
    assert FixedPointGrid(bits).to_floats(wide).tolist() == expected


units = st.sampled_from([Fraction(1, 100), Fraction(1, 3), Fraction(25), Fraction(1)])


@given(st.lists(st.integers(-(2**49), 2**49), min_size=1), units, st.integers(0, 60))
def test_whole_numbers_of_a_unit_are_counted_exactly_and_come_back(counts, unit, bits):
    grid = FixedPointGrid(bits, unit)
    written = np.array([float(count * unit) for count in counts])
    steps = grid.quantise(written)
    assert steps.tolist() == [count << bits for count in counts]
    np.testing.assert_allclose(grid.to_floats(steps), written, rtol=1e-15)
    assert grid.quantise(grid.to_floats(steps)).tolist() == steps.tolist()


@given(st.lists(values, min_size=1), st.floats(1e18, 1e300), units)
def test_how_a_value_is_counted_does_not_depend_on_its_neighbours(few, large, unit):
    grid = FixedPointGrid(3, unit)
    together = grid.quantise(np.array([*few, large]))
    alone = [grid.quantise(np.array([one])).item() for one in (*few, large)]
    assert together.tolist() == alone
    assert alone[-1] == round(Fraction(large) / unit) << 3


def test_a_deviation_is_in_steps_of_the_unit():
    assert FixedPointGrid(4, Fraction(1, 100)).deviation(1.0) == 1600
    with refused("grid-too-coarse", mentions=("1", "4", "2")):
        FixedPointGrid(0, Fraction(1, 4)).deviation(0.25)
    with refused("bits-out-of-range", mentions=("0", "200")):
        FixedPointGrid(-1, Fraction(1, 100))


def test_integers_are_64_bits_wide_while_they_fit_62():
    grid = FixedPointGrid(0)
    assert grid.quantise(np.array([2.0**62 - 2**10])).dtype == np.int64
    wide = grid.quantise(np.array([2.0**62, -1.0]))
    assert wide.dtype == object
    assert wide.tolist() == [2**62, -1]


def test_a_grid_finer_than_numbers_are_keeps_every_digit():
    """0.1 in float64 is exactly 3602879701896397 / 2^55."""
    wide = FixedPointGrid(100).quantise(np.array([0.1]))
    assert wide.tolist() == [3602879701896397 << 45]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_has_no_place_on_the_grid(bad):
    with refused("not-finite"):
        FixedPointGrid(10).quantise(np.array([1.0, bad]))


def test_a_value_that_overflows_the_grid_is_refused():
    with refused("value-too-large", mentions=("200",)):
        FixedPointGrid(200).quantise(np.array([1e300]))


@pytest.fixture
def as_users_run_it():
    """Without the checks of types that tests have."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("bits", [1.0, "40", None, True, 201, -101])
def test_a_grid_is_a_whole_number_of_bits(bits):
    with pytest.raises(InvalidInputError, match="bits, found"):
        FixedPointGrid(bits)


def test_the_step_is_the_power_of_two():
    assert [FixedPointGrid(q).step for q in (0, 1, -3, 50)] == [1.0, 0.5, 8.0, 2.0**-50]


# --- Spreads -----------------------------------------------------------------------


@given(positive, st.floats(1e-3, 1e3), st.integers(0, 60))
def test_the_deviation_is_the_exact_ceiling(sigma, weight, bits):
    square = Fraction(sigma) ** 2 * Fraction(weight) * 4**bits
    assume(16 <= square <= 2**200)
    steps = FixedPointGrid(bits).deviation(sigma, weight)
    assert steps**2 >= square > (steps - 1) ** 2


def test_a_whole_deviation_is_not_rounded():
    assert FixedPointGrid(10).deviation(1.0) == 2**10
    assert FixedPointGrid(10).deviation(1.0, weight=4.0) == 2**11
    assert FixedPointGrid(10).deviation(1.0 + 2.0**-52) == 2**10 + 1


@pytest.mark.parametrize(
    ("sigma", "bits", "needed"), [(1.0, 1, 2), (2.0**-20, 10, 22), (3e-5, 0, 18)]
)
def test_too_small_a_deviation_says_how_fine_a_grid_would_do(sigma, bits, needed):
    with refused("grid-too-coarse", mentions=(needed,)):
        FixedPointGrid(bits).deviation(sigma)
    assert FixedPointGrid(needed).deviation(sigma) >= 4


def test_a_light_link_is_what_has_too_small_a_deviation():
    with refused("grid-too-coarse", mentions=("0.25", "2", "4")):
        FixedPointGrid(3).deviation(1.0, weight=1 / 16)


@pytest.mark.parametrize(
    ("sigma", "bits", "spare"),
    [(2.0**101, 0, 1), (2.0**101 * (1 + 2.0**-52), 0, 2), (2.0**90, 40, 30)],
)
def test_too_large_a_deviation_says_how_many_bits_are_missing(sigma, bits, spare):
    words = f"by {spare} bits: use a grid of {bits - spare} bits .* smaller sigma"
    with pytest.raises(InvalidInputError, match=words):
        FixedPointGrid(bits).deviation(sigma)
    assert FixedPointGrid(bits - spare).deviation(sigma) <= 2**100


def test_the_ends_of_the_range_of_deviations_are_in_it():
    assert FixedPointGrid(0).deviation(4.0) == 4
    assert FixedPointGrid(0).deviation(2.0**100) == 2**100


@given(positive, st.sampled_from([4, 2**10]))
def test_the_grid_for_a_deviation_is_the_coarsest_that_has_it(sigma, steps):
    bits = grid_bits_of_deviation(sigma, steps)
    assert sigma * 2.0**bits >= steps * (1 - 1e-12)
    assert sigma * 2.0 ** (bits - 1) < steps * (1 + 1e-12)


# --- Ranges ------------------------------------------------------------------------


def test_a_value_beyond_the_range_is_named_with_its_magnitude():
    row = np.array([0.5, -300.0, 2.0])
    with refused("value-out-of-range", RangeError, mentions=("2", "3", "300")):
        check_masked_range(row, 100.0)
    with refused("value-out-of-range", RangeError):
        check_masked_range(row, 100.0)
    check_masked_range(row, 300.0)


def test_a_column_that_has_a_name_is_called_by_it():
    with refused("value-out-of-range", RangeError, mentions=("7",)):
        check_masked_range(np.array([1.0, 7.0]), 5.0, ["age", "income"])


def test_the_column_of_many_rows_is_still_the_column():
    rows = np.array([[1.0, 2.0], [3.0, 1e9]])
    with refused("value-out-of-range", RangeError, mentions=("2",)):
        check_masked_range(rows, 100.0)


@pytest.mark.parametrize("largest", [None, 10.0])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_named_as_well(bad, largest):
    with refused("not-finite", RangeError):
        check_masked_range(np.array([1.0, bad]), largest)


def test_without_a_range_every_number_is_in_it():
    check_masked_range(np.array([1e300, -1e300]), None)


# --- Widths ------------------------------------------------------------------------


def test_masks_fit_words_up_to_62_bits():
    """sigma sqrt(2 links) 2^6 = 2^7, so 55 bits fit and 56 do not."""
    assert masks_fit_words(bits=55, sigma=1.0, links=2)
    assert not masks_fit_words(bits=56, sigma=1.0, links=2)


def test_coefficients_and_their_sum_need_room_too():
    assert masks_fit_words(bits=54, sigma=1.0, links=2, largest=128.0)
    assert not masks_fit_words(bits=55, sigma=1.0, links=2, largest=128.0)
    assert masks_fit_words(bits=53, sigma=1.0, links=2, largest=64.0, n_parties=8)
    assert not masks_fit_words(bits=54, sigma=1.0, links=2, largest=64.0, n_parties=8)


@given(
    positive,
    st.integers(1, 1000),
    st.floats(0.0, 1e9),
    st.integers(1, 1000),
)
def test_the_chosen_grid_fits_and_is_the_finest_that_does(sigma, links, largest, n):
    load = {"sigma": sigma, "links": links, "largest": largest, "n_parties": n}
    bits = fitting_mask_bits(**load)
    assert masks_fit_words(bits=bits, **load)
    finest = max(50, ceil(10 - log2(sigma)))
    assert bits == finest or not masks_fit_words(bits=bits + 1, **load)


def test_a_party_without_links_counts_as_one_with_a_link():
    assert fitting_mask_bits(sigma=2.0**20, links=0) == fitting_mask_bits(
        sigma=2.0**20, links=1
    )


@given(st.integers(1, 10**6), st.floats(1e-20, 1e20))
def test_the_grid_for_a_sum_lets_it_fit(n, largest):
    bits = summing_mask_bits(n_parties=n, largest=largest)
    check_sum_fits(bits=bits, n_parties=n, largest=largest)
    assert Fraction(largest) * n * Fraction(2) ** bits <= 2**62
    assert bits >= 30 or largest * n > 1, "small numbers do not round to zero"


def test_without_a_range_a_sum_has_the_usual_grid():
    assert summing_mask_bits(n_parties=1000, largest=None) == 50
    check_sum_fits(bits=50, n_parties=10**9, largest=None)


@pytest.mark.parametrize(
    ("bits", "n", "largest", "missing"),
    [(50, 8, 2000.0, 2), (61, 2, 1.5, 1), (62, 3, 1.0, 2), (40, 10, 1e9, 12)],
)
def test_a_sum_that_does_not_fit_says_how_many_bits_are_missing(
    bits, n, largest, missing
):
    words = f"needs {missing} bits more .* a grid of {bits - missing} bits, or a range"
    with pytest.raises(InvalidInputError, match=words):
        check_sum_fits(bits=bits, n_parties=n, largest=largest)
    check_sum_fits(bits=bits - missing, n_parties=n, largest=largest)
    check_sum_fits(bits=bits, n_parties=n, largest=largest / 2.0**missing)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6))
def test_python_integers_are_the_same_numbers_and_never_overflow(numbers):
    wide = as_python_integers(np.array(numbers, dtype=np.int64))
    assert wide.dtype == object
    assert (wide * 2**64).tolist() == [number * 2**64 for number in numbers]
