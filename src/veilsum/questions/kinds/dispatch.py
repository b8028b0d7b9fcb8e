"""Prices that balance private demands: the section [dispatch]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from veilsum.consortium.consortium import Consortium
from veilsum.consortium.costs import Unit
from veilsum.consortium.kinds import QuestionSpec
from veilsum.errors import InvalidScenarioError
from veilsum.locale import limit
from veilsum.numbers.units import unit_of
from veilsum.reading import Number, Whole, about
from veilsum.sums.kinds import Asked, QuestionKind, agreed_options, agreed_terms
from veilsum.sums.recipes import Contribution
from veilsum.sums.running import JobResult
from veilsum.sums.wording import PageRoom, exact
from veilsum.tables.frames import Frame, as_frame, load_pandas
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

if TYPE_CHECKING:
    import numpy as np

# How generators show: what a price that is tried tells of others.
GENERATORS = limit("generators")


class DispatchSpec(QuestionSpec, frozen=True, kw_only=True):
    """A price at which everybody's generators meet everybody's demand; or several."""

    heading = "dispatch"
    on_tables = False

    prices: Annotated[
        tuple[float, float], Meta(description="the lowest and the highest")
    ]
    tolerance: Number | None = None
    max_rounds: Whole | None = None
    unit: Unit | None = None
    price_unit: Unit | None = None
    total_cost: bool | None = None
    periods: Whole | None = None
    rise: Number | None = None

    def __post_init__(self) -> None:
        one, many = ("unit", "price_unit", "total_cost"), ("rise",)
        wrong, when = (many, "without") if self.periods is None else (one, "with")
        for key in wrong:
            if key in self.given():
                raise InvalidScenarioError(
                    f"[dispatch] {key} has no meaning {when} periods: take it out"
                )


class DispatchKind(QuestionKind):
    """Prices that balance private demands."""

    spec = DispatchSpec

    def plan(self, consortium: Consortium) -> Asked:
        """Return the rounds of a search for prices."""
        from veilsum.questions.dispatch import dispatch_recipe

        (spec,) = consortium.questions
        assert isinstance(spec, DispatchSpec)
        with about(spec.heading):
            recipe = dispatch_recipe(**spec.given())
        terms = agreed_terms(consortium, recipe.counts)
        return Asked(consortium=consortium, recipe=recipe, terms=terms)

    def check(self, asked: Asked) -> None:
        """Balance no demand at all: that takes one round, and every check is made."""
        super().check(asked)
        consortium = asked.consortium
        (spec,) = consortium.questions
        assert isinstance(spec, DispatchSpec)
        nothing = {"demand": [0.0], **{key: [nan] for key in ("a", "b", "low", "high")}}
        if spec.periods is not None:
            nothing = {f"demand_{k + 1}": [0.0] for k in range(spec.periods)}
        tables = {name: as_frame(nothing) for name in consortium.topology.parties}
        how: dict[str, Any] = {
            **agreed_options(consortium),
            "driver": "vectorised",
            "seed": 0,
        }
        self.run(spec, tables, compare=False, **how)

    def run(
        self,
        spec: DispatchSpec,
        data: Mapping[str, Frame],
        *,
        schema: Schema | None = None,
        rules: Rules | None = None,
        compare: bool = False,
        **how: Any,
    ) -> JobResult:
        """Return the price for some parties' generators and demands."""
        from veilsum.files.datasets import fleet_of, site_of
        from veilsum.questions.dispatch import dispatch, dispatch_periods

        del schema, rules
        if (periods := spec.periods) is not None:
            fleets = {name: fleet_of(one, periods, name) for name, one in data.items()}
            return dispatch_periods(fleets, **spec.given(), **how)
        sites = {name: site_of(table, name) for name, table in data.items()}
        return dispatch(sites, compare=compare, **spec.given(), **how)

    def rounded(self, spec: DispatchSpec, table: Frame) -> dict[str, int]:
        """Return how many demands the agreed unit rounds."""
        from veilsum.files.datasets import site_of

        if spec.unit is None:
            return {}
        broken = site_of(table).n_broken(unit_of(spec.unit))
        return {"demand": broken} if broken else {}

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        """Yield the question in words."""
        del room
        (spec,) = asked.consortium.questions
        assert isinstance(spec, DispatchSpec)
        yield from _dispatch(spec.given())

    def warnings(self, asked: Asked) -> Iterator[str]:
        """Yield how much of its generators a party shows."""
        from veilsum.questions.dispatch import FLEETS, PeriodsRecipe

        yield FLEETS if isinstance(asked.recipe, PeriodsRecipe) else GENERATORS

    def limits(self, asked: Asked) -> Iterator[str]:
        """Yield how much of its generators a party shows."""
        from veilsum.questions.dispatch import PriceRecipe

        if isinstance(asked.recipe, PriceRecipe):
            yield GENERATORS

    def made_up(
        self, asked: Consortium, chance: np.random.Generator, spread: float
    ) -> Frame:
        """Return generators that can meet the demand beside them, within the prices."""
        del spread
        (spec,) = asked.questions
        assert isinstance(spec, DispatchSpec)
        low, high = spec.prices
        n, periods = 6, spec.periods
        least = chance.uniform(0.0, 2.0, n).round(1)
        made: dict[str, Any] = {
            # Of what half the prices are paid for, so that the middle one balances.
            "a": chance.uniform(0.01, 0.02, n).round(4) * max(high - low, 0.01),
            "b": low + chance.uniform(0.1, 0.4, n).round(2) * (high - low),
            "low": least,
            "high": least + chance.uniform(4.0, 9.0, n).round(1),
        }
        if periods is None:
            made["demand"] = chance.uniform(2.0, 4.0, n).round(1)
        else:
            made["ramp"] = made["high"]
            for k in range(1, periods + 1):
                made[f"demand_{k}"] = chance.uniform(2.0, 4.0, n).round(1)
        return load_pandas().DataFrame(made)

    def contribution(self, recipe: Any, data: Frame) -> Contribution:
        """Return what one holder of generators gives, at whatever prices are asked."""
        from veilsum.files.datasets import fleet_of, site_of
        from veilsum.questions.dispatch import PeriodsRecipe

        search = recipe.search
        if isinstance(recipe, PeriodsRecipe):
            fleet = search.bent(fleet_of(data, search.periods))
            return Contribution(partial(search.response, fleet), ())
        return Contribution(partial(search.response, site_of(data)), ())

    def figures(
        self, draw: Any, result: Any, title: str, **shown: Any
    ) -> dict[str, Any]:
        """Return the supply at every price, or the schedule of all periods."""
        from veilsum.questions.dispatch import DispatchResult

        del shown
        if isinstance(result, DispatchResult):
            return {"supply": draw.supply_figure(result, title)}
        return {"schedule": draw.schedule_figure(result, title)}


def _dispatch(given: Mapping[str, Any]) -> Iterator[str]:
    low, high = given["prices"]
    if "periods" in given:
        yield from _periods(given)
        return
    yield "question: the price at which all generators meet all demands"
    if given.get("total_cost"):
        yield "and what all generators cost together at that price"
    yield f"prices that may be tried: {exact(low)} to {exact(high)}"
    yield (
        "looked at in each member's table: demand, of every generator its costs a "
        "and b and its limits low and high, and of every step its price and quantity"
    )
    if "unit" in given:
        yield f"power is counted in whole numbers of {given['unit']}"
    if "price_unit" in given:
        yield f"prices of steps are whole numbers of {given['price_unit']}"


def _periods(given: Mapping[str, Any]) -> Iterator[str]:
    (low, high), periods = given["prices"], given["periods"]
    yield (
        "question: a price for each period, at which all generators and stores meet "
        f"all demands; periods: {periods}"
    )
    yield f"prices that may be tried in each: {exact(low)} to {exact(high)}"
    yield (
        f"looked at in each member's table: demands, demand_1 to demand_{periods}; of "
        "every generator its costs a and b, its limits low and high, and its ramp; of "
        "every store its wear, energy, power, efficiency and start"
    )
    if "rise" in given:
        yield (
            "an offer at one price, and a store that does not wear, is made to rise by "
            f"{exact(given['rise'])} from its lower to its upper limit"
        )


KIND = DispatchKind()
