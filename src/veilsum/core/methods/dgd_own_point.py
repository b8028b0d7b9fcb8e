"""DGD as first published: the gradient is taken at an agent's own point.

    x_i(k+1) = P_X[ sum_j w_ij x_j(k) - a_k grad h~_i(x_i(k)) ]

Steps, weights and domains are asked for as in the other form, which takes it at the
mixed point (Nedic and Ozdaglar 2009, there without a domain).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilsum.core.arrays import Vectors
from veilsum.core.methods.dgd import Dgd, DgdState, Gradient


@dataclass(frozen=True)
class DgdOwnPoint(Dgd):
    """Projected distributed gradient descent, gradients at x instead of at W x."""

    def step(self, state: DgdState, mixed: Vectors, gradient: Gradient) -> DgdState:
        """Return the next state from what was heard and the effective gradient."""
        size = self.scale / (state.iteration + 1) ** self.power
        moved = size * gradient(state.x)
        np.subtract(mixed, moved, out=moved)
        return DgdState(self.domain.project(moved), state.iteration + 1)
