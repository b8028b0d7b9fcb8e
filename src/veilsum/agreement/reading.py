"""Values out of plain tables; whatever is of the wrong kind is named with its place."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from veilsum.errors import InvalidScenarioError

Table = Mapping[str, Any]


def check_keys(table: Table, known: Collection[str], where: str) -> None:
    """Refuse an unknown key, naming the nearest."""
    unknown = [key for key in table if key not in known]
    if not unknown:
        return
    key = unknown[0]
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InvalidScenarioError(
        f"{where} has an unknown key {key!r}; {hint}known keys are {', '.join(known)}"
    )


def need(section: Table, name: str, key: str, why: str) -> Any:
    """Return a value that must be there."""
    if key not in section:
        raise InvalidScenarioError(f"[{name}] needs {key!r}: {why}")
    return section[key]


def choice(section: Table, name: str, key: str, known: Sequence[str]) -> str:
    """Return one of the words that are known."""
    value = need(section, name, key, f"one of {', '.join(known)}")
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidScenarioError(
            f"[{name}] {key} is {value!r}; {hint}choose from {', '.join(known)}"
        )
    return str(value)


def number(section: Table, name: str, key: str, default: float = 0.0) -> float:
    """Return a number."""
    value = section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidScenarioError(f"[{name}] {key} must be a number, found {value!r}")
    return float(value)


def integer(section: Table, name: str, key: str, default: int = 0) -> int:
    """Return a whole number."""
    value = section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidScenarioError(
            f"[{name}] {key} must be a whole number, found {value!r}"
        )
    return value


def names(value: object, where: str) -> tuple[str, ...]:
    """Return a list of names."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidScenarioError(f"{where} must be a list of names, found {value!r}")
    return tuple(str(name) for name in value)


def entries(value: object) -> Sequence[Any]:
    """Return a list of anything."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidScenarioError(f"expected a list, found {value!r}")
    return value


def word(section: Table, name: str, key: str) -> str:
    """Return a word."""
    del name  # the settings know which words there are
    return str(section[key])


def flag(section: Table, name: str, key: str) -> bool:
    """Return true or false."""
    value = section[key]
    if not isinstance(value, bool):
        raise InvalidScenarioError(f"[{name}] {key} is true or false, found {value!r}")
    return value
