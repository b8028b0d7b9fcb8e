"""Checks of errors by their codes: sentences may change without a change of a test."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from veilsum.errors import InvalidInputError


@contextmanager
def refused(
    code: str,
    error: type[Exception] | tuple[type[Exception], ...] = InvalidInputError,
    mentions: Iterable[object] = (),
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error with a code, whose text mentions the offending values."""
    with pytest.raises(error) as caught:
        yield caught
    assert getattr(caught.value, "code", None) == code, str(caught.value)
    text = str(caught.value)
    assert [value for value in mentions if str(value) not in text] == [], text
