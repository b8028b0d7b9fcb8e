"""A network is drawn so that it can be read without colours, and in no more bytes."""

from xml.etree import ElementTree

from veilsum.graphs.topology import Topology
from veilsum.report.network import MOST_LINKS, network_svg

SPACE = "{http://www.w3.org/2000/svg}"


def drawn(topology, **options):
    made = network_svg(topology, **options)
    root = ElementTree.fromstring(made)
    return {
        kind: root.findall(f"{SPACE}{kind}")
        for kind in ("rect", "circle", "path", "text")
    }


def test_every_party_and_every_link_is_there():
    ring = Topology.family("ring:6")
    found = drawn(ring, coalition=ring.parties[:2], lost=ring.parties[3:4])
    assert len(found["rect"]) == 2
    assert len(found["circle"]) == 4
    assert sum(one.get("fill") == "white" for one in found["circle"]) == 1
    dashed, solid = sorted(
        found["path"], key=lambda one: one.get("stroke-dasharray") is None
    )
    # Of a ring of six: three links at the two colluders, two at the lost one.
    assert dashed.get("d").count("M") == 5
    assert solid.get("d").count("M") == 1
    assert [one.text for one in found["text"]] == list(ring.parties)


def test_names_are_text_and_long_ones_are_cut():
    names = ("<script>alert(1)</script>", "\u202ename", "a & b")
    topology = Topology.from_edges([names[:2], names[1:]])
    assert [one.text for one in drawn(topology)["text"]] == [
        "<script>alert\N{HORIZONTAL ELLIPSIS}",
        "\\u202ename",
        "a & b",
    ]


def test_many_parties_have_no_names_and_too_many_links_are_not_drawn():
    assert not drawn(Topology.family("ring:50"))["text"]
    many = Topology.family("complete:100")
    assert len(many.edges) > MOST_LINKS
    assert not drawn(many)["path"]
    assert len(network_svg(many)) < 20_000
