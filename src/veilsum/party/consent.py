"""Consent page of a party: one page in plain words.

The first half follows from the consortium file alone. It is the same for every member,
letter by letter, and its digest goes into every receipt. The second half is about this
party: its table, its own rules, its ledger. That half and its files are for its owner
only.

Text from the file is always quoted, and never starts a line: nothing in it can pass for
a line of this page.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

from veilsum.consortium.consortium import Consortium, canonical_agreement_json
from veilsum.errors import printable
from veilsum.files.output import as_strict_json, write_files
from veilsum.locale import phrase, round_name_phrase, statistic_label, statistic_meaning
from veilsum.net.identity import fingerprint_in_groups
from veilsum.party.own_rules import (
    Value,
    columns_own_rules_meet,
    derived_columns_asked,
    own_rule_allowing_recodings,
    recodings_own_rules_meet,
    relaxed_rules,
    rules_in_force,
)
from veilsum.party.short_page import (
    WIDTH,
    ConsentPart,
    Standing,
    answers,
    short_page,
    times_in_words,
)
from veilsum.showing import Renderable, Rendering, ShownItems, counted_words
from veilsum.sums.kinds import Asked, question_kind_of, resolve_agreed_question
from veilsum.sums.presence import (
    FEW_VALUES,
    PresenceScreenedRecipe,
    PresenceVaryingColumns,
    merge_axes_of,
)
from veilsum.sums.recipes import GuardedRecipe, open_limits_of_recipe
from veilsum.sums.releases import BY_PARTY
from veilsum.sums.wording import PageRoom, exact_number_words, quoted_for_release
from veilsum.tables.columns import Column
from veilsum.tables.dictionaries import dictionary_column_line

# A digest of facts is for that, and for no other use.
CONTEXT = b"veilsum consent\0"
# The page for programs, among a run's files.
PAGE = "consent.json"

_say = partial(phrase, "consent")


@dataclass(frozen=True, kw_only=True, repr=False)
class Consent(Renderable):
    """Consent page of a party.

    Attributes:
        shared: the half that is the same for all members.
        facts: the content of `shared` as plain values, for programs.
        own: the half about one party; () if no party's table was checked.
        asked: the question, as its file determines it; None for a study.
        questions: pages of the questions of a study, by name.
        standing: whether the party may take part; None if nothing was checked.
    """

    shared: tuple[ConsentPart, ...]
    facts: Mapping[str, Any]
    own: tuple[ConsentPart, ...] = ()
    asked: Any = field(default=None, compare=False)
    questions: Mapping[str, Consent] = field(default_factory=dict, compare=False)
    standing: Standing | None = field(default=None, compare=False)

    @cached_property
    def page(self) -> str:
        """The half that all members have alike, as text."""
        return "\n".join(part.text for part in self.shared)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `facts`, in hexadecimal, as receipts have it: words are not in it.

        Facts have the digest of the consortium file, from which everything follows.
        """
        return hashlib.sha256(
            CONTEXT + canonical_agreement_json(self.facts)
        ).hexdigest()

    def showing(self) -> Rendering:
        """Return the half that all members have alike; `text` has one's own as well."""
        first, *rest = self.shared
        run = self.facts["run"]
        key = "page.title_of_plan" if run is None else "page.title_of_run"
        own = [_say("page.own_half")] if self.own else []
        return Rendering(
            _say(key, run=run, digest=self.digest),
            [ShownItems(first.heading, first.lines), *own],
            {one.heading: one.lines for one in rest},
        )

    def text(self, *, long: bool = False, language: str = "en") -> str:
        """Return the whole page: at most 60 lines, or 100 for a study.

        Args:
            long: explain every number and every rule below the first answers instead;
                these explanations are in English.
            language: of the page.
        """
        if not long:
            return short_page(self, language)
        return "\n".join([*answers(self, language), "", self._in_full()])

    def _in_full(self) -> str:
        digest = _say("page.digest", digest=self.digest)
        if not self.own:
            return f"{self.page}\n{digest}\n"
        rest = "\n".join(part.text for part in self.own)
        line = "-" * WIDTH
        key = "page.of_a_plan" if self.facts["run"] is None else "page.same"
        between = textwrap.fill(_say(key), WIDTH)
        between = f"{between}\n{digest}"
        return f"{self.page}\n{line}\n{between}\n{line}\n\n{rest}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `own` is for the owner only."""
        return {
            "digest": self.digest,
            "shared": {**self.facts, "page": _consent_as_plain_json(self.shared)},
            "own": _consent_as_plain_json(self.own),
        }

    def write(self, folder: Path) -> list[Path]:
        """Write consent.txt and consent.json, which only their owner may read."""
        files = {
            "consent.txt": self.text(long=True).encode(),
            PAGE: (as_strict_json(self.to_dict()) + "\n").encode(),
        }
        return write_files(folder, files, private=True)


def _consent_as_plain_json(parts: Iterable[ConsentPart]) -> list[dict[str, Any]]:
    return [
        {
            "key": one.key,
            "heading": one.heading,
            "lines": [printable(line) for line in one.lines],
        }
        for one in parts
    ]


def consent_to(
    consortium: Consortium, *own: ConsentPart, drawn: bool = True
) -> Consent:
    """Return what a consortium asks, and what comes of it.

    Args:
        consortium: what was agreed on, or is to be.
        own: what one party adds about itself.
        drawn: whether there is a consortium file; a plan has no digest yet.

    Raises:
        InvalidInputError: nobody could take part in it.
    """
    return replace(_shared_consent_half(consortium, drawn=drawn), own=own)


@lru_cache(16)  # a party asks for the page, and at the end for its digest
def _shared_consent_half(consortium: Consortium, *, drawn: bool) -> Consent:
    """Return the half that all members have alike."""
    found = resolve_agreed_question(consortium)
    rounds = _consent_rounds(found)
    room = PageRoom()
    head = tuple(_consent_head_lines(consortium, room, drawn=drawn))
    asked = tuple(_consent_question_lines(found, room))
    known = tuple(_consent_known_lines(found, room))
    shared = (
        ConsentPart("run", head),
        ConsentPart("first", tuple(_consent_first_lines(found, room))),
        ConsentPart("asked", asked),
        ConsentPart("amount", tuple(_consent_how_much_lines(found, rounds))),
        ConsentPart("known", known),
        ConsentPart("who", tuple(_consent_who_learns_lines(found))),
        ConsentPart(
            "rules_without_tables" if found.rules is None else "rules",
            tuple(_consent_check_lines(found)),
        ),
        ConsentPart("open", tuple(_consent_open_lines(found, drawn=drawn))),
    )
    relays = () if consortium.relays is None else consortium.relays.places
    facts = {
        "run": consortium.run if drawn else None,
        "consortium": consortium.digest.hex() if drawn else None,
        "title": printable(consortium.title),
        "organiser": consortium.organiser or None,
        "members": list(consortium.topology.parties),
        "relays": list(map(str, relays)),
        "question": consortium.question.heading,
        "columns": list(columns_own_rules_meet(consortium)),
        "recodings": list(recodings_own_rules_meet(consortium)),
        "rules": rules_in_force(consortium),
        "relaxed": list(relaxed_rules(consortium)),
        "rounds": [rounds.least, rounds.most],
        "numbers": [rounds.least_numbers, rounds.most_numbers],
        "known": [
            {"when": one.when, "least": one.least, "most": one.most}
            | {"statistics": dict(one.statistics)}
            for one in found.recipe.foreseen
        ],
        "complete": not room.left_out,
    }
    return Consent(shared=shared, facts=facts, asked=found)


# The head, and what a reader must not miss


def _consent_head_lines(
    consortium: Consortium, room: PageRoom, *, drawn: bool
) -> Iterator[str]:
    title = consortium.title
    if title:
        yield _say("head.title", title=quoted_for_release(title))
    else:
        yield _say("head.no_title")
    if drawn:
        yield _say("head.run", run=consortium.run)
        yield _say("head.file", digest=fingerprint_in_groups(consortium.digest))
        if consortium.study:
            yield _say("head.of_study", study=consortium.study)
    else:
        yield _say("head.no_run")
    if consortium.former:
        yield _say("head.amends", former=consortium.former)
    parties = consortium.topology.parties
    names = room.names(_say("lists.members"), parties)
    yield _say("head.members", n=len(parties), names=names)
    if not consortium.organiser:
        yield _say("head.no_organiser")
    elif consortium.rules.policy.drop:
        yield _say("head.organiser_may_stay_away", organiser=consortium.organiser)
    else:
        yield _say("head.organiser", organiser=consortium.organiser)


def _consent_first_lines(found: Asked, room: PageRoom) -> Iterator[str]:
    weaker = relaxed_rules(found.consortium)
    kind = question_kind_of(found.question)
    if found.rules is None and kind.input != "folder":
        yield _say("first.no_rules")
    elif found.rules is not None and found.rules.maximum_rows == 1:
        yield _say("first.one_row")
    yield from kind.warnings(found)
    if aimed := recodings_own_rules_meet(found.consortium):
        quoted = [quoted_for_release(one) for one in aimed]
        yield _say(
            "first.recodings",
            names=room.names(_say("lists.recoded"), quoted),
            aim=_say("own_rules.aim"),
            rule=own_rule_allowing_recodings(found.consortium),
        )
    if "site_terms" in weaker:
        yield _say("first.site_terms")
    for name, (value, usual) in weaker.items():
        if name != "site_terms":
            yield _say(
                "first.weaker",
                name=name,
                value=exact_number_words(value),
                usual=exact_number_words(usual),
                meaning=_consent_flag_meaning(name, value, found),
            )
    yield _say("first.ask_why" if weaker else "first.usual")
    yield from (_say("first.too_long", line=line) for line in room.left_out)


# What is asked


def _consent_question_lines(found: Asked, room: PageRoom) -> Iterator[str]:
    yield from question_kind_of(found.question).describe(found, room)
    schema = found.consortium.schema
    if schema is None:
        return
    names = columns_own_rules_meet(found.consortium)
    yield _say("asked.columns", n=len(names))
    lines = [
        _say(
            "asked.column",
            name=quoted_for_release(name),
            described=_consent_column_words(schema.column(name), room),
        )
        for name in names
    ]
    lines += [
        _say("asked.derived", line=printable(dictionary_column_line(one)))
        for one in derived_columns_asked(found.consortium)
    ]
    yield from room.lines(_say("lists.columns"), lines)
    drop = schema.missing == "drop"
    yield _say("asked.missing_dropped" if drop else "asked.missing_refused")
    if schema.complete:
        needed = [quoted_for_release(one.name) for one in schema.complete]
        yield _say("asked.complete", names=", ".join(needed))


def _consent_range_end(value: float | str) -> str:
    return value if isinstance(value, str) else exact_number_words(value)


def _consent_column_words(column: Column, room: PageRoom) -> str:
    """Return what a column may hold; a number to its last digit, it may be aimed."""
    if column.is_category:
        levels = [quoted_for_release(one) for one in column.categories]
        title = _say("lists.levels", name=quoted_for_release(column.name))
        shown = room.names(title, levels)
        found = _say("column.category", n=len(levels), levels=shown)
        return _with_words(found, column, room)
    ends = {
        name: _consent_range_end(column.written(end))
        for name, end in (("least", column.minimum), ("most", column.maximum))
        if end is not None
    }
    by_ends = {(): "number", ("least",): "from", ("most",): "to"}
    key = by_ends.get(tuple(ends), "range")
    found = _say(f"column.{key}", kind=column.kind, unit=column.unit_words, **ends)
    return _with_words(found, column, room)


def _with_words(described: str, column: Column, room: PageRoom) -> str:
    """Add which values of a table are read as others, or as missing."""
    name, found = quoted_for_release(column.name), ""
    recoded = [
        _say(
            "column.read_as",
            word=quoted_for_release(word),
            value=quoted_for_release(str(value)),
        )
        for word, value in column.recode
    ]
    if recoded:
        title = _say("lists.recodings", name=name)
        found += _say("column.recoded", words=room.names(title, recoded))
    missing = [quoted_for_release(word) for word in column.missing]
    if missing:
        title = _say("lists.missing", name=name)
        found += _say("column.missing", words=room.names(title, missing))
    if not found:
        return described
    return _say("column.with_words", described=described, words=found)


# How much becomes known


@dataclass(frozen=True)
class ConsentAmount:
    """Bounds on the number of rounds, and on the total of numbers in them."""

    least: int
    most: int
    least_numbers: int
    most_numbers: int


def _consent_rounds(found: Asked) -> ConsentAmount:
    """Return the least and the most; a ledger reserves what fills sums up as well."""
    kinds = [(one, one.numbers) for one in found.recipe.foreseen]
    least = sum(one.least for one, _ in kinds)
    most: int = getattr(found.recipe, "most_rounds", sum(k.most for k, _ in kinds))
    # The first is always there; then those of which each shows the most.
    left, numbers = most, 0
    for one, size in (kinds[0], *sorted(kinds[1:], key=lambda kind: -kind[1])):
        taken = min(left, one.most)
        left, numbers = left - taken, numbers + taken * size
    return ConsentAmount(least, most, sum(k.least * size for k, size in kinds), numbers)


def _consent_how_much_lines(found: Asked, rounds: ConsentAmount) -> Iterator[str]:
    one = rounds.least == rounds.most == 1
    most = {"rounds": rounds.most, "numbers": rounds.most_numbers}
    if one:
        yield _say("amount.one_round", numbers=rounds.most_numbers)
    elif rounds.least == rounds.most:
        yield _say("amount.rounds", **most)
    else:
        least = counted_words(rounds.least, "round")
        yield _say("amount.least", rounds=least, numbers=rounds.least_numbers)
        yield _say("amount.most", **most)
    if not one:
        yield _say("amount.shown_until_then")
    if found.recipe.round_size:
        yield _say("amount.estimates", numbers=found.recipe.round_size)


# What it is that becomes known


def _consent_known_lines(found: Asked, room: PageRoom) -> Iterator[str]:
    kind = question_kind_of(found.question)
    whose = kind.summands(found)
    if found.rules is not None:
        whose = _say("known.or_members", whose=whose)
    recipe = (
        found.recipe.inner if isinstance(found.recipe, GuardedRecipe) else found.recipe
    )
    inner = getattr(recipe, "inner", recipe)
    if getattr(inner, "wording", None) is BY_PARTY and found.rules is not None:
        whose = _say("known.by_party")
    yield _say("known.over", whose=whose)
    yield _say("known.exactly")
    counting = isinstance(found.recipe, PresenceScreenedRecipe)
    schema = found.consortium.schema
    drop = schema is not None and schema.missing == "drop"
    for place, later in enumerate(found.recipe.foreseen):
        when = round_name_phrase(later.when, counting=counting)
        n = sum(later.statistics.values())
        yield _say("known.round", when=when, times=times_in_words(later), n=n)
        if not place and isinstance(found.recipe, PresenceScreenedRecipe):
            groups = [quoted_for_release(one.name) for one in found.recipe.groups]
            names = room.names(_say("lists.groups"), groups)
            yield _say("known.groups", names=names)
        first = later.when == "first"
        for key, count in later.statistics.items():
            if count:
                text = statistic_meaning(key, first=first, zero=not drop)
                yield _say(
                    "known.statistic", label=statistic_label(key), n=count, meaning=text
                )
        if not place and counting and {"holders", "varying"} & later.statistics.keys():
            yield _say("known.ends_there")
    yield from kind.consequences(found, room)
    answer = _say("known.answer") if found.job is None else found.job.follows
    yield _say("known.follows", answer=answer)
    yield _say("known.receipt")


# Who can compute what


def _consent_who_learns_lines(found: Asked) -> Iterator[str]:
    terms, n = found.terms, found.terms.topology.n_parties
    own = tuple(question_kind_of(found.question).who(found))
    if own:
        yield from own
        return
    tolerate = terms.tolerate
    yield _say("who.everybody")
    yield _say("who.member", others=n - 1)
    without = {"without_2": n - 2, "without_tolerate": n - tolerate}
    if n > 3:
        key = "who.several_tolerated" if tolerate > 2 else "who.several"
        yield _say(key, tolerate=tolerate, **without)
    by_size = {0: "who.tolerate_0", 1: "who.tolerate_1"}
    as_long = _say(by_size.get(tolerate, "who.tolerate"), tolerate=tolerate)
    exact = terms.law.masks.kind.sums_only
    yield _say("who.same" if exact else "who.nearly_same", as_long=as_long, **without)
    if terms.policy.drop:
        yield _say("who.lost", honest=terms.honest)
    yield _say("who.beyond", others=n - 1)
    yield _say("who.told")


# What is checked


def _consent_flag_meaning(name: str, value: Value, found: Asked) -> str:
    if name == "site_terms" and not value:
        key = "within" if _consent_varying_columns(found) else "false"
        return _say(f"flags.site_terms.{key}", holders=_consent_holders_words(found))
    if isinstance(value, bool):
        return _say(f"flags.{name}.{exact_number_words(value)}")
    off = {} if found.rules is None else found.rules.off
    if name in off:
        return _say("rules.off_because", why=off[name])
    if name == "minimum_rows" and value == 1:
        return _say("rules.minimum_rows_1")
    return _say(f"meanings.{name}", value=exact_number_words(value))


def _consent_varying_columns(found: Asked) -> list[PresenceVaryingColumns]:
    """Return how members are counted in which columns vary, if they are."""
    groups = getattr(found.recipe, "groups", ())
    return [one for one in groups if isinstance(one, PresenceVaryingColumns)]


def _consent_holders_words(found: Asked) -> str:
    """Say what the first round asks about, if there is one that counts members."""
    if not isinstance(found.recipe, PresenceScreenedRecipe):
        return _say("holders.none", few=FEW_VALUES)
    least, varying = found.recipe.least, _consent_varying_columns(found)
    lead = "" if varying else _say("holders.lead")
    counts = _say("holders.counted", few=FEW_VALUES, least=least)
    also = "".join(
        _say("holders.varying", rows=one.rows, most=max(least, one.least), least=least)
        for one in varying
    )
    if any(merge_axes_of(one) for one in found.recipe.groups):
        also += _say("holders.merged", least=least, enough=found.recipe.enough)
    return f"{lead}{counts}{also}"


def _consent_check_lines(found: Asked) -> Iterator[str]:
    rules = rules_in_force(found.consortium)
    weaker = relaxed_rules(found.consortium)
    kind = question_kind_of(found.question)
    head, *more = kind.rule_lines(found)
    yield head
    for name, value in rules.items():
        if name in kind.unused_rules:
            continue
        yield _say(
            "rules.weaker_line" if name in weaker else "rules.line",
            name=name,
            value=exact_number_words(value),
            meaning=_consent_flag_meaning(name, value, found),
        )
    yield from more
    if found.rules is not None:
        if found.rules.maximum_rows is not None:
            yield _say("rules.maximum_rows", most=found.rules.maximum_rows)
        yield _say("rules.ranges")


# What is left open


def _consent_between_lines(found: Asked, *, drawn: bool) -> Iterator[str]:
    """Describe a relay or letters between members, if the file has either."""
    consortium = found.consortium
    if consortium.relays is not None:
        places = ", ".join(map(str, consortium.relays.places))
        yield _say("open.relay", places=places)
    elif consortium.by_files and drawn:
        yield _say("open.letters", carries=_carries_to_answer(_consent_rounds(found)))


def _carries_to_answer(rounds: ConsentAmount) -> str:
    """Return how often letters are carried on a complete graph before the answer.

    Keys and shares once; confirmations and masked numbers for each sum.
    """
    least, most = 2 + 2 * rounds.least, 2 + 2 * rounds.most
    return f"{least}" if least == most else f"{least}-{most}"


def _consent_open_lines(found: Asked, *, drawn: bool) -> Iterator[str]:
    yield _say("open.totals")
    if found.rules is None:
        yield _say("open.changes")
    else:
        fewest = _say("open.fewest_1")
        if isinstance(found.recipe, PresenceScreenedRecipe):
            fewest = _say("open.fewest", least=found.recipe.least)
        yield _say("open.every_row")
        yield _say("open.few_members", fewest=fewest)
        yield _say("open.passes")
    yield _say("open.here")
    yield _say("open.connected")
    yield from _consent_between_lines(found, drawn=drawn)
    yield _say("open.false_numbers")
    yield _say("open.computer")
    yield _say("open.members")
    kind = question_kind_of(found.question)
    if kind.input != "folder":
        yield _say("open.next")
    yield from (
        _say("open.limit", line=line) for line in open_limits_of_recipe(found.recipe)
    )
    yield from (f"- {line}" for line in kind.limits(found))
