"""Optional packages: without one, a sentence names the extra to install."""

import subprocess
import sys
from pathlib import Path

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


SOLVE = (
    "import veilsum as vs\n"
    "costs = [vs.Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0)]\n"
    "try:\n    run = vs.solve(costs, vs.Topology.family('complete:3'),"
    " domain=vs.Box(-9, 9, dim=1), law='uniform', seed={seed},"
    " settings=vs.Settings(method='one-shot'))\n"
    "    print(run.minimiser.round(6).tolist())\n"
    "except vs.MissingExtraError as error:\n    print(error)"
)


def test_masks_from_the_system_name_their_extra():
    found = run_without("cryptography", SOLVE.format(seed=None))
    assert "veilsum[secure]" in found.stdout, found.stderr


def test_seeded_integer_masks_need_no_extra():
    found = run_without("cryptography", SOLVE.format(seed=0))
    assert found.stdout.strip() == "[3.0]", found.stderr


def test_the_command_line_names_the_extra_of_fresh_masks(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "average.toml"
    path = tmp_path / "fresh.toml"
    path.write_text(example.read_text().replace("[simulation]\nseed = 0\n", ""))
    code = (
        f"import sys; sys.argv = ['veilsum', 'solve', {str(path)!r}]\n"
        "from veilsum.cli import main; main()"
    )
    found = run_without("cryptography", code)
    assert found.returncode == 1
    assert "veilsum[secure]" in found.stderr
    assert "Traceback" not in found.stderr


def test_the_library_works_without_any_extra():
    code = (
        "for name in ('click', 'rich', 'matplotlib', 'cryptography'):\n"
        "    sys.modules[name] = None\n"
        "import veilsum as vs\n"
        "topology = vs.Topology.family('complete:3')\n"
        "print(vs.guarantee(topology, sigma=1.0, corrupted=['2']).status)"
    )
    assert run_without("click", code).stdout.strip() == "private"
