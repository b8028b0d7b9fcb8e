"""Install other packages to compare with, each in an environment of its own.

    python benchmarks/peers.py FOLDER                   # install, then measure
    python benchmarks/peers.py FOLDER --only-install
    python benchmarks/peers.py FOLDER --python /usr/bin/python3.13
    python benchmarks/peers.py FOLDER --table           # in Markdown, for the docs
    veilsum bench --peers FOLDER                        # measure again

The folder must not be in this repository. Whatever is in it already is not installed
again; what cannot be installed is left out, and the reason is printed with the table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "benchmarks" / "peers"


@dataclass(frozen=True)
class Package:
    """What to install, and how to run it.

    Attributes:
        requirements: for pip.
        script: that runs it.
        faster: how many times as fast as it we want to be.
        python: the oldest version that it works with.
        processes: of MPI, one for each agent; 0 where agents are not processes.
        agents: how many it is given.
        iterations: how many it is given.
    """

    requirements: tuple[str, ...]
    script: str
    faster: float
    python: tuple[int, int] = (3, 11)
    processes: int = 0
    agents: int = 100
    iterations: int = 1_000

    def command(self, environment: Path) -> list[str]:
        """Return the words that run the script."""
        words = [str(environment / "bin" / "python"), str(SCRIPTS / self.script)]
        if not self.processes:
            return words
        start = str(environment / "bin" / "mpiexec")
        return [start, "-n", str(self.processes), *words]


PACKAGES = {
    "tvopt": Package(("tvopt==0.2.7",), "peer_tvopt.py", faster=15),
    "decent-bench": Package(
        ("decent-bench==0.3.0",), "peer_decent_bench.py", faster=50, python=(3, 13)
    ),
    # Its agents are processes that wait for each other in a loop: a few, not for long.
    "disropt": Package(
        ("disropt==0.1.9", "mpich", "mpi4py"),
        "peer_disropt.py",
        faster=500,
        processes=8,
        agents=8,
        iterations=50,
    ),
}


class CannotInstallError(Exception):
    """The reason is the message."""


def install(name: str, folder: Path, given: str | None) -> None:
    """Make a package's environment and its peer.json; write down why if it fails."""
    package, environment = PACKAGES[name], folder / name
    described = environment / "peer.json"
    if described.exists() and "left_out" not in json.loads(described.read_text()):
        return
    print(f"installing {name}", file=sys.stderr, flush=True)
    environment.mkdir(parents=True, exist_ok=True)
    try:
        python = find_python(package.python, given)
        call([python, "-m", "venv", "--clear", str(environment)])
        pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        call([*pip, *package.requirements])
        found: dict[str, object] = {
            "command": package.command(environment),
            "agents": package.agents,
            "iterations": package.iterations,
            "faster": package.faster,
        }
    except CannotInstallError as error:
        found = {"left_out": str(error)}
    described.write_text(json.dumps(found, indent=2) + "\n")


def find_python(oldest: tuple[int, int], given: str | None) -> str:
    """Return an interpreter that is new enough: this one, or any that can be found."""
    for candidate in candidates(oldest, given):
        if version_of(candidate) >= oldest:
            return candidate
    version = ".".join(map(str, oldest))
    raise CannotInstallError(
        f"it needs Python {version} or later, and none was found; name one by --python"
    )


def candidates(oldest: tuple[int, int], given: str | None) -> Iterator[str]:
    if given is not None:
        yield given
    yield sys.executable
    for minor in range(oldest[1], oldest[1] + 5):
        found = shutil.which(f"python3.{minor}")
        if found:
            yield found
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(home.glob("versions/3.*/bin/python")))
    uv = shutil.which("uv")
    if uv:
        version = ".".join(map(str, oldest))
        words = [uv, "python", "find", f">={version}"]
        yield from subprocess.run(
            words, check=False, capture_output=True, text=True
        ).stdout.splitlines()


def version_of(python: str) -> tuple[int, int]:
    """Return an interpreter's version, (0, 0) if it does not run."""
    words = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        run = subprocess.run(words, check=True, capture_output=True, text=True)
        major, minor = map(int, run.stdout.split())
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0, 0
    return major, minor


def call(words: list[str]) -> None:
    run = subprocess.run(words, check=False, capture_output=True, text=True)
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        raise CannotInstallError(f"{' '.join(words[1:4])} ... said: {lines[-1]}")


ENGINE_HEADS = (
    *("Method, costs", "Agents x dimension", "Engine", "us", "Pass", "Passes"),
    *("scipy loop", "Faster", "numpy loop", "Faster", "Wanted"),
)
PEER_HEADS = (
    *("Method", "Package", "Agents", "Iterations", "Wall us", "Processor us"),
    *("Slower", "by processor", "Wanted", "Difference", "Distance"),
)


def markdown(found: dict[str, Any]) -> Iterator[str]:
    """Yield a document of `veilsum bench --json` as text and tables for the docs."""
    yield f"`{found['command']}`: {json.dumps(found['machine'])}"
    yield from table(ENGINE_HEADS, map(engine_cells, found["engines"]))
    yield from table(PEER_HEADS, map(peer_cells, found["peers"]["rows"]))
    for one in found["peers"]["left_out"]:
        yield f"Left out: {one['name']}, {one['reason']}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield ""
    for cells in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"
    yield ""


def engine_cells(line: dict[str, Any]) -> Sequence[str]:
    return (
        f"{line['method']}, {line['costs']}",
        f"{line['agents']:,} x {line['dim']}",
        f"`{line['engine']}`{', chosen' if line['chosen'] else ''}",
        figure(line["microseconds"]),
        figure(line["pass_microseconds"]),
        figure(line["passes"]),
        figure(line["scipy_microseconds"]),
        figure(line["faster_than_scipy"]),
        figure(line["numpy_microseconds"]),
        figure(line["faster_than_numpy"]),
        line["wanted"] if line["chosen"] else "",
    )


def peer_cells(row: dict[str, Any]) -> Sequence[str]:
    return (
        row["method"],
        f"{row['name']} {row['version']}",
        f"{row['agents']:,}",
        f"{row['iterations']:,}",
        figure(row["wall"]),
        figure(row["processor"]),
        figure(row["slower"]),
        figure(row["slower_processor"]),
        figure(row["wanted"]),
        "" if row["difference"] is None else f"{row['difference']:.0e}",
        f"{row['distance']:.0e}",
    )


def figure(value: float | None) -> str:
    """Return three digits, without an exponent."""
    if value is None:
        return ""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--python", help="for packages that need a newer one")
    options.add_argument("--only-install", action="store_true")
    options.add_argument("--quick", action="store_true")
    options.add_argument("--table", action="store_true", help="print Markdown")
    given = options.parse_args()
    folder = given.folder.resolve()
    if folder.is_relative_to(ROOT):
        options.error(f"{folder} is in the repository: choose a folder outside of it")
    for name in PACKAGES:
        install(name, folder, given.python)
    if not given.only_install:
        measure(folder, quick=given.quick, table=given.table)


def measure(folder: Path, *, quick: bool, table: bool) -> None:
    """Run the command; its answer is shown as it is, or as Markdown."""
    words = ["bench", "--peers", str(folder), *(["--quick"] * quick)]
    run = [sys.executable, "-c", "from veilsum.cli import main; main()", *words]
    if not table:
        subprocess.run(run, check=True)
        return
    answer = subprocess.run([*run, "--json"], check=True, stdout=subprocess.PIPE)
    print("\n".join(markdown(json.loads(answer.stdout))))


if __name__ == "__main__":
    main()
