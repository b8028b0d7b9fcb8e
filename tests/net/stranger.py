"""A stranger: a second implementation, for runs together with the real parties.

Written from docs/reference/wire.md and from nothing else: neither this module nor
`stranger_party`, `stranger_lines` and `stranger_wire` import anything of veilsum. It
knows costs of kind squared-distance on a box, one-shot by flooding, the laws lattice
and uniform, and no drop. It keeps nothing on disk: it takes part once.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime

from net.stranger_lines import VERSION, Lines
from net.stranger_party import Party
from net.stranger_wire import Consortium, canonical

# It shows nobody a page; this is the digest of an empty one.
CONSENT = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Outcome:
    """What a run gave the stranger.

    Attributes:
        answer: the numbers that everybody signed.
        receipt: what it signs itself, as a file holds it.
        byes: neighbours that have said bye.
    """

    answer: tuple
    receipt: dict
    byes: frozenset


async def take_part(consortium_file, key_file, target, *, guarantee, role=Party):
    """Take part in a run, and return its outcome.

    Args:
        consortium_file: what was agreed on.
        key_file: the party's private key, its certificate beside it.
        target: of the party's cost.
        guarantee: for the receipt, as `veilsum privacy --json` prints it.
        role: the kind of `Party` to be.
    """
    started = datetime.now(UTC)
    party = role(Consortium.read(consortium_file), key_file, target)
    async with Lines(party, key_file).open():
        answer = await party.run()
        await party.part()
    signed = receipt(party, answer, guarantee, started)
    return Outcome(answer.values, signed, frozenset(party.byes))


def receipt(party, answer, guarantee, started):
    """What the party signs about a run that it has finished."""
    agreed = party.agreed
    content = {
        "format": "veilsum receipt 3",
        "run": agreed["run"],
        "plan": party.plan.hex(),
        "consortium": agreed.digest,
        "consent": CONSENT,
        "party": party.me,
        "certificate": agreed.certificates[party.me],
        "parties": agreed.names,
        "lost": [],
        "epochs": [0],
        "confirmed": list(party.near),
        "result": hmac.digest(party.seal, answer.digest, "sha256").hex(),
        "released": [{"key": "coefficients", "parties": agreed.names}],
        "guarantee": guarantee,
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": VERSION,
    }
    signature = party.key.sign(b"veilsum receipt\0" + canonical(content))
    return {**content, "signature": signature.hex()}
