"""Costs that are sums over a party's rows: regressions and classifiers under masks.

Generalised linear models with canonical links:

    h(b) = sum_k w_k [B(x_k b + o_k) - y_k x_k b] + ridge ||b||^2 / 2

where B' = mu is the inverse of the link. Responses stand in front of a linear term
only, so that

    theta        = X'W(mu(o) - y)                        is masked, and
    grad rho(b)  = X'W(mu(Xb + o) - mu(o)) + ridge b     stays with its owner.

The split is canonical at the public point 0, where grad rho is zero, exactly. No
response is in rho, not even in the last bits of its gradients: it is computed without
them. All else is in rho.

theta is a sum over rows of terms x_k w_k (mu(o_k) - y_k) that are each rounded to whole
numbers of a public unit, by operations that have the same bits everywhere. So its total
over honest parties is the same however rows are dealt to them, to the last bit.

Huber's loss and a smoothed hinge are sums over rows of a function of one number that
features and response make up: the residual x b + o - y, or the margin y (x b + o). The
slope at b = 0 is masked; but responses stand in the remainder as well, and there affine
masks hide nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.locale import limit_phrase
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.remainders import (
    AlikeRemainders,
    CostRemainder,
    Kind,
    Squares,
)
from veilsum.models.families import (
    Binomial,
    Family,
    GammaInverseLink,
    GaussianFamily,
    Poisson,
)
from veilsum.models.rows import Gram, PerRow, Rows, gram_of_model_rows
from veilsum.models.systems import ridge_penalties_of_model
from veilsum.numbers.arrays import FloatArray, PartyPoints, Vector, Vectors
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import Float
from veilsum.numbers.units import Integers

Predictors: TypeAlias = Float[FloatArray, "*batch"]  # one number for each row
Range: TypeAlias = tuple[Predictors, Predictors]
Designs: TypeAlias = Float[FloatArray, "n r m"]
AllRows: TypeAlias = Float[FloatArray, "n r"]

# Parties' rows are put side by side where that takes at most this many times their own
# room, shorter tables being filled up with zeros.
PADDING = 2.0
# Above so many numbers in a party's design a call of its own costs nothing.
LARGE = 2**14
# X'WX is used where it takes at most this many times the room of X: it is read once in
# each gradient, X twice.
SQUARES = 4.0

# Means stay within exp(-30) and exp(30), about 1e-13 and 1e13: beyond, a row has
# nothing to say that float64 sums could hold.
EDGE = 30.0
# How finely terms of a gradient are added up for float64, where nobody masks them.
FINE = FixedPointGrid(50)

# By type and not by kind: a law built on one of these may have another link.
CANONICAL = (GaussianFamily, Binomial, Poisson)

SPLIT = limit_phrase("split")
FEATURES = limit_phrase("features")
RESPONSES = limit_phrase("responses")
RESPONSES_INSIDE = limit_phrase("responses_inside")


@runtime_checkable
class LossCurve(Protocol):
    """mu, a rising function of one number: the slope of a row's loss in its predictor.

    A loss that is B(eta) - y eta, or that depends on one combination of predictor and
    response alone, has the slope mu(eta) up to what does not depend on eta. How fast mu
    rises bounds how much costs bend. It is the same for all rows and parties; equal
    ones compare equal.
    """

    def mean(self, eta: Predictors) -> Predictors:
        """Return mu(eta)."""
        ...

    def bends(self, low: Predictors, high: Predictors) -> Range:
        """Return bounds on mu' between two predictors, which may be infinite."""
        ...


@dataclass(frozen=True)
class MeanCurve:
    """The inverse of a canonical link: gaussian, logistic or Poisson."""

    family: Family

    def mean(self, eta: Predictors) -> Predictors:
        """Return E y at this predictor, as fast as it can be had.

        What is summed exactly is `origin`, whose bits are the same everywhere.
        """
        if isinstance(self.family, GaussianFamily):
            return eta
        inside = np.clip(eta, -EDGE, EDGE)
        if isinstance(self.family, Binomial):
            return np.asarray(scipy.special.expit(inside))
        return np.exp(inside)

    def origin(self, offset: PerRow) -> PerRow:
        """Return mu(o), one function of a row on every machine."""
        if isinstance(self.family, GaussianFamily):
            return offset
        return self.family.inverse_link(np.clip(offset, -EDGE, EDGE))

    def bends(self, low: Predictors, high: Predictors) -> Range:
        if isinstance(self.family, GaussianFamily):
            return np.ones_like(low), np.ones_like(low)
        ends = self._bend(low), self._bend(high)
        # A variance rises, or rises and falls, so that it is least at an end.
        least = np.minimum(*ends)
        if isinstance(self.family, Binomial):
            return least, np.full_like(low, 0.25)
        return least, np.where(np.isinf(high), np.inf, self.variance(high))

    def variance(self, eta: Predictors) -> Predictors:
        """Return the variance of a response at this predictor, which is mu' too."""
        if isinstance(self.family, GaussianFamily):
            return np.ones_like(eta)
        return self.family.expected(np.clip(eta, -EDGE, EDGE))

    def _bend(self, eta: Predictors) -> Predictors:
        """Return mu' at eta: beyond the edges, where means are kept, it is zero."""
        return np.where(np.abs(eta) > EDGE, 0.0, self.variance(eta))


@dataclass(frozen=True)
class HuberCurve:
    """The slope of Huber's loss: a residual, cut off at plus and minus delta."""

    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.delta < np.inf:
            raise InvalidInputError(
                "delta, the residual at which Huber's loss becomes linear, must be "
                f"positive and finite, found {self.delta}",
                code="delta-not-positive",
            )

    def mean(self, eta: Predictors) -> Predictors:
        return np.clip(eta, -self.delta, self.delta)

    def bends(self, low: Predictors, high: Predictors) -> Range:
        """Return 1 within, else from 0 to 1."""
        within = (low >= -self.delta) & (high <= self.delta)
        return within.astype(np.float64), np.ones_like(low)


@dataclass(frozen=True)
class SmoothedHingeCurve:
    """The slope of the hinge loss with its corner rounded off, in the margin t.

    The loss is 0 above 1, (1 - t)^2 / 2s from 1 - s to 1, and 1 - t - s/2 below.
    """

    smoothing: float

    def __post_init__(self) -> None:
        if not 0 < self.smoothing < np.inf:
            raise InvalidInputError(
                "smoothing, the width of a hinge's rounded corner, must be positive "
                f"and finite, found {self.smoothing}",
                code="smoothing-not-positive",
            )

    def mean(self, eta: Predictors) -> Predictors:
        """Return a number from -1, a row on the wrong side, to 0."""
        return np.clip((eta - 1.0) / self.smoothing, -1.0, 0.0)

    def bends(self, low: Predictors, high: Predictors) -> Range:
        """Return 1/s in the corner, else from 0 to 1/s."""
        within = (low >= 1.0 - self.smoothing) & (high <= 1.0)
        most = np.full_like(low, 1.0 / self.smoothing)
        return np.where(within, most, 0.0), most


@dataclass(frozen=True, eq=False, repr=False)
class RowRemainder(AlikeRemainders, Secret):
    """rho of one party's rows.

    Attributes:
        curve: mu.
        blocks: the rows, each with mu(o) in place of its response.
        penalty: the ridge, column by column.
        exposes: what is in the open, as sentences for a guarantee's limits.
    """

    curve: LossCurve
    blocks: tuple[Rows, ...]
    penalty: Vector
    exposes: tuple[str, ...] = ()
    kind: Kind = field(default="local", init=False)

    @classmethod
    def of(
        cls,
        curve: LossCurve,
        rows: Rows,
        penalty: Vector,
        *,
        exposes: tuple[str, ...] = (),
    ) -> RowRemainder:
        """Return the remainder of some rows; their responses are not looked at."""
        # Block by block, as gradients are: the same calls leave exactly 0 at b = 0.
        blocks = [
            replace(block, response=curve.mean(block.shift(np.zeros(block.n_rows))))
            for block in rows.blocks()
        ]
        return cls(curve, tuple(blocks), penalty, exposes)

    def gradient(self, x: Vectors) -> Vectors:
        if x.ndim == 1:
            return self._gradient_at(x)
        points = x.reshape(-1, x.shape[-1])
        return np.array([self._gradient_at(b) for b in points]).reshape(x.shape)

    @staticmethod
    def stacked(
        members: Sequence[CostRemainder],
    ) -> SquareStack | RowRemainderStack | None:
        """Return one remainder for all parties; None where that would not pay."""
        alike = [one for one in members if isinstance(one, RowRemainder)]
        if len(alike) < len(members) or len({one.curve for one in alike}) > 1:
            return None
        if _squared_row_costs_pay(alike):
            return SquareStack(np.stack([one.square() for one in alike]))
        return RowRemainderStack.of(alike) if _padded_row_costs_pay(alike) else None

    def square(self) -> Gram:
        """Return X'WX + ridge: the gradient of least squares is this times b."""
        found = np.diag(self.penalty)
        for block in self.blocks:
            found += gram_of_model_rows(block.design, block.weights)
        return found

    @property
    def n_numbers(self) -> int:
        return sum(block.design.size for block in self.blocks)

    def _gradient_at(self, b: Vector) -> Vector:
        found = self.penalty * b
        for block in self.blocks:
            found += _slope_of_rows_cost(self.curve, block, b)
        return found


@dataclass(frozen=True, eq=False, repr=False)
class SquareStack(Secret):
    """rho of all parties' least squares: grad rho_i(x) = P_i x.

    Attributes:
        matrices: P_i = X_i'W_iX_i + ridge, symmetric.
    """

    matrices: Squares
    kind: Kind = field(default="local", init=False)

    def gradient(self, x: PartyPoints) -> PartyPoints:
        return _row_cost_matrices_times(self.matrices, x)

    def rows(self, which: slice) -> SquareStack:
        return SquareStack(self.matrices[which])


@dataclass(frozen=True, eq=False, repr=False)
class RowRemainderStack(Secret):
    """rho of all parties: their rows side by side, filled up with rows of zeros.

    Attributes:
        curve: mu.
        designs: X_i.
        weights: of rows, or None where all are one.
        offsets: o of rows, or None where all are zero.
        penalties: the ridge, column by column.
    """

    curve: LossCurve
    designs: Designs
    weights: AllRows | None
    offsets: AllRows | None
    penalties: PartyPoints
    kind: Kind = field(default="local", init=False)

    @classmethod
    def of(cls, members: Sequence[RowRemainder]) -> RowRemainderStack:
        """Return the stack of remainders that have one block of rows at most."""
        penalties = np.stack([one.penalty for one in members])
        nothing = Rows(np.empty((0, penalties.shape[1])), np.empty(0))
        parts = [one.blocks[0] if one.blocks else nothing for one in members]
        length = max(part.n_rows for part in parts)
        designs = np.zeros((len(members), length, penalties.shape[1]))
        for design, part in zip(designs, parts, strict=True):
            design[: part.n_rows] = part.design
        weights = _side_by_side([part.weights for part in parts], length, 1.0)
        offsets = _side_by_side([part.offset for part in parts], length, 0.0)
        return cls(members[0].curve, designs, weights, offsets, penalties)

    def gradient(self, x: PartyPoints) -> PartyPoints:
        pull = (
            self.curve.mean(self._shift(_row_cost_matrices_times(self.designs, x)))
            - self._origin
        )
        if self.weights is not None:
            pull *= self.weights
        return (pull[:, None, :] @ self.designs)[:, 0] + self.penalties * x

    def rows(self, which: slice) -> RowRemainderStack:
        return replace(
            self,
            designs=self.designs[which],
            weights=None if self.weights is None else self.weights[which],
            offsets=None if self.offsets is None else self.offsets[which],
            penalties=self.penalties[which],
        )

    @cached_property
    def _origin(self) -> AllRows:
        """mu(o), by the call that gradients make: they are exactly 0 at b = 0."""
        return self.curve.mean(self._shift(np.zeros(self.designs.shape[:2])))

    def _shift(self, eta: AllRows) -> AllRows:
        return eta if self.offsets is None else eta + self.offsets


def _slope_of_rows_cost(curve: LossCurve, rows: Rows, b: Vector) -> Vector:
    """Return X'W(mu(Xb + o) - y)."""
    mu = curve.mean(rows.shift(rows.design @ b))
    return np.asarray(rows.weigh(mu - rows.response) @ rows.design)


def _squared_row_costs_pay(members: Sequence[RowRemainder]) -> bool:
    """Say whether these are least squares with rows enough for their matrices."""
    squares = sum(one.penalty.size**2 for one in members)
    numbers = sum(one.n_numbers for one in members)
    return (
        members[0].curve == MeanCurve(GaussianFamily()) and squares <= SQUARES * numbers
    )


def _padded_row_costs_pay(members: Sequence[RowRemainder]) -> bool:
    """Say whether rows are few enough, and parties enough alike, to be put together."""
    if any(len(one.blocks) > 1 for one in members):
        return False
    sizes = [one.n_numbers for one in members]
    return 0 < max(sizes) <= LARGE and len(sizes) * max(sizes) <= PADDING * sum(sizes)


def _side_by_side(
    parts: Sequence[FloatArray | None], length: int, filler: float
) -> AllRows | None:
    """Return numbers of all rows, `filler` where there are none; None if all are."""
    if all(part is None for part in parts):
        return None
    together = np.full((len(parts), length), filler)
    for row, part in zip(together, parts, strict=True):
        if part is not None:
            row[: len(part)] = part
    return together


def _row_cost_matrices_times(matrices: Designs, x: PartyPoints) -> AllRows:
    return (matrices @ x[..., None])[..., 0]


def glm_cost(
    family: Family,
    rows: Rows,
    *,
    ridge: float | Sequence[float] | Vector = 0.0,
    unit: object = None,
) -> Cost:
    """Return one party's cost; of all that is in it, affine masks hide X'Wy only.

    Args:
        family: gaussian, logistic or Poisson, whose links are canonical.
        rows: of this party.
        ridge: of the term ridge ||b||^2 / 2; one number for all columns, or one for
            each. Parties that share a ridge take equal parts of it.
        unit: what each row's term of X'W(mu(o) - y) is rounded to, the same for all
            parties; without one, a step of the masks' grid.
    """
    check_canonical_cost_family(family)
    _check_finite_cost_rows(rows)
    family.check(rows.response)
    curve, exposes = MeanCurve(family), (SPLIT, FEATURES, RESPONSES)
    return _rows_cost(curve, rows, ridge, curve.origin, unit, exposes=exposes)


def check_canonical_cost_family(family: Family) -> None:
    """Refuse a family whose responses affine masks would not reach."""
    if type(family) in CANONICAL:
        return
    if isinstance(family, GammaInverseLink):
        raise InvalidInputError(
            f"a {family.name} has means for positive predictors only, and none at the "
            "public point 0 where costs are split: fit it by sums, with fit",
            code="link-not-canonical",
        )
    raise InvalidInputError(
        f"the link of a {family.name} regression is not the canonical one: its "
        "responses stay in the remainder, which affine masks do not hide. Fit it by "
        "sums, with fit, or choose gaussian, logistic or poisson",
        code="link-not-canonical",
    )


def curvature_of_rows_cost(family: Family, rows: Rows, b: Vector) -> Gram:
    """Return second derivatives at b, the ridge left out: X'WX with variances at b."""
    curve, found = MeanCurve(family), np.zeros((rows.n_columns, rows.n_columns))
    for block in rows.blocks():
        bends = curve.variance(block.shift(block.design @ b))
        found += gram_of_model_rows(block.design, block.weigh(bends))
    return found


def _rows_cost(
    curve: LossCurve,
    rows: Rows,
    ridge: float | Sequence[float] | Vector,
    origin: Callable[[PerRow], PerRow],
    unit: object,
    *,
    exposes: tuple[str, ...],
) -> Cost:
    """Return the cost of rows with theta = X'W(mu(o) - y), which masks hide.

    `origin` is mu as one function of a row, the same on every machine.
    """
    penalty = ridge_penalties_of_model(ridge, n_columns=rows.n_columns, intercept=None)
    remainder = RowRemainder.of(curve, rows, penalty, exposes=exposes)
    summed = partial(_slope_at_origin, rows, origin)
    theta = FINE.to_floats(summed(FINE))
    cost = Cost.affine(theta, remainder=remainder)
    return replace(cost, summed=summed).counted(unit)


def _slope_at_origin(
    rows: Rows, origin: Callable[[PerRow], PerRow], grid: FixedPointGrid
) -> Integers:
    """Return X'W(mu(o) - y) in steps of a grid, every row's terms rounded to it."""
    found = np.full(rows.n_columns, 0, dtype=object)
    for block in rows.blocks():
        mu = origin(block.shift(np.zeros(block.n_rows)))
        with np.errstate(over="ignore", invalid="ignore"):
            pull = block.weigh(mu - block.response)
            terms = block.design * pull[:, None]
        if not np.isfinite(terms).all():
            raise InvalidInputError(
                "products of responses and features are beyond float64: scale the "
                "columns",
                code="products-too-large",
            )
        found += _exact_cost_sums(grid.quantise(terms))
    return found


def _exact_cost_sums(terms: Integers) -> Integers:
    if terms.dtype == object:
        return terms.sum(axis=0)
    # Below 2^62 as they are, they are added in limbs, which nothing overflows.
    high, low = terms >> 31, terms & (2**31 - 1)
    parts = [one.sum(axis=0).astype(object) for one in (high, low)]
    return np.asarray((parts[0] << 31) + parts[1], dtype=object)


def _check_finite_cost_rows(rows: Rows) -> None:
    for what in ("design", "response", "weights", "offset"):
        values = getattr(rows, what)
        if values is not None and not np.isfinite(values).all():
            raise InvalidInputError(
                f"rows must hold finite numbers, found nan or inf in the {what}: "
                "leave such rows out",
                code="rows-not-finite",
            )


def huber_cost(
    rows: Rows,
    *,
    delta: float,
    ridge: float | Sequence[float] | Vector = 0.0,
    unit: object = None,
) -> Cost:
    """Return one party's robust regression; masks protect none of its responses.

    h(b) = sum_k w_k H(x_k b + o_k - y_k) + ridge ||b||^2 / 2, where H(e) is e^2 / 2 up
    to |e| = delta and grows linearly from there.

    Args:
        rows: of this party.
        delta: in the units of the response, the same for all parties.
        ridge: one number for all columns, or one for each. Parties that share a ridge
            take equal parts of it.
        unit: as for `glm_cost`, of each row's gradient at 0.
    """
    curve = HuberCurve(delta)
    _check_finite_cost_rows(rows)
    nothing = np.zeros(rows.n_rows)
    moved = replace(rows, response=nothing, offset=rows.shift(-rows.response))
    inside = (RESPONSES_INSIDE,)
    return _rows_cost(curve, moved, ridge, curve.mean, unit, exposes=inside)


def smoothed_hinge_cost(
    rows: Rows,
    *,
    smoothing: float,
    ridge: float | Sequence[float] | Vector = 0.0,
    unit: object = None,
) -> Cost:
    """Return one party's part of a linear classifier; masks protect none of its labels.

    h(b) = sum_k w_k phi(t_k) + ridge ||b||^2 / 2 with margins t_k = y_k (x_k b + o_k)
    and labels y of -1 and 1. phi is 0 for t >= 1 and 1 - t - smoothing/2 for
    t <= 1 - smoothing; in between it is (1 - t)^2 / (2 smoothing).

    Args:
        rows: of this party; responses are -1 and 1, or 0 and 1.
        smoothing: how wide the rounded corner is, the same for all parties.
        ridge: as for `huber_cost`.
        unit: as for `huber_cost`.
    """
    curve = SmoothedHingeCurve(smoothing)
    _check_finite_cost_rows(rows)
    signs = _smoothed_hinge_signs(rows.response)
    offset = None if rows.offset is None else signs * rows.offset
    nothing, turned = np.zeros(rows.n_rows), signs[:, None] * rows.design
    alike = replace(rows, design=turned, response=nothing, offset=offset)
    inside = (RESPONSES_INSIDE,)
    return _rows_cost(curve, alike, ridge, curve.mean, unit, exposes=inside)


def _smoothed_hinge_signs(labels: PerRow) -> PerRow:
    found = set(np.unique(labels).tolist())
    if not (found <= {-1.0, 1.0} or found <= {0.0, 1.0}):
        raise InvalidInputError(
            "labels of a hinge loss must be -1 and 1, or 0 and 1, in every row of a "
            "party; found other numbers, or -1 and 0 together",
            code="labels-not-signs",
        )
    return np.where(labels > 0.0, 1.0, -1.0)
