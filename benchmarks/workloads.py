"""What is run: methods, sizes, costs, plain loops; and what is wanted of the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse

from veilsum.graphs.mixing import metropolis_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.cost import Cost, cost_coefficient_rows
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm, stack_remainders
from veilsum.minimise.costs.rows import glm_cost
from veilsum.minimise.engines.engine import EngineTask
from veilsum.minimise.methods.base import Method
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.models.families import GaussianFamily
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import FloatArray, PartyPoints, Sparse, Vector

Costs: TypeAlias = Literal["distances", "least squares"]

NEIGHBOURS = 6
# Of each agent in least squares.
ROWS, NOISE = 20, 0.1
# The longest run that is timed at once.
ITERATIONS = 1_000

# Steps times L, for gradients that are L-Lipschitz. Those of dgd shrink like
# 1 / (k + 1)^POWER.
DGD_STEP, POWER = 2.0, 0.6
TRACKING_STEP = 0.4
# L of the least squares here.
SMOOTH = 8.0

# Where dgd takes its gradients.
DGD_FORMS = ("mixed", "own")
FORMS = {"dgd": "mixed", "gradient-tracking": "atc"}


Slope = Callable[[PartyPoints], PartyPoints]  # every agent's gradient at its own row
# The methods as a reader of the papers would write them, each in the form that some
# package implements. They are the floor that engines are measured against, and what
# other packages' answers are checked with. Weights are n x n, dense or
# sparse; there is one iteration for each step size.
Loop: TypeAlias = Callable[[Any, Slope, PartyPoints, Vector], PartyPoints]

# Nobody's estimate comes near: dgd needs a compact domain, and most packages have none.
REACH = 1e3


def at_mixed(weights: Any, slope: Slope, x: PartyPoints, steps: Vector) -> PartyPoints:
    """Return x after DGD with the gradient at the mixed point."""
    for step in steps:
        mixed = weights @ x
        x = np.clip(mixed - step * slope(mixed), -REACH, REACH)
    return x


def at_own(weights: Any, slope: Slope, x: PartyPoints, steps: Vector) -> PartyPoints:
    """Return x after DGD with the gradient at an agent's own point."""
    for step in steps:
        x = np.clip(weights @ x - step * slope(x), -REACH, REACH)
    return x


def tracked(weights: Any, slope: Slope, x: PartyPoints, steps: Vector) -> PartyPoints:
    """Return x after gradient tracking that mixes what was adapted."""
    y = old = slope(x)
    for step in steps:
        x = weights @ (x - step * y)
        new = slope(x)
        y, old = weights @ (y + new - old), new
    return x


def tracked_apart(
    weights: Any, slope: Slope, x: PartyPoints, steps: Vector
) -> PartyPoints:
    """Return x after gradient tracking that adapts what was mixed."""
    y = old = slope(x)
    for step in steps:
        x = weights @ x - step * y
        new = slope(x)
        y, old = weights @ y + new - old, new
    return x


LOOPS: dict[str, Loop] = {
    "mixed": at_mixed,
    "own": at_own,
    "atc": tracked,
    "diging": tracked_apart,
}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Conditions on an engine's time.

    Attributes:
        passes: at most so many times a pass over memory.
        scipy: at least so many times as fast as the loop over scipy's sparse product.
        numpy: the same of the loop over numpy's dense one.
    """

    passes: float | None = None
    scipy: float | None = None
    numpy: float | None = None

    def __str__(self) -> str:
        """Return the conditions in words.

        >>> str(Wanted(passes=1.5, numpy=5.0)), str(Wanted())
        ('1.5 passes, 5x numpy', '')
        """
        said = [
            f"{self.passes:g} passes" if self.passes else "",
            f"{self.scipy:g}x scipy" if self.scipy else "",
            f"{self.numpy:g}x numpy" if self.numpy else "",
        ]
        return ", ".join(filter(None, said))

    def met(self, *, passes: float, scipy: float, numpy: float | None) -> bool | None:
        """Say whether measured ratios are as wanted; None if nothing is."""
        checks = [
            self.passes is None or passes <= self.passes,
            self.scipy is None or scipy >= self.scipy,
            self.numpy is None or (numpy or 0.0) >= self.numpy,
        ]
        return all(checks) if str(self) else None


@dataclass(frozen=True, kw_only=True)
class Case:
    """One line's work, and conditions on it where there are any.

    Attributes:
        method: dgd or gradient-tracking.
        agents: n, each with six neighbours at random.
        dim: m.
        costs: ||x - p_i||^2, or least squares with twenty rows for each agent.
        wanted: of the engine that "auto" takes.
    """

    method: str
    agents: int
    dim: int
    costs: Costs = "distances"
    wanted: Wanted = Wanted()

    @property
    def words(self) -> str:
        """The case in a few words."""
        return f"{self.method}, {self.costs}, {self.agents:,} x {self.dim}"


FULL = (
    Case(method="dgd", agents=8, dim=10, wanted=Wanted(numpy=5.0)),
    Case(method="dgd", agents=100, dim=50, costs="least squares"),
    Case(method="dgd", agents=1_000, dim=100),
    Case(method="dgd", agents=10_000, dim=100, wanted=Wanted(passes=1.5, scipy=2.5)),
    Case(method="dgd", agents=100_000, dim=10, wanted=Wanted(passes=4.0)),
    Case(method="dgd", agents=1_000_000, dim=4),
    Case(method="gradient-tracking", agents=100, dim=50, costs="least squares"),
    Case(method="gradient-tracking", agents=10_000, dim=100, wanted=Wanted(passes=2.5)),
    Case(method="gradient-tracking", agents=100_000, dim=10, wanted=Wanted(passes=5.0)),
)
QUICK = (
    Case(method="dgd", agents=8, dim=10),
    Case(method="dgd", agents=100, dim=50, costs="least squares"),
    Case(method="dgd", agents=1_000, dim=20),
    Case(method="gradient-tracking", agents=1_000, dim=20),
)


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """||A_i x - b_i||^2 / 2 for each agent; nothing here is anybody's secret.

    Attributes:
        topology: who talks to whom.
        designs: A_i, (n, r, m).
        responses: b_i, (n, r).
    """

    topology: Topology
    designs: FloatArray
    responses: FloatArray

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
        return metropolis_weights(self.topology)

    @cached_property
    def costs(self) -> list[Cost]:
        """What each party would give."""
        pairs = zip(self.designs, self.responses, strict=True)
        return [glm_cost(GaussianFamily(), Rows.of(a, b)) for a, b in pairs]

    @property
    def cost(self) -> EffectiveCost:
        """What phase II is handed, here without masks."""
        remainder = stack_remainders([cost.remainder for cost in self.costs])
        basis = Affine(self.designs.shape[2])
        return EffectiveCost(basis, cost_coefficient_rows(self.costs), remainder)

    @cached_property
    def grams(self) -> FloatArray:
        """A_i'A_i."""
        return np.swapaxes(self.designs, 1, 2) @ self.designs

    @cached_property
    def linear(self) -> PartyPoints:
        """Return -A_i'b_i."""
        return -(self.responses[:, None, :] @ self.designs)[:, 0]

    def slope(self, x: PartyPoints) -> PartyPoints:
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


@dataclass(frozen=True, eq=False)
class Workload:
    """A case with its numbers.

    Attributes:
        task: for an engine.
        slope: the same costs' gradients, for a plain loop.
        form: which loop.
        steps: its step sizes, one for each of as many iterations as are run at most.
    """

    task: EngineTask
    slope: Slope
    form: str
    steps: Vector

    @property
    def weights(self) -> Sparse:
        """W."""
        return self.task.weights["symmetric"]


def workload(case: Case) -> Workload:
    """Return a case's numbers, the same ones every time."""
    if case.costs == "least squares":
        return of_least_squares(
            LeastSquares.of(agents=case.agents, dim=case.dim),
            form=FORMS[case.method],
            iterations=ITERATIONS,
        )
    cost, slope, start = _distances(case)
    return _made(
        six_neighbours(case.agents),
        cost,
        slope,
        start,
        form=FORMS[case.method],
        iterations=ITERATIONS,
        smooth=2.0,
    )


def of_least_squares(given: LeastSquares, *, form: str, iterations: int) -> Workload:
    """Return the workload for a method in one of its forms."""
    start = np.zeros(given.linear.shape)
    return _made(
        given.weights,
        given.cost,
        given.slope,
        start,
        form=form,
        iterations=iterations,
        smooth=SMOOTH,
    )


def _made(
    weights: Sparse,
    cost: EffectiveCost,
    slope: Slope,
    start: PartyPoints,
    *,
    form: str,
    iterations: int,
    smooth: float,
) -> Workload:
    steps = step_sizes(form, iterations, smooth)
    task = EngineTask(
        method=_method(form, start.shape[1], float(steps[0])),
        weights={"symmetric": weights},
        cost=cost,
        start=start,
    )
    return Workload(task, slope, form, steps)


def step_sizes(form: str, iterations: int, smooth: float = SMOOTH) -> Vector:
    """Return one for each iteration: shrinking for dgd, all alike for tracking."""
    if form in DGD_FORMS:
        return DGD_STEP / smooth / np.arange(1.0, iterations + 1.0) ** POWER
    return np.full(iterations, TRACKING_STEP / smooth)


def _method(form: str, dim: int, step: float) -> Method[Any]:
    if form in DGD_FORMS:
        at: Literal["mixed", "own"] = "own" if form == "own" else "mixed"
        return Dgd(Box(-REACH, REACH, dim=dim), step, POWER, gradient_at=at)
    return GradientTracking(WholeSpace(dim), step)


def six_neighbours(agents: int) -> Sparse:
    """Return equal weights on a random graph: three cycles through all agents."""
    stream = np.random.default_rng(0)
    links = sparse.csr_array((agents, agents))
    for _ in range(NEIGHBOURS // 2):
        links = links + _cycle_apart_from(links, stream)
    return sparse.csr_array((links + sparse.eye_array(agents)) / (NEIGHBOURS + 1))


def _cycle_apart_from(links: Sparse, stream: np.random.Generator) -> Sparse:
    """Return a random cycle through all agents that has none of the links."""
    n = links.shape[0]
    cycle = stream.permutation(n)
    while True:
        both = sparse.coo_array((np.ones(n), (cycle, np.roll(cycle, -1))), links.shape)
        made = sparse.csr_array(both + both.T)
        taken = np.isin(cycle, made.multiply(links).nonzero()[0])
        if not taken.any():
            return made
        # Whoever would meet a neighbour again changes places with anybody.
        for place, other in zip(
            np.flatnonzero(taken), stream.integers(n, size=taken.sum()), strict=True
        ):
            cycle[[place, other]] = cycle[[other, place]]


def _distances(case: Case) -> tuple[EffectiveCost, Slope, PartyPoints]:
    stream = np.random.default_rng(0)
    theta = stream.standard_normal((case.agents, case.dim))
    start = stream.standard_normal((case.agents, case.dim))
    cost = EffectiveCost(Affine(case.dim), theta, SquaredNorm(1.0))
    return cost, lambda x: 2.0 * x + theta, start
