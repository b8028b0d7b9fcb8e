"""Every method on every small graph ends where the sum of all costs is least."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice

import networkx as nx
import numpy as np
import pytest
from scipy import optimize

from method_states import iterations_of_method
from veilsum.graphs.mixing import mixing_rate, mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Quadratic, quadratic_coefficients
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import NoRemainder
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.certificate import (
    Bounds,
    certified_accelerated_rounds,
    certified_rounds,
)
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.extra import Extra, extra_step
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.nids import Nids, nids_step
from veilsum.minimise.methods.one_way import OneWayMixing
from veilsum.minimise.methods.push_pull import PushPull, certified_push_pull
from veilsum.minimise.methods.registry import ITERATIVE
from veilsum.minimise.methods.running_sums import RunningSums, running_sums_step

TRAITS = {method.name: method.traits for method in ITERATIVE}

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

DIM = 2
EVERYWHERE = WholeSpace(DIM)
LEAST, MOST = 0.6, 1.5  # curvatures of the average cost
# The sums are least below -1 in both coordinates: this box cuts one of them off.
LOW, HIGH = np.array([-1.0, -9.0]), np.array([9.0, 9.0])
BOX = Box(LOW, HIGH, dim=DIM)


def tree(n):
    """Everybody but the first hangs on somebody before."""
    rng = np.random.default_rng(2)
    return Topology.from_edges([(int(rng.integers(i)), i) for i in range(1, n)])


FAMILIES = {
    "ring": lambda: Topology.family("ring:6"),
    "path": lambda: Topology.family("path:5"),
    "star": lambda: Topology.family("star:6"),
    "complete": lambda: Topology.family("complete:5"),
    "grid": lambda: Topology.family("grid:2x3"),
    "4-regular": lambda: Topology.family("regular:8:4"),
    "barbell": lambda: Topology.family("barbell:3:3"),
    "random tree": lambda: tree(7),
}
ONE_WAY = {
    "one-way ring": lambda: arcs(nx.cycle_graph(5, create_using=nx.DiGraph)),
    "ring with a way back": lambda: arcs(nx.DiGraph([(0, 1), (1, 2), (2, 0), (2, 1)])),
    "random arcs": lambda: arcs(nx.gnp_random_graph(7, 0.4, seed=1, directed=True)),
    "one-way star": lambda: arcs(
        nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 3), (3, 2), (0, 4), (4, 2)])
    ),
}
# How far single costs bend away from their average.
SMALL, LARGE = 0.5, 2.5
every_family = pytest.mark.parametrize("family", FAMILIES)


def arcs(graph):
    return Topology.from_networkx(graph)


@dataclass(frozen=True, eq=False)
class Problem:
    """Quadratics that average to curvatures from LEAST to MOST, on one graph.

    A small bend gives different curvatures, a large one costs that are not convex by
    themselves.
    """

    topology: Topology
    bend: float

    @cached_property
    def matrices(self):
        n = self.topology.n_parties
        turned = np.random.default_rng(n).normal(size=(n, DIM, DIM))
        turned = turned + turned.transpose(0, 2, 1)
        turned -= turned.mean(axis=0)
        largest = np.abs(np.linalg.eigvalsh(turned)).max()
        slant = np.array([[0.8, -0.6], [0.6, 0.8]])
        mean = slant @ np.diag([LEAST, MOST]) @ slant.T
        return mean + self.bend / largest * turned

    @cached_property
    def vectors(self):
        n = self.topology.n_parties
        return np.random.default_rng(n + 100).normal(1.0, 2.0, (n, DIM))

    @property
    def is_convex(self):
        return np.linalg.eigvalsh(self.matrices).min() >= 0

    @cached_property
    def cost(self):
        """Masked: the linear parts hold noise that adds up to nothing."""
        rng = np.random.default_rng(3)
        masked = self.vectors + 2.0 * zero_sum(rng, self.vectors.shape)
        pairs = zip(self.matrices, masked, strict=True)
        theta = np.array([quadratic_coefficients(p, q) for p, q in pairs])
        return EffectiveCost(Quadratic(DIM), theta, NoRemainder())

    @cached_property
    def bounds(self):
        largest = np.abs(np.linalg.eigvalsh(self.matrices)).max()
        return Bounds(
            smooth=max(float(largest), MOST), mean_smooth=MOST, mean_convex=LEAST
        )

    @property
    def solution(self):
        """Where the sum's gradient is zero."""
        return np.linalg.solve(self.matrices.sum(axis=0), -self.vectors.sum(axis=0))

    @property
    def solution_in_the_box(self):
        """By scipy: ||R x + R^-T q||^2 / 2 is the sum but for a constant."""
        root = np.linalg.cholesky(self.matrices.sum(axis=0)).T
        target = np.linalg.solve(root.T, -self.vectors.sum(axis=0))
        return optimize.lsq_linear(root, target, (LOW, HIGH), tol=1e-14).x

    def count(self, made, expected, tolerance, most):
        """How many iterations, in tens, until all are near for good; None if never."""
        method, weights = made
        start = np.zeros((self.topology.n_parties, DIM))
        states = iterations_of_method(method, weights, self.cost, start)
        near_before = False
        for state in islice(states, 0, most + 1, 10):
            near = np.abs(state.x - expected).max() < tolerance
            if near and near_before:
                return state.iteration
            near_before = near
        return None


def zero_sum(rng, shape):
    drawn = rng.normal(size=shape)
    return drawn - drawn.mean(axis=0)


@lru_cache
def problem(family, bend):
    return Problem({**FAMILIES, **ONE_WAY}[family](), bend)


def symmetric(topology, name):
    weights = mixing_weights(topology, name)
    return {"symmetric": weights.toarray()}, mixing_rate(weights)


# Each method made for a problem: its steps and rounds follow from public bounds.


def dgd(on, domain):
    bounded = Box(-9.0, 9.0, dim=DIM) if domain is EVERYWHERE else domain
    return Dgd(bounded, scale=2.0 / LEAST), symmetric(on.topology, "metropolis")[0]


def extra(on, domain):
    weights, _ = symmetric(on.topology, "lazy-metropolis")
    least = np.linalg.eigvalsh(weights["symmetric"])[0]
    return Extra(domain, extra_step(on.bounds.smooth, least)), weights


def nids(on, domain):
    weights, _ = symmetric(on.topology, "metropolis")
    return Nids(domain, nids_step(on.bounds.smooth)), weights


def tracking(on, domain):
    weights, rate = symmetric(on.topology, "best-constant")
    constrained = domain is not EVERYWHERE
    rounds = certified_rounds(rate, on.bounds, constrained=constrained)
    return Chebyshev(GradientTracking(domain, 1.0 / MOST), rate, rounds), weights


def accelerated(on, domain):
    weights, rate = symmetric(on.topology, "best-constant")
    rounds = certified_accelerated_rounds(rate, on.bounds)
    return Chebyshev(AcceleratedTracking(domain, MOST, LEAST), rate, rounds), weights


def push_pull(on, domain):
    mixing = OneWayMixing.of(on.topology)
    step, rounds = certified_push_pull(mixing, on.bounds)
    weights = {"row": mixing.row, "column": mixing.column}
    return Chebyshev(PushPull(domain, step), 0.0, rounds), weights


def running_sums(on, domain):
    mixing = OneWayMixing.of(on.topology)
    rate = min(max(mixing.rates(1)), 0.99)
    step = running_sums_step(rate, on.bounds.smooth) / mixing.gain
    weights = {"row": mixing.row, "column": mixing.column}
    # The usual step is for convex costs and links that work both ways.
    plain = on.is_convex and not on.topology.directed
    return RunningSums(domain, step if plain else step / 4), weights


MAKERS = {
    "dgd": dgd,
    "extra": extra,
    "nids": nids,
    "gradient-tracking": tracking,
    "accelerated": accelerated,
    "push-pull": push_pull,
    "running-sums": running_sums,
}

# How many iterations at most, and how near they lead; dgd's steps must shrink.
LIMITS = {
    "dgd": (6000, 0.15),
    "extra": (4000, 1e-8),
    "nids": (1500, 1e-8),
    "gradient-tracking": (60, 1e-8),
    "accelerated": (40, 1e-8),
    "push-pull": (60, 1e-8),
    "running-sums": (1500, 1e-8),
}


def admitting(trait):
    return pytest.mark.parametrize(
        "name", [name for name, has in TRAITS.items() if getattr(has, trait)]
    )


def arrives(name, on, *, domain=EVERYWHERE):
    most, tolerance = LIMITS[name]
    expected = on.solution if domain is EVERYWHERE else on.solution_in_the_box
    return on.count(MAKERS[name](on, domain), expected, tolerance, most) is not None


def test_every_method_there_is_is_here():
    assert MAKERS.keys() == LIMITS.keys() == TRAITS.keys()


@every_family
@pytest.mark.parametrize("name", TRAITS)
def test_convex_costs(name, family):
    on = problem(family, SMALL)
    assert on.is_convex
    assert np.linalg.norm(on.solution) > 1.0  # the start is not the answer
    assert arrives(name, on)


@every_family
@admitting("nonconvex")
def test_costs_that_are_convex_together_only(name, family):
    on = problem(family, LARGE)
    assert not on.is_convex
    assert arrives(name, on)


@every_family
@admitting("domain")
def test_a_box_that_cuts_the_minimiser_off(name, family):
    on = problem(family, SMALL)
    expected = on.solution_in_the_box
    assert np.isclose(expected, LOW).tolist() == [True, False]
    assert np.abs(expected - on.solution).max() > 0.1
    assert arrives(name, on, domain=BOX)


@pytest.mark.parametrize("bend", [SMALL, LARGE], ids=["convex", "convex together only"])
@pytest.mark.parametrize("family", ONE_WAY)
@admitting("directed")
def test_one_way_links(name, family, bend):
    assert arrives(name, problem(family, bend))


@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")
@pytest.mark.parametrize("name", ["extra", "nids"])
def test_those_who_need_convex_costs_do_go_astray_without(name):
    """The table is right to keep these out."""
    assert not TRAITS[name].nonconvex
    assert not arrives(name, problem("ring", LARGE))


def test_a_wrong_answer_would_be_seen():
    """One party's cost left out moves the minimiser by far more than is tolerated."""
    on = problem("ring", SMALL)
    others = np.linalg.solve(on.matrices[1:].sum(axis=0), -on.vectors[1:].sum(axis=0))
    assert np.abs(others - on.solution).max() > 0.2
    made = MAKERS["gradient-tracking"](on, EVERYWHERE)
    assert on.count(made, others, 0.1, 200) is None
