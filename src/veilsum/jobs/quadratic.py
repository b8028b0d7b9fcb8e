"""Quadratic programs whose costs are private: one sum, and everybody solves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from veilsum.costs.cost import Cost
from veilsum.costs.domains import Domain, WholeSpace
from veilsum.errors import InvalidInputError
from veilsum.jobs.minimise import Minimise, plain_value
from veilsum.jobs.recipes import Sums
from veilsum.jobs.releases import Release, shown_of, with_releases
from veilsum.jobs.running import JobResult, run_job
from veilsum.jobs.terms import Options, Terms, by_name
from veilsum.methods.one_shot import FLAT
from veilsum.methods.settings import Settings
from veilsum.numbers.arrays import Vector
from veilsum.privacy.guarantee import Guarantee

# Everybody solves the same sum: answers may differ by rounding.
AGREE = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class QuadraticProgram(Minimise):
    """The coefficients of all costs, added up; the minimiser of the sum."""

    def answer(self, sums: Sums) -> Vector:
        """Return the minimiser within the domain."""
        self.check(sums[0])
        return super().answer(sums)

    def check(self, total: Vector) -> None:
        """Refuse a sum of costs that has no single lowest point to be found."""
        gradient, dim = self.one_shot.gradient(total), self.answer_size
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
        if falling and not self.domain.is_bounded:
            raise InvalidInputError(
                "the sum of all costs falls without end in some direction: give a "
                "bounded domain, or costs that bend up everywhere"
            )

    def release(self, sums: Sums) -> Release:
        """Return what the sum shows."""
        del sums
        return Release("quadratic program", {"coefficients of the costs": self.size})

    def stated(self, promise: Guarantee, releases: Sequence[Release]) -> Guarantee:
        """Return what holds: nothing of these costs is left unmasked."""
        return with_releases(promise, releases)

    def shown(
        self, members: tuple[str, ...], releases: Sequence[Release]
    ) -> tuple[str, ...]:
        """Return in words what the sum shows."""
        return shown_of([members], releases)


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
    terms = Terms.of(list(made), options=options)
    recipe = QuadraticProgram.of(
        first.basis,
        {name: cost.remainder for name, cost in made.items()},
        topology=terms.topology,
        law=terms.law,
        domain=where,
        settings=Settings(method="one-shot", tolerance=AGREE),
    )
    released = run_job(
        recipe,
        {name: recipe.contribution(name, cost) for name, cost in made.items()},
        terms,
        agreed={"quadratic program": [first.dim, plain_value(where)]},
    )
    return QuadraticResult(terms=terms, recipe=recipe, released=released)
