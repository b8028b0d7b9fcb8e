"""Attacks on released sums: at their bounds here, certain on what once was."""

import pytest

from audit.questions import ASKED, COST, NAMES, InFloats, InPart, named, question
from cases import each
from refusals import refused
from veilsum.audit import low_bits, partial_round, reassignment
from veilsum.audit.question import SkippedAttack

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

NEVER = {"coalition": ("ann",), "seed": 1}
PLAIN = {"model": {"formula": "pressure ~ age + bmi"}}


def played(attack, asked, **how):
    (found,) = attack.play(asked, **{**NEVER, "trials": 4, **how})
    return found


@pytest.mark.parametrize(
    "name", ["least squares", "logistic", "statistics", "dispatch", "a cost"]
)
def test_low_bits_leave_every_table(name, monkeypatch):
    """More than by the count of guesses: nothing at all is ruled out."""
    left, found = low_bits.candidates_left_by_low_bits, []

    def watch(rest, given, large, moduli):
        found.append(left(rest, given, large, moduli) == set(given))
        return left(rest, given, large, moduli)

    monkeypatch.setattr(low_bits, "candidates_left_by_low_bits", watch)
    outcome = played(low_bits, named(name), trials=2)
    assert all(found)
    assert found
    assert outcome.promised == 1 / 8
    assert outcome.looked_at == "sums"


def test_low_bits_of_residues_rule_out_by_powers_of_two_only():
    """Large parties give multiples of 12; of a residue modulo 64 only 4 divides it."""
    rest, large = (1000 - 64 * 15,), [(24,), (36,)]
    given = {"true": ((4,),), "by 3": ((8,),), "by 4": ((6,),)}
    left = low_bits.candidates_left_by_low_bits
    assert left((1000,), given, large) == {"true"}
    assert left(rest, given, large, (64,)) == {"true", "by 3"}


def test_low_bits_of_floats_tell_the_table():
    outcome = played(low_bits, question(InFloats, **PLAIN))
    assert outcome.successes == outcome.trials
    assert outcome.exceeds(0.001)


@each("name", ASKED)
def test_two_dealings_release_the_same(name):
    outcome = played(reassignment, named(name), trials=2)
    assert (outcome.successes, outcome.promised) == (0, 0.0)


def test_two_dealings_are_told_apart_in_floats():
    outcome = played(reassignment, question(InFloats, **PLAIN), trials=6)
    assert outcome.successes == outcome.trials == 6
    assert outcome.exceeds(0.05)


@each("name", ["logistic", "survival", "dispatch", "a cost"])
def test_every_round_is_answered_by_all(name):
    outcome = played(partial_round, named(name), trials=2)
    assert (outcome.successes, outcome.promised) == (0, 0.0)


def test_a_party_that_sends_zeros_is_found():
    outcome = played(partial_round, question(InPart, **PLAIN))
    assert outcome.successes
    assert outcome.exceeds(0.05)


@each("attack", [low_bits, reassignment, partial_round])
def test_where_nothing_is_released_it_is_said(attack):
    iterating = {**COST, "method": {"name": "nids"}, "stopping": {"iterations": 20}}
    iterating["masks"] = {"law": "lattice", "sigma": 100.0, "grid": 20, "largest": 99.0}
    del iterating["cost"]
    cost = {"kind": "squared-distance", "dim": 3}
    found = played(attack, question(cost=cost, **iterating))
    assert found == SkippedAttack(attack.ATTACK, "the method releases no sums")


@pytest.mark.parametrize("attack", [low_bits, reassignment])
def test_of_who_is_alone_there_is_nothing_to_guess(attack):
    found = played(attack, named("a cost"), coalition=NAMES[:-1])
    assert isinstance(found, SkippedAttack)
    with refused("nobody-honest"):
        played(attack, named("a cost"), coalition=NAMES)
