"""Claims that no test made until a mutant had shown it (`tests/mutation`)."""

import msgspec
import numpy as np
import pytest

from machines import join_frame, sealed, stopped_at
from refusals import refused
from veilsum.errors import InvalidInputError, LocalProtocolError, UntimelyError
from veilsum.protocol.codec import Codec
from veilsum.protocol.effects import Persist
from veilsum.protocol.iteration import EpochIteration
from veilsum.protocol.machine import COMPARISONS
from veilsum.protocol.messages import Agreed, Confirm, Masked, Status
from veilsum.protocol.peers import MOST_ANSWERS
from veilsum.protocol.phases import AGREEING, SUMMING
from veilsum.protocol.plan import ProtocolPolicy
from worlds import Setting

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.mark.parametrize("spread", ["flooding", "tree"])
@pytest.mark.parametrize("graph", ["path:5", "star:5", "complete:4"])
def test_everybody_finishes_with_the_answer_to_the_sum(graph, spread):
    setting = Setting(graph, spread=spread)
    world = setting.world().run()
    assert sorted(world.finished) == sorted(setting.parties)
    for found in world.finished.values():
        np.testing.assert_allclose(found.result, setting.answer(), atol=1e-6)


def test_a_neighbours_share_is_on_disk_before_it_is_confirmed():
    world = Setting("complete:4").world().run()
    for name in world.plan.parties:
        kept = set()
        for event in (one for one in world.history if one.party == name):
            if isinstance(event.detail, Persist) and event.detail.value is not None:
                kept.add(event.detail.key)
            elif event.what == "send":
                message = world.plan.codec.decode(event.detail)
                if isinstance(message, Confirm):
                    others = set(world.plan.parties) - {name}
                    assert {f"got/0/{other}" for other in others} <= kept


def test_a_subtree_is_sent_again_only_to_a_parent_that_lacks_it():
    world = stopped_at(Setting("path:3", spread="tree"), "2", SUMMING)
    epoch = world.nodes["2"].machine._epoch
    parent = epoch.place.parent
    lacks = Status(bytes(16), bytes(16), 0, (), -1, -1, -1, False)
    assert len(epoch.repair_tree(parent, lacks)) == 1
    assert epoch.repair_tree(parent, msgspec.structs.replace(lacks, round=0)) == []
    assert epoch.repair_tree("0", lacks) == []


@pytest.mark.parametrize(
    "wrong", [{"resend": 0.0}, {"resend": 9.0, "deadline": 5.0}, {"patience": 0}]
)
def test_a_policy_that_never_ends_or_never_asks_is_refused(wrong):
    with pytest.raises(InvalidInputError):
        ProtocolPolicy(**wrong)
    ProtocolPolicy(resend=5.0, deadline=5.0, patience=1)


@pytest.mark.parametrize(("nonce", "signature"), [(63, 64), (65, 64), (64, 65)])
def test_a_nonce_has_64_bytes_and_a_signature_no_more(nonce, signature):
    def framed(nonce, signature):
        record = Masked(
            party="a",
            epoch=0,
            nonce=bytes(nonce),
            numbers=np.zeros(2, np.int64),
            signature=bytes(signature),
        )
        return Codec(10).encode(record)

    assert Codec(10).decode(framed(64, 64)).signature == bytes(64)
    with refused("malformed-header", LocalProtocolError):
        framed(nonce, signature)


def test_messages_that_change_nothing_are_counted():
    world = stopped_at(Setting("complete:4"), "1", SUMMING)
    machine = world.nodes["1"].machine
    seen = join_frame(world, "2")
    before = machine.n_in_vain("0")
    for count in (1, 2, 3):
        machine.receive("0", seen)
        assert machine.n_in_vain("0") == before + count
    ahead = world.plan.codec.encode(Confirm(5, bytes(32)))
    for count in (4, 5):
        with pytest.raises(UntimelyError):
            machine.receive("0", ahead)
        assert machine.n_in_vain("0") == before + count


def test_what_does_not_fit_is_compared_so_often_and_no_less():
    machine = stopped_at(Setting("complete:4"), "1", AGREEING).nodes["1"].machine
    machine._suspect("for the test")
    for _ in range(COMPARISONS):
        assert machine.phase == AGREEING
        machine._compared()
    assert machine.phase == AGREEING
    machine._compared()
    assert machine.phase != AGREEING


def test_a_neighbour_that_asks_too_often_is_not_answered_and_counted():
    machine = stopped_at(Setting("complete:4"), "1", AGREEING).nodes["1"].machine
    peers, before = machine._peers, machine.n_in_vain("0")
    peers._answers["0"] = 0
    answered = [peers.may_be_answered("0") for _ in range(MOST_ANSWERS + 3)]
    assert answered == [True] * MOST_ANSWERS + [False] * 3
    assert machine.n_in_vain("0") == before + 3


def test_without_rounds_nobody_is_ahead_by_the_sum_of_a_tree():
    status = Status(bytes(16), bytes(16), 0, (), -1, -1, 0, False)
    machine = stopped_at(Setting("path:3", spread="tree"), "2", SUMMING)
    iteration = machine.nodes["2"].machine._iteration
    assert isinstance(iteration, EpochIteration)
    assert not iteration.planned
    assert not iteration.is_ahead(status)
    assert iteration.is_ahead(msgspec.structs.replace(status, round=1))


def test_who_has_signed_and_sees_another_signature_suspects():
    proposed = Setting("complete:4").world().run().nodes["0"].machine._book
    world = stopped_at(Setting("complete:4"), "1", AGREEING)
    machine = world.nodes["1"].machine
    first = proposed.proposed(machine.members)
    machine.receive("0", world.plan.codec.encode(first))
    assert ("Agreed", 0, "1") in machine._book
    assert not machine._misfit
    other = sealed(world, Agreed(party="2", epoch=0, digest=bytes(32)))
    machine.receive("2", world.plan.codec.encode(other))
    assert "2 signed another answer" in machine._misfit.detail
