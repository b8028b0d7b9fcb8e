"""The public names, once: `__init__.py` loads each from its home on first use."""

from .addresses import Address as Address
from .scenario import Scenario as Scenario
from .study import AgreedStudy as AgreedStudy

__all__: list[str]
