"""Generalised linear models from sums: what parties add up, and the fit at the end.

The first round needs no coefficients. With a canonical link all that a fit needs of the
responses is in it: X'Wy, and a few sums. Scores and deviances at any point follow from
these and from sums of fitted means and cumulants, so later rounds do not depend on the
responses; only Pearson's sum takes one more sum with them, at the end. With other links
later rounds sum scores and deviances themselves, where the former have means and
cumulants. The information is the expected one, which has no responses in it. The
search sets out at the null model, from which X'WX and X'Wy lead on. Where rows need not
have a mean there, or a dispersion is searched for beside the coefficients, each row
starts at a mean near its own response instead, and the weighted least squares fit of
the starts is where Newton's method sets out.

Every later round evaluates at a public point, which is the p coefficients and, last,
the intercept of the null model, whose deviance is found along the way. Some families
close with one more sum, at the answer. `newton` leads from one round to the next.

All sums are of whole numbers. A row's columns are counted in their units, centres taken
off, and so are coefficients: a slope is one for each unit. Each product of a row is
rounded to a unit that follows from the agreed digits and from earlier totals, and
residues of totals are released (`fineness`). Where rows start near their responses
units follow from the agreement alone (`GlmScales`): information is V'V with V =
rint(root z 2^s), which no rounding makes less than positive, and a score is Z'r with r
rounded. At
a point where a row has no mean that the family allows nobody could send such sums. So,
unless agreed ranges prove that there is none, a sum of its own asks first for how many
rows are outside, and everybody answers it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice
from math import ceil, frexp, fsum, inf, nan, sqrt
from typing import Any, Literal

import numpy as np
from flint import arb_mat

from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models import systems
from veilsum.models.families import (
    CEILING,
    Binomial,
    Family,
    LikelihoodSums,
    NegativeBinomialEstimated,
    RowBounds,
    RowRanges,
    RowTerms,
)
from veilsum.models.fineness import (
    BITS_OF_DIGIT,
    CROSS_BITS,
    FIRST_BITS,
    FRUGAL_DIGITS,
    FULL_DIGITS,
    LIKELIHOOD_BITS,
    MOST_DIGITS,
    SPARE_BITS,
    Fineness,
    triangle_of_model_matrix,
)
from veilsum.models.inference import Inference
from veilsum.models.plausible import check_plausible_matrix, check_plausible_total
from veilsum.models.rows import Gram, PerRow, RowMeasures, Rows
from veilsum.models.systems import (
    InformationSystem,
    check_model_rows,
    dependent_model_columns,
    system_rows_as_balls,
)
from veilsum.models.weights import note_row_weights
from veilsum.numbers.arrays import Array, FloatArray, Vector, listed_names
from veilsum.numbers.compiled import compiled_or_plain
from veilsum.numbers.layout import (
    COUNTED,
    LayoutStatistic,
    NumberLayout,
    RowRange,
    centred_range_of_measure,
    layout_number,
    layout_padding,
    layout_symmetric,
    layout_vector,
    range_within_bits,
    ranges_of_products,
    union_of_columns,
)
from veilsum.numbers.units import (
    BLOCK_ROWS,
    CrossSum,
    GramSum,
    Integers,
    UnitCounts,
    UnitMeasure,
    limbs_of_bits,
    square_of_triangle,
    sum_bits,
    total_of_counts,
    triangle_of_matrix,
)

# GlmRowTotals have two words of 64 bits where the root of information has two limbs,
# and three where it has more.
TWO_WORDS, THREE_WORDS = 128, 192
# Bits that are kept, where there is room, of what is of the usual order: of a column at
# its largest, of what pulls, of numbers, and of those that estimate a dispersion. Many
# rows may be alike and rounded the same way, so that nothing averages out.
COLUMN, PULL, NUMBER, FINEST = 46, 53, 52, 72
# Bits after the point of a row's part of Pearson's sum, where it is only printed: with
# all of them, this sum and X'y determine the responses of small tables (tests/attacks).
PEARSON = 10
# Numbers that are as fine as the agreed digits need, where a position has no others.
COARSE = {
    *("n_rows", "null_outside", "cumulants", "peak", "saturated"),
    *("pearson", "deviance", "null_deviance"),
}
# A sum of cumulants is right to this much of it.
ROW_NOISE = 2.0**-50
# Blocks of a design that are gone through together.
PIECES = 8
# Rounding moves a predictor by less than this much of the sum of its parts' sizes.
SLACK = 2.0**-40
TOO_WIDE = (
    "the agreed ranges of response, weights and offset are so wide that what rows "
    "contribute cannot be summed: agree on narrower ones, or on coarser units"
)

# Columns are dependent where all others together explain one but for 1e-9 of its size.
DEPENDENT = 1e18
# A dependency names the columns that have at least this share in it.
SHARE = 1e-5
# The same where rounding hides what is small.
ALIKE = 0.1

Stage = Literal[
    "first", "outside", "round", "means", "last", "pearson", "closing", "score"
]
# Losses are sums of a cross-validation.
SumStage = Stage | Literal["losses"]


@dataclass(frozen=True)
class GlmRequest:
    """Next public request to all parties: a point, and the statistics to sum at it.

    Attributes:
        stage: selects the statistics.
        point: empty at first; in a round, in a count of rows outside, and for Pearson's
            sum, the coefficients and the null model's intercept; when closing, the
            coefficients and the dispersion. Columns are counted in their units, after
            subtracting centres.
        fineness: units and residues of a round; None where they are agreed.
    """

    stage: Stage
    point: Vector
    fineness: Fineness | None = None


@dataclass(frozen=True)
class FirstStatistics:
    """The totals of the first round.

    Attributes:
        information: V'V with the working weights of the starting means.
        cross: Z'Wt with the working responses t, offsets taken off.
        weight_sum: the sum of the weights; of ones without weights.
        response_sum: the sum of w y.
        offset_sum: the sum of w times the offset.
        saturated: the log-likelihood at mu = y; 0 in a family that closes.
    """

    information: Integers
    cross: tuple[Fraction, ...]
    n_rows: Fraction
    weight_sum: Fraction
    response_sum: Fraction
    offset_sum: Fraction
    saturated: Fraction


@dataclass(frozen=True)
class ResponseStatistics(FirstStatistics):
    """The totals of the first round of a search from the null model.

    Here `information` is Z'WZ, and `cross` is Z'Wy.

    Attributes:
        peak: the sum of w `Family.peak`.
        response_offset_sum: the sum of w y times the offset.
    """

    peak: Fraction
    response_offset_sum: Fraction


@dataclass(frozen=True)
class MeanStatistics:
    """The totals of a later round of a search from the null model.

    With a canonical link no response is in them. With others scores, their signs
    changed, stand for means, and half of the deviance for cumulants.

    Attributes:
        information: expected, times the dispersion; None if it was not asked for.
        means: Z'W mu.
        cumulants: the sum of w `Family.cumulant`; None if it was not asked for.
        null_mean: the sum of w mu of the null model; 0 without offsets.
        null_information: its information.
        null_cumulants: and its sum of cumulants.
    """

    information: Integers | None
    means: tuple[Fraction, ...]
    cumulants: Fraction | None
    null_mean: Fraction
    null_information: Fraction
    null_cumulants: Fraction


@dataclass(frozen=True)
class RoundStatistics:
    """The totals of a later round, at the point that all parties know.

    Attributes:
        information: V'V, the observed information times the dispersion.
        score: the slope of the log-likelihood times the dispersion.
        deviance: the sum of w d(y, mu).
        pearson: the sum of w (y - mu)^2 / variance; with a canonical link only at the
            end, and the deviance stands in for it.
        null_score: the score of the null model.
        null_information: its information.
        null_deviance: its deviance.
        noise: an error of a deviance that rounding of single rows may leave.
    """

    information: Integers
    score: tuple[Fraction, ...]
    deviance: Fraction
    pearson: Fraction
    null_score: Fraction
    null_information: Fraction
    null_deviance: Fraction
    noise: float = field(default=0.0, kw_only=True)


@dataclass(frozen=True)
class ClosingStatistics:
    """The totals of the closing round, at the answer.

    Attributes:
        information: V'V of Fisher's expected information times the dispersion.
        saturated: the log-likelihood at mu = y.
    """

    information: Integers
    saturated: Fraction


@dataclass(frozen=True)
class GlmOutsideRows:
    """Numbers of rows whose mean at a point the family does not allow."""

    model: int
    null: int


@dataclass(frozen=True, eq=False)
class GlmScales:
    """In what units a model's rows are summed; all of it follows from the agreement.

    All stages share `positions`: the triangle of a matrix, a number for each column,
    some numbers (`places`), and the number of rows outside. Each has a layout of its
    own, in which positions that it does not use are padding.
    """

    family: Family
    measures: RowMeasures
    intercept: int | None = None
    digits: int = MOST_DIGITS

    @classmethod
    def of(
        cls,
        family: Family,
        measures: RowMeasures,
        intercept: int | None,
        digits: int = MOST_DIGITS,
    ) -> GlmScales:
        """Return the scales of columns that are centred, if an intercept allows it.

        However far from 0 a column is, all bits of V tell how its rows differ.
        """
        if intercept is not None:
            columns = [one.centred() for one in measures.design]
            columns[intercept] = measures.design[intercept]
            measures = replace(measures, design=tuple(columns))
        return cls(family, measures, intercept, digits)

    @property
    def n_columns(self) -> int:
        return len(self.measures.design)

    @property
    def size(self) -> int:
        return self.positions.size

    @property
    def counts(self) -> UnitCounts:
        return self.positions.counts

    @cached_property
    def has_fineness(self) -> bool:
        """Whether rounds are as fine as the digits need.

        A point without slopes must give all rows a mean: the search sets out there.
        With links that are not canonical it takes many rounds to many digits.
        """
        family = self.family
        if not family.has_digits or (not family.slope and self.digits > FRUGAL_DIGITS):
            return False
        plain = self.measures.offset is None and self.intercept is not None
        return plain or self.limits.low < 0.0 < self.limits.high

    @property
    def responses_once(self) -> bool:
        """Whether responses are in the first sum, and later ones do without them."""
        return self.has_fineness and self.family.slope != 0.0

    @property
    def slope(self) -> Fraction:
        """The slope of the log-likelihood in minus the means of a round."""
        return Fraction(self.family.slope) if self.responses_once else Fraction(1)

    @property
    def cumulants_follow(self) -> bool:
        """Whether cumulants are among the sums of means."""
        return self.family.cumulants_are_means and self.intercept is not None

    def sums_cumulants(self, stage: SumStage) -> bool:
        """Return whether a round sums cumulants: for the answer, or a dispersion."""
        asked = stage == "last" or self.family.estimates_dispersion
        return asked and not self.cumulants_follow

    @property
    def null_follows(self) -> bool:
        return self.has_fineness and self.measures.offset is None

    @property
    def closes(self) -> bool:
        """Whether one more sum follows the answer."""
        family = self.family
        return family.closes and (family.estimates_dispersion or not self.has_fineness)

    @property
    def sums_peak(self) -> bool:
        """Whether deviances are told from the first sum."""
        known = self.responses_once or self.null_follows
        return known and "peak" in self.family.constants

    @property
    def sums_pearson(self) -> bool:
        """Whether Pearson's sum is released: not of responses 0 and 1.

        There it rests on the few rows whose responses were least likely, and a lying
        party can choose these. It says nothing about how well such a model fits.
        """
        return not self.family.levels

    @cached_property
    def places(self) -> dict[str, int]:
        found = {"null_outside": 0 if self.has_fineness else 4}
        stages: tuple[SumStage, ...] = ("first", "last", "round", "pearson", "losses")
        for stage in stages:
            names = " ".join(self._keys(stage)[2].values()).split()
            found = {name: place for place, name in enumerate(names)} | found
        return found

    @property
    def n_numbers(self) -> int:
        """Numbers of a round beside the triangle, the vector and rows outside."""
        return max(self.places.values()) + 1

    @cached_property
    def agreed(self) -> RowRanges:
        of = self.measures
        return RowRanges.of(of.response, of.weights, of.offset)

    @cached_property
    def limits(self) -> RowBounds:
        return self.family.limits(self.agreed)

    # How many bits things have, and what is left for their rounding

    def _room(self, bits: int = 0) -> int:
        """Return the bits of a row's number whose total fits, beside a factor's."""
        words = TWO_WORDS if self.family.limbs == 2 else THREE_WORDS
        return words - sum_bits([bits], self.measures.row_bits)

    @cached_property
    def root_bits(self) -> int:
        """Bits of V: two limbs, or enough for columns and the largest root."""
        if self.family.limbs == 2:
            return 39
        usual = glm_bits_below(
            self.limits.usual_root * sqrt(min(1.0, self.agreed.weight))
        )
        return min(COLUMN + max(self._root - usual, 0), self._room() // 2)

    @property
    def _root(self) -> int:
        return glm_bits_below(self.limits.root * sqrt(self.agreed.weight))

    @cached_property
    def columns(self) -> tuple[int, ...]:
        room = self.root_bits - self._root
        return tuple(room - one.bits for one in self.measures.design)

    @property
    def _pull(self) -> int:
        return glm_bits_below(self.limits.pull * self.agreed.weight)

    @cached_property
    def pull_bits(self) -> int:
        """Bits of the numbers whose products with the design are summed."""
        widest = max(one.bits for one in self.measures.design)
        usual = glm_bits_below(self.limits.usual_pull * min(1.0, self.agreed.weight))
        return min(PULL + max(self._pull - usual, 0), self._room(widest))

    @property
    def pull(self) -> int:
        return self.pull_bits - self._pull

    # Fineness of rounds

    @property
    def largest_pull(self) -> float:
        """The largest weighted mean of a row."""
        return self.limits.pull * self.agreed.weight

    @property
    def largest_cumulant(self) -> float:
        """No cumulant is beyond the largest deviance."""
        return self.limits.deviance * self.agreed.weight

    @property
    def largest_information(self) -> float:
        """The largest expected information of a row whose weight is 1."""
        return min(self.limits.root * self.limits.root, self.limits.expected)

    @property
    def mean_bits(self) -> list[int]:
        """Bits of a column's product with a mean."""
        return [of.bits + self._pull for of in self.measures.design]

    def entry_bits(self, j: int, k: int) -> int:
        """Return the bits of a row's information for two columns."""
        design, largest = self.measures.design, 2 * self._root
        if self.limits.expected < inf:
            largest = glm_bits_below(self.limits.expected * self.agreed.weight)
        return design[j].bits + design[k].bits + largest

    @property
    def _cross_bits(self) -> int:
        found = ceil(self.digits * BITS_OF_DIGIT) + CROSS_BITS
        # Rounding adds up over rows, and a standard error over their root. Means may be
        # known far better than their range tells.
        found += (self.measures.row_bits + 1) // 2
        return found + (SPARE_BITS if self.family.estimates_dispersion else 0)

    @cached_property
    def _largest_response(self) -> Fraction:
        of = self.measures.response
        return Fraction(self.agreed.weight) * of.unit * max(-of.least, of.most, 1)

    @cached_property
    def response_unit(self) -> Fraction:
        """Unit of weighted responses, before they are multiplied."""
        of, kept = self.measures.response, self._cross_bits
        if self.measures.weights is not None:
            return _glm_power_of_two(
                glm_bits_below(float(self._largest_response)) - kept
            )
        counted = glm_bits_below(float(self._largest_response / of.unit))
        return of.unit * _glm_power_of_two(max(0, counted - kept))

    @property
    def cumulant_unit(self) -> float:
        place = self.places.get("cumulants")
        return 0.0 if place is None else 2.0 ** -self.numbers[place]

    def response_counts(self, response: PerRow) -> PerRow:
        """Return responses in `response_unit`, to be weighted and rounded."""
        unit = self.response_unit
        return np.asarray(response * float(unit.denominator) / float(unit.numerator))

    @cached_property
    def first_fineness(self) -> Fineness:
        """Powers of the first sum: of Z'WZ, and of Z'W times the responses' counts."""
        design, free = self.measures.design, self.measures.weights is None
        kept = FIRST_BITS + 2 * self.digits
        powers = [kept - of.bits for of in design]
        if free:  # whole numbers need no more than their units
            powers = [min(0, power) for power in powers]
        matrix = tuple(
            0 if free and self.intercept in {j, k} else powers[j] + powers[k]
            for j, k in triangle_of_model_matrix(self.n_columns)
        )
        response = glm_bits_below(float(self._largest_response / self.response_unit))
        along = [min(0, self._cross_bits - of.bits - response) for of in design]
        if not self.responses_once:  # but for responses they only lead the way
            along = [
                power if k == self.intercept else min(power, kept - of.bits - response)
                for k, (power, of) in enumerate(zip(along, design, strict=True))
            ]
        return Fineness(matrix, tuple(along))

    @cached_property
    def gram_units(self) -> tuple[Fraction, ...]:
        """Units of the first information, in its coordinates; 0 where it is exact."""
        exact, powers = self.measures.weights is None, self.first_fineness.matrix
        return tuple(
            Fraction(0) if exact and not power else self._shift(place, power)
            for place, power in zip(
                triangle_of_model_matrix(self.n_columns), powers, strict=True
            )
        )

    @cached_property
    def number_bits(self) -> tuple[int, ...]:
        return tuple(
            one + power for one, power in zip(self._sizes, self.numbers, strict=True)
        )

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The powers of 2 by which these are scaled."""
        finest = FINEST if self.family.estimates_dispersion else NUMBER
        found = [min(finest - min(0, one), self._room(one)) for one in self._sizes]
        if min(found) < 0:
            raise InvalidInputError(TOO_WIDE, code="range-too-wide")
        if self.has_fineness:
            enough = ceil(self.digits * BITS_OF_DIGIT) + LIKELIHOOD_BITS
            if self.family.estimates_dispersion:
                enough += LIKELIHOOD_BITS
            finer = {place for name, place in self.places.items() if name not in COARSE}
            for place in set(range(len(found))) - finer:
                found[place] = min(found[place], enough)
        return tuple(found)

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        """The bits of each number before scaling, the largest of all rounds that."""
        limits, agreed = self.limits, self.agreed
        w = agreed.weight
        most = max(abs(agreed.low), abs(agreed.high))
        bounds = {
            "n_rows": 1.0,
            "null_outside": 1.0,
            "weight_sum": w,
            "response_sum": w * most,
            "offset_sum": w * agreed.offset,
            "response_offset_sum": w * most * agreed.offset,
            "saturated": limits.saturated,
            "pearson": w * limits.pearson,
            "null_score": w * limits.pull,
            "null_mean": w * limits.pull,
            "null_information": w * limits.root * limits.root,
        }
        # No cumulant and no peak is beyond the largest deviance.
        most_bits = [0] * self.n_numbers
        for name, place in self.places.items():
            bits = glm_bits_below(bounds.get(name, w * limits.deviance))
            most_bits[place] = max(most_bits[place], bits)
        return tuple(most_bits)

    @cached_property
    def positions(self) -> NumberLayout:
        design, rows = self.measures.design, self.measures.row_bits
        columns = zip(design, self.columns, strict=True)
        units = [of.unit * _glm_power_of_two(-s) for of, s in columns]
        pulls = [of.unit * _glm_power_of_two(-self.pull) for of in design]
        widest = max(of.bits for of in design)
        numbers = [_glm_power_of_two(-power) for power in self.numbers]
        bits = sum_bits([max(self.number_bits)], rows)
        along = layout_vector("along", pulls, sum_bits([widest, self.pull_bits], rows))
        found = [
            layout_symmetric("matrix", units, sum_bits([self.root_bits] * 2, rows)),
            along,
            layout_vector("numbers", numbers, bits),
            layout_number("rows_outside", bits=sum_bits([0], rows)),
        ]
        if isinstance(self.family, NegativeBinomialEstimated):
            slopes = [numbers[place] for place in self.theta_places]
            found += [replace(along, key="theta_score")]
            found += [layout_vector("theta_slopes", slopes, bits)]
        return NumberLayout(tuple(found))

    @property
    def theta_places(self) -> list[int]:
        """Numbers in whose units slope, curvature and constant of theta are summed."""
        return [self.places[name] for name in ("deviance", "pearson", "saturated")]

    @cached_property
    def _layouts(self) -> dict[SumStage, NumberLayout]:
        return {}

    def layout(self, stage: SumStage, fineness: Fineness | None = None) -> NumberLayout:
        """Return the layout of a stage.

        Args:
            stage: of the fit.
            fineness: of a round, for its ranges.
        """
        if fineness is None and stage in self._layouts:
            return self._layouts[stage]
        matrix, along, numbers, outside, *theta = self.positions.statistics
        first, second, sums = self._keys(stage)
        roots, pulls, of_numbers = self._ranges(stage)
        products = ranges_of_products(roots)
        if self.has_fineness and stage == "first":
            products, pulls = self._fine_ranges(self.first_fineness, roots, pulls)
        elif fineness is not None:
            products, pulls = self._fine_ranges(fineness, roots, pulls, later=True)
        matrix = replace(matrix, key=first, ranges=products)
        found, at = [matrix, replace(along, key=second, ranges=pulls)], 0
        for key, names in sums.items():
            places = [self.places[name] for name in names.split()]
            widest = max(self.number_bits[k] for k in places)
            bits = sum_bits([widest], self.measures.row_bits)
            units = tuple(numbers.units[k] for k in places)
            shape = (len(places),) if len(places) > 1 else ()
            ranges = tuple(map(of_numbers, names.split()))
            sums_of = LayoutStatistic(key, shape, units, bits, ranges=ranges)
            found += [layout_padding(places[0] - at), sums_of]
            at = places[-1] + 1
        found.append(layout_padding(numbers.size - at))
        everything = self.measures.columns
        outside = replace(outside, ranges=(replace(COUNTED, columns=everything),))
        found.append(outside if stage == "outside" else layout_padding(1))
        theta = [
            replace(one, ranges=(RowRange(columns=everything),) * one.size)
            for one in theta
        ]
        found += (
            theta if stage == "round" else [layout_padding(one.size) for one in theta]
        )
        layout = NumberLayout(tuple(found))
        if fineness is None:
            self._layouts[stage] = layout
        return layout

    def _fine_ranges(
        self,
        fineness: Fineness,
        roots: Sequence[RowRange],
        pulls: Sequence[RowRange],
        *,
        later: bool = False,
    ) -> tuple[tuple[RowRange, ...], tuple[RowRange, ...]]:
        """Return ranges of a row's part of each product, in the units of a sum.

        Args:
            fineness: of the sum.
            roots: ranges of which the columns are known, for the matrix.
            pulls: the same for products with responses or means.
            later: whether the sum is one of a round.
        """
        columns = [centred_range_of_measure(of) for of in self.measures.design]
        weight = Fraction(self.agreed.weight)
        most = weight * Fraction(self.largest_information) if later else weight
        matrix = []
        pairs = triangle_of_model_matrix(self.n_columns if fineness.matrix else 0)
        for power, (j, k) in zip(fineness.matrix, pairs, strict=True):
            one = columns[j].squared() if j == k else columns[j] * columns[k]
            scaled = one.scaled(Fraction(0), most * _glm_power_of_two(power))
            used = union_of_columns(roots[j].columns, roots[k].columns)
            matrix.append(replace(scaled, columns=used))
        of, largest = self.measures.response, Fraction(self.largest_pull)
        ends = Fraction(0) if self.responses_once else -largest, largest
        if not later:
            by = weight * of.unit / self.response_unit
            ends = min(of.least * by, Fraction(0)), of.most * by
        along = [
            replace(
                column.scaled(*(end * _glm_power_of_two(power) for end in ends)),
                columns=one.columns,
            )
            for power, column, one in zip(fineness.along, columns, pulls, strict=True)
        ]
        return tuple(matrix), tuple(along)

    def _ranges(
        self, stage: SumStage
    ) -> tuple[tuple[RowRange, ...], tuple[RowRange, ...], Callable[[str], RowRange]]:
        """Return the ranges of a row for the matrix, the vector and numbers by name.

        At the first point the predictor is the offset. At later ones every weight and
        mean depends on all columns of the design.
        """
        measures, at_start = self.measures, stage == "first"
        response = measures.response.columns
        weights, offset = (
            () if one is None else one.columns
            for one in (measures.weights, measures.offset)
        )
        points = union_of_columns(
            offset, *(() if at_start else (c.columns for c in measures.design))
        )
        used = [
            union_of_columns(one.columns, weights, points) for one in measures.design
        ]
        # The observed information depends on the response.
        observed = () if self.has_fineness else response
        roots = tuple(
            range_within_bits(self.root_bits, union_of_columns(one, observed))
            for one in used
        )
        pulled = () if self.responses_once and not at_start else response
        if self.has_fineness and at_start:  # X'y itself
            used = [union_of_columns(one.columns, weights) for one in measures.design]
        pulls = tuple(
            range_within_bits(self.pull_bits + of.bits, union_of_columns(one, pulled))
            for of, one in zip(measures.design, used, strict=True)
        )
        null = union_of_columns(weights, offset)
        columns = {
            "n_rows": (),
            "weight_sum": weights,
            "response_sum": union_of_columns(weights, response),
            "offset_sum": null,
            "saturated": union_of_columns(weights, response),
            "peak": union_of_columns(weights, response),
            "response_offset_sum": union_of_columns(null, response),
            "null_mean": union_of_columns(null, pulled),
            "null_information": null,
            "null_cumulants": union_of_columns(null, pulled),
            "null_score": union_of_columns(null, response),
            "null_deviance": union_of_columns(null, response),
            "null_outside": offset,
            "cumulants": union_of_columns(weights, points, pulled),
        }

        def of_number(name: str) -> RowRange:
            few = columns.get(name, measures.columns)
            if name == "weight_sum" and measures.weights is None:
                return RowRange(1, 1, ())
            if name in {"n_rows", "null_outside"}:
                return replace(COUNTED, columns=few)
            return range_within_bits(self.number_bits[self.places[name]], few)

        return roots, pulls, of_number

    def _keys(self, stage: SumStage) -> tuple[str, str, dict[str, str]]:
        """Return keys of the matrix and the vector, and names of numbers by key.

        Positions that a stage does not use have no key.
        """
        offset, constants = self.measures.offset is not None, self.family.constants
        match stage:
            case "first" if self.has_fineness:
                saturated = "" if self.closes else "saturated"
                # With an intercept both are among the products of columns.
                both = "" if self.intercept is not None else "weight_sum response_sum"
                sums = {
                    "rows": "n_rows",
                    "weights_and_responses": both,
                    "offsets": "offset_sum" if offset else "",
                    saturated: "saturated" if "saturated" in constants else "",
                    "saturated_part": "peak" if self.sums_peak else "",
                }
                if offset and self.responses_once:
                    sums["response_offsets"] = "response_offset_sum"
                return "gram", "cross", {key: one for key, one in sums.items() if one}
            case "first":
                more = "weight_sum response_sum offset_sum saturated"
                return (
                    "information",
                    "link_cross",
                    {"rows": "n_rows", "first_sums": more},
                )
            case "round" | "means" | "last" if self.has_fineness:
                null = "null_mean null_information null_cumulants"
                summed = self.sums_cumulants(stage)
                vector, number, of_null = "score", "deviance", "null_score"
                if self.responses_once:
                    vector, number = "fitted_cross", "cumulants"
                    of_null = "null_cumulants"
                sums = {number: "cumulants"} if summed else {}
                sums |= {of_null: null} if offset else {}
                matrix = "" if stage == "means" else "information"
                return matrix, vector, sums
            case "round" | "means" | "last":
                sums = {"deviance_and_pearson": "deviance pearson"}
                if not self.sums_pearson:
                    sums = {"deviance": "deviance", "": "pearson"}
                sums["null_score"] = "null_score null_information null_deviance"
                return "information", "score", sums
            case "outside":
                return "", "", {"null_rows_outside": "null_outside"}
            case "closing":
                matrix = "" if self.has_fineness else "information"
                return matrix, "", {"saturated": "saturated"}
            case "score":
                return "further_information", "further_score", {}
            case "pearson":
                return "", "", {"pearson": "pearson"}
            case "losses":
                return (
                    "",
                    "",
                    {"deviance": "deviance", "null_deviance": "null_deviance"},
                )

    # GlmRowTotals and what they stand for

    def _parts(
        self, stage: SumStage, total: Integers
    ) -> tuple[Integers, tuple[Fraction, ...], dict[str, Fraction]]:
        layout, (matrix, along, names) = self.layout(stage), self._keys(stage)
        found, pull = layout.unpack(total), _glm_power_of_two(-self.pull)
        numbers = {
            name: int(one) * _glm_power_of_two(-self.numbers[self.places[name]])
            for key, group in names.items()
            if key
            for name, one in zip(group.split(), total[layout.places[key]], strict=True)
        }
        pulls = tuple(int(one) * pull for one in found.get(along, ()))
        return found.get(matrix, np.empty((0, 0))), pulls, numbers

    def _fine_parts(
        self, total: Integers, fineness: Fineness
    ) -> tuple[Integers | None, tuple[Fraction, ...]]:
        """Return a matrix in the coordinates of `columns`, and products by column."""
        p, start = self.n_columns, self.n_columns * (self.n_columns + 1) // 2
        pairs = zip(total[start : start + p].tolist(), fineness.along, strict=True)
        along = tuple(int(one) * _glm_power_of_two(-power) for one, power in pairs)
        if not fineness.matrix:
            return None, along
        entries = [
            int(int(one) * self._shift(place, power))
            for one, place, power in zip(
                total[:start].tolist(),
                triangle_of_model_matrix(p),
                fineness.matrix,
                strict=True,
            )
        ]
        return square_of_triangle(np.array(entries, dtype=object), p), along

    def _shift(self, place: tuple[int, int], power: int) -> Fraction:
        """Return what an entry's unit is in the coordinates of `columns`."""
        j, k = place
        return _glm_power_of_two(self.columns[j] + self.columns[k] - power)

    def first(self, vector: Integers) -> FirstStatistics:
        matrix, cross, numbers = self._parts("first", vector)
        if not self.has_fineness:
            return FirstStatistics(
                matrix, cross, **_glm_totals_by_name(FirstStatistics, numbers)
            )
        gram, products = self._fine_parts(vector, self.first_fineness)
        assert gram is not None
        cross = tuple(one * self.response_unit for one in products)
        if (place := self.intercept) is not None:
            weights = gram[place, place] * _glm_power_of_two(-2 * self.columns[place])
            exact = self.measures.weights is None
            numbers["weight_sum"] = numbers["n_rows"] if exact else Fraction(weights)
            numbers["response_sum"] = cross[place]
        named = _glm_totals_by_name(ResponseStatistics, numbers)
        return ResponseStatistics(gram, cross, **named)

    def means(self, vector: Integers, fineness: Fineness) -> MeanStatistics:
        """Return the totals of a round that has a fineness."""
        matrix, means = self._fine_parts(vector, fineness)
        numbers = self._parts(fineness.stage, vector)[2]
        cumulants = numbers.pop("cumulants", None)
        if self.intercept is not None and self.cumulants_follow:
            cumulants = means[self.intercept]
        rest = _glm_totals_by_name(MeanStatistics, numbers)
        return MeanStatistics(matrix, means, cumulants, **rest)

    def round(self, vector: Integers) -> RoundStatistics:
        """Return the totals of a round in agreed units."""
        matrix, along, numbers = self._parts("round", vector)
        return RoundStatistics(
            matrix, along, **_glm_totals_by_name(RoundStatistics, numbers)
        )

    def round_of_means(
        self,
        found: MeanStatistics,
        first: ResponseStatistics,
        point: Vector,
        information: Integers,
        fineness: Fineness,
    ) -> RoundStatistics:
        """Return what a round says together with the first sum.

        Args:
            found: totals of the round.
            first: totals of the first sum.
            point: at which the round was taken.
            information: the last that was summed.
            fineness: units of the round.
        """
        slope, fitted, peak = self.slope, Fraction(0), Fraction(0)
        cross, responses = [Fraction(0)] * self.n_columns, Fraction(0)
        if self.responses_once:
            coefficients = map(Fraction, point.tolist()[:-1])
            products = zip(coefficients, first.cross, strict=True)
            fitted = sum((one * by for one, by in products), first.response_offset_sum)
            peak, cross, responses = first.peak, list(first.cross), first.response_sum
        # Where cumulants were not asked for, nobody asks for the deviance either.
        cumulants = found.cumulants or Fraction(0)
        deviance = 2 * (peak - slope * fitted + cumulants)
        null_deviance = self.null_deviance(
            first,
            point[-1].item(),
            None if self.null_follows else found.null_cumulants,
        )
        size = abs(peak) + abs(slope * fitted) + abs(cumulants)
        pairs = zip(cross, found.means, strict=True)
        rounding = float(first.n_rows) * self._deviance_unit(point, fineness)
        return RoundStatistics(
            information=information,
            score=tuple(slope * (one - mean) for one, mean in pairs),
            deviance=deviance,
            pearson=deviance,
            null_score=slope * (responses - found.null_mean),
            null_information=found.null_information,
            null_deviance=null_deviance,
            noise=ROW_NOISE * float(size) + rounding,
        )

    def _deviance_unit(self, point: Vector, fineness: Fineness) -> float:
        """Return what rounding may make of a row's deviance, all its parts together."""
        found, first = self.cumulant_unit, self.first_fineness
        if not self.responses_once:
            return found
        if self.intercept is not None and self.cumulants_follow:
            found = 2.0 ** -fineness.along[self.intercept]
        if "peak" in self.family.constants:
            found += 2.0 ** -self.numbers[self.places["peak"]]
        whole = self.response_unit == self.measures.response.unit
        exact = whole and self.measures.weights is None
        size = abs(self.family.slope) * float(self.response_unit)
        for by, power in zip(point.tolist()[:-1], first.along, strict=True):
            if power or not exact:
                found += size * abs(by) * 2.0**-power
        return found

    def null_deviance(
        self,
        first: ResponseStatistics,
        intercept: float,
        cumulants: Fraction | None = None,
    ) -> Fraction:
        """Return the null model's deviance; without offsets its cumulants follow."""
        if not self.responses_once:
            return 2 * (
                self._null_loss(first, intercept) if cumulants is None else cumulants
            )
        if cumulants is None:
            each = self.family.cumulant(np.array([intercept])).item()
            cumulants = Fraction(each) * first.weight_sum
        fitted = Fraction(intercept) * first.response_sum + first.response_offset_sum
        return 2 * (first.peak - self.slope * fitted + cumulants)

    def _null_loss(self, first: ResponseStatistics, intercept: float) -> Fraction:
        parameter, _, each = map(Fraction, self.family.natural(np.array([intercept])))
        return first.peak - parameter * first.response_sum + each * first.weight_sum

    def deviance_error(self, sums: RoundStatistics, n_rows: float) -> float:
        """Return the largest error of a deviance, the saturated likelihood included."""
        if not self.has_fineness:
            return 0.0
        place = self.places.get("saturated")
        unit = 0.0 if place is None else 2.0 ** -self.numbers[place]
        return sums.noise + n_rows * unit

    def losses(self, vector: Integers) -> tuple[Fraction, Fraction]:
        numbers = self._parts("losses", vector)[2]
        return numbers["deviance"], numbers["null_deviance"]

    def pearson(self, vector: Integers) -> Fraction:
        return self._parts("pearson", vector)[2]["pearson"]

    def closing(self, vector: Integers) -> ClosingStatistics:
        matrix, _, numbers = self._parts("closing", vector)
        return ClosingStatistics(matrix, numbers["saturated"])

    def score(self, vector: Integers) -> tuple[Integers, tuple[Fraction, ...]]:
        matrix, score, _ = self._parts("score", vector)
        return matrix, score

    def outside(self, vector: Integers) -> GlmOutsideRows:
        null = int(self._parts("outside", vector)[2]["null_outside"])
        return GlmOutsideRows(
            self.layout("outside").unpack(vector)["rows_outside"], null
        )

    # Totals that no rows within the agreed ranges have

    def check_first(self, first: FirstStatistics, names: Sequence[str]) -> None:
        n_rows, w = first.n_rows, self.measures.weights
        check_plausible_total("rows", n_rows, 1, Fraction(2) ** self.measures.row_bits)
        least, most = (1, 1) if w is None else (w.least * w.unit, w.most * w.unit)
        self._check_number("weight_sum", first.weight_sum, n_rows, (least, most))
        of = self.measures.response
        ends = [
            end * of.unit * by for end in (of.least, of.most) for by in (least, most)
        ]
        ends = [min(ends), max(ends)]
        self._check_number("response_sum", first.response_sum, n_rows, ends)
        if not self.has_fineness:
            self.check_information(first.information, n_rows, names)
            self._check_along("X'Wy", first.cross, n_rows, names)
            return
        self._check_products(
            *("X'Wy", first.cross, n_rows, names, self._largest_response),
            [
                self.response_unit * _glm_power_of_two(-one)
                for one in self.first_fineness.along
            ],
        )
        self._check_matrix(
            first.information, n_rows, names, self.first_fineness, self.agreed.weight
        )

    def _check_products(
        self,
        name: str,
        values: Sequence[Fraction],
        n_rows: Fraction,
        names: Sequence[str],
        largest: Fraction,
        units: Sequence[Fraction],
    ) -> None:
        """Refuse sums of columns' products with numbers of a largest size."""
        largest *= 1 + _glm_power_of_two(-40)
        columns = zip(names, self.measures.design, values, units, strict=True)
        for column, of, one, unit in columns:
            most = n_rows * (of.reach * largest + unit)
            check_plausible_total(f"{name} for {column}", one, -most, most)

    def check_means(
        self,
        found: MeanStatistics,
        fineness: Fineness,
        first: FirstStatistics,
        names: Sequence[str],
    ) -> None:
        """Refuse fitted means, or information, that no rows have."""
        n_rows, units = (
            first.n_rows,
            [_glm_power_of_two(-one) for one in fineness.along],
        )
        largest = Fraction(self.largest_pull)
        self._check_products("fitted means", found.means, n_rows, names, largest, units)
        if found.information is not None:
            most = self.largest_information * self.agreed.weight
            self._check_matrix(found.information, n_rows, names, fineness, most)
        if self.responses_once and self.intercept is not None:
            ends = self.family.inverse_link(
                np.array([self.limits.low, self.limits.high])
            )
            low, high = sorted(Fraction(one) for one in ends.tolist())
            spare = n_rows * units[self.intercept]
            check_plausible_total(
                "fitted values",
                found.means[self.intercept],
                low * first.weight_sum - spare,
                high * first.weight_sum + spare,
            )

    def rounding_of_gram(self, n_rows: Fraction) -> list[int]:
        """Return the largest error of each row of the first information, added up."""
        lost = [Fraction(1)] * self.n_columns
        places = triangle_of_model_matrix(self.n_columns)
        for (j, k), unit in zip(places, self.gram_units, strict=True):
            for place in {j, k}:
                lost[place] += n_rows * unit / 2
        return [ceil(one) for one in lost]

    def _check_matrix(
        self,
        information: Integers,
        n_rows: Fraction,
        names: Sequence[str],
        fineness: Fineness,
        most: float,
    ) -> None:
        """Refuse sums of rounded products of columns that no rows have."""
        pairs = zip(self.measures.design, self.columns, strict=True)
        root = Fraction(sqrt(most)) * (1 + _glm_power_of_two(-40))
        largest = [ceil(root * of.reach * _glm_power_of_two(s)) + 1 for of, s in pairs]
        places = zip(
            triangle_of_model_matrix(self.n_columns), fineness.matrix, strict=True
        )
        unit = max(self._shift(place, power) for place, power in places)
        # Fine units are beyond what float64 has of a product.
        unit += max(largest) ** 2 * _glm_power_of_two(-50)
        rounding = ceil(n_rows * unit / 2) + 1
        check_plausible_matrix(
            "information", information, names, largest, int(n_rows), rounding
        )

    def check_round(
        self, sums: RoundStatistics, first: FirstStatistics, names: Sequence[str]
    ) -> None:
        self.check_information(sums.information, first.n_rows, names)
        self._check_along("the score", sums.score, 2 * first.n_rows, names)
        self.check_deviance(sums, first)

    def check_deviance(self, sums: RoundStatistics, first: FirstStatistics) -> None:
        spare = Fraction(sums.noise) + first.n_rows * _glm_power_of_two(
            -min(self.numbers)
        )
        most = 3 * first.n_rows * Fraction(self.agreed.weight * self.limits.deviance)
        check_plausible_total("the deviance", sums.deviance, -spare, most)

    def check_score(self, vector: Integers, n_rows: int, names: Sequence[str]) -> None:
        information, score = self.score(vector)
        self.check_information(information, Fraction(n_rows), names)
        self._check_along("the score", score, Fraction(2 * n_rows), names)

    def check_information(
        self,
        information: Integers,
        n_rows: Fraction,
        names: Sequence[str],
    ) -> None:
        most = self.limits.root * sqrt(self.agreed.weight)
        pairs = zip(self.measures.design, self.columns, strict=True)
        # A float64 root may be rounded up, and a product of it too.
        largest = [
            ceil(
                Fraction(most)
                * (1 + _glm_power_of_two(-40))
                * of.reach
                * _glm_power_of_two(s)
            )
            + 1
            for of, s in pairs
        ]
        check_plausible_matrix("information", information, names, largest, int(n_rows))

    def _check_along(
        self,
        name: str,
        values: Sequence[Fraction],
        n_rows: Fraction,
        names: Sequence[str],
    ) -> None:
        pull = Fraction(self.limits.pull * self.agreed.weight) * (
            1 + _glm_power_of_two(-40)
        )
        for column, of, one in zip(names, self.measures.design, values, strict=True):
            most = n_rows * of.reach * (pull + _glm_power_of_two(-self.pull))
            check_plausible_total(f"{name} for {column}", one, -most, most)

    def _check_number(
        self,
        name: str,
        value: Fraction,
        n_rows: Fraction,
        ends: Sequence[Fraction | int],
    ) -> None:
        # With an intercept they are sums of products.
        known = self.has_fineness and self.intercept is not None
        unit = (
            Fraction(1)
            if known
            else _glm_power_of_two(-self.numbers[self.places[name]])
        )
        spare = n_rows * unit
        least, most = (one * n_rows for one in ends)
        words = {"weight_sum": "weights", "response_sum": "responses"}[name]
        check_plausible_total(words, value, least - spare, most + spare)

    # Coordinates. Those of V'V are coefficients over 2^s.

    def system(
        self, information: Integers, penalty: Sequence[Fraction], names: Sequence[str]
    ) -> InformationSystem:
        """Return V'V with a penalty on real coefficients, in V's coordinates."""
        ridge = [
            one * _glm_power_of_two(2 * s) / (measure.unit * measure.unit)
            for one, s, measure in zip(
                penalty, self.columns, self.measures.design, strict=True
            )
        ]
        return InformationSystem.of(
            information, names=names, ridge=ridge, intercept=self._intercept
        )

    @cached_property
    def _intercept(self) -> tuple[int, list[Fraction]] | None:
        """The intercept's place, and what it is of coefficients in V's coordinates."""
        place = self.intercept
        if place is None:
            return None
        columns = zip(self.columns, self.measures.design, strict=True)
        shifts = [-_glm_power_of_two(s) * of.centre for s, of in columns]
        shifts[place] = _glm_power_of_two(self.columns[place])
        return place, shifts

    def real(self, *parts_of_point: Vector) -> Vector:
        """Return coefficients of whole numbers as those of the real columns.

        They are given as the sum of some vectors, and rounded once.
        """
        lists = [[Fraction(one) for one in part.tolist()] for part in parts_of_point]
        parts = [sum(one, Fraction(0)) for one in zip(*lists, strict=True)]
        design = self.measures.design
        found = [one / of.unit for one, of in zip(parts, design, strict=True)]
        if self.intercept is not None:
            shifts = zip(parts, design, strict=True)
            found[self.intercept] -= sum(one * of.centre for one, of in shifts)
        return np.array([float(one) for one in found])

    def covariance(self, system: InformationSystem) -> Gram:
        """Return A^-1 I A^-1 of a system in V's coordinates as that of real ones."""
        return systems.nearest_float_covariances(lambda: self.real_balls(system))

    def real_balls(self, system: InformationSystem) -> arb_mat:
        """Return the same in balls, at the precision of flint's context."""
        columns = zip(self.columns, self.measures.design, strict=True)
        lines = np.diag([_glm_power_of_two(s) / of.unit for s, of in columns]).tolist()
        if self._intercept is not None:
            lines[self._intercept[0]] = self._intercept[1]
        by = system_rows_as_balls(lines)
        return by * system.covariance_balls() * by.transpose()

    def check_independent(self, system: InformationSystem, n_rows: float) -> None:
        """Refuse columns that are combinations of each other but for rounding.

        A diagonal entry of A^-1 times that of A says how much less is known about a
        coefficient than if its column were the only one.
        """
        known = list(zip(system.diagonal(), np.diag(system.inverse()), strict=True))
        inflated = any(float(size) * one > DEPENDENT for size, one in known)
        # Rounding alone leaves n / 12 in every direction, or n / 2 of a unit.
        lost = max(one for _, one in known) * n_rows >= 0.1
        if self.has_fineness:
            lost = self._first_rounding(system, n_rows) >= 1.0
        if not inflated and not lost:
            return
        # By their shares in real columns: off centre these look alike more often.
        shares = np.abs(np.diag(self.covariance(system))) * self._real_diagonal(system)
        sizes = np.sqrt(shares)
        coarse = self.has_fineness and lost and self.digits < MOST_DIGITS
        least = (ALIKE if coarse else SHARE) * sizes.max()
        names = zip(system.names, sizes.tolist(), strict=True)
        culprits = [name for name, one in names if one >= least]
        if coarse:
            raise InvalidInputError(
                f"the columns {listed_names(culprits)} follow from each other, or "
                f"nearly so: with digits = {self.digits} the first sum is too coarse "
                f"to tell. Leave out one of them, use ridge, or agree on {FULL_DIGITS}",
                code="columns-too-alike",
            )
        values = np.linalg.eigvalsh(system.scaled_inverse)
        raise dependent_model_columns(culprits, int((values > 1e-6 * values[-1]).sum()))

    def _first_rounding(self, system: InformationSystem, n_rows: float) -> float:
        """Return the largest part of a variance that rounding may be, first sum."""
        worst, units = 0.0, self.gram_units
        for place, row in enumerate(system.inverse().tolist() if any(units) else ()):
            here = sum(
                abs(row[j] * row[k]) * float(unit) * (1.0 if j == k else 2.0)
                for (j, k), unit in zip(
                    triangle_of_model_matrix(len(row)), units, strict=True
                )
            )
            if not row[place] > 0.0:
                return inf
            worst = max(worst, here * sqrt(n_rows) / row[place])
        return worst

    def _real_diagonal(self, system: InformationSystem) -> Vector:
        """Return the diagonal of A for real columns, in float64."""
        found = []
        for k, (s, of) in enumerate(
            zip(self.columns, self.measures.design, strict=True)
        ):
            scale, first = _glm_power_of_two(-s), self.intercept
            size = system.entry(k, k) * scale * scale
            if first is not None and of.centre:
                ones = _glm_power_of_two(-self.columns[first])
                size += 2 * of.centre * system.entry(k, first) * scale * ones
                size += of.centre**2 * system.entry(first, first) * ones * ones
            found.append(float(size * of.unit * of.unit))
        return np.array(found)

    # Where no row can be outside

    def surely_inside(self, point: Vector, anchor: Vector | None) -> bool:
        """Return whether agreed ranges prove that no row is outside at a point.

        Args:
            point: the coefficients and the null model's intercept.
            anchor: a point at which no row was outside, if there was one.
        """
        return self._inside(point[:-1], anchor) and self._null_inside(point[-1], anchor)

    def _inside(self, point: Vector, anchor: FloatArray | None) -> bool:
        design = self.measures.design
        if anchor is not None:
            away = zip(design, point.tolist(), anchor.tolist()[:-1], strict=True)
            moves = [of.reach * abs(to - start) for of, to, start in away]
            parts = zip(design, point.tolist(), strict=True)
            sizes = [of.reach * abs(one) for of, one in parts]
            if fsum(moves) + SLACK * fsum(sizes) <= self.limits.margin:
                return True
        ends = [
            sorted(((of.least - of.centre) * one, (of.most - of.centre) * one))
            for of, one in zip(design, point.tolist(), strict=True)
        ]
        return self._between(ends)

    def _null_inside(self, intercept: float, anchor: Vector | None) -> bool:
        if anchor is not None and abs(intercept - anchor[-1]) <= self.limits.margin / 2:
            return True
        return self._between([[intercept, intercept]])

    def _between(self, ends: list[list[float]]) -> bool:
        offset = self.measures.offset
        if offset is not None:
            ends = [*ends, [offset.low, offset.high]]
        slack = SLACK * fsum(max(abs(low), abs(high)) for low, high in ends)
        low, high = (fsum(one[k] for one in ends) for k in (0, 1))
        return low - slack >= self.limits.low and high + slack <= self.limits.high

    def check(self, rows: Rows) -> None:
        """Refuse responses that the family never yields, and weights of nothing."""
        for block in glm_row_blocks(self.measures, rows):
            self.family.check(block.response)
            if block.weights is not None and not (block.weights > 0.0).all():
                raise InvalidInputError(
                    "weights must be above zero, and some are below half of their "
                    "unit: agree on a finer one, or leave out rows that shall not "
                    "count",
                    code="weights-too-small",
                )


def glm_bits_below(size: float) -> int:
    if not size < inf:
        raise InvalidInputError(TOO_WIDE, code="range-too-wide")
    return frexp(size)[1]


def _glm_totals_by_name(kind: type, numbers: dict[str, Fraction]) -> dict[str, Any]:
    fractions = [one.name for one in fields(kind) if one.type == "Fraction"]
    return {name: numbers.get(name, Fraction(0)) for name in fractions}


def _glm_power_of_two(exponent: int) -> Fraction:
    if exponent >= 0:
        return Fraction(1 << exponent)
    return Fraction(1, 1 << -exponent)


# What one party adds up


@dataclass(frozen=True)
class RowBlock:
    """Some rows: the design in whole numbers, all else as it is, rounded to units."""

    designs: list[FloatArray]
    response: PerRow
    weights: PerRow | None
    offset: PerRow | None

    def weigh(self, values: FloatArray) -> FloatArray:
        return values if self.weights is None else values * self.weights

    @property
    def pieces(self) -> Iterator[tuple[FloatArray, slice]]:
        for place, design in enumerate(self.designs):
            yield design, slice(place * BLOCK_ROWS, (place + 1) * BLOCK_ROWS)

    def predictor(self, point: Vector) -> PerRow:
        """Return eta, column by column in one order: no sum of BLAS's own making."""
        eta = np.empty(len(self.response))
        numbers = len(eta) * len(point)
        predict = compiled_or_plain(_predict_glm_rows, numbers) or _predict_glm_columns
        for design, piece in self.pieces:
            predict(design, point, eta[piece])
        return eta if self.offset is None else eta + self.offset

    def null_predictor(self, intercept: float) -> PerRow:
        """Return the null model's eta; without offsets it is one for all rows."""
        return intercept + (np.zeros(1) if self.offset is None else self.offset)


def _predict_glm_rows(design: Any, point: Any, eta: Any) -> None:
    # The same operations as by arrays, in the same order: the same bits.
    for i in range(len(design)):
        found = design[i, 0] * point[0]
        for j in range(1, len(point)):
            found += design[i, j] * point[j]
        eta[i] = found


def _predict_glm_columns(design: FloatArray, point: Vector, eta: PerRow) -> None:
    # One column after the other lies in memory.
    parts = np.multiply(design.T, point[:, None], order="C")
    eta[:] = parts[0]
    for part in parts[1:]:
        eta += part


def glm_row_blocks(measures: RowMeasures, rows: Rows) -> Iterator[RowBlock]:
    whole = measures.blocks(rows)
    while group := list(islice(whole, PIECES)):

        def joined(of: UnitMeasure | None, what: str) -> PerRow | None:
            parts = [getattr(one, what) for one in group]
            return (
                None
                if of is None
                else np.concatenate([_glm_real_values(of, one) for one in parts])
            )

        yield RowBlock(
            # float64 has all counts, or the nearest number to each that is too wide.
            [np.asarray(one.design, dtype=np.float64) for one in group],
            np.concatenate(
                [_glm_real_values(measures.response, one.response) for one in group]
            ),
            joined(measures.weights, "weights"),
            joined(measures.offset, "offset"),
        )


def _glm_real_values(measure: UnitMeasure, whole: Array[Any]) -> PerRow:
    """Return what counts, centres taken off, stand for, rounded alike by all."""
    top, bottom = measure.unit.numerator, measure.unit.denominator
    counts = whole + measure.centre if measure.centre else whole
    if counts.dtype == object:
        return np.array([int(one) * top / bottom for one in counts.tolist()])
    return np.asarray(counts * float(top) / float(bottom))


@lru_cache(256)  # a party's mean is the same in all rounds
def expected_glm_information_at(family: Family, mean: float) -> float:
    """Return the expected information of a row with this mean."""
    with np.errstate(divide="ignore"):
        return float(family.expected(family.link(np.array([mean])))[0])


class RoundWeights:
    """Notes the weights of rows in the information, for the check of a round.

    A weight counts as one whole row where it is the expected information at a usual
    mean: 1/2 of a probability (1/4 of a logistic regression); of counts and positive
    responses, whose weights have no largest, the party's own mean response. Nobody
    else can move that: a mean of all parties, and the null model's, follow from sums
    into which one of them may have put false numbers. Agreed weights multiply it, by
    the geometric middle of their range.

    The first round has no point, and cannot be aimed: its information follows from each
    row's own response, whose column the rules check before a run. Only rows and agreed
    weights are noted of it; one row's part of the sum of counts is 24 to 28 % at honest
    parties of 47 to 132 rows.

    Two stages have no weights. Counts of rows outside are small in honest fits. Terms
    of Pearson's sum are squared residuals, of which one honest outlier may have most;
    its point is the one of the round before, where the weights were checked.
    """

    def __init__(self, scales: GlmScales) -> None:
        self._scales, self._noted = scales, note_row_weights("the information")
        self._responses = self._rows = 0.0

    def add_rows(self, block: RowBlock) -> None:
        if self._noted is not None:
            self._noted.add(block.weigh(np.ones(len(block.response))))

    def add(self, block: RowBlock, weights: FloatArray) -> None:
        if self._noted is None:
            return
        self._noted.add(np.broadcast_to(weights, block.response.shape))
        family, agreed = self._scales.family, self._scales.measures.weights
        mean = 0.5
        if not isinstance(family, Binomial):
            self._responses += float(block.response.sum())
            self._rows += len(block.response)
            mean = self._responses / self._rows
        full = expected_glm_information_at(family, mean)
        if agreed is not None:
            full *= sqrt(max(agreed.low, float(agreed.unit)) * agreed.high)
        self._noted.full = full


class GlmRowTotals:
    def __init__(self, scales: GlmScales) -> None:
        p, design = scales.n_columns, scales.measures.design
        self.scales = scales
        self._gram = GramSum(p, limbs_of_bits(scales.root_bits))
        widest = max(one.bits for one in design)
        self._cross = CrossSum(
            p, limbs_of_bits(widest), limbs_of_bits(scales.pull_bits)
        )
        self._numbers = [0] * scales.n_numbers
        # Most columns have one power, and a root takes it over.
        powers = scales.columns
        self._usual = max(set(powers), key=powers.count)
        self._factors = np.array([2.0 ** (one - self._usual) for one in powers])
        self.weights = RoundWeights(scales)
        self.outside = 0

    def information(self, block: RowBlock, information: FloatArray) -> None:
        """Add a row's information times its columns' products."""
        weights = block.weigh(information)
        self.weights.add(block, weights)
        self._add_gram(block, weights)

    def first_information(self, block: RowBlock, information: FloatArray) -> None:
        """Add the information of the first round."""
        self.weights.add_rows(block)
        self._add_gram(block, block.weigh(information))

    def _add_gram(self, block: RowBlock, weights: FloatArray) -> None:
        root = np.sqrt(weights) * 2.0**self._usual
        for design, piece in block.pieces:
            self._gram.add_scaled(design, root[piece], self._factors)

    def pull(self, block: RowBlock, pull: FloatArray) -> None:
        scaled = np.rint(block.weigh(pull) * 2.0**self.scales.pull)
        for design, piece in block.pieces:
            self._cross.add(design, scaled[piece])

    def number(
        self, name: str, values: FloatArray, times: list[int] | None = None
    ) -> None:
        place = self.scales.places[name]
        scaled = np.rint(values * 2.0 ** self.scales.numbers[place])
        if times is None:
            self._numbers[place] += total_of_counts(
                scaled, self.scales.number_bits[place]
            )
        else:
            pairs = zip(times, scaled.tolist(), strict=True)
            self._numbers[place] += sum(count * int(one) for count, one in pairs)

    def count(self, name: str, number: int) -> None:
        place = self.scales.places[name]
        self._numbers[place] += number << self.scales.numbers[place]

    @property
    def products(self) -> Sequence[int]:
        """Sums of products: the matrix's triangle, and those of each column."""
        return [*triangle_of_matrix(self._gram.value), *self._cross.value]

    @property
    def vector(self) -> Integers:
        found = [*self.products, *self._numbers, self.outside]
        found += [0] * (self.scales.size - len(found))
        return np.array(found, dtype=object)


class FineTotals(GlmRowTotals):
    """Totals of which every product of a row is rounded to a unit of its own."""

    def __init__(self, scales: GlmScales, fineness: Fineness) -> None:
        super().__init__(scales)
        self._fineness = fineness
        self._matrix = np.ldexp(1.0, np.array(fineness.matrix, dtype=np.int64))
        self._along = np.ldexp(1.0, np.array(fineness.along, dtype=np.int64))
        p = scales.n_columns
        self._sums = [0] * (p * (p + 1) // 2 + p)

    @property
    def products(self) -> Sequence[int]:
        return self._sums

    def _add_gram(self, block: RowBlock, weights: FloatArray) -> None:
        if self._matrix.size:
            for design, piece in block.pieces:
                self._add(0, *sums_of_products(design, weights[piece], self._matrix))

    def pull(self, block: RowBlock, pull: FloatArray) -> None:
        values, start = block.weigh(pull), len(self._sums) - len(self._along)
        for design, piece in block.pieces:
            self._add(start, *glm_sums_along(design, values[piece], self._along))

    def _add(self, start: int, high: Array[Any], low: Array[Any]) -> None:
        pairs = zip(high.tolist(), low.tolist(), strict=True)
        for place, (one, other) in enumerate(pairs, start=start):
            self._sums[place] += (one << SPLIT_BITS) + other


# Sums of whole float64 are exact in two halves, the lower of so many bits.
SPLIT_BITS = 32


def _glm_split_sums(values: FloatArray) -> tuple[Array[Any], Array[Any]]:
    """Return sums over rows of whole numbers: of their upper, and lower, bits."""
    high = np.floor(values * 2.0**-SPLIT_BITS)
    low = values - high * 2.0**SPLIT_BITS
    return high.astype(np.int64).sum(axis=0), low.astype(np.int64).sum(axis=0)


def sums_of_products(
    design: FloatArray, weights: FloatArray, factors: Vector
) -> tuple[Array[Any], Array[Any]]:
    """Return sums of rint(weight x column x column x factor), upper and lower bits.

    Args:
        design: rows of one block.
        weights: of these rows.
        factors: for the lower triangle of columns, row by row.
    """
    quick = compiled_or_plain(_glm_product_sums, len(design) * len(factors))
    if quick is not None:
        high, low = (np.zeros(len(factors), dtype=np.int64) for _ in range(2))
        quick(design, weights, factors, high, low)
        return high, low
    found, start = [], 0
    for j in range(design.shape[1]):
        products = design[:, : j + 1] * design[:, j : j + 1]
        scaled = weights[:, None] * products * factors[start : start + j + 1]
        found.append(_glm_split_sums(np.rint(scaled)))
        start += j + 1
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])


def _glm_product_sums(
    design: Any, weights: Any, factors: Any, high: Any, low: Any
) -> None:
    # The same operations as by arrays, in the same order: the same bits.
    upper = 4294967296.0
    for i in range(design.shape[0]):
        place = 0
        for j in range(design.shape[1]):
            for k in range(j + 1):
                product = design[i, k] * design[i, j]
                value = np.rint(weights[i] * product * factors[place])
                top = np.floor(value / upper)
                high[place] += np.int64(top)
                low[place] += np.int64(value - top * upper)
                place += 1


def glm_sums_along(
    design: FloatArray, values: FloatArray, factors: Vector
) -> tuple[Array[Any], Array[Any]]:
    """Return sums of rint(value x column x factor), upper and lower bits."""
    return _glm_split_sums(np.rint(values[:, None] * design * factors))


class GlmRowContributions(GlmRowTotals):
    """Keeps each row's part of every number of a sum, in units.

    Rows outside, and counts to which every row adds the same, are left at 0. So is the
    rounding of a row.
    """

    def __init__(
        self, scales: GlmScales, fineness: Fineness | None, n_rows: int
    ) -> None:
        super().__init__(scales)
        pairs = triangle_of_model_matrix(scales.n_columns)
        matrix = [scales.columns[j] + scales.columns[k] for j, k in pairs]
        along = [scales.pull] * scales.n_columns
        if fineness is not None:
            matrix, along = [*fineness.matrix], [*fineness.along]
        self._matrix, self._along = (
            np.ldexp(1.0, np.array(powers, dtype=np.int64))
            for powers in (matrix, along)
        )
        self.rows = np.zeros((n_rows, scales.size))
        self._start = 0

    def begin(self, block: RowBlock) -> None:
        """Go on with the next block of rows."""
        self._responses = block.response
        self._block = self.rows[self._start : self._start + len(block.response)]
        self._start += len(block.response)

    def _add_gram(self, block: RowBlock, weights: FloatArray) -> None:
        if not self._matrix.size:
            return
        left, right = np.tril_indices(self.scales.n_columns)
        for design, piece in block.pieces:
            products = design[:, left] * design[:, right] * self._matrix
            self._block[piece, : len(left)] = weights[piece, None] * products

    def pull(self, block: RowBlock, pull: FloatArray) -> None:
        p = self.scales.n_columns
        start, values = p * (p + 1) // 2, block.weigh(pull)
        for design, piece in block.pieces:
            scaled = design * self._along * values[piece, None]
            self._block[piece, start : start + p] = scaled

    def number(
        self, name: str, values: FloatArray, times: list[int] | None = None
    ) -> None:
        p, place = self.scales.n_columns, self.scales.places[name]
        if times is not None:  # one value for each level of the response
            levels = np.array(self.scales.family.levels)
            values = values[np.searchsorted(levels, self._responses)]
        at = p * (p + 1) // 2 + p + place
        self._block[:, at] = values * 2.0 ** self.scales.numbers[place]

    def count(self, name: str, number: int) -> None:
        pass


def glm_contributions(scales: GlmScales, rows: Rows, request: GlmRequest) -> FloatArray:
    """Return each row's part of `glm_statistics`, in units."""
    noted = GlmRowContributions(scales, glm_fineness_of(scales, request), rows.n_rows)
    for block in glm_row_blocks(scales.measures, rows):
        noted.begin(block)
        _add_glm_block(noted, block, request)
    return noted.rows


def glm_fineness_of(scales: GlmScales, request: GlmRequest) -> Fineness | None:
    """Return the fineness of a request's sum; None where products have no units."""
    if request.stage == "first" and scales.has_fineness:
        return scales.first_fineness
    return request.fineness


def glm_statistics(scales: GlmScales, rows: Rows, request: GlmRequest) -> Integers:
    """Return one party's answer to a request; the parties' answers are to be added."""
    point, p = request.point, scales.n_columns
    if request.stage != "first" and point.shape != (p + 1,):
        raise InvalidInputError(
            f"a point has {p} coefficients and one number more, "
            f"found shape {point.shape}",
            code="wrong-shape",
        )
    fineness = glm_fineness_of(scales, request)
    totals = GlmRowTotals(scales) if fineness is None else FineTotals(scales, fineness)
    for block in glm_row_blocks(scales.measures, rows):
        _add_glm_block(totals, block, request)
    return totals.vector


def _add_glm_block(totals: GlmRowTotals, block: RowBlock, request: GlmRequest) -> None:
    point = request.point
    match request.stage:
        case "first":
            _add_first_glm_sum(totals, block)
        case "outside":
            _add_outside_glm_sum(totals, block, point)
        case "round" | "means" | "last" if totals.scales.has_fineness:
            _add_glm_means(totals, block, request)
        case "round":
            _add_glm_round(totals, block, point)
        case "pearson":
            _add_glm_pearson(totals, block, point)
        case "closing":
            _add_glm_closing(totals, block, point)
        case "score":
            _add_glm_score(totals, block, point)


def _add_first_glm_sum(totals: GlmRowTotals, block: RowBlock) -> None:
    scales, n = totals.scales, len(block.response)
    family = scales.family
    offset, weights = block.offset, block.weigh(np.ones(n))
    if scales.has_fineness:
        totals.first_information(block, np.ones(n))
        totals.pull(block, scales.response_counts(block.response))
        if scales.sums_peak:
            totals.number("peak", block.weigh(family.peak(block.response)))
        if offset is not None and scales.responses_once:
            products = offset * block.response
            totals.number("response_offset_sum", block.weigh(products))
    else:
        information, target = family.first(block.response)
        totals.first_information(block, information)
        target = target if offset is None else target - offset
        totals.pull(block, information * target)
    if offset is not None:
        totals.number("offset_sum", block.weigh(offset))
    totals.count("n_rows", n)
    if "weight_sum" in scales.places:
        totals.number("weight_sum", weights)
        totals.number("response_sum", block.weigh(block.response))
    if "saturated" in scales.places and not scales.closes:
        totals.number("saturated", family.saturated(block.response, weights, 1.0))


def _add_outside_glm_sum(totals: GlmRowTotals, block: RowBlock, point: Vector) -> None:
    limits = totals.scales.limits
    totals.outside += _glm_rows_outside(limits, block.predictor(point[:-1]), asked=True)
    away = _glm_rows_outside(limits, block.null_predictor(point[-1]), asked=True)
    totals.count(
        "null_outside",
        away if block.offset is not None else away * len(block.response),
    )


def _glm_predictor_inside(
    totals: GlmRowTotals, block: RowBlock, point: Vector
) -> PerRow:
    eta = block.predictor(point[:-1])
    check_means_allowed(totals.scales.limits, eta)
    return eta


def _add_glm_round(totals: GlmRowTotals, block: RowBlock, point: Vector) -> None:
    scales, eta = totals.scales, _glm_predictor_inside(totals, block, point)
    null_eta = block.null_predictor(point[-1])
    check_means_allowed(scales.limits, null_eta)
    found = scales.family.terms(block.response, eta)
    totals.information(block, found.curvature)
    totals.pull(block, found.pull)
    totals.number("deviance", block.weigh(found.deviance))
    if scales.sums_pearson:
        totals.number("pearson", block.weigh(found.pearson))
    response, times = block.response, None
    if scales.family.levels and block.weights is None and block.offset is None:
        # Rows that are alike are counted.
        response = np.array(scales.family.levels)
        times = [int((block.response == one).sum()) for one in response]
    null = scales.family.terms(response, np.broadcast_to(null_eta, response.shape))
    totals.number("null_score", block.weigh(null.pull), times)
    totals.number("null_information", block.weigh(null.curvature), times)
    totals.number("null_deviance", block.weigh(null.deviance), times)


def _add_glm_means(totals: GlmRowTotals, block: RowBlock, request: GlmRequest) -> None:
    point = request.point
    family, eta = totals.scales.family, _glm_predictor_inside(totals, block, point)
    terms = _GlmMeanTerms(totals.scales, block, eta)
    totals.information(block, family.expected(eta))
    totals.pull(block, terms.means)
    if totals.scales.sums_cumulants(request.stage):
        totals.number("cumulants", block.weigh(terms.cumulants))
    if block.offset is not None:
        null_eta = block.null_predictor(point[-1])
        check_means_allowed(totals.scales.limits, null_eta)
        terms = _GlmMeanTerms(totals.scales, block, null_eta)
        totals.number("null_mean", block.weigh(terms.means))
        totals.number("null_information", block.weigh(family.expected(null_eta)))
        totals.number("null_cumulants", block.weigh(terms.cumulants))


@dataclass(frozen=True)
class _GlmMeanTerms:
    """Rows' parts of `MeanStatistics`."""

    scales: GlmScales
    block: RowBlock
    eta: PerRow

    @property
    def means(self) -> FloatArray:
        if self.scales.responses_once:
            return self.scales.family.inverse_link(self.eta)
        return -self._terms.pull

    @property
    def cumulants(self) -> FloatArray:
        if self.scales.responses_once:
            return self.scales.family.cumulant(self.eta)
        return self._terms.deviance / 2.0

    @cached_property
    def _terms(self) -> RowTerms:
        return self.scales.family.terms(self.block.response, self.eta)


def _add_glm_pearson(totals: GlmRowTotals, block: RowBlock, point: Vector) -> None:
    eta = _glm_predictor_inside(totals, block, point)
    family = totals.scales.family
    pearson = block.weigh(family.terms(block.response, eta).pearson)
    if not family.estimates_dispersion:
        pearson = np.rint(pearson * 2.0**PEARSON) * 2.0**-PEARSON
    totals.number("pearson", pearson)


def _add_glm_closing(totals: GlmRowTotals, block: RowBlock, point: Vector) -> None:
    eta = _glm_predictor_inside(totals, block, point)
    family = totals.scales.family
    if not totals.scales.has_fineness:
        totals.information(block, family.expected(eta))
    weights = block.weigh(np.ones(len(eta)))
    saturated = family.saturated(block.response, weights, float(point[-1]))
    totals.number("saturated", saturated)


def _add_glm_score(totals: GlmRowTotals, block: RowBlock, point: Vector) -> None:
    eta = _glm_predictor_inside(totals, block, point)
    family = totals.scales.family
    totals.information(block, family.expected(eta))
    totals.pull(block, family.terms(block.response, eta).pull)


def _glm_rows_outside(limits: RowBounds, eta: PerRow, *, asked: bool = False) -> int:
    margin = limits.margin if asked else 0.0
    # Written so that nan is outside too.
    inside = (eta >= limits.low + margin) & (eta <= limits.high - margin)
    return int(np.count_nonzero(~inside))


def check_means_allowed(limits: RowBounds, eta: PerRow) -> None:
    """Refuse to go on where a row has no mean that the family allows."""
    if _glm_rows_outside(limits, eta):
        raise NumericalError(
            "statistics were asked for at a point where a row has no mean, and all "
            "rows had been found to have one: the sum before went wrong",
            code="internal",
        )


@dataclass(frozen=True)
class GlmFit(Inference):
    """The fit of the pooled rows; one that did not converge does not exist.

    Where the dispersion is estimated the tests are Student's, as in R; else normal.

    Attributes:
        model_degrees: coefficients in effect: p, or less with a ridge.
        null_deviance: of a model with an intercept, and the offset, alone.
        pearson: the sum of w (y - mu)^2 / variance; nan where responses are 0 and 1.
        dispersion: Pearson's sum over its degrees of freedom, or 1 if the law fixes it.
        log_likelihood: at that dispersion; the gaussian's is at deviance / n.
        condition: of the scaled information.
        deviance_error: what rounding to the agreed digits may have made of the
            deviance and of twice the log-likelihood, at most; 0 with other links.
    """

    family: Family
    model_degrees: float
    residual_degrees: float
    deviance: float
    null_deviance: float
    pearson: float
    dispersion: float
    log_likelihood: float
    n_rows: int
    rounds: int
    condition: float
    deviance_error: float = field(default=0.0, kw_only=True)

    @property
    def scale(self) -> float:
        return self.dispersion

    @property
    def aic(self) -> float:
        """-2 log-likelihood + 2 model degrees; the dispersion is not counted."""
        return 2.0 * (self.model_degrees - self.log_likelihood)

    @property
    def bic(self) -> float:
        """-2 log-likelihood + log(rows) model degrees; neither is it here."""
        return float(np.log(self.n_rows) * self.model_degrees) - (
            2.0 * self.log_likelihood
        )


@dataclass(frozen=True)
class GlmOutcome:
    first: FirstStatistics
    sums: RoundStatistics
    here: Vector
    step: Vector
    null_deviance: Fraction
    rounds: int


def glm_fit_from_outcome(
    scales: GlmScales,
    outcome: GlmOutcome,
    closing: ClosingStatistics,
    *,
    names: tuple[str, ...],
    penalty: Sequence[Fraction],
) -> GlmFit:
    """Return the fit; standard errors are sqrt diag(phi A^-1 I A^-1)."""
    family, sums = scales.family, outcome.sums
    n_rows = float(outcome.first.n_rows)
    system = scales.system(closing.information, penalty, names)
    degrees = scales.system(sums.information, penalty, names).degrees
    dispersion = estimated_dispersion(family, sums.pearson, n_rows, degrees)
    deviance = float(sums.deviance)
    likelihood = LikelihoodSums(deviance, float(closing.saturated), n_rows, dispersion)
    return GlmFit(
        names=names,
        coefficients=scales.real(outcome.here, outcome.step),
        covariance=dispersion * scales.covariance(system),
        t_degrees=n_rows - degrees if family.estimates_dispersion else None,
        family=family,
        model_degrees=degrees,
        residual_degrees=n_rows - degrees,
        deviance=deviance,
        null_deviance=float(outcome.null_deviance),
        pearson=_glm_pearson_sum(scales, sums),
        dispersion=dispersion,
        log_likelihood=family.log_likelihood(likelihood),
        n_rows=round(n_rows),
        rounds=outcome.rounds,
        condition=system.condition,
        deviance_error=scales.deviance_error(sums, n_rows),
    )


def _glm_pearson_sum(scales: GlmScales, sums: RoundStatistics) -> float:
    """Return Pearson's sum: inf where a row may have had more, nan if not summed."""
    weights = scales.measures.weights
    least = 1 if weights is None else max(weights.least, 1) * weights.unit
    if not scales.sums_pearson:
        return nan
    held = sums.pearson >= least * Fraction(CEILING)
    return (
        inf if held and not scales.family.estimates_dispersion else float(sums.pearson)
    )


def estimated_dispersion(
    family: Family, pearson: Fraction, n_rows: float, degrees: float
) -> float:
    """Return Pearson's estimate of phi, or the 1 of a law that fixes it."""
    if not family.estimates_dispersion:
        return 1.0
    check_model_rows(n_rows, degrees)
    return float(pearson / Fraction(n_rows - degrees))
