"""Words for keys: one folder of catalogues for each language, read on first use.

Programs compare keys, people read words. A sentence of a catalogue can be corrected
without changing a digest, a ledger or a receipt. A further language is a folder with
the files of `en`: no code names a language but English, which is the usual one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

FOLDER = Path(__file__).parent

# Names of parties in one line.
MOST_NAMED = 10_000
# The prefix of statistics that a fit without each fold shows.
WITHOUT_FOLD = "folds."


@cache
def catalogue(language: str, part: str = "sums") -> Mapping[str, Any]:
    """Return the words of one file of a language.

    Args:
        language: such as `en`.
        part: `sums`, statistics and limits; `officer`, the papers of a data-protection
            officer; `survey`, what guests read; `page`, the page of consent, and
            `consent`, its lines in full; in English only `audit` and `report`, the
            page of a finished run.
    """
    return tomllib.loads((FOLDER / language / f"{part}.toml").read_text("utf-8"))


class Phrase(str):
    """A sentence of a catalogue that knows its key, so that it can be said elsewhere.

    Attributes:
        part: the file, as in `catalogue`.
        key: of the sentence.
        values: fill in its braces.
    """

    part: str
    key: str
    values: Mapping[str, object]

    def __new__(
        cls, text: str, part: str, key: str, values: Mapping[str, object]
    ) -> Self:
        """Return a sentence with its key."""
        made = super().__new__(cls, text)
        made.part, made.key, made.values = part, key, values
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments from which a copy is made."""
        return (str(self), self.part, self.key, self.values), {}


def phrase(part: str, key: str, /, **values: object) -> Phrase:
    """Return a sentence of one English file, its braces filled in.

    Args:
        part: the file, as in `catalogue`.
        key: of the sentence, after its tables; by default it is in the table `words`.
        values: fill in the braces.

    >>> phrase("audit", "nothing_told")
    'There was nothing to tell apart.'
    >>> phrase("consent", "head.run", run="wages-1")
    'run: wages-1'
    """
    return phrase_in("en", part, key, **values)


def sentence(part: str, key: str, /, **values: object) -> str:
    """Return a sentence as plain text, without its key: for records and JSON."""
    return str(phrase(part, key, **values))


def phrase_in(language: str, part: str, key: str, /, **values: object) -> Phrase:
    """Return a sentence of one file of a language, as `phrase` does.

    Raises:
        KeyError: the file does not have it.
    """
    *tables, name = key.split(".")
    found: Any = catalogue(language, part)
    for table in tables or ["words"]:
        found = found[table]
    return Phrase(str(found[name]).format(**values), part, key, values)


def in_language(text: str, language: str) -> str:
    """Return a sentence in another language, where its catalogue has the sentence.

    >>> in_language(phrase("consent", "amount.one_round", numbers=3), "de")
    '1 Runde, das heißt eine Summe von 3 Zahlen'
    """
    if language == "en" or not isinstance(text, Phrase):
        return text
    values = {
        name: in_language(value, language) if isinstance(value, str) else value
        for name, value in text.values.items()
    }
    try:
        return phrase_in(language, text.part, text.key, **values)
    except KeyError:
        return text


def catalogue_languages(part: str = "officer") -> tuple[str, ...]:
    """Return the languages that have words of one kind, English first."""
    found = (one.name for one in FOLDER.iterdir() if (one / f"{part}.toml").is_file())
    return tuple(sorted(found, key=lambda name: (name != "en", name)))


def number_with_language_signs(number: str, language: str) -> str:
    """Return a number, written as in English, with the signs of a language.

    >>> number_with_language_signs("1,234.5", "de")
    '1.234,5'
    """
    signs = catalogue(language)["numbers"]
    return number.translate({ord(","): signs["thousands"], ord("."): signs["decimal"]})


def statistic_words(key: str, language: str = "en") -> Mapping[str, str]:
    """Return the words about a statistic: label, meaning and others, see en/sums.toml.

    A statistic without words, as another distribution may have, is shown by its key.

    >>> statistic_words("folds.score")["label"]
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


class LocaleLine(str):
    """A line for people, with the facts that programs compare instead of its words.

    >>> LocaleLine("2 rows", rows=2).plain
    {'rows': 2, 'text': '2 rows'}
    """

    facts: Mapping[str, Any]

    def __new__(cls, text: str, **facts: Any) -> Self:
        """Return a line with its facts."""
        made = super().__new__(cls, text)
        made.facts = facts
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], Mapping[str, Any]]:
        """Return the arguments from which a copy is made."""
        return (str(self),), self.facts

    @property
    def plain(self) -> dict[str, Any]:
        """The facts and the words, for JSON."""
        return {**self.facts, "text": str(self)}


def values_without_locale_words(value: Any) -> Any:
    """Return plain values without the words of lines: what is signed and compared."""
    if isinstance(value, Mapping):
        return {
            k: values_without_locale_words(v) for k, v in value.items() if k != "text"
        }
    if isinstance(value, list | tuple):
        return [values_without_locale_words(each) for each in value]
    return value


def limit_phrase(
    key: str, words: Mapping[str, str] | None = None, **values: Any
) -> LocaleLine:
    """Return a sentence about what a guarantee does not cover.

    Args:
        key: of the sentence.
        words: parts of it for people only.
        values: numbers and names in it, which are facts.

    >>> limit_phrase("one_run").facts
    {'key': 'one_run'}
    """
    text = catalogue("en")["limits"][key].format(**values, **(words or {}))
    return LocaleLine(text, key=key, **values)


def released_sum_phrase(
    number: int,
    statistics: Mapping[str, int],
    parties: Sequence[str],
    *,
    job: str = "the sum",
    where: str = "",
) -> LocaleLine:
    """Return a line on one released sum: its round, its parties and its statistics.

    Args:
        number: of the round, from 1.
        statistics: number of released numbers by key.
        parties: whose vectors are in the sum.
        job: label of the question.
        where: point at which it is evaluated, for people only: an answer may follow.

    >>> print(released_sum_phrase(1, {"rows": 1}, ["a", "b"]))
    round 1, summed over a, b: rows (1)
    """
    at = f", at {where}" if where else ""
    more = len(parties) - MOST_NAMED
    names = ", ".join(parties[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    whose = f"of {names} alone" if len(parties) == 1 else f"summed over {names}"
    return LocaleLine(
        f"round {number}{at}, {whose}: {statistics_in_locale_words(statistics, job)}",
        round=number,
        parties=list(parties),
        statistics=dict(statistics),
    )


def round_name_phrase(key: str, *, counting: bool = False, language: str = "en") -> str:
    """Return which rounds these are; `counting` where the first counts members.

    >>> round_name_phrase("first"), round_name_phrase("first", counting=True)
    ('the first round', 'the second round')
    """
    words = catalogue(language)["rounds"]
    after = words["after_counting"] if counting else {}
    return str(after.get(key, words.get(key, key)))


def statistics_in_locale_words(statistics: Mapping[str, int], job: str) -> str:
    """Return statistics by label, with the number of numbers of each."""
    return "; ".join(
        f"{statistic_label(key, job)} ({n})" for key, n in statistics.items()
    )


def statistic_label(key: str, job: str = "", language: str = "en") -> str:
    """Return a statistic's short name; `job` is the label of its question.

    >>> statistic_label("left_out"), statistic_label("sum", "wages")
    ('rows left out', 'wages')
    """
    return statistic_words(key, language)["label"].format(job=job)


def statistic_meaning(
    key: str,
    language: str = "en",
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
    words = statistic_words(key, language)
    text = words["meaning"]
    if first:
        text = words.get("first_meaning", text)
    if zero and "zero" in words:
        text = catalogue(language)["zero"]["meaning"].format(
            meaning=text, zero=words["zero"]
        )
    return words.get("officer", text) if officer else text


def command_words() -> Mapping[str, Mapping[str, Any]]:
    """Return words and options of the commands of built-in questions."""
    return catalogue("en", "commands")
