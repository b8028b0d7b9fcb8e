"""Scenario files: TOML on disk to one frozen value."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from veilsum.agreement.scenario import Scenario, scenario_from
from veilsum.agreement.sections import ReadGraph, ScenarioFile
from veilsum.errors import InvalidScenarioError
from veilsum.files.graphs import read_topology
from veilsum.graphs.topology import Topology
from veilsum.reading import read

# Looked at before a byte is read: parsing takes a hundred times the memory.
MOST_BYTES = 64 << 20


def read_scenario(path: Path) -> Scenario:
    """Return the scenario in a TOML file; graph files are found beside it."""
    return scenario_from(read_scenario_file(path), graphs_beside(path))


def read_scenario_file(path: Path) -> ScenarioFile:
    """Return everything that a scenario file says."""
    return read(read_toml(path), ScenarioFile, "the scenario")


def graphs_beside(path: Path) -> ReadGraph:
    """Return what opens the graph files that a file names: they are beside it."""

    def read_graph(name: str, weight: str | None) -> Topology:
        return read_topology(path.parent / name, weight=weight)

    return read_graph


def read_toml(path: Path, *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return the tables of a TOML file, with or without a byte order mark."""
    try:
        if path.stat().st_size > most_bytes:
            raise InvalidScenarioError(
                f"{path} has {path.stat().st_size:,} bytes, and {most_bytes:,} are the "
                "most for a file of this kind: keep data in tables of their own"
            )
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise InvalidScenarioError(f"cannot read {path}: {error.strerror}") from None
    except InvalidScenarioError:
        raise
    except RecursionError:
        raise InvalidScenarioError(
            f"{path} has tables or lists inside each other too deep to be read"
        ) from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of 5000 digits
        raise InvalidScenarioError(f"{path} is not valid TOML: {error}") from None
