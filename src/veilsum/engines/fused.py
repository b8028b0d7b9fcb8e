"""The numba engine: whole runs as machine code where it knows how, on all cores.

Distributed gradient descent and gradient tracking of quadratic costs, on boxes or on
the whole space, are compiled, whole runs at once. Every other method is carried out by
its one source, with a compiled product for the mixing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from veilsum.engines.closed_form import closed_form
from veilsum.engines.engine import Task
from veilsum.engines.links import Order, near_order, reordered
from veilsum.engines.panelled import SMALL_WORK
from veilsum.engines.panels import each, threads
from veilsum.engines.plain import DENSE_AGENTS, PlainEngine
from veilsum.engines.runs import Run, compiled_run
from veilsum.methods.base import Message, Messages, State
from veilsum.numbers.arrays import AgentPoints, Sparse

# Numbers that the product for single messages takes at once.
PRODUCT_WIDTH = 8


@dataclass(frozen=True, eq=False)
class FusedEngine:
    """Compiled iterations, or a method's own with a compiled product.

    States have agents in an order in which neighbours are near each other.
    """

    task: Task
    name: str = field(default="numba", init=False)

    @cached_property
    def _order(self) -> Order | None:
        """Agents in the states' order; None for their own."""
        form = closed_form(self.task.cost)
        # Only coefficients can be put in order, no other parts of costs.
        if form is None or form.squares is not None:
            return None
        return near_order(next(iter(self.task.weights.values())))

    @cached_property
    def _source(self) -> PlainEngine:
        """The method's own source, agents in the states' order."""
        task = self.task if self._order is None else ordered(self.task, self._order)
        return WithProducts(task)

    @cached_property
    def _run(self) -> Run:
        """What carries iterations out."""
        return compiled_run(self._source.task) or self._source

    def begin(self) -> State:
        """Return all agents at the start."""
        return self._source.begin()

    def advance(self, state: State, count: int) -> State:
        """Return all agents after so many more iterations."""
        return self._run.advance(state, count) if count else state

    def points(self, state: State) -> AgentPoints:
        """Return estimates in float64, by row."""
        return self._by_row(self._source.points(state))

    def aims(self, state: State) -> AgentPoints:
        """Return where agents alone would go next, in float64, by row."""
        return self._by_row(self._source.aims(state))

    def _by_row(self, points: AgentPoints) -> AgentPoints:
        if self._order is None:
            return points
        found = np.empty_like(points)
        found[self._order] = points
        return found


def ordered(task: Task, order: Order) -> Task:
    """Return a task with agents in another order, remainders being alike for all."""
    weights = {name: reordered(w, order) for name, w in task.weights.items()}
    cost = replace(task.cost, coefficients=task.cost.coefficients[order])
    return replace(task, weights=weights, cost=cost, start=task.start[order])


@dataclass(frozen=True, eq=False)
class WithProducts(PlainEngine):
    """A method's own source, with a compiled product where there are many agents."""

    @cached_property
    def _weights(self) -> dict[Any, Any]:
        weights = super()._weights
        if len(self.task.start) <= DENSE_AGENTS:
            return weights
        return {name: Product(w) for name, w in weights.items()}


@dataclass(frozen=True, eq=False)
class Product:
    """Weights whose product with rows is compiled, and carried out by all threads."""

    weights: Sparse

    def __matmul__(self, told: Messages) -> Message:
        """Return sum_j w_ij told_j by row."""
        from veilsum.engines.kernels import mix_rows

        rows, w = np.ascontiguousarray(told), self.weights
        out, lanes = np.empty_like(rows), (rows.dtype.type(0),) * PRODUCT_WIDTH
        ends = np.linspace(0, len(rows), threads() + 1).astype(int).tolist()

        def part(ends: tuple[int, int]) -> None:
            mix_rows(*ends, (w.indptr, w.indices, w.data), rows, out, lanes)

        each(part, pairwise(ends), small=w.nnz * rows.shape[1] < SMALL_WORK)
        return out
