"""Claims that no test made until a mutant had shown it (`tests/mutation`)."""

import pytest

from veilsum.privacy.planner import _most_colluders_tolerated


@pytest.mark.parametrize(
    ("count", "degree", "most"),
    [(2, 1, 0), (4, 1, -1), (5, 4, 3), (5, 3, 1), (6, 3, 2)],
)
def test_one_link_each_makes_pairs_and_no_network(count, degree, most):
    assert _most_colluders_tolerated(count, degree) == most
