"""A small file cannot stop everybody, ask for everything, or write on a screen.

The sizes of what a formula expands to are known before it is expanded. Numbers of a
policy that are no limit at all are refused where others wrote them, and a title is one
line of text.
"""

from __future__ import annotations

import signal
import tempfile
from functools import partial

import numpy as np
import pandas as pd

import veilsum as vs
from attacks.offices import NAMES, Office, called
from attacks.organiser import Found, patients
from cases import each

# Seconds of the processor's time after which an expansion is thought to have no end.
LIMIT = 4.0
COLUMNS = [f"v{k}" for k in range(22)]
TABLE = pd.DataFrame(
    np.random.default_rng(1).integers(0, 9, (12, len(COLUMNS))), columns=COLUMNS
)
SCHEMA = vs.Schema(
    tuple(vs.Column(name, "integer", 0, 9) for name in COLUMNS), minimum_rows=10
)


class Endless(BaseException):
    """The time is over."""


def stalls(formula):
    """Whether everybody who reads a formula is busy for long."""

    def over(*_):
        raise Endless

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        vs.fit(
            f"v0 ~ {formula}",
            dict.fromkeys(NAMES, TABLE),
            schema=SCHEMA,
            driver="vectorised",
        )
    except Endless:
        return Found("busy", "busy")
    except vs.InvalidInputError as refusal:
        return Found(f"refused: {refusal}", "busy")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return Found("answered", "busy")


def times(n):
    return "*".join(COLUMNS[1 : n + 1])


def plus(n):
    return "+".join(COLUMNS[1 : n + 1])


FORMULAS = {
    "all products of fifteen": times(15),
    "all products of twenty-one": times(21),
    "a power": f"({plus(21)})**5",
    "sums times sums": ":".join([f"({plus(18)})"] * 4),
    "a product with a sum": f"({times(10)})*({times(14)})",
}


# Numbers that are no limit, and titles that are no title


def screens(change):
    """What a party sees that is sent such a file, and is asked to take part."""
    plan = {
        "schema": {
            "minimum_rows": 50,
            "columns": {
                "age": {"kind": "integer", "minimum": 0, "maximum": 100},
                "salary": {"kind": "number", "minimum": 0, "maximum": 200_000},
            },
        },
        "model": {"formula": "salary ~ age"},
        **change,
    }
    with tempfile.TemporaryDirectory() as folder:
        office = Office(folder, patients()["ash"][["age", "salary"]])
        try:
            file = office.file(plan)
        except AssertionError as refusal:
            return f"refused: {refusal}"
        shown = called("consortium", "show", file).output
        asked = office.join(file, answer="n\n").output
        if "proceed?" not in asked:
            return f"refused: {asked}"
        return shown + asked


def accepted(*changes):
    """Whether a party is asked to take part; a key has moved, so all ways count."""
    found = [screens(change) for change in changes]
    asked = [one for one in found if "proceed?" in one]
    return Found("asked" if asked else found[0], "asked")


def forged(title, line):
    """Whether a title passes for a line of the screen."""
    found = screens({"title": title})
    lines = [one.strip() for one in found.splitlines()]
    return Found("forged" if line in lines else f"refused: {found}", "forged")


FREE = {"release_fraction": 1e9}
LINE = "digest      0000 0000 0000 0000"
CHANGES = {
    "a fraction of the rows that is none": partial(
        accepted,
        {"policy": FREE},
        {"model": {"formula": "salary ~ age", **FREE}},
    ),
    "nobody needs to be honest": partial(accepted, {"policy": {"minimum_honest": 0}}),
    "a title with more lines": partial(forged, f"a study\n{LINE}\n", LINE),
    "a title with a line that is none": partial(forged, f"a\u2028{LINE}\u2028b", LINE),
    "a title that turns around": partial(
        forged, "a study\n\u202eetavirp si siht fo lla", "\u202eetavirp si siht fo lla"
    ),
}


ATTACKS = {
    **{name: partial(stalls, one) for name, one in FORMULAS.items()},
    **CHANGES,
}


@each("attack", ATTACKS.values(), ids=ATTACKS)
def test_it_is_refused_in_a_sentence(attack):
    assert attack().recovered.startswith("refused: ")


@each("formula", ["v1*v2", f"({plus(3)})**2", "v1/v2"])
def test_what_is_small_is_answered(formula):
    tables = {
        name: pd.DataFrame(
            np.random.default_rng(k).integers(0, 9, (150, len(COLUMNS))),
            columns=COLUMNS,
        )
        for k, name in enumerate(NAMES)
    }
    schema = vs.Schema(SCHEMA.columns, minimum_rows=100)
    assert vs.fit(f"v0 ~ {formula}", tables, schema=schema, driver="vectorised")


def test_an_ordinary_title_and_policy_are_taken():
    policy = {"release_fraction": 0.4, "minimum_honest": 3}
    assert accepted({"title": "a study", "policy": policy}).succeeded
