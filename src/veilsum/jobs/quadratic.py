"""Quadratic programs whose costs are private: one sum, and everybody solves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from numpy.typing import ArrayLike, NDArray

from veilsum.core.arrays import Vector
from veilsum.core.costs import Cost
from veilsum.core.domains import Domain, WholeSpace
from veilsum.core.methods.one_shot import OneShot
from veilsum.core.remainders import NoRemainder
from veilsum.errors import InvalidInputError
from veilsum.jobs.recipes import Contribution, Sums
from veilsum.jobs.releases import Release
from veilsum.jobs.running import JobResult, run_job
from veilsum.jobs.terms import Options, Terms


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
        return self.method.solve(sums[0])

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
    made = {str(party): Cost.quadratic(p, q) for party, (p, q) in costs.items()}
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
        agreed={"quadratic program": [first.dim, type(where).__name__]},
    )
    return QuadraticResult(terms=terms, recipe=recipe, released=released)


def _contribution(coefficients: NDArray[Any]) -> Contribution:
    return Contribution(lambda _: coefficients, (coefficients,))
