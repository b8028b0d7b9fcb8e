"""What the question of a consortium comes to, without anybody's data.

From this every member works out what will become known, and whoever writes the file
finds what every member would refuse: each of them makes the same checks before it sends
anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

from veilsum.consortium.consortium import Consortium, Minimisation
from veilsum.consortium.sections import DispatchSection, SurveySection
from veilsum.numbers.units import Counts
from veilsum.party.party_cost import PartyCost
from veilsum.privacy.guarantee import Guarantee
from veilsum.questions.dispatch import dispatch_recipe
from veilsum.questions.job_file import agreed_job, job_of
from veilsum.reading import about
from veilsum.sums.recipes import Recipe
from veilsum.sums.running import promise_before
from veilsum.sums.table_job import SchemaJob, check_width, prepared
from veilsum.sums.terms import Terms
from veilsum.surveys.question import SurveyRecipe
from veilsum.surveys.terms import survey_terms
from veilsum.tables.frames import as_frame
from veilsum.tables.rules import Rules


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """A question, ready to be asked.

    Attributes:
        recipe: what parties do.
        terms: how they sum.
        rules: what each of them keeps to, where it is asked about a table.
        job: what is asked of tables, if it is about them.
    """

    consortium: Consortium
    recipe: Recipe
    terms: Terms
    rules: Rules | None = None
    job: SchemaJob[Any] | None = None


def agreed_on(consortium: Consortium) -> Asked:
    """Return what a consortium's question comes to.

    Raises:
        InvalidInputError: nobody could take part in it.
    """
    (question,) = consortium.questions
    if isinstance(question, Minimisation):
        part = PartyCost.of(consortium, question.cost.stand_in())
        return Asked(consortium=consortium, recipe=part.recipe, terms=part.terms)

    if isinstance(question, SurveySection):
        recipe = SurveyRecipe(survey_terms(consortium))
        with about("survey"):
            terms = recipe.terms(job_of(consortium, {}).options)
        return Asked(consortium=consortium, recipe=recipe, terms=terms)

    def terms_of(counts: Counts) -> Terms:
        with about("policy"):
            options = job_of(consortium, {}).options
            return Terms.of(consortium.topology.parties, counts=counts, options=options)

    schema = consortium.schema
    with about(question.heading):
        job = agreed_job(consortium)
    if job is None or schema is None:
        assert isinstance(question, DispatchSection)
        with about(question.heading):
            price = dispatch_recipe(**question.given())
        return Asked(consortium=consortium, recipe=price, terms=terms_of(price.counts))
    rules, tolerate = schema.rules(consortium.rules.rules), consortium.rules.tolerate
    check_width(
        job,
        rules,
        consortium.topology.n_parties - (1 if tolerate is None else tolerate),
    )
    with about(question.heading):
        found = prepared(job, rules, terms_of)
    return Asked(
        consortium=consortium,
        recipe=found.recipe,
        terms=found.terms,
        rules=rules,
        job=job,
    )


def promise_of(consortium: Consortium) -> Guarantee:
    """Return what the members of a consortium are promised before a run.

    It follows from the file alone: from the graph, the masks, and what is asked.

    Raises:
        InvalidInputError: nobody could take part in it.
    """
    found = agreed_on(consortium)
    return promise_before(found.recipe, found.terms)


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


def _balance_nothing(consortium: Consortium) -> None:
    """Balance no demand at all: that takes one round, and every check comes first."""
    (question,) = consortium.questions
    assert isinstance(question, DispatchSection)
    nothing = {"demand": [0.0], **{key: [nan] for key in ("a", "b", "low", "high")}}
    if question.periods is not None:
        nothing = {f"demand_{k + 1}": [0.0] for k in range(question.periods)}
    tables = {name: as_frame(nothing) for name in consortium.topology.parties}
    job_of(consortium, tables, driver="vectorised", seed=0).run()
