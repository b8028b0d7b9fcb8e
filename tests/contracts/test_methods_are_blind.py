"""The wall around methods: they use two things of a cost, and a planted one is caught.

Types keep a method from naming anything private, an import rule keeps private modules
out of its reach, and these tests run every method there is on costs that note what is
asked of them.
"""

import ast
import importlib
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import veilsum.minimise.methods
from cases import each
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.base import Method, mix_method_messages
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.extra import Extra
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.nids import Nids
from veilsum.minimise.methods.push_pull import PushPull
from veilsum.minimise.methods.running_sums import RunningSums

REPOSITORY = Path(__file__).parents[2]
RULE = "Phase II never sees a private cost"

BOX, EVERYWHERE = Box(-5.0, 5.0, dim=2), WholeSpace(2)
METHODS = [
    Dgd(BOX),
    Dgd(BOX, gradient_at="own"),
    Extra(EVERYWHERE, 0.3),
    Nids(EVERYWHERE, 0.3),
    GradientTracking(EVERYWHERE, 0.3),
    AcceleratedTracking(EVERYWHERE, 2.0, 1.0),
    PushPull(EVERYWHERE, 0.3),
    RunningSums(EVERYWHERE, 0.3),
    Chebyshev(GradientTracking(EVERYWHERE, 0.3), 0.5, 2),
]
every_method = pytest.mark.parametrize(
    "method", METHODS, ids=lambda method: type(method).__name__
)


def modules():
    for found in pkgutil.iter_modules(veilsum.minimise.methods.__path__):
        yield importlib.import_module(f"veilsum.minimise.methods.{found.name}")


def classes():
    """All classes that are methods, wherever in the package they are written."""
    found = {
        kind
        for module in modules()
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__.startswith("veilsum.minimise.methods")
    }
    return {kind for kind in found - {Method} if {"begin", "advance"} <= set(dir(kind))}


def test_every_method_there_is_is_looked_at():
    """A new one is to be added to the list above."""
    assert classes() == {type(method) for method in METHODS}


# What methods use of a cost.


def watched(cost):
    """A stand-in for a cost, and the set of all that anybody ever asks it for."""
    asked = set()

    class Watched(EffectiveCost):
        def __getattribute__(self, name):
            if not name.startswith("__"):
                asked.add(name)
            # The real cost's own: what it looks up in itself is not noted.
            return getattr(cost, name)

    return object.__new__(Watched), asked


def some_cost(n):
    rows = np.arange(2.0 * n).reshape(n, 2) if n > 1 else np.array([1.0, -2.0])
    return EffectiveCost(Affine(2), rows, SquaredNorm(0.5))


def use(method, cost, start, weights):
    """Three iterations, and everything else that can be asked of a method."""
    state = method.begin(start, cost)
    while state.iteration < 3:
        told = method.outgoing(state)
        heard = told if told.ndim == 2 else told[None]
        mixed = mix_method_messages(weights, method.parts(state), heard)
        state = method.advance(state, mixed, cost)
        method.aim(state)
    return state


def weights_of(n):
    equal = np.full((n, n), 1.0 / n) if n > 1 else np.ones(1)
    return dict.fromkeys(("symmetric", "row", "column"), equal)


@every_method
@pytest.mark.parametrize("n", [1, 3], ids=["one party", "all parties"])
def test_a_method_asks_a_cost_for_gradients_and_nothing_else(method, n):
    cost, asked = watched(some_cost(n))
    start = np.ones((n, 2)) if n > 1 else np.ones(2)
    found = use(method, cost, start, weights_of(n))
    assert asked
    assert asked <= {"gradient", "gradient_change"}
    # The stand-in gives what the cost itself does.
    expected = use(method, some_cost(n), start, weights_of(n))
    np.testing.assert_array_equal(found.x, expected.x)


@dataclass(frozen=True)
class Curious(Dgd):
    """A planted method that reads the coefficients."""

    def advance(self, state, mixed, cost):
        return super().advance(state, mixed - cost.coefficients, cost)


@dataclass(frozen=True)
class Prying(Dgd):
    """A planted method that looks for a private handle, by a name made at run time."""

    def advance(self, state, mixed, cost):
        handle = getattr(cost, "pri" + "vate", None)
        return super().advance(state, mixed - (handle or 0.0), cost)


@pytest.mark.parametrize(
    ("method", "noted"), [(Curious(BOX), "coefficients"), (Prying(BOX), "private")]
)
def test_a_planted_method_is_caught_in_the_act(method, noted):
    cost, asked = watched(some_cost(3))
    use(method, cost, np.ones((3, 2)), weights_of(3))
    assert asked == {"gradient", noted}


@each("reach", ["value", "private", "masks", "cost", "owner"])
def test_there_is_no_private_handle_to_read(reach):
    with pytest.raises(AttributeError, match=reach):
        getattr(some_cost(3), reach)


# Ways around imports that no import rule sees.

SLY = {"__import__", "importlib", "gc", "inspect", "sys", "eval", "exec", "globals"}


def names_in(text):
    """All names a piece of code uses or imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name for alias in node.names)
            yield getattr(node, "module", None)


def test_no_method_reaches_around_the_import_rule():
    for module in modules():
        text = Path(module.__file__).read_text(encoding="utf-8")
        assert not SLY & set(names_in(text)), module.__name__


@each(
    "text",
    [
        "import importlib\n",
        "from importlib import import_module\n",
        "def f():\n    return __import__('veilsum.minimise.costs.cost')\n",
        "def f(cost):\n    import gc\n    return gc.get_referrers(cost)\n",
    ],
)
def test_such_ways_are_found(text):
    assert SLY & set(names_in(text))


# The import rule.


@pytest.fixture
def copy(tmp_path):
    """The package and its rules, to plant something in."""
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "src", tmp_path / "src", ignore=unwanted)
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(copy):
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(
        [*command, "--config", "pyproject.toml"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


needs_the_linter = pytest.mark.skipif(
    not Path(sys.executable).with_name("lint-imports").exists(),
    reason="import-linter is not installed here",
)


@needs_the_linter
def test_the_import_rule_holds_as_it_is(copy):
    found = lint_imports(copy)
    assert found.returncode == 0, found.stdout
    assert f"{RULE} KEPT" in found.stdout


@needs_the_linter
@pytest.mark.parametrize(
    "text",
    [
        "from veilsum.minimise.costs.cost import Cost\n",
        "import veilsum.masks.masking\n",
        "def late():\n    from veilsum.minimise.costs import cost\n    return cost\n",
        "from veilsum.minimise.costs.accomplice import Cost\n",
    ],
    ids=["costs", "masks", "inside a function", "by way of another module"],
)
def test_a_planted_import_breaks_the_rule(copy, text):
    house = copy / "src" / "veilsum"
    accomplice = house / "minimise" / "costs" / "accomplice.py"
    accomplice.write_text("from veilsum.minimise.costs.cost import Cost\n")
    (house / "minimise" / "methods" / "planted.py").write_text(text)
    found = lint_imports(copy)
    assert found.returncode != 0
    assert f"{RULE} BROKEN" in found.stdout
    assert "veilsum.minimise.methods.planted -> veilsum." in found.stdout


# The types.

HONEST = """
from veilsum.numbers.arrays import Vectors
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.dgd import Dgd, DgdState


class Planted(Dgd):
    def advance(self, state: DgdState, mixed: Vectors, cost: EffectiveCost) -> DgdState:
        return DgdState(mixed - cost.gradient(mixed), state.iteration + 1)
"""
ASKS = "cost.gradient(mixed)"
PLANTED = {
    "a_private_handle": (
        HONEST.replace(ASKS, "cost.private.gradient(mixed)"),
        'has no attribute "private"',
    ),
    "a_value": (
        HONEST.replace(ASKS, "mixed * cost.value(mixed)"),
        'has no attribute "value"',
    ),
    "a_cost_of_its_own": (
        "from veilsum.minimise.costs.cost import Cost\n"
        + HONEST.replace("cost: EffectiveCost", "cost: Cost"),
        'incompatible with supertype "veilsum.minimise.methods.dgd.Dgd"',
    ),
    "passing_it_on": (
        "from veilsum.minimise.costs.cost import Cost\n"
        + HONEST.replace(ASKS, "slope(cost, mixed)")
        + "\n\ndef slope(cost: Cost, x: Vectors) -> Vectors:\n"
        "    return cost.gradient(x)\n",
        'has incompatible type "EffectiveCost"; expected "Cost"',
    ),
}


@pytest.mark.slow
def test_types_let_an_honest_method_pass_and_stop_planted_ones(tmp_path):
    """One run for all: it is the reading of libraries that takes its time."""
    pytest.importorskip("mypy")
    files = {"honest": HONEST, **{name: text for name, (text, _) in PLANTED.items()}}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    found = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-color-output"),
            f"--config-file={REPOSITORY / 'pyproject.toml'}",
            *("--cache-dir", str(tmp_path / "cache")),
            *(f"{name}.py" for name in files),
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in found.stdout.splitlines() if " error: " in line]
    assert not [line for line in said if line.startswith("honest.py")], said
    for name, (_, words) in PLANTED.items():
        own = [line for line in said if line.startswith(f"{name}.py")]
        assert re.search(re.escape(words), "\n".join(own)), (name, found.stdout)
