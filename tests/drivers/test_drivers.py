"""One scenario, two drivers: rows of an array, or machines that exchange frames."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rules import broken_rules
from veilsum.agreement.scenario import Scenario, Settings
from veilsum.costs.cost import Cost
from veilsum.costs.domains import Box
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback_solve import (
    plan_of,
    solve_in_loopback,
    traced_masked,
    world_of,
)
from veilsum.drivers.problem import Problem
from veilsum.drivers.vectorised import solve_vectorised
from veilsum.errors import InvalidInputError, ProtocolError
from veilsum.files.scenarios import read_scenario
from veilsum.graphs.topology import Topology
from veilsum.jobs.scenario_run import run_scenario
from veilsum.numbers.laws import Masks

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

EXAMPLES = Path(__file__).parents[2] / "examples"
WAYS = [
    ("one-shot", "gaussian"),
    ("one-shot", "lattice"),
    ("one-shot", "uniform"),
    ("one-shot", "none"),
    ("dgd", "gaussian"),
    ("dgd", "lattice"),
]


def shortened(name, method, law, **changes):
    grid = 40 if law in {"lattice", "uniform"} else None
    scenario = read_scenario(EXAMPLES / f"{name}.toml").altered(
        method=method, law=law, grid=grid
    )
    fields = {key: getattr(scenario, key) for key in Scenario.__dataclass_fields__}
    # So few iterations leave the parties far apart: agreement is not the point here.
    few = replace(scenario.settings, **{"iterations": 60, "tolerance": 1e3, **changes})
    return Scenario(**{**fields, "settings": few})


@pytest.mark.parametrize("name", ["paper", "rendezvous", "quadratic", "quartic"])
@pytest.mark.parametrize(("method", "law"), WAYS)
def test_both_drivers_draw_the_same_masks_and_find_the_same_answer(name, method, law):
    scenario = shortened(name, method, law)
    rows = run_scenario(scenario)
    machines = run_scenario(scenario, driver="loopback")
    ours, theirs = rows._shares.masks(), machines._shares.masks()
    assert ours.dtype == theirs.dtype
    assert ours.tobytes() == theirs.tobytes() or ours.tolist() == theirs.tolist()
    np.testing.assert_allclose(machines.estimates, rows.estimates, atol=1e-11)
    assert machines.guarantee == rows.guarantee
    assert machines.rounds == rows.rounds


def test_a_tree_gives_the_same_answer_as_flooding():
    scenario = shortened("rendezvous", "one-shot", "lattice")
    settings = replace(scenario.settings, spread="tree")
    fields = {key: getattr(scenario, key) for key in Scenario.__dataclass_fields__}
    along = run_scenario(
        Scenario(**{**fields, "settings": settings}), driver="loopback"
    )
    assert along.spread == "tree"
    assert along.minimiser.tolist() == run_scenario(scenario).minimiser.tolist()


def three(**changes):
    costs = [Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0, 4.0)]
    keys = {
        "domain": Box(-9.0, 9.0, dim=1),
        "masks": Masks("lattice", sigma=5.0),
        "settings": Settings(method="one-shot"),
    }
    return Problem.of(costs, Topology.family("complete:4"), **{**keys, **changes})


def test_a_trace_becomes_a_view():
    """What the machines published is what the coalition's view holds."""
    problem = three()
    world = world_of(problem, seed=3).run()
    run = solve_in_loopback(problem, seed=3)
    view = run.view(["1"])
    masked = traced_masked(world)
    for name, row in zip(view.honest, view.effective, strict=True):
        assert row.tolist() == masked[name].tolist()
    exact = solve_vectorised(problem, seed=3).view(["1"])
    assert view.stripped.tolist() == exact.stripped.tolist()
    assert view.known_shares.tolist() == exact.known_shares.tolist()


def test_faults_that_end_a_run_are_said_with_names_and_reasons():
    gone = Faults(crashes=tuple(Crash(name, 1, back=None) for name in ("0", "1")))
    with pytest.raises(ProtocolError, match=r"gave up; .*timeout"):
        solve_in_loopback(three(), seed=0, faults=gone)


def test_a_crash_in_the_middle_changes_nothing():
    faults = Faults(crashes=(Crash("2", 25, back=3.0),))
    world = world_of(three(), seed=1, faults=faults).run()
    assert broken_rules(world) == []
    run = solve_in_loopback(three(), seed=1, faults=faults)
    assert (
        run.minimiser.tolist() == solve_vectorised(three(), seed=1).minimiser.tolist()
    )


def test_a_local_part_of_a_cost_is_not_shared_with_the_others():
    """Stand-ins are off, and no party's work can compute with another's remainder."""
    costs = [
        Cost.from_gradient(lambda x, p=p: 2.0 * (x - p), dim=1) for p in (1.0, 2.0, 6.0)
    ]
    problem = Problem.of(
        costs,
        Topology.family("complete:3"),
        domain=Box(-9.0, 9.0, dim=1),
        masks=Masks("gaussian", sigma=1.0),
        settings=Settings(iterations=40, tolerance=10.0),
    )
    assert not plan_of(problem).policy.stand_in
    world = world_of(problem, seed=0)
    with pytest.raises(ProtocolError, match="part of their own"):
        world.works["0"].answer([np.zeros(1)], ("0", "1", "2"))
    machines = solve_in_loopback(problem, seed=0)
    rows = solve_vectorised(problem, seed=0)
    np.testing.assert_allclose(machines.estimates, rows.estimates, atol=1e-11)


def test_parties_with_other_terms_have_another_plan():
    plans = [
        three(),
        three(masks=Masks("lattice", sigma=6.0)),
        three(domain=Box(-8.0, 9.0, dim=1)),
        three(settings=Settings(method="one-shot", tolerance=1e-3)),
    ]
    assert len({plan_of(problem).digest for problem in plans}) == len(plans)
    assert plan_of(three()).digest == plan_of(three()).digest


def test_an_unknown_driver_is_refused():
    with pytest.raises(InvalidInputError, match="vectorised, loopback"):
        run_scenario(shortened("paper", "dgd", "gaussian"), driver="network")
