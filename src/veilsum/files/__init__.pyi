"""The public names, once: `__init__.py` loads each from its home on first use."""

from .consortiums import read_agreement as read_agreement
from .graphs import read_topology as read_topology, topology_from as topology_from
from .scenarios import read_scenario as read_scenario

__all__: list[str]
