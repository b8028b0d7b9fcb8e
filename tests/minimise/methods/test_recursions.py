"""Every method against the recursion it is known by, written out plainly."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy.special import eval_chebyt

from cases import each
from method_states import iterations_of_method
from refusals import refused
from strategies import connected_topologies, few, finite_arrays, seeds
from veilsum.errors import InvalidInputError
from veilsum.graphs.mixing import mixing_rate, mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods import extra
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.extra import Extra, extra_step, least_eigenvalue_of_mixing
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.nids import Nids, nids_step
from veilsum.minimise.methods.one_way import one_way_column_weights, one_way_row_weights
from veilsum.minimise.methods.push_pull import PushPull
from veilsum.minimise.methods.running_sums import RunningSums, running_sums_step
from veilsum.numbers.arrays import frozen_array

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

STEPS = 15


class Curved:
    """grad rho(x) = b x + tanh(x) / 2: not quadratic, different for every party."""

    kind = "local"

    def __init__(self, bends):
        self.bends = bends

    def gradient(self, x):
        return self.bends * x + 0.5 * np.tanh(x)

    def rows(self, which):
        return Curved(self.bends[which])


class Trial:
    """A random graph and random costs, their gradients at hand."""

    def __init__(self, data, least=2):
        sizes = {"min_agents": least, "max_agents": 5}
        self.topology = data.draw(connected_topologies(**sizes))
        n = self.n = self.topology.n_parties
        rng = np.random.default_rng(data.draw(seeds))
        self.bends = rng.uniform(0.5, 1.5, (n, 2))
        self.tilt = rng.normal(0.0, 2.0, (n, 2))
        self.start = data.draw(finite_arrays((n, 2), most=1.0))
        self.weights = mixing_weights(self.topology, "metropolis").toarray()
        self.domain = data.draw(st.sampled_from([WholeSpace(2), Box(-0.6, 0.8, dim=2)]))

    @property
    def cost(self):
        return EffectiveCost(
            Affine(2), frozen_array(self.tilt.copy()), Curved(self.bends)
        )

    def slope(self, x):
        return self.bends * x + 0.5 * np.tanh(x) + self.tilt

    def project(self, x):
        if isinstance(self.domain, WholeSpace):
            return x
        return np.minimum(np.maximum(x, -0.6), 0.8)

    def estimates(self, method, weights=None):
        same = dict.fromkeys(("symmetric", "row", "column"), self.weights)
        states = iterations_of_method(method, weights or same, self.cost, self.start)
        return [state.x for state in islice(states, STEPS + 1)]


def agree(found, expected):
    assert len(found) == len(expected) == STEPS + 1
    largest = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-11 * largest)


@few
@given(st.data())
def test_extra_in_two_steps(data):
    trial, a = Trial(data), 0.25
    w, half = trial.weights, 0.5 * (np.eye(trial.n) + trial.weights)
    x = [trial.project(trial.start)]
    z = w @ x[0] - a * trial.slope(x[0])
    x.append(trial.project(z))
    while len(x) <= STEPS:
        old, now = x[-2:]
        turned = trial.slope(now) - trial.slope(old)
        z = z + w @ now - half @ old - a * turned
        x.append(trial.project(z))
    agree(trial.estimates(Extra(trial.domain, a)), x)


@few
@given(st.data())
def test_nids_with_its_dual(data):
    trial, a = Trial(data), 0.4
    x = [trial.project(trial.start)]
    z, d = x[0], np.zeros_like(x[0])
    while len(x) <= STEPS:
        now, g = x[-1], trial.slope(x[-1])
        v = 2 * now - z - a * g - d
        d = d + 0.5 * (v - trial.weights @ v)
        z = now - a * g - d
        x.append(trial.project(z))
    agree(trial.estimates(Nids(trial.domain, a)), x)


@few
@given(st.data())
def test_nids_in_two_steps(data):
    """z+ = z - x + (I + W)/2 (2x - x_- - a (g - g_-)) from the second iterate on."""
    trial, a = Trial(data), 0.4
    half = 0.5 * (np.eye(trial.n) + trial.weights)
    found = trial.estimates(Nids(trial.domain, a))
    old = trial.project(trial.start)
    z = half @ (old - a * trial.slope(old))
    expected = [old, trial.project(z)]
    while len(expected) <= STEPS:
        old, now = expected[-2:]
        turned = trial.slope(now) - trial.slope(old)
        z = z - now + half @ (2 * now - old - a * turned)
        expected.append(trial.project(z))
    agree(found, expected)


def polynomial(weights, rate, rounds):
    """T_K(W / rho) / T_K(1 / rho), by eigenvectors."""
    values, vectors = np.linalg.eigh(weights)
    scale = eval_chebyt(rounds, values / rate) / eval_chebyt(rounds, 1.0 / rate)
    return (vectors * scale) @ vectors.T


@few
@given(st.data(), st.integers(1, 6))
def test_gradient_tracking_with_chebyshev_s_polynomial(data, rounds):
    trial, a = Trial(data), 0.1
    rate = mixing_rate(mixing_weights(trial.topology, "metropolis"))
    assume(rate > 0.05)
    w = polynomial(trial.weights, rate, rounds)
    x = [trial.project(trial.start)]
    y = trial.slope(x[0])
    while len(x) <= STEPS:
        x.append(trial.project(w @ (x[-1] - a * y)))
        y = w @ (y + trial.slope(x[-1]) - trial.slope(x[-2]))
    method = Chebyshev(GradientTracking(trial.domain, a), rate, rounds)
    agree(trial.estimates(method), x)


@few
@given(st.data(), st.integers(1, 6))
def test_accelerated_tracking_with_chebyshev_s_polynomial(data, rounds):
    trial, top, low = Trial(data), 9.0, 1.0
    rate = mixing_rate(mixing_weights(trial.topology, "metropolis"))
    assume(rate > 0.05)
    w = polynomial(trial.weights, rate, rounds)
    x = [trial.project(trial.start)]
    q, s, b = x[0], trial.slope(x[0]), (1 - 1 / 3) / (1 + 1 / 3)
    while len(x) <= STEPS:
        x.append(trial.project(w @ (q - s / top)))
        ahead = x[-1] + b * (x[-1] - x[-2])
        s = w @ (s + trial.slope(ahead) - trial.slope(q))
        q = ahead
    method = Chebyshev(AcceleratedTracking(trial.domain, top, low), rate, rounds)
    agree(trial.estimates(method), x)


@few
@given(st.data(), connected_topologies(min_agents=5, max_agents=5, directed=True))
def test_push_pull_and_running_sums_over_one_way_links(data, arcs):
    """Two orders of mixing and adding; sums of sums and plain trackers are the same."""
    trial, a = Trial(data, least=5), 0.05
    r, c = one_way_row_weights(arcs).toarray(), one_way_column_weights(arcs).toarray()
    x = [trial.project(trial.start)]
    y = trial.slope(x[0])
    late, z = [x[0]], y
    while len(x) <= STEPS:
        x.append(trial.project(r @ (x[-1] - a * y)))
        y = c @ (y + trial.slope(x[-1]) - trial.slope(x[-2]))
        late.append(trial.project(r @ (late[-1] - a * z)))
        z = c @ z + trial.slope(late[-1]) - trial.slope(late[-2])
    weights = {"row": r, "column": c}
    agree(trial.estimates(PushPull(trial.domain, a), weights), x)
    agree(trial.estimates(RunningSums(trial.domain, a), weights), late)


@pytest.mark.parametrize("directed", [False, True])
@few
@given(data=st.data())
def test_receivers_and_senders_divide_by_all_they_hear_or_tell(directed, data):
    topology = data.draw(connected_topologies(directed=directed))
    heard = np.eye(topology.n_parties)
    for sender, receiver in topology.edges:
        heard[receiver, sender] = 1.0
        if not directed:
            heard[sender, receiver] = 1.0
    row, column = one_way_row_weights(topology), one_way_column_weights(topology)
    by_rows = heard / heard.sum(axis=1, keepdims=True)
    by_columns = heard / heard.sum(axis=0, keepdims=True)
    np.testing.assert_allclose(row.toarray(), by_rows, rtol=1e-15)
    np.testing.assert_allclose(column.toarray(), by_columns, rtol=1e-15)


def test_plain_rounds_are_powers_of_the_weights():
    """At rate 0 no round is weighted against an earlier one."""
    ring = mixing_weights(Topology.family("ring:5"), "metropolis").toarray()
    cost = EffectiveCost(Affine(1), frozen_array(np.arange(5.0)[:, None]), Curved(1.0))
    start = np.zeros((5, 1))
    pairs = (
        (Chebyshev(Nids(WholeSpace(1), 0.3), 0.0, 3), ring),
        (Nids(WholeSpace(1), 0.3), np.linalg.matrix_power(ring, 3)),
    )
    ends = []
    for method, weights in pairs:
        *_, last = islice(
            iterations_of_method(method, {"symmetric": weights}, cost, start), 9
        )
        ends.append(last.x)
    np.testing.assert_allclose(*ends, rtol=1e-13)


# --- Steps from public bounds -----------------------------------------------------


def test_steps_are_the_formulas():
    assert extra_step(4.0, -0.5) == pytest.approx(0.95 * 0.5 / 4.0)
    assert extra_step(4.0, 0.0, share=0.5) == pytest.approx(0.125)
    assert nids_step(4.0) == 0.25
    assert nids_step(4.0, share=1.9) == pytest.approx(1.9 / 4.0)
    assert running_sums_step(0.75, 2.0) == pytest.approx(0.25)


@each("spec", ["ring:8", "star:6", "petersen"])
def test_the_least_eigenvalue_is_the_least(spec):
    weights = mixing_weights(Topology.family(spec), "metropolis")
    expected = np.linalg.eigvals(weights.toarray()).real.min()
    assert least_eigenvalue_of_mixing(weights) == pytest.approx(expected, abs=1e-12)


def test_extra_refuses_weights_that_reach_minus_one():
    """Two parties that only swap what they hold: W has the eigenvalue -1."""
    with refused("weights-eigenvalue", mentions=("1",)):
        extra_step(1.0, -1.0)


@each("share", [0.0, 2.0, -1.0, np.nan])
def test_nids_refuses_a_step_of_two_over_l(share):
    with refused("share-out-of-range", mentions=("2",)):
        nids_step(1.0, share=share)


@each(("top", "low"), [(1.0, 0.0), (1.0, 2.0), (0.0, 0.0)])
def test_acceleration_refuses_an_average_without_strong_convexity(top, low):
    with pytest.raises(InvalidInputError, match=r"accelerated.*found"):
        AcceleratedTracking(WholeSpace(1), top, low)


@each(
    ("rate", "rounds", "words"),
    [(1.0, 2, "connected"), (-0.1, 2, "connected"), (0.5, 0, "one round at least")],
)
def test_mixing_in_rounds_refuses_what_is_no_mixing(rate, rounds, words):
    with pytest.raises(InvalidInputError, match=words):
        Chebyshev(Nids(WholeSpace(1), 0.1), rate, rounds)


@each("spec", ["ring:1600", "star:1600", "grid:40x40"])
def test_many_parties_have_the_bound_of_gershgorin(spec):
    """Its discs reach down to the least of w_ii less all others of the row."""
    weights = mixing_weights(Topology.family(spec), "metropolis")
    dense = weights.toarray()
    assert len(dense) > extra.DENSE_PARTIES
    discs = 2.0 * np.diag(dense) - np.abs(dense).sum(axis=1)
    found = least_eigenvalue_of_mixing(weights)
    assert found == pytest.approx(discs.min(), abs=1e-12)
    assert found <= np.linalg.eigvalsh(dense)[0] + 1e-12


def test_the_least_eigenvalue_of_a_long_ring_is_known():
    """Weights of a third: 1/3 + 2/3 cos(k pi), attained with an even number."""
    weights = mixing_weights(Topology.family("ring:2000"), "metropolis")
    assert least_eigenvalue_of_mixing(weights) == pytest.approx(-1 / 3, abs=1e-12)
