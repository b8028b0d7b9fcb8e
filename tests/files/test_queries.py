"""Tables out of databases: one SELECT reads one file, and does nothing else."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from party.test_agreed import MODEL, agreed
from refusals import refused
from veilsum.cli.app import app
from veilsum.errors import InvalidInputError
from veilsum.files.tables import read_table

ROWS = [
    (1, 61.5, "f", "2001-12-03"),
    (2, None, "m", None),
    (3, 47.25, None, "2002-01-01"),
]
MAKE = "CREATE TABLE person (id INTEGER, age REAL, sex TEXT, seen {})"
QUERY = "SELECT id, age, sex, seen FROM person WHERE id < 4 ORDER BY id"
EXAMPLE = Path(__file__).parents[2] / "examples" / "omop"


@pytest.fixture
def sqlite(tmp_path):
    path = tmp_path / "clinic.db"
    database = sqlite3.connect(path)
    database.execute(MAKE.format("TEXT"))
    database.executemany("INSERT INTO person VALUES (?, ?, ?, ?)", ROWS)
    database.commit()
    database.close()
    return path


@pytest.fixture
def duck(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "clinic.duckdb"
    database = duckdb.connect(str(path))
    database.execute(MAKE.format("DATE"))
    database.executemany("INSERT INTO person VALUES (?, ?, ?, ?)", ROWS)
    database.close()
    return path


@pytest.fixture
def parquet(tmp_path):
    pytest.importorskip("duckdb")
    path = tmp_path / "it's.parquet"
    frame = pd.DataFrame(ROWS, columns=["id", "age", "sex", "seen"])
    frame.to_parquet(path)
    return path


@pytest.fixture(params=["sqlite", "duck", "parquet"])
def database(request):
    return request.getfixturevalue(request.param)


def asked(path, query):
    """The same query, under the name that a Parquet file's rows have."""
    if path.suffix == ".parquet":
        query = query.replace("person", "data")
    return read_table(path, query=query)


def test_a_query_selects_a_table(database):
    found = asked(database, QUERY)
    assert list(found.columns) == ["id", "age", "sex", "seen"]
    assert found["id"].tolist() == [1, 2, 3]
    assert found["age"].tolist()[::2] == [61.5, 47.25]
    assert found.isna().to_numpy().sum(axis=0).tolist() == [0, 1, 1, 1]
    assert str(found["seen"][0])[:10] == "2001-12-03"


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO person (id) VALUES (9)",
        "DELETE FROM person",
        "CREATE TABLE other AS SELECT 1 AS x",
        "SELECT 1 AS x; SELECT 2 AS y",
        "ATTACH '{secret}' AS other",
        "PRAGMA database_list",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM glob('/*')",
        "COPY person TO '{stolen}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT load_extension('{secret}')",
        "SET enable_external_access = true",
        "SELECT readfile('{secret}')",
        "SELECT * FROM frame",
        "SELEC",
        "",
    ],
)
def test_a_query_does_nothing_but_select_from_its_file(database, query, tmp_path):
    frame = pd.DataFrame({"x": [1]})  # which some would find, by its name
    assert len(frame) == 1
    before = database.read_bytes()
    secret, stolen = tmp_path / "secret.csv", tmp_path / "stolen.csv"
    secret.write_text("a\n12345\n")
    with pytest.raises(InvalidInputError, match=r"SELECT|'SELEC'") as caught:
        asked(database, query.format(secret=secret, stolen=stolen))
    assert "12345" not in str(caught.value)
    assert database.read_bytes() == before
    assert not stolen.exists()
    assert {path.name for path in tmp_path.iterdir()} == {database.name, "secret.csv"}


def test_two_columns_of_one_name_are_refused(database):
    with refused("duplicate-column"):
        asked(database, "SELECT id, id FROM person")


def test_a_database_needs_a_query_and_a_csv_file_none(sqlite, tmp_path):
    with refused("query-missing", mentions=("--query",)):
        read_table(sqlite)
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n")
    with refused("query-on-csv"):
        read_table(path, query=QUERY)
    with refused("csv-option-unused"):
        read_table(sqlite, query=QUERY, encoding="cp1252")
    (tmp_path / "b.db").write_bytes(b"nothing of the kind")
    with refused("not-a-database"):
        read_table(tmp_path / "b.db", query=QUERY)


def test_no_query_comes_from_a_file_that_others_wrote():
    for key in ("data", "query"):
        with pytest.raises(InvalidInputError, match=f"{key!r}|\\[{key}\\]"):
            agreed(MODEL, **{key: {"query": QUERY}})


def test_the_example_passes_its_plan(tmp_path):
    """An extract of a made database is one query, and the plan's rules hold for it."""
    pytest.importorskip("duckdb")
    words = [sys.executable, str(EXAMPLE / "make.py"), str(tmp_path)]
    subprocess.run(words, check=True, capture_output=True)
    clinics = sorted(tmp_path.glob("*.duckdb"))
    assert len(clinics) == 5
    given = ["--data", clinics[0], "--query", EXAMPLE / "cohort.sql"]
    found = CliRunner().invoke(
        app, [*map(str, ["check", EXAMPLE / "plan.toml", *given])]
    )
    assert found.exit_code == 0, found.output
    assert "you may take part" in found.stdout
    drafted = CliRunner().invoke(
        app, [*map(str, ["dictionary", "draft", clinics[0], *given[2:]])]
    )
    assert 'first_seen = { kind = "date"' in drafted.stdout
