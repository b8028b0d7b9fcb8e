"""Which public bound was broken, when iterates have run away.

Only masked costs are looked at: how much their gradients turn between two iterates.
"""

from __future__ import annotations

import numpy as np

from veilsum.costs.effective import EffectiveCost
from veilsum.methods.certificate import Bounds
from veilsum.numbers.arrays import AgentPoints, Vector

# A bound counts as broken when it is exceeded by more than rounding could do.
LEEWAY = 1e-6


def broken_bound(
    cost: EffectiveCost,
    bounds: Bounds,
    x: AgentPoints,
    before: AgentPoints,
    names: tuple[str, ...],
) -> str | None:
    """Return in words what the costs did that the bounds exclude, if anything.

    Args:
        cost: all agents' masked costs.
        bounds: what the steps were taken from.
        x: estimates.
        before: other estimates, a step earlier.
        names: of the agents.
    """
    moved = np.linalg.norm(x - before, axis=1)
    turned = cost.gradient_change(x, before)
    bends = np.linalg.norm(turned, axis=1) / np.where(moved > 0, moved, np.inf)
    worst = int(np.argmax(bends))
    if bends[worst] > bounds.smooth * (1.0 + LEEWAY):
        return (
            f"the gradient of {names[worst]!r} turns by {bends[worst]:.4g} times the "
            f"move, more than smooth = {bounds.smooth:.4g} allows: give a larger smooth"
        )
    return _broken_mean(cost, bounds, x.mean(axis=0), before.mean(axis=0))


def _broken_mean(
    cost: EffectiveCost, bounds: Bounds, here: Vector, there: Vector
) -> str | None:
    """Look at the average cost, at two points that are the same for all agents."""
    everywhere = (cost.coefficients.shape[0], here.size)
    both = (np.broadcast_to(point, everywhere) for point in (here, there))
    turned, move = cost.gradient_change(*both).mean(axis=0), here - there
    length = float(np.linalg.norm(move))
    if not 0 < length < np.inf:
        return None
    bend = float(np.linalg.norm(turned)) / length
    slope = float(turned @ (move / length)) / length
    if bend > bounds.mean_smooth * (1.0 + LEEWAY):
        return (
            f"the average gradient turns by {bend:.4g} times the move, more than "
            f"mean_smooth = {bounds.mean_smooth:.4g} allows: give a larger one"
        )
    if slope < bounds.mean_convex * (1.0 - LEEWAY):
        return (
            f"the average cost curves by {slope:.4g} along the move, less than "
            f"mean_convex = {bounds.mean_convex:.4g}: give a smaller one"
        )
    return None
