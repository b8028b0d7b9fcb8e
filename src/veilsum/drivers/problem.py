"""What is to be solved, checked before anything is drawn or sent."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import UnionType

import numpy as np

from veilsum.costs.bases import Basis
from veilsum.costs.cost import Cost, common_basis
from veilsum.costs.domains import Domain
from veilsum.costs.remainders import Remainder, exposed, stack
from veilsum.drivers.phase_two import MaskedRows, PhaseTwo, phase_two
from veilsum.errors import InvalidGraphError, InvalidInputError, RangeError
from veilsum.graphs.connectivity import components
from veilsum.graphs.topology import Topology
from veilsum.methods.link_faults import LinkFaults
from veilsum.methods.settings import Settings
from veilsum.models.curvature import curvature_bounds
from veilsum.numbers.arrays import listed
from veilsum.numbers.laws import Law, Masks
from veilsum.numbers.masking import ShareStreams, Streams, SystemStreams
from veilsum.numbers.secrets import Secret
from veilsum.privacy.guarantee import Guarantee, against

BOUNDS_READ = (
    "the bounds on the costs were read off all parties' private costs, as only a "
    "simulation can; real parties agree on bounds that they know beforehand"
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Problem(Secret):
    """Costs, network, masks and method that fit each other.

    Attributes:
        private: every party's coefficients in the law's numbers.
        guarantee: what the masks promise, whatever the data are.
        faults: what goes wrong between iterating parties.
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
    faults: LinkFaults | None = None

    @classmethod
    def of(
        cls,
        costs: Mapping[str, Cost] | Sequence[Cost],
        topology: Topology,
        *,
        domain: Domain,
        masks: Masks,
        corrupted: Iterable[Hashable] = (),
        settings: Settings | None = None,
        faults: LinkFaults | None = None,
    ) -> Problem:
        """Return the problem, or refuse what does not fit, in the user's words."""
        _check_kind("the topology", topology, Topology, 'Topology.family("ring:6")')
        _check_kind("settings", settings, Settings | None, 'Settings(method="nids")')
        _check_kind("faults", faults, LinkFaults | None, "LinkFaults(loss=0.3)")
        members = _in_order(costs, topology)
        _check_problem(members, topology, domain)
        law = masks.on(topology)
        chosen = _with_bounds(settings or Settings(), members, domain)
        rest = stack([cost.remainder for cost in members])
        basis = members[0].basis
        return cls(
            costs=tuple(members),
            topology=topology,
            domain=domain,
            law=law,
            settings=chosen,
            method=phase_two(chosen, topology, domain, law, basis, rest, faults),
            faults=faults,
            remainder=rest,
            guarantee=_promise(
                against(topology, law.masks, corrupted=corrupted), rest, chosen
            ),
            private=_encoded(members, topology, law),
        )

    @property
    def basis(self) -> Basis:
        """phi, agreed by all."""
        return self.costs[0].basis

    def streams(self, seed: int | None) -> Streams:
        """Return seeded streams, or the system's where masks are made to be safe."""
        if seed is None and self.law.deployable:
            return SystemStreams()
        return ShareStreams.from_seed(seed)


def _promise(promise: Guarantee, remainder: Remainder, settings: Settings) -> Guarantee:
    """Return the guarantee with what masks do not cover in this problem."""
    if not promise.kind.hides:
        return promise
    read = (BOUNDS_READ,) if settings.bounds_from_costs else ()
    limits = dict.fromkeys((*promise.limits, *exposed(remainder), *read))
    return replace(promise, limits=tuple(limits))


def _with_bounds(settings: Settings, costs: list[Cost], domain: Domain) -> Settings:
    if not settings.bounds_from_costs:
        return settings
    return replace(settings, **asdict(curvature_bounds(costs, domain)))


def _encoded(members: list[Cost], topology: Topology, law: Law) -> MaskedRows:
    """Return every party's coefficients in the law's numbers; name who is beyond it."""
    rows = []
    for name, cost in zip(topology.parties, members, strict=True):
        try:
            rows.append(law.encode(cost.coefficients))
        except RangeError as error:
            told = f"party {name!r}: {error}"
            raise RangeError(told, plain=error.plain) from None
    return np.stack(rows)


def _in_order(
    costs: Mapping[str, Cost] | Sequence[Cost], topology: Topology
) -> list[Cost]:
    if not isinstance(costs, Mapping):
        _check_kind("costs", costs, Iterable, "one Cost per party, in a list")
        members = list(costs)
        if len(members) != topology.n_parties:
            raise InvalidInputError(
                f"expected one cost for each of {topology.n_parties} parties, "
                f"found {len(members)}"
            )
        return members
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
    _check_domain(domain)
    named = dict(zip(topology.parties, members, strict=True))
    for name, cost in named.items():
        wanted = "Cost.from_gradient(function, dim=2)"
        _check_kind(f"the cost of {name!r}", cost, Cost, wanted)
    common_basis(named)
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


def _check_kind(what: str, found: object, kind: type | UnionType, wanted: str) -> None:
    if not isinstance(found, kind):
        name = type(found).__name__
        raise InvalidInputError(f"{what} cannot be a {name}: give {wanted}")


def _check_domain(domain: object) -> None:
    if isinstance(domain, Mapping | list | tuple):
        raise InvalidInputError(
            "one public domain serves all parties: a domain of a party's own would "
            "show in its estimates and void the guarantee; give one, such as "
            "Box(-1, 1, dim=2)"
        )
    if not isinstance(domain, Domain):
        raise InvalidInputError(
            "the domain must be a Box, Ball, Simplex, HalfSpaces or WholeSpace, found "
            f"{type(domain).__name__}"
        )
