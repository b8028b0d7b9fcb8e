"""Refusals: do their words, or who stays away from which file, tell of a table?

A refusal is decided at home. What others may hear of it names a rule, and no number of
the table. And whoever sends file after file with other bounds sees which of them a
party stays away from: a ledger looks at few of them a day, each worth one bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from veilsum.audit.aimed import aims_at_rows
from veilsum.audit.attack import Outcome
from veilsum.audit.question import AuditRehearsal, SkippedAttack
from veilsum.consortium.consortium import Consortium, consortium_from
from veilsum.files.ledger import SAME_QUESTIONS, open_ledger
from veilsum.privacy.accountant import Budget
from veilsum.tables.frames import load_pandas

ATTACK = "refusals"
# How many rows a party may have, for all that an organiser knows.
SIZES = 64


def play(
    question: AuditRehearsal,
    *,
    coalition: Sequence[str],
    seed: int,
    trials: int,
    ledger: bool = True,
) -> tuple[Outcome | SkippedAttack, ...]:
    """Guess from words, and from absences.

    `ledger`: whether the party that receives the files keeps one.
    """
    if question.schema is None:
        return (SkippedAttack(ATTACK, "no rules refuse what is not about tables"),)

    def counted(about: str, right: int, times: int, promised: float) -> Outcome:
        return Outcome(ATTACK, tuple(coalition), about, times, right, promised, "words")

    guesses, bisected = list[bool](), 0
    for trial in range(trials):
        guesses += _guess_by_refusal_words(question, coalition, (seed, trial))
        bisected += _guess_by_absences(
            question, coalition, (seed, trial), ledger=ledger
        )
    said: Outcome | SkippedAttack = SkippedAttack(
        ATTACK, "nothing is refused by its rules"
    )
    if guesses:
        about = "which of two tables is refused by a rule"
        said = counted(about, sum(guesses), len(guesses), 0.0)
    about = f"how many rows a party has, of {SIZES} numbers, by where it stays away"
    # Every file that is looked at says one of two things.
    return said, counted(about, bisected, trials, 2**SAME_QUESTIONS / SIZES)


def _guess_by_refusal_words(
    question: AuditRehearsal, coalition: Sequence[str], seed: Any
) -> list[bool]:
    """Say for each column that points at one row whether the words tell of the table.

    The other table has rows more, other numbers beside the column, and two rows of the
    kind instead of one: all that a refusal in full repeats.
    """
    chance, found = np.random.default_rng([*seed, 6]), []
    for aim in aims_at_rows(question, coalition, chance, seed):
        if aim.whose is None:
            continue
        victim, row = aim.whose
        others = question.made_up([*seed, 7], *question.size)
        longer = {}
        for name, table in aim.held.items():
            values = [*table[aim.column]]
            if name == victim:
                values[row - 1] = values[row]
            longer[name] = _table_with_refused_column(others[name], aim.column, values)
        worlds = [question.ask(one) for one in (aim.held, longer)]
        rules = [getattr(one.error, "rule", None) for one in worlds]
        if rules[0] is None or rules[0] != rules[1]:
            continue  # which rule it is, is said
        one, other = ((one.words, len(one.shown)) for one in worlds)
        found.append(one != other)
    return found


def _table_with_refused_column(table: Any, column: str, values: Any) -> Any:
    """Return other rows with this column, and three more of its commonest value."""
    made = table.assign(**{column: values[: len(table)]})
    common = made[made[column] == made[column].mode().iloc[0]]
    return load_pandas().concat([made, common.iloc[[0] * 3]], ignore_index=True)


def _guess_by_absences(
    question: AuditRehearsal, coalition: Sequence[str], seed: Any, *, ledger: bool
) -> bool:
    """Say whether bisection by files finds how many rows a party has."""
    # Not before: who draws a figure would need the packages of real parties.
    from veilsum.party.checks import check_question_at_home
    from veilsum.party.inputs import PartyTableInput

    victim = question.honest(coalition)[0]
    first, spread = question.size
    chance = np.random.default_rng([*seed, 8])
    truth = first + int(chance.integers(SIZES))
    table = question.held([*seed, 9], truth, spread)
    low, high = first, first + SIZES - 1
    with ExitStack() as stack:
        book = None
        if ledger:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            tolerate = question.consortium.rules.policy.tolerate
            book = stack.enter_context(
                open_ledger(folder / "own", create=Budget(tolerate=tolerate))
            )
        while low < high:
            middle = (low + high) // 2
            file = _audited_rows_at_most(question.consortium, middle)
            part = PartyTableInput(consortium=file, name="own", table=table)
            if check_question_at_home(part, victim, book).good:
                high = middle
            else:
                low = middle + 1
    return low == truth


def _audited_rows_at_most(consortium: Consortium, rows: int) -> Consortium:
    table = consortium.to_table()
    table["schema"] = {**table["schema"], "maximum_rows": rows}
    return replace(consortium_from(table), members=consortium.members)
