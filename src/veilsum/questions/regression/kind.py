"""Regressions: the section [model]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta

from veilsum.consortium.kinds import QuestionSpec
from veilsum.errors import InvalidScenarioError
from veilsum.fits.formula_job import FormulaJob
from veilsum.models.family_names import canonical_family_name
from veilsum.questions.regression import fit, regression_formula_job
from veilsum.reading import Flag, Number, Text, Whole, about_read_section, read_section
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.wording import PageRoom, exact_number_words, quoted_for_release


class ModelSpec(QuestionSpec, frozen=True, kw_only=True):
    """A regression."""

    heading = "model"

    formula: Text = ""
    family: Text | None = None
    alpha: Number | None = None
    weights: Text | None = None
    offset: Text | None = None
    ridge: Number | None = None
    bits: Whole | None = None
    errors: Text | None = None
    absorb: Flag | None = None
    further: Text | None = None
    digits: Whole | None = None
    propensity: (
        Annotated[
            dict[str, Any],
            Meta(description="a section [model.propensity] with the earlier fit"),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        if self.propensity is not None and self.weights is not None:
            raise InvalidScenarioError(
                "[model] weights names a column, and [model.propensity] makes weights "
                "of an earlier fit: leave one of them out",
                code="two-weights",
            )
        _ = self.asked()

    def given(self) -> dict[str, Any]:
        """Return what was written; a family by its one name."""
        found = super().given()
        return found | (
            {"family": canonical_family_name(self.family)} if self.family else {}
        )

    def asked(self) -> dict[str, Any]:
        found = self.given()
        if (table := found.pop("propensity", None)) is None:
            return found
        from veilsum.tables.propensity import Propensity

        with about_read_section("model.propensity"):
            return found | {
                "weights": read_section(table, Propensity, "[model.propensity]")
            }


class RegressionKind(TableKind[ModelSpec, FormulaJob]):
    spec = ModelSpec
    make_job = staticmethod(regression_formula_job)
    function = staticmethod(fit)
    level_sums = True

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        from veilsum.models.choices import Ordinal
        from veilsum.tables.propensity import Propensity

        question, fit = self.parts(asked)
        model = fit.model
        yield f"question: one {model.family.name} regression over all members' rows"
        yield f"formula, as written: {quoted_for_release(question.formula)}"
        yield f"response: {quoted_for_release(model.response)}"
        if model.family.has_digits:
            yield (
                f"digits: {model.fineness}; coefficients are right to "
                f"1e-{model.fineness} of a standard error"
            )
        alpha = ", alpha estimated" if model.family.estimates_alpha else ""
        if question.alpha is not None:
            alpha = f", alpha = {exact_number_words(question.alpha)}"
        yield f"family: {model.family.name}{alpha}"
        if model.levels:
            names = room.names(
                "levels of the response", list(map(quoted_for_release, model.levels))
            )
            order = "the first is what others are compared with"
            if isinstance(model.family, Ordinal):
                order = "from the lowest to the highest"
            yield f"levels of the response, {order}: {names}"
        for key, none in (("weights", "every row counts once"), ("offset", "0")):
            column = getattr(fit, key)
            if isinstance(column, Propensity):
                yield from _describe_regression_weights(fit, room)
                continue
            yield f"{key}: " + (
                f"none; {none}"
                if column is None
                else f"the column {quoted_for_release(column)}"
            )
        if fit.ridge:
            yield f"ridge: {exact_number_words(fit.ridge)}"
        if fit.errors is not None:
            yield f"errors: {fit.errors}, which takes one more sum, at the answer"
        if fit.tested:
            names = room.names(
                "columns tested", [quoted_for_release(one) for one in fit.tested]
            )
            yield (
                f"tested beside the fit, by one more sum at the answer: {names}; they "
                "are columns of the design, and have no coefficient"
            )
        if fit.absorb:
            yield (
                "effects of members: each member has an intercept of its own and "
                "takes its own means off its columns at home (absorb = true)"
            )
        yield fit.design_line(room)

    def summands(self, asked: Asked) -> str:
        rows = "rows of all members"
        if self.parts(asked)[1].errors != "cluster":
            return rows
        return f"{rows}, or in the last round over what each member's rows come to"

    def consequences(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        """Yield counts and totals that people would recognise among the sums."""
        from veilsum.models.families import GaussianFamily

        _, fit = self.parts(asked)
        if fit.absorb:
            return
        schema = fit.schema
        categories = [
            one
            for one in schema.columns
            if one.is_category and one.name in fit.formula.variables
        ]
        response = quoted_for_release(fit.model.response)
        yield (
            "these totals are among the numbers or follow at once (the list is not "
            "complete: more follows by solving equations):"
        )
        if not fit.model.levels:
            yield f"- the sum of the response {response} over all rows"
        inside = [one for one in categories if one.name != fit.formula.response]
        among = "how many have each level of" if fit.model.levels else "the sum of"
        lines = [
            f"- for each level of {quoted_for_release(one.name)}: how many rows have "
            "it, and over "
            f"these rows {among} the response, and the sum of every other column of "
            "the design"
            for one in inside
        ]
        yield from room.lines("categories", lines)
        if any(":" in name for name in fit.model.names):
            yield (
                "- the same for each combination of levels that is a column of the "
                "design (a name with a colon)"
            )
        if len(inside) > 1:
            yield (
                "- for every two categories among the design's columns: how many rows "
                "have each pair of levels"
            )
        if fit.formula.response_is_category:
            several = len(fit.formula.response_levels) > 2
            which = "the " if several else "the two "
            yield f"- how many rows have each of {which}levels of {response}"
            if several:
                yield (
                    "- for each of these levels, the sum over its rows of every "
                    "column of the design"
                )
        yield (
            "- for each number among the design's columns: its sum, its sum of "
            "squares, "
            "and its sum of products with every other column and with the response"
            + (", or over the rows of each of its levels" if fit.model.levels else "")
            + (
                ""
                if isinstance(fit.family, GaussianFamily)
                else "; in every round anew, each row weighted by the coefficients "
                "tried"
            )
        )


def _describe_regression_weights(fit: FormulaJob, room: PageRoom) -> Iterator[str]:
    weighing = fit.weighing
    assert weighing is not None
    asked = weighing.asked
    yield (
        "weights: none of your columns; each row is weighted by a public function of "
        f"its columns, {weighing.words}"
    )
    yield f"formula of the propensity, as written: {quoted_for_release(asked.formula)}"
    pairs = zip(weighing.formula.columns, weighing.known.coefficients, strict=True)
    told = [
        f"{quoted_for_release(name)} {exact_number_words(one)}" for name, one in pairs
    ]
    yield f"its coefficients, public: {room.names('coefficients', told)}"
    if asked.stabilised is not None:
        yield (
            "part of all rows that is treated, public: "
            f"{exact_number_words(asked.stabilised)}"
        )
    yield (
        f"largest weight: {exact_number_words(asked.largest)}; a member with a larger "
        "one refuses"
    )


KIND = RegressionKind()
