"""Dispatch over several periods: a price for each, found from totals of each.

Every round shows output less demand in each period, over all parties, at public prices.
What is hidden is how demand splits among honest parties; generators and stores show in
how the sums change with the prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any, Unpack

import numpy as np

from veilsum.errors import InvalidInputError, LocalProtocolError
from veilsum.jobs.dispatch import LIMIT
from veilsum.jobs.recipes import Contribution, Replay, Sums, SumsOnly
from veilsum.jobs.releases import Foreseen, Release
from veilsum.jobs.running import JobResult, run_job
from veilsum.jobs.terms import Options, Terms, by_name
from veilsum.models.fleets import Cleared, Fleet, Numbers, PeriodSearch, Seeking
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.units import Counts


@dataclass(frozen=True, eq=False)
class PeriodsRecipe(SumsOnly):
    """One sum for all prices that are tried together."""

    search: PeriodSearch

    @property
    def size(self) -> int:
        """One number for each period."""
        return self.search.periods

    @property
    def answer_size(self) -> int:
        """One price for each."""
        return self.search.periods

    @property
    def counts(self) -> Counts:
        """What surpluses count."""
        return self.search.counts

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
        shown = {"output less demand in each period": self.size}
        return Release("dispatch over periods", shown, prices)

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """The same at all prices that may be tried."""
        shown, most = self.release(()).statistics, self.search.max_rounds
        return (Foreseen("a round for all prices tried together", shown, 1, most),)


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
    def further_limits(self) -> tuple[str, ...]:
        """What a dispatch does not hide."""
        return (*super().further_limits, LIMIT)

    @property
    def prices(self) -> Vector:
        """What one more unit costs everybody, in each period."""
        return self.answer

    @property
    def balance(self) -> Vector:
        """Output less demand, over all parties, in each period."""
        assert isinstance(self.recipe, PeriodsRecipe)
        return np.array(self.recipe.cleared(self.released.sums).surplus)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **super().to_dict(),
            "prices": self.prices.tolist(),
            "balance": self.balance.tolist(),
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
        options: how to sum; see `Options`.
    """
    held = by_name(fleets)
    low, high = map(float, prices)
    search = PeriodSearch(periods, low, high, tolerance, max_rounds)
    recipe = PeriodsRecipe(search)
    terms = Terms.of(list(held), counts=recipe.counts, options=options)
    released = run_job(
        recipe,
        {party: _contribution(search, party, fleet) for party, fleet in held.items()},
        terms,
        agreed={"dispatch over periods": asdict(search)},
    )
    found = recipe.cleared(released.sums).prices
    return PeriodsResult(
        terms=terms,
        recipe=recipe,
        released=released,
        outputs={party: fleet.outputs(found) for party, fleet in held.items()},
        costs={party: fleet.costs(found) for party, fleet in held.items()},
    )


def _contribution(search: PeriodSearch, party: str, fleet: Fleet) -> Contribution:
    try:
        search.check(fleet)
    except InvalidInputError as error:
        raise InvalidInputError(f"{party}: {error}") from None
    data = (fleet.demands, fleet.generators, fleet.stores)
    return Contribution(partial(search.response, fleet), data)
