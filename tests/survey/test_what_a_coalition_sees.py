"""Non-interference: all delegates but one, with the host, learn a sum and no more.

Two worlds have other inputs at two honest guests, and the same sum of them. A coupling
of the guests' chance makes everything that the coalition sees the same, byte for byte:
in the second world, the honest delegate's share of each guest is larger by what the
guest's words are larger. Shares are uniform, so both worlds draw them equally likely,
and nobody can tell the worlds apart.

One thing is left out: what is inside the seal to the honest delegate. HPKE hides it
from those who compute no discrete logarithms, not from everybody, and no test can show
that. So its seal is replaced here by one of nothing, of the same length; the seals to
the coalition are replaced by open envelopes, which show more than they do. All else,
statements, signatures, lines, the set and every sum, is what the package makes.

A guest's program with a planted defect does not pass: no coupling of what it draws
makes its two views the same.
"""

import dataclasses
import random
import secrets
from functools import partial
from hashlib import sha256

import numpy as np
import pytest

from refusals import refused
from surveys import MEMBERS, delegate_key, opened, seed_of
from veilsum.surveys import submission
from veilsum.surveys.submission import (
    SEAL_BYTES,
    Ed25519PrivateKey,
    SurveySubmission,
    make_submission,
    masked_survey_bytes,
    open_sealed_share,
    sealed_share_info,
    survey_cell_words,
)
from veilsum.surveys.survey_set import (
    is_submission_resent,
    survey_set_of,
    write_submissions,
)
from veilsum.surveys.terms import guest_table_of

TERMS = opened()
SIZE = TERMS.n_cells * 8
HONEST = "bob"
# Which cells are filled, everybody sees: in both worlds the same.
ONE = {"Firm 1": [[1, 2], [3, None]], "Firm 2": [[5, 5], [0, 7]]}
OTHER = {"Firm 1": [[4, 0], [1, None]], "Firm 2": [[2, 7], [2, 7]]}


class Tape:
    """The chance of one guest: a share for each delegate, in order, and no more."""

    def __init__(self, shares):
        self.left = list(shares)

    def draw(self, size):
        found = self.left.pop(0)
        assert len(found) == size
        return found


def open_envelope(share, public, info):
    """A seal that shows its contents, unless it is for the honest delegate."""
    honest = dict(TERMS.delegates)[HONEST]
    inside = bytes(len(share)) if public == honest else share
    where = sha256(info).digest()
    return where + inside + bytes(SEAL_BYTES - len(where))


def tapes(seed):
    """Shares for each guest, as a generator gives them; the test chooses its seed."""
    chance = random.Random(seed)
    return {guest: {name: chance.randbytes(SIZE) for name in MEMBERS} for guest in ONE}


def coupled(drawn):
    """The same chance, moved at the honest delegate by what the guest's words moved."""
    found = {}
    for guest, shares in drawn.items():
        moved = survey_cell_words(shares[HONEST])
        moved += (
            guest_table_of(TERMS, OTHER[guest]).words
            - guest_table_of(TERMS, ONE[guest]).words
        )
        found[guest] = {**shares, HONEST: moved.tobytes()}
    return found


def seen(program, inputs, drawn, monkeypatch):
    """All that the coalition sees; what the honest delegate adds, as totals show it."""
    monkeypatch.setattr(submission, "_seal_survey_share", open_envelope)
    lines, honest = [], np.zeros(TERMS.n_cells, dtype=np.uint64)
    for guest, cells in inputs.items():
        tape = Tape(drawn[guest].values())
        monkeypatch.setattr(secrets, "token_bytes", tape.draw)
        key = Ed25519PrivateKey.from_private_bytes(seed_of(guest))
        lines.append(program(TERMS, guest, key, guest_table_of(TERMS, cells), 1))
        honest += survey_cell_words(drawn[guest][HONEST])
    return {
        "submissions": write_submissions(lines),
        "set": survey_set_of(TERMS, lines).digest,
        "the honest delegate's sum": honest.tobytes(),
    }


def test_the_two_worlds_have_one_sum():
    sums = [
        sum(guest_table_of(TERMS, cells).words for cells in world.values())
        for world in (ONE, OTHER)
    ]
    assert np.array_equal(*sums)
    for guest in ONE:
        assert ONE[guest] != OTHER[guest]


@pytest.mark.parametrize("seed", range(3))
def test_a_coalition_sees_the_same_in_both_worlds(seed, monkeypatch):
    drawn = tapes(seed)
    one = seen(make_submission, ONE, drawn, monkeypatch)
    other = seen(make_submission, OTHER, coupled(drawn), monkeypatch)
    assert one == other


def test_the_coupling_is_one_to_one_and_keeps_the_law():
    """It moves uniform words by a fixed vector: uniform again, and undone by it."""
    drawn = tapes(1)
    there = coupled(drawn)
    for guest in ONE:
        back = survey_cell_words(there[guest][HONEST])
        back -= (
            guest_table_of(TERMS, OTHER[guest]).words
            - guest_table_of(TERMS, ONE[guest]).words
        )
        assert back.tobytes() == drawn[guest][HONEST]


def test_another_sum_is_seen(monkeypatch):
    """The twin: the test sees a difference where there is one."""
    drawn = tapes(1)
    more = {**OTHER, "Firm 2": [[2, 7], [2, 7.01]]}
    one = seen(make_submission, ONE, drawn, monkeypatch)
    assert one != seen(make_submission, more, coupled(drawn), monkeypatch)


def test_which_cells_are_filled_is_seen(monkeypatch):
    """A limit that guests are told of: a 0 that is typed and none that is not."""
    drawn = tapes(1)
    zero = {**ONE, "Firm 1": [[1, 2], [3, 0]]}
    one = seen(make_submission, ONE, drawn, monkeypatch)
    other = seen(make_submission, zero, drawn, monkeypatch)
    assert one != other
    assert one["the honest delegate's sum"] == other["the honest delegate's sum"]


# Planted defects


def finished(terms, guest, key, table, number, shares):
    """What every program does after it has drawn shares."""
    masked = masked_survey_bytes(table.words, shares)
    sealed = tuple(
        submission._seal_survey_share(
            share,
            public,
            sealed_share_info(terms.digest, name, guest, 1, table.filled, masked),
        )
        for share, (name, public) in zip(shares, terms.delegates, strict=True)
    )
    bare = SurveySubmission(
        terms.digest, guest, number, table.filled, masked, sealed, b""
    )
    return dataclasses.replace(bare, signature=key.sign(bare.statement(terms.names)))


def one_delegate_only(terms, guest, key, table, number):
    """Planted: the whole mask goes to the first delegate, and zeros to the others."""
    shares = [secrets.token_bytes(SIZE), *(bytes(SIZE) for _ in terms.names[1:])]
    return finished(terms, guest, key, table, number, shares)


def weakly_seeded(terms, guest, key, table, number, seed=None):
    """Planted: all shares from a generator with sixteen bits of seed."""
    chance = random.Random(secrets.randbelow(2**16) if seed is None else seed)
    shares = [chance.randbytes(SIZE) for _ in terms.names]
    return finished(terms, guest, key, table, number, shares)


def one_share_for_all_cells(terms, guest, key, table, number):
    """Planted: a share is one word, again for each cell."""
    shares = [secrets.token_bytes(SIZE)[:8] * terms.n_cells for _ in terms.names]
    return finished(terms, guest, key, table, number, shares)


# Of a weak seed, the coalition's own share tells all: no other seed could be coupled.
PLANTED = {
    "one delegate only": one_delegate_only,
    "a weak seed": partial(weakly_seeded, seed=555),
    "one share for all cells": one_share_for_all_cells,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_seen(name, monkeypatch):
    planted = PLANTED[name]
    drawn = tapes(1)
    one = seen(planted, ONE, drawn, monkeypatch)
    assert one != seen(planted, OTHER, coupled(drawn), monkeypatch)


def test_every_share_is_all_that_was_drawn_for_it(monkeypatch):
    """No seed in between: the system's chance, once for every word of every share."""
    drawn = []
    real = secrets.token_bytes

    def recorded(size):
        drawn.append(real(size))
        return drawn[-1]

    monkeypatch.setattr(secrets, "token_bytes", recorded)
    key = Ed25519PrivateKey.from_private_bytes(seed_of("Firm 1"))
    table = guest_table_of(TERMS, ONE["Firm 1"])
    for program, whole in ((make_submission, True), (weakly_seeded, False)):
        drawn.clear()
        found = program(TERMS, "Firm 1", key, table, 1)
        opened_shares = [
            open_sealed_share(TERMS, found, name, delegate_key(name)).tobytes()
            for name in MEMBERS
        ]
        assert (opened_shares == drawn) is whole


# What the defects cost, so that it is known what the tests above are for


def test_one_delegate_that_got_the_whole_mask_reads_everything():
    key = Ed25519PrivateKey.from_private_bytes(seed_of("Firm 1"))
    table = guest_table_of(TERMS, ONE["Firm 1"])
    for program, read in ((one_delegate_only, True), (make_submission, False)):
        found = program(TERMS, "Firm 1", key, table, 1)
        guess = found.words + open_sealed_share(
            TERMS, found, "ann", delegate_key("ann")
        )
        assert np.array_equal(guess, table.words) is read


def test_a_weak_seed_is_tried_out():
    """Ann finds the seed by her own share, and has everybody's."""
    key = Ed25519PrivateKey.from_private_bytes(seed_of("Firm 1"))
    table = guest_table_of(TERMS, ONE["Firm 1"])

    def attack(found, seeds=range(600)):
        mine = open_sealed_share(TERMS, found, "ann", delegate_key("ann")).tobytes()
        for seed in seeds:
            chance = random.Random(seed)
            shares = [chance.randbytes(SIZE) for _ in MEMBERS]
            if shares[0] == mine:
                return found.words + sum(map(survey_cell_words, shares))
        return None

    assert np.array_equal(
        attack(weakly_seeded(TERMS, "Firm 1", key, table, 1, seed=555)), table.words
    )
    assert attack(make_submission(TERMS, "Firm 1", key, table, 1)) is None


def test_a_vector_posted_twice_with_fresh_masks_is_refused():
    """Planted: a program that masks again when it tries again, under one number."""
    key = Ed25519PrivateKey.from_private_bytes(seed_of("Firm 1"))
    table = guest_table_of(TERMS, ONE["Firm 1"])
    first = make_submission(TERMS, "Firm 1", key, table, 1)
    with refused("resent-differently", ValueError):
        is_submission_resent([first], make_submission(TERMS, "Firm 1", key, table, 1))
    assert is_submission_resent([first], first)
