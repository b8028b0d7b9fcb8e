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
        "import sys; sys.argv = ['veilsum', 'solve', 'examples/average.toml']\n"
        "from veilsum.cli import main; main()"
    )
    found = run_without(package, code)
    assert found.returncode != 0
    assert ".[cli]" in found.stderr
    assert "Traceback" not in found.stderr


def test_figures_name_their_extra():
    code = (
        "from veilsum.report.figures import figure_panels\n"
        "from veilsum.errors import MissingExtraError\n"
        "try:\n    figure_panels(1.0)\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    found = run_without("matplotlib.figure", code)
    assert ".[report]" in found.stdout


def test_figures_do_without_the_packages_of_real_parties():
    code = (
        "import sys\nimport veilsum as vs\n"
        "from veilsum.minimise import Box, Cost, Settings, sweep\n"
        "costs = [Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0)]\n"
        "found = sweep(costs, graphs='complete:3', sigmas=1.0,"
        " domain=Box(-9, 9, dim=1), settings=Settings(iterations=5))\n"
        "print(len(found.plot().axes), 'veilsum.net.sockets' in sys.modules)\n"
        "import veilsum.net.sockets"
    )
    found = run_without("websockets", code)
    assert found.stdout.split() == ["1", "False"], found.stderr
    assert ".[net]" in found.stderr  # of what does need them


def test_queries_name_their_extra(tmp_path):
    (tmp_path / "a.db").write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 4)
    code = (
        "import veilsum as vs\n"
        f"try:\n    vs.read_table({str(tmp_path / 'a.db')!r}, query='SELECT 1')\n"
        "except vs.errors.MissingExtraError as error:\n    print(error)"
    )
    found = run_without("duckdb", code)
    assert ".[duckdb]" in found.stdout, found.stderr


SOLVE = (
    "import veilsum as vs\n"
    "from veilsum.minimise import Box, Cost\n"
    "costs = [Cost.squared_distance([p]) for p in (1.0, 2.0, 6.0, 3.0)]\n"
    "for seed in (None, 0):\n"
    "    try:\n        run = vs.solve(costs, domain=Box(-9, 9, dim=1), seed=seed)\n"
    "        print(run.minimiser.round(6).tolist())\n"
    "    except vs.errors.MissingExtraError as error:\n        print(error)\n"
)


def test_fresh_masks_name_their_extra_and_seeded_ones_need_none(tmp_path):
    """From the library, and from the command line."""
    example = Path(__file__).parents[2] / "examples" / "average.toml"
    path = tmp_path / "fresh.toml"
    path.write_text(example.read_text().replace("[simulation]\nseed = 0\n", ""))
    code = (
        f"{SOLVE}import sys; sys.argv = ['veilsum', 'solve', {str(path)!r}]\n"
        "from veilsum.cli import main; main()"
    )
    found = run_without("cryptography", code)
    fresh, seeded = found.stdout.splitlines()
    assert ".[secure]" in fresh, found.stderr
    assert seeded == "[3.0]", found.stderr
    assert found.returncode == 1
    assert ".[secure]" in found.stderr
    assert "Traceback" not in found.stderr
