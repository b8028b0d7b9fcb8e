"""What a job shows to everybody: written down, limited, and put into the guarantee.

Sums are exact. Enough of them over the same rows are equations that can be solved for
the rows: six rounds of a logistic regression with four rows give all four away. So the
numbers released stay below a fraction of the numbers that honest rows hold at least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from veilsum.errors import InvalidInputError
from veilsum.jobs.terms import Terms
from veilsum.numbers.arrays import listed
from veilsum.privacy.guarantee import (
    NEAR_VIEWS_LIMIT,
    PARTY_NEAR_VIEWS_LIMIT,
    PARTY_SAME_VIEWS_LIMIT,
    PARTY_UNITS_LIMIT,
    REMAINDER_LIMIT,
    SAME_VIEWS_LIMIT,
    UNITS_LIMIT,
    Guarantee,
)
from veilsum.tables.rules import Rules

IDENTICAL = (
    "inputs that every party's rules admit, and whose listed sums agree in every "
    "connected piece of honest parties, give identical views, timing apart"
)
EXACT = (
    "the listed sums are released exactly; what follows from them, together with what "
    "colluders know of others, is not hidden, be it about one party or one row"
)

ROUNDS = (
    "epsilon is that of {rounds} rounds together, for the largest change of statistics "
    "in any of them"
)


@dataclass(frozen=True)
class Release:
    """One sum, and what is in it.

    Attributes:
        job: what it is for.
        statistics: how many numbers there are of each kind.
        point: where they are evaluated; nothing if nowhere.
        where: the point, for people, if that is short enough.
    """

    job: str
    statistics: Mapping[str, int]
    point: tuple[float, ...] = ()
    where: str = ""

    @property
    def words(self) -> str:
        """Return the statistics in words."""
        return "; ".join(f"{name} ({count})" for name, count in self.statistics.items())


@dataclass(frozen=True)
class Foreseen:
    """One kind of round that a job may take, known before anybody's data are.

    Attributes:
        when: which rounds these are, in words.
        statistics: how many numbers of each kind such a round shows.
        least: how many such rounds there are at least.
        most: and at most.
    """

    when: str
    statistics: Mapping[str, int]
    least: int = 1
    most: int = 1


def condensed(releases: Sequence[Release]) -> tuple[str, ...]:
    """Return what was released for a person: rounds that show the same in one line."""
    lines, start = [], 0
    for end in range(1, len(releases) + 1):
        if end == len(releases) or releases[end].words != releases[start].words:
            lines.append(_line(start + 1, releases[start:end]))
            start = end
    return tuple(lines)


def _line(first: int, same: Sequence[Release]) -> str:
    last = first + len(same) - 1
    rounds = f"round {first}" if len(same) == 1 else f"rounds {first} to {last}, each"
    places = "; ".join(one.where for one in same if one.where)
    where = f"; at {places}" if places else ""
    return f"{rounds}, summed over honest parties: {same[0].words}{where}"


@dataclass(frozen=True, kw_only=True)
class ReleaseLimit:
    """How many numbers may be released about rows.

    Attributes:
        honest: how many parties are honest at least.
        tolerate: how many may collude.
        columns: numbers in a row.
        minimum_rows: every party has at least as many.
        maximum_rows: no party has more, if that was agreed.
        fraction: of the numbers in honest rows.
    """

    honest: int
    tolerate: int
    columns: int
    minimum_rows: int
    maximum_rows: int | None = None
    fraction: float = 0.5

    @classmethod
    def of(cls, rules: Rules, columns: int, terms: Terms) -> ReleaseLimit:
        """Return how many numbers the rules allow about rows of so many numbers."""
        return cls(
            honest=terms.honest,
            tolerate=terms.tolerate,
            columns=columns,
            minimum_rows=rules.minimum_rows,
            maximum_rows=rules.maximum_rows,
            fraction=rules.release_fraction,
        )

    def honest_rows(self, rows: float | None = None) -> float:
        """Return how many rows honest parties hold at least.

        Args:
            rows: of all parties together, once their sum is known.
        """
        least = float(self.honest * self.minimum_rows)
        if rows is None or self.maximum_rows is None:
            return least
        return max(least, rows - self.tolerate * self.maximum_rows)

    def check(self, numbers: int, *, rows: float | None = None) -> None:
        """Refuse to release so many numbers in all."""
        held = self.honest_rows(rows) * self.columns
        if numbers < self.fraction * held:
            return
        enough = ceil((numbers + 1) / (self.fraction * self.columns * self.honest))
        raise InvalidInputError(
            f"{numbers} numbers would be released in all about honest parties' rows, "
            f"which hold {held:.0f} at least ({held / self.columns:.0f} rows of "
            f"{self.columns} numbers), and {self.fraction:g} of these is the limit: "
            f"use fewer columns, agree on minimum_rows = {enough} or more (more still "
            "for further rounds) or on maximum_rows, or raise the limit openly with "
            "release_fraction"
        )


def with_releases(
    promise: Guarantee,
    releases: Sequence[Release],
    *,
    whole: bool = False,
    by_row: bool = True,
) -> Guarantee:
    """Return the guarantee with every round's sums listed for every honest piece.

    Rounds have fresh masks, so their divergences add. `whole` says that sums are of
    whole numbers of agreed units, so that it does not matter who has which row; without
    `by_row` a party's numbers are its own making, and it matters but for whole inputs.
    """
    if not promise.kind.hides:
        return promise
    pieces = [part.parties for part in promise.components]
    shown = shown_of(pieces, releases)
    more = (IDENTICAL,) if promise.kind.sums_only else ()
    if not promise.kind.sums_only and len(releases) > 1:
        more = (ROUNDS.format(rounds=len(releases)),)
    # Everything a job sums is masked: nothing of a cost is left out.
    kept = [line for line in promise.limits if line != REMAINDER_LIMIT]
    if whole:
        same, near = SAME_VIEWS_LIMIT, NEAR_VIEWS_LIMIT
        if not by_row:
            same, near = PARTY_SAME_VIEWS_LIMIT, PARTY_NEAR_VIEWS_LIMIT
        units = UNITS_LIMIT if by_row else PARTY_UNITS_LIMIT
        more = (*more, units, same if promise.kind.sums_only else near)
        kept = [line for line in kept if not line.startswith("on the grid")]
    added = repeated(promise, len(releases))
    return replace(added, released=shown, limits=(*kept, EXACT, *more))


def shown_of(
    pieces: Sequence[tuple[str, ...]], releases: Sequence[Release]
) -> tuple[str, ...]:
    """Return in words what each round shows of each of several sets of parties."""
    return tuple(
        f"round {number}{f', at {release.where}' if release.where else ''}, "
        f"{_whose(parties)}: {release.words}"
        for number, release in enumerate(releases, start=1)
        for parties in pieces
    )


def repeated(promise: Guarantee, times: int) -> Guarantee:
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


def _whose(parties: tuple[str, ...]) -> str:
    if len(parties) == 1:
        return f"of {parties[0]} alone"
    return f"summed over {listed(parties, most=10_000)}"
