"""Each extra alone: what is public works, or says in a sentence what is missing."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Data sets and packages that examples compare with: no name of ours needs them.
EXTRAS = sorted(set(PROJECT["optional-dependencies"]) - {"examples", "all"})
WORKS = {
    "": ("solve()", "guarantee()", "worst_case()", "plan()", "examine()"),
    "cli": ("veilsum solve", "veilsum fit", "veilsum plan", "veilsum privacy"),
    "plan": ("allocate_noise()",),
    "secure": ("sum()", "mean()", "dispatch()"),
    "sklearn": ("PrivateLinearRegression",),
    "data,secure": ("fit()", "statistics()"),
}
CHOICES = ["", *EXTRAS, "data,secure"]


def test_with_one_extra_alone_everything_works_or_names_what_is_missing():
    run = [sys.executable, str(ROOT / "tests" / "extras_alone.py"), *CHOICES]
    ended = subprocess.run(run, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    for extras, line in zip(CHOICES, ended.stdout.splitlines(), strict=True):
        found = json.loads(line)
        broken = {name: said for name, said in found.items() if "BROKEN" in said}
        assert not broken, extras
        for name, said in found.items():
            if said.startswith("sentence"):
                assert "pip install '.[" in said, (extras, name)
        for base in {"", extras}:
            for name in WORKS.get(base, ()):
                assert found[name] == "works", (extras, name, found[name])


def test_a_package_that_is_not_asked_for_is_noticed():
    """The twin: what hides other packages hides those that the base needs, too."""
    code = "import extras_alone as e; e.hide_all_but(set())\nimport veilsum"
    run = [sys.executable, "-c", code]
    ended = subprocess.run(run, cwd=ROOT / "tests", capture_output=True, text=True)
    assert "No module named 'lazy_loader'" in ended.stderr
