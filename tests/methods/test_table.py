"""Which method may be used for what."""

from dataclasses import fields, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum.costs.domains import WholeSpace
from veilsum.errors import InvalidInputError
from veilsum.methods.accelerated import AcceleratedTracking
from veilsum.methods.extra import Extra
from veilsum.methods.gradient_tracking import GradientTracking
from veilsum.methods.nids import Nids
from veilsum.methods.push_pull import PushPull
from veilsum.methods.running_sums import RunningSums
from veilsum.methods.table import (
    TABLE,
    Needs,
    Refusal,
    choose,
    objection,
    refusal,
    traits,
)

FLAGS = [field.name for field in fields(Needs) if field.name != "condition"]
every_need = st.builds(
    Needs,
    condition=st.none() | st.floats(1.0, 1e6),
    **{name: st.booleans() for name in FLAGS},
)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (Needs(), "gradient-tracking"),
        (Needs(condition=30.0), "gradient-tracking"),
        (Needs(condition=31.0), "accelerated"),
        (Needs(convex_locals=False, constrained=True), "gradient-tracking"),
        (Needs(directed=True), "push-pull"),
        (Needs(directed=True, condition=1e4), "push-pull"),
        (Needs(lossy=True), "running-sums"),
        (Needs(lossy=True, directed=True, convex_locals=False), "running-sums"),
        (Needs(lossy=True, constrained=True, bounded=True), "dgd"),
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
    assert choose(needs) == expected


@pytest.mark.parametrize(
    ("name", "needs", "words", "instead"),
    [
        ("nids", Needs(convex_locals=False), "convex by itself", "gradient-tracking"),
        ("extra", Needs(convex_locals=False), "convex by itself", "gradient-tracking"),
        ("gradient-tracking", Needs(directed=True), "one-way links", "push-pull"),
        ("accelerated", Needs(lossy=True), "message is lost", "running-sums"),
        ("push-pull", Needs(lossy=True), "message is lost", "running-sums"),
        ("push-pull", Needs(constrained=True), "whole space", "gradient-tracking"),
        ("accelerated", Needs(strongly_convex=False), "strongly convex", "nids"),
        ("dgd", Needs(), "bounded domain", "gradient-tracking"),
        ("nids", Needs(constrained=True), "draw them together", "gradient-tracking"),
        ("dgd", Needs(directed=True, constrained=True), "one-way links", None),
    ],
)
def test_refusals_say_why_and_what_instead(name, needs, words, instead):
    found = refusal(name, needs)
    assert isinstance(found, Refusal)
    assert found.reason.startswith(f"{name} ")
    assert words in found.reason
    assert found.instead == instead


def test_what_fits_is_not_refused():
    assert refusal("nids", Needs()) is None
    assert refusal("dgd", Needs(constrained=True, bounded=True)) is None
    assert refusal("running-sums", Needs(lossy=True, directed=True)) is None


@given(every_need)
def test_auto_never_chooses_what_it_would_refuse(needs):
    fitting = {name for name in TABLE if objection(name, needs) is None}
    if not fitting:
        with pytest.raises(InvalidInputError, match="no iterative method fits") as told:
            choose(needs)
        assert all(name in str(told.value) for name in TABLE)
        return
    chosen = choose(needs)
    assert chosen in fitting
    assert refusal(chosen, needs) is None
    for name in TABLE.keys() - fitting:
        assert refusal(name, needs).instead == chosen


@given(every_need, st.sampled_from(["directed", "lossy"]), st.sampled_from(list(TABLE)))
def test_a_harder_problem_admits_no_more_methods(needs, harder, name):
    if objection(name, replace(needs, **{harder: True})) is None:
        assert objection(name, replace(needs, **{harder: False})) is None


def test_some_problems_have_no_method_at_all():
    with pytest.raises(InvalidInputError, match="no iterative method fits"):
        choose(Needs(directed=True, strongly_convex=False))


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(InvalidInputError, match=r"did you mean 'nids'\?"):
        traits("nid")


METHODS = {
    "extra": Extra(WholeSpace(2), 0.1),
    "nids": Nids(WholeSpace(2), 0.1),
    "gradient-tracking": GradientTracking(WholeSpace(2), 0.1),
    "accelerated": AcceleratedTracking(WholeSpace(2), 2.0, 1.0),
    "push-pull": PushPull(WholeSpace(2), 0.1),
    "running-sums": RunningSums(WholeSpace(2), 0.1),
}


def test_every_method_is_in_the_table():
    assert METHODS.keys() | {"dgd"} == TABLE.keys()


@pytest.mark.parametrize("name", METHODS)
def test_the_table_says_of_messages_what_the_methods_do(name, problem, network):
    method, has = METHODS[name], traits(name)
    assert method.rounds_per_iteration == has.exchanges
    cost = problem.masked(network("regular").graph, 0.0)
    method = replace(method, domain=WholeSpace(5))
    parts = method.parts(method.begin(0.0 * problem.vectors, cost))
    assert len(parts) == has.vectors
    assert (set(parts) == {"symmetric"}) == has.symmetric


def test_needs_are_told_apart_by_every_flag():
    """No flag is there for nothing: each changes the answer of some problem."""
    for flag in FLAGS:
        changed = False
        for values in product([False, True], repeat=len(FLAGS)):
            needs = Needs(**dict(zip(FLAGS, values, strict=True)))
            other = replace(needs, **{flag: not getattr(needs, flag)})
            changed |= any(objection(n, needs) != objection(n, other) for n in TABLE)
        assert changed, flag
