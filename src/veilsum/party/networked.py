"""A real party's driver: it meets the others on the network, and keeps its state."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from veilsum.consortium.addresses import Address
from veilsum.consortium.consortium import Consortium
from veilsum.drivers.driver import (
    DriverAssignment,
    DriverOutput,
    GivenUpError,
    rounds_of_a_sum,
)
from veilsum.drivers.tap import MachineTap
from veilsum.errors import NotReadyError, StoreError, WaitingError
from veilsum.files.ledger import Ledger
from veilsum.masks.masking import SystemStreams
from veilsum.net.drop import (
    KEY,
    DropFolder,
    NetworkFileDrop,
    unacknowledged_drop_letters,
)
from veilsum.net.evidence import Evidence, make_evidence
from veilsum.net.handshake import ConnectionLimits
from veilsum.net.identity import Identity, PartyKeys
from veilsum.net.links import SocketNetwork
from veilsum.net.relay_tokens import TOKEN_FILE
from veilsum.net.runner import (
    TRIED,
    NeighbourLinks,
    NetworkRunner,
    Recording,
    RunnerEnding,
    erase_secrets_of_run_store,
    run_ending_of,
)
from veilsum.net.store import NetworkRunStore, run_store_has_begun
from veilsum.net.trust import check_certified_identity
from veilsum.numbers.arrays import listed_names
from veilsum.numbers.secrets import Secret
from veilsum.privacy.transcript import Transcript
from veilsum.protocol.effects import Persist
from veilsum.protocol.machine import Machine
from veilsum.protocol.plan import ProtocolPlan
from veilsum.protocol.recovery import RecoveredRun
from veilsum.sums.kinds import question_kind_of
from veilsum.sums.recipes import SumPartyWork
from veilsum.sums.running import all_epochs_charged, any_epoch_charged
from veilsum.tables.fingerprints import table_mark

LOG = logging.getLogger("veilsum.net")

# The key in a run's store of what its data are known by.
DATA = "data"
# Runs a coroutine to its end in an event loop of its own.
Looping: TypeAlias = Callable[[Coroutine[Any, Any, RunnerEnding]], RunnerEnding]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class EndedRun(Secret):
    """A run that has ended for a party.

    Attributes:
        plan: compared by all members.
        ending: the answer, or the reason why there is none.
        evidence: records of members that contradicted themselves.
        was_over: whether the run had ended before this start.
    """

    plan: ProtocolPlan
    ending: RunnerEnding
    evidence: tuple[Evidence, ...]
    was_over: bool


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NetworkedParty(Secret):
    """Takes part in one run of a consortium for the owner of an identity.

    Attributes:
        state: the run's own file; an interrupted run continues from it.
        listen: where to listen, if not at the address that others dial.
        drop: the folder through which all members meet, if they use no connections.
        token: admits the party to the consortium's relays, if there are any.
        later: runs of later questions of the same study; a party at one of them does
            not come back to this run.
        confirm: called with the assignment before anything is sent; raises to stay
            away.
        watch: called whenever the party's machine has moved.
        record: called with everything that happens: by events, or a test.
        looping: runs the network's coroutine to its end.
        keep: called with the transcript of all numbers that were stored, sent and
            received, when the run ends or stops; None keeps no transcript.
        earlier: the transcript of earlier starts of the same run.
        ledger: the party's account of what its data were exposed to.
    """

    identity: Identity
    consortium: Consortium
    state: Path
    listen: Address | None = None
    drop: DropFolder | None = None
    token: str | None = None
    later: frozenset[str] = frozenset()
    confirm: Callable[[DriverAssignment], None] | None = None
    watch: Callable[[Machine], None] | None = None
    record: Recording | None = None
    looping: Looping = asyncio.run
    keep: Callable[[Transcript], None] | None = None
    earlier: Transcript | None = None
    ledger: Ledger | None = None

    def __post_init__(self) -> None:
        check_certified_identity(self.identity, self.consortium.certificates)
        if self.consortium.by_files and self.drop is None:
            raise NotReadyError(
                "no member of this consortium has an address: all meet through files; "
                "give the folder for these with --drop, or have the organiser make a "
                "consortium file with addresses",
                code="no-addresses",
            )
        alone = self.consortium.only_relayed(self.party)
        if alone and self.token is None and self.drop is None:
            raise NotReadyError(
                f"{self.party} and {listed_names(alone)} meet at a relay only, which "
                "admits "
                f"who has its token: ask the organiser for it, and keep it as "
                f"{TOKEN_FILE} beside the key, or give --relay-token FILE",
                code="token-missing",
            )

    @property
    def party(self) -> str:
        """Name of the party."""
        return self.identity.name

    def carry_out(self, assignment: DriverAssignment) -> DriverOutput:
        """Take part to the end; return what everybody knows then.

        Raises:
            GivenUpError: the parties did not come to an answer.
        """
        plan = assignment.plan
        weights = plan.topology.weights
        plan.law.check_deployable(least_weight=float(weights.min()))
        store = NetworkRunStore.open(
            self.state,
            plan=plan.digest,
            party=self.party,
            key=self.identity.derived(b"run's store"),
            agreed=self.consortium.digests,
        )
        try:
            ending, was_over = self._ending(assignment, store)
        except WaitingError as error:
            read = RecoveredRun(plan, store.read())
            sums = read.sums()
            members = {one.party for one in read.committed(len(sums) - 1)}
            raise error.with_known(sums=sums, members=tuple(sorted(members))) from None
        finally:
            store.close()
        evidence = tuple(
            make_evidence(found, self.consortium, plan=plan.digest)
            for found in ending.evidence
        )
        end = EndedRun(plan=plan, ending=ending, evidence=evidence, was_over=was_over)
        return self._released(end)

    def _ending(
        self, assignment: DriverAssignment, store: NetworkRunStore
    ) -> tuple[RunnerEnding, bool]:
        """Return how the run ended, and whether it had before; else take part first."""
        stored = store.read()
        so_far = run_ending_of(assignment.plan, stored)
        if self.ledger is not None and not all_epochs_charged(
            self.ledger, self.consortium.run, so_far.charged
        ):
            LOG.warning(LEDGER_GONE, extra={"ledger": str(self.ledger.path)})
        self._check_way(stored)
        if "closed" in stored:
            erase_secrets_of_run_store(
                store
            )  # it may have been killed before that was done
            if self.drop is not None:
                self.drop.put(
                    unacknowledged_drop_letters(store)
                )  # somebody may have lost one
            return so_far, True
        _ = assignment.promise  # a search, made while nobody waits for this party
        # Until shares are drawn nothing ties the run to the data that were shown.
        mark, begun = self._mark(assignment), run_store_has_begun(stored)
        if begun and not hmac.compare_digest(stored.get(DATA, b""), mark):
            raise NotReadyError(
                "the data have changed since this run began, and all its sums are to "
                "be about the same: put the old ones back, or start a new run",
                code="data-changed",
            )
        if not begun or TRIED in stored:  # what was reserved was given back
            self._before(assignment)
        if not begun:
            store.write([Persist(DATA, mark)])
        if self.keep is None:
            return self.looping(self._runner(assignment, store).run()), False
        tap = MachineTap(assignment.plan, self.party, earlier=self.earlier)
        tap.resume(store.read())
        try:
            return self.looping(self._runner(assignment, store, tap).run()), False
        finally:
            self.keep(tap.transcript())

    def _mark(self, assignment: DriverAssignment) -> bytes:
        """Return what this party's data are known by during a run, and by nobody else.

        What a sum is about is bound to its masks. That is not enough: between two sums
        a party may be started again, with other data for the next.
        """
        work = assignment.works[self.party]
        key = self.identity.derived(b"own data")
        keyed = partial(hmac.digest, key, digest="sha256")
        return (
            table_mark(work.contribution.data, keyed)
            if isinstance(work, SumPartyWork)
            else b""
        )

    def _check_way(self, stored: Mapping[str, bytes]) -> None:
        """Refuse to go on through files with a run on the network, or vice versa.

        Either has its own way to find out that a party goes on from an old copy.
        """
        began, by_files = "self" in stored, KEY in stored
        if began and "closed" not in stored and by_files != (self.drop is not None):
            way = "through files: add --drop" if by_files else "without --drop"
            raise StoreError(
                f"{self.state} is of a run that began {way}; go on like that, or give "
                "this run another path with --state",
                code="way-changed",
            )

    def _before(self, assignment: DriverAssignment) -> None:
        """Ask the ledger, then its owner: a refusal now is nobody else's loss."""
        if assignment.check is not None:
            assignment.check(self.party)
        if self.confirm is not None:
            self.confirm(assignment)
        if assignment.reserve is not None:
            assignment.reserve(self.party)

    def _runner(
        self,
        assignment: DriverAssignment,
        store: NetworkRunStore,
        tap: MachineTap | None = None,
    ) -> NetworkRunner:
        plan, charge = assignment.plan, assignment.charge
        keys = PartyKeys(self.identity, self.consortium.certificates)
        work, record = assignment.works[self.party], self.record
        if isinstance(work, SumPartyWork):
            # The same at every start of this run, for nobody may object twice.
            key = self.identity.derived(b"objections")
            work = replace(work, secret=hmac.digest(key, plan.digest, "sha256"))
        if tap is not None:
            work, record = (
                tap.on(work),
                partial(_tell_party_listeners, (tap.note, record)),
            )
        return NetworkRunner(
            machine=Machine(
                plan,
                self.party,
                keys=keys,
                # Never from a seed: nobody can hand in others.
                streams=SystemStreams(),
                work=work,
                continues=self.drop is not None,
            ),
            store=store,
            network=self._links(plan, store),
            charge=None if charge is None else partial(charge, self.party),
            watch=self.watch,
            record=record,
        )

    def _links(
        self, plan: ProtocolPlan, store: NetworkRunStore
    ) -> Callable[..., NeighbourLinks]:
        who = self.identity, self.consortium
        if self.drop is not None:
            return partial(
                NetworkFileDrop, *who, plan=plan, store=store, folder=self.drop
            )
        limits = ConnectionLimits(max_frame=plan.codec.max_frame)
        limits = limits.within(plan.policy.deadline)
        if self.consortium.study:
            limits = limits.among_questions()
        return partial(
            SocketNetwork,
            *who,
            plan=plan.digest,
            limits=limits,
            listen=self.listen,
            token=self.token,
            later=self.later,
        )

    def _released(self, end: EndedRun) -> DriverOutput:
        ending = end.ending
        if ending.finish is None:
            reason = _reason_party_run_ended(ending, self._shown(ending))
            assert ending.abort is not None
            code = ending.abort.code or "given-up"
            raise GivenUpError({self.party: reason}, ending.sums, end=end, code=code)
        sums = len(ending.sums)
        rounds = int(ending.notes["rounds"]) or sums * rounds_of_a_sum(end.plan)
        return DriverOutput(
            sums=ending.sums,
            answer=ending.finish.result,
            members=ending.finish.parties,
            rounds=rounds,
            bytes=int(ending.notes["sent"]),
            sum_of_masks=None,
            end=end,
        )

    def _shown(self, ending: RunnerEnding) -> str:
        """Say whether anything masked left this party, as far as that is known here."""
        ledger = self.ledger
        if ending.charged:
            kind = question_kind_of(self.consortium.question)
            return SHOWN_OF_GUESTS if kind.has_guests else SHOWN
        if ledger is not None and any_epoch_charged(ledger, self.consortium.run):
            return SHOWN_BEFORE
        assert ending.abort is not None
        return UNKNOWN if ending.abort.reason == "stale" else NOTHING_SHOWN


def _tell_party_listeners(
    whom: Iterable[Recording | None], what: str, detail: Any, peer: str | None
) -> None:
    """Tell all who want to know what happens."""
    for record in whom:
        if record is not None:
            record(what, detail, peer)


LEDGER_GONE = (
    "this run was charged to a ledger that is gone; the one in its place does not know "
    "what the data were exposed to: put the old one back, or give it with --ledger"
)
NOTHING_SHOWN = "nothing masked of this party was shown to anybody"
SHOWN_BEFORE = (
    "this party's masked numbers were shown before, and its ledger is charged for "
    "them; the file with its state is an older copy, and does not know of it"
)
UNKNOWN = (
    "whether anything masked of this party was shown before, this file cannot tell: "
    "its ledger, and the receipts of an earlier end, can"
)
SHOWN = "this party's masked numbers were shown, and its ledger is charged for them"
SHOWN_OF_GUESTS = (
    "this member's masked sums of guests' shares were shown; no ledger is charged for "
    "guests, and its store keeps the set"
)
OVER = (
    "this run is over; to try again the organiser makes a new consortium file "
    "(veilsum consortium new)"
)

AGAIN = (
    "nothing is lost: the same command, with the same file, tries again; call the "
    "others, so that all are there at one time"
)


# Why a party left, by the one word that it told the others.
LEFT = {
    "dropped": "the others went on without it",
    "peer": "a party that it cannot do without had left",
    "plan": "it had another plan than the others",
    "policy": "too few parties were left for what was agreed; its own log says more",
    "proof": "it holds two signed records of one party that contradict each other",
    "refused": "it refused what was asked; why is for its owner alone",
    "result": "its answer was another one, or none; its own log says why",
    "stale": "two processes run under one name, or a state file was lost or copied; "
    "for the next run see to it that one process only has the key, and leave its .run "
    "file where it is",
    "stopped": "its owner stopped it",
    "timeout": "it has waited for too long",
}


def _reason_party_run_ended(ending: RunnerEnding, shown: str) -> tuple[str, str]:
    """Return why a run ended without an answer, what that means, and what to do."""
    abort = ending.abort
    assert abort is not None
    told = re.sub(
        rf"\bleft: ({'|'.join(LEFT)})\b",
        lambda m: f"{m[0]} ({LEFT[m[1]]})",
        abort.detail,
    )
    if abort.reason == "stale":  # every other reason comes with details
        told = f"{told}: {LEFT['stale']}"
    wrong = [
        f"{name} is {condition}"
        for name, condition in ending.conditions.items()
        # "d" is not named in "waited".
        if condition != "connected"
        and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", abort.detail)
    ]
    return abort.reason, "; ".join(
        [told, *wrong, shown, OVER if abort.final else AGAIN]
    )
