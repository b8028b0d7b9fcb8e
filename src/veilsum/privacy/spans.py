"""Consequences of sums over several sets of parties, by complete subtraction.

Each known sum is a row of zeros and ones, with one entry for each party. Known sums can
be added and subtracted with any factors, so they imply the span of the rows over the
rationals: a vector of the span that is supported on few parties is a number about
those few.

**Forbidden vectors.** A coalition C of at most t parties knows its own values and
removes its entries. No non-zero vector on fewer than h parties may remain. There is
such a C exactly if the span has a non-zero vector on at most t + h - 1 parties (for
h >= 2; h = 1 is treated alike, which is stricter):

- if r is in the span and, outside C, is not zero and on at most h - 1 parties, then it
  is on at most t + h - 1 parties in all;
- if r is on 1 <= s <= t + h - 1 parties, let C be min(t, s - 1) of these. Outside C it
  is on s - min(t, s - 1) parties: that is 1, or s - t <= h - 1, and at least 1.

So no coalition has to be tried. **Search.** Let the rows of N span the orthogonal
complement of the sums. A vector is in the span exactly if N maps it to zero, so that
a set of parties has one if and only if its columns of N are dependent. Parties that are
in the same sums have one value in every vector of the span: they are one column that
weighs as many as they are. N is computed exactly. Dependent integer columns are
dependent modulo every prime and under every map of their rows, so N is searched modulo
a prime, in a few random combinations of its rows, where nothing can be missed; each
hit is then checked over the rationals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import comb
from typing import TypeAlias

import numpy as np
from flint import fmpz_mat

from veilsum.errors import BudgetError
from veilsum.numbers.arrays import Array

Integers: TypeAlias = Array[np.int64]

# Products of two residues fit into 64 bits.
PRIME = 2**31 - 1
# Beyond these the search is not made, and the answer is no.
MOST_GROUPS = 256
MOST_STEPS = 25_000


def parties_given_away_by_sums(
    sets: Collection[Collection[str]],
    few: int,
    known: Collection[Collection[str]] = (),
) -> tuple[str, ...] | None:
    """Return some parties, `few` at most, that sums over these sets say something of.

    Args:
        sets: sums over which become known.
        few: how many parties at most.
        known: sums over these are known already: what follows from them alone is not
            looked for, only what the others add to it.

    Raises:
        BudgetError: there are too many different sets to find out.

    >>> parties_given_away_by_sums([{"a", "b", "c"}, {"a", "b"}], 1)
    ('c',)
    >>> parties_given_away_by_sums([{"a", "b", "c", "d"}, {"a", "b"}], 1) is None
    True
    >>> parties_given_away_by_sums([{"a", "b", "c"}], 2, known=[{"a"}])
    ('b', 'c')
    """
    before = dict.fromkeys(map(frozenset, known))
    distinct = list(before | dict.fromkeys(map(frozenset, sets)))
    names = sorted({name for one in distinct for name in one})
    if not distinct or few < 1:
        return None
    places = {name: place for place, name in enumerate(names)}
    rows = np.zeros((len(distinct), len(names)), dtype=np.int64)
    for row, one in zip(rows, distinct, strict=True):
        row[[places[name] for name in one]] = 1
    columns, which = np.unique(rows, axis=1, return_inverse=True)
    weights = np.bincount(which.ravel())
    found = _light_columns_in_span(columns, weights, few, len(before))
    if found is None:
        return None
    return tuple(names[place] for place in np.flatnonzero(np.isin(which, found)))


def _light_columns_in_span(
    rows: Integers, weights: Integers, few: int, n_known: int
) -> list[int] | None:
    """Return columns of little weight in all on which the span has a vector.

    It is one that the span of the first `n_known` rows does not have. Every vector is a
    sum of such that vanish nowhere less within its own places, one of which is new if
    it is: so it is enough to look at smallest sets of dependent columns, but at all.
    """
    near = np.flatnonzero(weights <= few)
    if not len(near):
        return None
    steps = sum(comb(len(near), chosen) for chosen in range(max(1, few - 1)))
    if rows.shape[1] > MOST_GROUPS or steps > MOST_STEPS:
        raise BudgetError(
            f"sums of this data set are known over {len(rows)} different sets of "
            f"parties, which tell {rows.shape[1]} groups of parties apart: too many to "
            "make sure that nobody is given away by adding and subtracting them; keep "
            "to one set of parties",
            code="history-too-large",
        )
    checks, before = (
        _orthogonal_span_checks(rows),
        _orthogonal_span_checks(rows[:n_known]),
    )
    mixed = _mix_span_checks(checks, rows.shape[1], min(few, rows.shape[1]))[:, near]
    for places in _dependent_span_columns(mixed, weights[near].tolist(), few):
        chosen = near[places].tolist()
        if _rank_of_span_checks(checks, chosen) < _rank_of_span_checks(before, chosen):
            return chosen
    return None


def _rank_of_span_checks(checks: Sequence[Sequence[int]], places: Sequence[int]) -> int:
    part = [[row[place] for place in places] for row in checks]
    return int(fmpz_mat(part).rank()) if part else 0


def _orthogonal_span_checks(rows: Integers) -> list[list[int]]:
    # A matrix and its Gram matrix have one row space, over the rationals.
    gram = rows.T.astype(np.float64) @ rows  # counts of sums: exact
    basis, count = fmpz_mat(gram.astype(np.int64).tolist()).nullspace()
    columns = [[int(one) for one in row] for row in basis.transpose().tolist()]
    return columns[:count]


def _mix_span_checks(
    checks: Sequence[Sequence[int]], width: int, count: int
) -> Integers:
    """Return random combinations of rows modulo the prime; dependence stays."""
    # The seed is no secret: a bad choice costs time, and nothing is missed.
    random = np.random.default_rng(0).integers(1, PRIME, (len(checks), count, 1))
    made = np.zeros((count, width), dtype=np.int64)
    for factors, row in zip(random, checks, strict=True):
        residues = np.array([one % PRIME for one in row], dtype=np.int64)
        made = (made + factors * residues) % PRIME
    return made


def _dependent_span_columns(
    columns: Integers, weights: Sequence[int], few: int
) -> Iterator[list[int]]:
    """Yield sets of columns that are dependent, their weights at most `few` in all.

    Of every smallest such set, all but the last two are chosen in turn and taken out of
    the rest. What is left of one more is then zero, or two are multiples of each other.
    """
    count = columns.shape[1]
    sizes = np.asarray(weights)

    def look(
        left: Integers, chosen: list[int], spare: int, first: int
    ) -> Iterator[list[int]]:
        open_ = np.arange(first, count)[sizes[first:] <= spare]
        if not len(open_):
            return
        part = left[:, open_]
        for place in open_[~part.any(axis=0)].tolist():
            yield [*chosen, place]
        if spare < 2:
            return
        for one, other in _multiples_of_span_columns(part):
            if sizes[open_[one]] + sizes[open_[other]] <= spare:
                yield [*chosen, int(open_[one]), int(open_[other])]
        for place in open_.tolist():
            if left[:, place].any() and spare - weights[place] >= 2:
                yield from look(
                    _span_columns_without(left, place),
                    [*chosen, place],
                    spare - weights[place],
                    place + 1,
                )

    yield from look(columns, [], few, 0)


_FACTORS = np.random.default_rng(1).integers(1, PRIME, (2, MOST_GROUPS, 1))


def _multiples_of_span_columns(columns: Integers) -> Iterator[tuple[int, int]]:
    factors = _FACTORS[:, : columns.shape[0]]
    one, other = ((factors * columns) % PRIME).sum(axis=1) % PRIME
    crossed = (one[:, None] * other) % PRIME
    equal = np.triu(crossed == crossed.T, 1)
    return zip(*(found.tolist() for found in np.nonzero(equal)), strict=True)


def _span_columns_without(columns: Integers, place: int) -> Integers:
    """Return the columns with one of them taken out, and a row less."""
    pivot = int(np.flatnonzero(columns[:, place])[0])
    inverse = pow(int(columns[pivot, place]), -1, PRIME)
    factors = (columns[:, place] * inverse) % PRIME
    left = (columns - factors[:, None] * columns[pivot]) % PRIME
    return np.delete(left, pivot, axis=0)
