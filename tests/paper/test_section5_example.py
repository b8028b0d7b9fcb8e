"""Section V: three agents, A = [1, 2, 3] against B = [2, 1, 3], agent 3 corrupted."""

import numpy as np
import pytest

from veilsum.consortium.scenario import Settings
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.executions import simulate
from veilsum.minimise.solve import solve
from veilsum.privacy.conversions import attacker_success
from veilsum.privacy.divergence import kl_divergence
from veilsum.privacy.guarantee import guarantee

TRIANGLE = Topology.from_edges([(1, 2), (1, 3), (2, 3)])
A, B = [1.0, 2.0, 3.0], [2.0, 1.0, 3.0]
EXECUTIONS = 100_000
START = [[50.0], [-50.0], [20.0]]
lengths = pytest.mark.parametrize(
    "iterations", [10, 100, 1000, pytest.param(10_000, marks=pytest.mark.slow)]
)


def run(law, *, iterations, sigma=None):
    return solve(
        [Cost.affine([a], remainder=SquaredNorm(1.0)) for a in A],
        topology=TRIANGLE,
        domain=Box(-100.0, 100.0, dim=1),
        law=law,
        sigma=sigma,
        seed=0,
        corrupted=["3"],
        settings=Settings(iterations=iterations, start=START),
    )


def test_the_theory_s_numbers_are_the_paper_s():
    """epsilon = 1/8 from mu2 = 2 and sigma = 1; KL = bound = 1/4."""
    promise = guarantee(TRIANGLE, sigma=1.0, corrupted=["3"])
    assert promise.mu2 == pytest.approx(2.0, rel=1e-12)
    assert promise.epsilon == pytest.approx(0.125, rel=1e-12)
    exact = kl_divergence(TRIANGLE, A, B, sigma=1.0, corrupted=["3"])
    assert exact == pytest.approx(0.25, rel=1e-12)
    assert promise.epsilon * 2.0 == pytest.approx(exact, rel=1e-12)


def test_the_attacker_guesses_right_in_sixty_four_of_a_hundred_cases():
    """Phi(1 / (2 sqrt 2)) = 0.638163, from normal tables."""
    assert attacker_success(0.25) == pytest.approx(0.638163, abs=5e-7)


@lengths
def test_plain_dgd_errs_by_exactly_one_over_k(iterations):
    """W = J averages at once: after two steps the mean is -1, and then
    x_i = -1 - a_k (alpha_i - 2); the last a_k is 1 / k, the largest |alpha_i - 2| is 1.
    """
    plain = run("none", iterations=iterations)
    assert plain.reference[0] == pytest.approx(-1.0, abs=1e-12)
    assert plain.max_error == pytest.approx(1 / iterations, rel=1e-9)


@lengths
def test_masked_dgd_errs_by_the_largest_effective_deviation_over_k(iterations):
    """The same recursion with alpha~_i: both curves of Fig. 1 fall like 1 / k."""
    masked = run("gaussian", iterations=iterations, sigma=1.0)
    deviation = abs(masked.effective.coefficients - 2.0).max()
    assert masked.max_error == pytest.approx(deviation / iterations, rel=1e-9)
    assert masked.minimiser[0] == pytest.approx(-1.0, abs=1e-9)
    assert masked.sum_of_masks < 1e-14


def stripped(rows, seed):
    """alpha_bar of agents 1 and 2 in many executions, (executions, 2)."""
    found = simulate(
        TRIANGLE,
        rows,
        sigma=1.0,
        executions=EXECUTIONS,
        stream=np.random.default_rng(seed),
        corrupted=["3"],
    )
    assert found.honest == ("1", "2")
    return found.stripped[:, :, 0]


@pytest.fixture(scope="module")
def under_a():
    return stripped(A, 0)


@pytest.fixture(scope="module")
def under_b():
    return stripped(B, 1)


@pytest.mark.statistical
def test_the_means_are_the_paper_s(under_a, under_b):
    """mu_A = [1, 2] and mu_B = [2, 1] within 4 standard errors of 0.0045.

    Two independent numbers (the others follow from the sum): false-alarm rate 1.3e-4.
    """
    error = np.sqrt(2.0 / EXECUTIONS)
    assert (abs(under_a.mean(axis=0) - [1.0, 2.0]) < 4 * error).all()
    assert (abs(under_b.mean(axis=0) - [2.0, 1.0]) < 4 * error).all()


@pytest.mark.statistical
def test_the_covariance_is_the_paper_s(under_a, under_b):
    """Sigma = [2, -2; -2, 2] within 4 standard errors of 0.0089.

    Two independent numbers: false-alarm rate 1.3e-4.
    """
    error = 2.0 * np.sqrt(2.0 / EXECUTIONS)
    for sample in (under_a, under_b):
        expected = [[2.0, -2.0], [-2.0, 2.0]]
        assert (abs(np.cov(sample.T) - expected) < 4 * error).all()


def test_every_execution_adds_up_to_three(under_a, under_b):
    """alpha_bar_1 + alpha_bar_2 = alpha_1 + alpha_2: the law is degenerate."""
    for sample in (under_a, under_b):
        np.testing.assert_allclose(sample.sum(axis=1), 3.0, atol=1e-12)


@pytest.mark.statistical
def test_the_estimated_divergence_is_a_quarter(under_a, under_b):
    """0.5 d Sigma^+ d' from sample moments, within 4 standard errors of 0.0033.

    On the line alpha_bar_1 + alpha_bar_2 = 3 this is d_1^2 / (2 var_1). One number:
    false-alarm rate 6.3e-5.
    """
    gap = under_a[:, 0].mean() - under_b[:, 0].mean()
    pooled = 0.5 * (under_a[:, 0].var() + under_b[:, 0].var())
    assert gap**2 / (2 * pooled) == pytest.approx(0.25, abs=0.0133)


@pytest.mark.statistical
def test_the_best_guesser_is_right_as_often_as_theory_says(under_a, under_b):
    """Guess B when alpha_bar_1 > 3/2; 200,000 guesses, 4 standard errors of 0.0011.

    False-alarm rate 6.3e-5.
    """
    right = (under_a[:, 0] < 1.5).sum() + (under_b[:, 0] > 1.5).sum()
    rate = right / (2 * EXECUTIONS)
    error = np.sqrt(0.638163 * (1 - 0.638163) / (2 * EXECUTIONS))
    assert abs(rate - 0.638163) < 4 * error


@pytest.mark.statistical
def test_agent_one_s_effective_coefficient_is_noisier_than_what_is_left_of_it():
    """Var(alpha~_1) = 2 sigma^2 deg = 4 in full; stripped of agent 3's shares it is 2.

    Fig. 2 can be read either way. Within 4 standard errors; seed 2; rate 6.3e-5.
    """
    found = simulate(
        TRIANGLE,
        A,
        sigma=1.0,
        executions=EXECUTIONS,
        stream=np.random.default_rng(2),
        corrupted=["3"],
    )
    error = 4.0 * np.sqrt(2.0 / EXECUTIONS)
    assert abs(found.effective[:, 0, 0].var() - 4.0) < 4 * error
