"""The pooled minimiser: the answer that runs are measured against."""

from __future__ import annotations

from collections.abc import Sequence

from veilsum.core.arrays import Vector
from veilsum.core.costs import Cost, coefficient_rows
from veilsum.core.domains import Domain
from veilsum.core.methods.one_shot import gradient_of_sum
from veilsum.core.minimise import minimise
from veilsum.core.remainders import stack


def central_minimiser(costs: Sequence[Cost], domain: Domain) -> Vector:
    """Return argmin over X of the sum of all costs, which one owner would compute."""
    total = coefficient_rows(costs).sum(axis=0)
    remainder = stack([cost.remainder for cost in costs])
    return minimise(
        gradient_of_sum(costs[0].basis, total, remainder, len(costs)), domain
    )
