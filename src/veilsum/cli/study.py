"""`veilsum study`: several questions to the same members, how far they are, and more.

Taking part in one is `veilsum join`, which comes here with the file of a study.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.app import BadInput, on_screen
from veilsum.cli.output import FILE, json_option, print_json, say
from veilsum.cli.own_table import taken

if TYPE_CHECKING:
    from veilsum.agreement.study import AgreedStudy
    from veilsum.jobs.running import JobResult
    from veilsum.parties.consent import Consent
    from veilsum.parties.studying import QuestionStatus, StudyStatus

LOG = logging.getLogger("veilsum.net")


@click.group("study")
def command() -> None:
    """Say how far a study of several questions is, or add questions to one.

    \b
    Example:
      veilsum study status out
      veilsum study extend study.toml more.toml -o study-2.toml
    """


@command.command("status")
@click.argument("folder", type=FILE)
@json_option
def status(*, folder: Path, as_json: bool) -> None:
    """Say how far the study in FOLDER is: every question, and why one has no result.

    FOLDER is what join had with --out. Why a question was refused is for its owner
    alone. The exit code is 0 if every question has a result, else 1.

    \b
    Example:
      veilsum study status out
    """
    from veilsum.parties.studying import read_status

    found = read_status(folder)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found, folder)
    click.get_current_context().exit(0 if found.good else 1)


@command.command("extend")
@click.argument("study", type=FILE)
@click.argument("more", type=FILE)
@click.option(
    "-o",
    "--out",
    type=FILE,
    required=True,
    help="The file of the next edition; one that is there is left alone.",
)
@json_option
def extend(*, study: Path, more: Path, out: Path, as_json: bool) -> None:
    """Write the next edition of STUDY, with the questions in MORE.

    MORE has [[question]] entries and nothing else. All that was agreed stays as it is:
    members consent to the new questions with veilsum join, and those that are over are
    not run again.

    \b
    Example:
      veilsum study extend study.toml more.toml -o study-2.toml
    """
    from veilsum.agreement.study import AgreedStudy, study_from
    from veilsum.files.consortiums import read_agreement, write_consortium
    from veilsum.files.scenarios import read_toml
    from veilsum.parties.agreed import check_agreed

    before = read_agreement(study)
    if not isinstance(before, AgreedStudy):
        raise BadInput(f"{study} is the file of one question, and no study")
    added = read_toml(more)
    if [*added] != ["question"] or not isinstance(added["question"], list):
        raise BadInput(
            f"{more} must have [[question]] entries and nothing else, found "
            f"{', '.join(added) or 'nothing'}: all else stays as it was agreed"
        )
    grown = study_from(before.grown(added["question"]))
    for name in grown.new:
        check_agreed(grown.questions[name])
    write_consortium(out, grown)
    if as_json:
        print_json({"digest": grown.digest.hex(), "new": list(grown.new)})
        return
    click.echo(
        f"{out}: {len(grown.questions)} questions, new: {', '.join(grown.new)}\n"
        f"digest  {grown.digest.hex()}"
    )


# Taking part


def join_study(
    study: AgreedStudy,
    file: Path,
    key: Path | None,
    files: dict[str, Path | None],
    how: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Take part in all questions of a study, and say how each went."""
    from veilsum.agreement.consortium import Address
    from veilsum.cli.join import _ask, _ledger, _progress, only_key, own_rules
    from veilsum.net.identity import read_identity
    from veilsum.net.trust import check_identity
    from veilsum.parties.joining import OwnTable, own_part
    from veilsum.parties.studying import StudyPart

    style, yes = how["style"], how["yes"]
    for option in ("state", "transcript"):
        if how[option] is not None:
            raise BadInput(
                f"--{option} is about one run, and a study has one for each question: "
                "leave it out"
            )
    identity = read_identity(key or only_key(file.parent))
    check_identity(identity, study.first.certificates)
    part = own_part(study.first, data=files["data"], cost=files["cost"], **taken(how))
    assert isinstance(part, OwnTable)

    def consent(page: Consent) -> None:
        if not yes:
            _ask(page)

    def tell(found: QuestionStatus, result: JobResult | None) -> None:
        if style == "json":
            about = {"question": found.name, "stage": found.stage}
            LOG.info("question over", extra=about)
            return
        say(f"  {found.name}: {found.stage}")
        summary = getattr(result, "summary", None)
        if summary is not None and not as_json:
            click.echo(f"\n{found.name}\n{summary()}\n")

    def watching(name: str) -> Any:
        if style == "text":
            say(f"  question {name}")
        return _progress(style)

    with ExitStack() as stack:
        path = how["ledger_file"] or identity.key_file.with_suffix(".ledger")
        taking = StudyPart(
            study=study,
            identity=identity,
            part=part,
            own=own_rules(how["own"], identity.key_file.parent),
            ledger=stack.enter_context(_ledger(path, study.first)),
            out=how["out"],
            alone=yes,
            without=how["without"],
            listen=None if how["listen"] is None else Address.of(how["listen"]),
            tell=tell,
            watching=watching,
        )
        found = taking.run(consent)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found, how["out"])
    click.get_current_context().exit(0 if found.good else 1)


def _print(found: StudyStatus, folder: Path) -> None:
    rows = found.stages.values()
    done = sum(one.stage == "finished" for one in rows)
    click.echo(on_screen(f"{found.title or found.run}, {found.party}"))
    for one in rows:
        where = folder / one.name / "result.json"
        told = f"{where}" if one.stage == "finished" else one.reason
        line = f"  {one.name:<24}{one.stage:<10}{told}".rstrip()
        click.echo(on_screen(" ".join(line.split("\n"))))
    click.echo(f"{done} of {len(rows)} questions have a result")
