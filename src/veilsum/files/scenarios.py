"""Scenario files: TOML on disk to a frozen `Scenario`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from veilsum.core.topology import Topology
from veilsum.errors import InvalidScenarioError
from veilsum.files.graphs import read_topology
from veilsum.scenario import Scenario, scenario_from


def read_scenario(path: Path) -> Scenario:
    """Return the scenario in a TOML file; graph files are found beside it."""

    def read_graph(name: str, weight: str | None) -> Topology:
        return read_topology(path.parent / name, weight=weight)

    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidScenarioError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidScenarioError(f"{path} is not valid TOML: {error}") from None
    return scenario_from(table, read_graph)
