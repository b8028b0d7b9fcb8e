"""A guest in Python: what is refused before anything is sealed."""

import dataclasses
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from surveys import World, opened
from veilsum.errors import RangeError
from veilsum.surveys.submission import guest_submission, new_invitation_code
from veilsum.surveys.terms import check_filled_cells, guest_table_of

TERMS = opened()


def test_a_table_is_bits_and_units():
    found = guest_table_of(TERMS, [[0.07, None], [-5, 0]])
    assert found.words.dtype == np.uint64
    assert found.words.tolist() == [7, 0, 2**64 - 500, 0]
    assert found.filled == bytes([0b1011_0000])
    assert repr(found) == "<GuestTable: private>"


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_bits_have_one_spelling(given_cells):
    terms = dataclasses.replace(
        TERMS, rows=tuple(map(str, range(len(given_cells)))), columns=("a",)
    )
    found = guest_table_of(terms, [[1 if one else None] for one in given_cells]).filled
    check_filled_cells(terms, found)
    bits = "".join(f"{byte:08b}" for byte in found)
    assert [bit == "1" for bit in bits[: len(given_cells)]] == given_cells
    assert "1" not in bits[len(given_cells) :]
    with refused("wrong-length"):
        check_filled_cells(terms, found + b"\0")
    if len(given_cells) % 8:
        padded = found[:-1] + bytes([found[-1] | 1])
        with refused("too-many-cells-filled"):
            check_filled_cells(terms, padded)


@each(
    ("cell", "why"),
    [
        (0.005, "no whole number of 1/100"),
        (1e6 + 0.01, "must be from -5 to 1000000"),
        (-5.01, "must be from"),
        (math.nan, "must be a number"),
        (math.inf, "must be a number"),
        (10**400, "must be from"),
        ("7", "must be a number"),
        (True, "must be a number"),
        (Decimal(1), "must be a number"),
    ],
    ids=lambda one: ascii(one)[:20],
)
def test_an_odd_cell_is_named_and_not_written_into_logs(cell, why):
    with pytest.raises(RangeError, match=why) as error:
        guest_table_of(TERMS, [[1, 1], [1, cell]])
    assert str(error.value).startswith("clerks, men")
    assert str(cell) not in error.value.plain


@pytest.mark.parametrize("cells", [[], [[1, 2]], [[1, 2], [3]], [[1, 2, 3], [4, 5, 6]]])
def test_a_table_of_another_shape_is_refused(cells):
    with refused("table-not-of-survey", mentions=("2",)):
        guest_table_of(TERMS, cells)


def test_an_invitation_to_another_survey_is_refused(tmp_path):
    with refused("other-survey"):
        guest_submission(TERMS, new_invitation_code(), [[1, 1], [1, 1]])
    world = World(tmp_path)
    sent = [world.visit(name, 1) for name in world.codes]
    closed = world.closed(sent)
    with refused("survey-closed"):
        guest_submission(closed, world.codes["Firm 1"], [[1, 1], [1, 1]])
    world.close()
