"""mu, a rising function of one number: the slope of a row's loss in its predictor.

A loss that is B(eta) - y eta, or that depends on one combination of predictor and
response alone, has the slope mu(eta) up to what does not depend on eta. How fast mu
rises bounds how much costs bend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.families import Binomial, Gaussian
from veilsum.models.family import EDGE, Family
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.shapes import Float

Predictors: TypeAlias = Float[FloatArray, "*batch"]  # one number for each row
Range: TypeAlias = tuple[Predictors, Predictors]


@runtime_checkable
class Curve(Protocol):
    """mu, the same for all rows and parties; equal ones compare equal."""

    def mean(self, eta: Predictors) -> Predictors:
        """Return mu(eta)."""
        ...

    def bends(self, low: Predictors, high: Predictors) -> Range:
        """Return bounds on mu' between two predictors, which may be infinite."""
        ...


@dataclass(frozen=True)
class MeanCurve:
    """The inverse of a canonical link: gaussian, logistic or Poisson."""

    family: Family

    def mean(self, eta: Predictors) -> Predictors:
        """Return E y at this predictor."""
        # A family takes the rows of one party.
        return self.family.inverse_link(eta.ravel()).reshape(eta.shape)

    def bends(self, low: Predictors, high: Predictors) -> Range:
        """Return the least and the greatest variance between two predictors."""
        if isinstance(self.family, Gaussian):
            return np.ones_like(low), np.ones_like(low)
        ends = self._bend(low), self._bend(high)
        # A variance rises, or rises and falls, so that it is least at an end.
        least = np.minimum(*ends)
        if isinstance(self.family, Binomial):
            return least, np.full_like(low, 0.25)
        return least, np.where(np.isinf(high), np.inf, self._variance(high))

    def _bend(self, eta: Predictors) -> Predictors:
        """Return mu' at eta: beyond the edges, where means are kept, it is zero."""
        return np.where(np.abs(eta) > EDGE, 0.0, self._variance(eta))

    def _variance(self, eta: Predictors) -> Predictors:
        return self.family.slope(self.mean(eta))


@dataclass(frozen=True)
class HuberCurve:
    """The slope of Huber's loss: a residual, cut off at plus and minus delta."""

    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.delta < np.inf:
            raise InvalidInputError(
                "delta, the residual at which Huber's loss becomes linear, must be "
                f"positive and finite, found {self.delta}"
            )

    def mean(self, eta: Predictors) -> Predictors:
        """Return the residual, or delta with its sign."""
        return np.clip(eta, -self.delta, self.delta)

    def bends(self, low: Predictors, high: Predictors) -> Range:
        """Return 1 within, else from 0 to 1."""
        within = (low >= -self.delta) & (high <= self.delta)
        return within.astype(np.float64), np.ones_like(low)


@dataclass(frozen=True)
class SmoothedHingeCurve:
    """The slope of the hinge loss with its corner rounded off, in the margin t.

    The loss is 0 above 1, (1 - t)^2 / 2s from 1 - s to 1, and 1 - t - s/2 below.
    """

    smoothing: float

    def __post_init__(self) -> None:
        if not 0 < self.smoothing < np.inf:
            raise InvalidInputError(
                "smoothing, the width of a hinge's rounded corner, must be positive "
                f"and finite, found {self.smoothing}"
            )

    def mean(self, eta: Predictors) -> Predictors:
        """Return a number from -1, a row on the wrong side, to 0."""
        return np.clip((eta - 1.0) / self.smoothing, -1.0, 0.0)

    def bends(self, low: Predictors, high: Predictors) -> Range:
        """Return 1/s in the corner, else from 0 to 1/s."""
        within = (low >= 1.0 - self.smoothing) & (high <= 1.0)
        most = np.full_like(low, 1.0 / self.smoothing)
        return np.where(within, most, 0.0), most
