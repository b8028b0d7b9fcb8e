"""The numpy engine: every method by its one source, one product for the mixing."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.engines.engine import EngineTask, Precision
from veilsum.minimise.methods.base import MethodState, mix_method_messages
from veilsum.numbers.arrays import PartyPoints, Sparse

# Up to so many parties a dense product may be faster than a sparse one: where more than
# one weight in four is not zero, or where there are so few products that a sparse one
# takes most of its time to begin.
DENSE_PARTIES, DENSE_SHARE, FEW_PRODUCTS = 100, 4, 20_000


@dataclass(frozen=True, eq=False)
class PlainEngine:
    """Iterations one after the other, each as its method says."""

    task: EngineTask
    name: str = field(default="numpy", init=False)

    @cached_property
    def _weights(self) -> dict[Any, Any]:
        precision = self.task.precision
        kept = {name: w.astype(precision) for name, w in self.task.weights.items()}
        return {
            name: w.toarray() if self._is_dense(w) else w for name, w in kept.items()
        }

    def _is_dense(self, weights: Sparse) -> bool:
        parties, dim = self.task.start.shape
        entries = parties * parties
        return parties <= DENSE_PARTIES and (
            entries <= DENSE_SHARE * weights.nnz or entries * dim <= FEW_PRODUCTS
        )

    @cached_property
    def _cost(self) -> EffectiveCost:
        cost, precision = self.task.cost, self.task.precision
        # Others make matrices and powers of theirs, for which more digits are kept.
        if not isinstance(cost.basis, Affine):
            return cost
        return replace(cost, coefficients=cost.coefficients.astype(precision))

    def begin(self) -> MethodState:
        start = self.task.start.astype(self.task.precision)
        return state_in_numpy_precision(
            self.task.method.begin(start, self._cost), self.task.precision
        )

    def advance(self, state: MethodState, count: int) -> MethodState:
        method, weights, cost = self.task.method, self._weights, self._cost
        precision, until = self.task.precision, state.iteration + count
        while state.iteration < until:
            told = method.outgoing(state)
            mixed = mix_method_messages(weights, method.parts(state), told)
            state = method.advance(state, mixed, cost)
            if precision != "float64":
                state = state_in_numpy_precision(state, precision)
        return state

    def points(self, state: MethodState) -> PartyPoints:
        """Return estimates in float64, by row."""
        return np.asarray(state.x, dtype=np.float64)

    def aims(self, state: MethodState) -> PartyPoints:
        """Return where parties alone would go next, in float64, by row."""
        return np.asarray(self.task.method.aim(state), dtype=np.float64)


def state_in_numpy_precision(state: Any, precision: Precision) -> Any:
    """Return a state whose arrays are rounded: bounds and data are kept in float64."""
    if precision == "float64":
        return state
    parts = {part.name: getattr(state, part.name) for part in fields(state)}
    return replace(
        state,
        **{name: _state_in_engine_precision(precision, p) for name, p in parts.items()},
    )


def _state_in_engine_precision(precision: Precision, part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return part.astype(precision, copy=False)
    return state_in_numpy_precision(part, precision) if is_dataclass(part) else part
