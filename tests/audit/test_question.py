"""Rows are made up from what is public, and the question is asked as parties ask it."""

from pathlib import Path

import numpy as np
import pytest

import veilsum as vs
from audit.questions import ASKED, COLUMNS, FIT, NAMES, named, question
from cases import each
from refusals import refused
from veilsum.audit import reassignment
from veilsum.audit.question import AuditRehearsal
from veilsum.drivers.loopback import Loopback
from veilsum.tables.rules import Rules

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
EXAMPLES = Path(__file__).parents[2] / "examples"


@each("name", ASKED)
def test_everybody_answers_on_made_up_rows(name):
    asked = named(name)
    held, played = asked.sound(1)
    assert tuple(held) == NAMES
    assert played.totals
    # Under uniform masks a total is the residue nearest to 0.
    modulus = 1 << 8 * played.law.number_bytes
    for total, given in zip(played.totals, played.given, strict=True):
        for one, column in zip(total, zip(*given.values(), strict=True), strict=True):
            assert type(one) is int
            assert (one - sum(column)) % modulus == 0
            assert -modulus <= 2 * one < modulus
    # What any holder would give is found without being a party.
    again = asked.given(played, list(held.values()))
    for place, given in enumerate(played.given):
        assert [one[place] for one in again] == list(given.values())


def test_of_a_number_with_a_listed_residue_nothing_else_is_in_a_total():
    """Every total is the same multiple of a power of two, whatever rows there are."""
    played = named("logistic").sound(1)[1]
    width, several = 8 * played.law.number_bytes, 0
    for total, bits in zip(played.totals, played.residue_bits, strict=True):
        for one, listed in zip(total, bits, strict=True):
            assert 0 <= listed < width
            several += bool(listed)
            assert not listed or one % (1 << width - listed) == 0
    assert several > 30
    assert not any(any(bits) for bits in named("statistics").sound(1)[1].residue_bits)


def test_rows_are_as_the_schema_says_and_repeat():
    asked = question(**FIT)
    first, again, other = (asked.made_up(seed, 60)["bob"] for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)
    checked = asked.schema.check("bob", first)
    assert not checked.n_rounded.get("age")
    assert not checked.n_rounded.get("bmi")
    assert set(first["ward"]) == {"north", "south", "west"}
    assert first["smoker"].mean() == 0.5


def test_the_sums_are_those_of_a_plain_fit():
    """Against numpy: X'X of the pooled rows, counted in units, is in the totals."""
    asked = question(model={"formula": "bmi ~ age"})
    held, played = asked.sound(1)
    rows = np.concatenate([one[["age", "bmi"]].to_numpy() for one in held.values()])
    slope, level = np.polyfit(rows[:, 0], rows[:, 1], 1)
    assert played.result.answer == pytest.approx([level, slope])
    pooled = vs.fit("bmi ~ age", held, driver="vectorised", seed=2)
    assert pooled.answer == pytest.approx([level, slope])


def test_machines_release_the_same_sums():
    asked = named("statistics")
    held, played = asked.sound(1)
    found = asked.ask(held, driver=Loopback(seed=5)).played
    assert found.totals == played.totals


def test_a_refusal_says_what_was_shown():
    asked = named("least squares")
    held, _ = asked.sound(1)
    alone = {**held, "bob": held["bob"].assign(ward="west")}
    found = asked.ask(alone)
    assert found.played is None
    assert found.shows_nothing
    assert found.words == "refused by site_terms"
    assert asked.ask(alone, rules=Rules.none()).played is not None


def test_files_are_read(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(
        'title = "a plan"\n[graph]\nfamily = "complete:5"\n[statistics]\n'
        'columns = ["age"]\n[schema.columns]\n'
        'age = { kind = "integer", minimum = 0, maximum = 120 }\n'
    )
    asked = AuditRehearsal.read(path)
    assert asked.parties == ("0", "1", "2", "3", "4")
    assert asked.sound(0)[1].totals


def test_what_nobody_would_answer_is_said():
    old = {"of": "age", "as": "intervals", "cuts": [95]}
    columns = {**COLUMNS, "age": {**COLUMNS["age"], "cuts": [95]}, "old": old}
    few = question(rows=40, columns=columns, model={"formula": "pressure ~ old"})
    with refused("no-answerable-rows", vs.InvalidInputError):
        few.sound(0)


def test_what_one_party_gives_to_another_changes_no_sum():
    """On a fine grid decimals would: a fraction of a step, which looks like a leak."""
    asked = AuditRehearsal.read(EXAMPLES / "quadratic.toml").brief
    honest = asked.honest(("north", "east"))
    for draw in range(20):
        held, played = reassignment.deal_spare_rows(asked, honest, (0, draw, 3))
        chance = np.random.default_rng(draw)
        other = {
            **held,
            **reassignment.deal_rows_among_honest_parties(asked, held, honest, chance),
        }
        law = played.plan.law
        one, two = (
            law.encode(np.array([each[name]["vectors"] for name in honest])).sum(axis=0)
            for each in (held, other)
        )
        assert one.tolist() == two.tolist()
