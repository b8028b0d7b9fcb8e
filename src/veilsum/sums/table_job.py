"""Questions to tables: what each of them says, and the one order in which it is asked.

A `TableJob` is what all parties know of a question, without anybody's data: what is
summed, who must hold what, what it comes to at home. `resolve_table_job_question` turns
it into a recipe and terms, by agreed numbers alone; `run_on_rows` puts it to the tables
that are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np

from veilsum.disclosure.merging import Merging
from veilsum.drivers.driver import DriverOutput
from veilsum.errors import InvalidInputError
from veilsum.locale import limit_phrase
from veilsum.numbers.arrays import Array, FloatArray, listed_names
from veilsum.numbers.units import Integers, UnitCounts
from veilsum.sums.own_influence import (
    FEWEST_LOOKED_AT,
    MOST_LOOKED_AT,
    ROWS_PER_NUMBER,
    AskedTable,
    LookedAtRows,
    OwnInfluence,
    own_influence_on_sums,
)
from veilsum.sums.presence import (
    PresenceGroup,
    PresenceScreenedRecipe,
    contribution_to_recipe,
    places_with_rows,
    presence_screened_recipe,
    presence_sum_size,
)
from veilsum.sums.prices import ReleasePrice
from veilsum.sums.proposals import (
    Changes,
    propose_absorbing,
    propose_budget,
    propose_changes,
)
from veilsum.sums.recipes import (
    GuardedRecipe,
    Recipe,
    SumContribution,
    open_limits_of_recipe,
)
from veilsum.sums.releases import REBUILT, SumReleaseLimit
from veilsum.sums.running import ComparedSumResult, run_sum_job
from veilsum.sums.terms import SumOptions, SumTerms, parties_data_by_name
from veilsum.tables.asked import TableAsking, TableQuestion
from veilsum.tables.columns import SchemaError
from veilsum.tables.fingerprints import FingerprintSource
from veilsum.tables.frames import Frame, as_frame
from veilsum.tables.rules import DisclosureError, Rules, TableRulesAtHome
from veilsum.tables.schema import CheckedTable, Schema

# Rows times released numbers up to which a result shows influence unasked.
QUICK = 2_000_000
SCHEMA_READ = limit_phrase("schema_read")

RECODES_NUMBERS = (
    "The dictionary recodes numbers ({}); parties would have to allow that: recodings "
    "= true in veilsum.toml"
)

# What one party's table comes to, ready to be asked: its rows, or the table itself.
Own = TypeVar("Own")
R = TypeVar("R", bound="TableJobResult")
# Finds the influence of a party's rows on the sums of some requests.
InfluenceOnRequests: TypeAlias = Callable[[Sequence[Any]], OwnInfluence]


class TableJob(ABC, Generic[Own]):
    """A question to tables; public, and the same for all parties."""

    # What becomes known with the numbers, since it follows from them.
    follows: ClassVar[str] = "the answer"

    @property
    @abstractmethod
    def groups(self) -> tuple[PresenceGroup, ...]:
        """Groups of places with possibly few holders, which the first sum counts."""

    @property
    @abstractmethod
    def numbers_in_a_row(self) -> int:
        """Row width, of which a fraction may become known."""

    @property
    @abstractmethod
    def agreed(self) -> Mapping[str, Any]:
        """Terms that parties compare, besides those of the sum."""

    @property
    def n_columns(self) -> int:
        """Width of its design, which honest rows have to support; 0 without one."""
        return 0

    @property
    def least_honest(self) -> int:
        """Sums over fewer honest parties would tell one from another."""
        return 0

    @property
    def question(self) -> TableQuestion | None:
        return None

    @abstractmethod
    def recipe(self, limit: SumReleaseLimit | None = None) -> Any:
        """Return what parties do."""

    @abstractmethod
    def n_rows(self, own: Own) -> int:
        """Return how many rows a party has to give."""

    def check_parties(self, rules: Rules, terms: SumTerms) -> None:
        """Refuse what so few parties, or such masks, must not be asked for."""

    def check(self, party: str, own: Own) -> None:
        """Refuse what does not fit the question, whatever the rules are."""

    @abstractmethod
    def check_at_home(self, home: TableRulesAtHome, own: Own) -> None:
        """Refuse a table of which the answer would show too much."""

    @abstractmethod
    def look(self, own: Own, at: Any) -> Array[Any]:
        """Return the column that a group is about."""

    @abstractmethod
    def answer(self, own: Own, request: Any) -> Array[Any]:
        """Return what one party gives."""

    def targets(self, merging: Merging) -> Array[Any]:
        """Return for each number of a sum the place of its block's total."""
        del merging
        raise NotImplementedError

    def contributions(self, own: Own, request: Any) -> FloatArray | None:
        """Return each row's part of a sum, in units; None if it is not known."""
        del own, request
        return None

    @property
    def merged_places(self) -> Sequence[int]:
        """Return places of a sum at which small cells merge, in the usual way."""
        return ()

    def together(self, own: Mapping[str, Own]) -> tuple[Any, list[Integers]]:
        recipe, sums = self.recipe(), list[Integers]()
        while (request := recipe.request(sums)) is not None:
            parts = [self.answer(part, request) for part in own.values()]
            sums.append(np.sum(parts, axis=0))
        return recipe, sums

    def pooled(self, own: Mapping[str, Own]) -> Any:
        recipe, sums = self.together(own)
        return recipe.answer(sums)


class SchemaTableJob(TableJob[Own]):
    """A question to tables that have an agreed schema."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Schema of the columns in use; tables may lack other columns."""

    @property
    def asked_about(self) -> dict[str, Any]:
        """Its columns, for `TableQuestion`; the number of rows is not part of it."""
        return replace(self.schema, minimum_rows=1, maximum_rows=None).to_table()

    @property
    @abstractmethod
    def question(self) -> TableQuestion | None:
        """Sums over rows that are shown, for the ledger; None: it compares nothing."""

    @abstractmethod
    def bring(self, table: CheckedTable) -> Own:
        """Return what a checked table comes to."""

    @property
    def absorbing_parties(self) -> SchemaTableJob[Any] | None:
        """The question with an intercept for every party; None if not allowed."""
        return None

    def published(self, rules: Rules) -> tuple[tuple[str, ...], ...]:
        """Return column sets of which tables of large cells are all that is released.

        Args:
            rules: with which small cells merge.
        """
        del rules
        return ()

    def read_off(self, own: Mapping[str, Own]) -> Self:
        """Return the job with what nobody agreed on, as only a simulation finds it."""
        return self


@dataclass(frozen=True, kw_only=True, eq=False)
class ResolvedQuestion:
    """A question as agreed numbers alone decide it.

    Attributes:
        recipe: what parties do.
    """

    recipe: Recipe
    terms: SumTerms
    rules: Rules


def check_table_job_width(job: SchemaTableJob[Any], rules: Rules, honest: int) -> None:
    """Refuse a design that is too wide for its rows while it is still a formula.

    A few letters can stand for thousands of columns, and each two of these for a number
    with a unit: they are counted before any of that is worked out. Whoever may be
    dropped makes it stricter, later.
    """
    if honest < 1 or not job.n_columns:  # for other words
        return
    rules.check_design(job.n_columns, honest)
    # X'WX alone, of rows that hold no more than the columns they are made of.
    limit = SumReleaseLimit(
        honest=honest,
        columns=len(job.schema.columns),
        minimum_rows=rules.minimum_rows,
        fraction=rules.release_fraction,
    )
    limit.check(job.n_columns * (job.n_columns + 1) // 2)


def resolve_table_job_question(
    job: TableJob[Any], rules: Rules, terms_of: Callable[[UnitCounts], SumTerms]
) -> ResolvedQuestion:
    """Return how a question is asked under some rules.

    Raises:
        DisclosureError: nobody may answer it: no table is looked at for that.
    """
    groups = () if rules.site_terms else job.groups
    terms = terms_of(presence_screened_recipe(job.recipe(), groups).counts)
    objecting = terms.law.sums_only and job.recipe().most_rounds > 1
    if objecting:
        terms = terms_of(
            presence_screened_recipe(GuardedRecipe(job.recipe()), groups).counts
        )
    rules.check_honest(job.least_honest, terms.honest)
    if job.n_columns:
        rules.check_design(job.n_columns, terms.honest)
    job.check_parties(rules, terms)
    limit = SumReleaseLimit.of(
        rules, job.numbers_in_a_row, terms, presence_sum_size(groups)
    )
    inner = job.recipe(limit)
    recipe = presence_screened_recipe(
        GuardedRecipe(inner) if objecting else inner,
        groups,
        terms.tolerate,
        enough=rules.minimum_count,
        parties=len(terms.parties),
        targets=job.targets,
    )
    return ResolvedQuestion(recipe=recipe, terms=terms, rules=rules)


@dataclass(frozen=True, kw_only=True, eq=False)
class TableAnswer(ResolvedQuestion):
    """Released output of a question, and the question as resolved.

    Attributes:
        influences: by local party, finds the influence of its rows on sums.
    """

    released: DriverOutput
    influences: Mapping[str, InfluenceOnRequests]

    def made(
        self,
        result: Callable[..., R],
        job: TableJob[Own],
        own: Mapping[str, Own] | None,
    ) -> R:
        """Return a result; with all tables, the answer without masks is beside it."""
        return result(
            terms=self.terms,
            recipe=self.recipe,
            released=self.released,
            rules=self.rules,
            job=job,
            reference=None if own is None else job.pooled(own),
            # Real parties look at their influence at home, before they take part.
            influences={} if self.terms.is_real else self.influences,
        )


def check_before_sending(
    job: TableJob[Own],
    own: Mapping[str, Own],
    rules: Rules,
    terms_of: Callable[[UnitCounts], SumTerms],
    looked_at: Mapping[str, LookedAtRows] | None = None,
) -> tuple[ResolvedQuestion, dict[str, InfluenceOnRequests]]:
    """Return how a question is asked, and the influence of rows, if all rules allow it.

    Args:
        job: what is asked.
        own: by party, as far as they are here, what its table comes to.
        rules: what every party keeps to.
        terms_of: returns the terms of a sum.
        looked_at: each party's rows that must not stand out.

    Raises:
        InvalidInputError: somebody must not answer.
    """
    found = resolve_table_job_question(job, rules, terms_of)
    # What all can know comes first: such a refusal says nothing about a table.
    found.recipe.request(())
    for party, part in own.items():
        rules.check_rows(party, job.n_rows(part))
        job.check(party, part)
        job.check_at_home(TableRulesAtHome(party, rules), part)
    influences = dict[str, InfluenceOnRequests]()
    if isinstance(job, SchemaTableJob) and looked_at is not None:
        for party, one in looked_at.items():
            influences[party] = partial(influence_on_sums_of_job, job, one, found)
    if rules.maximum_influence < 1.0:
        for party, influence in influences.items():
            first = influence([job.recipe().request(())])
            TableRulesAtHome(party, rules).influence(first.by_column)
    return found, influences


def _terms_of_parties(
    parties: Sequence[str], options: SumOptions, counts: UnitCounts
) -> SumTerms:
    return SumTerms.of(list(parties), counts=counts, options=options)


def run_on_rows(
    job: TableJob[Own],
    own: Mapping[str, Own],
    *,
    sources: Mapping[str, FingerprintSource],
    rules: Rules,
    options: SumOptions,
    looked_at: Mapping[str, LookedAtRows] | None = None,
) -> TableAnswer:
    """Return what parties release to each other.

    Args:
        job: what is asked.
        own: by party, as far as they are here, what its table comes to.
        sources: what each party's ledger knows its data by.
        looked_at: each party's rows that must not stand out.
        rules: what every party keeps to.
        options: how to sum.

    Raises:
        InvalidInputError: somebody must not answer; nothing was sent.
    """
    terms_of = partial(_terms_of_parties, list(own), options)
    found, influences = check_before_sending(job, own, rules, terms_of, looked_at)
    question = job.question

    def contribution(party: str, part: Own) -> SumContribution:
        source, asking, home = sources[party], None, TableRulesAtHome(party, rules)
        if question is not None:
            asking = TableAsking(question, home, source.frame)
        answer = partial(home.weighed, partial(job.answer, part))
        given = SumContribution(answer, source, asking=asking)
        return contribution_to_recipe(found.recipe, given, partial(job.look, part))

    released = run_sum_job(
        found.recipe,
        {party: contribution(party, part) for party, part in own.items()},
        found.terms,
        agreed={**job.agreed, "rules": asdict(rules)},
    )
    return TableAnswer(
        recipe=found.recipe,
        terms=found.terms,
        rules=rules,
        released=released,
        influences=influences,
    )


def influence_on_sums_of_job(
    job: SchemaTableJob[Any],
    looked_at: LookedAtRows,
    asked: ResolvedQuestion,
    requests: Sequence[Any],
) -> OwnInfluence:
    """Return the influence of a party's rows on some sums of a question.

    Other parties have the agreed number of rows at least: with more of them totals are
    rounded more, and rows stand out less.
    """
    rules, others = asked.rules, max(0, asked.terms.honest - 1)
    merged = job.merged_places if rules.minimum_count > 1 else ()
    pooled = looked_at.n_rows + others * rules.minimum_rows
    # A column is multiplied by each of the others, the response and the weights.
    usual = max(FEWEST_LOOKED_AT, ROWS_PER_NUMBER * (job.n_columns + 4))
    by_column, covered = dict[str, float](), 0
    # With few rows, a column of which many numbers change is passed over.
    for most in sorted({min(usual, MOST_LOOKED_AT), MOST_LOOKED_AT}):
        table, copies = looked_at.some(most)
        told = AskedTable(job, table, requests, copies, merged, {*by_column})
        found = own_influence_on_sums([told], pooled)
        by_column, covered = (
            {**by_column, **found.by_column},
            max(covered, found.covered),
        )
        if copies is None or not found.passed_over:
            break
    return replace(found, by_column=by_column, covered=covered)


def open_limits_of_rules(rules: Rules) -> tuple[str, ...]:
    """Return in words what rules do not refuse, and the usual ones would."""
    # Said in full: site_terms is true where the rule against them is off.
    called = {"site_terms": "against site terms"}
    return tuple(
        limit_phrase(
            "rule_off",
            words={"called": called.get(name, name), "consequence": words},
            rule=name,
            value=str(getattr(rules, name)).lower(),
        )
        for name, words in rules.off.items()
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TableJobResult(ComparedSumResult):
    """Result of a question to tables.

    Attributes:
        rules: rules that every party applied.
        read_off: whether there was no agreed schema.
        influences: by party, finds the influence of its rows on sums; empty where
            parties are real.
    """

    job: Any
    rules: Rules
    read_off: bool = False
    influences: Mapping[str, InfluenceOnRequests] = field(default_factory=dict)

    @property
    def further_limits(self) -> tuple[str, ...]:
        """Limits that the rules leave open, and those of a schema without agreement."""
        read = (SCHEMA_READ,) if self.read_off else ()
        return (*super().further_limits, *open_limits_of_rules(self.rules), *read)

    @property
    def loosened(self) -> tuple[str, ...]:
        """Limits of loosened rules; with site terms, also those of these sums."""
        if not self.rules.site_terms:
            return open_limits_of_rules(self.rules)
        own = (line for line in open_limits_of_recipe(self.recipe) if line != REBUILT)
        return (*own, *open_limits_of_rules(self.rules))

    @cached_property
    def merging(self) -> Merging:
        """Blocks of places that were too small to be shown by themselves."""
        recipe = self.recipe
        if not isinstance(recipe, PresenceScreenedRecipe):
            return Merging()
        return recipe.merging(self.released.sums)

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out: only this sum is known."""
        recipe, (first, *_) = self.inner
        (left_out,) = first[recipe.first_layout.places["left_out"]]
        return int(left_out)

    @property
    def count(self) -> int:
        raise NotImplementedError

    @property
    def notes(self) -> tuple[str, ...]:
        """Permissions that real parties would have to give, after a simulation."""
        asked: TableQuestion | None = self.job.question
        if asked is None or not asked.recodings or self.terms.is_real:
            return ()
        return (RECODES_NUMBERS.format(listed_names(asked.recodings)),)

    @cached_property
    def price(self) -> ReleasePrice | None:
        """Bits that the sums release and that tables hold; None if not known.

        Honest parties are taken to have as many rows as others.
        """
        schema = getattr(self.job, "schema", None)
        if not isinstance(schema, Schema):
            return None
        try:
            rows = int(self.count)
        except NotImplementedError:  # parties are the rows
            return None
        honest = max(1, rows * self.terms.honest // len(self.terms.parties))
        pooled = rows + int(self.dropped)
        published = self.job.published(self.rules)
        return ReleasePrice.from_releases(
            self.releases, schema, pooled, honest, published
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: neither tables nor the influence of their rows."""
        own = {key: one for key, one in vars(self).items() if key != "influence"}
        return {**own, "influences": {}}

    @cached_property
    def influence(self) -> Mapping[str, OwnInfluence]:
        """Influence of each party's rows, in a simulation; empty for real parties."""
        if self.terms.is_real:
            return {}
        recipe, sums = self.inner
        requests = [recipe.request(sums[:k]) for k in range(len(sums))]
        return {name: one(requests) for name, one in self.influences.items()}

    @property
    def _quick_influence(self) -> Mapping[str, OwnInfluence]:
        """The influence, where it is computed in a moment."""
        if self.price is None:
            return {}
        numbers = sum(one.numbers for one in self.releases)
        return self.influence if numbers * int(self.count) < QUICK else {}

    @property
    def price_lines(self) -> tuple[str, ...]:
        """The price in words; in a simulation the largest influence of one person."""
        lines = [] if self.price is None else [self.price.line()]
        if found := self._quick_influence:
            lines.append(max(found.values(), key=lambda one: one.largest).line())
        return tuple(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; influence only in a simulation."""
        found = super().to_dict()
        price = None if self.price is None else self.price.to_dict()
        found["release_price"] = price
        if influence := self._quick_influence:
            found["influence"] = {k: one.to_dict() for k, one in influence.items()}
        return found

    @property
    def rows_sentence(self) -> str:
        left = f", {self.dropped} with missing values left out" if self.dropped else ""
        return f"{self.count} rows of {len(self.released.members)} parties{left}."


def run_on_frames(
    job_of: Callable[[Schema], SchemaTableJob[Any]],
    data: Mapping[str, Any],
    result: Callable[..., R],
    *,
    inferred: Callable[[Mapping[str, Frame]], Schema],
    schema: Schema | None,
    rules: Rules | None,
    compare: bool,
    options: SumOptions,
) -> R:
    """Return the result of a question to tables, whatever it is.

    Args:
        job_of: makes the question, of the schema.
        data: each party's table: pandas, polars, or a mapping of columns.
        result: makes what is returned.
        inferred: reads a schema off all tables, where none was agreed on.
        schema: what the tables were agreed to look like.
        rules: what every party keeps to beside what the schema says.
        compare: whether all rows are here, and are to be asked without masks as well.
        options: how to sum.
    """
    frames = {
        party: as_frame(table) for party, table in parties_data_by_name(data).items()
    }
    options = options.copy()
    derived = options.pop("derived", {})
    agreed = agreed_schema_of_table_job(
        schema, frames, options, inferred=partial(inferred, frames)
    )
    if schema is not None:
        agreed = agreed.with_derived(derived)
    prepare = partial(_prepare_tables, job_of, frames, options)
    try:
        kept = agreed.rules(rules or Rules())
        job, own, looked_at = prepare(agreed, kept)
        sources = {
            p: FingerprintSource(frame, job.schema.names) for p, frame in frames.items()
        }
        asked = run_on_rows(
            job,
            own,
            sources=sources,
            rules=kept,
            options=options,
            looked_at=looked_at,
        )
    except (DisclosureError, SchemaError) as refusal:
        _propose(refusal, job_of, frames, options, agreed, rules or Rules())
        raise
    found = asked.made(result, job, own if compare else None)
    return replace(found, read_off=schema is None)


def _prepare_tables(
    job_of: Callable[[Schema], SchemaTableJob[Any]],
    frames: Mapping[str, Frame],
    options: SumOptions,
    agreed: Schema,
    rules: Rules,
) -> tuple[SchemaTableJob[Any], dict[str, Any], dict[str, LookedAtRows]]:
    """Return a question, what each table comes to, and rows that must not stand out."""
    job = job_of(agreed)
    if simulated := is_simulated_sum(options):
        check_table_job_width(job, rules, len(frames) - options.get("tolerate", 1))
    # One party after another: a checked table is a copy, which `bring` may shorten.
    own, looked_at = dict[str, Any](), dict[str, LookedAtRows]()
    for party, frame in frames.items():
        table = job.schema.check(party, frame)
        looked_at[party] = LookedAtRows.of(table)
        own[party] = job.bring(table)
    return job.read_off(own) if simulated else job, own, looked_at


def _propose(
    refusal: DisclosureError | SchemaError,
    job_of: Callable[[Schema], SchemaTableJob[Any]],
    frames: Mapping[str, Frame],
    options: SumOptions,
    agreed: Schema,
    rules: Rules,
) -> None:
    """Let a refusal propose all changes that would lift it, as far as tables are here.

    A simulation has all tables, and also counts the parties that hold each level.
    """
    terms_of = partial(_terms_of_parties, [*frames], options)
    simulated = is_simulated_sum(options)

    def check(changes: Changes) -> None:
        rows = int(changes.get("minimum_rows", agreed.minimum_rows))
        schema = replace(agreed, minimum_rows=rows)
        others: dict[str, Any] = dict(changes)
        others.pop("minimum_rows", None)
        changed = schema.rules(replace(rules, **others))
        job, own, looked_at = _prepare_tables(job_of, frames, options, schema, changed)
        found, _ = check_before_sending(job, own, changed, terms_of, looked_at)
        if simulated and isinstance(found.recipe, PresenceScreenedRecipe):
            recipe = found.recipe
            parts = (
                places_with_rows(recipe.groups, partial(job.look, one), recipe.enough)
                for one in own.values()
            )
            recipe.check(np.sum([*parts], axis=0))
        if simulated:
            _check_weights_of_rounds(job, own, changed)

    fewest = _fewest_rows_to_use(job_of, frames, agreed)
    propose_changes(refusal, check, fewest)
    if isinstance(refusal, DisclosureError) and options.get("ledgers"):
        propose_budget(refusal)
    if isinstance(refusal, DisclosureError) and refusal.rule == "site_terms":
        absorbing = job_of(agreed).absorbing_parties
        if absorbing is None:
            return
        try:
            resolve_table_job_question(absorbing, agreed.rules(rules), terms_of)
        except InvalidInputError:
            return
        propose_absorbing(refusal)


def _check_weights_of_rounds(
    job: TableJob[Own], own: Mapping[str, Own], rules: Rules
) -> None:
    """Refuse a simulated question of which a round rests on few rows of a party."""
    homes = {party: TableRulesAtHome(party, rules) for party in own}
    recipe, sums = job.recipe(), list[Integers]()
    while (request := recipe.request(sums)) is not None:
        parts = [
            homes[party].weighed(partial(job.answer, part), request)
            for party, part in own.items()
        ]
        sums.append(np.sum(parts, axis=0))
    recipe.answer(sums)


def _fewest_rows_to_use(
    job_of: Callable[[Schema], SchemaTableJob[Any]],
    frames: Mapping[str, Frame],
    agreed: Schema,
) -> int:
    """Return the number of rows of the shortest table, as a question uses it."""
    rows = [len(frame) for frame in frames.values()]
    schema = replace(agreed, minimum_rows=1)
    try:
        schema = job_of(schema).schema
        return min(schema.check(party, one).n_rows for party, one in frames.items())
    except InvalidInputError:
        return min(rows)


def is_simulated_sum(options: SumOptions) -> bool:
    return getattr(options.get("driver"), "party", None) is None


def agreed_schema_of_table_job(
    schema: Schema | None,
    frames: Mapping[str, Frame],
    options: SumOptions,
    *,
    inferred: Callable[[], Schema],
) -> Schema:
    """Return what tables were agreed to look like; a simulation reads off the rest."""
    agreed = schema or inferred()
    # A real party sees its own table only.
    return agreed.measured(frames) if is_simulated_sum(options) else agreed
