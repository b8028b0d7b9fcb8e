"""Whole surveys: real delegates with keys and folders, guests that visit, a close."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import numpy as np

from net.runs import WAITS, Company
from net.village import HOST, QUICK, free_port
from veilsum.consortium.consortium import consortium_from
from veilsum.net.identity import new_identity
from veilsum.party.local import LocalPartySeat
from veilsum.party.own_survey import STORE, SUBMISSIONS
from veilsum.surveys.delegate import SurveyDelegateStore
from veilsum.surveys.submission import guest_submission
from veilsum.surveys.survey_set import survey_set_of, write_submissions
from veilsum.surveys.terms import survey_closing_entries, survey_terms

MEMBERS = ("ann", "bob", "cem")
N_GUESTS = 20
ROWS, COLUMNS = ["managers", "clerks", "drivers"], ["women", "men"]
CENTS = 100


def cells(place):
    """What a guest gives: cents, some below 0, and the last row by few."""
    stream = np.random.default_rng(place)
    counts = stream.integers(-50_000, 900_000_000, (3, 2)).tolist()
    counts[1][0] %= -99_999  # somebody has to pay
    found = [[one / CENTS for one in row] for row in counts]
    if place % 3 == 0:
        found[1][1] = None
    found[2] = [None, found[2][1] if place < 4 else None]
    return found


def in_cents(guests):
    """Exact totals in cents and how many gave, with Python's integers alone."""
    given, totals = [[0, 0] for _ in ROWS], [[0, 0] for _ in ROWS]
    for table in guests.values():
        for i, row in enumerate(table):
            for j, one in enumerate(row):
                given[i][j] += one is not None
                totals[i][j] += 0 if one is None else round(one * CENTS)
    return given, totals


class Surveyors(Company):
    """Delegates of one survey; every call of `run` starts them (again)."""

    def __init__(self, folder, *, guests=None, members=MEMBERS, **sections):
        self.guests = guests or {f"Firm {k + 1}": cells(k) for k in range(N_GUESTS)}
        identities = {name: new_identity(name, folder / name) for name in members}
        self.seats = {
            name: LocalPartySeat(name, folder / name, ("--data", "."))
            for name in members
        }
        rows, self.codes, keys = [], {}, {}
        for name in members:
            with closing(SurveyDelegateStore.open(self.folder(name) / STORE)) as store:
                own = store.new_key()
                keys[name] = own.hex()
                mine = [*self.guests][members.index(name) :: len(members)]
                self.codes |= {guest: store.invite(guest, own) for guest in mine}
                rows += [
                    {"name": guest.decode(), "key": key.hex(), "invited_by": name}
                    for key, guest in store._live().execute(
                        "SELECT key, name FROM invited"
                    )
                ]
        survey = {
            "title": "Wages",
            "unit": 0.01,
            "rows": ROWS,
            "columns": COLUMNS,
            "range": [-1000, 10_000_000],
            "guest": sorted(rows, key=lambda row: [*self.guests].index(row["name"])),
            "delegates": keys,
            **sections.pop("survey", {}),
        }
        self.table = {
            "format": 1,
            "run": "wages-" + "0123456789abcdef" * 2,
            "members": [
                {
                    "name": name,
                    "certificate": one.certificate,
                    "address": f"{HOST}:{free_port()}",
                }
                for name, one in identities.items()
            ],
            "graph": {
                "edges": [
                    [a, b] for k, a in enumerate(members) for b in members[k + 1 :]
                ]
            },
            "masks": {"law": "uniform"},
            "policy": {"tolerate": 1, **WAITS},
            **sections,
            "survey": survey,
        }
        self.limits, self.records, self.budgets, self.options = QUICK, {}, {}, {}
        self.drivers, self.proxies, self._doors = {}, {}, {}
        self.over, self.ahead, self._moved = None, {}, asyncio.Event()
        self.opened = consortium_from(self.table)
        self.open_terms = survey_terms(self.opened)
        self.submissions = [
            guest_submission(self.open_terms, self.codes[name], table)
            for name, table in self.guests.items()
        ]
        self.close(self.submissions)

    def close(self, submissions, *names):
        """Hand a set out to some of the delegates, or all: file and submissions."""
        named = survey_set_of(self.open_terms, submissions)
        closing = survey_closing_entries(self.open_terms, named.digest, named.tally)
        survey = {**self.table["survey"], **closing}
        closed = consortium_from({**self.table, "survey": survey})
        for name in names or self.names:
            path = Path(self.folder(name)) / SUBMISSIONS
            path.write_bytes(write_submissions(submissions))
            if names:
                self.options[name] = {"consortium": closed}
        if not names:
            self.consortium = closed
