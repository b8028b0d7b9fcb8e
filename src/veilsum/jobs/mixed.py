"""Mixed models: coefficients that differ between parties, by how much, and on average.

    result = mixed("y ~ days", tables, random=["1", "days"])
    print(result.summary())

Every party evaluates its own part of the likelihood at a public theta; one sum for each
theta that is tried. Nobody's own coefficients are computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Unpack, cast, get_args

import numpy as np
from flint import fmpq_mat

from veilsum.errors import InvalidInputError
from veilsum.jobs.presence import Group
from veilsum.jobs.recipes import Replay, Sums, SumsOnly
from veilsum.jobs.regression import Brought, FormulaJob, inferred_schema
from veilsum.jobs.releases import BY_PARTY, Foreseen, Release, ReleaseLimit
from veilsum.jobs.running import JobResult
from veilsum.jobs.summary import number, plain_table
from veilsum.jobs.table_job import (
    SchemaJob,
    agreed_schema,
    ask,
    check_width,
    is_simulated,
)
from veilsum.jobs.terms import Options, by_name
from veilsum.models.families import Gaussian
from veilsum.models.inference import table
from veilsum.models.mixed import (
    MOST_RANDOM,
    THETA_BITS,
    At,
    Method,
    MixedFit,
    MixedModel,
    Mixing,
    ThetaSearch,
)
from veilsum.numbers.arrays import Array, Vector, listed
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import BITS, Counts, Integers
from veilsum.tables.asked import Question
from veilsum.tables.fingerprints import Source
from veilsum.tables.frames import as_frame
from veilsum.tables.rules import AtHome, Rules
from veilsum.tables.schema import CheckedTable, Schema

# Sums at several thetas are functions with a pole for each party. Rounding leaves means
# open where there are six honest ones or more (tests/attacks), and two to spare.
LEAST_HONEST = 8
# Nearly every fit that there is ends by then; with room for fewer none is begun.
LEAST_ROUNDS = 8
MOST_ROUNDS = 40
INTERCEPT = "1"

POLES = (
    "sums at several thetas depend on how many rows each party has: of five honest "
    "parties or fewer, with different numbers of rows, every party's size and the "
    "means of its columns can be solved for, without names; of more they can be "
    f"narrowed down. Fewer than {LEAST_HONEST} honest parties are refused, unless "
    "site_terms is allowed"
)


@dataclass(frozen=True, eq=False)
class MixedRecipe(SumsOnly):
    """One sum for each theta that is tried, until none is better.

    The last number of each sum counts rows that were left out.
    """

    # What a party gives is made of all its rows.
    wording = BY_PARTY
    left_open = (POLES,)

    model: MixedModel
    what: str
    limit: ReleaseLimit | None = None

    @cached_property
    def _places(self) -> Replay[ThetaSearch]:
        return Replay(
            lambda: ThetaSearch.start(self.model),
            lambda at, sums: at.advance(sums[:-1]),
        )

    @cached_property
    def counts(self) -> Counts:
        """What the numbers are whole numbers of."""
        found = self.model.mixing.counts
        return replace(found, units=(*found.units, Fraction(1)))

    @property
    def size(self) -> int:
        """The statistics at a theta, and how many rows are missing."""
        return len(self.counts.units)

    @property
    def answer_size(self) -> int:
        """Fixed effects, the variance of rows, and covariances of random effects."""
        return len(self.model.names) + 1 + self.model.mixing.n_theta

    @property
    def most_rounds(self) -> int:
        """As many sums as there is room for."""
        if self.limit is None:
            return MOST_ROUNDS
        return min(MOST_ROUNDS, self.limit.rounds(self.size))

    @property
    def most_numbers(self) -> int:
        """Those of all sums that there is room for."""
        return self.size * self.most_rounds

    def request(self, sums: Sums) -> At | None:
        """Ask for the next theta."""
        if not sums and self.limit is not None:
            self.limit.check(self.size, min(LEAST_ROUNDS, self.limit.most_rounds))
        place = self._places.state(sums)
        if place.converged:
            return None
        if len(sums) == self.most_rounds:
            raise InvalidInputError(
                f"the variances have not converged in {len(sums)} sums, and more than "
                "that there is no room for: one of them may be 0. Leave out a random "
                "slope, agree on more [schema] minimum_rows, or openly on more "
                "[policy] most_rounds or release_fraction"
            )
        return place.tried

    def fit(self, sums: Sums) -> MixedFit:
        """Return the fit of all parties' rows."""
        found = self._places.state(sums)
        assert found.best is not None
        return self.model.fit(found.best, found.rounds)

    def answer(self, sums: Sums) -> Vector:
        """Return fixed effects, the variance of rows, and those of random effects."""
        found = self.fit(sums)
        spread = found.random_covariance[np.tril_indices(len(found.random))]
        return np.concatenate([found.coefficients, [found.residual_variance], spread])

    def missing(self, sums: Sums) -> int:
        """Return how many rows all parties left out."""
        return int(sums[0][-1])

    @property
    def _shown(self) -> dict[str, int]:
        p, k = len(self.model.names), self.model.mixing.n_theta
        products = (p + 1) * (p + 2) // 2
        return {
            "X'V^-1X, X'V^-1y, y'V^-1y": products,
            "log det V": 1,
            "their derivatives by theta": k * (products + 1),
            "expected information about theta": k * (k + 1) // 2,
            "rows, parties, and rows left out": 3,
        }

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows, and the theta that it is about."""
        tried = self._places.state(sums).tried
        theta = tuple(one / 2.0**THETA_BITS for one in tried.theta)
        where = f"theta = {', '.join(f'{one:.6g}' for one in theta)}"
        return Release(self.what, self._shown, (*theta, float(tried.bits)), where)

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """What every round shows."""
        return (Foreseen("every round", self._shown, 1, self.most_rounds),)


@dataclass(frozen=True, eq=False, repr=False)
class OwnProducts(Secret):
    """One party's rows, and the exact products of their columns."""

    brought: Brought
    mixing: Mixing

    @cached_property
    def moments(self) -> fmpq_mat:
        """A'A of the design and the response."""
        return self.mixing.moments(self.brought.rows)


@dataclass(frozen=True)
class MixedJob(SchemaJob[OwnProducts]):
    """A mixed model given by a formula over an agreed schema.

    Attributes:
        base: the formula, with its rows and its rules.
        random: the columns whose coefficients differ between parties; 1 is the
            intercept.
        method: which likelihood is maximised.
    """

    follows = "the coefficients, their errors, and the variances between parties"
    least_honest = LEAST_HONEST

    base: FormulaJob
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
        base = FormulaJob.of(formula, schema, Gaussian(), bits=bits)
        if method not in get_args(Method):
            raise InvalidInputError(
                f"method must be reml or ml, found {method!r}: reml for variances, ml "
                "to compare formulas"
            )
        columns = base.formula.columns
        known = [
            INTERCEPT if place == base.formula.intercept else name
            for place, name in enumerate(columns)
        ]
        if not random or len(set(random)) < len(random) or len(random) > MOST_RANDOM:
            raise InvalidInputError(
                f"random must name 1 to {MOST_RANDOM} different columns, such as "
                f'["1"] or ["1", "age"], found {list(random)!r}'
            )
        for name in random:
            if name not in known:
                raise InvalidInputError(
                    f"random names {name!r}, which is no column of the formula's "
                    f"design: write it into the formula too, or choose from "
                    f"{listed(known)}"
                )
        chosen = tuple(known[k] for k in range(len(known)) if known[k] in random)
        return cls(base, chosen, cast("Method", method))

    @property
    def schema(self) -> Schema:
        """What the tables were agreed to look like, as far as it matters here."""
        return self.base.schema

    @cached_property
    def model(self) -> MixedModel:
        """What is fitted."""
        model = self.base.model
        names = tuple(
            INTERCEPT if place == model.intercept else name
            for place, name in enumerate(model.names)
        )
        places = tuple(k for k, name in enumerate(names) if name in self.random)
        mixing = Mixing(model.measures, model.intercept, places)
        mixing.check(model.names)
        return MixedModel(mixing, model.names, self.method)

    @property
    def words(self) -> str:
        """What is released belongs to this statistic, whatever the round."""
        return (
            f"mixed model of {self.base.model.response} on "
            f"{', '.join(self.base.model.names)}, random {', '.join(self.random)}"
        )

    @property
    def n_columns(self) -> int:
        """How wide the design is."""
        return self.base.n_columns

    @property
    def numbers_in_a_row(self) -> int:
        """What a row holds."""
        return self.base.numbers_in_a_row

    @property
    def groups(self) -> tuple[Group, ...]:
        """Levels, cells and values that few parties might hold."""
        return self.base.groups

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        more = {"random": list(self.random), "method": self.method}
        return {**self.base.agreed, "mixed": more}

    @property
    def question(self) -> Question:
        """What is asked of a table, for the ledger of its owner."""
        return self.base.question

    def recipe(self, limit: ReleaseLimit | None = None) -> MixedRecipe:
        """Return what parties do."""
        return MixedRecipe(self.model, self.words, limit)

    def bring(self, table: CheckedTable) -> OwnProducts:
        """Return a party's rows."""
        return OwnProducts(self.base.bring(table), self.model.mixing)

    def n_rows(self, own: OwnProducts) -> int:
        """Return how many rows a party has to give."""
        return self.base.n_rows(own.brought)

    def check(self, party: str, own: OwnProducts) -> None:
        """Refuse rows that go beyond ranges."""
        self.base.check(party, own.brought)

    def check_at_home(self, home: AtHome, own: OwnProducts) -> None:
        """Refuse a table of which columns, or what they make, would show too much."""
        self.base.check_at_home(home, own.brought)

    def look(self, own: OwnProducts, at: str | int) -> Array[Any]:
        """Return a column of the table by name, or of the design by place."""
        return self.base.look(own.brought, at)

    def answer(self, own: OwnProducts, request: At) -> Integers:
        """Return what one party gives at a theta."""
        rows, mixing = own.brought.rows, self.model.mixing
        found = mixing.vector(own.moments, rows.n_rows, request)
        dropped = np.array([own.brought.table.n_dropped], dtype=object)
        return np.concatenate([found, dropped])


def together(job: SchemaJob[Any], own: Mapping[str, Any]) -> tuple[Any, list[Integers]]:
    """Return the recipe and its sums as one owner of all tables finds them."""
    recipe, sums = job.recipe(), list[Integers]()
    while (request := recipe.request(sums)) is not None:
        parts = [job.answer(part, request) for part in own.values()]
        sums.append(np.sum(parts, axis=0))
    return recipe, sums


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MixedResult(JobResult):
    """A mixed model of all parties' rows, and what they released for it.

    Attributes:
        job: what was fitted.
        rules: what every party kept to.
        reference: the same without masks, where one computer has all rows and was asked
            to compare.
    """

    job: MixedJob
    rules: Rules
    reference: Vector | None = None

    @property
    def further_limits(self) -> tuple[str, ...]:
        """What the rules leave open."""
        return (*super().further_limits, *self.rules.open)

    @cached_property
    def fit(self) -> MixedFit:
        """Coefficients, variances, and what follows from them."""
        recipe, sums = self.inner
        return cast("MixedRecipe", recipe).fit(sums)

    @property
    def coefficients(self) -> dict[str, float]:
        """The fixed effects by column."""
        return dict(zip(self.fit.names, self.fit.coefficients.tolist(), strict=True))

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out."""
        recipe, sums = self.inner
        return cast("MixedRecipe", recipe).missing(sums)

    @property
    def max_error(self) -> float | None:
        """How far the answer is from that without masks; None if not compared."""
        if self.reference is None:
            return None
        return float(np.linalg.norm(self.answer - self.reference))

    def variances(self) -> list[dict[str, Any]]:
        """Return one line for each random effect, and one for the rows."""
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
        return [*lines, {"effect": "rows", "variance": rest, "sd": rest**0.5}]

    def summary(self, *, level: float = 0.95) -> str:
        """Return both tables, and what goes with them."""
        fit = self.fit
        head = ["", "coef", "std err", "z", "P>|z|", "low", "high"]
        rows = [list(vars(one).values()) for one in table(fit, level)]
        lines = self.variances()
        keys = list(dict.fromkeys(key for line in lines for key in line))
        restricted = "Restricted log" if fit.method == "reml" else "Log"
        facts = [
            f"{fit.n_rows} rows of {fit.n_parties} parties, {fit.rounds} sums of "
            f"{self.recipe.size} numbers.",
            f"{restricted}-likelihood {number(fit.log_likelihood, 8)}, AIC "
            f"{number(fit.aic, 7)}, BIC {number(fit.bic, 7)}.",
        ]
        if fit.icc is not None and fit.random == (fit.names[0],):
            facts.append(f"Intraclass correlation {number(fit.icc)}.")
        facts.append(
            "z and its interval are of the normal law: no degrees of freedom are "
            "claimed."
        )
        if fit.singular:
            facts.append(
                "The fit is singular: a variance between parties is 0, or random "
                "effects are multiples of each other. Leave one out."
            )
        if self.dropped:
            facts.append(f"{self.dropped} rows with missing values were left out.")
        title = f"Mixed model of {self.job.base.model.response} ({fit.method.upper()})"
        return "\n\n".join(
            [
                title,
                "Fixed effects\n" + plain_table(head, rows, "<......"),
                "Random effects of parties\n" + plain_table(keys, lines),
                "\n".join(facts),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        fit = self.fit
        keys = ("name", "coefficient", "standard_error", "statistic", "p")
        rows = [list(vars(one).values()) for one in table(fit)]
        return {
            **super().to_dict(),
            "reference": None if self.reference is None else self.reference.tolist(),
            "max_error": self.max_error,
            "table": [
                dict(zip((*keys, "low", "high"), row, strict=True)) for row in rows
            ],
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
    **options: Unpack[Options],
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
        options: how to sum; see `Options`.
    """
    frames = {party: as_frame(table) for party, table in by_name(data).items()}
    agreed = agreed_schema(
        schema,
        frames,
        options,
        inferred=lambda: inferred_schema(formula, (), frames, minimum_rows),
    )
    job = MixedJob.of(agreed, formula=formula, random=random, method=method, bits=bits)
    kept = agreed.rules(rules or Rules())
    if is_simulated(options):
        check_width(job, kept, len(frames) - options.get("tolerate", 1))
    own = {
        party: job.bring(job.schema.check(party, frame))
        for party, frame in frames.items()
    }
    asked = ask(
        job,
        own,
        sources={p: Source(frame, job.schema.names) for p, frame in frames.items()},
        rules=kept,
        options=options,
    )
    reference = None
    if compare:
        recipe, sums = together(job, own)
        reference = recipe.answer(sums)
    return MixedResult(
        terms=asked.terms,
        recipe=asked.recipe,
        released=asked.released,
        job=job,
        rules=asked.rules,
        reference=reference,
    )
