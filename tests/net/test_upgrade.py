"""Members whose versions differ: a run together, or a sentence that says so.

The other version is the wheel of an earlier commit, built here from the history of the
repository; a copy without history has none, and leaves these out.
"""

import json
import os
import subprocess
import sys
import threading
import tomllib
import zipfile
from pathlib import Path

import pytest
import tomli_w

from net.village import HOST, free_port

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "average.toml"
NEEDED = ("README.md", "LICENSE", "pyproject.toml")
NAMES = ("alder", "birch", "cedar", "elm", "fir")
# The first commit in which Ready commits to the masked vector, and the last one before
# that: it speaks an earlier protocol.
BEFORE = {"same protocol": "af4c3d5b", "earlier protocol": "6525615"}

pytestmark = pytest.mark.slow


def wheel_of(commit, folder):
    """Build an earlier commit's wheel; return where its package is."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    packed = subprocess.run(
        ["git", "-C", ROOT, "archive", commit, "src", *NEEDED],
        capture_output=True,
    )
    if packed.returncode != 0:
        pytest.skip(f"the history has no {commit}")
    subprocess.run(["tar", "x", "-C", tree], input=packed.stdout, check=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(build, cwd=tree, check=True, capture_output=True)
    (wheel,) = (tree / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "package")
    return folder / "package"


def veilsum(*words, package=None):
    """Start a command, of this version or of another package."""
    path = ROOT / "src" if package is None else package
    code = "import veilsum.cli; veilsum.cli.main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(process):
    out, error = process.communicate(timeout=120)
    return process.returncode, out, error


@pytest.fixture
def consortium(tmp_path):
    words = []
    for name in NAMES:
        code, _, error = done(
            veilsum("identity", "new", name, "--folder", tmp_path / name)
        )
        assert code == 0, error
        words += ["--certificate", tmp_path / name / f"{name}.crt"]
        words += ["--address", f"{name}={HOST}:{free_port()}"]
    file = tmp_path / "study.veil"
    code, _, error = done(veilsum("consortium", "new", EXAMPLE, "-o", file, *words))
    assert code == 0, error
    return file


def joining(consortium, package):
    """Have all join, the first with another version; return their processes."""
    folder = consortium.parent
    targets = tomllib.loads(EXAMPLE.read_text())["cost"]["targets"]
    started = {}
    for name, target in zip(NAMES, targets, strict=True):
        own = folder / name / "mine.toml"
        own.write_text(tomli_w.dumps({"targets": target}))
        key = folder / name / f"{name}.key"
        started[name] = veilsum(
            *("join", consortium, "--identity", key, "--cost", own, "--yes", "--json"),
            *("--out", folder / name / "out"),
            package=package if name == NAMES[0] else None,
        )
    return started


def test_one_member_of_the_same_protocol_runs_with_the_others(consortium, tmp_path):
    package = wheel_of(BEFORE["same protocol"], tmp_path / "before")
    started = joining(consortium, package)
    ended = {name: done(process) for name, process in started.items()}
    assert all(code == 0 for code, _, _ in ended.values()), ended
    answers = {json.loads(out)["seal"] for _, out, _ in ended.values()}
    assert len(answers) == 1


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_member_of_an_earlier_protocol_and_the_others_are_told(
    name, consortium, tmp_path
):
    """They wait for it all the same, until the meeting is over: it may be mended."""
    package = wheel_of(BEFORE["earlier protocol"], tmp_path / "before")
    started = joining(consortium, package)
    late = threading.Timer(120, started[name].kill)
    late.start()
    spoken = (4, 3) if name == NAMES[0] else (3, 4)
    told = "it speaks version {} of the protocol, this party {}".format(*spoken)
    try:
        assert any(told in line for line in started[name].stderr)
    finally:
        late.cancel()
        for process in started.values():
            process.kill()
            process.communicate()
