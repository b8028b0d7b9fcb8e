"""One party's rows of a regression, and sums over them taken block by block.

All about a block is computed while it is near, and no copy of the design is ever as
large as the design.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.shapes import Float

Design = Float[FloatArray, "n p"]  # one row per observation, one column per coefficient
PerRow = Float[FloatArray, " n"]
Gram = Float[FloatArray, "p p"]
Sums = Float[FloatArray, " s"]  # statistics, laid out one after the other

# Numbers of a design in one block, 16 MiB. Smaller ones fit a core's own cache, but the
# threads of a product wait for each other at its end, and on a busy machine for long.
BLOCK_NUMBERS = 2**21


@dataclass(frozen=True)
class Rows:
    """Rows of a regression that one party holds; `Rows.of` takes any numbers.

    A weight w says that the row's variance is the dispersion over w, as in weighted
    least squares; it must be above zero. An offset is added to the linear predictor.
    Numbers that are not finite are found when statistics are formed, at no cost.
    """

    design: Design
    response: PerRow
    weights: PerRow | None = None
    offset: PerRow | None = None

    def __post_init__(self) -> None:
        if self.design.ndim != 2 or self.design.shape[1] == 0:
            raise InvalidInputError(
                "the design must be a table with at least one column, "
                f"found shape {self.design.shape}"
            )
        for what in ("response", "weights", "offset"):
            values: FloatArray | None = getattr(self, what)
            if values is not None and values.shape != (self.n_rows,):
                raise InvalidInputError(
                    f"{what} must have one number for each of {self.n_rows} rows, "
                    f"found shape {values.shape}"
                )
        if self.weights is not None and not (self.weights > 0.0).all():
            raise InvalidInputError(
                "weights must be above zero; leave out rows that shall not count"
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
            _floats(design, what="the design"),
            _floats(response, what="the response"),
            None if weights is None else _floats(weights, what="weights"),
            None if offset is None else _floats(offset, what="the offset"),
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


def gram(design: Design, weights: PerRow | None) -> Gram:
    """Return X'WX; the product of an array with itself costs half of another one."""
    scaled = design if weights is None else design * np.sqrt(weights)[:, None]
    return scaled.T @ scaled


def sum_over_blocks(
    rows: Rows, statistics: Callable[[Rows], tuple[Gram, Sums]]
) -> tuple[Gram, Sums]:
    """Return the sums of a matrix and a vector over all blocks; refuse nan and inf."""
    # An empty block first: it has the shapes, and no rows at all are no special case.
    matrix, vector = statistics(Rows(rows.design[:0], rows.response[:0]))
    with np.errstate(over="ignore", invalid="ignore"):
        for block in rows.blocks():
            more_matrix, more_vector = statistics(block)
            matrix, vector = matrix + more_matrix, vector + more_vector
    if not (np.isfinite(matrix).all() and np.isfinite(vector).all()):
        raise InvalidInputError(
            "rows must hold finite numbers whose squares can be added up, "
            "found nan, inf or numbers beyond 1e150"
        )
    return matrix, vector


def _floats(values: ArrayLike, *, what: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} must be numbers: {error}") from None
