"""disropt's subgradient method (DGD) and gradient tracking; an MPI process per agent.

Processor time is that of all processes together; they ask for messages in a loop, so
waiting counts as well.
"""

from __future__ import annotations

import sys

import numpy as np
from common import Workload, answer, clocked
from disropt.agents import Agent
from disropt.algorithms import GradientTracking, SubgradientMethod
from disropt.functions import QuadraticForm, Variable
from disropt.problems import Problem
from mpi4py import MPI

WORLD = MPI.COMM_WORLD


def agent(work: Workload, own: int) -> Agent:
    neighbours = np.flatnonzero(work.adjacency[own]).tolist()
    made = Agent(
        in_neighbors=neighbours,
        out_neighbors=list(neighbours),
        in_weights=work.weights[own].tolist(),
        auto_local=False,
    )
    cost = QuadraticForm(
        Variable(work.dim), work.grams[own] / 2.0, work.linear[own][:, None]
    )
    made.set_problem(Problem(cost))
    return made


if __name__ == "__main__":
    workload, own = Workload(sys.argv[1]), WORLD.Get_rank()
    start = np.zeros((workload.dim, 1))
    if sys.argv[3] == "gradient-tracking":
        run, steps, form = GradientTracking, workload.step, "diging"
    else:
        run, steps, form = SubgradientMethod, workload.step_at, "mixed"
    method = run(agent(workload, own), start)
    WORLD.Barrier()
    wall, processor = clocked(
        lambda: method.run(iterations=workload.iterations, stepsize=steps)
    )
    points = WORLD.gather(method.get_result()[:, 0])
    walls, processors = WORLD.gather(wall), WORLD.gather(processor)
    if own == 0:
        times = max(walls), sum(processors)
        answer(sys.argv[2], np.array(points), form, times, "disropt")
