"""Rehearsal of an agreed question, repeatable on synthetic rows.

An audit of sums needs to know the truth, but no party's data: so it draws synthetic
rows from the agreed schema, which is public, and computes the agreed question on them
as parties do. `AuditRehearsal.made_up` draws the rows, `AuditRehearsal.ask` computes.

A run releases integers. `RehearsedAnswer` holds them, and every party's contribution,
which only the auditor sees: an attack gets the totals alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from msgspec.structs import replace as replaced

from veilsum.consortium.consortium import AgreedMinimisation, Consortium
from veilsum.consortium.drafting import masks_between_members
from veilsum.consortium.kinds import QuestionSpec
from veilsum.consortium.sections import MasksSection
from veilsum.consortium.study import AgreedStudy
from veilsum.drivers.driver import (
    Driver,
    DriverAssignment,
    DriverOutput,
    GivenUpError,
    Sums,
)
from veilsum.errors import InvalidInputError, VeilsumError, printable
from veilsum.files.consortiums import (
    plan_of_scenario_file,
    read_agreement,
    read_consortium,
    read_study_plan,
)
from veilsum.files.ledger import Ledger
from veilsum.files.scenarios import read_scenario_file, read_toml_file
from veilsum.masks.laws import LAWS, MaskLaw, Masks
from veilsum.minimise.arrays import MethodArrays
from veilsum.minimise.party_cost import PartyCost
from veilsum.minimise.question import Minimised
from veilsum.numbers.arrays import Array, listed_names
from veilsum.numbers.layout import NumberLayout
from veilsum.numbers.limbs import is_wide_integer_type, limbs_to_integers
from veilsum.protocol.plan import ProtocolPlan
from veilsum.sums.job_file import question_job_of
from veilsum.sums.kinds import QuestionKind, question_kind_of
from veilsum.sums.presence import (
    PRESENCE,
    PresenceScreenedRecipe,
    contribution_to_recipe,
    places_with_rows as holders,
)
from veilsum.sums.recipes import SumContribution, SumPartyWork
from veilsum.sums.releases import BY_ROW
from veilsum.sums.running import SumJobResult, run_sum_job
from veilsum.tables.columns import Column
from veilsum.tables.fingerprints import FingerprintSource
from veilsum.tables.formula.reader import read_surv_formula
from veilsum.tables.frames import load_pandas
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

# What one party holds: a table, or the entries of its cost.
Held: TypeAlias = Any
Holdings: TypeAlias = Mapping[str, Held]
Whole: TypeAlias = tuple[int, ...]

# Rows of a made-up table, at first and at most; more of them pass more rules.
FEWEST_ROWS, MOST_DOUBLINGS = 40, 4
# How far made-up numbers are spread over their range, tried one after the other.
SPREADS = (1.0, 0.25)
# Parties differ by so much of a range, as real ones do.
APART = 0.05
# Draws of one size that may be refused by chance.
DRAWS = 2
# A column with so few agreed values has each of them equally often.
FEW_VALUES = 12
# Of a range without an end, so many units are used.
OPEN_UNITS = 1000
# Iterations of a method that machines play: in all that follow they do the same again.
BRIEF = 20


@dataclass(frozen=True)
class SkippedAttack:
    """An attack that has nothing to be played on here, and why."""

    attack: str
    why: str


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RehearsedAnswer:
    """A question that was answered, by made-up parties.

    Attributes:
        vectors: finds what every party gave in each round; for the auditor alone.
    """

    result: SumJobResult
    plan: ProtocolPlan
    vectors: Callable[[], Iterable[Mapping[str, Whole]]]

    @property
    def law(self) -> MaskLaw:
        return self.plan.law

    @property
    def sums(self) -> Sums:
        """The released sums, from which the next request follows."""
        return self.result.released.sums

    @cached_property
    def given(self) -> tuple[Mapping[str, Whole], ...]:
        return tuple(self.vectors())

    @cached_property
    def totals(self) -> tuple[Whole, ...]:
        """The released totals as integers, round by round."""
        return tuple(attack_total(self.law, one.values()) for one in self.given)

    @cached_property
    def residue_bits(self) -> tuple[Whole, ...]:
        """Listed bits of each total, round by round; 0 for one released whole."""
        recipe: Any = self.result.recipe
        return tuple(
            _listed_bits_in_rehearsal(recipe.release(self.sums[:k]).layout, len(total))
            for k, total in enumerate(self.totals)
        )

    def rest(self, coalition: Sequence[str]) -> tuple[Whole, ...]:
        """Return what is left of the totals without what a coalition gave."""
        return tuple(
            attack_reading(
                self.law,
                attack_total_without(whole, *(given[name] for name in coalition)),
            )
            for whole, given in zip(self.totals, self.given, strict=True)
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RehearsalAttempt:
    """Outcome of a rehearsed question: an answer or a refusal.

    Attributes:
        played: the answer; None if somebody refused.
        error: the refusal; None if nobody refused.
        shown: the sums released before the end or the refusal.
        screened: whether the first of these only counts parties, not rows.
    """

    played: RehearsedAnswer | None = None
    error: VeilsumError | None = None
    shown: Sums = ()
    screened: bool = False

    @property
    def shows_nothing(self) -> bool:
        return self.played is None and len(self.shown) <= self.screened

    @property
    def words(self) -> str:
        """The part of a refusal that other parties may see."""
        return getattr(self.error, "plain", str(self.error))


@dataclass(eq=False, repr=False)
class RehearsalWitness:
    """A driver that lets another one drive, and keeps what only a simulation sees."""

    inner: Driver
    assignment: DriverAssignment | None = None
    shown: Sums = ()
    party: None = field(default=None, init=False)

    def carry_out(self, assignment: DriverAssignment) -> DriverOutput:
        """Carry out; keep what was asked, and what was shown if it is given up."""
        self.assignment = assignment
        try:
            found = self.inner.carry_out(assignment)
        except GivenUpError as error:
            self.shown = error.sums
            raise
        self.shown = found.sums
        return found


def questions_of(path: Path) -> Mapping[str, Consortium]:
    """Return the questions of a study, agreed on or planned; none of another file."""
    table = read_toml_file(path)
    if "question" not in table:
        return {}
    study = read_agreement(path) if "members" in table else read_study_plan(path)
    return study.questions if isinstance(study, AgreedStudy) else {}


@dataclass(frozen=True, eq=False)
class AuditRehearsal:
    """An agreed question, as it is played on rows that are nobody's.

    Attributes:
        simulated: masks that the file's simulation has and real parties cannot have;
            None if real parties can have the file's own.
        named: the coalition that the file names for its simulation.
    """

    consortium: Consortium
    simulated: Masks | None = None
    named: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind.input == "folder":
            raise InvalidInputError(
                "a survey asks members for no rows that could be made up: it is played "
                "with guests, by veilsum.audit.surveys",
                code="survey-not-on-tables",
            )

    @classmethod
    def read(cls, path: Path, question: str | None = None) -> AuditRehearsal:
        """Return what a consortium file asks, or a scenario that plans one.

        Masks of float64 are for simulation: they are audited as they are, and what
        machines do as if the file had lattice masks of the same sigma. `question` names
        one of a study.
        """
        if question is not None:
            asked = questions_of(path)
            if question not in asked:
                known = listed_names([*asked]) or "none: it is no study"
                raise InvalidInputError(
                    f"{path} has no question {printable(question)!r}; it has {known}",
                    code="unknown-question",
                )
            return cls(asked[question])
        if "members" in read_toml_file(path):
            return cls(read_consortium(path))
        file, simulated = read_scenario_file(path), None
        named: tuple[str, ...] = ()
        if file.policy is not None and file.policy.corrupted is not None:
            # Of whatever size: an audit plays it, and promises nothing about it.
            named = tuple(file.policy.corrupted)
            file = replaced(file, policy=replaced(file.policy, corrupted=None))
        masks = masks_between_members(file)
        if not LAWS[masks["law"]].deployable:
            simulated = MasksSection(**masks).masks
            law = "uniform" if simulated.sigma is None else "lattice"
            real = MasksSection(law=law, sigma=simulated.sigma)
            file = replaced(file, masks=real)
        return cls(plan_of_scenario_file(file, path), simulated, named)

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.consortium.topology.parties)

    @property
    def asked(self) -> AgreedMinimisation | QuestionSpec:
        return self.consortium.question

    @property
    def schema(self) -> Schema | None:
        """Schema of the tables; None if the question is not about tables."""
        return self.consortium.schema

    @property
    def kind(self) -> QuestionKind[Any]:
        return question_kind_of(self.asked)

    @property
    def rules(self) -> Rules | None:
        """Agreed rules for tables; None if the question has none."""
        schema = self.schema
        return None if schema is None else schema.rules(self.consortium.rules.rules)

    def honest(self, coalition: Sequence[str]) -> tuple[str, ...]:
        """Return the others, in order; refuse a coalition of everybody."""
        self.consortium.topology.indices(coalition)  # refuses a stranger
        found = tuple(name for name in self.parties if name not in coalition)
        if not found:
            raise InvalidInputError(
                "everybody is in the coalition, and nobody is left to find out about: "
                "leave out one party or more",
                code="nobody-honest",
            )
        return found

    def asking(self, section: QuestionSpec) -> AuditRehearsal:
        """Return another question, asked of the same parties under the same rules."""
        return replace(self, consortium=replace(self.consortium, question=section))

    @property
    def brief(self) -> AuditRehearsal:
        """The same, with so few iterations that machines can be played many times."""
        asked = self.asked
        if (
            not isinstance(asked, AgreedMinimisation)
            or asked.settings.iterations <= BRIEF
        ):
            return self
        # So few iterations reach no tolerance.
        settings = replace(asked.settings, iterations=BRIEF, tolerance=None)
        question = replace(asked, settings=settings)
        return replace(self, consortium=replace(self.consortium, question=question))

    # Rows that are nobody's

    def made_up(self, seed: Any, n_rows: int, spread: float = 1.0) -> dict[str, Held]:
        """Return what everybody holds, drawn from what is public alone.

        `spread` is the part of their ranges that numbers take up.
        """
        return {
            name: self.held((seed, place), n_rows, spread)
            for place, name in enumerate(self.parties)
        }

    def held(self, seed: Any, n_rows: int, spread: float = 1.0) -> Held:
        chance = np.random.default_rng(_flat_rehearsal_seed(seed))
        own = self.kind.made_up(self.consortium, chance, spread)
        if own is not None:
            return own
        assert self.schema is not None
        cuts, made = self._cuts(), {}
        for column in self.schema.columns:
            inside = cuts.get(column.name, ())
            made[column.name] = _made_up_column_values(
                column, n_rows, chance, spread, inside
            )
        return load_pandas().DataFrame(made)

    @cached_property
    def size(self) -> tuple[int, float]:
        """The fewest rows, and how far spread, with which everybody may answer.

        Raises:
            InvalidInputError: nobody would answer it with rows like these.
        """
        refused: VeilsumError | None = None
        for n_rows in self._numbers_of_rows():
            for spread in SPREADS:
                for draw in range(DRAWS):
                    found = self.ask(self.made_up(draw, n_rows, spread))
                    if found.played is not None:
                        return n_rows, spread
                    refused = found.error
        raise InvalidInputError(
            f"no rows were made up on which this question has an answer: {refused}",
            code="no-answerable-rows",
        )

    def sound(
        self, seed: Any, sizes: Mapping[str, int] | None = None
    ) -> tuple[dict[str, Held], RehearsedAnswer]:
        """Return what everybody may hold so that all answer, and the answer.

        `sizes` are rows of some parties, as far as so many were agreed on; the others
        have as many as are needed.
        """
        n_rows, spread = self.size
        rows = {name: self.at_most(n) for name, n in (sizes or {}).items()}
        for draw in range(4 * DRAWS):
            held = {
                name: self.held((seed, draw, k), rows.get(name, n_rows), spread)
                for k, name in enumerate(self.parties)
            }
            if (found := self.ask(held).played) is not None:
                return held, found
        raise InvalidInputError(
            "made-up rows are refused more often than not: agree on more [schema] "
            "minimum_rows",
            code="rows-refused-often",
        )

    def at_most(self, n_rows: int) -> int:
        """Return so many rows, or the most that were agreed on."""
        most = None if self.schema is None else self.schema.maximum_rows
        return n_rows if most is None else min(n_rows, most)

    def _numbers_of_rows(self) -> Iterator[int]:
        if self.schema is None:
            yield 1
            return
        first = max(self.schema.minimum_rows, FEWEST_ROWS)
        sizes = [first * 2**k for k in range(MOST_DOUBLINGS)]
        yield from dict.fromkeys(map(self.at_most, sizes))

    def _cuts(self) -> dict[str, tuple[float, ...]]:
        """Return by column the public numbers that divide its rows into bins."""
        asked = cast("QuestionSpec", self.asked).asked()
        found = {name: tuple(one) for name, one in asked.get("histograms", {}).items()}
        formula = str(asked.get("formula", ""))
        if "times" in asked and formula.lstrip().startswith("Surv("):
            found[read_surv_formula(formula).time] = tuple(asked["times"])
        for one in () if self.schema is None else self.schema.derived:
            points = {*found.get(one.source.name, ()), *one.points}
            found[one.source.name] = tuple(sorted(points))
        return found

    # Asking

    def ask(
        self,
        held: Holdings,
        *,
        seed: int = 0,
        rules: Rules | None = None,
        driver: Driver | None = None,
        ledgers: Mapping[str, Ledger] | None = None,
        run: str | None = None,
    ) -> RehearsalAttempt:
        """Put the question to parties that hold these; say how it ended.

        Args:
            held: by party; those of the agreement, or some of them.
            seed: of the masks.
            rules: others than were agreed on, to see what they were good for.
            driver: who plays the parties; all of them at once if nobody is named.
            ledgers: of those parties that keep one.
            run: its name, where ledgers tell runs apart.
        """
        witness = RehearsalWitness(driver or MethodArrays(seed=seed))
        more: dict[str, Any] = {"driver": witness, "ledgers": ledgers or {}}
        more |= {} if run is None else {"run": run}
        if set(held) < set(self.parties):
            topology = self.consortium.topology
            more["topology"] = topology.induced(topology.indices(held))
        try:
            result = self._run(held, rules, more)
        except VeilsumError as error:
            task = witness.assignment
            works = {} if task is None else task.works
            first = next(iter(works.values()), None)
            screened = isinstance(
                getattr(first, "recipe", None), PresenceScreenedRecipe
            )
            return RehearsalAttempt(error=error, shown=witness.shown, screened=screened)
        task = witness.assignment
        assert task is not None
        law, sums = task.plan.law, result.released.sums

        def vectors() -> Iterator[Mapping[str, Whole]]:
            for k, told in enumerate(sums):
                given = {
                    name: attack_whole_numbers(law, work.vector(sums[:k]))
                    for name, work in task.works.items()
                }
                # What is audited is what was released, to the bit.
                assert _is_released_in_rehearsal(
                    law, attack_total(law, given.values()), told
                )
                yield given

        played = RehearsedAnswer(result=result, plan=task.plan, vectors=vectors)
        screened = isinstance(result.recipe, PresenceScreenedRecipe)
        return RehearsalAttempt(played=played, shown=sums, screened=screened)

    def _run(
        self, held: Holdings, rules: Rules | None, more: Mapping[str, Any]
    ) -> SumJobResult:
        if self.kind.input == "cost":
            return self._minimised(held, more)
        job = question_job_of(self.consortium, dict(held), **more)
        own = {} if rules is None or self.schema is None else {"rules": rules}
        return job.run(**own)

    def _minimised(self, held: Holdings, more: Mapping[str, Any]) -> Minimised:
        consortium = self.consortium
        if "topology" in more:
            consortium = replace(consortium, topology=more["topology"])
        parts = {name: PartyCost.of(consortium, own) for name, own in held.items()}
        part = next(iter(parts.values()))
        terms = replace(
            part.terms,
            **{key: more[key] for key in ("driver", "ledgers", "run") if key in more},
        )
        released = run_sum_job(
            part.recipe,
            {
                name: part.recipe.contribution(name, one.cost)
                for name, one in parts.items()
            },
            terms,
            agreed=part.recipe.agreed,
        )
        return Minimised(terms=terms, recipe=part.recipe, released=released)

    def given(
        self, played: RehearsedAnswer, held: Sequence[Held]
    ) -> list[tuple[Whole, ...]]:
        """Return what each of some holdings contributes to every round of a run.

        Everybody has the program, and knows what was asked: so does an attacker.
        """
        works = [self._work(played, one) for one in held]
        return [
            tuple(
                attack_whole_numbers(played.law, work.vector(played.sums[:k]))
                for k in range(len(played.sums))
            )
            for work in works
        ]

    def direct(self, played: RehearsedAnswer, held: Held) -> list[Whole] | None:
        """Return what a job makes of a holding in every round, filled up with zeros.

        Nothing between the job and a party's machine has a hand in it. Of a number
        whose residue alone is listed, only that is left. None for a cost, whose
        coefficients are what is masked.
        """
        recipe: Any = played.result.recipe
        if self.kind.input == "cost":
            return None
        if self.schema is None:
            answer = self.kind.contribution(recipe, held).answer
        else:
            job = self.job(played)
            table = job.bring(job.schema.check(self.parties[0], held))

            def answer(request: Any) -> Array[Any]:
                if not self.screened(played):
                    return job.answer(table, request)
                if request == PRESENCE:
                    look = partial(job.look, table)
                    return holders(recipe.groups, look, recipe.enough)
                return recipe.merged_answer(request, partial(job.answer, table))

        found, law = [], played.law
        for k, sums in enumerate(played.sums):
            vector = answer(recipe.request(played.sums[:k]))
            filling = np.zeros(len(sums) - len(vector), dtype=vector.dtype)
            whole = attack_whole_numbers(law, np.concatenate([vector, filling]))
            found.append(
                _residues_alone_in_rehearsal(law, whole, played.residue_bits[k])
            )
        return found

    def job(self, played: RehearsedAnswer) -> Any:
        asked, schema = self.asked, self.schema
        assert schema is not None
        return getattr(played.result, "job", None) or self.kind.job(asked, schema)

    def screened(self, played: RehearsedAnswer) -> bool:
        return isinstance(played.result.recipe, PresenceScreenedRecipe)

    def _work(self, played: RehearsedAnswer, held: Held) -> SumPartyWork:
        recipe = played.result.recipe
        if self.kind.input == "cost":
            part = PartyCost.of(self.consortium, held)
            own = part.recipe.contribution(self.parties[0], part.cost)
            return SumPartyWork(part.recipe, own)
        if self.schema is None:
            return SumPartyWork(recipe, self.kind.contribution(recipe, held))
        job = self.job(played)
        table = job.bring(job.schema.check(self.parties[0], held))
        source = FingerprintSource(held, job.schema.names)
        own = SumContribution(partial(job.answer, table), source)
        return SumPartyWork(
            recipe, contribution_to_recipe(recipe, own, partial(job.look, table))
        )

    # What may be dealt anew

    @cached_property
    def by_row(self) -> bool:
        """Whether what a party gives is a sum over its rows."""
        if self.kind.input == "cost":
            return False
        _, played = self.sound(0)
        return getattr(played.result.inner[0], "wording", BY_ROW) is BY_ROW


def attack_whole_numbers(law: MaskLaw, vector: Array[Any] | None) -> Whole:
    """Return a vector as the whole numbers that a law masks, with their signs."""
    assert vector is not None
    numbers = law.encode(vector)
    if numbers.dtype == np.uint64:
        numbers = numbers.view(np.int64)
    return tuple(int(one) for one in limbs_to_integers(numbers).tolist())


def attack_total(law: MaskLaw, vectors: Iterable[Sequence[int]]) -> Whole:
    """Return the total of some vectors as the law releases it."""
    whole = [sum(column) for column in zip(*vectors, strict=True)]
    return attack_reading(law, whole)


def attack_reading(law: MaskLaw, whole: Sequence[int]) -> Whole:
    """Return whole numbers as a law reads them: residues are those nearest to 0."""
    return tuple(law.wrap(np.array(whole, dtype=object)).tolist())


def attack_total_without(whole: Sequence[int], *own: Sequence[int]) -> Whole:
    """Return what is left of a total when some parts are taken off."""
    return tuple(one - sum(part) for one, *part in zip(whole, *own, strict=True))


def _listed_bits_in_rehearsal(layout: NumberLayout | None, size: int) -> Whole:
    listed = () if layout is None else layout.statistics
    found = [bits for one in listed for bits in one.residues or (0,) * one.size]
    return (*found, *(0,) * size)[:size]


def _residues_alone_in_rehearsal(law: MaskLaw, whole: Whole, bits: Whole) -> Whole:
    """Return numbers of which sums tell the listed bits: as the top bits of a word."""
    width = 8 * law.number_bytes
    return attack_reading(
        law,
        [
            one << width - few if 0 < few < width else one
            for one, few in zip(whole, bits, strict=True)
        ],
    )


def _is_released_in_rehearsal(law: MaskLaw, found: Whole, told: Array[Any]) -> bool:
    if told.dtype == object:
        return list(found) == told.tolist()
    # A grid: as real numbers, all of which float64 holds to its last bits.
    numbers = np.array(found, dtype=object)
    if not is_wide_integer_type(law.dtype):
        numbers = numbers.astype(np.int64).view(law.dtype)
    return bool(np.array_equal(law.decode(numbers), told))


def _flat_rehearsal_seed(seed: Any) -> list[int]:
    if isinstance(seed, int):
        return [seed]
    return [one for part in seed for one in _flat_rehearsal_seed(part)]


def _made_up_column_values(
    column: Column,
    n_rows: int,
    chance: np.random.Generator,
    spread: float,
    cuts: tuple[float, ...],
) -> Any:
    """Return a column as anybody might have it, of numbers that people write down."""
    if column.is_category:
        places = _deal_made_up_rows_evenly(len(column.categories), n_rows, chance)
        return [column.categories[one] for one in places]
    measure = column.measure
    if measure.most - measure.least < FEW_VALUES:
        counts = measure.least + _deal_made_up_rows_evenly(
            measure.most - measure.least + 1, n_rows, chance
        )
    else:
        low, high = made_up_range(column)
        if inside := [one for one in cuts if low < one < high]:
            ends = np.array([low, *inside, high])
            place = _deal_made_up_rows_evenly(len(ends) - 1, n_rows, chance)
            drawn = chance.uniform(ends[place], ends[place + 1])
        else:
            width = spread * (high - low)
            middle = (low + high) / 2 + APART * width * chance.standard_normal()
            drawn = middle + width * (chance.random((3, n_rows)).mean(axis=0) - 0.5)
        # Four digits of the range, as somebody would write it down.
        step = 10.0 ** np.floor(np.log10(high - low) - 3.0)
        unit = float(measure.unit)
        counts = np.rint(np.rint(drawn / step) * step / unit)
        counts = np.clip(counts, measure.least, measure.most)
    return values_of_counts(column, counts)


def values_of_counts(column: Column, counts: Array[Any]) -> list[Any]:
    """Return so many units each, as people write them down."""
    unit = column.measure.unit
    # One division of whole numbers that float64 holds: rounded once.
    numbers = (counts * float(unit.numerator) / float(unit.denominator)).tolist()
    if column.since is None:
        return list(numbers)
    return [column.written(one) for one in numbers]


def _deal_made_up_rows_evenly(
    n: int, n_rows: int, chance: np.random.Generator
) -> Array[Any]:
    """Return a place for each row, all equally often, in any order."""
    return chance.permutation(np.arange(n_rows) % n)


def made_up_range(column: Column) -> tuple[float, float]:
    """Return from where to where a column's numbers are made up."""
    unit = float(column.measure.unit) * OPEN_UNITS
    low, high = column.minimum, column.maximum
    if low is None:
        low = -unit / 2 if high is None else high - unit
    return low, low + unit if high is None else high
