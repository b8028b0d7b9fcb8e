"""A cost is private coefficients in a shared basis, plus a remainder.

h_i(x) = theta_i . phi(x) + rho_i(x). Phase I touches theta and nothing else.

What users give as functions is checked once, before anything is masked: a gradient is
compared with central differences of the value near the anchor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.masks.laws import MaskLaw
from veilsum.minimise.costs.bases import (
    Affine,
    Basis,
    Polynomial,
    Quadratic,
    check_cost_dimension,
    quadratic_coefficients as _quadratic_coefficients,
)
from veilsum.minimise.costs.differentiated import gradient_by_jax
from veilsum.minimise.costs.remainders import (
    CostRemainder,
    LocalGradient,
    NoRemainder,
    SquaredNorm,
    check_cost_gradient,
)
from veilsum.numbers.arrays import (
    Array,
    PartyRows,
    Vector,
    Vectors,
    as_float_vector,
    as_floats,
    frozen_array,
)
from veilsum.numbers.limbs import as_python_integers
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import Integers, numeric_unit_of

T = TypeVar("T")

Gradient = Callable[[Vector], Vector]
Value = Callable[[Vector], float]

# X'WX computed in floating point is symmetric to rounding only.
SYMMETRY_TOLERANCE = 1e-12

# Where value and gradient are compared: so far from the anchor. A forgotten term shows
# best far away; near by, functions are defined that are not everywhere.
RADII = (1.0, 0.1, 0.01, 0.0)
# Half the width of a central difference. Cutting off the third derivative costs about
# 1e-8 of a smooth slope, rounding about 1e-12 of the value.
WIDTH = 1e-4
# A slope may be off by this much of the gradient; a wrong formula is off by far more.
TOLERANCE = 1e-5
# A value is a sum of many terms, each of them rounded.
ROUNDING = 1e3 * float(np.finfo(np.float64).eps)
# Public, and the same for all: where costs are checked is no secret.
SEED = 2017


@dataclass(frozen=True, eq=False, repr=False)
class Cost(Secret):
    """One party's private cost. It never prints, and phase II never receives it.

    Build one with `affine`, `squared_distance`, `polynomial`, `quadratic`,
    `from_gradient` or `from_jax`. All of them take a `unit`, the same for all parties,
    such as 0.01: coefficients are rounded to whole numbers of it, once, so that equal
    sums of cents have equal bits and tell nobody who gave which.

    Attributes:
        unit: what coefficients are whole numbers of, if that was said.
        counts: how many of it each of them is, exactly; `coefficients` are as near as
            float64 comes.
        n_broken: how many of them were not whole, and were rounded.
        summed: what they come to in steps of a grid, where they are sums over rows
            whose terms are rounded one by one.
    """

    basis: Basis
    coefficients: Vector
    remainder: CostRemainder
    unit: Fraction | None = None
    counts: Integers | None = None
    n_broken: int = 0
    summed: Callable[[FixedPointGrid], Integers] | None = None

    def __post_init__(self) -> None:
        if self.coefficients.shape != (self.basis.size,):
            raise InvalidInputError(
                f"expected {self.basis.size} coefficients, "
                f"found {self.coefficients.size}",
                code="wrong-coefficient-count",
            )

    def counted(self, unit: object) -> Cost:
        """Return the cost with coefficients that are whole numbers of a unit.

        None leaves them as they are, and so does their own unit.
        """
        if (
            unit is None
            or (grid := FixedPointGrid(0, numeric_unit_of(unit))).unit == self.unit
        ):
            return self
        if self.summed is None:
            whole = as_python_integers(grid.quantise(self.coefficients))
        else:
            whole = self.summed(grid)
        rounded = grid.to_floats(whole)
        return replace(
            self,
            coefficients=frozen_array(rounded),
            unit=grid.unit,
            counts=whole,
            n_broken=int(np.count_nonzero(rounded != self.coefficients)),
        )

    def given(self, law: MaskLaw) -> Array[Any]:
        """Return what a law encodes: whole numbers where it counts in their unit."""
        if self.counts is None or self.unit != law.masks.rounding:
            return self.coefficients
        return self.counts

    @classmethod
    def affine(
        cls,
        coefficients: ArrayLike,
        *,
        remainder: CostRemainder | None = None,
        unit: object = None,
    ) -> Cost:
        """Return alpha'x + rho(x), with rho zero or a shared closed form."""
        alpha = _flat_cost_numbers(coefficients, what="affine coefficients")
        rho = NoRemainder() if remainder is None else remainder
        if np.any(rho.gradient(np.zeros_like(alpha))):
            raise InvalidInputError(
                "a remainder must have a zero gradient at the origin, or it keeps a "
                "part of the affine term unmasked; use Cost.from_gradient",
                code="remainder-gradient-at-origin",
            )
        return cls(Affine(alpha.size), frozen_array(alpha), rho).counted(unit)

    @classmethod
    def squared_distance(cls, target: ArrayLike, *, unit: object = None) -> Cost:
        """Return ||x - target||^2: the target is private, ||x||^2 is known to all.

        Its coefficients are -2 times the target.
        """
        point = _flat_cost_numbers(target, what="a target")
        with np.errstate(over="ignore"):  # refused as coefficients that are not finite
            doubled = -2.0 * point
        return cls.affine(doubled, remainder=SquaredNorm(1.0), unit=unit)

    @classmethod
    def polynomial(
        cls, coefficients: ArrayLike, *, dim: int = 1, unit: object = None
    ) -> Cost:
        """Return a polynomial without constant, its coefficients by rising degree.

        For x in R these are (c_1, ..., c_d) of c_1 x + ... + c_d x^d.
        """
        theta = _flat_cost_numbers(coefficients, what="polynomial coefficients")
        basis = Polynomial(dim, _degree_of_polynomial_cost(theta.size, dim))
        return cls(basis, theta, NoRemainder()).counted(unit)

    @classmethod
    def quadratic(
        cls, matrix: ArrayLike, vector: ArrayLike, *, unit: object = None
    ) -> Cost:
        """Return x'Px/2 + q'x with both P and q private."""
        square = np.atleast_2d(as_floats(matrix, what="the quadratic's matrix"))
        dim = square.shape[0]
        if square.shape != (dim, dim):
            raise InvalidInputError(
                f"the quadratic's matrix must be square, found shape {square.shape}",
                code="matrix-not-square",
            )
        gaps = np.abs(square - square.T)
        if gaps.max() > SYMMETRY_TOLERANCE * np.abs(square).max():
            row, column = divmod(int(gaps.argmax()), dim)
            raise InvalidInputError(
                "the quadratic's matrix must be symmetric, but its entry in row "
                f"{row}, column {column} differs from its mirror image; pass "
                "(P + P.T) / 2",
                code="matrix-not-symmetric",
            )
        square = 0.5 * (square + square.T)
        linear = as_float_vector(vector, dim=dim, what="the quadratic's vector")
        theta = _quadratic_coefficients(square, linear)
        return cls(Quadratic(dim), frozen_array(theta), NoRemainder()).counted(unit)

    @classmethod
    def from_gradient(
        cls,
        gradient: Callable[[Vector], Vector],
        *,
        dim: int,
        anchor: ArrayLike = 0.0,
        value: Callable[[Vector], float] | None = None,
        check: bool = True,
        unit: object = None,
    ) -> Cost:
        """Return the cost with this gradient, split at a public anchor x0.

        alpha = grad h(x0) is masked; what is left, grad h(x) - grad h(x0), is not.

        Args:
            gradient: of one point (dim,), a copy that it may change.
            dim: m, the dimension of x.
            anchor: x0, the same for all parties; one number stands for all of them.
            value: h itself, if at hand, for a check of the gradient; it is not kept.
            check: whether to compare the two, at a few public points near the anchor.
            unit: of alpha; what rounding takes off it is nowhere any more.
        """
        check_cost_dimension(dim)
        start = as_float_vector(anchor, dim=dim, what="the anchor")
        # A copy: some functions hand out one and the same array every time.
        alpha = frozen_array(check_cost_gradient(gradient, start).copy())
        if value is not None and check:
            _check_cost_value(gradient, value, start)
        rest = LocalGradient.split(gradient, alpha)
        return cls(Affine(dim), alpha, rest).counted(unit)

    @classmethod
    def from_jax(
        cls,
        function: Callable[[Any], Any],
        *,
        dim: int,
        anchor: ArrayLike = 0.0,
        unit: object = None,
    ) -> Cost:
        """Return the cost h written with jax.numpy, differentiated automatically.

        It is split at the anchor as by `from_gradient`. All of it is computed in 64
        bits, whatever the rest of the program has JAX do.

        Args:
            function: h, from one point (dim,) to one number. Data in it should be NumPy
                arrays: a JAX array made elsewhere has 32 bits and is refused.
            dim: m, the dimension of x.
            anchor: x0, the same for all parties; one number stands for all of them.
            unit: as for `from_gradient`.

        Raises:
            MissingExtraError: JAX is not installed.
        """
        gradient = gradient_by_jax(function, dim)
        return cls.from_gradient(gradient, dim=dim, anchor=anchor, unit=unit)

    @property
    def dim(self) -> int:
        """m, the dimension of x."""
        return self.basis.dim

    def gradient(self, x: Vectors) -> Vectors:
        """Return the private gradient; for references in simulations only."""
        return self.remainder.gradient(x) + self.basis.gradient(self.coefficients, x)


def _flat_cost_numbers(values: ArrayLike, *, what: str) -> Vector:
    """Return one party's numbers as a vector; a single number is a vector of one."""
    array = as_floats(values, what=what)
    if array.ndim > 1:
        raise InvalidInputError(
            f"{what} must be one party's list of numbers, found shape {array.shape}",
            code="not-a-vector",
        )
    return np.atleast_1d(array)


def _degree_of_polynomial_cost(size: int, dim: int) -> int:
    """Return the degree whose monomials number `size`."""
    check_cost_dimension(dim)
    degree = 1
    while comb(dim + degree, degree) - 1 < size:
        degree += 1
    if comb(dim + degree, degree) - 1 != size:
        raise InvalidInputError(
            f"{size} coefficients fit no polynomial in {dim} variables; degree "
            f"{degree} takes {comb(dim + degree, degree) - 1}",
            code="coefficients-fit-no-polynomial",
        )
    return degree


def common_basis(costs: Mapping[str, Cost]) -> Basis:
    """Return the basis all costs share; name every party that differs."""
    bases = {party: cost.basis for party, cost in costs.items()}
    return _common_to_all_costs(bases, "share one basis", "has", _cost_basis_in_words)


def common_unit(costs: Mapping[str, Cost]) -> Fraction | None:
    """Return the unit that all costs count in, if they do; name who differs."""
    units = {party: cost.unit for party, cost in costs.items()}
    return _common_to_all_costs(
        units, "count in one unit", "counts in", lambda u: str(u or "none")
    )


def _common_to_all_costs(
    held: Mapping[str, T], wanted: str, verb: str, words: Callable[[T], str]
) -> T:
    """Return what all parties have; name every one that has something else."""
    most = Counter(held.values()).most_common(1)[0][0]
    odd = [f"{party} {verb} {words(one)}" for party, one in held.items() if one != most]
    if odd:
        raise InvalidInputError(
            f"all costs must {wanted}, {words(most)} for most parties, "
            f"but {'; '.join(odd)}",
            code="costs-differ",
        )
    return most


def _cost_basis_in_words(basis: Basis) -> str:
    name = type(basis).__name__.lower()
    return f"{name} in dimension {basis.dim} with {basis.size} coefficients"


def cost_coefficient_rows(costs: Sequence[Cost]) -> PartyRows:
    """Return A: one row of private coefficients per party."""
    return np.stack([cost.coefficients for cost in costs])


@dataclass(frozen=True)
class _GradientComparison:
    """One slope, by both functions, and how far apart the two could be.

    Attributes:
        by_value: the slope by differences of the value.
        by_gradient: the same by the gradient.
        smooth: how far apart what differences leave out could put the two.
    """

    radius: float
    by_value: float
    by_gradient: float
    smooth: float
    size: float
    width: float

    def allowed(self, size: float) -> float:
        """Return how far apart the two could be, where values of a size are rounded."""
        return self.smooth + ROUNDING * size / self.width

    @property
    def gap(self) -> float:
        return abs(self.by_value - self.by_gradient)

    @property
    def relative(self) -> float:
        return self.gap / max(abs(self.by_value), abs(self.by_gradient))


def _check_cost_value(gradient: Gradient, value: Value, anchor: Vector) -> None:
    """Refuse a gradient that is not the value's, by central differences near x0."""
    shape = np.shape(np.asarray(value(anchor.copy())))
    if shape not in {(), (1,)}:
        raise InvalidInputError(
            f"the value must be one number, found shape {shape}",
            code="value-not-scalar",
        )
    checkable = list(_compare_cost_gradients(gradient, value, anchor))
    if not checkable:
        raise InvalidInputError(
            "value and gradient could not be compared: at no point that was tried near "
            "the anchor do both give finite numbers; choose another anchor, or pass "
            "check=False",
            code="value-not-comparable",
        )
    # Next to an optimum a value may be tiny; what it is made of is rounded, and is not.
    size = max(seen.size for seen in checkable)
    for seen in checkable:
        if not seen.gap <= seen.allowed(size):
            raise InvalidInputError(
                "the gradient is not that of the value: in one direction, at "
                f"{seen.radius:g} from the anchor, the value rises by "
                f"{seen.by_value:.9g} and the gradient says {seen.by_gradient:.9g}, a "
                f"relative error of {seen.relative:.2g}; correct one of them, or pass "
                "check=False",
                code="gradient-not-of-value",
            )


def _compare_cost_gradients(
    gradient: Gradient, value: Value, anchor: Vector
) -> Iterator[_GradientComparison]:
    size = max(1.0, float(np.linalg.norm(anchor)))
    stream = np.random.default_rng(SEED)
    for radius in RADII:
        drawn = stream.standard_normal((2, anchor.size))
        away, along = (one / np.linalg.norm(one) for one in drawn)
        point = anchor + radius * size * away
        try:
            # Outside its domain a function may warn, raise or return nan.
            with np.errstate(all="ignore"):
                found = _compare_cost_gradient(
                    gradient, value, point, along, radius * size
                )
        except (ArithmeticError, ValueError):
            continue
        yield found


def _compare_cost_gradient(
    gradient: Gradient, value: Value, point: Vector, along: Vector, radius: float
) -> _GradientComparison:
    slope = check_cost_gradient(gradient, point)
    width = WIDTH * max(1.0, float(np.linalg.norm(point)))
    narrow, size = _cost_difference_quotient(value, point, width * along, width)
    wide, _ = _cost_difference_quotient(value, point, 2.0 * width * along, 2.0 * width)
    smooth = TOLERANCE * (float(np.linalg.norm(slope)) + abs(narrow))
    smooth += abs(wide - narrow)
    return _GradientComparison(
        radius, narrow, float(slope @ along), smooth, size, width
    )


def _cost_difference_quotient(
    value: Value, point: Vector, step: Vector, width: float
) -> tuple[float, float]:
    ends = [float(np.asarray(value(x)).item()) for x in (point + step, point - step)]
    if not np.isfinite(ends).all():
        raise ArithmeticError("the value is not defined on both sides of the point")
    return (ends[0] - ends[1]) / (2.0 * width), max(map(abs, ends))
