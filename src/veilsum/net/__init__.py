"""The network: identities, connections under mutual TLS, durable state.

Use it to read evidence against a party that contradicted itself.

Example:
    >>> from veilsum.net import Evidence
    >>> [name for name in Evidence.__dataclass_fields__ if name != "left_out"]
    ['run', 'plan', 'consortium', 'party', 'certificate', 'records']
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
