"""Reassignment attack: distinguish two distributions of the same rows among parties.

Every total is a function of the pooled rows or, where a party's contribution depends on
all of its rows jointly, of the set of tables, regardless of their owners. The attacker
knows both distributions exactly, runs the question on each, and compares the results
with the released totals. If both agree, as promised, nothing is learned.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from veilsum.audit.attack import Outcome
from veilsum.audit.question import (
    AuditRehearsal,
    Held,
    Holdings,
    RehearsedAnswer,
    SkippedAttack,
)
from veilsum.consortium.consortium import AgreedMinimisation
from veilsum.consortium.costs import OWN
from veilsum.tables.frames import load_pandas

ATTACK = "reassignment"
# Dealings that are tried for one that everybody's rules admit.
DEALINGS = 8
NO_OTHER = "no other dealing of made-up rows passes everybody's rules"

Label = TypeVar("Label", bound=Hashable)


def worlds_with_these_totals(
    seen: Sequence[Any], worlds: Mapping[Label, Sequence[Any]]
) -> set[Label]:
    """Return the worlds in which exactly these totals, round by round, are released.

    The attacker has each world's totals by running everybody's program in it.
    """
    return {label for label, totals in worlds.items() if list(totals) == list(seen)}


def play(
    question: AuditRehearsal, *, coalition: Sequence[str], seed: int, trials: int
) -> tuple[Outcome | SkippedAttack, ...]:
    """Guess which of two dealings among honest parties was the true one."""
    honest = question.honest(coalition)
    if len(honest) < 2:
        return (
            SkippedAttack(ATTACK, "one honest party alone has nobody to exchange with"),
        )
    chance, told = np.random.default_rng((seed, 2)), 0
    for trial in range(trials):
        held, played = deal_spare_rows(question, honest, (seed, trial))
        if not played.totals:
            return (SkippedAttack(ATTACK, "the method releases no sums"),)
        other = deal_rows_again(question, held, played, honest, chance)
        if other is None:
            return (SkippedAttack(ATTACK, NO_OTHER),)
        worlds = {0: played.totals, 1: other[1].totals}
        told += len(worlds_with_these_totals(played.totals, worlds)) == 1
    what = "rows are" if question.by_row else "holdings are"
    about = f"in which of two ways {what} dealt to honest parties"
    return (Outcome(ATTACK, tuple(coalition), about, trials, told, 0.0, "sums"),)


def deal_spare_rows(
    question: AuditRehearsal, honest: Sequence[str], seed: Any
) -> tuple[dict[str, Held], RehearsedAnswer]:
    """Return what everybody holds, with enough rows for other dealings, too."""
    return question.sound(seed, dict.fromkeys(honest, question.size[0] * 5 // 4))


def deal_rows_again(
    question: AuditRehearsal,
    held: Holdings,
    played: RehearsedAnswer,
    honest: Sequence[str],
    chance: np.random.Generator,
) -> tuple[Holdings, RehearsedAnswer] | None:
    """Return another dealing and the run on it; as many parties hold each level.

    How many hold a level, or rows enough of a cell, is asked first, and no dealing that
    changes these counts is promised to be hidden. So fewer and fewer rows change hands.
    """
    for k in range(DEALINGS):
        other = {
            **held,
            **deal_rows_among_honest_parties(
                question, held, honest, chance, part=2.0**-k
            ),
        }
        found = question.ask(other)
        if found.played is None:
            continue
        if found.screened:
            # As far as they are listed: what is beside that must not decide it.
            listed = played.result.recipe.release(()).numbers
            first, again = played.totals[0], found.played.totals[0]
            if first[:listed] != again[:listed]:
                continue
        return other, found.played
    return None


def deal_rows_among_honest_parties(
    question: AuditRehearsal,
    held: Holdings,
    honest: Sequence[str],
    chance: np.random.Generator,
    *,
    part: float = 1.0,
) -> dict[str, Held]:
    """Return what honest parties hold after an exchange that totals must not show.

    Args:
        question: whose parties they are.
        held: what everybody holds.
        honest: who exchanges rows.
        chance: decides which.
        part: of the rows that change places, at least four of them.
    """
    if isinstance(question.asked, AgreedMinimisation):
        return _shift_costs_between_parties(question.asked, held, honest, chance)
    if not question.by_row:
        turn = 1 + int(chance.integers(len(honest) - 1))
        return {
            name: held[honest[(k + turn) % len(honest)]]
            for k, name in enumerate(honest)
        }
    pooled = load_pandas().concat([held[name] for name in honest], ignore_index=True)
    order = np.arange(len(pooled))
    chosen = chance.permutation(len(pooled))[: max(4, round(part * len(pooled)))]
    order[np.sort(chosen)] = chosen
    mixed = pooled.iloc[order].reset_index(drop=True)
    ends = np.cumsum([0, *(len(held[name]) for name in honest)])
    free = question.schema is None or question.schema.maximum_rows is None
    if free and part == 1.0:
        # Not as many rows as before, where that is nobody's business.
        room = min(np.diff(ends)) // 8
        ends[1:-1] += chance.integers(-room, room + 1, len(ends) - 2)
    return {
        name: mixed.iloc[start:end].reset_index(drop=True)
        for name, start, end in zip(honest, ends[:-1], ends[1:], strict=True)
    }


def _shift_costs_between_parties(
    asked: AgreedMinimisation,
    held: Holdings,
    honest: Sequence[str],
    chance: np.random.Generator,
) -> dict[str, Held]:
    """Return costs of which one party has given a part to another."""
    first, second = chance.choice(len(honest), 2, replace=False)
    key = OWN[asked.cost.kind][-1]
    steps = chance.integers(1, 4, len(held[honest[first]][key])).astype(float)
    if asked.cost.kind == "polynomial":
        steps[-1] = 0.0  # it stays bounded below
    found = {}
    for place, sign in ((first, 1.0), (second, -1.0)):
        own = held[honest[place]]
        found[honest[place]] = {
            **own,
            key: (np.array(own[key]) + sign * steps).tolist(),
        }
    return found
