"""The costs that a file's [cost] describes: all parties', or one party's own."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Annotated, Any, Literal

from msgspec import Meta

from veilsum.errors import InvalidScenarioError
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.cost import Cost, common_basis
from veilsum.minimise.costs.remainders import CostRemainder, NoRemainder, SquaredNorm
from veilsum.numbers.arrays import is_real_number
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import numeric_unit_of
from veilsum.reading import (
    KINDS,
    Entries,
    Section,
    Table,
    Whole,
    about_read_section,
    check_read_keys,
    missing_key_error,
)

Kind = Literal["affine", "squared-distance", "polynomial", "quadratic"]
Form = Literal["none", "squared-norm"]
FORMS: dict[Form, CostRemainder] = {
    "none": NoRemainder(),
    "squared-norm": SquaredNorm(1.0),
}
Unit = Annotated[
    int | float | str,
    Meta(description='a number such as 0.01, or a text such as "1/8" or "2 decimals"'),
]
# What of a [cost] only its party knows: every key there is, and those of each kind.
PRIVATE = ("coefficients", "targets", "matrices", "vectors")
OWN: dict[Kind, tuple[str, ...]] = {
    "affine": ("coefficients",),
    "squared-distance": ("targets",),
    "polynomial": ("coefficients",),
    "quadratic": ("matrices", "vectors"),
}
# More numbers than any run can mask and send; counted before one of them is made. Of a
# polynomial, every coefficient's exponents are held too.
MOST_COEFFICIENTS, MOST_EXPONENTS = 10**6, 10**7


class PublicCost(Section, frozen=True, kw_only=True):
    """Public part of the parties' costs.

    Attributes:
        remainder: the part that is not masked; by default `none`.
        unit: unit of which coefficients are whole multiples.
    """

    kind: Kind
    dim: Annotated[
        int,
        Meta(description="how many variables there are, the same for everybody"),
    ]
    remainder: Form | None = None
    degree: Whole | None = None
    unit: Unit | None = None

    def __post_init__(self) -> None:
        _check_agreed_cost_unit(self.unit)
        known = {"affine": ("remainder", "dim"), "polynomial": ("dim", "degree")}
        keys = ("kind", *known.get(self.kind, ("dim",)), "unit")
        check_read_keys(self.given(), keys, f"[cost] of kind {self.kind!r}")
        for key in ("dim", "degree"):
            if self.given().get(key, 1) < 1:
                raise InvalidScenarioError(
                    f"[cost] {key} must be at least 1", code="not-positive"
                )
        width = self.dim + (self.degree or 2) if self.kind == "polynomial" else 1
        if self.size > MOST_COEFFICIENTS or self.size * width > MOST_EXPONENTS:
            raise InvalidScenarioError(
                f"[cost] would have {min(self.size, 10**300):.1e} coefficients or "
                f"more for each party, and {MOST_COEFFICIENTS:,} is the most, for a "
                f"polynomial {MOST_EXPONENTS:,} exponents: use fewer variables",
                code="too-many-coefficients",
            )

    @property
    def size(self) -> int:
        if self.kind == "quadratic":
            return self.dim * (self.dim + 3) // 2
        if self.kind == "polynomial":
            # A higher degree than the bound has at least as many in one variable.
            degree = min(self.degree or 2, MOST_COEFFICIENTS + 1)
            few, many = sorted((self.dim, degree))
            if few > 64:  # beyond every bound, and long to compute
                return MOST_COEFFICIENTS + 1
            return comb(few + many, few) - 1
        return self.dim

    def own_cost(self, entries: Table) -> Cost:
        """Return one party's cost from its own entries.

        Each stands under the key that holds all parties' in a scenario.
        """
        private = OWN[self.kind]
        check_read_keys(
            entries, private, f"the party's own [cost] of kind {self.kind!r}"
        )
        for key in private:
            if key not in entries:
                why = f"this party's own, for a cost of kind {self.kind!r}"
                raise missing_key_error("[cost]", key, why)
            _check_agreed_cost_numbers(entries[key], key)
        made = _agreed_cost(
            self.kind, self.remainder, self.dim, *(entries[key] for key in private)
        )
        cost = made.counted(self.unit)
        for key, what in (("dim", "variables"), ("degree", "as the degree")):
            found = getattr(cost.basis, key, None)
            if found != self.given().get(key, found):
                raise InvalidScenarioError(
                    f"the parties agreed on {getattr(self, key)} {what}, and this "
                    f"party's cost has {found}",
                    code="cost-not-agreed",
                )
        return cost

    def stand_in(self) -> dict[str, Any]:
        """Return entries of this kind and size that are nobody's."""
        zeros = [0.0] * self.dim
        if self.kind == "quadratic":
            span = range(self.dim)
            matrix = [[float(i == j) for j in span] for i in span]
            return {"matrices": matrix, "vectors": zeros}
        if self.kind == "polynomial":
            return {"coefficients": [0.0] * self.size}
        return {OWN[self.kind][0]: zeros}


class CostSection(Secret, Section, frozen=True, kw_only=True):
    """A scenario's [cost]: what is public of it, and every party's own entries."""

    kind: Kind
    coefficients: Entries | None = None
    remainder: Form | None = None
    targets: Entries | None = None
    dim: Whole | None = None
    matrices: Entries | None = None
    vectors: Entries | None = None
    unit: Unit | None = None

    def __post_init__(self) -> None:
        _check_agreed_cost_unit(self.unit)

    def costs(self, topology: Topology) -> tuple[Cost, ...]:
        public = {"affine": ("remainder",), "polynomial": ("dim",)}.get(self.kind, ())
        return self._costs(topology, public)

    def _costs(self, topology: Topology, public: Sequence[str]) -> tuple[Cost, ...]:
        private = OWN[self.kind]
        known = ("kind", *private, *public, "unit")
        check_read_keys(self.given(), known, f"[cost] of kind {self.kind!r}")
        for key in private:
            if getattr(self, key) is None:
                raise missing_key_error("[cost]", key, "one entry for each party")
        rows = [getattr(self, key) for key in private]
        if len(rows[0]) != topology.n_parties:
            raise InvalidScenarioError(
                f"[cost] {private[0]} must have one entry for each of "
                f"{topology.n_parties} parties, found {len(rows[0])}",
                code="entries-not-per-party",
            )
        if len(rows[-1]) != len(rows[0]):
            raise InvalidScenarioError(
                f"[cost] found {len(rows[0])} matrices and {len(rows[-1])} vectors",
                code="cost-counts-differ",
            )
        return tuple(
            _agreed_cost(self.kind, self.remainder, self.dim, *own).counted(self.unit)
            for own in zip(*rows, strict=True)
        )

    def public(self, topology: Topology) -> dict[str, Any]:
        """Return what everybody may know; the size is read off the entries, if any."""
        found = {key: v for key, v in self.given().items() if key not in PRIVATE}
        if getattr(self, OWN[self.kind][0]) is None:
            return found
        with about_read_section("cost"):
            costs = self._costs(topology, ("remainder", "dim"))
            basis = common_basis(dict(zip(topology.parties, costs, strict=True)))
        for key in ("dim", "degree"):
            size = getattr(basis, key, None)
            if size is not None and found.setdefault(key, size) != size:
                raise InvalidScenarioError(
                    f"[cost] {key} is {found[key]!r}, and the entries have {size}",
                    code="wrong-dimension",
                )
        return found


def _agreed_cost(kind: Kind, form: Form | None, dim: int | None, *own: Any) -> Cost:
    match kind:
        case "affine":
            return Cost.affine(*own, remainder=FORMS[form or "none"])
        case "squared-distance":
            return Cost.squared_distance(*own)
        case "polynomial":
            return Cost.polynomial(*own, dim=1 if dim is None else dim)
        case "quadratic":
            return Cost.quadratic(*own)


def _check_agreed_cost_unit(given: object) -> None:
    if given is not None:
        with about_read_section("cost"):
            numeric_unit_of(given)


def _check_agreed_cost_numbers(value: Any, name: str) -> None:
    """Refuse what is no number, without a word of what it is: it may be in a log."""
    if isinstance(value, list):
        for part in value:
            _check_agreed_cost_numbers(part, name)
    elif is_real_number(value) and isinstance(value, int) and value.bit_length() > 1023:
        raise InvalidScenarioError(
            f"this party's own [cost] {name} has a number beyond 1e308: correct it",
            code="number-too-large",
        )
    elif not is_real_number(value):
        raise InvalidScenarioError(
            f"this party's own [cost] {name} must hold numbers only, found "
            f"{KINDS.get(type(value), 'something else')} among them; 0.5 is written "
            "with a point and without quotes",
            code="not-numbers",
        )
