"""The text of a formula, cut into tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from veilsum.errors import InvalidInputError, is_seen
from veilsum.tables.formula.syntax import short_formula_text

LONGEST_FORMULA = 10_000


class FormulaToken(NamedTuple):
    """A piece of the text: its kind, and where it stands."""

    kind: str
    text: str
    start: int
    end: int


# What is none of these is a token of its own, and nothing in the grammar takes it; nor
# what only begins like a number. No character is looked at twice: hence all the `++`.
_TOKENS = re.compile(
    r"""(?P<name>[^\W\d][\w.]*)
    |(?P<number>(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?![\w.]))
    |(?P<wrong>\.?[0-9][\w.]*+)
    |`(?P<quoted>[^`]*)`
    |'(?P<single>[^'\\]*)'|"(?P<double>[^"\\]*)"
    |(?P<sign>\*\*|%in%|[<>=!]=|[-+*/^:~|&<>(){}\[\],=.])
    |(?P<other>\S)""",
    re.VERBOSE,
)
# Inside an expression these are no names, unless they stand in backticks.
NO_COLUMN = re.compile(r"\.|\A(?:True|False|None)\Z")
CLOSING = {"(": ")", "{": "}", "[": "]"}
END = FormulaToken("end", "", -1, -1)
TILDE = ("sign", "~")


def tokenize_formula(text: str) -> list[FormulaToken]:
    return [
        FormulaToken(str(one.lastgroup), one[str(one.lastgroup)], *one.span())
        for one in _TOKENS.finditer(text)
    ]


def check_formula_text(text: object) -> None:
    """Refuse what is too long for a formula, or has what cannot be seen in it."""
    if not isinstance(text, str):
        raise InvalidInputError(
            f"a formula is a text such as 'y ~ age + C(sex)', found {text!r}",
            code="not-a-formula",
        )
    if len(text) > LONGEST_FORMULA:
        raise InvalidInputError(
            f"a formula has at most {LONGEST_FORMULA:,} characters, found "
            f"{len(text):,}; fit fewer terms at a time",
            code="formula-too-long",
        )
    if not is_seen(re.sub(r"[\n\r\t]", " ", text)):
        raise InvalidInputError(
            f"the formula {short_formula_text(text)} has a character that cannot be "
            "seen; write it "
            "again by hand",
            code="invisible-characters",
        )
    if "\\" in text:
        raise InvalidInputError(
            f"the formula {short_formula_text(text)} has a backslash; leave it out",
            code="backslash-in-formula",
        )
