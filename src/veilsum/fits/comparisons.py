"""Tests of a fit: of a hypothesis about its coefficients, or against a smaller fit.

Nothing here needs a further sum: tests follow from what fits have released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.models.dispersion import DispersedFit
from veilsum.models.glm import GlmFit
from veilsum.models.hypotheses import CoefficientHypothesis
from veilsum.models.inference import Inference
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.showing import Renderable, Rendering

# Combinations are dependent where one is what others make, but for rounding.
DEPENDENT = 1e-12

Fit = LeastSquaresFit | GlmFit


@dataclass(frozen=True, repr=False)
class TestOfFit(Renderable):
    """One test, as people report it.

    Attributes:
        kind: of test, such as "Wald".
        law: of the statistic: "F" or "chi2".
        degrees: of freedom: how many restrictions there are.
        residual_degrees: the second degrees of F; None for chi2.
        about: what is tested, a line each.
    """

    __test__ = False  # a name of the subject, for pytest

    kind: str
    law: str
    statistic: float
    degrees: float
    residual_degrees: float | None
    p_value: float
    about: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        kind: str,
        statistic: float,
        degrees: float,
        residual_degrees: float | None = None,
        about: Sequence[str] = (),
    ) -> TestOfFit:
        if residual_degrees is None:
            chance = scipy.special.chdtrc(degrees, max(statistic, 0.0))
        else:
            chance = scipy.special.fdtrc(degrees, residual_degrees, max(statistic, 0.0))
        law = "chi2" if residual_degrees is None else "F"
        return cls(
            kind,
            law,
            float(statistic),
            float(degrees),
            residual_degrees,
            float(chance),
            tuple(about),
        )

    def summary(self) -> str:
        return str(self)

    def showing(self) -> Rendering:
        degrees = f"{self.degrees:g}"
        if self.residual_degrees is not None:
            degrees += f", {self.residual_degrees:.6g}"
        head = (
            f"{self.kind} test: {self.law}({degrees}) = {self.statistic:.6g}, "
            f"p = {self.p_value:.4g}"
        )
        return Rendering(head, [self.about] if self.about else [])

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "about": list(self.about)}


def wald_test_of_hypothesis(
    fit: Inference, hypothesis: CoefficientHypothesis
) -> TestOfFit:
    """Return Wald's test that all combinations have their values together.

    (Rb - q)'(R V R')^-1 (Rb - q) is chi2 with a degree for each combination; over these
    it is F where errors are Student's.
    """
    matrix = hypothesis.matrix
    away = matrix @ fit.coefficients - hypothesis.values
    spread = matrix @ fit.covariance @ matrix.T
    scale = np.sqrt(np.diag(spread))
    if not (scale > 0.0).all():
        raise InvalidInputError(
            "a combination of coefficients has no error, so there is nothing to test: "
            "the fit is perfect, or the combination is 0",
            code="nothing-to-test",
        )
    # With combinations of one size, no unit decides what counts as dependent.
    values, vectors = np.linalg.eigh(spread / np.outer(scale, scale))
    if values[0] <= DEPENDENT * values[-1]:
        raise InvalidInputError(
            "the equations of a hypothesis follow from each other: leave out "
            f"{int((values <= DEPENDENT * values[-1]).sum())} of {len(values)}",
            code="dependent-hypotheses",
        )
    found = float(((vectors.T @ (away / scale)) ** 2 / values).sum())
    k = len(away)
    return TestOfFit.of(
        "Wald",
        found if fit.t_degrees is None else found / k,
        k,
        fit.t_degrees,
        hypothesis.names,
    )


def likelihood_ratio_of_models(larger: Fit, smaller: Fit) -> TestOfFit:
    """Return the likelihood-ratio test of the smaller fit within the larger.

    For least squares n log(RSS0 / RSS1); else the difference of deviances, over the
    larger fit's dispersion where one is estimated. Where each fit has a theta of its
    own, deviances are against two laws, and log-likelihoods are compared.
    """
    if isinstance(larger, LeastSquaresFit):
        assert isinstance(smaller, LeastSquaresFit)
        _check_model_scatter(larger)
        ratio = smaller.residual_sum / larger.residual_sum
        found = larger.n_rows * float(np.log(ratio))
    elif isinstance(larger, DispersedFit):
        found = 2.0 * (larger.log_likelihood - smaller.log_likelihood)
    else:
        assert isinstance(smaller, GlmFit)
        found = (smaller.deviance - larger.deviance) / larger.dispersion
    return TestOfFit.of(
        "likelihood-ratio", found, _further_model_degrees(larger, smaller)
    )


def f_test_of_models(larger: Fit, smaller: Fit) -> TestOfFit:
    k = _further_model_degrees(larger, smaller)
    if isinstance(larger, LeastSquaresFit):
        assert isinstance(smaller, LeastSquaresFit)
        _check_model_scatter(larger)
        less = smaller.residual_sum - larger.residual_sum
        found = less / k / larger.residual_variance
    else:
        assert isinstance(smaller, GlmFit)
        if not larger.family.estimates_dispersion:
            raise InvalidInputError(
                f"an F test needs a dispersion that is estimated, and that of a "
                f"{larger.family.name} regression is 1: use compare_lr",
                code="dispersion-known",
            )
        found = (smaller.deviance - larger.deviance) / k / larger.dispersion
    return TestOfFit.of("F", found, k, larger.residual_degrees)


def score_test_of_models(larger: Fit, smaller: Fit) -> TestOfFit:
    """Return the score test of the smaller fit within the larger: n (1 - RSS1 / RSS0).

    Of other families it needs the score of the larger model at the smaller fit, which
    no sum of either has shown.
    """
    if not (
        isinstance(larger, LeastSquaresFit) and isinstance(smaller, LeastSquaresFit)
    ):
        raise InvalidInputError(
            "a score test follows from released sums for least squares only: use "
            "compare_lr, or wald_test on the larger fit",
            code="score-test-unavailable",
        )
    _check_model_scatter(smaller)
    found = larger.n_rows * (1.0 - larger.residual_sum / smaller.residual_sum)
    return TestOfFit.of("score", found, _further_model_degrees(larger, smaller))


def _further_model_degrees(larger: Fit, smaller: Fit) -> float:
    return larger.model_degrees - smaller.model_degrees


def _check_model_scatter(fit: LeastSquaresFit) -> None:
    if not fit.residual_sum > 0.0:
        raise InvalidInputError(
            "a fit is perfect: without residuals there is nothing to compare by",
            code="perfect-fit",
        )
