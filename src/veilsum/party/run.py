"""Taking part in a run: prepared first, then carried out.

`prepare_party_run` reads, checks and resolves everything that the consortium file and
the party's own files determine, and sends nothing. `PreparedRun.run` shows the page,
and takes part once somebody has agreed. The command, Python, a party that stays up and
a study all go this way.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

from veilsum import __version__
from veilsum.consortium.addresses import Address
from veilsum.consortium.consortium import Consortium
from veilsum.drivers.driver import DriverAssignment, GivenUpError
from veilsum.errors import InvalidInputError, OutputError, WaitingError
from veilsum.files.consortiums import read_agreement, write_consortium
from veilsum.files.ledger import Ledger, open_ledger
from veilsum.files.output import as_strict_json, prepare_output_folder, write_files
from veilsum.files.safe_read import read_file_contents
from veilsum.locale import phrase
from veilsum.net.drop import DropFolder
from veilsum.net.evidence import Evidence
from veilsum.net.identity import Identity
from veilsum.net.receipt import (
    Receipt,
    keyed_receipt_digest,
    make_receipt,
    read_receipt,
    receipt_sums_digest,
)
from veilsum.net.relay_tokens import own_token
from veilsum.net.runner import RunnerEnding
from veilsum.numbers.secrets import Secret
from veilsum.party.checks import (
    checks_passed_at_home,
    consent_parts_for_party,
    files_asked_before,
)
from veilsum.party.consent import PAGE, Consent, consent_to
from veilsum.party.cuts import ChosenCut
from veilsum.party.inputs import (
    TABLE_AND_LEDGER,
    OwnPart,
    PartyTableInput,
    party_contribution,
)
from veilsum.party.networked import EndedRun, Looping, NetworkedParty
from veilsum.party.own_rules import OwnRules, own_rules_in
from veilsum.party.replay import (
    SUMS,
    UNSOUND,
    replay_released_sums,
    replay_sums_file,
)
from veilsum.party.run_status import ENDING, EventFeed, Listener, RunStatus, StatusFile
from veilsum.party.short_page import ConsentPart, Standing
from veilsum.party.transcript_file import earlier_transcript, write_transcript
from veilsum.privacy.accountant import Budget
from veilsum.privacy.transcript import Transcript
from veilsum.protocol.messages import Quit
from veilsum.protocol.phases import ABORTED, FINISHED
from veilsum.showing import Renderable, Rendering
from veilsum.sums.running import SumJobResult

_say = partial(phrase, "consent")
# Shown the page; returns True, and nothing else that is true, to take part.
Consenting: TypeAlias = Callable[[Consent], object]

# More than the longest page.
MOST_BYTES = 1 << 26
ANOTHER_OUT = (
    "it is left as it is, and nothing was sent: give another folder with --out"
)


class ConsentError(InvalidInputError):
    """Nobody has agreed to what a run asks of this party; nothing was sent.

    Attributes:
        page: what there is to agree to.
    """

    def __init__(self, why: str, page: Consent, *, code: str = "") -> None:
        super().__init__(f"{page.text()}\n{why}", plain=why, code=code)
        self.page = page


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Joined(Renderable):
    """Outcome of a run for a party that got an answer.

    Attributes:
        result: the result, the same for all members.
        receipt: this party's signed receipt; nothing in it is private.
        evidence: evidence of other parties' contradictions.
        seal: secret of the members, which opens the result's digest in receipts.
        signed_by: parties that have signed the answer.
        was_over: whether the run had ended before this call.
        cut: the party's own data cut that was used; for its owner only, and never
            written to a file or receipt.
    """

    result: SumJobResult
    receipt: Receipt
    evidence: tuple[Evidence, ...]
    seal: bytes
    signed_by: tuple[str, ...]
    was_over: bool
    cut: ChosenCut | None = None

    def showing(self) -> Rendering:
        """Return the result, and who has signed it; the seal stays here."""
        signed = f"Signed by {', '.join(self.signed_by) or 'nobody yet'}."
        lines = () if self.cut is None else self.cut.lines
        return self.result.showing().also(signed, *lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as result.json has it."""
        return {**self.result.to_dict(), "seal": self.seal.hex()}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PartyInputs(Secret):
    """A party's own side of a run, or of a study.

    Attributes:
        data: the party's table, for a question about tables: a file or a frame; for a
            survey its folder.
        cost: its cost, for a question about costs: a file, or its entries.
        how: how a table's file is written, as `agreed_table` takes it; and `new_data`,
            whether the data are about other people than all that the ledger knows, `id`
            and `cut`, as `party_contribution` takes them.
        alone: whether no person is asked: the usual rules are floors then.
        rules: the party's own; by default veilsum.toml beside its key, if it is there.
        ledger: its ledger, or its file; by default beside its key, created if needed.
        state: the run's own file; by default beside the key.
        listen: where to listen, if others dial another address.
        drop: the folder through which all meet, if they do without connections.
        relay_token: file with the token of the consortium's relays; by default
            relay.token beside the key, or the environment's.
        transcript: file for all numbers that are stored, sent and received; of a study
            a folder with a file for each question. Without it no transcript is kept.
        out: folder for the page, the result, the receipt, and evidence; without it
            nothing is written. A study writes always, by default beside the key.
        without: names of a study's questions to skip.
        again: whether a study also returns the answers of questions that were over.
    """

    data: Any = None
    cost: Path | Mapping[str, Any] | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False
    rules: OwnRules | None = None
    ledger: Ledger | Path | None = None
    state: Path | None = None
    listen: Address | None = None
    drop: DropFolder | None = None
    relay_token: Path | None = None
    transcript: Path | None = None
    file: Path | None = None
    out: Path | None = None
    without: tuple[str, ...] = ()
    again: bool = False

    def rules_of(self, identity: Identity) -> OwnRules:
        beside = identity.key_file.parent
        return own_rules_in(beside) if self.rules is None else self.rules

    def open_ledger(
        self, identity: Identity, agreed: Consortium
    ) -> AbstractContextManager[Ledger]:
        default = identity.key_file.with_name(f"{identity.name}.ledger")
        return own_party_ledger(self.ledger or default, agreed)


def prepare_party_run(
    consortium: Consortium,
    identity: Identity,
    inputs: PartyInputs,
    *,
    page: Consent | None = None,
    later: frozenset[str] = frozenset(),
) -> PreparedRun:
    """Read, check and resolve all that a run needs; send nothing.

    Args:
        consortium: the agreed terms.
        identity: of the party.
        inputs: the party's own side.
        page: the shared half of the page, where it is known; by default made here.
        later: runs of later questions of the same study; see `NetworkedParty`.

    Raises:
        InvalidInputError: this party cannot take part with these inputs.
    """
    if inputs.out is not None:
        _check_party_out_folder(prepare_output_folder(inputs.out), consortium, identity)
    own = inputs.rules_of(identity)
    own.check(consortium, alone=inputs.alone)
    part = party_contribution(
        consortium, data=inputs.data, cost=inputs.cost, **inputs.how
    )
    token, earlier = None, None
    if consortium.relays is not None and inputs.drop is None:
        beside = identity.key_file.parent
        token = own_token(consortium.relays, inputs.relay_token, beside)
    driver = NetworkedParty(
        identity=identity,
        consortium=consortium,
        state=inputs.state or run_state_file(identity, consortium.run),
        listen=inputs.listen,
        later=later,
        drop=inputs.drop,
        token=token,
    )
    if inputs.transcript is not None:
        earlier = earlier_transcript(inputs.transcript, identity, run=consortium.run)
    return PreparedRun(
        driver=replace(driver, earlier=earlier),
        part=part,
        own=own,
        page=consent_to(consortium) if page is None else page,
        inputs=inputs,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PreparedRun(Secret):
    """A run that a party is ready for; nothing was sent yet.

    Attributes:
        driver: meets the others.
        part: the party's table, cost or folder.
        page: the half of the page that all members have alike.
        inputs: everything else that the party chose.
    """

    driver: NetworkedParty
    part: OwnPart
    own: OwnRules
    page: Consent
    inputs: PartyInputs

    def run(
        self,
        consent: Consenting,
        *,
        on_event: Listener | None = None,
        looping: Looping = asyncio.run,
    ) -> Joined:
        """Take part in the run to its end, or continue it after an interruption.

        Args:
            consent: called with the page before anything is sent; False, or anything
                it raises, stays away. A run that has begun was agreed to: then it is
                not called again.
            on_event: called with every event.
            looping: runs the network's coroutine to its end.

        Raises:
            ConsentError: nobody has agreed; nothing was sent.
            InvalidInputError: this party cannot take part with its inputs.
            GivenUpError: the parties did not come to an answer; its `evidence` is what
                this party can show of others that contradicted themselves.
        """
        driver, inputs, out = self.driver, self.inputs, self.inputs.out
        agreed, identity = driver.consortium, driver.identity
        if isinstance(self.part, PartyTableInput) and self.part.chosen is None:
            with inputs.open_ledger(identity, agreed) as ledger:
                part = self.part.on_cut(ledger, identity.name)
                inputs = replace(inputs, ledger=ledger)
                ready = replace(self, part=part, inputs=inputs)
                return ready.run(consent, on_event=on_event, looping=looping)
        status = RunStatus(
            run=agreed.run,
            party=identity.name,
            consortium=agreed.digest.hex(),
            state="running",
            file="" if inputs.file is None else str(inputs.file.absolute()),
            out="" if out is None else str(out.absolute()),
        )
        path, policy = driver.state.with_suffix(ENDING), agreed.rules.policy
        writer = StatusFile(path, status, policy)
        listeners = (writer,) if on_event is None else (writer, on_event)
        feed = EventFeed(agreed.run, identity.name, *listeners)

        def confirm(task: DriverAssignment) -> None:
            page = self._page(task, charged)
            answer = consent(page)
            # Not what is merely true, as a coroutine is that nobody awaits.
            if answer is not True:
                told = answer if answer is False else f"a {type(answer).__name__}"
                why = f"nobody agreed, nothing was sent: expected True, found {told}"
                raise ConsentError(why, page, code="consent-declined")
            text = "" if out is None else str(page.write(out)[0])
            feed.tell("agreed", file=text)

        def keep(transcript: Transcript) -> None:
            path = inputs.transcript
            assert path is not None
            write_transcript(path, transcript, identity, run=agreed.run)
            cut = "" if transcript.whole else "cut"
            feed.tell("transcript", file=str(path), reason=cut)

        with inputs.open_ledger(identity, agreed) as ledger:
            # Of a survey no ledger is charged, and none can be missed.
            charged = ledger if self.part.checks == TABLE_AND_LEDGER else None
            driver = replace(
                driver,
                confirm=confirm,
                watch=feed.watch,
                record=feed.note,
                looping=looping,
                keep=None if inputs.transcript is None else keep,
                ledger=charged,
            )
            try:
                with _warn_party_of_similar_files(agreed, ledger):
                    result = self.part.run(driver, ledger)
            except WaitingError as error:
                _tell_party_run_failure(error, feed, out)
                raise error.with_known(
                    answers=_unsigned_answer(agreed, error)
                ) from None
            except BaseException as error:
                _tell_party_run_failure(error, feed, out)
                raise
        found = conclude_party_run(driver, result, self.page, feed, out)
        return replace(found, cut=getattr(self.part, "chosen", None))

    def _page(self, task: DriverAssignment, ledger: Ledger | None) -> Consent:
        """Return what its owner agrees to: all of it was checked by now."""
        agreed, name, plan = self.driver.consortium, self.driver.party, task.plan
        near = agreed.topology.neighbours(name)
        key = "place.organiser" if name == agreed.organiser else "place.you"
        place = [
            _say(key, name=name, near=", ".join(near)),
            _say("place.shares", near=len(near), numbers=plan.size, law=plan.law.name),
            *connection_consent_lines(agreed, name, self.driver.drop),
        ]
        if self.inputs.transcript is not None:
            place.append(_say("place.transcript", file=self.inputs.transcript.name))
        yours = consent_parts_for_party(
            self.part,
            checks_passed_at_home(self.part, ledger, task),
            own=self.own,
            ledger=ledger,
            most=self.page.facts["numbers"][1],
        )
        own = ConsentPart("your_place", tuple(place)), *yours
        return replace(self.page, own=own, standing=Standing(looked=True))


class PartyRunHalting:
    """Runs a coroutine in an event loop of this thread; another thread may end it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._halted = False
        self._cancel: Callable[[], object] | None = None

    def run(self, work: Coroutine[Any, Any, RunnerEnding]) -> RunnerEnding:
        """Run it to its end.

        Raises:
            CancelledError: it was halted, perhaps before it began.
        """
        return asyncio.run(self._until_halted(work))

    async def _until_halted(
        self, work: Coroutine[Any, Any, RunnerEnding]
    ) -> RunnerEnding:
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
def _warn_party_of_similar_files(
    consortium: Consortium, ledger: Ledger
) -> Iterator[None]:
    """Add to a refusal which files differ from this one in bounds only."""
    try:
        yield
    except ConsentError:
        raise  # the page says so
    except InvalidInputError as error:
        for line in files_asked_before(consortium, ledger):
            error.add_note(line)
        raise


def _unsigned_answer(agreed: Consortium, waiting: WaitingError) -> dict[str, Any]:
    """Return the result if no further sum is needed."""
    if waiting.sums:
        with suppress(*UNSOUND):  # another sum is asked for
            sums, members = waiting.sums, waiting.members
            return {"": replay_released_sums(agreed, sums=sums, members=members)}
    return {}


def _tell_party_run_failure(
    error: BaseException, feed: EventFeed, out: Path | None
) -> None:
    """Write down and report how a run ended without an answer, or stopped."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, GivenUpError):
        cause = cause.__cause__
    if cause is None or cause.end is None:
        if feed.begun and cause is None:
            awaited = error.names if isinstance(error, WaitingError) else ()
            feed.tell("stopped", names=awaited)
        return
    _write_party_evidence(cause.end, feed, out)
    # The one word that the others are told.
    reason = cause.end.ending.abort.reason
    word = "refused" if reason in Quit.refusals else reason
    feed.tell("done", phase=ABORTED, reason=word)


def _write_party_evidence(end: EndedRun, feed: EventFeed, out: Path | None) -> None:
    for found in end.evidence:
        path = ""
        if out is not None:
            files = {f"evidence-{found.party}.json": found.to_json().encode()}
            path = str(write_files(out, files, private=True)[0])
        feed.tell("evidence", names=(found.party,), file=path)


def conclude_party_run(
    driver: NetworkedParty,
    result: SumJobResult,
    page: Consent,
    feed: EventFeed,
    out: Path | None,
) -> Joined:
    """Sign a receipt of a run that has an answer, and write everything down."""
    end: EndedRun = result.released.end
    _write_party_evidence(end, feed, out)
    finish = end.ending.finish
    assert finish is not None
    found = Joined(
        result=result,
        receipt=receipt_of_party_run(driver, result, page),
        evidence=end.evidence,
        seal=finish.seal,
        signed_by=tuple(name for name in finish.parties if name in finish.signatures),
        was_over=end.was_over,
    )
    if out is not None:
        files = {
            "result.json": as_strict_json(found.to_dict()).encode(),
            "receipt.json": found.receipt.to_json().encode(),
        }
        write_files(out, files)
        if end.ending.sums:
            write_files(out, {SUMS: replay_sums_file(end.ending.sums)}, private=True)
    feed.tell("done", phase=FINISHED, reason="was over" if end.was_over else "")
    return found


def receipt_of_party_run(
    driver: NetworkedParty, result: SumJobResult, page: Consent
) -> Receipt:
    """Return this party's signed receipt of a run that has an answer."""
    end: EndedRun = result.released.end
    ending, plan, finish = end.ending, end.plan, end.ending.finish
    assert finish is not None
    near = plan.topology.neighbours(driver.party)
    shown = [one.digest for one in end.evidence]
    sums = receipt_sums_digest(ending.sums, finish.seal) if ending.sums else ""
    return make_receipt(
        driver.identity,
        run=driver.consortium.run,
        plan=plan.digest.hex(),
        consortium=driver.consortium.digest.hex(),
        consent=page.digest,
        parties=list(finish.parties),
        lost=list(ending.lost),
        epochs=list(ending.epochs),
        confirmed=[name for name in near if name in finish.parties],
        result=keyed_receipt_digest(finish.result, finish.seal),
        released=result.shown,
        guarantee=result.guarantee.to_dict(),
        started=ending.notes["began"],
        finished=ending.notes["ended"],
        version=__version__,
        **({"evidence": shown} if shown else {}),
        **({"sums": sums} if sums else {}),
    )


def run_state_file(identity: Identity, run: str) -> Path:
    """Return where a run's own file is if nobody says otherwise: beside the key."""
    return identity.key_file.with_name(f"{identity.name}-{run[-8:]}.run")


def _check_party_out_folder(
    folder: Path, agreed: Consortium, identity: Identity
) -> None:
    """Refuse a folder with another run's page or receipt: it would be overwritten."""
    path = folder / PAGE
    if path.exists():
        text = read_file_contents(path, MOST_BYTES, OutputError)
        try:
            run = json.loads(text)["shared"]["run"]
        except (ValueError, KeyError, TypeError):
            raise OutputError(
                f"{path} is no page of ours; {ANOTHER_OUT}", code="not-our-page"
            ) from None
        if run != agreed.run:
            raise OutputError(
                f"{path} is what was agreed to for the run {run}, and this is the run "
                f"{agreed.run}; {ANOTHER_OUT}",
                code="page-of-other-run",
            )
    path = folder / "receipt.json"
    if not path.exists():
        return
    try:
        found = read_receipt(path)
    except InvalidInputError as error:
        raise OutputError(f"{error}; {ANOTHER_OUT}", code=error.code) from None
    if (found.run, found.party) != (agreed.run, identity.name):
        raise OutputError(
            f"{path} is the receipt of {found.party} for the run {found.run}, and this "
            f"is the run {agreed.run} of {identity.name}; {ANOTHER_OUT}",
            code="receipt-of-other-run",
        )


def own_party_ledger(
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


def keep_consortium_file(folder: Path, agreed: Consortium) -> Path:
    """Keep a copy of the consortium file beside the result, which needs it."""
    file = prepare_output_folder(folder) / "consortium.toml"
    if file.exists() and read_agreement(file).digest != agreed.digest:
        file.unlink()  # of another file under this run's name
    if not file.exists():
        write_consortium(file, agreed)
    return file


def connection_consent_lines(
    agreed: Consortium, name: str, drop: DropFolder | None
) -> Iterator[str]:
    """Say how a party's computer meets its neighbours, and who sees what of that."""
    if drop is not None:
        yield _say("place.letters", folder=drop.path)
        return
    me, near = agreed.member(name), agreed.topology.neighbours(name)
    alone = agreed.only_relayed(name)
    dialled = [
        other for other in near if agreed.dials(name, other) and other not in alone
    ]
    calls = ", ".join(
        _say("place.call", name=other, address=agreed.member(other).address)
        for other in dialled
    )
    key = "place.silent" if me.address is None else "place.listens"
    yield _say(key, address=me.address, calls=calls or _say("place.no_call"))
    if agreed.relays is not None:
        places = ", ".join(map(str, agreed.relays.places))
        key = "place.relay_only" if alone else "place.relay"
        yield _say(key, names=", ".join(alone), places=places)
