"""Tables out of databases: what one query of their owner's selects.

The query is a party's own, and never comes from a file that others wrote. It reads one
file and nothing else: the file is opened for reading only, and a query cannot write,
load code, or look at another file.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

from veilsum.errors import InvalidInputError
from veilsum.files.contents import contents
from veilsum.tables.frames import Frame, check_column_names, load_pandas, needed

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


def query_in(path: Path) -> str:
    """Return the query in a file."""
    try:
        return contents(path, MOST_QUERY_BYTES, InvalidInputError).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInputError(f"the query in {path} is not UTF-8 text") from None


def selected(path: Path, query: str) -> Frame:
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
        return _by_duckdb(path, query, parquet=True)
    with path.open("rb") as stream:
        head = stream.read(16)
    if head == _SQLITE:
        return _by_sqlite(path, query)
    if head[8:12] == _DUCKDB:
        return _by_duckdb(path, query, parquet=False)
    raise InvalidInputError(
        f"the file {path.name!r} is neither a DuckDB nor a SQLite database"
    )


def _by_duckdb(path: Path, query: str, *, parquet: bool) -> Frame:
    duckdb = needed("duckdb", extra="duckdb", what="queries")
    try:
        with _opened(duckdb, path, parquet=parquet) as database:
            statements = database.extract_statements(query)
            if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
                raise InvalidInputError(
                    f"a query is one SELECT, found {len(statements)} statements or "
                    "another one"
                )
            found = database.execute(statements[0])
            names = [column[0] for column in found.description]
            check_column_names(names, where="the query's table")
            return found.df()
    except duckdb.Error as error:
        _refuse(path, error)


def _opened(duckdb: Any, path: Path, *, parquet: bool) -> Any:
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


def _by_sqlite(path: Path, query: str) -> Frame:
    place = f"{path.resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(place, uri=True)) as database:
            database.set_authorizer(_only_reading)
            found = database.execute(query)
            if found.description is None:
                raise InvalidInputError("a query is one SELECT, found nothing")
            names = [column[0] for column in found.description]
            check_column_names(names, where="the query's table")
            return load_pandas().DataFrame.from_records(found.fetchall(), columns=names)
    except (sqlite3.Error, sqlite3.Warning) as error:
        _refuse(path, error)


def _only_reading(action: int, first: str | None, second: str | None, *_: Any) -> int:
    del first
    called = action == sqlite3.SQLITE_FUNCTION and second != "load_extension"
    return sqlite3.SQLITE_OK if called or action in _READING else sqlite3.SQLITE_DENY


def _refuse(path: Path, error: Exception) -> NoReturn:
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    raise InvalidInputError(
        f"the query cannot be answered from {path.name!r}: {said}; a query is one "
        "SELECT that reads this file alone",
        plain="a query cannot be answered",
    ) from None
