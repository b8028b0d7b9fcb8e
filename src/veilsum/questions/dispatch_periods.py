"""Dispatch over several periods: a price for each, found from totals of each.

    day = dispatch_periods(fleets, prices=(0, 100), periods=24)
    print(day.summary())

Every round shows output less demand in each period, over all parties, at public prices.
What is hidden is how demand splits among honest parties; generators and stores show in
how the sums change with the prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from math import fsum
from typing import Any, Unpack

import numpy as np

from veilsum.errors import InvalidInputError, LocalProtocolError
from veilsum.locale import limit
from veilsum.models.fleets import Cleared, Fleet, Numbers, PeriodSearch, Seeking
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.layout import Layout
from veilsum.questions.dispatch import PriceRecipe, search_of
from veilsum.showing import Showing, Table, counted
from veilsum.sums.recipes import Contribution, Replay, Sums, SumsOnly
from veilsum.sums.releases import Foreseen, Release
from veilsum.sums.running import JobResult, run_job
from veilsum.sums.terms import Options, Terms, by_name

# How generators and stores show: what prices that are tried tell of others.
FLEETS = limit("fleets")


@dataclass(frozen=True, eq=False)
class PeriodsRecipe(SumsOnly):
    """One sum for all prices that are tried together."""

    left_open = (FLEETS,)

    search: PeriodSearch

    @property
    def answer_size(self) -> int:
        """One price for each."""
        return self.search.periods

    @property
    def layout(self) -> Layout:
        """The sum at all prices that are tried together."""
        return self.search.layout

    @property
    def most_numbers(self) -> int:
        """Those at all prices that may be tried."""
        return self.size * self.search.max_rounds

    @cached_property
    def _places(self) -> Replay[Seeking | Cleared]:
        return Replay(self.search.start, self.search.advance)

    def request(self, sums: Sums) -> Numbers | None:
        """Ask for the surpluses at the next prices."""
        state = self._places.state(sums)
        return None if state.done else self.search.propose(state)

    def answer(self, sums: Sums) -> Vector:
        """Return the prices."""
        return np.array(self.cleared(sums).prices)

    def cleared(self, sums: Sums) -> Cleared:
        """Return where supply meets demand in all periods."""
        state = self._places.state(sums)
        if not isinstance(state, Cleared):
            raise LocalProtocolError("prices were asked for before they were settled")
        return state

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows, and at which prices."""
        prices = self.search.propose(self._places.state(sums))
        return Release("dispatch over periods", self.layout.released, prices)

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """The same at all prices that may be tried."""
        shown, most = self.layout.released, self.search.max_rounds
        return (Foreseen("prices", shown, 1, most),)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PeriodsResult(JobResult):
    """The prices that balance supply and demand in every period.

    Attributes:
        outputs: by party, what every generator and then every store gives in every
            period; a real party knows its own.
        costs: the same, of what they cost.
    """

    outputs: Mapping[str, FloatArray] = field(repr=False)
    costs: Mapping[str, FloatArray] = field(repr=False)

    @property
    def prices(self) -> Vector:
        """What one more unit costs everybody, in each period."""
        return self.answer

    @property
    def search(self) -> PeriodSearch:
        """What was agreed on."""
        assert isinstance(self.recipe, PeriodsRecipe)
        return self.recipe.search

    @property
    def balance(self) -> Vector:
        """Output less demand, over all parties, in each period."""
        assert isinstance(self.recipe, PeriodsRecipe)
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
        """How near to the least the outputs' costs are."""
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

    def answered(self, *, outputs: bool = False) -> Showing:
        """Return prices, to be seen; with `outputs` what is one's own too."""
        left = float(np.abs(self.balance).max())
        told = f"output less demand is at most {left:.2g} in a period", self.words
        title = f"Prices of {counted(len(self.prices), 'period')}"
        if not outputs:
            rows = [[str(k + 1), f"{one:.6g}"] for k, one in enumerate(self.prices)]
            shown = Showing(title, [Table(["period", "price"], rows, align="<."), told])
            if not self.outputs:
                return shown
            return shown.also("What units here give is in .outputs and .summary().")
        return Showing(title, [self._own_table(), told])

    def _own_table(self) -> Table:
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
        return Table(head, rows, align="<" + "." * (len(head) - 1))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **super().to_dict(),
            "prices": self.prices.tolist(),
            "balance": self.balance.tolist(),
            "excess": self.excess,
            "rise": self.search.rise,
            "outputs": {party: p.tolist() for party, p in self.outputs.items()},
            "costs": {party: c.tolist() for party, c in self.costs.items()},
        }


def dispatch_periods(
    fleets: Mapping[str, Fleet],
    *,
    prices: tuple[float, float],
    periods: int,
    tolerance: float = 1e-6,
    max_rounds: int = 200,
    rise: float = 0.0,
    **options: Unpack[Options],
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
        options: how to sum; see `Options`.
    """
    held = by_name(fleets)
    recipe = _recipe(prices, periods, tolerance, max_rounds, rise)
    search = recipe.search
    terms = Terms.of(list(held), counts=recipe.counts, options=options)
    released = run_job(
        recipe,
        {party: _contribution(search, party, fleet) for party, fleet in held.items()},
        terms,
        agreed={"dispatch over periods": asdict(search)},
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


def dispatch_recipe(**asked: Any) -> PriceRecipe | PeriodsRecipe:
    """Return what parties do for the keys of a [dispatch]."""
    return _recipe(**asked) if "periods" in asked else PriceRecipe(search_of(**asked))


def _recipe(
    prices: tuple[float, float],
    periods: int,
    tolerance: float = 1e-6,
    max_rounds: int = 200,
    rise: float = 0.0,
) -> PeriodsRecipe:
    low, high = map(float, prices)
    return PeriodsRecipe(
        PeriodSearch(periods, low, high, tolerance, max_rounds, float(rise))
    )


def _contribution(search: PeriodSearch, party: str, fleet: Fleet) -> Contribution:
    try:
        search.check(fleet)
    except InvalidInputError as error:
        raise InvalidInputError(f"{party}: {error}") from None
    data = (fleet.demands, fleet.generators, fleet.stores)
    return Contribution(partial(search.response, search.bent(fleet)), data)
