"""Robust errors: what residuals say of coefficients, by one more sum at the answer.

The covariance of coefficients is B M B. The bread B, the inverse of the information, is
known once there is a fit. The meat M is one more sum. With a row's pull g, that is how
its log-likelihood changes with its predictor, times its weight:

    HC0, HC1    M = sum over rows of g^2 x x'
    HC2, HC3    the same with g^2 / (1 - h), and with g^2 / (1 - h)^2
    cluster     M = sum over parties of s s', s the party's own sum of g x

A leverage h = v x'B x needs the pooled B, which is public by then. So a row's part in
an HC sum is a function of the row and the request, to the last bit, whoever has it:
columns are counted in whole numbers, and V = rint(g z 2^m) is added up as V'V. How
large g can be follows from agreed ranges and the request, and m from that. A party's s
is an exact sum over its rows, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from flint import arb, arb_mat

from veilsum.errors import InvalidInputError
from veilsum.models import systems
from veilsum.models.families import GaussianFamily
from veilsum.models.glm import (
    GlmScales,
    RoundWeights,
    RowBlock,
    glm_bits_below,
    glm_row_blocks,
)
from veilsum.models.plausible import check_plausible_matrix, check_plausible_total
from veilsum.models.rows import Gram, PerRow, Rows
from veilsum.models.systems import system_rows_as_balls
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.layout import (
    COUNTED,
    ONE,
    NumberLayout,
    layout_number,
    layout_padding,
    layout_symmetric,
    range_within_bits,
)
from veilsum.numbers.units import (
    CrossSum,
    GramSum,
    Integers,
    limbs_of_bits,
    sum_bits,
)

Errors = Literal["HC0", "HC1", "HC2", "HC3", "cluster"]

# Bits of V: three limbs. And of a row's pull, of a party's score, and of how many
# parties there are: twice a score's and these make less than three words.
ROOT_BITS, PULL_BITS, SCORE_BITS, PARTY_BITS = 59, 53, 84, 20
# What is left beside a leverage counts as this much at least.
LEAST_LEFT_BITS = 10
LEAST_LEFT = 2.0**-LEAST_LEFT_BITS


def robust_errors_named(name: str | None) -> Errors | None:
    known = get_args(Errors)
    for one in known:
        if name is not None and name.lower() == one.lower():
            return one
    if name is None or name == "model":
        return None
    raise InvalidInputError(
        f"errors must be one of model, {', '.join(known)}, found {name!r}: HC3 for "
        "responses that scatter unequally, cluster for parties that differ as a whole",
        code="unknown-errors",
    )


@dataclass(frozen=True)
class MeatRequest:
    """Public request to all parties at the answer.

    Attributes:
        point: the coefficients of columns in whole numbers, after subtracting centres.
        bread: B in the same coordinates, where leverages are needed; else empty.
    """

    errors: Errors
    point: Vector
    bread: FloatArray


@dataclass(frozen=True, eq=False)
class SandwichMeat:
    """The middle of a sandwich, for rows that are counted in some scales."""

    scales: GlmScales
    errors: Errors

    @property
    def by_party(self) -> bool:
        """Whether a party's rows are taken together."""
        return self.errors == "cluster"

    @property
    def needs_leverages(self) -> bool:
        """Whether rows count by what is left beside their leverage."""
        return self.errors in ("HC2", "HC3")

    @property
    def key(self) -> str:
        if self.by_party:
            return "party_scores"
        return "row_scores_by_leverage" if self.needs_leverages else "row_scores"

    @cached_property
    def layout(self) -> NumberLayout:
        """Products of scores, whose units follow from the request; rows near 1."""
        rows = self.scales.measures.row_bits
        bits = sum_bits([ROOT_BITS] * 2, rows)
        if self.by_party:
            bits = sum_bits([SCORE_BITS] * 2, PARTY_BITS)
        near = layout_number(
            "leverage_rows", bits=sum_bits([0], rows), row_range=COUNTED
        )
        ranges = [range_within_bits(SCORE_BITS if self.by_party else ROOT_BITS)]
        n_columns = self.scales.n_columns
        scores = layout_symmetric(
            self.key, (ONE,) * n_columns, bits, ranges * n_columns
        )
        return NumberLayout(
            (scores, near if self.needs_leverages else layout_padding(1))
        )

    def request(
        self, coefficients: Vector, bread: Callable[[], arb_mat]
    ) -> MeatRequest:
        """Return what is asked for at an answer, each number rounded once."""
        exact = [Fraction(one) for one in coefficients.tolist()]
        whole = [
            sum((by * one for by, one in zip(line, exact, strict=True)), Fraction(0))
            for line in self._to_whole
        ]
        inverse = np.zeros((0, 0))
        if self.needs_leverages:

            def balls() -> arb_mat:
                by = system_rows_as_balls(self._to_whole)
                return by * bread() * by.transpose()

            inverse = systems.nearest_float_covariances(balls)
        return MeatRequest(
            self.errors, np.array([float(one) for one in whole]), inverse
        )

    @cached_property
    def _to_whole(self) -> list[list[Fraction]]:
        """Matrix from real coefficients to those of columns in whole numbers."""
        design, place = self.scales.measures.design, self.scales.intercept
        p = len(design)
        lines = [
            [of.unit if j == k else Fraction(0) for k in range(p)]
            for j, of in enumerate(design)
        ]
        if place is not None:
            lines[place] = [of.centre * of.unit for of in design]
            lines[place][place] = Fraction(1)
        return lines

    def _pull_bits(self, point: Vector) -> int:
        """Return an e with |g| < 2^e for every row that the agreement allows."""
        agreed = self.scales.agreed
        most = self.scales.limits.pull
        if isinstance(self.scales.family, GaussianFamily):
            parts = zip(self.scales.measures.design, point.tolist(), strict=True)
            reached = sum(of.reach * abs(one) for of, one in parts) + agreed.offset
            most = 1.001 * (max(abs(agreed.low), abs(agreed.high)) + reached)
        more = {"HC2": LEAST_LEFT_BITS // 2, "HC3": LEAST_LEFT_BITS}
        size = max(most * agreed.weight, np.finfo(float).tiny)
        return glm_bits_below(size) + more.get(self.errors, 0)

    def _powers(self, point: Vector) -> list[int]:
        """Return the power m of 2 by which each column is scaled."""
        pull = self._pull_bits(point)
        design, rows = self.scales.measures.design, self.scales.measures.row_bits
        if self.by_party:
            return [SCORE_BITS - pull - of.bits - rows for of in design]
        return [ROOT_BITS - pull - of.bits for of in design]

    def check(self, found: Mapping[str, Any], n_rows: int) -> None:
        """Refuse a total that no rows within the agreed ranges have."""
        p, near = self.scales.n_columns, found.get("leverage_rows", 0)
        check_plausible_total("rows with a leverage next to 1", near, 0, n_rows)
        names = [f"x{k}" for k in range(p)]
        # All scores of parties together are as large as one row's here.
        reach, rows = (SCORE_BITS, 1) if self.by_party else (ROOT_BITS, n_rows)
        largest = [(1 << reach) + 1] * p
        check_plausible_matrix(
            "products of scores", found[self.key], names, largest, rows
        )

    def statistics(self, rows: Rows, request: MeatRequest) -> Integers:
        """Return one party's part; the parties' parts are to be added.

        Noted weights are the information of rows at the answer, times the factors that
        leverages add; of squared scores one honest outlier may have most.
        """
        noted = RoundWeights(self.scales)
        p, design = self.scales.n_columns, self.scales.measures.design
        powers = self._powers(request.point)
        if self.by_party:
            pull = PULL_BITS - self._pull_bits(request.point)
            widest = max(of.bits for of in design)
            cross = CrossSum(p, limbs_of_bits(widest), limbs_of_bits(PULL_BITS))
            for block in glm_row_blocks(self.scales.measures, rows):
                scaled = np.rint(self._pull(block, request, noted)[0] * 2.0**pull)
                for part, piece in block.pieces:
                    cross.add(part, scaled[piece])
            found = [
                _shift_sandwich_number(int(one), power - pull)
                for one, power in zip(cross.value.tolist(), powers, strict=True)
            ]
            score = np.array(found, dtype=object)
            return self.layout.pack(party_scores=np.outer(score, score))
        gram, near = GramSum(p, limbs_of_bits(ROOT_BITS)), 0
        usual = max(set(powers), key=powers.count)
        factors = np.array([2.0 ** (one - usual) for one in powers])
        for block in glm_row_blocks(self.scales.measures, rows):
            by, beyond = self._pull(block, request, noted)
            near += beyond
            scaled = by * 2.0**usual
            for part, piece in block.pieces:
                gram.add_scaled(part, scaled[piece], factors)
        leverages = {"leverage_rows": near} if self.needs_leverages else {}
        return self.layout.pack(**{self.key: gram.value}, **leverages)

    def _pull(
        self, block: RowBlock, request: MeatRequest, noted: RoundWeights
    ) -> tuple[PerRow, int]:
        """Return g of rows as it enters, and how many have next to nothing left."""
        family, eta = self.scales.family, block.predictor(request.point)
        if not isinstance(family, GaussianFamily):
            # The answer is next to a point where all rows were inside.
            limits = self.scales.limits
            eta = np.clip(eta, limits.low, limits.high)
        found = block.weigh(family.terms(block.response, eta).pull)
        information = block.weigh(family.expected(eta))
        if not self.needs_leverages:
            noted.add(block, information)
            return found, 0
        left = 1.0 - information * _sandwich_quadratic_forms(block, request.bread)
        near = int(np.count_nonzero(~(left >= LEAST_LEFT)))
        left = np.where(left >= LEAST_LEFT, left, LEAST_LEFT)
        by = 1.0 / (np.sqrt(left) if self.errors == "HC2" else left)
        # A false information can give one row a leverage next to 1.
        noted.add(block, information * by * by)
        return found * by, near

    def covariance(
        self,
        found: Mapping[str, Any],
        request: MeatRequest,
        bread: Callable[[], arb_mat],
        *,
        n_rows: int,
        n_parties: int,
    ) -> Gram:
        """Return B M B, with the correction for few rows or parties that is usual."""
        p = self.scales.n_columns
        if near := found.get("leverage_rows", 0):
            raise InvalidInputError(
                f"{self.errors} divides by what is left beside a row's leverage, and "
                f"in {near} rows that is next to nothing: use HC1, or "
                "leave out columns that only a few rows have",
                code="leverage-too-high",
            )
        whole = found[self.key]
        if not whole.any():
            return np.zeros((p, p))
        powers = self._powers(request.point)
        units = np.array([Fraction(2) ** -one for one in powers], dtype=object)
        scaled = (whole * np.outer(units, units)).tolist()
        factor = 1.0
        if self.errors == "HC1":
            factor = n_rows / (n_rows - p)
        elif self.by_party:
            factor = n_parties / (n_parties - 1) * ((n_rows - 1) / (n_rows - p))

        def balls() -> arb_mat:
            half = system_rows_as_balls(self._to_whole) * bread()
            return half.transpose() * system_rows_as_balls(scaled) * half * arb(factor)

        return systems.nearest_float_covariances(balls)


def _shift_sandwich_number(whole: int, power: int) -> int:
    """Return the whole number nearest to whole times 2^power; of two the upper one."""
    if power >= 0:
        return whole << power
    return (whole + (1 << -power - 1)) >> -power


def _sandwich_quadratic_forms(block: RowBlock, matrix: FloatArray) -> PerRow:
    """Return z'B z of each row, in one order: no sum of BLAS's own making."""
    found = np.empty(len(block.response))
    for design, piece in block.pieces:
        along = np.zeros_like(design)
        for k, line in enumerate(matrix):
            along += design[:, k, None] * line
        along *= design
        total = found[piece]
        total[:] = along[:, 0]
        for column in along.T[1:]:
            total += column
    return found
