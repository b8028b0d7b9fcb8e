"""Which engine carries a task out: the one asked for, or one by the task's size.

Loading numba and its compiled loops takes most of a second, in which numpy has done
small tasks; numba is quicker at every iteration that it compiles. A GPU is worth its
while for states that fill it. The choice follows from the task and what is installed,
so that a seed repeats a run. Ranks of MPI are taken only where they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import inf
from typing import cast

from veilsum.errors import InvalidInputError, MissingExtraError, install_advice
from veilsum.minimise.engines.engine import Engine, EngineTask, closed_form_of_gradients
from veilsum.minimise.engines.numpy import DENSE_PARTIES, PlainEngine
from veilsum.numbers.arrays import nearest_name

AUTO = "auto"


def _import_engine(module: str, name: str, task: EngineTask) -> Engine:
    """Return an engine whose module is imported for the first task that needs it."""
    made = getattr(import_module(f"veilsum.minimise.engines.{module}"), name)
    return cast("Engine", made(task))


ENGINES: dict[str, Callable[[EngineTask], Engine]] = {
    "numpy": PlainEngine,
    "numba": partial(_import_engine, "numba", "FusedEngine"),
    "jax": partial(_import_engine, "jax", "JaxEngine"),
    "mpi": partial(_import_engine, "mpi", "MpiEngine"),
}
# The package that an engine needs and the extra that brings it.
NEEDS = {"numba": ("numba", "fast"), "jax": ("jax", "jax"), "mpi": ("mpi4py", "mpi")}
# As measured: seconds until numba runs; numpy's for a round, for each number that
# crosses a link in it, and for each entry of parties' matrices in an iteration.
LOADING, ROUND, NUMBER, ENTRY = 0.6, 1.2e-5, 2e-9, 0.9e-9
# Numbers of a state from which a GPU is asked for.
GPU_NUMBERS = 1 << 22


def engine_for(task: EngineTask, wanted: str = AUTO, iterations: float = inf) -> Engine:
    """Return the engine that was asked for; `auto` is what suits the task's size.

    Args:
        task: what is to be carried out.
        wanted: an engine's name, or `auto`.
        iterations: how many there may be.

    Raises:
        InvalidInputError: no engine is called so, or it cannot carry the task out.
        MissingExtraError: the engine's package is not installed.
    """
    if wanted == AUTO:
        return _suitable_engine(task, iterations)
    return _engine_by_name(task, wanted)


def _engine_by_name(task: EngineTask, name: str) -> Engine:
    check_engine_is_there(name)
    return ENGINES[name](task)


def check_engine_is_there(name: str) -> None:
    """Refuse an engine that there is not, or whose package is not installed.

    Asked before long work, so that nothing is computed in vain.
    """
    if name == AUTO:
        return
    _check_engine_name(name)
    if not _engine_is_there(name):
        package, extra = NEEDS[name]
        raise MissingExtraError(
            f"the engine {name} needs the package {package}: "
            f"{install_advice(extra)}, or use engine numpy",
            code="missing-extra",
        )


def available_engines() -> list[str]:
    return [name for name in ENGINES if _engine_is_there(name)]


def _suitable_engine(task: EngineTask, iterations: float) -> Engine:
    if task.start.size >= GPU_NUMBERS and _engine_has_gpu():
        try:
            return _engine_by_name(task, "jax")
        except InvalidInputError:
            pass  # not every method and cost can be followed there
    pays = seconds_by_numpy_engine(task, iterations) > LOADING
    return _engine_by_name(
        task, "numba" if pays and _engine_is_there("numba") else "numpy"
    )


def seconds_by_numpy_engine(task: EngineTask, iterations: float) -> float:
    """Return about how long numpy would take over what numba does quicker."""
    parties, dim = task.start.shape
    mixing = NUMBER * dim * max(weights.nnz for weights in task.weights.values())
    rounds = task.method.rounds_per_iteration
    from veilsum.minimise.engines.numba import compiled_engine_run

    if compiled_engine_run(task) is None:
        # The method's own source: both engines spend the same time on all but products.
        return iterations * rounds * mixing if parties > DENSE_PARTIES else 0.0
    form = closed_form_of_gradients(task.cost)
    entries = 0 if form is None or form.squares is None else form.squares.size
    return iterations * (rounds * (ROUND + mixing) + ENTRY * entries)


def _engine_has_gpu() -> bool:
    if not _engine_is_there("jax"):
        return False
    from veilsum.minimise.engines.jax import jax_is_on_gpu

    return jax_is_on_gpu()


def _engine_is_there(name: str) -> bool:
    return name not in NEEDS or find_spec(NEEDS[name][0]) is not None


def _check_engine_name(name: str) -> None:
    if name in ENGINES:
        return
    raise InvalidInputError(
        f"no engine is called {name!r}; {nearest_name(name, [AUTO, *ENGINES])}choose "
        "from "
        f"{', '.join([AUTO, *ENGINES])}",
        code="unknown-engine",
    )
