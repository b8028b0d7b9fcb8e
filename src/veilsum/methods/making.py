"""What a method is made from: public facts, and all that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from veilsum.costs.bases import Affine, Basis, Quadratic
from veilsum.costs.domains import Domain, WholeSpace
from veilsum.errors import InvalidInputError
from veilsum.graphs.mixing import DENSE_AGENTS, mixing_rate, mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.methods.certificate import Bounds
from veilsum.methods.exchange import Weighting
from veilsum.methods.push_pull import column_weights, row_weights
from veilsum.methods.recentring import recentring_rounds
from veilsum.methods.settings import Settings
from veilsum.methods.table import traits
from veilsum.numbers.arrays import Sparse

# Masks of affine coefficients are drawn down to about this size.
RESIDUAL_MASK = 1.0
# Masks of curvatures are drawn down to this part of the average's least curvature.
RESIDUAL_CURVATURE = 0.05


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """What everybody knows of a problem, the graph aside.

    Attributes:
        domain: X.
        basis: phi.
        curvature: of the remainder that all share, if it is the same everywhere: then
            every gradient turns by exactly so much.
        sigma: the largest standard deviation of a share, over links and coefficients.
        integers: whether masks are integers, which recentring needs.
        number_bytes: what one masked number takes on a link.
        lossy: whether links may lose messages.
    """

    domain: Domain
    basis: Basis
    curvature: float | None = None
    sigma: float = 0.0
    integers: bool = False
    number_bytes: int = 8
    lossy: bool = False

    @property
    def constrained(self) -> bool:
        """Whether X is less than the whole space."""
        return not isinstance(self.domain, WholeSpace)

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


@dataclass(frozen=True, eq=False)
class Making:
    """A schedule in the making: what its parts are worked out from.

    Attributes:
        name: of the method.
        bounds: on the masked costs as the method finds them; None if unknown.
    """

    settings: Settings
    facts: Facts
    topology: Topology
    name: str

    @cached_property
    def recentred(self) -> bool:
        """Whether masked integers are drawn together first."""
        if self.settings.recentre and self.topology.directed:
            raise InvalidInputError(
                "masks are drawn together over links that go both ways, and this graph "
                "has one-way links: leave recentre out, or use an undirected graph"
            )
        wanted = self.facts.integers and self.settings.recentre is not False
        return wanted and not self.topology.directed

    @cached_property
    def symmetric(self) -> Sparse:
        """W."""
        return mixing_weights(self.topology, self.settings.mixing or self._usual)

    @property
    def _usual(self) -> str:
        if self.name == "extra":
            return "lazy-metropolis"
        plain = self.name == "dgd" or self.topology.n_parties > DENSE_AGENTS
        return "metropolis" if plain else "best-constant"

    @cached_property
    def rate(self) -> float:
        """rho(W)."""
        return mixing_rate(self.symmetric)

    @cached_property
    def weights(self) -> dict[Weighting, Sparse]:
        """What the method mixes with."""
        if traits(self.name).symmetric:
            return {"symmetric": self.symmetric}
        return {
            "row": row_weights(self.topology),
            "column": column_weights(self.topology),
        }

    @cached_property
    def recentring(self) -> int:
        """How many rounds of it."""
        if not self.recentred:
            return 0
        return recentring_rounds(
            self.topology,
            self.symmetric,
            sigma=self.facts.sigma,
            size=self.facts.basis.size,
            residual=self._residual,
        )

    @property
    def _residual(self) -> float:
        agreed = self.settings.bounds
        if isinstance(self.facts.basis, Affine) or agreed is None:
            return RESIDUAL_MASK
        return RESIDUAL_CURVATURE * agreed.mean_convex

    @cached_property
    def bounds(self) -> Bounds | None:
        """Bounds on the masked costs as the method finds them."""
        found = self.facts.bounds(self.settings)
        if found is None or isinstance(self.facts.basis, Affine):
            return found
        # Masks on curvatures bend single costs; their average stays as it is.
        return Bounds(
            smooth=found.smooth + self._mask_curvature,
            mean_smooth=found.mean_smooth,
            mean_convex=found.mean_convex,
        )

    @property
    def _mask_curvature(self) -> float:
        """Return a bound on what masks add to a curvature, broken once in 1e9 runs."""
        if not isinstance(self.facts.basis, Quadratic):
            raise InvalidInputError(
                f"{self.name} needs a bound on how far masks bend the costs, which is "
                "known for affine and quadratic masks only: use dgd or one-shot"
            )
        if self.recentred:
            return self._residual
        n, p = self.topology.n_parties, self.facts.basis.size
        variance = 2.0 * self.facts.sigma**2 * float(self.topology.degrees.max())
        # ||U||_2 <= ||svec U||, twice the masked half; p normals exceed sqrt(p) by t
        # with probability exp(-t^2 / 2).
        tail = np.sqrt(2.0 * np.log(n * 1e9))
        return float(2.0 * np.sqrt(variance) * (np.sqrt(p) + tail))

    def need_bounds(self) -> Bounds:
        """Return the bounds, or say what to give."""
        if self.bounds is None:
            raise InvalidInputError(
                f"{self.name} takes its steps from public bounds on the costs: give "
                "smooth (every party's gradient is so Lipschitz on the domain) and "
                "mean_convex (the average cost is so strongly convex), and mean_smooth "
                "if the average bends less than the single costs"
            )
        return self.bounds

    def need_smooth(self) -> float:
        """Return L alone, which is all that some methods ask for."""
        if self.bounds is not None:
            return self.bounds.smooth
        if self.settings.smooth is None:
            raise InvalidInputError(
                f"{self.name} takes its step from a public bound on the costs: give "
                "smooth, for which every party's gradient is Lipschitz on the domain, "
                "or the step itself"
            )
        return self.settings.smooth
