"""`veilsum data`: a party's tables at fixed moments, which questions are asked of."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import (
    FILE,
    json_option,
    message_on_screen,
    print_json,
    terminal_console,
    terminal_table,
)
from veilsum.cli.own_table import table_options, take_table_options

if TYPE_CHECKING:
    from veilsum.files.ledger import Ledger
    from veilsum.privacy.accountant import DataCut

ledger_option = click.option(
    "--ledger",
    "ledger_file",
    type=FILE,
    help="This party's ledger; by default the only .ledger file in this folder.",
)


@click.group("data")
def command() -> None:
    """Register, list, show and forget data cuts: own tables at fixed moments.

    Questions are asked of a cut. Everything stays on this computer, for its owner
    alone.

    \b
    Example:
      veilsum data add north.csv --id patient --as 2026-06 --ledger north.ledger
      veilsum data list --ledger north.ledger
      veilsum data show 2026-06 --ledger north.ledger
      veilsum data forget 2026-06 --ledger north.ledger
    """


@command.command("add")
@click.argument("file", type=FILE)
@table_options
@click.option(
    "--id",
    "id_column",
    metavar="COLUMN",
    help="The column that says who a row is about; by default that of the cut before, "
    "if the table has it.",
)
@click.option(
    "--as", "name", required=True, help="A name for the cut, such as 2026-06."
)
@ledger_option
@json_option
def add(
    *,
    file: Path,
    id_column: str | None,
    name: str,
    ledger_file: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Register the table in FILE as a data cut.

    The ledger keeps keyed fingerprints of ids and rows, and no value. The rows are
    copied to a folder beside the ledger, so that later questions can be asked of this
    cut when FILE has changed. A ledger that is not there is made.

    \b
    Example:
      veilsum data add north.csv --id patient --as 2026-06 --ledger north.ledger
    """
    from veilsum.files.cuts import TableSource, register_cut
    from veilsum.files.ledger import open_ledger
    from veilsum.locale import phrase
    from veilsum.privacy.accountant import Budget

    place = _ledger_file(ledger_file, new=file.with_suffix(".ledger"))
    source = TableSource.read(file, take_table_options(how))
    with open_ledger(place, create=None if place.exists() else Budget()) as ledger:
        cut = register_cut(ledger, source, name, id_column)
        facts = _facts(ledger, cut)
    if as_json:
        print_json(facts)
        return
    click.echo(message_on_screen(_line(facts)))
    folder = f"{place.name}-cuts"
    click.echo(
        message_on_screen(phrase("consent", "cut.copied", folder=folder, name=name))
    )
    if not cut.id_column:
        click.echo(phrase("consent", "cut.by_content"))


@command.command("list")
@ledger_option
@json_option
def list_cuts(*, ledger_file: Path | None, as_json: bool) -> None:
    """List all data cuts: name, rows, when it was added, questions asked of it.

    \b
    Example:
      veilsum data list --ledger north.ledger
    """
    with closing(_opened(ledger_file)) as ledger:
        found = [_facts(ledger, cut) for cut in ledger.history().cuts]
    if as_json:
        print_json({"cuts": found})
        return
    if not found:
        click.echo("no data cuts; veilsum data add registers one")
        return
    columns = ("name", "rows", "ids", "added", "questions", "copy")
    rows = [
        (
            *(
                message_on_screen(one["name"]),
                str(one["rows"]),
                message_on_screen(one["id"] or "none"),
            ),
            *(one["added"], str(one["questions"])),
            "here" if one["has_rows"] else "forgotten",
        )
        for one in found
    ]
    terminal_console().print(terminal_table(columns, rows))


@command.command("show")
@click.argument("name")
@ledger_option
@json_option
def show(*, name: str, ledger_file: Path | None, as_json: bool) -> None:
    """Show a data cut: its columns, and how it differs from the cut before it.

    \b
    Example:
      veilsum data show 2026-06 --ledger north.ledger
    """
    from veilsum.files.cuts import cut_of_name, difference_from_cut_before

    with closing(_opened(ledger_file)) as ledger:
        cut = cut_of_name(ledger, name)
        before, found = difference_from_cut_before(ledger, cut)
        facts = {
            **_facts(ledger, cut),
            "columns": list(cut.columns),
            "before": before,
            "new": None if found is None else found.new,
            "gone": None if found is None else found.gone,
            "changed": None if found is None else found.changed,
        }
    if as_json:
        print_json(facts)
        return
    click.echo(message_on_screen(_line(facts)))
    click.echo(message_on_screen(f"columns: {', '.join(cut.columns)}"))
    if before is None:
        click.echo("it is the first cut")
    elif found is None:
        click.echo(f"it cannot be compared with {before}: its rows were forgotten")
    else:
        click.echo(
            f"compared with {before}: {found.new} new, {found.gone} gone, "
            f"{found.changed} changed"
        )


@command.command("forget")
@click.argument("name")
@ledger_option
@json_option
def forget(*, name: str, ledger_file: Path | None, as_json: bool) -> None:
    """Remove the rows of a data cut; its fingerprints stay in the ledger.

    No question can be asked of it any more. What was asked still counts, and a later
    cut that differs from it in a few rows is refused, since nothing is left to ask
    instead.

    \b
    Example:
      veilsum data forget 2026-06 --ledger north.ledger
    """
    from veilsum.files.cuts import forget_cut

    with closing(_opened(ledger_file)) as ledger:
        facts = _facts(ledger, forget_cut(ledger, name))
    if as_json:
        print_json(facts)
    else:
        click.echo(
            message_on_screen(f"the rows of {name} are removed; fingerprints stay")
        )


def _ledger_file(given: Path | None, *, new: Path | None = None) -> Path:
    from veilsum.cli.app import BadInput

    if given is not None:
        return given
    found = sorted(Path().glob("*.ledger"))
    if len(found) == 1:
        return found[0]
    if not found and new is not None:
        return new
    names = ", ".join(path.name for path in found) or "none"
    raise BadInput(
        "name the ledger with --ledger FILE: without it there must be one .ledger file "
        f"in this folder, found {names}"
    )


def _opened(given: Path | None) -> Ledger:
    from veilsum.files.ledger import open_ledger

    return open_ledger(_ledger_file(given))


def _facts(ledger: Ledger, cut: DataCut) -> dict[str, Any]:
    from veilsum.files.cuts import has_rows

    runs = {one.run for one in ledger.history().reservations if one.data == cut.data}
    (added,) = (one.when for one in ledger.history().cuts if one.name == cut.name)
    return {
        "name": cut.name,
        "rows": cut.n_rows,
        "id": cut.id_column or None,
        "added": added,
        "questions": len(runs),
        "has_rows": has_rows(ledger, cut),
    }


def _line(facts: dict[str, Any]) -> str:
    known = f"known by {facts['id']}" if facts["id"] else "known by whole rows"
    return (
        f"{facts['name']}: {facts['rows']} rows, people {known}, added "
        f"{facts['added']}, {facts['questions']} questions asked"
    )
