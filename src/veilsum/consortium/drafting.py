"""From a scenario to what real parties agree on: the private parts are left out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

from veilsum.consortium.addresses import Address
from veilsum.consortium.consortium import (
    FORMAT,
    TITLE_LETTERS,
    Consortium,
    consortium_from,
    question_heading,
)
from veilsum.consortium.costs import PRIVATE
from veilsum.consortium.kinds import (
    kind_of_question_heading,
    question_section_headings,
)
from veilsum.consortium.sections import (
    COST_ONLY,
    GraphSection,
    LinksSection,
    MasksSection,
    PolicySection,
    ReadGraph,
    ScenarioFile,
)
from veilsum.consortium.study import AgreedStudy, study_from
from veilsum.errors import InvalidScenarioError, VeilsumError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import LAWS
from veilsum.numbers.arrays import listed_names
from veilsum.reading import Section, about_read_section
from veilsum.tables.schema import Schema

COVERED = (
    "names a coalition for a simulation; among real parties tolerate covers every "
    "coalition of that size"
)


def consortium_of(
    file: ScenarioFile,
    *,
    certificates: Mapping[str, str],
    addresses: Mapping[str, Address | None],
    run: str,
    organiser: str = "",
    relay: Mapping[str, Any] | None = None,
    read_graph: ReadGraph | None = None,
) -> tuple[Consortium, tuple[str, ...]]:
    """Return what the parties of a scenario agree on, and what was left out of it.

    Args:
        file: the scenario, with or without the parties' private parts.
        certificates: every party's certificate by name, PEM. A job on data calls its
            parties so, in this order, unless [parties] or the graph names them.
        addresses: where parties are dialled; those that are missing only dial.
        run: a name that no other run has.
        organiser: the member that writes the file, if it says so.
        relay: the [deployment] of the new file, if members may meet at a relay.
        read_graph: opens a graph file, if the scenario names one.
    """
    table, left_out = _draft_consortium_table(
        file,
        question_heading(file.given()),
        certificates=certificates,
        addresses=addresses,
        run=run,
        organiser=organiser,
        relay=relay,
        read_graph=read_graph or _refuse_graph_files_in_draft,
    )
    return consortium_from(table), left_out


def study_of_scenario_file(
    file: ScenarioFile, *, read_graph: ReadGraph | None = None, **known: Any
) -> tuple[AgreedStudy, tuple[str, ...]]:
    """Return the same where the scenario has several questions; see `consortium_of`."""
    asked = file.given().keys() & {*question_section_headings()}
    if asked:
        raise InvalidScenarioError(
            f"the scenario has [[question]], and [{min(asked)}] beside it: write that "
            f"as [question.{min(asked)}], under a [[question]] with a name",
            code="section-beside-questions",
        )
    table, left_out = _draft_consortium_table(
        file, "question", read_graph=read_graph or _refuse_graph_files_in_draft, **known
    )
    study = study_from(table)
    schema = study.first.schema
    if schema is None or schema.missing != "drop" or "complete" in table["schema"]:
        return study, left_out
    complete = sorted(_columns_every_row_needs(study, schema))
    return study_from(
        {**table, "schema": {**table["schema"], "complete": complete}}
    ), left_out


def _columns_every_row_needs(study: AgreedStudy, schema: Schema) -> set[str]:
    """Return the columns of all questions except those that count missing values."""
    found = set[str]()
    whole = replace(schema, complete=schema.columns)
    for one in study.questions.values():
        question = one.question
        with suppress(VeilsumError):  # of a question that every member refuses
            job = kind_of_question_heading(question.heading).job(question, whole)
            found |= {*job.schema.names} if job.schema.complete else set()
    return found


def _draft_consortium_table(
    file: ScenarioFile,
    task: str,
    *,
    certificates: Mapping[str, str],
    addresses: Mapping[str, Address | None],
    run: str,
    organiser: str = "",
    relay: Mapping[str, Any] | None = None,
    read_graph: ReadGraph,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the table of a file that real parties hold, and what was left out."""
    topology = _draft_consortium_topology(file, task, tuple(certificates), read_graph)
    _check_drafted_members_named(topology, certificates, addresses)
    copied = (task, "schema", *(COST_ONLY if task == "cost" else ()))
    public = {name: getattr(file, name) for name in copied}
    sections = {
        name: part.given() if isinstance(part, Section) else [*part]
        for name, part in public.items()
        if part is not None
    }
    if file.cost is not None:
        sections["cost"] = file.cost.public(topology)
    if file.policy is not None:
        sections["policy"] = _draft_public_policy(file.policy, topology)
    members = [
        {
            "name": name,
            "address": str(addresses.get(name) or ""),
            "certificate": certificates[name],
        }
        for name in topology.parties
    ]
    # Members see its title among other lines, so it is one: a scenario's first.
    first = file.title.strip().partition("\n")[0]
    title = " ".join(first.split())[:TITLE_LETTERS]
    table = {
        "format": FORMAT,
        "run": run,
        "members": members,
        **({"title": title} if title else {}),
        **({"organiser": organiser} if organiser else {}),
        **({"deployment": dict(relay)} if relay else {}),
        "graph": LinksSection.of(topology).given(),
        "masks": masks_between_members(file),
        **sections,
    }
    return table, tuple(_left_out_of_consortium_draft(file, task))


def masks_between_members(file: ScenarioFile) -> dict[str, Any]:
    """Return the masks of real parties: [deployment]'s, else [masks], else uniform."""
    simulated = (file.masks or MasksSection(law="uniform")).given()
    deployment = {} if file.deployment is None else file.deployment.given()
    own = {
        key: deployment[key]
        for key in MasksSection.__struct_fields__
        if key in deployment
    }
    law = own.get("law", simulated["law"])
    # A new law takes over what it has: a sigma, or a grid, and not the other's.
    kept = ("law", *LAWS[law].keys)
    return {key: simulated[key] for key in kept if key in simulated} | own


def _draft_consortium_topology(
    file: ScenarioFile, task: str, given: tuple[str, ...], read_graph: ReadGraph
) -> Topology:
    names = None if file.parties is None else file.parties.names
    graph = file.graph or GraphSection()
    with about_read_section("graph"):
        if task == "cost" or graph.file is not None or graph.edges is not None:
            found = graph.topology(names, read_graph)
        elif graph.given():
            found = graph.topology(names or given, read_graph)
        else:
            called = names or given
            found = Topology.family(f"complete:{len(called)}").renamed(called)
    if found.directed:
        raise InvalidScenarioError(
            "[graph] has links in one direction, and a run needs links that carry both "
            "ways: use an undirected graph",
            code="directed-graph",
        )
    return found


def _refuse_graph_files_in_draft(name: str, weight: str | None) -> NoReturn:
    del weight
    raise InvalidScenarioError(
        f"[graph] names the file {name!r}, which is not read here: write family or "
        "edges instead",
        code="graph-file-refused",
    )


def _check_drafted_members_named(
    topology: Topology,
    certificates: Mapping[str, str],
    addresses: Mapping[str, Address | None],
) -> None:
    with about_read_section("deployment"):
        topology.indices([*certificates, *addresses])
    missing = [name for name in topology.parties if name not in certificates]
    if missing:
        raise InvalidScenarioError(
            f"there is no certificate of {listed_names(missing)}: each party makes its "
            "own "
            "with veilsum identity new NAME and sends the .crt file; name it in "
            "[deployment] certificates or with --certificate",
            code="missing-certificate",
        )


def _draft_public_policy(section: PolicySection, topology: Topology) -> dict[str, Any]:
    """Return the policy without a named coalition; refuse one beyond `tolerate`.

    Real parties are promised the same against whoever colludes, up to that number.
    """
    named = section.corrupted or ()
    with about_read_section("policy"):
        size = len(topology.indices(named))
    covered = section.policy.tolerate
    if size > covered:
        raise InvalidScenarioError(
            f"[policy] corrupted names {size} parties ({listed_names(named)}), and "
            "what real "
            f"parties are promised holds against {covered} (tolerate), whoever they "
            f"are: set tolerate = {size}, or name fewer",
            code="coalition-too-large",
        )
    return {key: v for key, v in section.given().items() if key != "corrupted"}


def _left_out_of_consortium_draft(file: ScenarioFile, task: str) -> list[str]:
    """Return what the members will not read in their file, and why."""
    given, found = file.given(), []
    if file.cost is not None:
        private = [key for key in PRIVATE if key in file.cost.given()]
        found += [f"[cost] {key}: private, each party gives its own" for key in private]
    else:
        found += [
            f"[{name}]: a [{task}] does not use it"
            for name in COST_ONLY
            if name in given
        ]
    if "data" in given:
        found.append("[data]: private, each party gives its own table")
    if file.policy is not None and file.policy.corrupted is not None:
        found.append(f"[policy] corrupted: {COVERED}")
    if file.simulation is not None:
        simulated = file.simulation.given()
        found += [
            f"[simulation] {key}: {_why_scenario_key_is_left_out(key)}"
            for key in simulated
        ]
    masks = {} if file.masks is None else file.masks.given()
    used = masks_between_members(file)
    gone = [key for key in masks if masks[key] != used.get(key)]
    return found + [
        f"[masks] {key} = {masks[key]!r}: [deployment] replaces it" for key in gone
    ]


def _why_scenario_key_is_left_out(key: str) -> str:
    reasons = {
        "seed": "real parties draw their shares from the operating system",
        "bounds_from_costs": "agree on bounds, and write them in [method]",
    }
    return reasons.get(key, "for simulated parties only")
