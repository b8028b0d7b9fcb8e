"""Graphs from files: three formats, one graph."""

import json

import networkx as nx
import numpy as np
import pytest

from refusals import refused
from veilsum.errors import InvalidGraphError
from veilsum.files.graphs import read_topology, topology_from
from veilsum.graphs.topology import Topology

LINKS = [("ann", "bob"), ("bob", "cem"), ("cem", "ann"), ("cem", "dee")]


@pytest.fixture
def graph():
    made = nx.Graph(LINKS)
    nx.set_edge_attributes(made, 4.0, "noise")
    return made


def written(folder, graph, kind):
    path = folder / f"graph.{kind}"
    if kind == "graphml":
        nx.write_graphml(graph, path)
    elif kind == "json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    else:
        path.write_text("".join(f"{a} {b}  # link\n" for a, b in graph.edges))
    return path


@pytest.mark.parametrize("kind", ["txt", "graphml", "json"])
def test_every_format_gives_the_same_graph(tmp_path, graph, kind):
    found = read_topology(written(tmp_path, graph, kind))
    assert found == Topology.from_networkx(graph)


def test_node_link_files_of_both_ages_are_read(tmp_path, graph):
    path = tmp_path / "old.json"
    path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))
    assert read_topology(path) == Topology.from_networkx(graph)


def test_commas_separate_names_as_well(tmp_path):
    path = tmp_path / "graph.csv"
    path.write_text("a,b\nb, c\n\n")
    assert read_topology(path).parties == ("a", "b", "c")


@pytest.mark.parametrize("kind", ["graphml", "json"])
def test_a_named_attribute_becomes_the_noise(tmp_path, graph, kind):
    found = read_topology(written(tmp_path, graph, kind), weight="noise")
    np.testing.assert_array_equal(found.weights, np.full(4, 4.0))


def test_a_third_column_is_the_attribute_weight(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text("a b 2.5\nb c 1\n")
    found = read_topology(path, weight="weight")
    assert found.weights.tolist() == [2.5, 1.0]
    assert read_topology(path).weights.tolist() == [1.0, 1.0]


def test_a_missing_attribute_names_the_edge(tmp_path, graph):
    with refused("missing-edge-attribute", InvalidGraphError, mentions=("distance",)):
        read_topology(written(tmp_path, graph, "json"), weight="distance")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bad.graphml", "<graphml"),
        ("bad.json", "{"),
        ("bad.json", '{"nodes": 3}'),
        ("bad.txt", "a b c d\n"),
        ("bad.txt", "a b heavy\n"),
    ],
)
def test_a_file_that_is_no_graph_is_refused_with_its_name(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidGraphError, match=name):
        read_topology(path)


def test_a_spec_is_a_file_if_there_is_one_and_a_family_otherwise(tmp_path):
    path = tmp_path / "ring"
    path.write_text("a b\n")
    assert topology_from(str(path)).parties == ("a", "b")
    assert topology_from("ring:5").n_parties == 5


LAUGHS = '<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    "declared",
    [LAUGHS, '<!DOCTYPE g SYSTEM "file:///etc/hostname">', "<!doctype g>"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_graph_declares_nothing(tmp_path, declared, encoding):
    path = tmp_path / "graph.graphml"
    path.write_bytes(f"{declared}<graphml>&b;</graphml>".encode(encoding))
    with refused("wrong-graph-format", InvalidGraphError):
        read_topology(path)
