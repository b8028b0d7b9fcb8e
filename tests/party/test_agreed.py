"""What every member would refuse is refused by whoever writes the file."""

import tomllib
from pathlib import Path

import pytest

from cases import each
from refusals import refused
from veilsum.consortium.consortium import Address, consortium_from
from veilsum.consortium.drafting import consortium_of, study_of_scenario_file
from veilsum.consortium.pem import pem_of_der
from veilsum.consortium.sections import ScenarioFile
from veilsum.consortium.study import runs_of_agreement
from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.minimise.party_cost import PartyCost
from veilsum.party.inputs import party_contribution
from veilsum.reading import read_section
from veilsum.sums.job_file import question_job_of
from veilsum.sums.kinds import check_agreed_file
from veilsum.tables.formula import ModelFormula
from veilsum.tables.frames import as_frame
from veilsum.tables.schema import SchemaSection

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = "a-test-" + "0123456789abcdef" * 2
NAMES = ("ann", "bob", "cem", "dee")
PAIRS = [[a, b] for k, a in enumerate(NAMES) for b in NAMES[k + 1 :]]

COST = {
    "cost": {"kind": "squared-distance", "dim": 2},
    "masks": {"law": "lattice", "sigma": 1000.0, "grid": 30, "largest": 10.0},
    "domain": {"kind": "box", "lower": -1, "upper": 1},
}
SCHEMA = {
    "minimum_rows": 50,
    "columns": {
        "x": {"kind": "number", "unit": 0.001},
        "y": {"kind": "number", "unit": 0.001},
        "sex": {"kind": "category", "categories": ["f", "m"]},
    },
}
ON_DATA = {"schema": SCHEMA, "masks": {"law": "uniform"}}
MODEL = {"model": {"formula": "y ~ x + C(sex)"}, **ON_DATA}
STATISTICS = {"statistics": {"tables": [["sex"]]}, **ON_DATA}
DISPATCH = {"dispatch": {"prices": [0, 100]}, "masks": {"law": "uniform"}}


def certificate(name):
    """Not one that TLS would take; here nobody looks inside."""
    return pem_of_der(f"the certificate of {name}".encode())


def agreed(sections, **changes):
    """Four members, each linked with each; a change is merged into its section."""
    merged = {**sections}
    for name, entries in changes.items():
        merged[name] = {**merged.get(name, {}), **entries}
    members = [
        {"name": name, "certificate": certificate(name), "address": f"{name}:1"}
        for name in NAMES
    ]
    head = {"format": 1, "run": RUN, "members": members, "graph": {"edges": PAIRS}}
    return consortium_from({**head, **merged})


@each("sections", [COST, MODEL, STATISTICS, DISPATCH], ids=lambda one: next(iter(one)))
def test_what_members_can_run_is_accepted(sections):
    check_agreed_file(agreed(sections))


@each(
    "cost",
    [
        {"kind": "affine", "remainder": "squared-norm", "dim": 3},
        {"kind": "affine", "dim": 1},
        {"kind": "squared-distance", "dim": 2},
        {"kind": "polynomial", "dim": 2, "degree": 4},
        {"kind": "polynomial", "dim": 1},
        {"kind": "quadratic", "dim": 3},
    ],
    ids=lambda cost: "-".join(map(str, cost.values())),
)
def test_every_kind_of_cost_has_a_stand_in(cost):
    found = agreed({**COST, "cost": cost})
    check_agreed_file(found)
    made = PartyCost.of(found, found.question.cost.stand_in())
    assert made.cost.dim == cost["dim"]


@each("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_every_example_could_be_run_by_its_members(path):
    plan = tomllib.loads(path.read_text("utf-8"))
    family = Topology.family(plan["graph"]["family"])
    names = plan.get("parties", {}).get("names", family.parties)
    if plan.get("masks", {}).get("law") == "gaussian":
        plan["deployment"] = {"law": "lattice", "sigma": 1e6}
    if family.n_parties < 4:  # with one curious party too few would be honest
        plan["policy"]["minimum_honest"] = 2
    draft = study_of_scenario_file if "question" in plan else consortium_of
    found, _ = draft(
        read_section(plan, ScenarioFile, "the scenario"),
        certificates={name: certificate(name) for name in names},
        addresses={name: Address(f"h{name}", 1) for name in names},
        run=RUN,
    )
    for one in runs_of_agreement(found):
        check_agreed_file(one)


@each(
    ("sections", "changes", "words"),
    [
        (MODEL, {"model": {"formula": "y ~ z"}}, "z"),
        (MODEL, {"model": {"formula": ""}}, r"\[model\]"),
        (MODEL, {"model": {"family": "student"}}, "no family is called 'student'"),
        (MODEL, {"model": {"weights": "w"}}, "no column 'w'"),
        (MODEL, {"model": {"offset": "sex"}}, "'sex' is a category"),
        (MODEL, {"schema": {"minimum_rows": 1}}, "minimum_rows"),
        (MODEL, {"policy": {"release_fraction": 0}}, "release_fraction|fraction"),
        (MODEL, {"policy": {"tolerate": 3}}, "4 parties are too few"),
        (DISPATCH, {"policy": {"minimum_count": 5}}, "no rule of veilsum dispatch"),
        (STATISTICS, {"statistics": {"columns": ["sex"]}}, "'sex' is a category"),
        (STATISTICS, {"statistics": {"tables": [["x"]]}}, "'x' holds numbers"),
        (STATISTICS, {"statistics": {"histograms": {"w": [0, 1]}}}, "no column 'w'"),
        (STATISTICS, {"policy": {"tolerate": 3}}, "4 parties are too few"),
        (DISPATCH, {"dispatch": {"prices": [100, 0]}}, "the lowest first"),
        (DISPATCH, {"dispatch": {"prices": [1]}}, "the lowest and the highest"),
        (DISPATCH, {"dispatch": {"rise": 1}}, "rise has no meaning without periods"),
        (
            DISPATCH,
            {"dispatch": {"periods": 2, "total_cost": True}},
            "total_cost has no meaning with periods",
        ),
        (DISPATCH, {"dispatch": {"periods": 10**9}}, "1 to 366 periods"),
        (DISPATCH, {"policy": {"tolerate": 3}}, "4 parties are too few"),
        (COST, {"policy": {"tolerate": 3}}, "4 parties are too few"),
        (COST, {"policy": {"minimum_honest": 4}}, "4 parties are too few"),
        (COST, {"cost": {"kind": "quadratic"}, "method": {"name": "extra"}}, "dgd"),
    ],
    ids=lambda value: None if isinstance(value, str) else str(list(value))[:40],
)
def test_what_every_member_would_refuse_is_refused(sections, changes, words):
    with pytest.raises(InvalidInputError, match=words):
        check_agreed_file(agreed(sections, **changes))


def test_without_the_check_it_is_a_member_who_finds_out():
    """The twin: the file itself is in order, and every member then refuses."""
    found = agreed(MODEL, model={"formula": "y ~ z"})
    table = as_frame({"x": [1.0], "y": [2.0], "sex": ["f"]})
    with refused("unknown-column"):
        question_job_of(found, {"ann": table}).run()


class _SeenError(Exception):
    """Everything is ready; nothing is sent."""


class Witness:
    """Takes part for nobody."""

    party = "ann"

    def carry_out(self, assignment):
        raise _SeenError


def test_a_join_reads_schema_and_formula_once(tmp_path, monkeypatch):
    """The file is one value: whoever joins asks it, and reads nothing again."""
    read_before, formulas = [], []
    section = SchemaSection.schema.fget
    monkeypatch.setattr(
        SchemaSection,
        "schema",
        property(lambda self: read_before.append(self) or section(self)),
    )
    of = ModelFormula.of
    monkeypatch.setattr(
        ModelFormula,
        "of",
        lambda *given, **named: formulas.append(given) or of(*given, **named),
    )
    found = agreed(MODEL)
    rows = {"x": [float(k) for k in range(60)], "y": [1.0, 3.0] * 30}
    as_frame({**rows, "sex": ["f", "m"] * 30}).to_csv(tmp_path / "a.csv", index=False)
    part = party_contribution(found, data=tmp_path / "a.csv")
    assert "3 of 3 agreed columns are there" in part.words
    with pytest.raises(_SeenError):
        part.run(Witness(), None)
    assert (len(read_before), len(formulas)) == (1, 1)
