"""Predictive accuracy of a known model on new rows, from sums over them.

Coefficients are public, so each party predicts its own rows: one function of the row,
in the same bits on every machine (`ModelPredictor`). Predictions fall into agreed bins.
Counts by bin measure how well predictions separate yes from no (`Discrimination`) and
order survival times (`Concordance`). Bins lose detail: each number comes with the least
and the largest value that rows in such bins can have.

A public rule on a row's own numbers assigns folds for cross-validation (`folds`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import inf, isfinite, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.models import glm
from veilsum.models.families import Family
from veilsum.models.family_names import FAMILIES, canonical_family_name
from veilsum.models.glm import GlmScales
from veilsum.models.least_squares import LeastSquaresCounting
from veilsum.models.plausible import check_plausible_total
from veilsum.models.rows import PerRow, RowMeasures, Rows
from veilsum.numbers.arrays import Array, FloatArray, Vector, listed_names
from veilsum.numbers.layout import (
    NumberLayout,
    layout_number,
    layout_vector,
    range_within_bits,
)
from veilsum.numbers.shapes import Float, Int
from veilsum.numbers.units import (
    Integers,
    UnitMeasure,
    power_of_two_unit,
    sum_bits,
    total_of_counts,
)

# More bins than this nobody draws, and rows in each of them would be few.
MOST_EDGES = 200
# And more folds nobody deals.
MOST_FOLDS = 20
# Bits that are kept of a chance, of a prediction, and of an error beside its range.
CHANCE_BITS = 40

# Sums of errors by their key, two of each.
SUMS = {
    "responses": ("responses", "squared responses"),
    "predictions": ("predictions", "squared predictions"),
    "errors": ("squared errors", "absolute errors"),
}

Places = Int[Array[np.int64], " n"]
ByBin = Int[Array[np.int64], " bins"]
ByCell = Int[Array[np.int64], "times bins"]


def model_families_by_link() -> Mapping[str, Family]:
    """Return the families whose coefficients may be given: what matters is the link."""
    return {
        name: family
        for name, (family, _) in FAMILIES.items()
        if not family.is_choice and not family.estimates_alpha
    }


def family_with_link(name: str) -> Family:
    """Return the family whose link turns predictors into means."""
    found, known = canonical_family_name(name), model_families_by_link()
    if found not in known:
        raise InvalidInputError(
            f"predictions of the family {name!r} are not known: choose from "
            f"{', '.join(known)}; a negative binomial model predicts as poisson does",
            code="unknown-family",
        )
    return known[found]


def link_name_of_family(family: Family) -> str:
    return next(name for name, one in model_families_by_link().items() if one == family)


@dataclass(frozen=True)
class ModelPredictor:
    """A model with known coefficients; all of it is public."""

    family: Family
    measures: RowMeasures
    intercept: int | None
    coefficients: tuple[float, ...]

    @classmethod
    def of(
        cls,
        family: Family,
        measures: RowMeasures,
        *,
        names: Sequence[str],
        intercept: int | None,
        coefficients: Mapping[str, float],
    ) -> ModelPredictor:
        """Return the model with these coefficients, by column.

        Raises:
            InvalidInputError: some are missing, unknown, no numbers, or so large that
                agreed ranges let a row have no mean.
        """
        lacking = [name for name in names if name not in coefficients]
        unknown = [name for name in coefficients if name not in names]
        if lacking or unknown:
            told = [f"{listed_names(lacking)} has none"] if lacking else []
            told += [f"{listed_names(unknown)} is no column of it"] if unknown else []
            raise InvalidInputError(
                f"coefficients must name every column of the formula once, which are "
                f"{listed_names(list(names))}: {', and '.join(told)}",
                code="coefficients-not-columns",
            )
        values = tuple(float(coefficients[name]) for name in names)
        if not all(map(isfinite, values)):
            raise InvalidInputError(
                f"coefficients must be finite numbers, found "
                f"{listed_names([repr(one) for one in values])}",
                code="coefficients-not-finite",
            )
        made = cls(family, measures, intercept, values)
        if not made._scales.surely_inside(np.append(made._point, 0.0), None):
            low, high = made.ends
            raise InvalidInputError(
                "with these coefficients agreed ranges allow linear predictors from "
                f"{low:.3g} to {high:.3g}, and for some of these a {family.name} model "
                "has no mean, or one far beyond the response's agreed range: check "
                "the coefficients, or agree on closer ranges",
                code="mean-undefined",
            )
        return made

    @cached_property
    def _scales(self) -> GlmScales:
        return GlmScales(self.family, self.measures, self.intercept)

    @cached_property
    def _point(self) -> Vector:
        """The coefficients of whole numbers, centres taken off."""
        pairs = zip(self.coefficients, self.measures.design, strict=True)
        parts = [Fraction(one) * of.unit for one, of in pairs]
        if self.intercept is not None:
            shifts = zip(parts, self.measures.design, strict=True)
            # The intercept counts ones, and takes what centres took off.
            parts[self.intercept] += sum(
                (one * of.centre for one, of in shifts), Fraction(0)
            )
        return np.array([float(one) for one in parts])

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Between which linear predictors are, by agreed ranges alone."""
        pairs = zip(self.coefficients, self.measures.design, strict=True)
        parts = [
            sorted(Fraction(one) * of.unit * k for k in (of.least, of.most))
            for one, of in pairs
        ]
        low, high = (float(sum(one[k] for one in parts)) for k in (0, 1))
        slack = glm.SLACK * sum(float(max(map(abs, one))) for one in parts)
        return low - slack, high + slack

    @cached_property
    def predictor_measure(self) -> UnitMeasure:
        low, high = self.ends
        return UnitMeasure.of(low, high if high > low else low + 1.0)

    def predictors(self, rows: Rows) -> PerRow:
        blocks = glm.glm_row_blocks(self.measures, rows)
        found = [one.predictor(self._point) for one in blocks]
        return np.concatenate(found) if found else np.zeros(0)

    def means(self, predictors: PerRow) -> PerRow:
        return self.family.inverse_link(predictors)

    def responses(self, rows: Rows) -> PerRow:
        blocks = glm.glm_row_blocks(self.measures, rows)
        found = [one.response for one in blocks]
        return np.concatenate(found) if found else np.zeros(0)


def predictor_bin_edges(
    given: Sequence[float], low: float = -inf, high: float = inf
) -> Vector:
    """Return agreed edges that ascend, strictly between two ends.

    >>> predictor_bin_edges([0.1, 0.5], 0.0, 1.0).tolist()
    [0.1, 0.5]
    """
    found = np.array([float(one) for one in given])
    if not 1 <= found.size <= MOST_EDGES:
        raise InvalidInputError(
            f"edges must be 1 to {MOST_EDGES} numbers, found {found.size}",
            code="edges-out-of-range",
        )
    inside = (found > low) & (found < high)
    if not (np.isfinite(found) & inside).all() or not (np.diff(found) > 0.0).all():
        ends = f" between {low:g} and {high:g}" if isfinite(high) else ""
        raise InvalidInputError(
            f"edges must ascend, each a number{ends}, found {list(given)}",
            code="edges-not-ascending",
        )
    return found


def bins_of_values(edges: Vector, values: PerRow) -> Places:
    return np.searchsorted(edges, values, side="right")


def predictor_bin_labels(edges: Vector) -> tuple[str, ...]:
    """Return each bin by its ends.

    >>> predictor_bin_labels(np.array([0.1, 0.5]))
    ('below 0.1', '0.1 to below 0.5', '0.5 or more')
    """
    words = [f"{one:g}" for one in edges.tolist()]
    between = (f"{a} to below {b}" for a, b in pairwise(words))
    return (f"below {words[0]}", *between, f"{words[-1]} or more")


def sums_by_bin(values: PerRow, power: int, places: Places, n_bins: int) -> list[int]:
    whole = np.rint(values * 2.0**power)
    bits = power + 1
    return [total_of_counts(whole[places == k], bits) for k in range(n_bins)]


# Yes or no


class BinBoundedNumber(NamedTuple):
    """A number that bins leave open, and an interval for chance.

    Attributes:
        value: with ties within a bin counted half.
        least: what it is at least, however rows lie within bins.
        largest: what it is at most.
        standard_error: of the value, as that of rows known by bin alone.
    """

    value: float
    least: float
    largest: float
    standard_error: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of a normal interval, within 0 and 1."""
        away = float(scipy.special.ndtri(0.5 + level / 2.0)) * self.standard_error
        return max(self.value - away, 0.0), min(self.value + away, 1.0)


class CalibrationOfModel(NamedTuple):
    """A test of observed against predicted numbers."""

    statistic: float
    degrees: int
    p: float


@dataclass(frozen=True)
class Discrimination:
    """Rows with and without an event, by bins of their predicted chance.

    Attributes:
        edges: of the bins; a row is in the last bin whose edge it has reached.
        predicted: by bin, the sum of predicted chances.
        squared: the sum over all rows of (y - p)^2: it knows nothing of bins.
    """

    edges: Vector
    events: ByBin
    others: ByBin
    predicted: Float[FloatArray, " bins"]
    squared: float

    @property
    def n_rows(self) -> int:
        return int(self.rows.sum())

    @property
    def rows(self) -> ByBin:
        return self.events + self.others

    @property
    def n_events(self) -> int:
        return int(self.events.sum())

    @cached_property
    def auc(self) -> BinBoundedNumber:
        """The area under the curve: how often yes is predicted above no.

        Its error is that of DeLong, DeLong and Clarke-Pearson for scores known by bin.
        """
        yes, no = self.events.astype(np.float64), self.others.astype(np.float64)
        n_yes, n_no = yes.sum(), no.sum()
        if not n_yes or not n_no:
            return BinBoundedNumber(nan, nan, nan, nan)
        below = np.concatenate([[0.0], np.cumsum(no)[:-1]])
        above = n_yes - np.cumsum(yes)
        least = float(yes @ below / (n_yes * n_no))
        value = float(yes @ (below + no / 2.0) / (n_yes * n_no))
        largest = float(yes @ (below + no) / (n_yes * n_no))
        error = nan
        if n_yes > 1 and n_no > 1:
            of_yes = (below + no / 2.0) / n_no - value
            of_no = (above + yes / 2.0) / n_yes - value
            variance = yes @ of_yes**2 / ((n_yes - 1.0) * n_yes)
            variance += no @ of_no**2 / ((n_no - 1.0) * n_no)
            error = sqrt(float(variance))
        return BinBoundedNumber(value, least, largest, error)

    @property
    def brier(self) -> float:
        """The mean of (y - p)^2, of rows themselves and not of bins."""
        return self.squared / self.n_rows

    @property
    def scaled_brier(self) -> float:
        """1 less Brier's score over that of everybody's share of events; nan if 0."""
        share = self.n_events / self.n_rows
        spoken = share * (1.0 - share)
        return 1.0 - self.brier / spoken if spoken else nan

    @property
    def expected(self) -> float:
        return float(self.predicted.sum())

    def thresholds(self) -> list[dict[str, float]]:
        """Return one line for each edge: what holds if a row that reaches it is a yes.

        What there is not is nan: of nobody above an edge, nobody is right.
        """
        lines = []
        n_yes, n_no = self.n_events, self.n_rows - self.n_events
        for k, edge in enumerate(self.edges.tolist(), start=1):
            hit, false = int(self.events[k:].sum()), int(self.others[k:].sum())
            missed, right = n_yes - hit, n_no - false
            lines.append(
                {
                    "threshold": edge,
                    "true_positives": hit,
                    "false_positives": false,
                    "false_negatives": missed,
                    "true_negatives": right,
                    "sensitivity": _share_of_model_rows(hit, n_yes),
                    "specificity": _share_of_model_rows(right, n_no),
                    "ppv": _share_of_model_rows(hit, hit + false),
                    "npv": _share_of_model_rows(right, right + missed),
                }
            )
        return lines

    def roc(self) -> tuple[Vector, Vector]:
        """Return false positives' and true positives' shares, from (0, 0) to (1, 1)."""
        n_yes, n_no = self.n_events, self.n_rows - self.n_events
        yes = np.concatenate([[0], np.cumsum(self.events[::-1])])
        no = np.concatenate([[0], np.cumsum(self.others[::-1])])
        with np.errstate(invalid="ignore"):
            return no / np.float64(n_no), yes / np.float64(n_yes)

    def calibration(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return for each bin that has rows what was predicted, and what happened.

        Intervals are Wilson's.
        """
        z = float(scipy.special.ndtri(0.5 + level / 2.0))
        lines = []
        for label, n, yes, chance in zip(
            predictor_bin_labels(self.edges),
            self.rows.tolist(),
            self.events.tolist(),
            self.predicted.tolist(),
            strict=True,
        ):
            if not n:
                continue
            share = yes / n
            middle = (share + z * z / (2 * n)) / (1.0 + z * z / n)
            away = sqrt(share * (1.0 - share) / n + (z / (2 * n)) ** 2)
            away *= z / (1.0 + z * z / n)
            lines.append(
                {
                    "bin": label,
                    "rows": n,
                    "events": yes,
                    "predicted": chance / n,
                    "observed": share,
                    "low": max(middle - away, 0.0),
                    "high": min(middle + away, 1.0),
                }
            )
        return lines

    def hosmer_lemeshow(self, *, fitted: bool = False) -> CalibrationOfModel:
        """Return the test of observed against predicted numbers over the bins.

        Args:
            fitted: whether the coefficients were found from these same rows: that takes
                two degrees of freedom.
        """
        kept = self.rows > 0
        n, yes, chance = (
            one[kept].astype(np.float64)
            for one in (self.rows, self.events, self.predicted)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = (yes - chance) ** 2 / (chance * (1.0 - chance / n))
        # Where nothing was in doubt and nothing else happened, nothing is wrong.
        found = float(np.where(yes == chance, 0.0, parts).sum())
        degrees = len(n) - 2 * fitted
        p = float(scipy.special.chdtrc(degrees, found)) if degrees > 0 else nan
        return CalibrationOfModel(found, degrees, p)


def _share_of_model_rows(part: int, whole: int) -> float:
    return part / whole if whole else nan


# Numbers


@dataclass(frozen=True)
class ModelErrors:
    """Sums of responses, of what was predicted, and of how far apart they are.

    Attributes:
        absolute: the sum of |y - prediction|; None where it was not asked for.
    """

    n_rows: int
    response: Fraction
    response_square: Fraction
    predicted: Fraction
    predicted_square: Fraction
    squared: Fraction
    absolute: Fraction | None = None

    @property
    def about_mean(self) -> Fraction:
        return self.response_square - self.response**2 / self.n_rows

    @property
    def r_squared(self) -> float:
        """1 less the sum of squared errors over that about the mean; below 0 if bad."""
        whole = self.about_mean
        return float(1 - self.squared / whole) if whole > 0 else nan

    @property
    def rmse(self) -> float:
        return sqrt(self.squared / self.n_rows)

    @property
    def mae(self) -> float | None:
        return None if self.absolute is None else float(self.absolute / self.n_rows)

    @property
    def bias(self) -> float:
        """Mean of predictions less responses."""
        return float((self.predicted - self.response) / self.n_rows)

    @property
    def calibration(self) -> tuple[float, float]:
        """Intercept and slope of responses on predictions, by least squares."""
        n = self.n_rows
        # 2 y m = y^2 + m^2 - (y - m)^2
        both = (self.response_square + self.predicted_square - self.squared) / 2
        about = self.predicted_square - self.predicted**2 / n
        if about <= 0:
            return nan, nan
        slope = (both - self.predicted * self.response / n) / about
        return float((self.response - slope * self.predicted) / n), float(slope)


@dataclass(frozen=True)
class ModelErrorSums:
    """In what units errors are summed; all of it follows from the agreement."""

    predictor: ModelPredictor

    @cached_property
    def _reach(self) -> tuple[float, float]:
        """Largest absolute response, and largest absolute prediction."""
        low, high = self.predictor.ends
        limits = self.predictor.family.limits(self.predictor._scales.agreed)  # noqa: SLF001
        inside = np.array([max(low, limits.low), min(high, limits.high)])
        means = np.abs(self.predictor.means(inside))
        of = self.predictor.measures.response
        return max(abs(of.low), abs(of.high), 1e-300), float(means.max())

    @cached_property
    def units(self) -> tuple[Fraction, ...]:
        """Units of y, y^2, predictions, their squares, squared and absolute errors."""
        y, m = self._reach
        sizes = (y, y * y, m, m * m, (y + m) ** 2, y + m)
        return tuple(power_of_two_unit(max(one, 1e-300), CHANCE_BITS) for one in sizes)

    @cached_property
    def layout(self) -> NumberLayout:
        """Sums of responses, predictions and errors, and the number of rows."""
        units, bits = self.units, sum_bits([CHANCE_BITS + 2])
        pairs = zip(SUMS, (units[:2], units[2:4], units[4:]), strict=True)
        ranges = [range_within_bits(CHANCE_BITS + 1)] * 2
        sums = (layout_vector(*pair, bits, ranges) for pair in pairs)
        return NumberLayout((*sums, layout_number("rows")))

    def vector(self, response: PerRow, mean: PerRow) -> Integers:
        """Return what rows add up to, each number of a row rounded by itself."""
        away = response - mean
        columns = (
            *(response, response * response, mean, mean * mean),
            *(away * away, np.abs(away)),
        )
        found = []
        for values, unit in zip(columns, self.units, strict=True):
            # A power of two: neither operation rounds.
            scale = float(unit.denominator) / float(unit.numerator)
            found.append(total_of_counts(np.rint(values * scale), CHANCE_BITS + 2))
        return np.array([*found, len(response)], dtype=object)

    def check(self, parts: Mapping[str, Any]) -> None:
        """Refuse a total that no rows within the agreed ranges have."""
        most = parts["rows"] * ((1 << CHANCE_BITS) + 1)
        for key, names in SUMS.items():
            for name, one in zip(names, parts[key], strict=True):
                check_plausible_total(name, int(one), -most if name == key else 0, most)

    def errors(self, parts: Mapping[str, Any]) -> ModelErrors:
        sums = (int(one) for key in SUMS for one in parts[key])
        pairs = zip(sums, self.units, strict=True)
        return ModelErrors(parts["rows"], *(one * unit for one, unit in pairs))


# How long rows go on


@dataclass(frozen=True)
class Concordance:
    """Rows by when they end, with the event or without, and by bin of their risk.

    The last time is where looking ends: what happens later is not seen.
    """

    events: ByCell
    censored: ByCell

    @property
    def n_rows(self) -> int:
        return int(self.events.sum() + self.censored.sum())

    @property
    def n_events(self) -> int:
        return int(self.events.sum())

    @cached_property
    def _known(self) -> tuple[int, int, int]:
        """Pairs in different intervals: concordant, discordant, and of one bin."""
        rows = self.events + self.censored
        later = np.cumsum(rows[::-1], axis=0)[::-1]
        later = np.vstack([later[1:], np.zeros_like(later[:1])])
        return _concordant_model_pairs(self.events, later)

    @cached_property
    def index(self) -> BinBoundedNumber:
        """Harrell's: of pairs of which one surely ended first, how often the riskier.

        Its value is that of rows known by bin alone, as R's survival::concordance has
        it: in one interval, events come before other ends, and two events are tied.
        The bounds are of rows themselves, wherever in their bins they lie: a pair in
        one interval may or may not be comparable, and one in a bin of risk may be
        either way.
        """
        good, bad, same = self._known
        right, wrong, tied = _concordant_model_pairs(self.events, self.censored)
        among = sum(int(one.sum()) ** 2 - int((one**2).sum()) for one in self.events)
        # Two events of one interval, and rows of one bin in it: nothing is known.
        open_ = among // 2 + tied
        open_ += int((self.events * (self.events - 1) // 2).sum())
        value, error = self._of_bins()
        top, bottom = good + same + right + open_, good + bad + same + right + open_
        # Where only such pairs are left, they are right, or there is nothing.
        largest = top / bottom if bottom else (0.0 if wrong else nan)
        bottom = good + bad + same + wrong + open_
        least = good / bottom if bottom else (1.0 if right else nan)
        return BinBoundedNumber(value, least, largest, error)

    def _of_bins(self) -> tuple[float, float]:
        """Return the index of binned rows, and its infinitesimal jackknife error."""
        yes, no = self.events.astype(np.float64), self.censored.astype(np.float64)
        rows = yes + no
        after = np.cumsum(rows[::-1], axis=0)[::-1] - rows + no
        before = np.cumsum(yes, axis=0) - yes

        def below(counts: FloatArray) -> FloatArray:
            return np.cumsum(counts, axis=1) - counts

        def above(counts: FloatArray) -> FloatArray:
            return counts.sum(axis=1, keepdims=True) - counts - below(counts)

        # Of one row in each cell: pairs as the first to end, and as the other.
        first = below(after) + after / 2.0, after.sum(axis=1, keepdims=True)
        # Whoever is censored in an interval ends after its events.
        until = before + yes
        last_yes = above(before) + before / 2.0, before.sum(axis=1, keepdims=True)
        last_no = above(until) + until / 2.0, until.sum(axis=1, keepdims=True)
        n_pairs = float((yes * first[1]).sum())
        if not n_pairs:
            return nan, nan
        value = float((yes * first[0]).sum()) / n_pairs
        of_yes = first[0] + last_yes[0] - value * (first[1] + last_yes[1])
        of_no = last_no[0] - value * last_no[1]
        variance = (yes * of_yes**2).sum() + (no * of_no**2).sum()
        return value, sqrt(float(variance)) / n_pairs


def _concordant_model_pairs(first: ByCell, other: ByCell) -> tuple[int, int, int]:
    """Return pairs on each line: the first riskier, less risky, and in one bin."""
    lower = np.cumsum(other, axis=1) - other
    higher = other.sum(axis=1, keepdims=True) - other - lower
    return tuple(int((first * one).sum()) for one in (lower, higher, other))  # type: ignore[return-value]


# Folds


def folds_of_model_rows(
    measures: RowMeasures, rows: Rows, n_folds: int, split: int
) -> Places:
    """Return the fold of each row, which its own predictors and public numbers tell.

    A fold is one function of the row: who has it does not matter, and rows with equal
    predictors are in one fold, so that none is predicted from its own copy. The
    response is no part of it.
    """
    key = split.to_bytes(8, "big")
    found: list[int] = []
    for block in measures.blocks(rows):
        whole = block.design
        if whole.dtype != object:
            whole = whole.astype(np.int64)
        for line in whole.tolist():
            text = ",".join(map(str, map(int, line))).encode()
            digest = hashlib.blake2b(text, digest_size=8, key=key).digest()
            found.append(int.from_bytes(digest, "big") % n_folds)
    return np.array(found, dtype=np.int64)


def errors_of_fold(
    total_of_fold: Integers, measures: RowMeasures, coefficients: Vector
) -> ModelErrors:
    """Return how well coefficients predict the rows of a fold, from its statistics.

    Sums of squares follow from X'X, X'y and y'y in exact numbers: no row is needed. The
    design has a column of ones.
    """
    counting, p = LeastSquaresCounting(measures), len(measures.design)
    sums, ones = counting.unpack(total_of_fold), counting.ones
    assert ones is not None
    units = np.array(counting.units[: p + 1], dtype=object)
    moments = sums.moments * (units[:, None] * units)
    for j, shift in enumerate(counting.shifts):
        # Centres are put back, of one side and then of the other.
        moments[:, j] += shift * moments[:, ones]
        moments[j, :] += shift * moments[ones, :]
    slopes = np.array([*(Fraction(one) for one in coefficients.tolist()), 0])
    away = slopes - np.array([*(0,) * p, 1])
    return ModelErrors(
        n_rows=sums.n_rows,
        response=Fraction(moments[ones, p]),
        response_square=Fraction(moments[p, p]),
        predicted=Fraction(moments[ones] @ slopes),
        predicted_square=Fraction(slopes @ moments @ slopes),
        squared=Fraction(away @ moments @ away),
    )


def join_model_errors(parts: Sequence[ModelErrors]) -> ModelErrors:
    names = [one.name for one in fields(ModelErrors) if one.name != "absolute"]
    return ModelErrors(*(sum(getattr(one, name) for one in parts) for name in names))
