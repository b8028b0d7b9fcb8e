"""`veilsum schema`: what parties agree their tables look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from veilsum.cli.output import FILE, json_option, on_screen, print_json, say
from veilsum.cli.own_table import table_options, taken


@click.group("schema")
def command() -> None:
    """Write down what tables look like.

    \b
    Example:
      veilsum schema draft ward7.csv
    """


@command.command("draft")
@click.argument("table", type=FILE)
@click.option(
    "--levels",
    is_flag=True,
    help="List the levels of categories that occur in the table: they are values of "
    "it, and whoever reads the draft learns them.",
)
@table_options
@json_option
def draft(*, table: Path, levels: bool, as_json: bool, **how: Any) -> None:
    """Draft a schema from one's own TABLE: TOML to edit, without a value of it.

    Names, kinds, units by the decimals that there are, and wide round ranges; what it
    tells about the table, and what to check with the others, is written above it.
    Nothing is sent.

    \b
    Example:
      veilsum schema draft ward7.csv > schema.toml
      veilsum schema draft ward7.csv --separator ";" --decimal , --levels
    """
    from veilsum.files.tables import table_to_draft
    from veilsum.tables.drafts import draft_schema as drafted

    found = drafted(table_to_draft(table, **taken(how)), levels=levels)
    if as_json:
        print_json(
            {
                "columns": found.columns,
                "remarks": found.remarks,
                "tells": list(found.tells),
                "toml": found.toml,
            }
        )
        return
    click.echo(on_screen(found.toml))
    say("a draft to edit; what to check, and what it tells, is written at its top")
