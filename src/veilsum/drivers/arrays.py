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
    DriverAssignment,
    DriverOutput,
    DriverRandomness,
    DriverView,
    GivenUpError,
    largest_sum_of_driver,
    rounds_of_a_sum,
)
from veilsum.errors import InvalidInputError, VeilsumError
from veilsum.graphs.spreading import spanning_tree, spanning_tree_sum, spreading_cost
from veilsum.masks.masking import MaskShares, MaskStreams, draw_mask_shares, draw_masks
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import add_wide_integers, total_of_wide_integers
from veilsum.privacy.transcript import (
    Reach,
    Transcript,
    TranscriptDrawnEpoch,
    simulate_transcript,
)
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import ProtocolPlan


@dataclass(frozen=True, kw_only=True)
class ArrayDriver(DriverRandomness):
    party: None = field(default=None, init=False)

    def carry_out(self, assignment: DriverAssignment) -> DriverOutput:
        """Draw all masks of an epoch at once, add up, and ask for the next vectors."""
        plan, works = assignment.plan, assignment.works
        law, topology = plan.law, plan.topology
        streams = self.streams(law)
        watched = self.watched or assignment.watched
        iterates = works[plan.parties[0]].rounds is not None
        sums: list[Array[Any]] = []
        drawn: list[TranscriptDrawnEpoch] = []
        unbalanced = 0.0
        while (vectors := _next_vectors_of_all_parties(assignment, sums)) is not None:
            epoch = len(sums) * (topology.n_parties + 1)
            masks, shares = self.draw(plan, streams, epoch, keep=watched or iterates)
            masked = law.wrap(add_wide_integers(vectors, masks))
            unbalanced = max(unbalanced, largest_sum_of_driver(masks, law))
            if assignment.charge is not None:
                for name, row in zip(plan.parties, masked, strict=True):
                    assignment.charge(name, Emission(epoch, plan.parties, row), sums)
            if iterates and shares is not None:
                first = TranscriptDrawnEpoch(epoch, vectors, shares)
                return self.iterate(assignment, masked, first, unbalanced)
            released = law.wrap(_total_as_added_on_the_way(plan, masked))
            if watched and shares is not None:
                drawn.append(TranscriptDrawnEpoch(epoch, vectors, shares, released))
            sums.append(law.decode(released))
            if assignment.progress is not None:
                assignment.progress(len(sums))
        answer = works[plan.parties[0]].answer(sums, plan.parties)
        seen = None
        if watched:
            seen = DriverView(
                shares=drawn[0].shares,
                transcript=partial(array_driver_transcript, plan, drawn),
                times=np.zeros(1, np.int64),
                estimates=np.tile(answer, (1, topology.n_parties, 1)),
            )
        _, vectors_told = spreading_cost(topology, plan.spread)
        numbers = (arcs_of_driver_epoch(plan) + vectors_told) * plan.size
        return DriverOutput(
            sums=tuple(sums),
            answer=answer,
            members=plan.parties,
            rounds=len(sums) * rounds_of_a_sum(plan),
            bytes=len(sums) * numbers * law.number_bytes,
            sum_of_masks=unbalanced,
            seen=seen,
        )

    def draw(
        self, plan: ProtocolPlan, streams: MaskStreams, epoch: int, *, keep: bool
    ) -> tuple[Array[Any], MaskShares | None]:
        topology, law, size = plan.topology, plan.law, plan.size
        if keep or not law.exact:
            shares = draw_mask_shares(topology, law, streams, size=size, epoch=epoch)
            return shares.masks(), shares
        return draw_masks(topology, law, streams, size=size, epoch=epoch), None

    def iterate(
        self,
        assignment: DriverAssignment,
        masked: Array[Any],
        first: TranscriptDrawnEpoch,
        unbalanced: float,
    ) -> DriverOutput:
        """Refuse: `MethodArrays` in `veilsum.minimise` runs iterative methods."""
        del assignment, masked, first, unbalanced
        raise InvalidInputError(
            "this driver adds vectors only; for an iterative method use "
            "veilsum.minimise.arrays.MethodArrays",
            code="driver-without-methods",
        )


def array_driver_transcript(
    plan: ProtocolPlan,
    drawn: Sequence[TranscriptDrawnEpoch],
    corrupted: Iterable[Hashable],
) -> Transcript:
    by_tree, iterates = plan.spread == "tree", bool(drawn[0].told)
    reach: Reach = "everybody"
    if by_tree or iterates:
        reach = "neighbours" if plan.policy.stand_in else "itself"
    return simulate_transcript(
        plan.law,
        drawn,
        corrupted=corrupted,
        reach=reach,
        by_tree=by_tree and not iterates,
        plan=plan.digest,
    )


def _next_vectors_of_all_parties(
    assignment: DriverAssignment, sums: list[Array[Any]]
) -> Array[Any] | None:
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


def _total_as_added_on_the_way(plan: ProtocolPlan, masked: Array[Any]) -> Array[Any]:
    """Return the sum, in the order in which floats would be added on their way."""
    if plan.spread == "tree":
        return spanning_tree_sum(masked, spanning_tree(plan.topology))
    return total_of_wide_integers(masked)


def arcs_of_driver_epoch(plan: ProtocolPlan) -> int:
    """Return the shares that cross all links in one epoch."""
    return plan.topology.n_edges * plan.topology.shares_per_edge
