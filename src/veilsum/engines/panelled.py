"""Whole runs, a few coordinates at a time: for costs that curve alike everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from veilsum.engines.closed_form import ClosedForm
from veilsum.engines.engine import Task
from veilsum.engines.links import AGENTS_AHEAD, Links, links_of
from veilsum.engines.panels import (
    Numbers,
    Panel,
    Rows,
    Shift,
    each,
    panels,
    threads,
)
from veilsum.engines.readings import number, round_factors, sides, step_sizes
from veilsum.methods.dgd import DgdState
from veilsum.methods.gradient_tracking import TrackingState

# Numbers mixed in one call below which a second thread comes too late.
SMALL_WORK = 2_000_000
# Panels beyond this leave the nearest cache; reading ahead pays from there on.
NEAR_BYTES = 100_000
# With fewer panels than this for each thread, some threads would be idle at the end:
# panels are then done in so many pieces, which threads share.
MANY_PANELS, PIECES = 8, 8

Piece: TypeAlias = Callable[[Panel, list[Numbers], range, int], None]


@dataclass(frozen=True, eq=False)
class Panelled:
    """What these runs share: the graph in slots, and room for every panel.

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
    rooms: ClassVar[int]

    @cached_property
    def _links(self) -> Links:
        return links_of(self.task.weights["symmetric"], self.task.precision)

    @cached_property
    def _panels(self) -> list[tuple[Panel, list[Numbers]]]:
        """Every panel, with room that is used again in every call."""
        agents, columns = self.task.start.shape
        cut = panels(columns)
        return [(p, p.rooms(self.rooms, agents, self.task.precision)) for p in cut]

    @cached_property
    def _curve(self) -> Any:
        return number(self.form.curve, self.task.precision)

    def _where(self, panel: Panel) -> tuple[Any, Any]:
        """Return the panel's part of the domain and the graph, as kernels take them."""
        row = (number(0.0, self.task.precision),) * panel.width
        far = len(self.task.start) * panel.width * row[0].itemsize > NEAR_BYTES
        ahead = np.uint64(AGENTS_AHEAD * len(self._links.slots)) if far else None
        return self._box(panel), (self._links, ahead, row)

    def _box(self, panel: Panel) -> tuple[Numbers, Numbers]:
        """Return the least and the greatest of the panel's columns."""
        wide = np.zeros((2, panel.width), self.task.precision)
        both = sides(self.method.domain, self.task.precision)
        columns = panel.columns.stop - panel.columns.start
        wide[:, :columns] = [side[panel.columns] for side in both]
        return wide[0], wide[1]

    def _run(self, piece: Piece, count: int) -> None:
        """Do all panels' iterations, each panel's in pieces that threads share."""
        links, columns = self.task.weights["symmetric"].nnz, self.task.start.shape[1]
        work = count * len(self.factors) * links * columns
        few = len(self._panels) < MANY_PANELS * threads() and work >= SMALL_WORK
        pieces = min(count, PIECES) if few else 1
        ends = [count * k // pieces for k in range(pieces + 1)]

        def action(row: int, k: int) -> None:
            piece(*self._panels[row], range(ends[k], ends[k + 1]), count)

        shift = Shift(action, [panel.width for panel, _ in self._panels], pieces)
        each(shift.work, range(threads()), small=work < SMALL_WORK)


@dataclass(frozen=True, eq=False)
class PanelledDgd(Panelled):
    """Distributed gradient descent; room for x, for what x becomes, and for slopes."""

    rooms: ClassVar[int] = 3

    @cached_property
    def _slopes(self) -> Rows:
        return self.form.slopes.astype(self.task.precision)

    def advance(self, state: DgdState, count: int) -> DgdState:
        """Return all agents after so many more iterations."""
        from veilsum.engines.kernels import dgd

        found, done = np.empty_like(state.x), state.iteration
        own_point = True if self.method.gradient_at == "own" else None
        sizes = step_sizes(self.method, done, count, self.task.precision)

        def piece(panel: Panel, rooms: list[Numbers], k: range, count: int) -> None:
            if k.start == 0:
                panel.fill(rooms[0], state.x)
                panel.fill(rooms[2], self._slopes)
            how = (own_point, self._curve, sizes[k.start : k.stop])
            dgd(*rooms, *how, *self._where(panel))
            # Estimates change places with every iteration.
            rooms[:2] = rooms[:2][:: -1 if len(k) % 2 else 1]
            if k.stop == count:
                panel.put_back(rooms[0], found)

        self._run(piece, count)
        return DgdState(found, done + count)


@dataclass(frozen=True, eq=False)
class PanelledTracking(Panelled):
    """Gradient tracking; room for x and y, for what is told of them and was told."""

    rooms: ClassVar[int] = 5

    def advance(self, state: TrackingState, count: int) -> TrackingState:
        """Return all agents after so many more iterations."""
        from veilsum.engines.kernels import tracking

        found = np.empty_like(state.x), np.empty_like(state.tracker)
        several = round_factors(self.factors, self.task.precision)
        factors = several if len(several) > 1 else None
        step = number(self.method.step, self.task.precision)

        def piece(panel: Panel, rooms: list[Numbers], k: range, count: int) -> None:
            x, y, *spare = rooms
            if k.start == 0:
                panel.fill(x, state.x)
                panel.fill(y, state.tracker)
            how = (len(k), step, self._curve, factors)
            tracking(x, y, tuple(spare), *how, *self._where(panel))
            if k.stop == count:
                panel.put_back(x, found[0])
                panel.put_back(y, found[1])

        self._run(piece, count)
        return TrackingState(*found, iteration=state.iteration + count)
