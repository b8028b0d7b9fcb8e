"""Audits: attacks on masks and messages, counted against the promised bound.

Use it to play attacks on the masks of a planned network before a run. The command
`veilsum audit` reads files and run folders; `veilsum.party` reads records of audits.

Example:
    >>> from veilsum import Topology
    >>> from veilsum.audit import audit, coalitions_of, scene_under
    >>> from veilsum.masks import Masks
    >>> square = Topology.family("complete:4")
    >>> law = Masks("lattice", sigma=1.0, grid=20).on(square)
    >>> coalitions = coalitions_of(square, "all:1", 1)
    >>> scene = scene_under(square, law, width=2)
    >>> result = audit(scene, coalitions, executions=2000, depth="quick")
    >>> len(result.findings), result.broken
    (0, ())

Modules: `attack` defines attacks and their outcomes, `auditing` plays all attacks and
controls, and each other module holds one attack or reads one source.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
