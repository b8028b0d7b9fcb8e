"""The table of phases as a diagram, for the page about the protocol."""

from veilsum.protocol.phases import ABORTED, BEFORE_COMMIT, FINISHED, GREETING


def phase_diagram(table):
    """Return a table as a Mermaid state diagram."""
    lines, table = ["stateDiagram-v2", f"    [*] --> {GREETING}"], tuple(table)
    for one in table:
        lines += [
            f"    {one.source} --> {target}: {one.waits_for}" for target in one.targets
        ]
    lines += [
        f"    {one} --> {GREETING}: a party is lost, new epoch" for one in BEFORE_COMMIT
    ]
    lines += [f"    {one.source} --> {ABORTED}" for one in table]
    lines += [f"    {FINISHED} --> [*]", f"    {ABORTED} --> [*]"]
    return "\n".join(lines)
