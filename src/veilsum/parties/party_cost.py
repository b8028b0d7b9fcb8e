"""A cost of one's own, minimised with the others': one real party's side of a scenario.

What is public of a problem follows from the agreed kind of cost, never from anybody's
coefficients. So a party sets the problem up with its own cost standing for everybody's,
and takes from it the plan, the method and the guarantee, which are the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from veilsum.agreement.consortium import Consortium, Minimisation
from veilsum.costs.cost import Cost
from veilsum.drivers.loopback_solve import plan_of, work_of
from veilsum.drivers.masked_sums import Released
from veilsum.drivers.phase_two import IterativePhase
from veilsum.drivers.problem import Problem
from veilsum.errors import InvalidInputError, RangeError
from veilsum.files.ledger import Ledger
from veilsum.jobs.driving import Assignment, Driver
from veilsum.jobs.promises import NOBODY_CURIOUS, Promises, foreseen
from veilsum.jobs.releases import Release
from veilsum.jobs.running import LedgerEntry
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.secrets import Secret
from veilsum.privacy.guarantee import Guarantee, released_by
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import Plan, Policy


@dataclass(frozen=True, kw_only=True, eq=False)
class CostResult:
    """The minimiser of all parties' costs together, as one of them knows it.

    Attributes:
        released: what became known to everybody.
        guarantee: what the masks hide.
        method: what ran.
        iterations: of it.
    """

    released: Released
    guarantee: Guarantee
    method: str
    iterations: int

    @property
    def shown(self) -> tuple[str, ...]:
        """What everybody learned, in words; the guarantee has the coalition's side."""
        return (released_by(self.released.members),)

    @property
    def answer(self) -> Vector:
        """What all parties agreed on."""
        return self.released.answer

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "minimiser": self.answer.tolist(),
            "reference": None,
            "max_error": None,
            "sum_of_masks": None,
            "iterations": self.iterations,
            "rounds": self.released.rounds,
            "bytes": self.released.bytes,
            "guarantee": self.guarantee.to_dict(),
            "method": self.method,
        }


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PartyCost(Secret):
    """One party's cost under what all have agreed on."""

    consortium: Consortium
    question: Minimisation
    cost: Cost
    policy: Policy

    @classmethod
    def of(cls, consortium: Consortium, own: Mapping[str, Any]) -> PartyCost:
        """Return it from the party's own entries of [cost]; refuse what misfits."""
        (question,) = consortium.questions
        assert isinstance(question, Minimisation)
        made = cls(
            consortium=consortium,
            question=question,
            cost=question.cost.own_cost(own),
            policy=consortium.rules.policy,
        )
        made.check()
        return made

    def check(self) -> None:
        """Refuse a law for simulations, and a graph on which nothing would hold."""
        topology = self.consortium.topology
        self.problem.law.check_deployable(least_weight=float(topology.weights.min()))
        reason = self.plan.refusal(topology.parties)
        if reason is not None:
            raise InvalidInputError(
                f"{reason}; [policy] has tolerate = {self.policy.tolerate} and "
                f"minimum_honest = {self.policy.minimum_honest}: add parties or links, "
                "or change the policy openly"
            )

    @cached_property
    def problem(self) -> Problem:
        """The problem, with this party's cost in every place."""
        topology, masks = self.consortium.topology, self.consortium.masks
        try:
            return Problem.of(
                [self.cost] * topology.n_parties,
                topology,
                domain=self.question.domain,
                masks=masks,
                settings=self.question.settings,
            )
        except RangeError as error:
            # In all places stands this party: nobody else is to be named.
            raise RangeError(f"this party's own cost: {error.plain}") from None

    @cached_property
    def plan(self) -> Plan:
        """What everybody agrees on."""
        return plan_of(self.problem, run=self.consortium.run, policy=self.policy)

    @property
    def guarantee(self) -> Guarantee:
        """What holds if nobody is dropped."""
        return self.promise(self.plan.parties)

    def promise(self, members: tuple[str, ...]) -> Guarantee:
        """Return what holds among some parties against every tolerated coalition."""
        found = self._promises(members)
        more = () if self.policy.tolerate else (NOBODY_CURIOUS,)
        limits = dict.fromkeys((*found.limits, *self.problem.guarantee.limits, *more))
        return replace(found, limits=tuple(limits))

    @cached_property
    def _promises(self) -> Promises:
        problem = self.problem
        return Promises(problem.topology, problem.law.masks, self.policy.tolerate)

    @property
    def method(self) -> str:
        """The name of what runs."""
        found = self.problem.method
        return found.schedule.name if isinstance(found, IterativePhase) else "one-shot"

    def run(self, driver: Driver, ledger: Ledger | None = None) -> CostResult:
        """Take part, and return what everybody knows then."""
        released = driver.carry_out(
            Assignment(
                plan=self.plan,
                work=work_of(self.problem, driver.party, self.cost),
                promise=foreseen(self.guarantee, drop=self.policy.drop, caveats=()),
                shown=(released_by(self.plan.parties),),
                **self._books(ledger),
            )
        )
        return CostResult(
            released=released,
            guarantee=self.promise(released.members),
            method=self.method,
            iterations=self._iterations(released.rounds),
        )

    def _iterations(self, rounds: int) -> int:
        found = self.problem.method
        if not isinstance(found, IterativePhase):
            return 0
        told = max(0, rounds - found.schedule.recentring)
        return told // found.schedule.method.rounds_per_iteration

    def _books(self, ledger: Ledger | None) -> dict[str, Any]:
        """Return how the ledger, if there is one, is charged and asked beforehand."""
        if ledger is None:
            return {"charge": None}
        release = Release(
            "a minimiser of summed costs",
            {"coefficients of the costs": self.cost.coefficients.size},
        )
        entry = LedgerEntry(
            run=self.consortium.run,
            data=ledger.fingerprint(self.cost.coefficients),  # type: ignore[arg-type]
            law=self.problem.law,
            promise=self.promise,
            tolerate=self.policy.tolerate,
        )

        def charge(emission: Emission, sums: Sequence[Array[Any]]) -> None:
            del sums
            entry.write(ledger, emission, release)

        check = partial(entry.check, ledger, self.plan.parties, release)
        return {"charge": charge, "check": check}
