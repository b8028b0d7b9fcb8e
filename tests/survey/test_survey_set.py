"""The set: which submissions are added, and what a host takes from a guest."""

import dataclasses
import random
from hashlib import sha256

import pytest

from refusals import refused
from surveys import MEMBERS, opened, seed_of
from veilsum.errors import InvalidInputError
from veilsum.surveys.submission import Ed25519PrivateKey, make_submission
from veilsum.surveys.survey_set import (
    closed_survey_set,
    is_submission_resent,
    newest_submissions,
    read_submissions,
    survey_set_of,
    write_submissions,
)
from veilsum.surveys.terms import guest_table_of

TERMS = opened()
CELLS = [[1, 2], [None, 4]]


def sent(guest, number=1):
    key = Ed25519PrivateKey.from_private_bytes(seed_of(guest))
    return make_submission(TERMS, guest, key, guest_table_of(TERMS, CELLS), number)


def resigned(found, **fields):
    bare = dataclasses.replace(found, **fields, signature=b"")
    key = Ed25519PrivateKey.from_private_bytes(seed_of(bare.guest))
    return dataclasses.replace(bare, signature=key.sign(bare.statement(MEMBERS)))


ALL = [sent(f"Firm {k + 1}") for k in range(12)]


def test_a_set_is_what_the_page_describes():
    lines = [f"{one.guest}\t1\t{one.digest(MEMBERS)}" for one in ALL]
    text = "\n".join(["veilsum set 1", TERMS.digest, *lines]) + "\n"
    assert survey_set_of(TERMS, ALL).digest == sha256(text.encode()).hexdigest()


def test_the_order_of_arrival_means_nothing():
    other = ALL[:]
    random.Random(1).shuffle(other)
    assert survey_set_of(TERMS, other) == survey_set_of(TERMS, ALL)
    assert survey_set_of(TERMS, ALL).guests == tuple(TERMS.roster)
    assert survey_set_of(TERMS, ALL[1:]).digest != survey_set_of(TERMS, ALL).digest


def test_the_newest_of_each_guest_is_added():
    second = sent("Firm 3", 2)
    found = newest_submissions(TERMS, [second, *ALL[::-1]])
    assert found == tuple(second if one.guest == "Firm 3" else one for one in ALL)


def test_submissions_are_written_and_read():
    content = write_submissions(ALL)
    assert read_submissions(content, TERMS) == tuple(ALL)
    assert read_submissions(b"", TERMS) == ()
    with refused("submissions-differ", mentions=("13", "12")):
        read_submissions(content + write_submissions(ALL[:1]), TERMS)
    with refused("submissions-too-large"):
        read_submissions(content * 20, TERMS)


@pytest.mark.parametrize("cut", [1, 100, 1000])
def test_a_file_that_is_not_whole_is_refused(cut):
    content = write_submissions(ALL)
    with pytest.raises(InvalidInputError):
        read_submissions(content[: -cut - 1], TERMS)


def test_a_closed_file_names_one_set():
    with refused("survey-still-open"):
        closed_survey_set(TERMS, ALL)
    chosen = survey_set_of(TERMS, ALL)
    closed = dataclasses.replace(TERMS, set=chosen.digest, tally=chosen.tally)
    assert closed_survey_set(closed, ALL) == chosen
    with refused("submissions-differ"):
        closed_survey_set(closed, ALL[1:])
    with refused("submissions-differ"):
        closed_survey_set(closed, [sent("Firm 1", 2), *ALL[1:]])


def test_what_is_there_twice_is_refused():
    with refused("duplicate-guest"):
        survey_set_of(TERMS, [*ALL, ALL[0]])
    for fields in ({"masked": ALL[0].masked}, {"sealed": ALL[0].sealed}):
        copied = resigned(ALL[1], **fields)
        with refused("duplicate-submission"):
            survey_set_of(TERMS, [ALL[0], copied])


def test_a_changed_submission_is_refused_in_a_set():
    with refused("bad-signature"):
        survey_set_of(TERMS, [dataclasses.replace(ALL[0], number=2)])


# What a host takes


def test_what_is_sent_again_is_the_same_to_the_last_byte():
    first = sent("Firm 1")
    assert is_submission_resent([], first) is False
    assert is_submission_resent([first], first) is True
    second = sent("Firm 1", 2)
    assert is_submission_resent([first], second) is False
    assert is_submission_resent([first, second], first) is True  # late, and in order


def test_two_vectors_under_one_number_are_refused():
    """A program that draws fresh masks when it tries again would post two of them."""
    with refused("resent-differently"):
        is_submission_resent([sent("Firm 1")], sent("Firm 1"))


def test_numbers_follow_each_other():
    with refused("resent-differently", mentions=("2,", "3")):
        is_submission_resent([sent("Firm 1")], sent("Firm 1", 3))
    with refused("resent-differently", mentions=("1,", "2")):
        is_submission_resent([], sent("Firm 1", 2))
    with refused("resent-differently", mentions=("3",)):
        is_submission_resent([sent("Firm 1"), sent("Firm 1", 2)], sent("Firm 1"))


@pytest.mark.parametrize("part", ["masked", "sealed"])
def test_a_correction_with_something_old_in_it_is_refused(part):
    first, second = sent("Firm 1"), sent("Firm 1", 2)
    old = first.masked if part == "masked" else (first.sealed[0], *second.sealed[1:])
    mixed = resigned(second, **{part: old})
    with refused("submission-repeats-shares"):
        is_submission_resent([first], mixed)


def test_other_guests_numbers_mean_nothing():
    assert (
        is_submission_resent([sent("Firm 2"), sent("Firm 2", 2)], sent("Firm 1"))
        is False
    )
