"""Loops that numba compiles, where the `fast` extra is installed.

Kernels are plain Python functions of arrays and numbers; `compiled` returns the machine
code of one, or None without numba, and the caller then takes its plain road.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from inspect import unwrap
from typing import Any

# Until a process went through so many numbers, numpy is done before numba is loaded,
# which takes a second and more than 100 MB.
FEW_NUMBERS = 1 << 20
_seen = {"numbers": 0}


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


def compiled_for(
    kernel: Callable[..., Any], n_numbers: int
) -> Callable[..., Any] | None:
    """Return the kernel compiled, or None where loading numba is not worth it.

    Args:
        kernel: a function whose plain counterpart gives the same bits.
        n_numbers: how many numbers it goes through; they add up over calls.
    """
    _seen["numbers"] += n_numbers
    if _seen["numbers"] < FEW_NUMBERS and "numba" not in sys.modules:
        return None
    return compiled(kernel)
