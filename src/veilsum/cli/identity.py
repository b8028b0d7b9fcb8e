"""`veilsum identity`: a party's key and certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from veilsum.cli.output import json_option, print_json


@click.group("identity")
def command() -> None:
    """Make a party's key and certificate, or show one.

    \b
    Example:
      veilsum identity new hospital-3 --folder keys
      veilsum identity show keys/hospital-3.crt
    """


@command.command("new")
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Where the two files go; by default here.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    default=365,
    show_default=True,
    help="How long the certificate is good.",
)
@json_option
def new(*, name: str, folder: Path, days: int, as_json: bool) -> None:
    """Make the key and the certificate of the party NAME, on its own machine.

    The key, NAME.key, is for its owner only and never leaves the machine. The
    certificate, NAME.crt, is public: send it to whoever writes the consortium file.

    \b
    Example:
      veilsum identity new hospital-3 --folder keys
    """
    from veilsum.net.identity import new_identity

    made = new_identity(name, folder, days=days)
    document = {
        **_described(made.certificate),
        "key_file": str(made.key_file),
        "certificate_file": str(made.certificate_file),
    }
    if as_json:
        print_json(document)
        return
    _print(document)
    click.echo(
        f"\n{made.key_file} is the key: keep it here, show it to nobody.\n"
        f"{made.certificate_file} is public: send it to whoever writes the consortium "
        "file,\nand read the fingerprint to them on the telephone."
    )


@command.command("show")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def show(*, file: Path, as_json: bool) -> None:
    """Show whose certificate FILE is, its fingerprint, and how long it is good.

    FILE is a certificate, or a key with its certificate beside it; then it is checked
    that the two fit and that nobody else may read the key.

    \b
    Example:
      veilsum identity show keys/hospital-3.crt
    """
    from veilsum.files.consortiums import read_certificate
    from veilsum.net.identity import read_identity

    is_key = file.suffix == ".key"
    found = read_identity(file).certificate if is_key else read_certificate(file)
    if as_json:
        print_json(_described(found))
    else:
        _print(_described(found))


def _described(certificate: str) -> dict[str, Any]:
    from veilsum.net.identity import (
        certificate_name,
        fingerprint,
        out_of_date,
        validity,
    )

    start, end = validity(certificate)
    return {
        "name": certificate_name(certificate),
        "fingerprint": fingerprint(certificate),
        "good_from": start.isoformat(),
        "good_until": end.isoformat(),
        "problem": out_of_date(certificate),
    }


def _print(document: dict[str, Any]) -> None:
    click.echo(f"name         {document['name']}")
    first, second = in_two_lines(document["fingerprint"])
    click.echo(f"fingerprint  {first}\n             {second}")
    start, end = (document[key][:10] for key in ("good_from", "good_until"))
    click.echo(f"good         from {start} to {end}")
    if document["problem"] is not None:
        click.echo(f"             not now: {document['problem']}")


def in_two_lines(fingerprint: str) -> tuple[str, str]:
    """Return a fingerprint as it is read aloud: eight groups, and eight more."""
    groups = fingerprint.split()
    return " ".join(groups[:8]), " ".join(groups[8:])
