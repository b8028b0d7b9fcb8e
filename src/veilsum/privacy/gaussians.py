"""N+(0, c L): the degenerate Gaussian on the zero-sum subspace (the paper's Lemma 1).

Its density is with respect to Lebesgue measure on 1-perp, of dimension n - 1. The
pseudo-inverse is applied by a Cholesky solve of L + 11'/n, which agrees with L^+ there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log, pi
from typing import Any

import numpy as np
from scipy import linalg

from veilsum.errors import InvalidGraphError, InvalidInputError
from veilsum.graphs.connectivity import is_connected
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.shapes import Float

# A point is on the zero-sum subspace when its sum is rounding error of its size.
ZERO_SUM_TOLERANCE = 1e-9

Points = Float[FloatArray, "*batch n"]


@dataclass(frozen=True, eq=False)
class DegenerateGaussian:
    """The law of one coordinate of all masks: U^k ~ N+(0, c L), c = 2 sigma^2."""

    topology: Topology
    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf:
            raise InvalidInputError(
                f"the scale c must be positive and finite, found {self.scale}"
            )
        if not is_connected(self.topology):
            raise InvalidGraphError(
                "N+(0, cL) needs a connected graph; take its components one by one"
            )

    @cached_property
    def _factor(self) -> Any:
        """Return the Cholesky factor of L + 11'/n."""
        n = self.topology.n_parties
        shifted = self.topology.laplacian.toarray() + np.full((n, n), 1.0 / n)
        return linalg.cho_factor(shifted, lower=True)

    def sample(self, stream: np.random.Generator, size: int) -> Points:
        """Return `size` draws, (size, n): each is Theta times weighted edge noise."""
        noise = stream.standard_normal((self.topology.n_edges, size))
        noise *= np.sqrt(self.scale * self.topology.weights)[:, None]
        return np.asarray(self.topology.incidence @ noise).T

    def apply_pinv(self, points: Points) -> Points:
        """Return L^+ times each zero-sum point."""
        solved = linalg.cho_solve(self._factor, points.reshape(-1, points.shape[-1]).T)
        return solved.T.reshape(points.shape)

    def squared_norm(self, points: Points) -> FloatArray:
        """Return r' L^+ r / c for each zero-sum point r."""
        product = np.einsum("...n,...n->...", points, self.apply_pinv(points))
        return np.asarray(product / self.scale)

    def log_density(self, points: Points) -> FloatArray:
        """Return the log density on 1-perp; -inf for a point that is not zero-sum."""
        size = np.abs(points).sum(axis=-1)
        inside = np.abs(points.sum(axis=-1)) <= ZERO_SUM_TOLERANCE * size
        log_volume = (
            self._rank * log(2 * pi * self.scale) + self._log_pseudo_determinant
        )
        density = -0.5 * (log_volume + self.squared_norm(points))
        return np.where(inside, density, -np.inf)

    def kl_divergence(self, shift: Points) -> FloatArray:
        """Return the divergence between this law and itself moved by a zero-sum shift.

        d' L^+ d / (2 c); with c = 2 sigma^2 this is the paper's d' L^+ d / (4 sigma^2).
        """
        return np.asarray(0.5 * self.squared_norm(shift))

    @property
    def _rank(self) -> int:
        return self.topology.n_parties - 1

    @cached_property
    def _log_pseudo_determinant(self) -> float:
        """Return log(mu_2 ... mu_n): L + 11'/n has the same with one eigenvalue 1."""
        lower, _ = self._factor
        return 2.0 * float(np.log(np.diag(lower)).sum())
