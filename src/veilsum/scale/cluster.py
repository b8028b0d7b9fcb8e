"""Workers of a Ray cluster: they need this package in the same version.

Ray's driver is a process of its own, for Ray ends a driver that has lost its cluster,
and prints what it likes. Whoever asks for work talks to it over a pipe, and hears in
one sentence that the cluster is gone.

Whoever reaches a cluster runs what they like, as its owner. One that is started here
listens on this computer only, asks for a token that is in no file, keeps its files and
sockets in a folder that others cannot enter, and reports to nobody.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count as numbered
from multiprocessing import get_context, parent_process
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from signal import SIG_IGN, SIGINT, signal
from socket import create_connection
from tempfile import mkdtemp
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from veilsum.errors import InvalidInputError, install_advice
from veilsum.scale.processes import (
    AS_IT_STARTED,
    RETRIES,
    set_for_children,
    worker_call_outcome,
)

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Found = TypeVar("Found")

LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Ray gives up a start after half a minute, which a busy computer may need; and what
# comes back from a cluster is small.
STARTS, STORE_BYTES = 4, 256 << 20
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # On a loopback address, whatever the system is.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Seconds, but for one in thousandths, that parts of it wait for each other.
    "RAY_gcs_server_port_wait_time_s": "120",
    "RAY_py_gcs_connect_timeout_s": "120",
    "RAY_agent_register_timeout_ms": "240000",
    "RAY_worker_register_timeout_seconds": "240",
}
# What a cluster on a loopback address is joined with, too.
ON_LOOPBACK = {key: SETTINGS[key] for key in ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",)}
# The first Ray whose clusters can ask for a token.
TOKENS_SINCE = (2, 52)
# Where a cluster keeps its files: names of sockets below it must be short.
SHORT = "/tmp"  # noqa: S108 - a folder of our own is made there
# Where a cluster hears clients, unless somebody chose another port.
CLIENTS = 10001
# Seconds until a driver that was told to go is ended, and that it may take to join.
GRACE, PATIENCE = 30.0, 300.0


class RayWorkers(Executor):
    """Workers of a cluster; Ray does a piece again whose worker ended without a word.

    Attributes:
        address: where others of this computer may join the cluster: `ray:HOST:PORT`.
    """

    def __init__(self, address: str, count: int = 0) -> None:
        if find_spec("ray") is None:
            raise InvalidInputError(
                f"a Ray cluster needs Ray: {install_advice('ray')}", code="missing-ray"
            )
        if address.startswith("ray://") and find_spec("grpc") is None:
            raise InvalidInputError(
                "a client of a Ray cluster needs Ray's client: "
                f"{install_advice('ray')}",
                code="missing-ray",
            )
        if not count:
            _check_ray_cluster_answers(address)  # Ray itself would try for minutes
        elif tuple(map(int, version("ray").split(".")[:2])) < TOKENS_SINCE:
            raise InvalidInputError(
                f"Ray {version('ray')} asks nobody for a token, so that others on this "
                f"computer could have it do anything: {install_advice('ray')}",
                code="ray-without-token",
            )
        self._address = f"ray:{count}" if count else address
        self._lock, self._numbers = Lock(), numbered()
        self._told: dict[int, Future[Any]] = {}
        self._known: Any = None
        self._ended: BrokenExecutor | None = None
        for left in reversed(range(STARTS if count else 1)):
            ready, found = self._begun(address, count)
            if ready:
                break
            # Whatever of a cluster it has started ends with it.
            self.shutdown(wait=False)
            if not left:
                raise InvalidInputError(
                    f"the Ray cluster at {self._address} cannot be reached: {found}"
                    f"{'' if count else _ray_cluster_ways_in(address)}",
                    code="cluster-unreachable",
                )
        self.count, self.address = found
        self._hearing = Thread(target=self._hear, daemon=True)
        self._hearing.start()

    def _begun(self, address: str, count: int) -> tuple[bool, Any]:
        """Start a driver; return whether it has a cluster, and which, or why not."""
        context = get_context("spawn")
        self._line, other = context.Pipe()
        self._driver = context.Process(
            target=_drive_ray_cluster, args=(other, address, count), daemon=True
        )
        here = ON_LOOPBACK if _ray_cluster_host(address) in LOOPBACK else {}
        with set_for_children(SETTINGS if count else here):
            self._driver.start()
        other.close()
        try:
            if not self._line.poll(PATIENCE):
                return False, "it does not answer as a cluster does"
            ready, found = self._line.recv()
        except (EOFError, OSError):
            return False, f"its driver {AS_IT_STARTED}"
        except BaseException:
            self.shutdown(wait=False)
            raise
        return ready, found

    def submit(
        self, fn: Callable[..., Found], /, *args: Any, **kwargs: Any
    ) -> Future[Found]:
        told: Future[Found] = Future()
        with self._lock:
            if self._ended is not None:
                told.set_exception(self._ended)
                return told
            number = next(self._numbers)
            self._told[number] = told
            new = None if fn is self._known else fn
            try:
                self._line.send((number, new, args, kwargs))
                self._known = fn
            except OSError:
                return told  # whoever hears that it is gone says so
            except Exception:
                del self._told[number]
                raise
        told.add_done_callback(lambda one: self._forget(number, one))
        return told

    def _forget(self, number: int, told: Future[Any]) -> None:
        if told.cancelled():
            with self._lock, suppress(OSError):
                if self._told.pop(number, None) is not None:
                    self._line.send((number, None, None, None))

    def _hear(self) -> None:
        """Tell those who wait what came of their pieces, until there is no driver."""
        why = "its driver has ended"
        with suppress(EOFError, OSError):
            while True:
                number, kind, found = self._line.recv()
                with self._lock:
                    told = self._told.pop(number, None)
                if told is None:
                    continue
                if kind == "lost":
                    why = found
                    found = self._gone(why)
                with suppress(InvalidStateError):
                    (told.set_result if kind == "done" else told.set_exception)(found)
        with self._lock:
            self._ended = self._gone(why)
            left, self._told = list(self._told.values()), {}
        for told in left:
            with suppress(InvalidStateError):
                told.set_exception(self._ended)

    def _gone(self, why: str) -> BrokenExecutor:
        return BrokenExecutor(f"the Ray cluster at {self._address} is gone: {why}")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Leave the cluster; what is under way is ended."""
        del kind, error, trace
        self.shutdown()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as in the library
        """Leave the cluster; one that was started here ends."""
        del cancel_futures
        with suppress(OSError):
            self._line.send(None)
        if wait:
            self._driver.join(GRACE)
        self._driver.kill()
        self._driver.join()


def _ray_cluster_host(address: str) -> str:
    return address.removeprefix("ray://").rpartition(":")[0].strip("[]")


def _ray_cluster_ways_in(address: str) -> str:
    """Say what may be missing: Ray itself says little more than that time was up."""
    hint = ". If it asks for a token, set RAY_AUTH_MODE=token and have that token here"
    if not address.startswith("ray://"):
        hint += ". A computer that is no part of it can be its client: --on "
        hint += f"ray://{_ray_cluster_host(address)}:{CLIENTS}"
    return hint


def _check_ray_cluster_answers(address: str) -> None:
    """Refuse the address of a cluster that nobody answers at."""
    port = address.rpartition(":")[2]
    try:
        create_connection((_ray_cluster_host(address), int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the Ray cluster at {address} cannot be reached: {error}",
            code="cluster-unreachable",
        ) from None


# In a process of its own


def _end_with_cluster_parent(parent: Any) -> None:
    """End at once when whoever asked is gone, whatever Ray is about."""
    parent.join()
    os._exit(1)


def _drive_ray_cluster(line: Connection, address: str, count: int) -> None:
    """Be Ray's driver for whoever is at the other end of a line, until it is closed."""
    signal(SIGINT, SIG_IGN)
    Thread(
        target=_end_with_cluster_parent, args=(parent_process(),), daemon=True
    ).start()
    if hasattr(os, "setsid"):
        os.setsid()  # so that Ctrl-C in a terminal is for nobody here
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    try:
        folder = _shut_off_ray_cluster() if count else None
        import ray

        workers = _join_ray_cluster(ray, address, count, folder)
        head = f"ray:{ray.get_runtime_context().gcs_address}"
    except Exception as error:
        line.send((False, _first_line_of_ray_error(error)))
        return
    line.send((True, (workers, head)))
    from veilsum import __version__

    begin = ray.remote(max_retries=RETRIES)(_carry_out_on_ray_worker).remote
    lock = Lock()
    begun: dict[int, Any] = {}

    def answer(number: int, one: Future[Any]) -> None:
        error = one.exception()
        begun.pop(number, None)
        if error is None:
            ended, found = one.result()
            said = number, "done" if ended else "raised", found
        elif isinstance(error, ray.exceptions.RayTaskError):
            # What was asked for has been caught: it could not even be read there.
            said = (
                number,
                "lost",
                f"a worker cannot do it: {_first_line_of_ray_error(error.cause)}",
            )
        else:
            said = number, "lost", _first_line_of_ray_error(error)
        with lock, suppress(OSError):
            line.send(said)

    known: Any = None
    with suppress(EOFError, OSError):
        while (asked := line.recv()) is not None:
            number, new, args, kwargs = asked
            if args is None:
                if number in begun:
                    ray.cancel(begun[number], force=True)
                continue
            try:
                if new is not None:
                    known = ray.put(new)
                one = begun[number] = begin(__version__, known, args, kwargs)
            except Exception as error:
                with lock:
                    line.send((number, "lost", _first_line_of_ray_error(error)))
                continue
            one.future().add_done_callback(partial(answer, number))
    ray.shutdown()
    # Only now that nothing of it is left: what comes late would make the folder anew,
    # or find one that somebody else has made.
    if folder is not None:
        rmtree(folder, ignore_errors=True)


def _shut_off_ray_cluster() -> str:
    """Keep others from a cluster that this process will start; return its folder.

    Ray's own token is in a file that others may read where the home folder is open to
    them. Whoever has named one wants others of theirs to join.
    """
    os.umask(0o077)
    os.environ["RAY_AUTH_MODE"] = "token"
    if not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
        os.environ["RAY_AUTH_TOKEN"] = token_hex(32)
    return mkdtemp(prefix="veilsum-", dir=SHORT if Path(SHORT).is_dir() else None)


def _join_ray_cluster(ray: Any, address: str, count: int, folder: str | None) -> int:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if not count:
        for left in reversed(range(STARTS)):
            try:
                ray.init(address=address, **quiet)
                break
            except ConnectionAbortedError:
                # A busy head was too slow to start what serves this client.
                if not left:
                    raise
        return max(1, int(ray.cluster_resources().get("CPU", 1)))
    ray.init(
        num_cpus=count,
        include_dashboard=False,
        object_store_memory=STORE_BYTES,
        # Ray opens this one to everybody; the folder around it stays closed.
        _temp_dir=f"{folder}/r",
        **quiet,
    )
    return count


def _first_line_of_ray_error(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # A heading says nothing without the end of what stands below it.
    return f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") else lines[0]


def _carry_out_on_ray_worker(
    version: str, fn: Any, args: Any, kwargs: Any
) -> tuple[bool, Any]:
    """Do one piece; on a worker."""
    from veilsum import __version__

    if __version__ != version:
        return False, InvalidInputError(
            f"a worker of the cluster has veilsum {__version__}, and here is "
            f"{version}: install the same version on all of its computers",
            code="worker-version-differs",
        )
    return worker_call_outcome(fn, args, kwargs)
