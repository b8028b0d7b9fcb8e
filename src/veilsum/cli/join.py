"""`veilsum join`: take part in a run with the other members of a consortium."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.exceptions import Exit

from veilsum.cli.app import BadInput
from veilsum.cli.output import FILE, json_option, print_json, say
from veilsum.cli.own_table import table_options, taken
from veilsum.errors import InvalidInputError, OutputError, VeilsumError, printable

if TYPE_CHECKING:
    from veilsum.agreement.consortium import Consortium
    from veilsum.drivers.driver import Assignment
    from veilsum.files.ledger import Ledger
    from veilsum.jobs.running import JobResult
    from veilsum.net.identity import Identity
    from veilsum.parties.consent import Consent
    from veilsum.parties.joining import OwnCost, OwnTable
    from veilsum.parties.networked import Networked
    from veilsum.parties.own_rules import OwnRules
    from veilsum.protocol.machine import Machine


# Every attribute that logging itself gives a record; whatever else is there is a field.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what was said beside the event's name."""
    return {key: v for key, v in vars(record).items() if key not in _USUAL}


class ForPeople(logging.Formatter):
    """The event, then its fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        found = (f"{key}={value}" for key, value in fields_of(record).items())
        return printable(" ".join((" ", record.getMessage(), *found)).rstrip())


class ForMachines(logging.Formatter):
    """One JSON object a line: time, level, event, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        time = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **fields_of(record),
        }
        return json.dumps(line, default=str)


def set_up(*, style: str) -> None:
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
ANOTHER_OUT = (
    "it is left as it is, and nothing was sent: give another folder with --out"
)
TRANSCRIPT = (
    "you keep a transcript in {}, encrypted with your key: every number that your "
    "computer stores, sends and receives, your own before they are masked among them. "
    "It is a secret, and stays when the run is over; together with other members' "
    "transcripts it gives all that these members could compute"
)
# What the user can mend.
MENDABLE = (InvalidInputError, BadInput)
# Seconds of silence after which a person is told whom all wait for.
REMIND_SECONDS = 10.0
# What a person is told when the machine enters a phase.
STAGES = {
    "greeting": "meeting the others",
    "sharing": "exchanging shares with neighbours",
    "confirming": "both ends of every link confirm their shares",
    "committing": "waiting for everybody's signed commit",
    "summing": "committed; exchanging masked numbers",
    "iterating": "committed; iterating on masked costs",
    "agreeing": "comparing and signing the answer",
    "finished": "agreed by everybody; waiting until the neighbours have it too",
    "aborted": "given up",
}


@click.command("join")
@click.argument("consortium", type=FILE)
@click.option("--data", type=FILE, help="This party's own table: a file.")
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
    "its own, encrypted with its key; by default none is kept. It is a secret: it has "
    "what the masks hide of this party, and with other members' transcripts all that "
    "these could compute together.",
)
@click.option("--listen", help="HOST:PORT to listen at, if others dial another one.")
@click.option(
    "--out",
    type=FILE,
    default=Path("out"),
    show_default=True,
    help="Folder for consent.txt, consent.json, result.json and receipt.json; and for "
    "evidence of members that contradict themselves.",
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
@click.option(
    "--log",
    "style",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="How events are written to standard error.",
)
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
    style: str,
    **how: Any,
) -> None:
    """Take part in a run with the other members of a consortium.

    Shows what is asked, every number that becomes known, who can compute what from it
    and what is not protected, and asks. What was agreed to is kept in consent.txt. If
    it is interrupted, however rudely, the same command goes on where it was. The file
    of a study has several questions: they are agreed to at once, each has a folder of
    its own in --out, and one that fails does not stop the others (exit code 1).

    \b
    Example:
      veilsum check consortium.toml --data ward7.csv
      veilsum join consortium.toml --data ward7.csv
      veilsum join consortium.toml --cost mine.toml --yes --json
    """
    from veilsum.agreement.study import AgreedStudy
    from veilsum.cli.join import set_up
    from veilsum.cli.study import join_study
    from veilsum.files.consortiums import read_agreement
    from veilsum.files.output import prepare_folder
    from veilsum.tables.frames import load_pandas_alone

    set_up(style=style)
    with _told(style):
        if as_json and not yes:
            raise BadInput(
                "--json asks no questions: add --yes to take part without any"
            )
        folder = prepare_folder(out)
        if data is not None and data.suffix != ".parquet":
            load_pandas_alone()
        files = {"data": data, "cost": cost}
        how["out"] = folder
        agreed = read_agreement(consortium)
        if isinstance(agreed, AgreedStudy):
            how |= {"style": style, "yes": yes, "without": without}
            join_study(agreed, consortium, key, files, how, as_json=as_json)
            return
        if without:
            raise BadInput("--without leaves out a question of a study; this is none")
        driver, result = _take_part(consortium, key, files, how, style=style, yes=yes)
        _report(folder, driver, result, style=style, as_json=as_json)


@contextmanager
def _told(style: str) -> Iterator[None]:
    """Say in the log's own form how it ended otherwise."""
    try:
        yield
    except KeyboardInterrupt:
        _end(style, INTERRUPTED, 1)
    except (VeilsumError, click.ClickException) as error:
        if style != "json":
            raise
        # Logs are kept and collected: no value of a table, no coefficient.
        words = error.plain if isinstance(error, VeilsumError) else str(error)
        _end(style, words, 2 if isinstance(error, MENDABLE) else 1)


def _end(style: str, words: str, code: int) -> NoReturn:
    if style == "json":
        LOG.error("ended", extra={"reason": words})
    else:
        say(f"  {words}")
    raise Exit(code)


def _take_part(
    consortium: Path,
    key: Path | None,
    files: dict[str, Path | None],
    how: dict[str, Any],
    *,
    style: str,
    yes: bool,
) -> tuple[Networked, JobResult]:
    from veilsum.files.consortiums import read_consortium
    from veilsum.net.identity import read_identity
    from veilsum.net.transcript_file import earlier_transcript
    from veilsum.parties.joining import own_part

    agreed = read_consortium(consortium)
    identity = read_identity(key or only_key(consortium.parent))
    _check_out(how["out"], agreed, identity)
    own = own_rules(how["own"], identity.key_file.parent)
    own.check(agreed, alone=yes)
    part = own_part(agreed, data=files["data"], cost=files["cost"], **taken(how))
    driver = _driver(agreed, identity, how)
    driver.watch = _progress(style)
    if how["transcript"] is not None:
        driver.tapped = True
        driver.earlier = earlier_transcript(how["transcript"], identity, run=agreed.run)
    with ExitStack() as stack:
        path = how["ledger_file"] or identity.key_file.with_suffix(".ledger")
        driver.ledger = stack.enter_context(_ledger(path, agreed))

        def confirm(task: Assignment) -> None:
            page = _page(driver, part, own, task, how["transcript"])
            if not yes:
                _ask(page)
            else:
                _warn(agreed, driver.ledger, style)
            (text, _) = page.write(how["out"])
            if style == "text":
                say(f"  what was agreed to is in {text}, for you alone")

        driver.confirm = confirm
        try:
            return driver, part.run(driver, driver.ledger)
        except InvalidInputError:
            _warn(agreed, driver.ledger, style)
            raise
        finally:
            _keep_evidence(how["out"], driver, style)
            _keep_transcript(how["transcript"], driver, style)


def _warn(agreed: Consortium, ledger: Ledger | None, style: str) -> None:
    """Point out files that differ in bounds only, where no page is shown."""
    from veilsum.parties.at_home import asked_before

    if not (lines := asked_before(agreed, ledger)):
        return
    if style == "json":
        LOG.warning("asked before", extra={"files": len(lines) - 1})
    else:
        say("\n".join(f"  {printable(line)}" for line in lines))


def _keep_evidence(folder: Path, driver: Networked, style: str) -> None:
    """Write down what proves that others contradicted themselves, however it ended."""
    from veilsum.files.output import write_files
    from veilsum.parties.joining import evidence_of

    for found in evidence_of(driver):
        files = {f"evidence-{found.party}.json": found.to_json().encode()}
        (path,) = write_files(folder, files, private=True)
        if style == "json":
            about = {"party": found.party, "file": str(path)}
            LOG.warning("evidence is kept", extra=about)
        else:
            say(
                f"  {found.party} contradicted itself: the evidence is in {path}, for "
                "you alone (it may hold the answer, or what tells it to who tries); "
                "veilsum verify says what it proves"
            )


def _keep_transcript(path: Path, driver: Networked, style: str) -> None:
    """Write down what was stored, sent and received by now, however it ended."""
    from veilsum.net.transcript_file import write_transcript

    if driver.tap is None:
        return
    found, run = driver.tap.transcript(), driver.consortium.run
    write_transcript(path, found, driver.identity, run=run)
    if style == "json":
        about = {"file": str(path), "whole": found.whole}
        LOG.info("transcript is kept", extra=about)
        return
    cut = "" if found.whole else "; it grew too long, and its end is not in it"
    say(f"  the transcript is in {path}, for who has your key alone{cut}")


def only_key(folder: Path) -> Path:
    """Return the one key file of a folder."""
    from veilsum.net.identity import LOST_KEY

    found = sorted(folder.glob("*.key"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise BadInput(
            f"name this party's key with --identity FILE: beside the consortium file "
            f"there must be one .key file, found {names}; {LOST_KEY}"
        )
    return found[0]


def _driver(agreed: Consortium, identity: Identity, how: dict[str, Any]) -> Networked:
    from veilsum.agreement.consortium import Address
    from veilsum.parties.networked import Networked

    beside = identity.key_file.parent
    state = how["state"] or beside / f"{identity.name}-{agreed.run[-8:]}.run"
    listen = None if how["listen"] is None else Address.of(how["listen"])
    return Networked(
        identity=identity, consortium=agreed, state=Path(state), listen=listen
    )


def _check_out(folder: Path, agreed: Consortium, identity: Identity) -> None:
    """Refuse a folder with another run's receipt: it would be overwritten."""
    from veilsum.net.receipt import read_receipt

    path = folder / "receipt.json"
    if not path.exists():
        return
    try:
        found = read_receipt(path)
    except InvalidInputError as error:
        raise OutputError(f"{error}; {ANOTHER_OUT}") from None
    if (found.run, found.party) != (agreed.run, identity.name):
        raise OutputError(
            f"{path} is the receipt of {found.party} for the run {found.run}, and this "
            f"is the run {agreed.run} of {identity.name}; {ANOTHER_OUT}"
        )


def _ledger(path: Path, agreed: Consortium) -> Ledger:
    """Open this party's ledger; a new one keeps to what was agreed here first."""
    from veilsum.files.ledger import open_ledger
    from veilsum.privacy.accountant import Budget

    if path.exists():
        return open_ledger(path)
    policy, fraction = agreed.rules.policy, agreed.rules.rules.release_fraction
    budget = Budget(
        release_fraction=fraction if isfinite(fraction) else None,
        minimum_honest=policy.minimum_honest,
        tolerate=policy.tolerate,
    )
    return open_ledger(path, create=budget)


def own_rules(given: Path | None, folder: Path) -> OwnRules:
    """Return a party's own rules: those in a file, or in the one in a folder."""
    from veilsum.parties.own_rules import FILE_NAME, OwnRules, read_own_rules

    path = given or folder / FILE_NAME
    if given is None and not path.exists():
        return OwnRules()
    return read_own_rules(path)


def _page(
    driver: Networked,
    part: OwnTable | OwnCost,
    own: OwnRules,
    task: Assignment,
    transcript: Path | None,
) -> Consent:
    """Return what its owner agrees to: all of it was checked by now."""
    from veilsum.parties.at_home import about_you, passed
    from veilsum.parties.consent import Part, consent_to

    agreed = driver.consortium
    shared = consent_to(agreed)
    yours = about_you(
        part,
        passed(part, driver.ledger, task),
        own=own,
        ledger=driver.ledger,
        most=shared.facts["numbers"][1],
    )
    here = tuple(_place(agreed, driver.party, task))
    if transcript is not None:
        here = (*here, TRANSCRIPT.format(transcript.name))
    place = Part("YOUR PLACE", here)
    return replace(shared, own=(place, *yours))


def _ask(page: Consent) -> None:
    """Show what is about to happen, and go on only if a person agrees."""
    # Where the question is, so that nobody is asked about what went into a file.
    say(page.text())
    try:
        agrees = click.confirm("\nproceed?", default=False, err=True)
    except click.Abort:
        say("")  # so that what is said next has a line of its own
        raise BadInput(
            "nobody answered, and nothing was sent; add --yes to take part without "
            "being asked, for instance where there is no terminal"
        ) from None
    if not agrees:
        raise BadInput("nothing was sent; run the same command to take part")


def _place(agreed: Consortium, name: str, task: Assignment) -> Iterator[str]:
    plan, me = task.plan, agreed.member(name)
    near = agreed.topology.neighbours(name)
    numbers = f"{plan.size} numbers"
    dialled = [other for other in near if agreed.dials(name, other)]
    calls = ", ".join(f"{other} at {agreed.member(other).address}" for other in dialled)
    here = "does not listen" if me.address is None else f"listens for {me.address}"
    written = (
        ", and the file says that you wrote it" if name == agreed.organiser else ""
    )
    yield f"you are {name}{written}; neighbours: {', '.join(near)}"
    yield (
        f"for each sum you send {len(near)} shares of {numbers} under {plan.law.name} "
        f"masks and one masked vector of {numbers}"
    )
    yield f"your computer {here}; dials {calls or 'nobody'}"


def _progress(style: str) -> Callable[[Machine], None]:
    """Return what tells a person, or a log, about each new phase."""
    seen: list[str] = []
    told = [monotonic()]

    def watch(machine: Machine) -> None:
        if seen and seen[-1] == machine.phase:
            remind(machine)
            return
        seen.append(machine.phase)
        told[0] = monotonic()
        if style == "json":
            extra = {"phase": machine.phase, "epoch": machine.epoch}
            LOG.info("phase", extra=extra)
        else:
            say(f"  {STAGES[machine.phase]}")

    def remind(machine: Machine) -> None:
        missing = ", ".join(machine.waiting_for)
        if missing and style == "text" and monotonic() - told[0] > REMIND_SECONDS:
            told[0] = monotonic()
            say(f"  still waiting for {missing}")

    return watch


def _report(
    folder: Path, driver: Networked, result: JobResult, *, style: str, as_json: bool
) -> None:
    from veilsum.files.output import as_json as text
    from veilsum.files.output import write_files
    from veilsum.parties.joining import receipt_of

    assert driver.ending is not None
    assert driver.ending.finish is not None
    document = {**result.to_dict(), "seal": driver.ending.finish.seal.hex()}
    files = {
        "result.json": text(document).encode(),
        "receipt.json": receipt_of(driver, result).to_json().encode(),
    }
    paths = write_files(folder, files)
    if driver.was_over and style == "json":
        LOG.info("was over", extra={"reason": WAS_OVER})
    elif driver.was_over:
        say(f"  {WAS_OVER}")
    if as_json:
        print_json(document)
        return
    summary = getattr(result, "summary", None)
    click.echo(summary() if summary else f"minimiser: {result.answer.tolist()}")
    click.echo(f"\n{result.guarantee.status}; agreed by {_signers(driver)}")
    click.echo(f"result {paths[0]}; receipt {paths[1]} (signed, no private values)")


def _signers(driver: Networked) -> str:
    assert driver.ending is not None
    finish = driver.ending.finish
    assert finish is not None
    return f"{len(finish.signatures)} of {len(finish.parties)} parties"
