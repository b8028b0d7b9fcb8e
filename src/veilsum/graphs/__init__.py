"""Graphs of parties: connectivity and mixing rates of a `Topology`.

Use it to compare networks before a run: the vertex connectivity is the smallest number
of parties that can separate the others.

Example:
    >>> from veilsum import Topology
    >>> from veilsum.graphs import vertex_connectivity
    >>> vertex_connectivity(Topology.family("petersen"))
    3
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
