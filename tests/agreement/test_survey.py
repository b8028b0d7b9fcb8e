"""Surveys in consortium files: what they say, and what is refused at once."""

import copy
from fractions import Fraction

import pytest

from surveys import opened, survey_table
from veilsum.agreement.consortium import consortium_from
from veilsum.agreement.survey import Guest, survey_terms
from veilsum.errors import InvalidScenarioError


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
    assert (terms.n_cells, terms.n_words) == (4, 8)
    assert (terms.least, terms.most) == (-500, 100_000_000)
    assert terms.names == ("ann", "bob", "cem")
    assert terms.guests[0].name == "Firm 1"
    assert isinstance(terms.guests[0], Guest)
    assert terms.set is None


def test_the_open_file_names_the_survey_and_the_closed_one_says_so_too():
    opened_file = consortium_from(survey_table())
    closed_file = consortium_from(changed(set="ab" * 32))
    one, other = survey_terms(opened_file), survey_terms(closed_file)
    assert one.digest == other.digest == opened_file.digest.hex()
    assert closed_file.digest != opened_file.digest
    assert other.set == "ab" * 32
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
    "no digest": ({"set": "AB" * 32}, "64 hexadecimal"),
    "alone": ({"minimum_honest": 1}, "from 2 to"),
    "few in a cell": ({"minimum_guests": 3}, "at least 4"),
    "two lines": ({"title": "a\nb"}, "one line"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    keys, why = REFUSED[name]
    with pytest.raises(InvalidScenarioError, match=why):
        survey_terms(consortium_from(changed(**keys)))


def test_all_members_may_not_be_tolerated():
    table = survey_table()
    table["policy"] = {"tolerate": 3, "minimum_honest": 2}
    with pytest.raises(InvalidScenarioError, match="one honest delegate"):
        survey_terms(consortium_from(table))


def test_the_worst_coalition_has_the_members_that_invited_most():
    terms = opened()  # twelve guests, four by each of three members; one tolerated
    names = [guest.name for guest in terms.guests]
    assert terms.honest(names) == 8
    assert terms.refusal(names) is None
    assert terms.honest(names[:3]) == 2
    assert "4 are needed" in terms.refusal(names[:3])
