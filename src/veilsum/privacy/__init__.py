"""Privacy of masked sums: divergences, coalitions, noise, budgets.

Use it to compute numbers behind `veilsum.guarantee` and `veilsum.plan`: the divergence
between two inputs for one coalition, the success of an attacker, the deviation of
noise on each link, the charge of one run in a ledger.

Example:
    >>> from veilsum import Topology
    >>> from veilsum.privacy import attacker_success, effective_resistance
    >>> ring = Topology.family("ring:4")
    >>> round(effective_resistance(ring, "0", "2"), 12)
    1.0
    >>> round(attacker_success(0.1), 3)
    0.588
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
