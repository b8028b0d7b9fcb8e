"""Minimising the sum of all parties' costs: a recipe like any other.

Where coefficients say everything, one sum of them is the whole problem, and everybody
solves it. Otherwise an iterative method goes on from masked coefficients in rounds of
messages. Everything here but `contribution` is public and the same for all parties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from types import ModuleType, UnionType
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import (
    InvalidGraphError,
    InvalidInputError,
    ProtocolError,
    RangeError,
)
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.topology import Topology
from veilsum.locale import LocaleLine
from veilsum.masks.laws import MaskLaw, Masks
from veilsum.minimise.costs.bases import Basis, Quadratic
from veilsum.minimise.costs.cost import Cost, common_basis
from veilsum.minimise.costs.domains import Domain
from veilsum.minimise.costs.remainders import (
    AlikeRemainders,
    CostRemainder,
    Kind,
    SquaredNorm,
    exposed_by_remainder,
    stack_remainders,
)
from veilsum.minimise.methods.link_faults import LinkFaults
from veilsum.minimise.methods.one_shot import OneShot
from veilsum.minimise.methods.schedule import MethodSchedule, ScheduleFacts
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.rounds import MethodRounds, MethodSchedules
from veilsum.numbers.arrays import (
    Array,
    Vector,
    Vectors,
    as_float_vector,
    as_floats,
    listed_names,
)
from veilsum.numbers.secrets import Secret
from veilsum.privacy.guarantee import Guarantee, released_by_honest_piece
from veilsum.showing import Rendering, counted_words, numbers_in_line
from veilsum.sums.recipes import SumContribution, Sums
from veilsum.sums.releases import PossibleRound, SumRelease
from veilsum.sums.running import SumJobResult

# Up to here "auto" prefers one sum of all coefficients to iterations.
MOST_COEFFICIENTS = 5000

# The settings that all parties must have alike, beside method, iterations and start.
AGREED = (
    *("step", "power", "gradient_at", "mixing", "rounds", "recentre", "convex_locals"),
    *("smooth", "mean_smooth", "mean_convex", "tolerance", "byte_budget"),
)


@dataclass(frozen=True)
class WithheldCost(AlikeRemainders):
    """Stands for the part of a cost that its owner keeps: known to be there, no more.

    Attributes:
        exposes: what is known to be left in the open.
    """

    exposes: tuple[str, ...] = ()
    kind: Kind = field(default="local", init=False)

    def gradient(self, x: Vectors) -> Vectors:
        raise ProtocolError(
            f"a gradient at {len(x)} numbers was asked of a part of a cost that stays "
            "with its owner",
            code="internal",
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Minimise:
    """Public facts about the costs, and the method to minimise their sum.

    Attributes:
        basis: phi, which all coefficients belong to.
        remainders: by party, the unmasked part of its cost; `WithheldCost` where only
            its owner has it.
        schedules: schedule of an iterative method for the members of an epoch; None
            for one sum.
        start: by party, x_i(0).
        limits: facts that masks do not cover here.
        tolerance_unused: reason why a requested tolerance cannot end the method.
    """

    objects: ClassVar[bool] = False

    basis: Basis
    domain: Domain
    remainders: Mapping[str, CostRemainder]
    law: MaskLaw
    settings: Settings
    schedules: MethodSchedules | None = None
    schedule: MethodSchedule | None = None
    start: Mapping[str, Vector] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    tolerance_unused: str | None = None

    @classmethod
    def of(
        cls,
        basis: Basis,
        remainders: Mapping[str, CostRemainder],
        *,
        topology: Topology,
        law: MaskLaw,
        domain: Domain,
        settings: Settings,
        faults: LinkFaults | None = None,
        limits: tuple[str, ...] = (),
    ) -> Self:
        """Return the recipe that the settings name, or refuse with the reason.

        Args:
            basis: of all costs.
            remainders: by party; what is a party's own is not looked at.
            topology: who exchanges messages with whom.
            law: of the masks.
            domain: X.
            settings: the method, and all that it takes.
            faults: what goes wrong between iterating parties, in a simulation.
            limits: what masks do not cover beside the remainders.
        """
        known = {
            name: WithheldCost(exposed_by_remainder(one))
            if one.kind == "local"
            else one
            for name, one in remainders.items()
        }
        rest = stack_remainders(list(known.values()))
        made = cls(
            basis=basis,
            domain=domain,
            remainders=known,
            law=law,
            settings=settings,
            limits=(*exposed_by_remainder(rest), *limits),
        )
        wrong = faults is not None and bool(faults.kinds)
        simple = rest.kind != "local" and basis.size <= MOST_COEFFICIENTS
        if settings.method == OneShot.name or (
            settings.method == "auto" and simple and not wrong
        ):
            _check_one_shot(topology, wrong=wrong)
            # It refuses parts of costs that stay with their owners.
            OneShot(basis, rest, topology.n_parties, domain)
            return made
        _check_cost_magnitudes(settings, law, wrong=wrong)
        facts = public_facts_of_costs(topology, domain, law, basis, rest, faults)
        schedules = MethodSchedules(settings, facts)
        start = _minimise_start(settings.start, topology, domain)
        unused = None
        if faults is not None and settings.tolerance is not None:
            unused = faults.no_stopping
        return replace(
            made,
            schedules=schedules,
            schedule=schedules.on(topology),
            start=dict(zip(topology.parties, start, strict=True)),
            tolerance_unused=unused,
        )

    # What the parties agree on.

    @property
    def size(self) -> int:
        return self.basis.size

    @property
    def answer_size(self) -> int:
        return self.basis.dim

    @property
    def round_size(self) -> int:
        """Count of numbers in a message of the method; 0 for one sum."""
        if (plan := self.schedule) is None:
            return 0
        return plan.message_vectors * self.basis.dim + (plan.stopping is not None)

    @property
    def tolerance(self) -> float:
        far = self.settings.agreement(iterative=self.schedule is not None)
        if self.schedule is None or self.schedule.stopping is None:
            return far
        # Two answers that are both so near to the right one may be twice as far apart.
        return 2.0 * far

    @property
    def stand_in(self) -> bool:
        """Nobody can stand in for a part of a cost that never left its owner."""
        return self.remainder.kind != "local"

    @property
    def spread(self) -> str:
        return self.settings.spread if self.schedule is None else "flooding"

    @property
    def agreed(self) -> dict[str, Any]:
        """Everything else that parties compare before they start."""
        settings = self.settings
        return {
            "basis": plain_cost_value(self.basis),
            "remainder": plain_cost_value(self.remainder),
            "domain": plain_cost_value(self.domain),
            "method": settings.method,
            "iterations": settings.iterations,
            "start": np.asarray(settings.start, dtype=np.float64).tolist(),
            **{name: getattr(settings, name) for name in AGREED},
        }

    # What they do.

    def request(self, sums: Sums) -> str | None:
        return None if sums else "coefficients"

    def check_sum(self, sums: Sums) -> None:
        """Accept every sum: coefficients of costs have no agreed range."""

    def contribution(self, party: str, cost: Cost) -> SumContribution:
        rounds = None
        if self.schedules is not None:
            rounds = MethodRounds(
                schedules=self.schedules,
                law=self.law,
                basis=self.basis,
                remainder=cost.remainder,
                start=self.start[party],
            )
        own = cost.given(self.law)
        return SumContribution(lambda _: own, (cost.coefficients,), rounds)

    def among(self, members: tuple[str, ...]) -> Self:
        """Return the recipe for those who are left: theirs are the remainders."""
        kept = {name: self.remainders[name] for name in members}
        return replace(self, remainders=kept)

    @property
    def remainder(self) -> CostRemainder:
        return stack_remainders(list(self.remainders.values()))

    @property
    def one_shot(self) -> OneShot:
        n = len(self.remainders)
        return OneShot(self.basis, self.remainder, n, self.domain)

    def answer(self, sums: Sums) -> Vector:
        if not self.stand_in:
            raise ProtocolError(
                "a sum is not the answer where costs have a part of their own",
                code="internal",
            )
        return self.one_shot.solve(sums[0])

    @property
    def method(self) -> str:
        return OneShot.name if self.schedule is None else self.schedule.name

    def iterations(self, rounds: int) -> int:
        if (plan := self.schedule) is None:
            return 0
        return max(0, rounds - plan.recentring) // plan.method.rounds_per_iteration

    # What becomes known.

    most_rounds: ClassVar[int] = 1

    @property
    def most_numbers(self) -> int:
        """Size of the one sum; rounds imply nothing beyond it."""
        return self.size

    def release(self, sums: Sums) -> SumRelease:
        del sums
        shown = {"cost_coefficients": self.size}
        return SumRelease("a minimiser of summed costs", shown)

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        """One sum: an iterative method leads to nothing beyond it."""
        return (PossibleRound("only_sum", self.release(()).statistics),)

    def stated(self, promise: Guarantee, releases: Sequence[SumRelease]) -> Guarantee:
        del releases
        if not promise.kind.hides:
            return promise
        limits = dict.fromkeys((*promise.limits, *self.limits))
        return replace(promise, limits=tuple(limits))

    def shown(
        self, members: tuple[str, ...], releases: Sequence[SumRelease]
    ) -> tuple[LocaleLine, ...]:
        """Return in words that the sum of the costs becomes known."""
        del releases
        return (released_by_honest_piece(members),)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Minimised(SumJobResult):
    """The minimiser of all parties' costs together, as one of them knows it."""

    @property
    def costs(self) -> Minimise:
        """Public facts about the costs, and the method used."""
        return cast("Minimise", self.recipe)

    @cached_property
    def releases(self) -> tuple[SumRelease, ...]:
        """Release of the one sum, actual or implied; rounds lead to nothing more."""
        return (self.recipe.release(()),)

    @property
    def minimiser(self) -> Vector:
        return self.answer

    @property
    def method(self) -> str:
        return self.costs.method

    def answered(self) -> Rendering:
        many = counted_words(len(self.released.members), "party")
        return Rendering(
            f"Minimiser over {many}: {numbers_in_line(self.minimiser.tolist())}"
        )

    @property
    def road(self) -> str:
        if not self.iterations:
            return super().road
        return (
            f"{counted_words(self.iterations, 'iteration')} of {self.method} under "
            f"{self.terms.law.name} masks; {self.released.bytes:,} bytes over all links"
        )

    @property
    def iterations(self) -> int:
        """Number of iterations; 0 for one-shot."""
        return self.costs.iterations(self.released.rounds)

    def to_dict(self) -> dict[str, Any]:
        return {
            "minimiser": self.minimiser.tolist(),
            "reference": None,
            "max_error": None,
            **super().to_dict(),
            "iterations": self.iterations,
            "method": self.method,
        }

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the coordinates of the minimiser."""
        return draw_minimiser(figures, self, title, "The minimiser of the summed costs")


def draw_minimiser(
    figures: ModuleType, result: SumJobResult, title: str | None, usual: str
) -> Any:
    found = result.answer.tolist()
    values = {
        f"coordinate {k + 1}": one for k, one in enumerate(found[: figures.MOST_SHOWN])
    }
    caption = figures.job_caption(result) + figures.not_drawn_words(len(found))
    return figures.values_figure(
        values, "value", figures.chosen_title(title, usual), caption
    )


def public_facts_of_costs(
    topology: Topology,
    domain: Domain,
    law: MaskLaw,
    basis: Basis,
    remainder: CostRemainder,
    faults: LinkFaults | None = None,
) -> ScheduleFacts:
    drawn = np.asarray(law.masks.sigma or 0.0)
    if isinstance(basis, Quadratic):
        drawn = drawn / basis.widths
    shared = remainder.scale if isinstance(remainder, SquaredNorm) else 0.0
    return ScheduleFacts(
        domain=domain,
        basis=basis,
        curvature=2.0 * shared if shared > 0 else None,
        sigma=float(drawn.max() * np.sqrt(topology.weights.max())),
        integers=law.exact,
        number_bytes=law.number_bytes,
        faults=frozenset() if faults is None else faults.kinds,
    )


def masks_of_minimisation(masks: Masks, basis: Basis) -> Masks:
    """Return masks whose one sigma is the same in all directions of a basis."""
    if isinstance(basis, Quadratic) and isinstance(masks.sigma, float):
        return masks.altered(sigma=masks.sigma * basis.widths)
    return masks


def plain_cost_value(value: Any) -> Any:
    """Return a public value as JSON has it; what is a party's own is only named."""
    name = type(value).__name__
    if isinstance(value, Secret) or not is_dataclass(value):
        return [name]
    parts = {one.name: getattr(value, one.name) for one in fields(value)}
    return [name, {key: np.asarray(part).tolist() for key, part in parts.items()}]


def _minimise_start(start: ArrayLike, topology: Topology, domain: Domain) -> Vectors:
    shape = (topology.n_parties, domain.dim)
    array = as_floats(start, what="the start")
    if array.shape == shape:
        return np.array(array)
    point = as_float_vector(array, dim=domain.dim, what="the start")
    return np.array(np.broadcast_to(point, shape))


def _check_one_shot(topology: Topology, *, wrong: bool) -> None:
    if topology.directed:
        raise InvalidGraphError(
            "masked vectors and sums travel both ways over every link, and this graph "
            "has one-way links: use an undirected one",
            code="directed-graph",
        )
    if wrong:
        raise InvalidInputError(
            "faults are simulated between iterations, and one-shot takes none: use "
            "method auto, which takes one that bears them, or leave faults out",
            code="one-shot-with-faults",
        )


def _check_cost_magnitudes(settings: Settings, law: MaskLaw, *, wrong: bool) -> None:
    if law.sums_only:
        use = "law lattice" if wrong else "method one-shot, or law lattice"
        raise InvalidInputError(
            f"{settings.method} needs masked costs that have a size, and {law.name} "
            "masks leave residues modulo 2^64 that mean nothing until they are summed: "
            f"use {use}",
            code="magnitudes-unavailable",
        )
    if settings.recentre and law.hides and not law.exact:
        raise InvalidInputError(
            "recentring keeps the sum exactly, which needs integers: use law lattice",
            code="recentre-needs-lattice",
        )


# Costs that are here: everybody's in a simulation, or a real party's own.


def check_costs_of_minimisation(
    costs: Mapping[str, Cost], topology: Topology, domain: Domain
) -> Basis:
    """Refuse costs that do not fit each other, the domain or the graph.

    Returns:
        the basis of all of them.
    """
    _check_cost_domain(domain)
    for name, cost in costs.items():
        wanted = "Cost.from_gradient(function, dim=2)"
        check_kind_of_cost_argument(f"the cost of {name!r}", cost, Cost, wanted)
    common_basis(costs)
    basis = next(iter(costs.values())).basis
    if basis.dim != domain.dim:
        raise InvalidInputError(
            f"the costs are functions of {basis.dim} variables, "
            f"but the domain has dimension {domain.dim}",
            code="dimension-differs",
        )
    parts = graph_components(topology)
    if len(parts) > 1:
        pieces = "; ".join(listed_names(topology.names(part)) for part in parts[:4])
        raise InvalidGraphError(
            f"the graph is in {len(parts)} pieces ({pieces}): estimates cannot spread "
            "and the sum cannot be minimised; add links between the pieces",
            code="graph-disconnected",
        )
    return basis


def encode_cost_coefficients(costs: Mapping[str, Cost], law: MaskLaw) -> Array[Any]:
    """Return coefficients in the law's numbers, a row each; name who is beyond it."""
    rows = []
    for name, cost in costs.items():
        try:
            rows.append(law.encode(cost.given(law)))
        except RangeError as error:
            told = f"party {name!r}: {error}"
            raise RangeError(
                told, plain=error.plain, code="value-out-of-range"
            ) from None
    return np.stack(rows)


def check_kind_of_cost_argument(
    what: str, found: object, kind: type | UnionType, wanted: str
) -> None:
    """Refuse what is of another kind, and say what to give instead."""
    if not isinstance(found, kind):
        name = type(found).__name__
        raise InvalidInputError(
            f"{what} cannot be a {name}: give {wanted}", code="wrong-type"
        )


def _check_cost_domain(domain: object) -> None:
    if isinstance(domain, Mapping | list | tuple):
        raise InvalidInputError(
            "one public domain serves all parties: a domain of a party's own would "
            "show in its estimates and void the guarantee; give one, such as "
            "Box(-1, 1, dim=2)",
            code="domain-per-party",
        )
    if not isinstance(domain, Domain):
        raise InvalidInputError(
            "the domain must be a Box, Ball, Simplex, HalfSpaces or WholeSpace, found "
            f"{type(domain).__name__}",
            code="not-a-domain",
        )
