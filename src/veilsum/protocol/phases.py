"""The protocol as a table: what a party waits for in each phase, and what follows.

    masked_sum = sharing, committing, summing

runs once for every sum. `Machine.table` holds the lines; the machine walks them and
nothing else, and the diagram in the documentation is drawn from them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from veilsum.protocol.messages import Message

GREETING, SHARING, COMMITTING = "greeting", "sharing", "committing"
SUMMING, ITERATING, AGREEING = "summing", "iterating", "agreeing"
FINISHED, ABORTED = "finished", "aborted"

# Nobody has shown a masked number: parties may still be dropped, in a new epoch.
BEFORE_READY = (GREETING, SHARING)
BEFORE_COMMIT = (*BEFORE_READY, COMMITTING)
CLOSED = (FINISHED, ABORTED)

M = TypeVar("M")

# What a machine does with a message: from whom, which, and the frame it came in. Says
# whether the message may have been the last thing that was waited for.
Handler: TypeAlias = Callable[[M, str, Any, bytes], bool]
Handlers: TypeAlias = Mapping[type[Message], Handler[M]]


@dataclass(frozen=True, slots=True)
class PhaseTransition(Generic[M]):
    """From one phase to the next, once what it waits for is there.

    Attributes:
        waits_for: in words.
        lacks: whom the party is waiting for.
        action: what happens then; returns the phase that follows, one of `targets`.
        guard: whether everything is there, if it takes more than that nobody lacks.
        meanwhile: what to do with what has come so far; it may end the run.
    """

    source: str
    waits_for: str
    lacks: Callable[[M], Collection[str]]
    action: Callable[[M], str]
    targets: tuple[str, ...]
    guard: Callable[[M], bool] | None = None
    meanwhile: Callable[[M], None] | None = None

    def is_over(self, machine: M) -> bool:
        """Say whether everything is there."""
        return not self.lacks(machine) if self.guard is None else self.guard(machine)
