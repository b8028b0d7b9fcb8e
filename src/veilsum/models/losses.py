"""Losses with responses inside: Huber's and a smoothed hinge, as costs.

Both are sums over rows of a function of one number that features and response make up:
the residual x b + o - y, or the margin y (x b + o). The slope at b = 0 is masked; but
responses stand in the remainder as well, and there affine masks hide nothing of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from veilsum.costs.cost import Cost
from veilsum.errors import InvalidInputError
from veilsum.models.curves import Curve, HuberCurve, SmoothedHingeCurve
from veilsum.models.glm_cost import check_finite, masked_part
from veilsum.models.row_remainder import RowRemainder
from veilsum.models.rows import PerRow, Rows
from veilsum.models.systems import penalties
from veilsum.numbers.arrays import Vector

RESPONSES_INSIDE = (
    "responses, features, weights and offsets are not hidden: in a Huber or hinge loss "
    "all of them make up the remainders, which masks do not touch and a coalition is "
    "taken to know; masks hide how the sum of the gradients at 0 splits, no more"
)


def huber_cost(
    rows: Rows, *, delta: float, ridge: float | Sequence[float] | Vector = 0.0
) -> Cost:
    """Return one party's robust regression; masks protect none of its responses.

    h(b) = sum_k w_k H(x_k b + o_k - y_k) + ridge ||b||^2 / 2, where H(e) is e^2 / 2 up
    to |e| = delta and grows linearly from there.

    Args:
        rows: of this party.
        delta: in the units of the response, the same for all parties.
        ridge: one number for all columns, or one for each. Parties that share a ridge
            take equal parts of it.
    """
    curve = HuberCurve(delta)
    check_finite(rows)
    return _cost(curve, replace(rows, offset=rows.shift(-rows.response)), ridge)


def smoothed_hinge_cost(
    rows: Rows, *, smoothing: float, ridge: float | Sequence[float] | Vector = 0.0
) -> Cost:
    """Return one party's part of a linear classifier; masks protect none of its labels.

    h(b) = sum_k w_k phi(t_k) + ridge ||b||^2 / 2 with margins t_k = y_k (x_k b + o_k)
    and labels y of -1 and 1. phi is 0 for t >= 1 and 1 - t - smoothing/2 for
    t <= 1 - smoothing; in between it is (1 - t)^2 / (2 smoothing).

    Args:
        rows: of this party; responses are -1 and 1, or 0 and 1.
        smoothing: how wide the rounded corner is, the same for all parties.
        ridge: as for `huber_cost`.
    """
    curve = SmoothedHingeCurve(smoothing)
    check_finite(rows)
    signs = _signs(rows.response)
    offset = None if rows.offset is None else signs * rows.offset
    turned = replace(rows, design=signs[:, None] * rows.design, offset=offset)
    return _cost(curve, turned, ridge)


def _cost(curve: Curve, rows: Rows, ridge: float | Sequence[float] | Vector) -> Cost:
    """Return the cost of rows whose loss is a function of the predictor alone."""
    bare = replace(rows, response=np.zeros(rows.n_rows))
    penalty = penalties(ridge, n_columns=rows.n_columns, intercept=None)
    remainder = RowRemainder.of(curve, bare, penalty, exposes=(RESPONSES_INSIDE,))
    return Cost.affine(masked_part(curve, bare), remainder=remainder)


def _signs(labels: PerRow) -> PerRow:
    """Return labels as -1 and 1."""
    found = set(np.unique(labels).tolist())
    if not (found <= {-1.0, 1.0} or found <= {0.0, 1.0}):
        raise InvalidInputError(
            "labels of a hinge loss must be -1 and 1, or 0 and 1, in every row of a "
            "party; found other numbers, or -1 and 0 together"
        )
    return np.where(labels > 0.0, 1.0, -1.0)
