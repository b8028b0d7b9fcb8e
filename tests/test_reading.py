"""Tables become sections in one way; what does not fit is named with its place."""

import math
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import Meta

from cases import each
from refusals import refused
from section_keys import section_keys
from veilsum.consortium.consortium import ConsortiumFile, MemberEntry
from veilsum.consortium.sections import ScenarioFile
from veilsum.errors import InvalidScenarioError, SecretError
from veilsum.numbers.secrets import Secret
from veilsum.reading import (
    Entries,
    Flag,
    Names,
    Number,
    Real,
    Section,
    Text,
    Whole,
    read_section,
)
from veilsum.tables.schema import ColumnSection, SchemaSection


class Inner(Section, frozen=True, kw_only=True):
    kind: Literal["round", "square"]
    size: Whole | None = None


class Outer(Section, frozen=True, kw_only=True):
    inner: Inner | None = None
    number: Number | None = None
    real: Real | None = None
    flag: Flag | None = None
    text: Text | None = None
    names: Names | None = None
    tool: Annotated[str, Meta(extra={"choices": ("saw", "hammer")})] | None = None


class Private(Secret, Section, frozen=True, kw_only=True):
    rows: Entries | None = None


def test_a_table_becomes_a_value():
    found = read_section(
        {"inner": {"kind": "round"}, "names": ["a", 7]}, Outer, "the file"
    )
    assert found == Outer(inner=Inner(kind="round"), names=("a", "7"))
    assert found.given() == {"inner": Inner(kind="round"), "names": ("a", "7")}
    with pytest.raises(AttributeError):
        found.flag = True


def test_a_number_stays_as_it_was_written_and_a_real_is_a_float():
    """5 and 5.0 are different words in what parties compare."""
    found = read_section({"number": 5, "real": 5}, Outer, "the file")
    assert (type(found.number), type(found.real)) == (int, float)
    assert type(read_section({"number": 5.0}, Outer, "the file").number) is float


@each(
    ("table", "words"),
    [
        ({"numbr": 1}, r"the file has an unknown key 'numbr'; did you mean 'number'\?"),
        ({"zzz": 1}, "unknown key 'zzz'; known keys are inner, number, real"),
        ({"number": "5"}, "the file: number must be a number, found '5'"),
        ({"number": True}, "number must be a number, found True"),
        ({"real": 10**400}, r"real must be a number, found 1000.*\.\.\.$"),
        ({"flag": 1}, "flag must be true or false, found 1"),
        ({"text": 1}, "text must be a text, found 1"),
        ({"names": "abc"}, "names must be a list of names, found 'abc'"),
        ({"names": [1.5]}, r"names must be a list of names, found \[1.5\]"),
        ({"tool": "sow"}, "tool is 'sow'; did you mean 'saw'.* from saw, hammer"),
        ({"tool": 3}, "tool is 3; choose from saw, hammer"),
        ({"inner": 3}, r"\[inner\] must be a section, found 3"),
        ({"inner": {"size": 1}}, r"\[inner\] needs 'kind': one of round, square"),
        (
            {"inner": {"kind": "rond"}},
            r"\[inner\] kind is 'rond'; did you mean 'round'",
        ),
        (
            {"inner": {"kind": "round", "size": 1.0}},
            r"\[inner\] size must be a whole number, found 1.0",
        ),
        (3, "the file must be a section, found 3"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_does_not_fit_is_named_with_its_place(table, words):
    with pytest.raises(InvalidScenarioError, match=words):
        read_section(table, Outer, "the file")


def test_an_empty_section_is_none_where_something_would_have_to_be_there():
    assert read_section({"inner": {}}, Outer, "the file") == Outer()


def test_a_private_value_is_neither_shown_nor_copied_nor_repeated():
    found = read_section({"rows": [[41.5]]}, Private, "[cost]")
    assert "41.5" not in f"{found!r} {found}"
    with pytest.raises(SecretError):
        found.__reduce_ex__(2)
    with refused("wrong-value", InvalidScenarioError) as caught:
        read_section({"rows": "41.5"}, Private, "[cost]")
    assert "41.5" not in str(caught.value)


def sections(kind):
    """A file's section types, and the file's own."""
    yield kind
    for field in msgspec.structs.fields(kind):
        for part in getattr(field.type, "__args__", (field.type,)):
            if isinstance(part, type) and issubclass(part, Section):
                yield from sections(part)


EVERY = sorted(
    {*sections(ScenarioFile), *sections(ConsortiumFile), MemberEntry, ColumnSection},
    key=lambda kind: kind.__name__,
)


@each("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_section_is_frozen_and_refuses_what_it_does_not_know(kind):
    assert SchemaSection in EVERY
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.forbid_unknown_fields
    with refused("unknown-key", InvalidScenarioError, mentions=("no such key",)):
        read_section({"no such key": 1}, kind, "here")


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just(math.inf),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.data())
def test_no_table_gets_more_than_a_refusal(data):
    """Whatever stands at whatever key: a value, or our own sentence."""
    keys = section_keys(ScenarioFile)
    name = data.draw(st.sampled_from(sorted(keys)))
    table = data.draw(
        st.dictionaries(st.sampled_from(keys[name]), anything, max_size=3) | anything
    )
    try:
        read_section({name: table}, ScenarioFile, "the scenario")
    except InvalidScenarioError as refused:
        said = str(refused)
    else:
        said = name
    assert name in said
