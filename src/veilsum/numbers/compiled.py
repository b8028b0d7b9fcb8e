"""Loops that numba compiles, where the `fast` extra is installed.

Kernels are plain Python functions of arrays and numbers; `compiled` returns the machine
code of one, or None without numba, and the caller then takes its plain road.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import unwrap
from typing import Any


@cache
def compiled(kernel: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the kernel compiled (once, cached on disk), or None without numba."""
    try:
        import numba
    except ImportError:
        return None
    # Unwrapped: a checker of types around the kernel is not for machine code.
    jitted: Callable[..., Any] = numba.njit(cache=True, nogil=True)(unwrap(kernel))
    return jitted
