"""Machines that install `requirements/run.txt` alone can take part and host."""

import ast
import re
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from cases import each

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "veilsum"
# Everything that belongs to real parties and pages, and the command on top of it.
PARTS = [SOURCE / one for one in ("surveys", "net", "party", "web")]


def imported(file):
    """Packages of others that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name.split(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


@cache
def homes():
    return packages_distributions()


def pinned():
    text = (ROOT / "requirements" / "run.txt").read_text("utf-8")
    return {canonical(one) for one in re.findall(r"^([\w.-]+)==", text, re.M)}


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@each("command", ["serve", "collect", "relay"])
def test_run_requirements_have_all_that_a_command_imports(command):
    files = [SOURCE / "cli" / f"{command}.py"]
    files += [file for part in PARTS for file in part.glob("*.py")]
    names = {name for file in files for name in imported(file)}
    own = {*sys.stdlib_module_names, "veilsum"}
    wanted = {canonical(one) for name in names - own for one in homes()[name]}
    assert wanted >= {"click", "cryptography", "starlette", "uvicorn", "websockets"}
    assert wanted <= pinned()
