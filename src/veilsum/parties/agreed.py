"""What the question of a consortium comes to, without anybody's data.

From this every member works out what will become known, and whoever writes the file
finds what every member would refuse: each of them makes the same checks before it sends
anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from veilsum.agreement.consortium import Consortium, Minimisation
from veilsum.agreement.sections import (
    DispatchSection,
    ModelSection,
    StatisticsSection,
)
from veilsum.jobs.dispatch import PriceRecipe, search_of
from veilsum.jobs.job_file import job_of
from veilsum.jobs.presence import Group, screened, size_of
from veilsum.jobs.recipes import Recipe
from veilsum.jobs.regression import FormulaJob, family_of
from veilsum.jobs.releases import ReleaseLimit
from veilsum.jobs.statistics import StatisticsRecipe, Wishes, wishes_of
from veilsum.jobs.terms import Terms
from veilsum.parties.party_cost import PartyCost
from veilsum.reading import about
from veilsum.tables.frames import as_frame
from veilsum.tables.rules import Rules
from veilsum.tables.schema import CheckedTable, Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """A question, ready to be asked.

    Attributes:
        recipe: what parties do.
        terms: how they sum.
        rules: what each of them keeps to, where it is asked about a table.
        fit: the regression, if it is one.
        wishes: the statistics, if it is about them.
    """

    consortium: Consortium
    recipe: Recipe
    terms: Terms
    rules: Rules | None = None
    fit: FormulaJob | None = None
    wishes: Wishes | None = None


def agreed_on(consortium: Consortium) -> Asked:
    """Return what a consortium's question comes to.

    Raises:
        InvalidInputError: nobody could take part in it.
    """
    (question,) = consortium.questions
    if isinstance(question, Minimisation):
        part = PartyCost.of(consortium, question.cost.stand_in())
        return Asked(consortium=consortium, recipe=part.recipe, terms=part.terms)
    fit = wishes = None
    groups: tuple[Group, ...] = ()
    if isinstance(question, ModelSection):
        with about(question.heading):
            fit = _fit(question, _schema(consortium))
        _check_width(fit, consortium)
    asks = not consortium.rules.rules.site_terms
    with about(question.heading):
        match question:
            case ModelSection():
                assert fit is not None
                model = fit.model
                groups = fit.groups(model.measures.design) if asks else ()
                counts = screened(model.recipe(), groups).counts
            case StatisticsSection():
                wishes = wishes_of(
                    _schema(consortium),
                    question.columns,
                    question.histograms or {},
                    question.tables or (),
                )
                groups = wishes.groups(_schema(consortium)) if asks else ()
                counts = screened(StatisticsRecipe(wishes, None), groups).counts
            case _:
                recipe: Recipe = PriceRecipe(search_of(**question.given()))
                counts = search_of(**question.given()).counts
    with about("policy"):
        options = job_of(consortium, {}).options
        terms = Terms.of(consortium.topology.parties, counts=counts, options=options)
    if fit is None and wishes is None:
        return Asked(consortium=consortium, recipe=recipe, terms=terms)
    rules = _schema(consortium).rules(consortium.rules.rules)
    if fit is not None:
        columns, levels = model.numbers_in_a_row, fit.levels
        rules.check_design(len(model.names), terms.honest)
    if wishes is not None:
        columns, levels = len(wishes.used), wishes.levels
    rules.check_levels(levels)
    limit = ReleaseLimit.of(rules, columns, terms, size_of(groups))
    if fit is not None:
        recipe = model.recipe(limit)
    if wishes is not None:
        recipe = StatisticsRecipe(wishes, limit)
    return Asked(
        consortium=consortium,
        recipe=screened(recipe, groups, terms.tolerate),
        terms=terms,
        rules=rules,
        fit=fit,
        wishes=wishes,
    )


def check_agreed(consortium: Consortium) -> None:
    """Refuse what every member would refuse.

    Raises:
        InvalidInputError: the file has to be mended before it is passed on.
    """
    found = agreed_on(consortium)
    (question,) = consortium.questions
    with about(question.heading):
        found.recipe.request(())
        if isinstance(question, DispatchSection):
            _balance_nothing(consortium)


def _schema(consortium: Consortium) -> Schema:
    assert consortium.schema is not None
    return consortium.schema


def _fit(question: ModelSection, schema: Schema) -> FormulaJob:
    """Return a regression; refuse a formula beside the schema."""
    section = question.given()
    family = family_of(
        section.pop("family", "gaussian"), alpha=section.pop("alpha", None)
    )
    made = FormulaJob.of(section.pop("formula"), schema, family, **section)
    for column in (made.weights, made.offset):
        if column is not None:
            row = as_frame({column: [1.0]})
            CheckedTable("", schema, row, 0).numbers(column)
    return made


def _check_width(fit: FormulaJob, consortium: Consortium) -> None:
    """Refuse a design that is too wide for its rows while it is still a formula.

    A few letters can stand for thousands of columns, and each two of these for a number
    with a unit: they are counted before any of that is worked out. Whoever may be
    dropped makes it stricter, later.
    """
    rules, width = (
        _schema(consortium).rules(consortium.rules.rules),
        len(fit.formula.columns),
    )
    tolerate = consortium.rules.tolerate
    honest = consortium.topology.n_parties - (1 if tolerate is None else tolerate)
    if honest < 1:  # for other words
        return
    rules.check_design(width, honest)
    # X'WX alone, of rows that hold no more than the columns they are made of.
    limit = ReleaseLimit(
        honest=honest,
        columns=len(fit.schema.columns),
        minimum_rows=rules.minimum_rows,
        fraction=rules.release_fraction,
    )
    limit.check(width * (width + 1) // 2)


def _balance_nothing(consortium: Consortium) -> None:
    """Balance no demand at all: that takes one round, and every check comes first."""
    nothing = {"demand": [0.0], **{key: [nan] for key in ("a", "b", "low", "high")}}
    tables = {name: as_frame(nothing) for name in consortium.topology.parties}
    job_of(consortium, tables, driver="vectorised", seed=0).dispatch()
