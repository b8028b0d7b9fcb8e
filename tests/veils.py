"""Effective costs for tests of methods: coefficients plus masks, nothing drawn."""

import numpy as np

from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.cost import cost_coefficient_rows
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import LocalGradient, stack_remainders
from veilsum.numbers.arrays import frozen_array


def veil(costs, masks):
    """All effective costs, theta~_i = theta_i + u_i  (Eq. eff_cost)."""
    remainder = stack_remainders([cost.remainder for cost in costs])
    return EffectiveCost(
        costs[0].basis, frozen_array(cost_coefficient_rows(costs) + masks), remainder
    )


def sloping(gradient, dim):
    """An effective cost that has this gradient, at every row of x."""
    return _Sloping(Affine(dim), frozen_array(np.zeros(dim)), LocalGradient(gradient))


class _Sloping(EffectiveCost):
    """Its coefficients are zero, for however many rows x has."""

    def gradient(self, x):
        return self.remainder.gradient(x)
