"""Requests of the planner page: drawn networks, analysed by the package.

Nothing is computed here: a drawn network becomes a `Topology`, which `plan`,
`worst_case` and `examine` analyse. All input comes from a browser, and its size is
bounded before work is done for it.

This module is also the program of a process that answers one request after the other,
lines of JSON in and out. Its owner may end it at any time: a search for colluders
cannot be interrupted otherwise, and the page has drawn ten other networks meanwhile.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from math import isfinite, prod
from pathlib import PurePath
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
import numpy as np

# Read with the process, not with the first question.
from veilsum.consortium.consortium import check_member_name
from veilsum.consortium.sections import ScenarioFile
from veilsum.errors import InvalidGraphError, InvalidInputError, VeilsumError
from veilsum.files.consortiums import toml_text_of_table
from veilsum.files.graphs import topology_in_file_content
from veilsum.files.scenarios import toml_in_file_content
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.layout import layout_of_graph
from veilsum.graphs.topology import Topology
from veilsum.privacy.diagnosis import Diagnosis, examine
from veilsum.privacy.planner import (
    NetworkPlan,
    PrivacyTarget,
    grid_bits_for_sigma,
    plan,
    privacy_target_of_plan,
)
from veilsum.privacy.records import record_exchange_distance
from veilsum.privacy.worst_case import check_tolerated_colluders, worst_case
from veilsum.reading import Number, Section, Text, Whole, read_section

# What a page may draw, and the bytes of a file that it may bring.
MOST_PARTIES, MOST_LINKS, MOST_FILE = 500, 5_000, 1 << 20
# Below so many parties all coalitions are looked at, as far as seconds go; from there
# on as far as a second goes, and what is found is an interval.
EXACT_BELOW, EXACT_WORK, QUICK_WORK = 40, 1e5, 1e4
# No distance or sigma of people is beyond these; a file may not say more either.
LEAST, MOST = 1e-100, 1e100

Link = Annotated[
    tuple[tuple[int, int], ...],
    msgspec.Meta(description="a list of pairs of places, such as [[0, 1], [1, 2]]"),
]


class PlannerTarget(Section, frozen=True, kw_only=True):
    """Privacy target, as entered by a person; either `within` or `distance` is given.

    Attributes:
        success: maximum success rate of the best attacker, above 0.5.
        within: distance between the two numbers of a party that it has to tell apart.
        distance: distance between two inputs that it has to tell apart.
    """

    success: Number
    within: Number | None = None
    distance: Number | None = None

    @property
    def far(self) -> float:
        """||A - B|| of the inputs that are not to be told apart."""
        if (self.within is None) == (self.distance is None):
            raise InvalidInputError(
                "say how far apart numbers are, or inputs: one of within and distance",
                code="conflicting-distance-options",
            )
        if self.within is None:
            assert self.distance is not None
            return _bounded_planner_number(self.distance, "a distance")
        width = _bounded_planner_number(self.within, "how far apart two numbers are")
        return record_exchange_distance({"number": (0.0, width)}, model="sum").distance

    @property
    def wanted(self) -> PrivacyTarget:
        return privacy_target_of_plan(
            attacker_success=float(self.success), epsilon=None, distance=self.far
        )


class PlannerQuestion(Section, frozen=True, kw_only=True):
    """A network as it is drawn, who may collude, and what is wanted of it.

    Attributes:
        links: by the places of their ends in that list.
        sigma: of shares on a lattice; None for what the target needs.
    """

    parties: Annotated[tuple[str, ...], msgspec.Meta(description="a list of names")]
    links: Link
    tolerate: Whole
    target: PlannerTarget
    law: Literal["lattice", "uniform"] = "lattice"
    sigma: Number | None = None

    @property
    def topology(self) -> Topology:
        _check_planner_graph_size(len(self.parties), len(self.links))
        names = [*map(check_member_name, self.parties)]
        places = range(len(names))
        for link in self.links:
            if not all(one in places for one in link):
                raise InvalidGraphError(
                    f"a link joins two of {len(names)} parties by their places, from 0 "
                    f"to {len(names) - 1}, found {list(link)}",
                    code="index-out-of-range",
                )
        pairs = [(names[a], names[b]) for a, b in self.links]
        found = Topology.from_edges(pairs, parties=names)
        check_tolerated_colluders(found, self.tolerate)
        return found

    @property
    def noise(self) -> float | None:
        """Sigma, if it was given and the law has one."""
        if self.sigma is None or self.law == "uniform":
            return None
        return _bounded_planner_number(self.sigma, "sigma")


class PlannerFile(Section, frozen=True, kw_only=True):
    """A file that somebody opened in the page.

    Attributes:
        name: whose ending tells the format.
    """

    name: Text
    text: Text


class PlannerFamily(Section, frozen=True, kw_only=True):
    """A named network, such as ring:9."""

    family: Text


def _bounded_planner_number(value: float, what: str) -> float:
    if not isfinite(value) or not LEAST <= value <= MOST:
        raise InvalidInputError(
            f"{what} must be positive, from {LEAST:g} to {MOST:g}, found {value:g}",
            code="not-positive",
        )
    return float(value)


def _check_planner_graph_size(parties: int, links: int) -> None:
    if parties > MOST_PARTIES or links > MOST_LINKS:
        raise InvalidGraphError(
            f"the page draws at most {MOST_PARTIES} parties and {MOST_LINKS:,} links, "
            f"found {parties:,} and {links:,}: veilsum plan --graph takes larger ones",
            code="too-many-parties",
        )


def planner_answer(asked: PlannerQuestion) -> dict[str, Any]:
    """Return what holds of a network: `plan` and `worst_case`, in one answer.

    Epsilon is a number where all coalitions could be looked at, else an interval;
    where as many as may collude cut the network there is none, and the cut is named.
    """
    topology, wanted = asked.topology, asked.target.wanted
    work = planner_search_work(topology)
    needed = _planner_network_needed(asked, topology, wanted, work)
    sigma = asked.noise
    if sigma is None and asked.law != "uniform":
        # Nothing depends on it where the network is cut.
        sigma = 1.0 if needed is None else needed.sigma
    found = worst_case(
        topology,
        tolerate=asked.tolerate,
        sigma=sigma,
        law=asked.law,
        grid=None if sigma is None else grid_bits_for_sigma(topology, sigma),
        distance=wanted.distance,
        most_work=work,
        progress=False,
    )
    worst = found.worst
    assert worst is not None
    left = topology.without(topology.indices(worst.worst_coalition))
    return {
        "status": found.status,
        "sentence": found.sentence,
        "law": asked.law,
        "sigma": None if needed is None and asked.noise is None else sigma,
        "needed": None if needed is None else needed.sigma,
        "epsilon": found.epsilon,
        "epsilon_lower": worst.epsilon_lower,
        "epsilon_upper": worst.epsilon_upper,
        "exact": worst.exact,
        "success": found.attacker_success,
        "target": {
            "success": wanted.attacker_success,
            "distance": wanted.distance,
            "epsilon": wanted.epsilon,
        },
        "met": _planner_target_is_met(found.attacker_success, wanted),
        "coalition": sorted(topology.indices(worst.worst_coalition)),
        "cut": None if worst.cut is None else sorted(topology.indices(worst.cut)),
        "pieces": [
            sorted(topology.indices(left.names(one))) for one in graph_components(left)
        ],
        "connectivity": worst.vertex_connectivity,
        "degrees": [int(topology.degrees.min()), int(topology.degrees.max())],
    }


def _planner_target_is_met(success: float | None, wanted: PrivacyTarget) -> bool:
    assert wanted.attacker_success is not None
    return success is not None and success <= wanted.attacker_success


def planner_search_work(topology: Topology) -> float:
    """Return how much a search for colluders may do while somebody draws."""
    return EXACT_WORK if topology.n_parties < EXACT_BELOW else QUICK_WORK


def _planner_network_needed(
    asked: PlannerQuestion, topology: Topology, wanted: PrivacyTarget, work: float
) -> NetworkPlan | None:
    try:
        return plan(
            tolerate=asked.tolerate,
            attacker_success=wanted.attacker_success,
            distance=wanted.distance,
            law=asked.law,
            graph=topology,
            most_work=work,
            progress=False,
        ).best
    except InvalidGraphError:  # cut, or nothing could be proved: the answer says which
        return None


def planner_repairs(asked: PlannerQuestion) -> dict[str, Any]:
    """Return what `examine` says: who cuts the network, and which links mend it."""
    topology = asked.topology
    found: Diagnosis = examine(topology, tolerate=asked.tolerate, progress=False)

    def places(names: tuple[str, ...]) -> list[int]:
        return [topology.index(name) for name in names]

    return {
        "safe": found.safe,
        "verdict": found.verdict,
        "cuts": [
            {"parties": places(cut.parties), "sentence": cut.sentence}
            for cut in found.cuts
        ],
        "links": [places(link) for link in found.links_to_add],
        "gap": found.gap,
        "helpful": [
            {"link": places(one.link), "ratio": one.epsilon_ratio}
            for one in found.helpful_links
        ],
    }


def planner_network_in_file(asked: PlannerFile) -> dict[str, Any]:
    """Return the network in a file: edge list, GraphML, node-link JSON or TOML."""
    name = PurePath(asked.name.replace("\\", "/")).name
    content = asked.text.encode()
    if len(content) > MOST_FILE or len(name) > 200:
        raise InvalidGraphError(
            f"a file of at most {MOST_FILE:,} bytes can be opened in the page",
            code="file-too-large",
        )
    shown = "the file"
    if not name.lower().endswith(".toml"):
        return planner_drawing(
            topology_in_file_content(content, shown, PurePath(name).suffix)
        )
    file = read_section(
        toml_in_file_content(content, shown), ScenarioFile, "the scenario"
    )
    if file.graph is None or not file.graph.given():
        raise InvalidGraphError(
            "the scenario has no [graph] to draw: open one that has, or a graph file",
            code="graph-missing",
        )
    if file.graph.family is not None:
        _check_planner_graph_family(file.graph.family)
    names = None if file.parties is None else file.parties.names
    found = planner_drawing(file.graph.topology(names, _refuse_planner_graph_file))
    policy = file.policy
    if policy is not None and policy.tolerate is not None:
        found["tolerate"] = policy.tolerate
    return found


def _refuse_planner_graph_file(name: str, weight: str | None) -> Topology:
    del weight
    raise InvalidGraphError(
        f"the scenario names the graph file {name!r}: open that file itself",
        code="graph-file-refused",
    )


def planner_network_of_family(asked: PlannerFamily) -> dict[str, Any]:
    _check_planner_graph_family(asked.family)
    return planner_drawing(Topology.family(asked.family))


def _check_planner_graph_family(spec: str) -> None:
    """Refuse what would be far too large, before it is made."""
    name = spec.partition(":")[0].strip()
    numbers = [int(one[:9]) for one in re.findall(r"\d+", spec.partition("seed=")[0])]
    many = max(numbers, default=0)
    if name == "grid":
        many = prod(numbers)
    elif name == "hypercube":
        many = 2 ** min(many, 99)
    if len(spec) > 100 or many > MOST_PARTIES:
        raise InvalidGraphError(
            f"the page draws at most {MOST_PARTIES} parties: write a smaller network",
            code="too-many-parties",
        )


def planner_drawing(topology: Topology) -> dict[str, Any]:
    """Return a network with places for its parties, within the unit circle."""
    _check_planner_graph_size(topology.n_parties, topology.n_edges)
    names = [*map(check_member_name, topology.parties)]
    if topology.directed:
        raise InvalidGraphError(
            "the file has links in one direction, and a run needs links that carry "
            "both ways: use an undirected graph",
            code="directed-graph",
        )
    weighted = bool(np.any(topology.weights != 1.0))
    return {
        "parties": names,
        "links": topology.edges.tolist(),
        "places": layout_of_graph(topology).round(6).tolist(),
        "notes": ["weights of links were left out: all count alike"] * weighted,
    }


def planner_scenario_file(asked: PlannerQuestion) -> dict[str, Any]:
    """Return a scenario file for this network, and what to type to run it.

    Every party's number is made up, and 0: it is for whoever runs the file to fill in.
    """
    topology, found = asked.topology, planner_answer(asked)
    if found["cut"] is not None:
        raise InvalidGraphError(
            f"this network does not withstand {asked.tolerate}: mend it before it is "
            "written to a file",
            code="graph-not-tolerant",
        )
    sigma = found["sigma"]
    masks: dict[str, Any] = {"law": asked.law}
    if sigma is not None:
        masks |= {"sigma": sigma, "grid": grid_bits_for_sigma(topology, sigma)}
    edges = [[topology.parties[a], topology.parties[b]] for a, b in asked.links]
    table = {
        "title": f"A network of {topology.n_parties} parties from the planner",
        "parties": {"names": list(topology.parties)},
        "graph": {"edges": edges},
        "cost": {
            "kind": "affine",
            "remainder": "squared-norm",
            "coefficients": [[0.0]] * topology.n_parties,
        },
        "domain": {"kind": "all"},
        "masks": masks,
        "method": {"name": "one-shot"},
        "policy": {"tolerate": asked.tolerate},
        "simulation": {"seed": 0},
    }
    read_section(table, ScenarioFile, "the scenario")
    text = (
        "# Drawn with veilsum plan --page. The coefficients are every party's own "
        "number:\n# here 0, made up. The answer is minus half their average.\n"
        f"{toml_text_of_table(table)}"
    )
    return {
        "name": "network.toml",
        "text": text,
        "commands": [
            "veilsum check network.toml",
            "veilsum solve network.toml",
            "veilsum up network.toml",
        ],
    }


# What a page may ask for: by the last part of an address.
ASKED: Mapping[str, tuple[type[Section], Callable[[Any], dict[str, Any]]]] = {
    "plan": (PlannerQuestion, planner_answer),
    "mend": (PlannerQuestion, planner_repairs),
    "file": (PlannerFile, planner_network_in_file),
    "family": (PlannerFamily, planner_network_of_family),
    "export": (PlannerQuestion, planner_scenario_file),
}


def planner_reply(what: str, body: bytes) -> dict[str, Any]:
    """Return the answer to a question in JSON, or what is wrong with it, in words."""
    kind, work = ASKED[what]
    try:
        return {
            "answer": work(
                read_section(_planner_request_json(body), kind, "the question")
            )
        }
    except VeilsumError as error:
        return {"error": str(error)}
    except RecursionError:
        return {"error": "the question has lists inside each other too deep to be read"}
    except MemoryError:
        return {"error": "this network takes more memory than there is"}


def _planner_request_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidInputError("the question is not JSON", code="not-json") from None


def answer_planner_questions(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer line after line until there are no more: what to do, and its JSON."""
    # Everything is loaded and used once before somebody waits for it.
    first = {"parties": ["a", "b", "c"], "links": [[0, 1], [1, 2], [0, 2]]}
    target = {"success": 0.51, "within": 1.0}
    warm = msgspec.json.encode({**first, "tolerate": 1, "target": target})
    for what in ("plan", "mend", "export"):
        planner_reply(what, warm)
    answers.write(b"ready\n")
    answers.flush()
    for line in questions:
        asked, _, body = line.partition(b" ")
        answers.write(msgspec.json.encode(planner_reply(asked.decode(), body)) + b"\n")
        answers.flush()


if __name__ == "__main__":
    answer_planner_questions(sys.stdin.buffer, sys.stdout.buffer)
