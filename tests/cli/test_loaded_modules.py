"""What a command loads: packages that it does not need cost its user seconds."""

from __future__ import annotations

import subprocess
import sys

import pytest

ROAD = """
import sys
from veilsum.cli import main
sys.argv = ["veilsum", *{words!r}.split()]
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
print({{name for name in {heavy!r} if name in sys.modules}})
"""
HEAVY = (
    "sklearn",
    "lifelines",
    "statsmodels",
    "numba",
    "networkx",
    "scipy.stats",
    "jax",
)


@pytest.mark.parametrize("words", ["fit examples/diabetes.toml", "--help"])
def test_a_small_fit_loads_no_package_that_it_does_not_need(words):
    code = ROAD.format(words=words, heavy=HEAVY)
    run = [sys.executable, "-c", code]
    found = subprocess.run(run, check=True, capture_output=True, text=True)
    assert found.stdout.splitlines()[-1] == "set()"
