"""`veilsum verify`: what the receipts of a run prove together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.output import json_option, print_json

if TYPE_CHECKING:
    from veilsum.net.receipt import Finding, Verdict


@click.command("verify")
@click.argument(
    "files",
    metavar="RECEIPTS...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
)
@click.option(
    "--consortium",
    "agreed",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The consortium file: whose certificates they are, and which edges there are.",
)
@click.option(
    "--result",
    "answer",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A party's result.json: whether its minimiser and its guarantee are those "
    "that were signed. Nothing else in it is compared.",
)
@json_option
def command(
    *,
    files: tuple[Path, ...],
    agreed: Path | None,
    answer: Path | None,
    as_json: bool,
) -> None:
    """Check what the parties of a run have signed: RECEIPTS, one file of each.

    Signatures are good, all speak of the same run, plan and result, every edge was
    confirmed by both ends, nobody's receipt is missing, and nobody was left out whom
    the policy does not let go. The exit code is 0 only if all of this holds, 1 if
    something does not, 2 if a file cannot be read or compared.

    \b
    Example:
      veilsum verify out/*/receipt.json --consortium study.veil
      veilsum verify out/*/receipt.json --result out/mine/result.json
    """
    from veilsum.files.consortiums import read_consortium
    from veilsum.net.receipt import read_receipt, read_result, verify_receipts

    consortium = None if agreed is None else read_consortium(agreed)
    receipts = [read_receipt(file) for file in files]
    result = None if answer is None else read_result(answer)
    verdict = verify_receipts(receipts, consortium, result=result)
    if as_json:
        print_json(verdict.to_dict())
    else:
        _print(verdict, telephone=agreed is None)
    click.get_current_context().exit(0 if verdict.good else 1)


def _print(verdict: Verdict, *, telephone: bool) -> None:
    for finding in verdict.findings:
        click.echo(_line(finding))
    if telephone:
        click.echo(
            "\nWithout --consortium nothing says whose these certificates are: compare "
            "by telephone"
        )
        for party, fingerprint in verdict.fingerprints:
            click.echo(f"  {party}  {fingerprint}")
    words = "everything holds" if verdict.good else "NOT everything holds"
    click.echo(f"\n{len(verdict.fingerprints)} receipts: {words}")


def _line(finding: Finding) -> str:
    mark = "ok    " if finding.good else "NOT ok"
    return f"{mark}  {finding.check}: {finding.detail}"
