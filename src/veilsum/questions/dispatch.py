"""Economic dispatch: parties find the prices that balance all their demands.

    day = dispatch_periods(fleets, prices=(0, 100), periods=24)
    print(day.summary())

Of one period, each round shows the sum of everybody's surplus at one price, what more
is offered at just that price, and the slope. Of several, every round shows output less
demand in each period, over all parties, at public prices. What is hidden is how demand
splits among honest parties; generators' costs, limits and stores show in how the sums
bend, jump and change with the prices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from math import fsum, nan
from types import ModuleType
from typing import Annotated, Any, Generic, TypeVar, Unpack

import numpy as np
import scipy
from msgspec import Meta

from veilsum.consortium.consortium import Consortium
from veilsum.consortium.costs import Unit
from veilsum.consortium.kinds import QuestionSpec
from veilsum.errors import InvalidInputError, InvalidScenarioError, LocalProtocolError
from veilsum.locale import limit_phrase
from veilsum.models.fleets import (
    Fleet,
    FleetCleared,
    FleetPeriodSearch,
    FleetSearchState,
    Numbers,
)
from veilsum.models.price import (
    CostAt,
    PriceSearch,
    PriceSettled,
    Site,
    State,
    TriedPrice,
)
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.layout import NumberLayout
from veilsum.numbers.units import few_decimals_unit, numeric_unit_of
from veilsum.reading import Number, Whole, about_read_section
from veilsum.showing import Rendering, ShownTable, counted_words
from veilsum.sums.kinds import Asked, QuestionKind, agreed_sum_options, agreed_sum_terms
from veilsum.sums.recipes import RecipeReplay, SumContribution, SumRecipe, Sums
from veilsum.sums.releases import PossibleRound, SumRelease
from veilsum.sums.running import SumJobResult, run_sum_job
from veilsum.sums.table_job import is_simulated_sum
from veilsum.sums.terms import SumOptions, SumTerms, parties_data_by_name
from veilsum.sums.wording import PageRoom, exact_number_words
from veilsum.tables.frames import Frame, as_frame, load_pandas
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

S = TypeVar("S")

LIMIT = limit_phrase("dispatch")
# How generators and stores show: what prices that are tried tell of others.
FLEETS = limit_phrase("fleets")


class TriedPrices(SumRecipe, Generic[S]):
    """One sum for each price, or for all prices that are tried together."""

    search: Any

    @property
    def layout(self) -> NumberLayout:
        return self.search.layout

    @property
    def most_numbers(self) -> int:
        return self.size * int(self.search.max_rounds)

    @cached_property
    def _places(self) -> RecipeReplay[S]:
        return RecipeReplay(self.search.start, self.search.advance)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BalancedResult(SumJobResult):
    """Prices that balance supply and demand.

    Attributes:
        outputs: what each party's generators and stores run; here all of them are
            known, in a real run each party knows its own.
        costs: what each of them costs at that; known to the same.
    """

    outputs: Mapping[str, FloatArray] = field(repr=False)
    costs: Mapping[str, FloatArray] = field(repr=False)

    @property
    def _plain_units(self) -> dict[str, Any]:
        return {
            "outputs": {party: p.tolist() for party, p in self.outputs.items()},
            "costs": {party: c.tolist() for party, c in self.costs.items()},
        }


# One period


@dataclass(frozen=True, eq=False)
class DispatchPriceRecipe(TriedPrices[State]):
    search: PriceSearch
    answer_size: int = field(default=5, init=False)

    @property
    def most_numbers(self) -> int:
        """Most numbers released: at all prices to be tried, and any requested cost."""
        return super().most_numbers + self.search.total_cost

    def request(self, sums: Sums) -> TriedPrice | CostAt | None:
        tried = self._tried(sums)
        state = self._places.state(tried)
        if not isinstance(state, PriceSettled):
            return self.search.propose(state)
        if self.search.total_cost and len(tried) == len(sums):
            return CostAt(state.price)
        return None

    def _tried(self, sums: Sums) -> Sums:
        known = self.search.total_cost and sums and self._places.state(sums[:-1]).done
        return sums[:-1] if known else sums

    def answer(self, sums: Sums) -> Vector:
        found = self.settled(sums)
        at = found.price
        return np.array([at.value, at.share, at.taken, found.lowest, found.highest])

    def settled(self, sums: Sums) -> PriceSettled:
        state = self._places.state(self._tried(sums))
        if not isinstance(state, PriceSettled):
            raise LocalProtocolError(
                "a price was asked for before it was settled", code="price-not-settled"
            )
        return state

    def total_cost(self, sums: Sums) -> float | None:
        """Return what all outputs cost together, if that was asked for."""
        if len(self._tried(sums)) == len(sums):
            return None
        return float(self.search.costs.counts.values(sums[-1])[0])

    def release(self, sums: Sums) -> SumRelease:
        request = self.request(sums)
        if isinstance(request, CostAt):
            at = request.price
            point: tuple[float, ...] = (at.value, at.share, at.taken)
            shown = self.search.costs.released
            return SumRelease("dispatch cost", shown, point, "the price found")
        assert request is not None
        point, where = (request.value, request.share), f"the price {request.value:.9g}"
        return SumRelease.from_layout("dispatch", self.layout, point, where)

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        most = self.search.max_rounds
        tried = PossibleRound.from_layout("price", self.layout, 1, most)
        if not self.search.total_cost:
            return (tried,)
        return tried, PossibleRound.from_layout("price_found", self.search.costs)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DispatchResult(BalancedResult):
    """The price that balances supply and demand.

    Attributes:
        reference: the price as one owner of all sites would find it, where that was
            asked for.
    """

    recipe: DispatchPriceRecipe
    reference: float | None = None

    @property
    def further_limits(self) -> tuple[str, ...]:
        """Facts that a dispatch does not hide."""
        return (*super().further_limits, LIMIT)

    @property
    def settled(self) -> PriceSettled:
        """The price, and what is left of output less demand."""
        return self.recipe.settled(self.released.sums)

    @property
    def price(self) -> float:
        """Marginal cost of one unit, the same for all parties."""
        return self.settled.price.value

    @property
    def lowest(self) -> float:
        """The lowest price that balances; the price itself if it is the only one."""
        return self.settled.lowest

    @property
    def highest(self) -> float:
        """The highest price that balances."""
        return self.settled.highest

    @property
    def words(self) -> str:
        """Whether the price is the only one, or from where to where others are."""
        found = self.settled
        if found.is_unique:
            return "no other price balances"
        far = f"the ends are known to {found.within:.2g}" if found.within else ""
        many = f"every price from {found.lowest:.9g} to {found.highest:.9g} balances"
        return many + (f"; {far}" if far else "")

    @property
    def difference(self) -> str:
        """Pooled price in words; empty if not compared."""
        price = self.reference
        return "" if price is None else f"the pooled price is {price:.8g}"

    def summary(self) -> str:
        """Return the price; and what each generator that is known here runs."""
        return self.answered(outputs=True).text()

    def answered(self, *, outputs: bool = False) -> Rendering:
        """Return the price, to be seen; with `outputs` what is one's own too."""
        told = [self.words, f"output less demand {self.balance:.2g}"]
        if self.total_cost is not None:
            told.append(f"all outputs together cost {self.total_cost:.8g}")
        shown = Rendering(f"Price {self.price:.8g}", [tuple(told)])
        if not self.outputs:
            return shown
        if not outputs:
            return shown.also("What generators here run is in .outputs and .summary().")
        lines = [
            [party, str(place), f"{output:.6g}", f"{cost:.6g}"]
            for party, outputs in self.outputs.items()
            for place, (output, cost) in enumerate(
                zip(outputs, self.costs[party], strict=True), start=1
            )
        ]
        head = ["party", "generator", "runs", "costs"]
        return shown.also(ShownTable(head, lines, align="<>.."))

    @property
    def total_cost(self) -> float | None:
        """Total cost of all outputs; None if not requested."""
        return self.recipe.total_cost(self.released.sums)

    @property
    def tried(self) -> Array[Any]:
        """Numbers released at each price: price, least and most surplus, slope."""
        counts, rows = self.recipe.counts, []
        for release, one in zip(self.releases, self.released.sums, strict=True):
            if "balance" in release.statistics:
                least, more, slope = counts.values(one).tolist()
                rows.append([release.point[0], least, least + more, slope])
        return np.array(rows)

    @property
    def balance(self) -> float:
        """Output less demand, over all parties."""
        return self.settled.surplus

    @property
    def max_error(self) -> float | None:
        """Distance of the pooled price to balancing prices; None if not compared."""
        if self.reference is None:
            return None
        low, high = self.lowest, self.highest
        return max(low - self.reference, self.reference - high, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **super().to_dict(),
            "minimiser": [self.price],
            "reference": None if self.reference is None else [self.reference],
            "max_error": self.max_error,
            "price": self.price,
            "balance": self.balance,
            "lowest": self.lowest,
            "highest": self.highest,
            "within": self.settled.within,
            "total_cost": self.total_cost,
            **self._plain_units,
        }

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the supply at the prices tried."""
        usual = f"The prices tried: it balances at {self.price:.6g}"
        return _supply_figure(
            figures, self, figures.chosen_title(title, usual), figures.job_caption(self)
        )


def _supply_figure(
    figures: ModuleType, result: DispatchResult, title: str, caption: str = ""
) -> Any:
    """Return what a dispatch released: the prices tried, and all surpluses there.

    Between two prices nothing is known but that the surplus does not fall: the curve
    is somewhere in the shaded boxes.
    """
    figure, (axis,) = figures.figure_panels(3.0, title=title, caption=caption)
    tried = result.tried[np.argsort(result.tried[:, 0], kind="stable")]
    prices, least, most = tried[:, 0], tried[:, 1], tried[:, 2]
    for k in range(len(tried) - 1):
        sides = prices[k : k + 2], [most[k]] * 2, [least[k + 1]] * 2
        label = "" if k else "the curve is in here"
        axis.fill_betweenx(*sides, color=figures.BLUE, alpha=0.15, label=label)
    axis.hlines(prices, least, most, color=figures.BLUE, linewidth=2.5)
    ends, twice = np.concatenate([least, most]), np.concatenate([prices, prices])
    axis.plot(ends, twice, "o", color=figures.BLUE, markersize=4, label="released")
    axis.axvline(0.0, color=figures.GREY, linewidth=0.8)
    found = result.settled
    if found.lowest < found.highest:
        label = f"from {found.lowest:.6g} to {found.highest:.6g} it balances"
        axis.vlines(0.0, found.lowest, found.highest, color=figures.ORANGE, linewidth=4)
    else:
        label = f"it balances at {result.price:.6g}"
    axis.plot(
        [0.0], [result.price], "D", color=figures.ORANGE, markersize=7, label=label
    )
    # A search sets out from far away: the window is where anything changes.
    low, high = most == most[0], least == least[-1]
    window = prices[max(int(np.argmin(low)) - 1, 0) : int(np.argmax(high)) + 1]
    bottom, top = min(window[0], found.lowest), max(window[-1], found.highest)
    room = 0.06 * (top - bottom) or 1.0
    axis.set(xlabel="output less demand, all parties", ylabel="price")
    axis.set_ylim(bottom - room, top + room)
    axis.grid(visible=True, alpha=0.3)
    axis.legend(frameon=False, loc="upper left", fontsize=figures.SMALL)
    return figure


def dispatch(
    sites: Mapping[str, Site],
    *,
    prices: tuple[float, float],
    tolerance: float = 1e-9,
    max_rounds: int = 200,
    unit: object = None,
    price_unit: object = None,
    total_cost: bool = False,
    compare: bool = False,
    **options: Unpack[SumOptions],
) -> DispatchResult:
    """Return the price at which all parties' generators meet all their demands.

    Args:
        sites: what each party holds.
        prices: the interval to search, public.
        tolerance: how far total output may be from total demand.
        max_rounds: sums after which the search is given up.
        unit: of power, such as 0.01: demands are rounded to whole numbers of it, and
            equal sums of them have equal bits. Without one a simulation takes the
            decimals that all demands have; real parties count in a power of two that
            follows from the tolerance.
        price_unit: of which the prices of all flat offers are whole numbers, such as
            0.01; the price is found in fewer rounds, and so with fewer sums.
        total_cost: whether everybody is to learn what all outputs cost together.
        compare: whether to find the pooled price as well, as only a simulation can.
        options: how to sum; see `SumOptions`.
    """
    held = parties_data_by_name(sites)
    search = dispatch_price_search(
        prices, tolerance, max_rounds, unit, price_unit, total_cost=total_cost
    )
    if search.unit is None and is_simulated_sum(options):
        demands = np.concatenate([site.demands for site in held.values()])
        search = replace(search, unit=few_decimals_unit(demands))
    recipe = DispatchPriceRecipe(search)
    terms = SumTerms.of(list(held), counts=recipe.counts, options=options)
    agreed = {
        key: str(one) if isinstance(one, Fraction) else one
        for key, one in asdict(search).items()
        if one is not None and one is not False
    }
    released = run_sum_job(
        recipe,
        {
            party: _dispatch_contribution(
                *(search, party, site),
                *(site.demands, site.a, site.b, site.low, site.high),
            )
            for party, site in held.items()
        },
        terms,
        agreed={"dispatch": agreed},
    )
    price = recipe.settled(released.sums).price
    return DispatchResult(
        terms=terms,
        recipe=recipe,
        released=released,
        outputs={party: site.outputs(price) for party, site in held.items()},
        costs={party: site.costs(price) for party, site in held.items()},
        reference=dispatch_price_of_pooled_sites(sites, prices) if compare else None,
    )


def dispatch_price_search(
    prices: Sequence[float],
    tolerance: float = 1e-9,
    max_rounds: int = 200,
    unit: object = None,
    price_unit: object = None,
    *,
    total_cost: bool = False,
) -> PriceSearch:
    low, high = map(float, prices)
    power, money = (
        None if x is None else numeric_unit_of(x) for x in (unit, price_unit)
    )
    return PriceSearch(
        low, high, tolerance, max_rounds, power, money, total_cost=total_cost
    )


def dispatch_price_of_pooled_sites(
    sites: Mapping[str, Site], prices: tuple[float, float]
) -> float:
    """Return a price as one owner of all sites would find it, by bisection."""

    def surplus(price: float) -> float:
        outputs = [out for s in sites.values() for out in s.outputs(TriedPrice(price))]
        return fsum([*outputs, *(-site.demand for site in sites.values())])

    low, high = prices
    # What is offered at just that price is above the surplus there.
    if surplus(high) <= 0.0:
        return float(high)
    if surplus(low) >= 0.0:
        return float(low)
    return float(scipy.optimize.brentq(surplus, low, high, xtol=1e-12))


def _dispatch_contribution(
    search: Any, party: str, own: Any, *data: Any
) -> SumContribution:
    """Return what one party gives: its answers at prices that are tried."""
    try:
        search.check(own)
    except InvalidInputError as error:
        raise InvalidInputError(f"{party}: {error}", code=error.code) from None
    bent = search.bent(own) if isinstance(search, FleetPeriodSearch) else own
    return SumContribution(partial(search.response, bent), data)


# Several periods


@dataclass(frozen=True, eq=False)
class DispatchPeriodsRecipe(TriedPrices[FleetSearchState | FleetCleared]):
    """One sum for all prices that are tried together."""

    left_open = (FLEETS,)

    search: FleetPeriodSearch

    @property
    def answer_size(self) -> int:
        return self.search.periods

    def request(self, sums: Sums) -> Numbers | None:
        state = self._places.state(sums)
        return None if state.done else self.search.propose(state)

    def answer(self, sums: Sums) -> Vector:
        return np.array(self.cleared(sums).prices)

    def cleared(self, sums: Sums) -> FleetCleared:
        """Return where supply meets demand in all periods."""
        state = self._places.state(sums)
        if not isinstance(state, FleetCleared):
            raise LocalProtocolError(
                "prices were asked for before they were settled",
                code="price-not-settled",
            )
        return state

    def release(self, sums: Sums) -> SumRelease:
        prices = self.search.propose(self._places.state(sums))
        return SumRelease.from_layout("dispatch over periods", self.layout, prices)

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        most = self.search.max_rounds
        return (PossibleRound.from_layout("prices", self.layout, 1, most),)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PeriodsResult(BalancedResult):
    """The prices that balance supply and demand in every period."""

    recipe: DispatchPeriodsRecipe

    @property
    def prices(self) -> Vector:
        """Marginal cost of one unit in each period, the same for all parties."""
        return self.answer

    @property
    def search(self) -> FleetPeriodSearch:
        """Agreed search for the prices."""
        return self.recipe.search

    @property
    def balance(self) -> Vector:
        """Output less demand, over all parties, in each period."""
        return np.array(self.recipe.cleared(self.released.sums).surplus)

    @property
    def excess(self) -> float:
        """By how much all outputs may cost more than the least, without any rise.

        At its prices no output earns more: what is left of output less demand, at these
        prices, is all that a cheaper one could save. What rounding row by row leaves is
        below one more tolerance.
        """
        return 2.0 * self.search.tolerance * fsum(self.prices)

    @property
    def words(self) -> str:
        """Bound on the excess of the outputs' costs over the least, in words."""
        told = f"all outputs cost at most {self.excess:.2g} more than the least"
        if not (rise := self.search.rise):
            return told
        return (
            f"{told}, and up to {rise / 2.0:g} more for each unit that the cheapest "
            "way runs at one price, or moves by a store that does not wear: such "
            f"offers were made to rise by {rise:g}"
        )

    def summary(self) -> str:
        """Return prices, and what everybody who is known here gives and costs.

        A party that is here alone sees every generator and store of its own.
        """
        return self.answered(outputs=True).text()

    def answered(self, *, outputs: bool = False) -> Rendering:
        """Return prices, to be seen; with `outputs` what is one's own too."""
        left = float(np.abs(self.balance).max())
        told = f"output less demand is at most {left:.2g} in a period", self.words
        title = f"Prices of {counted_words(len(self.prices), 'period')}"
        if not outputs:
            rows = [[str(k + 1), f"{one:.6g}"] for k, one in enumerate(self.prices)]
            shown = Rendering(
                title, [ShownTable(["period", "price"], rows, align="<."), told]
            )
            if not self.outputs:
                return shown
            return shown.also("What units here give is in .outputs and .summary().")
        return Rendering(title, [self._own_table(), told])

    def _own_table(self) -> ShownTable:
        outputs, costs = (
            {
                name: numbers
                for party, found in known.items()
                for name, numbers in (
                    [(party, found.sum(axis=0))]
                    if len(known) > 1
                    else [(f"unit {k + 1}", row) for k, row in enumerate(found)]
                )
                if len(found)
            }
            for known in (self.outputs, self.costs)
        )
        head = ["period", "price", *outputs]
        rows = [
            [str(k + 1), f"{price:.6g}", *(f"{one[k]:.6g}" for one in outputs.values())]
            for k, price in enumerate(self.prices)
        ]
        if costs:
            rows.append(["costs", "", *(f"{one.sum():.6g}" for one in costs.values())])
        return ShownTable(head, rows, align="<" + "." * (len(head) - 1))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **super().to_dict(),
            "prices": self.prices.tolist(),
            "balance": self.balance.tolist(),
            "excess": self.excess,
            "rise": self.search.rise,
            **self._plain_units,
        }

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the price and the outputs of each period."""
        usual = f"Prices of {counted_words(len(self.prices), 'period')}"
        return _schedule_figure(
            figures, self, figures.chosen_title(title, usual), figures.job_caption(self)
        )


def _schedule_figure(
    figures: ModuleType, result: PeriodsResult, title: str, caption: str = ""
) -> Any:
    """Return the price of every period, and below it who gives what.

    Prices are known to everybody. Bars are of the parties that are known here: all in a
    simulation, one's own in a real run, and nobody's in a report, which has prices
    alone; below zero stores are filled.
    """
    known = {party: one.sum(axis=0) for party, one in result.outputs.items()}
    given = {party: one for party, one in known.items() if one.any()}
    figure, (upper, *others) = figures.figure_panels(
        1.6,
        *([2.3] if given else []),
        title=title,
        caption=caption,
        sharex=True,
        gap=0.15,
        bottom=0.6 + 0.19 * ((len(given) + 1) // 2),
    )
    edges = np.arange(len(result.prices) + 1) + 0.5
    upper.stairs(
        result.prices, edges, baseline=None, color=figures.BLACK, linewidth=1.6
    )
    lower = others[0] if given else upper
    upper.set_ylabel("price")
    places = np.arange(1, len(edges))
    above, below = np.zeros((2, len(places)))
    for place, (party, output) in enumerate(given.items()):
        look: dict[str, Any] = {
            "color": figures.PALETTE[place % len(figures.PALETTE)],
            "width": 0.8,
        }
        look |= {
            "edgecolor": "white",
            "hatch": figures.HATCHES[place % len(figures.HATCHES)],
        }
        base = np.where(output < 0.0, below, above)
        lower.bar(places, output, bottom=base, **look, label=figures.figure_name(party))
        above, below = above + np.maximum(output, 0), below + np.minimum(output, 0)
    if given:
        lower.axhline(0.0, color=figures.GREY, linewidth=0.8)
        lower.set_ylabel("output")
        figures.legend_below(lower, *lower.get_legend_handles_labels())
    lower.set(xlabel="period", xlim=(edges[0], edges[-1]))
    lower.xaxis.get_major_locator().set_params(integer=True)
    for one in (upper, *others):
        one.grid(visible=True, alpha=0.3, axis="y")
    return figure


def dispatch_periods(
    fleets: Mapping[str, Fleet],
    *,
    prices: tuple[float, float],
    periods: int,
    tolerance: float = 1e-6,
    max_rounds: int = 200,
    rise: float = 0.0,
    **options: Unpack[SumOptions],
) -> PeriodsResult:
    """Return prices at which all generators and stores meet all demands, each period.

    Outputs are the only ones of least cost. Prices may not be the only ones that
    balance, where everything stands at a limit; others are not looked for.

    Args:
        fleets: what each party holds.
        prices: between which the price of every period is searched, public; at least 0.
        periods: how many there are.
        tolerance: how far total output may be from total demand in each of them.
        max_rounds: sums after which the search is given up.
        rise: by how much the price of an offer at one price rises from its lower to its
            upper limit, and of a store that does not wear; public. Without it, costs
            that are linear are refused.
        options: how to sum; see `SumOptions`.
    """
    held = parties_data_by_name(fleets)
    recipe = _dispatch_periods_recipe(prices, periods, tolerance, max_rounds, rise)
    search = recipe.search
    terms = SumTerms.of(list(held), counts=recipe.counts, options=options)
    released = run_sum_job(
        recipe,
        {
            party: _dispatch_contribution(
                *(search, party, one), one.demands, one.generators, one.stores
            )
            for party, one in held.items()
        },
        terms,
        agreed={"dispatch": asdict(search)},
    )
    found = recipe.cleared(released.sums).prices
    outputs = {party: search.bent(one).outputs(found) for party, one in held.items()}
    return PeriodsResult(
        terms=terms,
        recipe=recipe,
        released=released,
        outputs=outputs,
        # What it costs in fact, and not as it was bent.
        costs={party: one.costs(outputs[party]) for party, one in held.items()},
    )


def dispatch_recipe(**asked: Any) -> DispatchPriceRecipe | DispatchPeriodsRecipe:
    return (
        _dispatch_periods_recipe(**asked)
        if "periods" in asked
        else DispatchPriceRecipe(dispatch_price_search(**asked))
    )


def _dispatch_periods_recipe(
    prices: tuple[float, float],
    periods: int,
    tolerance: float = 1e-6,
    max_rounds: int = 200,
    rise: float = 0.0,
) -> DispatchPeriodsRecipe:
    low, high = map(float, prices)
    return DispatchPeriodsRecipe(
        FleetPeriodSearch(periods, low, high, tolerance, max_rounds, float(rise))
    )


# How generators show: what a price that is tried tells of others.
GENERATORS = limit_phrase("generators")


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
                    f"[dispatch] {key} has no meaning {when} periods: take it out",
                    code="key-without-periods",
                )


class DispatchKind(QuestionKind[DispatchSpec]):
    """Prices that balance private demands."""

    spec = DispatchSpec

    def plan(self, consortium: Consortium) -> Asked:
        spec = self.section(consortium)
        with about_read_section(spec.heading):
            recipe = dispatch_recipe(**spec.given())
        terms = agreed_sum_terms(consortium, recipe.counts)
        return Asked(consortium=consortium, recipe=recipe, terms=terms)

    def check(self, asked: Asked) -> None:
        """Balance no demand at all: that takes one round, and every check is made."""
        super().check(asked)
        consortium = asked.consortium
        spec = self.section(consortium)
        nothing = {"demand": [0.0], **{key: [nan] for key in ("a", "b", "low", "high")}}
        if spec.periods is not None:
            nothing = {f"demand_{k + 1}": [0.0] for k in range(spec.periods)}
        tables = {name: as_frame(nothing) for name in consortium.topology.parties}
        how: dict[str, Any] = {
            **agreed_sum_options(consortium),
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
    ) -> SumJobResult:
        from veilsum.files.datasets import fleet_of_power_case, site_of_power_case

        if (periods := spec.periods) is not None:
            fleets = {
                name: fleet_of_power_case(one, periods, name)
                for name, one in data.items()
            }
            return dispatch_periods(fleets, **spec.given(), **how)
        sites = {name: site_of_power_case(table, name) for name, table in data.items()}
        return dispatch(sites, compare=compare, **spec.given(), **how)

    def rounded(self, spec: DispatchSpec, table: Frame) -> dict[str, int]:
        from veilsum.files.datasets import site_of_power_case

        if spec.unit is None:
            return {}
        broken = site_of_power_case(table).n_broken(numeric_unit_of(spec.unit))
        return {"demand": broken} if broken else {}

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        yield from _describe_dispatch_question(self.section(asked.consortium).given())

    def warnings(self, asked: Asked) -> Iterator[str]:
        one = self.section(asked.consortium).periods is None
        yield GENERATORS if one else FLEETS

    def limits(self, asked: Asked) -> Iterator[str]:
        if self.section(asked.consortium).periods is None:
            yield GENERATORS

    def made_up(
        self, asked: Consortium, chance: np.random.Generator, spread: float
    ) -> Frame:
        """Return generators that can meet the demand beside them, within the prices."""
        spec = self.section(asked)
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

    def contribution(self, recipe: Any, data: Frame) -> SumContribution:
        """Return what one holder of generators gives, at whatever prices are asked."""
        from veilsum.files.datasets import fleet_of_power_case, site_of_power_case

        search = recipe.search
        if isinstance(recipe, DispatchPeriodsRecipe):
            fleet = search.bent(fleet_of_power_case(data, search.periods))
            return SumContribution(partial(search.response, fleet), ())
        return SumContribution(partial(search.response, site_of_power_case(data)), ())

    def figures(
        self, draw: Any, result: Any, title: str, **shown: Any
    ) -> dict[str, Any]:
        """Return the supply at every price, or the schedule of all periods."""
        if isinstance(result, DispatchResult):
            return {"supply": _supply_figure(draw, result, title)}
        return {"schedule": _schedule_figure(draw, result, title)}


def _describe_dispatch_question(given: Mapping[str, Any]) -> Iterator[str]:
    low, high = given["prices"]
    if "periods" in given:
        yield from _describe_dispatch_periods(given)
        return
    yield "question: the price at which all generators meet all demands"
    if given.get("total_cost"):
        yield "and what all generators cost together at that price"
    yield (
        f"prices that may be tried: {exact_number_words(low)} to "
        f"{exact_number_words(high)}"
    )
    yield (
        "looked at in each member's table: demand, of every generator its costs a "
        "and b and its limits low and high, and of every step its price and quantity"
    )
    if "unit" in given:
        yield f"power is counted in whole numbers of {given['unit']}"
    if "price_unit" in given:
        yield f"prices of steps are whole numbers of {given['price_unit']}"


def _describe_dispatch_periods(given: Mapping[str, Any]) -> Iterator[str]:
    (low, high), periods = given["prices"], given["periods"]
    yield (
        "question: a price for each period, at which all generators and stores meet "
        f"all demands; periods: {periods}"
    )
    yield (
        f"prices that may be tried in each: {exact_number_words(low)} to "
        f"{exact_number_words(high)}"
    )
    yield (
        f"looked at in each member's table: demands, demand_1 to demand_{periods}; of "
        "every generator its costs a and b, its limits low and high, and its ramp; of "
        "every store its wear, energy, power, efficiency and start"
    )
    if "rise" in given:
        yield (
            "an offer at one price, and a store that does not wear, is made to rise by "
            f"{exact_number_words(given['rise'])} from its lower to its upper limit"
        )


KIND = DispatchKind()
