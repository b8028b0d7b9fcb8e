"""Questions to tables: what each of them says, and the one order in which it is asked.

A `TableJob` is what all parties know of a question, without anybody's data: what is
summed, who must hold what, what it comes to at home. `prepared` turns it into a recipe
and terms, by agreed numbers alone; `ask` puts it to the tables that are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from veilsum.drivers.driver import Released
from veilsum.jobs.presence import Group, answering, screened, size_of
from veilsum.jobs.recipes import Contribution, Recipe
from veilsum.jobs.releases import ReleaseLimit
from veilsum.jobs.running import run_job
from veilsum.jobs.terms import Options, Terms
from veilsum.numbers.arrays import Array
from veilsum.numbers.units import Counts
from veilsum.tables.asked import Asking, Question
from veilsum.tables.fingerprints import Source
from veilsum.tables.frames import Frame
from veilsum.tables.rules import AtHome, Rules
from veilsum.tables.schema import CheckedTable, Schema

# What one party's table comes to, ready to be asked: its rows, or the table itself.
Own = TypeVar("Own")


class TableJob(ABC, Generic[Own]):
    """A question to tables; public, and the same for all parties."""

    # What becomes known with the numbers, since it follows from them.
    follows: ClassVar[str] = "the answer"
    # Sums over fewer honest parties would tell one from another.
    least_honest: ClassVar[int] = 0

    @property
    @abstractmethod
    def groups(self) -> tuple[Group, ...]:
        """What few parties might hold: it is asked first who does."""

    @property
    @abstractmethod
    def numbers_in_a_row(self) -> int:
        """What one row holds, of which a fraction may become known."""

    @property
    @abstractmethod
    def agreed(self) -> Mapping[str, Any]:
        """What parties compare beside how they sum."""

    @property
    def n_columns(self) -> int:
        """How wide its design is, which honest rows have to carry; 0 without one."""
        return 0

    @property
    def levels(self) -> Mapping[str, int]:
        """How many levels each of its categories has."""
        return {}

    @property
    def question(self) -> Question | None:
        """What is asked of a table, for the ledger of its owner."""
        return None

    @abstractmethod
    def recipe(self, limit: ReleaseLimit | None = None) -> Any:
        """Return what parties do."""

    @abstractmethod
    def n_rows(self, own: Own) -> int:
        """Return how many rows a party has to give."""

    def check_parties(self, rules: Rules, terms: Terms) -> None:
        """Refuse what so few parties, or such masks, must not be asked for."""

    def check(self, party: str, own: Own) -> None:
        """Refuse what does not fit the question, whatever the rules are."""

    @abstractmethod
    def check_at_home(self, home: AtHome, own: Own) -> None:
        """Refuse a table of which the answer would show too much."""

    @abstractmethod
    def look(self, own: Own, at: Any) -> Array[Any]:
        """Return the column that a group is about."""

    @abstractmethod
    def answer(self, own: Own, request: Any) -> Array[Any]:
        """Return what one party gives."""


class SchemaJob(TableJob[Own]):
    """A question to tables that have an agreed schema."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """What tables look like, as far as it matters: other columns may be missing."""

    @property
    def levels(self) -> Mapping[str, int]:
        """How many levels each category has that it uses."""
        used = (one for one in self.schema.columns if one.is_category)
        return {one.name: len(one.categories) for one in used}

    @property
    def asked_about(self) -> dict[str, Any]:
        """Its columns, for `Question`: how many rows there are is no part of it."""
        return replace(self.schema, minimum_rows=1, maximum_rows=None).to_table()

    @abstractmethod
    def bring(self, table: CheckedTable) -> Own:
        """Return what a checked table comes to."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A question as agreed numbers alone decide it.

    Attributes:
        recipe: what parties do.
        terms: how they sum.
        rules: what each of them keeps to.
    """

    recipe: Recipe
    terms: Terms
    rules: Rules


def check_width(job: SchemaJob[Any], rules: Rules, honest: int) -> None:
    """Refuse a design that is too wide for its rows while it is still a formula.

    A few letters can stand for thousands of columns, and each two of these for a number
    with a unit: they are counted before any of that is worked out. Whoever may be
    dropped makes it stricter, later.
    """
    rules.check_levels(job.levels)
    if honest < 1 or not job.n_columns:  # for other words
        return
    rules.check_design(job.n_columns, honest)
    # X'WX alone, of rows that hold no more than the columns they are made of.
    limit = ReleaseLimit(
        honest=honest,
        columns=len(job.schema.columns),
        minimum_rows=rules.minimum_rows,
        fraction=rules.release_fraction,
    )
    limit.check(job.n_columns * (job.n_columns + 1) // 2)


def prepared(
    job: TableJob[Any], rules: Rules, terms_of: Callable[[Counts], Terms]
) -> Prepared:
    """Return how a question is asked under some rules.

    Raises:
        DisclosureError: nobody may answer it: no table is looked at for that.
    """
    rules.check_levels(job.levels)
    groups = () if rules.site_terms else job.groups
    terms = terms_of(screened(job.recipe(), groups).counts)
    rules.check_honest(job.least_honest, terms.honest)
    if job.n_columns:
        rules.check_design(job.n_columns, terms.honest)
    job.check_parties(rules, terms)
    limit = ReleaseLimit.of(rules, job.numbers_in_a_row, terms, size_of(groups))
    recipe = screened(job.recipe(limit), groups, terms.tolerate)
    return Prepared(recipe=recipe, terms=terms, rules=rules)


@dataclass(frozen=True, kw_only=True, eq=False)
class TableAnswer(Prepared):
    """A question that was answered."""

    released: Released


def ask(
    job: TableJob[Own],
    own: Mapping[str, Own],
    *,
    sources: Mapping[str, Source],
    rules: Rules,
    options: Options,
) -> TableAnswer:
    """Return what parties release to each other.

    Args:
        job: what is asked.
        own: by party, as far as they are here, what its table comes to.
        sources: what each party's ledger knows its data by.
        rules: what every party keeps to.
        options: how to sum.

    Raises:
        InvalidInputError: somebody must not answer; nothing was sent.
    """

    def terms_of(counts: Counts) -> Terms:
        return Terms.of(list(own), counts=counts, options=options)

    found = prepared(job, rules, terms_of)
    # What all can know comes first: such a refusal says nothing about a table.
    found.recipe.request(())
    for party, part in own.items():
        rules.check_rows(party, job.n_rows(part))
        job.check(party, part)
        job.check_at_home(AtHome(party, rules), part)
    question = job.question

    def contribution(party: str, part: Own) -> Contribution:
        source, asking = sources[party], None
        if question is not None:
            asking = Asking(question, AtHome(party, rules), source.frame)
        given = Contribution(partial(job.answer, part), source, asking=asking)
        return answering(found.recipe, given, partial(job.look, part))

    released = run_job(
        found.recipe,
        {party: contribution(party, part) for party, part in own.items()},
        found.terms,
        agreed={**job.agreed, "rules": asdict(rules)},
    )
    return TableAnswer(
        recipe=found.recipe, terms=found.terms, rules=rules, released=released
    )


def is_simulated(options: Options) -> bool:
    """Say whether all parties are here."""
    return getattr(options.get("driver"), "party", None) is None


def agreed_schema(
    schema: Schema | None,
    frames: Mapping[str, Frame],
    options: Options,
    *,
    inferred: Callable[[], Schema],
) -> Schema:
    """Return what tables were agreed to look like; a simulation reads off the rest."""
    agreed = schema or inferred()
    # A real party sees its own table only.
    return agreed.measured(frames) if is_simulated(options) else agreed
