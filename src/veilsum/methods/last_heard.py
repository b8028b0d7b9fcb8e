"""What was last heard over every link, for links that lose messages.

A neighbour that was not heard in a round counts with what it said before. This is the
simulator's memory, all links at once; a single agent keeps its own links only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from veilsum.methods.exchange import Message, Weighting, Weights
from veilsum.numbers.arrays import Array, FloatArray, Sparse, Vectors
from veilsum.numbers.shapes import Bool, Float, Int

Agents = Int[Array[np.int64], " links"]
Messages = Float[FloatArray, "links e"]
Arrived = Bool[Array[np.bool_], " links"]


@runtime_checkable
class Unheard(Protocol):
    """A method that knows what stands for a neighbour never heard."""

    def unheard(self, start: Vectors) -> Message:
        """Return what everybody counts as having told before the first round."""
        ...


@dataclass(frozen=True, eq=False)
class LastHeard:
    """The last message that came over every link, all links as rows.

    Attributes:
        senders: who speaks, link by link.
        messages: what was last heard of it over that link.
        own: for each kind of weights, those of the agents for themselves.
        gather: for each kind, the receivers' weights as an n x links matrix.
    """

    senders: Agents
    messages: Messages
    own: dict[Weighting, FloatArray]
    gather: dict[Weighting, Sparse]

    @classmethod
    def of(cls, weights: Weights, unheard: Message) -> LastHeard:
        """Return the memory before the first round.

        Args:
            weights: sparse and n x n, all on the same links.
            unheard: what each agent counts as having told so far, (n, e).
        """
        receivers, senders = links_of(weights)
        own = {name: each.diagonal() for name, each in weights.items()}
        gather = {
            name: _gather(each, receivers, senders) for name, each in weights.items()
        }
        return cls(senders, unheard[senders], own, gather)

    def hear(self, told: Message, arrived: Arrived) -> LastHeard:
        """Return the memory after a round in which some links were silent."""
        messages = np.where(arrived[:, None], told[self.senders], self.messages)
        return replace(self, messages=messages)

    def mixed(self, parts: tuple[Weighting, ...], told: Message) -> Message:
        """Return each agent's weighted sum: its own message, and those it remembers."""
        own, heard = (
            np.split(each, len(parts), axis=-1) for each in (told, self.messages)
        )
        sums = [
            self.own[part][:, None] * mine + self.gather[part] @ theirs
            for part, mine, theirs in zip(parts, own, heard, strict=True)
        ]
        return np.concatenate(sums, axis=-1)


def links_of(weights: Weights) -> tuple[Agents, Agents]:
    """Return receivers and senders of all links, one for each direction."""
    pattern = sum(abs(each) for each in weights.values()).tocoo()
    between = pattern.row != pattern.col
    ends = (pattern.row[between], pattern.col[between])
    receivers, senders = (np.asarray(each, dtype=np.int64) for each in ends)
    return receivers, senders


def _gather(weights: Sparse, receivers: Agents, senders: Agents) -> Sparse:
    """Return the matrix that adds up, for each receiver, its links' messages."""
    links = np.arange(len(receivers))
    values = np.asarray(weights.tocsr()[receivers, senders]).ravel()
    shape = (weights.shape[0], len(links))
    return sparse.csr_array((values, (receivers, links)), shape=shape)
