"""A file cannot write on the screen of whoever reads it.

Before anything is sent, a party is shown what it agrees to. What others wrote must not
pass for lines of that screen, and nothing of it reaches a terminal as an order.
"""

import logging
import unicodedata

import pytest
from click.testing import CliRunner

from cases import each
from refusals import refused
from veilsum.cli.app import app
from veilsum.cli.join import ForPeople
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.pem import pem_of_der
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.files.tables import read_table
from veilsum.tables.schema import Column, Schema

ORDER = "\x1b[2J\x1b]0;forged\x07"
NAMES = ("ann", "bob", "cem", "dee")


def consortium(**changes):
    members = [
        {"name": name, "address": f"{name}:1", "certificate": pem_of_der(name.encode())}
        for name in NAMES
    ]
    return {
        "format": 1,
        "run": "a" * 32,
        "title": "a study",
        "members": members,
        "graph": {"edges": [[a, b] for a in NAMES for b in NAMES if a < b]},
        "masks": {"law": "lattice", "sigma": 1.0, "grid": 40},
        "cost": {"kind": "affine", "dim": 1, "remainder": "squared-norm"},
        "domain": {"kind": "box", "lower": -1.0, "upper": 1.0},
        **changes,
    }


@each(
    "title",
    [
        "a study\ndigest      0000 0000",
        "a study\tdigest",
        "a study" + " " * 60 + "digest      0000 0000",
        "a \u202eyduts",
        "a \u2066study",
        "a\u2028digest",
        "a\u2029digest",
        "a\u200bstudy",
        "a\u00a0\u00a0study",
        "a\rdigest",
        ORDER,
        "a" * 201,
    ],
    ids=ascii,
)
def test_a_title_is_one_line_that_can_be_seen(title):
    assert consortium_from(consortium()).title == "a study"
    words = "title must be one line|control characters"
    with pytest.raises(InvalidScenarioError, match=words) as refusal:
        consortium_from(consortium(title=title))
    assert str(refusal.value).isprintable()


@each("letter", ["\u202e", "\u2028", "\u2029", "\u200d", "\x9b"])
def test_no_text_of_the_file_has_letters_that_cannot_be_seen(letter):
    with refused("invisible-characters", InvalidScenarioError):
        consortium_from(consortium(method={"name": f"dgd{letter}"}))


def unseen(text):
    return [
        letter
        for letter in text.replace("\n", "")
        if unicodedata.category(letter) in {"Cc", "Cf", "Zl", "Zp"}
    ]


SCENARIO = """title = "{title}"
[graph]
{graph}
[cost]
kind = "affine"
coefficients = [[1.0], [2.0], [3.0]]
remainder = "squared-norm"
[domain]
kind = "box"
lower = -1
upper = 1
[masks]
law = "none"
[simulation]
seed = 1
"""
RING = 'edges = [["a", "b"], ["b", "c"], ["c", "a"]]'
BAD = r"\u001b]0;forged\u0007\u001b[2J\u202e"


@pytest.mark.parametrize(
    ("title", "graph", "code"),
    [
        (BAD, RING, 0),
        ("[/]", RING, 0),
        ("[bold red]x[/bold red]", RING, 0),
        ("t", RING.replace('"a"', f'"{BAD}"'), 0),
        ("t", RING.replace('"a"', '"[/]"'), 0),
        ("t", f'file = "{BAD}"', 2),
        ("t", f'family = "{BAD}"', 2),
        ("t", f'file = "x{BAD}.json"', 2),
    ],
)
def test_a_scenario_gives_a_terminal_no_orders(tmp_path, title, graph, code):
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO.format(title=title, graph=graph), "utf-8")
    found = CliRunner().invoke(app, ["solve", str(path)])
    assert found.exit_code == code, found.output
    assert not unseen(found.output)
    if title.startswith("["):
        assert title in found.output


def test_a_cell_gives_a_terminal_no_orders(tmp_path):
    path = tmp_path / "table.csv"
    schema = Schema(
        (Column("x", "number"), Column("s", "category", categories=("u", "v")))
    )
    for row in (f'1,"u{ORDER}\nforged"', f'"{ORDER}\nforged",u'):
        path.write_text(f"x,s\n{row}\n", "utf-8")
        with pytest.raises(InvalidInputError, match=r"\\x1b\[2J") as refusal:
            schema.check("ann", read_table(path))
        assert str(refusal.value).isprintable()
    path.write_text(f"{ORDER},{ORDER}\n1,2\n", "utf-8")
    with refused("duplicate-column") as refusal:
        read_table(path)
    assert str(refusal.value).isprintable()


def test_an_event_is_one_line_of_the_log():
    record = logging.makeLogRecord({"msg": "ended", "reason": f"{ORDER}\nforged"})
    assert ForPeople().format(record).isprintable()
