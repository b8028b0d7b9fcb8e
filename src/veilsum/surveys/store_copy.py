"""A copy of a delegate's store, and what has to be known before it is one again.

A store must know every set that was ever added up: an older one would let a later
survey differ by one guest from a set that it has forgotten. So a copy is no store. It
is made one when the sets that were added since are in it again; and it holds no key,
for it may lie somewhere long after that key was erased.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from veilsum.errors import StoreError
from veilsum.files.sqlite import (
    create_sqlite_file,
    inspect_sqlite_file,
    sync_file_to_disk,
)
from veilsum.surveys.delegate import (
    COPIED,
    SURVEYS,
    AnsweredSurvey,
    check_survey_roster,
    is_delegate_store_copy,
)
from veilsum.surveys.terms import SurveyTerms

_TABLES = {
    "key": "SELECT public, NULL, survey FROM key",
    "closed": "SELECT survey, digest, guests, persons FROM closed",
    "invited": "SELECT survey, key, name FROM invited",
    "cell": "SELECT survey, title, in_row, in_column, filled FROM cell",
}
_PUT = {
    "key": "INSERT INTO key VALUES (?, ?, ?)",
    "closed": "INSERT INTO closed VALUES (?, ?, ?, ?)",
    "invited": "INSERT INTO invited VALUES (?, ?, ?)",
    "cell": "INSERT INTO cell VALUES (?, ?, ?, ?, ?)",
}


def copy_store(path: Path, to: Path) -> None:
    """Write what a store knows, without any key, as a copy that knows that it is one.

    Others may use the store meanwhile. What is a copy already is copied as it is.

    Raises:
        StoreError: there is no sound store, or something is in the copy's place.
    """
    if to.exists():
        raise StoreError(
            f"{to} is there already and is left as it is", code="file-exists"
        )
    create_sqlite_file(
        to, COPIED, _filling_of_survey_store(_rows_of_survey_store(path))
    )


def known_in_copy(path: Path) -> frozenset[tuple[str, str]]:
    """Return the digests of the surveys that a copy knows, each with its set's."""
    return frozenset((row[0], row[1]) for row in _rows_of_survey_store(path)["closed"])


def check_roster_in_copy(path: Path, terms: SurveyTerms) -> None:
    """Refuse a survey whose roster is not true about the guests that a copy knows."""
    rows = _rows_of_survey_store(path)
    made = {public for public, *_ in rows["key"]}
    for name, public in terms.delegates:
        if public in made:
            check_survey_roster(terms, name, rows["invited"])


def put_store_copy_in_use(path: Path, forgotten: Iterable[AnsweredSurvey]) -> None:
    """Make a store of a copy again, in its place.

    Args:
        path: of the copy.
        forgotten: surveys that were added up since it was made.

    Raises:
        StoreError: it is no copy; or a survey is in it with another set.
    """
    if not is_delegate_store_copy(path):
        raise StoreError(
            f"{path} is in use already: it is no copy from a backup",
            code="store-in-use",
        )
    rows = _rows_of_survey_store(path)
    sets = {survey: digest for survey, digest, *_ in rows["closed"]}
    for one in forgotten:
        if sets.setdefault(one.survey, one.set) != one.set:
            raise StoreError(
                f"{path} knows another set of the survey {one.survey[:16]} than this: "
                "only one of them was added up; give its closed file",
                code="other-set-added",
            )
        if one.survey not in {row[0] for row in rows["closed"]}:
            told = json.dumps(one.guests), json.dumps(one.persons)
            rows["closed"].append((one.survey, one.set, *told))
            rows["cell"] += one.cell_rows
    aside = path.with_name(f".{path.name}.resumed")
    aside.unlink(missing_ok=True)  # of a time that was broken off
    create_sqlite_file(aside, SURVEYS, _filling_of_survey_store(rows))
    aside.replace(path)
    sync_file_to_disk(path.parent)


def _rows_of_survey_store(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with inspect_sqlite_file(
        path, COPIED if is_delegate_store_copy(path) else SURVEYS
    ) as source:
        source.execute("BEGIN")  # all tables as they are at one moment
        found = {
            name: [tuple(row) for row in source.execute(words).fetchall()]
            for name, words in _TABLES.items()
        }
        source.execute("COMMIT")
        # Text comes as bytes; keys are bytes.
        found["key"] = [
            (public, None, _text_in_survey_store(survey))
            for public, _, survey in found["key"]
        ]
        found["closed"] = [
            tuple(map(_text_in_survey_store, row)) for row in found["closed"]
        ]
        found["invited"] = [
            (key, own, _text_in_survey_store(name))
            for key, own, name in found["invited"]
        ]
        found["cell"] = [
            (*map(_text_in_survey_store, cell), who) for *cell, who in found["cell"]
        ]
    return found


def _text_in_survey_store(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _filling_of_survey_store(rows: dict[str, list[tuple[Any, ...]]]) -> Any:
    def fill(connection: sqlite3.Connection) -> None:
        for name, some in rows.items():
            connection.executemany(_PUT[name], some)

    return fill
