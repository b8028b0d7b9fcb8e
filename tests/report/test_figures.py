"""Figures show what they were given."""

import numpy as np
import pytest

from veilsum.jobs.paper import reproduce
from veilsum.report.figures import (
    convergence_figure,
    density_figure,
    error_figure,
    render,
)

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture(scope="module")
def report():
    return reproduce(executions=3000, seed=1)


def test_convergence_shows_every_agent_of_both_runs(report):
    axes = convergence_figure(report).axes
    for axis, run in zip(axes, (report.plain, report.veiled), strict=True):
        assert len(axis.lines) == 3
        for agent, line in enumerate(axis.lines):
            np.testing.assert_array_equal(line.get_ydata(), run.trace.errors[:, agent])
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_densities_show_both_readings_with_their_own_variance(report):
    for axis, variance in zip(density_figure(report).axes, (4.0, 2.0), strict=True):
        peaks = [line.get_ydata().max() for line in axis.lines]
        np.testing.assert_allclose(peaks, 1 / np.sqrt(2 * np.pi * variance), rtol=1e-3)
        assert len(axis.patches) == 2


def test_the_same_figure_is_the_same_bytes(report):
    first = render(error_figure(report.veiled, "a run"))
    again = render(error_figure(report.veiled, "a run"))
    assert first == again
    assert first["png"].startswith(b"\x89PNG")
