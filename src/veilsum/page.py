"""One page of HTML in one file: text in, bytes out, nothing fetched and nothing run.

Whatever is given as text is shown as text: only what a function here has made is read
as HTML. So a title, a name or a level of a file cannot become a tag, an attribute, a
link or a style. Should one ever do so, the page forbids the browser to run anything or
to ask anybody for anything.

What is folded is there for who looks for it; on paper all of it is open (`unfolded`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias
from unicodedata import bidirectional

from veilsum.errors import printable
from veilsum.showing import (
    Block,
    Rendering,
    ShownBothWays,
    ShownTable,
    safe_for_html,
    shown_cell_text,
)

# More of one text, or of one table, nobody reads on a page; that there is more is said.
MOST_LETTERS, MOST_ROWS = 4_000, 400
MOST_FOOT = 110  # letters of a title that fit below a page of paper
# Letters that are written from right to left, and numbers among them.
FROM_THE_RIGHT = frozenset({"R", "AL", "AN"})
NOTHING_FROM_OUTSIDE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
FOLDED = "<details>"
# A command inside a sentence: its names, what it is given, its options.
COMMAND = re.compile(
    r"\bveilsum(?: [a-z]+)+ [A-Z]{2,}\b(?: --[a-z]+(?: (?:[A-Z]{2,}|dpo)\b)?)*"
)


class PageHtml(str):
    """Text that a browser reads as HTML; made by the functions of this module."""

    __slots__ = ()


Part: TypeAlias = "str | PageHtml"


def html(part: Part) -> PageHtml:
    r"""Return a text as HTML that shows it, and nothing else; HTML as it is.

    What cannot be seen is written as its code, and letters that run from right to left
    do not turn those around them.

    >>> print(html("<b>dose\u202e</b>"))
    &lt;b&gt;dose\u202e&lt;/b&gt;
    """
    if isinstance(part, PageHtml):
        return part
    shown = printable(part[:MOST_LETTERS])
    if len(part) > MOST_LETTERS:
        shown += f" ... and {len(part) - MOST_LETTERS:,} letters more"
    if shown.isascii():
        return PageHtml(safe_for_html(shown))
    runs = groupby(shown, lambda letter: bidirectional(letter) in FROM_THE_RIGHT)
    found = ((turned, safe_for_html("".join(letters))) for turned, letters in runs)
    return PageHtml("".join(f"<bdi>{t}</bdi>" if turned else t for turned, t in found))


def together(*parts: Part) -> PageHtml:
    """Return several parts one after the other."""
    return PageHtml("".join(map(html, parts)))


def tag(name: str, *parts: Part, **attributes: str) -> PageHtml:
    """Return an element; `class_` is the attribute class, `aria_label` aria-label."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html(value)}"'
        for key, value in attributes.items()
    )
    return PageHtml(f"<{name}{given}>{together(*parts)}</{name}>")


def paragraph(*parts: Part) -> PageHtml:
    """Return a paragraph."""
    return tag("p", *parts)


def notice(*parts: Part, bad: bool = False) -> PageHtml:
    """Return what nobody must miss in a box; a bad one is marked as such."""
    return tag("div", *parts, class_="notice bad" if bad else "notice")


def listing(items: Iterable[Part]) -> PageHtml:
    """Return a list with a dot before every item; of many the first, which is said."""
    given = [*items]
    more = len(given) - MOST_ROWS
    rest = [f"and {more:,} more, which are not on this page"] if more > 0 else []
    return tag("ul", *(tag("li", one) for one in [*given[:MOST_ROWS], *rest]))


def commands(text: str) -> PageHtml:
    """Return what is typed, line by line; a long line scrolls in its own box."""
    lines = PageHtml("\n".join(html(line) for line in text.split("\n")))
    return tag("pre", tag("code", lines), tabindex="0")


def with_commands(text: str) -> PageHtml:
    """Return a text whose commands are set apart; no word of one is split.

    >>> print(with_commands("veilsum audit FILE tries it."))
    <code><span>veilsum</span> <span>audit</span> <span>FILE</span></code> tries it.
    """
    made, last = [], 0
    for found in COMMAND.finditer(text):
        words = [tag("span", one) for one in found[0].split(" ")]
        made += [
            html(text[last : found.start()]),
            tag("code", PageHtml(" ".join(words))),
        ]
        last = found.end()
    return together(*made, text[last:])


def facts(pairs: Iterable[tuple[Part, Part]]) -> PageHtml:
    """Return names and what is so called."""
    rows = (together(tag("dt", name), tag("dd", what)) for name, what in pairs)
    return tag("dl", *rows)


def table(
    columns: Sequence[Part], rows: Sequence[Sequence[Part]], *, caption: str = ""
) -> PageHtml:
    """Return a table that scrolls in its own box; columns of numbers end alike.

    Args:
        columns: their names; no line for them if all are empty.
        rows: as many cells each.
        caption: what it is a table of.
    """
    first = rows[:MOST_ROWS]
    numbers = [
        bool(first) and all(_is_number(row[place]) for row in first)
        for place in range(len(columns))
    ]
    looks = [{"class_": "number"} if right else {} for right in numbers]
    head = (
        tag("th", one, scope="col", **look)
        for one, look in zip(columns, looks, strict=True)
    )
    body = (
        tag(
            "tr",
            *(tag("td", one, **look) for one, look in zip(row, looks, strict=True)),
        )
        for row in first
    )
    more = len(rows) - len(first)
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption) if caption else PageHtml(),
            tag("thead", tag("tr", *head)) if any(columns) else PageHtml(),
            tag("tbody", *body),
        ),
        paragraph(f"and {more:,} more rows, which are not on this page")
        if more
        else PageHtml(),
        class_="wide",
        tabindex="0",
        role="region",
        aria_label=caption or "table",
    )


def words(pairs: Iterable[tuple[Part, Part]]) -> PageHtml:
    """Return words and what they mean, side by side where there is room."""
    told = (together(tag("b", name), ": ", meaning) for name, meaning in pairs)
    return tag("ul", *(tag("li", one) for one in told), class_="words")


def beside(*parts: Part) -> PageHtml:
    """Return parts beside each other, and below each other on a narrow screen."""
    return tag("div", *(tag("div", one) for one in parts), class_="beside")


def prose(
    columns: Sequence[Part],
    rows: Sequence[Sequence[Part]],
    *,
    widths: Sequence[int] = (),
) -> PageHtml:
    """Return a table of sentences; on a narrow screen its cells stand below each other.

    Args:
        columns: their names.
        rows: as many cells each.
        widths: of each column, in percent; as their texts are long by default.
    """
    return tag(
        "table",
        *(PageHtml(f'<col style="width: {width}%">') for width in widths),
        tag("thead", tag("tr", *(tag("th", one, scope="col") for one in columns))),
        tag(
            "tbody",
            *(
                tag(
                    "tr",
                    *(
                        tag("td", tag("div", cell), data_label=name)
                        for name, cell in zip(columns, row, strict=True)
                    ),
                )
                for row in rows
            ),
        ),
        class_="prose",
    )


def _is_number(cell: Part) -> bool:
    """Say whether a cell is a number, or stands for one that is not there."""
    try:
        float(cell.replace(",", "").rstrip("%"))
    except ValueError:
        return cell in {"", "-"}
    return True


def figure(svg: bytes, *, alt: str, caption: Part = "") -> PageHtml:
    """Return a drawing (SVG) as an image: nothing in it can run or be fetched.

    Args:
        svg: its file.
        alt: what it shows, for who cannot see it.
        caption: what stands below.
    """
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    image = PageHtml(f'<img alt="{html(alt)}" src="{source}">')
    return tag("figure", image, *([tag("figcaption", caption)] if caption else []))


def folded(title: Part, *parts: Part) -> PageHtml:
    """Return parts of which only the title shows until somebody opens them."""
    return PageHtml(f"{FOLDED}{tag('summary', title)}{together(*parts)}</details>")


def shown(showing: Rendering) -> PageHtml:
    """Return a result as it shows itself, what it has folded below."""
    return together(
        tag("p", showing.title, class_="answer") if showing.title else PageHtml(),
        *map(_block, showing.blocks),
        *(
            folded(name, *_details(parts))
            for name, parts in showing.folded.items()
            if parts
        ),
    )


def _details(parts: Sequence[Block]) -> Iterable[PageHtml]:
    said = [one for one in parts if isinstance(one, str)]
    return [listing(said)] if len(said) == len(parts) else map(_block, parts)


def _block(block: Block) -> PageHtml:
    if isinstance(block, str):
        return paragraph(block)
    if isinstance(block, tuple):
        return paragraph(PageHtml("<br>".join(map(html, block))))
    if isinstance(block, ShownTable):
        rows = [[shown_cell_text(cell) for cell in row] for row in block.cells]
        return table(block.headers, rows, caption=block.title)
    assert isinstance(block, ShownBothWays)
    return tag("div", PageHtml(block.html), class_="wide fixed")


@dataclass(frozen=True)
class PageSection:
    """Section of a page: a heading and its parts."""

    heading: str
    parts: tuple[Part, ...]


def section(heading: str, *parts: Part) -> PageSection:
    """Return a section with a heading and its parts."""
    return PageSection(heading, parts)


def page(
    title: str,
    *sections: PageSection,
    lead: Sequence[Part] = (),
    language: str = "en",
    contents: str = "On this page",
) -> bytes:
    """Return a whole page as a file has it.

    Args:
        title: its first heading.
        sections: in order.
        lead: what stands before them.
        language: of what is written, such as en or de.
        contents: the words before the list of sections; none without a list.
    """
    places = {f"part-{place}": one for place, one in enumerate(sections, start=1)}
    links = listing(
        tag("a", one.heading, href=f"#{place}") for place, one in places.items()
    )
    head = together(
        PageHtml('<meta charset="utf-8">'),
        PageHtml(
            '<meta http-equiv="Content-Security-Policy" '
            f'content="{NOTHING_FROM_OUTSIDE}">'
        ),
        PageHtml(
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
        ),
        PageHtml('<meta name="referrer" content="no-referrer">'),
        PageHtml('<meta name="color-scheme" content="light dark">'),
        tag("title", title),
        tag("style", PageHtml(CSS), PageHtml(_foot(title))),
    )
    body = tag(
        "main",
        tag("header", tag("h1", title), *lead),
        tag("nav", tag("p", contents), links) if contents and sections else PageHtml(),
        *(
            tag("section", tag("h2", one.heading), *one.parts, id=place)
            for place, one in places.items()
        ),
    )
    whole = tag("html", tag("head", head), tag("body", body), lang=language)
    return f"<!doctype html>\n{whole}\n".encode()


def _foot(title: str) -> str:
    """Return the style that writes a title below every page of paper.

    Every letter but those of plain words is written as its code, so that none ends the
    text, the style or its element.
    """
    shown = printable(title)
    shown = shown if len(shown) <= MOST_FOOT else shown[: MOST_FOOT - 3] + "..."
    text = "".join(
        one if one.isascii() and one.isalnum() else f"\\{ord(one):06x}" for one in shown
    )
    return f'@page {{ @bottom-left {{ content: "{text}"; font: 8pt sans-serif; }} }}\n'


def unfolded(made: bytes) -> bytes:
    """Return a page for paper, where nobody can open what is folded.

    Text is escaped, so that these letters are only where a part begins to be folded.
    """
    return made.replace(FOLDED.encode(), b"<details open>")


CSS = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #59636e;
  --line: #d1d9e0; --box: #f6f8fa; --accent: #005a8f; --bad: #a4300a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --paper: #14181d;
  --soft: #9aa5b1; --line: #3a434d; --box: #1d232a; --accent: #6cb8e6; --bad: #ff9d76; }
  figure img { filter: invert(0.91) hue-rotate(180deg); } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
p, li, dd, td, th, summary, h1, h2, h3 { overflow-wrap: anywhere; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 2.5rem 0 0.75rem;
  padding-top: 0.75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.5rem 0 0.5rem; }
a { color: var(--accent); }
nav { background: var(--box); border-radius: 0.4rem; padding: 0.5rem 1rem; }
nav p { margin: 0; color: var(--soft); font-size: 0.9rem; }
nav ul { columns: 16rem; margin: 0.25rem 0; padding-left: 1.1rem; }
.answer { font-size: 1.15rem; }
.soft, figcaption, caption { color: var(--soft); font-size: 0.9rem; }
.good, .bad { font-weight: 600; }
.good { color: var(--accent); }
.bad { color: var(--bad); }
.notice { border-left: 0.3rem solid var(--accent); background: var(--box);
  padding: 0.6rem 0.9rem; margin: 1rem 0; font-weight: 400; }
.notice > p { margin: 0.3rem 0; }
.notice.bad { border-color: var(--bad); color: var(--ink); }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.93rem; }
caption { text-align: left; padding-bottom: 0.3rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.9rem 0.3rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: normal; max-width: 34rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide td:first-child, .fixed td, .fixed th { white-space: nowrap; }
pre { overflow-x: auto; background: var(--box); border-radius: 0.4rem;
  padding: 0.75rem 1rem; font-size: 0.85rem; line-height: 1.4; }
code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
code span { white-space: nowrap; }
dl { display: grid; grid-template-columns: minmax(8rem, auto) 1fr; gap: 0.3rem 1.2rem; }
dt { color: var(--soft); }
dd { margin: 0; }
figure { margin: 1.25rem 0; }
figure img, figure svg { display: block; max-width: 100%; height: auto; }
svg text { font-family: inherit; }
details { border: 1px solid var(--line); border-radius: 0.4rem; margin: 0.75rem 0;
  padding: 0 1rem; }
summary { cursor: pointer; padding: 0.6rem 0; }
details > :last-child { margin-bottom: 1rem; }
.prose { margin: 1rem 0; width: 100%; }
.prose ul { margin: 0; padding-left: 1.1rem; }
.words { columns: 20rem; column-gap: 2rem; padding-left: 1.1rem; }
.words li { break-inside: avoid; }
.beside { display: flex; flex-wrap: wrap; gap: 0 2rem; }
.beside > :first-child { flex: 1 1 18rem; }
.beside > :last-child { flex: 0 1 22.5rem; }
@media (max-width: 34rem) { .prose thead, .prose col { display: none; }
  .prose, .prose tbody { display: block; }
  .prose tr { display: block; border-bottom: 2px solid var(--line); padding: 0.4rem 0; }
  .prose td { display: block; border: 0; max-width: none; padding: 0.2rem 0; }
  .prose td:first-child { font-weight: 600; }
  .prose td:not(:first-child)::before { content: attr(data-label); display: block;
    color: var(--soft); font-size: 0.85rem; font-weight: 400; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 0.6rem; } h1 { font-size: 1.45rem; } }
@media print { :root { --ink: #000; --paper: #fff; --soft: #444; --line: #bbb;
  --box: #f4f4f4; --accent: #003f66; --bad: #7a1f00; }
  body { font: 8.5pt/1.2 Arial, "Helvetica Neue", "Liberation Sans", sans-serif; }
  h1 { font-size: 14pt; margin: 0 0 0.4rem; }
  h2 { font-size: 11pt; margin: 0.4rem 0 0.15rem; padding-top: 0.15rem; }
  ul { margin: 0.15rem 0; padding-left: 1.1rem; } p { margin: 0.2rem 0; }
  main { max-width: none; padding: 0; }
  nav { display: none; } figure img { filter: none; }
  td:first-child { white-space: normal; }
  .prose { font-size: 8pt; margin: 0.3rem 0; } .prose tr { break-inside: auto; }
  .prose td { padding: 0.12rem 0.6rem 0.12rem 0; max-width: none; }
  .prose ul { padding-left: 0.8rem; } .words { columns: 2; font-size: 8pt; }
  .beside > :last-child { flex: 0 0 64mm; } figcaption { font-size: 8pt; }
  .notice { margin: 0.3rem 0; padding: 0.1rem 0.7rem; } figure { margin: 0.3rem 0; }
  .notice > p { margin: 0.1rem 0; }
  pre { white-space: pre-wrap; } .wide { overflow: visible; }
  h2, h3 { break-after: avoid; } figure, tr, .notice { break-inside: avoid; } }
@page { size: A4; margin: 11mm 13mm 12mm;
  @bottom-right { content: counter(page) " / " counter(pages); font: 8pt sans-serif; } }
"""
