"""All parties as rows of one array: the quickest way to simulate them.

Masks come from the same streams as those of machines, so the sums are the same, too.
An iterative method runs on an engine, which sees masked numbers and public data only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
from veilsum.drivers.tap import MOST_BYTES
from veilsum.engines.choosing import engine_for
from veilsum.engines.device_masks import device_shares
from veilsum.engines.engine import Task
from veilsum.engines.faulty import FaultyEngine
from veilsum.errors import InvalidInputError, VeilsumError
from veilsum.graphs.spreading import spanning_tree, spreading_cost, tree_sum
from veilsum.methods.link_faults import LinkFaults
from veilsum.methods.recentring import recentre
from veilsum.methods.schedule import FLOAT_BYTES, Schedule
from veilsum.numbers.arrays import Array, frozen
from veilsum.numbers.limbs import add, total
from veilsum.numbers.masking import ShareStreams, draw_shares
from veilsum.privacy.transcript import Drawn, Reach, Transcript, simulated
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import Plan
from veilsum.protocol.rounds import MethodRounds
from veilsum.protocol.work import Rounds


@dataclass(frozen=True, kw_only=True)
class Arrays(Chance):
    """Simulates all parties at once.

    Attributes:
        faults: what goes wrong on links between two iterations.
        on_device: whether all shares are drawn at once on JAX's device, by counters:
            quicker for very many parties, and the same for the same seed.
    """

    faults: LinkFaults | None = None
    on_device: bool = False
    party: None = field(default=None, init=False)

    def carry_out(self, assignment: Assignment) -> Released:
        """Draw all masks of an epoch at once, add up, and ask for the next vectors."""
        plan, works = assignment.plan, assignment.works
        law, topology = plan.law, plan.topology
        draw = partial(draw_shares, topology, law, self.streams(law))
        if self.on_device:
            root = ShareStreams.from_seed(self.seed).root
            draw = partial(device_shares, topology, law, root)
        watched = self.watched or assignment.watched
        sums: list[Array[Any]] = []
        drawn: list[Drawn] = []
        unbalanced = 0.0
        while (vectors := _vectors(assignment, sums)) is not None:
            epoch = len(sums) * (topology.n_parties + 1)
            shares = draw(size=plan.size, epoch=epoch)
            masks = shares.masks()
            masked = law.wrap(add(vectors, masks))
            unbalanced = max(unbalanced, largest_sum(masks, law))
            if assignment.charge is not None:
                for name, row in zip(plan.parties, masked, strict=True):
                    assignment.charge(name, Emission(epoch, plan.parties, row), sums)
            if works[plan.parties[0]].rounds is not None:
                first = Drawn(epoch, vectors, shares)
                return self._iterated(assignment, masked, first, unbalanced)
            released = law.wrap(_total(plan, masked))
            if watched:
                drawn.append(Drawn(epoch, vectors, shares, released))
            sums.append(law.decode(released))
            if assignment.progress is not None:
                assignment.progress(len(sums))
        answer = works[plan.parties[0]].answer(sums, plan.parties)
        seen = None
        if watched:
            seen = Seen(
                shares=drawn[0].shares,
                transcript=partial(_transcript, plan, drawn),
                times=np.zeros(1, np.int64),
                estimates=np.tile(answer, (1, topology.n_parties, 1)),
            )
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
        first: Drawn,
        unbalanced: float,
    ) -> Released:
        """Run the method that all parties have in their hands, on masked rows."""
        plan = assignment.plan
        held = (assignment.works[name].rounds for name in plan.parties)
        rounds = [cast("MethodRounds", one) for one in held]
        settings = rounds[0].schedules.settings
        schedule = rounds[0].schedules.on(plan.topology)
        shown = masked
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
            shares=first.shares,
            transcript=partial(self._replayed, assignment, first, shown),
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
            seen=seen if self.watched or assignment.watched else None,
        )

    def _replayed(
        self,
        assignment: Assignment,
        first: Drawn,
        masked: Array[Any],
        corrupted: Iterable[Hashable],
    ) -> Transcript:
        """Return a transcript with all that was told, as parties would tell it.

        An engine does not tell anybody anything: its iterations are done again, party
        by party, only when somebody asks.
        """
        plan = assignment.plan
        if self.faults is not None or plan.topology.directed:
            raise InvalidInputError(
                "a transcript has what machines tell each other over links that carry "
                "both ways: leave faults of links out"
            )
        held = {name: assignment.works[name].rounds for name in plan.parties}
        told = _told(plan, {k: one for k, one in held.items() if one}, masked)
        return _transcript(plan, [replace(first, told=told)], corrupted)


def _transcript(
    plan: Plan, drawn: Sequence[Drawn], corrupted: Iterable[Hashable]
) -> Transcript:
    """Return a coalition's transcript of a run that went as planned."""
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


def _told(
    plan: Plan, rounds: Mapping[str, Rounds], masked: Array[Any]
) -> dict[tuple[int, str], Array[Any]]:
    """Return what every party tells its neighbours, by round and party."""
    graph, names = plan.topology, plan.parties
    pairs = zip(names, masked, strict=True)
    states = {name: rounds[name].begin(row, graph, name) for name, row in pairs}
    told: dict[tuple[int, str], Array[Any]] = {}
    index = size = 0
    while not any(rounds[name].finished(states[name]) for name in names):
        said = {name: rounds[name].outgoing(states[name]) for name in names}
        size += sum(one.nbytes for one in said.values())
        if size > MOST_BYTES:
            raise InvalidInputError(
                f"a transcript has at most {MOST_BYTES:,} bytes, and these parties "
                f"have told each other more after {index} rounds: take fewer iterations"
            )
        for name in names:
            told[index, name] = said[name]
            heard = {other: said[other] for other in graph.neighbours(name)}
            states[name] = rounds[name].advance(states[name], heard)
        index += 1
    return told


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
    return total(masked)


def _shares_of_an_epoch(plan: Plan) -> int:
    return plan.topology.n_edges * plan.topology.shares_per_edge


def _traffic(plan: Plan, schedule: Schedule, rounds: int) -> int:
    """Return the bytes of bare numbers on all links together, shares included."""
    arcs = _shares_of_an_epoch(plan)
    integers = (1 + schedule.recentring) * plan.size * plan.law.number_bytes
    return arcs * (integers + rounds * plan.round_size * FLOAT_BYTES)
