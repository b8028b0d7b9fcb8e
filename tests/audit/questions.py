"""Small agreements to audit, and the old way to sum."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from attacks import old_ways
from veilsum.audit.question import AuditRehearsal
from veilsum.consortium.consortium import Address
from veilsum.consortium.drafting import consortium_of
from veilsum.consortium.pem import pem_of_der
from veilsum.consortium.sections import ScenarioFile
from veilsum.reading import read_section

NAMES = ("ann", "bob", "cem", "dee", "eve")
COLUMNS = {
    "age": {"kind": "integer", "minimum": 18, "maximum": 95},
    "smoker": {"kind": "integer", "minimum": 0, "maximum": 1},
    "bmi": {"kind": "number", "minimum": 10, "maximum": 80, "unit": 0.1},
    "pressure": {"kind": "number", "minimum": 40, "maximum": 260},
    "days": {"kind": "integer", "minimum": 0, "maximum": 1000},
    "ward": {"kind": "category", "categories": ["north", "south", "west"]},
}
FIT = {"model": {"formula": "pressure ~ age + bmi + C(ward)"}}
COUNTS = {
    "statistics": {
        "columns": ["age", "bmi"],
        "by": "smoker",
        "histograms": {"pressure": [120, 150, 180]},
        "tables": [["ward"]],
    }
}
COST = {
    "cost": {"kind": "squared-distance", "dim": 3, "unit": 0.01},
    "domain": {"kind": "all"},
    "method": {"name": "one-shot"},
    "masks": {"law": "uniform", "largest": 1000.0},
}
ASKED = {
    "least squares": FIT,
    "logistic": {"model": {"formula": "smoker ~ age + bmi", "family": "logistic"}},
    "statistics": COUNTS,
    "survival": {
        "survival": {"formula": "Surv(days, smoker) ~ C(ward)", "times": [300, 600]}
    },
    "stratified cox": {"cox": {"formula": "Surv(days, smoker) ~ age + bmi"}},
    "dispatch": {"dispatch": {"prices": [0, 50], "unit": 0.1}},
    "a cost": COST,
}


@cache
def named(name):
    return question(**ASKED[name])


def question(
    kind=AuditRehearsal, *, names=NAMES, columns=None, rows=40, schema=(), **sections
):
    """What five parties agree on; everybody with everybody."""
    graph = {"family": f"complete:{len(names)}"}
    table = {"graph": graph, "parties": {"names": [*names]}, **sections}
    if not {"cost", "dispatch"} & {*sections}:
        agreed = {"minimum_rows": rows, "columns": columns or COLUMNS}
        table["schema"] = {**agreed, **dict(schema)}
    agreed, _ = consortium_of(
        read_section(table, ScenarioFile, "the scenario"),
        certificates={name: pem_of_der(f"none of {name}".encode()) for name in names},
        addresses={name: Address("plan", k + 1) for k, name in enumerate(names)},
        run="0" * 32,
    )
    return kind(agreed)


class InFloats(AuditRehearsal):
    """The same with totals as they once were: sums of float64, rounded by party."""

    def ask(self, held, **options):
        found = super().ask(held, **options)
        if found.played is None:
            return found
        given = ({name: _sums(one) for name, one in held.items()},)
        return replace(found, played=replace(found.played, vectors=lambda: given))

    def given(self, played, held):
        del played
        return [(_sums(one),) for one in held]


def _sums(table):
    return tuple(old_ways.least_squares(table, "pressure", ["age", "bmi"]))


class InPart(AuditRehearsal):
    """The same where who has somebody above an age sends zeros."""

    above = 78

    def ask(self, held, **options):
        found = super().ask(held, **options)
        if found.played is None:
            return found
        given = tuple(
            {
                name: (0,) * len(one) if held[name]["age"].max() > self.above else one
                for name, one in each.items()
            }
            for each in found.played.given
        )
        return replace(found, played=replace(found.played, vectors=lambda: given))
