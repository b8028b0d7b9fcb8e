"""The answer of a generalised linear model, from the sums at the last point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilsum.models.family import Family, LikelihoodSums
from veilsum.models.glm_sums import (
    ClosingStatistics,
    FirstStatistics,
    RoundStatistics,
)
from veilsum.models.inference import Inference
from veilsum.models.systems import System, check_rows, spread
from veilsum.numbers.arrays import Vector


@dataclass(frozen=True)
class GlmFit(Inference):
    """The fit of the pooled rows; one that did not converge does not exist.

    Where the dispersion is estimated the tests are Student's, as in R; else normal.

    Attributes:
        family: of the response.
        model_degrees: coefficients in effect: p, or less with a ridge.
        residual_degrees: rows less model degrees.
        deviance: of the fit.
        null_deviance: of a model with an intercept, and the offset, alone.
        pearson: the sum of w (y - mu)^2 / variance.
        dispersion: Pearson's sum over its degrees of freedom, or 1 if the law fixes it.
        log_likelihood: at that dispersion; the gaussian's is at deviance / n.
        n_rows: the number of rows.
        rounds: how many totals it took.
        condition: of the scaled information; log10(1e16 / condition) digits are right.
    """

    family: Family
    model_degrees: float
    residual_degrees: float
    deviance: float
    null_deviance: float
    pearson: float
    dispersion: float
    log_likelihood: float
    n_rows: int
    rounds: int
    condition: float

    @property
    def aic(self) -> float:
        """-2 log-likelihood + 2 model degrees; the dispersion is not counted."""
        return 2.0 * (self.model_degrees - self.log_likelihood)


@dataclass(frozen=True)
class Outcome:
    """What the rounds ended with.

    Attributes:
        first: the first total.
        sums: the last round's total.
        coefficients: the last step included.
        null_deviance: where the null model's search ended.
        rounds: how many totals it took.
    """

    first: FirstStatistics
    sums: RoundStatistics
    coefficients: Vector
    null_deviance: float
    rounds: int


def conclude(
    family: Family,
    outcome: Outcome,
    closing: ClosingStatistics,
    *,
    names: tuple[str, ...],
    penalty: Vector,
) -> GlmFit:
    """Return the fit; standard errors are sqrt diag(phi A^-1 I A^-1)."""
    sums, n_rows = outcome.sums, outcome.first.n_rows
    system = System.of(closing.information + np.diag(penalty), names=names)
    covariance, _ = spread(system, closing.information, penalty)
    degrees = effective_degrees(sums, penalty, names)
    dispersion = estimated_dispersion(family, sums.pearson, n_rows, degrees)
    likelihood = LikelihoodSums(sums.deviance, closing.saturated, n_rows, dispersion)
    return GlmFit(
        names=names,
        coefficients=outcome.coefficients,
        covariance=dispersion * covariance,
        t_degrees=n_rows - degrees if family.estimates_dispersion else None,
        family=family,
        model_degrees=degrees,
        residual_degrees=n_rows - degrees,
        deviance=sums.deviance,
        null_deviance=outcome.null_deviance,
        pearson=sums.pearson,
        dispersion=dispersion,
        log_likelihood=family.log_likelihood(likelihood),
        n_rows=round(n_rows),
        rounds=outcome.rounds,
        condition=system.condition,
    )


def effective_degrees(
    sums: RoundStatistics, penalty: Vector, names: tuple[str, ...]
) -> float:
    """Return trace((I + P)^-1 I), which is p without a ridge."""
    system = System.of(sums.information + np.diag(penalty), names=names)
    return spread(system, sums.information, penalty)[1]


def estimated_dispersion(
    family: Family, pearson: float, n_rows: float, degrees: float
) -> float:
    """Return Pearson's estimate of phi, or the 1 of a law that fixes it."""
    if not family.estimates_dispersion:
        return 1.0
    check_rows(n_rows, degrees)
    return pearson / (n_rows - degrees)
