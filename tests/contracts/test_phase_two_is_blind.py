"""Phase II receives effective costs and nothing private."""

import ast
import gc
import importlib.util
import types
from pathlib import Path

import numpy as np
import pytest

import veilsum.minimise.methods
from cases import each
from veils import veil
from veilsum.consortium.scenario import Settings
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import GaussianMasks, check_mask_sigma
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.minimise import arrays, solve as solve_module
from veilsum.minimise.costs.cost import Cost, cost_coefficient_rows
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.methods.dgd import Dgd, DgdState

FORBIDDEN = (
    "veilsum.minimise.costs.cost",
    "veilsum.masks.masking",
    "veilsum.privacy",
)
METHODS = sorted(Path(veilsum.minimise.methods.__path__[0]).glob("*.py"))


def imports_of(path):
    """Every module a file imports anywhere in it, absolutely named."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            found |= {node.module}
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def source_of(module):
    spec = importlib.util.find_spec(module)
    return Path(spec.origin) if spec and spec.origin else None


def is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def everything_behind(path):
    """The modules of this package that a file reaches through its imports."""
    reached, waiting = set(), [path]
    while waiting:
        for name in imports_of(waiting.pop()):
            if not name.startswith("veilsum") or name in reached or not is_module(name):
                continue
            reached.add(name)
            waiting.append(source_of(name))
    return reached


def test_there_are_methods_to_look_at():
    assert "dgd.py" in {path.name for path in METHODS}


@each("path", METHODS, ids=lambda path: path.stem)
def test_no_method_reaches_costs_masks_or_privacy(path):
    reached = everything_behind(path)
    assert not [name for name in reached if name.startswith(FORBIDDEN)]


def test_the_import_walk_finds_what_it_looks_for():
    """The walk is not blind itself: the simulator does reach the costs."""
    reached = everything_behind(Path(solve_module.__file__))
    assert {"veilsum.minimise.costs.cost", "veilsum.masks.masking"} <= reached


def test_an_effective_cost_offers_gradients_and_no_value():
    public = {name for name in dir(EffectiveCost) if not name.startswith("_")}
    public |= set(EffectiveCost.__dataclass_fields__)
    assert public == {
        "basis",
        "coefficients",
        "remainder",
        "gradient",
        "gradient_change",
        "rows",
    }


COSTS = {
    "affine": lambda k: Cost.affine([1.5 + k, -2.25 * k]),
    "affine with a shared square": lambda k: Cost.affine(
        [1.5 + k, 0.75], remainder=SquaredNorm(1.0)
    ),
    "different shared squares": lambda k: Cost.affine(
        [1.5 + k, 0.75], remainder=SquaredNorm(1.0 + k)
    ),
    "squared distance": lambda k: Cost.squared_distance([k, 3.5]),
    "polynomial": lambda k: Cost.polynomial([k, 1.0, 0.5, 2.0, -k], dim=2),
    "quadratic": lambda k: Cost.quadratic([[k, 1.0], [1.0, 2.0]], [k, -1.0]),
}
every_cost = pytest.mark.parametrize("make", COSTS.values(), ids=COSTS)
TRIANGLE = Topology.family("complete:3")


def veiled(make):
    costs = [make(float(k)) for k in range(1, 4)]
    law, size = GaussianMasks(check_mask_sigma(1.0)), costs[0].basis.size
    shares = draw_mask_shares(TRIANGLE, law, ShareStreams(4), size=size)
    return costs, shares, veil(costs, shares.masks())


def reachable(value):
    """Every object that can be reached from a value by following references.

    Code is shared by all and holds no party's data, so classes, modules and functions
    are not entered.
    """
    shared = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
    found, waiting = {}, [value]
    while waiting:
        item = waiting.pop()
        if id(item) in found or isinstance(item, shared):
            continue
        found[id(item)] = item
        waiting += gc.get_referents(item)
        if isinstance(item, np.ndarray) and item.base is not None:
            waiting.append(item.base)
    return list(found.values())


def holds(item, secret):
    return isinstance(item, np.ndarray) and (
        np.shares_memory(item, secret) or np.isin(secret, item).all()
    )


@every_cost
def test_no_reference_leads_from_an_effective_cost_to_a_private_one(make):
    costs, shares, effective = veiled(make)
    effective.gradient(np.ones((3, 2)))  # whatever it caches, it caches now
    items = reachable(effective)
    assert not [item for item in items if isinstance(item, Cost)]
    assert not [item for item in items if isinstance(item, type(shares))]
    for row in (*(cost.coefficients for cost in costs), *shares.masks()):
        assert not [item for item in items if holds(item, row)]


def test_the_reference_walk_finds_a_cost_that_is_there():
    """The walk is not blind itself."""
    cost = Cost.affine([1.5, 2.5])
    items = reachable({"nested": [(cost,)]})
    assert cost in items
    assert [item for item in items if holds(item, cost.coefficients)]


@every_cost
def test_a_part_of_a_stack_leads_to_no_private_cost_either(make):
    costs, _, effective = veiled(make)
    items = reachable(effective.rows(slice(0, 2)))
    assert not [item for item in items if isinstance(item, Cost)]
    for cost in costs:
        assert not [item for item in items if holds(item, cost.coefficients)]


def gradient_of_nobody(x):
    return 2.0 * x + 1.0


def test_a_local_remainder_leads_to_no_cost():
    costs = [Cost.from_gradient(gradient_of_nobody, dim=2) for _ in range(3)]
    items = reachable(veil(costs, np.ones((3, 2))))
    assert not [item for item in items if isinstance(item, Cost)]


@every_cost
def test_equal_effective_costs_make_phase_two_equal_bit_for_bit(make):
    """Two private worlds with one veil: no method can tell them apart."""
    costs, _, effective = veiled(make)
    others = [make(float(k) + 0.5) for k in range(1, 4)]
    if any(
        a.remainder != b.remainder for a, b in zip(costs, others, strict=True)
    ):  # what masks do not touch must be one and the same
        others = [Cost(c.basis, c.coefficients + 1.0, c.remainder) for c in costs]
    same = veil(others, effective.coefficients - cost_coefficient_rows(others))
    np.testing.assert_allclose(same.coefficients, effective.coefficients, rtol=1e-15)
    exact = EffectiveCost(same.basis, effective.coefficients, same.remainder)
    method = Dgd(Box(-5.0, 5.0, dim=2))
    state, twin = (method.begin(np.ones((3, 2)), effective) for _ in range(2))
    for _ in range(5):
        state = method.advance(state, state.x, effective)
        twin = method.advance(twin, twin.x, exact)
    np.testing.assert_array_equal(state.x, twin.x)


def test_a_method_s_state_is_its_estimate_and_a_counter():
    assert set(DgdState.__slots__) == {"x", "iteration"}


def test_no_private_gradient_is_evaluated_while_phase_two_runs(monkeypatch):
    running, calls, ran = [], [], []
    private, run = Cost.gradient, arrays.MinimiseJourney.run

    def watched_gradient(self, x):
        calls.append(bool(running))
        return private(self, x)

    def watched_phase_two(journey):
        running.append(True)
        ran.append(True)
        try:
            return run(journey)
        finally:
            running.clear()

    monkeypatch.setattr(Cost, "gradient", watched_gradient)
    monkeypatch.setattr(arrays.MinimiseJourney, "run", watched_phase_two)
    solve_module.solve(
        [Cost.squared_distance([float(k)]) for k in range(3)],
        topology=TRIANGLE,
        corrupted=(),
        domain=Box(-9.0, 9.0, dim=1),
        sigma=1.0,
        settings=Settings(iterations=20),
    )
    assert ran
    assert not any(calls)
