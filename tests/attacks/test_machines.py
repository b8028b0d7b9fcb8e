"""Requests and totals do not depend on the processor, as far as one of them can show.

The same jobs in other processes, where products of matrices are carried out by kernels
for other processors, with one thread or two, and numpy uses plainer instructions.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

SCRIPT = Path(__file__).with_name("one_machine.py")
# Kernels that every processor of the kind can run.
KERNELS = {
    "aarch64": ("ARMV8", "CORTEXA57"),
    "arm64": ("ARMV8",),
    "x86_64": ("Prescott", "Nehalem"),
    "AMD64": ("Prescott", "Nehalem"),
}
PLAIN = " ".join(one for one in __cpu_dispatch__ if __cpu_features__.get(one))


def found_with(**changes):
    """What the jobs come to in a process with these settings."""
    told = subprocess.run(
        [sys.executable, SCRIPT],
        env={**os.environ, **changes},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(told.stdout)


@pytest.mark.slow
def test_other_instructions_give_the_same_bits():
    here = found_with()
    assert all(len(one["requests"]) > 1 for one in here.values())
    others = [{"OPENBLAS_CORETYPE": one} for one in KERNELS.get(platform.machine(), ())]
    others.append({"OPENBLAS_NUM_THREADS": "1", "NPY_DISABLE_CPU_FEATURES": PLAIN})
    for changes in others:
        assert found_with(**changes) == here, changes
