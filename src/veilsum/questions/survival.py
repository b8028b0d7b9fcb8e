"""Survival of all parties' rows together: Kaplan-Meier curves and the log-rank test.

One table of counts is summed: for each group, and for each interval between agreed
times, how many rows ended there with the event and how many without; and how many went
on after the last. Every row is in one cell, so that a sum says nothing of who gave
which; the rest follows from it. Intervals with few rows merge before, see
`veilsum.disclosure.merging`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise, product
from math import ceil
from operator import add
from types import ModuleType
from typing import Annotated, Any, Unpack

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from veilsum.consortium.kinds import QuestionSpec
from veilsum.disclosure.merging import Blocks, MergeAxis, Merging
from veilsum.errors import InvalidInputError
from veilsum.fits.formula_job import inferred_fit_schema
from veilsum.models import survival as models
from veilsum.models.survival import (
    ConfType,
    LogRank,
    SurvivalCurve,
    SurvivalEnds,
    SurvivalTimeGrid,
)
from veilsum.models.tallies import MOST_CELLS
from veilsum.numbers.arrays import Array, FloatArray, Vector, listed_names
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import Integers
from veilsum.showing import Block, Rendering, ShownTable, counted_words
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.presence import (
    Look,
    PresenceGroup,
    presence_merged_lines,
    presence_merged_names,
)
from veilsum.sums.recipes import EndsRecipe
from veilsum.sums.releases import SumReleaseLimit
from veilsum.sums.running import finite_or_none
from veilsum.sums.table_job import SchemaTableJob, TableJobResult, run_on_frames
from veilsum.sums.terms import SumOptions
from veilsum.sums.wording import PageRoom, exact_number_words, quoted_for_release
from veilsum.tables.asked import TableQuestion
from veilsum.tables.formula.reader import read_surv_formula
from veilsum.tables.formula.syntax import SurvivalFormula
from veilsum.tables.frames import Frame, load_pandas
from veilsum.tables.rules import Rules, TableRulesAtHome
from veilsum.tables.schema import CheckedTable, Schema
from veilsum.tables.survival import (
    group_column_of_formula,
    survival_columns,
    survival_events_of,
)

# What all rows are called where nothing divides them.
ALL_ROWS = "all rows"
EVENTS = ("censored", "event")
MOST_NAMED = 6  # of the times at which steps are too wide
HEADS = (
    *("time", "entering", "events", "censored"),
    *("survival", "std err", "low", "high"),
)


@dataclass(frozen=True)
class SurvivalTally:
    """Places in which a party has counted its rows before.

    Attributes:
        merge_axes: by which small places merge.
        at: which of the counts; see `SurvivalJob.look`.
    """

    name: str
    merge_axes: tuple[MergeAxis, ...]
    at: str

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The cells, the last axis changing fastest."""
        labels = (one.labels for one in self.merge_axes)
        return tuple(" x ".join(one) for one in product(*labels))

    def count(self, look: Look) -> Array[Any]:
        return look(self.at)


class SurvivalRecipe(EndsRecipe):
    """One sum: events and censored rows by group and interval, later and left out."""

    keys = ("interval_events", "interval_censored", "later")


@dataclass(frozen=True, eq=False, repr=False)
class SurvivalRowEnds(Secret):
    """Counts of one party's rows that ended in each group and interval.

    Attributes:
        n_events: rows with the event, including those later than all times.
    """

    ends: SurvivalEnds
    n_events: int
    table: CheckedTable


@dataclass(frozen=True)
class SurvivalJob(SchemaTableJob[SurvivalRowEnds]):
    """Survival in tables with an agreed schema.

    Attributes:
        text: the formula as it was written.
        group: the category that divides the rows; None if nothing does.
        used: the columns that are looked at.
    """

    follows = (
        "survival curves, numbers at risk, medians and the log-rank test; and the "
        "number of rows in each group"
    )

    text: str
    formula: SurvivalFormula
    group: str | None
    grid: SurvivalTimeGrid
    used: Schema

    @classmethod
    def of(cls, schema: Schema, formula: str, times: ArrayLike) -> SurvivalJob:
        """Return the job on those columns that it needs.

        Raises:
            InvalidInputError: the formula does not fit the schema, or the times are not
                within the agreed range.
        """
        columns, grid = survival_columns(formula, schema), SurvivalTimeGrid.of(times)
        group = group_column_of_formula(columns, schema)
        most = schema.column(columns.time).maximum
        if most is not None and grid.times[-1] > most:
            raise InvalidInputError(
                f"times go up to {grid.times[-1]:g}, and {columns.time!r} is {most:g} "
                "at most by agreement: leave out times that no row can have",
                code="times-beyond-range",
            )
        names = {columns.time, columns.event, group}
        made = cls(formula, columns, group, grid, schema.only(names))
        if made.recipe().size > MOST_CELLS:
            raise InvalidInputError(
                f"{grid.size} times and {len(made.labels)} groups make more than "
                f"{MOST_CELLS} numbers: agree on fewer times",
                code="too-many-cells",
            )
        return made

    @property
    def schema(self) -> Schema:
        """Agreed schema of the columns in use."""
        return self.used

    @property
    def labels(self) -> tuple[str, ...]:
        if self.group is None:
            return (ALL_ROWS,)
        return self.used.column(self.group).categories

    @property
    def levels(self) -> dict[str, int]:
        """Number of levels of the grouping category; an event has two."""
        return {} if self.group is None else {self.group: len(self.labels)}

    @property
    def groups(self) -> tuple[PresenceGroup, ...]:
        """Levels, events and intervals that few parties might hold, and their cells.

        Intervals merge, and levels, but not events with other ends of rows.
        """
        time, event = self.formula.time, self.formula.event
        most, last = self.used.column(time).maximum, self.grid.times[-1]
        later = (self.grid.size,) if most is not None and most <= last else ()
        ends = MergeAxis(event, EVENTS, fixed=True)
        intervals = MergeAxis(time, self.grid.places, ordered=True, unreachable=later)
        if self.group is None:
            return (
                SurvivalTally(f"values of {event}", (ends,), "events"),
                SurvivalTally(f"intervals of {time}", (intervals,), "cells"),
            )
        levels = MergeAxis(self.group, self.labels)
        return (
            SurvivalTally(f"levels of {self.group}", (levels,), "levels"),
            SurvivalTally(f"values of {event}", (ends,), "events"),
            SurvivalTally(f"cells of {event} x {self.group}", (ends, levels), "ends"),
            SurvivalTally(
                f"cells of {self.group} x {time}", (levels, intervals), "cells"
            ),
        )

    def targets(self, merging: Merging) -> Array[Any]:
        """Return for each count the place of its block's total.

        Rows that end in an interval that merges with what comes after the last time
        are rows that go on.
        """
        places, groups = self.recipe().layout.places, len(self.labels)
        shape = (groups, self.grid.size + 1)
        columns = (self.group, self.formula.time)
        found = merging.targets(shape, columns).reshape(shape)
        group, place = np.divmod(found, shape[1])
        goes_on = merging.first_places(self.formula.time, shape[1])[-1]
        later = places["later"].start + group
        cells = group * self.grid.size + place
        parts = [
            np.where(place == goes_on, later, places[key].start + cells)[:, :-1]
            for key in ("interval_events", "interval_censored")
        ]
        return np.concatenate([*(one.ravel() for one in parts), later[:, -1]])

    @property
    def numbers_in_a_row(self) -> int:
        return len(self.schema.columns)

    @property
    def words(self) -> str:
        return f"survival {self.text} at {self.grid.times.tolist()}"

    @property
    def agreed(self) -> dict[str, Any]:
        return {
            "survival": {"times": self.grid.times.tolist()},
            "formula": self.text,
            "schema": self.schema.to_table(),
        }

    @property
    def question(self) -> TableQuestion:
        times = tuple(self.grid.times.tolist())
        return TableQuestion(schema=self.asked_about, survival=self.text, times=times)

    def recipe(self, limit: SumReleaseLimit | None = None) -> SurvivalRecipe:
        return SurvivalRecipe(self.words, len(self.labels), self.grid.size, limit)

    def bring(self, table: CheckedTable) -> SurvivalRowEnds:
        """Return where a table's rows end: all that is ever asked of it."""
        times = table.numbers(self.formula.time)
        events = survival_events_of(table, self.formula.event)
        ends = self.grid.tally(
            self.grid.found(times, self.used.column(self.formula.time).measure),
            events,
            None if self.group is None else table.look(self.group),
            len(self.labels),
        )
        return SurvivalRowEnds(ends, int(np.count_nonzero(events)), table)

    def n_rows(self, own: SurvivalRowEnds) -> int:
        return int(own.ends.cells.sum())

    def check_at_home(self, home: TableRulesAtHome, own: SurvivalRowEnds) -> None:
        """Refuse a table that is in one of several groups.

        Small cells merge after the first sum. Where that is switched off, by
        `site_terms`, a party refuses its own: each cell of group and interval is looked
        at with events and censored rows together, since whoever asks chooses the times,
        but not what happened to a row.
        """
        if self.group is not None:
            levels = np.flatnonzero(self.look(own, "levels"))
            home.category(self.group, levels, self.labels)
        if home.rules.site_terms:
            # More rows than a rule can want say no more, and need not be written out.
            most = max(home.rules.minimum_count, home.rules.effective_count)
            counts = [self.n_rows(own) - own.n_events, own.n_events]
            values = np.repeat([0.0, 1.0], np.minimum(counts, 1 + ceil(most)))
            home.column(self.formula.event, values, two_valued=lambda: True)
            (*_, cells) = self.groups
            home.bins(cells.name, self.look(own, "cells"), cells.places)

    def look(self, own: SurvivalRowEnds, at: str) -> Array[Any]:
        """Return counts of rows, by what they are called in `groups`."""
        match at:
            case "levels":
                return own.ends.cells.sum(axis=1)
            case "events":
                return own.ends.by_event.sum(axis=1)
            case "ends":
                return own.ends.by_event.ravel()
            case _:
                return own.ends.cells.ravel()

    def answer(self, own: SurvivalRowEnds, request: str) -> Integers:
        ends = own.ends.events, own.ends.censored, own.ends.later
        return self.recipe().pack(*ends, left_out=own.table.n_dropped)

    def contributions(self, own: SurvivalRowEnds, request: str) -> FloatArray:
        """Return the one cell of each row, in the order of the sum."""
        del request
        table = own.table
        places = self.grid.found(table.numbers(self.formula.time))
        events = survival_events_of(table, self.formula.event).astype(bool)
        groups = np.zeros(len(places), dtype=np.intp)
        if self.group is not None:
            groups = table.look(self.group).astype(np.intp)
        cells, later = len(self.labels) * self.grid.size, places == self.grid.size
        at = groups * self.grid.size + places + np.where(events, 0, cells)
        at = np.where(later, 2 * cells + groups, at)
        found = np.zeros((len(places), self.recipe().size))
        found[np.arange(len(places)), at] = 1.0
        return found

    @property
    def merged_places(self) -> Sequence[int]:
        """Return all places: every number counts rows of a cell."""
        return range(self.recipe().size)

    def pooled(self, own: Mapping[str, SurvivalRowEnds]) -> dict[str, Vector]:
        """Return the curves that one owner of all rows would find, at agreed times."""
        tables = [one.table for one in own.values()]
        times = np.concatenate([one.numbers(self.formula.time) for one in tables])
        every = replace(self, grid=SurvivalTimeGrid.of(np.unique(times)))
        total = reduce(add, [every.bring(one).ends for one in tables])
        places = np.searchsorted(every.grid.times, self.grid.times, side="right")
        curves = every.curves(total, every.grid.times, self.labels)
        return {
            label: np.append(1.0, one.survival)[places] for label, one in curves.items()
        }

    def curves(
        self, ends: SurvivalEnds, times: Vector, labels: Sequence[str]
    ) -> dict[str, SurvivalCurve]:
        """Return the curve of each group that has any rows."""
        parts = zip(
            labels, ends.events, ends.censored, ends.later.tolist(), strict=True
        )
        curves = {label: SurvivalCurve(times, *one) for label, *one in parts}
        return {label: one for label, one in curves.items() if one.n}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SurvivalResult(TableJobResult):
    """Survival by group, from one table of counts.

    Attributes:
        job: what was asked.
        reference: the pooled rows' own curves at the agreed times, without any grid, by
            agreed group, where one computer has all rows and was asked to compare.
    """

    job: SurvivalJob
    reference: Mapping[str, Vector] | None = None

    @cached_property
    def _blocks(self) -> tuple[Blocks, Blocks]:
        """Blocks of levels, and of intervals with what comes after the last time."""
        job, merging = self.job, self.merging
        levels = merging.of(job.group or "", len(job.labels))
        return levels, merging.of(job.formula.time, job.grid.size + 1)

    @property
    def times(self) -> Vector:
        """The agreed times at which intervals end that were large enough."""
        _, intervals = self._blocks
        return self.job.grid.times[[block[-1] for block in intervals[:-1]]]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the groups: agreed levels, and "others" if small ones merged."""
        levels, _ = self._blocks
        axis = MergeAxis(self.job.group or "", self.job.labels)
        return tuple(map(axis.label, levels))

    @property
    def merged(self) -> dict[str, list[list[str]]]:
        """By column, the intervals and levels that were counted together."""
        return presence_merged_names(self.job.groups, self.merging)

    @cached_property
    def ends(self) -> SurvivalEnds:
        """Counts of all parties' rows by group and interval of their end."""
        recipe, sums = self.inner
        levels, intervals = ([block[0] for block in one] for one in self._blocks)
        events, censored, later = recipe.ends(sums)
        cells = np.ix_(levels, intervals[:-1])
        return SurvivalEnds(events[cells], censored[cells], later[levels])

    @cached_property
    def curves(self) -> dict[str, SurvivalCurve]:
        """For each group that has any rows its curve, by Kaplan and Meier."""
        return self.job.curves(self.ends, self.times, self.labels)

    @cached_property
    def life_tables(self) -> dict[str, SurvivalCurve]:
        """The same, with censored rows at risk for half of their interval."""
        return {
            label: replace(one, life_table=True) for label, one in self.curves.items()
        }

    @cached_property
    def log_rank(self) -> LogRank | None:
        """Whether groups differ; None if fewer than two could have had an event."""
        return models.log_rank_test_of_survival(self.ends)

    @property
    def count(self) -> int:
        """The rows of all parties."""
        return int(self.ends.cells.sum())

    @property
    def max_error(self) -> float | None:
        """Largest distance from the pooled rows' own curves; None if not compared."""
        return self._farthest(self.curves)

    @property
    def life_table_error(self) -> float | None:
        """The same of the life tables."""
        return self._farthest(self.life_tables)

    @property
    def difference(self) -> str:
        """Distance of the curves from the pooled rows' own, in words."""
        if self.max_error is None:
            return ""
        return (
            f"difference from the pooled rows' own curves: {self.max_error:.3g}, and "
            f"{self.life_table_error:.3g} of life tables"
        )

    def _farthest(self, curves: Mapping[str, SurvivalCurve]) -> float | None:
        """Return how far curves are from the pooled rows' own, where both are known."""
        if self.reference is None:
            return None
        kept = np.searchsorted(self.job.grid.times, self.times)
        pairs = [
            (one.survival, self.reference[name][kept])
            for name, one in curves.items()
            if name in self.reference
        ]
        off = np.concatenate([[0.0], *(np.abs(one - other) for one, other in pairs)])
        return float(off[np.isfinite(off)].max(initial=0.0))

    def _chosen(self, *, life_table: bool) -> dict[str, SurvivalCurve]:
        return self.life_tables if life_table else self.curves

    def rows(
        self,
        level: float = 0.95,
        conf_type: ConfType = "log-log",
        *,
        life_table: bool = False,
    ) -> list[dict[str, Any]]:
        """Return one line for each group and time; None for what there is not."""
        lines = []
        for label, curve in self._chosen(life_table=life_table).items():
            low, high = curve.interval(level, conf_type)
            columns = {
                "time": curve.times,
                "at_risk": curve.at_risk,
                "events": curve.events,
                "censored": curve.censored,
                "survival": curve.survival,
                "standard_error": curve.standard_error,
                "low": low,
                "high": high,
            }
            for values in zip(*(one.tolist() for one in columns.values()), strict=True):
                plain = map(finite_or_none, values)
                lines.append({"group": label, **dict(zip(columns, plain, strict=True))})
        return lines

    def groups(
        self,
        level: float = 0.95,
        conf_type: ConfType = "log-log",
        *,
        life_table: bool = False,
    ) -> list[dict[str, Any]]:
        """Return one line for each group: rows, events, later ones, and the median."""
        lines = []
        for label, curve in self._chosen(life_table=life_table).items():
            median = curve.quantile(0.5, level, conf_type)
            lines.append(
                {
                    "group": label,
                    "rows": curve.n,
                    "events": int(curve.events.sum()),
                    "later": curve.later,
                    "median": finite_or_none(median.value),
                    "low": finite_or_none(median.low),
                    "high": finite_or_none(median.high),
                }
            )
        return lines

    def to_frame(
        self,
        level: float = 0.95,
        conf_type: ConfType = "log-log",
        *,
        life_table: bool = False,
    ) -> Frame:
        """Return the curves as a pandas table, a row for each group and time."""
        lines = self.rows(level, conf_type, life_table=life_table)
        return load_pandas().DataFrame(lines)

    def summary(
        self,
        level: float = 0.95,
        conf_type: ConfType = "log-log",
        *,
        life_table: bool = False,
    ) -> str:
        """Return groups, curves and test as tables of plain text.

        Args:
            level: of the intervals.
            conf_type: the scale on which these are normal: log-log, log or plain.
            life_table: whether censored rows are at risk for half of their interval;
                the last column has survival by the other of the two.
        """
        return self.answered(level, conf_type, life_table=life_table).text()

    def answered(
        self,
        level: float = 0.95,
        conf_type: ConfType = "log-log",
        *,
        life_table: bool = False,
    ) -> Rendering:
        """Return the same, to be seen."""
        heads: tuple[str, ...]
        name, last = self.job.group or "", f"after {self.times[-1]:g}"
        given: dict[str, Any] = {"conf_type": conf_type, "life_table": life_table}
        lines: list[list[Any]] = []
        for one in self.groups(level, **given):
            ends = (_survival_time_words(one[key]) for key in ("median", "low", "high"))
            lines.append(
                [one["group"], one["rows"], one["events"], one["later"], *ends]
            )
        heads = (name, "rows", "events", last, "median by", "low", "high")
        parts: list[Block] = [ShownTable(heads, lines, align="<>>>>>>")]
        rows = self.rows(level, **given)
        for label, other in self._chosen(life_table=not life_table).items():
            lines = []
            own = (list(one.values()) for one in rows if one["group"] == label)
            for (_, time, *rest), value in zip(
                own, other.survival.tolist(), strict=True
            ):
                heights = map(_survival_part_words, (*rest[3:], finite_or_none(value)))
                lines.append([_survival_time_words(time), *rest[:3], *heights])
            heads = (*HEADS, "K-M" if life_table else "life table")
            of = f"{name} = {label}" if name else ""
            parts.append(ShownTable(heads, lines, of, ">" * 9))
        remarks = self._remarks(level, conf_type)
        return Rendering(self.job.text, [*parts, *remarks])

    def _remarks(self, level: float, conf_type: ConfType) -> list[str]:
        """Return a paragraph each."""
        test, lines = self.log_rank, []
        if test is not None:
            lines.append(
                f"log-rank: chi2 = {test.statistic:.4g}, df = {test.df}, "
                f"p = {test.p:.3g}"
            )
        elif not self.ends.events.any():
            lines.append("No event was seen: every curve stays at 1.")
        told = (
            f"Low and high are {level:.0%} confidence limits, pointwise, {conf_type}. "
            "Entering: rows that have not ended before the step begins, which is the "
            "time from the line above up to this one. Events within a step count at "
            "its end. Censored rows are at risk in all of it (Kaplan-Meier), or in "
            "half of it (life table)."
        )
        if wide := self._too_wide():
            rest = len(wide) - MOST_NAMED
            more = f" and {rest} more" if rest > 0 else ""
            told += (
                " The two differ by more than half a standard error at "
                f"{', '.join(wide[:MOST_NAMED])}{more}: up to there the steps are too "
                "wide to tell, and more times would help."
            )
        lines.append(told)
        empty = [one for one in self.labels if one not in self.curves]
        if empty:
            lines.append(f"No row has {self.job.group} = {listed_names(empty)}.")
        merged = presence_merged_lines(self.job.groups, self.merging)
        return [*lines, *merged, self.rows_sentence]

    def _too_wide(self) -> list[str]:
        """Return the times, and of whom, where both ways to count are apart."""
        found = []
        for label, one in self.curves.items():
            with np.errstate(invalid="ignore"):
                off = np.abs(one.survival - self.life_tables[label].survival)
                apart = off > one.standard_error / 2.0
            whose = "" if self.job.group is None else f" ({label})"
            found += [
                f"{_survival_time_words(when)}{whose}"
                for when in one.times[apart].tolist()
            ]
        return found

    @property
    def plain_reference(self) -> dict[str, list[float | None]] | None:
        """The reference for JSON."""
        if self.reference is None:
            return None
        pairs = self.reference.items()
        return {name: [*map(finite_or_none, one.tolist())] for name, one in pairs}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        test = self.log_rank
        return {
            **super().to_dict(),
            "life_table_error": self.life_table_error,
            "count": self.count,
            "dropped": self.dropped,
            "formula": self.job.text,
            "times": self.times.tolist(),
            "merged": self.merged,
            "groups": self.groups(),
            "table": self.rows(),
            "life_tables": self.rows(life_table=True),
            "log_rank": None
            if test is None
            else {
                "observed": dict(zip(self.labels, test.observed.tolist(), strict=True)),
                "expected": dict(zip(self.labels, test.expected.tolist(), strict=True)),
                "statistic": test.statistic,
                "df": test.df,
                "p": test.p,
            },
        }

    def draw_with(
        self, figures: ModuleType, *, title: str | None = None, life_table: bool = False
    ) -> Any:
        """Return the survival curves, or life tables."""
        usual = figures.chosen_title(title, "Survival")
        caption = figures.job_caption(self, self.count)
        return _survival_figure(figures, self, usual, caption, life_table=life_table)


# With this many times or more, curves have no marks.
MANY_TIMES = 30


def _survival_figure(
    figures: ModuleType,
    result: SurvivalResult,
    title: str = "",
    caption: str = "",
    *,
    life_table: bool = False,
) -> Any:
    """Return the curves with their intervals, and below them the numbers at risk.

    `life_table` draws life tables instead of Kaplan and Meier's curves.
    """
    curves = result.life_tables if life_table else result.curves
    agreed = counted_words(len(result.times), "agreed time")
    told = (
        f"Life tables at {agreed}, straight in between."
        if life_table
        else f"Steps at {agreed}; too high between them, where events lie."
    )
    figure, (axis,) = figures.figure_panels(
        3.2,
        title=title,
        caption=f"{told} {caption}",
        left=max(0.85, 0.25 + figures.figure_name_width(["at risk", *curves], 12)),
        right=0.35,
        bottom=0.95 + 0.2 * len(curves),
    )
    times = [0.0, *result.times.tolist()]
    # What Kaplan and Meier drew stays until an event, and actuaries' tables slope.
    band: dict[str, Any] = {} if life_table else {"step": "post"}
    style = "default" if life_table else "steps-post"
    for place, (label, curve) in enumerate(curves.items()):
        look: dict[str, Any] = {"color": figures.PALETTE[place % len(figures.PALETTE)]}
        heights = [1.0, *curve.survival.tolist()]
        low, high = ([1.0, *one.tolist()] for one in curve.interval())
        axis.fill_between(times, low, high, **band, **look, alpha=0.15, linewidth=0)
        look |= {"linestyle": figures.LINES[place % len(figures.LINES)], "label": label}
        if len(times) <= MANY_TIMES:
            look |= {"marker": figures.MARKS[place % len(figures.MARKS)], "ms": 4}
        axis.plot(times, heights, drawstyle=style, **look)
    axis.set(xlim=(0.0, 1.02 * times[-1]), ylim=(0.0, 1.02), ylabel="survival")
    axis.set_xlabel(figures.figure_name(result.job.formula.time, 40))
    axis.grid(visible=True, alpha=0.3)
    words = f"{'life tables' if life_table else 'Kaplan-Meier'}, 95 % log-log limits"
    if result.log_rank is not None:
        words = f"{words}\nlog-rank p = {result.log_rank.p:.2g}"
    axis.text(
        0.02,
        0.03,
        words,
        transform=axis.transAxes,
        fontsize=figures.SMALL,
        color=figures.GREY,
    )
    if result.job.group is not None:
        axis.legend(
            frameon=False,
            title=figures.figure_name(result.job.group),
            fontsize=figures.SMALL,
        )
    _write_numbers_at_risk(figures, axis, curves)
    return figure


def _write_numbers_at_risk(
    figures: ModuleType, axis: Any, curves: Mapping[str, SurvivalCurve]
) -> None:
    """Write below the axis how many rows go on after each time that has room."""
    times = [0.0, *next(iter(curves.values())).times.tolist()]
    # A number takes a ninth of the width; the first and the last have theirs.
    last, room = len(times) - 1, times[-1] / 9.0
    kept = [0]
    for place in range(1, last):
        if times[kept[-1]] + room <= times[place] <= times[last] - room:
            kept.append(place)
    kept.append(last)
    axis.set_xticks([times[k] for k in kept])
    axis.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}")
    small: dict[str, Any] = {"textcoords": "offset points", "fontsize": figures.SMALL}
    side = {"xycoords": "axes fraction", "ha": "right"}
    axis.annotate("at risk", (0.0, 0.0), xytext=(-20, -46), **side, **small)
    for line, (label, curve) in enumerate(curves.items()):
        height, colour = (
            -46 - 14.4 * (line + 1),
            figures.PALETTE[line % len(figures.PALETTE)],
        )
        where = {"xytext": (-20, height), "color": colour}
        axis.annotate(
            figures.figure_name(label, 12), (0.0, 0.0), **where, **side, **small
        )
        numbers = [*curve.at_risk.tolist(), curve.later]
        for k in kept:
            where = {"xytext": (0, height), "xycoords": ("data", "axes fraction")}
            axis.annotate(
                f"{numbers[k]:,}", (times[k], 0.0), ha="center", **where, **small
            )


def _survival_time_words(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def _survival_part_words(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def survival(
    formula: str,
    data: Mapping[str, Any],
    *,
    times: ArrayLike,
    schema: Schema | None = None,
    minimum_rows: int | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[SumOptions],
) -> SurvivalResult:
    """Return Kaplan-Meier curves on agreed times, and the log-rank test.

    Args:
        formula: such as "Surv(time, event) ~ 1", or "~ C(sex)" for a curve for each.
        data: each party's table: pandas, polars, or a mapping of columns.
        times: agreed ones, ascending. What ends within an interval counts at its last
            time, and rows that go on after the last of all are censored there.
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused; by default
            as few as some party has, but no fewer than 5.
        rules: what every party keeps to; those of the schema about row counts hold in
            any case.
        compare: whether to find the pooled rows' own curves as well, as only a
            simulation can.
        options: how to sum; see `SumOptions`.
    """
    return run_on_frames(
        lambda agreed: SurvivalJob.of(agreed, formula, times),
        data,
        SurvivalResult,
        inferred=lambda frames: _inferred_survival_schema(
            formula, times, frames, minimum_rows
        ),
        schema=schema,
        rules=rules,
        compare=compare,
        options=options,
    )


def _inferred_survival_schema(
    formula: str,
    times: ArrayLike,
    frames: Mapping[str, Frame],
    minimum_rows: int | None,
) -> Schema:
    """Return a schema that fits all tables; of time and event more than occurs in them.

    A study without an event, or without a row that reaches the last time, is none of a
    kind of its own.
    """
    read, last = read_surv_formula(formula), float(SurvivalTimeGrid.of(times).times[-1])
    found = inferred_fit_schema(read.of_time, (read.event,), frames, minimum_rows)
    made = []
    for one in found.columns:
        low, high = one.minimum, one.maximum
        if low is not None and high is not None and low >= 0.0:
            if one.name == read.time:
                one = replace(one, minimum=0.0, maximum=max(high, last))
            elif one.name == read.event and high <= 1.0:
                one = replace(one, minimum=0.0, maximum=1.0)
        made.append(one)
    return replace(found, columns=tuple(made))


class SurvivalSpec(QuestionSpec, frozen=True, kw_only=True):
    """Kaplan-Meier curves and the log-rank test, on agreed times."""

    heading = "survival"

    formula: Annotated[
        str, Meta(description='a text such as "Surv(time, event) ~ C(sex)"')
    ]
    times: Annotated[
        tuple[int | float, ...], Meta(description="a list of times, such as [90, 180]")
    ]


class SurvivalKind(TableKind[SurvivalSpec, SurvivalJob]):
    spec = SurvivalSpec
    make_job = staticmethod(SurvivalJob.of)
    function = staticmethod(survival)
    unused_rules = ("maximum_columns",)
    counts_rows = True
    multiplied = frozenset()

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        question, job = self.parts(asked)
        time, event = (
            quoted_for_release(job.formula.time),
            quoted_for_release(job.formula.event),
        )
        yield (
            "question: how long all members' rows go on until an event (Kaplan-Meier "
            "curves and the log-rank test)"
        )
        yield f"formula, as written: {quoted_for_release(question.formula)}"
        column = job.schema.column(job.formula.event)
        seen = quoted_for_release(column.categories[1]) if column.is_category else "1"
        yield f"a row ends at its {time}; the event was seen where {event} is {seen}"
        if job.group is not None:
            yield f"counted for each level of {quoted_for_release(job.group)} by itself"
        times = [exact_number_words(one) for one in job.grid.times.tolist()]
        ends = [f"above {a} up to {b}" for a, b in pairwise(times)]
        listed = room.names("intervals", [f"from 0 to {times[0]}", *ends])
        yield f"intervals: {len(times)}, each with its last time: {listed}"
        yield f"rows that go on after {times[-1]} are counted by themselves"
        yield (
            "an interval or a level in which too few members have minimum_count rows "
            "merges with others, and the result names it; rows of a group that end in "
            "an interval count with the event and without: of these, one alone may "
            "have it"
        )

    def figures(
        self, draw: Any, result: Any, title: str, **shown: Any
    ) -> dict[str, Any]:
        return {"survival": _survival_figure(draw, result, title, **shown)}


KIND = SurvivalKind()
