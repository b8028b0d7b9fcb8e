"""Claims that no test made until a mutant had shown it (`tests/mutation`)."""

import base64

import pytest

from surveys import World, opened
from veilsum.surveys.collection import SurveyGuestCollection
from veilsum.surveys.delegate import SurveyDelegateStore
from veilsum.surveys.store_copy import copy_store, put_store_copy_in_use
from veilsum.surveys.submission import (
    SEAL_BYTES,
    SIGNATURE_BYTES,
    WORD_BYTES,
    longest_submission,
)
from veilsum.surveys.survey_set import write_submissions


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


def values(world):
    return {name: float(k) for k, name in enumerate(world.codes)}


def test_a_submission_is_new_once_and_counted_for_its_member(world, tmp_path):
    collection = SurveyGuestCollection.open(tmp_path / "collection", world.terms)
    line = write_submissions([world.visit("Firm 1", 1.0)]).strip()
    try:
        assert collection.progress()["by_member"] == {
            "ann": [0, 4],
            "bob": [0, 4],
            "cem": [0, 4],
        }
        assert collection.take(line)[1] is True
        assert collection.take(line)[1] is False
        assert collection.progress()["by_member"]["ann"] == [1, 4]
    finally:
        collection.close()


def test_the_longest_line_is_that_of_base64_and_of_names():
    terms = opened()
    vector = terms.n_cells * WORD_BYTES
    sizes = [vector, SIGNATURE_BYTES, *[vector + SEAL_BYTES] * len(terms.delegates)]
    exact = sum(len(base64.b64encode(bytes(size))) for size in sizes)
    spare = longest_submission(terms) - 4096 - terms.n_cells // 4 - exact
    assert 16 * len(sizes) <= spare <= 20 * len(sizes)


def test_a_copy_is_put_in_use_though_an_earlier_time_was_broken_off(world, tmp_path):
    sent = world.all_visit(values(world))
    closed = world.closed(sent)
    store = world.stores["ann"]
    copy = tmp_path / "kept.surveys"
    store.close()
    copy_store(store.path, copy)
    world.stores["ann"] = SurveyDelegateStore.open(store.path)
    world.total(closed, sent)
    answered = world.stores["ann"].answered()
    (tmp_path / f".{copy.name}.resumed").write_bytes(b"broken off")
    put_store_copy_in_use(copy, answered)
    again = SurveyDelegateStore.open(copy)
    try:
        assert again.answered() == answered
    finally:
        again.close()
    assert not (tmp_path / f".{copy.name}.resumed").exists()
