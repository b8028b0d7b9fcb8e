"""Attacks on guests of a survey: each works on delegates without one of their duties.

In every attack the host and at most one delegate work together; they see all that
guests sent, what that delegate opens, and the totals. The twin is a delegate that keeps
every duty but one, and the attackers read one guest's number off what they have. With
the duty kept, the run does not come about.
"""

import csv
import dataclasses
import random
import secrets
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from cases import each
from refusals import refused
from surveys import MEMBERS, World, opened, survey_table
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.pem import pem_of_der
from veilsum.errors import BudgetError, InvalidInputError, RangeError, StoreError
from veilsum.party.surveying import survey_member_letters
from veilsum.surveys import submission, survey_set
from veilsum.surveys.delegate import (
    SurveyDelegateStore,
    check_survey_roster,
    survey_masked_sums,
    survey_share_sums,
)
from veilsum.surveys.question import SurveyRecipe
from veilsum.surveys.store_copy import copy_store, put_store_copy_in_use
from veilsum.surveys.submission import (
    SUITE,
    SurveySubmission,
    X25519PrivateKey,
    guest_submission,
    make_submission,
    masked_survey_bytes,
    open_sealed_share,
    submission_sha256,
    survey_guest_key,
)
from veilsum.surveys.survey_set import SurveySet
from veilsum.surveys.terms import (
    GuestTable,
    guest_table_of,
    survey_closing_entries,
    survey_tally_of,
    survey_terms,
)
from veilsum.surveys.words import survey_released_words
from veilsum.web.guest_page import guest_page_as_single_file, page_survey

VICTIM = "Firm 5"  # invited by bob, who is honest; ann is with the host
ANN, BOB, CEM = MEMBERS
CELLS = {"rows": ["wage"], "columns": ["all"], "unit": 1, "range": [0, 1000]}


def values(n_guests=12):
    chance = random.Random(1)
    return {f"Firm {k + 1}": chance.randrange(1000) for k in range(n_guests)}


@pytest.fixture
def make_world(tmp_path):
    made = []

    def make(kind=SurveyDelegateStore, **options):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(World(folder, kind, **{**CELLS, **options}))
        return made[-1]

    yield make
    for one in made:
        one.close()


# 1. One set for a survey, ever


class ForgetsSets(SurveyDelegateStore):
    """Adds up whatever the closed file of the day names."""

    def _check_one_set(self, terms, found, earlier):
        pass


def difference_of_two_sets(world):
    """Close a survey with everybody, and again without one."""
    sent = world.all_visit(values())
    fewer = [one for one in sent if one.guest != VICTIM]
    whole = world.total(world.closed(sent), sent)
    part = world.total(world.closed(fewer), fewer)
    return whole[0] - part[0]


@pytest.mark.parametrize("after", ["a restart", "the end"])
def test_a_second_set_is_refused_after(after, make_world):
    world = make_world()
    sent = world.all_visit(values())
    terms = world.closed(sent)
    world.total(terms, sent)
    store = world.stores[BOB]
    if after == "the end":
        store.finish(terms)
    else:
        store.close()
        store = SurveyDelegateStore.open(store.path)
    with refused("other-set-added", BudgetError):
        store.commit(world.closed(sent[1:]), BOB, sent[1:])
    store.close()


def test_two_processes_do_not_write_down_two_sets(make_world):
    """Both have looked before either writes: the second sees what the first wrote."""
    world = make_world()
    sent = world.all_visit(values())

    class Slow(SurveyDelegateStore):
        def examine(self, terms, me, submissions):
            found = super().examine(terms, me, submissions)
            world.stores[BOB].commit(world.closed(sent), BOB, sent)
            return found

    slow = Slow.open(world.stores[BOB].path)
    with refused("other-set-added", BudgetError):
        slow.commit(world.closed(sent[1:]), BOB, sent[1:])
    slow.close()


def test_nothing_leaves_a_delegate_that_could_not_write_the_set_down(make_world):
    world = make_world()
    sent = world.all_visit(values())
    other = sqlite3.connect(world.stores[BOB].path)
    other.execute(
        "CREATE TRIGGER no BEFORE INSERT ON closed BEGIN "
        "SELECT RAISE(ABORT, 'the disk is full'); END"
    )
    other.commit()
    other.close()
    with refused("database-damaged", Exception):
        world.contribution(BOB, world.closed(sent), sent)


# 4. Nothing replayed

COPIES = 40
SMALL = {name: value % 5 for name, value in values(9).items()}


def crowded(make_world):
    """Nine guests with small numbers, and many that ann has made up."""
    world = make_world(n_guests=9)
    for k in range(COPIES):
        world.invite(f"Copy {k + 1}", ANN)
    world.open_survey()
    return world


def replayed(world):
    """What the victim sent, once more under the name of each made-up guest.

    Their keys are the attackers', and so are the signatures. A masked vector may be
    moved by a known number; a seal to an honest delegate is what it is.
    """
    sent = world.all_visit(SMALL)
    (found,) = (one for one in sent if one.guest == VICTIM)
    for k in range(COPIES):
        name = f"Copy {k + 1}"
        moved = found.words
        moved[0] += np.uint64(k)
        bare = dataclasses.replace(found, guest=name, masked=moved.tobytes())
        signature = survey_guest_key(world.codes[name]).sign(bare.statement(MEMBERS))
        sent.append(dataclasses.replace(bare, signature=signature))
    return sent


def whole_part(world, sent):
    """The victim's number: the others' sum is less than one of so many copies."""
    terms = world.closed(sent)
    known = sum(range(COPIES))
    return (world.total(terms, sent)[0] - known) // (COPIES + 1)


def lenient_set(terms, submissions):
    """`survey_set_of` without looking for what is there twice."""
    by_guest = {one.guest: one for one in submissions}
    entries = (
        (name, by_guest[name].number, by_guest[name].digest(terms.names))
        for name in terms.roster
        if name in by_guest
    )
    tally = survey_tally_of(terms, {name: one.filled for name, one in by_guest.items()})
    bits = tuple(by_guest[name].filled for name in terms.roster if name in by_guest)
    return SurveySet(terms.digest, tuple(entries), tally, bits)


def without_search_for_doubles(monkeypatch):
    monkeypatch.setattr(survey_set, "survey_set_of", lenient_set)
    monkeypatch.setattr("surveys.survey_set_of", lenient_set)


def test_one_guest_replayed_many_times_is_the_total(make_world, monkeypatch):
    monkeypatch.setattr(submission, "sealed_share_info", lambda *_: b"")
    without_search_for_doubles(monkeypatch)
    world = crowded(make_world)
    assert whole_part(world, replayed(world)) == SMALL[VICTIM]


def test_what_is_bound_to_a_guest_does_not_open_under_another_name(
    make_world, monkeypatch
):
    without_search_for_doubles(monkeypatch)
    world = crowded(make_world)
    with refused("share-not-opened", mentions=("Copy 1", "1,")):
        whole_part(world, replayed(world))


def test_what_is_there_twice_is_seen_even_if_it_opens(make_world, monkeypatch):
    monkeypatch.setattr(submission, "sealed_share_info", lambda *_: b"")
    world = crowded(make_world)
    with refused("duplicate-submission"):
        whole_part(world, replayed(world))


# 5. A correction shares nothing with what it corrects


def thrifty_correction(survey, guest, key, old_shares, table, number):
    """A guest's program that draws a new share for the first delegate only."""
    filled, words = table.filled, table.words
    shares = [secrets.token_bytes(words.nbytes), *old_shares[1:]]
    masked = masked_survey_bytes(words, shares)
    sealed = tuple(
        SUITE.encrypt(
            share,
            submission.X25519PublicKey.from_public_bytes(public),
            submission.sealed_share_info(
                survey.digest, name, guest, number, filled, masked
            ),
        )
        for share, (name, public) in zip(shares, survey.delegates, strict=True)
    )
    bare = SurveySubmission(survey.digest, guest, number, filled, masked, sealed, b"")
    return dataclasses.replace(bare, signature=key.sign(bare.statement(survey.names)))


def private_key(store, public):
    """A delegate's key, taken out of its own file: ann is with the host."""
    with store.transaction("BEGIN"):
        return X25519PrivateKey.from_private_bytes(
            store._one("SELECT private FROM key WHERE public = ?", public)[0]
        )


def change_seen(world, first, second):
    """What host and ann make of a correction: their guess of what was corrected."""
    key = private_key(world.stores[ANN], dict(world.terms.delegates)[ANN])
    without = [
        one.words + open_sealed_share(world.terms, one, ANN, key)
        for one in (first, second)
    ]
    return int((without[1] - without[0]).astype(np.int64)[0])


def test_a_correction_that_reuses_shares_shows_what_was_corrected(make_world):
    world = make_world()
    key = survey_guest_key(world.codes[VICTIM])
    first = world.visit(VICTIM, 300)
    others = {
        name: private_key(world.stores[name], public)
        for name, public in world.terms.delegates
    }
    shares = [
        open_sealed_share(world.terms, first, name, others[name])
        .astype("<u8")
        .tobytes()
        for name in world.terms.names  # the guest's own program remembers them
    ]
    table = guest_table_of(world.terms, [[317]])
    second = thrifty_correction(world.terms, VICTIM, key, shares, table, 2)
    assert change_seen(world, first, second) == 17
    # It can be read and opened: nobody but its guest could have noticed.
    submission.check_submission(second, world.terms)


def test_a_correction_draws_every_share_anew(make_world):
    world = make_world()
    first, second = world.visit(VICTIM, 300), world.visit(VICTIM, 317, number=2)
    # What is left has bob's and cem's shares of both: anything, of 2^64.
    assert abs(change_seen(world, first, second)) > 2**40


def test_only_one_number_of_a_guest_is_added(make_world):
    world = make_world()
    sent = [*world.all_visit(values()), world.visit(VICTIM, 1, number=2)]
    with refused("duplicate-guest"):
        world.closed(sent)


# 6. Invented guests, and the host's own roster


class CountsHeads(SurveyDelegateStore):
    """Believes that guests who sign are honest."""

    def _check_count(self, terms, found):
        assert len(found.guests) > terms.minimum_honest

    def _check_span(self, terms, found, earlier):
        pass


def alone_among_invented(world):
    """Close with the victim and guests that ann made up, whose numbers are known."""
    for k in range(8):
        world.invite(f"Invented {k + 1}", ANN)
    world.open_survey()
    invented = {f"Invented {k + 1}": 100 + k for k in range(8)}
    sent = world.all_visit({VICTIM: values()[VICTIM], **invented})
    return world.total(world.closed(sent), sent)[0] - sum(invented.values())


class TrustsTheRoster(SurveyDelegateStore):
    """Does not look whether it invited those that it is said to have invited."""

    def _check_invited(self, terms, me):
        pass


def under_others_names(world):
    """The same, but the host writes that bob and cem invited them."""
    for k in range(9):
        world.invite(f"Invented {k + 1}", ANN, claimed=MEMBERS[k % 3])
    world.open_survey()
    invented = {f"Invented {k + 1}": 100 + k for k in range(9)}
    sent = world.all_visit({VICTIM: values()[VICTIM], **invented})
    return world.total(world.closed(sent), sent)[0] - sum(invented.values())


class LooksAtItsOwnLines(SurveyDelegateStore):
    """Looks at those that it is said to have invited, and at no other guest."""

    def _check_invited(self, terms, me):
        mine = [one for one in terms.guests if one.invited_by == me]
        there = {one.key for one in mine}
        invited = [one for one in self._invited() if one[1] in there]
        check_survey_roster(dataclasses.replace(terms, guests=tuple(mine)), me, invited)


def under_the_hosts_name(world):
    """Bob's guest stands in the file as ann's, who colludes; she asks twice.

    Sets may differ by guests of hers: those that she invented, and bob's guest.
    """
    numbers, known = values(), {f"Invented {k + 1}": 100 + k for k in range(6)}
    for name in known:
        world.invite(name, ANN)
    for row in world.guest:
        if row["name"] == VICTIM:
            row["invited_by"] = ANN
            victim = bytes.fromhex(row["key"])
    world.open_survey()
    world.stores[ANN].vouch(VICTIM, victim, world.key(ANN))
    first = world.all_visit({**numbers, **known})
    whole = world.total(world.closed(first), first)
    away = {VICTIM, *known}
    world.guest[:] = [row for row in world.guest if row["name"] not in away]
    for name in away:
        del world.inviter[name]
    world.open_survey(title="The same once more")
    second = world.all_visit({k: v for k, v in numbers.items() if k != VICTIM})
    rest = world.total(world.closed(second), second)
    return whole[0] - rest[0] - sum(known.values())


def test_a_member_joins_no_survey_with_its_guest_under_anothers_name(make_world):
    world = make_world()
    with refused(
        "guest-of-other-delegate", BudgetError, mentions=("ann", repr(VICTIM))
    ):
        under_the_hosts_name(world)
    with refused("guest-of-other-delegate", BudgetError, mentions=("bob",)):
        world.stores[BOB].check_file(world.terms, BOB)


def of_a_lying_inviter(world):
    """Ann's own guest, and guests that she invented, are in one survey of two."""
    guest, known = "Firm 1", {f"Invented {k + 1}": 100 + k for k in range(6)}
    assert world.inviter[guest] == ANN
    for name in known:
        world.invite(name, ANN)
    world.open_survey()
    first = world.all_visit({**values(), **known})
    whole = world.total(world.closed(first), first)
    world.open_survey(title="The same once more")
    second = world.all_visit({k: v for k, v in values().items() if k != guest})
    rest = world.total(world.closed(second), second)
    return whole[0] - rest[0] - sum(known.values())


def test_the_pages_hash_does_not_protect_a_lying_inviters_guest(make_world):
    """Open: the true page, and the number follows from two totals nevertheless.

    Rules count guests as their inviter's: who colludes may show its own.
    """
    assert of_a_lying_inviter(make_world()) == values()["Firm 1"]


class RemembersInvitations(SurveyDelegateStore):
    """Vouches for a guest once and for all."""

    def _check_invited(self, terms, me):
        now, asked = dict(terms.delegates)[me], {one.key for one in terms.guests}
        ever = [(now, *one) for _, *one in self._invited() if one[0] in asked]
        check_survey_roster(terms, me, ever)


def with_last_years_guests(world):
    """Bob invites nobody this year, and stands in the file with last year's guests.

    Their codes have been lying about for a year; the host has them.
    """
    old = [one for one in world.guest if one["invited_by"] == BOB]
    world.guest.clear()
    world.inviter.clear()
    world.invite("Alone", CEM)
    for k in range(5):
        world.invite(f"Invented {k + 1}", ANN)
    world.guest += old
    world.open_survey(title="Next year")
    known = {one["name"]: 10 + k for k, one in enumerate(world.guest)}
    sent = world.all_visit({**known, "Alone": values()[VICTIM]})
    (total,) = world.total(world.closed(sent), sent)
    return total - sum(known.values()) + known["Alone"]


def test_a_guest_is_not_invited_under_two_names(make_world):
    """Or the victim were two guests, and a later survey another one's."""
    world = make_world()
    row = next(one for one in world.guest if one["name"] == VICTIM)
    with refused("duplicate-guest-key", mentions=("Firm 5",)):
        world.stores[BOB].vouch("Company 5", bytes.fromhex(row["key"]), world.key(BOB))
    row["name"] = "Company 5"
    world.open_survey()
    world.codes["Company 5"] = world.codes[VICTIM]
    numbers = {**values(), "Company 5": 1}
    del numbers[VICTIM]
    sent = world.all_visit(numbers)
    with refused("foreign-invitation", BudgetError, mentions=("bob", "Company 5")):
        world.total(world.closed(sent), sent)


def test_a_key_of_the_hosts_in_a_delegates_place_opens_every_share(make_world):
    """And a delegate that looks at the file before guests are invited finds it."""
    world = make_world()
    host = {name: X25519PrivateKey.generate() for name in (BOB, CEM)}
    host[ANN] = private_key(world.stores[ANN], dict(world.terms.delegates)[ANN])
    world.said["delegates"] = {
        name: host[name].public_key().public_bytes_raw().hex() for name in MEMBERS
    }
    world.terms = opened(**world.said)
    found = world.visit(VICTIM, 123)
    total = found.words
    for name in MEMBERS:
        total = total + open_sealed_share(world.terms, found, name, host[name])
    assert total.tolist() == [123]
    world.stores[ANN].check_file(world.terms, ANN)
    with refused("foreign-survey-key"):
        world.stores[BOB].check_file(world.terms, BOB)


def filled_by_the_coalition(world, is_released):
    """One honest guest has a number in a cell, and all that ann invited fill it, too.

    `is_released` says whether a total is asked for, of how many by each member.
    """
    with_ann = [one["name"] for one in world.guest if one["invited_by"] == ANN]
    sent = []
    for name, code in world.codes.items():
        own = values(15)[name]
        first = 100 if name in with_ann else own if name == VICTIM else None
        sent.append(guest_submission(world.terms, code, [[first, own]]))
    terms = world.closed(sent)
    value, _ = world.total(terms, sent)
    if not is_released(terms)([one[0] for one in terms.tally.filled]):
        return None
    return value - 100 * len(with_ann)


def test_heads_in_a_cell_may_be_the_coalitions(make_world):
    """Of 15 guests, ann invited five; the usual rule asks for five in a cell."""
    two = {"columns": ["some", "all"], "n_guests": 15}

    def heads(terms):
        assert terms.minimum_guests == 5
        return lambda filled: sum(filled) >= terms.minimum_guests

    found = filled_by_the_coalition(make_world(**two), heads)
    assert found == values(15)[VICTIM]
    world = make_world(**two)
    assert filled_by_the_coalition(world, lambda terms: terms.is_released) is None


class LooksAtOneSurvey(SurveyDelegateStore):
    """Does not ask what earlier surveys and this one say together."""

    def _check_span(self, terms, found, earlier):
        pass


def asked_again(world):
    """The same question a week later; numbers have not changed, one guest is out."""
    first = world.all_visit(values())
    whole = world.total(world.closed(first), first)
    world.open_survey(title="The same once more")
    numbers = values()
    del numbers[VICTIM]
    second = world.all_visit(numbers)
    return whole[0] - world.total(world.closed(second), second)[0]


def asked_in_parts(world, n_guests=16):
    """Two halves, and then all but one: no two sets are near each other."""
    names = [f"Firm {k + 1}" for k in range(n_guests)]
    numbers = values(n_guests)
    parts = [names[:8], names[8:], [name for name in names if name != VICTIM]]
    found = []
    for k, part in enumerate(parts):
        world.open_survey(title=f"Part {k + 1}")
        sent = world.all_visit({name: numbers[name] for name in part})
        found += world.total(world.closed(sent), sent)
    return found[0] + found[1] - found[2]


def test_a_member_and_its_guests_may_come_later(make_world):
    """What differs is one member's and many: a coalition knows all of them, or none."""
    world = make_world(n_guests=12)
    first = world.all_visit(values())
    world.total(world.closed(first), first)
    for k in range(4):
        world.invite(f"Branch {k + 1}", CEM)
    world.open_survey(title="Next year")
    numbers = values() | {f"Branch {k + 1}": 1 for k in range(4)}
    second = world.all_visit(numbers)
    assert world.total(world.closed(second), second) == [sum(numbers.values())]


def over_six_surveys(world):
    """Guest h in the victim's place: the victim's number if that of h is right.

    An early rule was weaker: what followed then stands beside all that follow now.
    Three guests are known together, which today's rule would not allow. Every later set
    differs by four from each earlier one, and the victim falls out of all of them.
    """
    crowd, other = [*values(24)], [f"Other {k}" for k in range(24)]
    for k, name in enumerate(other):
        world.invite(name, MEMBERS[k % 3])
    for name in "abcdefgh":
        world.invite(name, BOB)
    numbers = {name: 37 * k % 1000 for k, name in enumerate(world.codes)}

    def ask(names, minimum_honest):
        world.open_survey(minimum_honest=minimum_honest)
        sent = [world.visit(name, numbers[name]) for name in names]
        return world.total(world.closed(sent), sent)[0]

    abc = ask([*crowd, *"abc"], 2) - ask(crowd, 2)
    abde, none = ask([*other, *"abde"], 3), ask(other, 3)
    defg, fgch = ask([*other, *"defg"], 3), ask([*other, *"fgch"], 3)
    found = (fgch - none) - (defg - none) + (abde - none) - abc
    return found - numbers["h"] + values()[VICTIM]


# Who chooses the set sees who filled a cell

RARELY = {"rows": ["common", "rare"], "columns": ["c"], "n_guests": 18}
LEFT_IT_EMPTY = ("Firm 1", "Firm 4", "Firm 6", "Firm 8", "Firm 9")


class ComparesSets(SurveyDelegateStore):
    """Holds sets of guests beside earlier ones, and no cells."""

    def _check_cells(self, mine, others, coalitions, few):
        pass


def asked_for_one_cell(world, *, again=()):
    """All come; then all but the victim and five who had left a cell empty.

    Whom the host asks again is its choice, and it sees who filled what. `again` is what
    the second survey's file has otherwise.
    """
    numbers = values(18)

    def ask(names, **survey):
        world.open_survey(**survey)
        sent = [
            guest_submission(
                world.terms,
                world.codes[name],
                [[numbers[name]], [None if name in LEFT_IT_EMPTY else numbers[name]]],
            )
            for name in names
        ]
        terms = world.closed(sent)
        assert terms.released == (0, 1)
        return world.total(terms, sent)[1]

    whole = ask(numbers)
    gone = {VICTIM, *LEFT_IT_EMPTY}
    return whole - ask([name for name in numbers if name not in gone], **dict(again))


@pytest.mark.parametrize("other", [{"rows": ["common", "seldom"]}, {"title": "2027"}])
def test_another_name_for_the_same_cell_is_not_recognised(make_world, other):
    """A limit that the guide says: members read the file before they agree."""
    world = make_world(**RARELY)
    assert asked_for_one_cell(world, again=other) == values(18)[VICTIM]


def test_a_copy_of_a_store_knows_who_filled_a_cell(make_world):
    world = make_world(**RARELY)

    def put_back():
        for name, store in world.stores.items():
            store.close()
            kept = store.path.with_suffix(".kept")
            copy_store(store.path, kept)
            put_store_copy_in_use(kept, ())
            kept.replace(store.path)
            world.stores[name] = SurveyDelegateStore.open(store.path)

    numbers = values(18)
    sent = world.all_visit(numbers)
    world.total(world.closed(sent), sent)
    kept = [store.answered() for store in world.stores.values()]
    put_back()
    assert [store.answered() for store in world.stores.values()] == kept
    title = world.terms.title
    assert {*kept[0][0].cells} == {(title, "common", "c"), (title, "rare", "c")}
    assert kept[0][0].filled((title, "rare", "c")) == kept[0][0].invited
    assert kept[0][0].filled((title, "rare", "d")) == {}


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_of_an_earlier_format_is_not_read_as_an_empty_one(make_world, version):
    world = make_world()
    store = world.stores[BOB]
    store.close()
    with closing(sqlite3.connect(store.path)) as file:
        file.execute("DROP TABLE head")
        if version == 1:
            file.execute("DROP TABLE cell")
        file.execute(f"PRAGMA user_version = {version}")
        file.commit()
    before = store.path.read_bytes()
    with refused("wrong-format", StoreError, mentions=(version, "3")):
        SurveyDelegateStore.open(store.path)
    assert store.path.read_bytes() == before


class KnowsNamesOnly(SurveyDelegateStore):
    """Takes a member under another name for somebody else."""

    def _check_span(self, terms, found, earlier):
        bare = [dataclasses.replace(one, persons={}) for one in earlier]
        super()._check_span(dataclasses.replace(terms, persons=()), found, bare)


def under_another_name(folder, kind, certificates):
    """Ann's guests of both years are the attackers', and bob's differ by one.

    `certificates` are those of her two names, ann and anna.
    """
    seats = {name: kind.open(folder / name[:3]) for name in (ANN, "anna", BOB, CEM)}
    numbers = {}

    def ask(first, invited, certificate, year):
        members, keys, rows, codes = (first, BOB, CEM), {}, [], {}
        for member, names in zip(members, invited, strict=True):
            made = seats[member].new_key()
            keys[member] = made.hex()
            for name in names:
                codes[name] = seats[member].invite(name, made)
                key = (
                    survey_guest_key(codes[name]).public_key().public_bytes_raw().hex()
                )
                rows.append({"name": name, "key": key, "invited_by": member})
                numbers.setdefault(name, 13 * len(numbers) + 1)
        table = survey_table(**CELLS, guest=rows, delegates=keys, title=year)
        shown = [certificate, b"of bob", b"of cem"]
        table["members"] = [
            {"name": name, "certificate": pem_of_der(der)}
            for name, der in zip(members, shown, strict=True)
        ]
        table["graph"] = {"edges": [[first, BOB], [BOB, CEM], [first, CEM]]}
        terms = survey_terms(consortium_from(table))
        sent = [
            guest_submission(terms, code, [[numbers[name]]])
            for name, code in codes.items()
        ]
        chosen = survey_set.survey_set_of(terms, sent)
        table["survey"] |= survey_closing_entries(terms, chosen.digest, chosen.tally)
        terms = survey_terms(consortium_from(table))
        total = survey_masked_sums(terms, sent)
        for name in members:
            key = seats[name].commit(terms, name, sent)
            total = total + survey_share_sums(terms, sent, key)
        return int(total[0])

    bobs, cems = ([f"Firm {m} {k}" for k in range(6)] for m in (BOB, CEM))
    before, after = ([f"{m} {k}" for k in range(4)] for m in (ANN, "anna"))
    try:
        difference = ask(ANN, (before, bobs, cems), certificates[0], "This year")
        names = (after, bobs[1:], cems)
        difference -= ask(certificates[2], names, certificates[1], "Next year")
    finally:
        for one in seats.values():
            one.close()
    own = sum(numbers[one] for one in before) - sum(numbers[one] for one in after)
    return difference - own, numbers[bobs[0]]


def test_a_member_under_a_second_name_has_twice_the_guests(tmp_path):
    both = (b"of ann", b"of ann", "anna")
    found, own = under_another_name(tmp_path, KnowsNamesOnly, both)
    assert found == own


@pytest.mark.parametrize(
    "again", [(b"of ann", b"of ann", "anna"), (b"of ann", b"renewed", ANN)]
)
def test_a_member_is_known_by_name_and_by_key(tmp_path, again):
    with refused("guest-set-differs-little", BudgetError):
        under_another_name(tmp_path, SurveyDelegateStore, again)


def test_a_member_with_another_name_and_another_key_is_somebody_else(tmp_path):
    """A limit that the guide says: whoever lets a member in knows who it is."""
    other = (b"of ann", b"renewed", "anna")
    found, own = under_another_name(tmp_path, SurveyDelegateStore, other)
    assert found == own


# 3. Nothing carried over


class CarriesOver:
    """Delegates that keep keys, and take last year's shares of who does not come."""

    def __init__(self, world):
        self.keys = {
            name: private_key(world.stores[name], public)
            for name, public in world.terms.delegates
        }
        self.terms = world.terms

    def total(self, terms, keys, old, new):
        came = {one.guest for one in new}
        kept = [one for one in old if one.guest not in came]
        found = survey_masked_sums(self.terms, kept) + survey_masked_sums(terms, new)
        for name in terms.names:
            for one in kept:
                found = found + open_sealed_share(
                    self.terms, one, name, self.keys[name]
                )
            for one in new:
                found = found + open_sealed_share(terms, one, name, keys[name])
        return int(found.astype(np.int64)[0])


def test_shares_that_are_carried_over_show_who_came_again(make_world):
    """All guests are in both years' totals; their difference is one guest's change."""
    world = make_world()
    old = world.all_visit(values())
    office = CarriesOver(world)
    before = office.total(world.terms, office.keys, old, [])
    terms = world.open_survey(title="Next year")
    keys = {name: private_key(world.stores[name], key) for name, key in terms.delegates}
    new = [world.visit(VICTIM, values()[VICTIM] + 21)]
    assert office.total(terms, keys, old, new) - before == 21


def test_nothing_is_carried_over_to_another_survey(make_world):
    world = make_world()
    old = world.all_visit(values())
    terms = world.closed(old)
    world.total(terms, old)
    world.open_survey(title="Next year")
    new = [world.visit(VICTIM, 1), *(one for one in old if one.guest != VICTIM)]
    with refused("other-survey"):
        world.closed(new)
    # Nor with the file that names last year's keys.
    world.said["delegates"] = {name: key.hex() for name, key in terms.delegates}
    world.terms = opened(**world.said)
    again = world.all_visit(values())
    with refused("key-of-other-survey", BudgetError):
        world.total(world.closed(again), again)


def test_a_key_is_gone_from_the_disk_after_the_answer(make_world):
    world = make_world()
    sent = world.all_visit(values())
    terms = world.closed(sent)
    world.total(terms, sent)
    store = world.stores[BOB]
    secret = private_key(store, dict(terms.delegates)[BOB]).private_bytes_raw()

    def on_disk():
        found = [store.path, *store.path.parent.glob(f"{store.path.name}-*")]
        return any(secret in one.read_bytes() for one in found)

    assert on_disk()
    store.finish(terms)
    assert not on_disk()
    with refused("survey-over"):
        store.commit(terms, BOB, sent)
    (kept,) = store.answered()
    assert (kept.survey, kept.set) == (terms.digest, terms.set)


def test_a_key_that_is_still_on_the_disk_is_not_said_to_be_gone(make_world):
    """Somebody reads the store meanwhile: its log must be kept for that one."""
    world = make_world()
    sent = world.all_visit(values())
    terms = world.closed(sent)
    world.total(terms, sent)
    store = world.stores[BOB]
    secret = private_key(store, world.key(BOB)).private_bytes_raw()

    def on_disk():
        return any(
            secret in one.read_bytes()
            for one in store.path.parent.glob(f"{store.path.name}*")
        )

    store._live().execute("PRAGMA busy_timeout = 10")
    with closing(sqlite3.connect(store.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM closed").fetchall()
        with refused("file-in-use", StoreError):
            store.finish(terms)
        assert on_disk()
    store.finish(terms)
    assert not on_disk()


# Who filled what is open, and counts once

RARE = {"rows": ["common", "rare"]}
LIAR = "Firm 2"  # invited by bob, and nobody's friend: it only has a page of its own


def tables(world):
    """All fill the common cell, and the victim alone the rare one."""
    return {
        name: [[100 + place], [777 if name == VICTIM else None]]
        for place, name in enumerate(world.codes)
    }


def sent_with(world, changes=None):
    """What guests send; of some, what is signed and sealed is made up."""
    changes = changes or {}
    return [
        make_submission(
            world.terms,
            name,
            survey_guest_key(world.codes[name]),
            changes.get(name, guest_table_of(world.terms, cells)),
            1,
        )
        for name, cells in tables(world).items()
    ]


def answered(world, terms, sent):
    """The survey's answer, by delegates that keep every duty."""
    recipe, masked = SurveyRecipe(terms), survey_masked_sums(terms, sent)

    def opened_by(name):
        key = world.stores[name].commit(terms, name, sent)
        return lambda: survey_share_sums(terms, sent, key)

    works = {
        name: recipe.contribution(name, shares=opened_by(name), masked=masked)
        for name in MEMBERS
    }
    return recipe.run(works, recipe.terms({"tolerate": 1}))


def claimed(world, sent, filled):
    """The survey closed with counts of the host's own."""
    chosen = survey_set.survey_set_of(world.terms, sent)
    closing = survey_closing_entries(world.terms, chosen.digest, chosen.tally)
    return opened(**world.said, **closing | {"filled": filled, "near": []})


# Of four guests by each member, so many filled the common and the rare cell.
MADE_UP = {ANN: [4, 4, 1], BOB: [4, 4, 4], CEM: [4, 4, 3]}


def test_counts_that_nobody_checks_release_one_guests_number(make_world, monkeypatch):
    """As it was when a count was a number that guests sent: who believes one is lost.

    The twin believes the closed file's. Then, a guest's page could have counted itself
    seven times; here, the host writes as much.
    """
    world = make_world(**RARE)
    sent = sent_with(world)
    terms = claimed(world, sent, MADE_UP)

    def believing(survey, submissions):
        found = survey_set.survey_set_of(survey, submissions)
        assert found.digest == survey.set
        return found

    monkeypatch.setattr("veilsum.surveys.delegate.closed_survey_set", believing)
    found = answered(world, terms, sent)
    assert found.given[1, 0] == 8
    assert found.counts[1] == 777  # the victim's own number


def test_counts_are_made_again_from_what_guests_signed(make_world):
    world = make_world(**RARE)
    sent = sent_with(world)
    terms = claimed(world, sent, MADE_UP)
    for name in MEMBERS:
        with refused("filled-differs"):
            world.stores[name].commit(terms, name, sent)
        assert world.stores[name].answered() == ()
    # The same counts under other members' names hide as many others, and are not true.
    turned = {ANN: [4, 4, 1], BOB: [4, 4, 0], CEM: [4, 4, 0]}
    with refused("filled-differs"):
        world.stores[CEM].commit(claimed(world, sent, turned), CEM, sent)


@pytest.mark.parametrize(("count", "says"), [(7, True), (7, False), (-1, True)])
def test_a_guest_counts_once_whatever_it_sends(make_world, count, says):
    """It says that it filled the rare cell, or not, and has any number in there."""
    world = make_world(**RARE)
    honest = guest_table_of(world.terms, tables(world)[LIAR])
    words = honest.words.copy()
    words[1] = count % 2**64
    bits = b"\xc0" if says else honest.filled
    sent = sent_with(world, {LIAR: GuestTable(bits, words)})
    found = answered(world, world.closed(sent), sent)
    assert found.given[1, 0] == 1 + says
    assert found.counts == (sum(range(100, 112)), None)


def test_a_number_beyond_the_range_is_added_and_pointed_out(make_world):
    """Nobody can see it in time: that is said, and the total shows that it was."""
    world = make_world(**RARE)
    words = np.array([10**9, 0], dtype=np.uint64)
    sent = sent_with(world, {LIAR: GuestTable(b"\x80", words)})
    found = answered(world, world.closed(sent), sent)
    assert found.counts[0] == sum(range(100, 112)) - 101 + 10**9
    assert found.beyond == ("common x all",)
    assert "beyond the range" in " ".join(found.guarantee.limits)


@pytest.mark.parametrize(
    ("bits", "why"),
    [
        (b"\xff", "more than the survey has cells"),  # seven times in one byte
        (b"\xc1", "more than the survey has cells"),
        (b"\xc0\xff", "must have 1 bytes, found 2"),
        (b"", "must have 1 bytes, found 0"),
    ],
)
def test_bits_for_cells_that_are_none_are_refused(make_world, bits, why):
    world = make_world(**RARE)
    words = guest_table_of(world.terms, tables(world)[LIAR]).words
    (found,) = (
        one
        for one in sent_with(world, {LIAR: GuestTable(bits, words)})
        if one.guest == LIAR
    )
    with pytest.raises(InvalidInputError, match=why):
        submission.read_submission(found.to_json(), world.terms)
    with pytest.raises(InvalidInputError, match=why):
        survey_set.survey_set_of(world.terms, [found])


def filled_by_the_host(world):
    """The host says for seven guests that they filled the rare cell as well."""
    sent = sent_with(world)
    others = [one for one in sent if one.guest != VICTIM][:7]
    return [
        dataclasses.replace(one, filled=b"\xc0") if one in others else one
        for one in sent
    ]


def without_signatures(monkeypatch):
    class Nods:
        @classmethod
        def from_public_bytes(cls, key):
            return cls()

        def verify(self, signature, statement):
            pass

    monkeypatch.setattr(submission, "Ed25519PublicKey", Nods)


def test_bits_that_are_neither_signed_nor_sealed_are_the_hosts(make_world, monkeypatch):
    without_signatures(monkeypatch)

    def loosely(survey, delegate, guest, number, filled, masked):
        return f"{survey} {delegate} {guest} {number} {masked.hex()}".encode()

    monkeypatch.setattr(submission, "sealed_share_info", loosely)
    world = make_world(**RARE)
    sent = filled_by_the_host(world)
    assert answered(world, world.closed(sent), sent).counts[1] == 777


def test_bits_are_in_the_signature(make_world):
    world = make_world(**RARE)
    with refused("bad-signature"):
        world.closed(filled_by_the_host(world))


def test_bits_are_in_the_seal(make_world, monkeypatch):
    """Even where the guests' keys were stolen: what was sealed says otherwise."""
    without_signatures(monkeypatch)
    world = make_world(**RARE)
    sent = filled_by_the_host(world)
    with refused("share-not-opened"):
        answered(world, world.closed(sent), sent)


def test_a_total_and_a_part_show_who_filled_but_one_and_that_is_said_before(make_world):
    """A limit that is pointed out: all gave all of it as the part, but the victim."""
    world = make_world(columns=["total", "part"])
    sent = [
        guest_submission(world.terms, code, [[one, None if name == VICTIM else one]])
        for (name, code), one in zip(
            world.codes.items(), values().values(), strict=True
        )
    ]
    terms = world.closed(sent)
    assert terms.tally.near == ((1, 0),)
    assert "LOOK OUT: wage x part and wage x total" in " ".join(
        survey_released_words(terms)
    )
    found = answered(world, terms, sent)
    assert found.counts[0] - found.counts[1] == values()[VICTIM]
    assert found.near == (("wage x part", "wage x total"),)
    # The twin: where all fill both, nothing is said, and nobody is shown.
    world = make_world(columns=["total", "part"])
    sent = world.all_visit(values())
    assert world.closed(sent).tally.near == ()


def test_of_cells_with_the_same_guests_each_is_named(make_world):
    """Heads and the part have the same guests: the part goes with the total."""
    world = make_world(columns=["heads", "total", "part"])
    sent = [
        guest_submission(
            world.terms, code, [[*([None] if name == VICTIM else [1]), one, last]]
        )
        for (name, code), one in zip(
            world.codes.items(), values().values(), strict=True
        )
        for last in [None if name == VICTIM else one]
    ]
    terms = world.closed(sent)
    assert terms.tally.near == ((0, 1), (2, 1))
    told = " ".join(survey_released_words(terms))
    assert "wage x heads and wage x total, wage x part and wage x total were" in told
    assert terms.tally.more_near is False


def sparse(make_world, total):
    """One guest alone fills a part; all give the other part, and `total` or not."""
    world = make_world(columns=["women", "divers", "all"], range=[0, 2000])
    sent = []
    for (name, code), one in zip(world.codes.items(), values().values(), strict=True):
        rare = 777 if name == VICTIM else None
        whole = one + (rare or 0) if total else None
        sent.append(guest_submission(world.terms, code, [[one, rare, whole]]))
    return world, world.closed(sent), sent


def test_what_too_few_filled_follows_from_a_total_and_that_is_said_before(make_world):
    """A limit that is pointed out: the same guests filled both, so nothing is near."""
    world, terms, sent = sparse(make_world, total=True)
    assert (terms.released, terms.tally.near) == ((0, 2), ())
    found = answered(world, terms, sent)
    assert found.counts[2] - found.counts[0] == 777
    told = " ".join(survey_released_words(terms))
    assert "LOOK OUT: wage x divers got no total, for too few filled them" in told
    assert found.may_follow == ("wage x divers",)
    assert "Look out: wage x divers got no total" in " ".join(found.summary().split())
    # The twin: beside one released cell nothing can be subtracted.
    _, terms, _ = sparse(make_world, total=False)
    assert (terms.released, terms.may_follow) == ((0,), ())
    assert "LOOK OUT" not in " ".join(survey_released_words(terms))


# One duty less


MANY = {"n_guests": 16}
DUTIES = {
    "one set": (ForgetsSets, {}, difference_of_two_sets, "one set of a survey, ever"),
    "honest guests": (
        CountsHeads,
        {},
        alone_among_invented,
        "of these 9 guests 1 are surely honest",
    ),
    "own guests": (TrustsTheRoster, {}, under_others_names, "that 'bob' invited 'Inv"),
    "everybody's guests": (
        LooksAtItsOwnLines,
        {},
        under_the_hosts_name,
        f"that 'ann' invited {VICTIM!r}, whose key",
    ),
    "invitations to one survey": (
        RemembersInvitations,
        {},
        with_last_years_guests,
        "taken it from an earlier survey",
    ),
    "two surveys": (LooksAtOneSurvey, {}, asked_again, "would tell of Firm 5 alone"),
    "three surveys": (
        LooksAtOneSurvey,
        MANY,
        asked_in_parts,
        r"would tell of .*Firm 5",
    ),
    "six surveys": (
        LooksAtOneSurvey,
        {"n_guests": 24},
        over_six_surveys,
        "beside earlier surveys this one would tell",
    ),
    "cells": (
        ComparesSets,
        RARELY,
        asked_for_one_cell,
        "of rare x c would tell of Firm 5 alone.* ask again without these cells",
    ),
}


@each("duty", DUTIES)
def test_one_duty_less_shows_one_guests_number(duty, make_world):
    """Each attack reads the number where one duty is neglected, and is refused else."""
    less, options, attack, words = DUTIES[duty]
    n_guests = options.get("n_guests", 12)
    assert attack(make_world(less, **options)) == values(n_guests)[VICTIM]
    with pytest.raises(BudgetError, match=words) as no:
        attack(make_world(**options))
    assert "common" not in str(no.value)


# Who invites


def letters_of(world, member, page_hash, language="en"):
    codes = {name: world.codes[name] for name, by in world.inviter.items()}
    mine = {name: codes[name] for name in codes if world.inviter[name] == member}
    page = "https://survey.example.org"
    made = survey_member_letters(
        world.terms, member, mine, page=page, page_hash=page_hash, language=language
    )
    return next(csv.DictReader(made.decode().splitlines(True)))["letter"]


def test_a_page_of_the_inviters_reads_its_guest_and_has_another_hash(make_world):
    """Bob's letter has the hash of bob's page: all that a guest compares is right.

    The page seals to keys of his, and what he reads goes on under the guest's name.
    What shows it is the hash that every other member has: it is one for all guests.
    """
    world = make_world()
    own = {name: X25519PrivateKey.generate() for name in MEMBERS}
    public = {name: key.public_key().public_bytes_raw() for name, key in own.items()}
    told = dataclasses.replace(world.terms, delegates=tuple(public.items()))
    typed = guest_submission(told, world.codes[VICTIM], [[123]])
    read = typed.words
    for name, key in own.items():
        read = read + open_sealed_share(told, typed, name, key)
    assert read.tolist() == [123]
    others = {name: one for name, one in values().items() if name != VICTIM}
    sent = [*world.all_visit(others), world.visit(VICTIM, int(read[0]))]
    assert world.total(world.closed(sent), sent) == [sum(others.values()) + 123]

    def page_hash(terms):
        address = "https://survey.example.org/submissions"
        return submission_sha256(
            guest_page_as_single_file(page_survey(terms), address).encode()
        )

    assert page_hash(told) != page_hash(world.terms)
    letter = " ".join(letters_of(world, BOB, page_hash(told)).split())
    assert f"SHA-256 {page_hash(told)}" in letter
    assert "so ask another member (ann, cem) for it. It is the same for all" in letter
    assert "can answer in your name: you, and bob, who made it" in letter


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("en", "type 0, which counts as a number", "cannot be disguised"),
        ("de", "geben Sie 0 ein; das zählt als Zahl", "also nicht verdecken"),
    ],
)
def test_a_letter_advises_0_where_it_can_be_typed(make_world, language, one, other):
    world = make_world()
    assert world.visit(VICTIM, 0).number == 1
    letter = " ".join(letters_of(world, BOB, "ab" * 32, language).split())
    assert one in letter
    assert other not in letter
    for ends in [1, 1000], [-1000, -1]:
        world = make_world(range=ends)
        with refused("value-out-of-range", RangeError):
            world.visit(VICTIM, 0)
        letter = " ".join(letters_of(world, BOB, "ab" * 32, language).split())
        assert one not in letter
        assert other in letter


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "Up to 1 of the members who work together, the host among them or not,"),
        ("de", "zusammenarbeiten, der Anbieter der Seite darunter oder nicht, mit den"),
    ],
)
def test_the_host_is_one_of_those_who_may_collude(make_world, language, said):
    """Six, four and one are invited: a second member beside the host leaves one."""
    world = make_world()
    by = [*[ANN] * 6, *[BOB] * 4, CEM]
    rows = zip(world.guest[: len(by)], by, strict=True)
    guests = [dict(one, invited_by=who) for one, who in rows]
    terms = opened(**{**world.said, "guest": guests})
    assert terms.honest(terms.roster) == 5
    assert terms.honest(terms.roster, 2) == 1
    assert said in " ".join(letters_of(world, BOB, "ab" * 32, language).split())
