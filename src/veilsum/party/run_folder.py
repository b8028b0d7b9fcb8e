"""A run's folder: what `veilsum join` wrote, for audits and reports.

The run is the receipt's. Its consortium file, this party's key and transcripts of the
run are looked for in the folder and in the one around it, where `join` is typed. What
is not there is not audited, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from veilsum.consortium.consortium import Consortium
from veilsum.consortium.pem import der_of_pem
from veilsum.errors import InvalidInputError, VeilsumError
from veilsum.files.consortiums import read_consortium
from veilsum.net.identity import Identity, read_identity
from veilsum.net.receipt import (
    Receipt,
    ReceiptFinding,
    ResultFile,
    read_receipt,
    read_result_beside_receipt,
    verify_receipts,
)
from veilsum.numbers.arrays import listed_names
from veilsum.party.transcript_file import is_transcript, read_transcript
from veilsum.privacy.transcript import Transcript

# Folders of runs are small; of more files the first ones are looked at.
MOST_FILES = 1000
# How consortium files are called.
SUFFIXES = (".toml", ".veil")
# What only the receipts of all parties together show.
OF_ALL = ("receipts of all parties", "edges are confirmed by both ends")


@dataclass(frozen=True)
class RunFolder:
    """Files of a run in a folder, each read at its first use."""

    folder: Path

    @cached_property
    def files(self) -> tuple[Path, ...]:
        own = self.folder.resolve()
        found = [one for place in (own, own.parent) for one in sorted(place.iterdir())]
        return tuple(one for one in found[:MOST_FILES] if one.is_file())

    @cached_property
    def receipt(self) -> Receipt | None:
        """This party's signed receipt; None if the run ended without one."""
        path = self.folder / "receipt.json"
        return read_receipt(path) if path.exists() else None

    @cached_property
    def result(self) -> ResultFile | None:
        """The answer as a receipt has it; None where it cannot be compared with one."""
        path = self.folder / "result.json"
        try:
            return read_result_beside_receipt(path) if path.exists() else None
        except InvalidInputError:
            return None

    @cached_property
    def agreed(self) -> tuple[Path, Consortium] | None:
        """The consortium file of the run; the only one, if nothing says which run."""
        found = list(_consortium_files_among(self.files))
        if self.receipt is not None:
            run, digest = self.receipt.run, self.receipt.consortium
            found = [
                one
                for one in found
                if (one[1].run, one[1].digest.hex()) == (run, digest)
            ]
        elif len(found) > 1:
            names = ", ".join(path.name for path, _ in found)
            raise InvalidInputError(
                f"{self.folder} has no receipt.json that says which run it is, and "
                f"there are several consortium files ({names}): name one of them "
                "instead of the folder",
                code="ambiguous-consortium-file",
            )
        return found[0] if found else None

    @property
    def file(self) -> Path | None:
        return None if self.agreed is None else self.agreed[0]

    @property
    def run(self) -> str | None:
        if self.receipt is not None:
            return self.receipt.run
        return None if self.agreed is None else self.agreed[1].run

    @cached_property
    def identities(self) -> tuple[Identity, ...]:
        return tuple(_identities_among(self.files))

    @cached_property
    def transcripts(self) -> tuple[Transcript, ...]:
        """Transcripts of this run by members whose keys are in the folder, too."""
        return tuple(
            read_transcript(path, identity, run=self.run)
            for path in self.files
            for identity in self.identities
            if is_transcript(path, identity, run=self.run)
        )

    @cached_property
    def checks(self) -> tuple[ReceiptFinding, ...]:
        """Findings from checking the receipt against the other files."""
        if self.receipt is None:
            return ()
        consortium = None if self.agreed is None else self.agreed[1]
        verdict = verify_receipts([self.receipt], consortium, result=self.result)
        found = [one for one in verdict.findings if one.check not in OF_ALL]
        for one in self.transcripts:
            same = one.plan.hex() == self.receipt.plan
            whose = ("" if same else "not that of ") + listed_names(one.corrupted)
            found.append(
                ReceiptFinding("the transcript is of the signed plan", same, whose)
            )
        return tuple(found)

    @property
    def missing(self) -> tuple[str, ...]:
        """Sentences on files absent from the folder, and therefore not audited."""
        found = []
        if self.receipt is None:
            found.append(
                "receipt: there is no receipt.json, so nothing says how the run ended"
            )
        else:
            found.append(
                "receipts of others: only theirs show that everybody confirmed every "
                "edge; veilsum verify takes them"
            )
        if self.agreed is None:
            found.append(
                "sums and frames: the run's consortium file is neither in the folder "
                "nor around it"
            )
        if self.receipt is not None and self.result is None:
            found.append(
                "result: no result.json is here whose numbers a receipt signs; answers "
                "that follow from sums are compared between parties"
            )
        if not self.transcripts:
            found.append(
                "shares that were received: no transcript of this run and its key are "
                "here; veilsum join --transcript FILE keeps one"
            )
        if any(not one.whole for one in self.transcripts):
            found.append("the end of the run: the transcript grew too long for it")
        return tuple(found)


def _consortium_files_among(
    files: tuple[Path, ...],
) -> Iterator[tuple[Path, Consortium]]:
    for path in files:
        if path.suffix in SUFFIXES:
            try:
                yield path, read_consortium(path)
            except VeilsumError:
                continue  # another kind of file


def _identities_among(files: tuple[Path, ...]) -> Iterator[Identity]:
    seen = set()
    for path in files:
        if path.suffix != ".key":
            continue
        try:
            found = read_identity(path)
        except VeilsumError:
            continue  # somebody else's kind of key
        if (der := der_of_pem(found.certificate)) not in seen:
            seen.add(der)
            yield found
