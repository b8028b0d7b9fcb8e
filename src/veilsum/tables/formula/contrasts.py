"""Terms multiplied out into columns of the design, with categories coded by contrasts.

formulaic knows the numbers that contrasts code categories by, under names of our own:
no text of a file reaches it.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from itertools import chain, product
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from veilsum.errors import load_extra_package
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.numbers.units import BLOCK_ROWS
from veilsum.tables.formula.checks import (
    formula_contrast_options,
    formula_factor_levels,
)
from veilsum.tables.formula.extents import INDICATOR, FormulaExtent
from veilsum.tables.formula.syntax import (
    CONTRASTS,
    Coded,
    Node,
    Term,
    columns_named_in,
    formula_text,
)
from veilsum.tables.frames import Frame
from veilsum.tables.schema import Schema

T = TypeVar("T")
# What codes of categories are rounded to where they are not whole.
_CODE_UNIT = Fraction(1, 2**40)


@dataclass(frozen=True, eq=False)
class ContrastPiece:
    """One factor of one of the design's columns.

    Attributes:
        level: of a category: it is 1 in this level, and 0 in all others.
        codes: or it has one of these numbers in each level.
        unit: what they are whole numbers of.
    """

    factor: int
    level: int | None = None
    codes: FloatArray | None = None
    unit: Fraction = Fraction(1)

    def extent(self, factors: Sequence[FormulaExtent | None]) -> FormulaExtent:
        if self.codes is not None:
            low, high = Fraction(self.codes.min()), Fraction(self.codes.max())
            return FormulaExtent(low, high, self.unit)
        found = factors[self.factor]
        return INDICATOR if found is None else found

    def values(self, numbers: Sequence[Array[Any] | None], places: Any) -> Array[Any]:
        """Return what it is in every row; `places` finds a factor's levels there."""
        if self.level is None and self.codes is None:
            found = numbers[self.factor]
            assert found is not None
            return found
        levels = places(self.factor)
        exactly = any(one is not None and one.dtype == object for one in numbers)
        if self.codes is None:
            return np.asarray(levels == self.level, np.int64 if exactly else np.float64)
        if not exactly:
            return np.asarray(self.codes[levels])
        return np.array([Fraction(one) for one in self.codes.tolist()])[levels]


# As many float64 as a line of a processor's cache has.
_COLUMNS_AT_A_TIME = 8


@dataclass(frozen=True)
class FormulaExpansion:
    """The right side multiplied out.

    Attributes:
        factors: what is evaluated, in order.
        levels: the categories of each factor, none for a number.
        pieces: what is multiplied for each of the design's columns; nothing for ones.
        columns: the names that people know them by.
        intercept: where the intercept is among them.
        codings: of categories that are coded by other numbers than 0 and 1.
    """

    factors: tuple[Node, ...]
    levels: tuple[tuple[str, ...], ...]
    pieces: tuple[tuple[ContrastPiece, ...], ...]
    columns: tuple[str, ...]
    intercept: int | None
    codings: dict[str, list[str]]

    @classmethod
    def of(cls, terms: Sequence[Term], schema: Schema) -> FormulaExpansion:
        """Return the columns of terms, in the order formulaic has."""
        factors = tuple(dict.fromkeys(node for term in terms for node in term))
        places = {node: place for place, node in enumerate(factors)}
        levels = tuple(formula_factor_levels(node, schema) for node in factors)
        coded = _ContrastCoding(factors, levels)
        pieces: list[tuple[ContrastPiece, ...]] = []
        columns: list[str] = []
        intercept = None
        spanned: set[frozenset[_ScopedFactor]] = set()
        for term in terms:
            if not term:
                intercept = len(pieces)
            # All levels of a category span its contrast and ones: with it and without.
            ways = [
                [(_ScopedFactor(k, reduced=True),), ()]
                if levels[k]
                else [(_ScopedFactor(k, reduced=False),)]
                for k in (places[node] for node in term)
            ]
            span = [tuple(chain(*each)) for each in product(*ways)]
            new = [one for one in span if frozenset(one) not in spanned]
            spanned.update(map(frozenset, new))
            for scoped in _simplify_formula_span(new):
                choices = [coded.pieces(one) for one in scoped]
                # As formulaic does it: the first factor changes fastest.
                for each in product(*reversed(choices)):
                    pieces.append(tuple(piece for piece, _ in each[::-1]))
                    columns.append(":".join(name for _, name in each[::-1]))
        names = tuple(name or "Intercept" for name in columns)
        return cls(factors, levels, tuple(pieces), names, intercept, coded.codings)

    @property
    def named(self) -> set[str]:
        return {name for node in self.factors for name in columns_named_in(node)}

    def numbers(self, value: Callable[[Node], T]) -> list[T | None]:
        """Return a value of each factor that is a number; None for a category."""
        pairs = zip(self.factors, self.levels, strict=True)
        return [None if levels else value(node) for node, levels in pairs]

    def matrix(self, frame: Frame, numbers: Sequence[Array[Any] | None]) -> Array[Any]:
        """Return the design of a table, one row per row; numbers are by factor."""
        design = np.empty((len(frame), len(self.pieces)))
        # A few columns and some rows at a time: numbers of one column lie far apart in
        # the design, and what is written must stay near.
        for first in range(0, len(self.pieces), _COLUMNS_AT_A_TIME):
            places = range(len(self.pieces))[first : first + _COLUMNS_AT_A_TIME]
            few = [*self.parts(places, frame, numbers)]
            for start in range(0, len(design), BLOCK_ROWS):
                piece = slice(start, start + BLOCK_ROWS)
                for place, column in few:
                    design[piece, place] = column[piece] if np.ndim(column) else column
        return design

    def parts(
        self,
        places: Iterable[int],
        frame: Frame,
        numbers: Sequence[Array[Any] | None],
    ) -> Iterator[tuple[int, Any]]:
        """Yield some of the design's columns, each multiplied from left to right."""

        @cache
        def levels(factor: int) -> Array[Any]:
            return frame[
                next(columns_named_in(self.factors[factor]))
            ].cat.codes.to_numpy()

        for place in places:
            each = [piece.values(numbers, levels) for piece in self.pieces[place]]
            yield place, reduce(operator.mul, each) if each else 1.0


class _ScopedFactor(NamedTuple):
    """A factor by its place; `reduced` if it is a category's contrast alone."""

    place: int
    reduced: bool


# What is multiplied, in the order it was written in.
_Product: TypeAlias = tuple[_ScopedFactor, ...]


def _simplify_formula_span(span: Iterable[_Product]) -> list[_Product]:
    """Return the fewest products that span the same, in the order formulaic has.

    Something, and the same times a contrast, is that times all levels of the category.
    """
    found: list[_Product] = []
    for one in sorted(span, key=len):
        for old in found:
            more = set(one) - set(old)
            if len(old) == len(one) - 1 and len(more) == 1 and min(more).reduced:
                whole = tuple(
                    each._replace(reduced=False) if each in more else each
                    for each in one
                )
                found = _simplify_formula_span([*(x for x in found if x != old), whole])
                break
        else:
            found.append(one)
    return found


class _ContrastCoding:
    """Coding of categories by contrasts, with the same numbers on every machine."""

    def __init__(
        self, factors: Sequence[Node], levels: Sequence[tuple[str, ...]]
    ) -> None:
        self.codings: dict[str, list[str]] = {}
        self._factors, self._levels = factors, levels
        self._known: dict[_ScopedFactor, list[tuple[ContrastPiece, str]]] = {}

    def pieces(self, scoped: _ScopedFactor) -> list[tuple[ContrastPiece, str]]:
        """Return what a factor is multiplied as, column after column, with names."""
        if scoped not in self._known:
            self._known[scoped] = list(self._made(scoped))
        return self._known[scoped]

    def _made(self, scoped: _ScopedFactor) -> Iterator[tuple[ContrastPiece, str]]:
        place, reduced = scoped
        node, levels = self._factors[place], self._levels[place]
        known = formula_text(node)
        if not levels:
            yield ContrastPiece(place), known
            return
        if reduced and len(levels) == 1:
            return
        base = _reference_level_of_contrast(node, levels) if reduced else None
        if not reduced or base is not None:
            mark = "T." if reduced else ""
            for number, level in enumerate(levels):
                if number != base:
                    yield ContrastPiece(place, level=number), f"{known}[{mark}{level}]"
            return
        contrasts = load_extra_package(
            "formulaic.transforms.contrasts", extra="data", what="contrasts"
        )
        assert isinstance(node, Coded)
        options = {
            name: each.value
            for name, each in (formula_contrast_options(node) or {}).items()
        }
        contrast = getattr(contrasts, CONTRASTS[str(node.contrast)][0])(**options)
        ours = {f"l{number}": level for number, level in enumerate(levels)}
        fields = contrast.get_coding_column_names([*ours], reduced_rank=True)
        form = contrast.get_factor_format([*ours], reduced_rank=True)
        names = [form.format(name=known, field=ours.get(one, one)) for one in fields]
        matrix = contrast.get_coding_matrix([*ours], reduced_rank=True).to_numpy(float)
        # formulaic's last bits may be another machine's: what is fine is rounded.
        whole = np.abs(matrix - np.rint(matrix)).max(initial=0.0) < 1e-9
        unit = Fraction(1) if whole else _CODE_UNIT
        counts = np.rint(matrix / float(unit))
        written = repr(counts.astype(np.int64).tolist()).encode()
        self.codings[known] = [str(unit), hashlib.sha256(written).hexdigest()]
        for codes, name in zip((counts * float(unit)).T, names, strict=True):
            yield ContrastPiece(place, codes=codes.copy(), unit=unit), name


def _reference_level_of_contrast(node: Node, levels: tuple[str, ...]) -> int | None:
    """Return the number of the level that others are compared with.

    None for a contrast that does not code its levels by 0 and 1.
    """
    if not isinstance(node, Coded) or node.contrast is None:
        return 0
    usual = {"TreatmentContrasts": 0, "SASContrasts": len(levels) - 1}
    base = (formula_contrast_options(node) or {}).get("base")
    number = usual.get(CONTRASTS[node.contrast][0])
    return number if base is None else levels.index(str(base.value))
