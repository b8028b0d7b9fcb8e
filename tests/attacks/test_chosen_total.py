"""A member that speaks last must not choose the total.

It signs Ready, waits until everybody else's masked vector is here, and then shows the
vector that makes the total whatever it likes. Masks do not prevent that: they cancel.
The commitment in Ready does, and what gives the member away is a proof for strangers.
"""

from __future__ import annotations

import base64
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from cases import each
from net.runs import ONE_SHOT, Company, answers, reasons
from veilsum.net.evidence import judge_signed_evidence, make_evidence
from veilsum.party import networked
from veilsum.protocol import book, evidence
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import Masked, Ready
from veilsum.protocol.plan import ProtocolPolicy
from worlds import Setting

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

GRAPHS = ("complete:5", "ring:5", "wheel:6", "grid:2x3")
LAWS = ("lattice", "uniform")
LIAR, RUNS, TWINS = "3", 5, 2
WANTED = np.array([1234.5, -77.0, 0.25])


class LastSpeaker(Machine):
    """Party 3 shows no masked vector before it has seen all others."""

    liar, wanted = LIAR, WANTED

    def _show(self, masked):
        if self.me != self.liar or masked.party != self.liar:
            super()._show(masked)
            return
        shown = self._book.of(Masked, masked.epoch)
        if self.me not in shown and len(shown) == len(self.members) - 1:
            law = self.plan.law
            others = sum(one.numbers for one in shown.values())
            numbers = law.wrap(law.encode(self.wanted) - others)
            self._epoch.masked = self._chosen(masked, numbers)
            super()._show(self._epoch.masked)

    def _chosen(self, masked, numbers):
        return self._book.sealed(msgspec.structs.replace(masked, numbers=numbers))


class OtherNonce(LastSpeaker):
    """The same, and the nonce is another one too."""

    def _chosen(self, masked, numbers):
        fresh = msgspec.structs.replace(masked, nonce=self._keys.random(64))
        return super()._chosen(fresh, numbers)


class SecondReady(LastSpeaker):
    """The same, after a Ready that commits to the chosen vector."""

    def _chosen(self, masked, numbers):
        chosen = super()._chosen(masked, numbers)
        ready = self._book.of(Ready, masked.epoch)[self.me]
        bound = self._book.sealed(self._book.committed(ready, chosen))
        self._out += self._peers.tell(bound, self.plan.codec.encode(bound))
        return chosen


class LaterReady(LastSpeaker):
    """The same, after a Ready of a later epoch, which would replace the first one."""

    def _chosen(self, masked, numbers):
        first = self._book.of(Ready, masked.epoch)[self.me]
        later = msgspec.structs.replace(first, epoch=1, lost=("0",))
        later = self._book.sealed(later)
        self._out += self._peers.tell(later, self.plan.codec.encode(later))
        return super()._chosen(masked, numbers)


def chosen(make, graph, law, seed, **options):
    """A world in which somebody speaks last, and who takes its total for the answer."""
    setting = Setting(graph, law=law, seed=seed, **options)
    world = setting.world(make=make).run()
    n = len(setting.parties)
    right = WANTED / (-2.0 * n)  # as `least_squares` answers
    fooled = [
        name
        for name, end in world.finished.items()
        if name != LIAR and np.allclose(end.result, right, atol=1e-5)
    ]
    return world, fooled


def unchecked(one, other, *rest):
    """Tell contradictions as versions did that had no commitment."""
    pair = {type(one), type(other)} == {Ready, Masked}
    return not pair and evidence.records_contradict(one, other, *rest)


@each("law", LAWS)
@each("graph", GRAPHS)
def test_who_speaks_last_chooses_no_total(graph, law):
    for seed in range(RUNS):
        world, fooled = chosen(LastSpeaker, graph, law, seed)
        assert fooled == []
        for name in world.plan.parties:
            if name == LIAR:
                continue
            assert world.aborted[name].reason == "proof"
            machine = world.nodes[name].machine
            assert machine.accused.keys() == {LIAR}
            assert "does not open the commitment in its Ready" in machine.accused[LIAR]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_without_the_commitment_it_chooses_every_one(graph, law, monkeypatch):
    """The twin: nobody is accused, and everybody signs the total that one wanted."""
    monkeypatch.setattr(book, "records_contradict", unchecked)
    for seed in range(TWINS):
        world, fooled = chosen(LastSpeaker, graph, law, seed)
        assert len(fooled) == len(world.plan.parties) - 1
        assert all(node.machine.accused == {} for node in world.nodes.values())


@each("make", [OtherNonce, SecondReady, LaterReady])
@each("drop", [False, True])
def test_neither_another_nonce_nor_another_ready_helps(make, drop):
    policy = ProtocolPolicy(drop=drop, tolerate=1 - drop)
    for seed in range(3):
        world, fooled = chosen(make, "complete:5", "uniform", seed, policy=policy)
        assert fooled == []
        ends = {world.aborted[name].reason for name in "0124"}
        assert ends == {"proof"}


# Over real sockets, and what is left for a stranger to look at


class LastOnTheNetwork(LastSpeaker):
    """The same, as a member of a company."""

    liar, wanted = "d", WANTED[:2]


UNIFORM = {**ONE_SHOT, "masks": {"law": "uniform", "grid": 24}}


@pytest.mark.parametrize("table", [ONE_SHOT, UNIFORM], ids=LAWS)
def test_nor_over_real_sockets_and_the_proof_convinces_a_stranger(
    table, tmp_path, monkeypatch
):
    monkeypatch.setattr(networked, "Machine", LastOnTheNetwork)
    company = Company(tmp_path, table)
    found = company.run()
    found.pop("d")
    for name, told in reasons(found).items():
        assert "'d' signed a Masked of epoch 0 that does not open" in told
        driver = company.drivers[name]
        (proof,) = driver.ending.evidence
        plan = driver.runner.machine.plan
        shown = make_evidence(proof, company.consortium, plan=plan.digest)
        verdict = judge_signed_evidence(shown, company.consortium)
        assert verdict.proved
        assert "does not open the commitment in its Ready" in verdict.words
        other = "b" if name == "a" else "a"
        honest = replace(
            shown,
            party=other,
            certificate=company.consortium.certificates[other],
            records=opened_by(driver.runner.machine, other),
        )
        words = judge_signed_evidence(honest, company.consortium).words
        assert "an honest party signs both records" in words


def opened_by(machine, name):
    """A party's Ready and the Masked that opens it, as a file has them."""
    frames = (machine._book.frame((kind, 0, name)) for kind in ("Ready", "Masked"))
    return tuple(base64.b64encode(frame).decode() for frame in frames)


def test_over_sockets_it_would_choose_without_the_commitment(tmp_path, monkeypatch):
    """The twin: everybody has the answer that one wanted."""
    monkeypatch.setattr(networked, "Machine", LastOnTheNetwork)
    monkeypatch.setattr(book, "records_contradict", unchecked)
    found = Company(tmp_path, ONE_SHOT).run()
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, WANTED[:2] / -8.0, atol=1e-5)
