"""A schema's columns from tables that one computer holds: for simulations only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import listed
from veilsum.reading import nearest
from veilsum.tables.columns import Column, Nature, levels_of, nature
from veilsum.tables.frames import Frame, Series

_KINDS: dict[Nature, str] = {
    "numbers": "numbers",
    "whole numbers": "numbers",
    "text": "categories",
    "true or false": "categories",
}


def inferred_columns(
    frames: Mapping[str, Frame], names: Sequence[str] | None
) -> tuple[Column, ...]:
    """Return columns that fit every one of these tables."""
    if isinstance(names, str):
        raise InvalidInputError(
            f"columns must be a list of names, such as [{names!r}], found {names!r}"
        )
    chosen = list(next(iter(frames.values())).columns) if names is None else names
    return tuple(_inferred(name, _each(frames, name)) for name in chosen)


def _each(frames: Mapping[str, Frame], name: str) -> dict[str, Series]:
    for party, frame in frames.items():
        if name not in frame.columns:
            present = list(frame.columns)
            raise InvalidInputError(
                f"the table of {party} has no column {name!r}; "
                f"{nearest(name, present)}its columns are {listed(present)}; name the "
                "columns that all tables have with columns = [...]"
            )
    return {party: frame[name] for party, frame in frames.items()}


def _inferred(name: str, parts: Mapping[str, Series]) -> Column:
    found = {party: nature(values) for party, values in parts.items()}
    # A table without a single value in this column fits whatever the others have.
    found = {party: one for party, one in found.items() if one != "empty"}
    kinds = {_KINDS.get(one, one) for one in found.values()}
    if kinds == {"categories"}:
        union = set().union(*(levels_of(values) for values in parts.values()))
        return Column(name, "category", categories=tuple(sorted(union)))
    if kinds == {"numbers"}:
        whole = set(found.values()) == {"whole numbers"}
        return Column(name, "integer" if whole else "number")
    raise InvalidInputError(_no_kind(name, found))


def _no_kind(name: str, found: Mapping[str, str]) -> str:
    way_out = "leave it out with columns = [...], or write a schema"
    if not found:
        return f"column {name!r} is empty in every table; {way_out}"
    held: dict[str, str] = {}
    for party, one in found.items():
        held.setdefault(one, party)
    each = " and ".join(f"{one} at {party}" for one, party in held.items())
    comma = ""
    if "text" in held and len(held) > 1:
        who = held["text"]
        comma = f'a decimal comma at {who}? read that file with decimal = ","; '
    return f"column {name!r} holds {each}, which is no kind of column; {comma}{way_out}"
