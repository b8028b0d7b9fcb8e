"""`veilsum serve`: a party that stays up."""

from __future__ import annotations

import logging
import signal
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.app import BadInput
from veilsum.cli.live_page import page_options, shown_page
from veilsum.cli.output import (
    FILE,
    json_option,
    log_option,
    print_json,
    say_on_terminal,
)
from veilsum.cli.own_table import cut_options, table_options, take_table_options

if TYPE_CHECKING:
    from veilsum.party.serving import PartyHousehold, PartyServer


@click.command("serve")
@click.argument("folder", type=FILE)
@click.option(
    "--data",
    type=FILE,
    help="This party's own table: a file. For surveys, a delegate's folder; by default "
    "the one with the key.",
)
@click.option("--cost", type=FILE, help="This party's own cost: a TOML file.")
@click.option(
    "--identity",
    "key",
    type=FILE,
    help="This party's key file; by default the only .key file in FOLDER.",
)
@table_options
@click.option(
    "--ledger",
    type=FILE,
    help="This party's ledger, made if it is not there; by default beside the key.",
)
@cut_options
@click.option(
    "--own",
    type=FILE,
    help="This party's own rules; by default veilsum.toml beside the key. Without any "
    "a person agrees to every run.",
)
@click.option("--listen", help="HOST:PORT to listen at, if others dial another one.")
@click.option(
    "--out",
    type=FILE,
    help="Folder with a folder for every run: page, result, receipt; by default served "
    "beside the key.",
)
@click.option(
    "--metrics",
    "shown_at",
    metavar="HOST:PORT",
    help="Show /metrics (Prometheus) and /healthz there; on this computer only, such "
    "as 127.0.0.1:9464.",
)
@page_options
@click.option(
    "--agree",
    "asked",
    type=FILE,
    help="Show the page of a consortium file that waits for a person, and ask; a party "
    "that is up then joins it. Nothing is served.",
)
@click.option(
    "--refuse",
    "declined",
    type=FILE,
    help="Say no to a consortium file that waits for a person: it is not asked about "
    "again, and not joined. Nothing is sent, nothing is served.",
)
@click.option(
    "--once",
    is_flag=True,
    help="Look at FOLDER once, take part to the end in what may be joined, and leave.",
)
@log_option
@json_option
def command(
    *,
    folder: Path,
    key: Path | None,
    listen: str | None,
    shown_at: str | None,
    page: str | None,
    page_open: bool,
    asked: Path | None,
    declined: Path | None,
    once: bool,
    style: str,
    as_json: bool,
    **how: Any,
) -> None:
    """Stay up, watch FOLDER for consortium files, and join what may be joined.

    A file that names this party is joined if its own rules, veilsum.toml, allow all of
    it and no rule is weaker than usual unless they say so: of a study, every question.
    What they refuse is refused. A survey is joined when it is closed, with the store
    and the submissions that lie beside the key.
    Everything else waits: veilsum status shows it, --agree FILE asks a person, and
    --refuse FILE is a person's no. With --page all runs beside the key are on a page,
    with reports of those that are done. With --json the state of all runs is printed
    at the end.

    \b
    Example:
      veilsum serve inbox --identity ward7.key --data ward7.csv --metrics 127.0.0.1:9464
      veilsum serve inbox --identity ward7.key --data ward7.csv --agree inbox/ages.toml
      veilsum serve inbox --identity ward7.key --refuse inbox/ages.toml
      veilsum serve inbox --identity ward7.key --data ward7.csv --page
    """
    from veilsum.cli.join import only_key_in_working_folder, set_up_command_logging
    from veilsum.consortium.addresses import Address
    from veilsum.net.identity import read_identity
    from veilsum.party.serving import PartyHousehold, PartyServer

    if not folder.is_dir():
        raise BadInput(f"expected a folder to watch, found {folder}; make it first")
    home = PartyHousehold(
        identity=read_identity(
            key or only_key_in_working_folder(folder, where=f"in {folder}")
        ),
        listen=None if listen is None else Address.of(listen),
        how=take_table_options(how),
        **how,
    )
    if asked is not None and declined is not None:
        raise BadInput("--agree FILE asks, --refuse FILE says no: give one of them")
    if declined is not None:
        _refuse_on_serve_page(home, declined)
        return
    if asked is not None:
        _agree_on_serve_page(home, asked, as_json=as_json)
        return
    set_up_command_logging(style=style)
    logging.getLogger("veilsum.net.serving").setLevel(logging.INFO)
    serving = PartyServer(folder, home)
    beside = home.identity.key_file.parent
    with shown_page(beside, page, opened=page_open, style=style):
        _serve_command_loop(serving, shown_at, once=once)
    if as_json:
        from msgspec import structs

        print_json([structs.asdict(one) for one in serving.statuses()])


def _serve_command_loop(
    serving: PartyServer, shown_at: str | None, *, once: bool
) -> None:
    """Look, again and again, until somebody says to stop."""
    from veilsum.net.metrics import MetricsServer, loopback_address
    from veilsum.party.serving import LOOK_SECONDS

    over = Event()
    with ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.signal(number, lambda *_: over.set())
            stack.callback(signal.signal, number, before)
        if shown_at is not None:
            address = loopback_address(shown_at)
            shown = MetricsServer(address, serving.metrics, serving.healthy)
            stack.enter_context(shown)
        stack.callback(serving.stop)
        serving.look()
        while (serving.busy or not once) and not over.wait(LOOK_SECONDS):
            if not once:
                serving.look()


def _agree_on_serve_page(home: PartyHousehold, file: Path, *, as_json: bool) -> None:
    """Show a page, ask, and write down what a person has agreed to."""
    from veilsum.cli.check import check_command_at_home
    from veilsum.cli.join import ask_on_terminal
    from veilsum.files.consortiums import read_agreement
    from veilsum.party.serving import survey_section_of
    from veilsum.party.study_page import study_consent_page

    if as_json:
        raise BadInput("--json asks no questions: a person agrees, or nobody does")
    agreed, name = read_agreement(file), home.identity.name
    books = home.ledger or home.identity.key_file.with_suffix(".ledger")
    page = study_consent_page(agreed)
    page = check_command_at_home(
        agreed,
        page,
        home.rules,
        name,
        {
            "data": home.data_for(agreed),
            "cost": None if survey_section_of(agreed) else home.cost,
        },
        books if books.exists() else None,
        dict(home.how),
    )
    assert page.standing is not None
    if page.standing.bars_all:  # of a study, others may be joined
        say_on_terminal(page.text())
        raise BadInput("REFUSED: you may not take part, and nothing was sent")
    ask_on_terminal(
        page,
        unanswered="only a person can agree here",
        declined="the file still waits: the same command asks again, and --refuse in "
        "place of --agree says no for good",
    )
    home.agree(agreed)
    say_on_terminal(
        f"  agreed to; a party that serves {name} joins the run {agreed.run}"
    )


def _refuse_on_serve_page(home: PartyHousehold, file: Path) -> None:
    """Write down a person's no, which whoever serves keeps to."""
    from time import time

    from veilsum.files.consortiums import read_agreement

    agreed = read_agreement(file)
    home.decline(agreed, file, now=time())
    say_on_terminal(
        f"  refused; nothing was sent, and {home.identity.name} does not join the run "
        f"{agreed.run}. Tell the other members: they are told nothing by this program"
    )
