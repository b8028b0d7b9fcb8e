"""What every peer's script shares: the workload it reads, the clock, what it answers.

A script is run by its environment's own Python, where neither veilsum nor its packages
are, as

    python peer_NAME.py WORKLOAD.npz ANSWER.npz METHOD

and prints one line of JSON. The answer holds all agents' final estimates by row.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np


class Workload:
    """Least squares on a graph: ||A_i x - b_i||^2 / 2 for each agent.

    Attributes:
        grams: A_i'A_i, (n, m, m).
        linear: -A_i'b_i, (n, m).
        weights: mixing weights, (n, n).
        iterations: how many.
        scale: dgd's steps are scale / (k + 1)^power.
        power: how fast they shrink.
        step: gradient tracking's.
    """

    def __init__(self, path: str) -> None:
        with np.load(path) as kept:
            designs, responses = kept["designs"], kept["responses"]
            self.weights = kept["weights"]
            self.iterations = int(kept["iterations"])
            self.scale, self.power = float(kept["scale"]), float(kept["power"])
            self.step = float(kept["step"])
        self.grams = np.swapaxes(designs, 1, 2) @ designs
        self.linear = -np.einsum("nrm,nr->nm", designs, responses)
        self.agents, self.dim = self.linear.shape

    @property
    def adjacency(self) -> np.ndarray:
        """Who is whose neighbour, without loops."""
        links = (self.weights != 0).astype(float)
        np.fill_diagonal(links, 0.0)
        return links

    def step_at(self, iteration: int) -> float:
        """Return dgd's step size, iterations counted from 0."""
        return self.scale / (iteration + 1) ** self.power


def clocked(action: Callable[[], object]) -> tuple[float, float]:
    """Return the wall and processor seconds of an action."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def answer(
    path: str, points: np.ndarray, form: str, times: tuple[float, float], package: str
) -> None:
    """Write final estimates; print how long they took and what they are."""
    np.savez(path, points=points)
    found = {
        "form": form,
        "wall_s": times[0],
        "processor_s": times[1],
        "version": version(package),
        "python": sys.version.split()[0],
    }
    print(json.dumps(found), flush=True)
