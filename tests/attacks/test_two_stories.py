"""A liar tells parties that are equally near to it different things.

Records go away from their author: of two neighbours of a liar that share a link neither
passes its record on to the other, for each has it first-hand. So nothing that is said
to both is compared on its way. What they sign in the end is what tells.

Here a liar's masked numbers differ where the answer does not depend on them, or by too
little: a sum of squares moves standard errors, and no coefficient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import msgspec
import numpy as np
import pytest

from cases import each
from liars import LIAR, LyingWorld, lying, wrongs
from veilsum.drivers.faults import Faults, Partition
from veilsum.protocol.book import RecordBook
from veilsum.protocol.codec import Codec
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import (
    Agreed,
    Down,
    Masked,
    Quit,
    Ready,
    Record,
    Share,
    Up,
)
from veilsum.protocol.phases import CLOSED
from veilsum.protocol.plan import ProtocolPolicy
from veilsum.protocol.work import SumWork
from worlds import Setting

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

GRAPHS = ("complete:5", "ring:5", "wheel:6", "grid:2x3")


def first_two(total, members):
    return total[:2] / len(members)


@dataclass(frozen=True)
class Partly(Setting):
    """Three numbers are added up, and two of the sums make the answer."""

    law: str = "uniform"

    def plan(self):
        return replace(super().plan(), answer_size=2)

    def _work(self, plan, private):
        return SumWork(private, first_two)


def splits(graph, liar):
    """Ways to tell some neighbours of a liar one thing and the rest another."""
    near = Setting(graph).topology.neighbours(liar)
    return [one for k in range(1, len(near)) for one in combinations(near, k)]


def tells(group, at, step, *, signs_both=False):
    """One vector for a group of neighbours, another one for all others.

    Each has been committed to. Who signs both agrees with each of the two groups on its
    own sums.
    """

    def other(masked):
        numbers = np.array(masked.numbers)
        numbers[at : at + 1] += np.uint64(step)  # as residues are added
        return msgspec.structs.replace(masked, numbers=numbers)

    promises = {}

    def script(world, to, message):
        own = to in group and getattr(message, "party", "") == world.liar
        if own and isinstance(message, Ready):
            epoch = world.own._epoch  # a machine that has left has no vector any more
            if (vector := epoch.prepared or epoch.masked) is not None:
                promised = world.own._book.committed(message, other(vector))
                promises[message.epoch] = world.sign(promised)
            message = promises[message.epoch]
        if own and isinstance(message, Masked):
            message = world.sign(other(message))
        if signs_both and isinstance(message, Agreed) and message.party == world.liar:
            theirs = world.nodes[to].machine._book.of(Agreed, 0).get(to)
            if theirs is not None:
                same = msgspec.structs.replace(message, digest=theirs.digest)
                message = world.sign(same)
        yield to, message

    return script


def versions(world):
    """How many different records of the liar honest parties hold under one name."""
    held = {}
    for machine in world.honest.values():
        for record_id, one in machine._book._held.items():
            if record_id[2] == world.liar:
                held.setdefault(record_id, set()).add(one)
    return max(map(len, held.values()))


def gets_away(world):
    """Whether honest parties hold different things, and nobody can prove it."""
    proven = any(one._book.proves(world.liar) for one in world.honest.values())
    return versions(world) > 1 and not proven


def sums_of(world):
    """The sums that honest parties who finished go home with."""
    ended = [one for name, one in world.honest.items() if name in world.finished]
    return {one._sums.totals[0].tobytes() for one in ended}


# Where the answer does not look, by much; and where it looks, by less than it sees.
LIES = [(2, 2**40), (2, 1), (0, 1)]


def check(graph, liar, group, at, step, *, signs_both):
    script = tells(group, at, step, signs_both=signs_both)
    world = lying(Partly(graph), script, liar=liar)
    assert wrongs(world, tells_two=True) == []
    assert len(sums_of(world)) <= 1
    assert not gets_away(world), (liar, group)
    told = [one.detail for name, one in world.aborted.items() if name != liar]
    assert any(f"{liar!r} signed two different" in one for one in told)


@each("signs_both", [False, True])
@each(("at", "step"), LIES)
@each("graph", GRAPHS[:2])
def test_nobody_finishes_with_other_sums_than_another(graph, at, step, signs_both):
    check(graph, "3", splits(graph, "3")[-1], at, step, signs_both=signs_both)


@pytest.mark.slow
@pytest.mark.parametrize("signs_both", [False, True])
@pytest.mark.parametrize(("at", "step"), LIES)
@pytest.mark.parametrize("graph", GRAPHS)
def test_whoever_is_told_what(graph, at, step, signs_both):
    for liar in ("0", "3"):
        for group in splits(graph, liar):
            check(graph, liar, group, at, step, signs_both=signs_both)


def test_answers_alone_are_no_comparison_of_sums(monkeypatch):
    """The twin: as long as only answers were signed, it got away with it."""
    answer = lambda _, proposed: Codec.digest(proposed.numbers)  # noqa: E731
    monkeypatch.setattr(RecordBook, "signed_of", answer)
    world = lying(Partly("complete:5"), tells(("0", "1"), 2, 2**40))
    assert set(world.finished) == set(world.plan.parties)
    assert gets_away(world)
    assert len(sums_of(world)) == 2


def tells_in(kind, change, group):
    def script(world, to, message):
        if isinstance(message, kind) and message.party == world.liar and to in group:
            message = world.sign(change(message))
        yield to, message

    return script


def other_digest(message):
    return msgspec.structs.replace(message, digest=bytes(32))


@pytest.mark.parametrize("graph", GRAPHS[1:3])
def test_two_signatures_are_proven_before_any_patience_ends(graph):
    """Some finish, for all signed the same to them; the others learn who did not."""
    for group in splits(graph, "3")[:2]:
        world = lying(Setting(graph), tells_in(Agreed, other_digest, group))
        assert wrongs(world) == []
        assert not gets_away(world)
        last = max(e.time for e in world.history if e.what in {"finish", "abort"})
        assert last < Setting().policy.deadline


def lies_down_the_tree(world, to, message):
    """Another total, where no answer shows it, for whoever is below on one side."""
    if isinstance(message, Up | Down) and world.others.index(to) % 2:
        numbers = np.array(message.numbers)
        numbers[2:] += np.uint64(2**40)  # as residues are added
        message = msgspec.structs.replace(message, numbers=numbers)
    yield to, message


@pytest.mark.parametrize("liar", ["0", "1"])
def test_along_a_tree_nobody_finishes_with_other_sums_either(liar, monkeypatch):
    """Nothing is signed there but what comes of it: it ends, and proves nothing."""
    setting = Partly("path:5", spread="tree")
    world = lying(setting, lies_down_the_tree, liar=liar)
    assert wrongs(world, tells_two=True) == []
    assert len(sums_of(world)) <= 1
    if liar == "1":  # the twin: it is in the middle, and answers alone do not tell
        answer = lambda _, proposed: Codec.digest(proposed.numbers)  # noqa: E731
        monkeypatch.setattr(RecordBook, "signed_of", answer)
        assert len(sums_of(lying(setting, lies_down_the_tree, liar=liar))) == 2


def gives_up_on(name, group):
    """Tells a group that somebody is lost, and nobody else."""

    def script(world, to, message):
        yield to, message
        if isinstance(message, Share) and to in group and world.first(to):
            yield to, world.lost([name])

    return script


def leaves(group, kind, reason):
    """Tells a group that it has left, and goes on with all others."""

    def script(world, to, message):
        if isinstance(message, kind) and to in group and world.first(to):
            start = world.own._book.start
            said = Quit(
                party=LIAR, epoch=world.own.epoch, incarnation=start, reason=reason
            )
            yield to, world.sign(said)
        else:
            yield to, message

    return script


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["complete:6", "wheel:6"])
def test_who_is_told_of_a_loss_or_a_leaving_ends_with_the_others_or_not_at_all(graph):
    setting = Partly(graph, policy=ProtocolPolicy(tolerate=1, drop=True))
    near = setting.topology.neighbours(LIAR)
    for group in (near[:1], near[:2], near[:3]):
        scripts = [gives_up_on(name, group) for name in ("0", "5")]
        scripts += [
            leaves(group, kind, reason)
            for kind in (Share, Ready, Masked, Agreed)
            for reason in ("timeout", "result", "proof", "refused")
        ]
        for script in scripts:
            world = lying(setting, script)
            assert wrongs(world, tells_two=True) == []
            assert len(sums_of(world)) <= 1


class EndingWorld(LyingWorld):
    """A world of processes: whoever has ended hears nothing more."""

    def _arrive(self, sender, send):
        if self.nodes[send.to].machine.phase not in CLOSED:
            super()._arrive(sender, send)


def drops_alone(name):
    """Signs Ready for everybody else, and for one party alone a Lost that names it."""

    def script(world, to, message):
        own = isinstance(message, Ready) and message.party == world.liar
        if not own or to != name:
            yield to, message
        elif world.first(to):
            yield to, world.lost([name])

    return script


MAY_DROP = ProtocolPolicy(tolerate=1, drop=True)
# Four graphs, and on each five liars and whom they drop.
DROPPED_ALONE = [
    (graph, liar, name, seed)
    for graph in ("complete:5", "wheel:6", "complete:7", "circulant:7:1,2")
    for seed, (liar, name) in enumerate(("34", "01", "32", "12", "21"))
]


def dropping(graph, liar, name, seed):
    """A run in which a liar drops one neighbour, and tells only that one."""
    setting = Setting(graph, "uniform", policy=MAY_DROP, seed=seed)
    delays = Faults(delay=(0.001, 0.05))
    script = drops_alone(name)
    return lying(setting, script, liar=liar, faults=delays, kind=EndingWorld)


def who_proves(world):
    """The honest parties that hold evidence against the liar."""
    return {n for n, one in world.honest.items() if one._book.proves(world.liar)}


@each("case", DROPPED_ALONE, ids=lambda case: "-".join(map(str, case)))
def test_who_drops_a_party_behind_the_others_backs_is_named_by_all(case):
    world = dropping(*case)
    assert wrongs(world, tells_two=True) == []
    assert who_proves(world) == set(world.others)
    assert world.finished.keys() <= {world.liar}
    for name in world.others:
        end = world.aborted[name]
        assert end.reason == "proof", end
        assert f"{world.liar!r} signed" in end.detail


def leaves_at_once(machine, end):
    """Leave as dropped parties did: without a word about the record."""
    machine._abort(end.reason, end.detail)


def test_a_dropped_party_that_keeps_the_record_lets_the_liar_go(monkeypatch):
    """The twin: nobody else ever sees the second record."""
    monkeypatch.setattr(Machine, "_leave_dropped", leaves_at_once)
    for case in DROPPED_ALONE[:5]:
        world = dropping(*case)
        assert who_proves(world) == set()


@pytest.mark.parametrize("graph", ["complete:5", "wheel:6"])
def test_an_honest_drop_names_nobody(graph):
    """The twin: a party that is late is given up, comes, and leaves as dropped."""
    late = Partition(0.0, 35.0, frozenset("4"))
    setting = Setting(graph, "uniform", policy=MAY_DROP)
    world = setting.world(Faults(partitions=(late,))).run()
    assert world.aborted.keys() == {"4"}
    assert world.aborted["4"].reason == "dropped"
    assert len(world.finished) == len(setting.parties) - 1
    for node in world.nodes.values():
        assert node.machine.accused == {}
        assert node.machine._book.evidence == {}


def test_an_honest_run_has_one_version_of_everything():
    """The twin of the search: it finds nothing where nobody lies."""
    script = lambda world, to, message: [(to, message)]  # noqa: E731
    world = lying(Partly("complete:5"), script)
    assert set(world.finished) == set(world.plan.parties)
    assert versions(world) == 1
    assert len(sums_of(world)) == 1
    assert any(isinstance(one, Record) for one in world.own._book.all(Masked))
