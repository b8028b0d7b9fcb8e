"""All parties as rows of one array: the quickest way to simulate them.

Masks come from the same streams as those of machines, so the sums are the same, too.
An iterative method runs on an engine, which sees masked numbers and public data only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from veilsum.costs.effective import EffectiveCost
from veilsum.costs.remainders import stack
from veilsum.drivers.driver import (
    Assignment,
    Chance,
    GivenUpError,
    Released,
    Seen,
    largest_sum,
    rounds_of_a_sum,
)
from veilsum.drivers.iterating import Journey, kept_times
from veilsum.engines.choosing import engine_for
from veilsum.engines.engine import Task
from veilsum.engines.faulty import FaultyEngine
from veilsum.errors import VeilsumError
from veilsum.graphs.spreading import spanning_tree, spreading_cost, tree_sum
from veilsum.methods.link_faults import LinkFaults
from veilsum.methods.recentring import recentre
from veilsum.methods.schedule import FLOAT_BYTES, Schedule
from veilsum.numbers.arrays import Array, frozen
from veilsum.numbers.masking import Shares, draw_shares
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import Plan
from veilsum.protocol.rounds import MethodRounds


@dataclass(frozen=True, kw_only=True)
class Arrays(Chance):
    """Simulates all parties at once.

    Attributes:
        faults: what goes wrong on links between two iterations.
    """

    faults: LinkFaults | None = None
    party: None = field(default=None, init=False)

    def carry_out(self, assignment: Assignment) -> Released:
        """Draw all masks of an epoch at once, add up, and ask for the next vectors."""
        plan, works = assignment.plan, assignment.works
        law, topology, streams = plan.law, plan.topology, self.streams(plan.law)
        sums: list[Array[Any]] = []
        first: Shares | None = None
        unbalanced = 0.0
        while (vectors := _vectors(assignment, sums)) is not None:
            epoch = len(sums) * (topology.n_parties + 1)
            shares = draw_shares(topology, law, streams, size=plan.size, epoch=epoch)
            masks = shares.masks()
            masked = law.wrap(vectors + masks)
            unbalanced = max(unbalanced, largest_sum(masks, law))
            if assignment.watched and first is None:
                first = shares
            if assignment.charge is not None:
                for name, row in zip(plan.parties, masked, strict=True):
                    assignment.charge(name, Emission(epoch, plan.parties, row), sums)
            if works[plan.parties[0]].rounds is not None:
                return self._iterated(assignment, masked, shares, unbalanced)
            sums.append(law.decode(_total(plan, masked)))
            if assignment.progress is not None:
                assignment.progress(len(sums))
        answer = works[plan.parties[0]].answer(sums, plan.parties)
        seen = None
        if first is not None:
            everybody = np.tile(answer, (1, topology.n_parties, 1))
            seen = Seen(shares=first, times=np.zeros(1, np.int64), estimates=everybody)
        _, vectors_told = spreading_cost(topology, plan.spread)
        numbers = (_shares_of_an_epoch(plan) + vectors_told) * plan.size
        return Released(
            sums=tuple(sums),
            answer=answer,
            members=plan.parties,
            rounds=len(sums) * rounds_of_a_sum(plan),
            bytes=len(sums) * numbers * law.number_bytes,
            sum_of_masks=unbalanced,
            seen=seen,
        )

    def _iterated(
        self,
        assignment: Assignment,
        masked: Array[Any],
        shares: Shares,
        unbalanced: float,
    ) -> Released:
        """Run the method that all parties have in their hands, on masked rows."""
        plan = assignment.plan
        held = (assignment.works[name].rounds for name in plan.parties)
        rounds = [cast("MethodRounds", one) for one in held]
        settings = rounds[0].schedules.settings
        schedule = rounds[0].schedules.on(plan.topology)
        if schedule.recentring:
            weights, times = schedule.recentring_weights, schedule.recentring
            masked = recentre(plan.topology, weights, masked, rounds=times)
        cost = EffectiveCost(
            rounds[0].basis,
            # Frozen: an affine gradient is this very array.
            frozen(np.array(plan.law.decode(masked))),
            stack([one.remainder for one in rounds]),
        )
        task = Task(
            method=schedule.method,
            weights=schedule.weights,
            cost=cost,
            start=np.stack([one.start for one in rounds]),
            precision=settings.precision,
        )
        if self.faults is None:
            engine = engine_for(task, settings.engine, schedule.iterations)
        else:
            engine = FaultyEngine(task, self.faults)
        size = FLOAT_BYTES * task.start.size
        found = Journey(
            engine,
            schedule,
            cost,
            plan.parties,
            kept_times(schedule.iterations, size, settings.history),
            assignment.progress,
        ).run()
        done = found.iterations * schedule.method.rounds_per_iteration
        seen = Seen(
            shares=shares,
            times=found.times,
            estimates=found.estimates,
            stopped=found.stopped,
            engine=engine.name,
            effective=cost,
        )
        return Released(
            sums=(),
            answer=found.estimates[-1].mean(axis=0),
            members=plan.parties,
            rounds=schedule.recentring + done,
            bytes=_traffic(plan, schedule, done),
            sum_of_masks=unbalanced,
            seen=seen if assignment.watched else None,
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
            raise GivenUpError({name: (word, str(error))}, tuple(sums)) from error
    return np.stack(rows) if rows else None


def _total(plan: Plan, masked: Array[Any]) -> Array[Any]:
    """Return the sum, in the order in which floats would be added on their way."""
    if plan.spread == "tree":
        return tree_sum(masked, spanning_tree(plan.topology))
    return np.asarray(masked.sum(axis=0))


def _shares_of_an_epoch(plan: Plan) -> int:
    return plan.topology.n_edges * plan.topology.shares_per_edge


def _traffic(plan: Plan, schedule: Schedule, rounds: int) -> int:
    """Return the bytes of bare numbers on all links together, shares included."""
    arcs = _shares_of_an_epoch(plan)
    integers = (1 + schedule.recentring) * plan.size * plan.law.number_bytes
    return arcs * (integers + rounds * plan.round_size * FLOAT_BYTES)
