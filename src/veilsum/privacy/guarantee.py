"""Theorem 1 as a value: epsilon with everything it rests on.

"No guarantee" is an answer too: a status, the parties it concerns, and no number.

    private     G[H] is connected and |H| >= 2: epsilon = 1 / (4 sigma^2 mu2(L_H))
    partial     G[H] is in pieces: each piece's sum is exposed, each has its own epsilon
    exposed     every honest party stands alone: its coefficients are known exactly
    vacuous     nobody is honest: nothing is left to protect
    no_privacy  no masks were used

On a lattice epsilon also holds what integers add to the formula; uniform masks have
epsilon zero, because there is nothing to see but sums.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.spectrum import Certificate, Mu2Bounds, certified_mu2
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.locale import LocaleLine, limit_phrase
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.masks.laws import (
    LAWS,
    GaussianMasks,
    LatticeMasks,
    LawName,
    MaskLaw,
    Masks,
    UniformMasks,
)
from veilsum.numbers.arrays import FloatArray, listed_names
from veilsum.privacy.conversions import attacker_success
from veilsum.privacy.lattice import (
    lattice_epsilon_excess,
    lattice_excess,
    lattice_success,
    most_moved_coefficients,
    smoothness_of_masks,
    worst_lattice_excess,
)
from veilsum.showing import Block, Renderable, Rendering, ShownTable

Status = Literal["private", "partial", "exposed", "vacuous", "no_privacy"]

REMAINDER_LIMIT = limit_phrase("remainder")
CURIOUS_LIMIT = limit_phrase("curious")
ONE_RUN_LIMIT = limit_phrase("one_run")
LIMITS = (
    CURIOUS_LIMIT,
    limit_phrase("links"),
    REMAINDER_LIMIT,
    limit_phrase("honest_sum"),
    ONE_RUN_LIMIT,
    limit_phrase("timing"),
)
# Of sums of whole numbers, whose units the agreement says.
UNITS_LIMIT = limit_phrase("units")
SAME_VIEWS_LIMIT = limit_phrase("same_views")
NEAR_VIEWS_LIMIT = limit_phrase("near_views")
# Where a first sum counts parties by what their rows hold.
SCREENED_UNITS_LIMIT = limit_phrase("screened_units")
SCREENED_SAME_VIEWS_LIMIT = limit_phrase("screened_same_views")
SCREENED_NEAR_VIEWS_LIMIT = limit_phrase("screened_near_views")
# Where a party gives numbers of its own making, and not rows.
PARTY_UNITS_LIMIT = limit_phrase("party_units")
PARTY_SAME_VIEWS_LIMIT = limit_phrase("party_same_views")
PARTY_NEAR_VIEWS_LIMIT = limit_phrase("party_near_views")
GENERATOR_LIMIT = limit_phrase("generator")
FLOAT_LIMIT = limit_phrase("float")


# Of more connected parties only the first are named.
MOST_NAMED = 10_000


@dataclass(frozen=True, slots=True)
class GuaranteeComponent:
    """One connected piece of the honest graph and what is promised to it.

    `mu2` is proved from below; on a graph too large for that it is None, and so is
    `epsilon`.
    """

    parties: Sequence[str]
    status: Status
    epsilon: float | None
    mu2: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCoalition:
    """Result of the search over coalitions of up to `tolerate` parties.

    Attributes:
        worst_coalition: the most harmful one found; a cut, if there is one.
        epsilon_lower: epsilon of that coalition; no valid guarantee can be lower.
        epsilon_upper: bound for all coalitions; None if nothing could be proved.
        exact: whether the two are equal.
        cut: a smallest set whose loss disconnects the rest, if t parties suffice.
        vertex_connectivity: kappa; None on a graph too large to compute it, where only
            kappa > tolerate was checked.
    """

    tolerate: int
    worst_coalition: tuple[str, ...]
    epsilon_lower: float | None
    epsilon_upper: float | None
    exact: bool
    cut: tuple[str, ...] | None
    vertex_connectivity: int | None

    @property
    def sentence(self) -> str:
        who = listed_names(self.worst_coalition) or "nobody"
        if self.cut == ():
            return "The graph is in pieces before anybody colludes. See veilsum doctor."
        if self.cut is not None:
            return (
                f"This graph does not withstand {self.tolerate}: without {who} the "
                "others fall apart. See veilsum doctor."
            )
        known = f"Worst coalition of {self.tolerate}: {who}; epsilon "
        if self.exact:
            return known + f"{_guarantee_number(self.epsilon_upper)}, exactly."
        return known + (
            f"between {_guarantee_number(self.epsilon_lower)} (that attack) and "
            f"{_guarantee_number(self.epsilon_upper)} (proved for all)."
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Guarantee(Renderable):
    """Guarantee against a coalition, and the premises that it rests on.

    `epsilon` bounds KL per squared distance of inputs; None when there is no bound.
    `excess` is the part of it that a lattice adds to the continuous formula.
    """

    status: Status
    law: LawName
    epsilon: float | None
    mu2: float | None
    mu2_certificate: Certificate
    corrupted: tuple[str, ...]
    honest: Sequence[str]
    components: tuple[GuaranteeComponent, ...]
    attacker_success: float | None
    released: tuple[str, ...]
    limits: tuple[str, ...]
    excess: float | None = None
    worst: WorstCoalition | None = None

    @property
    def kind(self) -> type[MaskLaw]:
        """The law, which answers what it hides."""
        return LAWS[self.law]

    @property
    def sentence(self) -> str:
        """Summary of possible exposure, in one sentence."""
        if self.status == "vacuous":
            return "Every party colludes: nothing is left to protect."
        if self.status == "no_privacy":
            return (
                "There are no masks: whoever sees the messages can learn every number "
                "of every party."
            )
        if self.status == "exposed":
            return (
                f"{self._who} can learn every number of every other party exactly, for "
                "each of them stands alone."
            )
        if self.status == "partial":
            pieces = [f"{{{listed_names(one.parties)}}}" for one in self.components]
            return (
                f"{self._who} can learn the sums over each of {listed_names(pieces)} "
                "by "
                "itself, for nothing links these pieces but the coalition."
            )
        others = f"the {len(self.honest)} others"
        if not self.corrupted:
            others = f"all {len(self.honest)} parties"
        seen = f"{self._who} can learn the released sums over {others}, and "
        if self.epsilon == 0.0:
            return f"{seen}sees no difference between inputs with the same sums."
        if self.epsilon is None:
            return f"{seen}no bound was proved on what else there is to see."
        return (
            f"{seen}sees a difference of at most epsilon = {self.epsilon:.6g} (KL per "
            "squared distance) between inputs with the same sums."
        )

    @property
    def _who(self) -> str:
        if self.worst is not None and self.worst.cut is None and self.worst.tolerate:
            many, of_all = self.worst.tolerate, len(self.corrupted) + len(self.honest)
            each = "Each" if many == 1 else f"Any coalition of {many}"
            return f"{each} of the {of_all} parties"
        if not self.corrupted:
            return "Whoever stands outside and overhears every masked number"
        if len(self.corrupted) == 1:
            return self.corrupted[0]
        return f"The coalition of {listed_names(self.corrupted)}"

    def showing(self) -> Rendering:
        """Return the sentence, the number, and all that it rests on folded."""
        blocks: list[Block] = []
        if len(self.components) > 1:
            rows = [
                (listed_names(one.parties, most=12), one.status, one.epsilon, one.mu2)
                for one in self.components
            ]
            blocks.append(
                ShownTable(("honest parties", "status", "epsilon", "mu2"), rows)
            )
        if self.worst is not None and not self.worst.exact and self.kind.hides:
            blocks.append(self.worst.sentence)
        if self.attacker_success is not None:
            blocks.append(self._success)
        # What holds is said by the sentence; a word in front is for what does not.
        word = "" if self.status == "private" else f"{self.status}: "
        return Rendering(
            f"{word}{self.sentence}",
            blocks,
            {
                "Released": self.released,
                "Limits": self.limits,
                "What the number rests on": self._grounds,
            },
        )

    @property
    def _success(self) -> str:
        if self.epsilon is None:
            return "Some inputs at this distance are told apart with certainty."
        return (
            "The best attacker tells two inputs at this distance apart at most "
            f"{100 * (self.attacker_success or 0.0):.2f}% of the time (a coin: 50%)."
        )

    @property
    def _grounds(self) -> tuple[str, ...]:
        if self.epsilon is None:
            return ()
        mu2 = "" if self.mu2 is None else f"; mu2 = {self.mu2:.6g}"
        more = "" if not self.excess else f"; integers add {self.excess:.3g} to epsilon"
        law = f"law {self.law}{mu2} ({self.mu2_certificate}){more}"
        exact = self.worst is not None and self.worst.exact
        return (law, self.worst.sentence) if exact and self.worst else (law,)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; no bound is None, never infinity."""
        plain = asdict(self)
        plain["released"] = tuple(map(_plain_guarantee_line, self.released))
        plain["limits"] = tuple(map(_plain_guarantee_line, self.limits))
        # Names of very many are made here, not before.
        plain["honest"] = tuple(plain["honest"])
        for part in plain["components"]:
            part["parties"] = tuple(part["parties"])
        worst = plain.pop("worst")
        return plain | (worst or {})


def _plain_guarantee_line(line: str) -> dict[str, Any]:
    return line.plain if isinstance(line, LocaleLine) else {"own": line, "text": line}


def _guarantee_number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


@dataclass(frozen=True)
class GuaranteeProof:
    """Proved properties of masks; none for a law without a proof of its own."""

    masks: Masks

    def continuous(self, honest: Topology, mu2: float | None) -> float | None:
        """Return the formula's epsilon for one connected piece."""
        del honest, mu2
        return None

    def excess(self, honest: Topology) -> float | None:
        """Return what integers add to it on one connected piece, if they do."""
        del honest
        return None

    def worst_excess(
        self, topology: Topology, tolerate: int, mu2: float | None
    ) -> float | None:
        """Return what they add at most, whoever of so many colludes."""
        del topology, tolerate, mu2
        return None

    def success(
        self, topology: Topology, mu2: float | None, epsilon: float, distance: float
    ) -> float:
        """Return a bound on the best attacker's chance at a distance.

        It holds on the graph, and where honest graphs have this mu2 or more on these.
        """
        del topology, mu2
        return lattice_success(epsilon * distance * distance)  # true for every law


@dataclass(frozen=True)
class _GaussianProof(GuaranteeProof):
    """Theorem 1; of several sigmas the least one counts."""

    @cached_property
    def sigma(self) -> float:
        return float(np.min(np.asarray(self.masks.sigma)))

    def continuous(self, honest: Topology, mu2: float | None) -> float | None:
        if mu2 is None:
            return None
        arcs = honest.shares_per_edge
        return epsilon_bound_of_guarantee(
            sigma=self.sigma, mu2=mu2, shares_per_edge=arcs
        )

    def success(
        self, topology: Topology, mu2: float | None, epsilon: float, distance: float
    ) -> float:
        del topology, mu2
        return attacker_success(epsilon * distance * distance)  # exact


@dataclass(frozen=True)
class _LatticeProof(_GaussianProof):
    """Theorem 1 and what `privacy.lattice` proves that integers add to it."""

    def __post_init__(self) -> None:
        if self.masks.grid is None:
            raise InvalidInputError(
                f'law = "{self.masks.law}" needs a grid: the number of bits q of its '
                "step 2^-q",
                code="grid-missing",
            )

    @cached_property
    def grid(self) -> FixedPointGrid:
        assert self.masks.grid is not None
        return FixedPointGrid(self.masks.grid, self.masks.unit)

    def excess(self, honest: Topology) -> float:
        found = lattice_excess(honest, self._deviations(honest))
        return lattice_epsilon_excess(found, self.grid.step)

    def worst_excess(
        self, topology: Topology, tolerate: int, mu2: float | None
    ) -> float:
        found = worst_lattice_excess(
            topology, self._deviations(topology), tolerate, mu2=mu2
        )
        return lattice_epsilon_excess(found, self.grid.step)

    def success(
        self, topology: Topology, mu2: float | None, epsilon: float, distance: float
    ) -> float:
        smooth = smoothness_of_masks(topology, self._deviations(topology), mu2=mu2)
        moved = most_moved_coefficients(distance, self.grid.step)
        divergence = epsilon * distance * distance
        return lattice_success(divergence, smooth=smooth, moved=moved)

    def _deviations(self, topology: Topology) -> FloatArray:
        """Return every link's sigma in grid steps."""
        if (alike := topology.common_weight) is not None:
            steps = float(self.grid.deviation(self.sigma, alike))
            return np.full(topology.n_edges, steps)
        weights, places = np.unique(topology.weights, return_inverse=True)
        each = [float(self.grid.deviation(self.sigma, w)) for w in weights.tolist()]
        return np.array(each)[places]


@dataclass(frozen=True)
class _UniformProof(GuaranteeProof):
    """There is nothing to see but sums: equal ones are never told apart."""

    def continuous(self, honest: Topology, mu2: float | None) -> float:
        del honest, mu2
        return 0.0


PROOFS: Mapping[type[MaskLaw], type[GuaranteeProof]] = {
    GaussianMasks: _GaussianProof,
    LatticeMasks: _LatticeProof,
    UniformMasks: _UniformProof,
}


def proof_of_masks(masks: Masks) -> GuaranteeProof:
    return PROOFS.get(masks.kind, GuaranteeProof)(masks)


def guarantee(
    topology: GraphLike,
    *,
    sigma: ArrayLike | None = None,
    corrupted: Iterable[Hashable] = (),
    law: LawName = "gaussian",
    grid: int | None = None,
    distance: float | None = None,
) -> Guarantee:
    """Return what Theorem 1 promises against one coalition.

    Args:
        topology: the communication graph G.
        sigma: standard deviation of one coordinate of one share; with several, the
            least one counts. Laws `none` and `uniform` have none.
        corrupted: C, the colluding parties.
        law: how shares are drawn.
        grid: q of the grid 2^-q for integer laws.
        distance: ||A - B|| of the alternatives to tell apart, for `attacker_success`.

    >>> promise = guarantee(Topology.family("complete:3"), sigma=1.0, corrupted=["2"])
    >>> promise.status, round(promise.epsilon, 12)
    ('private', 0.125)
    """
    masks = Masks(law, sigma, grid)
    whole = Topology.of(topology)
    return guarantee_against_coalition(
        whole, masks, corrupted=corrupted, distance=distance
    )


def guarantee_against_coalition(
    topology: Topology,
    masks: Masks,
    *,
    corrupted: Iterable[Hashable] = (),
    distance: float | None = None,
    certify: Callable[[Topology], Mu2Bounds] = certified_mu2,
) -> Guarantee:
    """Return what these masks promise against one coalition; see `guarantee`.

    `certify` bounds mu2 of each honest piece.
    """
    colluders = topology.indices(corrupted)
    proof = proof_of_masks(masks)
    honest = topology.without(colluders)
    pieces = [
        _guarantee_of_honest_piece(honest, part, proof, certify)
        for part in graph_components(honest)
    ]
    parts = tuple(piece.component for piece in pieces)
    status = _status_of_guarantee(parts, masks)
    epsilon = parts[0].epsilon if status == "private" else None
    mu2 = _overall_mu2_of_guarantee(parts)
    return Guarantee(
        status=status,
        law=masks.law,
        epsilon=epsilon,
        mu2=mu2,
        mu2_certificate=_overall_guarantee_certificate(pieces),
        corrupted=topology.names(colluders),
        honest=honest.parties,
        components=parts,
        attacker_success=attacker_success_at(
            proof, honest, status=status, mu2=mu2, epsilon=epsilon, distance=distance
        ),
        released=_released_beside_guarantee(parts, masks),
        limits=_limits_of_guarantee(masks),
        excess=_overall_lattice_excess(pieces),
    )


def epsilon_bound_of_guarantee(
    *, sigma: float, mu2: float, shares_per_edge: int = 2
) -> float:
    """Return Theorem 1's epsilon = 1 / (2 s sigma^2 mu2), s = 2 shares on each edge.

    >>> epsilon_bound_of_guarantee(sigma=1.0, mu2=2.0)
    0.125
    """
    with np.errstate(all="ignore"):
        epsilon = float(1.0 / (2.0 * shares_per_edge * mu2) / np.float64(sigma) / sigma)
    if not 0 < epsilon < np.inf:
        raise InvalidInputError(
            f"sigma = {sigma:g} puts epsilon outside the range of float64; "
            "choose sigma nearer to the size of the coefficients",
            code="sigma-out-of-range",
        )
    return epsilon


@dataclass(frozen=True, slots=True)
class _GuaranteePiece:
    """A component with how its mu2 is known and what integers add."""

    component: GuaranteeComponent
    certificate: Certificate = "none"
    excess: float | None = None


def _guarantee_of_honest_piece(
    honest: Topology,
    part: Sequence[int],
    proof: GuaranteeProof,
    certify: Callable[[Topology], Mu2Bounds],
) -> _GuaranteePiece:
    names, hides = honest.names_of(part), proof.masks.kind.hides
    if len(part) == 1:
        status: Status = "exposed" if hides else "no_privacy"
        return _GuaranteePiece(GuaranteeComponent(names, status, None, None))
    graph = honest.induced(part)
    found = certify(graph)
    status = "private" if hides else "no_privacy"
    epsilon, excess = proof.continuous(graph, found.lower), proof.excess(graph)
    total = None if epsilon is None else epsilon + (excess or 0.0)
    component = GuaranteeComponent(names, status, total, found.lower)
    return _GuaranteePiece(component, found.certificate, excess)


def _status_of_guarantee(parts: tuple[GuaranteeComponent, ...], masks: Masks) -> Status:
    if not parts:
        return "vacuous"
    if not masks.kind.hides:
        return "no_privacy"
    if all(part.status == "exposed" for part in parts):
        return "exposed"
    return "private" if len(parts) == 1 else "partial"


def _overall_mu2_of_guarantee(parts: tuple[GuaranteeComponent, ...]) -> float | None:
    """Return mu2(L_H): 0 in pieces, undefined below two honest parties."""
    if len(parts) > 1:
        return 0.0
    return parts[0].mu2 if parts else None


def _overall_guarantee_certificate(pieces: list[_GuaranteePiece]) -> Certificate:
    """Return how mu2(L_H) is known; a search decides that pieces make it 0."""
    if len(pieces) > 1:
        return "exact"
    return pieces[0].certificate if pieces else "none"


def _overall_lattice_excess(pieces: list[_GuaranteePiece]) -> float | None:
    """Return the largest excess of a piece; None where there is nothing to bound."""
    bounded = (piece for piece in pieces if piece.component.epsilon is not None)
    found = [piece.excess for piece in bounded if piece.excess is not None]
    return max(found, default=None)


def attacker_success_at(
    proof: GuaranteeProof,
    topology: Topology,
    *,
    status: Status,
    mu2: float | None,
    epsilon: float | None,
    distance: float | None,
) -> float | None:
    """Return the attacker's bound at a distance, None where there is none.

    1 where some alternative at that distance is told for certain.
    """
    if distance is not None and not 0 <= distance < float("inf"):
        raise InvalidInputError(
            f"a distance must be a number not below zero, found {distance}",
            code="distance-negative",
        )
    if distance is None or status == "vacuous":
        return None
    if distance == 0:
        return 0.5
    if epsilon is None:
        return None if status == "private" else 1.0
    return proof.success(topology, mu2, epsilon, distance)


def _released_beside_guarantee(
    parts: tuple[GuaranteeComponent, ...], masks: Masks
) -> tuple[str, ...]:
    if not masks.kind.hides:
        return (LocaleLine("every coefficient of every party", key="all_coefficients"),)
    return tuple(released_by_honest_piece(part.parties) for part in parts)


def released_by_honest_piece(parties: Sequence[str]) -> LocaleLine:
    """Return in words what connected parties cannot hide."""
    if len(parties) > MOST_NAMED:
        words = f"the sum of the coefficients of {listed_names(parties)}"
        return LocaleLine(words, key="coefficients", parties=len(parties))
    words = f"the sum of the coefficients of {', '.join(parties)}"
    if len(parties) == 1:
        words = f"every coefficient of {parties[0]}, exactly"
    return LocaleLine(words, key="coefficients", parties=list(parties))


def _limits_of_guarantee(masks: Masks) -> tuple[str, ...]:
    if not masks.kind.hides:
        return (limit_phrase("no_masks"),)
    if not masks.kind.exact:
        return (*LIMITS, FLOAT_LIMIT)
    step = "the grid" if masks.grid is None else f"2^{-masks.grid}"
    if masks.unit is not None:
        step = f"the unit {masks.unit}"
    return (
        *LIMITS,
        limit_phrase("grid", words={"step": step}, unit=str(masks.rounding)),
        GENERATOR_LIMIT,
    )
