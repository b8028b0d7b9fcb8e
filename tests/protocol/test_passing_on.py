"""Who passes a record on to whom, and who leaves it to others for a while."""

from collections import Counter

import numpy as np
import pytest

from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import LoopbackWorld, loopback_identities
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import ShareStreams
from veilsum.protocol.effects import Send
from veilsum.protocol.epoch import ProtocolNeighbourhood
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import Join, Record, Status
from veilsum.protocol.phases import GREETING
from veilsum.protocol.plan import ProtocolPlan, ProtocolPolicy
from veilsum.protocol.work import SumWork


def a_world(graph, *, faults=None, **policy):
    topology = Topology.family(graph)
    plan = ProtocolPlan(
        terms=b"",
        topology=topology,
        law=Masks("uniform", grid=20).on(topology),
        size=2,
        answer_size=2,
        tolerance=1.0,
        policy=ProtocolPolicy(**policy),
    )
    works = {
        name: SumWork(np.full(2, float(name)), lambda total, _: total)
        for name in topology.parties
    }
    return LoopbackWorld(plan, works, ShareStreams(0), faults=faults or Faults())


def records(world):
    """Return how often a record of each kind was sent."""
    sent = (e.detail for e in world.history if e.what == "send")
    found = map(world.plan.codec.decode, sent)
    return Counter(type(one) for one in found if isinstance(one, Record))


@pytest.mark.parametrize("graph", ["ring:9", "grid:4x4", "regular:20:4:seed=1"])
def test_along_every_link_a_record_goes_once_at_most(graph):
    world = a_world(graph).run()
    assert len(world.finished) == len(world.nodes)
    topology = world.plan.topology
    links = sum(
        away[a] != away[b]
        for away in map(topology.hops, topology.parties)
        for a, b in (topology.names(link) for link in topology.edges.tolist())
    )
    found = records(world)
    for kind, count in found.items():
        if kind.__name__ in {"Ready", "Agreed"}:
            assert count == links


def test_where_all_meet_at_once_nobody_passes_on_the_joins_of_all():
    n = 12
    world = a_world(f"complete:{n}").run()
    assert len(world.finished) == n
    # What its author says, and once more in the answer to a question.
    assert records(world)[Join] <= 2 * n * (n - 1)


def test_a_way_that_breaks_is_gone_around():
    """Only 1 is between 0 and 2 and near to both; it dies with what it should tell."""
    alone = Crash("1", after=30, back=None)
    world = a_world("ring:6", faults=Faults(crashes=(alone,)), tolerate=0).run()
    assert not world.finished  # nobody shows anything without it
    for start in (20, 30, 40, 50):
        crash = Crash("1", after=start, back=3.0)
        world = a_world("ring:6", faults=Faults(crashes=(crash,)), tolerate=0).run()
        assert len(world.finished) == 6


def test_a_record_goes_away_from_its_author_and_around_what_is_broken():
    place = ProtocolNeighbourhood(Topology.family("ring:5"), "1")  # between 0 and 2
    assert place.served("0", "0") == {"0"}  # on to 2
    assert place.served("0", "4") == {"0", "4", "2"}  # which has it from 3
    assert place.served("2", "0") == {"2", "0"}
    triangle = ProtocolNeighbourhood(Topology.family("complete:4"), "1")
    assert triangle.served("0", "0") == {"0", "2", "3"}
    assert triangle.served("2", "0") == {"0", "2"}  # 3 may lack it too


def three_machines():
    """Return the codec of three parties that are all linked, and a machine of each."""
    world = a_world("complete:3")
    keys = loopback_identities(world.plan.parties, 0)
    return world.plan.codec, {
        name: Machine(
            world.plan,
            name,
            keys=keys(name, 1),
            streams=world.streams,
            work=world.works[name],
        )
        for name in world.plan.parties
    }


def test_who_brings_something_is_not_asked_at_the_next_resend():
    codec, machines = three_machines()
    waiting = [(name, e) for name, one in machines.items() for e in one.start()]
    while waiting:  # all meet; but what 2 has to say to 0, beside its own Join, is lost
        sender, effect = waiting.pop(0)
        if not isinstance(effect, Send):
            continue
        joins = isinstance(codec.decode(effect.frame), Join)
        if (sender, effect.to) != ("2", "0") or joins:
            found = machines[effect.to].receive(sender, effect.frame)
            waiting += [(effect.to, one) for one in found]

    def asked():
        sent = [e for e in machines["0"].expire("resend") if isinstance(e, Send)]
        return [e.to for e in sent if isinstance(codec.decode(e.frame), Status)]

    assert machines["0"].phase == GREETING
    # 1 has brought Joins; so has 2, but never an echo.
    assert asked() == ["2"]
    assert asked() == ["1", "2"]  # nobody has brought anything since


def test_of_two_who_wait_one_asks_and_both_know_what_the_other_holds():
    """2 is late; 0 and 1 compare what they hold once in a resend, and not twice."""
    codec, machines = three_machines()
    waiting = [(name, e) for name in "01" for e in machines[name].start()]

    def deliver(waiting):
        while waiting:
            sender, effect = waiting.pop(0)
            if isinstance(effect, Send) and effect.to != "2":
                found = machines[effect.to].receive(sender, effect.frame)
                waiting += [(effect.to, one) for one in found]

    def asked(name):
        effects = machines[name].expire("resend")
        sent = [e for e in effects if isinstance(e, Send)]
        deliver([(name, e) for e in effects])
        return [e.to for e in sent if isinstance(codec.decode(e.frame), Status)]

    deliver(waiting)
    for name in "01":
        asked(name)  # both have brought a Join until now
    for _ in range(3):
        assert asked("0") == ["1", "2"]
        assert asked("1") == ["2"]  # 0 has asked, and has its answer
    # The one that asked is gone: the other asks.
    assert asked("1") == ["0", "2"]
    # On a new link nothing counts that was said on the old one.
    deliver([("0", e) for e in machines["0"].expire("resend")])
    machines["1"].meet("0")
    assert asked("1") == ["0", "2"]


def test_a_join_that_is_left_to_others_is_given_after_a_resend():
    """2 never says a word to 0 itself: 1 tells 0 of it, though not at once."""
    codec, machines = three_machines()
    first = {name: one.start() for name, one in machines.items()}

    def told(sender, to, effects):
        frames = [e.frame for e in effects if isinstance(e, Send) and e.to == to]
        return frames, [
            one.party
            for one in map(codec.decode, frames)
            if isinstance(one, Join) and one.party != sender
        ]

    for frame in told("2", "1", first["2"])[0]:
        machines["1"].receive("2", frame)
    asked = told("0", "1", first["0"])[0]
    answers = [e for frame in asked for e in machines["1"].receive("0", frame)]
    assert told("1", "0", answers)[1] == []
    machines["1"].expire("resend")
    asked = told("0", "1", machines["0"].expire("resend"))[0]
    answers = [e for frame in asked for e in machines["1"].receive("0", frame)]
    assert told("1", "0", answers)[1] == ["2"]


@pytest.mark.parametrize("graph", ["ring:9", "grid:4x4", "regular:20:4:seed=1"])
def test_records_go_away_from_their_author(graph):
    """From its author's place: no neighbour that is as near gets it from this party."""
    topology = Topology.family(graph)
    for author in topology.parties:
        away = topology.hops(author)
        for me in set(topology.parties) - {author}:
            place = ProtocolNeighbourhood(topology, me)
            near = {name for name in place.neighbours if away[name] <= away[me]}
            for sender in place.neighbours:
                nearer = away[sender] < away[me]
                expected = {sender, author, *(near if nearer else ())}
                assert place.served(sender, author) == expected
    assert ProtocolNeighbourhood(topology, me).served(sender, "gone") == {
        sender,
        "gone",
    }
