"""Checks of errors by their codes: sentences may change without a change of a test."""

from collections.abc import Iterable
from typing import Any

import pytest

from veilsum.errors import InvalidInputError


def refused(
    code: str,
    error: type[Exception] | tuple[type[Exception], ...] = InvalidInputError,
    mentions: Iterable[object] = (),
) -> Any:
    """Expect an error with a code, whose text mentions the offending values."""

    # A generator would keep the traceback in a cycle, and sockets in it open.
    def check(caught: Exception) -> bool:
        text = str(caught)
        assert getattr(caught, "code", None) == code, text
        assert [value for value in mentions if str(value) not in text] == [], text
        return True

    return pytest.raises(error, check=check)
