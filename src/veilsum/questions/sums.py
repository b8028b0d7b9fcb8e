"""Private sums and averages of parties' vectors, counted in units that all agree on."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, repeat
from types import ModuleType
from typing import Any, ClassVar, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, RangeError, naming_party_in_error
from veilsum.graphs.topology import Topology
from veilsum.locale import limit_phrase
from veilsum.masks.laws import check_largest_masked_value
from veilsum.numbers.arrays import Array, FloatArray, as_floats
from veilsum.numbers.layout import NumberLayout, layout_vector
from veilsum.numbers.limbs import as_python_integers
from veilsum.numbers.units import (
    FLOAT_BITS,
    UnitMeasure,
    decimal_unit_of_numbers,
    numeric_unit_of,
    power_of_two_unit,
    runs_of_equal_objects,
)
from veilsum.showing import (
    MOST_IN_LINE,
    MOST_ROWS,
    Rendering,
    ShownTable,
    counted_words,
    numbers_in_line,
    shown_figure_text,
)
from veilsum.sums.recipes import OneRoundRecipe, SumContribution
from veilsum.sums.releases import BY_PARTY, SumReleaseLimit
from veilsum.sums.running import SumJobResult, run_sum_job
from veilsum.sums.table_job import is_simulated_sum
from veilsum.sums.terms import SumOptions, SumTerms, parties_data_by_name

# Stretches of numbers with one measure: the measure, their start and their end.
Runs = Sequence[tuple[UnitMeasure, int, int]]
# Each measure, with the places of the numbers that it is for.
Places = Sequence[tuple[UnitMeasure, slice | Array[np.int64]]]
# What counts come to where no range was declared: of a unit whatever float64 has in
# full, of integers what one word or, if sums are wide, three can sum.
UNIT_REACH, WORD_REACH, WIDE_REACH = 2**51, 2**63 - 1, 2**191 - 1
# A simulation's values keep so many bits below the largest, and below sigma.
WIDE_BITS, FINEST_BITS = 160, 90
# Decimals that are looked for, and a power of two beyond float64.
MOST_DECIMALS, HIGHEST = 12, 1024
# Of finer units float64 cannot say how many there are in 1.
FINEST = Fraction(2) ** -1000

# What sums are called in a ledger, unless they have a name.
A_SUM, AN_AVERAGE = "a sum", "an average"

LARGEST = limit_phrase("largest")
RANGE_READ = limit_phrase("range_read")


@dataclass(frozen=True)
class OneSum(OneRoundRecipe):
    """One vector of each party, added up once; the total is the answer."""

    layout: NumberLayout
    what: str
    limit: SumReleaseLimit | None = None

    wording: ClassVar[tuple[str, str, str]] = BY_PARTY
    left_open: ClassVar[tuple[str, ...]] = (LARGEST,)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SumResult(SumJobResult):
    """A sum, or an average, over parties.

    Attributes:
        value: in the shape of what each party gave; integers stay integers.
        rounded: how many values of each party that is here were not whole numbers of
            the unit, and were rounded to it; for their owner's eyes.
        read_off: whether nobody had agreed on a unit.
        averaged: whether it is an average.
    """

    recipe: OneSum
    value: Array[Any]
    rounded: Mapping[str, int]
    read_off: bool = False
    averaged: bool = False

    def answered(self) -> Rendering:
        """Return the sum, to be seen."""
        recipe = self.inner[0]
        of = "" if recipe.what in (A_SUM, AN_AVERAGE) else f" ({recipe.what})"
        many = counted_words(len(self.released.members), "party")
        title = f"{'Average' if self.averaged else 'Sum'} over {many}{of}"
        if self.value.size <= MOST_IN_LINE and self.value.ndim < 2:
            title = f"{title}: {numbers_in_line(self.value.ravel().tolist())}"
            shown = Rendering(title)
        else:
            places = [*np.ndindex(self.value.shape)][:MOST_ROWS]
            rows = [
                (", ".join(map(str, at)), shown_figure_text(self.value[at].item()))
                for at in places
            ]
            shown = Rendering(title, [ShownTable(("place", "value"), rows, align="<>")])
            if (more := self.value.size - len(rows)) > 0:
                shown = shown.also(f"{more:,} more are in .value.")
        if any(self.rounded.values()):
            shown = shown.also(
                "Values that were no whole numbers of the unit were rounded to it: "
                "see .rounded."
            )
        return shown

    @property
    def further_limits(self) -> tuple[str, ...]:
        """Facts that a sum does not hide, and a note on a range that was not agreed."""
        return (*super().further_limits, *((RANGE_READ,) if self.read_off else ()))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**super().to_dict(), "value": self.value.tolist()}

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the values of the sum."""
        found = np.atleast_1d(np.asarray(self.value, dtype=np.float64))
        names = [", ".join(str(k) for k in place) for place in np.ndindex(found.shape)]
        values = dict(
            zip(names[: figures.MOST_SHOWN], found.ravel().tolist(), strict=False)
        )
        if found.size == 1:
            values = {"all parties": float(found.flat[0])}
        what = getattr(self.inner[0], "what", "a sum")
        return figures.values_figure(
            values,
            f"{what.removeprefix('a ').removeprefix('an ')} over all parties",
            figures.chosen_title(title, what[:1].upper() + what[1:]),
            figures.job_caption(self) + figures.not_drawn_words(found.size),
        )


def sum(
    data: Mapping[str, ArrayLike],
    *,
    unit: str | float | Fraction | None = None,
    wide: bool = False,
    what: str = A_SUM,
    **options: Unpack[SumOptions],
) -> SumResult:
    """Return the sum of the parties' vectors; nobody sees another party's.

    Every value is counted in a unit that all agree on, and counts are added exactly:
    a total of cents says nothing but how many cents there are.

    Args:
        data: one vector, or array of any shape, from each party.
        unit: what is counted: a number, "1/8" or "2 decimals". Integers have 1. Without
            one a simulation takes what all values are whole numbers of, and real
            parties a power of two that leaves 40 bits of `largest`.
        wide: whether sums may be beyond 64 bits.
        what: the name of what is summed, for the ledger.
        options: how to sum; see `SumOptions`. `largest` is the range of one value.

    >>> sum({"a": [1, 2], "b": [3, 4], "c": [5, 6], "d": [0, 0]}, seed=1).value.tolist()
    [9, 12]
    >>> sum({"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.1}, unit=0.1).value.item()
    0.7
    """
    found, whole = _run_sum_question(
        parties_data_by_name(data), unit=unit, wide=wide, what=what, options=options
    )
    totals = found.value
    if whole:
        with suppress(OverflowError):  # wide ones stay Python's
            totals = totals.astype(np.int64)
        return replace(found, value=totals)
    values = found.recipe.counts.values(totals.flat).reshape(totals.shape)
    return replace(found, value=values)


def mean(
    data: Mapping[str, ArrayLike],
    *,
    unit: str | float | Fraction | None = None,
    what: str = AN_AVERAGE,
    **options: Unpack[SumOptions],
) -> SumResult:
    """Return the average of the parties' vectors, each party counting once.

    Args:
        data: one vector, or array of any shape, from each party.
        unit: what is counted, as for `sum`.
        what: the name of what is averaged, for the ledger.
        options: how to sum; see `SumOptions`.

    >>> mean({"a": 1.0, "b": 3.0, "c": 5.0, "d": 7.0}, seed=1).value.tolist()
    4.0
    """
    found, _ = _run_sum_question(
        parties_data_by_name(data), unit=unit, wide=False, what=what, options=options
    )
    n, counts = len(found.released.members), found.recipe.counts
    shared = replace(counts, units=tuple(one / n for one in counts.units))
    value = shared.values(found.released.sums[0]).reshape(found.value.shape)
    return replace(found, value=value, averaged=True)


def _run_sum_question(
    data: Mapping[str, ArrayLike],
    *,
    unit: str | float | Fraction | None,
    wide: bool,
    what: str,
    options: SumOptions,
) -> tuple[SumResult, bool]:
    """Return the sum in counts of its units, and whether all values are integers."""
    arrays = {
        party: _array_of_summed_values(party, values) for party, values in data.items()
    }
    shape = _shape_of_summed_arrays(arrays)
    given = None if unit is None else numeric_unit_of(unit)
    whole = given in (None, 1) and all(map(_summed_array_is_whole, arrays.values()))
    kind = None if whole else np.float64
    flat = {party: np.asarray(a.ravel(), kind) for party, a in arrays.items()}
    graph = options.get("topology")
    n = graph.n_parties if isinstance(graph, Topology) else len(arrays)
    most = (WIDE_REACH if wide else WORD_REACH if whole else UNIT_REACH * n) // n
    measures = _measures_of_summed_values(
        flat, Fraction(1) if whole else given, most, options
    )
    runs = runs_of_equal_objects(measures)
    places = _places_of_sum_measures(runs)
    reach = n * max((measure.reach for measure, _, _ in runs), default=0)
    alike = (repeat(one.unit, stop - start) for one, start, stop in runs)
    units = tuple(chain.from_iterable(alike))
    layout = NumberLayout((layout_vector("sum", units, reach.bit_length() + 1),))
    others = SumOptions(**{k: v for k, v in options.items() if k != "largest"})  # type: ignore[typeddict-item]
    terms = SumTerms.of(list(arrays), counts=layout.counts, options=others)
    recipe = OneSum(layout, what)
    held = {
        party: _contribution_to_sum_question(
            own, _count_summed_values(party, own, places)
        )
        for party, own in flat.items()
    }
    agreed = {"what": what, "shape": list(shape), "whole": whole}
    released = run_sum_job(recipe, held, terms, agreed=agreed)
    found = SumResult(
        terms=terms,
        recipe=recipe,
        released=released,
        value=released.sums[0].reshape(shape),
        rounded={
            party: _n_rounded_summed_values(own, places) for party, own in flat.items()
        },
        read_off=given is None and not whole and is_simulated_sum(options),
    )
    return found, whole


def _array_of_summed_values(party: str, values: ArrayLike) -> Array[Any]:
    array = np.asarray(values)
    if array.dtype == bool:
        array = array.astype(np.int64)
    if _summed_array_is_whole(array):
        return array
    return as_floats(values, what=f"the vector of {party!r}")


def _summed_array_is_whole(array: Array[Any]) -> bool:
    if array.dtype == object:
        return all(isinstance(one, int) for one in array.ravel())
    return array.dtype.kind in "iu"


def _shape_of_summed_arrays(arrays: Mapping[str, Array[Any]]) -> tuple[int, ...]:
    shapes = {array.shape for array in arrays.values()}
    if not shapes:
        raise InvalidInputError("a sum needs parties, found no data", code="no-data")
    if len(shapes) > 1:
        found = ", ".join(f"{party!r} {a.shape}" for party, a in arrays.items())
        raise InvalidInputError(
            f"all parties' vectors must have one shape, found {found}",
            code="shapes-differ",
        )
    return shapes.pop()


def _contribution_to_sum_question(
    given: Array[Any], counted: Array[Any]
) -> SumContribution:
    if given.dtype == object:  # as bytes that a ledger can take the fingerprint of
        text = ",".join(map(str, given.tolist()))
        given = np.frombuffer(text.encode(), dtype=np.uint8)
    return SumContribution(lambda _: counted, (given,))


# Units and ranges


def _measures_of_summed_values(
    flat: Mapping[str, Array[Any]],
    unit: Fraction | None,
    most: int,
    options: SumOptions,
) -> list[UnitMeasure]:
    """Return how each number is counted: by agreement, or as a simulation finds it.

    `most` is how far counts go where no range was declared.
    """
    largest, size = options.get("largest"), flat[min(flat)].size
    limit = None if largest is None else Fraction(check_largest_masked_value(largest))
    if unit is None and not is_simulated_sum(options):
        if limit is None:
            raise InvalidInputError(
                "real numbers are counted in a unit that all parties agree on: give "
                'unit, such as 0.01 or "2 decimals", or largest, of which 40 bits are '
                "kept",
                code="unit-missing",
            )
        unit = power_of_two_unit(2 * limit)
    if unit is not None and limit is None:
        return [UnitMeasure(unit, -most, most)] * size
    if unit is not None and limit is not None:
        return [UnitMeasure.of(-limit, limit, unit)] * size
    columns = np.stack([*flat.values()], axis=1)
    units = _inferred_sum_units(columns, cast("float | None", options.get("sigma")))
    ends = [limit] * size if limit else np.abs(columns).max(axis=1).tolist()
    widest: dict[Fraction, Fraction | float] = {}
    for end, each in zip(ends, units, strict=True):
        widest[each] = max(widest.get(each, 0.0), end)
    # One object for each unit: `runs_of` goes by identity.
    made = {
        each: UnitMeasure.of(-Fraction(end), Fraction(end), each)
        for each, end in widest.items()
    }
    return [made[each] for each in units]


def _inferred_sum_units(columns: FloatArray, sigma: float | None) -> list[Fraction]:
    """Return what all parties' values are whole numbers of, as only one computer can.

    Decimals if they have a few; else float64 itself has whole numbers of powers of two.
    """
    common = decimal_unit_of_numbers(columns)
    if common is not None:
        return [common] * len(columns)
    # The lattice has no finer steps for such masks.
    least = (
        Fraction(0)
        if sigma is None
        else power_of_two_unit(Fraction(sigma), FINEST_BITS)
    )
    kinds = zip(
        _decimals_of_summed_values(columns).tolist(),
        _lowest_bits_of_summed_values(columns).tolist(),
        _highest_bits_of_summed_values(columns).tolist(),
        strict=True,
    )
    known: dict[tuple[int, int, int], Fraction] = {}
    found = []
    for kind in kinds:
        if kind not in known:
            decimals, lowest, highest = kind
            room = Fraction(2) ** (highest - WIDE_BITS)
            exact = Fraction(2) ** lowest
            if decimals >= 0:
                exact = Fraction(1, 10**decimals)
            known[kind] = max(exact, least, room, FINEST)
        found.append(known[kind])
    return found


def _decimals_of_summed_values(rows: FloatArray) -> Array[np.int64]:
    """Return how many decimals all values of a row have; -1 if many."""
    found = np.full(len(rows), -1)
    left = np.arange(len(rows))
    for decimals in range(MOST_DECIMALS + 1):
        scale = 10.0**decimals
        with np.errstate(over="ignore"):
            counts = np.rint(rows[left] * scale)
        fits = (np.abs(counts) < 2.0**FLOAT_BITS).all(axis=1)
        done = fits & (counts / scale == rows[left]).all(axis=1)
        found[left[done]] = decimals
        left = left[fits & ~done]
    return found


def _lowest_bits_of_summed_values(rows: FloatArray) -> Array[np.int64]:
    """Return the largest e for each row of which all values are multiples of 2^e."""
    fractions, exponents = np.frexp(rows)
    digits = np.ldexp(fractions, 53).astype(np.int64)
    _, lowest = np.frexp((digits & -digits).astype(np.float64))
    ends = np.where(rows == 0.0, HIGHEST, exponents.astype(np.int64) - 54 + lowest)
    return np.asarray(ends.min(axis=1, initial=HIGHEST))


def _highest_bits_of_summed_values(rows: FloatArray) -> Array[np.int64]:
    """Return the least e for each row with no value beyond 2^e; 0 if all are 0."""
    fractions, exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    powers = exponents.astype(np.int64) - (fractions == 0.5)
    return np.where(fractions == 0.0, 0, powers)


def _places_of_sum_measures(runs: Runs) -> Places:
    parts: dict[int, list[tuple[UnitMeasure, int, int]]] = {}
    for run in runs:
        parts.setdefault(id(run[0]), []).append(run)
    return [
        (
            one[0][0],
            slice(*one[0][1:])
            if len(one) == 1
            else np.concatenate([np.arange(start, stop) for _, start, stop in one]),
        )
        for one in parts.values()
    ]


def _count_summed_values(party: str, values: Array[Any], places: Places) -> Array[Any]:
    """Return one party's values as whole numbers, each of its measure."""
    if values.dtype != np.float64:
        most = min((measure.most for measure, _ in places), default=0)
        ends = (values.min(), values.max()) if values.size else ()
        if any(abs(int(end)) > most for end in ends):
            beyond = f"an integer is beyond the range of {float(most):.6g}"
            raise RangeError(
                f"{party}: {beyond}: nothing is clipped; correct it, or sum with wide "
                "= True or a larger largest",
                plain=f"{beyond}; agree on a wider one",
                code="value-out-of-range",
            )
        return values
    found = np.empty(values.size, dtype=object)
    for measure, where in places:
        with naming_party_in_error(party):
            counts = measure.counts(values[where])
        found[where] = as_python_integers(counts)
    return found


def _n_rounded_summed_values(values: Array[Any], places: Places) -> int:
    if values.dtype != np.float64:
        return 0
    return builtins.sum(measure.n_broken(values[where]) for measure, where in places)
