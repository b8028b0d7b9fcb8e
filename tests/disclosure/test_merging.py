"""Small cells merge: every block is large, and no two questions tell a small one."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from veilsum.disclosure.merging import (
    CountedTable,
    MergeAxis,
    Merging,
    SmallCellRule,
    merge_released_numbers,
    merged_layout,
)
from veilsum.numbers.layout import NumberLayout, layout_array
from veilsum.tables.rules import DisclosureError

LEAST, ENOUGH, PARTIES = 3, 3, 5
RULE = SmallCellRule(LEAST, ENOUGH)


def labels(size):
    return tuple(f"p{k}" for k in range(size))


def line(holders, name="x", **more):
    axis = MergeAxis(name, labels(len(holders)), **more)
    return CountedTable(f"places of {name}", (axis,), np.array(holders))


@st.composite
def counts(draw, n_axes=2):
    """Rows of each party in each cell, and which of the axes are ordered."""
    shape = tuple(draw(st.integers(2, 7)) for _ in range(n_axes))
    cells = st.lists(
        st.sampled_from([0, 1, 2, 3, 9]),
        min_size=int(np.prod(shape)) * PARTIES,
        max_size=int(np.prod(shape)) * PARTIES,
    )
    rows = np.array(draw(cells)).reshape(PARTIES, *shape)
    return rows, tuple(draw(st.booleans()) for _ in range(n_axes))


def holders_of(rows):
    return (rows >= ENOUGH).sum(axis=0)


@given(counts())
def test_every_block_has_enough_rows_at_enough_parties(drawn):
    """Found from the counts of parties alone, and held against the rows."""
    rows, ordered = drawn
    axes = tuple(
        MergeAxis(name, labels(n), ordered=one)
        for name, n, one in zip("xy", rows.shape[1:], ordered, strict=True)
    )
    try:
        merging = RULE.merge([CountedTable("cells", axes, holders_of(rows))])
    except DisclosureError as error:
        if error.code != "merging-leaves-nothing":
            raise
        return
    blocks = [merging.of(one.column, len(one.labels)) for one in axes]
    for some in blocks[0]:
        for others in blocks[1]:
            pooled = rows[np.ix_(range(PARTIES), some, others)].sum(axis=(1, 2))
            assert (pooled >= ENOUGH).sum() >= LEAST
    for one, own in zip(axes, blocks, strict=True):
        assert sorted(k for block in own for k in block) == list(range(len(one.labels)))
        assert len(own) >= 2


@given(counts(n_axes=1), st.data())
def test_cut_points_of_two_questions_leave_a_large_place_between_them(drawn, data):
    """One question has all cut points and another one some of them.

    Whatever each of them shows, no two cut points that are shown have only small places
    between them: no difference of cumulated counts is about these alone.
    """
    (rows, _), n = drawn, drawn[0].shape[1]
    some = sorted(data.draw(st.sets(st.integers(1, n - 1), min_size=1)))
    edges = [0, *some, n]
    coarse = np.stack([rows[:, a:b].sum(axis=1) for a, b in pairwise(edges)], 1)

    def shown(own, cuts):
        axis = MergeAxis("x", labels(own.shape[1]), ordered=True)
        try:
            merging = RULE.merge([CountedTable("places", (axis,), holders_of(own))])
        except DisclosureError:
            return set()
        ends = [block[-1] for block in merging.of("x", own.shape[1])][:-1]
        return {cuts[end] for end in ends}

    fine = shown(rows, range(1, n))
    both = sorted({0, n, *fine, *shown(coarse, some)})
    for low, high in pairwise(both):
        if (low in fine or high in fine) and {low, high} != {0, n}:
            assert (rows[:, low:high].sum(axis=1) >= ENOUGH).sum() >= LEAST


def test_a_small_level_and_the_next_one_are_in_one_block_in_every_question():
    """By a fixed contrast: the total of a small level follows from no questions."""
    chance = np.random.default_rng(4)
    size, small = 6, 2
    contrast = np.zeros(size)
    contrast[[small, small + 1]] = 1, -1
    for _ in range(200):
        holders = chance.integers(0, PARTIES + 1, size)
        holders[small] = chance.integers(0, LEAST)
        try:
            merging = RULE.merge([line(holders)])
        except DisclosureError:
            continue
        for block in merging.of("x", size):
            assert contrast[list(block)].sum() == 0


def test_a_rule_that_takes_the_nearest_neighbour_would_not_do():
    """The twin: a small level that joins the smaller neighbour is told by two."""

    def neighbour(holders):
        k = holders.index(0)
        return sorted([k, k - 1 if holders[k - 1] < holders[k + 1] else k + 1])

    rows = np.array([40, 30, 1, 35, 50])
    one, other = neighbour([5, 3, 0, 4, 5]), neighbour([5, 4, 0, 3, 5])
    assert (one, other) == ([1, 2], [2, 3])
    assert rows[one].sum() - rows[1] == 1  # level 1 is by itself in the other question


def test_ordered_places_lose_both_cut_points_of_a_small_place():
    found = RULE.merge([line([5, 5, 1, 5, 5, 0], ordered=True)])
    assert found.blocks == {"x": ((0,), (1, 2, 3), (4, 5))}
    with refused("merging-leaves-nothing", DisclosureError, mentions=("p1", "fewer")):
        RULE.merge([line([5, 1, 5], ordered=True)])


def test_a_place_that_no_value_can_be_in_is_not_small():
    table = line([0, 5, 5, 0], ordered=True, unreachable=(0, 3))
    assert not RULE.merge([table])


def test_where_one_row_is_enough_an_empty_place_is_not_small():
    assert not SmallCellRule(LEAST, 1).merge([line([0, 5, 5])])
    assert SmallCellRule(LEAST, 1).merge([line([1, 5, 5])])


def test_groups_merge_for_their_own_counts_only_and_fixed_places_never():
    by = MergeAxis("by", labels(3), alone=True)
    x = MergeAxis("x", labels(4), ordered=True)
    holders = np.full((4, 3), 5)
    holders[3, 1] = 0
    found = RULE.merge([CountedTable("cells", (x, by), holders)])
    assert found.blocks == {"x": ((0,), (1,), (2, 3))}
    fixed = MergeAxis("event", ("no", "yes"), fixed=True)
    with refused("merging-leaves-nothing", DisclosureError, mentions=("yes",)):
        RULE.merge([CountedTable("values", (fixed,), np.array([5, 1]))])


@pytest.mark.parametrize(("several", "fits"), [(3, True), (2, False)])
def test_parties_have_rows_in_several_blocks(several, fits):
    """Five parties, of which three have one place and three the other: two have both.

    Once cells have merged only the counts of both blocks tell how many have both.
    """
    table = line([3, 3])
    assert RULE.held_by_several(table, Merging(), several, PARTIES) == fits
    merged = Merging({"x": ((0,), (1, 2))})
    assert not RULE.held_by_several(line([3, 3, 0]), merged, several, PARTIES)
    assert RULE.held_by_several(line([4, 4, 0]), merged, several, PARTIES)


def test_merged_numbers_have_the_totals_of_blocks_and_zeros_cost_no_bit():
    merging = Merging({"x": ((0,), (1, 2))})
    targets = merging.targets((2, 3), ("y", "x"))
    values = np.array([1, 2, 3, 4, 5, 6, 9], dtype=object)
    assert merge_released_numbers(values, targets).tolist() == [1, 5, 0, 4, 11, 0, 9]
    layout = NumberLayout((layout_array("cells", (2, 3)), layout_array("left_out", 1)))
    bits = sum(layout.charges(rows=7).values())
    assert sum(merged_layout(layout, targets).charges(rows=7).values()) == bits * 5 / 7
