"""`solve`: masks, phase II and the guarantee, all agents as rows of one array."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray

from veilsum.core.arrays import (
    AgentPoints,
    AgentRows,
    FloatArray,
    Sparse,
    Vector,
    as_floats,
    as_vector,
    listed,
)
from veilsum.core.connectivity import components
from veilsum.core.costs import Cost, coefficient_rows, common_basis, veil
from veilsum.core.domains import Domain
from veilsum.core.effective import EffectiveCost
from veilsum.core.masking import (
    GaussianMasks,
    LawName,
    NoMasks,
    Shares,
    ShareStreams,
    check_sigma,
    draw_shares,
)
from veilsum.core.methods.dgd import Dgd
from veilsum.core.mixing import mixing_weights
from veilsum.core.topology import Topology
from veilsum.errors import InvalidGraphError, InvalidInputError
from veilsum.privacy.guarantee import Guarantee, guarantee
from veilsum.privacy.view import View, observe
from veilsum.scenario import Settings
from veilsum.sim.central import central_minimiser
from veilsum.sim.engine import FLOAT_BYTES, Progress, iterate, record_times


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What a figure needs: estimates and errors at some iterations.

    Attributes:
        iterations: k, spaced evenly on a logarithmic scale.
        estimates: x_i(k).
        errors: ||x_i(k) - reference||.
    """

    iterations: Int[NDArray[np.int64], " times"]
    estimates: Float[FloatArray, "times n m"]
    errors: Float[FloatArray, "times n"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Run:
    """The result of one simulated run.

    Attributes:
        minimiser: what the parties computed, averaged over them.
        estimates: each party's own final estimate, by row.
        reference: the pooled minimiser, computed centrally by scipy.
        sum_of_masks: the largest coordinate of |sum_i u_i|; rounding error.
        rounds: message rounds, phase I included.
        bytes: what crossed all links together, as bare float64.
    """

    topology: Topology
    minimiser: Vector
    estimates: AgentPoints
    reference: Vector
    trace: Trace
    sum_of_masks: float
    iterations: int
    rounds: int
    bytes: int
    guarantee: Guarantee
    effective: EffectiveCost
    _shares: Shares = field(repr=False)
    _coefficients: AgentRows = field(repr=False)

    @property
    def max_error(self) -> float:
        """The worst party's distance from the reference."""
        return float(np.linalg.norm(self.estimates - self.reference, axis=1).max())

    def view(self, corrupted: Iterable[Hashable]) -> View:
        """Return what a coalition stored, sent and received in this run."""
        return observe(
            self._shares,
            self._coefficients,
            self.trace.estimates,
            corrupted=corrupted,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        return {
            "minimiser": self.minimiser.tolist(),
            "reference": self.reference.tolist(),
            "max_error": self.max_error,
            "sum_of_masks": self.sum_of_masks,
            "iterations": self.iterations,
            "rounds": self.rounds,
            "bytes": self.bytes,
            "guarantee": self.guarantee.to_dict(),
        }

    def __repr__(self) -> str:
        return (
            f"<Run: {self.topology.n_agents} parties, {self.iterations} iterations, "
            f"max_error {self.max_error:.3g}, {self.guarantee.status}>"
        )


def solve(
    costs: Mapping[str, Cost] | Sequence[Cost],
    topology: Topology,
    *,
    domain: Domain,
    sigma: ArrayLike | None = None,
    law: LawName = "gaussian",
    corrupted: Iterable[Hashable] = (),
    settings: Settings | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Simulate one run of Function Sharing with projected DGD.

    Args:
        costs: one private cost per party, by name or in the order of the parties.
        topology: who exchanges shares and estimates with whom.
        domain: X, public and compact.
        sigma: standard deviation of one coordinate of one share.
        law: `gaussian`, or `none` for the plain method without privacy.
        corrupted: the coalition the guarantee speaks about.
        settings: iterations, steps, mixing weights, start.
        seed: repeats the shares; without one they are fresh.
        progress: called with the number of finished iterations now and then.

    >>> from veilsum.core.domains import Box
    >>> costs = [Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0)]
    >>> run = solve(costs, Topology.family("complete:3"), domain=Box(-9, 9, dim=1),
    ...             sigma=1.0, seed=0, settings=Settings(iterations=100))
    >>> run.minimiser.round(6).tolist(), run.guarantee.status
    ([3.0], 'private')
    """
    chosen = settings or Settings()
    members = _in_order(costs, topology)
    _check_problem(members, topology, domain)
    promise = guarantee(topology, sigma=sigma, law=law, corrupted=corrupted)
    method = Dgd(domain, scale=chosen.step, power=chosen.power)
    start = _start(chosen.start, topology, domain)
    weights = _dgd_weights(topology, chosen.mixing)

    shares = _phase_one(members, topology, sigma, seed)
    effective = veil(members, shares.masks())
    times = record_times(chosen.iterations, FLOAT_BYTES * start.size)
    kept = iterate(method, weights, effective, start, times=times, progress=progress)
    reference = central_minimiser(members, domain)
    return Run(
        topology=topology,
        minimiser=kept[-1].mean(axis=0),
        estimates=kept[-1],
        reference=reference,
        trace=Trace(times, kept, np.linalg.norm(kept - reference, axis=2)),
        sum_of_masks=float(np.abs(shares.masks().sum(axis=0)).max()),
        iterations=chosen.iterations,
        rounds=chosen.iterations + 1,
        bytes=_traffic(shares, domain.dim, chosen.iterations),
        guarantee=promise,
        effective=effective,
        _shares=shares,
        _coefficients=coefficient_rows(members),
    )


def _phase_one(
    members: list[Cost],
    topology: Topology,
    sigma: ArrayLike | None,
    seed: int | None,
) -> Shares:
    law = NoMasks() if sigma is None else GaussianMasks(check_sigma(sigma))
    streams = ShareStreams.from_seed(seed)
    return draw_shares(topology, law, streams, size=members[0].basis.size)


def _in_order(
    costs: Mapping[str, Cost] | Sequence[Cost], topology: Topology
) -> list[Cost]:
    if not isinstance(costs, Mapping):
        if len(costs) != topology.n_agents:
            raise InvalidInputError(
                f"expected one cost for each of {topology.n_agents} parties, "
                f"found {len(costs)}"
            )
        return list(costs)
    given = {str(name): cost for name, cost in costs.items()}
    missing = [name for name in topology.parties if name not in given]
    unknown = [name for name in given if name not in topology.parties]
    if missing or unknown:
        raise InvalidInputError(
            "costs and parties differ: "
            f"no cost for {listed(missing) or 'nobody'}, "
            f"no such party for {listed(unknown) or 'no cost'}"
        )
    return [given[name] for name in topology.parties]


def _check_problem(members: list[Cost], topology: Topology, domain: Domain) -> None:
    common_basis(dict(zip(topology.parties, members, strict=True)))
    if members[0].dim != domain.dim:
        raise InvalidInputError(
            f"the costs are functions of {members[0].dim} variables, "
            f"but the domain has dimension {domain.dim}"
        )
    parts = components(topology)
    if len(parts) > 1:
        pieces = "; ".join(listed(topology.names(part)) for part in parts[:4])
        raise InvalidGraphError(
            f"the graph is in {len(parts)} pieces ({pieces}): estimates cannot spread "
            "and the sum cannot be minimised; add links between the pieces"
        )


def _dgd_weights(topology: Topology, name: str) -> Sparse:
    """Return weights that DGD's convergence is proved for: a positive diagonal."""
    weights = mixing_weights(topology, name)
    lowest = int(np.argmin(weights.diagonal()))
    if not weights.diagonal()[lowest] > 0:
        raise InvalidInputError(
            f"dgd needs mixing weights with a positive diagonal, and {name!r} gives "
            f"party {topology.parties[lowest]!r} {weights.diagonal()[lowest]:.3g}; "
            "use metropolis"
        )
    return weights


def _start(start: ArrayLike, topology: Topology, domain: Domain) -> AgentPoints:
    shape = (topology.n_agents, domain.dim)
    array = as_floats(start, what="the start")
    if array.shape == shape:
        return np.array(array)
    point = as_vector(array, dim=domain.dim, what="the start")
    return np.array(np.broadcast_to(point, shape))


def _traffic(shares: Shares, dim: int, iterations: int) -> int:
    estimates = 2 * shares.topology.n_edges * dim * iterations
    return FLOAT_BYTES * (shares.values.size + estimates)
