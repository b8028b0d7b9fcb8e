"""Rows in whole numbers: the same bits as each column by itself."""

from fractions import Fraction

import numpy as np
from hypothesis import given, strategies as st

from refusals import refused
from strategies import few, seeds
from veilsum.errors import RangeError
from veilsum.models.rows import ONES, RowMeasures, Rows
from veilsum.numbers.units import BLOCK_ROWS, UnitMeasure

UNITS = (
    None,
    Fraction(1),
    Fraction(1, 100),
    Fraction(3, 7),
    Fraction(1, 8),
    Fraction(50),
)


def rows_of(seed, n=50, p=3):
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(n), rng.normal(3.0, 40.0, (n, p))])
    return Rows.of(design, rng.normal(100.0, 1.0, n))


@few
@given(seeds, st.lists(st.sampled_from(UNITS), min_size=3, max_size=3))
def test_blocks_have_the_bits_of_single_columns(seed, units):
    rows = rows_of(seed, n=BLOCK_ROWS + 7)
    columns = [ONES, *(UnitMeasure.of(-1000, 1000, unit) for unit in units)]
    measures = RowMeasures.of(columns, UnitMeasure.of(0, 200), intercept=0)
    measures.check(rows)
    blocks = list(measures.blocks(rows))
    design = np.concatenate([block.design for block in blocks])
    for k, measure in enumerate(measures.design):
        assert (design[:, k] == measure.whole(rows.design[:, k])).all()
    response = np.concatenate([block.response for block in blocks])
    assert (response == measures.response.whole(rows.response)).all()


def test_wide_columns_are_python_integers():
    fine = UnitMeasure.of(-1000, 1000, bits=80)
    rows = rows_of(0)
    measures = RowMeasures.of([ONES, fine, ONES, ONES], fine, intercept=0)
    exact = Rows(rows.design.astype(object), rows.response)
    exact.design[:, 1] = [Fraction(k, 7) for k in range(50)]
    exact.design[:, 2:] = 1.0
    measures.check(exact)
    (block,) = measures.blocks(exact)
    assert block.design.dtype == object
    assert (
        block.design[3, 1]
        == round(Fraction(3, 7) / fine.unit) - measures.design[1].centre
    )
    assert block.design[:, 2].tolist() == [1] * 50


def test_centres_are_taken_off_where_that_saves_a_limb():
    near, far = UnitMeasure.of(-8, 8), UnitMeasure.of(1e6 - 4, 1e6 + 4)
    measures = RowMeasures.of([ONES, near, far], far, intercept=0)
    assert measures.design[1] == near
    assert measures.design[2].limbs == 2 < far.limbs
    assert measures.response.centre == measures.design[2].centre > 0
    free = RowMeasures.of([near, far], far, intercept=None)
    assert not any(one.centre for one in (*free.design, free.response))


def test_what_is_read_off_all_rows_fits_all_of_them():
    parts = {"a": rows_of(1), "b": rows_of(2), "nobody": Rows.of(np.empty((0, 4)), [])}
    parts["a"].design[:, 1] = np.round(parts["a"].design[:, 1], 2)
    parts["b"].design[:, 1] = np.round(parts["b"].design[:, 1], 1)
    measures = RowMeasures.inferred(parts, 0)
    for rows in parts.values():
        measures.check(rows)
    assert measures.design[0] == ONES
    assert measures.design[1].unit == Fraction(1, 100)
    assert not measures.design[1].rounds
    assert measures.design[2].rounds
    with refused("no-rows"):
        RowMeasures.inferred({"nobody": parts["nobody"]}, 0)


def test_a_number_beyond_the_range_names_its_column():
    rows = rows_of(3)
    measures = RowMeasures.inferred({"a": rows}, 0)
    rows.design[4, 2] = 1e6
    with refused("value-out-of-range", RangeError, mentions=("1",)) as caught:
        measures.check(rows, ["one", "size", "age", "dose"])
    assert "1e+06" not in caught.value.plain
    rows.design[4, 2] = 0.0
    rows.design[:, 0] = 2.0
    with refused("value-out-of-range", RangeError, mentions=("50", "1")):
        measures.check(rows, ["one", "size", "age", "dose"])
