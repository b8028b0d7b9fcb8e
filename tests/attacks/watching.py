"""Runs of jobs, with what each party hands over to be masked, as whole numbers.

Nothing here knows how a job forms its numbers: a law's `encode` sees each of them last.
"""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np

import veilsum as vs
from veilsum.numbers.limbs import limbs_to_integers

LAWS = {"uniform": {"law": "uniform"}, "lattice": {"law": "lattice", "sigma": 1e9}}


def watched(job, parties, **options):
    """Run a job; return its result, and each round's vectors by party.

    Args:
        job: is called with the options.
        parties: in their order.
        options: of the job, beside the driver, which takes all parties in turn.
    """
    kept = []

    def keeping(encode):
        def keep(self, values, *more, **named):
            numbers = encode(self, values, *more, **named)
            kept.extend(whole(row) for row in np.atleast_2d(numbers))
            return numbers

        return keep

    with ExitStack() as patches:
        for law in _laws():
            patches.enter_context(patch.object(law, "encode", keeping(law.encode)))
        result = job(**{"driver": "vectorised", "seed": 1, **options})
    n = len(parties)
    assert len(kept) % n == 0, "not every party gave a vector in every round"
    rounds = [
        dict(zip(parties, kept[k : k + n], strict=True)) for k in range(0, len(kept), n)
    ]
    return result, rounds


def _laws():
    """Every law of integers that has a way of its own to encode."""
    known, waiting = set(), [vs.masks.UniformMasks, vs.masks.LatticeMasks]
    while waiting:
        one = waiting.pop()
        if one not in known:
            known.add(one)
            waiting += one.__subclasses__()
            waiting += [base for base in one.__mro__ if base.__name__ == "MaskLaw"]
    return [one for one in known if "encode" in vars(one) and _is_exact(one)]


def _is_exact(law):
    return not getattr(law.encode, "__isabstractmethod__", False) and getattr(
        law, "exact", True
    )


class Words(list):
    """The whole numbers of one vector under masks, whose sums wrap around.

    Attributes:
        bits: how many of each number travel.
    """

    bits: int


def whole(numbers):
    """A vector of a law's numbers as Python integers, with their signs."""
    bits = 8 * numbers.dtype.itemsize
    if numbers.dtype == np.uint64:
        numbers = numbers.view(np.int64)
    found = Words(int(one) for one in limbs_to_integers(numbers).tolist())
    found.bits = bits
    return found


def total(given):
    """The sum of the parties' vectors in one round, as it is released.

    Of a residue a sum has nothing but its bits: it wraps around.
    """
    sums = [sum(column) for column in zip(*given.values(), strict=True)]
    if not all(isinstance(one, Words) for one in given.values()):
        return sums
    half = 1 << min(one.bits for one in given.values()) - 1
    return [(one + half) % (2 * half) - half for one in sums]


def totals(rounds):
    """The released totals, round by round."""
    return [total(given) for given in rounds]
