"""Standard errors, tests and intervals of every table of coefficients."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.models.rows import Gram
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.shapes import Float

Intervals = Float[FloatArray, "p 2"]


@dataclass(frozen=True)
class Inference:
    """Coefficients with the matrix of their covariances.

    Attributes:
        t_degrees: degrees of freedom of Student's t where a dispersion was estimated;
            None means that the normal law is used.
        errors: what the covariances rest on: the model's own law of responses, or
            residuals, as in `sandwich`.
    """

    names: tuple[str, ...]
    coefficients: Vector
    covariance: Gram
    t_degrees: float | None
    errors: str = field(default="model", kw_only=True)

    @property
    def standard_errors(self) -> Vector:
        return np.sqrt(np.diag(self.covariance))

    @property
    def statistics(self) -> Vector:
        """Coefficients over standard errors: t, or z under the normal law."""
        # A perfect fit has no errors; its statistics are infinite.
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.coefficients / self.standard_errors

    @property
    def p_values(self) -> Vector:
        """The chance of a statistic at least as far from 0 on either side."""
        below = -np.abs(self.statistics)
        if self.t_degrees is None:
            return 2.0 * scipy.special.ndtr(below)
        return 2.0 * scipy.special.stdtr(self.t_degrees, below)

    def confidence_intervals(self, level: float = 0.95) -> Intervals:
        if not 0.0 < level < 1.0:
            raise InvalidInputError(
                f"a confidence level lies between 0 and 1, found {level}",
                code="level-out-of-range",
            )
        reach = self._quantile(0.5 + level / 2.0) * self.standard_errors
        return np.stack([self.coefficients - reach, self.coefficients + reach], axis=1)

    def _quantile(self, probability: float) -> float:
        if self.t_degrees is None:
            return float(scipy.special.ndtri(probability))
        return float(scipy.special.stdtrit(self.t_degrees, probability))


@dataclass(frozen=True)
class CoefficientRow:
    name: str
    coefficient: float
    standard_error: float
    statistic: float
    p_value: float
    low: float
    high: float


def coefficient_table(
    fit: Inference, level: float = 0.95
) -> tuple[CoefficientRow, ...]:
    columns = [
        fit.coefficients,
        fit.standard_errors,
        fit.statistics,
        fit.p_values,
        *fit.confidence_intervals(level).T,
    ]
    values = np.stack(columns, axis=1).tolist()
    lines = zip(fit.names, values, strict=True)
    return tuple(CoefficientRow(name, *line) for name, line in lines)
