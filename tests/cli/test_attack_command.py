"""`veilsum attack float`: contract keys, words for people, refusals in one sentence."""

import json

import pytest
from click.testing import CliRunner

from cases import each
from veilsum.cli.app import app

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

FEW = ("--runs", 400)
DECIMALS = ("--values", "0.1,0.2,0.3")


def call(*words):
    return CliRunner().invoke(app, ["attack", *(str(word) for word in words)])


def document(*words):
    found = call("float", *words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout, parse_constant=lambda word: pytest.fail(word))


def refusal(*words):
    found = call(*words)
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    assert found.stderr.startswith("Error: ")
    assert found.stderr.count("\n") == 1, "one sentence, on one line"
    return found.stderr


def test_the_document_has_the_contract_keys():
    found = document(*DECIMALS, *FEW, "--sigma", 1000)
    assert list(found) == [
        *("values", "alternative", "sigma", "runs", "float64", "lattice")
    ]
    assert found["values"] == [0.1, 0.2, 0.3]
    assert found["alternative"] == [0.2, 0.1, 0.3]
    assert (found["sigma"], found["runs"]) == (1000, 400)
    assert list(found["float64"]) == [
        *("excluded", "rate", "inexact_sums", "max_sum_error")
    ]
    assert list(found["lattice"]) == ["bits", "excluded", "rate", "inexact_sums"]


def test_floats_leak_and_the_lattice_does_not():
    found = document(*DECIMALS)
    assert found["runs"] == 20_000
    assert found["float64"]["rate"] > 0.5
    assert found["float64"]["rate"] == found["float64"]["excluded"] / 20_000
    clean = {"bits": 40, "excluded": 0, "rate": 0.0, "inexact_sums": 0}
    assert found["lattice"] == clean


def test_a_seed_repeats_the_runs_and_another_changes_them():
    first, again = document(*FEW, "--seed", 3), document(*FEW, "--seed", 3)
    assert first == again
    assert document(*FEW, "--seed", 4)["float64"] != first["float64"]


def test_people_get_a_table_and_a_sentence():
    shown = " ".join(call("float", *DECIMALS, *FEW).stdout.split())
    for words in (
        *("law", "share of runs", "zero-sum inexact", "float64 400", "lattice 400 0"),
        *("knows for certain", "were not 0.2, 0.1, 0.3", "the divergence is infinite"),
    ):
        assert words in shown


def test_no_exclusion_is_not_called_safe():
    shown = " ".join(call("float", *FEW, "--sigma", 1e6).stdout.split())
    assert "did not rule out 2, 1, 3; that is no proof" in shown


def test_values_may_be_negative_and_the_grid_chosen():
    found = document("--values", "-1,2.5,3", *FEW, "--bits", 20)
    assert found["alternative"] == [2.5, -1, 3]
    assert (found["lattice"]["bits"], found["lattice"]["excluded"]) == (20, 0)


@pytest.mark.parametrize("values", ["1,2,3", "0.3,0.7,5"])
def test_out_holds_the_document_and_the_figure(tmp_path, values):
    folder = tmp_path / "float"
    words = ("--values", values, "--runs", 50, "--sigma", 3)
    found = document(*words, "--out", folder)
    assert json.loads((folder / "result.json").read_text()) == found
    assert (folder / "float_leak.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "float_leak.svg").read_text()
    assert len(list(folder.iterdir())) == 3


def test_both_helps_show_an_example():
    for words in (("--help",), ("float", "--help")):
        found = call(*words)
        assert found.exit_code == 0
        assert "Example:\n" in found.output
        assert "veilsum attack float --values" in found.output


@each(
    ("words", "message"),
    [
        ((), "Missing command"),
        (("integer",), "No such command"),
        (("float", "--values", "1,2"), "three numbers such as 0.1,0.2,0.3"),
        (("float", "--values", "1,2,3,4"), "three numbers"),
        (("float", "--values", "1,two,3"), "found '1,two,3'"),
        (("float", "--values", "1,nan,3"), "must be finite numbers"),
        (("float", "--values", "1,2,inf"), "must be finite numbers"),
        (("float", "--values", "1,1,3"), "first two values must be different"),
        (("float", "--sigma", 0), "sigma must be positive"),
        (("float", "--sigma", -1), "sigma must be positive"),
        (("float", "--sigma", "nan"), "sigma must be positive"),
        (("float", "--sigma", 1e-30), "finer grid or a larger sigma"),
        (("float", "--sigma", 1e60), "coarser grid or a smaller sigma"),
        (("float", "--runs", 0), "--runs"),
        (("float", "--runs", "many"), "--runs"),
        (("float", "--bits", 61), "--bits"),
        (("float", "--seed", -1), "--seed"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(words, message):
    assert message in refusal(*words)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    assert "choose another folder" in refusal("float", "--out", tmp_path / "file")
