"""Documents for a data-protection officer, in all formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from veilsum.errors import InvalidInputError
from veilsum.locale import catalogue_languages
from veilsum.report.annex import annex_of_plan, annex_paper_docx, annex_paper_html
from veilsum.report.forms import acro_form, edpb_paper, five_safes_crate, pia_form
from veilsum.report.plan_facts import PlanFacts, plan_facts_of

Made: TypeAlias = Callable[[Path, PlanFacts, str, datetime], bytes]

FORMATS: Mapping[str, Made] = {
    "html": lambda _path, facts, language, now: annex_paper_html(
        annex_of_plan(facts, language, now)
    ),
    "docx": lambda _path, facts, language, now: annex_paper_docx(
        annex_of_plan(facts, language, now), now
    ),
    "edpb": lambda _path, facts, language, _now: annex_paper_html(
        edpb_paper(facts, language)
    ),
    "edpb-docx": lambda _path, facts, language, now: annex_paper_docx(
        edpb_paper(facts, language), now
    ),
    "pia": lambda _path, facts, language, now: pia_form(facts, language, now),
    "acro": lambda _path, facts, language, now: acro_form(facts, language, now),
    "crate": five_safes_crate,
}


def officer_document(
    path: Path, *, format: str, language: str, now: datetime | None = None
) -> bytes:
    """Return what an officer asks for, as a file has it.

    Args:
        path: a scenario, a consortium file, the file of a study, or the folder of a
            finished run.
        format: `html` or `docx`, the annex; `edpb_paper` or `edpb-docx`, the same under
        the
            sections of the EDPB's template; `pia_form`, for CNIL's tool; `acro_form`, a
            record of the disclosure checks; `five_safes_crate`, a Five Safes RO-Crate
            of a finished run.
        language: such as `en` and `de`: a folder of veilsum/locale with officer.toml.
        now: when it is made; the present by default.

    Raises:
        InvalidInputError: there is no such format or language, or the plan is none.
    """
    for what, given, known in (
        ("format", format, tuple(FORMATS)),
        ("language", language, catalogue_languages()),
    ):
        if given not in known:
            raise InvalidInputError(
                f"there is no {what} {given!r} for an officer; choose from "
                f"{', '.join(known)}",
                code="unknown-paper",
            )
    return FORMATS[format](
        path, plan_facts_of(path), language, now or datetime.now(UTC)
    )
