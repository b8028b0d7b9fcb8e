"""Parties' vectors summed under fresh masks, round after round, by either driver.

Each party's `Work` says which vector comes next. In loopback every party is the machine
that would run on its own computer; vectorised, masks of all parties are drawn at once
from the same streams, which is quicker for many parties and gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError, ProtocolError, VeilsumError
from veilsum.graphs.spreading import spreading_cost
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.masking import Streams, draw_shares
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import Plan
from veilsum.protocol.work import Work

Sums = tuple[Array[Any], ...]

DRIVERS = ("loopback", "vectorised")

# Told after each sum how many there are.
Progress = Callable[[int], None]
# Told what a party is about to show, to whom, after which sums; raises to forbid it.
Before = Callable[[str, Emission, Sequence[Array[Any]]], None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Released:
    """What became known to everybody.

    Attributes:
        sums: one vector for each round.
        answer: what all parties agreed on.
        members: whose vectors are in the sums.
        rounds: message rounds: shares, confirmations, commits, and masked vectors.
        bytes: what crossed all links together.
        sum_of_masks: the largest coordinate of |sum_i u_i| over all rounds; None where
            only the parties know their masks.
    """

    sums: Sums
    answer: Vector
    members: tuple[str, ...]
    rounds: int
    bytes: int
    sum_of_masks: float | None


class GivenUpError(ProtocolError):
    """The parties gave up together.

    Attributes:
        reasons: by party, in one word and in full; the latter never left it.
        sums: what was released by then.
    """

    def __init__(self, reasons: Mapping[str, tuple[str, str]], sums: Sums) -> None:
        told = (f"{name}: {word}, {full}" for name, (word, full) in reasons.items())
        super().__init__(f"the parties gave up; {'; '.join(told)}")
        self.reasons, self.sums = dict(reasons), sums


def masked_sums(
    plan: Plan,
    works: Mapping[str, Work],
    streams: Streams,
    *,
    driver: str = "loopback",
    seed: int = 0,
    before: Before | None = None,
    progress: Progress | None = None,
) -> Released:
    """Return what the parties release to each other.

    Args:
        plan: what they agreed on.
        works: each party's part.
        streams: where shares come from.
        driver: who carries messages.
        seed: of the driver's own chance.
        before: keeps the books, before anything masked leaves a party.
        progress: told about every sum.

    Raises:
        GivenUpError: they did not come to an answer; the message says who and why.
    """
    if driver == "vectorised":
        return _vectorised(plan, works, streams, before, progress)
    if driver != "loopback":
        raise InvalidInputError(
            f"a job is driven by one of {', '.join(DRIVERS)}, found {driver!r}"
        )
    # Here, not above: it needs packages that a plain simulation does not.
    from veilsum.drivers.loopback_sums import sums_in_loopback

    return sums_in_loopback(
        plan, works, streams, seed=seed, before=before, progress=progress
    )


def _vectorised(
    plan: Plan,
    works: Mapping[str, Work],
    streams: Streams,
    before: Before | None,
    progress: Progress | None,
) -> Released:
    law, topology = plan.law, plan.topology
    sums: list[Array[Any]] = []
    unbalanced = 0.0
    while (vectors := _vectors(plan, works, sums)) is not None:
        epoch = len(sums) * (topology.n_parties + 1)
        shares = draw_shares(topology, law, streams, size=plan.size, epoch=epoch)
        masks = shares.masks()
        masked = law.wrap(vectors + masks)
        if before is not None:
            for name, row in zip(plan.parties, masked, strict=True):
                before(name, Emission(epoch, plan.parties, row), sums)
        sums.append(law.decode(np.asarray(masked.sum(axis=0))))
        left = np.abs(law.decode(np.asarray(masks.sum(axis=0)))).max()
        unbalanced = max(unbalanced, float(left))
        if progress is not None:
            progress(len(sums))
    first = works[plan.parties[0]]
    return Released(
        sums=tuple(sums),
        answer=first.answer(sums, plan.parties),
        members=plan.parties,
        rounds=len(sums) * rounds_of_a_sum(plan),
        bytes=len(sums) * _bytes_of_a_sum(plan),
        sum_of_masks=unbalanced,
    )


def _vectors(
    plan: Plan, works: Mapping[str, Work], sums: list[Array[Any]]
) -> Array[Any] | None:
    """Return all parties' next vectors in the law's numbers; None after the last."""
    rows = []
    for name in plan.parties:
        try:
            vector = works[name].vector(sums)
            if vector is not None:
                rows.append(plan.law.encode(vector))
        except VeilsumError as error:
            word = "result" if sums else "input"
            raise GivenUpError({name: (word, str(error))}, tuple(sums)) from error
    return np.stack(rows) if rows else None


def rounds_of_a_sum(plan: Plan) -> int:
    """Return the message rounds of one sum: shares, confirmations, commits, vectors."""
    rounds, _ = spreading_cost(plan.topology, plan.spread)
    return 3 + rounds


def _bytes_of_a_sum(plan: Plan) -> int:
    """Return the bytes of bare numbers: shares, and vectors on their way."""
    _, vectors = spreading_cost(plan.topology, plan.spread)
    numbers = (2 * plan.topology.n_edges + vectors) * plan.size
    return numbers * plan.law.number_bytes
