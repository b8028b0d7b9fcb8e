"""Disclosure by the exact sums themselves, of one party or of one row.

Masks hide the contributions to a sum, but not the sum. This module reports, as findings
of their own: over how many parties a coalition knows the sum, how many numbers are
released for each row, and what part of a design or a sum is due to one row, on
synthetic rows and at most under the agreed rules. Each finding is a number with a
sentence, and is not a guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilsum.audit.question import AuditRehearsal, Holdings, RehearsedAnswer
from veilsum.graphs.connectivity import graph_components
from veilsum.locale import sentence
from veilsum.models.leverage import LeverageColumns
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import listed_names


@dataclass(frozen=True)
class AuditRemark:
    """One number about sums, and what it means."""

    about: str
    number: float
    words: str


def play(
    question: AuditRehearsal, *, coalition: Sequence[str], seed: int, trials: int
) -> tuple[AuditRemark, ...]:
    """Return what the question's sums say to a coalition; the worst of some tables."""
    draws = [question.sound((seed, trial)) for trial in range(trials)]
    return tuple(_audit_remarks_on_sums(question, coalition, draws))


def sum_remarks_for_audit(question: AuditRehearsal, **how: Any) -> Iterator[str]:
    yield from (one.words for one in play(question, **how))


def _audit_remarks_on_sums(
    question: AuditRehearsal,
    coalition: Sequence[str],
    draws: Sequence[tuple[Holdings, RehearsedAnswer]],
) -> Iterator[AuditRemark]:
    held, played = draws[0]
    yield _remark_on_parties_of_sums(question, coalition, played)
    numbers = sum(one.numbers for one in played.result.releases)
    if question.schema is None:
        words = sentence("audit", "numbers", numbers=numbers)
        yield AuditRemark("numbers released", numbers, words)
        return
    honest = question.honest(coalition)
    rows = sum(len(held[name]) for name in honest)
    shortest = min(len(held[name]) for name in honest)
    fewest = question.schema.minimum_rows
    yield AuditRemark(
        about="numbers released for each row of the shortest table",
        number=numbers / shortest,
        words=sentence(
            "audit", "shortest", numbers=numbers, rows=shortest, fewest=fewest
        ),
    )
    if question.by_row:
        yield AuditRemark(
            about="rows that leave one alone",
            number=rows - 1,
            words=sentence("audit", "all_but_one", known=rows - 1, rows=rows),
        )
    yield _remark_on_row_leverage(question, honest, [one for one, _ in draws])
    yield from _remark_on_largest_row(question, honest, [one for one, _ in draws])


def _remark_on_parties_of_sums(
    question: AuditRehearsal, coalition: Sequence[str], played: RehearsedAnswer
) -> AuditRemark:
    """Say over how few parties the coalition knows the sums; look, if it is one."""
    honest, topology = question.honest(coalition), question.consortium.topology
    among = topology.induced(topology.indices(honest))
    # Parties that only colluders connect are summed apart.
    pieces = [among.names(piece) for piece in graph_components(among)]
    fewest = min(pieces, key=len)
    about = "fewest parties whose sum a coalition knows"
    who = listed_names(coalition) or "somebody outside"
    if len(fewest) > 1:
        words = sentence("audit", "over", who=who, fewest=len(fewest))
        return AuditRemark(about=about, number=len(fewest), words=words)
    if len(honest) == 1:
        given = tuple(each[honest[0]] for each in played.given)
        assert played.rest(coalition) == given
    words = sentence("audit", "alone", who=who, alone=fewest[0])
    return AuditRemark(about=about, number=1, words=words)


def _remark_on_row_leverage(
    question: AuditRehearsal, honest: Sequence[str], draws: Sequence[Holdings]
) -> AuditRemark:
    """Return how nearly a combination of columns points at one made-up row."""
    assert question.rules is not None
    found = max(
        _audited_design_columns(question, held[name]).leverage().largest
        for held in draws
        for name in honest
    )
    most = question.rules.maximum_influence
    return AuditRemark(
        about="largest leverage of one row at its party",
        number=found,
        words=sentence("audit", "leverage", found=found, most=most),
    )


def _audited_question_job(question: AuditRehearsal) -> Any:
    assert question.schema is not None
    return question.kind.job(question.asked, question.schema)


def _audited_design_columns(question: AuditRehearsal, table: Any) -> LeverageColumns:
    """Return a party's design; where there is none, the columns that are asked about.

    A category is as many columns as it has levels.
    """
    job = _audited_question_job(question)
    checked = job.schema.check("", table)
    rows = getattr(job.bring(checked), "rows", None)
    if isinstance(rows, Rows):
        return LeverageColumns(rows, None)
    columns = [np.ones(checked.n_rows)]
    for one in job.schema.columns:
        values = checked.look(one.name)
        levels = range(1, len(one.categories)) if one.is_category else ()
        columns += [np.asarray(values == level, dtype=float) for level in levels]
        columns += [] if one.is_category else [np.asarray(values, dtype=float)]
    return LeverageColumns(Rows(np.column_stack(columns), np.zeros(checked.n_rows)), 0)


def _remark_on_largest_row(
    question: AuditRehearsal, honest: Sequence[str], draws: Sequence[Holdings]
) -> Iterator[AuditRemark]:
    """Yield how much of a column's sum over honest parties is one made-up row's."""
    assert question.rules is not None
    schema = _audited_question_job(question).schema
    parts: dict[str, float] = {}
    for held in draws:
        tables = [schema.check(name, held[name]) for name in honest]
        for one in schema.columns:
            if one.is_category:
                continue
            sizes = np.abs(np.concatenate([each.numbers(one.name) for each in tables]))
            if (total := float(sizes.sum())) > 0.0:
                part = float(sizes.max()) / total
                parts[one.name] = max(part, parts.get(one.name, 0.0))
    if not parts:
        return
    column = max(parts, key=lambda name: parts[name])
    least = question.rules.effective_count
    yield AuditRemark(
        about="largest part of a sum that is one row's",
        number=parts[column],
        words=sentence(
            "audit", "largest_row", column=column, part=parts[column], least=least
        ),
    )
