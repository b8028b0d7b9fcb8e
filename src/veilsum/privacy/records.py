"""Distance between data sets that differ by an exchange of two records.

The planner uses this distance. A party sums s(record) over its records, in whole
numbers of agreed units. When honest parties exchange records, a of one for b of
another, all sums stay, and the parties' own numbers A move by

    ||A - B||^2 = 2 ||s(a) - s(b)||^2,

so the distance to plan for is sqrt(2) times the diameter of s over the columns' ranges.
Other reassignments of rows are chains of such exchanges; their distance is not planned
for here. Numbers are taken in their real scale, counts times units, each released
number once and with weight 1, as sigma is: on the wire a symmetric matrix is its plain
triangle, without roots of 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Literal, get_args

from veilsum.errors import InvalidInputError
from veilsum.models.rows import ONES, RowMeasures
from veilsum.numbers.units import UnitMeasure

Range = tuple[float, float]
Model = Literal["sum", "mean", "linear", "linear-with-errors"]

MODELS: tuple[Model, ...] = get_args(Model)
STATISTICS: dict[Model, str] = {
    "sum": "the record itself",
    "mean": "the record itself; dividing by the public number of records comes after",
    "linear": "x_i x_j for i <= j and x_i y; y^2 is not in it",
    "linear-with-errors": "x_i x_j for i <= j, x_i y, y^2, and y once more: all that a "
    "least-squares fit sums",
}
INTERCEPT = "; x includes the intercept"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDistance:
    """||A - B|| of exchanging two records between two honest parties, at most.

    Attributes:
        distance: no exchange within the ranges moves the released numbers further.
        exact: whether some exchange attains it; otherwise it is an upper bound.
        statistic: what is masked, s(record), in words.
    """

    distance: float
    exact: bool
    statistic: str


def record_exchange_distance(
    columns: Mapping[str, Range | UnitMeasure],
    *,
    model: Model,
    response: Range | UnitMeasure | None = None,
    intercept: bool = True,
) -> RecordDistance:
    """Return the distance of exchanging two records, from the ranges of their columns.

    Args:
        columns: for each column its least and greatest value, or how it is counted.
        model: what is summed over records; `sum` and `mean` the record itself,
            `linear` the statistics of a least-squares fit, `linear-with-errors` also
            the squared response that standard errors need.
        response: the range of y; the linear models need it, the others take none.
        intercept: whether a linear model has one. A fit then takes the middle of its
            range off a column that is so counted in fewer limbs, which depends on the
            unit. That moves records less; a range says no unit, so nothing is taken
            off here unless it is known how a column is counted.

    >>> found = record_exchange_distance({"age": (0, 100)}, model="mean")
    >>> found.exact, round(found.distance, 3)
    (True, 141.421)
    """
    if model not in MODELS:
        raise InvalidInputError(
            f"no model is called {model!r}; choose from {', '.join(MODELS)}",
            code="unknown-model",
        )
    measures, words = _check_record_columns(columns), STATISTICS[model]
    if model in {"sum", "mean"}:
        if response is not None:
            raise InvalidInputError(
                f"the model {model!r} has no response: list it among the columns",
                code="response-missing",
            )
        squared, exact = (
            sum(
                _record_range_width(_record_column_range(one)) ** 2 for one in measures
            ),
            True,
        )
    else:
        if response is None:
            raise InvalidInputError(
                f"the model {model!r} needs the range of its response, as in y:0:300",
                code="response-range-missing",
            )
        target = _record_column_measure(response, "the response")
        if intercept:
            words += INTERCEPT
            made = RowMeasures.of([ONES, *measures], target, intercept=0)
            centred = zip(columns.values(), measures, made.design[1:], strict=True)
            measures = [
                own if isinstance(bounds, UnitMeasure) else plain
                for bounds, plain, own in centred
            ]
            target = made.response if isinstance(response, UnitMeasure) else target
        ranges = [*map(_record_column_range, measures)]
        x = [(1.0, 1.0), *ranges] if intercept else ranges
        squared, exact = _record_distance_in_linear_fit(
            x, _record_column_range(target), model
        )
    return RecordDistance(distance=sqrt(2.0 * squared), exact=exact, statistic=words)


def _check_record_columns(
    columns: Mapping[str, Range | UnitMeasure],
) -> list[UnitMeasure]:
    if not columns:
        raise InvalidInputError(
            "found no columns; give each a range, as in age:0:100,bmi:10:60",
            code="no-columns",
        )
    return [_record_column_measure(bounds, name) for name, bounds in columns.items()]


def _record_column_measure(bounds: Range | UnitMeasure, name: str) -> UnitMeasure:
    """Return how a column is counted; from a range as a schema would."""
    if isinstance(bounds, UnitMeasure):
        return bounds
    low, high = float(bounds[0]), float(bounds[1])
    if not -float("inf") < low < high < float("inf"):
        raise InvalidInputError(
            f"the range of {name!r} must be two finite numbers, the least first, "
            f"found {low:g} to {high:g}",
            code="malformed-range",
        )
    return UnitMeasure.of(low, high)


def _record_column_range(measure: UnitMeasure) -> Range:
    """Return the least and the greatest of what is counted, the centre taken off."""
    ends = (measure.least - measure.centre, measure.most - measure.centre)
    return float(ends[0] * measure.unit), float(ends[1] * measure.unit)


def _record_distance_in_linear_fit(
    x: list[Range], y: Range, model: Model
) -> tuple[float, bool]:
    """Return a bound on ||s(a) - s(b)||^2 and whether it is attained.

    Entry by entry no difference exceeds the entry's range. If no column straddles zero,
    all entries are extreme together, at opposite corners (columns below zero count with
    their sign changed): the bound is attained. Otherwise lengths may bound better.
    """
    entries = [
        *map(_square_of_record_range, x),
        *(_product_of_record_ranges(r, q) for r, q in combinations(x, 2)),
    ]
    entries += [_product_of_record_ranges(r, y) for r in x]
    if model == "linear-with-errors":
        entries += [_square_of_record_range(y), y]
    by_entry = sum(_record_range_width(entry) ** 2 for entry in entries)
    if not any(low < 0 < high for low, high in [*x, y]):
        return by_entry, True
    return min(by_entry, _record_distance_by_length(x, y, model)), False


def _record_distance_by_length(x: list[Range], y: Range, model: Model) -> float:
    """Bound ||s(a)||^2 + ||s(b)||^2 - 2 s(a)'s(b) by the longest s.

    With t = x_a'x_b and q = y_a y_b, s(a)'s(b) is at least t^2 / 2 + t q >= -q^2 / 2;
    with y^2 and y in s too it is t^2 / 2 + t q + q^2 + q >= q^2 / 2 + q >= -1 / 2.
    """
    squares, y2 = (
        [_square_of_record_range(r)[1] for r in x],
        _square_of_record_range(y)[1],
    )
    longest = (sum(squares) ** 2 + sum(one**2 for one in squares)) / 2.0
    longest += sum(squares) * y2
    if model == "linear-with-errors":
        return 2.0 * (longest + y2**2 + y2) + 1.0
    return 2.0 * longest + y2**2


def _record_range_width(bounds: Range) -> float:
    return bounds[1] - bounds[0]


def _product_of_record_ranges(first: Range, second: Range) -> Range:
    corners = [a * b for a in first for b in second]
    return min(corners), max(corners)


def _square_of_record_range(bounds: Range) -> Range:
    low, high = bounds
    ends = (low * low, high * high)
    return (0.0 if low < 0 < high else min(ends)), max(ends)
