"""`veilsum study`: how far several questions to the same members are, and more of them.

Taking part in a study is `veilsum join`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from veilsum.cli.app import BadInput
from veilsum.cli.output import FILE, json_option, message_on_screen, print_json

if TYPE_CHECKING:
    from veilsum.party.studying import StudyStatus


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
    from veilsum.party.studying import read_study_status

    report_study(read_study_status(folder), folder, as_json=as_json)


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
    from veilsum.consortium.study import AgreedStudy, study_from
    from veilsum.files.consortiums import read_agreement, write_consortium
    from veilsum.files.scenarios import read_toml_file
    from veilsum.net.amendment import amendment_file, read_amendment
    from veilsum.sums.kinds import check_agreed_file

    before = read_agreement(study)
    if not isinstance(before, AgreedStudy):
        raise BadInput(f"{study} is the file of one question, and no study")
    added = read_toml_file(more)
    if [*added] != ["question"] or not isinstance(added["question"], list):
        raise BadInput(
            f"{more} must have [[question]] entries and nothing else, found "
            f"{', '.join(added) or 'nothing'}: all else stays as it was agreed"
        )
    grown = study_from(before.grown(added["question"]))
    for name in grown.new:
        check_agreed_file(grown.questions[name])
    write_consortium(out, grown)
    if before.former:  # members have agreed to its first edition
        read_amendment(amendment_file(study)).write(out)
    if as_json:
        print_json({"digest": grown.digest.hex(), "new": list(grown.new)})
        return
    click.echo(
        f"{out}: {len(grown.questions)} questions, new: {', '.join(grown.new)}\n"
        f"digest  {grown.digest.hex()}"
    )


def report_study(found: StudyStatus, folder: Path, *, as_json: bool) -> NoReturn:
    """Print a line for every question of a study; exit with 1 if one has no result."""
    if as_json:
        print_json(found.to_dict())
        click.get_current_context().exit(0 if found.good else 1)
    rows = found.stages.values()
    done = sum(one.stage == "finished" for one in rows)
    click.echo(message_on_screen(f"{found.title or found.run}, {found.party}"))
    for one in rows:
        where = folder / one.name / "result.json"
        told = f"{where}" if one.stage == "finished" else one.reason
        line = f"  {one.name:<24}{one.stage:<10}{told}".rstrip()
        click.echo(message_on_screen(" ".join(line.split("\n"))))
    click.echo(f"{done} of {len(rows)} questions have a result")
    click.get_current_context().exit(0 if found.good else 1)
