"""X, the one public set all parties search: projection, membership, boundedness."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy
from numpy.typing import ArrayLike

from veilsum.costs.bases import check_dimension
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.numbers.arrays import (
    FloatArray,
    Vector,
    Vectors,
    as_floats,
    as_vector,
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
        check_dimension(self.dim)

    @property
    def is_bounded(self) -> bool:
        """Never."""
        return False

    def project(self, x: Vectors) -> Vectors:
        """Return x: nothing is outside."""
        return x


class _Bounded:
    """What every compact set says of itself."""

    @property
    def is_bounded(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True, eq=False, init=False)
class Box(_Bounded):
    """lower <= x <= upper, coordinate by coordinate; one number stands for all.

    >>> Box(-1.0, 1.0, dim=2).project(np.array([3.0, 0.5])).tolist()
    [1.0, 0.5]
    """

    lower: Vector
    upper: Vector
    dim: int

    def __init__(self, lower: ArrayLike, upper: ArrayLike, *, dim: int) -> None:
        check_dimension(dim)
        low = as_vector(lower, dim=dim, what="the box's lower bounds")
        high = as_vector(upper, dim=dim, what="the box's upper bounds")
        if not (low <= high).all():
            raise InvalidInputError(
                f"the box is empty: lower bounds {low.tolist()} exceed "
                f"upper bounds {high.tolist()}"
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
class Ball(_Bounded):
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
                f"a ball's radius must be positive and finite, found {radius}"
            )
        check_dimension(dim)
        middle = as_vector(centre, dim=dim, what="the ball's centre")
        _set(self, centre=middle, radius=float(radius), dim=dim)

    def project(self, x: Vectors) -> Vectors:
        """Pull every outside point straight to the sphere."""
        away = x - self.centre
        # Scaled first: the square of a far point would overflow.
        size = np.maximum(np.abs(away).max(axis=-1, keepdims=True), self.radius)
        norm = size * np.linalg.norm(away / size, axis=-1, keepdims=True)
        return self.centre + away * (self.radius / np.maximum(norm, self.radius))


@dataclass(frozen=True)
class Simplex(_Bounded):
    """x >= 0 with coordinates that add up to `total`."""

    dim: int
    total: float = 1.0

    def __post_init__(self) -> None:
        check_dimension(self.dim)
        if not 0 < self.total < np.inf:
            raise InvalidInputError(
                f"a simplex's total must be positive and finite, found {self.total}"
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


# A projected point may be outside by this much of the distances at hand.
FEASIBLE = 1e-9


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
                f"{rows.shape} and {limits.shape}"
            )
        # Unit normals: linear programs and projections then compare like with like.
        length = np.linalg.norm(rows, axis=1)
        length[length == 0] = 1.0
        _set(self, normals=rows / length[:, None], offsets=limits / length)
        if self._extreme(np.zeros(self.dim)) is None:
            raise InvalidInputError("the half-spaces have no point in common")

    @property
    def dim(self) -> int:
        """m, the length of a normal."""
        return int(self.normals.shape[1])

    @cached_property
    def is_bounded(self) -> bool:
        """Whether every coordinate is bounded both ways (2m linear programs)."""
        directions = np.vstack([np.eye(self.dim), -np.eye(self.dim)])
        extremes = [self._extreme(direction) for direction in directions]
        return all(value is not None and np.isfinite(value) for value in extremes)

    def _extreme(self, direction: Vector) -> float | None:
        """Return max direction . x: inf if unbounded, None if the set is empty."""
        found = scipy.optimize.linprog(
            -direction, A_ub=self.normals, b_ub=self.offsets, bounds=(None, None)
        )
        if found.status in {0, 2, 3}:
            return {0: -(found.fun or 0.0), 2: None, 3: np.inf}[found.status]
        raise NumericalError(
            f"a linear program over the half-spaces failed: {found.message}"
        )

    def project(self, x: Vectors) -> Vectors:
        """Return the nearest feasible point of every row."""
        rows = x.reshape(-1, self.dim)
        return np.stack([self._project_one(row) for row in rows]).reshape(x.shape)

    def _project_one(self, x: Vector) -> Vector:
        """Solve the least-distance problem through NNLS (Lawson and Hanson, ch. 23).

        min ||z|| with G z >= h, for z = y - x, G = -normals, h = normals x - offsets.
        """
        violation = self.normals @ x - self.offsets
        if (violation <= 0).all():
            return x
        # Scaling makes z of order one, so that NNLS's stopping test is meaningful.
        scale = np.abs(violation).max()
        system = np.vstack([-self.normals.T, violation / scale])
        target = np.zeros(self.dim + 1)
        target[-1] = 1.0
        multipliers, _ = scipy.optimize.nnls(system, target)
        residual = target - system @ multipliers
        # Where the set has no room, residual[-1] is mostly rounding; which half-spaces
        # press against the point is still right, and it is their nearest common point.
        pressed = multipliers > 0.0
        tight, *_ = np.linalg.lstsq(self.normals[pressed], violation[pressed])
        moves = [tight]
        if residual[-1] > 0.0:
            moves.append(scale * residual[:-1] / residual[-1])
        return self._nearest([x - move for move in moves], x, scale)

    def _nearest(self, points: list[Vector], x: Vector, scale: float) -> Vector:
        """Return the nearest of those points that are in the set, but for rounding."""
        room = FEASIBLE * (scale + np.abs(x).max())
        inside = [y for y in points if (self.normals @ y - self.offsets).max() <= room]
        if not inside:
            raise NumericalError("projection onto the half-spaces did not converge")
        return min(inside, key=lambda y: float(np.linalg.norm(y - x)))


def _set(frozen: object, **fields: Any) -> None:
    """Fill a frozen value from its own constructor."""
    for name, value in fields.items():
        object.__setattr__(frozen, name, value)
