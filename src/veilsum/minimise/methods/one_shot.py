"""One-shot: when every cost is its coefficients, the sum of them is the whole problem.

Masked coefficients are summed over the graph once; masks cancel, and every party then
minimises the same sum by itself. It needs remainders that all parties know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.linalg import norm

from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.bases import Basis
from veilsum.minimise.costs.domains import Domain
from veilsum.minimise.costs.minimise import Gradient, extreme_cost_curvatures, minimise
from veilsum.minimise.costs.remainders import CostRemainder, RemainderStack
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.shapes import Float

Total = Float[FloatArray, " p"]  # all parties' coefficients, added up

# Differences of gradients cannot tell a smaller curvature from none.
FLAT = 1e-8


@dataclass(frozen=True)
class OneShot:
    """Public facts that every party knows before the sum arrives."""

    name: ClassVar[str] = "one-shot"

    basis: Basis
    remainder: CostRemainder
    n_parties: int
    domain: Domain

    def __post_init__(self) -> None:
        if self.remainder.kind == "local":
            raise InvalidInputError(
                "one-shot needs costs that are wholly described by their coefficients, "
                "and here a part of them stays with its owner; use method dgd",
                code="costs-have-remainder",
            )

    def solve(self, total: Total) -> Vector:
        """Return the minimiser of the sum with these summed coefficients."""
        return minimise(self.gradient(total), self.domain)

    def gradient(self, total: Total) -> Gradient:
        """Return the gradient of the sum of all costs."""
        return gradient_of_sum(self.basis, total, self.remainder, self.n_parties)

    def bias_bound(self, total: Total, x: Vector, step: float) -> float | None:
        """Return how far rounding to a grid of this step can move the minimiser.

        Each averaged coefficient is off by step / 2 at most. To first order that moves
        x by that times sum_k |grad phi_k(x)|, over the curvature of the average cost;
        for affine costs in one dimension this is step / (2 mu). None if it is flat.
        """
        least, greatest = extreme_cost_curvatures(self.gradient(total), x)
        if not least > FLAT * greatest:
            return None
        # One term of the basis after the other: all at once would be p matrices.
        unit, slopes = np.zeros(self.basis.size), np.zeros(x.size)
        for k in range(self.basis.size):
            unit[k] = 1.0
            slopes += np.abs(self.basis.gradient(unit, x))
            unit[k] = 0.0
        return float(0.5 * step * (self.n_parties * norm(slopes) / least))


def gradient_of_sum(
    basis: Basis, total: Total, remainder: CostRemainder, n_parties: int
) -> Gradient:
    """Return the gradient of a sum of costs: coefficients are added up once."""
    if isinstance(remainder, RemainderStack):
        shape = (len(remainder.members), basis.dim)
        return lambda x: (
            basis.gradient(total, x)
            + (remainder.gradient(np.broadcast_to(x, shape)).sum(axis=0))
        )
    return lambda x: basis.gradient(total, x) + n_parties * remainder.gradient(x)
