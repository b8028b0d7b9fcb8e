"""A scenario, run by the vectorised simulator or by real machines in memory."""

from __future__ import annotations

from veilsum.agreement.scenario import Scenario
from veilsum.drivers.iterating import Progress
from veilsum.drivers.problem import Problem
from veilsum.drivers.run import Run
from veilsum.drivers.vectorised import solve_vectorised
from veilsum.errors import InvalidInputError

DRIVERS = ("vectorised", "loopback")


def run_scenario(
    scenario: Scenario,
    *,
    driver: str = "vectorised",
    progress: Progress | None = None,
) -> Run:
    """Return the result of one simulated run of the scenario.

    The driver is `vectorised`, all parties as rows of one array, or `loopback`: each
    party is the machine that would run on its own computer.
    """
    problem = Problem.of(
        scenario.costs,
        scenario.topology,
        domain=scenario.domain,
        masks=scenario.masks,
        corrupted=scenario.corrupted,
        settings=scenario.settings,
        faults=scenario.faults,
    )
    if driver == "vectorised":
        return solve_vectorised(problem, seed=scenario.seed, progress=progress)
    if driver != "loopback":
        raise InvalidInputError(
            f"a run is driven by one of {', '.join(DRIVERS)}, found {driver!r}"
        )
    # Here, not above: it needs packages that a plain simulation does not.
    from veilsum.drivers.loopback_solve import solve_in_loopback

    return solve_in_loopback(problem, seed=scenario.seed, progress=progress)
