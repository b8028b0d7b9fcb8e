"""A party's ledger: what its data has been exposed to, across all runs.

One file for each party. It is charged before anything is sent, so that a run that is
interrupted stays charged, and the same epoch is charged once however often it is tried.
Reading the history, deciding and writing are one transaction: two processes cannot
spend the same budget twice.

It is written as a journal, a list of records in one SQLite file that only grows. What a
transaction appends is on disk when it ends, whole or not at all, also when the process
is killed or two processes write at once. The file is sealed (`files.sqlite`), so that a
changed or missing record is noticed when it is read. The key of the fingerprints is
random, made with the file, and never leaves it. A file that is not such a list, or that
is damaged, is refused and not touched.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar

from veilsum.errors import BudgetError, InvalidInputError, LedgerError
from veilsum.files.sqlite import (
    OpenSqliteFile,
    SqliteFileKind,
    SqliteSealing,
    connect_to_sqlite_file,
    create_sqlite_file,
    inspect_sqlite_file,
    sqlite_cells,
    sqlite_transaction,
)
from veilsum.numbers.secrets import Secret
from veilsum.privacy.accountant import (
    AccountCopied,
    AccountDecision,
    AccountHistory,
    AccountInquiry,
    AccountReservation,
    AccountResumed,
    AccountSettlement,
    AccountTableVersion,
    Budget,
    DataCut,
    Entry,
    ForgottenCut,
    KnownSum,
    NewData,
    PrivacyAccount,
    RefusedFile,
    RunLimits,
    Wish,
    accounts_of_data_sets,
    decide_ledger_entry,
)
from veilsum.privacy.composition import Charge, Exposure
from veilsum.privacy.guarantee import GuaranteeComponent
from veilsum.tables.fingerprints import (
    ColumnSketch,
    Difference,
    FingerprintSource,
    KeptFingerprints,
    TableFingerprints,
    Words,
    read_row_fingerprints,
    row_fingerprints_text,
)
from veilsum.tables.rules import DisclosureError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


# "veil" in the file's header: other programs' SQLite files are told from ours.
APPLICATION_ID = 0x7665696C
VERSION = 3
KEY_BYTES = 32
# So many files may come to nothing within a day before no more are looked at: they were
# refused, or others ended the run before anything was shown, which costs them nothing.
FRUITLESS_FILES = 5
# And so many that differ in bounds only are looked at, whether refused or not: a first
# one, and two in which something was put right.
SAME_QUESTIONS = 3

LEDGER = SqliteFileKind(
    noun="ledger",
    holds="a key",
    application=APPLICATION_ID,
    version=VERSION,
    schema=(
        "CREATE TABLE secret (key BLOB NOT NULL)",
        "CREATE TABLE journal (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
        "body TEXT NOT NULL)",
    ),
    error=LedgerError,
    undone="recorded",
    if_damaged="put a sound copy in its place; with a new ledger everything spent so "
    "far would be forgotten",
    patience=30.0,  # transactions take milliseconds
    if_older="it is left as it is, and is not read as an empty one. For these data go "
    "on with the version that wrote it; for data about other people move it away, and "
    "a new ledger begins. A new ledger does not count what this one has shown",
)

_CELLS = sqlite_cells(("id", "kind", "body"))
_NEW = f"SELECT {_CELLS} FROM journal ORDER BY id LIMIT -1 OFFSET ?"  # noqa: S608 - ours
_KEY = f"SELECT {sqlite_cells(['key'])} FROM secret"  # noqa: S608 - ours
_ADD = "INSERT INTO journal (kind, body) VALUES (?, ?)"

Record = tuple[str, dict[str, Any]]
# What a party thinks of a question beside earlier ones, which it is given by run.
Look: TypeAlias = Callable[[Mapping[str, str]], None]
Read = TypeVar("Read")


class LedgerJournal(OpenSqliteFile):
    """An open journal. `sqlite_transaction` gives the right to `append`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, LEDGER, connection)
        self._count = 0
        # Sum over the rows read so far, as in the seal.
        self._sum = 0

    def news(self, read: Callable[[str, Any], Read]) -> list[Read]:
        """Return what `read` makes of the records not seen so far, seal checked.

        Nothing counts as seen unless all of it could be read.
        """
        salt, number, seal = self._live().execute("SELECT * FROM head").fetchone()
        sealing = SqliteSealing.derive(LEDGER, b"", salt)
        rows = self._live().execute(_NEW, (self._count,)).fetchall()
        total = self._sum + sum(sealing.hash_row("journal", row) for row in rows)
        if not self._count:
            keys = self._live().execute(_KEY)
            total += sum(sealing.hash_row("secret", row) for row in keys)
        if sealing.seal(number, total) != seal:
            raise LEDGER.damaged(
                self.path,
                f"a record after number {self._count} was changed",
                code="record-changed",
            )
        found = [_read_ledger_row(row, read) for row in rows]
        self._count, self._sum = self._count + len(rows), total
        return found

    def append(self, records: Iterable[Record]) -> None:
        """Write records; inside a transaction."""
        if self.is_gone:
            raise LedgerError(
                f"{self.path} was deleted or exchanged while it was open, and what "
                "would be written now would be lost: nothing was recorded; put it back",
                code="file-replaced",
            )
        _insert_ledger_records(self._live(), records)

    def keyed_hash(self, *parts: bytes | memoryview) -> str:
        """Return HMAC-SHA256 of the parts, in order, under the file's key."""
        with self._lock, LEDGER.sentences(self.path):
            # The key is read where it is used: no attribute holds it.
            row = self._live().execute("SELECT key FROM secret").fetchone()
        keyed = hmac.new(row[0], b"fingerprint", "sha256")
        for part in parts:
            # Lengths go in, so that parts cannot be cut up differently.
            keyed.update(len(part).to_bytes(8, "big"))
            keyed.update(part)
        return keyed.hexdigest()


def _insert_ledger_records(
    connection: sqlite3.Connection, records: Iterable[Record]
) -> None:
    for kind, content in records:
        body = json.dumps(content, sort_keys=True, allow_nan=False)
        connection.execute(_ADD, (kind, body))


def _read_ledger_row(row: Sequence[Any], read: Callable[[str, Any], Read]) -> Read:
    """Return what `read` makes of the cells of a record."""
    return read(row[3].decode(), json.loads(row[5]))


def create_journal(path: Path, first: Iterable[Record]) -> None:
    """Make a journal that holds some records; leave a file that is there alone."""

    def fill(connection: sqlite3.Connection) -> None:
        key = secrets.token_bytes(KEY_BYTES)
        connection.execute("INSERT INTO secret VALUES (?)", (key,))
        _insert_ledger_records(connection, first)

    create_sqlite_file(path, LEDGER, fill)


def open_journal(path: Path, read: Callable[[str, Any], Read]) -> LedgerJournal:
    """Return a journal for reading and writing; every record could be read."""
    read_journal(path, read)
    return LedgerJournal(path, connect_to_sqlite_file(path, LEDGER))


def read_journal(path: Path, read: Callable[[str, Any], Read]) -> list[Read]:
    """Return all records of a sound journal; raise before anything is written."""
    with inspect_sqlite_file(path, LEDGER) as connection:
        rows = connection.execute(_NEW, (0,)).fetchall()
        return [_read_ledger_row(row, read) for row in rows]


@dataclass(frozen=True, eq=False, repr=False)
class LedgerDataKey(Secret):
    """Fingerprints by which a ledger recognises a party's data.

    Attributes:
        data: keyed fingerprint of their content.
        prints: fingerprints of the rows, if the data are a table.
        asked: the columns of the table that a job uses.
        is_new: whether their owner declares that they are about other people than all
            earlier data; ignored if rows are recognised.
    """

    data: str
    prints: TableFingerprints | None = None
    asked: tuple[str, ...] = ()
    is_new: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class TooNear(Secret):
    """An earlier table that was asked about, and from which few people differ.

    Attributes:
        data: keyed fingerprint of the earlier table.
        difference: how many people differ.
        least: how many would be enough.
        when: the earlier table was first used.
    """

    data: str
    difference: Difference
    least: int
    when: str

    def sentence(self, cut: str = "") -> str:
        """Return why a table is not used, and the change that works."""
        earlier = f"the data cut {cut!r}" if cut else f"the table of {self.when}"
        return (
            f"this table differs from {earlier} by "
            f"{difference_words(self.difference)}, and sums over that one are known: "
            "the difference of two sums would be about these people alone, and "
            f"minimum_rows = {self.least} of them are the least on every side on which "
            f"two cuts differ. Ask of {earlier} once more, or wait until there are "
            "more; a table about other people is declared by --new-data "
            "(new_data=True in Python). Nothing was sent"
        )


def difference_words(found: Difference) -> str:
    """Return a difference in words.

    >>> difference_words(Difference(new=2, changed=1))
    '2 new rows and 1 corrected row'
    """
    counts = {"new": found.new, "removed": found.gone, "corrected": found.changed}
    parts = [f"{n} {word} row{'s' * (n != 1)}" for word, n in counts.items() if n]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LedgerRequest(Secret):
    """Request of a run to a party's ledger before it starts.

    Attributes:
        reservation: all numbers that the run may release.
        charge: its first emission; the masked values are not known yet.
        first: the sum that this emission releases.
        known: the data that the run uses.
        look: check that rejects harmful combinations with other questions about the
            data set.
    """

    reservation: AccountReservation
    charge: Charge
    first: KnownSum
    known: LedgerDataKey
    look: Look | None = None


class Ledger(Secret):
    """An open ledger: `charge` before sending, `release` before a sum is known.

    Use it as a context manager. It may be shared by threads, not by processes: each
    process opens the file itself.
    """

    def __init__(self, journal: LedgerJournal) -> None:
        self._journal = journal
        self._history = AccountHistory()

    @property
    def path(self) -> Path:
        """The ledger's file."""
        return self._journal.path

    @property
    def budget(self) -> Budget:
        """The budget now in force."""
        return self.history().budget

    def history(self) -> AccountHistory:
        """Return everything recorded so far, by any process."""
        with self._journal.transaction("BEGIN"):
            return self._caught_up()

    def totals(self) -> tuple[PrivacyAccount, ...]:
        """Return what each data set has spent and has left."""
        return accounts_of_data_sets(self.history())

    def data(
        self, source: FingerprintSource | Sequence[Any], *, new_data: bool = False
    ) -> LedgerDataKey:
        """Return what this ledger knows a table by, or arrays that are no table.

        Args:
            source: the table, or arrays.
            new_data: whether they are about other people than all data before. By
                default data that are not known again count as the earlier ones.
        """
        if isinstance(source, FingerprintSource):
            id_column = source.id_column or self.id_column_of(source.frame.columns)
            prints = TableFingerprints(source.frame, self._keyed, id_column)
            return LedgerDataKey(
                prints.data, prints, tuple(sorted(source.asked)), new_data
            )
        return LedgerDataKey(self.fingerprint(*source), is_new=new_data)

    def id_column_of(self, columns: Iterable[str]) -> str | None:
        """Return the column of ids of the newest cut that named one among these."""
        here = {*columns}
        cuts = reversed(self.history().cuts)
        return next((one.id_column for one in cuts if one.id_column in here), None)

    def too_near(self, known: LedgerDataKey) -> TooNear | None:
        """Return a table that was asked about, if few people tell it from this one."""
        return _too_near(self.history(), known)

    def difference(self, data: str, known: LedgerDataKey) -> Difference | None:
        """Return how a table differs from an earlier one; None without fingerprints."""
        assert known.prints is not None
        history = self.history()
        versions = [one for one in history.versions if one.data == data and one.columns]
        whole = [
            _fingerprints_from_ledger(one, _people(history))
            for one in versions
            if one.is_whole
        ]
        if not whole:
            return None
        # With ids, if it was ever used with ids.
        last = max(whole, key=lambda one: (one.people is not None, len(one.columns)))
        return last.difference(known.prints, known.prints.columns)

    def same_people(self, known: LedgerDataKey) -> tuple[str, ...]:
        """Return earlier tables about some of the same people."""
        return tuple(_same(self.history(), known))

    def people(self, data: str) -> Words | None:
        """Return the ids of an earlier table; None if it had none."""
        text = _people(self.history()).get(data)
        return None if text is None else read_row_fingerprints(text)

    def add_cut(
        self, cut: DataCut, known: LedgerDataKey, *, when: str | None = None
    ) -> None:
        """Record a cut, with the fingerprints of its table.

        Raises:
            LedgerError: another table has its name.
        """
        with self._journal.transaction():
            history = self._caught_up()
            if any(one.name == cut.name for one in history.cuts):
                raise LedgerError(
                    f"there is a data cut {cut.name!r} in {self.path} already: choose "
                    "another name with --as",
                    code="cut-name-taken",
                )
            self._write([*self._table(known, None), cut], when)

    def forget_cut(self, name: str, *, when: str | None = None) -> None:
        """Record that the rows of a cut were removed."""
        with self._journal.transaction():
            self._caught_up()
            self._write([ForgottenCut(name=name)], when)

    def reserve(
        self,
        reservation: AccountReservation,
        known: LedgerDataKey | None = None,
        *,
        look: Look | None = None,
        when: str | None = None,
    ) -> AccountDecision:
        """Keep free all numbers that a run may release, before anybody is met.

        Args:
            reservation: what the run may need.
            known: the table it is about, if it is about one.
            look: refuses what adds up with earlier questions about the data set; it
                is given these by run, and nobody else can ask meanwhile.
            when: a time stamp.

        Raises:
            BudgetError: the rules refuse; nothing was recorded, nothing may be sent.
        """
        with self._journal.transaction():
            table = self._table(known, reservation.limits)
            (decision,) = self._decided([reservation], beside=table, look=look)
            news: list[Entry] = [*table, *([reservation] if decision.is_news else [])]
            self._write(news, when)
        return decision

    def reserve_all(
        self, runs: Mapping[str, LedgerRequest], *, when: str | None = None
    ) -> None:
        """Keep free what several runs may release: for all of them, or for none.

        Each is decided as if those before it had been asked. So what must hold for one
        run holds for all of them together, whatever becomes of them.

        Args:
            runs: what each asks, under what its owner calls it.
            when: a time stamp.

        Raises:
            BudgetError: one of them is refused beside those before it; nothing was
                recorded.
            DisclosureError: it adds up with another one.
        """
        with self._journal.transaction():
            news = self._together(runs)
            self._write(news, when)

    def check_all(self, runs: Mapping[str, LedgerRequest]) -> None:
        """Ask the same beforehand; nothing is recorded."""
        with self._journal.transaction("BEGIN"):
            self._together(runs)

    def _together(self, runs: Mapping[str, LedgerRequest]) -> list[Entry]:
        """Return what is to be written for several runs, of which each is allowed."""
        news: list[Entry] = []
        reserved: list[Entry] = []
        asked: list[Entry] = []
        for name, one in runs.items():
            table = self._table(one.known, one.reservation.limits)
            news += [entry for entry in table if entry not in news]
            wishes: tuple[Wish, ...] = (one.reservation, one.charge, one.first)
            beside = [*news, *asked]
            try:
                found = self._decided(wishes, beside=beside, look=one.look)
            except BudgetError as error:
                raise BudgetError(
                    f"question {name!r}: {error}", code=error.code
                ) from None
            except DisclosureError as error:
                told = f"question {name!r}: {error}"
                raise DisclosureError(error.rule, told, code=error.code) from None
            for wish, decision in zip(wishes, found, strict=True):
                if decision.is_news:
                    asked.append(wish)
                    reserved += [wish] if isinstance(wish, AccountReservation) else []
        return [*news, *reserved]

    def settle(self, run: str, *, when: str | None = None) -> None:
        """Give back what a run had reserved and did not use: it came to its end."""
        with self._journal.transaction():
            if run in self._caught_up().pending:
                self._write([AccountSettlement(run=run)], when)

    @contextmanager
    def inquiry(
        self,
        source: FingerprintSource | Sequence[Any],
        *,
        file: str,
        run: str,
        question: str,
        bounds: str,
        new_data: bool = False,
        when: str | None = None,
    ) -> Iterator[tuple[AccountInquiry, ...]]:
        """Hold a file of others against own data, and keep count of refusals.

        Whoever writes files can learn from which of them a party stays away. What is
        raised inside is such a refusal, and recorded. Yields earlier inquiries that
        asked the same of the same members, with other bounds.

        Args:
            source: the table that is looked at, or arrays.
            file: the file's digest.
            run: its name.
            question: digest of what it asks, without bounds.
            bounds: its ranges, row counts and rules.
            new_data: as for `data`.
            when: a time stamp.

        Raises:
            BudgetError: too many files came to nothing of late, or asked the same with
                other bounds. That is said before anything is looked at, and so tells
                nobody anything about the data.
        """
        known = self.data(source, new_data=new_data)
        new = AccountInquiry(
            file=file, run=run, data=known.data, question=question, bounds=bounds
        )
        with self._journal.transaction():
            table = self._table(known, None)
            history = self._original().plus(*table)
            _check_ledger_inquiry_rate(
                history.of(known.data), new, _ledger_timestamp(when)
            )
            old = history.inquiries
            self._write([*table, *([] if new in old else [new])], when)
        try:
            yield tuple(
                one for one in old if one.question == question and one.bounds != bounds
            )
        except InvalidInputError as error:
            refusal = RefusedFile(file=file, data=known.data, reason=error.plain[:500])
            with self._journal.transaction():
                self._write([refusal], when)
            raise

    def objected(
        self, run: str, data: str, *, reason: str, when: str | None = None
    ) -> None:
        """Count an objection in the middle of a run as a refusal of its file.

        Args:
            run: its name.
            data: keyed fingerprint of this party's data.
            reason: the words that every party hears.
            when: a time stamp.
        """
        with self._journal.transaction():
            history = self._caught_up()
            files = (one.file for one in history.inquiries if one.run == run)
            refusal = RefusedFile(file=next(files, run), data=data, reason=reason[:500])
            if refusal not in history.refusals:
                self._write([refusal], when)

    def charge(
        self,
        charge: Charge,
        *,
        releases: Iterable[KnownSum] = (),
        when: str | None = None,
    ) -> AccountDecision:
        """Record an epoch, and what it will release, before anything of it is sent.

        When this returns, the record is on disk. The same epoch again costs nothing.

        Raises:
            BudgetError: the rules refuse; nothing was recorded, nothing may be sent.
            LedgerError: the file could not be written; nothing may be sent.
        """
        return self._admit([charge, *releases], when)[0]

    def check(
        self,
        *wanted: Wish,
        known: LedgerDataKey | None = None,
        look: Look | None = None,
    ) -> tuple[AccountDecision, ...]:
        """Ask about a run before anybody begins it; nothing is recorded.

        Raises:
            BudgetError: the rules would refuse.
        """
        with self._journal.transaction("BEGIN"):
            run = next(
                (one for one in wanted if isinstance(one, AccountReservation)), None
            )
            table = self._table(known, None if run is None else run.limits)
            return tuple(self._decided(wanted, beside=table, look=look))

    def release(
        self, *releases: KnownSum, when: str | None = None
    ) -> tuple[AccountDecision, ...]:
        """Record exact aggregates before they become known: all of them, or none.

        Raises:
            BudgetError: the rules refuse one of them; none was recorded.
            LedgerError: the file could not be written.
        """
        return self._admit(releases, when)

    def change_budget(self, budget: Budget, *, when: str | None = None) -> None:
        """Put another budget in force; the ledger keeps the old ones on record."""
        with self._journal.transaction():
            self._write([budget], when)

    def fingerprint(self, *parts: ReadableBuffer) -> str:
        """Return a keyed fingerprint of arrays or bytes, types and shapes included.

        Equal within this ledger for equal parts, unrelated in any other ledger. Only
        bytes count: 0.0 and -0.0 differ, and so do 1 and 1.0.
        """
        flat = [piece for part in parts for piece in _flatten_ledger_array(part)]
        return self._journal.keyed_hash(*flat)

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            known = self.history()
        except LedgerError:
            return f"<Ledger {self.path}: closed or unreadable>"
        return (
            f"<Ledger {self.path}: {len(known.charges)} charges, "
            f"{len(known.releases)} releases>"
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._journal.__reduce_ex__(protocol)

    def _caught_up(self) -> AccountHistory:
        """Return the history with what other processes have written since."""
        self._history = self._history.plus(*self._journal.news(_ledger_entry_of_record))
        return self._history

    def _original(self) -> AccountHistory:
        """Return the history; refuse a copy that nobody has said to use."""
        found = self._caught_up()
        if found.copied is not None:
            raise BudgetError(
                f"{self.path} is a copy of {found.copied}, put back from a backup: "
                "what was shown since then is not in it, and would be allowed once "
                "more. Nothing was sent; veilsum backup resume says what to do",
                code="ledger-is-copy",
            )
        return found

    def resume(
        self, statement: str, *, uncounted: Sequence[str] = (), when: str | None = None
    ) -> None:
        """Use a copy from now on; what its owner says of the time between is kept."""
        with self._journal.transaction():
            if self._caught_up().copied is None:
                raise LedgerError(
                    f"{self.path} is no copy, and needs no such word",
                    code="ledger-not-copy",
                )
            self._write(
                [AccountResumed(statement=statement, uncounted=tuple(uncounted))], when
            )

    def _keyed(self, part: bytes) -> bytes:
        return bytes.fromhex(self._journal.keyed_hash(part))

    def _admit(
        self, wanted: Sequence[Charge | KnownSum], when: str | None
    ) -> tuple[AccountDecision, ...]:
        """Decide about entries in order; write those that are news, or none."""
        with self._journal.transaction():
            decisions = self._decided(wanted)
            pairs = zip(wanted, decisions, strict=True)
            self._write([entry for entry, found in pairs if found.is_news], when)
        return tuple(decisions)

    def _write(self, entries: Iterable[Entry], when: str | None) -> None:
        """Append entries; inside a transaction."""
        self._journal.append(
            _ledger_record_of_entry(_stamp_ledger_entry(entry, when))
            for entry in entries
        )

    def _decided(
        self,
        wanted: Iterable[Wish],
        *,
        beside: Iterable[Entry] = (),
        look: Look | None = None,
    ) -> list[AccountDecision]:
        """Return what the rules say about entries, one after the other."""
        known, decisions = self._original().plus(*beside), []
        for entry in wanted:
            decision = decide_ledger_entry(known, entry, known.budget)
            if decision.outcome == "refused":
                raise BudgetError(decision.reason, code="budget-exceeded")
            # What is reserved was looked at then, and all that came later beside it.
            if (
                look is not None
                and isinstance(entry, AccountReservation)
                and entry.run not in known.pending
            ):
                look(known.of(entry.data).questions(but=entry.run))
            known = known.plus(entry) if decision.is_news else known
            decisions.append(decision)
        return decisions

    def _table(self, known: LedgerDataKey | None, run: RunLimits | None) -> list[Entry]:
        """Return data that are new here; refuse a table that is nearly an old one."""
        if known is None:
            return []
        history = self._caught_up()
        kept = {(one.data, one.columns) for one in history.versions}
        declared = {one.data for one in history.declared}
        same = _same(history, known)
        others = [one for one in history.data_sets if one != known.data]
        taken_for = () if same else tuple(others)
        if run is not None and (found := _too_near(history, known)) is not None:
            cuts = {one.data: one.name for one in history.cuts}
            words = found.sentence(cuts.get(found.data, ""))
            raise BudgetError(words, code="cut-too-near")
        news: list[Entry] = [
            self._version(known, columns, same=tuple(same), taken_for=taken_for)
            for columns in _ledger_columns_of_run(known, run)
            if (known.data, columns) not in kept
        ]
        if known.is_new and known.data not in declared:
            news.append(NewData(data=known.data))
        return news

    def _version(
        self,
        known: LedgerDataKey,
        columns: tuple[str, ...],
        *,
        same: tuple[str, ...],
        taken_for: tuple[str, ...],
    ) -> AccountTableVersion:
        """Return what is kept of data; of the whole, which others they belong to."""
        prints = known.prints
        if prints is None:
            made = AccountTableVersion(
                data=known.data,
                columns=(),
                n_rows=0,
                rows="",
                sketches=(),
                is_whole=True,
            )
        else:
            shapes = (prints.shapes.get(one) for one in columns)
            made = AccountTableVersion(
                data=known.data,
                columns=columns,
                n_rows=prints.n_rows,
                rows=row_fingerprints_text(prints.rows(columns)),
                sketches=tuple(prints.sketches[one].to_text() for one in columns),
                shapes=tuple(one.to_text() for one in shapes if one is not None),
                is_whole=columns == prints.columns,
            )
            if prints.people is not None:
                contents = row_fingerprints_text(prints.contents(columns))
                made = replace(made, contents=contents)
            if prints.people is not None and made.is_whole:
                made = replace(made, people=row_fingerprints_text(prints.people))
        if not made.is_whole:
            return made
        return replace(made, same=same, taken_for=taken_for)


def _ledger_columns_of_run(
    known: LedgerDataKey, run: RunLimits | None
) -> tuple[tuple[str, ...], ...]:
    """Return all columns of a table, and in a run those that it asks about."""
    whole = () if known.prints is None else known.prints.columns
    alone = run is None or known.prints is None or known.asked == whole
    return (whole,) if alone else (whole, known.asked)


def open_ledger(path: str | Path, *, create: Budget | None = None) -> Ledger:
    """Open a party's ledger.

    Args:
        path: the file.
        create: the budget of a new ledger if there is no file. A ledger that exists
            must have this budget already; `Ledger.change_budget` changes it openly.

    Raises:
        LedgerError: there is no such file, it is damaged, or it is not a ledger. It
            is left as it is.
        BudgetError: the ledger has another budget than `create`.
    """
    place = Path(path)
    if create is not None and not place.exists():
        create_journal(
            place, [_ledger_record_of_entry(_stamp_ledger_entry(create, None))]
        )
    ledger = Ledger(open_journal(place, _ledger_entry_of_record))
    if create is not None and ledger.budget != create:
        found = ledger.budget
        ledger.close()
        raise BudgetError(
            f"{place} has {found}, not {create}: open it without create; "
            "change_budget puts another budget in force",
            code="other-budget",
        )
    return ledger


def read_ledger(path: str | Path) -> AccountHistory:
    """Return a ledger's history without the right to write.

    Raises:
        LedgerError: there is no such file, it is damaged, or it is not a ledger.
    """
    return AccountHistory().plus(*read_journal(Path(path), _ledger_entry_of_record))


def copy_ledger(path: Path, to: Path, *, when: str | None = None) -> None:
    """Write a copy of a ledger, while others may use it, that knows that it is one.

    Raises:
        LedgerError: there is no sound ledger, or something is in the copy's place.
    """
    if to.exists():
        raise LedgerError(
            f"{to} is there already and is left as it is", code="file-exists"
        )
    read_journal(path, _ledger_entry_of_record)
    with (
        inspect_sqlite_file(path, LEDGER) as source,
        sqlite_transaction(source, "BEGIN"),
    ):
        key = source.execute("SELECT key FROM secret").fetchone()
        rows = source.execute("SELECT kind, body FROM journal ORDER BY id").fetchall()

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO secret VALUES (?)", key)
        for kind, body in rows:
            connection.execute(_ADD, (kind.decode(), body.decode()))
        _insert_ledger_records(
            connection,
            [_ledger_record_of_entry(_stamp_ledger_entry(AccountCopied(), when))],
        )

    create_sqlite_file(to, LEDGER, fill)


def _ledger_timestamp(when: str | None) -> str:
    return when or datetime.now(UTC).isoformat(timespec="seconds")


def _stamp_ledger_entry(entry: Entry, when: str | None) -> Entry:
    return replace(entry, when=when or entry.when or _ledger_timestamp(None))


def _people(history: AccountHistory) -> dict[str, str]:
    """Return by table the ids in it, of tables that had any."""
    return {one.data: one.people for one in history.versions if one.people}


def _fingerprints_from_ledger(
    version: AccountTableVersion, people: Mapping[str, str]
) -> KeptFingerprints:
    sketches = tuple(ColumnSketch.of_text(text) for text in version.sketches)
    shapes = tuple(ColumnSketch.of_text(text) for text in version.shapes)
    ids, contents = (
        read_row_fingerprints(text) if version.contents else None
        for text in (people.get(version.data, ""), version.contents)
    )
    rows = read_row_fingerprints(version.rows)
    return KeptFingerprints(
        *(version.columns, rows, sketches, shapes, ids, contents),
        is_whole=version.is_whole,
    )


def _same(history: AccountHistory, known: LedgerDataKey) -> list[str]:
    """Return earlier tables about some of the same people."""
    if known.prints is None:
        return []
    people = _people(history)
    return [
        one.data
        for one in history.versions
        if one.is_whole
        and one.data != known.data
        and _fingerprints_from_ledger(one, people).shares_rows(known.prints)
    ]


def _too_near(history: AccountHistory, known: LedgerDataKey) -> TooNear | None:
    """Return a table that was asked about and from which this one differs in few.

    Tables are compared in the columns that were asked about, and people as a whole.
    """
    least, people = history.budget.minimum_rows, _people(history)
    if known.prints is None:
        return None
    is_new = known.is_new or known.data in {one.data for one in history.declared}
    near = {*_same(history, known)}
    known_sums = [(one.data, one.columns) for one in history.releases]
    asked = {*known_sums, *((one.data, one.columns) for one in _open(history))}
    tables = {data for data, _ in asked}
    for one in reversed(history.versions):
        if one.data not in tables or one.data == known.data or not one.columns:
            continue
        if (near or is_new) and one.data not in near:
            continue
        kept, in_question = (
            _fingerprints_from_ledger(one, people),
            (one.data, one.columns) in asked,
        )
        if not in_question and not (one.is_whole and kept.shares_people(known.prints)):
            continue
        found = kept.difference(known.prints, known.asked)
        if not in_question:
            # Values of other columns may change.
            found = replace(found, changed=0)
        if found.is_small(least):
            return TooNear(one.data, found, least, one.when or "")
    return None


def _open(history: AccountHistory) -> Iterator[AccountReservation]:
    """Yield what runs have reserved that have not come to their end."""
    pending = history.pending
    return (one for one in history.reservations if one.run in pending)


def _check_ledger_inquiry_rate(
    known: AccountHistory, new: AccountInquiry, now: str
) -> None:
    """Refuse to look at one file more if many came to nothing, or asked the same.

    An objection in the middle of a run is a refusal too, whatever was shown before.
    """
    since = (datetime.fromisoformat(now) - timedelta(days=1)).isoformat()
    late = [one for one in known.inquiries if (one.when or "") > since]
    shown = {one.run for one in known.releases}
    idle = {one.file: one.when for one in late if one.run not in shown}
    idle |= {one.file: one.when for one in known.refusals if (one.when or "") > since}
    if len(idle) >= FRUITLESS_FILES and new.file not in idle:
        raise BudgetError(
            f"{len(idle)} files that ask about this data set were refused, or came to "
            "nothing, within a day. "
            f"{_NOT_LOOKED_AT} {min(when or '' for when in idle.values())}",
            code="too-many-refusals",
        )
    same = {one.bounds: one.when for one in late if one.question == new.question}
    if len(same) >= SAME_QUESTIONS and new.bounds not in same:
        raise BudgetError(
            f"{len(same)} files asked the same of this data set within a day, each "
            "with other ranges, row counts or rules. "
            f"{_NOT_LOOKED_AT} {min(when or '' for when in same.values())}",
            code="too-many-variants",
        )


_NOT_LOOKED_AT = (
    "Whoever sees which files are refused learns about the data, so that this one is "
    "not looked at until a day after"
)


def _ledger_record_of_entry(entry: Entry) -> Record:
    return _KINDS[type(entry)], asdict(entry)


def _ledger_entry_of_record(kind: str, body: dict[str, Any]) -> Entry:
    try:
        return _READERS[kind](body)
    except (KeyError, TypeError, InvalidInputError) as error:
        raise LedgerError(
            f"the ledger holds a {kind} that this veilsum cannot read ({error}); it is "
            "left as it is: use the version that wrote it",
            code="unreadable-entry",
        ) from None


def _charge_from_ledger(body: dict[str, Any]) -> Charge:
    exposures = tuple(_exposure_from_ledger(inner) for inner in body.pop("exposures"))
    return Charge(**_ledger_body_with_tuples(body), exposures=exposures)


def _exposure_from_ledger(body: dict[str, Any]) -> Exposure:
    parts = tuple(
        GuaranteeComponent(**_ledger_body_with_tuples(inner))
        for inner in body.pop("components")
    )
    return Exposure(**_ledger_body_with_tuples(body), components=parts)


def _reservation_from_ledger(body: dict[str, Any]) -> AccountReservation:
    limits = RunLimits(**body.pop("limits"))
    return AccountReservation(**_ledger_body_with_tuples(body), limits=limits)


def _plain_ledger_reader(kind: type[Entry]) -> Callable[[dict[str, Any]], Entry]:
    return lambda body: kind(**_ledger_body_with_tuples(body))


# What entries are called on disk.
_KINDS: dict[type[Entry], str] = {
    Charge: "charge",
    KnownSum: "release",
    Budget: "budget",
    AccountReservation: "reservation",
    AccountSettlement: "settlement",
    AccountTableVersion: "version",
    DataCut: "cut",
    ForgottenCut: "forgotten cut",
    NewData: "new data",
    AccountInquiry: "inquiry",
    RefusedFile: "refusal",
    AccountCopied: "copy",
    AccountResumed: "resumption",
}
_READERS: dict[str, Callable[[dict[str, Any]], Entry]] = {
    **{name: _plain_ledger_reader(kind) for kind, name in _KINDS.items()},
    "charge": _charge_from_ledger,
    "reservation": _reservation_from_ledger,
}


def _ledger_body_with_tuples(body: dict[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in body.items()
    }


def _flatten_ledger_array(
    part: ReadableBuffer,
) -> tuple[bytes | memoryview, bytes | memoryview]:
    """Return what kind of array it is, and its bytes, copied only if they must be."""
    try:
        view = memoryview(part)
    except (TypeError, ValueError, BufferError):
        raise InvalidInputError(
            f"a fingerprint is made of bytes or arrays of numbers, found a "
            f"{type(part).__name__}: encode it first",
            code="not-fingerprintable",
        ) from None
    if view.format == "O" or view.format.startswith("T{"):
        raise InvalidInputError(
            "a fingerprint is made of arrays of one plain type, found objects or "
            "records: give each column by itself",
            code="not-plain-array",
        )
    kind = f"{view.format}{view.shape}".encode()
    try:
        return kind, view.cast("B")
    except (TypeError, ValueError):
        return kind, view.tobytes()
