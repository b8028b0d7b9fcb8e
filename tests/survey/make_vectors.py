"""Write vectors.json: values by which another program shows that it makes the same.

Everything but the seals is the same each time. Run it only when the format changes:

    python tests/survey/make_vectors.py
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from veilsum.surveys.submission import (
    SUITE,
    SurveySubmission,
    masked_survey_bytes,
    read_invitation_code,
    sealed_share_info,
    submission_sha256,
    survey_guest_key,
)
from veilsum.surveys.survey_set import survey_set_of
from veilsum.surveys.terms import SurveyGuest, SurveyTerms, guest_table_of

PLACE = Path(__file__).with_name("vectors.json")
SURVEY = sha256(b"a survey's digest").hexdigest()
SECRET = "0123456789ABCDEFGHJKMNPQRS"
GUEST = "Müller & Söhne, 株式会社"
DELEGATES = ("alice", "Universität Köln", "carol-3")
CELLS = [[1234567.89, None, 0], [-0.01, 9_000_000_000.0, 1e-2]]


def text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def stretched(label: str, size: int) -> bytes:
    """Bytes that look random, and are the same each time."""
    blocks = (sha256(f"{label} {k}".encode()).digest() for k in range(size // 32 + 1))
    return b"".join(blocks)[:size]


def code_of(secret: str) -> str:
    """The code, made here a second time from its description."""
    letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    digest = sha256(f"veilsum code 1\n{secret}".encode()).hexdigest()
    bits = f"{int(digest, 16):0256b}"
    whole = secret + letters[int(bits[:5], 2)] + letters[int(bits[5:10], 2)]
    return "-".join(whole[k : k + 4] for k in range(0, 28, 4))


def terms_of(keys: dict[str, X25519PrivateKey], public: bytes) -> SurveyTerms:
    return SurveyTerms(
        digest=SURVEY,
        title="Vectors",
        unit=Fraction(1, 100),
        rows=("a", "b"),
        columns=("x", "y", "z"),
        low=-1000,
        high=10_000_000_000,
        minimum_honest=2,
        minimum_guests=3,
        tolerate=1,
        tolerate_guests=0,
        closes="",
        guests=(SurveyGuest(GUEST, public, DELEGATES[0]),),
        delegates=tuple(
            (name, key.public_key().public_bytes_raw()) for name, key in keys.items()
        ),
    )


def vectors() -> dict[str, object]:
    code = code_of(SECRET)
    key = survey_guest_key(code)
    keys = {
        name: X25519PrivateKey.from_private_bytes(stretched(f"delegate {name}", 32))
        for name in DELEGATES
    }
    terms = terms_of(keys, key.public_key().public_bytes_raw())
    table = guest_table_of(terms, CELLS)
    filled, words = table.filled, table.words
    shares = [stretched(f"share {name}", words.nbytes) for name in DELEGATES]
    number = 2
    masked = masked_survey_bytes(words, shares)
    infos = [
        sealed_share_info(SURVEY, name, GUEST, number, filled, masked)
        for name in DELEGATES
    ]
    sealed = tuple(
        SUITE.encrypt(share, keys[name].public_key(), info)
        for share, name, info in zip(shares, DELEGATES, infos, strict=True)
    )
    unsigned = SurveySubmission(SURVEY, GUEST, number, filled, masked, sealed, b"")
    statement = unsigned.statement(DELEGATES)
    found = replace(unsigned, signature=key.sign(statement))
    chosen = survey_set_of(terms, [found])
    return {
        "about": (
            "HPKE: base mode, X25519, HKDF-SHA256, AES-256-GCM, single shot, enc || "
            "ciphertext; info as given and an EMPTY aad. Words are little-endian u64. "
            "filled: a bit for each cell, row by row, most significant first."
        ),
        "code": code,
        "typed": [
            code,
            code.lower(),
            code.replace("-", ""),
            f" {code.replace('-', ' ')} ",
            code.replace("0", "O").replace("1", "I"),
            code.replace("0", "o").replace("1", "l"),
        ],
        "not_codes": [
            code[:-1],
            code + "0",
            "U" + code[1:],
            code[:-1] + ("0" if code[-1] != "0" else "2"),
            "1" + code[1:],
            code[1] + code[0] + code[2:],
            "",
        ],
        "secret": read_invitation_code(code).replace("-", "")[:26],
        "seed": key.private_bytes_raw().hex(),
        "public": key.public_key().public_bytes_raw().hex(),
        "survey": SURVEY,
        "unit": "1/100",
        "range": [terms.low, terms.high],
        "rows": terms.rows,
        "columns": terms.columns,
        "guest": GUEST,
        "number": number,
        "cells": CELLS,
        "filled": filled.hex(),
        "words": [str(one) for one in words.tolist()],
        "delegates": [
            {
                "name": name,
                "private": keys[name].private_bytes_raw().hex(),
                "public": keys[name].public_key().public_bytes_raw().hex(),
                "share": text(share),
                "info": info.decode(),
                "sealed": text(one),
                "sealed_sha256": submission_sha256(one),
            }
            for name, share, info, one in zip(
                DELEGATES, shares, infos, sealed, strict=True
            )
        ],
        "masked": text(masked),
        "masked_sha256": submission_sha256(masked),
        "statement": statement.decode(),
        "signature": text(found.signature),
        "digest": found.digest(DELEGATES),
        "line": found.to_json(),
        "set": chosen.digest,
        "set_entries": [list(one) for one in chosen.entries],
    }


if __name__ == "__main__":
    PLACE.write_text(json.dumps(vectors(), indent=2, ensure_ascii=False) + "\n")
