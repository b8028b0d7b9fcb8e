"""Scenario files: TOML on disk to a frozen `Scenario`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veilsum.agreement.graphs import topology_of
from veilsum.agreement.scenario import Scenario, scenario_from
from veilsum.errors import InvalidScenarioError
from veilsum.files.graphs import read_topology
from veilsum.graphs.topology import Topology


def read_scenario(path: Path) -> Scenario:
    """Return the scenario in a TOML file; graph files are found beside it."""

    def read_graph(name: str, weight: str | None) -> Topology:
        return read_topology(path.parent / name, weight=weight)

    return scenario_from(read_toml(path), read_graph)


def scenario_parties(table: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Return the parties of a scenario's graph, in its order."""

    def read_graph(name: str, weight: str | None) -> Topology:
        return read_topology(folder / name, weight=weight)

    graph, parties = table.get("graph", {}), table.get("parties", {})
    return topology_of(graph, parties, read_graph).parties


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file, with or without a byte order mark."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise InvalidScenarioError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidScenarioError(f"{path} is not valid TOML: {error}") from None
