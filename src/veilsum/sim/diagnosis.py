"""Which public bound was broken, when iterates have run away.

Only masked costs are looked at: how much their gradients turn between two iterates.
"""

from __future__ import annotations

import numpy as np

from veilsum.core.arrays import AgentPoints
from veilsum.core.effective import EffectiveCost
from veilsum.core.methods.certificate import Bounds

# A bound counts as broken when it is exceeded by more than rounding could do.
LEEWAY = 1e-6


def broken_bound(
    cost: EffectiveCost,
    bounds: Bounds | None,
    x: AgentPoints,
    before: AgentPoints,
    names: tuple[str, ...],
) -> str:
    """Return in words what the costs did that the bounds exclude, or that nothing is.

    Args:
        cost: all agents' masked costs.
        bounds: what the steps were taken from.
        x: estimates.
        before: estimates an iteration earlier.
        names: of the agents.
    """
    if bounds is None:
        return "steps are too long: give a smaller step"
    moved = np.linalg.norm(x - before, axis=1)
    turned = cost.gradient_change(x, before)
    bends = np.linalg.norm(turned, axis=1) / np.where(moved > 0, moved, np.inf)
    worst = int(np.argmax(bends))
    if bends[worst] > bounds.smooth * (1.0 + LEEWAY):
        return (
            f"the gradient of {names[worst]!r} turns by {bends[worst]:.4g} times the "
            f"move, more than smooth = {bounds.smooth:.4g} allows: give a larger smooth"
        )
    return _broken_mean(bounds, (x - before).mean(axis=0), turned.mean(axis=0))


def _broken_mean(bounds: Bounds, move: np.ndarray, turned: np.ndarray) -> str:
    """Look at the average, as far as agents have moved together."""
    length = float(np.linalg.norm(move))
    if length > 0:
        bend = float(np.linalg.norm(turned)) / length
        slope = float(turned @ move) / length**2
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
    return (
        "no bound was seen broken: step or rounds are other than what is proved to "
        "converge; leave them out"
    )
