"""Curvature of costs: L, L_bar and mu_bar read off the costs, for simulations.

Every cost gets two matrices, one below and one above all its Hessians on the domain:

    basis   affine 0, quadratic P        rho    none 0, scale ||x||^2 gives 2 scale I,
                                                rows X'W diag(mu')X + ridge

with mu' bounded row by row through the range of predictors on the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.bases import Affine, Quadratic
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Ball, Box, Domain, HalfSpaces, Simplex
from veilsum.minimise.costs.remainders import CostRemainder, NoRemainder, SquaredNorm
from veilsum.minimise.costs.rows import RowRemainder
from veilsum.minimise.methods.certificate import Bounds
from veilsum.models.rows import Design, Gram, PerRow, gram_of_model_rows
from veilsum.numbers.arrays import Vector

Between: TypeAlias = tuple[Gram, Gram]  # every Hessian lies between the two
Ranges: TypeAlias = Callable[[Design], tuple[PerRow, PerRow]]


def curvature_bounds(
    costs: Mapping[str, Cost] | Sequence[Cost], domain: Domain
) -> Bounds:
    """Return bounds on how much private costs bend on the domain.

    For simulations only: it looks at every party's private cost. Real parties agree on
    bounds that they know beforehand. Affine masks leave them valid; masks of quadratic
    coefficients raise L and nothing else.

    Args:
        costs: by party, or in their order.
        domain: X, public. Logistic costs without a ridge are strongly convex on a
            bounded one only; Poisson costs have an L on a bounded one only.
    """
    named = costs if isinstance(costs, Mapping) else dict(enumerate(costs))
    if not named:
        raise InvalidInputError("there are no costs to bound", code="no-costs")
    ranges = _predictor_ranges_on_domain(domain)
    found = [
        _named_cost_curvature(str(name), cost, domain, ranges)
        for name, cost in named.items()
    ]
    below, above = (np.mean(side, axis=0) for side in zip(*found, strict=True))
    convex, mean_smooth = (
        _curvature_eigenvalue_ends(below)[0],
        _curvature_eigenvalue_ends(above)[1],
    )
    # No more than this is left of an eigenvalue that is zero.
    if not convex > 1e-13 * mean_smooth:
        raise InvalidInputError(
            "the average cost has no strong convexity that could be proved: its least "
            f"curvature is bounded below by {convex:.3g} only; add a ridge, give a "
            "smaller bounded domain, or use a method that does not need it",
            code="not-strongly-convex",
        )
    # A Lipschitz constant of the steepest gradient.
    smooth = max(
        max(-_curvature_eigenvalue_ends(low)[0], _curvature_eigenvalue_ends(high)[1])
        for low, high in found
    )
    # In order, which rounding may have upset.
    middle = max(convex, mean_smooth)
    return Bounds(smooth=max(middle, smooth), mean_smooth=middle, mean_convex=convex)


def _named_cost_curvature(
    name: str, cost: Cost, domain: Domain, ranges: Ranges
) -> Between:
    """Return one cost's two matrices; say whose cost it is that has none."""
    if cost.dim != domain.dim:
        raise InvalidInputError(
            f"party {name!r} has a cost of {cost.dim} variables, but the domain has "
            f"dimension {domain.dim}",
            code="dimension-differs",
        )
    try:
        square = _curvature_of_cost_basis(cost)
        least, most = _curvature_of_remainder(cost.remainder, domain.dim, ranges)
    except InvalidInputError as error:
        raise InvalidInputError(f"party {name!r}: {error}", code=error.code) from None
    return square + least, square + most


def _curvature_of_cost_basis(cost: Cost) -> Gram:
    match cost.basis:
        case Affine(dim):
            return np.zeros((dim, dim))
        case Quadratic() as basis:
            return basis.matrices(cost.coefficients)
        case _:
            raise InvalidInputError(
                f"how much a {type(cost.basis).__name__.lower()} bends is not computed "
                "here: give bounds that you know",
                code="curvature-unknown",
            )


def _curvature_of_remainder(rho: CostRemainder, dim: int, ranges: Ranges) -> Between:
    match rho:
        case NoRemainder():
            return np.zeros((dim, dim)), np.zeros((dim, dim))
        case SquaredNorm(scale):
            return 2.0 * scale * np.eye(dim), 2.0 * scale * np.eye(dim)
        case RowRemainder():
            return _curvature_of_row_remainder(rho, ranges)
        case _:
            raise InvalidInputError(
                "how much a cost given as a function bends cannot be read off it: give "
                "bounds that you know",
                code="curvature-unknown",
            )


def _curvature_of_row_remainder(rho: RowRemainder, ranges: Ranges) -> Between:
    below, above = np.diag(rho.penalty), np.diag(rho.penalty)
    for block in rho.blocks:
        low, high = ranges(block.design)
        least, most = rho.curve.bends(block.shift(low), block.shift(high))
        if not np.isfinite(most).all():
            raise InvalidInputError(
                "curvature grows without end as coefficients do: give a bounded domain",
                code="curvature-unbounded",
            )
        below += gram_of_model_rows(block.design, block.weigh(least))
        above += gram_of_model_rows(block.design, block.weigh(most))
    return below, above


def _curvature_eigenvalue_ends(matrix: Gram) -> tuple[float, float]:
    values = np.linalg.eigvalsh(matrix)
    return float(values[0]), float(values[-1])


def _predictor_ranges_on_domain(domain: Domain) -> Ranges:
    """Return what bounds Xb on the domain, row by row."""
    match domain:
        case Box():
            return lambda design: _predictor_range_in_box(
                design, domain.lower, domain.upper
            )
        case Ball():
            return lambda design: _predictor_range_in_ball(design, domain)
        case Simplex():
            return lambda design: _predictor_range_in_simplex(design, domain)
        case HalfSpaces() if domain.is_bounded:
            # The smallest box that holds the domain.
            axes = np.eye(domain.dim)
            low, high = (
                -_extremes_of_domain(domain, -axes),
                _extremes_of_domain(domain, axes),
            )
            return lambda design: _predictor_range_in_box(design, low, high)
        case _:
            return _unbounded_predictor_ranges


def _predictor_range_in_box(
    design: Design, low: Vector, high: Vector
) -> tuple[PerRow, PerRow]:
    rising, falling = np.maximum(design, 0.0), np.minimum(design, 0.0)
    return rising @ low + falling @ high, rising @ high + falling @ low


def _predictor_range_in_ball(design: Design, ball: Ball) -> tuple[PerRow, PerRow]:
    middle = design @ ball.centre
    away = ball.radius * np.linalg.norm(design, axis=1)
    return middle - away, middle + away


def _predictor_range_in_simplex(
    design: Design, simplex: Simplex
) -> tuple[PerRow, PerRow]:
    return simplex.total * design.min(axis=1), simplex.total * design.max(axis=1)


def _unbounded_predictor_ranges(design: Design) -> tuple[PerRow, PerRow]:
    away = np.where(design.any(axis=1), np.inf, 0.0)
    return -away, away


def _extremes_of_domain(domain: HalfSpaces, directions: Gram) -> Vector:
    """Return how far the set reaches in each direction, by linear programs."""
    found = [
        scipy.optimize.linprog(
            -way, A_ub=domain.normals, b_ub=domain.offsets, bounds=(None, None)
        )
        for way in directions
    ]
    return np.array([-one.fun for one in found])
