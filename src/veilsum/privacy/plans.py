"""A plan as a value: a network, its sigma, and what they achieve together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from math import sqrt
from typing import Any

from veilsum.graphs.topology import Topology
from veilsum.numbers.laws import check_sigma

# Eigenvalues found by two routines agree to about 1e-14; sigma makes up for more.
ROUND_UP = 1.0 + 1e-12
UNIT_ROUNDOFF = 2.0**-53

NOTES = (
    "the target holds for two inputs of equal honest sum; the sum itself is released "
    "exactly",
    "exchanging records between honest parties keeps that sum; replacing a record "
    "changes it, and is covered only by noise tau > 0 of each party's own, which makes "
    "the answer inexact",
    "one run: fresh masks on the same data add their divergences, so sigma for T runs "
    "is sqrt(T) times as large",
    "errors are of the minimiser, in its own units, where the average cost has "
    "curvature 1: divide by the curvature for others. float64_error is a rule of "
    "thumb, 3 * 2^-53 * sigma; lattice_error bounds each coordinate's quantisation",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is asked for: KL of at most `epsilon` per squared distance.

    `attacker_success` is None when epsilon was asked for directly.
    """

    epsilon: float
    distance: float | None
    attacker_success: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One network with the sigma that meets the target on it.

    Attributes:
        graph: the family's spec, or "edges" where only the list tells.
        kind: where the graph comes from, in words.
        edges: every link once, by the parties' names.
        sigma: standard deviation of one coordinate of one share.
        epsilon: what no coalition exceeds with that sigma.
        worst_mu2: of the weakest honest graph; a lower bound unless `exact`.
        worst_coalition: the coalition that leaves it, or the worst one found.
        links_per_party: the least and the greatest number of neighbours.
        attacker_success: at the distance, if there is one.
        float64_error: about what float64 arithmetic keeps at this sigma.
        lattice_bits: q, the grid being 2^-q, such that masks fit 62 bits.
        lattice_error: half a grid step; it does not grow with iterations.
    """

    graph: str
    kind: str
    edges: tuple[tuple[str, str], ...]
    sigma: float
    epsilon: float
    worst_mu2: float
    worst_coalition: tuple[str, ...]
    exact: bool
    vertex_connectivity: int
    links_per_party: tuple[int, int]
    attacker_success: float | None
    float64_error: float
    lattice_bits: int
    lattice_error: float
    topology: Topology = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        names = [one.name for one in fields(self) if one.name != "topology"]
        plain = {name: getattr(self, name) for name in names}
        least, greatest = self.links_per_party
        return plain | {"links_per_party": {"min": least, "max": greatest}}


@dataclass(frozen=True, slots=True)
class Refused:
    """A network that cannot meet the target, and why."""

    graph: str
    reason: str
    vertex_connectivity: int | None = None
    links_per_party: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """Networks that meet the target, the least sigma first, and those that do not.

    `interrupted` says that a search was stopped: better networks may exist.
    """

    tolerate: int
    target: Target
    plans: tuple[Plan, ...]
    refused: tuple[Refused, ...]
    notes: tuple[str, ...] = NOTES
    interrupted: bool = False

    @property
    def best(self) -> Plan:
        """The plan with the least sigma; of equals, the one with fewer links."""
        return self.plans[0]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "tolerate": self.tolerate,
            "target": asdict(self.target),
            "best": self.best.to_dict(),
            "plans": [one.to_dict() for one in self.plans],
            "refused": [
                {"graph": one.graph, "reason": one.reason} for one in self.refused
            ],
            "notes": list(self.notes),
            "interrupted": self.interrupted,
        }


def sigma_for(*, epsilon: float, mu2: float, shares_per_edge: int = 2) -> float:
    """Return Theorem 1 solved for sigma, rounded up: 1 / sqrt(2 s epsilon mu2).

    >>> round(sigma_for(epsilon=0.125, mu2=2.0), 6)
    1.0
    """
    sigma = ROUND_UP / sqrt(2.0 * shares_per_edge * epsilon * mu2)
    return float(check_sigma(sigma))


def float64_error(sigma: float) -> float:
    """Return about what float64 runs lose, 3 u sigma, where the curvature is 1."""
    return 3.0 * UNIT_ROUNDOFF * sigma
