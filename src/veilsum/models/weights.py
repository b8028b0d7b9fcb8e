"""Weights of the rows behind one released sum, and their check before it is masked.

The sums of a round are over rows with weights, and the weights follow from the point of
the request: at some points one row carries nearly all of them, or all rows of a party
carry nothing. A model notes its weights with `note_row_weights` while it computes a
sum; the party that called it collects them with `collect_row_weights` and checks each
of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np

from veilsum.numbers.arrays import Array, FloatArray

# No row may have a larger part of the sum of its party's weights.
LARGEST_SHARE = 0.2
# Rounding of sums of float64, for weights that are all alike.
ROUNDING = 1e-9


@dataclass
class RowWeights:
    """Row weights of one party in one sum, added up block by block.

    Attributes:
        label: the sum that the rows are in.
        full: the weight that counts as one whole row; None where the sum of weights
            cannot vanish, as that of expected events, which is the number of events.
        squares: the sum of their squared weights.
        people: where one person has several rows, the person of each row, in order:
            what counts then is the weight of a person.
    """

    label: str
    full: float | None = None
    rows: int = 0
    total: float = 0.0
    squares: float = 0.0
    largest: float = 0.0
    people: Array[np.int64] | None = None
    _before: FloatArray | None = field(default=None, repr=False)

    def add(self, weights: FloatArray) -> None:
        if self.people is not None:
            whose = self.people[self.rows : self.rows + weights.size]
            before = np.zeros(int(self.people.max(initial=-1)) + 1)
            before += 0.0 if self._before is None else self._before
            self._before = before + np.bincount(whose, weights, minlength=before.size)
            self.rows += weights.size
            self.total = self.squares = self.largest = 0.0
            weights = self._before
        else:
            self.rows += weights.size
        self.total += float(weights.sum())
        # Not BLAS: its threads cost more than the products.
        self.squares += float(np.einsum("i,i->", weights, weights))
        self.largest = max(self.largest, float(weights.max(initial=0.0)))

    @property
    def effective(self) -> float:
        """The effective number of rows, (sum w)^2 / sum w^2."""
        return self.total * self.total / self.squares if self.squares > 0.0 else 0.0

    @property
    def share(self) -> float:
        return self.largest / self.total if self.total > 0.0 else 1.0

    @property
    def whole(self) -> float | None:
        """The sum of weights, in whole rows; None where it cannot vanish."""
        if self.full is None:
            return None
        return self.total / self.full if self.full > 0.0 else float("inf")

    def problem(self, least: int) -> str | None:
        """Return why a sum with these weights rests on too few rows; None if not.

        Args:
            least: effective rows, and whole rows, that a party must have in the sum.
        """
        # Nothing is added then, whatever the point is: by nobody, or without events.
        if not self.rows or (self.full is None and self.total == 0.0):
            return None
        enough = least * (1.0 - ROUNDING)
        if not self.effective >= enough:
            return (
                f"{self.label} would rest on {self.effective:.3g} effective rows of "
                f"{self.rows} here, and {least} are the least"
            )
        if self.share > LARGEST_SHARE * (1.0 + ROUNDING):
            return (
                f"one row would have {self.share:.0%} of the weight in {self.label} "
                f"here, and {LARGEST_SHARE:.0%} is the most"
            )
        if self.whole is not None and not self.whole >= enough:
            return (
                f"the {self.rows} rows here would weigh as much as {self.whole:.3g} "
                f"whole rows in {self.label}, and {least} are the least"
            )
        return None


_COLLECTING: ContextVar[list[RowWeights] | None] = ContextVar(
    "collecting", default=None
)
_PEOPLE: ContextVar[Array[np.int64] | None] = ContextVar("people", default=None)


@contextmanager
def collect_row_weights() -> Iterator[list[RowWeights]]:
    collection: list[RowWeights] = []
    token = _COLLECTING.set(collection)
    try:
        yield collection
    finally:
        _COLLECTING.reset(token)


@contextmanager
def note_weights_of_people(people: Array[np.int64]) -> Iterator[None]:
    """Say whose the rows are of which models note weights inside."""
    token = _PEOPLE.set(people)
    try:
        yield
    finally:
        _PEOPLE.reset(token)


def note_row_weights(label: str, full: float | None = None) -> RowWeights | None:
    """Return weights to be added to, for whoever collects them; None if nobody does."""
    collection = _COLLECTING.get()
    if collection is None:
        return None
    weights = RowWeights(label, full, people=_PEOPLE.get())
    collection.append(weights)
    return weights
