"""Quadratic programs whose costs are private: one sum, and everybody solves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from veilsum.costs.cost import Cost
from veilsum.costs.domains import Domain, WholeSpace
from veilsum.costs.remainders import NoRemainder
from veilsum.errors import InvalidInputError
from veilsum.jobs.parties import by_name
from veilsum.jobs.recipes import Contribution, Sums
from veilsum.jobs.releases import Release
from veilsum.jobs.running import JobResult, run_job
from veilsum.jobs.terms import Options, Terms
from veilsum.methods.one_shot import FLAT, OneShot
from veilsum.numbers.arrays import Array, Vector


@dataclass(frozen=True)
class QuadraticRecipe:
    """The coefficients of all costs, added up; the minimiser of the sum."""

    method: OneShot

    @property
    def size(self) -> int:
        """As many as a quadratic form has."""
        return self.method.basis.size

    @property
    def answer_size(self) -> int:
        """The dimension."""
        return self.method.basis.dim

    def request(self, sums: Sums) -> str | None:
        """Ask for coefficients, once."""
        return None if sums else "coefficients"

    def answer(self, sums: Sums) -> Vector:
        """Return the minimiser within the domain."""
        self.check(sums[0])
        return self.method.solve(sums[0])

    def check(self, total: Vector) -> None:
        """Refuse a sum of costs that has no single lowest point to be found."""
        gradient, dim = self.method.gradient(total), self.answer_size
        slope = gradient(np.zeros(dim))
        matrix = np.stack([gradient(unit) - slope for unit in np.eye(dim)])
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
        rounding = FLAT * max(abs(values[-1]), abs(values[0]))
        if values[0] < -rounding:
            raise InvalidInputError(
                "the sum of all costs is not convex: its least curvature is "
                f"{values[0]:.3g}; single costs may bend down, their sum must not"
            )
        flat = vectors[:, values <= rounding]
        falling = np.abs(flat.T @ slope).max(initial=0.0) > FLAT * np.abs(slope).max()
        if falling and not self.method.domain.is_bounded:
            raise InvalidInputError(
                "the sum of all costs falls without end in some direction: give a "
                "bounded domain, or costs that bend up everywhere"
            )

    def release(self, sums: Sums) -> Release:
        """Return what the sum shows."""
        del sums
        return Release("quadratic program", {"coefficients of the costs": self.size})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class QuadraticResult(JobResult):
    """The minimiser of a sum of quadratic costs."""

    @property
    def minimiser(self) -> Vector:
        """Where the sum is least."""
        return self.answer


def quadratic_program(
    costs: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    domain: Domain | None = None,
    **options: Unpack[Options],
) -> QuadraticResult:
    """Return the minimiser of sum_i x'P_i x / 2 + q_i'x over a public domain.

    Args:
        costs: P and q of each party; single ones need not be convex, the sum must be.
        domain: a box, half-spaces, or another one; by default everything.
        options: how to sum; see `Options`.
    """
    made = {name: Cost.quadratic(p, q) for name, (p, q) in by_name(costs).items()}
    dims = {cost.dim for cost in made.values()}
    if len(dims) != 1:
        raise InvalidInputError(
            f"all parties' costs have one dimension, found {sorted(dims)}"
        )
    first = next(iter(made.values()))
    where = domain or WholeSpace(first.dim)
    recipe = QuadraticRecipe(OneShot(first.basis, NoRemainder(), len(made), where))
    terms = Terms.of(list(made), options=options)
    released = run_job(
        recipe,
        {party: _contribution(cost.coefficients) for party, cost in made.items()},
        terms,
        agreed={"quadratic program": [first.dim, _described(where)]},
    )
    return QuadraticResult(terms=terms, recipe=recipe, released=released)


def _contribution(coefficients: Array[Any]) -> Contribution:
    return Contribution(lambda _: coefficients, (coefficients,))


def _described(domain: Domain) -> list[Any]:
    """Return what parties compare of a domain: its kind and its numbers."""
    held = {one.name: getattr(domain, one.name) for one in fields(cast(Any, domain))}
    numbers = {key: np.asarray(value).tolist() for key, value in held.items()}
    return [type(domain).__name__, numbers]
