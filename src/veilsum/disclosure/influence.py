"""Influence of one person on everything released, and the linear attacker's success.

An attacker knows all columns but s, of all people. For each released number, G has the
change in it per unit of one person's s, one row per person. Rounding of the pooled rows
adds noise of variance rows x unit^2 / 12 to a number. Among linear estimates of the
people's s, with the variance Var s before anything was released, the best explains

    l = diag G (G'G + L)^-1 G',    L_jj = rows x unit_j^2 / (12 Var s),

of each person's variance. Of a balanced bit it guesses Phi(sqrt(l / (1 - l))) right, if
the errors from others' values are near normal: the estimate has the mean l s and the
variance l (1 - l) Var s.

The matrix [G; L^(1/2)] has an orthonormal basis Q, of Householder's reflections; l are
the squared lengths of the rows of Q that belong to people. G'G, whose condition is
squared, is never made. New numbers are projected on what is left beside the basis.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import erf, inf, sqrt

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.secrets import Secret

# Contributions are exact to this share of the largest of a number; finer rounding of
# totals is not told from it.
PRECISION = 2.0**-40


def influence_attack_success(influence: float) -> float:
    """Return how often the linear attacker guesses a balanced bit right.

    >>> [round(influence_attack_success(each), 3) for each in (0.0, 0.8, 1.0)]
    [0.5, 0.977, 1.0]
    """
    if not 0.0 <= influence <= 1.0:
        raise InvalidInputError(
            f"an influence is from 0 to 1, found {influence}",
            code="influence-out-of-range",
        )
    odds = inf if influence == 1.0 else sqrt(influence / (1.0 - influence))
    return (1.0 + erf(odds / sqrt(2.0))) / 2.0


@dataclass(frozen=True, eq=False, repr=False)
class Influence(Secret):
    """Influence of each person of one party, by one column; for the owner's eyes only.

    Attributes:
        n_people: number of the party's rows.
        variance: of the column before anything was released; a quarter for a bit.
    """

    n_people: int
    variance: float = 0.25
    _people: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    _noise: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        if self.n_people < 1 or not (0.0 < self.variance < inf):
            raise InvalidInputError(
                f"influence needs a person and a variance above 0, found "
                f"{self.n_people} and {self.variance}",
                code="no-people-or-variance",
            )

    @property
    def n_numbers(self) -> int:
        """Number of released numbers that change with the column."""
        return len(self._noise)

    @property
    def values(self) -> Vector:
        """The influence l of each person; 0 before anything was released."""
        if not self._people.size:
            return np.zeros(self.n_people)
        return np.minimum(np.einsum("ij,ij->i", self._people, self._people), 1.0)

    @property
    def largest(self) -> float:
        """The largest influence of one person."""
        return float(self.values.max())

    def adding(self, changes: FloatArray, units: Vector, rows: int) -> Influence:
        """Return the influence with more released numbers.

        Args:
            changes: of each number per unit of each person's column.
            units: of each number.
            rows: number of pooled rows, each rounded by itself.

        Raises:
            InvalidInputError: shapes differ, or a change is not finite.
        """
        n, k = changes.shape
        if n != self.n_people or units.shape != (k,) or not np.isfinite(changes).all():
            raise InvalidInputError(
                f"{self.n_people} people and {len(units)} numbers need finite changes "
                f"of that shape, found shape {changes.shape}",
                code="wrong-shape",
            )
        largest = np.abs(changes).max(axis=0)
        used = largest > 0.0
        if not used.any():
            return self
        scale = largest[used]
        rounding = np.maximum(units[used] / scale, PRECISION)
        fresh = rounding * sqrt(rows / (12.0 * self.variance))
        above = changes[:, used] / scale
        # Rows of noise: those of numbers before, then one for each new number.
        before = len(self._noise)
        below = np.zeros((before + len(fresh), len(fresh)))
        np.fill_diagonal(below[before:], fresh)
        old = np.zeros((len(below), self._people.shape[1]))
        old[:before] = self._noise
        if self._people.size:
            for _ in range(2):  # once leaves rounding of the size of what was taken off
                parts = self._people.T @ above + old.T @ below
                above = above - self._people @ parts
                below -= old @ parts
        basis = np.linalg.qr(np.vstack([above, below])).Q
        people = (
            basis[:n] if not self._people.size else np.hstack([self._people, basis[:n]])
        )
        noise = np.hstack([old, basis[n:]])
        return Influence(self.n_people, self.variance, people, noise)
