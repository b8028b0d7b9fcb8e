"""How an iterative method runs on a graph: weights, steps, rounds, and when it stops.

All of it follows from what everybody knows, so that every party works out the same for
itself: the settings, the graph, the domain, the size of the masks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilsum.costs.bases import Affine
from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.methods.certificate import Bounds
from veilsum.methods.exchange import Method, Weighting
from veilsum.methods.makers import MAKERS
from veilsum.methods.making import Facts, Making
from veilsum.methods.settings import Settings
from veilsum.methods.stopping import Stopping
from veilsum.methods.table import Needs, choose, refusal, traits
from veilsum.numbers.arrays import Sparse

FLOAT_BYTES = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class Schedule:
    """How a method runs on one graph.

    Attributes:
        name: of the method.
        method: with its steps and its rounds of mixing.
        weights: n x n, for each kind that the method names.
        message_vectors: how many vectors as long as x a message has.
        recentring: rounds that draw masked integers together before it starts.
        recentring_weights: W of those rounds.
        iterations: how many at most.
        limit: what sets that number: "iterations" or "bytes".
        stopping: when to stop before; None if it never does.
        bounds: what steps and rounds were taken from.
    """

    name: str
    method: Method[Any]
    weights: Mapping[Weighting, Sparse]
    message_vectors: int
    recentring: int
    recentring_weights: Sparse | None
    iterations: int
    limit: str
    stopping: Stopping | None
    bounds: Bounds | None

    @property
    def rounds(self) -> int:
        """Message rounds of the whole run, if nothing stops it before."""
        return self.recentring + self.iterations * self.method.rounds_per_iteration


def schedule(settings: Settings, facts: Facts, topology: Topology) -> Schedule:
    """Return how the method that the settings name runs on a graph.

    Raises:
        InvalidInputError: it cannot do what the problem asks; the message says why and
            which method can.
    """
    making = Making(settings, facts, topology, _name(settings, facts, topology))
    method, patience = MAKERS[making.name](making)
    _check_precision(making)
    per_iteration = method.rounds_per_iteration
    iterations, limit = _iterations(making, per_iteration)
    stopping = None
    if settings.tolerance is not None and traits(making.name).settles:
        stopping = Stopping.on(
            topology,
            tolerance=settings.tolerance,
            patience=patience,
            rounds_per_iteration=per_iteration,
        )
    return Schedule(
        name=making.name,
        method=method,
        weights=making.weights,
        message_vectors=traits(making.name).vectors,
        recentring=making.recentring,
        recentring_weights=making.symmetric if making.recentring else None,
        iterations=iterations,
        limit=limit,
        stopping=stopping,
        bounds=None if making.name == "dgd" else making.bounds,
    )


def needs(settings: Settings, facts: Facts, topology: Topology) -> Needs:
    """Return what a problem asks of a method."""
    bounds = facts.bounds(settings)
    return Needs(
        constrained=facts.constrained,
        bounded=facts.domain.is_bounded,
        convex_locals=settings.convex_locals and isinstance(facts.basis, Affine),
        strongly_convex=bounds is not None,
        directed=topology.directed,
        lossy=facts.lossy,
        recentred=(
            facts.integers and settings.recentre is not False and not topology.directed
        ),
        masked=facts.sigma > 0,
        condition=None if bounds is None else bounds.condition,
    )


def _name(settings: Settings, facts: Facts, topology: Topology) -> str:
    asked = needs(settings, facts, topology)
    if settings.method == "auto":
        return choose(asked)
    refused = refusal(settings.method, asked)
    if refused is not None:
        advice = f"; use {refused.instead}" if refused.instead else ""
        raise InvalidInputError(f"{refused.reason}{advice}")
    return settings.method


def _check_precision(making: Making) -> None:
    """Refuse a tolerance that rounding keeps out of reach.

    With unit roundoff u it leaves errors of up to 3 u sigma / mu_bar while masks are
    large, and for numbers about 1 of 3 u L / mu_bar in any case.
    """
    settings, bounds, sigma = making.settings, making.bounds, making.facts.sigma
    settles = traits(making.name).settles
    if settings.tolerance is None or bounds is None or not settles:
        return
    roundoff = float(np.finfo(settings.precision).eps) / 2.0
    largest = bounds.smooth if making.recentring else max(sigma, bounds.smooth)
    reached = 3.0 * roundoff * largest / bounds.mean_convex
    if reached > settings.tolerance:
        raise InvalidInputError(
            f"{_cause(making)} in {settings.precision} leave errors of about "
            f"{reached:.2g}, more than the tolerance {settings.tolerance:.2g}: use "
            f"{' or '.join([*_remedies(making), 'a larger tolerance'])}"
        )


def _cause(making: Making) -> str:
    if making.recentring or making.facts.sigma == 0:
        return "costs as uneven as these"
    return f"masks of sigma = {making.facts.sigma:.3g}"


def _remedies(making: Making) -> list[str]:
    """Return what would leave smaller errors."""
    finer = ["float64"] if making.settings.precision == "float32" else []
    if making.recentring or making.facts.sigma == 0:
        return finer
    if making.topology.directed:
        together = "an undirected graph, on which masks are drawn together"
    elif making.facts.integers:
        together = "recentre = true"
    else:
        together = "law lattice, which draws masks together first"
    return [*finer, together, "a smaller sigma"]


def _iterations(making: Making, per_iteration: int) -> tuple[int, str]:
    """Return how many iterations at most, and what says so."""
    settings = making.settings
    if settings.byte_budget is None:
        return settings.iterations, "iterations"
    before, each = _bytes(making, per_iteration)
    affordable = (settings.byte_budget - before) // each
    if affordable < 1:
        raise InvalidInputError(
            f"one iteration of {making.name} takes {each:,} bytes on this graph, what "
            f"comes before takes {before:,}, and byte_budget is "
            f"{settings.byte_budget:,}"
        )
    if affordable < settings.iterations:
        return int(affordable), "bytes"
    return settings.iterations, "iterations"


def _bytes(making: Making, per_iteration: int) -> tuple[int, int]:
    """Return the bytes on all links together: before the method, in an iteration.

    Before it, shares are exchanged and masked numbers drawn together.
    """
    settings, topology, facts = making.settings, making.topology, making.facts
    arcs = topology.n_edges * (1 if topology.directed else 2)
    exchanges = making.recentring + (facts.sigma > 0)
    before = exchanges * facts.basis.size * facts.number_bytes
    # Whoever is to stop in time says in every message how near it is.
    message = traits(making.name).vectors * facts.domain.dim
    message += settings.tolerance is not None
    return arcs * before, arcs * per_iteration * message * FLOAT_BYTES
