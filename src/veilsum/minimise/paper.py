"""The paper's Section V, and its Section III-B put to work.

Three agents on a triangle, h_i(x) = x^2 + i x on [-100, 100], sigma = 1, agent 3
corrupted; A = (1, 2, 3) against B = (2, 1, 3), 100,000 executions each. The paper fixes
neither steps nor weights nor start; ours are Metropolis weights, a_k = 1 / (k + 1) and
x(0) = (50, -50, 20).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from types import ModuleType
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial as Curve

from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.executions import Executions, simulate
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.solve import Run, logarithmic_error_axes, solve
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.shapes import Float
from veilsum.privacy.conversions import attacker_success
from veilsum.privacy.divergence import kl_divergence
from veilsum.progress import Progress, staged_progress, watch_progress
from veilsum.showing import Renderable, Rendering, ShownTable

A = np.array([1.0, 2.0, 3.0])
B = np.array([2.0, 1.0, 3.0])
SIGMA = 1.0
CORRUPTED = ("2",)
ITERATIONS = 10_000
START = [[50.0], [-50.0], [20.0]]

# Section III-B gives no example. Ours: h_i(x) = (x - t_i)^4 with private t_i, all four
# coefficients masked, on the complete graph.
QUARTIC_CENTRES = (-1.0, -0.5, 0.0, 0.5, 1.5)
QUARTIC_RADIUS = 2.0
QUARTIC_ITERATIONS = 20_000
QUARTIC_STEP = 0.2

Pair = Float[FloatArray, "executions 2"]


@dataclass(frozen=True)
class PaperRow:
    """One line of the comparison: what the paper says, what came out here.

    `source` says whether the paper prints the expected value or its theory gives it.
    """

    quantity: str
    paper: tuple[float, ...]
    here: tuple[float, ...]
    tolerance: float
    source: str = "paper"

    @property
    def holds(self) -> bool:
        gap = np.abs(np.subtract(self.here, self.paper))
        return bool((gap <= self.tolerance).all())


def _paper_numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


@dataclass(frozen=True, eq=False, repr=False)
class PaperReport(Renderable):
    """Everything Section V reports, and the arrays its figures are drawn from."""

    plain: Run
    veiled: Run
    quartic: Run
    under_a: Executions
    under_b: Executions

    def showing(self) -> Rendering:
        """Return every number of Section V beside what is expected of it."""
        rows = [
            (
                row.quantity,
                _paper_numbers(row.paper),
                row.source,
                _paper_numbers(row.here),
                f"{row.tolerance:.2g}",
                "ok" if row.holds else "OUTSIDE",
            )
            for row in self.rows()
        ]
        heads = ("quantity", "expected", "by", "here", "tolerance", "")
        quartic = self.quartic
        return Rendering(
            "Section V: agents 1, 2, 3 on a triangle, agent 3 corrupted, sigma 1",
            [
                ShownTable(heads, rows, align="<><>>>"),
                "Tolerances of estimates are four standard errors. The paper gives no "
                "steps, start or weights; ours: a_k = 1 / (k + 1), x(0) = "
                f"({', '.join(f'{one:g}' for (one,) in START)}), Metropolis weights.",
                f"Errors after {self.veiled.iterations:,} iterations: plain DGD "
                f"{self.plain.max_error:.3g}, Function Sharing "
                f"{self.veiled.max_error:.3g}.",
                f"Degree-4 costs, every coefficient masked: {self.nonconvex_agents} of "
                f"{quartic.topology.n_parties} masked costs are not convex; minimiser "
                f"{quartic.minimiser[0]:.6f}, error {quartic.max_error:.2g} after "
                f"{quartic.iterations:,} iterations.",
            ],
        )

    @property
    def executions(self) -> int:
        """Number of executions under A, equal to the number under B."""
        return len(self.under_a)

    @cached_property
    def means(self) -> tuple[Vector, Vector]:
        """Sample means of [alpha_bar_1, alpha_bar_2] under A and under B."""
        return _paper_honest_pair(self.under_a).mean(axis=0), _paper_honest_pair(
            self.under_b
        ).mean(axis=0)

    @cached_property
    def covariance(self) -> Array[np.float64]:
        """Sample covariance of [alpha_bar_1, alpha_bar_2] under A."""
        return np.cov(_paper_honest_pair(self.under_a).T)

    @cached_property
    def kl_estimate(self) -> float:
        """KL of two Gaussians fitted to the samples, on the zero-sum line."""
        pooled = 0.5 * (self.covariance + np.cov(_paper_honest_pair(self.under_b).T))
        return gaussian_divergence(self.means[0] - self.means[1], pooled)

    @cached_property
    def kl_exact(self) -> float:
        """The exact divergence between the coalition's views."""
        return kl_divergence(_paper_triangle(), A, B, sigma=SIGMA, corrupted=CORRUPTED)

    @property
    def kl_bound(self) -> float:
        """Theorem 1's bound, epsilon ||A - B||^2."""
        epsilon = self.veiled.guarantee.epsilon
        assert epsilon is not None  # the triangle without one agent is connected
        return epsilon * float(((A - B) ** 2).sum())

    @cached_property
    def empirical_success(self) -> float:
        """Success rate of the likelihood-ratio test in telling A from B."""
        # On the triangle the test compares alpha_bar_1 with alpha_bar_2.
        right_a = (_paper_honest_pair(self.under_a) @ (A - B)[:2] > 0).mean()
        right_b = (_paper_honest_pair(self.under_b) @ (A - B)[:2] < 0).mean()
        return float(0.5 * (right_a + right_b))

    @property
    def nonconvex_agents(self) -> int:
        """Number of masked quartics that are not convex on the domain."""
        effective = self.quartic.effective
        assert effective is not None  # DGD runs on effective costs
        rows = effective.coefficients
        return sum(not _is_convex_paper_cost(row, QUARTIC_RADIUS) for row in rows)

    def rows(self) -> list[PaperRow]:
        """Return the comparison, tolerances at four standard errors."""
        exact = attacker_success(self.kl_exact)
        root = sqrt(self.executions)
        mean, spread = 4 * sqrt(2.0) / root, 4 * 2 * sqrt(2.0) / root
        # The estimate is m^2 / (2 v), m the gap of the means and v the pooled variance:
        # its variance is (1 + 1/16) / N by the delta method, its bias 1 / N.
        divergence = 4 * sqrt(17.0 / 16.0) / root + 1 / self.executions
        guess = 4 * sqrt(exact * (1 - exact) / (2 * self.executions))
        mu_a, mu_b = self.means
        return [
            PaperRow("mean under A", (1.0, 2.0), tuple(mu_a.tolist()), mean),
            PaperRow("mean under B", (2.0, 1.0), tuple(mu_b.tolist()), mean),
            PaperRow("variance", (2.0,), (float(self.covariance[0, 0]),), spread),
            PaperRow("covariance", (-2.0,), (float(self.covariance[0, 1]),), spread),
            PaperRow("KL, estimated", (0.25,), (self.kl_estimate,), divergence),
            PaperRow("KL, exact", (0.25,), (self.kl_exact,), 1e-12),
            PaperRow("KL, bound", (0.25,), (self.kl_bound,), 1e-12),
            PaperRow("mu2(L_H)", (2.0,), (self.veiled.guarantee.mu2 or 0.0,), 1e-12),
            PaperRow(
                "attacker's success",
                (exact,),
                (self.empirical_success,),
                guess,
                "theory",
            ),
            PaperRow(
                "minimiser",
                (-1.0,),
                (float(self.veiled.minimiser[0]),),
                1e-3,
                "theory",
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "mean_A": self.means[0].tolist(),
            "mean_B": self.means[1].tolist(),
            "covariance": self.covariance.tolist(),
            "kl_estimate": self.kl_estimate,
            "kl_exact": self.kl_exact,
            "kl_bound": self.kl_bound,
            "epsilon": self.veiled.guarantee.epsilon,
            "mu2": self.veiled.guarantee.mu2,
            "minimiser": float(self.veiled.minimiser[0]),
            "dgd_error": self.plain.max_error,
            "fs_error": self.veiled.max_error,
            "attacker_success": {
                "exact": attacker_success(self.kl_exact),
                "empirical": self.empirical_success,
            },
            "executions": self.executions,
            "polynomial": {
                "minimiser": float(self.quartic.minimiser[0]),
                "error": self.quartic.max_error,
                "nonconvex_agents": self.nonconvex_agents,
            },
        }

    def draw_with(self, figures: ModuleType, *, densities: bool = False) -> Any:
        """Return Fig. 1 of the paper, or Fig. 2 with `densities`."""
        if densities:
            return density_figure(figures, self)
        return convergence_figure(figures, self)


def convergence_figure(figures: ModuleType, report: PaperReport) -> Any:
    """Fig. 1: each agent's error, plain DGD beside Function Sharing."""
    title = "Masked or not, every agent's error vanishes like 1/k"
    look: dict[str, Any] = {"bottom": 0.5, "gap": 0.4, "headed": True, "sharex": True}
    figure, axes = figures.figure_panels(2.5, 2.5, title=title, **look)
    runs = (("DGD, no masks", report.plain), ("Function Sharing", report.veiled))
    for axis, (name, run) in zip(axes, runs, strict=True):
        for agent, style in enumerate(("-", "--", ":")):
            way = run.trace.iterations, run.trace.errors[:, agent]
            axis.plot(
                *way, style, color=figures.PALETTE[agent], label=f"agent {agent + 1}"
            )
        axis.set_title(name, fontsize=10)
        axis.set_ylabel(r"$|x_i(k) - x^*|$")
        logarithmic_error_axes(axis, [run.trace for _, run in runs])
    axes[1].set_xlabel("iteration")
    axes[0].legend(frameon=False)
    axes[0].text(1.15, 4e-5, "agent 2's coefficient is the\nmean: exact from step 2")
    return figure


def density_figure(figures: ModuleType, report: PaperReport) -> Any:
    """Fig. 2: agent 1's coefficient under A and under B, in both readings.

    What everybody sees, alpha~_1, has variance 2 sigma^2 d_1 = 4; what the coalition is
    left with after removing the shares it knows, alpha_bar_1, has variance 2.
    """
    title = (
        f"Two inputs with the same sum look alike: KL {report.kl_exact:g}, "
        f"{report.executions:,} executions each (bars) and theory (lines)"
    )
    look: dict[str, Any] = {"bottom": 0.5, "gap": 0.4, "headed": True, "sharex": True}
    figure, axes = figures.figure_panels(2.4, 2.4, title=title, **look)
    readings = (
        (r"as sent: $\tilde\alpha_1$, variance 4", 4.0, "effective"),
        (r"as agent 3 sees it: $\bar\alpha_1$, variance 2", 2.0, "stripped"),
    )
    for axis, (name, variance, kind) in zip(axes, readings, strict=True):
        for label, mean, sample, colour, style in (
            ("A", A[0], report.under_a, figures.BLUE, "-"),
            ("B", B[0], report.under_b, figures.ORANGE, "--"),
        ):
            seen, bins = getattr(sample, kind)[:, 0, 0], np.arange(-12.0, 15.0, 0.25)
            heights, _ = np.histogram(seen, bins, density=True)
            axis.stairs(heights, bins, fill=True, color=colour, alpha=0.25)
            grid = np.linspace(mean - 8, mean + 8, 400)
            wide = variance * SIGMA**2
            curve = np.exp(-((grid - mean) ** 2) / (2 * wide)) / np.sqrt(
                2 * np.pi * wide
            )
            text = rf"under {label}: $\alpha_1 = {mean:g}$"
            axis.plot(grid, curve, style, color=colour, label=text)
        axis.set(ylabel="density", xlim=(-6.5, 9.5), ylim=(0, 0.33))
        axis.set_title(name, fontsize=10)
        axis.legend(frameon=False, loc="upper right", fontsize=figures.SMALL)
    axes[1].set_xlabel("coefficient")
    return figure


def reproduce(
    *,
    executions: int = 100_000,
    seed: int = 0,
    on: str | None = None,
    progress: Progress = None,
) -> PaperReport:
    """Run Section V and the quartic example.

    Args:
        executions: of phase I under A, and as many under B.
        seed: repeats it.
        on: who shares the executions; see `simulate`.
        progress: None for a bar, False for none, or a function of done and total.
    """
    with watch_progress(progress) as opening:

        def stage(name: str) -> Progress:
            return staged_progress(opening, name) or False

        return PaperReport(
            plain=_paper_section_five(
                sigma=None, seed=seed, progress=stage("plain DGD")
            ),
            veiled=_paper_section_five(
                sigma=SIGMA, seed=seed, progress=stage("Function Sharing")
            ),
            quartic=quartic_paper_run(seed=seed, progress=stage("degree-4 costs")),
            under_a=_paper_executions(A, executions, seed, 0, on),
            under_b=_paper_executions(B, executions, seed, 1, on),
        )


def quartic_paper_run(*, seed: int | None, progress: Progress = None) -> Run:
    """Minimise sum_i (x - t_i)^4 with every coefficient masked (Section III-B)."""
    # (x - t)^4 from degree 1 up; the constant drops out.
    costs = [
        Cost.polynomial(np.asarray(Curve.fromroots([centre] * 4).coef[1:], np.float64))
        for centre in QUARTIC_CENTRES
    ]
    return solve(
        costs,
        corrupted=(),
        domain=Box(-QUARTIC_RADIUS, QUARTIC_RADIUS, dim=1),
        sigma=SIGMA,
        seed=seed,
        settings=Settings(iterations=QUARTIC_ITERATIONS, step=QUARTIC_STEP),
        progress=progress,
    )


def gaussian_divergence(shift: Vector, covariance: Array[np.float64]) -> float:
    """Return half the squared Mahalanobis length of a shift, on 1-perp.

    The covariance is singular along (1, ..., 1); projecting first avoids guessing a
    rank from rounding error.
    """
    n = shift.size
    basis = np.linalg.qr(np.eye(n) - np.full((n, n), 1.0 / n))[0][:, : n - 1]
    inner = basis.T @ shift
    solved = np.linalg.solve(basis.T @ covariance @ basis, inner)
    return float(0.5 * inner @ solved)


def _paper_triangle() -> Topology:
    return Topology.family("complete:3")


def _paper_section_five(*, sigma: float | None, seed: int, progress: Progress) -> Run:
    return solve(
        [Cost.affine([alpha], remainder=SquaredNorm(1.0)) for alpha in A],
        topology=_paper_triangle(),
        domain=Box(-100.0, 100.0, dim=1),
        sigma=sigma,
        law="none" if sigma is None else "gaussian",
        corrupted=CORRUPTED,
        settings=Settings(iterations=ITERATIONS, start=START),
        seed=seed,
        progress=progress,
    )


def _paper_executions(
    coefficients: Vector, count: int, seed: int, which: int, on: str | None
) -> Executions:
    return simulate(
        _paper_triangle(),
        coefficients,
        sigma=SIGMA,
        executions=count,
        stream=np.random.default_rng([seed, which]),
        corrupted=CORRUPTED,
        on=on,
    )


def _paper_honest_pair(sample: Executions) -> Pair:
    return sample.stripped[:, :, 0]


def _is_convex_paper_cost(coefficients: Vector, radius: float) -> bool:
    """Return whether a polynomial's second derivative is never negative on |x| <= r."""
    bend = Curve([0.0, *coefficients]).deriv(2)
    turns = bend.deriv().roots()
    inside = turns.real[np.abs(turns.imag) < 1e-12]
    points = np.concatenate([[-radius, radius], inside[np.abs(inside) <= radius]])
    return bool((bend(points) >= 0).all())
