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

from numpy.typing import ArrayLike

from veilsum.core.arrays import listed
from veilsum.core.connectivity import algebraic_connectivity, components
from veilsum.core.masking import LAWS, LawName, check_sigma
from veilsum.core.topology import Topology
from veilsum.errors import InvalidInputError
from veilsum.privacy.divergence import attacker_success

Status = Literal["private", "partial", "exposed", "vacuous", "no_privacy"]
Certificate = Literal["exact", "inertia", "probabilistic", "none"]

LIMITS = (
    "covers parties that follow the protocol and are curious, not ones that break it",
    "links must be encrypted: whoever overhears a share is a member of the coalition",
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
    """One connected piece of the honest graph and what is promised to it."""

    parties: tuple[str, ...]
    status: Status
    epsilon: float | None
    mu2: float | None


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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; no bound is None, never infinity."""
        return asdict(self)


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
    least = _least_sigma(law, sigma)
    honest = topology.without(colluders)
    parts = tuple(_component(honest, part, least) for part in components(honest))
    status = _status(parts, law)
    epsilon = parts[0].epsilon if status == "private" else None
    return Guarantee(
        status=status,
        law=law,
        epsilon=epsilon,
        mu2=_overall_mu2(parts),
        mu2_certificate="none" if _overall_mu2(parts) is None else "exact",
        corrupted=topology.names(colluders),
        honest=honest.parties,
        components=parts,
        attacker_success=_success(status, epsilon, distance),
        released=_released(parts, law),
        limits=_limits(law),
    )


def epsilon_bound(*, sigma: float, mu2: float, shares_per_edge: int = 2) -> float:
    """Return Theorem 1's epsilon = 1 / (2 s sigma^2 mu2), s = 2 shares on each edge.

    >>> epsilon_bound(sigma=1.0, mu2=2.0)
    0.125
    """
    return 1.0 / (2.0 * shares_per_edge * sigma**2 * mu2)


def _least_sigma(law: LawName, sigma: ArrayLike | None) -> float | None:
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
) -> Component:
    names = honest.names(part)
    if len(part) == 1:
        status: Status = "no_privacy" if sigma is None else "exposed"
        return Component(names, status, None, None)
    mu2 = algebraic_connectivity(honest.induced(part))
    if sigma is None:
        return Component(names, "no_privacy", None, mu2)
    arcs = honest.shares_per_edge
    epsilon = epsilon_bound(sigma=sigma, mu2=mu2, shares_per_edge=arcs)
    return Component(names, "private", epsilon, mu2)


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


def _success(
    status: Status, epsilon: float | None, distance: float | None
) -> float | None:
    """Return the bound at a distance; 1 where some alternative is told for certain."""
    if distance is None or status == "vacuous":
        return None
    if not 0 <= distance < float("inf"):
        raise InvalidInputError(
            f"a distance must be a number not below zero, found {distance}"
        )
    return 1.0 if epsilon is None else attacker_success(epsilon * distance**2)


def _released(parts: tuple[Component, ...], law: LawName) -> tuple[str, ...]:
    if law == "none":
        return ("every coefficient of every party",)
    return tuple(_released_by(part) for part in parts)


def _released_by(part: Component) -> str:
    if len(part.parties) == 1:
        return f"every coefficient of {part.parties[0]}, exactly"
    return f"the sum of the coefficients of {listed(part.parties)}"


def _limits(law: LawName) -> tuple[str, ...]:
    if law == "none":
        return ("no masks: every coefficient can be reconstructed from the messages",)
    return (*LIMITS, FLOAT_LIMIT)
