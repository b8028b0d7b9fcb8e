"""Submissions: exact, whole, their guest's own, and bound to one place each."""

import dataclasses
import json
import secrets

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from refusals import refused
from surveys import MEMBERS, delegate_key, guest_row, opened, seed_of
from veilsum.errors import InvalidInputError, VeilsumError
from veilsum.surveys import submission
from veilsum.surveys.delegate import survey_masked_sums, survey_share_sums
from veilsum.surveys.submission import (
    ALPHABET,
    SEAL_BYTES,
    Ed25519PrivateKey,
    SurveySubmission,
    check_submission,
    longest_submission,
    make_submission,
    new_invitation_code,
    open_sealed_share,
    read_invitation_code,
    read_submission,
    survey_guest_key,
)
from veilsum.surveys.survey_set import survey_set_of
from veilsum.surveys.terms import guest_table_of

TERMS = opened()
KEYS = {name: delegate_key(name) for name in MEMBERS}


def key_of(guest):
    return Ed25519PrivateKey.from_private_bytes(seed_of(guest))


def sent(guest, cells, number=1, terms=TERMS):
    words = guest_table_of(terms, cells)
    return make_submission(terms, guest, key_of(guest), words, number)


ONE = sent("Firm 1", [[1, 2], [None, 4.25]])


# Invitations


def test_codes_are_read_as_they_are_shown():
    for _ in range(50):
        code = new_invitation_code()
        assert read_invitation_code(code) == code
        assert [len(group) for group in code.split("-")] == [4] * 7


def test_codes_have_130_bits_of_chance(monkeypatch):
    drawn = []
    monkeypatch.setattr(secrets, "choice", lambda of: drawn.append(of) or of[0])
    new_invitation_code()
    assert drawn == [ALPHABET] * 26
    assert len(set(ALPHABET)) == 32


@given(
    st.text(ALPHABET, min_size=26, max_size=26),
    st.integers(0, 27),
    st.sampled_from(ALPHABET),
)
def test_a_wrong_letter_is_found_or_gives_another_key(secret, place, letter):
    """Ten bits find all but one in a thousand; the roster's keys find the rest."""
    letters = [*submission._shown_guest_code(secret).replace("-", "")]
    before = "".join(letters)
    letters[place] = letter
    typed = "".join(letters)
    if typed == before:
        return
    try:
        key = survey_guest_key(typed)
    except InvalidInputError:
        return
    assert key.private_bytes_raw() != survey_guest_key(before).private_bytes_raw()


def test_typing_errors_are_found_nearly_always():
    """Every letter exchanged for every other one, and every two neighbours."""
    code = new_invitation_code().replace("-", "")
    typed = [
        code[:k] + letter + code[k + 1 :]
        for k in range(28)
        for letter in ALPHABET
        if letter != code[k]
    ]
    typed += [
        code[:k] + code[k + 1] + code[k] + code[k + 2 :]
        for k in range(27)
        if code[k] != code[k + 1]
    ]

    def passes(text):
        try:
            return bool(read_invitation_code(text))
        except InvalidInputError:
            return False

    # About 830 of 26 x 31 + 25 wrong secrets at 1/1024 each: ten would be one in 10^8.
    assert sum(map(passes, typed)) < 10


def test_what_was_typed_is_not_repeated():
    with pytest.raises(InvalidInputError) as error:
        read_invitation_code("MY-SECRET-CODE")
    assert "SECRET" not in str(error.value)


# Round trips

cells = st.one_of(
    st.none(),
    st.integers(-5, 10**6),
    st.integers(-500, 10**8).map(lambda units: units / 100),
)
tables = st.lists(st.lists(cells, min_size=2, max_size=2), min_size=2, max_size=2)


@settings(max_examples=30)
@given(tables)
def test_a_submission_is_read_as_it_was_sent(table):
    found = sent("Firm 2", table)
    again = read_submission(found.to_json(), TERMS)
    assert again == found
    assert read_submission(found.to_json().encode(), TERMS) == found
    total = found.words + sum(
        open_sealed_share(TERMS, found, name, key) for name, key in KEYS.items()
    )
    wanted = guest_table_of(TERMS, table)
    assert np.array_equal(total, wanted.words)
    assert found.filled == wanted.filled


@settings(max_examples=20)
@given(st.lists(tables, min_size=1, max_size=12))
def test_totals_are_exact(given_tables):
    all_sent = [sent(f"Firm {k + 1}", one) for k, one in enumerate(given_tables)]
    found = survey_masked_sums(TERMS, all_sent)
    for key in KEYS.values():
        found = found + survey_share_sums(TERMS, all_sent, key)
    flat = [[cell for row in table for cell in row] for table in given_tables]
    counts = [sum(cell is not None for cell in one) for one in zip(*flat, strict=True)]
    assert survey_set_of(TERMS, all_sent).tally.given == tuple(counts)
    units = [
        sum(round(cell * 100) for cell in one if cell is not None)
        for one in zip(*flat, strict=True)
    ]
    assert found.astype(np.int64).tolist() == units


def test_totals_at_the_ends_of_the_range_do_not_wrap_around():
    terms = opened(unit=1, range=[-(2**58), 2**58])
    for end in (2**58, -(2**58)):
        table = [[end, end], [end, end]]
        all_sent = [sent(f"Firm {k + 1}", table, terms=terms) for k in range(12)]
        found = survey_masked_sums(terms, all_sent)
        for key in KEYS.values():
            found = found + survey_share_sums(terms, all_sent, key)
        assert found.astype(np.int64).tolist() == [12 * end] * 4


def test_sizes_are_what_the_page_says():
    """k + 1 vectors of 8 bytes a cell, a bit a cell, and little more."""
    vector = 8 * TERMS.n_cells
    assert ONE.filled == bytes([0b1101_0000])
    assert len(ONE.masked) == vector
    assert [len(one) for one in ONE.sealed] == [vector + SEAL_BYTES] * 3
    assert len(ONE.to_json()) <= longest_submission(TERMS)


def test_the_longest_name_still_fits():
    name = "\U0001f600" * 100  # twelve escaped letters each
    others = [guest_row(f"Firm {k}", MEMBERS[k % 3]) for k in range(9)]
    terms = opened(guest=[guest_row(name, "ann"), *others])
    found = sent(name, [[1, 2], [3, 4]], terms=terms)
    escaped = json.dumps(json.loads(found.to_json()), indent=1)
    assert len(escaped) <= longest_submission(terms)
    assert read_submission(escaped, terms) == found


# What was changed is refused


def changed(**fields):
    return dataclasses.replace(ONE, **fields)


def flipped(content, place=0):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


TAMPERED = {
    "survey": (changed(survey="0" * 64), "another survey"),
    "guest": (changed(guest="Firm 2"), "signature"),
    "a stranger": (changed(guest="Firm 99"), "not in the roster"),
    "number": (changed(number=2), "signature"),
    "number zero": (changed(number=0), ">= 1"),
    "masked": (changed(masked=flipped(ONE.masked)), "signature"),
    "filled": (changed(filled=b"\xf0"), "signature"),
    "filled, another bit": (changed(filled=b"\xd8"), "more than the survey has cells"),
    "filled, longer": (changed(filled=b"\xd0\x00"), "1 bytes, found 2"),
    "filled, nothing": (changed(filled=b""), "1 bytes, found 0"),
    "masked, shorter": (changed(masked=ONE.masked[:-8]), "24 bytes"),
    **{
        f"sealed {k}": (
            changed(
                sealed=tuple(
                    flipped(one, 40) if k == place else one
                    for place, one in enumerate(ONE.sealed)
                )
            ),
            "signature",
        )
        for k in range(3)
    },
    "seals in another order": (changed(sealed=ONE.sealed[::-1]), "signature"),
    "a seal too few": (changed(sealed=ONE.sealed[:2]), "2 sealed shares for 3"),
    "a seal too many": (changed(sealed=(*ONE.sealed, b"")), "4 sealed shares for 3"),
    "one seal for two": (changed(sealed=(ONE.sealed[0],) * 3), "one sealed share"),
    "a short seal": (changed(sealed=(b"", *ONE.sealed[1:])), "must have 80 bytes"),
    "signature": (changed(signature=flipped(ONE.signature)), "signature"),
    "no signature": (changed(signature=b""), "signature"),
}


@each("name", TAMPERED)
def test_every_field_is_signed(name):
    found, why = TAMPERED[name]
    with pytest.raises(InvalidInputError, match=why):
        read_submission(found.to_json(), TERMS)


@settings(max_examples=60)
@given(st.integers(0, len(ONE.to_json()) - 1), st.characters(codec="ascii"))
def test_one_letter_changed_is_refused_or_changes_nothing(place, letter):
    line = ONE.to_json()
    typed = line[:place] + letter + line[place + 1 :]
    try:
        assert read_submission(typed, TERMS) == ONE
    except InvalidInputError:
        assert typed != line


def test_a_signed_submission_of_another_key_is_refused():
    bare = changed(signature=b"")
    forged = dataclasses.replace(
        bare, signature=key_of("Firm 2").sign(bare.statement(TERMS.names))
    )
    with refused("bad-signature"):
        check_submission(forged, TERMS)


def resigned(found, guest):
    """The attackers' own guest signs whatever they like."""
    bare = dataclasses.replace(found, signature=b"")
    return dataclasses.replace(
        bare, signature=key_of(guest).sign(bare.statement(TERMS.names))
    )


ELSEWHERE = {
    "guest": resigned(changed(guest="Firm 2"), "Firm 2"),
    "number": resigned(changed(number=2), "Firm 1"),
    "choice of cells": resigned(changed(filled=b"\xf0"), "Firm 1"),
    "masked vector": resigned(changed(masked=flipped(ONE.masked)), "Firm 1"),
    "delegate": resigned(changed(sealed=ONE.sealed[::-1]), "Firm 1"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_seal_opens_in_its_own_place_only(name):
    found = ELSEWHERE[name]
    check_submission(found, TERMS)  # signed all right, by a guest who is corrupt
    assert open_sealed_share(TERMS, ONE, "ann", KEYS["ann"]).size == TERMS.n_cells
    with refused("share-not-opened", mentions=("ann",)):
        open_sealed_share(TERMS, found, "ann", KEYS["ann"])


def test_a_seal_does_not_open_for_another_survey_or_delegate():
    other = dataclasses.replace(TERMS, digest="0" * 64)
    with refused("share-not-opened"):
        open_sealed_share(other, ONE, "ann", KEYS["ann"])
    with refused("share-not-opened"):
        open_sealed_share(TERMS, ONE, "ann", KEYS["bob"])
    with refused("not-a-delegate"):
        survey_share_sums(TERMS, [ONE], delegate_key("ann", "another survey"))


# Whatever comes


@given(st.one_of(st.binary(max_size=300), st.text('{}[]":,0aé\ud800', max_size=30)))
def test_anything_else_is_refused_in_a_sentence(content):
    with pytest.raises(InvalidInputError):
        read_submission(content, TERMS)


words = st.text("abA0=é\n", max_size=90)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(words, inner)),
    max_leaves=5,
)


@given(st.sampled_from([*json.loads(ONE.to_json())]), json_values)
def test_any_value_in_any_field_is_refused(field, value):
    table = json.loads(ONE.to_json())
    if table[field] == value and type(table[field]) is type(value):
        return
    table[field] = value
    with pytest.raises(VeilsumError):
        read_submission(json.dumps(table), TERMS)


ODD = {
    "deep": "[" * 4000,
    "deep in a field": '{"survey": ' + "[" * 4000,
    "an unknown field": ONE.to_json()[:-1] + ',"more": 1}',
    "a field too few": '{"survey": "a"}',
    "too long": " " * (longest_submission(TERMS) + 1),
    "spaces in base64": ONE.to_json().replace('"masked":"', '"masked":" '),
    "capital digits": ONE.to_json().replace('"filled":"d0"', '"filled":"D0"'),
    "a space in digits": ONE.to_json().replace('"filled":"d0"', '"filled":"d0 "'),
    "no digits": ONE.to_json().replace('"filled":"d0"', '"filled":"zz"'),
    "bits as a number": ONE.to_json().replace('"filled":"d0"', '"filled":208'),
    "a number with a point": ONE.to_json().replace('"number":1', '"number":1.5'),
    "a huge number": ONE.to_json().replace('"number":1', f'"number":1{"0" * 300}'),
    "true": ONE.to_json().replace('"number":1', '"number":true'),
}


@each("name", ODD)
def test_odd_lines_are_refused(name):
    with pytest.raises(InvalidInputError):
        read_submission(ODD[name], TERMS)


def test_base64_has_one_spelling():
    """Padding bits that mean nothing would make two lines of one submission."""
    table = json.loads(ONE.to_json())
    assert table["signature"].endswith("==")
    last = table["signature"][-3]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    table["signature"] = (
        table["signature"][:-3] + alphabet[alphabet.index(last) ^ 1] + "=="
    )
    with refused("not-base64"):
        read_submission(json.dumps(table), TERMS)


def test_an_odd_delegates_key_is_found_before_anything_is_sent():
    """Nothing can be hidden by a key of small order."""
    odd = tuple((name, bytes(32)) for name, _ in TERMS.delegates)
    terms = dataclasses.replace(TERMS, delegates=odd)
    with refused("unusable-delegate-key"):
        sent("Firm 1", [[1, 2], [3, 4]], terms=terms)


def test_submissions_are_values():
    assert isinstance(ONE, SurveySubmission)
    assert read_submission(ONE.to_json(), TERMS) == ONE
