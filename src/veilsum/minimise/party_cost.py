"""A cost of one's own, minimised with the others': one real party's side of a scenario.

What is public of the costs follows from the agreed kind of cost, never from anybody's
coefficients: so the plan, the method and the guarantee are the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from veilsum.consortium.consortium import AgreedMinimisation, Consortium
from veilsum.drivers.driver import Driver
from veilsum.errors import InvalidInputError, RangeError
from veilsum.files.ledger import Ledger
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.question import (
    Minimise,
    Minimised,
    check_costs_of_minimisation,
    masks_of_minimisation,
)
from veilsum.numbers.secrets import Secret
from veilsum.privacy.guarantee import Guarantee
from veilsum.protocol.plan import ProtocolPlan
from veilsum.sums.running import plan_for_recipe, run_sum_job
from veilsum.sums.terms import SumTerms


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PartyCost(Secret):
    """One party's cost under what all have agreed on."""

    cost: Cost
    recipe: Minimise
    terms: SumTerms

    @classmethod
    def of(cls, consortium: Consortium, own: Mapping[str, Any]) -> PartyCost:
        """Return it from the party's own entries of [cost]; refuse what misfits."""
        question = consortium.question
        assert isinstance(question, AgreedMinimisation)
        cost, topology = question.cost.own_cost(own), consortium.topology
        basis = check_costs_of_minimisation(
            {"this party": cost}, topology, question.domain
        )
        law = masks_of_minimisation(consortium.masks, basis).on(topology)
        recipe = Minimise.of(
            basis,
            # Its kind was agreed on, and no kind has a part that its owner keeps.
            dict.fromkeys(topology.parties, cost.remainder),
            topology=topology,
            law=law,
            domain=question.domain,
            settings=question.settings,
        )
        try:
            cost = cost.counted(law.masks.rounding)
            law.encode(cost.given(law))
        except RangeError as error:
            raise RangeError(
                f"this party's own cost: {error.plain}", code=error.code
            ) from None
        terms = SumTerms(
            topology=topology,
            law=law,
            policy=consortium.rules.policy,
            # Along a tree who speaks last chooses the total: only where it is named.
            spread="flooding" if recipe.spread == "auto" else recipe.spread,
            run=consortium.run,
        )
        made = cls(cost=cost, recipe=recipe, terms=terms)
        made.check()
        return made

    def check(self) -> None:
        """Refuse a law for simulations, and a graph on which nothing would hold."""
        topology, policy = self.terms.topology, self.terms.policy
        self.terms.law.check_deployable(least_weight=float(topology.weights.min()))
        reason = self.plan.refusal(tuple(topology.parties))
        if reason is not None:
            raise InvalidInputError(
                f"{reason}; [policy] has tolerate = {policy.tolerate} and "
                f"minimum_honest = {policy.minimum_honest}: add parties or links, "
                "or change the policy openly",
                code="terms-not-met",
            )

    @property
    def unit(self) -> str:
        masks = self.terms.law.masks
        return f"2^{-(masks.grid or 0)}" if masks.unit is None else str(masks.unit)

    @property
    def rounded(self) -> str:
        """Number of rounded coefficients in words, for their owner; or empty.

        It is never sent.
        """
        if not self.cost.n_broken:
            return ""
        return (
            f"{self.cost.n_broken} of {self.cost.basis.size} coefficients were rounded "
            f"to whole numbers of {self.unit}"
        )

    @property
    def plan(self) -> ProtocolPlan:
        return plan_for_recipe(self.recipe, self.terms, self.recipe.agreed)

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee that holds if no party is dropped."""
        found = self.recipe.stated(self.terms.guarantee, ())
        return replace(found, limits=(*found.limits, *self.terms.caveats))

    def run(
        self, driver: Driver, ledger: Ledger | None = None, *, new_data: bool = False
    ) -> Minimised:
        party = driver.party
        assert party is not None
        ledgers = {} if ledger is None else {party: ledger}
        terms = replace(self.terms, driver=driver, ledgers=ledgers, new_data=new_data)
        released = run_sum_job(
            self.recipe,
            {party: self.recipe.contribution(party, self.cost)},
            terms,
            agreed=self.recipe.agreed,
        )
        return Minimised(terms=terms, recipe=self.recipe, released=released)
