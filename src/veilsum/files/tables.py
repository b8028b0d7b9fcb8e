"""Tables from files: CSV and Parquet, and what a query selects from databases.

Nothing is guessed. A cell is a number if all of its column are, written with the
decimal mark that was named; anything else stays text, and whoever checks the table
says what is wrong with it. Bytes that are no text are said with line and character.

What is packed is counted while it is unpacked: a file of a megabyte can hold a
terabyte.

A query of a database is a party's own, and never comes from a file that others wrote.
It reads one file and nothing else: the file is opened for reading only, and a query
cannot write, load code, or look at another file.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import sqlite3
import warnings
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import datetime, time
from pathlib import Path
from typing import Any, NoReturn

from veilsum.errors import InvalidInputError, load_extra_package
from veilsum.files.safe_read import read_file_contents
from veilsum.tables.cleaning import column_value_counts, value_counts_words
from veilsum.tables.columns import (
    MOST_VALUES,
    Column,
    ColumnProblem,
    SchemaError,
    number_of_word,
)
from veilsum.tables.frames import (
    Frame,
    Series,
    as_frame,
    check_column_names,
    load_pandas,
)
from veilsum.tables.schema import Schema

DATABASES = (".duckdb", ".sqlite", ".sqlite3", ".db")
# What a query finds a Parquet file's rows under.
PARQUET_TABLE = "data"
MOST_QUERY_BYTES = 1 << 20
_SQLITE = b"SQLite format 3\0"
_DUCKDB = b"DUCK"

# Files, extensions and Python's own variables are out of reach, also for queries that
# try to change that; what does not fit into memory is not written to a disk either.
_CLOSED = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
# What a query may do to SQLite's tables, besides calling functions.
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}


def query_in_file(path: Path) -> str:
    try:
        return read_file_contents(path, MOST_QUERY_BYTES, InvalidInputError).decode(
            "utf-8"
        )
    except UnicodeDecodeError:
        raise InvalidInputError(
            f"the query in {path} is not UTF-8 text", code="not-utf8"
        ) from None


def select_from_database_file(path: Path, query: str) -> Frame:
    """Return what a query selects from a database, or from a Parquet file.

    Args:
        path: a DuckDB or SQLite database, or a Parquet file, whose rows the query
            finds under the name `data`.
        query: one SELECT, in the words of DuckDB, or of SQLite for its databases.

    Raises:
        InvalidInputError: the file is none of these, or the query is not one.
        MissingExtraError: DuckDB is not installed.
    """
    if path.suffix.lower() == ".parquet":
        return _query_file_by_duckdb(path, query, parquet=True)
    with path.open("rb") as stream:
        head = stream.read(16)
    if head == _SQLITE:
        return _query_file_by_sqlite(path, query)
    if head[8:12] == _DUCKDB:
        return _query_file_by_duckdb(path, query, parquet=False)
    raise InvalidInputError(
        f"the file {path.name!r} is neither a DuckDB nor a SQLite database",
        code="not-a-database",
    )


def _query_file_by_duckdb(path: Path, query: str, *, parquet: bool) -> Frame:
    duckdb = load_extra_package("duckdb", extra="duckdb", what="queries")
    try:
        with _open_duckdb_file(duckdb, path, parquet=parquet) as database:
            statements = database.extract_statements(query)
            if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
                raise InvalidInputError(
                    f"a query is one SELECT, found {len(statements)} statements or "
                    "another one",
                    code="not-one-select",
                )
            found = database.execute(statements[0])
            names = [column[0] for column in found.description]
            check_column_names(names, where="the query's table")
            return found.df()
    except duckdb.Error as error:
        _refuse_table_query(path, error)


def _open_duckdb_file(duckdb: Any, path: Path, *, parquet: bool) -> Any:
    if not parquet:
        config = {**_CLOSED, "enable_external_access": "false"}
        config |= {"lock_configuration": "true"}
        return duckdb.connect(str(path), read_only=True, config=config)
    database = duckdb.connect(":memory:", config=_CLOSED)
    # Names of files are quoted as SQL quotes texts: by doubling what would end them.
    name = "'" + str(path.resolve()).replace("'", "''") + "'"
    database.execute(f"SET allowed_paths = [{name}]")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    rows = f"SELECT * FROM read_parquet({name})"  # noqa: S608 - quoted above
    database.execute(f"CREATE VIEW {PARQUET_TABLE} AS {rows}")
    return database


def _query_file_by_sqlite(path: Path, query: str) -> Frame:
    place = f"{path.resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(place, uri=True)) as database:
            database.set_authorizer(_allow_only_reading_of_sqlite_file)
            found = database.execute(query)
            if found.description is None:
                raise InvalidInputError(
                    "a query is one SELECT, found nothing", code="not-one-select"
                )
            names = [column[0] for column in found.description]
            check_column_names(names, where="the query's table")
            return load_pandas().DataFrame.from_records(found.fetchall(), columns=names)
    except (sqlite3.Error, sqlite3.Warning) as error:
        _refuse_table_query(path, error)


def _allow_only_reading_of_sqlite_file(
    action: int, first: str | None, second: str | None, *_: Any
) -> int:
    del first
    called = action == sqlite3.SQLITE_FUNCTION and second != "load_extension"
    return sqlite3.SQLITE_OK if called or action in _READING else sqlite3.SQLITE_DENY


def _refuse_table_query(path: Path, error: Exception) -> NoReturn:
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    raise InvalidInputError(
        f"the query cannot be answered from {path.name!r}: {said}; a query is one "
        "SELECT that reads this file alone",
        plain="a query cannot be answered",
        code="query-failed",
    ) from None


# What a cell without a value holds where nothing else was said, if it is not empty.
MISSING = ("NA", "NaN", "nan")
ENCODING = "utf-8"
PLAIN = (".csv", ".csv.gz")
SUFFIXES = (*PLAIN, ".parquet", *DATABASES)
# A packed table may unpack to so many times its size, and to so many bytes anyway.
MOST_TIMES, ALWAYS_BYTES = 200, 64 << 20
MOST_CELLS = 10**9
_ROWS_AT_ONCE = 16_384
# Raised about a file that is damaged, packed or not.
_BROKEN = (EOFError, OSError, ValueError, zlib.error)


def read_table(
    path: str | Path,
    *,
    decimal: str = ".",
    separator: str = ",",
    text: Sequence[str] = (),
    missing: Sequence[str] = MISSING,
    encoding: str = ENCODING,
    dates: Mapping[str, str] | None = None,
    query: str | None = None,
) -> Frame:
    """Return the table in a file; the ending tells the format.

    Args:
        path: a file ending in `.csv`, `.csv.gz` or `.parquet`; with a query also a
            DuckDB or SQLite database, `.duckdb`, `.sqlite`, `.sqlite3` or `.db`.
        decimal: the decimal mark of a CSV file, `.` or `,`.
        separator: what stands between two cells of a CSV file; `tab` is one too.
        text: columns of a CSV file that stay as written, for codes such as `01`.
        missing: words in a CSV file for a value that is not there, such as `-9`; an
            empty cell is one anyway.
        encoding: how a CSV file writes letters as bytes, such as `cp1252`.
        dates: columns of a CSV file that hold dates in another way than `2001-12-31`,
            and how each does, such as `%d.%m.%Y`; they are read as the first.
        query: one SELECT, which reads this file alone; a Parquet file's rows are in
            the table `data`.

    Raises:
        InvalidInputError: no such file, another format, or not a table.
        MissingExtraError: pandas, or for Parquet pyarrow, or for queries DuckDB is
            not installed.
    """
    how: dict[str, Any] = {"decimal": decimal, "separator": separator, "text": text}
    how |= {"missing": missing, "encoding": encoding, "dates": dates, "query": query}
    found, problems = _read_table_file(path, **how)
    if problems:
        raise InvalidInputError(
            "; ".join(one.message for one in problems),
            plain="a date is written in another way than was said",
            code=problems[0].code,
        )
    return found


def _read_table_file(
    path: str | Path,
    *,
    decimal: str = ".",
    separator: str = ",",
    text: Sequence[str] = (),
    missing: Sequence[str] = MISSING,
    encoding: str = ENCODING,
    dates: Mapping[str, str] | None = None,
    query: str | None = None,
    words: Mapping[str, Collection[str]] | None = None,
) -> tuple[Frame, tuple[ColumnProblem, ...]]:
    """Return what `read_table` does, and problems with dates, which stay as written.

    `words` are by column texts that need not be dates.
    """
    place = Path(path)
    suffix = _table_file_suffix(place)
    if query is None and suffix in DATABASES:
        raise InvalidInputError(
            f"{place.name!r} is a database: say what to select from it, with query = "
            '"SELECT ..." (veilsum join: --query FILE)',
            code="query-missing",
        )
    if query is not None and suffix in PLAIN:
        raise InvalidInputError(
            "a query selects from a database or a Parquet file, and "
            f"{place.name!r} is a CSV file: leave it out",
            code="query-on-csv",
        )
    if not place.is_file():
        raise InvalidInputError(f"there is no file {str(place)!r}", code="no-such-file")
    pandas = load_pandas()
    separator = "\t" if separator == "tab" else separator
    said: dict[str, Any] = {
        "decimal": decimal,
        "separator": separator,
        "encoding": encoding,
    }
    if suffix not in PLAIN:
        said |= {"missing": tuple(missing), "dates": dates or {}}
        _check_unused_csv_options(place, said)
        found = (
            _read_parquet_file(place)
            if query is None
            else select_from_database_file(place, query)
        )
        return as_frame(found), ()
    _check_csv_file_marks(decimal, separator)
    _check_csv_file_words(missing)
    options = {
        "sep": separator,
        "decimal": decimal,
        "na_values": ["", *missing],
        "encoding": _table_file_encoding(encoding),
    }
    forms = dates or {}
    for form in forms.values():
        _check_csv_date_form(form)
    found = as_frame(_read_csv_file(pandas, place, options, (*text, *forms)))
    problems = list[ColumnProblem]()
    for name in (one for one in forms if one in found):
        spared = (words or {}).get(name, ())
        found[name], wrong = _iso_dates_of_table_file(found[name], forms[name], spared)
        if wrong:
            problems.append(_wrong_dates_in_csv_file(place, name, forms[name], wrong))
    return found, tuple(problems)


def agreed_table(
    path: str | Path, schema: Schema | None, *, dates: str | None = None, **how: Any
) -> Frame:
    """Return a party's own table, its codes and dates as the schema's columns are.

    Args:
        path: see `read_table`.
        schema: what was agreed on, if there is anything.
        dates: how the file writes all of its dates.
        **how: what else `read_table` takes.

    Raises:
        SchemaError: dates are written in another way; with all other problems.
    """
    frame, problems = table_with_problems(path, schema, dates=dates, **how)
    if problems and schema is not None:
        wrong = [one.column for one in problems]
        others = (
            one
            for one in schema.problems(frame)
            if not (one.column in wrong and one.code == "not-dates")
        )
        raise SchemaError.from_problems("", (*problems, *others))
    return frame


def table_with_problems(
    path: str | Path, schema: Schema | None, *, dates: str | None = None, **how: Any
) -> tuple[Frame, tuple[ColumnProblem, ...]]:
    """Return what `agreed_table` does, and dates that are written in another way.

    These stay in the table as they are.
    """
    if dates and (schema is None or not schema.dates):
        raise InvalidInputError(
            f"dates = {dates!r} says how dates are written, and the schema has no "
            'column with kind = "date"; leave it out, or agree on one',
            code="dates-without-column",
        )
    if schema is None:
        return read_table(path, **how), ()
    text = (*schema.categorical, *schema.dates)
    if dates:
        how["dates"] = dict.fromkeys(schema.dates, dates)
    words = {
        one.name: _agreed_words_in_table_file(one)
        for one in schema.columns
        if one.has_words
    }
    frame, problems = _read_table_file(path, text=text, words=words, **how)
    if _table_file_suffix(Path(path)) in PLAIN:
        _read_numbers_of_table_file(frame, schema, how.get("decimal", "."))
    return frame, problems


def _agreed_words_in_table_file(column: Column) -> tuple[str, ...]:
    return (*column.missing, *(word for word, _ in column.recode))


def _read_numbers_of_table_file(frame: Frame, schema: Schema, decimal: str) -> None:
    """Turn cells into numbers where an agreed column of numbers has texts as well.

    Agreed words, such as "unknown", stand among the numbers; other texts are refused
    when the table is checked.
    """
    for column in schema.columns:
        if column.kind not in {"number", "integer"} or column.name not in frame:
            continue
        cells = frame[column.name]
        if cells.dtype.kind in "fiub":
            continue
        known = {
            cell: _number_in_file_cell(cell, decimal)
            for cell in cells.dropna().unique()
        }
        numbers = cells.map(known).astype(object)
        frame[column.name] = numbers.where(cells.notna(), None).infer_objects()


def _number_in_file_cell(cell: Any, decimal: str) -> Any:
    """Return the number that a cell is with this decimal mark, or the cell."""
    if not isinstance(cell, str) or (decimal == "," and "." in cell):
        return cell
    try:
        return number_of_word(cell.replace(",", ".") if decimal == "," else cell)
    except ValueError:
        return cell


def table_to_draft(path: str | Path, *, dates: str | None = None, **how: Any) -> Frame:
    """Return a table about which nothing was agreed: what looks like codes stays so.

    Args:
        path: see `read_table`.
        dates: how the file writes its dates, whichever columns hold some.
        **how: what else `read_table` takes.
    """
    frame, place = read_table(path, **how), Path(path)
    if _table_file_suffix(place) not in PLAIN:
        return frame
    if dates:
        _check_csv_date_form(dates)
    for name, cells in read_table(path, text=[*frame.columns], **how).items():
        if dates and cells.notna().any():
            read, wrong = _iso_dates_of_table_file(cells, dates)
            if not wrong:
                frame[name] = read
                continue
        if cells.str.fullmatch(r"[+-]?0[0-9]+").any():
            frame[name] = cells
    return frame


def _table_file_suffix(path: Path) -> str:
    name = path.name.lower()
    found = next((one for one in SUFFIXES if name.endswith(one)), None)
    if found is None:
        raise InvalidInputError(
            f"the file {path.name!r} has an ending that says nothing here; tables are "
            f"read from {', '.join(PLAIN)} and .parquet, and by a query from "
            f"{', '.join(DATABASES)}",
            code="unknown-file-ending",
        )
    return found


def _check_csv_file_marks(decimal: str, separator: str) -> None:
    if decimal not in {".", ","}:
        raise InvalidInputError(
            f'the decimal mark must be "." or ",", found {decimal!r}',
            code="unknown-decimal-mark",
        )
    if len(separator) != 1 or separator in {'"', "\n", "\r", "."}:
        raise InvalidInputError(
            'the separator must be one character, such as "," or ";" or a tab, '
            f"found {separator!r}",
            code="malformed-separator",
        )
    if decimal == separator:
        raise InvalidInputError(
            f"the decimal mark and the separator are both {decimal!r}; with a decimal "
            'comma cells are mostly separated by ";"',
            code="same-marks",
        )


def _check_csv_file_words(missing: Sequence[str]) -> None:
    words = () if isinstance(missing, str) else tuple(missing)
    if isinstance(missing, str) or not all(isinstance(one, str) for one in words):
        raise InvalidInputError(
            'words for missing values must be a list of texts, such as ["NA", "-9"], '
            f"found {missing!r}",
            code="malformed-missing-words",
        )


def _table_file_encoding(encoding: str) -> str:
    try:
        found = codecs.lookup(encoding)
        "a".encode(encoding)  # some codecs are about bytes, and make no text
    except (LookupError, ValueError, TypeError):
        raise InvalidInputError(
            f"no encoding is called {encoding!r}; common ones are utf-8, cp1252 (of "
            "Windows in western Europe), latin-1 and utf-16",
            code="unknown-encoding",
        ) from None
    return found.name


def _check_unused_csv_options(path: Path, said: Mapping[str, Any]) -> None:
    """Refuse words about a CSV file where there is none: they would do nothing."""
    usual: dict[str, Any] = {"decimal": ".", "separator": ",", "encoding": ENCODING}
    usual |= {"missing": MISSING, "dates": {}}
    more = [key for key, value in said.items() if value != usual[key]]
    if more:
        raise InvalidInputError(
            f"{more[0]} says how a CSV file is written, and {path.name!r} is none: "
            "leave it out",
            code="csv-option-unused",
        )


def _check_csv_date_form(form: str) -> None:
    """Refuse a way of writing dates that leaves something to be guessed."""
    known = datetime(2001, 12, 31)
    try:
        whole = datetime.strptime(known.strftime(form), form) == known
    except (TypeError, ValueError):
        whole = False
    if not whole or "%y" in form:
        raise InvalidInputError(
            "dates are written with a day, a month and a year of four digits, such as "
            f'"%d.%m.%Y" for 31.12.2001, found {form!r}',
            code="malformed-date-form",
        )


def _iso_dates_of_table_file(
    cells: Series, form: str, spared: Collection[str] = ()
) -> tuple[Series, dict[str, int]]:
    """Return dates as ISO 8601 has them, and the rows of each cell that is no date.

    Each different date is read once. Cells that are no dates stay as they are.
    """
    found, wrong = {}, dict[str, int]()
    for cell, rows in cells.value_counts().items():
        found[cell] = cell
        if cell in spared:
            continue
        try:
            read = datetime.strptime(cell, form)
        except ValueError:
            wrong[cell] = int(rows)
            continue
        found[cell] = (read.date() if read.time() == time() else read).isoformat()
    return cells.map(found), wrong


def _wrong_dates_in_csv_file(
    path: Path, name: str, form: str, wrong: Mapping[str, int]
) -> ColumnProblem:
    counts = column_value_counts(wrong)
    shown = value_counts_words([*counts.items()], len(counts))
    first = next(iter(counts))
    return ColumnProblem(
        *(name, "type"),
        f"the file {path.name!r} has {shown} in its column {name!r}, not written as "
        f"{form!r}; correct them, name the way that the file has, or say that such a "
        f"word stands for no value: missing = [{first!r}] (veilsum join: --missing)",
        "malformed-date",
        values=tuple([*counts.items()][:MOST_VALUES]),
        n_values=len(counts),
    )


class _UnpackedTableFile(io.RawIOBase):
    """The bytes in a packed file, up to what it may hold."""

    def __init__(self, path: Path) -> None:
        self._stream = gzip.open(path)  # noqa: SIM115 - closed below
        self._left, self._name = _most_bytes_of_table_file(path), path.name

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        count = self._stream.readinto(room)
        self._left -= count
        if self._left < 0:
            raise _too_large_table_file(self._name)
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def _most_bytes_of_table_file(path: Path) -> int:
    return max(ALWAYS_BYTES, MOST_TIMES * path.stat().st_size)


def _too_large_table_file(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"the file {name!r} unpacks to more than {MOST_TIMES} times its size, which no "
        "table of measurements does; if it is meant to, unpack it first, as a .csv",
        code="unpacks-too-large",
    )


def _read_csv_file(
    pandas: Any, path: Path, marks: Mapping[str, Any], text: Any
) -> Frame:
    options = {**marks, "keep_default_na": False}
    with warnings.catch_warnings():
        # A row longer than the header is cut with a warning: here it is an error.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            with _open_csv_file(path) as file:
                header = pandas.read_csv(
                    file, header=None, nrows=1, dtype=str, **options
                )
            _check_csv_file_header(
                path,
                [(name if isinstance(name, str) else "") for name in header.iloc[0]],
                options,
            )
            with _open_csv_file(path) as file:
                return pandas.read_csv(
                    file,
                    index_col=False,
                    dtype=dict.fromkeys(text, str),
                    low_memory=False,  # one type for a column, however long it is
                    **_exact_csv_float_option(pandas),
                    **options,
                )
        except (*_BROKEN, pandas.errors.ParserWarning) as error:
            if isinstance(error, InvalidInputError):
                raise
            if isinstance(error, UnicodeDecodeError):
                _refuse_csv_file_bytes(path, options)
            raise InvalidInputError(
                _unreadable_table_file(path, error), code="unreadable-table"
            ) from None


def _open_csv_file(path: Path) -> AbstractContextManager[Any]:
    packed = _table_file_suffix(path) == ".csv.gz"
    return (
        io.BufferedReader(_UnpackedTableFile(path), 1 << 20)
        if packed
        else nullcontext(path)
    )


def _exact_csv_float_option(pandas: Any) -> dict[str, str]:
    """Return what makes pandas read numbers to the last bit: from 3.1 on, nothing."""
    major, minor = (int(part) for part in pandas.__version__.split(".")[:2])
    return {"float_precision": "round_trip"} if (major, minor) < (3, 1) else {}


def _check_csv_file_header(
    path: Path, names: list[str], options: Mapping[str, Any]
) -> None:
    check_column_names(names, where=f"the file {path.name!r}")
    other = re.search(r"[;,\t|]", names[0]) if len(names) == 1 else None
    if other:
        mark = repr(other.group())
        typed = "tab" if other.group() == "\t" else mark
        raise InvalidInputError(
            f"the file {path.name!r} has one column, {names[0]!r}, when cells are "
            f"separated by {options['sep']!r}; if they are separated by "
            f"{mark}, read it again with separator = {mark} (veilsum join: "
            f"--separator {typed})",
            code="wrong-separator",
        )


def _refuse_csv_file_bytes(path: Path, options: Mapping[str, Any]) -> None:
    """Say where a file has bytes that are no text in its encoding."""
    name = options["encoding"]
    decoder = codecs.getincrementaldecoder(name)()
    lines = [""]  # the first, for the names of columns, and the one that is read
    number, packed = 1, _table_file_suffix(path) == ".csv.gz"
    with (
        io.BufferedReader(_UnpackedTableFile(path))
        if packed
        else path.open("rb") as file
    ):
        while True:
            part = file.read(1 << 16)
            kept = len(decoder.getstate()[0])
            try:
                text, bad = decoder.decode(part, final=not part), None
            except UnicodeDecodeError as error:
                good = max(error.start - kept, 0)
                text, bad = decoder.decode(part[:good]), error.object[error.start]
            first, *more = text.split("\n")
            lines[-1] += first
            for line in more:
                number, lines = number + 1, [lines[0], line]
            if bad is not None:
                break
            if not part:
                return
    before, held = lines[-1], ""
    names = lines[0].rstrip("\r").split(options["sep"])
    cell = before.count(options["sep"])
    if number > 1 and cell < len(names) and '"' not in before + lines[0]:
        held = f", in the column {names[cell]!r}"
    other = "cp1252" if name == ENCODING else ENCODING
    raise InvalidInputError(
        f"the file {path.name!r} is not {name.upper()} text: line {number}, character "
        f"{len(before) + 1}{held}, has the byte 0x{bad:02x}; save it again as UTF-8, "
        f"or name the encoding that it has, such as encoding = {other!r} (veilsum "
        f"join: --encoding {other})",
        code="wrong-encoding",
    )


def _unreadable_table_file(path: Path, error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"cannot read {path.name!r}: {error.strerror}"
    why = str(error).strip().splitlines()[:1] or [type(error).__name__]
    return f"the file {path.name!r} is not a table as its name promises: {why[0]}"


def _read_parquet_file(path: Path) -> Frame:
    parquet = load_extra_package(
        "pyarrow.parquet", extra="parquet", what="Parquet files"
    )
    try:
        with parquet.ParquetFile(path) as file:
            frame = _unpack_parquet_file(file, path).to_pandas()
    except InvalidInputError:
        raise
    except Exception as error:  # pyarrow and pandas promise no kind for damaged files
        raise InvalidInputError(
            _unreadable_table_file(path, error), code="unreadable-table"
        ) from None
    # A column that served pandas as an index is a column of the file all the same.
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(level=named) if named else frame


def _unpack_parquet_file(file: Any, path: Path) -> Any:
    """Return a Parquet file's table; a few bytes may stand for any number of cells."""
    rows, columns = file.metadata.num_rows, file.metadata.num_columns
    if rows * columns > MOST_CELLS:
        raise InvalidInputError(
            f"the file {path.name!r} says it has {rows:,} rows of {columns:,} columns, "
            f"and {MOST_CELLS:,} cells are the most",
            code="too-many-cells",
        )
    arrow = load_extra_package("pyarrow", extra="parquet", what="Parquet files")
    # A cell of eight bytes is no surprise; a long text that stands there often is.
    left = _most_bytes_of_table_file(path) + 16 * rows * columns
    batches = []
    for batch in file.iter_batches(_ROWS_AT_ONCE):
        left -= batch.nbytes
        if left < 0:
            raise _too_large_table_file(path.name)
        batches.append(batch)
    return arrow.Table.from_batches(batches, schema=file.schema_arrow)
