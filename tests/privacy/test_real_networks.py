"""Real networks from a package: the doctor mends each, and networkx agrees."""

import importlib.resources
import json

import networkx as nx
import pytest

from cases import each
from veilsum.graphs.augmentation import graph_blocks
from veilsum.graphs.topology import Topology
from veilsum.privacy.diagnosis import examine

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

DATA = importlib.resources.files("topohub") / "data"


def names_in(collection):
    files = (entry.name for entry in (DATA / collection).iterdir())
    found = sorted(name for name in files if name.endswith(".json"))
    return [f"{collection}/{name.removesuffix('.json')}" for name in found]


SNDLIB, ZOO = names_in("sndlib"), names_in("topozoo")
# The largest take seconds; they are mended with the slow ones.
LARGE = {"sndlib/brain", "sndlib/ta2", "topozoo/Latnet"}
FEW = sorted({*SNDLIB, *ZOO[::20]} - LARGE)


def network(name):
    data = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    graph = nx.Graph()
    graph.add_nodes_from(str(node["id"]) for node in data["nodes"])
    pairs = [(str(link["source"]), str(link["target"])) for link in data["edges"]]
    graph.add_edges_from((a, b) for a, b in pairs if a != b)
    return graph


def check(name):
    graph = network(name)
    found = examine(Topology.from_networkx(graph), tolerate=1)
    assert found.safe == (nx.node_connectivity(graph) > 1)
    assert found.gap == 0
    assert len(found.links_to_add) == graph_blocks(graph).missing_links
    graph.add_edges_from(found.links_to_add)
    assert nx.node_connectivity(graph) >= 2


def test_the_package_has_the_networks_the_table_counts():
    assert (len(SNDLIB), len(ZOO)) == (26, 203)


@each("name", FEW)
def test_a_network_is_mended(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*SNDLIB, *ZOO} - set(FEW)))
def test_every_other_network_is_mended_too(name):
    check(name)
