"""Quadratic programs whose costs are private: one sum, and everybody solves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, RangeError
from veilsum.graphs.topology import Topology
from veilsum.locale import LocaleLine
from veilsum.masks.fixed_point import FixedPointGrid, grid_bits_of_deviation
from veilsum.minimise.costs.bases import Quadratic
from veilsum.minimise.costs.cost import Cost, cost_coefficient_rows
from veilsum.minimise.costs.domains import Domain, WholeSpace
from veilsum.minimise.methods.one_shot import FLAT
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.question import Minimise, draw_minimiser, plain_cost_value
from veilsum.models.plausible import check_plausible_sizes
from veilsum.numbers.arrays import Vector
from veilsum.numbers.layout import NumberLayout, layout_array
from veilsum.numbers.limbs import as_python_integers
from veilsum.numbers.units import few_decimals_unit, numeric_unit_of, power_of_two_unit
from veilsum.privacy.guarantee import Guarantee
from veilsum.showing import Rendering, counted_words, numbers_in_line
from veilsum.sums.recipes import SumContribution, Sums
from veilsum.sums.releases import (
    BY_PARTY,
    SumRelease,
    released_lines_by_piece,
    with_releases,
)
from veilsum.sums.running import SumJobResult, run_sum_job
from veilsum.sums.terms import SumOptions, SumTerms, parties_data_by_name

# Everybody solves the same sum: answers may differ by rounding.
AGREE = 1e-9
# What coefficients are whole numbers of where nobody said: as fine as three words allow
# for all that they may be, and as masks of a sigma can be drawn.
FINEST, BELOW_SIGMA, TOTAL_BITS = Fraction(1, 2**96), 60, 192
# Steps that a share spans at least.
FINE_BITS = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class QuadraticProgram(Minimise):
    """The coefficients of all costs, added up; the minimiser of the sum.

    Attributes:
        grid: what coefficients are whole numbers of, in steps fine enough for masks.
    """

    grid: FixedPointGrid
    reach: int
    layout: NumberLayout

    def check_sum(self, sums: Sums) -> None:
        """Refuse coefficients beyond the range of all parties together."""
        check_plausible_sizes(self.layout.counts, sums[-1])

    def contribution(self, party: str, cost: Cost) -> SumContribution:
        """Return one party's coefficients as whole numbers; or refuse."""
        assert cost.counts is not None
        whole = as_python_integers(self.grid.quantise(cost.counts))
        if any(abs(one) > self.reach for one in whole):
            largest = float(self.reach * self.grid.exact_step)
            beyond = f"a coefficient is beyond the range of {largest:.6g}"
            raise RangeError(
                f"{party}: {beyond}: correct it, or agree on a larger one or unit",
                plain=f"{beyond}; agree on a larger one, or on a larger unit",
                code="value-out-of-range",
            )
        return SumContribution(lambda _: whole, (cost.coefficients,))

    def answer(self, sums: Sums) -> Vector:
        total = self.layout.counts.values(sums[0])
        self.check(total)
        return super().answer((total,))

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
                f"{values[0]:.3g}; single costs may bend down, their sum must not",
                code="sum-not-convex",
            )
        flat = vectors[:, values <= rounding]
        falling = np.abs(flat.T @ slope).max(initial=0.0) > FLAT * np.abs(slope).max()
        if falling and not self.domain.is_bounded:
            raise InvalidInputError(
                "the sum of all costs falls without end in some direction: give a "
                "bounded domain, or costs that bend up everywhere",
                code="sum-unbounded",
            )

    def release(self, sums: Sums) -> SumRelease:
        del sums
        return SumRelease.from_layout("quadratic program", self.layout)

    def stated(self, promise: Guarantee, releases: Sequence[SumRelease]) -> Guarantee:
        """Return what holds: nothing of these costs is left unmasked."""
        return with_releases(promise, releases, whole=True, wording=BY_PARTY)

    def shown(
        self, members: tuple[str, ...], releases: Sequence[SumRelease]
    ) -> tuple[LocaleLine, ...]:
        return released_lines_by_piece([members], releases)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class QuadraticResult(SumJobResult):
    """The minimiser of a sum of quadratic costs.

    Attributes:
        rounded: how many coefficients of each party that is here were not whole numbers
            of the unit, and were rounded to it; for their owner's eyes.
    """

    rounded: Mapping[str, int]

    @property
    def minimiser(self) -> Vector:
        """Where the sum is least."""
        return self.answer

    def answered(self) -> Rendering:
        """Return the minimiser, to be seen."""
        many = counted_words(len(self.released.members), "cost")
        title = (
            f"Minimiser of the sum of {many}: {numbers_in_line(self.answer.tolist())}"
        )
        if not any(self.rounded.values()):
            return Rendering(title)
        return Rendering(
            title, ["Coefficients were rounded to the unit: see .rounded."]
        )

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the coordinates of the minimiser."""
        return draw_minimiser(
            figures, self, title, "The minimiser of the summed quadratic costs"
        )


def quadratic_program(
    costs: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    domain: Domain | None = None,
    unit: object = None,
    **options: Unpack[SumOptions],
) -> QuadraticResult:
    """Return the minimiser of sum_i x'P_i x / 2 + q_i'x over a public domain.

    Args:
        costs: P and q of each party; single ones need not be convex, the sum must be.
        domain: a box, half-spaces, or another one; by default everything.
        unit: what entries of P and q are rounded to whole numbers of, such as 0.01, so
            that equal sums have equal bits. Without one a simulation takes the decimals
            that all of them have; real parties count in a power of two, 2^-96 or for
            `lattice` 2^-60 of sigma.
        options: how to sum; see `SumOptions`.
    """
    made = {
        name: Cost.quadratic(p, q)
        for name, (p, q) in parties_data_by_name(costs).items()
    }
    dims = {cost.dim for cost in made.values()}
    if len(dims) != 1:
        raise InvalidInputError(
            f"all parties' costs have one dimension, found {sorted(dims)}",
            code="dimension-differs",
        )
    first = next(iter(made.values()))
    where = domain or WholeSpace(first.dim)
    chosen = (
        _unit_of_quadratic_costs(made, options)
        if unit is None
        else numeric_unit_of(unit)
    )
    sigma, grid = cast("float | None", options.get("sigma")), FixedPointGrid(0, chosen)
    if sigma is not None:
        # One sigma is the same in all directions of P, as it is for a single cost.
        widths = Quadratic(first.dim).widths
        options["sigma"] = sigma * widths
        fine = grid_bits_of_deviation(sigma / float(chosen), 2**FINE_BITS)
        grid = FixedPointGrid(max(0, fine), chosen)
    graph = options.get("topology")
    n = graph.n_parties if isinstance(graph, Topology) else len(made)
    reach = (2 ** (TOTAL_BITS - 1) - 1) // n
    if (largest := options.get("largest")) is not None:
        reach = min(reach, int(Fraction(largest) / grid.exact_step))
    bits = (n * reach).bit_length() + 1
    held = {name: cost.counted(chosen) for name, cost in made.items()}
    size, step = first.basis.size, grid.exact_step
    layout = NumberLayout((layout_array("cost_coefficients", size, step, bits),))
    terms = SumTerms.of(list(made), counts=layout.counts, options=options)
    recipe = QuadraticProgram(
        basis=first.basis,
        domain=where,
        remainders={name: cost.remainder for name, cost in made.items()},
        law=terms.law,
        settings=Settings(method="one-shot", tolerance=AGREE),
        grid=grid,
        reach=reach,
        layout=layout,
    )
    released = run_sum_job(
        recipe,
        {name: recipe.contribution(name, cost) for name, cost in held.items()},
        terms,
        agreed={
            "quadratic": [first.dim, plain_cost_value(where)],
            "unit": str(chosen),
        },
    )
    return QuadraticResult(
        terms=terms,
        recipe=recipe,
        released=released,
        rounded={name: cost.n_broken for name, cost in held.items()},
    )


def _unit_of_quadratic_costs(
    costs: Mapping[str, Cost], options: SumOptions
) -> Fraction:
    """Return what coefficients count in where nobody said."""
    found = None
    if getattr(options.get("driver"), "party", None) is None:
        found = few_decimals_unit(cost_coefficient_rows(list(costs.values())))
    if found is not None:
        return found
    sigma = cast("float | None", options.get("sigma"))
    if sigma is None:
        return FINEST
    return max(FINEST, power_of_two_unit(Fraction(sigma), BELOW_SIGMA))
