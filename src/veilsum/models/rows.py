"""One party's rows of a regression, and their whole numbers block by block.

All about a block is computed while it is near, and no copy of the design is ever as
large as the design.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import fsum
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, RangeError
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.compiled import compiled_or_plain
from veilsum.numbers.layout import union_of_columns
from veilsum.numbers.shapes import Float, Shaped
from veilsum.numbers.units import (
    BLOCK_ROWS,
    ROW_BITS,
    UnitMeasure,
    WholeColumn,
    WholeRows,
    decimal_unit_of_numbers,
    inferred_unit_measure,
    power_of_two_unit,
)

Design = Float[FloatArray, "n p"]  # one row per observation, one column per coefficient
PerRow = Float[FloatArray, " n"]
Gram = Float[FloatArray, "p p"]

# Numbers of a design in one block, 16 MiB. Smaller ones fit a core's own cache, but the
# threads of a product wait for each other at its end, and on a busy machine for long.
BLOCK_NUMBERS = 2**21


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows of a regression that one party holds; `Rows.of` takes any numbers.

    A weight w says that the row's variance is the dispersion over w, as in weighted
    least squares; it must be above zero. An offset is added to the linear predictor.
    Numbers are float64, or fractions where a formula's terms need more digits; what is
    not finite is refused by `RowMeasures.check`.
    """

    design: Shaped[Array[Any], "n p"]
    response: Shaped[Array[Any], " n"]
    weights: PerRow | None = None
    offset: PerRow | None = None

    def __repr__(self) -> str:
        # They are a party's own: in a log, or a traceback, they would be no more.
        return f"<Rows: {self.n_rows} of {self.n_columns} columns, private>"

    def __post_init__(self) -> None:
        if self.design.ndim != 2 or self.design.shape[1] == 0:
            raise InvalidInputError(
                "the design must be a table with at least one column, "
                f"found shape {self.design.shape}",
                code="wrong-shape",
            )
        for what in ("response", "weights", "offset"):
            values: FloatArray | None = getattr(self, what)
            if values is not None and values.shape != (self.n_rows,):
                raise InvalidInputError(
                    f"{what} must have one number for each of {self.n_rows} rows, "
                    f"found shape {values.shape}",
                    code="wrong-shape",
                )
        if self.weights is not None and not (self.weights > 0.0).all():
            raise InvalidInputError(
                "weights must be above zero; leave out rows that shall not count",
                code="weights-not-positive",
            )

    @classmethod
    def of(
        cls,
        design: ArrayLike,
        response: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Rows:
        """Return rows of these numbers; float64 arrays are used without a copy."""
        return cls(
            _model_row_floats(design, what="the design"),
            _model_row_floats(response, what="the response"),
            None if weights is None else _model_row_floats(weights, what="weights"),
            None if offset is None else _model_row_floats(offset, what="the offset"),
        )

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.design)

    @property
    def n_columns(self) -> int:
        """The number of columns, p."""
        return self.design.shape[1]

    def blocks(self) -> Iterator[Rows]:
        """Yield the same rows in pieces: views, not copies."""
        length = max(1, BLOCK_NUMBERS // self.n_columns)
        for start in range(0, self.n_rows, length):
            piece = slice(start, start + length)
            yield Rows(
                self.design[piece],
                self.response[piece],
                None if self.weights is None else self.weights[piece],
                None if self.offset is None else self.offset[piece],
            )

    def weigh(self, values: PerRow) -> PerRow:
        """Return the values times the weights; without weights the values."""
        return values if self.weights is None else values * self.weights

    def shift(self, values: PerRow) -> PerRow:
        """Return the values plus the offset; without an offset the values."""
        return values if self.offset is None else values + self.offset


def gram_of_model_rows(design: Design, weights: PerRow | None) -> Gram:
    """Return X'WX; the product of an array with itself costs half of another one."""
    scaled = design if weights is None else design * np.sqrt(weights)[:, None]
    return scaled.T @ scaled


# Whole numbers

# Of a response that must be above 0 the least one keeps so many, where units are made.
POSITIVE_BITS = 30
# A column of ones.
ONES = UnitMeasure(Fraction(1), 1, 1)


@dataclass(frozen=True)
class WholeBlock:
    """Some rows in whole numbers, centres taken off.

    Numbers are float64; Python integers in a design with a wide column, or in a wide
    column.
    """

    design: WholeRows
    response: WholeColumn
    weights: WholeColumn | None
    offset: WholeColumn | None

    @property
    def n_rows(self) -> int:
        return len(self.response)


@dataclass(frozen=True)
class RowMeasures:
    """Measures of the numbers of a row; they follow from the agreement.

    Attributes:
        design: measure of each column. With an intercept, which counts 1, other columns
            and the response are centred if that saves limbs; without one none is.
        row_bits: all parties together have at most 2^row_bits rows.
    """

    design: tuple[UnitMeasure, ...]
    response: UnitMeasure
    weights: UnitMeasure | None = None
    offset: UnitMeasure | None = None
    row_bits: int = ROW_BITS

    @classmethod
    def of(
        cls,
        design: Sequence[UnitMeasure],
        response: UnitMeasure,
        *,
        intercept: int | None,
        weights: UnitMeasure | None = None,
        offset: UnitMeasure | None = None,
        row_bits: int = ROW_BITS,
    ) -> RowMeasures:
        columns = list(design)
        if intercept is not None:
            columns = [_centred_row_measure(one) for one in columns]
            columns[intercept] = ONES
            response = _centred_row_measure(response)
        return cls(tuple(columns), response, weights, offset, row_bits)

    @classmethod
    def inferred(
        cls,
        rows: Mapping[str, Rows],
        intercept: int | None,
        *,
        positive: bool = False,
    ) -> RowMeasures:
        """Return measures for the rows of all parties, as only a simulation can.

        A response that must be `positive` keeps some digits however small it is.
        """
        parts = [part for part in rows.values() if part.n_rows]
        if not parts:
            raise InvalidInputError(
                "no party has a row: there is nothing to count", code="no-rows"
            )

        def of(what: str) -> UnitMeasure | None:
            found = [getattr(part, what) for part in parts]
            return (
                None
                if found[0] is None
                else inferred_unit_measure(np.concatenate(found))
            )

        low = np.min([part.design.min(axis=0) for part in parts], axis=0)
        high = np.max([part.design.max(axis=0) for part in parts], axis=0)
        sample = parts[0].design[:BLOCK_ROWS]
        design = []
        for k in range(parts[0].n_columns):
            # Columns with a few decimals only are gone through.
            if (
                np.isfinite(high[k] - low[k])
                and decimal_unit_of_numbers(sample[:, k]) is None
            ):
                design.append(UnitMeasure.of(float(low[k]), float(high[k])))
            else:
                values = [part.design[:, k] for part in parts]
                design.append(inferred_unit_measure(np.concatenate(values)))
        response = cast("UnitMeasure", of("response"))
        if positive and response.made:
            least, most = (
                float(limit([limit(part.response) for part in parts]))
                for limit in (np.min, np.max)
            )
            if least > 0.0:
                unit = min(response.unit, power_of_two_unit(least, POSITIVE_BITS))
                response = UnitMeasure.of(least, most, unit)
        return cls.of(
            design,
            response,
            intercept=intercept,
            weights=of("weights"),
            offset=of("offset"),
        )

    def named(
        self,
        design: Sequence[tuple[str, ...]],
        response: tuple[str, ...],
        weights: tuple[str, ...] = (),
        offset: tuple[str, ...] = (),
    ) -> RowMeasures:
        """Return the measures with the table's columns that each is computed from."""

        def name(one: UnitMeasure | None, columns: tuple[str, ...]) -> Any:
            return None if one is None else replace(one, columns=columns)

        return RowMeasures(
            tuple(map(name, self.design, design)),
            name(self.response, response),
            name(self.weights, weights),
            name(self.offset, offset),
            self.row_bits,
        )

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of all the table's columns that a row is computed from, if known."""
        further = (self.response, self.weights, self.offset)
        used = [one for one in (*self.design, *further) if one is not None]
        return union_of_columns(*(one.columns for one in used))

    @property
    def terms(self) -> dict[str, Any]:
        """Terms that parties compare before they start, in plain values."""
        further = (self.response, self.weights, self.offset)
        return {
            "columns": [
                None
                if one is None
                else [str(one.unit), one.least, one.most, one.centre]
                for one in (*self.design, *further)
            ],
            "row_bits": self.row_bits,
        }

    def check(
        self,
        rows: Rows,
        names: Sequence[str] | None = None,
        response: str = "the response",
    ) -> None:
        """Refuse a number that is not finite, or beyond what was agreed.

        It is done once, before anything is shown to anybody: `blocks` does not look.

        Raises:
            RangeError: which the owner of the rows is shown, and nobody else.
        """
        if rows.n_rows > 2**self.row_bits:
            raise InvalidInputError(
                f"all parties together have at most 2^{self.row_bits} rows",
                code="too-many-rows",
            )
        if not rows.n_rows:
            return
        low, high = rows.design.min(axis=0), rows.design.max(axis=0)
        parts: list[tuple[str, UnitMeasure, Array[Any]]] = []
        for k, measure in enumerate(self.design):
            ends = np.array([low[k], high[k]])
            if not measure.has(ends):
                name = f"x{k}" if names is None else names[k]
                parts.append((name, measure, rows.design[:, k]))
        parts.append((response, self.response, rows.response))
        for what in ("weights", "offset"):
            values = getattr(rows, what)
            if values is not None:
                parts.append((what, getattr(self, what), values))
        for name, measure, values in parts:
            try:
                measure.counts(values)
            except RangeError as error:
                plain = f"{name}: {error.plain}"
                raise RangeError(
                    f"{name}: {error}", plain=plain, code=error.code
                ) from None

    def apart(self, coefficients: Vector) -> float:
        """Return the largest difference of two rows' predictors by agreed ranges."""
        pairs = zip(self.design, coefficients.tolist(), strict=True)
        return fsum((of.most - of.least) * abs(one) for of, one in pairs)

    def blocks(self, rows: Rows) -> Iterator[WholeBlock]:
        """Yield a party's checked rows in whole numbers, `BLOCK_ROWS` at a time."""
        # Single columns are counted some blocks at a time, since calls take longest.
        for first in range(0, rows.n_rows, 32 * BLOCK_ROWS):
            chunk = slice(first, min(first + 32 * BLOCK_ROWS, rows.n_rows))
            design, response = rows.design[chunk], rows.response[chunk]
            response = self.response.whole(response)
            weights = _column_of_model_rows(self.weights, rows.weights, chunk)
            offset = _column_of_model_rows(self.offset, rows.offset, chunk)
            for start in range(0, len(response), BLOCK_ROWS):
                piece = slice(start, start + BLOCK_ROWS)
                yield WholeBlock(
                    self._design(design[piece]),
                    response[piece],
                    None if weights is None else weights[piece],
                    None if offset is None else offset[piece],
                )

    def _design(self, values: Array[Any]) -> WholeRows:
        if self._wide or values.dtype == object:
            return self._columns(values)
        factors, divisors, centres = self._rule
        quick = (
            compiled_or_plain(_count_model_rows, values.size)
            if divisors is None
            else None
        )
        if quick is not None:
            found = np.empty(values.shape)
            quick(values, factors, centres, found)
            return found
        found = np.multiply(values, factors)
        if divisors is not None:
            found /= divisors
        np.rint(found, out=found)
        found -= centres
        return found

    def _columns(self, values: Array[Any]) -> WholeRows:
        found = np.empty(values.shape, dtype=object if self._wide else np.float64)
        for k, measure in enumerate(self.design):
            column = values[:, k] if measure.wide else values[:, k].astype(np.float64)
            whole = measure.whole(column)
            narrow = self._wide and not measure.wide
            found[:, k] = whole.astype(np.int64) if narrow else whole
        return found

    @cached_property
    def _wide(self) -> bool:
        return any(one.wide for one in self.design)

    @cached_property
    def _rule(self) -> tuple[Vector, Vector | None, Vector]:
        """Factor, divisor and centre of each column."""
        p = len(self.design)
        factors, divisors = np.empty(p), np.ones(p)
        for k, unit in enumerate(one.unit for one in self.design):
            top, bottom = unit.numerator, unit.denominator
            if top & (top - 1) == 0:
                factors[k] = bottom / top  # dividing by a power of two is exact
            else:
                factors[k], divisors[k] = bottom, top
        centres = np.array([one.centre for one in self.design], dtype=np.float64)
        return factors, divisors if (divisors != 1.0).any() else None, centres


def _count_model_rows(values: Any, factors: Any, centres: Any, found: Any) -> None:
    # The same operations as by arrays, in the same order: the same bits.
    n, p = values.shape
    for i in range(n):
        for j in range(p):
            found[i, j] = np.rint(values[i, j] * factors[j]) - centres[j]


def _centred_row_measure(measure: UnitMeasure) -> UnitMeasure:
    found = measure.centred()
    # Totals of wide numbers have no bit to spare; others are quicker as they are.
    return found if found.limbs < measure.limbs or measure.limbs > 2 else measure


def _column_of_model_rows(
    measure: UnitMeasure | None, values: FloatArray | None, piece: slice
) -> WholeColumn | None:
    if measure is None or values is None:
        return None
    return measure.whole(values[piece])


def _model_row_floats(values: ArrayLike, *, what: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{what} must be numbers: {error}", code="not-numbers"
        ) from None
