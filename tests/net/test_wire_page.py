"""The page that a second implementation is written from says what the code does.

What is sent, by name and in order, is compared with the code; so are its examples.
"""

import base64
import json
import re
import shlex
import shutil
import ssl
import subprocess
import tomllib
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from hashlib import sha256
from itertools import product
from math import ceil, isqrt, log2
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given, strategies as st

from cases import each
from machines import Stopped, join_frame, sealed, stopped_at
from party.test_agreed import COST, DISPATCH, MODEL, STATISTICS, agreed, certificate
from refusals import refused
from surveys import opened
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.costs import Kind
from veilsum.disclosure.merging import (
    CountedTable,
    MergeAxis,
    SmallCellRule,
    merge_axis_of,
)
from veilsum.fits.fitting import LeastSquaresFitRecipe
from veilsum.fits.formula_job import FormulaJob
from veilsum.fits.wrappers import RobustFitRecipe
from veilsum.graphs.mixing import MIXING
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.minimise.costs import domains
from veilsum.minimise.costs.domains import Domain
from veilsum.minimise.methods.registry import ITERATIVE
from veilsum.minimise.party_cost import PartyCost
from veilsum.models import families
from veilsum.models.families import Family, GaussianFamily, LogLink
from veilsum.models.fineness import Fineness
from veilsum.models.glm import (
    ClosingStatistics,
    FirstStatistics,
    GlmScales,
    MeanStatistics,
    ResponseStatistics,
    RoundStatistics,
    Stage,
)
from veilsum.models.least_squares import LeastSquaresStatistics
from veilsum.models.newton import Newton
from veilsum.models.price import PriceSearch
from veilsum.models.refits import Refits
from veilsum.models.rows import ONES, RowMeasures
from veilsum.models.sandwich import SandwichMeat
from veilsum.net import evidence
from veilsum.net.identity import new_identity, read_identity
from veilsum.net.receipt import FIELDS, read_receipt
from veilsum.net.trust import check_certificates, tls_client_context
from veilsum.numbers.limbs import limb_type_name
from veilsum.numbers.units import UnitCounts, UnitMeasure
from veilsum.privacy.guarantee import released_by_honest_piece
from veilsum.protocol.effects import Abort, Send
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import Lost, Quit
from veilsum.protocol.phases import BEFORE_COMMIT
from veilsum.protocol.plan import ProtocolPolicy
from veilsum.protocol.work import request_digest
from veilsum.questions.cox.stratified import CoxJob
from veilsum.questions.dispatch import DispatchPriceRecipe
from veilsum.questions.evaluate.bins import EvaluateBinsRecipe
from veilsum.questions.evaluate.concordance import ConcordanceRecipe
from veilsum.questions.evaluate.refits import EvaluateRefitsRecipe
from veilsum.questions.statistics import (
    StatisticsRecipe,
    StatisticsWishes,
    parse_statistics,
)
from veilsum.questions.survival import SurvivalJob, SurvivalRecipe
from veilsum.sums.job_file import question_job_of
from veilsum.sums.presence import (
    PRESENCE,
    PresenceCells,
    PresenceCrossedCells,
    PresenceScreenedRecipe,
    places_with_rows,
    presence_screened_recipe,
)
from veilsum.sums.recipes import GuardedRecipe, SumContribution
from veilsum.sums.releases import SumReleaseLimit, released_lines_by_piece
from veilsum.sums.running import plan_for_recipe
from veilsum.sums.terms import SumTerms
from veilsum.surveys.question import SurveyRecipe
from veilsum.tables.axes import TableAxis
from veilsum.tables.frames import as_frame
from veilsum.tables.rules import DisclosureError, Rules
from veilsum.tables.schema import Schema
from worlds import Setting

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "wire.md").read_text()
TRIANGLE = Topology.family("complete:3").renamed(("a", "b", "c"))


def part(heading):
    """What stands under a heading, up to the next."""
    found = re.search(rf"^#+ {heading}\n(.*?)(?=^#+ |\Z)", PAGE, re.M | re.S)
    return found[1]


def rows(text):
    """The cells of a part's tables, headings left out."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def words(text):
    return re.findall(r"`([^`]+)`", text)


def terms_table(section):
    """The keys that the page has for a section, with what it says of each."""
    _, _, after = part("Terms").partition(f"**`[{section}]`**:")
    table, _, _ = after.partition("\n\n**")
    return {key: value for keys, value in rows(table) for key in words(keys)}


class _SeenError(Exception):
    """The plan was shown; nothing else happens."""


class Witness:
    """Takes part for nobody, and keeps the plan."""

    party = "ann"

    def carry_out(self, assignment):
        self.plan = assignment.plan
        raise _SeenError


def job_plan(sections, table, **changes):
    witness = Witness()
    found = agreed(sections, **changes)
    with pytest.raises(_SeenError):
        question_job_of(found, {"ann": as_frame(table)}, driver=witness).run()
    return witness.plan


def cost_plan(cost, **sections):
    found = agreed({**COST, **sections, "cost": cost})
    return PartyCost.of(found, found.question.cost.stand_in()).plan


RNG = np.random.default_rng(0)
TABLE_OF_ANN = {
    "x": RNG.normal(size=60),
    "y": RNG.normal(size=60) ** 2,
    "sex": ["f", "m"] * 30,
}
SITE = {"demand": [1.0], "a": [1.0], "b": [0.0], "low": [0.0], "high": [2.0]}
HISTOGRAM = {"statistics": {"histograms": {"x": [0, 1]}}}
SURVIVAL = {
    "schema": {
        "minimum_rows": 50,
        "columns": {
            "x": {"kind": "integer", "minimum": 0, "maximum": 99},
            "sex": {"kind": "category", "categories": ["f", "m"]},
        },
    },
    "masks": {"law": "uniform"},
    "survival": {"formula": "Surv(x, sex) ~ 1", "times": [20, 40]},
}


def plans():
    yield "cost", cost_plan(COST["cost"])
    yield "model", job_plan(MODEL, TABLE_OF_ANN)
    changed = {"model": {"family": "gamma", "formula": "y ~ x"}}
    yield "model", job_plan(MODEL, TABLE_OF_ANN, **changed)
    yield "statistics", job_plan(STATISTICS, TABLE_OF_ANN)
    yield "statistics", job_plan(STATISTICS, TABLE_OF_ANN, **HISTOGRAM)
    yield "survival", job_plan(SURVIVAL, {"x": np.arange(60.0), "sex": ["f", "m"] * 30})
    yield "dispatch", job_plan(DISPATCH, SITE)


def test_the_page_has_the_terms_of_a_survey():
    filled = {name: [4, 4, 1, 4, 0] for name in ("ann", "bob", "cem")}
    recipe = SurveyRecipe(opened(set="ab" * 32, filled=filled))
    plan = plan_for_recipe(recipe, recipe.terms({"run": "r"}), recipe.agreed)
    assert set(terms_table("survey")) == {*json.loads(plan.terms)} - {"run"}
    assert (plan.size, plan.answer_size, plan.law.counted.bits) == (2, 4, 64)
    assert (plan.policy.tolerate, plan.policy.minimum_honest) == (1, 2)


def test_the_page_has_exactly_the_terms_keys():
    for section, plan in plans():
        found = json.loads(plan.terms)
        assert found.pop("run") == agreed(COST).run
        said = terms_table(section)
        assert set(said) == set(found), section
        # What another section says of a key holds here too.
        known = {**said, **terms_table("model")}
        for key, value in found.items():
            if isinstance(value, dict):
                assert set(value) <= set(re.findall(r'"(\w+)"', known[key])), key


def test_a_key_more_would_be_noticed():
    """The twin: the same comparison with a key that the page does not have."""
    found = set(json.loads(cost_plan(COST["cost"]).terms)) - {"run"}
    assert found == set(terms_table("cost"))
    assert found | {"mood"} != set(terms_table("cost"))


@each("kind", get_args(Kind))
def test_the_page_spells_every_basis_and_remainder(kind):
    cost = {"kind": kind, "dim": 2}
    cost |= {"degree": 3} if kind == "polynomial" else {}
    found = json.loads(cost_plan(cost).terms)
    named, values = found["basis"]
    spelt = re.search(rf'`\["{named}", (\{{.*?\}})\]`', terms_table("cost")["basis"])
    assert re.findall(r'"(\w+)"', spelt[1]) == sorted(values)
    assert json.dumps(found["remainder"], sort_keys=True) in PAGE


def known_domains():
    kinds = [one for one in vars(domains).values() if isinstance(one, type)]
    public = [one for one in kinds if one.__module__ == domains.__name__]
    return [one for one in public if one is not Domain and one.__name__[0] != "_"]


@each("kind", known_domains(), ids=lambda kind: kind.__name__)
def test_the_page_spells_every_domain(kind):
    said = terms_table("cost")["domain"]
    spelt = re.search(rf'`\["{kind.__name__}", \{{(.*?)\}}\]`', said)
    names = sorted(one.name for one in fields(kind))
    assert re.findall(r'"(\w+)"', spelt[1]) == names


def example(title):
    """The blocks of one of the page's plans, by language."""
    _, _, after = part("Plans to try").partition(f"**{title}.**")
    found = re.findall(r"```(\w+)\n(.*?)\n```", after.partition("\n**")[0], re.S)
    return {kind: [body for one, body in found if one == kind] for kind, _ in found}


def plan_to_try(title):
    """The JSON, the terms and the digest of one of the page's plans."""
    found = example(title)
    (plan, terms), (digest,) = found["json"], found["text"]
    content = b"veilsum plan\0" + plan.encode() + b"\0" + terms.encode()
    assert sha256(content).hexdigest() == digest
    return plan, terms, digest


def test_the_pages_job_is_a_real_one():
    _, terms, digest = plan_to_try("A job")
    witness = Witness()
    section = question_job_of(agreed(DISPATCH), {"a": as_frame(SITE)})
    witness.party = "a"
    options = {
        "topology": TRIANGLE,
        "run": json.loads(terms)["run"],
        "tolerate": 0,
        "driver": witness,
    }
    with pytest.raises(_SeenError):
        section.run(**options)
    assert witness.plan.digest.hex() == digest


def test_the_pages_cost_is_a_real_one():
    plan, terms, digest = plan_to_try("A cost")
    (sections,) = example("A cost")["toml"]
    members = [
        {"name": name, "certificate": certificate(name), "address": f"host-{k}:1"}
        for k, name in enumerate(json.loads(plan)["parties"])
    ]
    head = {"format": 1, "run": json.loads(terms)["run"], "members": members}
    found = consortium_from({**head, **tomllib.loads(sections)})
    made = PartyCost.of(found, found.question.cost.stand_in()).plan
    assert made.terms.decode() == terms
    assert made.to_json() == plan
    assert made.digest.hex() == digest


@pytest.mark.parametrize("columns", [["y", "x"], ["x", "y"]], ids=("y x", "x y"))
def test_chosen_columns_keep_their_order_and_all_are_sorted(columns):
    """As the page says; a plan with the columns in another order is another one."""
    assert "in the order of that list; without it all" in " ".join(part("Sums").split())
    section = {"statistics": {"columns": columns}}
    plan = job_plan(STATISTICS, TABLE_OF_ANN, **section)
    assert json.loads(plan.terms)["statistics"]["columns"] == columns
    usual = job_plan(STATISTICS, TABLE_OF_ANN)
    assert json.loads(usual.terms)["statistics"]["columns"] == ["x", "y"]


def test_the_page_has_the_policy_that_is_usual():
    plan = dict(plans())["dispatch"]
    said = " ".join(part("What is agreed beforehand").split())
    policy = json.loads(plan.to_json())["policy"]
    assert policy["minimum_parties"] == min(3, policy["minimum_honest"] + 1)
    for key in set(policy) - {"minimum_parties", "stand_in"}:
        assert re.search(rf"`{key}` {json.dumps(policy[key])}\b", said), key


# Numbers


@each("row", [0, 1, 2, 3])
def test_the_pages_numbers_are_the_laws(row):
    lines = re.findall(r"^\| (-?[\d.]+) \| (\d+) \| (\d+) \| (-?\d+) \|$", PAGE, re.M)
    assert len(lines) == 4
    x, bits, word, whole = (float(lines[row][0]), *map(int, lines[row][1:]))
    one = Masks("uniform", grid=bits).on(TRIANGLE)
    lattice = Masks("lattice", sigma=1000.0, grid=bits).on(TRIANGLE)
    assert one.encode(np.array([x])).tolist() == [word]
    assert lattice.encode(np.array([x])).tolist() == [whole]
    # Read as they were written, but for the rounding.
    for law in (one, lattice):
        assert law.decode(law.encode(np.array([x]))).item() == whole / 2**bits


@each(
    ("law", "kind", "width"),
    [
        (Masks("uniform", grid=20).on(TRIANGLE), "uint64", 8),
        (Masks("lattice", sigma=10.0).on(TRIANGLE), "int64", 8),
        (Masks("lattice", sigma=1e12, grid=60).on(TRIANGLE), "4 limbs", 32),
    ],
    ids=("word", "lattice", "wide lattice"),
)
def test_the_page_has_every_type_of_number(law, kind, width):
    assert limb_type_name(law.dtype) == kind
    assert f"| `{law.name}` | `{kind}` | {width} |" in part("Numbers")
    assert width == law.number_bytes


@each(
    ("bits", "kind", "width"),
    [
        ("up to 64", "uint64", 8),
        ("65 to 128", "2 limbs", 16),
        ("129 to 192", "3 limbs", 24),
    ],
)
def test_the_page_has_every_width_of_a_whole_number(bits, kind, width):
    assert f"| `uniform` | {bits} | `{kind}` | {width} |" in part("Whole numbers")
    for one in map(int, re.findall(r"\d+", bits)):
        counts = UnitCounts((Fraction(1, 100),), one)
        law = Masks("uniform").for_sums(TRIANGLE, counts)
        assert (limb_type_name(law.dtype), law.number_bytes) == (kind, width)
        assert law.layout(1).length == width // 8


@each("bits", [20, 60, 64, 120, 192])
@each("sigma", [1e2, 1e9, 1e18])
@each("weights", [(1.0, 1.0, 1.0), (0.25, 1.0, 4.0)], ids=str)
def test_the_pages_width_of_counting_lattices_is_the_laws(bits, sigma, weights):
    graph = Topology.from_edges(
        [("a", "b"), ("a", "c"), ("b", "c")], weights=list(weights)
    )
    units = (Fraction(1), Fraction(1, 100), Fraction(3, 2**20))
    law = Masks("lattice", sigma=sigma).for_sums(graph, UnitCounts(units, bits))
    squares = [
        (Fraction(sigma) / unit) ** 2 * Fraction(weight)
        for unit in units
        for weight in (1.0, *weights)
    ]
    most = max(isqrt(int(square) - 1) + 1 for square in squares)
    b = max(most.bit_length() + 6 + ceil(log2(6) / 2), bits - 1) + 2
    words = max(2, ceil(b / 64))
    assert law.number_bytes == (8 if b <= 62 else 8 * words)
    assert limb_type_name(law.dtype) == ("int64" if b <= 62 else f"{words} limbs")
    assert law.masks.grid == 0


def page_bits_of_uniform(n, largest):
    if largest is None:
        return 50
    finest = 50 + max(0, int(np.ceil(-np.log2(largest))))
    return min(finest, int(np.floor(62 - np.log2(n * largest))))


@each("largest", [None, 1e-6, 1.0, 1000.0, 1e12])
def test_the_pages_grid_of_uniform_masks_is_the_laws(largest):
    law = Masks("uniform", largest=largest).on(TRIANGLE)
    assert law.grid.bits == page_bits_of_uniform(3, largest)


def page_bits_of_lattice(n, links, sigma, largest, weights):
    most = sigma * np.sqrt(max(1.0, *weights))
    least = sigma * np.sqrt(min(1.0, *weights))
    reach = max(64 * most * np.sqrt(2 * links) + largest, n * largest)
    fitting = np.floor(62 - np.log2(reach))
    finest = max(50, np.ceil(10 - np.log2(most)))
    bits = max(30, np.ceil(10 - np.log2(least)), min(fitting, finest))
    return int(bits), np.log2(reach) + bits <= 62


@each("sigma", [1e-6, 1.0, 1e3, 1e9])
@each("largest", [None, 0.5, 1e6])
@each("weights", [(1.0, 1.0, 1.0), (0.25, 1.0, 4.0)], ids=str)
def test_the_pages_grid_of_lattice_masks_is_the_laws(sigma, largest, weights):
    graph = Topology.from_edges(
        [("a", "b"), ("a", "c"), ("b", "c")], weights=list(weights)
    )
    law = Masks("lattice", sigma=sigma, largest=largest).on(graph)
    bits, fits = page_bits_of_lattice(3, 2, sigma, largest or 0.0, weights)
    assert law.grid.bits == bits
    assert law.wide == (not fits)


# Sums and rounds


@each(
    ("layout", "begins"),
    [
        (LeastSquaresStatistics, "**`[model]`, gaussian**"),
        (FirstStatistics, "| first |"),
        (ResponseStatistics, "| canonical first |"),
        (RoundStatistics, "| round |"),
        (MeanStatistics, "| canonical round |"),
        (ClosingStatistics, "| closing |"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_page_has_every_number_of_a_regressions_sum_in_order(layout, begins):
    """The matrix comes first, then the vector; all the others are named."""
    said = part("Sums").partition(begins)[2]
    said = re.split(r"\n\n|\n\|", said)[0]
    names = [one.name for one in fields(layout) if one.type in {"int", "Fraction"}]
    assert [word for word in words(said) if word in names] == names
    assert said.index("tri(") < said.index(f"`{names[0]}`")


def test_the_page_has_every_key_of_a_rounds_fineness():
    keys = dict(rows(part("Fineness and residues")))
    assert [*keys] == [f"`{one.name}`" for one in fields(Fineness)]


class ResidueOf:
    """A recipe of two numbers, the first of which is released modulo a power of two."""

    def __init__(self, bits, few):
        self.counts, self.few = UnitCounts((Fraction(1),) * 2, bits), few

    def residues(self, sums):
        del sums
        return self.few, 0


@each("bits", [63, 64, 100])
def test_a_residue_travels_as_the_page_says(bits):
    """What three parties mask, and how their total is read, by the page's formulas."""
    guarded, centre, parts = GuardedRecipe(ResidueOf(bits, 10)), 1005, (700, -300, 612)
    width = 64 * guarded.counts.words
    vectors = [guarded.shifted(np.array([one, one], dtype=object), ()) for one in parts]
    assert {int(v[0]) % 2**width for v in vectors} == {
        x * 2 ** (width - 10) % 2**width for x in parts
    }
    assert [int(v[1]) for v in vectors] == [*parts]
    released = sum(int(v[0]) for v in vectors) % 2**width
    assert released == sum(parts) % 2**10 * 2 ** (width - 10)
    assert released % 2 ** (width - 10) == 0
    residue = released >> width - 10
    nearest = min(range(2000), key=lambda t: (t % 2**10 != residue, abs(t - centre)))
    total = np.array([residue, sum(parts)], dtype=object)
    decoded = Fineness((), (0, 0), (10, 0), (centre, 0)).decoded(total)
    assert decoded.tolist() == [nearest, sum(parts)] == [sum(parts)] * 2


def test_the_sum_of_statistics_begins_with_rows_and_ends_with_those_left_out():
    frame = as_frame(TABLE_OF_ANN)
    schema = Schema.inferred({"ann": frame})
    wishes = parse_statistics(schema, ["x", "y"], {"x": [0, 1]}, [["sex"]])
    own = wishes.vector(schema.check("ann", frame))
    assert own.size == wishes.layout.size
    assert own[wishes.layout.places["cells"]].sum() == 2 * 60
    assert [own[0], own[-1]] == [60, 0]
    said = " ".join(part("Sums").partition("**`[statistics]`**")[2].split())
    assert said.index("`rows`") < said.index("histogram") < said.index("`dropped`")


def test_the_sum_by_group_is_laid_out_as_the_page_says():
    """Each number worked out here from the page's words."""
    frame = as_frame(TABLE_OF_ANN).assign(x=lambda one: one["x"].round(1))
    frame.loc[:2, "x"] = np.nan
    schema = Schema.inferred({"ann": frame})
    wishes = parse_statistics(
        *(schema, ["x"], {"y": [0.0, 1.0]}, None), by="sex", missing="groups"
    )
    kept, lost = frame[3:], frame[:3]
    (measure,) = wishes.measures
    parts = []
    for sex in ("f", "m"):
        counts = np.rint(kept["x"][kept["sex"] == sex] / float(measure.unit))
        off = [int(one) - measure.centre for one in counts]
        parts.append([len(off), len(off), sum(off), sum(one**2 for one in off)])
    expected = [each for line in zip(*parts, strict=True) for each in line]
    places = [kept["y"] < 0, kept["y"].between(0, 1), kept["y"] > 1]
    groups = [kept["sex"] == sex for sex in ("f", "m")]
    expected += [int((one & group).sum()) for one in places for group in groups]
    expected += [0, 3, 0]  # of sex, x and y
    lacking = [int((lost["sex"] == sex).sum()) for sex in ("f", "m")]
    expected += [*lacking, 0, 0, 3]
    assert wishes.vector(schema.check("ann", frame)).tolist() == expected
    assert wishes.words == (
        "by sex; moments of x; histogram of y on [0.0, 1.0]; missing values of sex, x, "
        "y; missing values by group"
    )


def page_presence(frame, groups):
    """What a party gives first, by the page: a place for each level, cell or value."""
    flags, several = [], []
    for columns, places in groups:
        rows_of = [*zip(*(frame[name].tolist() for name in columns), strict=True)]
        held = [int(place in rows_of) for place in places]
        flags += held
        several.append(int(sum(held) > 1))
    return [*flags, *several]


def page_varying(frame, groups, several_values):
    """What a party gives where rows are compared within it, by the page."""
    varied = all(frame[name].nunique() > 1 for name in several_values)
    flags = [int(len(frame) > 0 and varied)]
    for columns, places in groups:
        rows_of = [*zip(*(frame[name].tolist() for name in columns), strict=True)]
        sides = [0 < rows_of.count(place) < len(frame) for place in places]
        flags += [int(flags[0] and one) for one in sides]
    return flags, [int(sum(flags) > 1)]


@each("constant", ["", "dose", "ward", "events"])
def test_a_party_says_in_what_its_rows_differ_as_the_page_says(constant):
    frame = as_frame(
        {
            "days": [5, 2, 9, 7, 4, 1],
            "died": [0, 1, 0, 1, 0, 0],
            "dose": [0.5, 1.5, 1.5, 1.5, 1.5, 2.0],
            "sex": ["f", "f", "f", "f", "f", "m"],
            "ward": ["a", "a", "c", "a", "c", "b"],
        }
    )
    if constant == "events":
        frame["died"] = 0
    elif constant:
        # Where no event was seen yet they differ, which counts with absorb alone.
        frame.loc[:4, constant] = frame[constant][0]
    number = {"kind": "number", "minimum": 0, "maximum": 9, "unit": 0.5}
    flag = {"kind": "integer", "minimum": 0, "maximum": 1}
    sexes = {"kind": "category", "categories": ["f", "m"]}
    wards = {"kind": "category", "categories": ["a", "b", "c"]}
    columns = {"days": number, "died": flag, "dose": number, "sex": sexes}
    schema = Schema.from_table({"columns": {**columns, "ward": wards}})
    both = [(0,), (1,)]
    known = [(["sex"], [("f",), ("m",)]), (["ward"], [("a",), ("b",), ("c",)])]
    last = int(frame["days"][frame["died"] == 1].min()) if frame["died"].any() else 99
    absorbed = FormulaJob.of(
        "days ~ dose + sex + ward", schema, GaussianFamily(), absorb=True
    )
    cases = (
        (absorbed, frame, known),
        (
            CoxJob.of("Surv(days, died) ~ dose + sex + ward", schema),
            frame[frame["days"] >= last],
            [(["died"], both), *known],
        ),
    )
    for job, counting, groups in cases:
        own = job.bring(job.schema.check("ann", frame))
        found = places_with_rows(job.groups, partial(job.look, own)).tolist()
        plain = page_presence(frame, groups)
        flags, several = page_varying(counting, known, ["dose", "ward"])
        n_places = len(plain) - len(groups)
        assert found == [*plain[:n_places], *flags, *plain[n_places:], *several]
        assert flags[0] == (not constant or job is absorbed)


def test_a_party_says_what_it_holds_as_the_page_says():
    frame = as_frame(
        {
            "y": [0.5, 1.5, 2.5, 3.5, 4.5],
            "sex": ["f", "f", "f", "m", "f"],
            "ill": [0, 0, 0, 0, 0],
            "parity": [1, 3, 1, 1, 3],
            "ward": ["a", "a", "c", "a", "c"],
        }
    )
    column = {"kind": "number", "minimum": 0, "maximum": 9, "unit": 0.5}
    schema = Schema.from_table(
        {
            "columns": {
                "y": column,
                "sex": {"kind": "category", "categories": ["f", "m"]},
                "ill": {"kind": "integer", "minimum": 0, "maximum": 1},
                "parity": {"kind": "integer", "minimum": 0, "maximum": 4},
                "ward": {"kind": "category", "categories": ["a", "b", "c"]},
            }
        }
    )
    text = "y ~ C(ward) * C(sex) + C(sex):ill + parity"
    job = FormulaJob.of(text, schema, GaussianFamily())
    table = job.schema.check("ann", frame)
    found = places_with_rows(job.groups, partial(job.look, job.bring(table)))
    frame["f:ill"] = (frame["sex"] == "f") * frame["ill"]
    frame["m:ill"] = (frame["sex"] == "m") * frame["ill"]
    wards, sexes, both = [("a",), ("b",), ("c",)], [("f",), ("m",)], [(0,), (1,)]
    births = [(k,) for k in range(5)]
    groups = [
        (["ill"], both),
        (["parity"], births),
        (["sex"], sexes),
        (["ward"], wards),
    ]
    groups += [(["ward", "sex"], [(w, s) for (w,) in wards for (s,) in sexes])]
    groups += [(["f:ill"], both), (["m:ill"], both)]
    assert found.tolist() == page_presence(frame, groups)
    assert job.look(job.bring(table), "ward").tolist() == [0, 0, 2, 0, 2]
    for words_of in ("`tolerate + 2`", "last category changing fastest", "sorted"):
        assert words_of in " ".join(part("Sums").split())
    assert f"the text `{json.dumps(PRESENCE)}`" in part("Sums")


def page_blocks(kind, size, flagged):
    """Blocks of one axis, by the page."""
    if kind == "levels" and flagged:
        last = sorted(flagged | {(k + 1) % size for k in flagged})
        return [[k] for k in range(size) if k not in last] + [last]
    found = [[0]]
    for k in range(1, size):
        joined = kind == "ordered" and (k in flagged or k - 1 in flagged)
        found = [*found[:-1], [*found[-1], k]] if joined else [*found, [k]]
    return found


def page_small(axes, counts, flags, least, count):
    """Small cells of blocks, each by the places of its blocks, by the page."""
    sides = [page_blocks(a["kind"], a["size"], flags[a["name"]]) for a in axes]
    for cell in product(*sides):
        inside = [
            counts[place]
            for place in product(*cell)
            if not any(k in a["never"] for k, a in zip(place, axes, strict=True))
        ]
        if inside and max(inside) < least and (count > 1 or max(inside) > 0):
            yield cell


def page_merge(tables, least, count):
    """Blocks by column, or None if all quit, by the page."""
    flags = {a["name"]: set() for axes, _ in tables for a in axes}
    for axes, counts in sorted(tables, key=lambda one: len(one[0])):
        small = [*page_small(axes, counts, flags, least, count)]
        ways = []
        for at, a in enumerate(axes):
            if a["kind"] == "fixed" or (a["by"] and len(axes) > 1):
                continue
            more = flags[a["name"]] | {k for cell in small for k in cell[at]}
            tried = flags | {a["name"]: more}
            n = len(page_blocks(a["kind"], a["size"], more))
            if n > 1 and not [*page_small(axes, counts, tried, least, count)]:
                ways.append((a["kind"] == "levels", -n, a["name"], more))
        if small and not ways:
            return None
        if small:
            flags[min(ways)[2]] = min(ways)[3]
    sizes = {a["name"]: (a["kind"], a["size"]) for axes, _ in tables for a in axes}
    return {k: page_blocks(*sizes[k], one) for k, one in flags.items() if one}


def made_up_tables(chance):
    """Tables of a few columns, with and without groups."""
    columns = [
        {
            "name": name,
            "size": int(chance.integers(2, 6)),
            "kind": str(
                chance.choice(["ordered", "levels", "fixed"], p=[0.5, 0.4, 0.1])
            ),
            "never": (),
            "by": name == "by",
        }
        for name in ("by", "x", "y")
    ]
    for one in columns:
        if one["kind"] == "ordered" and not one["by"]:
            one["never"] = (one["size"] - 1,) * int(chance.integers(2))
    by, x, y = columns
    for axes in ([by], [x, by], [y], [x, y]):
        counts = chance.choice([0, 2, 3, 4, 5], [a["size"] for a in axes])
        counts[chance.random(counts.shape) < 0.6] = 5
        yield axes, counts


def test_small_cells_merge_as_the_page_says():
    chance = np.random.default_rng(2)
    outcomes = []
    for _ in range(300):
        tables, count = [*made_up_tables(chance)], int(chance.integers(1, 4))
        expected = page_merge(tables, 3, count)
        counted = [
            CountedTable(
                "cells",
                tuple(
                    MergeAxis(
                        a["name"],
                        tuple(map(str, range(a["size"]))),
                        ordered=a["kind"] == "ordered",
                        fixed=a["kind"] == "fixed",
                        alone=a["by"],
                        unreachable=a["never"],
                    )
                    for a in axes
                ),
                counts,
            )
            for axes, counts in tables
        ]
        try:
            blocks = SmallCellRule(3, count).merge(counted).blocks
            found = {name: [list(b) for b in one] for name, one in blocks.items()}
        except DisclosureError:
            found = None
        assert found == expected
        outcomes.append("quit" if found is None else bool(found))
    assert {*outcomes} == {"quit", True, False}


def test_a_party_answers_in_blocks_as_the_page_says():
    """Three wards and four times; a ward and the end of the follow-up merge."""
    frame = as_frame(
        {
            "days": [5, 15, 25, 35, 45, 5, 25, 45, 15],
            "died": [1, 0, 1, 1, 0, 1, 0, 1, 1],
            "ward": ["a", "a", "a", "b", "b", "b", "c", "c", "c"],
        }
    )
    schema = Schema.from_table(
        {
            "columns": {
                "days": {"kind": "integer", "minimum": 0, "maximum": 99},
                "died": {"kind": "integer", "minimum": 0, "maximum": 1},
                "ward": {"kind": "category", "categories": ["a", "b", "c"]},
            }
        }
    )
    job = SurvivalJob.of(schema, "Surv(days, died) ~ ward", [10, 20, 30, 40])
    recipe = presence_screened_recipe(
        job.recipe(), job.groups, enough=2, parties=5, targets=job.targets
    )
    levels, ends = [3, 5, 1], [[3, 3, 5], [3, 5, 5]]
    cells = [[5, 5, 5, 5, 1], [5, 4, 3, 4, 5], [5, 5, 5, 5, 2]]
    counts = [*levels, 5, 5, *ends[0], *ends[1], *cells[0], *cells[1], *cells[2]]
    total = np.array([*counts, 3, 3, 3, 3], dtype=object)
    request = recipe.request([np.resize(total, recipe.size)])
    blocks = {"days": [[0], [1], [2], [3, 4]], "ward": [[1], [0, 2]]}
    page = {"asked": job.words, "blocks": blocks}
    said = (
        b"veilsum request\0"
        + json.dumps(page, sort_keys=True, separators=(",", ":")).encode()
    )
    assert request_digest(request) == sha256(said).digest()
    own = job.bring(job.schema.check("ann", frame))
    given = SumContribution(partial(job.answer, own), ())
    answer = recipe.contribution(given, np.zeros(0, object)).answer(request)
    # Ward c is counted with a, and what ends after 30 days goes on.
    events = [1, 1, 1, 0], [1, 0, 0, 0], [0] * 4
    censored = [0, 1, 1, 0], [0] * 4, [0] * 4
    expected = [*np.ravel(events), *np.ravel(censored), 1, 2, 0, 0]
    assert answer[: len(expected)].tolist() == expected
    assert '`{"asked": request, "blocks": blocks}`' in part("Sums")


def known_families():
    kinds = vars(families).values()
    found = {one for one in kinds if isinstance(one, type) and issubclass(one, Family)}
    return sorted(one.name for one in found - {Family, LogLink})


@each("name", known_families())
def test_the_page_has_every_family(name):
    assert name in words(terms_table("model")["model"])
    assert name == "gaussian" or f"\n| `{name}` | " in part("Sums")


def test_the_page_has_every_method_with_its_vectors_and_rounds():
    found = {
        words(cells[0])[0]: (int(cells[1]), int(cells[2]))
        for cells in rows(part("Rounds"))
    }
    assert found == {
        method.name: (method.traits.vectors, method.rounds_per_iteration)
        for method in ITERATIVE
    }


@each("name", MIXING)
def test_the_page_has_every_kind_of_weights(name):
    assert f"`{name}`" in part("Rounds")


@each(
    ("method", "stopping", "expected"),
    [
        ({"name": "dgd"}, {}, 2),
        ({"name": "dgd"}, {"tolerance": 1e-3}, 2),
        ({"name": "nids"}, {}, 2),
        ({"name": "nids"}, {"tolerance": 1e-3}, 3),
        ({"name": "running-sums"}, {"tolerance": 1e-3}, 5),
        ({"name": "one-shot"}, {"tolerance": 1e-3}, 0),
    ],
    ids=lambda value: str(value),
)
def test_a_round_has_vectors_and_the_stopping_number(method, stopping, expected):
    sections = {"method": method, "stopping": {"iterations": 100, **stopping}}
    if method["name"] == "running-sums":
        sections["domain"] = {"kind": "all"}
    plan = cost_plan(COST["cost"], **sections)
    assert plan.round_size == expected
    far = stopping.get("tolerance")
    usual = 1e-6 if expected == 0 else 0.05
    early = far is not None and method["name"] in {"nids", "running-sums"}
    assert plan.tolerance == (far or usual) * (2 if early else 1)


# Certificates


def test_the_pages_certificate_is_a_partys(tmp_path):
    line = next(one for one in PAGE.splitlines() if one.startswith("openssl req "))
    command = shlex.split(line)
    if shutil.which(command[0]) is None:
        pytest.skip("there is no openssl here")
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    made = read_identity(tmp_path / "ward-1.key")
    assert made.name == "ward-1"
    check_certificates({made.name: made.certificate})
    context = tls_client_context(
        made, {"other": new_identity("b", tmp_path).certificate}
    )
    assert context.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("ward 1", "veilsum:ward%201"),
        ("a-b_c.d", "veilsum:a-b_c.d"),
        ("zo\u00eb", "veilsum:zo%C3%AB"),
    ],
    ids=("space", "left as they are", "utf-8"),
)
def test_a_certificates_uri_is_spelt_as_the_page_says(name, uri, tmp_path):
    made = x509.load_pem_x509_certificate(
        new_identity(name, tmp_path).certificate.encode()
    )
    kind = x509.SubjectAlternativeName
    (found,) = made.extensions.get_extension_for_class(kind).value
    assert found.value == uri
    assert name != "ward 1" or f"`{uri}` goes with `{name}`" in PAGE


# Leaving


def as_the_page_has_it(machine, author, reason):
    """What the page's table under Leaving says of a first `Quit`."""
    policy, phase = machine.plan.policy, machine.phase
    early = phase in {"greeting", "sharing"}
    first = machine.epoch < len(machine.plan.parties) + 1
    neighbours = set(machine._epoch.place.neighbours)
    echoed = machine._peers.echoed >= neighbours - {author}
    if early and first and policy.drop and echoed:
        return "Lost"
    if phase == "agreeing" and reason == "result":
        return "peer"  # of the author nobody has an `Agreed` yet
    held = [
        kind
        for kind in ("Ready", "Masked")
        if (kind, machine.epoch, author) in machine._book
    ]
    if reason == "refused" and held == ["Ready"]:
        return "peer"
    if early and not (first and policy.drop) and reason != "timeout":
        return "peer"
    return "nothing"


def test_the_page_has_what_a_quit_leads_to_in_this_order():
    lines = part("Leaving").splitlines()
    table = lines[lines.index("| Your phase | The word | What you do |") + 2 :]
    done = [words(line.split(" | ")[-1]) for line in table if line.startswith("| ")]
    assert done == [["Lost"], ["peer"], ["peer"], ["peer"], []]


def reaction(world, author, reason):
    """What party 1 does when a neighbour's `Quit` arrives."""
    machine, codec = world.nodes["1"].machine, world.plan.codec
    machine.receive(author, join_frame(world, author))
    quit_ = Quit(party=author, epoch=machine.epoch, reason=reason)
    effects = machine.receive(author, codec.encode(sealed(world, quit_)))
    for one in effects:
        if isinstance(one, Abort):
            return one.reason
    told = [codec.decode(one.frame) for one in effects if isinstance(one, Send)]
    lost = [one for one in told if isinstance(one, Lost)]
    assert all(one.lost == (author,) for one in lost)
    return "Lost" if lost else "nothing"


PHASES = {
    "one-shot": (*BEFORE_COMMIT, "summing", "agreeing"),
    "nids": ("committing", "iterating", "agreeing"),
}


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("drop", [True, False], ids=("drop", "no drop"))
@pytest.mark.parametrize("reason", ["stopped", "timeout", "refused", "result"])
@pytest.mark.parametrize(
    ("work", "phase"), [(work, one) for work, all_ in PHASES.items() for one in all_]
)
def test_a_quit_leads_to_what_the_page_says(work, phase, reason, drop):
    setting = Setting("complete:5", work=work, policy=ProtocolPolicy(drop=drop))
    world = stopped_at(setting, "1", phase)
    expected = as_the_page_has_it(world.nodes["1"].machine, "2", reason)
    assert reaction(world, "2", reason) == expected


class SecondSum(Machine):
    """Stops the run when party 1 waits for the second sum's shares."""

    watched = True

    def receive(self, sender, frame):
        if self.watched and self.me == "1" and self.epoch and self.phase == "sharing":
            raise Stopped
        return super().receive(sender, frame)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("reason", "expected"), [("stopped", "peer"), ("timeout", "nothing")]
)
def test_after_the_first_sum_nobody_is_dropped(reason, expected, monkeypatch):
    """The page: in a later sum a `Quit` leads to `peer`, whatever `drop` says."""
    monkeypatch.setattr("worlds.SuccessiveSums.most_sums", 1)  # no share comes early
    world = Setting("complete:5", work="sums").world(make=SecondSum)
    with pytest.raises(Stopped):
        world.run()
    world.nodes["1"].machine.watched = False
    assert reaction(world, "2", reason) == expected


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(("work", "epoch"), [("one-shot", 5), ("nids", 0)])
def test_the_last_sum_counts_as_done_and_rounds_do_not(work, epoch):
    world = stopped_at(Setting("complete:4", work=work), "1", "agreeing")
    assert world.nodes["1"].machine.epoch == epoch
    assert "after one sum of four parties the epoch is 5" in " ".join(PAGE.split())


# What may be released


def page_limit(policy, rules, *, n, columns):
    """The right side of the formula under What may be released."""
    left = n
    if policy.drop:
        enough = policy.tolerate + max(policy.minimum_honest, 2)
        left = max(n // 2 + 1, policy.minimum_parties, enough)
    held = (left - policy.tolerate) * rules.minimum_rows
    return rules.release_fraction * held * columns


@given(
    n=st.integers(4, 9),
    drop=st.booleans(),
    tolerate=st.integers(0, 1),
    least=st.integers(1, 60),
    columns=st.integers(1, 4),
    size=st.integers(1, 60),
)
def test_the_pages_limit_is_the_one_that_is_kept(
    n, drop, tolerate, least, columns, size
):
    names = [f"p{k}" for k in range(n)]
    options = {"tolerate": tolerate, "drop": drop}
    terms = SumTerms.of(names, counts=UnitCounts((Fraction(1),), 60), options=options)
    rules = Rules(minimum_rows=least)
    room = page_limit(terms.policy, rules, n=n, columns=columns)
    limit = SumReleaseLimit.of(rules, columns, terms)
    limit.check(ceil(room) - 1)
    with refused("releases-too-much"):
        limit.check(ceil(room))
    fitting = [k for k in range(rules.most_rounds + 1) if k == 0 or size * k < room]
    assert limit.rounds(size) == max(fitting)


# Receipts

JSON_PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text()
RECEIPT, _, EVIDENCE = (
    JSON_PAGE.partition("\n### Receipt\n")[2]
    .partition("\n## ")[0]
    .partition("\n### Evidence\n")
)


@pytest.mark.parametrize(
    ("part", "fields"),
    [(RECEIPT, FIELDS), (EVIDENCE, evidence.FIELDS)],
    ids=("receipt", "evidence"),
)
def test_the_page_has_every_field_of_what_verify_reads(part, fields):
    keys = [key for cells in rows(part) for key in words(cells[0])]
    assert sorted(keys) == sorted({"format", *fields})


def test_evidence_written_as_the_page_says_is_proof(tmp_path):
    """By hand, from the pages: two frames of `Agreed` as they are signed."""
    identity = new_identity("zo\u00eb", tmp_path)
    key = load_pem_private_key(identity.key_file.read_bytes(), password=None)
    plan, start, frames = bytes(range(32)), b"s" * 16, []
    for digest in (bytes(32), b"x" * 32):
        fields = ["Agreed", identity.name, 0, b"", start, digest]
        signed = b"veilsum record\0" + plan + sha256(frame_of(fields)).digest()
        fields[3] = key.sign(signed)
        frames.append(frame_of(fields))
    content = {
        "format": "veilsum evidence 3",
        "run": "trial",
        "consortium": "0f" * 32,
        "plan": plan.hex(),
        "party": identity.name,
        "certificate": identity.certificate,
        "records": [base64.b64encode(one).decode() for one in frames],
    }
    path = tmp_path / "evidence.json"
    path.write_text(json.dumps(content, indent=1))
    found = evidence.read_signed_receipt_or_evidence(path)
    assert evidence.judge_signed_evidence(found).proved
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert found.digest == sha256(text.encode()).hexdigest()
    path.write_text(json.dumps({**content, "plan": "00" * 32}))
    assert not evidence.judge_signed_evidence(
        evidence.read_signed_receipt_or_evidence(path)
    ).proved


def frame_of(fields):
    """A frame without numbers, as the page on the wire has it."""
    header = msgspec.msgpack.encode(fields)
    return b"VS\x03" + len(header).to_bytes(4, "little") + header


def test_a_receipt_signed_as_the_page_says_is_good(tmp_path):
    """By hand, from the page: canonical JSON, and a zero byte after the first words."""
    identity = new_identity("zo\u00eb", tmp_path)
    key = load_pem_private_key(identity.key_file.read_bytes(), password=None)
    digests = dict.fromkeys(("plan", "consortium", "consent", "result"), "0f" * 32)
    content = {
        "format": "veilsum receipt 3",
        "run": "trial",
        "version": "mine 3",
        "party": identity.name,
        "certificate": identity.certificate,
        "parties": [identity.name, "b"],
        "lost": [],
        "confirmed": ["b"],
        "epochs": [0],
        "released": [{"round": 1, "parties": ["b"], "statistics": {"rows": 1}}],
        "guarantee": {"epsilon": 0.125},
        "started": "2030-01-31T12:00:00+00:00",
        "finished": "2030-01-31T13:00:00+01:00",
        **digests,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert "\\u00eb" in text
    signature = key.sign(b"veilsum receipt\0" + text.encode()).hex()
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps({**content, "signature": signature}, indent=1))
    assert read_receipt(path).is_signed
    path.write_text(json.dumps({**content, "run": "x", "signature": signature}))
    assert not read_receipt(path).is_signed


def released_table():
    """What the page says is in each sum, by job and sum."""
    lines = [line for line in RECEIPT.splitlines() if line.count(" | ") == 2]
    cells = [[one.strip() for one in line.strip("|").split(" | ")] for line in lines]
    return {(job, which): words(said) for job, which, said in cells}


def shown_in_sums():
    flags = RowMeasures((ONES, UnitMeasure.of(0, 1)), UnitMeasure.of(0, 1))
    least = LeastSquaresFitRecipe(flags, ("a", "b"), 0, 0.0, "")
    yield ("gaussian", "the only one"), least.release(()).statistics
    for stage in get_args(Stage):
        dropped = {} if stage == "score" else {"left_out": 1}
        for kind, family in {
            "canonical": families.Poisson(),
            "scored": families.NegativeBinomial(1.0),
            "other": families.InverseGaussian(),
        }.items():
            design = RowMeasures((ONES,) * 2, ONES, offset=ONES)
            scales = GlmScales(family, design, digits=4)
            fine = stage in ("first", "round", "means", "last", "pearson")
            if scales.has_fineness != fine:
                kind = "other"
            if fine and kind == "other" and stage in ("means", "last", "pearson"):
                continue
            newton = {**scales.layout(stage).released, **dropped}
            yield (f"{kind} families", stage), newton
    for kinds, errors in (
        ("HC0`, `HC1", "HC0"),
        ("HC2`, `HC3", "HC3"),
        ("cluster",) * 2,
    ):
        pair = [ONES, UnitMeasure.of(-1, 1)]
        of = RowMeasures.of(pair, UnitMeasure.of(-1, 1), intercept=0)
        scales = GlmScales.of(GaussianFamily(), of, 0)
        last = RobustFitRecipe(least, SandwichMeat(scales, errors)).foreseen[-1]
        yield (f"with `errors` `{kinds}`", "the last"), last.statistics
    folds = EvaluateRefitsRecipe(
        Refits(Newton(families.Poisson(), of), 3), ""
    ).foreseen[-2:]
    for which, one in zip(("beyond", "losses, the last"), folds, strict=True):
        yield ("evaluate, folds of other families", which), one.statistics
    wards = {("ward",): (TableAxis("ward", ("a", "b")),)}
    wishes = StatisticsWishes(
        ("x",), {}, wards, measures=(UnitMeasure.of(-1, 1),), gaps=("x",)
    )
    recipe = StatisticsRecipe(wishes, None)
    axis = TableAxis("ward", ("a", "b"))
    merging = PresenceCrossedCells((axis,), (merge_axis_of(axis),))
    counted = (PresenceCells(("sex",), (("f", "m"),)), merging)
    first = PresenceScreenedRecipe(recipe, counted, 3).release(())
    job = "with levels, cells, bins or columns of two values"
    yield (job, "the first of all"), first.statistics
    yield ("statistics", "the only one"), recipe.release([]).statistics
    curves = SurvivalRecipe("", 2, 3, None)
    yield ("survival", "the only one"), curves.release([]).statistics
    bins = EvaluateBinsRecipe("", 3, None).release(())
    yield ("evaluate, chances", "first"), bins.statistics
    risks = ConcordanceRecipe("", 2, 3).release(())
    yield ("evaluate, times", "the only one"), risks.statistics
    grouped = replace(
        recipe.wishes,
        by=TableAxis("sex", ("f", "m")),
        gaps=("x", "ward"),
        grouped_gaps=True,
    )
    one_row = Rules(minimum_count=1)  # then cells without any row are asked about
    limit = SumReleaseLimit(honest=4, columns=3, minimum_rows=10_000, rules=one_row)
    first, last = StatisticsRecipe(grouped, limit).foreseen
    job = 'statistics by group, with `missing = "drop"`'
    yield (job, "the first"), first.statistics
    yield ("statistics by group", "the last"), last.statistics
    price = DispatchPriceRecipe(PriceSearch(0.0, 100.0)).release(())
    yield ("dispatch", "each"), price.statistics
    (only,) = SurveyRecipe(opened()).foreseen
    yield ("survey", "the only one"), only.statistics


@each("place", [place for place, _ in shown_in_sums()], ids=str)
def test_the_page_has_the_keys_of_what_is_released(place):
    shown = [*dict(shown_in_sums())[place]]
    assert released_table()[place][: len(shown)] == shown


def test_a_line_of_what_was_released_is_spelt_as_the_page_says():
    wishes = StatisticsWishes(("x", "y"), {}, {}, measures=(UnitMeasure.of(-1, 1),) * 2)
    release = StatisticsRecipe(wishes, None).release([])
    (line,) = released_lines_by_piece([("a", "b", "c")], [release])
    shown = dict([*line.facts["statistics"].items()][:2])
    said = json.dumps({**line.facts, "statistics": shown})
    assert said in RECEIPT
    price = DispatchPriceRecipe(PriceSearch(0.0, 100.0)).release(())
    (line,) = released_lines_by_piece([("a", "b")], [price])
    assert line.startswith("round 1, at the price 50, summed over a, b: ")
    assert "50" not in str(line.facts)
    assert json.dumps(released_by_honest_piece(("a", "b", "c")).facts) in RECEIPT
