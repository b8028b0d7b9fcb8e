"""The result of a simulated run, whichever driver made it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from veilsum.costs.cost import Cost
from veilsum.costs.effective import EffectiveCost
from veilsum.drivers.central import central_minimiser
from veilsum.drivers.diagnosis import drowned
from veilsum.drivers.phase_two import MaskedRows, Outcome
from veilsum.drivers.problem import Problem
from veilsum.graphs.topology import Topology
from veilsum.methods.one_shot import OneShot
from veilsum.numbers.arrays import AgentPoints, Array, FloatArray, Vector
from veilsum.numbers.fixed_point import Grid
from veilsum.numbers.laws import Law
from veilsum.numbers.masking import Shares
from veilsum.numbers.shapes import Float, Int
from veilsum.privacy.guarantee import Guarantee
from veilsum.privacy.view import View, observe


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What a figure needs: estimates and errors at some iterations.

    Attributes:
        iterations: k, spaced evenly on a logarithmic scale.
        estimates: x_i(k).
        errors: ||x_i(k) - reference||.
    """

    iterations: Int[Array[np.int64], " times"]
    estimates: Float[FloatArray, "times n m"]
    errors: Float[FloatArray, "times n"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """What the grid did to the answer, apart from what the method did.

    Attributes:
        bits: q, the grid being 2^-q.
        step: g = 2^-q.
        bias_bound: how far rounding the coefficients can move the minimiser, from the
            released sum alone; None where the sum of the costs is flat.
        bias: how far it did move it.
        solver_error: the worst party's distance from the rounded problem's minimiser.
    """

    bits: int
    step: float
    bias_bound: float | None
    bias: float
    solver_error: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Run:
    """The result of one simulated run.

    Attributes:
        minimiser: what the parties computed, averaged over them.
        estimates: each party's own final estimate, by row.
        reference: the pooled minimiser, computed centrally by scipy.
        sum_of_masks: the largest coordinate of |sum_i u_i|; rounding error of float64,
            exactly zero for integer masks.
        rounds: message rounds, phase I included.
        bytes: what crossed all links together, as bare numbers.
        quantisation: for integer masks, what the grid did.
        spread: for one-shot, how masked vectors travelled.
        effective: the masked costs of an iterative method.
        method: the name of the method that ran.
        stopped: why it ended: "tolerance", "iterations" or "bytes"; None for one-shot.
        engine: what carried iterations out; None if parties did, one by one.
        tolerance_unused: why a tolerance that was asked for could not end it; None if
            it could, or there was none.
        drowned: where masks kept an iterative method from any answer, that they did,
            and what to do; None otherwise, or if parties ran one by one.
    """

    topology: Topology
    minimiser: Vector
    estimates: AgentPoints
    reference: Vector
    trace: Trace
    sum_of_masks: float
    iterations: int
    rounds: int
    bytes: int
    guarantee: Guarantee
    quantisation: Quantisation | None
    spread: str | None
    effective: EffectiveCost | None
    method: str
    stopped: str | None
    engine: str | None
    tolerance_unused: str | None
    drowned: str | None
    _shares: Shares = field(repr=False)
    _private: MaskedRows = field(repr=False)

    @property
    def max_error(self) -> float:
        """The worst party's distance from the reference."""
        return _farthest(self.estimates, self.reference)

    def view(self, corrupted: Iterable[Hashable]) -> View:
        """Return what a coalition stored, sent and received in this run."""
        return observe(
            self._shares,
            self._private,
            self.trace.estimates,
            corrupted=corrupted,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        grid = self.quantisation
        return {
            "minimiser": self.minimiser.tolist(),
            "reference": self.reference.tolist(),
            "max_error": self.max_error,
            "sum_of_masks": self.sum_of_masks,
            "iterations": self.iterations,
            "rounds": self.rounds,
            "bytes": self.bytes,
            "quantisation": None if grid is None else asdict(grid),
            "spread": self.spread,
            "method": self.method,
            "stopped": self.stopped,
            "engine": self.engine,
            "tolerance_unused": self.tolerance_unused,
            "guarantee": self.guarantee.to_dict(),
        }

    def __repr__(self) -> str:
        return (
            f"<Run: {self.topology.n_parties} parties, {self.iterations} iterations, "
            f"max_error {self.max_error:.3g}, {self.guarantee.status}>"
        )


def finished_run(problem: Problem, shares: Shares, outcome: Outcome) -> Run:
    """Return the run: what came out, beside what one owner would have computed."""
    reference = central_minimiser(problem.costs, problem.domain)
    said = None
    if outcome.effective is not None:
        last, masked = outcome.estimates[-1], outcome.effective
        said = drowned(last, masked, problem.costs, problem.domain)
    return Run(
        topology=problem.topology,
        minimiser=outcome.estimates[-1].mean(axis=0),
        estimates=outcome.estimates[-1],
        reference=reference,
        trace=_trace(outcome, reference),
        sum_of_masks=_largest(shares.masks().sum(axis=0), problem.law),
        iterations=outcome.iterations,
        rounds=outcome.rounds + 1,
        bytes=outcome.bytes + shares.values.size * problem.law.number_bytes,
        guarantee=problem.guarantee,
        quantisation=_quantisation(problem, outcome, reference),
        spread=outcome.spread,
        effective=outcome.effective,
        method=outcome.method,
        stopped=outcome.stopped,
        engine=outcome.engine,
        tolerance_unused=outcome.tolerance_unused,
        drowned=said,
        _shares=shares,
        _private=problem.private,
    )


def _trace(outcome: Outcome, reference: Vector) -> Trace:
    # Time by time: all of them together would be another 64 MB.
    errors = [np.linalg.norm(x - reference, axis=1) for x in outcome.estimates]
    return Trace(outcome.times, outcome.estimates, np.stack(errors))


def _largest(total: Array[Any], law: Law) -> float:
    """Return the largest coordinate of a sum of masks, in the coefficients' units."""
    return float(np.abs(law.decode(total)).max())


def _farthest(estimates: AgentPoints, point: Vector) -> float:
    return float(np.linalg.norm(estimates - point, axis=1).max())


def _quantisation(
    problem: Problem, outcome: Outcome, reference: Vector
) -> Quantisation | None:
    bits = problem.law.masks.grid
    if bits is None:
        return None
    step = Grid(bits).step
    rounded = [_rounded(cost, problem.law) for cost in problem.costs]
    target = central_minimiser(rounded, problem.domain)
    return Quantisation(
        bits=bits,
        step=step,
        bias_bound=_bias_bound(problem, target, step),
        bias=float(np.linalg.norm(target - reference)),
        solver_error=_farthest(outcome.estimates[-1], target),
    )


def _bias_bound(problem: Problem, target: Vector, step: float) -> float | None:
    if problem.remainder.kind == "local":
        return None
    n = problem.topology.n_parties
    method = OneShot(problem.basis, problem.remainder, n, problem.domain)
    total = problem.law.decode(problem.private.sum(axis=0))
    return method.bias_bound(total, target, step)


def _rounded(cost: Cost, law: Law) -> Cost:
    return Cost(cost.basis, law.decode(law.encode(cost.coefficients)), cost.remainder)
