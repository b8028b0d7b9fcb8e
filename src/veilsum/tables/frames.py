"""Tables in memory as pandas frames: from pandas, polars, NumPy and plain columns."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from veilsum.errors import (
    InvalidInputError,
    load_extra_package,
    printable,
)
from veilsum.numbers.arrays import listed_names

# pandas is optional and carries no types; the name says what is meant.
Frame: TypeAlias = Any
Series: TypeAlias = Any


def load_pandas() -> Any:
    """Return pandas, or say how to get it."""
    return load_extra_package("pandas", extra="data", what="tables")


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
            "names are for a plain NumPy array; this table has its own",
            code="names-of-named-table",
        )
    if plain:
        return _check_frame_columns(
            pandas.DataFrame(_two_dimensional_frame(data, names), columns=names)
        )
    if isinstance(data, pandas.DataFrame):
        return _check_frame_columns(data)
    return _check_frame_columns(
        _frame_by_columns(pandas, _columns_of_foreign_frame(data))
    )


def _two_dimensional_frame(data: Any, names: Sequence[str] | None) -> Any:
    if data.ndim != 2:
        raise InvalidInputError(
            "an array must have two dimensions, one row per observation, "
            f"found shape {data.shape}",
            code="not-two-dimensions",
        )
    if names is None:
        raise InvalidInputError(
            f"an array has no names for its {data.shape[1]} columns: give names=[...]",
            code="names-missing",
        )
    if len(names) != data.shape[1]:
        raise InvalidInputError(
            f"the array has {data.shape[1]} columns, and names has {len(names)} "
            "entries",
            code="name-count-differs",
        )
    return data


def _columns_of_foreign_frame(data: Any) -> Mapping[str, Any]:
    """Return the columns of a table that is not pandas' own."""
    if isinstance(data, np.ndarray):
        return {name: data[name] for name in data.dtype.names or ()}
    if isinstance(data, Mapping):
        return data
    if _is_polars_frame(data) and hasattr(data, "iter_columns"):
        return {column.name: column for column in data.iter_columns()}
    if _is_polars_frame(data) and hasattr(data, "collect"):
        raise InvalidInputError(
            "a lazy polars table has no rows yet: collect() it", code="lazy-table"
        )
    raise InvalidInputError(
        "a table must be a pandas or polars frame, a mapping of names to columns, or "
        f"a NumPy array, found {type(data).__name__}",
        code="not-a-table",
    )


def _is_polars_frame(data: Any) -> bool:
    # By name: the package need not be installed to find that this is not its own.
    return type(data).__module__.partition(".")[0] == "polars"


def _frame_by_columns(pandas: Any, columns: Mapping[str, Any]) -> Frame:
    """Return a frame of columns matched by position, never by an index."""
    made = {
        name: _frame_column_values(pandas, name, column)
        for name, column in columns.items()
    }
    lengths = {name: len(column) for name, column in made.items()}
    if len(set(lengths.values())) > 1:
        found = [f"{name!r} {length}" for name, length in lengths.items()]
        raise InvalidInputError(
            f"columns must have the same number of rows, found {listed_names(found)}",
            code="columns-of-different-length",
        )
    return pandas.DataFrame(made)


def _frame_column_values(pandas: Any, name: str, column: Any) -> Any:
    if _is_polars_frame(column) and hasattr(column, "to_numpy"):
        return _frame_values_from_polars(pandas, column)
    if isinstance(column, pandas.Series | pandas.Index):
        return column.array
    if isinstance(column, str | bytes) or np.ndim(column) != 1:
        raise InvalidInputError(
            f"column {name!r} must be a list of values, one for each row",
            code="column-not-list",
        )
    return column


def _frame_values_from_polars(pandas: Any, column: Any) -> Any:
    """Return the values of a polars column, without the help of pyarrow."""
    if not column.dtype.is_integer() or column.null_count() == 0:
        return column.to_numpy() if column.dtype.is_numeric() else column.to_list()
    # Whole numbers stay whole beside missing ones.
    gaps = column.is_null().to_numpy()
    return pandas.arrays.IntegerArray(column.fill_null(0).to_numpy().copy(), gaps)


def _check_frame_columns(frame: Frame) -> Frame:
    check_column_names(list(frame.columns), where="the table")
    return frame


def check_column_names(names: list[Any], *, where: str) -> None:
    """Refuse names that are no text, and a name that stands twice."""
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise InvalidInputError(
            f"{where} has a column named {wrong!r}; names of columns must be text",
            code="column-name-not-text",
        )
    twice = [printable(name) for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InvalidInputError(
            f"{where} has more than one column named {listed_names(twice)}; rename "
            "them, so "
            "that a name means one column",
            code="duplicate-column",
        )
