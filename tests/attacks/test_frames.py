"""What a coalition receives is the same for two dealings, frame by frame.

Masks are random, so two runs are compared under masks that belong together: the honest
parties' shares for each other in the second run are those of the first, moved by what
their vectors differ by. Moving a uniform residue leaves it uniform, so this pairs all
masks of one run with all of the other, one to one; where every pair gives the coalition
the same frames, the frames say nothing of the dealing. The moved shares add up only if
the honest parties' totals are equal to the last bit.
"""

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from attacks.catalogue import HONEST, KINDS, dealt, even, n_honest
from veilsum.drivers.loopback import Loopback
from veilsum.drivers.faults import Faults
from veilsum.numbers.secrets import Secret

JOBS = ("statistics", "least squares", "logistic", "poisson", "gamma-inverse")


@dataclass(frozen=True, repr=False)
class Moved(Secret):
    """Streams of which some shares are moved by a public amount."""

    streams: object
    moves: dict

    def stream(self, *, epoch, sender, receiver):
        made = self.streams.stream(epoch=epoch, sender=sender, receiver=receiver)
        return MovedStream(made, self.moves.get((epoch, sender, receiver)))


@dataclass(frozen=True, repr=False)
class MovedStream(Secret):
    source: object
    move: object

    def words(self, count):
        return self.source.words(count)

    def normals(self, count):
        return self.source.normals(count)


@dataclass(frozen=True, kw_only=True)
class Recorded(Loopback):
    """Machines on a network in memory, which is kept."""

    faults: Faults = field(default_factory=Faults)
    moves: dict = field(default_factory=dict)
    worlds: list = field(default_factory=list)

    @property
    def streams(self):
        return Moved(super().streams, self.moves)

    def world(self, assignment):
        self.worlds.append(super().world(assignment))
        return self.worlds[-1]


@pytest.fixture
def _movable(monkeypatch):
    """Laws draw from moved streams what these say."""

    def moving(draw):
        def moved(law, stream, *more, **named):
            if not isinstance(stream, MovedStream):
                return draw(law, stream, *more, **named)
            share = draw(law, stream.source, *more, **named)
            return share if stream.move is None else law.wrap(share + stream.move)

        return moved

    from veilsum.numbers.laws import Law

    waiting = [Law]
    while waiting:
        law = waiting.pop()
        waiting += law.__subclasses__()
        if "draw" in vars(law):
            monkeypatch.setattr(law, "draw", moving(law.draw))


def run(name, dealing, rows, moves=None):
    kind, driver = KINDS[name], Recorded(seed=7, moves=moves or {})
    result = kind.run(
        kind.deal(dealing, rows), driver=driver, law="uniform", seed=7, run="same"
    )
    (world,) = driver.worlds
    return result, world


def vectors(world, result):
    """What each party masked in each round, in the law's numbers."""
    law, sums = world.plan.law, result.released.sums
    return [
        {p: law.encode(work.vector(sums[:k])) for p, work in world.works.items()}
        for k in range(len(sums))
    ]


def moves_between(world, first, second):
    """How honest parties' shares for each other move from the second run's to fit."""
    plan, found = world.plan, {}
    for turn, (one, other) in enumerate(zip(first, second, strict=True)):
        epoch = turn * (len(plan.parties) + 1)
        carried = 0 * one[HONEST[0]]
        for mine, yours in pairwise(HONEST):
            carried = carried + one[mine] - other[mine]
            ends = plan.topology.indices([mine, yours])
            found[(epoch, *(int(end) for end in ends))] = carried
    return found


def seen_by(world, party):
    """Every frame that a party received, in order, with whom it came from."""
    return [
        (event.peer, event.detail)
        for event in world.history
        if event.party == party and event.what == "receive"
    ]


@pytest.mark.usefixtures("_movable")
@pytest.mark.parametrize("name", JOBS)
def test_a_curious_party_receives_the_same_frames(name):
    rows = KINDS[name].rows(0)
    mixed = np.random.default_rng(3).permutation(n_honest(rows))
    dealing = dealt(rows, mixed, [25, 50])
    first_result, first = run(name, even(rows), rows)
    second_result, plain = run(name, dealing, rows)
    given = vectors(first, first_result), vectors(plain, second_result)
    assert seen_by(plain, "a") != seen_by(first, "a")  # by other masked vectors
    _, second = run(name, dealing, rows, moves_between(plain, *given))
    frames = seen_by(first, "a")
    assert len(frames) > 10
    assert seen_by(second, "a") == frames
