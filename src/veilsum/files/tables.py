"""Tables from files: CSV and Parquet.

Nothing is guessed. A cell is a number if all of its column are, written with the
decimal mark that was named; anything else stays text, and whoever checks the table
says what is wrong with it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from veilsum.errors import InvalidInputError
from veilsum.tables.frames import (
    Frame,
    as_frame,
    check_column_names,
    load_pandas,
    needed,
)

# What a cell without a value holds; other words for it stay text.
MISSING = ("", "NA", "NaN", "nan")
SUFFIXES = (".csv", ".csv.gz", ".parquet")


def read_table(
    path: str | Path,
    *,
    decimal: str = ".",
    separator: str = ",",
    text: Sequence[str] = (),
    missing: Sequence[str] = MISSING,
) -> Frame:
    """Return the table in a file; the ending tells the format.

    Args:
        path: a file ending in `.csv`, `.csv.gz` or `.parquet`.
        decimal: the decimal mark of a CSV file, `.` or `,`.
        separator: what stands between two cells of a CSV file.
        text: columns of a CSV file that stay as written, for codes such as `01`.
        missing: what a cell of a CSV file without a value holds.

    Raises:
        InvalidInputError: no such file, another format, or not a table.
        MissingExtraError: pandas, or for Parquet pyarrow, is not installed.
    """
    place = Path(path)
    suffix = _suffix(place)
    if not place.is_file():
        raise InvalidInputError(f"there is no file {str(place)!r}")
    pandas = load_pandas()
    if suffix == ".parquet":
        return as_frame(_parquet(pandas, place))
    _check_marks(decimal, separator)
    options = {"sep": separator, "decimal": decimal, "na_values": list(missing)}
    return as_frame(_csv(pandas, place, options, text))


def _suffix(path: Path) -> str:
    name = path.name.lower()
    found = next((one for one in SUFFIXES if name.endswith(one)), None)
    if found is None:
        raise InvalidInputError(
            f"the file {path.name!r} has an ending that says nothing here; tables are "
            f"read from {', '.join(SUFFIXES[:-1])} and {SUFFIXES[-1]}"
        )
    return found


def _check_marks(decimal: str, separator: str) -> None:
    if decimal not in {".", ","}:
        raise InvalidInputError(
            f'the decimal mark must be "." or ",", found {decimal!r}'
        )
    if len(separator) != 1 or separator in {'"', "\n", "\r", "."}:
        raise InvalidInputError(
            'the separator must be one character, such as "," or ";" or a tab, '
            f"found {separator!r}"
        )
    if decimal == separator:
        raise InvalidInputError(
            f"the decimal mark and the separator are both {decimal!r}; with a decimal "
            'comma cells are mostly separated by ";"'
        )


def _csv(pandas: Any, path: Path, marks: Mapping[str, Any], text: Any) -> Frame:
    options = {**marks, "keep_default_na": False, "encoding": "utf-8"}
    with warnings.catch_warnings():
        # A row longer than the header is cut with a warning: here it is an error.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            header = pandas.read_csv(path, header=None, nrows=1, dtype=str, **options)
            _check_header(path, [_word(name) for name in header.iloc[0]], options)
            return pandas.read_csv(
                path,
                index_col=False,
                dtype=dict.fromkeys(text, str),
                low_memory=False,  # one type for a column, however long it is
                **_exact(pandas),
                **options,
            )
        except (OSError, EOFError, ValueError, pandas.errors.ParserWarning) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError(_unreadable(path, error)) from None


def _exact(pandas: Any) -> dict[str, str]:
    """Return what makes pandas read numbers to the last bit: from 3.1 on, nothing."""
    major, minor = (int(part) for part in pandas.__version__.split(".")[:2])
    return {"float_precision": "round_trip"} if (major, minor) < (3, 1) else {}


def _word(name: Any) -> str:
    return name if isinstance(name, str) else ""


def _check_header(path: Path, names: list[str], options: Mapping[str, Any]) -> None:
    check_column_names(names, where=f"the file {path.name!r}")
    other = re.search(r"[;,\t|]", names[0]) if len(names) == 1 else None
    if other:
        mark = repr(other.group())
        typed = f"${mark}" if other.group() == "\t" else mark
        raise InvalidInputError(
            f"the file {path.name!r} has one column, {names[0]!r}, when cells are "
            f"separated by {options['sep']!r}; if they are separated by "
            f"{mark}, read it again with separator = {mark} (veilsum join: "
            f"--separator {typed})"
        )


def _unreadable(path: Path, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"the file {path.name!r} is not UTF-8 text; save it again as UTF-8"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot read {path.name!r}: {error.strerror}"
    why = str(error).strip().splitlines()[:1] or [type(error).__name__]
    return f"the file {path.name!r} is not a table as its name promises: {why[0]}"


def _parquet(pandas: Any, path: Path) -> Frame:
    needed("pyarrow.parquet", extra="parquet", what="Parquet files")
    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError, NotImplementedError) as error:
        raise InvalidInputError(_unreadable(path, error)) from None
    # A column that served pandas as an index is a column of the file all the same.
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(level=named) if named else frame
