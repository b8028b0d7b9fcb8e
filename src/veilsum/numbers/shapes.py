"""Shapes in signatures: jaxtyping's types where it is loaded already, else nothing.

`Float[FloatArray, "n m"]` is checked while tests run, which load jaxtyping first. It is
not a dependency, and takes longer to load than numpy's own types: without it the same
words mean the array alone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import (
        Bool as Bool,
        Float as Float,
        Int as Int,
        Int64 as Int64,
        Shaped as Shaped,
        UInt as UInt,
        UInt64 as UInt64,
    )
elif "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, Int64, Shaped, UInt, UInt64
else:

    class Shaped:
        """An array, its shape left unsaid."""

        def __class_getitem__(cls, item: tuple[type, str]) -> type:
            return item[0]

    Bool = Float = Int = Int64 = UInt = UInt64 = Shaped
