"""Surveys of guests: the section [survey]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from veilsum.consortium.consortium import Consortium
from veilsum.reading import about_read_section
from veilsum.sums.kinds import Asked, QuestionKind, agreed_sum_options
from veilsum.sums.running import SumJobResult
from veilsum.sums.wording import PageRoom
from veilsum.surveys.terms import SurveySpec, SurveyTerms, survey_terms

if TYPE_CHECKING:
    from veilsum.surveys.question import SurveyRecipe


class SurveyKind(QuestionKind[SurveySpec]):
    """Surveys: delegates add up shares of the numbers that guests gave."""

    spec = SurveySpec
    input = "folder"
    has_guests = True
    # Each of them holds a share of every guest's numbers.
    needs_all_members = True

    def plan(self, consortium: Consortium) -> Asked:
        from veilsum.surveys.question import SurveyRecipe

        recipe = SurveyRecipe(survey_terms(consortium))
        with about_read_section("survey"):
            terms = recipe.terms(agreed_sum_options(consortium))
        return Asked(consortium=consortium, recipe=recipe, terms=terms)

    def rules_in_force(self, consortium: Consortium) -> dict[str, float | bool]:
        """Return how many colluders and guests a survey counts with."""
        survey = survey_terms(consortium)
        return {
            "tolerate": survey.tolerate,
            "minimum_honest": survey.minimum_honest,
            "minimum_guests": survey.minimum_guests,
            "drop": consortium.rules.policy.drop,
        }

    def run_without_data(self, asked: Asked) -> SumJobResult:
        return cast("SurveyRecipe", asked.recipe).run({}, asked.terms)

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        from veilsum.surveys import words

        yield from words.survey_asked_words(_terms_of_asked_survey(asked), room)

    def warnings(self, asked: Asked) -> Iterator[str]:
        from veilsum.surveys import words

        yield from words.survey_words()["first"]

    def summands(self, asked: Asked) -> str:
        return "guests of the set"

    def who(self, asked: Asked) -> Iterator[str]:
        """Yield who can compute what about guests."""
        from veilsum.surveys import words

        yield from words.survey_collusion_words(_terms_of_asked_survey(asked))

    def rule_lines(self, asked: Asked) -> tuple[str, ...]:
        """Return that no table is looked at, and the rules for guests."""
        from veilsum.surveys import words

        rules = (
            f"- {line}"
            for line in words.survey_check_words(_terms_of_asked_survey(asked))
        )
        return (words.survey_words()["no_tables"], *rules)


def _terms_of_asked_survey(asked: Asked) -> SurveyTerms:
    return survey_terms(asked.consortium)


KIND = SurveyKind()
