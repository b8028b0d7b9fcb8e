"""Shapes and types are checked at every call: what jaxtyping refuses is refused."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import jaxtyping
import numpy as np
import pytest
from beartype.roar import BeartypeCallHintViolation
from jaxtyping._decorator import jaxtyped

import veilsum as vs
from cases import each
from typechecker import checker, once_a_call
from veilsum.errors import VeilsumError
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.shapes import Float

Row = TypeVar("Row", bound=Float[FloatArray, " n"])

REFUSALS = (BeartypeCallHintViolation, jaxtyping.TypeCheckError)


def product(a: Float[FloatArray, "n m"], b: Float[FloatArray, " m"], *, more: int = 0):
    return a @ b + more


def returned(a: Float[FloatArray, " n"], it: object) -> Float[FloatArray, " n"]:
    return it


def longer(a: "Float[FloatArray, ' n']", by: int) -> "Float[FloatArray, ' n+1']":
    return np.ones(len(a) + by)


def either(a: Float[FloatArray, " n"] | None, *rest: float) -> list[int]:
    return [len(rest)] if a is None else list(rest)


def told(name: str, parts: "tuple[int, ...]" = ()) -> "dict[str, int]":
    return dict.fromkeys([name], parts[0] if parts else name)


def unreadable(it: "NoSuchName", n: int) -> int:
    return n if it else it


def nested(a: Float[FloatArray, " n"]) -> Float[FloatArray, " n"]:
    # Axes of a call within are its own: here ` n` is twice as long.
    assert returned(np.concatenate([a, a]), np.ones(2 * len(a))).size == 2 * len(a)
    return a


def second(a: Row, b: Row) -> Row:
    return b if len(a) else a


def some(n: int) -> Iterator[int]:
    yield from range(n)


ROW, TABLE = np.ones(3), np.ones((2, 3))
# A function, what it is called with, and whether that is as its signature says.
CALLS = [
    (product, (TABLE, ROW), {}, True),
    (product, (TABLE, ROW), {"more": 2}, True),
    (product, (TABLE, ROW), {"more": "2"}, False),
    (product, (TABLE, np.ones(2)), {}, False),
    (product, (TABLE, ROW.astype(int)), {}, False),
    (product, (TABLE.tolist(), ROW), {}, False),
    (returned, (ROW, ROW), {}, True),
    (returned, (ROW, np.ones(4)), {}, False),
    (returned, (ROW, None), {}, False),
    (longer, (ROW, 1), {}, True),
    (longer, (ROW, 2), {}, False),
    (either, (None, 1.0, 2), {}, True),
    (either, (None, 1.0, "2"), {}, False),
    (either, (ROW,), {}, True),
    (either, (TABLE,), {}, False),
    (either, (ROW, 1.5), {}, False),
    (told, ("a", (1,)), {}, True),
    (told, ("a", ("1",)), {}, False),
    (told, (1,), {}, False),
    (told, ("a",), {}, False),
    (unreadable, (1, 2), {}, True),
    (unreadable, (1, "2"), {}, False),
    (unreadable, ("", 2), {}, False),
    (nested, (ROW,), {}, True),
    (second, (ROW, ROW), {}, True),
    (second, (ROW, np.ones(4)), {}, False),
    (some, (3,), {}, True),
    (some, ("3",), {}, False),
]
DECORATORS = {"ours": once_a_call, "theirs": jaxtyped}


@each("decorate", DECORATORS.values(), ids=DECORATORS)
@each(("function", "args", "kwargs", "is_right"), CALLS)
def test_a_call_is_taken_or_refused_as_jaxtyping_does(
    decorate, function, args, kwargs, is_right
):
    checked = decorate(typechecker=checker)(function)
    if is_right:
        found, wanted = checked(*args, **kwargs), function(*args, **kwargs)
        assert type(found) is type(wanted)
        if function is not some:
            np.testing.assert_equal(found, wanted)
    else:
        with pytest.raises(REFUSALS):
            checked(*args, **kwargs)


@pytest.mark.parametrize("decorate", DECORATORS.values(), ids=DECORATORS)
def test_fields_of_a_value_are_checked_together(decorate):
    @decorate(typechecker=checker)
    @dataclass(frozen=True)
    class Pair:
        a: Float[FloatArray, " n"]
        b: Float[FloatArray, " n"]

    assert Pair(ROW, ROW).a is ROW
    with pytest.raises(REFUSALS):
        Pair(ROW, np.ones(4))
    with pytest.raises(REFUSALS):
        Pair(a=ROW, b=[1.0, 1.0, 1.0])


def test_an_error_of_the_function_leaves_no_scope_behind():
    @once_a_call(typechecker=checker)
    def fails(a: Float[FloatArray, " n"]) -> Float[FloatArray, " n"]:
        raise KeyError(len(a))

    taken = once_a_call(typechecker=checker)(returned)
    for n in (2, 3):
        with pytest.raises(KeyError):
            fails(np.ones(n))
        assert taken(np.ones(n), np.ones(n)).size == n


def test_where_checks_are_switched_off_nothing_is_refused(monkeypatch):
    checked = once_a_call(typechecker=checker)(returned)
    with pytest.raises(REFUSALS):
        checked(ROW, None)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    assert checked(ROW, None) is None


def test_a_run_with_the_checker_checks_the_package(request):
    """And one without does not: the package then refuses in its own words."""
    is_checked = request.config.getoption("--jaxtyping-packages")
    with pytest.raises(REFUSALS if is_checked else VeilsumError):
        vs.graphs.algebraic_connectivity([("a", "b")])
