"""Real parties: what they draw, keep and show, by the calls that people make.

Other attacks run machines in memory, from a seed. Here made-up parties have keys, disks
and ledgers of their own and exchange letters through a folder, by the function that
`veilsum join --drop` calls: shares come from the operating system, state is stored and
restored between two letters, and receipts, events, logs and statuses are written.

Three runs follow each other. The first and the last have the same tables. In the one
between them rows are dealt anew among honest parties, so that all sums stay the same.

- Whatever is the same in the first and the last is the same in the one between, or it
  tells of a party's rows: letters and their lengths, events, statuses, log records,
  printed lines, results and receipts. (A clock that did not move from the first to the
  last did not move in between.)
- No share is there twice, and none is in a file that others get, nor in any file when
  the run is over. Until then a run's own file has them: nobody else may read it.
- A masked vector is the party's own one and its mask; the own one is what the job makes
  of the table.
"""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np

from veilsum.audit import reassignment
from veilsum.audit.attack import REAL_PARTIES, Outcome
from veilsum.audit.made_up import shares_never_repeat
from veilsum.audit.question import (
    AuditRehearsal,
    Holdings,
    RehearsedAnswer,
    SkippedAttack,
)
from veilsum.consortium.consortium import Consortium, consortium_from
from veilsum.errors import InvalidInputError, WaitingError
from veilsum.files.sqlite import BESIDE
from veilsum.masks.laws import MaskLaw
from veilsum.net.drop import DropFolder
from veilsum.net.identity import new_identity, read_identity
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import (
    add_wide_integers,
    limbs_to_integers,
    subtract_wide_integers,
)
from veilsum.numbers.secrets import Secret
from veilsum.party.run import Joined, PartyInputs, prepare_party_run
from veilsum.party.run_status import ENDING
from veilsum.party.transcript_file import read_transcript
from veilsum.privacy.transcript import Transcript, TranscriptExchange

# More parties or sums than this take too long to be carried from folder to folder.
MOST_PARTIES, MOST_SUMS = 8, 12
# Visits of a party, of which a sum takes five or so.
MOST_VISITS = 200
# Files that a party writes for others to read.
WRITTEN = ("result.json", "receipt.json", "sums.json")
# What a clock or a folder says in a status or an event.
CLOCKS = ("moved", "seen", "file", "out")
# What every log record has; the rest was added by whoever logged it.
RECORD = frozenset(vars(logging.makeLogRecord({})))
# What a party keeps for itself: for its owner's eyes, until the run is over or always.
OWN = {"", *(f"{one}{end}" for one in (".run", ".ledger") for end in ("", *BESIDE))}
OTHERS_MAY_READ = 0o077
# A share of so many bits is in no file by chance.
NEEDLE_BITS = 40

# What others, or whoever looks after a computer, can see, by where it is.
Shown: TypeAlias = dict[str, str]


def play(
    question: AuditRehearsal, *, coalition: Sequence[str], seed: int, trials: int
) -> Iterator[Outcome | SkippedAttack | str]:
    """Let real parties run on two dealings; compare what they leave behind.

    The seed repeats the rows only. The auditor looks at everybody's files.
    """
    if (why := _too_much_for_real_parties(question)) is not None:
        yield SkippedAttack(REAL_PARTIES, why)
        return
    wrong, words = 0, dict[str, None]()
    for trial in range(trials):
        key = (seed, trial, 8)
        held, played = reassignment.deal_spare_rows(question, question.parties, key)
        if len(played.sums) > MOST_SUMS:
            yield SkippedAttack(
                REAL_PARTIES, f"more than {MOST_SUMS} sums take too long by files"
            )
            return
        chance = np.random.default_rng((seed, trial, 9))
        dealt = reassignment.deal_rows_again(
            question, held, played, question.parties, chance
        )
        with TemporaryDirectory() as folder:
            company = RealPartyGroup(question, Path(folder))
            found = [*_compare_real_party_runs(company, held, played, dealt)]
        wrong += bool(found)
        words |= dict.fromkeys(found)
    about = "a share or a row that shows in files, letters, logs or events"
    yield Outcome(REAL_PARTIES, tuple(coalition), about, trials, wrong, 0.0, "frames")
    yield from (f"{REAL_PARTIES}: {one}" for one in words)


def _too_much_for_real_parties(question: AuditRehearsal) -> str | None:
    if len(question.parties) > MOST_PARTIES:
        return f"more than {MOST_PARTIES} parties take too long by files"
    if question.kind.input == "cost" and not question.sound(0)[1].sums:
        return "an iterative method takes a letter for every round"
    return None


def _compare_real_party_runs(
    company: RealPartyGroup,
    held: Holdings,
    played: RehearsedAnswer,
    dealt: tuple[Holdings, RehearsedAnswer] | None,
) -> Iterator[str]:
    """Yield what is wrong with three runs; with one, if no other dealing is there."""
    first = company.run(held)
    runs, tables = [first], [(held, played)]
    if dealt is not None:
        between, last = company.run(dealt[0]), company.run(held)
        runs, tables = [first, between, last], [(held, played), dealt, (held, played)]
        odd = differing_attack_traces(first, between, last)
        if odd:  # what chance made is not there again
            odd &= differing_attack_traces(
                first, company.run(dealt[0]), company.run(held)
            )
        yield from (f"{where} tells of rows" for where in sorted(odd))
    for run, (_, came) in zip(runs, tables, strict=True):
        yield from _wrong_vectors_of_real_parties(run, came)
    shares = [_audit_numbers_text(one) for run in runs for one in run.shares]
    law, size = played.law, played.plan.size
    if len({*shares}) < len(shares) and shares_never_repeat(law, size, len(shares)):
        yield "a share is there twice"
    yield from dict.fromkeys(
        f"{where} has a share as it is" for run in runs for where in run.in_the_clear()
    )
    yield from (f"others may read {one}" for one in sorted(company.readable))


def differing_attack_traces(
    first: LeftBehind, between: LeftBehind, last: LeftBehind
) -> set[str]:
    """Return where the first and the last run agree, and the one between does not."""
    places = {*first.shown, *between.shown, *last.shown}
    return {
        where.partition("/")[0]
        for where in places
        if first.shown.get(where) == last.shown.get(where) != between.shown.get(where)
    }


def _wrong_vectors_of_real_parties(
    run: LeftBehind, played: RehearsedAnswer
) -> Iterator[str]:
    law, rounds = run.transcript.law, run.transcript.rounds
    if len(rounds) != len(played.sums):
        yield "there are other rounds than in a simulation"
        return
    for exchange, given in zip(rounds, played.given, strict=True):
        for name, own in exchange.own.items():
            if _signed_audit_numbers(own) != given[name]:
                yield "a party masks other numbers than in a simulation"
            if name in exchange.masked:
                masked = law.wrap(
                    add_wide_integers(own, _mask_of_real_party(law, exchange, name))
                )
                if _audit_numbers_text(masked) != _audit_numbers_text(
                    exchange.masked[name]
                ):
                    yield "a masked vector is not the party's own one and its mask"


def _mask_of_real_party(
    law: MaskLaw, exchange: TranscriptExchange, name: str
) -> Array[Any]:
    size = len(exchange.own[name])
    found: Array[Any] = np.zeros(size, dtype=law.dtype)
    for (sender, receiver), share in exchange.shares.items():
        if sender == name:
            found = add_wide_integers(found, share)
        elif receiver == name:
            found = subtract_wide_integers(found, share)
    return found


def _signed_audit_numbers(numbers: Array[Any]) -> tuple[int, ...]:
    if numbers.dtype == np.uint64:
        numbers = numbers.view(np.int64)
    return tuple(int(one) for one in limbs_to_integers(numbers).tolist())


def _audit_numbers_text(numbers: Array[Any]) -> str:
    return ",".join(map(str, limbs_to_integers(numbers).tolist()))


# Parties with folders of their own


@dataclass(frozen=True, eq=False, repr=False)
class LeftBehind(Secret):
    """Everything that a run left behind.

    Attributes:
        shown: values visible to others, by location.
        transcript: the transcripts of all parties, merged.
        files: contents of all files present after a visit, with their kind.
    """

    shown: Shown
    transcript: Transcript
    files: Mapping[bytes, str]

    @property
    def shares(self) -> list[Array[Any]]:
        return [one for each in self.transcript.rounds for one in each.shares.values()]

    def in_the_clear(self) -> Iterator[str]:
        """Yield in which kinds of files a share is as it is."""
        needles = set[bytes]()
        for share in self.shares:
            whole = limbs_to_integers(share).tolist()
            wide = (one for one in whole if abs(one).bit_length() >= NEEDLE_BITS)
            if (one := next(wide, None)) is not None:
                size = max(8, -(-one.bit_length() // 64) * 8)
                words = one % (1 << 8 * size)
                needles |= {str(one).encode(), words.to_bytes(size, "little")}
                needles.add(words.to_bytes(size, "big"))
        for content, kind in self.files.items():
            if any(one in content for one in needles):
                yield kind


@dataclass(eq=False)
class RealPartyGroup:
    """Made-up parties that keep their keys from run to run.

    Attributes:
        folder: of everything that they write.
        readable: kinds of files with secrets that other users of the computer may read.
    """

    question: AuditRehearsal
    folder: Path
    runs: int = field(default=0, init=False)
    readable: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        keys = self.folder / "keys"
        keys.mkdir()
        made = {name: new_identity(name, keys) for name in self.question.parties}
        table = self.question.consortium.to_table()
        table.pop("relays", None)
        for member in table["members"]:
            member.pop("address", None)
            member["certificate"] = made[member["name"]].certificate
        self.consortium: Consortium = consortium_from(table)

    def run(self, held: Holdings) -> LeftBehind:
        """Have everybody take part, visit after visit, until all have an answer."""
        self.runs += 1
        base = self.folder / str(self.runs)
        letters = base / "letters"
        letters.mkdir(parents=True)
        shown: Shown = {}
        files: dict[bytes, str] = {}
        done: dict[str, Joined] = {}
        for name in self.question.parties:
            (base / name).mkdir()
            for ending in (".key", ".crt"):
                copied = base / name / f"{name}{ending}"
                copied.write_bytes((self.folder / "keys" / copied.name).read_bytes())
                copied.chmod(0o600)
        for visit in range(MOST_VISITS):
            for name in self.question.parties:
                if name in done:
                    continue
                when = f"{visit}/{name}"
                found = self._visit(base, name, held[name], shown, when)
                if found is not None:
                    done[name] = found
                is_over = len(done) == len(self.question.parties)
                self._look(base, shown, files, when, is_over=is_over)
            if len(done) == len(self.question.parties):
                break
        else:
            raise InvalidInputError(
                f"real parties came to no answer in {MOST_VISITS} visits",
                code="no-answer",
            )
        own = [
            read_transcript(base / name / "mine", base / name / f"{name}.key")
            for name in self.question.parties
        ]
        return LeftBehind(shown, Transcript.together(own), files)

    def _visit(
        self, base: Path, name: str, own: Any, shown: Shown, when: str
    ) -> Joined | None:
        """Have one party do what it can; None if it waits for others' letters."""
        heard: list[Any] = []
        kind = "cost" if self.question.kind.input == "cost" else "data"
        given: dict[str, Any] = {kind: own}
        with _overhear_logs_and_output() as (records, printed):
            try:
                inputs = PartyInputs(
                    drop=DropFolder(base / "letters", once=True),
                    transcript=base / name / "mine",
                    out=base / name / "out",
                    **given,
                )
                identity = read_identity(base / name / f"{name}.key")
                prepared = prepare_party_run(self.consortium, identity, inputs)
                return prepared.run(lambda _page: True, on_event=heard.append)
            except WaitingError:
                return None
            finally:
                events = [_without_clocks_of_real_parties(asdict(one)) for one in heard]
                _keep_overheard_values(shown, f"an event/{when}", events)
                _keep_overheard_values(shown, f"a log record/{when}", records)
                _keep_overheard_values(
                    shown, f"a printed line/{when}", printed.getvalue()
                )

    def _look(
        self,
        base: Path,
        shown: Shown,
        files: dict[bytes, str],
        when: str,
        *,
        is_over: bool,
    ) -> None:
        for path in sorted(base.rglob("*")):
            if not path.is_file() or path.suffix in (".key", ".crt"):
                continue
            content = path.read_bytes()
            kind = path.name if path.suffix == ".json" else f"a {path.suffix} file"
            if path.parent.name == "letters":
                _keep_overheard_values(
                    shown, f"a letter/{when}/{path.name}", len(content)
                )
            elif path.suffix == ENDING:
                told = _without_clocks_of_real_parties(json.loads(content))
                _keep_overheard_values(shown, f"a status/{when}/{path.name}", told)
            elif path.name in WRITTEN:
                where = f"{path.name}/{path.parent.parent.name}"
                _keep_overheard_values(shown, where, json.loads(content))
            elif path.suffix in OWN:
                if os.name == "posix" and path.stat().st_mode & OTHERS_MAY_READ:
                    self.readable.add(kind)
                if not is_over:
                    continue
            files.setdefault(content, kind)


@contextmanager
def _overhear_logs_and_output() -> Iterator[tuple[list[Any], io.StringIO]]:
    """Listen to everything that is logged or printed, however little of it is shown."""
    records: list[Any] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            more = {k: str(v) for k, v in vars(record).items() if k not in RECORD}
            records.append([record.name, record.levelname, record.getMessage(), more])

    log, handler, printed = logging.getLogger("veilsum"), Handler(), io.StringIO()
    level, spread = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            yield records, printed
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = spread


def _without_clocks_of_real_parties(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key not in CLOCKS}


def _keep_overheard_values(shown: Shown, where: str, value: Any) -> None:
    """Keep a value under where it is, every leaf by itself."""
    if isinstance(value, dict):
        for key, one in value.items():
            _keep_overheard_values(shown, f"{where}/{key}", one)
    elif isinstance(value, list | tuple):
        _keep_overheard_values(shown, f"{where}/length", len(value))
        for place, one in enumerate(value):
            _keep_overheard_values(shown, f"{where}/{place}", one)
    else:
        shown[where] = repr(value)
