"""`veilsum backup`: what a party must not lose, and putting it back."""

from __future__ import annotations

from pathlib import Path

import click

from veilsum.cli.output import json_option, print_json


@click.group("backup")
def command() -> None:
    """Copy a party's key, rules and ledger, and put them back.

    \b
    Example:
      veilsum backup make keys/hospital-3.key -o hospital-3.backup
      veilsum backup restore hospital-3.backup --folder keys
      veilsum backup resume keys/hospital-3.ledger --statement "nothing was run since"
    """


@command.command("make")
@click.argument("key", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="The file to write; one that is there is left alone.",
)
@json_option
def make(*, key: Path, out: Path, as_json: bool) -> None:
    """Write everything of the party whose key is KEY that must not be lost.

    That is its keys and certificates, its rules, its ledger and relay.token, not runs
    on their way, nor results and receipts, nor surveys.store, of which an old copy
    would forget what was added up since. The file is for its owner only: whoever has it
    has the key, unless that has a passphrase.

    \b
    Example:
      veilsum backup make keys/hospital-3.key -o hospital-3.backup
    """
    from veilsum.parties.backup import make_backup
    from veilsum.parties.own_survey import STORE

    found = make_backup(key.parent, key.stem, out)
    left = [STORE] if (key.parent / STORE).exists() else []
    if as_json:
        print_json({"backup": str(out), "files": list(found), "left_out": left})
    else:
        click.echo(f"{out} holds {', '.join(found)}: keep it as you keep the key.")
        if f"{key.stem}.ledger" not in found:
            click.echo(
                f"It holds no ledger: there is no {key.stem}.ledger beside the key. If "
                "it is\nelsewhere (--ledger), what became known would be forgotten."
            )
        if left:
            click.echo(
                f"It does not hold {STORE}: an old copy would forget which guests were "
                "added up\nsince, and bring back keys that were erased. If it is lost, "
                "the surveys that are\nopen cannot be added up, and you should be a "
                "delegate of no survey that asks\nguests of earlier ones."
            )


@command.command("restore")
@click.argument("backup", type=click.Path(path_type=Path))
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where the files go; nothing there is overwritten.",
)
@json_option
def restore(*, backup: Path, folder: Path, as_json: bool) -> None:
    """Put back what is in BACKUP, all of it or nothing.

    The ledger allows nothing before veilsum backup resume: what became known since the
    copy was made is not in it.

    \b
    Example:
      veilsum backup restore hospital-3.backup --folder keys
    """
    from veilsum.parties.backup import restore_backup

    found = restore_backup(backup, folder)
    if as_json:
        print_json({"folder": str(folder), "files": list(found)})
        return
    click.echo(f"{folder} has {', '.join(found)} again.")
    for name in found:
        if name.endswith(".ledger"):
            click.echo(
                "What became known since the copy was made is not in the ledger. Put a "
                "newer\none in its place if there is one; if not:\n"
                f'  veilsum backup resume {folder / name} --statement "..."'
            )


@command.command("resume")
@click.argument("ledger", type=click.Path(path_type=Path))
@click.option(
    "--statement",
    required=True,
    help="What was run since the copy was made, in a few words; it is kept.",
)
@click.option(
    "--uncounted",
    metavar="RUN",
    multiple=True,
    help="A run that the ledger does not count. May be repeated.",
)
@json_option
def resumed(
    *, ledger: Path, statement: str, uncounted: tuple[str, ...], as_json: bool
) -> None:
    """Use LEDGER, which was put back from a backup, from now on.

    Whatever became known since the copy was made is not counted, and may be asked once
    more. Receipts in the ledger's folder tell of runs that are missing from it: each is
    refused until it is named. What is said here stays in the ledger.

    \b
    Example:
      veilsum backup resume keys/hospital-3.ledger --statement "nothing was run since"
    """
    from veilsum.parties.backup import resume

    resume(ledger, statement, uncounted)
    if as_json:
        print_json({"ledger": str(ledger), "uncounted": list(uncounted)})
    else:
        click.echo(f"{ledger} is in use again.")
