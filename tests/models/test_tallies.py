"""Counts in agreed places, against numpy and pandas."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from strategies import seeds
from veilsum.errors import InvalidInputError, RangeError
from veilsum.models.tallies import CrossTable, TallyBins

EDGES = [0.0, 0.1, 0.5, 2.0]

values = st.lists(
    st.sampled_from([*EDGES, np.inf, -np.inf, -0.0, 5.0])
    | st.floats(-1.0, 3.0, allow_subnormal=False),
    max_size=40,
)


@given(values, st.integers(1, 4))
def test_counts_are_those_of_numpy_on_the_pooled_values(numbers, parties):
    bins = TallyBins.of(EDGES)
    found = bins.unpack(sum(bins.tally(numbers[k::parties]) for k in range(parties)))
    expected = np.histogram([x for x in numbers if np.isfinite(x)], EDGES)[0]
    assert found.counts.tolist() == expected.tolist()
    assert found.below == sum(x < EDGES[0] for x in numbers)
    assert found.above == sum(x > EDGES[-1] for x in numbers)
    assert found.total == len(numbers)


def test_every_bin_has_its_left_edge_and_the_last_one_both():
    found = TallyBins.of([1, 2, 3]).tally([1.0, 2.0, 3.0])
    assert found.tolist() == [0, 1, 2, 0]


def test_the_length_does_not_depend_on_the_data():
    bins = TallyBins.of(EDGES)
    assert {bins.tally(x).size for x in ([], [7.0], np.zeros(99))} == {bins.size}
    assert bins.size == 5


@given(seeds, st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_cells_are_those_of_numpy_on_the_pooled_rows(seed, levels):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, n, 50) for n in levels])
    table = CrossTable(tuple(levels))
    found = table.unpack(table.tally(codes[:20]) + table.tally(codes[20:]))
    edges = [np.arange(n + 1) - 0.5 for n in levels]
    np.testing.assert_array_equal(found, np.histogramdd(codes, edges)[0])


def crossed():
    rng = np.random.default_rng(2)
    levels = {"smoker": 2, "region": 4, "outcome": 3}
    frame = pd.DataFrame({name: rng.integers(0, n, 200) for name, n in levels.items()})
    table = CrossTable((2, 4, 3))
    return frame, table, table.unpack(table.tally(frame.to_numpy()))


def test_marginals_are_crosstabs_of_pandas():
    frame, _, cells = crossed()
    expected = pd.crosstab(frame["smoker"], frame["outcome"]).to_numpy()
    np.testing.assert_array_equal(cells.sum(axis=1), expected)
    regions = frame["region"].value_counts().sort_index()
    np.testing.assert_array_equal(cells.sum(axis=(0, 2)), regions)
    assert cells.sum() == 200


def test_one_axis_takes_a_flat_list():
    table = CrossTable((3,))
    assert table.tally([0, 2, 2]).tolist() == [1.0, 0.0, 2.0]
    assert table.tally(np.empty(0)).tolist() == [0.0, 0.0, 0.0]


def test_codes_of_pandas_categories_count_alike():
    kinds = pd.Categorical(["b", "a", "b", "c"], categories=["a", "b", "c", "d"])
    assert CrossTable((4,)).tally(kinds.codes).tolist() == [1.0, 2.0, 1.0, 0.0]


# Bad input.


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([1.0], "at least two edges"),
        ([[1.0, 2.0]], "at least two edges"),
        ([1.0, 1.0, 2.0], "edges must ascend"),
        ([2.0, 1.0], "edges must ascend"),
        ([0.0, np.inf], "edges must be finite"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_edges_that_make_no_bins_are_refused(edges, message):
    with pytest.raises(InvalidInputError, match=message):
        TallyBins.of(edges)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([1.0, np.nan, np.nan], r"2 values are missing"),
        ([[1.0]], "one column of values"),
        (["x"], "must be numbers"),
    ],
)
def test_values_that_belong_nowhere_are_refused(numbers, message):
    with pytest.raises(InvalidInputError, match=message):
        TallyBins.of(EDGES).tally(numbers)


@pytest.mark.parametrize("code", [-1, 3])
def test_codes_beyond_the_levels_are_refused(code):
    with refused("code-out-of-range", RangeError, mentions=("1", "0", "2,", code)):
        CrossTable((2, 3)).tally([[0, 1], [1, code]])


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([0, 1], r"one row of 2 codes.*found shape \(2,\)"),
        ([[0, 1, 1]], "one row of 2 codes"),
        ([[0.5, 1.0]], "whole numbers"),
        ([[np.nan, 1.0]], "finite"),
    ],
)
def test_codes_of_another_form_are_refused(codes, message):
    with pytest.raises(InvalidInputError, match=message):
        CrossTable((2, 3)).tally(codes)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((), "at least one level each"),
        ((2, 0), "at least one level each"),
        ((1000,) * 6, "leave out an axis or merge levels"),
    ],
)
def test_levels_that_make_no_table_are_refused(levels, message):
    with pytest.raises(InvalidInputError, match=message):
        CrossTable(levels)


def test_totals_of_another_size_are_refused():
    with refused("wrong-shape", mentions=("3", "5")):
        TallyBins.of(EDGES).unpack(np.ones(4))
    with refused("wrong-shape", mentions=("6",)):
        CrossTable((2, 3)).unpack(np.ones(7))
