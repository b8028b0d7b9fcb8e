"""The costs that a scenario's [cost] describes: all parties', or one party's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veilsum.agreement.reading import (
    Table,
    check_keys,
    choice,
    entries,
    integer,
    need,
)
from veilsum.costs.cost import Cost
from veilsum.costs.remainders import NoRemainder, Remainder, SquaredNorm
from veilsum.errors import InvalidScenarioError
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import is_number

# What of a [cost] only its party knows.
PRIVATE = ("coefficients", "targets", "matrices", "vectors")
# What a person may write instead of a number, in words.
KINDS = {str: "text", bool: "true or false", dict: "a table"}


def costs_of(section: Table, topology: Topology) -> tuple[Cost, ...]:
    """Return every party's cost."""
    kind = choice(section, "cost", "kind", list(COSTS))
    key, others, build = COSTS[kind]
    check_keys(section, ("kind", key, *others), f"[cost] of kind {kind!r}")
    rows = entries(need(section, "cost", key, "one entry for each party"))
    if len(rows) != topology.n_parties:
        raise InvalidScenarioError(
            f"[cost] {key} must have one entry for each of {topology.n_parties} "
            f"parties, found {len(rows)}"
        )
    return build(section, rows)


def cost_of_party(public: Table, own: Table) -> Cost:
    """Return one party's cost: what is public of its kind, and the party's own entries.

    Each private entry stands under the key that holds all parties' in a scenario.
    """
    kind = choice(public, "cost", "kind", list(COSTS))
    key, others, build = COSTS[kind]
    private = tuple(name for name in (key, *others) if name in PRIVATE)
    check_keys(own, private, f"the party's own [cost] of kind {kind!r}")
    for name in private:
        need(own, "cost", name, f"this party's own, for a cost of kind {kind!r}")
        _check_numbers(own[name], name)
    known = {name: public[name] for name in others if name in public}
    rows = {name: [own[name]] for name in private}
    (cost,) = build({"kind": kind, **known, **rows}, rows[key])
    _check_size(cost, public)
    return cost


def _check_numbers(value: Any, name: str) -> None:
    """Refuse what is no number, without a word of what it is: it may be in a log."""
    if isinstance(value, list):
        for part in value:
            _check_numbers(part, name)
    elif is_number(value) and isinstance(value, int) and value.bit_length() > 1023:
        raise InvalidScenarioError(
            f"this party's own [cost] {name} has a number beyond 1e308: correct it"
        )
    elif not is_number(value):
        raise InvalidScenarioError(
            f"this party's own [cost] {name} must hold numbers only, found "
            f"{KINDS.get(type(value), 'something else')} among them; 0.5 is written "
            "with a point and without quotes"
        )


def _check_size(cost: Cost, public: Table) -> None:
    """Refuse a cost of another size than was agreed."""
    for key, what in (("dim", "variables"), ("degree", "as the degree")):
        found = getattr(cost.basis, key, None)
        if found != public.get(key, found):
            raise InvalidScenarioError(
                f"the parties agreed on {public[key]} {what}, and this party's cost "
                f"has {found}"
            )


def affine(section: Table, rows: Sequence[Any]) -> tuple[Cost, ...]:
    """Return affine costs, with the remainder that the section names."""
    forms: dict[str, Remainder] = {
        "none": NoRemainder(),
        "squared-norm": SquaredNorm(1.0),
    }
    chosen = {"remainder": "none", **section}
    remainder = forms[choice(chosen, "cost", "remainder", list(forms))]
    return tuple(Cost.affine(row, remainder=remainder) for row in rows)


def _polynomial(section: Table, rows: Sequence[Any]) -> tuple[Cost, ...]:
    dim = integer(section, "cost", "dim", 1)
    return tuple(Cost.polynomial(row, dim=dim) for row in rows)


def _quadratic(section: Table, rows: Sequence[Any]) -> tuple[Cost, ...]:
    vectors = entries(need(section, "cost", "vectors", "one vector per party"))
    if len(vectors) != len(rows):
        raise InvalidScenarioError(
            f"[cost] found {len(rows)} matrices and {len(vectors)} vectors"
        )
    return tuple(Cost.quadratic(p, q) for p, q in zip(rows, vectors, strict=True))


Build = Callable[[Table, Sequence[Any]], tuple[Cost, ...]]
# Each kind: the key with one entry per party, its other keys, its constructor.
COSTS: dict[str, tuple[str, tuple[str, ...], Build]] = {
    "affine": ("coefficients", ("remainder",), affine),
    "squared-distance": (
        *("targets", ()),
        lambda _, rows: tuple(Cost.squared_distance(row) for row in rows),
    ),
    "polynomial": ("coefficients", ("dim",), _polynomial),
    "quadratic": ("matrices", ("vectors",), _quadratic),
}
