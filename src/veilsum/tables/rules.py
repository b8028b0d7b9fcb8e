"""What may be asked of a table: rules that its owner keeps to, whoever asks.

Masks hide who gave what, and a question can still be aimed: at one person, by a column
that is large for that person only; at one site, by a column that says where a row is
from; at every row, by enough questions. Each party checks these rules at home, on its
own table, before anything is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import ClassVar

from veilsum.errors import InvalidInputError

MINIMUM_ROWS = 5


class DisclosureError(InvalidInputError):
    """A question would show too much of a table; in full for its owner only.

    Attributes:
        rule: which one of `Rules` refuses.
    """

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message, plain=f"refused by {rule}")
        self.rule = rule


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What every party keeps to before it answers; names as the field has them.

    Attributes:
        minimum_rows: a party with fewer rows takes no part.
        maximum_rows: nor one with more, if that was agreed.
        minimum_count: every level, cell and group that a party has any rows in holds
            at least so many of them.
        effective_count: a column is spread over at least so many rows of a party, by
            (sum |x|)^2 / sum x^2 of what is left beside its usual value.
        maximum_leverage: of one row in its party's own design.
        residual_rows: rows of honest parties beyond the columns of a design.
        maximum_levels: of one category in a formula or a table.
        maximum_columns: of a design, as a part of honest parties' rows.
        dominance: the two largest of a party's values stay below this part of the sum
            of all of its own.
        site_terms: whether columns and levels may tell one party from the others.
        release_fraction: of the numbers in honest rows, how many may be released.
        most_rounds: that one job may take.
    """

    minimum_rows: int = MINIMUM_ROWS
    maximum_rows: int | None = None
    minimum_count: int = 3
    effective_count: float = 3.0
    maximum_leverage: float = 0.95
    residual_rows: int = 10
    maximum_levels: int = 40
    maximum_columns: float = 0.33
    dominance: float = 0.9
    site_terms: bool = False
    release_fraction: float = 0.5
    most_rounds: int = 15

    # What each number may be at all: beyond it, it would be no rule.
    _BOUNDS: ClassVar[dict[str, tuple[float, float]]] = {
        "minimum_rows": (1, inf),
        "minimum_count": (0, 1e9),
        "effective_count": (0.0, 1e9),
        "maximum_leverage": (0.0, 1.0),
        "residual_rows": (0, 1e9),
        "maximum_levels": (1, 1e9),
        "maximum_columns": (0.0, inf),
        "dominance": (0.0, 1.0),
        "release_fraction": (0.0, inf),
        "most_rounds": (1, 1000),
    }

    def __post_init__(self) -> None:
        for name, (least, most) in self._BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                ends = (
                    f"from {least:g} to {most:g}"
                    if isfinite(most)
                    else (f"{least:g} or more")
                )
                raise InvalidInputError(f"{name} must be {ends}, found {value}")
        if not self.release_fraction > 0.0:
            raise InvalidInputError(
                "the fraction that may be released is positive, found "
                f"{self.release_fraction}"
            )

    @classmethod
    def none(cls, **kept: float | None) -> Rules:
        """Return rules that refuse nothing but what is named: for made-up tables."""
        free: dict[str, float | None] = {
            "minimum_rows": 1,
            "minimum_count": 0,
            "effective_count": 0.0,
            "maximum_leverage": 1.0,
            "residual_rows": 0,
            "maximum_levels": 10**9,
            "maximum_columns": inf,
            "dominance": 1.0,
            "site_terms": True,
            "release_fraction": inf,
            "most_rounds": 1000,
        }
        return cls(**{**free, **kept})  # type: ignore[arg-type]

    def check_rows(self, party: str, n_rows: int) -> None:
        """Refuse a table that is too short, or too long."""
        most = inf if self.maximum_rows is None else self.maximum_rows
        if not self.minimum_rows <= n_rows <= most:
            raise InvalidInputError(
                f"{party}: {n_rows} rows, and the terms are minimum_rows = "
                f"{self.minimum_rows}, maximum_rows = {self.maximum_rows}. Not sent."
            )
