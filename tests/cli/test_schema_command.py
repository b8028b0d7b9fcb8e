"""`veilsum schema draft`: a schema from one's own table, without a value of it."""

import json
import tomllib

import pytest
from click.testing import CliRunner

from veilsum.cli.app import app

TEXT = "age;bmi;seen;zip;ward\n37;37,7;03.12.2011;01067;isolation\n-9;22,5;;10115;n\n"
WORDS = (
    *("--separator", ";", "--decimal", ",", "--missing", "-9"),
    *("--dates", "%d.%m.%Y"),
)


@pytest.fixture
def drafted(tmp_path):
    def call(*words):
        path = tmp_path / "ward7.csv"
        path.write_text(TEXT)
        given = ["schema", "draft", str(path), *WORDS, *words]
        found = CliRunner().invoke(app, given, catch_exceptions=False)
        assert found.exit_code == 0, found.output
        return found

    return call


def test_a_draft_is_toml_without_a_value(drafted):
    found = drafted()
    columns = tomllib.loads(found.stdout)["schema"]["columns"]
    assert {name: line["kind"] for name, line in columns.items()} == {
        "age": "number",
        "bmi": "number",
        "seen": "date",
        "zip": "category",
        "ward": "category",
    }
    for value in ("37", "22", "2011-", "01067", "isolation"):
        assert value not in found.stdout
    assert "# - columns that no question needs" in found.stdout
    assert "what it tells" in found.stderr


def test_levels_are_shown_if_asked_and_the_draft_says_so(drafted):
    told = json.loads(drafted("--levels", "--json").stdout)
    assert told["columns"]["ward"]["categories"] == ["isolation", "n"]
    assert told["columns"]["zip"]["categories"] == ["01067", "10115"]
    assert "every level" in told["tells"][-1]
    assert tomllib.loads(told["toml"])["schema"]["columns"] == told["columns"]
