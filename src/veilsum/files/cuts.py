"""Private copies of a party's tables, so that questions can be asked of them later.

A CSV or Parquet file is copied byte by byte, and read again as it was written. What
a query selected, and a table in memory, are written column by column. They lie in a
folder beside the ledger, for their owner alone. The ledger has a keyed digest of each,
and a copy that has changed is not used.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from veilsum.errors import InvalidInputError, LedgerError
from veilsum.files.ledger import Ledger
from veilsum.files.output import prepare_output_folder, write_staged_file
from veilsum.files.permissions import why_file_is_open_to_others
from veilsum.files.tables import (
    DATABASES,
    PLAIN,
    agreed_table,
    read_table,
    table_to_draft,
)
from veilsum.numbers.arrays import listed_names, nearest_name
from veilsum.numbers.secrets import Secret
from veilsum.privacy.accountant import DataCut
from veilsum.tables.fingerprints import Difference, FingerprintSource
from veilsum.tables.frames import Frame, load_pandas
from veilsum.tables.schema import Schema

# Stands for the newest cut that may be asked about.
NEWEST = "newest"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BLOCK = 1 << 20
_NULLABLE = re.compile(r"U?Int(8|16|32|64)|Float(32|64)|boolean")
_DATES = re.compile(r"datetime64\[(s|ms|us|ns)\]")


@dataclass(frozen=True, eq=False, repr=False)
class TableSource(Secret):
    """A table as its owner gave it.

    Attributes:
        frame: the table.
        path: its file; None for a table in memory.
        how: how the file is written, as `agreed_table` takes it.
    """

    frame: Frame
    path: Path | None = None
    how: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, how: Mapping[str, Any]) -> TableSource:
        """Return the table in a file about which nothing was agreed."""
        read = table_to_draft if how.get("dates") else read_table
        return cls(read(path, **how), path, how)


def check_cut_name(name: str) -> None:
    """Refuse what is no name of a data cut."""
    if not _NAME.fullmatch(name) or name == NEWEST:
        raise InvalidInputError(
            f"{name!r} does not name a data cut: take up to 64 letters, digits, dots, "
            f"hyphens and underscores, such as 2026-06, and another word than {NEWEST}",
            code="malformed-cut-name",
        )


def register_cut(
    ledger: Ledger, source: TableSource, name: str, id_column: str | None = None
) -> DataCut:
    """Copy a table beside the ledger and record it as a cut.

    Args:
        ledger: the party's ledger.
        source: the table.
        name: the owner's word for the cut.
        id_column: the column that says who a row is about.

    Raises:
        InvalidInputError: the name or the column of ids cannot be used.
        LedgerError: another cut has this name.
    """
    check_cut_name(name)
    known = ledger.data(FingerprintSource(source.frame, (), id_column))
    assert known.prints is not None
    if any(one.name == name for one in ledger.history().cuts):
        raise LedgerError(
            f"there is a data cut {name!r} in {ledger.path} already: choose another "
            "name with --as",
            code="cut-name-taken",
        )
    file, digest, how = _copy(ledger, known.data, source)
    cut = DataCut(
        name=name,
        data=known.data,
        n_rows=len(source.frame),
        columns=tuple(source.frame.columns),
        id_column=known.prints.id_column or "",
        file=file,
        digest=digest,
        how=json.dumps(how, sort_keys=True),
    )
    ledger.add_cut(cut, known)
    return cut


def has_rows(ledger: Ledger, cut: DataCut) -> bool:
    """Say whether the copy of a cut's rows is there."""
    return (cuts_folder(ledger) / cut.file).is_file()


def cut_table(ledger: Ledger, cut: DataCut, schema: Schema | None) -> Frame:
    """Return the rows of a cut, read as a schema's columns are.

    Raises:
        LedgerError: the copy is gone, open to others, or not what was copied.
    """
    path = cuts_folder(ledger) / cut.file
    if not path.is_file():
        raise LedgerError(
            f"the rows of the data cut {cut.name!r} are not in {path.parent}: they "
            "were forgotten, or the folder was moved; ask of another cut, or put the "
            "folder back",
            code="cut-rows-missing",
        )
    if (why := why_file_is_open_to_others(path, path.stat())) is not None:
        raise LedgerError(why, code="file-exposed")
    if _digest(ledger, path) != cut.digest:
        raise LedgerError(
            f"{path} is not the copy that was made of the data cut {cut.name!r}: put "
            "it back, or forget the cut with veilsum data forget",
            code="cut-damaged",
        )
    how = json.loads(cut.how)
    if path.suffix == ".npz":
        return _frame_in(path)
    if schema is None:
        return TableSource.read(path, how).frame
    if not schema.dates:
        how.pop("dates", None)
    return agreed_table(path, schema, **how)


def forget_cut(ledger: Ledger, name: str) -> DataCut:
    """Remove the rows of a cut; its fingerprints stay in the ledger.

    A copy that another cut has as well stays.
    """
    cuts = ledger.history().cuts
    cut = cut_of_name(ledger, name)
    forgotten = {one.name for one in ledger.history().forgotten} | {name}
    ledger.forget_cut(name)
    if cut.file not in {one.file for one in cuts if one.name not in forgotten}:
        (cuts_folder(ledger) / cut.file).unlink(missing_ok=True)
    return cut


def cut_of_name(ledger: Ledger, name: str) -> DataCut:
    """Return the cut with a name.

    Raises:
        InvalidInputError: there is none.
    """
    cuts = {one.name: one for one in ledger.history().cuts}
    if name not in cuts:
        raise InvalidInputError(
            f"{ledger.path} has no data cut {name!r}; {nearest_name(name, cuts)}it has "
            f"{listed_names([*cuts]) or 'none: veilsum data add registers one'}",
            code="unknown-cut",
        )
    return cuts[name]


def difference_from_cut_before(
    ledger: Ledger, cut: DataCut
) -> tuple[str | None, Difference | None]:
    """Return the name of the cut before one, and how the later one differs.

    There is no name for the first cut, and no difference without the rows of this one.
    """
    cuts = ledger.history().cuts
    earlier = cuts[: [one.name for one in cuts].index(cut.name)]
    if not earlier:
        return None, None
    before = earlier[-1]
    if before.data == cut.data:
        return before.name, Difference()
    if not has_rows(ledger, cut):
        return before.name, None
    source = FingerprintSource(cut_table(ledger, cut, None), (), cut.id_column or None)
    return before.name, ledger.difference(before.data, ledger.data(source))


def cuts_folder(ledger: Ledger) -> Path:
    """Return the folder with the copies of a ledger's cuts."""
    return ledger.path.with_name(f"{ledger.path.name}-cuts")


def _copy(
    ledger: Ledger, data: str, source: TableSource
) -> tuple[str, str, dict[str, Any]]:
    """Copy a table; return the copy's name, its digest, and how it is read."""
    folder, path = cuts_folder(ledger), source.path
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ending, how = ".npz", dict[str, Any]()
    if path is not None and not path.name.lower().endswith(DATABASES):
        plain = [one for one in PLAIN if path.name.lower().endswith(one)]
        ending, how = (*plain, ".parquet")[0], {**source.how}
    name = f"{data[:32]}{ending}"
    prepare_output_folder(folder)

    def put(stream: BinaryIO) -> None:
        if ending == ".npz":
            _write_frame(source.frame, stream)
            return
        assert path is not None
        with path.open("rb") as original:
            while block := original.read(_BLOCK):
                stream.write(block)

    try:
        write_staged_file(folder, put, private=True).replace(folder / name)
    except OSError as error:
        raise LedgerError(
            f"cannot copy the table into {folder}: {error.strerror}. Nothing was "
            "registered, and nothing was sent",
            code="cannot-write",
        ) from None
    return name, _digest(ledger, folder / name), how


def _digest(ledger: Ledger, path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            found.update(block)
    return ledger.fingerprint(found.digest())


def _write_frame(frame: Frame, stream: BinaryIO) -> None:
    """Write a table column by column: numbers as they are, all else as JSON."""
    pandas, arrays = load_pandas(), dict[str, Any]()
    kinds = []
    for k, name in enumerate(frame.columns):
        column = frame[name]
        kind = str(column.dtype)
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
            kind, arrays[f"c{k}"] = "plain", column.to_numpy()
        elif _DATES.fullmatch(kind):
            arrays[f"c{k}"] = column.to_numpy().view(np.int64)
        else:
            kind = kind if _NULLABLE.fullmatch(kind) else "cells"
            gaps = pandas.isna(column).to_numpy()
            cells = [
                None if gap else _plain(cell)
                for cell, gap in zip(column.astype(object), gaps, strict=True)
            ]
            arrays[f"c{k}"] = np.frombuffer(json.dumps(cells).encode(), np.uint8)
        kinds.append([name, kind])
    head = np.frombuffer(json.dumps(kinds).encode(), np.uint8)
    np.savez(stream, head=head, **arrays)


def _plain(cell: Any) -> Any:
    value = cell.item() if isinstance(cell, np.generic) else cell
    return value if isinstance(value, bool | int | float | str) else str(value)


def _frame_in(path: Path) -> Frame:
    pandas, columns = load_pandas(), dict[str, Any]()
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
        for k, (name, kind) in enumerate(json.loads(arrays["head"].tobytes())):
            values = arrays[f"c{k}"]
            if _DATES.fullmatch(kind):
                values = values.view(kind)
            elif kind != "plain":
                cells = json.loads(values.tobytes())
                nullable = kind if _NULLABLE.fullmatch(kind) else object
                values = pandas.array(cells, dtype=nullable)
            columns[name] = values
    return pandas.DataFrame(columns)
