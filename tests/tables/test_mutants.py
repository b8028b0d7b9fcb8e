"""Claims that no test made until a mutant had shown it (`tests/mutation`)."""

import pytest

from refusals import refused
from veilsum.tables.fingerprints import ColumnSketch
from veilsum.tables.propensity import Propensity


def test_a_propensity_of_another_kind_is_refused():
    with refused("unknown-kind"):
        Propensity("treated ~ age", {"age": 0.1}, kind="every")


@pytest.mark.parametrize(("common", "alike"), [(7, False), (8, True)])
def test_eight_values_are_the_fewest_that_two_columns_are_known_by(common, alike):
    values = tuple(range(common))
    sketch = ColumnSketch(
        buckets=(0,) * 256,
        sizes=(1,) * common + (0,) * (256 - common),
        values=values,
        counts=(1,) * common,
        bound=1000,
    )
    assert sketch.resembles(sketch) is alike
