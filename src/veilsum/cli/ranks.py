"""One command carried out by several ranks of MPI, on this computer or on many hosts.

`--on mpi:N` starts the same command N times with `mpiexec` and says how it ended.
`--on mpi` is for whoever calls `mpiexec` themselves: every rank does the same work on
the same files, has its own rows of the graph, and the first one speaks for all.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import randbits
from tempfile import TemporaryFile
from threading import Thread, Timer
from typing import Any

import click

from veilsum.cli.app import CommandFailure
from veilsum.cli.output import message_on_screen
from veilsum.errors import InvalidInputError, MissingExtraError, VeilsumError
from veilsum.progress import Progress, Report, staged_progress, watch_progress
from veilsum.scale import ONE_THREAD

ranks_option = click.option(
    "--on",
    "where",
    metavar="mpi[:N]",
    help="Cut the graph into parts: mpi:4 starts four processes of MPI, mpi is for a "
    "command that mpiexec starts.",
)
# More than this in one job is a typing error.
MOST_RANKS = 100_000
# Whoever fails by itself waits so long for others to fail alike.
SECONDS = 2.0
# Seconds in which a launcher reads the last line of a rank.
PASSED_ON = 0.5
# Lines of a launcher's own words that a sentence quotes.
MOST_WORDS = 5
# How a launcher ends whose rank the system killed: by the shell's number and others.
KILLED = (9, 137, -9)
# Seconds until a launcher that was told to end its ranks is ended itself.
GRACE = 10.0
# Set for ranks whose starter has somebody who watches; and how the first rank, which
# has no screen of its own, then says how far it is.
WATCHED, TOLD = "VEILSUM_WATCHED", "veilsum: done {} of {}"
# Set for ranks that another process started; and how the first rank reports its start.
LAUNCHED, BEGUN = "VEILSUM_LAUNCHED", "veilsum: ranks have started"


@dataclass(frozen=True)
class CommandRank:
    """This process among those that carry a command out.

    Attributes:
        comm: how ranks reach each other; None where there is one process only.
    """

    comm: Any = None

    @property
    def speaks(self) -> bool:
        """Whether it prints and writes what all have found."""
        return self.comm is None or self.comm.rank == 0

    @property
    def engine(self) -> str | None:
        """The engine that ranks have; None for what was asked for."""
        return None if self.comm is None else "mpi"

    @property
    def progress(self) -> Progress:
        """Whom to tell how far it is: one who looks, or who started the ranks."""
        if not self.speaks:
            return False
        return (
            _print_rank_progress
            if self.comm is not None and WATCHED in os.environ
            else None
        )

    def seed(self, given: int | None) -> int | None:
        """Return a seed for all ranks: the one given, or a fresh one."""
        if self.comm is None or given is not None:
            return given
        import numpy as np

        fresh = np.array([randbits(62)])
        self.comm.Bcast(fresh)
        return int(fresh[0])


@contextmanager
def command_carried_out(where: str | None) -> Iterator[CommandRank]:
    """Do something alone, or as one of several ranks; start them if asked to.

    What all ranks fail over is said once. What one fails over alone ends them all: the
    others would wait for it for ever.

    Raises:
        Failure: a rank ended before the others, or the launcher started none; the
            message gives the reason as far as it is known.
    """
    if where is None:
        yield CommandRank()
        return
    asked = re.fullmatch(r"mpi(?::(\d{1,6}))?", where)
    if asked is None or not 1 <= int(asked[1] or 1) <= MOST_RANKS:
        raise click.UsageError(
            f"--on takes mpi:N with 1 to {MOST_RANKS:,} ranks, or mpi; found {where!r}"
        )
    if asked[1] is not None:
        raise click.exceptions.Exit(_launch_command_as_ranks(where, int(asked[1])))
    from veilsum.minimise.engines.mpi import all_mpi_ranks

    comm = all_mpi_ranks()
    if comm.rank == 0 and LAUNCHED in os.environ:
        click.echo(BEGUN, err=True)
    ending = comm.Dup()
    try:
        yield CommandRank(comm)
    except Exception as error:
        ours = isinstance(error, VeilsumError | click.ClickException)
        if not _all_command_ranks_arrive(ending):
            said = str(error) if ours else f"{type(error).__name__}: {error}"
            said = message_on_screen(f"Error: rank {comm.rank} of {comm.size}: {said}")
            click.echo(said, err=True)
            # The launcher passes lines on, and drops those that it has not read.
            time.sleep(PASSED_ON)
            comm.Abort(1)
            # MPICH comes back from that where it cannot tell the other hosts.
            os._exit(1)
        if comm.rank:
            # The first one says it; all end alike.
            mend = isinstance(error, InvalidInputError | click.UsageError)
            raise click.exceptions.Exit(2 if mend else 1) from None
        raise


def _print_rank_progress(done: int, total: int) -> None:
    click.echo(TOLD.format(done, total), err=True)


def find_mpi_launcher() -> str:
    """Return the mpiexec beside this Python, or else the first on the path."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise MissingExtraError(
            "ranks are started by mpiexec, which is not on this computer: load your "
            "cluster's MPI, or pip install mpich",
            code="missing-mpiexec",
        )
    return found


def _launch_command_as_ranks(where: str, count: int) -> int:
    """Run this very command as so many ranks; return how it ended."""
    words = [
        word.removesuffix(f":{count}") if word in {where, f"--on={where}"} else word
        for word in sys.argv[1:]
    ]
    command = [
        find_mpi_launcher(),
        "-n",
        str(count),
        sys.executable,
        "-m",
        "veilsum",
        *words,
    ]
    with (
        TemporaryFile("w+", encoding="utf-8", errors="replace") as printed,
        watch_progress() as opening,
    ):
        report = staged_progress(opening, "iterations")
        names = (LAUNCHED, *((WATCHED,) if report else ()))
        settings = ONE_THREAD | dict.fromkeys(names, "1")
        job = subprocess.Popen(  # noqa: S603 - this command, as it was typed
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=settings | os.environ,
        )
        heard = _repeat_launcher_output(job, report)
        printed.seek(0)
        output = printed.read()
    if job.returncode == 0:
        click.echo(output, nl=False)
        return 0
    if heard.explained:
        # Whatever else the launcher has to say, a rank has said more.
        return job.returncode if job.returncode in {1, 2} else 1
    raise CommandFailure(lost_rank_message(count, job.returncode, output, heard))


@dataclass
class LauncherOutput:
    """The output of a launcher and its ranks on their standard error.

    Attributes:
        begun: whether the first rank reported its start.
        stopped: whether somebody ended the command, and so its ranks.
        explained: whether a rank gave the reason of its end.
        words: the first lines that no rank wrote on purpose.
    """

    begun: bool = False
    stopped: bool = False
    explained: bool = False
    words: list[str] = field(default_factory=list)


def _repeat_launcher_output(
    job: subprocess.Popen[str], report: Report | None
) -> LauncherOutput:
    """Repeat the output of ranks until they have ended, and return it in brief.

    Once one did, or somebody ends this, the launcher has a while to end the others: it
    would wait for ever for hosts that are cut off.
    """
    assert job.stderr is not None
    lines, heard = job.stderr, LauncherOutput()
    told = re.compile(TOLD.format(r"(\d+)", r"(\d+)"))

    def hurry() -> None:
        late = Timer(GRACE, job.kill)
        late.daemon = True
        late.start()

    def end() -> None:
        heard.stopped = True
        job.terminate()
        hurry()

    def repeat() -> None:
        for line in lines:
            if report is not None and (far := told.fullmatch(line.strip())):
                report(int(far[1]), int(far[2]))
                continue
            if line.strip() == BEGUN:
                heard.begun = True
                continue
            click.echo(line, nl=False, err=True)
            if line.startswith("Error: "):
                heard.explained = True
                hurry()
            elif len(heard.words) < MOST_WORDS and re.search(r"\w", line):
                heard.words.append(line.strip())
        lines.close()

    # Whoever ends this process means its ranks: they would go on.
    before = signal.signal(signal.SIGTERM, lambda *_: end())
    # Beside this: what the launcher started may hold its end longer than it lives.
    repeating = Thread(target=repeat, daemon=True)
    repeating.start()
    try:
        job.wait()
    except KeyboardInterrupt:
        end()
        job.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    repeating.join(SECONDS)
    return heard


def lost_rank_message(count: int, code: int, output: str, heard: LauncherOutput) -> str:
    """Return why there is no result, as far as the launcher knows it."""
    # Not its process or host: MPICH may name another one, which it ended itself.
    printed = "\n".join([output, *heard.words])
    known = re.search(r"[A-Z]\w+ \(signal \d+\)|signal \d+ \([A-Z]\w+\)", printed)
    ended = f"mpiexec ended with {code}{f', {known[0]}' if known else ''}"
    if heard.stopped:
        return (
            f"the command was ended, and its {count} ranks with it, without a result "
            f"({ended})"
        )
    killed = code in KILLED or (known is not None and "signal 9" in known[0])
    if not (heard.begun or killed):
        words = " ".join(heard.words)
        return f"{ended} before any of {count} ranks had started. " + (
            f"Its reason: {words}" if words else "It gave no reason"
        )
    found = (
        f"one of {count} ranks ended before the others, and the whole job with it, "
        f"without a result ({ended})"
    )
    if not killed:
        return found
    return (
        f"{found}. A rank that the system killed has mostly run out of memory: use "
        "more hosts, or fewer ranks on each, and start the command again"
    )


def _all_command_ranks_arrive(comm: Any) -> bool:
    """Say whether all ranks come here, within a while."""
    here, until = comm.Ibarrier(), time.monotonic() + SECONDS
    while not here.Test():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
