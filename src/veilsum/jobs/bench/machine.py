"""Where and with what something was measured."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from veilsum.jobs.bench.floors import usable_cores

PACKAGES = ("veilsum", "numpy", "scipy", "numba", "jax")


def machine() -> dict[str, Any]:
    """Return the day, the machine, how busy it is, and versions."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": usable_cores(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "load": _load(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _load() -> float | None:
    """Return how many processes wanted a core in the last minute, where it is known."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
