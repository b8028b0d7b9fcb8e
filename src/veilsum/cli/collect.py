"""`veilsum collect`: a survey that guests answer in a browser, from keys to totals."""

from __future__ import annotations

import asyncio
import secrets
import signal
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import FILE, json_option, print_json, say_on_terminal
from veilsum.errors import InvalidInputError
from veilsum.locale import catalogue_languages

if TYPE_CHECKING:
    from veilsum.consortium.consortium import Consortium
    from veilsum.surveys.collection import SurveyGuestCollection
    from veilsum.surveys.delegate import SurveyDelegateStore
    from veilsum.surveys.terms import SurveyTerms

LISTEN = "127.0.0.1:8470"
# What a host keeps in its folder.
SENT = "collection.sqlite"

FOLDER = click.Path(path_type=Path, file_okay=False)
survey_argument = click.argument("survey", type=FILE)
folder_option = click.option(
    "--folder",
    type=FOLDER,
    help="Where the host keeps what guests send; by default SURVEY with the ending "
    ".collected.",
)


@click.group("collect")
def command() -> None:
    """Ask guests for a table of numbers in one visit each, and show counts and totals.

    \b
    Example:
      veilsum collect delegate keys/alice.key --guests firms.txt    # every member
      veilsum collect new plan.toml -o wages.veil --part alice.part.json \\
          --part bob.part.json --part carol.part.json               # the organiser
      veilsum collect invite wages.veil keys/alice.codes.csv \\
          --page https://survey.example.org                         # every member
      veilsum collect serve wages.veil --public https://survey.example.org
      veilsum collect close wages.veil                              # the host
      veilsum collect fetch wages.veil https://survey.example.org -o keys
      veilsum join keys/closed.toml --data keys --identity keys/alice.key --out out
      veilsum collect result wages.veil out --receipt bob.json --receipt carol.json
    """


@command.command("delegate")
@click.argument("key", type=FILE)
@click.option(
    "--guests",
    "names",
    type=FILE,
    help="A text with the names of the guests that this member vouches for, one a "
    "line.",
)
@click.option(
    "--folder",
    type=FOLDER,
    help="Where this member keeps all its surveys; by default beside KEY.",
)
@click.option(
    "-o",
    "--out",
    type=FILE,
    help="The part to write, by default NAME.part.json in the folder.",
)
@json_option
def delegate(
    *,
    key: Path,
    names: Path | None,
    folder: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Make what a member brings to one survey: its key, and its guests' codes.

    KEY is the member's identity. NAME.part.json is public and signed: send it to
    whoever writes the survey's file. NAME.codes.csv beside it has the codes, for its
    owner only: whoever has a code can answer in the guest's name. The survey's own key,
    and whom this member vouches for, are in surveys.store, which is kept for all later
    surveys: it knows what was answered before.

    \b
    Example:
      veilsum collect delegate keys/alice.key --guests firms.txt
    """
    from veilsum.files.output import prepare_output_folder, write_files
    from veilsum.net.identity import read_identity
    from veilsum.party.own_survey import STORE
    from veilsum.party.surveying import (
        invitation_codes_file,
        make_survey_part,
        read_guest_names,
    )
    from veilsum.surveys.delegate import SurveyDelegateStore

    identity = read_identity(key)
    guests = () if names is None else read_guest_names(names)
    place = prepare_output_folder(folder or key.parent)
    file = out or place / f"{identity.name}.part.json"
    stem = file.name.removesuffix(".json").removesuffix(".part")
    codes = file.with_name(f"{stem}.codes.csv")
    for one in (file, codes):
        if one.exists():
            raise InvalidInputError(
                f"{one} is there already, and may be of another survey: give --out "
                "another name",
                code="file-exists",
            )
    with closing(SurveyDelegateStore.open(place / STORE)) as store:
        part, made = make_survey_part(identity, store, guests)
    if made:
        write_files(
            codes.parent, {codes.name: invitation_codes_file(made)}, private=True
        )
    write_files(file.parent, {file.name: part.to_json().encode()})
    if as_json:
        print_json(
            {
                "member": part.member,
                "key": part.key,
                "guests": list(made),
                "part_file": str(file),
                "codes_file": str(codes) if made else None,
                "store_file": str(place / STORE),
            }
        )
        return
    click.echo(f"{file} is public: send it to whoever writes the survey's file")
    if made:
        click.echo(f"{codes} has the codes of {len(made)} guests: keep it to yourself")
    click.echo(f"{place / STORE} has the survey's key: keep it, also for later surveys")


@command.command("new")
@click.argument("plan", type=FILE)
@click.option(
    "-o",
    "--out",
    type=FILE,
    required=True,
    help="The survey's file to write; one that is there is left alone.",
)
@click.option(
    "--part",
    "parts",
    type=FILE,
    multiple=True,
    required=True,
    help="A member's .part.json. May be repeated.",
)
@click.option(
    "--certificate",
    "files",
    type=FILE,
    multiple=True,
    help="A member's .crt file; its name is in it. May be repeated.",
)
@click.option(
    "--address",
    "places",
    metavar="NAME=HOST:PORT",
    multiple=True,
    help="Where the others dial a member; without one it only dials. May be repeated.",
)
@click.option("--organiser", help="The member that writes this file, by its name.")
@json_option
def new(
    *,
    plan: Path,
    out: Path,
    parts: tuple[Path, ...],
    files: tuple[Path, ...],
    places: tuple[str, ...],
    organiser: str | None,
    as_json: bool,
) -> None:
    """Write the survey's file from PLAN and every member's part.

    PLAN is a scenario file with [survey]: title, unit, rows, columns, range, and what
    protects guests. Certificates and addresses stand in its [deployment], or are given
    here. Every member gets a copy, and looks at it with veilsum check.

    \b
    Example:
      veilsum collect new plan.toml -o wages.veil \\
          --part alice.part.json --part bob.part.json --part carol.part.json
    """
    from veilsum.cli.consortium import addresses_in_option, certificates_in_option
    from veilsum.files.consortiums import write_consortium
    from veilsum.net.trust import check_certificate_dates, check_certificates
    from veilsum.party.surveying import draft_survey, read_survey_part
    from veilsum.web.guest_page import page_survey

    drafted, terms, left_out = draft_survey(
        plan,
        [read_survey_part(one) for one in parts],
        certificates=certificates_in_option(files),
        addresses=addresses_in_option(places),
        organiser=organiser,
    )
    page_survey(terms)  # which guests could not be asked otherwise
    check_certificates(drafted.certificates)
    check_certificate_dates(drafted.certificates)
    write_consortium(out, drafted)
    if as_json:
        print_json(
            {
                "survey": terms.digest,
                "title": terms.title,
                "cells": terms.n_cells,
                "guests": len(terms.guests),
                "delegates": list(terms.names),
                "file": str(out),
                "left_out": list(left_out),
            }
        )
        return
    click.echo(f"{terms.title}\n")
    click.echo(f"cells      {len(terms.rows)} x {len(terms.columns)}")
    click.echo(f"guests     {len(terms.guests)}")
    click.echo(f"delegates  {', '.join(terms.names)}")
    click.echo(f"survey     {terms.digest}")
    for one in left_out:
        click.echo(f"left out: {one}")
    click.echo(f"\n{out} is for every member: veilsum check {out} says what it asks")


@command.command("invite")
@survey_argument
@click.argument("codes", type=FILE)
@click.option(
    "--identity",
    "key",
    type=FILE,
    help="The member's key file; by default NAME.key beside CODES, NAME.codes.csv.",
)
@click.option(
    "--folder",
    type=FOLDER,
    help="Where this member keeps all its surveys; by default beside its key.",
)
@click.option(
    "--page",
    "address",
    required=True,
    metavar="URL",
    help="Where guests open the page, such as https://survey.example.org.",
)
@click.option(
    "--language",
    type=click.Choice(catalogue_languages("survey")),
    default="en",
    show_default=True,
    help="Of the letters; the page has both.",
)
@click.option(
    "-o",
    "--out",
    type=FILE,
    help="The table to write, for its owner only; by default NAME.letters.csv.",
)
@json_option
def invite(
    *,
    survey: Path,
    codes: Path,
    key: Path | None,
    folder: Path | None,
    address: str,
    language: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write a letter to every guest that this member vouches for, ready to be sent.

    CODES is the table that veilsum collect delegate has written. Each letter has the
    guest's code, the page's address, and the hash of the page as a file, which is
    worked out here: the host cannot choose it. Nothing is written unless SURVEY has
    under this member's name its own certificate, the key that it made for this survey,
    and exactly these guests: with a key of somebody else's in its place, that one would
    open what guests seal.

    \b
    Example:
      veilsum collect invite wages.veil keys/alice.codes.csv \\
          --page https://survey.example.org
    """
    from veilsum.files.output import write_files
    from veilsum.net.identity import read_identity
    from veilsum.party.surveying import (
        check_survey,
        read_invitation_codes,
        survey_member_letters,
    )
    from veilsum.surveys.submission import submission_sha256
    from veilsum.web.fetching import survey_page_address
    from veilsum.web.guest_page import guest_page_as_single_file, page_survey

    consortium, _ = _read_survey_argument(survey)
    page = survey_page_address(address)
    given = read_invitation_codes(codes)
    named = codes.with_name(f"{codes.name.removesuffix('.codes.csv')}.key")
    if key is None and not named.exists():
        raise InvalidInputError(
            f"there is no {named}: give the member's key file with --identity",
            code="missing-key",
        )
    identity = read_identity(key or named)
    with closing(_open_store_argument(folder or (key or named).parent)) as store:
        terms = check_survey(consortium, identity, store)
    single = guest_page_as_single_file(page_survey(terms), f"{page}/submissions")
    page_hash = submission_sha256(single.encode())
    member = identity.name
    content = survey_member_letters(
        terms, member, given, page=page, page_hash=page_hash, language=language
    )
    file = out or codes.with_name(f"{member}.letters.csv")
    write_files(file.parent, {file.name: content}, private=True)
    if as_json:
        print_json(
            {
                "member": member,
                "guests": list(given),
                "page": page,
                "page_sha256": page_hash,
                "file": str(file),
            }
        )
        return
    click.echo(f"{file} has {len(given)} letters: each is for its guest alone")
    click.echo(f"SHA-256 of page.html  {page_hash}")


@command.command("serve")
@survey_argument
@folder_option
@click.option(
    "--listen",
    default=LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Where the page is.",
)
@click.option(
    "--public",
    metavar="URL",
    help="The address that guests have, if a reverse proxy on this computer passes "
    "them on, or with --tls.",
)
@click.option(
    "--tls",
    nargs=2,
    type=FILE,
    metavar="CERT KEY",
    help="The page's certificate with its chain, and its key, PEM.",
)
@json_option
def serve(
    *,
    survey: Path,
    folder: Path | None,
    listen: str,
    public: str | None,
    tls: tuple[Path, Path] | None,
    as_json: bool,
) -> None:
    """Host the page of SURVEY until Ctrl-C or SIGTERM; start it again at any time.

    What guests send is on disk before they are told so. The page for the host itself,
    whose address is printed, says how many have come. Browsers seal numbers only on a
    page with TLS, or on the computer itself.

    \b
    Example:
      veilsum collect serve wages.veil --public https://survey.example.org
      veilsum collect serve wages.veil --listen 0.0.0.0:443 \\
          --tls page.crt page.key --public https://survey.example.org
    """
    from veilsum.cli.join import set_up_command_logging
    from veilsum.consortium.addresses import Address, is_loopback_address
    from veilsum.web.collecting import SurveyWebHost
    from veilsum.web.fetching import survey_page_address
    from veilsum.web.pages import PageServer, listening_page_socket

    consortium, terms = _read_survey_argument(survey)
    place = Address.of(listen)
    if tls is None and not is_loopback_address(place.host):
        raise InvalidInputError(
            f"without --tls the page is for this computer, found {place}: listen at "
            "127.0.0.1 behind a reverse proxy, or give --tls CERT KEY",
            code="tls-missing",
        )
    known = None if public is None else survey_page_address(public)
    set_up_command_logging(style="json" if as_json else "text")
    collection = _open_collection_argument(
        _collect_command_folder(survey, folder), terms
    )
    listener = listening_page_socket(place)
    address = Address(place.host, listener.getsockname()[1])
    page = known or f"{'http' if tls is None else 'https'}://{address}"
    token = secrets.token_urlsafe(24)
    host = SurveyWebHost(
        consortium,
        collection,
        _collect_command_folder(survey, folder),
        address=address,
        public=page,
        token=token,
    )
    server = PageServer(
        host,
        listener,
        bounds=host.bounds,
        tls=None if tls is None else (str(tls[0]), str(tls[1])),
    )
    own = f"{'http' if tls is None else 'https'}://{host.own}/host/?token={token}"
    if as_json:
        print_json({"page": page, "page_sha256": host.page_hash, "own_page": own})
    else:
        say_on_terminal(f"page                  {page}")
        say_on_terminal(f"SHA-256 of page.html  {host.page_hash}")
        say_on_terminal(f"for the host itself   {own}")
        say_on_terminal("Ctrl-C or SIGTERM ends it")
    try:
        asyncio.run(_serve_collection_until_told(server))
    finally:
        collection.close()


async def _serve_collection_until_told(server: Any) -> None:
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # where there are none, Ctrl-C ends it at once
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
    await server.serve()


@command.command("status")
@survey_argument
@folder_option
@json_option
def status(*, survey: Path, folder: Path | None, as_json: bool) -> None:
    """Say how many guests have come, and who has not; nothing of what they sent.

    \b
    Example:
      veilsum collect status wages.veil
    """
    _, terms = _read_survey_argument(survey)
    with closing(
        _open_collection_argument(
            _collect_command_folder(survey, folder), terms, new=False
        )
    ) as collection:
        found, came = collection.progress(), set(collection.came())
    absent = [name for name in terms.roster if name not in came]
    if as_json:
        print_json({**found, "not_yet": absent})
        return
    state = "closed" if found["closed"] else "open"
    click.echo(f"{terms.title}: {state}")
    click.echo(f"{found['came']} of {found['invited']} guests have come")
    for member, (here, invited) in found["by_member"].items():
        click.echo(f"  invited by {member}: {here} of {invited}")
    if absent and not found["closed"]:
        click.echo("\nNot yet:")
        for name in absent:
            click.echo(f"  {name}")
    if found["missing"]:
        click.echo(f"\nIt cannot be closed yet: {found['missing']}")


@command.command("close")
@survey_argument
@folder_option
@click.option(
    "--without",
    metavar="GUEST",
    multiple=True,
    help="Leave out a guest whose share does not open for a delegate. May be repeated.",
)
@json_option
def close(
    *, survey: Path, folder: Path | None, without: tuple[str, ...], as_json: bool
) -> None:
    """Take nothing any more, and write which submissions are added.

    closed.toml and submissions.jsonl in the host's folder are for all members; a page
    that is served has them at once. Every member adds up one set of a survey, ever: to
    leave somebody out afterwards serves only if nobody has joined yet. Too few guests
    are refused, and the survey stays open.

    \b
    Example:
      veilsum collect close wages.veil
    """
    from veilsum.consortium.consortium import consortium_from
    from veilsum.files.consortiums import read_consortium, toml_text_of_table
    from veilsum.files.output import write_files
    from veilsum.surveys.survey_set import submissions_digest, write_submissions
    from veilsum.surveys.terms import survey_closing_entries, survey_terms
    from veilsum.surveys.words import survey_released_words
    from veilsum.web.fetching import CLOSED, RESULT, SENT as SUBMISSIONS

    consortium, terms = _read_survey_argument(survey)
    place = _collect_command_folder(survey, folder)
    with closing(_open_collection_argument(place, terms, new=False)) as collection:
        found, used = collection.close_survey(without)
    if (place / RESULT).exists():
        added = survey_terms(read_consortium(place / CLOSED)).set
        if found.digest != added:
            raise InvalidInputError(
                f"the totals of another set ({str(added)[:16]}) are on the page: a "
                "survey is added up once, and a second set would show whom they "
                "differ by",
                code="other-set-published",
            )
    agreed = consortium.to_table()
    agreed["survey"] |= survey_closing_entries(terms, found.digest, found.tally)
    whole = consortium_from(agreed)
    closed = toml_text_of_table(whole.to_table()).encode()
    # Whoever sees the closed file finds its submissions.
    write_files(
        place, {SUBMISSIONS: write_submissions(used), CLOSED: closed}, private=True
    )
    document = {
        "survey": terms.digest,
        "set": found.digest,
        "guests": len(used),
        "invited": len(terms.guests),
        "cells": terms.n_cells,
        "released": len(survey_terms(whole).released),
        "near": [[*map(terms.label, pair)] for pair in found.tally.near],
        "submissions_sha256": submissions_digest(found.submissions),
        "closed_file": str(place / CLOSED),
        "submissions_file": str(place / SUBMISSIONS),
    }
    if as_json:
        print_json(document)
        return
    click.echo(f"closed with {len(used)} of {len(terms.guests)} guests")
    for line in survey_released_words(survey_terms(whole)):
        click.echo(line)
    click.echo(f"set   {found.digest}")
    click.echo(f"list  {document['submissions_sha256']}")
    click.echo(f"{place / CLOSED} and {SUBMISSIONS} beside it are for all members")


@command.command("fetch")
@survey_argument
@click.argument("page")
@click.option(
    "-o",
    "--out",
    type=FOLDER,
    required=True,
    help="The member's folder of surveys, which closed.toml and submissions.jsonl go "
    "into.",
)
@click.option(
    "--identity",
    "key",
    type=FILE,
    help="The member's key file; by default the only .key file in the folder.",
)
@click.option(
    "--ca", type=FILE, help="Certificates to trust in place of the system's, PEM."
)
@json_option
def fetch(
    *,
    survey: Path,
    page: str,
    out: Path,
    key: Path | None,
    ca: Path | None,
    as_json: bool,
) -> None:
    """Fetch the closed survey from its PAGE, and check it against one's own SURVEY.

    The host gives it to members only: this one's key signs that it asks. Every
    submission's signature is checked, and that the closed file names exactly these.
    Nothing is written otherwise, nor in the place of a set that was added up.

    \b
    Example:
      veilsum collect fetch wages.veil https://survey.example.org -o keys
    """
    from veilsum.cli.join import only_key_in_working_folder
    from veilsum.net.identity import read_identity
    from veilsum.surveys.survey_set import submissions_digest
    from veilsum.web.fetching import CLOSED, fetch_closed

    consortium, terms = _read_survey_argument(survey)
    identity = read_identity(key or only_key_in_working_folder(out, where=f"in {out}"))
    found = fetch_closed(consortium, page, out, identity=identity, ca=ca)
    listed = submissions_digest(found.submissions)
    if as_json:
        print_json(
            {
                "survey": terms.digest,
                "set": found.digest,
                "guests": len(found.entries),
                "submissions_sha256": listed,
                "closed_file": str(out / CLOSED),
            }
        )
        return
    click.echo(f"closed with {len(found.entries)} of {len(terms.guests)} guests")
    click.echo(f"set   {found.digest}\nlist  {listed}\nfile  {out / CLOSED}")


@command.command("set")
@click.argument("closed", type=FILE)
@click.option(
    "--guest",
    metavar="NAME",
    help="Print the line of this guest, as its receipt has it, and nobody else's.",
)
@json_option
def show_set(*, closed: Path, guest: str | None, as_json: bool) -> None:
    """Print what was added, for a guest who asks a member other than the host.

    CLOSED is this member's closed.toml, with submissions.jsonl beside it. Everybody may
    see the digests, which are sorted, and their SHA-256, which the page with the result
    has, too: a host that leaves a guest out could list its digest there all the same.

    \b
    Example:
      veilsum collect set keys/closed.toml
      veilsum collect set keys/closed.toml --guest "Firm 17"
    """
    from veilsum.files.consortiums import read_consortium
    from veilsum.surveys.survey_set import submissions_digest
    from veilsum.surveys.terms import survey_terms
    from veilsum.web.fetching import read_fetched_survey

    terms = survey_terms(read_consortium(closed))
    found = read_fetched_survey(terms, closed.parent)
    document: dict[str, Any] = {"survey": terms.digest, "set": found.digest}
    if guest is None:
        document["submissions"] = list(found.submissions)
        document["submissions_sha256"] = submissions_digest(found.submissions)
    else:
        if guest not in terms.roster:
            raise InvalidInputError(
                f"nobody called {guest!r} is invited: write the name as the receipt "
                "has it",
                code="unknown-guest",
            )
        lines = ["\t".join(map(str, one)) for one in found.entries if one[0] == guest]
        document["line"] = lines[0] if lines else None
    if as_json:
        print_json(document)
    elif guest is None:
        click.echo("\n".join(found.submissions))
        say_on_terminal(f"list  {document['submissions_sha256']}")
    else:
        click.echo(document["line"] or f"{guest} is not in the set: it was left out")


@command.command("result")
@survey_argument
@click.argument("run", type=FOLDER)
@folder_option
@click.option(
    "--receipt",
    "receipts",
    type=FILE,
    multiple=True,
    help="Another member's receipt.json. May be repeated; all are needed.",
)
@json_option
def result(
    *,
    survey: Path,
    run: Path,
    folder: Path | None,
    receipts: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Put the totals on the page, once all delegates have signed them.

    RUN is the folder that this member's veilsum join wrote to. Signatures are checked,
    and the totals are worked out again from the sums that were signed. With them go the
    digests of all submissions that were added: a guest finds the one of its receipt.

    \b
    Example:
      veilsum collect result wages.veil out --receipt bob.json --receipt carol.json
    """
    from veilsum.files.consortiums import read_consortium
    from veilsum.files.output import as_strict_json as written, write_files
    from veilsum.net.receipt import read_receipt
    from veilsum.party.surveying import published_survey_run
    from veilsum.surveys.terms import survey_terms
    from veilsum.web.fetching import CLOSED, RESULT, read_fetched_survey

    _, terms = _read_survey_argument(survey)
    place = _collect_command_folder(survey, folder)
    closed = read_consortium(place / CLOSED)
    if survey_terms(closed).digest != terms.digest:
        raise InvalidInputError(
            f"{place / CLOSED} is of another survey than {survey}", code="other-survey"
        )
    taken = read_fetched_survey(survey_terms(closed), place)
    found = published_survey_run(
        closed, taken, run, [read_receipt(one) for one in receipts]
    )
    write_files(place, {RESULT: written(found).encode()})
    if as_json:
        print_json(found)
        return
    click.echo(f"{found['title']}: totals of {found['guests']} guests")
    click.echo(f"{place / RESULT} is on the page")


@command.command("erase")
@survey_argument
@click.argument("folder", type=FOLDER)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def erase(*, survey: Path, folder: Path, yes: bool, as_json: bool) -> None:
    """Erase a member's key of a SURVEY that nobody will answer any more.

    FOLDER is where this member keeps all its surveys. Without its key nobody can add up
    the survey, and nobody who gets hold of the store can open what guests sealed. A run
    that comes to its end erases the key by itself. Which set was added, if one was,
    stays known.

    \b
    Example:
      veilsum collect erase wages.veil keys
    """
    from veilsum.files.consortiums import read_consortium
    from veilsum.surveys.terms import survey_terms

    terms = survey_terms(read_consortium(survey))
    if not yes:
        click.confirm(
            f"Erase the key of {terms.title!r}? It can never be added up after that",
            abort=True,
            err=True,
        )
    with closing(_open_store_argument(folder)) as store:
        members = store.finish(terms)
    if not members:
        raise InvalidInputError(
            f"{folder} has no key of this survey: nothing was erased",
            code="no-survey-key",
        )
    if as_json:
        print_json({"survey": terms.digest, "members": list(members)})
        return
    click.echo(f"the key of {', '.join(members)} for this survey is erased")


def _read_survey_argument(survey: Path) -> tuple[Consortium, SurveyTerms]:
    from veilsum.files.consortiums import read_consortium
    from veilsum.surveys.terms import survey_terms

    found = read_consortium(survey)
    terms = survey_terms(found)
    if terms.set is not None:
        raise InvalidInputError(
            f"{survey} is a closed survey: give the file as members agreed on it, "
            "before it was closed",
            code="survey-is-closed",
        )
    return found, terms


def _open_store_argument(folder: Path) -> SurveyDelegateStore:
    from veilsum.party.own_survey import STORE
    from veilsum.surveys.delegate import SurveyDelegateStore

    if not (folder / STORE).exists():
        raise InvalidInputError(
            f"{folder} has no {STORE}, in which veilsum collect delegate keeps the key "
            "of a survey: give the folder with --folder",
            code="survey-store-missing",
        )
    return SurveyDelegateStore.open(folder / STORE)


def _collect_command_folder(survey: Path, given: Path | None) -> Path:
    return given or survey.with_suffix(".collected")


def _open_collection_argument(
    folder: Path, terms: SurveyTerms, *, new: bool = True
) -> SurveyGuestCollection:
    from veilsum.files.output import prepare_output_folder
    from veilsum.surveys.collection import SurveyGuestCollection

    if not new and not (folder / SENT).exists():
        raise InvalidInputError(
            f"{folder} holds nothing of this survey: veilsum collect serve makes it; "
            "give --folder if it is elsewhere",
            code="no-submissions",
        )
    return SurveyGuestCollection.open(prepare_output_folder(folder) / SENT, terms)
