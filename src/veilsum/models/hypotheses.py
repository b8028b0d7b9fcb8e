"""Tests of hypotheses about coefficients, from what a fit has released already.

A linear hypothesis says that combinations of coefficients have certain values. It is
written as text, `"age = 0, C(sex)[T.male] = 2 * smoker"`, and read here by its own
small grammar: names of coefficients, numbers, `+ - * /`, `=` and `,`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any, NoReturn

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.models.dispersion import DispersedFit
from veilsum.models.glm import GlmFit
from veilsum.models.inference import Inference
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.numbers.arrays import FloatArray, Vector, listed_names, nearest_name
from veilsum.showing import Renderable, Rendering

# Letters of a hypothesis, and equations in it: they are read, and shown, by people.
LONGEST, MOST_EQUATIONS = 10_000, 200
# Combinations are dependent where one is what others make, but for rounding.
DEPENDENT = 1e-12
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_HOW = 'write it like "age = 0, height = 2 * weight"'


@dataclass(frozen=True)
class CoefficientHypothesis:
    """Combinations of coefficients, and what each of them is said to be."""

    matrix: FloatArray
    values: Vector
    names: tuple[str, ...]

    @classmethod
    def of(cls, given: Any, names: Sequence[str]) -> CoefficientHypothesis:
        """Return a hypothesis that was written as text, or given as numbers."""
        if isinstance(given, str):
            return _HypothesisReader(given, names).hypothesis()
        matrix, values = given if isinstance(given, tuple) else (given, 0.0)
        try:
            rows = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
            right = np.broadcast_to(np.asarray(values, np.float64), len(rows)).copy()
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"a hypothesis is a text or a matrix of numbers: {_HOW}",
                code="not-a-hypothesis",
            ) from None
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise InvalidInputError(
                f"a hypothesis has a column for each of {len(names)} coefficients, "
                f"found shape {rows.shape}",
                code="wrong-shape",
            )
        if not (np.isfinite(rows).all() and np.isfinite(right).all()):
            raise InvalidInputError(
                "a hypothesis has finite numbers only", code="hypothesis-not-finite"
            )
        labels = tuple(
            _hypothesis_text(row, value, names)
            for row, value in zip(rows.tolist(), right.tolist(), strict=True)
        )
        return cls(rows, right, labels)


def _hypothesis_text(row: Sequence[float], value: float, names: Sequence[str]) -> str:
    parts: list[str] = []
    for factor, name in zip(row, names, strict=True):
        if factor:
            size = "" if abs(factor) == 1.0 else f"{abs(factor):g} * "
            sign = ("- " if factor < 0.0 else "+ ") if parts else "-" * (factor < 0.0)
            parts.append(f"{sign}{size}{name}")
    return f"{' '.join(parts) or '0'} = {value + 0.0:g}"


class _HypothesisReader:
    """Reads a hypothesis; names are found as they are, the longest first."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        if len(text) > LONGEST:
            raise InvalidInputError(
                f"a hypothesis has at most {LONGEST:,} letters, found {len(text):,}",
                code="hypothesis-too-long",
            )
        self._text, self._names, self._at = text, list(names), 0
        self._longest = sorted(names, key=len, reverse=True)

    def hypothesis(self) -> CoefficientHypothesis:
        rows: list[Vector] = []
        names: list[str] = []
        while True:
            sides = [self._side()]
            while self._took("="):
                sides.append(self._side())
            if len(sides) < 2:
                self._refuse("an equation needs =")
            for left, right in pairwise(sides):
                rows.append(left - right)
                if not rows[-1][:-1].any():
                    self._refuse("an equation is about no coefficient")
                names.append(
                    _hypothesis_text(
                        rows[-1][:-1].tolist(), -float(rows[-1][-1]), self._names
                    )
                )
            if len(rows) > MOST_EQUATIONS:
                self._refuse(f"there are more than {MOST_EQUATIONS} equations")
            if not self._took(","):
                break
        if self._rest():
            self._refuse(f"cannot read on at {self._rest()[:30]!r}")
        table = np.stack(rows)
        return CoefficientHypothesis(table[:, :-1], -table[:, -1], tuple(names))

    def _side(self) -> Vector:
        """Return what each coefficient is taken times, and a number, last."""
        sign = -1.0 if self._took("-") else 1.0
        total = sign * self._product()
        while self._rest()[:1] in ("+", "-"):
            sign = 1.0 if self._took("+") else -float(self._took("-"))
            total = total + sign * self._product()
        return total

    def _product(self) -> Vector:
        found = self._atom()
        while self._rest()[:1] in ("*", "/"):
            times, other = self._took("*"), None
            if not times:
                self._took("/")
            other = self._atom()
            if times and not found[:-1].any():
                found, other = other, found
            if other[:-1].any() or not (times or other[-1]):
                self._refuse("coefficients are taken times, or over, numbers only")
            found = found * other[-1] if times else found / other[-1]
        return found

    def _atom(self) -> Vector:
        found, rest = np.zeros(len(self._names) + 1), self._rest()
        for name in self._longest:
            if rest.startswith(name) and not _hypothesis_name_goes_on(
                name, rest[len(name) :]
            ):
                self._at += len(name)
                found[self._names.index(name)] = 1.0
                return found
        if (number := _NUMBER.match(rest)) and not _hypothesis_name_goes_on(
            "1", rest[number.end() :]
        ):
            self._at += number.end()
            found[-1] = float(number[0])
            if not isfinite(found[-1]):
                self._refuse(f"{number[0]} is no number that can be used")
            return found
        return self._refuse_word(rest)

    def _refuse_word(self, rest: str) -> NoReturn:
        word = re.match(r"[^\s=,+*/-]+", rest)
        if word is None:
            self._refuse("a name or a number is missing")
        self._refuse(
            f"no coefficient is called {word[0][:60]!r}; "
            f"{nearest_name(word[0], self._names)}there are {listed_names(self._names)}"
        )

    def _rest(self) -> str:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at :]

    def _took(self, sign: str) -> bool:
        taken = self._rest().startswith(sign)
        self._at += taken
        return taken

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInputError(
            f"the hypothesis {self._text[:200]!r} cannot be read: {why}; {_HOW}",
            code="unreadable-hypothesis",
        )


def _hypothesis_name_goes_on(name: str, rest: str) -> bool:
    return name[-1].isidentifier() | name[-1].isdigit() and (
        rest[:1].isidentifier() or rest[:1].isdigit()
    )


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


@dataclass(frozen=True)
class CombinedCoefficients(Inference):
    """Combinations of coefficients as estimates, each with an error and an interval."""

    values: Vector

    @classmethod
    def of(
        cls, fit: Inference, hypothesis: CoefficientHypothesis
    ) -> CombinedCoefficients:
        matrix = hypothesis.matrix
        return cls(
            names=hypothesis.names,
            coefficients=matrix @ fit.coefficients,
            covariance=matrix @ fit.covariance @ matrix.T,
            t_degrees=fit.t_degrees,
            values=hypothesis.values,
        )

    @property
    def statistics(self) -> Vector:
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.coefficients - self.values) / self.standard_errors


# Two fits, one within the other

Fit = LeastSquaresFit | GlmFit


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
