"""Checkpoint file of an audit, to resume it after an interruption.

Executions have a fixed order, so the counts up to some index are all that has to be
kept, for any number of executions; for other attacks, the result of each is kept. The
file is written atomically, and read as numbers and short texts. It is for the auditor:
somebody with write access can change the audit's findings, and only a replay from the
start reveals that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from veilsum.audit.attack import Outcome
from veilsum.audit.question import SkippedAttack
from veilsum.consortium.consortium import canonical_agreement_json
from veilsum.errors import InvalidInputError
from veilsum.files.output import write_files
from veilsum.files.safe_read import read_file_contents
from veilsum.numbers.arrays import Array
from veilsum.numbers.shapes import Int

NAME, FORMAT = "audit.unfinished.json", "veilsum unfinished audit 1"
MOST_BYTES = 256 << 20
# Seconds between two writings: so much is lost at most where the power fails.
BETWEEN = 10.0

Count = Annotated[int, Meta(ge=0, le=2**62)]
Text = Annotated[str, Meta(max_length=10_000)]
# What came of one attack on sums or frames; a text is what sums say.
Gain = Outcome | SkippedAttack | str


class CountedSoFar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Executions, trials and successes by player, scores by player and world."""

    executions: Count
    counts: tuple[tuple[Count, Count], ...]
    scores: dict[str, tuple[tuple[Count, ...], tuple[Count, ...]]]


class AttackSoFar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Result of one attack: an outcome, the reason for having none, or a sentence."""

    attack: Text = ""
    coalition: tuple[Text, ...] = ()
    about: Text = ""
    trials: Count = 0
    successes: Count = 0
    promised: Annotated[float, Meta(ge=0, le=1)] = 0.0
    looked_at: Text = ""
    why: Text = ""
    said: Text = ""

    @classmethod
    def of(cls, gain: Gain) -> AttackSoFar:
        if isinstance(gain, str):
            return cls(said=gain)
        return cls(**vars(gain))

    @property
    def gain(self) -> Gain:
        if self.said:
            return self.said
        if self.why:
            return SkippedAttack(self.attack, self.why)
        keys = (one for one in self.__struct_fields__ if one not in ("why", "said"))
        return Outcome(**{key: getattr(self, key) for key in keys})


class _UnfinishedAuditContent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    audit: str
    counted: dict[str, CountedSoFar]
    attacks: dict[str, tuple[AttackSoFar, ...]]


@dataclass(eq=False)
class UnfinishedAudit:
    """An audit's file, and what is in it.

    Attributes:
        path: where it is.
        audit: a hash of everything that the numbers depend on.
        counted: executions so far, by what was played.
        attacks: what came of further attacks, by their place.
    """

    path: Path
    audit: str
    counted: dict[str, CountedSoFar] = field(default_factory=dict)
    attacks: dict[str, tuple[AttackSoFar, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._written = monotonic()

    @classmethod
    def begun(cls, folder: Path, agreed: Mapping[str, Any]) -> UnfinishedAudit:
        """Return what there is of an audit, nothing if it is new.

        Args:
            folder: where the audit's result will be.
            agreed: what its numbers depend on.

        Raises:
            InvalidInputError: another audit was left unfinished here.
        """
        name = blake2b(
            canonical_agreement_json(dict(agreed)), digest_size=16
        ).hexdigest()
        path = folder / NAME
        if not path.exists():
            return cls(path, name)
        try:
            kept = msgspec.json.decode(
                read_file_contents(path, MOST_BYTES, InvalidInputError),
                type=_UnfinishedAuditContent,
            )
        except (msgspec.DecodeError, RecursionError):
            kept = None
        if kept is None or (kept.format, kept.audit) != (FORMAT, name):
            raise InvalidInputError(
                f"{path} is not of this audit: one of another file, or with other "
                "options or versions, was left unfinished there. Finish that one, "
                "remove the file, or name another folder",
                code="unfinished-audit-differs",
            )
        return cls(path, name, kept.counted, kept.attacks)

    def count(
        self,
        what: str,
        executions: int,
        counts: Int[Array[Any], "players 2"],
        scores: Mapping[int, Int[Array[Any], "2 bins"]],
    ) -> None:
        self.counted[what] = CountedSoFar(
            executions,
            tuple((int(trials), int(right)) for trials, right in counts.tolist()),
            {
                str(k): (tuple(zero), tuple(one))
                for k, (zero, one) in ((k, v.tolist()) for k, v in scores.items())
            },
        )

    def counted_so_far(
        self,
        what: str,
        *,
        size: int,
        most: int,
        players: int,
        scored: Sequence[int],
        bins: int,
    ) -> tuple[int, Array[Any], dict[int, Array[Any]]] | None:
        """Return executions, counts and scores; None if there are none yet.

        Args:
            what: was played.
            size: of a batch; executions are whole batches.
            most: executions that may have been.
            players: how many.
            scored: those with scores, each of which plays in every execution.
            bins: that scores are counted in.

        Raises:
            InvalidInputError: no audit counts like this.
        """
        found = self.counted.get(what)
        if found is None:
            return None
        counts = np.array(found.counts, dtype=np.int64).reshape(-1, 2)
        fits = (
            found.executions % size == 0
            and found.executions < most + size
            and len(counts) == players
            and bool((counts[:, 1] <= counts[:, 0]).all())
            and set(found.scores) == {str(k) for k in scored}
            and all(counts[k, 0] == found.executions for k in scored)
        )
        scores = {}
        for key, (zero, one) in found.scores.items() if fits else ():
            fits &= len(zero) == len(one) == bins
            fits &= sum(zero) + sum(one) == found.executions
            scores[int(key)] = np.array([zero, one] if fits else [], dtype=np.int64)
        if not fits:
            raise InvalidInputError(
                f"{self.path} has counts that no audit has: remove it, and begin anew",
                code="impossible-counts",
            )
        return found.executions, counts, scores

    def write(self, *, now: bool = True) -> None:
        """Write the file, whole or not at all; not so soon again if it can wait."""
        if not now and monotonic() - self._written < BETWEEN:
            return
        content = _UnfinishedAuditContent(
            FORMAT, self.audit, self.counted, self.attacks
        )
        write_files(self.path.parent, {NAME: msgspec.json.encode(content)})
        self._written = monotonic()
