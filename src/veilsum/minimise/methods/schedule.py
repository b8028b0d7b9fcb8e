"""Schedule of an iterative method on a graph: weights, steps, rounds, stopping rule.

It follows from public facts: the settings, the graph, the domain, the size of the
masks. So every party computes the same schedule by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.graphs.mixing import DENSE_PARTIES
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Affine, Basis, Quadratic
from veilsum.minimise.costs.domains import Domain, WholeSpace
from veilsum.minimise.methods.base import (
    Fault,
    Method,
    MethodClass,
    MethodInputs,
    Weighting,
)
from veilsum.minimise.methods.certificate import Bounds
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.one_way import one_way_column_weights, one_way_row_weights
from veilsum.minimise.methods.recentring import recentring_rounds
from veilsum.minimise.methods.registry import (
    MethodNeeds,
    check_method_fits,
    choose_method,
    method_named,
)
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.methods.stopping import UNSURE, StoppingRule
from veilsum.numbers.arrays import Sparse

FLOAT_BYTES = 8
# Masks of affine coefficients are drawn down to about this size.
RESIDUAL_MASK = 1.0
# Masks of curvatures are drawn down to this part of the average's least curvature.
RESIDUAL_CURVATURE = 0.05


@dataclass(frozen=True, eq=False, kw_only=True)
class ScheduleFacts:
    """Public facts of a problem, except the graph.

    Attributes:
        domain: X.
        basis: phi.
        curvature: curvature of the shared remainder, if it is constant: then every
            gradient changes at exactly this rate.
        sigma: largest standard deviation of a share, over links and coefficients; for
            a quadratic, in the numbers whose norm is taken.
        integers: whether masks are integers, which recentring needs.
        number_bytes: size of one masked number on a link.
        faults: faults between parties, in a simulation.
    """

    domain: Domain
    basis: Basis
    curvature: float | None = None
    sigma: float = 0.0
    integers: bool = False
    number_bytes: int = 8
    faults: frozenset[Fault] = frozenset()

    def bounds(self, settings: Settings) -> Bounds | None:
        """Return the bounds that were agreed on, or those that the closed form has."""
        if settings.bounds is not None or not isinstance(self.basis, Affine):
            return settings.bounds
        if self.curvature is None or settings.smooth is not None:
            return None
        return Bounds(
            smooth=self.curvature,
            mean_smooth=self.curvature,
            mean_convex=self.curvature,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class MethodSchedule:
    """Schedule of a method on one graph.

    Attributes:
        method: method with its steps and its rounds of mixing.
        weights: n x n matrix, for each kind that the method names.
        recentring: rounds that draw masked integers together before it starts.
        limit: setting that determines the iterations: "iterations" or "bytes".
        stopping: rule for stopping earlier; None if it never does.
    """

    method: Method[Any]
    weights: Mapping[Weighting, Sparse]
    recentring: int
    recentring_weights: Sparse | None
    iterations: int
    limit: str
    stopping: StoppingRule | None
    bounds: Bounds | None

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def message_vectors(self) -> int:
        """Number of vectors as long as x in a message."""
        return self.method.traits.vectors

    @property
    def rounds(self) -> int:
        """Message rounds of the whole run, if nothing stops it before."""
        return self.recentring + self.iterations * self.method.rounds_per_iteration


def needs_of_method(
    settings: Settings, facts: ScheduleFacts, topology: Topology
) -> MethodNeeds:
    bounds = facts.bounds(settings)
    return MethodNeeds(
        constrained=not isinstance(facts.domain, WholeSpace),
        bounded=facts.domain.is_bounded,
        convex_locals=settings.convex_locals and isinstance(facts.basis, Affine),
        strongly_convex=bounds is not None,
        directed=topology.directed,
        faults=facts.faults,
        recentred=(
            facts.integers and settings.recentre is not False and not topology.directed
        ),
        masked=facts.sigma > 0,
        condition=None if bounds is None else bounds.condition,
    )


def schedule_of_method(
    settings: Settings, facts: ScheduleFacts, topology: Topology
) -> MethodSchedule:
    """Return how the method that the settings name runs on a graph.

    Raises:
        InvalidInputError: it cannot do what the problem asks; the message says why and
            which method can.
    """
    asked = needs_of_method(settings, facts, topology)
    if settings.method == "auto":
        kind = choose_method(asked)
    else:
        kind = method_named(settings.method)
        check_method_fits(kind, asked)
    if settings.recentre and topology.directed:
        raise InvalidInputError(
            "masks are drawn together over links that go both ways, and this graph has "
            "one-way links: leave recentre out, or use an undirected graph",
            code="directed-graph",
        )
    bounds = _bounds_for_method_schedule(
        kind, settings, facts, topology, recentred=asked.recentred
    )
    mixing = kind.traits.mixing
    if mixing == "best-constant" and topology.n_parties > DENSE_PARTIES:
        mixing = "metropolis"  # which needs no eigenvalues
    given = MethodInputs(
        domain=facts.domain,
        topology=topology,
        mixing=settings.mixing or mixing,
        bounds=bounds,
        smooth=settings.smooth,
        step=settings.step,
        rounds=settings.rounds,
        power=settings.power,
        gradient_at=settings.gradient_at,
    )
    made, symmetric = kind.made(given), kind.traits.symmetric
    method = made.method
    if made.rounds > 1:
        # Weights that are not symmetric mix in plain rounds, as at rate 0.
        method = Chebyshev(method, given.rate if symmetric else 0.0, made.rounds)
    recentring = 0
    if asked.recentred:
        recentring = recentring_rounds(
            topology,
            given.symmetric,
            sigma=facts.sigma,
            size=facts.basis.size,
            residual=_mask_residual_of_method(settings, facts),
        )
    stopping = None
    can_stop = kind.traits.settles and not facts.faults & UNSURE
    if settings.tolerance is not None and can_stop:
        _check_method_precision(settings, facts, topology, bounds, recentring)
        stopping = StoppingRule.on(
            topology,
            tolerance=settings.tolerance,
            patience=made.patience,
            rounds_per_iteration=method.rounds_per_iteration,
        )
    plan = MethodSchedule(
        method=method,
        weights=(
            {"symmetric": given.symmetric}
            if symmetric
            else {
                "row": one_way_row_weights(topology),
                "column": one_way_column_weights(topology),
            }
        ),
        recentring=recentring,
        recentring_weights=given.symmetric if recentring else None,
        iterations=settings.iterations,
        limit="iterations",
        stopping=stopping,
        bounds=bounds,
    )
    return _schedule_within_byte_budget(plan, settings, facts, topology)


def _bounds_for_method_schedule(
    kind: MethodClass,
    settings: Settings,
    facts: ScheduleFacts,
    topology: Topology,
    *,
    recentred: bool,
) -> Bounds | None:
    """Return bounds on the masked costs as the method finds them, if it asks for any.

    Masks on curvatures bend single costs; their average stays as it is.
    """
    if kind.traits.bounds == "none":
        return None
    found = facts.bounds(settings)
    if found is None or isinstance(facts.basis, Affine):
        return found
    if not isinstance(facts.basis, Quadratic):
        raise InvalidInputError(
            f"{kind.name} needs a bound on how far masks bend the costs, which is "
            "known for affine and quadratic masks only: use dgd or one-shot",
            code="curvature-of-masks-unknown",
        )
    bent = _mask_residual_of_method(settings, facts)
    if not recentred:
        n, p = topology.n_parties, facts.basis.size
        variance = 2.0 * facts.sigma**2 * float(topology.degrees.max())
        # ||U||_2 <= ||svec U||, twice the masked half; p normals exceed sqrt(p) by t
        # with probability exp(-t^2 / 2): this is broken once in 1e9 runs.
        tail = np.sqrt(2.0 * np.log(n * 1e9))
        bent = float(2.0 * np.sqrt(variance) * (np.sqrt(p) + tail))
    return replace(found, smooth=found.smooth + bent)


def _mask_residual_of_method(settings: Settings, facts: ScheduleFacts) -> float:
    """Return about how large masks are once they are drawn together."""
    if isinstance(facts.basis, Affine) or settings.bounds is None:
        return RESIDUAL_MASK
    return RESIDUAL_CURVATURE * settings.bounds.mean_convex


def _check_method_precision(
    settings: Settings,
    facts: ScheduleFacts,
    topology: Topology,
    bounds: Bounds | None,
    recentring: int,
) -> None:
    """Refuse a tolerance that rounding keeps out of reach.

    With unit roundoff u it leaves errors of up to 3 u sigma / mu_bar while masks are
    large, and for numbers about 1 of 3 u L / mu_bar in any case.
    """
    if settings.tolerance is None or bounds is None:
        return
    small = recentring > 0 or facts.sigma == 0
    roundoff = float(np.finfo(settings.precision).eps) / 2.0
    largest = bounds.smooth if small else max(facts.sigma, bounds.smooth)
    reached = 3.0 * roundoff * largest / bounds.mean_convex
    if reached <= settings.tolerance:
        return
    remedies = ["float64"] if settings.precision == "float32" else []
    cause = "costs as uneven as these"
    if not small:
        cause = f"masks of sigma = {facts.sigma:.3g}"
        if topology.directed:
            remedies += ["an undirected graph, on which masks are drawn together"]
        elif facts.integers:
            remedies += ["recentre = true"]
        else:
            remedies += ["law lattice, which draws masks together first"]
        remedies += ["a smaller sigma"]
    raise InvalidInputError(
        f"{cause} in {settings.precision} leave errors of about {reached:.2g}, more "
        f"than the tolerance {settings.tolerance:.2g}: use "
        f"{' or '.join([*remedies, 'a larger tolerance'])}",
        code="tolerance-too-small",
    )


def _schedule_within_byte_budget(
    plan: MethodSchedule, settings: Settings, facts: ScheduleFacts, topology: Topology
) -> MethodSchedule:
    """Return the schedule with as many iterations as the byte budget affords.

    Before the method, shares are exchanged and masked numbers drawn together.
    """
    if settings.byte_budget is None:
        return plan
    arcs = topology.n_edges * (1 if topology.directed else 2)
    exchanges = plan.recentring + (facts.sigma > 0)
    before = arcs * exchanges * facts.basis.size * facts.number_bytes
    # Whoever is to stop in time says in every message how near it is.
    message = plan.message_vectors * facts.domain.dim + (plan.stopping is not None)
    each = arcs * plan.method.rounds_per_iteration * message * FLOAT_BYTES
    affordable = (settings.byte_budget - before) // each
    if affordable < 1:
        raise InvalidInputError(
            f"one iteration of {plan.name} takes {each:,} bytes on this graph, what "
            f"comes before takes {before:,}, and byte_budget is "
            f"{settings.byte_budget:,}",
            code="byte-budget-exceeded",
        )
    if affordable >= plan.iterations:
        return plan
    return replace(plan, iterations=int(affordable), limit="bytes")
