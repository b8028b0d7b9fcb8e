"""A copy of what a party must not lose, and what becomes of it when it is put back.

In it are its keys and certificates, its own rules, its ledger, and the token of a relay
if there is one beside the key. Not in it are runs on their way: neighbours recognise a
party that comes back with an older disk, and end the run, which is the safe thing. The
copy of the ledger knows that it is one: put back, it allows nothing before its owner
has said what was shown in between. A copy that was made by other means cannot know
that. A delegate's store of surveys is in it without keys, which would come back after
they were erased; put back, nothing is added up with it before it knows again which sets
were added in between.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from veilsum.consortium.consortium import Consortium, check_member_name
from veilsum.errors import InvalidInputError, OutputError, VeilsumError, printable
from veilsum.files.consortiums import read_consortium
from veilsum.files.ledger import copy_ledger, open_ledger, read_ledger
from veilsum.files.output import write_files
from veilsum.files.safe_read import read_file_contents
from veilsum.files.sqlite import files_beside
from veilsum.net.receipt import Receipt, read_receipt
from veilsum.net.relay_tokens import TOKEN_FILE
from veilsum.numbers.arrays import listed_names
from veilsum.party.own_rules import FILE_NAME
from veilsum.party.own_survey import STORE, SUBMISSIONS
from veilsum.sums.kinds import question_kind_of
from veilsum.surveys.delegate import AnsweredSurvey, survey_to_answer
from veilsum.surveys.store_copy import (
    check_roster_in_copy,
    copy_store,
    known_in_copy,
    put_store_copy_in_use,
)
from veilsum.surveys.submission import longest_submission
from veilsum.surveys.survey_set import closed_survey_set, read_submissions
from veilsum.surveys.terms import SurveyTerms, survey_terms

MOST_BYTES = 1 << 30
# Where files of runs lie: in a folder, and in folders in it.
_PLACES = ("", "*/", "*/*/")
_FILES = (".toml", ".veil")
# The last file of a backup: the SHA-256 of each other one, as sha256sum writes it.
CHECKSUMS = "SHA256SUMS"


def _party_files_to_back_up(name: str) -> tuple[str, ...]:
    """Return the files of a party, in the order in which they are copied."""
    pairs = (f"{name}{stem}" for stem in ("", ".former"))
    keys = (f"{stem}{suffix}" for stem in pairs for suffix in (".key", ".crt"))
    return (*keys, FILE_NAME, TOKEN_FILE, f"{name}.ledger", STORE)


def make_backup(folder: Path, name: str, out: Path) -> tuple[str, ...]:
    """Write a party's files into one that only its owner may read; return their names.

    A ledger may be in use meanwhile.
    """
    if out.exists():
        raise OutputError(
            f"{out} is there already and is left as it is", code="file-exists"
        )
    found: dict[str, bytes] = {}
    copying = {f"{name}.ledger": copy_ledger, STORE: copy_store}
    for file in _party_files_to_back_up(name):
        path = folder / file
        if not path.exists():
            continue
        if file in copying:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".veilsum-") as aside:
                copying[file](path, Path(aside) / file)
                found[file] = (Path(aside) / file).read_bytes()
        else:
            found[file] = path.read_bytes()
    if f"{name}.key" not in found:
        raise InvalidInputError(
            f"{folder} has no {name}.key: nothing was written", code="missing-key"
        )
    found[CHECKSUMS] = _party_backup_checksums(found)
    packed = io.BytesIO()
    plain = tarfile.GNU_FORMAT  # a name in any letters is one header
    with tarfile.open(
        fileobj=packed, mode="w", format=plain, encoding="utf-8"
    ) as archive:
        for file, content in found.items():
            entry = tarfile.TarInfo(file)
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    write_files(out.parent, {out.name: packed.getvalue()}, private=True)
    return tuple(one for one in found if one != CHECKSUMS)


def _party_backup_checksums(files: Mapping[str, bytes]) -> bytes:
    lines = (f"{sha256(files[one]).hexdigest()}  {one}\n" for one in sorted(files))
    return "".join(lines).encode()


def restore_backup(backup: Path, folder: Path) -> tuple[str, ...]:
    """Put back what is in a backup, all of it or nothing; overwrite nothing."""
    raw = read_file_contents(backup, MOST_BYTES, InvalidInputError)
    try:
        found = _unpack_party_backup(raw)
        sums = found.pop(CHECKSUMS, None)
        keys = [one.removesuffix(".key") for one in found if one.endswith(".key")]
        name = check_member_name(next(iter(keys), ""))
        if odd := [one for one in found if one not in _party_files_to_back_up(name)]:
            raise InvalidInputError(
                f"it holds {listed_names([printable(one) for one in odd])}",
                code="backup-of-other-content",
            )
    except (tarfile.TarError, ValueError) as error:
        raise InvalidInputError(
            f"{backup} is not a backup of veilsum, or is damaged: {error}",
            code="not-a-backup",
        ) from None
    if sums is None:
        raise InvalidInputError(
            f"{backup} has format 1, without {CHECKSUMS}: put it back with the version "
            "of veilsum that made it",
            code="wrong-format",
        )
    if sums != _party_backup_checksums(found):
        raise InvalidInputError(
            f"{backup} is damaged (its files do not fit {CHECKSUMS} in it); nothing "
            "was put back: use another copy",
            code="backup-damaged",
        )
    for file in found:
        for path in (folder / file, *files_beside(folder / file)):
            if path.exists():
                raise OutputError(
                    f"{path} is there already: nothing was put back; choose an empty "
                    "folder",
                    code="file-exists",
                )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ledger = f"{name}.ledger"
    if ledger in found:
        found[ledger] = _mark_ledger_as_backup_copy(found[ledger], folder)
    if STORE in found:
        found[STORE] = _mark_survey_store_as_copy(found[STORE], folder)
    write_files(folder, found, private=True)
    return tuple(found)


def _unpack_party_backup(raw: bytes) -> dict[str, bytes]:
    """Return the files of an archive as `make_backup` writes it, and of no other.

    Archives can do much more: links, files with holes that unpack to any size, headers
    that send their reader round in circles. Here one ordinary file follows another.
    """
    found: dict[str, bytes] = {}
    at, block = 0, tarfile.BLOCKSIZE
    while at == 0 or raw[at : at + block].strip(b"\0"):
        entry = tarfile.TarInfo.frombuf(raw[at : at + block], "utf-8", "strict")
        start = at + block
        at = start + -(-entry.size // block) * block
        if entry.type != tarfile.REGTYPE or not start <= at <= len(raw):
            raise InvalidInputError(
                "it holds something else than whole, plain files",
                code="backup-not-plain-files",
            )
        found[entry.name] = raw[start : start + entry.size]
        if len(found) > len(_party_files_to_back_up("")) + 1:
            raise InvalidInputError(
                "it holds more than a party's files", code="backup-has-more-files"
            )
    return found


def _mark_ledger_as_backup_copy(ledger: bytes, folder: Path) -> bytes:
    """Return a ledger that knows that it is a copy, though somebody took that out."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".veilsum-") as aside:
        (path,) = write_files(Path(aside), {"ledger": ledger}, private=True)
        if read_ledger(path).copied is not None:
            return ledger
        copy_ledger(path, Path(aside) / "copy")
        return (Path(aside) / "copy").read_bytes()


def _mark_survey_store_as_copy(store: bytes, folder: Path) -> bytes:
    """Return a store without keys that knows that it is a copy, whatever it was."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".veilsum-") as aside:
        (path,) = write_files(Path(aside), {"store": store}, private=True)
        copy_store(path, Path(aside) / "copy")
        return (Path(aside) / "copy").read_bytes()


def resume_party_surveys(
    store: Path, closed: Sequence[Path] = (), uncounted: Sequence[str] = ()
) -> tuple[str, ...]:
    """Use a store that was put back, if all surveys that are known of are in it.

    Receipts in its folder, and in folders in it, tell of surveys. Those that the store
    does not know must be given, or be among the uncounted. Return the titles of those
    that were written down.

    Args:
        store: that was put back.
        closed: folders, each with a closed file and its submissions.
        uncounted: runs that nobody has these of any more.
    """
    given = [_answered_survey_in_backup(folder) for folder in closed]
    here = {
        one.digest.hex(): one for one in _closed_survey_files_of_party(store.parent)
    }
    for shown, _ in given:
        check_roster_in_copy(store, survey_terms(shown))
        here[shown.digest.hex()] = shown
    known = known_in_copy(store) | {(one.survey, one.set) for _, one in given}
    missing = []
    for receipt in _receipts_near_party_file(store):
        if not any(release.get("guests") for release in receipt.released):
            continue
        file = here.get(receipt.consortium)
        terms = None if file is None else survey_terms(file)
        if terms is not None:
            _check_same_set(terms, receipt, closed, given)
        added = terms is not None and (terms.digest, terms.set) in known
        if not added and receipt.run not in uncounted:
            missing.append(receipt.run)
    if missing:
        raise InvalidInputError(
            f"{store} knows nothing of {listed_names(sorted({*missing}))}, of which "
            "there "
            "are receipts beside it: give the folder with each one's closed file and "
            "submissions.jsonl (--closed); if nobody has them any more, name it with "
            "--uncounted, and be a delegate of no survey that asks guests of it",
            code="survey-not-known",
        )
    put_store_copy_in_use(store, [one for _, one in given])
    return tuple(survey_terms(file).title for file, _ in given)


def _check_same_set(
    terms: SurveyTerms,
    receipt: Receipt,
    closed: Sequence[Path],
    given: Sequence[tuple[Consortium, AnsweredSurvey]],
) -> None:
    """Refuse another set of a survey than the one that a receipt is of."""
    for folder, (_, one) in zip(closed, given, strict=True):
        if one.survey == terms.digest and one.set != terms.set:
            raise InvalidInputError(
                f"{folder} names the set {one.set[:16]} of a survey of which the "
                f"receipt of {receipt.run} shows that {str(terms.set)[:16]} was added: "
                "give the closed file and submissions.jsonl of that one, and ask "
                "whoever handed out the other",
                code="set-not-known",
            )


def _answered_survey_in_backup(folder: Path) -> tuple[Consortium, AnsweredSurvey]:
    """Return a survey as a store keeps it, from what its host has handed out."""
    found = list(_closed_survey_files_of_party(folder, places=1))
    if len(found) != 1:
        raise InvalidInputError(
            f"{folder} must hold one closed file of a survey and its {SUBMISSIONS}, "
            f"found {len(found)} such files",
            code="not-one-closed-file",
        )
    terms = survey_terms(found[0])
    most = (longest_submission(terms) + 1) * len(terms.guests)
    content = read_file_contents(folder / SUBMISSIONS, most, InvalidInputError)
    chosen = closed_survey_set(terms, read_submissions(content, terms))
    return found[0], survey_to_answer(terms, chosen)


def _closed_survey_files_of_party(
    folder: Path, *, places: int = len(_PLACES)
) -> Iterator[Consortium]:
    patterns = [f"{place}*{end}" for place in _PLACES[:places] for end in _FILES]
    for path in sorted({one for each in patterns for one in folder.glob(each)}):
        with suppress(VeilsumError):  # another kind of file
            found = read_consortium(path)
            asked: Any = found.question
            if question_kind_of(asked).has_guests and asked.set is not None:
                yield found


def resume_party_ledger(
    ledger: Path, statement: str, uncounted: Sequence[str] = ()
) -> None:
    """Use a ledger that was put back, if all that is known of since then was said.

    Receipts in its folder, and in folders in it, tell of runs; those that it does not
    know must be among the uncounted.
    """
    if not statement.strip():
        raise InvalidInputError(
            "say in a few words what was run since the copy was made, or that nothing "
            "was: whoever reads the ledger later will see them",
            code="reason-missing",
        )
    with open_ledger(ledger) as kept:
        history = kept.history()
        known = {one.run for one in history.reservations}
        known |= {one.run for one in history.releases}
        near = {
            one.run
            for one in _receipts_near_party_file(ledger)
            if one.party == ledger.stem
        }
        missing = sorted(near - known - {*uncounted})
        if missing:
            raise InvalidInputError(
                f"{ledger} knows nothing of {listed_names(missing)}, of which there "
                "are "
                "receipts beside it: none of the numbers that became known in them are "
                "counted. If there is no newer copy, give each with --uncounted",
                code="run-not-known",
            )
        kept.resume(statement, uncounted=uncounted)


def _receipts_near_party_file(path: Path) -> Iterator[Receipt]:
    for place in _PLACES:
        for one in path.parent.glob(f"{place}*.json"):
            with suppress(InvalidInputError):  # another kind of file
                yield read_receipt(one)
