"""Words for keys: one catalogue for each language, read on first use.

Programs compare keys, people read words. A sentence of a catalogue can be corrected
without changing a digest, a ledger or a receipt.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Language = Literal["en", "de"]

# The prefix of statistics that a fit without each fold shows.
WITHOUT_FOLD = "folds."


@cache
def catalogue(language: Language) -> Mapping[str, Any]:
    """Return all words of a language."""
    text = (files(__package__) / f"{language}.toml").read_text("utf-8")
    return tomllib.loads(text)


def statistic(key: str, language: Language = "en") -> Mapping[str, str]:
    """Return the words about a statistic: label, meaning and others, see en.toml.

    A statistic without words, as another distribution may have, is shown by its key.

    >>> statistic("folds.score")["label"]
    'score, without each fold'
    """
    words, plain = catalogue(language), key.removeprefix(WITHOUT_FOLD)
    entry: Mapping[str, str] = words["statistics"].get(
        plain, {"label": plain, "meaning": plain}
    )
    if not key.startswith(WITHOUT_FOLD):
        return entry
    return {
        field: words["folds"].get(field, f"{{{field}}}").format_map({field: text})
        for field, text in entry.items()
    }


def label(key: str, job: str = "") -> str:
    """Return a statistic's short name; `job` is the label of its question.

    >>> label("rows_and_left_out"), label("sum", "wages")
    ('rows, and rows left out', 'wages')
    """
    return statistic(key)["label"].format(job=job)


def meaning(
    key: str,
    language: Language = "en",
    *,
    first: bool = False,
    zero: bool = False,
    officer: bool = False,
) -> str:
    """Return the explanation of a statistic.

    Args:
        key: of the statistic.
        language: of the words.
        first: explain it as summed in the first round of a fit.
        zero: tables with missing values take no part, so counts of them are 0.
        officer: for an officer's paper instead of the consent page.
    """
    words = statistic(key, language)
    text = words["meaning"]
    if first:
        text = words.get("first_meaning", text)
    if zero and "zero" in words:
        text = catalogue(language)["zero"]["meaning"].format(
            meaning=text, zero=words["zero"]
        )
    return words.get("officer", text) if officer else text
