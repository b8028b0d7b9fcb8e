"""Formulas over an agreed schema: the rows they make of a table, and its rules.

A `FormulaJob` is a regression; `FormulaRowsJob` is another question about the same
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.fits.fitting import (
    FitStrategy,
)
from veilsum.fits.model import FitModel
from veilsum.models.families import (
    Family,
)
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.sandwich import Errors, robust_errors_named
from veilsum.numbers.arrays import Array, FloatArray, Vector, listed_names, nearest_name
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import BITS, ROW_BITS, Integers
from veilsum.sums.presence import (
    PresenceCells,
    PresenceGroup,
    PresenceValues,
    PresenceVaryingColumns,
    has_few_values,
)
from veilsum.sums.releases import SumReleaseLimit
from veilsum.sums.table_job import SchemaTableJob
from veilsum.sums.terms import SumTerms
from veilsum.sums.wording import PageRoom, quoted_for_release
from veilsum.tables.asked import TableQuestion
from veilsum.tables.columns import SchemaError
from veilsum.tables.derived import cut_points, derived_lines, source_of_line
from veilsum.tables.formula import ModelFormula
from veilsum.tables.formula.reader import read_formula
from veilsum.tables.formula.syntax import (
    Coded,
    Named,
    Node,
    columns_named_in,
    formula_text,
)
from veilsum.tables.frames import Frame
from veilsum.tables.propensity import Propensity, PropensityWeights
from veilsum.tables.rules import Rules, TableRulesAtHome
from veilsum.tables.schema import CheckedTable, Schema


def _is_constant_fit_column(values: Array[Any]) -> bool:
    return bool((values == values[:1]).all())


# Totals have 192 bits at most: beyond so many bits of a term, fewer rows have room.
WIDE_BITS, WIDE_ROW_BITS = 72, 32


def inferred_fit_schema(
    formula: str,
    used: Sequence[str | None],
    frames: Mapping[str, Frame],
    minimum_rows: int | None,
    *,
    beside: str | None = None,
    derived: Mapping[str, Any] | None = None,
) -> Schema:
    """Return a schema that fits all tables, of the columns that the job names.

    What is in C(...) has categories, in the formula or in one beside it. Knots of
    derived columns become cut points.
    """
    formulas = [read_formula(one) for one in (formula, beside) if one is not None]
    lines = derived_lines(derived or {})
    named_in = {name for one in formulas for name in one.columns}
    sources = {source_of_line(lines[name]) for name in named_in & {*lines}}
    words = {*used, *sources} | (named_in - {*lines})
    coded = set[str]().union(*(one.categories for one in formulas))
    known = dict.fromkeys(name for frame in frames.values() for name in frame.columns)
    named = [name for name in known if name in words]
    for name in (one for formula in formulas for one in formula.columns):
        if name in lines:
            continue
        if name not in known and name.lower() != "intercept":  # which has its own words
            raise InvalidInputError(
                f"no table has a column {name!r}; {nearest_name(name, known)}the "
                "tables' "
                f"columns are {listed_names([*known])}",
                code="unknown-column",
            )
    for party, frame in frames.items():
        missing = [name for name in named if name not in frame.columns]
        if missing:
            raise SchemaError(
                party,
                missing[0],
                "column",
                f"there is no column {missing[0]!r}, which other parties have; the "
                f"table has {listed_names(list(frame.columns))}: rename one of them, "
                "or fit "
                "without it",
                code="missing-column",
            )
    seen = dict(frames)
    for party in frames if (levels := coded & set(named)) else ():
        # The other columns are not copied.
        seen[party] = frames[party].copy(deep=False)
        for name in levels:
            seen[party][name] = frames[party][name].astype("category")
    found = Schema.inferred(seen, named or None, minimum_rows=minimum_rows)
    asked: Any = {name: line for name, line in lines.items() if name in named_in}
    columns = [
        cut_points(asked.values(), one) if one.name in sources else one
        for one in found.columns
    ]
    return replace(found, columns=tuple(columns), derived=asked)


@dataclass(frozen=True, eq=False, repr=False)
class FormulaRows(Secret):
    """One party's table, and the rows that a formula makes of it."""

    table: CheckedTable
    rows: Rows


@dataclass(frozen=True)
class FormulaJob(SchemaTableJob[FormulaRows]):
    """A regression given by a formula over an agreed schema.

    Attributes:
        formula: checked against the schema.
        weights: the column of weights, if rows have them; or a propensity.
        ridge: what each squared coefficient but the intercept's costs.
        bits: what a term keeps of its range that has no unit of its own.
        absorb: whether every party has an intercept of its own, which is not shown.
        stratified: whether every party has a baseline of its own, in a Cox regression.
        measures: how numbers are counted, where ranges alone do not tell.
        errors: robust ones, if any.
        tested: columns of the formula that are not fitted: their score is tested.
        digits: of the answer; see `FitModel`.
    """

    follows = "the coefficients, their standard errors, and tests"

    formula: ModelFormula
    family: Family
    weights: str | Propensity | None = None
    offset: str | None = None
    ridge: float = 0.0
    bits: int = BITS
    absorb: bool = False
    stratified: bool = False
    measures: RowMeasures | None = None
    errors: Errors | None = None
    tested: tuple[str, ...] = ()
    digits: int | None = None

    @classmethod
    def of(
        cls,
        text: str,
        schema: Schema,
        family: Family,
        weights: str | Propensity | None = None,
        offset: str | None = None,
        ridge: float = 0.0,
        bits: int = BITS,
        errors: str | None = None,
        *,
        absorb: bool = False,
        further: str | None = None,
        digits: int | None = None,
    ) -> FormulaJob:
        read = partial(
            ModelFormula.of,
            schema=schema,
            levels="several" if family.is_choice else "two",
        )
        formula, tested = read(text), tuple[str, ...]()
        if further is not None:
            few = formula.columns
            formula = read(f"{text} + {further}")
            tested = tuple(one for one in formula.columns if one not in few)
            if not tested or len(tested) + len(few) != len(formula.columns):
                raise InvalidInputError(
                    f"further = {further!r} adds columns to those of the formula, and "
                    f"these stay what they are: found {listed_names(few)} without it, "
                    "and "
                    f"{listed_names(formula.columns)} with it",
                    code="columns-overlap",
                )
        needed = {*formula.variables, *formula.derived, offset}
        if isinstance(weights, Propensity):
            weighing = PropensityWeights.of(weights, schema).formula
            needed.update((*weighing.variables, *weighing.derived))
            # Weights that are no trials and no variances say nothing of errors.
            errors = "HC0" if errors is None else errors
        else:
            needed.add(weights)
        narrow = replace(formula, schema=schema.only(needed))
        kind = robust_errors_named(errors)
        return cls(
            *(narrow, family, weights, offset, ridge, bits),
            absorb=absorb,
            errors=kind,
            tested=tested,
            digits=digits,
        )

    @property
    def schema(self) -> Schema:
        """Agreed schema of the tables, restricted to the columns in use."""
        return self.formula.schema

    @cached_property
    def weighing(self) -> PropensityWeights | None:
        """The public function of a row that weights are, if they are no column."""
        if not isinstance(self.weights, Propensity):
            return None
        return PropensityWeights.of(self.weights, self.schema)

    def design_line(self, room: PageRoom) -> str:
        model = self.model
        names = [
            "a column of ones" if place == model.intercept else quoted_for_release(name)
            for place, name in enumerate(model.names)
        ]
        return (
            f"design, that is the formula multiplied out: {len(names)} columns: "
            f"{room.names('columns of the design', names)}"
        )

    @cached_property
    def model(self) -> FitModel:
        """The model to fit; its measures follow from the schema, unless given."""
        if self.measures is not None:
            return self.counted(self._named(self.measures))
        weights, offset = (
            self.schema.column(column).measure if isinstance(column, str) else None
            for column in (self.weights, self.offset)
        )
        if self.weighing is not None:
            weights = self.weighing.measure
        measures = RowMeasures.of(
            self.formula.measures(self.bits),
            self.formula.response_measure(self.bits),
            intercept=self.formula.intercept,
            weights=weights,
            offset=offset,
            # So wide totals leave room for fewer rows.
            row_bits=ROW_BITS if self.bits <= WIDE_BITS else WIDE_ROW_BITS,
        )
        return self.counted(self._named(measures))

    def _named(self, measures: RowMeasures) -> RowMeasures:
        """Return measures with the names of the columns that they are about."""
        weights: tuple[str, ...] = ()
        if isinstance(self.weights, str):
            weights = (self.weights,)
        if self.weighing is not None:
            weights = tuple(self.weighing.formula.variables)
        return measures.named(
            self.formula.sources,
            self.formula.response_sources,
            weights,
            () if self.offset is None else (self.offset,),
        )

    def counted(self, measures: RowMeasures) -> FitModel:
        return FitModel(
            response=self.formula.response,
            names=self.formula.columns,
            intercept=self.formula.intercept,
            family=self.family,
            measures=measures,
            ridge=self.ridge,
            variables=len(self.schema.columns),
            errors=self.errors,
            absorb=self.absorb,
            levels=self._levels,
            tested=self.tested,
            digits=self.digits,
            weighed_by=None if self.weighing is None else self.weighing.words,
        )

    @property
    def _levels(self) -> tuple[str, ...]:
        return self.formula.response_levels if self.family.is_choice else ()

    @property
    def n_columns(self) -> int:
        """Width of the design: a short formula can stand for thousands of columns.

        In a choice every level but the first may have coefficients of its own.
        """
        return self.family.n_coefficients(len(self.formula.columns), len(self._levels))

    @property
    def numbers_in_a_row(self) -> int:
        return self.model.numbers_in_a_row

    @property
    def agreed(self) -> dict[str, Any]:
        weights: Any = self._weights_column
        if self.weighing is not None:
            weights = {**self._propensity, "codings": self.weighing.formula.codings}
        return {
            "model": self.model.terms,
            "formula": self.formula.text,
            "codings": self.formula.codings,
            "schema": self.schema.to_table(),
            "columns": [weights, self.offset],
            "bits": self.bits,
        }

    @property
    def absorbing_parties(self) -> FormulaJob | None:
        """The question with an intercept for every party; None if not allowed."""
        usual = self.formula.intercept is not None and not self.stratified
        if self.absorb or not usual or self.family.name != "gaussian":
            return None
        return replace(self, absorb=True)

    @property
    def question(self) -> TableQuestion:
        return TableQuestion(
            schema=self.asked_about,
            formula=self.formula.text,
            weights=self._weights_column,
            offset=self.offset,
            propensity=self._propensity or None,
            bits=None if self.bits == BITS else self.bits,
        )

    @property
    def _weights_column(self) -> str | None:
        return self.weights if isinstance(self.weights, str) else None

    @property
    def _propensity(self) -> dict[str, Any]:
        """Terms of propensity weights; coefficients in the order of the columns."""
        if self.weighing is None:
            return {}
        known = self.weighing.known.coefficients
        names = self.weighing.formula.columns
        given = self.weighing.asked.given()
        return given | {"coefficients": dict(zip(names, known, strict=True))}

    def check_parties(self, rules: Rules, terms: SumTerms) -> None:
        """Refuse what so few parties, or such masks, must not be asked for."""
        self.model.strategy.check_parties(rules, terms)

    def recipe(self, limit: SumReleaseLimit | None = None) -> FitStrategy:
        return self.model.recipe(limit)

    @property
    def groups(self) -> tuple[PresenceGroup, ...]:
        """Levels, cells and values that few parties might hold.

        Of columns of the schema, in its order; then of categories that are multiplied,
        and of what else in the design has two values.
        """
        schema = self.schema
        found: list[PresenceGroup] = []
        for one in schema.columns:
            if one.is_category:
                found.append(PresenceCells((one.name,), (one.categories,)))
            elif has_few_values(one.measure):
                found.append(PresenceValues(one.name, one.measure, one.name))
        found += _presence_groups_of_fit(
            self.formula, self.model.measures, lambda place: place
        )
        if self.weighing is not None:
            known, of = self.weighing.known.measures, self.weighing.formula
            # What it makes has no place in the design, and may be there under its name.
            further = _presence_groups_of_fit(
                of, known, lambda place: (PROPENSITY, place)
            )
            had = {one.name for one in found}
            found += [one for one in further if one.name not in had]
        if self._within_parties:
            found.append(self._varying(found))
        return tuple(found)

    @property
    def _within_parties(self) -> bool:
        """Whether a column that is constant at a party adds nothing there."""
        return self.absorb or self.stratified

    def _varying(self, groups: Sequence[PresenceGroup]) -> PresenceVaryingColumns:
        """Return the question in how many parties columns of the design vary."""
        named = set[str]().union(*self.formula.by_variables)
        design = [
            one
            for one in groups
            if (isinstance(one, PresenceCells) and named.issuperset(one.columns))
            or (
                isinstance(one, PresenceValues)
                and (one.at in named or isinstance(one.at, int))
            )
        ]
        if self.stratified:
            return PresenceVaryingColumns(
                tuple(design), rows="rows at risk at an event"
            )
        least = self.model.absorbing.least_honest(self.schema.minimum_rows)
        return PresenceVaryingColumns(tuple(design), least)

    def vary(
        self, group: PresenceVaryingColumns, own: FormulaRows, rows: Array[Any]
    ) -> Array[Any]:
        """Return what one party counts for `PresenceVaryingColumns`, by rows."""
        varying = [
            (formula_text(node), values[rows])
            for node, values in self.formula.parts(own.table)
            if not self._has_two_values(node)
        ]
        free = {name for name, _ in varying}
        columns = [values for _, values in varying]
        design = zip(self.formula.made_of, self.model.measures.design, strict=True)
        for place, ((coded, numbers), measure) in enumerate(design):
            # Rounded to its unit a number may be constant, or a product of numbers.
            if numbers and not coded and free.issuperset(numbers):
                columns.append(measure.counts(own.rows.design[rows, place]))
        if any(map(_is_constant_fit_column, columns)):
            return np.zeros(len(group.places), dtype=np.int64)
        return group.sides(
            lambda at: self.look(own, at)[rows], int(np.count_nonzero(rows))
        )

    def _labels(self, node: Node) -> tuple[str, ...]:
        """Return the levels of a category; nothing for a number."""
        if not isinstance(node, Named | Coded):
            return ()
        return self.schema.column(next(columns_named_in(node))).categories

    def _has_two_values(self, node: Node) -> bool:
        """Say whether a part has two values or levels at most, by agreement."""
        if labels := self._labels(node):
            return len(labels) <= 2
        return self.formula.is_two_valued(node)

    def look(
        self, own: FormulaRows, at: str | int | tuple[str, int] | PresenceVaryingColumns
    ) -> Array[Any]:
        """Return one party's column of its table by name, or of its design by place.

        Or by its place in the design of the propensity.
        """
        if isinstance(at, PresenceVaryingColumns):
            return self.vary(at, own, np.ones(own.rows.n_rows, dtype=bool))
        if isinstance(at, tuple):
            assert self.weighing is not None
            design, _ = self.weighing.formula.design(own.table)
            return np.asarray(design[:, at[1]])
        return own.rows.design[:, at] if isinstance(at, int) else own.table.look(at)

    def n_rows(self, own: FormulaRows) -> int:
        return own.rows.n_rows

    def check(self, party: str, own: FormulaRows) -> None:
        """Refuse rows that go beyond ranges."""
        self.model.check(party, own.rows)

    def answer(self, own: FormulaRows, request: Any) -> Integers:
        return self.model.strategy.vector(own.rows, own.table.n_dropped, request)

    def contributions(self, own: FormulaRows, request: Any) -> FloatArray | None:
        """Return each row's part of a sum; None if it is not known."""
        return self.model.strategy.contributions(own.rows, request)

    def pooled(self, own: Mapping[str, FormulaRows]) -> Vector:
        return self.model.pooled({party: part.rows for party, part in own.items()})

    def read_off(self, own: Mapping[str, FormulaRows]) -> FormulaJob:
        """Return the job with measures: rows show that each term has a value.

        Ranges alone may not.
        """
        try:
            _ = self.model
        except InvalidInputError:
            rows = {party: part.rows for party, part in own.items()}
            positive = self.family.positive
            measures = RowMeasures.inferred(
                rows, self.formula.intercept, positive=positive
            )
            return replace(self, measures=measures)
        return self

    def check_at_home(self, home: TableRulesAtHome, own: FormulaRows) -> None:
        """Refuse a table of which columns, or what they make, would show too much."""
        self._check_parts(home, own.table, self.formula)
        if self.absorb:
            home.column(self.formula.response, own.rows.response)
        if self.weighing is not None:
            self._check_parts(home, own.table, self.weighing.formula)
            self._check_weights(home, own)
        design, response = self.formula.counted(
            own.rows.design, own.rows.response, self.bits
        )
        self.model.check_at_home(
            home,
            replace(own.rows, design=design, response=response),
            shaped=self.formula.response_is_shaped,
            groups=self.formula.by_variables,
        )

    def _check_weights(self, home: TableRulesAtHome, own: FormulaRows) -> None:
        """Refuse weights that lie on few of the treated rows, or of the others.

        Among all rows they may be spread and yet be one row's of its kind.
        """
        assert self.weighing is not None
        assert own.rows.weights is not None
        treated = self.weighing.treated(own.table)
        for some, words in ((treated, "treated"), (~treated, "other")):
            what = f"weights of {words} rows"
            home.column(what, own.rows.weights[some], two_valued=lambda: True)

    def _check_parts(
        self, home: TableRulesAtHome, table: CheckedTable, formula: ModelFormula
    ) -> None:
        coded: dict[Node, tuple[str, Array[Any], Sequence[Any]]] = {}
        for node, values in formula.parts(table):
            name, labels = formula_text(node), self._labels(node)
            if labels:
                if not self._within_parties:
                    home.category(name, values, labels)
                home.cells([name], [values], [labels])
                coded[node] = name, values, labels
                continue
            # A constant adds nothing here, and other parties are counted:
            # `PresenceVaryingColumns`.
            if self._within_parties and _is_constant_fit_column(values):
                continue
            home.column(
                name,
                values,
                two_valued=partial(formula.is_two_valued, node),
                agreed=None if isinstance(node, Named) else partial(formula.span, node),
                unit=self._exact_unit(node),
            )
            found = np.unique(values[:1000])
            if len(found) <= 2 and np.isin(values, found).all():
                coded[node] = name, np.searchsorted(found, values), found.tolist()
        for factors in formula.crossed:
            cells = [coded[node] for node in factors if node in coded]
            if len(cells) > 1:
                home.cells(*(list(one) for one in zip(*cells, strict=True)))
        for name, flags in formula.summed_with(table):
            home.summed(name, flags)

    def _exact_unit(self, node: Node) -> Fraction | None:
        """Return the unit of a column that least squares sum exactly; None if not."""
        if self.family.name != "gaussian" or not isinstance(node, Named):
            return None
        known = {one.name: one for one in self.schema.columns}
        column = known.get(node.name)
        if column is None or column.is_category or not column.is_measured:
            return None
        return Fraction(column.measure.unit)

    def bring(self, table: CheckedTable) -> FormulaRows:
        """Return a party's table with the rows that the formula makes of it.

        Columns that both have are held once.
        """
        rows = self.rows(table)
        places = self.formula.unchanged(self.bits)
        same = {name: rows.design[:, place] for name, place in places.items()}
        return FormulaRows(table.sharing(same), rows)

    def rows(self, table: CheckedTable) -> Rows:
        design, response = self.formula.design(table, self.bits)
        weights, offset = (
            None if column is None else self.formula.numeric(table, column)
            for column in (self._weights_column, self.offset)
        )
        if self.weighing is not None:
            weights = self.weighing.weights(table)
        try:
            return Rows(design, response, weights, offset)
        except InvalidInputError as error:
            column = self._weights_column
            raise SchemaError(
                table.party, column, "rows", str(error), code=error.code
            ) from None


# Marks columns that a propensity makes.
PROPENSITY = "propensity"


def _presence_groups_of_fit(
    formula: ModelFormula, measures: RowMeasures, at: Callable[[int], Any]
) -> Iterator[PresenceGroup]:
    """Yield cells of categories that are multiplied, and what else has two values."""
    schema, made, design = formula.schema, formula.made_of, measures.design
    for names in dict.fromkeys(names for names, _ in made if len(names) > 1):
        levels = tuple(schema.column(name).categories for name in names)
        yield PresenceCells(names, levels)
    for place, (names, numbers) in enumerate(made):
        alone = not names and len(numbers) == 1 and numbers[0] in schema
        if numbers and not alone and has_few_values(design[place]):
            yield PresenceValues(formula.columns[place], design[place], at(place))


B = TypeVar("B", bound=FormulaRows)


@dataclass(frozen=True)
class FormulaRowsJob(SchemaTableJob[B]):
    """Another question about the rows that a formula makes of a table.

    Attributes:
        base: the formula, with its rows and its rules.
    """

    base: FormulaJob

    @property
    def schema(self) -> Schema:
        """Agreed schema of the tables, restricted to the columns in use."""
        return self.base.schema

    @property
    def n_columns(self) -> int:
        return self.base.n_columns

    @property
    def numbers_in_a_row(self) -> int:
        return self.base.numbers_in_a_row

    @property
    def groups(self) -> tuple[PresenceGroup, ...]:
        """Levels, cells and values that few parties might hold."""
        return self.base.groups

    @property
    def question(self) -> TableQuestion:
        return self.base.question

    def n_rows(self, own: B) -> int:
        return own.rows.n_rows

    def check(self, party: str, own: B) -> None:
        """Refuse rows that go beyond ranges."""
        self.base.check(party, own)

    def check_at_home(self, home: TableRulesAtHome, own: B) -> None:
        """Refuse a table of which columns, or what they make, would show too much."""
        self.base.check_at_home(home, own)

    def look(self, own: B, at: str | int) -> Array[Any]:
        """Return a column of the table by name, or of the design by place."""
        return self.base.look(own, at)
