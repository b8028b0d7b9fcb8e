"""The page that a second implementation is written from says what the code does.

What is sent, by name and in order, is compared with the code; so are its examples.
"""

import json
import re
from dataclasses import fields
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from jobs.test_agreed import COST, DISPATCH, MODEL, STATISTICS, agreed
from veilsum.core import domains
from veilsum.core.domains import Domain
from veilsum.core.fixed_point import Grid
from veilsum.core.laws import make_law
from veilsum.core.methods.dgd import Dgd
from veilsum.core.methods.makers import MAKERS
from veilsum.core.methods.table import TABLE
from veilsum.core.mixing import MIXING
from veilsum.core.models import families, gammas
from veilsum.core.models.family import Family, LogLink
from veilsum.core.models.glm_sums import (
    ClosingStatistics,
    FirstStatistics,
    RoundStatistics,
)
from veilsum.core.models.least_squares import Statistics
from veilsum.core.topology import Topology
from veilsum.core.uniform import UniformMasks
from veilsum.files.tables import as_frame
from veilsum.jobs.agreed import stand_in
from veilsum.jobs.job_file import job_of
from veilsum.jobs.party_cost import PartyCost
from veilsum.scenario.agreement import PUBLIC_COST

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


def job_plan(sections, kind, table, **changes):
    witness = Witness()
    found = agreed(sections, **changes)
    with pytest.raises(_SeenError):
        job_of(found, kind, {"ann": as_frame(table)}, driver=witness).run()
    return witness.plan


def cost_plan(cost, **sections):
    found = agreed({**COST, **sections, "cost": cost})
    return PartyCost.of(found, stand_in(cost)).plan


RNG = np.random.default_rng(0)
TABLE_OF_ANN = {
    "x": RNG.normal(size=60),
    "y": RNG.normal(size=60) ** 2,
    "sex": ["f", "m"] * 30,
}
SITE = {"demand": [1.0], "a": [1.0], "b": [0.0], "low": [0.0], "high": [2.0]}
HISTOGRAM = {"statistics": {"histograms": {"x": [0, 1]}}}


def plans():
    yield "cost", cost_plan(COST["cost"])
    yield "model", job_plan(MODEL, "model", TABLE_OF_ANN)
    changed = {"model": {"family": "gamma", "formula": "y ~ x"}}
    yield "model", job_plan(MODEL, "model", TABLE_OF_ANN, **changed)
    yield "statistics", job_plan(STATISTICS, "statistics", TABLE_OF_ANN)
    yield "statistics", job_plan(STATISTICS, "statistics", TABLE_OF_ANN, **HISTOGRAM)
    yield "dispatch", job_plan(DISPATCH, "dispatch", SITE)


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


@pytest.mark.parametrize("kind", PUBLIC_COST)
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


@pytest.mark.parametrize("kind", known_domains(), ids=lambda kind: kind.__name__)
def test_the_page_spells_every_domain(kind):
    said = terms_table("cost")["domain"]
    spelt = re.search(rf'`\["{kind.__name__}", \{{(.*?)\}}\]`', said)
    names = sorted(one.name for one in fields(kind))
    assert re.findall(r'"(\w+)"', spelt[1]) == names


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)\n```", part("Terms"), re.S)


def test_the_pages_plan_is_a_real_one():
    plan, terms = blocks("json")
    (digest,) = blocks("text")
    content = b"veilsum plan\0" + plan.encode() + b"\0" + terms.encode()
    assert sha256(content).hexdigest() == digest
    witness = Witness()
    section = job_of(agreed(DISPATCH), "dispatch", {"a": as_frame(SITE)})
    witness.party = "a"
    options = {
        "topology": TRIANGLE,
        "run": json.loads(terms)["run"],
        "tolerate": 0,
        "driver": witness,
    }
    with pytest.raises(_SeenError):
        section.dispatch(**options)
    assert witness.plan.digest.hex() == digest


def test_the_page_has_the_policy_that_is_usual():
    plan = dict(plans())["dispatch"]
    said = " ".join(part("What is agreed beforehand").split())
    policy = plan._here()["policy"]
    assert policy["minimum_parties"] == min(3, policy["minimum_honest"] + 1)
    for key in set(policy) - {"minimum_parties", "stand_in"}:
        assert re.search(rf"`{key}` {json.dumps(policy[key])}\b", said), key


# Numbers


@pytest.mark.parametrize("row", [0, 1, 2, 3])
def test_the_pages_numbers_are_the_laws(row):
    lines = re.findall(r"^\| (-?[\d.]+) \| (\d+) \| (\d+) \| (-?\d+) \|$", PAGE, re.M)
    assert len(lines) == 4
    x, bits, word, whole = (float(lines[row][0]), *map(int, lines[row][1:]))
    one = UniformMasks.on(TRIANGLE, bits=bits)
    three = UniformMasks(Grid(bits), 3, words=3)
    lattice = make_law("lattice", TRIANGLE, sigma=1000.0, bits=bits)
    assert one.encode(np.array([x])).tolist() == [word]
    assert three.encode(np.array([x])).tolist() == [whole]
    assert lattice.encode(np.array([x])).tolist() == [whole]
    # Read as they were written, but for the rounding.
    for law in (one, three, lattice):
        assert law.decode(law.encode(np.array([x]))).item() == whole / 2**bits


@pytest.mark.parametrize(
    ("law", "kind", "width"),
    [
        (UniformMasks.on(TRIANGLE, bits=20), "uint64", 8),
        (UniformMasks.wide(TRIANGLE), "object", 24),
        (make_law("lattice", TRIANGLE, sigma=10.0), "int64", 8),
        (make_law("lattice", TRIANGLE, sigma=1e12, bits=60), "object", None),
    ],
    ids=("word", "words", "lattice", "wide lattice"),
)
def test_the_page_has_every_type_of_number(law, kind, width):
    assert str(law.dtype) == kind
    first = f"| `{law.name}` | `{kind}` | {width or 'see below'} |"
    assert first in part("Numbers")
    assert width in (None, law.number_bytes)


def page_bits_of_uniform(n, largest):
    if largest is None:
        return 50
    finest = 50 + max(0, int(np.ceil(-np.log2(largest))))
    return min(finest, int(np.floor(62 - np.log2(n * largest))))


@pytest.mark.parametrize("largest", [None, 1e-6, 1.0, 1000.0, 1e12])
def test_the_pages_grid_of_uniform_masks_is_the_laws(largest):
    law = UniformMasks.on(TRIANGLE, largest=largest)
    assert law.grid.bits == page_bits_of_uniform(3, largest)


def page_bits_of_lattice(n, links, sigma, largest, weights):
    most = sigma * np.sqrt(max(1.0, *weights))
    least = sigma * np.sqrt(min(1.0, *weights))
    reach = max(64 * most * np.sqrt(2 * links) + largest, n * largest)
    fitting = np.floor(62 - np.log2(reach))
    finest = max(50, np.ceil(10 - np.log2(most)))
    bits = max(30, np.ceil(10 - np.log2(least)), min(fitting, finest))
    return int(bits), np.log2(reach) + bits <= 62


@pytest.mark.parametrize("sigma", [1e-6, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("largest", [None, 0.5, 1e6])
@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.25, 1.0, 4.0)], ids=str)
def test_the_pages_grid_of_lattice_masks_is_the_laws(sigma, largest, weights):
    graph = Topology.from_edges(
        [("a", "b"), ("a", "c"), ("b", "c")], weights=list(weights)
    )
    law = make_law("lattice", graph, sigma=sigma, largest=largest)
    bits, fits = page_bits_of_lattice(3, 2, sigma, largest or 0.0, weights)
    assert law.grid.bits == bits
    assert law.wide == (not fits)


# Sums and rounds


@pytest.mark.parametrize(
    ("layout", "begins"),
    [
        (Statistics, "**`[model]`, gaussian**"),
        (FirstStatistics, "| first |"),
        (RoundStatistics, "| round |"),
        (ClosingStatistics, "| closing |"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_page_has_every_number_of_a_regressions_sum_in_order(layout, begins):
    """The matrix comes first, then the vector; all the others are named."""
    said = part("Sums").partition(begins)[2]
    said = re.split(r"\n\n|\n\|", said)[0]
    names = [one.name for one in fields(layout) if one.type == "float"]
    assert [word for word in words(said) if word in names] == names
    assert said.index("svec(") < said.index(f"`{names[0]}`")


def known_families():
    kinds = [*vars(families).values(), *vars(gammas).values()]
    found = {one for one in kinds if isinstance(one, type) and issubclass(one, Family)}
    return sorted(one.name for one in found - {Family, LogLink})


@pytest.mark.parametrize("name", known_families())
def test_the_page_has_every_family(name):
    assert name in words(terms_table("model")["model"])
    assert name == "gaussian" or f"\n| `{name}` | " in part("Sums")


def test_the_page_has_every_method_with_its_vectors_and_rounds():
    found = {
        words(cells[0])[0]: (int(cells[1]), int(cells[2]))
        for cells in rows(part("Rounds"))
    }
    traits = {name: (one.vectors, one.exchanges) for name, one in TABLE.items()}
    assert found == traits
    assert set(found) == set(MAKERS)
    assert Dgd.rounds_per_iteration == found["dgd"][1]


@pytest.mark.parametrize("name", MIXING)
def test_the_page_has_every_kind_of_weights(name):
    assert f"`{name}`" in part("Rounds")


@pytest.mark.parametrize(
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
