"""Graphs from files: edge list, GraphML, node-link JSON, arrays; or a family's name."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError, ParserCreate

from veilsum.errors import InvalidGraphError
from veilsum.files.arrays import ArrayHead, mapped_array, packed_arrays
from veilsum.files.safe_read import read_file_contents
from veilsum.graphs.links import MOST_LINKS, check_room_for_links
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, listed_names

# A million links, with names and attributes; looked at before a byte is read.
MOST_BYTES = 64 << 20


def topology_from(spec: str, *, weight: str | None = None) -> Topology:
    """Return the graph a person named: a file if there is one, else a family.

    `weight` names the edge attribute that holds relative noise variances.
    """
    from veilsum.graphs.families import FAMILIES

    path = Path(spec)
    if path.is_file():
        return read_topology(path, weight=weight)
    if weight is not None:
        raise InvalidGraphError(
            f"edge weights are read from a graph file, and {spec!r} is not one",
            code="weight-without-file",
        )
    if path.suffix and spec.split(":")[0] not in FAMILIES:
        raise InvalidGraphError(f"there is no graph file {spec!r}", code="no-such-file")
    return Topology.family(spec)


def read_topology(
    path: str | Path, *, weight: str | None = None, most_links: int = MOST_LINKS
) -> Topology:
    """Return the graph in a file; the ending tells the format.

    `.graphml` is GraphML, `.json` node-link JSON, `.npy` and `.npz` links of numbered
    parties, see `read_numbered_link_file`; anything else is an edge list with
    one link per line, `a b` or `a,b`, with its weight behind if it has one, and `#` for
    comments. `weight` names the attribute that holds relative noise variances ("weight"
    in an edge list); without it all links are alike. Of numbered parties more than
    `most_links` are refused; files of other formats have a size that they may have.
    """
    path = Path(path)
    if path.suffix.lower() in {".npy", ".npz"}:
        if weight is not None:
            raise InvalidGraphError(
                f"{path} holds links only: leave the weight out",
                code="weight-without-attributes",
            )
        return read_numbered_link_file(path, most_links=most_links)
    content = read_file_contents(path, MOST_BYTES, InvalidGraphError)
    return topology_in_file_content(content, str(path), path.suffix, weight=weight)


def read_numbered_link_file(path: Path, *, most_links: int = MOST_LINKS) -> Topology:
    """Return the graph whose links a numpy file holds: two columns of whole numbers.

    A `.npz` file has them as `ends` and may say with `parties` how many there are. A
    `.npy` file is mapped into memory: where it has 32 bits, the smaller index first and
    all links in order, it stays on disk. More than `most_links` are not looked at.
    """
    parties = None
    if path.suffix.lower() == ".npy":
        ends = mapped_array(path, InvalidGraphError)
        _check_links_of_file(path, ends, most_links)
    else:
        with packed_arrays(path, InvalidGraphError) as found:
            if "ends" not in found.names:
                raise InvalidGraphError(
                    f"{path} holds no links: expected an array of two columns that is "
                    f"called ends, found {listed_names(sorted(found.names)) or 'none'}",
                    code="no-links",
                )
            head = found.head("ends")
            _check_links_of_file(path, head, most_links)
            check_room_for_links(head.shape[0])
            ends = found.read("ends", head)
            if "parties" in found.names:
                number = found.head("parties")
                if number.shape or number.dtype.kind not in "iu":
                    raise InvalidGraphError(
                        f"{path}: parties must be one whole number, found "
                        f"{number.dtype} of shape {number.shape}",
                        code="malformed-party-count",
                    )
                parties = int(found.read("parties", number))
    if parties is None:
        parties = int(ends.max()) + 1 if ends.size else 2
    return Topology.numbered(parties, ends)


def _check_links_of_file(
    path: Path, ends: Array[Any] | ArrayHead, most_links: int
) -> None:
    """Refuse what are no links, or too many, before one is looked at."""
    if len(ends.shape) != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu":
        raise InvalidGraphError(
            f"{path} holds no links: expected two columns of whole numbers, found "
            f"shape {ends.shape} of {ends.dtype}",
            code="no-links",
        )
    if ends.shape[0] > most_links:
        raise InvalidGraphError(
            f"{path} has {ends.shape[0]:,} links, and at most {most_links:,} fit",
            code="too-many-links",
        )


def topology_in_file_content(
    content: bytes, name: str, suffix: str, *, weight: str | None = None
) -> Topology:
    """Return the graph in a file that has been read; messages call it by a name."""
    import networkx as nx  # not before it is needed: it takes long to load

    reader = _READERS.get(suffix.lower(), _read_edge_list_file)
    try:
        graph = reader(content)
    except RecursionError:
        raise InvalidGraphError(
            f"{name} has objects or lists inside each other too deep to be read",
            code="nested-too-deep",
        ) from None
    except (
        ElementTree.ParseError,
        ExpatError,
        KeyError,
        TypeError,
        ValueError,
        nx.NetworkXException,
    ) as error:
        raise InvalidGraphError(
            f"{name} is not a graph in the format its name promises: {error}",
            code="wrong-graph-format",
        ) from None
    return Topology.from_networkx(graph, weight=weight)


def _read_edge_list_file(content: bytes) -> Any:
    import networkx as nx

    graph = nx.Graph()
    for number, line in enumerate(content.decode().splitlines(), start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) not in {2, 3}:
            # Without the line itself: a scenario may name a file that is no graph.
            raise ValueError(f"line {number} needs two names, found {len(words)} words")
        try:
            data = {"weight": float(words[2])} if len(words) == 3 else {}
        except ValueError:
            raise ValueError(f"line {number} has a weight that is no number") from None
        graph.add_edge(words[0], words[1], **data)
    return graph


def _graph_from_graphml_file(content: bytes) -> Any:
    import networkx as nx

    _refuse_xml_declarations_in_file(content)
    root = ElementTree.fromstring(content)  # noqa: S314 - nothing is declared in it
    ends = [e.get(end) for e in root.iter() for end in ("source", "target")]
    known = {e.get("id") for e in root.iter() if e.tag.endswith("}node")}
    _check_link_ends_in_file([end for end in ends if end is not None], known)
    return nx.read_graphml(BytesIO(content))


def _refuse_xml_declarations_in_file(content: bytes) -> None:
    """Refuse a DOCTYPE: what is declared there can be larger than any file."""

    def refuse(*_: object) -> None:
        raise ValueError("it declares a DOCTYPE, which no graph needs; take it out")

    parser = ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(content, True)  # noqa: FBT003 - all of it


def _read_node_link_file(content: bytes) -> Any:
    import networkx as nx

    data = json.loads(content.decode())
    if not isinstance(data, dict):
        raise TypeError("expected an object with nodes and links")
    # networkx renamed the key; files of both ages are about.
    key = "links" if "links" in data else "edges"
    ends = [link[end] for link in data[key] for end in ("source", "target")]
    _check_link_ends_in_file(ends, {node["id"] for node in data["nodes"]})
    return nx.node_link_graph(data, edges=key)


def _check_link_ends_in_file(ends: Iterable[Any], known: Collection[Any]) -> None:
    """Refuse a link to a party the file does not list; networkx would invent it."""
    unknown = sorted({str(end) for end in ends if end not in known})
    if unknown:
        raise ValueError(f"links name unknown parties: {listed_names(unknown)}")


_READERS: dict[str, Callable[[bytes], Any]] = {
    ".graphml": _graph_from_graphml_file,
    ".xml": _graph_from_graphml_file,
    ".json": _read_node_link_file,
}
