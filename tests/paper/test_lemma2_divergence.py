"""Lemma 2: equal supports, and KL = d' L^+ d / (4 sigma^2) <= ||d||^2 / (4 s^2 mu2)."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from golden import CASES
from later import Later
from strategies import connected_topologies, few, sigmas, zero_sum_rows
from veilsum.graphs.connectivity import algebraic_connectivity
from veilsum.privacy.divergence import DegenerateGaussian, kl_divergence

sympy = Later("sympy")

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_the_divergence_is_the_exact_rational(case):
    """Golden rationals computed independently, to 1e-12 relative."""
    found = kl_divergence(
        case.topology, case.a, case.b, sigma=case.sigma, corrupted=case.corrupted
    )
    assert found == pytest.approx(float(case.divergence), rel=1e-12, abs=0)


def exact_divergence(case):
    """tr(S^-1 D' L_H^+ D) / (2 s) in rationals: ground one honest party and solve."""
    colluders = case.topology.indices(case.corrupted)
    honest = [i for i in range(case.topology.n_parties) if i not in colluders]
    laplacian = case.topology.induced(honest).laplacian.toarray()
    reduced = sympy.Matrix(laplacian[:-1, :-1].astype(int).tolist())
    a, b = (
        np.array(rows).reshape(len(case.a), -1)[honest] for rows in (case.a, case.b)
    )
    variances = case.variance if isinstance(case.variance, tuple) else [case.variance]
    total = Fraction(0)
    for column, variance in zip((a - b).T, variances, strict=True):
        d = sympy.Matrix(column[:-1].tolist())
        form = (d.T * reduced.LUsolve(d))[0]
        total += Fraction(int(form.p), int(form.q)) / Fraction(variance)
    return total / (2 * case.topology.shares_per_edge)


@every_case
def test_the_golden_rationals_are_what_exact_arithmetic_gives(case):
    assert exact_divergence(case) == case.divergence


@few
@given(st.data(), connected_topologies(weighted=True), sigmas)
def test_supports_are_identical_when_sums_agree(data, topology, sigma):
    """A point possible under A is possible under B: densities vanish together."""
    law = DegenerateGaussian(topology, 2 * sigma**2)
    shift = data.draw(zero_sum_rows(topology.n_parties, 1))[:, 0]
    point = data.draw(zero_sum_rows(topology.n_parties, 1))[:, 0]
    under_a, under_b = law.log_density(np.stack([point, point - shift]))
    assert np.isfinite(under_a)
    assert np.isfinite(under_b)
    outside = point.copy()
    outside[0] += 1.0
    assert law.log_density(outside) == -np.inf
    assert law.log_density(outside - shift) == -np.inf


@few
@given(st.data(), connected_topologies(weighted=True), sigmas)
def test_the_divergence_lies_between_the_extreme_eigenvalues(data, topology, sigma):
    """||d||^2 / (4 s^2 mu_n) <= KL <= ||d||^2 / (4 s^2 mu_2)."""
    shift = data.draw(zero_sum_rows(topology.n_parties, 1))[:, 0]
    spectrum = np.linalg.eigvalsh(topology.laplacian.toarray())
    found = kl_divergence(topology, shift, np.zeros_like(shift), sigma=sigma)
    size = shift @ shift / (4 * sigma**2)
    assert size / spectrum[-1] * (1 - 1e-9) <= found
    assert found <= size / spectrum[1] * (1 + 1e-9)


@few
@given(connected_topologies(min_agents=3), sigmas)
def test_the_upper_bound_is_the_least_possible_constant(topology, sigma):
    """Equality along the Fiedler vector, so no smaller constant would do."""
    _, vectors = np.linalg.eigh(topology.laplacian.toarray())
    fiedler = vectors[:, 1] - vectors[:, 1].mean()
    found = kl_divergence(topology, fiedler, np.zeros_like(fiedler), sigma=sigma)
    mu2 = algebraic_connectivity(topology)
    assert found == pytest.approx(fiedler @ fiedler / (4 * sigma**2 * mu2), rel=1e-8)


def test_coordinates_add_as_part_three_of_the_proof_says():
    case = next(case for case in CASES if case.name == "K4 in two dimensions")
    rows_a, rows_b = np.array(case.a), np.array(case.b)
    parts = [
        kl_divergence(
            case.topology,
            rows_a[:, k],
            rows_b[:, k],
            sigma=case.sigma[k],
            corrupted=case.corrupted,
        )
        for k in range(2)
    ]
    # Each coordinate gives 1/6: L^+ = (I - J/3) / 3 on what is left, K3.
    assert parts == pytest.approx([1 / 6, 1 / 6], rel=1e-12)
