"""Interface of iterative methods: facts, construction and steps.

A method is one file with one class. The class carries the method's name, its traits
(admissible problems, tolerated faults, requirements), and its construction from public
facts alone. An instance is a value that steps. In each round a party sends one message
to all its neighbours, receives theirs, and advances with their weighted sum

    mixed_i = sum_j w_ij told_j,   its own message included.

One formula serves one party, with arrays (m,), and all of them, with arrays (n, m). A
message may have several parts of m numbers, and the method names the weights each part
is mixed with. An iteration takes one round or several. A method reads effective costs
only: a gradient and its change, never a value.

To add a method, write its file and name its class in `registry.ITERATIVE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    runtime_checkable,
)

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.graphs.mixing import mixing_rate, mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.domains import Domain, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.certificate import Bounds, contraction_of_mixing_rounds
from veilsum.numbers.arrays import FloatArray, Sparse, Vectors
from veilsum.numbers.shapes import Float

Message: TypeAlias = Float[FloatArray, "*batch e"]
Messages: TypeAlias = Float[FloatArray, "heard e"]

# `row` weights add up to one for each receiver, `column` weights for each sender, and
# `symmetric` ones for both.
Weighting: TypeAlias = Literal["symmetric", "row", "column"]
# Of one party: what it hears, itself included. Of all parties: n x n, dense or sparse.
Weights: TypeAlias = Mapping[Weighting, Any]

# What may go wrong between parties that iterate; `LinkFaults` has how often.
Fault: TypeAlias = Literal["loss", "delay", "stragglers", "changing", "quantise"]
EVERY_FAULT: frozenset[Fault] = frozenset(get_args(Fault))

# Where Settings' bounds come from when nobody agreed on any; errors say it.
FROM_COSTS = (
    "in a simulation, Settings(bounds_from_costs=True) reads them off the costs"
)


@dataclass(frozen=True, kw_only=True)
class MethodTraits:
    """Problems that a method admits, faults that it tolerates, and its requirements.

    Attributes:
        domain: X may be a proper subset of the space; estimates are projected on it.
        compact: X must be bounded.
        nonconvex: single costs may be non-convex if their average is convex.
        directed: links may be one-way.
        winds_up: with a domain, masks must be drawn together before.
        symmetric: weights are symmetric, and several rounds mix as Chebyshev's
            polynomial does; otherwise they are receivers' and senders' weights.
        settles: its moves shrink only because it converges, so it can be stopped.
        vectors: number of vectors as long as x in a message.
        bounds: public bounds on the costs that determine its steps: none; L, as
            `smooth`; or all, so that the average cost must be strongly convex.
        mixing: the symmetric weights that suit it, where their eigenvalues can be had.
        bears: faults under which it still converges with sufficiently short steps; to
            the order of the grid if messages are rounded.
        accelerates: its extra rounds pay where the average cost is ill-conditioned.
        traceable: its source computes with operators alone, in messages of one part: a
            compiler can follow it with arrays of its own in place of numpy's.
    """

    domain: bool = False
    compact: bool = False
    nonconvex: bool = False
    directed: bool = False
    winds_up: bool = False
    symmetric: bool = True
    settles: bool = True
    vectors: int = 1
    bounds: Literal["none", "smooth", "all"] = "all"
    mixing: str = "best-constant"
    bears: frozenset[Fault] = frozenset()
    accelerates: bool = False
    traceable: bool = False

    @property
    def strongly_convex(self) -> bool:
        """Whether the average cost must be strongly convex, with bounds that say so."""
        return self.bounds == "all"


@dataclass(frozen=True, eq=False, kw_only=True)
class MethodInputs:
    """Inputs of a method: public facts and the requested settings.

    Attributes:
        domain: X.
        topology: graph of the links.
        mixing: name of the symmetric weights.
        bounds: bounds on the masked costs; None if unknown.
        smooth: L, where no other bound is known.
        step: requested step; without it, the step that the bounds admit.
        rounds: requested rounds of mixing for each one of the method.
        power: rate at which steps shrink, if they do.
        gradient_at: point at which gradients are taken, if there is a choice.
    """

    domain: Domain
    topology: Topology
    mixing: str
    bounds: Bounds | None = None
    smooth: float | None = None
    step: float | None = None
    rounds: int | None = None
    power: float = 1.0
    gradient_at: Literal["mixed", "own"] = "mixed"

    @cached_property
    def symmetric(self) -> Sparse:
        return mixing_weights(self.topology, self.mixing)

    @cached_property
    def rate(self) -> float:
        """rho(W)."""
        return mixing_rate(self.symmetric)

    @property
    def constrained(self) -> bool:
        return not isinstance(self.domain, WholeSpace)

    def need_bounds(self, name: str) -> Bounds:
        if self.bounds is None:
            raise InvalidInputError(
                f"{name} takes its steps from public bounds on the costs: give smooth "
                "(every party's gradient is so Lipschitz on the domain) and "
                "mean_convex (the average cost is so strongly convex), and mean_smooth "
                f"if the average bends less than the single costs; {FROM_COSTS}",
                code="bounds-missing",
            )
        return self.bounds

    def need_smooth(self, name: str) -> float:
        """Return L alone, which is all that some methods ask for."""
        if self.bounds is not None:
            return self.bounds.smooth
        if self.smooth is None:
            raise InvalidInputError(
                f"{name} takes its step from a public bound on the costs: give smooth, "
                "for which every party's gradient is Lipschitz on the domain, or the "
                f"step itself; {FROM_COSTS}",
                code="smooth-missing",
            )
        return self.smooth

    def held_back(self, step: float) -> float:
        """Return the patience of a method that gradients or mixing may hold back."""
        mixing = 2.0 / (1.0 - contraction_of_mixing_rounds(self.rate, self.rounds or 1))
        if self.bounds is None:
            return mixing
        return max(mixing, 1.0 / (step * self.bounds.mean_convex))


@dataclass(frozen=True, eq=False, kw_only=True)
class MethodOnGraph:
    """A method made for a graph.

    Attributes:
        patience: how many times its last move an estimate may still be from the
            answer, 1 / (1 - q) for a method that shrinks errors by q.
        rounds: of mixing in place of each of the method's own.
    """

    method: Method[Any]
    patience: float
    rounds: int = 1


@runtime_checkable
class MethodState(Protocol):
    """Where a party is, or where all of them are."""

    @property
    def x(self) -> Vectors:
        """The estimate."""
        ...

    @property
    def iteration(self) -> int:
        """Number of moves of the estimate so far."""
        ...


S = TypeVar("S", bound=MethodState)


@runtime_checkable
class DescribedMethod(Protocol):
    """A method's class or a configured method, with the method's facts."""

    @property
    def name(self) -> str:
        """Name of the method in settings and reports."""
        ...

    @property
    def traits(self) -> MethodTraits:
        """Problems and faults that it admits, and its requirements."""
        ...


@runtime_checkable
class MethodClass(DescribedMethod, Protocol):
    """A class that carries its facts and makes itself."""

    @property
    def rounds_per_iteration(self) -> int:
        """Number of messages to each neighbour in an iteration."""
        ...

    def made(self, given: MethodInputs) -> MethodOnGraph:
        """Return the method with its step and rounds, from public facts alone."""
        ...


@runtime_checkable
class Method(DescribedMethod, Protocol[S]):
    """A way to minimise the sum of effective costs by talking to neighbours."""

    @property
    def rounds_per_iteration(self) -> int:
        """Number of messages to each neighbour in an iteration."""
        ...

    def begin(self, start: Vectors, cost: EffectiveCost) -> S:
        """Return the state before the first round, at a public start."""
        ...

    def outgoing(self, state: S) -> Message:
        """Return what every neighbour is told in this round."""
        ...

    def parts(self, state: S) -> tuple[Weighting, ...]:
        """Return the weights for each part of that message, all parts as long as x."""
        ...

    def advance(self, state: S, mixed: Message, cost: EffectiveCost) -> S:
        """Return the state after this round."""
        ...

    def aim(self, state: S) -> Vectors:
        """Return where a party alone would go next, as a point.

        It stands still when the method has arrived, and not before: estimates may also
        rest for a while, against the edge of the domain.
        """
        ...


def mix_method_messages(
    weights: Weights, parts: tuple[Weighting, ...], told: Messages
) -> Message:
    """Return sum_j w_ij told_j, every part of the message with its own weights.

    For all parties weights are n x n and `told` has a row for each. For one party they
    are its row, and `told` holds its own message and those it heard in the same order.

    >>> heard = np.array([[1.0, 3.0], [5.0, 7.0]])
    >>> weights = {"symmetric": np.array([0.5, 0.5])}
    >>> mix_method_messages(weights, ("symmetric",), heard).tolist()
    [3.0, 5.0]
    """
    if len(parts) == 1:
        return _mixing_weights_product(weights[parts[0]], told)
    pieces = np.split(told, len(parts), axis=-1)
    both = zip(parts, pieces, strict=True)
    sums = [_mixing_weights_product(weights[part], piece) for part, piece in both]
    return np.concatenate(sums, axis=-1)


def _mixing_weights_product(weights: Any, told: Any) -> Any:
    # numpy's `dot` takes half as long as its operator over a few numbers; scipy's takes
    # longer.
    return weights.dot(told) if isinstance(weights, np.ndarray) else weights @ told


def check_method_step(method: str, step: float) -> None:
    """Refuse a step size that is none."""
    if not 0 < step < float("inf"):
        raise InvalidInputError(
            f"{method}'s step must be positive and finite, found {step}",
            code="step-not-positive",
        )


@dataclass(frozen=True)
class SteppedMethod:
    """A method with steps of one size, whose rounds mix with symmetric weights.

    Attributes:
        domain: X, public and the same for all.
    """

    name: ClassVar[str]
    rounds_per_iteration: ClassVar[int] = 1

    domain: Domain
    step: float

    def __post_init__(self) -> None:
        check_method_step(self.name, self.step)

    def parts(self, state: Any) -> tuple[Weighting, ...]:
        return ("symmetric",)
