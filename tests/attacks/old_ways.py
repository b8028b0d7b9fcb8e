"""Totals as they once were: each party adds up in float64, and rounds to a fine grid.

The attacks must succeed on these, or they have rotted.
"""

from __future__ import annotations

import numpy as np

from veilsum.protocol.messages import Share

GRID = 96


def on_grid(numbers):
    """Float64 numbers as whole numbers of 2^-96: exact for all but the tiniest."""
    found = []
    for one in np.asarray(numbers, dtype=np.float64).tolist():
        above, below = one.as_integer_ratio()
        found.append(
            round(above * 2**GRID / below)
            if below >> GRID
            else (above * (2**GRID // below))
        )
    return found


def least_squares(table, response, columns):
    """A party's vector: svec(X'X), which has off-diagonal numbers times sqrt 2, X'y."""
    design = np.column_stack([np.ones(len(table)), table[list(columns)]])
    y = table[response].to_numpy(dtype=np.float64)
    above = np.triu_indices(design.shape[1])
    factor = np.where(above[0] == above[1], 1.0, np.sqrt(2.0))
    # Row after row: how BLAS orders a sum, and so its low bits, depends on the machine.
    products = design[:, above[0]] * design[:, above[1]]
    terms = np.column_stack([products, design * y[:, None], y * y, y])
    sums = np.cumsum(terms, axis=0)[-1]
    sums[: len(factor)] *= factor
    return on_grid(sums)


def only_inside(given, outside):
    """Vectors of a round in which who has a row outside sends zeros, and says so."""
    return {
        name: [0] * len(vector) + [1] if name in outside else [*vector, 0]
        for name, vector in given.items()
    }


def shares_of_the_lost(world, lost):
    """Shares that neighbours tell of a lost party, so that a sum can be finished."""
    found = {}
    for event in world.history:
        if event.what == "send" and lost in (event.party, event.peer):
            message = world.plan.codec.decode(event.detail)
            if isinstance(message, Share):
                found[message.epoch, event.party, event.peer] = message.numbers
    return found
