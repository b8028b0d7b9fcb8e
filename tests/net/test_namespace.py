"""Runs in a network namespace of their own, with the kernel's delays and losses."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

AVERAGE = Path(__file__).parents[2] / "examples" / "average.toml"
LOOPBACK, NETEM = "ip link set lo up", "tc qdisc add dev lo root netem"


def in_namespace(setup, *command):
    """Run a command where only the setup's network exists."""
    script = f'set -e; {setup}; exec "$@"'
    return subprocess.run(
        ["unshare", "-n", "sh", "-c", script, "sh", *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def need(setup):
    """Skip, with the reason, where this computer cannot do that."""
    tools = ("unshare", "ip", "tc")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    tried = in_namespace(setup, "true")
    if tried.returncode:
        pytest.skip(f"{setup!r} does not work here: {tried.stderr.strip()}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "setup",
    [
        LOOPBACK,
        f"{LOOPBACK}; {NETEM} delay 250ms 50ms loss 2%",
        f"{LOOPBACK}; {NETEM} delay 50ms reorder 25% duplicate 5%",
    ],
    ids=["plain", "delay-and-loss", "reordering"],
)
def test_a_run_ends_alike_on_such_a_network(setup):
    need(setup)
    up = (sys.executable, "-m", "veilsum", "up", str(AVERAGE), "--json")
    found = in_namespace(setup, *up)
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert result["verified"]
    assert result["minimiser"] == pytest.approx([13.9, 207.0, 410.1], abs=1e-6)
