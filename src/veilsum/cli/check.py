"""`veilsum check`: what a plan asks, and what one's own table says to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import (
    FILE,
    json_option,
    language_option,
    long_option,
    message_on_screen,
    print_json,
)
from veilsum.cli.own_table import cut_options, table_options, take_table_options

if TYPE_CHECKING:
    from veilsum.consortium.consortium import Consortium
    from veilsum.consortium.study import AgreedStudy
    from veilsum.party.consent import Consent
    from veilsum.party.own_rules import OwnRules
    from veilsum.party.short_page import ConsentPart, Standing


@click.command("check")
@click.argument("plan", type=FILE)
@click.option(
    "--data",
    type=FILE,
    help="This party's own table: a file. Of a survey, a delegate's folder.",
)
@click.option("--cost", type=FILE, help="This party's own cost: a TOML file.")
@table_options
@click.option(
    "--ledger",
    "ledger_file",
    type=FILE,
    help="This party's ledger, to ask whether it has room; it notes the question, and "
    "a refusal.",
)
@cut_options
@click.option(
    "--own",
    type=FILE,
    help="This party's own rules; by default veilsum.toml beside PLAN, if it is there.",
)
@click.option("--party", help="Which of the members this is; by default the first.")
@long_option
@language_option
@json_option
def command(
    *,
    plan: Path,
    data: Path | None,
    cost: Path | None,
    own: Path | None,
    ledger_file: Path | None,
    party: str | None,
    long: bool,
    language: str,
    as_json: bool,
    **how: Any,
) -> None:
    """Show the page of consent for PLAN, and check this party's own table against it.

    PLAN is a consortium file, a study file, or the scenario file of either. The first
    five lines say the question, the people, the price, who learns what, and whether
    this party may take part. No identity, no key and no network is needed, and nothing
    is sent. Without --data or --cost only this party's own rules are checked. The exit
    code is 1 if a rule refuses, else 0; which rule, and why, is for you alone.

    \b
    Example:
      veilsum check plan.toml --data ward7.csv
      veilsum check consortium.toml --data ward7.csv --ledger hospital-3.ledger
    """
    from veilsum.consortium.study import runs_of_agreement
    from veilsum.files.consortiums import read_described_file
    from veilsum.party.own_rules import own_rules_in
    from veilsum.party.study_page import study_consent_page

    agreed, drawn = read_described_file(plan)
    page = study_consent_page(agreed, drawn=drawn)
    rules = own_rules_in(plan.parent, own)
    consortium = runs_of_agreement(agreed)[0]
    name = consortium.member(party or consortium.members[0].name).name
    files = {"data": data, "cost": cost}
    words = take_table_options(how)
    page = check_command_at_home(agreed, page, rules, name, files, ledger_file, words)
    assert page.standing is not None
    good = page.standing.good
    if as_json:
        # What was not looked at is neither.
        looked = any(files.values()) or "cut" in words
        print_json({**page.to_dict(), "good": good if looked or not good else None})
    else:
        click.echo(message_on_screen(page.text(long=long, language=language)), nl=False)
    click.get_current_context().exit(0 if good else 1)


def check_command_at_home(
    agreed: Consortium | AgreedStudy, page: Consent, *given: Any
) -> Consent:
    """Return the page with the owner's half, and whether the owner may take part."""
    from veilsum.consortium.study import AgreedStudy

    if isinstance(agreed, AgreedStudy):
        own, standing = _study_at_home(agreed, *given)
    else:
        own, standing = _run_at_home(agreed, page, *given)
    return replace(page, own=own, standing=standing)


def _study_at_home(
    study: AgreedStudy,
    own: OwnRules,
    party: str,
    files: dict[str, Path | None],
    ledger_file: Path | None,
    how: dict[str, Any],
) -> tuple[tuple[ConsentPart, ...], Standing]:
    from tempfile import TemporaryDirectory

    from veilsum.errors import InvalidInputError
    from veilsum.files.ledger import open_ledger
    from veilsum.party.inputs import PartyTableInput, party_contribution
    from veilsum.party.run import own_party_ledger
    from veilsum.party.short_page import ConsentPart, Standing
    from veilsum.party.studying import study_at_home

    ruled = {
        name: "; ".join(found)
        for name, one in study.questions.items()
        if (found := own.refusals(one, alone=False))
    }
    mine = ConsentPart("your_rules", own.lines)
    if not any(files.values()) and how.get("cut") is None:
        told = [f"- {name}: REFUSED: {why}" for name, why in ruled.items()]
        verdict = ConsentPart("your_rules_say", tuple(told or ["nothing is refused"]))
        return (mine, verdict), Standing(refusals=ruled, of=len(study.questions))
    part = party_contribution(
        study.first, data=files["data"], cost=files["cost"], **how
    )
    assert isinstance(part, PartyTableInput)
    # Without a ledger of one's own, as if nothing had been asked before.
    with TemporaryDirectory() as folder:
        books = (
            own_party_ledger(Path(folder) / "none", study.first)
            if ledger_file is None
            else open_ledger(ledger_file)
        )
        with books as ledger:
            try:
                part = part.on_cut(ledger, party, [*study.questions.values()])
                home = study_at_home(
                    study, part, party, ledger, asked=[*study.questions], refused=ruled
                )
                lines, n = home.lines, len(study.questions)
                standing = Standing(looked=True, refusals=home.refused, of=n)
            except InvalidInputError as error:
                lines = (f"- REFUSED: {error}",)
                rule = getattr(error, "rule", "table")
                standing = Standing(looked=True, refusals={rule: str(error)})
    words = ConsentPart("your_data", (part.words,))
    return (words, ConsentPart("your_checks", lines), mine), standing


def _run_at_home(
    consortium: Consortium,
    page: Consent,
    own: OwnRules,
    party: str,
    files: dict[str, Path | None],
    ledger_file: Path | None,
    how: dict[str, Any],
) -> tuple[tuple[ConsentPart, ...], Standing]:
    from contextlib import ExitStack

    from veilsum.files.ledger import open_ledger
    from veilsum.party.checks import (
        check_question_at_home,
        consent_parts_for_party,
        consent_price_part,
    )
    from veilsum.party.inputs import on_cut, party_contribution
    from veilsum.party.short_page import ConsentPart, Standing
    from veilsum.sums.kinds import question_kind_of

    refused = own.refusals(consortium, alone=False)
    asked = own.refusals(consortium, alone=True)
    told = [f"REFUSED: {why}" for why in refused]
    told += [f"not with --yes: {why}" for why in asked if why not in refused]
    verdict = ConsentPart("your_rules_say", tuple(told or ["nothing is refused"]))
    looked = any(files.values()) or how.get("cut") is not None
    standing = Standing(
        looked=looked,
        refusals={"": "; ".join(refused)} if refused else {},
        unattended="; ".join(why for why in asked if why not in refused),
    )
    if not looked:
        return (ConsentPart("your_rules", own.lines), verdict), standing
    question: Any = consortium.question
    if question_kind_of(question).has_guests and question.set is None:
        lines, why = _open_survey_at_home(consortium, party, files["data"])
        standing = _with(standing, {"survey": why} if why else {})
        return (ConsentPart("your_checks", lines), verdict), standing
    given: dict[str, Any] = {**files, **how}
    part = party_contribution(consortium, **given)
    with ExitStack() as stack:
        ledger = None
        if ledger_file is not None:
            ledger = stack.enter_context(open_ledger(ledger_file))
        part = on_cut(part, ledger, party)
        found = check_question_at_home(part, party, ledger)
        most = page.facts["numbers"][1]
        yours = consent_parts_for_party(part, found, own=own, ledger=ledger, most=most)
        if found.good and (price := consent_price_part(part, party)) is not None:
            yours = (*yours, price)
    return (*yours, verdict), _with(standing, found.refusals)


def _with(standing: Standing, refusals: Mapping[str, str]) -> Standing:
    return replace(standing, refusals={**standing.refusals, **refusals})


def _open_survey_at_home(
    consortium: Consortium, party: str, folder: Path | None
) -> tuple[tuple[str, ...], str]:
    """Return why an open survey is not true about a delegate; "" if it is true.

    Whoever wrote the file could have put a key of its own in this one's place.
    """
    from contextlib import closing

    from veilsum.errors import InvalidInputError
    from veilsum.party.own_survey import STORE
    from veilsum.surveys.delegate import SurveyDelegateStore
    from veilsum.surveys.terms import survey_terms

    try:
        if folder is None or not (folder / STORE).exists():
            raise InvalidInputError(
                f"give the folder with {STORE}, in which veilsum collect delegate made "
                "the key of this survey, with --data FOLDER",
                code="survey-folder-missing",
            )
        with closing(SurveyDelegateStore.open(folder / STORE)) as store:
            store.check_file(survey_terms(consortium), party)
    except InvalidInputError as error:
        return (f"- REFUSED: {error}",), str(error)
    return ("- your key and guests are as you made them",), ""
