"""The public names, once: `__init__.py` loads each from its home on first use."""

from .laws import (
    GaussianMasks as GaussianMasks,
    LatticeMasks as LatticeMasks,
    Masks as Masks,
    NoMasks as NoMasks,
    UniformMasks as UniformMasks,
)

__all__: list[str]
