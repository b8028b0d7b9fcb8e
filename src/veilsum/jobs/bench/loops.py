"""Methods as a reader of the papers would write them: short loops over numpy arrays.

They are the floor that engines are measured against, and what other packages' answers
are checked with. Each has the form that some package implements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from veilsum.numbers.arrays import AgentPoints, Vector

Slope = Callable[[AgentPoints], AgentPoints]  # every agent's gradient at its own row
# Weights are n x n, dense or sparse; there is one iteration for each step size.
Loop: TypeAlias = Callable[[Any, Slope, AgentPoints, Vector], AgentPoints]

# Nobody's estimate comes near: dgd needs a compact domain, and most packages have none.
REACH = 1e3


def at_mixed(weights: Any, slope: Slope, x: AgentPoints, steps: Vector) -> AgentPoints:
    """Return x after DGD with the gradient at the mixed point."""
    for step in steps:
        mixed = weights @ x
        x = np.clip(mixed - step * slope(mixed), -REACH, REACH)
    return x


def at_own(weights: Any, slope: Slope, x: AgentPoints, steps: Vector) -> AgentPoints:
    """Return x after DGD with the gradient at an agent's own point."""
    for step in steps:
        x = np.clip(weights @ x - step * slope(x), -REACH, REACH)
    return x


def tracked(weights: Any, slope: Slope, x: AgentPoints, steps: Vector) -> AgentPoints:
    """Return x after gradient tracking that mixes what was adapted."""
    y = old = slope(x)
    for step in steps:
        x = weights @ (x - step * y)
        new = slope(x)
        y, old = weights @ (y + new - old), new
    return x


def tracked_apart(
    weights: Any, slope: Slope, x: AgentPoints, steps: Vector
) -> AgentPoints:
    """Return x after gradient tracking that adapts what was mixed."""
    y = old = slope(x)
    for step in steps:
        x = weights @ x - step * y
        new = slope(x)
        y, old = weights @ y + new - old, new
    return x


LOOPS: dict[str, Loop] = {
    "mixed": at_mixed,
    "own": at_own,
    "atc": tracked,
    "diging": tracked_apart,
}
