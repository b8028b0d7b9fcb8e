"""A party is lost after its masked vector has left: can anybody take its mask off?

A mask is made of shares, and both ends of a link know what went over it. Protocols with
a server ask the neighbours of a lost party for its shares, so that the others' sum can
be finished; then whoever has its masked vector, too, has its own numbers. Here nobody
tells a share to a third party. Machines are run, one of them dies at that moment, and
the coalition takes off the masked vector every share that it has ever seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from veilsum.audit.attack import Outcome
from veilsum.audit.question import AuditRehearsal, SkippedAttack
from veilsum.drivers.driver import DriverAssignment
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import Loopback, LoopbackEvent, LoopbackWorld
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import add_wide_integers, subtract_wide_integers
from veilsum.protocol.messages import Deposit, Masked, Message, Share, Up

ATTACK = "late unmasking"
# What a party's computer carries out, and is counted by a crash.
EFFECTS = ("send", "persist", "charge", "settimer", "deliver", "finish", "accuse")

# Epoch, sender, receiver.
Edge: TypeAlias = tuple[int, str, str]
# Shares that others tell about a lost party, beside what a coalition has seen itself.
Told: TypeAlias = Callable[[LoopbackWorld, str], dict[Edge, Array[Any]]]


@dataclass(frozen=True, kw_only=True)
class AuditedLoopback(Loopback):
    """The loopback driver, whose worlds are kept."""

    worlds: list[LoopbackWorld] = field(default_factory=list)

    def world(self, assignment: DriverAssignment) -> LoopbackWorld:
        """Return the world in which the parties meet, and keep it."""
        self.worlds.append(super().world(assignment))
        return self.worlds[-1]


def withhold_all_shares(world: LoopbackWorld, lost: str) -> dict[Edge, Array[Any]]:
    """Return no share: those of a lost party stay where they are."""
    del world, lost
    return {}


def play(
    question: AuditRehearsal,
    *,
    coalition: Sequence[str],
    seed: int,
    trials: int,
    told: Told = withhold_all_shares,
) -> tuple[Outcome | SkippedAttack, ...]:
    """Lose a party at the worst moment, and try to unmask what it has sent.

    Each trial loses another party, or at another moment. `told` returns the shares
    that others tell of a lost party: none here, some in other protocols.
    """
    if not coalition:
        return (SkippedAttack(ATTACK, "nobody colludes"),)
    honest, right, seen = question.honest(coalition), 0, 0
    for trial in range(trials):
        chance = np.random.default_rng((seed, trial, 11))
        lost = honest[int(chance.integers(len(honest)))]
        held, _ = question.sound((seed, trial))
        whole = AuditedLoopback(seed=trial, faults=Faults())
        question.ask(held, driver=whole)
        moments = effects_after_masked_vector(whole.worlds[0], lost)
        if not moments:
            continue
        crash = Crash(lost, after=int(chance.choice(moments)), back=None)
        broken = AuditedLoopback(seed=trial, faults=Faults(crashes=(crash,)))
        question.ask(held, driver=broken)
        seen += 1
        right += attack_unmasks(broken.worlds[0], coalition, lost, told)
    if not seen:
        return (SkippedAttack(ATTACK, "a party sends no masked vector of its own"),)
    about = "the vector of a party that is lost after its masked one has left"
    return (Outcome(ATTACK, tuple(coalition), about, seen, right, 0.0, "frames"),)


def effects_after_masked_vector(world: LoopbackWorld, party: str) -> list[int]:
    """Return after how many effects a party has just sent its masked vector."""
    count, found = 0, []
    for event in world.history:
        if event.party != party or event.what not in EFFECTS:
            continue
        count += 1
        if event.what == "send" and isinstance(
            _audited_event_message(world, event), Masked | Up
        ):
            found.append(count)
    return found


def attack_unmasks(
    world: LoopbackWorld, coalition: Sequence[str], lost: str, told: Told
) -> bool:
    """Say whether some masked vector of a lost party loses its mask to a coalition."""
    masked, shares = _view_of_unmasked_party(world, coalition, lost)
    shares |= told(world, lost)
    law = world.plan.law
    for epoch, vector in masked:
        left = vector
        for (when, sender, receiver), numbers in shares.items():
            if when != epoch or lost not in (sender, receiver):
                continue
            take = subtract_wide_integers if sender == lost else add_wide_integers
            left = take(left, numbers)
        # The auditor judges by what the party really gave.
        place = epoch // world.plan.epochs_per_sum
        truth = world.works[lost].vector(world.sums[:place])
        assert truth is not None
        if np.array_equal(law.wrap(left), law.wrap(law.encode(truth))):
            return True
    return False


def _view_of_unmasked_party(
    world: LoopbackWorld, coalition: Sequence[str], lost: str
) -> tuple[list[tuple[int, Array[Any]]], dict[Edge, Array[Any]]]:
    """Return a party's masked vectors, and all shares, that a coalition has seen."""
    masked: list[tuple[int, Array[Any]]] = []
    shares: dict[Edge, Array[Any]] = {}
    for event in world.history:
        if event.party not in coalition or event.what not in ("send", "receive"):
            continue
        message, peer = _audited_event_message(world, event), event.peer or ""
        match message:
            case Share():
                sent = event.what == "send"
                ends = (event.party, peer) if sent else (peer, event.party)
                shares[message.epoch, *ends] = message.numbers
            case Masked() if message.party == lost:
                masked.append((message.epoch, message.numbers))
            case Deposit() if message.masked.party == lost:
                masked.append((message.masked.epoch, message.masked.numbers))
            case Up() if peer == lost:
                masked.append((message.epoch, message.numbers))
    return masked, shares


def _audited_event_message(world: LoopbackWorld, event: LoopbackEvent) -> Message:
    return world.plan.codec.decode(event.detail)
