"""What a party agrees to when it takes part in a study: one page for all questions.

It says what the questions come to together, then has the page of each, letter by letter
as a receipt of that question's run has its digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from veilsum.consortium.consortium import Consortium
from veilsum.consortium.study import AgreedStudy
from veilsum.errors import printable
from veilsum.net.identity import fingerprint_in_groups
from veilsum.numbers.arrays import listed_names
from veilsum.party.consent import Consent, Part, consent_to
from veilsum.party.own_rules import relaxed_rules
from veilsum.privacy.composition import Charge, Exposure, Total, mobile_total
from veilsum.sums.kinds import resolve_agreed_question
from veilsum.sums.wording import quoted_for_release

FIRST = (
    "you agree to all questions at once, and are not asked again before each; one that "
    "you do not want is left out with --without NAME",
    "every question is a run of its own, with masks, a result and a receipt of its "
    "own; one that fails does not stop the others, and what was shown by then stays "
    "known",
    "whoever takes part in some questions and not in another shows all members that it "
    "stays away from that one",
)
ADD_UP = (
    "answers add up: two may tell together what neither tells alone, such as how many "
    "rows are in one group and not in another one. Before you take part, the columns "
    "of all questions, and of what your ledger knows was asked before, are held "
    "together against your table and the rules below; if they single rows out, you "
    "take part in none until you have left one out",
    "your ledger is asked for all questions at once: it has room for all of them, or "
    "nothing is sent. What a question does not come to show is given back",
    "not covered is what somebody knows from elsewhere, and what was asked of your "
    "data without this ledger",
)


def question_pages(study: AgreedStudy, *, drawn: bool = True) -> dict[str, Consent]:
    """Return the page of each question of a study, by its name."""
    return {name: consent_to(one, drawn=drawn) for name, one in study.questions.items()}


def consent_to_study(
    study: AgreedStudy,
    pages: Mapping[str, Consent] | None = None,
    *,
    drawn: bool = True,
) -> Consent:
    """Return what a study asks, and what comes of it; see `consent_to`.

    Args:
        study: what was agreed on, or is to be.
        pages: of its questions, where they are known; by default made here.
        drawn: whether there is a study file; a plan has no digest yet.

    Raises:
        InvalidInputError: nobody could take part in one of its questions.
    """
    pages = question_pages(study, drawn=drawn) if pages is None else pages
    total = study_privacy_total(study, pages)
    shared = [
        Part(
            f"CONSENT TO A STUDY OF {_runs(len(pages))}",
            tuple(_head(study, drawn=drawn)),
        ),
        Part("READ THIS FIRST", (*_weaker(study), *FIRST)),
        Part("WHAT THE QUESTIONS COME TO TOGETHER", tuple(_sum(pages, total))),
    ]
    for place, (name, page) in enumerate(pages.items(), start=1):
        told = [f"Digest of the facts about this question: {page.digest}"]
        if name not in study.new:
            told.append(
                "it came with an earlier edition; whoever has it behind it does not "
                "run it again"
            )
        shared += [
            Part(f"QUESTION {place} OF {len(pages)}: {name}", tuple(told)),
            *page.shared,
        ]
    facts = {
        "run": study.run if drawn else None,
        "study": study.digest.hex() if drawn else None,
        "title": printable(study.title),
        "organiser": study.organiser or None,
        "members": list(study.first.topology.parties),
        "new": list(study.new),
        "epsilon": total.epsilon,
        "numbers": [sum(_numbers(page)[k] for page in pages.values()) for k in (0, 1)],
        "questions": {
            name: {"digest": page.digest, **page.facts} for name, page in pages.items()
        },
    }
    return Consent(shared=tuple(shared), facts=facts)


def study_consent_page(
    agreed: Consortium | AgreedStudy, *, drawn: bool = True
) -> Consent:
    """Return what a file asks, whether it has one question or several."""
    if isinstance(agreed, Consortium):
        return consent_to(agreed, drawn=drawn)
    return consent_to_study(agreed, drawn=drawn)


def study_privacy_total(study: AgreedStudy, pages: Mapping[str, Consent]) -> Total:
    """Return what masks hide in all questions together, as a ledger adds it up.

    Of each question the most sums that it may take count, each with fresh masks.
    """
    charges = []
    for name, one in study.questions.items():
        terms = resolve_agreed_question(one).terms
        exposure = Exposure.of(terms.guarantee, tolerate=terms.tolerate)
        for k in range(pages[name].facts["rounds"][1]):
            epoch = f"{one.run} / {k}"
            mark = hashlib.sha256(epoch.encode()).hexdigest()
            charges.append(
                Charge(
                    epoch=epoch,
                    data=mark,
                    effective=mark,
                    masks=mark if terms.law.hides else None,
                    law=terms.law.name,
                    parties=terms.parties,
                    exposures=(exposure,),
                )
            )
    return mobile_total(charges)


def _runs(number: int) -> str:
    return "1 RUN" if number == 1 else f"{number} RUNS"


def _numbers(page: Consent) -> tuple[int, int]:
    least, most = page.facts["numbers"]
    return least, most


def _head(study: AgreedStudy, *, drawn: bool) -> Iterator[str]:
    yield f"title: {quoted_for_release(study.title)}" if study.title else "title: none"
    if drawn:
        yield f"study: {study.run}"
        digest = fingerprint_in_groups(study.digest)
        yield f"study file: {digest}; compare these digits by telephone"
    else:
        yield "study: none yet; this is a plan, and no study file"
    for one in study.editions[:-1] if drawn else ():
        first = ", ".join([*study.questions][: one.questions])
        yield f"earlier edition {one.digest}: {first}"
    if study.former:
        yield (
            f"amends: the study {study.former}; certificates differ, and every member "
            "has to sign that it takes this file for that one. Questions that you have "
            "behind you there are not run again"
        )
    parties = study.first.topology.parties
    yield f"members: {len(parties)}: {listed_names(parties, most=len(parties))}"
    yield f"questions: {len(study.questions)}: {', '.join(study.questions)}"
    if len(study.editions) > 1:
        yield f"new in this edition: {', '.join(study.new)}"
    yield (
        f"organiser: {study.organiser}, by the file's own word"
        if study.organiser
        else "organiser: the file does not say who wrote it; ask who sent it to you"
    )


def _weaker(study: AgreedStudy) -> Iterator[str]:
    weaker = list(relaxed_rules(study.first))
    if weaker:
        yield (
            f"WEAKER THAN USUAL, in every question: {', '.join(weaker)}; what that "
            "means is said with each question"
        )


def _sum(pages: Mapping[str, Consent], total: Total) -> Iterator[str]:
    columns: dict[str, None] = {}
    for page in pages.values():
        columns |= dict.fromkeys(page.facts["columns"])
    yield (
        f"at most {sum(page.facts['rounds'][1] for page in pages.values())} sums, "
        f"{sum(_numbers(page)[1] for page in pages.values())} numbers in all"
    )
    for name, page in pages.items():
        named = listed_names([quoted_for_release(one) for one in page.facts["columns"]])
        yield (
            f"- {name}: {page.facts['question']}, at most {_numbers(page)[1]} numbers, "
            f"about {named}"
        )
    if total.epsilon is None:
        yield f"masks: no bound holds for all of them together: {total.reason}"
    else:
        yield (
            "masks: what they leave open adds up, over all sums and whoever colludes "
            f"in each, to epsilon {total.epsilon:.6g}. The sums are exact, and what "
            "follows from them is not hidden"
        )
    yield f"columns that are looked at in one question or another: {len(columns)}"
    yield from ADD_UP
