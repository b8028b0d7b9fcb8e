"""Where the processes of local parties come from.

This module loads nothing else of the package: `veilsum up` starts the process that
parties are forked from first, and loads its own modules while that one loads theirs.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver
from typing import Any


@cache
def party_process_context() -> Any:
    """Return what starts processes: from one that has loaded everything, if it can."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    multiprocessing.set_forkserver_preload(["veilsum.party.preloaded"])
    with _start_party_deaf_to_ctrl_c():
        forkserver.ensure_running()  # it loads while others prepare what to run
    return multiprocessing.get_context("forkserver")


@contextmanager
def _start_party_deaf_to_ctrl_c() -> Iterator[None]:
    """Let processes be made that Ctrl-C says nothing to: who made them ends them.

    A terminal tells all of them, also those that have loaded half of what they need.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what is heard
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
