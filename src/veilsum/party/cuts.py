"""The data cut that a question is asked of: the newest that rule R1 allows.

A table that a few people more, fewer, or with other values tell from one that was asked
about is not refused. The question is asked of the earlier cut, and the owner, nobody
else, reads who waits for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from veilsum.consortium.consortium import Consortium
from veilsum.disclosure.populations import AskedCut, few_left_together, small_difference
from veilsum.errors import BudgetError
from veilsum.files.cuts import (
    NEWEST,
    TableSource,
    cut_of_name,
    cut_table,
    cuts_folder,
    has_rows,
    register_cut,
)
from veilsum.files.ledger import Ledger, LedgerDataKey, difference_words
from veilsum.locale import phrase
from veilsum.numbers.arrays import listed_names
from veilsum.numbers.secrets import Secret
from veilsum.privacy.accountant import DataCut
from veilsum.sums.kinds import agreed_sum_job
from veilsum.tables.asked import TableQuestion
from veilsum.tables.fingerprints import Difference, FingerprintSource, TableFingerprints
from veilsum.tables.frames import Frame
from veilsum.tables.schema import Schema


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ChosenCut(Secret):
    """The cut of a party's table that a question is asked of.

    Attributes:
        name: the owner's word for it.
        frame: its rows.
        notes: for the owner alone: its name, and where its rows were copied to.
        waits: for the owner alone: people who wait for the next cut.
    """

    name: str
    frame: Frame
    notes: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it, for the owner's screen."""
        return (*self.notes, *self.waits)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the owner's JSON."""
        return {"name": self.name, "waits": list(self.waits)}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Candidate(Secret):
    """A table that a question may be asked of, and its cut, if it is one already."""

    frame: Frame
    known: LedgerDataKey
    cut: DataCut | None


@dataclass(frozen=True, eq=False, repr=False)
class _Conflict(Secret):
    """An earlier cut beside which a table is not asked about."""

    data: str
    error: BudgetError


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CutChooser(Secret):
    """Chooses the cut for the questions of one file.

    Attributes:
        ledger: the party's ledger.
        party: its name.
        asked: the questions that are about to be asked.
        schema: the agreed columns.
        id_column: the column that says who a row is about.
        new_data: whether the owner says that the table is about other people.
    """

    ledger: Ledger
    party: str
    asked: Sequence[Consortium]
    schema: Schema | None
    id_column: str | None = None
    new_data: bool = False
    _conflicts: dict[str, _Conflict | None] = field(default_factory=dict)

    def choose(self, given: TableSource | None, name: str | None) -> ChosenCut:
        """Return the cut to ask; register the given table if it is used and is new.

        Args:
            given: the owner's table; None for one of the registered cuts.
            name: the cut that the owner named, or "newest".

        Raises:
            BudgetError: rule R1 allows none of them.
            InvalidInputError: there is no such cut.
        """
        mine = None if given is None else self._candidate(given.frame)
        if (begun := self._begun(mine)) is not None:
            return self._chosen(begun, None)
        if name not in (None, NEWEST):
            one = self._load(cut_of_name(self.ledger, str(name)), mine)
            if (conflict := self._conflict(one)) is not None:
                raise conflict.error
            return self._chosen(one, None)
        first: BudgetError | None = None
        for one in self._registered() if mine is None else self._following(mine):
            if (conflict := self._conflict(one)) is not None:
                first = first or conflict.error
                continue
            waiting = None if first is None else mine
            if one.cut is None:
                assert given is not None
                source = given if one is mine else TableSource(one.frame)
                registered = self._register(one, source)
                return self._chosen(registered, waiting, is_new=True)
            return self._chosen(one, waiting)
        raise first or BudgetError(
            f"{self.ledger.path} has no data cut with rows: give the table with "
            "--data FILE, or register it with veilsum data add",
            code="no-cuts",
        )

    def _registered(self) -> Iterator[_Candidate]:
        """Yield every cut whose rows are here, the newest first."""
        for cut in reversed(self.ledger.history().cuts):
            if has_rows(self.ledger, cut):
                yield self._load(cut, None)

    def _following(self, mine: _Candidate) -> Iterator[_Candidate]:
        """Yield a table, then the cut that stands against it, and so on."""
        one: _Candidate | None = mine
        tried = set[str]()
        while one is not None and one.known.data not in tried:
            yield one
            tried.add(one.known.data)
            conflict, one = self._conflict(one), None
            if conflict is not None:
                one = self._instead(mine, conflict.data)

    def _instead(self, mine: _Candidate, data: str) -> _Candidate | None:
        """Return the earlier cut; without a column that is asked about now, others.

        These are the rows of the table whose people are in the earlier cut.
        """
        cuts = reversed(self.ledger.history().cuts)
        same = (cut for cut in cuts if cut.data == data and has_rows(self.ledger, cut))
        one = None if (cut := next(same, None)) is None else self._load(cut, mine)
        if one is not None and len(one.known.asked) >= len(mine.known.asked):
            return one
        ids = None if mine.known.prints is None else mine.known.prints.ids
        people = self.ledger.people(data)
        if ids is None or people is None:
            return None
        still = mine.frame[np.isin(ids, people)]
        return self._candidate(still.reset_index(drop=True))

    def _begun(self, mine: _Candidate | None) -> _Candidate | None:
        """Return what a run that has begun is about: it goes on with that."""
        history = self.ledger.history()
        runs = [history.of_run(one.run) for one in self.asked]
        data = next((one.data for one in runs if one is not None), None)
        if data is None or (mine is not None and mine.known.data == data):
            return mine if data is not None else None
        cuts = [cut for cut in reversed(history.cuts) if cut.data == data]
        loaded = [cut for cut in cuts if has_rows(self.ledger, cut)]
        return self._load(loaded[0], None) if loaded else mine

    def _candidate(self, frame: Frame, cut: DataCut | None = None) -> _Candidate:
        columns = () if self.schema is None else self.schema.names
        asked = tuple(name for name in columns if name in frame.columns)
        source = FingerprintSource(
            frame, asked, self.id_column if cut is None else None
        )
        known = self.ledger.data(source, new_data=self.new_data)
        if cut is None:
            named = reversed(self.ledger.history().cuts)
            cut = next((one for one in named if one.data == known.data), None)
        return _Candidate(frame=frame, known=known, cut=cut)

    def _load(self, cut: DataCut, mine: _Candidate | None) -> _Candidate:
        """Return a cut with its rows, from its copy or as they were given."""
        if mine is not None and mine.known.data == cut.data:
            return mine
        return self._candidate(cut_table(self.ledger, cut, self.schema), cut)

    def _conflict(self, one: _Candidate) -> _Conflict | None:
        """Return a cut beside which rule R1 does not allow a table, and why."""
        if one.known.data in self._conflicts:
            return self._conflicts[one.known.data]
        self._conflicts[one.known.data] = found = self._find_conflict(one)
        return found

    def _find_conflict(self, one: _Candidate) -> _Conflict | None:
        names = {cut.data: cut.name for cut in self.ledger.history().cuts}
        near = self.ledger.too_near(one.known)
        if near is not None:
            words = near.sentence(names.get(near.data, ""))
            return _Conflict(near.data, BudgetError(words, code="cut-too-near"))
        now = self._questions()
        least = self.ledger.budget.minimum_rows
        before = [*self._asked_before(one.known)] if now else []
        if not before:
            return None
        prints = self._prints(one.frame)
        later = AskedCut(prints, tuple((new, one.frame) for new in now))
        earlier = list[AskedCut]()
        for cut, asked in before:
            # Both tables are compared as this question's schema reads them.
            frame = cut_table(self.ledger, cut, self.schema)
            earlier.append(AskedCut(self._prints(frame), self._read(cut, asked)))
            found = small_difference(earlier[-1], later, self.party, least)
            if found is None:
                continue
            words = phrase(
                "consent",
                "cut.populations" if found.words else "cut.population",
                difference=difference_words(Difference(found.new, found.gone)),
                cut=cut.name,
                columns=listed_names(found.words),
                least=least,
            )
            return _Conflict(cut.data, BudgetError(words, code="populations-too-near"))
        own = AskedCut(prints, self._asked_of(one))
        people = few_left_together(earlier, own, later, self.party, least)
        if not people:
            return None
        other = self._before(one.known.data, [cut for cut, _ in before])
        words = phrase("consent", "cut.together", n=people, cut=other.name, least=least)
        return _Conflict(other.data, BudgetError(words, code="populations-too-near"))

    def _before(self, data: str, cuts: Sequence[DataCut]) -> DataCut:
        """Return the newest cut before a table, or else the newest."""
        order = [one.data for one in self.ledger.history().cuts]
        place = order.index(data) if data in order else len(order)
        ranked = sorted(cuts, key=lambda cut: order.index(cut.data))
        older = [cut for cut in ranked if order.index(cut.data) < place]
        return (older or ranked)[-1]

    def _read(
        self, cut: DataCut, asked: Sequence[TableQuestion]
    ) -> tuple[tuple[TableQuestion, Frame], ...]:
        """Return questions, each with the rows of a cut as its schema reads them."""
        return tuple(
            (old, cut_table(self.ledger, cut, Schema.from_table(old.schema)))
            for old in asked
        )

    def _asked_of(self, one: _Candidate) -> tuple[tuple[TableQuestion, Frame], ...]:
        """Return what was asked of a table before."""
        asked = self._earlier_questions(one.known.data)
        if one.cut is not None and has_rows(self.ledger, one.cut):
            return self._read(one.cut, asked)
        return tuple((old, one.frame) for old in asked)

    def _asked_before(
        self, known: LedgerDataKey
    ) -> Iterator[tuple[DataCut, tuple[TableQuestion, ...]]]:
        """Yield other cuts of the same people, with rows, and what was asked."""
        history = self.ledger.history()
        cuts = {cut.data: cut for cut in history.cuts if has_rows(self.ledger, cut)}
        for other in dict.fromkeys(self.ledger.same_people(known)):
            if other in cuts and (asked := self._earlier_questions(other)):
                yield cuts[other], asked

    def _earlier_questions(self, data: str) -> tuple[TableQuestion, ...]:
        """Return what was asked about a table, except by the files of now."""
        history = self.ledger.history()
        runs = {one.run for one in self.asked}
        shown = {one.run for one in history.releases} | {*history.pending}
        texts = dict.fromkeys(
            one.question
            for one in history.reservations
            if one.data == data
            and one.question
            and one.run in shown
            and one.run not in runs
        )
        return tuple(map(TableQuestion.of_text, texts))

    def _questions(self) -> tuple[TableQuestion, ...]:
        jobs = (agreed_sum_job(one) for one in self.asked)
        made = (None if job is None else job.question for job in jobs)
        return tuple(one for one in made if one is not None)

    def _prints(self, frame: Frame) -> TableFingerprints:
        prints = self.ledger.data(FingerprintSource(frame, (), None)).prints
        assert prints is not None
        return prints

    def _register(self, one: _Candidate, given: TableSource) -> _Candidate:
        """Record a table that is used for the first time, under today's date."""
        today = datetime.now(UTC).date().isoformat()
        taken = {cut.name for cut in self.ledger.history().cuts}
        name = next(
            name
            for k in range(1, len(taken) + 2)
            if (name := today if k == 1 else f"{today}.{k}") not in taken
        )
        cut = register_cut(self.ledger, given, name, self.id_column)
        return _Candidate(frame=one.frame, known=one.known, cut=cut)

    def _chosen(
        self, one: _Candidate, waiting: _Candidate | None, *, is_new: bool = False
    ) -> ChosenCut:
        say = partial(phrase, "consent")
        notes, waits = list[str](), list[str]()
        if one.cut is not None:
            notes.append(say("cut.asked_of", name=one.cut.name))
        if one.cut is not None and is_new:
            folder = cuts_folder(self.ledger).name
            notes.append(say("cut.copied", folder=folder, name=one.cut.name))
            if not one.cut.id_column:
                notes.append(say("cut.by_content"))
        if waiting is not None:
            found = self.ledger.difference(one.known.data, waiting.known)
            words = "" if found is None else difference_words(found)
            key = "cut.waits" if words else "cut.waits_unknown"
            waits.append(say(key, difference=words))
        return ChosenCut(
            name="" if one.cut is None else one.cut.name,
            frame=one.frame,
            notes=tuple(notes),
            waits=tuple(waits),
        )
