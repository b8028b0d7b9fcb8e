"""Every error of the package names its problem by a code that outlives its sentence."""

import ast
import pickle
import re
from collections import defaultdict
from pathlib import Path

import pytest

from refusals import refused
from veilsum.errors import InvalidInputError, VeilsumError

SOURCE = Path(__file__).parents[2] / "src" / "veilsum"
CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+){0,3}")
# Raised in files and where errors are passed on: the class is the caller's choice.
CHOSEN = re.compile(r"kind|(\w+\.)*(error|damaged)|type\(error\)")
# Problems that one module reports as errors of two classes.
BOTH = {
    ("graphs/topology.py", "unknown-party"),
    ("masks/fixed_point.py", "not-finite"),
    ("privacy/divergence.py", "wrong-shape"),
}


def errors_of(trees):
    """Return the names of all subclasses of VeilsumError."""
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    ours = {VeilsumError.__name__}
    while more := {name for name, above in bases.items() if above & ours} - ours:
        ours |= more
    return ours


def constructions(tree, ours):
    """Yield calls that construct an error: by its class, or raised by a chosen one."""
    raised = {id(n.exc) for n in ast.walk(tree) if isinstance(n, ast.Raise)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ours or (id(node) in raised and CHOSEN.fullmatch(name)):
                yield node


def problem_of(call):
    """Return the code of a construction; None if it has none that is allowed."""
    for word in call.keywords:
        if word.arg == "code":
            match word.value:
                case ast.Constant(value=str(code)) if CODE.fullmatch(code):
                    return code
                case ast.Attribute(attr="code") | ast.Name(id="code"):
                    return ast.unparse(word.value)  # passed on
    return None


@pytest.fixture(scope="module")
def trees():
    return {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text())
        for path in sorted(SOURCE.rglob("*.py"))
        if path.parts[-2:] != ("cli", "app.py")  # turns errors into those of click
    }


@pytest.fixture(scope="module")
def ours(trees):
    return errors_of(trees)


def without_code(trees, ours):
    return [
        f"{name}:{call.lineno}"
        for name, tree in trees.items()
        for call in constructions(tree, ours)
        if problem_of(call) is None
    ]


def test_every_error_has_a_code(trees, ours):
    assert without_code(trees, ours) == []


@pytest.mark.parametrize(
    "line",
    [
        'raise InvalidInputError("no")',
        'raise InvalidInputError("no", code="")',
        'raise InvalidInputError("no", code="Two Words")',
        'raise InvalidInputError("no", code="one-two-three-four-five")',
        'raise InvalidInputError("no", code=f"{why}")',
        "raise type(error)(str(error))",
    ],
)
def test_an_error_without_a_code_would_be_seen(ours, line):
    assert without_code({"planted.py": ast.parse(line)}, ours) == ["planted.py:1"]


def classes_of_codes(trees, ours):
    """Return the codes of each module that errors of several classes share."""
    found = defaultdict(set)
    for name, tree in trees.items():
        for call in constructions(tree, ours):
            if (kind := ast.unparse(call.func)) in ours:
                found[name, problem_of(call)].add(kind)
    return {
        (name, code)
        for (name, code), kinds in found.items()
        if len(kinds) > 1 and code != "internal" and "code" not in code.split(".")
    }


def test_a_code_is_of_one_kind_of_error_in_a_module(trees, ours):
    assert classes_of_codes(trees, ours) == BOTH


def test_codes_survive_a_process():
    """Errors of workers come back pickled."""
    error = pickle.loads(pickle.dumps(InvalidInputError("no", code="unknown-family")))
    assert (str(error), error.code) == ("no", "unknown-family")
    assert VeilsumError("no").code == ""


def test_a_wrong_code_or_a_missing_value_is_noticed():
    for code, mentions in (("other", ()), ("unknown-family", ["9"])):
        with pytest.raises(AssertionError), refused(code, mentions=mentions):
            raise InvalidInputError("no", code="unknown-family")
