"""Each method made for a graph: its step and rounds, from public bounds alone.

Beside the method stands its patience: how many times its last move an estimate may
still be from the answer, 1 / (1 - q) for a method that shrinks errors by q.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.methods.accelerated import AcceleratedTracking
from veilsum.methods.certificate import (
    certified_accelerated_rounds,
    certified_rounds,
    contraction,
)
from veilsum.methods.chebyshev import Chebyshev
from veilsum.methods.dgd import Dgd
from veilsum.methods.dgd_own_point import DgdOwnPoint
from veilsum.methods.exchange import Method
from veilsum.methods.extra import Extra, extra_step, least_eigenvalue
from veilsum.methods.gradient_tracking import GradientTracking
from veilsum.methods.making import Making
from veilsum.methods.nids import Nids, nids_step
from veilsum.methods.one_way import OneWayMixing, certified_push_pull
from veilsum.methods.push_pull import PushPull
from veilsum.methods.running_sums import RunningSums, running_sums_step

Made = tuple[Method[Any], float]


def _dgd(making: Making) -> Made:
    settings, domain = making.settings, making.facts.domain
    _check_diagonal(making)
    form = Dgd if settings.gradient_at == "mixed" else DgdOwnPoint
    step = 1.0 if settings.step is None else settings.step
    return form(domain, scale=step, power=settings.power), inf


def _check_diagonal(making: Making) -> None:
    """Refuse weights that dgd's convergence is not proved for."""
    own = making.symmetric.diagonal()
    lowest = int(np.argmin(own))
    if not own[lowest] > 0:
        raise InvalidInputError(
            "dgd needs mixing weights with a positive diagonal, and "
            f"{making.settings.mixing!r} gives party "
            f"{making.topology.parties[lowest]!r} {own[lowest]:.3g}; use metropolis"
        )


def _extra(making: Making) -> Made:
    least = least_eigenvalue(making.symmetric)
    step = making.settings.step or extra_step(making.need_smooth(), least)
    method = Extra(making.facts.domain, step)
    return _mixed(making, method, making.settings.rounds or 1), _slow(making, step)


def _nids(making: Making) -> Made:
    step = making.settings.step or nids_step(making.need_smooth())
    method = Nids(making.facts.domain, step)
    return _mixed(making, method, making.settings.rounds or 1), _slow(making, step)


def _slow(making: Making, step: float) -> float:
    """Return the patience of a method that gradients or mixing may hold back."""
    left = contraction(making.rate, making.settings.rounds or 1)
    mixing = 2.0 / (1.0 - left)
    bounds = making.bounds
    return mixing if bounds is None else max(mixing, 1.0 / (step * bounds.mean_convex))


def _tracking(making: Making) -> Made:
    bounds = making.need_bounds()
    step = making.settings.step or 1.0 / bounds.mean_smooth
    rounds = making.settings.rounds or certified_rounds(
        making.rate, bounds, constrained=making.facts.constrained
    )
    method = GradientTracking(making.facts.domain, step)
    return _mixed(making, method, rounds), 2.0 / (step * bounds.mean_convex)


def _accelerated(making: Making) -> Made:
    bounds = making.need_bounds()
    if making.settings.step is not None:
        raise InvalidInputError(
            "accelerated takes steps of 1 / mean_smooth: leave step out, or use "
            "gradient-tracking"
        )
    rounds = making.settings.rounds or certified_accelerated_rounds(making.rate, bounds)
    method = AcceleratedTracking(
        making.facts.domain, bounds.mean_smooth, bounds.mean_convex
    )
    return _mixed(making, method, rounds), 4.0 * sqrt(bounds.condition)


def _push_pull(making: Making) -> Made:
    bounds = making.need_bounds()
    mixing = OneWayMixing.of(making.topology)
    step, rounds = certified_push_pull(mixing, bounds)
    step = making.settings.step or step
    method = PushPull(making.facts.domain, step)
    patience = 2.0 / (step * mixing.gain * bounds.mean_convex)
    # Not symmetric: plain rounds, which is what mixing at rate 0 is.
    return Chebyshev(method, 0.0, making.settings.rounds or rounds), patience


def _running_sums(making: Making) -> Made:
    bounds = making.need_bounds()
    mixing = OneWayMixing.of(making.topology)
    rate = min(max(mixing.rates(1)), 1.0 - 1e-9)
    usual = running_sums_step(rate, bounds.smooth, directed=making.topology.directed)
    usual /= mixing.gain
    step = making.settings.step or usual
    # Where mixing is what is slow, moves shrink several times slower than it mixes.
    patience = max(2.0 / (step * bounds.mean_convex), 10.0 / (1.0 - rate))
    return RunningSums(making.facts.domain, step), patience


def _mixed(making: Making, method: Method[Any], rounds: int) -> Method[Any]:
    return method if rounds == 1 else Chebyshev(method, making.rate, rounds)


MAKERS: dict[str, Callable[[Making], Made]] = {
    "dgd": _dgd,
    "extra": _extra,
    "nids": _nids,
    "gradient-tracking": _tracking,
    "accelerated": _accelerated,
    "push-pull": _push_pull,
    "running-sums": _running_sums,
}
