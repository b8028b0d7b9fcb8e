"""Text of the consent page on a survey: guests' numbers, and not the reader's own.

The text follows from the file alone. The guests in the set are named in the reader's
own half. The words are in the catalogue `consent`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from veilsum.locale import catalogue
from veilsum.numbers.arrays import listed_names
from veilsum.sums.wording import quoted_for_release
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


def survey_words() -> Mapping[str, Any]:
    return catalogue("en", "consent")["survey"]


def guest_names_in_words(guests: Collection[str]) -> str:
    """Return guests by name, or how many they are.

    >>> guest_names_in_words(["Firm 1", "Firm 2"])
    '2 guests: "Firm 1", "Firm 2"'
    """
    key = "many_guests" if len(guests) > MOST_NAMES else "guests"
    names = ", ".join(map(quoted_for_release, guests))
    return str(survey_words()[key].format(n=len(guests), names=names))


def guests_by_member(survey: SurveyTerms, guests: Iterable[str]) -> str:
    invited = Counter(survey.roster[name].invited_by for name in guests)
    return ", ".join(f"{name} {invited[name]}" for name in survey.names)


def _survey_words_in_order(table: str, **values: Any) -> Iterator[str]:
    return (text.format_map(values) for text in survey_words()[table].values())


def survey_asked_words(survey: SurveyTerms, room: Any) -> Iterator[str]:
    yield from _survey_words_in_order(
        "asked",
        title=quoted_for_release(survey.title),
        n_rows=len(survey.rows),
        rows=room.names("rows", [*map(quoted_for_release, survey.rows)]),
        n_columns=len(survey.columns),
        columns=room.names("columns", [*map(quoted_for_release, survey.columns)]),
        unit=survey.unit,
        low=survey.low,
        high=survey.high,
        guests=guest_names_in_words([*survey.roster]),
        by_member=guests_by_member(survey, survey.roster),
    )
    if survey.set is None:
        key = "closes" if survey.closes else "open"
        yield survey_words()["asked_open"][key].format(closes=survey.closes)
    else:
        yield survey_words()["asked_closed"]["set"].format(set=survey.set)
        yield from survey_released_words(survey)
    yield from _survey_words_in_order("asked_last", n=len(survey.names))


def survey_released_words(survey: SurveyTerms) -> Iterator[str]:
    """Yield what is asked of a closed survey, as its file counts who filled what."""
    assert survey.tally is not None
    given = [survey.tally.given[cell] for cell in survey.released]
    yield survey_words()["asked_closed"]["totals"].format(
        n=len(given), n_cells=survey.n_cells, fewest=min(given)
    )
    look_out = survey_words()["look_out"].format
    if survey.tally.near:
        pairs = [
            survey_words()["pair"].format(
                less=survey.label(less), more=survey.label(more)
            )
            for less, more in survey.tally.near
        ]
        yield look_out(what=f"{listed_names(pairs, most=MOST_PAIRS)} {NEAR}")
    if survey.tally.more_near:
        yield look_out(what=MORE_NEAR)
    if survey.may_follow:
        names = listed_names([*map(survey.label, survey.may_follow)], most=MOST_PAIRS)
        yield look_out(what=f"{names} {MAY_FOLLOW}")


def survey_check_words(survey: SurveyTerms) -> Iterator[str]:
    """Yield what every member checks, and does, for guests."""
    return _survey_words_in_order(
        "checks",
        tolerate=survey.tolerate,
        tolerate_guests=survey.tolerate_guests,
        needed=survey.minimum_honest + 1,
    )


def survey_collusion_words(survey: SurveyTerms) -> Iterator[str]:
    """Yield what can be computed, by how many members collude."""
    n, pooling = len(survey.names), survey_words()["pooling"]
    yield from _survey_words_in_order("who", promise=promise_to_guests(survey))
    invited = Counter(guest.invited_by for guest in survey.guests)
    worst = sorted(survey.names, key=lambda name: -invited[name])
    for size in range(1, n):
        left = survey.honest(survey.roster, size)
        known = pooling.get(f"left_{left}", pooling["left"]).format(left=left)
        yield pooling["tolerated" if size <= survey.tolerate else "beyond"].format(
            size=size,
            n=n,
            names=listed_names(worst[:size]),
            known=known,
            needed=survey.minimum_honest + 1,
        )
    yield pooling["all"].format(n=n)
    yield pooling["told"]
