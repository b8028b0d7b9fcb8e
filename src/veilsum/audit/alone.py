"""One honest party alone: everything that masks it is known to the others.

Its shares all run to the coalition, which takes them off and has the party's numbers.
No law helps, and none is promised to: the sum tells the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from veilsum.audit.attack import Scene
from veilsum.audit.cut import PartSums
from veilsum.audit.made_up import honest_pieces


class Alone(PartSums):
    """The attack in the hands of all others: a cut that leaves one party."""

    @property
    def attack(self) -> str:
        """Its name."""
        return "one honest party"

    @property
    def about(self) -> str:
        """Whose numbers are named."""
        return f"what {self.scene.topology.parties[self.parts[0][0]]} holds"


def aim(scene: Scene, coalition: Sequence[str]) -> Alone | None:
    """Return the attack; None unless exactly one party is honest."""
    pieces = honest_pieces(scene.topology, coalition)
    if [len(piece) for piece in pieces] != [1]:
        return None
    colluders = scene.topology.names(scene.topology.indices(coalition))
    return Alone(scene, colluders, pieces, 1.0)
