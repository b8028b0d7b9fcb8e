"""Tasks for engines: every method, on small graphs, with costs of several kinds."""

from itertools import pairwise

import numpy as np

from veilsum.graphs.mixing import mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Affine, Quadratic, quadratic_coefficients
from veilsum.minimise.costs.domains import Ball, Box, Simplex, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import NoRemainder, SquaredNorm
from veilsum.minimise.engines.engine import EngineTask
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.extra import Extra
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.nids import Nids
from veilsum.minimise.methods.one_way import one_way_column_weights, one_way_row_weights
from veilsum.minimise.methods.push_pull import PushPull
from veilsum.minimise.methods.running_sums import RunningSums

METHODS = {
    "dgd": lambda m: Dgd(Box(-1.0, 0.4, dim=m), scale=0.3, power=0.75),
    "dgd in sides that differ": lambda m: Dgd(Box(np.linspace(-1, 0, m), 2.0, dim=m)),
    "dgd at own point": lambda m: Dgd(
        Box(-1.0, 0.4, dim=m), scale=0.3, gradient_at="own"
    ),
    "dgd in a ball": lambda m: Dgd(Ball(0.1, 0.5, dim=m), scale=0.3),
    "dgd in a simplex": lambda m: Dgd(Simplex(m), scale=0.3),
    "extra": lambda m: Extra(Box(-1.0, 0.4, dim=m), 0.1),
    "nids": lambda m: Nids(WholeSpace(m), 0.2),
    "tracking": lambda m: GradientTracking(WholeSpace(m), 0.2),
    "tracking in a box": lambda m: GradientTracking(Box(-1.0, 0.4, dim=m), 0.2),
    "tracking, two rounds": lambda m: Chebyshev(
        GradientTracking(WholeSpace(m), 0.2), 0.9, 2
    ),
    "tracking in a box, five rounds": lambda m: Chebyshev(
        GradientTracking(Box(-1.0, 0.4, dim=m), 0.2), 0.9, 5
    ),
    "accelerated, three rounds": lambda m: Chebyshev(
        AcceleratedTracking(WholeSpace(m), 2.0, 1.0), 0.9, 3
    ),
    "dgd, three rounds": lambda m: Chebyshev(
        Dgd(Box(-1.0, 0.4, dim=m), scale=0.3), 0.9, 3
    ),
    "push-pull": lambda m: PushPull(WholeSpace(m), 0.02),
    "running sums": lambda m: RunningSums(WholeSpace(m), 0.02),
}
COSTS = ("slopes alone", "distances", "quadratics")


def all_weights(topology, name="metropolis"):
    """Every kind of weights that a method may name."""
    return {
        "symmetric": mixing_weights(topology, name),
        "row": one_way_row_weights(topology),
        "column": one_way_column_weights(topology),
    }


def cost_of(kind, parties, dim, stream):
    """Effective costs of a kind, drawn at random."""
    slopes = stream.standard_normal((parties, dim))
    if kind == "quadratics":
        factors = stream.standard_normal((parties, dim, dim)) / np.sqrt(dim)
        squares = 0.3 * factors @ factors.swapaxes(1, 2) + 0.3 * np.eye(dim)
        pairs = zip(squares, slopes, strict=True)
        theta = np.stack([quadratic_coefficients(p, q) for p, q in pairs])
        return EffectiveCost(Quadratic(dim), theta, NoRemainder())
    rest = SquaredNorm(0.7) if kind == "distances" else NoRemainder()
    return EffectiveCost(Affine(dim), slopes, rest)


def make_task(
    method, family="karate", *, dim=3, cost="distances", mixing="metropolis", **rest
):
    """A task by the names of its parts."""
    topology = Topology.family(family)
    stream = np.random.default_rng(len(method) + 7 * dim)
    return EngineTask(
        method=METHODS[method](dim),
        weights=all_weights(topology, mixing),
        cost=cost_of(cost, topology.n_parties, dim, stream),
        start=stream.standard_normal((topology.n_parties, dim)),
        **rest,
    )


def one_way_task(dim=2):
    """Push-Pull over arcs, some of which have no way back."""
    arcs = [*pairwise(range(9)), (8, 0), (0, 4), (5, 2), (3, 7), (7, 3)]
    topology = Topology.from_edges(arcs, directed=True)
    stream = np.random.default_rng(3)
    weights = {
        "row": one_way_row_weights(topology),
        "column": one_way_column_weights(topology),
    }
    return EngineTask(
        method=PushPull(WholeSpace(dim), 0.02),
        weights=weights,
        cost=cost_of("distances", 9, dim, stream),
        start=stream.standard_normal((9, dim)),
    )


def arrived(engine, count):
    """Where parties are after so many iterations, and where they would go next."""
    state = engine.advance(engine.begin(), count)
    assert state.iteration == count
    return np.stack([engine.points(state), engine.aims(state)])


def assert_same(engine, other, *, count=60, within=1e-10):
    """Two engines agree, relative to the size of their numbers."""
    ours, theirs = arrived(engine, count), arrived(other, count)
    assert np.isfinite(theirs).all()
    scale = max(1.0, float(np.abs(theirs).max()))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=within * scale)
