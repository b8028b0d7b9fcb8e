"""What is private does not print, pickle or copy itself out of the process."""

from __future__ import annotations

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
            "send its effective cost instead"
        )
