"""A file runs no code: what an organiser writes is read, never evaluated.

The organiser of a consortium writes the file that all others run. Column names, levels
and the formula are its text; each attack here once ran, or tries to run, a command at
whoever checks the file.
"""

import builtins
import sys
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import veilsum as vs
from veilsum.core.arrays import Array
from veilsum.errors import InvalidInputError
from veilsum.jobs.agreed import check_agreed
from veilsum.jobs.formula import ModelFormula
from veilsum.jobs.formula_job import FormulaJob, inferred_schema
from veilsum.jobs.model import family_of
from veilsum.jobs.schema import Column, Schema
from veilsum.scenario.consortium import consortium_from
from veilsum.scenario.pem import pem_of

# Text that runs leaves a mark here; `__import__` finds this module by its name.
MARKS: list[str] = []
MARK = "veilsum_mark"
# Without a quote or a backtick, as python writes it: so it fits into any level.
EVIL = f"exec(bytes({list(f'import {MARK}; {MARK}.MARKS.append(1)'.encode())}))"
NAMES = ("ann", "bob", "cem", "dee")

# A category column, its levels, and a formula that once ran EVIL, or might.
ATTACKS = {
    "a quote inside backticks": (
        "a'",
        (f"`=[{EVIL}, ", "b"),
        f"y ~ C(`a'`, contr.treatment('`=([{EVIL}, ')) #`']))",
    ),
    "double quotes inside backticks": (
        'a"',
        (f"`=[{EVIL}, ", "b"),
        f'y ~ C(`a"`, contr.treatment("`=([{EVIL}, ")) #`"]))',
    ),
    "a response beside it": (
        "a'",
        (f"`=[{EVIL}, ", "b"),
        f"y ~ y:C(`a'`, contr.treatment('`=([{EVIL}, ')) #`'])) - 1",
    ),
    "a level that is a call": (
        "a",
        (f"'+str({EVIL})+'", "b"),
        f"y ~ C(a, Treatment(''+str({EVIL})+''))",
    ),
    "a name that is a call": (EVIL, ("b", "c"), f"y ~ C(`{EVIL}`)"),
    "a name that ends its backticks": (
        f"a`+{EVIL}+`b",
        ("b", "c"),
        f"y ~ log(`a`+{EVIL}+`b`)",
    ),
    "braces": ("a", ("b", "c"), f"y ~ {{{EVIL}}}"),
    "a call": ("a", ("b", "c"), f"y ~ {EVIL}"),
    "a function's argument": ("a", ("b", "c"), f"y ~ log({EVIL})"),
    "an option": ("a", ("b", "c"), f"y ~ C(a, Treatment({EVIL}))"),
    "a contrast": ("a", ("b", "c"), f"y ~ C(a, {EVIL})"),
    "a comment": ("a", ("b", "c"), f"y ~ C(a) #`\n + {{{EVIL}}}"),
    "a subscript": ("a", ("b", "c"), f"y ~ C(a)[{EVIL}]"),
    "the left side": ("a", ("b", "c"), f"{{{EVIL}}} ~ a"),
    "a default": ("a", ("b", "c"), f"y ~ {{(lambda x={EVIL}: x)()}}"),
    "a format": ("a", ("b", "c"), f"y ~ {{f'{{{EVIL}}}'}}"),
}
every_attack = pytest.mark.parametrize(
    ("column", "levels", "text"), ATTACKS.values(), ids=ATTACKS
)


@pytest.fixture(autouse=True)
def marks(monkeypatch):
    monkeypatch.setitem(sys.modules, MARK, sys.modules[__name__])
    MARKS.clear()
    eval(EVIL)  # the mark can be left: no test here passes for want of a way
    assert MARKS
    MARKS.clear()
    yield MARKS
    assert not MARKS


def tables(column, levels):
    """One table for each member, with the attacked column."""
    frame = pd.DataFrame({"y": np.arange(60.0), column: list(levels) * 30})
    return dict.fromkeys(NAMES, frame)


def section(column, levels):
    return {
        "minimum_rows": 50,
        "columns": {
            "y": {"kind": "number"},
            column: {"kind": "category", "categories": list(levels)},
        },
    }


def consortium(column, levels, text):
    members = [
        {
            "name": name,
            "certificate": pem_of(f"the certificate of {name}".encode()),
            "address": f"{name}:1",
        }
        for name in NAMES
    ]
    pairs = [[a, b] for k, a in enumerate(NAMES) for b in NAMES[k + 1 :]]
    return consortium_from(
        {
            "format": 1,
            "run": "a-test-" + "0123456789abcdef" * 2,
            "members": members,
            "graph": {"edges": pairs},
            "masks": {"law": "uniform"},
            "schema": section(column, levels),
            "model": {"formula": text},
        }
    )


@every_attack
def test_a_consortium_file_runs_nothing(column, levels, text):
    with pytest.raises(InvalidInputError):
        check_agreed(consortium(column, levels, text))


@every_attack
def test_a_formula_runs_nothing(column, levels, text):
    with pytest.raises(InvalidInputError):
        ModelFormula.of(text, Schema.from_table(section(column, levels)))


@every_attack
def test_a_formula_runs_nothing_whatever_the_schema_allows(column, levels, text):
    """The reader of formulas does not lean on the schema's rules for names."""
    made = Column("a", "category", categories=("b", "c"))
    object.__setattr__(made, "name", column)
    object.__setattr__(made, "categories", levels)
    schema = Schema((Column("y", "number"), made), minimum_rows=1)
    try:
        formula = ModelFormula.of(text, schema)
    except InvalidInputError:
        return
    frame = pd.DataFrame({"y": [1.0, 2.0], column: list(levels)})
    formula.design(schema.check("ann", frame))


@every_attack
def test_a_fit_runs_nothing(column, levels, text):
    with pytest.raises(InvalidInputError):
        vs.fit(text, tables(column, levels))
    with pytest.raises(InvalidInputError):
        vs.fit(text, tables(column, levels), family="logistic", weights=column)
