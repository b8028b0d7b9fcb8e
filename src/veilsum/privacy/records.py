"""How far a data set moves when two records change places: the planner's distance.

A party's coefficients are the sum of s(record) over its records. Exchanging a record a
of one honest party for a record b of another keeps the honest sum and moves the
coefficients by

    ||A - B||^2 = 2 ||s(a) - s(b)||^2,

so the distance to plan for is sqrt(2) times the diameter of s over the columns' ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Literal, get_args

from veilsum.errors import InvalidInputError

Range = tuple[float, float]
Model = Literal["sum", "mean", "linear", "linear-with-errors"]

MODELS: tuple[Model, ...] = get_args(Model)
STATISTICS: dict[Model, str] = {
    "sum": "the record itself",
    "mean": "the record itself; dividing by the public number of records comes after",
    "linear": "[svec(x x'), x y] with x including the intercept, whose entry in x x' "
    "is the number of records; y^2 is not in it",
    "linear-with-errors": "[svec(x x'), x y, y^2] with x including the intercept, "
    "whose entry in x x' is the number of records",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDistance:
    """||A - B|| of exchanging two records between two honest parties, at most.

    Attributes:
        distance: no exchange within the ranges moves the coefficients further.
        exact: whether some exchange attains it; otherwise it is an upper bound.
        statistic: what is masked, s(record), in words.
    """

    distance: float
    exact: bool
    statistic: str


def record_exchange_distance(
    columns: Mapping[str, Range], *, model: Model, response: Range | None = None
) -> RecordDistance:
    """Return the distance of exchanging two records, from the ranges of their columns.

    Args:
        columns: for each column its least and greatest value.
        model: what is summed over records; `sum` and `mean` the record itself,
            `linear` the statistics of a least-squares fit, `linear-with-errors` also
            the squared response that standard errors need.
        response: the range of y; the linear models need it, the others take none.

    >>> found = record_exchange_distance({"age": (0, 100)}, model="mean")
    >>> found.exact, round(found.distance, 3)
    (True, 141.421)
    """
    if model not in MODELS:
        raise InvalidInputError(
            f"no model is called {model!r}; choose from {', '.join(MODELS)}"
        )
    ranges = _checked(columns)
    if model in {"sum", "mean"}:
        _refuse_response(response, model)
        squared, exact = sum(_width(r) ** 2 for r in ranges), True
    else:
        squared, exact = _linear_diameter(ranges, _given(response, model), model)
    return RecordDistance(
        distance=sqrt(2.0 * squared), exact=exact, statistic=STATISTICS[model]
    )


def _checked(columns: Mapping[str, Range]) -> list[Range]:
    if not columns:
        raise InvalidInputError(
            "found no columns; give each a range, as in age:0:100,bmi:10:60"
        )
    return [_ordered(bounds, name) for name, bounds in columns.items()]


def _ordered(bounds: Range, name: str) -> Range:
    low, high = float(bounds[0]), float(bounds[1])
    if not -float("inf") < low < high < float("inf"):
        raise InvalidInputError(
            f"the range of {name!r} must be two finite numbers, the least first, "
            f"found {low:g} to {high:g}"
        )
    return low, high


def _refuse_response(response: Range | None, model: Model) -> None:
    if response is not None:
        raise InvalidInputError(
            f"the model {model!r} has no response: list it among the columns"
        )


def _given(response: Range | None, model: Model) -> Range:
    if response is None:
        raise InvalidInputError(
            f"the model {model!r} needs the range of its response, as in y:0:300"
        )
    return _ordered(response, "the response")


def _linear_diameter(
    ranges: list[Range], response: Range, model: Model
) -> tuple[float, bool]:
    """Return a bound on ||s(a) - s(b)||^2 and whether it is attained.

    Entry by entry no difference exceeds the entry's range. If no column straddles zero,
    all entries are extreme together, at opposite corners (columns below zero count with
    their sign changed): the bound is attained. Otherwise lengths may bound better.
    """
    z = [(1.0, 1.0), *ranges]
    by_entry = _sum_of_squared_ranges(z, response)
    by_length = _sum_of_squared_lengths(z, response, model)
    if model == "linear-with-errors":
        by_entry += _width(_square(response)) ** 2
    straddles = any(low < 0 < high for low, high in [*ranges, response])
    return (min(by_entry, by_length), False) if straddles else (by_entry, True)


def _sum_of_squared_ranges(z: list[Range], response: Range) -> float:
    squares = sum(_width(_square(r)) ** 2 for r in z)
    # svec writes each off-diagonal product once, times sqrt 2.
    products = sum(2.0 * _width(_product(r, q)) ** 2 for r, q in combinations(z, 2))
    return squares + products + sum(_width(_product(r, response)) ** 2 for r in z)


def _sum_of_squared_lengths(z: list[Range], response: Range, model: Model) -> float:
    """Bound ||s(a)||^2 + ||s(b)||^2 - 2 s(a)'s(b) by the longest s.

    With t = x_a'x_b and q = y_a y_b, s(a)'s(b) = t^2 + t q >= -q^2 / 4; with y^2 in s
    it is t^2 + t q + q^2 >= 0.
    """
    x2 = sum(_square(r)[1] for r in z)
    y2 = _square(response)[1]
    longest = x2**2 + x2 * y2
    if model == "linear-with-errors":
        return 2.0 * (longest + y2**2)
    return 2.0 * longest + y2**2 / 2.0


def _width(bounds: Range) -> float:
    return bounds[1] - bounds[0]


def _product(first: Range, second: Range) -> Range:
    """Return the range of a product of two separate numbers."""
    corners = [a * b for a in first for b in second]
    return min(corners), max(corners)


def _square(bounds: Range) -> Range:
    low, high = bounds
    ends = (low * low, high * high)
    return (0.0 if low < 0 < high else min(ends)), max(ends)
