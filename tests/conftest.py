"""Hypothesis profiles: `dev` is quick, `ci` repeats itself, `all` is long."""

import fcntl
import gc
import logging
import os
import shutil
import sys
from pathlib import Path

import jaxtyping
import pandas as pd  # noqa: F401 - whole, before a command loads it without pyarrow
import pytest
import scipy.linalg  # noqa: F401 - whose threads are limited below
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from costs import COSTLY, function_of


def _decorator(**options):
    """Import the checker, and jax with it, only where shapes are checked."""
    from typechecker import once_a_call

    return once_a_call(**options)


# What `--jaxtyping-packages` decorates with, before anything of the package is there.
jaxtyping.jaxtyped = _decorator

# Tests start hundreds of programs: each would compile the whole package for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Stores wait for the disk at every write, and not for memory. A folder in memory that
# is too small for the largest files of a run is not used.
_MEMORY, _LARGEST = Path("/dev/shm"), 4 * 2**30
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _LARGEST:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# Tests run side by side: threads of each would only wait for those of the other.
_ONE_THREAD = threadpool_limits(1, user_api="blas")

# A busy machine is not a failing test: neither profile looks at the clock.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("dev", max_examples=50, **_PATIENT)
# With shapes checked an example takes several times as long, and `ci` has the same
# examples every time: new ones come up in runs of `dev`, and most in those of `all`.
settings.register_profile("ci", max_examples=100, derandomize=True, **_PATIENT)
settings.register_profile("all", max_examples=200, **_PATIENT)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# Strategies build topologies, whose shapes and types are checked during tests; the
# checker looks at one item of a container, chosen by the `random` module.
_CHECKER_CHOOSES = (
    "ignore:Do not use the `random` module inside strategies:"
    "hypothesis.errors.HypothesisDeprecationWarning"
)


class _Examples:
    """Doctests of files with an example: others are neither imported nor searched.

    A plugin of its own, because hooks of this file do not reach the folder `src`.
    """

    @staticmethod
    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(file_path):
        collectors = yield
        if b">>> " in file_path.read_bytes() and "src" in file_path.parts:
            return collectors
        return [each for each in collectors if not isinstance(each, DoctestModule)]


def pytest_addoption(parser):
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out the tests of tests/costly.txt, which CI runs",
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("quick"):
        costly = set(COSTLY.read_text().splitlines())
        left_out = [item for item in items if function_of(item.nodeid) in costly]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if function_of(item.nodeid) not in costly]


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", _CHECKER_CHOOSES)
    config.pluginmanager.register(_Examples())
    gc.disable()  # until all is collected: nothing of it is garbage


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Let one worker compile a file: those who waited for it find it compiled."""
    if not isinstance(collector, pytest.File):
        return (yield)
    with collector.path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        return (yield)


def pytest_collection_finish():
    """Leave what was imported and collected, which stays, out of every collection."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def _quiet():
    """The command sets a logger up for its process: here it serves other tests too."""
    logs = [logging.getLogger(name) for name in ("veilsum.net", "asyncio")]
    before = [(log.handlers[:], log.propagate, log.level) for log in logs]
    yield
    for log, (handlers, propagate, level) in zip(logs, before, strict=True):
        log.handlers[:], log.propagate = handlers, propagate
        log.setLevel(level)


@pytest.fixture(scope="module")
def unchecked_shapes():
    """Run long loops at full speed: their shapes are checked by shorter tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
