"""What the page of consent says of a survey: guests' numbers, and not the reader's own.

From the file alone; who of the roster is in the set, the reader's own half says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from veilsum.numbers.arrays import listed
from veilsum.surveys.question import (
    MAY_FOLLOW,
    MORE_NEAR,
    MOST_PAIRS,
    NEAR,
    promise_to_guests,
)
from veilsum.surveys.terms import SurveyTerms

# So many names are read; of more the number says as much.
MOST_NAMES = 20

FIRST = (
    "none of your own data is in this: you add up shares of what guests gave, and "
    "nobody else can add up yours",
    "guests are not here to refuse: they have no ledger and no rules of their own, and "
    "rely on yours. Every check below is for them",
)
NO_TABLES = (
    "your table is not looked at, and no rule is about it; for guests all keep to:"
)


def names_of(guests: Collection[str]) -> str:
    """Return guests by name, or how many they are.

    >>> names_of(["Firm 1", "Firm 2"])
    '2 guests: "Firm 1", "Firm 2"'
    """
    if len(guests) > MOST_NAMES:
        return f"{len(guests):,} guests"
    return f"{len(guests)} guests: " + ", ".join(map(_quoted, guests))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def by_member(survey: SurveyTerms, guests: Iterable[str]) -> str:
    """Return how many of some guests each member has invited."""
    invited = Counter(survey.roster[name].invited_by for name in guests)
    return ", ".join(f"{name} {invited[name]}" for name in survey.names)


def asked(survey: SurveyTerms, room: Any) -> Iterator[str]:
    """Yield the question in words."""
    yield (
        "question: the totals of a table that guests fill, each in one visit (a "
        f"survey): {_quoted(survey.title)}"
    )
    for what, names in (("rows", survey.rows), ("columns", survey.columns)):
        labels = [_quoted(one) for one in names]
        yield f"{what} of the table: {len(labels)}: {room.names(what, labels)}"
    yield (
        f"each number is a whole number of {survey.unit}, from {survey.low} to "
        f"{survey.high}, or not given at all"
    )
    yield (
        "which cells a guest left empty is open: the host and all members have it in "
        "what the guest signed, and know who it is. Guests are told so before they send"
    )
    yield f"invited are {names_of([*survey.roster])}"
    yield f"who vouches for how many of them: {by_member(survey, survey.roster)}"
    if survey.set is None:
        closes = f", on {survey.closes} by its own word" if survey.closes else ""
        yield (
            f"the survey is open: nobody can join before the host has closed it{closes}"
        )
    else:
        yield f"the submissions that are added: the set {survey.set}"
        yield from released(survey)
    yield (
        "every guest has split its numbers into a masked vector, which all members "
        f"have, and {len(survey.names)} shares, one sealed to each member"
    )


def released(survey: SurveyTerms) -> Iterator[str]:
    """Yield what is asked of a closed survey, as its file counts who filled what."""
    assert survey.tally is not None
    given = [survey.tally.given[cell] for cell in survey.released]
    fewest = f", which {min(given)} guests filled at least" if given else ""
    yield (
        f"asked for are the totals of {len(given)} of {survey.n_cells} cells{fewest}; "
        "the file counts who filled what, and your program counts it again"
    )
    if survey.tally.near:
        yield f"LOOK OUT: {pairs_of(survey, survey.tally.near)} {NEAR}"
    if survey.tally.more_near:
        yield f"LOOK OUT: {MORE_NEAR}"
    if survey.may_follow:
        names = listed([*map(survey.label, survey.may_follow)], most=MOST_PAIRS)
        yield f"LOOK OUT: {names} {MAY_FOLLOW}"


def pairs_of(survey: SurveyTerms, pairs: Sequence[tuple[int, int]]) -> str:
    """Return pairs of cells by their names."""
    named = [f"{survey.label(less)} and {survey.label(more)}" for less, more in pairs]
    return listed(named, most=MOST_PAIRS)


def checks(survey: SurveyTerms) -> Iterator[str]:
    """Yield what every member checks, and does, for guests."""
    yield (
        f"tolerate_guests = {survey.tolerate_guests}: so many guests may collude "
        "besides those whom colluding members invited"
    )
    yield (
        "a total is asked for of cells that minimum_guests filled and where, whichever "
        f"{survey.tolerate} of the members collude, {survey.minimum_honest + 1} of "
        "those who filled it are honest, counted by who invited whom"
    )
    yield (
        "who filled a cell is what each guest signed, and counts once: every member "
        "counts it from the submissions, and refuses a file that says otherwise"
    )
    yield (
        "every submission is signed by a key of the roster, is sealed for this survey "
        "and this member alone, and is in the set once"
    )
    yield (
        "a member gives sums for one set of this survey, ever: its store notes the set "
        "before masked numbers leave, and refuses another one"
    )
    yield (
        "a set whose guests differ by few from those of an earlier survey is refused "
        "by every member that was there, and so is one in which those differ by few "
        "who filled a cell that had a total then, by the same names"
    )
    yield "after the run a member erases the survey's key, and with it its shares"


def who(survey: SurveyTerms) -> Iterator[str]:
    """Yield what can be computed, by how many members collude."""
    n, t = len(survey.names), survey.tolerate
    yield ("every member: who is in the set, and which cells each of them left empty")
    yield (
        "everybody who is told: how many guests filled each cell, the totals above, "
        "over all guests of the set, and all that follows from them"
    )
    yield (
        "a guest that is told of them: the same over the other guests, for it can "
        "subtract what it gave itself"
    )
    yield promise_to_guests(survey)
    yield "how many are honest is counted by who invited whom; of the whole roster:"
    invited = Counter(guest.invited_by for guest in survey.guests)
    worst = sorted(survey.names, key=lambda name: -invited[name])
    for size in range(1, n):
        few = survey.honest(survey.roster, size)
        names = listed(worst[:size])
        told = {
            0: "no guest is left to be hidden",
            1: "THE NUMBERS OF ONE GUEST ALONE",
        }.get(
            few, f"the totals over {few} guests if all come, over fewer if not all do"
        )
        beyond = (
            f"; a set that leaves fewer than {survey.minimum_honest + 1} is refused"
            if size <= t
            else " (more than is tolerated: nobody checks this)"
        )
        yield f"- {size} of {n} members, at worst {names}: {told}{beyond}"
    yield (
        f"- all {n} members together open every share: every number of every guest. "
        "One honest member is needed, whichever it is"
    )
    yield "whoever is told by a member knows what that member knows"
