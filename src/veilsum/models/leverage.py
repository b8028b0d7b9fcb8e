"""Leverage: concentration of combinations of a design's columns on a few rows.

X'X and X'y determine the same sums for every combination Xc of columns. The part of its
square that lies on row i is at most the leverage h_i = x_i'(X'X)^-1 x_i, and some c
reaches it. A leverage of 1 means that a combination is 0 everywhere but in row i. More
rows only lower it, so the leverage among a party's own rows bounds the pooled one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from veilsum.models.rows import Design, Rows
from veilsum.numbers.arrays import Array, FloatArray

# A design is wide that has fewer rows than so many for each column.
ROWS_FOR_A_COLUMN = 3
# Of a wide one, combinations of a column for so many rows are looked at.
ROWS_FOR_A_CHOICE = 5
# Rows at a time: few enough to stay in a core's own cache.
BLOCK_ROWS = 4096
# Columns of length one with smaller pivots are made orthogonal without squares.
SAFE_PIVOT = 1e-3
# Rows that are looked at together with others, the largest leverages first.
MOST_NEAR = 1000
# A leverage that is above it in seven digits is found again in sixteen.
ROUGHLY = 0.05
# Columns of a wide design that are taken together because they are alike.
MOST_ALIKE = 12
# Two columns that may point at few rows have so much on so many of them.
NEAR_ROWS = 4
NEAR_SHARE = 0.9
# Of what one row may not reach, the part that several together may not.
FEW_ROWS_SHARE = 0.2
# What is left of columns of length one that depend on each other.
NO_COLUMN = 1e-10


@dataclass(frozen=True)
class LeverageConcentration:
    """The most that lies on one row, or on a few."""

    largest: float = 0.0
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class LeverageColumns:
    """The columns of a party's rows, for combinations of them.

    Attributes:
        response: whether the response is the last column.
        chosen: some of the columns; None for all.
        centre: what is taken off each column, if anything is.
    """

    rows: Rows
    intercept: int | None
    response: bool = False
    chosen: tuple[int, ...] | None = None
    centre: FloatArray | None = None

    def among(self, chosen: Sequence[int]) -> LeverageColumns:
        return replace(self, chosen=tuple(chosen))

    def is_wide(self, rank: int) -> bool:
        """Say whether there are too few rows for leverages to say anything."""
        return self.rows.n_rows < ROWS_FOR_A_COLUMN * rank

    def concentration(
        self, most: int = 1
    ) -> tuple[LeverageConcentration, LeverageConcentration]:
        """Return how much of a combination can lie on one row, and on up to `most`.

        Several rows are those that share most with one of them: if their indicator is
        a combination of columns, these are the ones.

        A wide design has a combination for every row of the party, if not of the pool.
        There combinations take few columns, and are found greedily, for one row.
        """
        columns, basis = self.orthogonal()
        if self.is_wide(basis.shape[1]):
            found = _greedy_leverage_columns(
                self._centred(), self.rows.n_rows // ROWS_FOR_A_CHOICE
            )
            return found, found
        leverage = columns.leverages(basis)
        top = int(leverage.argmax())
        one = LeverageConcentration(float(leverage[top]), (top,))
        return one, one if most == 1 else columns.on_several(basis, leverage, most)

    def by_row(self) -> FloatArray:
        """Return the leverage of each row."""
        columns, basis = self.orthogonal()
        return columns.leverages(basis)

    def leverage(self) -> LeverageConcentration:
        found = self.by_row()
        return LeverageConcentration(float(found.max()), (int(found.argmax()),))

    def blocks(self) -> Iterator[tuple[slice, Design]]:
        for start in range(0, self.rows.n_rows, BLOCK_ROWS):
            place = slice(start, start + BLOCK_ROWS)
            yield place, self.at(place)

    def at(self, place: Any, *, weighted: bool = True) -> Design:
        made: Array[Any] = self.rows.design[place]
        if self.response:
            made = np.column_stack([made, self.rows.response[place]])
        if self.chosen is not None:
            made = made[:, self.chosen]
        if made.dtype != np.float64:
            made = made.astype(np.float64)
        if self.centre is not None:
            made = made - self.centre
        if weighted and self.rows.weights is not None:
            made = made * np.sqrt(self.rows.weights[place])[:, None]
        return made

    def _centred(self) -> LeverageColumns:
        """Return columns near 0 where there are ones: they can be taken off any."""
        if self.intercept is None:
            return replace(self, centre=np.zeros(self.at(slice(0)).shape[1]))
        centre = self.at(slice(0, BLOCK_ROWS), weighted=False).mean(axis=0)
        place = (
            self.intercept if self.chosen is None else self.chosen.index(self.intercept)
        )
        centre[place] = 0.0
        return replace(self, centre=centre)

    def orthogonal(self) -> tuple[LeverageColumns, FloatArray]:
        """Return columns, and what makes them orthogonal and of length one.

        It makes fewer of them where some depend on others.
        """
        n_columns = self.at(slice(0)).shape[1]
        square = np.zeros((n_columns, n_columns))
        for _, block in self.blocks():
            square += block.T @ block
        length = np.sqrt(np.diag(square))
        kept = np.flatnonzero(length > 0.0)
        scale = 1.0 / length[kept]
        try:
            unit = square[np.ix_(kept, kept)] * np.outer(scale, scale)
            factor: Any = np.linalg.cholesky(unit).T
            if np.diag(factor).min(initial=1.0) > SAFE_PIVOT:
                return self, _leverage_basis(len(length), kept, scale, factor)
        except np.linalg.LinAlgError:
            pass
        return self._by_rotations()

    def _by_rotations(self) -> tuple[LeverageColumns, FloatArray]:
        """Return the same; it takes longer, and loses no digit to squares."""
        raw = np.sqrt(sum((block**2).sum(axis=0) for _, block in self.blocks()))
        columns = self._centred()
        length = np.sqrt(sum((block**2).sum(axis=0) for _, block in columns.blocks()))
        # What a column of numbers rounded to float64 can differ from a constant by.
        noise = 4.0 * np.finfo(float).eps
        kept = np.flatnonzero(length > noise * raw)
        scale = 1.0 / length[kept]
        factor: Any = np.zeros((0, len(kept)))
        for _, block in columns.blocks():
            stacked = np.vstack([factor, block[:, kept] * scale])
            factor = np.linalg.qr(stacked, mode="r")
        factor, order = scipy.linalg.qr(factor, mode="r", pivoting=True)
        least = 4.0 * noise * (1.0 + (raw[kept] * scale).max(initial=0.0))
        rank = int(np.count_nonzero(np.abs(np.diag(factor)) > least))
        kept, scale = kept[order[:rank]], scale[order[:rank]]
        return columns, _leverage_basis(len(length), kept, scale, factor[:rank, :rank])

    def leverages(self, basis: FloatArray) -> FloatArray:
        found = np.empty(self.rows.n_rows)
        # Few digits tell most rows from those that matter, where columns are not alike.
        rough = self.centre is None and self.rows.n_rows > BLOCK_ROWS
        known: Array[Any] = basis.astype(np.float32) if rough else basis
        with np.errstate(all="ignore"):
            for place, block in self.blocks():
                part: Any = block.astype(known.dtype, copy=False) @ known
                np.einsum("ij,ij->i", part, part, out=found[place])
        if rough:
            near = np.flatnonzero(~(found < ROUGHLY))
            for some in np.array_split(near, len(near) // BLOCK_ROWS + 1):
                part = self.at(some) @ basis
                found[some] = np.einsum("ij,ij->i", part, part)
        return found

    def on_several(
        self, basis: FloatArray, leverage: FloatArray, most: int
    ) -> LeverageConcentration:
        near = np.flatnonzero(leverage >= 0.5 / most)
        near = near[np.argsort(-leverage[near])][:MOST_NEAR]
        if not len(near):
            return LeverageConcentration()
        own = self.at(near) @ basis
        parts = np.zeros((len(near), 0))
        places = np.zeros((len(near), 0), dtype=np.intp)
        for place, block in self.blocks():
            shared = (own @ (block @ basis).T) ** 2 / leverage[near, None]
            here = np.arange(place.start, place.start + len(block))
            parts = np.hstack([parts, shared])
            places = np.hstack([places, np.broadcast_to(here, shared.shape)])
            order = np.argsort(-parts, axis=1)[:, :most]
            parts = np.take_along_axis(parts, order, axis=1)
            places = np.take_along_axis(places, order, axis=1)
        # With these rows chosen, the best combination for all of them together.
        chosen = self.at(places.ravel()) @ basis
        chosen = chosen.reshape(*places.shape, basis.shape[1])
        totals = np.linalg.eigvalsh(chosen @ chosen.transpose(0, 2, 1))[:, -1]
        top = int(totals.argmax())
        return LeverageConcentration(float(totals[top]), tuple(places[top].tolist()))


def concentration_of_parts_together(
    columns: Design, parts: Sequence[Sequence[int]], largest: float, most: int
) -> LeverageConcentration | None:
    """Return rows on which a combination of all columns lies, but of no part.

    Args:
        columns: one row per row of a party.
        parts: places of columns whose combinations are no news.
        largest: share of a combination that one row may have. Several rows may have
            0.8 of the way from there to 1.
        most: number of rows that are looked at together.
    """
    if not columns.size:
        return None
    rows = Rows(columns, np.zeros(len(columns)))
    place = np.flatnonzero((columns == 1.0).all(axis=0))
    ones = int(place[0]) if place.size else None
    whole, basis = LeverageColumns(rows, ones).orthogonal()
    leverage = whole.leverages(basis)
    near = np.flatnonzero(leverage >= min(largest, 0.5 / most))
    near = near[np.argsort(-leverage[near], kind="stable")][:MOST_NEAR]
    if not near.size:
        return None
    known = [
        LeverageColumns(rows, ones if ones in part else None, chosen=tuple(part))
        for part in parts
        if part
    ]
    before = [(one, made) for some in known for one, made in [some.orthogonal()]]
    vectors = whole.at(slice(None)) @ basis
    for row in near.tolist():
        shared = (vectors @ vectors[row]) ** 2
        shared[row] = np.inf
        order = np.argsort(-shared, kind="stable")[:most]
        for size in range(1, len(order) + 1):
            limit = largest if size == 1 else 1.0 - FEW_ROWS_SHARE * (1.0 - largest)
            some = order[:size]
            found = _largest_share(vectors[some])
            if found > limit and all(
                _largest_share(one.at(some) @ made) <= limit for one, made in before
            ):
                return LeverageConcentration(found, tuple(some.tolist()))
    return None


def columns_near_another(columns: Design, base: Sequence[int], place: int) -> list[int]:
    """Return columns that may point at few rows together with one of them.

    Args:
        columns: one row per row of a party.
        base: places of columns, such as ones, that are combined with both.
        place: of the one column.
    """
    basis, _ = np.linalg.qr(columns[:, base])
    start = (basis**2).sum(axis=1)
    own = columns[:, place] - basis @ (basis.T @ columns[:, place])
    length = np.linalg.norm(own)
    if not length > 1e-9 * np.linalg.norm(columns[:, place]):
        return []
    own = own / length
    found = list[int]()
    for k in range(columns.shape[1]):
        if k == place or k in base:
            continue
        rest = columns[:, k] - basis @ (basis.T @ columns[:, k])
        size = np.linalg.norm(rest)
        rest -= own * (own @ rest)
        left = float(np.linalg.norm(rest))
        if size > 0.0 and left > 1e-7 * size:
            shares = start + own**2 + (rest / left) ** 2
            largest = np.sort(shares[shares > NEAR_SHARE / NEAR_ROWS**2])[-NEAR_ROWS:]
            if largest.sum() > NEAR_SHARE:
                found.append(k)
    return found


def _largest_share(vectors: FloatArray) -> float:
    """Return the most of a combination that lies on rows, by an orthogonal basis."""
    if not vectors.size:
        return 0.0
    return float(np.linalg.eigvalsh(vectors @ vectors.T)[-1])


def _leverage_basis(
    n_columns: int, kept: Array[np.intp], scale: FloatArray, factor: FloatArray
) -> FloatArray:
    made = np.zeros((n_columns, len(kept)))
    made[kept] = np.linalg.solve(factor, np.eye(len(kept))) * scale[:, None]
    return made


def _leverage_of_alike_columns(
    whole: Design, start: FloatArray, most: int
) -> LeverageConcentration:
    """Return the most that lies on one row, of a column and those most like it."""
    if not whole.size or not most:
        top = int(start.argmax())
        return LeverageConcentration(float(start[top]), (top,))
    best = LeverageConcentration()
    for place in range(whole.shape[1]):
        like = np.argsort(-np.abs(whole[:, place] @ whole))[:most]
        left, sizes, _ = np.linalg.svd(whole[:, like], full_matrices=False)
        found = start + (left[:, sizes > NO_COLUMN] ** 2).sum(axis=1)
        if found.max() > best.largest:
            best = LeverageConcentration(float(found.max()), (int(found.argmax()),))
    return best


def _greedy_leverage_columns(
    columns: LeverageColumns, most: int
) -> LeverageConcentration:
    """Return the most that lies on one row, of combinations of so many columns.

    For each row, column after column is added that does most for it; ones are free.
    Columns that are nearly alike do little one by one, and so they are taken together.
    """
    whole = columns.at(slice(None))
    start = np.zeros(len(whole))
    if columns.intercept is not None:
        ones = np.sqrt(columns.rows.weigh(np.ones(len(whole))))
        ones /= np.linalg.norm(ones)
        whole = whole - np.outer(ones, ones @ whole)
        start = ones**2
    length = np.linalg.norm(whole, axis=0)
    kept = length > 1e-9 * length.max(initial=0.0)
    whole = whole[:, kept] / length[kept]
    best = _leverage_of_alike_columns(whole, start, min(most, MOST_ALIKE))
    for first in range(0, len(whole), 256):
        targets = np.arange(first, min(first + 256, len(whole)))
        each = np.arange(len(targets))
        # Of what is left of each column: what row has of it, and its square.
        shares, left = whole[targets], np.ones((len(targets), whole.shape[1]))
        taken: list[FloatArray] = []
        total = start[targets]
        for _ in range(min(most, whole.shape[1])):
            gain = shares**2 / np.where(left > 1e-9, left, np.inf)
            vector = whole[:, gain.argmax(axis=1)].T
            for other in taken:
                vector = vector - np.einsum("ij,ij->i", vector, other)[:, None] * other
            norm = np.linalg.norm(vector, axis=1, keepdims=True)
            vector = vector / np.where(norm > 1e-6, norm, np.inf)
            taken.append(vector)
            own = vector[each, targets]
            total = total + own**2
            along = vector @ whole
            shares, left = shares - own[:, None] * along, left - along**2
        top = int(total.argmax())
        if total[top] > best.largest:
            best = LeverageConcentration(float(total[top]), (int(targets[top]),))
    return best
