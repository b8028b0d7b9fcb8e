"""The same numbers summed in many units: each counts the parties above half of it.

A simulation's caller and Python code choose the unit; a file has no question like this.
"""

from tempfile import TemporaryDirectory

import numpy as np

import veilsum as vs

PARTIES = "abcde"


def numbers_found(seed, *, same_unit=False):
    """The honest parties' numbers by bisection, in order; and these numbers."""
    chance = np.random.default_rng(seed)
    own = {party: float(chance.integers(2001, 2256)) for party in PARTIES}
    with TemporaryDirectory() as folder:
        books = {
            party: vs.open_ledger(f"{folder}/{party}", create=vs.privacy.Budget())
            for party in PARTIES
        }

        def above(bound):
            unit = 8000.0 if same_unit else 2.0 * bound
            total = vs.sum(own, unit=unit, largest=1e6, ledgers=books).value
            return round(float(total) / unit) - (own["a"] > bound)

        def between(low, high, n_low, n_high):
            if n_low == n_high:
                return []
            if high - low == 1:
                return [high - 0.5] * (n_low - n_high)
            middle = low + (high - low) // 2
            n = above(middle)
            return between(low, middle, n_low, n) + between(middle, high, n, n_high)

        try:
            found = between(2000.5, 2256.5, len(PARTIES) - 1, 0)
        finally:
            for book in books.values():
                book.close()
    return sorted(found), sorted(own[party] for party in PARTIES[1:])


def test_open_sums_in_many_units_give_all_numbers_without_names():
    found, truth = numbers_found(0)
    assert found == truth


def test_sums_in_one_unit_tell_one_total():
    """The twin."""
    found, truth = numbers_found(0, same_unit=True)
    assert found != truth
