"""Executors for the work: processes or threads of this computer, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import cast

from veilsum.errors import InvalidInputError


def workers_on(where: str) -> Executor:
    """Return who does the work: processes of this computer, or a cluster of Ray's.

    Args:
        where: `processes:N` for N of this computer; `threads:N` for N of this process;
            `ray:N` for a cluster of N workers that is started here and ends with this;
            `ray:HOST:PORT` for one that this computer is part of, and
            `ray://HOST:PORT` for one that it is a client of.

    Raises:
        InvalidInputError: it is none of these, or cannot be reached.
    """
    kind, _, rest = where.partition(":")
    count = int(rest) if rest.isascii() and rest.isdigit() and len(rest) < 6 else 0
    if kind == "processes" and count:
        from veilsum.scale.processes import WorkerProcesses

        return WorkerProcesses(count)
    if kind == "threads" and count:
        return ThreadPoolExecutor(count)
    if kind == "ray" and rest:
        # By its name: a cluster is a leaf, which nothing else imports.
        cluster = import_module("veilsum.scale.cluster")
        address = where if rest.startswith("//") else rest
        return cast("Executor", cluster.RayWorkers(address, count))
    raise InvalidInputError(
        "work is done on processes:N, threads:N, ray:N, ray:HOST:PORT or "
        f"ray://HOST:PORT, N being 1 to 99,999; found {where!r}",
        code="malformed-workers",
    )


@contextmanager
def workers_shared_by(where: str | None) -> Iterator[Executor | None]:
    """Have workers for some time, by name; None for nobody but this process.

    Raises:
        InvalidInputError: they ended before the work did, which has to begin anew.
    """
    if where is None:
        yield None
        return
    try:
        with workers_on(where) as on:
            yield on
    except BrokenExecutor as error:
        raise InvalidInputError(
            f"those that shared the work have ended before it: {error}. Ask again",
            code="workers-lost",
        ) from None
