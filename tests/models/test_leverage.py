"""How much of a combination of columns can lie on one row."""

from itertools import combinations

import numpy as np
import pytest

from veilsum.models.leverage import LeverageColumns
from veilsum.models.rows import Rows


def share(columns, row):
    """What of a row's indicator is a combination of columns."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return (left[row, sizes > 1e-9] ** 2).sum()


@pytest.mark.parametrize("seed", range(6))
def test_in_a_wide_design_columns_are_added_that_do_most_for_a_row(seed):
    """At least what column after column comes to, at most the best of all choices."""
    n_rows, n_columns, most = 15, 9, 3
    draw = np.random.default_rng(seed).normal(size=(n_rows, n_columns - 1))
    x = np.column_stack([np.ones(n_rows), draw])
    found, _ = LeverageColumns(Rows.of(x, x[:, 1]), 0).concentration()
    step_by_step, best = 0.0, 0.0
    for row in range(n_rows):
        chosen = [0]
        for _ in range(most):
            left = [k for k in range(1, n_columns) if k not in chosen]
            shares = [share(x[:, [*chosen, k]], row) for k in left]
            chosen.append(left[int(np.argmax(shares))])
        step_by_step = max(step_by_step, max(shares))
        for some in combinations(range(1, n_columns), most):
            best = max(best, share(x[:, [0, *some]], row))
    assert step_by_step - 1e-12 <= found.largest <= best + 1e-12
