"""Put real networks before the graph doctor: how many withstand one curious party?

    python benchmarks/real_networks.py                     # all of both sets, t = 1
    python benchmarks/real_networks.py --tolerate 2        # two colluders
    python benchmarks/real_networks.py --set sndlib --each

The graphs are the Topology Zoo and SNDlib sets inside the `topohub` package; nothing is
downloaded. The table is Markdown.
"""

from __future__ import annotations

import argparse
import importlib.resources
import json
import statistics
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from typing import NamedTuple

from clocks import sized
from veilsum.graphs.connectivity import vertex_connectivity
from veilsum.graphs.topology import Topology
from veilsum.privacy.diagnosis import examine

# Of each set; None for all.
MOST = sized(None, 2)
SETS = {"topozoo": "Topology Zoo", "sndlib": "SNDlib"}
COLUMNS = (
    *("networks", "parties", "safe before", "safe after", "links before"),
    *("links added", "median", "most (network)", "proved fewest", "seconds"),
)


class Case(NamedTuple):
    """One network and what became of it."""

    name: str
    parties: int
    links: int
    safe_before: bool
    safe_after: bool
    added: int
    gap: int
    seconds: float


def networks(collection: str) -> Iterator[tuple[str, Topology]]:
    """Yield every network of a set by name; parallel links count once."""
    folder = importlib.resources.files("topohub") / "data" / collection
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".json"):
            data = json.loads(file.read_text("utf-8"))
            yield file.name.removesuffix(".json"), topology_of(data)


def topology_of(data: dict[str, list[dict[str, object]]]) -> Topology:
    """Return a node-link document as a topology; a link to oneself is no link."""
    pairs = [(str(link["source"]), str(link["target"])) for link in data["edges"]]
    return Topology.from_edges(
        [(a, b) for a, b in pairs if a != b],
        parties=[str(node["id"]) for node in data["nodes"]],
    )


def treat(name: str, topology: Topology, tolerate: int) -> Case:
    """Examine a network, mend it, and look at it again."""
    start = time.perf_counter()
    found = examine(topology, tolerate=tolerate)
    seconds = time.perf_counter() - start
    return Case(
        name=name,
        parties=topology.n_parties,
        links=topology.n_edges,
        safe_before=found.safe,
        safe_after=vertex_connectivity(found.repaired) > tolerate,
        added=len(found.links_to_add),
        gap=found.gap,
        seconds=seconds,
    )


def row(title: str, cases: list[Case]) -> str:
    sizes = [case.parties for case in cases]
    most = max(cases, key=lambda case: case.added)
    cells = (
        title,
        str(len(cases)),
        f"{min(sizes)} to {max(sizes)}",
        str(sum(case.safe_before for case in cases)),
        str(sum(case.safe_after for case in cases)),
        str(sum(case.links for case in cases)),
        str(sum(case.added for case in cases)),
        f"{statistics.median(case.added for case in cases):g}",
        f"{most.added} ({most.name})",
        str(sum(case.gap == 0 for case in cases)),
        f"{sum(case.seconds for case in cases):.0f}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tolerate", type=int, default=1)
    parser.add_argument("--set", choices=SETS, action="append", dest="sets")
    parser.add_argument("--each", action="store_true", help="a line for each network")
    options = parser.parse_args()
    if find_spec("topohub") is None:
        print("left out: topohub, which has the networks, is not installed")
        return
    print("| set | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    everything: list[Case] = []
    for collection in options.sets or SETS:
        cases = [
            treat(name, topology, options.tolerate)
            for name, topology in islice(networks(collection), MOST)
            if topology.n_parties >= options.tolerate + 2
        ]
        if options.each:
            print("\n".join(row(case.name, [case]) for case in cases))
        print(row(SETS[collection], cases), flush=True)
        everything += cases
    print(row("all", everything))


if __name__ == "__main__":
    main()
