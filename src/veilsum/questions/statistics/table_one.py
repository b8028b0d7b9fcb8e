"""Groups side by side, as the first table of a paper has them.

Variables stand down the page and groups across it: rows and their share of the group
for levels, mean and standard deviation for numbers, how far groups are apart, and the
chance of that. All of it follows from one sum; nothing more is asked for a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, reduce
from itertools import chain, combinations, product
from math import floor, isnan, log10, nan
from operator import add
from typing import Any, Literal, TypeAlias

import numpy as np

from veilsum.models.comparisons import (
    GroupTest,
    compare_counts,
    compare_means,
    cramers_v,
    difference_of_means,
    difference_of_shares,
)
from veilsum.models.moments import MarginalMoments
from veilsum.models.tallies import Cells, TallyQuantile
from veilsum.numbers.arrays import listed_names
from veilsum.showing import (
    Block,
    Renderable,
    Rendering,
    ShownBothWays,
    ShownTable,
    shown_number,
)
from veilsum.sums.running import finite_or_none, plain_result_values
from veilsum.tables.axes import TableAxis

WIDTH = 79
# Of a standard deviation, as a page has room; the mean has as many decimals.
SD_DIGITS = (3, 2)
# Below, a chance is said to be smaller.
LEAST_P = 0.001

AT_THRESHOLDS = (
    "Quantiles lie between values, both included, as counts at agreed thresholds tell; "
    "everybody knows how many rows are below each threshold."
)


@dataclass(frozen=True)
class TableOneComparison:
    """Differences of groups in one variable.

    Attributes:
        name: name of the column, or of the crossed columns.
        tests: tests for any difference between the groups.
        differences: by two groups, the standardised difference of means, or of the
            shares of levels.
        cramers_v: for counts, the association of levels and groups.
    """

    name: str
    kind: Literal["means", "counts"]
    tests: tuple[GroupTest, ...]
    differences: Mapping[tuple[str, str], float]
    cramers_v: float | None = None

    @property
    def largest(self) -> float:
        """The largest difference of two groups; nan without any."""
        found = [one for one in self.differences.values() if not isnan(one)]
        return max(found, default=nan)

    @property
    def test(self) -> GroupTest:
        """The usual one: ANOVA, with two groups the t-test; chi-square, Yates' of 2x2.

        These are what R's `tableone` takes.
        """
        return self.tests[-1] if self.kind == "counts" else self.tests[0]

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "tests": [
                {
                    **plain_result_values(asdict(one)),
                    "degrees": [*map(finite_or_none, one.degrees)],
                }
                for one in self.tests
            ],
            "differences": [
                {"groups": list(pair), "value": finite_or_none(value)}
                for pair, value in self.differences.items()
            ],
            "largest_difference": finite_or_none(self.largest),
            "cramers_v": finite_or_none(self.cramers_v),
        }


@dataclass(frozen=True, eq=False, repr=False)
class GroupedStatistics(Renderable):
    """Pooled statistics of each group.

    Attributes:
        by: the column that says which group a row is in.
        parts: of each group, the rows of each column, and their sums.
        tables: by the names of columns, their axes, and cells with groups last.
        missing: by column, how many rows of all lack it.
        reasons: by variable that is described on complete rows, why it is not described
            on all rows that have it; () is the size of groups.
        missing_in_groups: the same in each group, where that was asked for.
        quantiles: by column, those of all rows, and of each group.
    """

    by: TableAxis
    columns: tuple[str, ...]
    counts: tuple[int, ...]
    parts: tuple[MarginalMoments, ...]
    tables: Mapping[tuple[str, ...], tuple[tuple[TableAxis, ...], Cells]]
    missing: Mapping[str, int]
    reasons: Mapping[tuple[str, ...], str]
    missing_in_groups: Mapping[str, tuple[int, ...]]
    quantiles: Mapping[str, tuple[tuple[TallyQuantile, ...], ...]]

    @property
    def names(self) -> tuple[str, ...]:
        return self.by.labels

    @cached_property
    def overall(self) -> MarginalMoments:
        return reduce(add, self.parts[1:], self.parts[0])

    @cached_property
    def comparisons(self) -> dict[str, TableOneComparison]:
        found = {
            name: TableOneComparison(
                name,
                "means",
                compare_means(self.parts, place),
                {
                    both: difference_of_means(self.parts[j], self.parts[k], place)
                    for j, k, both in self._pairs(one.rows[place] for one in self.parts)
                },
            )
            for place, name in enumerate(self.columns)
        }
        for names, (_, cells) in self.tables.items():
            flat = cells.reshape(-1, self.by.size)
            apart = {
                both: difference_of_shares(flat[:, j], flat[:, k])
                for j, k, both in self._pairs(flat.sum(axis=0))
            }
            # A column may be averaged and counted as well.
            name = " x ".join(names)
            key = f"{name} (counts)" if name in found else name
            tests = compare_counts(flat)
            found[key] = TableOneComparison(
                key, "counts", tests, apart, cramers_v(flat)
            )
        return found

    def _pairs(self, counts: Iterable[float]) -> list[tuple[int, int, tuple[str, str]]]:
        """Return every two groups with rows, by place and by name."""
        held = [k for k, count in enumerate(counts) if count]
        return [
            (j, k, (self.names[j], self.names[k])) for j, k in combinations(held, 2)
        ]

    def records(self) -> list[dict[str, Any]]:
        """Return a line for each column, level and group; "" is all rows together."""
        found: list[dict[str, Any]] = []
        for group, part in zip(("", *self.names), self._all_parts, strict=True):
            for place, name in enumerate(self.columns):
                mean, sd = part.mean[place], part.standard_deviation[place]
                found.append(
                    {
                        "variable": name,
                        "level": "",
                        "group": group,
                        "count": part.rows[place],
                        "mean": mean,
                        "sd": sd,
                    }
                )
        for names, (axes, cells) in self.tables.items():
            shown = self._with_all(cells)
            lines = zip(_table_one_labels(axes), shown, strict=True)
            for (label, row), group in product(lines, range(1 + self.by.size)):
                whole = shown[:, group].sum()
                found.append(
                    {
                        "variable": " x ".join(names),
                        "level": label,
                        "group": ("", *self.names)[group],
                        "count": int(row[group]),
                        "share": row[group] / whole if whole else nan,
                    }
                )
        return found

    @property
    def _all_parts(self) -> tuple[MarginalMoments, ...]:
        return self.overall, *self.parts

    def _with_all(self, cells: Cells) -> Cells:
        """Return cells as rows, all groups together first."""
        flat = cells.reshape(-1, self.by.size)
        return np.hstack([flat.sum(axis=1, keepdims=True), flat])

    def to_dict(self) -> dict[str, Any]:
        return {
            "column": self.by.column,
            "levels": list(self.names),
            "counts": list(self.counts),
            "table": [
                {
                    "name": name,
                    "group": group,
                    "count": part.rows[place],
                    "mean": finite_or_none(part.mean[place]),
                    "sd": finite_or_none(part.standard_deviation[place]),
                }
                for place, name in enumerate(self.columns)
                for group, part in zip(self.names, self.parts, strict=True)
            ],
            "complete_rows": [
                {"columns": list(names), "reason": why}
                for names, why in self.reasons.items()
            ],
            "tables": [
                {"columns": list(names), "counts": cells.tolist()}
                for names, (_, cells) in self.tables.items()
            ],
            "comparisons": [one.to_dict() for one in self.comparisons.values()],
            "missing": {
                name: list(one) for name, one in self.missing_in_groups.items()
            },
            "quantiles": {
                name: [
                    [plain_result_values(asdict(one)) for one in group]
                    for group in found[1:]
                ]
                for name, found in self.quantiles.items()
            },
        }

    # As text

    def showing(self) -> Rendering:
        return Rendering("", [*self.blocks()])

    def blocks(self) -> Iterator[Block]:
        """Yield the same, to be seen among others."""
        whole = self._table(self._lines, 0, 1 + self.by.size)
        yield ShownBothWays(self._text(WIDTH), whole.html())
        yield from self._notes()

    def text(self, width: int = WIDTH) -> str:
        notes = Rendering("", [*self._notes()]).text(width=width)
        return f"{self._text(width)}\n\n{notes}"

    def _text(self, width: int) -> str:
        """Return the table; many groups take several tables."""
        blocks, start = [], 0
        while start <= self.by.size:
            end = self._fitting(self._lines, start, width)
            blocks.append(self._block(self._lines, start, end, width))
            start = end
        return "\n\n".join(blocks)

    def _fitting(self, lines: Sequence[_TableOneLine], start: int, width: int) -> int:
        """Return after which group a table is full; all rows are the first group."""
        end = start + 1
        while end <= self.by.size and self._fits(lines, start, end, width):
            end += 1
        return end

    def _fits(
        self, lines: Sequence[_TableOneLine], start: int, last: int, width: int
    ) -> bool:
        block = self._block(lines, start, last + 1, width).split("\n")
        return max(map(len, block)) <= width

    def _block(
        self, lines: Sequence[_TableOneLine], start: int, end: int, width: int
    ) -> str:
        made = self._table(lines, start, end)
        shown = made.text()
        fits = max(map(len, shown.split("\n"))) <= width
        return shown if fits else made.text(width, wide=True)

    def _table(
        self, lines: Sequence[_TableOneLine], start: int, end: int
    ) -> ShownTable:
        last = end > self.by.size
        heads = ("all", *self.names)[start:end]
        gaps = ["rows", "gaps"] if any(self.missing.values()) else []
        more = ["SMD", "p", *gaps] if last else []
        rows = [
            [
                one.label,
                *one.cells[start:end],
                *(one.apart[: len(more)] if last else ()),
            ]
            for one in lines
        ]
        way = "<" + ">" * (len(heads) + len(more))
        return ShownTable([self.by.column, *heads, *more], rows, align=way)

    @cached_property
    def _lines(self) -> list[_TableOneLine]:
        """All lines, with as many digits wherever they are seen.

        Fewer, if these make room for one table of the usual width.
        """
        ways = [[*self._with_digits(digits)] for digits in SD_DIGITS]
        fit = (one for one in ways if self._fits(one, 0, self.by.size, WIDTH))
        return next(fit, ways[0])

    def _with_digits(self, digits: int) -> Iterator[_TableOneLine]:
        counts = (sum(self.counts), *self.counts)
        gaps = str(self.missing.get(self.by.column, ""))
        yield _TableOneLine("rows", tuple(map(str, counts)), ("", "", "", gaps))
        for place, name in enumerate(self.columns):
            decimals = _table_one_decimals(
                self.overall.standard_deviation[place], digits
            )
            shown = tuple(
                _mean_and_sd(one.mean[place], one.standard_deviation[place], decimals)
                for one in self._all_parts
            )
            n = self.overall.rows[place]
            yield _TableOneLine(name, shown, self._apart(name, name, n))
            yield from self._quantile_lines(name)
            yield from self._missing_line(name)
        blank = ("",) * (1 + self.by.size)
        for name in self.quantiles:
            if name not in self.columns:
                gaps = str(self.missing.get(name, ""))
                yield _TableOneLine(name, blank, ("", "", "", gaps))
                yield from self._quantile_lines(name)
        for names, (axes, cells) in self.tables.items():
            name = " x ".join(names)
            key = (
                name if self.comparisons[name].kind == "counts" else f"{name} (counts)"
            )
            column, lines = names[0] if len(names) == 1 else "", self._with_all(cells)
            whole = [int(one) for one in lines.sum(axis=0)]
            yield _TableOneLine(name, blank, self._apart(key, column, whole[0]))
            for label, row in zip(_table_one_labels(axes), lines, strict=True):
                shares = tuple(map(_table_one_share, row.tolist(), whole))
                yield _TableOneLine(f"  {label}", shares, NOTHING)
            yield from self._missing_line(names[0]) if len(names) == 1 else ()

    def _quantile_lines(self, name: str) -> Iterator[_TableOneLine]:
        for same in zip(*self.quantiles.get(name, ()), strict=True):
            cells = tuple(map(_table_one_interval, same))
            yield _TableOneLine(f"  {quantile_name(same[0].share)}", cells, NOTHING)

    def _missing_line(self, name: str) -> Iterator[_TableOneLine]:
        if name in self.missing_in_groups:
            found = map(str, self.missing_in_groups[name])
            yield _TableOneLine("  missing", ("", *found), NOTHING)

    def _apart(self, key: str, column: str, count: int) -> _Apart:
        found = self.comparisons[key]
        smd, p = found.largest, found.test.p
        chance = f"<{LEAST_P:g}" if p < LEAST_P else f"{p:.3f}"
        return (
            "-" if isnan(smd) else f"{smd:.3f}",
            "-" if isnan(p) else chance,
            str(count),
            str(self.missing.get(column, "")),
        )

    def _notes(self) -> Iterator[Block]:
        several = sum(map(bool, self.counts)) > 2
        notes = [
            "Numbers: mean (sd). Levels: rows (share of the group). SMD: standardised "
            f"difference{', the largest of two groups' if several else ''}. p: of "
            f"numbers {'ANOVA' if several else 't-test'}, with equal variances; of "
            "levels chi-square, of two by two with Yates' correction."
        ]
        if any(self.missing.values()):
            notes.append(
                "rows: those described. gaps: all rows that lack the variable."
            )
            notes += self._about_rows()
        elif self.missing:
            notes.append("No value is missing.")
        for name, count in zip(self.names, self.counts, strict=True):
            if not count:
                told = f"Nobody has {self.by.column} = {name}: tests leave it out."
                notes.append(told)
        yield tuple(notes)
        if self.quantiles:
            yield AT_THRESHOLDS

    def _about_rows(self) -> Iterator[str]:
        """Yield which rows variables are described on, and why."""
        if not self.reasons:
            yield "Every variable is described on all rows that have it and a group."
            return
        by_reason: dict[str, list[str]] = {}
        for names, why in self.reasons.items():
            label = " x ".join(names) or "the size of groups"
            by_reason.setdefault(why, []).append(label)
        for why, labels in by_reason.items():
            yield (
                f"Described on rows that are complete in all columns: "
                f"{listed_names(labels)}. Reason: {why}."
            )
        others = {*self.columns, *chain(*self.tables)} - {*chain(*self.reasons)}
        if others:
            yield "Others are described on all rows that have them and a group."


# SMD, p, rows and missing values of a variable.
_Apart: TypeAlias = tuple[str, str, str, str]
NOTHING: _Apart = ("", "", "", "")


@dataclass(frozen=True)
class _TableOneLine:
    """One line: its label, a cell for all rows and for each group, the rest."""

    label: str
    cells: tuple[str, ...]
    apart: _Apart


def table_one_quantile_blocks(
    quantiles: Mapping[str, Sequence[TallyQuantile]],
) -> list[Block]:
    tables = [
        ShownTable(
            [name, "from", "to"],
            [[quantile_name(one.share), one.low, one.high] for one in found],
            align="<..",
        )
        for name, found in quantiles.items()
    ]
    return [*tables, AT_THRESHOLDS] if tables else []


def quantile_name(share: float) -> str:
    """Return what people call a quantile.

    >>> quantile_name(0.5), quantile_name(0.25), quantile_name(0.025)
    ('median', '25 %', '2.5 %')
    """
    return "median" if share == 0.5 else f"{100 * share:.10g} %"


def _table_one_labels(axes: Sequence[TableAxis]) -> list[str]:
    return [" x ".join(one) for one in product(*(axis.labels for axis in axes))]


def _table_one_decimals(sd: float, digits: int) -> int | None:
    """Return the decimals that leave a standard deviation its digits; None: too many.

    >>> [_table_one_decimals(sd, 3) for sd in (13.109, 6487.3, 0.0, 1e-9)]
    [1, 0, None, None]
    """
    if isnan(sd) or sd == 0.0:
        return None
    found = digits - 1 - floor(log10(sd))
    return max(found, 0) if found <= 6 else None


def _mean_and_sd(mean: float, sd: float, decimals: int | None) -> str:
    """Return both with so many decimals, or as many as they need.

    >>> _mean_and_sd(48.518, 13.109, 1), _mean_and_sd(3.0, 0.0, None)
    ('48.5 (13.1)', '3.0000 (0)')
    """
    if isnan(mean):
        return "-"
    if decimals is None or max(abs(mean), 0.0 if isnan(sd) else sd) >= 1e7:
        return (
            f"{shown_number(mean)} "
            f"({'-' if isnan(sd) else shown_number(sd, SD_DIGITS[0])})"
        )
    return f"{mean:.{decimals}f} ({'-' if isnan(sd) else f'{sd:.{decimals}f}'})"


def _table_one_share(count: float, whole: int) -> str:
    return f"{int(count)} ({100 * count / whole:.1f}%)" if whole else "0"


def _table_one_interval(found: TallyQuantile) -> str:
    if isnan(found.low):
        return "-"
    if found.low == found.high:
        return f"{found.low:g}"
    return f"{found.low:g} to {found.high:g}"
