"""`veilsum report`: what a run came to, on one page for people."""

from __future__ import annotations

from pathlib import Path

import click

from veilsum.cli.app import BadInput
from veilsum.cli.output import FILE, json_option, print_json, say_on_terminal
from veilsum.locale import catalogue_languages

# What each form is called at the end of a file's name.
ENDINGS = {
    "html": "html",
    "pdf": "pdf",
    "docx": "docx",
    "edpb": "html",
    "edpb-docx": "docx",
    "pia": "json",
    "acro": "zip",
    "crate": "zip",
}
FOR_READERS = ("html", "pdf")


@click.command("report")
@click.argument("what", metavar="RUN|STUDY|PLAN", type=FILE)
@click.option(
    "-o",
    "--out",
    type=FILE,
    help="The file to write, for its owner only; report.html, .pdf and so on, if not "
    "said.",
)
@click.option(
    "--for",
    "reader",
    type=click.Choice(("reader", "dpo")),
    default="reader",
    show_default=True,
    help="Whom it is for: who reads the result, or a data-protection officer.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(tuple(ENDINGS)),
    default="html",
    show_default=True,
    help="html; pdf, by the Chromium of this computer; for an officer also docx, edpb "
    "and edpb-docx (the EDPB's sections), pia (CNIL's tool), acro (disclosure checks), "
    "crate (Five Safes).",
)
@click.option(
    "--language",
    type=click.Choice(catalogue_languages()),
    default="en",
    show_default=True,
    help="Of what an officer is given.",
)
@click.option(
    "--receipt",
    "receipts",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="Another member's receipt, to be held beside this one's. May be repeated.",
)
@json_option
def command(
    *,
    what: Path,
    out: Path | None,
    reader: str,
    form: str,
    language: str,
    receipts: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Write what a run came to on one page: a file that needs no network.

    RUN is the folder that veilsum join or up wrote to, STUDY that of a study: question,
    answer, figures, network, guarantee, who could compute what, audit and receipts if
    they are there, limits, how to verify. PLAN, a scenario or consortium file, has no
    answer yet, and is for an officer. The file holds what the result does, for whoever
    may read that, and beyond it nothing of anybody's own. The exit code is 1 if
    something that was signed does not hold, which the file says first.

    \b
    Example:
      veilsum report out -o report.html
      veilsum report out --format pdf
      veilsum report consortium.toml --for dpo --language de
    """
    from veilsum.files.output import prepare_output_folder, write_files
    from veilsum.report.printing import report_pdf

    if reader == "reader" and form not in FOR_READERS:
        raise BadInput(f"--format {form} is for an officer: add --for dpo")
    if reader == "reader" and language != "en":
        raise BadInput(
            "a report is in English; other languages are for an officer: add --for dpo"
        )
    target = out or Path(f"report.{ENDINGS[form]}")
    prepare_output_folder(target.parent)
    content, good = _make_report_file(what, reader, form, language, receipts)
    if form == "pdf":
        content = report_pdf(content)
    write_files(target.parent, {target.name: content}, private=True)
    if as_json:
        print_json({"file": str(target), "bytes": len(content), "good": good})
    else:
        click.echo(f"{target} ({len(content):,} bytes), which only you can read")
    if not good:
        say_on_terminal(
            "not everything that was signed holds: the file says what does not"
        )
    click.get_current_context().exit(0 if good else 1)


def _make_report_file(
    what: Path, reader: str, form: str, language: str, receipts: tuple[Path, ...]
) -> tuple[bytes, bool]:
    """Return a file's content, and whether what it was made of is in order."""
    if reader == "dpo":
        from veilsum.report import officer

        written = "html" if form == "pdf" else form
        return officer.officer_document(what, format=written, language=language), True
    from veilsum.report.run_report import report_of_run

    found = report_of_run(what, receipts=receipts)
    return found.content, found.good
