"""A guest in Python: from a table and an invitation to what is sent."""

from __future__ import annotations

from collections.abc import Sequence

from veilsum.errors import InvalidInputError
from veilsum.surveys.submission import Submission, guest_key, make_submission
from veilsum.surveys.terms import SurveyTerms, words_of


def visit(
    survey: SurveyTerms,
    code: str,
    cells: Sequence[Sequence[float | None]],
    number: int = 1,
) -> Submission:
    """Return what a guest sends: its table masked, with a sealed share a delegate.

    Which cells are left empty is not masked: all members see that.

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
