"""Sums under fresh masks, one after the other, by machines and by arrays."""

from fractions import Fraction

import numpy as np
import pytest

import veilsum as vs
from cases import each
from refusals import refused
from rules import broken_rules
from veilsum.drivers.arrays import ArrayDriver
from veilsum.drivers.driver import Driver, DriverAssignment, GivenUpError
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import Loopback, LoopbackWorld
from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import ShareStreams
from veilsum.masks.streams import Keystream
from veilsum.numbers.units import UnitCounts
from veilsum.protocol.plan import ProtocolPlan, ProtocolPolicy
from veilsum.protocol.work import request_digest
from veilsum.sums.terms import driver_for_terms

WHEEL = Topology.family("wheel:5")
UNITS = (Fraction(1, 100), Fraction(2, 7))
LAWS = {
    **{
        f"{law}, {bits} bits": Masks(law, sigma).for_sums(
            WHEEL, UnitCounts(UNITS, bits)
        )
        for law, sigma in (("uniform", None), ("lattice", 100.0), ("none", None))
        for bits in (64, 128, 192)
    },
    "uniform": Masks("uniform").on(WHEEL),
    "lattice": Masks("lattice", sigma=100.0).on(WHEEL),
    "gaussian": Masks("gaussian", sigma=100.0).on(WHEEL),
    "none": Masks("none").on(WHEEL),
}


class Doubling:
    """Three sums: each asks for the last total over the number of parties, plus own."""

    rounds, most_sums = None, 3

    def __init__(self, own):
        self.own = own

    def vector(self, answers):
        if len(answers) == 3:
            return None
        return self.own + (np.asarray(answers[-1]) / 5 if answers else 0.0)

    def asked(self, answers):
        return request_digest([np.asarray(answer) for answer in answers])

    def answer(self, answers, members):
        return np.asarray(answers[-1], dtype=np.float64)


class Counting(Doubling):
    """The same in whole numbers."""

    def vector(self, answers):
        if len(answers) == 3:
            return None
        return self.own + (answers[-1] // 5 if answers else 0)


def works(name="uniform"):
    rows, kind = np.arange(10.0).reshape(5, 2), Doubling
    if LAWS[name].counted is not None:
        rows, kind = np.arange(10).reshape(5, 2).astype(object), Counting
    return {name: kind(row) for name, row in zip(WHEEL.parties, rows, strict=True)}


def plan(law, spread="flooding"):
    return ProtocolPlan(
        terms=b"test",
        topology=WHEEL,
        law=law,
        size=2,
        answer_size=2,
        tolerance=1e-6,
        spread=spread,
        policy=ProtocolPolicy(drop=False),
    )


def task(plan, works, **options):
    return DriverAssignment(plan=plan, works=works, foresee=lambda: None, **options)


every_driver = pytest.mark.parametrize("kind", [Loopback, ArrayDriver])


@each("spread", ["flooding", "tree"])
@each("name", LAWS)
def test_both_drivers_release_the_same_sums(name, spread):
    one, other = (
        kind(seed=3).carry_out(task(plan(LAWS[name], spread), works(name)))
        for kind in (Loopback, ArrayDriver)
    )
    exact = LAWS[name].exact
    for mine, theirs in zip(one.sums, other.sums, strict=True):
        if not exact:
            assert np.allclose(mine, theirs, rtol=1e-12, atol=1e-9)
        if exact:
            assert mine.tolist() == theirs.tolist()
    assert np.allclose(one.answer, [60.0, 75.0], atol=1e-9)
    assert np.allclose(other.answer, [60.0, 75.0], atol=1e-9)
    assert one.members == other.members == WHEEL.parties
    assert one.rounds == other.rounds
    assert one.bytes > other.bytes > 0  # frames have more than bare numbers


@each("stale", [0, 3])
@each("after", [15, 40, 70])
def test_wide_sums_survive_a_restart(after, stale):
    faults = Faults(crashes=(Crash(party="2", after=after, back=1.0, stale=stale),))
    name = "uniform, 128 bits"
    world = LoopbackWorld(
        plan(LAWS[name]), works(name), ShareStreams(1), faults=faults
    ).run()
    assert broken_rules(world) == []
    if stale == 0:
        assert len(world.finished) == 5


@every_driver
def test_a_party_that_cannot_answer_is_named(kind):
    parts = works()
    parts["3"] = Doubling(np.array([np.nan, 1.0]))
    with pytest.raises(GivenUpError) as caught:
        kind(seed=0).carry_out(task(plan(LAWS["uniform"]), parts))
    word, full = caught.value.reasons["3"]
    assert word == "input"
    assert "finite" in full
    assert caught.value.sums == ()


@every_driver
def test_the_books_are_kept_before_anything_is_shown(kind):
    told = []

    def before(party, charge, sums):
        told.append((party, charge.epoch, len(sums)))

    kind(seed=0).carry_out(task(plan(LAWS["uniform"]), works(), charge=before))
    assert sorted(told) == sorted(
        (party, 6 * k, k) for party in WHEEL.parties for k in range(3)
    )


@every_driver
def test_what_the_books_forbid_is_not_shown(kind):
    def before(party, charge, sums):
        if party == "2":
            raise InvalidInputError("not today")

    with pytest.raises(InvalidInputError, match="not today"):
        kind(seed=0).carry_out(task(plan(LAWS["uniform"]), works(), charge=before))


@pytest.mark.parametrize("name", ["vectorised", "loopback"])
def test_a_word_becomes_a_driver_at_the_door(name):
    made = driver_for_terms(name, seed=3)
    assert isinstance(made, Driver)
    assert (made.party, made.seed) == (None, 3)
    assert driver_for_terms(made, seed=4) is made


def test_an_unknown_driver_is_refused():
    with refused("unknown-driver"):
        driver_for_terms("postman", seed=0)


@pytest.mark.parametrize("driver", ["vectorised", "loopback"])
@pytest.mark.parametrize("law", ["uniform", "lattice"])
def test_without_a_seed_masks_are_drawn_as_real_parties_draw_them(
    driver, law, monkeypatch
):
    drawn = []
    words = Keystream.words
    monkeypatch.setattr(
        Keystream,
        "words",
        lambda self, count: (drawn.append(count), words(self, count))[1],
    )
    values = {name: k for k, name in enumerate("abcd")}
    sigma = None if law == "uniform" else 100.0
    options = {"driver": driver, "law": law, "sigma": sigma}
    vs.sum(values, seed=1, **options)
    assert not drawn
    monkeypatch.setattr(
        np.random, "default_rng", lambda *_: pytest.fail("a generator of statistics")
    )
    assert vs.sum(values, **options).value == 6
    assert drawn
    with pytest.raises(pytest.fail.Exception):
        vs.sum(values, seed=1, **options)
