"""What a coalition receives is the same for two dealings, frame by frame.

Masks are random, so two runs are compared under masks that belong together: the honest
parties' shares for each other in the second run are those of the first, moved by what
their vectors differ by. Moving a uniform residue leaves it uniform, so this pairs all
masks of one run with all of the other, one to one; where every pair gives the coalition
the same frames, the frames say nothing of the dealing. The moved shares add up only if
the honest parties' totals are equal to the last bit.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from attacks.catalogue import HONEST, KINDS, PARTIES, SCHEMA, dealt, even, n_honest
from attacks.watching import LAWS
from net.runs import Company, answers, data_files
from veilsum.drivers.faults import Faults
from veilsum.drivers.loopback import Loopback
from veilsum.numbers.laws import Law
from veilsum.numbers.masking import ShareStreams
from veilsum.numbers.secrets import Secret
from veilsum.protocol.messages import Join, Record, Share

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

    def streams(self, law):
        return Moved(super().streams(law), self.moves)

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


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ["sum", "statistics", "least squares", "dispatch"])
def test_how_long_frames_are_says_nothing_of_the_numbers(name, law):
    """Other rows, as many of them, and masks: all frames of the first sum are as long.

    The number of sums may depend on totals, which all know.
    """
    lengths = []
    for seed in (0, 1, 2):
        rows, kind = KINDS[name].rows(seed), KINDS[name]
        driver = Recorded(seed=seed)
        held = kind.deal(even(rows), rows)
        fixed = {"unit": 0.01, "largest": 1e9} if name == "sum" else {}
        kind.run(held, driver=driver, run="same", **LAWS[law], **fixed)
        (world,) = driver.worlds
        found = seen_by(world, "a")
        own = [frame for _, frame in found if b"Masked" in frame[:40]]
        lengths.append({len(frame) for frame in own})
    assert len(lengths[0]) == 1
    assert lengths[0] == lengths[1] == lengths[2]


# On a network


NETWORK = {
    "title": "four hospitals",
    "graph": {"family": "complete:4"},
    "parties": {"names": list(PARTIES)},
    "model": {"formula": "pressure ~ age + bmi"},
    "schema": SCHEMA.to_table(),
    "masks": {"law": "uniform"},
    "policy": {"tolerate": 1, "resend": 0.2, "deadline": 5.0, "patience": 2},
}


def heard_on_a_network(folder, dealing, rows, moves):
    """What `a` hears from real parties: of each message all that is not fresh chance.

    Keys, signatures and the names of a start are; numbers, and how long a frame is, are
    not. What is sent again, if somebody was slow, is one message.
    """
    frames, heard = KINDS["least squares"].deal(dealing, rows), []
    company = Company(folder, data_files(NETWORK, frames, folder))
    streams = Moved(ShareStreams(7), moves)
    company.options = {name: {"streams": streams} for name in company.names}
    company.records["a"] = lambda *event: heard.append(event)
    found = answers(company.run())
    codec, said = company.drivers["a"].plan.codec, set()
    for what, frame, peer in heard:
        if what == "receive":
            message = codec.decode(frame)
            numbers = getattr(message, "numbers", None)
            told = None if numbers is None else repr(numbers.tolist())
            asked = getattr(message, "request", None)
            if isinstance(message, Join):  # its epoch is a clock's
                said.add(("Join", message.party, len(frame)))
            elif isinstance(message, Record):
                said.add((message.id, len(frame), told, asked))
            elif isinstance(message, Share):
                said.add(("Share", peer, message.epoch, len(frame), told))
    return {name: one.tolist() for name, one in found.items()}, said


@pytest.mark.usefixtures("_movable", "unchecked_shapes")
def test_a_curious_party_hears_the_same_on_a_network(tmp_path):
    name = "least squares"
    rows = KINDS[name].rows(0)
    mixed = np.random.default_rng(3).permutation(n_honest(rows))
    dealing = dealt(rows, mixed, [25, 50])
    runs = [run(name, one, rows) for one in (even(rows), dealing)]
    given = [vectors(world, result) for result, world in runs]
    moves = moves_between(runs[0][1], *given)
    first = heard_on_a_network(tmp_path / "first", even(rows), rows, {})
    second = heard_on_a_network(tmp_path / "second", dealing, rows, moves)
    assert second == first
    assert len({one[0] for one in first[1]}) > 10
