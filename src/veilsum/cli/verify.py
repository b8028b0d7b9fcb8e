"""`veilsum verify`: what the receipts of a run prove together, and what evidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import json_option, print_json
from veilsum.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from veilsum.consortium.consortium import Consortium
    from veilsum.net.evidence import Evidence, EvidenceJudgement
    from veilsum.net.receipt import Receipt, ReceiptFinding, Verdict


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
    help="A party's result.json: with --consortium, and with sums.json beside it, "
    "whether all that it says follows from the sums that were signed; without them, "
    "whether its minimiser and its guarantee are those that were signed.",
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
    the policy does not let go. With the consortium file plan, page, guarantee and what
    was released are worked out again, and with a member's result and sums every number
    in the result: what all members have signed together may still be wrong. Evidence
    that join kept of a member may be among the files, or stand alone: it is said who
    contradicted itself, or why that is not proved. The exit code is 0 only if all of
    this holds and all evidence proves something, 1 if not, 2 if a file cannot be read
    or compared.

    \b
    Example:
      veilsum verify out/*/receipt.json --consortium study.veil
      veilsum verify out/*/receipt.json --consortium study.veil \
        --result out/mine/result.json
      veilsum verify out/mine/evidence-ward3.json --consortium study.veil
    """
    from veilsum.net.evidence import (
        Evidence,
        judge_signed_evidence,
        read_signed_receipt_or_evidence,
    )
    from veilsum.net.receipt import Receipt, read_result_beside_receipt, verify_receipts
    from veilsum.party.replay import agreed_findings

    given = [read_signed_receipt_or_evidence(file) for file in files]
    receipts = [one for one in given if isinstance(one, Receipt)]
    evidence = [one for one in given if isinstance(one, Evidence)]
    consortium = (
        None
        if agreed is None
        else _read_verified_agreement(agreed, [*receipts, *evidence])
    )
    verdict = None
    if receipts or answer is not None:
        more = None
        if consortium is not None and answer is not None:
            more = _check_result_against_receipts(receipts, consortium, answer)
        result = (
            None
            if answer is None or more is not None
            else read_result_beside_receipt(answer)
        )
        verdict = verify_receipts(receipts, consortium, result=result)
        agreed_ = () if consortium is None else agreed_findings(receipts, consortium)
        found = (*verdict.findings, *agreed_, *(more or ()))
        verdict = replace(verdict, findings=found)
    proofs = [
        judge_signed_evidence(one, consortium, receipts=receipts) for one in evidence
    ]
    report = VerifyReport(verdict, receipts, list(zip(evidence, proofs, strict=True)))
    if as_json:
        print_json(report.to_dict())
    else:
        report.print(telephone=agreed is None)
    click.get_current_context().exit(0 if report.good else 1)


def _check_result_against_receipts(
    receipts: list[Receipt], consortium: Consortium, result: Path
) -> list[ReceiptFinding] | None:
    """Return whether a result follows from the sums beside it; None without them."""
    from veilsum.party.replay import (
        SUMS,
        read_plain_result,
        read_sums_to_replay,
        result_findings,
    )

    if not receipts or not (path := result.with_name(SUMS)).exists():
        return None
    sums = read_sums_to_replay(path)
    found = read_plain_result(result)
    return [*result_findings(receipts, consortium, result=found, sums=sums)]


def _read_verified_agreement(
    file: Path, signed: Sequence[Receipt | Evidence]
) -> Consortium:
    """Return what a file agrees on; of a study, the question that was signed about."""
    from veilsum.consortium.study import runs_of_agreement
    from veilsum.files.consortiums import read_agreement

    found = runs_of_agreement(read_agreement(file))
    if len(found) == 1:
        return found[0]
    runs = {one.run for one in signed}
    named = [one for one in found if one.run in runs]
    if len(named) != 1:
        raise InvalidInputError(
            f"{file} is a study, and the files that were given are about "
            f"{len(named)} of its questions: give those of one question, such as "
            "out/*/NAME/receipt.json",
            code="study-not-question",
        )
    return named[0]


@dataclass(frozen=True)
class VerifyReport:
    """Combined verdict on all files.

    Attributes:
        verdict: verdict on the receipts, if there are any.
        evidence: evidence files, each with its judgement.
    """

    verdict: Verdict | None
    receipts: list[Receipt]
    evidence: list[tuple[Evidence, EvidenceJudgement]]

    @property
    def good(self) -> bool:
        """Whether receipts hold, and evidence proves what it is shown for."""
        holds = self.verdict is None or self.verdict.good
        return holds and all(proof.proved for _, proof in self.evidence)

    @property
    def absent(self) -> list[tuple[str, str]]:
        """Evidence named in receipts but not among the files: (party, digest)."""
        shown = {one.digest for one, _ in self.evidence}
        spoken = (
            (one.party, digest) for one in self.receipts for digest in one.evidence
        )
        return [(party, digest) for party, digest in spoken if digest not in shown]

    def to_dict(self) -> dict[str, Any]:
        found = {"good": True, "findings": [], "fingerprints": []}
        found |= {} if self.verdict is None else self.verdict.to_dict()
        evidence = [
            {"party": one.party, "digest": one.digest, **asdict(proof)}
            for one, proof in self.evidence
        ]
        absent = [{"party": party, "digest": digest} for party, digest in self.absent]
        return {**found, "good": self.good, "evidence": evidence, "absent": absent}

    def print(self, *, telephone: bool) -> None:
        from veilsum.net.identity import certificate_fingerprint

        prints = [] if self.verdict is None else [*self.verdict.fingerprints]
        for finding in () if self.verdict is None else self.verdict.findings:
            click.echo(_printed_receipt_finding(finding))
        for one, proof in self.evidence:
            prints.append((one.party, certificate_fingerprint(one.certificate)))
            click.echo(f"{'proved' if proof.proved else 'NOT ok'}  {proof.words}")
        for party, digest in self.absent:
            click.echo(f"note    {party} has evidence that is not here: {digest}")
        if telephone:
            click.echo(
                "\nWithout --consortium nothing says whose these certificates are: "
                "compare by telephone"
            )
            for party, told in prints:
                click.echo(f"  {party}  {told}")
        if self.verdict is not None:
            words = "everything holds" if self.verdict.good else "NOT everything holds"
            click.echo(f"\n{len(self.receipts)} receipts: {words}")


def _printed_receipt_finding(finding: ReceiptFinding) -> str:
    mark = "ok    " if finding.good else "NOT ok"
    return f"{mark}  {finding.check}: {finding.detail}"
