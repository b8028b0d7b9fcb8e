"""The public names, once: `__init__.py` loads each from its home on first use."""

from .connectivity import (
    algebraic_connectivity as algebraic_connectivity,
    vertex_connectivity as vertex_connectivity,
)
from .mixing import mixing_rate as mixing_rate, mixing_weights as mixing_weights

__all__: list[str]
