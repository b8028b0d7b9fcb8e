"""What is run: a method, a size, costs; and what is wanted of the time it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse

from veilsum.costs.bases import Affine
from veilsum.costs.domains import Box, WholeSpace
from veilsum.costs.effective import EffectiveCost
from veilsum.costs.remainders import SquaredNorm
from veilsum.engines.engine import Task
from veilsum.jobs.bench.least_squares import LeastSquares
from veilsum.jobs.bench.loops import REACH, Slope
from veilsum.methods.base import Method
from veilsum.methods.dgd import Dgd
from veilsum.methods.gradient_tracking import GradientTracking
from veilsum.numbers.arrays import AgentPoints, Sparse, Vector

Costs: TypeAlias = Literal["distances", "least squares"]

NEIGHBOURS = 6
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
class Workload:
    """A case with its numbers.

    Attributes:
        task: for an engine.
        slope: the same costs' gradients, for a plain loop.
        form: which loop.
        steps: its step sizes, one for each of as many iterations as are run at most.
    """

    task: Task
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
    start: AgentPoints,
    *,
    form: str,
    iterations: int,
    smooth: float,
) -> Workload:
    steps = step_sizes(form, iterations, smooth)
    task = Task(
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


def _distances(case: Case) -> tuple[EffectiveCost, Slope, AgentPoints]:
    stream = np.random.default_rng(0)
    theta = stream.standard_normal((case.agents, case.dim))
    start = stream.standard_normal((case.agents, case.dim))
    cost = EffectiveCost(Affine(case.dim), theta, SquaredNorm(1.0))
    return cost, lambda x: 2.0 * x + theta, start
