"""Choices among several levels, from sums: multinomial and ordinal logistic fits.

A response is one of K levels, 0 to K - 1. A row has K - 1 predictors, one number each,
and a linear map leads from coefficients to them:

    multinomial   eta_k = a_k + x b_k       log odds of level k against the first
    ordinal       eta_k = theta_k - x b     log odds of level k or below (proportional)

The first sum counts the rows of each level, from which everybody knows the model
without columns: where Newton's method sets out, and what a fit is compared with. Every
further sum has information, score and log-likelihood at a public point, of whole
numbers as in `glm`, with the units of a logistic regression. The link of a multinomial
fit is canonical: its first sum has X'y of each level too, and the others have chances
and cumulants in the place of score and log-likelihood, which follow. No response is in
them.

A row's information in its predictors is a matrix W, and V'V has to be positive whatever
is rounded. So W is taken apart into a sum of r r', each r rounded times the row:

    multinomial   W = diag(p) - pp', level by level: a level against all that are left
                  is a logistic regression, and tells how these share what it takes
    ordinal       the chance of level k is F(u) (1 - F(l)) (1 - e^-d), u and l the
                  predictors above and below it and d = u - l. So a row is two rows of
                  logistic regressions, one for each, and d is the same in all rows of
                  a level: that part is computed from the counts, by everybody.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import ceil, fsum
from typing import Any, ClassVar

import numpy as np
from flint import arb, arb_mat, fmpq

from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError
from veilsum.models.families import Binomial, Family
from veilsum.models.glm import DEPENDENT, GlmFit, GlmRequest, GlmScales
from veilsum.models.newton import (
    NewtonClimb,
    NewtonEvaluation,
    endless_newton_direction,
    fading_newton_direction,
    few_rows_open,
    greatest_coefficients_of_model,
    newton_grows_endlessly,
    too_few_open,
    weakest_model_information,
)
from veilsum.models.plausible import check_plausible_matrix, check_plausible_total
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.systems import (
    InformationSystem,
    check_model_rows,
    dependent_model_columns,
    nearest_float_covariances,
    nearest_float_solution,
    system_number_as_fmpq,
    system_rows_as_balls,
)
from veilsum.models.weights import note_row_weights
from veilsum.numbers.arrays import Array, FloatArray, Vector, listed_names
from veilsum.numbers.elementary import exp, log1p
from veilsum.numbers.layout import (
    NumberLayout,
    RowRange,
    layout_array,
    layout_number,
    layout_padding,
    layout_symmetric as symmetric_sum,
    layout_vector,
    range_within_bits,
    union_of_columns,
)
from veilsum.numbers.shapes import Float
from veilsum.numbers.units import (
    CrossSum,
    GramSum,
    Integers,
    limbs_of_bits,
    sum_bits,
    total_of_counts,
)

# No predictor is farther from 0: agreed ranges prove it, or a step is halved.
FAR_BITS = 40
FAR = 2.0**FAR_BITS
# Log-likelihoods have so many bits below 1, and so many above.
LOSS, LOSS_ABOVE = 44, FAR_BITS + 2


@dataclass(frozen=True)
class ChoiceTerms:
    """Contributions of rows at their predictors: K - 1 numbers per row, except `loss`.

    Attributes:
        pulls: the slope of the log-likelihood in each predictor; with a canonical link
            the part without responses, a negated probability.
        roots: arrays r, one after the other; the information is the sum of r r'.
        loss: the negated log-likelihood; with a canonical link its cumulant.
    """

    pulls: FloatArray
    roots: tuple[FloatArray, ...]
    loss: FloatArray


class ChoiceModel(Family):
    """A response that is one of three levels or more.

    Arrays with an axis of K - 1 predictors and, after it, one of P columns, of which
    `ones` is all ones, become ones with an axis of coefficients, and back.
    """

    limbs = 2
    fitted_by = "choice"
    ratio = "an odds ratio"
    # Whether responses are in the first sum alone.
    responses_once: ClassVar[bool] = False
    # What stands in for an intercept, and what coefficients say.
    intercepts: str
    reading: str

    @abstractmethod
    def labels(
        self, levels: Sequence[str], columns: Sequence[str], ones: int
    ) -> tuple[str, ...]:
        """Return what each coefficient is called."""

    @abstractmethod
    def columns(self, shape: tuple[int, int], ones: int) -> list[int]:
        """Return which column each coefficient is of."""

    @abstractmethod
    def spread(self, point: Array[Any], shape: tuple[int, int], ones: int) -> Any:
        """Return the coefficients of each predictor's columns."""

    @abstractmethod
    def gather(self, parts: Array[Any], ones: int) -> Array[Any]:
        """Return what parts of predictors' columns are along coefficients."""

    @abstractmethod
    def borders(
        self, ones: Sequence[int], counts: Sequence[int]
    ) -> list[tuple[list[int], int]]:
        """Return intercepts whose information is of rows next to a border of levels.

        And the number of rows on the rarer side of it.

        Args:
            ones: the places of intercepts, one for each predictor.
            counts: rows of each level.
        """

    @abstractmethod
    def rows(self, codes: FloatArray, eta: FloatArray) -> ChoiceTerms:
        """Return what rows contribute at their predictors."""

    @abstractmethod
    def probabilities(self, eta: FloatArray) -> FloatArray:
        """Return the chance of each level, in float64."""

    @abstractmethod
    def start(self, counts: Sequence[int]) -> list[fmpq]:
        """Return exp of the predictors of a model without columns."""

    def is_allowed(self, predictors: Vector) -> bool:
        """Say whether predictors of one row leave every level a chance."""
        return True

    def shared(
        self, predictors: Vector, counts: Sequence[int]
    ) -> tuple[Fraction, list[Fraction], dict[tuple[int, int], Fraction]]:
        """Return what follows from counts: log-likelihood, slopes, information."""
        return Fraction(0), [Fraction(0)] * len(predictors), {}

    def check(self, response: FloatArray) -> None:
        """Take every level: the schema has them."""


class Multinomial(ChoiceModel):
    """Each level but the first has coefficients of its own, against the first."""

    name = "multinomial"
    responses_once = True
    endless = "separation: it tells a level from others without fail"
    intercepts = "every level but the first has an intercept of its own"
    reading = "Coefficients are log odds of a level against {first!r}, the first."

    def labels(
        self, levels: Sequence[str], columns: Sequence[str], ones: int
    ) -> tuple[str, ...]:
        return tuple(f"{level}: {name}" for level in levels[1:] for name in columns)

    def n_coefficients(self, n_columns: int, n_levels: int) -> int:
        return n_columns * (n_levels - 1)

    def columns(self, shape: tuple[int, int], ones: int) -> list[int]:
        return [*range(shape[1])] * shape[0]

    def spread(self, point: Array[Any], shape: tuple[int, int], ones: int) -> Any:
        return point.reshape(shape)

    def gather(self, parts: Array[Any], ones: int) -> Array[Any]:
        return parts.reshape(*parts.shape[:-2], -1)

    def borders(
        self, ones: Sequence[int], counts: Sequence[int]
    ) -> list[tuple[list[int], int]]:
        """Return each level but the first against all others, then the first."""
        places = [*([one] for one in ones), list(ones)]
        pairs = zip(places, [*counts[1:], counts[0]], strict=True)
        return [(at, min(n, sum(counts) - n)) for at, n in pairs]

    def rows(self, codes: FloatArray, eta: FloatArray) -> ChoiceTerms:
        """Return them by odds against the likeliest level, which has all its digits."""
        every = np.concatenate([np.zeros((len(eta), 1)), eta], axis=1)
        likeliest = every.argmax(axis=1)[:, None]
        most = np.take_along_axis(every, likeliest, axis=1)
        odds = exp(every - most)  # 1 for the likeliest
        others = odds.copy()
        np.put_along_axis(others, likeliest, 0.0, axis=1)
        beyond = _add_choice_columns(others)
        chance = odds / (1.0 + beyond)[:, None]
        loss = log1p(beyond) + most[:, 0]
        return ChoiceTerms(-chance[:, 1:], self._roots(odds, chance), loss)

    def _roots(self, odds: FloatArray, chance: FloatArray) -> tuple[FloatArray, ...]:
        """Return how each level stands against the first and all that come after it."""
        found = []
        left = odds[:, 0]
        for level in range(odds.shape[1] - 1, 0, -1):
            both = left + odds[:, level]
            root = np.sqrt(chance[:, level] * _ratio_of_choice_chances(left, both))
            along = np.zeros((len(odds), odds.shape[1] - 1))
            along[:, level - 1] = root
            for later in range(level + 1, odds.shape[1]):
                along[:, later - 1] = -(
                    root * _ratio_of_choice_chances(odds[:, later], left)
                )
            found.append(along)
            left = both
        return tuple(found)

    def probabilities(self, eta: FloatArray) -> FloatArray:
        every = np.concatenate([np.zeros((len(eta), 1)), eta], axis=1)
        odds = np.exp(every - every.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def start(self, counts: Sequence[int]) -> list[fmpq]:
        return [fmpq(one, counts[0]) for one in counts[1:]]


class Ordinal(ChoiceModel):
    """Levels in their order, one coefficient a column: proportional odds."""

    name = "ordinal"
    ordered = True
    endless = "separation: it tells lower levels from higher ones without fail"
    intercepts = "thresholds between levels stand in for an intercept"
    reading = (
        "Coefficients are log odds of a higher level. A threshold a|b is the log odds "
        "of a or below where all columns are 0."
    )

    def labels(
        self, levels: Sequence[str], columns: Sequence[str], ones: int
    ) -> tuple[str, ...]:
        names = [name for k, name in enumerate(columns) if k != ones]
        return (*names, *(f"{a}|{b}" for a, b in pairwise(levels)))

    def n_coefficients(self, n_columns: int, n_levels: int) -> int:
        return n_columns - 1 + n_levels - 1

    def columns(self, shape: tuple[int, int], ones: int) -> list[int]:
        return [*_other_choice_levels(ones, shape[1]), *[ones] * shape[0]]

    def spread(self, point: Array[Any], shape: tuple[int, int], ones: int) -> Any:
        n_slopes = shape[1] - 1
        found = np.zeros(shape, dtype=point.dtype)
        found[:, _other_choice_levels(ones, shape[1])] = -point[:n_slopes]
        found[:, ones] = point[n_slopes:]
        return found

    def gather(self, parts: Array[Any], ones: int) -> Array[Any]:
        slopes = -parts[..., _other_choice_levels(ones, parts.shape[-1])].sum(axis=-2)
        return np.concatenate([slopes, parts[..., ones]], axis=-1)

    def borders(
        self, ones: Sequence[int], counts: Sequence[int]
    ) -> list[tuple[list[int], int]]:
        """Return each threshold: of the rows of the levels on its two sides."""
        pairs = zip(ones, pairwise(counts), strict=True)
        return [([one], min(sides)) for one, sides in pairs]

    def rows(self, codes: FloatArray, eta: FloatArray) -> ChoiceTerms:
        """Return those of two logistic regressions: above the level, and below it."""
        thresholds = np.arange(eta.shape[1])
        above, below = (codes[:, None] == thresholds + k for k in (0, 1))
        happened = (eta >= 0.0) == above
        odds = exp(-np.abs(eta))
        larger = 1.0 / (1.0 + odds)
        smaller = odds * larger
        missed = np.where(happened, smaller, larger)
        loss = log1p(odds) + np.where(happened, 0.0, np.abs(eta))
        root = np.sqrt(smaller * larger)
        return ChoiceTerms(
            np.where(above, missed, np.where(below, -missed, 0.0)),
            tuple(np.where(where, root, 0.0) for where in (above, below)),
            _add_choice_columns(np.where(above | below, loss, 0.0)),
        )

    def probabilities(self, eta: FloatArray) -> FloatArray:
        one = np.ones((len(eta), 1))
        up_to = np.concatenate([0.0 * one, 1.0 / (1.0 + np.exp(-eta)), one], axis=1)
        return np.diff(up_to, axis=1)

    def start(self, counts: Sequence[int]) -> list[fmpq]:
        below = np.cumsum(np.array(counts, dtype=object)).tolist()
        return [fmpq(one, below[-1] - one) for one in below[:-1]]

    def is_allowed(self, predictors: Vector) -> bool:
        return bool((np.diff(predictors) > 0.0).all())

    def shared(
        self, predictors: Vector, counts: Sequence[int]
    ) -> tuple[Fraction, list[Fraction], dict[tuple[int, int], Fraction]]:
        """Return the parts of log(1 - e^-d): they depend on thresholds alone."""
        exact = [Fraction(one) for one in predictors.tolist()]
        gaps = [system_number_as_fmpq(b - a) for a, b in pairwise(exact)]

        def balls() -> list[arb]:
            found: list[arb] = []
            for gap in gaps:
                width = arb(gap)
                short = -(-width).expm1()  # 1 - e^-d
                found += [
                    short.log(),
                    1 / width.expm1(),
                    (-width).exp() / (short * short),
                ]
            return found

        parts = [Fraction(one) for one in nearest_float_solution(balls).tolist()]
        value, slopes = Fraction(0), [Fraction(0)] * len(exact)
        matrix: dict[tuple[int, int], Fraction] = {}
        for k in range(len(gaps)):
            number = counts[k + 1]
            height, slope, curvature = (
                number * one for one in parts[3 * k : 3 * k + 3]
            )
            value += height
            slopes[k + 1] += slope
            slopes[k] -= slope
            for i, j in ((k, k), (k + 1, k + 1)):
                matrix[i, j] = matrix.get((i, j), Fraction(0)) + curvature
            for i, j in ((k, k + 1), (k + 1, k)):
                matrix[i, j] = -curvature
        return value, slopes, matrix


def _add_choice_columns(columns: FloatArray) -> FloatArray:
    found = columns[:, 0]
    for one in columns.T[1:]:
        found = found + one
    return found


def _ratio_of_choice_chances(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return part over whole; 0 where both have vanished."""
    return np.where(whole > 0.0, part / np.where(whole > 0.0, whole, 1.0), 0.0)


def _other_choice_levels(place: int, n: int) -> list[int]:
    return [k for k in range(n) if k != place]


# What parties sum, and what one of them adds up


@dataclass(frozen=True)
class ChoiceSums:
    """Sums over rows at a point.

    Attributes:
        information: V'V, in the coordinates of V: coefficients divided by 2^s.
        score: for coefficients of columns counted in whole numbers.
        loss: the negated log-likelihood, without terms that follow from counts.

    With a canonical link `with_responses` adds the responses to score and loss.
    """

    information: Integers
    score: tuple[Fraction, ...]
    loss: Fraction

    def with_responses(self, cross: Sequence[Fraction], point: Vector) -> ChoiceSums:
        score = tuple(a + b for a, b in zip(self.score, cross, strict=True))
        fitted = zip(map(Fraction, point.tolist()), cross, strict=True)
        loss = self.loss - sum((a * b for a, b in fitted), Fraction(0))
        return replace(self, score=score, loss=loss)


@dataclass(frozen=True, eq=False)
class ChoiceScales:
    """In what units a choice's rows are summed; all of it follows from the agreement.

    Attributes:
        base: the units of a logistic regression on the same columns, which no root and
            no pull of a choice exceeds.
    """

    family: ChoiceModel
    base: GlmScales
    ones: int
    n_levels: int

    @classmethod
    def of(cls, family: ChoiceModel, measures: RowMeasures, ones: int) -> ChoiceScales:
        n_levels = measures.response.most - measures.response.least + 1
        return cls(family, GlmScales.of(Binomial(), measures, ones), ones, n_levels)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_levels - 1, self.base.n_columns

    @cached_property
    def columns(self) -> list[int]:
        return self.family.columns(self.shape, self.ones)

    @property
    def size(self) -> int:
        return len(self.columns)

    @cached_property
    def powers(self) -> tuple[int, ...]:
        return tuple(self.base.columns[k] for k in self.columns)

    @cached_property
    def layouts(self) -> Mapping[str, NumberLayout]:
        """Layouts by stage: rows of each level first, then information and score.

        The first sum of a canonical link has X'y in the place of the score.
        """
        design, rows = self.base.measures.design, self.base.measures.row_bits
        units = [design[k].unit for k in self.columns]
        pairs = zip(units, self.powers, strict=True)
        scaled = [unit / Fraction(2) ** s for unit, s in pairs]
        pulls = [one / Fraction(2) ** self.base.pull for one in units]
        widest = max(one.bits for one in design)
        square = sum_bits([self.base.root_bits, self.base.root_bits], rows)
        # The slopes of an ordinal fit add up those of two predictors a row.
        cross = sum_bits([widest, self.base.pull_bits, 1], rows)
        once, levels = (
            self.family.responses_once,
            layout_array("level_rows", self.n_levels),
        )
        everything = self.base.measures.columns
        response = self.base.measures.response.columns
        roots = [range_within_bits(self.base.root_bits, everything)] * self.size
        widths = [design[k].bits + self.base.pull_bits + 1 for k in self.columns]
        along = [range_within_bits(one, everything) for one in widths]
        information = symmetric_sum("choice_information", scaled, square, roots)
        score = layout_vector(
            "chance_cross" if once else "choice_score", pulls, cross, along
        )
        loss = layout_number(
            "choice_cumulants" if once else "choice_log_likelihood",
            Fraction(1, 1 << LOSS),
            sum_bits([LOSS + LOSS_ABOVE], rows),
            range_within_bits(LOSS + LOSS_ABOVE, everything),
        )
        levels = replace(levels, ranges=(RowRange(0, 1, response),) * self.n_levels)
        crossed = tuple(
            range_within_bits(one, union_of_columns(design[k].columns, response))
            for one, k in zip(widths, self.columns, strict=True)
        )
        first = layout_padding(self.size)
        if once:
            first = replace(score, key="level_cross", ranges=crossed)
        empty = layout_padding(information.size), layout_padding(self.n_levels)
        return {
            "first": NumberLayout((empty[0], first, layout_padding(1), levels)),
            "round": NumberLayout((information, score, loss, empty[1])),
        }

    def _scores(self, numbers: Iterable[int]) -> tuple[Fraction, ...]:
        unit = 1 / Fraction(2) ** self.base.pull
        return tuple(int(one) * unit for one in numbers)

    def opening(self, total: Integers) -> tuple[tuple[int, ...], tuple[Fraction, ...]]:
        """Return rows of each level, and X'y of a canonical link, else 0."""
        parts = self.layouts["first"].unpack(total)
        cross = self._scores(parts.get("level_cross", (0,) * self.size))
        return tuple(map(int, parts["level_rows"])), cross

    def sums(self, total: Integers) -> ChoiceSums:
        information, score, loss = self.layouts["round"].unpack(total).values()
        return ChoiceSums(information, self._scores(score), Fraction(loss, 1 << LOSS))

    def far(self, point: Vector) -> bool:
        """Say whether agreed ranges leave a predictor too far from 0."""
        reaches = [one.reach for one in self.base.measures.design]
        each = self.family.spread(point, self.shape, self.ones).tolist()
        return not all(
            fsum(abs(one) * reach for one, reach in zip(line, reaches, strict=True))
            <= FAR
            for line in each
        )

    def at_centres(self, point: Vector) -> Float[FloatArray, " predictors"]:
        """Return the predictors of a row whose columns are all 0, centres taken off."""
        found = self.family.spread(point, self.shape, self.ones)[:, self.ones]
        return np.asarray(found, dtype=np.float64)

    def real(self, point: Sequence[Fraction]) -> list[Fraction]:
        """Return coefficients of whole numbers as those of the real columns."""
        design = self.base.measures.design
        given = self.family.spread(
            np.array(point, dtype=object), self.shape, self.ones
        ).tolist()
        found = np.empty(self.shape, dtype=object)
        for k, line in enumerate(given):
            found[k] = [one / of.unit for one, of in zip(line, design, strict=True)]
            pairs = zip(line, design, strict=True)
            found[k, self.ones] -= sum(one * of.centre for one, of in pairs)
        if isinstance(self.family, Ordinal):
            # All predictors have the same slopes: those of one are gathered.
            found[1:, _other_choice_levels(self.ones, self.shape[1])] = Fraction(0)
        return list(self.family.gather(found, self.ones))

    def covariance(self, system: InformationSystem) -> FloatArray:
        units = np.diag(np.array([Fraction(2) ** s for s in self.powers])).tolist()
        columns = [self.real([Fraction(one) for one in line]) for line in units]

        def balls() -> arb_mat:
            by = system_rows_as_balls(columns)
            return by.transpose() * system.inverse_balls() * by

        return nearest_float_covariances(balls)


class ChoiceWeights:
    """Notes the weights of rows in the information: of each predictor, and of all.

    Each is a sum of its own, by which a round can be aimed at one row. The information
    of all predictors together is that of the first level, or of slopes that all of
    them share. As in a logistic regression, 1/4 counts as one whole row.
    """

    def __init__(self, n_predictors: int) -> None:
        names = [f"the information of predictor {k + 1}" for k in range(n_predictors)]
        noted = [
            note_row_weights(name, 0.25) for name in (*names, "the information of all")
        ]
        self._noted = [one for one in noted if one is not None]

    def add(self, roots: Sequence[FloatArray]) -> None:
        if not self._noted:
            return
        each = sum(root * root for root in roots)
        every = sum(root.sum(axis=1) ** 2 for root in roots)
        for noted, weights in zip(
            self._noted, (*np.transpose(each), every), strict=True
        ):
            noted.add(weights)


def statistics(scales: ChoiceScales, rows: Rows, request: GlmRequest) -> Integers:
    """Return one party's answer to a request; the parties' answers are to be added."""
    q, (n_predictors, n_columns) = scales.size, scales.shape
    base, design = scales.base, scales.base.measures.design
    layout = scales.layouts[request.stage]
    if request.stage == "first":
        codes = rows.response.astype(np.int64)
        levels = np.bincount(codes, minlength=scales.n_levels)
        if not scales.family.responses_once:
            return layout.pack(level_rows=levels)
    elif request.point.shape != (q,) or scales.far(request.point):
        raise NumericalError(
            "sums were asked for at a point where agreed ranges leave predictors too "
            "far from 0: the sum before went wrong",
            code="internal",
        )
    widest = limbs_of_bits(max(one.bits for one in design))
    scores = [
        CrossSum(n_columns, widest, limbs_of_bits(base.pull_bits))
        for _ in range(n_predictors)
    ]
    gram = GramSum(q, limbs_of_bits(base.root_bits))
    factors = np.array([2.0**one for one in scales.powers])
    weights = ChoiceWeights(n_predictors)
    loss = 0
    for block in base.measures.blocks(rows):
        columns = np.asarray(block.design, dtype=np.float64)
        level: FloatArray = (block.response + base.measures.response.centre) * 1.0
        if request.stage == "first":
            for k, score in enumerate(scores, start=1):
                score.add(columns, (level == k) * 2.0**base.pull)
            continue
        point = scales.family.spread(request.point, scales.shape, scales.ones)
        # Column by column in one order: no sum of BLAS's own making.
        eta = columns[:, :1] * point[:, 0]
        for k in range(1, n_columns):
            eta = eta + columns[:, k : k + 1] * point[:, k]
        found = scales.family.rows(level, eta)
        for score, pull in zip(scores, found.pulls.T, strict=True):
            score.add(columns, np.rint(pull * 2.0**base.pull))
        ones = np.ones(len(columns))
        weights.add(found.roots)
        for root in found.roots:
            parts = root[:, :, None] * columns[:, None, :]
            gram.add_scaled(scales.family.gather(parts, scales.ones), ones, factors)
        loss += total_of_counts(np.rint(found.loss * 2.0**LOSS), LOSS + LOSS_ABOVE)
    slopes = scales.family.gather(np.stack([one.value for one in scores]), scales.ones)
    if request.stage == "first":
        return layout.pack(level_cross=slopes, level_rows=levels)
    values = gram.value, slopes, loss
    return layout.pack(**dict(zip(layout.places, values, strict=True)))


# The search


@dataclass(frozen=True)
class ChoiceFit(GlmFit):
    """The fit of the pooled rows; a deviance is -2 log-likelihood."""

    levels: tuple[str, ...]
    level_counts: tuple[int, ...]

    @property
    def mcfadden(self) -> float:
        """1 - deviance / null deviance."""
        return 1.0 - self.deviance / self.null_deviance


@dataclass(frozen=True)
class ChoiceState:
    """Where the search is."""

    rounds: int = 0
    counts: tuple[int, ...] = ()
    cross: tuple[Fraction, ...] = ()
    climb: NewtonClimb | None = None
    first: ChoiceSums | None = None
    sums: ChoiceSums | None = None
    null_objective: Fraction = Fraction(0)

    @property
    def converged(self) -> bool:
        return self.climb is not None and self.climb.settled


@dataclass(frozen=True)
class ChoiceSearch:
    """Public terms of a choice model's search, fixed before the first round."""

    family: ChoiceModel
    measures: RowMeasures
    names: tuple[str, ...]
    levels: tuple[str, ...]
    intercept: int
    max_rounds: int = 50

    @cached_property
    def scales(self) -> ChoiceScales:
        return ChoiceScales.of(self.family, self.measures, self.intercept)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return self.family.labels(self.levels, self.names, self.intercept)

    def start(self) -> ChoiceState:
        return ChoiceState()

    def propose(self, state: ChoiceState) -> GlmRequest:
        if state.converged:
            raise LocalProtocolError(
                "the fit is done: no round is left", code="fit-already-done"
            )
        if state.climb is None:
            return GlmRequest("first", np.empty(0))
        return GlmRequest("round", state.climb.trial)

    def advance(self, state: ChoiceState, total: Integers) -> ChoiceState:
        if state.climb is None:
            counts, cross = self.scales.opening(total)
            self._check_first(counts, cross)
            return replace(self._open(counts), cross=cross)
        sums = self.scales.sums(total)
        self._check_information(sums.information, sum(state.counts))
        sums = sums.with_responses(state.cross, state.climb.trial)
        found = self._evaluation(sums, state.climb.trial, state.counts)
        if state.first is None:
            self._check_independent(found.system, sum(state.counts))
        accepted = state.climb.accepts(found)
        climb = state.climb.advance(found)
        first = state.first or sums
        if accepted and state.first is not None:
            self._check_endless(state, climb, found)
            self._check_open(state, sums.information, found.system)
        while not climb.settled and not self._is_allowed(climb.trial):
            climb = climb.halve(
                "agreed ranges leave rows so far apart that nothing can be summed, or "
                "thresholds change their order"
            )
        after = replace(
            state,
            rounds=state.rounds + 1,
            climb=climb,
            first=first,
            sums=sums if accepted else state.sums,
            null_objective=(
                found.objective if state.first is None else state.null_objective
            ),
        )
        if not after.converged and after.rounds >= self.max_rounds:
            raise NumericalError(
                f"the fit did not converge in {after.rounds} rounds: scale the "
                "columns, leave some out, or merge levels",
                code="not-converged",
            )
        return after

    def fit(self, state: ChoiceState) -> ChoiceFit:
        climb, sums = state.climb, state.sums
        if climb is None or climb.step is None or sums is None or not climb.settled:
            raise LocalProtocolError(
                "a fit was asked for before its rounds were over", code="fit-not-done"
            )
        found = self._evaluation(sums, climb.here, state.counts)
        n_rows, q = sum(state.counts), self.scales.size
        return ChoiceFit(
            names=self.labels,
            coefficients=np.array(
                [float(one) for one in self.scales.real(climb.exact_answer)]
            ),
            covariance=self.scales.covariance(found.system),
            t_degrees=None,
            family=self.family,
            model_degrees=float(q),
            residual_degrees=float(n_rows - q),
            deviance=float(found.objective),
            null_deviance=float(state.null_objective),
            pearson=float("nan"),
            dispersion=1.0,
            log_likelihood=float(found.objective / -2),
            n_rows=n_rows,
            rounds=state.rounds,
            condition=found.system.condition,
            levels=self.levels,
            level_counts=state.counts,
        )

    def endless_columns(self, state: ChoiceState) -> list[str]:
        """Return what seems to grow without end, if anything does."""
        if state.first is None or state.sums is None or state.climb is None:
            return []
        now = self._evaluation(state.sums, state.climb.here, state.counts).system
        direction = fading_newton_direction(now, self._reference(state))
        return [] if direction is None else self._culprits(direction, state)

    def _open(self, counts: tuple[int, ...]) -> ChoiceState:
        """Return the state once levels are counted: the model without columns."""
        empty = [one for one, n in zip(self.levels, counts, strict=True) if n < 1]
        if empty:
            raise InvalidInputError(
                f"no row of any party has {listed_names(empty)}: leave out levels that "
                "nobody has, or merge them with others",
                code="empty-level",
            )
        check_model_rows(float(sum(counts)), float(self.scales.size))
        predictors = nearest_float_solution(
            lambda: [arb(one).log() for one in self.family.start(counts)]
        )
        parts = np.zeros(self.scales.shape)
        parts[:, self.intercept] = predictors
        point = self.family.gather(parts, self.intercept) + 0.0  # no 0 has a sign
        return ChoiceState(1, counts, climb=NewtonClimb(here=point, trial=point))

    def _check_first(self, counts: Sequence[int], cross: Sequence[Fraction]) -> None:
        """Refuse counts, and sums over the rows of a level, that are impossible."""
        most = 1 << self.measures.row_bits
        for level, n_rows in zip(self.levels, counts, strict=True):
            check_plausible_total(f"rows with {level}", n_rows, 0, most)
        if not self.family.responses_once:
            return
        design, n_columns = self.scales.base.measures.design, self.scales.shape[1]
        for k, (label, one) in enumerate(zip(self.labels, cross, strict=True)):
            of, number = design[k % n_columns], counts[1 + k // n_columns]
            ends = (number * (end - of.centre) for end in (of.least, of.most))
            check_plausible_total(f"X'y for {label}", one, *ends)

    def _check_information(self, information: Integers, n_rows: int) -> None:
        design, powers = self.scales.base.measures.design, self.scales.powers
        # Of each root r of a row's information, a row and predictor have one.
        pairs = zip(self.scales.columns, powers, strict=True)
        largest = [ceil(design[k].reach * Fraction(2) ** (s - 1)) + 1 for k, s in pairs]
        rows = n_rows * self.scales.shape[0]
        check_plausible_matrix("information", information, self.labels, largest, rows)

    def _is_allowed(self, point: Vector) -> bool:
        inside = not self.scales.far(point)
        return inside and self.family.is_allowed(self.scales.at_centres(point))

    def _evaluation(
        self, sums: ChoiceSums, point: Vector, counts: Sequence[int]
    ) -> NewtonEvaluation:
        scales, ones = self.scales, self.intercept
        value, slopes, more = self.family.shared(scales.at_centres(point), counts)
        parts = np.full(scales.shape, Fraction(0), dtype=object)
        parts[:, ones] = slopes
        score = self.family.gather(parts, ones)
        information = sums.information.copy()
        first = scales.size - scales.shape[0]  # thresholds come last
        for (i, j), one in more.items():
            scale = Fraction(2) ** (2 * scales.base.columns[ones])
            information[first + i, first + j] += one * scale
        return NewtonEvaluation(
            system=InformationSystem.of(information, names=self.labels),
            powers=scales.powers,
            score=tuple(a + b for a, b in zip(sums.score, score, strict=True)),
            objective=2 * (sums.loss - value),
            dispersion=1.0,
        )

    def _check_independent(self, system: InformationSystem, n_rows: int) -> None:
        """Refuse columns that are combinations of each other but for rounding."""
        known = zip(system.diagonal(), np.diag(system.inverse()), strict=True)
        inflated = np.array([float(size) * one for size, one in known])
        # Rounding alone leaves about a row's twelfth for each predictor.
        rounding = (
            float(np.diag(system.inverse()).max()) * n_rows * self.scales.shape[0]
        )
        if inflated.max() <= DEPENDENT and rounding < 0.1:
            return
        columns = zip(self.scales.columns, inflated.tolist(), strict=True)
        guilty = {k for k, one in columns if one >= 1e-3 * inflated.max()}
        raise dependent_model_columns(
            [self.names[k] for k in sorted(guilty)], 1, ridge=False
        )

    def _reference(self, state: ChoiceState) -> InformationSystem:
        assert state.first is not None
        start = self._open(state.counts).climb
        assert start is not None
        return self._evaluation(state.first, start.here, state.counts).system

    def _check_endless(
        self, state: ChoiceState, after: NewtonClimb, found: NewtonEvaluation
    ) -> None:
        """Refuse data in which a coefficient grows without end; the error names it."""
        assert state.climb is not None
        direction = endless_newton_direction(
            found.system, self._reference(state), (state.climb, after), found.powers
        )
        if direction is not None:
            culprits = self._culprits(direction, state)
            raise newton_grows_endlessly(
                culprits, self.family.endless, ", or merge levels"
            )

    def _check_open(
        self, state: ChoiceState, information: Integers, system: InformationSystem
    ) -> None:
        """End a search that goes where few rows are open, and name the column."""
        if state.sums is None:
            return
        powers, columns = self.scales.powers, self.scales.columns
        ones = [k for k, at in enumerate(columns) if at == self.intercept]
        for places, rarer in self.family.borders(ones, state.counts):
            now, before = (
                float(
                    sum(
                        matrix[i, j] / Fraction(2) ** (powers[i] + powers[j])
                        for i in places
                        for j in places
                    )
                )
                for matrix in (information, state.sums.information)
            )
            if few_rows_open(now, before, rarer, 0.25):
                direction = weakest_model_information(system, self._reference(state))[1]
                culprits = self._culprits(direction, state)
                raise too_few_open(culprits, self.family.endless, ", or merge levels")

    def _culprits(self, direction: Vector, state: ChoiceState) -> list[str]:
        columns = self.scales.columns
        others = [k for k in columns if k != self.intercept]
        ignored = [k for k, at in enumerate(columns) if others and at == self.intercept]
        return greatest_coefficients_of_model(
            direction, self._reference(state), ignored
        )
