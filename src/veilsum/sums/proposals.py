"""Changes that a refusal proposes: those of one rule are seldom enough.

A refusal names the first rule that refuses a question, and often the next one refuses
it as well. So the question is checked again, here and under the proposed rules, until
nothing refuses it; the message then names all changes together. Nothing is sent for
that, and only the owner of the tables reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from veilsum.errors import InvalidInputError, VeilsumError, printable
from veilsum.tables.columns import SchemaError
from veilsum.tables.rules import (
    RANGES,
    DisclosureError,
    how_rules_are_loosened,
    how_table_rows_are_agreed,
    or_more_table_rows,
)

# Values of rules, by rule; `minimum_rows` is one of the schema.
Changes: TypeAlias = Mapping[str, float]
# After so many refusals the rule that refuses is switched off in the proposal.
TRIES = 12
# What to do instead of a column that tells parties apart.
ABSORB = (
    "If that column is left out, [model] absorb = true (in Python absorb=True) takes "
    "off what else differs between parties"
)


def how_changes_are_agreed(changes: Changes) -> str:
    """Return how rules and the size of tables are changed: in the file, in Python.

    >>> print(how_changes_are_agreed({"minimum_rows": 4, "effective_count": 2}))
    ... # doctest: +NORMALIZE_WHITESPACE
    [schema] minimum_rows = 4 (in Python vs.Schema(..., minimum_rows=4)) and
    [policy] effective_count = 2 (in Python rules=vs.Rules(effective_count=2))
    """
    rules = {name: value for name, value in changes.items() if name != "minimum_rows"}
    said = []
    if "minimum_rows" in changes:
        said.append(how_table_rows_are_agreed(int(changes["minimum_rows"])))
    if rules:
        said.append(how_rules_are_loosened(**rules))
    return " and ".join(said)


def propose_changes(
    refusal: InvalidInputError, check: Callable[[Changes], None], fewest_rows: int
) -> None:
    """Let a refusal propose all changes that its question needs.

    Args:
        refusal: by a rule, or by the schema's minimum number of rows. Its message is
            rewritten; any other error is left as it is.
        check: checks the question again under changed rules, as far as can be known
            here.
        fewest_rows: number of rows of the shortest table that is here.
    """
    changes = first = _changes_of(refusal, fewest_rows)
    if not first:
        return
    problem = ""
    for k in range(TRIES + len(RANGES)):
        try:
            check(changes)
        except InvalidInputError as error:
            more = _changes_of(error, fewest_rows)
            if k >= TRIES:
                more = {name: RANGES[name].weakest for name in more}
            if not more or {**changes, **more} == changes:
                problem = printable(str(error))
                break
            changes = {**changes, **more}
        except VeilsumError:
            break
        else:
            break
    message = str(refusal)
    if problem:
        message = f"{message}. No change of rules is enough, since then: {problem}"
    if isinstance(refusal, DisclosureError):
        rows, refusal.changes = refusal.rows, dict(changes)
        if rows is not None and rows > fewest_rows:
            message = message.replace(or_more_table_rows(rows), "")
    before = first
    if "minimum_rows" in first:  # of one party, and others may have fewer rows
        before = {"minimum_rows": _rows_of(refusal)}
    phrases = how_changes_are_agreed(before), how_changes_are_agreed(changes)
    refusal.args = (message.replace(*phrases), *refusal.args[1:])


def propose_budget(refusal: DisclosureError) -> None:
    """Let a refusal add that a ledger's own budget has to allow as many numbers."""
    part = refusal.changes.get("release_fraction")
    if part is not None:
        _append(refusal, f"A ledger's budget needs release_fraction = {part:g} as well")


def propose_absorbing(refusal: DisclosureError) -> None:
    """Let a refusal of a column that tells parties apart propose to absorb parties."""
    _append(refusal, ABSORB)


def _append(refusal: DisclosureError, sentence: str) -> None:
    refusal.args = (f"{refusal}. {sentence}", *refusal.args[1:])


def _changes_of(error: InvalidInputError, fewest_rows: int) -> Changes:
    """Return the changes that an error proposes; nothing if it proposes none."""
    if isinstance(error, DisclosureError):
        return error.changes
    if isinstance(error, SchemaError) and error.rule == "minimum_rows":
        return {"minimum_rows": max(1, min(fewest_rows, _rows_of(error)))}
    return {}


def _rows_of(error: InvalidInputError) -> int:
    """Return the number of rows that a refusal by the schema's minimum proposes."""
    _, _, after = str(error).partition("minimum_rows=")
    digits = after.partition(")")[0]
    return int(digits) if digits.isdigit() else 1
