"""A round that not all answer: is any sum over fewer parties than it says?

Whether a party contributes to a round is decided by what is asked, never by its rows.
Where somebody sends zeros instead, because a row of its own does not fit, the others'
sum stands alone. Only who knows all vectors can say whose a total is; the coalition
would know that it is somebody's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from veilsum.audit.attack import Outcome
from veilsum.audit.question import AuditRehearsal, SkippedAttack

ATTACK = "a round that not all answer"
# Tables that say where a round's numbers are not zero.
OTHERS = 3

Totals = Sequence[int]


def sums_of_few(
    rest: Totals, given: Mapping[str, Totals], places: Sequence[int]
) -> set[str]:
    """Return the parties that a round shows without all the others.

    `places` are of statistics that no party with rows has zeros in.
    """
    answering = {
        name for name, one in given.items() if any(one[place] for place in places)
    }
    shown = any(rest[place] for place in places)
    return answering if shown and answering != set(given) else set()


def usual_places_of_attacked_vectors(vectors: Sequence[Totals]) -> list[int]:
    """Return where more than half of some parties' numbers are not zero.

    Where few have any, as of rows outside a range, a zero is an answer.
    """
    return [
        place
        for place, column in enumerate(zip(*vectors, strict=True))
        if 2 * sum(one != 0 for one in column) > len(column)
    ]


def play(
    question: AuditRehearsal, *, coalition: Sequence[str], seed: int, trials: int
) -> tuple[Outcome | SkippedAttack, ...]:
    """Look for a round in which some honest party stays silent, and others do not."""
    honest, (n_rows, spread) = question.honest(coalition), question.size
    found = 0
    for trial in range(trials):
        _, played = question.sound((seed, trial))
        if not played.totals:
            return (SkippedAttack(ATTACK, "the method releases no sums"),)
        made = [
            question.held((seed, trial, 30_000 + k), n_rows, spread)
            for k in range(OTHERS)
        ]
        others = question.given(played, made)
        rests = played.rest(coalition)
        found += any(
            sums_of_few(
                rests[k],
                {name: given[name] for name in honest},
                usual_places_of_attacked_vectors(
                    [*given.values(), *(one[k] for one in others)]
                ),
            )
            for k, given in enumerate(played.given)
        )
    about = "a sum over some honest parties without the others"
    return (Outcome(ATTACK, tuple(coalition), about, trials, found, 0.0, "sums"),)
