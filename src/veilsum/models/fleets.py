"""Dispatch over several periods: ramps and storage tie them, a price each clears them.

At public prices every generator and every store runs what earns it most, all periods
together, by itself: a small problem that is solved exactly, in single operations on
float64, so that it is one function of one row and the prices on every machine. Costs
bend, so that the answer is unique and moves with the prices without jumps; one that
does not is bent by as much as was agreed (`FleetPeriodSearch.bent`). Prices that
balance all periods are the lowest point of all profits together less the worth of all
demand. The search for it knows the gradient only: totals of output less demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import fsum, inf, isfinite
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.models.price import FINER_BITS, NOTHING, ROW_BITS, TOTAL_BITS
from veilsum.numbers.arrays import FloatArray, as_floats, as_whole_number
from veilsum.numbers.layout import NumberLayout, layout_array
from veilsum.numbers.limbs import as_python_integers
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import Integers, power_of_two_unit

# Points of a function that goes straight between them, and never falls.
Line: TypeAlias = Sequence[tuple[float, float]]
Numbers: TypeAlias = tuple[float, ...]

GENERATOR = ("a", "b", "low", "high", "ramp")
STORE = ("wear", "energy", "power", "efficiency", "start")

# A step is long enough once it leaves this part of the slope along it, and a search
# along one direction ends after so many.
ENOUGH, MOST_STEPS = 0.5, 20
# The first step changes no price by more than this part of the interval.
FIRST = 1.0 / 64.0
# A year of days; the search keeps a square of so many numbers.
MOST_PERIODS = 366


@dataclass(frozen=True, eq=False, repr=False)
class Fleet(Secret):
    """Demands, generators and stores of one party over all periods.

    Attributes:
        demands: one row for each demand, with a number for every period.
        generators: one row for each: a and b of its cost a p^2 + b p in a period, its
            limits low and high, and its largest change from one period to the next.
        stores: one row for each: its wear, which costs wear d^2 for a flow d in or out,
            its energy capacity, its largest flow in or out in a period, its efficiency
            each way, and its content at the start and at the end.
        rows: table rows of the generators and then of the stores, counted from 1; empty
            without a table.
    """

    demands: FloatArray
    generators: FloatArray
    stores: FloatArray
    rows: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        demand: ArrayLike,
        *,
        a: ArrayLike = NOTHING,
        b: ArrayLike = NOTHING,
        low: ArrayLike = NOTHING,
        high: ArrayLike = NOTHING,
        ramp: ArrayLike = NOTHING,
        wear: ArrayLike = NOTHING,
        energy: ArrayLike = NOTHING,
        power: ArrayLike = NOTHING,
        efficiency: ArrayLike = NOTHING,
        start: ArrayLike = NOTHING,
        rows: tuple[int, ...] = (),
    ) -> Fleet:
        """Return a fleet of these numbers, one for each generator or store.

        Args:
            demand: one number for each period, or a row of these for each demand.
            a: at least zero; of zero only where a `rise` is agreed on.
            b: any number.
            low: the least output.
            high: the greatest output.
            ramp: the greatest change from one period to the next.
            wear: as a.
            energy: what a store holds at most.
            power: what goes in or out in a period at most.
            efficiency: of either way; above 0, at most 1.
            start: what a store holds before the first period and after the last.
            rows: see above.
        """
        demands = np.atleast_2d(as_floats(demand, what="demand"))
        generators = _fleet_columns_table(
            "generator", a=a, b=b, low=low, high=high, ramp=ramp
        )
        stores = _fleet_columns_table(
            "store",
            wear=wear,
            energy=energy,
            power=power,
            efficiency=efficiency,
            start=start,
        )
        return cls(demands, generators, stores, rows)

    def __post_init__(self) -> None:
        a, _, low, high, ramp = self.generators.T
        wear, energy, power, efficiency, start = self.stores.T
        # By its place: numbers are private, and this may be logged.
        checks = (
            ("generator", "a", a >= 0.0, "at least zero"),
            ("generator", "low", low <= high, "at most high"),
            ("generator", "ramp", ramp >= 0.0, "at least zero"),
            ("store", "wear", wear >= 0.0, "at least zero"),
            ("store", "power", power >= 0.0, "at least zero"),
            ("store", "efficiency", (efficiency > 0) & (efficiency <= 1), "0 to 1"),
            ("store", "start", (start >= 0) & (start <= energy), "from 0 to energy"),
        )
        for kind, column, holds, wanted in checks:
            self._require(kind, column, holds, wanted)

    def _require(self, kind: str, column: str, holds: Any, wanted: str) -> None:
        if not holds.all():
            place = int(np.argmin(holds))
            where = f"{kind} {place}"
            if self.rows:
                before = 0 if kind == "generator" else len(self.generators)
                where = f"row {self.rows[before + place]}"
            raise InvalidInputError(
                f"{where}: {column} must be {wanted}; correct it",
                code="wrong-unit-value",
            )

    def require_bent(self) -> None:
        """Refuse costs that are linear."""
        self._require("generator", "a", self.generators[:, 0] > 0.0, LINEAR)
        self._require("store", "wear", self.stores[:, 0] > 0.0, LINEAR)

    def bent(self, rise: float) -> Fleet:
        """Return the fleet with linear costs bent a little.

        What is offered at one price b, whatever the output, is offered from b at its
        lower limit to b + rise at its upper one, and a store that does not wear asks
        for up to that much as well.
        """
        generators, stores = self.generators.copy(), self.stores.copy()
        for row in generators:
            a, b, low, high, _ = row.tolist()
            if a == 0.0:
                slope = rise / (high - low) if high > low else rise
                row[:2] = slope / 2.0, b - slope * low
        for row in stores:
            wear, _, power, *_ = row.tolist()
            if wear == 0.0:
                row[0] = rise / (2.0 * power) if power > 0.0 else rise
        return replace(self, generators=generators, stores=stores)

    def outputs(self, prices: Numbers) -> FloatArray:
        """Return what every generator and then every store gives in every period."""
        rows = [
            fleet_generator_outputs(prices, *row) for row in self.generators.tolist()
        ]
        rows += [fleet_store_outputs(prices, *row) for row in self.stores.tolist()]
        return np.array(rows).reshape(-1, len(prices))

    def costs(self, outputs: FloatArray) -> FloatArray:
        """Return what each costs at these in every period; a store, its wear."""
        n = len(self.generators)
        a, b, *_ = self.generators.T[:, :, None]
        running = (a * outputs[:n] + b) * outputs[:n]
        wear, _, _, efficiency, _ = self.stores.T[:, :, None]
        moved = outputs[n:] * np.where(outputs[n:] < 0.0, efficiency, 1.0 / efficiency)
        return np.concatenate([running, wear * moved**2])


LINEAR = (
    "above zero: where costs are linear, outputs jump with the prices, and totals at "
    "prices no longer tell who runs; agree on a rise, or give it a small one"
)


def _fleet_columns_table(kind: str, **columns: ArrayLike) -> FloatArray:
    found = {k: np.atleast_1d(as_floats(v, what=k)) for k, v in columns.items()}
    if len({one.shape for one in found.values()}) != 1:
        sizes = ", ".join(f"{one.size} of {name}" for name, one in found.items())
        raise InvalidInputError(
            f"every {kind} has one number of each kind, found {sizes}",
            code="wrong-shape",
        )
    return np.column_stack(list(found.values()))


# What one row does at prices


def fleet_generator_outputs(
    prices: Sequence[float], a: float, b: float, low: float, high: float, ramp: float
) -> list[float]:
    """Return the outputs of a generator that earn it most.

    The cost of all periods so far, as a function of the last output, has a derivative
    that goes straight between points. One more period moves its falling part down and
    its rising part up by the ramp, and adds the period's own cost.
    """
    best: list[float] = []
    points: list[tuple[float, float]] = [(low, 0.0), (high, 0.0)]
    for price in prices:
        if best:
            least = best[-1]
            moved = [(p - ramp, g) for p, g in points if g < 0.0]
            moved += [(least - ramp, 0.0), (least + ramp, 0.0)]
            moved += [(p + ramp, g) for p, g in points if g > 0.0]
            points = [(p, g) for p, g in moved if low <= p <= high]
            if not points or points[0][0] > low:
                points.insert(0, (low, _fleet_line_at(moved, low)))
            if points[-1][0] < high:
                points.append((high, _fleet_line_at(moved, high)))
        points = [(p, g + (2.0 * a * p + (b - price))) for p, g in points]
        best.append(_fleet_line_at([(g, p) for p, g in points], 0.0))
    outputs = [best[-1]]
    for least in best[-2::-1]:
        outputs.append(
            _fleet_limit_within(least, outputs[-1] - ramp, outputs[-1] + ramp)
        )
    return outputs[::-1]


def fleet_store_outputs(
    prices: Sequence[float],
    wear: float,
    energy: float,
    power: float,
    efficiency: float,
    start: float,
) -> list[float]:
    """Return what a store gives in each period, below zero where it is filled.

    What it holds is written over what one more unit in it would be worth: in a period
    it is filled as far as this is above the price, and emptied as far as it is below.
    """
    held: Line = [(0.0, start)]
    periods: list[tuple[Line, Line]] = []
    for price in prices:
        out, into, bend = price * efficiency, price / efficiency, 2.0 * wear * power
        moves = [(out - bend, -power), (out, 0.0), (into, 0.0), (into + bend, power)]
        worths = sorted({worth for worth, _ in (*held, *moves)})
        wanted = [
            (worth, _fleet_line_at(held, worth) + _fleet_line_at(moves, worth))
            for worth in worths
        ]
        periods.append((moves, wanted))
        ends = [
            (_fleet_line_at([(h, worth) for worth, h in wanted], end), end)
            for end in (0.0, energy)
            if wanted[0][1] < end < wanted[-1][1]
        ]
        inside = [(worth, _fleet_limit_within(h, 0.0, energy)) for worth, h in wanted]
        held = sorted([*ends, *inside])
    given: list[float] = []
    left = start
    for each, over in reversed(periods):
        moved = _fleet_line_at(
            each, _fleet_line_at([(h, worth) for worth, h in over], left)
        )
        through = moved / efficiency if moved > 0.0 else moved * efficiency
        given.append(0.0 - through)
        left = _fleet_limit_within(left - moved, 0.0, energy)
    return given[::-1]


def _fleet_line_at(line: Line, x: float) -> float:
    if x <= line[0][0]:
        return line[0][1]
    for (x0, y0), (x1, y1) in pairwise(line):
        if x <= x1:
            return y0 + (y1 - y0) * ((x - x0) / (x1 - x0)) if x1 > x0 else y1
    return line[-1][1]


def _fleet_limit_within(x: float, low: float, high: float) -> float:
    return low if x < low else min(x, high)


# The search for prices


@dataclass(frozen=True)
class FleetSearchState:
    """Where the search is.

    Attributes:
        rounds: totals taken in so far.
        prices: that totals are known at, or the first ones.
        surplus: output less demand in each period there; nothing before the first.
        bent: how prices move with surpluses, learnt from totals; nothing at first.
        way: the direction in which prices are tried.
        length: how far in it.
        short: a length that is too short, and the slope there.
        long: one that is too long, and the slope, if there is one.
        steps: lengths tried.
    """

    rounds: int
    prices: Numbers
    surplus: Numbers = ()
    bent: tuple[Numbers, ...] = ()
    way: Numbers = ()
    length: float = 0.0
    short: tuple[float, float] = (0.0, 0.0)
    long: tuple[float, float] | None = None
    steps: int = 0
    done: bool = False


@dataclass(frozen=True)
class FleetCleared:
    """Supply meets demand in every period."""

    rounds: int
    prices: Numbers
    surplus: Numbers
    done: bool = True


@dataclass(frozen=True)
class FleetPeriodSearch:
    """Public terms of a search for period prices, fixed before the first round.

    Prices descend along the gradient, corrected by the response of surpluses to prices
    in earlier totals (Broyden, Fletcher, Goldfarb and Shanno's rule).

    Attributes:
        low: the lowest price of any period; at least 0.
        tolerance: largest difference of output and demand in a period.
        rise: price increase given to offers at one price, see `Fleet.bent`; with 0,
            linear costs are rejected.
    """

    periods: int
    low: float
    high: float
    tolerance: float = 1e-6
    max_rounds: int = 200
    rise: float = 0.0

    def __post_init__(self) -> None:
        as_whole_number(self.max_rounds, what="max_rounds", least=1)
        if as_whole_number(self.periods, what="periods", least=1) > MOST_PERIODS:
            raise InvalidInputError(
                f"expected 1 to {MOST_PERIODS} periods, found {self.periods}",
                code="periods-out-of-range",
            )
        if not 0.0 <= self.rise < inf:
            raise InvalidInputError(
                f"a rise must be a number of at least zero, found {self.rise:g}",
                code="rise-negative",
            )
        # Below 0 a store would be filled and emptied at once.
        if not (0.0 <= self.low < self.high and isfinite(self.high)):
            raise InvalidInputError(
                "expected finite prices of at least 0, the lowest first, found "
                f"{self.low:g} to {self.high:g}",
                code="malformed-price-range",
            )
        if not 0.0 < self.tolerance < inf:
            raise InvalidInputError(
                f"a tolerance must be above zero, found {self.tolerance:g}",
                code="tolerance-not-positive",
            )

    @cached_property
    def layout(self) -> NumberLayout:
        step = power_of_two_unit(Fraction(self.tolerance), FINER_BITS + 1)
        return NumberLayout(
            (layout_array("period_balance", self.periods, step, TOTAL_BITS),)
        )

    def bent(self, fleet: Fleet) -> Fleet:
        return fleet.bent(self.rise) if self.rise else fleet

    def response(self, fleet: Fleet, prices: Numbers) -> Integers:
        """Return one party's output less demand in each period, rounded row by row."""
        grid = FixedPointGrid(0, self.layout.counts.units[0])
        total = np.full(self.periods, 0, dtype=object)
        for sign, rows in ((1, fleet.outputs(prices)), (-1, fleet.demands)):
            for row in rows:
                total = total + sign * as_python_integers(grid.quantise(row))
        return total

    def check(self, fleet: Fleet) -> None:
        """Refuse a fleet that does not fit before it takes part."""
        if fleet.demands.shape[1] != self.periods:
            raise InvalidInputError(
                f"demand has {fleet.demands.shape[1]} periods, and {self.periods} "
                "were agreed on: give a number for each",
                code="wrong-period-count",
            )
        self.bent(fleet).require_bent()
        reach = float(self.layout.counts.units[0] * 2 ** (TOTAL_BITS - ROW_BITS - 2))
        for kind in ("demands", "generators", "stores"):
            rows = getattr(fleet, kind)
            if not (np.abs(rows) < reach).all():
                raise InvalidInputError(
                    f"{kind}: a number is above {reach:.3g}, which is beyond what can "
                    "be summed: count in larger units, or allow a greater tolerance",
                    code="number-too-large",
                )

    def start(self) -> FleetSearchState | FleetCleared:
        """Return the state before anything is known: the middle, in every period."""
        middle = self.low + (self.high - self.low) / 2.0
        return FleetSearchState(0, (middle,) * self.periods)

    def propose(self, state: FleetSearchState | FleetCleared) -> Numbers:
        if isinstance(state, FleetCleared):
            raise LocalProtocolError(
                "the prices are settled: no round is left", code="fit-already-done"
            )
        if not state.way:
            return state.prices
        pairs = zip(state.prices, state.way, strict=True)
        return tuple(
            _fleet_limit_within(price + state.length * way, self.low, self.high)
            for price, way in pairs
        )

    def advance(
        self, state: FleetSearchState | FleetCleared, total: Integers
    ) -> FleetSearchState | FleetCleared:
        """Return the state after one more total; raise if no prices balance.

        It is computed from whole numbers in single operations on float64 and in sums
        that are rounded once: the same on every machine.

        Raises:
            InvalidInputError: no prices of the interval balance; it says where.
            NumericalError: rounds were not enough.
        """
        prices, rounds = self.propose(state), state.rounds + 1
        assert isinstance(state, FleetSearchState)
        surplus = tuple(self.layout.counts.values(total).tolist())
        largest = max(abs(one) * self.layout.counts.units[0] for one in total)
        if largest <= Fraction(self.tolerance):
            return FleetCleared(rounds, prices, surplus)
        if rounds >= self.max_rounds:
            raise NumericalError(
                f"no prices balanced all periods in {self.max_rounds} rounds: output "
                f"less demand is still {float(largest):.3g} in one; allow more rounds "
                "or a greater tolerance",
                code="not-converged",
            )
        if not state.way:
            return self._turn(replace(state, rounds=rounds, surplus=surplus))
        slope = _fleet_dot(surplus, state.way)
        before, steps = _fleet_dot(state.surplus, state.way), state.steps + 1
        bounded = self._room(state) <= state.length and slope < 0.0
        if abs(slope) <= ENOUGH * abs(before) or bounded or steps >= MOST_STEPS:
            bent = self._learnt(state, prices, surplus)
            return self._turn(FleetSearchState(rounds, prices, surplus, bent))
        short, long = state.short, state.long
        if slope > 0.0:
            long = (state.length, slope)
        else:
            short = (state.length, slope)
        if long is None:
            length = min(3.0 * state.length, self._room(state))
        else:
            part = _fleet_limit_within(short[1] / (short[1] - long[1]), 0.1, 0.9)
            length = short[0] + (long[0] - short[0]) * part
        return replace(
            state, rounds=rounds, short=short, long=long, steps=steps, length=length
        )

    def _turn(self, state: FleetSearchState) -> FleetSearchState:
        """Return the state with the next direction; prices at an end stay there."""
        pairs = list(zip(state.prices, state.surplus, strict=True))
        free = [not self._leaves(price, -one) for price, one in pairs]
        kept = [0.0 if self._leaves(price, -one) else one for price, one in pairs]
        largest = max(map(abs, kept))
        if largest <= self.tolerance:
            # Ramps carry what one period lacks to others: the worst is named.
            period = max(range(self.periods), key=lambda k: abs(state.surplus[k]))
            missing = -state.surplus[period]
            which, much = ("highest", "missing") if missing > 0 else ("lowest", "spare")
            raise InvalidInputError(
                f"no prices balance all periods: in period {period + 1}, at the "
                f"{which} price {state.prices[period]:g}, {abs(missing):.6g} are "
                f"{much}; allow other prices, limits or ramps",
                code="no-balancing-price",
            )
        wanted = [-_fleet_dot(row, kept) for row in state.bent]
        way = [
            moves if is_free and not self._leaves(price, moves) else 0.0
            for price, moves, is_free in zip(state.prices, wanted, free, strict=False)
        ]
        if not way or not _fleet_dot(kept, way) < 0.0:
            way = [-one * ((self.high - self.low) * FIRST / largest) for one in kept]
            state = replace(state, bent=())
        turned = replace(
            state, way=tuple(way), short=(0.0, _fleet_dot(state.surplus, way))
        )
        return replace(turned, length=min(1.0, self._room(turned)), steps=0)

    def _leaves(self, price: float, way: float) -> bool:
        return price <= self.low if way < 0.0 else way > 0.0 and price >= self.high

    def _room(self, state: FleetSearchState) -> float:
        """Return how far prices can go before one of them meets an end."""
        return min(
            ((self.high if way > 0.0 else self.low) - price) / way
            for price, way in zip(state.prices, state.way, strict=True)
            if way != 0.0
        )

    def _learnt(
        self, state: FleetSearchState, prices: Numbers, surplus: Numbers
    ) -> tuple[Numbers, ...]:
        s = [new - old for new, old in zip(prices, state.prices, strict=True)]
        y = [new - old for new, old in zip(surplus, state.surplus, strict=True)]
        along = _fleet_dot(s, y)
        bent, places = state.bent, range(self.periods)
        if not along > 0.0:
            return bent
        if not bent:
            size = along / _fleet_dot(y, y)
            bent = tuple(tuple(size * (i == j) for j in places) for i in places)
        turned = [_fleet_dot(row, y) for row in bent]
        more = (1.0 + _fleet_dot(turned, y) / along) / along
        return tuple(
            tuple(
                bent[i][j]
                + (more * (s[i] * s[j]) - (turned[i] * s[j] + s[i] * turned[j]) / along)
                for j in places
            )
            for i in places
        )


def _fleet_dot(x: Iterable[float], y: Iterable[float]) -> float:
    return fsum(a * b for a, b in zip(x, y, strict=True))
