"""Questions add up: what each leaves alone, several together may single out.

Two steps of a column, a little apart, differ in whoever is between them. So do two bins
with shifted edges, and two fits one of which leaves out a row with a missing value. No
rule about one question sees that. A party keeps the public text of what was asked about
a data set, and before it answers once more it looks at the columns of all of it
together, on its own table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf
from typing import Any

import numpy as np

from veilsum.errors import BudgetError, InvalidInputError
from veilsum.models.evaluation import (
    ModelPredictor,
    bins_of_values,
    family_with_link,
    folds_of_model_rows,
)
from veilsum.models.leverage import LeverageColumns, columns_near_another
from veilsum.models.rows import PerRow, RowMeasures, Rows
from veilsum.models.survival import SurvivalTimeGrid
from veilsum.models.tallies import TallyBins
from veilsum.numbers.arrays import Array, listed_names
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import BITS
from veilsum.reading import Section, read_section
from veilsum.tables.axes import TableAxis
from veilsum.tables.cleaning import clean_numbers
from veilsum.tables.columns import SchemaError, column_unit_words
from veilsum.tables.formula import ModelFormula
from veilsum.tables.formula.reader import read_formula
from veilsum.tables.frames import Frame
from veilsum.tables.propensity import Propensity, PropensityWeights
from veilsum.tables.rules import DisclosureError, TableRulesAtHome
from veilsum.tables.schema import CheckedTable, Schema
from veilsum.tables.survival import (
    group_column_of_formula,
    survival_columns,
    survival_events_of,
)

# Letters of one question: a formula has 10,000 at most, and levels have names.
LONGEST_QUESTION = 200_000

Made = tuple[frozenset[str], PerRow]


@dataclass(frozen=True)
class TableCellPooling:
    """Cells of counts that are small at one party; by default none.

    Attributes:
        fewest: the number of rows that is not small.
        between: columns, each with two cut points that have few rows between them in
            some question and group; the first and last place end at infinity.
    """

    fewest: int = 0
    between: frozenset[tuple[str, float, float]] = frozenset()

    def kept(self, column: str, cuts: Sequence[float]) -> list[int]:
        """Return the cut points, by place, that are at no small cell.

        A question that has only one of the two cut points keeps it: its difference to
        the other one would not be pooled.
        """
        ends = {-inf, *cuts, inf}
        gone = {
            cut
            for name, low, high in self.between
            if name == column and {low, high} <= ends
            for cut in (low, high)
        }
        return [k for k, cut in enumerate(cuts) if cut not in gone]


class TableQuestion(Section, frozen=True, kw_only=True):
    """Question about a table: the parts that determine the released sums over rows.

    Attributes:
        schema: required columns; a row without a value in one of them may be dropped.
        formula: formula of a regression.
        weights: column of weights of the regression.
        offset: column of offsets of the regression.
        propensity: specification of computed weights, if they are not a column.
        columns: numeric columns to describe.
        histograms: edges of bins, by column.
        tables: columns to cross-tabulate.
        by: column of groups, for each of which all of this is computed.
        missing: "groups" to count missing values in each group as well.
        survival: formula of survival curves.
        times: times at which curves, or rows with a predicted risk, are counted.
        predicted: formula of a model with known coefficients.
        coefficients: known coefficients, by column.
        family: family whose link gives predictions from these; None for a risk.
        edges: edges of bins of the prediction.
        folds: number of folds in which a regression is summed.
        split: public number that determines the assignment of rows to folds.
        bits: precision of computed terms, in bits of their range; None for the default.
    """

    schema: dict[str, Any]
    formula: str | None = None
    weights: str | None = None
    offset: str | None = None
    propensity: dict[str, Any] | None = None
    columns: tuple[str, ...] | None = None
    histograms: dict[str, tuple[float, ...]] | None = None
    tables: tuple[tuple[str, ...], ...] | None = None
    survival: str | None = None
    times: tuple[float, ...] | None = None
    by: str | None = None
    missing: str | None = None
    predicted: str | None = None
    coefficients: dict[str, float] | None = None
    family: str | None = None
    edges: tuple[float, ...] | None = None
    folds: int | None = None
    split: int | None = None
    bits: int | None = None

    @classmethod
    def of_text(cls, text: str) -> TableQuestion:
        """Return a question that was kept, checked as if it were new."""
        return read_section(json.loads(text), cls, "a question in the ledger")

    @property
    def text(self) -> str:
        """The question in its one spelling, to be kept.

        Raises:
            BudgetError: it is too long to be kept, and so to be answered.
        """
        made = json.dumps(self.given(), sort_keys=True, allow_nan=False)
        if len(made) > LONGEST_QUESTION:
            raise BudgetError(
                f"the question has {len(made)} letters with its columns and levels, "
                f"and a ledger keeps {LONGEST_QUESTION}: ask for fewer columns, levels "
                "or bins",
                code="question-too-long",
            )
        return made

    @property
    def words(self) -> str:
        """Description of the question, for the table's owner."""
        if self.formula is not None:
            return self.formula
        if self.survival is not None:
            return self.survival
        if self.predicted is not None:
            return f"predictions of {self.predicted}"
        parts = [*(self.columns or ()), *(f"bins of {one}" for one in self.bins)]
        parts += [f"table of {' x '.join(names)}" for names in self.tables or ()]
        groups = "" if self.by is None else f" by {self.by}"
        return (listed_names(parts) or "number of rows") + groups

    @property
    def recodings(self) -> tuple[str, ...]:
        """Recodings of numbers, which can make a step of a column at one person."""
        lines = self.schema["columns"].items()
        recoding = {name: line for name, line in lines if "recode" in line}
        columns = Schema.from_table({"columns": recoding}).columns if recoding else ()
        return tuple(
            f"recode of {one.name}, which has {listed_names(one.recoded_numbers)}"
            for one in columns
            if one.recoded_numbers
        )

    @property
    def bins(self) -> dict[str, TallyBins]:
        """The bins of its histograms."""
        return {
            name: TallyBins.of(one) for name, one in (self.histograms or {}).items()
        }

    @property
    def merges(self) -> bool:
        """Whether all of it but numbers are counts whose small cells merge."""
        return self.formula is None and self.predicted is None

    def compares_rows_of(self, other: TableQuestion) -> bool:
        """Whether complete rows are those of another question, groups apart."""
        return self._needed(None) == other._needed(None) or (
            self._needed(self.by) == other._needed(other.by)
        )

    def _needed(self, without: str | None) -> str:
        """Return the lines of the columns that complete rows have."""
        lines = dict(self.schema)
        columns = lines.pop("columns")
        kept = {name: line for name, line in columns.items() if name != without}
        return json.dumps([kept, lines], sort_keys=True)

    def small(
        self, party: str, frame: Frame, fewest: int
    ) -> Iterator[tuple[str, float, float]]:
        """Yield pairs of cut points between which few rows of some group are.

        Args:
            party: the owner of the table.
            frame: the table.
            fewest: the number of rows that is not few.
        """
        table = Schema.from_table(self.schema).check(party, frame)
        found = list[tuple[str, Sequence[float], Array[Any], Array[Any]]]()
        for name, bins in self.bins.items():
            places = bins.places(table.numbers(name))
            for _, rows in self._groups(table, TableCellPooling()):
                found.append((name, bins.edges.tolist(), places, rows))
        if self.survival is not None:
            columns = survival_columns(self.survival, table.schema)
            group = group_column_of_formula(columns, table.schema)
            times = SurvivalTimeGrid.of(self.times or ())
            places = times.found(table.numbers(columns.time))
            codes = np.zeros(table.n_rows) if group is None else table.look(group)
            for level in np.unique(codes):
                found.append((columns.time, self.times or (), places, codes == level))
        for name, cuts, places, rows in found:
            counts = np.bincount(places[rows], minlength=len(cuts) + 1)
            ends = [-inf, *cuts, inf]
            for place in np.flatnonzero((counts > 0) & (counts < fewest)).tolist():
                yield name, ends[place], ends[place + 1]

    def made(
        self,
        party: str,
        frame: Frame,
        *,
        own_rows: bool = False,
        pooling: TableCellPooling | None = None,
    ) -> Iterator[Made]:
        """Yield what sums over rows are about: variables, and a column made of them.

        Rows that the question leaves out are 0 in all of its columns, and others 1 in
        the first. Bins are told by what lies beyond each edge: that follows from them,
        and two edges that are near each other are then near in two columns.

        Args:
            party: the owner of the table.
            frame: the table.
            own_rows: whether columns by group are on all rows that have them, and not
                on complete rows. Other parties decide that too, for each of them.
            pooling: cells of counts that are small at this party, which are pooled with
                others: other parties have enough rows there, or the cell merges.

        Raises:
            SchemaError: the table is another one than the question was about.
        """
        table = Schema.from_table(self.schema).check(party, frame)
        grouped = self.by is not None and table.n_gapped > 0
        if own_rows and grouped:
            yield from self._on_own_rows(table, pooling or TableCellPooling())
        else:
            for variables, values in self._among_kept(
                table, pooling or TableCellPooling()
            ):
                whole = np.zeros(len(frame))
                whole[slice(None) if table.kept is None else table.kept] = values
                yield variables, whole
        if self.missing == "groups" and grouped:
            yield from self._among_others(table)

    def responses(self, party: str, frame: Frame) -> Iterator[Made]:
        """Yield responses, whose products with the columns are summed.

        Of survival, who has the event is among the columns (`made`), or a response.

        Args:
            party: the owner of the table.
            frame: the table.

        Raises:
            SchemaError: the table is another one than the question was about.
        """
        predicted = None if self.family is None else self.predicted
        texts = [one for one in (self.formula, predicted) if one is not None]
        if not texts:
            return
        table = Schema.from_table(self.schema).check(party, frame)
        for text in texts:
            formula = ModelFormula.of(text, table.schema, levels="any")
            _, response = self._counted(formula, table)
            weights = self._weights(table) if text is self.formula else 1.0
            whole = np.zeros(len(frame))
            whole[slice(None) if table.kept is None else table.kept] = (
                weights * response
            )
            yield frozenset(formula.response_sources), whole

    def _counted(
        self, formula: ModelFormula, table: CheckedTable
    ) -> tuple[Array[Any], Array[Any]]:
        """Return design and response with the steps that few bits make."""
        bits = self.bits or BITS
        return formula.counted(*formula.design(table, bits), bits)

    def _weights(self, table: CheckedTable) -> Any:
        """Return the weights of rows."""
        if (weighing := self._weighing(table)) is not None:
            return weighing.weights(table)
        return 1.0 if self.weights is None else table.numbers(self.weights)

    def _weighing(self, table: CheckedTable) -> PropensityWeights | None:
        if self.propensity is None:
            return None
        asked = read_section(self.propensity, Propensity, "a propensity in the ledger")
        return PropensityWeights.of(asked, table.schema)

    def _among_kept(
        self, table: CheckedTable, pooling: TableCellPooling
    ) -> Iterator[tuple[frozenset[str], Any]]:
        yield frozenset(), 1.0
        if self.formula is not None:
            yield from self._of_formula(self.formula, table)
        if self.survival is not None:
            yield from self._of_survival(self.survival, table, pooling)
        if self.predicted is not None:
            yield from self._of_predictions(self.predicted, table)
        groups = [*self._groups(table, TableCellPooling() if self.columns else pooling)]
        for group, rows in groups:
            if group:
                yield group, rows
            for name in self.columns or ():
                yield group | {name}, rows * table.numbers(name)
            for name, bins in self.bins.items():
                places = bins.places(table.numbers(name))
                for k in pooling.kept(name, bins.edges.tolist()):
                    yield group | {name}, rows & (places > k)
        for names in self.tables or ():
            axes = [TableAxis.of(table.schema.column(one), self.bins) for one in names]
            codes = tuple(axis.codes(table) for axis in axes)
            cells = np.ravel_multi_index(codes, tuple(axis.size for axis in axes))
            for group, rows in groups:
                pooled = pooled_column_levels(cells, rows, pooling.fewest)
                for cell in np.unique(cells):
                    yield group.union(names), rows & (pooled == cell)

    def _groups(
        self, table: CheckedTable, pooling: TableCellPooling
    ) -> Iterator[tuple[frozenset[str], Any]]:
        """Yield which rows are in each group: all of them, where there are none."""
        if self.by is None:
            yield frozenset(), np.ones(table.n_rows, dtype=np.bool_)
            return
        axis = TableAxis.of(table.schema.column(self.by), {})
        everybody = np.ones(table.n_rows, dtype=np.bool_)
        places = pooled_column_levels(axis.codes(table), everybody, pooling.fewest)
        for place in range(axis.size):
            yield frozenset({self.by}), places == place

    def _among_others(self, table: CheckedTable) -> Iterator[Made]:
        """Yield which rows that are left out lack a column, in each group."""
        by, others = str(self.by), np.asarray(table.gapped)
        axis = TableAxis.of(table.schema.column(by), {})
        known = np.flatnonzero(~table.missing(by))
        places = axis.places(table.left_out[by][known])
        rows = np.flatnonzero(others)[known]
        for name in table.schema.names:
            for place in range(axis.size) if name != by else ():
                whole = np.zeros(len(others))
                whole[rows[table.missing(name)[known] & (places == place)]] = 1.0
                yield frozenset({name, by}), whole

    def _on_own_rows(
        self, table: CheckedTable, pooling: TableCellPooling
    ) -> Iterator[Made]:
        """Yield columns on all rows that have them and a group, group by group.

        Means are taken off: the number of such rows says nothing of a value.
        """
        by, kept = str(self.by), np.asarray(table.kept)
        order = np.concatenate(
            [np.flatnonzero(kept), np.flatnonzero(np.asarray(table.gapped))]
        )
        axis = TableAxis.of(table.schema.column(by), {})
        single = [*(self.columns or ()), *self.bins]
        for names in dict.fromkeys([*((one,) for one in single), *(self.tables or ())]):
            rows = table.present((*names, by))
            places = axis.places(table.whole(by)[rows])
            own = {name: table.whole(name)[rows] for name in names}
            for place in range(axis.size):
                among = places == place
                for column in self._values(table, own, among, pooling):
                    whole = np.zeros(len(kept))
                    whole[order[rows][among]] = column[among] - column[among].mean()
                    yield frozenset({*names, by}), whole

    def _values(
        self,
        table: CheckedTable,
        own: Mapping[str, Array[Any]],
        among: Array[Any],
        pooling: TableCellPooling,
    ) -> Iterator[PerRow]:
        """Yield numbers, steps at edges and cells of a group that are asked for."""
        names = (*own,)
        if not among.any():
            return
        if len(names) == 1 and names[0] in (self.columns or ()):
            yield own[names[0]]
        if len(names) == 1 and names[0] in self.bins:
            bins = self.bins[names[0]]
            places = bins.places(own[names[0]])
            for k in pooling.kept(names[0], bins.edges.tolist()):
                yield (places > k).astype(np.float64)
        if names in (self.tables or ()):
            axes = [TableAxis.of(table.schema.column(one), self.bins) for one in names]
            codes = tuple(axis.places(own[axis.column]) for axis in axes)
            cells = np.ravel_multi_index(codes, tuple(axis.size for axis in axes))
            pooled = pooled_column_levels(cells, among, pooling.fewest)
            for cell in np.unique(cells):
                yield (pooled == cell).astype(np.float64)

    def _of_survival(
        self, text: str, table: CheckedTable, pooling: TableCellPooling
    ) -> Iterator[tuple[frozenset[str], Any]]:
        """Yield who has the event, and who in each group goes on after each time.

        What had the event within an interval is no column of its own, as products with
        a response are none in a regression.
        """
        columns = survival_columns(text, table.schema)
        group = group_column_of_formula(columns, table.schema)
        rows = np.ones(table.n_rows, dtype=np.bool_)
        events = survival_events_of(table, columns.event).astype(np.int64)
        yield (
            frozenset({columns.event}),
            pooled_column_levels(events, rows, pooling.fewest) == 1,
        )
        beyond = (
            SurvivalTimeGrid.of(self.times or ()).beyond(table.numbers(columns.time)).T
        )
        kept = pooling.kept(columns.time, self.times or ())
        if group is None:
            yield from ((frozenset({columns.time}), beyond[k]) for k in kept)
            return
        codes = pooled_column_levels(table.look(group), rows, pooling.fewest)
        for level in np.unique(codes):
            yield frozenset({group}), codes == level
            for k in kept:
                yield frozenset({group, columns.time}), (codes == level) & beyond[k]

    def _of_predictions(
        self, text: str, table: CheckedTable
    ) -> Iterator[tuple[frozenset[str], Any]]:
        """Yield the prediction, who reaches each edge, and sums up to there.

        Of numbers, errors too: these have a kink where response and prediction meet,
        and three of them point at whoever is there. Of a risk, who reaches an edge and
        goes on after a time.
        """
        timed = self.family is None
        columns = survival_columns(text, table.schema) if timed else None
        formula = ModelFormula.of(columns.of_event if columns else text, table.schema)
        known = self._predictor(formula)
        variables = frozenset(formula.variables) - {formula.response}
        design, response = formula.design(table)
        rows = Rows(design, response)
        predictor = known.predictors(rows)
        if columns is not None:
            higher = bins_of_values(np.array(self.edges), predictor)
            later = (
                SurvivalTimeGrid.of(self.times or ())
                .beyond(table.numbers(columns.time))
                .T
            )
            yield from ((frozenset({columns.time}), one) for one in later)
            for k in range(1, len(self.edges or ()) + 1):
                yield variables, higher >= k
                both = variables | {columns.time}
                yield from ((both, (higher >= k) & one) for one in later)
            return
        mean = known.means(predictor)
        for values in (predictor, mean, mean * mean):
            yield variables, values
        if self.edges is None:
            yield frozenset(formula.variables), np.abs(response - mean)
            return
        places = bins_of_values(np.array(self.edges), mean)
        for k in range(1, len(self.edges) + 1):
            yield variables, places >= k
            yield variables, np.where(places >= k, mean, 0.0)

    def _predictor(self, formula: ModelFormula) -> ModelPredictor:
        family = family_with_link("logistic" if self.family is None else self.family)
        given = dict(self.coefficients or {})
        if self.family is None and formula.intercept is not None:
            given[formula.columns[formula.intercept]] = 0.0
        return ModelPredictor.of(
            family,
            _measures_of_formula_rows(formula),
            names=formula.columns,
            intercept=formula.intercept,
            coefficients=given,
        )

    def _of_formula(
        self, text: str, table: CheckedTable
    ) -> Iterator[tuple[frozenset[str], Any]]:
        formula = ModelFormula.of(text, table.schema, levels="any")
        design, response = self._counted(formula, table)
        weights = self._weights(table)
        if (weighing := self._weighing(table)) is not None:
            yield frozenset(weighing.formula.variables), weights
        sets = formula.by_variables
        parts = [1.0]
        if self.folds is not None:
            rows = Rows(design, response)
            dealt = folds_of_model_rows(
                _measures_of_formula_rows(formula), rows, self.folds, self.split or 0
            )
            parts = [dealt == k for k in range(self.folds)]
        for (k, values), part in product(enumerate(design.T), parts):
            own = [frozenset(few) for few, places in sets.items() if k in places]
            yield min(own, key=len), weights * values * part
        if formula.response_is_shaped:
            yield frozenset(formula.variables), weights * response
        for name in (self.weights, self.offset):
            if name is not None:
                yield frozenset({name}), table.numbers(name)


def pooled_column_levels(
    codes: Array[Any], among: Array[Any], fewest: int
) -> Array[Any]:
    """Return levels of which none has a few rows; they are pooled with the largest."""
    if fewest < 2 or not among.any():
        return codes
    counts = np.bincount(codes[among], minlength=int(codes.max()) + 1)
    found = np.where(counts < fewest, int(counts.argmax()), np.arange(len(counts)))
    return np.asarray(found[codes])


def _measures_of_formula_rows(formula: ModelFormula) -> RowMeasures:
    """Return how a row is counted, by the schema alone."""
    return RowMeasures.of(
        formula.measures(), formula.response_measure(), intercept=formula.intercept
    )


@dataclass(frozen=True, eq=False, repr=False)
class _ColumnStack(Secret):
    """Different columns, side by side.

    Attributes:
        owners: of each column, the questions that have it, by their order.
        merging: of each question, whether its small cells merge.
    """

    variables: list[frozenset[str]] = field(default_factory=list)
    columns: list[Array[Any]] = field(default_factory=list)
    owners: list[set[int]] = field(default_factory=list)
    merging: list[bool] = field(default_factory=list)
    _seen: dict[bytes, int] = field(default_factory=dict)

    def add(self, question: TableQuestion, made: Iterator[Made]) -> bool:
        """Add a question's columns; say whether some were not there."""
        before, number = len(self.columns), len(self.merging)
        self.merging.append(question.merges)
        for variables, values in made:
            if values.any():
                self.place(number, variables, values)
        return len(self.columns) > before

    def place(self, number: int, variables: frozenset[str], values: Array[Any]) -> int:
        """Add a column of a question that was added; return its place."""
        key = hashlib.sha256((values + 0.0).tobytes()).digest()
        if key not in self._seen:
            self._seen[key] = len(self.columns)
            self.variables.append(variables)
            self.columns.append(values)
            self.owners.append(set())
        self.owners[self._seen[key]].add(number)
        return self._seen[key]

    def compared(self, one: int, other: int) -> bool:
        """Say whether two columns may differ in few rows of this party only.

        A cut point or level is shown only where the cells beside it are large. So
        between two of them a large cell lies, if one of the questions that have
        shown them had both.
        """
        return all(
            (self.merging[some] and some in self.owners[other])
            or (self.merging[more] and more in self.owners[one])
            for some, more in product(self.owners[one], self.owners[other])
        )


@dataclass(frozen=True, eq=False, repr=False)
class TableAsking(Secret):
    """A question to one party's table, and the rules that the party keeps to."""

    question: TableQuestion
    home: TableRulesAtHome
    frame: Frame

    def check(self, earlier: Mapping[str, str]) -> None:
        """Refuse a question that singles out rows together with earlier ones.

        Args:
            earlier: by run, the text of what was asked about the data set. What asked
                for columns that this table does not have is passed over.

        Raises:
            DisclosureError: in full for the table's owner only.
        """
        asked = {text: run for run, text in earlier.items()}
        if not asked.keys() - {self.question.text}:
            return
        known = [TableQuestion.of_text(text) for text in asked]
        for one in known:
            _check_plain(one, asked[one.text])
        try:
            self._look(known)
        except DisclosureError as error:
            guilty = [one for one in known if self._refuses(one)] or known
            named = listed_names([f"{one.words} ({asked[one.text]})" for one in guilty])
            raise DisclosureError(
                error.rule,
                f"{error}. It does so together with what was asked of this data set "
                f"before, and what is known of that cannot be taken back: {named}"
                f"{self._missing_values_hint(guilty)}",
                code=error.code,
            ) from None

    def _missing_values_hint(self, known: Sequence[TableQuestion]) -> str:
        """Return what to do if missing values make questions use different rows."""
        now = Schema.from_table(self.question.schema)
        before = [Schema.from_table(one.schema) for one in known]
        if len({self._used_rows(one) for one in (now, *before)}) == 1:
            return ""
        needed = {one.name: one for s in before for one in (*s.columns, *s.complete)}
        same = replace(now, complete=(*needed.values(),))
        reason = ". The questions use different rows, because values are missing"
        if len({self._used_rows(one) for one in (same, *before)}) == 1:
            names = ", ".join(f'"{name}"' for name in sorted(needed))
            return f"{reason}; [schema] complete = [{names}] makes them use the same"
        return (
            f"{reason}; in the next study, agree before the first question on the "
            'columns that every row needs: [schema] complete = ["...", "..."]'
        )

    def _used_rows(self, schema: Schema) -> bytes:
        """Return the rows that a question uses, or nothing if columns are missing."""
        with suppress(SchemaError):
            kept = schema.check(self.home.party, self.frame).kept
            every = np.ones(len(self.frame), dtype=np.bool_)
            return (every if kept is None else kept).tobytes()
        return b""

    def _look(self, known: Sequence[TableQuestion]) -> None:
        self._check_units(known)
        self._check_orders(known)
        self._check_rows(known, own_rows=False)
        if any(one.by is not None for one in (*known, self.question)):
            self._check_rows(known, own_rows=True)
            self._check_own_and_complete(known)

    def _check_rows(self, known: Sequence[TableQuestion], *, own_rows: bool) -> None:
        """Refuse columns of all questions that point at few rows together."""
        pooling = self._pooling(known)
        pooled, added = self._stacked(known, pooling, own_rows=own_rows)
        if added:
            self.home.together(np.column_stack(pooled.columns), pooled.variables)
        if not own_rows:
            self._check_responses(known, pooled)
        if self.question.text in {one.text for one in known}:
            return
        # Columns of an earlier question may not have been shown, if cells merged there.
        stack, _ = self._stacked(known, TableCellPooling(), own_rows=own_rows)
        if stack.columns:
            columns = np.column_stack(stack.columns)
            self.home.apart(columns, stack.variables, stack.compared)

    def _check_responses(
        self, known: Sequence[TableQuestion], stack: _ColumnStack
    ) -> None:
        """Refuse responses that differ in few rows from columns of other questions.

        Args:
            known: earlier questions.
            stack: the columns of all questions, to which responses are added.
        """
        if self.home.rules.maximum_influence >= 1.0 or not stack.columns:
            return
        covariates, last = [*range(len(stack.columns))], len(known)
        responses = dict[int, set[int]]()
        for number, one in enumerate((*known, self.question)):
            with suppress(SchemaError):
                for variables, values in one.responses(self.home.party, self.frame):
                    if values.any():
                        place = stack.place(number, variables, values)
                        responses.setdefault(place, set()).add(number)
        earlier = [k for k, own in enumerate(stack.owners) if own != {last}]
        if not responses or len(earlier) == len(stack.columns) == len(covariates):
            return
        columns = np.column_stack(stack.columns)
        self._check_pairs(columns, stack, responses)
        rank = len(stack.columns)
        if LeverageColumns(Rows(columns, columns[:, 0]), None).is_wide(rank):
            return  # combinations of so many columns single out any row
        each = [
            [k for k, own in enumerate(stack.owners) if number in own]
            for number in range(last + 1)
        ]
        self.home.responses(
            columns,
            [covariates, earlier, *each],
            "the responses and the columns of several questions",
            "ask for a response that was asked about before, or for other columns",
        )

    def _check_pairs(
        self, columns: Array[Any], stack: _ColumnStack, responses: Mapping[int, Any]
    ) -> None:
        """Refuse a response and another column that are nearly the same."""
        last = len(stack.merging) - 1
        rows = [k for k, own in enumerate(stack.variables) if not own]
        for place in sorted(responses):
            near = columns_near_another(columns, rows, place)
            for other in near:
                owners = stack.owners[place], stack.owners[other]
                if last not in owners[0] | owners[1] or owners[0] & owners[1]:
                    continue
                names = [
                    listed_names([*sorted(stack.variables[k])]) or "the rows"
                    for k in (place, other)
                ]
                same = names[0] == names[1]
                what = (
                    f"{names[0]!r}, which has another meaning or unit in few rows than "
                    "in an earlier question,"
                    if same
                    else f"{names[0]!r} and {names[1]!r}, which differ in few rows,"
                )
                old = names[0] if last not in owners[0] else names[1]
                way_out = (
                    "ask with the dictionary and the rows of before"
                    if same
                    else f"ask with {old!r}, as before"
                )
                few = [*rows, place, other]
                size = len(rows)
                parts = [[*range(size), size], [*range(size), size + 1]]
                self.home.responses(columns[:, few], parts, what, way_out)

    def _check_own_and_complete(self, known: Sequence[TableQuestion]) -> None:
        """Refuse a variable on its own rows beside another question's complete rows.

        All parties decide for each variable of a table by group which rows it is on.
        They compare own rows with the complete rows of that question, by counts of
        parties, and so other questions with the same columns need no look.
        """
        if self.home.rules.maximum_influence >= 1.0:
            return
        now = self.question
        earlier = [one for one in known if not one.compares_rows_of(now)]
        pooling = self._pooling(known)
        ways = [
            own_rows
            for own_rows, some in ((False, earlier), (True, [now]))
            if any(one.by is not None for one in some)
        ]
        for own_rows in ways if earlier else ():
            stack = _ColumnStack()
            for one in earlier:
                with suppress(SchemaError):
                    self._stack_all(stack, one, pooling, own_rows=not own_rows)
            n_before = len(stack.columns)
            self._stack_all(stack, now, pooling, own_rows=own_rows)
            if not n_before or n_before == len(stack.columns):
                continue
            columns = np.column_stack(stack.columns)
            rows = Rows(columns, columns[:, 0])
            if LeverageColumns(rows, None).is_wide(columns.shape[1]):
                continue  # combinations of so many columns single out any row
            last = len(stack.merging) - 1
            self.home.responses(
                columns,
                [
                    range(n_before),
                    [k for k, own in enumerate(stack.owners) if last in own],
                ],
                "sums over the rows that have a column and over complete rows",
                "ask for the columns of before, or leave out a column that few rows "
                "lack",
            )

    def _stack_all(
        self,
        stack: _ColumnStack,
        one: TableQuestion,
        pooling: TableCellPooling,
        *,
        own_rows: bool,
    ) -> None:
        """Add a question's columns and its responses."""
        party, number = self.home.party, len(stack.merging)
        stack.add(one, one.made(party, self.frame, own_rows=own_rows, pooling=pooling))
        for variables, values in one.responses(party, self.frame):
            if values.any():
                stack.place(number, variables, values)

    def _pooling(self, known: Sequence[TableQuestion]) -> TableCellPooling:
        """Return the cells of all questions that are small at this party."""
        fewest, between = self.home.rules.minimum_count, set[tuple[str, float, float]]()
        for one in (*known, self.question):
            if one.merges and fewest > 1:
                with suppress(SchemaError):
                    between |= {*one.small(self.home.party, self.frame, fewest)}
        return TableCellPooling(fewest, frozenset(between))

    def _stacked(
        self,
        known: Sequence[TableQuestion],
        pooling: TableCellPooling,
        *,
        own_rows: bool,
    ) -> tuple[_ColumnStack, bool]:
        """Return the columns of all questions, and whether this one adds any."""
        stack, added = _ColumnStack(), False
        for one in (*known, self.question):
            made = one.made(
                self.home.party, self.frame, own_rows=own_rows, pooling=pooling
            )
            if one is self.question:
                added = bool(stack.columns) and stack.add(one, made)
                continue
            with suppress(SchemaError):
                stack.add(one, made)
        return stack, added

    def _check_units(self, known: Sequence[TableQuestion]) -> None:
        """Refuse a column in another unit than before, if few rows are between them.

        Values are rounded to the unit, so that two units are two steps. Responses are
        compared too, which are no columns of the stack.
        """
        *earlier, now = (
            Schema.from_table(one.schema) for one in (*known, self.question)
        )
        for new in now.columns:
            before = (one.column(new.name) for one in earlier if new.name in one)
            units = {one.measure.unit: one for one in before if one.is_measured}
            seen = not new.is_measured or new.measure.unit in units
            if not units or seen or new.name not in self.frame:
                continue
            units[new.measure.unit] = new
            rounded = {}
            for unit, column in units.items():
                with suppress(SchemaError):
                    values = self.frame[new.name]
                    numbers, _ = clean_numbers(self.home.party, column, values)
                    rounded[column_unit_words(unit)] = numbers
            self.home.units(new.name, rounded)

    def _check_orders(self, known: Sequence[TableQuestion]) -> None:
        """Refuse levels in another order than in an earlier table, whatever rows have.

        A small level merges with the next one: two orders show it with two others.
        """
        if not self.question.merges:
            return
        for earlier in known:
            if not earlier.merges:
                continue
            old = Schema.from_table(earlier.schema)
            for column in Schema.from_table(self.question.schema).columns:
                if column.name not in old:
                    continue
                before = old.column(column.name).categories or ()
                now = column.categories or ()
                if [one for one in before if one in now] != [
                    one for one in now if one in before
                ]:
                    self.home.order(column.name, before)

    def _refuses(self, one: TableQuestion) -> bool:
        try:
            self._look([one])
        except InvalidInputError:
            return True
        return False


def _check_plain(question: TableQuestion, run: str) -> None:
    """Refuse to go on after a question that an earlier version answered.

    Formulas computed then, and what they made is not known any more.
    """
    try:
        for text in (question.formula, question.predicted):
            if text is not None and not text.lstrip().startswith("Surv("):
                read_formula(text)
    except InvalidInputError as error:
        if error.code != "formula-not-plain":
            raise
        raise BudgetError(
            f"an earlier version of veilsum answered {question.words} about this data "
            f"set ({run}), and new questions cannot be looked at together with it: ask "
            "them of that version",
            code="earlier-formula",
        ) from None
