"""Prints what jobs ask for and what they release, for a test that runs this elsewhere.

Elsewhere is another process, whose processor is told to have other instructions.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks.catalogue import KINDS, PARTIES, even, people
from attacks.watching import totals, watched
from veilsum.protocol.work import request_digest

JOBS = (
    *("statistics", "with weights", "functions of columns", "logistic", "poisson"),
    *("multinomial", "ordinal"),
    *("gamma with weights", "gamma-inverse", "negative binomial", "dispatch"),
    *("quadratic program",),
)
N_ROWS = 3_000


def told(name):
    """Digests of all requests and totals of a job, and its answer to the last bit."""
    kind = KINDS[name]
    rows = kind.rows(5, N_ROWS) if kind.rows is people else kind.rows(5)
    job = partial(kind.run, kind.deal(even(rows), rows))
    result, rounds = watched(job, PARTIES, law="uniform")
    sums = result.released.sums
    asked = [result.recipe.request(sums[:k]) for k in range(len(sums) + 1)]
    return {
        "requests": [request_digest(one).hex() for one in asked],
        "totals": sha256(repr(totals(rounds)).encode()).hexdigest(),
        "answer": [float(one).hex() for one in result.answer],
    }


if __name__ == "__main__":
    print(json.dumps({name: told(name) for name in JOBS}))
