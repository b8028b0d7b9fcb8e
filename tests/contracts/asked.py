"""A small question of every kind, from the section of a file to the parties' data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from net.runs import data_files
from rules import EMISSIONS
from veilsum.drivers.faults import Faults
from veilsum.drivers.loopback import Loopback
from veilsum.files.ledger import open_ledger
from veilsum.privacy.accountant import Budget
from veilsum.tables.rules import DisclosureError

NAMES = ("a", "b", "c", "d")
POLICY = {"tolerate": 1, "resend": 0.2, "deadline": 10.0}
# A few parties, and statistics of whole parties: they must agree to both.
BY_PARTY = {"site_terms": True, "release_fraction": 1.0}
SCHEMA = {
    "minimum_rows": 150,
    "columns": {
        "x": {"kind": "number", "minimum": -10, "maximum": 10},
        "dose": {"kind": "number", "minimum": 0, "maximum": 4},
        "ward": {"kind": "category", "categories": ["01", "02", "03"]},
        "y": {"kind": "number", "minimum": -50, "maximum": 50},
        "ill": {"kind": "integer", "minimum": 0, "maximum": 1},
    },
}
# Sections by name: a heading, and for a second example of it a word.
TABLES = {
    "model": {"formula": "y ~ x + dose + C(ward)"},
    "model logistic": {"formula": "ill ~ x + dose", "family": "logistic"},
    "statistics": {"columns": ["x", "dose"], "tables": [["ward"]]},
    "survival": {"formula": "Surv(dose, ill) ~ 1", "times": [1, 2.5]},
    "cox": {"formula": "Surv(dose, ill) ~ x"},
    "mixed": {"formula": "y ~ x + dose"},
    "meta": {
        "formula": "y ~ x + dose",
        "coefficient": "x",
        "effects": [-5, 5],
        "errors": [0.01, 1],
    },
    "evaluate": {"formula": "y ~ x", "coefficients": {"Intercept": 0, "x": 1.5}},
    "totals": {"columns": ["dose", "ill"]},
}
DISPATCHES = {
    "dispatch": {"prices": [0, 50]},
    "dispatch periods": {"prices": [0, 50], "periods": 2},
}
QUESTIONS = (*TABLES, *DISPATCHES)


def frames(rows=200):
    stream = np.random.default_rng(8)
    found = {}
    for name in NAMES:
        x, dose = stream.normal(size=rows), stream.uniform(0, 4, size=rows)
        odds = 1 / (1 + np.exp(0.3 - x + 0.2 * dose))
        found[name] = pd.DataFrame(
            {
                "x": x,
                "dose": dose,
                "ward": stream.choice(["01", "02", "03"], size=rows),
                "y": 1.5 * x - dose + stream.normal(size=rows),
                "ill": (stream.uniform(size=rows) < odds).astype(int),
            }
        )
    return found


def fleets(periods):
    unit = {"a": 0.1, "b": 10.0, "low": 0.0, "high": 90.0}
    found = {}
    for k, name in enumerate(NAMES):
        needed = {"demand": 20.0 + k}
        if periods:
            needed = {"demand_1": 20.0 + k, "demand_2": 40.0}
            unit = {**unit, "ramp": 30.0}
        found[name] = pd.DataFrame([needed, unit])
    return found


def heading(name):
    return name.partition(" ")[0]


def scenario(name, folder):
    """The sections of a question's file, with the parties' tables beside it."""
    table = {"title": name, "graph": {"family": "ring:4"}, "policy": {**POLICY}}
    if name in DISPATCHES:
        asked, data = DISPATCHES[name], fleets("periods" in DISPATCHES[name])
    else:
        asked, data = TABLES[name], frames()
        table["schema"] = SCHEMA
        if name == "model logistic":
            table["masks"] = {"law": "lattice", "sigma": 1e6}
        if name in {"cox", "mixed", "meta"}:
            table["policy"] |= BY_PARTY
    return data_files({**table, heading(name): asked}, data, folder)


@dataclass(frozen=True, kw_only=True)
class Watched(Loopback):
    """Keeps the world that it has run, and the order of charges and emissions.

    Attributes:
        objector: a party, and the number of the first request that it has no answer to.
        charged: for each charge the party, the epoch, and the length of the history.
    """

    faults: Faults = field(default_factory=Faults)
    objector: tuple[str, int] | None = None
    worlds: list = field(default_factory=list)
    charged: list = field(default_factory=list)

    def world(self, assignment):
        self.worlds.append(super().world(assignment))
        return self.worlds[-1]

    def carry_out(self, assignment):
        if self.objector is not None:
            party, number = self.objector
            assignment.works[party] = Objector(assignment.works[party], number)

        def charge(party, emission, sums):
            assignment.charge(party, emission, sums)
            at = len(self.worlds[-1].history)
            self.charged.append((party, emission.epoch, at))

        booked = None if assignment.charge is None else charge
        return super().carry_out(replace(assignment, charge=booked))

    @property
    def emitted(self):
        """By party and epoch: place in the history of the first masked numbers sent."""
        (world,) = self.worlds
        found = {}
        for place, event in enumerate(world.history):
            if event.what != "send":
                continue
            message = world.plan.codec.decode(event.detail)
            if isinstance(message, EMISSIONS):
                masked = getattr(message, "masked", message)
                if getattr(masked, "party", event.party) == event.party:
                    found.setdefault((event.party, masked.epoch), place)
        return found


REASON = "one row has everything"


class Objector:
    """A party's work that has no answer from one request on."""

    def __init__(self, own, number):
        self.own, self.number = own, number
        failing = replace(own.contribution, answer=self.refuse)
        self.objecting = replace(own, contribution=failing)

    def refuse(self, request):
        raise DisclosureError("minimum_count", REASON)

    def vector(self, answers):
        work = self.own if len(answers) < self.number else self.objecting
        return work.vector(answers)

    def objection(self, answers):
        work = self.own if len(answers) <= self.number else self.objecting
        return work.objection(answers)

    def __getattr__(self, name):
        return getattr(self.own, name)


def ledgers(folder, names=NAMES):
    folder.mkdir(exist_ok=True)
    return {
        name: open_ledger(folder / f"{name}.ledger", create=Budget()) for name in names
    }
