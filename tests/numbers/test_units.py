"""Whole numbers of units, and sums of them that do not depend on anything but rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from veilsum.errors import InvalidInputError, RangeError
from veilsum.numbers import compiled, units
from veilsum.numbers.units import (
    CrossSum,
    GramSum,
    UnitCounts,
    UnitMeasure,
    as_whole_integers,
    decimal_unit_of_numbers,
    inferred_unit_measure,
    limbs_of_bits,
    numeric_unit_of,
    power_of_two_unit,
    split_into_limbs,
    square_of_triangle,
    sum_bits,
    total_of_counts,
    triangle_of_matrix,
)


def gram(whole, limbs):
    sums = GramSum(whole.shape[1], limbs)
    sums.add(whole)
    return sums.value


@each(
    ("written", "unit"),
    [
        (1, Fraction(1)),
        (0.01, Fraction(1, 100)),
        ("1/8", Fraction(1, 8)),
        ("0.01", Fraction(1, 100)),
        ("3 decimals", Fraction(1, 1000)),
        (2.5, Fraction(5, 2)),
        ("1e-3", Fraction(1, 1000)),
        (str(Fraction(1, 2**399)), Fraction(1, 2**399)),
        (Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_a_unit_is_read_as_it_is_written(written: object, unit: Fraction) -> None:
    assert numeric_unit_of(written) == unit


@each("wrong", [0, -1, "x", "1/0", float("nan"), True, None, "9" * 999, "1e999999999"])
def test_what_is_no_unit_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="unit must be"):
        numeric_unit_of(wrong)


def test_cents_are_cents() -> None:
    measure = UnitMeasure.of(0, 1000, Fraction(1, 100))
    every = np.arange(100_001) / 100.0
    assert (measure.whole(every) == np.arange(100_001)).all()
    assert measure.n_broken(every) == 0
    assert measure.n_broken(np.array([0.005, 0.1])) == 1


def test_a_value_beyond_the_range_is_refused() -> None:
    with refused("value-out-of-range", RangeError):
        UnitMeasure.of(0, 10, Fraction(1)).whole(np.array([11.0]))
    with pytest.raises(RangeError):
        UnitMeasure.of(0, 10, Fraction(1)).whole(np.array([np.nan]))


def test_a_range_leaves_forty_bits() -> None:
    measure = UnitMeasure.of(-1.0, 1.0).centred()
    assert measure.bits == 39
    assert measure.limbs == 2
    assert power_of_two_unit(Fraction(3), 2) == 1


def test_a_simulation_infers_decimals() -> None:
    assert decimal_unit_of_numbers(np.array([1.5, 2.25])) == Fraction(1, 100)
    assert decimal_unit_of_numbers(np.array([np.pi])) is None
    assert inferred_unit_measure(np.array([12.5, 99.0])).unit == Fraction(1, 10)


@given(
    st.integers(1, 4).flatmap(
        lambda limbs: st.tuples(
            st.just(limbs),
            st.lists(
                st.integers(-(2 ** (20 * limbs)), 2 ** (20 * limbs)),
                min_size=1,
                max_size=30,
            ),
        )
    )
)
def test_limbs_hold_every_whole_number(case: tuple[int, list[int]]) -> None:
    limbs, numbers = case
    whole = np.array(numbers, dtype=object)
    parts = split_into_limbs(whole, limbs)
    back = sum(
        part.astype(object).astype(int).astype(object) << (20 * k)
        for k, part in enumerate(parts)
    )
    assert (back == whole).all()
    assert max((float(np.abs(part).max()) for part in parts[:-1]), default=0) <= 2**19
    assert float(np.abs(parts[-1]).max()) <= 2**20
    assert total_of_counts(whole, 20 * limbs) == sum(numbers)


@each("bits", [10, 19, 20, 39, 40, 45, 52, 59, 60, 79])
def test_sums_of_products_are_exact_in_any_order(bits: int) -> None:
    rng = np.random.default_rng(bits)
    head = min(bits, 52)
    whole = rng.integers(-(2**head), 2**head + 1, size=(5000, 3)).astype(object)
    whole = whole << (bits - head)
    exact = whole.T @ whole
    floats = whole.astype(np.float64)
    limbs = limbs_of_bits(bits)
    assert (gram(whole, limbs) == exact).all()
    assert (gram(floats, limbs) == exact).all()
    parts = GramSum(3, limbs)
    for piece in np.array_split(floats[rng.permutation(5000)], 7):
        parts.add(piece)
    assert (parts.value == exact).all()
    both = GramSum(3, limbs, limbs)
    both.add(floats, floats[:, 1])
    assert (both.cross == exact[:, 1]).all()
    assert both.square == exact[1, 1]
    cross = CrossSum(3, limbs, limbs)
    cross.add(floats, floats[:, 1])
    assert (cross.value == exact[:, 1]).all()
    assert (square_of_triangle(triangle_of_matrix(exact), 3) == exact).all()


@pytest.mark.parametrize("limbs", [1, 2, 3])
def test_scaled_rows_are_those_that_arrays_would_round(limbs, monkeypatch):
    chance = np.random.default_rng(limbs)
    rows = chance.normal(size=(1500, 3)) * 2.0 ** (18 * limbs - 4)
    by, factors = chance.uniform(0.1, 1.0, 1500), np.array([1.0, 4.0, 0.125])
    exact = as_whole_integers(np.rint(rows * by[:, None] * factors))
    monkeypatch.setattr(compiled, "WORTH_LOADING", 0)
    for compiles in (True, False):
        if not compiles:
            monkeypatch.setattr(units, "compiled_or_plain", lambda *_: None)
        sums = GramSum(3, limbs)
        sums.add_scaled(rows, by, factors)
        assert (sums.value == exact.T @ exact).all()


def test_the_largest_products_of_a_block_are_exact() -> None:
    edge = np.full((8192, 2), 2.0**40)
    assert (gram(edge, 2) == 8192 * 2**80).all()
    odd = np.full((8192, 2), 2.0**40 - 2.0**19)
    assert (gram(odd, 2) == 8192 * (2**40 - 2**19) ** 2).all()
    assert sum_bits([40, 40], 13) > (8192 * 2**80).bit_length()


@each("limbs", [1, 2, 3, 4])
@each("bits", [20, 53, 58, 60, 72, 100])
def test_a_column_beside_may_be_wider_than_float64(limbs, bits):
    draw = np.random.default_rng(bits)
    most = 2 ** min(20 * limbs, 52)
    rows = draw.integers(-most, most, (50, 2), endpoint=True)
    right = [
        (int(high) << max(bits - 40, 0)) + int(low)
        for high, low in draw.integers(-(2**19), 2**19, (50, 2)).tolist()
    ]
    right[:4] = [2**bits, 1 - 2**bits, 2**bits - 1, -(2**bits)]
    held = np.array(right, dtype=object)
    sums = GramSum(2, limbs, limbs_of_bits(bits))
    sums.add(rows.astype(np.float64), held if bits > 53 else held.astype(np.float64))
    plain = rows.astype(object)
    assert sums.square == sum(one * one for one in right)
    assert sums.cross.tolist() == (plain.T @ held).tolist()
    assert sums.value.tolist() == (plain.T @ plain).tolist()


def test_fractions_and_short_floats_are_counted_as_float64():
    tenths = UnitMeasure(Fraction(1, 10), 0, 10**9)
    exact = np.array([Fraction(3, 10), Fraction(10**7) + Fraction(1, 10)], dtype=object)
    assert tenths.counts(exact).tolist() == [3.0, 10**8 + 1]
    short = np.array([16777217 / 10], dtype=np.float32)
    assert tenths.counts(short) == tenths.counts(short.astype(np.float64))


def test_no_sum_over_a_block_leaves_the_whole_numbers_of_float64() -> None:
    """A lower limb reaches 2^19, the highest 2^20; sums of two are multiplied."""
    most = 2 ** (units.LIMB_BITS - 1) + 2**units.LIMB_BITS
    block = units.BLOCK_ROWS * most**2
    assert block < 2**53
    assert units._BLOCKS * block < 2**63


@pytest.mark.parametrize("limbs", [1, 2, 3])
@pytest.mark.parametrize("compiles", [True, False])
def test_full_blocks_of_extreme_rows_are_exact(limbs, compiles, monkeypatch) -> None:
    """Odd and even numbers whose limbs are largest: no low bit may be lost."""
    monkeypatch.setattr(compiled, "WORTH_LOADING", 0)
    if not compiles:
        monkeypatch.setattr(units, "compiled_or_plain", lambda *_: None)
    lower = sum((2**19 - 1) << (20 * k) for k in range(limbs - 1))
    most = (2**20 - 2 << 20 * (limbs - 1)) + lower
    below = np.random.default_rng(limbs).integers(0, 9, (16_384, 3)).astype(object)
    exact = (most - below) * np.array([1, 1, -1], dtype=object)
    rows = exact if limbs == 3 else exact.astype(np.float64)
    gram_entries, first = exact.T @ exact, exact[:, 0]
    sums = GramSum(3, limbs, limbs)
    sums.add(rows, rows[:, 0])
    assert (sums.value == gram_entries).all()
    assert (sums.cross == gram_entries[0]).all()
    assert sums.square == gram_entries[0, 0]
    crossed = CrossSum(3, limbs, limbs)
    crossed.add(rows, rows[:, 0])
    assert (crossed.value == gram_entries[0]).all()
    assert total_of_counts(rows[:, 0], 20 * limbs) == sum(first)
    if limbs < 3:
        scaled, ones = GramSum(3, limbs), np.ones(units.BLOCK_ROWS)
        for start in range(0, len(rows), units.BLOCK_ROWS):
            block = rows[start : start + units.BLOCK_ROWS]
            scaled.add_scaled(block, ones, np.ones(3))
        assert (scaled.value == gram_entries).all()


some_unit = st.fractions(min_value=Fraction(1, 2**80), max_value=2**80).filter(bool)


@given(st.lists(st.tuples(st.integers(-(2**130), 2**130), some_unit), max_size=6))
def test_what_totals_stand_for_is_rounded_once(pairs):
    numbers = [number for number, _ in pairs]
    counts = UnitCounts(tuple(unit for _, unit in pairs), 160)
    exact = [float(number * unit) for number, unit in pairs]
    assert counts.values(numbers).tolist() == exact
    small = [number % 1000 for number in numbers]
    exact = [
        float(number * unit) for number, (_, unit) in zip(small, pairs, strict=True)
    ]
    assert counts.values(small).tolist() == exact


@pytest.mark.parametrize("unit", [Fraction(1), Fraction(1, 100), Fraction(3, 2**60)])
def test_many_totals_of_one_unit_are_each_rounded_once(unit):
    numbers = [(-1) ** k * (2**k + 1) for k in range(100)]
    counts = UnitCounts((unit,) * 50 + (unit / 7,) * 50, 120)
    exact = [float(n * u) for n, u in zip(numbers, counts.units, strict=True)]
    assert counts.values(np.array(numbers, dtype=object)).tolist() == exact
