"""Every benchmark runs with --smoke, as a user would start it; no time is looked at."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
# Parts of others, or started by others; peers.py has tests of its own.
PARTS = {"clocks", "workloads", "mpyc_sum", "peers"}
WORDS = {"planner_page": ["--no-browser"]}
ALL = sorted(one.stem for one in FOLDER.glob("*.py") if one.stem not in PARTS)

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.mark.parametrize("name", ALL)
def test_a_benchmark_runs_in_its_smallest_size(name, monkeypatch, capsys):
    path = FOLDER / f"{name}.py"
    monkeypatch.setenv("VEILSUM_BENCHMARKS_SMOKE", "1")
    monkeypatch.setattr(sys, "argv", [str(path), "--smoke", *WORDS.get(name, [])])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()
