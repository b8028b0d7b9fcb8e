"""Whole runs of agents with a matrix each: least squares, and masked quadratics.

Almost all that an iteration reads are the matrices. They are symmetric, and one half of
each is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from veilsum.engines.closed_form import ClosedForm
from veilsum.engines.engine import Task
from veilsum.engines.panels import Numbers, Rows, room
from veilsum.engines.readings import number, round_factors, sides, step_sizes
from veilsum.methods.dgd import DgdState
from veilsum.methods.gradient_tracking import TrackingState
from veilsum.numbers.arrays import Array
from veilsum.numbers.shapes import Float

# The side of blocks of matrices; rows are filled up with zeros to whole ones.
BLOCK = 4


@dataclass(frozen=True, eq=False)
class Curved:
    """What these runs share: halves of the matrices, and rows of whole blocks.

    Attributes:
        task: whose agents these are.
        form: their costs.
        method: as it is with one round of mixing.
        factors: om_1, ..., om_K of K rounds.
    """

    task: Task
    form: ClosedForm
    method: Any
    factors: tuple[float, ...]

    @property
    def _columns(self) -> int:
        """How long rows are, whole blocks."""
        return -(-self.task.start.shape[1] // BLOCK) * BLOCK

    @cached_property
    def _squares(self) -> Float[Array[Any], "n packed"]:
        return halves(self.form.squares, self._columns).astype(self.task.precision)

    @cached_property
    def _slopes(self) -> Numbers:
        return self._flat(self.form.slopes)

    @cached_property
    def _spare(self) -> tuple[Numbers, Numbers, Numbers]:
        size, precision = len(self.task.start) * self._columns, self.task.precision
        return room(size, precision), room(size, precision), room(size, precision)

    @cached_property
    def _where(self) -> tuple[Any, Any, Any]:
        """The domain, the graph and a block, as kernels take them."""
        precision = self.task.precision
        wide = [np.zeros(self._columns, precision) for _ in range(2)]
        for side, bound in zip(wide, sides(self.method.domain, precision), strict=True):
            side[: len(bound)] = bound
        csr = sparse.csr_array(self.task.weights["symmetric"].astype(precision))
        block = (number(0.0, precision),) * BLOCK
        return tuple(wide), (csr.indptr, csr.indices, csr.data), block

    def _flat(self, rows: Rows) -> Numbers:
        """Return rows of whole blocks, one after the other."""
        found = room(len(rows) * self._columns, self.task.precision)
        found.reshape(len(rows), -1)[:, : rows.shape[1]] = rows
        return found

    def _rows(self, flat: Numbers) -> Rows:
        agents, columns = self.task.start.shape
        return flat.reshape(agents, -1)[:, :columns].copy()


@dataclass(frozen=True, eq=False)
class CurvedDgd(Curved):
    """Distributed gradient descent."""

    def advance(self, state: DgdState, count: int) -> DgdState:
        """Return all agents after so many more iterations."""
        from veilsum.engines.kernels import curved_dgd

        x, done = self._flat(state.x), state.iteration
        own_point = True if self.method.gradient_at == "own" else None
        sizes = step_sizes(self.method, done, count, self.task.precision)
        how = (self._slopes, self._squares, own_point, sizes)
        curved_dgd(x, self._spare, *how, *self._where)
        return DgdState(self._rows(x), done + count)


@dataclass(frozen=True, eq=False)
class CurvedTracking(Curved):
    """Gradient tracking."""

    def advance(self, state: TrackingState, count: int) -> TrackingState:
        """Return all agents after so many more iterations."""
        from veilsum.engines.kernels import curved_tracking

        x, y = self._flat(state.x), self._flat(state.tracker)
        how = (count, number(self.method.step, self.task.precision))
        factors = round_factors(self.factors, self.task.precision)
        curved_tracking(x, y, self._spare, self._squares, how, factors, *self._where)
        done = state.iteration + count
        return TrackingState(self._rows(x), self._rows(y), iteration=done)


def halves(
    squares: Float[Array[Any], "n m m"] | None, columns: int
) -> Float[Array[Any], "n packed"]:
    """Return the blocks on and right of diagonals, as `times_square` reads them."""
    if squares is None:
        raise ValueError("agents without a matrix run by panels")
    dim, count = squares.shape[1], columns // BLOCK
    wide = np.zeros((len(squares), columns, columns))
    wide[:, :dim, :dim] = np.triu(squares)
    diagonal = np.arange(columns)
    wide[:, diagonal, diagonal] /= 2
    blocks = wide.reshape(-1, count, BLOCK, count, BLOCK).swapaxes(2, 3)
    return blocks[:, *np.triu_indices(count)].reshape(len(squares), -1)
