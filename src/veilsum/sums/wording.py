"""Lists, quotes and numbers on a page that a member agrees to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

# A list longer than this is cut, and a line at the top of the page says so. Letters of
# a list inside a line, and of all lines about one thing.
MOST_IN_A_LINE, MOST_LETTERS = 4_000, 40_000


def quoted_for_release(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def exact_number_words(value: float) -> str:
    """Return a number to its last digit, and true or false, as a file has them.

    >>> [exact_number_words(value) for value in (37.00000001, 3.0, True)]
    ['37.00000001', '3', 'true']
    """
    if type(value) is float and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return str(value).lower()


@dataclass(frozen=True)
class PageRoom:
    """Shortens the lists of a page, and notes what is missing.

    Attributes:
        left_out: one sentence for each list that was cut.
    """

    left_out: list[str] = field(default_factory=list)

    def names(self, label: str, names: Sequence[str]) -> str:
        kept = self._fitting(label, names, MOST_IN_A_LINE)
        more = len(names) - len(kept)
        return ", ".join(kept) + (f" and {more} MORE" if more else "")

    def lines(self, label: str, lines: Sequence[str]) -> Sequence[str]:
        return self._fitting(label, lines, MOST_LETTERS)

    def _fitting(self, label: str, given: Sequence[str], room: int) -> Sequence[str]:
        used = 0
        for place, text in enumerate(given):
            used += len(text)
            if used > room:
                self.left_out.append(
                    f"{len(given) - place} of {len(given)} {label} are not on this "
                    "page; read the file itself before you agree"
                )
                return given[:place]
        return given
