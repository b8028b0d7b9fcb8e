"""Theorem 1 as a value: epsilon with everything it rests on.

"No guarantee" is an answer too: a status, the parties it concerns, and no number.

    private     G[H] is connected and |H| >= 2: epsilon = 1 / (4 sigma^2 mu2(L_H))
    partial     G[H] is in pieces: each piece's sum is exposed, each has its own epsilon
    exposed     every honest party stands alone: its coefficients are known exactly
    vacuous     nobody is honest: nothing is left to protect
    no_privacy  no masks were used
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from veilsum.core.connectivity import components
from veilsum.core.masking import LAWS, LawName, check_sigma
from veilsum.core.spectrum import Certificate, certified_mu2
from veilsum.core.topology import Topology
from veilsum.errors import InvalidInputError
from veilsum.privacy.conversions import attacker_success

Status = Literal["private", "partial", "exposed", "vacuous", "no_privacy"]

LIMITS = (
    "covers parties that follow the protocol and are curious, not ones that break it",
    "links must be encrypted: an edge that others overhear hides nothing",
    "hides the masked coefficients only; the remainder of each cost is not hidden",
    "compares inputs of equal honest sum; that sum itself is released exactly",
    "holds for one run; fresh masks on the same data add their divergences",
)
FLOAT_LIMIT = (
    "assumes real arithmetic: float64 shares leak low bits, so this law is for "
    "simulation only"
)


@dataclass(frozen=True, slots=True)
class Component:
    """One connected piece of the honest graph and what is promised to it.

    `mu2` is proved from below; on a graph too large for that it is None, and so is
    `epsilon`.
    """

    parties: tuple[str, ...]
    status: Status
    epsilon: float | None
    mu2: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """What the search over coalitions of up to `tolerate` parties found.

    Attributes:
        worst_coalition: the most harmful one found; a cut, if there is one.
        epsilon_lower: what that coalition achieves: nobody can promise less.
        epsilon_upper: what no coalition exceeds; None if nothing could be proved.
        exact: whether the two are one number.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What a coalition can learn, and what the statement rests on.

    `epsilon` bounds KL per squared distance of inputs; None when there is no bound.
    """

    status: Status
    law: LawName
    epsilon: float | None
    mu2: float | None
    mu2_certificate: Certificate
    corrupted: tuple[str, ...]
    honest: tuple[str, ...]
    components: tuple[Component, ...]
    attacker_success: float | None
    released: tuple[str, ...]
    limits: tuple[str, ...]
    worst: Worst | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; no bound is None, never infinity."""
        plain = asdict(self)
        worst = plain.pop("worst")
        return plain | (worst or {})


def guarantee(
    topology: Topology,
    *,
    sigma: ArrayLike | None = None,
    corrupted: Iterable[Hashable] = (),
    law: LawName = "gaussian",
    distance: float | None = None,
) -> Guarantee:
    """Return what Theorem 1 promises against one coalition.

    Args:
        topology: the communication graph G.
        sigma: standard deviation of one coordinate of one share; with several, the
            least one counts. Not needed when the law is `none`.
        corrupted: C, the colluding parties.
        law: how shares are drawn.
        distance: ||A - B|| of the alternatives to tell apart, for `attacker_success`.

    >>> promise = guarantee(Topology.family("complete:3"), sigma=1.0, corrupted=["2"])
    >>> promise.status, round(promise.epsilon, 12)
    ('private', 0.125)
    """
    colluders = topology.indices(corrupted)
    least = least_sigma(law, sigma)
    honest = topology.without(colluders)
    pieces = [_component(honest, part, least) for part in components(honest)]
    parts = tuple(part for part, _ in pieces)
    status = _status(parts, law)
    epsilon = parts[0].epsilon if status == "private" else None
    return Guarantee(
        status=status,
        law=law,
        epsilon=epsilon,
        mu2=_overall_mu2(parts),
        mu2_certificate=_overall_certificate(pieces),
        corrupted=topology.names(colluders),
        honest=honest.parties,
        components=parts,
        attacker_success=success_at(status, epsilon, distance),
        released=_released(parts, law),
        limits=_limits(law),
    )


def epsilon_bound(*, sigma: float, mu2: float, shares_per_edge: int = 2) -> float:
    """Return Theorem 1's epsilon = 1 / (2 s sigma^2 mu2), s = 2 shares on each edge.

    >>> epsilon_bound(sigma=1.0, mu2=2.0)
    0.125
    """
    with np.errstate(all="ignore"):
        epsilon = float(1.0 / (2.0 * shares_per_edge * mu2) / np.float64(sigma) / sigma)
    if not 0 < epsilon < np.inf:
        raise InvalidInputError(
            f"sigma = {sigma:g} puts epsilon outside the range of float64; "
            "choose sigma nearer to the size of the coefficients"
        )
    return epsilon


def least_sigma(law: LawName, sigma: ArrayLike | None) -> float | None:
    """Return the least sigma, None without masks; refuse a contradiction."""
    if law not in LAWS:
        raise InvalidInputError(
            f"no mask law is called {law!r}; choose from {', '.join(LAWS)}"
        )
    if law == "none":
        if sigma is not None:
            raise InvalidInputError('law = "none" draws no shares: leave sigma out')
        return None
    if sigma is None:
        raise InvalidInputError(
            f'law = "{law}" needs sigma, the standard deviation of one share'
        )
    return float(check_sigma(sigma).min())


def _component(
    honest: Topology, part: tuple[int, ...], sigma: float | None
) -> tuple[Component, Certificate]:
    names = honest.names(part)
    if len(part) == 1:
        status: Status = "no_privacy" if sigma is None else "exposed"
        return Component(names, status, None, None), "none"
    found = certified_mu2(honest.induced(part))
    if sigma is None:
        return Component(names, "no_privacy", None, found.lower), found.certificate
    epsilon = None
    if found.lower is not None:
        arcs = honest.shares_per_edge
        epsilon = epsilon_bound(sigma=sigma, mu2=found.lower, shares_per_edge=arcs)
    return Component(names, "private", epsilon, found.lower), found.certificate


def _status(parts: tuple[Component, ...], law: LawName) -> Status:
    if not parts:
        return "vacuous"
    if law == "none":
        return "no_privacy"
    if all(part.status == "exposed" for part in parts):
        return "exposed"
    return "private" if len(parts) == 1 else "partial"


def _overall_mu2(parts: tuple[Component, ...]) -> float | None:
    """Return mu2(L_H): 0 in pieces, undefined below two honest parties."""
    if len(parts) > 1:
        return 0.0
    return parts[0].mu2 if parts else None


def _overall_certificate(pieces: list[tuple[Component, Certificate]]) -> Certificate:
    """Return how mu2(L_H) is known; a search decides that pieces make it 0."""
    if len(pieces) > 1:
        return "exact"
    return pieces[0][1] if pieces else "none"


def success_at(
    status: Status, epsilon: float | None, distance: float | None
) -> float | None:
    """Return the attacker's bound at a distance, None where there is none.

    1 where some alternative at that distance is told for certain.
    """
    if distance is not None and not 0 <= distance < float("inf"):
        raise InvalidInputError(
            f"a distance must be a number not below zero, found {distance}"
        )
    if distance is None or status == "vacuous":
        return None
    if distance == 0:
        return 0.5
    if epsilon is None:
        return None if status == "private" else 1.0
    return attacker_success(epsilon * distance * distance)


def _released(parts: tuple[Component, ...], law: LawName) -> tuple[str, ...]:
    if law == "none":
        return ("every coefficient of every party",)
    return tuple(_released_by(part) for part in parts)


def _released_by(part: Component) -> str:
    if len(part.parties) == 1:
        return f"every coefficient of {part.parties[0]}, exactly"
    return f"the sum of the coefficients of {', '.join(part.parties)}"


def _limits(law: LawName) -> tuple[str, ...]:
    if law == "none":
        return ("no masks: every coefficient can be reconstructed from the messages",)
    return (*LIMITS, FLOAT_LIMIT)
