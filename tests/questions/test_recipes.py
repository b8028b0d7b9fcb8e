"""Recipes find the numbers of a sum by their keys, wherever a layout has them."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from veilsum.numbers.layout import NumberLayout, layout_array, layout_number
from veilsum.sums.recipes import (
    EndsRecipe,
    GuardedRecipe,
    IterativeRecipe,
    ObjectedError,
    OneRoundRecipe,
)
from veilsum.sums.table_job import TableJobResult

LEFT_OUT_FIRST = NumberLayout((layout_number("left_out"), layout_array("cells", 2)))
TOTAL = np.array([7, 1, 2], dtype=object)


@dataclass(frozen=True)
class Once(OneRoundRecipe):
    what: str = "cells"
    limit: None = None
    layout: NumberLayout = LEFT_OUT_FIRST


@dataclass(frozen=True, eq=False)
class Seeking(IterativeRecipe):
    """Its search notes what it is given."""

    layout: NumberLayout = LEFT_OUT_FIRST
    search = SimpleNamespace(start=list, advance=lambda seen, own: [*seen, *own])


class Ends(EndsRecipe):
    keys = ("events", "others", "later")


def test_rows_left_out_are_read_by_their_key():
    result = object.__new__(TableJobResult)
    object.__setattr__(result, "recipe", Once())
    object.__setattr__(result, "released", SimpleNamespace(sums=[TOTAL]))
    assert result.dropped == 7


def test_a_search_is_given_all_numbers_but_rows_left_out():
    assert Seeking().state([TOTAL]) == [1, 2]


def test_an_objection_has_a_number_of_its_own_behind_the_sum():
    guarded = GuardedRecipe(Once())
    assert guarded.objecting.released == {"sum": 3, "objections": 1}
    assert guarded.counts.units == (*LEFT_OUT_FIRST.counts.units, 1)
    assert guarded.within([np.append(TOTAL, 0)])[0].tolist() == [7, 1, 2]
    with pytest.raises(ObjectedError):
        guarded.within([np.append(TOTAL, 5)])


def test_every_row_that_ends_is_in_one_cell():
    recipe = Ends("", 2, 3)
    events, others, later = (
        np.full(shape, n) for n, shape in enumerate([(2, 3), (2, 3), (2,)], start=1)
    )
    total = recipe.pack(events, others, later, left_out=9)
    counts = recipe.row_counts([total])
    assert len(counts) == 6 + 6 + 2 + 1
    assert counts["rows"] == 6 * 1 + 6 * 2 + 2 * 3
    assert [one.tolist() for one in recipe.ends([total])] == [
        one.tolist() for one in (events, others, later)
    ]
