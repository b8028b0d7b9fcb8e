"""Exact systems, against fractions."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import given, strategies as st

from refusals import refused
from strategies import few
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models.systems import (
    InformationSystem,
    nearest_float_solution,
    over_common_denominator,
)

NAMES = ("a", "b", "c", "d")
whole = st.integers(-(2**45), 2**45)


def grams(min_rows=4):
    rows = st.lists(st.lists(whole, min_size=4, max_size=4), min_size=min_rows)
    return rows.map(lambda found: np.array(found, dtype=object)).map(lambda z: z.T @ z)


def solved(matrix, right):
    """A^-1 b by Gauss-Jordan in fractions; None if A is singular."""
    n = len(matrix)
    rows = [
        [Fraction(one) for one in row] + [Fraction(b)]
        for row, b in zip(matrix.tolist(), right, strict=True)
    ]
    for i in range(n):
        pivot = next((j for j in range(i, n) if rows[j][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [one / rows[i][i] for one in rows[i]]
        for j in range(n):
            if j != i:
                times = rows[j][i]
                rows[j] = [a - times * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


@few
@given(grams(), st.lists(whole, min_size=4, max_size=4))
def test_every_number_of_a_solution_is_the_nearest_float64(gram, right):
    expected = solved(gram, right)
    if expected is None or not all(np.diag(gram)):
        with pytest.raises(InvalidInputError):
            InformationSystem.of(gram, names=NAMES)
        return
    system = InformationSystem.of(gram, names=NAMES)
    assert system.solve(right).tolist() == [float(one) for one in expected]
    exact = [Fraction(int(one.p), int(one.q)) for one in system.exact(right)]
    assert exact == expected


@few
@given(grams(5), st.lists(st.fractions(0, 10), min_size=4, max_size=4))
def test_the_inverse_and_degrees_of_a_ridge_are_the_closed_forms(gram, ridge):
    penalised = gram + np.diag(np.array(ridge, dtype=object))
    columns = [solved(penalised, [int(i == j) for j in range(4)]) for i in range(4)]
    if None in columns:
        return
    system = InformationSystem.of(gram, names=NAMES, ridge=ridge)
    assert system.inverse().tolist() == [[float(x) for x in row] for row in columns]
    taken = sum(r * columns[j][j] for j, r in enumerate(ridge))
    assert system.degrees == float(4 - taken)


def test_an_entry_that_is_zero_is_found_to_be():
    gram = np.array([[2, 0, 1], [0, 3, 0], [1, 0, 4]], dtype=object)
    system = InformationSystem.of(gram, names=NAMES[:3])
    assert system.solve([1, 0, 0]).tolist() == [4 / 7, 0.0, -1 / 7]
    assert system.inverse()[1].tolist() == [0.0, 1 / 3, 0.0]


def test_a_number_between_two_float64_goes_to_the_even_one():
    one = np.array([[1]], dtype=object)
    for odd in (2**53 + 1, 2**53 + 3):
        assert InformationSystem.of(one, names="a").solve([odd]).tolist() == [
            float(odd)
        ]


def test_what_depends_on_what_is_named():
    z = np.array([[1, 2, 3, 5], [4, 5, 9, 1], [0, 1, 1, 7], [2, 2, 4, 2]], dtype=object)
    with refused("dependent-columns"):
        InformationSystem.of(z.T @ z, names=NAMES)
    InformationSystem.of(z.T @ z, names=NAMES, ridge=[0, 0, Fraction(1, 10**30), 0])


def test_near_dependency_loses_no_digit():
    """A condition of 1e60: far beyond what float64 can solve."""
    far = 10**30
    z = np.array([[far, far], [1, 0], [0, 1]], dtype=object)
    system = InformationSystem.of(z.T @ z, names="ab")
    assert system.solve([1, 0]).tolist() == [
        float(Fraction(far**2 + 1, 2 * far**2 + 1)),
        float(Fraction(-(far**2), 2 * far**2 + 1)),
    ]
    assert system.condition == pytest.approx(2e60, rel=1e-9)


def test_wide_systems_take_no_long_time():
    rng = np.random.default_rng(0)
    z = rng.integers(-(2**39), 2**39, size=(120, 50)).astype(object)
    gram = z.T @ z
    system = InformationSystem.of(gram, names=[f"x{k}" for k in range(50)])
    product = system.inverse() @ gram.astype(float)
    np.testing.assert_allclose(product, np.eye(50), atol=1e-9)


def test_fractions_share_a_denominator():
    assert over_common_denominator([Fraction(1, 2), 3, Fraction(-2, 3)]) == (
        [3, 18, -4],
        6,
    )
    assert over_common_denominator([1, 2]) == ([1, 2], 1)


def test_balls_that_never_settle_fall_back():
    assert nearest_float_solution(lambda: [arb(0, 1e-300)]).tolist() == [0.0]
    assert nearest_float_solution(
        lambda: [arb(0, 1)], lambda: [fmpq(1, 3)]
    ).tolist() == [1 / 3]
    with refused("result-too-large", NumericalError):
        nearest_float_solution(lambda: [arb(10) ** 400])


def test_precision_grows_until_every_digit_is_sure():
    """At 192 bits nothing is left of the root of 2 beside 10^80."""
    found = nearest_float_solution(
        lambda: [arb(10) ** 80 + arb(2).sqrt() - arb(10) ** 80, arb(3)]
    )
    assert found.tolist() == [2.0**0.5, 3.0]
