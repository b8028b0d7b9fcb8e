"""What is to be solved, checked before anything is drawn or sent."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from veilsum.core.arrays import listed
from veilsum.core.bases import Basis
from veilsum.core.connectivity import components
from veilsum.core.costs import Cost, common_basis
from veilsum.core.domains import Domain
from veilsum.core.fixed_point import Grid
from veilsum.core.laws import Law, LawName, make_law
from veilsum.core.masking import ShareStreams, Streams, SystemStreams
from veilsum.core.remainders import Remainder, stack
from veilsum.core.secrets import Secret
from veilsum.core.settings import Settings
from veilsum.core.topology import Topology
from veilsum.errors import InvalidGraphError, InvalidInputError, RangeError
from veilsum.privacy.guarantee import Guarantee, guarantee
from veilsum.sim.phase_two import MaskedRows, PhaseTwo, phase_two


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Problem(Secret):
    """Costs, network, masks and method that fit each other.

    Attributes:
        private: every party's coefficients in the law's numbers.
        guarantee: what the masks promise, whatever the data are.
    """

    costs: tuple[Cost, ...]
    topology: Topology
    domain: Domain
    law: Law
    settings: Settings
    method: PhaseTwo
    remainder: Remainder
    private: MaskedRows
    guarantee: Guarantee

    @classmethod
    def of(
        cls,
        costs: Mapping[str, Cost] | Sequence[Cost],
        topology: Topology,
        *,
        domain: Domain,
        sigma: ArrayLike | None = None,
        law: LawName = "gaussian",
        grid: int | None = None,
        largest: float | None = None,
        corrupted: Iterable[Hashable] = (),
        settings: Settings | None = None,
    ) -> Problem:
        """Return the problem, or refuse what does not fit, in the user's words."""
        members = _in_order(costs, topology)
        _check_problem(members, topology, domain)
        masks = make_law(law, topology, sigma=sigma, bits=grid, largest=largest)
        chosen = settings or Settings()
        rest = stack([cost.remainder for cost in members])
        basis = members[0].basis
        return cls(
            costs=tuple(members),
            topology=topology,
            domain=domain,
            law=masks,
            settings=chosen,
            method=phase_two(chosen, topology, domain, masks, basis, rest),
            remainder=rest,
            guarantee=guarantee(
                topology,
                sigma=sigma,
                law=law,
                grid=grid_bits(masks),
                corrupted=corrupted,
            ),
            private=_encoded(members, topology, masks),
        )

    @property
    def basis(self) -> Basis:
        """phi, agreed by all."""
        return self.costs[0].basis

    def streams(self, seed: int | None) -> Streams:
        """Return seeded streams, or the system's where masks are made to be safe."""
        if seed is None and self.law.name in {"lattice", "uniform"}:
            return SystemStreams()
        return ShareStreams.from_seed(seed)


def grid_bits(law: Law) -> int | None:
    """Return q where the law lives on a grid."""
    grid: Grid | None = getattr(law, "grid", None)
    return None if grid is None else grid.bits


def _encoded(members: list[Cost], topology: Topology, law: Law) -> MaskedRows:
    """Return every party's coefficients in the law's numbers; name who is beyond it."""
    rows = []
    for name, cost in zip(topology.parties, members, strict=True):
        try:
            rows.append(law.encode(cost.coefficients))
        except RangeError as error:
            raise RangeError(f"party {name!r}: {error}") from None
    return np.stack(rows)


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
