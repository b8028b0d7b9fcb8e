"""`veilsum status`: how far the runs of this computer are."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from veilsum.cli.app import BadInput
from veilsum.cli.live_page import page_options, shown_page
from veilsum.cli.output import (
    FILE,
    json_option,
    print_json,
    terminal_console,
    terminal_table,
)

if TYPE_CHECKING:
    from veilsum.party.run_status import RunStatus


@click.command("status")
@click.argument("folder", type=FILE, default=Path())
@page_options
@json_option
def command(*, folder: Path, page: str | None, page_open: bool, as_json: bool) -> None:
    """Show how far the runs are whose files are in FOLDER, or right below it.

    Reads the small .status files beside the runs' own, which are beside the party's key
    unless --state says otherwise: which phase and round a party is in, whom it waits
    for, and what waits for a person. No lock is taken and nothing is written; there is
    no private value in them. FOLDER is the current one by default. With --page they
    are shown in a browser instead, as they change, until Ctrl-C; what is written then
    is the page's token.

    \b
    Example:
      veilsum status
      veilsum status /srv/veilsum --json
      veilsum status out/hospitals --page
    """
    from msgspec import structs

    if page is not None or page_open:
        _show_status_page(folder, page, opened=page_open)
        return
    from veilsum.party.run_status import run_status_advice, run_statuses_in

    found, now = list(run_statuses_in(folder)), time.time()
    if as_json:
        print_json(
            [{**structs.asdict(one), "silent": one.is_silent(now)} for one in found]
        )
        return
    if not found:
        click.echo(f"no runs in {folder}")
        return
    columns = ("run", "party", "state", "phase", "epoch", "round", "waits for", "moved")
    screen = terminal_console()
    screen.print(
        terminal_table(columns, (_printed_status_row(one, now) for one in found))
    )
    for one in found:
        if line := run_status_advice(one, now):
            # Commands to copy: no line break in the middle of a path.
            screen.print(f"{one.run[-8:]}: {line}", markup=False, soft_wrap=True)


def _show_status_page(folder: Path, page: str | None, *, opened: bool) -> None:
    from veilsum.cli.join import ended_like_ctrl_c

    if not folder.is_dir():
        raise BadInput(f"expected a folder with runs, found {folder}")
    shown = shown_page(folder, page, opened=opened)
    with suppress(KeyboardInterrupt), ended_like_ctrl_c(), shown:
        Event().wait()


def _printed_status_row(one: RunStatus, now: float) -> tuple[str, ...]:
    from rich.markup import escape

    state = "silent" if one.is_silent(now) else one.state
    waits = ", ".join(one.waiting) or "-"
    words = (one.run[-8:], one.party, state, one.phase or "-")
    counts = (str(one.epoch), str(one.round))
    # Month to second: a screen is narrow, and --json has all of it.
    moved = one.moved[5:19].replace("T", " ") or "-"
    return (*map(escape, words), *counts, escape(waits), escape(moved))
