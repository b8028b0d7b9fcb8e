"""Economic dispatch by rounds on the price: who runs how much, nobody tells why.

    state = search.start()
    while not state.done:
        price = search.propose(state)        # public: what every party answers to
        total = ...                          # sum of search.response(site, price)
        state = search.advance(state, total)
    site.outputs(state.price)                # each party's own

At a price every generator runs where its marginal cost meets the price, within its
limits. So total output less total demand, the surplus, is piecewise linear in the price
and never falls; the price that balances it makes all costs together as small as they
can be. All that the search decides follows from totals of surplus and slope.

Rows are generators and demands: what each of them gives is a whole number of a public
unit, and follows from its own numbers and the price alone. So a total does not know
which site has which of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import copysign, fsum, inf, isfinite, nextafter
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError
from veilsum.numbers.arrays import FloatArray, Vector, as_floats, frozen
from veilsum.numbers.fixed_point import Grid, as_python_integers
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import Float
from veilsum.numbers.units import Counts, Integers, power_unit

# The surplus and its slope.
SIZE = 2

NOTHING = frozen(np.empty(0))

# A quadratic cost below this has a slope that float64 cannot hold.
LEAST_CURVATURE = 1e-300

# Totals fit three words; generators and demands of all sites are at most so many.
TOTAL_BITS, ROW_BITS = 192, 32
# Outputs are counted in steps this much finer than the tolerance, slopes in what over
# the whole interval of prices comes to a thousandth of it.
FINER_BITS, SLOPE_BITS = 20, 10

# Shares of the last digit of a price closer than this change nothing but rounding.
LEAST_SHARE = 2.0**-30


@dataclass(frozen=True)
class Price:
    """A price, and how far it is on the way to the next float64 above.

    Where costs are nearly linear, one last digit of a price moves the outputs by more
    than the balance may be off. So outputs go straight from one float64 to the next.
    """

    value: float
    share: float = 0.0

    @property
    def next_value(self) -> float:
        """The float64 above."""
        return nextafter(self.value, inf)


@dataclass(frozen=True, eq=False, repr=False)
class Site(Secret):
    """What one party holds: demands, and generators that cost a p^2 + b p.

    Attributes:
        demands: together at least zero.
        a: above zero, one number for each generator; there may be none.
        b: one number for each generator.
        low: the least output of each.
        high: the greatest output of each.
        rows: of a table that generators are from, counted from 1; nothing without one.
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
                f"found {[x.size for x in (self.a, self.b, self.low, self.high)]}"
            )
        finite = bool(np.isfinite(self.demands).all())
        if not (finite and self.demand >= 0.0):
            found = "one below 0" if finite else "nan or inf"
            raise InvalidInputError(
                f"a demand must be a number of at least 0, found {found}"
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
        grid = Grid(0, unit)
        kept = grid.to_floats(grid.quantise(self.demands))
        return int(np.count_nonzero(kept != self.demands))

    def outputs(self, price: Price) -> Vector:
        """Return what each generator runs at a price, within its limits."""
        here = self._at(price.value)
        if price.share == 0.0:
            return here
        step = self._at(price.next_value) - here
        return np.clip(here + price.share * step, self.low, self.high)

    def cost(self, price: Price) -> float:
        """Return what running at a price costs the party, a p^2 + b p in all."""
        p = self.outputs(price)
        return fsum((self.a * p + self.b) * p)

    def slopes(self, price: Price) -> Vector:
        """Return how fast each output rises: 1/(2a) inside the limits, else 0."""
        wanted = self._wanted(price.value)
        inside = (wanted > self.low) & (wanted < self.high)
        return np.where(inside, 0.5 / self.a, 0.0)

    def _at(self, value: float) -> Vector:
        return np.clip(self._wanted(value), self.low, self.high)

    def _wanted(self, value: float) -> Vector:
        """Return where marginal cost meets the price, limits or not."""
        with np.errstate(over="ignore"):
            return (value - self.b) / (2.0 * self.a)

    def _check_generators(self) -> None:
        """Refuse one by its place: its numbers are private, and this may be logged."""
        if (flat := self.a < LEAST_CURVATURE).any():
            raise InvalidInputError(
                f"{self.place(int(np.argmax(flat)))} must have an a above zero: at a "
                "linear cost the output jumps from one limit to the other at a single "
                "price, and no price may balance it; give it a small a above zero"
            )
        if (crossed := self.low > self.high).any():
            raise InvalidInputError(
                f"{self.place(int(np.argmax(crossed)))} has its lower limit (low) above "
                "its upper limit (high): exchange or correct them"
            )


@dataclass(frozen=True)
class Sample:
    """What came out at a price."""

    price: Price
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
class Searching:
    """The price is known to lie between two others.

    Attributes:
        rounds: totals taken in so far.
        low: the highest price known to be too low, if any.
        high: the lowest price known to be too high, if any.
        slow: whether the last round left more than half of the interval.
    """

    rounds: int = 0
    low: Sample | None = None
    high: Sample | None = None
    slow: bool = False
    done: bool = False


@dataclass(frozen=True)
class Settled:
    """Supply meets demand.

    Attributes:
        rounds: totals taken in.
        price: that balances; the only one if the slope is above zero.
        surplus: what is left of output less demand.
        slope: of the surplus.
    """

    rounds: int
    price: Price
    surplus: float
    slope: float
    done: bool = True


State: TypeAlias = Searching | Settled


@dataclass(frozen=True)
class PriceSearch:
    """What all parties agree on before the first round.

    A Newton step is taken wherever it stays between prices known to be too low and too
    high; after a round that left more than half of them, the middle is. So the interval
    halves in every two rounds, and once no generator meets a limit inside it, the next
    step is exact. The balance is that of totals: where outputs of g generators are
    rounded to a step, the true one may be g / 2 steps further off.

    Attributes:
        low: the lowest price to consider.
        high: the highest price to consider.
        tolerance: how far total output may be from total demand.
        max_rounds: totals after which the search is given up.
        unit: of power, which demands are whole numbers of; without one they are of the
            step in which outputs are counted, a power of two.
    """

    low: float
    high: float
    tolerance: float = 1e-9
    max_rounds: int = 200
    unit: Fraction | None = None

    def __post_init__(self) -> None:
        if not (self.low < self.high and isfinite(self.high - self.low)):
            raise InvalidInputError(
                "expected an interval of finite prices, the lowest first, "
                f"found {self.low:g} to {self.high:g}"
            )
        if not 0.0 < self.tolerance < inf:
            raise InvalidInputError(
                f"a tolerance must be above zero, found {self.tolerance:g}"
            )
        if self.max_rounds < 1:
            raise InvalidInputError(
                f"a search takes at least 1 round, found max_rounds {self.max_rounds}"
            )

    @cached_property
    def counts(self) -> Counts:
        """What the two numbers of a total count."""
        fine = power_unit(Fraction(self.tolerance), SLOPE_BITS + 1)
        width = power_unit(Fraction(self.high) - Fraction(self.low), 0)
        return Counts((self._demands.exact_step, fine / width), TOTAL_BITS)

    @cached_property
    def _demands(self) -> Grid:
        """Whole units of power, in steps fine enough for the tolerance."""
        step = power_unit(Fraction(self.tolerance), FINER_BITS + 1)
        if self.unit is None:
            return Grid(step.denominator.bit_length() - step.numerator.bit_length())
        # The least q with unit 2^-q <= step.
        parts = -(-self.unit // step) - 1
        return Grid(max(0, int(parts).bit_length()), self.unit)

    def response(self, site: Site, price: Price) -> Integers:
        """Return one party's whole numbers at a price: its surplus, and its slope.

        Both are sums over rows, each of which is rounded by itself.
        """
        step, rise = (Grid(0, unit) for unit in self.counts.units)
        outputs = as_python_integers(step.quantise(site.outputs(price)))
        slopes = as_python_integers(rise.quantise(site.slopes(price)))
        demands = as_python_integers(self._demands.quantise(site.demands))
        return np.array([sum(outputs) - sum(demands), sum(slopes)], dtype=object)

    def check(self, site: Site) -> None:
        """Refuse a site before it takes part whose numbers are beyond what is summed.

        It is told by place: numbers are private, and this may be logged.
        """
        reach = [unit * 2 ** (TOTAL_BITS - ROW_BITS - 2) for unit in self.counts.units]
        powers = np.maximum(np.abs(site.low), np.abs(site.high))
        for place, (power, a) in enumerate(zip(powers, site.a, strict=True)):
            if Fraction(power) > reach[0] or Fraction(0.5) / Fraction(a) > reach[1]:
                raise InvalidInputError(
                    f"{site.place(place)} has a limit above {float(reach[0]):.3g} or an "
                    f"a below {0.5 / float(reach[1]):.3g}, which is beyond what can "
                    "be summed: count in larger units, or allow a greater tolerance"
                )
        if any(abs(Fraction(demand)) > reach[0] for demand in site.demands):
            raise InvalidInputError(
                f"a demand is above {float(reach[0]):.3g}, which is beyond what can "
                "be summed: count in larger units, or allow a greater tolerance"
            )

    def start(self) -> State:
        """Return the state before anything is known."""
        return Searching()

    def propose(self, state: State) -> Price:
        """Return the price that all parties answer to next."""
        if isinstance(state, Settled):
            raise LocalProtocolError("the price is settled: no round is left")
        low, high = self._ends(state)
        if nextafter(low.value, inf) >= high.value:
            return _finest(state, low, high)
        middle = low.value + (high.value - low.value) / 2.0
        return Price(middle if state.slow else self._newton(state, middle))

    def advance(self, state: State, total: Integers) -> State:
        """Return the state after one more total; raise if no price balances.

        What it goes on with is correctly rounded from whole numbers, and then computed
        in single operations on float64: the same on every machine.

        Raises:
            InvalidInputError: no price of the interval balances; it says which way.
            NumericalError: rounds or digits were not enough.
        """
        if isinstance(state, Settled):
            raise LocalProtocolError("the price is settled: it takes no more totals")
        if total.shape != (SIZE,) or {*map(type, total.tolist())} != {int}:
            raise NumericalError(
                "expected a total of two whole numbers, surplus and slope, found "
                f"{total.tolist()}: the sum went wrong"
            )
        found = Sample(self.propose(state), *self.counts.values(total).tolist())
        if abs(total[0]) * self.counts.units[0] <= Fraction(self.tolerance):
            rounds = state.rounds + 1
            return Settled(rounds, found.price, found.surplus, found.slope)
        self._check_ends(found)
        return self._narrow(state, found)

    def _narrow(self, state: Searching, found: Sample) -> Searching:
        """Return the state with the new price as one end of the interval."""
        if state.rounds + 1 >= self.max_rounds:
            raise NumericalError(
                f"no price balanced supply and demand in {self.max_rounds} rounds: at "
                f"{found.price.value:.9g} output less demand is still "
                f"{found.surplus:.3g}; allow more rounds, a narrower interval of "
                "prices or a greater tolerance"
            )
        after = replace(state, rounds=state.rounds + 1)
        if found.surplus < 0.0:
            after = replace(after, low=found)
        else:
            after = replace(after, high=found)
        slow = 2.0 * self._gap(after) > self._gap(state)
        return replace(after, slow=slow)

    def _ends(self, state: Searching) -> tuple[Price, Price]:
        low = Price(self.low) if state.low is None else state.low.price
        high = Price(self.high) if state.high is None else state.high.price
        return low, high

    def _gap(self, state: Searching) -> float:
        low, high = self._ends(state)
        digit = low.next_value - low.value
        return (high.value - low.value) + (high.share - low.share) * digit

    def _newton(self, state: Searching, middle: float) -> float:
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

    def _check_ends(self, found: Sample) -> None:
        if found.surplus < 0.0 and found.price == Price(self.high):
            raise InvalidInputError(
                f"demand is beyond all output up to the highest price {self.high:g}: "
                f"{-found.surplus:.6g} are missing; {_advice(found, 'higher', 'more')}"
            )
        if found.surplus > 0.0 and found.price == Price(self.low):
            raise InvalidInputError(
                f"demand is below all output down to the lowest price {self.low:g}: "
                f"{found.surplus:.6g} are too many; {_advice(found, 'lower', 'less')}"
            )


def _advice(found: Sample, way: str, quantity: str) -> str:
    if found.slope > 0.0:
        return f"allow {way} prices, at which generators run {quantity}"
    limits = "upper" if quantity == "more" else "lower"
    return (
        f"generators that run {quantity} at {way} prices, if there are any, or other "
        f"{limits} limits are needed"
    )


def _finest(state: Searching, low: Price, high: Price) -> Price:
    """Return a price between neighbouring float64, where there are no others."""
    if state.low is None or state.high is None:
        return low if state.low is None else high
    top = high.share if high.value == low.value else 1.0
    gap = top - low.share
    if gap < LEAST_SHARE:
        jump = state.high.surplus - state.low.surplus
        raise NumericalError(
            f"at the price {low.value:.17g} output jumps by {jump:.3g}, the rounding "
            "of large outputs or of the sum: allow a greater tolerance, or count in "
            "larger units"
        )
    away = -state.low.surplus / (state.high.surplus - state.low.surplus)
    # A straight line is the truth here but for rounding, so it is tried first.
    part = 0.5 if state.slow and gap < 1.0 else away
    return Price(low.value, min(low.share + gap * part, nextafter(top, 0.0)))
