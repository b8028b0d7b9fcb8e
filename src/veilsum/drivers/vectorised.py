"""`solve`: masks, phase II and the guarantee, all agents as rows of one array."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from numpy.typing import ArrayLike

from veilsum.costs.cost import Cost
from veilsum.costs.domains import Domain
from veilsum.drivers.iterating import Progress
from veilsum.drivers.problem import Problem
from veilsum.drivers.run import Run, finished_run
from veilsum.errors import BadGradientError
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.methods.link_faults import LinkFaults
from veilsum.methods.settings import Settings
from veilsum.numbers.laws import LawName, Masks
from veilsum.numbers.masking import draw_shares


def solve(
    costs: Mapping[str, Cost] | Sequence[Cost],
    topology: GraphLike,
    *,
    domain: Domain,
    sigma: ArrayLike | None = None,
    law: LawName = "gaussian",
    grid: int | None = None,
    largest: float | None = None,
    corrupted: Iterable[Hashable] = (),
    settings: Settings | None = None,
    faults: LinkFaults | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Simulate one run of Function Sharing.

    Args:
        costs: one private cost per party, by name or in the order of the parties.
        topology: who exchanges shares and estimates with whom.
        domain: X, public; compact for DGD.
        sigma: standard deviation of one coordinate of one share.
        law: `gaussian`; `lattice` or `uniform` for integer masks; `none` for the plain
            method without privacy.
        grid: q for integer masks on multiples of 2^-q; by default the finest that fits.
        largest: for integer masks, the declared range of coefficients.
        corrupted: the coalition the guarantee speaks about.
        settings: the method, iterations, steps, mixing weights, start.
        faults: what goes wrong between iterating parties.
        seed: repeats the shares; without one they are fresh.
        progress: called with the number of finished iterations now and then.

    >>> from veilsum.costs.domains import Box
    >>> costs = [Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0)]
    >>> run = solve(costs, Topology.family("complete:3"), domain=Box(-9, 9, dim=1),
    ...             sigma=1e6, law="lattice", seed=0,
    ...             settings=Settings(method="one-shot"))
    >>> run.minimiser.round(9).tolist(), run.sum_of_masks, run.guarantee.status
    ([3.0], 0.0, 'private')
    """
    topology = Topology.of(topology)
    problem = Problem.of(
        costs,
        topology,
        domain=domain,
        masks=Masks(law, sigma, grid, largest),
        corrupted=corrupted,
        settings=settings,
        faults=faults,
    )
    return solve_vectorised(problem, seed=seed, progress=progress)


def solve_vectorised(
    problem: Problem, *, seed: int | None = None, progress: Progress | None = None
) -> Run:
    """Run a checked problem, all parties at once."""
    shares = draw_shares(
        problem.topology,
        problem.law,
        problem.streams(seed),
        size=problem.basis.size,
    )
    with _named(problem.topology.parties):
        outcome = problem.method.run(problem.private + shares.masks(), progress)
        return finished_run(problem, shares, outcome)


@contextmanager
def _named(parties: tuple[str, ...]) -> Iterator[None]:
    """Say a party's name where only its row was known: before and after iterations."""
    try:
        yield
    except BadGradientError as error:
        if not isinstance(error.agent, int):
            raise
        named = BadGradientError(error.reason, parties[error.agent])
        raise named from error.__cause__
