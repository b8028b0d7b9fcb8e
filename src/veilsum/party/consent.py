"""What a party agrees to when it takes part: one page in plain words.

The first half follows from the consortium file alone. It is the same for every member,
letter by letter, and its digest goes into every receipt. The second half is about this
party: its table, its own rules, its ledger. That half is for its owner's eyes, and its
files are too.

Whatever the file says is shown as text, in quotes, and never at the beginning of a
line: nothing in it can pass for a line of this page.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from veilsum.consortium.consortium import Consortium, canonical
from veilsum.errors import printable
from veilsum.files.output import as_json, write_files
from veilsum.locale import label, meaning, round_name
from veilsum.net.identity import fingerprint_in_groups
from veilsum.party.agreed import resolve_agreed_question
from veilsum.party.own_rules import (
    CONSTANTS_AIM,
    Value,
    columns_asked,
    constants_asked,
    own_rule_allowing_constants,
    relaxed_rules,
    rules_in_force,
)
from veilsum.showing import Items, Renderable, Rendering, counted
from veilsum.sums.kinds import Asked, question_kind_of
from veilsum.sums.presence import FEW_VALUES, Screened, Varying
from veilsum.sums.recipes import Guarded, open_limits
from veilsum.sums.releases import BY_PARTY, PossibleRound
from veilsum.sums.wording import PageRoom, exact_number_words, quoted_for_release
from veilsum.tables.columns import Column

WIDTH = 88
# A digest of facts is for that, and for no other use.
CONTEXT = b"veilsum consent\0"
# The page for programs, among a run's files.
PAGE = "consent.json"

SAME = (
    "The page above is the same for every member of the consortium. What follows is "
    "about you, and for you alone."
)
OF_A_PLAN = (
    "The page above follows from the plan alone, whoever reads it; a consortium file "
    "that is made of it has a page of its own. What follows is about you, and for you "
    "alone."
)


@dataclass(frozen=True)
class Part:
    """Some lines of a page under one heading; a dash begins an item."""

    heading: str
    lines: tuple[str, ...]

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


@dataclass(frozen=True, kw_only=True, repr=False)
class Consent(Renderable):
    """What a party agrees to.

    Attributes:
        shared: the half that all members have alike.
        facts: the same for programs.
        own: the half about one party; () where nobody's table is looked at.
    """

    shared: tuple[Part, ...]
    facts: Mapping[str, Any]
    own: tuple[Part, ...] = ()

    @cached_property
    def page(self) -> str:
        """The half that all members have alike, as text."""
        return "\n".join(part.text for part in self.shared)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `facts`, in hexadecimal, as receipts have it: words are not in it.

        Facts have the digest of the consortium file, from which everything follows.
        """
        return hashlib.sha256(CONTEXT + canonical(self.facts)).hexdigest()

    def showing(self) -> Rendering:
        """Return the half that all members have alike; `text` has one's own as well."""
        first, *rest = self.shared
        of = "a plan" if self.facts["run"] is None else f"the run {self.facts['run']}"
        own = [".text() has the half about you as well, which is for you alone."]
        return Rendering(
            f"Consent to {of}, digest {self.digest}",
            [Items(first.heading, first.lines), *(own if self.own else [])],
            {one.heading: one.lines for one in rest},
        )

    def text(self) -> str:
        """Return the whole page."""
        if not self.own:
            return self.page
        rest = "\n".join(part.text for part in self.own)
        line = "-" * WIDTH
        told = textwrap.fill(OF_A_PLAN if self.facts["run"] is None else SAME, WIDTH)
        told = f"{told}\nDigest of the facts on this page: {self.digest}"
        return f"{self.page}\n{line}\n{told}\n{line}\n\n{rest}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `own` is for the owner only."""
        return {
            "digest": self.digest,
            "shared": {**self.facts, "page": _plain(self.shared)},
            "own": _plain(self.own),
        }

    def write(self, folder: Path) -> list[Path]:
        """Write consent.txt and consent.json, which only their owner may read."""
        files = {
            "consent.txt": self.text().encode(),
            PAGE: (as_json(self.to_dict()) + "\n").encode(),
        }
        return write_files(folder, files, private=True)


def _plain(parts: Iterable[Part]) -> dict[str, list[str]]:
    return {one.heading: [printable(line) for line in one.lines] for one in parts}


def consent_to(consortium: Consortium, *own: Part, drawn: bool = True) -> Consent:
    """Return what a consortium asks, and what comes of it.

    Args:
        consortium: what was agreed on, or is to be.
        own: what one party adds about itself.
        drawn: whether there is a consortium file; a plan has no digest yet.

    Raises:
        InvalidInputError: nobody could take part in it.
    """
    return replace(_shared(consortium, drawn=drawn), own=own)


@lru_cache(16)  # a party asks for the page, and at the end for its digest
def _shared(consortium: Consortium, *, drawn: bool) -> Consent:
    """Return the half that all members have alike."""
    found = resolve_agreed_question(consortium)
    rounds = _rounds(found)
    room = PageRoom()
    head = tuple(_head(consortium, room, drawn=drawn))
    asked = tuple(_asked(found, room))
    known = tuple(_known(found, room))
    shared = (
        Part("CONSENT TO ONE RUN", head),
        Part("READ THIS FIRST", tuple(_first(found, room))),
        Part("WHAT IS ASKED", asked),
        Part("HOW MUCH", tuple(_how_much(found, rounds))),
        Part("WHAT BECOMES KNOWN TO EVERY MEMBER", known),
        Part("WHO CAN COMPUTE WHAT FROM IT", tuple(_who(found))),
        Part(
            "WHAT ALL KEEP TO"
            if found.rules is None
            else "WHAT EVERY PARTY CHECKS ON ITS OWN TABLE FIRST",
            tuple(_checks(found)),
        ),
        Part("WHAT IS NOT PROTECTED", tuple(_open(found, drawn=drawn))),
    )
    (question,) = consortium.questions
    relays = () if consortium.relays is None else consortium.relays.places
    facts = {
        "run": consortium.run if drawn else None,
        "consortium": consortium.digest.hex() if drawn else None,
        "title": printable(consortium.title),
        "organiser": consortium.organiser or None,
        "members": list(consortium.topology.parties),
        "relays": list(map(str, relays)),
        "question": question.heading,
        "columns": list(columns_asked(consortium)),
        "constants": list(constants_asked(consortium)),
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
    return Consent(shared=shared, facts=facts)


# The head, and what a reader must not miss


def _head(consortium: Consortium, room: PageRoom, *, drawn: bool) -> Iterator[str]:
    title = consortium.title
    yield f"title: {quoted_for_release(title)}" if title else "title: none"
    if drawn:
        yield f"run: {consortium.run}"
        digest = fingerprint_in_groups(consortium.digest)
        yield f"consortium file: {digest}; compare these digits by telephone"
        if consortium.study:
            yield f"it is one question of the study {consortium.study}"
    else:
        yield "run: none yet; this is a plan, and no consortium file"
    if consortium.former:
        yield (
            f"amends: the file {consortium.former}; certificates differ, and every "
            "member has to sign that it takes this file for that one"
        )
    parties = consortium.topology.parties
    yield f"members: {len(parties)}: {room.names('members', parties)}"
    if not consortium.organiser:
        yield "organiser: the file does not say who wrote it; ask who sent it to you"
        return
    yield (
        f"organiser: {consortium.organiser}, by the file's own word; that is a member, "
        "who sees this page too"
        + (" unless it stays away" if consortium.rules.policy.drop else "")
    )


SITES = (
    "!!! SITE TERMS ARE ALLOWED (site_terms = true). Columns and levels may tell one "
    "party from the others. Sums over the rows of ONE PARTY ALONE may become known to "
    "everybody: yours too. Do not agree unless every sum below may be published about "
    "your own table by itself. !!!"
)


def _first(found: Asked, room: PageRoom) -> Iterator[str]:
    weaker = relaxed_rules(found.consortium)
    kind = question_kind_of(found.consortium.questions[0])
    if found.rules is None and kind.input != "folder":
        yield (
            "there are no rules about tables for this kind of question: nobody checks "
            "what your own numbers give away by their sums"
        )
    elif found.rules is not None and found.rules.maximum_rows == 1:
        yield (
            "every table has one row at most (maximum_rows = 1): a row is a member "
            "here, and what is said of one row is said of one member"
        )
    yield from kind.warnings(found)
    if aimed := constants_asked(found.consortium):
        named = room.names("constants", [quoted_for_release(one) for one in aimed])
        yield (
            f"THE QUESTION USES CONSTANTS: {named}. {CONSTANTS_AIM}: a party takes "
            "part only if its own rules have "
            f"{own_rule_allowing_constants(found.consortium)}"
        )
    if "site_terms" in weaker:
        yield SITES
    for name, (value, before) in weaker.items():
        if name != "site_terms":
            yield (
                f"WEAKER THAN USUAL: {name} = {exact_number_words(value)}, and usual "
                "is "
                f"{exact_number_words(before)}: {_meaning(name, value, found)}"
            )
    if weaker:
        yield "whoever wrote the file chose this; ask why before you agree"
    else:
        yield "no rule of this file is weaker than the usual ones"
    yield from (f"TOO LONG TO BE SHOWN: {line}" for line in room.left_out)


# What is asked


def _asked(found: Asked, room: PageRoom) -> Iterator[str]:
    yield from question_kind_of(found.consortium.questions[0]).describe(found, room)
    schema = found.consortium.schema
    if schema is None:
        return
    names = columns_asked(found.consortium)
    yield f"columns that are looked at: {len(names)}"
    lines = [
        f"- {quoted_for_release(name)}: {_column(schema.column(name), room)}"
        for name in names
    ]
    yield from room.lines("columns", lines)
    drop = schema.missing == "drop"
    yield (
        "rows with a missing value are left out, and counted"
        if drop
        else "a table with a missing value takes no part"
    )


def _end(value: float | str) -> str:
    return value if isinstance(value, str) else exact_number_words(value)


def _column(column: Column, room: PageRoom) -> str:
    """Return what a column may hold; a number to its last digit, it may be aimed."""
    if column.is_category:
        levels = [quoted_for_release(one) for one in column.categories]
        shown = room.names(f"levels of {quoted_for_release(column.name)}", levels)
        words = _words_of_tables(column, room)
        return f"category, one of {len(levels)}: {shown}{words}"
    low, high = (
        None if end is None else column.written(end)
        for end in (column.minimum, column.maximum)
    )
    least = "" if low is None else f", {_end(low)} or more"
    most = "" if high is None else f", {_end(high)} or less"
    unit = f", counted in {column.unit_words}"
    return f"{column.kind}{least}{most}{unit}{_words_of_tables(column, room)}"


def _words_of_tables(column: Column, room: PageRoom) -> str:
    """Return which values of a table are read as others, or as missing."""
    name = quoted_for_release(column.name)
    recoded = [
        f"{quoted_for_release(word)} as {quoted_for_release(str(value))}"
        for word, value in column.recode
    ]
    missing = [quoted_for_release(word) for word in column.missing]
    found = ""
    if recoded:
        found += f"; read {room.names(f'recodings of {name}', recoded)}"
    if missing:
        found += f"; missing: {room.names(f'words for no value of {name}', missing)}"
    return found


# How much becomes known


@dataclass(frozen=True)
class Amount:
    """How many rounds there are, and how many numbers in all of them."""

    least: int
    most: int
    least_numbers: int
    most_numbers: int


def _rounds(found: Asked) -> Amount:
    """Return the least and the most; a ledger reserves what fills sums up as well."""
    kinds = [(one, one.numbers) for one in found.recipe.foreseen]
    least = sum(one.least for one, _ in kinds)
    most: int = getattr(found.recipe, "most_rounds", sum(k.most for k, _ in kinds))
    # The first is always there; then those of which each shows the most.
    left, numbers = most, 0
    for one, size in (kinds[0], *sorted(kinds[1:], key=lambda kind: -kind[1])):
        taken = min(left, one.most)
        left, numbers = left - taken, numbers + taken * size
    return Amount(least, most, sum(k.least * size for k, size in kinds), numbers)


def _how_much(found: Asked, rounds: Amount) -> Iterator[str]:
    one = rounds.least == rounds.most == 1
    if one:
        yield f"1 round, that is one sum of {rounds.most_numbers} numbers"
    elif rounds.least == rounds.most:
        yield f"{rounds.most} rounds, and {rounds.most_numbers} numbers in all"
    else:
        yield (
            f"an answer takes at least {counted(rounds.least, 'round')} and "
            f"{rounds.least_numbers} numbers"
        )
        yield f"there are at most {rounds.most} rounds, {rounds.most_numbers} numbers"
    if not one:
        yield "a run that ends without an answer has shown the rounds until then"
    recipe = found.recipe
    if recipe.round_size:
        yield (
            "then every party tells its neighbours estimates, again and again, of "
            f"{recipe.round_size} numbers each, computed from masked costs: in as many "
            "rounds of messages as are said above"
        )


# What it is that becomes known


def _known(found: Asked, room: PageRoom) -> Iterator[str]:
    kind = question_kind_of(found.consortium.questions[0])
    whose = kind.summands(found)
    if found.rules is not None:
        whose += ", or a count of members"
    recipe = found.recipe.inner if isinstance(found.recipe, Guarded) else found.recipe
    inner = getattr(recipe, "inner", recipe)
    if getattr(inner, "wording", None) is BY_PARTY and found.rules is not None:
        whose = "members, of what each makes of all its rows, or a count of members"
    yield f"every number here is one sum over all {whose}"
    yield "every member learns it exactly"
    counting = isinstance(found.recipe, Screened)
    schema = found.consortium.schema
    drop = schema is not None and schema.missing == "drop"
    for place, later in enumerate(found.recipe.foreseen):
        when = round_name(later.when, counting=counting)
        yield f"in {when}{_times(later)}, {sum(later.statistics.values())} numbers:"
        if not place and isinstance(found.recipe, Screened):
            groups = [quoted_for_release(one.name) for one in found.recipe.groups]
            listed = room.names("groups asked for", groups)
            yield f"- members are counted in these groups: {listed}"
        first = later.when == "first"
        for key, count in later.statistics.items():
            if count:
                text = meaning(key, first=first, zero=not drop)
                yield f"- {label(key)} ({count}): {text}"
        if not place and counting:
            yield (
                "- if too few members have one of them, the run ends there, and these "
                "counts are known all the same"
            )
    yield from kind.consequences(found, room)
    yield (
        "whatever follows from these numbers becomes known with them, such as "
        + ("the answer" if found.job is None else found.job.follows)
    )
    yield "who took part, when, and what this page says: every receipt has it"


def _times(kind: PossibleRound) -> str:
    if (kind.least, kind.most) == (1, 1):
        return ""
    if kind.least == kind.most:
        return f" ({kind.least} of them)"
    return f" ({kind.least} to {kind.most} of them)"


# Who can compute what


def _who(found: Asked) -> Iterator[str]:
    terms, n = found.terms, found.terms.topology.n_parties
    own = tuple(question_kind_of(found.consortium.questions[0]).who(found))
    if own:
        yield from own
        return
    t = terms.tolerate
    yield (
        "everybody: the sums above, over all members, and all that follows from them. "
        "Nothing is hidden in these totals themselves."
    )
    yield (
        f"each member alone: the same sums over the {n - 1} others, for it can "
        "subtract what it gave itself"
    )
    if n > 3:
        more = f", any {t} of them over the {n - t} others" if t > 2 else ""
        yield (
            "several members who pool what they know, however many: the same sums over "
            f"all the others; any 2 of them over the {n - 2} others{more}"
        )
    exact = terms.law.masks.kind.sums_only
    nearly = "nearly the same to them; the guarantee says how nearly (epsilon)"
    yield (
        f"{_as_long(t)}, any other division of the same sums among the {n - t} others "
        f"would have looked {'the same to them' if exact else nearly}, timing apart. "
        "That is all that masks do."
    )
    if terms.policy.drop:
        yield (
            f"members may be lost and the others go on: then {terms.honest} others at "
            "least are left in these sums"
        )
    yield (
        f"if more of them pool what they saw, nothing is promised; the {n - 1} others "
        "together know what you gave, exactly"
    )
    yield "whoever is told by a member knows what that member knows"


def _as_long(tolerate: int) -> str:
    if tolerate > 1:
        return f"as long as {tolerate} or fewer members pool what they saw"
    if tolerate:
        return "as long as no two members pool what they saw"
    return "to outsiders only, for no member may be curious here (tolerate = 0)"


# What is checked


MEANINGS: Mapping[str, str] = {
    "tolerate": "what is promised holds as long as no more than {} of the members "
    "pool what they saw",
    "minimum_honest": "at least {} others are in every sum that such members can "
    "learn, be it with a 0",
    "minimum_guests": "of a cell that fewer than {} guests filled no total is asked "
    "for",
    "minimum_rows": "a table with fewer than {} rows takes no part",
    "minimum_count": "each level, combination and bin that the question names, and "
    "each value of a column with two values, has no rows in a table or at least {}; "
    "smaller groups that follow from several sums are not checked",
    "effective_count": "no column, and no part of a formula, rests on fewer than {} "
    "rows of a table",
    "maximum_leverage": "no row has more than {} of the weight of a coefficient within "
    "its own table",
    "residual_rows": "there are at least {} rows more than the design has columns",
    "maximum_levels": "no category has more than {} levels",
    "maximum_columns": "the design has at most {} columns for each row",
    "dominance": "the two largest values of a column stay below {} of its sum within a "
    "table",
    "release_fraction": "the numbers that become known are fewer than {} times those "
    "that the tables hold",
    "most_rounds": "there are {} rounds at most, beside one that counts members",
}
FLAGS: Mapping[str, tuple[str, str]] = {
    "drop": (
        "nobody goes on without a member that is lost",
        "the others may go on without a member that is lost before anything is shown",
    ),
    "site_terms": (
        "a category with one level only in a whole table is refused, and so is a "
        "number that is the same in all its rows or, where it is computed, nearly the "
        "same. But a column that can have two levels or two values only, such as 0 and "
        "1, may have one of them in all rows",
        "columns and levels MAY TELL ONE PARTY FROM THE OTHERS; nothing of this is "
        "checked",
    ),
}


# The same where rows are compared within each member's table only.
WITHIN = (
    "a category of the design with one level only in a whole table, or a number that "
    "is the same in all its rows, adds nothing there, for rows are compared within "
    "each member's table only. But a computed number that is nearly the same in all "
    "rows is refused. The first round counts"
)


def _meaning(name: str, value: Value, found: Asked) -> str:
    if name in FLAGS:
        told = FLAGS[name][bool(value)]
        if name == "site_terms" and not value:
            return (WITHIN if _varying(found) else told) + _holders(found)
        return told
    off = {} if found.rules is None else found.rules.off
    if name in off:
        return f"switched off: {off[name]}"
    if name == "residual_rows" and not value:
        return "switched off"
    if name == "minimum_rows" and value == 1:
        return "a table without any row takes no part"
    return MEANINGS[name].format(exact_number_words(value))


def _varying(found: Asked) -> list[Varying]:
    """Return how members are counted in which columns vary, if they are."""
    groups = getattr(found.recipe, "groups", ())
    return [one for one in groups if isinstance(one, Varying)]


def _holders(found: Asked) -> str:
    """Say what the first round asks about, if there is one that counts members."""
    if not isinstance(found.recipe, Screened):
        return (
            ". No round counts members, for nothing that is asked has levels, bins, or "
            f"{FEW_VALUES} values or fewer"
        )
    least = found.recipe.least
    lead = ": that is asked about in the first round instead, which counts"
    lead = "" if _varying(found) else lead
    also = "".join(
        f". The first round also counts the members whose {one.rows} differ in every "
        "number and category, and of these the members with rows in and outside each "
        "level, cell and value; columns with two values or levels need not differ. "
        f"Fewer than {max(least, one.least)} members of the former end the run, and "
        f"fewer than {least} of the latter where any row has it"
        for one in _varying(found)
    )
    return (
        f"{lead} how many members "
        "have each level, cell and bin, and each of a column's values where it "
        f"can have {FEW_VALUES} or fewer. Where some have it and fewer than {least}, "
        f"or fewer than {least} have several of a group of which several are there, "
        f"the run ends, and nothing else is shown{also}"
    )


def _checks(found: Asked) -> Iterator[str]:
    rules = rules_in_force(found.consortium)
    weaker = relaxed_rules(found.consortium)
    kind = question_kind_of(found.consortium.questions[0])
    head, *more = kind.rule_lines(found)
    yield head
    for name, value in rules.items():
        if name in kind.unused_rules:
            continue
        mark = " (WEAKER THAN USUAL)" if name in weaker else ""
        yield (
            f"- {name} = {exact_number_words(value)}{mark}: "
            f"{_meaning(name, value, found)}"
        )
    yield from more
    if found.rules is not None:
        if found.rules.maximum_rows is not None:
            most = found.rules.maximum_rows
            yield f"- maximum_rows = {most}: a table with more rows takes no part"
        yield "- every value is of the kind and in the range that is agreed above"


# What is left open


def _fewest(found: Asked) -> str:
    if isinstance(found.recipe, Screened):
        return (
            "Of what the first round counts, these are at least "
            f"{found.recipe.least} members, or none; of anything else it may be one."
        )
    return "It may be one member, for no round counts who has it."


def _between(consortium: Consortium, *, drawn: bool) -> Iterator[str]:
    """Say what whoever is between members sees, if the file puts somebody there."""
    if consortium.relays is not None:
        places = ", ".join(map(str, consortium.relays.places))
        yield (
            "- to whoever hosts or watches the relay, where members meet who do not "
            f"reach each other ({places}): network addresses of members or of their "
            "proxies, how many meet there and who whom, under pseudonyms, and when and "
            "how much each sends, and so about how many numbers are added up, how many "
            "sums there are, and how long a computer works for each; no name, key or "
            "number"
        )
    elif consortium.by_files and drawn:
        yield (
            "- to whoever carries letters, for no member has an address: names of "
            "members, the run, who writes to whom, how many letters, how long and when"
        )


def _open(found: Asked, *, drawn: bool) -> Iterator[str]:
    on_tables = found.rules is not None
    yield "- the totals above, and whatever follows from them with what somebody knows"
    if on_tables:
        yield (
            "- what holds for every row, or for nearly all: totals show it of each of "
            "them"
        )
        yield (
            "- a level, a value or a combination that few members have: its total is "
            "over their rows alone, for the others that minimum_honest counts add 0 to "
            "it; and who knows which members have it knows whose. " + _fewest(found)
        )
        yield (
            "- that your table passes the checks above: that you take part tells "
            "everybody that it has rows enough, these columns, and no values beyond "
            "the agreed ranges and levels"
        )
    else:
        yield "- how the totals change from one question to the next"
    yield (
        "- that you are here or absent, that you refused, and when and how long your "
        "computer worked"
    )
    yield "- who is connected to whom, and how much is sent"
    yield from _between(found.consortium, drawn=drawn)
    yield (
        "- against members who do not keep to the protocol, or give false numbers: "
        "what is said here is about those who do"
    )
    yield "- a computer that somebody else controls"
    yield "- what members do with what they have learned"
    kind = question_kind_of(found.consortium.questions[0])
    if kind.input != "folder":
        yield (
            "- the next question: every run adds to what is known about the same data. "
            "Your own ledger, a file of yours that counts what your data were used "
            "for, keeps count of it, and nobody else does."
        )
    yield from (f"- {line}" for line in open_limits(found.recipe))
    yield from (f"- {line}" for line in kind.limits(found))
