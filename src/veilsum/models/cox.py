"""Cox's regression with a baseline for each party: party terms, and the search.

With a stratum for each party nobody is compared across parties, and the log partial
likelihood, its slope (score) and its curvature (information) are sums over parties. A
party's part is a function of its whole table, and the same to the bit whatever the
order of its rows: rows are sorted by time, event and all columns; what runs along them
is added one by one; exp and log are `numbers/elementary`'s. With the weights w = exp
eta and the hazard h that each row has met so far, as sums over its own party's events,

    score        Z'(d - wh)                   d is 1 at an event, 0 elsewhere
    information  Z' diag(wh) Z - sum_e m m'   m the mean of Z at risk at event e

which are sums over rows of whole numbers, exact; only w, h and m are float64. A party
takes the middle of its own columns off first, so that nothing large cancels: neither
sum changes by it. At the end each number is rounded once, to a unit that follows from
the agreed ranges alone, a small part of what one event can contribute: 2^-44, and of
information, whose columns stand there squared, 2^-56. A coefficient is then known to
1e-9 of its standard error, and that to as many digits, wherever its column spreads over
more than a thousandth of its agreed range.

Efron's way with ties takes an l-th part of the tied events off at the l-th of them;
Breslow's takes nothing off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, frexp
from typing import Any, TypeAlias

import numpy as np
import scipy
from flint import arb_mat

from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError
from veilsum.models import systems
from veilsum.models.inference import Inference
from veilsum.models.newton import (
    NewtonClimb,
    NewtonEvaluation,
    endless_newton_direction,
    fading_newton_direction,
    greatest_coefficients_of_model,
    newton_grows_endlessly,
)
from veilsum.models.plausible import check_plausible_matrix, check_plausible_total
from veilsum.models.rows import PerRow, RowMeasures, Rows
from veilsum.models.systems import (
    InformationSystem,
    dependent_model_columns,
    nearest_float_solution,
    system_rows_as_balls,
)
from veilsum.models.weights import note_row_weights
from veilsum.numbers.arrays import Array, FloatArray, Vector, listed_names
from veilsum.numbers.compiled import compiled_or_plain
from veilsum.numbers.elementary import exp, log
from veilsum.numbers.layout import (
    NumberLayout,
    layout_number,
    layout_symmetric,
    layout_vector,
)
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import Float
from veilsum.numbers.units import (
    BLOCK_ROWS,
    CrossSum,
    GramSum,
    Integers,
    UnitMeasure,
    bits_of_reach,
    limbs_of_bits,
    total_of_counts,
)

# Of what one event can contribute to the score and the likelihood, so many bits below
# its largest are released; of information, which has columns squared, some more.
BELOW, SQUARED = 44, 56
# What an event's logarithms, and all that pulls in one row, have beyond that.
BEYOND = 12
# Two rows' predictors are no further apart than this: exp of it is within float64.
FAR = 600.0
# Rows' roots of information and means at risk have so many bits, in two limbs.
ROOT_BITS = 39
# A row's part of a total is rounded by less than 2^-ROUNDED of an event's largest.
ROUNDED = 24
# Columns of which all others together explain one but for 3e-5 of its size.
DEPENDENT = 1e9

# A word of a file, checked by `CoxSearch`.
Ties: TypeAlias = str
TIES = ("efron", "breslow")
PerEvent = Float[FloatArray, " events"]


@dataclass(frozen=True)
class CoxScales:
    """In what units parties' terms are summed; all of it follows from the agreement."""

    measures: RowMeasures

    @property
    def design(self) -> tuple[UnitMeasure, ...]:
        return self.measures.design

    @cached_property
    def spans(self) -> tuple[int, ...]:
        return tuple(one.most - one.least for one in self.design)

    @cached_property
    def powers(self) -> tuple[int, ...]:
        """The b of each column with no two counts further apart than 2^b."""
        return tuple(map(bits_of_reach, self.spans))

    @cached_property
    def terms(self) -> NumberLayout:
        """Terms of the partial likelihood at a point."""
        bits = max(BELOW + BEYOND, SQUARED) + self.measures.row_bits + 2
        sizes = [
            one.unit * (1 << b) for one, b in zip(self.design, self.powers, strict=True)
        ]
        roots = [one / (1 << SQUARED // 2) for one in sizes]
        unit = Fraction(1, 1 << BELOW)
        return NumberLayout(
            (
                layout_symmetric("partial_information", roots, bits),
                layout_vector("partial_score", [one * unit for one in sizes], bits),
                layout_number("partial_log_likelihood", unit, bits),
            )
        )

    @cached_property
    def layout(self) -> NumberLayout:
        """The terms, rows and events; the last two are 0 after the first round."""
        return self.terms + NumberLayout(
            (layout_number("rows"), layout_number("events"))
        )

    def far(self, point: Vector) -> bool:
        """Say whether agreed ranges leave two rows' predictors too far apart."""
        return not self.measures.apart(point) <= FAR


@dataclass(frozen=True)
class CoxSums:
    """Totals of the parties' terms at a point.

    Attributes:
        information: whole numbers, for coefficients times 2^b.
        score: for coefficients of columns counted in whole numbers.
        log_likelihood: Cox's partial log-likelihood.
        n_rows: number of rows in the first round, else 0.
        n_events: number of events in the first round, else 0.
    """

    information: Integers
    score: tuple[Fraction, ...]
    log_likelihood: Fraction
    n_rows: int
    n_events: int

    @classmethod
    def of(cls, scales: CoxScales, vector: Integers) -> CoxSums:
        parts = scales.layout.unpack(vector)
        unit = Fraction(1, 1 << BELOW)
        along = zip(parts["partial_score"], scales.powers, strict=True)
        return cls(
            parts["partial_information"],
            tuple(int(one) * (1 << b) * unit for one, b in along),
            parts["partial_log_likelihood"] * unit,
            parts["rows"],
            parts["events"],
        )


# What one party adds up


@dataclass(frozen=True, eq=False, repr=False)
class AtRisk(Secret):
    """One party's rows in their one order, and who is at risk when.

    Attributes:
        design: whole numbers, the middle of this party's columns taken off.
        event: 1 where it was seen.
        events: the rows that have one.
        when: of each of these, which of the times with events it is.
        first: of each such time, the first row at risk.
        met: of each row, how many such times have come.
        share: of each event, the part of tied ones that is taken off: l of d.
        bits: no count of a column is beyond 2^bits.
    """

    design: FloatArray
    event: PerRow
    events: Array[Any]
    when: Array[Any]
    first: Array[Any]
    met: Array[Any]
    share: PerEvent
    bits: tuple[int, ...]

    @classmethod
    def of(
        cls, measures: RowMeasures, time: PerRow, rows: Rows, ties: Ties = "efron"
    ) -> AtRisk:
        """Return a party's checked rows, sorted; the response is the event."""
        blocks = [np.asarray(one.design, np.float64) for one in measures.blocks(rows)]
        design = np.concatenate([*blocks, np.empty((0, rows.n_columns))])
        order = _order_cox_rows(time, rows.response, design)
        design, time, event = design[order], time[order], rows.response[order]
        if len(design):
            design -= np.rint((design.min(axis=0) + design.max(axis=0)) / 2.0)
        events = np.flatnonzero(event == 1.0)
        times, when = np.unique(time[events], return_inverse=True)
        each = np.bincount(when, minlength=len(times))
        place = np.arange(len(events)) - np.concatenate([[0], np.cumsum(each)])[when]
        share = place / each[when] if ties == "efron" else np.zeros(len(events))
        reach = np.abs(design).max(axis=0, initial=0.0)
        return cls(
            design,
            event,
            events,
            when,
            np.searchsorted(time, times),
            np.searchsorted(times, time, side="right"),
            share,
            tuple(bits_of_reach(int(one)) for one in reach.tolist()),
        )

    @property
    def n_rows(self) -> int:
        return len(self.design)


def _order_cox_rows(time: PerRow, event: PerRow, design: FloatArray) -> Array[Any]:
    """Return rows sorted by time, event and columns, as far as it takes to tell them.

    What is alike in all of it may stand in any order.
    """
    order = np.lexsort((event, time))
    tied = np.ones(max(len(order) - 1, 0), dtype=bool)
    for column in (time, event):
        tied &= np.diff(column[order]) == 0.0
    for column in design.T:
        if not tied.any():
            break
        group = np.concatenate([[0], np.cumsum(~tied)])
        among = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        mine = order[among]
        order[among] = mine[np.lexsort((column[mine], group[among]))]
        tied &= np.diff(column[order]) == 0.0
    return order


def cox_hazard_met(time: PerRow, event: PerRow) -> PerRow:
    """Return the hazard that each row has met where all coefficients are 0."""
    times, each = np.unique(time[event == 1.0], return_counts=True)
    at_risk = len(time) - np.searchsorted(np.sort(time), times)
    hazard = np.concatenate([[0.0], np.cumsum(each / at_risk)])
    return np.asarray(hazard[np.searchsorted(times, time, side="right")])


def statistics(
    scales: CoxScales, rows: AtRisk, point: Vector, *, first: bool
) -> Integers:
    """Return one party's terms at a point; parties' terms are to be added.

    Args:
        scales: in what units.
        rows: of the party.
        point: the coefficients of whole numbers.
        first: whether rows and events are counted as well.
    """
    p = len(scales.design)
    if point.shape != (p,) or scales.far(point):
        raise NumericalError(
            "terms were asked for at a point where agreed ranges leave predictors too "
            "far apart: the sum before went wrong",
            code="internal",
        )
    eta = _cox_linear_predictor(rows.design, point)
    eta -= eta.max(initial=-np.inf)
    weights = exp(eta)
    at_event, when = weights[rows.events], rows.when
    n_times = len(rows.first)
    at_risk = np.cumsum(weights[::-1])[::-1][rows.first][when]
    tied = np.bincount(when, at_event, minlength=n_times)
    over = 1.0 / (at_risk - rows.share * tied[when])
    steps = np.bincount(when, over, minlength=n_times)
    hazard = np.concatenate([[0.0], np.cumsum(steps)])[rows.met]
    hazard[rows.events] -= np.bincount(when, rows.share * over, minlength=n_times)[when]
    expected = weights * np.maximum(hazard, 0.0)
    if (noted := note_row_weights("the information")) is not None:
        # Expected events of each row: their sum is the number of events, and cannot
        # vanish. A row that outweighs the others at risk has the larger part of them.
        noted.add(expected)
    score = _cox_cross_sums(rows, np.rint((rows.event - expected) * 2.0**BELOW))
    pairs = zip(score, scales.powers, strict=True)
    logs = np.rint((eta[rows.events] + log(over)) * 2.0**BELOW)
    return scales.layout.pack(
        partial_information=_cox_information(
            rows, weights, expected, over, scales.powers
        ),
        partial_score=[_shift_cox_number(int(one), -b) for one, b in pairs],
        partial_log_likelihood=total_of_counts(logs, BELOW + BEYOND),
        rows=rows.n_rows if first else 0,
        events=len(rows.events) if first else 0,
    )


def _cox_linear_predictor(design: FloatArray, point: Vector) -> PerRow:
    """Return eta, column by column in one order: no sum of BLAS's own making."""
    eta = np.zeros(len(design))
    for piece in _cox_row_pieces(len(design)):
        parts = design[piece].T * point[:, None]
        for part in parts:
            eta[piece] += part
    return eta


def _cox_cross_sums(rows: AtRisk, pull: PerRow) -> Integers:
    largest = bits_of_reach(int(np.abs(pull).max(initial=0.0)))
    found = CrossSum(
        len(rows.bits), limbs_of_bits(max(rows.bits)), limbs_of_bits(largest)
    )
    found.add(rows.design, pull)
    return found.value


def _cox_information(
    rows: AtRisk,
    weights: PerRow,
    expected: PerRow,
    over: PerEvent,
    powers: Sequence[int],
) -> Integers:
    """Return the information times 2^SQUARED, of coefficients times 2^powers."""
    widest = max(rows.bits)
    factors = np.array([2.0 ** (widest - b) for b in rows.bits])

    def added(
        parts: Iterator[tuple[FloatArray, FloatArray]], largest: float
    ) -> tuple[Integers, int]:
        power = ROOT_BITS - widest - frexp(largest)[1]
        gram = GramSum(len(rows.bits), limbs_of_bits(ROOT_BITS))
        for block, by in parts:
            gram.add_scaled(block, by * 2.0**power, factors)
        return gram.value, SQUARED - 2 * power

    root = np.sqrt(expected)
    pieces = (
        (rows.design[piece], root[piece]) for piece in _cox_row_pieces(rows.n_rows)
    )
    around, first = added(pieces, float(root.max(initial=0.0)))
    # A mean is within its column's range; half a limb leaves room for its rounding.
    middle, second = added(_cox_risk_set_means(rows, weights, over), 0.75)
    common = min(first, second)
    whole = (around << first - common) - (middle << second - common)
    shifts = [b - widest - power for b, power in zip(rows.bits, powers, strict=True)]
    matrix = [
        [_shift_cox_number(whole[i, j], common + b + c) for j, c in enumerate(shifts)]
        for i, b in enumerate(shifts)
    ]
    return np.array(matrix, dtype=object)


def _shift_cox_number(number: int, power: int) -> int:
    """Return number 2^power, rounded to a whole number, ties to even."""
    if power >= 0:
        return number << power
    return (number + (1 << -power - 1) - 1 + (number >> -power & 1)) >> -power


def _cox_risk_set_means(
    rows: AtRisk, weights: PerRow, over: PerEvent
) -> Iterator[tuple[FloatArray, FloatArray]]:
    sums = cox_risk_sums(rows, weights)
    for piece in _cox_row_pieces(len(sums)):
        yield sums[piece], over[piece]


def _cox_row_pieces(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, BLOCK_ROWS):
        yield slice(start, start + BLOCK_ROWS)


def cox_risk_sums(rows: AtRisk, weights: PerRow) -> FloatArray:
    """Return the weighted sums of all rows at risk at each event, ties taken off.

    From the last row to the first, one by one, compiled or not: the same bits.
    """
    design, first, events = rows.design, rows.first, rows.events
    p = design.shape[1]
    quick = compiled_or_plain(_risk_sums, design.size)
    if quick is not None:
        found = np.empty((len(events), p))
        ends = np.append(np.searchsorted(rows.when, np.arange(len(first))), len(events))
        quick(design, weights, first, events, ends, rows.share, np.zeros((2, p)), found)
        return found
    sums, carry = np.empty((len(first), p)), np.zeros(p)
    for start in reversed(range(0, len(design), BLOCK_ROWS)):
        piece = slice(start, start + BLOCK_ROWS)
        parts = (design[piece] * weights[piece, None])[::-1]
        parts[0] += carry
        parts = np.cumsum(parts, axis=0)
        carry = parts[-1]
        low, high = np.searchsorted(first, [start, start + len(parts)])
        sums[low:high] = parts[::-1][first[low:high] - start]
    found = sums[rows.when]
    if rows.share.any():
        parts = design[events] * weights[events][:, None]
        each = [np.bincount(rows.when, one, minlength=len(first)) for one in parts.T]
        found -= rows.share[:, None] * np.stack(each, axis=1)[rows.when]
    return found


def _risk_sums(
    design: Any,
    weights: Any,
    first: Any,
    events: Any,
    ends: Any,
    share: Any,
    room: Any,
    found: Any,
) -> None:
    running, tied = room[0], room[1]
    place = len(first) - 1
    for i in range(len(design) - 1, -1, -1):
        for j in range(len(running)):
            running[j] += weights[i] * design[i, j]
        if place >= 0 and first[place] == i:
            tied[:] = 0.0
            for e in range(ends[place], ends[place + 1]):
                for j in range(len(tied)):
                    tied[j] += weights[events[e]] * design[events[e], j]
            for e in range(ends[place], ends[place + 1]):
                for j in range(len(tied)):
                    found[e, j] = running[j] - share[e] * tied[j]
            place -= 1


# The search


@dataclass(frozen=True)
class CoxFit(Inference):
    """The fit of all parties' rows, each party a stratum."""

    ties: Ties
    log_likelihood: float
    null_log_likelihood: float
    score_test: float
    wald_test: float
    n_rows: int
    n_events: int
    rounds: int
    condition: float

    @property
    def degrees(self) -> int:
        """Degrees of freedom of the three tests: the number of coefficients."""
        return len(self.names)

    @property
    def likelihood_ratio_test(self) -> float:
        """Twice what the log-likelihood gains over all coefficients 0."""
        return 2.0 * (self.log_likelihood - self.null_log_likelihood)

    @property
    def aic(self) -> float:
        """-2 log-likelihood + 2 coefficients."""
        return 2.0 * (self.degrees - self.log_likelihood)

    def chance(self, test: float) -> float:
        """Return the chance of at least so much if all coefficients were 0."""
        return float(scipy.special.chdtrc(self.degrees, max(test, 0.0)))


@dataclass(frozen=True)
class CoxState:
    """Where the search is."""

    climb: NewtonClimb
    rounds: int = 0
    first: CoxSums | None = None
    sums: CoxSums | None = None

    @property
    def converged(self) -> bool:
        return self.climb.settled


@dataclass(frozen=True)
class CoxSearch:
    """Public terms of a Cox regression, fixed before the first round."""

    measures: RowMeasures
    names: tuple[str, ...]
    ties: Ties = "efron"
    max_rounds: int = 50

    def __post_init__(self) -> None:
        if self.ties not in TIES:
            raise InvalidInputError(
                f"ties must be {' or '.join(TIES)}, found {self.ties!r}",
                code="unknown-ties",
            )
        if not self.names:
            raise InvalidInputError(
                "a Cox regression needs a column on the right of ~; without one ask "
                "for survival curves",
                code="no-columns-to-fit",
            )

    @cached_property
    def scales(self) -> CoxScales:
        centred = tuple(one.centred() for one in self.measures.design)
        return CoxScales(replace(self.measures, design=centred))

    def start(self) -> CoxState:
        nowhere = np.zeros(len(self.names))
        return CoxState(NewtonClimb(here=nowhere, trial=nowhere))

    def propose(self, state: CoxState) -> Vector:
        if state.converged:
            raise LocalProtocolError(
                "the fit is done: no round is left", code="fit-already-done"
            )
        return state.climb.trial

    def advance(self, state: CoxState, vector: Integers) -> CoxState:
        sums = CoxSums.of(self.scales, vector)
        self._check_possible(sums, state.first or sums)
        if state.first is None:
            self._check_first(sums)
        found = self._evaluation(sums)
        accepted = state.climb.accepts(found)
        climb = state.climb.advance(found)
        first = state.first or sums
        if accepted and state.first is not None:
            self._check_endless(state.climb, climb, found.system, first)
        climb = climb.shorten(self.measures, state.rounds + 1)
        while not climb.settled and self.scales.far(climb.trial):
            climb = climb.halve(
                "agreed ranges leave two rows' hazards further apart than e^600, so "
                "that they cannot be summed: agree on closer ranges"
            )
        after = CoxState(
            climb, state.rounds + 1, first, sums if accepted else state.sums
        )
        if not after.converged and after.rounds >= self.max_rounds:
            raise NumericalError(
                f"the fit did not converge in {after.rounds} rounds: scale the "
                "columns, or leave some out",
                code="not-converged",
            )
        return after

    def fit(self, state: CoxState) -> CoxFit:
        climb, sums, first = state.climb, state.sums, state.first
        if not state.converged or sums is None or first is None or climb.step is None:
            raise LocalProtocolError(
                "a fit was asked for before its rounds were over", code="fit-not-done"
            )
        system, start = self._system(sums), self._evaluation(first)
        design, powers = self.scales.design, self.scales.powers
        point = climb.exact_answer
        scaled = [float(one * (1 << b)) for one, b in zip(point, powers, strict=True)]
        real = [float(one / of.unit) for one, of in zip(point, design, strict=True)]
        scales = zip(powers, design, strict=True)
        factors = np.diag([1 / (of.unit * (1 << b)) for b, of in scales]).tolist()

        def balls() -> arb_mat:
            by = system_rows_as_balls(factors)
            return by * system.inverse_balls() * by

        return CoxFit(
            names=self.names,
            coefficients=np.array(real),
            covariance=systems.nearest_float_covariances(balls),
            t_degrees=None,
            ties=self.ties,
            log_likelihood=float(sums.log_likelihood),
            null_log_likelihood=float(first.log_likelihood),
            score_test=float(start.gain(start.step())),
            wald_test=float(system.form(np.array(scaled))),
            n_rows=first.n_rows,
            n_events=first.n_events,
            rounds=state.rounds,
            condition=system.condition,
        )

    def endless_columns(self, state: CoxState) -> list[str]:
        """Return the columns whose coefficients seem to grow without end, if any do."""
        if state.first is None or state.sums is None or state.rounds < 2:
            return []
        reference = self._system(state.first)
        found = fading_newton_direction(self._system(state.sums), reference)
        return [] if found is None else greatest_coefficients_of_model(found, reference)

    def _check_possible(self, sums: CoxSums, first: CoxSums) -> None:
        """Refuse a total that no rows within the agreed ranges have."""
        n_rows, n_events, scales = first.n_rows, first.n_events, self.scales
        check_plausible_total("rows", n_rows, 0, 1 << self.measures.row_bits)
        check_plausible_total("events", n_events, 0, n_rows)
        # A variance is at most a quarter of the squared range.
        largest = [
            ceil(Fraction(span << SQUARED // 2, 2 << b))
            for span, b in zip(scales.spans, scales.powers, strict=True)
        ]
        rounding = n_rows << SQUARED - ROUNDED
        args = sums.information, self.names, largest, n_events, rounding
        check_plausible_matrix("information", *args)
        spare = Fraction(n_rows, 1 << ROUNDED)
        for name, span, one in zip(self.names, scales.spans, sums.score, strict=True):
            most = (n_events + spare) * span
            check_plausible_total(f"the score for {name}", one, -most, most)
        least = -n_events * (1 << BEYOND)
        check_plausible_total("the log-likelihood", sums.log_likelihood, least, spare)

    def _check_first(self, sums: CoxSums) -> None:
        if sums.n_events < 1:
            raise InvalidInputError(
                "no row of any party has an event: a Cox regression needs some",
                code="no-events",
            )
        still = [
            name
            for k, name in enumerate(self.names)
            if not int(sums.information[k, k]) > 0
        ]
        if still:
            raise InvalidInputError(
                f"{listed_names(still)} does not vary among a party's rows at risk, at "
                "any "
                "party, so there is no coefficient: leave it out. Rows are compared "
                "within parties only",
                code="no-variation-at-risk",
            )
        system, n = self._system(sums), len(self.names)
        # Rounding may leave less than nothing in some direction.
        alone = nearest_float_solution(
            lambda: [system.inverse_balls()[k, k] for k in range(n)]
        )
        sizes = [float(one) for one in system.diagonal()]
        inflated = (np.array(sizes) * alone).tolist()
        if any(not 0.0 < one < DEPENDENT for one in inflated):
            most = max(map(abs, inflated))
            pairs = zip(self.names, inflated, strict=True)
            culprits = [name for name, one in pairs if abs(one) >= 1e-3 * most]
            raise dependent_model_columns(culprits, 1, ridge=False)

    def _system(self, sums: CoxSums) -> InformationSystem:
        unit = Fraction(1, 1 << SQUARED)
        return InformationSystem.of(sums.information * unit, names=self.names)

    def _evaluation(self, sums: CoxSums) -> NewtonEvaluation:
        return NewtonEvaluation(
            system=self._system(sums),
            powers=tuple(-b for b in self.scales.powers),
            score=sums.score,
            objective=-2 * sums.log_likelihood,
            dispersion=1.0,
        )

    def _check_endless(
        self,
        before: NewtonClimb,
        after: NewtonClimb,
        now: InformationSystem,
        first: CoxSums,
    ) -> None:
        """Refuse data in which a coefficient grows without end; the error names it."""
        reference = self._system(first)
        powers = [-b for b in self.scales.powers]
        found = endless_newton_direction(now, reference, (before, after), powers)
        if found is None:
            return
        why = "for some of its values no event is ever seen, or always the next"
        culprits = greatest_coefficients_of_model(found, reference)
        raise newton_grows_endlessly(culprits, why, ", or merge categories")


def baseline_not_stratified(
    n_columns: int, *, rows: int, columns: int, times: int | None = None
) -> InvalidInputError:
    """Return why one baseline for all parties is not had exactly, with the ways out.

    Args:
        n_columns: of the design.
        rows: all parties have, or three parties have at least.
        columns: of the tables.
        times: how many times with events there are, where that is known.
    """
    each = 1 + n_columns + n_columns * (n_columns + 1) // 2
    held = rows * columns
    if times is None:
        enough = -(-held // each)
        found = (
            f"{each} numbers in every round for each time with an event, which with "
            f"{enough} such times are as many as {rows} rows of {columns} columns hold"
        )
    else:
        found = (
            f"{each * times:,} numbers in every round ({each} for each of {times} "
            f"times with events), where the {rows} rows hold {held:,} (of {columns} "
            "columns each)"
        )
    return InvalidInputError(
        "a Cox regression with one baseline for all parties needs sums over everybody "
        f"at risk at each event: {found}. Ask for a baseline for each party instead "
        '(strata = "party"), which is exact with '
        f"{n_columns + n_columns * (n_columns + 1) // 2} numbers and the likelihood a "
        "round, or for one baseline over agreed time bins (times = [...])",
        code="baseline-not-affordable",
    )
