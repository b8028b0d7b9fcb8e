"""Taking part in a run: the order in which a party reads, checks, is asked, and sends.

There is one such order, for the command, for Python and for a party that stays up. What
differs is who is asked, and who is told. Nothing is sent before somebody has agreed.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

from veilsum.consortium.addresses import Address
from veilsum.consortium.consortium import Consortium
from veilsum.drivers.driver import Assignment, GivenUpError
from veilsum.errors import InvalidInputError, OutputError, WaitingError
from veilsum.files.contents import contents
from veilsum.files.ledger import Ledger, open_ledger
from veilsum.files.output import as_json, prepare_folder, write_files
from veilsum.net.drop import DropFolder
from veilsum.net.evidence import Evidence
from veilsum.net.identity import Identity
from veilsum.net.passes import own_token
from veilsum.net.receipt import Receipt, read_receipt
from veilsum.net.runner import Ending
from veilsum.net.transcript_file import earlier_transcript, write_transcript
from veilsum.party.checks import about_you, asked_before, passed
from veilsum.party.consent import PAGE, Consent, Part, consent_to
from veilsum.party.events import Listener, Telling
from veilsum.party.inputs import (
    TABLE_AND_LEDGER,
    OwnPart,
    evidence_of,
    own_part,
    receipt_of,
)
from veilsum.party.networked import Networked
from veilsum.party.own_rules import OwnRules, own_rules_in
from veilsum.party.replay import SUMS, sums_file
from veilsum.party.run_status import ENDING, StatusFile
from veilsum.privacy.accountant import Budget
from veilsum.protocol.messages import Quit
from veilsum.protocol.phases import ABORTED, FINISHED
from veilsum.showing import Showing, Shown
from veilsum.sums.running import JobResult

# Shown the page; returns True, and nothing else that is true, to take part.
Consenting: TypeAlias = Callable[[Consent], object]
# Runs a coroutine to its end in an event loop of its own.
Looping: TypeAlias = Callable[[Coroutine[Any, Any, Ending]], Ending]

# More than the longest page.
MOST_BYTES = 1 << 26
ANOTHER_OUT = (
    "it is left as it is, and nothing was sent: give another folder with --out"
)
TRANSCRIPT = (
    "you keep a transcript in {}, encrypted with your key: every number that your "
    "computer stores, sends and receives, your own before they are masked among them. "
    "It is a secret, and stays when the run is over; together with other members' "
    "transcripts it gives all that these members could compute"
)


class ConsentError(InvalidInputError):
    """Nobody has agreed to what a run asks of this party; nothing was sent.

    Attributes:
        page: what there is to agree to.
    """

    def __init__(self, why: str, page: Consent) -> None:
        super().__init__(f"{page.text()}\n{why}", plain=why)
        self.page = page


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Joined(Shown):
    """How a run ended for a party that came to an answer.

    Attributes:
        result: what was found, the same for all members.
        receipt: what this party signs about it; nothing in it is private.
        evidence: of others that contradicted themselves.
        seal: what members hold and nobody else; it opens the result's digest in
            receipts.
        signed_by: who has signed the answer.
        was_over: whether the run had ended before this call.
    """

    result: JobResult
    receipt: Receipt
    evidence: tuple[Evidence, ...]
    seal: bytes
    signed_by: tuple[str, ...]
    was_over: bool

    def showing(self) -> Showing:
        """Return the result, and who has signed it; the seal stays here."""
        signed = f"Signed by {', '.join(self.signed_by) or 'nobody yet'}."
        return self.result.showing().also(signed)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as result.json has it."""
        return {**self.result.to_dict(), "seal": self.seal.hex()}


@dataclass(frozen=True)
class Ways:
    """How a party meets the others, beyond what the consortium file says.

    Attributes:
        listen: where to listen, if others dial another address.
        drop: the folder through which all meet, if they do without connections.
        relay_token: file with the token of the consortium's relays; by default
            relay.token beside the key, or what the environment has.
        later: runs of later questions of the same study; see `Networked`.
    """

    listen: Address | None = None
    drop: DropFolder | None = None
    relay_token: Path | None = None
    later: frozenset[str] = frozenset()


def take_part(
    consortium: Consortium,
    identity: Identity,
    *,
    consent: Consenting,
    data: Any = None,
    cost: Path | Mapping[str, Any] | None = None,
    how: Mapping[str, Any] | None = None,
    alone: bool = False,
    rules: OwnRules | None = None,
    ledger: Ledger | Path | None = None,
    state: Path | None = None,
    ways: Ways | None = None,
    transcript: Path | None = None,
    file: Path | None = None,
    out: Path | None = None,
    on_event: Listener | None = None,
    looping: Looping = asyncio.run,
) -> Joined:
    """Take part in a run to its end, or go on with it after an interruption.

    Args:
        consortium: what was agreed on.
        identity: whose part it is.
        consent: shown the page before anything is sent; False, or anything it raises,
            stays away. A run that has begun was agreed to, and it is not asked again.
        data: the party's table, for a question about tables: a file or a frame; for a
            survey its folder.
        cost: its cost, for a question about costs: a file, or its entries.
        how: how a table's file is written, as `agreed_table` takes it; and `new_data`,
            whether the data are about other people than all that the ledger knows.
        alone: whether no person is asked: the usual rules are floors then.
        rules: the party's own; by default veilsum.toml beside its key, if it is there.
        ledger: its ledger, or its file; by default beside its key, made if needed.
        state: the run's own file; by default beside the key.
        ways: how it meets the others.
        transcript: where to keep all that is stored, sent and received.
        file: the consortium's file, for whoever looks at how far the run is.
        out: folder for the page, the result, the receipt, and evidence; None for none.
        on_event: told what happens.
        looping: runs the network's coroutine to its end.

    Raises:
        ConsentError: nobody has agreed; nothing was sent.
        InvalidInputError: this party cannot take part with what it gave.
        GivenUpError: the parties did not come to an answer; its `evidence` is what this
            party can show of others that contradicted themselves.
    """
    if out is not None:
        _check_out(prepare_folder(out), consortium, identity)
    beside = identity.key_file.parent
    own = own_rules_in(beside) if rules is None else rules
    own.check(consortium, alone=alone)
    part = own_part(consortium, data=data, cost=cost, **(how or {}))
    ways, token = ways or Ways(), None
    if consortium.relays is not None and ways.drop is None:
        token = own_token(consortium.relays, ways.relay_token, beside)
    state = state or state_file(identity, consortium.run)
    driver = Networked(
        identity=identity,
        consortium=consortium,
        state=state,
        listen=ways.listen,
        later=ways.later,
        drop=ways.drop,
        token=token,
        looping=looping,
    )
    status = StatusFile(
        state.with_suffix(ENDING), consortium, identity.name, file=file, out=out
    )
    listeners = (status,) if on_event is None else (status, on_event)
    telling = Telling(consortium.run, identity.name, *listeners)
    driver.watch, driver.record = telling.watch, telling.note
    if transcript is not None:
        driver.tapped = True
        driver.earlier = earlier_transcript(transcript, identity, run=consortium.run)

    def confirm(task: Assignment) -> None:
        page = _page(driver, part, own, task, transcript)
        answer = consent(page)
        # Not what is merely true, as a coroutine is that nobody awaits.
        if answer is not True:
            told = answer if answer is False else f"a {type(answer).__name__}"
            why = f"nobody agreed, nothing was sent: expected True, found {told}"
            raise ConsentError(why, page)
        text = "" if out is None else str(page.write(out)[0])
        telling.tell("agreed", file=text)

    driver.confirm = confirm
    with own_ledger(
        ledger or identity.key_file.with_name(f"{identity.name}.ledger"), consortium
    ) as kept:
        # Of a survey no ledger is charged, and none can be missed.
        driver.ledger = kept if part.checks == TABLE_AND_LEDGER else None
        try:
            with _warned(consortium, kept):
                result = part.run(driver, kept)
        except GivenUpError as error:
            error.evidence = tuple(evidence_of(driver))
            raise
        except BaseException as error:
            if telling.begun and driver.ending is None:
                awaited = error.names if isinstance(error, WaitingError) else ()
                telling.tell("stopped", names=awaited)
            raise
        finally:
            _wind_up(driver, telling, transcript, out)
    return _joined(driver, result, telling, out)


class Halting:
    """Runs a coroutine in an event loop of this thread; another thread may end it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._halted = False
        self._cancel: Callable[[], object] | None = None

    def run(self, work: Coroutine[Any, Any, Ending]) -> Ending:
        """Run it to its end.

        Raises:
            CancelledError: it was halted, perhaps before it began.
        """
        return asyncio.run(self._until_halted(work))

    async def _until_halted(self, work: Coroutine[Any, Any, Ending]) -> Ending:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        with self._lock:
            self._cancel = partial(loop.call_soon_threadsafe, task.cancel)
            if self._halted:
                task.cancel()
        try:
            return await task
        finally:
            with self._lock:
                self._cancel = None  # the loop is about to be closed

    def halt(self) -> bool:
        """End it, now or when it begins; say whether it had begun."""
        with self._lock:
            self._halted = True
            if self._cancel is None:
                return False
            self._cancel()
            return True


@contextmanager
def _warned(consortium: Consortium, ledger: Ledger) -> Iterator[None]:
    """Add to a refusal which files differ from this one in bounds only."""
    try:
        yield
    except ConsentError:
        raise  # the page says so
    except InvalidInputError as error:
        for line in asked_before(consortium, ledger):
            error.add_note(line)
        raise


def _wind_up(
    driver: Networked, telling: Telling, transcript: Path | None, out: Path | None
) -> None:
    """Write down what there is to keep by now, however it ended."""
    for found in evidence_of(driver):
        path = ""
        if out is not None:
            files = {f"evidence-{found.party}.json": found.to_json().encode()}
            path = str(write_files(out, files, private=True)[0])
        telling.tell("evidence", names=(found.party,), file=path)
    if transcript is not None and driver.tap is not None:
        kept, run = driver.tap.transcript(), driver.consortium.run
        write_transcript(transcript, kept, driver.identity, run=run)
        cut = "" if kept.whole else "cut"
        telling.tell("transcript", file=str(transcript), reason=cut)
    abort = None if driver.ending is None else driver.ending.abort
    if abort is not None:
        # The one word that the others are told.
        refused = abort.reason in Quit.refusals
        word = "refused" if refused else abort.reason
        telling.tell("done", phase=ABORTED, reason=word)


def _joined(
    driver: Networked, result: JobResult, telling: Telling, out: Path | None
) -> Joined:
    assert driver.ending is not None
    finish = driver.ending.finish
    assert finish is not None
    found = Joined(
        result=result,
        receipt=receipt_of(driver, result),
        evidence=tuple(evidence_of(driver)),
        seal=finish.seal,
        signed_by=tuple(name for name in finish.parties if name in finish.signatures),
        was_over=driver.was_over,
    )
    if out is not None:
        files = {
            "result.json": as_json(found.to_dict()).encode(),
            "receipt.json": found.receipt.to_json().encode(),
        }
        write_files(out, files)
        if driver.ending.sums:
            write_files(out, {SUMS: sums_file(driver.ending.sums)}, private=True)
    reason = "was over" if driver.was_over else ""
    telling.tell("done", phase=FINISHED, reason=reason)
    return found


def state_file(identity: Identity, run: str) -> Path:
    """Return where a run's own file is if nobody says otherwise: beside the key."""
    return identity.key_file.with_name(f"{identity.name}-{run[-8:]}.run")


def _check_out(folder: Path, agreed: Consortium, identity: Identity) -> None:
    """Refuse a folder with another run's page or receipt: it would be overwritten."""
    path = folder / PAGE
    if path.exists():
        text = contents(path, MOST_BYTES, OutputError)
        try:
            run = json.loads(text)["shared"]["run"]
        except (ValueError, KeyError, TypeError):
            raise OutputError(f"{path} is no page of ours; {ANOTHER_OUT}") from None
        if run != agreed.run:
            raise OutputError(
                f"{path} is what was agreed to for the run {run}, and this is the run "
                f"{agreed.run}; {ANOTHER_OUT}"
            )
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


def own_ledger(
    given: Ledger | Path, agreed: Consortium
) -> AbstractContextManager[Ledger]:
    """Open this party's ledger; a new one keeps to what was agreed here first."""
    if isinstance(given, Ledger):
        return nullcontext(given)  # whoever has opened it closes it
    if given.exists():
        return open_ledger(given)
    policy, fraction = agreed.rules.policy, agreed.rules.rules.release_fraction
    budget = Budget(
        release_fraction=fraction if isfinite(fraction) else None,
        minimum_honest=policy.minimum_honest,
        tolerate=policy.tolerate,
    )
    return open_ledger(given, create=budget)


def _page(
    driver: Networked,
    part: OwnPart,
    own: OwnRules,
    task: Assignment,
    transcript: Path | None,
) -> Consent:
    """Return what its owner agrees to: all of it was checked by now."""
    agreed = driver.consortium
    shared = consent_to(agreed)
    yours = about_you(
        part,
        passed(part, driver.ledger, task),
        own=own,
        ledger=driver.ledger,
        most=shared.facts["numbers"][1],
    )
    here = tuple(_place(driver, task))
    if transcript is not None:
        here = (*here, TRANSCRIPT.format(transcript.name))
    return replace(shared, own=(Part("YOUR PLACE", here), *yours))


def _place(driver: Networked, task: Assignment) -> Iterator[str]:
    agreed, name, plan = driver.consortium, driver.party, task.plan
    near = agreed.topology.neighbours(name)
    numbers = f"{plan.size} numbers"
    written = (
        ", and the file says that you wrote it" if name == agreed.organiser else ""
    )
    yield f"you are {name}{written}; neighbours: {', '.join(near)}"
    yield (
        f"for each sum you send {len(near)} shares of {numbers} under {plan.law.name} "
        f"masks and one masked vector of {numbers}"
    )
    yield from ways_of(agreed, name, driver.drop)


def ways_of(agreed: Consortium, name: str, drop: DropFolder | None) -> Iterator[str]:
    """Say how a party's computer meets its neighbours, and who sees what of that."""
    if drop is not None:
        yield (
            "your computer makes no connection; letters are files in "
            f"{drop.path}, sealed to whom they are for. Who carries them sees "
            "from whom to whom they go, their numbers, sizes and times"
        )
        return
    me, near = agreed.member(name), agreed.topology.neighbours(name)
    alone = agreed.only_relayed(name)
    dialled = [
        other for other in near if agreed.dials(name, other) and other not in alone
    ]
    calls = ", ".join(f"{other} at {agreed.member(other).address}" for other in dialled)
    here = "does not listen" if me.address is None else f"listens for {me.address}"
    yield f"your computer {here}; dials {calls or 'nobody'}"
    if agreed.relays is not None:
        places = ", ".join(map(str, agreed.relays.places))
        whom = f"with {', '.join(alone)}, and " if alone else ""
        yield (
            f"{whom}where a call does not get through, you meet at the relay {places}: "
            "your computer shows it the token of relay.token (or VEILSUM_RELAY_TOKEN); "
            "it learns your network address, when and how much you send, and no name "
            "or number"
        )
