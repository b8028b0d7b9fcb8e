"""A guest in Python: from a table and an invitation to what is sent."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf

import numpy as np

from veilsum.agreement.survey import SurveyTerms
from veilsum.errors import InvalidInputError, RangeError
from veilsum.guests.submission import Submission, Words, guest_key, make_submission
from veilsum.numbers.arrays import is_number


def visit(
    survey: SurveyTerms,
    code: str,
    cells: Sequence[Sequence[float | None]],
    number: int = 1,
) -> Submission:
    """Return what a guest sends: its table masked, with a sealed share a delegate.

    Args:
        survey: as its file says.
        code: the guest's invitation.
        cells: row by row; None where a cell is left empty.
        number: 1, and one more for each correction. What is sent again because nobody
            answered is the same submission: keep it, and do not make another.

    Raises:
        InvalidInputError: the code or a cell cannot be used; nothing was made.
    """
    if survey.set is not None:
        raise InvalidInputError("the survey is closed: nothing is taken any more")
    key = guest_key(code)
    public = key.public_key().public_bytes_raw()
    name = next((one.name for one in survey.guests if one.key == public), None)
    if name is None:
        raise InvalidInputError(
            "the invitation is to another survey, or has a typing error"
        )
    return make_submission(survey, name, key, words_of(survey, cells), number)


def words_of(survey: SurveyTerms, cells: Sequence[Sequence[float | None]]) -> Words:
    """Return a table as the words that are masked: which are given, then values."""
    if len(cells) != len(survey.rows) or any(
        len(row) != len(survey.columns) for row in cells
    ):
        raise InvalidInputError(
            f"the table must have {len(survey.rows)} rows of {len(survey.columns)} "
            "cells, as the survey has"
        )
    given, values = [], []
    for row, label in zip(cells, survey.rows, strict=True):
        for cell, column in zip(row, survey.columns, strict=True):
            given.append(0 if cell is None else 1)
            values.append(
                0 if cell is None else _count(survey, cell, f"{label}, {column}")
            )
    whole = [one % 2**64 for one in (*given, *values)]
    return np.array(whole, dtype=np.uint64)


def _count(survey: SurveyTerms, cell: float, where: str) -> int:
    """Return how many units a cell has; refuse another number, or part of a unit."""
    if not is_number(cell) or not -inf < cell < inf:
        raise RangeError(f"{where}: must be a number, or empty")
    # What was typed, 0.1, and not the float that is nearest to it.
    typed = Fraction(int(cell)) if cell == int(cell) else Fraction(repr(float(cell)))
    counts = typed / survey.unit
    if counts.denominator != 1:
        raise RangeError(
            f"{where}: {cell} is no whole number of {survey.unit}: round it",
            plain=f"{where}: is no whole number of {survey.unit}",
        )
    if not survey.least <= counts <= survey.most:
        raise RangeError(f"{where}: must be from {survey.low} to {survey.high}")
    return int(counts)
