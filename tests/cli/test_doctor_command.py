"""`veilsum doctor`: keys for machines, words for people, one refusal."""

import json

import pytest
from click.testing import CliRunner

from cases import each
from veilsum.cli.app import app

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def call(*words):
    return CliRunner().invoke(app, ["doctor", *map(str, words)])


def document(*words):
    found = call(*words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def words_of(*words):
    found = call(*words)
    assert found.exit_code == 0, found.output
    return " ".join(found.stdout.split())


def refusal(*words):
    found = call(*words)
    assert found.exit_code == 2
    assert found.stdout == ""
    assert found.stderr.startswith("Error: ")
    assert found.stderr.count("\n") == 1
    return found.stderr


def test_the_contract_keys():
    found = document("--graph", "star:5", "--tolerate", 1)
    assert list(found) == [
        *("safe", "tolerate", "vertex_connectivity", "cuts", "links_to_add", "gap"),
        *("helpful_links", "allocation"),
    ]
    assert found["safe"] is False
    assert found["vertex_connectivity"] == 1
    assert found["cuts"][0]["parties"] == ["0"]
    assert len(found["links_to_add"]) == 3
    assert found["gap"] == 0
    assert found["allocation"] is None


def test_a_safe_graph_needs_nothing():
    found = document("--graph", "petersen", "--tolerate", 2)
    assert found["safe"] is True
    assert (found["cuts"], found["links_to_add"]) == ([], [])


def test_noise_is_allocated_on_request_on_the_mended_network():
    found = document("--graph", "path:4", "--tolerate", 1, "--allocate")["allocation"]
    assert [entry["link"] for entry in found["weights"]] == [
        *(["0", "1"], ["0", "3"], ["1", "2"], ["2", "3"]),
    ]
    assert found["gain"] >= 1.0


def test_a_person_reads_who_cuts_whom_and_what_to_add():
    said = words_of("--graph", "star:4", "--tolerate", 1)
    assert "not safe: one party alone can cut this network" in said
    assert "0 separates {1} from {2} from {3}" in said
    assert "Links to add (2, the fewest)" in said
    assert "epsilon times" in said


def test_a_person_reads_that_all_is_well():
    said = words_of("--graph", "ring:6", "--tolerate", 1)
    assert said.startswith("safe: ")
    assert "No single link that was tried would lower epsilon" in said


def test_a_person_reads_of_several_parties_and_of_a_gap():
    said = words_of("--graph", "ring:6", "--tolerate", 2)
    assert "2 parties can cut this network" in said
    assert "separate {" in said


def test_pieces_and_odd_names_are_printed_as_they_are(tmp_path):
    file = tmp_path / "net.txt"
    file.write_text("[bold]a b\nc d\n", encoding="utf-8")
    said = words_of("--graph", file, "--tolerate", 0)
    assert "in pieces" in said
    assert "no link joins {[bold]a, b} and {c, d}" in said


def test_the_allocation_is_a_table():
    said = words_of("--graph", "barbell:5:5", "--tolerate", 0, "--allocate")
    assert "lowers epsilon by a factor of 3.80" in said
    assert "These links need no messages" in said


def test_long_lists_are_cut_short():
    assert "more (--json, or .links_to_add)" in words_of(
        "--graph", "star:20", "--tolerate", 1
    )


@each(("t", "word"), [(-1, "negative"), (4, "n - 1"), (9, "n - 1")])
def test_a_senseless_number_of_colluders_is_one_sentence(t, word):
    assert word in refusal("--graph", "ring:5", "--tolerate", t)


def test_an_unknown_graph_is_one_sentence():
    assert "rnig" in refusal("--graph", "rnig:5", "--tolerate", 1)
