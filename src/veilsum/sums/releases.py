"""Releases of a job to all parties: their record, limits, and part in the guarantee.

Sums are exact. Enough of them over the same rows are equations that can be solved for
the rows: six rounds of a logistic regression with four rows determine all four. So
releases stay below a fraction of the least number of values in honest rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from veilsum.locale import (
    LocaleLine,
    limit_phrase,
    released_sum_phrase,
    statistics_in_locale_words,
)
from veilsum.numbers.layout import NumberLayout
from veilsum.privacy.guarantee import (
    NEAR_VIEWS_LIMIT,
    PARTY_NEAR_VIEWS_LIMIT,
    PARTY_SAME_VIEWS_LIMIT,
    PARTY_UNITS_LIMIT,
    REMAINDER_LIMIT,
    SAME_VIEWS_LIMIT,
    SCREENED_NEAR_VIEWS_LIMIT,
    SCREENED_SAME_VIEWS_LIMIT,
    SCREENED_UNITS_LIMIT,
    UNITS_LIMIT,
    Guarantee,
)
from veilsum.sums.terms import SumTerms
from veilsum.tables.rules import (
    DisclosureError,
    Rules,
    how_rules_are_loosened,
    or_more_table_rows,
)

IDENTICAL = limit_phrase("identical")
EXACT = limit_phrase("exact")
REBUILT = limit_phrase("rebuilt")
# Limits about released sums, shown wherever epsilon is: epsilon is about masks.
SUM_LIMITS = (EXACT, REBUILT)

# What is said of sums of whole numbers: of their units, and of who has which row, under
# masks that hide everything but sums and under others.
BY_ROW = (UNITS_LIMIT, SAME_VIEWS_LIMIT, NEAR_VIEWS_LIMIT)
BY_PARTY = (PARTY_UNITS_LIMIT, PARTY_SAME_VIEWS_LIMIT, PARTY_NEAR_VIEWS_LIMIT)
SCREENED = (
    SCREENED_UNITS_LIMIT,
    SCREENED_SAME_VIEWS_LIMIT,
    SCREENED_NEAR_VIEWS_LIMIT,
)


# The key of the number that says whether a party objects to a sum. It is 0, or all
# numbers of the sum are random: none of them is about rows then.
OBJECTIONS = "objections"


def released_row_numbers(statistics: Mapping[str, int]) -> int:
    """Return how many of a round's numbers are about rows: all but objections."""
    return sum(count for key, count in statistics.items() if key != OBJECTIONS)


@dataclass(frozen=True)
class SumRelease:
    """One sum, and what is in it.

    Attributes:
        statistics: how many numbers there are of each kind, by key; see `locale`.
        point: where they are evaluated; nothing if nowhere.
        where: the point, for people, if that is short enough.
        layout: of the sum, from which its price follows; None if it has no price.
    """

    job: str
    statistics: Mapping[str, int]
    point: tuple[float, ...] = ()
    where: str = ""
    layout: NumberLayout | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_layout(
        cls,
        job: str,
        layout: NumberLayout,
        point: tuple[float, ...] = (),
        where: str = "",
    ) -> SumRelease:
        """Return what a sum with this layout shows."""
        return cls(job, layout.released, point, where, layout)

    @property
    def numbers(self) -> int:
        """Number of released values about rows; objections do not count."""
        return released_row_numbers(self.statistics)

    @property
    def words(self) -> str:
        return statistics_in_locale_words(self.statistics, self.job)


@dataclass(frozen=True)
class PossibleRound:
    """One kind of round that a job may take, known before anybody's data are.

    Attributes:
        when: key of these rounds; see `locale.round_name`.
        statistics: how many numbers of each kind such a round shows, by key.
        least: how many such rounds there are at least.
        most: and at most.
        layout: of the sum, for its price; None if it has none of its own.
    """

    when: str
    statistics: Mapping[str, int]
    least: int = 1
    most: int = 1
    layout: NumberLayout | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_layout(
        cls, when: str, layout: NumberLayout, least: int = 1, most: int = 1
    ) -> PossibleRound:
        """Return the rounds whose sums have this layout."""
        return cls(when, layout.released, least, most, layout)

    @property
    def numbers(self) -> int:
        """Number of values about rows that such a round releases."""
        return released_row_numbers(self.statistics)


def condensed_releases(
    releases: Sequence[SumRelease], whose: str = "honest parties"
) -> tuple[str, ...]:
    """Return what was released for a person: rounds that show the same in one line."""
    lines, start = [], 0
    for end in range(1, len(releases) + 1):
        if end == len(releases) or releases[end].words != releases[start].words:
            lines.append(_sum_release_line(start + 1, releases[start:end], whose))
            start = end
    return tuple(lines)


def _sum_release_line(first: int, same: Sequence[SumRelease], whose: str) -> str:
    last = first + len(same) - 1
    rounds = f"round {first}" if len(same) == 1 else f"rounds {first} to {last}, each"
    places = "; ".join(one.where for one in same if one.where)
    where = f"; at {places}" if places else ""
    return f"{rounds}, summed over {whose}: {same[0].words}{where}"


@dataclass(frozen=True)
class OfParties:
    """Sums of numbers of which every party has one set: repeated runs add up.

    Attributes:
        subject: what these numbers are.
        equations: sums of them that one run shows.
        each: numbers that one party has.
    """

    subject: str
    equations: int
    each: int

    def counted(self, honest: int) -> dict[str, Any]:
        """Return the entries of a reservation, for so many honest parties."""
        return {
            "subject": self.subject,
            "equations": self.equations,
            "unknowns": self.each * honest,
        }


@dataclass(frozen=True, kw_only=True)
class SumReleaseLimit:
    """Limit on the number of released values about rows, from agreed numbers alone.

    Attributes:
        honest: the least number of honest parties.
        columns: numbers in a row.
        minimum_rows: the least number of rows of a party.
        fraction: largest released fraction of the numbers in honest rows.
        most_rounds: largest number of sums of a fit.
        before: numbers that are released before the first of these sums.
        after: numbers that are released after the last of these sums.
        parties: the number of all parties; None if it is not known.
        most_rows: the largest number of rows of all parties; None if not agreed.
        tolerate: the number of parties that may collude.
        rules: rules of all parties; None if they are not known.
    """

    honest: int
    columns: int
    minimum_rows: int
    fraction: float = 0.5
    most_rounds: int = 15
    before: int = 0
    after: int = 0
    parties: int | None = None
    most_rows: int | None = None
    tolerate: int = 0
    rules: Rules | None = None

    @classmethod
    def of(
        cls, rules: Rules, columns: int, terms: SumTerms, before: int = 0
    ) -> SumReleaseLimit:
        """Return how many numbers the rules allow about rows of so many numbers."""
        parties, each = len(terms.parties), rules.maximum_rows
        return cls(
            honest=terms.honest,
            columns=columns,
            minimum_rows=rules.minimum_rows,
            fraction=rules.release_fraction,
            most_rounds=rules.most_rounds,
            before=before,
            parties=parties,
            most_rows=None if each is None else parties * each,
            tolerate=terms.tolerate,
            rules=rules,
        )

    @property
    def held(self) -> int:
        """Least number of values that honest parties hold."""
        return self.honest * self.minimum_rows * self.columns

    def rounds(self, size: int) -> int:
        """Return how many sums of so many numbers there is room for."""
        room = self.fraction * self.held - self.before - self.after
        if size * self.most_rounds < room:
            return self.most_rounds
        return max(0, ceil(room / size) - 1)

    def allows(self, numbers: int) -> bool:
        total = self.before + numbers + self.after
        return total < self.fraction * self.held

    def rows_for(self, numbers: int) -> int:
        """Return the agreed rows of each party that allow so many numbers."""
        total = self.before + numbers + self.after
        return ceil((total + 1) / (self.fraction * self.columns * self.honest))

    def check(self, numbers: int, rounds: int = 1) -> None:
        """Refuse to release so many numbers in each of some rounds."""
        total = self.before + numbers * rounds + self.after
        if self.allows(numbers * rounds):
            return
        enough = self.rows_for(numbers * rounds)
        # Nobody knows how many rounds a fit takes: there must be room for all of them.
        most = max(rounds, self.most_rounds) if rounds > 1 else 1
        room = self.before + numbers * most + self.after
        # The next of two digits: a total at the limit is refused.
        part = (100 * room // self.held + 1) / 100
        parts = [f"{self.before} counts of parties"] if self.before else []
        parts += [
            f"{numbers} in each of {rounds} rounds" if rounds > 1 else f"{numbers}"
        ]
        parts += [f"{self.after} for robust errors"] if self.after else []
        each = f" ({', '.join(parts)})" if len(parts) > 1 or rounds > 1 else ""
        raise DisclosureError(
            "release_fraction",
            f"{total} numbers{each} would be released about honest parties' rows, "
            f"which hold {self.held} at least ({self.honest} parties of "
            f"{self.minimum_rows} rows of {self.columns} numbers), and "
            f"{self.fraction:g} of these is the limit: use fewer columns, "
            f"{or_more_table_rows(enough)}or raise the limit openly with "
            f"{how_rules_are_loosened(release_fraction=part)}",
            code="releases-too-much",
            changes={"release_fraction": part},
            rows=enough,
        )


def with_releases(
    promise: Guarantee,
    releases: Sequence[SumRelease],
    *,
    whole: bool = False,
    wording: tuple[str, str, str] = BY_ROW,
) -> Guarantee:
    """Return the guarantee with every round's sums listed for every honest piece.

    Rounds have fresh masks, so their divergences add. `whole` says that sums are of
    whole numbers of agreed units, and `wording` what follows for who has which row.
    """
    if not promise.kind.hides:
        return promise
    pieces = [tuple(part.parties) for part in promise.components]
    shown = released_lines_by_piece(pieces, releases)
    more = (IDENTICAL,) if promise.kind.sums_only else ()
    if not promise.kind.sums_only and len(releases) > 1:
        more = (limit_phrase("rounds", rounds=len(releases)),)
    # Everything a job sums is masked: nothing of a cost is left out.
    kept = [line for line in promise.limits if line != REMAINDER_LIMIT]
    if whole:
        units, same, near = wording
        more = (*more, units, same if promise.kind.sums_only else near)
        kept = [line for line in kept if not _sum_release_is_about(line, "grid")]
    added = guarantee_for_repeated_sums(promise, len(releases))
    return replace(added, released=shown, limits=(*kept, EXACT, *more))


def _sum_release_is_about(line: str, key: str) -> bool:
    return isinstance(line, LocaleLine) and line.facts.get("key") == key


def released_lines_by_piece(
    pieces: Sequence[tuple[str, ...]], releases: Sequence[SumRelease]
) -> tuple[LocaleLine, ...]:
    """Return in words what each round shows of each of several sets of parties."""
    return tuple(
        released_sum_phrase(
            number,
            release.statistics,
            parties,
            job=release.job,
            where=release.where,
        )
        for number, release in enumerate(releases, start=1)
        for parties in pieces
    )


def guarantee_for_repeated_sums(promise: Guarantee, times: int) -> Guarantee:
    """Return what holds for so many sums with fresh masks: every bound adds up."""

    def added(bound: float | None) -> float | None:
        return None if bound is None else times * bound

    worst = promise.worst
    return replace(
        promise,
        epsilon=added(promise.epsilon),
        excess=added(promise.excess),
        components=tuple(
            replace(part, epsilon=added(part.epsilon)) for part in promise.components
        ),
        worst=None
        if worst is None
        else replace(
            worst,
            epsilon_lower=added(worst.epsilon_lower),
            epsilon_upper=added(worst.epsilon_upper),
        ),
    )
