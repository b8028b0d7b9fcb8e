"""Low bits of totals: do they tell what a small party holds?

A number that a large party gives may be a whole number of some spacing, as sums of
float64 are. What is below the spacing is then the small party's alone. The attacker
finds spacings by running the program, which everybody has, on tables of its own.

Where every number is counted in a public unit and rounded row by row, spacings of large
and small parties are the same, and all candidates stay.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import gcd
from typing import Any, TypeAlias, TypeVar

import numpy as np

from veilsum.audit.attack import Outcome
from veilsum.audit.question import AuditRehearsal, SkippedAttack

ATTACK = "low bits"
# A small party's table is one of so many; large parties have so many times its rows.
CANDIDATES, LARGER = 8, 32
# Made-up tables by which spacings are found: no number divides them all by chance.
OTHERS = 8
# Made-up totals can share a factor by chance, or lie above the next power of two. If no
# candidate is left, spacings are divided by these.
SLACKS = (1, 2, 4, 8)

Label = TypeVar("Label", bound=Hashable)
Totals: TypeAlias = Sequence[int]


def low_bits(
    rest: Totals,
    program: Callable[[Sequence[Any]], Sequence[Totals]],
    candidates: Mapping[Label, Sequence[Any]],
    others: Sequence[Any],
) -> set[Label]:
    """Return what a small party may have, as far as low bits of the totals tell.

    Args:
        rest: of one round: what the honest parties gave together.
        program: what each of some tables contributes to it.
        candidates: for each value of what is looked for, some tables that have it; a
            place where these differ tells of something else.
        others: made-up tables, as large as those of the other honest parties.
    """
    flat = [one for some in candidates.values() for one in some]
    runs = iter(program([*others, *flat]))
    large = [next(runs) for _ in others]
    given = {label: [next(runs) for _ in some] for label, some in candidates.items()}
    return candidates_left_by_low_bits(rest, given, large)


def candidates_left_by_low_bits(
    rest: Totals,
    given: Mapping[Label, Sequence[Totals]],
    large: Sequence[Totals],
    moduli: Totals | None = None,
) -> set[Label]:
    """Return the candidates that leave the large parties whole spacings.

    Args:
        rest: what the honest parties gave together.
        given: for each candidate, what some of its tables give.
        large: what other tables of large parties give.
        moduli: of each number, where only residues are known; 0 for a whole one.
    """
    moduli = moduli or (0,) * len(rest)
    for slack in SLACKS:
        left = set(given)
        for place, (whole, modulus) in enumerate(zip(rest, moduli, strict=True)):
            spacing = gcd(modulus, *(one[place] for one in large))
            spacing = spacing // slack if spacing % slack == 0 else spacing
            here = {
                label: {one[place] for one in some} for label, some in given.items()
            }
            told = all(len(some) == 1 for some in here.values())
            if spacing and told and len(set.union(*here.values())) > 1:
                left &= {
                    label
                    for label, some in here.items()
                    if (whole - min(some)) % spacing == 0
                }
        if left:
            return left
    return set()


def play(
    question: AuditRehearsal, *, coalition: Sequence[str], seed: int, trials: int
) -> tuple[Outcome | SkippedAttack, ...]:
    """Guess which of some tables a small party has, from low bits alone."""
    victim, *large = question.honest(coalition)
    if not large:
        return (SkippedAttack(ATTACK, "one honest party alone: the sums are its own"),)
    n_rows, spread = question.size
    many = question.at_most(LARGER * n_rows)
    sizes = dict.fromkeys(large, many)
    chance, right = np.random.default_rng((seed, 1)), 0
    for trial in range(trials):
        held, played = question.sound((seed, trial), sizes)
        if not played.totals:
            return (SkippedAttack(ATTACK, "the method releases no sums"),)
        tables = [
            question.held((seed, trial, 10_000 + k), n_rows, spread)
            for k in range(CANDIDATES)
        ]
        truth = int(chance.integers(CANDIDATES))
        tables[truth] = held[victim]
        others = [
            question.held((seed, trial, 20_000 + k), many, spread)
            for k in range(OTHERS)
        ]
        given = question.given(played, [*tables, *others])
        left = set(range(CANDIDATES))
        for place, rest in enumerate(played.rest(coalition)):
            here = {k: (given[k][place],) for k in range(CANDIDATES)}
            modulus = 1 << 8 * played.law.number_bytes
            stay = candidates_left_by_low_bits(
                rest,
                here,
                [one[place] for one in given[CANDIDATES:]],
                [modulus if bits else 0 for bits in played.residue_bits[place]],
            )
            left &= stay
        guess = int(chance.choice(sorted(left or set(range(CANDIDATES)))))
        right += guess == truth
    about, luck = f"which of {CANDIDATES} tables a small party has", 1 / CANDIDATES
    return (Outcome(ATTACK, tuple(coalition), about, trials, right, luck, "sums"),)
