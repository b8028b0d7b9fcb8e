"""`veilsum backup`: what a party must not lose, and putting it back."""

from __future__ import annotations

from pathlib import Path

import click

from veilsum.cli.output import json_option, print_json

PATH = click.Path(path_type=Path)


@click.group("backup")
def command() -> None:
    """Copy a party's key, rules and ledger, and put them back.

    \b
    Example:
      veilsum backup make keys/hospital-3.key -o hospital-3.backup
      veilsum backup restore hospital-3.backup --folder keys
      veilsum backup resume keys/hospital-3.ledger --statement "nothing was run since"
      veilsum backup resume keys/surveys.store --closed keys/wages-2026
    """


@command.command("make")
@click.argument("key", type=PATH)
@click.option(
    "-o",
    "--out",
    type=PATH,
    required=True,
    help="The file to write; one that is there is left alone.",
)
@json_option
def make(*, key: Path, out: Path, as_json: bool) -> None:
    """Write everything of the party whose key is KEY that must not be lost.

    That is its keys and certificates, its rules, its ledger, relay.token, and of
    surveys.store which guests were added up, without keys of surveys; not runs on their
    way, nor results and receipts. The file is for its owner only: whoever has it has
    the key, unless that has a passphrase.

    \b
    Example:
      veilsum backup make keys/hospital-3.key -o hospital-3.backup
    """
    from veilsum.party.backup import make_backup
    from veilsum.party.own_survey import STORE

    found = make_backup(key.parent, key.stem, out)
    if as_json:
        print_json({"backup": str(out), "files": list(found)})
    else:
        click.echo(f"{out} holds {', '.join(found)}: keep it as you keep the key.")
        if f"{key.stem}.ledger" not in found:
            click.echo(
                f"It holds no ledger: there is no {key.stem}.ledger beside the key. If "
                "it is\nelsewhere (--ledger), what became known would be forgotten."
            )
        if STORE in found:
            click.echo(
                f"Of {STORE} it has which guests were added up, and no keys: if it is "
                "lost,\nthe surveys that are open cannot be added up."
            )


@command.command("restore")
@click.argument("backup", type=PATH)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where the files go; nothing there is overwritten.",
)
@json_option
def restore(*, backup: Path, folder: Path, as_json: bool) -> None:
    """Put back what is in BACKUP, all of it or nothing.

    The ledger allows nothing, and surveys.store adds nothing up, before veilsum backup
    resume: what became known since the copy was made is not in them.

    \b
    Example:
      veilsum backup restore hospital-3.backup --folder keys
    """
    from veilsum.party.backup import restore_backup
    from veilsum.party.own_survey import STORE

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
        if name == STORE:
            click.echo(
                f"Surveys that were added up since are not in {STORE}, and no keys of "
                "surveys\nthat are open. For each of the former give its folder, with "
                "closed.toml and\nsubmissions.jsonl:\n"
                f"  veilsum backup resume {folder / name} --closed FOLDER"
            )


@command.command("resume")
@click.argument("file", metavar="LEDGER|STORE", type=PATH)
@click.option(
    "--statement",
    default="",
    help="Of a ledger: what was run since the copy was made, in a few words; kept.",
)
@click.option(
    "--closed",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="FOLDER",
    multiple=True,
    help="Of surveys.store: the closed file and submissions.jsonl of a survey that was "
    "added up since. May be repeated.",
)
@click.option(
    "--uncounted",
    metavar="RUN",
    multiple=True,
    help="A run that the file does not know. May be repeated.",
)
@json_option
def resumed(
    *,
    file: Path,
    statement: str,
    closed: tuple[Path, ...],
    uncounted: tuple[str, ...],
    as_json: bool,
) -> None:
    """Use a ledger or surveys.store, which was put back from a backup, from now on.

    Whatever became known since the copy was made is not counted, and may be asked once
    more. Receipts in the file's folder tell of runs that are missing from it: each is
    refused until it is named, or, of a survey, given with --closed. What is said of a
    ledger stays in it.

    \b
    Example:
      veilsum backup resume keys/hospital-3.ledger --statement "nothing was run since"
      veilsum backup resume keys/surveys.store --closed keys/wages-2026
    """
    from veilsum.errors import InvalidInputError
    from veilsum.party.backup import resume_party_ledger, resume_party_surveys
    from veilsum.party.own_survey import STORE
    from veilsum.surveys.delegate import is_delegate_store_copy

    told: dict[str, object] = {"uncounted": list(uncounted)}
    if file.name == STORE or is_delegate_store_copy(file):
        told |= {
            "store": str(file),
            "closed": resume_party_surveys(file, closed, uncounted),
        }
    elif closed:
        raise InvalidInputError(
            f"--closed is for {STORE}; {file} is no such file", code="wrong-closed-file"
        )
    else:
        resume_party_ledger(file, statement, uncounted)
        told |= {"ledger": str(file)}
    if as_json:
        print_json(told)
    else:
        click.echo(f"{file} is in use again.")
