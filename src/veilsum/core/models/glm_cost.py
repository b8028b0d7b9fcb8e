"""A regression as a cost under affine masks: what is masked, and what is not.

h(b) = sum_k w_k [B(x_k b + o_k) - y_k x_k b] + ridge ||b||^2 / 2, where B' = mu is the
inverse of the canonical link. Responses stand in front of a linear term only, so that

    theta        = X'W(mu(o) - y)                        is masked, and
    grad rho(b)  = X'W(mu(Xb + o) - mu(o)) + ridge b     stays with its owner.

The split is canonical at the public point 0. No response is in rho, not even in the
last bits of its gradients: it is computed without them. All else is in rho.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from veilsum.core.arrays import Vector, Vectors
from veilsum.core.costs import Cost
from veilsum.core.models.families import Binomial, Gaussian, Poisson
from veilsum.core.models.family import Family
from veilsum.core.models.gammas import GammaInverseLink
from veilsum.core.models.rows import Gram, PerRow, Rows, gram
from veilsum.core.models.systems import penalties
from veilsum.core.remainders import Kind
from veilsum.core.secrets import Secret
from veilsum.errors import InvalidInputError

# By type and not by kind: a law built on one of these may have another link.
CANONICAL = (Gaussian, Binomial, Poisson)


@dataclass(frozen=True, eq=False, repr=False)
class GlmRemainder(Secret):
    """rho of a regression: features, weights and offsets of one party, no responses.

    Attributes:
        family: of the response.
        blocks: the rows, each with its mean at the origin in place of its response.
        penalty: the ridge, column by column.
    """

    family: Family
    blocks: tuple[Rows, ...]
    penalty: Vector
    kind: Kind = field(default="local", init=False)

    @classmethod
    def of(cls, family: Family, rows: Rows, penalty: Vector) -> GlmRemainder:
        """Return the remainder of some rows; their responses are not looked at."""
        # Block by block, as gradients are: the same calls leave exactly 0 at b = 0.
        blocks = [
            replace(block, response=means_at_origin(family, block))
            for block in rows.blocks()
        ]
        return cls(family, tuple(blocks), penalty)

    def gradient(self, x: Vectors) -> Vectors:
        """Return X'W(mu(Xb + o) - mu(o)) + ridge b at each row b."""
        if x.ndim == 1:
            return self._gradient_at(x)
        points = x.reshape(-1, x.shape[-1])
        return np.array([self._gradient_at(b) for b in points]).reshape(x.shape)

    def rows(self, which: slice) -> GlmRemainder:  # noqa: ARG002 - alike for all
        """Return itself."""
        return self

    def _gradient_at(self, b: Vector) -> Vector:
        total = self.penalty * b
        for block in self.blocks:
            total += _slope(self.family, block, b)
        return total


def glm_cost(
    family: Family, rows: Rows, *, ridge: float | Sequence[float] | Vector = 0.0
) -> Cost:
    """Return one party's cost; of all that is in it, affine masks hide X'Wy only.

    Args:
        family: gaussian, logistic or Poisson, whose links are canonical.
        rows: of this party.
        ridge: of the term ridge ||b||^2 / 2; one number for all columns, or one for
            each. Parties that share a ridge take equal parts of it.
    """
    check_canonical(family)
    _check_finite(rows)
    family.check(rows.response)
    penalty = penalties(ridge, n_columns=rows.n_columns, intercept=None)
    remainder = GlmRemainder.of(family, rows, penalty)
    return Cost.affine(_masked_part(family, rows), remainder=remainder)


def check_canonical(family: Family) -> None:
    """Refuse a family whose responses affine masks would not reach."""
    if type(family) in CANONICAL:
        return
    if isinstance(family, GammaInverseLink):
        raise InvalidInputError(
            f"a {family.name} has means for positive predictors only, and none at the "
            "public point 0 where costs are split: fit it by sums, with fit"
        )
    raise InvalidInputError(
        f"the link of a {family.name} regression is not the canonical one: its "
        "responses stay in the remainder, which affine masks do not hide. Fit it by "
        "sums, with fit, or choose gaussian, logistic or poisson"
    )


def means_at_origin(family: Family, rows: Rows) -> PerRow:
    """Return mu(o): what the model expects where all coefficients are 0."""
    return family.inverse_link(rows.shift(np.zeros(rows.n_rows)))


def curvature(family: Family, rows: Rows, b: Vector) -> Gram:
    """Return second derivatives at b, the ridge left out: X'WX with variances at b."""
    total = np.zeros((rows.n_columns, rows.n_columns))
    for block in rows.blocks():
        mu = family.inverse_link(block.shift(block.design @ b))
        total += gram(block.design, block.weigh(family.slope(mu)))
    return total


def _masked_part(family: Family, rows: Rows) -> Vector:
    """Return theta = X'W(mu(o) - y)."""
    origin, total = np.zeros(rows.n_columns), np.zeros(rows.n_columns)
    with np.errstate(over="ignore", invalid="ignore"):
        for block in rows.blocks():
            total += _slope(family, block, origin)
    if not np.isfinite(total).all():
        raise InvalidInputError(
            "sums of responses times features are beyond float64: scale the columns"
        )
    return total


def _slope(family: Family, rows: Rows, b: Vector) -> Vector:
    """Return X'W(mu(Xb + o) - y)."""
    mu = family.inverse_link(rows.shift(rows.design @ b))
    return np.asarray(rows.weigh(mu - rows.response) @ rows.design)


def _check_finite(rows: Rows) -> None:
    for what in ("design", "response", "weights", "offset"):
        values = getattr(rows, what)
        if values is not None and not np.isfinite(values).all():
            raise InvalidInputError(
                f"rows must hold finite numbers, found nan or inf in the {what}: "
                "leave such rows out"
            )
