"""Optional packages: without one, a sentence names the extra to install."""

import subprocess
import sys

import pytest


def run_without(package, code):
    hide = f"import sys; sys.modules[{package!r}] = None\n"
    words = [sys.executable, "-c", hide + code]
    return subprocess.run(words, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("package", ["click", "rich"])
def test_the_command_line_names_its_extra(package):
    code = (
        "import sys; sys.argv = ['veilsum', 'privacy', '--graph', 'ring:3',"
        " '--sigma', '1']\nfrom veilsum.cli import main; main()"
    )
    found = run_without(package, code)
    assert found.returncode != 0
    assert "veilsum[cli]" in found.stderr
    assert "Traceback" not in found.stderr


def test_figures_name_their_extra():
    code = (
        "from veilsum.report.figures import _figure\n"
        "from veilsum.errors import MissingExtraError\n"
        "try:\n    _figure(1, 1, 1)\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    found = run_without("matplotlib.figure", code)
    assert "veilsum[report]" in found.stdout


def test_the_library_works_without_any_extra():
    code = (
        "for name in ('click', 'rich', 'matplotlib'):\n    sys.modules[name] = None\n"
        "import veilsum as vs\n"
        "topology = vs.Topology.family('complete:3')\n"
        "print(vs.guarantee(topology, sigma=1.0, corrupted=['2']).status)"
    )
    assert run_without("click", code).stdout.strip() == "private"
