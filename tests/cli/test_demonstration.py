"""The demonstration does what it says, and ends with 1 when it could not."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
# By the clock on the wall: what takes so long never ends.
LONGEST = 600
UNHURT = (
    "import sys; from pathlib import Path; import hospitals;"
    "hospitals.VICTIM = 'nobody';"
    "sys.exit(hospitals.main(Path(sys.argv[1])))"
)


def shown(*command):
    return subprocess.run(
        [sys.executable, *command],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


def test_five_hospitals_of_which_one_is_killed(tmp_path):
    done = shown("hospitals.py", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hospital-3: KILLED (SIGKILL) while" in done.stdout
    assert "the same at all 5: yes" in done.stdout
    assert "NOT ok" not in done.stdout
    assert "any two hospitals that collude: private" in done.stdout
    report = tmp_path / "out" / "report.html"
    assert done.stdout.splitlines()[-1] == f"what came of it, on one page: {report}"
    assert "checks of what was signed hold." in report.read_text("utf-8")
    assert (tmp_path / "out" / "coefficients.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_demonstration_without_its_killing_has_failed(tmp_path):
    """The twin: all else is in order."""
    done = shown("-c", UNHURT, str(tmp_path / "out"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the same at all 5: yes" in done.stdout
    assert "nobody was to be killed, and had ended before" in done.stdout


@pytest.mark.slow
def test_five_hospitals_over_a_relay_that_is_killed(tmp_path):
    done = shown("relayed.py", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hospital-3 has met hospital-5: ws://127.0.0.1:" in done.stdout
    assert "the relay: KILLED (SIGKILL)" in done.stdout
    assert "the same to the last bit: yes" in done.stdout
