"""The pooled minimiser: the answer that runs are measured against."""

from __future__ import annotations

from collections.abc import Sequence

from veilsum.costs.cost import Cost, coefficient_rows
from veilsum.costs.domains import Domain
from veilsum.costs.minimise import minimise
from veilsum.costs.remainders import stack
from veilsum.methods.one_shot import gradient_of_sum
from veilsum.numbers.arrays import Vector


def central_minimiser(costs: Sequence[Cost], domain: Domain) -> Vector:
    """Return argmin over X of the sum of all costs, which one owner would compute."""
    total = coefficient_rows(costs).sum(axis=0)
    remainder = stack([cost.remainder for cost in costs])
    return minimise(
        gradient_of_sum(costs[0].basis, total, remainder, len(costs)), domain
    )
