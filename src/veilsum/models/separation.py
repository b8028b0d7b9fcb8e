"""Separation, judged from sums: coefficients that would grow without end.

Where a direction d tells all responses apart, each Newton step along d has the same
length, the information in it falls by a factor of e, and so does what is left to gain.
A coefficient that is merely large looks so at first; but with less than 1e-4 of an
observation left to gain its steps shrink, and these do not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import eigh

from veilsum.errors import InvalidInputError
from veilsum.models.climb import Climb, Evaluation
from veilsum.models.family import Family
from veilsum.models.rows import Gram
from veilsum.models.systems import System
from veilsum.numbers.arrays import Vector, listed

# Information in some direction, over what the first round found there.
FADING = 1e-3
GONE = 1e-9
# What is left to gain, in observations of average weight.
LITTLE = 1e-4
# A step that is at least this much of the one before does not shrink.
STEADY = 0.9
# Columns with at least this share of the greatest part in a direction are named.
PART = 0.3


def check_separation(
    family: Family,
    before: Climb,
    found: Evaluation,
    *,
    reference: Gram,
    weight: float,
    names: Sequence[str],
    intercept: int | None,
) -> None:
    """Refuse data in which a coefficient grows without end; the error names it.

    Args:
        family: whose words the error uses.
        before: the search before the trial point was accepted.
        found: at the trial point.
        reference: the first round's information, which measures directions.
        weight: of an average observation.
        names: of the columns.
        intercept: the column that is never the culprit, if there are others.
    """
    ratio, direction = _weakest(found.information, reference)
    if ratio > FADING:
        return
    if ratio > GONE:
        after = before.advance(found, names=names)
        if not _runs_away(before, after, reference, weight):
            return
        direction = after.trial - after.here
    culprits = _columns(direction, reference, names, intercept)
    raise InvalidInputError(
        f"the coefficient of {listed(culprits)} grows without end ({family.endless}), "
        "so there is no fit: leave the column out, merge categories, or use ridge"
    )


def fading_columns(
    information: Gram, reference: Gram, *, names: Sequence[str], intercept: int | None
) -> list[str]:
    """Return the columns whose coefficients seem to grow without end, if any do."""
    ratio, direction = _weakest(information, reference)
    if ratio > FADING:
        return []
    return _columns(direction, reference, names, intercept)


def _weakest(information: Gram, reference: Gram) -> tuple[float, Vector]:
    """Return the least d'Id / d'Rd over all directions d, and that d."""
    values, vectors = eigh(information, reference, subset_by_index=[0, 0])
    return float(values[0]), vectors[:, 0]


def _runs_away(before: Climb, after: Climb, reference: Gram, weight: float) -> bool:
    """Return whether full steps stay as long as they were with nothing left to gain."""
    if before.step is None or after.step is None or before.halvings:
        return False
    steady = _length(after.step, reference) >= STEADY * _length(before.step, reference)
    return steady and after.size**2 < LITTLE * weight


def _length(step: Vector, reference: Gram) -> float:
    return float(np.sqrt(step @ reference @ step))


def _columns(
    direction: Vector, reference: Gram, names: Sequence[str], intercept: int | None
) -> list[str]:
    """Return the columns that matter most, the greatest first."""
    # In units of what each column alone says: its information given all others.
    unit = np.sqrt(np.diag(System.of(reference, names=names).inverse()))
    parts = np.abs(direction) / unit
    if intercept is not None and len(parts) > 1:
        # It only makes up for where the other columns have their zero.
        parts[intercept] = 0.0
    order = np.argsort(-parts)
    return [names[k] for k in order if parts[k] >= PART * parts.max()]
