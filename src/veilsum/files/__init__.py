"""Files: scenarios, agreements, graphs, tables and ledgers on disk.

Use it to read a scenario or an agreed study for use in Python, or a graph from a file.

Example:
    >>> from veilsum.files import topology_from
    >>> topology_from("ring:5").n_parties
    5
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
