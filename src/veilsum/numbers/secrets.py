"""Private values, which are never printed, pickled or copied out of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from traceback import clear_frames
from typing import Any, NoReturn

from veilsum.errors import SecretError


class Secret:
    """A mixin for values that hold something private.

    `repr` shows the type and nothing else; pickling and copying by `copy` are refused.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def __rich_repr__(self) -> Any:
        """Say as little to a pretty printer as to a plain one."""
        yield ("content", "private")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise SecretError(
            f"a {type(self).__name__} is private and is never pickled or copied; "
            "send its effective cost instead",
            code="not-copyable",
        )


@contextmanager
def hide_secrets_in_errors() -> Iterator[None]:
    """Let an error out without the variables on its way: they hold private data.

    Whoever reports a crash may write down the variables of every call.
    """
    try:
        yield
    except BaseException as error:
        _forget_secret_variables(error)
        raise


def _forget_secret_variables(error: BaseException | None) -> None:
    """Empty the calls that an error, and those before it, passed through."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
