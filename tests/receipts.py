"""A consortium of five, a ring with a chord, and the receipts of a run of theirs."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from veilsum.consortium.consortium import consortium_from
from veilsum.net.identity import new_identity
from veilsum.net.receipt import make_receipt

PARTIES = ("a", "b", "c", "d", "e")
EDGES = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"], ["e", "a"], ["a", "c"]]
DIGEST, OTHER = "0f" * 32, "aa" * 32


def promised(members):
    """A guarantee about these parties, one of whom is corrupted."""
    first, *others = sorted(members)
    sides = {"corrupted": [first], "honest": others}
    return {"status": "private", "epsilon": 0.125, "cut": None, **sides}


@dataclass
class Study:
    """Who they are and what they agreed on; `receipt` signs in a party's name."""

    folder: Path
    policy: dict = field(default_factory=dict)

    @cached_property
    def identities(self):
        return {name: new_identity(name, self.folder) for name in PARTIES}

    @cached_property
    def consortium(self):
        members = [
            {
                "name": name,
                "certificate": one.certificate,
                "address": f"{name}.test:8443",
            }
            for name, one in self.identities.items()
        ]
        return consortium_from(
            {
                "format": 1,
                "run": "study-" + "0" * 32,
                "title": "study",
                "members": members,
                "graph": {"edges": EDGES},
                "masks": {"law": "uniform", "largest": 10.0},
                "cost": {"kind": "squared-distance", "dim": 1},
                "domain": {"kind": "box", "lower": -1, "upper": 1},
                "method": {"name": "one-shot"},
                "policy": self.policy,
            }
        )

    def fields(self, party, **changes):
        near = [a if b == party else b for a, b in EDGES if party in (a, b)]
        members = changes.get("parties", PARTIES)
        return {
            "run": self.consortium.run,
            "plan": DIGEST,
            "consortium": self.consortium.digest.hex(),
            "consent": DIGEST,
            "parties": list(PARTIES),
            "lost": [],
            "epochs": [0, 1],
            "confirmed": near,
            "result": DIGEST,
            "released": [{"key": "coefficients", "parties": list(members)}],
            "guarantee": promised(members),
            "started": "2030-01-31T12:00:00+00:00",
            "finished": "2030-01-31T12:00:05.250000+00:00",
            "version": "1.0",
            **changes,
        }

    def receipt(self, party, signer=None, **changes):
        identity = signer or self.identities[party]
        return make_receipt(identity, **self.fields(party, **changes))

    def receipts(self, *without, **changes):
        """Everybody's, but for some; `changes` are in all of them."""
        left = [name for name in PARTIES if name not in without]
        return [self.receipt(name, **changes) for name in left]
