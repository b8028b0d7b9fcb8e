"""The protocol as a table: in which phase a party waits for what, and what follows.

    masked_sum = sharing, confirming, committing, summing

runs once for every sum. The machine walks this table and nothing else; the diagram in
the documentation is drawn from it.
"""

from __future__ import annotations

from dataclasses import dataclass

GREETING, SHARING, CONFIRMING = "greeting", "sharing", "confirming"
COMMITTING, SUMMING, ITERATING = "committing", "summing", "iterating"
AGREEING, FINISHED, ABORTED = "agreeing", "finished", "aborted"

# Nobody has shown a masked number: parties may still be dropped, in a new epoch.
BEFORE_READY = (GREETING, SHARING, CONFIRMING)
BEFORE_COMMIT = (*BEFORE_READY, COMMITTING)
CLOSED = (FINISHED, ABORTED)


@dataclass(frozen=True, slots=True)
class Transition:
    """From one phase to the next, once what it waits for is there.

    `guard` and `action` are names of the machine's methods; `action` returns the phase
    that follows, one of `targets`.
    """

    source: str
    waits_for: str
    guard: str
    action: str
    targets: tuple[str, ...]


TRANSITIONS = (
    Transition(
        GREETING,
        "everybody's Join under this plan, and an echo from every neighbour",
        "_greeted",
        "_draw_shares",
        (SHARING,),
    ),
    Transition(
        SHARING,
        "a share from every neighbour",
        "_shares_complete",
        "_confirm_edges",
        (CONFIRMING,),
    ),
    Transition(
        CONFIRMING,
        "every neighbour's confirmation of both shares",
        "_edges_confirmed",
        "_declare_ready",
        (COMMITTING,),
    ),
    Transition(
        COMMITTING,
        "everybody's signed Ready",
        "_all_ready",
        "_commit",
        (SUMMING, ITERATING),
    ),
    Transition(
        SUMMING,
        "everybody's masked vector, or the total along the tree",
        "_sum_complete",
        "_take_sum",
        (SHARING, AGREEING),
    ),
    Transition(
        ITERATING,
        "the last round, or everybody's masked vector if somebody vanished",
        "_rounds_complete",
        "_take_answer",
        (AGREEING,),
    ),
    Transition(
        AGREEING,
        "everybody's signature under the answer",
        "_all_agreed",
        "_finish",
        (FINISHED,),
    ),
)
BY_SOURCE = {transition.source: transition for transition in TRANSITIONS}


def diagram() -> str:
    """Return the table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {GREETING}"]
    for one in TRANSITIONS:
        lines += [
            f"    {one.source} --> {target}: {one.waits_for}" for target in one.targets
        ]
    lines += [
        f"    {one} --> {GREETING}: a party is lost, new epoch" for one in BEFORE_COMMIT
    ]
    lines += [f"    {one} --> {ABORTED}" for one in BY_SOURCE]
    lines += [f"    {FINISHED} --> [*]", f"    {ABORTED} --> [*]"]
    return "\n".join(lines)
