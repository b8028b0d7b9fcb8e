"""`veilsum ledger`: what a party's data has been exposed to."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from veilsum.cli.app import BadInput
from veilsum.cli.output import json_option, print_json, terminal_console, terminal_table
from veilsum.errors import LedgerError, printable

if TYPE_CHECKING:
    from veilsum.privacy.accountant import (
        AccountCopied,
        AccountHistory,
        AccountReservation,
        AccountResumed,
        Budget,
        PrivacyAccount,
    )
    from veilsum.privacy.composition import Charge

ACCOUNT = (
    *("data set", "versions", "runs", "resent", "epsilon", "epsilon left"),
    *("numbers", "reserved", "numbers left", "refusals"),
)


@click.command("ledger")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def command(*, file: Path, as_json: bool) -> None:
    """Show a ledger: its entries, what each data set has spent, what is left.

    The file is only read. Data sets are numbered in order of appearance.

    \b
    Example:
      veilsum ledger hospital-3.ledger
    """
    from veilsum.files.ledger import read_ledger

    try:
        history = read_ledger(file)
    except LedgerError as error:
        raise BadInput(str(error)) from None
    if as_json:
        print_json(_ledger_command_document(history))
    else:
        _print_ledger_file(file, history)


def _ledger_command_document(history: AccountHistory) -> dict[str, Any]:
    from veilsum.privacy.accountant import account_numbers, accounts_of_data_sets

    numbers = account_numbers(history)
    return {
        "budget": asdict(history.budget),
        "earlier_budgets": [asdict(old) for old in history.budgets[:-1]],
        "charges": [
            _ledger_charge_as_json(one, numbers[one.data]) for one in history.charges
        ],
        "releases": [
            {
                "statistic": one.statistic,
                "point": list(one.point),
                "parties": list(one.parties),
                "data_set": numbers[one.data],
                "numbers": one.numbers,
                "columns": list(one.columns),
                "run": one.run,
                "when": one.when,
            }
            for one in history.releases
        ],
        "reservations": [
            _ledger_reservation_as_json(one, numbers[one.data], history.pending)
            for one in history.reservations
        ],
        "refusals": [
            {
                "file": one.file,
                "reason": one.reason,
                "data_set": numbers[one.data],
                "when": one.when,
            }
            for one in history.refusals
        ],
        "copies": [asdict(one) for one in history.copies],
        "copied": history.copied,
        "data_sets": [account.to_dict() for account in accounts_of_data_sets(history)],
    }


def _ledger_charge_as_json(charge: Charge, number: int) -> dict[str, Any]:
    return {
        "epoch": charge.epoch,
        "data_set": number,
        "law": charge.law,
        "parties": list(charge.parties),
        "exposures": [
            {
                "coalition": list(one.coalition),
                "tolerate": one.tolerate,
                "status": one.status,
                "epsilon": one.epsilon,
                "components": [asdict(part) for part in one.components],
            }
            for one in charge.exposures
        ],
        "when": charge.when,
    }


def _ledger_reservation_as_json(
    one: AccountReservation, number: int, pending: dict[str, int]
) -> dict[str, Any]:
    return {
        "run": one.run,
        "statistic": one.statistic,
        "parties": list(one.parties),
        "data_set": number,
        "numbers": one.numbers,
        "still_reserved": pending.get(one.run, 0),
        "columns": list(one.columns),
        "limits": asdict(one.limits),
        "question": json.loads(one.question) if one.question else None,
        "when": one.when,
    }


def _printed_ledger_copy(one: AccountCopied | AccountResumed) -> str:
    from veilsum.privacy.accountant import AccountCopied

    if isinstance(one, AccountCopied):
        return f"A copy of {one.when}: what was recorded later elsewhere is not here."
    missing = "".join(f", {run} is not counted" for run in one.uncounted)
    return f"Its owner said on {one.when}: {one.statement!r}{missing}."


def _print_ledger_file(file: Path, history: AccountHistory) -> None:
    from veilsum.numbers.arrays import listed_names
    from veilsum.privacy.accountant import account_numbers, accounts_of_data_sets

    numbers, found = account_numbers(history), accounts_of_data_sets(history)
    terminal_console().print(
        f"{escape(str(file))}: {_printed_ledger_budget(history.budget)}"
    )
    for one in history.copies:
        terminal_console().print(escape(printable(_printed_ledger_copy(one))))
    _print_ledger_table(
        ("epoch", "data set", "parties", "against", "status", "epsilon"),
        [
            (
                escape(charge.epoch),
                str(numbers[charge.data]),
                _printed_column_names(charge.parties),
                escape(one.against),
                one.status,
                _printed_ledger_number(one.epsilon),
            )
            for charge in history.charges
            for one in charge.exposures
        ],
    )
    _print_ledger_table(
        ("exact aggregate", "data set", "numbers", "parties", "point"),
        [
            (
                *(escape(one.statistic), str(numbers[one.data]), str(one.numbers)),
                *(
                    _printed_column_names(one.parties),
                    listed_names([f"{x:.4g}" for x in one.point], most=3),
                ),
            )
            for one in history.releases
        ],
    )
    pending = history.pending
    _print_ledger_table(
        ("run", "data set", "numbers at most", "still reserved"),
        [
            (escape(one.run), str(numbers[one.data]), str(one.numbers), left)
            for one in history.reservations
            for left in [str(pending.get(one.run, 0))]
        ],
    )
    _print_ledger_table(
        ("refused", "data set", "reason"),
        [
            (one.when or "", str(numbers[one.data]), escape(printable(one.reason)))
            for one in history.refusals
        ],
    )
    _print_ledger_table(ACCOUNT, [_printed_account_row(account) for account in found])
    for account in found:
        if account.total.reason is not None:
            words = f"\nData set {account.data_set} has no bound: "
            terminal_console().print(words + escape(account.total.reason))


def _print_ledger_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    screen = terminal_console()
    screen.print()
    screen.print(
        terminal_table(columns, rows) if rows else f"{columns[0]}: none so far"
    )


def _printed_ledger_budget(budget: Budget) -> str:
    epsilon = "no limit of" if budget.epsilon is None else f"{budget.epsilon:.6g} of"
    fraction = budget.release_fraction
    numbers = (
        "as many exact numbers as a run's policy allows"
        if fraction is None
        else f"exact numbers below {fraction:g} of those in honest parties' rows"
    )
    return (
        f"each data set has {epsilon} epsilon and {numbers}; what follows from its "
        f"sums is about at least {budget.few + 1} parties; data cuts differ in at "
        f"least {budget.minimum_rows} people"
    )


def _printed_account_row(account: PrivacyAccount) -> tuple[str, ...]:
    return (
        str(account.data_set),
        str(account.versions),
        str(account.runs),
        str(account.resent),
        _printed_ledger_number(account.total.epsilon),
        _printed_ledger_number(account.epsilon_left),
        str(account.numbers),
        str(account.reserved),
        _printed_ledger_number(account.numbers_left),
        str(account.refusals),
    )


def _printed_column_names(names: tuple[str, ...]) -> str:
    from veilsum.numbers.arrays import listed_names

    return escape(listed_names(names, most=5))


def _printed_ledger_number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
