"""A scenario, run by the vectorised simulator."""

from __future__ import annotations

from veilsum.scenario import Scenario
from veilsum.sim.engine import Progress
from veilsum.sim.vectorised import Run, solve


def run_scenario(scenario: Scenario, *, progress: Progress | None = None) -> Run:
    """Return the result of one simulated run of the scenario."""
    return solve(
        scenario.costs,
        scenario.topology,
        domain=scenario.domain,
        sigma=scenario.sigma,
        law=scenario.law,
        corrupted=scenario.corrupted,
        settings=scenario.settings,
        seed=scenario.seed,
        progress=progress,
    )
