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
from veilsum.minimise.methods.base import EVERY_FAULT, Given
from veilsum.minimise.methods.choosing import (
    ITERATIVE,
    UNBORNE,
    Needs,
    called,
    check_fits,
    choose,
    objection,
)
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.extra import Extra
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.nids import Nids
from veilsum.minimise.methods.push_pull import PushPull
from veilsum.minimise.methods.running_sums import RunningSums

RING = Topology.family("ring:5")
LOSSY = frozenset({"loss"})
NAMES = [method.name for method in ITERATIVE]
VALUES = {
    field.name: (frozenset(), LOSSY) if field.name == "faults" else (False, True)
    for field in fields(Needs)
    if field.name != "condition"
}
every_need = st.builds(
    Needs,
    condition=st.none() | st.floats(1.0, 1e6),
    **{name: st.sampled_from(values) for name, values in VALUES.items()},
)


@each(
    ("needs", "expected"),
    [
        (Needs(), "gradient-tracking"),
        (Needs(condition=30.0), "gradient-tracking"),
        (Needs(condition=31.0), "accelerated"),
        (Needs(convex_locals=False, constrained=True), "gradient-tracking"),
        (Needs(directed=True), "push-pull"),
        (Needs(directed=True, condition=1e4), "push-pull"),
        (Needs(faults=LOSSY), "running-sums"),
        (Needs(faults=LOSSY, directed=True, convex_locals=False), "running-sums"),
        (Needs(faults=LOSSY, constrained=True, bounded=True), "dgd"),
        (Needs(faults=frozenset({"changing"})), "gradient-tracking"),
        (Needs(faults=frozenset({"changing"}), condition=31.0), "gradient-tracking"),
        (Needs(strongly_convex=False), "nids"),
        (
            Needs(
                strongly_convex=False, constrained=True, bounded=True, recentred=True
            ),
            "nids",
        ),
        (Needs(strongly_convex=False, constrained=True, bounded=True), "dgd"),
        (
            Needs(
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
    assert choose(needs).name == expected


@each(
    ("name", "needs", "words", "instead"),
    [
        ("nids", Needs(convex_locals=False), "convex by itself", "gradient-tracking"),
        ("extra", Needs(convex_locals=False), "convex by itself", "gradient-tracking"),
        ("gradient-tracking", Needs(directed=True), "one-way links", "push-pull"),
        ("accelerated", Needs(faults=LOSSY), "message is lost", "running-sums"),
        ("push-pull", Needs(faults=LOSSY), "message is lost", "running-sums"),
        ("push-pull", Needs(constrained=True), "whole space", "gradient-tracking"),
        ("accelerated", Needs(strongly_convex=False), "strongly convex", "nids"),
        ("dgd", Needs(), "bounded domain", "gradient-tracking"),
        ("nids", Needs(constrained=True), "draw them together", "gradient-tracking"),
        ("dgd", Needs(directed=True, constrained=True), "one-way links", None),
    ],
)
def test_refusals_say_why_and_what_instead(name, needs, words, instead):
    with pytest.raises(InvalidInputError) as told:
        check_fits(called(name), needs)
    assert str(told.value).startswith(f"{name} ")
    assert words in str(told.value)
    assert str(told.value).partition("; use ")[2] == (instead or "")


def test_what_fits_is_not_refused():
    check_fits(Nids, Needs())
    check_fits(Dgd, Needs(constrained=True, bounded=True))
    check_fits(RunningSums, Needs(faults=LOSSY, directed=True))


@given(every_need)
def test_auto_never_chooses_what_it_would_refuse(needs):
    fitting = {method for method in ITERATIVE if objection(method, needs) is None}
    if not fitting:
        with refused("no-method-fits") as told:
            choose(needs)
        bearing = [one for one in ITERATIVE if needs.faults <= one.traits.bears]
        assert all(f"{one.name} " in str(told.value) for one in bearing)
        return
    chosen = choose(needs)
    assert chosen in fitting
    check_fits(chosen, needs)
    for method in set(ITERATIVE) - fitting:
        with refused("method-unfit", mentions=(chosen.name,)):
            check_fits(method, needs)


@given(
    every_need,
    st.sampled_from(["directed", "faults"]),
    st.sampled_from(list(ITERATIVE)),
)
def test_a_harder_problem_admits_no_more_methods(needs, harder, method):
    easy, hard = VALUES[harder]
    if objection(method, replace(needs, **{harder: hard})) is None:
        assert objection(method, replace(needs, **{harder: easy})) is None


def test_all_faults_that_are_not_borne_are_said_at_once():
    said = objection(Nids, Needs(faults=frozenset({"loss", "changing", "quantise"})))
    assert said == f"{UNBORNE['loss']} and {UNBORNE['changing']}"
    assert UNBORNE.keys() == EVERY_FAULT


@pytest.mark.parametrize("name", ["extra", "gradient-tracking"])
def test_what_needs_bounds_says_where_a_simulation_finds_them(name):
    """Whether the problem has none, or the method finds none."""
    with pytest.raises(InvalidInputError, match="bounds_from_costs=True"):
        called(name).made(
            Given(domain=WholeSpace(2), topology=RING, mixing="metropolis")
        )
    if called(name).traits.strongly_convex:
        said = objection(called(name), Needs(strongly_convex=False))
        assert "bounds_from_costs=True" in said


def test_some_problems_have_no_method_at_all():
    with refused("no-method-fits"):
        choose(Needs(directed=True, strongly_convex=False))


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with refused("unknown-method", mentions=("nids",)):
        called("nid")


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
    method, has = METHODS[name], called(name).traits
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
            needs = Needs(**dict(zip(VALUES, values, strict=True)))
            pair = (replace(needs, **{flag: value}) for value in (first, second))
            one, other = ([objection(m, each) for m in ITERATIVE] for each in pair)
            changed |= one != other
        assert changed, flag


NEWCOMER = """
from dataclasses import dataclass
from typing import ClassVar
from veilsum.minimise.methods import choosing
from veilsum.minimise.methods.nids import Nids

@dataclass(frozen=True)
class Newcomer(Nids):
    name: ClassVar[str] = "newcomer"

choosing.ITERATIVE = (*choosing.ITERATIVE, Newcomer)

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
