"""Masked sums by real machines on the network in memory."""

from __future__ import annotations

from collections.abc import Mapping

from veilsum.drivers.faults import Faults
from veilsum.drivers.loopback import World
from veilsum.drivers.masked_sums import (
    Before,
    GivenUpError,
    Progress,
    Released,
    Sums,
    rounds_of_a_sum,
)
from veilsum.numbers.masking import Streams
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import Plan
from veilsum.protocol.recovery import Stored
from veilsum.protocol.work import Work

WATCHED = ("answer/",)


def sums_in_loopback(
    plan: Plan,
    works: Mapping[str, Work],
    streams: Streams,
    *,
    seed: int = 0,
    faults: Faults | None = None,
    before: Before | None = None,
    progress: Progress | None = None,
) -> Released:
    """Return what the machines of all parties release to each other."""
    world = World(
        plan,
        works,
        streams,
        faults=faults or Faults(),
        seed=seed,
        record=False,
        watch=WATCHED,
    )
    if before is not None:
        world.charge = lambda name, charge: before(name, charge, _so_far(world, charge))
    if progress is not None:
        world.progress = lambda _: progress(len(released_sums(world)))
    return released(world.run())


def released(world: World) -> Released:
    """Return what came out of a world that has stopped."""
    if not world.finished:
        reasons = {name: (a.reason, a.detail) for name, a in world.aborted.items()}
        raise GivenUpError(reasons, released_sums(world))
    finish = next(iter(world.finished.values()))
    sums = released_sums(world)
    return Released(
        sums=sums,
        answer=finish.result,
        members=finish.parties,
        rounds=len(sums) * rounds_of_a_sum(world.plan),
        bytes=world.bytes,
        sum_of_masks=None,
    )


def _so_far(world: World, charge: Emission) -> Sums:
    """Return the sums that were known before an epoch."""
    return released_sums(world)[: charge.epoch // (len(world.plan.parties) + 1)]


def released_sums(world: World) -> Sums:
    """Return the sums of all rounds, as the party that came farthest wrote them."""
    of_parties = (_written_sums(world, name) for name in world.plan.parties)
    return max(of_parties, key=len)


def _written_sums(world: World, name: str) -> Sums:
    written = {key: frame for (who, key), frame in world.written.items() if who == name}
    return Stored(world.plan, written).sums()
