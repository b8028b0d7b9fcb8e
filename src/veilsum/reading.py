"""Frozen values out of plain tables, such as a TOML file has them.

A `Section` describes one table: its keys, the type of each, and in words what is
expected there. `read_section` is the only way from a table to a section. It refuses an
unknown key with the nearest known one, a key that is missing, and a value of another
type, and says where that stands, what was expected and what was found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.numbers.arrays import nearest_name
from veilsum.numbers.secrets import Secret

Table = Mapping[str, Any]

# What may stand at a key. A `Number` stays as it was written, 5 or 5.0: both may be in
# a digest that parties compare. A `Real` is always a float.
Number = Annotated[int | float, Meta(description="a number")]
Real = Annotated[float, Meta(description="a number")]
Reals = Annotated[
    float | tuple[Any, ...], Meta(description="a number, or a list of numbers")
]
Whole = Annotated[int, Meta(description="a whole number")]
Flag = Annotated[bool, Meta(description="true or false")]
Text = Annotated[str, Meta(description="a text")]
# Names may be written as numbers; they are texts all the same.
Names = Annotated[
    tuple[str, ...],
    Meta(description="a list of names", extra={"names": tuple[str | int, ...]}),
]
Entries = Annotated[tuple[Any, ...], Meta(description="a list, one entry for each")]

# What a person may have written, where the value itself must not be repeated.
KINDS = {str: "text", bool: "true or false", dict: "a table", list: "a list"}
# A message is for reading: this much of what was found is enough to find it again.
SHOWN_LETTERS = 200


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table of a TOML file, as attributes; a missing optional key is None."""

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """Return the keys that may be there."""
        return cls.__struct_fields__

    @classmethod
    def for_keys(cls, keys: Collection[str]) -> type[Self]:
        """Return the section that a table with these keys is read as."""
        del keys
        return cls

    @classmethod
    def has_required(cls) -> bool:
        """Say whether some key must be there."""
        return any(one.required for one in _fields_of_read_section(cls))

    def given(self) -> dict[str, Any]:
        """Return what was written, key by key."""
        found = {key: getattr(self, key) for key in type(self).__struct_fields__}
        return {key: value for key, value in found.items() if value is not None}


S = TypeVar("S", bound=Section)


@cache
def _fields_of_read_section(
    kind: type[Section],
) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return a section's keys; annotations are texts, and are looked up once."""
    return msgspec.structs.fields(kind)


def read_section(table: object, kind: type[S], where: str) -> S:
    """Return the section that a table holds; `where` is how people call its place."""
    if not isinstance(table, Mapping):
        raise InvalidScenarioError(
            f"{where} must be a section, found {_shown_read_value(table)}",
            code="section-expected",
        )
    kind = kind.for_keys(table)
    if not table.keys() <= {*kind.__struct_fields__}:
        check_read_keys(table, kind.known_keys(), where)
    values: dict[str, Any] = {}
    for field in _fields_of_read_section(kind):
        key, section = field.name, _section_type_to_read(field.type)
        if section is not None:
            # A heading with nothing under it says as little as none at all, where
            # something would have to be there.
            empty = table.get(key) == {} and section.has_required()
            if field.required or (key in table and not empty):
                values[key] = read_section(table.get(key, {}), section, f"[{key}]")
        elif key in table:
            place = f"{where} {key}" if where.startswith("[") else f"{where}: {key}"
            private = issubclass(kind, Secret)
            values[key] = _read_section_value(
                table[key], field.type, place, private=private
            )
        elif field.required:
            raise missing_key_error(where, key, _expected_of_read_type(field.type))
    return kind(**values)


def missing_key_error(where: str, key: str, why: str) -> InvalidScenarioError:
    """Return the error about a key that must be there."""
    return InvalidScenarioError(f"{where} needs {key!r}: {why}", code="missing-key")


def check_read_keys(table: Collection[str], known: Collection[str], where: str) -> None:
    """Refuse an unknown key, naming the nearest."""
    for key in table:
        if key not in known:
            raise InvalidScenarioError(
                f"{where} has an unknown key {key!r}; {nearest_name(key, known)}known "
                "keys "
                f"are {', '.join(known)}",
                code="unknown-key",
            )


@contextmanager
def about_read_section(section: str) -> Iterator[None]:
    """Say in which section something cannot be used."""
    try:
        yield
    except InvalidScenarioError:
        raise
    except InvalidInputError as error:
        raise InvalidScenarioError(f"[{section}] {error}", code=error.code) from None


def _read_section_value(value: object, kind: Any, place: str, *, private: bool) -> Any:
    """Return one value in its type; a private one is not repeated if it is wrong."""
    names = (_meta_of_read_type(kind).extra or {}).get("names")
    try:
        found = msgspec.convert(value, names or kind)
    except (msgspec.ValidationError, UnicodeEncodeError):  # half of a surrogate pair
        found = None
    if names and found is not None:
        return _read_names_as_texts(found)
    choices = _choices_of_read_type(kind)
    if choices and found not in choices:
        raise InvalidScenarioError(
            f"{place} is {_shown_read_value(value)}; "
            f"{nearest_name(value, choices)}choose from "
            f"{', '.join(choices)}",
            code="unknown-value",
        )
    if found is None:
        shown = (
            KINDS.get(type(value), "something else")
            if private
            else _shown_read_value(value)
        )
        raise InvalidScenarioError(
            f"{place} must be {_expected_of_read_type(kind)}, found {shown}",
            code="wrong-value",
        )
    return found


def _read_names_as_texts(names: Any) -> Any:
    return (
        tuple(map(_read_names_as_texts, names))
        if isinstance(names, tuple)
        else str(names)
    )


def _shown_read_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."


def _section_type_to_read(kind: Any) -> type[Section] | None:
    """Return the section that a type stands for, if it is one."""
    bare = _type_without_none(kind)
    return bare if isinstance(bare, type) and issubclass(bare, Section) else None


def _type_without_none(kind: Any) -> Any:
    """Return a type without `| None`."""
    parts = [part for part in get_args(kind) if part is not NoneType]
    return parts[0] if NoneType in get_args(kind) and len(parts) == 1 else kind


def _meta_of_read_type(kind: Any) -> Meta:
    notes = (
        get_args(_type_without_none(kind))
        if get_origin(_type_without_none(kind)) is Annotated
        else ()
    )
    return next((note for note in notes if isinstance(note, Meta)), Meta())


def _choices_of_read_type(kind: Any) -> tuple[str, ...]:
    """Return the words that may stand there, where only some may."""
    bare = _type_without_none(kind)
    if get_origin(bare) is Literal:
        return get_args(bare)
    return tuple((_meta_of_read_type(kind).extra or {}).get("choices", ()))


def _expected_of_read_type(kind: Any) -> str:
    choices = _choices_of_read_type(kind)
    return (
        f"one of {', '.join(choices)}"
        if choices
        else str(_meta_of_read_type(kind).description)
    )
