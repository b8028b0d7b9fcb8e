"""What compiled runs read off a task: plain numbers in its precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from veilsum.costs.domains import Box, Domain
from veilsum.engines.engine import Precision
from veilsum.engines.panels import Numbers
from veilsum.methods.dgd import Dgd


def number(value: float, precision: Precision) -> Any:
    """Return one number."""
    return np.dtype(precision).type(value)


def sides(domain: Domain, precision: Precision) -> tuple[Numbers, Numbers]:
    """Return the least and the greatest coordinates of points of a box, or of all."""
    if isinstance(domain, Box):
        return domain.lower.astype(precision), domain.upper.astype(precision)
    infinite = np.full(domain.dim, np.inf, precision)
    return -infinite, infinite


def step_sizes(method: Dgd, done: int, count: int, precision: Precision) -> Numbers:
    """Return DGD's next step sizes, so many being over."""
    k = np.arange(done + 1, done + count + 1)
    return (method.scale / k**method.power).astype(precision)


def round_factors(factors: tuple[float, ...], precision: Precision) -> Numbers:
    """Return the factors of Chebyshev's rounds."""
    return np.array(factors, dtype=precision)
