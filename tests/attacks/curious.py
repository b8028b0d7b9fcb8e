"""What curious parties can work out from what they see: attacks, without assertions.

A coalition sees its own data, the released totals and everything that was agreed, the
program of the others included: it can run that on any table it thinks of. Every attack
here is a function of such things alone, and returns the candidates that are left.

Totals are whole numbers, as parties mask them and as they come out of the sum: counts
of a grid's step, or of public units. Attacks do not know which.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import gcd
from typing import TypeVar

Label = TypeVar("Label", bound=Hashable)
Totals = Sequence[int]


def minus(total: Totals, *own: Totals) -> list[int]:
    """Return what is left of a total when the coalition's own parts are taken off."""
    return [whole - sum(part) for whole, *part in zip(total, *own, strict=True)]


def low_bits(
    rest: Totals,
    program: Callable[[Sequence[object]], Sequence[Totals]],
    candidates: Mapping[Label, Sequence[object]],
    others: Sequence[object],
) -> set[Label]:
    """Return what a small party may have, as far as low bits of the totals tell.

    A number that a large party gives is a whole number of some spacing, which the
    attacker finds by running the program on tables as large as that. What is below the
    spacing is the small party's alone: a candidate stays if it leaves the others whole
    spacings.

    Args:
        rest: of one round: what the honest parties gave together.
        program: what each of some tables contributes to it.
        candidates: for each value of what is looked for, some tables that have it, two
            or more; a place where these differ tells of something else.
        others: made-up tables, as large as those of the other honest parties.
    """
    left = set(candidates)
    flat = [one for some in candidates.values() for one in some]
    runs = iter(program([*others, *flat]))
    large = [next(runs) for _ in others]
    given = {label: [next(runs) for _ in some] for label, some in candidates.items()}
    for place, whole in enumerate(rest):
        spacing = gcd(*(one[place] for one in large))
        here = {label: {one[place] for one in some} for label, some in given.items()}
        told = all(len(some) == 1 for some in here.values())
        if spacing and told and len(set.union(*here.values())) > 1:
            left &= {
                label
                for label, some in here.items()
                if (whole - min(some)) % spacing == 0
            }
    return left


def possible(
    seen: Sequence[Totals], worlds: Mapping[Label, Sequence[Totals]]
) -> set[Label]:
    """Return the worlds in which exactly these totals, round by round, are released.

    The attacker has each world's totals by running everybody's program in it.
    """
    return {label for label, totals in worlds.items() if list(totals) == list(seen)}


def sums_of_few(
    rest: Totals, given: Mapping[str, Totals], places: Sequence[int]
) -> set[str]:
    """Return the parties that a round shows without all the others.

    Only who knows all parties' vectors can say whose a total is, as an auditor does;
    the coalition knows that it is somebody's: its sum is over fewer than it says.

    Args:
        rest: what the honest parties gave together.
        given: what each of them gave.
        places: of statistics that no party with rows has zeros in.
    """
    answering = {
        name for name, one in given.items() if any(one[place] for place in places)
    }
    shown = any(rest[place] for place in places)
    return answering if shown and answering != set(given) else set()
