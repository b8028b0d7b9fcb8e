"""Totals are functions of the pooled rows: who has which, and in what order, is lost.

Every kind of job, under every law that it knows: rows dealt to the honest parties in
another way, the same rows in another order, other blocks, other numbers of threads, all
leave the released totals as they are, bit for bit.
"""

import re
import sys
from functools import partial

import numpy as np
import pytest
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


# What a simulation says of each party, or of all their data; real ones cannot.
SIMULATED = (
    *("outputs", "costs", "rounded", "reference", "max_error", "quantisation"),
    "influence",
)


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


def dealing(rows, chance):
    """Any dealing of the honest parties' rows that leaves everybody enough of them."""
    # Rows with missing values may all be one party's, and do not count.
    n = n_honest(rows)
    few = min(FEWEST + N_MISSING, n // 4)
    first = int(chance.integers(few, n - 2 * few))
    second = int(chance.integers(first + few, n - few))
    found = dealt(rows, chance.permutation(n), [first, second])
    return {**found, "a": found["a"][::-1]}


IN_BLOCKS = re.compile(r"veilsum\..*(units|models|fits|questions|sums|costs|tables)\b")


def make_blocks_tiny(patch):
    """Set every constant that limits rows or numbers of one step to 5."""
    changed = 0
    for place, module in list(sys.modules.items()):
        if IN_BLOCKS.match(place):
            for name, value in list(vars(module).items()):
                if "BLOCK" in name and isinstance(value, int):
                    patch.setattr(module, name, 5)
                    changed += 1
    assert changed


@pytest.mark.parametrize(("name", "law"), CASES)
def test_totals_do_not_depend_on_who_has_which_row(name, law, monkeypatch):
    """Nor on the order in which a party has them, nor on the size of blocks.

    Any dealing shows a difference as well as the simplest one does. Blocks are tiny in
    the second dealing; by further laws there is only that one.
    """
    kind, chance = KINDS[name], np.random.default_rng([*f"{name} {law}".encode()])
    rows = kind.rows(0)
    before = released(name, law, rows, even(rows))
    if law == kind.laws[0]:
        assert released(name, law, rows, dealing(rows, chance)) == before
    if kind.rows is people:
        make_blocks_tiny(monkeypatch)
    assert released(name, law, rows, dealing(rows, chance)) == before


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
