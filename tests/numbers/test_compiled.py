"""Numba is loaded for many numbers only, and both roads give the same bits."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("numba")

SCRIPT = """
import json, sys
import numpy as np
from veilsum.models.least_squares import statistics
from veilsum.models.rows import RowMeasures, Rows

def total(n):
    chance = np.random.default_rng(1)
    rows = Rows(chance.normal(size=(n, 8)), chance.normal(size=n))
    measures = RowMeasures.inferred({"p": rows}, None)
    return [int(one) for one in statistics(rows, measures)]

few = total(89)
before = "numba" in sys.modules
many = total(700_000)
print(json.dumps([before, "numba" in sys.modules, few == total(89)]))
"""


def test_few_rows_do_without_numba_and_many_have_the_same_bits():
    """A party with 89 rows had 270 MB with numba, and has 168 without."""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
    )
    assert json.loads(found.stdout) == [False, True, True]
