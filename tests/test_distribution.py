"""What is handed out: the same bytes from the same commit, and what they consist of."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = ROOT / "requirements" / "run.txt"


def built(tree: Path, out: Path, *, date: str = "1700000000") -> dict[str, str]:
    """Build wheel and source archive; return the hash of each."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out)],
        cwd=tree,
        env={**os.environ, "SOURCE_DATE_EPOCH": date},
        check=True,
        capture_output=True,
    )
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.iterdir()
    }


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Two copies of what a build reads, that differ in place, dates and modes."""
    made = []
    for place, umask, age in [("here", 0o022, 0), ("far/away", 0o077, 10**8)]:
        tree = tmp_path_factory.mktemp("copies") / place
        before = os.umask(umask)
        try:
            for name in ("src", "docs", "requirements"):
                shutil.copytree(
                    ROOT / name,
                    tree / name,
                    ignore=shutil.ignore_patterns("__pycache__"),
                    copy_function=shutil.copyfile,
                )
            for path in (*ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "LICENSE"):
                shutil.copyfile(path, tree / path.name)
        finally:
            os.umask(before)
        for path in tree.rglob("*"):
            os.utime(path, (1.6e9 + age, 1.6e9 + age))
        made.append(tree)
    return made


@pytest.fixture(scope="module")
def first_build(copies, tmp_path_factory):
    return built(copies[0], tmp_path_factory.mktemp("built"))


def test_a_build_depends_on_nothing_but_what_is_built(copies, first_build, tmp_path):
    assert first_build == built(copies[1], tmp_path)
    assert sorted(name.rsplit(".", 1)[1] for name in first_build) == ["gz", "whl"]


def test_another_date_gives_other_bytes(copies, first_build, tmp_path):
    """The twin: the comparison sees what differs."""
    assert first_build != built(copies[0], tmp_path, date="1700000100")


def pinned() -> set[tuple[str, str]]:
    """Return name and version of every line of the lock file."""
    found = re.findall(r"^([a-z0-9.-]+)==([^ ;\\]+)", LOCK.read_text(), re.MULTILINE)
    return set(found)


def test_the_list_of_parts_is_the_lock_file(tmp_path):
    out = tmp_path / "parts.json"
    command = [
        *(sys.executable, "-m", "cyclonedx_py", "requirements", str(LOCK)),
        *("--pyproject", str(ROOT / "pyproject.toml"), "--short-PURLs"),
        *("--output-reproducible", "-o", str(out)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    document = json.loads(out.read_text())
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "veilsum"
    parts = {(part["name"], part["version"]) for part in document["components"]}
    assert parts == pinned()
    assert len(parts) > 20


def test_how_to_cite_says_what_the_package_says():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["cff-version"] == "1.2.0"
    assert cited["version"] == PROJECT["version"]
    assert cited["license"] == PROJECT["license"]
    assert cited["keywords"] == PROJECT["keywords"]
    # What the format requires beside these.
    assert {"message", "title", "authors"} <= set(cited)
    paper = cited["references"][0]
    names = [author["family-names"] for author in paper["authors"]]
    assert names == ["Gupta", "Gade", "Chopra", "Vaidya"]
