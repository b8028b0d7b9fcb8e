"""What went wrong with a simulated run: a broken bound, or masks that drown it.

For a bound only masked costs are looked at: how much their gradients turn between two
iterates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilsum.costs.cost import Cost
from veilsum.costs.domains import Domain
from veilsum.costs.effective import EffectiveCost
from veilsum.methods.certificate import Bounds
from veilsum.numbers.arrays import PartyPoints, Vector

# A bound counts as broken when it is exceeded by more than rounding could do.
LEEWAY = 1e-6
# Parties whose estimates are this part of the domain's width apart agree on nothing.
APART = 0.1


def drowned(
    estimates: PartyPoints,
    effective: EffectiveCost,
    costs: Sequence[Cost],
    domain: Domain,
) -> str | None:
    """Return in words that masks kept parties apart to the end; None if they did not.

    Args:
        estimates: the last ones.
        effective: all parties' masked costs, as the method found them.
        costs: their private ones; a simulation has them.
        domain: X; one that is not bounded is never filled.
    """
    if not domain.is_bounded:
        return None
    centre = estimates.mean(axis=0)
    apart = np.linalg.norm(estimates - centre, axis=1)
    furthest = estimates[int(np.argmax(apart))] - centre
    # How wide the domain is that way: from where it ends to where it ends behind.
    ends = [domain.project(centre + sign * furthest / APART**2) for sign in (1.0, -1.0)]
    width = float(np.linalg.norm(ends[0] - ends[1]))
    if not apart.max() > APART * width:
        return None
    own = np.array([one.gradient(x) for one, x in zip(costs, estimates, strict=True)])
    masks = effective.gradient(estimates) - own
    pulls = [float(np.linalg.norm(each, axis=1).max()) for each in (masks, own)]
    if not pulls[0] > pulls[1]:
        return None
    return (
        f"masks drown the answer: estimates end up to {apart.max():.2g} from their "
        f"average, in a domain {width:.2g} wide, and masks pull at them with "
        f"{pulls[0]:.2g} where costs do with {pulls[1]:.2g}. Draw masks together first "
        "(law lattice does, unless recentre = false), or take a smaller sigma, more "
        "iterations or another method"
    )


def broken_bound(
    cost: EffectiveCost,
    bounds: Bounds,
    x: PartyPoints,
    before: PartyPoints,
    names: tuple[str, ...],
) -> str | None:
    """Return in words what the costs did that the bounds exclude, if anything.

    Args:
        cost: all parties' masked costs.
        bounds: what the steps were taken from.
        x: estimates.
        before: other estimates, a step earlier.
        names: of the parties.
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
    """Look at the average cost, at two points that are the same for all parties."""
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
