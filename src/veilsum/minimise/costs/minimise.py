"""The minimiser of a sum that is known, over the public domain, by scipy.

It needs gradients only. The objective that scipy's minimiser asks for is the gradient's
line integral; the answer is then polished on the optimality condition itself,
x = P_X(x - grad F(x)), because an objective fixes x to half of the digits only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from veilsum.errors import NumericalError
from veilsum.minimise.costs.domains import Ball, Box, Domain, HalfSpaces, Simplex
from veilsum.numbers.arrays import Vector

Gradient = Callable[[Vector], Vector]

# Gauss-Legendre with 24 nodes is exact for polynomial costs up to degree 48.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)

# Up to this many variables a matrix of second derivatives is worth forming.
DENSE = 300
PLAIN_STEPS = 1000

# How well x = P(x - step grad) must hold, relative to the size of x.
RESIDUAL_TOLERANCE = 1e-8


def minimise(gradient: Gradient, domain: Domain) -> Vector:
    """Return argmin over X of the convex function with this gradient."""
    start = domain.project(np.zeros(domain.dim))
    bounds, constraints = _domain_for_scipy(domain)
    scale = max(1.0, float(np.linalg.norm(gradient(start))))
    found = scipy.optimize.minimize(
        lambda x: _line_integral_of_cost_gradient(gradient, start, x) / scale,
        start,
        jac=lambda x: gradient(x) / scale,
        bounds=bounds,
        constraints=constraints,
        method="SLSQP" if constraints else "L-BFGS-B",
        options={"maxiter": 2000},
        tol=1e-14,
    )
    near = domain.project(np.asarray(found.x, dtype=np.float64))
    return _polish_cost_minimiser(gradient, domain, near)


def extreme_cost_curvatures(gradient: Gradient, x: Vector) -> tuple[float, float]:
    """Return the least and the greatest second derivative at x in any direction."""
    if x.size <= DENSE:
        columns = [_cost_gradient_change(gradient, x, axis) for axis in np.eye(x.size)]
        values = np.linalg.eigvalsh(np.array(columns))
        return float(values[0]), float(values[-1])
    return _extreme_hessian_eigenvalue(gradient, x, "SA"), _extreme_hessian_eigenvalue(
        gradient, x, "LA"
    )


def _cost_gradient_change(gradient: Gradient, x: Vector, along: Vector) -> Vector:
    """Return the gradient's derivative in a direction, by a central difference."""
    width = 1e-6 * max(1.0, float(np.abs(x).max())) / float(np.linalg.norm(along))
    step = width * along
    return (gradient(x + step) - gradient(x - step)) / (2 * width)


def _extreme_hessian_eigenvalue(gradient: Gradient, x: Vector, which: str) -> float:
    """Return one end of the Hessian's spectrum without forming it."""
    hessian = scipy.sparse.linalg.LinearOperator(
        shape=(x.size, x.size),
        dtype=np.float64,
        matvec=lambda along: _cost_gradient_change(gradient, x, along.ravel()),
    )
    # Any start that no direction is orthogonal to, and the same one every time.
    start = np.cos(np.arange(x.size))
    try:
        (found,) = scipy.sparse.linalg.eigsh(
            hessian, k=1, which=which, v0=start, tol=1e-6, return_eigenvectors=False
        )
    except scipy.sparse.linalg.ArpackError as error:
        raise NumericalError(
            f"the curvature was not found: {error}", code="curvature-not-converged"
        ) from None
    return float(found)


def _line_integral_of_cost_gradient(
    gradient: Gradient, start: Vector, end: Vector
) -> float:
    """Return F(end) - F(start) from gradients along the segment."""
    step = end - start
    points = start + 0.5 * (_NODES[:, None] + 1.0) * step
    slopes = np.array([gradient(point) @ step for point in points])
    return float(0.5 * (_WEIGHTS * slopes).sum())


def _domain_for_scipy(
    domain: Domain,
) -> tuple[scipy.optimize.Bounds | None, list[object]]:
    match domain:
        case Box():
            return scipy.optimize.Bounds(domain.lower, domain.upper), []
        case Ball():
            inside = scipy.optimize.NonlinearConstraint(
                lambda x: ((x - domain.centre) ** 2).sum(),
                -np.inf,
                domain.radius**2,
                jac=lambda x: 2.0 * (x - domain.centre)[None, :],
            )
            return None, [inside]
        case Simplex():
            total = scipy.optimize.LinearConstraint(
                np.ones((1, domain.dim)), domain.total, domain.total
            )
            return scipy.optimize.Bounds(0.0, np.inf), [total]
        case HalfSpaces():
            below = scipy.optimize.LinearConstraint(
                domain.normals, -np.inf, domain.offsets
            )
            return None, [below]
        case _:
            return None, []


def _polish_cost_minimiser(gradient: Gradient, domain: Domain, near: Vector) -> Vector:
    """Return the root of x - P(x - step grad F(x)) next to an approximate one."""
    # A step of the size of the curve, but never far past the domain on a slope.
    slope = float(np.linalg.norm(gradient(near)))
    bend = max(*map(abs, extreme_cost_curvatures(gradient, near)), 1e-12)

    def residual(x: Vector, step: float = 1.0 / max(bend, slope)) -> Vector:
        return x - domain.project(x - step * gradient(x))

    better = domain.project(_root_of_cost_residual(residual, near))
    best = min((near, better), key=lambda x: float(np.linalg.norm(residual(x))))
    # Judged by a step that could cross all of x: a short one is small anywhere.
    far = 1e3 * max(1.0, float(np.linalg.norm(best))) / max(slope, 1e-12)
    left = float(np.linalg.norm(residual(best, min(1.0 / bend, far))))
    if not left <= RESIDUAL_TOLERANCE * max(1.0, float(np.linalg.norm(best))):
        raise NumericalError(
            f"the minimiser was not found, the residual is {left:.3g}; "
            "is the sum of the costs convex on the domain?",
            code="minimiser-not-converged",
        )
    return best


def _root_of_cost_residual(residual: Gradient, near: Vector) -> Vector:
    """Return the root by Newton's method; of long vectors by plain steps."""
    if near.size <= DENSE:
        return scipy.optimize.root(
            residual, near, method="hybr", options={"xtol": 1e-15}
        ).x
    x = near
    for _ in range(PLAIN_STEPS):
        left = residual(x)
        x = x - left
        if np.linalg.norm(left) <= 1e-16 * np.linalg.norm(x):
            break
    return x
