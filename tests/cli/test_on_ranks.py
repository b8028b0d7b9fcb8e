"""`--on mpi:N`: the same answer as without, and a sentence when a rank is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from veilsum.cli import ranks
from veilsum.cli.app import app
from veilsum.cli.ranks import lost

MPIEXEC = Path(sys.executable).with_name("mpiexec")
several = pytest.mark.skipif(
    not MPIEXEC.exists(), reason="no mpiexec beside this Python"
)
PROCESSES = Path("/proc")
MARK = "VEILSUM_TEST_OF_RANKS"


def scenario(folder, *, iterations=30, family="grid:20x6"):
    targets = np.random.default_rng(0).random((120, 1)).round(3).tolist()
    path = folder / "grid.toml"
    path.write_text(
        f"""
title = "A grid"
[graph]
family = "{family}"
[cost]
kind = "squared-distance"
targets = {targets}
[domain]
kind = "box"
lower = [0.0]
upper = [1.0]
[masks]
law = "gaussian"
sigma = 1.0
[method]
name = "dgd"
[stopping]
iterations = {iterations}
[simulation]
seed = 4
"""
    )
    return path


def command(*words):
    return [sys.executable, "-m", "veilsum", "solve", *map(str, words)]


def ended(*words):
    return subprocess.run(
        command(*words), check=False, capture_output=True, text=True, timeout=120
    )


@several
def test_ranks_print_once_what_one_process_prints(tmp_path):
    path = scenario(tmp_path)
    found = ended(path, "--on=mpi:2", "--json")
    assert found.returncode == 0, found.stderr
    ours = json.loads(found.stdout)
    alone = json.loads(CliRunner().invoke(app, ["solve", str(path), "--json"]).stdout)
    assert ours["engine"] == "mpi"
    assert ours["minimiser"] == pytest.approx(alone["minimiser"], rel=1e-12)
    assert ours["max_error"] == pytest.approx(alone["max_error"], rel=1e-9)


@several
@pytest.mark.slow
def test_what_all_ranks_fail_over_is_said_once(tmp_path):
    found = ended(scenario(tmp_path, family="complete:120"), "--on", "mpi:2")
    assert found.returncode == 2
    assert found.stderr.count("Error: ") == 1
    assert "halo of 120 (100%" in found.stderr
    assert found.stdout == ""


def rank_of_mark(mark, rank):
    """The process that is this rank of the job that has the mark, once it uses MPI."""
    wanted = {f"{MARK}={mark}".encode(), f"PMI_RANK={rank}".encode()}
    for one in PROCESSES.iterdir():
        if one.name.isdigit():
            try:
                if wanted <= set((one / "environ").read_bytes().split(b"\0")):
                    return (
                        int(one.name) if "libmpi" in (one / "maps").read_text() else 0
                    )
            except OSError:
                continue
    return 0


@several
@pytest.mark.skipif(not PROCESSES.is_dir(), reason="no list of processes to look into")
def test_a_rank_that_is_killed_ends_the_job_with_a_sentence(tmp_path):
    mark = f"{os.getpid()}-{tmp_path.name}"
    job = subprocess.Popen(
        command(scenario(tmp_path, iterations=10**8), "--on", "mpi:2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, MARK: mark},
    )
    try:
        while not (rank := rank_of_mark(mark, 1)):
            assert job.poll() is None, job.communicate()
            time.sleep(0.05)
        other = rank_of_mark(mark, 0)
        os.kill(rank, signal.SIGKILL)
        output, said = job.communicate(timeout=60)
    finally:
        job.kill()
    assert job.returncode == 1
    assert output == ""
    (line,) = [one for one in said.splitlines() if one.startswith("Error: ")]
    assert "one of 2 ranks ended before the others" in line
    assert "signal 9" in line
    assert not other or not (PROCESSES / str(other)).exists()


@several
def test_a_rank_that_fails_alone_ends_the_job_with_its_sentence(tmp_path):
    """The others would wait for it for ever."""
    program = tmp_path / "alone.py"
    program.write_text(
        "from veilsum.cli import ranks\n"
        "ranks.SECONDS = 0.1\n"
        "with ranks.carried_out('mpi') as here:\n"
        "    if here.comm.rank == 1:\n"
        "        raise MemoryError('no room')\n"
        "    here.comm.Barrier()\n"
    )
    words = [str(MPIEXEC), "-n", "2", sys.executable, str(program)]
    found = subprocess.run(words, check=False, capture_output=True, text=True)
    assert found.returncode != 0
    assert "Error: rank 1 of 2: MemoryError: no room" in found.stderr


def test_without_mpiexec_a_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(ranks.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["solve", str(scenario(tmp_path)), "--on", "mpi:2"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 1
    assert "pip install mpich" in found.stderr


@pytest.mark.parametrize("where", ["mpi:0", "mpi:", "ray:2", "mpi:-1", "mpi:999999"])
def test_other_places_are_refused(where, tmp_path):
    found = CliRunner().invoke(app, ["solve", str(scenario(tmp_path)), "--on", where])
    assert found.exit_code == 2
    assert "--on takes mpi:N" in found.stderr


def test_machines_are_not_shared_among_ranks(tmp_path):
    words = ["solve", str(scenario(tmp_path)), "--driver", "loopback", "--on", "mpi:2"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert "--driver vectorised" in found.stderr


def test_a_launcher_that_says_nothing_leaves_its_number():
    assert "(mpiexec ended with 137). A rank" in lost(4, 137, "")
