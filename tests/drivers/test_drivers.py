"""One scenario, two drivers: rows of an array, or machines that exchange frames."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cases import each
from refusals import refused
from rules import broken_rules
from veilsum.consortium.scenario import Scenario, Settings
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import Loopback
from veilsum.errors import ProtocolError
from veilsum.files.scenarios import read_scenario
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.solve import run_scenario, solve
from veilsum.protocol.codec import Codec

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
    few = replace(scenario.settings, **{"iterations": 30, "tolerance": 1e3, **changes})
    return Scenario(**{**fields, "settings": few})


@each("name", ["paper", "rendezvous", "quadratic", "quartic"])
@each(("method", "law"), WAYS)
def test_both_drivers_draw_the_same_masks_and_find_the_same_answer(name, method, law):
    scenario = shortened(name, method, law)
    rows = run_scenario(scenario)
    machines = run_scenario(scenario, driver="loopback")
    ours, theirs = rows.seen.shares.masks(), machines.seen.shares.masks()
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
        "sigma": 5.0,
        "law": "lattice",
        "settings": Settings(method="one-shot"),
    }
    return solve(
        costs,
        topology=Topology.family("complete:4"),
        corrupted=(),
        **{**keys, **changes},
    )


class Witness:
    """Takes part for nobody, and keeps what was to be done."""

    party = None

    def carry_out(self, assignment):
        self.assignment = assignment
        raise _SeenError


class _SeenError(Exception):
    pass


def assignment(make, **changes):
    witness = Witness()
    with pytest.raises(_SeenError):
        make(driver=witness, **changes)
    return witness.assignment


def test_a_trace_becomes_a_view():
    """What the machines published is what the coalition's view holds."""
    world = Loopback(seed=3).world(assignment(three))
    world.watch = ("masked/",)
    world.run()
    view = three(driver="loopback", seed=3).view(["1"])
    codec = Codec(world.plan.size)
    for name, row in zip(view.honest, view.effective, strict=True):
        masked = codec.decode(world.written[name, "masked/0"])
        assert row.tolist() == masked.numbers.tolist()
    exact = three(seed=3).view(["1"])
    assert view.stripped.tolist() == exact.stripped.tolist()
    assert view.known_shares.tolist() == exact.known_shares.tolist()


def test_faults_that_end_a_run_are_said_with_names_and_reasons():
    gone = Faults(crashes=tuple(Crash(name, 1, back=None) for name in ("0", "1")))
    with refused("given-up", ProtocolError):
        three(driver=Loopback(seed=0, faults=gone))


def test_a_crash_in_the_middle_changes_nothing():
    faults = Faults(crashes=(Crash("2", 25, back=3.0),))
    driver = Loopback(seed=1, faults=faults)
    world = driver.world(assignment(three)).run()
    assert broken_rules(world) == []
    run = three(driver=driver)
    assert run.minimiser.tolist() == three(seed=1).minimiser.tolist()


def test_a_local_part_of_a_cost_is_not_shared_with_the_others():
    """Stand-ins are off, and no party's work can compute with another's remainder."""
    costs = [
        Cost.from_gradient(lambda x, p=p: 2.0 * (x - p), dim=1) for p in (1.0, 2.0, 6.0)
    ]

    def local(**options):
        return solve(
            costs,
            topology=Topology.family("complete:3"),
            corrupted=(),
            domain=Box(-9.0, 9.0, dim=1),
            sigma=1.0,
            settings=Settings(iterations=40, tolerance=10.0),
            **options,
        )

    task = assignment(local)
    assert not task.plan.policy.stand_in
    work = task.works["0"]
    with refused("internal", ProtocolError):
        work.answer([np.zeros(1)], ("0", "1", "2"))
    with refused("internal", ProtocolError):
        work.recipe.remainder.gradient(np.zeros((3, 1)))
    machines, rows = local(driver="loopback", seed=0), local(seed=0)
    np.testing.assert_allclose(machines.estimates, rows.estimates, atol=1e-11)


def test_parties_with_other_terms_have_another_plan():
    changes = [
        {},
        {"sigma": 6.0},
        {"domain": Box(-8.0, 9.0, dim=1)},
        {"settings": Settings(method="one-shot", tolerance=1e-3)},
    ]
    plans = [assignment(three, run="a", **change).plan for change in changes]
    assert len({plan.digest for plan in plans}) == len(plans)
    assert assignment(three, run="a").plan.digest == plans[0].digest
    assert assignment(three, run="b").plan.digest != plans[0].digest


def test_an_unknown_driver_is_refused():
    with refused("unknown-driver"):
        run_scenario(shortened("paper", "dgd", "gaussian"), driver="network")
