"""Every method through `solve` and through machines: one answer, one iteration."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from cases import each
from refusals import refused
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import Loopback
from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box, HalfSpaces, WholeSpace
from veilsum.minimise.costs.remainders import exposed_by_remainder
from veilsum.minimise.costs.rows import glm_cost, huber_cost
from veilsum.minimise.methods.link_faults import LinkFaults
from veilsum.minimise.methods.registry import (
    MethodNeeds,
    check_method_fits,
    method_named,
)
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.solve import BOUNDS_READ, solve
from veilsum.models.families import GaussianFamily
from veilsum.models.rows import Rows

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

METHODS = (
    *("extra", "nids", "gradient-tracking", "accelerated"),
    *("push-pull", "running-sums"),
)
GRAPHS = ("ring:6", "complete:5", "grid:2x3", "barbell:3:3")


def least_squares(n, *, seed=3, rows=6, dim=3):
    """Costs, the settings that go with them, and the pooled answer."""
    stream = np.random.default_rng(seed)
    designs = stream.standard_normal((n, rows, dim))
    responses = stream.standard_normal((n, rows))
    costs = [
        Cost.from_gradient(lambda x, a=a, y=y: a.T @ (a @ x - y) / rows, dim=dim)
        for a, y in zip(designs, responses, strict=True)
    ]
    curved = np.einsum("nri,nrj->nij", designs, designs) / rows
    mean = np.linalg.eigvalsh(curved.mean(axis=0))
    settings = Settings(
        smooth=float(np.linalg.eigvalsh(curved).max()),
        mean_smooth=float(mean[-1]),
        mean_convex=float(mean[0]),
        iterations=20_000,
    )
    pooled = np.linalg.lstsq(designs.reshape(-1, dim), responses.ravel())[0]
    return costs, settings, pooled


def both(graph, settings, *, law="lattice", sigma=100.0, domain=None, faults=None):
    topology = Topology.family(graph)
    costs, known, pooled = least_squares(topology.n_parties)
    bounds = {k: getattr(known, k) for k in ("smooth", "mean_smooth", "mean_convex")}
    settings = replace(settings, **bounds)
    where = domain or WholeSpace(3)
    options = {"domain": where, "sigma": sigma, "law": law, "settings": settings}
    quick = solve(costs, topology=topology, corrupted=(), seed=1, **options)
    driver = Loopback(seed=1, faults=faults)
    return (
        quick,
        solve(costs, topology=topology, corrupted=(), driver=driver, **options),
        pooled,
    )


# Every method on a ring and on one graph more; on the others if slow.
def on_graphs():
    for k, method in enumerate(METHODS):
        quick = {GRAPHS[0], GRAPHS[1 + k % 3]}
        for graph in GRAPHS:
            marks = () if graph in quick else pytest.mark.slow
            yield pytest.param(method, graph, marks=marks)


@pytest.mark.parametrize(("method", "graph"), [*on_graphs()])
def test_both_drivers_stop_at_one_iteration_at_one_answer(method, graph):
    settings = Settings(method=method, tolerance=1e-8, iterations=20_000)
    quick, real, pooled = both(graph, settings)
    assert (quick.method, quick.stopped, real.stopped) == (
        method,
        *("tolerance", "tolerance"),
    )
    assert quick.iterations == real.iterations
    assert quick.rounds == real.rounds
    np.testing.assert_allclose(real.estimates, quick.estimates, rtol=0, atol=1e-11)
    assert np.linalg.norm(quick.estimates - pooled, axis=1).max() <= 1e-8


@each("method", ["nids", "gradient-tracking", "accelerated"])
def test_on_a_box_too(method):
    settings = Settings(method=method, tolerance=1e-9, iterations=20_000)
    box = Box(-0.05, 0.05, dim=3)
    quick, real, _ = both("ring:6", settings, domain=box)
    assert quick.iterations == real.iterations
    assert quick.stopped == "tolerance"
    assert quick.max_error <= 1e-8
    assert np.abs(quick.minimiser).max() <= 0.05
    np.testing.assert_allclose(real.estimates, quick.estimates, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("method", "after"),
    [
        pytest.param(method, after, marks=() if after == quick else pytest.mark.slow)
        for method, quick in (("nids", 60), ("accelerated", 90), ("running-sums", 140))
        for after in (60, 90, 140)
    ],
)
def test_a_party_that_is_restarted_goes_on_where_it_was(method, after):
    """Its method's state comes back from its disk to the last bit."""
    settings = Settings(method=method, tolerance=1e-8)
    crash = Faults(crashes=(Crash("2", after=after, back=1.0),))
    quick, real, _ = both("ring:6", settings, faults=crash)
    assert quick.iterations == real.iterations
    np.testing.assert_allclose(real.estimates, quick.estimates, rtol=0, atol=1e-11)


def fifty(sigma, settings, graph):
    """The problem that iterations are counted on."""
    rng = np.random.default_rng(3)
    truth = rng.standard_normal(5)
    costs, matrices = [], []
    for _ in range(50):
        design = rng.standard_normal((10, 5)) * np.logspace(0.0, -0.5, 5)
        response = design @ truth + 0.5 * rng.standard_normal(10)
        costs.append(
            glm_cost(GaussianFamily(), Rows(design, response, np.full(10, 0.1)))
        )
        matrices.append(design.T @ design / 10)
    mean = np.linalg.eigvalsh(np.mean(matrices, axis=0))
    known = replace(
        settings,
        smooth=float(np.linalg.eigvalsh(matrices).max()),
        mean_smooth=float(mean[-1]),
        mean_convex=float(mean[0]),
        history=1,
        iterations=260,
    )
    return solve(
        costs,
        topology=Topology.from_networkx(graph),
        corrupted=(),
        domain=WholeSpace(5),
        sigma=sigma,
        law="lattice",
        grid=50,
        seed=11,
        settings=known,
    )


def count(run, tolerance=1e-8):
    """Iterations until everybody was within the tolerance."""
    near = run.trace.errors.max(axis=1) <= tolerance
    return int(run.trace.iterations[np.argmax(near)]) if near.any() else None


@pytest.mark.parametrize(
    ("method", "expected"), [("gradient-tracking", 152), ("accelerated", 51)]
)
def test_iterations_do_not_depend_on_sigma_from_one_to_a_million_million(
    method, expected
):
    graph = nx.gnp_random_graph(50, 0.15, seed=0)
    found = [
        count(fifty(sigma, Settings(method=method), graph))
        for sigma in (1.0, 1e6, 1e12)
    ]
    assert found == pytest.approx([expected] * 3, rel=0.1)


def test_recentred_nids_does_not_depend_on_it_either():
    graph = nx.random_regular_graph(6, 50, seed=1)
    settings = Settings(method="nids", step=1.9 / 2.11)
    found = [count(fifty(sigma, settings, graph)) for sigma in (1.0, 1e6, 1e12)]
    assert max(found) <= 1.1 * min(found)
    assert found[0] == pytest.approx(184, rel=0.1)


def test_masks_on_curvatures_leave_nids_out_and_tracking_in():
    stream = np.random.default_rng(4)
    roots = stream.standard_normal((6, 4, 3))
    costs = [
        Cost.quadratic(r.T @ r / 4, q)
        for r, q in zip(roots, stream.standard_normal((6, 3)), strict=True)
    ]
    curved = np.einsum("nri,nrj->nij", roots, roots) / 4
    mean = np.linalg.eigvalsh(curved.mean(axis=0))
    known = Settings(
        method="gradient-tracking",
        smooth=float(np.linalg.eigvalsh(curved).max()),
        mean_smooth=float(mean[-1]),
        mean_convex=float(mean[0]),
        tolerance=1e-8,
    )
    graph = Topology.family("complete:6")
    for law, sigma in (("lattice", 1e4), ("gaussian", 10.0)):
        options = {"domain": WholeSpace(3), "sigma": sigma, "law": law, "seed": 1}
        run = solve(costs, topology=graph, corrupted=(), settings=known, **options)
        assert run.stopped == "tolerance"
        assert run.max_error < 1e-7
        with refused("method-unfit"):
            solve(
                costs,
                topology=graph,
                corrupted=(),
                settings=replace(known, method="nids"),
                **options,
            )


def test_auto_takes_one_shot_where_coefficients_say_everything():
    costs = [Cost.squared_distance([float(k), 0.0]) for k in range(4)]
    run = solve(
        costs,
        topology=Topology.family("ring:4"),
        corrupted=(),
        domain=WholeSpace(2),
        sigma=10.0,
        law="lattice",
        seed=1,
        settings=Settings(method="auto"),
    )
    assert (run.method, run.iterations, run.stopped) == ("one-shot", 0, None)
    assert run.max_error < 1e-12


def test_a_domain_for_each_party_is_refused():
    costs = [Cost.squared_distance([float(k)]) for k in range(3)]
    boxes = [Box(-1.0, 1.0, dim=1)] * 3
    for given in (boxes, dict(enumerate(boxes)), tuple(boxes)):
        with refused("domain-per-party"):
            solve(
                costs,
                topology=Topology.family("ring:3"),
                corrupted=(),
                domain=given,
                sigma=1.0,
            )
    with refused("not-a-domain"):
        solve(
            costs,
            topology=Topology.family("ring:3"),
            corrupted=(),
            domain=None,
            sigma=1.0,
        )


def test_the_guarantee_says_what_a_remainder_shows():
    stream = np.random.default_rng(2)
    rows = [Rows(stream.standard_normal((5, 1)), np.ones(5)) for _ in range(4)]
    known = Settings(smooth=30.0, mean_convex=0.1, method="nids", iterations=5)
    options = {"domain": WholeSpace(1), "settings": known, "seed": 1}
    graph = Topology.family("complete:4")
    costs = [huber_cost(one, delta=1.0) for one in rows]
    masked = solve(costs, topology=graph, corrupted=(), sigma=5.0, **options).guarantee
    assert set(exposed_by_remainder(costs[0].remainder)) <= set(masked.limits)
    assert exposed_by_remainder(costs[0].remainder)
    plain = solve(costs, topology=graph, corrupted=(), law="none", **options).guarantee
    assert not set(exposed_by_remainder(costs[0].remainder)) & set(plain.limits)


def test_a_simulation_may_read_the_bounds_off_the_costs_and_says_so():
    costs, known, pooled = least_squares(6)
    roots = np.random.default_rng(4).standard_normal((6, 4, 3))
    quadratics = [Cost.quadratic(r.T @ r, r[0]) for r in roots]
    settings = Settings(method="gradient-tracking", bounds_from_costs=True)
    options = {"domain": WholeSpace(3), "sigma": 5.0, "law": "lattice", "seed": 1}
    graph = Topology.family("complete:6")
    run = solve(
        quadratics,
        topology=graph,
        corrupted=(),
        settings=replace(settings, tolerance=1e-9),
        **options,
    )
    assert run.max_error < 1e-8
    assert BOUNDS_READ in run.guarantee.limits
    enough = replace(known, method="nids", iterations=2_000)
    plain = solve(costs, topology=graph, corrupted=(), settings=enough, **options)
    assert BOUNDS_READ not in plain.guarantee.limits
    assert np.linalg.norm(plain.minimiser - pooled) < 1e-8
    with refused("curvature-unknown"):
        solve(costs, topology=graph, corrupted=(), settings=settings, **options)


# Faults


def faulty(settings, faults, *, law="gaussian", sigma=10.0):
    costs, known, pooled = least_squares(10)
    bounds = {k: getattr(known, k) for k in ("smooth", "mean_smooth", "mean_convex")}
    run = solve(
        costs,
        topology=Topology.family("petersen"),
        corrupted=(),
        domain=WholeSpace(3),
        sigma=sigma,
        law=law,
        seed=1,
        settings=replace(settings, **bounds),
        faults=faults,
    )
    return run, pooled


def test_auto_bears_what_links_lose():
    """A third of all messages lost: running sums, and the right answer."""
    settings = Settings(method="auto", iterations=3000)
    run, pooled = faulty(settings, LinkFaults(loss=0.3, seed=4))
    assert run.method == "running-sums"
    assert np.linalg.norm(run.estimates - pooled, axis=1).max() < 1e-8


def test_a_method_that_does_not_bear_a_fault_names_one_that_does():
    with refused("method-unfit"):
        faulty(Settings(method="nids"), LinkFaults(loss=0.1))
    with refused("method-unfit"):
        faulty(Settings(method="nids", iterations=9), LinkFaults(changing=0.5))


ANY_FAULT = (
    {"loss": 0.3},
    {"delay": (1, 2)},
    {"stragglers": 0.2},
    {"changing": 0.5},
    {"quantise": 1e-3},
)


def distances(settings, faults, *, law="lattice", domain=None):
    """Costs that one sum of coefficients says everything of."""
    return solve(
        [Cost.squared_distance([float(i)]) for i in range(6)],
        topology=Topology.family("ring:6"),
        corrupted=(),
        domain=domain or WholeSpace(1),
        sigma=None if law == "uniform" else 1e3,
        law=law,
        seed=1,
        settings=settings,
        faults=faults,
    )


@each("kinds", ANY_FAULT, ids=str)
def test_one_sum_has_no_iterations_for_faults_to_happen_in(kinds):
    faults = LinkFaults(**kinds)
    with refused("one-shot-with-faults"):
        distances(Settings(method="one-shot"), faults)
    run = distances(Settings(method="auto", iterations=300), faults)
    check_method_fits(
        method_named(run.method), MethodNeeds(bounded=True, faults=faults.kinds)
    )
    assert run.max_error < 0.01
    with refused("magnitudes-unavailable"):
        distances(Settings(method="auto"), faults, law="uniform")


@pytest.mark.parametrize("method", ["auto", "one-shot"])
def test_faults_that_never_happen_change_nothing(method):
    assert distances(Settings(method=method), LinkFaults()).method == "one-shot"


@each(
    ("method", "kinds", "domain", "words"),
    [
        ("push-pull", {"delay": (1, 2)}, None, "messages come late; use running-sums"),
        ("nids", {"stragglers": 0.2}, None, "take part in every iteration; use runn"),
        ("nids", {"loss": 0.2}, Box(-9, 9, dim=1), "message is lost; use dgd"),
        ("running-sums", {"changing": 0.2}, Box(-9, 9, dim=1), "use gradient-tr"),
        ("nids", {"loss": 0.2}, HalfSpaces([[1.0]], [9.0]), "message is lost$"),
        ("auto", {"loss": 0.2}, HalfSpaces([[1.0]], [9.0]), "no method that bears"),
    ],
    ids=["late", "stragglers", "lost", "domain", "nobody", "nobody for auto"],
)
def test_the_reason_is_the_real_one_and_the_advice_can_be_followed(
    method, kinds, domain, words
):
    with pytest.raises(InvalidInputError, match=words):
        distances(Settings(method=method), LinkFaults(**kinds), domain=domain)


def test_auto_looks_past_the_fastest_if_it_does_not_bear_the_faults():
    """Acceleration is wanted for such a condition, and bears no changing links."""
    uneven = Settings(method="auto", smooth=2.0, mean_convex=0.01, iterations=9)
    assert distances(uneven, LinkFaults(quantise=1e-9)).method == "accelerated"
    assert distances(uneven, LinkFaults(changing=0.5)).method == "gradient-tracking"


@each("kinds", ANY_FAULT[:4], ids=str)
def test_where_nobody_can_tell_when_to_stop_the_tolerance_is_said_to_be_unused(kinds):
    asked = Settings(method="auto", tolerance=1e-3, iterations=200)
    run = distances(asked, LinkFaults(**kinds))
    assert (run.iterations, run.stopped) == (200, "iterations")
    assert f"under faults ({next(iter(kinds))})" in run.tolerance_unused
    assert run.to_dict()["tolerance_unused"] == run.tolerance_unused
    plain = distances(replace(asked, tolerance=None), LinkFaults(**kinds))
    assert plain.tolerance_unused is None
    assert plain.bytes == run.bytes  # nobody tells how near it is


def test_rounded_messages_arrive_and_parties_can_stop():
    asked = Settings(method="gradient-tracking", tolerance=1e-6)
    run = distances(asked, LinkFaults(quantise=1e-9))
    assert (run.stopped, run.tolerance_unused) == ("tolerance", None)
    assert run.max_error < 1e-6


def test_changing_links_are_borne_by_tracking():
    settings = Settings(method="gradient-tracking", rounds=1, step=0.1, iterations=3000)
    run, pooled = faulty(settings, LinkFaults(changing=0.5, seed=2))
    assert np.linalg.norm(run.estimates - pooled, axis=1).max() < 1e-8


def test_machines_have_other_faults():
    costs, known, _ = least_squares(5)
    with refused("driver-without-faults"):
        solve(
            costs,
            topology=Topology.family("complete:5"),
            corrupted=(),
            domain=WholeSpace(3),
            sigma=1.0,
            settings=replace(known, method="running-sums"),
            faults=LinkFaults(loss=0.1),
            driver="loopback",
        )
