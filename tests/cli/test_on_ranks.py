"""`--on mpi:N`: the same answer as without, and a sentence when a rank is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import veilsum as vs
from veilsum.cli import ranks
from veilsum.cli.app import app
from veilsum.cli.ranks import CommandRank, LauncherOutput, lost_rank_message
from veilsum.minimise.ranks import large_on_ranks

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


def check_answer(text, path):
    ours = json.loads(text)
    alone = json.loads(CliRunner().invoke(app, ["solve", str(path), "--json"]).stdout)
    assert ours["engine"] == "mpi"
    assert ours["minimiser"] == pytest.approx(alone["minimiser"], rel=1e-12)
    assert ours["max_error"] == pytest.approx(alone["max_error"], rel=1e-9)


def test_one_rank_prints_what_one_process_prints(tmp_path):
    pytest.importorskip("mpi4py.MPI", exc_type=ImportError)
    path = scenario(tmp_path)
    words = ["solve", str(path), "--on", "mpi", "--json", "--out", str(tmp_path / "o")]
    check_answer(CliRunner().invoke(app, words).stdout, path)
    assert (tmp_path / "o" / "result.json").exists()


@several
@pytest.mark.slow
def test_ranks_print_once_what_one_process_prints(tmp_path):
    path = scenario(tmp_path)
    found = ended(path, "--on=mpi:2", "--json")
    assert found.returncode == 0, found.stderr
    check_answer(found.stdout, path)


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


def killed(words, tmp_path, *, once=lambda: True, whole=False):
    """How a job ended whose second rank was killed; `once` says when it is time.

    Or the `whole` of it, by a word to the command that started it.
    """
    mark = f"{os.getpid()}-{tmp_path.name}"
    job = subprocess.Popen(
        [*words, "--on", "mpi:2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, MARK: mark},
    )
    try:
        while not ((rank := rank_of_mark(mark, 1)) and once()):
            assert job.poll() is None, job.communicate()
            time.sleep(0.05)
        other = rank_of_mark(mark, 0)
        if whole:
            job.terminate()
        else:
            os.kill(rank, signal.SIGKILL)
        output, said = job.communicate(timeout=60)
    finally:
        job.kill()
    assert job.returncode == 1
    assert output == ""
    for one in filter(None, (rank, other)):
        assert not (PROCESSES / str(one)).exists()
    (line,) = [one for one in said.splitlines() if one.startswith("Error: ")]
    return line


looked_into = pytest.mark.skipif(
    not PROCESSES.is_dir(), reason="no list of processes to look into"
)


@several
@looked_into
def test_a_rank_that_is_killed_ends_the_job_with_a_sentence(tmp_path):
    line = killed(command(scenario(tmp_path, iterations=10**8)), tmp_path)
    assert "one of 2 ranks ended before the others" in line
    assert "signal 9" in line


@several
@looked_into
@pytest.mark.slow
def test_ranks_end_with_the_command_that_started_them(tmp_path):
    words = command(scenario(tmp_path, iterations=10**8))
    assert "without a result" in killed(words, tmp_path, whole=True)


@several
@looked_into
@pytest.mark.slow
def test_a_large_run_goes_on_after_a_rank_was_killed(tmp_path):
    graph, path = "grid:40x30", tmp_path / "kept.npz"
    words = ["large", graph, "--dim", "2", "--method", "extra"]
    words += ["--checkpoint", str(path), "--every", "1e-9", "--json"]
    veilsum = [sys.executable, "-m", "veilsum"]

    def written():
        return len([*tmp_path.glob("kept.*.npz")]) >= 2

    killed([*veilsum, *words, "--iterations", "100000000"], tmp_path, once=written)
    found = []
    for one in tmp_path.glob("kept.*.npz"):
        with np.load(one) as held:
            found.append(int(held["iteration"]))
    last = str(max(found) + 10)
    again = subprocess.run(
        [*veilsum, *words, "--iterations", last, "--on", "mpi:2"],
        check=True,
        capture_output=True,
        text=True,
    )
    ours = json.loads(again.stdout)
    assert ours["resumed"] in found
    alone = large_on_ranks(graph, dim=2, method="extra", iterations=int(last))
    assert ours["minimiser"] == pytest.approx(alone.minimiser.tolist(), rel=1e-12)
    assert ours["max_error"] == pytest.approx(alone.max_error, rel=1e-12)


@pytest.mark.parametrize("file", [False, True])
def test_one_rank_that_mpiexec_did_not_start_runs_alone(file, tmp_path):
    pytest.importorskip("mpi4py.MPI", exc_type=ImportError)
    graph = "grid:20x10"
    if file:
        graph = str(tmp_path / "links.npy")
        np.save(graph, np.asarray(vs.Topology.family("grid:20x10").edges, np.int32))
    words = ["large", graph, "--iterations", "20", "--dim", "1", "--json"]
    found = CliRunner().invoke(app, [*words, "--on", "mpi"])
    assert found.exit_code == 0, found.output
    ours = json.loads(found.stdout)
    assert (ours["ranks"], ours["parties"], ours["halo"]) == (1, 200, 0.0)
    plain = CliRunner().invoke(app, [*words, "--no-certificate", "--engine", "numpy"])
    theirs = json.loads(plain.stdout)
    assert ours["minimiser"] == pytest.approx(theirs["minimiser"], rel=1e-12)
    for more, said in (
        (("--corrupted", "3"), "no epsilon"),
        (("--engine", "jax"), "engine"),
    ):
        refused = CliRunner().invoke(app, [*words, "--on", "mpi", *more])
        assert refused.exit_code == 2
        assert said in refused.stderr


@several
def test_a_rank_that_fails_alone_ends_the_job_with_its_sentence(tmp_path):
    """The others would wait for it for ever."""
    program = tmp_path / "alone.py"
    program.write_text(
        "from veilsum.cli import ranks\n"
        "ranks.SECONDS = 0.1\n"
        "with ranks.command_carried_out('mpi') as here:\n"
        "    if here.comm.rank == 1:\n"
        "        raise MemoryError('no room')\n"
        "    here.comm.Barrier()\n"
    )
    words = [str(MPIEXEC), "-n", "2", sys.executable, str(program)]
    found = subprocess.run(words, check=False, capture_output=True, text=True)
    assert found.returncode != 0
    assert "Error: rank 1 of 2: MemoryError: no room" in found.stderr


@several
def test_whoever_starts_ranks_is_told_how_far_they_are(monkeypatch):
    told = []

    @contextmanager
    def looking(progress=None):
        yield lambda label, total: lambda done: told.append((label, done, total))

    monkeypatch.setattr(ranks, "watch_progress", looking)
    words = ["large", "grid:20x10", "--iterations", "25", "--on", "mpi:1"]
    monkeypatch.setattr(sys, "argv", ["veilsum", *words])
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    assert told == [("iterations", done, 25) for done in (10, 20, 25)]
    assert found.stderr == ""


def test_ranks_tell_only_if_somebody_started_them_who_looks(monkeypatch):
    first, second = (CommandRank(SimpleNamespace(rank=rank)) for rank in (0, 1))
    assert (first.progress, second.progress, CommandRank().progress) == (
        None,
        False,
        None,
    )
    monkeypatch.setenv("VEILSUM_WATCHED", "1")
    assert callable(first.progress)
    assert (second.progress, CommandRank().progress) == (False, None)


@pytest.mark.parametrize(
    ("said", "seconds"), [("Error: rank 1 of 2: it is alone", 50), ("a warning", 1)]
)
def test_a_launcher_that_waits_for_lost_hosts_is_ended(
    said, seconds, monkeypatch, tmp_path
):
    """As mpiexec does when the network is cut: it hears nothing, whatever it is told.

    What it has started holds its output still longer. It is not ended over less than a
    rank's error.
    """
    fake = tmp_path / "mpiexec"
    lines = ["trap '' TERM", f"echo '{said}' >&2", f"sleep 5 & sleep {seconds}; exit 7"]
    fake.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    fake.chmod(0o755)
    monkeypatch.setattr(ranks, "find_mpi_launcher", lambda: str(fake))
    monkeypatch.setattr(ranks, "GRACE", 0.2)
    monkeypatch.setattr(ranks, "SECONDS", 0.2)
    words = ["solve", str(scenario(tmp_path)), "--on", "mpi:2"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 1
    assert said in found.stderr
    assert ("mpiexec ended with 7" in found.stderr) == (said == "a warning")


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
    assert "(mpiexec ended with 137). A rank" in lost_rank_message(
        4, 137, "", LauncherOutput()
    )
    found = lost_rank_message(4, 1, "", LauncherOutput())
    assert found == (
        "mpiexec ended with 1 before any of 4 ranks had started. It gave no reason"
    )
    assert "memory" not in lost_rank_message(4, 1, "", LauncherOutput(begun=True))


def test_the_first_five_lines_of_a_launcher_are_quoted(monkeypatch, tmp_path):
    lines = ["one", "two", "----", "three", "four", "five", "six", "seven"]
    launcher = tmp_path / "mpiexec"
    commands = [f"echo {line} >&2" for line in lines]
    launcher.write_text("\n".join(["#!/bin/sh", *commands, "exit 1", ""]))
    launcher.chmod(0o755)
    monkeypatch.setattr(ranks, "find_mpi_launcher", lambda: str(launcher))
    found = CliRunner().invoke(app, ["solve", str(scenario(tmp_path)), "--on", "mpi:2"])
    reason = found.stderr.partition("Its reason: ")[2]
    assert reason.split() == ["one", "two", "three", "four", "five"]


AS_ROOT = """\
--------------------------------------------------------------------------
mpirun has detected an attempt to run as root.

Running as root is *strongly* discouraged as any mistake (e.g., in
defining TMPDIR) or bug can result in catastrophic damage to the OS
file system, leaving your system in an unusable state.
--------------------------------------------------------------------------
"""


def test_a_launcher_that_refuses_is_quoted(monkeypatch, tmp_path):
    """Open MPI's words to root; ended with 1 before any rank."""
    launcher = tmp_path / "mpiexec"
    launcher.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{AS_ROOT}END\nexit 1\n")
    launcher.chmod(0o755)
    monkeypatch.setattr(ranks, "find_mpi_launcher", lambda: str(launcher))
    words = ["solve", str(scenario(tmp_path)), "--on", "mpi:2"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 1
    said = " ".join(found.stderr.split("Error: ")[1].split())
    assert "before any of 2 ranks had started. Its reason: mpirun has detected" in said
    assert "attempt to run as root" in said
    assert "memory" not in said
