"""Agreements: consortium files, studies and scenarios after parsing.

Use it to look at parts of an agreement: the address of a party, a study with several
questions, a scenario of simulated parties.

Example:
    >>> from veilsum.consortium import Address
    >>> str(Address.of("north.example:9000"))
    'north.example:9000'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
