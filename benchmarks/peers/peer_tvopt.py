"""tvopt's distributed proximal gradient (DGD) and augmented DGM (gradient tracking)."""

from __future__ import annotations

import sys

import numpy as np
from common import Workload, answer, clocked
from tvopt import costs, distributed_solvers, networks


def problem(work: Workload) -> dict[str, object]:
    members = [
        costs.Quadratic(gram, linear[:, None])
        for gram, linear in zip(work.grams, work.linear, strict=True)
    ]
    network = networks.Network(work.adjacency, work.weights)
    return {"f": costs.SeparableCost(members), "network": network}


def dgd(work: Workload) -> tuple[np.ndarray, str]:
    """Call it once for each iteration: it takes one step size only."""
    given, x = problem(work), np.zeros((work.dim, 1, work.agents))
    for k in range(work.iterations):
        x = distributed_solvers.dpgm(given, work.step_at(k), x_0=x, num_iter=1)
    return x, "own"


def gradient_tracking(work: Workload) -> tuple[np.ndarray, str]:
    x = distributed_solvers.aug_dgm(problem(work), work.step, num_iter=work.iterations)
    return x, "atc"


METHODS = {"dgd": dgd, "gradient-tracking": gradient_tracking}

if __name__ == "__main__":
    workload, found = Workload(sys.argv[1]), []
    times = clocked(lambda: found.append(METHODS[sys.argv[3]](workload)))
    points, form = found[0]
    answer(sys.argv[2], points[:, 0, :].T, form, times, "tvopt")
