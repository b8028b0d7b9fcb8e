"""A member that lies: its machine is an honest one, and its frames are not.

A script sees every frame before it leaves the liar's computer, and says what leaves
instead. It has the liar's key, and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from machines import sealed
from rules import reference
from veilsum.drivers.loopback import LoopbackWorld
from veilsum.protocol.effects import Emission, Send
from veilsum.protocol.messages import Lost

LIAR = "3"
# Records that a party holds of each author at most.
MOST_RECORDS = 11


@dataclass(eq=False, repr=False)
class LyingWorld(LoopbackWorld):
    """A world in which one party's frames pass through a script."""

    liar: str = LIAR
    script: Callable = None
    once: set = field(default_factory=set)

    def _transmit(self, sender, send):
        if sender != self.liar:
            super()._transmit(sender, send)
            return
        message = self.plan.codec.decode(send.frame)
        for to, told in self.script(self, send.to, message):
            if not isinstance(told, bytes):
                told = self.plan.codec.encode(told)
            super()._transmit(sender, Send(to, told))

    def _arrive(self, sender, send):
        """Keep from the liar's machine what it does not know that it has said."""
        message = self.plan.codec.decode(send.frame)
        if send.to != self.liar or getattr(message, "party", "") != self.liar:
            super()._arrive(sender, send)

    def first(self, what):
        """Say whether this has not been asked before."""
        new = what not in self.once
        self.once.add(what)
        return new

    @property
    def own(self):
        return self.nodes[self.liar].machine

    @property
    def others(self):
        return [name for name in self.plan.parties if name != self.liar]

    def sign(self, record):
        return sealed(self, record, by=self.liar)

    def lost(self, names, epoch=0):
        """A Lost as the liar's own start would sign it."""
        start = self.own._book.start
        names = tuple(sorted(names))
        return self.sign(
            Lost(party=self.liar, epoch=epoch, incarnation=start, lost=names)
        )

    def moved(self, record):
        """The same record with other numbers, signed as well."""
        numbers = np.array(record.numbers)
        numbers[0] += 1 if numbers.dtype == np.float64 else 2**25
        return self.sign(msgspec.structs.replace(record, numbers=numbers))

    @property
    def honest(self):
        return {name: self.nodes[name].machine for name in self.others}


def lying(setting, script, liar=LIAR, faults=None, start=0, kind=LyingWorld):
    """Run a setting with a liar in it, after so many earlier starts of everybody."""
    plan = setting.plan()
    options = {} if faults is None else {"faults": faults}
    world = kind(
        plan,
        setting.works(plan),
        setting.streams(),
        seed=setting.seed,
        liar=liar,
        script=script,
        **options,
    )
    for node in world.nodes.values():
        node.start = start
    return world.run()


def wrongs(world, *, tells_two=False):
    """What must not be after a run with a liar, in sentences."""
    plan, found = world.plan, []
    for name, machine in world.honest.items():
        if innocent := machine.accused.keys() - {world.liar}:
            found.append(f"{name} accuses {sorted(innocent)}: {machine.accused}")
        if len(machine._book.ids()) > MOST_RECORDS * len(plan.parties):
            found.append(f"{name} holds {len(machine._book.ids())} records")
        proven = {who for who in machine._book.evidence if machine._book.proves(who)}
        if proven - {world.liar}:
            found.append(f"{name} has evidence against {sorted(proven)}")
        ended = world.aborted.get(name)
        if name not in world.finished and ended is None:
            found.append(f"{name} neither finished nor gave up")
        if ended is not None and ended.reason == "stale":
            found.append(f"{name} is stale: {ended.detail}")
    honest = (event for event in world.history if event.party != world.liar)
    shown = {e.detail.parties for e in honest if isinstance(e.detail, Emission)}
    found += [why for why in map(plan.refusal, shown) if why is not None]
    ends = {n: one for n, one in world.finished.items() if n != world.liar}
    if len({(one.parties, one.result.tobytes()) for one in ends.values()}) > 1:
        found.append("honest parties finished with different answers")
    for one in ends.values():
        gap = np.abs(one.result - reference(world, one.parties)).max()
        if not tells_two and not gap <= 2 * plan.tolerance:
            found.append(f"the answer is {gap:.3g} away from the right one")
    return found
