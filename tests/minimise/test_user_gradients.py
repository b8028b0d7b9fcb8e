"""Gradients that users write: in place, counted, and when they fail."""

import numpy as np
import pytest

from cases import each
from refusals import refused
from veilsum.errors import BadGradientError, InvalidInputError, ProtocolError
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.methods.link_faults import LinkFaults
from veilsum.minimise.methods.registry import ITERATIVE
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.solve import central_minimiser, solve

# What is wrong is given here on purpose, and is not stopped by its type.
pytestmark = pytest.mark.usefixtures("unchecked_shapes")

THREE = Topology.family("complete:3").renamed(("ann", "bea", "cat"))
NAMES = [method.name for method in ITERATIVE]
FIXED = [name for name in NAMES if name != "dgd"]
BOUNDS = {"smooth": 2.0, "mean_convex": 2.0}


def in_place(x):
    x *= 2.0
    return x


def pull(target):
    """The gradient of ||x - target||^2."""
    return lambda x: 2.0 * (x - target)


NOWHERE = pull(0.0)


def among_the_others(cost, gradient=NOWHERE):
    return [*(Cost.from_gradient(gradient, dim=3) for _ in range(2)), cost]


def problem(costs, method="nids", **settings):
    settings = Settings(method=method, **({} if method == "dgd" else BOUNDS) | settings)
    domain = Box(-9.0, 9.0, dim=3) if method == "dgd" else WholeSpace(3)
    law = {"law": "gaussian"} if method == "dgd" else {"law": "lattice"}
    return {"costs": costs, "domain": domain, "settings": settings, **law}


def solved(problem, driver="vectorised"):
    return solve(
        topology=THREE, corrupted=(), sigma=10.0, seed=1, driver=driver, **problem
    )


# Working in place


@each(
    ("method", "driver"),
    [*((name, "vectorised") for name in FIXED), ("nids", "loopback")],
)
def test_a_gradient_that_works_in_place_leaves_the_method_s_state_alone(method, driver):
    """At the anchor 0 it changes nothing, so that only a run can show it."""
    costs = among_the_others(Cost.from_gradient(pull(3.0), dim=3), in_place)
    run = solved(problem(costs, method, iterations=100), driver)
    pure = among_the_others(Cost.from_gradient(pull(3.0), dim=3))
    answer = central_minimiser(pure, WholeSpace(3))
    np.testing.assert_allclose(run.estimates, np.tile(answer, (3, 1)), atol=1e-6)


@pytest.mark.parametrize("gradient_at", ["mixed", "own"])
def test_dgd_s_state_is_left_alone_too(gradient_at):
    options = {"gradient_at": gradient_at, "iterations": 50}
    last = Cost.from_gradient(pull(3.0), dim=3)
    found, pure = (
        solved(problem(among_the_others(last, one), "dgd", **options))
        for one in (in_place, pull(0.0))
    )
    np.testing.assert_array_equal(found.trace.estimates, pure.trace.estimates)


# How often it is called


@each("method", NAMES)
def test_dgd_calls_a_gradient_once_in_an_iteration_and_others_twice(method):
    calls = []

    def gradient(x):
        calls.append(1)
        return pull(1.0)(x)

    costs = among_the_others(Cost.from_gradient(gradient, dim=3))
    counts = []
    for iterations in (60, 67):
        calls.clear()
        solved(problem(costs, method, iterations=iterations))
        counts.append(len(calls))
    assert counts[1] - counts[0] == (7 if method == "dgd" else 2 * 7)


# When it fails


def failing(how, *, good):
    """A gradient that fails after so many good calls."""
    left = [good + 1]  # one for the slope at the anchor

    def gradient(x):
        left[0] -= 1
        return pull(1.0)(x) if left[0] >= 0 else how(x)

    return Cost.from_gradient(gradient, dim=3)


def to_nothing(x):
    return np.full(3, np.nan)


def with_an_error(x):
    raise LookupError("row 7 is missing")


HOW = {to_nothing: "returned nan or inf", with_an_error: "raised LookupError.'row 7 is"}


def root_of(error):
    while error.__cause__ is not None:
        error = error.__cause__
    return error


@each(("how", "words"), HOW.items(), ids=["nan", "raises"])
@each(
    ("good", "when"), [(0, ""), (1 + 2 * 9, " in iteration 10")], ids=["start", "later"]
)
def test_a_gradient_that_fails_is_named_with_its_party_and_iteration(
    how, words, good, when
):
    """Those that fail once fail for good: the last bit may be gone again."""
    task = problem(among_the_others(failing(how, good=good)), step=0.1, history=1)
    with pytest.raises(BadGradientError, match=f"cost of 'cat'.*{words}.*{when}") as at:
        solved(task)
    assert at.value.party == "cat"
    assert at.value.iteration == (10 if good else None)
    if how is with_an_error:
        assert isinstance(root_of(at.value), LookupError)


def test_a_gradient_that_fails_at_the_anchor_is_said_to_have_raised():
    with refused("gradient-raised", BadGradientError) as found:
        Cost.from_gradient(with_an_error, dim=3)
    assert isinstance(found.value.__cause__, LookupError)


def test_a_gradient_that_fails_in_the_pooled_answer_only_is_named_too():
    """One iteration takes three calls."""
    task = problem(among_the_others(failing(with_an_error, good=3)), iterations=1)
    with refused("gradient-raised", BadGradientError, mentions=("cat", "7")) as found:
        solved(task)
    assert found.value.iteration is None


@each(("how", "words"), HOW.items(), ids=["nan", "raises"])
@each("good", [0, 1 + 2 * 9], ids=["start", "later"])
def test_a_party_s_machine_names_the_iteration_of_a_failing_gradient(how, words, good):
    task = problem(among_the_others(failing(how, good=good)), step=0.1)
    iteration = 10 if good else 0
    said = f"cat: result, the cost of 'cat': .*{words}.* in iteration {iteration}; .*"
    with pytest.raises(ProtocolError, match=f"{said}correct it or.*leave step out"):
        solved(task, "loopback")


# Both methods: one tells estimates, the other what is summed up beside them, too.
@pytest.mark.parametrize("method", ["nids", "gradient-tracking"])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_party_s_machine_says_when_its_estimates_ran_away(method):
    costs = [Cost.squared_distance([float(k), 0.0, 1.0]) for k in range(3)]
    with pytest.raises(ProtocolError) as caught:
        solved(problem(costs, method, step=50.0, iterations=999), "loopback")
    words = str(caught.value)
    assert "estimates of 'ann' ran away at iteration 1" in words
    assert "give bounds that hold (smooth, mean_convex) and leave step out" in words
    assert "a message carries" not in words


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_estimates_that_ran_away_in_the_last_iteration_are_no_answer():
    """The message says when: the iterations end there in a second run."""
    costs = [Cost.squared_distance([float(k), 0.0, 1.0]) for k in range(3)]

    def words(iterations):
        task = problem(costs, step=50.0, iterations=iterations)
        with pytest.raises(ProtocolError) as caught:
            solved(task, "loopback")
        return str(caught.value)

    first = words(999)
    when = int(first.split("ran away at iteration ")[1].split(";")[0])
    assert f"ran away at iteration {when};" in words(when)


# What is given in place of a cost, and of others


def threefold(one):
    return [one] * 3


TARGET = Cost.squared_distance([1.0, 2.0, 3.0])


@each(
    ("given", "words"),
    [
        (
            {"costs": threefold(in_place)},
            r"cost of 'ann' cannot be a function: give Cost",
        ),
        (
            {"costs": dict.fromkeys(THREE.parties, 3.0)},
            "cost of 'ann' cannot be a float",
        ),
        ({"costs": TARGET}, "costs cannot be a Cost: give one Cost per party"),
        ({"costs": in_place}, "costs cannot be a function: give one Cost per party"),
        ({"topology": "ring:6"}, "'ring:6' has 6 parties, and there are data of 3"),
        ({"faults": {"loss": 0.3}}, r"faults cannot be a dict: give LinkFaults\(loss"),
        ({"settings": {"method": "nids"}}, r"settings cannot be a dict: give Settings"),
        ({"seed": 1.5}, "seed must be a whole number, found 1.5"),
    ],
    ids=["function", "number", "one", "bare", "topology", "faults", "settings", "seed"],
)
def test_what_is_no_problem_is_refused_in_words(given, words):
    usual = {"costs": threefold(TARGET), "topology": THREE, "domain": Box(-9, 9, dim=3)}
    with pytest.raises(InvalidInputError, match=words):
        solve(**usual | {"sigma": 1.0, "corrupted": ()} | given)


def test_costs_may_come_from_any_iterable():
    run = solved(problem((cost for cost in threefold(TARGET)), iterations=60))
    np.testing.assert_allclose(run.reference, [1.0, 2.0, 3.0], atol=1e-8)


@each(
    ("name", "found"),
    [
        *(("iterations", one) for one in ("100", 2.5, 1e3, True)),
        *((name, 1.5) for name in ("rounds", "history", "byte_budget")),
    ],
)
def test_counts_are_whole_numbers(name, found):
    with refused("not-whole", mentions=(name,)):
        Settings(**{name: found})


@each("name", ["step", "power", "tolerance", "smooth"])
@each("found", ["0.1", True, 0.0, -1.0, np.inf, np.nan])
def test_sizes_are_positive_numbers(name, found):
    with refused("not-positive", mentions=(name,)):
        Settings(**{name: found})


def test_numbers_may_be_numpy_s():
    settings = Settings(iterations=np.int64(7), step=np.float32(0.5))
    assert type(settings.iterations) is int
    assert settings == Settings(iterations=7, step=0.5)
    assert LinkFaults(delay=(np.int64(1), 2), stragglers=(np.int64(1),), seed=0).kinds


@each(
    ("given", "words"),
    [
        ({"delay": 3}, "delay must be two whole numbers of rounds.*found 3"),
        ({"delay": "13"}, "delay must be two whole numbers of rounds.*found '13'"),
        ({"delay": (0, 1.5)}, "delay must be two whole numbers"),
        ({"stragglers": [1, 2]}, r"row numbers like \(0, 3\), found \[1, 2\]"),
        ({"stragglers": (0.5,)}, "stragglers must be a part of the parties"),
        ({"stragglers": "0.5"}, "stragglers must be a part of the parties"),
        ({"loss": "0.3"}, "loss is a chance from 0 to below 1.*found '0.3'"),
        ({"quantise": "0.3"}, "quantise must be the step of a grid"),
        ({"within": 2.5}, "within must be a whole number, found 2.5"),
        ({"seed": "a"}, "seed must be a whole number, found 'a'"),
    ],
    ids=str,
)
def test_faults_of_links_that_mean_nothing_are_refused_in_words(given, words):
    with pytest.raises(InvalidInputError, match=words):
        LinkFaults(**given)


@each("dim", ["3", 2.5, 0])
def test_a_dimension_is_a_whole_number(dim):
    with pytest.raises(InvalidInputError, match="the dimension of x must be"):
        Cost.from_gradient(in_place, dim=dim)
