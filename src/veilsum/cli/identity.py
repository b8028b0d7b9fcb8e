"""`veilsum identity`: a party's key and certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from veilsum.cli.output import json_option, print_json

PATH = click.Path(path_type=Path)


@click.group("identity")
def command() -> None:
    """Make a party's key and certificate, show one, or guard its key.

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
@click.option(
    "--passphrase",
    is_flag=True,
    help="Ask for a passphrase, without which the key does not open.",
)
@json_option
def new(*, name: str, folder: Path, days: int, passphrase: bool, as_json: bool) -> None:
    """Make the key and the certificate of the party NAME, on its own machine.

    The key, NAME.key, is for its owner only and never leaves the machine. The
    certificate, NAME.crt, is public: send it to whoever writes the consortium file.

    With --passphrase every command that needs the key asks for it. A service cannot be
    asked: there VEILSUM_PASSPHRASE_FILE names a file that holds it.

    \b
    Example:
      veilsum identity new hospital-3 --folder keys
    """
    from veilsum.net.identity import new_identity

    made = new_identity(
        name,
        folder,
        days=days,
        passphrase=_prompt_for_new_passphrase() if passphrase else None,
    )
    document = {
        **_certificate_as_json(made.certificate),
        "key_file": str(made.key_file),
        "certificate_file": str(made.certificate_file),
    }
    if as_json:
        print_json(document)
        return
    _print_certificate(document)
    click.echo(
        f"\n{made.key_file} is the key: keep it here, show it to nobody.\n"
        f"{made.certificate_file} is public: send it to whoever writes the consortium "
        "file,\nand read the fingerprint to them on the telephone."
    )


@command.command("renew")
@click.argument("key", type=PATH)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    default=365,
    show_default=True,
    help="How long the new certificate is good.",
)
@click.option("--passphrase", is_flag=True, help="Ask for a passphrase of the new key.")
@json_option
def renewed(*, key: Path, days: int, passphrase: bool, as_json: bool) -> None:
    """Make the next key and certificate of the party whose key is KEY.

    The former ones stay beside them, as NAME.former.key and NAME.former.crt, for runs
    that began with them. NAME.renewal.json has the new certificate, signed by both
    keys: send it to the organiser, for veilsum consortium amend.

    Not for a key that somebody else may have: make a new one in another folder with
    veilsum identity new, and read its fingerprint to everybody.

    \b
    Example:
      veilsum identity renew keys/hospital-3.key
    """
    from veilsum.net.amendment import renew_signing_identity
    from veilsum.net.identity import read_identity

    made = renew_signing_identity(
        read_identity(key),
        days=days,
        passphrase=_prompt_for_new_passphrase() if passphrase else None,
    )
    file = key.with_name(f"{made.name}.renewal.json")
    document = {**_certificate_as_json(made.certificate), "renewal_file": str(file)}
    if as_json:
        print_json(document)
        return
    _print_certificate(document)
    click.echo(f"\n{file} is public: send it to the organiser.")


@command.command("passphrase")
@click.argument("key", type=PATH)
@click.option("--remove", is_flag=True, help="Leave the key without a passphrase.")
@json_option
def passphrase(*, key: Path, remove: bool, as_json: bool) -> None:
    """Set, change or remove the passphrase of KEY; the key stays the same.

    Copies that were made of the file before open as they did.

    \b
    Example:
      veilsum identity passphrase keys/hospital-3.key
    """
    from veilsum.net.identity import change_identity_passphrase, read_identity

    identity = read_identity(key)
    change_identity_passphrase(
        identity, None if remove else _prompt_for_new_passphrase()
    )
    if as_json:
        print_json({"key_file": str(key), "passphrase": not remove})
        return
    ends = "opens without a passphrase now" if remove else "has its new passphrase"
    click.echo(f"{key} {ends}.")


def _prompt_for_new_passphrase() -> str:
    from veilsum.net.passphrase import check_passphrase_strength

    return check_passphrase_strength(
        click.prompt("New passphrase", hide_input=True, confirmation_prompt=True)
    )


@command.command("show")
@click.argument("file", type=PATH)
@json_option
def show(*, file: Path, as_json: bool) -> None:
    """Show whose certificate FILE is, its fingerprint, and how long it is good.

    FILE is a certificate, or a key with its certificate beside it; then it is checked
    that the two fit and that nobody else may read the key.

    \b
    Example:
      veilsum identity show keys/hospital-3.crt
    """
    from veilsum.files.consortiums import read_certificate_file
    from veilsum.net.identity import read_identity

    is_key = file.suffix == ".key"
    found = read_identity(file).certificate if is_key else read_certificate_file(file)
    if as_json:
        print_json(_certificate_as_json(found))
    else:
        _print_certificate(_certificate_as_json(found))


def _certificate_as_json(certificate: str) -> dict[str, Any]:
    from veilsum.net.identity import (
        certificate_fingerprint,
        certificate_name,
        certificate_out_of_date,
        certificate_validity,
    )

    start, end = certificate_validity(certificate)
    return {
        "name": certificate_name(certificate),
        "fingerprint": certificate_fingerprint(certificate),
        "good_from": start.isoformat(),
        "good_until": end.isoformat(),
        "problem": certificate_out_of_date(certificate),
    }


def _print_certificate(document: dict[str, Any]) -> None:
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
