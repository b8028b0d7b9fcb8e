"""Economic dispatch: parties find the price that balances all their demands.

Each round shows the sum of everybody's surplus at one price, and its slope. What is
hidden is how demand splits among honest parties; generators' costs and limits show in
how the sums bend.
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
from veilsum.jobs.recipes import Contribution, Replay, Sums, SumsOnly
from veilsum.jobs.releases import Foreseen, Release
from veilsum.jobs.running import JobResult, run_job
from veilsum.jobs.terms import Options, Terms, by_name
from veilsum.models.price import (
    SIZE,
    Price,
    PriceSearch,
    Settled,
    Site,
    State,
)
from veilsum.numbers.arrays import Vector
from veilsum.numbers.units import Counts, few_decimals, unit_of

LIMIT = (
    "hides how demand splits among honest parties; their generators' costs and limits "
    "show in how the released sums change with the price"
)


@dataclass(frozen=True, eq=False)
class PriceRecipe(SumsOnly):
    """One sum for each price that is tried."""

    search: PriceSearch
    size: int = field(default=SIZE, init=False)
    answer_size: int = field(default=2, init=False)

    @property
    def counts(self) -> Counts:
        """What surplus and slope count."""
        return self.search.counts

    @property
    def most_numbers(self) -> int:
        """Those at every price that may be tried."""
        return self.size * self.search.max_rounds

    @cached_property
    def _places(self) -> Replay[State]:
        return Replay(self.search.start, self.search.advance)

    def request(self, sums: Sums) -> Price | None:
        """Ask for the surplus at the next price."""
        state = self._places.state(sums)
        return None if state.done else self.search.propose(state)

    def answer(self, sums: Sums) -> Vector:
        """Return the price, and how far it is on the way to the next float64."""
        price = self.settled(sums).price
        return np.array([price.value, price.share])

    def settled(self, sums: Sums) -> Settled:
        """Return where supply meets demand."""
        state = self._places.state(sums)
        if not isinstance(state, Settled):
            raise LocalProtocolError("a price was asked for before it was settled")
        return state

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows, and at which price."""
        price = self.search.propose(self._places.state(sums))
        shown = {"output less demand": 1, "its slope": 1}
        where = f"the price {price.value:.9g}"
        return Release("dispatch", shown, (price.value, price.share), where)

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """The same at every price that may be tried."""
        shown = self.release(()).statistics
        return (
            Foreseen("a round for each price tried", shown, 1, self.search.max_rounds),
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DispatchResult(JobResult):
    """The price that balances supply and demand.

    Attributes:
        outputs: what each party's generators run; here all of them are known, in a
            real run each party knows its own.
        reference: the price as one owner of all sites would find it, where that was
            asked for.
    """

    outputs: Mapping[str, Vector] = field(repr=False)
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
    def balance(self) -> float:
        """Output less demand, over all parties."""
        return self.settled.surplus

    @property
    def max_error(self) -> float | None:
        """How far the price is from the pooled one; None if not compared."""
        return None if self.reference is None else abs(self.price - self.reference)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **super().to_dict(),
            "minimiser": [self.price],
            "reference": None if self.reference is None else [self.reference],
            "max_error": self.max_error,
            "price": self.price,
            "balance": self.balance,
            "outputs": {party: p.tolist() for party, p in self.outputs.items()},
        }


def dispatch(
    sites: Mapping[str, Site],
    *,
    prices: tuple[float, float],
    tolerance: float = 1e-9,
    max_rounds: int = 200,
    unit: object = None,
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
        compare: whether to find the pooled price as well, as only a simulation can.
        options: how to sum; see `Options`.
    """
    held = by_name(sites)
    search = search_of(prices, tolerance, max_rounds, unit)
    if search.unit is None and getattr(options.get("driver"), "party", None) is None:
        search = replace(search, unit=_decimals(held))
    recipe = PriceRecipe(search)
    terms = Terms.of(list(held), counts=recipe.counts, options=options)
    agreed = {key: one for key, one in asdict(search).items() if one is not None}
    if search.unit is not None:
        agreed["unit"] = str(search.unit)
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
        reference=pooled_price(sites, prices) if compare else None,
    )


def search_of(
    prices: Sequence[float],
    tolerance: float = 1e-9,
    max_rounds: int = 200,
    unit: object = None,
) -> PriceSearch:
    """Return the search that parties agree on."""
    low, high = map(float, prices)
    power = None if unit is None else unit_of(unit)
    return PriceSearch(low, high, tolerance, max_rounds, power)


def pooled_price(sites: Mapping[str, Site], prices: tuple[float, float]) -> float:
    """Return the price as one owner of all sites would find it, by bisection."""

    def surplus(price: float) -> float:
        outputs = [out for s in sites.values() for out in s.outputs(Price(price))]
        return fsum([*outputs, *(-site.demand for site in sites.values())])

    return float(scipy.optimize.brentq(surplus, *prices, xtol=1e-12))


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
