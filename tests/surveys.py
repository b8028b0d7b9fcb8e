"""A survey to play with: three delegates, twelve guests, and everybody's keys."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from veilsum.agreement.consortium import consortium_from
from veilsum.agreement.pem import pem_of
from veilsum.agreement.survey import SurveyTerms, survey_terms

RUN = "a-survey-" + "0123456789abcdef" * 2
MEMBERS = ("ann", "bob", "cem")
N_GUESTS = 12


def delegate_key(name: str, survey: str = "one") -> X25519PrivateKey:
    """A delegate's private key: everybody's here, made of its name."""
    seed = sha256(f"delegate {name} {survey}".encode()).digest()
    return X25519PrivateKey.from_private_bytes(seed)


def seed_of(guest: str) -> bytes:
    return sha256(f"guest {guest}".encode()).digest()


def guest_row(name: str, invited_by: str) -> dict[str, str]:
    key = Ed25519PrivateKey.from_private_bytes(seed_of(name)).public_key()
    return {
        "name": name,
        "key": key.public_bytes_raw().hex(),
        "invited_by": invited_by,
    }


@cache
def _survey() -> dict[str, Any]:
    return {
        "title": "Wages",
        "unit": 0.01,
        "rows": ["managers", "clerks"],
        "columns": ["women", "men"],
        "range": [-5, 1_000_000],
        "minimum_honest": 3,
        "minimum_guests": 5,
        "closes": "2026-12-01",
        "guest": [
            guest_row(f"Firm {k + 1}", MEMBERS[k % len(MEMBERS)])
            for k in range(N_GUESTS)
        ],
        "delegates": {
            name: delegate_key(name).public_key().public_bytes_raw().hex()
            for name in MEMBERS
        },
    }


def survey_table(**survey: Any) -> dict[str, Any]:
    """A consortium file with a survey, some of its keys changed."""
    return {
        "format": 1,
        "run": RUN,
        "title": "a survey",
        "members": [
            {"name": name, "certificate": pem_of(f"of {name}".encode())}
            for name in MEMBERS
        ],
        "graph": {"edges": [["ann", "bob"], ["bob", "cem"], ["ann", "cem"]]},
        "masks": {"law": "uniform"},
        "policy": {"tolerate": 1, "minimum_honest": 2},
        "survey": {**_survey(), **survey},
    }


def opened(**survey: Any) -> SurveyTerms:
    """What the survey says."""
    return survey_terms(consortium_from(survey_table(**survey)))
