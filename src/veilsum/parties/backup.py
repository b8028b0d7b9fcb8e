"""A copy of what a party must not lose, and what becomes of it when it is put back.

In it are its keys and certificates, its own rules, its ledger, and the token of a relay
if there is one beside the key. Not in it are runs on their way: neighbours recognise a
party that comes back with an older disk, and end the run, which is the safe thing. The
copy of the ledger knows that it is one: put back, it allows nothing before its owner
has said what was shown in between. A copy that was made by other means cannot know
that. Nor is a delegate's store of surveys in it: put back, it would know nothing of
sets that were added in between, and would bring back keys that were erased.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from veilsum.agreement.consortium import check_name
from veilsum.errors import InvalidInputError, OutputError, printable
from veilsum.files.contents import contents
from veilsum.files.ledger import copy_ledger, open_ledger, read_ledger
from veilsum.files.output import write_files
from veilsum.net.passes import TOKEN_FILE
from veilsum.net.receipt import read_receipt
from veilsum.numbers.arrays import listed
from veilsum.parties.own_rules import FILE_NAME

MOST_BYTES = 1 << 30
_RECEIPTS = ("*.json", "*/*.json", "*/*/*.json")


def _wanted(name: str) -> tuple[str, ...]:
    """Return the files of a party, in the order in which they are copied."""
    pairs = (f"{name}{stem}" for stem in ("", ".former"))
    keys = (f"{stem}{suffix}" for stem in pairs for suffix in (".key", ".crt"))
    return (*keys, FILE_NAME, TOKEN_FILE, f"{name}.ledger")


def make_backup(folder: Path, name: str, out: Path) -> tuple[str, ...]:
    """Write a party's files into one that only its owner may read; return their names.

    A ledger may be in use meanwhile.
    """
    if out.exists():
        raise OutputError(f"{out} is there already and is left as it is")
    found: dict[str, bytes] = {}
    for file in _wanted(name):
        path = folder / file
        if not path.exists():
            continue
        if path.suffix == ".ledger":
            with tempfile.TemporaryDirectory(dir=folder, prefix=".veilsum-") as aside:
                copy_ledger(path, Path(aside) / file)
                found[file] = (Path(aside) / file).read_bytes()
        else:
            found[file] = path.read_bytes()
    if f"{name}.key" not in found:
        raise InvalidInputError(f"{folder} has no {name}.key: nothing was written")
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
    return tuple(found)


def restore_backup(backup: Path, folder: Path) -> tuple[str, ...]:
    """Put back what is in a backup, all of it or nothing; overwrite nothing."""
    raw = contents(backup, MOST_BYTES, InvalidInputError)
    try:
        found = _unpacked(raw)
        keys = [one.removesuffix(".key") for one in found if one.endswith(".key")]
        name = check_name(next(iter(keys), ""))
        if odd := [one for one in found if one not in _wanted(name)]:
            raise InvalidInputError(
                f"it holds {listed([printable(one) for one in odd])}"
            )
    except (tarfile.TarError, ValueError) as error:
        raise InvalidInputError(f"{backup} is no backup of veilsum: {error}") from None
    for file in found:
        if (folder / file).exists():
            raise OutputError(
                f"{folder / file} is there already: nothing was put back; choose an "
                "empty folder"
            )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ledger = f"{name}.ledger"
    if ledger in found:
        found[ledger] = _marked(found[ledger], folder)
    write_files(folder, found, private=True)
    return tuple(found)


def _unpacked(raw: bytes) -> dict[str, bytes]:
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
            raise InvalidInputError("it holds something else than whole, plain files")
        found[entry.name] = raw[start : start + entry.size]
        if len(found) > len(_wanted("")):
            raise InvalidInputError("it holds more than a party's files")
    return found


def _marked(ledger: bytes, folder: Path) -> bytes:
    """Return a ledger that knows that it is a copy, though somebody took that out."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".veilsum-") as aside:
        (path,) = write_files(Path(aside), {"ledger": ledger}, private=True)
        if read_ledger(path).copied is not None:
            return ledger
        copy_ledger(path, Path(aside) / "copy")
        return (Path(aside) / "copy").read_bytes()


def resume(ledger: Path, statement: str, uncounted: Sequence[str] = ()) -> None:
    """Use a ledger that was put back, if all that is known of since then was said.

    Receipts in its folder, and in folders in it, tell of runs; those that it does not
    know must be among the uncounted.
    """
    if not statement.strip():
        raise InvalidInputError(
            "say in a few words what was run since the copy was made, or that nothing "
            "was: whoever reads the ledger later will see them"
        )
    with open_ledger(ledger) as kept:
        history = kept.history()
        known = {one.run for one in history.reservations}
        known |= {one.run for one in history.releases}
        missing = sorted(_runs_of(ledger) - known - {*uncounted})
        if missing:
            raise InvalidInputError(
                f"{ledger} knows nothing of {listed(missing)}, of which there are "
                "receipts beside it: none of the numbers that became known in them are "
                "counted. If there is no newer copy, give each with --uncounted"
            )
        kept.resume(statement, uncounted=uncounted)


def _runs_of(ledger: Path) -> set[str]:
    """Return the runs of this party that receipts near its ledger tell of."""
    runs = set()
    for pattern in _RECEIPTS:
        for path in ledger.parent.glob(pattern):
            try:
                found = read_receipt(path)
            except InvalidInputError:
                continue
            if found.party == ledger.stem:
                runs.add(found.run)
    return runs
