"""A fit by the names that statsmodels has for its parts: tables, tests, predictions.

Nothing here needs a further sum: it follows from coefficients, their covariances and
what else was released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from types import ModuleType
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from veilsum.errors import InvalidInputError
from veilsum.fits.comparisons import TestOfFit, wald_test_of_hypothesis
from veilsum.locale import limit_phrase
from veilsum.models.hypotheses import CoefficientHypothesis, CombinedCoefficients
from veilsum.models.inference import Inference, coefficient_table
from veilsum.numbers.arrays import Vector, listed_names
from veilsum.showing import Cell, Renderable, Rendering, ShownTable, shown_number
from veilsum.sums.table_job import TableJobResult
from veilsum.tables.frames import Frame, Series, load_pandas

F = TypeVar("F", bound=Inference)

P_DIGITS = 3
# The name of the column of ones.
INTERCEPT = "Intercept"


UNLIMITED = limit_phrase("unlimited")


class Fitted(TableJobResult, Generic[F]):
    """A result that has coefficients with covariances, whatever they are of."""

    # Whether each sum is one over rows, with a limit for their numbers.
    sums_rows: ClassVar[bool] = True

    @property
    def further_limits(self) -> tuple[str, ...]:
        """Limits that the rules about rows leave open."""
        free = self.sums_rows and self.rules.release_fraction >= 1.0
        return (*super().further_limits, *((UNLIMITED,) if free else ()))

    @cached_property
    def fit(self) -> F:
        """Coefficients, their errors, and everything else that follows from sums."""
        recipe, sums = self.inner
        return recipe.among(self.released.members).fit(sums)

    @property
    def inference(self) -> Inference:
        """The coefficients of the formula's columns, and their covariances."""
        return self.fit

    @property
    def coefficients(self) -> dict[str, float]:
        found = self.inference
        return dict(zip(found.names, found.coefficients.tolist(), strict=True))

    def _series(self, values: Vector, name: str) -> Series:
        return load_pandas().Series(values, index=list(self.inference.names), name=name)

    @property
    def params(self) -> Series:
        return self._series(self.inference.coefficients, "params")

    @property
    def bse(self) -> Series:
        """Their standard errors."""
        return self._series(self.inference.standard_errors, "bse")

    @property
    def tvalues(self) -> Series:
        """Coefficients over standard errors."""
        return self._series(self.inference.statistics, "tvalues")

    @property
    def pvalues(self) -> Series:
        """The chance of a statistic at least as far from 0."""
        return self._series(self.inference.p_values, "pvalues")

    def conf_int(self, alpha: float = 0.05) -> Frame:
        """Return the lower and the upper end for each coefficient.

        Args:
            alpha: the chance that an interval leaves out, as statsmodels has it.
        """
        ends = self.inference.confidence_intervals(1.0 - alpha)
        names = list(self.inference.names)
        return load_pandas().DataFrame(ends, index=names, columns=["low", "high"])

    def cov_params(self) -> Frame:
        names = list(self.inference.names)
        return load_pandas().DataFrame(
            self.inference.covariance, index=names, columns=names
        )

    def to_frame(self, level: float = 0.95) -> Frame:
        return _fitted_table_frame(self.inference, level)

    def wald_test(self, hypothesis: Any) -> TestOfFit:
        """Return Wald's test that all equations of a hypothesis hold together.

        Args:
            hypothesis: such as "age = 0, height = 2 * weight"; or a matrix with a
                column for each coefficient, or a pair of that and values.
        """
        return wald_test_of_hypothesis(
            self.inference, CoefficientHypothesis.of(hypothesis, self.inference.names)
        )

    def t_test(self, hypothesis: Any) -> FittedCombinations:
        made = CoefficientHypothesis.of(hypothesis, self.inference.names)
        return FittedCombinations(CombinedCoefficients.of(self.inference, made))

    def ratio_name(self) -> str:
        """Return the name of exp(coefficient); refuse where it is not a ratio."""
        raise InvalidInputError(
            "exp(coefficient) is no ratio in a linear model: leave out exponentiate",
            code="not-a-ratio",
        )

    def is_intercept(self, name: str) -> bool:
        """Say whether a coefficient is that of an intercept."""
        return name == INTERCEPT

    def draw_with(
        self,
        figures: ModuleType,
        *,
        title: str | None = None,
        exponentiate: bool | None = None,
        intercept: bool = False,
        scaled: bool | None = None,
    ) -> Any:
        """Return the coefficients with their intervals."""
        try:
            ratio = "" if exponentiate is False else self.ratio_name()
        except InvalidInputError:
            if exponentiate:
                raise
            ratio = ""
        if ratio and scaled:
            raise InvalidInputError(
                "ratios have no units, and are not drawn in standard errors: leave out "
                "scaled, or say exponentiate=False",
                code="ratios-scaled",
            )
        usual = (
            ratio.replace("ratio", "ratios").capitalize() if ratio else "Coefficients"
        )
        rows = getattr(self.fit, "n_rows", None)
        return figures.inference_figure(
            list(map(vars, coefficient_table(self.inference))),
            figures.chosen_title(title, usual),
            figures.job_caption(self, None if rows is None else int(rows)),
            ratio=ratio,
            scaled=scaled,
            left_out=None if intercept else self.is_intercept,
        )


@dataclass(frozen=True, eq=False, repr=False)
class FittedCombinations(Renderable):
    """Combinations of coefficients, each with an error, a test and an interval.

    Attributes:
        fit: the combinations as estimates.
    """

    fit: CombinedCoefficients

    def to_frame(self, level: float = 0.95) -> Frame:
        return _fitted_table_frame(self.fit, level)

    def summary(self, level: float = 0.95) -> str:
        return self.showing(level).text()

    def showing(self, level: float = 0.95) -> Rendering:
        test = "z" if self.fit.t_degrees is None else "t"
        heads = ["", "coef", "std err", test, f"P>|{test}|", "low", "high"]
        rows = fitted_table_cells(self.fit, level)
        return Rendering("", [ShownTable(heads, rows, align="<......")])

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the combinations with their intervals."""
        usual = "Combinations of coefficients"
        return figures.inference_figure(
            list(map(vars, coefficient_table(self.fit))),
            figures.chosen_title(title, usual),
            "",
        )


def fitted_table_cells(fit: Inference, level: float) -> list[list[Cell]]:
    """Return a line of cells for each coefficient, p with as many digits as in any."""
    return [
        [
            shown_number(value, P_DIGITS) if name == "p_value" else value
            for name, value in vars(one).items()
        ]
        for one in coefficient_table(fit, level)
    ]


def fitted_table_rows(
    fit: Inference, level: float = 0.95
) -> list[dict[str, str | float | None]]:
    """Return the coefficients as rows for JSON; nan and infinity become None.

    Keys: name, coefficient, standard_error, statistic, p, low and high.
    """
    keys = ("name", "coefficient", "standard_error", "statistic", "p", "low", "high")
    rows = [vars(row).values() for row in coefficient_table(fit, level)]
    finite = [
        [x if isinstance(x, str) or isfinite(x) else None for x in r] for r in rows
    ]
    return [dict(zip(keys, row, strict=True)) for row in finite]


def _fitted_table_frame(fit: Inference, level: float) -> Frame:
    rows = [vars(one) for one in coefficient_table(fit, level)]
    keys = ("coefficient", "standard_error", "statistic", "p_value", "low", "high")
    made = {key: [row[key] for row in rows] for key in keys}
    return load_pandas().DataFrame(made, index=list(fit.names))


# Two fits of the same rows, one of which has all columns of the other and more. That
# rows are the same is no matter of trust: the first sum of a fit has a part about some
# columns that is one of rows alone, whatever other columns there are. In two fits it
# agrees to the last digit, or they are not of the same rows.


class NestedFit(Protocol):
    """A fit that can be compared with another one."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    def rows_of_fit(self, names: Sequence[str]) -> Mapping[str, Any]: ...


def fits_in_order(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the larger fit and the smaller; refuse what cannot be compared."""
    if type(other) is not type(one):
        raise InvalidInputError(
            f"a fit is compared with another fit, found {type(other).__name__}",
            code="not-a-fit",
        )
    fits: list[NestedFit] = sorted((one, other), key=lambda fit: -len(fit.columns))
    large, small = fits
    more = [name for name in small.columns if name not in large.columns]
    if more or len(large.columns) == len(small.columns):
        raise InvalidInputError(
            "of two nested fits one has all columns of the other and more: found "
            + (
                f"{listed_names(more)} in the smaller one only"
                if more
                else "the same columns in both"
            ),
            code="fits-not-nested",
        )
    told = small.rows_of_fit(small.columns)
    for name, value in large.rows_of_fit(small.columns).items():
        if told[name] != value:
            found = "" if name.startswith("sums") else f": {value}, {told[name]}"
            raise InvalidInputError(
                "two fits are compared on the same rows and by the same law, and "
                f"their {name} differ{found}. Fit both to the same tables; where "
                "a column has missing values, leave these rows out of both",
                code="fits-not-comparable",
            )
    return large, small
