"""`veilsum ledger`: entries, totals, what is left; and a file that is only read."""

import json
import sqlite3
from contextlib import suppress

import pytest
from click.testing import CliRunner

from ledgers import PARTIES, aggregate, mark, private, reservation, run
from veilsum.cli.app import app
from veilsum.errors import InvalidInputError
from veilsum.files.ledger import open_ledger
from veilsum.privacy.accountant import Budget
from veilsum.privacy.composition import Exposure

NOON = "2030-01-03T12:00:00+00:00"


def call(*words):
    return CliRunner().invoke(app, ["ledger", *map(str, words)])


def document(path):
    found = call(path, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout, parse_constant=_refuse)


def _refuse(word):
    raise AssertionError(f"{word} is not JSON")


def refusal(path):
    found = call(path)
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    assert found.stderr.startswith("Error: ")
    assert found.stderr.count("\n") == 1, "one sentence, on one line"
    return found.stderr


@pytest.fixture
def path(tmp_path):
    """Two runs, one of them sent again, two aggregates; a second data set."""
    path = tmp_path / "party.ledger"
    first = run("fit-1", private(0.25, "a"))
    again = {"masks": first.masks, "effective": first.effective}
    with open_ledger(path, create=Budget(epsilon=9.0)) as ledger:
        ledger.change_budget(Budget(epsilon=1.0), when="2030-01-01")
        about = {"columns": ("x", "y"), "rows": 20}
        ledger.reserve(reservation("fit", numbers=9, **about), when="2030-01-01")
        shown = aggregate("count", run="fit", numbers=4, **about)
        ledger.charge(first, releases=[shown], when="2030-01-02")
        ledger.charge(run("fit-2", private(0.25, "a"), **again))
        ledger.charge(run("fit-3", private(0.125, "b", tolerate=1)))
        ledger.release(aggregate("score", point=(0.5, 2.0)))
        ledger.charge(run("other", private(0.5, "a"), data=mark("other")))
        with (
            suppress(InvalidInputError),
            ledger.inquiry(
                (b"other",),
                file="f",
                run="r",
                question="q",
                bounds="b",
                new_data=True,
                when=NOON,
            ),
        ):
            raise InvalidInputError("52000 is too high", plain="too\thigh")
    return path


def test_json_has_the_entries_and_what_is_left(path):
    found = document(path)
    assert list(found) == [
        *("budget", "earlier_budgets", "charges", "releases"),
        *("reservations", "refusals", "copies", "copied", "data_sets"),
    ]
    assert found["budget"] == {
        "epsilon": 1.0,
        "release_fraction": 0.5,
        "minimum_rows": 5,
        "minimum_honest": 3,
        "tolerate": 0,
        "when": "2030-01-01",
    }
    assert [old["epsilon"] for old in found["earlier_budgets"]] == [9.0]
    assert [one["epoch"] for one in found["charges"]] == [
        *("fit-1", "fit-2", "fit-3", "other")
    ]
    assert [one["data_set"] for one in found["charges"]] == [1, 1, 1, 2]
    assert found["charges"][0]["when"] == "2030-01-02"
    assert found["charges"][0]["parties"] == list(PARTIES)
    assert found["charges"][2]["exposures"] == [
        {
            "coalition": ["b"],
            "tolerate": 1,
            "status": "private",
            "epsilon": 0.125,
            "components": [],
        }
    ]
    assert found["releases"][0]["numbers"] == 4
    assert found["releases"][1]["point"] == [0.5, 2.0]
    (begun,) = found["reservations"]
    assert (begun["run"], begun["numbers"], begun["still_reserved"]) == ("fit", 9, 5)
    (refused,) = found["refusals"]
    assert (refused["reason"], refused["when"]) == ("too\thigh", NOON)


def test_json_has_the_totals_of_each_data_set(path):
    one, two, three = document(path)["data_sets"]
    assert (one["runs"], one["resent"]) == (2, 1)
    assert (one["epsilon"], one["epsilon_left"]) == (0.375, 0.625)
    # 0.5 of 40 is 20: 19 at most, of which 5 are known and 5 reserved.
    assert (one["numbers"], one["reserved"], one["numbers_left"]) == (5, 5, 9)
    assert (three["runs"], three["refusals"]) == (0, 1)
    assert one["coalitions"] == [
        {"coalition": ["a"], "tolerate": None, "epsilon": 0.375, "reason": None},
        {
            "coalition": None,
            "tolerate": 1,
            "epsilon": None,
            "reason": "epoch 'fit-1' states no bound against any 1 party",
        },
    ]
    assert (two["epsilon"], two["epsilon_left"]) == (0.5, 0.5)


def test_people_get_tables(path):
    found = call(path)
    assert found.exit_code == 0
    lines = [line.split() for line in found.output.splitlines()]
    account = ["0.375", "0.625", "5", "5", "9", "0"]
    assert ["1", "0", "2", "1", *account] in lines
    assert ["2", "0", "1", "0", "0.5", "0.5", "0", "0", "none", "0"] in lines
    assert ["fit", "1", "9", "5"] in lines
    assert r"too\thigh" in found.output
    assert "any 1 party" in found.output
    assert "score" in found.output


def test_a_run_without_a_bound_is_said_aloud(tmp_path):
    path = tmp_path / "party.ledger"
    with open_ledger(path, create=Budget()) as ledger:
        lost = Exposure(coalition=("a",), status="partial", epsilon=None)
        ledger.charge(run("lost", lost))
    (account,) = document(path)["data_sets"]
    assert account["epsilon"] is None
    assert account["reason"] == "epoch 'lost' has no bound against a (partial)"
    assert "Data set 1 has no bound: epoch 'lost'" in call(path).output


def test_an_empty_ledger_has_nothing_to_show(tmp_path):
    path = tmp_path / "party.ledger"
    open_ledger(path, create=Budget()).close()
    assert "epoch: none so far" in call(path).output
    assert document(path)["data_sets"] == []


def test_names_are_shown_as_they_are_not_as_markup(tmp_path):
    path = tmp_path / "party.ledger"
    with open_ledger(path, create=Budget()) as ledger:
        ledger.charge(run("[red]one[/red]"))
    assert "[red]one[/red]" in call(path).output


def test_neither_key_nor_fingerprints_are_shown(path):
    with sqlite3.connect(path) as connection:
        (key,) = connection.execute("SELECT key FROM secret").fetchone()
    connection.close()
    for output in (call(path).output, call(path, "--json").output):
        assert key.hex() not in output
        for hidden in ("data", "other", "masks fit-1", "effective fit-1"):
            assert mark(hidden)[:16] not in output


def test_reading_changes_nothing(path):
    before = path.read_bytes()
    call(path)
    call(path, "--json")
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_missing_ledger_is_not_made(tmp_path):
    assert "does not exist" in refusal(tmp_path / "party.ledger")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_ledger_is_refused_and_left_as_it_is(path):
    damaged = path.read_bytes()[:-500]
    path.write_bytes(damaged)
    assert "is damaged (its end is missing)" in refusal(path)
    assert path.read_bytes() == damaged


def test_a_folder_is_refused(tmp_path):
    assert "is not a file" in refusal(tmp_path)


def test_the_help_ends_with_an_example():
    found = call("--help")
    assert found.exit_code == 0
    assert "Example:\n    veilsum ledger" in found.output
