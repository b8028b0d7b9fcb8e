"""Facts about a plan that need no party's data, for reviewers.

A scenario, a consortium file, the file of a study, and the folder of a finished run all
give the same facts, by the functions that parties themselves use. No table is opened,
and in a run's folder only the receipt and the agreed file: everything here may be shown
to anybody who may see the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log1p, sqrt
from pathlib import Path
from typing import Literal, TypeAlias

from veilsum.consortium.consortium import Consortium
from veilsum.consortium.study import AgreedStudy, runs_of_agreement
from veilsum.errors import InvalidInputError, VeilsumError, printable
from veilsum.files.consortiums import read_agreement, read_described_file
from veilsum.files.scenarios import read_toml_file
from veilsum.net.receipt import verify_receipts
from veilsum.party.consent import consent_to
from veilsum.party.own_rules import Value, relaxed_rules, rules_in_force
from veilsum.party.run_folder import OF_ALL, SUFFIXES, RunFolder
from veilsum.party.study_page import study_privacy_total
from veilsum.sums.kinds import Asked, question_kind_of, resolve_agreed_question
from veilsum.sums.presence import (
    PresenceCells,
    PresenceCrossedCells,
    PresenceGroup,
    PresenceScreenedRecipe,
    PresenceValues,
    PresenceVaryingColumns,
)
from veilsum.sums.recipes import GuardedRecipe, open_limits_of_recipe
from veilsum.sums.releases import BY_PARTY
from veilsum.sums.terms import SumTerms
from veilsum.surveys.terms import SurveyTerms, survey_terms

Kind: TypeAlias = Literal["plan", "consortium", "study", "run"]
# Chances for which it is said how far apart two inputs have to be.
CHANCES = (0.51, 0.6, 0.75, 0.9)


@dataclass(frozen=True, kw_only=True)
class SumFacts:
    """One kind of round, in which sums become known.

    Attributes:
        statistics: how many sums of each kind are in it, by key.
        first: whether it is the first round of a fit.
        least: how many such rounds there are at least.
        most: and at most.
        drops: whether rows with a missing value are left out.
    """

    statistics: Mapping[str, int]
    first: bool
    least: int
    most: int
    drops: bool


@dataclass(frozen=True, kw_only=True)
class CountedGroup:
    """Something that members are counted by: who has any row there.

    Attributes:
        kind: what the places are: levels, values, bins, or cells of several columns;
            varying for columns in which rows of a member differ; other for what has a
            name of its own.
        columns: whose they are, or that name.
    """

    kind: str
    columns: tuple[str, ...]
    places: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class QuestionFacts:
    """One question of a plan.

    Attributes:
        name: in a study; else its heading.
        heading: which kind of question it is.
        summary: of its command; "" for the questions that are built in.
        counts_rows: whether counts of rows by level, bin or time are released.
        level_sums: whether sums over the rows of each level are released.
        combines: whether sums of products may count combinations that no round counts
            members by.
        formula: as it is written; "" if there is none.
        columns: of a table that are looked at.
        levels: by column that is a category, its levels.
        by_level: those of these whose levels have sums of their own among all sums,
            plain ones without weights.
        sums: everything that becomes known.
        most_sums: how many sums there are at most; rules may leave room for fewer than
            all kinds of them come to.
        counted: what members are counted by before all else, place by place.
        holders: how many members must have each of these, but for none; 0 where nobody
            is counted.
        by_party: whether a member's numbers are made of all its rows at once.
        iterates: whether masked costs are minimised in rounds of messages.
        own_limits: what is not hidden for this kind of question, as its page says.
        consent: digest of the page that members agree to.
    """

    name: str
    heading: str
    summary: str
    counts_rows: bool
    level_sums: bool
    combines: bool
    formula: str
    columns: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    by_level: tuple[str, ...]
    sums: tuple[SumFacts, ...]
    most_sums: int
    most_numbers: int
    counted: tuple[CountedGroup, ...]
    holders: int
    by_party: bool
    iterates: bool
    own_limits: tuple[str, ...]
    consent: str


@dataclass(frozen=True, kw_only=True)
class SurveyFacts:
    """Facts about a survey: a table that guests fill, and members add up."""

    terms: SurveyTerms

    @property
    def closed(self) -> bool:
        return self.terms.tally is not None

    @property
    def invited(self) -> Mapping[str, int]:
        found = Counter(guest.invited_by for guest in self.terms.guests)
        return {name: found[name] for name in self.terms.names}

    @property
    def counted(self) -> tuple[int, ...]:
        """The same, of a closed survey those in the set alone."""
        tally = self.terms.tally
        return (*self.invited.values(),) if tally is None else tally.invited

    @property
    def most_totals(self) -> int:
        """Number of released totals; while the survey is open, the maximum."""
        return len(self.terms.released) if self.closed else self.terms.n_cells

    def at_worst(self, colluding: int) -> int:
        """Return how many guests are honest if so many members collude."""
        return self.terms.left(self.counted, colluding)


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """End of a run, according to one member's receipt.

    Attributes:
        party: the member that signed the receipt.
        parties: parties that took part to the end.
        lost: parties lost before any masked vector was shown.
        started: time of the start, by that member's clock.
        failed: failed checks of the receipt; if there are any, trust none of this.
    """

    party: str
    parties: tuple[str, ...]
    lost: tuple[str, ...]
    started: str
    finished: str
    version: str
    failed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """Everything about a plan that is said to a data-protection officer.

    Attributes:
        file: the name of what they were read from.
        run: its name; "" for a plan that has none yet.
        digest: of the file that members compare; "" for a plan.
        organiser: the member that wrote the file, by its own word; "" if it is silent.
        tolerate: what is promised holds while so many pool what they saw.
        drop: whether the others may go on without a member that is lost.
        sums_only: whether masks hide everything but sums.
        epsilon: of all sums of the plan together; None if no bound holds.
        rules: every rule about tables and members, by name.
        off: those of them that refuse nothing.
        influence_alone: the most that one row may have on a single column.
        least_left_in_a_sum: the least part that a row must leave to others.
        relaxed: those that are weaker than usual, with the usual value.
        on_tables: whether rules look at tables at all.
        single: whether a table has one row at most, and so a row is a member.
        relays: how many relays the members may meet at.
        by_files: whether they meet through files only.
        questions: what is asked, in order.
        ended: how it ended, where it did.
        survey: who else gives data, where guests do; then nobody's table is asked for.
    """

    kind: Kind
    file: str
    title: str
    run: str
    digest: str
    organiser: str
    parties: tuple[str, ...]
    links: int
    tolerate: int
    minimum_honest: int
    drop: bool
    fewest: int
    sums_only: bool
    epsilon: float | None
    rules: Mapping[str, Value]
    off: tuple[str, ...]
    influence_alone: float
    least_left_in_a_sum: float
    relaxed: Mapping[str, tuple[Value, Value]]
    on_tables: bool
    single: bool
    relays: int
    by_files: bool
    questions: tuple[QuestionFacts, ...]
    ended: RunEnd | None = None
    survey: SurveyFacts | None = None

    def __hash__(self) -> int:
        return hash((self.digest, self.parties, self.title))

    @property
    def drawn(self) -> bool:
        """Whether there is a file that members compare; a plan has none yet."""
        return self.kind != "plan"

    @property
    def summed(self) -> tuple[str, ...]:
        """Whom the sums are over, if nobody (more) is lost."""
        return self.parties if self.ended is None else self.ended.parties

    @property
    def may_lose(self) -> bool:
        return self.drop and self.ended is None

    @property
    def site_terms(self) -> bool:
        """Whether sums over one member's rows alone may become known."""
        return bool(self.rules.get("site_terms"))

    @property
    def holders(self) -> int:
        """Minimum number of members that any counted level must have; 0 without any."""
        return max((one.holders for one in self.questions), default=0)

    @property
    def counted(self) -> tuple[CountedGroup, ...]:
        """Groups by which members are counted, from all questions without repeats."""
        found = {(g.kind, g.columns): g for one in self.questions for g in one.counted}
        return tuple(found.values())

    @property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        return {
            name: found for one in self.questions for name, found in one.levels.items()
        }

    @property
    def formulas(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(one.formula for one in self.questions if one.formula)
        )

    @property
    def combines(self) -> bool:
        """Whether sums of products may count what no round counts members by."""
        return any(one.combines for one in self.questions)

    @property
    def within(self) -> tuple[QuestionFacts, ...]:
        """The questions that compare rows within each member's table only."""
        return tuple(
            one
            for one in self.questions
            if any(group.kind == "varying" for group in one.counted)
        )

    @property
    def counts(self) -> bool:
        """Whether rows are counted by levels, cells or bins, whatever else is asked."""
        return any(one.counts_rows for one in self.questions)

    @property
    def counts_only(self) -> bool:
        return all(one.counts_rows for one in self.questions)

    @property
    def level_sums(self) -> bool:
        """Whether every question releases sums over the rows of each level."""
        return all(one.level_sums for one in self.questions)

    @property
    def others_questions(self) -> Mapping[str, str]:
        """The summaries of questions of other distributions, by heading."""
        return {one.heading: one.summary for one in self.questions if one.summary}

    @property
    def by_level(self) -> tuple[str, ...]:
        """Categories of which sums over the rows of each level become known."""
        return tuple(dict.fromkeys(c for one in self.questions for c in one.by_level))

    @property
    def all_linked(self) -> bool:
        n = len(self.parties)
        return 2 * self.links == n * (n - 1)

    @property
    def by_party(self) -> bool:
        """Whether some question's numbers are made of all of a member's rows."""
        return any(one.by_party for one in self.questions)

    @property
    def iterates(self) -> bool:
        """Whether some question is answered in rounds of messages."""
        return any(one.iterates for one in self.questions)

    @property
    def columns(self) -> tuple[str, ...]:
        """Everything that is looked at in one question or another."""
        return tuple(dict.fromkeys(c for one in self.questions for c in one.columns))

    @property
    def headings(self) -> frozenset[str]:
        return frozenset(one.heading for one in self.questions)

    @property
    def most_sums(self) -> int:
        """Maximum number of sums, over all questions."""
        return sum(one.most_sums for one in self.questions)

    @property
    def most_numbers(self) -> int:
        return sum(one.most_numbers for one in self.questions)

    def others(self, together: int = 1) -> int:
        """Return over how many others so many members know the sums."""
        return len(self.summed) - together

    @cached_property
    def distances(self) -> tuple[tuple[float, float], ...]:
        """By chance of the best guess, how far apart two inputs are at least.

        The inputs have equal sums; how far apart they are is how much members' own
        numbers change, in the sum in which they change most. Empty where masks leave
        nothing to guess from.
        """
        if not self.epsilon:
            return ()
        return tuple((one, _reach_in_plan_facts(self.epsilon, one)) for one in CHANCES)


def _reach_in_plan_facts(epsilon: float, chance: float) -> float:
    """Return the distance below which no guess is right so often.

    It inverts `lattice_success`, which holds for every law: of its two bounds on the
    variation the smaller one counts.
    """
    variation = 2.0 * chance - 1.0
    divergence = max(2.0 * variation**2, -log1p(-(variation**2)))
    return sqrt(divergence / epsilon)


def plan_facts_of(path: Path) -> PlanFacts:
    """Return the facts of a plan: a file, or the folder of a finished run.

    Raises:
        InvalidInputError: it is none, or nobody could take part in it.
    """
    if path.is_dir():
        return _facts_of_folder(path)
    if "survey" in (table := read_toml_file(path)) and "members" not in table:
        raise InvalidInputError(
            f"{path} is the plan of a survey, which has no guests yet: veilsum collect "
            "new makes the open file of it, of which there is an officer's paper",
            code="survey-plan-without-guests",
        )
    agreed, drawn = read_described_file(path)
    kind: Kind = "plan"
    if drawn:
        kind = "study" if isinstance(agreed, AgreedStudy) else "consortium"
    return replace(_plan_facts(agreed, kind), file=printable(path.name))


def _facts_of_folder(path: Path) -> PlanFacts:
    ran = RunFolder(path)
    if ran.receipt is None:
        found = [
            one
            for one in ran.files
            if one.suffix in SUFFIXES and _file_is_plan_agreement(one)
        ]
        if len(found) != 1:
            raise InvalidInputError(
                f"{path} is the folder of no finished run: it has no receipt.json, and "
                f"{len(found)} files that a consortium or a study agreed on are in it "
                "or around it; name one of these files instead",
                code="unfinished-run",
            )
        return plan_facts_of(found[0])
    if ran.agreed is None:
        raise InvalidInputError(
            f"{path} has a receipt of {ran.run}, and the consortium file of that run "
            "is neither in the folder nor around it: put a copy of it there",
            code="missing-consortium-file",
        )
    # The receipt beside the file, and no key, result or transcript: nothing else of the
    # folder is for an officer.
    receipt = ran.receipt
    verdict = verify_receipts([receipt], ran.agreed[1])
    ended = RunEnd(
        party=receipt.party,
        parties=receipt.parties,
        lost=receipt.lost,
        started=receipt.started,
        finished=receipt.finished,
        version=printable(receipt.version),
        failed=tuple(
            one.check
            for one in verdict.findings
            if not one.good and one.check not in OF_ALL
        ),
    )
    return replace(
        _plan_facts(ran.agreed[1], "run", ended), file=printable(ran.agreed[0].name)
    )


def _file_is_plan_agreement(path: Path) -> bool:
    try:
        read_agreement(path)
    except VeilsumError:
        return False  # another kind of file
    return True


def _plan_facts(
    agreed: Consortium | AgreedStudy, kind: Kind, ended: RunEnd | None = None
) -> PlanFacts:
    runs = runs_of_agreement(agreed)
    first, asked = runs[0], [resolve_agreed_question(one) for one in runs]
    names = (
        list(agreed.questions)
        if isinstance(agreed, AgreedStudy)
        else [first.question.heading]
    )
    terms, drawn = asked[0].terms, kind != "plan"
    questions = tuple(
        _question_plan_facts(name, one, drawn=drawn)
        for name, one in zip(names, asked, strict=True)
    )
    survey = None
    if question_kind_of(first.question).has_guests:
        survey = SurveyFacts(terms=survey_terms(first))
    rules, table_rules = rules_in_force(first), asked[0].rules
    unused = set.intersection(
        *(set(question_kind_of(one.question).unused_rules) for one in runs)
    )
    return PlanFacts(
        kind=kind,
        file="",
        title=printable(agreed.title),
        run=agreed.run if drawn else "",
        digest=agreed.digest.hex() if drawn else "",
        organiser=agreed.organiser,
        parties=tuple(first.topology.parties),
        links=len(first.topology.edges),
        # Machines of a survey's members count these; guests are counted otherwise.
        tolerate=terms.tolerate if survey is None else survey.terms.tolerate,
        minimum_honest=terms.policy.minimum_honest,
        drop=terms.policy.drop,
        fewest=terms.policy.fewest(first.topology.n_parties),
        sums_only=terms.law.masks.kind.sums_only,
        epsilon=_epsilon_in_plan_facts(
            agreed, [one.terms for one in asked], questions[0].most_sums, ended
        ),
        rules={name: value for name, value in rules.items() if name not in unused},
        off=() if table_rules is None else tuple(table_rules.off),
        influence_alone=0.0 if table_rules is None else table_rules.influence_alone,
        least_left_in_a_sum=(
            0.0 if table_rules is None else table_rules.least_left_in_a_sum
        ),
        relaxed=relaxed_rules(first),
        on_tables=table_rules is not None,
        single=table_rules is not None and table_rules.maximum_rows == 1,
        relays=0 if first.relays is None else len(first.relays.places),
        by_files=drawn and first.by_files,
        questions=questions,
        ended=ended,
        survey=survey,
    )


def _question_plan_facts(name: str, found: Asked, *, drawn: bool) -> QuestionFacts:
    recipe, question = found.recipe, found.question
    page = consent_to(found.consortium, drawn=drawn)
    kind, counted = (
        question_kind_of(question),
        recipe if isinstance(recipe, PresenceScreenedRecipe) else None,
    )
    groups = tuple(map(_counted_group_in_plan_facts, counted.groups)) if counted else ()
    multiplied = sum(
        one.kind != "varying"
        and (kind.multiplied is None or one.kind in kind.multiplied)
        for one in groups
    )
    asked = recipe if counted is None else counted.inner
    asked = asked.inner if isinstance(asked, GuardedRecipe) else asked
    own = (*open_limits_of_recipe(recipe), *kind.limits(found))
    agreed = found.consortium.schema
    schema = {} if agreed is None else {one.name: one for one in agreed.columns}
    drops = agreed is not None and agreed.missing == "drop"
    iterates = recipe.round_size > 0
    levels = {
        name: schema[name].categories
        for name in page.facts["columns"]
        if name in schema and schema[name].is_category
    }
    plain = any("gram" in one.statistics for one in recipe.foreseen) and not (
        getattr(question, "weights", None) or getattr(question, "propensity", None)
    )
    return QuestionFacts(
        name=name,
        heading=question.heading,
        summary=printable(kind.command.get("summary", "")),
        counts_rows=kind.counts_rows,
        level_sums=kind.level_sums,
        combines=multiplied > 1,
        formula=printable(getattr(question, "formula", "")),
        columns=tuple(page.facts["columns"]),
        levels=levels,
        by_level=tuple(levels) if plain else (),
        sums=tuple(
            SumFacts(
                statistics=dict(one.statistics),
                first=one.when == "first",
                least=one.least,
                most=one.most,
                drops=drops,
            )
            for one in recipe.foreseen
        ),
        most_sums=page.facts["rounds"][1],
        most_numbers=page.facts["numbers"][1],
        counted=groups,
        holders=counted.least if counted else 0,
        # Numbers of which nobody's rows are the parts are a member's own making.
        by_party=found.rules is None or getattr(asked, "wording", None) is BY_PARTY,
        iterates=iterates,
        own_limits=own,
        consent=page.digest,
    )


def _counted_group_in_plan_facts(group: PresenceGroup) -> CountedGroup:
    kind = group.name.partition(" of ")[0]
    if isinstance(group, PresenceCells):
        columns = group.columns
    elif isinstance(group, PresenceCrossedCells):
        columns = tuple(one.column for one in group.axes)
    elif isinstance(group, PresenceValues):
        columns = (group.column,)
    elif isinstance(group, PresenceVaryingColumns):
        kind, columns = "varying", (group.name,)
    else:  # what one kind of question counts, with a name of its own
        kind, columns = "other", (group.name,)
    return CountedGroup(kind=kind, columns=columns, places=group.places)


def _epsilon_in_plan_facts(
    agreed: Consortium | AgreedStudy,
    terms: Sequence[SumTerms],
    most_sums: int,
    ended: RunEnd | None,
) -> float | None:
    """Return what all sums together leave open; the most sums that there may be."""
    if all(one.law.masks.kind.sums_only for one in terms):
        return 0.0  # whoever is left: those who could be separated never begin
    if isinstance(agreed, AgreedStudy):
        pages = {
            name: consent_to(one, drawn=False) for name, one in agreed.questions.items()
        }
        return study_privacy_total(agreed, pages).epsilon
    left = terms[0].parties if ended is None else ended.parties
    one = terms[0].promise(left)
    bound = one.epsilon if one.worst is None else one.worst.epsilon_upper
    return None if bound is None else bound * most_sums
