"""A party takes part in what its consortium agreed on, with data of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from veilsum.consortium.consortium import (
    AgreedMinimisation,
    Consortium,
    canonical_agreement_json,
    plain_agreement_value,
)
from veilsum.drivers.driver import Driver
from veilsum.errors import InvalidInputError
from veilsum.files.cuts import TableSource
from veilsum.files.ledger import Ledger
from veilsum.files.scenarios import read_toml_file
from veilsum.files.tables import agreed_table
from veilsum.locale import phrase
from veilsum.minimise.party_cost import PartyCost
from veilsum.minimise.question import Minimised
from veilsum.numbers.arrays import listed_names
from veilsum.numbers.secrets import Secret, hide_secrets_in_errors
from veilsum.party.cuts import ChosenCut, CutChooser
from veilsum.sums.job_file import JobFile, question_job_of
from veilsum.sums.kinds import agreed_question_of
from veilsum.sums.running import SumJobResult
from veilsum.tables.fingerprints import FingerprintSource
from veilsum.tables.frames import Frame, as_frame
from veilsum.tables.rules import Rules
from veilsum.tables.schema import changed_values_lines

if TYPE_CHECKING:
    from veilsum.party.own_survey import OwnSurvey

# What a party checks before anybody hears of it: what it brings, and its books.
TABLE_AND_LEDGER = ("table", "ledger")


@contextmanager
def count_party_refusals(
    consortium: Consortium,
    source: FingerprintSource | tuple[bytes, ...],
    ledger: Ledger | None,
    *,
    new_data: bool = False,
) -> Iterator[None]:
    """Keep count of refusals while a file of others is held against own data."""
    if ledger is None:
        yield
        return
    with ledger.inquiry(
        source,
        file=consortium.digest.hex(),
        run=consortium.run,
        question=consortium.question_digest,
        bounds=consortium.bounds,
        new_data=new_data,
    ):
        yield


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PartyTableInput(Secret):
    """A party's table for a job.

    Attributes:
        name: of the file, for the screen.
        table: the rows; None until a data cut of the ledger is chosen.
        new_data: whether it is about other people than all data before.
        path: the file; None for a table in memory.
        how: how the file is written.
        id_column: the column that says who a row is about.
        cut: the data cut that the owner named.
        chosen: the data cut that is asked; None before it is chosen.
    """

    checks: ClassVar[tuple[str, str]] = TABLE_AND_LEDGER

    consortium: Consortium
    name: str
    table: Frame
    new_data: bool = False
    path: Path | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    id_column: str | None = None
    cut: str | None = None
    chosen: ChosenCut | None = None

    def on_cut(
        self, ledger: Ledger | None, party: str, asked: Sequence[Consortium] = ()
    ) -> PartyTableInput:
        """Return the same with the rows of the data cut that may be asked about.

        Args:
            ledger: the party's ledger; without one the table is taken as it is.
            party: its name.
            asked: the questions of a study; by default this one.
        """
        if self.chosen is not None:
            return self
        if ledger is None:
            if self.cut is None:
                return self
            raise InvalidInputError(
                f"--cut {self.cut} names a data cut of a ledger, and no ledger was "
                "given: add --ledger FILE",
                code="cut-without-ledger",
            )
        chosen = CutChooser(
            ledger=ledger,
            party=party,
            asked=asked or (self.consortium,),
            schema=self.consortium.schema,
            id_column=self.id_column,
            new_data=self.new_data,
        ).choose(
            None
            if self.table is None
            else TableSource(self.table, self.path, self.how),
            self.cut,
        )
        return replace(self, table=chosen.frame, chosen=chosen)

    @property
    def words(self) -> str:
        rows, columns = self.table.shape
        size = {"name": self.name, "rows": rows, "columns": columns}
        if self.consortium.schema is None:
            return phrase("consent", "data.table", **size)
        agreed = self.consortium.schema
        here = [name for name in agreed.names if name in self.table.columns]
        whole = int(agreed.complete_rows(self.table).sum())
        return phrase(
            "consent",
            "data.agreed_table",
            here=len(here),
            agreed=len(agreed.names),
            missing=rows - whole,
            **size,
        )

    @property
    def lines(self) -> Iterator[str]:
        yield from _party_input_lines(self)
        yield from () if self.chosen is None else self.chosen.lines

    @property
    def changes(self) -> tuple[str, ...]:
        """Lines for the table's owner about rounded and recoded values; never sent."""
        schema = self.consortium.schema
        question, kind = agreed_question_of(self.consortium)
        if schema is None:
            return changed_values_lines(kind.rounded(question, self.table), {})
        return changed_values_lines(*schema.changes(self.table))

    @property
    def rules(self) -> Rules | None:
        """Agreed rules for tables; None if the question has none."""
        schema = self.consortium.schema
        return None if schema is None else schema.rules(self.consortium.rules.rules)

    def job(self, party: str, **options: Any) -> JobFile:
        return question_job_of(self.consortium, {party: self.table}, **options)

    @hide_secrets_in_errors()
    def run(
        self, driver: Driver, ledger: Ledger | None, *, rules: Rules | None = None
    ) -> SumJobResult:
        """Check the table against what was agreed, then take part.

        `rules` are others than those, to see what each of them says; they are in the
        plan that parties compare, and nobody could take part with them.
        """
        party = driver.party
        assert party is not None
        ledgers = {} if ledger is None else {party: ledger}
        other = {} if rules is None else {"rules": rules}
        source, new = FingerprintSource(self.table, ()), self.new_data
        with count_party_refusals(self.consortium, source, ledger, new_data=new):
            job = self.job(party, driver=driver, ledgers=ledgers, new_data=new)
            return job.run(**other)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PartyCostInput(Secret):
    """A party's cost.

    Attributes:
        new_data: whether it is about other people than all data before.
    """

    checks: ClassVar[tuple[str, str]] = TABLE_AND_LEDGER

    consortium: Consortium
    name: str
    entries: Mapping[str, Any]
    new_data: bool = False

    @property
    def words(self) -> str:
        question = self.consortium.question
        assert isinstance(question, AgreedMinimisation)
        kind, unit = question.cost.kind, self._part.unit
        return phrase("consent", "data.cost", name=self.name, kind=kind, unit=unit)

    @property
    def lines(self) -> Iterator[str]:
        yield from _party_input_lines(self)

    @property
    def changes(self) -> tuple[str, ...]:
        """Lines for the cost's owner about rounded values; never sent."""
        return (self._part.rounded,) if self._part.rounded else ()

    @property
    def rules(self) -> None:
        """Nothing is agreed about tables where there is none."""

    @hide_secrets_in_errors()
    def run(self, driver: Driver, ledger: Ledger | None) -> Minimised:
        """Check the cost against what was agreed, then take part."""
        content = (
            canonical_agreement_json(plain_agreement_value(self.entries, "cost")),
        )
        with count_party_refusals(
            self.consortium, content, ledger, new_data=self.new_data
        ):
            return self._part.run(driver, ledger, new_data=self.new_data)

    @cached_property
    def _part(self) -> PartyCost:
        return PartyCost.of(self.consortium, self.entries)


def _party_input_lines(part: PartyTableInput | PartyCostInput) -> Iterator[str]:
    yield part.words
    yield from part.changes
    yield phrase("consent", "data.never_sent")


# What a party may bring.
OwnPart: TypeAlias = "PartyTableInput | PartyCostInput | OwnSurvey"


def on_cut(part: OwnPart, ledger: Ledger | None, party: str) -> OwnPart:
    """Return what a party brings; of a table, the data cut that may be asked about."""
    return part.on_cut(ledger, party) if isinstance(part, PartyTableInput) else part


@hide_secrets_in_errors()
def party_contribution(
    consortium: Consortium,
    *,
    data: Any = None,
    cost: Path | Mapping[str, Any] | None = None,
    new_data: bool = False,
    id: str | None = None,
    cut: str | None = None,
    **how: Any,
) -> OwnPart:
    """Return what a party brings; refuse what is of the wrong kind, or nothing.

    Args:
        consortium: what was agreed on.
        data: its table: a file, or a table in memory as `as_frame` takes it; of a
            survey a folder, see `OwnSurvey`.
        cost: its cost: a TOML file, or the entries of one.
        new_data: whether they are about other people than all data before.
        id: the column of the table that says who a row is about.
        cut: the data cut of the ledger to ask, or "newest"; the table may be left out.
        **how: how a file with a table is written, by the party's own word, as
            `agreed_table` takes it.
    """
    question, kind = agreed_question_of(consortium)
    if kind.input == "folder":
        # Here, not above: others do without what opens seals.
        from veilsum.party.own_survey import own_survey

        return own_survey(consortium, data, cost)
    on_cost = kind.input == "cost"
    given: Any = cost if on_cost else data
    wanted = "--cost" if on_cost else "--data"
    if given is None and cut is not None and not on_cost and cost is None:
        return PartyTableInput(consortium=consortium, name=cut, table=None, cut=cut)
    if on_cost and (id is not None or cut is not None):
        raise InvalidInputError(
            "--id and --cut are about tables, and this consortium asks for a cost: "
            "leave them out",
            code="cut-of-cost",
        )
    if given is None or (data is not None and cost is not None):
        what = "its own cost" if on_cost else "its own table"
        raise InvalidInputError(
            f"this consortium has a [{question.heading}]: a party gives {what} with "
            f"{wanted} FILE, and nothing else",
            code="wrong-input-option",
        )
    is_file = isinstance(given, str | Path)
    name = Path(given).name if is_file else phrase("consent", "data.in_memory")
    if how and not is_file:
        raise InvalidInputError(
            f"{listed_names([*how])} says how a file is written, and this is a table "
            "in "
            "memory: leave it out",
            code="format-option-unused",
        )
    if on_cost:
        entries = read_toml_file(Path(given)) if is_file else given
        return PartyCostInput(
            consortium=consortium, name=name, entries=entries, new_data=new_data
        )
    schema = consortium.schema
    table = agreed_table(given, schema, **how) if is_file else as_frame(given)
    return PartyTableInput(
        consortium=consortium,
        name=name,
        table=table,
        new_data=new_data,
        path=Path(given) if is_file else None,
        how=how,
        id_column=id,
        cut=cut,
    )
