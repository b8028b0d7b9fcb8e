"""A run that really took place, as members see it who put their transcripts together.

Nobody knows the truth here but the parties, so nothing is guessed. What members were
sent can be looked at: shares that are zero, constant or sent twice mask nothing. And it
is said what of the others their numbers leave over, as names, never as numbers.
"""

from __future__ import annotations

from math import log

import numpy as np

from veilsum.audit.attack import Outcome, Scene
from veilsum.audit.made_up import LUCK, most_likely_share_probability
from veilsum.audit.weak_randomness import repeated_share_rows
from veilsum.errors import InvalidInputError
from veilsum.graphs.connectivity import graph_components
from veilsum.numbers.arrays import listed_names
from veilsum.party.run_folder import RunFolder
from veilsum.privacy.transcript import Transcript

ATTACK, RECEIPT = "shares that were received", "what this party's receipt says"


def check_run_audited(transcript: Transcript, scene: Scene) -> None:
    """Refuse a transcript of a run under another agreement than the one audited."""
    law, agreed = transcript.law, scene.law
    if transcript.topology != scene.topology or law.name != agreed.name:
        raise InvalidInputError(
            "the transcripts are of a run among other parties, or under other masks, "
            "than the file says: give the consortium file of that run",
            code="transcripts-of-other-run",
        )


def audit_shares_received(transcript: Transcript) -> tuple[Outcome, ...]:
    """Return how many shares from others are none that chance would have made.

    Empty if so few numbers were sent that chance might have made any.
    """
    mine = set(transcript.corrupted)
    rows = [
        numbers
        for exchange in transcript.rounds
        for (sender, receiver), numbers in sorted(exchange.shares.items())
        if sender not in mine and receiver in mine
    ]
    if not rows or not transcript.law.hides:
        return ()
    pairs = float(len(rows)) ** 2
    if len(rows[0]) * -log(most_likely_share_probability(transcript.law)) < log(
        pairs / LUCK
    ):
        return ()
    shares = np.stack(rows)[:, None]
    odd = repeated_share_rows(shares)[:, 0]
    if shares.shape[-1] > 1:
        alike = np.asarray(shares == shares[..., :1], dtype=np.bool_)
        odd |= np.asarray(alike.all(axis=-1))[:, 0]
    else:
        odd |= np.asarray(shares == 0, dtype=np.bool_)[:, 0, 0]
    about, n_odd = "shares that are zero, constant or sent twice", int(odd.sum())
    return (Outcome(ATTACK, transcript.corrupted, about, len(rows), n_odd, LUCK),)


def audit_receipt(folder: RunFolder) -> tuple[Outcome, ...]:
    """Return how many checks of a folder's receipt fail; none may."""
    if folder.receipt is None or not folder.checks:
        return ()
    failed = [f"{one.check} ({one.detail})" for one in folder.checks if not one.good]
    about = "checks that fail: " + (", ".join(failed) or "none")
    whose, trials = (folder.receipt.party,), len(folder.checks)
    return (Outcome(RECEIPT, whose, about, trials, len(failed), 0.0, "words"),)


def attack_findings(transcript: Transcript) -> tuple[str, ...]:
    """Return what these members can compute exactly of the others, in sentences."""
    found = []
    topology = transcript.topology
    for exchange in transcript.rounds[-1:]:
        honest = [one for one in exchange.members if one not in transcript.corrupted]
        places = sorted(topology.indices(honest))
        for part in graph_components(topology.induced(places)):
            names = topology.names(places[i] for i in part)
            what = "numbers" if len(names) == 1 else "sum"
            found.append(
                f"{listed_names(transcript.corrupted)} can compute the {what} of "
                f"{listed_names(names)} exactly, in each of {len(transcript.rounds)} "
                "sums"
            )
    return tuple(found)
