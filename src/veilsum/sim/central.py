"""The pooled minimiser, by scipy: the independent answer runs are measured against.

It needs gradients only. The objective that scipy's minimiser asks for is the gradient's
line integral; the answer is then polished on the optimality condition itself,
x = P_X(x - grad F(x)), because an objective fixes x to half of the digits only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import optimize

from veilsum.core.arrays import Vector
from veilsum.core.costs import Cost, coefficient_rows
from veilsum.core.domains import Ball, Box, Domain, HalfSpaces, Simplex
from veilsum.core.remainders import RemainderStack, stack
from veilsum.errors import NumericalError

Gradient = Callable[[Vector], Vector]

# Gauss-Legendre with 24 nodes is exact for polynomial costs up to degree 48.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)

# How well x = P(x - step grad) must hold, relative to the size of x.
RESIDUAL_TOLERANCE = 1e-8


def central_minimiser(costs: Sequence[Cost], domain: Domain) -> Vector:
    """Return argmin over X of the sum of all costs, which one owner would compute."""
    gradient = _pooled(costs)
    start = domain.project(np.zeros(domain.dim))
    found = _minimise(gradient, domain, start)
    return _polish(gradient, domain, domain.project(found))


def _pooled(costs: Sequence[Cost]) -> Gradient:
    """Return the gradient of the sum: coefficients are added up once."""
    basis, rest = costs[0].basis, stack([cost.remainder for cost in costs])
    total = coefficient_rows(costs).sum(axis=0)
    if isinstance(rest, RemainderStack):
        members = rest.members
        return lambda x: basis.gradient(total, x) + sum(r.gradient(x) for r in members)
    return lambda x: basis.gradient(total, x) + len(costs) * rest.gradient(x)


def _minimise(gradient: Gradient, domain: Domain, start: Vector) -> Vector:
    bounds, constraints = _for_scipy(domain)
    method = "SLSQP" if constraints else "L-BFGS-B"
    scale = max(1.0, float(np.linalg.norm(gradient(start))))
    found = optimize.minimize(
        lambda x: _line_integral(gradient, start, x) / scale,
        start,
        jac=lambda x: gradient(x) / scale,
        bounds=bounds,
        constraints=constraints,
        method=method,
        options={"maxiter": 2000},
        tol=1e-14,
    )
    return np.asarray(found.x, dtype=np.float64)


def _line_integral(gradient: Gradient, start: Vector, end: Vector) -> float:
    """Return F(end) - F(start) from gradients along the segment."""
    step = end - start
    points = start + 0.5 * (_NODES[:, None] + 1.0) * step
    slopes = np.array([gradient(point) @ step for point in points])
    return float(0.5 * (_WEIGHTS * slopes).sum())


def _for_scipy(domain: Domain) -> tuple[optimize.Bounds | None, list[object]]:
    match domain:
        case Box():
            return optimize.Bounds(domain.lower, domain.upper), []
        case Ball():
            inside = optimize.NonlinearConstraint(
                lambda x: ((x - domain.centre) ** 2).sum(),
                -np.inf,
                domain.radius**2,
                jac=lambda x: 2.0 * (x - domain.centre)[None, :],
            )
            return None, [inside]
        case Simplex():
            total = optimize.LinearConstraint(
                np.ones((1, domain.dim)), domain.total, domain.total
            )
            return optimize.Bounds(0.0, np.inf), [total]
        case HalfSpaces():
            below = optimize.LinearConstraint(domain.normals, -np.inf, domain.offsets)
            return None, [below]
        case _:
            return None, []


def _polish(gradient: Gradient, domain: Domain, near: Vector) -> Vector:
    """Return the root of x - P(x - step grad F(x)) next to an approximate one."""
    # A step of the size of the curve, but never far past the domain on a slope.
    slope = float(np.linalg.norm(gradient(near)))
    step = 1.0 / max(_curvature(gradient, near), slope, 1e-12)

    def residual(x: Vector) -> Vector:
        return x - domain.project(x - step * gradient(x))

    found = optimize.root(residual, near, method="hybr", options={"xtol": 1e-15})
    better = domain.project(found.x)
    best = min((near, better), key=lambda x: float(np.linalg.norm(residual(x))))
    left = float(np.linalg.norm(residual(best)))
    if not left <= RESIDUAL_TOLERANCE * max(1.0, float(np.linalg.norm(best))):
        raise NumericalError(
            f"the central minimiser was not found, the residual is {left:.3g}; "
            "is the sum of the costs convex on the domain?"
        )
    return best


def _curvature(gradient: Gradient, x: Vector) -> float:
    """Return about the largest curvature at x, from coordinate differences."""
    width = 1e-6 * max(1.0, float(np.abs(x).max()))
    steps = width * np.eye(x.size)
    columns = [(gradient(x + d) - gradient(x - d)) / (2 * width) for d in steps]
    return float(np.linalg.norm(columns, ord=2))
