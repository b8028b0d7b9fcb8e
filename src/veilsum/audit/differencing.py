"""Differences of sums: the same question, to one party less, or of one row less.

Two exact totals over sets that differ by one party leave that party's own numbers; two
over tables that differ by one row leave that row. No mask helps against it. Every
honest party keeps a ledger, which refuses the second question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from veilsum.audit.attack import Outcome
from veilsum.audit.question import (
    AuditRehearsal,
    Holdings,
    RehearsalAttempt,
    SkippedAttack,
    attack_reading,
    attack_total_without,
)
from veilsum.files.ledger import Ledger, open_ledger
from veilsum.privacy.accountant import Budget

ATTACK = "differencing"


def play(
    question: AuditRehearsal,
    *,
    coalition: Sequence[str],
    seed: int,
    trials: int,
    ledgers: bool = True,
) -> tuple[Outcome | SkippedAttack, ...]:
    """Ask twice, and take the difference.

    Without `ledgers` the trials measure the effect of the honest parties' ledgers.
    """
    kinds: dict[str, Callable[..., Any]] = {
        "one party": lambda held, victim: {k: v for k, v in held.items() if k != victim}
    }
    # Tables of two lengths were agreed on, with these rows made up.
    n_rows, _ = question.size
    if question.schema is not None and question.at_most(n_rows + 1) > n_rows:
        kinds["one row"] = lambda held, victim: {**held, victim: held[victim].iloc[:-1]}
    found: list[Outcome | SkippedAttack] = []
    for what, less in kinds.items():
        right = 0
        for trial in range(trials):
            with ExitStack() as stack:
                books = (
                    _differencing_ledgers(question, coalition, stack) if ledgers else {}
                )
                hit = _recover_left_out_rows(
                    question, coalition, (seed, trial), less, books
                )
            if hit is None:
                found.append(
                    SkippedAttack(ATTACK, "a new ledger refuses the first question")
                )
                break
            right += hit
        else:
            about = f"what {what} gave, by two questions"
            found.append(
                Outcome(ATTACK, tuple(coalition), about, trials, right, 0.0, "sums")
            )
    return tuple(found)


def _differencing_ledgers(
    question: AuditRehearsal, coalition: Sequence[str], stack: ExitStack
) -> dict[str, Ledger]:
    """Return a new ledger for every honest party, as joining makes one."""
    folder = Path(stack.enter_context(TemporaryDirectory()))
    budget = Budget(tolerate=question.consortium.rules.policy.tolerate)
    return {
        name: stack.enter_context(open_ledger(folder / str(k), create=budget))
        for k, name in enumerate(question.honest(coalition))
    }


def _recover_left_out_rows(
    question: AuditRehearsal,
    coalition: Sequence[str],
    seed: Any,
    less: Callable[..., Holdings],
    books: dict[str, Ledger],
) -> bool | None:
    """Say whether a difference is what was left out; None without a first answer."""
    honest = question.honest(coalition)
    chance = np.random.default_rng([*seed, 5])
    victim = honest[int(chance.integers(len(honest)))]
    # A row to spare, which a second table can do without.
    held, _ = question.sound(seed, {victim: question.size[0] + 1})

    def ask(holdings: Holdings, run: str) -> RehearsalAttempt:
        kept = {name: one for name, one in books.items() if name in holdings}
        return question.ask(holdings, ledgers=kept, run=run)

    first = ask(held, f"first {seed}")
    if first.played is None:
        return None
    second = ask(less(held, victim), f"second {seed}")
    if second.played is None:
        return False
    # The first round about rows is the same question in both.
    place = int(first.screened)
    if len(second.played.totals) <= place or len(first.played.totals) <= place:
        return False
    given = second.played.given[place].get(victim)
    truth = first.played.given[place][victim]
    truth = truth if given is None else attack_total_without(truth, given)
    rest = first.played.totals[place], second.played.totals[place]
    law = first.played.law
    left = attack_reading(law, attack_total_without(rest[0], rest[1]))
    return left == attack_reading(law, truth)
