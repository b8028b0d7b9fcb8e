"""A member that lies over a real network: the others finish, or end and name it."""

import numpy as np
import pytest

from net.runs import ONE_SHOT, TARGETS, Company, answers, changed, reasons
from veilsum.protocol.messages import Lost, Share

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

LIAR, HONEST = "d", ("a", "b", "c")


def with_a_liar(folder, **policy):
    """A run in which one member tells everybody that it goes on without another.

    All else that it sends is what an honest one sends.
    """
    company = Company(folder, changed(ONE_SHOT, policy=policy))
    told = set()

    def lies(what, detail, peer):
        runner = company.drivers[LIAR].runner
        machine = runner.machine
        decode = machine.plan.codec.decode
        if what != "send" or peer in told or not isinstance(decode(detail), Share):
            return
        told.add(peer)
        start = machine._book.start
        lost = Lost(party=LIAR, epoch=0, incarnation=start, lost=("a",))
        frame = machine.plan.codec.encode(machine._book.sealed(lost))
        runner._net.send(peer, frame)

    company.records[LIAR] = lies
    found = company.run()
    assert told == set(HONEST)
    accused = {n: company.drivers[n].runner.machine.accused for n in HONEST}
    return found, accused


def test_a_notice_of_loss_changes_nothing_where_nobody_may_be_lost(tmp_path):
    found, accused = with_a_liar(tmp_path, drop=False)
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, np.mean(TARGETS, axis=0), atol=1e-6)
    for told in accused.values():
        assert told.keys() == {LIAR}
        assert "goes on without a, against the plan" in told[LIAR]


def test_where_one_may_be_lost_the_same_frame_counts_and_names_its_author(tmp_path):
    """The twin: the others follow, and the one given up is told by whom."""
    found, accused = with_a_liar(tmp_path, drop=True, tolerate=0)
    assert "'d' gave it up" in reasons({"a": found.pop("a")})["a"]
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, np.mean(TARGETS[1:], axis=0), atol=1e-6)
    assert all(told == {} for told in accused.values())
