"""Units of the sums of a fit in rounds, and how much of each total is released."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from veilsum.models.plausible import implausible_sum_error
from veilsum.numbers.units import Integers

# Digits of coefficients, in standard errors, and of standard errors.
DIGITS, FEWEST_DIGITS, MOST_DIGITS = 4, 2, 12
# Beyond so many few rounds are worth more than few bits.
FRUGAL_DIGITS = 8
# The key that tells columns apart which are nearly alike.
FULL_DIGITS = f"digits = {MOST_DIGITS} (in Python digits={MOST_DIGITS})"
# Bits that a row's part of a total has at most.
MOST_BITS = 78
# Bits of a column in the first information, which only leads the way: some for ranges
# that are wider than the data, and two for each digit.
FIRST_BITS = 4
# Bits of a number for each digit, and beyond: of a product with the response, the same
# where the responses' scatter is not known before, and of a row's part of a likelihood.
BITS_OF_DIGIT = Fraction(10, 3)
CROSS_BITS, SPARE_BITS, LIKELIHOOD_BITS = 8, 6, 3


@dataclass(frozen=True)
class Fineness:
    """Units and residues of one round; they follow from earlier totals.

    Attributes:
        matrix: powers of two by which the information's products are scaled: those of
            its lower triangle. Empty where no information is asked for.
        along: powers by which each column's fitted means are scaled.
        residues: released bits of each number that travels; 0 if it is released whole.
        centres: totals from which the residues count.
        windows: how far from there a total of honest parties may be.
        last: whether standard errors are those of this round.
    """

    matrix: tuple[int, ...]
    along: tuple[int, ...]
    residues: tuple[int, ...] = ()
    centres: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    last: bool = False

    @property
    def stage(self) -> Literal["round", "means", "last"]:
        """The kind of round."""
        if self.last:
            return "last"
        return "round" if self.matrix else "means"

    def decoded(self, total: Integers) -> Integers:
        """Return totals of which only residues may be known.

        >>> Fineness((), (0,), (4, 0), (100, 0)).decoded(np.array([9, 7])).tolist()
        [105, 7]
        """
        found = np.array(total, dtype=object)
        for k, (bits, centre) in enumerate(
            zip(self.residues, self.centres, strict=True)
        ):
            if bits:
                half = 1 << bits - 1
                apart = (int(total[k]) - centre + half) % (1 << bits) - half
                found[k] = centre + apart
        return found

    def check(self, decoded: Integers) -> None:
        """Refuse totals that do not follow those before.

        One that is released whole shows a false one on the way.
        """
        limits = zip(decoded.tolist(), self.centres, self.windows, strict=True)
        for k, (one, centre, window) in enumerate(limits, start=1):
            if window and abs(int(one) - centre) > window:
                raise implausible_sum_error(
                    f"number {k} of the sum",
                    f"it is {float(one):.6g}, and by the totals before it is at least "
                    f"{float(centre - window):.6g} and at most "
                    f"{float(centre + window):.6g}",
                )


def triangle_of_model_matrix(n: int) -> list[tuple[int, int]]:
    """Return the places of a lower triangle, row by row.

    >>> triangle_of_model_matrix(2)
    [(0, 0), (1, 0), (1, 1)]
    """
    return [(j, k) for j in range(n) for k in range(j + 1)]
