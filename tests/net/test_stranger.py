"""Runs of three real parties and a fourth that was written from the page alone.

It shares no line with veilsum: where page and code part, it is not understood, or it
does not understand.
"""

import ast
import asyncio
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from net.runs import BOX, ONE_SHOT, TARGETS, Company, answers, changed, reasons
from net.stranger import take_part
from net.stranger_party import LeftError, Party
from net.stranger_wire import (
    TOLERANCE,
    Consortium,
    Numbers,
    WireError,
    digest,
    frame,
    parse,
    plan,
    plan_digest,
)
from veilsum.cli.app import app
from veilsum.net.receipt import read_receipt, verify_receipts

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "reference" / "wire.md").read_text("utf-8")
MEAN = np.mean(TARGETS, axis=0)
# Who misses a bye waits for one deadline: longer than a whole run takes.
DEADLINE = 30.0
ON_A_BOX = changed(ONE_SHOT, domain=BOX, policy={"deadline": DEADLINE})
# Around a ring records are passed on; in the complete graph all are neighbours.
RUNS = {
    "lattice": changed(ON_A_BOX, graph={"family": "ring:4"}),
    "wide lattice": {**ON_A_BOX, "masks": {"law": "lattice", "sigma": 1e15}},
    "uniform": {**ON_A_BOX, "masks": {"law": "uniform", "largest": 100}},
}
# Once all have met, nobody waits long for one that is not taken along.
IMPATIENT = changed(ON_A_BOX, policy={"deadline": 2.0, "patience": 1, "meeting": 20.0})


def promised(company, folder):
    """The guarantee that a person would copy from the command line."""
    graph = {
        "nodes": [{"id": name} for name in company.names],
        "links": [{"source": a, "target": b} for a, b in company.consortium.links],
    }
    path = folder / "graph.json"
    path.write_text(json.dumps(graph))
    agreed = Consortium.read(company.folder("a") / "consortium.toml")
    found = {**agreed["masks"], "grid": plan(agreed)["grid"]}
    keys = ("law", "sigma", "grid") if "sigma" in found else ("law",)
    options = [word for key in keys for word in (f"--{key}", str(found[key]))]
    words = ["privacy", "--graph", str(path), *options, "--tolerate", "1", "--json"]
    return json.loads(CliRunner().invoke(app, words, catch_exceptions=False).output)


def with_stranger(company, name, *, role=Party, guarantee=None):
    """Run with a stranger in a party's place; what it found, or raised, comes first."""

    async def join(company):
        folder, target = company.folder(name), TARGETS[company.names.index(name)]
        files = (folder / "consortium.toml", folder / f"{name}.key")
        part = take_part(*files, target, guarantee=guarantee, role=role)
        # What an honest one raises ends the test at once.
        found = await asyncio.gather(part, return_exceptions=role is not Party)
        return {name: found[0]}

    others = [one for one in company.names if one != name]
    found = company.run(*others, meanwhile=join)
    return {name: found.pop(name), **found}


def bits(found):
    """Everybody's answer, to the last bit."""
    return {np.array(answer).tobytes() for answer in answers(found).values()}


def all_receipts(company, found, name):
    """Everybody's, the stranger's read back as a file that came by mail."""
    path = company.folder(name) / "receipt.json"
    path.write_text(json.dumps(found[name].receipt, indent=1))
    real = {one: result for one, result in found.items() if one != name}
    return [*company.receipts(real), read_receipt(path)]


@pytest.mark.parametrize("name", ["a", "c"])
@pytest.mark.parametrize("table", RUNS.values(), ids=RUNS)
def test_a_stranger_takes_part(table, name, tmp_path):
    company = Company(tmp_path, table)
    found = with_stranger(company, name, guarantee=promised(company, tmp_path))
    neighbours = {
        other for pair in company.consortium.links for other in pair if name in pair
    } - {name}
    assert found[name].byes == neighbours
    assert len(found) == 4
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, MEAN, atol=1e-6)
    assert len(bits(found)) == 1
    receipts = all_receipts(company, found, name)
    verdict = verify_receipts(receipts, company.consortium)
    assert [one for one in verdict.findings if not one.good] == []
    other = replace(receipts[-1], result="0" * 64)
    assert not verify_receipts([*receipts[:3], other], company.consortium).good


@pytest.mark.parametrize("law", ["lattice", "uniform"])
def test_a_stranger_counts_in_the_unit_of_the_costs(law, tmp_path):
    """Targets are rounded to thousandths, and everybody has the same bits."""
    masks = {"law": law, **({"sigma": 100.0} if law == "lattice" else {})}
    table = {**changed(ON_A_BOX, cost={"unit": 0.001}), "masks": masks}
    company = Company(tmp_path, table)
    found = with_stranger(company, "c")
    assert len(found) == 4
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, MEAN, atol=1e-3)
    assert len(bits(found)) == 1


# Twins: strangers that keep to all of the page but one sentence


class Forger(Party):
    """One that signs its records for another plan."""

    def _sign(self, bare):
        return self.key.sign(b"veilsum record\0" + bytes(32) + digest(bare))


class Turncoat(Party):
    """One that goes on with other shares than it sent."""

    def _confirm(self):
        for key, (*fields, numbers) in self.given.items():
            others = self.law.numbers(value + 1 for value in numbers.values)
            self.given[key] = [*fields, others]
        super()._confirm()

    def _check_confirmations(self):
        """Nor does it mind that nobody confirms these."""


class Forgetful(Party):
    """One that is ready in the name of another start than the one that joined."""

    def _publish(self, kind, epoch, *fields):
        if kind == "Ready":
            self.incarnation = bytes(16)
        return super()._publish(kind, epoch, *fields)


@pytest.mark.parametrize("role", [Forger, Turncoat, Forgetful])
def test_who_does_otherwise_is_not_taken_along(role, tmp_path):
    company = Company(tmp_path, IMPATIENT)
    found = with_stranger(company, "c", role=role)
    told = reasons(found)
    assert told.pop("c").startswith("timeout: ")
    for why in told.values():
        assert "waited for c while" in why
        assert "nothing masked of this party was shown" in why
        assert ("'c' started anew" in why) == (role is Forgetful)


class Misled(Party):
    """One that thinks it was asked for something else."""

    def _request(self):
        return bytes(32)


def test_who_was_asked_for_something_else_sees_nothing(tmp_path):
    company = Company(tmp_path, IMPATIENT)
    found = with_stranger(company, "c", role=Misled)
    told = reasons(found)
    assert told.pop("c").startswith("result: somebody was asked for something else")
    for why in told.values():
        assert "c computed another next request" in why
        assert "nothing masked of this party was shown" in why


class Shifted(Party):
    """One whose answer is somewhat off."""

    by = 0.0

    def _answer(self):
        first, second = super()._answer()
        return [first, second + self.by]


def proposing(by, folder):
    """A run in which the stranger proposes an answer that is off by so much."""
    role = type("Shifted", (Shifted,), {"by": by})
    return with_stranger(Company(folder, ON_A_BOX), "a", role=role)


# Of the mean the second number is above 1: how far apart answers may be there.
ALLOWED = TOLERANCE * MEAN[1]


def test_answers_may_differ_by_as_much_as_the_page_allows(tmp_path):
    assert ALLOWED > 2 * TOLERANCE
    found = proposing(0.9 * ALLOWED, tmp_path)
    assert len(bits(found)) == 1
    for answer in answers(found).values():
        assert abs(answer[1] - MEAN[1]) == pytest.approx(0.9 * ALLOWED, rel=1e-3)


def test_and_by_no_more(tmp_path):
    found = proposing(1.1 * ALLOWED, tmp_path)
    told = reasons(found)
    assert isinstance(found["a"], LeftError)
    assert told.pop("a").startswith("peer: ")
    # Whoever saw it first says so; others may have heard of it before they looked.
    assert any("'a' found another answer" in why for why in told.values())
    assert all(
        "found another answer" in w or "left: result" in w for w in told.values()
    )


# What the stranger is made of


def imported(path):
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_the_stranger_imports_nothing_of_veilsum():
    files = sorted(HERE.glob("stranger*.py"))
    assert len(files) == 4
    found = {module for path in files for module in imported(path)}
    ours = {one for one in found if one.split(".")[0] in {"net", "veilsum"}}
    assert ours <= {f"net.{path.stem}" for path in files}
    assert "veilsum.cli.app" in set(imported(Path(__file__))), "it would be noticed"


def test_the_stranger_finds_the_examples_of_the_page():
    numbers = Numbers("f", (1.0, -2.0))
    page = " ".join(PAGE.split())
    assert frame("Round", 3, 7, numbers).hex(" ") in page
    request = digest(b'veilsum request\0"coefficients"')
    author, opening = ("a", 0, b"", bytes(range(16))), bytes(range(64))
    masked = frame("Masked", *author, opening, Numbers("u", (1, 2**64 - 1)))
    blank = frame("Ready", *author, [], request, bytes(32))
    framed = digest(blank) + digest(masked)
    sealed = digest(b"veilsum commitment\0" + bytes(32) + framed)
    assert masked.hex(" ") in page
    assert frame("Ready", *author, [], request, sealed).hex(" ") in page
    assert numbers.digest.hex() in page
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    (table,) = (tomllib.loads(text) for text in blocks if "[cost]" in text)
    table["run"] = "trial-0123456789abcdef0123456789abcdef"
    table["members"] = [{"name": name} for name in ("a", "b", "c", "zoë")]
    assert plan_digest(Consortium(table)).hex() in page


def test_the_stranger_takes_no_other_frame():
    """Its strictness is what makes a drift visible."""
    good = frame("Confirm", 0, bytes(32))
    assert parse(good) == ["Confirm", 0, bytes(32)]
    size = len(good[7:]) + 2
    longer = good[:3] + size.to_bytes(4, "little") + b"\xdc\x00\x03" + good[8:]
    for bad in (good + b"\0", longer, frame("Confirm", 0), frame("Gossip", 0, b"")):
        with pytest.raises(WireError):
            parse(bad)
