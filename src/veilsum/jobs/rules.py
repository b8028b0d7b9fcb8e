"""What parties agree about their row counts, and what may be known of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from veilsum.errors import InvalidInputError
from veilsum.jobs.releases import FRACTION, ReleaseLimit
from veilsum.jobs.terms import Terms
from veilsum.tables.schema import MINIMUM_ROWS, Schema


@dataclass(frozen=True, kw_only=True)
class RowRules:
    """What parties agreed about their tables' lengths, and what may be released.

    Attributes:
        minimum_rows: a party with fewer does not take part.
        maximum_rows: nor one with more, if that was agreed.
        release_fraction: of the numbers in honest rows.
    """

    minimum_rows: int = MINIMUM_ROWS
    maximum_rows: int | None = None
    release_fraction: float = FRACTION

    @classmethod
    def of(cls, schema: Schema, release_fraction: float) -> RowRules:
        """Return what a schema says about row counts."""
        return cls(
            minimum_rows=schema.minimum_rows,
            maximum_rows=schema.maximum_rows,
            release_fraction=release_fraction,
        )

    def limit(self, numbers_in_a_row: int, terms: Terms) -> ReleaseLimit:
        """Return how many numbers may be released."""
        return ReleaseLimit(
            honest=terms.honest,
            tolerate=terms.tolerate,
            columns=numbers_in_a_row,
            minimum_rows=self.minimum_rows,
            maximum_rows=self.maximum_rows,
            fraction=self.release_fraction,
        )

    def check(self, party: str, n_rows: int) -> None:
        """Refuse a table that is too short, or too long."""
        most = inf if self.maximum_rows is None else self.maximum_rows
        if not self.minimum_rows <= n_rows <= most:
            raise InvalidInputError(
                f"{party}: {n_rows} rows, and the terms are minimum_rows = "
                f"{self.minimum_rows}, maximum_rows = {self.maximum_rows}. Not sent."
            )
