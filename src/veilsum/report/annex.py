"""The annex for a data-protection officer: who learns what of a plan, in plain words.

A few pages, made of the facts of a plan (`plan_facts`) and of sentences that are
checked (`sentences`). The same paper is shown as a page of HTML and as a text document;
`forms` puts the same sentences where the forms of authorities want them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, TypeAlias

from veilsum import page as pages
from veilsum.errors import MissingExtraError, install_advice, printable
from veilsum.locale import LocaleLine, catalogue, statistic_meaning
from veilsum.report.plan_facts import PlanFacts, SumFacts
from veilsum.report.sentences import (
    report_day,
    report_number_rounded_down,
    report_risks,
    report_sentences_in,
    report_values,
    report_words,
)
from veilsum.sums.wording import quoted_for_release

if TYPE_CHECKING:
    from docx.document import Document

# Who learns something, in this order; each has sentences that say what, and what not.
WHO = (
    *("guest", "host", "member", "coalition", "beyond", "everybody", "organiser"),
    *("relay", "carrier", "listener", "staff", "authors", "reader"),
)


# A paper: what is said, before it is HTML or a text document


@dataclass(frozen=True)
class AnnexLines:
    """Sentences, one after the other; alarms are marked, items have a dot."""

    texts: tuple[str, ...]
    look: str = "plain"  # or "alarm", "items"


@dataclass(frozen=True)
class SentenceTable:
    """A table whose cells hold one text or several.

    Attributes:
        widths: of each column, in percent; none for words and what they mean, which
            need no columns where there are no tables.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], ...], ...]
    widths: tuple[int, ...] = ()


@dataclass(frozen=True)
class AnnexBars:
    """Chances from a half to one, each with its name; None where none is promised."""

    caption: str
    bars: tuple[tuple[str, float | None], ...]
    nothing: str


Block: TypeAlias = AnnexLines | SentenceTable | AnnexBars


@dataclass(frozen=True)
class PaperPart:
    """Section of a paper: a heading and its blocks; level 2 is a subsection."""

    heading: str
    blocks: tuple[Block, ...]
    level: int = 1


@dataclass(frozen=True)
class AnnexPaper:
    """A whole paper."""

    title: str
    language: str
    lead: tuple[Block, ...]
    parts: tuple[PaperPart, ...]


def annex_paper_title(name: str, facts: PlanFacts) -> str:
    """Return what a paper is called: which paper, and of which plan."""
    own = facts.title or ("" if facts.survey is None else facts.survey.terms.title)
    plan = (
        quoted_for_release(own) if own else facts.run or quoted_for_release(facts.file)
    )
    return f"{name}: {plan}"


def annex_paper_texts(facts: PlanFacts, part: str, language: str) -> tuple[str, ...]:
    """Return what is said of a plan in one place."""
    return tuple(one.text(facts, language) for one in report_sentences_in(facts, part))


def unprotected_in_paper(facts: PlanFacts, language: str) -> tuple[str, ...]:
    """Return what is not protected, with what each kind of question adds."""
    own = dict.fromkeys(line for one in facts.questions for line in one.own_limits)
    if facts.survey is not None:
        own = {}  # all of it is among the sentences about surveys
    return (
        *annex_paper_texts(facts, "open", language),
        *(
            f"{report_words(language, 'words')['own']}"
            f"{paper_limit_of_party(one, language)}."
            for one in own
        ),
    )


def who_learns_what(
    facts: PlanFacts, language: str
) -> dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Return who learns what of a plan: name, what it learns, and what not."""
    filled, names = report_values(facts, language), report_words(language, "who")
    found = {}
    for key in WHO:
        learns = annex_paper_texts(facts, f"{key}+", language)
        if learns:
            missing = annex_paper_texts(facts, f"{key}-", language)
            found[key] = (names[key].format_map(filled), learns, missing)
    return found


def annex_of_plan(
    facts: PlanFacts, language: str, now: datetime | None = None
) -> AnnexPaper:
    """Return the annex about a plan, with the date if one is given."""

    def plain(part: str, look: str = "items") -> AnnexLines:
        return AnnexLines(annex_paper_texts(facts, part, language), look)

    blocks: dict[str, tuple[Block, ...]] = {
        "purpose": (plain("purpose"),),
        "who": (annex_who_table(facts, language),),
        "number": (plain("number", "plain"), *paper_chance_bars(facts, language)),
        "check": (plain("check"),),
        "open": (AnnexLines(unprotected_in_paper(facts, language), "items"),),
        "risks": (annex_risk_table(facts, language),),
        "keep": (plain("keep"),),
        "verify": (plain("verify"),),
        "judge": (
            AnnexLines(
                (
                    *annex_paper_texts(facts, "judge", language),
                    *_annex_date_line(now, language),
                ),
                "items",
            ),
        ),
        "sums": (paper_of_sums(facts, language),),
    }
    lead = plain("alarm", "alarm")
    # Grades of risk are another matter than what is said of columns.
    told = [lead, *(one for key, one in blocks.items() if key != "judge")]
    blocks["words"] = (annex_glossary(facts, str(told), language),)
    return AnnexPaper(
        title=annex_paper_title(report_words(language, "words")["title"], facts),
        language=language,
        lead=(lead,),
        parts=tuple(
            PaperPart(report_words(language, "words")[key], one)
            for key, one in blocks.items()
        ),
    )


def _annex_date_line(now: datetime | None, language: str) -> Iterator[str]:
    if now is not None:
        made = report_day(now.astimezone(UTC).date().isoformat(), language)
        yield report_words(language, "words")["made"].format(day=made)


def annex_glossary(facts: PlanFacts, told: str, language: str) -> SentenceTable:
    """Return what the words of a paper mean, of those that occur in it."""
    rows = []
    for one in report_sentences_in(facts, "word"):
        name, meaning = one.written(language).split(": ", 1)
        if re.search(rf"\b{re.escape(name)}", told, re.IGNORECASE):
            rows.append(((name,), (meaning,)))
    return SentenceTable(("", ""), tuple(rows))


def annex_who_table(facts: PlanFacts, language: str) -> SentenceTable:
    columns = tuple(
        report_words(language, "words")[key] for key in ("person", "learns", "not")
    )
    found = who_learns_what(facts, language).values()
    rows = tuple(((name,), *cells) for name, *cells in found)
    return SentenceTable(columns, rows, (14, 49, 37))


def annex_risk_table(facts: PlanFacts, language: str) -> SentenceTable:
    """Return the table of risks that remain, with proposed levels."""
    columns = ("risk", "what", "likelihood", "severity")
    return SentenceTable(
        tuple(report_words(language, "words")[key] for key in columns),
        tuple(
            (
                (one.heading(language),),
                (one.text(facts, language),),
                (risk_level_word(one.likelihood(facts), language),),
                (risk_level_word(one.severity(facts), language),),
            )
            for one in report_risks(facts)
        ),
        (15, 57, 15, 13),
    )


def risk_level_word(number: int, language: str) -> str:
    return f"{report_words(language, 'grades')[str(number)]} ({number}/4)"


def paper_of_sums(facts: PlanFacts, language: str) -> Block:
    """Return every sum, in words: a table, or what guests' numbers are added to."""
    if facts.survey is not None:
        return AnnexLines(annex_paper_texts(facts, "sums", language), "items")
    columns, named = ("question", "often", "names"), report_words(language, "questions")
    return SentenceTable(
        tuple(report_words(language, "words")[key] for key in columns),
        tuple(
            (
                (
                    # One that another distribution brings has no words here.
                    named.get(question.heading, question.heading)
                    if question.name == question.heading
                    else question.name,
                ),
                (annex_paper_times(one),),
                paper_sum_lines(one, language),
            )
            for question in facts.questions
            for one in question.sums
        ),
        (14, 8, 78),
    )


def paper_sum_lines(found: SumFacts, language: str) -> tuple[str, ...]:
    told = partial(
        statistic_meaning, first=found.first, zero=not found.drops, officer=True
    )
    return tuple(
        f"{count}: {told(key, language)}"
        for key, count in found.statistics.items()
        if count
    )


def paper_limit_of_party(line: str, language: str) -> str:
    if not isinstance(line, LocaleLine):
        return line  # of a cost that somebody else wrote
    text: str = catalogue(language)["limits"][line.facts["key"]]
    return text.format_map(line.facts)


def annex_paper_times(one: SumFacts) -> str:
    return f"{one.least}" if one.least == one.most else f"{one.least} - {one.most}"


def paper_chance_bars(facts: PlanFacts, language: str) -> Iterator[AnnexBars]:
    """Yield the number as a picture, where there is one."""
    if facts.tolerate < 1 or facts.epsilon is None:
        return
    filled = report_values(facts, language)
    bars: list[tuple[str, float | None]] = [
        (report_words(language, "words")["coin"], 0.5)
    ]
    if facts.survey is not None:
        bars.append((filled["guessers"], 0.5))
        if facts.tolerate < facts.others():
            bars.append(
                (report_words(language, "words")["more"].format_map(filled), None)
            )
        bars.append((report_words(language, "words")["all"].format_map(filled), 1.0))
        yield AnnexBars(
            report_words(language, "words")["chart"],
            tuple(bars),
            report_words(language, "words")["none"],
        )
        return
    if facts.distances:
        bars += [
            (
                report_words(language, "words")["below"].format(
                    distance=report_number_rounded_down(far, language)
                ),
                chance,
            )
            for chance, far in facts.distances
        ]
    else:
        bars.append((filled["guessers"], 0.5))
    if facts.tolerate + 1 < facts.others():
        bars.append((report_words(language, "words")["some"].format_map(filled), None))
    bars.append((report_words(language, "words")["more"].format_map(filled), 1.0))
    if facts.may_lose and facts.fewest < len(facts.parties):
        bars.append((report_words(language, "words")["left"].format_map(filled), 1.0))
    yield AnnexBars(
        report_words(language, "words")["chart"],
        tuple(bars),
        report_words(language, "words")["none"],
    )


# HTML


def annex_paper_html(paper: AnnexPaper) -> bytes:
    """Return a paper as one page that fetches nothing."""
    return pages.page(
        paper.title,
        *(
            pages.section(part.heading, *_annex_blocks_as_html(part.blocks))
            for part in _fold_annex_parts(paper.parts)
        ),
        lead=[_annex_block_as_html(one) for one in paper.lead],
        language=paper.language,
        contents=report_words(paper.language, "words")["contents"],
    )


def _fold_annex_parts(parts: Sequence[PaperPart]) -> Iterator[PaperPart]:
    held: list[PaperPart] = []
    for part in parts:
        if part.level == 1:
            held.append(part)
            continue
        before = held.pop()
        under = AnnexLines((part.heading,), "heading")
        blocks = (*before.blocks, under, *part.blocks)
        held.append(PaperPart(before.heading, blocks))
    yield from held


def _annex_blocks_as_html(blocks: Sequence[Block]) -> list[pages.PageHtml]:
    """Return blocks as HTML; a picture stands beside what is said before it."""
    made: list[pages.PageHtml] = []
    for block in blocks:
        one = _annex_block_as_html(block)
        made.append(
            pages.beside(made.pop(), one) if isinstance(block, AnnexBars) else one
        )
    return made


def _annex_block_as_html(block: Block) -> pages.PageHtml:
    if isinstance(block, AnnexLines):
        if block.look == "items":
            items = map(pages.with_commands, block.texts)
            return pages.listing(items) if block.texts else pages.PageHtml()
        if block.look == "alarm":
            texts = (pages.paragraph(one) for one in block.texts)
            return pages.notice(*texts, bad=True) if block.texts else pages.PageHtml()
        kind = "h3" if block.look == "heading" else "p"
        return pages.together(*(pages.tag(kind, one) for one in block.texts))
    if isinstance(block, AnnexBars):
        told = "; ".join(
            f"{name}: {block.nothing if chance is None else f'{chance:.0%}'}"
            for name, chance in block.bars
        )
        return pages.figure(paper_bars_svg(block), alt=told, caption=block.caption)
    rows = [[_annex_cell(cell) for cell in row] for row in block.rows]
    if not block.widths:
        return pages.words((name, meaning) for name, meaning in rows)
    return pages.prose(block.columns, rows, widths=block.widths)


def _annex_cell(cell: tuple[str, ...]) -> pages.Part:
    return cell[0] if len(cell) == 1 else pages.listing(cell)


def paper_bars_svg(block: AnnexBars) -> bytes:
    """Return bars as a small drawing: plain SVG, read in grey and on a telephone."""
    room, right, each = 300, 60, 40
    height = each * len(block.bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{room + right}" '
        f'height="{height}" viewBox="0 0 {room + right} {height}" '
        'font-family="sans-serif" font-size="13">'
    ]
    for place, (name, chance) in enumerate(block.bars):
        top, long = each * place, room * (chance or 0.0)
        parts.append(f'<text x="0" y="{top + 14}">{escape(name)}</text>')
        if chance is None:
            told = escape(block.nothing)
            parts.append(f'<text x="6" y="{top + 31}" fill="#D55E00">{told}</text>')
            continue
        colour = "#D55E00" if chance >= 1.0 else "#0072B2" if place else "#666666"
        parts += [
            f'<rect y="{top + 19}" width="{long:.0f}" height="15" fill="{colour}"/>',
            f'<text x="{long + 6:.0f}" y="{top + 31}">{100 * chance:.0f} %</text>',
            f'<path d="M{room // 2} {top + 17}v19" stroke="#333"/>',
        ]
    return "".join([*parts, "</svg>"]).encode()


# A text document


def annex_paper_docx(paper: AnnexPaper, now: datetime) -> bytes:
    """Return a paper as a text document (DOCX).

    Raises:
        MissingExtraError: python-docx is not here.
    """
    try:
        import docx
    except ImportError:
        raise MissingExtraError(
            "a text document needs the package python-docx: "
            + install_advice("officer"),
            code="missing-extra",
        ) from None
    made = docx.Document()
    made.core_properties.title = printable(paper.title)
    made.core_properties.author = "veilsum"
    made.core_properties.comments = ""
    made.core_properties.language = paper.language
    for when in ("created", "modified"):
        setattr(made.core_properties, when, now.replace(tzinfo=None))
    made.add_heading(printable(paper.title), 0)
    made.sections[0].footer.paragraphs[0].text = printable(paper.title)
    for block in paper.lead:
        _write_annex_block(made, block)
    for part in paper.parts:
        made.add_heading(printable(part.heading), part.level)
        for block in part.blocks:
            _write_annex_block(made, block)
    buffer = BytesIO()
    made.save(buffer)
    return buffer.getvalue()


def _write_annex_block(made: Document, block: Block) -> None:
    if isinstance(block, AnnexLines):
        style = {"items": "List Bullet", "alarm": "Intense Quote"}.get(block.look)
        for one in block.texts:
            made.add_paragraph(printable(one), style=style)
        return
    if isinstance(block, AnnexBars):
        made.add_paragraph(block.caption + ":")
        rows = tuple(
            (
                (name,),
                (
                    block.nothing
                    if chance is None
                    else "\u2588" * round(20 * chance) + f" {100 * chance:.0f} %",
                ),
            )
            for name, chance in block.bars
        )
        block = SentenceTable(("", ""), rows)
    table = made.add_table(rows=0, cols=len(block.columns))
    table.style = "Table Grid"
    head = (tuple((one,) for one in block.columns),) if any(block.columns) else ()
    for row in (*head, *block.rows):
        cells = table.add_row().cells
        for cell, content in zip(cells, row, strict=True):
            cell.text = printable("\n".join(content)) if len(content) < 2 else ""
            if len(content) > 1:
                cell.paragraphs[0].text = printable(content[0])
                for one in content[1:]:
                    cell.add_paragraph(printable(one))
    made.add_paragraph()
