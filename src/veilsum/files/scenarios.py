"""Scenario files: TOML on disk to one frozen value."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from veilsum.consortium.scenario import Scenario, scenario_from
from veilsum.consortium.sections import MOST_LINKS, ReadGraph, ScenarioFile
from veilsum.errors import InvalidScenarioError
from veilsum.files.graphs import read_topology
from veilsum.files.safe_read import contents
from veilsum.graphs.topology import Topology
from veilsum.reading import read

# Looked at before a byte is read: parsing takes a hundred times the memory.
MOST_BYTES = 64 << 20
# A key of n parts takes n^2 time and memory to parse: 40 KB take 24 s and 1.6 GB.
MOST_DOTS, DEEPEST, MOST_BITS = 20, 64, 1023
# Comments and quoted texts, each to its end or, if that is missing, as far as it goes.
_TEXTS = re.compile(
    r"""\#[^\n]*+
    |\"{3}(?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*+(?:"{3,5}|\\?\Z)
    |'{3}(?:[^']|'{1,2}(?!'))*+(?:'{3,5}|\Z)
    |"(?:[^"\\\n]|\\.)*+"?
    |'[^'\n]*+'?""",
    re.VERBOSE,
)
# From where a key or a heading begins, so that no character is looked at twice.
_LONG_KEY = re.compile(rf"(?<![\w. \t-])(?:[\w \t-]*+\.){{{MOST_DOTS + 1}}}")


def read_scenario(path: str | Path) -> Scenario:
    """Return the scenario in a TOML file; graph files are found beside it."""
    path = Path(path)
    return scenario_from(read_scenario_file(path), graphs_beside(path))


def read_scenario_file(path: Path) -> ScenarioFile:
    return read(read_toml(path), ScenarioFile, "the scenario")


def graphs_beside(path: Path) -> ReadGraph:
    """Return what opens the graph files that a file names: they are beside it."""

    def read_graph(name: str, weight: str | None) -> Topology:
        return read_topology(path.parent / name, weight=weight, most_links=MOST_LINKS)

    return read_graph


def read_toml(path: Path, *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return the tables of a TOML file, with or without a byte order mark.

    All TOML comes through here, and whoever wrote it may mean harm: what would take
    long or fill the memory is refused first.
    """
    return toml_in(contents(path, most_bytes, InvalidScenarioError), str(path))


def toml_in(content: bytes, name: str) -> dict[str, Any]:
    """Return the same of a file that has been read; messages call it by a name."""
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        if _LONG_KEY.search(_TEXTS.sub("s", text)):
            raise InvalidScenarioError(
                f"{name} has a key with more than {MOST_DOTS} dots, such as a.b.c, and "
                "no section goes that deep",
                code="nested-too-deep",
            )
        found = tomllib.loads(text)
    except RecursionError:
        raise InvalidScenarioError(
            f"{name} has tables or lists inside each other too deep to be read",
            code="nested-too-deep",
        ) from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of 5000 digits
        if isinstance(error, InvalidScenarioError):
            raise
        raise InvalidScenarioError(
            f"{name} is not valid TOML: {error}", code="not-toml"
        ) from None
    _check_values(name, found)
    return found


def _check_values(name: str, table: dict[str, Any]) -> None:
    """Refuse what float64 cannot hold, and what is too deep to be shown or copied.

    Hexadecimal numbers may have any length. Level by level, not by recursion.
    """
    level: list[Any] = [table]
    for _ in range(DEEPEST):
        inside: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inside += one.values()
            elif isinstance(one, list):
                inside += one
            elif isinstance(one, int) and one.bit_length() > MOST_BITS:
                raise InvalidScenarioError(
                    f"{name} has a whole number beyond 1e308: correct it",
                    code="number-too-large",
                )
        level = inside
    if level:
        raise InvalidScenarioError(
            f"{name} has tables or lists inside each other more than {DEEPEST} deep, "
            "and no section has that",
            code="nested-too-deep",
        )
