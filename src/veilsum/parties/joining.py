"""A party takes part in what its consortium agreed on, with data of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import clear_frames
from typing import Any

from veilsum import __version__
from veilsum.agreement.consortium import Consortium
from veilsum.agreement.scenario import JOB_COMMANDS
from veilsum.drivers.driver import Assignment
from veilsum.errors import InvalidInputError
from veilsum.files.ledger import Ledger
from veilsum.files.scenarios import read_toml
from veilsum.files.tables import read_table
from veilsum.jobs.job_file import JobFile, job_of
from veilsum.jobs.minimise import Minimised
from veilsum.jobs.running import JobResult
from veilsum.net.receipt import Receipt, make_receipt
from veilsum.numbers.arrays import listed
from veilsum.numbers.secrets import Secret
from veilsum.parties.networked import Networked
from veilsum.parties.party_cost import PartyCost
from veilsum.privacy.guarantee import Guarantee
from veilsum.protocol.codec import Codec
from veilsum.tables.frames import Frame
from veilsum.tables.schema import Schema


@contextmanager
def discreet() -> Iterator[None]:
    """Let an error out without the variables on its way: they hold private data.

    Whoever reports a crash may write down the variables of every call.
    """
    try:
        yield
    except BaseException as error:
        _forget_variables(error)
        raise


def _forget_variables(error: BaseException | None) -> None:
    """Empty the calls that an error, and those before it, passed through."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OwnTable(Secret):
    """A party's table for a job.

    Attributes:
        name: of the file, for the screen.
        kind: of the job.
    """

    consortium: Consortium
    name: str
    kind: Any
    table: Frame

    @property
    def words(self) -> str:
        """What this is, for the screen."""
        rows, columns = self.table.shape
        found = f"{self.name}: {rows} rows, {columns} columns"
        if "schema" not in self.consortium.sections:
            return found
        schema = Schema.from_table(self.consortium.sections["schema"])
        agreed = [one.name for one in schema.columns]
        here = [name for name in agreed if name in self.table.columns]
        whole = len(self.table.dropna(subset=here))
        return (
            f"{found}; {len(here)} of {len(agreed)} agreed columns are there; "
            f"{rows - whole} rows with missing values"
        )

    def job(self, party: str, **options: Any) -> JobFile:
        """Return the job, with this party's table only."""
        return job_of(self.consortium, self.kind, {party: self.table}, **options)

    @discreet()
    def run(self, driver: Networked, ledger: Ledger | None) -> JobResult:
        """Check the table against what was agreed, then take part."""
        ledgers = {} if ledger is None else {driver.party: ledger}
        return self.job(driver.party, driver=driver, ledgers=ledgers).run()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OwnCost(Secret):
    """A party's cost."""

    consortium: Consortium
    name: str
    entries: Mapping[str, Any]

    @property
    def words(self) -> str:
        """What this is, for the screen."""
        cost = self.consortium.sections["cost"]
        return f"{self.name}: a cost of kind {cost['kind']}"

    @discreet()
    def run(self, driver: Networked, ledger: Ledger | None) -> Minimised:
        """Check the cost against what was agreed, then take part."""
        return PartyCost.of(self.consortium, self.entries).run(driver, ledger)


@discreet()
def own_part(
    consortium: Consortium,
    *,
    data: Path | None = None,
    cost: Path | None = None,
    decimal: str = ".",
    separator: str = ",",
) -> OwnTable | OwnCost:
    """Return what a party brings; refuse a file of the wrong kind, or none."""
    kind = next((name for name in JOB_COMMANDS if name in consortium.sections), "cost")
    wanted, given = ("--cost", cost) if kind == "cost" else ("--data", data)
    if given is None or (data is not None and cost is not None):
        what = "its own cost" if kind == "cost" else "its own table"
        raise InvalidInputError(
            f"this consortium has a [{kind}]: a party gives {what} with {wanted} FILE, "
            "and nothing else"
        )
    if kind == "cost":
        entries = read_toml(given)
        return OwnCost(consortium=consortium, name=given.name, entries=entries)
    schema = consortium.sections.get("schema")
    codes = () if schema is None else Schema.from_table(schema).categorical
    how = {"decimal": decimal, "separator": separator, "text": codes}
    table = read_table(given, **how)  # type: ignore[arg-type]
    return OwnTable(consortium=consortium, name=given.name, kind=kind, table=table)


def promise_shown(task: Assignment) -> Guarantee:
    """Return a promise for the screen: what everybody learns, then what colluders do.

    Colluders know what they gave themselves, and so the sum of the others.
    """
    promise, who = task.promise, task.promise.corrupted
    knowing = f"with what {listed(who)} {'knows' if len(who) == 1 else 'know'}: "
    view = [f"{knowing}{line}" for line in promise.released if who]
    return replace(promise, released=(*task.shown, *view))


def receipt_of(driver: Networked, result: JobResult) -> Receipt:
    """Return what this party signs about a run that has ended."""
    ending, plan = driver.ending, driver.plan
    assert ending is not None
    assert ending.finish is not None
    assert plan is not None
    members = set(ending.finish.parties)
    near = plan.topology.neighbours(driver.party)
    return make_receipt(
        driver.identity,
        run=driver.consortium.run,
        plan=plan.digest.hex(),
        consortium=driver.consortium.digest.hex(),
        parties=list(ending.finish.parties),
        lost=list(ending.lost),
        epochs=list(ending.epochs),
        confirmed=[name for name in near if name in members],
        result=Codec.digest(ending.finish.result).hex(),
        released=list(result.shown),
        guarantee=result.guarantee.to_dict(),
        started=ending.notes["began"],
        finished=ending.notes["ended"],
        version=__version__,
    )
