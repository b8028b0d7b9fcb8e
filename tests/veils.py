"""Effective costs for tests of methods: coefficients plus masks, nothing drawn."""

import numpy as np

from veilsum.core.arrays import frozen
from veilsum.core.bases import Affine
from veilsum.core.costs import coefficient_rows
from veilsum.core.effective import EffectiveCost
from veilsum.core.remainders import LocalGradient, stack


def veil(costs, masks):
    """All effective costs, theta~_i = theta_i + u_i  (Eq. eff_cost)."""
    remainder = stack([cost.remainder for cost in costs])
    return EffectiveCost(
        costs[0].basis, frozen(coefficient_rows(costs) + masks), remainder
    )


def sloping(gradient, dim):
    """An effective cost that has this gradient, at every row of x."""
    return _Sloping(Affine(dim), frozen(np.zeros(dim)), LocalGradient(gradient))


class _Sloping(EffectiveCost):
    """Its coefficients are zero, for however many rows x has."""

    def gradient(self, x):
        return self.remainder.gradient(x)
