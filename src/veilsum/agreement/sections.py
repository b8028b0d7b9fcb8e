"""Whether real parties can run what a consortium file says.

Each check raises `InvalidScenarioError` with the section, so that the organiser mends
the file before anybody else sees it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from veilsum.agreement.costs import PRIVATE, affine
from veilsum.agreement.graphs import pairs_of
from veilsum.agreement.reading import (
    Table,
    check_keys,
    choice,
    entries,
    flag,
    integer,
    need,
    number,
)
from veilsum.agreement.scenario import (
    JOB_COMMANDS,
    JOB_SECTIONS,
    SECTIONS,
    masks_of,
    public_scenario,
)
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.graphs.connectivity import components
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import listed
from veilsum.protocol.plan import Plan, Policy

if TYPE_CHECKING:
    from veilsum.agreement.consortium import Consortium

# Each kind of cost: what everybody knows of it. The rest is each party's own.
PUBLIC_COST: dict[str, tuple[str, ...]] = {
    "affine": ("remainder", "dim"),
    "squared-distance": ("dim",),
    "polynomial": ("dim", "degree"),
    "quadratic": ("dim",),
}
# What is run: private costs, or one of the jobs on data.
TASKS = ("cost", *JOB_COMMANDS)
# Sections that say how private costs are minimised; jobs do not use them.
COST_ONLY = ("domain", "method", "stopping")
# Jobs on tables: everybody must know what a table looks like.
ON_TABLES = ("model", "statistics")
# What real parties keep to where their policy says nothing else.
USUAL = {"tolerate": 1, "drop": False}

SCHEMA_HINT = (
    "real parties cannot read one off all tables: write down what every table looks "
    "like, as in [schema.columns] with one line for each column, such as "
    'age = { kind = "number", minimum = 0, maximum = 120 }'
)


def check_agreement(found: Consortium) -> None:
    """Refuse an agreement that real parties cannot run, naming the section."""
    sections = found.sections
    for name in sections:
        if name != "title" and not isinstance(sections[name], dict):
            raise InvalidScenarioError(f"[{name}] must be a section")
    if not isinstance(sections.get("title", ""), str):
        raise InvalidScenarioError("title must be a text")
    _check_graph(found)
    _check_links(found)
    _check_masks(sections.get("masks", {}), found.topology)
    _check_policy(sections.get("policy", {}))
    if task_of(sections) == "cost":
        _check_costs(sections)
    else:
        _check_job(sections)


def task_of(table: Table) -> str:
    """Return the one section that says what is run."""
    found = [name for name in TASKS if name in table]
    if len(found) != 1:
        choices = ", ".join(f"[{name}]" for name in TASKS)
        raise InvalidScenarioError(
            f"a consortium runs exactly one of {choices}, found "
            f"{listed(found) or 'none'}"
        )
    return found[0]


def policy_of(sections: Table) -> Policy:
    """Return what the machines of real parties keep to."""
    kept = {one.name for one in fields(Policy)}
    known = {**USUAL, **sections.get("policy", {})}
    found = Policy(**{key: known[key] for key in known if key in kept})
    least = min(3, found.minimum_honest + found.tolerate)
    return replace(found, minimum_parties=least)


def refusal(found: Consortium, members: Collection[str]) -> str | None:
    """Say why these members may not go on without the others, if they may not."""
    topology, policy = found.topology, policy_of(found.sections)
    left = tuple(name for name in topology.parties if name in members)
    if len(left) < topology.n_parties and not policy.drop:
        lost = [name for name in topology.parties if name not in members]
        return f"[policy] has no drop, so nobody goes on without {listed(lost)}"
    # Of a plan only the graph and the policy decide this.
    law = masks_of(found.sections.get("masks", {})).on(topology)
    plan = Plan(
        terms=b"", topology=topology, law=law, size=1, answer_size=1, policy=policy
    )
    return plan.refusal(left)


@contextmanager
def about(section: str) -> Iterator[None]:
    """Say in which section something cannot be used."""
    try:
        yield
    except InvalidScenarioError:
        raise
    except InvalidInputError as error:
        raise InvalidScenarioError(f"[{section}] {error}") from None


def _check_graph(found: Consortium) -> None:
    graph = found.sections.get("graph", {})
    check_keys(graph, ("edges", "weights"), "[graph]")
    pairs_of(need(graph, "graph", "edges", "every link, as a pair of names"))
    if "weights" in graph:
        entries(graph["weights"])
    with about("graph"):
        pieces = components(found.topology)
    if len(pieces) > 1:
        named = "; ".join(listed(found.topology.names(piece)) for piece in pieces[:4])
        raise InvalidScenarioError(
            f"[graph] is in {len(pieces)} pieces ({named}), and parties in different "
            "ones cannot run together: add a link between them"
        )


def _check_links(found: Consortium) -> None:
    """Refuse a link that neither end can open."""
    for edge in found.topology.edges.tolist():
        a, b = (found.members[i] for i in edge)
        if a.address is None and b.address is None:
            raise InvalidScenarioError(
                f"the link {a.name} - {b.name} joins two parties without an address, "
                "and neither can dial the other: give one of them an address, or take "
                "the link out"
            )


def _check_masks(section: Table, topology: Topology) -> None:
    check_keys(section, SECTIONS["masks"], "[masks]")
    with about("masks"):
        law = masks_of(section).on(topology)
        law.check_deployable(least_weight=float(topology.weights.min()))


def _check_policy(section: Table) -> None:
    check_keys(section, SECTIONS["policy"], "[policy]")
    if "corrupted" in section:
        raise InvalidScenarioError(
            "[policy] corrupted names a coalition for a simulation, and real parties "
            "promise nothing about it by name: take it out; tolerate says how many "
            "may collude, whoever they are"
        )
    with about("policy"):
        Policy(**_waits(section))
    for key in ("tolerate", "minimum_honest", "minimum_cell"):
        if integer(section, "policy", key) < 0:
            raise InvalidScenarioError(f"[policy] {key} must not be negative")
    number(section, "policy", "release_fraction")
    if "drop" in section:
        flag(section, "policy", "drop")


def _waits(section: Table) -> dict[str, Any]:
    """Return how long parties wait for each other, as far as a policy says."""
    times = [key for key in ("resend", "meeting", "deadline") if key in section]
    found: dict[str, Any] = {key: number(section, "policy", key) for key in times}
    if "patience" in section:
        found["patience"] = integer(section, "policy", "patience")
    return found


def _check_costs(sections: Table) -> None:
    cost = sections["cost"]
    kind = choice(cost, "cost", "kind", list(PUBLIC_COST))
    _refuse_private_entries(cost)
    check_keys(cost, ("kind", *PUBLIC_COST[kind]), f"[cost] of kind {kind!r}")
    need(cost, "cost", "dim", "how many variables there are, the same for everybody")
    if integer(cost, "cost", "dim") < 1:
        raise InvalidScenarioError("[cost] dim must be at least 1")
    if kind == "affine":
        affine(cost, ())  # refuses a remainder that nobody knows
    if "schema" in sections:
        raise InvalidScenarioError("[schema] belongs to a job on data, not to a [cost]")
    used = {name: sections[name] for name in (*COST_ONLY, "masks") if name in sections}
    with about("domain"):
        public_scenario(used, cost["dim"])


def _refuse_private_entries(cost: Table) -> None:
    found = [key for key in PRIVATE if key in cost]
    if found:
        raise InvalidScenarioError(
            f"[cost] {found[0]} has no place in a consortium file, which all members "
            "read: each party gives its own when it joins; take it out"
        )


def _check_job(sections: Table) -> None:
    task = task_of(sections)
    check_keys(sections[task], JOB_SECTIONS[task], f"[{task}]")
    unused = [name for name in COST_ONLY if name in sections]
    if unused:
        raise InvalidScenarioError(
            f"[{unused[0]}] belongs to a [cost], and this is a [{task}]: take it out"
        )
    if task in ON_TABLES and "schema" not in sections:
        raise InvalidScenarioError(f"a [{task}] needs a [schema]: {SCHEMA_HINT}")
