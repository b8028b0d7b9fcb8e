"""One experiment as a frozen value, and its reading from plain tables.

A scenario file is TOML with the sections below; `SECTIONS` lists every key there is, so
that a misspelt one is refused with the nearest.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any, cast

import numpy as np

from veilsum.core.arrays import AgentRows, FloatArray, as_floats, listed
from veilsum.core.costs import Cost
from veilsum.core.domains import Ball, Box, Domain, HalfSpaces, Simplex, WholeSpace
from veilsum.core.laws import LAWS, LawName, check_law, check_sigma
from veilsum.core.remainders import NoRemainder, Remainder, SquaredNorm
from veilsum.core.secrets import Secret
from veilsum.core.settings import METHODS, Settings
from veilsum.core.topology import Topology
from veilsum.errors import InvalidInputError, InvalidScenarioError

Table = Mapping[str, Any]
ReadGraph = Callable[[str, str | None], Topology]

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
    "method": ("name", "step", "power", "mixing", "start", "spread", "recentre"),
    "stopping": ("iterations", "tolerance"),
    "policy": (
        *("corrupted", "tolerate", "minimum_honest", "drop"),
        *("release_fraction", "minimum_cell"),
    ),
    "simulation": ("seed",),
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
    """A simulated run, ready to start. It holds every party's private cost."""

    title: str
    topology: Topology
    costs: tuple[Cost, ...]
    domain: Domain
    law: LawName
    sigma: FloatArray | None
    grid: int | None
    largest: float | None
    settings: Settings
    corrupted: tuple[str, ...]
    seed: int | None
    ignored: tuple[str, ...]

    def altered(
        self,
        *,
        law: LawName | None = None,
        sigma: float | None = None,
        grid: int | None = None,
        method: str | None = None,
    ) -> Scenario:
        """Return the scenario with another law or method; what is None stays.

        A new law takes over what it has: sigma, or a grid, and not the other's.
        """
        name = law or self.law
        spread = self.sigma if sigma is None else check_sigma(sigma)
        kept = name in {"lattice", "uniform"}
        fields = {one.name: getattr(self, one.name) for one in dataclass_fields(self)}
        fields |= {
            "law": name,
            "sigma": spread if name in {"gaussian", "lattice"} or sigma else None,
            "grid": self.grid if kept and grid is None else grid,
            "largest": self.largest if kept else None,
            "settings": replace(self.settings, method=method or self.settings.method),
        }
        return Scenario(**fields)


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
    costs = _costs(sections["cost"], topology)
    law, sigma, grid, largest = masks_of(sections["masks"])
    return Scenario(
        title=str(table.get("title", "")),
        topology=topology,
        costs=costs,
        domain=_domain(sections["domain"], costs[0].dim),
        law=law,
        sigma=sigma,
        grid=grid,
        largest=largest,
        settings=_settings(sections["method"], sections["stopping"]),
        corrupted=_names(sections["policy"].get("corrupted", ()), "[policy] corrupted"),
        seed=_seed(sections["simulation"]),
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


def check_keys(table: Table, known: Collection[str], where: str) -> None:
    """Refuse an unknown key, naming the nearest."""
    unknown = [key for key in table if key not in known]
    if not unknown:
        return
    key = unknown[0]
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InvalidScenarioError(
        f"{where} has an unknown key {key!r}; {hint}known keys are {', '.join(known)}"
    )


def _section(table: Table, name: str) -> Table:
    section = table.get(name, {})
    if not isinstance(section, Mapping):
        raise InvalidScenarioError(f"[{name}] must be a section, found {section!r}")
    check_keys(section, SECTIONS[name], f"[{name}]")
    return section


def _need(section: Table, name: str, key: str, why: str) -> Any:
    if key not in section:
        raise InvalidScenarioError(f"[{name}] needs {key!r}: {why}")
    return section[key]


def _choice(section: Table, name: str, key: str, known: Sequence[str]) -> str:
    value = _need(section, name, key, f"one of {', '.join(known)}")
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InvalidScenarioError(
            f"[{name}] {key} is {value!r}; {hint}choose from {', '.join(known)}"
        )
    return str(value)


def _number(section: Table, name: str, key: str, default: float) -> float:
    value = section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidScenarioError(f"[{name}] {key} must be a number, found {value!r}")
    return float(value)


def _integer(section: Table, name: str, key: str, default: int) -> int:
    value = section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidScenarioError(
            f"[{name}] {key} must be a whole number, found {value!r}"
        )
    return value


def _names(value: object, where: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidScenarioError(f"{where} must be a list of names, found {value!r}")
    return tuple(str(name) for name in value)


def topology_of(graph: Table, parties: Table, read_graph: ReadGraph) -> Topology:
    """Return the graph that the sections describe."""
    sources = [key for key in ("family", "file", "edges") if key in graph]
    if len(sources) != 1:
        raise InvalidScenarioError(
            "[graph] needs exactly one of family, file and edges, "
            f"found {listed(sources) or 'none'}"
        )
    if "weight" in graph and "file" not in graph:
        raise InvalidScenarioError("[graph] weight names an attribute of a graph file")
    topology = _graph(graph, read_graph)
    if "names" not in parties:
        return topology
    names = _names(parties["names"], "[parties] names")
    if "edges" not in graph:
        return topology.renamed(names)
    return Topology.from_edges(_pairs(graph["edges"]), parties=names)


def _graph(graph: Table, read_graph: ReadGraph) -> Topology:
    if "family" in graph:
        return Topology.family(str(graph["family"]))
    if "file" in graph:
        return read_graph(str(graph["file"]), graph.get("weight"))
    return Topology.from_edges(_pairs(graph["edges"]))


def _pairs(edges: object) -> list[tuple[str, str]]:
    rows = [_names(edge, "[graph] edges' entries") for edge in _listed(edges)]
    if any(len(row) != 2 for row in rows):
        raise InvalidScenarioError(
            '[graph] edges must be pairs of names, such as [["a", "b"], ["b", "c"]]'
        )
    return [(a, b) for a, b in rows]


def _listed(value: object) -> Sequence[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidScenarioError(f"expected a list, found {value!r}")
    return value


def _costs(section: Table, topology: Topology) -> tuple[Cost, ...]:
    kind = _choice(section, "cost", "kind", list(_COSTS))
    key, others, build = _COSTS[kind]
    check_keys(section, ("kind", key, *others), f"[cost] of kind {kind!r}")
    rows = _listed(_need(section, "cost", key, "one entry for each party"))
    if len(rows) != topology.n_agents:
        raise InvalidScenarioError(
            f"[cost] {key} must have one entry for each of {topology.n_agents} "
            f"parties, found {len(rows)}"
        )
    return build(section, rows)


def _affine(section: Table, rows: Sequence[Any]) -> tuple[Cost, ...]:
    forms: dict[str, Remainder] = {
        "none": NoRemainder(),
        "squared-norm": SquaredNorm(1.0),
    }
    chosen = {"remainder": "none", **section}
    remainder = forms[_choice(chosen, "cost", "remainder", list(forms))]
    return tuple(Cost.affine(row, remainder=remainder) for row in rows)


def _squared_distance(section: Table, rows: Sequence[Any]) -> tuple[Cost, ...]:
    del section
    return tuple(Cost.squared_distance(row) for row in rows)


def _polynomial(section: Table, rows: Sequence[Any]) -> tuple[Cost, ...]:
    dim = _integer(section, "cost", "dim", 1)
    return tuple(Cost.polynomial(row, dim=dim) for row in rows)


def _quadratic(section: Table, rows: Sequence[Any]) -> tuple[Cost, ...]:
    vectors = _listed(_need(section, "cost", "vectors", "one vector per party"))
    if len(vectors) != len(rows):
        raise InvalidScenarioError(
            f"[cost] found {len(rows)} matrices and {len(vectors)} vectors"
        )
    return tuple(Cost.quadratic(p, q) for p, q in zip(rows, vectors, strict=True))


Build = Callable[[Table, Sequence[Any]], tuple[Cost, ...]]
# Each kind: the key with one entry per party, its other keys, its constructor.
_COSTS: dict[str, tuple[str, tuple[str, ...], Build]] = {
    "affine": ("coefficients", ("remainder",), _affine),
    "squared-distance": ("targets", (), _squared_distance),
    "polynomial": ("coefficients", ("dim",), _polynomial),
    "quadratic": ("matrices", ("vectors",), _quadratic),
}
_DOMAINS: dict[str, tuple[str, ...]] = {
    "box": ("lower", "upper"),
    "ball": ("centre", "radius"),
    "simplex": ("total",),
    "half-spaces": ("normals", "offsets"),
    "all": (),
}


def _domain(section: Table, dim: int) -> Domain:
    kind = _choice(section, "domain", "kind", list(_DOMAINS))
    check_keys(section, ("kind", *_DOMAINS[kind]), f"[domain] of kind {kind!r}")

    def need(key: str) -> AgentRows:
        value = _need(section, "domain", key, f"a {kind} is described by it")
        return as_floats(value, what=f"[domain] {key}")

    match kind:
        case "box":
            return Box(need("lower"), need("upper"), dim=dim)
        case "ball":
            radius = _number(section, "domain", "radius", 1.0)
            return Ball(section.get("centre", 0.0), radius, dim=dim)
        case "simplex":
            return Simplex(dim, _number(section, "domain", "total", 1.0))
        case "half-spaces":
            return HalfSpaces(need("normals"), need("offsets"))
        case _:
            return WholeSpace(dim)


Masks = tuple[LawName, FloatArray | None, int | None, float | None]


def masks_of(section: Table) -> Masks:
    """Return the law, sigma, the grid's bits and the range, those that are there."""
    law = cast("LawName", _choice(section, "masks", "law", LAWS))
    if law in {"gaussian", "lattice"}:
        _need(section, "masks", "sigma", "the standard deviation of one share")
    grid = _integer(section, "masks", "grid", 0) if "grid" in section else None
    far = _number(section, "masks", "largest", 0.0) if "largest" in section else None
    sigma = _sigma(section["sigma"]) if "sigma" in section else None
    try:
        check_law(law, sigma=sigma, bits=grid, largest=far)
    except InvalidInputError as error:
        raise InvalidScenarioError(f"[masks] {error}") from None
    return law, sigma, grid, far


def _sigma(sigma: object) -> FloatArray:
    entries = sigma if isinstance(sigma, list) else [sigma]
    if not all(type(entry) in {int, float} for entry in entries):
        raise InvalidScenarioError(
            "[masks] sigma must be a number, or one for each coefficient, "
            f"found {sigma!r}"
        )
    return np.asarray(sigma, dtype=np.float64)


def _settings(method: Table, stopping: Table) -> Settings:
    plain = Settings()
    recentre = method.get("recentre")
    if recentre is not None and not isinstance(recentre, bool):
        raise InvalidScenarioError(
            f"[method] recentre is true or false, found {recentre!r}"
        )
    return Settings(
        method=_choice({"name": plain.method, **method}, "method", "name", METHODS),
        iterations=_integer(stopping, "stopping", "iterations", plain.iterations),
        step=_number(method, "method", "step", plain.step),
        power=_number(method, "method", "power", plain.power),
        mixing=str(method.get("mixing", plain.mixing)),
        start=method.get("start", plain.start),
        spread=str(method.get("spread", plain.spread)),
        recentre=recentre,
        tolerance=(
            _number(stopping, "stopping", "tolerance", 0.0)
            if "tolerance" in stopping
            else None
        ),
    )


def _seed(section: Table) -> int | None:
    return _integer(section, "simulation", "seed", 0) if "seed" in section else None
