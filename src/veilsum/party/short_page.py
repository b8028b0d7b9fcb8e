"""The page of consent in one page: five answers first, then the details, shortened.

The lines in full are parts of the same page (`Consent.text(long=True)`). A line of a
part is shortened by its key: catalogue `page` has a shorter sentence, or an empty one
where another line of the page says it. Lines without a key, such as a question's own
description, stay as they are.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any, Protocol

from veilsum.errors import printable
from veilsum.locale import (
    Phrase,
    catalogue,
    in_language,
    number_with_language_signs,
    phrase,
    phrase_in,
    round_name_phrase,
    statistic_label,
)
from veilsum.numbers.units import ROW_BITS
from veilsum.sums.kinds import Asked, question_kind_of
from veilsum.sums.prices import MostReleased, most_released
from veilsum.sums.releases import PossibleRound
from veilsum.sums.wording import exact_number_words, quoted_for_release

WIDTH, MOST_LINES, MOST_STUDY_LINES = 100, 60, 100
# Columns of the page that are left of an answer.
LABEL = 10
# Lines of the last answer, which has all refusals; the lines in full have the rest.
MOST_ANSWER = 12
# A group of lines is cut to this, and no further.
LEAST_LINES = 2
# Parts that are about the reader alone, in their order, without the title of each.
OWN = (
    "your_place",
    "your_data",
    "your_checks",
    "your_rules",
    "your_ledger",
    "guarantee",
    "price",
)


@dataclass(frozen=True)
class ConsentPart:
    """Some lines of a page under one heading; a dash begins an item.

    Attributes:
        key: of the heading, in the catalogue of the page.
        values: fill in the heading's braces.
    """

    key: str
    lines: tuple[str, ...]
    values: Mapping[str, object] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        return phrase("consent", f"headings.{self.key}", **self.values)

    @cached_property
    def text(self) -> str:
        """The heading, and every line under it, each a little to the right."""
        rows = [self.heading]
        for line in self.lines:
            first = "    " if line.startswith("- ") else "  "
            rows += textwrap.wrap(
                printable(line),
                WIDTH,
                initial_indent=first,
                subsequent_indent=first + "    ",
                break_on_hyphens=False,
            )
        return "\n".join(rows) + "\n"


@dataclass(frozen=True)
class Standing:
    """Whether a party may take part, as far as it was looked at.

    Attributes:
        looked: whether the party's own data were checked.
        refusals: by rule, or by question of a study, why it refuses; "" is the rule of
            a party's own rules.
        unattended: why it may not take part where nobody is asked; "" if it may.
        of: number of questions of a study; 0 for a single question.
    """

    looked: bool = False
    refusals: Mapping[str, str] = field(default_factory=dict)
    unattended: str = ""
    of: int = 0

    @property
    def good(self) -> bool:
        return not self.refusals

    @property
    def bars_all(self) -> bool:
        """Whether no question is left in which the party may take part."""
        return bool(self.refusals) and len(self.refusals) >= self.of


class Page(Protocol):
    """A page of consent, as far as it is shortened here."""

    @property
    def shared(self) -> tuple[ConsentPart, ...]: ...

    @property
    def own(self) -> tuple[ConsentPart, ...]: ...

    @property
    def facts(self) -> Mapping[str, Any]: ...

    @property
    def asked(self) -> Any: ...

    @property
    def questions(self) -> Mapping[str, Any]: ...

    @property
    def standing(self) -> Standing | None: ...

    @property
    def digest(self) -> str: ...


def short_page(page: Page, language: str = "en") -> str:
    """Return the whole page, shortened to MOST_LINES or MOST_STUDY_LINES lines."""
    say = partial(phrase_in, language, "page")
    groups = [*_study_groups(page, language)] if page.questions else []
    groups = groups or [*_question_groups(page, language)]
    groups += _own_groups(page, language)
    groups.append((say("headings.file"), [*_identity(page, language)]))
    wrapped = [_wrapped(name, lines) for name, lines in groups if any(lines)]
    head = answers(page, language)
    most = MOST_STUDY_LINES if page.questions else MOST_LINES
    room = most - len(head) - 3  # a blank line, the title, and a notice
    title = _title(page, language)
    room -= len(title) - 1
    lines, used = [*head, "", *title], sum(map(len, wrapped))
    if used > room + 1:
        lines.append(say("lines.is_cut"))
        wrapped = _cut(wrapped, room, language)
    # Air between groups, where there is room.
    airy = used + len(wrapped) <= room
    for some in wrapped:
        lines += ["", *some] if airy else some
    return "\n".join(lines) + "\n"


def answers(page: Page, language: str = "en") -> list[str]:
    """Return the question, the people, the price, who learns what, and one's place.

    The first four have a line each. The last has further lines if something refuses.
    """
    say = partial(phrase_in, language, "page")
    asked = [one.asked for one in (page.questions or {"": page}).values()]
    found: dict[str, str] = {
        "question": _question(page, language),
        "people": _people(asked[0], language),
        "price": _price(page, language),
        "learns": _learns(asked[0], language),
    }
    lines = [_in_one_line(say(f"answers.{k}") + one) for k, one in found.items()]
    you = say("answers.you") + printable(_you(page, language))
    (mine,) = _cut([_wrap(you, "", " " * LABEL)], MOST_ANSWER, language)
    return lines + mine


def most_of(asked: Asked, facts: Mapping[str, Any]) -> MostReleased:
    """Return the most that a question releases, by its public file alone."""
    rows = 1 << ROW_BITS
    if asked.rules is not None and asked.rules.maximum_rows is not None:
        rows = asked.rules.maximum_rows * asked.terms.topology.n_parties
    return most_released(
        asked.recipe,
        facts["rounds"][1],
        facts["numbers"][1],
        tuple(facts["columns"]),
        rows,
    )


# The five answers


def _question(page: Page, language: str) -> str:
    if page.questions:
        n, names = len(page.questions), ", ".join(page.questions)
        return phrase_in(language, "page", "questions.study", n=n, names=names)
    return _one_question(page.asked, language)


def _one_question(asked: Asked, language: str) -> str:
    question = asked.question
    heading, job = question.heading, asked.job
    if heading not in catalogue(language, "page")["questions"]:
        described = next(question_kind_of(question).describe(asked, _no_room()))
        return described.removeprefix("question: ")
    columns = () if job is None else job.schema.names
    values = {
        "family": getattr(
            getattr(getattr(job, "model", None), "family", ""), "name", ""
        ),
        "formula": quoted_for_release(getattr(question, "formula", None) or ""),
        "columns": ", ".join(map(quoted_for_release, columns)),
        "title": quoted_for_release(asked.title),
    }
    return phrase_in(language, "page", f"questions.{heading}", **values)


def _no_room() -> Any:
    from veilsum.sums.wording import PageRoom

    return PageRoom()


def _people(asked: Asked, language: str) -> str:
    parties = asked.parties
    values: dict[str, Any] = {"n": len(parties), "names": ", ".join(parties)}
    if _is_survey(asked):
        guests = len(asked.recipe.survey.roster)  # type: ignore[attr-defined]
        return phrase_in(language, "page", "people.guests", guests=guests, **values)
    if asked.rules is None:
        return phrase_in(language, "page", "people.members", **values)
    rules = asked.rules
    key = "rows" if rules.maximum_rows is None else "rows_at_most"
    if rules.maximum_rows == 1:
        key = "row"
    values |= {"least": rules.minimum_rows, "most": rules.maximum_rows}
    return phrase_in(language, "page", f"people.{key}", **values)


def _price(page: Page, language: str) -> str:
    pages = [*(page.questions or {"": page}).values()]
    found = [most_of(one.asked, one.facts) for one in pages]
    total = found[0]
    for one in found[1:]:
        total += one
    return _price_words(total, pages[0].asked, language)


def _price_words(
    total: MostReleased, asked: Asked, language: str, *, brief: bool = False
) -> str:
    say = partial(phrase_in, language, "page")

    def many(count: int, noun: str) -> str:
        key = noun if count == 1 else f"{noun}s"
        return say(f"price.{key}", n=number_with_language_signs(f"{count:,}", language))

    values: dict[str, Any] = {
        "rounds": many(total.rounds, "round"),
        "numbers": many(total.numbers, "number"),
    }
    if total.bits is None:
        return say("price.unpriced", **values)
    values["bits"] = number_with_language_signs(f"{total.bits:,.0f}", language)
    if brief:
        return say("price.brief", **values)
    if asked.rules is None:
        key = "guests" if _is_survey(asked) else "members"
        return say(f"price.{key}", **values)
    by_column = total.by_column
    each = [
        f"{quoted_for_release(name)} "
        f"{number_with_language_signs(f'{bits:,.0f}', language)}"
        for name, bits in sorted(by_column.items(), key=lambda one: -one[1])
    ]
    some = [", ".join(each), say("price.most", column=each[0])]
    if len({*by_column.values()}) == 1:
        names = ", ".join(map(quoted_for_release, sorted(by_column)))
        some = [f"{key}" for key in (names, say("price.all", n=len(each)))]
    lines = [say("price.bits", columns=one, **values) for one in some]
    lines.append(say("price.brief", **values))
    return next(one for one in lines if len(one) + LABEL <= WIDTH or one is lines[-1])


def _learns(asked: Asked, language: str) -> str:
    terms = asked.terms
    tolerate = asked.max_colluders
    if _is_survey(asked):
        key = "guests" if tolerate else "guests_0"
        key = "guests_1" if tolerate == 1 else key
    elif not tolerate:
        key = "nobody"
    else:
        key = "same" if terms.law.masks.kind.sums_only else "nearly_same"
        key = f"{key}_1" if tolerate == 1 else key
    return phrase_in(language, "page", f"learns.{key}", tolerate=tolerate)


def _you(page: Page, language: str) -> str:
    say = partial(phrase_in, language, "page")
    known = page.standing
    if known is None:
        return say("you.page_alone")
    refusals = {
        name or say("you.own_rules"): why for name, why in known.refusals.items()
    }
    if len(refusals) > 1 or (known.of and refusals):
        names = ", ".join(refusals)
        key, n = "several", len(refusals)
        if n < known.of:
            key, n = "some" if known.looked else "some_unchecked", known.of - n
        each = [say("you.one", rule=k, why=why) for k, why in refusals.items()]
        first = say(f"you.{key}", n=n, all=known.of, names=names)
        return f"{first}. {'; '.join(each)}"
    if refusals:
        ((rule, why),) = refusals.items()
        return say("you.refused", rule=rule, why=why)
    if known.looked and known.unattended:
        return say("you.passed_alone", why=known.unattended)
    if known.looked:
        return say("you.passed")
    first = next(iter(page.questions.values()), page).asked
    kind = question_kind_of(first.question)
    return say(f"you.unchecked_{kind.input}")


def _is_survey(asked: Asked) -> bool:
    return question_kind_of(asked.question).input == "folder"


# The groups below them


Group = tuple[str, list[str]]


def _question_groups(page: Page, language: str) -> Iterator[Group]:
    say = partial(phrase_in, language, "page")
    parts = {one.key: one for one in page.shared}
    yield say("headings.warnings"), _shortened([parts["first"]], language)
    yield say("headings.asked"), _shortened([parts["asked"]], language)
    yield say("headings.known"), [*_known(page, language)]
    yield from _common_groups([page], language)


def _study_groups(page: Page, language: str) -> Iterator[Group]:
    say = partial(phrase_in, language, "page")
    parts, pages = page.shared, page.questions
    keyed = {one.key: one for one in reversed(parts)}
    yield say("headings.warnings"), _shortened([keyed["first"]], language)
    for place, (name, one) in enumerate(pages.items(), start=1):
        asked = one.asked
        price = _price_words(most_of(asked, one.facts), asked, language, brief=True)
        question = _one_question(asked, language)
        lines = [
            say("lines.question", question=question, price=price),
            *_known(one, language, brief=True),
        ]
        about: dict[str, Any] = {"place": place, "n": len(pages), "name": name}
        yield say("headings.question", **about), lines
    columns = dict.fromkeys(
        line
        for one in pages.values()
        for part in one.shared
        if part.key == "asked"
        for line in part.lines
        if isinstance(line, Phrase)
    )
    shared = _shortened([keyed["together"]], language)
    words = catalogue(language, "page")
    more = _merged(_short(line, words, language) for line in columns)
    yield say("headings.together"), [*shared, *more]
    yield from _common_groups([*pages.values()], language)


def _common_groups(pages: Sequence[Page], language: str) -> Iterator[Group]:
    """Yield what questions of a study have alike, each line once."""
    say = partial(phrase_in, language, "page")
    parts = [part for one in pages for part in one.shared]
    some = {k: [part for part in parts if part.key == k] for k in ("who", "open")}
    who, terms = _shortened(some["who"], language), pages[0].asked.terms
    if not terms.law.masks.kind.sums_only and terms.guarantee.epsilon is not None:
        who.append(say("lines.epsilon", epsilon=f"{terms.guarantee.epsilon:.6g}"))
    yield say("headings.who"), who
    asked = pages[0].asked
    if asked.rules is None:
        rules = [part for part in parts if part.key == "rules_without_tables"]
        yield say("headings.rules_without_tables"), _shortened(rules, language)
    else:
        yield say("headings.rules"), [*_rules(pages, language)]
    warned = {line for part in parts if part.key == "first" for line in part.lines}
    limits = [
        replace(
            part,
            lines=tuple(
                one for one in part.lines if one.removeprefix("- ") not in warned
            ),
        )
        for part in some["open"]
    ]
    yield say("headings.open"), _shortened(limits, language)


def _known(page: Page, language: str, *, brief: bool = False) -> Iterator[str]:
    """Yield the numbers of each kind of round, and what follows from them."""
    say = partial(phrase_in, language, "page")
    asked, (least, most) = page.asked, page.facts["rounds"]
    recipe = asked.recipe
    once = [one for one in recipe.foreseen if (one.least, one.most) == (1, 1)]
    others = [one for one in recipe.foreseen if one not in once]
    groups = next(
        (
            line.values["names"]
            for line in _lines(page, "known")
            if isinstance(line, Phrase) and line.key == "known.groups"
        ),
        None,
    )
    counting = groups is not None
    ends = any(
        getattr(line, "key", "") == "known.ends_there" for line in _lines(page, "known")
    )
    for later in once if len(others) > 1 else recipe.foreseen:
        if later.when == "holders" and counting:
            yield "- " + say(
                "lines.counting_ends" if ends else "lines.counting",
                when=round_name_phrase("holders", counting=True, language=language),
                n=_numbers(sum(later.statistics.values()), language),
                groups=groups,
            )
            continue
        yield "- " + say(
            "lines.round",
            when=round_name_phrase(later.when, counting=counting, language=language),
            times=times_in_words(later, language),
            n=_numbers(sum(later.statistics.values()), language),
            statistics=_statistics(later.statistics, language),
        )
    if len(others) > 1:
        some: dict[str, int] = {}
        for later in others:
            for key, count in later.statistics.items():
                some[key] = max(count, some.get(key, 0))
        n, each = most - len(once), max(sum(o.statistics.values()) for o in others)
        statistics = _statistics(some, language)
        words = {"each": _numbers(each, language), "statistics": statistics}
        yield "- " + say("lines.further_rounds", n=n, **words)
    if brief:
        return
    if recipe.round_size:
        yield say("lines.estimates", numbers=recipe.round_size)
    answer = "" if asked.job is None else asked.job.follows
    rounds = say("lines.rounds", least=least, most=most) if least < most else ""
    answer = answer or in_language(phrase("consent", "known.answer"), language)
    yield say("lines.follows", rounds=rounds, answer=answer)


def _statistics(statistics: Mapping[str, int], language: str) -> str:
    return ", ".join(
        phrase_in(
            language,
            "page",
            "lines.statistic",
            label=statistic_label(key, language=language),
            n=count,
        )
        for key, count in statistics.items()
        if count
    )


def _numbers(count: int, language: str) -> str:
    key = "price.number" if count == 1 else "price.numbers"
    number = number_with_language_signs(f"{count:,}", language)
    return phrase_in(language, "page", key, n=number)


def times_in_words(kind: PossibleRound, language: str = "en") -> str:
    say = partial(phrase_in, language, "page")
    if (kind.least, kind.most) == (1, 1):
        return ""
    if kind.least == kind.most:
        return say("lines.times", n=kind.least)
    return say("lines.times_range", least=kind.least, most=kind.most)


def _rules(pages: Sequence[Page], language: str) -> Iterator[str]:
    """Yield every rule with its value, and those that are weaker than usual."""
    say = partial(phrase_in, language, "page")
    weaker: dict[str, None] = {}
    lines: dict[str, None] = {}
    for page in pages:
        weaker |= dict.fromkeys(page.facts["relaxed"])
        for line in (
            line for line in _lines(page, "rules") if isinstance(line, Phrase)
        ):
            name = line.values.get("name")
            if name is None and line.key != "rules.maximum_rows":
                continue
            lines[str(name or "maximum_rows")] = None
    rules = {k: v for page in pages for k, v in page.facts["rules"].items()}
    found = []
    asked = pages[0].asked
    for name in lines:
        value: float = rules.get(name, 0)
        if name == "maximum_rows" and asked.rules is not None:
            value = asked.rules.maximum_rows or 0
        found.append(say("lines.rule", name=name, value=exact_number_words(value)))
    names, key = ", ".join(weaker), "weaker" if weaker else "usual"
    weakness = say(f"lines.{key}", names=names)
    yield say("lines.rules", rules=", ".join(found), weaker=weakness)


def _own_groups(page: Page, language: str) -> list[Group]:
    say = partial(phrase_in, language, "page")
    parts = {one.key: one for one in page.own}
    found: list[Group] = []
    if "asked_before" in parts:
        lines = _shortened([parts["asked_before"]], language)
        found.append((say("headings.asked_before"), lines))
    mine = _shortened([parts[key] for key in OWN if key in parts], language)
    return [*found, (say("headings.own"), mine)]


def _title(page: Page, language: str) -> list[str]:
    say = partial(phrase_in, language, "page")
    title = page.facts["title"]
    keys = ("study", "study_plan") if page.questions else ("run", "plan")
    key = keys[page.facts["run"] is None]
    title = quoted_for_release(title) if title else say("headings.untitled")
    return _wrap(printable(say(f"headings.{key}", title=title)), "", "  ")


def _identity(page: Page, language: str) -> Iterator[str]:
    """Yield names and digests, on few lines."""
    say = partial(phrase_in, language, "page")
    head = [part for part in page.shared if part.key in {"run", "study", "study_1"}]
    asked = next(iter(page.questions.values()), page).asked
    people = say("answers.people") + _people(asked, language)
    found = _shortened(head[:1], language, joined=False)
    if len(printable(people)) > WIDTH:
        names = ", ".join(asked.parties)
        found.append(say("lines.members", names=names))
    yield "; ".join(filter(None, found))
    yield say("lines.digest", digest=page.digest)
    yield say("lines.no_long")


# Lines


def _lines(page: Page, key: str) -> Iterator[str]:
    for part in page.shared:
        if part.key == key:
            yield from part.lines


def _shortened(
    parts: Iterable[ConsentPart], language: str, *, joined: bool = True
) -> list[str]:
    """Return the lines of some parts in their shorter form, each once."""
    shorter = catalogue(language, "page")
    found: dict[str, None] = {}
    for part in parts:
        for place, line in enumerate(part.lines):
            if part.key == "asked" and not place and line.startswith("question: "):
                continue  # it is the first answer
            found[_short(line, shorter, language)] = None
    return _merged(found) if joined else [*found]


def _short(line: str, shorter: Mapping[str, Any], language: str) -> str:
    if isinstance(limit := getattr(line, "facts", {}).get("key"), str):
        return str(shorter["limits"].get(limit, line))
    if not isinstance(line, Phrase):
        return line
    table, _, name = line.key.rpartition(".")
    if line.part == "sums":
        table = "sums"
    known = shorter.get("warnings" if table == "first" else table, {})
    if name not in known:
        return in_language(line, language)
    values = {
        key: _short(value, shorter, language) if isinstance(value, str) else value
        for key, value in line.values.items()
    }
    if (kind := values.get("kind")) in shorter["kinds"]:
        values["kind"] = shorter["kinds"][kind]
    text = str(known[name]).format(**values)
    # A sentence needs no list.
    item = text and line.startswith("- ") and not text[0].isupper()
    return f"- {text}" if item else text


def _merged(lines: Iterable[str]) -> list[str]:
    """Return lines with consecutive items of a list, and short lines, in one."""
    found = []
    lines = [line for line in lines if line]
    for item, some in groupby(lines, lambda line: line.startswith("- ")):
        texts = [line.removeprefix("- ").rstrip() for line in some]
        if item:
            found.append("- " + "; ".join(one.rstrip(".") for one in texts))
        else:
            ended = [one if one[-1:] in ".:!?" else f"{one}." for one in texts]
            found.append(" ".join(one[0].upper() + one[1:] for one in ended))
    return found


def _wrapped(name: str, lines: Iterable[str]) -> list[str]:
    """Return lines below their heading; a sentence begins beside it."""
    texts = [printable(line) for line in lines if line]
    found = []
    if texts[0].startswith("- "):
        found.append(f"{name}:")
    else:
        texts[0] = f"{name}: {texts[0]}"
    for text in texts:
        item = text.startswith("- ")
        first = "" if text is texts[0] and not item else "  "
        found += _wrap(text, first, "    " if item else "  ")
    return found


def _wrap(line: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        line,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_on_hyphens=False,
    )


def _in_one_line(text: str) -> str:
    """Return a text that fits in a line; the whole of it is below, or in the file."""
    shown = printable(text)
    if len(shown) <= WIDTH:
        return shown
    return shown[: WIDTH - 4].rstrip() + " ..."


def _cut(groups: list[list[str]], room: int, language: str) -> list[list[str]]:
    """Return groups cut to some lines in all, the longest first; cuts are marked."""
    sizes = [len(lines) for lines in groups]
    while sum(sizes) > room and max(sizes) > LEAST_LINES:
        sizes[sizes.index(max(sizes))] -= 1
    found = []
    for lines, size in zip(groups, sizes, strict=True):
        if size < len(lines):
            left = len(lines) - size + 1
            cut = phrase_in(language, "page", "lines.cut", n=left)
            found.append([*lines[: size - 1], f"  {cut}"])
        else:
            found.append(lines)
    return found
