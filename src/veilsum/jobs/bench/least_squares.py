"""Least squares on a random graph with six neighbours, the same for every package."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from veilsum.costs.bases import Affine
from veilsum.costs.cost import Cost, coefficient_rows
from veilsum.costs.effective import EffectiveCost
from veilsum.costs.remainders import stack
from veilsum.graphs.mixing import metropolis
from veilsum.graphs.topology import Topology
from veilsum.models.families import Gaussian
from veilsum.models.row_costs import glm_cost
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import AgentPoints, FloatArray, Sparse, Vector
from veilsum.numbers.shapes import Float

ROWS = 20
NOISE = 0.1
NEIGHBOURS = 6


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """||A_i x - b_i||^2 / 2 for each agent; nothing here is anybody's secret.

    Attributes:
        topology: who talks to whom.
        designs: A_i.
        responses: b_i.
    """

    topology: Topology
    designs: Float[FloatArray, "n r m"]
    responses: Float[FloatArray, "n r"]

    @classmethod
    def of(cls, *, agents: int, dim: int) -> LeastSquares:
        """Return the same numbers for the same size."""
        stream = np.random.default_rng(0)
        designs = stream.standard_normal((agents, ROWS, dim)) / np.sqrt(ROWS)
        truth = stream.standard_normal(dim)
        noise = NOISE * stream.standard_normal((agents, ROWS))
        topology = Topology.family(f"regular:{agents}:{NEIGHBOURS}:seed=0")
        return cls(topology, designs, designs @ truth + noise)

    @cached_property
    def weights(self) -> Sparse:
        """W."""
        return metropolis(self.topology)

    @cached_property
    def costs(self) -> list[Cost]:
        """What each party would give."""
        pairs = zip(self.designs, self.responses, strict=True)
        return [glm_cost(Gaussian(), Rows.of(a, b)) for a, b in pairs]

    @property
    def cost(self) -> EffectiveCost:
        """What phase II is handed, here without masks."""
        remainder = stack([cost.remainder for cost in self.costs])
        basis = Affine(self.designs.shape[2])
        return EffectiveCost(basis, coefficient_rows(self.costs), remainder)

    @cached_property
    def grams(self) -> Float[FloatArray, "n m m"]:
        """A_i'A_i."""
        return np.swapaxes(self.designs, 1, 2) @ self.designs

    @cached_property
    def linear(self) -> AgentPoints:
        """Return -A_i'b_i."""
        return -(self.responses[:, None, :] @ self.designs)[:, 0]

    def slope(self, x: AgentPoints) -> AgentPoints:
        """Return every agent's gradient at its own row."""
        return (self.grams @ x[:, :, None])[:, :, 0] + self.linear

    def answer(self) -> Vector:
        """Return what one owner of all rows would find."""
        rows = self.designs.reshape(-1, self.designs.shape[2])
        found, *_ = np.linalg.lstsq(rows, self.responses.ravel())
        return np.asarray(found, dtype=np.float64)

    def save(self, path: Path, **more: float) -> None:
        """Write all of it to a file that other packages' scripts read."""
        arrays: dict[str, Any] = {
            "designs": self.designs,
            "responses": self.responses,
            "weights": self.weights.toarray(),
            **more,
        }
        np.savez(path, **arrays)
