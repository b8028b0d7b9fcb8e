"""`veilsum up`: every party a process, one answer, and nobody left behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from click.testing import CliRunner

from net.runs import ITERATED, ONE_SHOT, Company, changed, data_files
from veilsum.cli.app import CommandFailure, app
from veilsum.cli.up import _report_up_command
from veilsum.files.ledger import read_ledger
from veilsum.files.scenarios import read_scenario
from veilsum.minimise.solve import run_scenario
from veilsum.party.local import _run_local_party_process
from veilsum.sums.job_file import read_job

AVERAGE = Path(__file__).parents[2] / "examples" / "average.toml"
# By the clock on the wall: what takes so long never ends.
LONGEST = 600.0
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def up(*words):
    return CliRunner().invoke(app, ["up", *map(str, words)], catch_exceptions=False)


def written(table, folder):
    path = folder / "scenario.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def test_the_average_is_the_one_that_solve_finds(tmp_path):
    found = up(AVERAGE, "--out", tmp_path / "run", "--json")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    here = run_scenario(read_scenario(AVERAGE)).minimiser
    np.testing.assert_allclose(result["minimiser"], here, rtol=0, atol=1e-9)
    assert result["verified"] is True
    assert result["parties"] == ["alder", "birch", "cedar", "elm", "fir"]
    assert "left out: [cost] targets" in found.stderr
    for name in result["parties"]:
        folder = tmp_path / "run" / name
        assert len(read_ledger(folder / f"{name}.ledger").charges) == 1
    assert (tmp_path / "run").stat().st_mode & 0o077 == 0, "keys are in there"


def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    found = up(AVERAGE, "--out", "")
    assert found.exit_code == 2
    assert "expected a path, found nothing" in found.stderr
    assert not list(Path().iterdir())


def edit(path, **entries):
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


SPOILT = {
    "nothing": (None, {}, None),
    "an answer": ("result.json", {"minimiser": [0.0, 0.0]}, "answers differ"),
    "a receipt": (
        "receipt.json",
        {"result": "0" * 64},
        "signatures are good: not of c",
    ),
}


@pytest.fixture(scope="module")
def company(tmp_path_factory):
    made = Company(tmp_path_factory.mktemp("up"), ONE_SHOT)
    with made.local as run:
        run.start_all()
        assert set(run.wait().values()) == {0}
    return made


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize(("file", "entry", "words"), SPOILT.values(), ids=SPOILT)
def test_what_is_not_in_order_fails(
    company, tmp_path, capsys, file, entry, words, as_json
):
    shutil.copytree(company.folder("a").parent, tmp_path / "run")
    seats = {
        name: replace(seat, folder=tmp_path / "run" / name)
        for name, seat in company.seats.items()
    }
    run = replace(company.local, seats=seats)
    if file is None:
        _report_up_command(run, as_json=as_json)
    else:
        edit(seats["c"].out / file, **entry)
        with pytest.raises(CommandFailure, match=words) as caught:
            _report_up_command(run, as_json=as_json)
        assert caught.value.exit_code == 1
    printed = capsys.readouterr().out
    if as_json:
        assert json.loads(printed)["verified"] == (file is None)
    else:
        assert ("NOT" in printed) == (file is not None)


def regression(folder, **policy):
    stream = np.random.default_rng(8)
    frames = {}
    for name in "abcd":
        x = stream.uniform(0, 9, size=30)
        y = 2.0 * x + stream.normal(size=30)
        frames[name] = pd.DataFrame({"x": x, "y": y})
    number = {"kind": "number", "minimum": -50, "maximum": 50}
    table = {
        "title": "four wards",
        "schema": {"minimum_rows": 20, "columns": {"x": number, "y": number}},
        "model": {"formula": "y ~ x"},
        "policy": {"tolerate": 1, **policy},
    }
    return written(data_files(table, frames, folder), folder)


def test_a_regression_of_tables_is_printed_for_people(tmp_path):
    scenario = regression(tmp_path)
    found = up(scenario)
    assert found.exit_code == 0, found.output
    assert "4 parties, one answer:" in found.stdout
    assert "receipts verified" in found.stdout
    assert "masks: private against any party, epsilon 0\n" in found.stdout
    assert "four wards" in found.stdout
    assert "folders are gone; --out FOLDER keeps them" in found.stderr
    pooled = read_job(scenario, "model").run(driver="vectorised")
    printed = [
        float(line.split()[-1])
        for line in found.stdout.splitlines()
        if line.startswith("  ")
    ]
    np.testing.assert_allclose(printed, pooled.answer, rtol=1e-9)


def test_a_run_that_fails_says_whose_and_why(tmp_path):
    scenario = regression(tmp_path, deadline=2.0, patience=1)
    table = pd.read_csv(tmp_path / "b.csv")
    table.assign(x=1000.0).to_csv(tmp_path / "b.csv", index=False)
    found = up(scenario)
    assert found.exit_code == 1
    assert "4 of 4 parties did not finish" in found.stderr
    assert "b: " in found.stderr
    assert "Traceback" not in found.stderr


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "kept").write_text("keys")
    found = up(AVERAGE, "--out", tmp_path)
    assert found.exit_code == 2
    assert "not empty" in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def group_is_empty(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def _heeded():
    """Let what is started here heed SIGINT, also where nohup makes us ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_heeded")
@pytest.mark.skipif(os.name != "posix", reason="process groups")
@pytest.mark.parametrize(
    ("ending", "to_all"),
    [
        pytest.param("SIGINT", False, id="interrupted"),
        pytest.param("SIGKILL", False, id="killed"),
        pytest.param("SIGINT", True, id="all interrupted", marks=pytest.mark.slow),
        pytest.param("SIGTERM", False, id="terminated", marks=pytest.mark.slow),
        pytest.param("SIGHUP", False, id="hung up", marks=pytest.mark.slow),
    ],
)
def test_no_process_is_left_when_the_command_ends(ending, to_all, tmp_path):
    """Long runs, as a person ends them; also where only the command is told."""
    endless = changed(ITERATED, stopping={"iterations": 10_000_000})
    endless["stopping"].pop("tolerance")
    scenario = written(endless, tmp_path)
    words = [sys.executable, "-m", "veilsum", "up", str(scenario)]
    process = subprocess.Popen(
        [*words, "--out", str(tmp_path / "run")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(lambda: iterating(tmp_path / "run"), "the run has begun")
        assert not group_is_empty(process.pid)
        (os.killpg if to_all else os.kill)(process.pid, getattr(signal, ending))
        assert process.wait(LONGEST) != 0
        wait_for(lambda: group_is_empty(process.pid), "nobody is left")
    finally:
        if not group_is_empty(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.usefixtures("_heeded")
@pytest.mark.skipif(os.name != "posix", reason="process groups")
@pytest.mark.parametrize("to_all", [False, True], ids=["alone", "with all"])
def test_ctrl_c_while_parties_are_being_started_is_quiet(to_all):
    """A terminal tells all processes; somebody else may tell the command alone."""
    process = subprocess.Popen(
        [sys.executable, "-m", "veilsum", "up", str(AVERAGE)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        first = process.stderr.readline()
        assert first.startswith("left out"), "that is said just before they are started"
        (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
        # Until all who could say something have ended.
        said = process.communicate(timeout=LONGEST)[1]
    finally:
        if not group_is_empty(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode != 0
    assert "Traceback" not in said, said
    assert said.split()[-1] == "Aborted!"


def test_a_party_whose_folder_is_gone_leaves_without_a_word(tmp_path):
    _run_local_party_process(["veilsum"], str(tmp_path / "gone"))


def iterating(folder):
    logs = [path.read_text() for path in folder.glob("*/log.jsonl")]
    return len(logs) == 4 and all('"iterating"' in text for text in logs)


def wait_for(true, what):
    end = time.monotonic() + LONGEST
    while not true():
        assert time.monotonic() < end, f"not so: {what}"
        time.sleep(0.05)


def test_masks_for_simulations_are_refused(tmp_path):
    table = {**ONE_SHOT, "masks": {"law": "gaussian", "sigma": 1.0}}
    found = up(written(table, tmp_path))
    assert found.exit_code == 2
    assert "gaussian" in found.stderr
