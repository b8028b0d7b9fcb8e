"""Effective costs for tests of methods: coefficients plus masks, nothing drawn."""

from veilsum.core.arrays import frozen
from veilsum.core.costs import coefficient_rows
from veilsum.core.effective import EffectiveCost
from veilsum.core.remainders import stack


def veil(costs, masks):
    """All effective costs, theta~_i = theta_i + u_i  (Eq. eff_cost)."""
    remainder = stack([cost.remainder for cost in costs])
    return EffectiveCost(
        costs[0].basis, frozen(coefficient_rows(costs) + masks), remainder
    )
