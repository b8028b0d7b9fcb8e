"""What every iterative method looks like to whoever drives it.

A method is a value made of public settings. In each round an agent tells all its
neighbours one message, hears theirs, and advances with their weighted sum

    mixed_i = sum_j w_ij told_j,   its own message included.

One formula serves one agent, with arrays (m,), and all of them, with arrays (n, m). A
message may have several parts of m numbers, and the method names the weights each part
is mixed with. An iteration takes one round or several. A method sees effective costs
only: a gradient and its change, never a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from veilsum.costs.effective import EffectiveCost
from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray, Vectors
from veilsum.numbers.shapes import Float

Message: TypeAlias = Float[FloatArray, "*batch e"]
Messages: TypeAlias = Float[FloatArray, "heard e"]

# `row` weights add up to one for each receiver, `column` weights for each sender, and
# `symmetric` ones for both.
Weighting: TypeAlias = Literal["symmetric", "row", "column"]
# Of one agent: what it hears, itself included. Of all agents: n x n, dense or sparse.
Weights: TypeAlias = Mapping[Weighting, Any]


@runtime_checkable
class State(Protocol):
    """Where an agent is, or where all of them are."""

    @property
    def x(self) -> Vectors:
        """The estimate."""
        ...

    @property
    def iteration(self) -> int:
        """How often the estimate has moved."""
        ...


S = TypeVar("S", bound=State)


@runtime_checkable
class Method(Protocol[S]):
    """A way to minimise the sum of effective costs by talking to neighbours."""

    @property
    def rounds_per_iteration(self) -> int:
        """How often neighbours are told something in each iteration."""
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
        """Return where an agent alone would go next, as a point.

        It stands still when the method has arrived, and not before: estimates may also
        rest for a while, against the edge of the domain.
        """
        ...


def mix(weights: Weights, parts: tuple[Weighting, ...], told: Messages) -> Message:
    """Return sum_j w_ij told_j, every part of the message with its own weights.

    For all agents weights are n x n and `told` has a row for each. For one agent they
    are its row, and `told` holds its own message and those it heard in the same order.

    >>> heard = np.array([[1.0, 3.0], [5.0, 7.0]])
    >>> mix({"symmetric": np.array([0.5, 0.5])}, ("symmetric",), heard).tolist()
    [3.0, 5.0]
    """
    if len(parts) == 1:
        return weights[parts[0]] @ told
    pieces = np.split(told, len(parts), axis=-1)
    sums = [weights[part] @ piece for part, piece in zip(parts, pieces, strict=True)]
    return np.concatenate(sums, axis=-1)


def iterations(
    method: Method[S], weights: Weights, cost: EffectiveCost, start: Vectors
) -> Iterator[S]:
    """Yield all agents' states: the first, then one after every iteration, for ever."""
    state = method.begin(start, cost)
    while True:
        yield state
        done = state.iteration
        while state.iteration == done:
            told = method.outgoing(state)
            mixed = mix(weights, method.parts(state), told)
            state = method.advance(state, mixed, cost)


def check_step(method: str, step: float) -> None:
    """Refuse a step size that is none."""
    if not 0 < step < float("inf"):
        raise InvalidInputError(
            f"{method}'s step must be positive and finite, found {step}"
        )
