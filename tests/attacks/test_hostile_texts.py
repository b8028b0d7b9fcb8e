"""Hundreds of hostile texts: nothing runs, nothing hangs, a screen shows text only.

Work is counted in calls, never measured by a clock. The canary hands the same formulas
to the evaluator that once served them, where many run: the corpus has not rotted.
"""

import json
import random
import sys
from contextlib import contextmanager, suppress
from itertools import pairwise

import formulaic
import numpy as np
import pandas as pd
import pytest
import tomli_w
from click.testing import CliRunner

from attacks.hostile import CORPUS, EVIL, MARKS, listening, marked
from attacks.test_formulas_run_no_code import consortium, section
from net.runs import Company, data_files
from veilsum.cli.app import app
from veilsum.errors import InvalidInputError, VeilsumError, is_seen
from veilsum.files.scenarios import read_scenario
from veilsum.sums.kinds import check_agreed_file
from veilsum.tables.formula import ModelFormula
from veilsum.tables.schema import Column, Schema

SCHEMA = Schema(
    (
        Column("y", "number", 1, 100, unit=1),
        Column("a", "category", categories=("b", "c")),
        *(Column(f"v{k}", "number", 1, 100, unit=1) for k in range(60)),
    ),
    minimum_rows=1,
)
# Calls of Python functions and built-in ones that a text may cost; an ordinary one
# costs some thousands, and the largest that is allowed 1,000 columns of a design.
MOST_CALLS = 1_000_000


class TooMuchWork(AssertionError):
    """A text had more done than any may."""


@contextmanager
def counted():
    """Count calls, and stop what does not end by itself."""
    calls = [0]

    def count(_frame, event, _argument):
        calls[0] += event in {"call", "c_call"}
        if calls[0] > MOST_CALLS:
            sys.setprofile(None)
            raise TooMuchWork

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def formula(text, _):
    ModelFormula.of(text, SCHEMA)


def in_a_file(table):
    found = consortium("a", ("b", "c"), "y ~ C(a)", **table)
    check_agreed_file(found)


def name(text, _):
    columns = section(text, ["b", "c"])
    schema = Schema.from_table(columns)
    with suppress(InvalidInputError):
        ModelFormula.of(f"y ~ `{text}` + C(`{text}`)", schema)
    in_a_file({"schema": columns, "model": {"formula": f"y ~ C(`{text}`)"}})


def level(text, _):
    columns = section("a", [text, "other"])
    schema = Schema.from_table(columns)
    with suppress(InvalidInputError):
        ModelFormula.of(f"y ~ C(a, Treatment('{text}'))", schema)
    in_a_file({"schema": columns})


def title(text, _):
    in_a_file({"title": text})


def path(text, folder):
    file = folder / "scenario.toml"
    table = {"graph": {"file": text}, "cost": {"kind": "affine"}}
    file.write_bytes(tomli_w.dumps(table).encode("utf-8", "surrogatepass"))
    read_scenario(file)


READERS = {one.__name__: one for one in (formula, name, level, title, path)}


@pytest.fixture(autouse=True, scope="module")
def loaded(tmp_path_factory):
    """What is loaded for the first time runs code, and it is the package's own."""
    folder = tmp_path_factory.mktemp("first")
    for place in READERS:
        with suppress(VeilsumError):
            READERS[place]("y ~ a + C(a, contr.poly) + log(y)", folder)
    in_a_file({})


def test_nothing_runs_and_nothing_hangs(tmp_path):
    assert len(CORPUS) >= 300
    most, taken = 0, {}
    for one in CORPUS:
        said = ""
        with marked() as marks, listening() as heard, counted() as calls:
            try:
                READERS[one.place](one.text, tmp_path)
                taken.setdefault(one.place, []).append(one.text)
            except VeilsumError as error:
                said = str(error)
        assert not marks, one
        assert not [text for text in heard if isinstance(text, str | bytes)], one
        assert all(map(is_seen, said.split("\n"))), one
        assert len(said) < 3000, one
        most = max(most, calls[0])
    assert most > 1000, "the counter counts"
    # Nothing that could be told from what it shows was let through.
    # A formula may go on in the next line.
    seen = [is_seen(text.strip()) for place in taken for text in taken[place]]
    assert all(seen)
    assert "path" not in taken
    assert all(len(text) <= 200 for text in taken["name"] + taken["level"])


def test_the_counter_stops_what_does_not_end():
    with pytest.raises(TooMuchWork), counted():  # noqa: PT012
        while True:
            abs(1)


def test_the_same_formulas_run_where_text_is_evaluated():
    """As formulas were evaluated once: by formulaic, which asks Python."""
    ran = []
    for one in CORPUS:
        if one.place != "formula" or EVIL not in one.text:
            continue
        frame = pd.DataFrame({"y": np.arange(1.0, 5.0), one.column: [*one.levels] * 2})
        with marked(), suppress(Exception):
            formulaic.model_matrix(one.text, frame)
        if MARKS:
            ran.append(one)
        MARKS.clear()
    assert len(ran) >= 20


# Screens


@pytest.fixture(scope="module")
def company(tmp_path_factory):
    folder = tmp_path_factory.mktemp("company")
    frame = pd.DataFrame({"y": np.arange(60.0) % 7, "a": ["b", "c"] * 30})
    number = {"kind": "number", "minimum": 0, "maximum": 9, "unit": 1}
    table = {
        "schema": {
            "minimum_rows": 50,
            "columns": {
                "y": number,
                "a": {"kind": "category", "categories": ["b", "c"]},
            },
        },
        "model": {"formula": "y ~ C(a)"},
        "masks": {"law": "uniform"},
    }
    return Company(folder, data_files(table, dict.fromkeys("pqrs", frame), folder))


def changed(table, one):
    """A consortium file's values with a hostile text in its place."""
    table = json.loads(json.dumps(table))
    line = {"kind": "category", "categories": ["b", "c"]}
    match one.place:
        case "formula":
            table["model"]["formula"] = one.text
        case "title":
            table["title"] = one.text
        case "name":
            table["schema"]["columns"] = {"y": {"kind": "number", "unit": 1}}
            table["schema"]["columns"][one.text] = line
            table["model"]["formula"] = f"y ~ C(`{one.text}`)"
        case "level":
            table["schema"]["columns"]["a"]["categories"] = [one.text, "c"]
    return table


def only_text(output):
    return all(map(is_seen, output.split("\n")))


def invoke(*words, **options):
    found = CliRunner().invoke(app, [*map(str, words)], **options)
    assert found.exception is None or isinstance(found.exception, SystemExit), words
    return found


def some(place, number):
    """Texts of one place, the same in every run; the readers above have them all."""
    found = [one for one in CORPUS if one.place == place and len(one.text) < 5000]
    return random.Random(18).sample(found, min(number, len(found)))


def test_a_screen_shows_nothing_but_text(company):
    folder = company.folder("p")
    option, data = company.seats["p"].option
    good = company.consortium.to_table()
    file = folder / "hostile.toml"
    shown = asked = 0
    assert not only_text("a\x1b[2J")
    numbers = {"title": 26, "formula": 8, "name": 8, "level": 8}
    texts = [one for place, number in numbers.items() for one in some(place, number)]
    for place, one in enumerate(texts):
        text = tomli_w.dumps(changed(good, one), multiline_strings=True)
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        found = invoke("consortium", "show", file)
        assert only_text(found.output), one
        shown += found.exit_code == 0
        if found.exit_code and place % 4:
            continue
        # A ledger that has seen ten refusals lets nothing more be looked at.
        (folder / "p.ledger").unlink(missing_ok=True)
        words = [file, option, folder / data]
        found = invoke("join", *words, "--out", folder / "out", input="n\n")
        assert only_text(found.output), one
        assert found.exit_code != 0
        asked += "proceed?" in found.output
        assert only_text(invoke("check", *words).output), one
    assert 5 <= shown < len(texts)
    assert asked >= 5


def test_a_doctor_and_a_verifier_show_nothing_but_text(tmp_path):
    names = [one.text for one in CORPUS if one.place == "name" and len(one.text) < 300]
    names = [*dict.fromkeys(one.encode("utf-8", "replace").decode() for one in names)]
    nodes = [{"id": one} for one in names]
    links = [{"source": a, "target": b} for a, b in pairwise(names)]
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps({"nodes": nodes, "links": links}), "utf-8")
    found = invoke("doctor", "--graph", graph, "--tolerate", "1")
    assert only_text(found.output)
    assert found.exit_code in {0, 1}, found.output
    for text in (*(one.text for one in some("name", 15)), "\x1b[2J"):
        receipt = tmp_path / "receipt.json"
        receipt.write_text(
            json.dumps({"format": "veilsum receipt 1", text: text, "run": text}),
            "utf-8",
        )
        assert only_text(invoke("verify", receipt).output)
