"""One experiment as a frozen value, and its reading from plain tables.

A scenario file is TOML with the sections below; `SECTIONS` lists every key there is, so
that a misspelt one is refused with the nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any, cast

import numpy as np

from veilsum.agreement.costs import costs_of
from veilsum.agreement.graphs import ReadGraph, topology_of
from veilsum.agreement.reading import (
    Table,
    check_keys,
    choice,
    flag,
    integer,
    names,
    need,
    number,
    word,
)
from veilsum.costs.cost import Cost
from veilsum.costs.domains import Ball, Box, Domain, HalfSpaces, Simplex, WholeSpace
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.graphs.topology import Topology
from veilsum.methods.link_faults import LinkFaults
from veilsum.methods.settings import METHODS, Settings
from veilsum.numbers.arrays import AgentRows, FloatArray, as_floats
from veilsum.numbers.laws import LAWS, LawName, Masks
from veilsum.numbers.secrets import Secret

SECTIONS: dict[str, tuple[str, ...]] = {
    "graph": ("family", "file", "edges", "weight"),
    "parties": ("names",),
    "cost": (
        *("kind", "coefficients", "remainder", "targets", "dim"),
        *("matrices", "vectors"),
    ),
    "domain": (
        *("kind", "lower", "upper", "centre", "radius", "total"),
        *("normals", "offsets"),
    ),
    "masks": ("law", "sigma", "grid", "largest"),
    "method": (
        *("name", "step", "power", "gradient_at", "mixing", "rounds", "recentre"),
        *("smooth", "mean_smooth", "mean_convex", "convex_locals", "start", "spread"),
    ),
    "stopping": ("iterations", "tolerance", "byte_budget"),
    "policy": (
        *("corrupted", "tolerate", "minimum_honest", "drop"),
        *("resend", "meeting", "deadline", "patience"),
        *("release_fraction", "minimum_cell"),
    ),
    "simulation": (
        *("seed", "engine", "precision", "history", "bounds_from_costs", "faults"),
    ),
}
# Jobs on data: read by the commands named after them. A schema's keys are its own.
JOB_SECTIONS: dict[str, tuple[str, ...]] = {
    "data": ("dataset", "parties", "file", "files", "party", "decimal", "separator"),
    "schema": (),
    "model": ("formula", "family", "alpha", "weights", "offset", "ridge"),
    "statistics": ("columns", "histograms", "tables"),
    "dispatch": ("prices", "tolerance", "max_rounds"),
}
# Which command runs which of them.
JOB_COMMANDS = {"model": "fit", "statistics": "stats", "dispatch": "dispatch"}
# Read by other commands; named here so that one file serves them all.
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
    ) -> Scenario:
        """Return the scenario with other masks or method; what is None stays."""
        fields = {one.name: getattr(self, one.name) for one in dataclass_fields(self)}
        fields |= {
            "masks": self.masks.altered(law=law, sigma=sigma, grid=grid),
            "settings": self._with_method(method),
        }
        return Scenario(**fields)

    def _with_method(self, method: str | None) -> Settings:
        """Return the settings with another method, which has steps of its own."""
        if method is None or method == self.settings.method:
            return self.settings
        return replace(self.settings, method=method, step=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicScenario:
    """What all parties know of a scenario, beside their graph and the kind of cost."""

    domain: Domain
    masks: Masks
    settings: Settings


def public_scenario(table: Table, dim: int) -> PublicScenario:
    """Return what a table says that is no party's own."""
    # A consortium's graph is written in its own way, and read by it.
    read = ("domain", "masks", "method", "stopping", "simulation")
    sections = {name: _section(table, name) for name in read}
    for needed in ("domain", "masks"):
        if not sections[needed]:
            raise InvalidScenarioError(f"the consortium needs a [{needed}] section")
    return PublicScenario(
        domain=_domain(sections["domain"], dim),
        masks=masks_of(sections["masks"]),
        settings=_settings(sections),
    )


def scenario_from(table: Table, read_graph: ReadGraph) -> Scenario:
    """Return the scenario a table describes; `read_graph` opens a graph file."""
    known = ("title", *SECTIONS, *JOB_SECTIONS, *OTHER_SECTIONS)
    check_keys(table, known, "the scenario")
    _refuse_jobs(table)
    sections = {name: _section(table, name) for name in SECTIONS}
    for needed in ("graph", "cost", "domain", "masks"):
        if not sections[needed]:
            raise InvalidScenarioError(f"the scenario needs a [{needed}] section")
    topology = topology_of(sections["graph"], sections["parties"], read_graph)
    costs = costs_of(sections["cost"], topology)
    return Scenario(
        title=str(table.get("title", "")),
        topology=topology,
        costs=costs,
        domain=_domain(sections["domain"], costs[0].dim),
        masks=masks_of(sections["masks"]),
        settings=_settings(sections),
        corrupted=names(sections["policy"].get("corrupted", ()), "[policy] corrupted"),
        seed=_seed(sections["simulation"]),
        faults=_faults(sections["simulation"], topology),
        ignored=tuple(name for name in OTHER_SECTIONS if name in table),
    )


def _refuse_jobs(table: Table) -> None:
    """Send whoever has a job on data to the command that runs it."""
    for section, command in JOB_COMMANDS.items():
        if section in table and "cost" not in table:
            raise InvalidScenarioError(
                f"the scenario has a [{section}] instead of a [cost]: run veilsum "
                f"{command}"
            )


def _section(table: Table, name: str) -> Table:
    section = table.get(name, {})
    if not isinstance(section, Mapping):
        raise InvalidScenarioError(f"[{name}] must be a section, found {section!r}")
    check_keys(section, SECTIONS[name], f"[{name}]")
    return section


_DOMAINS: dict[str, tuple[str, ...]] = {
    "box": ("lower", "upper"),
    "ball": ("centre", "radius"),
    "simplex": ("total",),
    "half-spaces": ("normals", "offsets"),
    "all": (),
}


def _domain(section: Table, dim: int) -> Domain:
    kind = choice(section, "domain", "kind", list(_DOMAINS))
    check_keys(section, ("kind", *_DOMAINS[kind]), f"[domain] of kind {kind!r}")

    def given(key: str) -> AgentRows:
        value = need(section, "domain", key, f"a {kind} is described by it")
        return as_floats(value, what=f"[domain] {key}")

    match kind:
        case "box":
            return Box(given("lower"), given("upper"), dim=dim)
        case "ball":
            radius = number(section, "domain", "radius", 1.0)
            return Ball(section.get("centre", 0.0), radius, dim=dim)
        case "simplex":
            return Simplex(dim, number(section, "domain", "total", 1.0))
        case "half-spaces":
            return HalfSpaces(given("normals"), given("offsets"))
        case _:
            return WholeSpace(dim)


def masks_of(section: Table) -> Masks:
    """Return what [masks] says; refuse a contradiction."""
    law = cast("LawName", choice(section, "masks", "law", tuple(LAWS)))
    if "sigma" in LAWS[law].keys:
        need(section, "masks", "sigma", "the standard deviation of one share")
    grid = integer(section, "masks", "grid", 0) if "grid" in section else None
    far = number(section, "masks", "largest", 0.0) if "largest" in section else None
    sigma = _sigma(section["sigma"]) if "sigma" in section else None
    try:
        return Masks(law, sigma, grid, far)
    except InvalidInputError as error:
        raise InvalidScenarioError(f"[masks] {error}") from None


def _sigma(sigma: object) -> FloatArray:
    entries = sigma if isinstance(sigma, list) else [sigma]
    if not all(type(entry) in {int, float} for entry in entries):
        raise InvalidScenarioError(
            "[masks] sigma must be a number, or one for each coefficient, "
            f"found {sigma!r}"
        )
    return np.asarray(sigma, dtype=np.float64)


def _settings(sections: Mapping[str, Table]) -> Settings:
    """Return the settings: each key that is there, under the name it has here too."""
    method = sections["method"]
    found = {key: method[key] for key in ("start",) if key in method}
    if "name" in method:
        found["method"] = choice(method, "method", "name", METHODS)
    for read, places in _READERS.items():
        for name, keys in places.items():
            given = [key for key in keys if key in sections[name]]
            found |= {key: read(sections[name], name, key) for key in given}
    return Settings(**found)


_READERS: dict[Callable[..., Any], dict[str, tuple[str, ...]]] = {
    number: {
        "method": ("step", "power", "smooth", "mean_smooth", "mean_convex"),
        "stopping": ("tolerance",),
    },
    integer: {
        "method": ("rounds",),
        "stopping": ("iterations", "byte_budget"),
        "simulation": ("history",),
    },
    word: {
        "method": ("mixing", "spread", "gradient_at"),
        "simulation": ("engine", "precision"),
    },
    flag: {
        "method": ("recentre", "convex_locals"),
        "simulation": ("bounds_from_costs",),
    },
}


def _seed(section: Table) -> int | None:
    return integer(section, "simulation", "seed", 0) if "seed" in section else None


def _faults(section: Table, topology: Topology) -> LinkFaults | None:
    """Return what goes wrong between parties; stragglers are named, or a fraction."""
    given = section.get("faults")
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InvalidScenarioError(
            f"[simulation] faults must be a table, found {given!r}"
        )
    known = tuple(one.name for one in dataclass_fields(LinkFaults))
    check_keys(given, known, "[simulation] faults")
    found = dict(given)
    if isinstance(found.get("stragglers"), list):
        found["stragglers"] = tuple(sorted(topology.indices(found["stragglers"])))
    if isinstance(found.get("delay"), list):
        found["delay"] = tuple(found["delay"])
    return LinkFaults(**found)
