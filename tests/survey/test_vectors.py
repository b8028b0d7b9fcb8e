"""The values that the page's JavaScript is tested with are what Python makes."""

import base64
import json
from fractions import Fraction
from hashlib import sha256

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from survey.make_vectors import PLACE, terms_of, vectors
from veilsum.errors import InvalidInputError
from veilsum.surveys.submission import (
    SUITE,
    open_sealed_share,
    read_invitation_code,
    read_submission,
    survey_guest_key,
)

KEPT = json.loads(PLACE.read_text())
RANDOM = {"sealed", "sealed_sha256", "statement", "signature", "digest", "line", "set"}


def without_seals(table):
    return {
        key: [without_seals(one) for one in value] if key == "delegates" else value
        for key, value in json.loads(json.dumps(table)).items()
        if key not in RANDOM | {"set_entries"}
    }


def test_all_but_the_seals_is_made_again():
    assert without_seals(vectors()) == without_seals(KEPT)


@pytest.mark.parametrize("typed", KEPT["typed"])
def test_codes_are_read_however_they_are_typed(typed):
    assert read_invitation_code(typed) == KEPT["code"]
    assert survey_guest_key(typed).private_bytes_raw().hex() == KEPT["seed"]


@pytest.mark.parametrize("typed", KEPT["not_codes"])
def test_what_is_no_code_is_refused(typed):
    with pytest.raises(InvalidInputError, match="invitation"):
        read_invitation_code(typed)


def test_the_kept_line_is_a_submission_that_opens():
    keys = {
        one["name"]: X25519PrivateKey.from_private_bytes(bytes.fromhex(one["private"]))
        for one in KEPT["delegates"]
    }
    terms = terms_of(keys, bytes.fromhex(KEPT["public"]))
    found = read_submission(KEPT["line"], terms)
    assert found.to_json() == KEPT["line"]
    assert found.statement(terms.names).decode() == KEPT["statement"]
    total = found.words
    for one in KEPT["delegates"]:
        opened = open_sealed_share(terms, found, one["name"], keys[one["name"]])
        assert opened.astype("<u8").tobytes() == base64.b64decode(one["share"])
        total = total + opened
    assert [str(word) for word in total.tolist()] == KEPT["words"]


def test_words_are_the_table_in_units():
    """Worked out by hand from the description, without the package."""
    flat = [cell for row in KEPT["cells"] for cell in row]
    units = [0 if one is None else Fraction(str(one)) * 100 for one in flat]
    assert [int(word) for word in KEPT["words"]] == [int(one) % 2**64 for one in units]
    bits = "".join(str(int(cell is not None)) for cell in flat)
    assert (len(bits), KEPT["filled"]) == (6, f"{int(bits, 2) << 2:02x}")


def test_seals_and_signature_follow_the_description():
    """HPKE and Ed25519 called directly, on texts as they are kept."""
    masked = base64.b64decode(KEPT["masked"])
    left = np.array([int(word) for word in KEPT["words"]], dtype=np.uint64)
    for one in KEPT["delegates"]:
        filled = sha256(bytes.fromhex(KEPT["filled"])).hexdigest()
        lines = [KEPT["survey"], one["name"], KEPT["guest"], "2"]
        lines += [filled, KEPT["masked_sha256"]]
        assert one["info"] == "\n".join(["veilsum guest 2", *lines])
        key = X25519PrivateKey.from_private_bytes(bytes.fromhex(one["private"]))
        sealed = base64.b64decode(one["sealed"])
        share = SUITE.decrypt(sealed, key, one["info"].encode())
        left -= np.frombuffer(share, dtype="<u8")
    assert left.astype("<u8").tobytes() == masked
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(KEPT["public"])).verify(
        base64.b64decode(KEPT["signature"]), KEPT["statement"].encode()
    )
