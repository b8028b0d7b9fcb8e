"""A question that is aimed: at one row, at a level or bin that one has, at a site.

Whoever writes the file chooses its terms, and may know of somebody what a neighbour
knows. The attack makes tables up in which the agreed question singles somebody out, and
questions like it that do so on purpose. Rules at home, and counts of parties before
anything else, must refuse each of them: an answer, of whatever size, is a success.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilsum.audit.attack import Outcome
from veilsum.audit.question import (
    AuditRehearsal,
    Holdings,
    SkippedAttack,
    made_up_range,
    values_of_counts,
)
from veilsum.numbers.arrays import Array, listed_names
from veilsum.sums.presence import has_few_values
from veilsum.tables.columns import Column
from veilsum.tables.frames import Frame
from veilsum.tables.rules import Rules

ATTACK = "a question that is aimed"
# What an aim is at.
ROW, SITE = "one row", "one site"
# Rules about answers that a file may weaken, by `Rules`' names; and of how many answers
# it is found out which rule refuses them, in how many tries.
OPEN = (
    *("minimum_count", "effective_count", "maximum_influence"),
    *("maximum_columns", "site_terms"),
)
MOST_ANSWERED, TRIED = 4, 3
# Rows beside the one that differ a little.
NEARLY = 4


@dataclass(frozen=True, eq=False, repr=False)
class AimedQuestion:
    """A question and tables that single somebody out.

    Attributes:
        column: by which column.
        whose: who has the row that is aimed at, and its place, where it is one.
    """

    at: str
    column: str
    question: AuditRehearsal
    held: Holdings
    whose: tuple[str, int] | None = None

    def answered(self, rules: Rules | None = None) -> bool:
        return not self.question.ask(self.held, rules=rules).shows_nothing


def play(
    question: AuditRehearsal,
    *,
    coalition: Sequence[str],
    seed: int,
    trials: int,
    rules: Rules | None = None,
) -> tuple[Outcome | SkippedAttack, ...]:
    """Aim the question, each time at another row of another made-up table.

    Args:
        question: the agreed question.
        coalition: the parties that wrote it.
        seed: repeats the attack.
        trials: for each thing that it can be aimed at.
        rules: other rules than agreed, to measure the effect of the agreed ones.
    """
    if question.schema is None:
        return (SkippedAttack(ATTACK, "the question is not about tables"),)
    found: dict[str, list[bool]] = {}
    for trial in range(trials):
        chance = np.random.default_rng((seed, trial, 4))
        for aim in aims_at_rows(question, coalition, chance, (seed, trial)):
            found.setdefault(aim.at, []).append(aim.answered(rules))
    return tuple(
        Outcome(
            attack=ATTACK,
            coalition=tuple(coalition),
            about=f"an answer to what is aimed at {at}",
            trials=len(each),
            successes=sum(each),
            promised=0.0,
            looked_at="sums",
        )
        for at, each in found.items()
    )


def formulas_that_aim(
    question: AuditRehearsal, *, coalition: Sequence[str], seed: int
) -> tuple[str, ...]:
    """Return by what the file itself allows aims, and what would refuse them.

    Each aim that is answered is asked again with one weakened rule as it usually is,
    and with all of them so.
    """
    agreed, usual = question.rules, Rules()
    if agreed is None:
        return ()
    weakened = {
        rule: {rule: getattr(usual, rule)}
        for rule in OPEN
        if getattr(agreed, rule) != getattr(usual, rule)
    }
    answered: dict[str, list[AimedQuestion]] = {}
    for trial in range(TRIED):
        chance = np.random.default_rng((seed, trial, 4))
        for aim in aims_at_rows(question, coalition, chance, (seed, trial)):
            known = answered.setdefault(aim.at, [])
            if len(known) < MOST_ANSWERED and aim.answered():
                known.append(aim)
    every = {rule: own for change in weakened.values() for rule, own in change.items()}

    def refused(aim: AimedQuestion, change: dict[str, Any]) -> bool:
        return not aim.answered(replace(agreed, **change))

    found = []
    for at, some in answered.items():
        if not some:
            continue
        stopped = {
            rule: sum(refused(aim, change) for aim in some)
            for rule, change in weakened.items()
        }
        told = [
            f"{rule} = {_singled_out_value_as_written(every[rule])}, as usual, "
            f"refuses {count}"
            for rule, count in stopped.items()
            if count
        ]
        own = [
            f"{rule} = {_singled_out_value_as_written(getattr(agreed, rule))}"
            for rule in weakened
        ]
        whole = sum(refused(aim, every) for aim in some) if every else 0
        if not own:
            found.append(
                f"a question aimed at {at} was answered under rules as they usually "
                "are: no rule is known that would stop it"
            )
            continue
        found.append(
            f"a question aimed at {at} was answered because the file itself allows it "
            f"([policy] {', '.join(own)}). Of {len(some)} such questions "
            + (f"{listed_names(told)}; " if told else "")
            + f"all usual rules together refuse {whole}"
        )
    return tuple(found)


def _singled_out_value_as_written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def aims_at_rows(
    question: AuditRehearsal,
    coalition: Sequence[str],
    chance: np.random.Generator,
    seed: Any,
) -> Iterator[AimedQuestion]:
    """Yield what the question can be aimed at, with tables for it."""
    held, _ = question.sound(seed)
    honest = question.honest(coalition)
    victim = honest[int(chance.integers(len(honest)))]
    row = int(chance.integers(len(held[victim])))
    for column in _aimed_question_columns(question):
        if _aim_by_column_level(question, column):
            if len(_singling_out_levels(column)) < 2:
                continue
            one = _one_has_it(held, victim, row, column)
            yield AimedQuestion(ROW, column.name, question, one, (victim, row))
            yield AimedQuestion(
                SITE, column.name, question, _site_has_it(held, victim, column)
            )
        else:
            far = _tables_where_one_row_stands_out(held, victim, row, column)
            yield AimedQuestion(ROW, column.name, question, far, (victim, row))
            yield AimedQuestion(
                SITE,
                column.name,
                question,
                _tables_where_a_number_names_sites(held, column),
            )


def _aimed_question_columns(question: AuditRehearsal) -> tuple[Column, ...]:
    assert question.schema is not None
    job = question.kind.job(question.asked, question.schema)
    return () if job is None else job.schema.columns


def _aim_by_column_level(question: AuditRehearsal, column: Column) -> bool:
    """Say whether the question tells a column's values apart, each from all others.

    Of few numbers a formula does that with C(...), and where there are but two: else
    it takes them for amounts, and one row with the largest is nobody singled out.
    """
    if column.is_category or not has_few_values(column.measure):
        return column.is_category
    formula = getattr(question.asked, "formula", None)
    two = column.measure.most - column.measure.least < 2
    named = f"C({column.name}" in str(formula).replace(" ", "").replace("`", "")
    return formula is None or two or named


def _singling_out_levels(column: Column) -> list[Any]:
    if column.is_category:
        return list(column.categories)
    return values_of_counts(
        column, np.arange(column.measure.least, column.measure.most + 1)
    )


def _one_has_it(
    held: Holdings, victim: str, row: int, column: Column
) -> dict[str, Frame]:
    """Return tables in which one row of a party has a level, and no other there."""
    *others, level = _singling_out_levels(column)
    own = held[victim]
    values = np.resize(np.array(others, dtype=object), len(own))
    values[row] = level
    return {**held, victim: own.assign(**{column.name: list(values)})}


def _site_has_it(held: Holdings, victim: str, column: Column) -> dict[str, Frame]:
    """Return tables in which many rows of one party have a level, and nobody else's."""
    *others, level = _singling_out_levels(column)
    found = {}
    for name, table in held.items():
        values = np.resize(np.array(others, dtype=object), len(table))
        if name == victim:
            values[: len(values) // 2] = level
        found[name] = table.assign(**{column.name: list(values)})
    return found


def _values_in_column_units(column: Column, values: Array[Any]) -> list[Any]:
    """Return numbers as whole ones of a column's unit."""
    return values_of_counts(column, np.rint(values / float(column.measure.unit)))


def _tables_where_one_row_stands_out(
    held: Holdings, victim: str, row: int, column: Column
) -> dict[str, Frame]:
    """Return tables in which one row of a party is all that differs there, nearly."""
    low, high = made_up_range(column)
    # Where there are few numbers, others have some of them at least.
    apart = max(0.1 * (high - low), 3.0 * float(column.measure.unit))
    found = {}
    for name, table in held.items():
        values = np.full(len(table), low + 0.02 * (high - low))
        if name == victim:
            values[: 2 * NEARLY : 2] += 0.01 * (high - low)
            values[row] = high
        else:
            values += apart * np.arange(len(table)) / len(table)
        found[name] = table.assign(
            **{column.name: _values_in_column_units(column, values)}
        )
    return found


def _tables_where_a_number_names_sites(
    held: Holdings, column: Column
) -> dict[str, Frame]:
    """Return tables in which a number is the same in all rows of a party."""
    low, high = made_up_range(column)
    codes = np.linspace(low, high, len(held) + 2)[1:-1]
    return {
        name: table.assign(
            **{column.name: _values_in_column_units(column, np.full(len(table), code))}
        )
        for code, (name, table) in zip(codes, held.items(), strict=True)
    }
