"""A model's formula, checked against the schema before anybody has data.

The design's columns follow from the formula and the schema alone, so that they mean
the same at every party. That rules out functions that look at the rows first.

A formula may come out of a file that somebody else wrote, so nothing of it is ever run
as code. It is read once (`tokens`, `reader`) into frozen values (`syntax`): names of
columns, plain or derived, and categories with a contrast. These are checked against
the schema (`checks`) and evaluated (`values`). How far a term can go, and what it is
counted in, follows from the schema as well (`extents`); its value in a row is the same
on every machine. `contrasts` codes categories. A formula that computes is refused with
lines of the dictionary that do the same (`proposals`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError, MissingExtraError
from veilsum.models.rows import PerRow
from veilsum.numbers.arrays import Array, nearest_name
from veilsum.numbers.units import BITS, UnitMeasure, numeric_unit_of
from veilsum.tables.columns import SchemaError
from veilsum.tables.formula.checks import (
    FormulaFactorCheck,
    Levels,
    check_design_names,
    check_finite_terms,
    check_formula_bits,
    check_formula_size,
    formula_factor_levels,
    formula_response,
    formula_variables,
    with_derived,
)
from veilsum.tables.formula.contrasts import FormulaExpansion
from veilsum.tables.formula.extents import (
    INDICATOR,
    ONES,
    FormulaExtent,
    exact_factor_values,
    factor_extent,
)
from veilsum.tables.formula.reader import read_formula
from veilsum.tables.formula.syntax import (
    MOST_DESIGN_COLUMNS,
    Named,
    Node,
    columns_named_in,
    formula_text,
    short_formula_text,
)
from veilsum.tables.formula.values import evaluate
from veilsum.tables.frames import Frame, as_frame, load_pandas
from veilsum.tables.schema import CheckedTable, Schema


@dataclass(frozen=True)
class ModelFormula:
    """A regression's formula together with the schema it is about.

    On the left stands one response: a column of numbers, plain or derived, or a
    category with two levels, which becomes 0 for the first and 1 for the second; with
    more levels it is a choice, and these are 0, 1, 2 and so on.
    On the right stand terms: columns, `C(...)` with a contrast, and interactions. A
    category is coded by the schema's list, with or without `C`.

    Attributes:
        text: the formula as it was written.
        schema: what the tables look like.
        response: the left side.
        variables: the schema's columns that a table needs for this formula.
        columns: the design's columns, in order.
        derived: the schema's derived columns that it names.
        intercept: where the intercept is among them; None if there is none.
    """

    text: str
    schema: Schema = field(repr=False)
    response: str
    variables: tuple[str, ...]
    columns: tuple[str, ...]
    derived: tuple[str, ...]
    intercept: int | None
    _left: Node = field(repr=False, compare=False)
    _right: FormulaExpansion = field(repr=False, compare=False)

    @classmethod
    def of(cls, text: str, schema: Schema, *, levels: Levels = "two") -> ModelFormula:
        """Return the formula, checked; no data are needed.

        Args:
            text: the formula.
            schema: what the tables look like.
            levels: of a category that is the response: two, which may be a number as
                well; several, which must be a category; or any.

        Raises:
            InvalidInputError: it cannot be read, names a column the schema does not
                have, or uses a function that would differ from party to party.
            MissingExtraError: a contrast other than treatment's is there, and formulaic
                is not installed.
        """
        read = read_formula(text)
        for node, code in read.written:
            FormulaFactorCheck(code, schema).factor(node)
        for side in (read.left, read.right):
            check_formula_size(text, side, schema)
        named = {*read.columns}
        read = replace(
            read,
            left=with_derived(read.left, schema),
            right=with_derived(read.right, schema),
        )
        response = formula_response(read, schema, levels)
        variables = formula_variables(read)
        example = _example_formula_rows(schema, variables)
        try:
            with np.errstate(all="ignore"):
                for node in {response, *(one for term in read.right for one in term)}:
                    if not formula_factor_levels(node, schema):
                        evaluate(node, example)
                made = FormulaExpansion.of(read.right, schema)
        except MissingExtraError:
            raise
        except Exception as error:  # whatever a contrast may do
            raise InvalidInputError(
                f"the formula {short_formula_text(text)} cannot be used: "
                f"{(str(error).splitlines() or [type(error).__name__])[0]}",
                code="formula-unusable",
            ) from None
        columns = made.columns
        check_design_names(text, columns)
        return cls(
            *(text, schema, formula_text(response), variables, columns),
            derived=tuple(one.name for one in schema.derived if one.name in named),
            intercept=made.intercept,
            _left=response,
            _right=made,
        )

    def measures(self, bits: int = BITS) -> tuple[UnitMeasure, ...]:
        """Return how each of the design's columns is counted, from the schema alone.

        A column that stands by itself has its own measure. What is computed has the
        unit that follows from its columns' units as far as it fits so many bits, and
        else a power of two that leaves so many bits of the range it can have.

        Raises:
            InvalidInputError: in the agreed ranges a term may be without a value.
        """
        check_formula_bits(bits)
        found = tuple(one.measure(bits) for one in self._extents)
        for name, one in zip(self.columns, found, strict=True):
            numeric_unit_of(one.unit, what=f"the unit of {name!r}")
        return found

    def response_measure(self, bits: int = BITS) -> UnitMeasure:
        """Return how the response is counted, from the schema alone."""
        check_formula_bits(bits)
        found = self._response_extent.measure(bits)
        numeric_unit_of(found.unit, what=f"the unit of {self.response!r}")
        return found

    @property
    def made_of(self) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
        """For each of the design's columns its categories, and its numbers as text."""
        right, found = self._right, []
        for pieces in right.pieces:
            factors = [one.factor for one in pieces]
            coded = [k for k in factors if right.levels[k]]
            found.append(
                (
                    tuple(next(columns_named_in(right.factors[k])) for k in coded),
                    tuple(
                        formula_text(right.factors[k])
                        for k in factors
                        if k not in coded
                    ),
                )
            )
        return tuple(found)

    @property
    def codings(self) -> dict[str, list[str]]:
        """Codings of categories that use other numbers than 0 and 1.

        By factor: the unit that these numbers are rounded to, and a digest of all of
        them. Parties compare the codings before they start.
        """
        return self._right.codings

    def design(
        self, table: CheckedTable, bits: int = BITS
    ) -> tuple[Array[Any], Array[Any]]:
        """Return one party's design, one row per row of its table, and response.

        Numbers are float64. With more bits than these have, products, powers and scales
        of columns are exact, and a design that has one is one of fractions.

        Raises:
            SchemaError: a term is not a finite number in some row.
        """
        self._check_table(table)
        design = self._evaluated(table)
        return self._refined(table, design, bits), self._responses(table, bits)

    def counted(
        self, design: Array[Any], response: Array[Any], bits: int = BITS
    ) -> tuple[Array[Any], Array[Any]]:
        """Return what is computed as it is counted: rounded to units.

        Rounding makes steps, and whoever chose the unit chose where they lie.

        Args:
            design: of some rows.
            response: of the same rows.
            bits: what a term without a unit of its own keeps of its range.
        """
        try:
            measures, target = self.measures(bits), self.response_measure(bits)
        except InvalidInputError:
            return design, response  # ranges alone do not say how it is counted
        rounded = {k for k, one in enumerate(measures) if one.rounds}
        computed = rounded - {*self.unchanged(bits).values()}
        if computed and design.dtype == np.float64:
            design = design.copy()
            for k in computed:
                design[:, k] = measures[k].rounded(design[:, k])
        is_plain = self.response in self.schema.names
        if target.rounds and not is_plain and response.dtype == np.float64:
            response = target.rounded(response)
        return design, response

    @property
    def predictors(self) -> tuple[str, ...]:
        """The schema's columns that the right side names, in the schema's order."""
        return tuple(one for one in self.schema.names if one in self._right.named)

    def design_at(self, frame: Any) -> Array[Any]:
        """Return the design of rows that need no response, such as ones to predict.

        Levels are those of the schema. Numbers may be any: ranges and units are about
        tables that are summed.

        Raises:
            SchemaError: a column is missing, or a level is none of the schema's.
        """
        rows, made = as_frame(frame), {}
        for column in map(self.schema.column, self.predictors):
            if column.is_category:
                checked = Schema((column,), minimum_rows=1).check(NEW, rows)
                made[column.name] = checked.frame[column.name].array
            else:
                made[column.name] = new_column_numbers(rows, column.name)
        filled = load_pandas().DataFrame(made, index=range(len(rows)))
        return self._evaluated(CheckedTable(NEW, self.schema, filled, 0))

    def _evaluated(self, table: CheckedTable) -> Array[Any]:
        with np.errstate(all="ignore"):
            design = self._right.matrix(table.frame, self._numbers(table))
        check_finite_terms(table, design, self.columns)
        return design

    def _numbers(self, table: CheckedTable) -> list[Array[Any] | None]:
        """Return the values of the factors on the right; None for a category."""
        return self._right.numbers(
            lambda node: np.asarray(evaluate(node, table.frame), np.float64)
        )

    def _refined(self, table: CheckedTable, design: Array[Any], bits: int) -> Any:
        """Return the design with those columns exact that float64 would get wrong."""
        wide = self._exact_places(bits)
        if not wide:
            return design
        values = self._right.numbers(lambda node: exact_factor_values(node, table))
        made = design.astype(object) if any(wide.values()) else design
        for place, column in self._right.parts(wide, table.frame, values):
            made[:, place] = column
        return made

    def _exact_places(self, bits: int) -> dict[int, bool]:
        """Return the columns that float64 would get wrong, and whether each is wide."""
        try:
            extents = self._extents
        except InvalidInputError:
            return {}  # in a simulation, whose ranges need not show that all is well
        return {
            place: extent.measure(bits).wide
            for place, extent in enumerate(extents)
            if extent.needs_exact(bits)
        }

    def unchanged(self, bits: int = BITS) -> dict[str, int]:
        """Return the schema's columns that the design has as they are, by place."""
        right, wide = self._right, self._exact_places(bits)
        names: dict[str, int] = {}
        if any(wide.values()):  # the design is one of fractions
            return names
        for place, pieces in enumerate(right.pieces):
            if len(pieces) == 1 and not right.levels[pieces[0].factor]:
                node = right.factors[pieces[0].factor]
                if isinstance(node, Named) and place not in wide:
                    names[node.name] = place
        return names

    def summed_with(self, table: CheckedTable) -> Iterator[tuple[str, Array[Any]]]:
        """Yield each number on the right with the flags that multiply it in sums.

        Sums hold the products of any two columns of the design, and of each with the
        response. With `b ~ a * cost` they hold cost, a cost, b cost and a b cost: the
        flags of cost are 1, a, b and a b, a column each. Numbers of two values are
        flags themselves, and are left out. Numbers that stand alone in their terms
        have the same flags, which are yielded once.
        """
        if not table.n_rows:
            return
        right, numbers = self._right, self._numbers(table)
        design = dict(right.parts(range(len(right.pieces)), table.frame, numbers))
        flags = {
            (k, 0): _flag_of_two_valued_column(one, table.n_rows)
            for k, one in design.items()
        }
        response = self._responses(table, BITS)
        levels = np.unique(response[:_HEAD])
        if levels.size <= 2 or self.response_is_category:
            levels = np.unique(response)
        if levels.size == 2 or self.response_is_category:
            flags |= {(-1, k): response == one for k, one in enumerate(levels[1:])}
        left, done = {*columns_named_in(self._left)}, set[tuple[tuple[int, int], ...]]()
        for place, node in enumerate(right.factors):
            uses = [[one.factor for one in few].count(place) for few in right.pieces]
            uses.append(
                not left.isdisjoint(columns_named_in(node))
            )  # of the response, at -1
            others = tuple(
                k for k, one in flags.items() if one is not None and not uses[k[0]]
            )
            terms = [k for k, count in enumerate(uses[:-1]) if count == 1]
            alone = all(len(right.pieces[k]) == 1 for k in terms)
            # Without the response these are columns of the design, which is checked.
            known = alone and (others in done or all(k >= 0 for k, _ in others))
            number = numbers[place]
            if number is None or not terms or known:
                continue
            if _flag_of_two_valued_column(number, table.n_rows) is not None:
                continue
            if alone:
                done.add(others)
            ones = [*numbers[:place], np.ones(table.n_rows), *numbers[place + 1 :]]
            rest = (one for _, one in right.parts(terms, table.frame, ones))
            found = _flags_of_both_columns(
                [_flag_of_two_valued_column(one, table.n_rows) for one in rest],
                [flags[k] for k in others],
            )
            if len(found) > 1:
                yield formula_text(node), np.column_stack(found)

    def parts(self, table: CheckedTable) -> Iterator[tuple[Node, Any]]:
        """Yield the response and every factor of the design, with its values.

        A category has codes.
        """
        frame = table.frame
        for node in dict.fromkeys((self._left, *self._right.factors)):
            if formula_factor_levels(node, self.schema):
                yield node, frame[next(columns_named_in(node))].cat.codes.to_numpy()
                continue
            with np.errstate(all="ignore"):
                yield node, evaluate(node, frame)

    def is_two_valued(self, node: Node) -> bool:
        """Say whether a part has two values at most, by the schema alone."""
        extent = self._known_extent(node)
        if extent is None or extent.unit is None:
            return False
        return extent.high - extent.low <= extent.unit

    def span(self, node: Node) -> float:
        """Return how far apart a part's values may be; 0 if the schema cannot tell."""
        extent = self._known_extent(node)
        return 0.0 if extent is None else float(extent.high - extent.low)

    def _known_extent(self, node: Node) -> FormulaExtent | None:
        try:
            return factor_extent(node, self.schema)
        except InvalidInputError:
            return None

    @property
    def crossed(self) -> tuple[tuple[Node, ...], ...]:
        """The factors that are multiplied in the design's columns, each set once."""
        sets = (tuple(one.factor for one in pieces) for pieces in self._right.pieces)
        return tuple(
            tuple(self._right.factors[k] for k in places)
            for places in dict.fromkeys(sets)
            if places
        )

    @cached_property
    def sources(self) -> tuple[tuple[str, ...], ...]:
        """Names of the variables that each of the design's columns is made of."""
        factors = self._right.factors
        return tuple(
            tuple(
                sorted({n for k in pieces for n in columns_named_in(factors[k.factor])})
            )
            for pieces in self._right.pieces
        )

    @property
    def response_sources(self) -> tuple[str, ...]:
        """Names of the variables that the response is made of."""
        return tuple(sorted({*columns_named_in(self._left)}))

    @property
    def by_variables(self) -> dict[tuple[str, ...], tuple[int, ...]]:
        """The design's columns that are made of some variables, and of no others.

        For every set of variables that makes a column.
        """
        made = [*map(frozenset, self.sources)]
        return {
            tuple(sorted(few)): tuple(k for k, own in enumerate(made) if own <= few)
            for few in dict.fromkeys(made)
        }

    @property
    def response_is_shaped(self) -> bool:
        """Whether the response is more than a column, or on the right as well."""
        left = self._left
        return not isinstance(left, Named) or left.name in self._right.named

    def numeric(self, table: CheckedTable, column: str) -> PerRow:
        """Return a column of numbers, such as weights or an offset."""
        self._check_table(table)
        return table.numbers(column)

    def _responses(self, table: CheckedTable, bits: int) -> Array[Any]:
        if self.response_is_category:
            codes: PerRow = table.frame[self.response].cat.codes.to_numpy(np.float64)
            return codes
        with np.errstate(all="ignore"):
            values = evaluate(self._left, table.frame)
        check_finite_terms(table, values[:, np.newaxis], (self.response,))
        values = np.ascontiguousarray(values, dtype=np.float64)
        try:
            extent = self._response_extent
        except InvalidInputError:
            return values
        if not extent.needs_exact(bits):
            return values
        precise: Array[Any] = exact_factor_values(self._left, table)
        return precise if extent.measure(bits).wide else precise.astype(np.float64)

    @cached_property
    def _extents(self) -> tuple[FormulaExtent, ...]:
        factors = self._right.numbers(lambda node: factor_extent(node, self.schema))
        found = []
        for pieces in self._right.pieces:
            each = [piece.extent(factors) for piece in pieces]
            found.append(reduce(FormulaExtent.times, each) if each else ONES)
        return tuple(found)

    @cached_property
    def _response_extent(self) -> FormulaExtent:
        if self.response_is_category:
            return replace(INDICATOR, high=Fraction(len(self.response_levels) - 1))
        return factor_extent(self._left, self.schema)

    @property
    def response_levels(self) -> tuple[str, ...]:
        """The levels of a response that is a category; none of a number."""
        return formula_factor_levels(self._left, self.schema)

    @property
    def response_is_category(self) -> bool:
        left = self._left
        return isinstance(left, Named) and self.schema.column(left.name).is_category

    def _check_table(self, table: CheckedTable) -> None:
        if table.schema != self.schema:
            raise InvalidInputError(
                "the table was checked against another schema than the formula's; "
                "check it again with the formula's schema",
                code="other-schema",
            )


# Whose rows they are that somebody makes up, to predict for.
NEW = "the new data"


def new_column_numbers(frame: Frame, name: str) -> PerRow:
    """Return a column of numbers that are predicted for: any, as long as it has all."""
    if name not in frame.columns:
        raise SchemaError(
            *(NEW, name, "column"),
            f"there is no column {name!r}, which a prediction needs; "
            f"{nearest_name(name, list(frame.columns))}add it",
            code="missing-column",
        )
    try:
        found = np.asarray(frame[name].to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        found = np.full(len(frame), np.nan)
    if not np.isfinite(found).all():
        raise SchemaError(
            *(NEW, name, "number"),
            f"the column {name!r} must have a finite number in every row: fill in "
            "what is missing, and write numbers with a decimal point",
            code="not-finite",
        )
    return found


# In so many rows nearly every column of more than two values shows three of them.
_HEAD = 100


def _flag_of_two_valued_column(column: Array[Any], n_rows: int) -> Array[Any] | None:
    """Return where a column of two values has the larger one; None for any other."""
    values = np.broadcast_to(column, n_rows)
    if np.unique(values[:_HEAD]).size > 2:
        return None
    low, high = values.min(), values.max()
    if not ((values == low) | (values == high)).all():
        return None
    return np.asarray(values == high)


def _flags_of_both_columns(
    some: Iterable[Array[Any] | None], others: Iterable[Array[Any] | None]
) -> list[Array[Any]]:
    """Return where one of some flags and one of the others are, each place once.

    At most as many as a design has columns.
    """
    left, right = ([one for one in few if one is not None] for few in (some, others))
    if not left or not right:
        return []
    # Levels of one category share no row: most pairs need not be looked at.
    shared = np.array(left, np.float32) @ np.array(right, np.float32).T
    found: dict[bytes, Array[Any]] = {}
    for k, j in np.argwhere(shared > 0.0).tolist():
        both = left[k] & right[j]
        found[both.tobytes()] = both
        if len(found) == MOST_DESIGN_COLUMNS:
            break
    return [*found.values()]


def _example_formula_rows(schema: Schema, names: Iterable[str]) -> Frame:
    """Return rows that no party holds: they show what the columns will be called."""
    pandas = load_pandas()
    made = {}
    for column in (schema.column(name) for name in names):
        made[column.name] = np.ones(2)
        if column.is_category:
            levels = list(column.categories)
            codes = pandas.Categorical.from_codes([0, 0], categories=levels)
            made[column.name] = codes
    return pandas.DataFrame(made)
