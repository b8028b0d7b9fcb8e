"""X, the one public set all parties search: projection, membership, boundedness."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import sqrt
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, NumericalError
from veilsum.minimise.costs.bases import check_cost_dimension
from veilsum.numbers.arrays import (
    FloatArray,
    Vector,
    Vectors,
    as_float_vector,
    as_floats,
)


@runtime_checkable
class Domain(Protocol):
    """A closed convex set of R^m."""

    @property
    def dim(self) -> int:
        """m, the dimension of x."""
        ...

    @property
    def is_bounded(self) -> bool:
        """Whether the set is compact."""
        ...

    def project(self, x: Vectors) -> Vectors:
        """Return the nearest point of the set to each row."""
        ...


@dataclass(frozen=True)
class WholeSpace:
    """All of R^m."""

    dim: int

    def __post_init__(self) -> None:
        check_cost_dimension(self.dim)

    @property
    def is_bounded(self) -> bool:
        """Never."""
        return False

    def project(self, x: Vectors) -> Vectors:
        """Return x: nothing is outside."""
        return x


class _BoundedDomain:
    @property
    def is_bounded(self) -> bool:
        return True


@dataclass(frozen=True, eq=False, init=False)
class Box(_BoundedDomain):
    """lower <= x <= upper, coordinate by coordinate; one number stands for all.

    >>> Box(-1.0, 1.0, dim=2).project(np.array([3.0, 0.5])).tolist()
    [1.0, 0.5]
    """

    lower: Vector
    upper: Vector
    dim: int

    def __init__(self, lower: ArrayLike, upper: ArrayLike, *, dim: int) -> None:
        check_cost_dimension(dim)
        low = as_float_vector(lower, dim=dim, what="the box's lower bounds")
        high = as_float_vector(upper, dim=dim, what="the box's upper bounds")
        if not (low <= high).all():
            raise InvalidInputError(
                f"the box is empty: lower bounds {low.tolist()} exceed "
                f"upper bounds {high.tolist()}",
                code="empty-domain",
            )
        _set(self, lower=low, upper=high, dim=dim)

    def project(self, x: Vectors) -> Vectors:
        """Return x clipped to the bounds."""
        low, high = self._bounds
        return x.clip(low, high)

    @cached_property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        """The bounds as one number each where they are: clipping is twice as fast.

        They stay arrays: numpy would make some of Python's numbers in every call.
        """
        low, high = np.unique(self.lower), np.unique(self.upper)
        if low.size == high.size == 1:
            return low.reshape(()), high.reshape(())
        return self.lower, self.upper


@dataclass(frozen=True, eq=False, init=False)
class Ball(_BoundedDomain):
    """||x - centre|| <= radius."""

    centre: Vector
    radius: float
    dim: int

    def __init__(
        self, centre: ArrayLike = 0.0, radius: float = np.nan, *, dim: int
    ) -> None:
        # A default for the radius as well, or the centre could have none; nan is
        # refused like any other radius that is not one.
        if not 0 < radius < np.inf:
            raise InvalidInputError(
                f"a ball's radius must be positive and finite, found {radius}",
                code="radius-not-positive",
            )
        check_cost_dimension(dim)
        middle = as_float_vector(centre, dim=dim, what="the ball's centre")
        _set(self, centre=middle, radius=float(radius), dim=dim)

    @cached_property
    def _width(self) -> float:
        """More than the norm of any point whose coordinates are at most 1."""
        return 1.01 * sqrt(self.dim)

    def project(self, x: Vectors) -> Vectors:
        """Pull every outside point straight to the sphere."""
        away = x - self.centre
        # Points surely inside would be multiplied by 1; most of an iteration's are.
        if np.abs(away).max(initial=0.0) * self._width < self.radius:
            return self.centre + away
        # Scaled first: the square of a far point would overflow.
        size = np.maximum(np.abs(away).max(axis=-1, keepdims=True), self.radius)
        norm = size * np.linalg.norm(away / size, axis=-1, keepdims=True)
        return self.centre + away * (self.radius / np.maximum(norm, self.radius))


@dataclass(frozen=True)
class Simplex(_BoundedDomain):
    """x >= 0 with coordinates that add up to `total`."""

    dim: int
    total: float = 1.0

    def __post_init__(self) -> None:
        check_cost_dimension(self.dim)
        if not 0 < self.total < np.inf:
            raise InvalidInputError(
                f"a simplex's total must be positive and finite, found {self.total}",
                code="total-not-positive",
            )

    def project(self, x: Vectors) -> Vectors:
        """Lower every coordinate by one amount, then cut at zero (Held et al. 1974)."""
        # The projection does not see a common shift; without it large x lose digits.
        low = x - x.max(axis=-1, keepdims=True)
        descending = -np.sort(-low, axis=-1)
        excess = np.cumsum(descending, axis=-1) - self.total
        rank = np.arange(1, self.dim + 1)
        # The support is the longest prefix whose smallest member stays positive.
        support = (descending * rank > excess).sum(axis=-1, keepdims=True)
        level = np.take_along_axis(excess, support - 1, axis=-1) / support
        return np.maximum(low - level, 0.0)


# Largest violation of a half-space by a projected point, and largest proved distance
# from the exact projection, both relative to the size of the point and of its move.
FEASIBLE, OPTIMAL = 1e-9, 1e-6
# Rounding of a violation, relative to the sizes of its terms.
ROUNDED = 2.0**-51
# A violation beyond any that the linear program's tolerance of 1e-7 explains.
SURELY_EMPTY = 1e-6
# Cycles of Dykstra's method, before no further digit is to be expected.
CYCLES = 1 << 12


@dataclass(frozen=True, eq=False, init=False)
class HalfSpaces:
    """normals @ x <= offsets: an intersection of half-spaces."""

    normals: FloatArray
    offsets: FloatArray

    def __init__(self, normals: ArrayLike, offsets: ArrayLike) -> None:
        rows = as_floats(normals, what="the half-spaces' normals")
        limits = as_floats(offsets, what="the half-spaces' offsets")
        if rows.ndim != 2 or limits.shape != rows.shape[:1] or rows.shape[1] < 1:
            raise InvalidInputError(
                "half-spaces need one normal vector and one offset each, found shapes "
                f"{rows.shape} and {limits.shape}",
                code="wrong-shape",
            )
        # Unit normals: linear programs and projections then compare like with like.
        length = np.linalg.norm(rows, axis=1)
        length[length == 0] = 1.0
        _set(self, normals=rows / length[:, None], offsets=limits / length)
        # The point that violates any half-space least; the violation is the last
        # variable. Where it is about the linear program's tolerance, a projection
        # tells a thin set from an empty one.
        least = _linear_program_minimum(
            np.append(np.zeros(self.dim), 1.0),
            np.hstack([self.normals, np.full((len(limits), 1), -1.0)]),
            self.offsets,
            [(None, None)] * self.dim + [(0.0, None)],
        )
        try:
            if least[-1] > SURELY_EMPTY * (1.0 + np.abs(least).max()):
                raise NumericalError(
                    f"they are {least[-1]} apart", code="constraints-apart"
                )
            self.project(least[:-1])
        except NumericalError:
            raise InvalidInputError(
                "the half-spaces have no point in common: increase an offset or leave "
                "out a half-space",
                code="empty-domain",
            ) from None

    @property
    def dim(self) -> int:
        """m, the length of a normal."""
        return int(self.normals.shape[1])

    @cached_property
    def is_bounded(self) -> bool:
        """Whether normals @ y <= 0 for y = 0 only (2m linear programs).

        Any other such y can be scaled to have a coordinate of 1 or -1.
        """
        zeros, cube = np.zeros(len(self.offsets)), (-1.0, 1.0)
        return not any(
            abs(
                _linear_program_minimum(sign * direction, self.normals, zeros, cube)
                @ direction
            )
            > 0.5
            for direction in np.eye(self.dim)
            for sign in (1.0, -1.0)
        )

    def project(self, x: Vectors) -> Vectors:
        """Return the nearest feasible point of every row."""
        rows = x.reshape(-1, self.dim)
        return np.stack([self._project_one(row) for row in rows]).reshape(x.shape)

    def _project_one(self, x: Vector) -> Vector:
        """Return the first candidate whose optimality conditions hold."""
        violation = self.normals @ x - self.offsets
        # What rounding may have made of 0 is no violation: no float64 is nearer.
        size = np.abs(self.normals) @ np.abs(x) + np.abs(self.offsets)
        if (violation <= ROUNDED * size).all():
            return x
        for multipliers in chain(
            _project_by_nnls(self.normals, violation), self._cycles(x)
        ):
            # In a set without interior, multipliers are large and cancel, and lose
            # digits; which half-spaces press against the point is still right, and
            # the projection is the nearest common point of their boundaries.
            pressed = multipliers > 0.0
            tight, *_ = np.linalg.lstsq(self.normals[pressed], violation[pressed])
            for move in (tight, multipliers @ self.normals):
                if self._is_nearest(x - move, x):
                    return x - move
        raise NumericalError(
            f"projection of {x.tolist()} onto the half-spaces did not converge: "
            "simplify the set, such as two that touch to an equation solved for one "
            "coordinate, or describe it as a box",
            code="projection-not-converged",
        )

    def _cycles(self, x: Vector) -> Iterator[Vector]:
        """Yield multipliers after 1, 2, 4, ... cycles of Dykstra's method.

        One cycle projects onto each half-space in turn and takes its own last move
        back first (Hildreth 1957).
        """
        y, multipliers = x.copy(), np.zeros(len(self.normals))
        for cycle in range(1, CYCLES + 1):
            for k, (normal, offset) in enumerate(
                zip(self.normals, self.offsets, strict=True)
            ):
                pressure = max(multipliers[k] + normal @ y - offset, 0.0)
                y += (multipliers[k] - pressure) * normal
                multipliers[k] = pressure
            if cycle & (cycle - 1) == 0:
                yield multipliers

    def _is_nearest(self, y: Vector, x: Vector) -> bool:
        """Say whether the optimality conditions prove that y is the projection of x.

        Let p be the exact projection onto the set, its offsets raised by at most
        FEASIBLE size where y is outside. With slack s = offsets - normals y >= 0,
        multipliers u >= 0 and the remainder r = x - y - normals' u, convexity gives
        ||y - p||^2 <= r'(p - y) + u's, hence ||y - p|| <= ||r|| + sqrt(u's).
        """
        if (x == y).all():  # outside, as x is
            return False
        size = np.abs(x).max() + np.abs(x - y).max()
        slack = (self.offsets - self.normals @ y) / size
        active = slack <= FEASIBLE
        if slack.min() < -FEASIBLE or not active.any():
            return False
        slack, normals = np.maximum(slack[active], 0.0), self.normals[active]
        pull = (x - y) / size
        try:
            # The last row keeps u's small: parallel half-spaces differ in slack only.
            multipliers, _ = scipy.optimize.nnls(
                np.vstack([normals.T, slack / OPTIMAL]), np.append(pull, 0.0)
            )
        except RuntimeError:  # too many steps
            return False
        missed = np.linalg.norm(pull - multipliers @ normals)
        gap = multipliers @ slack
        return bool(missed + np.sqrt(gap) <= OPTIMAL)


def _linear_program_minimum(
    costs: Vector, rows: FloatArray, limits: FloatArray, bounds: Any
) -> Vector:
    """Return the solution of a linear program that has one."""
    found = scipy.optimize.linprog(costs, A_ub=rows, b_ub=limits, bounds=bounds)
    if found.status != 0:
        raise NumericalError(
            f"a linear program over the half-spaces failed: {found.message}",
            code="linear-program-failed",
        )
    return as_floats(found.x, what="the solution")


def _project_by_nnls(normals: FloatArray, violation: Vector) -> Iterator[Vector]:
    """Yield multipliers of the least-distance problem (Lawson and Hanson, ch. 23).

    min ||z|| with G z >= h, for z = y - x, G = -normals, h = normals x - offsets.
    """
    # Scaling makes z of order one, so that NNLS's stopping test is meaningful.
    scale = np.abs(violation).max()
    system = np.vstack([-normals.T, violation / scale])
    target = np.zeros(len(system))
    target[-1] = 1.0
    with suppress(RuntimeError):  # too many steps
        multipliers, _ = scipy.optimize.nnls(system, target)
        rest = 1.0 - system[-1] @ multipliers
        yield multipliers * (scale / rest if rest > 0.0 else scale)


def _set(frozen: object, **fields: Any) -> None:
    for name, value in fields.items():
        object.__setattr__(frozen, name, value)
