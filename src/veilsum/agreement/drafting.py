"""From a scenario to what real parties agree on: the private parts are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from veilsum.agreement.consortium import (
    FORMAT,
    PUBLIC,
    Address,
    Consortium,
    consortium_from,
)
from veilsum.agreement.costs import COSTS, PRIVATE, costs_of
from veilsum.agreement.graphs import ReadGraph, topology_of
from veilsum.agreement.reading import Table, check_keys, choice, integer, names
from veilsum.agreement.scenario import (
    JOB_SECTIONS,
    OTHER_SECTIONS,
    SECTIONS,
)
from veilsum.agreement.sections import (
    COST_ONLY,
    PUBLIC_COST,
    USUAL,
    about,
    task_of,
)
from veilsum.costs.bases import Basis
from veilsum.costs.cost import common_basis
from veilsum.errors import InvalidScenarioError
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import listed
from veilsum.numbers.laws import LAWS

# What a scenario says about real parties.
DEPLOYMENT = (*SECTIONS["masks"], "addresses", "certificates")

COVERED = (
    "names a coalition for a simulation; among real parties tolerate covers every "
    "coalition of that size"
)


def consortium_of(
    table: Table,
    *,
    certificates: Mapping[str, str],
    addresses: Mapping[str, Address | None],
    run: str,
    read_graph: ReadGraph | None = None,
) -> tuple[Consortium, tuple[str, ...]]:
    """Return what the parties of a scenario agree on, and what was left out of it.

    Args:
        table: the scenario, with or without the parties' private parts.
        certificates: every party's certificate by name, PEM. A job on data calls its
            parties so, in this order, unless [parties] or the graph names them.
        addresses: where parties are dialled; those that are missing only dial.
        run: a name that no other run has.
        read_graph: opens a graph file, if the scenario names one.
    """
    check_scenario(table)
    task = task_of(table)
    topology = _topology(table, task, tuple(certificates), read_graph or _no_files)
    _check_named(topology, certificates, addresses)
    public = {name: table[name] for name in PUBLIC if name in table}
    public["graph"] = _explicit(topology)
    public["masks"] = masks_between(table)
    if "policy" in table:
        public["policy"] = _public_policy(table["policy"], topology)
    if task == "cost":
        public["cost"] = _public_cost(table["cost"], topology)
    else:
        public = {name: public[name] for name in public if name not in COST_ONLY}
    members = [
        {
            "name": name,
            "address": str(addresses.get(name) or ""),
            "certificate": certificates[name],
        }
        for name in topology.parties
    ]
    head = {"format": FORMAT, "run": run, "members": members}
    return consortium_from({**head, **public}), tuple(_left_out(table, task))


def check_scenario(table: Table) -> None:
    """Refuse a section or a key that no scenario has."""
    check_keys(
        table, ("title", *SECTIONS, *JOB_SECTIONS, *OTHER_SECTIONS), "the scenario"
    )
    known = {**SECTIONS, **JOB_SECTIONS, "deployment": DEPLOYMENT}
    for name, keys in known.items():
        section = table.get(name, {})
        if not isinstance(section, Mapping):
            raise InvalidScenarioError(f"[{name}] must be a section, found {section!r}")
        if keys:
            check_keys(section, keys, f"[{name}]")


def masks_between(table: Table) -> dict[str, Any]:
    """Return the masks of real parties: [deployment]'s, else [masks], else uniform."""
    simulated = table.get("masks", {"law": "uniform"})
    deployment = table.get("deployment", {})
    own = {key: deployment[key] for key in SECTIONS["masks"] if key in deployment}
    law = own.get("law", simulated.get("law"))
    # A new law takes over what it has: a sigma, or a grid, and not the other's.
    kept = ("law", *LAWS[law].keys) if law in LAWS else SECTIONS["masks"]
    return {key: simulated[key] for key in kept if key in simulated} | own


def _topology(
    table: Table, task: str, given: tuple[str, ...], read_graph: ReadGraph
) -> Topology:
    graph, parties = table.get("graph", {}), table.get("parties", {})
    named = names(parties["names"], "[parties] names") if "names" in parties else given
    with about("graph"):
        if task == "cost":
            found = topology_of(graph, parties, read_graph)
        elif not graph:
            found = Topology.family(f"complete:{len(named)}").renamed(named)
        elif "family" in graph:
            found = topology_of(graph, {"names": named}, read_graph)
        else:
            found = topology_of(graph, parties, read_graph)
    if found.directed:
        raise InvalidScenarioError(
            "[graph] has links in one direction, and a run needs links that carry both "
            "ways: use an undirected graph"
        )
    return found


def _no_files(name: str, weight: str | None) -> NoReturn:
    del weight
    raise InvalidScenarioError(
        f"[graph] names the file {name!r}, which is not read here: write family or "
        "edges instead"
    )


def _check_named(
    topology: Topology,
    certificates: Mapping[str, str],
    addresses: Mapping[str, Address | None],
) -> None:
    with about("deployment"):
        topology.indices([*certificates, *addresses])
    missing = [name for name in topology.parties if name not in certificates]
    if missing:
        raise InvalidScenarioError(
            f"there is no certificate of {listed(missing)}: each party makes its own "
            "with veilsum identity new NAME and sends the .crt file; name it in "
            "[deployment] certificates or with --certificate"
        )


def _explicit(topology: Topology) -> dict[str, Any]:
    """Return the graph link by link: nobody has to build it the same way."""
    pairs = [list(topology.names(edge)) for edge in topology.edges.tolist()]
    if (topology.weights == 1.0).all():
        return {"edges": pairs}
    return {"edges": pairs, "weights": topology.weights.tolist()}


def _public_cost(section: Table, topology: Topology) -> dict[str, Any]:
    """Return what everybody may know of a cost; its size is read off the entries."""
    kind = choice(section, "cost", "kind", list(COSTS))
    known = ("kind", *PUBLIC_COST[kind])
    public = {key: section[key] for key in known if key in section}
    if COSTS[kind][0] not in section:
        return public
    basis = _basis(section, kind, topology)
    for key in (key for key in PUBLIC_COST[kind] if hasattr(basis, key)):
        found = getattr(basis, key)
        if public.setdefault(key, found) != found:
            raise InvalidScenarioError(
                f"[cost] {key} is {public[key]!r}, and the entries have {found}"
            )
    return public


def _public_policy(section: Table, topology: Topology) -> dict[str, Any]:
    """Return the policy without a named coalition; refuse one beyond `tolerate`.

    Real parties are promised the same against whoever colludes, up to that number.
    """
    named = names(section.get("corrupted", ()), "[policy] corrupted")
    with about("policy"):
        size = len(topology.indices(named))
    covered = integer(section, "policy", "tolerate", USUAL["tolerate"])
    if size > covered:
        raise InvalidScenarioError(
            f"[policy] corrupted names {size} parties ({listed(named)}), and what real "
            f"parties are promised holds against {covered} (tolerate), whoever they "
            f"are: set tolerate = {size}, or name fewer"
        )
    return {key: section[key] for key in section if key != "corrupted"}


def _basis(section: Table, kind: str, topology: Topology) -> Basis:
    key, others, _ = COSTS[kind]
    described = {k: section[k] for k in ("kind", key, *others) if k in section}
    with about("cost"):
        costs = costs_of(described, topology)
        return common_basis(dict(zip(topology.parties, costs, strict=True)))


def _left_out(table: Table, task: str) -> list[str]:
    """Return what the members will not read in their file, and why."""
    found = []
    if task == "cost":
        private = [key for key in PRIVATE if key in table["cost"]]
        found += [f"[cost] {key}: private, each party gives its own" for key in private]
    else:
        found += [
            f"[{name}]: a [{task}] does not use it"
            for name in COST_ONLY
            if name in table
        ]
    if "data" in table:
        found.append("[data]: private, each party gives its own table")
    if "corrupted" in table.get("policy", {}):
        found.append(f"[policy] corrupted: {COVERED}")
    simulation = table.get("simulation", {})
    found += [f"[simulation] {key}: {_why(key)}" for key in simulation]
    return found + _replaced_masks(table)


def _why(key: str) -> str:
    reasons = {
        "seed": "real parties draw their shares from the operating system",
        "bounds_from_costs": "agree on bounds, and write them in [method]",
    }
    return reasons.get(key, "for simulated parties only")


def _replaced_masks(table: Table) -> list[str]:
    masks, used = table.get("masks", {}), masks_between(table)
    gone = [key for key in masks if masks[key] != used.get(key)]
    return [f"[masks] {key} = {masks[key]!r}: [deployment] replaces it" for key in gone]
