"""Effective costs whose gradients are affine, as arrays for compiled loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from veilsum.costs.bases import Affine, Quadratic, smat
from veilsum.costs.effective import EffectiveCost
from veilsum.costs.remainders import NoRemainder, SquaredNorm
from veilsum.numbers.arrays import Array
from veilsum.numbers.shapes import Float


@dataclass(frozen=True, eq=False, repr=False)
class ClosedForm:
    """grad h~_i(x) = slope_i + curve x + square_i x.

    Attributes:
        slopes: at the origin, by row.
        curve: one number for all agents and coordinates.
        squares: a symmetric matrix for each agent, if they differ.
    """

    slopes: Float[Array[Any], "n m"]
    curve: float
    squares: Float[Array[Any], "n m m"] | None = None


def closed_form(cost: EffectiveCost) -> ClosedForm | None:
    """Return all agents' gradients in closed form, or None if they have none."""
    basis, theta = cost.basis, cost.coefficients
    if isinstance(basis, Quadratic) and isinstance(cost.remainder, NoRemainder):
        twice = 2.0 * smat(theta[:, : -basis.dim - 1], basis.dim)
        return ClosedForm(theta[:, -basis.dim - 1 : -1], 0.0, twice)
    if not isinstance(basis, Affine):
        return None
    if isinstance(cost.remainder, NoRemainder | SquaredNorm):
        return ClosedForm(theta, 2.0 * getattr(cost.remainder, "scale", 0.0))
    squares: Any = getattr(cost.remainder, "matrices", None)
    return None if squares is None else ClosedForm(theta, 0.0, squares)
