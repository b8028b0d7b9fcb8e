"""Which methods and costs have compiled runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from veilsum.costs.domains import Box, WholeSpace
from veilsum.engines.closed_form import closed_form
from veilsum.engines.curved import CurvedDgd, CurvedTracking
from veilsum.engines.engine import Task
from veilsum.engines.panelled import PanelledDgd, PanelledTracking
from veilsum.methods.chebyshev import Chebyshev, ChebyshevState
from veilsum.methods.dgd import Dgd
from veilsum.methods.gradient_tracking import GradientTracking, TrackingState


@runtime_checkable
class Run(Protocol):
    """What carries iterations out, from a state to a state of the same kind."""

    def advance(self, state: Any, count: int) -> Any:
        """Return all agents after so many more iterations."""
        ...


# By type and not by kind: what is built on a method may do something else. First with
# one curve for all agents, then with a matrix for each.
RUNS: dict[type, tuple[Callable[..., Run], Callable[..., Run]]] = {
    Dgd: (PanelledDgd, CurvedDgd),
    GradientTracking: (PanelledTracking, CurvedTracking),
}


def compiled_run(task: Task) -> Run | None:
    """Return a compiled run of a task; None where its method's source must do."""
    method: Any = task.method
    if not isinstance(method, Chebyshev):
        return bare_run(task, method, (1.0,))
    if type(method.method) is not GradientTracking:
        return None
    inner = bare_run(task, method.method, method.factors)
    return None if inner is None else SeveralRounds(method.method, inner)


def bare_run(task: Task, method: Any, factors: tuple[float, ...]) -> Run | None:
    """Return the run of a method, with this many rounds of mixing in place of one."""
    form = closed_form(task.cost)
    if form is None or type(method) not in RUNS:
        return None
    if not isinstance(method.domain, WholeSpace | Box):
        return None
    return RUNS[type(method)][form.squares is not None](task, form, method, factors)


@dataclass(frozen=True, eq=False)
class SeveralRounds:
    """Tracking with several rounds of mixing, from and to states of `Chebyshev`.

    Attributes:
        method: as it is with one round.
        inner: the run, which mixes several times.
    """

    method: GradientTracking
    inner: Run

    def advance(
        self, state: ChebyshevState[TrackingState], count: int
    ) -> ChebyshevState[TrackingState]:
        """Return all agents after so many more iterations."""
        found = self.inner.advance(state.inner, count)
        told = self.method.outgoing(found)
        return ChebyshevState(found, told, told)
