"""A party that stays up: it watches a folder, and takes part in what it may.

A consortium file that names this party is joined if the party's own rules allow it in
so many words; else it waits for a person to read its page and agree. What the rules
refuse nobody can agree to. Of a study they have to allow every question; a person may
agree to it if they allow one. Every run, and every study, has a thread; whatever
happens to the process, the same command goes on with all of them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from veilsum.consortium.addresses import Address
from veilsum.consortium.consortium import Consortium
from veilsum.consortium.study import AgreedStudy, runs_of_agreement
from veilsum.drivers.driver import GivenUpError
from veilsum.errors import (
    BudgetError,
    InvalidInputError,
    RangeError,
    VeilsumError,
    printable,
)
from veilsum.files.consortiums import read_agreement
from veilsum.files.output import prepare_output_folder, write_files
from veilsum.files.permissions import why_file_is_open_to_others
from veilsum.files.safe_read import read_file_contents
from veilsum.net.amendment import Agreement, check_amendment
from veilsum.net.identity import Identity
from veilsum.net.metrics import Metric
from veilsum.numbers.arrays import listed_names
from veilsum.numbers.secrets import Secret
from veilsum.party.checks import ASKED_BEFORE
from veilsum.party.consent import Consent
from veilsum.party.own_rules import FILE_NAME, OwnRules, own_rules_in
from veilsum.party.run import (
    ConsentError,
    PartyInputs,
    PartyRunHalting,
    keep_consortium_file,
)
from veilsum.party.run_status import (
    BEGUN,
    OVER,
    STATES,
    RunEvent,
    RunStatus,
    State,
    StatusFile,
    read_run_status,
    run_status_file,
    run_status_seconds,
    run_status_time,
    write_run_status,
)
from veilsum.party.study_page import study_consent_page
from veilsum.party.studying import JoinedStudy, prepare_party
from veilsum.protocol.losing import withheld_words
from veilsum.sums.kinds import question_kind_of
from veilsum.surveys.terms import survey_terms
from veilsum.tables.columns import SchemaError
from veilsum.tables.rules import DisclosureError

LOG = logging.getLogger("veilsum.net.serving")

Files: TypeAlias = Sequence[tuple[Path, Agreement]]

ENDINGS = (".toml", ".veil")
# More files than anybody has; and more runs at once than a computer should have.
MOST_FILES, MOST_AT_ONCE = 1000, 16
# Seconds between two looks into the folder, and without one until all is not well.
LOOK_SECONDS, UNWELL_SECONDS = 2.0, 60.0
# What a person has agreed to, and said no to, by the digest of its page.
AGREED, DECLINED = "agreed", "declined"
BY_A_PERSON = "a person said no; veilsum serve FOLDER --agree FILE asks again"
MOST_BYTES = 1000
# By then something was sent, or all is over.
TOO_LATE: tuple[State, ...] = ("running", "stopped", "done")
NO_RULES = (
    f"there is no {FILE_NAME} beside the key, which would say what may be joined "
    "without a person"
)

# What a question is refused for at home. All else that cannot be used, such as a file
# that is not there, somebody mends.
REFUSALS = (BudgetError, DisclosureError, RangeError, SchemaError)

# Files that this program cannot deal with; no run has this name.
SET_ASIDE = "set-aside"
ANOTHER_FILE = "another file has this run's name"
SURVEY_IS_OPEN = (
    "this survey is open: it is joined when its host has closed it, and veilsum "
    "collect fetch has brought the closed file and its submissions"
)
SAME_WITHIN_OTHER_BOUNDS = (
    "files before this one asked the same of the same members within other bounds, and "
    "whoever sees which of them are joined learns how large this party's numbers are"
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PartyHousehold(Secret):
    """Local files and settings of a party, for all runs.

    Attributes:
        own: file of its own rules; by default veilsum.toml in the key's folder.
        how: format options of the table's file, and `new_data`, as for `take_part`.
        ledger: its ledger; by default in the key's folder.
        listen: address to listen at; by default the one that others dial.
        out: folder with a subfolder for every run; by default `served` in the key's
            folder.
    """

    identity: Identity
    own: Path | None = None
    data: Path | None = None
    cost: Path | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    ledger: Path | None = None
    listen: Address | None = None
    out: Path | None = None

    @property
    def rules(self) -> OwnRules:
        return own_rules_in(self.identity.key_file.parent, self.own)

    def data_for(self, agreed: Agreement) -> Path | None:
        """Return what is given for data: of a survey, the folder with its store.

        That is the one beside the key, where `veilsum collect delegate` makes it and
        `fetch` puts submissions, unless another folder is named.
        """
        if survey_section_of(agreed) is None:
            return self.data
        beside = self.identity.key_file.parent
        return self.data if self.data is not None and self.data.is_dir() else beside

    def lacks_of_survey(self, agreed: Agreement) -> str:
        """Say what a delegate waits for before it can add anything up; "" for nothing.

        All of it comes by itself, or a person brings it: nothing has failed.
        """
        # Here, not above: others do without what opens seals.
        from veilsum.party.own_survey import STORE, SUBMISSIONS

        survey, folder = survey_section_of(agreed), self.data_for(agreed)
        assert survey is not None
        assert folder is not None
        if survey.set is None:
            return SURVEY_IS_OPEN
        if not (folder / STORE).exists():
            return (
                f"{folder} has no {STORE}, with the key that was made for this survey: "
                "name its folder with --data"
            )
        if not (folder / SUBMISSIONS).exists():
            return f"{folder} has no {SUBMISSIONS} yet: veilsum collect fetch brings it"
        return ""

    def folder(self, run: str) -> Path:
        """Return where a run's files go, and what a person has agreed to."""
        beside = self.identity.key_file.parent / "served"
        return (self.out or beside) / run

    def status(self, run: str) -> Path:
        return run_status_file(self.identity.key_file, self.identity.name, run)

    def agree(self, agreed: Agreement) -> None:
        """Write down that a person has agreed to the page of a file."""
        self._note(AGREED, agreed)
        self._answer(DECLINED, agreed.run).unlink(missing_ok=True)

    def decline(self, agreed: Agreement, file: Path, *, now: float) -> None:
        """Write down that a person says no to the page of a file.

        Raises:
            InvalidInputError: it is too late for that.
        """
        path = self.status(agreed.run)
        if path.exists() and (known := read_run_status(path)).state in TOO_LATE:
            raise InvalidInputError(
                f"the run {agreed.run} has begun, it is {known.state}: whoever agreed "
                "to it has sent something by now; to leave it, stop veilsum serve and "
                "take its file out of the folder",
                code="run-already-begun",
            )
        self._note(DECLINED, agreed)
        self.agreed(agreed.run).unlink(missing_ok=True)
        at = run_status_time(now)
        about = {"moved": at, "seen": at, "reason": BY_A_PERSON}
        write_run_status(path, self.beginning(agreed, file, "refused", **about))

    def beginning(
        self, agreed: Agreement, file: Path, state: State, **about: Any
    ) -> RunStatus:
        """Return the status of a run that sends nothing yet."""
        return RunStatus(
            run=agreed.run,
            party=self.identity.name,
            consortium=agreed.digest.hex(),
            state=state,
            file=str(file),
            **about,
        )

    def _note(self, name: str, agreed: Agreement) -> None:
        """Keep a person's answer to a page."""
        folder = prepare_output_folder(self.folder(agreed.run))
        digest = study_consent_page(agreed).digest
        # Twice: with one bit changed, a person's refusal would be about another page.
        content = f"{digest}\n{digest}\n".encode()
        (path,) = write_files(folder, {name: content}, private=True)
        if (why := why_file_is_open_to_others(path, path.stat())) is not None:
            path.unlink()
            raise InvalidInputError(
                f"others could answer in your place: {why}", code="answers-exposed"
            )

    def _answer(self, name: str, run: str) -> Path:
        return self.folder(run) / name

    def agreed(self, run: str) -> Path:
        """Return where it stands what a person has agreed to."""
        return self._answer(AGREED, run)

    def has_agreed(self, run: str, digest: str) -> bool:
        """Say whether a person has agreed to this very page."""
        return self._is_noted(AGREED, run, digest)

    def has_declined(self, run: str, digest: str) -> bool:
        """Say whether a person has said no to this very page."""
        return self._is_noted(DECLINED, run, digest)

    def _is_noted(self, name: str, run: str, digest: str) -> bool:
        path = self._answer(name, run)
        # A file that another user may have written is nobody's word.
        if (
            not path.exists()
            or why_file_is_open_to_others(path, path.stat()) is not None
        ):
            return False
        content = read_file_contents(path, MOST_BYTES, InvalidInputError)
        first = content[: len(content) // 2]
        if content != first * 2:
            raise InvalidInputError(
                f"{path} is damaged (its two halves differ): remove it, and answer "
                "again with veilsum serve --agree or --refuse",
                code="answer-damaged",
            )
        return first.strip() == digest.encode()


@dataclass(eq=False, repr=False)
class _ServedPartyRun(Secret):
    """A run that goes on in a thread."""

    thread: threading.Thread
    halting: PartyRunHalting
    address: Address | None
    digest: bytes


class PartyServer(Secret):
    """Watches a folder for a party.

    Args:
        folder: where consortium files appear; whoever writes there may mean harm.
        home: what the party has.
        clock: the time.
    """

    def __init__(
        self,
        folder: Path,
        home: PartyHousehold,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self.home = folder, home
        self._clock, self._looked = clock, clock()
        self._read: dict[Path, tuple[object, Agreement | None]] = {}
        self._running: dict[str, _ServedPartyRun] = {}
        self._said: dict[str, object] = {}
        self._pages: dict[bytes, str] = {}
        # Files that nobody joins without a person, whatever the rules say.
        self._suspicious: set[bytes] = set()
        # What this computer could not do it does not try again, until it is restarted.
        self._failed: set[bytes] = set()

    # Looking

    def look(self) -> None:
        """Look at every file once, and begin what may begin."""
        self._clear_ended()
        try:
            rules, files = self.home.rules, sorted(self.folder.iterdir())
        except VeilsumError as error:
            # A rule that nobody understands would be a rule that nobody keeps.
            self._say("rules", "own rules cannot be read", reason=error.plain)
            return
        except OSError as error:
            why = error.strerror
            self._say("folder", "the folder cannot be looked at", reason=why)
            return
        named: dict[str, dict[bytes, tuple[Path, Agreement]]] = {}
        for path, one in self._consortiums(files):
            named.setdefault(one.run, {}).setdefault(one.digest, (path, one))
        for found in named.values():
            self._try([*found.values()], rules)
        self._looked = self._clock()

    def _clear_ended(self) -> None:
        """Forget runs that have ended, and free what they leave.

        Connections, tasks and their TLS contexts refer to each other in circles. Python
        counts objects, not the memory of OpenSSL behind them: by itself it would look
        for such circles hundreds of runs later.
        """
        going = {
            run: one for run, one in self._running.items() if one.thread.is_alive()
        }
        ended, self._running = len(going) < len(self._running), going
        if ended:
            gc.collect()

    def _try(self, files: Files, rules: OwnRules) -> None:
        """Consider a run; what is wrong with one is in the way of no other."""
        path, _ = files[0]
        try:
            meant = files if len(files) == 1 else self._meant(files, rules)
            path, agreed = meant[0]
            running = self._running.get(agreed.run)
            if running is None:
                self._consider(path, agreed, rules, others=meant[1:])
            elif running.digest != agreed.digest:
                running.halting.halt()  # a person has said that another is meant
        except (VeilsumError, OSError) as error:
            why = error.plain if isinstance(error, VeilsumError) else error.strerror
            self._say(str(path), "cannot be considered", file=path.name, reason=why)
        except Exception as error:
            self._set_aside(path, error)

    def _meant(self, files: Files, rules: OwnRules) -> Files:
        """Return which of several files with one run's name is meant.

        Whoever knows the name can write such a file: being the first of them counts for
        nothing. Several are returned if a person has to say.
        """
        good = [one for one in files if self._is_possible(*one, rules)]
        for path, agreed in good:
            if self.home.has_agreed(agreed.run, self._page(agreed)):
                return [(path, agreed)]
        if latest := self._latest_edition(good):
            return [latest]
        good = files_without_open_surveys(good)
        begun = [one for one in files if self._has_begun(one[1])]
        return begun[:1] or good or files[:1]

    def _latest_edition(self, files: Files) -> tuple[Path, Agreement] | None:
        """Return the last of several editions of one study, which has all others.

        So has one with other certificates, to which every member has agreed. One that
        goes on is first gone on with. Others than these are None.
        """
        studies = [(path, one) for path, one in files if isinstance(one, AgreedStudy)]
        if not studies or len(studies) < len(files):
            return None
        latest = max(
            studies, key=lambda one: (one[1].former != "", len(one[1].editions))
        )
        known = {one.digest for one in latest[1].editions} | {latest[1].former}
        if any(one.digest.hex() not in known for _, one in studies):
            return None
        for found in studies:
            status = self._known(found[1])
            over = status is not None and status.state in OVER
            if self._has_begun(found[1]) and not over:
                return found
        return latest

    def _is_possible(self, path: Path, agreed: Agreement, rules: OwnRules) -> bool:
        """Say whether a person could agree to a file."""
        try:
            check_amendment(path, agreed)
            declined = self.home.has_declined(agreed.run, self._page(agreed))
            return not declined and not refusals_of_every_question(rules, agreed)
        except Exception:  # considered alone, it is refused or set aside
            return False

    def _has_begun(self, agreed: Agreement) -> bool:
        running, known = self._running.get(agreed.run), self._known(agreed)
        if running is not None:
            return running.digest == agreed.digest
        return known is not None and known.state in BEGUN

    def _consortiums(self, files: Iterable[Path]) -> Iterator[tuple[Path, Agreement]]:
        """Yield the files that name this party; each is read once."""
        own = (self.home.cost, self.home.data)
        found = [one for one in files if one.suffix in ENDINGS and one not in own]
        for one in found[:MOST_FILES]:
            if not is_file_name_text(one.name):
                self._say(str(one), "a name that is no text", file=printable(one.name))
        found = [one for one in found if is_file_name_text(one.name)]
        if len(found) > MOST_FILES:
            self._say("folder", "too many files: some are not read", most=MOST_FILES)
        here = {path: self._reading(path) for path in found[:MOST_FILES]}
        self._read = {path: self._read[path] for path in here}
        yield from ((path, one) for path, one in here.items() if one is not None)

    def _reading(self, path: Path) -> Agreement | None:
        try:
            looks: object = (path.stat().st_mtime_ns, path.stat().st_size)
        except OSError:
            looks = None  # it is gone again
        if path in self._read and self._read[path][0] == looks:
            return self._read[path][1]
        found = None
        try:
            found = self._named(path)
        except OSError:
            pass  # it is gone again, or not to be read by this user
        except Exception as error:
            self._set_aside(path, error)
        self._read[path] = (looks, found)
        return found

    def _set_aside(self, path: Path, error: Exception) -> None:
        """Move a file out of the folder that this program cannot deal with.

        Nobody but the party writes to its new place: a link in the folder itself could
        lead anywhere. Where it cannot be moved, it stays and is read again only when it
        changes.
        """
        # What is no error of ours has words that may hold anything.
        reason = f"an error in this program: {type(error).__name__}"
        place = self.home.folder(SET_ASIDE)
        name = f"{run_status_time(self._clock()).replace(':', '')}-{path.name}"
        try:
            prepare_output_folder(place)
            path.rename(place / name)
            why = f"{reason}; send this file to the developers of veilsum\n"
            write_files(place, {f"{name}.reason": why.encode()}, private=True)
            where = f"the file is now {place / name}"
        except (VeilsumError, OSError) as failed:
            where = f"the file stays where it is: {failed}"
        self._say(str(path), "set aside", file=path.name, reason=f"{reason}; {where}")

    def _named(self, path: Path) -> Agreement | None:
        me = self.home.identity
        if path.name == FILE_NAME:
            return None
        try:
            found = read_agreement(path)
        except InvalidInputError as error:
            self._say(
                str(path), "no consortium file", file=path.name, reason=str(error)
            )
            return None
        if found.certificates.get(me.name) != me.certificate:
            self._say(str(path), "does not name this party", file=path.name)
            return None
        return found

    # Deciding

    def _consider(
        self, path: Path, agreed: Agreement, rules: OwnRules, *, others: Files = ()
    ) -> None:
        """Begin a run, or write down why not; others have its name and may be meant."""
        known, home = self._known(agreed), self.home
        over = known is not None and known.state in OVER
        if agreed.digest in self._failed or (
            over and not home.agreed(agreed.run).exists()
        ):
            return
        try:
            check_amendment(path, agreed)
        except InvalidInputError as error:
            # Its members have not all signed: they may yet.
            self._write(agreed, path, "pending", reason=error.plain)
            return
        try:
            if why := refusals_of_every_question(rules, agreed):
                raise InvalidInputError("; ".join(why), code="file-refused")
            page = self._page(agreed)
            by_person = home.has_agreed(agreed.run, page)
            if not by_person and home.has_declined(agreed.run, page):
                raise InvalidInputError(BY_A_PERSON, code="person-must-agree")
        except InvalidInputError as error:
            self._write(agreed, path, "refused", reason=error.plain)
            return
        if survey_section_of(agreed) and (lacking := home.lacks_of_survey(agreed)):
            self._write(agreed, path, "pending", reason=lacking)
            return
        why = refusals_to_join_unattended(rules, agreed)
        why = why if rules.source else (NO_RULES, *why)
        if agreed.digest in self._suspicious:
            why = (*why, SAME_WITHIN_OTHER_BOUNDS)
        if others:
            names = listed_names([json.dumps(one.name) for one, _ in others])
            why = (f"{ANOTHER_FILE}, {names}: a person says which is meant", *why)
        if by_person or not why:
            self._begin(path, agreed, rules, by_person=by_person)
        elif not over:
            self._write(agreed, path, "pending", reason="; ".join(why), page=page)

    def _page(self, agreed: Agreement) -> str:
        """Return the digest of a file's page, worked out once."""
        if agreed.digest not in self._pages:
            self._pages[agreed.digest] = study_consent_page(agreed).digest
        return self._pages[agreed.digest]

    def _known(self, agreed: Agreement) -> RunStatus | None:
        try:
            found = read_run_status(self.home.status(agreed.run))
        except InvalidInputError:
            return None
        # Another file under its name has a state of its own.
        return found if found.consortium == agreed.digest.hex() else None

    def _begin(
        self, path: Path, agreed: Agreement, rules: OwnRules, *, by_person: bool
    ) -> None:
        me = self.home.identity.name
        address = self.home.listen or runs_of_agreement(agreed)[0].member(me).address
        taken = {one.address for one in self._running.values()} - {None}
        if address in taken or len(self._running) >= MOST_AT_ONCE:
            known = self._known(agreed)
            if known is None or known.state == "pending":
                self._write(agreed, path, "queued")
            return
        halting = PartyRunHalting()
        work = partial(self._run, path, agreed, rules, halting, by_person=by_person)
        thread = threading.Thread(target=work, name=f"veilsum-{agreed.run[-8:]}")
        self._running[agreed.run] = _ServedPartyRun(
            thread, halting, address, agreed.digest
        )
        thread.start()

    # Taking part

    def _run(
        self,
        path: Path,
        agreed: Agreement,
        rules: OwnRules,
        halting: PartyRunHalting,
        *,
        by_person: bool,
    ) -> None:
        home, write = self.home, partial(self._write, agreed, path)
        told: list[str] = []

        def listen(event: RunEvent) -> None:
            told.append(event.what)
            log_run_event(event)
            if event.question and event.what != "done":  # one question is not all
                keep(event)

        def consent(page: Consent) -> bool:
            if by_person:
                return home.has_agreed(agreed.run, page.digest)
            if home.has_declined(agreed.run, page.digest):
                return False
            # The rules have said so. But nobody here would read the page's warning.
            if any(part.key == ASKED_BEFORE for part in page.own):
                self._suspicious.add(agreed.digest)
            return agreed.digest not in self._suspicious

        write("queued")
        # For a study: a run keeps its own.
        folder, policy = (
            home.folder(agreed.run),
            runs_of_agreement(agreed)[0].rules.policy,
        )
        begun = home.beginning(agreed, path, "running", out=str(folder.absolute()))
        keep = StatusFile(home.status(agreed.run), begun, policy)
        inputs = PartyInputs(
            data=home.data_for(agreed),
            cost=None if survey_section_of(agreed) else home.cost,
            how=home.how,
            alone=not by_person,
            rules=rules,
            ledger=home.ledger,
            listen=home.listen,
            file=path,
            out=folder,
        )
        try:
            if isinstance(agreed, Consortium):
                keep_consortium_file(folder, agreed)
            prepared = prepare_party(agreed, home.identity, inputs)
            found = prepared.run(consent, on_event=listen, looping=halting.run)
            if isinstance(found, JoinedStudy):
                status = found.status
                many = sum(one.stage == "finished" for one in status.stages.values())
                more = f"veilsum study status {folder} says more"
                told_of = f"{many} of {len(status.stages)} questions have a result"
                write(
                    "done" if many else "given up",
                    reason="" if status.good else f"{told_of}; {more}",
                )
        except asyncio.CancelledError:
            return  # its status says that it was stopped
        except ConsentError as error:
            # A page that nobody has read: the next look says what it waits for.
            write("pending", reason=SAME_WITHIN_OTHER_BOUNDS, page=error.page.digest)
            return
        except GivenUpError as error:
            write("given up", reason=error.plain)
        except Exception as error:
            refused = isinstance(error, REFUSALS) and not told
            # What is no error of ours has words that may hold anything.
            why = f"an error in this program: {type(error).__name__}"
            if isinstance(error, VeilsumError):
                why = error.plain
            write("refused" if refused else "failed", reason=why)
            if not refused:
                self._failed.add(agreed.digest)
                return
        # Whoever is asked anew has something new to read.
        home.agreed(agreed.run).unlink(missing_ok=True)

    def _write(
        self,
        agreed: Agreement,
        path: Path,
        state: State,
        *,
        reason: str = "",
        page: str = "",
    ) -> None:
        """Keep where a run stands, and log it if that is news."""
        now = run_status_time(self._clock())
        status = self.home.beginning(
            agreed,
            path,
            state,
            moved=now,
            seen=now,
            reason=reason,
            page=page,
            out=str(self.home.folder(agreed.run).absolute()),
        )
        known = self._known(agreed)
        if known is not None and known.state == state and known.reason == reason:
            return
        if known is not None and state in ("given up", "failed"):
            status = msgspec.structs.replace(
                status,
                phase=known.phase,
                epoch=known.epoch,
                round=known.round,
                sent=known.sent,
            )
        write_run_status(self.home.status(agreed.run), status)
        about = {"run": agreed.run[-8:], "file": path.name, "reason": reason}
        LOG.info(state, extra={k: v for k, v in about.items() if v})

    def _say(self, about: str, what: str, **extra: Any) -> None:
        """Log something once, until it is another thing."""
        if self._said.get(about) != (what, extra):
            self._said[about] = (what, extra)
            LOG.warning(what, extra=extra)

    # For whoever looks after it

    @property
    def busy(self) -> bool:
        return any(one.thread.is_alive() for one in self._running.values())

    def stop(self) -> None:
        """Stop all runs; the same command goes on with them."""
        for one in self._running.values():
            one.halting.halt()
        for one in self._running.values():
            one.thread.join()

    def healthy(self) -> bool:
        """Say whether the folder is still looked at."""
        return self._clock() - self._looked < UNWELL_SECONDS

    def statuses(self) -> list[RunStatus]:
        """Return how far this party's runs are, as far as their files are here."""
        here = tuple(self._read.values())  # at once: another thread may be looking
        found = (self._known(one) for _, one in here if one is not None)
        return [one for one in found if one is not None]

    def metrics(self) -> list[Metric]:
        """Return numbers about runs; their label is the random end of their names."""
        found, now = self.statuses(), self._clock()
        states = Counter(one.state for one in found)
        numbers = [Metric("veilsum_up", "Whether the folder is looked at.", {}, 1.0)]
        for state in STATES:
            told: dict[str, str] = {"state": state}
            numbers.append(
                Metric("veilsum_runs", "Runs by state.", told, states[state])
            )
        for one in found:
            if one.state != "running":
                continue
            label = {"run": one.run[-8:]}
            for name, meaning, value in (
                ("epoch", "Sums, and losses of parties, so far.", one.epoch),
                ("round", "Rounds of an iterative method.", one.round),
                ("waiting_for", "Parties that are waited for.", len(one.waiting)),
                (
                    "unmoved_seconds",
                    "Seconds since the party has moved.",
                    max(0.0, now - run_status_seconds(one.moved)),
                ),
                ("deadline_seconds", "After which something is done.", one.deadline),
            ):
                numbers.append(Metric(f"veilsum_run_{name}", meaning, label, value))
        return numbers


def survey_section_of(agreed: Agreement) -> Any | None:
    """Return what a file asks of guests, if it does."""
    question = runs_of_agreement(agreed)[0].question
    return question if question_kind_of(question).has_guests else None


def files_without_open_surveys(files: Files) -> list[tuple[Path, Agreement]]:
    """Return files without the open one of a survey that another of them closes."""
    closed = {
        survey_terms(one).digest
        for _, one in files
        if isinstance(one, Consortium)
        and (survey := survey_section_of(one)) is not None
        and survey.set is not None
    }
    # The open file's own digest is the survey's name.
    return [one for one in files if one[1].digest.hex() not in closed]


def refusals_of_every_question(rules: OwnRules, agreed: Agreement) -> tuple[str, ...]:
    """Return why nobody can agree to a file: the rules refuse all that it asks."""
    found = [rules.refusals(one, alone=False) for one in runs_of_agreement(agreed)]
    return tuple(dict.fromkeys(sum(found, ()))) if all(found) else ()


def refusals_to_join_unattended(rules: OwnRules, agreed: Agreement) -> tuple[str, ...]:
    """Return why nobody joins a file without a person, of a study by question."""
    if isinstance(agreed, Consortium):
        return rules.refusals(agreed, alone=True)
    return tuple(
        f"{name}: {why}"
        for name, one in agreed.questions.items()
        for why in rules.refusals(one, alone=True)
    )


def is_file_name_text(name: str) -> bool:
    """Say whether a file's name, which may be any bytes, can be written down."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def log_run_event(event: RunEvent) -> None:
    """Log an event of a run: rounds and waiting are in its status."""
    if event.what in ("round", "waiting", "resent", "met"):
        return
    about = {
        "run": event.run[-8:],
        "phase": event.phase,
        "epoch": event.epoch,
        "round": event.round,
        "names": listed_names(event.names) if event.names else "",
        "file": event.file,
        "reason": withheld_words(event.names)
        if event.what == "withheld"
        else event.reason,
    }
    LOG.info(event.what, extra={k: v for k, v in about.items() if v != ""})
