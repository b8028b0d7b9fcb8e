"""Checks of what users give as functions, made once and before anything is masked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from veilsum.costs.remainders import checked_gradient
from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Vector

Gradient = Callable[[Vector], Vector]
Value = Callable[[Vector], float]

# Where value and gradient are compared: so far from the anchor. A forgotten term shows
# best far away; near by, functions are defined that are not everywhere.
RADII = (1.0, 0.1, 0.01, 0.0)
# Half the width of a central difference. Cutting off the third derivative costs about
# 1e-8 of a smooth slope, rounding about 1e-12 of the value.
WIDTH = 1e-4
# A slope may be off by this much of the gradient; a wrong formula is off by far more.
TOLERANCE = 1e-5
# A value is a sum of many terms, each of them rounded.
ROUNDING = 1e3 * float(np.finfo(np.float64).eps)
# Public, and the same for all: where costs are checked is no secret.
SEED = 2017


@dataclass(frozen=True)
class _Comparison:
    """One slope, by both functions, and how far apart rounding could put the two."""

    radius: float
    by_value: float
    by_gradient: float
    allowed: float

    @property
    def gap(self) -> float:
        return abs(self.by_value - self.by_gradient)

    @property
    def relative(self) -> float:
        return self.gap / max(abs(self.by_value), abs(self.by_gradient))


def slope_at(gradient: Gradient, anchor: Vector) -> Vector:
    """Return grad h(x0)."""
    # A copy: some functions hand out one and the same array every time.
    return checked_gradient(gradient, anchor).copy()


def check_value(gradient: Gradient, value: Value, anchor: Vector) -> None:
    """Refuse a gradient that is not the value's, by central differences near x0."""
    _check_one_number(value(anchor.copy()))
    checkable = list(_comparisons(gradient, value, anchor))
    if not checkable:
        raise InvalidInputError(
            "value and gradient could not be compared: at no point that was tried near "
            "the anchor do both give finite numbers; choose another anchor, or pass "
            "check=False"
        )
    for seen in checkable:
        if not seen.gap <= seen.allowed:
            raise InvalidInputError(
                "the gradient is not that of the value: in one direction, at "
                f"{seen.radius:g} from the anchor, the value rises by "
                f"{seen.by_value:.9g} and the gradient says {seen.by_gradient:.9g}, a "
                f"relative error of {seen.relative:.2g}; correct one of them, or pass "
                "check=False"
            )


def _comparisons(
    gradient: Gradient, value: Value, anchor: Vector
) -> Iterator[_Comparison]:
    """Yield comparisons at points where both functions are defined."""
    size = max(1.0, float(np.linalg.norm(anchor)))
    stream = np.random.default_rng(SEED)
    for radius in RADII:
        away, along = (_direction(stream, anchor.size) for _ in range(2))
        point = anchor + radius * size * away
        try:
            # Outside its domain a function may warn, raise or return nan.
            with np.errstate(all="ignore"):
                found = _compare(gradient, value, point, along, radius * size)
        except (ArithmeticError, ValueError):
            continue
        yield found


def _compare(
    gradient: Gradient, value: Value, point: Vector, along: Vector, radius: float
) -> _Comparison:
    slope = checked_gradient(gradient, point)
    width = WIDTH * max(1.0, float(np.linalg.norm(point)))
    narrow, size = _difference(value, point, width * along, width)
    wide, _ = _difference(value, point, 2.0 * width * along, 2.0 * width)
    smooth = TOLERANCE * (float(np.linalg.norm(slope)) + abs(narrow))
    allowed = smooth + abs(wide - narrow) + ROUNDING * size / width
    return _Comparison(radius, narrow, float(slope @ along), allowed)


def _difference(
    value: Value, point: Vector, step: Vector, width: float
) -> tuple[float, float]:
    """Return the value's slope along a step, and the size of the values."""
    ends = [float(np.asarray(value(x)).item()) for x in (point + step, point - step)]
    if not np.isfinite(ends).all():
        raise ArithmeticError("the value is not defined on both sides of the point")
    return (ends[0] - ends[1]) / (2.0 * width), max(map(abs, ends))


def _check_one_number(found: object) -> None:
    shape = np.shape(np.asarray(found))
    if shape not in {(), (1,)}:
        raise InvalidInputError(f"the value must be one number, found shape {shape}")


def _direction(stream: np.random.Generator, dim: int) -> Vector:
    drawn = stream.standard_normal(dim)
    return np.asarray(drawn / np.linalg.norm(drawn))
