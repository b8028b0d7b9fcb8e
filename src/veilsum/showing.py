"""Rendering of results: the answer first, then its basis, with details folded.

A value describes its display once (`Rendering`: a title, sentences, tables), from which
`Renderable` makes text for a terminal and HTML for a notebook. Text fits in 80 columns.
HTML takes its colours from the page around it, for light and dark themes, loads
nothing, and lets a wide table scroll in its own box.

Numbers are rounded to significant digits and never cut. Names are never shortened: two
levels of a category often differ in their last letters only. Names may come from other
parties, so control sequences and markup in them are escaped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from math import isfinite
from numbers import Integral
from typing import Any, TypeAlias
from unicodedata import combining, east_asian_width

from veilsum.errors import InvalidInputError, MissingExtraError, printable

Cell: TypeAlias = str | int | float | None

DIGITS = 5
GAP = "  "
WIDTH = 78
LEAST_ROOM = 16  # for names, before they get lines of their own
LEAST_PROSE = 16  # for sentences in a table, before its columns are split
MOST_IN_LINE = 6  # of numbers in a sentence
MOST_ITEMS = 12  # of lines under a heading, where all are to be had elsewhere
MOST_ROWS = 40  # of a table that is unfolded
# Where figures are drawn: above all that has something to draw, so looked up late.
DRAWING = "veilsum.report.drawing"

# Every colour is that of the page around it; lines are the text's own, made pale.
_BOX = "overflow-x:auto;max-width:100%;margin:.5em 0"
_TABLE = (
    "border-collapse:collapse;background:transparent;color:inherit;margin:0;"
    "border-top:1px solid currentColor;border-bottom:1px solid currentColor;"
    "font-variant-numeric:tabular-nums;overflow-wrap:normal"
)
_CELL = (
    "padding:.15em .7em;background:transparent;color:inherit;text-align:{way};"
    "vertical-align:top"
)
_HELD = ";white-space:nowrap"  # of a number: 7.2e-12 would break at its sign
_HEAD = "border-bottom:1px solid currentColor;font-weight:600"
_NOTE = "margin:.3em 0;max-width:46em"


@dataclass(frozen=True)
class ShownTable:
    """A table to be shown.

    Attributes:
        headers: of the columns, and the keys of rows that are mappings.
        rows: text, numbers, or None for what there is not.
        title: what the table is of, on a line above it.
        align: a letter for each column: < left, > right, . on the decimal point.
            Without it text is left, whole numbers right and others on the point.
    """

    headers: Sequence[str]
    rows: Sequence[Mapping[str, Cell] | Sequence[Cell]]
    title: str = ""
    align: str | None = None

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Cell]], title: str = "") -> ShownTable:
        """Return a table with a column for each key, in the order they appear."""
        return cls(list(dict.fromkeys(key for row in rows for key in row)), rows, title)

    @property
    def cells(self) -> list[Sequence[Cell]]:
        """The rows as lists, in the order of the headers."""
        return [
            [row.get(one) for one in self.headers] if isinstance(row, Mapping) else row
            for row in self.rows
        ]

    @property
    def ways(self) -> str:
        """Alignment of each column."""
        columns = zip(self.headers, *self.cells, strict=False)  # checked below
        ways = (
            "".join(map(_shown_column_alignment, columns))
            if self.align is None
            else self.align
        )
        sizes = {len(row) for row in self.cells}
        if {len(ways), *sizes} != {len(self.headers) or 1} or set(ways) - set("<>."):
            raise InvalidInputError(
                "a table needs a cell in each row, and one of < > . in align, for each "
                f"of its headers: found {len(self.headers)} headers, {ways!r}, and "
                f"rows of {', '.join(map(str, sorted(sizes)))} cells",
                code="ragged-table",
            )
        return ways

    def text(self, width: int | None = None, *, wide: bool = False) -> str:
        """Return it as plain text, in parts if it is wider than that.

        Args:
            width: that lines have at most.
            wide: whether lines have all of it, and the table is in one part.
        """
        ways, shown = self.ways, [list(map(shown_cell_text, row)) for row in self.cells]
        columns = [
            padded_shown_column(printable(header), list(cells), way)
            for header, way, *cells in zip(self.headers, ways, *shown, strict=True)
        ]
        lines = (
            shown_table_lines(columns, width)
            if wide
            else _shown_column_lines(columns, width)
        )
        if width is not None and max(map(terminal_width, lines)) > width and not wide:
            lines = [*_split_shown_table(columns, ways, width)]
        above = wrapped_lines(self.title, width or WIDTH) if self.title else []
        return "\n".join([*above, *lines])

    def html(self) -> str:
        """Return it for a browser, in a box that scrolls."""
        ways = ["left" if way == "<" else "right" for way in self.ways]
        head = "".join(
            f'<th style="{_CELL.format(way=way)};{_HEAD}">{safe_for_html(one)}</th>'
            for one, way in zip(self.headers, ways, strict=True)
        )
        head = f"<thead><tr>{head}</tr></thead>" if any(self.headers) else ""
        body = "".join(
            f"<tr>{_shown_cells_as_html(row, ways)}</tr>" for row in self.cells
        )
        above = (
            f'<p style="{_NOTE}">{safe_for_html(self.title)}</p>' if self.title else ""
        )
        return (
            f'{above}<div style="{_BOX}"><table style="{_TABLE}">{head}<tbody>{body}'
            "</tbody></table></div>"
        )


@dataclass(frozen=True)
class ShownBothWays:
    """Something whose text and HTML are made elsewhere, and say the same.

    Attributes:
        text: its lines, without anything that steers a terminal.
        html: its markup, with all that is not markup escaped.
    """

    text: str
    html: str

    @classmethod
    def letters(cls, text: str) -> ShownBothWays:
        """Return a picture made of letters."""
        lines = "\n".join(map(printable, text.split("\n")))
        style = f"{_BOX};background:transparent;color:inherit;line-height:1.2"
        return cls(lines, f'<pre style="{style}">{escape(lines)}</pre>')


@dataclass(frozen=True)
class ShownItems:
    """Lines under a heading.

    Attributes:
        title: the heading.
        lines: below it, each by itself.
        more: where the others are, if these are too many to be read.
    """

    title: str
    lines: Sequence[str]
    more: str = ""

    @property
    def few(self) -> list[str]:
        """The first of many lines, and how many there are beside."""
        rest = len(self.lines) - MOST_ITEMS
        if rest <= 0 or not self.more:
            return [*self.lines]
        return [*self.lines[:MOST_ITEMS], f"and {rest:,} more ({self.more})"]

    def text(self, width: int = WIDTH) -> str:
        """Return it as plain text."""
        below = [wrapped_lines(one, width - 2, indent="  ") for one in self.few]
        lines = [f"  {line}" for one in below for line in one]
        return "\n".join([*wrapped_lines(self.title, width), *lines])

    def html(self) -> str:
        """Return it for a browser."""
        lines = "".join(f"<li>{safe_for_html(one)}</li>" for one in self.few)
        title = (
            f'<p style="{_NOTE}">{safe_for_html(self.title)}</p>' if self.title else ""
        )
        return f'{title}<ul style="{_NOTE}">{lines}</ul>'


# A sentence; sentences that each begin a line; lines under a heading; a table.
Block: TypeAlias = str | tuple[str, ...] | ShownItems | ShownTable | ShownBothWays


@dataclass(frozen=True)
class Rendering:
    """Display of a value.

    Attributes:
        title: the answer, or a description of it, in a sentence.
        blocks: sentences and tables: the rest of the answer, then its basis.
        folded: details for some readers, by heading.
    """

    title: str
    blocks: Sequence[Block] = ()
    folded: Mapping[str, Sequence[Block]] = field(default_factory=dict)

    def also(
        self, *blocks: Block, folded: Mapping[str, Sequence[Block]] | None = None
    ) -> Rendering:
        """Return the same with more below."""
        more = {**self.folded, **(folded or {})}
        return replace(self, blocks=(*self.blocks, *blocks), folded=more)

    def text(self, *, whole: bool = True, width: int = WIDTH) -> str:
        """Return it as plain text; what is folded is named, or is there if whole."""
        kept = {name: part for name, part in self.folded.items() if part}
        parts = [
            _shown_block_as_text(self.title, width),
            *(_shown_block_as_text(one, width) for one in self.blocks),
        ]
        if whole:
            parts += [
                _unfold_shown_part(name, part, width) for name, part in kept.items()
            ]
        elif kept:
            named = ", ".join(
                f"{one.lower()} ({_shown_part_size(kept[one])})" for one in kept
            )
            parts.append(_shown_block_as_text(f"print() also shows: {named}", width))
        return "\n\n".join(filter(None, parts))

    def html(self) -> str:
        """Return it for a notebook or a page."""
        folded = "".join(
            '<details style="margin:.3em 0">'
            f"<summary>{safe_for_html(name)} ({_shown_part_size(part)})"
            f"</summary>{_shown_part_as_html(part)}</details>"
            for name, part in self.folded.items()
            if part
        )
        title = (
            f"<p><strong>{safe_for_html(self.title)}</strong></p>" if self.title else ""
        )
        body = "".join(map(_shown_block_as_html, self.blocks))
        style = "max-width:100%;overflow-wrap:anywhere"
        return f'<div style="{style}">{title}{body}{folded}</div>'


class Renderable:
    """A mixin for results: `showing` says what there is to see, all else follows.

    A REPL shows the answer and what it rests on; `print` the details as well; a
    notebook has them folded.
    """

    __slots__ = ()

    def showing(self) -> Rendering:
        """Return what there is to see."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it shows")

    def __repr__(self) -> str:
        return self.showing().text(whole=False)

    def __str__(self) -> str:
        return self.showing().text()

    def _repr_html_(self) -> str:
        return self.showing().html()

    def plot(self, **options: Any) -> Any:
        """Return a figure of it, where there is something to draw.

        Args:
            options: `title` for nearly all, and by what is drawn:
                fits: `exponentiate`, whether exp of coefficients is drawn, on a
                logarithmic axis (default: where it is a ratio, of odds, rates or
                hazards); `intercept`, whether that is drawn too; `scaled`, whether
                each is drawn in its own standard errors (default: if units differ
                much). Meta-analyses: `exponentiate`. Survival: `life_table`.
                Statistics: `of`, a column, two crossed columns, "means" or, with
                groups, "differences". Guarantees: `topology`. Networks: `corrupted`.
                Plans: `network`. Sweeps: `x` and `y`. Executions: `coefficient`. The
                paper's report: `densities`. Others are refused by name.
        """
        # By name: figures are drawn above everything that they are drawn of.
        try:
            drawing = import_module(DRAWING)
        except ModuleNotFoundError as error:
            if error.name != DRAWING:
                raise
            raise MissingExtraError(
                "this installation of veilsum draws no figures of results",
                code="missing-extra",
            ) from None
        return drawing.draw(self, **options)


# Text


def shown_number(value: float, digits: int = DIGITS) -> str:
    """Return a number with so many significant digits.

    Digits before the point all stay; the very large and the very small is scientific.

    >>> [shown_number(each) for each in (1829.1514, -3482258.63, 0.00002)]
    ['1829.2', '-3.4823e+06', '2.0000e-05']
    >>> shown_number(123456.7, 3)
    '123457'
    """
    if value == 0.0 or not isfinite(value):
        return f"{value:g}".replace("-0", "0")
    scientific = f"{value:.{digits - 1}e}"
    exponent = int(scientific.partition("e")[2])  # after rounding: 9.999999 is 10
    if not -4 <= exponent <= max(5, digits):
        return scientific
    return f"{value:.{max(digits - 1 - exponent, 0)}f}"


def counted_words(count: int, what: str) -> str:
    """Return how many there are of something.

    >>> counted_words(1, "party"), counted_words(1200, "sum")
    ('1 party', '1,200 sums')
    """
    many = f"{what.removesuffix('y')}ies" if what.endswith("ty") else f"{what}s"
    return f"{count:,} {what if count == 1 else many}"


def numbers_in_line(values: Sequence[float]) -> str:
    """Return numbers for a sentence: all of a few, the first of many.

    >>> numbers_in_line([9, 12]), numbers_in_line([0.1] * 9)
    ('9, 12', '0.1, 0.1, 0.1, 0.1, 0.1, 0.1 and 3 more')
    """
    few = ", ".join(map(shown_figure_text, values[:MOST_IN_LINE]))
    more = len(values) - MOST_IN_LINE
    return few if more <= 0 else f"{few} and {more:,} more"


def shown_figure_text(value: float) -> str:
    """Return an answer: whole numbers to the last digit, others to ten of them."""
    return str(value) if _is_whole_shown_value(value) else f"{value:.10g}"


def _is_whole_shown_value(value: object) -> bool:
    return isinstance(value, Integral)  # numpy's are, too


def shown_cell_text(cell: Cell) -> str:
    """Return what stands in a cell."""
    if cell is None or isinstance(cell, str):
        return "-" if cell is None else printable(cell)
    return str(cell) if _is_whole_shown_value(cell) else shown_number(cell)


def shown_table_lines(columns: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return the lines; a first cell that does not fit gets its own, above its row."""
    lines = zip(*columns, strict=True)
    tails = ["".join(GAP + cell for cell in cells) for _, *cells in lines]
    longest, taken = terminal_width(columns[0][0]), terminal_width(tails[0])
    left = longest if width is None else width - taken
    room = max(left, min(longest, LEAST_ROOM))
    rows: list[list[str]] = []
    for name, tail in zip(map(str.rstrip, columns[0]), tails, strict=True):
        above = wrapped_lines(name, room + taken) if terminal_width(name) > room else []
        rows.append(
            [*above, (fill_to_width("" if above else name, room) + tail).rstrip()]
        )
    rows.insert(1, ["-" * (room + taken)])
    return [line for row in rows for line in row]


def padded_shown_column(header: str, cells: list[str], way: str) -> list[str]:
    """Return a column, its header first, with texts of one width."""
    if way == ".":
        # What follows the whole digits, the exponent too, is filled up on the right.
        ends = [re.sub(r"^([-+]?\d+|\D.*)", "", cell) for cell in cells]
        longest = max(map(len, ends), default=0)
        cells = [c + " " * (longest - len(e)) for c, e in zip(cells, ends, strict=True)]
    texts = [header, *cells]
    size = max(map(terminal_width, texts))
    return [fill_to_width(text, size, left=way == "<") for text in texts]


def wrapped_lines(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text as lines of at most so many places."""
    shown = printable(" ".join(text.split()))
    letters = width // 2 if terminal_width(shown) > len(shown) else width
    return textwrap.wrap(shown, letters, subsequent_indent=indent)


def terminal_width(text: str) -> int:
    """Return how many places of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(1 + (east_asian_width(c) in "WF") for c in text if not combining(c))


def fill_to_width(text: str, size: int, *, left: bool = True) -> str:
    """Return the text with spaces up to so many places."""
    space = " " * (size - terminal_width(text))
    return text + space if left else space + text


def safe_for_html(text: str) -> str:
    """Return text as a browser shows it, and never obeys it.

    >>> safe_for_html("<b>dose</b>")
    '&lt;b&gt;dose&lt;/b&gt;'
    """
    return escape(printable(text))


def _shown_column_alignment(column: Sequence[Cell]) -> str:
    figures = [
        cell for cell in column if cell is not None and not isinstance(cell, str)
    ]
    whole = all(_is_whole_shown_value(one) for one in figures)
    return "<" if not figures else ">" if whole else "."


def _shown_column_lines(
    columns: Sequence[Sequence[str]], width: int | None
) -> list[str]:
    """Return lines that are as long as they need be, and within a width if they can."""
    lines = shown_table_lines(columns, None)
    beyond = width is not None and max(map(terminal_width, lines)) > width
    return shown_table_lines(columns, width) if beyond else lines


def _split_shown_table(
    columns: list[list[str]], ways: str, width: int
) -> Iterable[str]:
    """Yield a table that is too wide: its last text wrapped, or columns in parts."""
    room = width - sum(terminal_width(one[0]) + len(GAP) for one in columns[:-1])
    if ways[-1] == "<" and room >= LEAST_PROSE:
        yield from _shown_prose_lines(columns, room)
        return
    names, left = columns[0], columns[1:]
    room = min(terminal_width(names[0]), width // 2)
    while left:
        taken, many = room, 0
        while (
            many < len(left)
            and taken + len(GAP) + terminal_width(left[many][0]) <= width
        ):
            taken += len(GAP) + terminal_width(left[many][0])
            many += 1
        if len(left) < len(columns) - 1:
            yield ""
        yield from _shown_column_lines([names, *left[: max(many, 1)]], width)
        left = left[max(many, 1) :]


def _shown_prose_lines(columns: list[list[str]], room: int) -> Iterable[str]:
    for k, (*cells, last) in enumerate(zip(*columns, strict=True)):
        start = "".join(cell + GAP for cell in cells)
        lines = wrapped_lines(last, room) or [""]
        yield (start + lines[0]).rstrip()
        yield from (" " * terminal_width(start) + line for line in lines[1:])
        if not k:
            yield "-" * (terminal_width(start) + room)


def _shown_block_as_text(block: Block, width: int) -> str:
    if isinstance(block, str | tuple):
        said = (block,) if isinstance(block, str) else block
        return "\n".join(line for one in said for line in wrapped_lines(one, width))
    return block.text if isinstance(block, ShownBothWays) else block.text(width)


def _shown_part_size(part: Sequence[Block]) -> int:
    return sum(len(one.rows) if isinstance(one, ShownTable) else 1 for one in part)


def _unfold_shown_part(name: str, part: Sequence[Block], width: int) -> str:
    lines = [one for one in part if isinstance(one, str)]
    others = [
        _shown_block_as_text(one, width) for one in part if not isinstance(one, str)
    ]
    return "\n\n".join([ShownItems(f"{name}:", lines).text(width), *others])


def _shown_part_as_html(part: Sequence[Block]) -> str:
    lines = [one for one in part if isinstance(one, str)]
    others = [_shown_block_as_html(one) for one in part if not isinstance(one, str)]
    return "".join([ShownItems("", lines).html() if lines else "", *others])


def _shown_block_as_html(block: Block) -> str:
    if isinstance(block, str | tuple):
        said = (block,) if isinstance(block, str) else block
        return f'<p style="{_NOTE}">{"<br>".join(map(safe_for_html, said))}</p>'
    return block.html if isinstance(block, ShownBothWays) else block.html()


def _shown_cells_as_html(row: Sequence[Cell], ways: Sequence[str]) -> str:
    return "".join(
        f'<td style="{_CELL.format(way=way)}{_HELD if way == "right" else ""}">'
        f"{safe_for_html(shown_cell_text(cell))}</td>"
        for cell, way in zip(row, ways, strict=True)
    )
