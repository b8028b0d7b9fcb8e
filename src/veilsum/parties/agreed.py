"""Whether every member of a consortium could take part in what was agreed.

Each of them makes these checks before it sends anything. Nothing of them depends on
anybody's data, so whoever writes the file can make them first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import nan
from typing import TypeAlias

from veilsum.agreement.consortium import Consortium, Minimisation
from veilsum.agreement.sections import ModelSection, StatisticsSection
from veilsum.jobs.dispatch import search_of
from veilsum.jobs.job_file import JobFile, job_of
from veilsum.jobs.presence import screened, size_of
from veilsum.jobs.regression import FormulaJob, family_of
from veilsum.jobs.releases import ReleaseLimit
from veilsum.jobs.statistics import StatisticsRecipe, wishes_of
from veilsum.jobs.terms import Terms
from veilsum.numbers.units import Counts
from veilsum.parties.party_cost import PartyCost
from veilsum.reading import about
from veilsum.tables.frames import as_frame
from veilsum.tables.rules import Rules
from veilsum.tables.schema import CheckedTable


def check_agreed(consortium: Consortium) -> None:
    """Refuse what every member would refuse.

    Raises:
        InvalidInputError: the file has to be mended before it is passed on.
    """
    for question in consortium.questions:
        if isinstance(question, Minimisation):
            PartyCost.of(consortium, question.cost.stand_in())
            continue
        job = job_of(consortium, {})
        with about(question.heading):
            match question:
                case ModelSection():
                    counts, allow = _model(question, job)
                case StatisticsSection():
                    counts, allow = _statistics(question, job)
                case _:
                    counts = search_of(**question.given()).counts
                    allow = partial(_balance_nothing, consortium)
        with about("policy"):
            parties = consortium.topology.parties
            terms = Terms.of(parties, counts=counts, options=job.options)
        with about(question.heading):
            allow(terms)


# What a sum counts, and what refuses more than may be released.
Checks: TypeAlias = tuple[Counts, Callable[[Terms], None]]


def _model(question: ModelSection, job: JobFile) -> Checks:
    """Refuse a formula beside the schema."""
    assert job.schema is not None
    section = question.given()
    family = family_of(
        section.pop("family", "gaussian"), alpha=section.pop("alpha", None)
    )
    made = FormulaJob.of(section.pop("formula"), job.schema, family, **section)
    for column in (made.weights, made.offset):
        if column is not None:
            row = as_frame({column: [1.0]})
            CheckedTable("", job.schema, row, 0).numbers(column)

    model, rules = made.model, _rules(job)
    groups = () if rules.site_terms else made.groups(model.measures.design)

    def allow(terms: Terms) -> None:
        rules.check_levels(made.levels)
        rules.check_design(len(model.names), terms.honest)
        numbers, before = model.numbers_in_a_row, size_of(groups)
        limit = ReleaseLimit.of(rules, numbers, terms, before)
        model.recipe(limit).request([])

    return screened(model.recipe(), groups).counts, allow


def _statistics(question: StatisticsSection, job: JobFile) -> Checks:
    """Refuse wishes beside the schema."""
    assert job.schema is not None
    wishes = wishes_of(
        job.schema,
        question.columns,
        question.histograms or {},
        question.tables or (),
    )

    groups = () if _rules(job).site_terms else wishes.groups(job.schema)

    def allow(terms: Terms) -> None:
        _rules(job).check_levels(wishes.levels)
        limit = ReleaseLimit.of(_rules(job), len(wishes.used), terms, size_of(groups))
        StatisticsRecipe(wishes, limit).request([])

    return screened(StatisticsRecipe(wishes, None), groups).counts, allow


def _rules(job: JobFile) -> Rules:
    assert job.schema is not None
    return job.schema.rules(job.rules.rules)


def _balance_nothing(consortium: Consortium, _: Terms) -> None:
    """Balance no demand at all: that takes one round, and every check comes first."""
    nothing = {"demand": [0.0], **{key: [nan] for key in ("a", "b", "low", "high")}}
    tables = {name: as_frame(nothing) for name in consortium.topology.parties}
    job_of(consortium, tables, driver="vectorised", seed=0).dispatch()
