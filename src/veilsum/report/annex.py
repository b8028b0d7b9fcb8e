"""The annex for a data-protection officer: who learns what of a plan, in plain words.

A few pages, made of the facts of a plan (`plan_facts`) and of sentences that are
checked (`sentences`). The same paper is shown as a page of HTML and as a text document;
`forms` puts the same sentences where the forms of authorities want them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, TypeAlias

from veilsum.errors import MissingExtraError, installing, printable
from veilsum.locale import Language, Line, catalogue, meaning
from veilsum.report import page as pages
from veilsum.report.plan_facts import PlanFacts, SumFacts
from veilsum.report.sentences import rounded_down, values
from veilsum.report.survey_sentences import explained_words, risks, said
from veilsum.sums.wording import quoted

if TYPE_CHECKING:
    from docx.document import Document

# Words of the paper that say nothing about a plan.
WORDS: Mapping[str, Mapping[Language, str]] = {
    "title": {
        "en": "Annex for the data-protection officer",
        "de": "Anhang für die Datenschutzbeauftragten",
    },
    "contents": {"en": "On this page", "de": "Auf dieser Seite"},
    "purpose": {"en": "What is planned", "de": "Was geplant ist"},
    "who": {"en": "Who learns what", "de": "Wer was erfährt"},
    "sums": {
        "en": "Every sum that becomes known",
        "de": "Jede Summe, die bekannt wird",
    },
    "number": {
        "en": "How well masks hide who gave what",
        "de": "Wie gut Masken verbergen, wer was beitrug",
    },
    "check": {"en": "What is checked", "de": "Was geprüft wird"},
    "open": {"en": "What is not protected", "de": "Was nicht geschützt ist"},
    "risks": {"en": "Risks that remain", "de": "Risiken, die bleiben"},
    "keep": {
        "en": "Retention, erasure, keys",
        "de": "Aufbewahrung, Löschung, Schlüssel",
    },
    "verify": {"en": "How to verify it", "de": "Wie man es nachprüft"},
    "judge": {"en": "What is for you to judge", "de": "Was Sie zu beurteilen haben"},
    "person": {"en": "Who", "de": "Wer"},
    "learns": {"en": "Learns", "de": "Erfährt"},
    "not": {"en": "Does not learn", "de": "Erfährt nicht"},
    "question": {"en": "Question", "de": "Frage"},
    "often": {"en": "Rounds", "de": "Runden"},
    "names": {
        "en": "Sums in each: how many, and what they are",
        "de": "Summen in jeder: wie viele, und was sie sind",
    },
    "own": {
        "en": "Of this kind of question the page that the members approve adds: ",
        "de": "Für diese Art von Frage sagt die Seite, die die Mitglieder freigeben, "
        "außerdem (dort englisch): ",
    },
    "words": {"en": "Words", "de": "Begriffe"},
    "made": {"en": "Made on {} (UTC).", "de": "Erstellt am {} (UTC)."},
    "risk": {"en": "Risk", "de": "Risiko"},
    "what": {"en": "How", "de": "Wodurch"},
    "likelihood": {"en": "Likelihood", "de": "Wahrscheinlichkeit"},
    "severity": {"en": "Severity", "de": "Schwere"},
    "coin": {"en": "by tossing a coin", "de": "beim Münzwurf"},
    "below": {
        "en": "the same, distance below {}",
        "de": "dieselben, Abstand unter {}",
    },
    "more": {
        "en": "{others} of {n} members together",
        "de": "{others} von {n} Mitgliedern gemeinsam",
    },
    "some": {
        "en": "{beyond} of {n} members together",
        "de": "{beyond} von {n} Mitgliedern gemeinsam",
    },
    "all": {
        "en": "all {n} members together",
        "de": "alle {n} Mitglieder gemeinsam",
    },
    "left": {
        "en": "{fewest_others} of {fewest}, when only these are left",
        "de": "{fewest_others} von {fewest}, wenn nur diese übrig sind",
    },
    "none": {"en": "not promised", "de": "nicht zugesichert"},
    "chart": {
        "en": "How often a guess about who of the others gave what is right, at most",
        "de": "Wie oft höchstens richtig geraten wird, wer von den anderen was beitrug",
    },
}
# How a day is written.
DAYS: Mapping[Language, str] = {"en": "%Y-%m-%d", "de": "%d.%m.%Y"}
# What a question is called that has no name of its own.
QUESTIONS: Mapping[str, Mapping[Language, str]] = {
    "cost": {"en": "minimum", "de": "Minimum"},
    "model": {"en": "regression", "de": "Regression"},
    "statistics": {"en": "statistics", "de": "Statistik"},
    "survival": {"en": "survival", "de": "Überlebenskurven"},
    "cox": {"en": "Cox regression", "de": "Cox-Regression"},
    "mixed": {"en": "mixed model", "de": "gemischtes Modell"},
    "meta": {"en": "pooled coefficient", "de": "Meta-Analyse"},
    "evaluate": {"en": "predictions", "de": "Vorhersagen"},
    "dispatch": {"en": "price", "de": "Preis"},
    "survey": {"en": "survey", "de": "Erhebung"},
}
LEVELS: Mapping[Language, tuple[str, ...]] = {
    "en": ("negligible", "limited", "significant", "maximum"),
    "de": ("vernachlässigbar", "begrenzt", "erheblich", "maximal"),
}
# Who learns something, in this order; each has sentences that say what, and what not.
WHO: Mapping[str, Mapping[Language, str]] = {
    "guest": {"en": "each guest", "de": "jeder Gast"},
    "host": {
        "en": "the host, a member",
        "de": "der Gastgeber, ein Mitglied",
    },
    "member": {"en": "each member", "de": "jedes Mitglied"},
    "coalition": {
        "en": "members who pool what they saw, up to {tolerate}",
        "de": "Mitglieder, die ihr Wissen zusammenlegen, bis zu {tolerate}",
    },
    "beyond": {
        "en": "members who pool what they saw, {beyond} or more",
        "de": "Mitglieder, die ihr Wissen zusammenlegen, {beyond} oder mehr",
    },
    "everybody": {
        "en": "all {n} members together",
        "de": "alle {n} Mitglieder gemeinsam",
    },
    "organiser": {"en": "whoever wrote the plan", "de": "wer den Plan schrieb"},
    "relay": {
        "en": "a relay that carries messages ({relays} agreed on)",
        "de": "ein Vermittler, der Nachrichten weiterreicht ({relays} vereinbart)",
    },
    "carrier": {"en": "whoever carries letters", "de": "wer Briefe trägt"},
    "listener": {"en": "whoever listens on the line", "de": "wer die Leitung abhört"},
    "staff": {
        "en": "administrators of a member's computers",
        "de": "Administratoren der Rechner eines Mitglieds",
    },
    "authors": {"en": "the program's authors", "de": "die Autoren des Programms"},
    "reader": {
        "en": "whoever reads a result or a receipt",
        "de": "wer ein Ergebnis oder eine Quittung liest",
    },
}


# A paper: what is said, before it is HTML or a text document


@dataclass(frozen=True)
class Lines:
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
class Bars:
    """Chances from a half to one, each with its name; None where none is promised."""

    caption: str
    bars: tuple[tuple[str, float | None], ...]
    nothing: str


Block: TypeAlias = Lines | SentenceTable | Bars


@dataclass(frozen=True)
class PaperPart:
    """What stands under one heading; level 2 is a part of the one before."""

    heading: str
    blocks: tuple[Block, ...]
    level: int = 1


@dataclass(frozen=True)
class Paper:
    """A whole paper."""

    title: str
    language: Language
    lead: tuple[Block, ...]
    parts: tuple[PaperPart, ...]


def word(name: str, language: Language) -> str:
    """Return a word of the paper."""
    return WORDS[name][language]


def titled(name: str, facts: PlanFacts) -> str:
    """Return what a paper is called: which paper, and of which plan."""
    own = facts.title or ("" if facts.survey is None else facts.survey.terms.title)
    plan = quoted(own) if own else facts.run or quoted(facts.file)
    return f"{name}: {plan}"


def texts(facts: PlanFacts, part: str, language: Language) -> tuple[str, ...]:
    """Return what is said of a plan in one place."""
    return tuple(one.text(facts, language) for one in said(facts, part))


def left_open(facts: PlanFacts, language: Language) -> tuple[str, ...]:
    """Return what is not protected, with what each kind of question adds."""
    own = dict.fromkeys(line for one in facts.questions for line in one.own_limits)
    if facts.survey is not None:
        own = {}  # all of it is among the sentences about surveys
    return (
        *texts(facts, "open", language),
        *(f"{word('own', language)}{own_limit(one, language)}." for one in own),
    )


def who_learns_what(
    facts: PlanFacts, language: Language
) -> dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Return who learns what of a plan: name, what it learns, and what not."""
    filled = values(facts, language)
    found = {}
    for key, name in WHO.items():
        learns = texts(facts, f"{key}+", language)
        if learns:
            missing = texts(facts, f"{key}-", language)
            found[key] = (name[language].format_map(filled), learns, missing)
    return found


def annex(facts: PlanFacts, language: Language, now: datetime | None = None) -> Paper:
    """Return the annex about a plan, with the date if one is given."""

    def plain(part: str, look: str = "items") -> Lines:
        return Lines(texts(facts, part, language), look)

    blocks: dict[str, tuple[Block, ...]] = {
        "purpose": (plain("purpose"),),
        "who": (who_table(facts, language),),
        "number": (plain("number", "plain"), *chances(facts, language)),
        "check": (plain("check"),),
        "open": (Lines(left_open(facts, language), "items"),),
        "risks": (risk_table(facts, language),),
        "keep": (plain("keep"),),
        "verify": (plain("verify"),),
        "judge": (
            Lines((*texts(facts, "judge", language), *_made(now, language)), "items"),
        ),
        "sums": (every_sum(facts, language),),
    }
    lead = plain("alarm", "alarm")
    # Grades of risk are another matter than what is said of columns.
    told = [lead, *(one for key, one in blocks.items() if key != "judge")]
    blocks["words"] = (glossary(facts, str(told), language),)
    return Paper(
        title=titled(word("title", language), facts),
        language=language,
        lead=(lead,),
        parts=tuple(PaperPart(word(key, language), one) for key, one in blocks.items()),
    )


def _made(now: datetime | None, language: Language) -> Iterator[str]:
    if now is not None:
        day = f"{now.astimezone(UTC):{DAYS[language]}}"
        yield word("made", language).format(day)


def glossary(facts: PlanFacts, told: str, language: Language) -> SentenceTable:
    """Return what the words of a paper mean, of those that occur in it."""
    rows = []
    for one in explained_words(facts):
        name, meaning = (one.de if language == "de" else one.en).split(": ", 1)
        if re.search(rf"\b{re.escape(name)}", told, re.IGNORECASE):
            rows.append(((name,), (meaning,)))
    return SentenceTable(("", ""), tuple(rows))


def who_table(facts: PlanFacts, language: Language) -> SentenceTable:
    """Return the table of who learns what."""
    columns = tuple(word(key, language) for key in ("person", "learns", "not"))
    found = who_learns_what(facts, language).values()
    rows = tuple(((name,), *cells) for name, *cells in found)
    return SentenceTable(columns, rows, (14, 49, 37))


def risk_table(facts: PlanFacts, language: Language) -> SentenceTable:
    """Return the table of risks that remain, with proposed levels."""
    columns = ("risk", "what", "likelihood", "severity")
    return SentenceTable(
        tuple(word(key, language) for key in columns),
        tuple(
            (
                (one.title[language],),
                (one.told.text(facts, language),),
                (level(one.likelihood(facts), language),),
                (level(one.severity(facts), language),),
            )
            for one in risks(facts)
        ),
        (15, 57, 15, 13),
    )


def level(number: int, language: Language) -> str:
    """Return a level of risk in words, with its number of four."""
    return f"{LEVELS[language][number - 1]} ({number}/4)"


def every_sum(facts: PlanFacts, language: Language) -> Block:
    """Return every sum, in words: a table, or what guests' numbers are added to."""
    if facts.survey is not None:
        return Lines(texts(facts, "sums", language), "items")
    columns = ("question", "often", "names")
    return SentenceTable(
        tuple(word(key, language) for key in columns),
        tuple(
            (
                (
                    QUESTIONS[question.heading][language]
                    if question.name == question.heading
                    else question.name,
                ),
                (times(one),),
                summed(one, language),
            )
            for question in facts.questions
            for one in question.sums
        ),
        (14, 8, 78),
    )


def summed(found: SumFacts, language: Language) -> tuple[str, ...]:
    """Return every statistic of a round with its count and its meaning."""
    told = partial(meaning, first=found.first, zero=not found.drops, officer=True)
    return tuple(
        f"{count}: {told(key, language)}"
        for key, count in found.statistics.items()
        if count
    )


def own_limit(line: str, language: Language) -> str:
    """Return the limit of one kind of question, in a language."""
    if not isinstance(line, Line):
        return line  # of a cost that somebody else wrote
    text: str = catalogue(language)["limits"][line.facts["key"]]
    return text.format_map(line.facts)


def times(one: SumFacts) -> str:
    """Return how many such rounds there are."""
    return f"{one.least}" if one.least == one.most else f"{one.least} - {one.most}"


def chances(facts: PlanFacts, language: Language) -> Iterator[Bars]:
    """Yield the number as a picture, where there is one."""
    if facts.tolerate < 1 or facts.epsilon is None:
        return
    filled = values(facts, language)
    bars: list[tuple[str, float | None]] = [(word("coin", language), 0.5)]
    if facts.survey is not None:
        bars.append((filled["guessers"], 0.5))
        if facts.tolerate < facts.others():
            bars.append((word("more", language).format_map(filled), None))
        bars.append((word("all", language).format_map(filled), 1.0))
        yield Bars(word("chart", language), tuple(bars), word("none", language))
        return
    if facts.distances:
        bars += [
            (word("below", language).format(rounded_down(far, language)), chance)
            for chance, far in facts.distances
        ]
    else:
        bars.append((filled["guessers"], 0.5))
    if facts.tolerate + 1 < facts.others():
        bars.append((word("some", language).format_map(filled), None))
    bars.append((word("more", language).format_map(filled), 1.0))
    if facts.may_lose and facts.fewest < len(facts.parties):
        bars.append((word("left", language).format_map(filled), 1.0))
    yield Bars(word("chart", language), tuple(bars), word("none", language))


# HTML


def as_html(paper: Paper) -> bytes:
    """Return a paper as one page that fetches nothing."""
    return pages.page(
        paper.title,
        *(
            pages.section(part.heading, *_shown(part.blocks))
            for part in _folded(paper.parts)
        ),
        lead=[_html(one) for one in paper.lead],
        language=paper.language,
        contents=word("contents", paper.language),
    )


def _folded(parts: Sequence[PaperPart]) -> Iterator[PaperPart]:
    """Yield parts of the first level, each with what belongs to it."""
    held: list[PaperPart] = []
    for part in parts:
        if part.level == 1:
            held.append(part)
            continue
        before = held.pop()
        under = Lines((part.heading,), "heading")
        blocks = (*before.blocks, under, *part.blocks)
        held.append(PaperPart(before.heading, blocks))
    yield from held


def _shown(blocks: Sequence[Block]) -> list[pages.Html]:
    """Return blocks as HTML; a picture stands beside what is said before it."""
    made: list[pages.Html] = []
    for block in blocks:
        one = _html(block)
        made.append(pages.beside(made.pop(), one) if isinstance(block, Bars) else one)
    return made


def _html(block: Block) -> pages.Html:
    if isinstance(block, Lines):
        if block.look == "items":
            items = map(pages.with_commands, block.texts)
            return pages.listing(items) if block.texts else pages.Html()
        if block.look == "alarm":
            texts = (pages.paragraph(one) for one in block.texts)
            return pages.notice(*texts, bad=True) if block.texts else pages.Html()
        kind = "h3" if block.look == "heading" else "p"
        return pages.together(*(pages.tag(kind, one) for one in block.texts))
    if isinstance(block, Bars):
        told = "; ".join(
            f"{name}: {block.nothing if chance is None else f'{chance:.0%}'}"
            for name, chance in block.bars
        )
        return pages.figure(drawn(block), alt=told, caption=block.caption)
    rows = [[_cell(cell) for cell in row] for row in block.rows]
    if not block.widths:
        return pages.words((name, meaning) for name, meaning in rows)
    return pages.prose(block.columns, rows, widths=block.widths)


def _cell(cell: tuple[str, ...]) -> pages.Part:
    return cell[0] if len(cell) == 1 else pages.listing(cell)


def drawn(block: Bars) -> bytes:
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


def as_docx(paper: Paper, now: datetime) -> bytes:
    """Return a paper as a text document (DOCX).

    Raises:
        MissingExtraError: python-docx is not here.
    """
    try:
        import docx
    except ImportError:
        raise MissingExtraError(
            "a text document needs the package python-docx: " + installing("officer")
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
        _write(made, block)
    for part in paper.parts:
        made.add_heading(printable(part.heading), part.level)
        for block in part.blocks:
            _write(made, block)
    buffer = BytesIO()
    made.save(buffer)
    return buffer.getvalue()


def _write(made: Document, block: Block) -> None:
    if isinstance(block, Lines):
        style = {"items": "List Bullet", "alarm": "Intense Quote"}.get(block.look)
        for one in block.texts:
            made.add_paragraph(printable(one), style=style)
        return
    if isinstance(block, Bars):
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
