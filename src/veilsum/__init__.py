"""veilsum: minimise a sum of private costs peer to peer.

Public names stand in `__init__.pyi`, once, and are loaded when they are first used, so
that `import veilsum` costs nothing and heavy libraries stay out of short commands.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
