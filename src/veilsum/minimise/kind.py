"""The minimum of a sum of private costs: the section [cost] and those beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from veilsum.consortium.consortium import AgreedMinimisation, Consortium
from veilsum.consortium.kinds import QuestionSpec
from veilsum.sums.kinds import Asked, QuestionKind
from veilsum.sums.running import SumJobResult, run_sum_job
from veilsum.sums.wording import PageRoom

if TYPE_CHECKING:
    import numpy as np

    from veilsum.minimise.question import Minimise

# Which points a domain has, by its kind and the entries of [domain].
DOMAINS: Mapping[str, str] = {
    "all": "everywhere",
    "box": "where every variable is from lower to upper",
    "ball": "where the distance from centre is radius or less",
    "simplex": "where no variable is below 0, and their sum is total",
    "half-spaces": "where each of the normals times the variables is at most its "
    "offset",
}


class CostSpec(QuestionSpec, frozen=True, kw_only=True):
    """Stands for [cost], which a file has with [domain], [method] and [stopping]."""

    heading = "cost"
    on_tables = False


class MinimiseKind(QuestionKind[AgreedMinimisation]):
    """Minima of sums of private costs."""

    spec = CostSpec
    input = "cost"

    def plan(self, consortium: Consortium) -> Asked:
        """Return the rounds that follow from the agreed kind of cost."""
        from veilsum.minimise.party_cost import PartyCost

        part = PartyCost.of(consortium, self.section(consortium).cost.stand_in())
        return Asked(consortium=consortium, recipe=part.recipe, terms=part.terms)

    def run_without_data(self, asked: Asked) -> SumJobResult:
        from veilsum.minimise.question import Minimised

        recipe = cast("Minimise", asked.recipe)
        released = run_sum_job(recipe, {}, asked.terms, agreed=recipe.agreed)
        return Minimised(terms=asked.terms, recipe=recipe, released=released)

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        question = self.section(asked.consortium)
        recipe = cast("Minimise", asked.recipe)
        cost = question.cost
        yield "question: the minimum of the sum of all members' private costs"
        degree = "" if cost.degree is None else f" of degree {cost.degree}"
        yield f"each cost is of the kind {cost.kind}{degree}"
        yield f"variables: {cost.dim}"
        domain = asked.consortium.to_table()["domain"]
        kind = domain.pop("kind")
        given = [f"{key} = {json.dumps(value)}" for key, value in domain.items()]
        values = f": {room.names('entries of the domain', given)}" if given else ""
        yield f"the minimum is looked for {DOMAINS[kind]} ({kind}{values})"
        masks = recipe.law.masks
        unit = f"2^{-(masks.grid or 0)}" if masks.unit is None else f"{masks.unit}"
        yield f"each cost has {recipe.size} coefficients, in whole numbers of {unit}"
        if (plan := recipe.schedule) is None:
            yield (
                "method: one sum of all coefficients, from which everybody computes it"
            )
            return
        early = "; all stop sooner once they are near enough" if plan.stopping else ""
        yield (
            f"method: {plan.name}, at most {plan.iterations} iterations, that is "
            f"{plan.rounds} rounds of messages between neighbours{early}"
        )

    def limits(self, asked: Asked) -> Iterator[str]:
        yield from cast("Minimise", asked.recipe).limits

    def made_up(
        self, consortium: Consortium, chance: np.random.Generator, spread: float
    ) -> dict[str, Any]:
        """Return a party's own entries of a cost, well within the declared range."""
        question = self.section(consortium)
        cost, largest = question.cost, consortium.masks.largest or 100.0
        # Twice a target is a coefficient, and the squares of matrices are, too.
        reach = spread * min(largest, 1e6) / (8.0 * cost.dim)

        def numbers(count: int) -> list[float]:
            drawn = chance.uniform(-reach, reach, count)
            # What one party gives to another must be exact, or sums differ: in whole
            # units if some were agreed on, and otherwise in parts of a power of two.
            exact = (drawn * 64).round() / 64 if cost.unit is None else drawn.round(2)
            found: list[float] = exact.tolist()
            return found

        import numpy as np

        match cost.kind:
            case "quadratic":
                root = chance.uniform(-1.0, 1.0, (cost.dim, cost.dim)).round(1)
                matrix = (root @ root.T + np.eye(cost.dim)).round(2)
                return {"matrices": matrix.tolist(), "vectors": numbers(cost.dim)}
            case "polynomial":
                lower = numbers(cost.size - 1)
                return {"coefficients": [*lower, float(chance.integers(1, 4))]}
            case "affine":
                return {"coefficients": numbers(cost.dim)}
            case "squared-distance":
                return {"targets": numbers(cost.dim)}


KIND = MinimiseKind()
