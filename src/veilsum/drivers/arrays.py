"""All parties as rows of one array: the quickest way to simulate them.

Masks come from the same streams as those of machines, so the sums are the same, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from veilsum.drivers.driver import (
    Assignment,
    Chance,
    GivenUpError,
    Released,
    Seen,
    largest_sum,
    rounds_of_a_sum,
)
from veilsum.errors import InvalidInputError, VeilsumError
from veilsum.graphs.spreading import spanning_tree, spreading_cost, tree_sum
from veilsum.masks.masking import Shares, Streams, draw_masks, draw_shares
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import add, total
from veilsum.privacy.transcript import Drawn, Reach, Transcript, simulated
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Arrays(Chance):
    party: None = field(default=None, init=False)

    def carry_out(self, assignment: Assignment) -> Released:
        """Draw all masks of an epoch at once, add up, and ask for the next vectors."""
        plan, works = assignment.plan, assignment.works
        law, topology = plan.law, plan.topology
        streams = self.streams(law)
        watched = self.watched or assignment.watched
        iterates = works[plan.parties[0]].rounds is not None
        sums: list[Array[Any]] = []
        drawn: list[Drawn] = []
        unbalanced = 0.0
        while (vectors := _vectors(assignment, sums)) is not None:
            epoch = len(sums) * (topology.n_parties + 1)
            masks, shares = self.draw(plan, streams, epoch, keep=watched or iterates)
            masked = law.wrap(add(vectors, masks))
            unbalanced = max(unbalanced, largest_sum(masks, law))
            if assignment.charge is not None:
                for name, row in zip(plan.parties, masked, strict=True):
                    assignment.charge(name, Emission(epoch, plan.parties, row), sums)
            if iterates and shares is not None:
                first = Drawn(epoch, vectors, shares)
                return self.iterate(assignment, masked, first, unbalanced)
            released = law.wrap(_total(plan, masked))
            if watched and shares is not None:
                drawn.append(Drawn(epoch, vectors, shares, released))
            sums.append(law.decode(released))
            if assignment.progress is not None:
                assignment.progress(len(sums))
        answer = works[plan.parties[0]].answer(sums, plan.parties)
        seen = None
        if watched:
            seen = Seen(
                shares=drawn[0].shares,
                transcript=partial(transcript, plan, drawn),
                times=np.zeros(1, np.int64),
                estimates=np.tile(answer, (1, topology.n_parties, 1)),
            )
        _, vectors_told = spreading_cost(topology, plan.spread)
        numbers = (arcs(plan) + vectors_told) * plan.size
        return Released(
            sums=tuple(sums),
            answer=answer,
            members=plan.parties,
            rounds=len(sums) * rounds_of_a_sum(plan),
            bytes=len(sums) * numbers * law.number_bytes,
            sum_of_masks=unbalanced,
            seen=seen,
        )

    def draw(
        self, plan: Plan, streams: Streams, epoch: int, *, keep: bool
    ) -> tuple[Array[Any], Shares | None]:
        topology, law, size = plan.topology, plan.law, plan.size
        if keep or not law.exact:
            shares = draw_shares(topology, law, streams, size=size, epoch=epoch)
            return shares.masks(), shares
        return draw_masks(topology, law, streams, size=size, epoch=epoch), None

    def iterate(
        self,
        assignment: Assignment,
        masked: Array[Any],
        first: Drawn,
        unbalanced: float,
    ) -> Released:
        """Refuse: `MethodArrays` in `veilsum.minimise` runs iterative methods."""
        del assignment, masked, first, unbalanced
        raise InvalidInputError(
            "this driver adds vectors only; for an iterative method use "
            "veilsum.minimise.arrays.MethodArrays",
            code="driver-without-methods",
        )


def transcript(
    plan: Plan, drawn: Sequence[Drawn], corrupted: Iterable[Hashable]
) -> Transcript:
    by_tree, iterates = plan.spread == "tree", bool(drawn[0].told)
    reach: Reach = "everybody"
    if by_tree or iterates:
        reach = "neighbours" if plan.policy.stand_in else "itself"
    return simulated(
        plan.law,
        drawn,
        corrupted=corrupted,
        reach=reach,
        by_tree=by_tree and not iterates,
        plan=plan.digest,
    )


def _vectors(assignment: Assignment, sums: list[Array[Any]]) -> Array[Any] | None:
    """Return all parties' next vectors in the law's numbers; None after the last."""
    rows = []
    for name in assignment.plan.parties:
        try:
            vector = assignment.works[name].vector(sums)
            if vector is not None:
                rows.append(assignment.plan.law.encode(vector))
        except VeilsumError as error:
            word = "result" if sums else "input"
            raise GivenUpError(
                {name: (word, str(error))}, tuple(sums), code=error.code
            ) from error
    return np.stack(rows) if rows else None


def _total(plan: Plan, masked: Array[Any]) -> Array[Any]:
    """Return the sum, in the order in which floats would be added on their way."""
    if plan.spread == "tree":
        return tree_sum(masked, spanning_tree(plan.topology))
    return total(masked)


def arcs(plan: Plan) -> int:
    """Return the shares that cross all links in one epoch."""
    return plan.topology.n_edges * plan.topology.shares_per_edge
