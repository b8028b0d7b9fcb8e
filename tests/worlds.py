"""Loopback worlds for tests: small runs of every kind, each repeated by its settings.

`Setting` is all that a run depends on, so its repr is the recipe that replays it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

import numpy as np

from rules import broken_rules
from veilsum.drivers.faults import Faults
from veilsum.drivers.loopback import LoopbackWorld
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import MaskStreams, ShareStreams
from veilsum.masks.streams import SeededStream
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import WholeSpace
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.question import public_facts_of_costs
from veilsum.minimise.rounds import MethodRounds, MethodSchedules
from veilsum.numbers.secrets import Secret
from veilsum.protocol.machine import Machine
from veilsum.protocol.plan import ProtocolPlan, ProtocolPolicy
from veilsum.protocol.work import SumWork, request_digest

EFFECTS = {"send", "persist", "charge", "settimer", "deliver", "finish", "abort"}
SUMS = 3  # of a work with several


@dataclass(frozen=True, repr=False)
class FreshStreams(MaskStreams, Secret):
    """Streams that never repeat, as real ones do not, yet the same in every replay."""

    root: int
    drawn: count = field(default_factory=count)

    def stream(self, *, epoch, sender, receiver):
        key = (9, self.root, epoch, sender, receiver, next(self.drawn))
        return SeededStream(np.random.default_rng(key))


@dataclass(frozen=True, eq=False, repr=False)
class SuccessiveSums(Secret):
    """Several sums, each vector depending on the totals before it."""

    private: np.ndarray
    rounds: None = None
    # As a fit, it may be over before.
    most_sums: ClassVar[int] = SUMS + 2

    def vector(self, answers):
        if len(answers) == SUMS:
            return None
        turn = answers[-1] / 64 if answers else 0.0
        return self.private * (1 + len(answers)) - turn

    def asked(self, answers):
        return request_digest([answer.tolist() for answer in answers])

    def answer(self, answers, members):
        return np.sum(answers, axis=0) / len(members)


@dataclass(frozen=True)
class Setting:
    """A run: `world()` builds it, and building it twice gives the same run twice."""

    graph: str = "complete:5"
    law: str = "lattice"
    work: str = "one-shot"  # or "nids", "sums"
    spread: str = "flooding"
    seed: int = 0
    size: int = 3
    fresh: bool = True
    policy: ProtocolPolicy = field(default_factory=ProtocolPolicy)

    @property
    def topology(self):
        return Topology.family(self.graph)

    @property
    def parties(self):
        return self.topology.parties

    def plan(self):
        topology = self.topology
        return ProtocolPlan(
            terms=repr(self).encode(),
            topology=topology,
            law=self.mask_law(topology),
            size=self.size,
            round_size=self.size + 1,
            answer_size=self.size,
            tolerance=1e-2 if self.work == "nids" else 1e-6,
            spread=self.spread,
            policy=self.policy,
        )

    def mask_law(self, topology):
        sigma = None if self.law == "uniform" else 2.0
        bits = None if self.law == "gaussian" else 24
        return Masks(self.law, sigma=sigma, grid=bits).on(topology)

    def private(self, party):
        i = self.topology.index(party)
        return np.random.default_rng((self.seed, i)).uniform(-5, 5, self.size)

    def works(self, plan):
        return {name: self._work(plan, self.private(name)) for name in plan.parties}

    def _work(self, plan, private):
        if self.work == "sums":
            return SuccessiveSums(private)
        rounds = self._rounds(plan) if self.work == "nids" else None
        return SumWork(private, least_squares, rounds)

    def _rounds(self, plan):
        basis, remainder = Affine(self.size), SquaredNorm(1.0)
        domain = WholeSpace(self.size)
        facts = public_facts_of_costs(plan.topology, domain, plan.law, basis, remainder)
        settings = Settings(method="nids", iterations=80, tolerance=1e-3)
        start = np.zeros(self.size)
        schedules = MethodSchedules(settings, facts)
        return MethodRounds(schedules, plan.law, basis, remainder, start)

    def streams(self):
        return (FreshStreams if self.fresh else ShareStreams)(self.seed)

    def world(self, faults=None, *, make=Machine, **options):
        plan = self.plan()
        return LoopbackWorld(
            plan,
            self.works(plan),
            self.streams(),
            faults=faults or Faults(),
            seed=self.seed,
            make=make,
            **options,
        )

    def answer(self, members=None):
        """What the sum of the private vectors leads to, without any protocol."""
        total = sum(self.private(name) for name in members or self.parties)
        return least_squares(total, members or self.parties)


def least_squares(total, members):
    """Where sum_i (theta_i . x + |x|^2) is least."""
    return -total / 2 / len(members)


def replayed(setting, faults, make=Machine):
    """Run, and say what was broken and how to see it again."""
    world = setting.world(faults, make=make).run()
    broken = broken_rules(world)
    assert not broken, f"replay: {setting}.world({faults}).run()\n" + "\n".join(broken)
    return world


def effects_of(world, party):
    """Return the kind of every effect a party carried out; a Send's is its message."""
    codec = world.plan.codec
    kinds = {"send": lambda event: type(codec.decode(event.detail)).__name__}
    for event in world.history:
        if event.party == party and event.what in EFFECTS:
            named = kinds.get(event.what, lambda event: type(event.detail).__name__)
            yield named(event)


def effects_until(setting, party, kind):
    """How many effects a party has carried out by the first of a kind, undisturbed."""
    return list(effects_of(setting.world().run(), party)).index(kind) + 1
