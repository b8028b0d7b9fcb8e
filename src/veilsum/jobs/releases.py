"""What a job shows to everybody: written down, limited, and put into the guarantee.

Sums are exact. Enough of them over the same rows are equations that can be solved for
the rows: six rounds of a logistic regression with four rows give all four away. So the
numbers released stay below a fraction of the numbers that honest rows hold at least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from veilsum.core.arrays import listed
from veilsum.errors import InvalidInputError
from veilsum.privacy.guarantee import REMAINDER_LIMIT, Component, Guarantee

# Of the numbers in honest rows; beyond it somebody could begin to solve for them.
FRACTION = 0.5

IDENTICAL = (
    "inputs whose listed sums agree in every connected piece of honest parties give "
    "identical views, whatever the computing power"
)
EXACT = (
    "the listed sums are released exactly; what follows from them, together with what "
    "colluders know of others, is not hidden"
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
    fraction: float = FRACTION

    def __post_init__(self) -> None:
        if not self.fraction > 0.0:
            raise InvalidInputError(
                f"the fraction that may be released is positive, found {self.fraction}"
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
            f"{numbers} numbers would be released about rows of honest parties that "
            f"hold {held:.0f} numbers at least ({self.honest} parties, "
            f"{self.minimum_rows} rows each, {self.columns} columns), and "
            f"{self.fraction:g} of these is the limit: use fewer columns, agree on "
            f"minimum_rows = {enough} or on maximum_rows, or raise the limit openly "
            "with release_fraction"
        )


def with_releases(promise: Guarantee, releases: Iterable[Release]) -> Guarantee:
    """Return the guarantee with every round's sums listed for every honest piece."""
    if promise.law == "none":
        return promise
    shown = tuple(
        f"round {number}{f', at {release.where}' if release.where else ''}, "
        f"{_whose(part)}: {release.words}"
        for number, release in enumerate(releases, start=1)
        for part in promise.components
    )
    identical = (IDENTICAL,) if promise.law == "uniform" else ()
    # Everything a job sums is masked: nothing of a cost is left out.
    kept = tuple(line for line in promise.limits if line != REMAINDER_LIMIT)
    return replace(promise, released=shown, limits=(*kept, EXACT, *identical))


def _whose(part: Component) -> str:
    if len(part.parties) == 1:
        return f"of {part.parties[0]} alone"
    return f"summed over {listed(part.parties, most=10_000)}"
