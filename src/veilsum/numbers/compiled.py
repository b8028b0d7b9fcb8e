"""Loops that numba compiles, where the `fast` extra is installed.

Kernels are plain Python functions of arrays and numbers; `compiled_or_plain` returns
the machine code of one, or None without numba, and the caller then takes its plain
road.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from inspect import unwrap
from typing import Any

# Loading numba takes as long as the plain roads take for about so many numbers.
WORTH_LOADING = 10_000_000


class _CompiledSeen:
    """Count of numbers that plain code processed before numba was loaded."""

    numbers = 0


def compiled_or_plain(
    kernel: Callable[..., Any], numbers: int | None = None
) -> Callable[..., Any] | None:
    """Return the kernel compiled (once, cached on disk), or None without numba.

    Args:
        kernel: a plain Python function.
        numbers: how many numbers it has to go through. Until `WORTH_LOADING` of them
            have come together, numba is not loaded, and the result is None.
    """
    if numbers is not None and "numba" not in sys.modules:
        _CompiledSeen.numbers += numbers
        if _CompiledSeen.numbers < WORTH_LOADING:
            return None
    return _machine_code(kernel)


@cache
def _machine_code(kernel: Callable[..., Any]) -> Callable[..., Any] | None:
    try:
        import numba
    except ImportError:
        return None
    # Unwrapped: a checker of types around the kernel is not for machine code.
    jitted: Callable[..., Any] = numba.njit(cache=True, nogil=True)(unwrap(kernel))
    return jitted
