"""A survey to play with: three delegates, twelve guests, and everybody's keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.pem import pem_of_der
from veilsum.surveys.delegate import (
    SurveyDelegateStore,
    survey_masked_sums,
    survey_share_sums,
)
from veilsum.surveys.submission import (
    SurveySubmission,
    Words,
    guest_submission,
    new_invitation_code,
    survey_guest_key,
)
from veilsum.surveys.survey_set import SurveySet, survey_set_of
from veilsum.surveys.terms import SurveyTerms, survey_closing_entries, survey_terms

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
            {"name": name, "certificate": pem_of_der(f"of {name}".encode())}
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


def closed_with(said: dict[str, Any], chosen: SurveySet) -> SurveyTerms:
    """The same with a set, as the host closes it."""
    closing = survey_closing_entries(opened(**said), chosen.digest, chosen.tally)
    return opened(**said, **closing)


class World:
    """Members with real stores, guests with invitations, and a survey between them.

    `kind` is what the delegates are; an attack's twin leaves out one of their duties.
    """

    def __init__(
        self,
        folder: Path,
        kind: type[SurveyDelegateStore] = SurveyDelegateStore,
        n_guests: int = N_GUESTS,
        **survey: Any,
    ) -> None:
        self.folder, self.kind, self.asked = folder, kind, survey
        self.stores = {name: kind.open(folder / f"{name}.surveys") for name in MEMBERS}
        self.codes: dict[str, str] = {}
        self.inviter: dict[str, str] = {}
        self.guest: list[dict[str, str]] = []
        for k in range(n_guests):
            self.invite(f"Firm {k + 1}", MEMBERS[k % len(MEMBERS)])
        self.open_survey()

    def invite(self, name: str, member: str, claimed: str | None = None) -> None:
        """Have a member invite a guest; the host may claim that another did.

        What is claimed is not written down by the member.
        """
        self.codes[name] = new_invitation_code()
        if claimed in (None, member):
            self.inviter[name] = member
        key = survey_guest_key(self.codes[name]).public_key().public_bytes_raw()
        row = {"name": name, "key": key.hex(), "invited_by": claimed or member}
        self.guest.append(row)

    def open_survey(self, **survey: Any) -> SurveyTerms:
        """Make new keys, and the file with all who are invited."""
        keys = {name: one.new_key() for name, one in self.stores.items()}
        for name, member in self.inviter.items():
            public = survey_guest_key(self.codes[name]).public_key().public_bytes_raw()
            self.stores[member].vouch(name, public, keys[member])
        made = {name: one.hex() for name, one in keys.items()}
        said = {"guest": self.guest, "delegates": made}
        self.said = {**self.asked, **said, **survey}
        self.terms = opened(**self.said)
        return self.terms

    def key(self, member: str) -> bytes:
        """A delegate's public key of the survey that is open."""
        return dict(self.terms.delegates)[member]

    def visit(self, name: str, value: float, number: int = 1) -> SurveySubmission:
        """A guest comes with the same number in every cell."""
        row = [value] * len(self.terms.columns)
        cells = [row for _ in self.terms.rows]
        return guest_submission(self.terms, self.codes[name], cells, number)

    def all_visit(self, values: Mapping[str, float]) -> list[SurveySubmission]:
        return [self.visit(name, value) for name, value in values.items()]

    def closed(self, submissions: Sequence[SurveySubmission]) -> SurveyTerms:
        """The host closes the survey with these."""
        chosen = survey_set_of(self.terms, submissions)
        return closed_with(self.said, chosen)

    def contribution(
        self, name: str, terms: SurveyTerms, submissions: Sequence[SurveySubmission]
    ) -> Words:
        """What one delegate puts into the sum, if it takes part."""
        key = self.stores[name].commit(terms, name, submissions)
        return survey_share_sums(terms, submissions, key)

    def total(
        self, terms: SurveyTerms, submissions: Sequence[SurveySubmission]
    ) -> list[int]:
        """What everybody learns: the sum of all, and nothing else of delegates."""
        found = survey_masked_sums(terms, submissions)
        for name in self.stores:
            found = found + self.contribution(name, terms, submissions)
        return [int(one) for one in found.astype(np.int64)]

    def close(self) -> None:
        for one in self.stores.values():
            one.close()
