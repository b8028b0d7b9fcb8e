"""Everything else works without the leaves: audits, large graphs, ranks, clusters."""

import subprocess
import sys

LEAVES = (
    "veilsum.audit",
    "veilsum.minimise.large_graphs",
    "veilsum.minimise.ranks",
    "veilsum.minimise.engines.mpi",
    "veilsum.scale.cluster",
    "veilsum.web.planner",
    "veilsum.web.planning",
)
# Imports every other module; a blocked one raises ImportError with its name.
CODE = """
import importlib, pkgutil, sys
import veilsum

blocked = {blocked!r}
sys.modules.update(dict.fromkeys(blocked))
failed = []
for module in pkgutil.walk_packages(veilsum.__path__, "veilsum."):
    inside = any((module.name + ".").startswith(leaf + ".") for leaf in {leaves!r})
    if inside or module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        failed.append(module.name + ": " + str(error))
print(";".join(failed))
"""


def failing(*blocked):
    code = CODE.format(blocked=blocked, leaves=LEAVES)
    run = [sys.executable, "-W", "ignore", "-c", code]
    found = subprocess.run(run, capture_output=True, text=True, check=True)
    return [one for one in found.stdout.strip().split(";") if one]


def test_all_other_modules_are_imported_without_the_leaves():
    assert failing(*LEAVES) == []


def test_a_module_that_is_no_leaf_is_missed():
    """The twin: others import it, and are found."""
    assert any("minimise.solve" in line for line in failing("veilsum.minimise.rounds"))
