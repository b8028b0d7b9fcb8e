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

import numpy as np

from veilsum.costs.cost import Cost
from veilsum.errors import InvalidInputError
from veilsum.models.curves import Curve, MeanCurve
from veilsum.models.families import Binomial, Gaussian, Poisson
from veilsum.models.family import Family
from veilsum.models.gammas import GammaInverseLink
from veilsum.models.row_remainder import RowRemainder, slope
from veilsum.models.rows import Gram, Rows, gram
from veilsum.models.systems import penalties
from veilsum.numbers.arrays import Vector

# By type and not by kind: a law built on one of these may have another link.
CANONICAL = (Gaussian, Binomial, Poisson)

SPLIT = (
    "of a regression, affine masks hide at most how X'Wy splits among the honest "
    "parties of one connected piece"
)
FEATURES = (
    "features, weights and offsets are not hidden: they make up the remainders, which "
    "masks do not touch and a coalition is taken to know"
)
RESPONSES = (
    "to whoever knows the features, each released sum is one linear equation for each "
    "column in the responses behind it; where these are few, or whole numbers such as "
    "labels and counts, the equations may determine every one of them"
)


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
    check_finite(rows)
    family.check(rows.response)
    penalty = penalties(ridge, n_columns=rows.n_columns, intercept=None)
    curve = MeanCurve(family)
    remainder = RowRemainder.of(
        curve, rows, penalty, exposes=(SPLIT, FEATURES, RESPONSES)
    )
    return Cost.affine(masked_part(curve, rows), remainder=remainder)


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


def curvature(family: Family, rows: Rows, b: Vector) -> Gram:
    """Return second derivatives at b, the ridge left out: X'WX with variances at b."""
    total = np.zeros((rows.n_columns, rows.n_columns))
    for block in rows.blocks():
        mu = family.inverse_link(block.shift(block.design @ b))
        total += gram(block.design, block.weigh(family.slope(mu)))
    return total


def masked_part(curve: Curve, rows: Rows) -> Vector:
    """Return theta = X'W(mu(o) - y)."""
    origin, total = np.zeros(rows.n_columns), np.zeros(rows.n_columns)
    with np.errstate(over="ignore", invalid="ignore"):
        for block in rows.blocks():
            total += slope(curve, block, origin)
    if not np.isfinite(total).all():
        raise InvalidInputError(
            "sums of responses times features are beyond float64: scale the columns"
        )
    return total


def check_finite(rows: Rows) -> None:
    """Refuse rows with numbers that are none."""
    for what in ("design", "response", "weights", "offset"):
        values = getattr(rows, what)
        if values is not None and not np.isfinite(values).all():
            raise InvalidInputError(
                f"rows must hold finite numbers, found nan or inf in the {what}: "
                "leave such rows out"
            )
