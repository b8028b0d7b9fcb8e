"""Which method may be used for what."""

import subprocess
import sys
from dataclasses import fields, replace
from itertools import product

import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.domains import WholeSpace
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.base import EVERY_FAULT, MethodInputs
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.extra import Extra
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.nids import Nids
from veilsum.minimise.methods.push_pull import PushPull
from veilsum.minimise.methods.registry import (
    ITERATIVE,
    UNBORNE,
    MethodNeeds,
    check_method_fits,
    choose_method,
    method_named,
    method_objection,
)
from veilsum.minimise.methods.running_sums import RunningSums

RING = Topology.family("ring:5")
LOSSY = frozenset({"loss"})
NAMES = [method.name for method in ITERATIVE]
VALUES = {
    field.name: (frozenset(), LOSSY) if field.name == "faults" else (False, True)
    for field in fields(MethodNeeds)
    if field.name != "condition"
}
every_need = st.builds(
    MethodNeeds,
    condition=st.none() | st.floats(1.0, 1e6),
    **{name: st.sampled_from(values) for name, values in VALUES.items()},
)


@each(
    ("needs", "expected"),
    [
        (MethodNeeds(), "gradient-tracking"),
        (MethodNeeds(condition=30.0), "gradient-tracking"),
        (MethodNeeds(condition=31.0), "accelerated"),
        (MethodNeeds(convex_locals=False, constrained=True), "gradient-tracking"),
        (MethodNeeds(directed=True), "push-pull"),
        (MethodNeeds(directed=True, condition=1e4), "push-pull"),
        (MethodNeeds(faults=LOSSY), "running-sums"),
        (MethodNeeds(faults=LOSSY, directed=True, convex_locals=False), "running-sums"),
        (MethodNeeds(faults=LOSSY, constrained=True, bounded=True), "dgd"),
        (MethodNeeds(faults=frozenset({"changing"})), "gradient-tracking"),
        (
            MethodNeeds(faults=frozenset({"changing"}), condition=31.0),
            "gradient-tracking",
        ),
        (MethodNeeds(strongly_convex=False), "nids"),
        (
            MethodNeeds(
                strongly_convex=False, constrained=True, bounded=True, recentred=True
            ),
            "nids",
        ),
        (MethodNeeds(strongly_convex=False, constrained=True, bounded=True), "dgd"),
        (
            MethodNeeds(
                strongly_convex=False,
                convex_locals=False,
                constrained=True,
                bounded=True,
            ),
            "dgd",
        ),
    ],
    ids=str,
)
def test_auto_chooses(needs, expected):
    assert choose_method(needs).name == expected


@each(
    ("name", "needs", "words", "instead"),
    [
        (
            "nids",
            MethodNeeds(convex_locals=False),
            "convex by itself",
            "gradient-tracking",
        ),
        (
            "extra",
            MethodNeeds(convex_locals=False),
            "convex by itself",
            "gradient-tracking",
        ),
        ("gradient-tracking", MethodNeeds(directed=True), "one-way links", "push-pull"),
        ("accelerated", MethodNeeds(faults=LOSSY), "message is lost", "running-sums"),
        ("push-pull", MethodNeeds(faults=LOSSY), "message is lost", "running-sums"),
        (
            "push-pull",
            MethodNeeds(constrained=True),
            "whole space",
            "gradient-tracking",
        ),
        ("accelerated", MethodNeeds(strongly_convex=False), "strongly convex", "nids"),
        ("dgd", MethodNeeds(), "bounded domain", "gradient-tracking"),
        (
            "nids",
            MethodNeeds(constrained=True),
            "draw them together",
            "gradient-tracking",
        ),
        ("dgd", MethodNeeds(directed=True, constrained=True), "one-way links", None),
    ],
)
def test_refusals_say_why_and_what_instead(name, needs, words, instead):
    with pytest.raises(InvalidInputError) as told:
        check_method_fits(method_named(name), needs)
    assert str(told.value).startswith(f"{name} ")
    assert words in str(told.value)
    assert str(told.value).partition("; use ")[2] == (instead or "")


def test_what_fits_is_not_refused():
    check_method_fits(Nids, MethodNeeds())
    check_method_fits(Dgd, MethodNeeds(constrained=True, bounded=True))
    check_method_fits(RunningSums, MethodNeeds(faults=LOSSY, directed=True))


@given(every_need)
def test_auto_never_chooses_what_it_would_refuse(needs):
    fitting = {
        method for method in ITERATIVE if method_objection(method, needs) is None
    }
    if not fitting:
        with refused("no-method-fits") as told:
            choose_method(needs)
        bearing = [one for one in ITERATIVE if needs.faults <= one.traits.bears]
        assert all(f"{one.name} " in str(told.value) for one in bearing)
        return
    chosen = choose_method(needs)
    assert chosen in fitting
    check_method_fits(chosen, needs)
    for method in set(ITERATIVE) - fitting:
        with refused("method-unfit", mentions=(chosen.name,)):
            check_method_fits(method, needs)


@given(
    every_need,
    st.sampled_from(["directed", "faults"]),
    st.sampled_from(list(ITERATIVE)),
)
def test_a_harder_problem_admits_no_more_methods(needs, harder, method):
    easy, hard = VALUES[harder]
    if method_objection(method, replace(needs, **{harder: hard})) is None:
        assert method_objection(method, replace(needs, **{harder: easy})) is None


def test_all_faults_that_are_not_borne_are_said_at_once():
    said = method_objection(
        Nids, MethodNeeds(faults=frozenset({"loss", "changing", "quantise"}))
    )
    assert said == f"{UNBORNE['loss']} and {UNBORNE['changing']}"
    assert UNBORNE.keys() == EVERY_FAULT


@pytest.mark.parametrize("name", ["extra", "gradient-tracking"])
def test_what_needs_bounds_says_where_a_simulation_finds_them(name):
    """Whether the problem has none, or the method finds none."""
    with pytest.raises(InvalidInputError, match="bounds_from_costs=True"):
        method_named(name).made(
            MethodInputs(domain=WholeSpace(2), topology=RING, mixing="metropolis")
        )
    if method_named(name).traits.strongly_convex:
        said = method_objection(method_named(name), MethodNeeds(strongly_convex=False))
        assert "bounds_from_costs=True" in said


def test_some_problems_have_no_method_at_all():
    with refused("no-method-fits"):
        choose_method(MethodNeeds(directed=True, strongly_convex=False))


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with refused("unknown-method", mentions=("nids",)):
        method_named("nid")


METHODS = {
    "extra": Extra(WholeSpace(2), 0.1),
    "nids": Nids(WholeSpace(2), 0.1),
    "gradient-tracking": GradientTracking(WholeSpace(2), 0.1),
    "accelerated": AcceleratedTracking(WholeSpace(2), 2.0, 1.0),
    "push-pull": PushPull(WholeSpace(2), 0.1),
    "running-sums": RunningSums(WholeSpace(2), 0.1),
}


def test_every_method_is_looked_at():
    assert sorted([*METHODS, "dgd"]) == sorted(NAMES)


@pytest.mark.parametrize("name", METHODS)
def test_traits_say_of_messages_what_the_methods_do(name, problem, network):
    method, has = METHODS[name], method_named(name).traits
    cost = problem.masked(network("regular").graph, 0.0)
    method = replace(method, domain=WholeSpace(5))
    state, rounds = method.begin(0.0 * problem.vectors, cost), 0
    while state.iteration == 0:
        told, parts = method.outgoing(state), method.parts(state)
        assert len(parts) == has.vectors == told.shape[1] // 5
        assert (set(parts) == {"symmetric"}) == has.symmetric
        state, rounds = method.advance(state, told, cost), rounds + 1
    assert method.rounds_per_iteration == rounds


def test_needs_are_told_apart_by_every_flag():
    """No flag is there for nothing: each changes the answer of some problem."""
    for flag, (first, second) in VALUES.items():
        changed = False
        for values in product(*VALUES.values()):
            needs = MethodNeeds(**dict(zip(VALUES, values, strict=True)))
            pair = (replace(needs, **{flag: value}) for value in (first, second))
            one, other = (
                [method_objection(m, each) for m in ITERATIVE] for each in pair
            )
            changed |= one != other
        assert changed, flag


NEWCOMER = """
from dataclasses import dataclass
from typing import ClassVar
from veilsum.minimise.methods import registry
from veilsum.minimise.methods.nids import Nids

@dataclass(frozen=True)
class Newcomer(Nids):
    name: ClassVar[str] = "newcomer"

registry.ITERATIVE = (*registry.ITERATIVE, Newcomer)

import veilsum as vs
from veilsum.cli.solve import METHODS

assert "newcomer" in METHODS
settings = vs.minimise.Settings(method="newcomer", smooth=2.0, iterations=60)
for rounded in (None, vs.minimise.LinkFaults(quantise=1e-9)):
    run = vs.solve(
        [vs.minimise.Cost.squared_distance([k]) for k in (1.0, 2.0, 6.0)],
        corrupted=(),
        domain=vs.minimise.Box(-9, 9, dim=1),
        law="lattice",
        sigma=1e3,
        settings=settings,
        faults=rounded,
        seed=0,
    )
    print(run.method, run.max_error < 1e-6)
"""


def test_a_new_method_is_one_file_and_one_line():
    """All others ask the method: settings, the command line, schedules and engines."""
    found = subprocess.run(
        [sys.executable, "-c", NEWCOMER], capture_output=True, text=True, check=False
    )
    assert found.stdout.split() == ["newcomer", "True"] * 2, found.stderr
