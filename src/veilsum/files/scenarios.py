"""Scenario files: TOML on disk to one frozen value."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from veilsum.consortium.scenario import Scenario, scenario_from
from veilsum.consortium.sections import MOST_LINKS, ReadGraph, ScenarioFile
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.files.graphs import read_topology
from veilsum.files.safe_read import read_file_contents
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import listed_names
from veilsum.reading import read_section
from veilsum.tables.schema import Schema

# Looked at before a byte is read: parsing takes a hundred times the memory.
MOST_BYTES = 64 << 20
MOST_DICTIONARY_BYTES = 8 << 20
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
    return scenario_from(read_scenario_file(path), graph_files_beside_scenario(path))


def read_scenario_file(path: Path) -> ScenarioFile:
    """Return what a scenario file says; a dictionary that it names is beside it."""
    table = read_toml_file(path)
    section = table.get("schema")
    if isinstance(section, dict) and "dictionary" in section:
        table["schema"] = _dictionary_file_beside_scenario(path, section)
    return read_section(table, ScenarioFile, "the scenario")


def _dictionary_file_beside_scenario(
    path: Path, section: dict[str, Any]
) -> dict[str, Any]:
    """Return the [schema] of the dictionary that a scenario's [schema] names."""
    name = section["dictionary"]
    if not isinstance(name, str) or not name:
        raise InvalidScenarioError(
            f"[schema] dictionary must be the name of a file, found {name!r}",
            code="wrong-value",
        )
    others = [key for key in section if key not in {"dictionary", "complete"}]
    if others:
        raise InvalidScenarioError(
            f"[schema] names the dictionary {name!r} and has {others[0]!r} as well; "
            "write it into the dictionary, so that the agreement is in one place",
            code="schema-beside-dictionary",
        )
    own = {"complete": section["complete"]} if "complete" in section else {}
    return dictionary_table(path.parent / name) | own


def dictionary_table(path: Path) -> dict[str, Any]:
    """Return the [schema] in a dictionary, a file with this section and no other."""
    table = read_toml_file(path, most_bytes=MOST_DICTIONARY_BYTES)
    section = table.get("schema")
    if set(table) != {"schema"} or not isinstance(section, dict):
        raise InvalidScenarioError(
            f"{path} is not a dictionary: it must have the section [schema] and no "
            f"other, found {listed_names([*table]) or 'none'}",
            code="not-a-dictionary",
        )
    if "dictionary" in section:
        raise InvalidScenarioError(
            f"{path} names another dictionary; write its columns into this file",
            code="nested-dictionary",
        )
    return section


def read_dictionary(path: str | Path) -> Schema:
    """Return the schema in a dictionary.

    Raises:
        InvalidScenarioError: the file is not a dictionary, or a column means nothing.
    """
    section = dictionary_table(Path(path))
    try:
        return Schema.from_table(section)
    except InvalidInputError as error:
        raise InvalidScenarioError(f"{path}: {error}", code=error.code) from None


def graph_files_beside_scenario(path: Path) -> ReadGraph:
    """Return what opens the graph files that a file names: they are beside it."""

    def read_graph(name: str, weight: str | None) -> Topology:
        return read_topology(path.parent / name, weight=weight, most_links=MOST_LINKS)

    return read_graph


def read_toml_file(path: Path, *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return the tables of a TOML file, with or without a byte order mark.

    All TOML comes through here, and whoever wrote it may mean harm: what would take
    long or fill the memory is refused first.
    """
    return toml_in_file_content(
        read_file_contents(path, most_bytes, InvalidScenarioError), str(path)
    )


def toml_in_file_content(content: bytes, name: str) -> dict[str, Any]:
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
    _check_toml_file_values(name, found)
    return found


def _check_toml_file_values(name: str, table: dict[str, Any]) -> None:
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
