"""Tables from files and from memory: CSV, Parquet, pandas, polars, NumPy.

Nothing is guessed. A cell is a number if all of its column are, written with the
decimal mark that was named; anything else stays text, and whoever checks the table
says what is wrong with it.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from veilsum.core.arrays import listed
from veilsum.errors import InvalidInputError, MissingExtraError

# pandas is optional and carries no types; the name says what is meant.
Frame: TypeAlias = Any
Series: TypeAlias = Any

# What a cell without a value holds; other words for it stay text.
MISSING = ("", "NA", "NaN", "nan")
SUFFIXES = (".csv", ".csv.gz", ".parquet")


def needed(package: str, *, extra: str, what: str) -> Any:
    """Return an optional package; without it say which extra has it."""
    try:
        return import_module(package)
    except ImportError:
        raise MissingExtraError(
            f"{what} need the package {package}: pip install 'veilsum[{extra}]'"
        ) from None


def load_pandas() -> Any:
    """Return pandas, or say how to get it."""
    return needed("pandas", extra="data", what="tables")


def load_pandas_alone() -> None:
    """Load pandas without pyarrow, for a process that reads no Parquet file.

    pandas loads pyarrow wherever that is installed: 33 MB, of no use to a CSV file. It
    does not look again, so this is for whoever owns the process, and comes first.
    """
    if "pandas" in sys.modules or "pyarrow" in sys.modules:
        return
    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    try:
        load_pandas()
    finally:
        del sys.modules["pyarrow"]


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


def as_frame(data: Any, *, names: Sequence[str] | None = None) -> Frame:
    """Return a table in memory as a pandas frame, its rows in the order they have.

    Args:
        data: a pandas or polars frame, a mapping of names to columns, a NumPy array
            with named fields, or a NumPy array of two dimensions.
        names: the columns of an array of two dimensions, and of nothing else.
    """
    pandas = load_pandas()
    plain = isinstance(data, np.ndarray) and data.dtype.names is None
    if names is not None and not plain:
        raise InvalidInputError(
            "names are for a plain NumPy array; this table has its own"
        )
    if plain:
        return _checked(pandas.DataFrame(_two_dimensions(data, names), columns=names))
    if isinstance(data, pandas.DataFrame):
        return _checked(data)
    return _checked(_by_columns(pandas, _columns_of(data)))


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
    _check_names(names, where=f"the file {path.name!r}")
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


def _two_dimensions(data: Any, names: Sequence[str] | None) -> Any:
    if data.ndim != 2:
        raise InvalidInputError(
            "an array must have two dimensions, one row per observation, "
            f"found shape {data.shape}"
        )
    if names is None:
        raise InvalidInputError(
            f"an array has no names for its {data.shape[1]} columns: give names=[...]"
        )
    if len(names) != data.shape[1]:
        raise InvalidInputError(
            f"the array has {data.shape[1]} columns, and names has {len(names)} entries"
        )
    return data


def _columns_of(data: Any) -> Mapping[str, Any]:
    """Return the columns of a table that is not pandas' own."""
    if isinstance(data, np.ndarray):
        return {name: data[name] for name in data.dtype.names or ()}
    if isinstance(data, Mapping):
        return data
    if _is_polars(data) and hasattr(data, "iter_columns"):
        return {column.name: column for column in data.iter_columns()}
    if _is_polars(data) and hasattr(data, "collect"):
        raise InvalidInputError("a lazy polars table has no rows yet: collect() it")
    raise InvalidInputError(
        "a table must be a pandas or polars frame, a mapping of names to columns, or "
        f"a NumPy array, found {type(data).__name__}"
    )


def _is_polars(data: Any) -> bool:
    # By name: the package need not be installed to find that this is not its own.
    return type(data).__module__.partition(".")[0] == "polars"


def _by_columns(pandas: Any, columns: Mapping[str, Any]) -> Frame:
    """Return a frame of columns matched by position, never by an index."""
    made = {name: _values(pandas, name, column) for name, column in columns.items()}
    lengths = {name: len(column) for name, column in made.items()}
    if len(set(lengths.values())) > 1:
        found = [f"{name!r} {length}" for name, length in lengths.items()]
        raise InvalidInputError(
            f"columns must have the same number of rows, found {listed(found)}"
        )
    return pandas.DataFrame(made)


def _values(pandas: Any, name: str, column: Any) -> Any:
    if _is_polars(column) and hasattr(column, "to_numpy"):
        return _from_polars(pandas, column)
    if isinstance(column, pandas.Series | pandas.Index):
        return column.array
    if isinstance(column, str | bytes) or np.ndim(column) != 1:
        raise InvalidInputError(
            f"column {name!r} must be a list of values, one for each row"
        )
    return column


def _from_polars(pandas: Any, column: Any) -> Any:
    """Return the values of a polars column, without the help of pyarrow."""
    if not column.dtype.is_integer() or column.null_count() == 0:
        return column.to_numpy() if column.dtype.is_numeric() else column.to_list()
    # Whole numbers stay whole beside missing ones.
    gaps = column.is_null().to_numpy()
    return pandas.arrays.IntegerArray(column.fill_null(0).to_numpy().copy(), gaps)


def _checked(frame: Frame) -> Frame:
    _check_names(list(frame.columns), where="the table")
    return frame


def _check_names(names: list[Any], *, where: str) -> None:
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise InvalidInputError(
            f"{where} has a column named {wrong!r}; names of columns must be text"
        )
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InvalidInputError(
            f"{where} has more than one column named {listed(twice)}; rename them, so "
            "that a name means one column"
        )
