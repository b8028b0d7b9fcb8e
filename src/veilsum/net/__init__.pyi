"""The public names, once: `__init__.py` loads each from its home on first use."""

from .evidence import Evidence as Evidence

__all__: list[str]
