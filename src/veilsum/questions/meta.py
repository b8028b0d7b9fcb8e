"""Meta-analysis of estimates that every party has; no party's estimate is shown.

    result = meta("y ~ age + dose", tables, coefficient="dose")
    print(result.summary())
    meta_analysis({"a": (0.31774421, 0.11402237), ...},
                  effects=(-2, 2), errors=(0.01, 1))

Where rows of different parties should not be pooled, estimates still may be: each party
fits the formula to its own rows, or has an estimate with its error and no table, and
gives weights and weighted estimates to two sums. Numbers of few digits could be found
by trying them all, so they are refused unless everybody agrees to that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from math import isfinite
from types import ModuleType
from typing import Annotated, Any, TypeAlias, Unpack, cast

import numpy as np
from msgspec import Meta

from veilsum.consortium.kinds import QuestionSpec
from veilsum.errors import InvalidInputError, naming_party_in_error
from veilsum.fits.fitted import fitted_table_cells, fitted_table_rows
from veilsum.fits.formula_job import (
    FormulaJob,
    FormulaRows,
    FormulaRowsJob,
    inferred_fit_schema,
)
from veilsum.fits.model import family_of_fit
from veilsum.locale import limit_phrase
from veilsum.models.inference import coefficient_table
from veilsum.models.meta import STUDY_BITS, MetaPooledEstimate, MetaRanges, MetaTotals
from veilsum.numbers.arrays import Vector, listed_names
from veilsum.numbers.layout import NumberLayout, layout_number as scalar, layout_vector
from veilsum.numbers.units import BITS, Integers
from veilsum.reading import Text, Whole
from veilsum.showing import Rendering, ShownBothWays, ShownTable, shown_number
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.recipes import SumContribution, SumRecipe, Sums
from veilsum.sums.releases import (
    BY_PARTY,
    OfParties,
    PossibleRound,
    SumRelease,
    SumReleaseLimit,
)
from veilsum.sums.running import ComparedSumResult, run_sum_job
from veilsum.sums.table_job import TableJobResult, run_on_frames
from veilsum.sums.terms import SumOptions, SumTerms, parties_data_by_name
from veilsum.sums.wording import PageRoom, exact_number_words, quoted_for_release
from veilsum.tables.rules import Rules
from veilsum.tables.schema import CheckedTable, Schema

# Of so many digits each, four studies' errors cannot be tried two by two.
LEAST_DIGITS = 9
# Each honest study has two unknown numbers, and both rounds show six.
LEAST_HONEST = 4
FIRST, SECOND = "weights and estimates", "weights and estimates at tau2"

FEW_STUDIES = limit_phrase("few_studies")


@dataclass(frozen=True)
class MetaRecipe(SumRecipe):
    """Two sums over studies: of weights, and of weights that allow for differences."""

    wording = BY_PARTY
    left_open = (FEW_STUDIES,)

    ranges: MetaRanges
    what: str
    limit: SumReleaseLimit | None = None
    of_rows: bool = True  # that are counted too
    subject: str = ""  # of which every study has one estimate, whatever is beside it

    @cached_property
    def layout(self) -> NumberLayout:
        """Weights and estimates of studies, their number, and rows of tables."""
        rows = (scalar("rows", bits=64), scalar("left_out")) if self.of_rows else ()
        return NumberLayout((self.ranges.sums, scalar("studies"), *rows))

    @cached_property
    def random_layout(self) -> NumberLayout:
        """Weights and estimates at tau2, and padding."""
        units, bits = self.ranges.sums.units[:2], self.ranges.sums.bits
        return NumberLayout((layout_vector("study_sums_again", units, bits),)).padded(
            self.size
        )

    def vector(
        self, study: tuple[float, float], request: tuple[str, Fraction], **rows: int
    ) -> Integers:
        stage, tau2 = request
        found = self.ranges.vector(*study, tau2)
        if stage == SECOND:
            return self.random_layout.pack(study_sums_again=found[:2])
        return self.layout.pack(study_sums=found, studies=1, **rows)

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return the number of rows, which the first sum of tables has."""
        first = self.of_rows and len(sums) == 1
        return {"rows": self.layout.unpack(sums[0])["rows"]} if first else {}

    def check_sum(self, sums: Sums) -> None:
        """Refuse sums of weights and estimates that no studies have."""
        super().check_sum(sums)
        totals = self.totals(sums)
        if len(sums) == 1:
            parties = None if self.limit is None else self.limit.parties
            totals.check(1 << STUDY_BITS if parties is None else parties)
        else:
            totals.check_random(self._again(sums))

    @property
    def answer_size(self) -> int:
        """Both means with their errors, Q, and the variance between studies."""
        return 6

    @property
    def of_parties(self) -> OfParties:
        """Two numbers of each study, in six sums."""
        return OfParties(self.subject or self.what, equations=6, each=2)

    @property
    def most_numbers(self) -> int:
        return 2 * self.size

    def request(self, sums: Sums) -> tuple[str, Fraction] | None:
        if not sums:
            if self.limit is not None:
                self.limit.check(self.most_numbers)
            return FIRST, Fraction(0)
        if len(sums) == 2:
            return None
        totals = self.totals(sums)
        if not totals.weight > 0:
            raise InvalidInputError(
                "no study has any weight: there is nothing to pool", code="no-weight"
            )
        return SECOND, totals.tau2

    def totals(self, sums: Sums) -> MetaTotals:
        parts = self.layout.unpack(sums[0])
        return MetaTotals.of(self.ranges, parts["study_sums"], parts["studies"])

    def _again(self, sums: Sums) -> Integers:
        return self.random_layout.unpack(sums[1])["study_sums_again"]

    def pooled(self, sums: Sums) -> tuple[MetaPooledEstimate, MetaPooledEstimate]:
        totals = self.totals(sums)
        return totals.fixed, totals.random(self._again(sums))

    def answer(self, sums: Sums) -> Vector:
        """Return both means with their errors, Q, and the variance between studies."""
        fixed, random = self.pooled(sums)
        both = [
            float(one)
            for mean in (fixed, random)
            for one in (mean.coefficients[0], mean.standard_errors[0])
        ]
        return np.array([*both, fixed.q, fixed.tau2])

    def release(self, sums: Sums) -> SumRelease:
        if not sums:
            return SumRelease.from_layout(self.what, self.layout)
        tau2 = float(self.totals(sums).tau2)
        where = f"tau2 = {tau2:.6g}"
        return SumRelease.from_layout(self.what, self.random_layout, (tau2,), where)

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        return (
            PossibleRound.from_layout("first", self.layout),
            PossibleRound.from_layout("last", self.random_layout),
        )


@dataclass(frozen=True, eq=False, repr=False)
class MetaStudy(FormulaRows):
    """One party's rows, and the estimate that it makes of them."""

    job: FormulaJob
    coefficient: str

    @cached_property
    def estimate(self) -> tuple[float, float]:
        """The coefficient of the party's own fit, and its standard error."""
        strategy, sums = self.job.model.strategy, list[Integers]()
        while (request := strategy.request(sums)) is not None:
            sums.append(strategy.vector(self.rows, 0, request))
        fit = strategy.fit(sums)
        place = fit.names.index(self.coefficient)
        return float(fit.coefficients[place]), float(fit.standard_errors[place])


@dataclass(frozen=True)
class MetaJob(FormulaRowsJob[MetaStudy]):
    """One coefficient of a formula that every party fits to its own rows.

    Attributes:
        coefficient: which column's is pooled.
        ranges: of estimates and errors.
    """

    follows = "the pooled estimates, their errors, and how much studies differ"
    coefficient: str
    ranges: MetaRanges | None

    @classmethod
    def of(
        cls,
        schema: Schema,
        *,
        formula: str,
        coefficient: str = "",
        family: str = "gaussian",
        effects: Sequence[float] | None = None,
        errors: Sequence[float] | None = None,
        bits: int = BITS,
    ) -> MetaJob:
        """Return the job; refuse a coefficient that the formula does not have."""
        kind = family_of_fit(family)
        if kind.is_choice:
            raise InvalidInputError(
                f'family = "{kind.name}" has coefficients for levels, and one '
                "coefficient is pooled: use fit, or another family",
                code="family-without-coefficient",
            )
        base = FormulaJob.of(formula, schema, kind, bits=bits)
        columns = base.formula.columns
        if coefficient not in columns:
            raise InvalidInputError(
                f"coefficient is {coefficient!r}, which is no column of the formula's "
                f"design: choose from {listed_names(columns)}",
                code="unknown-coefficient",
            )
        if (effects is None) != (errors is None):
            raise InvalidInputError(
                "effects and errors go together: the ranges of all parties' estimates "
                "and of their standard errors",
                code="ranges-incomplete",
            )
        ranges = None
        if effects is not None and errors is not None:
            (low, high), (least, most) = effects, errors
            ranges = MetaRanges((float(low), float(high)), (float(least), float(most)))
        return cls(base, coefficient, ranges)

    @property
    def least_honest(self) -> int:
        """Fewest honest studies; the sums of fewer could be solved for each study."""
        return LEAST_HONEST

    @property
    def agreed_ranges(self) -> MetaRanges:
        """Between what estimates and errors lie."""
        if self.ranges is None:
            raise InvalidInputError(
                "[meta] needs effects and errors, the ranges of all parties' estimates "
                "and of their standard errors: these say what sums are counted in",
                code="ranges-incomplete",
            )
        return self.ranges

    @property
    def agreed(self) -> dict[str, Any]:
        ranges = self.agreed_ranges
        more = [self.coefficient, list(ranges.effects), list(ranges.errors)]
        return {**self.base.agreed, "meta": more}

    @property
    def words(self) -> str:
        model = self.base.model
        return (
            f"meta-analysis of {self.coefficient} in the {model.family.name} "
            f"regression of {model.response} on {', '.join(model.names)}"
        )

    @property
    def subject(self) -> str:
        """The numbers that every study has two of: an estimate and its error.

        In another unit, and for the other of two levels, they are the same numbers.
        """
        schema, formula = self.base.schema, self.base.formula
        scaled = {
            k: v.source.name
            for k, v in schema.derived_by_name.items()
            if v.form == "scale"
        }
        name = ":".join(scaled.get(k, k) for k in self.coefficient.split(":"))
        sources = formula.sources[formula.columns.index(self.coefficient)]
        if len(sources) == 1 and len(schema.column(*sources).categories) == 2:
            (name,) = sources
        return f"estimates of {name} for {self.base.model.response}"

    def recipe(self, limit: SumReleaseLimit | None = None) -> MetaRecipe:
        subject = self.subject
        return MetaRecipe(self.agreed_ranges, self.words, limit, subject=subject)

    def bring(self, table: CheckedTable) -> MetaStudy:
        return MetaStudy(table, self.base.rows(table), self.base, self.coefficient)

    def check(self, party: str, own: MetaStudy) -> None:
        """Refuse rows that cannot be fitted alone, and estimates beyond ranges."""
        super().check(party, own)
        with naming_party_in_error(party):
            self.agreed_ranges.check(self.coefficient, *own.estimate)

    def answer(self, own: MetaStudy, request: tuple[str, Fraction]) -> Integers:
        rows = {"rows": self.n_rows(own), "left_out": own.table.n_dropped}
        return self.recipe().vector(own.estimate, request, **rows)

    def read_off(self, own: Mapping[str, MetaStudy]) -> MetaJob:
        """Return the job with ranges that all parties' fits are within."""
        return (
            self
            if self.ranges is not None
            else replace(self, ranges=_inferred_meta_ranges(own))
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PooledResult(ComparedSumResult):
    """A pooled estimate, and what parties released for it."""

    compared_with = "the analysis without masks"

    @property
    def title(self) -> str:
        """Title of the analysis."""
        return "Meta-analysis of the parties' estimates"

    @property
    def studies(self) -> str:
        """Number of studies, in words."""
        return f"{self.fixed.n_studies} studies"

    @property
    def more_facts(self) -> tuple[str, ...]:
        """Further facts below the table."""
        return ()

    @cached_property
    def pooled(self) -> tuple[MetaPooledEstimate, MetaPooledEstimate]:
        """The fixed and the random mean."""
        recipe, sums = self.inner
        return cast("MetaRecipe", recipe).pooled(sums)

    @property
    def fixed(self) -> MetaPooledEstimate:
        """The mean if all studies estimate the same."""
        return self.pooled[0]

    @property
    def random(self) -> MetaPooledEstimate:
        """The mean if studies differ."""
        return self.pooled[1]

    def forest(self, *, level: float = 0.95, width: int = 60) -> str:
        """Return both pooled estimates and their intervals as a plot of letters."""
        rows = [coefficient_table(one, level)[0] for one in self.pooled]
        low, high = (
            min([0.0, *(r.low for r in rows)]),
            max([0.0, *(r.high for r in rows)]),
        )
        places = np.linspace(low, high, width)

        def at(value: float) -> int:
            return int(np.abs(places - value).argmin())

        lines = []
        for row in rows:
            letters = [" "] * width
            letters[at(0.0)] = "|"
            for place in range(at(row.low), at(row.high) + 1):
                letters[place] = "-"
            letters[at(row.coefficient)] = "#"
            lines.append(f"{row.name:<8}{''.join(letters)}".rstrip())
        ends = f"{shown_number(low, 3):<{width - 8}}{shown_number(high, 3):>8}"
        return "\n".join([*lines, f"{'':<8}{ends}"])

    def summary(self, *, level: float = 0.95) -> str:
        """Return the pooled estimates, and how much studies differ."""
        return self.answered(level).text()

    def answered(self, level: float = 0.95) -> Rendering:
        """Return the same, to be seen."""
        fixed = self.fixed
        head = ["", "estimate", "std err", "z", "P>|z|", "low", "high"]
        rows = [fitted_table_cells(one, level)[0] for one in self.pooled]
        facts = [
            f"{self.studies}; no study's own estimate is shown.",
            f"Q = {shown_number(fixed.q)} on {fixed.q_degrees} degrees of freedom, p = "
            f"{shown_number(fixed.q_p_value, 3)}; I^2 = {100.0 * fixed.i_squared:.1f} "
            "%; "
            f"tau^2 = {shown_number(fixed.tau2)} (DerSimonian and Laird).",
            *self.more_facts,
        ]
        letters = ShownBothWays.letters(self.forest(level=level))
        table_of_both = ShownTable(head, rows, align="<......")
        return Rendering(self.title, [table_of_both, letters, tuple(facts)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        fixed = self.fixed
        rows = [row for one in self.pooled for row in fitted_table_rows(one)]
        return {
            **super().to_dict(),
            "table": rows,
            "n_studies": fixed.n_studies,
            "q": fixed.q,
            "q_p": fixed.q_p_value,
            "i_squared": fixed.i_squared,
            "tau2": fixed.tau2,
        }

    def draw_with(
        self,
        figures: ModuleType,
        *,
        title: str | None = None,
        exponentiate: bool = False,
    ) -> Any:
        """Return the pooled estimates with their intervals."""
        rows = [
            vars(one) for pooled in self.pooled for one in coefficient_table(pooled)
        ]
        caption = (
            f"{self.studies}; I^2 = {100.0 * self.fixed.i_squared:.0f} %; no study's "
            f"own estimate is known. {figures.job_caption(self)}"
        )
        usual = figures.chosen_title(title, self.title)
        xlabel = "ratio, 95 % interval" if exponentiate else "95 % interval"
        return figures.forest_figure(
            rows, usual, caption, ratio=exponentiate, xlabel=xlabel
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MetaResult(PooledResult, TableJobResult):
    """A pooled coefficient that every party fitted to its own rows.

    Attributes:
        job: what was pooled.
    """

    job: MetaJob

    @property
    def n_rows(self) -> int:
        """Rows of all parties."""
        recipe, sums = self.inner
        return cast("MetaRecipe", recipe).row_counts(sums[:1])["rows"]

    @property
    def title(self) -> str:
        """Title of the analysis."""
        return f"Meta-analysis of the coefficient of {self.job.coefficient}"

    @property
    def studies(self) -> str:
        """Numbers of studies and rows, in words."""
        return f"{super().studies} of {self.n_rows} rows"

    @property
    def more_facts(self) -> tuple[str, ...]:
        """Rows that were left out, if any."""
        left = f"{self.dropped} rows with missing values were left out."
        return (left,) if self.dropped else ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**super().to_dict(), "n_rows": self.n_rows, "dropped": self.dropped}


def meta(
    formula: str,
    data: Mapping[str, Any],
    *,
    coefficient: str,
    family: str = "gaussian",
    effects: Sequence[float] | None = None,
    errors: Sequence[float] | None = None,
    bits: int = BITS,
    schema: Schema | None = None,
    minimum_rows: int | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[SumOptions],
) -> MetaResult:
    """Return a meta-analysis of one coefficient, which every party fits at home.

    Args:
        formula: such as "y ~ age + dose".
        data: each party's table: pandas, polars, or a mapping of columns.
        coefficient: the column of the design whose coefficient is pooled.
        family: as for `fit`.
        effects: the least and the largest estimate that any party may have.
        errors: the least and the largest standard error. Without these two a simulation
            reads them off all parties' fits.
        bits: what a term keeps of its range that does not fit the unit it follows from.
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused; by default
            as few as some party has, but no fewer than 5.
        rules: what every party keeps to; those of the schema about row counts hold in
            any case.
        compare: whether to pool without masks as well, as only a simulation can.
        options: how to sum; see `SumOptions`.
    """
    return run_on_frames(
        lambda agreed: MetaJob.of(
            agreed,
            formula=formula,
            coefficient=coefficient,
            family=family,
            effects=effects,
            errors=errors,
            bits=bits,
        ),
        data,
        MetaResult,
        inferred=lambda frames: inferred_fit_schema(
            formula, (), frames, minimum_rows, derived=options.get("derived")
        ),
        schema=schema,
        rules=rules,
        compare=compare,
        options=options,
    )


def _inferred_meta_ranges(own: Mapping[str, MetaStudy]) -> MetaRanges:
    """Return ranges that all parties' fits are within, as only a simulation can."""
    found = []
    for party, study in own.items():
        with naming_party_in_error(party):
            found.append(study.estimate)
    effects, errors = zip(*found, strict=True)
    room = max(errors)
    least = min((one for one in errors if one > 0.0), default=0.0)
    return MetaRanges((min(effects) - room, max(effects) + room), (least / 2, 2 * room))


def meta_analysis(
    estimates: Mapping[str, Sequence[float]],
    *,
    effects: Sequence[float],
    errors: Sequence[float],
    few_digits: bool = False,
    compare: bool = False,
    **options: Unpack[SumOptions],
) -> PooledResult:
    """Return the pooled estimate of what every party found by itself.

    Args:
        estimates: each party's estimate and its standard error, with all digits.
        effects: the least and the largest estimate that any party may have; public.
        errors: the least and the largest standard error; public.
        few_digits: whether numbers of fewer than 9 digits are allowed: whoever tries
            all of them can then find every study that is in a sum.
        compare: whether to pool without masks as well, as only a simulation can.
        options: how to sum; see `SumOptions`.
    """
    (low, high), (least, most) = effects, errors
    ranges = MetaRanges((float(low), float(high)), (float(least), float(most)))
    own = {
        party: _check_meta_estimate(ranges, party, study, few_digits=few_digits)
        for party, study in parties_data_by_name(estimates).items()
    }
    recipe = MetaRecipe(ranges, "meta-analysis of estimates", of_rows=False)
    terms = SumTerms.of(list(own), counts=recipe.counts, options=options)
    if terms.honest < LEAST_HONEST:
        raise InvalidInputError(
            f"fewer than {LEAST_HONEST} studies of honest parties can be solved for "
            f"from their sums, and {terms.honest} are left here: more parties have to "
            "take part, or fewer may be curious",
            code="too-few-studies",
        )
    released = run_sum_job(
        recipe,
        {
            party: SumContribution(partial(recipe.vector, study), (np.array(study),))
            for party, study in own.items()
        },
        terms,
        agreed={
            "estimates": {
                "effects": list(ranges.effects),
                "errors": list(ranges.errors),
                "few_digits": few_digits,
            }
        },
    )
    reference = None
    if compare:
        sums: list[Integers] = []
        while (request := recipe.request(sums)) is not None:
            parts = [recipe.vector(study, request) for study in own.values()]
            sums.append(sum(parts[1:], parts[0]))
        reference = recipe.answer(sums)
    return PooledResult(
        terms=terms, recipe=recipe, released=released, reference=reference
    )


def _check_meta_estimate(
    ranges: MetaRanges, party: str, given: Any, *, few_digits: bool
) -> tuple[float, float]:
    """Return a party's two numbers; refuse what does not fit, for its own eyes."""
    try:
        estimate, error = map(float, given)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{party}: expected two numbers, an estimate and its standard error",
            code="not-two-numbers",
        ) from None
    if not (isfinite(estimate) and isfinite(error)):
        raise InvalidInputError(
            f"{party}: both numbers must be finite", code="not-finite"
        )
    with naming_party_in_error(party):
        ranges.check(party, estimate, error)
    for what, one in (("estimate", estimate), ("standard error", error)):
        # Trailing zeros are no digits.
        digits = len(Decimal(repr(one)).normalize().as_tuple().digits)
        if digits < LEAST_DIGITS and not few_digits:
            raise InvalidInputError(
                f"{party}: the {what} has {digits} digits, and whoever tries all such "
                f"numbers can find it in the sums: give at least {LEAST_DIGITS}, all "
                "that your program has; or all agree on few_digits",
                plain=f"the {what} has too few digits",
                code="too-few-digits",
            )
    return estimate, error


Ends: TypeAlias = Annotated[
    tuple[float, float], Meta(description="the least and the largest")
]


class MetaSpec(QuestionSpec, frozen=True, kw_only=True):
    """A coefficient that every party fits to its own rows, pooled."""

    heading = "meta"

    formula: Text = ""
    coefficient: Text = ""
    family: Text | None = None
    effects: Ends | None = None
    errors: Ends | None = None
    bits: Whole | None = None


class MetaKind(TableKind[MetaSpec, MetaJob]):
    spec = MetaSpec
    make_job = staticmethod(MetaJob.of)
    function = staticmethod(meta)

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        question, job = self.parts(asked)
        model, ranges = job.base.model, job.agreed_ranges
        yield (
            "question: one coefficient, which each member fits to its own rows, pooled "
            "over all members (a meta-analysis)"
        )
        yield f"formula, as written: {quoted_for_release(question.formula)}"
        yield (
            f"response: {quoted_for_release(model.response)}; family: "
            f"{model.family.name}"
        )
        yield f"coefficient: that of {quoted_for_release(job.coefficient)}"
        for what, (low, high) in (
            ("estimates", ranges.effects),
            ("standard errors", ranges.errors),
        ):
            yield (
                f"agreed range of members' {what}: {exact_number_words(low)} to "
                f"{exact_number_words(high)}"
            )
        yield job.base.design_line(room)


KIND = MetaKind()
