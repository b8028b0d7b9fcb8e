"""`veilsum status`: how far the runs of this computer are."""

from __future__ import annotations

import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from veilsum.cli.output import FILE, console, json_option, print_json, table

if TYPE_CHECKING:
    from veilsum.parties.run_status import RunStatus


@click.command("status")
@click.argument("folder", type=FILE, default=Path())
@json_option
def command(*, folder: Path, as_json: bool) -> None:
    """Show how far the runs are whose files are in FOLDER, or right below it.

    Reads the small .status files beside the runs' own, which are beside the party's key
    unless --state says otherwise: which phase and round a party is in, whom it waits
    for, and what waits for a person. No lock is taken and nothing is written; there is
    no private value in them. FOLDER is the current one by default.

    \b
    Example:
      veilsum status
      veilsum status /srv/veilsum --json
    """
    from msgspec import structs

    from veilsum.parties.run_status import statuses_in

    found, now = list(statuses_in(folder)), time.time()
    if as_json:
        print_json(
            [{**structs.asdict(one), "silent": one.is_silent(now)} for one in found]
        )
        return
    if not found:
        click.echo(f"no runs in {folder}")
        return
    columns = ("run", "party", "state", "phase", "epoch", "round", "waits for", "moved")
    screen = console()
    screen.print(table(columns, (_row(one, now) for one in found)))
    for one in found:
        for line in _lines(one, now):
            # Commands to copy: no line break in the middle of a path.
            screen.print(line, markup=False, soft_wrap=True)


def _row(one: RunStatus, now: float) -> tuple[str, ...]:
    from rich.markup import escape

    state = "silent" if one.is_silent(now) else one.state
    waits = ", ".join(one.waiting) or "-"
    words = (one.run[-8:], one.party, state, one.phase or "-")
    counts = (str(one.epoch), str(one.round))
    # Month to second: a screen is narrow, and --json has all of it.
    moved = one.moved[5:19].replace("T", " ") or "-"
    return (*map(escape, words), *counts, escape(waits), escape(moved))


def _lines(one: RunStatus, now: float) -> list[str]:
    """Say what there is to do, or to know, about a run."""
    from veilsum.parties.run_status import seconds_of

    run = one.run[-8:]
    if one.is_silent(now):
        return [
            f"{run}: no sign of life since {one.seen}; if its process is gone, the "
            "same command goes on where it was"
        ]
    if one.state == "pending":
        return [
            f"{run}: waits for a person, since {one.reason}; veilsum serve FOLDER "
            f"--agree {quote(one.file)} shows its page and asks, --refuse says no"
        ]
    if one.state == "failed":
        return [f"{run}: {one.reason}; once that is mended, start veilsum serve again"]
    if one.state == "stopped" and one.waiting:
        return [
            f"{run}: waits for letters from {', '.join(one.waiting)}; once they are in "
            "the folder, run the same command again"
        ]
    if one.state == "running" and one.waiting:
        waited = max(0.0, now - seconds_of(one.moved))
        return [
            f"{run}: has waited for {waited:.0f} of {one.deadline:.0f} seconds, after "
            "which something is done about it"
        ]
    return [f"{run}: {one.reason}"] if one.reason else []
