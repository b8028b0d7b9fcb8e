"""Economic dispatch by rounds on the price: who runs how much, nobody tells why.

    state = search.start()
    while not state.done:
        price = search.propose(state)        # public: what every party answers to
        total = ...                          # sum of search.response(site, price)
        state = search.advance(state, total)
    site.outputs(state.price)                # each party's own

At a price every generator runs where its marginal cost meets the price, within its
limits. So total output less total demand, the surplus, never falls as the price rises;
a price that balances it makes all costs together as small as they can be. A generator
whose marginal cost is flat runs anything between its limits at that one price: there
the surplus has a least and a most, and it balances if zero lies between. A bid to buy
is an offer of output below zero. All that the search decides follows from totals.

Rows are generators and demands: what each of them gives is a whole number of a public
unit, and follows from its own numbers and the price alone. So a total does not know
which site has which of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, copysign, floor, fsum, inf, isfinite, nextafter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.numbers.arrays import (
    Array,
    FloatArray,
    Vector,
    as_floats,
    as_whole_number,
    frozen_array,
)
from veilsum.numbers.layout import NumberLayout, layout_number, layout_padding
from veilsum.numbers.limbs import as_python_integers
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import Float
from veilsum.numbers.units import Integers, power_of_two_unit

NOTHING = frozen_array(np.empty(0))

# A quadratic cost below this has a slope that float64 cannot hold.
LEAST_CURVATURE = 1e-300

# Totals fit three words; generators and demands of all sites are at most so many.
TOTAL_BITS, ROW_BITS = 192, 32
# Outputs are counted in steps this much finer than the tolerance, slopes in what over
# the whole interval of prices comes to a thousandth of it.
FINER_BITS, SLOPE_BITS = 20, 10

# Where many prices balance, their ends are found to this part of the interval.
END_BITS = 20

# Shares of the last digit of a price closer than this change nothing but rounding.
LEAST_SHARE = 2.0**-30


@dataclass(frozen=True)
class TriedPrice:
    """A price, and what runs of those that stand still at it.

    Attributes:
        share: how far it is on the way to the next float64 above. Where costs are
            nearly linear, one last digit moves the outputs by more than the balance
            may be off, so that outputs go straight from one float64 to the next.
        taken: the part that runs of all that is offered at just this price.
    """

    value: float
    share: float = 0.0
    taken: float = 0.0

    @property
    def next_value(self) -> float:
        return nextafter(self.value, inf)


@dataclass(frozen=True)
class CostAt:
    """Last request, made only on demand: the cost of all outputs at a price."""

    price: TriedPrice


@dataclass(frozen=True, eq=False, repr=False)
class Site(Secret):
    """Demands of one party, and its generators that cost a p^2 + b p.

    A bid to buy up to q at a price v is a generator that runs between -q and 0, with a
    = 0 and b = v; with an a above zero the bid falls by 2a for each unit bought.

    Attributes:
        demands: amounts that are met at any price; their sum is at least zero.
        a: at least zero, one number for each generator; there may be none.
        b: one number for each generator; without an a, the price of all its output.
        low: the least output of each.
        high: the greatest output of each.
        rows: table rows of the generators, counted from 1; empty without a table.
    """

    demands: Float[FloatArray, " d"]
    a: Vector
    b: Vector
    low: Vector
    high: Vector
    rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        shapes = {x.shape for x in (self.a, self.b, self.low, self.high)}
        if len(shapes) != 1 or self.a.ndim != 1:
            raise InvalidInputError(
                "a, b, low and high must each have one number for every generator, "
                f"found {[x.size for x in (self.a, self.b, self.low, self.high)]}",
                code="wrong-shape",
            )
        finite = bool(np.isfinite(self.demands).all())
        if not (finite and self.demand >= 0.0):
            found = "one below 0" if finite else "nan or inf"
            raise InvalidInputError(
                f"a demand must be a number of at least 0, found {found}",
                code="demand-negative",
            )
        self._check_generators()

    @property
    def demand(self) -> float:
        """All demands together."""
        return fsum(self.demands)

    @classmethod
    def of(
        cls,
        demand: ArrayLike,
        *,
        a: ArrayLike = NOTHING,
        b: ArrayLike = NOTHING,
        low: ArrayLike = NOTHING,
        high: ArrayLike = NOTHING,
        rows: tuple[int, ...] = (),
    ) -> Site:
        """Return a site of these numbers; without generators it only has a demand.

        Several demands are a list: each of them is rounded by itself.
        """
        names = {"a": a, "b": b, "low": low, "high": high}
        arrays = {k: np.atleast_1d(as_floats(v, what=k)) for k, v in names.items()}
        return cls(np.array(demand, dtype=np.float64, ndmin=1), **arrays, rows=rows)

    def place(self, generator: int) -> str:
        """Return where a generator stands, in words."""
        if self.rows:
            return f"row {self.rows[generator]}"
        return f"generator {generator}"

    def n_broken(self, unit: Fraction) -> int:
        """Return how many demands are not whole numbers of a unit."""
        grid = FixedPointGrid(0, unit)
        kept = grid.to_floats(grid.quantise(self.demands))
        return int(np.count_nonzero(kept != self.demands))

    @property
    def flat(self) -> Array[Any]:
        """Which generators have all their output at one price."""
        return self.a == 0.0

    def outputs(self, price: TriedPrice) -> Vector:
        """Return what each generator runs at a price, within its limits."""
        least, most = self.range(price.value)
        if price.share == 0.0:
            here, step, part = least, most - least, price.taken
        else:
            here, part = most, price.share
            step = self.range(price.next_value)[0] - here
        return np.clip(here + part * step, self.low, self.high)

    def range(self, value: float) -> tuple[Vector, Vector]:
        """Return the least and the most that each generator would run at a price.

        The two differ for those only that offer all of their output at just this price.
        """
        wanted = self._wanted(value)
        here = self.flat & (self.b == value)
        least = np.clip(np.where(here, -inf, wanted), self.low, self.high)
        most = np.clip(np.where(here, inf, wanted), self.low, self.high)
        return least, most

    def costs(self, price: TriedPrice) -> Vector:
        """Return what each generator costs at a price, a p^2 + b p; a bid, below 0."""
        p = self.outputs(price)
        return (self.a * p + self.b) * p

    def cost(self, price: TriedPrice) -> float:
        """Return what running at a price costs the party in all."""
        return fsum(self.costs(price))

    def slopes(self, price: TriedPrice) -> Vector:
        """Return how fast each output rises: 1/(2a) inside the limits, else 0."""
        wanted = self._wanted(price.value)
        inside = (wanted > self.low) & (wanted < self.high) & ~self.flat
        return np.where(inside, 0.5 / np.where(self.flat, 1.0, self.a), 0.0)

    def _wanted(self, value: float) -> Vector:
        """Return where marginal cost meets the price, limits or not."""
        above = value - self.b
        with np.errstate(over="ignore"):
            bent = above / np.where(self.flat, 1.0, 2.0 * self.a)
        return np.where(self.flat, np.copysign(inf, above), bent)

    def _check_generators(self) -> None:
        """Refuse one by its place: its numbers are private, and this may be logged."""
        wrong = (self.a != 0.0) & (self.a < LEAST_CURVATURE)
        if wrong.any():
            raise InvalidInputError(
                f"{self.place(int(np.argmax(wrong)))} must have an a of zero, where "
                f"all its output has one price, or from {LEAST_CURVATURE:g} on: with "
                "an a below zero more output is cheaper, and no price balances it",
                code="slope-too-small",
            )
        if (crossed := self.low > self.high).any():
            raise InvalidInputError(
                f"{self.place(int(np.argmax(crossed)))} has its lower limit (low) "
                "above its upper limit (high): exchange or correct them",
                code="limits-exchanged",
            )


@dataclass(frozen=True)
class PriceSample:
    price: TriedPrice
    surplus: float
    slope: float

    @property
    def newton(self) -> float:
        """The price where a straight line from here balances; infinite if it is flat.

        It is never the price itself: a step below the last digit is one last digit.
        """
        away = copysign(inf, -self.surplus)
        if not self.slope > 0.0:
            return away
        value = self.price.value
        target = value - self.surplus / self.slope
        return target if target != value else nextafter(value, away)


@dataclass(frozen=True)
class PriceSearching:
    """The price is known to lie between two others."""

    rounds: int = 0
    low: PriceSample | None = None
    high: PriceSample | None = None
    slow: bool = False
    done: bool = False


@dataclass(frozen=True)
class PriceSearchEnd:
    """One end of the prices that balance, as far as it is known.

    Attributes:
        inner: the outermost price known to balance.
        outer: the innermost price beyond it known not to, if any.
        slow: whether the last round left more than half of what is between.
        known: whether nothing is left to be asked.
        exact: whether no price beyond the inner one balances.
    """

    inner: float
    outer: PriceSample | None = None
    slow: bool = False
    known: bool = False
    exact: bool = False


@dataclass(frozen=True)
class PriceWidening:
    """A price balances, and others beside it may: the ends are looked for.

    Attributes:
        rounds: totals taken in so far.
        found: the price that balances.
        lowest: the lower end.
        highest: the upper end.
    """

    rounds: int
    found: PriceSettled
    lowest: PriceSearchEnd
    highest: PriceSearchEnd
    done: bool = False


@dataclass(frozen=True)
class PriceSettled:
    """Supply meets demand.

    Attributes:
        price: that balances; the middle, if many do.
        surplus: what is left of output less demand.
        lowest: the lowest price that is known to balance.
        within: how far beyond the two the ends may be; 0 where they are known.
    """

    rounds: int
    price: TriedPrice
    surplus: float
    slope: float
    lowest: float
    highest: float
    within: float = 0.0
    done: bool = True

    @property
    def is_unique(self) -> bool:
        return self.lowest == self.highest and self.within == 0.0


State: TypeAlias = PriceSearching | PriceWidening | PriceSettled


@dataclass(frozen=True)
class PriceSearch:
    """Public terms of a search for a price, fixed before the first round."""

    low: float
    high: float
    tolerance: float = 1e-9
    max_rounds: int = 200
    unit: Fraction | None = None
    price_unit: Fraction | None = None
    total_cost: bool = False

    def __post_init__(self) -> None:
        if not (self.low < self.high and isfinite(self.high - self.low)):
            raise InvalidInputError(
                "expected an interval of finite prices, the lowest first, "
                f"found {self.low:g} to {self.high:g}",
                code="malformed-price-range",
            )
        if not 0.0 < self.tolerance < inf:
            raise InvalidInputError(
                f"a tolerance must be above zero, found {self.tolerance:g}",
                code="tolerance-not-positive",
            )
        as_whole_number(self.max_rounds, what="max_rounds", least=1)

    @cached_property
    def layout(self) -> NumberLayout:
        """The least surplus at a price, further offers at it, and the slope."""
        fine = power_of_two_unit(Fraction(self.tolerance), SLOPE_BITS + 1)
        width = power_of_two_unit(Fraction(self.high) - Fraction(self.low), 0)
        step = self._demands.exact_step
        return NumberLayout(
            (
                layout_number("balance", step, TOTAL_BITS),
                layout_number("further_output", step, TOTAL_BITS),
                layout_number("slope", fine / width, TOTAL_BITS),
            )
        )

    @cached_property
    def costs(self) -> NumberLayout:
        step = self._demands.exact_step
        return NumberLayout(
            (layout_number("total_cost", step, TOTAL_BITS), layout_padding(2))
        )

    @cached_property
    def _demands(self) -> FixedPointGrid:
        """Whole units of power, in steps fine enough for the tolerance."""
        step = power_of_two_unit(Fraction(self.tolerance), FINER_BITS + 1)
        if self.unit is None:
            return FixedPointGrid(
                step.denominator.bit_length() - step.numerator.bit_length()
            )
        # The least q with unit 2^-q <= step.
        parts = -(-self.unit // step) - 1
        return FixedPointGrid(max(0, int(parts).bit_length()), self.unit)

    def response(self, site: Site, request: TriedPrice | CostAt) -> Integers:
        """Return one party's whole numbers at a price.

        All are sums over rows, each of which is rounded by itself.
        """
        step, _, rise = (FixedPointGrid(0, unit) for unit in self.layout.counts.units)
        if isinstance(request, CostAt):
            costs = as_python_integers(step.quantise(site.costs(request.price)))
            return self.costs.pack(total_cost=sum(costs))
        least, most = site.range(request.value)
        if request.share > 0.0:
            least = most = site.outputs(request)
        outputs = sum(as_python_integers(step.quantise(least)))
        further = sum(as_python_integers(step.quantise(most))) - outputs
        slopes = as_python_integers(rise.quantise(site.slopes(request)))
        demands = as_python_integers(self._demands.quantise(site.demands))
        return self.layout.pack(
            balance=outputs - sum(demands), further_output=further, slope=sum(slopes)
        )

    def check(self, site: Site) -> None:
        """Refuse a site before it takes part whose numbers are beyond what is summed.

        It is told by place: numbers are private, and this may be logged.
        """
        reach = 2 ** (TOTAL_BITS - ROW_BITS - 2)
        powers, _, slopes = (unit * reach for unit in self.layout.counts.units)
        advice = (
            "which is beyond what can be summed: count in larger units, or allow a "
            "greater tolerance"
        )
        columns = (site.a, site.b, site.low, site.high)
        rows = zip(*(one.tolist() for one in columns), strict=True)
        for k, (a, b, low, high) in enumerate(rows):
            most = Fraction(max(abs(low), abs(high)))
            if most > powers or Fraction(0.5) > slopes * Fraction(a) > 0:
                raise InvalidInputError(
                    f"{site.place(k)} has a limit (low, high) above "
                    f"{float(powers):.3g} or an a below {0.5 / float(slopes):.3g}, "
                    f"{advice}",
                    code="value-out-of-range",
                )
            if (
                self.total_cost
                and (Fraction(a) * most + abs(Fraction(b))) * most > powers
            ):
                raise InvalidInputError(
                    f"{site.place(k)} may cost more than {float(powers):.3g}, {advice}",
                    code="price-too-high",
                )
            if a == 0.0 and not self._is_whole(b):
                raise InvalidInputError(
                    f"{site.place(k)} has a price (b, or price) that is no whole "
                    f"number of the agreed price_unit {self.price_unit}: offer at one "
                    "that is",
                    code="price-off-grid",
                )
        if any(abs(Fraction(demand)) > powers for demand in site.demands):
            raise InvalidInputError(
                f"a demand is above {float(powers):.3g}, {advice}",
                code="demand-too-large",
            )

    def _is_whole(self, price: float) -> bool:
        unit = self.price_unit
        return unit is None or float(round(Fraction(price) / unit) * unit) == price

    def start(self) -> State:
        return PriceSearching()

    def propose(self, state: State) -> TriedPrice:
        if isinstance(state, PriceSettled):
            raise LocalProtocolError(
                "the price is settled: no round is left", code="price-already-settled"
            )
        if isinstance(state, PriceWidening):
            return TriedPrice(self._beyond(state))
        low, high = self._ends(state)
        if nextafter(low.value, inf) >= high.value:
            return _finest_price(state, low, high)
        middle = low.value + (high.value - low.value) / 2.0
        wanted = middle if state.slow else self._newton(state, middle)
        return TriedPrice(self._offered(wanted, low.value, high.value))

    def advance(self, state: State, total: Integers) -> State:
        """Return the state after one more total; raise if no price balances.

        What it goes on with is correctly rounded from whole numbers, and then computed
        in single operations on float64: the same on every machine.

        Raises:
            InvalidInputError: no price of the interval balances; it says which way.
            NumericalError: rounds or digits were not enough.
        """
        if isinstance(state, PriceSettled):
            raise LocalProtocolError(
                "the price is settled: it takes no more totals",
                code="price-already-settled",
            )
        whole = len(total) == self.layout.size and {*map(type, total.tolist())} == {int}
        if not whole or min(total[1:]) < 0:
            raise NumericalError(
                "expected a total of three whole numbers, surplus, what more is "
                "offered and slope, the last two at least 0, found "
                f"{total.tolist()}: the sum went wrong",
                code="impossible-total",
            )
        price, rounds = self.propose(state), state.rounds + 1
        few, units = Fraction(self.tolerance), self.layout.counts.units
        least, further, rise = (a * b for a, b in zip(total, units, strict=True))
        most, slope = least + further, float(rise)
        # Too low if even the most is too little, too high if the least is too much.
        way = -1 if most < -few else 1 if least > few else 0
        found = PriceSample(price, float(most if way < 0 else least), slope)
        if isinstance(state, PriceWidening):
            ends_here = slope > 0.0 or least < -few or most > few
            return self._widen(state, found, balances=not way, ends_here=ends_here)
        if way:
            self._check_ends(found)
            return self._narrow(state, found)
        taken = 0.0
        if least < -few:
            taken = 1.0 if most <= few else float(-least / (most - least))
        left = float(least + Fraction(taken) * (most - least))
        at = price.value
        settled = PriceSettled(rounds, replace(price, taken=taken), left, slope, at, at)
        alone = slope > 0.0 or price.share > 0.0
        return self._settle(
            PriceWidening(
                rounds,
                settled,
                PriceSearchEnd(at, state.low, exact=alone or least < -few),
                PriceSearchEnd(at, state.high, exact=alone or most > few),
            )
        )

    def _narrow(self, state: PriceSearching, found: PriceSample) -> PriceSearching:
        if state.rounds + 1 >= self.max_rounds:
            raise NumericalError(
                f"no price balanced supply and demand in {self.max_rounds} rounds: at "
                f"{found.price.value:.9g} output less demand is still "
                f"{found.surplus:.3g}; allow more rounds, a narrower interval of "
                "prices or a greater tolerance",
                code="not-converged",
            )
        after = replace(state, rounds=state.rounds + 1)
        if found.surplus < 0.0:
            after = replace(after, low=found)
        else:
            after = replace(after, high=found)
        slow = 2.0 * self._gap(after) > self._gap(state)
        return replace(after, slow=slow)

    def _widen(
        self,
        state: PriceWidening,
        found: PriceSample,
        *,
        balances: bool,
        ends_here: bool,
    ) -> State:
        name = "highest" if state.lowest.known else "lowest"
        end: PriceSearchEnd = getattr(state, name)
        at = found.price.value
        if balances:
            bound = at in (self.low, self.high)
            after = replace(end, inner=at, exact=ends_here or bound)
        else:
            after = replace(end, outer=found)
        if end.outer is not None and after.outer is not None:
            before = abs(end.outer.price.value - end.inner)
            now = abs(after.outer.price.value - after.inner)
            after = replace(after, slow=2.0 * now > before)
        changes: dict[str, Any] = {"rounds": state.rounds + 1, name: after}
        return self._settle(replace(state, **changes))

    def _settle(self, state: PriceWidening) -> State:
        """Return the end of the search, if both ends are known well enough."""
        ends = [
            self._near(state.lowest, self.low),
            self._near(state.highest, self.high),
        ]
        if not all(one.known for one in ends) and state.rounds < self.max_rounds:
            return replace(state, lowest=ends[0], highest=ends[1])
        low, high = (one.inner for one in ends)
        beyond = [
            abs(one.outer.price.value - one.inner)
            for one in ends
            if one.outer is not None and not one.exact
        ]
        settled = replace(state.found, rounds=state.rounds, lowest=low, highest=high)
        if low < high:  # in between, everybody's outputs are the same at all prices
            settled = replace(settled, price=TriedPrice(low + (high - low) / 2.0))
        return replace(settled, within=max(beyond, default=0.0))

    def _near(self, end: PriceSearchEnd, bound: float) -> PriceSearchEnd:
        if end.exact or end.outer is None:
            return replace(end, known=end.exact or end.inner == bound)
        low, high = sorted((end.inner, end.outer.price.value))
        if self.price_unit is None:
            near = high - low <= (self.high - self.low) * 2.0**-END_BITS
        else:
            middle = low + (high - low) / 2.0
            near = not self._is_whole(self._offered(middle, low, high))
        return replace(end, known=near or nextafter(low, inf) >= high)

    def _beyond(self, state: PriceWidening) -> float:
        """Return the next price on the way to an end that is not known."""
        lower = not state.lowest.known
        end = state.lowest if lower else state.highest
        if end.outer is None:
            return self.low if lower else self.high
        low, high = sorted((end.inner, end.outer.price.value))
        wanted = end.outer.newton
        if end.slow or not low < wanted < high:
            wanted = low + (high - low) / 2.0
        return self._offered(wanted, low, high)

    def _offered(self, wanted: float, low: float, high: float) -> float:
        """Return the whole number of price units nearest to a price between two.

        Where there is none between them, all offers bend there, and any price will do.
        """
        unit = self.price_unit
        if unit is None or not low < wanted < high:
            return wanted
        first, last = floor(Fraction(low) / unit), ceil(Fraction(high) / unit)
        # A float64 may be a little beside the whole number that it stands for.
        while float(first * unit) <= low:
            first += 1
        while float(last * unit) >= high:
            last -= 1
        nearest = min(max(round(Fraction(wanted) / unit), first), last)
        return float(nearest * unit) if first <= last else wanted

    def _ends(self, state: PriceSearching) -> tuple[TriedPrice, TriedPrice]:
        low = TriedPrice(self.low) if state.low is None else state.low.price
        high = TriedPrice(self.high) if state.high is None else state.high.price
        return low, high

    def _gap(self, state: PriceSearching) -> float:
        low, high = self._ends(state)
        digit = low.next_value - low.value
        return (high.value - low.value) + (high.share - low.share) * digit

    def _newton(self, state: PriceSearching, middle: float) -> float:
        """Return the step from the end nearer to balance that stays inside."""
        low, high = (end.value for end in self._ends(state))
        known = [end for end in (state.low, state.high) if end is not None]
        for end in sorted(known, key=lambda sample: abs(sample.surplus)):
            # An end is proposed itself while nothing is known there.
            if end.newton <= low and state.low is None:
                return low
            if end.newton >= high and state.high is None:
                return high
            if low < end.newton < high:
                return end.newton
        return middle

    def _check_ends(self, found: PriceSample) -> None:
        if found.surplus < 0.0 and found.price == TriedPrice(self.high):
            raise InvalidInputError(
                f"demand is beyond all output up to the highest price {self.high:g}: "
                f"{-found.surplus:.6g} are missing; "
                f"{_price_search_advice(found, 'higher', 'more')}",
                code="no-balancing-price",
            )
        if found.surplus > 0.0 and found.price == TriedPrice(self.low):
            raise InvalidInputError(
                f"demand is below all output down to the lowest price {self.low:g}: "
                f"{found.surplus:.6g} are too many; "
                f"{_price_search_advice(found, 'lower', 'less')}",
                code="no-balancing-price",
            )


def _price_search_advice(found: PriceSample, way: str, quantity: str) -> str:
    if found.slope > 0.0:
        return f"allow {way} prices, at which generators run {quantity}"
    limits = "upper" if quantity == "more" else "lower"
    return (
        f"generators that run {quantity} at {way} prices, if there are any, or other "
        f"{limits} limits are needed"
    )


def _finest_price(
    state: PriceSearching, low: TriedPrice, high: TriedPrice
) -> TriedPrice:
    if state.low is None or state.high is None:
        return low if state.low is None else high
    top = high.share if high.value == low.value else 1.0
    gap = top - low.share
    if gap < LEAST_SHARE:
        jump = state.high.surplus - state.low.surplus
        raise NumericalError(
            f"at the price {low.value:.17g} output jumps by {jump:.3g}, the rounding "
            "of large outputs or of the sum: allow a greater tolerance, or count in "
            "larger units",
            code="price-jump",
        )
    away = -state.low.surplus / (state.high.surplus - state.low.surplus)
    # A straight line is the truth here but for rounding, so it is tried first.
    part = 0.5 if state.slow and gap < 1.0 else away
    return TriedPrice(low.value, min(low.share + gap * part, nextafter(top, 0.0)))
