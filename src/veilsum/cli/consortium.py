"""`veilsum consortium`: the file that all members of a run hold a copy of."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.identity import in_two_lines
from veilsum.cli.output import (
    json_option,
    language_option,
    long_option,
    print_json,
)
from veilsum.errors import InvalidInputError

if TYPE_CHECKING:
    from veilsum.consortium.addresses import Address
    from veilsum.consortium.consortium import Consortium
    from veilsum.consortium.study import AgreedStudy
    from veilsum.net.amendment import Amendment, CertificateChange

PATH = click.Path(path_type=Path)

certificate_option = click.option(
    "--certificate",
    "files",
    type=PATH,
    multiple=True,
    help="A member's .crt file; its name is in it. May be repeated.",
)
organiser_option = click.option(
    "--organiser", help="The member that writes this file, by its name."
)
new_file_option = click.option(
    "-o",
    "--out",
    type=PATH,
    required=True,
    help="The consortium file to write; one that is there is left alone.",
)


@click.group("consortium")
def command() -> None:
    """Write down what members of a run agree on, show it, or amend it.

    \b
    Example:
      veilsum consortium new plan.toml -o study.veil
      veilsum consortium show study.veil
    """


@command.command("new")
@click.argument("plan", type=PATH)
@new_file_option
@certificate_option
@click.option(
    "--address",
    "places",
    metavar="NAME=HOST:PORT",
    multiple=True,
    help="Where the others dial a member; without one it only dials. May be repeated. "
    "If nobody has one, all meet through files.",
)
@organiser_option
@json_option
def new(
    *,
    plan: Path,
    out: Path,
    organiser: str | None,
    files: tuple[Path, ...],
    places: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the consortium file that PLAN, a scenario file, describes.

    Certificates and addresses stand in PLAN's [deployment] section, or are given here.
    Whatever is private in PLAN is left out, and named. A PLAN with several [[question]]
    gives the file of a study.

    \b
    Example:
      veilsum consortium new plan.toml -o study.veil \\
          --certificate hospital-1.crt --address hospital-1=ward7.example.org:8443
    """
    from veilsum.consortium.study import runs_of_agreement
    from veilsum.files.consortiums import draft_consortium, write_consortium
    from veilsum.net.trust import check_certificate_dates, check_certificates
    from veilsum.sums.kinds import check_agreed_file

    drafted, left_out = draft_consortium(
        plan,
        certificates=certificates_in_option(files),
        addresses=addresses_in_option(places),
        organiser=organiser,
    )
    for one in runs_of_agreement(drafted):
        check_certificates(one.certificates)
        check_certificate_dates(one.certificates)
        check_agreed_file(one)
    write_consortium(out, drafted)
    if as_json:
        print_json(
            {**_consortium_command_document(drafted), "left_out": list(left_out)}
        )
        return
    _print_consortium_file(out, drafted, long=False, language="en")
    _print_lines_under_heading("Left out of the file, since it is public:", left_out)


@command.command("show")
@click.argument("file", type=PATH)
@long_option
@language_option
@json_option
def show(*, file: Path, long: bool, language: str, as_json: bool) -> None:
    """Show a consortium file: members, links, its digest, and the page of consent.

    The page is the same for every member, and members who see the same digest have the
    same file. veilsum check also checks this party's own table.

    \b
    Example:
      veilsum consortium show study.veil
    """
    from veilsum.consortium.study import runs_of_agreement
    from veilsum.files.consortiums import read_agreement
    from veilsum.net.trust import check_certificates

    found = read_agreement(file)
    check_certificates(runs_of_agreement(found)[0].certificates)
    if as_json:
        print_json(_consortium_command_document(found))
    else:
        _print_consortium_file(file, found, long=long, language=language)


@command.command("amend")
@click.argument("file", type=PATH)
@new_file_option
@click.option(
    "--renewal",
    "renewals",
    type=PATH,
    multiple=True,
    help="A member's .renewal.json, of veilsum identity renew. May be repeated.",
)
@click.option(
    "--certificate",
    "files",
    type=PATH,
    multiple=True,
    help="A member's new .crt, its former key being lost or stolen. May be repeated.",
)
@json_option
def amend(
    *,
    file: Path,
    out: Path,
    renewals: tuple[Path, ...],
    files: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Write FILE anew with other certificates, of keys renewed, lost or stolen.

    Nothing else changes, and the new file names the former one's digest. Beside it an
    amendment is written, which every member signs with veilsum consortium agree; nobody
    can join before all have.

    \b
    Example:
      veilsum consortium amend study.veil --renewal hospital-3.renewal.json -o next.veil
    """
    from veilsum.files.consortiums import read_agreement, write_consortium
    from veilsum.net.amendment import (
        Amendment,
        amend_agreement,
        read_certificate_renewal,
    )
    from veilsum.net.trust import check_certificate_dates, check_certificates

    former = read_agreement(file)
    willing = tuple(map(read_certificate_renewal, renewals))
    for one in willing:
        if former.certificates.get(one.name) != one.former:
            raise InvalidInputError(
                f"{file} has another certificate of {one.name!r} than the one that was "
                "renewed: ask for the renewal of that one",
                code="other-certificate",
            )
    given = certificates_in_option(files)
    certificates = {one.name: one.certificate for one in willing} | given
    if len(certificates) != len(willing) + len(given) or not certificates:
        raise InvalidInputError(
            "give each member whose certificate changes once, by --renewal or by "
            f"--certificate: found {len(willing)} and {len(given)}",
            code="certificate-changed-twice",
        )
    new = amend_agreement(former, certificates)
    check_certificates(new.certificates)
    check_certificate_dates(new.certificates)
    found = Amendment(
        former=former.digest.hex(), consortium=new.digest.hex(), renewals=willing
    )
    changes = found.changes(former, new)
    write_consortium(out, new)
    beside = found.write(out)
    if as_json:
        print_json(
            {
                **_consortium_command_document(new),
                **_amended_file_as_json(found, changes, new),
            }
        )
        return
    _print_lines_under_heading("Certificates that change:", map(str, changes))
    click.echo(
        f"\nSend {out} and {beside} to every member: each runs\n"
        f"  veilsum consortium agree {out} --former {file}"
    )


@command.command("agree")
@click.argument("file", type=PATH)
@click.option(
    "--former",
    type=PATH,
    required=True,
    help="The consortium file that FILE amends, as this party has it.",
)
@click.option(
    "--identity",
    "key",
    type=PATH,
    help="This party's .key file; by default the only one beside FILE.",
)
@click.option(
    "--with",
    "others",
    type=PATH,
    multiple=True,
    help="A copy of the amendment that others signed. May be repeated.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="Sign without being asked, if former keys signed all that is new.",
)
@json_option
def agree(
    *,
    file: Path,
    former: Path,
    key: Path | None,
    others: tuple[Path, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Sign that FILE is taken for the consortium file that it amends.

    First both are compared: certificates may differ, and nothing else. The signature
    goes into the amendment beside FILE; pass that on, or send it back to the organiser,
    who puts all of them together with --with.

    \b
    Example:
      veilsum consortium agree next.veil --former study.veil --identity hospital-1.key
    """
    from veilsum.cli.join import only_key_in_working_folder
    from veilsum.files.consortiums import read_agreement
    from veilsum.net.amendment import amendment_file, read_amendment
    from veilsum.net.identity import read_identity

    new, before = read_agreement(file), read_agreement(former)
    found = read_amendment(amendment_file(file))
    found = found.with_those_of(map(read_amendment, others), new)
    changes = found.changes(before, new)
    if not as_json:
        _print_lines_under_heading("Certificates that change:", map(str, changes))
    if yes and (odd := [one.name for one in changes if not one.renewed]):
        raise InvalidInputError(
            f"the former key of {', '.join(odd)} did not sign the new certificate, and "
            "--yes signs renewals only: leave it out, hear the fingerprint from that "
            "party itself, and answer",
            code="renewal-not-signed",
        )
    if not yes:
        click.confirm("\nDo you take the new file for the former one?", abort=True)
    identity = read_identity(key or only_key_in_working_folder(file.parent))
    found = found.signed_by(identity, new)
    beside = found.write(file)
    if as_json:
        print_json(_amended_file_as_json(found, changes, new))
        return
    missing = found.missing(new)
    ends = f"still missing: {', '.join(missing)}" if missing else "everybody has signed"
    click.echo(f"\n{beside} has {identity.name}'s signature; {ends}.")


def _amended_file_as_json(
    found: Amendment,
    changes: Iterable[CertificateChange],
    new: Consortium | AgreedStudy,
) -> dict[str, Any]:
    return {
        "former": found.former,
        "consortium": found.consortium,
        "changes": [asdict(one) for one in changes],
        "missing": list(found.missing(new)),
    }


def certificates_in_option(files: Iterable[Path]) -> dict[str, str]:
    """Return the certificates in files, by the names in them."""
    from veilsum.files.consortiums import read_certificate_file
    from veilsum.net.identity import certificate_name

    found: dict[str, str] = {}
    for file in files:
        text = read_certificate_file(file)
        name = certificate_name(text)
        if found.setdefault(name, text) != text:
            raise InvalidInputError(
                f"two certificates say {name!r}, the second in {file}: give one",
                code="duplicate-certificate",
            )
    return found


def addresses_in_option(places: Iterable[str]) -> dict[str, Address | None]:
    """Return what NAME=HOST:PORT says, one after the other."""
    from veilsum.consortium.addresses import Address

    found: dict[str, Address | None] = {}
    for place in places:
        name, equals, text = place.partition("=")
        if not equals:
            raise InvalidInputError(
                f"--address takes NAME=HOST:PORT, found {place!r}",
                code="malformed-address-option",
            )
        found[name.strip()] = Address.of(text) if text.strip() else None
    return found


def _consortium_command_document(found: Consortium | AgreedStudy) -> dict[str, Any]:
    from veilsum.consortium.study import runs_of_agreement
    from veilsum.net.identity import certificate_fingerprint, certificate_out_of_date
    from veilsum.party.study_page import study_consent_page

    one_run = runs_of_agreement(found)[0]
    return {
        "run": found.run,
        "title": found.title,
        "organiser": found.organiser or None,
        "digest": found.digest.hex(),
        "sections": one_run.section_digests,
        "dictionary": None if one_run.schema is None else one_run.schema.digest,
        "members": [
            {
                "name": one.name,
                "address": None if one.address is None else str(one.address),
                "fingerprint": certificate_fingerprint(one.certificate),
                "problem": certificate_out_of_date(one.certificate),
            }
            for one in one_run.members
        ],
        "relays": []
        if one_run.relays is None
        else [str(one) for one in one_run.relays.places],
        "links": [{"dials": a, "answers": b} for a, b in one_run.links],
        "consent": study_consent_page(found).to_dict(),
    }


def _print_consortium_file(
    file: Path, found: Consortium | AgreedStudy, *, long: bool, language: str
) -> None:
    from veilsum.consortium.study import runs_of_agreement
    from veilsum.net.identity import fingerprint_in_groups
    from veilsum.party.study_page import study_consent_page

    document = _consortium_command_document(found)
    click.echo(f"{document['title']}\n\nfile    {file}\nrun     {found.run}")
    first, second = in_two_lines(fingerprint_in_groups(found.digest))
    click.echo(f"digest  {first}\n        {second}")
    if document["dictionary"] is not None:
        click.echo(f"\ndictionary, SHA-256 of its content: {document['dictionary']}")
    _print_lines_under_heading("Members:", _print_member_lines(document["members"]))
    click.echo(
        "\nCompare each fingerprint with its party on the telephone: who can change "
        "this\nfile could put a certificate of their own in it."
    )
    one = runs_of_agreement(found)[0]
    _print_lines_under_heading(
        "Links:", [_print_consortium_link(one, a, b) for a, b in one.links]
    )
    relays = () if one.relays is None else one.relays.places
    _print_lines_under_heading(
        "Relays, where a call does not get through:", map(str, relays)
    )
    page = study_consent_page(found)
    click.echo(f"\n{page.text(long=long, language=language)}", nl=False)


def _print_member_lines(members: Collection[dict[str, Any]]) -> list[str]:
    called = any(one["address"] for one in members)
    alone = "only dials" if called else "through files (join --drop)"
    lines = []
    for one in members:
        lines.append(f"{one['name']}  {one['address'] or alone}")
        lines += [f"    {half}" for half in in_two_lines(one["fingerprint"])]
        if one["problem"] is not None:
            lines.append(f"    not good now: {one['problem']}")
    return lines


def _print_consortium_link(found: Consortium, dials: str, answers: str) -> str:
    if found.by_files:
        return f"{dials} and {answers}"
    address = found.member(answers).address
    if address is None:
        return f"{dials} and {answers} meet at a relay"
    return f"{dials} dials {answers} at {address}"


def _print_lines_under_heading(heading: str, lines: Iterable[str]) -> None:
    rows = [f"  {line}" for line in lines]
    if rows:
        click.echo("\n".join(["", heading, *rows]))
