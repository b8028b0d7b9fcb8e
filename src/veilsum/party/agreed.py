"""The question of a consortium, resolved from its file alone."""

from __future__ import annotations

from veilsum.consortium.consortium import Consortium
from veilsum.privacy.guarantee import Guarantee
from veilsum.reading import about
from veilsum.sums.kinds import Asked, agreed_question_of
from veilsum.sums.running import guarantee_before_sums


def resolve_agreed_question(consortium: Consortium) -> Asked:
    """Return what a consortium's question comes to.

    Raises:
        InvalidInputError: nobody could take part in it.
    """
    _, kind = agreed_question_of(consortium)
    return kind.plan(consortium)


def promise_of(consortium: Consortium) -> Guarantee:
    """Return the guarantee that the members of a consortium have before a run.

    It follows from the file alone: from the graph, the masks, and the question.

    Raises:
        InvalidInputError: nobody could take part in it.
    """
    asked = resolve_agreed_question(consortium)
    return guarantee_before_sums(asked.recipe, asked.terms)


def check_agreed_file(consortium: Consortium) -> None:
    """Refuse a file that every member would refuse.

    Raises:
        InvalidInputError: the file has to be mended before it is passed on.
    """
    question, kind = agreed_question_of(consortium)
    asked = resolve_agreed_question(consortium)
    with about(question.heading):
        kind.check(asked)
