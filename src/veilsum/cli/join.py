"""`veilsum join`: take part in a run with the other members of a consortium."""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.exceptions import Exit

from veilsum.cli.app import BadInput
from veilsum.cli.output import (
    FILE,
    json_option,
    language_option,
    log_option,
    long_option,
    print_json,
    say_on_terminal,
)
from veilsum.cli.own_table import cut_options, table_options, take_table_options
from veilsum.errors import InvalidInputError, VeilsumError, WaitingError, printable

if TYPE_CHECKING:
    from veilsum.party.consent import Consent
    from veilsum.party.run import Joined
    from veilsum.party.run_status import RunEvent
    from veilsum.party.studying import QuestionStatus


# Every attribute that logging itself gives a record; whatever else is there is a field.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def log_record_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return what was said beside the event's name."""
    return {key: v for key, v in vars(record).items() if key not in _USUAL}


class ForPeople(logging.Formatter):
    """The time, the event, then its fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        found = (f"{key}={value}" for key, value in log_record_fields(record).items())
        words = (printed_utc_time(record.created), record.getMessage(), *found)
        return printable(f"  {' '.join(words)}")


def printed_utc_time(seconds: float) -> str:
    """Return a time for people, UTC.

    >>> printed_utc_time(0.0)
    '1970-01-01 00:00:00Z'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"


class ForMachines(logging.Formatter):
    """One JSON object a line: time, level, event, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **log_record_fields(record),
        }
        return json.dumps(line, default=str)


def set_up_command_logging(*, style: str) -> None:
    """Send the network's events, and the event loop's own, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(ForMachines() if style == "json" else ForPeople())
    for name in ("veilsum.net", "asyncio"):
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.propagate = False
    level = logging.INFO if style == "json" else logging.WARNING
    logging.getLogger("veilsum.net").setLevel(level)


LOG = logging.getLogger("veilsum.net")

INTERRUPTED = (
    "stopped; nothing is lost: the same command goes on, if the others' deadlines have "
    "not passed by then"
)
WAS_OVER = "this run was over before; this is what it found then"
UNSIGNED = (
    "unsigned answer: result.json and receipt.json are written once all have signed it"
)
# The exit code of a party whose run goes on when others' files have come.
WAITING = 3
# What the user can mend.
MENDABLE = (InvalidInputError, BadInput)
# Seconds of silence after which a person is told whom all wait for.
REMIND_SECONDS = 10.0


@click.command("join")
@click.argument("consortium", type=FILE)
@click.option(
    "--data",
    type=FILE,
    help="This party's own table: a file. Of a survey, the folder with its store "
    "surveys.store and the host's submissions.jsonl.",
)
@click.option("--cost", type=FILE, help="This party's own cost: a TOML file.")
@click.option(
    "--identity",
    "key",
    type=FILE,
    help="This party's key file; by default the only .key file beside the consortium "
    "file.",
)
@table_options
@click.option(
    "--state",
    type=FILE,
    help="The run's own file, to go on from after an interruption; by default beside "
    "the key.",
)
@click.option(
    "--ledger",
    "ledger_file",
    type=FILE,
    help="This party's ledger, made if it is not there; by default beside the key.",
)
@cut_options
@click.option(
    "--own",
    type=FILE,
    help="This party's own rules; by default veilsum.toml beside the key, if it is "
    "there. No consortium file changes them.",
)
@click.option(
    "--transcript",
    type=FILE,
    help="Keep every number that this party stores, sends and receives in a file of "
    "its own, encrypted with its key; by default none is kept. Of a study, a folder "
    "with one for each question. It is a secret: it has what the masks hide of this "
    "party, and with other members' transcripts all that these could compute together.",
)
@click.option("--listen", help="HOST:PORT to listen at, if others dial another one.")
@click.option(
    "--drop",
    type=FILE,
    help="Meet the others through files in this folder, which people or a program "
    "carry to theirs and back; no connection is made. All members do so, or none.",
)
@click.option(
    "--once",
    is_flag=True,
    help="With --drop: do what can be done with the files that are there, say which "
    "are waited for, and end with exit code 3; the same command goes on.",
)
@click.option(
    "--relay-token",
    type=FILE,
    help="The token that admits this party to the consortium's relays; by default "
    "relay.token beside the key, if it is there, or VEILSUM_RELAY_TOKEN.",
)
@click.option(
    "--out",
    type=FILE,
    default=Path("out"),
    show_default=True,
    help="Folder for consent.txt, consent.json, result.json, sums.json and "
    "receipt.json; and for evidence of members that contradict themselves.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask before anything is sent: take part if this party's own rules "
    "allow it, and no rule is weaker than usual unless they say so.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="Of a study, a question to stay away from. May be repeated.",
)
@long_option
@language_option
@log_option
@json_option
def command(
    *,
    consortium: Path,
    data: Path | None,
    cost: Path | None,
    key: Path | None,
    out: Path,
    as_json: bool,
    yes: bool,
    without: tuple[str, ...],
    long: bool,
    language: str,
    style: str,
    **how: Any,
) -> None:
    """Take part in a run with the other members of a consortium.

    Shows the page of consent and asks; the page in full is kept in consent.txt. If
    it is interrupted, however rudely, the same command goes on where it was. The file
    of a study has several questions: they are agreed to at once, each has a folder of
    its own in --out, and one that fails does not stop the others (exit code 1).

    \b
    Example:
      veilsum check consortium.toml --data ward7.csv
      veilsum join consortium.toml --data ward7.csv
      veilsum join consortium.toml --cost mine.toml --yes --json
      veilsum join consortium.toml --data ward7.csv --drop letters --once
    """
    from veilsum.cli.study import report_study
    from veilsum.consortium.addresses import Address
    from veilsum.files.consortiums import read_agreement
    from veilsum.files.output import prepare_output_folder
    from veilsum.net.drop import DropFolder
    from veilsum.net.identity import read_identity
    from veilsum.party.own_rules import own_rules_in
    from veilsum.party.run import PartyInputs
    from veilsum.party.studying import PreparedPartyStudy, prepare_party
    from veilsum.tables.frames import load_pandas_alone

    set_up_command_logging(style=style)
    with _log_ending_in_style(style, as_json=as_json):
        if as_json and not yes:
            raise BadInput(
                "--json asks no questions: add --yes to take part without any"
            )
        if how["once"] and how["drop"] is None:
            raise BadInput("--once is for files that are carried: add --drop FOLDER")
        if data is not None and data.suffix != ".parquet" and not data.is_dir():
            load_pandas_alone()
        agreed = read_agreement(consortium)
        identity = read_identity(key or only_key_in_working_folder(consortium.parent))
        inputs = PartyInputs(
            data=data,
            cost=cost,
            how=take_table_options(how),
            alone=yes,
            rules=own_rules_in(identity.key_file.parent, how["own"]),
            ledger=how["ledger_file"],
            state=how["state"],
            listen=None if how["listen"] is None else Address.of(how["listen"]),
            drop=None
            if how["drop"] is None
            else DropFolder(prepare_output_folder(how["drop"]), once=how["once"]),
            relay_token=how["relay_token"],
            transcript=how["transcript"],
            file=consortium,
            out=out,
            without=without,
        )
        how_shown: dict[str, Any] = {"long": long, "language": language}
        consent = partial(_agree_on_join_page, yes=yes, style=style, **how_shown)
        listen = _printer_of_run_events(style)
        try:
            ready = prepare_party(agreed, identity, inputs)
            if isinstance(ready, PreparedPartyStudy):
                tell = partial(_print_question_status, style=style, as_json=as_json)
                study = ready.run(consent, on_event=listen, tell=tell).status
                report_study(study, out, as_json=as_json)
            found = ready.run(consent, on_event=listen)
        except InvalidInputError as error:
            _warn_of_similar_files(getattr(error, "__notes__", ()), style)
            raise
        _print_join_result(out, found, style=style, as_json=as_json)


@contextmanager
def _log_ending_in_style(style: str, *, as_json: bool) -> Iterator[None]:
    """Say in the log's own form how it ended otherwise."""
    try:
        with ended_like_ctrl_c():
            yield
    except KeyboardInterrupt:
        _end_join_command(style, INTERRUPTED, 1)
    except WaitingError as error:
        found = error.answers
        if found and as_json:
            print_json({"unsigned": {k: one.to_dict() for k, one in found.items()}})
        for name, one in () if as_json else found.items():
            about = f"{name}: " if name else ""
            click.echo(f"{about}{UNSIGNED}\n\n{one.summary()}\n")
        _end_join_command(style, str(error), WAITING)
    except (VeilsumError, click.ClickException) as error:
        if style != "json":
            raise
        # Logs are kept and collected: no value of a table, no coefficient.
        words, name = str(error), ""
        if isinstance(error, VeilsumError):
            words, name = error.plain, error.code
        _end_join_command(style, words, 2 if isinstance(error, MENDABLE) else 1, name)


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Let whoever ends the process (SIGTERM) be answered as a person is (Ctrl-C)."""

    def end(*_: object) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what is heard
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end_join_command(style: str, words: str, status: int, code: str = "") -> NoReturn:
    if style == "json":
        extra = {"reason": words, "code": code} if code else {"reason": words}
        LOG.error("ended", extra=extra)
    else:
        say_on_terminal(f"  {words}")
    raise Exit(status)


def _agree_on_join_page(
    page: Consent, *, yes: bool, style: str, **how_shown: Any
) -> bool:
    from veilsum.party.checks import ASKED_BEFORE

    if not yes:
        ask_on_terminal(page, **how_shown)
        return True
    for part in page.own:
        if part.key == ASKED_BEFORE:
            _warn_of_similar_files(part.lines, style)
    return True


def _warn_of_similar_files(lines: Sequence[str], style: str) -> None:
    """Point out files that differ in bounds only, where no page is shown."""
    if not lines:
        return
    if style == "json":
        LOG.warning("asked before", extra={"files": len(lines) - 1})
    else:
        say_on_terminal("\n".join(f"  {printable(line)}" for line in lines))


def _print_question_status(
    found: QuestionStatus, joined: Joined | None, *, style: str, as_json: bool
) -> None:
    if style == "json":
        about = {"question": found.name, "stage": found.stage}
        LOG.info("question over", extra=about)
        return
    say_on_terminal(f"  {found.name}: {found.stage}")
    if joined is not None and not as_json:
        click.echo(f"\n{found.name}\n{joined.result.summary()}\n")


def only_key_in_working_folder(
    folder: Path, *, where: str = "beside the consortium file"
) -> Path:
    from veilsum.net.identity import LOST_KEY, NEXT

    not_in_force = (".former", NEXT)
    found = sorted(
        path for path in folder.glob("*.key") if not path.stem.endswith(not_in_force)
    )
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise BadInput(
            f"name this party's key with --identity FILE: {where} there must be one "
            f".key file, found {names}; {LOST_KEY}"
        )
    return found[0]


# What to do where there is nobody to ask.
ADD_YES = (
    "add --yes to take part without being asked, for instance where there is no "
    "terminal"
)


def ask_on_terminal(
    page: Consent,
    *,
    unanswered: str = ADD_YES,
    declined: str = "run the same command to take part",
    **how_shown: Any,
) -> None:
    """Show what is about to happen, and go on only if a person agrees."""
    # Where the question is, so that nobody is asked about what went into a file.
    say_on_terminal(page.text(**how_shown))
    try:
        agrees = click.confirm("\nproceed?", default=False, err=True)
    except click.Abort:
        say_on_terminal("")  # so that what is said next has a line of its own
        raise BadInput(f"nobody answered, and nothing was sent; {unanswered}") from None
    if not agrees:
        raise BadInput(f"nothing was sent; {declined}")


def _printed_run_stage(event: RunEvent) -> str:
    from veilsum.party.run_status import STAGES

    return f"{STAGES[event.phase]}{_printed_epoch_and_round(event)}"


def _printed_withheld_words(event: RunEvent) -> str:
    from veilsum.protocol.losing import withheld_words

    return withheld_words(event.names)


def _printer_of_run_events(style: str) -> Callable[[RunEvent], None]:
    told = [monotonic()]

    def listen(event: RunEvent) -> None:
        if style == "json":
            _log_run_event(event)
            return
        quiet = monotonic() - told[0] > REMIND_SECONDS
        if event.what in SAID or (quiet and event.what in NOW_AND_THEN):
            told[0] = monotonic()
            words = {**SAID, **NOW_AND_THEN}[event.what](event)
            say_on_terminal(f"  {printed_utc_time(time())} {words}")

    return listen


# What a person is told of events.
SAID: dict[str, Callable[[RunEvent], str]] = {
    "agreed": lambda event: f"what was agreed to is in {event.file}, for you alone",
    "phase": _printed_run_stage,
    "evidence": lambda event: (
        f"{event.names[0]} contradicted itself: the evidence is in {event.file}, for "
        "you alone (it may hold the answer, or what tells it to who tries); "
        "veilsum verify says what it proves"
    ),
    "withheld": _printed_withheld_words,
    "transcript": lambda event: (
        f"the transcript is in {event.file}, for who has your key alone"
        f"{'; it grew too long, and its end is not in it' if event.reason else ''}"
    ),
}


# And what only after a while without another word.
NOW_AND_THEN: dict[str, Callable[[RunEvent], str]] = {
    "resent": lambda event: f"still waiting for {', '.join(event.names) or 'nobody'}",
    "round": lambda event: f"going on{_printed_epoch_and_round(event)}",
}


def _printed_epoch_and_round(event: RunEvent) -> str:
    counts = {"epoch": event.epoch, "round": event.round}
    told = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    return f" ({told})" if told else ""


def _log_run_event(event: RunEvent) -> None:
    if event.what == "phase":
        where = {"phase": event.phase, "epoch": event.epoch, "round": event.round}
        LOG.info("phase", extra=where)
    elif event.what == "withheld":
        about = {"epoch": event.epoch, "reason": _printed_withheld_words(event)}
        LOG.info("masked vector withheld", extra=about)
    elif event.what == "evidence":
        about = {"party": event.names[0], "file": event.file}
        LOG.warning("evidence is kept", extra=about)
    elif event.what == "transcript":
        extra = {"file": event.file, "whole": not event.reason}
        LOG.info("transcript is kept", extra=extra)


def _print_join_result(
    folder: Path, found: Joined, *, style: str, as_json: bool
) -> None:
    if found.was_over and style == "json":
        LOG.info("was over", extra={"reason": WAS_OVER})
    elif found.was_over:
        say_on_terminal(f"  {WAS_OVER}")
    if as_json:
        cut = {} if found.cut is None else {"cut": found.cut.to_dict()}
        print_json({**found.to_dict(), **cut})
        return
    result = found.result
    click.echo(f"{result.summary()}\n\n{result.guarantee.sentence}")
    for line in result.sums_tell:
        click.echo(f"sums: {line}")
    for line in () if found.cut is None else found.cut.lines:
        click.echo(printable(line))
    signed, all_ = len(found.signed_by), len(found.receipt.parties)
    status = result.guarantee.status
    word = "" if status == "private" else f"{status}; "
    click.echo(f"\n{word}agreed by {signed} of {all_} parties")
    click.echo(
        f"result {folder / 'result.json'}; receipt {folder / 'receipt.json'} (signed, "
        "no private values)"
    )
