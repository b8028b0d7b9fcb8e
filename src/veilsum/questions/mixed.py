"""Mixed models: coefficients that differ between parties, by how much, and on average.

    result = mixed("y ~ days", tables, random=["1", "days"])
    print(result.summary())

Every party evaluates its own part of the likelihood at a public theta; one sum for each
theta that is tried. Nobody's own coefficients are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack, cast, get_args

import numpy as np
from flint import fmpq_mat

from veilsum.consortium.kinds import QuestionSpec
from veilsum.errors import InvalidInputError
from veilsum.fits.fitted import Fitted, fitted_table_cells, fitted_table_rows
from veilsum.fits.formula_job import (
    FormulaJob,
    FormulaRows,
    FormulaRowsJob,
    inferred_fit_schema,
)
from veilsum.locale import limit_phrase
from veilsum.models.families import GaussianFamily
from veilsum.models.mixed import (
    MOST_RANDOM,
    THETA_BITS,
    Method,
    MixedFit,
    MixedModel,
    MixedModelCounting,
    MixedModelRequest,
)
from veilsum.models.theta_search import ThetaSearch, ThetaState
from veilsum.models.weights import note_row_weights
from veilsum.numbers.arrays import Vector, listed_names
from veilsum.numbers.layout import NumberLayout, layout_number as scalar
from veilsum.numbers.units import BITS, Integers
from veilsum.reading import Names, Text, Whole
from veilsum.showing import Rendering, ShownTable, shown_number
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.recipes import IterativeRecipe, Sums
from veilsum.sums.releases import (
    BY_PARTY,
    OfParties,
    PossibleRound,
    SumRelease,
    SumReleaseLimit,
)
from veilsum.sums.table_job import run_on_frames
from veilsum.sums.terms import SumOptions
from veilsum.sums.wording import PageRoom, quoted_for_release
from veilsum.tables.rules import MORE_SUMS, Rules
from veilsum.tables.schema import CheckedTable, Schema

# Sums at several thetas are functions with a pole for each party. With so many honest
# ones for each random effect, and as many once more, their digits leave most parties'
# numbers open by a third of how far these scatter (tests/attacks).
PARTIES_EACH = 8
MOST_ROUNDS = 40
INTERCEPT = "1"

POLES = limit_phrase("poles", least=2 * PARTIES_EACH, each=PARTIES_EACH)


@dataclass(frozen=True, eq=False)
class MixedRecipe(IterativeRecipe[ThetaState]):
    """One sum for each theta that is tried, until none is better.

    The last number of each sum counts rows that were left out.
    """

    # What a party gives is made of all its rows.
    wording = BY_PARTY
    left_open = (POLES,)
    most = MOST_ROUNDS
    # Parties with about as many rows each take 3 to 6 sums.
    least = 6

    model: MixedModel
    what: str
    limit: SumReleaseLimit | None = None

    @property
    def search(self) -> ThetaSearch:
        return ThetaSearch(self.model)

    @cached_property
    def layout(self) -> NumberLayout:
        return self.model.mixing.layout + NumberLayout((scalar("left_out"),))

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        return {"rows": self.layout.unpack(sums[-1])["rows"]}

    @property
    def of_parties(self) -> OfParties:
        """A run is counted as so many parties as it needs."""
        needed = PARTIES_EACH * (len(self.model.mixing.random) + 1)
        return OfParties(self.what, equations=needed, each=1)

    @property
    def answer_size(self) -> int:
        """Fixed effects, the variance of rows, and covariances of random effects."""
        return len(self.model.names) + 1 + self.model.mixing.n_theta

    @property
    def most_rounds(self) -> int:
        """Most sums, by the limit on releases and by that of a search."""
        return min(MOST_ROUNDS, super().most_rounds)

    def unfinished(self, state: ThetaState) -> str:
        """Return what to say of variances for which no room is left."""
        return (
            f"the variances have not converged in {self.most_rounds} sums, and there "
            f"is no room for more: the last step was {state.size:.2g} of the variance "
            "of one party's own estimates, and 1e-8 is the end. Leave out a random "
            f"slope, or {MORE_SUMS}"
        )

    def fit(self, sums: Sums) -> MixedFit:
        found = self.state(sums)
        assert found.answer is not None
        return self.model.fit(found.answer, found.rounds)

    def answer(self, sums: Sums) -> Vector:
        """Return fixed effects, the variance of rows, and those of random effects."""
        found = self.fit(sums)
        spread = found.random_covariance[np.tril_indices(len(found.random))]
        return np.concatenate([found.coefficients, [found.residual_variance], spread])

    def release(self, sums: Sums) -> SumRelease:
        """Return what the next sum shows, and the theta that it is about."""
        tried = self.state(sums).tried
        theta = tuple(one / 2.0**THETA_BITS for one in tried.theta)
        where = f"theta = {', '.join(f'{one:.6g}' for one in theta)}"
        point = *theta, float(tried.bits)
        return SumRelease.from_layout(self.what, self.layout, point, where)

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        return (PossibleRound.from_layout("every", self.layout, 1, self.most_rounds),)


@dataclass(frozen=True, eq=False, repr=False)
class OwnProducts(FormulaRows):
    """One party's rows, and the exact products of their columns."""

    mixing: MixedModelCounting

    @cached_property
    def moments(self) -> fmpq_mat:
        return self.mixing.moments(self.rows)


@dataclass(frozen=True)
class MixedJob(FormulaRowsJob[OwnProducts]):
    """A mixed model given by a formula over an agreed schema.

    Attributes:
        random: the columns whose coefficients differ between parties; 1 is the
            intercept.
        method: which likelihood is maximised.
    """

    follows = "the coefficients, their errors, and the variances between parties"

    random: tuple[str, ...]
    method: Method

    @classmethod
    def of(
        cls,
        schema: Schema,
        *,
        formula: str,
        random: Sequence[str] = (INTERCEPT,),
        method: str = "reml",
        bits: int = BITS,
    ) -> MixedJob:
        """Return the job; refuse what the formula does not have."""
        base = FormulaJob.of(formula, schema, GaussianFamily(), bits=bits)
        if method not in get_args(Method):
            raise InvalidInputError(
                f"method must be reml or ml, found {method!r}: reml for variances, ml "
                "to compare formulas",
                code="unknown-method",
            )
        columns = base.formula.columns
        known = [
            INTERCEPT if place == base.formula.intercept else name
            for place, name in enumerate(columns)
        ]
        if not random or len(set(random)) < len(random) or len(random) > MOST_RANDOM:
            raise InvalidInputError(
                f"random must name 1 to {MOST_RANDOM} different columns, such as "
                f'["1"] or ["1", "age"], found {list(random)!r}',
                code="malformed-random",
            )
        for name in random:
            if name not in known:
                raise InvalidInputError(
                    f"random names {name!r}, which is no column of the formula's "
                    f"design: write it into the formula too, or choose from "
                    f"{listed_names(known)}",
                    code="unknown-column",
                )
        chosen = tuple(known[k] for k in range(len(known)) if known[k] in random)
        return cls(base, chosen, cast("Method", method))

    @property
    def least_honest(self) -> int:
        """Fewest honest parties for which the sums leave each party's numbers open."""
        return PARTIES_EACH * (len(self.random) + 1)

    @cached_property
    def model(self) -> MixedModel:
        model = self.base.model
        names = tuple(
            INTERCEPT if place == model.intercept else name
            for place, name in enumerate(model.names)
        )
        places = tuple(k for k, name in enumerate(names) if name in self.random)
        mixing = MixedModelCounting(model.measures, model.intercept, places)
        mixing.check(model.names)
        return MixedModel(mixing, model.names, self.method)

    @property
    def words(self) -> str:
        """Description of the statistic that the releases of all rounds belong to."""
        return (
            f"mixed model of {self.base.model.response} on "
            f"{', '.join(self.base.model.names)}, random {', '.join(self.random)}"
        )

    @property
    def agreed(self) -> dict[str, Any]:
        more = {"random": list(self.random), "method": self.method}
        return {**self.base.agreed, "mixed": more}

    def recipe(self, limit: SumReleaseLimit | None = None) -> MixedRecipe:
        return MixedRecipe(self.model, self.words, limit)

    def bring(self, table: CheckedTable) -> OwnProducts:
        return OwnProducts(table, self.base.rows(table), self.model.mixing)

    def answer(self, own: OwnProducts, request: MixedModelRequest) -> Integers:
        """Return what one party gives at a theta; all rows have the same weight."""
        if (noted := note_row_weights("the sums")) is not None:
            noted.add(np.ones(own.rows.n_rows))
        found = self.model.mixing.vector(own.moments, own.rows.n_rows, request)
        return np.append(found, own.table.n_dropped)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MixedResult(Fitted[MixedFit]):
    """A mixed model of all parties' rows, and what they released for it.

    Attributes:
        job: what was fitted.
    """

    sums_rows = False

    job: MixedJob

    def variances(self) -> list[dict[str, Any]]:
        """Return one line for each random effect, and one for what rows differ by."""
        fit = self.fit
        lines: list[dict[str, Any]] = []
        for k, name in enumerate(fit.random):
            variance = float(fit.random_covariance[k, k])
            line = {"effect": name, "variance": variance, "sd": variance**0.5}
            others = fit.correlations[k, :k].tolist()
            for before, one in zip(fit.random[:k], others, strict=True):
                line[f"corr. {before}"] = one if np.isfinite(one) else None
            lines.append(line)
        rest = fit.residual_variance
        return [*lines, {"effect": "residual", "variance": rest, "sd": rest**0.5}]

    def summary(self, *, level: float = 0.95) -> str:
        """Return both tables, and what goes with them."""
        return self.answered(level).text()

    def answered(self, level: float = 0.95) -> Rendering:
        """Return the same, to be seen."""
        fit = self.fit
        head = ["", "coef", "std err", "z", "P>|z|", "low", "high"]
        rows = fitted_table_cells(fit, level)
        restricted = "Restricted log" if fit.method == "reml" else "Log"
        facts = [
            f"{fit.n_rows} rows of {fit.n_parties} parties, {fit.rounds} sums of "
            f"{self.recipe.size} numbers.",
            f"{restricted}-likelihood {shown_number(fit.log_likelihood, 8)}, AIC "
            f"{shown_number(fit.aic, 7)}, BIC {shown_number(fit.bic, 7)}.",
        ]
        if fit.icc is not None and fit.random == (fit.names[0],):
            facts.append(f"Intraclass correlation {shown_number(fit.icc)}.")
        facts.append(
            "z and its interval are of the normal law: no degrees of freedom are "
            "claimed."
        )
        if fit.singular:
            facts.append(f"The fit is singular: {fit.boundary}.")
        if self.dropped:
            facts.append(f"{self.dropped} rows with missing values were left out.")
        title = f"Mixed model of {self.job.base.model.response} ({fit.method.upper()})"
        return Rendering(
            title,
            [
                ShownTable(head, rows, "Fixed effects", "<......"),
                ShownTable.of(self.variances(), "Random effects of parties"),
                tuple(facts),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        fit = self.fit
        return {
            **super().to_dict(),
            "table": fitted_table_rows(fit),
            "variances": self.variances(),
            "random_covariance": fit.random_covariance.tolist(),
            "method": fit.method,
            "singular": fit.singular,
            "icc": fit.icc,
            "n_rows": fit.n_rows,
            "n_parties": fit.n_parties,
            "dropped": self.dropped,
            "log_likelihood": fit.log_likelihood,
            "aic": fit.aic,
            "bic": fit.bic,
        }


def mixed(
    formula: str,
    data: Mapping[str, Any],
    *,
    random: Sequence[str] = (INTERCEPT,),
    method: str = "reml",
    bits: int = BITS,
    schema: Schema | None = None,
    minimum_rows: int | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[SumOptions],
) -> MixedResult:
    """Return a linear mixed model with an intercept, and slopes, that differ by party.

    As lme4's lmer(y ~ x + (1 + x | party)) on the pooled rows, for random = ["1", "x"].

    Args:
        formula: such as "y ~ age + C(sex)".
        data: each party's table: pandas, polars, or a mapping of columns.
        random: columns of the design whose coefficients differ between parties; "1" is
            the intercept.
        method: reml or ml.
        bits: what a term keeps of its range that does not fit the unit it follows from.
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused; by default
            as few as some party has, but no fewer than 5.
        rules: what every party keeps to; those of the schema about row counts hold in
            any case.
        compare: whether to fit without masks as well, as only a simulation can.
        options: how to sum; see `SumOptions`.
    """
    return run_on_frames(
        lambda agreed: MixedJob.of(
            agreed, formula=formula, random=random, method=method, bits=bits
        ),
        data,
        MixedResult,
        inferred=lambda frames: inferred_fit_schema(
            formula, (), frames, minimum_rows, derived=options.get("derived")
        ),
        schema=schema,
        rules=rules,
        compare=compare,
        options=options,
    )


class MixedSpec(QuestionSpec, frozen=True, kw_only=True):
    """A regression with coefficients that differ between parties."""

    heading = "mixed"

    formula: Text = ""
    random: Names | None = None
    method: Text | None = None
    bits: Whole | None = None


class MixedKind(TableKind[MixedSpec, MixedJob]):
    spec = MixedSpec
    make_job = staticmethod(MixedJob.of)
    function = staticmethod(mixed)

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        question, job = self.parts(asked)
        yield (
            "question: one mixed model over all members' rows: coefficients on "
            "average, and how much some of them differ between members"
        )
        yield f"formula, as written: {quoted_for_release(question.formula)}"
        yield f"response: {quoted_for_release(job.base.model.response)}"
        names = [
            "the intercept" if name == "1" else quoted_for_release(name)
            for name in job.random
        ]
        yield f"coefficients that differ between members: {', '.join(names)}"
        yield f"method: {job.method}"
        yield job.base.design_line(room)


KIND = MixedKind()
