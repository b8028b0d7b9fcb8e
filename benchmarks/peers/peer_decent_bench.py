"""decent-bench's DGD and augmented DGM (gradient tracking)."""

from __future__ import annotations

import sys

import networkx as nx
import numpy as np
from common import Workload, answer, clocked
from decent_array import interoperability as iop
from decent_array.types import Devices, Frameworks
from decent_bench.agents import Agent
from decent_bench.algorithms.p2p import DGD, AugDGM
from decent_bench.costs import QuadraticCost
from decent_bench.networks import P2PNetwork


def network(work: Workload) -> P2PNetwork:
    # Quadratics: faster here than the same costs as linear regressions. No snapshots.
    agents = [
        Agent(
            QuadraticCost(iop.from_numpy(gram), iop.from_numpy(linear)),
            state_snapshot_period=work.iterations + 1,
        )
        for gram, linear in zip(work.grams, work.linear, strict=True)
    ]
    made = P2PNetwork(nx.from_numpy_array(work.adjacency), agents)
    made.weights = iop.from_numpy(work.weights)
    return made


class ShrinkingDGD(DGD):
    """Its DGD with a step size of its own for each iteration."""

    work: Workload

    def step(self, among: P2PNetwork, iteration: int) -> None:
        """Take one iteration."""
        self.step_size = self.work.step_at(iteration)
        super().step(among, iteration)


def algorithm(work: Workload, method: str) -> tuple[DGD | AugDGM, str]:
    if method == "gradient-tracking":
        return AugDGM(step_size=work.step), "atc"
    made = ShrinkingDGD()
    made.work = work
    return made, "own"


if __name__ == "__main__":
    iop.set_backend(Frameworks.NUMPY, Devices.CPU)
    workload = Workload(sys.argv[1])
    among = network(workload)
    run, form = algorithm(workload, sys.argv[3])
    times = clocked(lambda: run.run(among, workload.iterations))
    points = np.stack([iop.to_numpy(agent.x) for agent in among.agents()])
    answer(sys.argv[2], points, form, times, "decent-bench")
