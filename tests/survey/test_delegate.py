"""A delegate's store: what it keeps, what it refuses to be, and how it counts."""

import dataclasses
import pickle
import random
import stat
from itertools import combinations, product

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from surveys import MEMBERS, World, opened
from veilsum.errors import BudgetError, SecretError, StoreError
from veilsum.surveys.delegate import (
    AnsweredSurvey,
    SurveyDelegateStore,
    _guests_shown_to_coalitions,
    _inviters_who_may_be_one_person,
    survey_share_sums,
    survey_to_answer,
)
from veilsum.surveys.store_copy import copy_store, put_store_copy_in_use
from veilsum.surveys.submission import SUITE, sealed_share_info, survey_guest_key
from veilsum.surveys.survey_set import SurveySet, survey_set_of
from veilsum.surveys.terms import SurveyGuest, SurveyTally

TERMS = opened()
NOBODY = SurveyTally((), ())


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


def all_sent(world):
    return [world.visit(name, k) for k, name in enumerate(world.codes)]


def test_a_survey_from_invitation_to_answer(world):
    sent = all_sent(world)
    found = world.total(world.closed(sent), sent)
    assert found == [100 * sum(range(12))] * 4


def test_a_delegate_may_come_back_for_the_same_set(world):
    sent = all_sent(world)
    terms = world.closed(sent)
    first = world.contribution("bob", terms, sent)
    store = world.stores["bob"]
    store.close()
    again = SurveyDelegateStore.open(store.path)
    key = again.commit(terms, "bob", sent)
    assert (survey_share_sums(terms, sent, key) == first).all()
    assert [one.set for one in again.answered()] == [terms.set]
    again.close()


def test_a_copy_that_knows_a_survey_is_put_in_use_with_it(world, tmp_path):
    sent = all_sent(world)
    world.total(world.closed(sent), sent)
    answered = world.stores["ann"].answered()
    copy = tmp_path / "kept.surveys"
    copy_store(world.stores["ann"].path, copy)
    put_store_copy_in_use(copy, answered)
    again = SurveyDelegateStore.open(copy)
    assert again.answered() == answered
    again.close()


def test_an_answered_survey_keeps_who_filled_every_cell(world):
    """Four cells, each with the twelve guests' bits."""
    sent = all_sent(world)
    terms = world.closed(sent)
    named = product(["Wages"], ["managers", "clerks"], ["women", "men"])
    assert survey_to_answer(terms, survey_set_of(terms, sent)).cells == dict.fromkeys(
        named, b"\xff\xf0"
    )


def test_to_examine_writes_nothing(world):
    sent = all_sent(world)
    terms, store = world.closed(sent), world.stores["ann"]
    assert store.examine(terms, "ann", sent).digest == terms.set
    assert store.answered() == ()
    fewer = sent[1:]
    assert (
        store.examine(world.closed(fewer), "ann", fewer).guests
        == tuple(world.terms.roster)[1:]
    )


def test_a_share_that_does_not_open_binds_nobody(world):
    """Its guest is named, and the survey is closed without it."""
    sent = all_sent(world)
    bad = sent[4]
    info = sealed_share_info("0" * 64, "bob", bad.guest, 1, bad.filled, bad.masked)
    key = dict(world.terms.delegates)["bob"]
    seal = SUITE.encrypt(bytes(32), X25519PublicKey.from_public_bytes(key), info)
    bare = dataclasses.replace(
        bad, sealed=(bad.sealed[0], seal, bad.sealed[2]), signature=b""
    )
    signature = survey_guest_key(world.codes[bad.guest]).sign(bare.statement(MEMBERS))
    sent[4] = dataclasses.replace(bare, signature=signature)
    terms = world.closed(sent)
    with refused("share-not-opened", mentions=("Firm 5", "1,")):
        world.stores["bob"].commit(terms, "bob", sent)
    assert world.stores["bob"].answered() == ()
    good = [one for one in sent if one.guest != "Firm 5"]
    assert world.stores["bob"].commit(world.closed(good), "bob", good).delegate == "bob"


def test_who_is_no_delegate_adds_nothing(world):
    sent = all_sent(world)
    with refused("not-a-delegate", mentions=("eve",)):
        world.stores["ann"].commit(world.closed(sent), "eve", sent)
    with refused("foreign-survey-key"):
        world.stores["ann"].commit(world.closed(sent), "bob", sent)


def test_an_open_survey_is_not_added_up(world):
    with refused("survey-still-open"):
        world.stores["ann"].commit(world.terms, "ann", all_sent(world))


def test_to_finish_erases_the_key_of_this_survey_only(world):
    sent = all_sent(world)
    terms, store = world.closed(sent), world.stores["ann"]
    store.commit(terms, "ann", sent)
    later = world.open_survey(title="Another one")
    store.finish(terms)
    assert store._key(later, "ann") is not None
    # A file that names another survey's key erases nothing of it.
    again = all_sent(world)
    closed = world.closed(again)
    store.commit(closed, "ann", again)
    store.finish(dataclasses.replace(terms, digest="0" * 64, delegates=later.delegates))
    assert store.commit(closed, "ann", again)


def test_a_survey_that_is_given_up_erases_its_key_too(world):
    store = world.stores["ann"]
    store.finish(world.terms)
    sent = all_sent(world)
    with refused("survey-over"):
        store.commit(world.closed(sent), "ann", sent)


# The file


def test_the_store_is_its_owners_only(world):
    path = world.stores["ann"].path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    world.stores["ann"].close()
    path.chmod(0o644)
    with refused("holds-secrets", StoreError):
        SurveyDelegateStore.open(path)


def test_another_file_is_not_touched(tmp_path):
    path = tmp_path / "store"
    path.write_text("something else")
    path.chmod(0o600)
    with refused("wrong-file-kind", StoreError):
        SurveyDelegateStore.open(path)
    assert path.read_text() == "something else"


def test_a_store_that_is_deleted_while_open_gives_nothing(world):
    sent = all_sent(world)
    terms, store = world.closed(sent), world.stores["bob"]
    store.path.unlink()
    with refused("file-replaced", StoreError):
        store.commit(terms, "bob", sent)
    with refused("file-replaced", StoreError):
        store.new_key()


def test_keys_do_not_print_or_travel(world):
    sent = all_sent(world)
    key = world.stores["bob"].commit(world.closed(sent), "bob", sent)
    assert repr(key) == "<DelegateKey: private>"
    for one in (key, world.stores["bob"]):
        with pytest.raises(SecretError):
            pickle.dumps(one)


def test_a_code_is_not_kept(world):
    code = world.stores["ann"].invite("Firm 99", world.key("ann"))
    store = world.stores["ann"].path
    kept = b"".join(one.read_bytes() for one in store.parent.glob(f"{store.name}*"))
    public = survey_guest_key(code).public_key().public_bytes_raw()
    assert public in kept
    assert code.encode() not in kept
    assert code.replace("-", "").encode() not in kept
    assert survey_guest_key(code).private_bytes_raw() not in kept


def test_odd_guests_are_not_invited(world):
    store = world.stores["ann"]
    with refused("malformed-label"):
        store.invite("Firm\n1", world.key("ann"))
    with refused("key-length", mentions=("32",)):
        store.vouch("Firm 98", b"short", world.key("ann"))
    with refused("foreign-survey-key"):
        store.invite("Firm 97", world.key("bob"))


# Counting: against every coalition, tried one by one

members = st.sampled_from(["ann", "bob", "cem", "dan"])
rosters = st.lists(members, min_size=1, max_size=14)


def terms_with(inviters, tolerate, tolerate_guests, minimum_honest=3):
    guests = tuple(
        SurveyGuest(f"Firm {k}", bytes([k]) * 32, member)
        for k, member in enumerate(inviters)
    )
    return dataclasses.replace(
        TERMS,
        guests=guests,
        tolerate=tolerate,
        tolerate_guests=tolerate_guests,
        minimum_honest=minimum_honest,
    )


@given(rosters, st.integers(0, 3), st.integers(0, 3))
def test_the_worst_coalition_is_found_without_trying_all(inviters, tolerate, further):
    terms = terms_with(inviters, tolerate, further)
    tried = [
        sum(member not in coalition for member in inviters) - further
        for coalition in combinations(["ann", "bob", "cem", "dan"], tolerate)
    ]
    assert terms.honest([*terms.roster]) == max(0, min(tried))


@given(st.lists(st.integers(0, 6), min_size=4, max_size=4), *[st.integers(0, 3)] * 2)
def test_in_a_released_cell_enough_are_honest(filled, tolerate, further):
    """Coalition by coalition: those who filled it and whom nobody of it invited."""
    terms = terms_with(["ann"], tolerate, further)
    left = [
        sum(filled) - sum(coalition) - further
        for coalition in combinations(filled, tolerate)
    ]
    shown = sum(filled) >= terms.minimum_guests and min(left) > terms.minimum_honest
    assert terms.is_released(filled) is shown


class Bare(SurveyDelegateStore):
    """Counts without a file."""

    def __init__(self):
        pass


def span_refusal(terms, now, before):
    found = SurveySet(terms.digest, tuple((name, 1, "") for name in now), NOBODY, ())
    earlier = [AnsweredSurvey("1" * 64, "2" * 64, before)]
    try:
        Bare()._check_span(terms, found, earlier)
    except BudgetError:
        return True
    return False


@each("seed", range(200))
def test_two_sets_differ_by_none_or_by_many_for_every_coalition(seed):
    """The rule as it is said, coalition by coalition, guest by guest."""
    chance = random.Random(seed)
    inviters = chance.choices(["ann", "bob", "cem", "dan"], k=12)
    first = {*range(12)} - {*chance.sample(range(12), chance.randrange(5))}
    now_in = first ^ {*chance.sample(range(12), chance.randrange(7))}
    tolerate, further = chance.randrange(2), chance.randrange(3)
    terms = terms_with(inviters, tolerate, further, minimum_honest=2)
    before = {f"Firm {k}": inviters[k] for k in first}
    now = [f"Firm {k}" for k in now_in]

    def few(names):
        """Whether up to `further` guests of these may be known, and few left."""
        return 1 <= len(names) <= terms.minimum_honest + further

    shown = False
    for size in range(tolerate + 1):
        for coalition in combinations(sorted(set(inviters)), size):
            a = {n for n, member in before.items() if member not in coalition}
            b = {n for n in now if terms.roster[n].invited_by not in coalition}
            # A sum that has the new set in it is supported on b, a ^ b or a | b, which
            # is no smaller than b.
            shown |= bool(b) and (few(b) or few(a ^ b))
    assert span_refusal(terms, now, before) is shown


def test_who_may_be_one_person():
    """Ann renews her key, goes by bob's name for once, and comes back as anna."""
    ann, renewed, as_bob, anna = (
        ("ann", "a1"),
        ("ann", "a2"),
        ("bob", "a2"),
        ("x", "a2"),
    )
    bob, cem = ("bob", "b"), ("cem", "c")
    assert _inviters_who_may_be_one_person({ann, bob, cem}) == [
        frozenset({one}) for one in (ann, bob, cem)
    ]
    assert _inviters_who_may_be_one_person({ann, renewed}) == [
        frozenset({ann, renewed})
    ]
    found = _inviters_who_may_be_one_person({ann, renewed, as_bob, anna, bob, cem})
    assert {*found} == {
        frozenset({ann, renewed}),
        frozenset({bob, as_bob}),
        frozenset({anna}),
        frozenset({renewed, as_bob, anna}),
        frozenset({ann, renewed, as_bob, anna, bob}),
        frozenset({cem}),
    }


def test_who_invited_a_guest_is_known_by_name_and_key():
    """Of a survey that kept no keys, members are known by name."""
    guests = {"Firm 1": "ann", "Firm 2": "bob"}
    kept = AnsweredSurvey("1" * 64, "2" * 64, guests, {"ann": "a1", "bob": "b"})
    assert kept.invited == {"Firm 1": ("ann", "a1"), "Firm 2": ("bob", "b")}
    older = AnsweredSurvey("1" * 64, "2" * 64, guests)
    assert older.invited == {"Firm 1": ("ann", "ann"), "Firm 2": ("bob", "bob")}


def test_a_member_under_another_name_colludes_with_itself():
    """Five guests left: four came by bob and eve, who may be one person."""
    members = ["ann", "bob", "cem", "dan"]
    terms = dataclasses.replace(
        terms_with(members * 3, 1, 0, minimum_honest=2),
        persons=tuple((name, f"key of {name}") for name in members),
    )
    entries = tuple((name, 1, "") for name in terms.roster)
    found = SurveySet(terms.digest, entries, NOBODY, ())
    before = {name: guest.invited_by for name, guest in terms.roster.items()}
    before |= {"A": "eve", "B": "eve", "C": "bob", "D": "bob", "E": "cem"}

    def check(key_of_eve):
        persons = {**dict(terms.persons), "eve": key_of_eve}
        earlier = AnsweredSurvey("1" * 64, "2" * 64, before, persons)
        Bare()._check_span(terms, found, [earlier])

    check("key of eve")
    with refused("guest-set-differs-little", BudgetError):
        check("key of bob")


def test_too_many_coalitions_are_refused_and_not_tried():
    inviters = [f"member {k}" for k in range(100)]
    terms = terms_with(inviters, 5, 0)
    entries = tuple((name, 1, "") for name in terms.roster)
    found = SurveySet(terms.digest, entries, NOBODY, ())
    with refused("too-many-coalitions", BudgetError):
        Bare()._check_span(terms, found, [])


def test_what_is_known_already_does_not_end_all_surveys():
    """An earlier survey was content with fewer honest guests than this one asks for."""
    inviters = ["ann", "bob", "cem", "dan"] * 4
    terms = terms_with(inviters, 0, 0, minimum_honest=5)
    small = {f"Firm {k}": inviters[k] for k in range(4)}
    names = [*terms.roster]
    assert not span_refusal(terms, names, small)
    assert not span_refusal(terms, names[4:], small)
    assert span_refusal(terms, names[1:8], small)  # differs by five
    assert span_refusal(terms, names[:5], small)


def test_too_many_ways_to_add_and_subtract_are_refused_in_words_of_guests():
    """Six that may be shown are looked for among more groups than can be gone through.

    In 31 different ways guests were in five sums; a survey of all is the sixth.
    """
    guests = {f"Firm {k}": "ann" for k in range(62)}
    earlier = [
        {name: guests[name] for k, name in enumerate(guests) if (k % 31 + 1) >> bit & 1}
        for bit in range(5)
    ]
    now = dict.fromkeys(guests, ("ann", ""))
    before = [dict.fromkeys(one, ("ann", "")) for one in earlier]
    with refused(
        "history-too-large", BudgetError, mentions=("tolerate_guests", "minimum_honest")
    ):
        _guests_shown_to_coalitions(now, before, [frozenset()], 6)
    assert _guests_shown_to_coalitions(now, before, [frozenset()], 4) == ()
