"""`veilsum data`: cuts are registered, listed, shown and forgotten, at home only."""

import json
import shutil

import pandas as pd
import pytest
from click.testing import CliRunner

from data_cuts import patients
from veilsum.cli.app import app
from veilsum.files.ledger import read_ledger


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call `veilsum data` in a folder with a table of June."""
    monkeypatch.chdir(tmp_path)
    patients().to_csv("june.csv", index=False)

    def call(*words, code=0):
        found = CliRunner().invoke(app, ["data", *words])
        assert found.exit_code == code, found.output
        return json.loads(found.output) if "--json" in words else found.output

    return call


def added(run, name="june", *words):
    return run("add", f"{name}.csv", "--as", name, "--ledger", "n.ledger", *words)


def test_a_cut_is_added_listed_shown_and_forgotten(run, tmp_path):
    said = added(run, "june", "--id", "patient")
    assert "60 rows" in said
    assert "data forget june" in said
    assert "whole rows" not in said
    later = pd.concat([patients()[2:], patients(7, seed=5, first=500)])
    later.iloc[3, 2] = 1.5
    later.to_csv("july.csv", index=False)
    added(run, "july")
    (first, second) = run("list", "--json")["cuts"]
    assert (first["name"], first["rows"], first["id"]) == ("june", 60, "patient")
    assert (second["rows"], second["id"], second["questions"]) == (65, "patient", 0)
    shown = run("show", "july", "--json")
    assert (shown["new"], shown["gone"], shown["changed"]) == (7, 2, 1)
    assert shown["columns"] == ["patient", "age", "pay", "sex"]
    assert "7 new, 2 gone, 1 changed" in run("show", "july")
    assert "july" in run("list")
    run("forget", "june")
    assert [one["has_rows"] for one in run("list", "--json")["cuts"]] == [False, True]
    assert len([*(tmp_path / "n.ledger-cuts").iterdir()]) == 1


def test_without_ids_the_program_says_what_that_misses(run):
    said = added(run)
    assert "a corrected row counts as one that is gone and one that is new" in said


def test_no_value_of_the_table_is_in_the_ledger(run, tmp_path):
    added(run, "june", "--id", "patient")
    content = (tmp_path / "n.ledger").read_bytes()
    for value in ("P00007", str(patients()["pay"][7])):
        assert value.encode() not in content


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("add", "june.csv", "--as", "a b", "--ledger", "n.ledger"), "a b"),
        (("add", "june.csv", "--as", "newest", "--ledger", "n.ledger"), "newest"),
        (
            ("add", "june.csv", "--as", "x", "--id", "name", "--ledger", "n.ledger"),
            "patient",
        ),
        (("show", "july", "--ledger", "n.ledger"), "june"),
        (("add", "june.csv", "--as", "june", "--ledger", "n.ledger"), "--as"),
    ],
    ids=["blank", "reserved", "no such column", "unknown cut", "name is taken"],
)
def test_what_cannot_be_done_is_said(run, words, code):
    added(run)
    found = CliRunner().invoke(app, ["data", *words])
    assert found.exit_code != 0
    assert code in found.output
    assert len(read_ledger("n.ledger").cuts) == 1


def test_the_only_ledger_of_the_folder_is_taken(run):
    assert "n.ledger" not in run("list", code=2)
    added(run)
    assert run("list", "--json")["cuts"][0]["name"] == "june"
    shutil.copy("n.ledger", "m.ledger")
    assert "m.ledger" in run("list", code=2)


def test_a_file_with_other_marks_is_the_same_cut(run):
    """Commas, order and types of cells do not make other people."""
    added(run, "june", "--id", "patient")
    table = patients().sample(frac=1, random_state=1)[["sex", "pay", "age", "patient"]]
    table.to_csv("again.csv", index=False, sep=";", decimal=",")
    added(run, "again", "--separator", ";", "--decimal", ",")
    shown = run("show", "again", "--json")
    assert (shown["new"], shown["gone"], shown["changed"]) == (0, 0, 0)
