"""Recodings and words for missing values must not leave one person between two answers.

An organiser who agrees on a range that ends at the largest salary asks for its sum. In
the next dictionary the range ends below, and the largest salary is a word for a missing
value: one row less is summed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import veilsum as vs
from attacks.organiser import Found, refused_by
from attacks.test_the_ledger import ADDED_UP, SCHEMA, Asking, asking, held

NAMES = "abcde"


def counted(**changes):
    """The schema with other lines for salaries."""
    others = tuple(one for one in SCHEMA.columns if one.name != "salary")
    salary = vs.Column("salary", "number", 0, unit=0.01, **changes)
    return replace(SCHEMA, columns=(*others, salary), missing="drop")


def largest_of(tables):
    return max(float(one["salary"].max()) for one in tables.values())


@asking
def by_a_word_for_missing_values(organiser):
    """The largest salary, by the difference of two sums over the same tables."""
    tables = held(NAMES)
    largest = largest_of(tables)
    whole = organiser.sums(tables, schema=counted(maximum=largest))
    less = counted(maximum=round(largest - 0.01, 2), missing=(largest,))
    rest = organiser.sums(tables, schema=less)
    return Found(np.round(whole - rest, 2).tolist(), [1.0, largest])


@asking
def by_two_meanings(organiser):
    """The largest salary is 0 in one dictionary, and large in the next."""
    tables = held(NAMES)
    word = str(largest_of(tables))
    below = round(largest_of(tables) - 0.01, 2)
    first, second = (
        organiser.sums(tables, schema=counted(maximum=below, recode={word: meaning}))
        for meaning in (0, below)
    )
    return Found(np.round(second - first, 2).tolist(), [0.0, below])


ATTACKS = [by_a_word_for_missing_values, by_two_meanings]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_person_whose_value_has_another_meaning_is_not_left_over(attack):
    assert refused_by(attack) in ADDED_UP


@pytest.mark.parametrize("attack", ATTACKS)
def test_without_ledgers_the_person_is_given_away(attack, monkeypatch):
    """The twin: each question alone is one that the rules answer."""
    monkeypatch.setattr(Asking, "ledgers_of", lambda *_: {})
    assert attack().succeeded


def test_another_word_that_nobody_has_changes_nothing():
    """Ordinary use: a dictionary gains a word for missing values."""

    @asking
    def ask(organiser):
        tables = held(NAMES)
        for missing in ((), (-9,), (-9, "unknown")):
            organiser.sums(tables, schema=counted(maximum=200_000, missing=missing))
        return organiser.asked

    assert ask() == 3
