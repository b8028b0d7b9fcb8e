"""What follows from public facts: which method, with what step, rounds and weights."""

from dataclasses import replace

import numpy as np
import pytest

from cases import each
from refusals import refused
from veilsum.errors import InvalidGraphError, InvalidInputError
from veilsum.graphs import mixing
from veilsum.graphs.mixing import mixing_rate, mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Affine, Polynomial, Quadratic
from veilsum.minimise.costs.domains import Box, HalfSpaces, WholeSpace
from veilsum.minimise.methods import schedule as schedule_module
from veilsum.minimise.methods.certificate import certified_rounds
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.registry import ITERATIVE
from veilsum.minimise.methods.schedule import (
    ScheduleFacts,
    needs_of_method,
    schedule_of_method,
)
from veilsum.minimise.methods.settings import Settings

RING = Topology.family("ring:10")
CYCLE = Topology.from_edges([(0, 1), (1, 2), (2, 0)], directed=True)
BOX = Box(-1.0, 1.0, dim=2)
LOSSY = frozenset({"loss"})
OPEN = ScheduleFacts(domain=WholeSpace(2), basis=Affine(2))
KNOWN = Settings(smooth=4.0, mean_smooth=3.0, mean_convex=1.0)


def named(method, **more):
    return replace(KNOWN, method=method, **more)


def masked(sigma, **more):
    fields = {"domain": WholeSpace(2), "basis": Affine(2), **more}
    return ScheduleFacts(sigma=sigma, integers=True, **fields)


# Which method


@each(
    ("settings", "facts", "graph", "expected"),
    [
        (KNOWN, OPEN, RING, "gradient-tracking"),
        (replace(KNOWN, mean_convex=0.01), OPEN, RING, "accelerated"),
        (KNOWN, OPEN, CYCLE, "push-pull"),
        (KNOWN, replace(OPEN, faults=LOSSY), RING, "running-sums"),
        (Settings(smooth=4.0), OPEN, RING, "nids"),
        (Settings(smooth=4.0), replace(OPEN, domain=BOX, sigma=1.0), RING, "dgd"),
        (Settings(smooth=4.0), masked(1.0, domain=BOX), RING, "nids"),
        (
            Settings(convex_locals=False),
            replace(OPEN, domain=BOX, sigma=1.0),
            RING,
            "dgd",
        ),
    ],
)
def test_auto_takes_the_method_that_fits(settings, facts, graph, expected):
    found = schedule_of_method(replace(settings, method="auto"), facts, graph)
    assert found.name == expected


@each(
    ("settings", "facts", "graph", "words"),
    [
        (named("nids"), OPEN, CYCLE, "both ways.*use push-pull"),
        (named("extra"), replace(OPEN, faults=LOSSY), RING, "lost.*use running-sums"),
        (
            named("nids"),
            masked(1.0, basis=Quadratic(2)),
            RING,
            "convex by itself.*use gradient-tracking",
        ),
        (
            named("extra", convex_locals=False),
            OPEN,
            RING,
            "convex by itself.*use gradient-tracking",
        ),
        (named("dgd"), OPEN, RING, "bounded domain.*use gradient-tracking"),
        (
            named("push-pull"),
            replace(OPEN, domain=BOX),
            RING,
            "whole space.*use gradient-tracking",
        ),
        (
            named("nids"),
            replace(OPEN, domain=BOX, sigma=5.0),
            RING,
            "drawn? .*together.*use gradient-tracking",
        ),
        (
            Settings(method="gradient-tracking", smooth=1.0),
            OPEN,
            RING,
            "strongly convex.*use nids",
        ),
    ],
)
def test_what_a_method_cannot_do_is_refused_with_the_one_that_can(
    settings, facts, graph, words
):
    with pytest.raises(InvalidInputError, match=f"(?s){words}"):
        schedule_of_method(settings, facts, graph)


@each("kind", ITERATIVE, ids=lambda kind: kind.name)
def test_every_method_there_is_can_be_made(kind):
    facts = replace(OPEN, domain=BOX) if kind.traits.compact else OPEN
    found = schedule_of_method(named(kind.name), facts, RING)
    assert found.name == found.method.name == kind.name
    assert found.method.traits is kind.traits


def test_without_a_bound_it_is_said_what_to_give():
    for name in ("extra", "nids"):
        with refused("smooth-missing", mentions=("bounds_from_costs",)):
            schedule_of_method(Settings(method=name), OPEN, RING)


def test_the_shared_curvature_is_bound_enough():
    facts = replace(OPEN, curvature=2.0)
    assert needs_of_method(Settings(), facts, RING).condition == 1.0
    found = schedule_of_method(Settings(method="gradient-tracking"), facts, RING)
    assert (found.bounds.smooth, found.bounds.mean_convex) == (2.0, 2.0)


def test_what_was_agreed_comes_before_the_closed_form():
    facts = replace(OPEN, curvature=2.0)
    assert (
        schedule_of_method(named("gradient-tracking"), facts, RING).bounds.smooth == 4.0
    )


# Steps, rounds, weights


def test_tracking_takes_the_certified_rounds_and_step():
    found = schedule_of_method(named("gradient-tracking"), OPEN, RING)
    rate = mixing_rate(mixing_weights(RING, "best-constant"))
    expected = certified_rounds(rate, KNOWN.bounds, constrained=False)
    assert isinstance(found.method, Chebyshev)
    assert found.method.rounds == expected > 1
    assert found.method.method.step == pytest.approx(1 / 3)
    assert found.method.rate == pytest.approx(rate)


def test_what_is_asked_for_is_taken():
    found = schedule_of_method(
        named("gradient-tracking", rounds=1, step=0.1, mixing="metropolis"), OPEN, RING
    )
    assert found.method.step == 0.1
    assert found.method.rounds_per_iteration == 2
    expected = mixing_weights(RING, "metropolis").toarray()
    np.testing.assert_array_equal(found.weights["symmetric"].toarray(), expected)


def test_extra_is_lazy_and_dgd_takes_metropolis_weights():
    lazy = schedule_of_method(named("extra"), OPEN, RING).weights["symmetric"]
    assert np.linalg.eigvalsh(lazy.toarray()).min() >= -1e-12
    facts = replace(OPEN, domain=BOX)
    plain = schedule_of_method(named("dgd"), facts, RING).weights["symmetric"].toarray()
    expected = mixing_weights(RING, "metropolis").toarray()
    np.testing.assert_array_equal(plain, expected)


def test_dgd_comes_in_both_forms():
    facts = replace(OPEN, domain=BOX)
    own = schedule_of_method(
        named("dgd", gradient_at="own", step=None), facts, RING
    ).method
    assert own.gradient_at == "own"
    mixed = schedule_of_method(named("dgd"), facts, RING).method
    assert mixed.gradient_at == "mixed"
    assert mixed.scale == 1.0


def test_large_graphs_take_weights_that_need_no_eigenvalues(monkeypatch):
    monkeypatch.setattr(schedule_module, "DENSE_PARTIES", 50)
    graph = Topology.family("regular:200:6:seed=1")
    found = schedule_of_method(named("nids"), OPEN, graph)
    expected = mixing_weights(graph, "metropolis")
    assert abs(found.weights["symmetric"] - expected).max() == 0.0


@pytest.mark.parametrize("family", ["regular:200:6:seed=1", "grid:12x12", "star:80"])
def test_the_rate_of_a_large_graph_is_that_of_a_dense_solve(family, monkeypatch):
    monkeypatch.setattr(mixing, "DENSE_PARTIES", 50)
    weights = mixing_weights(Topology.family(family), "metropolis")
    n = weights.shape[0]
    dense = np.linalg.eigvalsh(weights.toarray() - np.full((n, n), 1 / n))
    assert mixing_rate(weights) == pytest.approx(np.abs(dense).max(), abs=1e-10)


# Recentring


def test_recentring_is_for_integers_and_can_be_left_out():
    assert schedule_of_method(named("nids"), masked(100.0), RING).recentring > 0
    assert (
        schedule_of_method(
            named("nids", recentre=False), masked(100.0), RING
        ).recentring
        == 0
    )
    assert (
        schedule_of_method(named("nids"), replace(OPEN, sigma=100.0), RING).recentring
        == 0
    )


def test_its_rounds_grow_like_the_logarithm_of_sigma():
    found = [
        schedule_of_method(named("nids"), masked(s), RING).recentring
        for s in (1e3, 1e6, 1e9)
    ]
    first, second = np.diff(found)
    assert abs(first - second) <= 1


def test_masks_on_curvatures_are_drawn_down_to_a_part_of_mu():
    facts = masked(1e3, basis=Quadratic(2))
    found = schedule_of_method(named("gradient-tracking"), facts, RING)
    assert found.bounds.smooth == pytest.approx(4.0 + 0.05)
    affine = schedule_of_method(named("nids"), masked(1e3), RING)
    assert found.recentring > affine.recentring


def test_without_recentring_the_bound_covers_the_masks():
    """Drawn many times: masks never bend a cost more, though by a third as much."""
    facts = ScheduleFacts(domain=WholeSpace(2), basis=Quadratic(2), sigma=10.0)
    added = (
        schedule_of_method(named("gradient-tracking"), facts, RING).bounds.smooth - 4.0
    )
    stream = np.random.default_rng(0)
    drawn = 10.0 * np.sqrt(4.0) * stream.standard_normal((20_000, 3))
    matrices = np.zeros((20_000, 2, 2))
    matrices[:, 0, 0], matrices[:, 1, 1] = 2 * drawn[:, 0], 2 * drawn[:, 1]
    matrices[:, 0, 1] = matrices[:, 1, 0] = np.sqrt(2) * drawn[:, 2]
    worst = np.abs(np.linalg.eigvalsh(matrices)).max()
    assert added / 3 < worst < added


def test_masks_of_higher_degree_are_left_to_dgd():
    facts = masked(1.0, basis=Polynomial(2, 3))
    with refused("curvature-of-masks-unknown"):
        schedule_of_method(named("gradient-tracking"), facts, RING)
    # Which takes no bounds: those that were given do not stand in its way.
    asked = named("dgd", tolerance=1e-3)
    assert schedule_of_method(asked, replace(facts, domain=BOX), RING).bounds is None


# Budgets


def test_a_budget_is_divided_by_what_an_iteration_takes():
    found = schedule_of_method(named("nids", byte_budget=3 * 320 + 319), OPEN, RING)
    assert (found.iterations, found.limit) == (3, "bytes")
    with refused("byte-budget-exceeded", mentions=("320",)):
        schedule_of_method(named("nids", byte_budget=319), OPEN, RING)
    enough = schedule_of_method(named("nids", byte_budget=10**9), OPEN, RING)
    assert (enough.iterations, enough.limit) == (10_000, "iterations")


def test_a_budget_has_to_do_for_shares_and_recentring_too():
    facts = masked(1e6, domain=WholeSpace(2), basis=Affine(2), curvature=2.0)
    free = schedule_of_method(named("nids", tolerance=1e-6), facts, RING)
    before = (1 + free.recentring) * 2 * RING.n_edges * 2 * 8
    each = 2 * RING.n_edges * (2 + 1) * 8
    asked = named("nids", tolerance=1e-6, byte_budget=before + 3 * each)
    assert free.recentring > 0
    assert schedule_of_method(asked, facts, RING).iterations == 3


def test_what_never_stops_tells_nobody_how_near_it_is():
    """One number in a message less than where there is a rule for stopping."""
    each = 2 * RING.n_edges * 2 * 8
    facts = replace(OPEN, domain=BOX)
    asked = named("dgd", tolerance=1e-6, byte_budget=3 * each)
    assert schedule_of_method(asked, facts, RING).iterations == 3
    lossy = replace(OPEN, faults=LOSSY)
    found = schedule_of_method(named("running-sums", tolerance=1e-6), lossy, RING)
    assert found.stopping is None


# Masks on one-way links


ONE_WAY = Topology.from_edges([("a", "b"), ("b", "c"), ("c", "a")], directed=True)


def test_masks_are_not_drawn_together_over_one_way_links():
    facts = masked(1e3, domain=WholeSpace(2), basis=Affine(2), curvature=2.0)
    assert schedule_of_method(named("push-pull"), facts, ONE_WAY).recentring == 0
    with refused("directed-graph"):
        schedule_of_method(named("push-pull", recentre=True), facts, ONE_WAY)


@pytest.mark.parametrize(
    ("topology", "asked", "advice"),
    [
        (ONE_WAY, {"method": "push-pull"}, "use an undirected graph"),
        (RING, {"method": "nids", "recentre": False}, "use recentre = true or a"),
    ],
    ids=["one-way links", "not drawn together"],
)
def test_masks_too_large_for_the_tolerance_name_the_real_remedy(
    topology, asked, advice
):
    facts = masked(1e12, domain=WholeSpace(2), basis=Affine(2), curvature=2.0)
    with pytest.raises(InvalidInputError, match=advice):
        schedule_of_method(Settings(tolerance=1e-8, **asked), facts, topology)


def test_half_lines_are_no_whole_space():
    facts = replace(OPEN, domain=HalfSpaces([[1.0, 0.0]], [1.0]))
    assert needs_of_method(KNOWN, facts, RING).constrained
    assert not needs_of_method(KNOWN, facts, RING).bounded


def test_one_way_links_must_lead_everywhere():
    path = Topology.from_edges([(0, 1), (1, 2)], directed=True)
    with refused("not-strongly-connected", InvalidGraphError):
        schedule_of_method(named("push-pull"), OPEN, path)


# Precision


def test_a_tolerance_that_float64_cannot_reach_under_such_masks_is_refused():
    """With mu_bar = 1: 3 u sigma is above 1e-9 from about sigma = 3e6 on."""
    fine = replace(OPEN, sigma=2.9e6)
    assert (
        schedule_of_method(named("nids", tolerance=1e-9), fine, RING).stopping
        is not None
    )
    large = replace(OPEN, sigma=3.1e6)
    with refused("tolerance-too-small"):
        schedule_of_method(named("nids", tolerance=1e-9), large, RING)
    schedule_of_method(named("nids"), large, RING)  # nothing was promised
    schedule_of_method(named("nids", tolerance=1e-9), masked(1e12), RING)
    with refused("tolerance-too-small"):
        schedule_of_method(
            named("nids", tolerance=1e-6, precision="float32"), fine, RING
        )
