"""Faults between parties that iterate, drawn from a seed.

All faults are functions of the seed and of the number of the iteration. A run repeats
itself bit for bit, whatever the portions in which its iterations are requested. One
kind of fault does not affect another.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TypeAlias, get_args

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.minimise.methods.base import Fault, Message
from veilsum.minimise.methods.stopping import UNSURE
from veilsum.numbers.arrays import (
    Array,
    as_whole_number,
    is_real_number,
    is_whole_number,
)
from veilsum.numbers.shapes import Bool, Int

Takes: TypeAlias = Int[Array[np.int64], " links"]
OutLinks: TypeAlias = Bool[Array[np.bool_], " pairs"]
IdleParties: TypeAlias = Bool[Array[np.bool_], " n"]

# What a message takes that never arrives.
LOST = -1


@dataclass(frozen=True, kw_only=True)
class LinkFaults:
    """Everything that happens to messages and parties; nothing, unless asked for.

    Attributes:
        loss: the chance that a message over a link, in one direction, is lost.
        delay: how many rounds late messages are, the least and the most. They may
            overtake each other; the newest that has arrived counts.
        stragglers: the parties that skip some iterations, by row, or which part of all
            parties does. They go on telling what they told before.
        idle: the chance that a straggler skips an iteration.
        changing: the chance that a link is out for an iteration, in both directions.
        within: every link works at least once in so many iterations.
        quantise: the step of the grid that messages are rounded to; 0 for none.
        dither: whether rounding goes up or down by chance, so that it is right on
            average, instead of to the nearest.
        seed: what repeats a run.
    """

    loss: float = 0.0
    delay: tuple[int, int] = (0, 0)
    stragglers: float | tuple[int, ...] = 0.0
    idle: float = 0.5
    changing: float = 0.0
    within: int = 10
    quantise: float = 0.0
    dither: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        _check_link_fault_chance("loss", self.loss, "no message would ever arrive")
        _check_link_fault_chance("idle", self.idle, "stragglers would never move")
        _check_link_fault_chance("changing", self.changing, "no link would ever work")
        _check_link_delay(self.delay)
        _check_straggler_faults(self.stragglers)
        as_whole_number(self.within, what="within", least=1)
        if not (is_real_number(self.quantise) and 0 <= self.quantise < float("inf")):
            raise InvalidInputError(
                "quantise must be the step of a grid, or 0 for none, found "
                f"{self.quantise!r}",
                code="grid-step-negative",
            )
        as_whole_number(self.seed, what="a seed", least=0)

    @property
    def kinds(self) -> frozenset[Fault]:
        """The faults that do happen."""
        asked: dict[Fault, bool] = {
            "loss": self.loss > 0,
            "delay": self.delay[1] > 0,
            "stragglers": bool(self.stragglers) and self.idle > 0,
            "changing": self.changing > 0,
            "quantise": self.quantise > 0,
        }
        return frozenset(kind for kind, there in asked.items() if there)

    @property
    def no_stopping(self) -> str | None:
        """Why parties cannot stop at a tolerance, all at once; None if they can."""
        kinds = [kind for kind in get_args(Fault) if kind in self.kinds & UNSURE]
        if not kinds:
            return None
        return (
            f"under faults ({', '.join(kinds)}) no party can tell when all have heard "
            "how near everybody is"
        )

    def takes(self, iteration: int, links: int, *, turn: int = 0) -> Takes:
        """Return how many rounds each link's message takes, or LOST.

        Args:
            iteration: in which it is told.
            links: how many there are, both directions of a link counted.
            turn: which of an iteration's rounds it is told in.
        """
        least, most = self.delay
        late = np.full(links, least)
        if most > least:
            chance = self._chance(1, iteration, turn)
            late = chance.integers(least, most + 1, size=links)
        if self.loss:
            late[self._chance(2, iteration, turn).random(links) < self.loss] = LOST
        return late

    def out(self, iteration: int, pairs: int) -> OutLinks:
        """Return which links are out in an iteration, in both directions.

        Each link has its turn, once in every `within` iterations, at which it is not.
        """
        if not self.changing:
            return np.zeros(pairs, dtype=np.bool_)
        turns = self._chance(3).integers(self.within, size=pairs)
        due = turns == iteration % self.within
        return ~due & (self._chance(4, iteration).random(pairs) < self.changing)

    def slow(self, parties: int) -> IdleParties:
        """Return which parties are stragglers."""
        if not isinstance(self.stragglers, tuple):
            order = self._chance(5).permutation(parties)
            return order < ceil(self.stragglers * parties)
        wrong = [row for row in self.stragglers if not 0 <= row < parties]
        if wrong:
            raise InvalidInputError(
                f"stragglers are rows from 0 to {parties - 1} here, found {wrong[0]}",
                code="rows-out-of-range",
            )
        return np.isin(np.arange(parties), self.stragglers)

    def skips(self, iteration: int, slow: IdleParties) -> IdleParties:
        """Return which of the stragglers skip an iteration."""
        return slow & (self._chance(6, iteration).random(len(slow)) < self.idle)

    def rounded(self, told: Message, iteration: int, *, turn: int = 0) -> Message:
        """Return messages on the grid."""
        if not self.quantise:
            return told
        units = told / self.quantise
        if not self.dither:
            return self.quantise * np.rint(units)
        above = self._chance(7, iteration, turn).random(told.shape)
        return self.quantise * np.floor(units + above)

    def _chance(self, *purpose: int) -> np.random.Generator:
        """Return draws that no other purpose or iteration shares."""
        return np.random.default_rng((self.seed, *purpose))


def _check_link_fault_chance(what: str, found: object, at_one: str) -> None:
    if not (is_real_number(found) and 0 <= found < 1):
        raise InvalidInputError(
            f"{what} is a chance from 0 to below 1, at which {at_one}; found {found!r}",
            code="chance-out-of-range",
        )


def _check_straggler_faults(found: object) -> None:
    if isinstance(found, tuple):
        fits = all(is_whole_number(row) for row in found)
    else:
        fits = is_real_number(found) and 0 <= found <= 1
    if not fits:
        raise InvalidInputError(
            "stragglers must be a part of the parties from 0 to 1, or the parties' row "
            f"numbers like (0, 3), found {found!r}",
            code="malformed-stragglers",
        )


def _check_link_delay(found: object) -> None:
    match found:
        case (least, most) if is_whole_number(least) and is_whole_number(most):
            fits = 0 <= least <= most
        case _:
            fits = False
    if not fits:
        raise InvalidInputError(
            "delay must be two whole numbers of rounds, the least and the most, like "
            f"(0, 5); found {found!r}",
            code="malformed-delay",
        )
