"""Certified rounds: the matrices bound every single iteration, and K is the least."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import optimize

from cases import each
from refusals import refused
from strategies import connected_topologies, few, seeds
from veilsum.graphs.mixing import mixing_rate, mixing_weights
from veilsum.minimise.costs.bases import Quadratic, quadratic_coefficients
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import NoRemainder
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.base import mix_method_messages
from veilsum.minimise.methods.certificate import (
    Bounds,
    accelerated_certificate_matrix,
    certificate_spectral_radius,
    certified_accelerated_rounds,
    certified_rounds,
    contraction_of_mixing_rounds,
    tracking_certificate_matrix,
)
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.numbers.arrays import frozen_array

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

DIM = 3
ROOM = 1.0 + 1e-9


class Indefinite:
    """Quadratic costs of which single ones are not convex, and their average is."""

    def __init__(self, n, seed, spread=2.0):
        rng = np.random.default_rng(seed)
        bend = rng.normal(0.0, spread, (n, DIM, DIM))
        bend = bend + bend.transpose(0, 2, 1)
        bend -= bend.mean(axis=0)
        matrices = bend + np.diag(rng.uniform(0.5, 4.0, DIM))
        vectors = rng.normal(0.0, 3.0, (n, DIM))
        pairs = zip(matrices, vectors, strict=True)
        theta = np.array([quadratic_coefficients(p, q) for p, q in pairs])
        self.cost = EffectiveCost(Quadratic(DIM), frozen_array(theta), NoRemainder())
        self.mean, self.tilt = matrices.mean(axis=0), vectors.mean(axis=0)
        curvature = np.linalg.eigvalsh(self.mean)
        self.bounds = Bounds(
            smooth=float(np.abs(np.linalg.eigvalsh(matrices)).max()),
            mean_smooth=float(curvature[-1]),
            mean_convex=float(curvature[0]),
        )
        self.indefinite = bool(np.linalg.eigvalsh(matrices).min() < 0)

    def minimiser(self, domain):
        """By scipy, inside the box or everywhere."""
        if isinstance(domain, WholeSpace):
            return np.linalg.solve(self.mean, -self.tilt)
        root = np.linalg.cholesky(self.mean).T
        target = np.linalg.solve(root.T, -self.tilt)
        limits = (domain.lower, domain.upper)
        return optimize.lsq_linear(root, target, limits, method="bvls", tol=1e-15).x

    def value(self, x):
        return 0.5 * x @ self.mean @ x + self.tilt @ x


def disagreement(rows):
    return np.linalg.norm(rows - rows.mean(axis=0))


def whole_iterations(method, weights, cost, start, count):
    """States of the inner method after both its exchanges, iteration by iteration."""
    state = method.begin(start, cost)
    yield state.inner
    for _ in range(count):
        for _ in range(method.rounds_per_iteration):
            told = method.outgoing(state)
            mixed = mix_method_messages(
                {"symmetric": weights}, method.parts(state), told
            )
            state = method.advance(state, mixed, cost)
        yield state.inner


@pytest.mark.parametrize(
    "domain", [WholeSpace(DIM), Box(-0.7, 0.4, dim=DIM)], ids=["everywhere", "box"]
)
@few
@given(
    topology=connected_topologies(min_agents=3, max_agents=6),
    seed=seeds,
    rounds=st.integers(1, 6),
    share=st.floats(0.1, 1.0),
)
def test_the_matrix_bounds_every_iteration_of_tracking(
    domain, topology, seed, rounds, share
):
    """(e_o, e_x, e_y)+ <= M (e_o, e_x, e_y), whether it converges or not."""
    trial, n = Indefinite(topology.n_parties, seed), topology.n_parties
    weights = mixing_weights(topology, "metropolis")
    rate = mixing_rate(weights)
    step = share * 2.0 / (trial.bounds.mean_smooth + trial.bounds.mean_convex)
    matrix = tracking_certificate_matrix(
        trial.bounds,
        step,
        contraction_of_mixing_rounds(rate, rounds),
        constrained=not isinstance(domain, WholeSpace),
    )
    best = trial.minimiser(domain)
    method = Chebyshev(GradientTracking(domain, step), rate, rounds)
    start = np.random.default_rng(seed).normal(0.0, 1.0, (n, DIM))
    errors = [
        np.array(
            [
                np.sqrt(n) * np.linalg.norm(state.x.mean(axis=0) - best),
                disagreement(state.x),
                disagreement(state.tracker),
            ]
        )
        for state in whole_iterations(method, weights.toarray(), trial.cost, start, 6)
    ]
    for before, after in itertools.pairwise(errors):
        assert (after <= ROOM * matrix @ before + 1e-9).all()


@few
@given(
    topology=connected_topologies(min_agents=3, max_agents=6),
    seed=seeds,
    rounds=st.integers(1, 6),
)
def test_the_matrix_bounds_every_iteration_of_acceleration(topology, seed, rounds):
    trial, n = Indefinite(topology.n_parties, seed), topology.n_parties
    bounds, best = trial.bounds, np.linalg.solve(trial.mean, -trial.tilt)
    weights = mixing_weights(topology, "metropolis")
    rate = mixing_rate(weights)
    matrix = accelerated_certificate_matrix(
        bounds, contraction_of_mixing_rounds(rate, rounds)
    )
    inner = AcceleratedTracking(WholeSpace(DIM), bounds.mean_smooth, bounds.mean_convex)
    method = Chebyshev(inner, rate, rounds)
    start = np.random.default_rng(seed).normal(0.0, 1.0, (n, DIM))
    t = np.sqrt(1.0 / bounds.condition)

    def errors(state):
        x, ahead = state.x.mean(axis=0), state.ahead.mean(axis=0)
        # q = (x + t v) / (1 + t)
        v = ((1.0 + t) * ahead - x) / t
        gap = trial.value(x) - trial.value(best)
        energy = 2.0 * gap + bounds.mean_convex * np.sum((v - best) ** 2)
        spread = [state.x, state.ahead, state.tracker]
        return np.array([np.sqrt(n * energy), *map(disagreement, spread)])

    states = whole_iterations(method, weights.toarray(), trial.cost, start, 6)
    found = [errors(state) for state in states]
    for before, after in itertools.pairwise(found):
        assert (after <= ROOM * matrix @ before + 1e-6 * (1 + before.max())).all()


@few
@given(connected_topologies(min_agents=3, max_agents=6), seeds)
def test_certified_methods_converge_at_the_certified_rate(topology, seed):
    """With non-convex costs, from anywhere: within the rate over forty iterations."""
    trial, n = Indefinite(topology.n_parties, seed), topology.n_parties
    bounds, weights = trial.bounds, mixing_weights(topology, "metropolis")
    rate, best = mixing_rate(weights), trial.minimiser(WholeSpace(DIM))
    everywhere = WholeSpace(DIM)
    fast = AcceleratedTracking(everywhere, bounds.mean_smooth, bounds.mean_convex)
    pairs = [
        (
            GradientTracking(everywhere, 1.0 / bounds.mean_smooth),
            certified_rounds(rate, bounds, constrained=False),
            1.0 - 0.5 / bounds.condition,
        ),
        (
            fast,
            certified_accelerated_rounds(rate, bounds),
            1.0 - 0.25 / np.sqrt(bounds.condition),
        ),
    ]
    for inner, rounds, rate_per_step in pairs:
        method = Chebyshev(inner, rate, rounds)
        *_, last = whole_iterations(
            method, weights.toarray(), trial.cost, np.zeros((n, DIM)), 40
        )
        start = np.sqrt(n) * np.linalg.norm(best) + np.linalg.norm(
            trial.cost.gradient(np.zeros((n, DIM)))
        )
        left = np.linalg.norm(last.x - best)
        assert left <= 10.0 * bounds.condition * rate_per_step**40 * start


def test_the_matrices_are_those_of_the_theorem_in_exact_numbers():
    """L = 3, L_bar = 2, mu_bar = 1/2, a = 1/2, rho_K = 1/4, worked out by hand."""
    bounds = Bounds(smooth=3.0, mean_smooth=2.0, mean_convex=0.5)
    agree = [0, 1 / 4, 1 / 8]
    projected = [[3 / 4, 7 / 4, 1 / 8], agree, [21 / 16, 33 / 16, 11 / 32]]
    free = [[3 / 4, 3 / 2, 0], agree, [3 / 4, 21 / 8, 11 / 32]]
    for constrained, expected in ((True, projected), (False, free)):
        found = tracking_certificate_matrix(bounds, 0.5, 0.25, constrained=constrained)
        assert found.tolist() == expected


# --- How many rounds ----------------------------------------------------------------

bounds_of_costs = st.builds(
    lambda low, condition, excess: Bounds(
        mean_convex=low,
        mean_smooth=low * condition,
        smooth=low * condition * excess,
    ),
    st.floats(0.01, 10.0),
    st.floats(1.0, 1e4),
    st.floats(1.0, 1e6),
)
rates = st.floats(0.0, 0.999)


@given(rates, bounds_of_costs, st.booleans())
def test_certified_rounds_are_the_fewest(rate, bounds, constrained):
    found = certified_rounds(rate, bounds, constrained=constrained)
    target = 1.0 - 0.5 / bounds.condition
    radii = [
        certificate_spectral_radius(
            tracking_certificate_matrix(
                bounds,
                1.0 / bounds.mean_smooth,
                contraction_of_mixing_rounds(rate, rounds),
                constrained=constrained,
            )
        )
        for rounds in (found, found - 1)
        if rounds
    ]
    assert radii[0] <= target
    assert found == 1 or radii[1] > target


@given(rates, bounds_of_costs)
def test_certified_rounds_of_acceleration_are_the_fewest(rate, bounds):
    found = certified_accelerated_rounds(rate, bounds)
    target = 1.0 - 0.25 / np.sqrt(bounds.condition)
    radii = [
        certificate_spectral_radius(
            accelerated_certificate_matrix(
                bounds, contraction_of_mixing_rounds(rate, rounds)
            )
        )
        for rounds in (found, found - 1)
        if rounds
    ]
    assert radii[0] <= target
    assert found == 1 or radii[1] > target


@given(rates, bounds_of_costs)
def test_a_domain_never_takes_fewer_rounds(rate, bounds):
    free, bound = (
        certified_rounds(rate, bounds, constrained=constrained)
        for constrained in (False, True)
    )
    assert free <= bound


def test_rounds_grow_with_the_logarithm_of_the_masks():
    """A thousand times more curvature in single costs: the same rounds more each."""
    rounds = [
        certified_rounds(
            0.9,
            Bounds(smooth=1000.0**k, mean_smooth=1.0, mean_convex=0.1),
            constrained=False,
        )
        for k in (1, 2, 3, 4)
    ]
    gaps = np.diff(rounds)
    per_decade = np.log(10.0) / np.arccosh(1.0 / 0.9)
    assert gaps == pytest.approx([3 * per_decade] * 3, abs=1.5)


@given(st.floats(0.01, 0.99), st.integers(1, 40))
def test_what_rounds_leave_is_one_over_chebyshev_s_polynomial(rate, rounds):
    polynomial = np.polynomial.chebyshev.Chebyshev.basis(rounds)
    assert contraction_of_mixing_rounds(rate, rounds) == pytest.approx(
        1.0 / polynomial(1.0 / rate), rel=1e-9
    )


def test_perfect_mixing_takes_one_round():
    bounds = Bounds(smooth=1e9, mean_smooth=1.0, mean_convex=1e-3)
    assert contraction_of_mixing_rounds(0.0, 1) == 0.0
    assert contraction_of_mixing_rounds(1e-300, 10**6) == 0.0
    assert certified_rounds(0.0, bounds, constrained=True) == 1
    assert certified_accelerated_rounds(0.0, bounds) == 1


@each("rate", [1.0, 1.5, -0.1, np.nan])
def test_a_rate_that_no_connected_graph_has_is_refused(rate):
    bounds = Bounds(smooth=2.0, mean_smooth=1.0, mean_convex=0.5)
    for ask in (
        lambda: certified_rounds(rate, bounds, constrained=False),
        lambda: certified_accelerated_rounds(rate, bounds),
    ):
        with refused("mixing-rate-out-range", mentions=("0,", "1")):
            ask()


def test_a_graph_that_hardly_mixes_is_refused_and_not_searched_for_ever():
    bounds = Bounds(smooth=1e6, mean_smooth=1.0, mean_convex=1e-3)
    with refused("too-many-rounds-needed"):
        certified_rounds(1.0 - 1e-16, bounds, constrained=False)


@each(
    ("low", "top", "most"),
    [(0.0, 1.0, 1.0), (2.0, 1.0, 3.0), (0.1, 1.0, 0.5), (0.1, 1.0, np.inf)],
)
def test_bounds_out_of_order_are_refused(low, top, most):
    with refused("bounds-inconsistent", mentions=("mean_convex", "mean_smooth")):
        Bounds(smooth=most, mean_smooth=top, mean_convex=low)
