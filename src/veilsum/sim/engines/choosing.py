"""Which engine carries a task out."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from importlib.util import find_spec

from veilsum.errors import InvalidInputError, MissingExtraError
from veilsum.sim.engines.engine import Engine, Task
from veilsum.sim.engines.fused import FusedEngine
from veilsum.sim.engines.plain import PlainEngine
from veilsum.sim.engines.traced import JaxEngine

AUTO = "auto"
ENGINES: dict[str, Callable[[Task], Engine]] = {
    "numpy": PlainEngine,
    "numba": FusedEngine,
    "jax": JaxEngine,
}
# The package that an engine needs and the extra that brings it.
NEEDS = {"numba": "fast", "jax": "jax"}


def engine_for(task: Task, wanted: str = AUTO) -> Engine:
    """Return the engine that was asked for; `auto` is numba where it is installed.

    Raises:
        InvalidInputError: no engine is called so, or it cannot carry the task out.
        MissingExtraError: the engine's package is not installed.
    """
    name = _usual() if wanted == AUTO else wanted
    _check_name(name)
    if not _is_there(name):
        raise MissingExtraError(
            f"the engine {name} needs the package {name}: pip install "
            f"'veilsum[{NEEDS[name]}]', or use engine numpy"
        )
    return ENGINES[name](task)


def available_engines() -> list[str]:
    """Return the names of engines whose packages are installed."""
    return [name for name in ENGINES if _is_there(name)]


def _usual() -> str:
    # JAX is for those who ask: it needs other costs, and its loops suit GPUs.
    return "numba" if _is_there("numba") else "numpy"


def _is_there(name: str) -> bool:
    return name not in NEEDS or find_spec(name) is not None


def _check_name(name: str) -> None:
    if name in ENGINES:
        return
    near = difflib.get_close_matches(name, [AUTO, *ENGINES], n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InvalidInputError(
        f"no engine is called {name!r}; {hint}choose from {', '.join([AUTO, *ENGINES])}"
    )
