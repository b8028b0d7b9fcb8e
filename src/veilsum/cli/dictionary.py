"""`veilsum dictionary`: the parties' agreement about their data, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from veilsum.cli.output import (
    FILE,
    json_option,
    message_on_screen,
    print_json,
    say_on_terminal,
)
from veilsum.cli.own_table import table_options, take_table_options

out_option = click.option(
    "-o",
    "--out",
    type=FILE,
    help="Write the dictionary into this new file; by default it is printed.",
)


@click.group("dictionary")
def command() -> None:
    """Draft, merge and check dictionaries: files that describe all parties' tables.

    \b
    Example:
      veilsum dictionary draft ward7.csv -o ward7.toml
      veilsum dictionary merge ward7.toml ward9.toml -o dictionary.toml
      veilsum dictionary check dictionary.toml ward7.csv
    """


@command.command("draft")
@click.argument("tables", metavar="TABLE...", type=FILE, nargs=-1, required=True)
@out_option
@table_options
@json_option
def draft(
    *, tables: tuple[Path, ...], out: Path | None, as_json: bool, **how: Any
) -> None:
    """Draft a dictionary from own tables: TOML to edit and to agree on.

    It has names, kinds, units, wide round ranges, and levels that 5 rows or more have.
    Its first lines list what readers learn about the table, and what to check with the
    others. Several tables give the merged dictionary of their drafts. Nothing is sent.

    \b
    Example:
      veilsum dictionary draft ward7.csv -o ward7.toml
      veilsum dictionary draft ward7.csv ward8.csv --separator ";" --decimal ,
    """
    from veilsum.files.tables import table_to_draft
    from veilsum.tables.dictionaries import merge_dictionaries
    from veilsum.tables.drafts import TELLS, draft_dictionary

    words = take_table_options(how)
    drafts = {
        str(path): draft_dictionary(table_to_draft(path, **words)) for path in tables
    }
    remarks = {
        name: remark for one in drafts.values() for name, remark in one.remarks.items()
    }
    if len(drafts) == 1:
        (single,) = drafts.values()
        toml, columns = single.toml, single.columns
    else:
        merged = merge_dictionaries({path: one.schema for path, one in drafts.items()})
        toml = merged.toml_with(TELLS)
        columns = {one.name: one for one in merged.schema.columns}
        remarks |= {name: one.reason for name, one in merged.conflicts.items()}
    _print_or_write_dictionary(
        toml,
        out,
        {
            "columns": {
                name: None if one is None else one.to_table()
                for name, one in columns.items()
            },
            "remarks": remarks,
            "tells": list(TELLS),
        },
        as_json=as_json,
    )
    say_on_terminal(
        "a draft to edit; its first lines list what to check and what readers learn"
    )


@command.command("merge")
@click.argument("dictionaries", metavar="FILE...", type=FILE, nargs=-1, required=True)
@out_option
@json_option
def merge(*, dictionaries: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Merge dictionaries of several parties into one that fits all their tables.

    Ranges widen, levels unite, and units become fine enough for all. A column on which
    they contradict each other, or which one of them lacks, is left out: a comment gives
    the reason and a line that would settle it. The order of files does not matter.

    \b
    Example:
      veilsum dictionary merge ward7.toml ward9.toml -o dictionary.toml
    """
    from veilsum.files.scenarios import read_dictionary
    from veilsum.tables.dictionaries import check_number_of_parts, merge_dictionaries

    check_number_of_parts(len(dictionaries))
    merged = merge_dictionaries(
        {str(one): read_dictionary(one) for one in dictionaries}
    )
    conflicts = {
        name: {"reason": one.reason, "line": one.line or None}
        for name, one in merged.conflicts.items()
    }
    _print_or_write_dictionary(
        merged.toml,
        out,
        {
            "columns": merged.schema.to_table()["columns"],
            "conflicts": conflicts,
            "notes": dict(merged.notes),
            "digest": merged.schema.digest,
        },
        as_json=as_json,
    )
    for name, one in merged.conflicts.items():
        say_on_terminal(f"left out: {name}: {one.reason}")
        if one.line:
            say_on_terminal(f"  {one.line}")
    for name, note in merged.notes.items():
        say_on_terminal(f"{name}: {note}")


@command.command("check")
@click.argument("dictionary", type=FILE)
@click.argument("table", type=FILE)
@table_options
@json_option
def check(*, dictionary: Path, table: Path, as_json: bool, **how: Any) -> None:
    """List all problems of one's own TABLE with a DICTIONARY, and lines that mend them.

    For each column: the offending values, their numbers of rows, and a line of the
    dictionary with which the table would pass. The list may quote values: it is for the
    owner of the table, and so are the lines. Nothing is sent. The exit code is 1 if
    there is a problem, else 0.

    \b
    Example:
      veilsum dictionary check dictionary.toml ward7.csv
      veilsum dictionary check dictionary.toml ward7.csv --missing -9
    """
    from veilsum.files.scenarios import read_dictionary
    from veilsum.files.tables import table_with_problems
    from veilsum.tables.mending import table_report, table_report_lines
    from veilsum.tables.schema import changed_values_lines

    schema = read_dictionary(dictionary)
    frame, problems = table_with_problems(table, schema, **take_table_options(how))
    report = table_report(schema, frame, problems)
    if as_json:
        print_json({"digest": schema.digest, **report.to_dict()})
    else:
        for line in table_report_lines(report):
            click.echo(message_on_screen(line))
        for line in changed_values_lines(*schema.changes(frame)):
            say_on_terminal(line)
        verdict = (
            "the table passes"
            if report.good
            else "correct the table, or agree with the others on these lines: they may "
            "hold values of your table"
        )
        say_on_terminal(
            f"{verdict}. SHA-256 of the dictionary's content: {schema.digest}"
        )
    click.get_current_context().exit(0 if report.good else 1)


def _print_or_write_dictionary(
    toml: str, out: Path | None, content: dict[str, Any], *, as_json: bool
) -> None:
    """Print a dictionary, or write it into a new file."""
    from veilsum.files.output import write_new

    if out is not None:
        advice = "somebody may have agreed to it; choose another name"
        write_new(out, toml.encode(), advice=advice)
    if as_json:
        print_json({**content, "toml": toml})
    elif out is None:
        click.echo(message_on_screen(toml), nl=False)
    else:
        say_on_terminal(f"written: {out}")
