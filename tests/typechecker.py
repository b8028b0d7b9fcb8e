"""The checker of shapes and types during tests: a float is also a complex number.

A tuple of numbers is as good as a list wherever numpy makes an array of it; its types
say otherwise, because tuples lack a method that they ask for.
"""

from beartype import BeartypeConf, FrozenDict, beartype
from numpy.typing import ArrayLike

checker = beartype(
    conf=BeartypeConf(
        is_pep484_tower=True,
        hint_overrides=FrozenDict(
            {
                ArrayLike: ArrayLike | tuple,
                ArrayLike | None: ArrayLike | tuple | None,
            }
        ),
    )
)
