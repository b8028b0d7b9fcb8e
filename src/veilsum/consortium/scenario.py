"""A simulated run of private costs, as a scenario file describes it."""

from __future__ import annotations

from dataclasses import dataclass, fields as dataclass_fields, replace
from typing import Any

from veilsum.consortium.kinds import command_of_question_heading
from veilsum.consortium.sections import (
    ReadGraph,
    ScenarioFile,
    SimulationSection,
    settings_of_sections,
)
from veilsum.errors import InvalidScenarioError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import LawName, Masks
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Domain
from veilsum.minimise.methods.link_faults import LinkFaults
from veilsum.minimise.methods.settings import Settings
from veilsum.numbers.secrets import Secret

# Read by other commands; one file serves them all.
OTHER_SECTIONS = ("deployment",)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Scenario(Secret):
    """A simulated run, with every party's private cost."""

    title: str
    topology: Topology
    costs: tuple[Cost, ...]
    domain: Domain
    masks: Masks
    settings: Settings
    corrupted: tuple[str, ...]
    seed: int | None
    faults: LinkFaults | None
    ignored: tuple[str, ...]

    def altered(
        self,
        *,
        law: LawName | None = None,
        sigma: float | None = None,
        grid: int | None = None,
        method: str | None = None,
        engine: str | None = None,
        seed: int | None = None,
    ) -> Scenario:
        """Return the scenario with other masks or method; what is None stays."""
        fields = {one.name: getattr(self, one.name) for one in dataclass_fields(self)}
        fields |= {
            "masks": self.masks.altered(law=law, sigma=sigma, grid=grid),
            "settings": replace(
                self._with_method(method), engine=engine or self.settings.engine
            ),
            "seed": self.seed if seed is None else seed,
        }
        return Scenario(**fields)

    def _with_method(self, method: str | None) -> Settings:
        """Return the settings with another method, which has steps of its own."""
        if method is None or method == self.settings.method:
            return self.settings
        return replace(self.settings, method=method, step=None)


def scenario_from(file: ScenarioFile, read_graph: ReadGraph) -> Scenario:
    """Return the run that a file describes; `read_graph` opens a graph file."""
    job = file.asked
    if file.cost is None and job is not None:
        raise InvalidScenarioError(
            f"the scenario has a [{job.heading}] instead of a [cost]: run veilsum "
            f"{command_of_question_heading(job.heading)}",
            code="task-has-own-command",
        )
    graph, cost, domain, masks = (
        _needed_scenario_section(file, name)
        for name in ("graph", "cost", "domain", "masks")
    )
    names = None if file.parties is None else file.parties.names
    topology = graph.topology(names, read_graph)
    costs = cost.costs(topology)
    simulation = file.simulation or SimulationSection()
    return Scenario(
        title=file.title,
        topology=topology,
        costs=costs,
        domain=domain.domain(costs[0].dim),
        masks=masks.masks.altered(unit=costs[0].unit),
        settings=settings_of_sections(file.method, file.stopping, simulation),
        corrupted=() if file.policy is None else file.policy.corrupted or (),
        seed=simulation.seed,
        faults=simulation.link_faults(topology),
        ignored=ignored_scenario_sections(file),
    )


def _needed_scenario_section(file: ScenarioFile, name: str) -> Any:
    section = getattr(file, name)
    if section is None or not section.given():
        raise InvalidScenarioError(
            f"the scenario needs a [{name}] section", code="missing-section"
        )
    return section


def ignored_scenario_sections(file: ScenarioFile) -> tuple[str, ...]:
    """Return the sections that a simulation does not use."""
    return tuple(name for name in OTHER_SECTIONS if getattr(file, name) is not None)
