"""Totals are functions of the pooled rows: who has which, and in what order, is lost.

Every kind of job, under every law that it knows: rows dealt to the honest parties in
another way, the same rows in another order, other blocks, other numbers of threads, all
leave the released totals as they are, bit for bit.
"""

import re
import sys
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st
from threadpoolctl import threadpool_limits

from attacks.catalogue import (
    FEWEST,
    KINDS,
    N_MISSING,
    PARTIES,
    WITH_UNITS,
    dealt,
    even,
    n_honest,
    people,
)
from attacks.watching import LAWS, totals, watched
from cases import each

# Shapes are checked where each kind of job has its own tests.
pytestmark = pytest.mark.usefixtures("unchecked_shapes")

KINDS = KINDS | WITH_UNITS
CASES = [(name, law) for name, kind in KINDS.items() for law in kind.laws]
FITS = [name for name, kind in KINDS.items() if kind.rows is people]


# What a simulation says of each party, or of all their data; real ones cannot.
SIMULATED = ("outputs", "costs", "rounded", "reference", "max_error", "quantisation")


def released(name, law, rows, dealing):
    """All that is known after a job, as text in which every bit is to be seen."""
    kind = KINDS[name]
    job = partial(kind.run, kind.deal(dealing, rows))
    result, rounds = watched(job, PARTIES, **LAWS[law])
    public = getattr(result, "released", None)
    if public is None:  # of an iterative method only the masked sums are pooled
        return repr(totals(rounds)), "", ""
    kept = {key: one for key, one in result.to_dict().items() if key not in SIMULATED}
    return repr(totals(rounds)), repr([one.tolist() for one in public.sums]), repr(kept)


@cache
def in_the_first_place(name, law, seed=0):
    rows = KINDS[name].rows(seed)
    return released(name, law, rows, even(rows))


@st.composite
def dealings(draw, rows):
    """Any dealing of the honest parties' rows that leaves everybody enough of them."""
    # Rows with missing values may all be one party's, and do not count.
    n = n_honest(rows)
    few = min(FEWEST + N_MISSING, n // 4)
    first = draw(st.integers(few, n - 2 * few), label="rows of b")
    second = draw(st.integers(first + few, n - few), label="rows of b and c")
    mixed = draw(st.integers(0, 2**32 - 1), label="order")
    order = np.random.default_rng(mixed).permutation(n)
    return dealt(rows, order, [first, second])


@pytest.mark.parametrize(("name", "law"), CASES)
@given(data=st.data())
# Any dealing shows a difference as well as the simplest one does.
@settings(max_examples=2, phases=[Phase.generate])
def test_totals_do_not_depend_on_who_has_which_row(name, law, data):
    """Nor on the order in which a party has them: every dealing has another."""
    rows = KINDS[name].rows(0)
    dealing = data.draw(dealings(rows))
    dealing["a"] = dealing["a"][::-1]
    assert released(name, law, rows, dealing) == in_the_first_place(name, law)


IN_BLOCKS = "units|models|fits|questions|sums|costs|tables"


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Every constant that says how many rows or numbers are taken at once, made 5."""
    changed = 0
    for place, module in list(sys.modules.items()):
        if re.match(
            r"veilsum\..*(units|models|fits|questions|sums|costs|tables)\b", place
        ):
            for name, value in list(vars(module).items()):
                if "BLOCK" in name and isinstance(value, int):
                    monkeypatch.setattr(module, name, 5)
                    changed += 1
    assert changed


@pytest.mark.parametrize("name", FITS)
def test_totals_do_not_depend_on_blocks(name, request):
    (law, *_) = KINDS[name].laws
    before = in_the_first_place(name, law)
    request.getfixturevalue("tiny_blocks")
    rows = KINDS[name].rows(0)
    assert released(name, law, rows, even(rows)) == before


LONG = ("statistics", "least squares", "with weights", "logistic", "poisson", "gamma")


@each("name", LONG)
def test_totals_do_not_depend_on_threads(name):
    rows = people(1, 20_000)
    found = set()
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.add(released(name, "uniform", rows, even(rows)))
    mixed = np.random.default_rng(5).permutation(n_honest(rows))
    found.add(released(name, "uniform", rows, dealt(rows, mixed, [50, 9_000])))
    assert len(found) == 1
