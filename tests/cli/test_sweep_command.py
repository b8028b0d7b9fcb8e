"""`veilsum sweep` writes the table that `vs.minimise.sweep` finds, and a figure."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import veilsum as vs
from veilsum.cli.app import app
from veilsum.minimise.sweeps import COLUMNS

EXAMPLE = Path(__file__).parents[2] / "examples" / "rendezvous.toml"
CHOSEN = [
    "--graph",
    "ring:12",
    "--graph",
    "complete:12",
    "--sigma",
    "1",
    "--sigma",
    "9",
]
CHOSEN += ["--iterations", "20", "--seeds", "2", "--tolerate", "2"]

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def called(*words):
    return CliRunner().invoke(app, ["sweep", *map(str, words)])


def test_the_command_and_the_function_write_the_same(tmp_path):
    out, figure = tmp_path / "new" / "sweep.csv", tmp_path / "sweep.png"
    found = called(EXAMPLE, *CHOSEN, "--out", out, "--figure", figure, "--json")
    assert found.exit_code == 0, found.output
    rows = json.loads(found.stdout)["rows"]
    assert len(rows) == 8
    assert list(rows[0]) == list(COLUMNS)
    assert figure.read_bytes().startswith(b"\x89PNG")
    graphs = {name: vs.Topology.family(name) for name in ("ring:12", "complete:12")}
    scenario = vs.files.read_scenario(EXAMPLE)
    steps = vs.minimise.Settings(**{**vars(scenario.settings), "iterations": 20})
    grid = {"sigmas": [1, 9], "seeds": 2, "tolerate": 2, "settings": steps}
    vs.minimise.sweep(scenario, graphs=graphs, **grid).to_csv(tmp_path / "python.csv")
    assert out.read_bytes() == (tmp_path / "python.csv").read_bytes()
    again = called(EXAMPLE, *CHOSEN, "--out", out)
    assert "A sweep of 8 lines" in again.stdout
    other = called(EXAMPLE, *CHOSEN, "--sigma", "3", "--out", out)
    assert other.exit_code == 2
    assert "another sweep" in other.stderr


def test_a_figure_of_another_kind_is_refused_before_anything_runs(tmp_path):
    found = called(EXAMPLE, "--figure", tmp_path / "sweep.pdf")
    assert found.exit_code == 2
    assert ".png or .svg" in found.stderr


@pytest.mark.parametrize("done", [0, 1])
def test_what_was_stopped_says_how_much_is_left(monkeypatch, done):
    whole = vs.minimise.sweep(
        EXAMPLE, settings=vs.minimise.Settings(iterations=5, step=0.5)
    )
    partial = vs.minimise.Sweep(
        whole.rows[:done], whole.tolerance, whole.distance, done + 2
    )
    monkeypatch.setattr("veilsum.minimise.sweeps.sweep", lambda *_, **__: partial)
    found = called(EXAMPLE)
    assert found.exit_code == 1
    assert f"{done} line" in found.stdout
    assert "2 lines to go" in found.stderr
