"""Surveys in consortium files: what they say, and what is refused at once."""

import copy
import dataclasses
import random
from fractions import Fraction
from itertools import combinations

import pytest

from cases import each
from refusals import refused
from surveys import opened, survey_table
from veilsum.consortium.consortium import consortium_from
from veilsum.errors import InvalidScenarioError
from veilsum.surveys.terms import (
    SurveyGuest,
    survey_closing_entries,
    survey_tally_of,
    survey_terms,
)


def changed(**keys):
    table = copy.deepcopy(survey_table())
    table["survey"] |= keys
    table["survey"] = {
        key: one for key, one in table["survey"].items() if one is not None
    }
    return table


def test_a_survey_is_read_into_values():
    terms = opened()
    assert terms.title == "Wages"
    assert terms.unit == Fraction(1, 100)
    assert terms.n_cells == 4
    assert (terms.least, terms.most) == (-500, 100_000_000)
    assert terms.names == ("ann", "bob", "cem")
    assert terms.guests[0].name == "Firm 1"
    assert isinstance(terms.guests[0], SurveyGuest)
    assert (terms.set, terms.tally) == (None, None)


FILLED = {"ann": [4, 4, 3, 0, 4], "bob": [3, 3, 3, 1, 0], "cem": [4, 4, 2, 4, 4]}
CLOSED = {"set": "ab" * 32, "filled": FILLED, "near": [[0, 1]], "more_near": False}


def test_the_open_file_names_the_survey_and_the_closed_one_says_so_too():
    opened_file = consortium_from(survey_table())
    closed_file = consortium_from(changed(**CLOSED))
    one, other = survey_terms(opened_file), survey_terms(closed_file)
    assert one.digest == other.digest == opened_file.digest.hex()
    assert closed_file.digest != opened_file.digest
    assert other.set == "ab" * 32
    assert other.tally.guests == 11
    assert other.tally.given == (11, 8, 5, 8)
    # The last but one leaves one of bob's if cem colludes, the last four of each.
    assert other.released == (0, 1, 3)
    assert other.tally.near == ((0, 1),)
    again = survey_closing_entries(one, other.set, other.tally)
    assert again == CLOSED
    assert survey_terms(consortium_from(changed(title="Other"))).digest != one.digest


def guests(**first):
    rows = copy.deepcopy(survey_table()["survey"]["guest"])
    rows[0] |= first
    return rows


KEYS = survey_table()["survey"]["delegates"]
REFUSED = {
    "a unit without an end": ({"unit": "1/3", "range": [0, 9]}, "a decimal number"),
    "no key of a member": ({"delegates": {"ann": KEYS["ann"]}}, "no key of bob, cem"),
    "a stranger's key": ({"delegates": {**KEYS, "eve": "0" * 64}}, "no member"),
    "one key for two": ({"delegates": {**KEYS, "ann": KEYS["bob"]}}, "one key"),
    "no hexadecimal": ({"delegates": {**KEYS, "ann": "x" * 64}}, "64 hexadecimal"),
    "twice a guest": ({"guest": guests(name="FIRM 2")}, "two guests have the name"),
    "twice a key": ({"guest": guests(key=guests()[1]["key"])}, "have the key"),
    "an unknown voucher": ({"guest": guests(invited_by="eve")}, "no member"),
    "a tab in a name": ({"guest": guests(name="Firm\t1")}, "can be seen"),
    "a line in a name": ({"guest": guests(name="Firm\n1")}, "can be seen"),
    "two spaces": ({"guest": guests(name="Firm  1")}, "single spaces"),
    "another spelling": ({"guest": guests(name="Cafe\u0301")}, "composed form"),
    "no guest": ({"guest": None}, "even if all guests come"),
    "one voucher": (
        {"guest": [one | {"invited_by": "ann"} for one in guests()]},
        "0 are surely honest",
    ),
    "too many guests": ({"guest": [{}] * 10_001}, "10,000 guests at most"),
    "too many cells": ({"rows": [str(k) for k in range(25_001)]}, "50,002 cells"),
    "a row twice": ({"rows": ["a", "a"]}, "'a' twice"),
    "no row": ({"rows": []}, "name one at least"),
    "half a unit": ({"range": [0, 0.005]}, "whole numbers of the unit"),
    "turned about": ({"range": [1, 0]}, "least and the largest"),
    "too wide": ({"range": [0, 2**60]}, "too wide"),
    "no unit": ({"unit": 0}, "unit must be"),
    "no day": ({"closes": "2026-13-01"}, "such as"),
    "no digest": ({**CLOSED, "set": "AB" * 32}, "64 hexadecimal"),
    "counts of an open one": ({"filled": FILLED}, "counted when the survey is closed"),
    "pairs of an open one": ({"near": []}, "counted when the survey is closed"),
    "more of an open one": ({"more_near": True}, "counted when the survey is closed"),
    "no counts": ({"set": "ab" * 32}, "filled. must have for each member"),
    "counts of two": (
        {**CLOSED, "filled": {"ann": FILLED["ann"], "bob": FILLED["bob"]}},
        "for each member",
    ),
    "counts of a stranger": ({**CLOSED, "filled": {**FILLED, "eve": [0] * 5}}, "each"),
    "a cell too few": ({**CLOSED, "filled": {**FILLED, "cem": [4] * 4}}, "each cell"),
    "no number": ({**CLOSED, "filled": {**FILLED, "cem": []}}, "each cell"),
    "more than came": (
        {**CLOSED, "filled": {**FILLED, "bob": [3, 4, 3, 1, 0]}},
        "each cell",
    ),
    "more than were invited": (
        {**CLOSED, "filled": {**FILLED, "bob": [5, 3, 3, 1, 0]}},
        "of its guests",
    ),
    "fewer than none": (
        {**CLOSED, "filled": {**FILLED, "bob": [3, 3, -1, 1, 0]}},
        "each cell",
    ),
    "a pair of one": ({**CLOSED, "near": [[1, 1]]}, "pairs of released cells"),
    "a pair not released": ({**CLOSED, "near": [[0, 2]]}, "pairs of released cells"),
    "a pair from elsewhere": ({**CLOSED, "near": [[0, 4]]}, "pairs of released cells"),
    "too many pairs": ({**CLOSED, "near": [[0, 1]] * 101}, "100 pairs"),
    "alone": ({"minimum_honest": 1}, "from 2 to"),
    "few in a cell": ({"minimum_guests": 3}, "at least 4"),
    "two lines": ({"title": "a\nb"}, "one line"),
}


@each("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    keys, why = REFUSED[name]
    with pytest.raises(InvalidScenarioError, match=why):
        survey_terms(consortium_from(changed(**keys)))


def test_all_members_may_not_be_tolerated():
    table = survey_table()
    table["policy"] = {"tolerate": 3, "minimum_honest": 2}
    with refused("tolerate-out-of-range", InvalidScenarioError):
        survey_terms(consortium_from(table))


def test_the_worst_coalition_has_the_members_that_invited_most():
    terms = opened()  # twelve guests, four by each of three members; one tolerated
    names = [guest.name for guest in terms.guests]
    assert terms.honest(names) == 8
    assert terms.refusal(names) is None
    assert terms.honest(names[:3]) == 2
    assert "4 are needed" in terms.refusal(names[:3])


# Who filled what


def by_hand(terms, sets):
    """Counts and near pairs as they are described, guest by guest and by coalition."""
    members = terms.names

    def invited(guests, coalition):
        return {g for g in guests if terms.roster[g].invited_by not in coalition}

    coalitions = [
        one for size in range(terms.tolerate + 1) for one in combinations(members, size)
    ]
    few = terms.minimum_honest + terms.tolerate_guests
    shown = {
        cell
        for cell, guests in enumerate(sets)
        if len(guests) >= terms.minimum_guests
        and all(len(invited(guests, one)) > few for one in coalitions)
    }
    wide = len(terms.columns)
    near = {
        frozenset({one, other})
        for one, other in combinations(sorted(shown), 2)
        if one // wide == other // wide or one % wide == other % wide
        if any(1 <= len(invited(sets[one] ^ sets[other], c)) <= few for c in coalitions)
    }
    return shown, near


@each("seed", range(60))
def test_released_and_near_cells_are_those_of_every_coalition_tried(seed):
    chance = random.Random(seed)
    terms = dataclasses.replace(
        opened(),
        rows=("a", "b", "c"),
        columns=("x", "y", "z"),
        tolerate=chance.randrange(3),
        tolerate_guests=chance.randrange(2),
        minimum_honest=chance.choice([2, 2, 3]),
        guests=tuple(
            SurveyGuest(f"{k}", bytes([k]), chance.choice(["ann", "bob", "cem"]))
            for k in range(20)
        ),
    )
    guests, share = [*terms.roster][: chance.randrange(12, 21)], chance.random()
    some = {g for g in guests if chance.random() < 0.8}
    sets = [
        some ^ {*chance.sample(guests, chance.randrange(4))}
        if chance.random() < share
        else {g for g in guests if chance.random() < share}
        for _ in range(9)
    ]
    filled = {
        g: (int("".join(str(int(g in one)) for one in sets), 2) << 7).to_bytes(2)
        for g in guests
    }
    tally = survey_tally_of(terms, filled)
    shown, near = by_hand(terms, sets)
    closed = dataclasses.replace(terms, tally=tally)
    assert tally.given == tuple(map(len, sets))
    assert tally.guests == len(guests)
    assert {*closed.released} == shown
    assert {frozenset(pair) for pair in tally.near} == near
    assert len(tally.near) == len(near)
    assert not tally.more_near
    assert {*closed.may_follow} == {
        cell
        for cell, guests in enumerate(sets)
        if guests and cell not in shown
        if len(shown & {*range(cell // 3 * 3, cell // 3 * 3 + 3)}) > 1
        or len(shown & {cell % 3, cell % 3 + 3, cell % 3 + 6}) > 1
    }


def test_pairs_are_counted_and_not_without_end():
    """A hundred are named, whoever fills a table so that all are near each other."""
    terms = dataclasses.replace(
        opened(), rows=tuple(map(str, range(40))), columns=("x",)
    )
    bits = {
        name: bytes(255 - (1 << (7 - k % 8)) * (k // 8 == byte) for byte in range(5))
        for k, name in enumerate(terms.roster)
    }
    # Of 13 different groups all 78 pairs, and then cells of the largest.
    found = survey_tally_of(terms, bits)
    assert (len(found.near), found.more_near) == (100, True)
    assert {pair[0] for pair in found.near[:78]} == {*range(12)}
    assert sum(12 in pair for pair in found.near[:78]) == 12
    assert {pair[1] for pair in found.near[78:]} == {*range(13, 35)}
    few = dataclasses.replace(terms, rows=terms.rows[:13])
    found = survey_tally_of(few, {name: one[:2] for name, one in bits.items()})
    assert (len(found.near), found.more_near) == (78, False)
    terms = dataclasses.replace(
        terms,
        guests=tuple(SurveyGuest(str(k), b"", "ann") for k in range(40)),
        tolerate=0,
    )
    bits = {
        name: bytes(255 - (1 << (7 - k % 8)) * (k // 8 == byte) for byte in range(5))
        for k, name in enumerate(terms.roster)
    }
    found = survey_tally_of(terms, bits)
    assert (len(found.near), found.more_near) == (100, True)


def test_that_not_all_were_compared_is_said(monkeypatch):
    """The last pairs of a long row are those of its fullest cells."""
    terms = dataclasses.replace(opened(), rows=("x", "y", "z"), columns=("a",))
    empty = {"Firm 1": 0b011, "Firm 2": 0b001}
    bits = {name: bytes([~empty.get(name, 0) << 5 & 0xE0]) for name in terms.roster}
    found = survey_tally_of(terms, bits)
    assert (found.near, found.more_near) == (((2, 1), (2, 0), (1, 0)), False)
    monkeypatch.setattr("veilsum.surveys.terms.MOST_COMPARED", 2)
    found = survey_tally_of(terms, bits)
    assert (found.near, found.more_near) == (((2, 1), (2, 0)), True)
