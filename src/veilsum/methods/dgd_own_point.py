"""DGD as first published: the gradient is taken at an agent's own point.

    x_i(k+1) = P_X[ sum_j w_ij x_j(k) - a_k grad h~_i(x_i(k)) ]

Steps, weights and domains are asked for as in the other form, which takes it at the
mixed point (Nedic and Ozdaglar 2009, there without a domain).
"""

from __future__ import annotations

from dataclasses import dataclass

from veilsum.costs.effective import EffectiveCost
from veilsum.methods.dgd import Dgd, DgdState
from veilsum.numbers.arrays import Vectors


@dataclass(frozen=True)
class DgdOwnPoint(Dgd):
    """Projected distributed gradient descent, gradients at x instead of at W x."""

    def advance(self, state: DgdState, mixed: Vectors, cost: EffectiveCost) -> DgdState:
        """Return the next iterate."""
        return self._moved(state, mixed, cost.gradient(state.x))
