"""Format options for a party's own table, shared by all commands that read one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from veilsum.cli.output import FILE

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--decimal", default=".", help="The decimal mark of a CSV file."),
    click.option(
        "--separator",
        default=",",
        help="What stands between cells of a CSV file; tab for a tab.",
    ),
    click.option(
        "--missing",
        multiple=True,
        metavar="WORD",
        help="A word in a CSV file for a value that is not there, such as -9; an empty "
        "cell is one anyway. May be repeated; by default NA, NaN and nan.",
    ),
    click.option(
        "--encoding",
        default="utf-8",
        show_default=True,
        help="How a CSV file writes letters as bytes, such as cp1252.",
    ),
    click.option(
        "--dates",
        metavar="FORM",
        help="How a CSV file writes dates, such as %d.%m.%Y; by default %Y-%m-%d.",
    ),
    click.option(
        "--query",
        type=FILE,
        help="A file with one SELECT, this party's own, for a table in a database: "
        ".duckdb, .sqlite, .sqlite3, .db, or .parquet, where it selects FROM data.",
    ),
)
new_data_option = click.option(
    "--new-data",
    is_flag=True,
    help="These data are about other people than all that the ledger knows: their "
    "account begins anew. By default data that the ledger does not know again count as "
    "the earlier ones.",
)
_CUT_OPTIONS = (
    new_data_option,
    click.option(
        "--id",
        metavar="COLUMN",
        help="The column that says who a row is about. People are known by it in every "
        "later table, whatever its columns are called; without it by whole rows.",
    ),
    click.option(
        "--cut",
        metavar="NAME",
        help="The data cut of the ledger to ask, as veilsum data list names it, or "
        "newest; then --data may be left out. By default the table in --data, or the "
        "earlier cut where a few rows differ from it.",
    ),
)
_NAMES = ("decimal", "separator", "missing", "encoding", "dates", "query")


def table_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def cut_options(command: Command) -> Command:
    for option in reversed(_CUT_OPTIONS):
        command = option(command)
    return command


def take_table_options(given: dict[str, Any]) -> dict[str, Any]:
    """Take these options out of a command's: they are what `agreed_table` is told."""
    from veilsum.files.tables import query_in_file

    found = {name: given.pop(name) for name in _NAMES}
    found["new_data"] = given.pop("new_data", False)
    found |= {name: given.pop(name, None) for name in ("id", "cut")}
    if found["query"] is not None:
        found["query"] = query_in_file(found["query"])
    # What was not said is what it does by itself.
    return {
        name: value
        for name, value in found.items()
        if value not in ((), None) and value is not False
    }
