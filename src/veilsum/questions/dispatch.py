"""Economic dispatch: parties find the price that balances all their demands.

Each round shows the sum of everybody's surplus at one price, what more is offered at
just that price, and the slope. What is hidden is how demand splits among honest
parties; generators' costs and limits show in how the sums bend and jump.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from math import fsum
from typing import Any, Unpack

import numpy as np
import scipy

from veilsum.errors import InvalidInputError, LocalProtocolError
from veilsum.locale import limit
from veilsum.models.price import CostAt, Price, PriceSearch, Settled, Site, State
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.layout import Layout
from veilsum.numbers.units import few_decimals, unit_of
from veilsum.showing import Showing, Table
from veilsum.sums.recipes import Contribution, Replay, Sums, SumsOnly
from veilsum.sums.releases import Foreseen, Release
from veilsum.sums.running import JobResult, run_job
from veilsum.sums.terms import Options, Terms, by_name

LIMIT = limit("dispatch")


@dataclass(frozen=True, eq=False)
class PriceRecipe(SumsOnly):
    """One sum for each price that is tried."""

    search: PriceSearch
    answer_size: int = field(default=5, init=False)

    @property
    def layout(self) -> Layout:
        """The sum at every price that is tried."""
        return self.search.layout

    @property
    def most_numbers(self) -> int:
        """Those at every price that may be tried, and the cost if it is asked for."""
        return self.size * self.search.max_rounds + self.search.total_cost

    @cached_property
    def _places(self) -> Replay[State]:
        return Replay(self.search.start, self.search.advance)

    def request(self, sums: Sums) -> Price | CostAt | None:
        """Ask for the surplus at the next price, and for the cost at the last."""
        tried = self._tried(sums)
        state = self._places.state(tried)
        if not isinstance(state, Settled):
            return self.search.propose(state)
        if self.search.total_cost and len(tried) == len(sums):
            return CostAt(state.price)
        return None

    def _tried(self, sums: Sums) -> Sums:
        """Return the sums at prices that were tried, without that of costs."""
        known = self.search.total_cost and sums and self._places.state(sums[:-1]).done
        return sums[:-1] if known else sums

    def answer(self, sums: Sums) -> Vector:
        """Return the price, in three numbers, and the ends of all that balance."""
        found = self.settled(sums)
        at = found.price
        return np.array([at.value, at.share, at.taken, found.lowest, found.highest])

    def settled(self, sums: Sums) -> Settled:
        """Return where supply meets demand."""
        state = self._places.state(self._tried(sums))
        if not isinstance(state, Settled):
            raise LocalProtocolError("a price was asked for before it was settled")
        return state

    def total_cost(self, sums: Sums) -> float | None:
        """Return what all outputs cost together, if that was asked for."""
        if len(self._tried(sums)) == len(sums):
            return None
        return float(self.search.costs.counts.values(sums[-1])[0])

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows, and at which price."""
        request = self.request(sums)
        if isinstance(request, CostAt):
            at = request.price
            point: tuple[float, ...] = (at.value, at.share, at.taken)
            shown = self.search.costs.released
            return Release("dispatch cost", shown, point, "the price found")
        assert request is not None
        point, where = (request.value, request.share), f"the price {request.value:.9g}"
        return Release("dispatch", self.layout.released, point, where)

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """The same at every price that may be tried."""
        most, shown = self.search.max_rounds, self.layout.released
        tried = Foreseen("price", shown, 1, most)
        if not self.search.total_cost:
            return (tried,)
        shown = self.search.costs.released
        return tried, Foreseen("price_found", shown)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DispatchResult(JobResult):
    """The price that balances supply and demand.

    Attributes:
        outputs: what each party's generators run; here all of them are known, in a
            real run each party knows its own.
        costs: what each of them costs at that; known to the same.
        reference: the price as one owner of all sites would find it, where that was
            asked for.
    """

    outputs: Mapping[str, Vector] = field(repr=False)
    costs: Mapping[str, Vector] = field(repr=False)
    reference: float | None = None

    @property
    def further_limits(self) -> tuple[str, ...]:
        """What a dispatch does not hide."""
        return (*super().further_limits, LIMIT)

    @property
    def settled(self) -> Settled:
        """The price, and what is left of output less demand."""
        assert isinstance(self.recipe, PriceRecipe)
        return self.recipe.settled(self.released.sums)

    @property
    def price(self) -> float:
        """What one more unit costs everybody."""
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
        """What the pooled price is, in words."""
        price = self.reference
        return "" if price is None else f"the pooled price is {price:.8g}"

    def summary(self) -> str:
        """Return the price; and what each generator that is known here runs."""
        return self.answered(outputs=True).text()

    def answered(self, *, outputs: bool = False) -> Showing:
        """Return the price, to be seen; with `outputs` what is one's own too."""
        told = [self.words, f"output less demand {self.balance:.2g}"]
        if self.total_cost is not None:
            told.append(f"all outputs together cost {self.total_cost:.8g}")
        shown = Showing(f"Price {self.price:.8g}", [tuple(told)])
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
        return shown.also(Table(head, lines, align="<>.."))

    @property
    def total_cost(self) -> float | None:
        """What all outputs cost together; None if it was not asked for."""
        assert isinstance(self.recipe, PriceRecipe)
        return self.recipe.total_cost(self.released.sums)

    @property
    def tried(self) -> Array[Any]:
        """What was released at each price: price, least and most surplus, slope."""
        assert isinstance(self.recipe, PriceRecipe)
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
        """How far the pooled price is from all that balance; None if not compared."""
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
            "outputs": {party: p.tolist() for party, p in self.outputs.items()},
            "costs": {party: c.tolist() for party, c in self.costs.items()},
        }


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
    **options: Unpack[Options],
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
        options: how to sum; see `Options`.
    """
    held = by_name(sites)
    search = search_of(
        prices, tolerance, max_rounds, unit, price_unit, total_cost=total_cost
    )
    if search.unit is None and getattr(options.get("driver"), "party", None) is None:
        search = replace(search, unit=_decimals(held))
    recipe = PriceRecipe(search)
    terms = Terms.of(list(held), counts=recipe.counts, options=options)
    agreed = {
        key: str(one) if isinstance(one, Fraction) else one
        for key, one in asdict(search).items()
        if one is not None and one is not False
    }
    released = run_job(
        recipe,
        {party: _contribution(search, party, site) for party, site in held.items()},
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
        reference=pooled_price(sites, prices) if compare else None,
    )


def search_of(
    prices: Sequence[float],
    tolerance: float = 1e-9,
    max_rounds: int = 200,
    unit: object = None,
    price_unit: object = None,
    *,
    total_cost: bool = False,
) -> PriceSearch:
    """Return the search that parties agree on."""
    low, high = map(float, prices)
    power, money = (None if x is None else unit_of(x) for x in (unit, price_unit))
    return PriceSearch(
        low, high, tolerance, max_rounds, power, money, total_cost=total_cost
    )


def pooled_price(sites: Mapping[str, Site], prices: tuple[float, float]) -> float:
    """Return a price as one owner of all sites would find it, by bisection."""

    def surplus(price: float) -> float:
        outputs = [out for s in sites.values() for out in s.outputs(Price(price))]
        return fsum([*outputs, *(-site.demand for site in sites.values())])

    low, high = prices
    # What is offered at just that price is above the surplus there.
    if surplus(high) <= 0.0:
        return float(high)
    if surplus(low) >= 0.0:
        return float(low)
    return float(scipy.optimize.brentq(surplus, low, high, xtol=1e-12))


def _decimals(sites: Mapping[str, Site]) -> Fraction | None:
    """Return the decimals that all demands have, if they have few."""
    return few_decimals(np.concatenate([site.demands for site in sites.values()]))


def _contribution(search: PriceSearch, party: str, site: Site) -> Contribution:
    try:
        search.check(site)
    except InvalidInputError as error:
        raise InvalidInputError(f"{party}: {error}") from None
    data = (site.demands, site.a, site.b, site.low, site.high)
    return Contribution(partial(search.response, site), data)
