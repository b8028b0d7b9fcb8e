"""The page about the paper is whole, and everything it names is there."""

import importlib
import re
import shlex
from functools import cache
from pathlib import Path

import click
import pytest

from cases import each
from veilsum.cli.app import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/theory/paper.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| Paper |")
]
QUOTED = re.findall(r"`([^`\n]+)`", PAGE)
EQUATIONS = 28  # numbered in the paper, in the order of its source


def test_every_numbered_statement_has_its_row():
    first = " ".join(row[0] for row in ROWS)
    assert [f"({n})" for n in range(1, EQUATIONS + 1) if f"({n})" not in first] == []
    wanted = [f"Algorithm 1, line {n}" for n in range(1, 5)]
    wanted += ["Definition 1", "Definition 2", "Lemma 1", "Lemma 2", "Theorem 1"]
    wanted += ["Corollary 1", "Section III-B", "Section V", "Fig. 1", "Fig. 2"]
    assert [one for one in wanted if one not in first] == []


def test_every_row_has_code_and_a_test():
    assert len(ROWS) > 35
    for row in ROWS:
        assert "`veilsum." in row[2], row
        assert "`tests/" in row[2], row


@cache
def text_of(file):
    return (ROOT / file).read_text("utf-8")


@each("name", sorted({q for q in QUOTED if q.startswith("tests/")}))
def test_every_test_is_there(name):
    file, _, test = name.partition("::")
    if test:
        assert f"\ndef {test}(" in text_of(file)
    else:
        assert (ROOT / file).exists()


@each("name", sorted({q for q in QUOTED if q.startswith("veilsum.")}))
def test_every_name_is_there(name):
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return
    pytest.fail(name)


@pytest.mark.parametrize(
    "line", sorted({q for q in QUOTED if q.startswith("veilsum ")})
)
def test_every_command_can_be_typed(line, monkeypatch):
    """Parsed, options and files included; what it answers is tested elsewhere."""
    monkeypatch.chdir(ROOT)
    name, *rest = shlex.split(line)[1:]
    command = app.get_command(click.Context(app), name)
    assert command.make_context(name, rest).params
