"""Consent page of a study: one page for all questions.

It states the combined effect of the questions, then contains the page of each, letter
by letter the one whose digest is in the receipt of that question's run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial

from veilsum.consortium.consortium import Consortium
from veilsum.consortium.study import AgreedStudy
from veilsum.errors import printable
from veilsum.locale import phrase
from veilsum.net.identity import fingerprint_in_groups
from veilsum.numbers.arrays import listed_names
from veilsum.party.consent import Consent, consent_to
from veilsum.party.own_rules import relaxed_rules
from veilsum.party.short_page import ConsentPart
from veilsum.privacy.composition import (
    Charge,
    CompositionTotal,
    Exposure,
    mobile_adversary_total,
)
from veilsum.sums.kinds import resolve_agreed_question
from veilsum.sums.wording import quoted_for_release

_say = partial(phrase, "consent")


def consent_pages_of_questions(
    study: AgreedStudy, *, drawn: bool = True
) -> dict[str, Consent]:
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
    pages = consent_pages_of_questions(study, drawn=drawn) if pages is None else pages
    total = study_privacy_total(study, pages)
    shared = [
        ConsentPart(
            "study_1" if len(pages) == 1 else "study",
            tuple(_study_page_head_lines(study, drawn=drawn)),
            {"n": len(pages)},
        ),
        ConsentPart("first", tuple(_study_page_first_lines(study))),
        ConsentPart("together", tuple(_study_page_sum_lines(pages, total))),
    ]
    for place, (name, page) in enumerate(pages.items(), start=1):
        lines = [_say("study.digest", digest=page.digest)]
        if name not in study.new:
            lines.append(_say("study.earlier"))
        about = {"place": place, "n": len(pages), "name": name}
        shared += [ConsentPart("question", tuple(lines), about), *page.shared]
    facts = {
        "run": study.run if drawn else None,
        "study": study.digest.hex() if drawn else None,
        "title": printable(study.title),
        "organiser": study.organiser or None,
        "members": list(study.first.topology.parties),
        "new": list(study.new),
        "epsilon": total.epsilon,
        "numbers": [
            sum(_study_page_numbers(page)[k] for page in pages.values()) for k in (0, 1)
        ],
        "questions": {
            name: {"digest": page.digest, **page.facts} for name, page in pages.items()
        },
    }
    return Consent(shared=tuple(shared), facts=facts, questions=pages)


def study_consent_page(
    agreed: Consortium | AgreedStudy, *, drawn: bool = True
) -> Consent:
    """Return what a file asks, whether it has one question or several."""
    if isinstance(agreed, Consortium):
        return consent_to(agreed, drawn=drawn)
    return consent_to_study(agreed, drawn=drawn)


def study_privacy_total(
    study: AgreedStudy, pages: Mapping[str, Consent]
) -> CompositionTotal:
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
    return mobile_adversary_total(charges)


def _study_page_numbers(page: Consent) -> tuple[int, int]:
    least, most = page.facts["numbers"]
    return least, most


def _study_page_head_lines(study: AgreedStudy, *, drawn: bool) -> Iterator[str]:
    if study.title:
        yield _say("head.title", title=quoted_for_release(study.title))
    else:
        yield _say("head.no_title")
    if drawn:
        yield _say("study.run", run=study.run)
        yield _say("study.file", digest=fingerprint_in_groups(study.digest))
    else:
        yield _say("study.no_run")
    for one in study.editions[:-1] if drawn else ():
        names = ", ".join([*study.questions][: one.questions])
        yield _say("study.edition", digest=one.digest, names=names)
    if study.former:
        yield _say("study.amends", former=study.former)
    parties = study.first.topology.parties
    names = listed_names(parties, most=len(parties))
    yield _say("head.members", n=len(parties), names=names)
    names = ", ".join(study.questions)
    yield _say("study.questions", n=len(study.questions), names=names)
    if len(study.editions) > 1:
        yield _say("study.new", names=", ".join(study.new))
    if study.organiser:
        yield _say("study.organiser", organiser=study.organiser)
    else:
        yield _say("head.no_organiser")


def _study_page_first_lines(study: AgreedStudy) -> Iterator[str]:
    weaker = list(relaxed_rules(study.first))
    if weaker:
        yield _say("study.weaker", names=", ".join(weaker))
    yield _say("study.at_once")
    yield _say("study.own_runs")
    yield _say("study.staying_away")


def _study_page_sum_lines(
    pages: Mapping[str, Consent], total: CompositionTotal
) -> Iterator[str]:
    columns: dict[str, None] = {}
    for page in pages.values():
        columns |= dict.fromkeys(page.facts["columns"])
    yield _say(
        "study.most",
        sums=sum(page.facts["rounds"][1] for page in pages.values()),
        numbers=sum(_study_page_numbers(page)[1] for page in pages.values()),
    )
    for name, page in pages.items():
        quoted = [quoted_for_release(one) for one in page.facts["columns"]]
        yield _say(
            "study.question",
            name=name,
            kind=page.facts["question"],
            numbers=_study_page_numbers(page)[1],
            columns=listed_names(quoted),
        )
    if total.epsilon is None:
        yield _say("study.no_bound", why=total.reason)
    else:
        yield _say("study.epsilon", epsilon=total.epsilon)
    yield _say("study.columns", n=len(columns))
    yield _say("study.answers_add_up")
    yield _say("study.ledger")
    yield _say("study.elsewhere")
